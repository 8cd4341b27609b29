"""The stored sweeps are what the committed code makes, and fit what the theorems say."""

import json
import re

import numpy as np
import pytest
from scipy.stats import t as student

from ibrelu import phase
from ibrelu.features import effective_dimensions, gaussian_gram, signed_labels
from ibrelu.phase import FILE, PARTS, recompute, spectrum, stored

SLICES = {
    "pattern": {"n": [5, 20], "ratio": [5.0, 80.0], "c": [0.2], "m": [2]},
    "collapse": {"n": [10], "kind": ["two levels"], "d": [4_000, 16_000]},
    "flow": {"n": [10], "d": [400]},
    "pairs": {"d": [10_000]},
}


@pytest.mark.parametrize("part", PARTS)
def test_a_slice_computed_again_gives_the_stored_numbers(part):
    again, before = recompute(part, **SLICES[part]), stored(part).sel(SLICES[part])
    assert set(again.data_vars) == set(before.data_vars)
    for name in before.data_vars:
        np.testing.assert_allclose(again[name], before[name], rtol=2e-3)


@pytest.mark.parametrize("part", PARTS)
def test_the_stored_sweeps_cover_their_grid_and_say_where_they_come_from(part):
    data, setting = stored(part), PARTS[part]
    for name, values in setting.grid.items():
        assert data[name].values.tolist() == list(values)
    assert all(np.isfinite(values).all() for values in data.data_vars.values())
    assert data.attrs["trials"] == setting.trials
    assert data.attrs["command"] == "python -m ibrelu.phase"
    assert {"seed", "versions", "seconds", "measure"} <= set(data.attrs)


def test_the_stored_file_is_small_text():
    assert FILE.stat().st_size < 100_000
    json.loads(FILE.read_text(encoding="utf-8"))


def test_the_command_writes_what_is_read_back(tmp_path, monkeypatch):
    small = phase.Part(phase.flow, {"n": [6], "d": [40, 80]}, trials=3)
    monkeypatch.setattr(phase, "FILE", tmp_path / "phase.json")
    monkeypatch.setattr(phase, "PARTS", {"flow": small})
    phase.main([])
    again, before = recompute("flow"), stored("flow")
    np.testing.assert_array_equal(again.flow, before.flow)
    assert before.attrs["seed"] == phase.SEED
    assert [path.name for path in tmp_path.iterdir()] == ["phase.json"]


def test_a_command_that_is_stopped_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    file = tmp_path / "phase.json"
    file.write_text("before")

    def stopped(part):
        raise KeyboardInterrupt

    monkeypatch.setattr(phase, "FILE", file)
    monkeypatch.setattr(phase, "recompute", stopped)
    with pytest.raises(KeyboardInterrupt):
        phase.main([])
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [
        ("phase.json", "before")
    ]


def test_a_folder_that_cannot_be_written_is_known_before_the_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(phase, "FILE", tmp_path / "nowhere" / "phase.json")
    monkeypatch.setattr(phase, "recompute", None)
    with pytest.raises(SystemExit):
        phase.main([])
    assert re.search("cannot write to .*nowhere", capsys.readouterr().err)


@pytest.mark.parametrize("arguments", [["--help"], ["--bogus"]])
def test_the_command_computes_nothing_when_asked_for_help_or_misspelt(monkeypatch, arguments):
    monkeypatch.setattr(phase, "recompute", None)
    with pytest.raises(SystemExit):
        phase.main(arguments)


def test_unknown_names_are_refused_with_those_that_exist():
    for call in (stored, recompute):
        with pytest.raises(ValueError, match="no part 'flows'; there are 'pattern', 'collapse'"):
            call("flows")
    with pytest.raises(ValueError, match="no dimension of 'flow' 'c'; there are 'n', 'd'"):
        recompute("flow", c=[0.5])
    with pytest.raises(ValueError, match="no spectrum 'steep'; there are 'flat', 'two levels'"):
        spectrum("steep", 100)
    with pytest.raises(ValueError, match="d must be a multiple of 100, got 150"):
        spectrum("stairs", 150)


@pytest.mark.parametrize("content", [None, "", "{}", '{"flow": 1}', "[]"])
def test_a_damaged_file_is_named_with_the_command_that_makes_it(tmp_path, monkeypatch, content):
    monkeypatch.setattr(phase, "FILE", tmp_path / "phase.json")
    if content is not None:
        phase.FILE.write_text(content)
    with pytest.raises(RuntimeError, match=r"phase.json is missing.*python -m ibrelu\.phase"):
        stored("flow")


def test_stronger_knowledge_is_never_more_frequent_than_weaker():
    data = stored("pattern")
    assert (data.promised <= data.certified).all()
    assert (data.certified <= data.happens).all()
    assert (data.happens <= data.placed).all()


def test_a_promise_asks_for_more_than_what_happens():
    here = {"n": 20, "ratio": 80.0, "c": 0.5, "m": 1}
    found = stored("pattern").sel(here)
    assert found.happens == 1
    assert found.promised == 0


@pytest.mark.parametrize("m", [1, 2])
def test_what_the_certificate_says_in_time_comes_true(m):
    problems = phase.pattern(400, np.random.default_rng(1), 8, 4.0, 0.5, m)
    assert not (problems["certified"] & ~problems["happens"]).any()
    assert problems["certified"].any()
    assert not problems["happens"].all()


@pytest.mark.parametrize("d", [12, 60])
def test_the_first_step_misplaces_an_example_as_often_as_student_says(d):
    labels = signed_labels(10, rng=0)
    ratio = np.abs(labels) / np.sqrt((labels**2).sum() - labels**2)
    exact = student.sf(np.sqrt(d) * ratio, d)
    products = gaussian_gram(10, d, size=20_000, rng=1) @ labels
    assert np.abs(((products * labels) < 0).mean(axis=0) - exact).max() < 0.015


@pytest.mark.parametrize("kind", PARTS["collapse"].grid["kind"])
def test_spectra_have_the_number_of_eigenvalues_asked_for(kind):
    assert sum(count for _, count in spectrum(kind, 4_000)) == 4_000
    assert effective_dimensions(spectrum(kind, 4_000)).d2 <= 4_000
