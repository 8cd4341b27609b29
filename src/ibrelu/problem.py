r"""A regression problem as gradient descent sees it: Gram matrix, labels, output signs.

The model is :math:`f(x) = \sum_k s_k \max(w_k \cdot x, 0)` with fixed signs :math:`s_k`, the
loss :math:`\tfrac12 \sum_i (f(x_i) - y_i)^2`. A neuron's **primal** variables are its
pre-activations :math:`\beta_k = X w_k`, its **dual** variables the coefficients
:math:`\alpha_k = G^{-1} \beta_k` of its weights in the span of the examples. Training moves
nothing else, so :math:`(G, y, s)` is the whole problem (:cite:`LWTM26`, Section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpotrs

from ibrelu._checks import (
    Array,
    Mask,
    Seed,
    check_kind,
    check_unmasked,
    finite_array,
    generator,
    positive_number,
)

_COLUMNS = 65_536  # features a block: what `from_features` holds in float64 at a time
# Labels, and lengths of examples, further from 1 than this would overflow in products of them.
_SMALLEST, LARGEST = 1e-50, 1e50
_MOST = 1e150  # of a primal or dual variable: its square is a finite number
# For so few examples a general product, by short blocks, is faster than BLAS's symmetric one, which
# NumPy takes for a matrix times its own transpose.
_FEW, _FEW_COLUMNS = 32, 1024


@dataclass(frozen=True, eq=False)
class Problem:
    r"""ReLU regression in span coordinates.

    Parameters
    ----------
    gram : array, shape (..., n, n)
        Gram matrix :math:`G = X X^\top` of the examples: symmetric, positive definite. Leading
        axes are a batch of problems.
    labels : array, shape (..., n)
        Labels, none zero.
    signs : sequence of +1 and -1, shape (m,)
        Output sign of each neuron.

    Raises
    ------
    TypeError
        If an array is not numeric.
    ValueError
        If an entry is NaN or infinite, a label zero, shapes do not match, a sign is not +1 or
        -1, or a Gram matrix is not symmetric positive definite (duplicate examples, n > d).

    References
    ----------
    :cite:`LWTM26`, Section 3.

    Examples
    --------
    >>> problem = Problem(np.diag([4.0, 4.0]), [1.0, -1.0], signs=(1, -1))
    >>> problem.n, problem.m
    (2, 2)
    """

    gram: Array
    labels: Array
    signs: Array

    def __init__(
        self, gram: ArrayLike, labels: ArrayLike, signs: Sequence[int] | Array = (1,)
    ) -> None:
        gram, labels = finite_array("gram", gram), finite_array("labels", labels)
        signs = finite_array("signs", signs)
        _check_shapes(gram, labels, signs)
        _check_labels(labels)
        gram, cholesky = _checked_gram(gram)
        for name, array in (("gram", gram), ("labels", labels), ("signs", signs)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        cholesky.flags.writeable = False
        object.__setattr__(self, "_cholesky", cholesky)

    @classmethod
    def from_features(
        cls, X: ArrayLike, labels: ArrayLike, signs: Sequence[int] | Array = (1,)
    ) -> Problem:
        """Make the problem of features `X`, shape (..., n, d), d ≥ n; blocks of columns at a time.

        `X` may be a memory-mapped array: only a block of it is held in memory.
        """
        features = np.asanyarray(X)
        if features.ndim < 2:
            raise ValueError(f"features must have shape (..., n, d), got shape {features.shape}")
        n, d = features.shape[-2:]
        if n > d:
            raise ValueError(
                f"more examples than features: n = {n} > d = {d}, so the Gram matrix is singular "
                "and the examples cannot all be fitted independently; use fewer examples or more "
                "features"
            )
        return cls(gram_matrix(features), labels, signs)

    @property
    def n(self) -> int:
        """Number of examples."""
        return int(self.gram.shape[-1])

    @property
    def m(self) -> int:
        """Number of neurons."""
        return len(self.signs)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Leading axes: () for one problem."""
        return self.gram.shape[:-2]

    @property
    def cholesky(self) -> Array:
        """Lower Cholesky factor of the Gram matrix, shape (..., n, n)."""
        factor: Array = self._cholesky  # type: ignore[attr-defined]
        return factor

    @cached_property
    def positive(self) -> Mask:
        """Examples with a positive label, shape (..., n)."""
        return np.asarray(self.labels > 0)

    @property
    def negative(self) -> Mask:
        """Examples with a negative label, shape (..., n)."""
        return ~self.positive

    @cached_property
    def scale(self) -> Array:
        r"""Mean squared length of an example, an estimate of :math:`\|\lambda\|_1`, shape (...)."""
        return np.asarray(np.diagonal(self.gram, axis1=-2, axis2=-1).mean(axis=-1))

    @cached_property
    def largest_safe_step(self) -> Array:
        r"""Step :math:`2 / (m \lambda_{\max}(G))`, shape (...): below it no pattern diverges."""
        return np.asarray(2.0 / (self.m * np.linalg.eigvalsh(self.gram)[..., -1]))

    def step(self, c: float) -> Array:
        r"""Step size :math:`\eta = c / \|\lambda\|_1` estimated as c / `scale`, shape (...)."""
        return np.asarray(positive_number("c", c) / self.scale)

    def weights(self, X: ArrayLike, alpha: ArrayLike) -> Array:
        r"""Weights :math:`w_k = X^\top \alpha_k` in the span of the examples, shape (..., d, m)."""
        features, alpha = finite_array("features", X), self.neuron_array("alpha", alpha)
        if features.ndim < 2 or features.shape[-2] != self.n:
            raise ValueError(
                f"features must have shape (..., {self.n}, d) for a problem of {self.n} examples, "
                f"got {features.shape}"
            )
        _check_leading("features", features.shape, alpha.shape[:-2], "(n, d)")
        return np.asarray(features.swapaxes(-1, -2) @ alpha)

    def primal(self, alpha: ArrayLike) -> Array:
        r"""Primal variables :math:`\beta_k = G \alpha_k`, shape (..., n, m)."""
        return np.asarray(self.gram @ self.neuron_array("alpha", alpha))

    def dual(self, beta: ArrayLike) -> Array:
        r"""Dual variables :math:`\alpha_k = G^{-1} \beta_k`, shape (..., n, m)."""
        primal = self.neuron_array("beta", beta)
        if self.batch_shape or primal.ndim > 2:
            return np.asarray(np.linalg.solve(self.gram, primal))
        return np.asarray(dpotrs(self.cholesky.T, primal, lower=0)[0])

    def predictions(self, beta: ArrayLike) -> Array:
        """Network outputs at primal variables `beta`, shape (..., n)."""
        return np.asarray(np.maximum(self.neuron_array("beta", beta), 0.0) @ self.signs)

    def loss(self, beta: ArrayLike) -> Array:
        """Half the sum of squared residuals at primal variables `beta`, shape (...)."""
        residual = self.predictions(beta) - self.labels
        return np.asarray(0.5 * (residual**2).sum(axis=-1))

    def neuron_array(self, name: str, value: ArrayLike) -> Array:
        """`value` as a finite array of shape (..., n, m), or an error that names it."""
        array = finite_array(name, value)
        if array.ndim < 2 or array.shape[-2:] != (self.n, self.m):
            raise ValueError(
                f"{name} must have shape (..., n, m) = (..., {self.n}, {self.m}), one column a "
                f"neuron, got {array.shape}"
            )
        _check_leading(name, array.shape, self.batch_shape, f"(n, m) = ({self.n}, {self.m})")
        if (np.abs(array) > _MOST).any():
            raise ValueError(
                f"{name} must be at most {_MOST:g} in size, got {np.abs(array).max():.4g}; change "
                "the unit"
            )
        return array

    def start_array(self, value: ArrayLike) -> Array:
        """`value` as the primal variables of a start, or an error."""
        beta = self.neuron_array("start", value)
        if (np.abs(beta) > LARGEST).any():
            raise ValueError(
                f"start must be at most {LARGEST:g} in size, got {np.abs(beta).max():.4g}; start "
                "nearer to the labels"
            )
        return beta

    def __getitem__(self, index: int | slice | tuple[int, ...] | Mask | np.bool_) -> Problem:
        """One problem (or a sub-batch) of a batch."""
        if not self.batch_shape:
            raise TypeError("this is one problem, not a batch: it cannot be indexed")
        if index is None or isinstance(index, bool):
            raise TypeError(f"a batch is indexed by numbers, slices or masks, got {index!r}")
        try:
            return Problem(self.gram[index], self.labels[index], self.signs)
        except IndexError as error:
            raise IndexError(
                f"index {index!r} does not fit the batch shape {self.batch_shape}: {error}"
            ) from None

    def __repr__(self) -> str:
        batch = f", batch={self.batch_shape}" if self.batch_shape else ""
        signs = ", ".join(f"{s:+.0f}" for s in self.signs)
        return f"Problem(n={self.n}, signs=({signs}){batch})"


def gram_matrix(X: ArrayLike) -> Array:
    r"""Gram matrix :math:`X X^\top`, shape (..., n, n), in float64, by blocks of columns."""
    check_unmasked("features", X)
    features = np.asanyarray(X)
    if features.dtype.kind not in "biuf":
        raise TypeError(
            f"features must be an array of real numbers, got dtype {features.dtype}; "
            "convert it first, e.g. with numpy.asarray(..., dtype=float)"
        )
    gram = np.zeros((*features.shape[:-1], features.shape[-2]))
    few = gram.shape[-1] <= _FEW
    columns = _FEW_COLUMNS if few else _COLUMNS
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, features.shape[-1], columns):
            block = np.asarray(features[..., first : first + columns], dtype=np.float64)
            gram += block @ (block.copy() if few else block).swapaxes(-1, -2)
    # A NaN or infinity in a row makes its squared length one: no need to look at all of X.
    if not np.isfinite(np.einsum("...ii->...i", gram)).all():
        raise ValueError(_why_not_finite(features))
    return gram


def _why_not_finite(features: NDArray[Any]) -> str:
    for first in range(0, features.shape[-1], _COLUMNS):
        bad = np.argwhere(~np.isfinite(features[..., first : first + _COLUMNS]))
        if len(bad):
            where = (*(int(i) for i in bad[0][:-1]), first + int(bad[0][-1]))
            return (
                f"features must be finite, got {features[where]} at index {where}; "
                "remove or impute the NaN or infinite entries first"
            )
    return "features are so large that squared lengths overflow; rescale them"


def all_active(problem: Problem, scale: float) -> Array:
    r"""Start with every example active for every neuron: :math:`\beta_0 =` `scale`.

    Returns
    -------
    array, shape (..., n, m)
        Primal variables.

    References
    ----------
    :cite:`LWTM26`, the initialisation of Theorems 1 and 3.
    """
    check_problem(problem)
    value = _start_scale("scale", scale)
    return np.full((*problem.batch_shape, problem.n, problem.m), value)


def from_weights(X: ArrayLike, weights: ArrayLike) -> Array:
    r"""Primal variables :math:`\beta_k = X w_k` of given weights.

    Parameters
    ----------
    X : array, shape (..., n, d)
    weights : array, shape (..., d, m)

    Returns
    -------
    array, shape (..., n, m)
    """
    features, columns = finite_array("features", X), finite_array("weights", weights)
    if features.ndim < 2 or columns.ndim < 2 or features.shape[-1] != columns.shape[-2]:
        raise ValueError(
            "weights must have shape (..., d, m), one column a neuron, for features of shape "
            f"(..., n, d); got weights {columns.shape} and features {features.shape}"
        )
    _check_leading("weights", columns.shape, features.shape[:-2], "(d, m)")
    return np.asarray(features @ columns)


def random_start(problem: Problem, X: ArrayLike | None, scale: float, rng: Seed) -> Array:
    r"""Start from independent Gaussian weights of standard deviation `scale` per entry.

    Parameters
    ----------
    problem : Problem
    X : array, shape (..., n, d), or None
        The features; without them :math:`\beta \sim N(0, \mathrm{scale}^2\, G)` is drawn directly,
        which is the same in law.
    scale : float
        Standard deviation of a weight.
    rng : int or numpy.random.Generator

    Returns
    -------
    array, shape (..., n, m)
        Primal variables.

    References
    ----------
    :cite:`LWTM26`, Appendix F.1.
    """
    check_problem(problem)
    value, rng = _start_scale("scale", scale), generator(rng)
    if X is None:
        noise = rng.standard_normal((*problem.batch_shape, problem.n, problem.m))
        return np.asarray(value * (problem.cholesky @ noise))
    features = finite_array("features", X)
    if features.shape[:-1] != (*problem.batch_shape, problem.n):
        raise ValueError(
            f"features must have shape {(*problem.batch_shape, problem.n)} + (d,) to match the "
            f"problem, got {features.shape}"
        )
    noise = rng.standard_normal((*problem.batch_shape, features.shape[-1], problem.m))
    return from_weights(features, value * noise)


def disjoint(
    problem: Problem, owners: ArrayLike, scale: float, depth: float | None = None
) -> Array:
    r"""Start in which each example is active for exactly one neuron, its owner.

    The owner starts at :math:`\beta =` `scale`; for every other neuron the example's dual starts at
    :math:`-a`, so deep that the pattern never changes if :math:`a \ge \kappa \max(a,
    a_{\text{own}} + \rho_0/(g-R))` (ours, after :cite:`LWTM26`, Appendix on more than two neurons).

    Parameters
    ----------
    problem : Problem
    owners : integer array, shape (..., n)
        Index of the neuron that starts active on each example; its sign must be the label's.
    scale : float
        Primal value of an example for its owner.
    depth : float, optional
        The depth a. By default the smallest that satisfies the bound above, with a tenth to spare.

    Returns
    -------
    array, shape (..., n, m)
        Primal variables.

    Raises
    ------
    ValueError
        If an owner's sign does not match its label, an example starts on the wrong side of a
        kink, or no depth satisfies the bound (data not nearly orthogonal enough): give one.
    """
    check_problem(problem)
    value = _start_scale("scale", scale)
    owned = _owned(problem, owners)
    reach = _row_reach(problem.gram)
    smallest = np.diagonal(problem.gram, axis1=-2, axis2=-1).min(axis=-1)
    if depth is None:
        margin, kappa = smallest - reach, reach / smallest
        rho = np.abs(value - np.abs(problem.labels)).max(axis=-1)
        shrink = 1.0 - kappa * reach / np.where(margin > 0, margin, 1.0)
        if not ((margin > 0) & (shrink > 0)).all():
            raise ValueError(
                "no depth guarantees a constant pattern on these data: the largest off-diagonal "
                "row sum of the Gram matrix is too near its smallest diagonal entry; give `depth`, "
                "or use more features"
            )
        deep = 1.1 * kappa * (value + rho) / (margin * shrink)
    else:
        deep = np.broadcast_to(_start_scale("depth", depth), problem.batch_shape)
    frozen = np.where(owned, 0.0, -np.asarray(deep)[..., None, None])
    beta = np.empty_like(frozen)
    for k in range(problem.m):
        own = owned[..., k]
        pair = own[..., :, None] & own[..., None, :]
        block = np.where(pair, problem.gram, np.eye(problem.n))
        pull = np.einsum("...ij,...j->...i", problem.gram, frozen[..., k])
        target = np.where(own, value - pull, 0.0)
        alpha = frozen[..., k] + np.linalg.solve(block, target[..., None])[..., 0]
        beta[..., k] = np.where(own, value, np.einsum("...ij,...j->...i", problem.gram, alpha))
    if (beta[~owned] > 0).any():
        raise ValueError(
            "some example starts active for a neuron that does not own it: the depth is too small "
            "for these data; give a larger `depth`, or use more features"
        )
    return beta


def _owned(problem: Problem, owners: ArrayLike) -> Mask:
    index = np.asarray(owners)
    if index.dtype.kind not in "iu":
        raise TypeError(f"owners must be whole numbers (neuron indices), got dtype {index.dtype}")
    if index.shape != problem.labels.shape:
        raise ValueError(
            f"owners must have the labels' shape {problem.labels.shape}, got {index.shape}"
        )
    if index.size and (index.min() < 0 or index.max() >= problem.m):
        raise ValueError(
            f"owners must lie between 0 and m - 1 = {problem.m - 1}, got {index.min()} to "
            f"{index.max()}"
        )
    wrong = problem.signs[index] * problem.labels < 0
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            f"the owner of example {where} is neuron {index[where]}, whose sign is "
            f"{problem.signs[index[where]]:+.0f}, but its label is {problem.labels[where]:.4g}; an "
            "owner's sign must be its example's"
        )
    return np.asarray(index[..., None] == np.arange(problem.m))


def _row_reach(gram: Array) -> Array:
    """Largest off-diagonal absolute row sum R of each Gram matrix, shape (...)."""
    total = np.abs(gram).sum(axis=-1) - np.abs(np.diagonal(gram, axis1=-2, axis2=-1))
    return np.asarray(total.max(axis=-1))


def check_problem(problem: object) -> None:
    """Refuse what is no problem."""
    cure = "make one with Problem(gram, labels) or Problem.from_features(X, labels)"
    check_kind("problem", problem, Problem, cure)


def _check_size(name: str, sizes: Array) -> None:
    """Refuse sizes so far from 1 that products of them overflow or vanish."""
    wrong = ~((sizes >= _SMALLEST) & (sizes <= LARGEST))
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            f"{name} must lie between {_SMALLEST:g} and {LARGEST:g} in size, got "
            f"{sizes[where]:.4g} at index {where}; change the unit"
        )


def _start_scale(name: str, value: float) -> float:
    number = positive_number(name, value)
    if number > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST:g}, got {number:.4g}")
    return number


def _check_leading(name: str, shape: tuple[int, ...], batch: tuple[int, ...], axes: str) -> None:
    """Refuse leading axes that do not go with those of the problem."""
    try:
        np.broadcast_shapes(shape[:-2], batch)
    except ValueError:
        raise ValueError(
            f"{name} must have the batch shape {batch} before its axes {axes}, got shape {shape}"
        ) from None


def _check_shapes(gram: Array, labels: Array, signs: Array) -> None:
    if gram.ndim < 2 or gram.shape[-1] != gram.shape[-2] or gram.shape[-1] == 0:
        raise ValueError(f"gram must have shape (..., n, n) with n ≥ 1, got {gram.shape}")
    if labels.shape != gram.shape[:-1]:
        raise ValueError(
            f"labels must have shape {gram.shape[:-1]} to match a Gram matrix of shape "
            f"{gram.shape}, got {labels.shape}"
        )
    if signs.ndim != 1 or len(signs) == 0 or not (np.abs(signs) == 1.0).all():
        raise ValueError(
            f"signs must be a non-empty sequence of +1 and -1, one a neuron, got {signs.tolist()}"
        )


def _check_labels(labels: Array) -> None:
    if (labels == 0).any():
        where = tuple(int(i) for i in np.argwhere(labels == 0)[0])
        raise ValueError(
            f"labels must not be zero (their sign decides which neuron fits them), got 0 at index "
            f"{where}; drop the example or shift the labels"
        )
    _check_size("labels", np.abs(labels))


def _checked_gram(gram: Array) -> tuple[Array, Array]:
    """Return the symmetrised Gram matrix and its Cholesky factor, or an error that says why not."""
    squares = np.diagonal(gram, axis1=-2, axis2=-1)
    _check_size("lengths of examples", np.sqrt(np.where(squares > 0, squares, 1.0)))
    largest = np.abs(gram).max(axis=(-2, -1), keepdims=True)
    if (np.abs(gram - gram.swapaxes(-1, -2)) > 1e-10 * largest).any():
        raise ValueError(
            "gram must be symmetric, got a matrix that differs from its transpose; compute it as "
            "X @ X.T"
        )
    gram = (gram + gram.swapaxes(-1, -2)) / 2
    try:
        cholesky = np.linalg.cholesky(gram)
        pivots = np.diagonal(cholesky, axis1=-2, axis2=-1) ** 2
        floor = 1e-13 * gram.shape[-1] * largest[..., 0]
        definite = bool((pivots > floor).all())
    except np.linalg.LinAlgError:
        definite = False
    if not definite:
        raise ValueError(f"gram must be positive definite: {_why_singular(gram)}")
    return gram, np.asarray(cholesky, dtype=np.float64)


def _why_singular(gram: Array) -> str:
    """Name the cause that a user can mend: a zero example, a duplicate, or neither."""
    n = gram.shape[-1]
    for matrix in gram.reshape(-1, n, n):
        squares = np.diag(matrix)
        if (squares <= 0).any():
            worst = int(np.argmin(squares))
            return f"example {worst} has squared length {squares[worst]:.4g}; drop it"
        cosine = matrix / np.sqrt(np.outer(squares, squares))
        i, j = np.unravel_index(np.argmax(np.abs(np.triu(cosine, 1))), cosine.shape)
        if n > 1 and abs(cosine[i, j]) > 1 - 1e-12:
            return f"examples {i} and {j} are duplicates up to a factor; drop one of them"
    return (
        "it is singular or indefinite to working precision (more examples than independent "
        "features?); use fewer examples or more features"
    )
