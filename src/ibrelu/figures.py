r"""The book's few figure forms: activation raster, primal–dual portrait, scaling, trajectories.

Every function takes results and returns a matplotlib `Figure`. One colour an object in the whole
book, and each object also has its own marker or line style; labels stand beside what they name.
Text stays readable when a figure is scaled to the width of a phone: figures are 5 inches wide and
set in 11 points.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike
from PIL import Image

from ibrelu._checks import Array, Mask, finite_array
from ibrelu.problem import Problem

if TYPE_CHECKING:
    from ibrelu.descent import Descent, History
    from ibrelu.flow import Flow
    from ibrelu.min_norm import MinNorm

WIDTH, HEIGHT = 5.0, 3.6  # inches

# Told apart in all common kinds of colour blindness; each at least 4.5:1 against white.
COLORS = {
    "descent": "#6a3d9a",
    "flow": "#00805c",
    "min_norm": "#1a1a1a",
    "positive": "#0067a5",
    "negative": "#c04e00",
    "reference": "#6b6b6b",
}
_OTHERS = ("#0067a5", "#c04e00", "#00805c", "#6a3d9a", "#a3195b", "#6b6b6b")
_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
_MARKERS = ("o", "s", "D", "^", "v", "P")

_STYLE: Any = {
    "figure.dpi": 160,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": "figure",
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "mathtext.fontset": "dejavusans",
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.labelsize": 11,
    "axes.labelcolor": "#333333",
    "axes.edgecolor": "#8a8a8a",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=_OTHERS),
    "axes.axisbelow": True,
    "text.color": "#222222",
    "xtick.color": "#8a8a8a",
    "ytick.color": "#8a8a8a",
    "xtick.labelcolor": "#333333",
    "ytick.labelcolor": "#333333",
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "lines.linewidth": 1.6,
    "lines.markersize": 6,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "svg.fonttype": "none",
    "svg.hashsalt": "ibrelu",
}


class BookFigure(Figure):
    """A figure that a notebook shows as a sharp PNG of one size, in the book's style."""

    def _repr_mimebundle_(self, **_options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        width, height = (round(100 * inches) for inches in self.get_size_inches())
        data = {
            "image/png": base64.b64encode(png(self)).decode(),
            "text/plain": f"<Figure with {len(self.axes)} axes>",
        }
        return data, {"image/png": {"width": width, "height": height}}


def png(figure: Figure) -> bytes:
    """Draw a figure as a PNG of at most 256 colours: a third of the bytes, the same to the eye.

    The same bytes on every run: no date, no version. Of the book's figures, no pixel is off by more
    than 13 of 255 in a channel, and the mean is off by less than 0.2.
    """
    drawn, small = io.BytesIO(), io.BytesIO()
    with style():
        figure.savefig(drawn, format="png", dpi=_STYLE["figure.dpi"])
    colours = Image.open(drawn).convert("RGB")
    colours = colours.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=1)
    colours.save(small, "png", optimize=True)
    return small.getvalue()


def style() -> Any:
    """Context in which matplotlib draws as the book does: ``with style(): ...``."""
    return matplotlib.rc_context(_STYLE)


def canvas(
    width: float = WIDTH,
    height: float = HEIGHT,
    *,
    margins: tuple[float, float, float, float] | None = None,
    **layout: Any,
) -> tuple[BookFigure, Any]:
    """Return an empty figure in the book's style, and its axes.

    Parameters
    ----------
    width, height : float
        Inches. Wider than 5 and the text becomes too small on a phone.
    margins : (left, bottom, right, top), optional
        Inches around the axes. Give them where frames follow one another: the axes then stay where
        they are (and a frame is drawn in half the time). By default the text decides.
    **layout
        As for `matplotlib.figure.Figure.subplots`: nrows, ncols, sharex, …

    Examples
    --------
    >>> figure, axes = canvas()
    >>> _ = axes.plot([1, 2], [3, 4])
    """
    with style():
        if margins is None:
            figure = BookFigure(figsize=(width, height), layout="constrained")
        else:
            figure = BookFigure(figsize=(width, height), layout=None)
            left, bottom, right, top = margins
            figure.subplots_adjust(
                left / width, bottom / height, 1 - right / width, 1 - top / height
            )
        return figure, figure.subplots(**layout)


def primal_dual_portrait(
    problem: Problem,
    descent: Descent,
    min_norm: MinNorm,
    flow: Flow | None = None,
    *,
    neuron: int = 0,
    limits: tuple[float, float] | None = None,
) -> Figure:
    r"""Each example a path in the plane of its dual and primal variable.

    Across: :math:`\|\lambda\|_1 \alpha_i`, with :math:`\|\lambda\|_1` estimated by `problem.scale`;
    up: :math:`\beta_i`. Examples whose label has the neuron's sign climb to it. For all others the
    minimum-norm solution lies *on the corner* :math:`\{\alpha = 0, \beta \le 0\} \cup
    \{\alpha \le 0, \beta = 0\}`: complementary slackness, drawn. Descent overshoots behind the
    corner, and the overshoot is its gap.

    Parameters
    ----------
    problem : Problem
        One problem, not a batch.
    descent : Descent
        With its history, the paths are drawn; without, the end points alone.
    min_norm : MinNorm
    flow : Flow, optional
    neuron : int
    limits : (float, float), optional
        Of both axes; give them to keep the frame still while other things change.

    Returns
    -------
    matplotlib Figure

    References
    ----------
    :cite:`LWTM26`, Theorem 2.
    """
    scale = _one(problem)
    positive = problem.positive
    results: dict[str, Descent | MinNorm | Flow] = {"descent": descent, "min_norm": min_norm}
    if flow is not None:
        results["flow"] = flow
    sides = {
        name: (scale * result.alpha[:, neuron], result.beta[:, neuron])
        for name, result in results.items()
    }
    low, high = limits or _reach(list(sides.values()))
    figure, axes = canvas(height=4.7, margins=(0.62, 0.55, 0.1, 0.1))
    with style():
        _corner(axes, low, high)
        _paths(axes, scale, descent, positive, neuron)
        if flow is not None:
            _flow_paths(axes, scale, flow, sides["flow"], neuron)
        for own, marker, sign in ((positive, "o", "positive"), (~positive, "s", "negative")):
            x, y = (side[own] for side in sides["descent"])
            axes.plot(x, y, marker, ms=8, mfc="white", mec=COLORS[sign], mew=1.6, zorder=5)
            axes.lines[-1].set_label(sign)
        axes.plot(*sides["min_norm"], "x", ms=6, mew=1.6, color=COLORS["min_norm"], zorder=7)
        axes.lines[-1].set_label("min_norm")
        _key(axes, flow is not None)
        axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
        axes.set_xlabel("dual  ‖λ‖₁ αᵢ")
        axes.set_ylabel("primal  βᵢ")
    return figure


def _one(problem: Problem) -> float:
    if problem.batch_shape:
        raise ValueError(
            f"a portrait shows one problem, got a batch of shape {problem.batch_shape}; index it, "
            "and run the methods on problem[0]"
        )
    return float(problem.scale)


def _reach(sides: Sequence[tuple[Array, Array]]) -> tuple[float, float]:
    everything = np.concatenate([axis for side in sides for axis in side])
    low, high = float(everything.min()), float(everything.max())
    low = min(low, -0.4 * high)
    margin = 0.08 * (high - low)
    return low - margin, high + margin


def _corner(axes: Axes, low: float, high: float) -> None:
    """Draw the corner, the quadrant behind it, and the two other half axes."""
    axes.fill_between([low, 0], low, 0, color="#f6f1ea", lw=0)
    for x, y in (([0, high], [0, 0]), ([0, 0], [0, high])):
        axes.plot(x, y, color="#dddddd", lw=0.8, zorder=1)
    gray = COLORS["reference"]
    axes.plot([low, 0, 0], [0, 0, low], color=gray, lw=3, solid_joinstyle="miter", zorder=2)
    axes.lines[-1].set_label("corner")
    axes.annotate(
        "overshoot", (low, 0), (9, -17), textcoords="offset points", color="#7a6a55", zorder=2.5
    )
    axes.annotate(
        "the corner\nαᵢ βᵢ = 0",
        (0, low),
        (9, 7),
        textcoords="offset points",
        color=gray,
        linespacing=1.5,
    )


def _paths(axes: Axes, scale: float, descent: Descent, positive: Mask, k: int) -> None:
    if descent.history is None:
        return
    alpha = np.vstack([descent.history.alpha[..., k], descent.alpha[None, :, k]]) * scale
    beta = np.vstack([descent.history.beta[..., k], descent.beta[None, :, k]])
    for own, sign in ((positive, "positive"), (~positive, "negative")):
        x, y, color = alpha[:, own], beta[:, own], COLORS[sign]
        axes.plot(x, y, color=color, lw=1.1, zorder=3, label=f"{sign} path")
        _dots(axes, x.ravel(), y.ravel(), color)


def _dots(axes: Axes, x: Array, y: Array, color: str) -> None:
    """Mark the steps, as one path: a round-ended stroke of next to no length is a dot."""
    corners = np.repeat(np.stack([x, y], axis=-1), 2, axis=0)
    corners[1::2, 0] += 2e-3 * np.abs(x).max()
    codes = np.tile([Path.MOVETO, Path.LINETO], len(x))
    look = {"lw": 2.8, "capstyle": "round", "zorder": 3, "snap": False}
    dots = PathPatch(Path(corners, codes), ec=color, fc="none", **look)
    axes.add_patch(dots)


def _flow_paths(axes: Axes, scale: float, flow: Flow, end: tuple[Array, Array], k: int) -> None:
    times = np.append(0.0, np.geomspace(1e-3, 30.0, 120)) / scale
    alpha, beta = flow.at(times)
    color = COLORS["flow"]
    axes.plot(scale * alpha[..., k], beta[..., k], "--", color=color, lw=1, zorder=4)
    axes.plot(*end, "D", ms=4.5, mfc="none", mec=color, mew=1.3, zorder=6, label="flow")


def _key(axes: Axes, with_flow: bool) -> None:
    """Name the marks in the quadrant α < 0 < β, where nothing lives."""
    rows = [
        ("o", "positive", "descent, yᵢ > 0"),
        ("s", "negative", "descent, yᵢ < 0"),
        ("D", "flow", "gradient flow"),
        ("x", "min_norm", "minimum norm"),
    ]
    place = axes.transAxes
    for row, (marker, name, words) in enumerate(r for r in rows if with_flow or r[0] != "D"):
        y, size = 0.955 - 0.065 * row, {"D": 4.5, "x": 6}.get(marker, 7.5)
        axes.plot(
            [0.035], [y], marker, mfc="white", mec=COLORS[name], ms=size, mew=1.5, transform=place
        )
        axes.text(0.07, y, words, color=COLORS[name], va="center_baseline", transform=place)


def activation_raster(
    history: History, labels: ArrayLike, *, neurons: Sequence[str] | None = None
) -> Figure:
    """Examples × steps, lit while the example is active; examples sorted by label.

    Parameters
    ----------
    history : History
        Of one run; `beta` has shape (T, n, m).
    labels : array, shape (n,)
    neurons : sequence of str, optional
        A title for each neuron's panel.

    Returns
    -------
    matplotlib Figure
        One panel a neuron; in each, lit runs of the positive and of the negative examples.

    References
    ----------
    :cite:`LWTM26`, Theorem 1: after one step exactly the positive examples are lit, for ever.
    """
    labels = finite_array("labels", labels)
    if history.beta.ndim != 3 or history.beta.shape[1] != len(labels):
        raise ValueError(
            f"history must be of one run on {len(labels)} examples, beta (T, n, m); got shape "
            f"{history.beta.shape}"
        )
    order = np.argsort(-labels, kind="stable")
    steps = np.asarray(history.step, dtype=float)
    edges = np.append(steps, steps[-1] + _last_width(steps))
    m = history.beta.shape[2]
    figure, panels = canvas(ncols=m, sharey=True, squeeze=False)
    with style():
        for k, axes in enumerate(panels[0]):
            _raster_panel(axes, history.beta[:, order, k] > 0, labels[order], edges)
            if m > 2 and axes.get_xscale() == "linear":
                axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            if neurons is not None:
                axes.set_title(neurons[k])
        panels[0, 0].set_ylabel("examples, sorted by label")
        _name_rows(panels[0, -1], int((labels > 0).sum()), len(labels))
    return figure


def _name_rows(axes: Axes, first_negative: int, n: int) -> None:
    for sign, words, rows in (
        ("positive", "yᵢ > 0", (0, first_negative)),
        ("negative", "yᵢ < 0", (first_negative, n)),
    ):
        if rows[0] < rows[1]:
            axes.annotate(
                words,
                (1, sum(rows) / 2),
                (4, 0),
                color=COLORS[sign],
                va="center",
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
            )


def _last_width(steps: Array) -> float:
    return float(steps[-1] - steps[-2]) if len(steps) > 1 else 1.0


def _raster_panel(axes: Axes, lit: Mask, labels: Array, edges: Array) -> None:
    n = len(labels)
    first_negative = int((labels > 0).sum())
    axes.fill_between([edges[0], edges[-1]], 0, n, color="#efefef", lw=0)
    for sign, rows in (("positive", range(first_negative)), ("negative", range(first_negative, n))):
        boxes = [box for row in rows for box in _runs(lit[:, row], edges, row)]
        path = Path.make_compound_path(*boxes) if boxes else Path(np.empty((0, 2)))
        axes.add_patch(PathPatch(path, facecolor=COLORS[sign], lw=0, label=sign))
    axes.axhline(first_negative, color="white", lw=2.5)
    if edges[-1] > 200:
        axes.set_xscale("symlog", linthresh=1)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlim=(edges[0], edges[-1]), ylim=(n, 0), yticks=[], xlabel="step")
    axes.spines[["left", "bottom"]].set_visible(False)


def _runs(lit: Mask, edges: Array, row: int) -> list[Path]:
    """Return a rectangle for each stretch of steps in which an example stays active."""
    change = np.flatnonzero(np.diff(np.concatenate([[0], lit.astype(int), [0]])))
    return [
        Path(
            [
                (edges[a], row + 0.08),
                (edges[b], row + 0.08),
                (edges[b], row + 0.92),
                (edges[a], row + 0.92),
                (edges[a], row + 0.08),
            ],
            closed=True,
        )
        for a, b in change.reshape(-1, 2)
    ]


def scaling(
    x: ArrayLike,
    values: ArrayLike | Mapping[str, ArrayLike],
    *,
    rate: float | None = None,
    predicted: ArrayLike | None = None,
    xlabel: str,
    ylabel: str,
) -> Figure:
    r"""Log–log plot: median over seeds, band from the least to the greatest, and a known slope.

    Parameters
    ----------
    x : array, shape (T,)
    values : array, shape (T,) or (T, seeds), or a mapping from a label to such arrays
    rate : float, optional
        Slope of the grey dashed line, written on it.
    predicted : array, shape (T,), optional
        The grey dashed line itself, where theory gives the constant too; without it the line runs
        just above all curves.
    xlabel, ylabel : str

    Returns
    -------
    matplotlib Figure
    """
    x = finite_array("x", x)
    curves = values if isinstance(values, Mapping) else {"measured": values}
    everything = {label: _seeds(label, curve, len(x)) for label, curve in curves.items()}
    ends = {label: (x[-1], float(np.median(seeds[-1]))) for label, seeds in everything.items()}
    figure, axes = canvas()
    with style():
        for number, (label, seeds) in enumerate(everything.items()):
            look = _look(label, number)
            axes.plot(x, np.median(seeds, axis=1), label=label, **look)
            if seeds.shape[1] > 1:
                least, most = seeds.min(axis=1), seeds.max(axis=1)
                axes.fill_between(x, least, most, alpha=0.18, lw=0, color=look["color"])
        if predicted is not None:
            words = "predicted" if rate is None else f"predicted, slope {_fraction(rate)}"
            _reference(axes, x, finite_array("predicted", predicted), words)
        elif rate is not None:
            power = (x / x[0]) ** rate
            above = max((seeds.max(axis=1) / power).max() for seeds in everything.values())
            _reference(axes, x, 1.25 * above * power, f"slope {_fraction(rate)}")
        axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
        if len(everything) > 1:
            _end_labels(axes, ends)
        axes.grid(visible=True)
    return figure


def _seeds(label: str, curve: ArrayLike, count: int) -> Array:
    array = finite_array(label, curve)
    if array.ndim not in (1, 2) or len(array) != count:
        raise ValueError(
            f"values of {label!r} must have shape ({count},) or ({count}, seeds) to match x, got "
            f"{array.shape}"
        )
    return array.reshape(count, -1)


def _look(label: str, number: int) -> dict[str, Any]:
    """Colour, line and marker of a curve: the book's where the label is one of its objects."""
    color = COLORS.get(label.replace(" ", "_"), _OTHERS[number % len(_OTHERS)])
    return {
        "color": color,
        "linestyle": _LINES[number % len(_LINES)],
        "marker": _MARKERS[number % len(_MARKERS)],
    }


def _reference(axes: Axes, x: Array, y: Array, words: str) -> None:
    gray = COLORS["reference"]
    axes.plot(x, y, "--", color=gray, lw=1.3, label="reference", zorder=3)
    middle = (len(x) - 1) // 2
    falls = y[-1] < y[0]
    axes.annotate(
        words,
        (x[middle], y[middle]),
        (6 if falls else -6, 6),
        ha="left" if falls else "right",
        textcoords="offset points",
        color=gray,
    )


def _fraction(rate: float) -> str:
    named = {0.5: "½", 0.25: "¼", 1 / 3: "⅓", 2 / 3: "⅔", 1.5: "3/2"}
    size = named.get(abs(rate), f"{abs(rate):.4g}")
    return ("−" if rate < 0 else "") + size


def trajectories(
    x: ArrayLike,
    series: Mapping[str, ArrayLike],
    *,
    xlabel: str,
    ylabel: str,
    xscale: str = "linear",
    yscale: str = "linear",
) -> Figure:
    """Quantities along a run, each named at its end.

    Parameters
    ----------
    x : array, shape (T,)
        Steps or times.
    series : mapping from a label to an array, shape (T,) or (T, k)
        k lines of one label are drawn thin, in one colour.
    xlabel, ylabel : str
    xscale, yscale : "linear", "log" or "symlog"

    Returns
    -------
    matplotlib Figure
    """
    x = finite_array("x", x)
    figure, axes = canvas()
    ends = {}
    with style():
        for number, (label, curve) in enumerate(series.items()):
            lines = _seeds(label, curve, len(x))
            look = _look(label, number) | {"marker": ""}
            axes.plot(x, lines, lw=1.8 if lines.shape[1] == 1 else 0.9, label=label, **look)
            ends[label] = (x[-1], float(np.median(lines[-1])))
        axes.set(xscale=xscale, yscale=yscale, xlabel=xlabel, ylabel=ylabel)
        _end_labels(axes, ends)
        axes.grid(visible=True)
    return figure


def _end_labels(axes: Axes, ends: Mapping[str, tuple[float, float]]) -> None:
    """Write each label to the right of its line's end, apart from one another."""
    axes.margins(x=0.02)
    axes.autoscale_view()  # the heights below need the final limits
    spacing = 0.075  # of the axes' height: a line of text
    inverse = axes.transAxes.inverted()
    heights = {
        name: inverse.transform(axes.transData.transform(end))[1] for name, end in ends.items()
    }
    last = -1.0
    for number, (name, height) in enumerate(sorted(heights.items(), key=lambda item: item[1])):
        last = max(height, last + spacing) if number else height
        color = _look(name, list(ends).index(name))["color"]
        axes.annotate(
            name,
            (1, last),
            (6, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            color=color,
            va="center",
        )
