"""Show in a lecture what a chapter shows: its explorers and figures, as they are stored there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
from IPython.display import HTML

BOOK = Path(__file__).resolve().parents[2]


def show(chapter: str, name: str) -> HTML:
    """Return a chapter's explorer (by its title) or figure (by its name, fig-…)."""
    notebook = nbformat.read(BOOK / f"{chapter}.ipynb", as_version=4)
    found = {key: html for cell in notebook.cells for key, html in _shown(cell)}
    if name not in found:
        raise LookupError(f"{chapter} shows no {name!r}; it shows {sorted(found)}")
    return HTML(found[name])


def _shown(cell: Any) -> list[tuple[str, str]]:
    """Names and HTML of the explorers and figures among a cell's outputs."""
    pairs = []
    told = cell.metadata.get("mystnb", {})
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        html = data.get("text/html", "")
        if title := re.search(r'<figure class="ibrelu-explorer"[^>]* aria-label="([^"]*)"', html):
            pairs.append((title[1], html))
        elif "image/png" in data and "figure" in told:
            alt = told["image"]["alt"].replace('"', "&quot;")
            image = f'<img class="figure" alt="{alt}" src="data:image/png;base64,'
            pairs.append((told["figure"]["name"], image + data["image/png"].strip() + '">'))
    return pairs
