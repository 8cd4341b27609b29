r"""What the theorems predict: conditions, limits, gaps, and the two lemmas step by step.

Every constant here is ours: a deterministic version of a statement of :cite:`LWTM26`, computed
from the Gram matrix, and so testable. Throughout, :math:`g` and :math:`\bar g` are the smallest
and the largest diagonal entry of the Gram matrix :math:`G`, :math:`R_i = \sum_{j \ne i} |G_{ij}|`,
:math:`R = \max_i R_i` and :math:`\kappa = R / g`. An example *matches* neuron :math:`k` if
:math:`s_k y_i > 0`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibrelu._checks import (
    Array,
    Mask,
    finite_array,
    positive_number,
    whole_number,
)
from ibrelu.problem import Problem, check_problem

Scalar = TypeVar("Scalar", bound=np.generic)


class HasAlpha(Protocol):
    """A result that carries dual variables, e.g. of descent, flow or minimum norm."""

    @property
    def alpha(self) -> Array:
        """Dual variables, shape (..., n, m)."""


class HasBeta(Protocol):
    """A result that carries primal variables, e.g. the history of a descent."""

    @property
    def beta(self) -> Array:
        """Primal variables, shape (..., n, m)."""


@dataclass(frozen=True, eq=False)
class Coherence:
    r"""How far a Gram matrix is from a multiple of the identity.

    Attributes
    ----------
    smallest : array, shape (...)
        :math:`g`, the smallest squared length of an example.
    largest : array, shape (...)
        :math:`\bar g`, the largest.
    row_sums : array, shape (..., n)
        :math:`R_i`, off-diagonal absolute row sums.
    reach : array, shape (...)
        :math:`R`, the largest of them.
    kappa : array, shape (...)
        :math:`\kappa = R / g`; below 1 the matrix is diagonally dominant.
    scale : array, shape (...)
        Mean squared length, an estimate of :math:`\|\lambda\|_1`.
    concentration : array, shape (...)
        :math:`\max_{ij} |G_{ij} / \mathrm{scale} - I_{ij}|`.
    near_orthogonality : array, shape (...)
        :math:`\min_i \|x_i\|^2 / (n \max_{j \ne i} |x_i \cdot x_j|)`, infinite for orthogonal data
        (:cite:`KCG23` ask for more than a constant).
    """

    smallest: Array
    largest: Array
    row_sums: Array
    reach: Array
    kappa: Array
    scale: Array
    concentration: Array
    near_orthogonality: Array


def coherence(problem: Problem) -> Coherence:
    r"""Measure how nearly orthogonal the examples of a problem are.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    Coherence

    References
    ----------
    :cite:`LWTM26`, on the concentration of the Gram matrix; :cite:`KCG23`, on nearly orthogonal
    data.

    Examples
    --------
    >>> found = coherence(Problem([[4.0, 1.0], [1.0, 5.0]], [1.0, -1.0]))
    >>> float(found.kappa)
    0.25
    """
    check_problem(problem)
    diagonal = np.diagonal(problem.gram, axis1=-2, axis2=-1)
    identity = np.eye(problem.n)
    off = np.abs(problem.gram) * (1.0 - identity)
    row_sums, largest_product = off.sum(axis=-1), off.max(axis=-1)
    smallest, reach = diagonal.min(axis=-1), row_sums.max(axis=-1)
    ratio = np.full(diagonal.shape, np.inf)
    np.divide(diagonal, problem.n * largest_product, out=ratio, where=largest_product > 0)
    deviation = problem.gram / problem.scale[..., None, None] - identity
    return Coherence(
        smallest=smallest,
        largest=diagonal.max(axis=-1),
        row_sums=row_sums,
        reach=reach,
        kappa=np.asarray(reach / smallest),
        scale=problem.scale,
        concentration=np.abs(deviation).max(axis=(-2, -1)),
        near_orthogonality=ratio.min(axis=-1),
    )


@dataclass(frozen=True, eq=False)
class Conditions:
    r"""The four sufficient conditions for the pattern to be final, each as a margin.

    A margin is the share of its budget that a condition leaves unused: at most 1, positive where
    the condition holds, NaN where the start is of none of the kinds that the theorems cover,
    infinite for a condition that the kind of start does not need.

    Attributes
    ----------
    stable_step : array, shape (...)
        (i) The step does not overshoot.
    matching_stay_active : array, shape (...)
        (ii) Lemma 5 holds for every matching example from the start on.
    others_turn_off : array, shape (...)
        (iii) The first step makes every other example inactive.
    others_stay_off : array, shape (...)
        (iv) Lemma 6 then freezes them for ever.
    covered : mask, shape (...)
        Whether the start is of a kind that a theorem covers.
    """

    stable_step: Array
    matching_stay_active: Array
    others_turn_off: Array
    others_stay_off: Array
    covered: Mask

    @property
    def margins(self) -> Array:
        """The four margins, in the order (i) to (iv), shape (..., 4)."""
        return np.stack(
            [
                self.stable_step,
                self.matching_stay_active,
                self.others_turn_off,
                self.others_stay_off,
            ],
            axis=-1,
        )

    @property
    def hold(self) -> Mask:
        """Whether all four hold, so that the theorem applies, shape (...)."""
        return np.asarray((self.margins > 0).all(axis=-1))


def conditions(problem: Problem, start: ArrayLike, step: ArrayLike) -> Conditions:
    r"""Check the a-priori conditions under which the activation pattern is known in advance.

    Write :math:`b = \max \beta_0`, :math:`\rho_0 = \max_i |f_0(x_i) - y_i|`,
    :math:`a_0 = b / (g - R)`. For **one neuron**, all examples active (Theorem 1):

    - \(i) :math:`\eta(\bar g + R) \le 1`,
    - \(ii) :math:`R\rho < g\,y_{\min}`,
    - \(iii) :math:`b + \eta R\rho_0 \le \eta g\,(y_{\min} - \epsilon)`,
    - \(iv) :math:`a_0 + \kappa B \le \eta\,(y_{\min} - \epsilon)` with
      :math:`B = a_0 + \eta\rho_0 + \rho/(g - R)`,

    with :math:`\epsilon = 0` and :math:`\rho = \rho_0`. For **two neurons of opposite signs**, all
    active (Theorem 3), :math:`\epsilon = b` and
    :math:`\rho = \max(\rho_0, \rho_0(1 - \eta(g - R)) + b)`. They imply that from the first step on
    each neuron is active exactly on its matching examples.

    Of these (i) and (iv) imply the other two: (iv) times g contains (iii), and gives
    :math:`R\rho \le \eta g (g - R) y_{\min}`, so (ii). All four are kept, each for the step of
    the proof that uses it. For two neurons they also imply that the decoupled pair of one-neuron
    solutions is the minimum-norm network.

    For **disjoint starts** of two or more neurons, in which each example is active for one neuron,
    of its label's sign: (i), (ii) with :math:`\rho = \rho_0`, and in place of (iv)
    :math:`a \ge \kappa \max(\bar a, a_{\text{own}} + \rho_0/(g - R))`, where the duals that start
    inactive lie between :math:`-\bar a` and :math:`-a` and the others within
    :math:`\pm a_{\text{own}}`; (iii) is not needed. They imply that the pattern never changes.

    Parameters
    ----------
    problem : Problem
    start : array, shape (..., n, m)
        Primal variables :math:`\beta_0`.
    step : float or array, shape (...)

    Returns
    -------
    Conditions
        With ``covered`` false, and nothing guaranteed, for any other start.

    Raises
    ------
    TypeError, ValueError
        If the start has another shape or is not finite, or a step is not positive.

    References
    ----------
    :cite:`LWTM26`, Theorems 1 and 3 and the appendix on more than two neurons; the deterministic
    conditions are ours.

    Examples
    --------
    >>> from ibrelu.problem import all_active
    >>> problem = Problem([[9.0, 0.1], [0.1, 9.0]], [1.0, -1.0])
    >>> found = conditions(problem, all_active(problem, 0.01), problem.step(0.5))
    >>> bool(found.hold)
    True
    >>> found.margins.round(3)
    array([0.494, 0.989, 0.969, 0.946])
    """
    beta, eta = _start_and_step(problem, start, step)
    together, apart = _kinds(problem, beta)
    sizes = _sizes(problem)
    smallest_label = np.abs(problem.labels).min(axis=-1)
    residual = np.abs(problem.predictions(beta) - problem.labels).max(axis=-1)
    top = beta.max(axis=(-2, -1))
    with np.errstate(over="ignore", invalid="ignore"):  # a margin may be minus infinity
        joint = _joint_margins(sizes, smallest_label, top, residual, eta, problem.m)
        disjoint = joint.copy()
        disjoint[..., 1] = _budget(sizes.reach * residual, sizes.smallest * smallest_label)
        disjoint[..., 2] = np.inf
        disjoint[..., 3] = _depth_margin(problem, sizes, beta, residual)
    margins = np.where(together[..., None], joint, np.where(apart[..., None], disjoint, np.nan))
    first, second, third, fourth = np.moveaxis(margins, -1, 0)
    return Conditions(first, second, third, fourth, covered=together | apart)


class _Sizes(NamedTuple):
    """Of a Gram matrix: extreme diagonal entries and the largest off-diagonal row sum."""

    smallest: Array
    largest: Array
    reach: Array

    @property
    def dominance(self) -> Array:
        """Lower bound g - R on the smallest eigenvalue, NaN where it is not positive."""
        difference = np.asarray(self.smallest - self.reach)
        return np.where(difference > 0, difference, np.nan)


def _sizes(problem: Problem) -> _Sizes:
    found = coherence(problem)
    return _Sizes(found.smallest, found.largest, found.reach)


def _budget(used: Array, allowed: Array) -> Array:
    """Share of an allowance that is left; minus infinity where it could not be computed."""
    share = np.asarray(1.0 - used / allowed)
    return np.where(np.isnan(share), -np.inf, share)


def _joint_margins(
    sizes: _Sizes, smallest_label: Array, top: Array, residual: Array, step: Array, neurons: int
) -> Array:
    """Margins (i) to (iv) of an all-active start with primal variables up to `top`."""
    spill = top * (neurons - 1)  # what the other neuron may subtract from an output
    dominance = sizes.dominance
    kappa = sizes.reach / sizes.smallest
    later = np.fmax(residual, residual * (1.0 - step * dominance) + spill)
    start_dual = top / dominance
    largest_dual = start_dual + step * residual + later / dominance
    pulled = top + step * (sizes.reach * residual + sizes.smallest * spill)
    margins = (
        _budget(step * (sizes.largest + sizes.reach), np.ones(())),
        _budget(sizes.reach * later, sizes.smallest * smallest_label),
        _budget(pulled, step * sizes.smallest * smallest_label),
        _budget(start_dual + kappa * largest_dual + step * spill, step * smallest_label),
    )
    return np.stack(np.broadcast_arrays(*margins), axis=-1)


def _depth_margin(problem: Problem, sizes: _Sizes, beta: Array, residual: Array) -> Array:
    """Margin of the depth at which a disjoint start freezes the examples a neuron does not own."""
    alpha, owned = problem.dual(beta), beta > 0
    shallow = np.where(owned, np.inf, -alpha).min(axis=(-2, -1))
    deep = np.where(owned, 0.0, np.abs(alpha)).max(axis=(-2, -1))
    own = np.where(owned, np.abs(alpha), 0.0).max(axis=(-2, -1))
    needed = sizes.reach / sizes.smallest * np.maximum(deep, own + residual / sizes.dominance)
    return np.where(shallow > 0, _budget(needed, np.where(shallow > 0, shallow, 1.0)), -np.inf)


def _kinds(problem: Problem, beta: Array) -> tuple[Mask, Mask]:
    """Which starts have every neuron active everywhere, and which one matching owner a row."""
    active = beta > 0
    opposed = problem.m == 1 or (problem.m == 2 and problem.signs.sum() == 0)
    together = active.all(axis=(-2, -1)) & opposed
    owners, matched = active.sum(axis=-1), (active & matching(problem)).sum(axis=-1)
    apart = ((owners == 1) & (matched == 1)).all(axis=-1) & (problem.m > 1)
    return np.asarray(together), np.asarray(apart)


def matching(problem: Problem) -> Mask:
    r"""Examples whose label has the neuron's sign, :math:`s_k y_i > 0`, shape (..., n, m)."""
    check_problem(problem)
    return np.asarray(problem.labels[..., None] * problem.signs > 0)


def predicted_limit(problem: Problem, start: ArrayLike, step: ArrayLike) -> Array:
    r"""Dual variables of the limit that Theorems 1 and 3 predict from the first step.

    After one step each neuron is active exactly on its matching examples (on those it owns, for a
    disjoint start), and from there it does linear regression on them: the limit is the point
    nearest to the weights :math:`w_1` after the first step that fits these examples. See
    `regression_limit`.

    Parameters
    ----------
    problem : Problem
    start : array, shape (..., n, m)
        Primal variables :math:`\beta_0`.
    step : float or array, shape (...)

    Returns
    -------
    array, shape (..., n, m)
        The limit of gradient descent where `conditions` hold; elsewhere a guess.

    References
    ----------
    :cite:`LWTM26`, Theorems 1 and 3.

    Examples
    --------
    One negative example, and one step from 0.1: :math:`\alpha = 0.1/4 - (0.1 + 1)/8`.

    >>> problem = Problem([[4.0]], [-1.0])
    >>> predicted_limit(problem, [[0.1]], 0.125)
    array([[-0.1125]])
    """
    beta, eta = _start_and_step(problem, start, step)
    with np.errstate(over="ignore"):
        moved = problem.dual(beta) + _dual_update(problem, beta, eta)
    if not np.isfinite(moved).all():
        raise ValueError(
            f"step is so large that the first step overflows, got {eta.max():.4g}; "
            "problem.step(0.5) is a usual choice"
        )
    return regression_limit(problem, moved, (beta > 0) & matching(problem))


def regression_limit(problem: Problem, alpha: ArrayLike, active: ArrayLike) -> Array:
    r"""Dual variables of the limit once the activation pattern is final.

    Inactive duals stay, :math:`\alpha_I(\infty) = \alpha_I`, and the active examples A are fitted:
    :math:`\alpha_A(\infty) = G_{AA}^{-1}(s_k y_A - G_{AI}\alpha_I)`, for each neuron apart.

    Parameters
    ----------
    problem : Problem
    alpha : array, shape (..., n, m)
        Dual variables at any time from which the pattern is final.
    active : mask, shape (..., n, m)
        The final pattern; each example active for at most one neuron.

    Returns
    -------
    array, shape (..., n, m)

    Raises
    ------
    ValueError
        If an example is active for several neurons, so that they do not decouple.

    References
    ----------
    :cite:`LWTM26`, Theorems 1 and 3.
    """
    duals, mask = _variables(problem, "alpha", alpha), np.asarray(active)
    if mask.dtype != np.bool_ or mask.shape[-2:] != (problem.n, problem.m):
        raise ValueError(
            f"active must be a mask of shape (..., {problem.n}, {problem.m}), got dtype "
            f"{mask.dtype} and shape {mask.shape}"
        )
    _check_batch(
        problem, "active", mask, np.broadcast_shapes(problem.batch_shape, duals.shape[:-2])
    )
    if (mask.sum(axis=-1) > 1).any():
        raise ValueError(
            "some example is active for several neurons, so they do not decouple into separate "
            "regressions; give a pattern with at most one active neuron an example"
        )
    rows, frozen = _by_neuron(mask), _by_neuron(np.where(mask, 0.0, duals))
    pull = (problem.gram[..., None, :, :] @ frozen[..., None])[..., 0]
    target = problem.labels[..., None, :] * problem.signs[:, None] - pull
    fitted = _solve_block(problem.gram, rows, np.where(rows, target, 0.0)[..., None])[..., 0]
    return _by_neuron(np.where(rows, fitted, frozen))


def _by_neuron(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Swap examples and neurons: shape (..., n, m) to (..., m, n) and back."""
    return array.swapaxes(-1, -2)


def _solve_block(gram: Array, rows: Mask, right: Array) -> Array:
    """Solve the principal block `rows` (..., m, n) of G; zero rows of `right` stay zero."""
    pair = rows[..., :, None] & rows[..., None, :]
    block = np.where(pair, gram[..., None, :, :], np.eye(gram.shape[-1]))
    return np.asarray(np.linalg.solve(block, right))


def _dual_update(problem: Problem, beta: Array, step: Array) -> Array:
    """Change of the dual variables in one gradient step."""
    residual = problem.predictions(beta) - problem.labels
    force = residual[..., None] * problem.signs * (beta > 0)
    return np.asarray(-step[..., None, None] * force)


def schur(problem: Problem) -> Array:
    r"""Schur complements that measure the gap (Theorems 2 and 4), one for each neuron.

    With K the matching examples of a neuron and U the others,
    :math:`S = G_{UU} - G_{UK} G_{KK}^{-1} G_{KU}`, with zeros in the rows and columns of K. Two
    points with the same outputs on K differ by :math:`\|w - w'\|^2 = \Delta^\top S \Delta`,
    :math:`\Delta = \alpha_U - \alpha'_U`: an identity.

    Returns
    -------
    array, shape (..., m, n, n)

    References
    ----------
    :cite:`LWTM26`, Theorems 2 and 4; the identity is ours.

    Examples
    --------
    >>> schur(Problem([[4.0, 2.0], [2.0, 5.0]], [1.0, -1.0]))[0]
    array([[0., 0.],
           [0., 4.]])
    """
    rows = _by_neuron(matching(problem))
    gram = np.broadcast_to(problem.gram[..., None, :, :], (*rows.shape, problem.n))
    kept = np.where(rows[..., :, None], gram, 0.0)
    complement = gram - kept.swapaxes(-1, -2) @ _solve_block(problem.gram, rows, kept)
    outside = ~rows[..., :, None] & ~rows[..., None, :]
    return np.where(outside, complement, 0.0)


def gap(
    problem: Problem, a: ArrayLike | HasAlpha, b: ArrayLike | HasAlpha, *, relative: bool = False
) -> Array:
    r"""Distance between two points in weight space, :math:`\|w_a - w_b\|` over all neurons.

    Computed from dual variables, :math:`\sum_k \Delta_k^\top G \Delta_k`: the part of the weights
    outside the span of the examples, which training never moves, is left out.

    Parameters
    ----------
    problem : Problem
    a, b : array, shape (..., n, m), or a result with ``alpha``
        Usually the limit of descent or flow, and the minimum-norm solution.
    relative : bool
        Divide by :math:`\|w_b\|`; infinite where that is zero.

    Returns
    -------
    array, shape (...)

    References
    ----------
    :cite:`LWTM26`, Theorems 2 and 4.

    Examples
    --------
    >>> problem = Problem([[4.0]], [-1.0])
    >>> float(gap(problem, [[-0.3]], [[0.0]]))
    0.6
    """
    first, second = _variables(problem, "alpha", a), _variables(problem, "alpha", b)
    _check_batch(problem, "b", second, np.broadcast_shapes(problem.batch_shape, first.shape[:-2]))
    distance = _length(problem, first - second)
    if not relative:
        return distance
    length = _length(problem, second)
    ratio = np.full(distance.shape, np.inf)
    np.divide(distance, length, out=ratio, where=np.broadcast_to(length > 0, ratio.shape))
    return ratio


def _length(problem: Problem, alpha: Array) -> Array:
    """Norm of the weights with duals `alpha`, over all neurons."""
    return _norm(problem.cholesky.swapaxes(-1, -2) @ alpha, (-2, -1))


def _norm(values: Array, axis: int | tuple[int, int]) -> Array:
    """Root of the sum of squares, in any unit."""
    _, power = np.frexp(np.abs(values).max(axis=axis, keepdims=True))
    # Near 1 no square overflows or vanishes; a power of two changes no digit.
    length = np.linalg.norm(np.ldexp(values, -power), axis=axis, keepdims=True)
    return np.asarray(np.ldexp(length, power).squeeze(axis=axis))


def _variables(problem: Problem, name: str, value: Any) -> Array:
    """Take the array named, from a result that carries it or as given; checked."""
    check_problem(problem)
    array = problem.neuron_array(name, getattr(value, name, value))
    _check_batch(problem, name, array)
    return array


def _start_and_step(problem: Problem, start: ArrayLike, step: ArrayLike) -> tuple[Array, Array]:
    return _variables(problem, "start", start), _steps(problem, step)


def _check_batch(
    problem: Problem, name: str, array: NDArray[Any], batch: tuple[int, ...] | None = None
) -> None:
    """Refuse leading axes that do not go with the problem's, or with those given."""
    wanted = problem.batch_shape if batch is None else batch
    try:
        np.broadcast_shapes(wanted, array.shape[:-2])
    except ValueError:
        raise ValueError(
            f"{name} must have the batch shape {wanted} before its axes (n, m) = "
            f"({problem.n}, {problem.m}), got shape {array.shape}"
        ) from None


def _steps(problem: Problem, step: ArrayLike) -> Array:
    """Step sizes, checked, of the problem's batch shape."""
    steps = finite_array("step", step)
    if (steps <= 0).any():
        raise ValueError(
            f"step must be positive, got {steps.min():.4g}; problem.step(0.5) is a usual choice"
        )
    try:
        return np.broadcast_to(steps, problem.batch_shape)
    except ValueError:
        raise ValueError(
            f"step must be one number or have the batch shape {problem.batch_shape}, got "
            f"{steps.shape}"
        ) from None


class Bounds(NamedTuple):
    """A lower and an upper bound, each of shape (...)."""

    lower: Array
    upper: Array


def gap_bounds(problem: Problem, start: ArrayLike, step: ArrayLike) -> Bounds:
    r"""Explicit bounds on the gap between descent and minimum norm, from G, y, b and η alone.

    For a neuron with matching examples K and others U, the dual error
    :math:`\Delta = \alpha_U(\infty) - \alpha^\star_U` obeys

    .. math::

        \eta(\|y_U\| - \epsilon\sqrt{|U|}) - a_0\sqrt{|U|} - \tau \le \|\Delta\|
        \le \eta(\|y_U\| + b\sqrt{|U|}) + a_0\sqrt{|U|} + \tau,

    with :math:`b = \max\beta_0`, :math:`a_0 = b/(g - R)`, :math:`\tau = R\|y_K\|/(g - R)^2`, and
    :math:`\epsilon = 0` for one neuron, :math:`b` for two of opposite signs. The gap lies between
    :math:`\sqrt{g - R}` times the lower and :math:`\sqrt{\bar g + R}` times the upper bounds, both
    neurons' added as squares. Under the `conditions` of two neurons the minimum-norm network is
    the decoupled pair, so the same holds.

    Parameters
    ----------
    problem : Problem
    start : array, shape (..., n, m)
        Primal variables, all active.
    step : float or array, shape (...)

    Returns
    -------
    Bounds
        ``lower, upper``; guaranteed where `conditions` hold. Without diagonal dominance they say
        nothing: zero and infinity.

    Raises
    ------
    ValueError
        If the start is not all active, or the neurons are neither one nor two of opposite signs.

    References
    ----------
    :cite:`LWTM26`, Theorems 2 and 4; the explicit bounds are ours.

    Examples
    --------
    >>> problem = Problem([[4.0]], [-1.0])
    >>> lower, upper = gap_bounds(problem, [[0.1]], 0.125)
    >>> float(lower.round(3)), float(upper.round(3))
    (0.2, 0.325)
    """
    beta, eta = _start_and_step(problem, start, step)
    if not _kinds(problem, beta)[0].all():
        raise ValueError(
            "the bounds are for one neuron, or two of opposite signs, with every example active "
            "at the start; make the start with all_active(problem, scale)"
        )
    sizes, top = _sizes(problem), beta.max(axis=(-2, -1))[..., None]
    dominance = sizes.dominance[..., None]
    spill = top * (problem.m - 1)
    kept, rest = matching(problem), ~matching(problem)
    labels = problem.labels[..., None]
    length = _norm(np.where(rest, labels, 0.0), -2)
    root = np.sqrt(rest.sum(axis=-2))
    selected = _norm(np.where(kept, labels, 0.0), -2)
    with np.errstate(over="ignore", invalid="ignore"):  # the upper bound may be infinity
        blur = top / dominance * root + sizes.reach[..., None] / dominance * (selected / dominance)
        least = eta[..., None] * (length - spill * root) - blur
        most = eta[..., None] * (length + top * root) + blur
        lower = _norm(np.fmax(least, 0.0), -1) * np.sqrt(sizes.dominance)
        upper = _norm(most, -1) * np.sqrt(sizes.largest + sizes.reach)
    lower = np.nan_to_num(lower, nan=0.0, posinf=np.inf)
    return Bounds(lower, np.nan_to_num(upper, nan=np.inf, posinf=np.inf))


def gap_constant(problem: Problem, c: float, *, relative: bool = False) -> Array:
    r"""Sharp constant of the gap at :math:`\eta = c/\|\lambda\|_1` in high dimension.

    One neuron: :math:`\|w(\infty) - w^\star\| \sqrt{\|\lambda\|_1/n_-} \to c\,\mathrm{rms}|y_N|`,
    with N the examples that do not match. Two neurons of opposite signs:
    :math:`\|w(\infty) - w^\star\| \sqrt{\|\lambda\|_1/n} \to c\,\mathrm{rms}|y|`. The start's size
    b is taken as negligible.

    Parameters
    ----------
    problem : Problem
        Only its labels and signs matter.
    c : float
        :math:`\eta\|\lambda\|_1`.
    relative : bool
        The limit of the relative gap instead: :math:`c\|y_N\|/\|y_P\|` for one neuron (infinite if
        no example matches), c for two.

    Returns
    -------
    array, shape (...)

    Raises
    ------
    ValueError
        If the neurons are neither one nor two of opposite signs.

    References
    ----------
    :cite:`LWTM26`, Theorems 2 and 4; the constants are ours.

    Examples
    --------
    >>> problem = Problem(np.eye(4), [1.0, -1.0, 1.0, -1.0])
    >>> float(gap_constant(problem, 0.5)), float(gap_constant(problem, 0.5, relative=True))
    (0.5, 0.5)
    """
    check_problem(problem)
    factor = positive_number("c", c)
    _, power = np.frexp(np.abs(problem.labels).max(axis=-1, keepdims=True))
    labels = np.ldexp(problem.labels, -power)  # near 1, so that squares are safe
    unit = 1.0 if relative else np.ldexp(1.0, power[..., 0])
    if problem.m == 2 and problem.signs.sum() == 0:
        constant = np.sqrt((labels**2).mean(axis=-1))
        return np.asarray(factor * (np.ones_like(constant) if relative else unit * constant))
    if problem.m != 1:
        raise ValueError(
            "the constant is known for one neuron and for two of opposite signs, got signs "
            f"{problem.signs.tolist()}"
        )
    kept = matching(problem)[..., 0]
    missed, fitted = (np.where(mask, labels**2, 0.0).sum(axis=-1) for mask in (~kept, kept))
    over = fitted if relative else (~kept).sum(axis=-1).astype(np.float64)
    ratio = np.full(missed.shape, np.inf if relative else 0.0)
    np.divide(missed, over, out=ratio, where=over > 0)
    return np.asarray(factor * (unit * np.sqrt(ratio)))


@dataclass(frozen=True, eq=False)
class LemmaCheck:
    """A lemma tested on every example and neuron of a state, or of each state of a history.

    Attributes
    ----------
    hypothesis : mask, shape (..., n, m)
        Where the lemma applies.
    conclusion : mask, shape (..., n, m)
        Where what it promises is true, whether it applies or not.
    margin : array, shape (..., n, m)
        Slack of the hypothesis' inequality, in units of the primal variables.
    """

    hypothesis: Mask
    conclusion: Mask
    margin: Array

    @property
    def violated(self) -> Mask:
        """Where the lemma applies and its promise is broken. Nowhere, if the lemma is true."""
        return self.hypothesis & ~self.conclusion


def lemma_5(problem: Problem, beta: ArrayLike | HasBeta, step: ArrayLike) -> LemmaCheck:
    r"""Test Lemma 5: an active matching example stays active.

    Let :math:`\beta_{k,i} > 0`, :math:`s_k y_i > 0`, :math:`\eta G_{ii} \le 1`, and let
    :math:`\rho` be the largest :math:`|r_j|` of the other examples active for neuron k. If
    :math:`R_i \rho < G_{ii}(|y_i| - o_i)`, with :math:`o_i` the output on :math:`x_i` of the other
    neurons of k's sign (zero for one neuron or two of opposite signs), then
    :math:`\beta_{k,i} > 0` after the step. More precisely it is then at least
    :math:`(1 - \eta G_{ii})\beta_{k,i}` plus the margin
    :math:`\eta\,(G_{ii}(|y_i| - o_i) - R_i\rho)`.

    Parameters
    ----------
    problem : Problem
    beta : array, shape (..., n, m), or a history
        Primal variables; a history's time axis comes first, shape (T, ..., n, m).
    step : float or array, shape (...)

    Returns
    -------
    LemmaCheck
        The conclusion is taken from one step of gradient descent from each state.

    References
    ----------
    :cite:`LWTM26`, Lemma 5; this deterministic form is ours.

    Examples
    --------
    >>> problem = Problem([[4.0, 1.0], [1.0, 4.0]], [1.0, 1.0])
    >>> found = lemma_5(problem, [[0.1], [0.1]], 0.1)
    >>> found.hypothesis[:, 0], found.margin[:, 0].round(2)
    (array([ True,  True]), array([0.31, 0.31]))
    """
    primal, steps = _variables(problem, "beta", beta), _steps(problem, step)
    eta = steps[..., None, None]
    own = np.diagonal(problem.gram, axis1=-2, axis2=-1)[..., None]
    row_sums = coherence(problem).row_sums[..., None]
    residual = np.abs(problem.predictions(primal) - problem.labels)[..., None]
    active = primal > 0
    room = np.abs(problem.labels)[..., None] - _same_sign_output(problem, primal)
    margin = eta * (own * room - row_sums * _largest_of_others(residual * active))
    moved = primal + problem.gram @ _dual_update(problem, primal, steps)
    applies = active & matching(problem) & (eta * own <= 1.0) & (margin > 0)
    return LemmaCheck(applies, moved > 0, margin)


def lemma_6(problem: Problem, alpha: ArrayLike | HasAlpha) -> LemmaCheck:
    r"""Test Lemma 6: an example with a sufficiently negative dual is inactive, its dual frozen.

    If :math:`G_{ii}\alpha_{k,i} \le -R_i \max_{j \ne i}|\alpha_{k,j}|` then
    :math:`\beta_{k,i} \le 0`. More precisely :math:`\beta_{k,i}` is at most minus the margin
    :math:`-G_{ii}\alpha_{k,i} - R_i \max_{j \ne i}|\alpha_{k,j}|`, at every state.

    Parameters
    ----------
    problem : Problem
    alpha : array, shape (..., n, m), or a result or history
        Dual variables; a history's time axis comes first, shape (T, ..., n, m).

    Returns
    -------
    LemmaCheck

    References
    ----------
    :cite:`LWTM26`, Lemma 6; this deterministic form is ours.

    Examples
    --------
    >>> problem = Problem([[4.0, 1.0], [1.0, 4.0]], [1.0, -1.0])
    >>> found = lemma_6(problem, [[0.2], [-0.1]])
    >>> found.hypothesis[:, 0], found.margin[:, 0].round(2)
    (array([False,  True]), array([-0.9,  0.2]))
    """
    duals = _variables(problem, "alpha", alpha)
    own = np.diagonal(problem.gram, axis1=-2, axis2=-1)[..., None]
    row_sums = coherence(problem).row_sums[..., None]
    margin = -own * duals - row_sums * _largest_of_others(np.abs(duals))
    return LemmaCheck(margin >= 0, problem.primal(duals) <= 0, margin)


def _largest_of_others(values: Array) -> Array:
    """Largest of the non-negative values of the other examples, 0 if there is none."""
    if values.shape[-2] == 1:
        return np.zeros(values.shape)
    ordered = np.sort(values, axis=-2)
    first, second = ordered[..., -1:, :], ordered[..., -2:-1, :]
    return np.where(values == first, second, first)


def _same_sign_output(problem: Problem, beta: Array) -> Array:
    """Output on each example of the other neurons of a neuron's sign, shape (..., n, m)."""
    output = np.maximum(beta, 0.0)
    same = (problem.signs[:, None] == problem.signs) & ~np.eye(problem.m, dtype=bool)
    return np.asarray(output @ same)


Norms = Callable[[float], tuple[float, float, float]]


def flat_norms(d: float) -> tuple[float, float, float]:
    r"""Norms :math:`\|\lambda\|_1, \|\lambda\|_2, \|\lambda\|_\infty` of d eigenvalues 1."""
    return float(d), float(np.sqrt(d)), 1.0


def dimension_bound(
    n: int,
    delta: float = 0.05,
    c: float = 0.5,
    *,
    low: float = 1.0,
    high: float = 2.0,
    scale: float = 1e-4,
    neurons: int = 1,
    norms: Norms = flat_norms,
) -> int:
    r"""Dimension from which Gaussian features meet the `conditions` with probability 1 − δ.

    For features :math:`\Lambda^{1/2} z` with Gaussian z and :math:`t = \log(4n/\delta)`, the
    Laurent–Massart tails and a union bound give, with probability at least :math:`1 - \delta`,

    .. math::

        \begin{aligned}
        g &\ge \|\lambda\|_1 - 2\|\lambda\|_2\sqrt t, \\
        \bar g &\le \|\lambda\|_1 + 2\|\lambda\|_2\sqrt t + 2\|\lambda\|_\infty t, \\
        R &\le (n-1)\sqrt{2\log(2n^2/\delta)} \\
        &\quad\cdot \sqrt{\|\lambda\|_2^2 + 2\|\lambda\|_\infty\|\lambda\|_2\sqrt t
        + 2\|\lambda\|_\infty^2 t} .
        \end{aligned}

    The failures add up to δ: 3n tails of probability :math:`\delta/4n` (both sides of each
    squared length, and the variance of its row), and :math:`n(n-1)/2` products of probability
    :math:`\delta/2n^2`. Every condition is monotone in :math:`g, \bar g, R`, so it is enough to put
    the bounds into them, with :math:`\eta = c/\|\lambda\|_1`.

    Parameters
    ----------
    n : int
        Number of examples.
    delta : float
        Probability of failure, below 1.
    c : float
        Step in units of :math:`1/\|\lambda\|_1`; the conditions need c < 1.
    low, high : float
        Bounds on the absolute labels.
    scale : float
        Largest primal variable of the all-active start.
    neurons : int
        1, or 2 for a pair of opposite signs.
    norms : callable
        :math:`d \mapsto (\|\lambda\|_1, \|\lambda\|_2, \|\lambda\|_\infty)`; by default d ones.

    Returns
    -------
    int
        The least d at which the bounds meet the conditions, found by doubling and bisection.

    Raises
    ------
    ValueError
        If no dimension up to :math:`10^{15}` is enough.

    References
    ----------
    :cite:`LWTM26`, Theorem 1, in high probability; the explicit dimension is ours.

    Examples
    --------
    >>> f"{dimension_bound(5):.1e}", f"{dimension_bound(20):.1e}"
    ('1.2e+04', '3.3e+05')
    """
    examples = whole_number("n", n)
    values = {"delta": delta, "c": c, "low": low, "high": high, "scale": scale}
    values = {name: positive_number(name, value) for name, value in values.items()}
    if values["delta"] >= 1 or values["low"] > values["high"] or neurons not in (1, 2):
        raise ValueError(
            "give delta below 1, low at most high, and one or two neurons; got delta = "
            f"{delta}, low = {low}, high = {high}, neurons = {neurons}"
        )

    if not callable(norms):
        raise TypeError(f"norms must be a function of d, such as flat_norms, got {norms!r}")

    def enough(d: int) -> bool:
        sizes = _likely_sizes(examples, norms(d), values["delta"])
        step, top = np.asarray(c / norms(d)[0]), np.asarray(scale)
        residual = np.asarray(values["high"] + scale)
        with np.errstate(all="ignore"):  # a margin may be minus infinity
            margins = _joint_margins(sizes, np.asarray(values["low"]), top, residual, step, neurons)
        return bool((margins > 0).all())

    upper = examples
    while not enough(upper):
        upper *= 2
        if upper > 10**15:
            raise ValueError(
                "no dimension is enough: the step needs c < 1, the start scale < c · low, and the "
                "spectrum an effective dimension that grows with d; lower c or scale (dimensions "
                "up to 1e15 were tried)"
            )
    lower = upper // 2
    while upper - lower > 1:
        middle = (lower + upper) // 2
        lower, upper = (lower, middle) if enough(middle) else (middle, upper)
    return upper


def _likely_sizes(n: int, norms: tuple[float, float, float], delta: float) -> _Sizes:
    """Bounds on g, ḡ and R that all hold with probability at least 1 − δ."""
    total, spread, top = norms
    t = np.log(4 * n) - np.log(delta)
    variance = spread**2 + 2 * top * spread * np.sqrt(t) + 2 * top**2 * t
    return _Sizes(
        smallest=np.asarray(total - 2 * spread * np.sqrt(t)),
        largest=np.asarray(total + 2 * spread * np.sqrt(t) + 2 * top * t),
        reach=np.asarray((n - 1) * np.sqrt(variance * 2 * (np.log(2 * n**2) - np.log(delta)))),
    )
