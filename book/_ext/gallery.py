"""A gallery of the explorers: each one's first frame, leading to the explorer itself."""

from __future__ import annotations

import base64
import html
import posixpath
import re
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

FIGURE = re.compile(
    r'<figure class="ibrelu-explorer" id="(?P<id>[^"]+)" aria-label="(?P<title>[^"]+)">.*?'
    r'<img src="data:image/svg\+xml;base64,(?P<picture>[^"]+)"',
    re.DOTALL,
)
PICTURES = "_images/explorers"


class Card(NamedTuple):
    """An explorer as the stored notebook holds it; `title` is HTML."""

    document: str
    id: str
    title: str
    picture: bytes

    @property
    def file(self) -> str:
        """Name of its picture."""
        return f"{self.document.replace('/', '-')}-{self.id}.svg"


class gallery(nodes.General, nodes.Element):
    """Place of the gallery in a page."""


class Gallery(Directive):
    """``{gallery}``: the explorers of every page, in the order of the book."""

    def run(self) -> list[nodes.Node]:
        """Leave a place that is filled once all pages are known."""
        return [gallery()]


def cards(path: Path, document: str) -> list[Card]:
    """Read the explorers from a notebook's stored outputs."""
    found = []
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", []):
            page = "".join(output.get("data", {}).get("text/html", ""))
            for hit in FIGURE.finditer(page):
                picture = base64.b64decode(hit["picture"])
                found.append(Card(document, hit["id"], hit["title"], picture))
    return found


def all_cards(app: Sphinx) -> list[Card]:
    """Explorers of every notebook of the book, in reading order."""
    site_map = app.config.external_site_map
    documents = [name for name in site_map if name in app.env.found_docs]
    paths = [(Path(app.env.doc2path(name)), name) for name in documents]
    return [card for path, name in paths if path.suffix == ".ipynb" for card in cards(path, name)]


def fill(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Write the cards where the page asked for them."""
    for place in list(tree.findall(gallery)):
        folder = posixpath.dirname(page)
        items = []
        for card in all_cards(app):
            target = posixpath.relpath(f"{card.document}.html", folder)
            picture = posixpath.relpath(f"{PICTURES}/{card.file}", folder)
            chapter = html.escape(app.env.titles[card.document].astext())
            items.append(
                f'<li><a href="{target}#{card.id}"><img src="{picture}" loading="lazy" '
                f'alt="First frame of the explorer: {card.title}"><strong>{card.title}</strong> '
                f"<small>{chapter}</small></a></li>"
            )
        text = f'<ul class="ibrelu-gallery">{"".join(items)}</ul>'
        place.replace_self(nodes.raw("", text, format="html"))


def write_pictures(app: Sphinx, exception: Exception | None) -> None:
    """Put the first frames beside the book's other images."""
    if exception or app.builder.format != "html":
        return
    folder = Path(app.outdir) / PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    for card in all_cards(app):
        (folder / card.file).write_bytes(card.picture)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive and its two steps."""
    app.add_node(gallery)
    app.add_directive("gallery", Gallery)
    app.connect("doctree-resolved", fill)
    app.connect("build-finished", write_pictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
