"""The gradient that training follows, against automatic differentiation of the loss.

Run with `pytest benchmarks`, where JAX or PyTorch is installed; each part is skipped without its
library.
"""

import numpy as np
import pytest

from ibrelu.classification import train_classifier

N, D, WIDTH, STEP, STEPS, SCALE = 12, 40, 15, 0.5, 200, 1e-2
SIGNS = np.repeat([1.0, -1.0], WIDTH)


def problem():
    X = np.random.default_rng(0).standard_normal((N, D))
    return X, np.where(np.arange(N) < 5, 1.0, -1.0)


def start():
    return SCALE * np.random.default_rng(1).standard_normal((D, 2 * WIDTH))


def ours(slope):
    X, y = problem()
    setting = {"width": WIDTH, "step": STEP, "steps": STEPS, "init_scale": SCALE, "rng": 1}
    run = train_classifier(X, y, slope=slope, record=[STEPS], **setting)
    return np.hstack([*run.weights(X)])


@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_training_equals_automatic_differentiation_in_jax(slope):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    X, y = problem()

    def loss(W):
        outputs = jax.nn.leaky_relu(X @ W, slope) @ SIGNS / WIDTH
        return jax.numpy.logaddexp(0.0, -y * outputs).mean()

    gradient, W = jax.jit(jax.grad(loss)), start()
    for _ in range(STEPS):
        W = W - STEP * np.asarray(gradient(W))
    np.testing.assert_allclose(ours(slope), W, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_training_equals_automatic_differentiation_in_pytorch(slope):
    torch = pytest.importorskip("torch")
    X, y = (torch.tensor(array) for array in problem())
    W, signs = torch.tensor(start(), requires_grad=True), torch.tensor(SIGNS)
    for _ in range(STEPS):
        outputs = torch.nn.functional.leaky_relu(X @ W, slope) @ signs / WIDTH
        loss = torch.logaddexp(torch.zeros(N, dtype=W.dtype), -y * outputs).mean()
        (gradient,) = torch.autograd.grad(loss, W)
        with torch.no_grad():
            W -= STEP * gradient
    np.testing.assert_allclose(ours(slope), W.detach().numpy(), rtol=1e-10, atol=1e-12)
