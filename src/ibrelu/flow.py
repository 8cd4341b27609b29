r"""Gradient flow, the limit of gradient descent as the step goes to 0, solved exactly.

The unit of the motion is a pair (example i, neuron k). At each time it is in one of three states:

- *active*, :math:`\beta_{k,i} > 0`: its dual moves at the **drive** :math:`-s_k r_i`;
- *inactive*, :math:`\beta_{k,i} < 0`: its dual rests;
- *sliding*, :math:`\beta_{k,i} = 0`: the drive pushes it off its active side and the rest of the
  data pushes it back, so it stays on the kink, and its dual moves at the rate between the drive
  and 0 that keeps it there.

While no pair changes state, the residuals of the examples with an active neuron obey
:math:`\dot r = -M r`, :math:`M = \sum_k D_k (G - G_{\cdot Z_k} G_{Z_k Z_k}^{-1} G_{Z_k \cdot}) D_k`
(:math:`D_k` keeps neuron k's active examples, :math:`Z_k` are its sliding ones). M is symmetric
and positive definite there, so everything is a sum of decaying exponentials, and the run is a
sequence of such phases. A phase ends at the first root of a sum of exponentials. It is found from
the left by steps that are each proven to pass no root, and a sum is dismissed for ever once the
generalised rule of signs shows that it has none left: no event is missed, and the last pattern is
proven final.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibrelu import _compiled
from ibrelu._checks import Array, Mask, finite_array
from ibrelu.problem import Problem, check_problem

Indices: TypeAlias = NDArray[np.intp]

_EVENTS = 50  # events a pair before a run is given up
_TIE = 1e-12  # events within this relative distance of the first happen together
_NOISE = 1e-15  # rounding of a sum of exponentials, relative to its terms
_PROVEN = 1e-13  # how far below 0 a dismissed sum may still come, relative to its terms
_REST = 1e-14  # velocities on the kink below this share of what they are summed from are 0


class Event(NamedTuple):
    """A pair changes state.

    Attributes
    ----------
    time : float
    example : int
    neuron : int
    kind : str
        "slides" (comes to rest on the kink), "drops" (becomes inactive), "wakes" (a sliding pair
        becomes active) or "rises" (an inactive pair becomes active).
    """

    time: float
    example: int
    neuron: int
    kind: str


@dataclass(frozen=True, eq=False)
class Flow:
    r"""A gradient flow: its limit, its events, and its state at any time.

    Attributes
    ----------
    alpha : array, shape (..., n, m)
        Dual variables in the limit.
    beta : array, shape (..., n, m)
        Primal variables in the limit.
    active : bool array, shape (..., n, m)
        The last pattern: pairs with :math:`\beta > 0`.
    sliding : bool array, shape (..., n, m)
        Pairs held at :math:`\beta = 0`.
    events : tuple of Event
        In order of time. For a batch, a tuple of such tuples, one a problem, in C order.
    loss : array, shape (...)
        Loss in the limit.
    global_minimum : bool array, shape (...)
        Whether no network with these signs has a smaller loss: every label that a neuron's sign
        matches is fitted, and the output is 0 on the others.
    status : str, or array of str of shape (...) for a batch
        "certified": the last pattern is proven to hold for ever and the limit is solved from it.
        "max_events": the run was given up; alpha and beta are the state at the last event.
    residual : array, shape (...)
        How far `alpha` is from a stationary point with this pattern, computed afresh from the
        Gram matrix: the largest of :math:`|r_i|` on examples with an active neuron,
        :math:`|\beta|` on sliding pairs, and :math:`\beta` on inactive ones, divided by the
        largest label.
    """

    alpha: Array
    beta: Array
    active: Mask
    sliding: Mask
    events: tuple[Event, ...] | tuple[tuple[Event, ...], ...]
    loss: Array
    global_minimum: Mask
    status: str | NDArray[np.str_]
    residual: Array
    _problem: Problem = field(repr=False)
    _runs: tuple[tuple[_Phase, ...], ...] = field(repr=False)

    def at(self, times: ArrayLike) -> tuple[Array, Array]:
        r"""State of the flow at given times, from the closed form of each phase.

        Parameters
        ----------
        times : array, shape (T,)
            Times ≥ 0, in the unit in which :math:`\dot\alpha_{k,i} = -s_k r_i`. Step t of gradient
            descent with step size η is at time ηt.

        Returns
        -------
        alpha, beta : array, shape (T, ..., n, m)

        Raises
        ------
        ValueError
            If a time is negative, NaN or infinite (the limit is `alpha`, `beta`).
        """
        moments = finite_array("times", times)
        if moments.ndim != 1 or (moments < 0).any():
            raise ValueError(
                f"times must be a one-dimensional array of numbers ≥ 0, got shape {moments.shape}"
                + (f" with smallest {moments.min()}" if moments.size else "")
            )
        shape = (len(moments), -1, self._problem.n, self._problem.m)
        alpha, beta = np.empty((2, len(moments), *self.alpha.shape))
        flat_alpha, flat_beta = alpha.reshape(shape), beta.reshape(shape)
        for index, (problem, phases) in enumerate(
            zip(_each(self._problem), self._runs, strict=True)
        ):
            number = np.searchsorted([p.time for p in phases], moments, side="right") - 1
            for j in np.unique(number):
                motion = _motion(problem, phases[j])
                for where in np.flatnonzero(number == j):
                    state = phases[j].after(motion, moments[where] - phases[j].time)
                    flat_alpha[where, index], flat_beta[where, index] = state.alpha, state.beta
        return alpha, beta


def gradient_flow(problem: Problem, start: ArrayLike) -> Flow:
    r"""Solve gradient flow exactly, event by event, to its limit.

    .. math::

        \dot\alpha_{k,i} = -s_k r_i \, \mathbf 1[\beta_{k,i} > 0], \qquad \beta_k = G \alpha_k,

    and at :math:`\beta_{k,i} = 0` the rate between :math:`-s_k r_i` and 0 that the motion allows
    (Filippov's solution, the limit of gradient descent as its step goes to 0). Each phase is a
    sum of decaying exponentials; a run of one neuron on n examples has about n events, and costs
    about one eigendecomposition an event; small problems some twenty times less where numba is
    installed (``pip install ibrelu[fast]``).

    Parameters
    ----------
    problem : Problem
        With one or two neurons of any sign.
    start : array, shape (..., n, m)
        Primal variables at time 0, none zero. Leading axes are the problem's.

    Returns
    -------
    Flow

    Raises
    ------
    ValueError
        If the problem has more than two neurons, or the start does not match the problem, has an
        entry that is NaN, infinite or zero, or no active pair.

    Warns
    -----
    RuntimeWarning
        If a run has more than 50 events a pair; its status is then "max_events".

    References
    ----------
    :cite:`BPF22` (the flow on orthogonal data), :cite:`LWTM26` (gradient descent).

    Examples
    --------
    On orthogonal examples the flow fits the positive label and stops at the negative one's kink.

    >>> problem = Problem(np.diag([4.0, 4.0]), [1.0, -1.0])
    >>> flow = gradient_flow(problem, [[0.1], [0.1]])
    >>> flow.beta[:, 0].round(12).tolist(), flow.status
    ([1.0, 0.0], 'certified')
    >>> [(event.example, event.kind) for event in flow.events]
    [(1, 'drops')]
    """
    check_problem(problem)
    if problem.m > 2:
        raise ValueError(
            f"gradient_flow handles one or two neurons, got m = {problem.m}; for more, run "
            "gradient_descent with a small step, e.g. problem.step(1e-3), which is within O(step) "
            "of the flow"
        )
    beta = _checked_start(problem, start)
    shape = (-1, problem.n, problem.m)
    runs = [
        _run(one, first) for one, first in zip(_each(problem), beta.reshape(shape), strict=True)
    ]
    kinds = (("alpha", float), ("beta", float), ("active", bool), ("sliding", bool))
    alpha, beta, active, sliding = (
        np.array([getattr(run.limit, name) for run in runs], kind).reshape(beta.shape)
        for name, kind in kinds
    )
    batch = bool(problem.batch_shape)
    status = np.array([run.status for run in runs], dtype=str).reshape(problem.batch_shape)
    return Flow(
        alpha=alpha,
        beta=beta,
        active=active,
        sliding=sliding,
        events=tuple(run.events for run in runs) if batch else runs[0].events,
        loss=problem.loss(beta),
        global_minimum=_is_global_minimum(problem, beta),
        status=status if batch else runs[0].status,
        residual=_residual(problem, alpha, active, sliding),
        _problem=problem,
        _runs=tuple(run.phases for run in runs),
    )


class _Motion(NamedTuple):
    """A phase in closed form: each rate is its modes @ exp(-decay · time)."""

    decay: Array  # (e,), ascending, > 0
    residual: Array  # (n, e), zero rows for examples with no active neuron
    alpha: Array  # (m, n, e)
    beta: Array  # (m, n, e)


@dataclass(frozen=True, eq=False)
class _Phase:
    """The state at the start of a stretch of time in which no pair changes state."""

    time: float
    alpha: Array  # (n, m)
    beta: Array  # (n, m)
    residual: Array  # (n,), carried along so that it stays accurate when it is tiny
    active: Mask  # (n, m)
    sliding: Mask  # (n, m)

    def after(self, motion: _Motion, span: float) -> _Phase:
        """Return the state `span` later (inf: the limit), with the pattern of this phase."""
        left = np.exp(-motion.decay * span)
        run = -np.expm1(-motion.decay * span) / motion.decay
        moving = self.active.any(axis=1)
        return _Phase(
            self.time + span,
            self.alpha + (motion.alpha @ run).T,
            self.beta + (motion.beta @ run).T,
            np.where(moving, motion.residual @ left, self.residual),
            self.active,
            self.sliding,
        )


class _Run(NamedTuple):
    limit: _Phase
    phases: tuple[_Phase, ...]
    events: tuple[Event, ...]
    status: str


def _run(problem: Problem, start: Array) -> _Run:
    most = _EVENTS * problem.n * problem.m
    follow = _compiled_phases if _compiled.takes(problem.n) else _phases
    phases = follow(problem, start, most)
    events, limit = _changes(phases), phases[-1]
    if np.isinf(limit.time):
        return _Run(limit, phases[:-1], events, "certified")
    warnings.warn(
        f"gradient flow gave up after {len(events)} events at time {limit.time:.6g}: the result "
        "is the state at that time, not the limit; compare gradient_descent with a small step",
        RuntimeWarning,
        stacklevel=3,
    )
    return _Run(limit, phases, events, "max_events")


def _phases(problem: Problem, start: Array, most: int) -> tuple[_Phase, ...]:
    """Return the phases and, at time inf, the limit; without it if there are more than `most`."""
    active = start > 0
    residual = np.maximum(start, 0.0) @ problem.signs - problem.labels
    phase = _Phase(0.0, problem.dual(start), start, residual, active, np.zeros_like(active))
    phases = [phase]
    while len(phases) <= most and phase.time < np.inf:
        motion = _motion(problem, phase)
        span, arrived = _first_hits(problem, phase, motion)
        phase = phase.after(motion, span)
        if span < np.inf:
            phase = _turn(problem, phase, arrived)
        phases.append(phase)
    return tuple(phases)


def _compiled_phases(problem: Problem, start: Array, most: int) -> tuple[_Phase, ...]:
    """Do what `_phases` does, by a kernel."""
    from ibrelu import _compiled_flow

    follow = _compiled.compiled(_compiled_flow.run, "f2 f1 f1 f2 f2 i1")
    alpha, beta = np.ascontiguousarray(problem.dual(start).T), np.ascontiguousarray(start.T)
    given = problem.gram, problem.labels, problem.signs, alpha, beta, np.array([most])
    times, states, values = (np.array(array) for array in follow(*given))
    alpha, beta, residual = values[:, : problem.m], values[:, problem.m : -1], values[:, -1]
    active, sliding = states == _compiled_flow.ACTIVE, states == _compiled_flow.SLIDING
    alpha, beta, active, sliding = (a.swapaxes(1, 2) for a in (alpha, beta, active, sliding))
    columns = times.tolist(), alpha, beta, residual, active, sliding
    return tuple(_Phase(*row) for row in zip(*columns, strict=True))


def _motion(problem: Problem, phase: _Phase) -> _Motion:
    gram, signs, n = problem.gram, problem.signs, problem.n
    moving = np.flatnonzero(phase.active.any(axis=1))
    system = np.zeros((n, n))
    responses = []
    for k in range(problem.m):
        on, held = np.flatnonzero(phase.active[:, k]), np.flatnonzero(phase.sliding[:, k])
        pull: Array = gram[:, on]
        answer: Array = np.zeros((0, len(on)))
        if held.size:
            # Sliding duals answer the active ones' motion so that their own primal stays at 0.
            columns = gram[:, held]
            answer = np.asarray(np.linalg.solve(columns[held], pull[held]))
            pull = pull - columns @ answer
            pull[held] = 0.0
        system[on[:, None], on] += pull[on]
        responses.append((on, held, answer, pull))
    decay, vectors = np.linalg.eigh(system[moving[:, None], moving])
    residual = np.zeros((n, len(decay)))
    residual[moving] = vectors * (phase.residual[moving] @ vectors)
    alpha, beta = np.zeros((2, problem.m, n, len(decay)))
    for k, (on, held, answer, pull) in enumerate(responses):
        drive = -signs[k] * residual[on]
        alpha[k, on] = drive
        alpha[k, held] = -answer @ drive
        beta[k] = pull @ drive
    return _Motion(decay, residual, alpha, beta)


def _first_hits(problem: Problem, phase: _Phase, motion: _Motion) -> tuple[float, Mask]:
    """Time to the first event (inf: none), and the pairs whose primals then meet 0.

    An event is that, or that a sliding pair's rate meets 0 or its drive.
    """
    active, sliding = phase.active.T, phase.sliding.T
    away = np.where(active, 1.0, -1.0)[~sliding]  # so that each watched quantity starts positive
    free, held = np.nonzero(~sliding), np.nonzero(sliding)
    drive = -problem.signs[held[0], None] * motion.residual[held[1]]
    fixed = ~phase.active.any(axis=1)
    resting_drive = np.where(fixed, phase.residual, 0.0)[held[1]] * -problem.signs[held[0]]
    rate = motion.alpha[held]
    coefficients = np.concatenate(
        [-away[:, None] * motion.beta[free] / motion.decay, -rate, rate - drive]
    )
    value = np.concatenate(
        [
            away * phase.beta.T[free],
            -rate.sum(axis=1),
            (rate - drive).sum(axis=1) - resting_drive,
        ]
    )
    nothing = np.zeros(len(held[0]))
    limit = np.concatenate(
        [value[: len(away)] - coefficients[: len(away)].sum(axis=1), nothing, -resting_drive]
    )
    # What a quantity is summed from sets its rounding, however much of it cancels.
    length = np.sqrt(problem.gram.diagonal())
    reach = np.sqrt(active @ length**2)
    modes = np.linalg.norm(motion.residual, axis=0)
    primal_size = np.linalg.norm(modes / motion.decay) * np.multiply.outer(reach, length)[free]
    rate_size = np.linalg.norm(modes) * np.multiply.outer(reach, 1.0 / length)[held]
    size = np.concatenate([primal_size, rate_size, rate_size])
    size = np.maximum(size, np.abs(coefficients).sum(axis=1) + np.abs(value))
    roots = _first_roots(motion.decay, coefficients, value, limit, size)
    first = roots.min(initial=np.inf)
    arrived = np.zeros_like(phase.active)
    arrived.T[free] = (roots[: len(away)] <= first * (1 + _TIE)) & np.isfinite(first)
    return float(first), arrived


def _first_roots(
    decay: Array, coefficients: Array, value: Array, limit: Array, size: Array
) -> Array:
    r"""First root in t ≥ 0 of each :math:`\phi(t) = \phi_\infty + \sum_j a_j e^{-\lambda_j t}`.

    Each starts at `value` ≥ 0 and tends to `limit`; its rounding is relative to `size`. Roots later
    than the first of all are not worked out: inf, as for a sum with none.

    As :math:`\phi'' \ge -N`, :math:`N = \sum_{a_j < 0} |a_j| \lambda_j^2 e^{-\lambda_j t}`, from t
    on, there is no root before that of the parabola :math:`\phi + \phi' \tau - N \tau^2 / 2`: going
    there is safe, and near a root it converges as Newton's method does. There is no root from t on
    if the partial sums of the terms at t, slowest first, have one sign (Laguerre's rule of signs).
    """
    roots = np.full(len(value), np.inf)
    rows, time = np.arange(len(value)), np.zeros(len(value))
    first, still = np.inf, _REST * size * decay.max(initial=0.0)
    while rows.size:
        gone = np.expm1(-np.multiply.outer(time, decay))
        terms = coefficients[rows] * (1.0 + gone)
        now = value[rows] + (coefficients[rows] * gone).sum(axis=1)
        sums = limit[rows, None] + np.cumsum(terms, axis=1)
        lowest = np.minimum(sums.min(axis=1, initial=np.inf), limit[rows])
        now, slope = np.maximum(now, 0.0), -terms @ decay
        bend = -np.minimum(terms, 0.0) @ decay**2
        step = _safe_step(now, slope, bend)
        # A pair whose sliding rate has just met a bound starts with value 0 and slope 0.
        flat = (time == 0) & (now <= _NOISE * size[rows]) & (np.abs(slope) <= still[rows])
        if flat.any():
            curvature = np.maximum(terms[flat] @ decay**2, 0.0)
            step[flat] = _ratio(3.0 * curvature, np.maximum(terms[flat], 0.0) @ decay**3)
        found = (now <= _NOISE * size[rows]) & (slope < 0) & ~flat | (time + step <= time)
        found &= lowest < -_PROVEN * size[rows]
        roots[rows[found]] = (time + step)[found]
        first = roots.min()
        keep = ~found & (lowest < -_PROVEN * size[rows]) & (time + step <= first * (1 + _TIE))
        keep &= np.isfinite(step)
        rows, time = rows[keep], (time + step)[keep]
    return roots


def _safe_step(value: Array, slope: Array, bend: Array) -> Array:
    """First positive root of value + slope·τ - bend·τ²/2, value and bend ≥ 0; inf if none."""
    root = np.sqrt(slope**2 + 2.0 * bend * value)
    falling = slope < 0
    top = np.where(falling, 2.0 * value, slope + root)
    bottom = np.where(falling, root - slope, bend)
    return _ratio(top, bottom)


def _ratio(top: Array, bottom: Array) -> Array:
    """Quotient, inf where the denominator is 0."""
    return np.divide(top, bottom, out=np.full_like(top, np.inf), where=bottom > 0)


def _turn(problem: Problem, phase: _Phase, arrived: Mask) -> _Phase:
    """Return the phase that begins when the given pairs meet the kink or rates meet their bounds.

    Driven away from the kink, a pair crosses it. Driven towards it, it slides unless the others'
    motion carries it through; where its velocity is 0 its acceleration decides. A pair at rest
    there becomes inactive: descent comes to rest just below the kink, and stays there even if its
    drive turns round.
    """
    gram, signs = problem.gram, problem.signs
    drive = -np.multiply.outer(phase.residual, signs)
    moving = np.where(phase.active.any(axis=1), phase.residual, 0.0)
    crossing = arrived & (drive > 0)
    kink = phase.sliding | (arrived & ~crossing)
    active = (phase.active ^ crossing) & ~kink
    rate = np.where(active, drive, 0.0)
    low, high, sliding = kink.copy(), kink.copy(), kink.copy()
    for k in range(problem.m):
        kept = np.flatnonzero(kink[:, k])
        if kept.size == 0:
            continue
        lower, rest = drive[kept, k], _rest(problem, kept, active[:, k], moving)
        solution = _kink_rates(gram, kept, rate[:, k], lower, np.zeros(len(kept)), rest)
        rate[kept, k] = solution.rate
        low[kept, k], high[kept, k] = solution.low, solution.high
        sliding[kept, k] = ~(solution.leaves_low | solution.leaves_high)
        active[kept, k] = solution.leaves_low
    slope = np.where(active, gram @ rate, 0.0) @ signs
    drive = -np.multiply.outer(slope, signs)
    change = np.where(active, drive, 0.0)
    low, high = low & sliding, high & sliding
    for k in range(problem.m):
        if not (low | high)[:, k].any():
            continue
        kept = np.flatnonzero(sliding[:, k])
        upper = np.where(high[kept, k], 0.0, np.inf)
        lower = np.where(low[kept, k], np.minimum(drive[kept, k], upper), -np.inf)
        rest = _rest(problem, kept, active[:, k], slope)
        solution = _kink_rates(gram, kept, change[:, k], lower, upper, rest)
        back = solution.high
        sliding[kept, k] = ~(solution.low | back)
        active[kept, k] = solution.low & ~back
    residual = np.where(active.any(axis=1), phase.residual, -problem.labels)
    beta = np.where(kink | arrived, 0.0, phase.beta)
    return _Phase(phase.time, phase.alpha, beta, residual, active, sliding)


class _Kink(NamedTuple):
    rate: Array
    low: Mask  # the rate is at its lower bound
    high: Mask
    leaves_low: Mask  # and the primal moves off the kink, to the active side
    leaves_high: Mask


def _rest(problem: Problem, kept: Indices, on: Mask, drive: Array) -> Array:
    """Velocities on the kink that are 0 to rounding."""
    length = np.sqrt(problem.gram.diagonal())
    return np.asarray(_REST * np.linalg.norm(drive) * np.linalg.norm(length[on]) * length[kept])


def _kink_rates(
    gram: Array, kept: Indices, others: Array, lower: Array, upper: Array, rest: Array
) -> _Kink:
    r"""Rates of the pairs `kept` on the kink, given the `others`' (0 on the kept).

    They minimise :math:`\tfrac12 v^\top G v + p^\top v`, p the others' pull, between their bounds:
    with w = Gv + p the velocity of their primals, w = 0 between the bounds, w ≥ 0 at the lower (the
    pair goes to the active side), w ≤ 0 at the upper (to the inactive side). Principal pivoting
    from "all slide": blocks of pairs while that helps, then the first wrong pair alone, which
    cannot cycle.
    """
    rows = gram[kept]
    block, push = rows[:, kept], rows @ others
    tolerance = rest / block.diagonal()
    low, high = np.zeros((2, len(kept)), dtype=bool)
    fewest, patience = len(kept) + 1, 3
    while True:
        slide = ~(low | high)
        rate = np.where(low, lower, np.where(high, upper, 0.0))
        rate[slide] = np.linalg.solve(block[slide][:, slide], -(push + block @ rate)[slide])
        velocity = push + block @ rate
        to_low, to_high = slide & (rate < lower - tolerance), slide & (rate > upper + tolerance)
        to_slide = (low & (velocity < -rest)) | (high & (velocity > rest))
        wrong = np.flatnonzero(to_low | to_high | to_slide)
        if wrong.size == 0:
            break
        patience = 3 if wrong.size < fewest else patience - 1
        fewest = min(fewest, wrong.size)
        change = wrong if patience > 0 else wrong[:1]
        low[change], high[change] = to_low[change], to_high[change]
    low, high = rate <= lower + tolerance, rate >= upper - tolerance
    return _Kink(rate, low, high, low & (velocity > rest), high & (velocity < -rest))


def _changes(phases: tuple[_Phase, ...]) -> tuple[Event, ...]:
    active, sliding = np.array([(p.active, p.sliding) for p in phases]).swapaxes(0, 1)
    changed = (active[1:] != active[:-1]) | (sliding[1:] != sliding[:-1])
    events = []
    for phase, i, k in np.argwhere(changed).tolist():
        if sliding[phase + 1, i, k]:
            kind = "slides"
        elif not active[phase + 1, i, k]:
            kind = "drops"
        else:
            kind = "wakes" if sliding[phase, i, k] else "rises"
        events.append(Event(phases[phase + 1].time, i, k, kind))
    return tuple(events)


def _each(problem: Problem) -> Iterator[Problem]:
    if not problem.batch_shape:
        yield problem
        return
    for index in np.ndindex(problem.batch_shape):
        yield problem[index]


def _checked_start(problem: Problem, start: ArrayLike) -> Array:
    beta = problem.start_array(start)
    if beta.shape[:-2] != problem.batch_shape:
        raise ValueError(
            f"start must have the problem's leading axes {problem.batch_shape}, got "
            f"{beta.shape[:-2]} in shape {beta.shape}"
        )
    if (beta == 0).any():
        where = tuple(int(i) for i in np.argwhere(beta == 0)[0])
        raise ValueError(
            "start must not be exactly 0, where the flow is not determined, got 0 at index "
            f"{where} (example, neuron last); start on one side of the kink"
        )
    if not (beta > 0).any(axis=(-2, -1)).all():
        raise ValueError(
            "start has no active example (no entry > 0), so nothing would ever move; make at "
            "least one entry positive, e.g. all_active(problem, 1e-3)"
        )
    return beta


def _is_global_minimum(problem: Problem, beta: Array) -> Mask:
    output = problem.predictions(beta)
    matched = (problem.labels[..., None] * problem.signs > 0).any(axis=-1)
    error = np.abs(output - np.where(matched, problem.labels, 0.0))
    return np.asarray((error <= 1e-9 * np.abs(problem.labels).max(axis=-1, keepdims=True)).all(-1))


def _residual(problem: Problem, alpha: Array, active: Mask, sliding: Mask) -> Array:
    beta = problem.primal(alpha)
    error = np.maximum(beta, 0.0) @ problem.signs - problem.labels
    worst = [
        np.abs(np.where(active.any(axis=-1), error, 0.0)),
        np.abs(np.where(sliding, beta, 0.0)).max(axis=-1),
        np.where(active | sliding, 0.0, np.maximum(beta, 0.0)).max(axis=-1),
    ]
    return np.asarray(np.max(worst, axis=(0, -1)) / np.abs(problem.labels).max(axis=-1))
