"""The printed book: every chapter, formula, figure and numbered theorem is in it."""

import re
import shutil

import pytest
from pypdf import PdfReader

import pdf
from test_site import CONTENT, LANDING, ROOT, SITE

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAPER = {"width": 672, "height": 1000}  # A4 without its margins, in CSS pixels
CHINESE_OR_JAPANESE = r"[぀-ヿ一-鿿]"
# What is wider than the paper, or than a box that would scroll on a screen.
WIDE = """() => [...document.querySelectorAll("article, article *:not(math *, .sr-only)")]
  .filter(node => node.getClientRects().length && getComputedStyle(node).display !== "inline")
  .filter(node => node.getBoundingClientRect().right > innerWidth + 1
    || (getComputedStyle(node).overflowX !== "visible" && node.scrollWidth > node.clientWidth + 1))
  .map(node => node.outerHTML.slice(0, 120)).slice(0, 3)"""


@pytest.fixture(scope="module")
def book(chromium, tmp_path_factory):
    """Print the book; also what is too wide for the paper, and the text of each document's page."""
    target = tmp_path_factory.mktemp("pdf") / "book.pdf"
    printed, wide, texts = pdf.printed, {}, {}

    def measured(page, file):
        document = file.relative_to(SITE).with_suffix("").as_posix()
        page.set_viewport_size(PAPER)
        data = printed(page, file)
        page.emulate_media(media="print")
        wide[document] = page.evaluate(WIDE)
        text = page.evaluate("document.querySelector('article').innerText")
        texts[document] = " ".join(text.split())
        page.emulate_media(media="null")
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pdf, "printed", measured)
        first = pdf.make(chromium, SITE, target)
    reader = PdfReader(target)
    pages = [page.extract_text() for page in reader.pages]
    ends = [*list(first.values())[1:], len(pages)]
    printed_texts = {
        document: " ".join(" ".join(pages[start:end]).split())
        for (document, start), end in zip(first.items(), ends, strict=True)
    }
    return {
        "target": target,
        "first": first,
        "reader": reader,
        "pages": pages,
        "printed": printed_texts,
        "shown": texts,
        "wide": wide,
    }


def test_each_page_of_the_site_is_printed_in_order(book):
    first = book["first"]
    assert {f"{document}.html" for document in first} == {*CONTENT} - {"search.html"}
    assert sorted(first.values()) == list(first.values())


def test_the_theorems_keep_their_numbers_and_the_formulas_are_typeset(book):
    numbered = r"(?:Theorem|Lemma|Proposition|Definition) \d+\.\d+"
    for document, text in book["printed"].items():
        assert set(re.findall(numbered, book["shown"][document])) <= set(re.findall(numbered, text))
        assert not re.search(r"\\[(\[]|\\(frac|sum|le|alpha)\b", text), document
    assert re.search(r"Theorem 8\.1", book["printed"]["book/regression/single-neuron"])
    assert "Lemma 6" in book["printed"]["book/primal-dual/lemma-6"]


def test_no_letter_is_an_empty_box(book):
    """A letter without a font has no character in the text: Chinese and Japanese need theirs."""
    boxes = [document for document, text in book["printed"].items() if "\x00" in text]
    assert boxes == [], "install a font (`fonts-noto-cjk` on Debian and Ubuntu)"
    for language in ("zh", "ja"):
        document = f"book/course/summary-{language}"
        shown = set(re.findall(CHINESE_OR_JAPANESE, book["shown"][document]))
        printed = set(re.findall(CHINESE_OR_JAPANESE, book["printed"][document]))
        assert len(shown) > 100
        # Some fonts draw a letter and the radical it is with one glyph, and the text has either.
        assert len(shown & printed) > 0.8 * len(shown)


def test_nothing_is_wider_than_the_paper(book):
    assert {document: wide for document, wide in book["wide"].items() if wide} == {}


def test_pages_are_numbered_through_and_none_is_empty(book):
    for number, (text, page) in enumerate(zip(book["pages"], book["reader"].pages, strict=True), 1):
        assert text.split()[-1] == str(number)
        assert len(text) > 150 or page.images, f"page {number}: {text}"


def test_explorers_stand_as_figures_with_a_note(book):
    assert "the online book has sliders" in book["printed"]["book/index"]


def test_a_quiz_is_printed_with_its_answers_to_choose_from(book):
    text = book["printed"]["book/regression/single-neuron"]
    assert "One ReLU neuron starts with every example active" in text
    assert "None: the neuron is dead" in text


def test_links_lead_to_places_within_the_document(book):
    reader, first = book["reader"], book["first"]
    assert b"file://" not in book["target"].read_bytes()
    notes = [note.get_object() for page in reader.pages for note in page.get("/Annots", [])]
    addresses = [str(note["/A"]["/URI"]) for note in notes if "/URI" in note.get("/A", {})]
    assert all(address.startswith(("http", "mailto")) for address in addresses)
    number = {page.indirect_reference.idnum: k for k, page in enumerate(reader.pages)}
    places = {number[note["/Dest"][0].idnum] for note in notes if "/Dest" in note}
    # The summary's other languages are reached by the bookmarks: its list of them is not printed.
    unlinked = [document for document, page in first.items() if page not in places]
    assert all(document.startswith("book/course/summary-") for document in unlinked), unlinked
    assert len(places - set(first.values())) > 50  # theorems, formulas, rows of the notation


def test_the_site_links_to_the_pdf_only_where_there_is_one(book, chromium, tmp_path):
    copy = tmp_path / LANDING
    copy.parent.mkdir()
    text = (
        (SITE / LANDING)
        .read_text("utf-8")
        .replace('class="ibrelu-pdf">', 'class="ibrelu-pdf" hidden="">')
    )
    copy.write_text(text, "utf-8")
    page = chromium.new_page()
    link = page.locator(".ibrelu-pdf a")
    page.goto(copy.as_uri())
    assert not link.is_visible()
    pdf.show_link(tmp_path)
    page.reload()
    assert link.is_visible()
    shutil.copy(book["target"], tmp_path / "ibrelu-book.pdf")
    assert (copy.parent / link.get_attribute("href")).exists()
    assert "$(SITE)/ibrelu-book.pdf" in (ROOT / "Makefile").read_text()
    page.close()
