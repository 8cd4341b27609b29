"""Named test problems with right values, shared by every solver's tests."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

CASES = Path(__file__).parent / "cases" / "regression.json"

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
]


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
    path = os.environ.get("IBRELU_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), "")
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
