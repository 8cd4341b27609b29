from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import nnls

from ibrelu.descent import gradient_descent
from ibrelu.features import gaussian_features, gaussian_gram, signed_labels
from ibrelu.min_norm import min_norm
from ibrelu.problem import Problem, all_active, disjoint, random_start
from ibrelu.theory import (
    coherence,
    conditions,
    dimension_bound,
    gap,
    gap_bounds,
    gap_constant,
    lemma_5,
    lemma_6,
    matching,
    predicted_limit,
    regression_limit,
    schur,
)

FULL = pytest.param(10_000, marks=pytest.mark.slow)
SIGNS = {1: (1,), 2: (1, -1), 3: (1, 1, -1), 4: (1, -1, 1, -1)}


def descend(problem, start, step, steps=600):
    """Gradient descent in plain steps: the last duals, and every pattern, time first."""
    alpha, beta = problem.dual(start), np.array(start)
    patterns = [beta > 0]
    for _ in range(steps):
        residual = np.maximum(beta, 0) @ problem.signs - problem.labels
        alpha = alpha - step[..., None, None] * residual[..., None] * problem.signs * (beta > 0)
        beta = problem.gram @ alpha
        patterns.append(beta > 0)
    return alpha, np.stack(patterns)


def raw_problems(n, m, size, rng):
    """Diagonals, off-diagonal directions of row sum 1, labels, steps and all-active starts.

    Many directions have the signs of the labels' products or their opposites: the worst cases.
    """
    spread = rng.choice([0.0, 0.3, 1.0], (2, size, 1))
    diagonal = 1 + spread[0] * rng.random((size, n))
    labels = rng.choice([-1.0, 1.0], (size, n)) * (1 + spread[1] * rng.random((size, n)))
    aligned = np.sign(labels[:, :, None] * labels[:, None, :])
    kinds = [aligned, -aligned, np.sign(rng.standard_normal((size, n, n)))]
    kinds.append(rng.standard_normal((size, n, n)))
    direction = np.triu(np.stack(kinds)[rng.integers(0, 4, size), np.arange(size)], 1)
    direction = direction + direction.swapaxes(-1, -2)
    direction /= np.abs(direction).sum(-1).max(-1)[:, None, None]
    step = rng.uniform(0.2, 0.95, size) / diagonal.max(-1)
    room = step * np.abs(labels).min(-1) / (1 + (m - 1) * step)
    top = np.exp(rng.uniform(np.log(1e-4), np.log(0.6), size)) * room
    start = top[:, None, None] * rng.uniform(rng.choice([0.01, 1.0]), 1, (size, n, m))
    return diagonal, direction, labels, step, start


def bisect(holds, low, high, rounds=30):
    """Largest values between `low`, where `holds` is true, and `high`, to rounding."""
    for _ in range(rounds):
        middle = (low + high) / 2
        true = holds(middle)
        low, high = np.where(true, middle, low), np.where(true, high, middle)
    return low


def near_edge(n, m, size, rng, beyond=1.0):
    """Problems whose conditions just hold (`beyond` = 1), or with larger off-diagonal entries."""
    diagonal, direction, labels, step, start = raw_problems(n, m, size, rng)

    def problem(amount):
        gram = np.eye(n) * diagonal[:, None, :] + amount[:, None, None] * direction
        return Problem(gram, labels, SIGNS[m])

    def holds(amount):
        return conditions(problem(amount), start, step).hold

    amount = bisect(holds, np.zeros(size), np.full(size, 0.95))
    return problem(np.minimum(beyond * amount, 0.95)), start, step


def near_edge_disjoint(n, m, size, rng, beyond=1.0):
    """Disjoint starts whose depth just satisfies the bound (`beyond` = 1), or shallower ones."""
    diagonal, direction, labels, step, _ = raw_problems(n, m, size, rng)
    gram = np.eye(n) * diagonal[:, None, :] + rng.uniform(0.01, 0.3, (size, 1, 1)) * direction
    problem = Problem(gram, labels, SIGNS[m])
    owners = np.argmax(matching(problem) * rng.random((size, n, m)), axis=-1)
    owned = owners[..., None] == np.arange(m)
    wanted = rng.uniform(0.001, 0.1, (size, n, m))
    unevenness = rng.uniform(1.0, 1.3, (size, n, m))

    columns = owned.swapaxes(-1, -2)
    pair = columns[..., :, None] & columns[..., None, :]
    blocks = np.where(pair, gram[:, None], np.eye(n))

    def start(shallow):
        frozen = np.where(owned, 0.0, -shallow[:, None, None] * unevenness)
        right = np.where(owned, wanted - gram @ frozen, 0.0).swapaxes(-1, -2)
        own = np.linalg.solve(blocks, right[..., None])[..., 0].swapaxes(-1, -2)
        return problem.primal(frozen + own)

    deep = np.full(size, 20.0)
    kept = conditions(problem, start(deep), step).hold
    edge = -bisect(lambda depth: conditions(problem, start(-depth), step).hold, -deep, 0 * deep, 25)
    chosen = start(edge / beyond)
    kept &= ((chosen > 0) == owned).all(axis=(-2, -1))
    return Problem(gram[kept], labels[kept], SIGNS[m]), chosen[kept], step[kept]


def reference_min_norm(gram, labels):
    """Duals of the single neuron's least norm, by non-negative least squares."""
    kept, rest = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
    inverse = np.linalg.inv(gram[np.ix_(kept, kept)])
    across = gram[np.ix_(rest, kept)]
    root = np.linalg.cholesky(gram[np.ix_(rest, rest)] - across @ inverse @ across.T)
    alpha = np.zeros(len(labels))
    if len(rest):
        pull = across @ inverse @ labels[kept]
        alpha[rest] = -nnls(root.T, np.linalg.solve(root, pull))[0]
    alpha[kept] = inverse @ (labels[kept] - across.T @ alpha[rest])
    return alpha


def gaussian_problem(n, d, seed, signs=(1,), size=None):
    rng = np.random.default_rng(seed)
    gram = gaussian_gram(n, d, size=size, rng=rng)
    return Problem(gram, signed_labels(n, size=size, rng=rng), signs)


# --- the a-priori conditions -----------------------------------------------------------------


@pytest.mark.parametrize("count", [500, FULL])
@pytest.mark.parametrize("m", [1, 2])
def test_no_counter_example_to_theorems_1_and_3_near_their_edge(m, count):
    rng = np.random.default_rng(m)
    for n in range(2, 9):
        problem, start, step = near_edge(n, m, count // 7 + 1, rng)
        found = conditions(problem, start, step)
        assert found.hold.all()
        assert np.quantile(found.margins.min(axis=-1), 0.9) < 1e-6
        alpha, patterns = descend(problem, start, step)
        assert (patterns[1:] == matching(problem)).all()
        np.testing.assert_allclose(alpha, predicted_limit(problem, start, step), atol=1e-11)


@pytest.mark.parametrize("m", [1, 2])
def test_beyond_their_edge_theorems_1_and_3_fail(m):
    rng = np.random.default_rng(m)
    problem, start, step = near_edge(4, m, 200, rng, beyond=2.0)
    _, patterns = descend(problem, start, step)
    broken = (patterns[1:] != matching(problem)).any(axis=(0, 2, 3))
    assert broken.sum() > 5
    assert not conditions(problem, start, step).hold[broken].any()


@pytest.mark.parametrize("count", [500, FULL])
def test_no_counter_example_to_the_depth_bound_of_disjoint_starts(count):
    rng = np.random.default_rng(0)
    searched = 0
    for n in range(2, 9):
        for m in (2, 3, 4):
            problem, start, step = near_edge_disjoint(n, m, count // 20, rng)
            found = conditions(problem, start, step)
            assert found.hold.all()
            assert np.quantile(found.others_stay_off, 0.9) < 1e-4
            alpha, patterns = descend(problem, start, step)
            assert (patterns == (start > 0)).all()
            np.testing.assert_allclose(alpha, predicted_limit(problem, start, step), atol=1e-10)
            searched += len(start)
    assert searched > 0.8 * count


def test_disjoint_starts_that_are_too_shallow_fail_and_are_not_guaranteed():
    rng = np.random.default_rng(0)
    problem, start, step = near_edge_disjoint(6, 4, 60, rng, beyond=3.0)
    found = conditions(problem, start, step)
    assert found.covered.all()
    assert not found.hold.any()
    _, patterns = descend(problem, start, step)
    assert (patterns != (start > 0)).any(axis=(0, 2, 3)).sum() > 2


@pytest.mark.parametrize("m", [1, 2])
def test_conditions_one_and_four_imply_the_other_two(m):
    rng = np.random.default_rng(5)
    for n in (2, 5):
        problem, start, step = near_edge(n, m, 400, rng, beyond=rng.uniform(0.5, 1.2, 400))
        margins = conditions(problem, start, step).margins
        implied = (margins[:, [0, 3]] > 0).all(axis=-1)
        assert 50 < implied.sum() < 350
        assert (margins[implied] > 0).all()


def test_margins_of_a_small_problem_are_those_computed_by_hand():
    problem = Problem([[2.0, 0.1], [0.1, 4.0]], [1.0, -2.0])
    found = conditions(problem, [[0.01], [0.02]], 0.2)
    g, big, reach, b, rho = 2.0, 4.0, 0.1, 0.02, 2.02
    start_dual = b / (g - reach)
    bound = start_dual + 0.2 * rho + rho / (g - reach)
    expected = [
        1 - 0.2 * (big + reach),
        1 - reach * rho / (g * 1.0),
        1 - (b + 0.2 * reach * rho) / (0.2 * g),
        1 - (start_dual + reach / g * bound) / 0.2,
    ]
    np.testing.assert_allclose(found.margins, expected, rtol=1e-12)
    assert found.hold == all(margin > 0 for margin in expected)


def test_margins_of_two_neurons_give_up_the_size_of_the_start():
    problem = Problem([[2.0, 0.1], [0.1, 2.0]], [1.0, -2.0], signs=(-1, 1))
    found = conditions(problem, [[0.05, 0.1], [0.05, 0.1]], 0.2)
    g, reach, b, rho = 2.0, 0.1, 0.1, 2.05
    later = max(rho, rho * (1 - 0.2 * (g - reach)) + b)
    start_dual = b / (g - reach)
    bound = start_dual + 0.2 * rho + later / (g - reach)
    expected = [
        1 - 0.2 * (g + reach),
        1 - reach * later / g,
        1 - (b + 0.2 * reach * rho + 0.2 * g * b) / (0.2 * g),
        1 - (start_dual + reach / g * bound + 0.2 * b) / 0.2,
    ]
    np.testing.assert_allclose(found.margins, expected, rtol=1e-12)


def test_margins_of_a_disjoint_start_ask_only_for_its_depth():
    problem = Problem(np.eye(3) * 4 + 0.1, [1.0, 2.0, -1.0], signs=(1, -1))
    start = disjoint(problem, [0, 0, 1], 0.1, depth=0.5)
    found = conditions(problem, start, 0.2)
    alpha = problem.dual(start)
    own = max(abs(alpha[0, 0]), abs(alpha[1, 0]), abs(alpha[2, 1]))
    np.testing.assert_allclose(
        found.others_stay_off, 1 - 0.2 / 4.1 * max(0.5, own + 1.9 / 3.9) / 0.5
    )
    np.testing.assert_allclose(found.matching_stay_active, 1 - 0.2 * 1.9 / 4.1)
    assert found.others_turn_off == np.inf


def test_a_disjoint_start_of_default_depth_is_guaranteed():
    problem = gaussian_problem(6, 100_000, 0, signs=(1, -1, 1, -1))
    start = disjoint(problem, [0, 2, 0, 1, 3, 1], 1e-3)
    assert conditions(problem, start, problem.step(0.5)).hold


def test_a_disjoint_start_of_small_depth_works_but_is_not_guaranteed():
    problem = gaussian_problem(6, 1600, 0, signs=(1, -1))
    start = disjoint(problem, [0, 0, 0, 1, 1, 1], 1e-3, depth=1e-9 + 2e-6)
    found = conditions(problem, start, problem.step(0.5))
    assert found.covered
    assert not found.hold
    assert found.others_stay_off < 0


@pytest.mark.parametrize(
    ("signs", "start"),
    [
        ((1,), [[0.1], [-0.1]]),
        ((1,), [[-0.1], [-0.1]]),
        ((1, 1), [[0.1, 0.1], [0.1, 0.1]]),
        ((1, -1, 1), [[0.1, 0.1, 0.1], [0.1, 0.1, 0.1]]),
        ((1, -1), [[-0.1, 0.1], [-0.1, 0.1]]),
        ((1, -1), [[0.1, 0.1], [-0.1, 0.1]]),
    ],
)
def test_other_starts_are_not_covered(signs, start):
    found = conditions(Problem(np.eye(2), [1.0, -1.0], signs), start, 0.5)
    assert not found.covered
    assert not found.hold
    assert np.isnan(found.margins).all()


def test_random_starts_of_a_batch_are_covered_one_by_one():
    problem = gaussian_problem(3, 1000, 0, size=64)
    start = random_start(problem, None, 1e-3, rng=1)
    found = conditions(problem, start, problem.step(0.5))
    np.testing.assert_array_equal(found.covered, (start > 0).all(axis=(-2, -1)))
    assert 0 < found.covered.sum() < 64


def test_without_diagonal_dominance_nothing_is_guaranteed():
    problem = Problem([[1.0, 0.7, 0.7], [0.7, 1.0, 0.7], [0.7, 0.7, 1.0]], [1.0, 1.0, -1.0])
    start = all_active(problem, 1e-3)
    found = conditions(problem, start, 0.1)
    assert found.others_stay_off == -np.inf
    assert not found.hold
    lower, upper = gap_bounds(problem, start, 0.1)
    assert (lower, upper) == (0.0, np.inf)


def test_a_negative_neuron_mirrors_a_positive_one():
    problem = gaussian_problem(6, 10_000, 3)
    mirror = Problem(problem.gram, -problem.labels, signs=(-1,))
    start, step = all_active(problem, 1e-3), problem.step(0.5)
    np.testing.assert_array_equal(
        conditions(problem, start, step).margins, conditions(mirror, start, step).margins
    )
    np.testing.assert_allclose(
        predicted_limit(problem, start, step), predicted_limit(mirror, start, step)
    )
    assert gap_bounds(problem, start, step) == gap_bounds(mirror, start, step)
    assert gap_constant(problem, 0.5) == gap_constant(mirror, 0.5)


# --- the lemmas ------------------------------------------------------------------------------


def random_states(n, m, size, rng, strength):
    """Random points of random problems, many of them near the lemmas' edges."""
    diagonal, direction, labels, _, _ = raw_problems(n, m, size, rng)
    gram = np.eye(n) * diagonal[:, None, :] + strength * direction
    problem = Problem(gram, labels, SIGNS[m])
    step = rng.uniform(0.2, 1.0, size) / diagonal.max(-1)
    size_of = np.exp(rng.uniform(-6, 1, (size, 1, 1)))
    return problem, size_of * rng.standard_normal((size, n, m)), step


@pytest.mark.parametrize("count", [500, FULL])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_lemma_5_has_no_counter_example(m, count):
    rng = np.random.default_rng(m)
    for n in range(2, 7):
        problem, beta, step = random_states(n, m, count, rng, 0.45)
        found = lemma_5(problem, beta, step)
        assert found.hypothesis.sum() > count // 20
        assert not found.violated.any()


@pytest.mark.parametrize("m", [1, 2, 4])
def test_lemma_5_bounds_the_next_primal_variable(m):
    rng = np.random.default_rng(m)
    problem, beta, step = random_states(5, m, 2000, rng, 0.45)
    eta = step[:, None, None]
    residual = np.maximum(beta, 0) @ problem.signs - problem.labels
    moved = beta - eta * problem.gram @ (residual[..., None] * problem.signs * (beta > 0))
    own = np.diagonal(problem.gram, axis1=-2, axis2=-1)[..., None]
    margin = lemma_5(problem, beta, step).margin
    slack = moved - (1 - eta * own) * beta - margin
    applies = (beta > 0) & matching(problem)
    assert (slack[applies] > -1e-12).all()
    assert slack[applies].min() < 0.01


def test_lemma_5_needs_its_hypothesis():
    problem = Problem([[1.0, 0.2], [0.2, 1.0]], [1.0, -10.0])
    found = lemma_5(problem, [[1e-3], [1e-3]], 0.01)
    assert not found.hypothesis.any()
    assert not found.conclusion[0, 0]
    rng = np.random.default_rng(0)
    problem, beta, step = random_states(5, 1, 5000, rng, 0.9)
    found = lemma_5(problem, beta, step)
    assert ((beta > 0) & matching(problem) & ~found.conclusion).sum() > 20
    assert not found.violated.any()


def test_lemma_5_takes_off_the_output_of_other_neurons_of_the_same_sign():
    problem = Problem([[1.0]], [1.0], signs=(1, 1))
    found = lemma_5(problem, [[0.01, 10.0]], 0.5)
    np.testing.assert_allclose(found.margin, 0.5 * np.array([[1 - 10.0, 1 - 0.01]]))
    assert found.hypothesis.tolist() == [[False, True]]
    assert found.conclusion.tolist() == [[False, True]]


def test_lemma_5_does_not_apply_to_a_step_above_an_example_s_own_curvature():
    problem = Problem([[1.0, 0.0], [0.0, 4.0]], [1.0, 1.0])
    assert lemma_5(problem, [[0.1], [0.1]], 0.5).hypothesis[:, 0].tolist() == [True, False]


@pytest.mark.parametrize("count", [500, FULL])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_lemma_6_has_no_counter_example(m, count):
    rng = np.random.default_rng(m)
    for n in range(2, 7):
        problem, alpha, _ = random_states(n, m, count, rng, 0.45)
        found = lemma_6(problem, alpha)
        assert found.hypothesis.sum() > count // 20
        assert not found.violated.any()
        assert (problem.primal(alpha) + found.margin < 1e-12 * np.abs(alpha).max()).all()


def test_lemma_6_needs_its_hypothesis():
    found = lemma_6(Problem([[1.0, 0.5], [0.5, 1.0]], [1.0, -1.0]), [[1.0], [-0.4]])
    assert not found.hypothesis.any()
    assert not found.conclusion.any()


def test_lemmas_hold_along_every_step_of_a_descent():
    problem = gaussian_problem(6, 60, 2, signs=(1, -1))
    step = problem.step(0.5)
    run = gradient_descent(problem, all_active(problem, 0.05), step, record=True)
    fifth, sixth = lemma_5(problem, run.history, step), lemma_6(problem, run.history)
    assert fifth.hypothesis.shape == run.history.beta.shape
    assert fifth.hypothesis.any(axis=0).any()
    assert sixth.hypothesis.any(axis=0).any()
    assert not fifth.violated.any()
    assert not sixth.violated.any()
    np.testing.assert_array_equal(fifth.conclusion[:-1], run.history.beta[1:] > 0)
    frozen = np.diff(run.history.alpha, axis=0) == 0
    assert frozen[sixth.hypothesis[:-1]].all()


def test_lemma_margins_equal_those_of_plain_loops():
    rng = np.random.default_rng(0)
    problem, beta, step = random_states(4, 3, 3, rng, 0.5)
    alpha = problem.dual(beta)
    fifth, sixth = lemma_5(problem, beta, step), lemma_6(problem, alpha)
    for b in range(3):
        gram, y = problem.gram[b], problem.labels[b]
        residual = np.abs(np.maximum(beta[b], 0) @ problem.signs - y)
        for i in range(4):
            others = [j for j in range(4) if j != i]
            reach = sum(abs(gram[i, j]) for j in others)
            for k in range(3):
                rho = max([residual[j] for j in others if beta[b, j, k] > 0], default=0.0)
                same = [h for h in range(3) if h != k and SIGNS[3][h] == SIGNS[3][k]]
                room = abs(y[i]) - sum(max(beta[b, i, h], 0) for h in same)
                expected = step[b] * (gram[i, i] * room - reach * rho)
                np.testing.assert_allclose(fifth.margin[b, i, k], expected, atol=1e-12)
                largest = max(abs(alpha[b, j, k]) for j in others)
                expected = -gram[i, i] * alpha[b, i, k] - reach * largest
                np.testing.assert_allclose(sixth.margin[b, i, k], expected, atol=1e-12)


def test_a_single_example_has_no_others():
    problem = Problem([[2.0]], [1.0])
    assert lemma_5(problem, [[0.1]], 0.25).margin == 0.5
    assert lemma_6(problem, [[-1.0]]).margin == 2.0


# --- limits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2])
def test_predicted_limit_is_where_descent_goes(m):
    problem = gaussian_problem(20, 1600, m, SIGNS[m], size=5)
    start, step = all_active(problem, 1e-3), problem.step(0.5)
    run = gradient_descent(problem, start, step)
    assert (run.settled == 1).all()
    assert run.global_minimum.all()
    predicted = predicted_limit(problem, start, step)
    np.testing.assert_allclose(gap(problem, run, predicted, relative=True), 0.0, atol=1e-9)


def test_predicted_limit_is_the_nearest_point_that_fits_the_positive_examples():
    X = gaussian_features(6, 50, rng=0)
    problem = Problem.from_features(X, [1.0, 2.0, 1.5, -1.0, -2.0, -1.5])
    start, step = all_active(problem, 0.01), problem.step(0.5)
    w0 = problem.weights(X, problem.dual(start))[:, 0]
    w1 = w0 - step * X.T @ (X @ w0 - problem.labels)
    fit = w1 + np.linalg.pinv(X[:3]) @ (problem.labels[:3] - X[:3] @ w1)
    predicted = problem.weights(X, predicted_limit(problem, start, step))[:, 0]
    np.testing.assert_allclose(predicted, fit, atol=1e-12)


def test_predicted_limit_of_a_disjoint_start_is_each_owner_s_regression():
    problem = gaussian_problem(6, 100_000, 0, signs=(1, -1, 1, -1))
    start = disjoint(problem, [0, 2, 0, 1, 3, 1], 1e-3)
    run = gradient_descent(problem, start, problem.step(0.5))
    predicted = predicted_limit(problem, start, problem.step(0.5))
    np.testing.assert_allclose(gap(problem, run, predicted), 0.0, atol=1e-12)


def test_a_pattern_that_settles_late_still_ends_in_a_regression():
    problem = gaussian_problem(20, 100, 3)
    start, step = all_active(problem, 1e-3), problem.step(0.5)
    run = gradient_descent(problem, start, step, record=True)
    assert run.settled > 1
    late = regression_limit(problem, run.history.alpha[run.settled], run.active)
    np.testing.assert_allclose(gap(problem, late, run), 0.0, atol=1e-10)
    assert gap(problem, predicted_limit(problem, start, step), run) > 1e-3


def test_coupled_neurons_have_no_separate_regressions():
    problem = Problem(np.eye(2), [1.0, -1.0], signs=(1, -1))
    with pytest.raises(ValueError, match="active for several neurons, so they do not decouple"):
        regression_limit(problem, np.zeros((2, 2)), np.ones((2, 2), dtype=bool))
    with pytest.raises(ValueError, match="active must be a mask of shape"):
        regression_limit(problem, np.zeros((2, 2)), np.ones((2, 2)))


# --- the gap ---------------------------------------------------------------------------------


def test_gap_is_the_distance_of_the_weights():
    X = gaussian_features(5, 30, rng=0)
    problem = Problem.from_features(X, [1.0, -1.0, 1.0, 2.0, -1.0], signs=(1, -1, 1))
    a, b = np.random.default_rng(1).standard_normal((2, 5, 3))
    wa, wb = problem.weights(X, a), problem.weights(X, b)
    np.testing.assert_allclose(gap(problem, a, b), np.linalg.norm(wa - wb), rtol=1e-12)
    relative = np.linalg.norm(wa - wb) / np.linalg.norm(wb)
    np.testing.assert_allclose(gap(problem, a, b, relative=True), relative, rtol=1e-12)


def test_gap_of_the_named_cases_is_right(cases):
    for case in cases:
        problem = Problem(case["gram"], case["y"], case["signs"])
        shape = (problem.n, problem.m)
        descent = SimpleNamespace(alpha=case["gd_alpha"].reshape(shape))
        least = SimpleNamespace(alpha=case["min_norm_alpha"].reshape(shape))
        assert abs(gap(problem, descent, least) - case["gap"]) < 1e-8


def test_gap_to_the_zero_network_is_infinitely_larger_than_it():
    problem = Problem(np.eye(2), [-1.0, -1.0])
    alpha = np.full((2, 1), -0.5)
    assert gap(problem, alpha, np.zeros((2, 1)), relative=True) == np.inf
    np.testing.assert_allclose(gap(problem, alpha, np.zeros((2, 1))), np.sqrt(0.5))


@pytest.mark.parametrize("m", [1, 2])
def test_gap_squared_is_the_schur_form_of_the_dual_error(m):
    problem = gaussian_problem(20, 400, m, SIGNS[m], size=20)
    run = gradient_descent(problem, all_active(problem, 1e-3), problem.step(0.5))
    assert run.global_minimum.all()
    least = min_norm(problem)
    error = np.where(matching(problem), 0.0, run.alpha - least.alpha)
    square = np.einsum("bnk,bknp,bpk->b", error, schur(problem), error)
    np.testing.assert_allclose(np.sqrt(square), gap(problem, run, least), rtol=1e-10)


def test_the_schur_form_needs_the_matching_examples_fitted():
    problem = gaussian_problem(6, 60, 0)
    a = np.random.default_rng(0).standard_normal((6, 1))
    least = min_norm(problem)
    error = np.where(matching(problem), 0.0, a - least.alpha)
    square = (error.T @ schur(problem)[0] @ error).item()
    assert square < 0.9 * gap(problem, a, least) ** 2


def test_schur_complement_is_that_of_its_definition():
    problem = gaussian_problem(6, 12, 0, signs=(1, -1))
    kept, rest = np.arange(3), np.arange(3, 6)
    gram = problem.gram
    for k, (a, b) in enumerate([(kept, rest), (rest, kept)]):
        inverse = np.linalg.inv(gram[np.ix_(a, a)])
        expected = np.zeros((6, 6))
        expected[np.ix_(b, b)] = (
            gram[np.ix_(b, b)] - gram[np.ix_(b, a)] @ inverse @ gram[np.ix_(a, b)]
        )
        np.testing.assert_allclose(schur(problem)[k], expected, atol=1e-10)


@pytest.mark.parametrize("m", [1, 2])
def test_gap_bounds_hold_in_a_thousand_problems(m):
    rng = np.random.default_rng(m)
    searched = 0
    for n in (2, 4, 8):
        inside = rng.uniform(0.0, 1.0, 250) ** 3
        problem, start, step = near_edge(n, m, 250, rng, beyond=inside)
        assert conditions(problem, start, step).hold.all()
        least = min_norm(problem)
        assert least.optimal.all()
        distance = gap(problem, predicted_limit(problem, start, step), least)
        lower, upper = gap_bounds(problem, start, step)
        assert (lower <= distance * (1 + 1e-12)).all()
        assert (distance <= upper * (1 + 1e-12)).all()
        assert (lower > 0).mean() > 0.2
        searched += len(distance)
    for d in (10**5, 10**6, 10**8):
        problem = gaussian_problem(8, d, m, SIGNS[m], size=100)
        start, step = all_active(problem, 1e-3), problem.step(0.5)
        assert conditions(problem, start, step).hold.all()
        distance = gap(problem, predicted_limit(problem, start, step), min_norm(problem))
        lower, upper = gap_bounds(problem, start, step)
        assert (lower <= distance).all()
        assert (distance <= upper).all()
        searched += len(distance)
    assert searched >= 1000


@pytest.mark.parametrize("m", [1, 2])
def test_gap_bounds_close_to_within_three_percent_in_high_dimension(m):
    problem = gaussian_problem(20, 10**7, 0, SIGNS[m], size=30)
    start, step = all_active(problem, 1e-3), problem.step(0.5)
    distance = gap(problem, gradient_descent(problem, start, step), min_norm(problem))
    lower, upper = gap_bounds(problem, start, step)
    assert (np.abs(lower / distance - 1) < 0.03).all()
    assert (np.abs(upper / distance - 1) < 0.03).all()


def test_gap_bounds_fail_where_the_conditions_do():
    problem = Problem([[1.0, 0.2], [0.2, 1.0]], [1.0, -10.0])
    start, step = all_active(problem, 1e-3), 0.01
    run = gradient_descent(problem, start, step)
    assert not conditions(problem, start, step).hold
    assert not run.global_minimum
    assert gap(problem, run, min_norm(problem)) > gap_bounds(problem, start, step).upper


@pytest.mark.parametrize("count", [200, FULL])
def test_conditions_of_two_neurons_make_the_decoupled_pair_the_minimum(count):
    rng = np.random.default_rng(0)
    for n in (2, 3, 5, 8):
        problem, *_ = near_edge(n, 2, count // 4, rng)
        for gram, y in zip(problem.gram, problem.labels, strict=True):
            plus, minus = reference_min_norm(gram, y), reference_min_norm(gram, -y)
            own, other = np.where(y > 0, plus, minus), np.where(y > 0, minus, plus)
            assert (own >= np.abs(other)).all()


def test_gap_constant_is_reached_in_high_dimension():
    for m in (1, 2):
        problem = gaussian_problem(20, 10**9, m, SIGNS[m])
        start, step = all_active(problem, 1e-6), problem.step(0.5)
        limit, least = predicted_limit(problem, start, step), min_norm(problem)
        count = 10 if m == 1 else 20
        scaled = gap(problem, limit, least) * np.sqrt(problem.scale / count)
        np.testing.assert_allclose(scaled, gap_constant(problem, 0.5), rtol=1e-3)
        relative = gap(problem, limit, least, relative=True)
        np.testing.assert_allclose(relative, gap_constant(problem, 0.5, relative=True), rtol=1e-3)


def test_gap_constant_of_labels_of_one_sign():
    positive, negative = Problem(np.eye(2), [1.0, 2.0]), Problem(np.eye(2), [-1.0, -7.0])
    assert gap_constant(positive, 0.5) == 0.0
    assert gap_constant(positive, 0.5, relative=True) == 0.0
    assert gap_constant(negative, 0.5) == 2.5
    assert gap_constant(negative, 0.5, relative=True) == np.inf


# --- coherence and dimension -----------------------------------------------------------------


def test_coherence_of_a_small_gram_matrix():
    gram = [[4.0, 1.0, -1.0], [1.0, 5.0, 0.5], [-1.0, 0.5, 6.0]]
    found = coherence(Problem(gram, [1.0, -1.0, 1.0]))
    assert (found.smallest, found.largest, found.reach, found.scale) == (4.0, 6.0, 2.0, 5.0)
    assert found.row_sums.tolist() == [2.0, 1.5, 1.5]
    assert found.kappa == 0.5
    np.testing.assert_allclose(found.concentration, 0.2)
    np.testing.assert_allclose(found.near_orthogonality, 4 / 3)


def test_orthogonal_examples_are_infinitely_near_to_orthogonal():
    found = coherence(Problem(np.diag([1.0, 3.0]), [1.0, -1.0]))
    assert found.near_orthogonality == np.inf
    assert found.kappa == 0
    assert coherence(Problem([[2.0]], [1.0])).reach == 0


def test_dimension_bound_reaches_the_known_values():
    known = {5: 1.2e4, 10: 6.6e4, 20: 3.3e5, 40: 1.6e6, 80: 7.2e6}
    for n, d in known.items():
        np.testing.assert_allclose(dimension_bound(n), d, rtol=0.04)


@pytest.mark.parametrize("m", [1, 2])
def test_above_the_dimension_bound_the_conditions_hold_and_far_below_they_do_not(m):
    n, c = 8, 0.5
    bound = dimension_bound(n, 0.05, c, scale=1e-3, neurons=m)
    for d, expected in ((bound, True), (bound // 100, False)):
        problem = gaussian_problem(n, d, m, SIGNS[m], size=200)
        held = conditions(problem, all_active(problem, 1e-3), c / d).hold
        assert held.all() if expected else not held.any()


def test_dimension_bound_of_a_spectrum_that_is_not_flat():
    def two_levels(d):
        large = d // 10
        return 4 * large + d - large, np.sqrt(16 * large + d - large), 4.0

    bound = dimension_bound(6, norms=two_levels)
    assert bound > dimension_bound(6)
    large = bound // 10
    spectrum = [(4.0, large), (1.0, bound - large)]
    gram = gaussian_gram(6, bound, spectrum=spectrum, size=100, rng=0)
    problem = Problem(gram, signed_labels(6, size=100, rng=1))
    step = 0.5 / two_levels(bound)[0]
    assert conditions(problem, all_active(problem, 1e-4), step).hold.all()


def test_no_dimension_is_enough_for_a_large_step_a_large_start_or_a_spike():
    with pytest.raises(ValueError, match="no dimension is enough: the step needs c < 1"):
        dimension_bound(5, c=1.0)
    with pytest.raises(ValueError, match="no dimension is enough"):
        dimension_bound(5, scale=0.5)
    with pytest.raises(ValueError, match="effective dimension that grows with d"):
        dimension_bound(5, norms=lambda d: (2.0 * d, float(d), float(d)))


# --- batches and bad input -------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2])
def test_a_batch_gives_the_same_numbers_as_a_loop(m):
    problem = gaussian_problem(5, 10_000, 0, SIGNS[m], size=7)
    start, step = all_active(problem, 1e-3), problem.step(0.5)
    alpha = problem.dual(start)
    batch = (
        conditions(problem, start, step).margins,
        predicted_limit(problem, start, step),
        gap(problem, predicted_limit(problem, start, step), alpha),
        np.stack(gap_bounds(problem, start, step), axis=-1),
        gap_constant(problem, 0.5),
        schur(problem),
        lemma_5(problem, start, step).margin,
        lemma_6(problem, alpha).margin,
        coherence(problem).near_orthogonality,
    )
    for b in range(7):
        one, first, eta = problem[b], start[b], step[b]
        single = (
            conditions(one, first, eta).margins,
            predicted_limit(one, first, eta),
            gap(one, predicted_limit(one, first, eta), alpha[b]),
            np.stack(gap_bounds(one, first, eta), axis=-1),
            gap_constant(one, 0.5),
            schur(one),
            lemma_5(one, first, eta).margin,
            lemma_6(one, alpha[b]).margin,
            coherence(one).near_orthogonality,
        )
        for whole, part in zip(batch, single, strict=True):
            np.testing.assert_allclose(whole[b], part, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("call", [conditions, predicted_limit, gap_bounds, lemma_5])
def test_bad_starts_and_steps_are_refused(call):
    problem = Problem(np.eye(2), [1.0, -1.0])
    start = all_active(problem, 0.1)
    with pytest.raises(ValueError, match="step must be positive, got 0"):
        call(problem, start, 0.0)
    with pytest.raises(ValueError, match="step must be finite, got nan"):
        call(problem, start, np.nan)
    with pytest.raises(ValueError, match=r"one number or have the batch shape \(\), got \(2,\)"):
        call(problem, start, [0.1, 0.2])
    with pytest.raises(TypeError, match="step must be an array of real numbers"):
        call(problem, start, "large")
    with pytest.raises(ValueError, match=r"must have shape \(..., n, m\) = \(..., 2, 1\)"):
        call(problem, np.ones((3, 1)), 0.1)
    with pytest.raises(ValueError, match="must be finite, got inf"):
        call(problem, [[np.inf], [1.0]], 0.1)


def test_bad_duals_are_refused():
    problem = Problem(np.eye(2), [1.0, -1.0])
    good = np.zeros((2, 1))
    for call in (lambda a: gap(problem, a, good), lambda a: lemma_6(problem, a)):
        with pytest.raises(ValueError, match=r"alpha must have shape \(..., n, m\)"):
            call(np.zeros(2))
        with pytest.raises(ValueError, match="alpha must be finite, got nan"):
            call([[np.nan], [0.0]])
        with pytest.raises(TypeError, match="alpha must be an array of real numbers"):
            call(None)


def test_gap_bounds_and_constant_refuse_what_no_theorem_covers():
    with pytest.raises(ValueError, match="with every example active at the start"):
        gap_bounds(Problem(np.eye(2), [1.0, -1.0]), [[0.1], [-0.1]], 0.1)
    same = Problem(np.eye(2), [1.0, -1.0], signs=(1, 1))
    with pytest.raises(ValueError, match="one neuron, or two of opposite signs"):
        gap_bounds(same, all_active(same, 0.1), 0.1)
    with pytest.raises(ValueError, match=r"two of opposite signs, got signs \[1.0, 1.0\]"):
        gap_constant(same, 0.5)
    with pytest.raises(ValueError, match="c must be a positive finite number"):
        gap_constant(Problem(np.eye(2), [1.0, -1.0]), 0.0)


def test_bad_arguments_of_the_dimension_bound_are_refused():
    with pytest.raises(ValueError, match="delta below 1, low at most high, and one or two neurons"):
        dimension_bound(5, delta=1.0)
    with pytest.raises(ValueError, match=r"low = 3\.0, high = 2\.0"):
        dimension_bound(5, low=3.0)
    with pytest.raises(ValueError, match="neurons = 3"):
        dimension_bound(5, neurons=3)
    with pytest.raises(ValueError, match="n must be at least 1"):
        dimension_bound(0)


@pytest.mark.parametrize("unit", [1e-250, 1.0, 1e145])
def test_gap_does_not_depend_on_the_unit_of_the_duals(unit):
    problem = Problem([[4.0, 1.0], [1.0, 4.0]], [1.0, -1.0])
    a, b = np.array([[3.0], [1.0]]), np.array([[1.0], [1.0]])
    assert float(gap(problem, unit * a, unit * b)) == pytest.approx(4.0 * unit, rel=1e-12)
    relative = float(gap(problem, unit * a, unit * b, relative=True))
    assert relative == pytest.approx(4 / np.sqrt(10), rel=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        coherence,
        schur,
        matching,
        lambda p: conditions(p, [[1.0]], 0.1),
        lambda p: predicted_limit(p, [[1.0]], 0.1),
        lambda p: regression_limit(p, [[1.0]], [[True]]),
        lambda p: gap(p, [[1.0]], [[1.0]]),
        lambda p: gap_bounds(p, [[1.0]], 0.1),
        lambda p: gap_constant(p, 0.5),
        lambda p: lemma_5(p, [[1.0]], 0.1),
        lambda p: lemma_6(p, [[1.0]]),
    ],
)
@pytest.mark.parametrize("wrong", [None, "problem", np.eye(2), Problem])
def test_what_is_no_problem_is_refused(call, wrong):
    with pytest.raises(TypeError, match=r"problem must be a Problem, got a .*; make one with"):
        call(wrong)


def test_batches_that_do_not_fit_are_refused():
    two = Problem(np.tile(np.eye(2), (2, 1, 1)), np.ones((2, 2)))
    one = Problem(np.eye(2), np.ones(2))
    three = np.ones((3, 2, 1))
    for call in (
        lambda: conditions(two, three, 0.1),
        lambda: gap(two, three, three),
        lambda: lemma_6(two, three),
        lambda: lemma_5(two, three, 0.1),
        lambda: regression_limit(two, np.ones((2, 2, 1)), three > 0),
    ):
        with pytest.raises(ValueError, match=r"must have the batch shape \(2,\) before"):
            call()
    with pytest.raises(ValueError, match=r"b must have the batch shape \(3,\) before"):
        gap(one, three, np.ones((2, 2, 1)))


def test_a_step_beyond_all_bounds_holds_no_condition_and_has_no_limit():
    problem = Problem([[4.0, 1.0], [1.0, 4.0]], [1.0, -1.0])
    start = np.full((2, 1), 0.1)
    assert not conditions(problem, start, 1e308).hold
    assert gap_bounds(problem, start, 1e308).upper == np.inf
    with pytest.raises(ValueError, match="step is so large that the first step overflows"):
        predicted_limit(problem, 1e10 * start, 1e308)


def test_masked_entries_are_refused():
    problem = Problem([[4.0, 1.0], [1.0, 4.0]], [1.0, -1.0])
    masked = np.ma.masked_array([[0.1], [0.2]], [[True], [False]])
    with pytest.raises(ValueError, match="start has masked entries"):
        conditions(problem, masked, 0.1)


@pytest.mark.parametrize("unit", [1e-40, 1e-20, 1e20, 1e40])
def test_bounds_and_constant_do_not_depend_on_units(unit):
    X, y = gaussian_features(4, 2000, rng=0), np.array([1.0, 2.0, -1.0, -1.5])
    for signs in ((1,), (1, -1)):
        usual = Problem.from_features(X, y, signs)
        before = gap_bounds(usual, all_active(usual, 1e-3), usual.step(0.3))
        other = Problem.from_features(unit * X, y, signs)
        found = gap_bounds(other, all_active(other, 1e-3), other.step(0.3))
        np.testing.assert_allclose(np.multiply(found, unit), before, rtol=1e-9)
        labels = Problem.from_features(X, unit * y, signs)
        found = gap_bounds(labels, all_active(labels, 1e-3 * unit), labels.step(0.3))
        np.testing.assert_allclose(np.divide(found, unit), before, rtol=1e-9)
        for relative in (False, True):
            constant = gap_constant(labels, 0.5, relative=relative)
            wanted = gap_constant(usual, 0.5, relative=relative)
            assert constant == pytest.approx(wanted * (1 if relative else unit))


def test_the_dimension_bound_refuses_what_no_number_can_hold():
    with pytest.raises(TypeError, match="norms must be a function of d"):
        dimension_bound(5, norms=None)
    with np.errstate(all="raise"):
        assert dimension_bound(5, delta=1e-320) > dimension_bound(5)
        for change in ({"scale": 1e300}, {"low": 1e-300, "high": 1e300}):
            with pytest.raises(ValueError, match="no dimension is enough"):
                dimension_bound(5, **change)
