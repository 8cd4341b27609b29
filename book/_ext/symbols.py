"""Link each symbol, where a page first shows it, to its row in the table of notation.

The table is the only source: a row's symbols are the formulas in its first column, and what appears
over a link is the beginning of its meaning. Single letters that a page may need for something of
its own are left alone, and the symbols of classification mean what they say there only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from docutils import nodes
from sphinx.application import Sphinx

NOTATION = "book/reference/notation"
LOCAL = "classification"
AMBIGUOUS = {"A", "B", "I", "Z", "m", "p", "r", "s", "t"}
INDEX = re.compile(r"_(?:[ik]|\{k,\s*i\})$")
CLOSED = (nodes.title, nodes.reference, nodes.caption, nodes.term, nodes.rubric)


class Row(NamedTuple):
    """A row of the table: its anchor, its meaning in words, and whether it holds on a page."""

    anchor: str
    meaning: str
    local: bool


def words(cell: nodes.Node) -> str:
    """Return what a meaning says before its first formula."""
    said = []
    for leaf in cell.findall(lambda node: isinstance(node, (nodes.Text, nodes.math))):
        if isinstance(leaf.parent, nodes.math):
            break
        said.append(leaf.astext() if isinstance(leaf, nodes.Text) else "")
        if isinstance(leaf, nodes.math):
            break
    return "".join(said).strip(" ,;:(")


def rows(app: Sphinx) -> dict[str, Row]:
    """Read the table: each symbol, and each without its index."""
    found: dict[str, Row] = {}
    for row in app.env.get_doctree(NOTATION).findall(nodes.row):
        symbol, meaning = row[0], row[1]
        anchor = next((i for node in symbol.findall(nodes.inline) for i in node["ids"]), None)
        if anchor is None:
            continue
        section = next(node for node in ancestors(row) if isinstance(node, nodes.section))
        entry = Row(anchor, words(meaning), LOCAL in section["ids"])
        for formula in symbol.findall(nodes.math):
            found[formula.astext()] = entry
            found.setdefault(INDEX.sub("", formula.astext()), entry)
    return found


def ancestors(node: nodes.Node) -> list[nodes.Node]:
    """List the elements around a node, from the inside out."""
    around = []
    while node.parent is not None:
        node = node.parent
        around.append(node)
    return around


def link(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Turn the first appearance of each symbol into a link."""
    if not page.startswith("book/") or page.startswith("book/reference/"):
        return
    if app.builder.format != "html" or NOTATION not in app.env.found_docs:
        return
    known, seen = rows(app), set()
    for formula in list(tree.findall(nodes.math)):
        text = formula.astext()
        row = known.get(text) or known.get(INDEX.sub("", text))
        if row is None or row.anchor in seen or text in AMBIGUOUS:
            continue
        if row.local and f"/{LOCAL}/" not in page:
            continue
        if any(isinstance(node, CLOSED) for node in ancestors(formula)):
            continue
        seen.add(row.anchor)
        address = f"{app.builder.get_relative_uri(page, NOTATION)}#{row.anchor}"
        reference = nodes.reference("", "", internal=True, refuri=address, reftitle=row.meaning)
        reference["classes"].append("ibrelu-symbol")
        formula.replace_self(reference)
        reference += formula


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the linking."""
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
