"""Named test problems with right values, shared by every solver's tests."""

import json
from pathlib import Path

import numpy as np
import pytest

CASES = Path(__file__).parent / "cases" / "regression.json"


@pytest.fixture(scope="session")
def cases():
    """Small regression problems with limits, pattern changes, minimum norms and gaps.

    Found by plain loops, enumeration and an independent solver. Each is a dict; lists of numbers
    are arrays.
    """
    return [
        {key: np.array(value) if isinstance(value, list) else value for key, value in case.items()}
        for case in json.loads(CASES.read_text())
    ]
