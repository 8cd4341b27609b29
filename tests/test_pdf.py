"""The printed book: every chapter, formula, figure and numbered theorem is in it."""

import re

import pytest
from pypdf import PdfReader

from pdf import contents, make
from test_site import SITE

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def book(chromium, tmp_path_factory):
    target = tmp_path_factory.mktemp("pdf") / "book.pdf"
    first = make(chromium, SITE, target)
    return target, first, PdfReader(target)


def test_each_document_of_the_contents_is_printed_in_order(book):
    _, first, _ = book
    expected = [document for _, documents in contents() for document in documents]
    assert list(first) == expected
    assert sorted(first.values()) == list(first.values())


def test_the_theorems_keep_their_numbers_and_the_formulas_are_typeset(book):
    _, first, reader = book
    start = first["book/regression/single-neuron"]
    text = "".join(page.extract_text() for page in reader.pages[start : start + 15])
    assert re.search(r"Theorem \d+\.1", text)
    assert "\\(" not in text
    assert "\\frac" not in text


def test_explorers_stand_as_figures_with_a_note(book):
    _, first, reader = book
    start = first["book/index"]
    text = " ".join(" ".join(p.extract_text() for p in reader.pages[start : start + 3]).split())
    assert "the online book has sliders" in text


def test_links_stay_within_the_document(book):
    target, _, reader = book
    assert b"file://" not in target.read_bytes()
    notes = [note.get_object() for page in reader.pages for note in page.get("/Annots", [])]
    assert sum("/Dest" in note for note in notes) > 50
    addresses = [str(note["/A"]["/URI"]) for note in notes if "/URI" in note.get("/A", {})]
    assert all(address.startswith(("http", "mailto")) for address in addresses)
