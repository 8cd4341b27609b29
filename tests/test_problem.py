"""The regression problem in span coordinates, its starts, and everything it refuses."""

import numpy as np
import pytest

from ibrelu.descent import gradient_descent
from ibrelu.features import gaussian_features, gaussian_gram, orthogonal_features, signed_labels
from ibrelu.flow import gradient_flow
from ibrelu.min_norm import min_norm
from ibrelu.problem import (
    Problem,
    all_active,
    disjoint,
    from_weights,
    gram_matrix,
    random_start,
)

GRAM = np.array([[4.0, 1.0, 0.0], [1.0, 5.0, -1.0], [0.0, -1.0, 6.0]])
LABELS = np.array([1.0, -2.0, 1.5])


def changed(array, index, value):
    copy = np.array(array, dtype=float)
    copy[index] = value
    return copy


@pytest.mark.parametrize(
    ("gram", "labels", "signs", "error", "message"),
    [
        (
            changed(GRAM, (1, 2), np.nan),
            LABELS,
            (1,),
            ValueError,
            r"gram must be finite, got nan at",
        ),
        (
            changed(GRAM, (0, 0), np.inf),
            LABELS,
            (1,),
            ValueError,
            r"gram must be finite, got inf at",
        ),
        (
            GRAM,
            changed(LABELS, 1, np.nan),
            (1,),
            ValueError,
            r"labels must be finite.*index \(1,\)",
        ),
        (GRAM, changed(LABELS, 2, -np.inf), (1,), ValueError, r"labels must be finite, got -inf"),
        (GRAM, changed(LABELS, 1, 0.0), (1,), ValueError, r"labels must not be zero.*index \(1,\)"),
        (GRAM, LABELS[:2], (1,), ValueError, r"labels must have shape \(3,\).*got \(2,\)"),
        (
            GRAM[:2],
            LABELS,
            (1,),
            ValueError,
            r"gram must have shape \(\.\.\., n, n\).*got \(2, 3\)",
        ),
        (GRAM[0], LABELS, (1,), ValueError, r"gram must have shape"),
        (np.zeros((0, 0)), np.zeros(0), (1,), ValueError, r"n ≥ 1, got \(0, 0\)"),
        (changed(GRAM, (0, 1), 0.9), LABELS, (1,), ValueError, r"symmetric.*X @ X\.T"),
        (changed(GRAM, (0, 0), -4.0), LABELS, (1,), ValueError, r"example 0 has squared length -4"),
        (changed(GRAM, (0, 0), 0.0), LABELS, (1,), ValueError, r"positive definite: example 0"),
        (GRAM - 4.9 * np.eye(3) + np.ones((3, 3)), LABELS, (1,), ValueError, r"positive definite"),
        (GRAM, LABELS, (), ValueError, r"signs must be a non-empty sequence of \+1 and -1"),
        (GRAM, LABELS, (1, 2), ValueError, r"signs must be .* got \[1.0, 2.0\]"),
        (GRAM, LABELS, 1, ValueError, r"signs must be a non-empty sequence"),
        (GRAM.astype(str), LABELS, (1,), TypeError, r"gram must be an array of real numbers"),
        (GRAM, LABELS.astype(complex), (1,), TypeError, r"labels must be .* got dtype complex128"),
    ],
)
def test_bad_problems_are_refused_with_the_reason(gram, labels, signs, error, message):
    with pytest.raises(error, match=message):
        Problem(gram, labels, signs)


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (np.ones(3), ValueError, r"features must have shape \(\.\.\., n, d\), got shape \(3,\)"),
        (np.ones((3, 2)), ValueError, r"more examples than features: n = 3 > d = 2"),
        (changed(np.eye(3, 5), (2, 4), np.nan), ValueError, r"features must be finite, got nan at"),
        (changed(np.eye(3, 5), (0, 1), np.inf), ValueError, r"got inf at index \(0, 1\)"),
        (1e200 * np.eye(3, 5), ValueError, r"squared lengths overflow; rescale them"),
        (np.eye(3, 5).astype(str), TypeError, r"features must be an array of real numbers"),
        (np.eye(3, 5)[[0, 1, 1]], ValueError, r"examples 1 and 2 are duplicates up to a factor"),
        (np.eye(3, 5) * [[1], [0], [1]], ValueError, r"example 1 has squared length 0; drop it"),
        (
            np.array([[1.0, 0, 0], [0, 1.0, 0], [1.0, 1.0, 0]]),
            ValueError,
            r"singular or indefinite to working precision",
        ),
    ],
)
def test_bad_features_are_refused_with_the_reason(features, error, message):
    with pytest.raises(error, match=message):
        Problem.from_features(features, LABELS)


def test_one_bad_problem_of_a_batch_is_refused():
    gram = np.stack([GRAM, GRAM])
    with pytest.raises(ValueError, match=r"labels must not be zero.*index \(1, 0\)"):
        Problem(gram, [LABELS, changed(LABELS, 0, 0.0)])
    with pytest.raises(ValueError, match=r"labels must have shape \(2, 3\)"):
        Problem(gram, LABELS)
    with pytest.raises(ValueError, match=r"positive definite: example 2"):
        Problem([GRAM, changed(GRAM, (2, 2), -1.0)], [LABELS, LABELS])


def test_gram_by_blocks_of_columns_equals_the_product(monkeypatch):
    X = gaussian_features(4, 50, size=3, rng=0)
    monkeypatch.setattr("ibrelu.problem._COLUMNS", 7)
    np.testing.assert_allclose(gram_matrix(X), X @ X.swapaxes(-1, -2), rtol=1e-12, atol=1e-12)
    X[1, 2, 30] = np.nan
    with pytest.raises(ValueError, match=r"features must be finite, got nan at index \(1, 2, 30\)"):
        gram_matrix(X)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, np.float64])
def test_features_of_any_real_type_make_the_same_problem(dtype):
    X = np.array([[100, 2, 0], [0, 100, 3]], dtype=dtype)
    gram = Problem.from_features(X, [1, -1]).gram
    np.testing.assert_array_equal(gram, [[10_004.0, 200.0], [200.0, 10_009.0]])


def test_a_problem_cannot_be_changed_after_its_checks():
    gram, labels = GRAM.copy(), LABELS.copy()
    problem = Problem(gram, labels)
    gram[0, 0] = labels[0] = 99.0
    assert problem.gram[0, 0] == 4.0
    assert problem.labels[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        problem.gram[0, 0] = 1.0
    with pytest.raises(AttributeError):
        problem.labels = labels


def test_primal_and_dual_variables_are_inverse_and_name_the_same_weights():
    X = gaussian_features(5, 30, size=2, rng=0)
    problem = Problem.from_features(X, signed_labels(5, size=2, rng=1), signs=(1, -1))
    alpha = np.random.default_rng(2).standard_normal((2, 5, 2))
    beta = problem.primal(alpha)
    np.testing.assert_allclose(problem.dual(beta), alpha, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(X @ problem.weights(X, alpha), beta, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        problem[1].dual(beta[1]), problem.dual(beta)[1], rtol=1e-10, atol=1e-12
    )


def test_loss_and_predictions_are_those_of_the_network():
    problem = Problem(GRAM, LABELS, signs=(1, -1))
    beta = np.array([[2.0, -1.0], [1.0, 4.0], [-3.0, -1.0]])
    np.testing.assert_array_equal(problem.predictions(beta), [2.0, -3.0, 0.0])
    assert problem.loss(beta) == 0.5 * (1.0 + 1.0 + 1.5**2)


def test_step_divides_by_the_mean_squared_length():
    assert Problem(GRAM, LABELS).step(0.5) == 0.5 / 5.0
    for bad in (0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"c must be a positive finite number"):
            Problem(GRAM, LABELS).step(bad)
    with pytest.raises(TypeError, match=r"c must be a positive number, got '1'"):
        Problem(GRAM, LABELS).step("1")


def test_largest_safe_step_shrinks_with_the_number_of_neurons():
    one, two = Problem(GRAM, LABELS), Problem(GRAM, LABELS, signs=(1, -1))
    assert one.largest_safe_step == pytest.approx(2 / np.linalg.eigvalsh(GRAM)[-1])
    assert two.largest_safe_step == pytest.approx(one.largest_safe_step / 2)


def test_batch_indexing_gives_its_problems():
    gram = gaussian_gram(3, 9, size=(2, 4), rng=0)
    problem = Problem(gram, signed_labels(3, size=(2, 4), rng=0), signs=(1, -1))
    assert problem.batch_shape == (2, 4)
    assert problem[1].batch_shape == (4,)
    np.testing.assert_array_equal(problem[1, 2].gram, problem.gram[1, 2])
    assert repr(problem) == "Problem(n=3, signs=(+1, -1), batch=(2, 4))"
    with pytest.raises(TypeError, match="one problem, not a batch"):
        problem[1, 2][0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda p: p.primal([1.0, 2.0, 3.0]), ValueError, r"alpha must have shape.*got \(3,\)"),
        (lambda p: p.primal([[1.0], [np.nan], [0.0]]), ValueError, r"alpha must be finite"),
        (lambda p: p.dual(np.ones((3, 2))), ValueError, r"beta must have shape .* got \(3, 2\)"),
        (
            lambda p: p.weights(np.ones((2, 5)), np.ones((3, 1))),
            ValueError,
            r"shape \(\.\.\., 3, d\)",
        ),
        (lambda p: all_active(p, 0.0), ValueError, r"scale must be a positive finite number"),
        (lambda p: random_start(p, None, -1.0, 0), ValueError, r"scale must be a positive"),
        (lambda p: random_start(p, None, 1.0, None), TypeError, r"rng .* whole number"),
        (lambda p: random_start(p, np.ones((2, 5)), 1.0, 0), ValueError, r"\(3,\) \+ \(d,\)"),
        (lambda p: from_weights(np.ones((3, 5)), np.ones((4, 1))), ValueError, r"\(\.\.\., d, m\)"),
        (lambda p: from_weights([[1, np.nan]], [[1], [1]]), ValueError, r"features must be finite"),
    ],
)
def test_bad_arguments_are_refused_with_the_reason(call, error, message):
    with pytest.raises(error, match=message):
        call(Problem(GRAM, LABELS))


def test_all_active_starts_every_pair_at_the_scale():
    problem = Problem(np.stack([GRAM] * 2), [LABELS] * 2, signs=(1, -1))
    np.testing.assert_array_equal(all_active(problem, 0.25), np.full((2, 3, 2), 0.25))


def test_start_from_weights_is_what_the_neurons_output():
    X = gaussian_features(3, 7, rng=0)
    w = np.random.default_rng(1).standard_normal((7, 2))
    np.testing.assert_array_equal(from_weights(X, w), X @ w)


def test_random_start_without_features_has_the_covariance_of_the_gram_matrix():
    problem = Problem(np.broadcast_to(GRAM, (40_000, 3, 3)), np.broadcast_to(LABELS, (40_000, 3)))
    beta = random_start(problem, None, 0.5, 0)[..., 0]
    np.testing.assert_allclose(beta.T @ beta / 40_000, 0.25 * GRAM, atol=0.05)


def test_random_start_with_features_is_that_of_gaussian_weights():
    X = gaussian_features(3, 8, rng=0)
    problem = Problem.from_features(X, LABELS, signs=(1, -1, 1))
    noise = np.random.default_rng(7).standard_normal((8, 3))
    np.testing.assert_allclose(random_start(problem, X, 0.01, 7), X @ (0.01 * noise), rtol=1e-13)


def nearly_orthogonal(signs=(1, -1, 1, -1), size=None):
    gram = gaussian_gram(8, 10**6, size=size, rng=0)
    labels = signed_labels(8, size=size, rng=1)
    owners = np.array([0, 2, 0, 2, 1, 3, 1, 3])
    return Problem(gram, labels, signs=signs), np.broadcast_to(owners, labels.shape)


@pytest.mark.parametrize("size", [None, 3])
def test_disjoint_start_is_active_for_owners_only(size):
    problem, owners = nearly_orthogonal(size=size)
    beta = disjoint(problem, owners, 1e-3)
    owned = owners[..., None] == np.arange(4)
    np.testing.assert_allclose(beta[owned], 1e-3, rtol=1e-12)
    assert (beta[~owned] <= 0).all()


def test_disjoint_start_has_the_depth_that_section_5_asks_for():
    problem, owners = nearly_orthogonal()
    gram = problem.gram
    g = np.diag(gram).min()
    reach = (np.abs(gram).sum(axis=1) - np.diag(gram)).max()
    owned = owners[:, None] == np.arange(4)
    alpha = problem.dual(disjoint(problem, owners, 1e-3))
    depth = -alpha[~owned]
    own = np.abs(alpha[owned]).max()
    rho = np.abs(1e-3 - np.abs(problem.labels)).max()
    bound = reach / g * max(depth.max(), own + rho / (g - reach))
    assert depth.min() >= bound
    assert depth.max() <= 3 * bound


def test_given_depth_is_used():
    problem, owners = nearly_orthogonal()
    alpha = problem.dual(disjoint(problem, owners, 1e-3, depth=0.5))
    np.testing.assert_allclose(alpha[owners[:, None] != np.arange(4)], -0.5, rtol=1e-9)


@pytest.mark.parametrize(
    ("owners", "error", "message"),
    [
        (np.zeros(8, dtype=int), ValueError, r"neuron 0, whose sign is \+1, but its label is -"),
        (np.zeros(7, dtype=int), ValueError, r"owners must have the labels' shape \(8,\)"),
        (np.full(8, 4), ValueError, r"owners must lie between 0 and m - 1 = 3, got 4 to 4"),
        (np.zeros(8), TypeError, r"owners must be whole numbers .* dtype float64"),
    ],
)
def test_bad_owners_are_refused_with_the_reason(owners, error, message):
    problem, _ = nearly_orthogonal()
    with pytest.raises(error, match=message):
        disjoint(problem, owners, 1e-3)


def test_disjoint_start_says_when_no_depth_is_enough_or_the_given_one_is_not():
    gram, labels = gaussian_gram(8, 12, rng=0), signed_labels(8, rng=1)
    problem = Problem(gram, labels, signs=(1, -1, 1, -1))
    owners = np.array([0, 2, 0, 2, 1, 3, 1, 3])
    with pytest.raises(ValueError, match="no depth guarantees a constant pattern"):
        disjoint(problem, owners, 1e-3)
    with pytest.raises(ValueError, match="the depth is too small"):
        disjoint(problem, owners, 1.0, depth=1e-9)


def test_orthogonal_data_need_no_depth_to_keep_the_others_silent():
    X = orthogonal_features(4, 6, rng=0)
    problem = Problem.from_features(X, [1, 2, -1, -2], signs=(1, -1))
    beta = disjoint(problem, [0, 0, 1, 1], 0.1, depth=0.2)
    expected = np.where(np.array([0, 0, 1, 1])[:, None] == [0, 1], 0.1, -0.2)
    np.testing.assert_allclose(beta, expected, atol=1e-14)


def test_rows_of_several_lengths_are_named_as_such():
    with pytest.raises(ValueError, match="gram must be an array: rows of one length"):
        Problem([[4.0, 1.0], [1.0]], [1.0, 1.0])


def test_what_is_no_problem_is_refused_by_everything_that_takes_one():
    for call in (
        lambda p: all_active(p, 1e-3),
        lambda p: random_start(p, None, 1e-3, 0),
        lambda p: disjoint(p, [0], 1e-3),
        lambda p: gradient_descent(p, [[1.0]], 0.1),
        lambda p: gradient_flow(p, [[1.0]]),
        min_norm,
    ):
        with pytest.raises(TypeError, match="problem must be a Problem, got a NoneType; make one"):
            call(None)


@pytest.mark.parametrize("unit", [1e-150, 1e-60, 1e60, 1e150])
def test_units_whose_products_overflow_are_refused(unit):
    X = np.eye(3, 5)
    with pytest.raises(ValueError, match=r"labels must lie between 1e-50 and 1e\+50 in size, got"):
        Problem.from_features(X, unit * LABELS[[0, 0, 0]])
    with pytest.raises(
        ValueError, match=r"lengths of examples must lie between .* change the unit"
    ):
        Problem.from_features(unit * X, [1.0, 2.0, -1.0])
    X[1] *= unit
    with pytest.raises(ValueError, match=r"lengths of examples must lie .* at index \(1,\)"):
        Problem.from_features(X, [1.0, 2.0, -1.0])


def test_starts_and_steps_beyond_floats_are_refused():
    problem = Problem(GRAM, LABELS)
    n = problem.n
    for start in (all_active, lambda p, s: random_start(p, None, s, 0)):
        with pytest.raises(ValueError, match=r"scale must be at most 1e\+50, got 1e\+308"):
            start(problem, 1e308)
    for run in (lambda s: gradient_descent(problem, s, 0.1), lambda s: gradient_flow(problem, s)):
        with pytest.raises(ValueError, match=r"start must be at most 1e\+50 in size, got 1e\+100"):
            run(np.full((n, 1), 1e100))
        with pytest.raises(ValueError, match=r"start must be at most 1e\+150 in size"):
            run(np.full((n, 1), 1e200))
    with pytest.raises(ValueError, match=r"step must be at most 1e\+250 over the mean squared"):
        gradient_descent(problem, np.ones((n, 1)), 1e308)


def test_batches_that_do_not_fit_the_problem_are_refused():
    problem = Problem(np.stack([GRAM] * 2), np.stack([LABELS] * 2))
    n = problem.n
    three = np.ones((3, n, 1))
    for call in (problem.primal, problem.dual, problem.loss, problem.predictions):
        with pytest.raises(ValueError, match=r"must have the batch shape \(2,\) before its axes"):
            call(three)
    with pytest.raises(ValueError, match="features must have the batch shape"):
        problem.weights(np.ones((3, n, 7)), np.ones((2, n, 1)))
    with pytest.raises(ValueError, match="weights must have the batch shape"):
        from_weights(np.ones((3, n, 7)), np.ones((2, 7, 1)))


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (5, IndexError, r"index 5 does not fit the batch shape \(2,\)"),
        ("a", IndexError, "index 'a' does not fit the batch shape"),
        (None, TypeError, "a batch is indexed by numbers, slices or masks, got None"),
        (True, TypeError, "a batch is indexed by numbers, slices or masks, got True"),
    ],
)
def test_indices_that_do_not_fit_a_batch_are_named(index, error, message):
    problem = Problem(np.stack([GRAM] * 2), np.stack([LABELS] * 2))
    with pytest.raises(error, match=message):
        problem[index]


def test_masked_features_are_refused():
    X = np.ma.array(np.eye(3, 5), mask=np.eye(3, 5, 1))
    with pytest.raises(ValueError, match="features has masked entries"):
        Problem.from_features(X, [1.0, 2.0, -1.0])
