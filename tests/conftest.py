"""Named test problems with right values, shared by every solver's tests."""

import json
import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from browser import FLAGS, find_chromium

SITE = Path(__file__).resolve().parent.parent / "_build" / "html"
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


@pytest.fixture(scope="session")
def address():
    """Serve the site from this machine."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
