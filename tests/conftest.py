"""Named test problems with right values, shared by every solver's tests."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from browser import FLAGS, find_chromium

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


@pytest.fixture(scope="session")
def chromium():
    """One browser for the session: playwright cannot be started twice in a process."""
    path = find_chromium()
    if not path:
        reason = "THE BROWSER TESTS WERE NOT RUN: no Chromium found; install it (`chromium`)"
        if os.environ.get("IBRELU_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()
