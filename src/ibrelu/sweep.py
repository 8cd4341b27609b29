r"""Measure something over a grid of settings: in parallel, resumable, the same numbers everywhere.

A sweep calls one function, the *measure*, on every cell of a grid, on many random problems a
cell. Trials are run in blocks of fixed size, and the random numbers of a block depend on the
sweep's seed, the cell's values and the block alone. So the numbers do not depend on how many
workers there were or in which order they finished, nor do they change when the grid grows.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import itertools
import json
import math
import os
import platform
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias

import joblib
import numpy as np
import scipy.linalg  # noqa: F401  so that its BLAS is loaded when threads are limited
import xarray as xr
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ibrelu._checks import whole_number

Measure: TypeAlias = Callable[..., Mapping[str, Any]]
Value: TypeAlias = bool | int | float | str
Cell: TypeAlias = dict[str, Value]
Output: TypeAlias = tuple[tuple[str, ...], NDArray[Any]]  # names of the axes after "trial", values
Outputs: TypeAlias = dict[str, Output]

_RESERVED = ("size", "rng", "trial")
_ATTEMPTS = 3  # times that workers may die with no block finished in between


@dataclass(frozen=True)
class _Block:
    """Some trials of one cell: what is run, and stored, at once."""

    cell: Cell
    index: int
    size: int

    def identity(self) -> str:
        """Text that depends on the cell's values, not on the order or extent of the grid."""
        return json.dumps([self.cell, self.index], sort_keys=True)

    def rng(self, seed: int) -> np.random.Generator:
        """Return the generator spawned from `seed` for this block."""
        words = np.frombuffer(_digest(self.identity()), dtype="<u4")
        sequence = np.random.SeedSequence(seed, spawn_key=tuple(int(word) for word in words))
        return np.random.default_rng(sequence)


def sweep(
    measure: Measure,
    grid: Mapping[str, Sequence[Value]],
    trials: int,
    seed: int,
    *,
    block: int = 500,
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> xr.Dataset:
    """Run `measure` on every cell of `grid` and return its outputs as a labelled dataset.

    Workers come from joblib: by default one process a core; ``joblib.parallel_config(n_jobs=…)``
    around the call sets another number, ``joblib.parallel_config(backend="dask")`` sends the work
    to the cluster of the active ``dask.distributed`` client. The numbers are the same bit for bit,
    as long as the machines have the same kind of processor: linear algebra runs on one thread
    everywhere. If a worker dies, its blocks are run again.

    Parameters
    ----------
    measure : function
        Called as ``measure(size=…, rng=…, **cell)``: `size` random problems are to be drawn with
        the numpy Generator `rng` and measured, as one batch. It returns a dict, name → array of
        shape (size,), or name → (axes, array of shape (size, …)) where `axes` names the further
        axes. NaN is allowed: it stands for "not defined for this problem".
    grid : dict, name → list of numbers or strings
        Each name is a keyword of `measure` and a dimension of the result; a cell is one
        combination of values.
    trials : int
        Random problems a cell.
    seed : int
        Seed of the whole sweep.
    block : int
        Trials in one call of `measure`. It bounds the memory (a block's Gram matrices take
        8·block·n² bytes, and a measure holds several such arrays). Another value draws other
        problems.
    store : path, optional
        Folder in which finished blocks are kept. Run again, after a kill or with a larger grid or
        more trials, the sweep computes what is missing only. A block is found again if nothing
        that made it has changed: the measure (with the functions and values of its own module that
        it names), this package, numpy, scipy, seed, cell and block. One folder may serve many
        sweeps.
    progress : bool
        Show a progress bar on stderr.

    Returns
    -------
    xarray.Dataset
        One variable an output, with dimensions (grid names…, "trial", axes…); attributes
        ``measure``, ``seed``, ``trials``, ``block``, ``versions``, ``command``.

    Raises
    ------
    TypeError
        If `measure` is not a function with the keywords of the grid, or does not return a dict of
        arrays, or a grid value is not a number or a string.
    ValueError
        If the grid is empty, a value is repeated or not finite, the outputs' shapes do not fit, or
        the store cannot be written.
    RuntimeError
        If workers keep dying.

    Examples
    --------
    >>> def measure(size, rng, d):
    ...     return {"length": np.sqrt(rng.chisquare(d, size) / d)}
    >>> lengths = sweep(measure, {"d": [10, 1000]}, trials=400, seed=0, progress=False)
    >>> dict(lengths.sizes)
    {'d': 2, 'trial': 400}
    >>> bool(lengths.length.std("trial").sel(d=1000) < 0.05)
    True
    """
    axes = _checked_grid(grid)
    _check_measure(measure, axes)
    trials, seed = whole_number("trials", trials), whole_number("seed", seed, least=0)
    blocks = _blocks(axes, trials, whole_number("block", block))
    kept = None if store is None else _Store(Path(store), measure, seed)
    results = {} if kept is None else kept.load(blocks)
    with (
        threadpool_limits(1, user_api="blas"),
        tqdm(total=len(blocks), initial=len(results), unit="block", disable=not progress) as bar,
    ):
        for i, outputs in _computed(measure, blocks, seed, results):
            if kept is not None:
                kept.save(blocks[i], outputs)
            bar.update()
    dataset = _assembled(axes, blocks, results)
    dataset.attrs = _provenance(measure, axes, trials, seed, block)
    return dataset


def _computed(
    measure: Measure, blocks: list[_Block], seed: int, results: dict[int, Outputs]
) -> Iterator[tuple[int, Outputs]]:
    """Run the blocks not yet in `results`, put them there, and yield each as it finishes."""
    names = tuple(blocks[0].cell)
    jobs = get_active_backend()[1] or -1
    deaths = 0
    while missing := [i for i in range(len(blocks)) if i not in results]:
        done = len(results)
        tasks = (joblib.delayed(_run)(measure, blocks[i], seed, i, names) for i in missing)
        try:
            for i, outputs in joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks):
                results[i] = outputs
                yield i, outputs
        except BrokenProcessPool as error:
            deaths = 1 if len(results) > done else deaths + 1
            if deaths >= _ATTEMPTS:
                raise RuntimeError(
                    f"workers died {deaths} times in a row without finishing a block (out of "
                    "memory?); use a smaller `block` or fewer workers"
                ) from error
            warnings.warn(
                f"a worker died; running the {len(blocks) - len(results)} unfinished blocks again",
                RuntimeWarning,
                stacklevel=3,
            )


def _run(
    measure: Measure, block: _Block, seed: int, i: int, names: tuple[str, ...]
) -> tuple[int, Outputs]:
    """Measure one block, in whatever process this is."""
    threadpool_limits(1, user_api="blas")  # to stay: another thread of a worker may be at work
    try:
        outputs = measure(size=block.size, rng=block.rng(seed), **block.cell)
        return i, _checked_outputs(outputs, block.size, names)
    except Exception as error:
        error.add_note(f"in the cell {_label(block.cell)}, trials block {block.index}")
        raise


def _blocks(axes: dict[str, list[Value]], trials: int, block: int) -> list[_Block]:
    cells = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    sizes = [min(block, trials - first) for first in range(0, trials, block)]
    return [_Block(cell, k, size) for cell in cells for k, size in enumerate(sizes)]


def _assembled(
    axes: dict[str, list[Value]], blocks: list[_Block], results: dict[int, Outputs]
) -> xr.Dataset:
    _check_agreement(blocks, results)
    lengths = tuple(len(values) for values in axes.values())
    cells = math.prod(lengths)
    variables = {}
    for name, (extra, _) in results[0].items():
        values = np.concatenate([results[i][name][1] for i in range(len(blocks))])
        shape = (*lengths, len(values) // cells, *values.shape[1:])
        variables[name] = ((*axes, "trial", *extra), values.reshape(shape))
    return xr.Dataset(variables, coords={name: np.asarray(axes[name]) for name in axes})


def _provenance(
    measure: Measure, axes: dict[str, list[Value]], trials: int, seed: int, block: int
) -> dict[str, Any]:
    packages = ("ibrelu", "numpy", "scipy", "xarray", "joblib")
    return {
        "measure": _name(measure),
        "seed": seed,
        "trials": trials,
        "block": block,
        "versions": ", ".join(
            [f"python {platform.python_version()}", *(f"{p} {version(p)}" for p in packages)]
        ),
        "command": f"sweep({measure.__qualname__}, {axes!r}, {trials}, {seed}, block={block})",
    }


# The store: one file a block, named by what made it.


class _Store:
    """Finished blocks on disk; a file is its content's digest followed by the content."""

    def __init__(self, folder: Path, measure: Measure, seed: int) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise ValueError(
                f"store must be a folder that can be written, got {str(folder)!r} "
                f"({error.strerror}); give another, or None to keep nothing"
            ) from None
        self.folder = folder
        self.origin = [
            _name(measure),
            _fingerprint(measure),
            _package_digest(),
            platform.python_version(),
            version("numpy"),
            version("scipy"),
            seed,
        ]

    def path(self, block: _Block) -> Path:
        return self.folder / f"{_digest(self.key(block)).hex()}.block"

    def key(self, block: _Block) -> str:
        return json.dumps([*self.origin, block.identity(), block.size])

    def save(self, block: _Block, outputs: Outputs) -> None:
        """Write under a temporary name, then rename: a reader sees the whole file or none."""
        content = io.BytesIO()
        header = json.dumps([self.key(block), {name: outputs[name][0] for name in outputs}])
        arrays: dict[str, Any] = {f"output {name}": outputs[name][1] for name in outputs}
        np.savez(content, header=np.asarray(header), **arrays)
        data = content.getvalue()
        with tempfile.NamedTemporaryFile(dir=self.folder, suffix=".part", delete=False) as file:
            file.write(_digest(data) + data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, self.path(block))

    def load(self, blocks: list[_Block]) -> dict[int, Outputs]:
        """Blocks already finished, by position; a damaged file is reported and left out."""
        found, damaged = {}, []
        for i, block in enumerate(blocks):
            path = self.path(block)
            if not path.exists():
                continue
            outputs = self._read(path, self.key(block))
            if outputs is None:
                damaged.append(path.name)
            else:
                found[i] = outputs
        if damaged:
            warnings.warn(
                f"{len(damaged)} damaged file(s) in {self.folder} will be computed again: "
                f"{', '.join(damaged[:3])}{', …' if len(damaged) > 3 else ''}",
                RuntimeWarning,
                stacklevel=3,
            )
        return found

    @staticmethod
    def _read(path: Path, key: str) -> Outputs | None:
        data = path.read_bytes()
        digest, content = data[:32], data[32:]
        if _digest(content) != digest:
            return None
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            stored_key, extra = json.loads(str(arrays["header"]))
            if stored_key != key:
                return None
            return {name: (tuple(extra[name]), arrays[f"output {name}"]) for name in extra}


def _digest(data: str | bytes) -> bytes:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).digest()


@cache
def _package_digest() -> str:
    """Digest of this package's sources: a result is not reused after they change."""
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    return _digest(b"".join(path.read_bytes() for path in sources)).hex()


def _fingerprint(measure: Measure) -> str:
    """Digest of what a function does: see `_parts`."""
    return _digest("\n".join(_parts("measure", measure, measure.__module__, set()))).hex()


def _parts(name: str, value: object, home: str, seen: set[int]) -> Iterator[str]:
    """Texts that identify a value; a function of module `home` by its code and all it names."""
    if isinstance(value, FunctionType) and value.__module__ == home:
        if id(value) not in seen:
            seen.add(id(value))
            yield from _code_parts(value.__code__)
            for key, inner in _named_values(value):
                yield from _parts(key, inner, home, seen)
    elif isinstance(value, ModuleType):
        yield f"{name}: module {value.__name__}"
    elif isinstance(value, type) or callable(value):
        yield f"{name}: {_name(value)}"
    else:
        try:
            yield f"{name}: {joblib.hash(value)}"
        except Exception as error:
            raise TypeError(
                f"with a store, what the measure names must be recognised again, but {name!r} "
                f"(a {type(value).__name__}) cannot be pickled; make it inside the measure"
            ) from error


def _code_parts(code: CodeType) -> Iterator[str]:
    yield repr((code.co_code, code.co_names, code.co_varnames))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))  # its own order differs between processes
        else:
            yield repr(constant)


def _named_values(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Return defaults, closure and global values that a function may read, in a fixed order."""
    yield "defaults", function.__defaults__
    yield "keyword defaults", function.__kwdefaults__
    closure = inspect.getclosurevars(function).nonlocals
    visible = {**function.__globals__, **closure}
    for name in sorted(set(_code_names(function.__code__)) & visible.keys()):
        yield name, visible[name]


def _code_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_names(constant)


def _name(thing: object) -> str:
    kind = type(thing)
    module = getattr(thing, "__module__", None) or kind.__module__
    return f"{module}.{getattr(thing, '__qualname__', kind.__qualname__)}"


def _label(cell: Cell) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in cell.items())


# Checks


def _checked_grid(grid: Mapping[str, Sequence[Value]]) -> dict[str, list[Value]]:
    if not isinstance(grid, Mapping):
        raise TypeError(
            f"grid must be a dict of name → list of values, got a {type(grid).__name__}"
        )
    if not grid:
        raise ValueError("grid is empty; give at least one name, e.g. {'d': [100, 1000]}")
    return {_checked_name(name): _checked_values(name, values) for name, values in grid.items()}


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise TypeError(f"grid names are keywords of the measure, got {name!r}")
    if name in _RESERVED:
        raise ValueError(f"grid may not use the name {name!r}; taken are {', '.join(_RESERVED)}")
    return name


def _checked_values(name: str, values: Sequence[Value]) -> list[Value]:
    if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)):
        raise TypeError(f"grid[{name!r}] must be a list of values, got {values!r}")
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not plain:
        raise ValueError(f"grid[{name!r}] has no values, so the sweep has no cells")
    for value in plain:
        if not isinstance(value, (bool, int, float, str)):
            raise TypeError(
                f"grid[{name!r}] must hold numbers or strings, got {value!r} (a "
                f"{type(value).__name__}); give it a name, and let the measure look it up"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"grid[{name!r}] must hold finite numbers, got {value}")
    if len({isinstance(value, str) for value in plain}) > 1:
        raise TypeError(f"grid[{name!r}] mixes numbers and strings: {plain}")
    if len(set(plain)) < len(plain):
        raise ValueError(f"grid[{name!r}] repeats a value: {plain}")
    return plain


def _check_measure(measure: Measure, axes: dict[str, list[Value]]) -> None:
    if not isinstance(measure, FunctionType):
        raise TypeError(
            f"measure must be a function, got {measure!r}; fixed settings belong into the grid as "
            "lists of one value, or into a def around the call"
        )
    try:
        inspect.signature(measure).bind(size=1, rng=None, **dict.fromkeys(axes))
    except TypeError as error:
        raise TypeError(
            f"measure is called as {measure.__name__}(size=…, rng=…, "
            f"{', '.join(f'{name}=…' for name in axes)}), but it has the signature "
            f"{inspect.signature(measure)}: {error}"
        ) from None


def _checked_outputs(outputs: object, size: int, names: tuple[str, ...]) -> Outputs:
    if not isinstance(outputs, Mapping) or not outputs:
        raise TypeError(f"measure must return a dict of name → array, got {outputs!r}")
    return {name: _checked_output(name, value, size, names) for name, value in outputs.items()}


def _checked_output(name: object, value: object, size: int, names: tuple[str, ...]) -> Output:
    if not isinstance(name, str) or name in (*_RESERVED, *names):
        raise ValueError(f"an output of measure may not be called {name!r}: choose another string")
    extra, array = value if isinstance(value, tuple) and len(value) == 2 else ((), value)
    array = np.asarray(array)
    extra = (extra,) if isinstance(extra, str) else tuple(extra)
    taken = {*extra} & {*_RESERVED, *names}
    if taken or len(set(extra)) < len(extra) or not all(isinstance(axis, str) for axis in extra):
        raise ValueError(
            f"output {name!r} of measure names its further axes {extra}; names must be strings, "
            f"each once, and not of the grid"
        )
    if array.dtype.kind not in "biufU":
        raise TypeError(
            f"output {name!r} of measure must hold numbers, truth values or strings, got dtype "
            f"{array.dtype}"
        )
    if array.ndim != 1 + len(extra) or array.shape[0] != size:
        raise ValueError(
            f"output {name!r} of measure must have one entry a trial, shape ({size}, …) with "
            f"{len(extra)} further axes, got {array.shape}; name further axes by returning the "
            f"pair (names, array)"
        )
    return extra, array


def _check_agreement(blocks: list[_Block], results: dict[int, Outputs]) -> None:
    """Every cell must have given the same outputs with the same further axes."""

    def form(outputs: Outputs) -> dict[str, dict[str, int]]:
        return {
            name: dict(zip(extra, values.shape[1:], strict=True))
            for name, (extra, values) in outputs.items()
        }

    first = form(results[0])
    for i, block in enumerate(blocks):
        if form(results[i]) != first:
            raise ValueError(
                "measure must return the same outputs and further axes in every cell (pad with "
                f"NaN if need be): {first} in the cell {_label(blocks[0].cell)}, but "
                f"{form(results[i])} in the cell {_label(block.cell)}"
            )
