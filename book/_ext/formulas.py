"""Set every formula when the book is built, as MathML: it stands with the text, without a script.

A long formula may break before a relation and after a wide space, as on paper: it is then several
pieces, with a place for a break between them. The mark after a formula, and the bracket before it,
stay on its line, and so does the end of a word ("-norm").
"""

from __future__ import annotations

import re
from html import escape
from xml.etree import ElementTree

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

SETTER = LatexToMathML(fancy_error=False)
LONG = 20  # signs; a shorter formula stays whole
RELATIONS = set("=<>≤≥≪≫≠≈∼≡≔∈∉⊂⊆→←↔⇒⇔⟹⟺∝≲≳↦")
WIDE = 0.9  # em: a space after which a formula may break
BEFORE = re.compile(r"[(“\[]*$")
AFTER = re.compile(r"(?:[-‑’]?[A-Za-z]{1,9}(?![A-Za-z]))?[,.;:!?)”’\]]*")


def is_relation(part: ElementTree.Element) -> bool:
    """Tell a relation's sign from other parts."""
    return part.tag == "mo" and part.text in RELATIONS


def width(space: ElementTree.Element) -> float:
    """Return a space's width in em, 0 for anything else."""
    given = space.get("width", "") if space.tag == "mspace" else ""
    return float(given.removesuffix("em")) if given.endswith("em") else 0.0


def pieces(formula: ElementTree.Element) -> list[list[ElementTree.Element]]:
    """Cut a long formula where a line may end."""
    parts = list(formula)
    if len("".join(formula.itertext())) < LONG:
        return [parts]
    found: list[list[ElementTree.Element]] = [[]]
    for before, part in zip([None, *parts], parts, strict=False):
        relation = is_relation(part) and (before is None or not is_relation(before))
        if found[-1] and (relation or (before is not None and width(before) >= WIDE)):
            found.append([])
        found[-1].append(part)
    return found


def mathml(tex: str, *, display: bool = False) -> list[str]:
    r"""Return a formula as MathML, in the pieces between which a line may break.

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
    # Browsers give a large bracket its size in a row only.
    for power in [part for part in whole.iter() if part.tag in ("msub", "msup", "msubsup")]:
        if power[0].get("minsize"):
            row = ElementTree.Element("mrow")
            row.append(power[0])
            power[0] = row
    written = []
    for piece in pieces(whole):
        math = ElementTree.Element("math", {"displaystyle": "true"} if display else {})
        math.extend(piece)
        if piece and is_relation(piece[0]):
            piece[0].set("form", "infix")
        written.append(ElementTree.tostring(math, encoding="unicode"))
    return written


def visit(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line, with what touches it."""
    written = mathml(node.astext())
    written[0] = node.get("head", "") + written[0]
    written[-1] += node.get("tail", "")
    for place, marks in ((0, node.get("head")), (-1, node.get("tail"))):
        if marks and "<span" not in written[place]:
            written[place] = f'<span class="ibrelu-glue">{written[place]}</span>'
    self.body.append(self.starttag(node, "span", "", CLASS="math notranslate nohighlight"))
    self.body.append("<wbr>".join(written) + "</span>")
    raise nodes.SkipNode


def visit_display(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own, with its number if it has one."""
    self.body.append(self.starttag(node, "div", CLASS="math notranslate nohighlight"))
    if node["number"]:
        number = get_node_equation_number(self, node)
        self.body.append(f'<span class="eqno">({number})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    written = "<wbr>".join(mathml(node.astext(), display=True))
    self.body.append(f'<div class="formula">{written}</div></div>\n')
    raise nodes.SkipNode


def glue(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Keep on each formula's line what touches it."""
    for formula in list(tree.findall(nodes.math)):
        link = formula.parent if isinstance(formula.parent, nodes.reference) else None
        whole = formula if link is None or len(link) > 1 else link
        line, index = whole.parent, whole.parent.index(whole)
        before = line[index - 1] if index else None
        after = line[index + 1] if index + 1 < len(line) else None
        head = BEFORE.search(before)[0] if isinstance(before, nodes.Text) else ""
        tail = AFTER.match(after)[0] if isinstance(after, nodes.Text) else ""
        if head:
            line[index - 1] = nodes.Text(before.removesuffix(head))
        if tail:
            line[index + 1] = nodes.Text(after.removeprefix(tail))
        if whole is formula:
            formula["head"], formula["tail"] = escape(head), escape(tail)
        elif head or tail:
            parts = [nodes.Text(head), link, nodes.Text(tail)]
            line[index] = nodes.inline("", "", *parts, classes=["ibrelu-glue"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the writer of formulas."""
    app.add_html_math_renderer("mathml", (visit, None), (visit_display, None))
    app.connect("doctree-resolved", glue, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
