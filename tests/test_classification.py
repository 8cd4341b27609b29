"""Training in span coordinates, what it reports, and the claims on nearly-orthogonal data."""

import functools
import sys
import warnings

import numpy as np
import pytest
from scipy.special import expit

from ibrelu import classification
from ibrelu.classification import (
    log_steps,
    near_orthogonality,
    normalized_margins,
    stable_rank,
    train_classifier,
)

SETTING = {"width": 30, "slope": 0.1, "step": 0.1, "init_scale": 1e-3, "steps": 200, "rng": 3}


def labels(n, positive):
    return np.where(np.arange(n) < positive, 1.0, -1.0)


def orthogonal(n=20, d=2000):
    return np.sqrt(d) * np.eye(n, d)


def gaussian(n=20, d=2000, seed=1):
    return np.random.default_rng(seed).standard_normal((n, d))


def train(X, y, **changes):
    return train_classifier(X, y, **{**SETTING, **changes})


def weight_space(X, y, *, width, slope, step, init_scale, steps, rng):
    """Gradient descent on the weights themselves, written down plainly: the reference."""
    n, d = X.shape
    W = init_scale * np.random.default_rng(rng).standard_normal((d, 2 * width))
    signs = np.repeat([1.0, -1.0], width)
    history = []
    for t in range(steps + 1):
        Z = X @ W
        margins = y * (np.where(Z > 0, Z, slope * Z) @ signs) / width
        history.append((np.logaddexp(0, -margins).mean(), np.linalg.norm(W), margins))
        if t < steps:
            factor = y * expit(-margins) / n
            W = W + step * X.T @ (factor[:, None] * np.where(Z > 0, 1.0, slope) * signs / width)
    loss, norm, margins = (np.array(column) for column in zip(*history, strict=True))
    return loss, norm, margins, W


DATA = pytest.mark.parametrize(
    ("slope", "d", "step"), [(0.1, 100, 0.5), (0.0, 100, 0.5), (0.0, 25, 0.2), (0.5, 400, 1.0)]
)


@DATA
def test_every_step_equals_a_weight_space_implementation(slope, d, step):
    X, y = gaussian(d=d), labels(20, 8)
    run = train(X, y, slope=slope, step=step, record=range(201))
    setting = {key: value for key, value in SETTING.items() if key not in ("slope", "step")}
    loss, norm, margins, _ = weight_space(X, y, slope=slope, step=step, **setting)
    np.testing.assert_allclose(run.loss, loss, rtol=1e-10)
    np.testing.assert_allclose(run.norm, norm, rtol=1e-10)
    np.testing.assert_allclose(run.margins, margins, rtol=1e-10, atol=1e-12)


@DATA
def test_blocks_of_steps_end_where_the_weight_space_implementation_does(slope, d, step):
    X, y = gaussian(d=d), labels(20, 8)
    run = train(X, y, slope=slope, step=step, record=[200])
    setting = {key: value for key, value in SETTING.items() if key not in ("slope", "step")}
    _, _, margins, W = weight_space(X, y, slope=slope, step=step, **setting)
    np.testing.assert_allclose(run.margins[-1], margins[-1], rtol=1e-10)
    np.testing.assert_allclose(np.hstack([*run.weights(X)]), W, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("slope", "X"), [(0.0, orthogonal()), (0.1, orthogonal()), (0.5, gaussian())]
)
def test_blocks_of_steps_equal_single_steps(monkeypatch, slope, X):
    y, setting = labels(20, 10), {"slope": slope, "init_scale": 1e-2, "steps": 5000, "record": 4}
    taken, frozen = [], classification._Training._frozen_steps

    def counted(self, count):
        kept = frozen(self, count)
        taken.append(count * kept)
        return kept

    monkeypatch.setattr(classification._Training, "_frozen_steps", counted)
    by_blocks = train(X, y, **setting)
    assert sum(taken) > 500
    monkeypatch.setattr(classification._Training, "_frozen_steps", lambda self, count: False)
    one_by_one = train(X, y, **setting)
    np.testing.assert_allclose(by_blocks.margins, one_by_one.margins, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        by_blocks.coefficients, one_by_one.coefficients, rtol=1e-10, atol=1e-12
    )


def test_ranks_and_norm_are_those_of_the_weights():
    X, y = gaussian(d=60), labels(20, 8)
    run = train(X, y, steps=500, record=[0, 500])
    W = run.weights(X)
    assert W.shape == (2, 60, 30)
    np.testing.assert_allclose(run.stable_rank[-1], stable_rank(W), rtol=1e-12)
    np.testing.assert_allclose(run.stable_rank_all[-1], stable_rank(np.hstack([*W])), rtol=1e-12)
    assert run.norm[-1] == pytest.approx(np.linalg.norm(W), rel=1e-13)


def test_starting_weights_drawn_in_blocks_are_the_same(monkeypatch):
    X, y = gaussian(d=60), labels(20, 8)
    whole = train(X, y)
    monkeypatch.setattr(classification, "_DRAWN", 600)
    np.testing.assert_allclose(train(X, y).margins, whole.margins, rtol=1e-12, atol=1e-14)


def test_a_batch_equals_a_loop():
    X = np.stack([gaussian(d=80, seed=seed) for seed in range(3)])
    y = np.stack([labels(20, positive) for positive in (6, 10, 14)])
    batch = train(X, y, rng=[5, 6, 7], steps=300, record=3)
    names = ("loss", "norm", "stable_rank", "stable_rank_all", "margins", "coefficients")
    for i in range(3):
        one = train(X[i], y[i], rng=5 + i, steps=300, record=3)
        for name in names:
            np.testing.assert_allclose(
                getattr(batch, name)[i], getattr(one, name), rtol=1e-12, err_msg=name
            )
        assert batch.status[i] == one.status
        np.testing.assert_allclose(batch.weights(X)[i], one.weights(X[i]), rtol=1e-12)


def test_one_data_set_trains_from_many_seeds():
    X, y = gaussian(d=80), labels(20, 10)
    runs = train(X, y, rng=range(4), record=3)
    assert runs.loss.shape == (4, len(runs.step))
    assert runs.stable_rank.shape == (4, len(runs.step), 2)
    assert len(set(runs.loss[:, 0])) == 4


def test_one_generator_serves_a_batch_in_turn():
    X, y = gaussian(d=80), labels(20, 10)
    batch = train(np.stack([X, X]), y, rng=np.random.default_rng(0), record=[200])
    rng = np.random.default_rng(0)
    loop = [train(X, y, rng=rng, record=[200]).loss for _ in range(2)]
    np.testing.assert_allclose(batch.loss, loop, rtol=1e-12)


def test_small_losses_are_not_lost():
    run = train(50 * orthogonal(4), labels(4, 2), step=100.0, record=[200])
    assert run.status == "separated"
    margins = run.margins[-1]
    assert margins.min() > 40
    assert run.loss[-1] == pytest.approx(np.exp(-margins).mean(), rel=1e-12)


def test_large_losses_do_not_overflow():
    run = train(gaussian(d=30), labels(20, 10), init_scale=1e4, record=[0, 200])
    assert run.loss[0] > 1e3
    assert np.isfinite(run.loss).all()


@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_coefficients_have_the_sign_of_label_times_neuron(slope):
    y = labels(20, 8)
    run = train(gaussian(d=60), y, slope=slope, steps=2000)
    signs = np.array([1.0, -1.0])[:, None, None] * y[:, None]
    assert (run.coefficients * signs >= 0).all()
    assert ((run.coefficients != 0).all()) == (slope > 0)


def test_one_example_and_one_neuron_follow_the_scalar_recursion():
    with pytest.warns(UserWarning, match="one class"):
        run = train([[2.0]], [1.0], width=1, slope=0.5, step=0.1, steps=50, record=range(51))
    z, f = run.weights([[2.0]])[:, 0, 0] * 2.0, run.margins[:, 0]
    slopes = [1.0 if value > 0 else 0.5 for value in z]
    assert run.margins[-1, 0] == pytest.approx(
        np.maximum(z[0], z[0] / 2) - np.maximum(z[1], z[1] / 2), rel=1e-12
    )
    # The last steps are on the last pattern: f grows by η‖x‖²(σ'₊² + σ'₋²) / (1 + e^f).
    growth = 0.4 * np.square(slopes).sum() * expit(-f[40:-1])
    np.testing.assert_allclose(np.diff(f[40:]), growth, rtol=1e-10)


def test_recorded_steps_are_even_in_the_logarithm():
    marks = log_steps(10**6, per_decade=5)
    assert marks[0] == 0
    assert marks[-1] == 10**6
    assert len(marks) <= 32
    ratios = marks[8:] / marks[7:-1]
    assert ratios.min() > 1.4
    assert ratios.max() < 1.8
    assert log_steps(1).tolist() == [0, 1]


def test_a_progress_bar_counts_every_step(capsys):
    train(gaussian(d=30), labels(20, 10), progress=True)
    assert "200/200" in capsys.readouterr().err


def test_training_does_without_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert train(gaussian(d=30), labels(20, 10)).status == "separated"
    with pytest.raises(ImportError, match="needs tqdm: pip install"):
        train(gaussian(d=30), labels(20, 10), progress=True)


# --- quantities -----------------------------------------------------------------------------


def test_near_orthogonality_is_the_ratio_of_the_definition():
    X = gaussian(n=6, d=40)
    found = near_orthogonality(X)
    for i in range(6):
        largest = max(abs(X[i] @ X[k]) for k in range(6) if k != i)
        assert found.per_example[i] == pytest.approx(X[i] @ X[i] / (6 * largest))
    assert found.overall == found.per_example.min()
    np.testing.assert_allclose(near_orthogonality(gram=X @ X.T).per_example, found.per_example)


def test_orthogonal_data_are_nearly_orthogonal_with_any_constant():
    assert near_orthogonality(np.eye(3)).overall == np.inf


def test_near_orthogonality_grows_like_the_root_of_d():
    small, large = (
        np.mean([near_orthogonality(gaussian(10, d, seed)).overall for seed in range(10)])
        for d in (10**3, 10**5)
    )
    assert large / small == pytest.approx(10, rel=0.15)


def test_near_orthogonality_needs_features_or_gram():
    with pytest.raises(TypeError, match="either the features X or their Gram matrix"):
        near_orthogonality()
    with pytest.raises(ValueError, match=r"gram must have shape \(\.\.\., n, n\)"):
        near_orthogonality(gram=np.ones((2, 3)))


def test_stable_rank_ignores_scale_and_transposition():
    W = np.random.default_rng(0).standard_normal((3, 5, 8))
    rank = stable_rank(W)
    assert rank.shape == (3,)
    np.testing.assert_allclose(stable_rank(1e-200 * W.swapaxes(-1, -2)), rank, rtol=1e-12)
    singular = np.linalg.svd(W[0], compute_uv=False)
    assert rank[0] == pytest.approx((singular**2).sum() / singular[0] ** 2)


def test_stable_rank_of_zero_weights_is_refused():
    with pytest.raises(ValueError, match="stable rank of a zero matrix is undefined"):
        stable_rank(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"must have shape \(\.\.\., m, d\)"):
        stable_rank(np.ones(3))


# --- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"y": [0, 1, 1]}, ValueError, r"must be \+1 or -1, got 0 at index \(0,\); encode"),
        ({"y": [1, -1]}, ValueError, r"labels must have shape \(\.\.\., 3\)"),
        ({"y": ["a", "b", "c"]}, TypeError, "labels must be an array of real numbers"),
        ({"X": [[np.nan, 1], [1, 0], [0, 1]]}, ValueError, "features must be finite"),
        ({"X": [1.0, 2.0, 3.0]}, ValueError, r"features must have shape \(\.\.\., n, d\)"),
        (
            {"X": [[0, 0], [1, 0], [0, 1]]},
            ValueError,
            r"example \(0,\) has squared length 0; drop it",
        ),
        ({"X": np.full((3, 2), 1e60)}, ValueError, "the weights could overflow; rescale"),
        ({"slope": 1.0}, ValueError, r"slope must lie in \[0, 1\), got 1.0"),
        ({"slope": -0.1}, ValueError, r"slope must lie in \[0, 1\), got -0.1"),
        ({"slope": "relu"}, TypeError, "slope must be a number"),
        ({"step": 0}, ValueError, "step must be a positive finite number, got 0"),
        ({"step": 1e200}, ValueError, "the weights could overflow"),
        ({"init_scale": -1.0}, ValueError, "init_scale must be a positive"),
        ({"init_scale": 1e-320}, ValueError, "init_scale must be at least 1e-100"),
        ({"step": 10**400}, ValueError, "step must be a positive finite number, got inf"),
        ({"step": np.complex64(1 + 1j)}, TypeError, "step must be a positive number"),
        ({"steps": 2**63}, ValueError, "steps must be at most 9007199254740992"),
        ({"width": 0}, ValueError, "width must be at least 1, got 0"),
        ({"steps": 0}, ValueError, "steps must be at least 1, got 0"),
        ({"record": [0, 300]}, ValueError, "between 0 and steps = 200, got 0 to 300"),
        ({"record": [0.5]}, TypeError, "record must be a number of steps a decade or"),
        ({"rng": None}, TypeError, "rng"),
        ({"rng": range(3), "X": np.ones((2, 3, 4))}, ValueError, "as many seeds as data sets"),
    ],
)
def test_bad_input_is_refused(change, error, message):
    given = {"X": [[1.0, 0], [0, 1], [1, 1]], "y": [1, -1, 1], **change}
    with pytest.raises(error, match=message):
        train(given.pop("X"), given.pop("y"), **given)


def test_one_class_trains_and_says_so():
    with pytest.warns(UserWarning, match="one class only .* nothing to separate"):
        run = train(gaussian(d=100), np.ones(20), steps=500)
    assert run.status == "separated"
    assert run.loss[-1] < run.loss[0]


def test_a_step_too_large_is_reported_with_a_smaller_one():
    X, y = [[10.0], [10.0], [10.0]], [1, 1, -1]  # not separable: the loss has a finite minimum
    with pytest.warns(UserWarning, match=r"1 run.* diverged: the loss ended .* one below 1\.2$"):
        run = train(X, y, step=1e3)
    assert run.status == "diverged"
    assert np.isfinite(run.margins).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = train(X, y, step=1.0)
    assert run.status == "unseparated"
    assert run.loss[-1] == pytest.approx(np.log(3) - 2 / 3 * np.log(2), rel=1e-6)


def test_a_run_too_short_to_separate_says_so():
    X, y = 10 * np.array([[1.0, 0.1], [1.0, -0.1]]), [1.0, -1.0]
    assert train(X, y, step=1e-3, steps=1).status == "unseparated"


def test_weights_need_the_features_of_the_run():
    run = train(gaussian(d=30), labels(20, 10))
    with pytest.raises(ValueError, match=r"must have shape \(\.\.\., 20, d\)"):
        run.weights(np.ones((3, 30)))


# --- claims on nearly-orthogonal data ---------------------------------------------------------


@functools.cache
def long_run(data, slope, *, positive=10, step=0.1, steps=100_000):
    """10⁵ steps on `data` (a function of this module), shared by the tests that read them."""
    setting = {"width": 50, "slope": slope, "step": step, "init_scale": 1e-3, "steps": steps}
    return train_classifier(data(), labels(20, positive), record=5, rng=0, **setting)


@pytest.mark.parametrize(("slope", "data"), [(0.1, orthogonal), (0.5, gaussian)])
def test_leaky_blocks_become_rank_one(slope, data):
    run = long_run(data, slope)
    assert run.stable_rank[0].min() > 10
    assert run.stable_rank[-1].max() < 1.01


@pytest.mark.parametrize(("d", "step", "rank_one"), [(20_000, 0.01, True), (2000, 0.1, False)])
def test_leaky_blocks_become_rank_one_only_if_orthogonal_enough(d, step, rank_one):
    X = gaussian(d=d, seed=2)
    assert (near_orthogonality(X).overall > 1) == rank_one
    setting = {"width": 50, "step": step, "init_scale": 1e-5, "steps": 20_000, "record": [20_000]}
    run = train(X, labels(20, 10), slope=0.1, **setting)
    assert (run.stable_rank.max() < 1.01) == rank_one


def test_relu_blocks_do_not_become_rank_one():
    run = long_run(orthogonal, 0.0)
    assert run.stable_rank[-1].min() > 1.5


@pytest.mark.parametrize("positive", [5, 10])
def test_relu_blocks_keep_the_predicted_rank_on_orthogonal_data(positive):
    run = long_run(orthogonal, 0.0, positive=positive)
    count = np.array([positive, 20 - positive])
    np.testing.assert_allclose(run.stable_rank[-1], 2 * count / (count + 1), rtol=0.15)


def test_the_relu_rank_is_not_that_of_a_leaky_network():
    run = long_run(orthogonal, 0.1)
    assert (run.stable_rank[-1] < 0.85 * 2 * 10 / 11).all()


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_norm_grows_like_log_t(slope):
    run = long_run(gaussian, slope, step=1.0, steps=30_000)
    late = run.step >= 30
    norm, time = run.norm[late], run.step[late]
    ratio = norm / np.log(time)
    assert ratio.max() / ratio.min() < 1.6
    assert norm[-1] / norm[0] > 2
    assert (norm / np.sqrt(time)).max() / (norm / np.sqrt(time)).min() > 5


def loss_fit(run, start):
    """Slope of log loss on log t, and the residuals of the lines of slope -1 and -1/2."""
    late = run.step >= start
    time, loss = np.log(run.step[late]), np.log(run.loss[late])
    return np.polyfit(time, loss, 1)[0], np.std(loss + time), np.std(loss + time / 2)


@pytest.mark.parametrize(("slope", "data"), [(0.0, orthogonal), (0.1, orthogonal), (0.5, gaussian)])
def test_loss_falls_like_one_over_t(slope, data):
    run = long_run(data, slope)
    fitted, one, half = loss_fit(run, 10_000)
    assert fitted == pytest.approx(-1, abs=0.05)
    assert half > 20 * one
    assert abs(fitted + 0.5) > 0.4


def test_loss_falls_like_one_over_t_only_once_examples_are_fitted():
    run = train(orthogonal(), labels(20, 10), step=1e-4, width=50, record=5)
    assert abs(loss_fit(run, 20)[0] + 1) > 0.05


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_normalised_margins_draw_together_like_one_over_log_t(slope):
    run = long_run(gaussian, slope, step=1.0, steps=30_000)
    late = run.step >= 30
    spread = np.ptp(normalized_margins(run), axis=-1)
    scaled = spread[late] * np.log(run.step[late])
    assert scaled.max() / scaled.min() < 1.6
    assert spread[-1] < spread[late][0] / 2
    # The margins themselves keep a bounded difference.
    assert np.ptp(run.margins[-1]) > 0.1


def test_normalised_margins_differ_early():
    run = train(gaussian(), labels(20, 10), slope=0.5, step=0.01, width=50, record=[30])
    margins = normalized_margins(run)[-1]
    late = long_run(gaussian, 0.5)
    apart = np.ptp(margins) / margins.mean()
    assert apart > 3 * np.ptp(normalized_margins(late)[-1]) / normalized_margins(late)[-1].mean()


@pytest.mark.parametrize("slope", [0.1, 0.3, 0.5])
def test_the_whole_leaky_matrix_has_the_predicted_rank(slope):
    run = long_run(orthogonal, slope)
    predicted = 1 + ((1 - slope) / (1 + slope)) ** 2
    assert run.stable_rank_all[-1] == pytest.approx(predicted, rel=0.01)


def test_the_prediction_for_the_whole_matrix_needs_balanced_labels():
    run = long_run(orthogonal, 0.1, positive=5)
    assert run.stable_rank_all[-1] < 0.9 * (1 + (0.9 / 1.1) ** 2)


def test_one_step_slashes_the_rank_of_a_small_start():
    run = train(gaussian(), labels(20, 10), width=50, init_scale=1e-5, record=[0, 1, 4])
    before, after, soon = run.stable_rank
    assert before.min() > 30
    assert after.max() < 3
    assert soon.max() < after.max()


def test_one_step_does_not_slash_the_rank_of_a_large_start():
    run = train(gaussian(), labels(20, 10), width=50, init_scale=1e-1, record=[0, 1, 4])
    assert (run.stable_rank[1:] > 0.9 * run.stable_rank[0]).all()


def test_empty_batches_are_refused():
    given = dict(width=2, slope=0.1, step=0.1, init_scale=1e-3, steps=5)
    X, y = np.eye(2), [1.0, -1.0]
    for call in (
        lambda: train_classifier(np.ones((0, 2, 2)), y, rng=0, **given),
        lambda: train_classifier(X, np.ones((0, 2)), rng=0, **given),
        lambda: train_classifier(X, y, rng=[], **given),
    ):
        with pytest.raises(ValueError, match="the batch is empty"):
            call()


def test_rows_of_several_lengths_are_refused():
    with pytest.raises(ValueError, match="features must be an array: rows of one length"):
        near_orthogonality([[1.0, 2.0], [3.0]])


def test_margins_of_no_run_are_refused():
    with pytest.raises(TypeError, match="run must be a ClassifierRun, got a NoneType; train one"):
        normalized_margins(None)
