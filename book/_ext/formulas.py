"""Set every formula when the book is built, as MathML: it stands with the text, without a script.

A long formula may break before a relation and after a wide space, as on paper: it is then several
pieces, with places for a break between them. The mark after a formula, and the bracket before it,
stay on its line, and so does the end of a word ("-norm").
"""

from __future__ import annotations

import re
from html import escape
from typing import NamedTuple
from xml.etree import ElementTree

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

SETTER = LatexToMathML(fancy_error=False)
LONG = 20  # signs; a shorter formula stays whole
RELATIONS = set(":=<>≤≥≪≫≠≈∼≡≔∈∉⊂⊆→←↔⇒⇔⟹⟺∝≲≳↦")
WIDE = 0.9  # em: a space after which a formula may break
ROOM = "0.2778em"  # on each side of a relation
OPEN, CLOSE, SIGNS = tuple("([{"), tuple(")]}"), tuple("+−±")
ENDS = (r"\square", r"\blacksquare")  # of a proof: never alone on a line
SPACE = "\N{NO-BREAK SPACE}"
WORD = re.compile(r"\S* ?$")
BEFORE = re.compile(r"[(“\[（「『【]*$")
AFTER = re.compile(r"(?:[-‑’]?[A-Za-z]{1,9}(?![A-Za-z]))?[,.;:!?)”’\]。，、；：！？）」』】]*")


def is_relation(part: ElementTree.Element | None) -> bool:
    """Tell a relation's sign from other parts."""
    return part is not None and part.tag == "mo" and part.text in RELATIONS


def width(space: ElementTree.Element) -> float:
    """Return a space's width in em, 0 for anything else."""
    given = space.get("width", "") if space.tag == "mspace" else ""
    return float(given.removesuffix("em")) if given.endswith("em") else 0.0


class Piece(NamedTuple):
    """A part of a formula that stays on one line, and the room before it in em."""

    signs: list[ElementTree.Element]
    room: float


def cut(formula: ElementTree.Element) -> list[Piece]:
    """Cut a long formula where a line may end.

    That is at a wide space, or outside of brackets before a relation: the relation's own room then
    ends the line before.
    """
    signs = list(formula)
    if len("".join(formula.itertext())) < LONG:
        return [Piece(signs, 0)]
    pieces, depth, before = [Piece([], 0)], 0, None
    for sign in signs:
        last = pieces[-1].signs
        if width(sign) >= WIDE:
            pieces.append(Piece([], width(sign)))
        elif last and depth == 0 and is_relation(sign) and not is_relation(before):
            last.append(ElementTree.Element("mspace", width=ROOM))
            sign.set("form", "infix")
            sign.set("lspace", "0")
            pieces.append(Piece([sign], 0))
        else:
            last.append(sign)
        depth += sum((mo.text in OPEN) - (mo.text in CLOSE) for mo in sign.iter("mo"))
        before = sign
    return pieces


def mend(formula: ElementTree.Element) -> None:
    """Help browsers.

    A large bracket has its size in a row only, and the sign that begins a line of an aligned
    formula is not one of a number.
    """
    for part in list(formula.iter()):
        if part.tag in ("msub", "msup", "msubsup") and part[0].get("minsize"):
            row = ElementTree.Element("mrow")
            row.append(part[0])
            part[0] = row
        if part.tag == "mtr":
            for cell in list(part)[1::2]:
                if len(cell) and cell[0].text in SIGNS:
                    cell[0].set("form", "infix")


def mathml(tex: str, *, display: bool = False) -> list[tuple[str, float]]:
    r"""Return a formula as MathML, in pieces between which a line may break.

    With each piece comes the room before it, in em: 0 before a relation, more at a wide space.

    Raises
    ------
    ValueError
        If the formula cannot be read.
    """
    if r"\\" in re.sub(r"\\begin\{(\w+\*?)\}.*\\end\{\1\}", "", tex, flags=re.DOTALL):
        tex = rf"\begin{{gathered}}{tex}\end{{gathered}}"
    try:
        text = SETTER.convert_with_local_state(tex, displaystyle=display)
    except LatexError as error:
        raise ValueError(f"the formula {tex!r} cannot be set: {error}") from error
    whole = ElementTree.fromstring(text.replace("&ApplyFunction;", "\u2061"))
    mend(whole)
    written = []
    for piece in cut(whole):
        math = ElementTree.Element("math", {"displaystyle": "true"} if display else {})
        math.extend(piece.signs)
        written.append((ElementTree.tostring(math, encoding="unicode"), piece.room))
    return written


def joint(room: float) -> str:
    """Return what stands between two pieces; a wide space vanishes where a line ends."""
    return f'<span style="word-spacing: {room - 0.25:.2f}em"> </span>' if room else "<wbr>"


def visit(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line, with what touches it."""
    written = mathml(node.astext())
    pieces = [piece for piece, _ in written]
    pieces[0] = node.get("head", "") + pieces[0]
    pieces[-1] += node.get("tail", "")
    for place, marks in ((0, node.get("head")), (-1, node.get("tail"))):
        if marks and "<span" not in pieces[place]:
            pieces[place] = f'<span class="ibrelu-glue">{pieces[place]}</span>'
    self.body.append(self.starttag(node, "span", "", CLASS="math notranslate nohighlight"))
    for k, (piece, (_, room)) in enumerate(zip(pieces, written, strict=True)):
        self.body.append(joint(room) + piece if k else piece)
    self.body.append("</span>")
    raise nodes.SkipNode


def visit_display(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own, with its number if it has one.

    A line breaks rather at a wide space than before a relation.
    """
    self.body.append(self.starttag(node, "div", CLASS="math notranslate nohighlight"))
    if node["number"]:
        number = get_node_equation_number(self, node)
        self.body.append(f'<span class="eqno">({number})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append('<div class="formula"><span class="formula-part">')
    for k, (piece, room) in enumerate(mathml(node.astext(), display=True)):
        between = f'</span>{joint(room)}<span class="formula-part">' if room else "<wbr>"
        self.body.append(between + piece if k else piece)
    self.body.append("</span></div></div>\n")
    raise nodes.SkipNode


def glue(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Keep on each formula's line what touches it, and the mark of a proof's end on its last."""
    for formula in list(tree.findall(nodes.math)):
        link = formula.parent if isinstance(formula.parent, nodes.reference) else None
        whole = formula if link is None or len(link) > 1 else link
        line, index = whole.parent, whole.parent.index(whole)
        before = line[index - 1] if index else None
        after = line[index + 1] if index + 1 < len(line) else None
        last = formula.astext() in ENDS
        if last and before == " " and isinstance(line[index - 2], nodes.math):
            line[index - 2]["tail"] += SPACE + mathml(formula.astext())[0][0]
            del line[index - 1 : index + 1]
            continue
        start = WORD if last else BEFORE
        head = start.search(before)[0] if isinstance(before, nodes.Text) else ""
        tail = AFTER.match(after)[0] if isinstance(after, nodes.Text) else ""
        if head:
            line[index - 1] = nodes.Text(before.removesuffix(head))
        if tail:
            line[index + 1] = nodes.Text(after.removeprefix(tail))
        if whole is formula:
            formula["head"] = escape(head.replace(" ", SPACE))
            formula["tail"] = escape(tail)
        elif head or tail:
            parts = [nodes.Text(head), link, nodes.Text(tail)]
            line[index] = nodes.inline("", "", *parts, classes=["ibrelu-glue"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the writer of formulas."""
    app.add_html_math_renderer("mathml", (visit, None), (visit_display, None))
    app.connect("doctree-resolved", glue, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
