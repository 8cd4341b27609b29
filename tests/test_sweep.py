"""Sweeps: the same bits everywhere, nothing run twice, nothing torn read."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
import pytest
from distributed import Client, LocalCluster

from ibrelu.descent import gradient_descent
from ibrelu.features import gaussian_gram, signed_labels
from ibrelu.min_norm import min_norm
from ibrelu.problem import Problem, all_active
from ibrelu.sweep import sweep
from ibrelu.theory import gap

GRID = {"n": [5, 8], "kind": ["tall", "wide"]}
FACTOR = 1.0

SCRIPT = """
import sys, time
import joblib, numpy as np
from ibrelu.sweep import sweep

calls, store, result = sys.argv[1:]
PAUSE = 0.05

def measure(size, rng, d):
    with open(calls, "a") as log:
        log.write("called\\n")
    if d not in {10, 20, 30, "never"}:
        raise AssertionError
    time.sleep(PAUSE)
    return {"length": rng.chisquare(d, size), "entries": (("axis",), rng.normal(size=(size, 2)))}

def run(store):
    return sweep(measure, {"d": [10, 20, 30]}, 80, 0, block=8, store=store, progress=False)

if __name__ == "__main__":
    with joblib.parallel_config(n_jobs=2):
        data = run(store)
        called = len(open(calls).readlines())
        np.savez(result, called=called, identical=data.identical(run(None)))
"""


def matrices(size, rng, n, kind):
    features = rng.normal(size=(size, n, 30 if kind == "wide" else 10))
    values = np.linalg.eigvalsh(features @ features.swapaxes(-1, -2))
    return {
        "largest": values[:, -1],
        "spectrum": (("rank",), values[:, -3:]),
        "kind_of": kind_of(values),
    }


def kind_of(values):
    return np.where(values[:, 0] > 1, "large", "small")


def two_neurons(size, rng, n, d):
    """The gap of Theorem 4; NaN where the run has no proven limit within 2,000 steps."""
    labels = signed_labels(n, size=size, rng=rng)
    problem = Problem(gaussian_gram(n, d, size=size, rng=rng), labels, signs=(1, -1))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*without a certificate", UserWarning)
        run = gradient_descent(
            problem, all_active(problem, 1e-3), problem.step(0.5), max_steps=2_000
        )
    distance = gap(problem, run, min_norm(problem))
    return {"gap": np.where(run.status == "certified", distance, np.nan), "settled": run.settled}


def scaled(size, rng, d):
    return {"value": FACTOR * rng.normal(size=size)}


def counted(folder, factor=1.0):
    """A measure that leaves one line a call in folder/calls."""
    log = str(Path(folder) / "calls")

    def measure(size, rng, d):
        with open(log, "a") as file:
            file.write("called\n")
        return {"value": factor * d * rng.normal(size=size)}

    return measure


def calls(folder):
    log = Path(folder) / "calls"
    return len(log.read_text().splitlines()) if log.exists() else 0


def deadly(flag):
    """A measure whose first call kills the process that runs it."""
    flag = str(flag)

    def measure(size, rng, d):
        import os
        import signal

        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return {"value": d * rng.normal(size=size)}
        os.kill(os.getpid(), signal.SIGKILL)

    return measure


def run(measure, grid, trials=40, seed=0, **keywords):
    """A sweep in this process."""
    with joblib.parallel_config(n_jobs=1):
        return sweep(measure, grid, trials, seed, progress=False, **keywords)


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


# The dataset


def test_the_grid_and_the_outputs_become_named_dimensions():
    data = run(matrices, GRID)
    assert dict(data.sizes) == {"n": 2, "kind": 2, "trial": 40, "rank": 3}
    assert data.largest.dims == ("n", "kind", "trial")
    assert data.spectrum.dims == ("n", "kind", "trial", "rank")
    assert data.kind.values.tolist() == ["tall", "wide"]
    assert data.kind_of.dtype.kind == "U"


def test_every_cell_holds_its_own_measurement():
    data = run(
        lambda size, rng, a, b: {"product": np.full(size, a * b)}, {"a": [2, 3], "b": [5, 7]}
    )
    assert (data.product == data.a * data.b).all()


def test_the_dataset_says_how_it_was_made():
    data = run(matrices, GRID, trials=7, seed=11)
    assert (data.attrs["seed"], data.attrs["trials"], data.attrs["block"]) == (11, 7, 500)
    assert data.attrs["command"] == f"sweep(matrices, {GRID!r}, 7, 11, block=500)"
    assert "numpy " + np.__version__ in data.attrs["versions"]


def test_nan_is_a_result():
    data = run(lambda size, rng, d: {"value": np.full(size, np.nan)}, {"d": [1]})
    assert data.value.isnull().all()


# The numbers


def test_cells_and_blocks_draw_different_numbers():
    values = run(scaled, {"d": [1, 2]}, trials=20, block=10).value.values
    assert len(np.unique(values)) == 40


def test_another_seed_draws_other_numbers():
    first, second = run(scaled, {"d": [1]}, seed=0), run(scaled, {"d": [1]}, seed=1)
    assert not (first.value == second.value).any()


def test_numbers_do_not_change_when_the_grid_grows_or_is_reordered():
    small = run(matrices, GRID, trials=20, block=10)
    large = run(matrices, {"kind": ["wide", "tall"], "n": [8, 6, 5]}, trials=50, block=10)
    part = large.sel(n=[5, 8], kind=["tall", "wide"]).isel(trial=slice(20)).transpose(*small.dims)
    assert part.drop_attrs().identical(small.drop_attrs())


def test_one_and_two_processes_and_a_dask_cluster_give_the_same_bits(client):
    def with_workers(**config):
        with joblib.parallel_config(**config):
            return sweep(matrices, GRID, 60, 3, block=10, progress=False)

    one, two, cluster = (
        with_workers(n_jobs=1),
        with_workers(n_jobs=2),
        with_workers(backend="dask"),
    )
    assert one.identical(two)
    assert one.identical(cluster)


def test_the_number_of_blas_threads_does_not_change_a_bit():
    script = (
        "import hashlib, joblib, numpy as np\n"
        "from ibrelu.sweep import sweep\n"
        "def measure(size, rng, n):\n"
        "    import scipy.linalg\n"
        "    x = rng.normal(size=(size, n, 1000))\n"
        "    gram = x @ x.swapaxes(-1, -2)\n"
        "    top = scipy.linalg.eigh(gram[0])[0][:size]\n"
        "    return {'top': top, 'entry': np.linalg.inv(gram)[:, 0, 1]}\n"
        "with joblib.parallel_config(n_jobs=1):\n"
        "    data = sweep(measure, {'n': [150]}, 3, 0, progress=False)\n"
        "print(hashlib.md5(data.top.values.tobytes() + data.entry.values.tobytes()).hexdigest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(digests) == 1


# The real thing


@pytest.mark.slow
def test_ten_thousand_problems_a_dimension_give_the_gap_its_slope():
    dimensions = [10**k for k in range(2, 9)]
    grid = {"n": [20], "d": dimensions}
    with joblib.parallel_config(n_jobs=2):
        data = sweep(two_neurons, grid, 10_000, 0, block=250, progress=False)
    decades = np.arange(2, 9)
    assert (data.gap.isnull().mean("trial") < 0.01).all()
    gaps = np.log10(data.gap.mean("trial").squeeze().values)
    assert np.polyfit(decades[1:], gaps[1:], 1)[0] == pytest.approx(-0.5, abs=0.01)
    assert np.polyfit(decades[4:], gaps[4:], 1)[0] == pytest.approx(-0.5, abs=0.001)
    # d = 100 is only five times n: there the gap is not yet on the line.
    assert gaps[1] - gaps[0] == pytest.approx(-0.463, abs=0.005)
    assert 10 ** gaps[-1] == pytest.approx(0.5 * np.sqrt(7 / 3) * np.sqrt(20 / 1e8), rel=0.005)


# The store


def test_a_finished_sweep_is_not_run_again(tmp_path):
    measure = counted(tmp_path)
    first = run(measure, {"d": [1, 2]}, block=10, store=tmp_path / "store")
    again = run(measure, {"d": [1, 2]}, block=10, store=tmp_path / "store")
    assert calls(tmp_path) == 8
    assert first.identical(again)
    assert first.identical(run(measure, {"d": [1, 2]}, block=10))


def test_a_larger_grid_and_more_trials_run_only_what_is_missing(tmp_path):
    measure = counted(tmp_path)
    run(measure, {"d": [1, 2]}, trials=20, block=10, store=tmp_path / "store")
    larger = run(measure, {"d": [2, 3, 1]}, trials=30, block=10, store=tmp_path / "store")
    assert calls(tmp_path) == 9
    assert larger.identical(run(measure, {"d": [2, 3, 1]}, trials=30, block=10))


@pytest.mark.parametrize("change", [{"seed": 1}, {"block": 20}])
def test_another_seed_or_block_size_shares_nothing_in_the_store(tmp_path, change):
    measure = counted(tmp_path)
    run(measure, {"d": [1]}, block=10, store=tmp_path / "store")
    before = calls(tmp_path)
    other = run(measure, {"d": [1]}, store=tmp_path / "store", **{"block": 10, **change})
    assert calls(tmp_path) - before == 40 // change.get("block", 10)
    assert other.identical(run(measure, {"d": [1]}, **{"block": 10, **change}))


def test_a_measure_with_another_closure_shares_nothing_in_the_store(tmp_path):
    run(counted(tmp_path, factor=1.0), {"d": [1]}, store=tmp_path / "store")
    doubled = run(counted(tmp_path, factor=2.0), {"d": [1]}, store=tmp_path / "store")
    assert calls(tmp_path) == 2
    assert doubled.identical(run(counted(tmp_path, factor=2.0), {"d": [1]}))


def test_a_measure_with_another_global_or_helper_shares_nothing_in_the_store(tmp_path, monkeypatch):
    module, store = sys.modules[__name__], tmp_path / "store"
    first = run(scaled, {"d": [1]}, store=store)
    monkeypatch.setattr(module, "FACTOR", 3.0)
    assert (run(scaled, {"d": [1]}, store=store).value == 3 * first.value).all()
    run(matrices, GRID, store=store)

    def kind_of(values):
        return np.full(len(values), "changed")

    kind_of.__module__ = __name__
    monkeypatch.setattr(module, "kind_of", kind_of)
    assert (run(matrices, GRID, store=store).kind_of == "changed").all()


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "another's"])
def test_a_damaged_file_is_never_read_as_a_result(tmp_path, damage):
    measure, store = counted(tmp_path), tmp_path / "store"
    first = run(measure, {"d": [1]}, block=10, store=store)
    file, other = sorted(store.glob("*.block"))[:2]
    data = file.read_bytes()
    middle = len(data) // 2
    file.write_bytes(
        {
            "cut": data[:middle],
            "empty": b"",
            "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
            "another's": other.read_bytes(),
        }[damage]
    )
    with pytest.warns(RuntimeWarning, match="1 damaged file"):
        again = run(measure, {"d": [1]}, block=10, store=store)
    assert calls(tmp_path) == 5
    assert first.identical(again)


def test_a_file_that_was_being_written_when_the_sweep_was_killed_is_ignored(tmp_path):
    measure, store = counted(tmp_path), tmp_path / "store"
    first = run(measure, {"d": [1]}, block=10, store=store)
    file = next(store.glob("*.block"))
    file.rename(file.with_suffix(".part"))
    assert first.identical(run(measure, {"d": [1]}, block=10, store=store))
    assert calls(tmp_path) == 5


def test_killed_half_way_and_started_again_runs_only_what_is_missing(tmp_path):
    script, store, log = tmp_path / "script.py", tmp_path / "store", tmp_path / "calls"
    script.write_text(SCRIPT)

    def start(result, hash_seed):
        return subprocess.Popen(
            [sys.executable, str(script), str(log), str(store), str(tmp_path / result)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            start_new_session=True,
        )

    killed = start("killed.npz", "1")
    deadline = time.monotonic() + 300
    while len(list(store.glob("*.block"))) < 6 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    finished = len(list(store.glob("*.block")))
    assert 6 <= finished < 30
    assert not (tmp_path / "killed.npz").exists()

    log.unlink()
    assert start("resumed.npz", "2").wait() == 0
    with np.load(tmp_path / "resumed.npz") as resumed:
        assert resumed["called"] == 30 - finished
        assert resumed["identical"]


# Workers that die


def test_a_killed_process_does_not_change_the_numbers(tmp_path):
    with joblib.parallel_config(n_jobs=2), pytest.warns(RuntimeWarning, match="a worker died"):
        data = sweep(deadly(tmp_path / "flag"), {"d": [1, 2]}, 40, 0, block=5, progress=False)
    assert data.identical(run(deadly(tmp_path / "flag"), {"d": [1, 2]}, block=5))


def test_a_killed_dask_worker_does_not_change_the_numbers(tmp_path, client):
    with joblib.parallel_config(backend="dask"):
        data = sweep(deadly(tmp_path / "flag"), {"d": [1, 2]}, 40, 0, block=5, progress=False)
    assert (tmp_path / "flag").exists()
    assert data.identical(run(deadly(tmp_path / "flag"), {"d": [1, 2]}, block=5))


@pytest.mark.filterwarnings("ignore:a worker died")
def test_workers_that_always_die_end_the_sweep_with_a_message():
    def measure(size, rng, d):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    with (
        joblib.parallel_config(n_jobs=2),
        pytest.raises(RuntimeError, match="without finishing a block"),
    ):
        sweep(measure, {"d": [1]}, 10, 0, block=5, progress=False)


# Messages


def test_an_error_in_the_measure_names_the_cell():
    def measure(size, rng, d):
        return {"value": np.linalg.cholesky(np.full((size, 2, 2), -float(d)))[:, 0, 0]}

    with pytest.raises(np.linalg.LinAlgError) as raised:
        run(measure, {"d": [3]})
    assert raised.value.__notes__ == ["in the cell d=3, trials block 0"]


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        ([1, 2], TypeError, "dict of name"),
        ({}, ValueError, "grid is empty"),
        ({"d": []}, ValueError, "no values"),
        ({"d": 3}, TypeError, "list of values"),
        ({"d": "ab"}, TypeError, "list of values"),
        ({"d": [None]}, TypeError, "numbers or strings, got None"),
        ({"d": [np.ones(2)]}, TypeError, "give it a name, and let the measure look it up"),
        ({"d": [1, "a"]}, TypeError, "mixes numbers and strings"),
        ({"d": [1, 2, 1]}, ValueError, "repeats a value"),
        ({"d": [float("nan")]}, ValueError, "finite"),
        ({"rng": [1]}, ValueError, "may not use the name 'rng'"),
        ({1: [1]}, TypeError, "keywords of the measure"),
        ({"d": [1], "n": [2]}, TypeError, "unexpected keyword argument 'n'"),
    ],
)
def test_a_wrong_grid_is_refused(grid, error, message):
    with pytest.raises(error, match=message):
        run(scaled, grid)


@pytest.mark.parametrize(
    ("outputs", "error", "message"),
    [
        (None, TypeError, "return a dict"),
        ({}, TypeError, "return a dict"),
        ({"value": 3.0}, ValueError, r"one entry a trial, shape \(4, …\)"),
        ({"value": np.ones(5)}, ValueError, r"got \(5,\)"),
        ({"value": np.ones((4, 2))}, ValueError, "name further axes by returning the pair"),
        ({"value": (("d",), np.ones((4, 2)))}, ValueError, "not of the grid"),
        ({"d": np.ones(4)}, ValueError, "may not be called 'd'"),
        ({"value": np.full(4, None)}, TypeError, "dtype object"),
    ],
)
def test_a_wrong_output_is_refused(outputs, error, message):
    with pytest.raises(error, match=message):
        run(lambda size, rng, d: outputs, {"d": [1]}, trials=4)


def test_outputs_that_differ_between_cells_are_refused():
    with pytest.raises(ValueError, match=r"the same outputs and further axes.*d=1.*d=2"):
        run(lambda size, rng, d: {"value": (("axis",), np.ones((size, d)))}, {"d": [1, 2]})


def test_a_measure_that_is_no_function_is_refused():
    with pytest.raises(TypeError, match="measure must be a function"):
        run(np.mean.__call__, {"d": [1]})


def test_with_a_store_a_measure_must_be_recognisable(tmp_path):
    handle = open(os.devnull)  # noqa: SIM115
    with handle, pytest.raises(TypeError, match=r"'handle'.*cannot be pickled"):
        run(lambda size, rng, d: {"value": handle}, {"d": [1]}, store=tmp_path)


@pytest.mark.parametrize(("trials", "seed"), [(0, 0), (1, -1)])
def test_trials_and_seed_are_checked(trials, seed):
    with pytest.raises(ValueError, match="must be at least"):
        run(scaled, {"d": [1]}, trials=trials, seed=seed)


@pytest.mark.parametrize("progress", [True, False])
def test_the_progress_bar_shows_only_when_asked_for(capsys, progress):
    with joblib.parallel_config(n_jobs=1):
        sweep(scaled, {"d": [1, 2]}, 10, 0, progress=progress)
    assert ("2/2" in capsys.readouterr().err) == progress


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_store_that_cannot_be_written_is_refused_before_anything_runs(tmp_path, below):
    (tmp_path / "file").write_text("kept")

    def measure(size, rng, d):
        raise AssertionError("must not run")

    with pytest.raises(ValueError, match=r"store must be a folder that can be written, got .*file"):
        sweep(measure, {"d": [1]}, 1, 0, store=tmp_path / "file" / below, progress=False)
    assert (tmp_path / "file").read_text() == "kept"
