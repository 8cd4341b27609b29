"""Checks at the boundary: say what was given, what is expected, and how to mend it."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Seed: TypeAlias = int | np.random.Generator


def finite_array(name: str, value: ArrayLike) -> Array:
    """Float64 copy of `value`; TypeError if it is not numeric, ValueError if NaN or infinite."""
    check_unmasked(name, value)
    try:
        raw = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{name} must be an array: rows of one length, got rows of several ({error})"
        ) from None
    if raw.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must be an array of real numbers, got dtype {raw.dtype}; "
            "convert it first, e.g. with numpy.asarray(..., dtype=float)"
        )
    array = np.array(raw, dtype=np.float64)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(
            f"{name} must be finite, got {array[where]} at index {where}; "
            "remove or impute the NaN or infinite entries first"
        )
    return array


def check_unmasked(name: str, value: object) -> None:
    """Refuse a masked array: NumPy would go on with whatever lies under the mask."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(
            f"{name} has masked entries, which are no numbers; fill them in, e.g. with "
            "numpy.ma.filled(..., value), or drop their examples first"
        )


def check_kind(name: str, value: object, kind: type, cure: str) -> None:
    """Refuse anything but an instance of `kind`; `cure` says how to make one."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got a {type(value).__name__}; {cure}")


def real_number(name: str, value: object, expected: str = "a number") -> float:
    """`value` as a float, infinite if too large for one; a TypeError unless it is one number."""
    real = isinstance(value, (int, float, np.integer, np.floating))
    if not real or isinstance(value, bool):
        raise TypeError(f"{name} must be {expected}, got {value!r}")
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return np.inf if value > 0 else -np.inf  # type: ignore[operator]


def positive_number(name: str, value: object) -> float:
    """`value` as a float; an error unless it is one finite number above zero."""
    number = real_number(name, value, "a positive number")
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a positive finite number, got {number}")
    return number


def whole_number(name: str, value: object, least: int = 1, most: int = 2**53) -> int:
    """`value` as an int; an error unless it is a whole number from `least` to `most`.

    By default `most` is the number up to which floats count without gaps.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}, got {real_number(name, value):.4g}")
    return int(value)


def generator(rng: Seed) -> np.random.Generator:
    """Return the generator itself, or one made from an integer seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, (int, np.integer)):
        raise TypeError(
            f"rng must be a seed (a whole number) or a numpy Generator, got {rng!r}; give e.g. "
            "rng=0 or rng=numpy.random.default_rng(0)"
        )
    if rng < 0:
        raise ValueError(f"rng, as a seed, must be at least 0, got {rng}")
    return np.random.default_rng(int(rng))
