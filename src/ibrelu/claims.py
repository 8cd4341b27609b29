r"""The ledger: what the two papers claim, what is predicted, what is measured.

Each :class:`Claim` is a statement, a function that measures a few numbers, the interval in
which each of them must lie, and a companion: the same measurement in a set-up in which the
claim must **not** hold. The tests and the page of claims run these same objects.
"""

from __future__ import annotations

import html
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ibrelu._checks import Array, Mask
from ibrelu.classification import ClassifierRun, near_orthogonality, train_classifier
from ibrelu.datasets import mnist_digits
from ibrelu.descent import Descent, gradient_descent
from ibrelu.features import (
    Spectrum,
    gaussian_features,
    gaussian_gram,
    orthogonal_features,
    signed_labels,
)
from ibrelu.flow import gradient_flow
from ibrelu.min_norm import min_norm
from ibrelu.problem import Problem, all_active, disjoint, from_weights, random_start
from ibrelu.tables import Table, table
from ibrelu.theory import (
    conditions,
    gap,
    gap_bounds,
    gap_constant,
    lemma_5,
    lemma_6,
    matching,
    regression_limit,
    schur,
)

Measurement = tuple[float, ...]


@dataclass(frozen=True)
class Quantity:
    """One measured number: its name and the closed interval that the claim predicts."""

    name: str
    low: float = -np.inf
    high: float = np.inf

    def holds(self, value: float) -> bool:
        """Whether a measured value lies in the predicted interval."""
        return bool(self.low <= value <= self.high)

    @property
    def prediction(self) -> str:
        """The interval in words, e.g. "≤ 1e-10" or "-0.53 to -0.47"."""
        if self.low == self.high:
            return f"{self.low:.4g}"
        if np.isinf(self.low):
            return f"≤ {self.high:.4g}"
        if np.isinf(self.high):
            return f"≥ {self.low:.4g}"
        return f"{self.low:.4g} to {self.high:.4g}"


@dataclass(frozen=True)
class Claim:
    """A statement of a paper (or ours) that can be measured, and can fail.

    Parameters
    ----------
    id : str
        Short name, e.g. "T2a".
    source : str
        Bibliography key and place, or "ours".
    statement : str
        The claim in one sentence.
    chapter : str
        Document of the book that proves or discusses it, e.g. "regression/single-neuron-gap".
    quantities : tuple of Quantity
        What is measured and what is predicted.
    measure : callable
        Returns one number a quantity.
    unless : str
        The set-up in which the claim must fail, in words.
    companion : callable
        The same measurement there.
    """

    id: str
    source: str
    statement: str
    chapter: str
    quantities: tuple[Quantity, ...]
    measure: Callable[[], Measurement] = field(repr=False)
    unless: str
    companion: Callable[[], Measurement] = field(repr=False)

    def verify(self) -> Verdict:
        """Measure the claim and its companion."""
        return Verdict(self, self.measure(), self.companion())


@dataclass(frozen=True)
class Verdict:
    """A claim with what was measured, in its set-up and in the one where it must fail."""

    claim: Claim
    measured: Measurement
    companion: Measurement

    def _all_hold(self, values: Measurement) -> bool:
        pairs = zip(self.claim.quantities, values, strict=True)
        return all(quantity.holds(value) for quantity, value in pairs)

    @property
    def holds(self) -> bool:
        """Every quantity lies in its predicted interval."""
        return self._all_hold(self.measured)

    @property
    def companion_fails(self) -> bool:
        """At least one quantity of the companion lies outside."""
        return not self._all_hold(self.companion)


@dataclass(frozen=True)
class Ledger:
    """Verdicts, as a card a claim in HTML and as plain text elsewhere."""

    verdicts: tuple[Verdict, ...]
    book: str

    def __repr__(self) -> str:
        return "\n\n".join(_card_text(verdict) for verdict in self.verdicts)

    def _repr_html_(self) -> str:
        return "".join(_card_html(verdict, self.book) for verdict in self.verdicts)


def ledger(verdicts: Iterable[Verdict], book: str = "..") -> Ledger:
    """Show verdicts with links to their chapters below the folder `book`.

    What is at the level of rounding differs from machine to machine and is written "< 1e-9".
    """
    return Ledger(tuple(verdicts), book)


def _verdict(verdict: Verdict) -> str:
    if not verdict.holds:
        return "FAILS"
    return "holds" if verdict.companion_fails else "HOLDS EVEN WHERE IT MUST NOT"


def _measured(verdict: Verdict) -> Table:
    claim = verdict.claim
    columns = zip(claim.quantities, verdict.measured, verdict.companion, strict=True)
    rows = [(q.name, q.prediction, _written(here), _written(there)) for q, here, there in columns]
    return table(("measured", "predicted", "here", "companion"), rows)


def _card_text(verdict: Verdict) -> str:
    claim = verdict.claim
    return (
        f"{claim.id} ({claim.source}; {claim.chapter}): {_verdict(verdict)}\n{claim.statement}\n"
        f"Must fail when {claim.unless}.\n{_measured(verdict)}"
    )


def _card_html(verdict: Verdict, book: str) -> str:
    claim, words = verdict.claim, _verdict(verdict)
    mark = "✓" if words == "holds" else "✗"
    return (
        f'<section class="ibrelu-claim" id="claim-{claim.id}" aria-label="Claim {claim.id}">'
        f'<p class="ibrelu-claim-head"><strong>{claim.id}</strong> <span>{mark} {words}</span> '
        f'<a href="{book}/{claim.chapter}.html">{claim.chapter}</a> '
        f"<small>{html.escape(claim.source)}</small></p>"
        f"<p>{html.escape(claim.statement)} "
        f"<em>Must fail when</em> {html.escape(claim.unless)}.</p>"
        f"{_measured(verdict)._repr_html_()}</section>"
    )


def _written(value: float) -> str:
    return "< 1e-9" if 0 < abs(value) < 1e-9 else f"{value:.4g}"


# --- set-ups ---------------------------------------------------------------------------------

N, C, START = 20, 0.5, 1e-3  # examples, c = η‖λ‖₁ and scale of the start, unless said otherwise


def _problems(
    d: int,
    *,
    n: int = N,
    positive: float = 0.5,
    signs: tuple[int, ...] = (1,),
    spectrum: Spectrum | None = None,
    size: int = 50,
    seed: int = 0,
) -> Problem:
    """`size` problems with Gaussian features and labels in ±[1, 2]."""
    rng = np.random.default_rng([seed, n, d])
    gram = gaussian_gram(n, d, spectrum=spectrum, size=size, rng=rng)
    return Problem(gram, signed_labels(n, positive=positive, size=size, rng=rng), signs)


def _limit(problem: Problem, c: float = C) -> Descent:
    return gradient_descent(problem, all_active(problem, START), problem.step(c))


def _gaps(problem: Problem, c: float = C, *, relative: bool = False) -> Array:
    return gap(problem, _limit(problem, c), min_norm(problem), relative=relative)


def _flow_gaps(problem: Problem, *, relative: bool = False) -> Array:
    flow = gradient_flow(problem, all_active(problem, START))
    return gap(problem, flow, min_norm(problem), relative=relative)


def _share(hits: Mask) -> float:
    return float(np.mean(hits))


def slope(x: Array, y: Array) -> float:
    """Least-squares slope of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _median_slope(x: Sequence[float], samples: list[Array]) -> float:
    return slope(np.array(x, float), np.array([np.median(sample) for sample in samples]))


# --- background: linear regression and random Gram matrices ----------------------------------


def _linear_bias(*, outside: bool) -> Measurement:
    rng = np.random.default_rng(1)
    X, y = gaussian_features(10, 40, rng=rng), rng.standard_normal(10)
    target, top = np.linalg.pinv(X) @ y, np.linalg.eigvalsh(X @ X.T)[-1]
    distances = []
    for share in (0.1, 0.5, 0.95):
        w = rng.standard_normal(40) if outside else np.zeros(40)
        for _ in range(4_000):
            w -= share * 2 / top * (X.T @ (X @ w - y))
        distances.append(np.linalg.norm(w - target) / np.linalg.norm(target))
    return (float(max(distances)),)


def _concentration(*, spiked: bool) -> Measurement:
    d = [400, 1_600, 6_400, 25_600, 102_400]
    largest = []
    for count in d:
        # A spike that holds half the trace keeps d_∞ = 2 at every d.
        spectrum = [(float(count), 1), (1.0, count - 1)] if spiked else None
        gram = gaussian_gram(N, count, spectrum=spectrum, size=100, rng=count)
        trace = 2 * count - 1 if spiked else count
        largest.append(np.abs(gram / trace - np.eye(N)).max(axis=(-2, -1)))
    return (_median_slope(d, largest),)


def _sampler(*, degrees_off: int) -> Measurement:
    n, d, size = 5, 12, 4_000
    rng = np.random.default_rng(3)
    drawn = gaussian_gram(n, d + degrees_off, size=size, rng=rng)
    X = gaussian_features(n, d, size=size, rng=rng)
    direct = X @ X.swapaxes(-1, -2)
    pairs = [(drawn[:, i, j], direct[:, i, j]) for i, j in ((0, 0), (4, 4), (1, 0), (4, 2))]
    extremes = [np.asarray(np.linalg.eigvalsh(gram)[:, [0, -1]]) for gram in (drawn, direct)]
    pairs += list(zip(extremes[0].T, extremes[1].T, strict=True))
    p_values = [stats.ks_2samp(a, b).pvalue for a, b in pairs]
    return (float(min(1.0, len(pairs) * min(p_values))),)  # Bonferroni


# --- the primal–dual recursion and its lemmas ------------------------------------------------


def _weight_space(*, relu: bool) -> Measurement:
    rng = np.random.default_rng(4)
    X, y, signs = gaussian_features(8, 200, rng=rng), signed_labels(8, rng=rng), (1, -1)
    problem = Problem.from_features(X, y, signs)
    w = 0.05 * rng.standard_normal((200, 2))
    step = float(problem.step(C))
    run = gradient_descent(problem, from_weights(X, w), step, record=list(range(201)))
    assert run.history is not None
    worst = 0.0
    for beta in run.history.beta:
        z = X @ w
        worst = max(worst, float(np.abs(z - beta).max()))
        active = (z > 0) if relu else np.ones_like(z)
        residual = (z * active) @ problem.signs - y
        w = w - step * X.T @ (active * residual[:, None] * problem.signs)
    return (worst,)


def _frozen_duals(*, leak: float) -> Measurement:
    problem = _problems(100, signs=(1, -1), size=20)
    alpha = problem.dual(all_active(problem, START))
    step = problem.step(C)[:, None, None]
    if leak == 0:
        run = gradient_descent(problem, all_active(problem, START), problem.step(C), record=True)
        assert run.history is not None
        moves = np.diff(run.history.alpha, axis=0)
        return (float(np.abs(np.where(run.history.beta[:-1] <= 0, moves, 0.0)).max()),)
    largest = 0.0
    for _ in range(50):
        beta = problem.primal(alpha)
        gate = np.where(beta > 0, 1.0, leak)
        residual = (gate * beta) @ problem.signs - problem.labels
        move = -step * residual[..., None] * problem.signs * gate
        largest = max(largest, float(np.abs(move[beta <= 0]).max(initial=0.0)))
        alpha = alpha + move
    return (largest,)


def _histories(signs: tuple[int, ...]) -> list[tuple[Problem, Array, Descent]]:
    """First 40 steps of runs at five dimensions; whether they reach a limit does not matter."""
    runs = []
    for d in (N + 1, 2 * N, 5 * N, 400, 6_400):
        problem = _problems(d, signs=signs, size=20, seed=5)
        start, step = all_active(problem, 0.1), problem.step(C)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="gradient descent")
            run = gradient_descent(problem, start, step, max_steps=39, record=[*range(40)])
        runs.append((problem, step, run))
    return runs


def _lemma_5(*, assumed: bool) -> Measurement:
    broken = applied = 0
    for problem, step, run in _histories((1,)) + _histories((1, -1)):
        assert run.history is not None
        check = lemma_5(problem, run.history, step)
        wide = (run.history.beta > 0) & matching(problem)
        broken += int((check.violated if assumed else wide & ~check.conclusion).sum())
        applied += int(check.hypothesis.sum())
    return float(broken), float(applied)


def _lemma_6(*, assumed: bool) -> Measurement:
    broken = applied = 0
    for problem, _, run in _histories((1,)) + _histories((1, -1)):
        assert run.history is not None
        check = lemma_6(problem, run.history)
        negative = run.history.alpha < 0
        broken += int((check.violated if assumed else negative & ~check.conclusion).sum())
        applied += int(check.hypothesis.sum())
    return float(broken), float(applied)


# --- one neuron ------------------------------------------------------------------------------


def _decouples(problem: Problem, run: Descent) -> Mask:
    """Pattern final after the first step, active sets exactly the matching examples, all fitted."""
    same = (run.active == matching(problem)).all(axis=(-2, -1))
    return np.asarray(same & (run.settled <= 1) & run.global_minimum)


def _first_step(d: int, signs: tuple[int, ...], *, random: bool = False) -> Measurement:
    problem = _problems(d, signs=signs, size=200, seed=6)
    start = all_active(problem, START)
    if random:
        start = random_start(problem, None, 0.01 / np.sqrt(d), 6)
        some = (start > 0).any(axis=(-2, -1))
        problem, start = problem[some], start[some]
    return (_share(_decouples(problem, gradient_descent(problem, start, problem.step(C)))),)


def _limit_is_regression(*, from_start: bool) -> Measurement:
    problem = _problems(6_400, size=50, seed=7)
    start, step = all_active(problem, START), problem.step(C)
    run = gradient_descent(problem, start, step, record=[0, 1])
    assert run.history is not None
    alpha = run.history.alpha[0 if from_start else 1]
    predicted = regression_limit(problem, alpha, matching(problem))
    return (float(gap(problem, predicted, run, relative=True).max()),)


def _counter_examples(*, dropped: bool) -> Measurement:
    """Problems near the edge of the conditions: how many meet them, and how many of those err."""
    rng = np.random.default_rng(8)
    met = wrong = 0
    for _ in range(40):
        n, signs = int(rng.integers(2, 9)), ((1,), (1, -1))[int(rng.integers(2))]
        d = int(10 ** rng.uniform(1.2, 2.2) * n)
        gram = gaussian_gram(n, d, size=1_000, rng=rng)
        labels = signed_labels(n, low=0.9, high=1.1, size=1_000, rng=rng)
        problem = Problem(gram, labels, signs)
        start = all_active(problem, float(10 ** rng.uniform(-5, -2)))
        step = problem.step(float(rng.uniform(0.3, 1.0)))
        chosen = conditions(problem, start, step).hold != dropped
        if chosen.any():
            run = gradient_descent(problem[chosen], start[chosen], step[chosen], max_steps=20_000)
            met += int(chosen.sum())
            wrong += int((~_decouples(problem[chosen], run)).sum())
    return float(wrong), float(met)


DIMENSIONS = [10**3, 10**4, 10**5, 10**6, 10**7]


def _gap_slopes(signs: tuple[int, ...], *, flow: bool = False) -> Measurement:
    """Slopes of the median gap in d, and in the number of examples that do not match."""
    size, measure = (4, _flow_gaps) if flow else (200, _gaps)
    by_d = [measure(_problems(d, signs=signs, size=size)) for d in DIMENSIONS]
    counts = [5, 10, 20, 40]
    by_n = []
    for count in counts:
        n = 10 + count if len(signs) == 1 else 2 * count
        problem = _problems(10**7, n=n, positive=(n - count) / n, signs=signs, size=size)
        by_n.append(measure(problem))
    return _median_slope(DIMENSIONS, by_d), _median_slope(counts, by_n)


def _scaled_gap(c: float) -> Measurement:
    scaled = []
    for d in (10**4, 10**6):
        problem = _problems(d, size=50)
        scaled.append(np.median(_gaps(problem, c) * np.sqrt(problem.scale / (N / 2))))
    return (float(min(scaled)),)


def _sharp(d: int, signs: tuple[int, ...]) -> Measurement:
    """Identity of the gap, then measured over predicted: gap and relative gap."""
    problem = _problems(d, signs=signs, size=200, seed=9)
    run, best = _limit(problem), min_norm(problem)
    apart = gap(problem, run, best)
    moved = np.where(matching(problem), 0.0, run.alpha - best.alpha)
    moved = moved.swapaxes(-1, -2)[..., None]
    square = (moved.swapaxes(-1, -2) @ schur(problem) @ moved).sum(axis=(-3, -2, -1))
    identity = np.abs(np.sqrt(np.maximum(square, 0)) / apart - 1).max()
    count = N / 2 if len(signs) == 1 else N
    constant = apart * np.sqrt(problem.scale / count) / gap_constant(problem, C)
    ratio = gap(problem, run, best, relative=True) / gap_constant(problem, C, relative=True)
    return float(identity), float(np.median(constant)), float(np.median(ratio))


def _bounds(scale: float) -> Measurement:
    """Violations of the two-sided bounds; then lower / gap and upper / gap at d = 10⁷."""
    outside = 0
    for d in (10**5, 10**6, 10**7):
        problem = _problems(d, size=400, seed=10)
        start, step = all_active(problem, scale), problem.step(C)
        apart = gap(problem, gradient_descent(problem, start, step), min_norm(problem))
        lower, upper = gap_bounds(problem, start, step)
        outside += int(((apart < lower) | (apart > upper)).sum())
    return float(outside), float((lower / apart).min()), float((upper / apart).max())


def _collapse(*, in_trace: bool) -> Measurement:
    """Largest over smallest scaled gap of three spectra."""
    d = 40_000
    slow = np.repeat(np.arange(1.0, 201.0) ** -0.5, 200)
    spectra: list[Spectrum | None] = [
        None,
        list(zip(np.arange(1.0, 201.0) ** -0.5, [200] * 200, strict=True)),
        [(10.0, 2_000), (1.0, d - 2_000)],
    ]
    traces = [float(d), float(slow.sum()), 10.0 * 2_000 + d - 2_000]
    scaled = []
    for spectrum, trace in zip(spectra, traces, strict=True):
        problem = _problems(d, spectrum=spectrum, size=50, seed=12)
        length = trace if in_trace else float(d)
        scaled.append(float(np.median(_gaps(problem)) * np.sqrt(length / (N / 2))))
    return (max(scaled) / min(scaled),)


def _selection(*, orthogonal: bool) -> Measurement:
    """Share of the negative examples selected; share of pairs of problems that select alike."""
    problem = _problems(1_600, size=40, seed=13)
    if orthogonal:
        problem = Problem(problem.scale[:, None, None] * np.eye(N), problem.labels)
    chosen, negative = min_norm(problem).selected, problem.negative
    order = np.argsort(problem.positive, axis=-1, kind="stable")[:, : N // 2]
    among = np.take_along_axis(chosen, order, axis=-1)
    alike = (among[:, None] == among[None]).all(axis=-1)[np.triu_indices(len(among), 1)]
    return float(chosen.sum() / negative.sum()), _share(alike)


# --- two neurons and more --------------------------------------------------------------------


def _certified(d: int, n: int = N) -> Measurement:
    """Share of problems in which the decoupled network is certified a global minimum of norm."""
    problem = _problems(d, n=n, signs=(1, -1), size=100, seed=14)
    one = min_norm(Problem(problem.gram, problem.labels))
    other = min_norm(Problem(problem.gram, -problem.labels))
    apart = np.abs(np.concatenate([one.alpha, other.alpha], axis=-1))
    own = np.where(problem.positive, apart[..., 0], apart[..., 1])
    rest = np.where(problem.positive, apart[..., 1], apart[..., 0])
    together = np.hypot(one.norm, other.norm)
    lower = (min_norm(problem).norm < together * (1 - 1e-9)).sum()
    return _share((own >= rest).all(axis=-1)), float(lower)


def _owners(problem: Problem, m: int) -> NDArray[np.int64]:
    """Deal the examples of each sign in turn to the neurons of that sign: + first, then −."""
    rank = np.where(
        problem.positive, problem.positive.cumsum(axis=-1), problem.negative.cumsum(axis=-1)
    )
    return np.asarray(np.where(problem.positive, 0, m // 2) + (rank - 1) % (m // 2))


def _disjoint_run(m: int, d: int, depth: float | None) -> tuple[Problem, Descent]:
    problem = _problems(d, signs=(1,) * (m // 2) + (-1,) * (m // 2), seed=15)
    start = disjoint(problem, _owners(problem, m), START, depth=depth)
    return problem, gradient_descent(problem, start, problem.step(C))


def _partition(depth: float | None) -> Measurement:
    """Share of seeds in which four neurons keep and fit their own examples."""
    _, run = _disjoint_run(4, 6_400, depth)
    return (_share((run.settled == 0) & run.global_minimum),)


def _unshared(m: int) -> Measurement:
    """Norm after a disjoint start over the shared candidate's, in units of √2."""
    problem, run = _disjoint_run(m, 10**6, None)
    length = gap(problem, run, np.zeros_like(run.alpha))
    return (float(np.median(length / min_norm(problem).norm) / np.sqrt(2)),)


def _minimum_share(*, random: bool) -> Measurement:
    """Share of seeds that reach a global minimum, the largest over five dimensions."""
    shares = []
    for d in (40, 100, 400, 1_600, 6_400):
        problem = _problems(d, size=200, seed=17)
        start = all_active(problem, START)
        if random:
            start = random_start(problem, None, 0.01 / np.sqrt(d), 17)
        some = (start > 0).any(axis=(-2, -1))
        part = problem[some]
        run = gradient_descent(part, start[some], part.step(C))
        shares.append(_share(run.global_minimum))
    return (max(shares[2:]),)


def _stability(ratios: tuple[float, ...]) -> Measurement:
    """Share of seeds whose pattern is final after one step, first and last over d/n."""
    shares = [_first_step(round(N * ratio), (1,))[0] for ratio in ratios]
    return shares[0], shares[-1]


# --- the two ends: orthogonal data, worst cases, small steps ---------------------------------


def _on_orthogonal(*, flow: bool) -> Measurement:
    rng = np.random.default_rng(18)
    gram = 400.0 * np.eye(N)
    worst = 0.0
    for _ in range(10):
        problem = Problem(gram, signed_labels(N, rng=rng))
        start = rng.uniform(1e-3, 1.0, (N, 1))
        best = min_norm(problem)
        run = gradient_flow(problem, start) if flow else None
        end = run or gradient_descent(problem, start, problem.step(C))
        worst = max(worst, float(gap(problem, end, best, relative=True)))
    return (worst,)


def _rescaled(*, linear: bool) -> Measurement:
    """Two data sets with one solution set: relative distance of the limits, the largest of 300.

    The second data set is the first with one example and its label multiplied by 10.
    """
    rng = np.random.default_rng(19)
    stretch = np.array([10.0, 1.0, 1.0])
    largest = 0.0
    for _ in range(300):
        X, y = gaussian_features(3, 3, rng=rng), signed_labels(3, positive=2 / 3, rng=rng)
        w = np.linalg.solve(X, np.full((3, 1), START))
        ends = []
        for factor in (np.ones(3), stretch):
            features, labels = factor[:, None] * X, factor * y
            if linear:
                ends.append(np.linalg.pinv(features) @ labels)
                continue
            problem = Problem.from_features(features, labels)
            flow = gradient_flow(problem, from_weights(features, w))
            ends.append(problem.weights(features, flow.alpha)[:, 0])
            if not flow.global_minimum:
                break
        else:
            apart = np.linalg.norm(ends[0] - ends[1]) / np.linalg.norm(ends[0])
            largest = max(largest, float(apart))
    return (largest,)


def _overshoot(*, vary_start: bool) -> Measurement:
    """Slope in η of the gap, and of the distance of descent from the flow.

    The companion varies the scale of the start instead of the step.
    """
    problem = _problems(6_400, size=5, seed=20)
    best, factors = min_norm(problem), [1e-1, 1e-2, 1e-3]
    from_best, from_flow = [], []
    for factor in factors:
        start = all_active(problem, 1e-6 * (factor if vary_start else 1.0))
        run = gradient_descent(problem, start, problem.step(C if vary_start else factor))
        from_best.append(gap(problem, run, best))
        from_flow.append(gap(problem, run, gradient_flow(problem, start)))
    return _median_slope(factors, from_best), _median_slope(factors, from_flow)


def _flow_gap(*, flow: bool) -> Measurement:
    """Median relative gap at the largest d, and how it falls from one d to the next."""
    measure = _flow_gaps if flow else _gaps
    medians = [
        float(np.median(measure(_problems(d, size=15, seed=23), relative=True)))
        for d in (400, 1_600, 6_400, 25_600)
    ]
    return medians[-1], float(np.max(np.divide(medians[1:], medians[:-1])))


# --- classification on nearly-orthogonal data ------------------------------------------------

WIDTH, LENGTH = 50, 100_000  # neurons of each sign, steps


def _classifier(
    slope: float,
    *,
    orthogonal: bool = False,
    positive: int = N // 2,
    steps: int = LENGTH,
    start: float = 1e-3,
    pace: float = 0.5,
) -> ClassifierRun:
    """Train on 20 examples of squared length about 2,000 in 2,000 dimensions."""
    d = 2_000
    if orthogonal:
        X = orthogonal_features(N, d, scale=float(d), rng=21)
    else:
        X = gaussian_features(N, d, rng=21)
    y = np.where(np.arange(N) < positive, 1, -1)
    return train_classifier(
        X,
        y,
        width=WIDTH,
        slope=slope,
        step=pace * N * WIDTH / d,
        init_scale=start / np.sqrt(d),
        steps=steps,
        rng=21,
    )


def _block_rank(slope: float) -> Measurement:
    return (float(_classifier(slope).stable_rank[-1].max()),)


def _relu_rank(slope: float) -> Measurement:
    """Rank of the blocks over 2n₊/(n₊ + 1) on orthogonal data; the largest on Gaussian data."""
    ranks = _classifier(slope, orthogonal=True).stable_rank[-1]
    predicted = 2 * (N / 2) / (N / 2 + 1)
    return float(ranks.mean() / predicted), float(_classifier(slope).stable_rank[-1].max())


def _norm_growth(law: Callable[[Array], Array]) -> Measurement:
    """Largest over smallest norm / law over three decades."""
    run = _classifier(0.1)
    late = run.step >= 100
    ratio = run.norm[late] / law(run.step[late].astype(float))
    return (float(ratio.max() / ratio.min()),)


def _loss_rate(first: int, last: int) -> Measurement:
    """Slope of the loss; misfit of the line t^(−1/2) over that of the line t^(−1)."""
    run = _classifier(0.1, steps=last)
    late = run.step >= first
    t, loss = np.log(run.step[late]), np.log(run.loss[late])
    misfit = [np.std(loss + rate * t) for rate in (0.5, 1.0)]
    return slope(run.step[late].astype(float), run.loss[late]), float(misfit[0] / misfit[1])


def _margin_spread(first: int, last: int) -> Measurement:
    """Normalised spread of the margins at the end; largest over smallest spread × log t."""
    run = _classifier(0.1, steps=last)
    late = run.step >= first
    spread = np.ptp(run.margins, axis=-1)[late] / run.norm[late]
    scaled = spread * np.log(run.step[late])
    return float(spread[-1]), float(scaled.max() / scaled.min())


def _whole_rank(positive: int) -> Measurement:
    """Stable rank of all weights over 1 + ((1 − γ)/(1 + γ))² for three slopes γ, the worst."""
    worst = 0.0
    for gamma in (0.1, 0.3, 0.5):
        run = _classifier(gamma, orthogonal=True, positive=positive, pace=0.02)
        predicted = 1 + ((1 - gamma) / (1 + gamma)) ** 2
        worst = max(worst, abs(float(run.stable_rank_all[-1]) / predicted - 1))
    return (worst,)


def _first_steps(start: float) -> Measurement:
    """Stable rank of the blocks at the start, and after four steps."""
    run = _classifier(0.1, steps=4, start=start)
    return float(run.stable_rank[0].min()), float(run.stable_rank[-1].max())


def _real_digits(steps: int) -> Measurement:
    """MNIST zeros against ones: near-orthogonality, slope of the loss, block rank, spread."""
    X, labels = mnist_digits((0, 1), n=N, rng=22)
    run = train_classifier(
        X,
        labels,
        width=WIDTH,
        slope=0.1,
        step=0.1 * N * WIDTH / float((X**2).sum(-1).max()),
        init_scale=1e-4,
        steps=steps,
        rng=22,
    )
    late = run.step >= steps // 10
    return (
        float(near_orthogonality(X).overall),
        slope(run.step[late].astype(float), run.loss[late]),
        float(run.stable_rank[-1].max()),
    )


# --- the ledger ------------------------------------------------------------------------------

_HALF = tuple(
    Quantity(f"slope in {x}", low, high)
    for x, low, high in (
        ("d", -0.53, -0.47),
        ("the number of examples that do not match", 0.47, 0.53),
    )
)
_SHARE = (Quantity("share of seeds", 1.0, 1.0),)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "B1",
        "textbook",
        "Linear regression by gradient descent from zero reaches the interpolator of least norm, "
        "whatever the step below 2/λ_max.",
        "foundations/linear-bias",
        (Quantity("largest relative distance to X⁺y over three steps", high=1e-10),),
        partial(_linear_bias, outside=False),
        "the start is outside the row space",
        partial(_linear_bias, outside=True),
    ),
    Claim(
        "G1",
        "LWTM26",
        "The Gram matrix of random features concentrates on ‖λ‖₁ I.",
        "foundations/near-orthogonality",
        (Quantity("slope in d of the largest entry of |G/‖λ‖₁ − I|", -0.53, -0.47),),
        partial(_concentration, spiked=False),
        "one eigenvalue holds half the trace (d_∞ = 2 at every d)",
        partial(_concentration, spiked=True),
    ),
    Claim(
        "G2",
        "ours",
        "Bartlett's factor draws the Gram matrix exactly in law, at a price that does not depend "
        "on d.",
        "foundations/near-orthogonality",
        (Quantity("smallest Kolmogorov–Smirnov p-value × number of tests", 0.01, 1.0),),
        partial(_sampler, degrees_off=0),
        "one degree of freedom too many",
        partial(_sampler, degrees_off=1),
    ),
    Claim(
        "D1",
        "LWTM26",
        "Gradient descent on the weights is the primal–dual recursion.",
        "primal-dual/derivation",
        (Quantity("largest difference over 200 steps", high=1e-10),),
        partial(_weight_space, relu=True),
        "the weights belong to a linear model",
        partial(_weight_space, relu=False),
    ),
    Claim(
        "D2",
        "LWTM26",
        "The sign of β decides activity, and the duals of inactive examples do not move.",
        "primal-dual/derivation",
        (Quantity("largest move of an inactive dual", 0.0, 0.0),),
        partial(_frozen_duals, leak=0.0),
        "the activation is leaky, with slope 0.1",
        partial(_frozen_duals, leak=0.1),
    ),
    Claim(
        "L5",
        "LWTM26, Lemma 5; deterministic form ours",
        "An active example whose label matches the neuron's sign stays active, if the other "
        "examples' pull is smaller than its own.",
        "primal-dual/lemma-5",
        (Quantity("violations", 0, 0), Quantity("times it applied", low=1_000)),
        partial(_lemma_5, assumed=True),
        "the hypothesis is dropped, at small d",
        partial(_lemma_5, assumed=False),
    ),
    Claim(
        "L6",
        "LWTM26, Lemma 6; deterministic form ours",
        "An example with a sufficiently negative dual is inactive, and its dual stays.",
        "primal-dual/lemma-6",
        (Quantity("violations", 0, 0), Quantity("times it applied", low=1_000)),
        partial(_lemma_6, assumed=True),
        "any negative dual is taken as sufficient",
        partial(_lemma_6, assumed=False),
    ),
    Claim(
        "T1a",
        "LWTM26, Theorem 1",
        "One neuron, high dimension: after one step the pattern is final, positive examples are "
        "fitted exactly and negative ones output zero (d = 1,600).",
        "regression/single-neuron",
        _SHARE,
        partial(_first_step, 1_600, (1,)),
        "d = n + 1",
        partial(_first_step, N + 1, (1,)),
    ),
    Claim(
        "T1b",
        "LWTM26, Theorem 1",
        "The limit is linear regression on the positive examples alone, started from the weights "
        "after one step.",
        "regression/single-neuron",
        (Quantity("largest relative distance", high=1e-10),),
        partial(_limit_is_regression, from_start=False),
        "the regression starts from the weights before the step",
        partial(_limit_is_regression, from_start=True),
    ),
    Claim(
        "T1c",
        "ours",
        "Conditions (i)–(iv), computed from the Gram matrix, labels, start and step, imply "
        "Theorems 1 and 3.",
        "regression/single-neuron",
        (Quantity("counter-examples", 0, 0), Quantity("problems that meet them", low=10_000)),
        partial(_counter_examples, dropped=False),
        "problems that violate the conditions",
        partial(_counter_examples, dropped=True),
    ),
    Claim(
        "T2a",
        "LWTM26, Theorem 2",
        "The limit lies Θ(√(n₋/‖λ‖₁)) from the minimum-norm solution.",
        "regression/single-neuron-gap",
        _HALF,
        partial(_gap_slopes, (1,)),
        "gradient flow takes the place of descent",
        partial(_gap_slopes, (1,), flow=True),
    ),
    Claim(
        "T2b",
        "LWTM26, Theorem 2",
        "The limit is not the minimum-norm solution: the scaled gap stays away from zero.",
        "regression/single-neuron-gap",
        (Quantity("smallest median of gap × √(‖λ‖₁/n₋)", low=0.5),),
        partial(_scaled_gap, C),
        "the step is a thousand times smaller",
        partial(_scaled_gap, C / 1_000),
    ),
    Claim(
        "T2c",
        "ours",
        "The squared gap is ΔᵀSΔ; its sharp constant is c·rms|y_N|, and the relative gap tends to "
        "c‖y_N‖/‖y_P‖ (d = 10⁶).",
        "regression/single-neuron-gap",
        (
            Quantity("identity, relative error", high=1e-9),
            Quantity("gap over its prediction", 0.98, 1.02),
            Quantity("relative gap over its prediction", 0.98, 1.02),
        ),
        partial(_sharp, 10**6, (1,)),
        "d = 2n",
        partial(_sharp, 2 * N, (1,)),
    ),
    Claim(
        "T2d",
        "LWTM26, Theorem 2",
        "For any spectrum the gap scales with ‖λ‖₁, not with d.",
        "regression/single-neuron-gap",
        (Quantity("largest over smallest scaled gap of three spectra", 1.0, 1.05),),
        partial(_collapse, in_trace=True),
        "d takes the place of ‖λ‖₁",
        partial(_collapse, in_trace=False),
    ),
    Claim(
        "T2e",
        "ours",
        "Explicit two-sided bounds of the gap from the Gram matrix, labels, start and step alone.",
        "regression/single-neuron-gap",
        (
            Quantity("violations", 0, 0),
            Quantity("smallest lower bound over gap, d = 10⁷", 0.97, 1.0),
            Quantity("largest upper bound over gap, d = 10⁷", 1.0, 1.03),
        ),
        partial(_bounds, START),
        "the start is as large as the labels, so that conditions (iii) and (iv) fail",
        partial(_bounds, 2.0),
    ),
    Claim(
        "S1",
        "LWTM26",
        "The minimum-norm solution selects a subset of the negative examples that depends on the "
        "data: about half of them.",
        "regression/single-neuron-gap",
        (
            Quantity("share selected", 0.4, 0.6),
            Quantity("share of pairs of problems that select alike", 0.0, 0.05),
        ),
        partial(_selection, orthogonal=False),
        "the examples are orthogonal: none is selected",
        partial(_selection, orthogonal=True),
    ),
    Claim(
        "T3",
        "LWTM26, Theorem 3",
        "Two neurons of opposite signs decouple after one step into two linear regressions "
        "(d = 1,600).",
        "regression/two-neurons",
        _SHARE,
        partial(_first_step, 1_600, (1, -1)),
        "the start is random",
        partial(_first_step, 1_600, (1, -1), random=True),
    ),
    Claim(
        "T4",
        "LWTM26, Theorem 4",
        "The two-neuron limit lies Θ(√(n/‖λ‖₁)) from the minimum-norm network.",
        "regression/two-neurons",
        _HALF,
        partial(_gap_slopes, (1, -1)),
        "gradient flow takes the place of descent",
        partial(_gap_slopes, (1, -1), flow=True),
    ),
    Claim(
        "T4b",
        "ours",
        "Two single-neuron solutions together are certified to be the minimum-norm network "
        "(d = 400).",
        "regression/two-neurons",
        (
            Quantity("share certified", 1.0, 1.0),
            Quantity("problems in which branch and bound finds a smaller norm", 0, 0),
        ),
        partial(_certified, 400),
        "n = 6, d = 8: some fail, and a smaller norm is found",
        partial(_certified, 8, 6),
    ),
    Claim(
        "M1",
        "LWTM26, appendix; depth ours",
        "More than two neurons, disjoint start: each keeps its own examples for ever and fits "
        "them (m = 4, d = 6,400).",
        "regression/many-neurons",
        _SHARE,
        partial(_partition, None),
        "the depth is a hundredth of 1/d, below the bound",
        partial(_partition, 0.01 / 6_400),
    ),
    Claim(
        "M2",
        "ours",
        "Its norm exceeds that of the network that shares the labels by √(m/2) (m = 4, d = 10⁶).",
        "regression/many-neurons",
        (Quantity("ratio of the norms over √2", 0.97, 1.03),),
        partial(_unshared, 4),
        "m = 2",
        partial(_unshared, 2),
    ),
    Claim(
        "F1",
        "LWTM26, Appendix F.1",
        "A random start leaves positive examples dead: a worse stationary point, at every d.",
        "regression/initialization",
        (Quantity("largest share that reaches a global minimum, d ≥ 400", 0.0, 0.3),),
        partial(_minimum_share, random=True),
        "every example starts active",
        partial(_minimum_share, random=False),
    ),
    Claim(
        "F2",
        "LWTM26, Appendix F.2",
        "Moderate dimension breaks the pattern: the share of stable runs falls as d/n → 1.",
        "regression/initialization",
        (Quantity("share at d/n = 1.1", 0.0, 0.2), Quantity("share at d/n = 40", 0.9, 1.0)),
        partial(_stability, (1.1, 40.0)),
        "both dimensions are far above n²",
        partial(_stability, (1_000.0, 4_000.0)),
    ),
    Claim(
        "E1",
        "BPF22",
        "On orthogonal data the flow reaches the minimum norm exactly, from any all-active start.",
        "extremes/orthogonal",
        (Quantity("largest relative gap", high=1e-10),),
        partial(_on_orthogonal, flow=True),
        "gradient descent with c = ½",
        partial(_on_orthogonal, flow=False),
    ),
    Claim(
        "E2",
        "VS21",
        "No function of the weights alone describes the limit: two data sets share their global "
        "minima and the flow ends apart.",
        "extremes/worst-case",
        (Quantity("largest relative distance of the two limits", low=0.1),),
        partial(_rescaled, linear=False),
        "the model is linear",
        partial(_rescaled, linear=True),
    ),
    Claim(
        "E3",
        "ours",
        "The gap is the overshoot of the finite step: it is proportional to η, and so is the "
        "distance of descent from the flow.",
        "extremes/step-size",
        (
            Quantity("slope in η of the gap", 0.95, 1.05),
            Quantity("slope in η of the distance from the flow", 0.95, 1.05),
        ),
        partial(_overshoot, vary_start=False),
        "the scale of the start varies, not the step",
        partial(_overshoot, vary_start=True),
    ),
    Claim(
        "E4",
        "ours",
        "The flow's relative gap from the minimum norm falls with d.",
        "extremes/step-size",
        (
            Quantity("median at d = 25,600", high=1e-4),
            Quantity("largest ratio of medians when d is quadrupled", 0.0, 0.8),
        ),
        partial(_flow_gap, flow=True),
        "descent with c = ½ takes the place of the flow",
        partial(_flow_gap, flow=False),
    ),
    Claim(
        "K1",
        "KCG23",
        "Leaky ReLU: the stable rank of each sign's weights tends to 1 (γ = 0.1, t = 10⁵).",
        "classification/leaky-relu",
        (Quantity("larger stable rank of the two blocks", 1.0, 1.01),),
        partial(_block_rank, 0.1),
        "γ = 0",
        partial(_block_rank, 0.0),
    ),
    Claim(
        "K2",
        "KCG23; the constant on orthogonal data is ours",
        "ReLU: the stable rank of each sign's weights stays bounded; on orthogonal data it is near "
        "2n₊/(n₊ + 1).",
        "classification/relu",
        (
            Quantity("stable rank over 2n₊/(n₊ + 1), orthogonal data", 0.85, 1.15),
            Quantity("larger stable rank of the two blocks, Gaussian data", 1.0, 3.0),
        ),
        partial(_relu_rank, 0.0),
        "the activation is leaky, with slope 0.1",
        partial(_relu_rank, 0.1),
    ),
    Claim(
        "K3",
        "KCG23",
        "The weights' norm grows like log t.",
        "classification/margins-and-rates",
        (Quantity("largest over smallest ‖W‖/log t over three decades", 1.0, 1.3),),
        partial(_norm_growth, np.log),
        "the law is t^¼",
        partial(_norm_growth, lambda t: t**0.25),
    ),
    Claim(
        "K4",
        "KCG23",
        "The loss falls like 1/t.",
        "classification/margins-and-rates",
        (
            Quantity("slope of the loss over the last decade of 10⁵ steps", -1.05, -0.95),
            Quantity("misfit of the line t^(−1/2) over that of 1/t", low=10.0),
        ),
        partial(_loss_rate, LENGTH // 10, LENGTH),
        "the first ten steps",
        partial(_loss_rate, 1, 10),
    ),
    Claim(
        "K5",
        "KCG23; the rate is ours",
        "All examples reach the same normalised margin; the spread vanishes like 1/log t.",
        "classification/margins-and-rates",
        (
            Quantity("normalised spread of the margins at the end", 0.0, 0.1),
            Quantity("largest over smallest spread × log t over three decades", 1.0, 1.5),
        ),
        partial(_margin_spread, 100, LENGTH),
        "the first ten steps",
        partial(_margin_spread, 2, 10),
    ),
    Claim(
        "K6",
        "ours",
        "Leaky ReLU, balanced orthogonal data: the stable rank of all weights tends to "
        "1 + ((1 − γ)/(1 + γ))².",
        "classification/leaky-relu",
        (Quantity("largest relative error over γ = 0.1, 0.3, 0.5", 0.0, 0.01),),
        partial(_whole_rank, N // 2),
        "3 of 20 labels are positive",
        partial(_whole_rank, 3),
    ),
    Claim(
        "K7",
        "FVBSH23",
        "The first steps slash the stable rank, from a small start.",
        "classification/leaky-relu",
        (Quantity("at the start", low=10.0), Quantity("after four steps", 1.0, 3.0)),
        partial(_first_steps, 1e-3),
        "a start ten thousand times larger",
        partial(_first_steps, 10.0),
    ),
    Claim(
        "K8",
        "KCG23",
        "Real data behave alike: MNIST zeros against ones, far from nearly orthogonal.",
        "laboratory/real-data",
        (
            Quantity("near-orthogonality ratio", 0.0, 1.0),
            Quantity("slope of the loss over the last decade", -1.1, -0.9),
            Quantity("larger stable rank of the two blocks", 1.0, 1.5),
        ),
        partial(_real_digits, LENGTH),
        "the first ten steps",
        partial(_real_digits, 10),
    ),
)
