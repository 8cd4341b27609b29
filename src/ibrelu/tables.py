"""Tables that read well in the book, on GitHub and in a terminal."""

from __future__ import annotations

import html
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows under headings: HTML in a notebook, aligned text elsewhere."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in self.headings)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        return (
            '<div class="ibrelu-table" style="overflow-x:auto" tabindex="0" role="region" '
            f'aria-label="Table: {html.escape(", ".join(self.headings))}">'
            f'<table class="dataframe"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
            "</div>"
        )

    def __repr__(self) -> str:
        lines = [self.headings, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.headings))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Make a table; numbers are written with four significant digits.

    Raises
    ------
    ValueError
        If a row does not have one cell a heading.

    Examples
    --------
    >>> table(["predicted", "measured"], [[0.5, 0.499712]])
    predicted  measured
    0.5        0.4997
    """
    written = [tuple(_cell(value) for value in row) for row in rows]
    for row in written:
        if len(row) != len(headings):
            raise ValueError(
                f"a row has {len(row)} cells for {len(headings)} headings: {row}; give one each"
            )
    return Table(tuple(headings), tuple(written))


def _cell(value: object) -> str:
    if isinstance(value, (str, bool)):
        return str(value)
    if isinstance(value, numbers.Integral):
        return f"{int(value):,}"
    if isinstance(value, numbers.Real):
        return f"{float(value):.4g}"
    return str(value)
