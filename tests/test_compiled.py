"""Kernels give what plain numpy gives. Where numba is missing they run uncompiled, as Python."""

import warnings

import numpy as np
import pytest

from ibrelu import _compiled
from ibrelu.descent import gradient_descent
from ibrelu.features import gaussian_gram, signed_labels
from ibrelu.min_norm import min_norm
from ibrelu.problem import Problem, all_active, random_start


def both(monkeypatch, run):
    monkeypatch.setattr(_compiled, "available", False)
    plain = run()
    if not _compiled.find_spec("numba"):
        monkeypatch.setattr(_compiled, "compiled", lambda kernel, arguments: kernel)
    monkeypatch.setattr(_compiled, "available", True)
    return plain, run()


def problems(n, d, signs, size):
    return Problem(gaussian_gram(n, d, size=size, rng=0), signed_labels(n, size=size, rng=1), signs)


@pytest.mark.parametrize("signs", [(1,), (1, -1), (1, 1, -1)])
@pytest.mark.parametrize("c", [0.5, 0.02, 3.0])
@pytest.mark.parametrize("kind", ["all active", "random"])
def test_descent_ends_where_plain_steps_end(monkeypatch, signs, c, kind):
    problem = problems(6, 40, signs, 4)
    start = all_active(problem, 0.01)
    if kind == "random":
        start = np.abs(random_start(problem, None, 0.1, 2))
        start[:, ::2] *= -1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        plain, fast = both(
            monkeypatch,
            lambda: gradient_descent(problem, start, problem.step(c), max_steps=4000),
        )
    assert (plain.status == fast.status).all()
    if len(signs) == 1:  # with several, a pair may flicker at its kink until the run ends
        assert (plain.settled == fast.settled)[plain.status == "certified"].all()
    settled = plain.status != "diverged"
    np.testing.assert_allclose(fast.beta[settled], plain.beta[settled], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(fast.alpha[settled], plain.alpha[settled], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("signs", [(1,), (1, -1), (1, 1, -1)])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (6, 7), (10, 100)])
def test_the_minimum_norm_is_the_same(monkeypatch, signs, n, d):
    problem = problems(n, d, signs, 5)
    plain, fast = both(monkeypatch, lambda: min_norm(problem))
    np.testing.assert_allclose(fast.norm, plain.norm, rtol=1e-11)
    np.testing.assert_allclose(fast.alpha, plain.alpha, rtol=1e-9, atol=1e-11)
    assert (fast.optimal == plain.optimal).all()
    assert (fast.selected == plain.selected).all()


def test_programs_that_cycle_under_block_exchange_still_settle(monkeypatch):
    """Nearly singular programs, where exchanging all wrong signs at once goes round in circles."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((20, 12, 12)) * np.logspace(0, -1.5, 12)
    problem = Problem(X @ X.swapaxes(-1, -2), signed_labels(12, size=20, rng=rng))
    plain, fast = both(monkeypatch, lambda: min_norm(problem))
    assert plain.optimal.all()
    assert fast.optimal.all()
    assert (fast.selected == plain.selected).all()


def test_large_problems_are_left_to_blas(monkeypatch):
    monkeypatch.setattr(_compiled, "available", True)
    assert _compiled.takes(_compiled.LARGEST)
    assert not _compiled.takes(_compiled.LARGEST + 1)
