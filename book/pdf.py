"""Print the built site as one PDF: `python book/pdf.py SITE TARGET`.

Chromium prints each page in the order of the contents, with proofs and solutions unfolded and code
that the page folds left out; explorers show their first frame. Links between pages become links
within the PDF.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NumberObject
from sphinx_external_toc.parsing import parse_toc_yaml

from browser import FLAGS, find_chromium

ROOT = Path(__file__).resolve().parent.parent
READY = """async () => {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  document.querySelectorAll("details:not(.hide)").forEach((part) => { part.open = true; });
  document.querySelectorAll(".toggle-hidden").forEach((part) => {
    part.classList.remove("toggle-hidden");
  });
  document.querySelectorAll("img[loading=lazy]").forEach((image) => { image.loading = "eager"; });
  await Promise.all([...document.images].map((image) => image.decode().catch(() => null)));
}"""
FOOTER = (
    '<div style="font: 8pt sans-serif; width: 100%; margin: 0 16mm; display: flex; '
    'justify-content: space-between"><span class="title"></span>'
    '<span class="pageNumber"></span></div>'
)
MARGINS = {"top": "16mm", "bottom": "18mm", "left": "16mm", "right": "16mm"}


def contents() -> list[tuple[str, list[str]]]:
    """Parts of the book: a caption, and the documents in reading order."""
    site_map = parse_toc_yaml(ROOT / "_toc.yml")
    parts = [(tree.caption or "", list(tree.items)) for tree in site_map.root.subtrees]
    return [("", [site_map.root.docname]), *parts]


def printed(page: Any, file: Path) -> bytes:
    """Print one page of the site."""
    page.goto(file.as_uri())
    page.evaluate(READY)
    pdf: bytes = page.pdf(
        format="A4",
        margin=MARGINS,
        display_header_footer=True,
        header_template="<span></span>",
        footer_template=FOOTER,
        tagged=True,
    )
    return pdf


def make(browser: Any, site: Path, target: Path) -> dict[str, int]:
    """Print the book into `target`; the first page of each document is returned."""
    page = browser.new_page(color_scheme="light")
    writer, first = PdfWriter(), {}
    for caption, documents in contents():
        part = None
        for document in documents:
            reader = PdfReader(io.BytesIO(printed(page, site / f"{document}.html")))
            first[document] = len(writer.pages)
            writer.append(reader, import_outline=False)
            if caption and part is None:
                part = writer.add_outline_item(caption, first[document])
            title = page.title().split(" — ")[0]
            writer.add_outline_item(title, first[document], parent=part)
    page.close()
    link_within(writer, site, first)
    writer.add_metadata({"/Title": "Implicit bias, one ReLU at a time"})
    writer.compress_identical_objects()
    writer.write(target)
    return first


def link_within(writer: PdfWriter, site: Path, first: dict[str, int]) -> None:
    """Let links to a page of the site lead to its place in the PDF; drop links to other files."""
    for page in writer.pages:
        kept = ArrayObject()
        for reference in page.get("/Annots", ArrayObject()):
            note = reference.get_object()
            action = note.get("/A", DictionaryObject()).get_object()
            address = urlsplit(str(action.get("/URI", "")))
            if address.scheme == "file":
                path = Path(unquote(address.path))
                document = path.relative_to(site).with_suffix("").as_posix()
                if document not in first:
                    continue
                destination = writer.pages[first[document]].indirect_reference
                note[NameObject("/Dest")] = ArrayObject(
                    [destination, NameObject("/FitH"), NumberObject(842)]
                )
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
