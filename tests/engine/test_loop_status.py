"""Nothing that was not computed is ever returned: overflow, subnormal numbers, a bad
row among good ones, singular data.
"""

import warnings

import numpy as np
import pytest

import bionica
from conftest import ESTIMATORS, NETWORKS, made, mixtures, mixtures_for

VARIANTS = [(cls, {}) for cls in ESTIMATORS] + [
    (bionica.StreamingNICA, {"horizon": 100})
]
ANSWERS = bionica.DivergenceError, ValueError


def fitted(cls, params, dtype=np.float64, k=4):
    _, X = mixtures(300, 3, k, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made(cls, 3, **params).fit(X), X


def answer(model, X):
    """The outputs, finite and nonnegative; or None and an error that names a sample and
    a remedy.
    """
    try:
        Y = model.transform(X)
    except ANSWERS as error:
        assert not isinstance(error, np.linalg.LinAlgError)
        assert "sample" in str(error)
        assert "rescale" in str(error)
        return None
    assert np.isfinite(Y).all()
    assert Y.min() >= 0 or isinstance(model, bionica.NoncenteredWhitener)
    return Y


@pytest.mark.parametrize(
    ("cls", "params", "dtype"),
    [
        *((*variant, np.float64) for variant in VARIANTS),
        *((cls, {}, np.float32) for cls in ESTIMATORS),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
# scikit-learn's own sum
@pytest.mark.filterwarnings("ignore:invalid value encountered in reduce")
def test_extreme_mixtures_have_right_outputs_or_none(cls, params, dtype):
    model, X = fitted(cls, params, dtype)
    usual = model.transform(X)
    for scale in (1e160, 1e307, 1e37, 1e-160, 1e-310, 1e-40):
        with np.errstate(all="ignore"):
            scaled = np.nan_to_num(X * X.dtype.type(scale))
        Y = answer(model, scaled)
        if Y is not None and dtype == np.float64 and scale in (1e160, 1e-160):
            np.testing.assert_allclose(Y / scale, usual, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("cls", "params"),
    VARIANTS,
    ids=lambda value: getattr(value, "__name__", str(value)),
)
@pytest.mark.parametrize("row", [0, 7, 299])
def test_one_bad_row_never_spoils_the_others(cls, params, row):
    model, X = fitted(cls, params)
    usual = model.transform(X)
    bad = X.copy()
    bad[row] *= 1e200
    try:
        Y = model.transform(bad)
    except bionica.DivergenceError as error:
        assert error.sample == row
        assert f"sample {row}" in str(error)
    else:
        others = np.arange(len(X)) != row
        np.testing.assert_allclose(Y[others], usual[others], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.transform(X), usual)


def overflow(network, X, chunk):
    """The error of a stream that is cut into chunks; of samples if `chunk` is 1."""
    with pytest.raises(bionica.DivergenceError) as caught:
        for start in range(0, len(X), chunk):
            part = X[start : start + chunk]
            network.learn_one(part[0]) if chunk == 1 else network.partial_fit(part)
    return caught.value


@pytest.mark.parametrize("row", [250, 900])
@pytest.mark.parametrize("cls", NETWORKS)
def test_divergence_names_its_sample_in_any_chunking(cls, row):
    """Of mixtures with one that is too large, whatever overflows: the output, or a
    weight.
    """
    X = mixtures_for(cls, 1500, 3, 4)
    X[row, 0] = 1e200
    for chunk in (1500, 64, 1):
        network = cls(3, random_state=0)
        error = overflow(network, X, chunk)
        assert error.sample == row
        assert f"sample {row}:" in str(error)
        assert f"{1e200:.2g}" in str(error)
        assert "now None" not in str(error)
        learned = row - row % chunk if chunk < 1500 else 0
        assert getattr(network, "n_samples_seen_", 0) == learned


def test_a_weight_that_overflows_names_the_same_sample_in_any_chunking(rng):
    """Outputs of zero leave no trace of a sample that is too large for the weights: the
    next output is NaN, if there is one.
    """
    X = rng.exponential(size=(300, 3))
    X[200] *= 1e200

    def silent():
        return bionica.TwoCompartmentNICA(
            3, init={"W_xz": -np.eye(3)}, eta0=1e-6, guards=False, random_state=0
        )

    errors = [
        overflow(silent(), X[:end], chunk)
        for end, chunk in ((300, 300), (201, 201), (300, 67), (300, 1))
    ]
    assert {error.sample for error in errors} == {200}
    assert len({str(error) for error in errors}) == 1


def test_transform_counts_no_repairs():
    _, X = mixtures(2000, 3)
    network = bionica.InterneuronNICA(3, eta0=0.9, random_state=0).partial_fit(X)
    before = dict(network.repairs_)
    assert sum(before.values()) > 0
    network.transform(100 * X)
    assert network.repairs_ == before
