r"""Random high-dimensional data: features, exact Gram matrices, labels.

Features are rows :math:`x = \Lambda^{1/2} z` with z standard Gaussian and :math:`\lambda` the
spectrum of their covariance. Gradient descent sees them only through :math:`G = X X^\top`, and for
a spectrum that is constant on blocks G is a weighted sum of Wishart matrices: Bartlett's factor
draws it at a price that does not depend on the dimension.

A spectrum is given as pairs (eigenvalue, multiplicity) or as an array of d eigenvalues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibrelu._checks import (
    Array,
    Seed,
    finite_array,
    generator,
    positive_number,
    real_number,
    whole_number,
)

Counts: TypeAlias = NDArray[np.int64]
Size: TypeAlias = int | tuple[int, ...] | None
Spectrum: TypeAlias = ArrayLike | Sequence[tuple[float, int]]

_NUMBERS = 4_000_000  # Gaussian numbers drawn at a time where features must be drawn
_SMALLEST, _LARGEST = 1e-300, 1e300  # between which eigenvalues and their sum are safe


@dataclass(frozen=True, eq=False)
class EffectiveDimensions:
    r"""Trace :math:`\|\lambda\|_1` and effective dimensions of a spectrum.

    Attributes
    ----------
    trace : float
        :math:`\|\lambda\|_1`, the mean squared length of an example.
    d2 : float
        :math:`\|\lambda\|_1^2 / \|\lambda\|_2^2`: sets the size of inner products,
        :math:`|G_{ij}| / \|\lambda\|_1 \sim d_2^{-1/2}`.
    d_inf : float
        :math:`\|\lambda\|_1 / \|\lambda\|_\infty`.
    """

    trace: float
    d2: float
    d_inf: float


def gaussian_features(
    n: int, d: int, *, spectrum: Spectrum | None = None, size: Size = None, rng: Seed
) -> Array:
    r"""Draw features :math:`x_i = \Lambda^{1/2} z_i` with :math:`z_i` standard Gaussian.

    Parameters
    ----------
    n, d : int
        Number of examples and of features.
    spectrum : pairs (eigenvalue, multiplicity) or array of d eigenvalues, optional
        Spectrum of the covariance, in the order of the columns. Default: all ones.
    size : int or tuple of int, optional
        Leading batch axes.
    rng : int or numpy.random.Generator

    Returns
    -------
    array, shape (*size, n, d)

    Raises
    ------
    ValueError
        If a number is not positive or the spectrum does not have d eigenvalues.

    References
    ----------
    :cite:`LWTM26`, the data model.

    Examples
    --------
    >>> gaussian_features(3, 10, rng=0).shape
    (3, 10)
    """
    n, d = whole_number("n", n), whole_number("d", d)
    eigenvalues, multiplicities = _sized_blocks(spectrum, d)
    features = generator(rng).standard_normal((*_shape(size), n, d))
    features *= np.repeat(np.sqrt(eigenvalues), multiplicities)
    return features


def gaussian_gram(
    n: int, d: int, *, spectrum: Spectrum | None = None, size: Size = None, rng: Seed
) -> Array:
    r"""Draw :math:`G = X X^\top` of Gaussian features, exact in law, without drawing X.

    For a flat spectrum G is Wishart and :math:`G = T T^\top` with T lower triangular,
    :math:`T_{ii}^2 \sim \chi^2(d - i)` for i = 0, …, n − 1 and standard Gaussian entries below the
    diagonal (Bartlett): :math:`O(n^2)` numbers whatever d. Each block of equal eigenvalues adds
    one such matrix; blocks of fewer than n eigenvalues are drawn as features, some columns at a
    time.

    Parameters
    ----------
    n, d : int
        Number of examples and of features, d ≥ n.
    spectrum : pairs (eigenvalue, multiplicity) or array of d eigenvalues, optional
        Spectrum of the covariance. Default: all ones.
    size : int or tuple of int, optional
        Leading batch axes.
    rng : int or numpy.random.Generator

    Returns
    -------
    array, shape (*size, n, n)

    Raises
    ------
    ValueError
        If a number is not positive, n > d, or the spectrum does not have d eigenvalues.

    Examples
    --------
    >>> gram = gaussian_gram(3, 10**9, size=100, rng=0)
    >>> bool(np.abs(gram / 1e9 - np.eye(3)).max() < 1e-3)
    True
    """
    n, d = whole_number("n", n), whole_number("d", d)
    if n > d:
        raise ValueError(
            f"more examples than features: n = {n} > d = {d}, so the Gram matrix is singular; use "
            "fewer examples or more features"
        )
    eigenvalues, multiplicities = _merged(*_sized_blocks(spectrum, d))
    shape, rng = _shape(size), generator(rng)
    gram = np.zeros((*shape, n, n))
    wide = multiplicities >= n
    for eigenvalue, multiplicity in zip(eigenvalues[wide], multiplicities[wide], strict=True):
        gram += eigenvalue * _wishart(n, int(multiplicity), shape, rng)
    columns = np.repeat(np.sqrt(eigenvalues[~wide]), multiplicities[~wide])
    width = max(1, _NUMBERS // max(1, n * int(np.prod(shape))))
    for first in range(0, len(columns), width):
        scales = columns[first : first + width]
        features = rng.standard_normal((*shape, n, len(scales))) * scales
        gram += features @ features.swapaxes(-1, -2)
    return gram


def power_spectrum(d: int, exponent: float) -> Array:
    r"""Spectrum :math:`\lambda_k = k^{-p}`, k = 1, …, d, with p = `exponent` ≥ 0.

    Returns
    -------
    array, shape (d,)

    Examples
    --------
    >>> power_spectrum(3, 1.0)
    array([1.        , 0.5       , 0.33333333])
    """
    power = real_number("exponent", exponent)
    if not power >= 0:
        raise ValueError(f"exponent must be at least 0 (a falling spectrum), got {power}")
    spectrum = np.arange(1.0, whole_number("d", d) + 1.0) ** -power
    if spectrum[-1] < _SMALLEST:
        raise ValueError(
            f"exponent is too large for d = {d}, got {power}: the last eigenvalue "
            f"{spectrum[-1]:.4g} vanishes to rounding; give a smaller one"
        )
    return spectrum


def effective_dimensions(spectrum: Spectrum) -> EffectiveDimensions:
    r"""Trace and effective dimensions :math:`d_2`, :math:`d_\infty` of a spectrum.

    Parameters
    ----------
    spectrum : pairs (eigenvalue, multiplicity) or array of eigenvalues

    References
    ----------
    :cite:`LWTM26`, the assumptions on the spectrum.

    Examples
    --------
    >>> effective_dimensions([(1.0, 400)])
    EffectiveDimensions(trace=400.0, d2=400.0, d_inf=400.0)
    """
    eigenvalues, multiplicities = _blocks(spectrum)
    relative = eigenvalues / eigenvalues.max()  # whose squares neither overflow nor all vanish
    count = float(relative @ multiplicities)
    return EffectiveDimensions(
        trace=float(eigenvalues @ multiplicities),
        d2=count**2 / float(relative**2 @ multiplicities),
        d_inf=count,
    )


def signed_labels(
    n: int,
    *,
    positive: float = 0.5,
    low: float = 1.0,
    high: float = 2.0,
    size: Size = None,
    rng: Seed,
) -> Array:
    r"""Draw labels with :math:`|y_i|` uniform on [low, high] and a fixed share of positive ones.

    The first ``positive * n`` labels (rounded, halves up) are positive and the others negative:
    the features' rows are exchangeable, so a fixed order loses nothing and sorts the pictures.

    Parameters
    ----------
    n : int
        Number of labels.
    positive : float
        Share of positive labels, between 0 and 1.
    low, high : float
        Range of :math:`|y_i|`, 0 < low ≤ high.
    size : int or tuple of int, optional
        Leading batch axes.
    rng : int or numpy.random.Generator

    Returns
    -------
    array, shape (*size, n)

    Examples
    --------
    >>> np.sign(signed_labels(4, rng=0))
    array([ 1.,  1., -1., -1.])
    """
    n = whole_number("n", n)
    low, high = positive_number("low", low), positive_number("high", high)
    share = real_number("positive", positive)
    if not 0 <= share <= 1:
        raise ValueError(f"positive must be a share between 0 and 1, got {share}")
    if low > high:
        raise ValueError(f"low must not exceed high, got low = {low}, high = {high}")
    labels = generator(rng).uniform(low, high, (*_shape(size), n))
    labels[..., int(share * n + 0.5) :] *= -1.0
    return labels


def orthogonal_features(n: int, d: int, *, scale: float = 1.0, rng: Seed) -> Array:
    r"""Draw n orthogonal rows of squared length `scale` in d dimensions: :math:`G =` scale · I.

    Returns
    -------
    array, shape (n, d)

    Raises
    ------
    ValueError
        If n > d or `scale` is not positive.

    References
    ----------
    :cite:`BPF22`, orthogonal inputs.

    Examples
    --------
    >>> X = orthogonal_features(2, 5, scale=4.0, rng=0)
    >>> np.round(np.abs(X @ X.T), 12)
    array([[4., 0.],
           [0., 4.]])
    """
    n, d = whole_number("n", n), whole_number("d", d)
    if n > d:
        raise ValueError(f"n orthogonal rows need d ≥ n features, got n = {n}, d = {d}")
    frame = np.linalg.qr(generator(rng).standard_normal((d, n)))[0]
    return np.asarray(np.sqrt(positive_number("scale", scale)) * frame.T)


def _wishart(n: int, degrees: int, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Bartlett: Wishart matrices of dimension n with `degrees` ≥ n degrees of freedom."""
    factor = np.zeros((*shape, n, n))
    below = np.tril_indices(n, -1)
    factor[..., below[0], below[1]] = rng.standard_normal((*shape, len(below[0])))
    diagonal = np.arange(n)
    factor[..., diagonal, diagonal] = np.sqrt(rng.chisquare(degrees - diagonal, (*shape, n)))
    return np.asarray(factor @ factor.swapaxes(-1, -2))


def _shape(size: Size) -> tuple[int, ...]:
    if size is None:
        return ()
    axes = size if isinstance(size, tuple) else (size,)
    return tuple(whole_number("size", axis) for axis in axes)


def _sized_blocks(spectrum: Spectrum | None, d: int) -> tuple[Array, Counts]:
    """Blocks of a spectrum of exactly d eigenvalues; all ones by default."""
    if spectrum is None:
        return np.ones(1), np.array([d])
    eigenvalues, multiplicities = _blocks(spectrum)
    if multiplicities.sum() != d:
        raise ValueError(
            f"spectrum must have d = {d} eigenvalues counted with multiplicity, got "
            f"{multiplicities.sum()}"
        )
    return eigenvalues, multiplicities


def _blocks(spectrum: Spectrum) -> tuple[Array, Counts]:
    """Eigenvalues and multiplicities, in the order given."""
    table = finite_array("spectrum", spectrum)
    if table.ndim == 1 and table.size:
        table = np.column_stack([table, np.ones(len(table))])
    if table.ndim != 2 or table.shape[1] != 2 or not table.size:
        raise ValueError(
            "spectrum must be pairs (eigenvalue, multiplicity) or a one-dimensional array of "
            f"eigenvalues, got shape {table.shape}"
        )
    eigenvalues, multiplicities = table.T
    if (eigenvalues <= 0).any():
        raise ValueError(f"eigenvalues in spectrum must be positive, got {eigenvalues.min()}")
    wrong = (multiplicities != np.floor(multiplicities)) | (multiplicities < 1)
    if wrong.any():
        raise ValueError(
            "multiplicities in spectrum must be whole numbers of at least 1, got "
            f"{multiplicities[wrong][0]:.4g}"
        )
    if eigenvalues.min() < _SMALLEST or eigenvalues.max() > _LARGEST / multiplicities.sum():
        raise ValueError(
            f"eigenvalues in spectrum must be at least {_SMALLEST} and add up to at most "
            f"{_LARGEST}, got {eigenvalues.min():.4g} to {eigenvalues.max():.4g}; change the unit"
        )
    if multiplicities.sum() > 2**53:
        raise ValueError(
            f"spectrum has {multiplicities.sum():.4g} eigenvalues, which is more than floats can "
            "count (2**53); give smaller multiplicities"
        )
    return eigenvalues, multiplicities.astype(np.int64)


def _merged(eigenvalues: Array, multiplicities: Counts) -> tuple[Array, Counts]:
    """Group equal eigenvalues into one block each."""
    distinct, block = np.unique(eigenvalues, return_inverse=True)
    return distinct, np.bincount(block, weights=multiplicities).astype(np.int64)
