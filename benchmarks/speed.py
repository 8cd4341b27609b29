"""Time ibrelu beside what a user would run instead, and store the table.

`make bench` runs all of it, about twenty minutes on a quiet machine; `python benchmarks/speed.py
JOB ...` runs some jobs and replaces only their rows. The table is `benchmarks/speed.json`; the book
draws it.

How a row is timed. Ours, each peer and the limit get the same arrays and two threads. Each runs
once to warm up; then all run in turn, `RUNS` rounds, and the median counts. Before each timing
comes a rest: the threads that a BLAS has started go on waiting for work on a core that the next
contender needs. A peer that takes more
than three times as long as the best one, or longer than `LONG`, is not repeated. Where a peer's
cost is known to be proportional to the number of problems or steps, it may do a share of them and
its time is scaled: the row says which share.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

THREADS = 2
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

import numpy as np  # noqa: E402
import torch  # noqa: E402
from peers import (  # noqa: E402
    PROGRAMS,
    classifier_jax,
    classifier_torch,
    descent_jax,
    descent_numpy,
    descent_torch,
    flow_ivp,
    jnp,
    sweep_jax,
    sweep_numpy,
    sweep_torch,
)
from scipy.linalg import cholesky  # noqa: E402
from threadpoolctl import threadpool_info  # noqa: E402

from ibrelu import _compiled  # noqa: E402
from ibrelu.classification import train_classifier  # noqa: E402
from ibrelu.descent import gradient_descent  # noqa: E402
from ibrelu.features import gaussian_features, gaussian_gram, signed_labels  # noqa: E402
from ibrelu.flow import gradient_flow  # noqa: E402
from ibrelu.min_norm import min_norm  # noqa: E402
from ibrelu.problem import Problem, all_active, gram_matrix  # noqa: E402

STORED = Path(__file__).with_name("speed.json")
RUNS = 5
SHORTEST = 0.1  # seconds that one timing lasts at least: short work is repeated within it
PAUSE = 0.15  # seconds before a timing: BLAS threads of the contender before go on waiting for work
LONG = 8.0  # seconds: a peer's run that takes longer is not repeated
PATIENCE = 50.0  # seconds: a peer that would take longer, by its last size, is left out
TOL, START = 1e-10, 1e-3
SOLVERS = ("quadprog", "daqp", "piqp", "proxsuite", "clarabel", "osqp")
KEPT = ("ibrelu", "numpy", "scipy", "numba", "torch", "jax", "jaxlib", *SOLVERS)


@dataclass
class Contender:
    """Something that is timed: `run` returns the array that its residual is computed from."""

    run: Callable[[], object]
    warm: Callable[[], object] | None = None  # a short run instead of a whole one, to warm up
    share: float = 1.0  # of the work that is done


@dataclass
class Row:
    """One line of the table: a job at one size."""

    job: str
    size: dict[str, float]
    ours: dict[str, Contender]
    peers: dict[str, Contender]
    limit: Callable[[], object]
    residual: Callable[[np.ndarray], float]
    growth: float = 1.0  # work of a peer beside that of its last size, to leave out the hopeless
    floor: float | None = None  # the ratio that was aimed at
    also: dict[str, Callable[[], object]] = field(default_factory=dict)  # timed too, no contender


def timed(run: Callable[[], object], number: int = 1) -> float:
    """Seconds a call."""
    time.sleep(PAUSE)
    begin = time.perf_counter()
    for _ in range(number):
        run()
    return (time.perf_counter() - begin) / number


def measure(row: Row, last: dict[str, float]) -> dict:
    """Time a row; `last` holds each peer's time at the size before, and is brought up to date."""
    hopeless = {p for p in row.peers if last.get(p, 0.0) * row.growth > PATIENCE}
    entries = row.ours | {p: c for p, c in row.peers.items() if p not in hopeless}
    entries["limit"] = Contender(row.limit)
    entries |= {name: Contender(run) for name, run in row.also.items()}
    answers, times = {}, {}
    for name, entry in entries.items():
        (entry.warm or entry.run)()
        begin = time.perf_counter()
        answers[name] = np.asarray(entry.run())
        times[name] = [time.perf_counter() - begin]
    number = {name: max(1, int(SHORTEST / spent[0])) for name, spent in times.items()}
    scaled = {name: times[name][0] / entries[name].share for name in entries}
    best = min((scaled[p] for p in row.peers if p in scaled), default=np.inf)
    again = [
        name
        for name in entries
        if times[name][0] < LONG and (name not in row.peers or scaled[name] <= 3 * best)
    ]
    for name in again:
        if number[name] > 1:
            times[name] = []
    while min(len(times[name]) for name in again) < RUNS:
        for name in again:
            if len(times[name]) < RUNS:
                times[name].append(timed(entries[name].run, number[name]))
    medians = {n: float(np.median(spent)) / entries[n].share for n, spent in times.items()}
    last.clear()
    last.update({p: medians.get(p, np.inf) for p in row.peers})
    mine = answers[next(iter(row.ours))]
    peers = {
        p: {
            "time": medians[p],
            "runs": len(times[p]),
            "share": row.peers[p].share,
            "residual": row.residual(answers[p]),
            "difference": _difference(answers[p], mine),
        }
        for p in row.peers
        if p in medians
    }
    first = next(iter(row.ours))
    ours = {
        name: {"time": medians[name], "residual": row.residual(answers[name])} for name in row.ours
    }
    ours[first]["memory"] = peak_memory(row.ours[first].run)
    return {
        "job": row.job,
        **row.size,
        "ours": ours,
        "peers": peers,
        "left_out": sorted(hopeless),
        "floor": row.floor,
        "limit": medians["limit"],
        **{name: medians[name] for name in row.also},
    }


def _difference(theirs: np.ndarray, mine: np.ndarray) -> float | None:
    if theirs.shape != mine.shape:
        return None
    return float(np.abs(theirs - mine).max() / np.abs(mine).max())


def peak_memory(run: Callable[[], object]) -> int:
    """Bytes that a run allocates through numpy at its peak, its inputs not counted."""
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def ours(run: Callable[[], object], n: int = 0) -> dict[str, Contender]:
    """Our run in plain numpy and, where numba is installed and n small, with the kernels."""

    def with_kernels(wanted: bool) -> Callable[[], object]:
        def switched() -> object:
            before, _compiled.available = _compiled.available, wanted
            try:
                return run()
            finally:
                _compiled.available = before

        return switched

    found = {"plain": Contender(with_kernels(False))}
    if _compiled.takes(n):
        found["fast"] = Contender(with_kernels(True))
    return found


def unfitted(y: np.ndarray) -> Callable[[np.ndarray], float]:
    """Largest residual of active examples, relative to the largest label, from pre-activations."""
    return lambda beta: float((np.abs(beta - y) * (beta > 0)).max() / np.abs(y).max())


# The jobs. Each yields its rows from small to large.


def descent_row(job: str, n: int, d: int, c: float, growth: float, floor: float | None) -> Row:
    X, y = gaussian_features(n, d, rng=n + d), signed_labels(n, rng=n + d)
    problem = Problem.from_features(X, y)
    step, tol = float(problem.step(c)), TOL * float(np.abs(y).max())
    w = X.T @ problem.dual(all_active(problem, START))[:, 0]
    as_torch, as_jax = [torch.from_numpy(a) for a in (X, y, w)], [jnp.asarray(a) for a in (X, y, w)]

    def run() -> np.ndarray:
        made = Problem.from_features(X, y)
        start = all_active(made, START)
        return gradient_descent(made, start, made.step(c), max_steps=10**7).beta[:, 0]

    def limit() -> object:
        return np.linalg.cholesky(X @ X.T)

    def peer(call: Callable[..., object], arrays: list) -> Contender:
        return Contender(
            lambda: np.asarray(call(*arrays, step, tol, 10**8)),
            warm=lambda: np.asarray(call(*arrays, step, tol, 3)),
        )

    peers = {
        "numpy": peer(descent_numpy, [X, y, w]),
        "PyTorch": peer(descent_torch, as_torch),
        "JAX": peer(descent_jax, as_jax),
    }
    size, gram = {"n": n, "d": d, "c": c}, problem.gram
    also = {"form": lambda: gram_matrix(X), "check": lambda: Problem(gram, y)}
    return Row(job, size, ours(run, n), peers, limit, unfitted(y), growth, floor, also)


def one_problem():
    for n in (20, 100, 500):
        for factor in (10, 100, 1000):
            floor = {10: None, 100: 2.0, 1000: 5.0}[factor]
            yield descent_row("one problem", n, factor * n, 0.5, 0.0, floor)


def small_steps():
    for n in (20, 100):
        for c in (1e-2, 1e-3, 1e-4):
            floor = 10.0 if c == 1e-3 else None
            yield descent_row("small steps", n, 20 * n, c, 10.0, floor)


def sweep_row(d: int, problems: int = 1000, n: int = 20) -> Row:
    tol, share = 2 * TOL, min(1.0, max(2e-3, 1e3 / d))
    y = signed_labels(n, size=problems, rng=d)
    some = y[: max(2, round(problems * share))]

    def run() -> np.ndarray:
        problem = Problem(gaussian_gram(n, d, size=problems, rng=d), y)
        start = all_active(problem, START)
        return gradient_descent(problem, start, problem.step(0.5)).beta[..., 0]

    def limit() -> object:
        return np.linalg.cholesky(gaussian_gram(n, d, size=problems, rng=d))

    def peer(call: Callable[..., object]) -> Contender:
        return Contender(
            lambda: call(some, d, 0.5 / d, START, tol, 10_000, d),
            warm=lambda: call(some, d, 0.5 / d, START, tol, 3, d),
            share=len(some) / problems,
        )

    def residual(beta: np.ndarray) -> float:
        labels = y[: len(beta)]
        return float((np.abs(beta - labels) * (beta > 0)).max() / np.abs(y).max())

    peers = {"numpy": sweep_numpy, "PyTorch": sweep_torch, "JAX": sweep_jax}
    peers = {name: peer(call) for name, call in peers.items()}
    size = {"n": n, "d": d, "c": 0.5, "problems": problems}
    return Row(
        "sweep", size, ours(run, n), peers, limit, residual, 0.0, 1e3 if d == 10**5 else None
    )


def sweep():
    for d in (10**3, 10**4, 10**5, 10**6):
        yield sweep_row(d)


def kkt_residual(G: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], float]:
    """Largest relative violation of the optimality conditions, from the duals (..., n)."""

    def residual(alpha: np.ndarray) -> float:
        beta = (G @ alpha[..., None])[..., 0] / np.abs(y).max(axis=-1, keepdims=True)
        dual = alpha / np.abs(alpha).max(axis=-1, keepdims=True)
        fit = np.abs(beta - y / np.abs(y).max(axis=-1, keepdims=True))
        feasible = np.maximum(np.maximum(beta, dual), np.minimum(np.abs(beta), np.abs(dual)))
        return float(np.where(y > 0, fit, feasible).max())

    return residual


def program_row(n: int, d: int, growth: float) -> Row:
    G, y = gaussian_gram(n, d, rng=n + d), signed_labels(n, rng=n + d)
    problem = Problem(G, y)

    def limit() -> None:
        for _ in range(2):
            cholesky(G, lower=True, check_finite=False)

    def peer(solve: Callable[..., np.ndarray]) -> Contender:
        return Contender(lambda: solve(G, y), warm=(lambda: None) if n >= 1000 else None)

    peers = {name: peer(solve) for name, solve in PROGRAMS.items()}
    if n > 100:  # never within a factor of ten of the best there, and minutes of waiting
        peers = {p: peers[p] for p in ("DAQP", "PIQP", "ProxQP", "nnls")}
    mine = ours(lambda: min_norm(problem).alpha[:, 0], n)
    also = {"check": lambda: Problem(G, y)}
    size, floor = {"n": n, "d": d}, 3.0 if n >= 1000 else 1.0 if n >= 100 else None
    return Row("minimum norm", size, mine, peers, limit, kkt_residual(G, y), growth, floor, also)


def minimum_norm():
    before = 20
    for n in (20, 100, 500, 1000, 2000, 4000):
        for factor in (1.2, 3, 10):
            growth = (n / before) ** 3 if factor == 1.2 else 1.0
            yield program_row(n, int(factor * n), growth)
        before = n


def batch_row(d: int, n: int = 20, problems: int = 1000) -> Row:
    G, y = gaussian_gram(n, d, size=problems, rng=d), signed_labels(n, size=problems, rng=d)
    problem = Problem(G, y)

    def peer(solve: Callable[..., np.ndarray]) -> Contender:
        return Contender(lambda: np.array([solve(g, t) for g, t in zip(G, y, strict=True)]))

    peers = {name: peer(PROGRAMS[name]) for name in ("DAQP", "quadprog", "PIQP", "nnls")}
    mine = ours(lambda: min_norm(problem).alpha[..., 0], n)
    size, also = {"n": n, "d": d, "problems": problems}, {"check": lambda: Problem(G, y)}
    bound, residual = lambda: np.linalg.cholesky(G), kkt_residual(G, y)
    return Row("minimum norm, batch", size, mine, peers, bound, residual, 0.0, 3.0, also)


def batch():
    for d in (24, 60, 200):
        yield batch_row(d)


def flow_row(n: int, d: int) -> Row:
    G, y = gaussian_gram(n, d, rng=d), signed_labels(n, rng=d)
    problem = Problem(G, y)
    start = all_active(problem, START)
    phases = 1 + len(gradient_flow(problem, start).events)

    def limit() -> None:
        for _ in range(phases):
            np.linalg.eigh(G)

    def residual(alpha: np.ndarray) -> float:
        beta = G @ alpha
        return float(np.where(y > 0, np.abs(beta - y), np.maximum(beta, 0.0)).max() / y.max())

    def peer(method: str) -> Contender:
        return Contender(lambda: flow_ivp(G, y, start[:, 0], method))

    peers = {f"solve_ivp {method}": peer(method) for method in ("DOP853", "LSODA")}
    mine = ours(lambda: gradient_flow(problem, start).alpha[:, 0], n)
    size = {"n": n, "d": d, "events": phases - 1}
    return Row("gradient flow", size, mine, peers, limit, residual, 0.0, 20.0)


def flow():
    for n in (20, 100):
        yield flow_row(n, 20 * n)


def classifier_row(d: int, n: int = 20, m: int = 100, steps: int = 100_000, few: int = 500) -> Row:
    eta, slope, scale = 0.1, 0.1, 1e-3
    X, y = gaussian_features(n, d, rng=d), np.where(np.arange(n) < n // 2, 1.0, -1.0)
    drawn = scale * np.random.default_rng(0).standard_normal((d, 2 * m))
    setting = {"width": m, "slope": slope, "step": eta, "init_scale": scale, "rng": 0}
    gram, gain = X @ X.T, np.ones((n, 2 * m))

    def run(steps: int) -> np.ndarray:
        return train_classifier(X, y, steps=steps, record=[steps], **setting).margins[-1]

    def limit() -> None:
        for _ in range(steps):
            gram @ gain

    def peer(call: Callable[..., object], convert: Callable[[np.ndarray], object]) -> Contender:
        arrays = [convert(a) for a in (X, y, drawn)]
        return Contender(lambda: np.asarray(call(*arrays, eta, slope, few)), share=few / steps)

    short, long = run(few), run(steps)

    def residual(margins: np.ndarray) -> float:
        """Distance from our margins after as many steps."""
        return min(float(np.abs(margins / known - 1).max()) for known in (short, long))

    peers = {
        "PyTorch": peer(classifier_torch, torch.from_numpy),
        "JAX": peer(classifier_jax, jnp.asarray),
    }
    size = {"n": n, "d": d, "m": 2 * m, "steps": steps}
    mine = {"plain": Contender(lambda: run(steps))}
    return Row("classifier", size, mine, peers, limit, residual, 0.0, 50.0 if d > 1000 else 3.0)


def classifier():
    for d in (784, 10_000):
        yield classifier_row(d)


def many():
    """More and more problems, ours only: time should grow in proportion, memory should stop."""
    for problems in (100, 1000, 10_000, 100_000):
        row = sweep_row(10**5, problems)
        row.job, row.peers = "many problems", {}
        yield row


JOBS = {
    job.__name__.replace("_", "-"): job
    for job in (minimum_norm, batch, small_steps, sweep, many, flow, classifier, one_problem)
}


def machine() -> dict[str, object]:
    """Where and with what the table was made."""
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    found = [i for i in threadpool_info() if i["version"]]
    blas = sorted({f"{i['internal_api']} {i['version']}" for i in found})
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "threads": THREADS,
        "python": platform.python_version(),
        "blas": blas,
        "load": os.getloadavg()[0],
        "versions": {name: version(name) for name in KEPT},
    }


def line(row: dict) -> str:
    """One row as text: size, ours, best peer, ratio, ours / limit, residuals."""
    mine = min(row["ours"].values(), key=lambda entry: entry["time"])
    name = min(row["peers"], key=lambda p: row["peers"][p]["time"], default="none")
    peer = row["peers"].get(name, {"time": np.nan, "residual": np.nan})
    size = " ".join(f"{k}={row[k]:g}" for k in ("n", "d", "c", "problems", "m") if k in row)
    plain = row["ours"]["plain"]["time"]
    return (
        f"{row['job']:20}{size:36}{plain * 1e3:10.3f}{mine['time'] * 1e3:10.3f}"
        f"{peer['time'] * 1e3:12.3f} {name:16}{peer['time'] / plain:9.2f}"
        f"{peer['time'] / mine['time']:9.2f}{plain / row['limit']:8.2f}"
        f"{mine['time'] / row['limit']:8.2f}  {mine['residual']:.0e} {peer['residual']:.0e}"
        f"{row['ours']['plain']['memory'] / 2**20:9.2f}"
    )


HEAD = (
    f"{'job':20}{'size':36}{'ours ms':>10}{'fast ms':>10}{'peer ms':>12} {'best peer':16}"
    f"{'ratio':>9}{'fast':>9}{'/limit':>8}{'fast':>8}  residuals   MiB"
)


def main(wanted: list[str]) -> None:
    """Run the wanted jobs, print their rows, store the table."""
    warnings.simplefilter("error", RuntimeWarning)
    torch.set_num_threads(THREADS)
    print(HEAD)
    for name in wanted or JOBS:
        last: dict[str, float] = {}
        rows = []
        for row in JOBS[name]():
            rows.append(measure(row, last))
            print(line(rows[-1]), flush=True)
            store(name, rows)


def store(name: str, rows: list[dict]) -> None:
    """Put the rows of a job into the stored table."""
    table = json.loads(STORED.read_text()) if STORED.exists() else {"rows": {}}
    table["rows"] = {job: table["rows"].get(job, []) for job in JOBS} | {name: rows}
    table |= {"machine": machine(), "runs": RUNS}
    STORED.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
