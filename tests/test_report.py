"""The report on one's own data: right numbers from every source, and messages that help."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from ibrelu.datasets import face_patches, mnist_digits
from ibrelu.descent import gradient_descent
from ibrelu.features import effective_dimensions, gaussian_features, power_spectrum
from ibrelu.min_norm import min_norm
from ibrelu.problem import Problem, all_active
from ibrelu.report import main, report
from ibrelu.theory import conditions, gap, gap_bounds

LABELS = np.array([1.0, -1.5, 2.0, -1.0])


def features(d=50):
    return gaussian_features(4, d, rng=0)


def written(folder, text):
    path = folder / "data.csv"
    path.write_text(text)
    return path


# The numbers


@pytest.mark.parametrize("signs", [(1,), (1, -1)])
def test_the_report_says_what_the_package_computes(signs):
    X = features(d=100_000)
    found = report(X, LABELS, signs=signs, c=0.3, scale=1e-2)
    problem = Problem.from_features(X, LABELS, signs)
    start, step = all_active(problem, 1e-2), problem.step(0.3)
    run = gradient_descent(problem, start, step)
    np.testing.assert_allclose(found.run.alpha, run.alpha, rtol=1e-9)
    np.testing.assert_allclose(found.gap, gap(problem, run, min_norm(problem)), rtol=1e-9)
    np.testing.assert_allclose(
        found.conditions.margins, conditions(problem, start, step).margins, rtol=1e-9
    )
    np.testing.assert_allclose(found.bounds, gap_bounds(problem, start, step), rtol=1e-9)
    assert found.bounds.lower < found.gap < found.bounds.upper
    assert found.from_prediction < 1e-12
    assert found.gap == pytest.approx(found.predicted_gap, rel=0.05)
    assert found.relative_gap == pytest.approx(found.predicted_relative_gap, rel=0.05)


def test_the_predicted_gap_of_one_neuron_counts_the_negative_examples():
    labels = np.array([2.0, -1.0, -1.0, -1.0])
    found = report(features(d=10**5), labels, signs=(1,))
    assert found.predicted_gap == pytest.approx(0.5 * np.sqrt(3 / 1e5), rel=0.02)
    assert found.gap == pytest.approx(found.predicted_gap, rel=0.05)


def test_an_array_a_file_and_a_frame_give_the_same_report(tmp_path):
    X = features()
    names = [f"x{j}" for j in range(50)]
    frame = pd.DataFrame(X, columns=names).assign(target=LABELS)
    np.save(tmp_path / "data.npy", X)
    frame.to_csv(tmp_path / "data.csv", index=False)
    pd.DataFrame(X).to_csv(tmp_path / "bare.csv", index=False, header=False)
    frame.to_csv(tmp_path / "semicolon.csv", index=False, sep=";")
    expected = report(X, LABELS)
    for source, labels in [
        (X.tolist(), LABELS.tolist()),
        (X.astype(object), LABELS.astype(str)),
        (tmp_path / "data.npy", LABELS),
        (str(tmp_path / "data.csv"), "target"),
        (tmp_path / "semicolon.csv", "target"),
        (tmp_path / "bare.csv", LABELS),
        (frame, "target"),
        (frame.convert_dtypes(), "target"),
        (frame[names], frame["target"]),
    ]:
        found = report(source, labels)
        np.testing.assert_allclose(found.problem.gram, expected.problem.gram, rtol=1e-12)
        np.testing.assert_array_equal(found.problem.labels, LABELS)
        assert found.gap == pytest.approx(expected.gap, rel=1e-9)


def test_blocks_of_columns_change_nothing(monkeypatch):
    X = features()
    X[:, [3, 40]] = 2.0
    whole = report(X, LABELS)
    monkeypatch.setattr("ibrelu.report._NUMBERS", 4 * 7)
    parts = report(X, LABELS)
    np.testing.assert_allclose(parts.problem.gram, whole.problem.gram, rtol=1e-12)
    assert parts.notes[0][:60] == whole.notes[0][:60]


def test_effective_dimensions_are_estimated_from_the_gram_matrix():
    spectrum = power_spectrum(4000, 0.5)
    truth = effective_dimensions(spectrum)
    X = gaussian_features(100, 4000, spectrum=spectrum, rng=0)
    found = report(X, np.resize(LABELS, 100), signs=(1,))
    assert found.d2 == pytest.approx(truth.d2, rel=0.1)
    assert 1 < found.d_inf < truth.d_inf


def test_effective_dimensions_of_orthogonal_examples_are_unbounded():
    found = report(np.eye(4), LABELS)
    assert found.d2 == found.d_inf == np.inf
    assert "∞" in str(found)


@pytest.mark.parametrize("images", [mnist_digits, face_patches])
def test_real_images_get_a_report(images):
    X, y = images(n=10, rng=0)
    found = report(X, y, c=0.05)
    assert found.run.status == "certified"
    assert not found.conditions.hold
    assert found.coherence.near_orthogonality < 0.2
    assert "Nothing was promised in advance" in found.verdict


# The process's own peak: ru_maxrss would start at the peak of the process that started it.
FILE = """
import sys
import numpy as np
from ibrelu.report import main, report
found = report(sys.argv[1], np.where(np.arange(200) % 2, 1.0, -1.5))
assert found.run.status == "certified"
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
@pytest.mark.parametrize("order", ["rows", "columns"])
def test_a_file_of_a_million_columns_needs_less_than_half_a_gigabyte(tmp_path, order):
    path = tmp_path / "data.npy"
    rng = np.random.default_rng(0)
    by_column = order == "columns"
    with open(path, "wb") as file:
        head = {"descr": "<f4", "fortran_order": by_column, "shape": (200, 10**6)}
        np.lib.format.write_array_header_1_0(file, head)
        for _ in range(200):
            rng.standard_normal(10**6, dtype=np.float32).tofile(file)
    done = subprocess.run([sys.executable, "-c", FILE, str(path)], capture_output=True, check=True)
    path.unlink()
    assert int(done.stdout) * 1024 < 5e8


# The verdict


def test_where_the_conditions_hold_the_verdict_promises_the_bounds():
    found = report(features(d=10**5), LABELS)
    assert found.verdict.startswith("The conditions hold")
    assert "guaranteed between" in str(found)


def test_where_they_fail_the_run_speaks_for_itself():
    found = report(features(d=200), LABELS)
    assert not found.conditions.hold
    assert found.decoupled
    assert found.bounds is None
    assert "the predicted one" in found.verdict
    assert "guaranteed" not in str(found)


def test_a_run_that_diverges_is_told_the_safe_step():
    X = features(d=10) + 5.0
    found = report(X, LABELS, c=3.0)
    assert found.run.status == "diverged"
    assert f"c below {found.largest_safe_c:.4g}" in found.verdict
    assert np.isnan([found.gap, found.relative_gap, found.from_prediction]).all()
    assert report(X, LABELS, c=0.99 * found.largest_safe_c).run.status == "certified"


def test_a_run_that_is_cut_short_is_told_to_go_on():
    found = report(features(d=10), LABELS, c=0.05, max_steps=3)
    assert "larger max_steps" in found.verdict


def test_a_dead_example_is_reported_as_a_worse_stationary_point():
    found = report(features(d=5), LABELS, signs=(1,))
    assert not found.run.global_minimum
    assert "not a global minimum" in found.verdict


# How it looks


def test_the_text_has_four_digits_and_fits_a_terminal():
    found = report(features(), LABELS)
    text = str(found)
    assert f"{found.gap:.4g}" in text
    assert f"{found.coherence.kappa:.4g}" in text
    assert max(map(len, text.splitlines())) <= 100


def test_what_is_rounding_only_has_no_digits():
    text = str(report(features(d=1_000), LABELS))
    for what in ("loss", "off the prediction", "KKT residual"):
        assert f"{what:20}< 1e-9" in text


def test_the_table_is_well_formed_and_has_headers_for_screen_readers(tmp_path):
    frame = pd.DataFrame(features(), index=["<b>", "b&c", "c", "d"]).assign(**{"<i>": 1.0})
    markup = report(frame, LABELS)._repr_html_()
    root = ElementTree.fromstring(f"<div>{markup}</div>")
    table = root.find("table")
    assert table.find("caption").text == "The theory on your data"
    for row in table.iter("tr"):
        assert row.find("th").get("scope") in ("col", "row", "rowgroup")
    assert not list(root.iter("b"))
    assert "'<i>'" in "".join(root.itertext())


def test_text_and_table_say_the_same():
    found = report(features(), LABELS)
    told = "".join(ElementTree.fromstring(f"<div>{found._repr_html_()}</div>").itertext())
    for _, rows in found.sections():
        for what, value, _ in rows:
            assert what in told
            assert what in str(found)
            assert value in told


# Notes: allowed, but worth knowing


def test_a_constant_column_is_allowed_and_named(tmp_path):
    frame = pd.DataFrame(features()).assign(bias=1.0)
    found = report(frame, LABELS)
    assert found.run.status == "certified"
    assert "1 column(s) are constant (column 'bias')" in found.notes[0]
    assert "column(s) hold only zeros" in report(frame.assign(bias=0.0), LABELS).notes[0]


def test_labels_of_one_sign_are_allowed_and_said():
    found = report(features(), np.abs(LABELS), signs=(1,))
    assert "all labels are positive" in found.notes[0]
    assert found.predicted_gap == 0
    assert found.run.global_minimum


def test_a_short_row_is_allowed_and_named():
    X = features()
    X[2] *= 0.05
    assert "row 2 is short" in report(X, LABELS).notes[0]


def test_ordinary_data_have_no_notes():
    assert report(features(), LABELS).notes == ()


# Messages


def spoiled(place, value):
    X = features()
    X[place] = value
    return X


@pytest.mark.parametrize(
    ("X", "y", "error", "message"),
    [
        (spoiled((2, 7), np.nan), LABELS, ValueError, r"missing value in row 2, column 7 \(1 of 4"),
        (spoiled((2, 7), np.inf), LABELS, ValueError, "infinite value in row 2, column 7"),
        (spoiled((2,), 0.0), LABELS, ValueError, "row 2 holds only zeros.*drop it"),
        (features()[[0, 1, 2, 1]], LABELS[[0, 1, 2, 1]], ValueError, "row 1 and row 3 are dupl"),
        (features()[[0, 1, 2, 1]], LABELS, ValueError, "labels differ.*find out which is right"),
        (spoiled((3,), -2 * features()[0]), LABELS, ValueError, "row 3 is -2 times row 0"),
        (features() - features().mean(axis=0), LABELS, ValueError, "add up to zero.*own mean"),
        (spoiled((3,), [1, 2, -1] @ features()[:3]), LABELS, ValueError, "is to rounding a comb"),
        (features(d=3), LABELS, ValueError, "n = 4 examples > d = 3 features.*at most 3 rows"),
        (features()[0], LABELS, ValueError, r"shape \(n, d\).*got shape \(50,\)"),
        (features() * 1j, LABELS, TypeError, "real numbers, got dtype complex128"),
        ([["a", 1.0]], [1.0], TypeError, "column 0 holds text .*'a'.*drop the column"),
        ([[1.0, None]], [1.0], ValueError, "missing value in row 0, column 1"),
        (features(), LABELS[:3], ValueError, r"labels must have shape \(4,\).*got \(3,\)"),
        (features(), [1, 0, 1, 0], ValueError, r"row 1 is 0 \(2 in all\).*2 \* y - 1"),
        (features(), [True, False, True, True], ValueError, r"2 \* y - 1"),
        (features(), [1, 0, -1, 2], ValueError, "row 1 is 0.*drop these rows, or shift"),
        (features(), [1, np.nan, -1, 2], ValueError, "label of row 1 is missing"),
        (features(), ["cat", "dog"] * 2, TypeError, r"numpy.where\(labels == 'cat', 1, -1\)"),
        (features(), ["a", "b", "c", "a"], TypeError, "row 0 is the text 'a'.*3 different"),
        (features(), -np.abs(LABELS), ValueError, r"all labels are negative.*signs=\(-1,\)"),
        (features(), "target", TypeError, "only for a .csv file or a pandas frame"),
        ("data.txt", LABELS, ValueError, "in a .npy or .csv file, got 'data.txt'"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place_and_a_cure(X, y, error, message):
    with pytest.raises(error, match=message):
        report(X, y, signs=(1,))


HEADER = "age,city,height,weight,label\n"
GOOD = "1,2,3.5,1,1\n4,1,0.5,7,-1\n"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (HEADER + "1,2,,1,1\n" + GOOD, ValueError, "missing value in line 2, column 'height'"),
        (HEADER + GOOD + "\n1,2,NA,3,1\n", ValueError, "missing value in line 5, column 'height'"),
        (
            HEADER + "1,Oslo,2,1,1\n2,Bonn,2,3,-1\n",
            TypeError,
            "column 'city' holds text .*'Oslo'.*get_dummies",
        ),
        (
            HEADER + GOOD + "1,2,tall,3,1\n",
            TypeError,
            r"line 4, column 'height' holds the text 'tall'.*\(1 such",
        ),
        (HEADER + GOOD + GOOD, ValueError, r"line 2 and line 4 are duplicates \(2 such pairs\)"),
        (HEADER + GOOD + "1,2,3\n", ValueError, "line 4 has 3 fields, but the first line has 5"),
        (HEADER + GOOD + "3,1,4,1,0\n", ValueError, "the label of line 4 is 0"),
        (HEADER + GOOD + "3,1,4,1,\n", ValueError, "the label of line 4 is missing"),
        (HEADER + "1,2,3,4,yes\n2,2,3,5,no\n", TypeError, "classes 'no' and 'yes'"),
        (HEADER.replace("label", "y") + GOOD, ValueError, "no column is called 'label'.*'age'"),
        (HEADER.replace("age", "label") + GOOD, ValueError, "more than one column is called"),
        (HEADER, ValueError, "data.csv holds a header and no example"),
        (HEADER + "1,2,3,1e-60,1\n2,2,3,5,1e80\n", ValueError, "label of line 3 is 1e.80, and"),
        ("", ValueError, "data.csv is empty"),
        (HEADER + GOOD + "3,1,4,1,1\n2,7,1,8,-1\n2,8,1,8,1\n", ValueError, "n = 5 .* d = 4"),
    ],
)
def test_a_csv_file_that_cannot_be_used_is_refused_by_line_and_column(
    tmp_path, text, error, message
):
    with pytest.raises(error, match=message):
        report(written(tmp_path, text), "label")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x3": [1.0, None, 2.0, 3.0]}, ValueError, "missing value in row 'b', column 'x3'"),
        ({"x3": list("pqrs")}, TypeError, "column 'x3' holds text .*'p'"),
        ({"x3": [1, "q", 2, 3]}, TypeError, "row 'b', column 'x3' holds the text 'q'"),
        ({"x3": pd.Categorical(list("pqpq"))}, TypeError, "column 'x3' holds text"),
        ({"y": ["up", "down", "up", "down"]}, TypeError, "classes 'down' and 'up'"),
        ({"y": pd.array([1, None, 2, -3], dtype="Int64")}, ValueError, "row 'b' is missing"),
    ],
)
def test_a_frame_that_cannot_be_used_is_refused_by_row_and_column(change, error, message):
    names = [f"x{j}" for j in range(50)]
    frame = pd.DataFrame(features(), columns=names, index=list("abcd")).assign(y=LABELS)
    frame = frame.assign(**{k: pd.Series(v, index=frame.index) for k, v in change.items()})
    with pytest.raises(error, match=message):
        report(frame, "y")


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"signs": (1, 1)}, ValueError, "signs must be"),
        ({"c": 0}, ValueError, "c must be a positive finite number"),
        ({"scale": -1}, ValueError, "scale must be a positive finite number"),
        ({"max_steps": 0}, ValueError, "max_steps must be at least 1"),
    ],
)
def test_settings_are_checked(keywords, error, message):
    with pytest.raises(error, match=message):
        report(features(), LABELS, **keywords)


# Odd arrays, sizes and units


@pytest.mark.parametrize(
    ("X", "y", "error", "message"),
    [
        ([[1.0, 2.0], [3.0]], [1, -1], ValueError, "features must be an array, got rows of sev"),
        (np.eye(2), [[1], [1, 2]], ValueError, "labels must be an array, got rows of several"),
        (np.ma.masked_equal(np.eye(2), 1), [1, -1], ValueError, "features has masked entries"),
        (np.eye(2), np.ma.masked_equal([1, -1], 1), ValueError, "labels has masked entries"),
        (1e-200 * np.eye(2), [1, -1], ValueError, "row 0 has entries up to 1e-200.*unit of the"),
        (1e200 * np.eye(2), [1, -1], ValueError, r"row 0 has entries up to 1e\+200"),
        (np.diag([1.0, 1e-9]), [1, -1], ValueError, r"row 1 is 1e\+09 times shorter than row 0"),
        (np.eye(2), [1e80, -1], ValueError, r"the label of row 0 is 1e\+80.*change their unit"),
        (np.eye(2), [1e-80, -1], ValueError, r"the label of row 0 is 1e-80"),
    ],
)
def test_odd_arrays_are_refused_with_the_cure(X, y, error, message):
    with pytest.raises(error, match=message):
        report(X, y)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"signs": None}, ValueError, r"signs must be \(1,\), \(-1,\) or \(1, -1\), got None"),
        ({"signs": 1}, ValueError, "signs must be"),
        ({"signs": (True,)}, ValueError, "signs must be"),
        ({"c": 1e308}, ValueError, r"c must lie between 1e-50 and 1e\+50"),
        ({"c": 10**400}, ValueError, "c must be a positive finite number"),
        ({"scale": 1e-320}, ValueError, "scale must lie between"),
        ({"max_steps": 2**63}, ValueError, "max_steps must be at most"),
        ({"max_steps": True}, TypeError, "max_steps must be a whole number"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_computed(change, error, message):
    with pytest.raises(error, match=message):
        report(np.eye(2), [1, -1], **change)


@pytest.mark.parametrize("unit", [1e-45, 1e45])
def test_the_relative_gap_does_not_depend_on_units(unit):
    before = report(features(), LABELS)
    assert report(unit * features(), LABELS).relative_gap == pytest.approx(before.relative_gap)
    assert report(features(), unit * LABELS).relative_gap == pytest.approx(before.relative_gap)


# The command line


@pytest.fixture
def files(tmp_path):
    np.savetxt(tmp_path / "X.csv", features(), delimiter=",")
    np.savetxt(tmp_path / "y.csv", LABELS, header="label", comments="")
    np.save(tmp_path / "y.npy", LABELS)
    return tmp_path


@pytest.mark.parametrize("name", ["y.csv", "y.npy"])
def test_the_command_prints_the_report_on_two_files(files, capsys, name):
    assert main([str(files / "X.csv"), str(files / name), "--c", "0.2"]) == 0
    shown = capsys.readouterr().out
    assert shown == f"{report(files / 'X.csv', LABELS, c=0.2)}\n"


def test_the_command_takes_the_name_of_a_column(tmp_path, capsys):
    path = written(tmp_path, "a,b,label\n1,0.1,1\n0,1,-2\n")
    assert main([str(path), "label", "--signs=+"]) == 0
    assert "signs +1\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv", "y.csv"], "there is no file .*none.csv' to read features from"),
        (["X.csv", "none.csv"], "there is no file .*none.csv' to read labels from"),
        (["X.csv", "X.csv"], "X.csv must hold the labels in one column, got a line of 50"),
        (["X.csv", "label"], "no column is called 'label'"),
        (["bad.npy", "y.npy"], "bad.npy is no .npy file of numbers"),
        (["bytes.csv", "y.npy"], "bytes.csv is no text file of numbers in UTF-8"),
        (["X.csv", "y.csv", "--c=-1"], "c must be a positive finite number, got -1"),
        (["X.txt", "y.csv"], "features must be in a .npy or .csv file, got 'X.txt'"),
    ],
)
def test_the_command_says_in_one_line_why_not(files, monkeypatch, capsys, arguments, message):
    (files / "bad.npy").write_bytes(b"not numpy")
    (files / "bytes.csv").write_bytes(b"\xff\xfe1,2\n")
    monkeypatch.chdir(files)
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert re.search(message, shown.err)
    assert shown.err.count("\n") == 1


def test_the_module_is_a_command():
    found = subprocess.run(
        [sys.executable, "-m", "ibrelu.report"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert "usage: python -m ibrelu.report" in found.stderr
