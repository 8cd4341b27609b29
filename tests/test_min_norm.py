"""The minimum-norm network: right values, proofs of optimality, and where they stop."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from ibrelu import min_norm as module
from ibrelu.features import gaussian_features, orthogonal_features, signed_labels
from ibrelu.min_norm import min_norm
from ibrelu.problem import Problem

PAIR = (1, -1)
OFF, KINK, ON = range(3)


def gaussian_problem(n, d, signs=(1,), seed=0, size=None):
    rng = np.random.default_rng(seed)
    X = gaussian_features(n, d, size=size, rng=rng)
    return Problem.from_features(X, signed_labels(n, size=size, rng=rng), signs)


def unbalanced_problem(n, d, signs, seed):
    """Signs drawn by coin, so that some problems have labels of one sign only."""
    rng = np.random.default_rng(seed)
    labels = rng.choice([-1.0, 1.0], n) * rng.uniform(1, 2, n)
    return Problem.from_features(rng.standard_normal((n, d)), labels, signs)


def enumerated_norm(problem, chunk=20_000):
    """Least norm over every arrangement: each (example, neuron) off, on its kink, or active.

    The minimum is the least-norm point of its own arrangement's equations, and every such point
    that keeps its arrangement is feasible, so the smallest of these is the minimum.
    """
    n, m, signs = problem.n, problem.m, problem.signs
    of_example = []
    for label in problem.labels:
        own = signs * label > 0
        reached = [
            state
            for state in itertools.product((OFF, KINK, ON), repeat=m)
            if any(o and s == ON for o, s in zip(own, state, strict=True))
            or (not own.any() and ON not in state)
        ]
        of_example.append(reached)
    gram = np.kron(problem.gram, np.eye(m))
    arrangements, best = itertools.product(*of_example), np.inf
    while len(state := np.array(list(itertools.islice(arrangements, chunk)))):
        on, kink = state == ON, state == KINK
        first = on & (on.cumsum(axis=-1) == 1)
        rows = first[..., None] * (on * signs)[..., None, :] + kink[..., None] * np.eye(m)
        equations = np.einsum("cikl,ij->cikjl", rows, np.eye(n)).reshape(-1, n * m, n * m)
        level = (first * problem.labels[:, None]).reshape(-1, n * m)
        unused = ~(first | kink).reshape(-1, n * m)
        matrix = equations @ gram @ equations.swapaxes(-1, -2) + unused[..., None] * np.eye(n * m)
        multipliers = np.linalg.solve(matrix, level[..., None])
        beta = (gram @ equations.swapaxes(-1, -2) @ multipliers).reshape(state.shape)
        keeps = np.where(on, -beta, np.where(kink, 0.0, beta)).max(axis=(-2, -1)) < 1e-9
        square = (multipliers[..., 0] * level).sum(axis=-1)
        best = min(best, square[keeps].min(initial=np.inf))
    return np.sqrt(best)


def nnls_duals(problem):
    """Duals of the single-neuron minimum by non-negative least squares on the Schur complement."""
    P, N = np.flatnonzero(problem.positive), np.flatnonzero(problem.negative)
    G, y = problem.gram, problem.labels
    inner = np.linalg.solve(G[np.ix_(P, P)], np.c_[G[np.ix_(P, N)], y[P]])
    schur = G[np.ix_(N, N)] - G[np.ix_(N, P)] @ inner[:, :-1]
    factor = np.linalg.cholesky(schur)
    mu, _ = nnls(factor.T, np.linalg.solve(factor, G[np.ix_(N, P)] @ inner[:, -1]))
    alpha = np.zeros(problem.n)
    alpha[N], alpha[P] = -mu, inner[:, -1] + inner[:, :-1] @ mu
    return alpha


def decoupled(problem):
    """Duals (n, 2) of one program a neuron, and whether they pass the certificate."""
    alpha = np.stack(
        [
            min_norm(Problem(problem.gram, problem.labels, (sign,))).alpha[:, 0]
            for sign in problem.signs
        ],
        axis=-1,
    )
    own = problem.labels[:, None] * problem.signs > 0
    return alpha, bool((alpha[own] >= np.abs(alpha[~own]) * (1 - 1e-12)).all())


def squared_norm(problem, alpha):
    return float((alpha * problem.primal(alpha)).sum())


# Right values


def test_named_problems_have_their_known_minimum(cases):
    for case in cases:
        result = min_norm(Problem(case["gram"], case["y"], case["signs"]))
        np.testing.assert_allclose(result.norm, case["min_norm_norm"], rtol=1e-8)
        np.testing.assert_allclose(result.alpha, case["min_norm_alpha"], atol=1e-8)
        assert result.optimal
        assert result.kkt_residual < 1e-13


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("ratio", [1.2, 3, 20])
def test_one_neuron_equals_the_enumeration_of_active_sets(n, ratio):
    for seed in range(5):
        problem = unbalanced_problem(n, int(np.ceil(ratio * n)), (1,), seed)
        np.testing.assert_allclose(min_norm(problem).norm, enumerated_norm(problem), rtol=1e-10)


@pytest.mark.parametrize("n", [20, 64, 65, 150])
@pytest.mark.parametrize("ratio", [1.2, 3, 10])
def test_one_neuron_equals_non_negative_least_squares(n, ratio):
    problem = gaussian_problem(n, int(ratio * n), seed=n)
    result, expected = min_norm(problem), nnls_duals(problem)
    np.testing.assert_allclose(result.alpha[:, 0], expected, atol=1e-11 * np.abs(expected).max())
    assert result.optimal
    assert result.kkt_residual < 1e-12


@pytest.mark.slow
def test_a_thousand_examples_equal_non_negative_least_squares():
    problem = gaussian_problem(1000, 1200)
    expected = nnls_duals(problem)
    np.testing.assert_allclose(
        min_norm(problem).alpha[:, 0], expected, atol=1e-11 * np.abs(expected).max()
    )


@pytest.mark.parametrize("signs", [(1,), (-1,), PAIR, (-1, 1), (1, 1, -1, -1)])
@pytest.mark.parametrize("n", [8, 80])
def test_conditions_of_optimality_hold_with_exact_zeros(n, signs):
    problem = gaussian_problem(n, 20 * n, signs)
    result = min_norm(problem)
    alpha, beta = result.alpha, result.beta
    own = problem.labels[:, None] * problem.signs > 0
    assert (alpha[~own] <= 0).all()
    assert (beta[~own] <= 0).all()
    assert (alpha[~own] * beta[~own] == 0).all()
    reached = np.where(own.any(axis=-1), problem.labels, 0.0)
    np.testing.assert_allclose(problem.predictions(beta), reached, atol=1e-12)
    np.testing.assert_allclose(problem.primal(alpha), beta, atol=1e-12)
    np.testing.assert_allclose(result.norm**2, squared_norm(problem, alpha), rtol=1e-12)


def test_kkt_residual_sees_a_wrong_network():
    problem = gaussian_problem(6, 30, PAIR)
    fit = module._Fit(
        problem.gram[None],
        np.abs(problem.labels)[None],
        (problem.labels[:, None] * problem.signs > 0)[None],
        np.ones(2),
    )
    right = module._decoupled(fit)
    assert module._kkt_residual(fit, right) < 1e-14
    for field, value in (("alpha", right.alpha + 1e-4), ("beta", right.beta * 1.001)):
        assert module._kkt_residual(fit, right._replace(**{field: value})) > 1e-4


# Limit cases


def test_orthogonal_examples_do_not_notice_each_other():
    X = orthogonal_features(8, 40, scale=2.0, rng=0)
    labels = signed_labels(8, rng=1)
    squares = np.sum(X**2, axis=-1)
    for signs in ((1,), PAIR, (1, 1, -1, -1)):
        result = min_norm(Problem.from_features(X, labels, signs))
        own = labels[:, None] * np.array(signs) > 0
        shared = np.abs(labels / squares)[:, None] / own.sum(axis=-1, keepdims=True).clip(1)
        np.testing.assert_allclose(result.alpha, own * shared, atol=1e-13)
        assert not result.selected.any()
        assert result.optimal


def test_one_example_is_fitted_by_its_own_direction():
    result = min_norm(Problem([[4.0]], [2.0]))
    assert result.alpha.tolist() == [[0.5]]
    assert float(result.norm) == 1.0
    assert result.optimal


def test_only_positive_labels_is_linear_regression():
    problem = Problem.from_features(gaussian_features(6, 9, rng=0), np.arange(1.0, 7.0))
    np.testing.assert_allclose(
        min_norm(problem).alpha[:, 0], np.linalg.solve(problem.gram, problem.labels), rtol=1e-12
    )


@pytest.mark.parametrize("n", [5, 70])
def test_labels_that_no_neuron_reaches_leave_the_zero_network(n):
    result = min_norm(Problem.from_features(gaussian_features(n, 2 * n, rng=0), -np.ones(n)))
    assert not result.alpha.any()
    assert float(result.norm) == float(result.lower_bound) == float(result.kkt_residual) == 0.0
    assert result.optimal


@pytest.mark.parametrize("n", [5, 70])
def test_labels_of_one_sign_make_the_other_neuron_keep_silent(n):
    problem = Problem.from_features(gaussian_features(n, 10 * n, rng=0), np.ones(n), PAIR)
    result = min_norm(problem)
    assert not result.alpha[:, 1].any()
    assert result.optimal


def test_a_negative_neuron_mirrors_a_positive_one():
    problem = gaussian_problem(10, 25)
    mirrored = min_norm(Problem(problem.gram, -problem.labels, (-1,)))
    np.testing.assert_array_equal(mirrored.alpha, min_norm(problem).alpha)


@pytest.mark.parametrize("seed", range(6))
def test_order_of_neurons_only_orders_the_columns(seed):
    problem = gaussian_problem(6, 8, PAIR, seed)
    swapped = min_norm(Problem(problem.gram, problem.labels, (-1, 1)))
    np.testing.assert_array_equal(swapped.alpha[:, ::-1], min_norm(problem).alpha)


@pytest.mark.parametrize("signs", [(1,), PAIR, (1, 1, -1)])
def test_scaling_labels_scales_the_network(signs):
    for factor in (1e-6, 3.0, 1e6):
        problem = gaussian_problem(7, 9, signs, seed=3)
        once = min_norm(problem)
        scaled = min_norm(Problem(problem.gram, factor * problem.labels, signs))
        np.testing.assert_allclose(
            scaled.alpha, factor * once.alpha, atol=1e-12 * factor * np.abs(once.alpha).max()
        )
        np.testing.assert_allclose(scaled.lower_bound, factor * once.lower_bound, rtol=1e-10)
        np.testing.assert_array_equal(scaled.optimal, once.optimal)


# Batches


@pytest.mark.parametrize(
    ("n", "d", "signs"),
    [(20, 30, (1,)), (20, 400, PAIR), (6, 9, PAIR), (6, 9, (1, 1, -1)), (70, 90, (1,))],
)
def test_batch_equals_loop(n, d, signs):
    problem = gaussian_problem(n, d, signs, size=(3, 4))
    together = min_norm(problem)
    assert together.alpha.shape == (3, 4, n, len(signs))
    for index in np.ndindex(3, 4):
        alone = min_norm(problem[index])
        for name, value in vars(alone).items():
            np.testing.assert_allclose(getattr(together, name)[index], value, atol=1e-12)


def test_a_thousand_problems_equal_the_loop_and_split_to_bound_memory(monkeypatch):
    problem = gaussian_problem(20, 60, size=1000)
    together = min_norm(problem)
    monkeypatch.setattr(module, "_BATCH_ENTRIES", 20**2 * 7)
    np.testing.assert_allclose(min_norm(problem).alpha, together.alpha, atol=1e-12)
    for index in range(0, 1000, 50):
        np.testing.assert_allclose(
            min_norm(problem[index]).alpha, together.alpha[index], atol=1e-12
        )
    assert together.optimal.all()


# Two neurons: certificate, bound, branch and bound


def small_pairs(dimensions, seeds):
    for n in (3, 4, 5, 6):
        for d in dimensions(n):
            for seed in range(seeds):
                yield unbalanced_problem(n, d, PAIR, seed)


def every_ratio(n):
    return (n + 1, n + 2, 2 * n, 5 * n, 20 * n)


def test_certificate_and_search_equal_the_enumeration():
    certified = 0
    for problem in small_pairs(every_ratio, seeds=5):
        alpha, passes = decoupled(problem)
        minimum, result = enumerated_norm(problem), min_norm(problem)
        assert result.optimal
        np.testing.assert_allclose(result.norm, minimum, rtol=1e-9)
        if passes:
            certified += 1
            np.testing.assert_allclose(np.sqrt(squared_norm(problem, alpha)), minimum, rtol=1e-9)
    assert 50 < certified < 100


def test_near_the_square_case_the_certificate_fails_and_the_search_finds_lower():
    lower = [
        min_norm(problem).norm ** 2 < squared_norm(problem, decoupled(problem)[0]) * (1 - 1e-6)
        for problem in small_pairs(lambda n: (n + 2,), seeds=10)
        if not decoupled(problem)[1]
    ]
    assert len(lower) >= 10
    assert any(lower)


@pytest.mark.slow
def test_certificate_and_search_equal_the_enumeration_in_many_problems():
    for problem in small_pairs(every_ratio, seeds=40):
        np.testing.assert_allclose(min_norm(problem).norm, enumerated_norm(problem), rtol=1e-9)


def test_certificate_holds_in_high_dimension():
    assert min_norm(gaussian_problem(20, 400, PAIR, size=100)).optimal.mean() > 0.95
    problem = gaussian_problem(20, 400, PAIR)
    assert decoupled(problem)[1]
    np.testing.assert_allclose(min_norm(problem).alpha, decoupled(problem)[0], atol=1e-14)


@pytest.mark.parametrize(("n", "d"), [(12, 12), (12, 13), (20, 24), (40, 100)])
def test_search_proves_what_the_certificate_cannot(n, d):
    for seed in range(3):
        result = min_norm(gaussian_problem(n, d, PAIR, seed))
        assert result.optimal
        np.testing.assert_allclose(result.lower_bound, result.norm, rtol=1e-9)


def test_room_for_search_suffices_for_a_whole_tree_of_twelve_examples():
    whole_tree = 2 ** (12 + 1) - 2
    assert whole_tree * (2 * 12) ** 2 <= module._SEARCH_ENTRIES


@pytest.mark.parametrize("seed", range(3))
def test_more_room_for_search_only_raises_the_bound(seed, monkeypatch):
    problem = gaussian_problem(20, 22, PAIR, seed)
    minimum, bounds = min_norm(problem), []
    for nodes in (0, 2, 4, 8):
        monkeypatch.setattr(module, "_SEARCH_ENTRIES", nodes * 40**2)
        result = min_norm(problem)
        assert minimum.norm <= result.norm * (1 + 1e-9)
        assert result.optimal == (result.norm < result.lower_bound * (1 + 1e-10))
        assert result.norm**2 < squared_norm(problem, decoupled(problem)[0])
        np.testing.assert_allclose(problem.predictions(result.beta), problem.labels, atol=1e-10)
        bounds.append(float(result.lower_bound))
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1] <= minimum.norm * (1 + 1e-9)


def test_bound_without_search_stays_below_the_minimum(monkeypatch):
    monkeypatch.setattr(module, "_SEARCH_ENTRIES", 0)
    unproved = 0
    for problem in small_pairs(lambda n: (n + 1, n + 2), seeds=5):
        result, minimum = min_norm(problem), enumerated_norm(problem)
        assert result.lower_bound <= minimum * (1 + 1e-9)
        assert result.norm >= minimum * (1 - 1e-9)
        unproved += not result.optimal
        if result.optimal:
            np.testing.assert_allclose(result.norm, minimum, rtol=1e-9)
    assert unproved > 0


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), reach=st.sampled_from([1e-3, 0.1, 10.0]))
def test_no_feasible_change_lowers_the_norm(seed, reach):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    signs = PAIR if seed % 2 else (1,)
    problem = unbalanced_problem(n, n + int(rng.integers(1, n + 1)), signs, seed)
    result = min_norm(problem)
    own = problem.labels[:, None] * problem.signs > 0
    moved = result.beta + reach * rng.standard_normal(result.beta.shape)
    other = np.where(own, 0.0, moved).sum(axis=-1)
    if signs == (1,):
        beta = np.where(own, result.beta, np.minimum(moved, 0.0))
    else:
        level = np.abs(problem.labels) + np.maximum(other, 0.0)
        beta = np.where(own, level[:, None], moved)
    square = squared_norm(problem, problem.dual(beta))
    assert square >= float(result.norm) ** 2 * (1 - 1e-9)


# Many neurons


@pytest.mark.parametrize("signs", [(1, 1), (1, 1, -1), (1, 1, -1, -1)])
def test_many_neurons_against_every_arrangement(signs):
    proved = unproved = 0
    for n, d, seed in itertools.product((1, 2), (3, 4, 10), range(6)):
        problem = unbalanced_problem(n, d, signs, seed)
        result, minimum = min_norm(problem), enumerated_norm(problem)
        assert result.lower_bound <= minimum * (1 + 1e-9)
        assert result.norm >= minimum * (1 - 1e-9)
        proved += bool(result.optimal)
        unproved += not result.optimal
        if result.optimal:
            np.testing.assert_allclose(result.norm, minimum, rtol=1e-9, atol=1e-12)
    assert proved > 10
    assert unproved > 0


@pytest.mark.slow
def test_four_neurons_on_three_examples_against_every_arrangement():
    for d, seed in itertools.product((4, 6, 15), range(3)):
        problem = unbalanced_problem(3, d, (1, 1, -1, -1), seed)
        result, minimum = min_norm(problem), enumerated_norm(problem)
        assert result.lower_bound <= minimum * (1 + 1e-9)
        assert result.norm >= minimum * (1 - 1e-9)
        if result.optimal:
            np.testing.assert_allclose(result.norm, minimum, rtol=1e-9)


def test_neurons_of_one_sign_share_and_sharing_is_proved_in_high_dimension():
    problem = gaussian_problem(20, 6400, (1, 1, -1, 1))
    pair = min_norm(Problem(problem.gram, problem.labels, PAIR))
    result = min_norm(problem)
    np.testing.assert_allclose(result.alpha[:, [0, 1, 3]], pair.alpha[:, [0, 0, 0]] / 3, rtol=1e-10)
    np.testing.assert_allclose(result.alpha[:, 2], pair.alpha[:, 1], rtol=1e-10)
    assert result.selected.tolist() == pair.selected.tolist()
    balanced = min_norm(Problem(problem.gram, problem.labels, (1, 1, -1, -1)))
    np.testing.assert_allclose(balanced.norm, pair.norm / np.sqrt(2), rtol=1e-12)
    assert balanced.optimal


def test_sharing_is_not_always_the_minimum():
    beaten = [
        enumerated_norm(problem) < min_norm(problem).norm * (1 - 1e-6)
        for problem in (unbalanced_problem(2, 3, (1, 1), seed) for seed in range(60))
    ]
    assert any(beaten)


# The selected subset


def test_selected_examples_depend_on_the_data_and_are_about_half():
    selected, negative = [], []
    for seed in range(40):
        problem = gaussian_problem(20, 1600, seed=seed)
        selected.append(min_norm(problem).selected)
        negative.append(problem.negative)
    chosen, possible = np.array(selected), np.array(negative)
    assert not chosen[~possible].any()
    assert 0.4 < chosen.sum() / possible.sum() < 0.6
    assert len({tuple(row) for row in chosen.tolist()}) > 30


def test_both_neurons_select_and_the_mask_joins_them():
    problem = gaussian_problem(20, 1600, PAIR)
    result = min_norm(problem)
    plus = min_norm(Problem(problem.gram, problem.labels, (1,))).selected
    minus = min_norm(Problem(problem.gram, problem.labels, (-1,))).selected
    np.testing.assert_array_equal(result.selected & problem.negative, plus)
    np.testing.assert_array_equal(result.selected & problem.positive, minus)
    assert plus.any()
    assert minus.any()


# The solver


def cycling_program(seed, n=5):
    """A badly conditioned program on which exchanging every wrong sign at once cycles."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((n, n)) * np.geomspace(1, 1e-2, n)
    return factor @ factor.T + 1e-4 * np.eye(n), rng.standard_normal(n)


def exchanges_until_done(matrix, level, most=1000):
    active = np.zeros(len(level), dtype=bool)
    for rounds in range(most):
        mu, on = np.zeros(len(level)), np.flatnonzero(active)
        mu[on] = np.linalg.solve(matrix[np.ix_(on, on)], level[on])
        wrong = np.where(active, mu, matrix @ mu - level) > 1e-12
        if not wrong.any():
            return rounds
        active ^= wrong
    return most


@pytest.mark.parametrize("seed", [16, 170, 225, 243, 316])
def test_pivoting_ends_where_plain_exchange_cycles(seed):
    matrix, level = cycling_program(seed)
    assert exchanges_until_done(matrix, level) == 1000
    every = np.ones((1, len(level)), dtype=bool)
    found, active = module._bounded(matrix[None], level[None], every, ~every)
    factor = np.linalg.cholesky(matrix)
    mu, _ = nnls(factor.T, np.linalg.solve(factor, -level))
    np.testing.assert_allclose(found[0], -mu, atol=1e-9 * mu.max())
    np.testing.assert_array_equal(active[0], mu > 0)


def test_a_solver_that_does_not_settle_says_so(monkeypatch):
    monkeypatch.setattr(module, "_ROUNDING", -1e6)
    with pytest.warns(RuntimeWarning, match=r"1 of 1 programs did not settle.*kkt_residual"):
        result = min_norm(Problem([[2.0, 1.0], [1.0, 2.0]], [1.0, -1.0]))
    assert np.isfinite(result.kkt_residual)


def test_a_network_that_breaks_its_conditions_proves_nothing(monkeypatch):
    monkeypatch.setattr(module, "_ROUNDING", 1e6)
    result = min_norm(Problem([[2.0, -1.0], [-1.0, 2.0]], [1.0, 1.0], (1, 1)))
    assert result.optimal
    result = min_norm(Problem([[2.0, 1.0], [1.0, 2.0]], [1.0, -1.0]))
    assert result.kkt_residual > 0.1
    assert not result.optimal
    assert float(result.lower_bound) == 0.0


def test_something_that_is_not_a_problem_is_named():
    with pytest.raises(TypeError, match=r"problem must be a Problem, got a ndarray; make one with"):
        min_norm(np.eye(3))
