"""Kernels give what plain numpy gives. Where numba is missing they run uncompiled, as Python."""

import warnings

import numpy as np
import pytest

from ibrelu import _compiled, descent
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


@pytest.mark.parametrize("signs", [(1,), (1, -1), (1, 1, -1)])
@pytest.mark.parametrize("c", [0.5, 3.0])
def test_patterns_are_proven_final_in_the_same_states(monkeypatch, signs, c):
    problem = problems(8, 60, signs, 40)
    step, start = problem.step(c), all_active(problem, 0.01)
    moved, beta, kinds = np.zeros_like(start), start, set()
    monkeypatch.setattr(_compiled, "available", True)
    if not _compiled.find_spec("numba"):
        monkeypatch.setattr(_compiled, "compiled", lambda kernel, arguments: kernel)
    for most in (1, 4, 20, 100):
        steps = np.full(40, most)
        moved, beta, *_ = descent._plain_steps(
            problem.gram, problem.labels, problem.signs, step, start, moved, steps, np.inf * step
        )
        for settling in (np.zeros(40, dtype=bool), np.ones(40, dtype=bool)):
            given = problem.gram, problem.labels, problem.signs, step, moved, beta, settling
            plain = descent._limits(*given)
            fast = _compiled.compiled(_compiled.limits, "f3 f2 f1 f1 f3 f3 b1")(*given)
            assert (plain[2] == fast[2]).all()
            np.testing.assert_allclose(fast[0], plain[0], rtol=1e-10, atol=1e-14)
            np.testing.assert_allclose(fast[1], plain[1], rtol=1e-10, atol=1e-14)
            kinds |= set(plain[2].tolist())
    assert kinds == {True, False}
