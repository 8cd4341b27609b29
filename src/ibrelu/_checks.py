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


def positive_number(name: str, value: object) -> float:
    """`value` as a float; an error unless it is one finite number above zero."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name} must be a positive number, got {value!r}")
    number = float(np.real(value))
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a positive finite number, got {number}")
    return number


def whole_number(name: str, value: object, least: int = 1) -> int:
    """`value` as an int; an error unless it is a whole number of at least `least`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return int(value)


def generator(rng: Seed) -> np.random.Generator:
    """Return the generator itself, or one made from an integer seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(whole_number("rng (a seed or a numpy Generator)", rng, least=0))
