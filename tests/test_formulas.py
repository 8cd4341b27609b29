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


def pieces(tex):
    """Return the signs of each piece, with the room before it."""
    return [(words(piece), room) for piece, room in formulas.mathml(tex)]


def test_a_short_formula_is_one_piece():
    assert formulas.mathml("a = b") == [("<math><mi>a</mi><mo>=</mo><mi>b</mi></math>", 0)]


def test_a_long_formula_breaks_at_a_wide_space_and_before_a_relation():
    assert pieces(LONG) == [("‖w(∞)−w⋆‖", 0), ("≤n‖λ‖1", 0), ("100n", 1.0), ("<d", 0)]
    (first, _), (second, _), *_ = formulas.mathml(LONG)
    # The room before the relation ends a line; the relation begins the next without it.
    assert first.endswith('<mspace width="0.2778em" /></math>')
    assert '<mo form="infix" lspace="0">≤</mo>' in second


def test_a_relation_of_two_signs_is_not_broken():
    (_, (second, _)) = pieces(r"a_{1,2,3} + b_{1,2,3} + c_{1,2,3} := d_{1,2,3,4,5}")
    assert second.startswith(":=")


def test_nothing_breaks_within_brackets():
    assert len(pieces(r"\operatorname{P}\bigl(\{x_1 + x_2 + x_3 > y_1 + y_2 + y_3\}\bigr)^2")) == 1


def test_lines_outside_an_environment_stand_below_each_other():
    ((formula, _),) = formulas.mathml(r"a = 1 \\ b = 2", display=True)
    assert formula.count("<mtr>") == 2


def test_an_environment_with_lines_is_left_as_it_is():
    ((formula, _),) = formulas.mathml(
        r"\begin{aligned} a &= 1 \\ b &= 2 \end{aligned}", display=True
    )
    assert formula.count("<mtable") == 1


def test_a_large_bracket_with_a_power_keeps_its_size():
    ((formula, _),) = formulas.mathml(r"\Big(\frac ab\Big)^2", display=True)
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


def test_the_end_of_a_proof_is_not_alone_on_a_line():
    assert glued("So it is. :math:`\\square`") == [("is.\N{NO-BREAK SPACE}", r"\square", "")]
    ((_, _, tail),) = glued("So :math:`a = b`. :math:`\\square`")
    assert words(tail) == ".\N{NO-BREAK SPACE}□"


def test_a_sign_at_the_head_of_a_line_keeps_its_room():
    ((formula, _),) = formulas.mathml(r"\begin{aligned} a &= b \\ &- c \end{aligned}", display=True)
    assert '<mo form="infix">−</mo>' in formula


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
