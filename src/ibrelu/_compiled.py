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
ROUNDING = 8 * np.finfo(float).eps  # of a sum, relative to its terms
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


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call a function: it is compiled with them where numba is installed."""
    if find_spec("numba") is None:
        return function
    from numba.extending import register_jitable

    jitable: Callable[..., Any] = register_jitable(error_model="numpy")(function)
    return jitable


@part
def factorise(matrix: Any, count: Any) -> Any:
    """Put the lower Cholesky factor of the first rows in their place; False if there is none."""
    for r in range(count):
        for c in range(r + 1):
            value = matrix[r, c]
            for q in range(c):
                value -= matrix[r, q] * matrix[c, q]
            if c < r:
                matrix[r, c] = value / matrix[c, c]
            elif value > 0.0:
                matrix[r, r] = np.sqrt(value)
            else:
                return False
    return True


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


def limits(
    gram: Array,
    labels: Array,
    signs: Array,
    step: Array,
    moved: Array,
    beta: Array,
    settling: Any,
) -> tuple[Any, ...]:
    """Return each run's limit, where its pattern is proven final, and whether it is."""
    size, n, m = beta.shape
    moved, beta, final = moved.copy(), beta.copy(), np.zeros(size, np.bool_)
    flickering = settling.any()
    rows, residual, total = np.empty(n, np.int64), np.empty(n), np.empty(n)
    coupled, lower = np.empty((n, n)), np.empty((n, n))
    shift, limit = np.empty((m, n)), np.empty((m, n))
    for b in range(size):
        count = 0
        for i in range(n):
            output, used = -labels[b, i], False
            for k in range(m):
                if beta[b, i, k] > 0.0:
                    output += beta[b, i, k] * signs[k]
                    used = True
            if used:
                rows[count], residual[count] = i, output
                count += 1
        largest = 0.0
        for r in range(count):
            reach = 0.0
            for c in range(count):
                i, j, shared = rows[r], rows[c], 0
                for k in range(m):
                    shared += beta[b, i, k] > 0.0 and beta[b, j, k] > 0.0
                coupled[r, c] = gram[b, i, j] * shared
                reach += abs(coupled[r, c])
            largest = max(largest, reach)
        contracts = step[b] * largest < 2.0
        if not contracts:
            for r in range(count):
                for c in range(count):
                    lower[r, c] = -coupled[r, c]
                lower[r, r] += 2.0 / step[b]
            contracts = factorise(lower, count)
        for r in range(count):
            for c in range(count):
                lower[r, c] = coupled[r, c]
        factorise(lower, count)
        energy = 0.0
        for r in range(count):
            total[r] = residual[r]
            for c in range(r):
                total[r] -= lower[r, c] * total[c]
            total[r] /= lower[r, r]
            energy += total[r] * total[r]
        for r in range(count - 1, -1, -1):
            total[r] /= lower[r, r]
            for c in range(r):
                total[c] -= lower[r, c] * total[r]
        for k in range(m):
            shift[k] = 0.0
            for r in range(count):
                if beta[b, rows[r], k] > 0.0:
                    shift[k, rows[r]] = -signs[k] * total[r]
            for i in range(n):
                limit[k, i] = beta[b, i, k]
            for r in range(count):
                for i in range(n):
                    limit[k, i] += gram[b, rows[r], i] * shift[k, rows[r]]
        reach, biggest = 0.0, 0.0
        if flickering:
            for i in range(n):
                size_here = np.abs(moved[b, i]).max()
                reach += np.sqrt(gram[b, i, i]) * size_here
                biggest = max(biggest, size_here)
        silent = flickering
        for r in range(count):
            i = rows[r]
            sums = abs(labels[b, i]) + np.sqrt(gram[b, i, i]) * reach + biggest / step[b]
            silent = silent and abs(residual[r]) <= ROUNDING * sums
        proven, flickers, r = True, False, 0
        for i in range(n):
            length = np.sqrt(gram[b, i, i])
            spread = length * np.sqrt(energy) * (1 + 1e-9)
            noise = ROUNDING * (abs(labels[b, i]) + length * reach + biggest / step[b])
            used = r < count and rows[r] == i
            r += used
            for k in range(m):
                there = limit[k, i]
                flicker = silent and used and abs(there) <= noise + 2 * spread
                flickers = flickers or flicker
                apart = there > spread if beta[b, i, k] > 0.0 else there <= -spread
                proven = proven and (apart or flicker)
        final[b] = proven and (contracts or flickers)
        if final[b]:
            moved[b] += shift.T
            beta[b] = limit.T
    return moved, beta, final


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
