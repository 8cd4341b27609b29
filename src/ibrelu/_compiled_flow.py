"""A compiled run of gradient flow for small problems, used where numba is installed.

It does what `_run` does in `flow`, phase by phase, with the same tests and tolerances, but with
less work a phase:

- Each neuron's Gram matrix is kept swept on its sliding pairs, so that a pair's coming or going is
  one update of rank 1 and no system is ever solved.
- The residual is followed in the space that Lanczos' method builds from it. With k vectors, whose
  couplings are b_1, ..., b_k, the residual at time t is off by at most b_1 ... b_k t^k / k! of
  |r(0)| exp(-λt), λ the slowest decay, so the vectors are added that the next event's time needs,
  in a dense sequence of events a few. With as many as moving examples there is no error.
- A quantity is worked out only if the parabola below it comes to 0 before the first root so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ibrelu._checks import Array
from ibrelu._compiled import part

INACTIVE, ACTIVE, SLIDING = 0, 1, 2
TIE, NOISE, PROVEN, REST = 1e-12, 1e-15, 1e-13, 1e-14  # as in `flow`
FEWEST = 3  # vectors to begin with
CLOSE = 1e-16  # what an extra vector could change, relative to the residual
RENEWED = 16  # phases after which the swept matrices are made afresh


@part
def sweep(matrix: Array, swept: Any, wanted: Any) -> None:
    """Sweep a symmetric matrix on the wanted indices S only.

    Its blocks are then -G_SS⁻¹, G_SS⁻¹ G_ST and G_TT - G_TS G_SS⁻¹ G_ST, T the other indices.
    """
    n = len(matrix)
    for p in range(n):
        if swept[p] == wanted[p]:
            continue
        swept[p] = wanted[p]
        pivot, row = matrix[p, p], matrix[p].copy()
        for i in range(n):
            share = row[i] / pivot
            for j in range(n):
                matrix[i, j] -= share * row[j]
        for i in range(n):
            matrix[p, i] = matrix[i, p] = row[i] / abs(pivot)
        matrix[p, p] = -1.0 / pivot


@part
def multiply(matrix: Array, vector: Array, out: Array) -> None:
    """Put the product with a symmetric matrix into `out`, four columns at a time."""
    n, whole = len(out), len(out) // 4 * 4
    for i in range(n):
        out[i] = 0.0
    for j in range(0, whole, 4):
        a, b, c, d = vector[j], vector[j + 1], vector[j + 2], vector[j + 3]
        for i in range(n):
            out[i] += (
                matrix[j, i] * a
                + matrix[j + 1, i] * b
                + matrix[j + 2, i] * c
                + matrix[j + 3, i] * d
            )
    for j in range(whole, n):
        for i in range(n):
            out[i] += matrix[j, i] * vector[j]


@part
def extend(matrix: Array, state: Any, basis: Array, image: Array, small: Array, j: int) -> Any:
    """Add what vector j of Lanczos' method gives: its image, its rows of T and the next vector."""
    m, n = state.shape
    own, forth = np.empty(n), np.zeros(n)
    for k in range(m):
        for i in range(n):
            own[i] = basis[j, i] if state[k, i] == ACTIVE else 0.0
        multiply(matrix[k], own, image[k, j])
        for i in range(n):
            if state[k, i] == ACTIVE:
                forth[i] += image[k, j, i]
    small[j, j] = np.dot(basis[j], forth)
    for _ in range(2):
        forth -= np.dot(np.dot(basis[: j + 1], forth), basis[: j + 1])
    coupling = np.sqrt(np.dot(forth, forth))
    if j + 1 < n and coupling > 0.0:
        small[j, j + 1] = small[j + 1, j] = coupling
        for i in range(n):
            basis[j + 1, i] = forth[i] / coupling
    return coupling


@part
def safe_step(value: float, slope: float, bend: float) -> Any:
    """First positive root of value + slope·τ - bend·τ²/2, value and bend ≥ 0; inf if none."""
    root = np.sqrt(slope * slope + 2.0 * bend * value)
    if slope < 0.0:
        return 2.0 * value / (root - slope)
    return (slope + root) / bend if bend > 0.0 else np.inf


@part
def first_root(decay: Array, coefficients: Array, value: float, size: float, end: float) -> Any:
    """First root, as `_first_roots` of `flow` finds it; inf if none until `end`."""
    limit, time = value, 0.0
    for e in range(len(decay)):
        limit -= coefficients[e]
    while time <= end:
        now, slope, bend, rise, third, lowest, partial = value, 0.0, 0.0, 0.0, 0.0, limit, limit
        for e in range(len(decay)):
            gone = np.expm1(-decay[e] * time)
            term = coefficients[e] * (1.0 + gone)
            now += coefficients[e] * gone
            partial += term
            lowest = min(lowest, partial)
            slope -= term * decay[e]
            bend -= min(term, 0.0) * decay[e] ** 2
            rise += term * decay[e] ** 2
            third += max(term, 0.0) * decay[e] ** 3
        if lowest >= -PROVEN * size:
            break
        if time == 0.0 and now <= NOISE * size and abs(slope) <= REST * size * decay[-1]:
            time = 3.0 * max(rise, 0.0) / third if third > 0.0 else np.inf
            if time == 0.0:
                return time
            continue
        step = safe_step(max(now, 0.0), slope, bend)
        if (now <= NOISE * size and slope < 0.0) or time + step <= time:
            return time + step
        time += step
    return np.inf


@part
def first_hits(
    data: Any, pattern: Any, space: Any, decay: Array, vectors: Array, end: float
) -> Any:
    """Time of the first event, inf if there is none until `end`, and the roots of free primals."""
    (lengths, signs), (state, beta, residual), (norm, basis, image) = data, pattern, space
    m, n = state.shape
    size, weight = len(decay), vectors[0]
    rows, value = np.empty((2 * m * n, size)), np.empty(2 * m * n)
    earliest, roots = np.full(2 * m * n, np.inf), np.full(2 * m * n, np.inf)
    reach = np.empty(2 * m * n)
    modes = np.sqrt(((weight / decay) ** 2).sum())
    steep = np.sqrt(((weight * decay) ** 2).sum()), np.sqrt(((weight * decay**2) ** 2).sum())
    turned = np.dot(vectors, weight * decay)
    for k in range(m):
        pull, total = signs[k] * norm, 0.0
        for i in range(n):
            total += lengths[i] ** 2 if state[k, i] == ACTIVE else 0.0
        for i in range(n):
            free = state[k, i] != SLIDING
            for side in range(1 if free else 2):
                q = (side * m + k) * n + i
                away = -1.0 if side == 1 or state[k, i] == INACTIVE else 1.0
                square, slope = 0.0, 0.0
                for e in range(size):
                    rows[q, e] = pull * (side * basis[e, i] - away * image[k, e, i])
                    square += rows[q, e] ** 2
                    slope -= rows[q, e] * turned[e]
                if free:
                    value[q], slope = away * beta[k, i], rows[q, 0]
                    reach[q] = norm * modes * np.sqrt(total) * lengths[i]
                else:
                    value[q] = -away * pull * image[k, 0, i] + side * signs[k] * residual[i]
                    reach[q] = norm * np.sqrt(total) / lengths[i]
                bend = np.sqrt(square) * (steep[0] if free else steep[1])
                earliest[q] = safe_step(max(value[q], 0.0), slope, bend)
    span, first = np.inf, end
    while True:
        q = earliest.argmin()
        if earliest[q] == np.inf or earliest[q] > first * (1.0 + TIE):
            return span, roots[: m * n].reshape(m, n)
        earliest[q] = np.inf
        free = state[q // n % m, q % n] != SLIDING
        coefficients = np.dot(rows[q], vectors) * weight
        most = abs(value[q])
        for e in range(size):
            coefficients[e] /= -decay[e] if free else 1.0
            most += abs(coefficients[e])
        root = first_root(decay, coefficients, value[q], max(reach[q], most), first * (1.0 + TIE))
        if root < span:
            span = first = root
        roots[q] = root if free else np.inf


@part
def settle(
    matrix: Array, swept: Any, kept: Any, rate: Array, lower: Array, upper: Array, rest: Array
) -> Array:
    """Put the rates of the pairs kept on the kink into `rate`; return the velocities.

    The conditions of `_kink_rates` in `flow`, by exchanging the first wrong pair alone.
    """
    n = len(kept)
    slides, side, velocity = kept.copy(), np.zeros(n), np.empty(n)
    while True:
        sweep(matrix, swept, slides)
        for i in range(n):
            if slides[i]:
                rate[i] = 0.0
        multiply(matrix, rate, velocity)
        wrong, bound = -1, 0.0
        for i in range(n - 1, -1, -1):
            if slides[i]:
                rate[i], velocity[i] = -velocity[i], 0.0
                nearest = min(max(rate[i], lower[i]), upper[i])
                if abs(rate[i] - nearest) > rest[0, i]:
                    wrong, bound = i, nearest
            elif kept[i] and side[i] * velocity[i] > rest[1, i]:
                wrong = i
        if wrong < 0:
            return velocity
        side[wrong] = np.sign(rate[wrong] - bound)
        slides[wrong] = not slides[wrong]
        rate[wrong] = bound


@part
def turn(data: Any, pattern: Any, matrix: Array, swept: Any, push: Array, arrived: Any) -> None:
    """Let the arrived pairs and rates that meet their bounds change state, as `_turn` of `flow`."""
    (lengths, signs), (state, beta, residual) = data, pattern
    m, n = state.shape
    low, high = np.zeros((m, n), np.bool_), np.zeros((m, n), np.bool_)
    kept, source = np.zeros(n, np.bool_), residual
    rate, lower, upper, rest = np.empty(n), np.empty(n), np.empty(n), np.empty((2, n))
    for stage in range(2):
        slope = np.zeros(n)
        for k in range(m):
            total, undecided = 0.0, 0
            for i in range(n):
                drive = -signs[k] * source[i]
                if stage == 0 and arrived[k, i]:
                    beta[k, i] = 0.0
                    state[k, i] = SLIDING if drive <= 0.0 else 1 - state[k, i]
                kept[i] = state[k, i] == SLIDING
                rate[i] = drive if state[k, i] == ACTIVE else 0.0
                total += lengths[i] ** 2 if state[k, i] == ACTIVE else 0.0
                lower[i], upper[i] = drive, 0.0
                if stage == 1:
                    upper[i] = 0.0 if high[k, i] else np.inf
                    lower[i] = min(drive, upper[i]) if low[k, i] else -np.inf
                    undecided += low[k, i] or high[k, i]
            if stage == 1 and undecided == 0:
                continue
            noise = REST * np.sqrt(np.dot(push, push) * total)
            for i in range(n):
                rest[0, i], rest[1, i] = noise / lengths[i], noise * lengths[i]
            velocity = settle(matrix[k], swept[k], kept, rate, lower, upper, rest)
            for i in range(n):
                if kept[i]:
                    low[k, i] = rate[i] <= lower[i] + rest[0, i]
                    high[k, i] = rate[i] >= upper[i] - rest[0, i]
                    wakes = low[k, i] and (velocity[i] > rest[1, i] or stage == 1)
                    drops = high[k, i] and (velocity[i] < -rest[1, i] or stage == 1)
                    if wakes or drops:
                        state[k, i] = INACTIVE if drops else ACTIVE
                        low[k, i] = high[k, i] = False
                if state[k, i] == ACTIVE:
                    slope[i] += signs[k] * velocity[i]
        source = push = slope


def run(gram: Array, labels: Array, signs: Array, alpha: Array, beta: Array, most: Any) -> Any:
    """Run to the limit, or until `most` times of events.

    Dual and primal variables are of shape (m, n). Return, for the start of each phase and then the
    limit (at time inf), the time, the states (0, 1 or 2), and alpha, beta and the residual.
    """
    m, n = beta.shape
    times, states = np.empty(most[0] + 2), np.empty((most[0] + 2, m, n), np.int8)
    values = np.empty((most[0] + 2, 2 * m + 1, n))
    state, residual = np.empty((m, n), np.int8), -labels
    alpha, beta = alpha.copy(), beta.copy()
    matrix, swept = np.empty((m, n, n)), np.zeros((m, n), np.bool_)
    basis, image, small = np.empty((n, n)), np.empty((m, n, n)), np.empty((n, n))
    lengths = np.empty(n)
    for i in range(n):
        lengths[i] = np.sqrt(gram[i, i])
        for k in range(m):
            state[k, i] = ACTIVE if beta[k, i] > 0.0 else INACTIVE
            residual[i] += signs[k] * max(beta[k, i], 0.0)
    data, pattern, time, phase, size = (lengths, signs), (state, beta, residual), 0.0, 0, 0
    while True:
        whole = 0
        for i in range(n):
            moves = False
            for k in range(m):
                moves |= state[k, i] == ACTIVE
                states[phase, k, i] = state[k, i]
                values[phase, k, i], values[phase, m + k, i] = alpha[k, i], beta[k, i]
            whole += moves
            basis[0, i] = residual[i] if moves else 0.0
            values[phase, 2 * m, i] = residual[i] = residual[i] if moves else -labels[i]
        times[phase] = time
        if phase == most[0] or time == np.inf:
            return times[: phase + 1], states[: phase + 1], values[: phase + 1]
        norm, phase = np.sqrt(np.dot(basis[0], basis[0])), phase + 1
        if norm == 0.0:
            time = np.inf
            continue
        for k in range(m):
            if phase % RENEWED == 1:
                for i in range(n):
                    swept[k, i] = False
                    for j in range(n):
                        matrix[k, i, j] = gram[i, j]
            sweep(matrix[k], swept[k], state[k] == SLIDING)
        basis[0] /= norm
        small[:] = 0.0
        wanted = max(FEWEST, size // 2)
        size, error, span, end = 0, np.log(CLOSE), np.inf, 0.0
        while span == np.inf and end < np.inf:
            while size < min(whole, wanted):
                coupling = extend(matrix, state, basis, image, small, size)
                size += 1
                if coupling <= 10.0 * CLOSE * small[0, 0]:
                    whole = size
                else:
                    error += np.log(size / coupling)
            end = np.exp(error / size) if size < whole else np.inf
            wanted = size + size // 2 + 2
            decay, vectors = np.linalg.eigh(small[:size, :size])
            vectors = np.ascontiguousarray(vectors)
            space = (norm, basis, image)
            span, roots = first_hits(data, pattern, space, decay, vectors, end)
        left = np.dot(vectors, norm * vectors[0] * np.exp(-decay * span))
        passed = np.dot(vectors, norm * vectors[0] * -np.expm1(-decay * span) / decay)
        moved, remains = np.dot(passed, basis[:size]), np.dot(left, basis[:size])
        for k in range(m):
            change = np.zeros(n)
            for e in range(size):
                for i in range(n):
                    change[i] += image[k, e, i] * passed[e]
            for i in range(n):
                if state[k, i] == SLIDING:
                    alpha[k, i] += signs[k] * change[i]
                    continue
                beta[k, i] -= signs[k] * change[i]
                if state[k, i] == ACTIVE:
                    alpha[k, i] -= signs[k] * moved[i]
                    residual[i] = remains[i]
        time += span
        if span < np.inf:
            arrived = roots <= span * (1.0 + TIE)
            turn(data, pattern, matrix, swept, remains, arrived)
