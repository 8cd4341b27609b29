"""Formulas of the built book: set without a script, broken where paper breaks them, in one font."""

import html
import re
import sys

import pytest

from test_site import CONTENT, ROOT, SITE

pytest.importorskip("sphinx")
sys.path.insert(0, str(ROOT / "book" / "_ext"))
formulas = pytest.importorskip("formulas")

LONG = r"\lVert w(\infty) - w^\star\rVert \le \sqrt{\frac{n}{\lVert\lambda\rVert_1}} \quad 100n < d"


def words(mathml):
    """Return the signs of a formula."""
    return html.unescape(re.sub(r"<[^>]+>", "", mathml))


def test_a_short_formula_is_one_piece():
    assert formulas.mathml("a = b") == ["<math><mi>a</mi><mo>=</mo><mi>b</mi></math>"]


def test_a_long_formula_breaks_before_a_relation_and_after_a_wide_space():
    assert [words(piece) for piece in formulas.mathml(LONG)] == [
        "‖w(∞)−w⋆‖",
        "≤n‖λ‖1",
        "100n",
        "<d",
    ]
    # A relation that begins a piece keeps the room on both sides.
    assert '<mo form="infix">≤</mo>' in formulas.mathml(LONG)[1]


def test_a_relation_of_two_signs_is_not_broken():
    pieces = formulas.mathml(r"a_{1,2,3} + b_{1,2,3} + c_{1,2,3} :\! = = d_{1,2,3,4,5}")
    assert [words(piece) for piece in pieces][-1].startswith("==")


def test_lines_outside_an_environment_stand_below_each_other():
    (formula,) = formulas.mathml(r"a = 1 \\ b = 2", display=True)
    assert formula.count("<mtr>") == 2


def test_an_environment_with_lines_is_left_as_it_is():
    (formula,) = formulas.mathml(r"\begin{aligned} a &= 1 \\ b &= 2 \end{aligned}", display=True)
    assert formula.count("<mtable") == 1


def test_a_large_bracket_with_a_power_keeps_its_size():
    formula = "".join(formulas.mathml(r"\Big(\frac ab\Big)^2", display=True))
    assert re.search(r"<msup><mrow><mo [^>]*minsize[^>]*>\)</mo></mrow>", formula)


@pytest.mark.parametrize("tex", [r"\frac{a", r"\nosuchcommand x", r"a \end{aligned}"])
def test_a_formula_that_cannot_be_read_stops_the_build(tex):
    with pytest.raises(ValueError, match="cannot be set"):
        formulas.mathml(tex)


def glued(rst):
    """Publish a paragraph with formulas as the book's pages have it."""
    from docutils.core import publish_doctree

    tree = publish_doctree(rst)
    formulas.glue(None, tree, "page")
    return [
        (formula.get("head"), formula.astext(), formula.get("tail"))
        for formula in tree.findall(formulas.nodes.math)
    ]


def test_what_touches_a_formula_stays_on_its_line():
    text = "The :math:`\\ell_2`-norm (:math:`x`), of :math:`y`. And :math:`z` alone"
    # docutils needs a mark after a formula: a hyphen is one.
    assert glued(text) == [
        ("", r"\ell_2", "-norm"),
        ("(", "x", "),"),
        ("", "y", "."),
        ("", "z", ""),
    ]


@pytest.mark.browser
@pytest.mark.parametrize("name", CONTENT)
def test_the_font_has_every_sign(name):
    from fontTools.ttLib import TTFont

    known = TTFont(ROOT / "book/assets/math.woff2").getBestCmap()
    page = (SITE / name).read_text("utf-8")
    signs = set("".join(words(math) for math in re.findall(r"<math.*?</math>", page, re.DOTALL)))
    unseen = {"\N{NO-BREAK SPACE}", "\N{VARIATION SELECTOR-1}"}
    missing = sorted(sign for sign in signs - unseen if ord(sign) not in known)
    assert missing == [], "add them to book/font.py and make the font again"
