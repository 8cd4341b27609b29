"""Gradient flow: exact phases, no missed event, the limit of descent, the claims about it."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import lsq_linear

from ibrelu import _compiled
from ibrelu import flow as flow_module
from ibrelu.descent import gradient_descent
from ibrelu.features import gaussian_gram, orthogonal_features, signed_labels
from ibrelu.flow import Event, gradient_flow
from ibrelu.min_norm import min_norm
from ibrelu.problem import Problem, all_active, from_weights, random_start
from ibrelu.theory import gap


def gaussian_problem(n, d, signs, seed):
    rng = np.random.default_rng(seed)
    return Problem(gaussian_gram(n, d, rng=rng), signed_labels(n, rng=rng), signs)


def small_problem(seed, spare=2):
    """A problem of 2 to 8 examples in few dimensions, signs any, and a start of either kind."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    signs = [(1,), (1, -1), (-1, 1), (-1,), (1, 1)][seed % 5]
    X = rng.standard_normal((n, n + spare + int(rng.integers(0, n))))
    problem = Problem.from_features(X, rng.choice([-1, 1], n) * rng.uniform(1, 2, n), signs)
    start = (
        random_start(problem, X, 0.1, rng) if seed % 2 else rng.uniform(0.05, 0.15, (n, problem.m))
    )
    if not (start > 0).any():
        start = np.abs(start)
    return problem, start


# The flow as an ordinary differential equation, written independently.


def filippov(problem, start, horizon):
    """Dual variables at `horizon` by a Runge-Kutta method that stops at each event."""
    gram, signs, labels = problem.gram, problem.signs, problem.labels
    shape = (problem.n, problem.m)
    state = np.where(start > 0, "active", "inactive")

    def drives(alpha):
        beta = gram @ alpha
        output = np.where(state == "active", beta, 0.0) @ signs
        return -np.outer(output - labels, signs)

    def rates(alpha):
        drive = drives(alpha)
        rate = np.where(state == "active", drive, 0.0)
        for k in range(problem.m):
            kink = state[:, k] == "sliding"
            rate[kink, k] = -np.linalg.solve(gram[np.ix_(kink, kink)], (gram @ rate[:, k])[kink])
        return rate, drive

    def watched(i, k, what):
        def value(_, flat):
            alpha = flat.reshape(shape)
            if what == "primal":
                return gram[i] @ alpha[:, k]
            rate, drive = rates(alpha)
            return -rate[i, k] if what == "rest" else (rate - drive)[i, k]

        value.terminal = True
        value.direction = 1 if what == "primal" and state[i, k] == "inactive" else -1
        return value

    def settle(alpha, k):
        kink = np.flatnonzero(state[:, k] == "sliding")
        if kink.size == 0:
            return
        drive = drives(alpha)[:, k]
        push = gram[kink] @ np.where(state[:, k] == "active", drive, 0.0)
        factor = np.linalg.cholesky(gram[np.ix_(kink, kink)])
        bounds = (drive[kink], np.zeros(kink.size))
        target = -np.linalg.solve(factor, push)
        rate = lsq_linear(factor.T, target, bounds, method="bvls", tol=1e-14).x
        state[kink[rate > -1e-9], k] = "inactive"
        state[kink[rate < drive[kink] + 1e-9], k] = "active"

    alpha, now = problem.dual(start), 0.0
    while now < horizon:
        events = []
        for i, k in np.ndindex(shape):
            kinds = ("rest", "drive") if state[i, k] == "sliding" else ("primal",)
            events += [(i, k, what) for what in kinds]
        run = solve_ivp(
            lambda _, flat: rates(flat.reshape(shape))[0].ravel(),
            (now, horizon),
            alpha.ravel(),
            method="DOP853",
            rtol=1e-10,
            atol=1e-12,
            max_step=0.5 / np.linalg.eigvalsh(gram)[-1],
            events=[watched(*event) for event in events],
        )
        alpha, now = run.y[:, -1].reshape(shape), run.t[-1]
        if run.status == 0:
            break
        for (i, k, what), times in zip(events, run.t_events, strict=True):
            if not times.size:
                continue
            if what == "rest":
                state[i, k] = "inactive"
            elif what == "drive":
                state[i, k] = "active"
            elif drives(alpha)[i, k] > 0:
                state[i, k] = "active" if state[i, k] == "inactive" else "inactive"
            else:
                state[i, k] = "sliding"
            if what == "primal":
                settle(alpha, k)
    return alpha


def check_against_ode(seeds):
    for seed in seeds:
        problem, start = small_problem(seed)
        if (problem.signs == 1).sum() == 2:
            continue  # neurons of one sign have events at one time, which solve_ivp cannot report
        flow = gradient_flow(problem, start)
        last = flow.events[-1].time if flow.events else 0.0
        horizon = 1.2 * min(last, 3.0) + 3.0 / problem.scale
        alpha, _ = flow.at([horizon])
        assert gap(problem, alpha[0], filippov(problem, start, horizon)) < 1e-6, seed


def test_agrees_with_an_independent_ode_solution():
    check_against_ode(range(20))


@pytest.mark.slow
def test_agrees_with_an_independent_ode_solution_on_many_problems():
    check_against_ode(range(20, 120))


# Descent with a smaller and smaller step.


def distances_of_descent(signs, count, fractions):
    rows = []
    for seed in range(count):
        problem = gaussian_problem(8, 160, signs, seed)
        start = all_active(problem, 1e-6)
        flow = gradient_flow(problem, start)
        limits = [
            gradient_descent(problem, start, problem.step(c), max_steps=10**7) for c in fractions
        ]
        assert all(limit.status == "certified" for limit in limits)
        rows.append([gap(problem, limit, flow, relative=True) for limit in limits])
    return np.array(rows)


@pytest.mark.parametrize("signs", [(1,), (1, -1)])
def test_descent_tends_to_the_flow_linearly_in_the_step(signs):
    distance = distances_of_descent(signs, 10, (1e-2, 1e-3))
    assert np.median(distance[:, 0] / distance[:, 1]) == pytest.approx(10, rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("signs", [(1,), (1, -1)])
def test_descent_falls_tenfold_towards_the_flow_over_three_steps(signs):
    distance = distances_of_descent(signs, 20, (1e-2, 1e-3, 1e-4))
    ratios = np.median(distance[:, :-1] / distance[:, 1:], axis=0)
    assert ratios == pytest.approx([10, 10], rel=0.2)


def test_descent_stays_away_from_the_flow_at_a_fixed_step():
    distance = [
        float(gap(p, gradient_descent(p, b, p.step(0.5)), gradient_flow(p, b), relative=True))
        for p in (gaussian_problem(8, 8000, (1,), seed) for seed in range(5))
        for b in [all_active(p, 1e-3)]
    ]
    assert min(distance) > 0.2


# Orthogonal data, and the flow's own gap.


@pytest.mark.parametrize(
    ("signs", "scale"), [((1,), 1e-6), ((1,), 0.3), ((1,), 3.0), ((1, -1), 1e-6), ((1, -1), 0.3)]
)
def test_on_orthogonal_data_the_flow_reaches_the_minimum_norm(signs, scale):
    X = orthogonal_features(12, 40, scale=40.0, rng=1)
    problem = Problem.from_features(X, signed_labels(12, rng=2), signs)
    start = scale * np.random.default_rng(3).uniform(0.5, 1.5, (12, len(signs)))
    flow = gradient_flow(problem, start)
    assert flow.status == "certified"
    assert flow.global_minimum
    assert gap(problem, flow, min_norm(problem), relative=True) < 1e-10


def test_on_orthogonal_data_descent_misses_the_minimum_norm_by_its_step():
    problem = Problem(40.0 * np.eye(12), signed_labels(12, rng=2))
    step = problem.step(0.5)
    descent = gradient_descent(problem, all_active(problem, 1e-6), step)
    expected = step * np.sqrt(40.0) * np.linalg.norm(problem.labels[problem.negative])
    assert gap(problem, descent, min_norm(problem)) == pytest.approx(expected, rel=1e-5)


def test_the_gap_of_the_flow_falls_with_dimension():
    medians = []
    for d in (400, 1600, 6400, 25600):
        gram = gaussian_gram(20, d, size=20, rng=d)
        problem = Problem(gram, signed_labels(20, size=20, rng=d))
        flow = gradient_flow(problem, all_active(problem, 1e-3))
        assert (flow.status == "certified").all()
        medians.append(np.median(gap(problem, flow, min_norm(problem), relative=True)))
    assert all(later < 0.6 * earlier for earlier, later in pairwise(medians))
    assert medians[-1] < 1e-4


# What a limit must satisfy.


@pytest.mark.parametrize("seed", range(5))
def test_the_limit_fits_the_positive_labels_and_is_at_most_0_on_the_others(seed):
    problem = gaussian_problem(20, 400, (1,), seed)
    flow = gradient_flow(problem, all_active(problem, 1e-3))
    beta = problem.primal(flow.alpha)[:, 0]
    assert np.abs(beta - problem.labels)[problem.positive].max() < 1e-12
    assert beta[problem.negative].max() < 1e-12
    assert flow.global_minimum
    assert flow.residual < 1e-12
    assert flow.loss == pytest.approx(0.5 * (problem.labels[problem.negative] ** 2).sum())


def test_one_neuron_has_about_n_events():
    counts = []
    for seed in range(10):
        problem = gaussian_problem(20, 400, (1,), seed)
        counts.append(len(gradient_flow(problem, all_active(problem, 1e-3)).events))
    assert 10 <= np.mean(counts) <= 25
    assert max(counts) <= 40


def test_a_dead_start_is_certified_as_no_global_minimum():
    problem = Problem(np.eye(2), [1.0, 1.0])
    flow = gradient_flow(problem, [[0.1], [-0.1]])
    assert flow.status == "certified"
    assert not flow.global_minimum
    assert flow.loss == pytest.approx(0.5)


def test_every_kind_of_event_occurs_and_times_never_decrease():
    kinds = set()
    for seed in range(40):
        events = gradient_flow(*small_problem(seed)).events
        kinds |= {event.kind for event in events}
        assert all(a.time <= b.time for a, b in pairwise(events))
    assert kinds == {"slides", "drops", "wakes", "rises"}


# Random problems: no event missed, no run that hangs.


def check_random_problems(seeds):
    for seed in seeds:
        problem, start = small_problem(seed, spare=1)
        flow = gradient_flow(problem, start)
        assert flow.status == "certified", seed
        assert len(flow.events) <= 6 * start.size, seed
        assert flow.residual < 1e-9, seed


def test_runs_near_the_edge_of_dimension_end_with_few_events():
    check_random_problems(range(500))


@pytest.mark.slow
def test_ten_thousand_runs_near_the_edge_of_dimension_end_with_few_events():
    check_random_problems(range(500, 10_500))


@pytest.mark.parametrize("seed", range(20))
def test_the_state_obeys_its_bounds_and_the_loss_never_grows(seed):
    problem, start = small_problem(seed)
    flow = gradient_flow(problem, start)
    last = flow.events[-1].time if flow.events else 0.0
    times = np.linspace(0.0, last + 5.0 / problem.scale, 400)
    alpha, beta = flow.at(times)
    loss = problem.loss(beta)
    assert (np.diff(loss) <= 1e-12 * loss[0]).all()
    assert np.abs(problem.primal(alpha) - beta).max() < 1e-10
    # Between events the sign of each primal is constant: no crossing goes unrecorded.
    stops = np.searchsorted(sorted({event.time for event in flow.events}), times)
    for stop in np.unique(stops):
        stretch = beta[stops == stop]
        assert ((stretch > -1e-10).all(axis=0) | (stretch < 1e-10).all(axis=0)).all()


@pytest.mark.parametrize("seed", range(20))
def test_rates_lie_between_the_drive_and_zero(seed):
    problem, start = small_problem(seed)
    flow = gradient_flow(problem, start)
    edges = sorted({0.0, *(event.time for event in flow.events)})
    edges.append(edges[-1] + 1.0 / problem.scale)
    for a, b in pairwise(edges):
        h = 1e-4 * (b - a)
        alpha, beta = flow.at((a + b) / 2 + h * np.array([-1, 0, 1]))
        rate = (alpha[2] - alpha[0]) / (2 * h)
        drive = -np.outer(problem.predictions(beta[1]) - problem.labels, problem.signs)
        error = 1e-5 * np.abs(drive).max() + 1e-14 / h
        on, off = beta[1] > 1e-9, beta[1] < -1e-9
        assert np.abs(rate - drive)[on].max(initial=0) < error
        assert np.abs(rate[off]).max(initial=0) < error
        assert (rate > np.minimum(drive, 0) - error).all()
        assert (rate < np.maximum(drive, 0) + error).all()


def test_the_first_root_of_a_sum_of_exponentials_is_never_skipped():
    rng = np.random.default_rng(0)
    decay = np.sort(rng.uniform(0.2, 5.0, 6))
    coefficients = rng.standard_normal((3000, 6)) * 10.0 ** rng.uniform(-2, 2, (3000, 6))
    coefficients -= coefficients.mean(axis=1, keepdims=True)
    value = 10.0 ** rng.uniform(-6, 1, 3000)
    limit = value - coefficients.sum(axis=1)
    size = np.abs(coefficients).sum(axis=1)
    times = np.concatenate([[0.0], np.geomspace(1e-6, 60.0, 3000)])
    for j in range(0, 3000, 3):  # one at a time: among several only the first root is worked out
        rows = slice(j, j + 1)
        root = flow_module._first_roots(
            decay, coefficients[rows], value[rows], limit[rows], size[rows]
        )[0]
        values = limit[j] + np.exp(-np.outer(times, decay)) @ coefficients[j]
        assert (values[times < root] > -1e-12 * size[j]).all()
        if np.isfinite(root):
            at_root = limit[j] + coefficients[j] @ np.exp(-decay * root)
            assert abs(at_root) < 1e-12 * size[j]
        else:
            assert (values > -1e-12 * size[j]).all()


# Ties and rest.


def test_examples_alike_reach_the_kink_together():
    gram = 40.0 * np.eye(8) - 1.0 + np.diag(np.ones(8))
    labels = np.array([1.0] * 4 + [-1.0] * 4)
    problem = Problem(gram, labels, (1, -1))
    flow = gradient_flow(problem, all_active(problem, 1e-3))
    assert flow.status == "certified"
    assert np.ptp(flow.alpha[:4], axis=0).max() < 1e-15
    assert np.ptp(flow.alpha[4:], axis=0).max() < 1e-15
    assert np.abs(flow.alpha[:4, 0] - flow.alpha[4:, 1]).max() < 1e-15
    assert len({event.time for event in flow.events}) < len(flow.events)
    nudged = Problem(gram, labels * (1 + 1e-9 * np.arange(8)), (1, -1))
    assert gap(problem, gradient_flow(nudged, all_active(nudged, 1e-3)), flow) < 1e-7


@pytest.mark.parametrize(("seed", "pair"), [(87, (3, 0)), (211, (0, 1)), (496, (1, 1))])
def test_a_pair_at_rest_on_its_kink_stays_there_when_its_drive_turns_round(seed, pair):
    problem, start = small_problem(seed)
    flow = gradient_flow(problem, start)
    last = flow.events[-1].time
    output = problem.predictions(flow.at(last + np.linspace(0.0, 20.0 / problem.scale, 50))[1])
    drive = -(output - problem.labels)[:, pair[0]] * problem.signs[pair[1]]
    assert drive[0] < 0
    assert drive.max() > 0
    assert flow.status == "certified"
    assert abs(flow.beta[pair]) < 1e-14
    assert not flow.active[pair]
    descent = gradient_descent(problem, start, problem.step(1e-3), max_steps=10**6)
    assert gap(problem, flow, descent, relative=True) < 0.01


def test_a_negative_example_of_one_neuron_alone_drops_at_the_kink():
    flow = gradient_flow(Problem([[2.0]], [-1.0]), [[0.5]])
    (event,) = flow.events
    assert event[1:] == (0, 0, "drops")
    # beta decays like (0.5 + 1) exp(-2t) - 1
    assert event.time == pytest.approx(np.log(1.5) / 2, abs=1e-15)
    assert isinstance(event, Event)
    assert flow.alpha == pytest.approx(0.0, abs=1e-16)


# The compiled run. Where numba is missing it runs uncompiled, as Python.


def check_both_ways(monkeypatch, problem, start):
    monkeypatch.setattr(_compiled, "available", False)
    plain = gradient_flow(problem, start)
    monkeypatch.setattr(_compiled, "available", True)
    if not _compiled.find_spec("numba"):
        monkeypatch.setattr(_compiled, "compiled", lambda kernel, arguments: kernel)
    fast = gradient_flow(problem, start)
    assert [event[1:] for event in fast.events] == [event[1:] for event in plain.events]
    # How well a time is determined depends on how slowly the primal or rate meets 0.
    times = [np.array([event.time for event in flow.events]) for flow in (fast, plain)]
    np.testing.assert_allclose(*times, rtol=1e-6)
    assert fast.status == plain.status == "certified"
    assert (fast.active == plain.active).all()
    assert (fast.sliding == plain.sliding).all()
    largest = np.abs(plain.beta).max() + np.abs(start).max()
    np.testing.assert_allclose(fast.beta, plain.beta, rtol=0, atol=1e-12 * largest)
    difference = problem.primal(fast.alpha - plain.alpha)
    np.testing.assert_allclose(difference, 0.0, atol=1e-11 * largest)
    moments = np.concatenate([*times, np.linspace(0.0, 5.0 / problem.scale, 20)])
    for one, other in zip(fast.at(moments), plain.at(moments), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11 * np.abs(other).max())


def test_the_compiled_run_has_the_events_and_limit_of_the_plain_one(monkeypatch, cases):
    for case in cases:
        problem = Problem(case["gram"], case["y"], case["signs"])
        check_both_ways(monkeypatch, problem, case["beta0"])
    for seed in range(60):
        check_both_ways(monkeypatch, *small_problem(seed))


@pytest.mark.slow
@pytest.mark.parametrize("signs", [(1,), (1, -1)])
@pytest.mark.parametrize(("n", "d"), [(20, 40), (60, 1200)])
def test_the_compiled_run_is_the_plain_one_on_larger_problems(monkeypatch, signs, n, d):
    for seed in range(5):
        problem = gaussian_problem(n, d, signs, seed)
        check_both_ways(monkeypatch, problem, all_active(problem, 10.0 ** -(seed + 1)))


# States between start and limit; batches.


def test_at_gives_start_and_limit_and_one_neurons_closed_form():
    problem = Problem([[2.0]], [1.0])
    flow = gradient_flow(problem, [[0.5]])
    times = np.array([0.0, 0.3, 1.0, 30.0])
    alpha, beta = flow.at(times)
    assert alpha.shape == beta.shape == (4, 1, 1)
    assert beta[:, 0, 0] == pytest.approx(1 - 0.5 * np.exp(-2 * times), abs=1e-15)
    assert alpha[-1] == pytest.approx(flow.alpha, abs=1e-15)


def test_at_follows_descent_with_a_small_step():
    problem = gaussian_problem(6, 60, (1, -1), 4)
    start, step = all_active(problem, 0.05), problem.step(1e-4)
    record = [0, 1_000, 5_000, 20_000]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "gradient descent reached max_steps")
        history = gradient_descent(problem, start, step, max_steps=20_000, record=record).history
    alpha, _ = gradient_flow(problem, start).at(step * history.step)
    assert gap(problem, alpha, history.alpha).max() < 1e-4


@pytest.mark.parametrize("signs", [(1,), (1, -1)])
def test_a_batch_equals_a_loop(signs):
    gram = gaussian_gram(7, 30, size=(2, 3), rng=0)
    labels = signed_labels(7, size=(2, 3), rng=1)
    batch = Problem(gram, labels, signs)
    start = random_start(batch, None, 0.1, 2) + 0.2
    together = gradient_flow(batch, start)
    alpha, beta = together.at([0.0, 0.1, 1.0])
    assert together.alpha.shape == (2, 3, 7, len(signs))
    assert alpha.shape == beta.shape == (3, 2, 3, 7, len(signs))
    assert together.status.shape == together.loss.shape == (2, 3)
    assert len(together.events) == 6
    for flat, index in enumerate(np.ndindex(2, 3)):
        alone = gradient_flow(batch[index], start[index])
        assert together.alpha[index] == pytest.approx(alone.alpha, abs=1e-12)
        assert together.events[flat] == alone.events
        assert together.status[index] == alone.status == "certified"
        assert alone.at([0.0, 0.1, 1.0])[1] == pytest.approx(beta[:, *index], abs=1e-12)
        for name in ("active", "sliding", "global_minimum"):
            assert (getattr(together, name)[index] == getattr(alone, name)).all()


def test_where_it_fits_a_named_problem_it_ends_nearer_to_the_minimum_norm_than_descent(cases):
    fitted = 0
    for case in cases:
        problem, best = Problem(case["gram"], case["y"], case["signs"]), case["min_norm_alpha"]
        flow = gradient_flow(problem, case["beta0"])
        assert flow.status == "certified"
        if flow.global_minimum:
            fitted += 1
            assert gap(problem, flow, best) < gap(problem, case["gd_alpha"], best)
    assert fitted >= 5


# One solution set, two limits (worst case).


def rescaled_limits(limit, factor):
    """Weights reached on a data set and on the same with example 0 and its label rescaled."""
    rng = np.random.default_rng(166)
    X, labels = rng.standard_normal((3, 3)), np.array([1.0, 1.0, -1.0])
    weights = np.linalg.solve(X, np.full((3, 1), 1e-3))
    ends = []
    for t in (np.ones((3, 1)), np.array([[factor], [1.0], [1.0]])):
        problem = Problem.from_features(t * X, t[:, 0] * labels)
        start = from_weights(t * X, weights)
        ends.append(weights + problem.weights(t * X, limit(problem, start) - problem.dual(start)))
    return ends


def flow_limit(problem, start):
    flow = gradient_flow(problem, start)
    assert flow.global_minimum
    return flow.alpha


def linear_limit(problem, start):
    return problem.dual(problem.labels[:, None])


def test_rescaling_an_example_changes_the_limit_of_the_flow():
    first, second = rescaled_limits(flow_limit, 10.0)
    assert np.linalg.norm(first - second) > 0.1 * np.linalg.norm(first)


def test_rescaling_an_example_leaves_a_linear_model_where_it_was():
    first, second = rescaled_limits(linear_limit, 10.0)
    assert np.linalg.norm(first - second) < 1e-10 * np.linalg.norm(first)


# Bad input.


def test_a_start_at_a_kink_is_refused():
    problem = Problem(np.eye(2), [1.0, -1.0])
    with pytest.raises(ValueError, match=r"must not be exactly 0.*index \(1, 0\).*one side"):
        gradient_flow(problem, [[0.1], [0.0]])


def test_a_start_with_no_active_example_is_refused():
    batch = Problem(np.stack([np.eye(2)] * 2), np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"no active example.*all_active"):
        gradient_flow(batch, [[[0.1], [-0.1]], [[-0.1], [-0.1]]])


def test_more_than_two_neurons_are_refused_with_an_alternative():
    problem = Problem(np.eye(2), [1.0, -1.0], (1, -1, 1))
    with pytest.raises(ValueError, match=r"one or two neurons, got m = 3.*gradient_descent"):
        gradient_flow(problem, all_active(problem, 0.1))


def test_a_start_of_the_wrong_shape_or_not_finite_is_refused():
    problem = Problem(np.eye(2), [1.0, -1.0])
    with pytest.raises(ValueError, match=r"start must have shape \(\.\.\., 2, 1\)|start must have"):
        gradient_flow(problem, [0.1, 0.1])
    with pytest.raises(ValueError, match=r"leading axes \(\), got \(3,\)"):
        gradient_flow(problem, np.ones((3, 2, 1)))
    with pytest.raises(ValueError, match="start must be finite"):
        gradient_flow(problem, [[np.nan], [1.0]])


def test_times_before_the_start_or_of_the_wrong_shape_are_refused():
    flow = gradient_flow(Problem(np.eye(2), [1.0, -1.0]), [[0.1], [0.1]])
    with pytest.raises(
        ValueError, match=r"times must be .* ≥ 0, got shape \(2,\) with smallest -1"
    ):
        flow.at([0.0, -1.0])
    with pytest.raises(ValueError, match=r"one-dimensional"):
        flow.at(1.0)
    with pytest.raises(ValueError, match="times must be finite"):
        flow.at([np.inf])


def test_a_run_that_is_given_up_says_so(monkeypatch):
    monkeypatch.setattr(flow_module, "_EVENTS", 0)
    problem = gaussian_problem(6, 60, (1,), 0)
    with pytest.warns(RuntimeWarning, match=r"gave up after \d+ events.*not the limit"):
        flow = gradient_flow(problem, all_active(problem, 1e-3))
    assert flow.status == "max_events"
    assert np.isfinite(flow.alpha).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert flow.at([0.0])[1][0] == pytest.approx(1e-3)


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_a_batch_of_no_problems_has_no_limits(shape):
    problem = Problem(np.zeros((*shape, 3, 3)), np.zeros((*shape, 3)))
    start = all_active(problem, 1e-3)
    assert gradient_flow(problem, start).alpha.shape == (*shape, 3, 1)
    assert gradient_descent(problem, start, 0.1).alpha.shape == (*shape, 3, 1)
    assert min_norm(problem).norm.shape == shape
