"""The script that executes notebooks in place: same bytes each run, nothing dead or broken kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book"))

nbformat = pytest.importorskip("nbformat")
script = pytest.importorskip("execute")


def a_notebook(path: Path, *cells: str, **metadata: object) -> Path:
    """Write a notebook of these code cells, with the traces that editors leave."""
    notebook = nbformat.v4.new_notebook(metadata=metadata)
    notebook.metadata.language_info = {"name": "python", "version": "3.99"}
    for number, source in enumerate(cells):
        cell = nbformat.v4.new_code_cell(source, execution_count=number + 7)
        cell.metadata["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00Z"}
        notebook.cells.append(cell)
    nbformat.write(notebook, path)
    return path


def test_executing_twice_changes_nothing(tmp_path):
    path = a_notebook(
        tmp_path / "a.ipynb", "print('a')\nprint('b', flush=True)\nprint('c')", "1 + 1"
    )
    assert script.main([str(path)]) == 0
    first = path.read_bytes()
    assert script.main([str(path)]) == 0
    assert path.read_bytes() == first
    notebook = nbformat.read(path, as_version=4)
    assert [cell["id"] for cell in notebook.cells] == ["cell-000", "cell-001"]
    assert [cell.execution_count for cell in notebook.cells] == [1, 2]
    assert [output.text for output in notebook.cells[0].outputs] == ["a\nb\nc\n"]
    assert "version" not in notebook.metadata.language_info
    assert all("execution" not in cell.metadata for cell in notebook.cells)


def test_a_notebook_that_raises_is_left_as_it_was(tmp_path, capsys):
    path = a_notebook(tmp_path / "a.ipynb", "1 + 1", "raise ValueError('no such luck')")
    before = path.read_bytes()
    assert script.main([str(path)]) == 1
    assert path.read_bytes() == before
    assert "no such luck" in capsys.readouterr().err


def test_one_failure_does_not_stop_the_others_and_is_not_forgotten(tmp_path):
    bad = a_notebook(tmp_path / "a.ipynb", "1 / 0")
    good = a_notebook(tmp_path / "b.ipynb", "1 + 1")
    assert script.main([str(bad), str(good)]) == 1
    assert nbformat.read(good, as_version=4).cells[0].outputs[0].data["text/plain"] == "2"


def test_a_live_widget_is_refused(tmp_path, capsys):
    view = "application/vnd.jupyter.widget-view+json"
    source = f"from IPython.display import display\ndisplay({{{view!r}: {{}}}}, raw=True)"
    path = a_notebook(tmp_path / "a.ipynb", source)
    before = path.read_bytes()
    assert script.main([str(path)]) == 1
    assert path.read_bytes() == before
    assert "shows a live widget" in capsys.readouterr().err


def test_stored_state_of_widgets_is_dropped(tmp_path):
    path = a_notebook(tmp_path / "a.ipynb", "1 + 1", widgets={"state": {}})
    assert script.main([str(path)]) == 0
    assert "widgets" not in nbformat.read(path, as_version=4).metadata


@pytest.mark.parametrize("path", script.notebooks(), ids=lambda p: str(p.relative_to(ROOT)))
def test_each_stored_notebook_is_as_the_script_leaves_it(path):
    notebook = nbformat.read(path, as_version=4)
    assert script.objections(notebook) == []
    normal = nbformat.from_dict(notebook)
    script.normalise(normal)
    assert normal == notebook, "run `python book/execute.py`"
    counts = [c.execution_count for c in notebook.cells if c.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1)), "run `python book/execute.py`"


@pytest.mark.parametrize("path", script.notebooks(), ids=lambda p: str(p.relative_to(ROOT)))
def test_each_stored_notebook_keeps_its_weight_budget(path):
    assert path.stat().st_size <= 600_000, "draw fewer points, or offer fewer frames"
