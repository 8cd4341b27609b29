"""Self-check questions: a `jupyterquiz` quiz whose stored form is the same at every run.

A quiz is a JSON file in `ibrelu/quizzes`, in the format of `jupyterquiz`. Text is HTML with
Unicode symbols (α, ‖w‖), so that it reads the same in a static page and in JupyterLab.
"""

from __future__ import annotations

import base64
import html
import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

_LIGHT = {
    "--jq-multiple-choice-bg": "#eef2f6",
    "--jq-many-choice-bg": "#eef2f6",
    "--jq-numeric-bg": "#eef2f6",
    "--jq-mc-button-bg": "#ffffff",
    "--jq-mc-button-border": "#6b7a8c",
    "--jq-numeric-input-bg": "#ffffff",
    "--jq-numeric-input-label": "#1d2733",
    "--jq-incorrect-color": "#a4262c",
    "--jq-correct-color": "#1b6e3c",
    "--jq-text-color": "#1d2733",
}

# What jupyterquiz leaves to the page: readable sizes, a visible focus, room on a phone.
_STYLE = """
.ibrelu-quiz { background: #fff; color: #1d2733; border: 1px solid #c5ced8;
  padding: .25rem 1rem 1rem; border-radius: 8px; max-width: 42rem; }
.ibrelu-quiz .Quiz { font-size: 1rem; line-height: 1.4; max-width: none !important; }
.ibrelu-quiz .Answer { grid-template-columns: 1fr; gap: .4rem; }
.ibrelu-quiz .MCButton { justify-content: flex-start; text-align: left; font-size: 1rem;
  color: #1d2733; margin: 0; }
.ibrelu-quiz .MCButton:focus-within, .ibrelu-quiz .Input-text:focus { outline: 3px solid #0b5fa5;
  outline-offset: 1px; }
.ibrelu-quiz .MCButton.correctButton, .ibrelu-quiz .MCButton.incorrectButton,
.ibrelu-quiz .Input-text.correctButton, .ibrelu-quiz .Input-text.incorrectButton { color: #fff; }
.ibrelu-quiz .sr-only { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); }
.ibrelu-quiz .Feedback { font-size: 1rem; text-align: left; min-height: 1.4em; }
.ibrelu-quiz .Input-text { border: 1px solid #6b7a8c; font-size: 1rem; }
.ibrelu-quiz .InpLabel { float: none; font-size: 1rem; line-height: 1.4; }
@media (prefers-reduced-motion: reduce) { .ibrelu-quiz * { animation-duration: 1ms !important; } }
"""

# The questions appear once the page stands; each group of answers and each
# field is then named for a screen reader, and feedback is announced.
_READY = """
(function () {
  var holder = document.getElementById("KEY-holder");
  function name(node) {
    node.querySelectorAll(".Quiz").forEach(function (quiz) {
      var question = quiz.querySelector("[id^=quizQn]"), group = quiz.querySelector(".Answer");
      var field = quiz.querySelector(".Input-text");
      if (field) field.setAttribute("aria-labelledby", question.id);
      else { group.setAttribute("role", "radiogroup");
        group.setAttribute("aria-labelledby", question.id); }
    });
    node.querySelectorAll(".Feedback").forEach(function (line) {
      line.setAttribute("role", "status");
    });
  }
  function begin() { holder.id = "KEY"; }
  new MutationObserver(function () { name(holder); }).observe(holder, { childList: true });
  if (document.readyState === "complete") begin(); else window.addEventListener("load", begin);
})();
"""


@dataclass(frozen=True)
class Quiz:
    """Questions that a notebook shows as a form in HTML and as a list elsewhere."""

    name: str
    questions: tuple[dict[str, Any], ...]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/html": self._page(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        lines = []
        for number, question in enumerate(self.questions, 1):
            lines.append(f"{number}. {_plain(question['question'])}")
            if question["type"] != "numeric":
                lines += [f"   ( ) {_plain(a['answer'])}" for a in question["answers"]]
        return "\n".join(lines)

    def _page(self) -> str:
        from jupyterquiz.dynamic.loader import load_questions_script
        from jupyterquiz.dynamic.renderer import build_script, build_styles

        key = "quiz" + re.sub(r"[^a-z]", "", self.name)
        packed = base64.b64encode(json.dumps(self.questions).encode()).decode()
        prefix, static, url = load_questions_script(f"#{key}data", key)
        script = build_script(prefix, static, url, key, True)
        return (
            f'<div class="ibrelu-quiz mathjax_ignore"><div id="{key}-holder" '
            f'data-shufflequestions="False" data-shuffleanswers="False" '
            f'data-preserveresponses="false" data-numquestions="{len(self.questions)}" '
            f'data-maxwidth="700"><noscript>The questions need JavaScript.</noscript></div></div>'
            f"{build_styles(key, _LIGHT)}<style>{_STYLE}</style>"
            f'<script type="application/json" id="{key}data">{packed}</script>'
            f"<script>{_READY.replace('KEY', key)}{script}</script>"
        )


def quiz(name: str) -> Quiz:
    """Return the questions of a chapter, e.g. `quiz("single-neuron")`.

    Raises
    ------
    ValueError
        If there is no quiz of that name.

    Examples
    --------
    >>> len(quiz("single-neuron").questions) >= 3
    True
    """
    path = files("ibrelu") / "quizzes" / f"{name}.json"
    if not path.is_file():
        raise ValueError(f"no quiz named {name!r}; there are: {', '.join(names())}")
    return Quiz(name, tuple(json.loads(path.read_text(encoding="utf-8"))))


def names() -> list[str]:
    """Names of all quizzes, sorted."""
    folder = files("ibrelu") / "quizzes"
    return sorted(item.name[:-5] for item in folder.iterdir() if item.name.endswith(".json"))


def _plain(text: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", text))
