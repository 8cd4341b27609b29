"""The figures hold the numbers that they were given."""

import io

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from ibrelu.descent import gradient_descent
from ibrelu.features import gaussian_gram, signed_labels
from ibrelu.figures import (
    COLORS,
    activation_raster,
    canvas,
    png,
    primal_dual_portrait,
    scaling,
    style,
    trajectories,
)
from ibrelu.flow import gradient_flow
from ibrelu.min_norm import min_norm
from ibrelu.problem import Problem, all_active

STEPS = [0, 1, 2, 4, 8, 16]


def runs(signs=(1,), c=0.4, flow=False):
    problem = Problem(gaussian_gram(8, 400, rng=1), signed_labels(8, rng=2), signs)
    start = all_active(problem, 1e-3)
    descent = gradient_descent(problem, start, problem.step(c), record=STEPS)
    return problem, descent, min_norm(problem), gradient_flow(problem, start) if flow else None


def line(figure, label):
    """The data of the one line with this label."""
    lines = [line for line in figure.axes[0].lines if line.get_label() == label]
    assert len(lines) == 1, label
    return lines[0].get_xydata()


def words(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def contrast(color):
    channels = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05)


@pytest.mark.parametrize("name", COLORS)
def test_each_colour_can_be_read_as_text_on_white(name):
    assert contrast(COLORS[name]) >= 4.5


@pytest.mark.parametrize("neuron", [0, 1])
def test_portrait_marks_the_limits_of_descent_and_the_minimum_norm(neuron):
    problem, descent, best, _ = runs(signs=(1, -1))
    figure = primal_dual_portrait(problem, descent, best, neuron=neuron)
    for label, own in (("positive", problem.positive), ("negative", problem.negative)):
        expected = np.stack([problem.scale * descent.alpha[own, neuron], descent.beta[own, neuron]])
        np.testing.assert_allclose(line(figure, label).T, expected)
    expected = np.stack([problem.scale * best.alpha[:, neuron], best.beta[:, neuron]])
    np.testing.assert_allclose(line(figure, "min_norm").T, expected)


def test_portrait_draws_each_examples_path_to_its_limit():
    problem, descent, best, _ = runs()
    paths = [
        path.get_xydata()
        for path in primal_dual_portrait(problem, descent, best).axes[0].lines
        if path.get_label().endswith(" path")
    ]
    order = [*np.flatnonzero(problem.positive), *np.flatnonzero(problem.negative)]
    assert len(paths) == problem.n
    for i, path in zip(order, paths, strict=True):
        alpha = np.append(descent.history.alpha[:, i, 0], descent.alpha[i, 0])
        beta = np.append(descent.history.beta[:, i, 0], descent.beta[i, 0])
        np.testing.assert_allclose(path, np.stack([problem.scale * alpha, beta], axis=1))


def test_minimum_norm_lies_on_the_drawn_corner_and_descent_behind_it():
    problem, descent, best, _ = runs()
    figure = primal_dual_portrait(problem, descent, best)
    corner = line(figure, "corner")
    assert corner[1].tolist() == [0, 0]
    crosses = line(figure, "min_norm")[problem.negative]
    np.testing.assert_allclose(np.minimum(-crosses[:, 0], -crosses[:, 1]), 0, atol=1e-9)
    assert (line(figure, "negative") < 0).all()


def test_portrait_shows_the_flow_only_where_it_is_given():
    problem, descent, best, flow = runs(flow=True)
    with_flow = primal_dual_portrait(problem, descent, best, flow)
    expected = np.stack([problem.scale * flow.alpha[:, 0], flow.beta[:, 0]], axis=1)
    np.testing.assert_allclose(line(with_flow, "flow"), expected)
    assert "gradient flow" in words(with_flow)
    assert "gradient flow" not in words(primal_dual_portrait(problem, descent, best))


def test_portrait_without_history_marks_the_limits_alone():
    problem, _, best, _ = runs()
    descent = gradient_descent(problem, all_active(problem, 1e-3), problem.step(0.4))
    labels = [
        line.get_label() for line in primal_dual_portrait(problem, descent, best).axes[0].lines
    ]
    assert "positive" in labels
    assert not any(label.endswith(" path") for label in labels)


def test_portrait_keeps_the_limits_it_is_given_and_else_shows_every_mark():
    problem, descent, best, _ = runs()
    axes = primal_dual_portrait(problem, descent, best, limits=(-3, 4)).axes[0]
    assert axes.get_xlim() == axes.get_ylim() == (-3, 4)
    axes = primal_dual_portrait(problem, descent, best).axes[0]
    low, high = axes.get_xlim()
    marks = np.concatenate([problem.scale * descent.alpha.ravel(), descent.beta.ravel()])
    assert low < marks.min() < marks.max() < high


def test_portrait_refuses_a_batch():
    problem, descent, best, _ = runs()
    batch = Problem(problem.gram[None], problem.labels[None])
    with pytest.raises(ValueError, match=r"one problem, got a batch of shape \(1,\)"):
        primal_dual_portrait(batch, descent, best)


def test_raster_is_lit_exactly_where_examples_are_active():
    problem = Problem(gaussian_gram(8, 30, rng=3), signed_labels(8, rng=2), (1, -1))
    descent = gradient_descent(problem, all_active(problem, 1e-3), problem.step(0.1), record=True)
    history = descent.history
    figure = activation_raster(history, problem.labels)
    order = np.argsort(-problem.labels, kind="stable")
    lit = history.beta[:, order] > 0
    assert lit[1:].any(axis=(0, 1)).all()  # the pattern is not trivial
    for k, axes in enumerate(figure.axes):
        patches = [p.get_path() for p in axes.patches if p.get_label() in ("positive", "negative")]
        boxes = [box for path in patches for box in path.to_polygons()]
        area = sum(np.ptp(box[:, 0]) * np.ptp(box[:, 1]) for box in boxes)
        assert area == pytest.approx(0.84 * lit[..., k].sum())
        for t, row in [(0, 0), (1, 7), (2, 3), (len(history.step) - 1, 5)]:
            covered = any(
                box[:, 0].min() < history.step[t] + 0.5 < box[:, 0].max()
                and box[:, 1].min() < row + 0.5 < box[:, 1].max()
                for box in boxes
            )
            assert covered == lit[t, row, k]


def test_raster_titles_its_panels():
    problem, descent, _, _ = runs(signs=(1, -1))
    figure = activation_raster(descent.history, problem.labels, neurons=("plus", "minus"))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["plus", "minus"]


def test_raster_refuses_a_history_of_other_examples():
    _, descent, _, _ = runs()
    with pytest.raises(ValueError, match=r"one run on 3 examples.*got shape \(6, 8, 1\)"):
        activation_raster(descent.history, [1.0, 2.0, -1.0])


def test_scaling_draws_the_median_the_band_and_the_slope():
    x = np.array([10.0, 100.0, 1000.0])
    values = x[:, None] ** -0.5 * np.array([0.5, 1.0, 3.0])
    figure = scaling(x, values, rate=-0.5, xlabel="d", ylabel="gap")
    axes = figure.axes[0]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    np.testing.assert_allclose(line(figure, "measured")[:, 1], x**-0.5)
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(values.min())
    assert band[:, 1].max() == pytest.approx(values.max())
    slope = np.diff(np.log(line(figure, "reference")), axis=0)
    np.testing.assert_allclose(slope[:, 1] / slope[:, 0], -0.5)
    assert "slope −½" in words(figure)


def test_scaling_draws_the_predicted_line_itself():
    x = np.array([10.0, 100.0])
    figure = scaling(x, {"descent": x, "flow": x**2}, predicted=2 * x, xlabel="d", ylabel="gap")
    np.testing.assert_allclose(line(figure, "reference"), np.stack([x, 2 * x], axis=1))
    assert {"predicted", "descent", "flow"} <= set(words(figure))


def test_curves_differ_by_more_than_colour():
    x = np.array([1.0, 2.0])
    lines = (
        trajectories(x, {"descent": x, "flow": 2 * x, "min norm": 3 * x}, xlabel="t", ylabel="loss")
        .axes[0]
        .lines
    )
    assert len({line.get_linestyle() for line in lines}) == 3
    assert [line.get_color() for line in lines] == [
        COLORS[name] for name in ("descent", "flow", "min_norm")
    ]


def test_labels_of_lines_that_end_together_stand_apart():
    x = np.linspace(0, 1, 5)
    figure = trajectories(x, {"a": x, "b": x, "c": 1.001 * x}, xlabel="t", ylabel="loss")
    heights = sorted(text.xy[1] for text in figure.axes[0].texts)
    assert np.diff(heights).min() > 0.07


def test_series_of_the_wrong_length_are_refused():
    with pytest.raises(ValueError, match=r"'loss' must have shape \(2,\).*got \(3,\)"):
        trajectories([1, 2], {"loss": [1, 2, 3]}, xlabel="t", ylabel="loss")


def test_a_figure_is_shown_as_the_same_png_every_time():
    def bundle():
        figure, axes = canvas()
        axes.plot([1, 2], [1, 2])
        return figure._repr_mimebundle_()

    data, metadata = bundle()
    assert set(data) == {"image/png", "text/plain"}
    assert metadata["image/png"] == {"width": 500, "height": 360}
    assert bundle() == (data, metadata)


def test_a_png_has_few_colours_and_all_of_them_close_to_those_drawn():
    figure, axes = canvas()
    axes.plot(np.random.default_rng(1).normal(size=(30, 12)), "o-", alpha=0.8)
    axes.imshow(np.linspace(0, 1, 100)[:, None], aspect="auto", extent=(30, 34, -2, 2))
    drawn, small = io.BytesIO(), Image.open(io.BytesIO(png(figure)))
    with style():
        figure.savefig(drawn, format="png")
    assert small.mode == "P"
    difference = np.array(small.convert("RGB"), int) - np.array(Image.open(drawn).convert("RGB"))
    assert np.abs(difference).max() <= 24
    assert np.abs(difference).mean() < 0.5


def test_the_style_stays_inside_the_figures():
    import matplotlib

    before = dict(matplotlib.rcParams)
    figure, axes = canvas()
    assert isinstance(figure, Figure)
    axes.plot([1], [1])
    figure._repr_mimebundle_()
    assert dict(matplotlib.rcParams) == before
    with style():
        assert matplotlib.rcParams["font.size"] == 11


def test_given_margins_fix_the_axes_in_inches():
    _, axes = canvas(4, 2, margins=(0.5, 0.4, 0.3, 0.2))
    box = axes.get_position()
    np.testing.assert_allclose([box.x0 * 4, box.y0 * 2], [0.5, 0.4])
    np.testing.assert_allclose([(1 - box.x1) * 4, (1 - box.y1) * 2], [0.3, 0.2])
