"""Ship MathJax with the book: the one script and the fonts it needs, nothing fetched."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx

FILES = ("tex-mml-chtml.js", "output/chtml/fonts/woff-v2")


def copy(app: Sphinx, exception: Exception | None) -> None:
    """Copy the files once the pages are written."""
    if exception or app.builder.format != "html":
        return
    package = find_spec("sphinx-mathjax-offline")  # its name is no identifier: no import statement
    source = Path(package.origin).parent / "static" / "mathjax"
    target = Path(app.outdir) / "_static" / "mathjax"
    for name in FILES:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, dirs_exist_ok=True)
        else:
            shutil.copy2(source / name, target / name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the copy."""
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
