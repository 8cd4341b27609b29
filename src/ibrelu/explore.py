r"""The explorer: one picture, a slider for each of its parameters, with or without a kernel.

`explore(figure, c=[...], d=[...])` draws ``figure(c=..., d=...)``. It has two faces and shows one:

- **static**, in the built book: every frame over the grid is drawn beforehand, and native range
  inputs switch between them. Nothing is fetched, no kernel runs; keyboards, screen readers and
  phones work; with scripts off, on paper and in the PDF the first frame stands.
- **live**, in a Jupyter session: ipywidgets call ``figure`` as the sliders move.

Two faces at once would be worse than either: a page would then store and load the dead widget.
"""

from __future__ import annotations

import base64
import gzip
import html
import io
import itertools
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from importlib.resources import files
from typing import Any, TypeAlias

import numpy as np
from matplotlib.figure import Figure

from ibrelu._checks import Array
from ibrelu.figures import png, style

MAX_FRAMES = 60
MAX_BYTES = 400_000  # gzipped, the whole of an explorer's HTML
# Lines are drawn this close to where they are. In printer's points: a sixth of a pixel where a page
# shows the picture at its widest.
UNSEEN = 0.1

Drawing: TypeAlias = Callable[..., tuple[Figure, str]]
Edits: TypeAlias = list[int | str]


@dataclass(frozen=True)
class Choice:
    """One slider: the values it can take and how they are written."""

    name: str
    label: str
    values: tuple[Any, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The values as they are written beside the slider."""
        return tuple(_text(value) for value in self.values)


@dataclass(frozen=True)
class Frame:
    """A drawn setting: the picture as SVG text, and the sentence under it."""

    svg: str
    caption: str

    @property
    def uri(self) -> str:
        """The picture as an address that holds it whole."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg.encode()).decode()


def explore(
    figure: Drawing,
    *,
    title: str,
    alt: str,
    continuous: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    play: str | None = None,
    **choices: Sequence[Any],
) -> Explorer:
    """Show `figure` with a slider for each of its parameters.

    Parameters
    ----------
    figure : callable
        Called as ``figure(**values)``, one value from each of `choices`; returns a matplotlib
        `Figure` and a caption: one plain sentence with the values and what was measured at them.
        It must draw the same picture whenever it is called with the same values.
    title : str
        What the explorer shows. Its address on the page is made from it, so no two explorers of a
        page may share a title.
    alt : str
        Says to a reader who does not see the picture what is in it and what changes as the sliders
        move.
    continuous : sequence of str
        Parameters that a live session may set anywhere between the smallest and the largest choice.
    names : mapping of str to str, optional
        What is written beside the slider of a parameter; by default the parameter itself.
    play : str, optional
        The parameter that is a time: it gets a button that plays it.
    **choices : sequence
        The values of each parameter, at most 60 combinations. The first of each make the frame
        that is printed and that stands where scripts do not run.

    Returns
    -------
    Explorer
        Displayed when it is the last value of a notebook cell.

    Raises
    ------
    TypeError
        If `figure` does not return a matplotlib figure and a sentence.
    ValueError
        If there is no choice, or too many; no title or alt text; a name that is no parameter; or
        the frames are heavier than 400 kB gzipped.

    Examples
    --------
    >>> from ibrelu.figures import canvas
    >>> def line(slope):
    ...     figure, axes = canvas()
    ...     axes.plot([0, 1], [0, slope])
    ...     return figure, f"A line of slope {slope}."
    >>> explore(line, title="A line", alt="A line that is steeper as slope grows.", slope=[1, 2])
    A line
    A line of slope 1.
    """
    if not callable(figure):
        raise TypeError(f"figure must be a function of the choices, got {type(figure).__name__}")
    for what, words in (("title", title), ("alt", alt)):
        if not isinstance(words, str) or not words.strip():
            raise ValueError(f"{what} must say what is seen, got {words!r}; write a sentence")
    if not re.search("[a-z0-9]", title.lower()):
        raise ValueError(f"title must contain a letter or a digit, got {title!r}")
    sliders = _checked_choices(choices, names or {})
    for what, listed in (
        ("continuous", tuple(continuous)),
        ("names", tuple(names or {})),
        ("play", (play,) if play else ()),
    ):
        unknown = [name for name in listed if name not in choices]
        if unknown:
            raise ValueError(
                f"{what} must name parameters of the figure, got {unknown[0]!r}; the choices are "
                f"{', '.join(choices)}"
            )
    for choice in sliders:
        if choice.name in continuous and not all(_is_number(value) for value in choice.values):
            raise ValueError(
                f"continuous must name parameters with number values, got {choice.name!r} with "
                f"{list(choice.values)}"
            )
    return Explorer(figure, title, alt, sliders, tuple(continuous), play)


class Explorer:
    """A figure with sliders; made by `explore`.

    Attributes
    ----------
    title : str
    alt : str
    choices : tuple of Choice
    live : bool
        Whether it shows widgets; otherwise it shows frames drawn beforehand.
    """

    def __init__(
        self,
        figure: Drawing,
        title: str,
        alt: str,
        choices: tuple[Choice, ...],
        continuous: tuple[str, ...] = (),
        play: str | None = None,
    ) -> None:
        self.title, self.alt, self.choices = title, alt, choices
        self._figure, self._continuous, self._play = figure, continuous, play
        self._frames: dict[tuple[Any, ...], Frame] = {}
        self.live = _live_session()
        self._first = self.frame(**{choice.name: choice.values[0] for choice in choices})
        # Drawn now, so that an error in a figure stops the cell: in a display hook it would not.
        self._html = "" if self.live else self.html()

    def frame(self, **values: Any) -> Frame:
        """Draw one setting; what has been drawn once is kept."""
        key = tuple(values[choice.name] for choice in self.choices)
        if key not in self._frames:
            self._frames[key] = _draw(self._figure, values)
        return self._frames[key]

    def frames(self) -> list[Frame]:
        """Every frame over the grid; the last parameter varies fastest."""
        grid = itertools.product(*(choice.values for choice in self.choices))
        names = [choice.name for choice in self.choices]
        return [self.frame(**dict(zip(names, values, strict=True))) for values in grid]

    def html(self) -> str:
        """Return the static face."""
        frames = self.frames()
        base = _tokens(frames[0].svg)
        data = {
            "choices": [
                {"name": choice.name, "label": choice.label, "texts": choice.texts}
                for choice in self.choices
            ],
            "captions": [frame.caption for frame in frames],
            "frames": _packed([_edits(base, _tokens(frame.svg)) for frame in frames[1:]]),
            "play": self._play,
        }
        sliders = " and ".join(choice.label for choice in self.choices)
        page = _PAGE.format(
            id=_slug(self.title),
            title=html.escape(self.title),
            style=_asset("explorer.css"),
            picture=frames[0].uri,
            alt=html.escape(self.alt),
            caption=html.escape(frames[0].caption),
            note=html.escape(f"One setting of {len(frames)}: the online book has sliders for "),
            sliders=html.escape(sliders),
            data=_script_safe(json.dumps(data, ensure_ascii=False, separators=(",", ":"))),
            script=_asset("explorer.js"),
        )
        weight = len(gzip.compress(page.encode(), mtime=0))
        if weight > MAX_BYTES:
            raise ValueError(
                f"the explorer {self.title!r} weighs {weight / 1000:.0f} kB gzipped, more than "
                f"{MAX_BYTES // 1000}; draw fewer points, or offer fewer choices "
                f"(now {len(frames)} frames)"
            )
        return page

    def widget(self) -> Any:
        """Return the live face: an ipywidgets box whose picture and caption follow its sliders."""
        import ipywidgets as widgets

        controls = {choice.name: self._control(choice) for choice in self.choices}
        picture, caption = widgets.HTML(), widgets.HTML()

        def show(_change: object = None) -> None:
            values = {name: self._value(name, slider.value) for name, slider in controls.items()}
            try:
                frame = self.frame(**values)
            except Exception as error:  # a widget's callback would swallow it
                caption.value = f"<p role='alert'>{html.escape(f'{error!r} at {values}')}</p>"
                return
            picture.value = (
                f'<img src="{frame.uri}" alt="{html.escape(self.alt)}" '
                'style="width:100%;max-width:36rem;background:#fff">'
            )
            caption.value = f'<p aria-live="polite">{html.escape(frame.caption)}</p>'

        for slider in controls.values():
            slider.observe(show, "value")
        show()
        rows = list(controls.values())
        if self._play:
            last = len(next(c for c in self.choices if c.name == self._play).values) - 1
            player = widgets.Play(min=0, max=last, interval=500)
            widgets.jslink((player, "value"), (controls[self._play], "index"))
            rows.append(player)
        title = widgets.HTML(f"<b>{html.escape(self.title)}</b>")
        box = widgets.VBox([title, picture, *rows, caption])
        box.add_class("ibrelu-explorer")
        return box

    def _control(self, choice: Choice) -> Any:
        import ipywidgets as widgets

        wide: dict[str, Any] = {
            "description": choice.label,
            "continuous_update": False,
            "style": {"description_width": "initial"},
            "layout": {"width": "min(100%, 36rem)"},
        }
        if choice.name not in self._continuous or choice.name == self._play:
            options = list(zip(choice.texts, choice.values, strict=True))
            return widgets.SelectionSlider(options=options, value=choice.values[0], **wide)
        low, high = float(min(choice.values)), float(max(choice.values))
        if low > 0 and high / low >= 10:
            return widgets.FloatLogSlider(
                value=choice.values[0], min=math.log10(low), max=math.log10(high), **wide
            )
        return widgets.FloatSlider(
            value=choice.values[0], min=low, max=high, step=(high - low) / 200, **wide
        )

    def _value(self, name: str, value: Any) -> Any:
        """Return what the slider says, as a whole number where all of the choices are."""
        choice = next(choice for choice in self.choices if choice.name == name)
        if name in self._continuous and all(isinstance(v, int) for v in choice.values):
            return round(value)
        return value

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, Any]:
        if self.live:
            bundle: dict[str, Any] = self.widget()._repr_mimebundle_()
            return bundle
        # The page takes the HTML and LaTeX the PNG; nbval compares the sentence of the text.
        return {"text/html": self._html, "image/png": self._png(), "text/plain": repr(self)}

    def _png(self) -> str:
        values = {choice.name: choice.values[0] for choice in self.choices}
        return base64.b64encode(png(self._figure(**values)[0])).decode()

    def __repr__(self) -> str:
        return f"{self.title}\n{self._first.caption}"


_PAGE = """\
<figure class="ibrelu-explorer" id="{id}" aria-label="{title}">
<style>{style}</style>
<p class="ibrelu-title">{title}</p>
<img src="{picture}" alt="{alt}">
<div class="ibrelu-controls"></div>
<figcaption aria-live="polite">{caption}</figcaption>
<p class="ibrelu-note">{note}{sliders}.</p>
<script type="application/json">{data}</script>
<script>{script}</script>
</figure>
"""


def _checked_choices(
    choices: Mapping[str, Sequence[Any]], names: Mapping[str, str]
) -> tuple[Choice, ...]:
    if not choices:
        raise ValueError("an explorer needs at least one choice, e.g. c=[0.5, 0.1]")
    sliders = []
    for name, values in choices.items():
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise TypeError(
                f"choices must be lists of values, got {name}={values!r}; write {name}=[...]"
            )
        choice = Choice(name, names.get(name, name), tuple(values))
        if len(set(choice.texts)) != len(values) or not values:
            raise ValueError(
                f"{name} must offer one or more values that are written differently, got "
                f"{list(choice.texts)}"
            )
        sliders.append(choice)
    count = math.prod(len(choice.values) for choice in sliders)
    if count > MAX_FRAMES:
        sizes = " × ".join(f"{len(choice.values)} {choice.name}" for choice in sliders)
        raise ValueError(
            f"{sizes} = {count} frames, more than {MAX_FRAMES}; offer fewer values (a live "
            "session can still set anything in between: name the parameter in `continuous`)"
        )
    return tuple(sliders)


def _draw(figure: Drawing, values: Mapping[str, Any]) -> Frame:
    drawn = figure(**values)
    if (
        not isinstance(drawn, tuple)
        or len(drawn) != 2
        or not isinstance(drawn[0], Figure)
        or not isinstance(drawn[1], str)
    ):
        raise TypeError(
            f"the figure function must return (matplotlib Figure, caption), got "
            f"{type(drawn).__name__} at {dict(values)}"
        )
    picture, caption = drawn
    if not caption.strip() or "$" in caption:
        raise ValueError(
            "a caption must be a sentence in plain text (write α and ‖λ‖₁, not TeX), got "
            f"{caption!r} at {dict(values)}"
        )
    return Frame(_tidy(_svg(picture)), " ".join(caption.split()))


def _svg(figure: Figure) -> str:
    """Text that is the same on every run: no date, no version, no random identifier."""
    unsaid = ("Date", "Creator", "Format", "Type")
    buffer = io.StringIO()
    with style():
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(unsaid))
    return buffer.getvalue()


def _tidy(svg: str) -> str:
    """Leave out of matplotlib's SVG what no reader sees; coordinates to a tenth of a point."""
    svg = re.sub(r"<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r"; font-family: 'DejaVu Sans'[^;\"]*", "", svg)
    svg = re.sub(r"\s*<g id=\"([^\"]*)\">", "<g>", svg)
    svg = svg.replace("<svg ", "<svg font-family=\"'DejaVu Sans',Verdana,sans-serif\" ", 1)
    return "".join(_tidy_token(token) for token in _tokens(svg)).strip()


def _tidy_token(token: str) -> str:
    tag, mark, text = token.partition(">")
    tag = re.sub(r' d="(M[^"A-KN-Y]+)"', lambda path: f' d="{_thin(path[1])}"', tag)
    tag = re.sub(r"(\d\d\.\d|\.\d\d)\d+", r"\1", " ".join(tag.split()))
    return tag + mark + (text if text.strip() else "")


def _thin(path: str) -> str:
    """Rewrite a path of straight lines: as steps, without the points and dots that no one sees."""
    strokes: list[str] = []
    for stroke in re.findall("M[^M]+", path):
        points = np.array(re.findall(r"-?[\d.]+", stroke), float).reshape(-1, 2)
        unit = 10 if np.abs(points).max() >= 10 else 100  # a marker is small: to a hundredth
        steps = np.diff(np.rint(unit * _seen(points)), axis=0, prepend=[[0, 0]]) / unit + 0.0
        start, *others = (f"{x:g} {y:g}" for x, y in steps)
        text = f"M{start}" + "l" * bool(others) + " ".join(others) + "z" * ("z" in stroke)
        if len(points) != 2 or text not in strokes:
            strokes.append(text)
    return "".join(strokes)


def _seen(points: Array) -> Array:
    """Leave out the points that lie on the line of the others, after Douglas and Peucker."""
    keep = np.zeros(len(points), bool)
    keep[[0, -1]] = True
    parts = [(0, len(points) - 1)]
    while parts:
        i, j = parts.pop()
        if j - i < 2:
            continue
        along, inner = points[j] - points[i], points[i + 1 : j] - points[i]
        share = np.clip(inner @ along / max(along @ along, 1e-30), 0, 1)
        off = np.linalg.norm(inner - share[:, None] * along, axis=1)
        if off.max() > UNSEEN:
            middle = i + 1 + int(off.argmax())
            keep[middle] = True
            parts += [(i, middle), (middle, j)]
    return points[keep]


def _tokens(svg: str) -> list[str]:
    return re.split("(?=<)", svg)[1:]


def _edits(base: list[str], other: list[str]) -> Edits:
    """Flat triples (position in `base`, tokens to drop, text to put there) that make `other`."""
    edits: Edits = []
    for kind, i, j, first, last in SequenceMatcher(None, base, other, autojunk=False).get_opcodes():
        if kind != "equal":
            edits += [i, j - i, "".join(other[first:last])]
    return edits


def _packed(frames: list[Edits]) -> str:
    """Base64 of the deflated JSON: a sixth of its size in a stored notebook."""
    text = json.dumps(frames, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _script_safe(text: str) -> str:
    """JSON that cannot end the script element that holds it."""
    return text.replace("</", "<\\/").replace("<!--", "\\u003c!--")


def _asset(name: str) -> str:
    lines = files("ibrelu").joinpath("assets", name).read_text("utf-8").splitlines()
    return "\n".join(line.strip() for line in lines if not line.strip().startswith("//"))


def _slug(title: str) -> str:
    return "explore-" + "-".join(re.findall("[a-z0-9]+", title.lower()))


def _text(value: Any) -> str:
    if isinstance(value, bool) or not _is_number(value):
        return str(value)
    if float(value).is_integer() and abs(value) < 1e10:
        return f"{int(value):,}"
    return f"{value:.4g}"


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, bool)


def _live_session() -> bool:
    """Whether a Jupyter server started this kernel; IBRELU_EXPLORER=live|static overrides it."""
    wish = os.environ.get("IBRELU_EXPLORER", "")
    if wish not in ("", "live", "static"):
        raise ValueError(f"IBRELU_EXPLORER must be 'live' or 'static', got {wish!r}")
    return wish == "live" or (not wish and "JPY_SESSION_NAME" in os.environ)
