r"""Two-layer classifiers on nearly-orthogonal data: ranks, norms, margins and rates.

The network has `width` = m neurons of each output sign,

.. math::

    f(x) = \frac1m \sum_{r=1}^m \sigma(w_{+,r} \cdot x)
         - \frac1m \sum_{r=1}^m \sigma(w_{-,r} \cdot x),
    \qquad \sigma(z) = \max(z, \gamma z),

and learns labels :math:`y_i = \pm 1` by gradient descent on the logistic loss
:math:`\frac1n \sum_i \log(1 + e^{-y_i f(x_i)})`. Weights only ever move in the span of the
examples, :math:`W = W_0 + C X`, so training needs the pre-activations
:math:`Z = W X^\top = Z_0 + C G` and nothing of length d (:cite:`KCG23`).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from ibrelu._checks import (
    Array,
    Seed,
    check_kind,
    finite_array,
    generator,
    positive_number,
    real_number,
    whole_number,
)
from ibrelu.problem import gram_matrix

_SIGNS = np.array([[[1.0]], [[-1.0]]])  # of the neurons, along the first axis of (2, n, m)
_DRAWN = 4_000_000  # starting weights held at a time
_LARGEST = 1e100  # products of what stays below it are finite
_SMALLEST = 1e-100  # squares of what stays above it are not zero
_SHORTEST, _LONGEST = 16, 8192  # steps in a block on a frozen pattern


@dataclass(frozen=True, eq=False)
class ClassifierRun:
    r"""What a training run recorded, and where it ended.

    Attributes
    ----------
    step : integer array, shape (T,)
        The recorded steps.
    loss : array, shape (..., T)
        Mean logistic loss.
    norm : array, shape (..., T)
        :math:`\|W\|_F` of all weights.
    stable_rank : array, shape (..., T, 2)
        Stable rank of the positive and of the negative neurons' weights, :math:`W_+` and
        :math:`W_-`.
    stable_rank_all : array, shape (..., T)
        Stable rank of the whole of W.
    margins : array, shape (..., T, n)
        :math:`y_i f(x_i)`.
    coefficients : array, shape (..., 2, n, m)
        Last C: how much of each example every neuron has learned (positive neurons first).
    status : str, or array of str of the batch's shape
        "separated": every training margin is positive at the last step; "unseparated": some is not
        yet; "diverged": the loss ended above where it started, because the step is too large.
    slope : float
        Slope :math:`\gamma` of the activation below zero.
    """

    step: NDArray[np.int64]
    loss: Array
    norm: Array
    stable_rank: Array
    stable_rank_all: Array
    margins: Array
    coefficients: Array
    status: Any
    slope: float
    _init_scale: float = field(repr=False)
    _generators: NDArray[np.object_] = field(repr=False)

    def weights(self, X: ArrayLike) -> Array:
        r"""Weights :math:`W_0 + C X` at the last step; the start is drawn again, not stored.

        Parameters
        ----------
        X : array, shape (..., n, d)
            The features the run was trained on.

        Returns
        -------
        array, shape (..., 2, d, m)
            One neuron's weights a column, the positive neurons first.
        """
        features = finite_array("features", X)
        n, m = self.coefficients.shape[-2:]
        if features.ndim < 2 or features.shape[-2] != n:
            raise ValueError(
                f"features must have shape (..., {n}, d), the {n} examples of the run, got "
                f"{features.shape}"
            )
        d = features.shape[-1]
        start = np.empty((*self._generators.shape, 2, d, m))
        for index, rng in np.ndenumerate(self._generators):
            draws = self._init_scale * copy.deepcopy(rng).standard_normal((d, 2, m))
            start[index] = np.moveaxis(draws, 0, 1)
        return np.asarray(start + features.swapaxes(-1, -2)[..., None, :, :] @ self.coefficients)


def train_classifier(
    X: ArrayLike,
    y: ArrayLike,
    *,
    width: int,
    slope: float,
    step: float,
    init_scale: float,
    steps: int,
    record: int | Sequence[int] = 10,
    rng: Seed | Sequence[Seed],
    progress: bool | None = None,
) -> ClassifierRun:
    r"""Train a two-layer leaky ReLU or ReLU classifier by full-batch gradient descent.

    Each step moves the coefficients by

    .. math::

        C_{\pm, ri} \leftarrow C_{\pm, ri} \pm \frac{\eta}{nm}\, y_i\,
        \frac{\sigma'(z_{\pm, ri})}{1 + e^{y_i f(x_i)}}

    where :math:`\sigma'(0) = \gamma`. A step costs :math:`n^2 m` operations whatever d, and
    :math:`n^2` for as long as no pre-activation can change sign (see Notes).

    Parameters
    ----------
    X : array, shape (..., n, d)
        Features, one example a row; leading axes are a batch.
    y : array, shape (..., n)
        Labels, +1 or -1.
    width : int
        Neurons **of each sign**, m; the network has 2m.
    slope : float
        Slope :math:`\gamma` below zero, in [0, 1); 0 is the ReLU.
    step : float
        Step size :math:`\eta`. Below :math:`4nm/\lambda_{\max}(G)` the loss falls on every fixed
        activation pattern.
    init_scale : float
        Standard deviation of every starting weight, independent Gaussians.
    steps : int
        Number of steps.
    record : int or sequence of int
        Steps to record, or how many a decade (see `log_steps`). A record costs about 10 m³.
    rng : int or numpy.random.Generator, or a sequence of them
        A sequence trains a batch, one start each. Any batch gives the same numbers as a loop over
        its data and seeds; a single integer gives every data set of a batch the same start.
    progress : bool, optional
        Show a progress bar (needs tqdm). By default on a terminal, once a second has passed.

    Returns
    -------
    ClassifierRun

    Warns
    -----
    UserWarning
        If a data set has one class only, or a run ends with a loss above its first.

    Raises
    ------
    TypeError
        If an array is not numeric or a number is of the wrong kind.
    ValueError
        If a label is not +1 or -1, an entry is NaN or infinite, an example is zero, shapes do not
        match, `slope` is outside [0, 1), `step` or `init_scale` is not positive, `width` or
        `steps` is below 1, or the weights could overflow.

    Notes
    -----
    On a fixed pattern of active neurons the margins obey a recursion of n numbers. The residual
    factors :math:`1/(1 + e^{y_i f(x_i)})` are positive, so each example's pull on a pre-activation
    only accumulates; once a block of steps is done, their sums bound every pre-activation at every
    step in between. A block is kept only if these bounds prove that no sign changed in it;
    otherwise its steps are taken one by one. No step is skipped or approximated.

    References
    ----------
    :cite:`KCG23`; :cite:`FVBSH23` for gradient flow.

    Examples
    --------
    >>> X, y = 10 * np.eye(4), [1, 1, -1, -1]
    >>> run = train_classifier(
    ...     X, y, width=8, slope=0.1, step=0.1, init_scale=1e-3, steps=1000, rng=0
    ... )
    >>> run.status, bool(run.stable_rank[-1].max() < 1.1)
    ('separated', True)
    """
    features, labels = _checked_data(X, y)
    m, total = whole_number("width", width), whole_number("steps", steps)
    gamma, eta = _checked_slope(slope), positive_number("step", step)
    scale = positive_number("init_scale", init_scale)
    recorded = _checked_record(record, total)
    _check_range(features, eta * total, scale)
    gram = gram_matrix(features)
    _check_examples(gram)
    seeds = _seeds(rng, features, labels)
    batch = seeds.shape
    features, gram = (np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in (features, gram))
    labels = np.broadcast_to(labels, (*batch, labels.shape[-1]))
    generators, runs = np.empty(batch, dtype=object), []
    with _progress_bar(total * seeds.size, progress) as count:
        for index, seed in np.ndenumerate(seeds):
            generators[index] = copy.deepcopy(generator(seed))
            start = _start(features[index], m, scale, generator(seed))
            training = _Training(gram[index], labels[index], gamma, eta, *start)
            runs.append(_run(training, recorded, total, count))
    columns = zip(*runs, strict=True)
    shaped = [np.reshape(column, (*batch, *np.shape(column[0]))) for column in columns]
    loss, norm, block, whole, margins, coefficients, status, ends = shaped
    if (status == "diverged").any():
        _warn_diverged(ends[status == "diverged"], gram, m, eta)
    return ClassifierRun(
        step=recorded,
        loss=loss,
        norm=norm,
        stable_rank=block,
        stable_rank_all=whole,
        margins=margins,
        coefficients=coefficients,
        status=status if batch else str(status),
        slope=gamma,
        _init_scale=scale,
        _generators=generators,
    )


def _run(
    training: _Training, recorded: NDArray[np.int64], total: int, count: Callable[[int], object]
) -> tuple[Any, ...]:
    """Train to `total` steps; what was recorded, and how it ended, as `ClassifierRun` names it."""
    first, done, records = training.loss(), 0, []
    for target in np.union1d(recorded, [total]).tolist():
        while done < target:
            stride = min(target - done, _LONGEST)
            training.advance(stride)
            count(stride)
            done += stride
        if target in recorded:
            records.append((training.loss(), *training.spectrum(), training.margins()))
    last, smallest = training.loss(), training.margins().min()
    rose = last > first * (1 + 1e-9)  # not by rounding alone
    status = "diverged" if rose else "separated" if smallest > 0 else "unseparated"
    columns = (np.array(column) for column in zip(*records, strict=True))
    return (*columns, training.coefficients, status, (first, last))


class _Training:
    """State of one run in span coordinates: coefficients and pre-activations (2, n, m)."""

    def __init__(
        self, gram: Array, labels: Array, slope: float, step: float, start: Array, inner: Array
    ) -> None:
        _, n, m = start.shape
        self.gram, self.labels, self.slope = gram, labels, slope
        self.start, self.start_inner = start, inner
        self.coefficients, self.primal = np.zeros_like(start), start.copy()
        self._slopes, self._gain = np.empty_like(start), np.empty_like(start)
        self._active = np.empty(start.shape, dtype=bool)
        pull = step / (n * m) * _SIGNS * labels[:, None]
        self._pull = pull
        self._up = np.maximum(gram * pull.swapaxes(-1, -2), 0.0)
        self._down = np.minimum(gram * pull.swapaxes(-1, -2), 0.0)
        self._kernel = step / (n * m**2) * gram * np.outer(labels, labels)
        self._block = self._wait = _SHORTEST

    def margins(self) -> Array:
        outputs = np.maximum(self.primal, self.slope * self.primal).mean(axis=-1)
        return np.asarray(self.labels * (outputs[0] - outputs[1]))

    def loss(self) -> float:
        return float(np.logaddexp(0.0, -self.margins()).mean())

    def advance(self, count: int) -> None:
        """Take `count` steps, in blocks on a frozen pattern wherever these are proven right."""
        while count > 0:
            block = min(self._block, count)
            if block < _SHORTEST:
                self._plain_steps(block)
            elif self._frozen_steps(block):
                self._block, self._wait = min(2 * self._block, _LONGEST), _SHORTEST
            else:
                block = min(self._wait, count)
                self._plain_steps(block)
                self._block = max(self._block // 4, _SHORTEST)
                self._wait = min(2 * self._wait, _LONGEST // 8)
            count -= block

    def _plain_steps(self, count: int) -> None:
        _, n, m = self.start.shape
        sums, factor, pull = np.empty((2, n)), np.empty(n), np.empty_like(self._pull)
        scale = self.labels / m
        for _ in range(count):
            self._set_slopes()
            np.einsum("jir,jir->ji", self._slopes, self.primal, out=sums)
            np.subtract(sums[1], sums[0], out=factor)
            np.multiply(factor, scale, out=factor)
            expit(factor, out=factor)
            np.multiply(self._pull, factor[:, None], out=pull)
            np.multiply(self._slopes, pull, out=self._gain)
            np.add(self.coefficients, self._gain, out=self.coefficients)
            self._set_primal()

    def _frozen_steps(self, count: int) -> bool:
        """Take `count` steps if no pre-activation can change sign in them, else none."""
        self._set_slopes()
        kernel = self._kernel * (self._slopes @ self._slopes.swapaxes(-1, -2)).sum(axis=0)
        minus = -self.margins()
        factor, change, total = np.empty_like(minus), np.empty_like(minus), np.zeros_like(minus)
        for _ in range(count):
            expit(minus, out=factor)
            np.add(total, factor, out=total)
            np.dot(kernel, factor, out=change)
            np.subtract(minus, change, out=minus)
        gain = self._slopes * total[:, None]
        lowest, highest = self.primal + self._down @ gain, self.primal + self._up @ gain
        if not np.where(self._active, lowest > 0, highest <= 0).all():
            return False
        self.coefficients += self._pull * gain
        self._set_primal()
        return True

    def _set_slopes(self) -> None:
        np.greater(self.primal, 0.0, out=self._active)
        np.copyto(self._slopes, self._active.view(np.uint8))
        self._slopes *= 1.0 - self.slope
        self._slopes += self.slope

    def _set_primal(self) -> None:
        np.matmul(self.gram, self.coefficients, out=self.primal)
        self.primal += self.start

    def spectrum(self) -> tuple[float, Array, float]:
        """Norm and stable ranks of W (by sign, and whole) from its inner products W Wᵀ."""
        c, m = np.hstack([*self.coefficients]), self.start.shape[-1]
        start, primal = np.hstack([*self.start]), np.hstack([*self.primal])
        inner = self.start_inner + c.T @ start + primal.T @ c
        blocks = np.stack([inner[:m, :m], inner[m:, m:]])
        traces = np.trace(blocks, axis1=-2, axis2=-1)
        ranks = traces / np.linalg.eigvalsh(blocks)[:, -1]
        whole = traces.sum() / np.linalg.eigvalsh(inner)[-1]
        return float(np.sqrt(traces.sum())), ranks, float(whole)


def log_steps(steps: int, per_decade: int = 10) -> NDArray[np.int64]:
    """Return steps to record, even in the logarithm, from 0 to `steps` with both included.

    Examples
    --------
    >>> log_steps(100, per_decade=3).tolist()
    [0, 1, 2, 5, 10, 22, 46, 100]
    """
    last = whole_number("steps", steps)
    powers = np.arange(np.log10(last) * whole_number("per_decade", per_decade) + 1) / per_decade
    marks = np.rint(10.0**powers).astype(np.int64)
    return np.unique(np.concatenate([[0, last], marks[marks < last]]))


@dataclass(frozen=True, eq=False)
class NearOrthogonality:
    r"""How nearly orthogonal a data set is.

    Attributes
    ----------
    per_example : array, shape (..., n)
        :math:`\|x_i\|^2 / (n \max_{k \ne i} |\langle x_i, x_k \rangle|)`; dimensionless, infinite
        for an example orthogonal to all others.
    overall : array, shape (...)
        The smallest of them: the largest C for which the data are nearly orthogonal with
        constant C.
    """

    per_example: Array
    overall: Array


def near_orthogonality(
    X: ArrayLike | None = None, *, gram: ArrayLike | None = None
) -> NearOrthogonality:
    r"""Ratio :math:`\|x_i\|^2 / (n \max_{k \ne i} |\langle x_i, x_k \rangle|)` of each example.

    Parameters
    ----------
    X : array, shape (..., n, d)
        Features, one example a row; leading axes are a batch.
    gram : array, shape (..., n, n)
        Their Gram matrix, instead of the features.

    Returns
    -------
    NearOrthogonality

    Raises
    ------
    TypeError
        Unless exactly one of `X` and `gram` is given.
    ValueError
        If shapes do not fit, an entry is NaN or infinite, or an example is zero.

    References
    ----------
    :cite:`KCG23`, the assumption of nearly-orthogonal data.

    Examples
    --------
    >>> near_orthogonality([[2.0, 0.0], [1.0, 1.0]]).per_example
    array([1. , 0.5])
    """
    if (X is None) == (gram is None):
        raise TypeError(
            "give either the features X or their Gram matrix gram=, not both or neither"
        )
    products = gram_matrix(_checked_features(X)) if X is not None else _checked_gram(gram)
    _check_examples(products)
    n = products.shape[-1]
    largest = np.abs(np.where(np.eye(n, dtype=bool), 0.0, products)).max(axis=-1)
    squares = np.diagonal(products, axis1=-2, axis2=-1)
    with np.errstate(divide="ignore"):
        ratio = squares / (n * largest)
    return NearOrthogonality(per_example=ratio, overall=np.asarray(ratio.min(axis=-1)))


def stable_rank(weights: ArrayLike) -> Array:
    r"""Stable rank :math:`\|W\|_F^2 / \|W\|_2^2` of each matrix in a batch.

    Parameters
    ----------
    weights : array, shape (..., m, d)
        One neuron's weights a row (or a column: the transpose has the same stable rank).

    Returns
    -------
    array, shape (...)
        Between 1 (all rows parallel) and min(m, d); dimensionless.

    Raises
    ------
    ValueError
        If a matrix is zero (its stable rank is undefined) or not finite.

    References
    ----------
    :cite:`KCG23`, Theorems on leaky ReLU and ReLU networks.

    Examples
    --------
    >>> float(stable_rank([[1.0, 0.0], [2.0, 0.0]]))
    1.0
    """
    matrix = finite_array("weights", weights)
    if matrix.ndim < 2:
        raise ValueError(f"weights must have shape (..., m, d), got {matrix.shape}")
    largest = np.abs(matrix).max(axis=(-2, -1), keepdims=True, initial=0.0)
    if (largest == 0).any():
        raise ValueError(
            "weights must not be zero, the stable rank of a zero matrix is undefined; drop it"
        )
    singular = np.linalg.svd(matrix / largest, compute_uv=False)
    return np.asarray((singular**2).sum(axis=-1) / singular[..., 0] ** 2)


def normalized_margins(run: ClassifierRun) -> Array:
    r"""Margins :math:`y_i f(x_i) / \|W\|_F` at each recorded step, shape (..., T, n).

    The network is homogeneous of degree one in its weights, so a rescaled W has the same
    normalised margins. They carry the unit of the features.

    References
    ----------
    :cite:`KCG23`: in the limit all examples have the same.
    """
    check_kind("run", run, ClassifierRun, "train one with train_classifier(X, y, …)")
    return np.asarray(run.margins / run.norm[..., None])


def _start(X: Array, m: int, scale: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Pre-activations (2, n, m) and inner products (2m, 2m) of Gaussian weights."""
    n, d = X.shape
    primal, inner = np.zeros((n, 2 * m)), np.zeros((2 * m, 2 * m))
    rows = max(1, _DRAWN // (2 * m))
    for first in range(0, d, rows):
        weights = scale * rng.standard_normal((min(rows, d - first), 2 * m))
        primal += X[:, first : first + rows] @ weights
        inner += weights.T @ weights
    return np.stack([primal[:, :m], primal[:, m:]]), inner


def _seeds(rng: Seed | Sequence[Seed], features: Array, labels: Array) -> NDArray[np.object_]:
    """One seed or generator a run, in the shape of the batch."""
    seeds = np.array(rng, dtype=object)
    try:
        batch = np.broadcast_shapes(features.shape[:-2], labels.shape[:-1], seeds.shape)
    except ValueError:
        raise ValueError(
            f"the batches do not fit: features {features.shape[:-2]}, labels {labels.shape[:-1]}, "
            f"rng {seeds.shape}; give as many seeds as data sets, or one"
        ) from None
    if 0 in batch:
        raise ValueError(
            f"the batch is empty: features {features.shape[:-2]}, labels {labels.shape[:-1]}, rng "
            f"{seeds.shape}; give at least one data set and one seed"
        )
    return np.broadcast_to(seeds, batch)


def _warn_diverged(losses: Array, gram: Array, m: int, step: float) -> None:
    safe = float((4 * gram.shape[-1] * m / np.linalg.eigvalsh(gram)[..., -1]).min())
    first, last = losses[np.argmax(losses[:, 1])]
    warnings.warn(
        f"{len(losses)} run(s) diverged: the loss ended at {last:.4g}, above {first:.4g} where it "
        f"started, because the step {step:.4g} is too large for these data; try one below "
        f"{min(safe, step / 2):.4g}",
        stacklevel=3,
    )


@contextmanager
def _progress_bar(total: int, wanted: bool | None) -> Iterator[Callable[[int], object]]:
    """Give a function that counts steps; with a bar where one is wanted and tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        if wanted:
            raise ImportError("progress=True needs tqdm: pip install tqdm") from None
        yield lambda steps: None
        return
    hidden = None if wanted is None else not wanted  # None: hidden unless on a terminal
    with tqdm(total=total, unit="step", disable=hidden, delay=0 if wanted else 1) as bar:
        yield bar.update


def _checked_features(X: ArrayLike) -> Array:
    features = finite_array("features", X)
    if features.ndim < 2 or 0 in features.shape[-2:]:
        raise ValueError(
            f"features must have shape (..., n, d), one example a row, got {features.shape}"
        )
    return features


def _checked_gram(gram: Any) -> Array:
    products = finite_array("gram", gram)
    if products.ndim < 2 or products.shape[-1] != products.shape[-2] or products.shape[-1] == 0:
        raise ValueError(f"gram must have shape (..., n, n) with n ≥ 1, got {products.shape}")
    return products


def _checked_data(X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    features, labels = _checked_features(X), finite_array("labels", y)
    if labels.ndim < 1 or labels.shape[-1] != features.shape[-2]:
        raise ValueError(
            f"labels must have shape (..., {features.shape[-2]}), one an example for features of "
            f"shape {features.shape}, got {labels.shape}"
        )
    wrong = ~np.isin(labels, (-1.0, 1.0))
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            f"labels must be +1 or -1, got {labels[where]:.4g} at index {where}; encode the two "
            "classes first, e.g. numpy.where(y == positive_class, 1, -1)"
        )
    if (labels == labels[..., :1]).all(axis=-1).any():
        warnings.warn(
            "the data hold one class only (all labels equal), so there is nothing to separate: "
            "the network only learns to give the same answer everywhere",
            stacklevel=3,
        )
    return features, labels


def _checked_slope(slope: object) -> float:
    value = real_number("slope", slope, "a number in [0, 1)")
    if not 0.0 <= value < 1.0:
        raise ValueError(
            f"slope must lie in [0, 1), got {value}; 0 is the ReLU, 1 would be a linear network"
        )
    return value


def _checked_record(record: int | Sequence[int], steps: int) -> NDArray[np.int64]:
    if isinstance(record, (int, np.integer)):
        return log_steps(steps, whole_number("record (steps a decade)", record))
    wanted = np.asarray(record)
    if wanted.ndim != 1 or wanted.dtype.kind not in "iu" or wanted.size == 0:
        raise TypeError(
            "record must be a number of steps a decade or a sequence of whole steps, got "
            f"{record!r}"
        )
    if wanted.min() < 0 or wanted.max() > steps:
        raise ValueError(
            f"recorded steps must lie between 0 and steps = {steps}, got {wanted.min()} to "
            f"{wanted.max()}"
        )
    return np.unique(wanted).astype(np.int64)


def _check_range(features: Array, travel: float, scale: float) -> None:
    """Refuse what could overflow: the gradient is bounded, so weights grow at most linearly."""
    largest = float(np.abs(features).max(initial=0.0)) * features.shape[-1] ** 0.5
    if scale < _SMALLEST:
        raise ValueError(
            f"init_scale must be at least {_SMALLEST}, got {scale}: the squares of smaller weights "
            "vanish to rounding, and with them norm and stable rank"
        )
    if not largest * max(largest, 1.0) * max(travel, scale, 1.0) < _LARGEST:
        raise ValueError(
            f"features up to {np.abs(features).max():.4g}, step × steps = {travel:.4g} and "
            f"init_scale = {scale:.4g} are too large: the weights could overflow; rescale them"
        )


def _check_examples(gram: Array) -> None:
    squares = np.diagonal(gram, axis1=-2, axis2=-1)
    if (squares <= 0).any():
        where = tuple(int(i) for i in np.argwhere(squares <= 0)[0])
        raise ValueError(
            f"examples must not be zero, example {where} has squared length "
            f"{squares[where]:.4g}; drop it"
        )
