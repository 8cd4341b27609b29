"""Gradient descent: equal to descent on the weights, and certain of its end."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibrelu.descent import gradient_descent
from ibrelu.features import (
    gaussian_features,
    gaussian_gram,
    orthogonal_features,
    power_spectrum,
    signed_labels,
)
from ibrelu.problem import Problem, all_active, disjoint, from_weights, random_start


def descent_on_weights(X, y, signs, weights, step, steps, slope=0.0):
    """Plain descent in d dimensions; leaky ReLU if `slope` > 0. Weights of every step."""
    path = [weights]
    for _ in range(steps):
        pre = X @ weights
        factor = np.where(pre > 0, 1.0, slope)
        residual = (factor * pre) @ signs - y
        weights = weights - step * X.T @ (residual[:, None] * signs * factor)
        path.append(weights)
    return np.array(path)


def plain_descent(problem, beta, step, steps):
    """Plain descent in span coordinates; α and β of every step."""
    alphas, betas = [problem.dual(beta)], [beta]
    for _ in range(steps):
        residual = np.maximum(betas[-1], 0) @ problem.signs - problem.labels
        moved = step * residual[..., None] * problem.signs * (betas[-1] > 0)
        alphas.append(alphas[-1] - moved)
        betas.append(problem.gram @ alphas[-1])
    return np.array(alphas), np.array(betas)


def pattern_changes(betas):
    active = np.asarray(betas) > 0
    return np.flatnonzero((active[1:] != active[:-1]).any(axis=(1, 2))) + 1


def random_problem(n, d, signs, seed, size=None, spectrum=None):
    gram = gaussian_gram(n, d, spectrum=spectrum, size=size, rng=seed)
    return Problem(gram, signed_labels(n, size=size, rng=seed + 1), signs=signs)


# --- step for step -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "d", "signs", "c", "spectrum"),
    [
        (20, 400, (1,), 0.5, None),
        (20, 400, (1,), 0.05, None),
        (20, 21, (1,), 0.3, None),
        (12, 60, (-1,), 0.5, None),
        (10, 12, (1, -1), 0.2, None),
        (20, 200, (1, -1), 0.5, power_spectrum(200, 0.5)),
        (10, 60, (1, 1, -1), 0.1, [(10.0, 2), (1.0, 58)]),
        (8, 40, (1, -1, 1, -1, 1), 0.1, None),
        (1, 1, (1,), 0.5, None),
    ],
)
@pytest.mark.parametrize("kind", ["all active", "random"])
def test_every_state_equals_descent_on_the_weights(n, d, signs, c, spectrum, kind):
    """Claim D1."""
    X = gaussian_features(n, d, spectrum=spectrum, rng=n + d)
    y = signed_labels(n, positive=0.5 if n > 1 else float(signs[0] > 0), rng=d)
    problem = Problem.from_features(X, y, signs)
    start = all_active(problem, 0.01) if kind == "all active" else random_start(problem, X, 0.01, 3)
    step = problem.step(c)
    run = gradient_descent(problem, start, step, record=True)
    weights = X.T @ problem.dual(start)
    path = descent_on_weights(X, y, problem.signs, weights, float(step), run.steps)
    np.testing.assert_allclose(run.history.beta, X @ path, rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        problem.weights(X, run.history.alpha), path, rtol=0, atol=1e-10 * np.abs(path).max()
    )
    assert run.status == "certified"
    if np.abs(run.beta).min() > 1e-12:
        assert run.settled == max(pattern_changes(run.history.beta), default=0)


def test_part_of_the_weights_outside_the_span_never_moves():
    X = gaussian_features(5, 30, rng=0)
    y = signed_labels(5, rng=1)
    problem = Problem.from_features(X, y)
    weights = 0.1 * np.random.default_rng(2).standard_normal((30, 1))
    path = descent_on_weights(X, y, problem.signs, weights, 0.01, 20)
    run = gradient_descent(problem, from_weights(X, weights), 0.01, record=[20])
    outside = weights - X.T @ np.linalg.solve(X @ X.T, X @ weights)
    np.testing.assert_allclose(
        problem.weights(X, run.history.alpha[0]) + outside, path[20], rtol=0, atol=1e-12
    )


def test_named_problems_reach_their_limits_and_change_pattern_at_their_steps(cases):
    for case in cases:
        problem = Problem(case["gram"], case["y"], case["signs"])
        run = gradient_descent(problem, case["beta0"], case["step"], record=True)
        assert run.status == "certified"
        np.testing.assert_allclose(run.alpha, case["gd_alpha"], rtol=0, atol=1e-8)
        np.testing.assert_array_equal(run.active, case["gd_active"])
        np.testing.assert_array_equal(
            pattern_changes(run.history.beta), case["pattern_changes"].astype(int)
        )
        assert run.settled == case["pattern_changes"][-1]
        assert run.loss == pytest.approx(case["gd_loss"], rel=1e-10, abs=1e-20)


def test_inactive_duals_do_not_move():
    """Claim D2: exact zeros."""
    problem = random_problem(20, 400, (1, -1), 0)
    run = gradient_descent(
        problem, random_start(problem, None, 0.01, 1), problem.step(0.3), record=True
    )
    moves = np.diff(run.history.alpha, axis=0)
    inactive = run.history.beta[:-1] <= 0
    assert inactive.sum() > 100
    assert (moves[inactive] == 0.0).all()
    assert (moves[~inactive] != 0.0).any()


def test_inactive_duals_do_move_under_a_leaky_slope():
    """Claim D2 needs the ReLU."""
    X = gaussian_features(20, 400, rng=0)
    y = signed_labels(20, rng=1)
    weights = 0.01 * np.random.default_rng(2).standard_normal((400, 1))
    path = descent_on_weights(X, y, np.ones(1), weights, 0.5 / 400, 5, slope=0.1)
    moves = np.linalg.solve(X @ X.T, X @ np.diff(path, axis=0))
    inactive = X @ path[:-1] <= 0
    assert (np.abs(moves[inactive]) > 1e-6).all()


# --- certificates --------------------------------------------------------------------------------


@pytest.mark.parametrize("signs", [(1,), (1, -1), (1, -1, 1)])
@pytest.mark.parametrize(("n", "d", "c"), [(8, 9, 0.3), (8, 16, 0.5), (6, 60, 0.05)])
@pytest.mark.parametrize("kind", ["all active", "random"])
def test_no_pattern_changes_in_ten_thousand_steps_after_the_certificate(n, d, c, signs, kind):
    size = 60
    problem = random_problem(n, d, signs, 5, size=size)
    start = all_active(problem, 0.05)
    if kind == "random":
        start = random_start(problem, None, 0.1, 7)
        start[~(start > 0).any(axis=(1, 2))] *= -1.0
    step = problem.step(c)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        run = gradient_descent(problem, start, step, max_steps=3000, record=[3000])
    proven = run.status == "certified"
    assert proven.mean() > 0.4
    gram, labels, final = problem.gram[proven], problem.labels[proven], run.active[proven]
    scaled = step[proven, None, None] * problem.signs
    moved, start = np.zeros_like(start[proven]), run.history.beta[0][proven]
    # A pair that meets its kink while other neurons fit the example may flicker in the last bits.
    watched = np.abs(run.beta[proven]) > 1e-12
    beta = start
    for _ in range(10_000):
        residual = np.maximum(beta, 0.0) @ problem.signs - labels
        moved = moved - residual[..., None] * scaled * (beta > 0)
        beta = start + gram @ moved
        assert not ((beta > 0) != final)[watched].any()
    np.testing.assert_allclose(beta, run.beta[proven], rtol=0, atol=1e-6)


def test_a_pair_that_flips_for_ever_at_its_kink_does_not_keep_a_run_from_its_end():
    """Two neurons fit one label: the residual vanishes while a third pair slides at zero."""
    X = gaussian_features(10, 12, rng=22)
    problem = Problem.from_features(X, signed_labels(10, rng=12), signs=(1, -1))
    start, step = random_start(problem, X, 0.01, 3), problem.step(0.2)
    run = gradient_descent(problem, start, step)
    _, betas = plain_descent(problem, start, step, 3000)
    changes = pattern_changes(betas)
    assert len(changes) > 500
    assert run.status == "certified"
    assert np.abs(run.beta).min() < 1e-12
    np.testing.assert_allclose(run.beta, betas[-1], rtol=0, atol=1e-10)


def test_certificate_comes_no_earlier_than_the_last_change(cases):
    for case in cases:
        problem = Problem(case["gram"], case["y"], case["signs"])
        last = int(case["pattern_changes"][-1])
        with pytest.warns(UserWarning, match="max_steps"):
            run = gradient_descent(problem, case["beta0"], case["step"], max_steps=last)
        assert run.status == "max_steps"
        assert run.steps == run.settled == last


def test_limit_is_where_plain_descent_goes():
    problem = random_problem(15, 60, (1, -1), 4)
    start, step = all_active(problem, 0.01), problem.step(0.3)
    run = gradient_descent(problem, start, step)
    alphas, betas = plain_descent(problem, start, step, 3000)
    np.testing.assert_allclose(run.alpha, alphas[-1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.beta, betas[-1], rtol=0, atol=1e-11)
    np.testing.assert_array_equal(run.active, betas[-1] > 0)


def test_small_steps_that_chatter_are_certified_with_the_right_limit():
    problem = random_problem(20, 400, (1,), 0)
    start, step = all_active(problem, 1e-3), problem.step(3e-3)
    run = gradient_descent(problem, start, step)
    alphas, betas = plain_descent(problem, start, step, 20_000)
    changes = pattern_changes(betas)
    assert len(changes) > 100
    assert run.status == "certified"
    assert run.settled == changes[-1]
    np.testing.assert_allclose(run.alpha, alphas[-1], rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 2])
def test_very_small_steps_change_pattern_at_the_very_steps(m):
    problem = random_problem(20, 400, (1, -1)[:m], 0)
    start, step = all_active(problem, 1e-3), problem.step(1e-3)
    run = gradient_descent(problem, start, step, record=np.arange(12_001))
    _, betas = plain_descent(problem, start, step, 12_000)
    changes = pattern_changes(betas)
    assert run.status == "certified"
    assert len(changes) > 500
    np.testing.assert_array_equal(pattern_changes(run.history.beta), changes)
    np.testing.assert_allclose(run.history.beta, betas, rtol=0, atol=1e-10)


def test_orthogonal_examples_each_go_their_own_way():
    X = orthogonal_features(6, 10, scale=2.0, rng=0)
    y = np.array([1.0, 2.0, 1.5, -1.0, -2.0, -1.5])
    problem = Problem.from_features(X, y)
    run = gradient_descent(problem, all_active(problem, 0.1), 0.25)
    np.testing.assert_allclose(run.beta[:, 0], [1, 2, 1.5, -0.45, -0.95, -0.7], atol=1e-12)
    assert run.status == "certified"


def test_dead_positive_example_is_a_certified_stationary_point_but_no_global_minimum():
    gram = np.array([[4.0, 0.0], [0.0, 4.0]])
    problem = Problem(gram, [1.0, 1.5])
    run = gradient_descent(problem, [[0.1], [-0.1]], 0.1)
    assert run.status == "certified"
    assert not run.global_minimum
    np.testing.assert_allclose(run.beta[:, 0], [1.0, -0.1], atol=1e-14)
    assert run.loss == pytest.approx(0.5 * 1.5**2)
    assert gradient_descent(problem, [[0.1], [0.1]], 0.1).global_minimum


def test_global_minimum_of_labels_without_a_neuron_of_their_sign_is_output_zero():
    problem = random_problem(10, 2000, (1,), 0)
    run = gradient_descent(problem, all_active(problem, 1e-3), problem.step(0.5))
    assert run.global_minimum
    assert run.loss == pytest.approx(0.5 * (problem.labels[problem.negative] ** 2).sum())


@pytest.mark.parametrize("positive", [0.0, 1.0])
def test_labels_of_one_sign_are_a_linear_regression_or_a_dead_neuron(positive):
    y = signed_labels(10, positive=positive, rng=1)
    problem = Problem(gaussian_gram(10, 1000, rng=0), y)
    run = gradient_descent(problem, all_active(problem, 1e-3), problem.step(0.5))
    assert run.status == "certified"
    assert run.global_minimum
    if positive:
        np.testing.assert_allclose(run.alpha[:, 0], np.linalg.solve(problem.gram, y), atol=1e-12)
    else:
        assert not run.active.any()


def test_a_start_at_the_limit_stays_there():
    problem = Problem(gaussian_gram(6, 60, rng=0), signed_labels(6, positive=1.0, rng=1))
    run = gradient_descent(problem, problem.labels[:, None], problem.step(0.5))
    assert run.status == "certified"
    assert run.settled == 0
    np.testing.assert_allclose(run.beta[:, 0], problem.labels, rtol=1e-12)


def test_disjoint_start_keeps_its_pattern():
    problem = random_problem(8, 10**6, (1, -1, 1, -1), 0)
    owners = np.array([0, 2, 0, 2, 1, 3, 1, 3])
    run = gradient_descent(problem, disjoint(problem, owners, 1e-3), problem.step(0.5))
    assert run.settled == 0
    assert run.global_minimum
    np.testing.assert_array_equal(run.active, owners[:, None] == np.arange(4))


def test_more_neurons_of_a_sign_act_like_one_with_a_larger_step():
    """m equal neurons from equal starts are one neuron with step mη and outputs split by m."""
    gram, y = gaussian_gram(10, 300, rng=0), signed_labels(10, rng=1)
    one = gradient_descent(Problem(gram, y), np.full((10, 1), 0.03), 3e-4 * 3)
    three = gradient_descent(Problem(gram, y, signs=(1, 1, 1)), np.full((10, 3), 0.01), 3e-4)
    np.testing.assert_allclose(three.beta.sum(axis=1), one.beta[:, 0], rtol=1e-10)
    assert three.settled == one.settled


# --- history -------------------------------------------------------------------------------------


def test_recorded_steps_are_exact_before_and_beyond_the_certificate():
    problem = random_problem(12, 60, (1, -1), 3)
    start, step = all_active(problem, 0.01), problem.step(0.1)
    wanted = [0, 1, 2, 17, 100, 500, 5000]
    run = gradient_descent(problem, start, step, record=wanted)
    alphas, betas = plain_descent(problem, start, step, 5000)
    assert run.steps < 1000
    np.testing.assert_array_equal(run.history.step, wanted)
    np.testing.assert_allclose(run.history.alpha, alphas[wanted], rtol=0, atol=1e-11)
    np.testing.assert_allclose(run.history.beta, betas[wanted], rtol=0, atol=1e-10)
    np.testing.assert_allclose(run.history.loss, problem.loss(betas[wanted]), rtol=0, atol=1e-10)
    np.testing.assert_allclose(run.history.beta[-1], run.beta, rtol=0, atol=1e-10)


def test_recording_does_not_change_the_run():
    problem = random_problem(12, 60, (1, -1), 3)
    start, step = all_active(problem, 0.01), problem.step(0.1)
    plain = gradient_descent(problem, start, step)
    recorded = gradient_descent(problem, start, step, record=True)
    assert plain.history is None
    np.testing.assert_array_equal(plain.alpha, recorded.alpha)
    np.testing.assert_array_equal(recorded.history.step, np.arange(plain.steps + 1))
    np.testing.assert_array_equal(recorded.history.beta[0], start)


def test_history_of_a_run_without_a_certificate_stays_at_its_last_state():
    problem = random_problem(20, 400, (1,), 0)
    start, step = all_active(problem, 1e-3), problem.step(1e-3)
    with pytest.warns(UserWarning, match="max_steps"):
        run = gradient_descent(problem, start, step, max_steps=30, record=[0, 30, 31, 1000])
    for row in (1, 2, 3):
        np.testing.assert_allclose(run.history.beta[row], run.beta, rtol=0, atol=1e-12)


# --- batches -------------------------------------------------------------------------------------


def assert_batch_equals_loop(problem, start, step, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        batch = gradient_descent(problem, start, step, **options)
        loop = [
            gradient_descent(problem[i], start[i], step[i], **options) for i in range(len(start))
        ]
    for name in ("steps", "settled", "status", "global_minimum"):
        np.testing.assert_array_equal(getattr(batch, name), [getattr(run, name) for run in loop])
    for name in ("alpha", "beta", "active", "loss"):
        np.testing.assert_allclose(
            getattr(batch, name), [getattr(run, name) for run in loop], rtol=0, atol=1e-12
        )
    return batch, loop


@pytest.mark.parametrize("signs", [(1,), (1, -1)])
def test_batch_of_a_thousand_equals_the_loop(signs):
    problem = random_problem(20, 400, signs, 0, size=1000)
    start = all_active(problem, 1e-3)
    batch, _ = assert_batch_equals_loop(problem, start, problem.step(0.5))
    assert (batch.status == "certified").all()


@pytest.mark.parametrize(("d", "c"), [(21, 0.5), (40, 0.02), (400, 0.003)])
def test_batch_equals_the_loop_where_runs_take_different_paths(d, c):
    """Near n, at random starts and with small steps: dead, chattering, diverging, unfinished."""
    problem = random_problem(20, d, (1, -1), 0, size=30)
    start = random_start(problem, None, 0.01, 1)
    step = problem.step(c) * np.where(np.arange(30) % 5 == 4, 8.0, 1.0)
    batch, loop = assert_batch_equals_loop(problem, start, step, max_steps=1500, record=[0, 7, 999])
    np.testing.assert_allclose(
        batch.history.alpha, np.stack([run.history.alpha for run in loop], axis=1), atol=1e-12
    )


def test_batch_split_by_memory_gives_the_same(monkeypatch):
    problem = random_problem(6, 40, (1, -1), 0, size=(5, 3))
    start = all_active(problem, 0.01)
    whole = gradient_descent(problem, start, problem.step(0.2))
    monkeypatch.setattr("ibrelu.descent._BYTES", 1)
    split = gradient_descent(problem, start, problem.step(0.2))
    assert split.alpha.shape == (5, 3, 6, 2)
    np.testing.assert_allclose(split.alpha, whole.alpha, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(split.steps, whole.steps)


def test_results_of_one_problem_are_plain_numbers():
    problem = random_problem(5, 50, (1,), 0)
    run = gradient_descent(problem, all_active(problem, 0.01), problem.step(0.5))
    assert isinstance(run.status, str)
    assert isinstance(float(run.loss), float)
    assert f"{run.steps:d} {run.loss:.3f}"
    assert run.global_minimum in (True, False)


# --- steps too large, and runs without an end ----------------------------------------------------


@pytest.mark.parametrize("signs", [(1,), (1, -1), (1, -1, 1)])
@pytest.mark.parametrize("factor", [5.0, 1e6, 1e200])
def test_a_step_too_large_ends_as_diverged_and_names_the_largest_safe_one(signs, factor):
    problem = random_problem(10, 100, signs, 0)
    safe = problem.largest_safe_step
    with pytest.warns(UserWarning, match=rf"diverged.*safe whatever the pattern is {safe:.6g}"):
        run = gradient_descent(problem, all_active(problem, 0.01), factor * safe, record=True)
    assert run.status == "diverged"
    assert not run.global_minimum
    for array in (run.alpha, run.beta, run.loss, run.history.alpha, run.history.loss):
        assert np.isfinite(array).all()


def test_strongly_opposed_examples_pump_each_other_up_without_bound():
    gram = np.array([[1.0, -0.9], [-0.9, 1.0]])
    problem = Problem(gram, [1.0, 1.3])
    with pytest.warns(UserWarning, match="diverged"):
        run = gradient_descent(problem, [[0.1], [-0.1]], 4.0)
    assert run.status == "diverged"
    assert np.isfinite(run.alpha).all()
    assert run.loss > 1.0


def test_one_diverging_problem_leaves_the_others_alone():
    problem = random_problem(10, 400, (1,), 0, size=3)
    start, step = all_active(problem, 0.01), problem.step(0.5)
    good = gradient_descent(problem, start, step)
    with pytest.warns(UserWarning, match="diverged in 1 of 3"):
        run = gradient_descent(problem, start, step * [1, 50, 1])
    np.testing.assert_array_equal(run.status, ["certified", "diverged", "certified"])
    np.testing.assert_allclose(run.alpha[[0, 2]], good.alpha[[0, 2]], rtol=0, atol=1e-13)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), m=st.integers(1, 3), share=st.floats(0.1, 0.99))
def test_steps_below_the_safe_one_never_diverge(seed, m, share):
    problem = random_problem(6, 7 + seed % 20, (1, -1, 1)[:m], seed)
    start = all_active(problem, 0.1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "gradient descent reached max_steps")
        run = gradient_descent(problem, start, share * problem.largest_safe_step, max_steps=3000)
    assert run.status != "diverged"


def test_running_out_of_steps_is_a_status_and_a_warning():
    problem = random_problem(20, 400, (1,), 0)
    with pytest.warns(UserWarning, match=r"max_steps = 10 without a certificate in 1 of 1"):
        run = gradient_descent(problem, all_active(problem, 1e-3), problem.step(1e-3), max_steps=10)
    assert run.status == "max_steps"
    assert run.steps == 10
    assert not run.global_minimum
    _, betas = plain_descent(problem, all_active(problem, 1e-3), problem.step(1e-3), 10)
    np.testing.assert_allclose(run.beta, betas[-1], rtol=0, atol=1e-13)


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "step", "options", "error", "message"),
    [
        (np.ones((3, 1)), 0.1, {}, ValueError, r"start must have shape .*one column a neuron"),
        (np.ones((2, 4, 1)), 0.1, {}, ValueError, r"start must have shape \(4, 1\).*\(2, 4, 1\)"),
        ([[1.0], [np.nan], [1], [1]], 0.1, {}, ValueError, r"start must be finite, got nan at"),
        ([[1.0], [np.inf], [1], [1]], 0.1, {}, ValueError, r"start must be finite, got inf at"),
        ([["a"], ["b"], ["c"], ["d"]], 0.1, {}, TypeError, r"start must be an array of real"),
        (-np.ones((4, 1)), 0.1, {}, ValueError, r"start has no active example: every"),
        (np.zeros((4, 1)), 0.1, {}, ValueError, r"start has no active example"),
        (np.ones((4, 1)), 0.0, {}, ValueError, r"step must be a positive number, got 0"),
        (np.ones((4, 1)), -0.1, {}, ValueError, r"step must be a positive number, got -0.1"),
        (np.ones((4, 1)), np.nan, {}, ValueError, r"step must be finite, got nan"),
        (np.ones((4, 1)), np.inf, {}, ValueError, r"step must be finite, got inf"),
        (np.ones((4, 1)), "fast", {}, TypeError, r"step must be an array of real numbers"),
        (np.ones((4, 1)), [0.1, 0.1], {}, ValueError, r"step must be one number .* \(2,\)"),
        (np.ones((4, 1)), 0.1, {"max_steps": 0}, ValueError, r"max_steps must be at least 1"),
        (np.ones((4, 1)), 0.1, {"max_steps": 1e5}, TypeError, r"max_steps must be a whole number"),
        (np.ones((4, 1)), 0.1, {"record": [0, 2, 1]}, ValueError, r"strictly increasing steps"),
        (np.ones((4, 1)), 0.1, {"record": [-1, 2]}, ValueError, r"steps from 0 on"),
        (np.ones((4, 1)), 0.1, {"record": [0.5]}, TypeError, r"record must be True or a one-dim"),
        (np.ones((4, 1)), 0.1, {"record": 7}, TypeError, r"record must be True or a one-dim"),
    ],
)
def test_bad_input_is_refused_with_the_reason(start, step, options, error, message):
    problem = random_problem(4, 40, (1,), 0)
    with pytest.raises(error, match=message):
        gradient_descent(problem, start, step, **options)


def test_bad_problem_of_a_batch_is_named():
    problem = random_problem(4, 40, (1,), 0, size=3)
    start = np.ones((3, 4, 1))
    start[1] = -1.0
    with pytest.raises(ValueError, match=r"start has no active example in problem \(1,\)"):
        gradient_descent(problem, start, 0.1)
    with pytest.raises(ValueError, match=r"step must be a positive number, got -1"):
        gradient_descent(problem, np.ones((3, 4, 1)), [0.1, -1.0, 0.1])


def test_a_truth_value_is_no_step():
    problem = Problem([[4.0]], [1.0])
    with pytest.raises(TypeError, match="step must be a positive number, got True"):
        gradient_descent(problem, all_active(problem, 0.1), True)
