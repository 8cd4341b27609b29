r"""Gradient descent in primal–dual form, run to its limit and proven to have reached it.

One step of size :math:`\eta` on the weights is, in the span of the examples,

.. math:: \alpha_k \leftarrow \alpha_k - \eta s_k D_k r, \qquad \beta_k = G \alpha_k,

with :math:`r` the residual and :math:`D_k` the 0/1 diagonal of the examples active for neuron k.
While the pattern of active examples stands still, so do the :math:`D_k`, and the residual of the
examples that some neuron is active on obeys one linear recursion whatever the number of neurons:

.. math:: r(t + 1) = (I - \eta M)\, r(t), \qquad M = \sum_k D_k G D_k,

with M symmetric and positive definite there. With :math:`R(s) = M^{-1}(r(0) - r(s))` the dual
and primal variables after s steps are :math:`\alpha_k - s_k D_k R(s)` and
:math:`\beta_k - s_k G D_k R(s)`. Two consequences make a run short and its end certain:

* *Leaps.* In the eigenbasis of M every β is a sum of powers :math:`q_j^s`, :math:`q = 1 - \eta
  \Lambda`, so a block of future steps is one matrix product. Each of them is looked at: no step is
  skipped, so no brief change of pattern is missed.
* *Certificates.* If for every pair (i, k) the limit :math:`\beta_{k,i}(\infty)` lies further from
  zero, on the side it is on now, than β can ever be from its limit, the pattern is final and the
  limit is one linear solve. Two bounds are used on that distance: :math:`\sum_j |W_{ik,j}|\,
  |q_j|^s`, with W the coefficients in the eigenbasis; and, cheaper, :math:`\sqrt{G_{ii}\, r^\top
  M^{-1} r}` whenever :math:`\eta \lambda_{\max}(M) < 2` (Cauchy–Schwarz in the metric
  :math:`M^{-1}`, in which the residual cannot grow, and :math:`g_i^\top D_k M^{-1} D_k g_i \le
  G_{ii}`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibrelu import _compiled
from ibrelu._checks import Array, Mask, finite_array, whole_number
from ibrelu.problem import Problem, check_problem

Counts: TypeAlias = NDArray[np.int64]

_RUNNING, _CERTIFIED, _OUT_OF_STEPS, _DIVERGED = range(4)
_NAMES = np.array(["running", "certified", "max_steps", "diverged"])

# Plain steps between two looks at a run while its pattern changes: half as many at first, a quarter
# right after a leap. Compiled steps are so cheap that a slow run is looked at when it is quiet.
_BLOCK, _COMPILED_BLOCK = 16, 2**14
_LEAP = 64  # steps of a first leap; each next one is twice as long
_LONGEST_LEAP = 512
_LARGEST_STEP = 1e250  # times a squared length, far below where floats end
_GROWTH = 1e12  # a loss this many times the start's is never coming back
_NEARLY_ZERO = 1e-16  # a loss this many times the start's may be rounding only
_BYTES = 2**28  # working memory of the part of a batch that runs at a time


@dataclass(frozen=True, eq=False)
class History:
    """Exact states of a run at some of its steps.

    Attributes
    ----------
    step : integer array, shape (T,)
        0 is the start.
    alpha : array, shape (T, ..., n, m)
        Dual variables.
    beta : array, shape (T, ..., n, m)
        Primal variables.
    loss : array, shape (T, ...)
    """

    step: Counts
    alpha: Array
    beta: Array
    loss: Array


@dataclass(frozen=True, eq=False)
class Descent:
    r"""Where gradient descent went, and whether that is proven.

    Attributes
    ----------
    alpha : array, shape (..., n, m)
        Dual variables: of the limit itself if `status` is "certified", else of the last step.
    beta : array, shape (..., n, m)
        Primal variables of the same.
    active : bool array, shape (..., n, m)
        Where beta > 0.
    loss : array, shape (...)
        :math:`\tfrac12 \|r\|^2` there.
    steps : int, or integer array of shape (...)
        Steps taken until the certificate (or the end).
    settled : int, or integer array of shape (...)
        Last step that changed the pattern; 0 if none did.
    status : str, or array of str of shape (...)
        "certified": the pattern is proven final and the limit solved exactly (save for pairs (i, k)
        that flip ever more weakly at their kink while other neurons fit example i: such a run ends
        once the residual is below rounding). "max_steps": the steps ran out. "diverged": the step
        is larger than `Problem.largest_safe_step`, the loss rose above that of the start and of
        output zero, and the run grew without bound (the last state before that is kept) or ended
        elsewhere than at a global minimum.
    global_minimum : bool, or array of bool of shape (...)
        Whether the certified limit is a global minimum of the loss.
    history : History or None
    """

    alpha: Array
    beta: Array
    active: Mask
    loss: Array
    steps: Any
    settled: Any
    status: Any
    global_minimum: Any
    history: History | None


def gradient_descent(
    problem: Problem,
    start: ArrayLike,
    step: ArrayLike,
    *,
    max_steps: int = 100_000,
    record: bool | Sequence[int] | Counts | None = None,
) -> Descent:
    r"""Run full-batch gradient descent with a constant step to its certified limit.

    Equal, step for step, to descent on the weights :math:`w_k \leftarrow w_k - \eta\, s_k \sum_i
    r_i\, \mathbf 1[w_k \cdot x_i > 0]\, x_i`.

    Parameters
    ----------
    problem : Problem
        One problem or a batch.
    start : array, shape (..., n, m)
        Primal variables :math:`\beta_0`; at least one example of each problem must be active.
    step : float or array, shape (...)
        The step :math:`\eta > 0`; `Problem.step` gives :math:`c / \|\lambda\|_1`.
    max_steps : int
        Steps after which an uncertified run ends.
    record : True or increasing sequence of steps, optional
        Which states to keep as `history`: every one until the end, or those of the given steps.
        Steps beyond the certificate are exact too; a run that ended without one keeps its last
        state from there on.

    Returns
    -------
    Descent

    Raises
    ------
    TypeError
        If an argument is not numeric.
    ValueError
        If shapes do not match, a number is NaN, infinite or not positive, or no example is active
        at the start.

    Warns
    -----
    UserWarning
        If a run diverged (names the largest step that is safe whatever the pattern) or ran out of
        steps.

    References
    ----------
    :cite:`LWTM26`, the primal–dual recursion of Section 3. The certificates are ours.

    Examples
    --------
    One neuron fits the positive example; the negative one is pushed below zero and frozen there.

    >>> problem = Problem(np.diag([4.0, 4.0]), [1.0, -1.0])
    >>> run = gradient_descent(problem, [[0.1], [0.1]], problem.step(0.5))
    >>> print(run.status, run.settled, run.beta.ravel())
    certified 1 [ 1.   -0.45]
    """
    check_problem(problem)
    beta0 = _checked_start(problem, start)
    eta = _checked_step(problem, step)
    limit = whole_number("max_steps", max_steps)
    wanted = _checked_record(record)
    n, m, batch = problem.n, problem.m, problem.batch_shape

    flat = (
        problem.gram.reshape(-1, n, n),
        problem.labels.reshape(-1, n),
        np.ascontiguousarray(eta).reshape(-1),
        beta0.reshape(-1, n, m),
    )
    rows = max(1, _BYTES // (8 * n * ((4 + m) * n + 2 * m * _LONGEST_LEAP)))
    parts = [
        _run(problem.signs, limit, *(array[first : first + rows] for array in flat))
        for first in range(0, max(1, len(flat[0])), rows)
    ]
    end = _joined(parts)

    alpha0 = problem.dual(beta0)
    alpha = alpha0 + end.moved.reshape(beta0.shape)
    beta = end.beta.reshape(beta0.shape)
    active = beta > 0
    fitted = np.asarray((active.any(axis=-1) | ~_fittable(problem)).all(axis=-1))
    code = _judged(problem, end.status.reshape(batch), end.risen.reshape(batch), fitted, eta)
    _warn(problem, code, limit)
    history = None
    if wanted is not False:
        history = _history(problem, flat, end, alpha0, wanted)
    return Descent(
        alpha=alpha,
        beta=beta,
        active=active,
        loss=problem.loss(beta)[()],
        steps=end.count.reshape(batch)[()],
        settled=end.settled.reshape(batch)[()],
        status=_NAMES[code],
        global_minimum=((code == _CERTIFIED) & fitted)[()],
        history=history,
    )


@dataclass
class _Runs:
    """Runs of a batch, one a row of every array; `moved` is α minus its start."""

    index: Counts
    gram: Array
    labels: Array
    step: Array
    start: Array
    moved: Array
    beta: Array
    count: Counts
    settled: Counts
    yardstick: Array  # squared residual of the start or of output zero, whichever is larger
    risen: Mask  # the squared residual was above it at some step
    settling: Mask  # the residual of the examples in use is nearly zero
    block: Counts  # plain steps to take at a time, as a rule
    pace: Counts  # and next
    status: NDArray[np.int8]

    def take(self, rows: Any) -> _Runs:
        """Return the runs of some rows."""
        return _Runs(*(array[rows] for array in vars(self).values()))

    def put(self, rows: Any, other: _Runs) -> None:
        """Overwrite what a run changes, in some rows."""
        for name in ("moved", "beta", "count", "settled", "status", "pace"):
            getattr(self, name)[rows] = getattr(other, name)


def _joined(parts: list[_Runs]) -> _Runs:
    """Put runs into one batch, part after part."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return _Runs(*(np.concatenate(arrays) for arrays in columns))


def _run(
    signs: Array, max_steps: int, gram: Array, labels: Array, step: Array, start: Array
) -> _Runs:
    """Run every problem of a batch to its end."""
    size, n = labels.shape
    first = np.maximum(start, 0.0) @ signs - labels
    # Where n steps shrink the residual by e^-5 it is soon small enough for the cheap certificate;
    # elsewhere an eigendecomposition, worth about n steps, pays at once.
    swift = step * np.einsum("bii->b", gram) > 5.0
    block = np.where(swift | (not _compiled.takes(n)), _BLOCK, _COMPILED_BLOCK)
    runs = _Runs(
        index=np.arange(size),
        gram=gram,
        labels=labels,
        step=step,
        start=start,
        moved=np.zeros_like(start),
        beta=start,
        count=np.zeros(size, dtype=np.int64),
        settled=np.zeros(size, dtype=np.int64),
        yardstick=np.maximum(np.square(first).sum(axis=-1), np.square(labels).sum(axis=-1)),
        risen=np.zeros(size, dtype=bool),
        settling=np.zeros(size, dtype=bool),
        block=block,
        pace=block // 2,
        status=np.full(size, _RUNNING, dtype=np.int8),
    )
    if not size:
        return runs
    modes = _Modes(size, n, len(signs))
    ended = []
    while True:
        calm = np.minimum(runs.pace // 2, _compiled.QUIET)
        _plain_block(runs, signs, max_steps)
        quiet = runs.count - runs.settled
        fast = swift[runs.index]
        hopeful = (fast & (quiet >= calm)) | runs.settling
        _on(runs, hopeful & (runs.status == _RUNNING), _certify, signs)
        ready = quiet >= np.where(fast, n, calm)
        _on(runs, ready & (runs.status == _RUNNING), _leap, signs, modes, max_steps)
        runs.status[(runs.status == _RUNNING) & (runs.count >= max_steps)] = _OUT_OF_STEPS
        going = runs.status == _RUNNING
        if not going.any():
            ended.append(runs)
            break
        if not going.all():
            ended.append(runs.take(~going))
            runs = runs.take(going)
    everything = _joined(ended)
    return everything if len(ended) == 1 else everything.take(np.argsort(everything.index))


def _on(runs: _Runs, chosen: Mask, work: Any, *rest: Any) -> None:
    """Do some work on the chosen runs, in place."""
    if chosen.all():
        work(runs, *rest)
    elif chosen.any():
        part = runs.take(chosen)
        work(part, *rest)
        runs.put(chosen, part)


def _plain_block(runs: _Runs, signs: Array, max_steps: int) -> None:
    """Take a block of plain steps; a run whose loss explodes in it keeps the state before it."""
    most, ceiling = np.minimum(max_steps - runs.count, runs.pace), _GROWTH * runs.yardstick
    steps: Any = _plain_steps
    if _compiled.takes(runs.gram.shape[-1]):
        steps = _compiled.compiled(_compiled.plain_steps, "f3 f2 f1 f1 f3 f3 i1 f1")
    moved, beta, taken, last, peak, left = steps(
        runs.gram, runs.labels, signs, runs.step, runs.start, runs.moved, most, ceiling
    )
    sane = (peak <= ceiling) & np.isfinite(beta).all(axis=(1, 2))
    if not sane.all():
        runs.status[~sane] = _DIVERGED
        moved[~sane], beta[~sane] = runs.moved[~sane], runs.beta[~sane]
        taken, last = taken * sane, last * sane
    runs.moved, runs.beta = moved, beta
    runs.settled = np.where(last > 0, runs.count + last, runs.settled)
    runs.count = runs.count + taken
    runs.risen = runs.risen | (peak > (1 + 1e-9) * runs.yardstick)
    runs.settling = left < _NEARLY_ZERO * runs.yardstick
    runs.pace = runs.block.copy()


def _plain_steps(
    gram: Array,
    labels: Array,
    signs: Array,
    step: Array,
    start: Array,
    moved: Array,
    most: Counts,
    ceiling: Array,
) -> tuple[Array, Array, Counts, Counts, Array, Array]:
    """Take `most` plain steps of each run.

    Returns
    -------
    moved, beta : array, shape (B, n, m)
    taken, last : integer array, shape (B,)
        Steps taken, and the last of them that changed the pattern.
    peak, left : array, shape (B,)
        Largest squared residual; at the last step, that of the examples in use.
    """
    order = np.arange(1, most.max() + 1)[:, None]
    scaled = (step * (order <= most))[..., None, None] * signs
    patterns = np.empty((len(order) + 1, *start.shape))
    residuals = np.empty((len(order), *labels.shape))
    beta = start + gram @ moved
    with np.errstate(over="ignore", invalid="ignore"):
        for active, residual, eta in zip(patterns, residuals, scaled, strict=False):
            output = np.maximum(beta, 0.0)
            np.sign(output, out=active)
            np.matmul(output, signs, out=residual)
            residual -= labels
            moved = moved - residual[..., None] * eta * active
            beta = start + gram @ moved
        peak = np.einsum("tbi,tbi->tb", residuals, residuals).max(axis=0)
    patterns[-1] = beta > 0.0
    changed = (patterns[1:] != patterns[:-1]).any(axis=(2, 3))
    last = (changed * order).max(axis=0)
    in_use = patterns[-2].max(axis=-1) * residuals[-1]
    return moved, beta, most, last, peak, np.einsum("bi,bi->b", in_use, in_use)


def _coupled(gram: Array, active: Array) -> Array:
    """M = Σ_k D_k G D_k: the matrix of the residual's recursion."""
    return np.asarray(gram * (active @ active.swapaxes(-1, -2)))


def _used_residual(runs: _Runs, signs: Array, used: Mask) -> Array:
    return np.where(used, np.maximum(runs.beta, 0.0) @ signs - runs.labels, 0.0)


def _certify(runs: _Runs, signs: Array) -> None:
    """Put runs at their limit where their pattern is proven final."""
    limits: Any = _limits
    if _compiled.takes(runs.gram.shape[-1]):
        limits = _compiled.compiled(_compiled.limits, "f3 f2 f1 f1 f3 f3 b1")
    given = runs.gram, runs.labels, signs, runs.step, runs.moved, runs.beta, runs.settling
    runs.moved, runs.beta, final = limits(*given)
    runs.status[final] = _CERTIFIED


def _limits(
    gram: Array,
    labels: Array,
    signs: Array,
    step: Array,
    moved: Array,
    beta: Array,
    settling: Mask,
) -> tuple[Array, Array, Mask]:
    """Return runs at their limit where the bound √(G_ii rᵀM⁻¹r) proves the pattern final.

    With several neurons a pair (i, k) can flip for ever and ever more weakly at its kink while the
    other neurons fit example i. Once all residuals in use are rounding, such pairs count as proven.

    Returns
    -------
    moved, beta : array, shape (B, n, m)
    final : bool array, shape (B,)
    """
    active = beta > 0.0
    used = np.asarray(active.any(axis=-1))
    rows = np.flatnonzero(used.any(axis=0))
    pattern = active[:, rows].astype(float)
    coupled = _coupled(gram[:, rows[:, None], rows], pattern)
    contracts = _contracts(coupled, step)
    diagonal = np.arange(len(rows))
    coupled[:, diagonal, diagonal] += ~used[:, rows]
    residual = np.where(used, np.maximum(beta, 0.0) @ signs - labels, 0.0)
    total = np.linalg.solve(coupled, residual[:, rows, None])
    shift = np.zeros_like(moved)
    shift[:, rows] = -pattern * signs * total
    limit = beta + gram @ shift

    lengths = np.sqrt(np.einsum("bii->bi", gram))
    energy = np.einsum("bi,bij->b", residual[:, rows], total)
    spread = (lengths * np.sqrt(np.maximum(energy, 0.0))[:, None] * (1 + 1e-9))[..., None]
    proven = np.where(active, limit > spread, limit <= -spread)
    if settling.any():
        # What rounding leaves of a residual: in β = β₀ + G (α − α₀), and where a step of size η|r|
        # no longer changes α.
        size = np.abs(moved).max(axis=-1)
        sums = np.abs(labels) + lengths * (lengths * size).sum(axis=-1, keepdims=True)
        noise = _compiled.ROUNDING * (sums + size.max(axis=-1, keepdims=True) / step[:, None])
        silent = (np.abs(residual) <= noise).all(axis=-1, keepdims=True) & used
        flickers = silent[..., None] & (np.abs(limit) <= noise[..., None] + 2 * spread)
        proven |= flickers
        contracts |= flickers.any(axis=(1, 2))  # M changes with them; only the state counts
    final = contracts & proven.all(axis=(1, 2))
    chosen = final[:, None, None]
    return moved + chosen * shift, np.where(chosen, limit, beta), final


def _contracts(coupled: Array, step: Array) -> Mask:
    """Whether η λ_max(M) < 2, from row sums; where they are too coarse, from a factorisation."""
    contracts = step * np.abs(coupled).sum(axis=-1).max(axis=-1, initial=0.0) < 2.0
    for row in np.flatnonzero(~contracts):
        try:
            np.linalg.cholesky(2.0 / step[row] * np.eye(coupled.shape[-1]) - coupled[row])
            contracts[row] = True
        except np.linalg.LinAlgError:
            pass
    return np.asarray(contracts)


class _Modes:
    """Eigenbasis of the coupled system of each run, kept while its pattern recurs."""

    def __init__(self, size: int, n: int, m: int) -> None:
        self.known = np.full((size, n, m), -1, dtype=np.int8)
        self.rates = np.empty((size, n))
        self.basis = np.empty((size, n, n))
        self.reach = np.empty((size, m, n, n))
        self.powers = np.empty((size, n, _LEAP))

    def of(self, runs: _Runs, signs: Array) -> tuple[Array, Array, Array, Array]:
        """Eigenvalues of ηM, eigenvectors U, s_k G D_k U, and q^s for s = 1, …, `_LEAP`."""
        active = runs.beta > 0.0
        index = runs.index
        stale = (active != self.known[index]).any(axis=(1, 2))
        if stale.any():
            new = index[stale]
            self.known[new] = active[stale]
            gram, pattern = runs.gram[stale], active[stale].astype(float)
            rates, basis = _eigen(gram, pattern, runs.step[stale])
            masked = (pattern * signs).swapaxes(-1, -2)[..., None] * basis[:, None]
            self.rates[new], self.basis[new], self.reach[new] = rates, basis, gram[:, None] @ masked
            ratio = np.clip(1.0 - rates, -1.0, 1.0)  # beyond: no leap is taken
            self.powers[new] = np.repeat(ratio[..., None], _LEAP, axis=-1).cumprod(axis=-1)
        rows = slice(None) if len(index) == len(self.known) else index
        return self.rates[rows], self.basis[rows], self.reach[rows], self.powers[rows]


def _eigen(gram: Array, pattern: Array, step: Array) -> tuple[Array, Array]:
    """Eigendecomposition of ηM; examples no neuron is active on get the eigenvalue 1 (q = 0)."""
    coupled = step[:, None, None] * _coupled(gram, pattern)
    diagonal = np.arange(coupled.shape[-1])
    coupled[:, diagonal, diagonal] += ~pattern.any(axis=-1)
    rates, basis = np.linalg.eigh(coupled)
    return rates, basis


def _leap(runs: _Runs, signs: Array, modes: _Modes, max_steps: int) -> None:
    """Go on in the eigenbasis until a change of pattern, a certificate, or the last step."""
    active = runs.beta > 0.0
    size, n, m = active.shape
    rates, basis, reach, powers = modes.of(runs, signs)
    residual = _used_residual(runs, signs, np.asarray(active.any(axis=-1)))
    weight = (residual[:, None, :] @ basis)[:, 0]
    amplitude = runs.step[:, None] * weight / rates  # coefficients of R(∞) in the eigenbasis
    shrinks = ((rates < 2.0) | (weight == 0.0)).all(axis=-1)

    # One row a pair (k, i): β(s) = limit + coefficients @ q^s.
    coefficients = (reach * amplitude[:, None, None, :]).reshape(size, m * n, n)
    limit = runs.beta.swapaxes(-1, -2).reshape(size, m * n) - coefficients.sum(axis=-1)
    side = active.swapaxes(-1, -2).reshape(size, m * n)
    budget = max_steps - runs.count
    leapt = np.zeros(size, dtype=np.int64)
    left = np.ones((size, n))  # q^leapt
    certified = np.zeros(size, dtype=bool)
    going = np.arange(size)
    on = shrinks & (budget > 0)
    while on.any():
        if not on.all():
            going, powers, coefficients = going[on], powers[on], coefficients[on]
            limit, side = limit[on], side[on]
        # Pairs already proven to stay on their side need no more looking at.
        spread = (1 + 1e-9) * np.abs(coefficients).sum(axis=-1)
        proven = np.where(side, limit > spread, limit <= -spread)
        done = proven.all(axis=-1)
        certified[going[done]] = True
        doubtful = ~proven.all(axis=0)
        coefficients, limit, side = coefficients[:, doubtful], limit[:, doubtful], side[:, doubtful]

        ahead = coefficients @ powers
        ahead += limit[..., None]
        flips = ((ahead > 0.0) != side[..., None]).any(axis=1)
        length = powers.shape[-1]
        first = np.where(flips.any(axis=-1), flips.argmax(axis=-1) + 1, length)
        taken = np.minimum(first, budget[going] - leapt[going])
        taken[done] = 0
        factor = np.where(done[:, None], 1.0, powers[np.arange(len(going)), :, taken - 1])
        left[going] *= factor
        leapt[going] += taken
        coefficients = coefficients * factor[:, None, :]
        on = ~done & ~flips.any(axis=-1) & (leapt[going] < budget[going])
        if length < _LONGEST_LEAP and on.any():
            powers = np.concatenate([powers, powers * powers[..., -1:]], axis=-1)

    left[certified] = 0.0
    total = basis @ ((1.0 - left) * amplitude)[..., None]
    runs.moved = runs.moved - active * signs * total
    runs.beta = runs.start + runs.gram @ runs.moved
    runs.count = runs.count + leapt
    changed = ((runs.beta > 0.0) != active).any(axis=(1, 2))
    runs.settled = np.where(changed & ~certified, runs.count, runs.settled)
    runs.status[certified] = _CERTIFIED
    runs.pace = np.where(shrinks, runs.block // 4, runs.pace)


def _judged(
    problem: Problem, code: NDArray[np.int8], risen: Mask, fitted: Mask, step: Array
) -> NDArray[np.int8]:
    """How each run ended; tells one that a too large step spoilt from one merely stuck or slow."""
    failed = risen & ~((code == _CERTIFIED) & fitted)
    if failed.any():
        code = np.where(failed & (step > problem.largest_safe_step), _DIVERGED, code)
    return code


def _warn(problem: Problem, code: NDArray[np.int8], max_steps: int) -> None:
    """Warn of runs that did not reach a limit."""
    diverged, ended = code == _DIVERGED, code == _OUT_OF_STEPS
    if diverged.any():
        safe = problem.largest_safe_step[diverged].min()
        warnings.warn(
            f"gradient descent diverged in {diverged.sum()} of {code.size} problem(s): the step is "
            f"too large; the largest step that is safe whatever the pattern is {safe:.6g}",
            stacklevel=3,
        )
    if ended.any():
        warnings.warn(
            f"gradient descent reached max_steps = {max_steps} without a certificate in "
            f"{ended.sum()} of {code.size} problem(s): the result is the last step, not the limit; "
            "raise max_steps or the step",
            stacklevel=3,
        )


def _fittable(problem: Problem) -> Mask:
    """Examples whose label has the sign of some neuron, shape (..., n)."""
    return np.asarray((problem.labels[..., None] * problem.signs > 0).any(axis=-1))


def _history(
    problem: Problem, flat: tuple[Array, ...], end: _Runs, alpha0: Array, wanted: Counts | bool
) -> History:
    """States at the wanted steps: plain steps to the last change of pattern, then in closed form.

    A run that ended without a certificate stays where it ended.
    """
    gram, labels, step, start = flat
    signs = problem.signs
    certified = end.status == _CERTIFIED
    every = np.arange(end.count.max(initial=0) + 1)
    steps = wanted if isinstance(wanted, np.ndarray) else every
    moved_at = np.empty((len(steps), *start.shape))
    settled = int(end.settled.max(initial=0))
    moved, beta = np.zeros_like(start), start
    row = 0
    for t in range(settled + 1):
        if row < len(steps) and steps[row] == t:
            moved_at[row] = moved
            row += 1
        if t < settled:
            moving = certified | (t < end.count)
            scaled = (moving * step)[:, None, None] * signs
            residual = np.maximum(beta, 0.0) @ signs - labels
            moved = moved - residual[..., None] * scaled * (beta > 0.0)
            beta = start + gram @ moved

    if row < len(steps):
        active = beta > 0
        rates, basis = _eigen(gram, active.astype(float), step)
        used = active.any(axis=-1)
        residual = np.where(used, np.maximum(beta, 0.0) @ signs - labels, 0.0)
        weight = (residual[:, None, :] @ basis)[:, 0]
        # A certified run has no growing part but rounding.
        gone = (weight == 0.0) | certified[:, None] & (rates >= 2.0)
        ratio = np.where(gone, 0.0, 1.0 - rates)
        ahead = np.where(certified, steps[row:, None], np.minimum(steps[row:, None], end.count))
        ahead = np.maximum(ahead - settled, 0)
        decayed = (1.0 - ratio ** ahead[..., None]) * weight * step[:, None] / rates
        total = basis @ decayed[..., None]
        moved_at[row:] = moved - active * signs * total
    shape = (len(steps), *alpha0.shape)
    beta_at = (start + gram @ moved_at).reshape(shape)
    return History(
        step=steps,
        alpha=alpha0 + moved_at.reshape(shape),
        beta=beta_at,
        loss=problem.loss(beta_at),
    )


def _checked_start(problem: Problem, start: ArrayLike) -> Array:
    beta = problem.start_array(start)
    expected = (*problem.batch_shape, problem.n, problem.m)
    if beta.shape != expected:
        raise ValueError(f"start must have shape {expected} to match the problem, got {beta.shape}")
    silent = ~(beta > 0).any(axis=(-2, -1))
    if silent.any():
        index = tuple(int(i) for i in np.argwhere(silent)[0])
        where = f" in problem {index}" if index else ""
        raise ValueError(
            f"start has no active example{where}: every primal variable is ≤ 0, so the gradient is "
            "zero and nothing moves; make some entries positive"
        )
    return beta


def _checked_step(problem: Problem, step: ArrayLike) -> Array:
    if np.asarray(step).dtype == np.bool_:
        raise TypeError(f"step must be a positive number, got {step!r}")
    eta = finite_array("step", step)
    if eta.shape not in ((), problem.batch_shape):
        raise ValueError(
            f"step must be one number or have the batch's shape {problem.batch_shape}, got shape "
            f"{eta.shape}"
        )
    if not (eta > 0).all():
        raise ValueError(f"step must be a positive number, got {eta.min()}")
    if (eta / _LARGEST_STEP > 1.0 / problem.scale).any():
        raise ValueError(
            f"step must be at most {_LARGEST_STEP:g} over the mean squared length of an example, "
            f"got {eta.max():.4g}; problem.step(c) gives c over that length"
        )
    return eta + np.zeros(problem.batch_shape)


def _checked_record(record: bool | Sequence[int] | Counts | None) -> Counts | bool:
    """Return the steps to record: True for every one, False for none."""
    if record is None or isinstance(record, bool):
        return bool(record)
    steps = np.asarray(record)
    if steps.dtype.kind not in "iu" or steps.ndim != 1:
        raise TypeError(
            f"record must be True or a one-dimensional sequence of whole steps, got {record!r}"
        )
    if (steps < 0).any() or (np.diff(steps) <= 0).any():
        raise ValueError("record must be strictly increasing steps from 0 on; sort them")
    return steps.astype(np.int64)
