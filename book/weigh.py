"""Weigh the built site, and time it on a slow processor: `python book/weigh.py SITE REPORT`.

For each page: what it loads, gzipped, and how much of that is its own; its heaviest explorer; and,
on a processor four times slower than this one, the seconds until every slider answers, until the
page can be used (formulas stand in their font, all is loaded), and until the theme's menus answer
too (medians of three visits). The table goes to REPORT.txt, the numbers to REPORT.json.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from browser import FLAGS, find_chromium

# Bytes, gzipped: all that a page loads; what of it is the page and its pictures; one explorer.
PAGE, CONTENT, EXPLORER = 1_500_000, 500_000, 100_000
SECONDS = 2.5  # until a page can be used, at a quarter of the speed
SLOWER = 4
FIGURE = re.compile(r'<figure class="ibrelu-explorer" id="([^"]+)".*?</figure>', re.DOTALL)
VISITS = 3
ANSWERS = """() => document.readyState !== "loading" &&
  [...document.querySelectorAll(".ibrelu-explorer")].every((e) => e.dataset.ready === "yes") &&
  performance.now()"""
USABLE = """() => document.readyState === "complete" &&
  document.fonts.status === "loaded" && performance.now()"""
MENUS = """() => document.documentElement.dataset.loaded === "pydata-sphinx-theme" &&
  performance.now()"""
TIMES = {"answers": ANSWERS, "usable": USABLE, "menus": MENUS}


@cache
def weight(file: Path) -> int:
    """Return a file's gzipped bytes, 0 for a folder."""
    return len(gzip.compress(file.read_bytes(), 6)) if file.is_file() else 0


def own_weight(site: Path, loaded: set[str]) -> int:
    """Return the gzipped bytes of what belongs to one page alone: its text and its pictures."""
    own = [name for name in loaded if not name.startswith("_static/") and name != "searchindex.js"]
    return sum(weight(site / name) for name in own)


def explorers(file: Path) -> dict[str, int]:
    """Return the gzipped bytes of each explorer of a page."""
    found = FIGURE.finditer(file.read_text("utf-8"))
    return {figure[1]: len(gzip.compress(figure[0].encode(), 6)) for figure in found}


def visit(browser: Any, address: str, loaded: set[str]) -> dict[str, float]:
    """Open a page on a slow processor; add what it asks for to `loaded`."""
    page = browser.new_page()
    page.on("request", lambda request: loaded.add(request.url))
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    page.goto(address, wait_until="commit")
    times = {
        name: page.wait_for_function(check, timeout=60_000).json_value() / 1000
        for name, check in TIMES.items()
    }
    page.close()
    return times


def measure(browser: Any, site: Path, name: str) -> dict[str, Any]:
    """Visit a page, and weigh what it loads."""
    base, asked = site.as_uri() + "/", set[str]()
    visits = [visit(browser, base + name, asked) for _ in range(VISITS)]
    inside = {url for url in asked if url.startswith(base)}
    loaded = {url.removeprefix(base).partition("?")[0] for url in inside}
    return {
        "page": name,
        "bytes": sum(weight(site / file) for file in loaded),
        "own": own_weight(site, loaded),
        "explorers": explorers(site / name),
        **{key: round(median(times[key] for times in visits), 2) for key in visits[0]},
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Write the report for people."""
    heads = ["kB", "own", "explorer", "answers s", "usable s", "menus s"]
    lines = ["".join(f"{head:>11}" for head in heads) + "  page"]
    for row in rows:
        heaviest = max(row["explorers"].values(), default=0) / 1000
        over = " <-- slow" if row["usable"] > SECONDS else ""
        lines.append(
            f"{row['bytes'] / 1000:11.0f}{row['own'] / 1000:11.0f}{heaviest:11.0f}"
            f"{row['answers']:11.2f}{row['usable']:11.2f}{row['menus']:11.2f}"
            f"  {row['page']}{over}"
        )
    return "\n".join(lines) + "\n"


def main(site: str, report: str) -> int:
    """Measure every page."""
    from playwright.sync_api import sync_playwright

    root = Path(site).resolve()
    names = sorted(p.relative_to(root).as_posix() for p in root.glob("book/**/*.html"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        rows = [measure(browser, root, name) for name in names]
        browser.close()
    text = table(rows)
    Path(f"{report}.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    Path(f"{report}.txt").write_text(text, encoding="utf-8")
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
