"""Compiled kernels for small problems, used where numba is installed (`pip install ibrelu[fast]`).

Each does what a function of plain numpy beside its caller does, with the same signature and the
same results; where numba is missing, or `available` is set to False, that one is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from ibrelu._checks import Array

LARGEST = 128  # examples; beyond, a step is dominated by a product that BLAS does better
QUIET = 512  # plain steps without a change of pattern after which a block ends

available = find_spec("numba") is not None


def takes(n: int) -> bool:
    """Whether a problem of n examples is left to a kernel."""
    return available and n <= LARGEST


@cache
def compiled(kernel: Callable[..., Any], arguments: str) -> Callable[..., Any]:
    """Compile a kernel at its first use; later sessions load it from a cache on disk.

    `arguments` has a letter (f, i or b: float, integer, bool) and a number of axes an argument.
    """
    from numba import njit, types

    kinds = {"f": types.float64, "i": types.int64, "b": types.boolean}
    signature = tuple(
        types.Array(kinds[name[0]], int(name[1:]), "C", readonly=True) for name in arguments.split()
    )
    function: Callable[..., Any] = njit(signature, cache=True, error_model="numpy")(kernel)
    return function


def plain_steps(
    gram: Array,
    labels: Array,
    signs: Array,
    step: Array,
    start: Array,
    moved: Array,
    most: Any,
    ceiling: Array,
) -> tuple[Any, ...]:
    """Take plain steps of each run: `most`, or until it is quiet, or its loss above `ceiling`."""
    size, n, m = start.shape
    moved, beta = moved.copy(), np.empty_like(start)
    taken, last = np.zeros(size, np.int64), np.zeros(size, np.int64)
    peak, left = np.zeros(size), np.zeros(size)
    residual, primal, dual = np.empty(n), np.empty((m, n)), np.empty((m, n))
    active = np.zeros((m, n), np.bool_)
    for b in range(size):
        dual[:] = moved[b].T
        for t in range(most[b] + 1):
            changed = False
            for k in range(m):
                for i in range(n):
                    primal[k, i] = start[b, i, k]
                for j in range(n):
                    for i in range(n):
                        primal[k, i] += gram[b, j, i] * dual[k, j]
                for i in range(n):
                    positive = primal[k, i] > 0.0
                    changed |= positive != active[k, i]
                    active[k, i] = positive
            if changed and t > 0:
                last[b] = t
            if t == most[b] or t - last[b] >= QUIET or peak[b] > ceiling[b]:
                taken[b] = t
                break
            square, left[b] = 0.0, 0.0
            for i in range(n):
                output, used = -labels[b, i], False
                for k in range(m):
                    if active[k, i]:
                        output += primal[k, i] * signs[k]
                        used = True
                residual[i] = output
                square += output * output
                if used:
                    left[b] += output * output
            peak[b] = max(peak[b], square)
            for k in range(m):
                for i in range(n):
                    if active[k, i]:
                        dual[k, i] -= residual[i] * step[b] * signs[k]
        moved[b] = dual.T
        beta[b] = primal.T
    return moved, beta, taken, last, peak, left


def pivot(
    matrix: Array, level: Array, bounded: Any, start: Any, tolerance: Array
) -> tuple[Any, ...]:
    """Block principal pivoting on each program, by a factorisation L D Lᵀ that follows the set.

    Unknowns are factorised in the order in which they became active, so an exchange redoes only
    what comes after it.
    """
    size, n = level.shape
    multipliers, active = np.zeros((size, n)), start | ~bounded
    unsettled = np.ones(size, np.bool_)
    upper, row, pivots, inner = np.empty((n, n)), np.empty(n), np.empty(n), np.empty(n)
    order, found, wrong = np.empty(n, np.int64), np.empty(n), np.empty(n, np.bool_)
    for b in range(size):
        count, valid, fewest, patience = 0, 0, n + 1, 3
        for i in range(n):
            if active[b, i]:
                order[count] = i
                count += 1
        for _ in range(100 + 20 * n):
            for r in range(valid, count):
                i = order[r]
                for c in range(r):
                    row[c] = matrix[b, i, order[c]]
                pivots[r], inner[r] = matrix[b, i, i], level[b, i]
                for c in range(r):
                    share = row[c] / pivots[c]
                    for q in range(c + 1, r):
                        row[q] -= row[c] * upper[c, q]
                    pivots[r] -= share * row[c]
                    inner[r] -= share * inner[c]
                    upper[c, r] = share
            found[:] = 0.0
            for r in range(count - 1, -1, -1):
                value = inner[r] / pivots[r]
                for c in range(r + 1, count):
                    value -= upper[r, c] * found[order[c]]
                found[order[r]] = value
            bad, worst = 0, -1
            for i in range(n):
                if not bounded[b, i]:
                    wrong[i] = False
                    continue
                if active[b, i]:
                    excess = found[i] * matrix[b, i, i]
                else:
                    excess = -level[b, i]
                    for r in range(count):
                        excess += matrix[b, i, order[r]] * found[order[r]]
                wrong[i] = excess > tolerance[b]
                if wrong[i]:
                    bad, worst = bad + 1, i
            if bad == 0:
                unsettled[b] = False
                break
            patience = 3 if bad < fewest else patience - 1
            fewest = min(fewest, bad)
            valid, kept = count, 0
            for i in range(n):
                if wrong[i] and (patience > 0 or i == worst):
                    active[b, i] = not active[b, i]
            for r in range(count):
                if active[b, order[r]]:
                    order[kept] = order[r]
                    kept += 1
                else:
                    valid = min(valid, kept)
            count = kept
            for i in range(n):
                if wrong[i] and active[b, i] and (patience > 0 or i == worst):
                    order[count] = i
                    count += 1
        multipliers[b] = found
    return multipliers, active, unsettled
