"""Buttons that lead back to the repository, its address taken from the git remote at build time.

A fork's pages therefore open the fork; a build without a GitHub remote has no such button. Colab
opens notebooks from GitHub but knows nothing of this package, so each page gets a copy of its
notebook beside it whose first cell installs the package from that same repository. Colab opens the
copy from the branch that the site is published on; the download button gives the same copy.
"""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nbformat
from sphinx.application import Sphinx
from sphinx.config import Config

SITE_BRANCH = "gh-pages"
DEFAULT_BRANCH = "main"
REMOTE = re.compile(
    r"(?:(?:https?|ssh|git)://(?:[^@/]+@)?github\.com(?::\d+)?/|(?:[^@/]+@)?github\.com:)"
    r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?/?"
)
INSTALL = """\
# Where ibrelu is missing (on Colab), install it from the repository of this page; a minute or two.
import importlib.util

if importlib.util.find_spec("ibrelu") is None:
    %pip install --quiet "ibrelu[book] @ git+{address}@{branch}\""""


def git(folder: Path, *arguments: str) -> str:
    """Ask git; the empty string where git or the answer is missing."""
    try:
        run = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""


def address(remote: str) -> str | None:
    """Turn a GitHub remote, https or ssh, into the address of its page; others into None."""
    found = REMOTE.fullmatch(remote)
    return f"https://github.com/{found['owner']}/{found['name']}" if found else None


def locate(folder: Path) -> tuple[str, str] | None:
    """Find (address, branch) of the repository whose top folder this is."""
    top = git(folder, "rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != folder.resolve():
        return None  # unpacked inside somebody else's repository
    found = address(git(folder, "remote", "get-url", "origin"))
    branch = git(folder, "symbolic-ref", "--short", "HEAD") or DEFAULT_BRANCH
    return (found, branch) if found else None


def configure(app: Sphinx, config: Config) -> None:
    """Turn the theme's buttons on where there is a repository to lead to, else off."""
    found = locate(Path(app.confdir))
    config.ibrelu_repository = found
    config.release = config.version = version("ibrelu")
    config.html_theme_options |= {
        "extra_footer": f"<p>Version {config.release}</p>",
        "repository_url": found[0] if found else "",
        "repository_branch": found[1] if found else "",
        "repository_provider": "github" if found else "",
        "use_repository_button": bool(found),
        "use_edit_page_button": bool(found),
        "launch_buttons": (
            {"binderhub_url": "https://mybinder.org", "notebook_interface": "jupyterlab"}
            if found
            else {}
        ),
    }


def add_colab(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Add Colab's button under the theme's Binder button."""
    for group in context.get("header_buttons", []):
        if group.get("label") == "launch-buttons":
            path = app.config.ibrelu_repository[0].removeprefix("https://github.com/")
            group["buttons"].append(
                {
                    "type": "link",
                    "text": "Colab",
                    "tooltip": "Launch on Colab",
                    "icon": "_static/images/logo_colab.png",
                    "url": "https://colab.research.google.com/github/"
                    f"{path}/blob/{SITE_BRANCH}/{page}.ipynb",
                }
            )


def with_install_cell(notebook: Path, repository: tuple[str, str]) -> str:
    """Return the notebook with a first cell that installs the package where it is missing."""
    content = nbformat.read(notebook, as_version=4)
    source = INSTALL.format(address=repository[0], branch=repository[1])
    content.cells.insert(0, nbformat.v4.new_code_cell(source, id="install"))
    return nbformat.writes(content)


def write_copies(app: Sphinx, exception: Exception | None) -> None:
    """Put the copies beside their pages and behind the download buttons."""
    repository = app.config.ibrelu_repository
    if exception or app.builder.format != "html" or repository is None:
        return
    for document in app.env.found_docs:
        source = Path(app.env.doc2path(document))
        if source.suffix == ".ipynb":
            text = with_install_cell(source, repository)
            for folder in (Path(app.outdir), Path(app.outdir) / "_sources"):
                copy = folder / f"{document}.ipynb"
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the steps, the buttons after the theme's own."""
    app.add_config_value("ibrelu_repository", None, "html", types=(tuple, type(None)))
    app.connect("config-inited", configure)
    app.connect("html-page-context", add_colab, priority=600)
    app.connect("build-finished", write_copies)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
