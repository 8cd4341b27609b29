r"""Does the theory hold for my data? One call, one report.

Features come as an array, a ``.npy`` or ``.csv`` file or a pandas frame; only the Gram matrix of
the examples is kept, so a file may be far larger than the memory. What cannot be used is refused
with the row or column and what to do about it.

From the command line: ``python -m ibrelu.report X.csv y.csv``, or
``python -m ibrelu.report data.csv NAME`` if a column of the file holds the labels.
"""

from __future__ import annotations

import argparse
import csv
import html
import itertools
import mmap
import os
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibrelu._checks import Array, check_unmasked, positive_number, whole_number
from ibrelu.descent import Descent, gradient_descent
from ibrelu.min_norm import MinNorm, min_norm
from ibrelu.problem import Problem, all_active
from ibrelu.theory import (
    Bounds,
    Coherence,
    Conditions,
    coherence,
    conditions,
    gap,
    gap_bounds,
    gap_constant,
    matching,
    predicted_limit,
)

Row: TypeAlias = tuple[str, str, str]  # what, its value, what that says
Section: TypeAlias = tuple[str, list[Row]]

_NUMBERS = 8_000_000  # numbers held in float64 at a time (64 MB)
_MISSING = {"", "na", "<na>", "n/a", "nan", "nat", "null", "none", "?", "-", "."}
_SHOWN = 10  # examples listed by name
_SMALLEST, _LARGEST = 1e-50, 1e50  # between which no product of what is given over- or underflows


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    r"""What the theory says about one data set, and what descent does on it.

    ``print(report)`` shows it as text, a notebook as a table.

    Attributes
    ----------
    problem : Problem
    features : int
        Number of columns d.
    rows : tuple of str
        How the report names each example.
    c : float
        The step in units of :math:`1/\|\lambda\|_1`.
    step : float
        The step :math:`\eta`.
    coherence : Coherence
    d2 : float
        :math:`\|\lambda\|_1^2/\|\lambda\|_2^2`, estimated from G: the squared mean of the diagonal
        over the mean square of the other entries. True to the covariance if the rows are
        independent with mean zero; a common mean lowers it.
    d_inf : float
        A low estimate of :math:`\|\lambda\|_1/\|\lambda\|_\infty`, from
        :math:`\|\lambda\|_\infty \lesssim (\lambda_{\max}(G) - \|\lambda\|_1)/n`. So few examples
        cannot show more.
    conditions : Conditions
    run : Descent
    least : MinNorm
    from_prediction : float
        Distance of the run's limit from the limit that the theory predicts, over its length; NaN
        without a proven limit.
    gap : float
        Distance of the run's limit from the minimum-norm network; NaN without a proven limit.
    relative_gap : float
        The gap over that network's norm.
    predicted_gap : float
        Leading order of the gap in high dimension.
    predicted_relative_gap : float
        Leading order of the relative gap.
    bounds : Bounds or None
        Between which the gap must lie; None where the conditions do not hold.
    notes : tuple of str
        What about the data deserves attention.
    """

    problem: Problem
    features: int
    rows: tuple[str, ...]
    c: float
    step: float
    coherence: Coherence
    d2: float
    d_inf: float
    conditions: Conditions
    run: Descent
    least: MinNorm
    from_prediction: float
    gap: float
    relative_gap: float
    predicted_gap: float
    predicted_relative_gap: float
    bounds: Bounds | None
    notes: tuple[str, ...]

    @property
    def decoupled(self) -> bool:
        """Whether at the end every neuron is active exactly on the labels of its sign."""
        return bool((self.run.active == matching(self.problem)).all())

    @property
    def largest_safe_c(self) -> float:
        """The largest c for which no activation pattern can diverge."""
        return float(self.problem.largest_safe_step * self.problem.scale)

    @property
    def verdict(self) -> str:
        """What the theory does and does not promise on these data, in one sentence."""
        if self.conditions.hold:
            return (
                "The conditions hold, so it was certain before the run that from the first step "
                "on each neuron does linear regression on the labels of its sign and that the gap "
                "lies within the bounds; nothing is promised for other starts, larger steps or "
                "new examples."
            )
        failing = ", ".join(name for name, margin in self._margins if not margin > 0)
        before = f"Nothing was promised in advance (failing: {failing})"
        if self.run.status != "certified":
            cure = (
                f"call report again with c below {_number(self.largest_safe_c)}, which is safe "
                "whatever the pattern"
                if self.c > self.largest_safe_c
                else "call report again with a larger max_steps"
            )
            end = "diverged" if self.run.status == "diverged" else "ended without a proven limit"
            return f"{before}, and the run {end}; {cure}."
        before = f"{before}, but the run proves for itself"
        if self.decoupled:
            return (
                f"{before} that its pattern is final and the predicted one, so its limit is "
                "linear regression for each neuron; the bounds on the gap do not apply, and its "
                "predicted value is a comparison."
            )
        if self.run.global_minimum:
            return (
                f"{before} that its pattern is final: it fits all labels that it can, with "
                "another pattern than the theorems', so their limit and their gap do not describe "
                "it."
            )
        smaller = f"; c below {_number(self.largest_safe_c)} is a safe step"
        return (
            f"{before} that it is stuck at a stationary point which is not a global minimum, the "
            "failure that the theorems exclude only where their conditions hold"
            f"{smaller if self.c > self.largest_safe_c else ''}."
        )

    @property
    def _margins(self) -> list[tuple[str, float]]:
        names = ("(i)", "(ii)", "(iii)", "(iv)")
        return list(zip(names, map(float, self.conditions.margins), strict=True))

    def sections(self) -> list[Section]:
        """Return the report as titled lists of (what, value, what that says)."""
        return [
            ("The data", self._data()),
            ("How nearly orthogonal", self._orthogonality()),
            ("A-priori conditions (ours, deterministic)", self._conditions()),
            ("The run", self._run()),
            ("The minimum-norm network", self._least()),
            ("The gap between the two", self._gap()),
        ]

    def _data(self) -> list[Row]:
        positive = int(self.problem.positive.sum())
        negative = self.problem.n - positive
        return [
            ("examples", str(self.problem.n), f"{positive} positive, {negative} negative"),
            ("features", str(self.features), ""),
            ("neurons", str(self.problem.m), f"signs {_signs(self.problem)}"),
            *(("note", "", note) for note in self.notes),
        ]

    def _orthogonality(self) -> list[Row]:
        found = self.coherence
        lengths = f"from {_number(found.smallest)} to {_number(found.largest)}"
        ratio = float(found.near_orthogonality)
        return [
            ("‖λ‖₁", _number(found.scale), f"mean squared length; squared lengths {lengths}"),
            (
                "κ = R/g",
                _number(found.kappa),
                "largest row sum off the diagonal of G; small is near",
            ),
            ("near-orthogonality", _number(ratio), "min ‖x_i‖²/(n max|x_i·x_j|); large is near"),
            ("max|G/‖λ‖₁ − I|", _number(found.concentration), "0: orthogonal rows of equal length"),
            ("d₂", _number(self.d2), "effective dimension, estimated from G"),
            ("d_∞", f"≥ {_number(self.d_inf)}", "effective dimension, a cautious estimate from G"),
        ]

    def _conditions(self) -> list[Row]:
        meanings = (
            "the step does not overshoot",
            "matching examples stay active",
            "the first step turns the others off",
            "the others stay off",
        )
        return [
            (name, "holds" if margin > 0 else "fails", f"{meaning}; margin {_number(margin)}")
            for (name, margin), meaning in zip(self._margins, meanings, strict=True)
        ]

    def _run(self) -> list[Row]:
        run, problem = self.run, self.problem
        safe = f"c = {_number(self.largest_safe_c)}; below it no pattern diverges"
        rows = [
            ("step η", _number(self.step), f"c = {_number(self.c)}"),
            ("largest safe step", _number(problem.largest_safe_step), safe),
            ("status", str(run.status), _STATUS[str(run.status)]),
            ("steps", str(run.steps), f"the pattern last changed at step {run.settled}"),
        ]
        if run.status != "certified":
            return rows
        kind = "a global minimum" if run.global_minimum else "not a global minimum"
        pattern = "the predicted one" if self.decoupled else "not the predicted one"
        norm = gap(problem, run.alpha, np.zeros_like(run.alpha))
        return [
            *rows,
            ("loss", _small(run.loss, (problem.labels**2).sum()), kind),
            ("final pattern", f"{int(run.active.sum())} active", pattern),
            ("‖w(∞)‖", _number(norm), "norm of the limit, within the span of the examples"),
            ("off the prediction", _small(self.from_prediction), "distance from it / its norm"),
        ]

    def _least(self) -> list[Row]:
        least = self.least
        proof = "proved" if least.optimal else f"proved ≥ {_number(least.lower_bound)} only"
        chosen = [self.rows[i].replace(" ", "\u00a0") for i in np.flatnonzero(least.selected)]
        listed = ", ".join(chosen[:_SHOWN]) + (", …" if len(chosen) > _SHOWN else "")
        return [
            ("‖w*‖", _number(least.norm), f"minimum {proof}"),
            ("KKT residual", _small(least.kkt_residual), "relative error of its conditions"),
            ("selected examples", str(len(chosen)), listed or "none is held at a kink"),
        ]

    def _gap(self) -> list[Row]:
        if self.bounds is None:
            promise = "no bounds: the conditions do not hold"
        else:
            lower, upper = map(_number, self.bounds)
            promise = f"guaranteed between {lower} and {upper}"
        said = "predicted {} in high dimension"
        return [
            ("‖w(∞) − w*‖", _number(self.gap), said.format(_number(self.predicted_gap))),
            (
                "relative to ‖w*‖",
                _number(self.relative_gap),
                said.format(_number(self.predicted_relative_gap)),
            ),
            ("bounds", "no" if self.bounds is None else "yes", promise),
        ]

    def __str__(self) -> str:
        sections = self.sections()
        first, second = (
            max(len(row[k]) for _, rows in sections for row in rows) + 2 for k in (0, 1)
        )
        lines = []
        for title, rows in sections:
            lines.append(f"{title}\n{'-' * len(title)}")
            for what, value, remark in rows:
                margin = f"{what:{first}}{value:{second}}"
                filled = textwrap.fill(
                    remark, 96, initial_indent=margin, subsequent_indent=" " * len(margin)
                )
                lines.append((filled or margin).rstrip())
            lines.append("")
        title = "What the theory promises here"
        return "\n".join([*lines, title, "-" * len(title), textwrap.fill(self.verdict, 96)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        groups = []
        for title, rows in self.sections():
            head = f'<tr><th scope="rowgroup" colspan="3">{html.escape(title)}</th></tr>'
            body = "".join(
                f'<tr><th scope="row">{html.escape(what)}</th>'
                f"<td>{html.escape(value)}</td><td>{html.escape(remark)}</td></tr>"
                for what, value, remark in rows
            )
            groups.append(f"<tbody>{head}{body}</tbody>")
        return (
            '<table class="ibrelu-report"><caption>The theory on your data</caption>'
            '<thead><tr><th scope="col">quantity</th><th scope="col">value</th>'
            '<th scope="col">meaning</th></tr></thead>'
            f"{''.join(groups)}</table><p><strong>What the theory promises here.</strong> "
            f"{html.escape(self.verdict)}</p>"
        )


_STATUS = {
    "certified": "the pattern is proven final and the limit solved exactly",
    "max_steps": "no proof that the pattern is final: there is no limit to report",
    "diverged": "the step is too large: there is no limit to report",
}


def report(
    X: Any,
    y: ArrayLike | str | os.PathLike[str],
    *,
    signs: Sequence[int] = (1, -1),
    c: float = 0.5,
    scale: float = 1e-3,
    max_steps: int = 100_000,
) -> Report:
    r"""Hold a data set against the theory: conditions, run, minimum norm and gap.

    Descent starts with every example active for every neuron, and takes the step
    :math:`\eta = c/\|\lambda\|_1`, with :math:`\|\lambda\|_1` estimated as the mean squared length
    of the examples.

    Parameters
    ----------
    X : array of shape (n, d), path of a .npy or .csv file, or pandas frame
        Features, one example a row, d ≥ n. A .npy file or a memory-mapped array is read some
        columns at a time.
    y : array of shape (n,), or str
        Labels, none zero; or the name of the column that holds them (of a .csv file or frame), or
        the path of a .npy or .csv file of them.
    signs : (1,), (-1,) or (1, -1)
        Output signs of the neurons.
    c : float
        The step in units of :math:`1/\|\lambda\|_1`.
    scale : float
        The start :math:`\beta_0`, in units of the smallest absolute label.
    max_steps : int
        Steps after which a run without a proven limit ends.

    Returns
    -------
    Report

    Raises
    ------
    TypeError
        If a column or the labels hold text, or an argument is of the wrong kind.
    ValueError
        If a value is missing or infinite, a row zero, a duplicate or a combination of others, a
        label zero, there are more rows than columns, no neuron has the sign of any label, or
        numbers are so large or so small that their products are not floats any more. The message
        names row and column.

    References
    ----------
    :cite:`LWTM26`, Theorems 1 to 4; constants and certificates are ours.

    Examples
    --------
    >>> from ibrelu.features import gaussian_features
    >>> found = report(gaussian_features(4, 100_000, rng=0), [1.0, -1.5, 2.0, -1.0])
    >>> bool(found.conditions.hold), str(found.run.status), bool(found.least.optimal)
    (True, 'certified', True)
    >>> round(found.relative_gap, 2), found.predicted_relative_gap
    (0.5, 0.5)
    """
    signs, c, scale = _checked_signs(signs), _ranged("c", c), _ranged("scale", scale)
    max_steps = whole_number("max_steps", max_steps)
    table, raw_labels = _table(X, y)
    labels = _checked_labels(raw_labels, table, signs)
    gram, notes = _scan(table)
    _check_rows(gram, labels, table)
    _check_independent(gram, table)
    problem = Problem(gram, labels, signs)
    if (labels > 0).all() or (labels < 0).all():
        notes.append(
            f"all labels are {'positive' if labels[0] > 0 else 'negative'}: there is no pattern to "
            "predict beyond that; subtract the mean label if both signs make sense"
        )
    shortest = int(np.argmin(np.diag(gram)))
    if gram[shortest, shortest] < 0.01 * problem.scale:
        notes.append(
            f"{table.row(shortest)} is short: its squared length is "
            f"{_number(gram[shortest, shortest])}, the mean is {_number(problem.scale)}; it spoils "
            "κ and the conditions, so divide each row by its length, or drop it"
        )
    start = all_active(problem, scale * float(np.abs(labels).min()))
    return _measured(problem, table, start, c, max_steps, tuple(notes))


def _measured(
    problem: Problem, table: _Table, start: Array, c: float, max_steps: int, notes: tuple[str, ...]
) -> Report:
    step = problem.step(c)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)  # the report says it in words
        run, least = gradient_descent(problem, start, step, max_steps=max_steps), min_norm(problem)
    promised = conditions(problem, start, step)
    known = run.status == "certified"
    limit = predicted_limit(problem, start, step)
    rest = problem.n if problem.m == 2 else int((~matching(problem)).sum())
    d2, d_inf = _effective_dimensions(problem)
    return Report(
        problem=problem,
        features=table.values.shape[1],
        rows=tuple(table.row(i) for i in range(problem.n)),
        c=c,
        step=float(step),
        coherence=coherence(problem),
        d2=d2,
        d_inf=d_inf,
        conditions=promised,
        run=run,
        least=least,
        from_prediction=float(gap(problem, run, limit, relative=True)) if known else np.nan,
        gap=float(gap(problem, run, least)) if known else np.nan,
        relative_gap=float(gap(problem, run, least, relative=True)) if known else np.nan,
        predicted_gap=float(gap_constant(problem, c) * np.sqrt(rest / problem.scale)),
        predicted_relative_gap=float(gap_constant(problem, c, relative=True)),
        bounds=gap_bounds(problem, start, step) if promised.hold else None,
        notes=notes,
    )


def _effective_dimensions(problem: Problem) -> tuple[float, float]:
    """Estimate d₂, and d_∞ from below, by the Gram matrix of independent rows of mean zero."""
    n, gram, trace = problem.n, problem.gram, float(problem.scale)
    off = gram[~np.eye(n, dtype=bool)]
    square = float((off**2).mean()) if n > 1 else 0.0
    excess = (float(np.linalg.eigvalsh(gram)[-1]) - trace) / n
    tiny = np.finfo(float).eps * trace
    return (
        trace**2 / square if square > tiny**2 else np.inf,
        trace / excess if excess > tiny else np.inf,
    )


# Reading


class _Table(NamedTuple):
    """Features with the names by which messages speak of rows and columns."""

    values: NDArray[Any]
    columns: Sequence[Any] | None = None
    rows: Sequence[Any] | None = None
    row_word: str = "row"

    def row(self, i: int) -> str:
        return f"{self.row_word} {i if self.rows is None else self.rows[i]}"

    def column(self, j: int) -> str:
        return f"column {j}" if self.columns is None else f"column {self.columns[j]!r}"


def _table(X: Any, y: Any) -> tuple[_Table, NDArray[Any]]:
    """Features, and labels as they are given."""
    if isinstance(X, (str, os.PathLike)):
        return _from_file(Path(X), y)
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        return _from_frame(X, y)
    return _with_labels(_Table(_array("features", X)), y)


def _from_file(path: Path, y: Any) -> tuple[_Table, NDArray[Any]]:
    _check_file("features", path)
    if path.suffix == ".npy":
        return _with_labels(_Table(_from_npy(path)), y)
    return _from_csv(path, y)


def _check_file(name: str, path: Path) -> None:
    if path.suffix not in (".npy", ".csv"):
        raise ValueError(
            f"{name} must be in a .npy or .csv file, got {path.name!r}; load them first"
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no file {str(path)!r} to read {name} from; the current folder is "
            f"{os.getcwd()}"
        )


def _from_npy(path: Path) -> NDArray[Any]:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(
            f"{path.name} is no .npy file of numbers ({error}); write one with numpy.save"
        ) from None
    return np.asanyarray(found)


def _array(name: str, value: Any) -> NDArray[Any]:
    check_unmasked(name, value)
    try:
        return np.asanyarray(value)
    except ValueError:
        raise ValueError(f"{name} must be an array, got rows of several lengths") from None


def _label_file(y: Any) -> Path | None:
    """Path of a file of labels, if that is what `y` names; a name of a column has no suffix."""
    named = isinstance(y, os.PathLike) or (isinstance(y, str) and y.endswith((".csv", ".npy")))
    return Path(y) if named else None


def _labels_from(path: Path) -> NDArray[Any]:
    """Labels of a file of one column, with or without a header."""
    _check_file("labels", path)
    if path.suffix == ".npy":
        return _from_npy(path)
    lines = [fields for _, fields in _csv_lines(path)]
    if len(lines) == 1 and len(lines[0]) > 1:  # all in one row
        lines = [[field] for field in lines[0]]
    wide = next((len(fields) for fields in lines if len(fields) != 1), None)
    if wide is not None:
        raise ValueError(
            f"{path.name} must hold the labels in one column, got a line of {wide} fields; if the "
            "labels are a column of the features' file, give its name"
        )
    header = len(lines) > 1 and _as_number(lines[0][0]) is None
    return np.array([fields[0] for fields in lines[int(header) :]], dtype=object)


def _with_labels(table: _Table, y: Any) -> tuple[_Table, NDArray[Any]]:
    file = _label_file(y)
    if file is not None:
        y = _labels_from(file)
    if isinstance(y, str):
        raise TypeError(
            f"labels can be named by a column, here {y!r}, only for a .csv file or a pandas frame; "
            "give an array of labels, or the path of a .npy or .csv file of them"
        )
    values = table.values
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            f"features must have shape (n, d), one example a row, got shape {values.shape}"
        )
    if values.dtype.kind in "OUS":
        values = _parsed(values, table)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"features must be real numbers, got dtype {values.dtype}")
    n, d = values.shape
    if n > d:
        raise ValueError(
            f"more rows than columns: n = {n} examples > d = {d} features, so the examples cannot "
            f"all be fitted independently and the theory does not apply; keep at most {d} rows, or "
            "add features"
        )
    return table._replace(values=values), np.asarray(_array("labels", y))


def _from_frame(frame: Any, y: Any) -> tuple[_Table, NDArray[Any]]:
    labels = y
    if isinstance(y, str) and (y in frame.columns or _label_file(y) is None):
        place = _column_index(list(frame.columns), y)
        labels = frame.iloc[:, place].to_numpy()
        frame = frame.drop(columns=y)
    numeric = all(getattr(kind, "kind", "O") in "biuf" for kind in frame.dtypes)
    values = frame.to_numpy() if numeric else frame.to_numpy(dtype=object)
    rows = [repr(name) for name in frame.index]
    return _with_labels(_Table(values, list(frame.columns), rows), labels)


def _from_csv(path: Path, y: Any) -> tuple[_Table, NDArray[Any]]:
    """Read line by line; a first line with any text in it is the header."""
    first = next(_csv_lines(path), (0, []))[1]
    if not first:
        raise ValueError(f"{path.name} is empty; it should hold one example a line")
    header = any(_as_number(field) is None for field in first)
    names = [field.strip() for field in first] if header else [str(j) for j in range(len(first))]
    named = isinstance(y, str) and (y in names or _label_file(y) is None)
    place = _column_index(names, y) if named else None
    kept = [j for j in range(len(names)) if j != place]
    values, labels, numbers = [], [], []
    for number, fields in itertools.islice(_csv_lines(path), int(header), None):
        if len(fields) != len(names):
            raise ValueError(
                f"{path.name}, line {number} has {len(fields)} fields, but the first line has "
                f"{len(names)}; a field with a comma needs quotes"
            )
        row = [_as_number(fields[j]) for j in kept]
        if None in row:
            j = kept[row.index(None)]
            column = [line[j] for _, line in _csv_lines(path) if len(line) > j][int(header) :]
            _refuse_text(f"line {number}", f"column {names[j]!r}", fields[j], column)
        values.append(np.array(row, dtype=np.float64))
        numbers.append(number)
        if place is not None:
            labels.append(fields[place])
    if not values:
        raise ValueError(f"{path.name} holds a header and no example; it needs one a line")
    table = _Table(np.array(values), [names[j] for j in kept], numbers, "line")
    return _with_labels(table, y if place is None else labels)


def _csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield number (from 1) and fields of each line that is not blank."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        try:
            first = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=max(",;\t", key=first.count))
            for fields in reader:
                if any(field.strip() for field in fields):
                    yield reader.line_num, fields
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(
                f"{path.name} is no text file of numbers in UTF-8 ({error}); save it as CSV UTF-8"
            ) from None


def _as_number(entry: Any) -> float | None:
    """Return the number, NaN for a missing value, None for text."""
    try:
        return float(entry)
    except (TypeError, ValueError):
        return np.nan if str(entry).strip().lower() in _MISSING else None


def _refuse_text(row: str, column: str, entry: Any, entries: Sequence[Any]) -> NoReturn:
    """Say whether one entry or the whole column is not numeric."""
    texts = sum(_as_number(other) is None for other in entries)
    if 2 * texts > len(entries):
        raise TypeError(
            f"{column} holds text (e.g. {entry!r}), but features must be numbers; drop the "
            "column, or turn it into numbers first, e.g. one 0/1 column a value "
            "(pandas.get_dummies)"
        )
    raise TypeError(
        f"{row}, {column} holds the text {entry!r} where a number is expected ({texts} such "
        "entries in the column); correct it, or drop the row"
    )


def _column_index(names: list[Any], name: str) -> int:
    if names.count(name) != 1:
        shown = ", ".join(map(repr, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
        often = "no column" if name not in names else "more than one column"
        raise ValueError(f"{often} is called {name!r}; the columns are {shown}")
    return names.index(name)


def _parsed(values: NDArray[Any], table: _Table) -> Array:
    """Array of objects or strings as numbers, None as missing."""
    numbers = np.empty(values.shape)
    for (i, j), entry in np.ndenumerate(values):
        number = _as_number(entry)
        if number is None:
            _refuse_text(table.row(i), table.column(j), entry, values[:, j].tolist())
        numbers[i, j] = number
    return numbers


# Checks


def _checked_signs(signs: Any) -> tuple[int, ...]:
    try:
        found = tuple(np.asarray(tuple(signs), dtype=object).tolist())
    except TypeError:  # not a sequence
        found = ()
    if found not in ((1,), (-1,), (1, -1)) or any(sign is True for sign in found):
        raise ValueError(f"signs must be (1,), (-1,) or (1, -1), got {signs!r}")
    return tuple(int(sign) for sign in found)


def _ranged(name: str, value: float) -> float:
    number = positive_number(name, value)
    if not _SMALLEST <= number <= _LARGEST:
        raise ValueError(f"{name} must lie between {_SMALLEST} and {_LARGEST}, got {number}")
    return number


def _scan(table: _Table) -> tuple[Array, list[str]]:
    """Gram matrix and notes on the columns, in one pass over blocks of columns."""
    n, d = table.values.shape
    gram, offset, largest = np.zeros((n, n)), 0.0, np.zeros(n)
    constant: list[int] = []
    width = max(1, _NUMBERS // n)
    for first in range(0, d, width):
        block = _columns(table.values, first, width)
        _check_finite(block, first, table)
        with np.errstate(over="ignore", invalid="ignore"):  # seen in the lengths afterwards
            gram += block @ block.T
        largest = np.maximum(largest, np.abs(block).max(axis=1))
        same = (block == block[0]).all(axis=0) if n > 1 else np.zeros(block.shape[1], dtype=bool)
        constant.extend(first + np.flatnonzero(same))
        with np.errstate(over="ignore"):
            offset += float((block[0, same] ** 2).sum())
    _check_size(largest, table)
    share = offset / max(float(np.diag(gram).mean()), np.finfo(float).tiny)
    return gram, _column_notes([table.column(j) for j in constant], share)


def _check_size(largest: Array, table: _Table) -> None:
    """Refuse rows whose squared length is no safe float; `largest` is each row's largest entry."""
    sized = np.where(largest == 0, 1.0, largest)  # a row of zeros has its own message
    wrong = (sized < _SMALLEST) | (sized > _LARGEST)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(
            f"{table.row(i)} has entries up to {largest[i]:.4g}, and the largest of a row must lie "
            f"between {_SMALLEST} and {_LARGEST}, or inner products are no floats; change the unit "
            "of the features"
        )


def _columns(values: NDArray[Any], first: int, width: int) -> Array:
    """Return some columns as float64.

    Of a mapped file stored row by row, each row is let go of once it is copied: the system may map
    megabytes around what is touched, and in all rows at once that could be the whole file.
    """
    part = values[:, first : first + width]
    if values.flags.f_contiguous:
        block = np.asarray(part, dtype=np.float64)
        _release(values)
        return block
    block = np.empty(part.shape)
    for target, row in zip(block, part, strict=True):
        target[:] = row
        _release(values)
    return block


def _column_notes(constant: list[str], share: float) -> list[str]:
    """Note on constant columns and their share of the mean squared length."""
    if not constant:
        return []
    listed = ", ".join(constant[:3]) + (", …" if len(constant) > 3 else "")
    if share == 0:
        return [f"{len(constant)} column(s) hold only zeros ({listed}): they change nothing"]
    return [
        f"{len(constant)} column(s) are constant ({listed}). That is allowed: they add the same to "
        f"every inner product, here {100 * share:.4g} % of the mean squared length. Drop them to "
        "come nearer to orthogonality; keep one to give the neurons a bias"
    ]


def _release(values: NDArray[Any]) -> None:
    """Let go of the pages of a memory-mapped file that have been read."""
    base: Any = values
    while isinstance(base, np.ndarray):
        base = base.base
    read_only = getattr(values, "mode", None) == "r"
    if isinstance(base, mmap.mmap) and read_only and hasattr(base, "madvise"):
        base.madvise(mmap.MADV_DONTNEED)


def _check_finite(block: Array, first: int, table: _Table) -> None:
    finite = np.isfinite(block)
    if finite.all():
        return
    i, j = (int(k) for k in np.argwhere(~finite)[0])
    kind = "missing value" if np.isnan(block[i, j]) else "infinite value"
    count = int((~finite[:, j]).sum())
    raise ValueError(
        f"{kind} in {table.row(i)}, {table.column(first + j)} ({count} of {len(block)} rows lack "
        "a finite value in this column); fill it in, e.g. with the column's mean, or drop the "
        f"{'row' if 2 * count < len(block) else 'column'}"
    )


def _check_rows(gram: Array, labels: Array, table: _Table) -> None:
    """Refuse rows without a direction and rows with the same one."""
    squares = np.diag(gram)
    if (squares == 0).any():
        raise ValueError(
            f"{table.row(int(np.argmin(squares)))} holds only zeros: it has no direction and no "
            "neuron can fit it; drop it"
        )
    lengths = np.sqrt(squares)
    shortest, longest = int(np.argmin(squares)), int(np.argmax(squares))
    if lengths[shortest] < 1e-6 * lengths[longest]:
        raise ValueError(
            f"{table.row(shortest)} is {lengths[longest] / lengths[shortest]:.4g} times shorter "
            f"than {table.row(longest)}, too short to be told from rounding; divide each row by "
            "its length, or drop it"
        )
    cosine = gram / np.outer(lengths, lengths)
    pairs = np.argwhere(np.triu(np.abs(cosine) > 1 - 1e-12, 1))
    if not len(pairs):
        return
    i, j = (int(k) for k in pairs[0])
    factor = gram[i, j] / squares[i]
    first, second = table.row(i), table.row(j)
    count = f" ({len(pairs)} such pairs)" if len(pairs) > 1 else ""
    relation = (
        f"{first} and {second} are duplicates"
        if abs(factor - 1) < 1e-9
        else f"{second} is {factor:.4g} times {first}"
    )
    cure = (
        f"their labels differ ({labels[i]:.4g} and {labels[j]:.4g}), so find out which is right "
        "and drop the other"
        if labels[i] != labels[j]
        else "drop one of them"
    )
    raise ValueError(
        f"{relation}{count}, so their predictions cannot be chosen independently; {cure}"
    )


def _check_independent(gram: Array, table: _Table) -> None:
    """Refuse rows of which one is a combination of the others."""
    lengths = np.sqrt(np.diag(gram))
    values, vectors = np.linalg.eigh(gram / np.outer(lengths, lengths))
    if values[0] > 1e-12:
        return
    weights = vectors[:, 0] / lengths  # the rows times these add up to zero
    if np.ptp(weights) < 1e-6 * np.abs(weights).max():
        raise ValueError(
            "the rows add up to zero, as they do once their own mean has been subtracted, so their "
            "predictions cannot be chosen independently; subtract the mean of other examples, or "
            "drop one row"
        )
    raise ValueError(
        f"{table.row(int(np.argmax(np.abs(vectors[:, 0]))))} is to rounding a combination of other "
        "rows, so their predictions cannot be chosen independently; drop it, or add features"
    )


def _checked_labels(raw: NDArray[Any], table: _Table, signs: Sequence[int]) -> Array:
    """Labels as numbers, none zero, at least one that a neuron can reach."""
    n = len(table.values)
    if raw.shape != (n,):
        raise ValueError(
            f"labels must have shape ({n},), one a row of the features, got {raw.shape}"
        )
    labels = _label_numbers(raw, table)
    sized = np.where(labels == 0, 1.0, np.abs(labels))
    if np.isfinite(labels).all() and (sized.min() < _SMALLEST or sized.max() > _LARGEST):
        i = int(np.argmax((sized < _SMALLEST) | (sized > _LARGEST)))
        raise ValueError(
            f"the label of {table.row(i)} is {labels[i]:.4g}, and labels must lie between "
            f"{_SMALLEST} and {_LARGEST} in size; change their unit"
        )
    if not np.isfinite(labels).all():
        i = int(np.argmin(np.isfinite(labels)))
        raise ValueError(
            f"the label of {table.row(i)} is missing or infinite "
            f"({int((~np.isfinite(labels)).sum())} in all); drop the row"
        )
    zero = labels == 0
    if zero.any():
        cure = (
            "labels 0 and 1: use 2 * y - 1 to make them -1 and +1"
            if set(labels) == {0.0, 1.0}
            else "drop these rows, or shift all labels, e.g. by their mean"
        )
        raise ValueError(
            f"the label of {table.row(int(np.argmax(zero)))} is 0 ({int(zero.sum())} in all), but "
            f"its sign must say which neuron fits it; {cure}"
        )
    if not any((sign * labels > 0).any() for sign in signs):
        raise ValueError(
            f"all labels are {'positive' if labels[0] > 0 else 'negative'}, and the only neuron "
            f"has the other sign, so it can fit none of them; use signs=({-signs[0]},) or (1, -1)"
        )
    return labels


def _label_numbers(raw: NDArray[Any], table: _Table) -> Array:
    if raw.dtype.kind in "biuf":
        return raw.astype(np.float64)
    if raw.dtype.kind not in "OUST":
        raise TypeError(f"labels must be real numbers, got dtype {raw.dtype}")
    numbers = [_as_number(label) for label in raw.tolist()]
    if None not in numbers:
        return np.array(numbers, dtype=np.float64)
    texts = [str(label) for label in raw.tolist()]
    kinds = sorted(set(texts))
    if len(kinds) == 2:
        raise TypeError(
            f"labels are the classes {kinds[0]!r} and {kinds[1]!r}, not numbers; make them +1 and "
            f"-1, e.g. numpy.where(labels == {kinds[0]!r}, 1, -1), and give that array"
        )
    i = numbers.index(None)
    raise TypeError(
        f"the label of {table.row(i)} is the text {texts[i]!r}; the labels have {len(kinds)} "
        "different values and must be numbers: keep two classes as +1 and -1, or give the "
        "quantity to be predicted"
    )


def _number(value: Any) -> str:
    return "none" if np.isnan(value) else f"{float(value):.4g}".replace("inf", "∞")


def _small(value: Any, unit: float = 1.0) -> str:
    """Write a number of which the digits below 1e-9 of a unit are rounding."""
    return "< 1e-9" if value < 1e-9 * unit else _number(value)


def _signs(problem: Problem) -> str:
    return ", ".join(f"{sign:+.0f}" for sign in problem.signs)


# The command line


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report on data in files; 2 if they cannot be used, with the reason on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m ibrelu.report",
        description="Does the theory hold for my data? Prints conditions, run, minimum norm, gap.",
    )
    parser.add_argument("X", help=".npy or .csv file of features, one example a row, no more rows "
                        "than columns")  # fmt: skip
    parser.add_argument("y", help="file of labels, or name of the column of X that holds them")
    parser.add_argument("--signs", default="+-", choices=["+", "-", "+-"], help="output signs of "
                        "the neurons: one or both (default)")  # fmt: skip
    parser.add_argument("--c", type=float, default=0.5, help="step times mean squared length")
    parser.add_argument("--scale", type=float, default=1e-3, help="start, in the smallest label")
    parser.add_argument("--max-steps", type=int, default=100_000, help="end of an unproven run")
    given = parser.parse_args(arguments)
    signs = tuple(1 if sign == "+" else -1 for sign in given.signs)
    try:
        found = report(
            given.X, given.y, signs=signs, c=given.c, scale=given.scale, max_steps=given.max_steps
        )
    except (TypeError, ValueError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
