"""The book on one page: five languages say the same, and every number is the ledger's."""

import io
import re
import sys

import pytest

from ibrelu.claims import CLAIMS
from test_site import ROOT, SITE, open_page

pytest.importorskip("sphinx")
sys.path.insert(0, str(ROOT / "book" / "_ext"))
summary = pytest.importorskip("summary")

LANGUAGES = sorted(summary.WORDS)
every_language = pytest.mark.parametrize("language", LANGUAGES)
CLAIM = {claim.id: claim for claim in CLAIMS}


def words(node):
    """All strings of a nested dict or list, with the keys that lead to them."""
    if isinstance(node, str):
        return {"": node}
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    return {f"{key}/{path}": text for key, part in pairs for path, text in words(part).items()}


def rows(language):
    """Cells of the table: claim, statement, predicted, measured, whose."""
    lines = [line for line in summary.sheet(language).splitlines() if re.match(r"\| \w", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def value(text, language):
    """Read a number as the sheet writes it."""
    if summary.WORDS[language]["decimal"] == ",":
        text = text.replace(".", "").replace(",", ".")
    text = re.sub(r"(?:([\d.]+)·)?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)$", lambda m: f"{m[1] or 1}e{m[2]}", text)
    text = text.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-"))
    return float(text.lstrip("<≤≥ "))


def test_the_words_of_every_language_name_the_same_formulas_in_the_same_places():
    named = {
        language: {k: sorted(re.findall(r"\{(\w+)\}", v)) for k, v in words(table).items()}
        for language, table in summary.WORDS.items()
    }
    for language in LANGUAGES:
        assert named[language] == named["en"], language


@every_language
def test_the_words_hold_no_number_and_no_formula(language):
    for place, text in words(summary.WORDS[language]).items():
        assert not re.search(r"[\d$\\½]", re.sub(r"\{\w+\}", "", text)), (place, text)


@every_language
def test_each_prediction_is_the_ledgers(language):
    table = rows(language)
    assert [row[0] for row in table] == [name for name, _ in summary.ROWS]
    for row, (name, index) in zip(table, summary.ROWS, strict=True):
        quantity = CLAIM[name].quantities[index]
        shown = [value(part, language) for part in row[2].split(" … ")]
        bounds = sorted({quantity.low, quantity.high} - {float("inf"), -float("inf")})
        assert shown == pytest.approx(bounds, rel=1e-3), name


@every_language
def test_each_measured_number_lies_in_its_prediction(language):
    for row, (name, index) in zip(rows(language), summary.ROWS, strict=True):
        shown = 0.0 if row[3].startswith("<") else value(row[3], language)
        assert CLAIM[name].quantities[index].holds(shown), name


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({name for name, _ in summary.ROWS}))
def test_each_measured_number_is_what_the_ledger_measures_now(name):
    fresh = CLAIM[name].measure()
    for row, (other, index) in zip(rows("de"), summary.ROWS, strict=True):
        if other == name and not row[3].startswith("<"):
            assert value(row[3], "de") == pytest.approx(fresh[index], rel=1e-3, abs=5e-4)
        elif other == name:
            assert abs(fresh[index]) < 1e-9


@every_language
def test_ours_is_said_where_and_only_where_the_ledger_says_it(language):
    ours = summary.WORDS[language]["ours"]
    for row in rows(language):
        assert (ours in row[4]) == ("ours" in CLAIM[row[0]].source), row


@every_language
def test_outside_the_table_no_number_is_written_but_in_formulas(language):
    text = summary.sheet(language)
    text = re.sub(r"<figure.*?</figure>|<p class.*?</p>|^\|.*?$|\(\.\./\S+\)", "", text, flags=re.M)
    text = re.sub(r"\$\$.*?\$\$|\$.*?\$", "", text, flags=re.S)
    assert set(re.findall(r"[A-Z]*\d[\d.,]*", text)) == set(summary.PAPERS)


def test_a_stale_page_of_claims_stops_the_build(monkeypatch):
    name, page = "T2a", summary.nbformat.read(summary.LEDGER, 4)
    for cell in page.cells:
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}):
                old = output["data"]["text/html"]
                output["data"]["text/html"] = old.replace("-0.53 to -0.47", "-0.6 to -0.4")
    monkeypatch.setattr(summary.nbformat, "read", lambda *_: page)
    summary.measured.cache_clear()
    with pytest.raises(summary.ExtensionError, match=rf"{name}|G1.*make execute"):
        summary.measured()
    summary.measured.cache_clear()


@pytest.mark.browser
@pytest.mark.parametrize("paper", ["A4", "Letter"])
@every_language
def test_the_sheet_prints_on_two_sides(chromium, address, language, paper):
    pypdf = pytest.importorskip("pypdf")
    pdf = pytest.importorskip("pdf")
    if not SITE.is_dir():
        pytest.fail("there is no built site to test; run `make book`")
    visit = open_page(chromium, address, f"{address}book/course/{summary.page(language)}.html")
    visit.page.evaluate(pdf.READY)
    printed = visit.page.pdf(format=paper, margin=pdf.MARGINS)
    pages = pypdf.PdfReader(io.BytesIO(printed)).pages
    assert len(pages) == 2
    assert "T2c" not in pages[0].extract_text()
    assert all(name in pages[1].extract_text() for name, _ in summary.ROWS)
    assert visit.page.locator(f'div.ibrelu-sheet[lang="{language}"] h1').count() == 1
    assert visit.errors == []
    visit.page.context.close()
