"""Print the built site as one PDF: `python book/pdf.py SITE TARGET`.

Chromium prints each page in the order of the contents, with proofs and solutions unfolded and code
that the page folds left out; explorers show their first frame, quizzes their questions. Links
between pages and to places in them become links within the PDF; pages are numbered through.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pypdf import PdfReader, PdfWriter
from pypdf.generic import (
    ArrayObject,
    DictionaryObject,
    FloatObject,
    NameObject,
    NullObject,
    TextStringObject,
)
from sphinx_external_toc.parsing import parse_toc_yaml

from browser import FLAGS, find_chromium

ROOT = Path(__file__).resolve().parent.parent
READY = """async () => {
  await document.fonts.ready;
  // A quiz asks its questions once the page stands.
  const unasked = () =>
    [...document.querySelectorAll(".ibrelu-quiz")].some((quiz) => !quiz.querySelector(".Quiz"));
  for (let wait = 0; wait < 1000 && unasked(); wait++)
    await new Promise((done) => setTimeout(done, 20));
  document.querySelectorAll("details:not(.hide)").forEach((part) => { part.open = true; });
  document.querySelectorAll(".toggle-hidden").forEach((part) => {
    part.classList.remove("toggle-hidden");
  });
  document.querySelectorAll("img[loading=lazy]").forEach((image) => { image.loading = "eager"; });
  await Promise.all([...document.images].map((image) => image.decode().catch(() => null)));
  // Chromium keeps the place of an element in the PDF only where the page itself links to it.
  const links = document.body.appendChild(document.createElement("div"));
  links.hidden = true;
  for (const place of document.querySelectorAll("article [id]"))
    links.appendChild(document.createElement("a")).href = "#" + encodeURIComponent(place.id);
}"""
MARGINS = {"top": "16mm", "bottom": "18mm", "left": "16mm", "right": "16mm"}
FOOTER = (
    '<div style="height: 296mm; break-after: page; box-sizing: border-box; padding: 0 16mm 7mm;'
    'font: 8pt sans-serif; display: flex; align-items: end; justify-content: space-between">'
    "<span>{title}</span><span>{number}</span></div>"
)


def contents() -> list[tuple[str, list[str]]]:
    """Parts of the book: a caption, and the documents in reading order."""
    site_map = parse_toc_yaml(ROOT / "_toc.yml")

    def within(tree: Any) -> Iterator[str]:
        for document in tree.items:
            yield document
            for subtree in site_map[document].subtrees:
                yield from within(subtree)

    parts = [(tree.caption or "", list(within(tree))) for tree in site_map.root.subtrees]
    return [("", [site_map.root.docname]), *parts]


def printed(page: Any, file: Path) -> bytes:
    """Print one page of the site."""
    page.goto(file.as_uri())
    page.evaluate(READY)
    pdf: bytes = page.pdf(format="A4", margin=MARGINS)
    return pdf


def make(browser: Any, site: Path, target: Path) -> dict[str, int]:
    """Print the book into `target`; the first page of each document is returned."""
    page = browser.new_page(color_scheme="light")
    writer, first, titles = PdfWriter(), {}, []
    places: dict[str, ArrayObject] = {}
    for caption, documents in contents():
        part = None
        for document in documents:
            file = site / f"{document}.html"
            reader = PdfReader(io.BytesIO(printed(page, file)))
            found = take_places(reader, file)
            first[document] = len(writer.pages)
            writer.append(reader, import_outline=False)
            for address, (number, left, top) in found.items():
                sheet = writer.pages[first[document] + number].indirect_reference
                places[address] = ArrayObject(
                    [sheet, NameObject("/XYZ"), FloatObject(left), FloatObject(top), NullObject()]
                )
            if caption and part is None:
                part = writer.add_outline_item(title=caption, page_number=first[document])
            title = page.title().split(" — ")[0]
            writer.add_outline_item(title=title, page_number=first[document], parent=part)
            titles += [page.title()] * len(reader.pages)
    link_within(writer, places)
    writer.root_object.pop("/Names", None)
    footers = "".join(FOOTER.format(title=escape(t), number=k) for k, t in enumerate(titles, 1))
    page.set_content(f"<style>body {{ margin: 0 }}</style>{footers}")
    zero = dict.fromkeys(MARGINS, "0")
    footer = PdfReader(io.BytesIO(page.pdf(format="A4", margin=zero)))
    for sheet, line in zip(writer.pages, footer.pages, strict=True):
        sheet.merge_page(line)
        sheet.compress_content_streams()
    page.close()
    writer.add_metadata({"/Title": "Implicit bias, one ReLU at a time"})
    writer.compress_identical_objects()
    writer.write(target)
    return first


def take_places(reader: PdfReader, file: Path) -> dict[str, tuple[int, float, float]]:
    """Take the named places out of a document: address, then page number, left and top.

    A name such as `id1` means another place in each document, so links to names become links to
    addresses.
    """
    here = unquote(file.as_uri())
    places = {here: (0, 0.0, 842.0)}
    for name, place in reader.named_destinations.items():
        number = reader.get_destination_page_number(place)
        if number is not None and number >= 0:
            address = f"{here}#{unquote(name.removeprefix('/'))}"
            places[address] = (number, float(place.left or 0), float(place.top or 842))
    for page in reader.pages:
        for note in (reference.get_object() for reference in page.get("/Annots", [])):
            if isinstance(note.get("/Dest"), str):
                address = f"{file.as_uri()}#{note['/Dest'].removeprefix('/')}"
                note[NameObject("/A")] = DictionaryObject(
                    {
                        NameObject("/S"): NameObject("/URI"),
                        NameObject("/URI"): TextStringObject(address),
                    }
                )
                del note["/Dest"]
    return places


def link_within(writer: PdfWriter, places: dict[str, ArrayObject]) -> None:
    """Let links to a page of the site lead to its place in the PDF; drop links to other files."""
    for page in writer.pages:
        kept = ArrayObject()
        for reference in page.get("/Annots", ArrayObject()):
            note = reference.get_object()
            address = unquote(str(note.get("/A", DictionaryObject()).get_object().get("/URI", "")))
            if address.startswith("file:"):
                place = places.get(address) or places.get(address.partition("#")[0])
                if place is None:
                    continue
                note[NameObject("/Dest")] = place
                del note["/A"]
            kept.append(reference)
        if "/Annots" in page:
            page[NameObject("/Annots")] = kept


def show_link(site: Path) -> None:
    """Unhide the landing page's link to the PDF."""
    page = site / "book" / "index.html"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace('class="ibrelu-pdf" hidden=""', 'class="ibrelu-pdf"'), "utf-8")


def main(site: Path, target: Path) -> int:
    """Make the PDF, or say why not."""
    path = find_chromium()
    if not path:
        print("No Chromium found, so the PDF was not made; install it (`chromium`).")
        return 1
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        first = make(browser, site.resolve(), target)
        browser.close()
    show_link(site)
    print(f"{target}: {len(first)} chapters and pages of the book.")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
