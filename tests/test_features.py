"""Random data: the Gram sampler is exact in law (claim G2), labels and features are as asked."""

import numpy as np
import pytest
from scipy import stats

from ibrelu.features import (
    effective_dimensions,
    gaussian_features,
    gaussian_gram,
    orthogonal_features,
    power_spectrum,
    signed_labels,
)

TRIALS = 4000
SPECTRA = {
    "flat": (12, None),
    "two_level": (40, [(3.0, 10), (0.5, 30)]),
    "spiked": (31, [(5.0, 1), (1.0, 30)]),
    "power": (12, power_spectrum(12, 0.5)),
    "repeated_values": (24, np.repeat([2.0, 1.0, 2.0], 8)),
}


def statistics(gram):
    """Some entries, the trace and both extreme eigenvalues of each matrix."""
    eigenvalues = np.linalg.eigvalsh(gram)
    return {
        "first diagonal": gram[:, 0, 0],
        "last diagonal": gram[:, -1, -1],
        "first off-diagonal": gram[:, 1, 0],
        "last off-diagonal": gram[:, -1, -2],
        "trace": np.trace(gram, axis1=1, axis2=2),
        "smallest eigenvalue": eigenvalues[:, 0],
        "largest eigenvalue": eigenvalues[:, -1],
    }


def smallest_p_value(a, b):
    ours, reference = statistics(a), statistics(b)
    return min(stats.ks_2samp(ours[name], reference[name]).pvalue for name in ours)


def product_of_features(n, d, spectrum, seed):
    X = gaussian_features(n, d, spectrum=spectrum, size=TRIALS, rng=seed)
    return X @ X.swapaxes(-1, -2)


@pytest.mark.parametrize("name", SPECTRA)
def test_sampled_gram_has_the_law_of_the_product_of_features(name):
    d, spectrum = SPECTRA[name]
    sampled = gaussian_gram(5, d, spectrum=spectrum, size=TRIALS, rng=1)
    assert smallest_p_value(sampled, product_of_features(5, d, spectrum, 2)) > 1e-3


@pytest.mark.parametrize("wrong", [11, 13])
def test_law_of_the_gram_depends_on_the_degrees_of_freedom(wrong):
    sampled = gaussian_gram(5, wrong, size=TRIALS, rng=1)
    assert smallest_p_value(sampled, product_of_features(5, 12, None, 2)) < 1e-6


def test_bartlett_without_the_falling_degrees_of_freedom_is_rejected():
    rng = np.random.default_rng(1)
    factor = np.tril(rng.standard_normal((TRIALS, 5, 5)), -1)
    factor[:, range(5), range(5)] = np.sqrt(rng.chisquare(12, (TRIALS, 5)))
    wrong = factor @ factor.swapaxes(-1, -2)
    assert smallest_p_value(wrong, product_of_features(5, 12, None, 2)) < 1e-6


def test_columns_drawn_in_chunks_keep_the_law(monkeypatch):
    monkeypatch.setattr("ibrelu.features._NUMBERS", 7 * 5 * TRIALS)
    spectrum = power_spectrum(12, 0.5)
    sampled = gaussian_gram(5, 12, spectrum=spectrum, size=TRIALS, rng=3)
    assert smallest_p_value(sampled, product_of_features(5, 12, spectrum, 4)) > 1e-3


def test_gram_of_a_huge_dimension_concentrates_on_the_identity():
    gram = gaussian_gram(20, 10**9, size=10, rng=0)
    assert np.abs(gram / 1e9 - np.eye(20)).max() < 3e-4


def test_features_have_the_spectrum_as_column_variances():
    X = gaussian_features(20_000, 4, spectrum=[(4.0, 1), (1.0, 2), (9.0, 1)], rng=0)
    np.testing.assert_allclose(X.var(axis=0), [4.0, 1.0, 1.0, 9.0], rtol=0.05)


def test_eigenvalue_array_and_pairs_draw_the_same_features():
    pairs = gaussian_features(3, 5, spectrum=[(4.0, 2), (1.0, 3)], rng=0)
    array = gaussian_features(3, 5, spectrum=[4.0, 4.0, 1.0, 1.0, 1.0], rng=0)
    np.testing.assert_array_equal(pairs, array)


def test_size_gives_the_leading_axes():
    assert gaussian_gram(3, 5, size=(2, 4), rng=0).shape == (2, 4, 3, 3)
    assert gaussian_features(3, 5, size=7, rng=0).shape == (7, 3, 5)
    assert signed_labels(3, size=(2, 4), rng=0).shape == (2, 4, 3)


def test_effective_dimensions_of_a_spiked_spectrum():
    spiked = effective_dimensions([(100.0, 1), (1.0, 900)])
    assert spiked.trace == 1000.0
    assert spiked.d2 == pytest.approx(1000.0**2 / (100.0**2 + 900.0))
    assert spiked.d_inf == 10.0


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.3, 3), (0.25, 3), (1.0, 10)])
def test_labels_have_exactly_the_asked_share_of_positives_first(share, count):
    labels = signed_labels(10, positive=share, low=0.5, high=3.0, size=50, rng=0)
    assert (labels[:, :count] > 0).all()
    assert (labels[:, count:] < 0).all()
    assert (np.abs(labels) >= 0.5).all()
    assert (np.abs(labels) <= 3.0).all()


def test_orthogonal_features_are_orthogonal_with_the_asked_squared_length():
    X = orthogonal_features(4, 9, scale=2.5, rng=0)
    np.testing.assert_allclose(X @ X.T, 2.5 * np.eye(4), atol=1e-14)


def test_a_seed_and_its_generator_draw_the_same():
    np.testing.assert_array_equal(
        gaussian_gram(4, 9, rng=5), gaussian_gram(4, 9, rng=np.random.default_rng(5))
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gaussian_gram(5, 4, rng=0), ValueError, r"n = 5 > d = 4"),
        (lambda: gaussian_gram(0, 4, rng=0), ValueError, r"n must be at least 1, got 0"),
        (lambda: gaussian_gram(2.5, 4, rng=0), TypeError, r"n must be a whole number, got 2.5"),
        (
            lambda: gaussian_gram(2, 4, rng="a"),
            TypeError,
            r"rng must be a seed .*, got 'a'; give e\.g\. rng=0",
        ),
        (lambda: gaussian_gram(2, 4, size=-1, rng=0), ValueError, r"size must be at least 1"),
        (
            lambda: gaussian_gram(2, 4, spectrum=[1.0] * 5, rng=0),
            ValueError,
            r"d = 4 eigenvalues counted with multiplicity, got 5",
        ),
        (
            lambda: gaussian_gram(2, 4, spectrum=[(1.0, 3.5)], rng=0),
            ValueError,
            r"multiplicities in spectrum must be whole numbers",
        ),
        (
            lambda: gaussian_gram(2, 4, spectrum=[1.0, 1.0, 1.0, 0.0], rng=0),
            ValueError,
            r"eigenvalues in spectrum must be positive, got 0",
        ),
        (
            lambda: gaussian_gram(2, 4, spectrum=[1.0, 1.0, 1.0, np.nan], rng=0),
            ValueError,
            r"spectrum must be finite, got nan at index \(3,\)",
        ),
        (
            lambda: effective_dimensions(np.ones((2, 2, 2))),
            ValueError,
            r"spectrum must be pairs .* got shape \(2, 2, 2\)",
        ),
        (lambda: power_spectrum(3, -1.0), ValueError, r"exponent must be at least 0"),
        (lambda: power_spectrum(3, True), TypeError, r"exponent must be a number, got True"),
        (lambda: power_spectrum(100, 200.0), ValueError, r"exponent is too large for d = 100"),
        (lambda: gaussian_gram(2, 2**60, rng=0), ValueError, r"d must be at most 9007199254740992"),
        (lambda: gaussian_gram(2, 10**400, rng=0), ValueError, r"d must be at most .*, got inf"),
        (lambda: effective_dimensions([(1e-320, 3)]), ValueError, r"got 1e-320 to 1e-320; change"),
        (lambda: effective_dimensions([(1e300, 30)]), ValueError, r"add up to at most 1e\+300"),
        (lambda: effective_dimensions([(1.0, 1e300)]), ValueError, r"than floats can count"),
        (
            lambda: effective_dimensions(np.ma.masked_array([1.0, 2.0], [True, False])),
            ValueError,
            r"spectrum has masked entries",
        ),
        (
            lambda: signed_labels(3, low=np.complex128(1 + 1j), rng=0),
            TypeError,
            r"low must be a positive number, got np.complex128",
        ),
        (
            lambda: signed_labels(3, high=10**400, rng=0),
            ValueError,
            r"high must be a positive finite number, got inf",
        ),
        (lambda: signed_labels(3, rng=-1), ValueError, r"rng, as a seed, must be at least 0"),
        (lambda: signed_labels(3, rng=np.random), TypeError, r"give e\.g\. rng=0"),
        (lambda: signed_labels(3, positive=1.5, rng=0), ValueError, r"between 0 and 1, got 1.5"),
        (lambda: signed_labels(3, low=2, high=1, rng=0), ValueError, r"low must not exceed high"),
        (lambda: signed_labels(3, low=0.0, rng=0), ValueError, r"low must be a positive finite"),
        (lambda: orthogonal_features(5, 4, rng=0), ValueError, r"got n = 5, d = 4"),
        (
            lambda: orthogonal_features(2, 4, scale=0, rng=0),
            ValueError,
            r"scale must be a positive",
        ),
    ],
)
def test_bad_input_is_refused_with_the_reason(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("unit", [1e-290, 1.0, 1e290])
def test_effective_dimensions_do_not_depend_on_the_unit(unit):
    found = effective_dimensions(unit * np.array([4.0, 2.0, 2.0]))
    assert found.d2 == pytest.approx(64 / 24)
    assert found.d_inf == pytest.approx(2.0)
    assert found.trace == pytest.approx(8.0 * unit)
