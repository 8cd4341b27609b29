"""What a user would run instead of ibrelu, each through its own leanest interface.

Every function takes plain arrays and returns the plain array that the answer is compared by.
Importing this module needs `pip install -e .[bench]`.
"""

from functools import partial

import clarabel
import daqp
import jax
import jax.numpy as jnp
import numpy as np
import osqp
import piqp
import proxsuite
import quadprog
import scipy.sparse as sp
import torch
from jax import lax
from scipy.integrate import solve_ivp
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

jax.config.update("jax_enable_x64", True)
torch.set_grad_enabled(False)

_FREE = 1e30  # what DAQP, ProxQP and PIQP take for infinity


# Gradient descent of one neuron on its d weights, until the active residuals are below `tol`.
# All return the pre-activations X w.


def descent_numpy(X, y, w, step, tol, most):
    w, Xt = w.copy(), X.T
    z = X @ w
    for _ in range(most):
        pull = (z - y) * (z > 0)
        if max(pull.max(), -pull.min()) <= tol:
            break
        w -= Xt @ (step * pull)
        z = X @ w
    return z


def descent_torch(X, y, w, step, tol, most):
    w, Xt = w.clone(), X.T
    z = torch.mv(X, w)
    for _ in range(most):
        pull = (z - y) * (z > 0)
        if pull.abs().max() <= tol:
            break
        w.addmv_(Xt, pull, alpha=-step)
        z = torch.mv(X, w)
    return z


@jax.jit
def descent_jax(X, y, w, step, tol, most):
    def going(state):
        t, _, _, pull = state
        return (jnp.abs(pull).max() > tol) & (t < most)

    def advance(state):
        t, w, _, pull = state
        w = w - X.T @ (step * pull)
        z = X @ w
        return t + 1, w, z, (z - y) * (z > 0)

    z = X @ w
    return lax.while_loop(going, advance, (0, w, z, (z - y) * (z > 0)))[2]


# The same for a batch of problems whose features are drawn first: X (B, n, d).


def sweep_numpy(y, d, step, scale, tol, most, seed):
    rng, out = np.random.default_rng(seed), np.empty(y.shape)
    for b, labels in enumerate(y):
        X = rng.standard_normal((y.shape[1], d))
        out[b] = descent_numpy(X, labels, scale / d * X.sum(axis=0), step, tol, most)
    return out


def sweep_torch(y, d, step, scale, tol, most, seed):
    X = torch.randn(*y.shape, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    w, y = scale / d * X.sum(1)[..., None], torch.from_numpy(y)[..., None]
    for _ in range(most):
        z = torch.bmm(X, w)
        pull = (z - y) * (z > 0)
        if pull.abs().max() <= tol:
            break
        w.baddbmm_(X.mT, pull, alpha=-step)
    return z[..., 0].numpy()


@partial(jax.jit, static_argnums=1)
def _sweep_jax(y, d, step, scale, tol, most, key):
    X = jax.random.normal(key, (*y.shape, d), dtype=jnp.float64)
    run = jax.vmap(descent_jax, in_axes=(0, 0, 0, None, None, None))
    return run(X, y, scale / d * X.sum(axis=1), step, tol, most)


def sweep_jax(y, d, step, scale, tol, most, seed):
    return np.asarray(_sweep_jax(y, d, step, scale, tol, most, jax.random.key(seed)))


# The minimum norm, one neuron: the dual program min ½αᵀGα - y₊ᵀα with α ≤ 0 on negative labels,
# which has bounds only (faster for every solver here than the program with 2n constraints).


def qp_quadprog(G, y):
    negative = np.flatnonzero(y < 0)
    sides = np.zeros((len(y), len(negative)))
    sides[negative, np.arange(len(negative))] = -1.0
    return quadprog.solve_qp(G, np.maximum(y, 0.0), sides, np.zeros(len(negative)))[0]


def qp_daqp(G, y):
    upper = np.where(y < 0, 0.0, _FREE)
    lower, no_rows = np.full(len(y), -_FREE), np.zeros((0, len(y)))
    exact = {"primal_tol": 1e-11, "dual_tol": 1e-12}
    return daqp.solve(G, -np.maximum(y, 0.0), no_rows, upper, lower, **exact)[0]


def qp_piqp(G, y):
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-13
    solver.settings.eps_rel = solver.settings.eps_duality_gap_rel = 0.0
    solver.setup(np.asfortranarray(G), -np.maximum(y, 0.0), x_u=np.where(y < 0, 0.0, _FREE))
    solver.solve()
    return solver.result.x.copy()


def qp_proxqp(G, y):
    n = len(y)
    solver = proxsuite.proxqp.dense.QP(n, 0, 0, True)
    solver.settings.eps_abs, solver.settings.eps_rel = 1e-12, 0.0
    bounds = {"l_box": np.full(n, -_FREE), "u_box": np.where(y < 0, 0.0, _FREE)}
    solver.init(G, -np.maximum(y, 0.0), **bounds)
    solver.solve()
    return solver.results.x.copy()


def _bounds(y):
    negative = np.flatnonzero(y < 0)
    pick = sp.csc_matrix(
        (np.ones(len(negative)), (range(len(negative)), negative)), shape=(len(negative), len(y))
    )
    return pick, np.zeros(len(negative))


def qp_clarabel(G, y):
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    pick, zero = _bounds(y)
    cones, upper = [clarabel.NonnegativeConeT(len(zero))], sp.csc_matrix(np.triu(G))
    solver = clarabel.DefaultSolver(upper, -np.maximum(y, 0.0), pick, zero, cones, settings)
    return np.array(solver.solve().x)


def qp_osqp(G, y):
    pick, zero = _bounds(y)
    solver, upper = osqp.OSQP(), sp.csc_matrix(np.triu(G))
    options = {"eps_abs": 1e-9, "eps_rel": 1e-9, "polishing": True, "max_iter": 100_000}
    lower = np.full(len(zero), -np.inf)
    solver.setup(upper, -np.maximum(y, 0.0), pick, lower, zero, verbose=False, **options)
    return solver.solve().x


def qp_nnls(G, y):
    """Eliminate the positive labels by one Cholesky factorisation; the rest is least squares."""
    order = np.argsort(y < 0, kind="stable")
    p = int((y > 0).sum())
    factor = np.linalg.cholesky(G[np.ix_(order, order)])
    top, cross, corner = factor[:p, :p], factor[p:, :p], factor[p:, p:]
    inner = solve_triangular(top, y[order[:p]], lower=True, check_finite=False)
    right = solve_triangular(corner, cross @ inner, lower=True, check_finite=False)
    minus, _ = nnls(corner.T, right)
    alpha = np.empty(len(y))
    alpha[order[p:]] = -minus
    alpha[order[:p]] = solve_triangular(
        top, inner + cross.T @ minus, lower=True, trans="T", check_finite=False
    )
    return alpha


PROGRAMS = {
    "quadprog": qp_quadprog,
    "DAQP": qp_daqp,
    "PIQP": qp_piqp,
    "ProxQP": qp_proxqp,
    "Clarabel": qp_clarabel,
    "OSQP": qp_osqp,
    "nnls": qp_nnls,
}


# Gradient flow of one neuron: an ODE of n duals that `solve_ivp` stops at each change of pattern.

ACTIVE, INACTIVE, SLIDING = 1, 0, -1


def _response(G, state):
    """Rates of all duals, as a matrix to multiply the drive y - Gα by."""
    on, held = np.flatnonzero(state == ACTIVE), np.flatnonzero(state == SLIDING)
    respond = np.zeros(G.shape)
    respond[on, on] = 1.0
    respond[np.ix_(held, on)] = -np.linalg.solve(G[np.ix_(held, held)], G[np.ix_(held, on)])
    return respond


def _settled(G, y, alpha, state):
    """Let go of sliding duals whose rate is out of bounds."""
    while True:
        rate = _response(G, state) @ (y - G @ alpha)
        falls, wakes = (state == SLIDING) & (rate >= 0), (state == SLIDING) & (rate < y)
        if not (falls | wakes).any():
            return state
        state = np.where(falls, INACTIVE, np.where(wakes, ACTIVE, state))


def flow_ivp(G, y, start, method, rtol=1e-11, atol=1e-14):
    """Return the duals where every residual has decayed by 1e-13."""
    state = np.where(start > 0, ACTIVE, INACTIVE)
    alpha, now = np.linalg.solve(G, start), 0.0
    eigenvalues = np.linalg.eigvalsh(G)
    horizon = 30.0 / eigenvalues[0]
    while True:
        respond = _response(G, state)
        on, off, held = (state == kind for kind in (ACTIVE, INACTIVE, SLIDING))
        which = np.concatenate([np.flatnonzero(mask) for mask in (on, off, held, held)])
        after = np.repeat(
            [SLIDING, ACTIVE, INACTIVE, ACTIVE], [m.sum() for m in (on, off, held, held)]
        )
        after = np.where((after == SLIDING) & (y[which] > 0), INACTIVE, after)
        after = np.where((after == ACTIVE) & (y[which] < 0) & off[which], SLIDING, after)

        def watched(a, on=on, off=off, held=held, respond=respond):
            beta = G @ a
            rate = (respond @ (y - beta))[held]
            return np.concatenate([beta[on], -beta[off], -rate, rate - y[held]])

        watching = watched(alpha) > 1e-12 * np.abs(y).max()

        def nearest(_, a, watched=watched, watching=watching):
            return watched(a)[watching].min()

        nearest.terminal, nearest.direction = True, -1
        run = solve_ivp(
            lambda _, a, respond=respond: respond @ (y - G @ a),
            (now, horizon),
            alpha,
            method=method,
            rtol=rtol,
            atol=atol,
            max_step=1.0 / eigenvalues[-1],
            events=nearest,
        )
        alpha, now = run.y[:, -1], run.t[-1]
        if run.status == 0:
            return alpha
        hit = int(np.where(watching, watched(alpha), np.inf).argmin())
        state[which[hit]] = after[hit]
        state = _settled(G, y, alpha, state)


# A classifier of 2m neurons trained on its d weights each, gradients written out.
# W (d, 2m), the positive neurons first. Return the margins.


def classifier_torch(X, y, W, step, slope, steps):
    W, m = W.clone(), W.shape[1] // 2
    signs = torch.cat([torch.ones(m), -torch.ones(m)]).double() / m
    pull = signs * (y * step / len(y))[:, None]
    for _ in range(steps):
        Z = X @ W
        slopes = torch.where(Z > 0, 1.0, slope)
        margins = y * ((Z * slopes) @ signs)
        W.addmm_(X.T, slopes * pull * torch.sigmoid(-margins)[:, None])
    Z = X @ W
    return y * (torch.where(Z > 0, Z, slope * Z) @ signs)


@partial(jax.jit, static_argnums=5)
def classifier_jax(X, y, W, step, slope, steps):
    m = W.shape[1] // 2
    signs = jnp.concatenate([jnp.ones(m), -jnp.ones(m)]) / m
    pull = signs * (y * step / len(y))[:, None]

    def advance(_, W):
        Z = X @ W
        slopes = jnp.where(Z > 0, 1.0, slope)
        margins = y * ((Z * slopes) @ signs)
        return W + X.T @ (slopes * pull * jax.nn.sigmoid(-margins)[:, None])

    Z = X @ lax.fori_loop(0, steps, advance, W)
    return y * (jnp.where(Z > 0, Z, slope * Z) @ signs)
