"""Execute the book's notebooks in place, so that unchanged code gives an unchanged file.

    python book/execute.py                     every notebook of the book
    python book/execute.py book/x/y.ipynb …    these

A notebook that raises, that was saved with the state of live widgets, or that shows a live widget,
is refused and left as it was.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

BOOK = Path(__file__).resolve().parent
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebooks() -> list[Path]:
    """Every notebook of the book, in the order of their names.

    Those of `course/` in folders of their own, problem sets and lectures, store no outputs.
    """
    apart = {".ipynb_checkpoints", "problem-sets", "slides"}
    return sorted(p for p in BOOK.rglob("*.ipynb") if not apart & set(p.parts))


def objections(notebook: nbformat.NotebookNode) -> list[str]:
    """Say what in a notebook must not be stored: live widgets and errors."""
    found = []
    if "widgets" in notebook.metadata:
        found.append("its metadata holds the state of live widgets")
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if WIDGET_VIEW in output.get("data", {}):
                found.append(f"cell {number} shows a live widget; re-run without a Jupyter server")
            if output.output_type == "error":
                found.append(f"cell {number} ends in {output.ename}: {output.evalue}")
    return found


def normalise(notebook: nbformat.NotebookNode) -> None:
    """Replace all that differs from one machine or one run to the next."""
    kept = {k: v for k, v in notebook.metadata.items() if k not in ("kernelspec", "language_info")}
    notebook.metadata = nbformat.from_dict({**kept, **METADATA})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:03d}"
        cell.metadata.pop("execution", None)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)


def merge_streams(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Join neighbouring pieces of one stream: where they were cut depends on timing."""
    merged: list[nbformat.NotebookNode] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def execute(path: Path) -> None:
    """Execute one notebook in place; raise and change nothing when it fails."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    notebook.metadata.pop("widgets", None)
    normalise(notebook)
    NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=600,
        allow_errors=False,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    normalise(notebook)
    if found := objections(notebook):
        raise ValueError(f"{path}: " + "; ".join(found))
    nbformat.validate(notebook)
    text = nbformat.writes(notebook)
    temporary = path.with_suffix(".executing")
    temporary.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
    temporary.replace(path)


def main(arguments: list[str]) -> int:
    """Execute the notebooks named, or all; the exit status says whether every one succeeded."""
    # A kernel that believes it has a live front end would store widgets.
    os.environ.pop("JPY_SESSION_NAME", None)
    failed = 0
    for path in [Path(a).resolve() for a in arguments] or notebooks():
        try:
            execute(path)
            print(f"executed {path}")
        except Exception as error:
            failed += 1
            print(f"FAILED   {path}\n{error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
