r"""The minimum-norm network among all networks that fit best: the other end of the comparison.

A neuron of sign :math:`s` *owns* the labels of its sign; every other neuron should be silent
there. With one sign the problem is a strictly convex quadratic program. With both it is a union
of convex pieces, for which a pair of duals is either a proof of optimality or a lower bound.
Everything below is built on one solver, ``_bounded``, for

.. math:: \min_\mu\ \tfrac12 \mu^\top S \mu - c^\top \mu
          \quad\text{with}\quad \mu_i \le 0 \text{ where } i \text{ is bounded, free elsewhere.}

Neurons of one sign share their labels equally, so inside this module a network has one column a
*sign*, with a count of the neurons behind it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemv, dsymv, dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from ibrelu import _compiled
from ibrelu._checks import Array, Mask
from ibrelu.problem import Problem, check_problem

Counts: TypeAlias = NDArray[np.int64]
Pieces: TypeAlias = NDArray[np.int64]

_SMALL = 64  # up to here a batch is solved at once; above, each problem by its own factorisations
_BATCH_ENTRIES = 2**18  # matrix entries solved at a time: 2 MB stay in the cache
_SEARCH_ENTRIES = 2**23  # matrix entries that branch and bound may solve; n ≤ 12 never needs more
_ROUNDING = 1e-12  # relative size below which a sign is rounding error
_PROOF = 1e-9  # relative difference of squared norm and squared bound that counts as none

# Two multipliers (columns) an example, by its piece. SILENT: the opposite neuron is at b ≤ 0 and
# its own at a = |y|. BOTH: a - b = |y|, b ≥ 0. EITHER: the convex hull of the two,
# a ≥ |y| and a - b ≥ |y|. Entries are the multiplier's share in the dual of the own and of the
# opposite neuron.
_SILENT, _BOTH, _EITHER = 0, 1, 2
_OWN = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, -1.0]])
_OPPOSITE = np.array([[0.0, 1.0], [-1.0, -1.0], [0.0, 1.0]])
_BOUNDED = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 1.0]])


@dataclass(frozen=True, eq=False)
class MinNorm:
    r"""A network of least norm, with what is proved about it.

    Attributes
    ----------
    alpha : array, shape (..., n, m)
        Dual variables, exactly 0 where a neuron of the opposite sign is silent with
        :math:`\beta_i < 0`.
    beta : array, shape (..., n, m)
        Primal variables, exactly 0 where such a neuron is held.
    norm : array, shape (...)
        :math:`(\sum_k \|w_k\|^2)^{1/2}`.
    lower_bound : array, shape (...)
        No network of these signs that fits as well has a smaller norm than this; 0 where nothing
        is proved.
    optimal : bool array, shape (...)
        Whether `norm` is proved to be the minimum: it equals `lower_bound` to rounding.
    selected : bool array, shape (..., n)
        Examples that a neuron of the opposite sign *notices*: it holds them exactly at its kink,
        :math:`\beta_i = 0` with :math:`\alpha_i < 0`. With one neuron these are the selected
        negative examples of :cite:`LWTM26`. With two, the selected negatives of the positive
        neuron and the selected positives of the negative one, in one mask: ``selected &
        problem.negative`` gives the first.
    kkt_residual : array, shape (...)
        Largest violation of the optimality conditions on the pieces that the network lies on:
        labels fitted and :math:`\beta = G\alpha`, relative to the largest label; duals of an
        opposite neuron zero where it is below its kink, at most zero on it, and minus the own
        neuron's above it, relative to the largest dual.
    """

    alpha: Array
    beta: Array
    norm: Array
    lower_bound: Array
    optimal: Mask
    selected: Mask
    kkt_residual: Array


def min_norm(problem: Problem) -> MinNorm:
    r"""Network of least norm :math:`\sum_k \|w_k\|^2` among those that fit the labels best.

    **One neuron** (:math:`s = +1`): minimise :math:`\|w\|^2` subject to :math:`X_P w = y_P`,
    :math:`X_N w \le 0`. Solved exactly. Its optimality conditions are :math:`\alpha_N \le 0`,
    :math:`\beta_N \le 0`, :math:`\alpha_i \beta_i = 0` on N. Labels that no neuron's sign can
    reach get the output 0, the best that is possible; if no label can be reached, the
    minimum is the zero network.

    **Two neurons** (+1, -1): not convex. The *decoupled* network, one such program a neuron, is
    the minimum if :math:`\alpha^\oplus_i \ge |\alpha^\ominus_i|` on P and the reverse on N (ours).
    Where that fails, the convex hull of the problem gives a lower bound, two descents over its
    pieces a better network, and branch and bound finishes the proof: always for n ≤ 12, and
    nearly always beyond (tens of nodes); if its room ends first, `optimal` is False.

    **More neurons**: neurons of one sign share equally. That is proved to be the minimum if the
    duals pass the check above (each divided by its sign's number of neurons) and, where several
    neurons share a sign, :math:`\sum_{j} \max(G_{ij}, 0)\, \alpha_j \le 2 \beta_i` over the
    labels of that sign (ours; see Notes). Otherwise `optimal` is False and the bound is the
    best that these duals prove.

    Parameters
    ----------
    problem : Problem
        One problem or a batch.

    Returns
    -------
    MinNorm

    Raises
    ------
    TypeError
        If `problem` is not a :class:`~ibrelu.problem.Problem`.

    Warns
    -----
    RuntimeWarning
        If the solver did not settle (then `kkt_residual` is large and `optimal` False).

    Notes
    -----
    Why the duals are a proof. Let :math:`\nu_i \ge 0` be the own neuron's dual on example i. By
    weak duality the squared norm of any network that fits is at least :math:`2\nu^\top |y| -
    \sum_k h_k^2`, where :math:`h_k` is the maximum over unit vectors u of :math:`\sum_i \pm\nu_i
    \max(u \cdot x_i, 0)`, with plus on the labels that neuron k owns. On the others
    :math:`\max(t, 0) \ge \theta t` for every :math:`\theta \in [0, 1]`; take :math:`\theta_i \nu_i
    = |\alpha_{k,i}|`, which is where the check comes from. (With one sign only, an owned label may
    have :math:`\nu_i < 0`: it counts among the others, with :math:`\theta_i = 1`.) If u
    is inactive on a set B of owned labels, then :math:`h_k \le \|w_k - \sum_B \nu_i x_i\|`, and

    .. math:: \Big\|w_k - \sum_{i \in B} \nu_i x_i\Big\|^2 = \|w_k\|^2
              + \sum_{i \in B} \nu_i \Bigl(\sum_{j \in B} G_{ij} \nu_j - 2 \beta_{k,i}\Bigr)
              \le \|w_k\|^2

    for every B under the condition on neurons that share. A neuron alone with its sign needs no
    such condition: it must be active on its labels, so B is empty. With :math:`h_k = \|w_k\|` the
    bound is the network's own squared norm.

    References
    ----------
    :cite:`LWTM26`, Theorems 2 and 4 and the appendix on more than two neurons.

    Examples
    --------
    >>> result = min_norm(Problem([[2.0, 1.0], [1.0, 2.0]], [1.0, -1.0]))
    >>> result.alpha[:, 0].round(4), result.beta[:, 0].round(4)
    (array([ 0.6667, -0.3333]), array([1., 0.]))
    >>> bool(result.optimal), result.selected
    (True, array([False,  True]))
    """
    check_problem(problem)
    n, batch = problem.n, problem.batch_shape
    labels = problem.labels.reshape(-1, n)
    signs = np.array(sorted(set(problem.signs.tolist())))
    of_sign = problem.signs[:, None] == signs
    column, counts = of_sign.argmax(axis=-1), of_sign.sum(axis=0, dtype=np.float64)
    own = np.asarray(labels[..., None] * signs > 0)
    fit = _Fit(problem.gram.reshape(-1, n, n), np.abs(labels), own, counts)

    alpha, beta, image = best = _decoupled(fit)
    bound = _dual_bound(fit, best)
    for b in np.flatnonzero(~_dual_feasible(own, alpha)):
        here = slice(b, b + 1)
        found, bound[here] = _search(fit.part(here))
        alpha[here], beta[here], image[here] = found

    square, residual = best.square(fit), _kkt_residual(fit, best)
    sound = residual <= _PROOF
    bound = np.where(sound, np.minimum(bound, square), 0.0)
    held = ~own & (beta == 0) & (alpha < 0)
    return MinNorm(
        alpha=alpha[..., column].reshape(*batch, n, problem.m),
        beta=beta[..., column].reshape(*batch, n, problem.m),
        norm=np.sqrt(square).reshape(batch),
        lower_bound=np.sqrt(bound).reshape(batch),
        optimal=((square - bound <= _PROOF * square) & sound).reshape(batch),
        selected=held.any(axis=-1).reshape(*batch, n),
        kkt_residual=residual.reshape(batch),
    )


class _Fit(NamedTuple):
    """What is to be fitted: B problems with one column a sign."""

    gram: Array  # (B, n, n)
    size: Array  # |y|, (B, n)
    own: Mask  # whose sign is the label's, (B, n, signs)
    counts: Array  # neurons of each sign, (signs,)

    def part(self, some: slice) -> _Fit:
        """Return some of the problems."""
        return _Fit(self.gram[some], self.size[some], self.own[some], self.counts)


class _Network(NamedTuple):
    """B networks, one neuron of each sign: arrays (B, n, signs)."""

    alpha: Array
    beta: Array  # primal variables, exact on the kinks
    image: Array  # G α as computed

    def square(self, fit: _Fit) -> Array:
        """Squared norm of each network, shape (B,)."""
        return np.asarray((self.alpha * self.image * fit.counts).sum(axis=(-2, -1)))

    def part(self, some: slice) -> _Network:
        """Return some of the networks."""
        return _Network(self.alpha[some], self.beta[some], self.image[some])


def _decoupled(fit: _Fit) -> _Network:
    """Each sign for itself: fit its labels, stay at or below 0 on the others."""
    alpha, active = np.empty(fit.own.shape), np.empty(fit.own.shape, dtype=bool)
    for s, count in enumerate(fit.counts):
        mine = fit.own[..., s]
        target = np.where(mine, fit.size / count, 0.0)
        alpha[..., s], active[..., s] = _bounded(fit.gram, target, ~mine, mine)
    image = _times(fit.gram, alpha)
    beta = np.where(fit.own, image, np.where(active, 0.0, np.minimum(image, 0.0)))
    return _Network(alpha, beta, image)


def _dual_feasible(own: Mask, alpha: Array) -> Mask:
    """Whether the duals prove a bound, shape (B,): own ≥ |opposite| at every example."""
    if own.shape[-1] == 1:
        return np.ones(len(own), dtype=bool)
    mine, other = _split(alpha, own)
    slack = _ROUNDING * np.abs(alpha).max(axis=(-2, -1))
    return np.asarray((mine + other >= -slack[:, None]).all(axis=-1))


def _search(fit: _Fit) -> tuple[_Network, Array]:
    """Best network found for one problem that is not decoupled, and a bound of its square."""
    hull = _on_pieces(fit, np.full(fit.size.shape, _EITHER))
    best = _descend(fit, np.full(fit.size.shape, _SILENT))
    best = _better(fit, best, _descend(fit, _pieces_of(fit, hull)))
    if fit.counts.max() == 1:
        return _branch_and_bound(fit, best, hull)
    return best, _dual_bound(fit, hull)


def _descend(fit: _Fit, pieces: Pieces) -> _Network:
    """Cross kinks while that lowers the norm.

    At b = 0 both pieces meet. There a multiplier of the wrong sign for the other piece says that
    crossing lowers the norm; the point stays feasible, so the norm can only fall.
    """
    best = _on_pieces(fit, pieces)
    while True:
        mine, other = _split(best.alpha, fit.own)
        slack = _ROUNDING * np.abs(best.alpha).max()
        wrong = np.where(pieces == _SILENT, mine + other < -slack, other > slack)
        cross = wrong & (_split(best.beta, fit.own)[1] == 0)
        pieces = np.where(cross, 1 - pieces, pieces)
        after = _on_pieces(fit, pieces) if cross.any() else best
        if not (after.square(fit) < best.square(fit)).all():
            return best
        best = after


def _branch_and_bound(fit: _Fit, best: _Network, hull: _Network) -> tuple[_Network, Array]:
    """Search the pieces from the hull of all: the nodes of a level are solved in one batch.

    Each level decides the piece of the example that its node's network misses most. Ends with the
    proven minimum, or out of room with the lowest bound of the nodes still open.
    """
    nodes, room = np.full(fit.size.shape, _EITHER), _SEARCH_ENTRIES // (2 * fit.size.size) ** 2
    while True:
        square = hull.square(fit)
        missed = np.abs(_fitted(fit, hull) - fit.size)
        fits = missed.max(axis=-1) <= _PROOF * fit.size.max()
        if fits.any():
            lowest = int(np.where(fits, square, np.inf).argmin())
            found = _pieces_of(fit, hull.part(slice(lowest, lowest + 1)))
            best = _better(fit, best, _descend(fit, found))
        is_open = ~fits & (square < best.square(fit) * (1 - 1e-2 * _PROOF))
        worst = missed[is_open].argmax(axis=-1)
        room -= 2 * len(worst)
        if not len(worst) or room < 0:
            return best, np.minimum(best.square(fit), square[is_open].min(initial=np.inf))
        nodes = np.repeat(nodes[is_open], 2, axis=0)
        nodes[np.arange(len(nodes)), np.repeat(worst, 2)] = np.tile([_SILENT, _BOTH], len(worst))
        hull = _on_pieces(fit, nodes)


def _on_pieces(fit: _Fit, pieces: Pieces) -> _Network:
    """Least-norm networks of one problem on each of B choices of pieces, shape (B, n).

    The 2n multipliers are ordered by column of the tables at the top, then by example.
    """
    nodes, n = pieces.shape

    def by_column(table: Array) -> Array:
        return table[pieces].swapaxes(1, 2).reshape(nodes, 2 * n)

    mine = np.tile(fit.own, (1, 2, 1))
    share = np.where(mine, by_column(_OWN)[..., None], by_column(_OPPOSITE)[..., None])
    matrix = np.tile(fit.gram, (1, 2, 2)) * ((share * fit.counts) @ share.swapaxes(-1, -2))
    level = by_column(_OWN) * np.tile(fit.size, (1, 2))
    first = np.broadcast_to(np.arange(2 * n) < n, level.shape)
    multipliers, active = _bounded(matrix, level, by_column(_BOUNDED) > 0, first)

    alpha = (share * multipliers[..., None]).reshape(nodes, 2, n, 2).sum(axis=1)
    image = _times(fit.gram, alpha)
    sided = np.where((pieces == _BOTH)[..., None], np.maximum(image, 0.0), np.minimum(image, 0.0))
    kink = np.where(active[:, n:, None], 0.0, sided)
    settled = ~fit.own & (pieces != _EITHER)[..., None]
    return _Network(alpha, np.where(settled, kink, image), image)


def _better(fit: _Fit, first: _Network, second: _Network) -> _Network:
    return second if second.square(fit) < first.square(fit) else first


def _pieces_of(fit: _Fit, network: _Network) -> Pieces:
    """Piece that each example of a network is on, shape (B, n)."""
    return np.where(_split(network.beta, fit.own)[1] > 0, _BOTH, _SILENT)


def _split(values: Array, own: Mask) -> tuple[Array, Array]:
    """Values (..., n, signs) of the own and of the opposite neuron, each (..., n)."""
    return np.where(own, values, 0.0).sum(axis=-1), np.where(own, 0.0, values).sum(axis=-1)


def _fitted(fit: _Fit, network: _Network) -> Array:
    """Network outputs, positive where they have the label's sign, shape (B, n)."""
    output = fit.counts * np.maximum(network.beta, 0.0)
    return np.asarray(np.where(fit.own, output, -output).sum(axis=-1))


def _dual_bound(fit: _Fit, network: _Network) -> Array:
    r"""Lower bound of the squared norm that the network's duals prove, shape (B,).

    The bound of :func:`min_norm`'s Notes for :math:`t\nu`, at its best t: :math:`(\nu^\top|y|)^2 /
    \sum_k h_k^2`.
    """
    power = network.alpha * network.image
    if fit.counts.max() > 1:
        gain = np.where(fit.own, np.maximum(network.alpha, 0.0), 0.0)
        excess = gain * (np.maximum(fit.gram, 0.0) @ gain - 2 * network.image)
        power = power + np.where(fit.counts > 1, np.maximum(excess, 0.0), 0.0)
    largest = (power * fit.counts).sum(axis=(-2, -1))
    linear = np.where(fit.own, network.alpha * fit.size[..., None], 0.0).sum(axis=(-2, -1))
    return np.asarray(np.maximum(linear, 0.0) ** 2 / np.where(largest > 0, largest, 1.0))


def _kkt_residual(fit: _Fit, network: _Network) -> Array:
    """Largest relative violation of the conditions that :class:`MinNorm` lists, shape (B,)."""
    alpha, beta, image = network
    reached = np.where(fit.own.any(axis=-1), fit.size, 0.0)
    drift = np.abs(image - beta).max(axis=(-2, -1))
    miss = np.abs(_fitted(fit, network) - reached).max(axis=-1)
    above = np.abs(alpha + np.where(fit.own, alpha, 0.0).sum(axis=-1, keepdims=True))
    wrong = np.where(beta < 0, np.abs(alpha), np.where(beta > 0, above, np.maximum(alpha, 0.0)))
    dual = np.where(fit.own, 0.0, wrong).max(axis=(-2, -1))
    largest = np.abs(alpha).max(axis=(-2, -1))
    return np.asarray(
        np.maximum(
            np.maximum(drift, miss) / fit.size.max(axis=-1),
            dual / np.where(largest > 0, largest, 1.0),
        )
    )


def _bounded(matrix: Array, level: Array, bounded: Mask, start: Mask) -> tuple[Array, Mask]:
    r"""Solve :math:`\min \tfrac12\mu^\top S\mu - c^\top\mu`, :math:`\mu_i \le 0` where bounded.

    Parameters
    ----------
    matrix, level : array, shape (B, n, n) and (B, n)
        S, positive definite, and c.
    bounded, start : bool array, shape (B, n)
        Bounded unknowns, and those that start active (not fixed at 0).

    Returns
    -------
    multipliers : array, shape (B, n)
        Exactly 0 where not active.
    active : bool array, shape (B, n)
        There the slack Sμ - c is 0; elsewhere it is at most 0.
    """
    total, n = level.shape
    tolerance = _ROUNDING * np.abs(level).max(axis=-1)
    if _compiled.takes(n):
        arrays = (np.ascontiguousarray(a) for a in (matrix, level, bounded, start, tolerance))
        pivot = _compiled.compiled(_compiled.pivot, "f3 f2 b2 b2 f1")
        multipliers, active, unsettled = pivot(*arrays)
    else:
        multipliers, active = np.empty(level.shape), np.empty(level.shape, dtype=bool)
        unsettled = np.empty(total, dtype=bool)
        rows = max(1, _BATCH_ENTRIES // n**2) if n <= _SMALL else 1
        for first in range(0, total, rows):
            part = slice(first, first + rows)
            solver = _Alone if n > _SMALL and bounded[part].any() else _Together
            programs = solver(matrix[part], level[part], bounded[part])
            multipliers[part], active[part], unsettled[part] = _pivot(
                programs.solve, bounded[part], start[part], tolerance[part, None]
            )
    if unsettled.any():
        warnings.warn(
            f"minimum norm: {unsettled.sum()} of {total} programs did not settle; the Gram matrix "
            "is probably close to singular (see kkt_residual)",
            RuntimeWarning,
            stacklevel=2,
        )
    return multipliers, active


def _pivot(
    solve: Callable[[Counts, Mask], tuple[Array, Array]],
    bounded: Mask,
    start: Mask,
    tolerance: Array,
) -> tuple[Array, Mask, Mask]:
    """Block principal pivoting: exchange every unknown of the wrong sign, until there is none.

    Exchanging all at once can cycle. When the number of wrong signs has not fallen for three
    rounds, exchange only the last (Murty's rule, which ends in finitely many steps) until it does.
    `solve` gives the multipliers of some of the programs for some active sets, and what must be at
    most 0 in a solution: slacks where not active, multipliers (in the slack's unit) where active.
    """
    total, n = bounded.shape
    multipliers, active = np.zeros(bounded.shape), start | ~bounded
    fewest, patience = np.full(total, n + 1), np.full(total, 3)
    unsettled = np.ones(total, dtype=bool)
    live = np.arange(total)
    for _ in range(100 + 20 * n):
        multipliers[live], excess = solve(live, active[live])
        wrong = bounded[live] & (excess > tolerance[live])
        count = wrong.sum(axis=-1)
        unsettled[live] = count > 0
        live, wrong, count = live[count > 0], wrong[count > 0], count[count > 0]
        if not len(live):
            break
        patience[live] = np.where(count < fewest[live], 3, patience[live] - 1)
        fewest[live] = np.minimum(fewest[live], count)
        last = np.where(wrong, np.arange(n), -1).max(axis=-1, keepdims=True)
        active[live] ^= wrong & ((patience[live, None] > 0) | (np.arange(n) == last))
    return multipliers, active, unsettled


class _Together:
    """Many small programs: a round is one batched solve, padded where unknowns are not active."""

    def __init__(self, matrix: Array, level: Array, bounded: Mask) -> None:
        self.matrix, self.level = matrix, level
        self.diagonal = np.einsum("bii->bi", matrix)

    def solve(self, live: Counts, active: Mask) -> tuple[Array, Array]:
        matrix, level = self.matrix[live], self.level[live]
        padded = matrix * (active[:, :, None] & active[:, None, :])
        np.einsum("bii->bi", padded)[...] += ~active
        right = np.where(active, level, 0.0)[..., None]
        found = np.asarray(np.linalg.solve(padded, right)[..., 0], dtype=np.float64)
        slack = (matrix @ found[..., None])[..., 0] - level
        return found, np.asarray(np.where(active, found * self.diagonal[live], slack))


class _Alone:
    """One large program, its free unknowns eliminated once: a round factorises the others in use.

    Every product is SciPy's, as the factorisations are: NumPy may bring a BLAS of its own, and the
    threads of two libraries that take turns keep each other waiting. Matrices are stored by columns
    (symmetric ones read as their transposes), as that BLAS wants them: none is copied.
    """

    def __init__(self, matrix: Array, level: Array, bounded: Mask) -> None:
        whole, level, self.held = matrix[0].T, level[0], bounded[0]
        self.free = free = ~self.held
        self.schur, self.right = _block(whole, self.held, self.held), level[self.held]
        if free.any():  # from here on the lower half of `schur` only
            self.factor = _factor(_block(whole, free, free))
            self.cross = _forward(self.factor, _block(whole, free, self.held))
            self.inner = _forward(self.factor, level[free])
            self.schur = dsyrk(-1.0, self.cross, 1.0, self.schur, trans=1, lower=1, overwrite_c=1)
            self.right = dgemv(-1.0, self.cross, self.inner, 1.0, self.right, trans=1)

    def solve(self, _: Counts, active: Mask) -> tuple[Array, Array]:
        used = active[0, self.held]
        held, found, excess = np.zeros(used.shape), np.zeros(active.shape), np.zeros(active.shape)
        if used.any():
            factor = _factor(_block(self.schur, used, used))
            held[used] = dpotrs(factor, self.right[used], lower=1)[0]
        found[0, self.held] = held
        if self.free.any():
            inner = dgemv(-1.0, self.cross, held, 1.0, self.inner)
            found[0, self.free] = dtrtrs(self.factor, inner, lower=1, trans=1)[0]
        slack = dsymv(1.0, self.schur, held, -1.0, self.right, lower=1)
        excess[0, self.held] = np.where(used, held * self.schur.diagonal(), slack)
        return found, excess


def _block(matrix: Array, rows: Mask, columns: Mask) -> Array:
    """Part of a matrix that is stored by columns, stored so too."""
    return np.asarray(matrix.T[columns][:, rows].T)


def _times(gram: Array, columns: Array) -> Array:
    """Gram matrices (B, n, n) times columns (B, n, k); large ones by SciPy (see `_Alone`)."""
    if gram.shape[-1] <= _SMALL:
        return gram @ columns
    pairs = zip(gram, columns, strict=True)
    images = [[dsymv(1.0, matrix.T, column) for column in right.T] for matrix, right in pairs]
    return np.array(images).swapaxes(-1, -2)


def _factor(matrix: Array) -> Array:
    """Lower Cholesky factor (above its diagonal: anything); LinAlgError if there is none."""
    factor, info = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError("a program of the minimum norm is not positive definite")
    return np.asarray(factor)


def _forward(factor: Array, right: Array) -> Array:
    return np.asarray(dtrtrs(factor, right, lower=1)[0])
