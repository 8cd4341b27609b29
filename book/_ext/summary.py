"""The book on one page, in five languages: words from one file, formulas and numbers from here.

A page whose text is ``{{summary de}}`` becomes the sheet in that language. `WORDS` holds words
only. Formulas are named there and written here; predictions come from `ibrelu.claims`,
measurements from the page of claims, whose stored outputs the tests compare with a fresh run.
"""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from ibrelu.claims import CLAIMS, START, C, Claim, N
from ibrelu.descent import gradient_descent
from ibrelu.explore import Frame, explore
from ibrelu.features import gaussian_gram, signed_labels
from ibrelu.figures import primal_dual_portrait
from ibrelu.min_norm import min_norm
from ibrelu.problem import Problem, all_active

BOOK = Path(__file__).resolve().parent.parent
WORDS: dict[str, dict[str, Any]] = json.loads((BOOK / "course" / "summary.json").read_text("utf-8"))
LEDGER = BOOK / "laboratory" / "claims.ipynb"
MARK = re.compile(r"\{\{summary (\S+)\}\}\s*")
PAPERS = ("LWTM26", "KCG23", "BPF22", "VS21")

FORMULAS = {
    "model": r"f(x) = \sum_k s_k \max(0,\, w_k \cdot x)",
    "signs": r"s_k = \pm 1",
    "example": r"x_i",
    "label": r"y_i",
    "loss": r"L = \tfrac12 \sum_i (f(x_i) - y_i)^2",
    "eta_step": r"\eta = c/\lVert\lambda\rVert_1",
    "spectrum": r"\lambda",
    "P": r"P",
    "N": r"N",
    "n_P": r"n_+",
    "n_N": r"n_-",
    "gram": r"G = XX^\top",
    "gram_over": r"G/\lVert\lambda\rVert_1",
    "alpha": r"\alpha_{k,i}",
    "beta": r"\beta_{k,i}",
    "silent": r"\beta_{k,i} \le 0",
    "residual": r"r_i = f(x_i) - y_i",
    "w1": r"w_1",
    "delta": r"\Delta = \alpha_N(\infty) - \alpha_N^\star",
    "schur": r"S = G_{NN} - G_{NP}\,G_{PP}^{-1}\,G_{PN}",
    "rate": r"\Theta\bigl(\sqrt{n_-/\lVert\lambda\rVert_1}\bigr)",
    "rate_two": r"\Theta\bigl(\sqrt{n/\lVert\lambda\rVert_1}\bigr)",
    "trace": r"\lVert\lambda\rVert_1",
    "d": r"d",
    "c": r"c",
    "eta_only": r"\eta",
    "t": r"t",
    "root": r"\sqrt{m/2}",
    "loss_rate": r"L = \Theta(1/t)",
    "norm_rate": r"\lVert W\rVert = \Theta(\log t)",
    "gamma": r"\gamma",
    "rank": r"\lVert W\rVert_F^2/\lVert W\rVert_2^2",
    "one": r"1",
    "relu_rank": r"2n_+/(n_+ + 1)",
    "whole_rank": r"1 + \bigl(\tfrac{1-\gamma}{1+\gamma}\bigr)^2",
    "constant": r"c\,\operatorname{rms}\lvert y_N\rvert\,\sqrt{n_-/\lVert\lambda\rVert_1}",
    "relative": r"c\,\lVert y_N\rVert/\lVert y_P\rVert",
}
DISPLAYS = {
    "recursion": r"\alpha_{k,i} \leftarrow \alpha_{k,i} - \eta\, s_k r_i\,"
    r"\mathbf 1[\beta_{k,i} > 0], \quad \beta_k = G\alpha_k .",
    "limit": r"w(\infty) = \arg\min\{\lVert w - w_1\rVert : X_P w = y_P\} .",
    "gap": r"\begin{gathered} "
    r"w^\star = \arg\min\{\lVert w\rVert : X_P w = y_P,\; X_N w \le 0\}, \\ "
    r"\lVert w(\infty) - w^\star\rVert^2 = \Delta^\top S\,\Delta . \end{gathered}",
    "constants": r"\begin{gathered} \lVert w(\infty) - w^\star\rVert "
    r"\sqrt{\lVert\lambda\rVert_1/n_-} \to c\,\operatorname{rms}\lvert y_N\rvert, \\ "
    r"\lVert w(\infty) - w^\star\rVert \,/\, \lVert w^\star\rVert \to "
    r"c\,\lVert y_N\rVert/\lVert y_P\rVert . \end{gathered}",
}
# Rows of the table: a claim of the ledger, and which of its quantities.
ROWS = (
    ("G1", 0), ("T1a", 0), ("T1b", 0), ("T1c", 0), ("T2a", 0), ("T2a", 1), ("T2c", 1), ("T2c", 2),
    ("T2d", 0), ("T2e", 0), ("S1", 0), ("T3", 0), ("T4", 0), ("T4b", 0), ("M2", 0), ("F1", 0),
    ("E1", 0), ("E2", 0), ("E3", 0), ("E4", 0), ("K1", 0), ("K2", 0), ("K3", 0), ("K4", 0),
    ("K5", 0), ("K6", 0),
)  # fmt: skip


@cache
def measured() -> dict[str, list[str]]:
    """Measured numbers of each claim, as the page of claims shows them."""
    outputs = [o for c in nbformat.read(LEDGER, 4).cells for o in c.get("outputs", [])]
    page = "".join("".join(o.get("data", {}).get("text/html", "")) for o in outputs)
    cards = re.findall(r'<section class="ibrelu-claim" id="claim-(\w+)".*?</section>', page, re.S)
    bodies = re.findall(r'<section class="ibrelu-claim".*?</section>', page, re.S)
    found = {}
    for name, body in zip(cards, bodies, strict=True):
        rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>", body)
        claim = next(claim for claim in CLAIMS if claim.id == name)
        if [html.unescape(row[1]) for row in rows] != [q.prediction for q in claim.quantities]:
            raise ExtensionError(
                f"the stored page of claims shows other predictions of {name} than the ledger; "
                "execute it again (`make execute`)"
            )
        found[name] = [html.unescape(row[2]) for row in rows]
    return found


def number(text: str, language: str) -> str:
    """Write the ledger's number or interval with the language's marks: "-0.53 to -0.47"."""
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

    def power(found: re.Match[str]) -> str:
        ten = "10" + str(int(found[2])).translate(raised)
        return ten if found[1] == "1" else f"{found[1]}·{ten}"

    text = re.sub(r"([\d.]+)e([+-]\d+)", power, text)
    text = re.sub(r"(?<![\w)])-(?=\d)", "−", text).replace(" to ", " … ")
    if WORDS[language]["decimal"] == ",":
        swap = str.maketrans(",.", ".,")
        text = re.sub(r"(?<=\d), (?=\d)", "; ", text)
        text = re.sub(r"(?<=\d)[.,](?=\d)", lambda mark: mark[0].translate(swap), text)
    return text


def setting(claim: Claim, index: int, language: str) -> str:
    """Return the set-up that a quantity's name or the claim ends with, e.g. " (d = 1,600)"."""
    found = re.search(r"(\S+ = [^()]*)$", claim.quantities[index].name) or re.search(
        r"\(([^()]*=[^()]*)\)\.$", claim.statement
    )
    if not found:
        return ""
    together = found[1].replace(" = ", "\u00a0=\u00a0")
    return f" ({number(together, language)})"


def source(text: str, words: dict[str, Any]) -> str:
    """Whose the statement is: ours, or a paper's, with its theorem."""
    if "ours" in text:
        return f"**{words['ours']}**"
    for english, word in (("Theorem", words["theorem"]), ("Appendix", words["appendix"])):
        text = text.replace(f"{english} ", f"{word}\u00a0")
    return text


def table(language: str) -> str:
    """Return the table of results."""
    words, claims = WORDS[language], {claim.id: claim for claim in CLAIMS}
    lines = ["| " + " | ".join(["", *words["columns"]]) + " |", "|---" * 5 + "|"]
    for name, index in ROWS:
        claim = claims[name]
        said = fill(words["rows"][f"{name}.{index}"], language) + setting(claim, index, language)
        predicted = number(claim.quantities[index].prediction, language)
        value = number(measured()[name][index], language)
        lines.append(f"| {name} | {said} | {predicted} | {value} | {source(claim.source, words)} |")
    return "\n".join(lines)


def fill(text: str, language: str) -> str:
    """Put formulas, numbers and links where the words name them."""
    words = WORDS[language]
    comma = "{,}" if words["decimal"] == "," else "."
    names = {name: f"${tex}$" for name, tex in FORMULAS.items()}
    names |= {name: f"\n\n$$\n{tex}\n$$\n\n" for name, tex in DISPLAYS.items()}
    names |= {
        "n_value": f"$n = {N}$",
        "c_value": f"$c = {C:g}$".replace(".", comma),
        "b_value": f"$b = {START:g}$".replace(".", comma),
        "ledger": f"[{words['ledger']}](../laboratory/claims.ipynb)",
        "papers": "; ".join(f"{key}: {{cite:t}}`{key}`" for key in PAPERS),
    }
    return text.format(**names)


@cache
def portrait() -> Frame:
    """Draw the primal–dual portrait of the ledger's standard set-up."""

    def draw(d: int) -> Any:
        problem = Problem(gaussian_gram(N, d, rng=0), signed_labels(N, rng=3))
        shown = [0, 1, 2, 3, 4, 6, 9, 13, 20, 40]
        run = gradient_descent(problem, all_active(problem, START), problem.step(C), record=shown)
        return primal_dual_portrait(problem, run, min_norm(problem), limits=(-1.5, 2.2)), "Portrait"

    return explore(draw, title="Portrait", alt="Portrait", d=[1600]).frame(d=1600)


def picture(language: str) -> str:
    """Return the portrait with its labels in the language."""
    words, frame = WORDS[language], portrait()
    svg = frame.svg
    for english, word in words["figure"].items():
        svg = svg.replace(english, word)
    return (
        f'<figure class="ibrelu-portrait"><img src="{replace(frame, svg=svg).uri}" '
        f'alt="{html.escape(words["alt"])}"><figcaption>{html.escape(words["caption"])}'
        "</figcaption></figure>"
    )


def sheet(language: str) -> str:
    """Return the whole sheet as MyST Markdown."""
    words = WORDS[language]
    others = " · ".join(
        f'<a href="{page(code)}.html" lang="{code}">{other["name"]}</a>'
        for code, other in WORDS.items()
        if code != language
    )
    points = "\n".join(f"- {fill(text, language)}" for text in words["breaks"])
    steps = "\n\n".join(fill(text, language) for text in words["regression"])
    return f"""# {words["title"]}

<p class="ibrelu-languages">{others}</p>

{fill(words["question"], language)}

## {words["headings"][0]}

{fill(words["setting"], language)}

## {words["headings"][1]}

{picture(language)}

{steps}

{points}

## {words["headings"][2]}

{fill(words["classification"], language)}

## {words["headings"][3]}

{fill(words["table"], language)}

{table(language)}

{fill(words["whose"], language)}
"""


def page(language: str) -> str:
    """Name of the sheet's page."""
    return "summary" if language == "en" else f"summary-{language.split('-')[0]}"


def write(app: Sphinx, document: str, text: list[str]) -> None:
    """Replace the mark by the sheet."""
    if found := MARK.fullmatch(text[0]):
        text[0] = sheet(found[1])


def mark_language(
    app: Sphinx, document: str, template: str, context: dict[str, Any], tree: object
) -> None:
    """Say in which language the sheet is; the pages around it are English."""
    for language in WORDS:
        if document == f"book/course/{page(language)}":
            context["body"] = f'<div class="ibrelu-sheet" lang="{language}">{context["body"]}</div>'


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the two steps."""
    app.connect("source-read", write)
    app.connect("html-page-context", mark_language)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
