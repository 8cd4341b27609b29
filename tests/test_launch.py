"""The buttons that lead back to the repository: from its git remote, or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book" / "_ext"))

nbformat = pytest.importorskip("nbformat")
repository = pytest.importorskip("repository")

HOME = "https://github.com/someone/their-fork"


def checkout(folder: Path, remote: str | None, branch: str = "main") -> Path:
    """Make an empty repository with this remote."""
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", branch, str(folder)], check=True)
    if remote:
        subprocess.run(["git", "-C", str(folder), "remote", "add", "origin", remote], check=True)
    return folder


def configured(folder: Path) -> dict[str, object]:
    """Return the theme's options after the extension has looked at this folder."""
    config = SimpleNamespace(html_theme_options={"repository_url": "https://github.com/x/default"})
    repository.configure(SimpleNamespace(confdir=str(folder)), config)
    return config.html_theme_options


@pytest.mark.parametrize(
    "remote",
    [
        "https://github.com/someone/their-fork",
        "https://github.com/someone/their-fork.git",
        "https://github.com/someone/their-fork/",
        "https://user:secret@github.com/someone/their-fork.git",
        "git@github.com:someone/their-fork.git",
        "github.com:someone/their-fork",
        "ssh://git@github.com/someone/their-fork.git",
        "ssh://git@github.com:22/someone/their-fork.git",
        "git://github.com/someone/their-fork.git",
    ],
)
def test_every_form_of_a_github_remote_gives_one_address_without_credentials(remote):
    assert repository.address(remote) == HOME


@pytest.mark.parametrize(
    "remote",
    [
        "",
        "/srv/git/book.git",
        "../book",
        "file:///srv/git/book.git",
        "https://example.org/someone/their-fork",
        "https://github.com.example.org/someone/their-fork",
        "https://example.org/github.com/someone/their-fork",
        "https://github.com/someone",
    ],
)
def test_a_remote_that_is_not_on_github_gives_no_address(remote):
    assert repository.address(remote) is None


def test_the_branch_is_the_one_checked_out(tmp_path):
    folder = checkout(tmp_path / "a", "git@github.com:someone/their-fork.git", branch="course-2027")
    assert repository.locate(folder) == (HOME, "course-2027")


def test_a_detached_checkout_links_to_the_default_branch(tmp_path):
    folder = checkout(tmp_path / "a", HOME)
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    commit = ["commit", "-q", "--allow-empty", "-m", "x"]
    subprocess.run(["git", "-C", str(folder), *identity, *commit], check=True)
    subprocess.run(["git", "-C", str(folder), "checkout", "-q", "--detach"], check=True)
    assert repository.locate(folder) == (HOME, "main")


def test_a_folder_inside_another_repository_does_not_borrow_its_address(tmp_path):
    inner = checkout(tmp_path / "outer", HOME) / "book"
    inner.mkdir()
    assert repository.locate(inner) is None


def test_with_a_remote_the_buttons_are_on(tmp_path):
    options = configured(checkout(tmp_path / "a", HOME + ".git"))
    assert options["repository_url"] == HOME
    assert options["use_repository_button"]
    assert options["use_edit_page_button"]
    assert options["launch_buttons"]["binderhub_url"] == "https://mybinder.org"


@pytest.mark.parametrize("kind", ["no remote", "no repository", "elsewhere"])
def test_without_a_github_remote_the_buttons_are_left_out(tmp_path, kind):
    folder = tmp_path / "a"
    if kind == "no repository":
        folder.mkdir()
    else:
        checkout(folder, None if kind == "no remote" else "https://example.org/a/b.git")
    options = configured(folder)
    assert not options["repository_url"]
    assert not options["use_repository_button"]
    assert not options["use_edit_page_button"]
    assert not options["launch_buttons"]


def a_notebook(path: Path) -> None:
    """Write a notebook of one title and one cell."""
    cells = [nbformat.v4.new_markdown_cell("# A page"), nbformat.v4.new_code_cell("1 + 1")]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


def test_the_install_cell_is_first_and_is_python_but_for_its_magic(tmp_path):
    a_notebook(tmp_path / "page.ipynb")
    text = repository.with_install_cell(tmp_path / "page.ipynb", (HOME, "main"))
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    first, *rest = notebook.cells
    assert f'%pip install --quiet "ibrelu[book] @ git+{HOME}@main"' in first.source
    assert [cell.source for cell in rest] == ["# A page", "1 + 1"]
    compile(first.source.replace("%pip", "pass  #"), "cell", "exec")


def build(folder: Path) -> Path:
    """Build a book of one notebook with the extension, and return the site."""
    pytest.importorskip("sphinx_book_theme")
    a_notebook(folder / "book" / "part" / "page.ipynb")
    (folder / "index.md").write_text("# Home\n\n```{toctree}\nbook/part/page\n```\n")
    (folder / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT / 'book' / '_ext')!r})\n"
        "extensions = ['myst_nb', 'sphinx_book_theme', 'repository']\n"
        "html_theme = 'sphinx_book_theme'\nnb_execution_mode = 'off'\nhtml_theme_options = {}\n"
    )
    site = folder / "_site"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(folder), str(site)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return site


def test_a_built_page_links_to_the_notebook_in_its_own_fork(tmp_path):
    site = build(checkout(tmp_path / "a", "git@github.com:someone/their-fork.git"))
    page = (site / "book" / "part" / "page.html").read_text("utf-8")
    path = "book/part/page.ipynb"
    binder = f"https://mybinder.org/v2/gh/someone/their-fork/main?urlpath=lab/tree/{path}"
    colab = f"https://colab.research.google.com/github/someone/their-fork/blob/gh-pages/{path}"
    for link in (binder, colab, f"{HOME}/edit/main/{path}", HOME):
        assert f'href="{link}"' in page
    for copy in (site / path, site / "_sources" / path):
        assert f"git+{HOME}@main" in nbformat.read(copy, as_version=4).cells[0].source


def test_a_page_built_without_a_remote_links_to_no_repository(tmp_path):
    site = build(checkout(tmp_path / "a", None))
    page = (site / "book" / "part" / "page.html").read_text("utf-8")
    for host in ("github.com/", "mybinder.org", "colab.research"):
        assert host not in page
    assert not (site / "book" / "part" / "page.ipynb").exists()
    assert "pip install" not in (site / "_sources" / "book" / "part" / "page.ipynb").read_text()


def test_binder_gets_a_python_that_the_tests_run_on():
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8"))
    wanted = (ROOT / "runtime.txt").read_text("utf-8").strip().removeprefix("python-")
    assert wanted in workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
