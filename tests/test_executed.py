"""The cache of executed notebooks is named after everything that their outputs depend on."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book" / "_ext"))

nbformat = pytest.importorskip("nbformat")
executed = pytest.importorskip("executed")
jupyter_cache = pytest.importorskip("jupyter_cache")


def notebook(path: Path, code: str) -> Path:
    """Write a notebook of one cell."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    cells = [nbformat.v4.new_code_cell(code)]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path


def test_code_and_data_change_the_name_and_pages_do_not(tmp_path):
    (tmp_path / "module.py").write_text("a = 1")
    before = executed.fingerprint(tmp_path)
    (tmp_path / "page.md").write_text("words")
    notebook(tmp_path / "page.ipynb", "1 + 1")
    assert executed.fingerprint(tmp_path) == before
    (tmp_path / "data.csv").write_text("1,2")
    with_data = executed.fingerprint(tmp_path)
    assert with_data != before
    (tmp_path / "module.py").write_text("a = 2")
    assert executed.fingerprint(tmp_path) not in (before, with_data)


def test_a_new_state_forgets_the_outputs_of_the_old(tmp_path):
    old = tmp_path / "_build" / "executed" / "old"
    old.mkdir(parents=True)
    config = SimpleNamespace(nb_execution_mode="cache", nb_execution_cache_path="")
    app = SimpleNamespace(outdir=tmp_path / "_build" / "html", srcdir=tmp_path)
    executed.choose_cache(app, config)
    assert not old.exists()
    assert Path(config.nb_execution_cache_path).parent == old.parent


def test_what_fails_is_not_in_the_cache(tmp_path):
    good = notebook(tmp_path / "good.ipynb", "print(6 * 7)")
    bad = notebook(tmp_path / "bad.ipynb", "1 / 0")
    config = SimpleNamespace(
        nb_execution_mode="cache",
        nb_execution_cache_path=str(tmp_path / "cache"),
        nb_execution_timeout=60,
    )
    env = SimpleNamespace(doc2path=lambda name: str(tmp_path / f"{name}.ipynb"))
    executed.fill_cache(SimpleNamespace(config=config), env, ["good", "bad"])
    cache = jupyter_cache.get_cache(config.nb_execution_cache_path)
    stored = nbformat.read(good, as_version=4)
    _, found = cache.merge_match_into_notebook(stored)
    assert found.cells[0].outputs[0].text == "42\n"
    with pytest.raises(KeyError):
        cache.match_cache_notebook(nbformat.read(bad, as_version=4))
