"""The Chromium of this machine: the tests and the PDF use the same one."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
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


def find_chromium() -> str:
    """Return its path, or the empty string; IBRELU_CHROMIUM overrides the search."""
    found = filter(None, map(shutil.which, NAMES))
    return os.environ.get("IBRELU_CHROMIUM") or next(found, "")
