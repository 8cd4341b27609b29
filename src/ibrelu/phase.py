r"""The phase diagram of the book: sweeps too large for a page, stored, and recomputed in part.

``python -m ibrelu.phase`` runs every sweep (four minutes on one processor) and writes
``phase.json`` beside this module. The numbers of a cell depend on the seed and the cell alone (see
`ibrelu.sweep`), so `recompute` on a slice of a grid must give what is stored.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import joblib
import numpy as np
import xarray as xr

from ibrelu._checks import Array, Mask, whole_number
from ibrelu.descent import Descent, gradient_descent
from ibrelu.features import gaussian_gram, signed_labels
from ibrelu.flow import gradient_flow
from ibrelu.min_norm import min_norm
from ibrelu.problem import Problem, all_active
from ibrelu.sweep import Value, sweep
from ibrelu.theory import conditions, gap, matching, regression_limit

FILE = Path(__file__).with_name("phase.json")
SEED = 0
SIGNS = {1: (1,), 2: (1, -1)}
START = 1e-3
QUANTILES = (0.1, 0.5, 0.9)
Named = TypeVar("Named")


def spectrum(name: str, d: int) -> list[tuple[float, int]]:
    """Return one of three spectra of d eigenvalues, as pairs (eigenvalue, multiplicity).

    "flat"; "two levels", a tenth of the eigenvalues ten times the others; "stairs", a hundred
    equal steps on which they fall like :math:`k^{-1/2}`. `d` is a multiple of 100.
    """
    step, rest = divmod(whole_number("d", d, least=100), 100)
    if rest:
        raise ValueError(f"d must be a multiple of 100, got {d}")
    spectra = {
        "flat": [(1.0, d)],
        "two levels": [(10.0, 10 * step), (1.0, 90 * step)],
        "stairs": [(k**-0.5, step) for k in range(1, 101)],
    }
    return _one_of("spectrum", name, spectra)


def pattern(
    size: int, rng: np.random.Generator, n: int, ratio: float, c: float, m: int
) -> dict[str, Mask]:
    """Tell what is known, and when, of the pattern on n examples in n · ratio dimensions.

    "promised": conditions (i)–(iv) hold. "certified": watched for 10/c steps, the pattern has been
    the predicted one since step 1, and the certificate proves at that point that it stays.
    "happens": it is final after one step. "placed": it is right at step 1, whatever follows.
    """
    gram = gaussian_gram(n, round(n * ratio), size=size, rng=rng)
    problem = Problem(gram, signed_labels(n, size=size, rng=rng), SIGNS[m])
    start, step = all_active(problem, START), problem.step(c)
    run = _run(problem, c, record=[1, round(10 / c)])
    assert run.history is not None
    wanted = matching(problem)
    at_once = run.settled <= 1
    first, later = ((beta > 0) == wanted for beta in run.history.beta)
    proven = at_once & _all(later) & _certified(problem, run.history.alpha[1], step)
    ended = (run.status == "certified") & _all(run.active == wanted)
    return {
        "promised": conditions(problem, start, step).hold,
        "certified": proven,
        "happens": at_once & ended,
        "placed": _all(first),
    }


def collapse(size: int, rng: np.random.Generator, n: int, kind: str, d: int) -> dict[str, Array]:
    """Gap of one neuron, c = ½, for features of a named spectrum."""
    gram = gaussian_gram(n, d, spectrum=spectrum(kind, d), size=size, rng=rng)
    problem = Problem(gram, signed_labels(n, size=size, rng=rng))
    return {"gap": gap(problem, _run(problem, 0.5), min_norm(problem))}


def flow(size: int, rng: np.random.Generator, n: int, d: int) -> dict[str, Array]:
    """Relative gap of one neuron's gradient flow, and of descent with c = ½."""
    gram = gaussian_gram(n, d, size=size, rng=rng)
    problem = Problem(gram, signed_labels(n, size=size, rng=rng))
    best, ideal = min_norm(problem), gradient_flow(problem, all_active(problem, START))
    return {
        "flow": gap(problem, ideal, best, relative=True),
        "descent": gap(problem, _run(problem, 0.5), best, relative=True),
    }


def pairs(size: int, rng: np.random.Generator, d: int) -> dict[str, Array]:
    """Gap of two neurons, n = 20, c = ½; NaN where a run has no proven limit."""
    gram = gaussian_gram(20, d, size=size, rng=rng)
    problem = Problem(gram, signed_labels(20, size=size, rng=rng), SIGNS[2])
    run = _run(problem, 0.5)
    distance = gap(problem, run, min_norm(problem))
    return {
        "gap": np.where(run.status == "certified", distance, np.nan),
        "decoupled": _all(run.active == matching(problem)),
    }


def _run(problem: Problem, c: float, record: Sequence[int] | None = None) -> Descent:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)  # the status says it
        start, step = all_active(problem, START), problem.step(c)
        return gradient_descent(problem, start, step, max_steps=round(5_000 / c), record=record)


def _all(mask: Mask) -> Mask:
    return np.asarray(mask.all(axis=(-2, -1)))


def _certified(problem: Problem, alpha: Array, step: Array) -> Mask:
    """Whether no primal variable can cross zero on the way to the predicted pattern's limit.

    While the pattern stands, the weights come ever nearer to that limit, so a primal variable
    stays within the distance at hand times its example's length.
    """
    wanted = matching(problem)
    limit = regression_limit(problem, alpha, wanted)
    lengths = np.sqrt(np.diagonal(problem.gram, axis1=-2, axis2=-1))
    reach = (lengths * gap(problem, alpha, limit)[..., None])[..., None]
    beta = problem.primal(limit)
    safe = np.where(wanted, beta > reach, beta <= -reach)
    return _all(safe) & (step < problem.m * problem.largest_safe_step)


@dataclass(frozen=True)
class Part:
    """One stored sweep: what is measured, over which grid, on how many problems a cell."""

    measure: Callable[..., Mapping[str, Any]]
    grid: Mapping[str, Sequence[Value]]
    trials: int


PARTS = {
    "pattern": Part(
        pattern,
        {
            "n": [5, 7, 10, 14, 20, 28, 40, 57, 80],
            "ratio": [float(f"{1.25 * 2 ** (k / 2):.3g}") for k in range(32)],
            "c": [0.5, 0.2, 0.05],
            "m": [1, 2],
        },
        trials=100,
    ),
    "collapse": Part(
        collapse,
        {
            "n": [10, 20, 40],
            "kind": ["flat", "two levels", "stairs"],
            "d": [4_000 * 4**k for k in range(8)],
        },
        trials=200,
    ),
    "flow": Part(flow, {"n": [10, 20, 40], "d": [100 * 4**k for k in range(7)]}, trials=100),
    "pairs": Part(pairs, {"d": [10**k for k in range(2, 9)]}, trials=10_000),
}


def recompute(part: str, **values: Sequence[Value]) -> xr.Dataset:
    """Run a stored sweep again, on one process, on some values of its grid.

    Parameters
    ----------
    part : str
        "pattern", "collapse", "flow" or "pairs".
    **values : list
        The values kept of a dimension; by default all.

    Returns
    -------
    xarray.Dataset
        As from `stored`.

    Examples
    --------
    >>> again = recompute("flow", n=[10], d=[100, 400])
    >>> kept = stored("flow").sel(n=[10], d=[100, 400])
    >>> bool(np.allclose(again.flow, kept.flow, rtol=1e-3))
    True
    """
    setting = _one_of("part", part, PARTS)
    for name in values:
        _one_of(f"dimension of {part!r}", name, setting.grid)
    grid = {**setting.grid, **values}
    with joblib.parallel_config(n_jobs=1):
        return _summary(sweep(setting.measure, grid, setting.trials, SEED, progress=False))


def stored(part: str) -> xr.Dataset:
    """Return the stored summary of a sweep.

    Parameters
    ----------
    part : str
        "pattern", "collapse", "flow" or "pairs".

    Returns
    -------
    xarray.Dataset
        Of a truth value, the share of problems; of a number, its quantiles 10%, 50% and 90%, along
        the dimension ``quantile``, rounded to four digits. The attributes hold seed, trials,
        versions, the command that made it and the processor seconds that it took.
    """
    _one_of("part", part, PARTS)
    try:
        return xr.Dataset.from_dict(json.loads(FILE.read_text(encoding="utf-8"))[part])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RuntimeError(
            f"{FILE} is missing, damaged or of another version ({error!r}); make it anew with "
            "`python -m ibrelu.phase`"
        ) from error


def _one_of(what: str, name: str, choices: Mapping[str, Named]) -> Named:
    if not isinstance(name, str) or name not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(f"there is no {what} {name!r}; there are {listed}")
    return choices[name]


def _summary(data: xr.Dataset) -> xr.Dataset:
    """Shares and quantiles over trials, to four significant digits."""
    found = {}
    for name, values in data.data_vars.items():
        if values.dtype == bool:
            found[name] = values.mean("trial")
        else:
            last = values.quantile(list(QUANTILES), "trial", skipna=True)
            found[name] = last.transpose(..., "quantile")
    summary = xr.Dataset(found, attrs=data.attrs)
    return summary.map(_rounded, keep_attrs=True)


def _rounded(values: xr.DataArray) -> xr.DataArray:
    digits = [float(f"{value:.4g}") for value in values.values.ravel()]
    return values.copy(data=np.reshape(digits, values.shape))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every sweep, on one process so that its time can be told, and write the file.

    The file is replaced once all is computed: a run that is stopped leaves it as it was.
    """
    parser = argparse.ArgumentParser(
        prog="python -m ibrelu.phase",
        description=f"Run the sweeps of the phase diagram (four minutes) and write {FILE}.",
    )
    parser.parse_args(arguments)
    try:
        # Beside the file, and before the work: a folder that cannot be written is known at once.
        handle, part = tempfile.mkstemp(dir=FILE.parent, prefix=FILE.name, suffix=".part")
    except OSError as error:
        parser.error(f"cannot write to {FILE.parent} ({error.strerror}); use a clone of your own")
    try:
        everything = {}
        for name in PARTS:
            begun = time.process_time()
            summary = recompute(name)
            summary.attrs["command"] = "python -m ibrelu.phase"
            summary.attrs["seconds"] = round(time.process_time() - begun)
            everything[name] = summary.to_dict()
        with open(handle, "w", encoding="utf-8", closefd=False) as file:
            file.write(json.dumps(everything, ensure_ascii=False) + "\n")
        os.chmod(part, 0o644)
        os.replace(part, FILE)
    finally:
        os.close(handle)
        Path(part).unlink(missing_ok=True)


if __name__ == "__main__":
    from ibrelu import phase  # by its own name, which the file records

    phase.main()
