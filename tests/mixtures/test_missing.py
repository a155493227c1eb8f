"""Missing values: estimated by the fit, done without by `transform`, refused by
everything else.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bionica
from bionica import BatchNICA, MinimumVolumeCone
from bionica.io import InputError, open_reader
from bionica.metrics import spectral_angle
from bionica.mixtures.missing import (
    completed,
    noise_of_outputs,
    outputs,
    predicted_rank,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def problem(share, noise=0.01, seed=0, n=400, k=40, d=3):
    """Spectra A (d, k), mixtures, and the same with NaN in a share of the cells."""
    rng = np.random.default_rng(seed)
    channel = np.linspace(0, 1, k)
    centres = rng.uniform(0.1, 0.9, (d, 1))
    A = 0.1 + np.exp(-(((channel - centres) / 0.15) ** 2))
    X = rng.dirichlet([0.5] * d, n) @ A
    X += noise * X.std() * rng.standard_normal(X.shape)
    return A, X, np.where(rng.random(X.shape) < share, np.nan, X)


def test_cells_of_exact_mixtures_are_restored():
    _, X, gaps = problem(0.3, noise=0.0)
    assert_allclose(completed(gaps, 3), X, atol=1e-6)
    assert predicted_rank(gaps) == 3


def test_estimated_cells_are_as_noisy_as_measured_ones():
    """Each errs by the noise that was drawn and by that of the truth: twice the
    variance.
    """
    _, X, gaps = problem(0.2, noise=0.1, n=2000)
    missing = np.isnan(gaps)
    errors = (completed(gaps, 3) - X)[missing]
    noise = 0.1 * problem(0, noise=0.0, n=2000)[1].std()
    assert np.var(errors) == pytest.approx(2 * noise**2, rel=0.1)
    assert (completed(np.where(missing, np.nan, np.abs(X)), 3) >= 0).all()


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3])
def test_a_fit_with_missing_values_is_near_that_of_the_complete_data(share):
    A, X, gaps = problem(share)
    filled = np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), gaps)
    complete, ours, mean = (
        spectral_angle(A, MinimumVolumeCone(3, random_state=0).fit(data).spectra_)
        for data in (X, gaps, filled)
    )
    assert ours < complete + np.radians(0.3) < mean


def test_outputs_of_rows_with_gaps_are_those_of_the_cells_that_the_model_puts_there(
    rng,
):
    """The fixed point y = W x(y), where x(y) has the cells of A y where x has none."""
    A = rng.random((8, 3))
    P = np.linalg.pinv(A)
    # W A = I
    W = P + 0.1 * rng.standard_normal((3, 8)) @ (np.eye(8) - A @ P)
    X = rng.random((20, 8))
    X[rng.random(X.shape) < 0.3] = np.nan
    X[0], X[1, :6], X[2] = np.nan, np.nan, rng.random(8)
    Y = outputs(X, W, A)
    assert np.isnan(Y[:2]).all()
    filled = np.where(np.isnan(X), Y @ A.T, X)[2:]
    assert_allclose(filled @ W.T, Y[2:], atol=1e-9)


def test_samples_without_their_best_channels_have_noisier_outputs(rng):
    """As a detector that saturates makes them: the standard deviation is that of the
    errors.
    """
    S = rng.exponential(size=(20_000, 2))
    A = 0.1 + 0.2 * rng.random((20, 2))
    A[:4, 0] = 1
    A[4:8, 1] = 1
    W = np.linalg.pinv(A)
    sigma = np.repeat([0.02, 0.01], 10)
    X = S @ A.T + sigma * rng.standard_normal((len(S), 20))
    complete = np.sqrt(W**2 @ sigma**2)
    assert_allclose(noise_of_outputs(X, W, A), complete, rtol=0.05)
    X[X[:, 4] > 1.0, 4:8] = np.nan
    errors = (outputs(X, W, A) - S).std(axis=0)
    assert errors[1] > 1.3 * complete[1]
    assert_allclose(noise_of_outputs(X, W, A), errors, rtol=0.05)


def test_transform_of_complete_rows_keeps_its_bits_and_empty_rows_are_nan():
    _, X, gaps = problem(0.1)
    gaps[5] = np.nan
    with pytest.warns(UserWarning, match="fewer numbers than n_components=3: 1 sample"):
        model = MinimumVolumeCone(3, random_state=0).fit(np.ma.masked_invalid(gaps))
    Y = model.transform(gaps)
    complete = ~np.isnan(gaps).any(axis=1)
    assert_array_equal(Y[complete], model.transform(X)[complete])
    assert np.isnan(Y[5]).all() and np.isfinite(np.delete(Y, 5, axis=0)).all()
    assert model.diagnose(np.delete(gaps, 5, axis=0)).ok


def test_separate_counts_and_chooses_with_missing_values():
    A, _, gaps = problem(0.2)
    found = bionica.separate(gaps, random_state=0)
    assert found.choice_.n_sources == 3
    assert spectral_angle(A, found.spectra_) < 0.02


def test_what_cannot_estimate_refuses_with_one_sentence():
    _, X, gaps = problem(0.1)
    model = MinimumVolumeCone(3, random_state=0).fit(X)
    streams = bionica.StreamingNICA(3), MinimumVolumeCone(3, horizon=1000)
    refusal = r"needs finite numbers here; drop .*, or use fit of MinimumVolumeCone or"
    for use in (model.partial_fit, model.score, *(stream.fit for stream in streams)):
        with pytest.raises(ValueError, match=refusal):
            use(gaps)
    with pytest.raises(ValueError, match="with n_components, which estimates NaN"):
        MinimumVolumeCone().fit(gaps)
    gaps[:, 7] = np.nan
    with pytest.raises(ValueError, match=r"X\[:, 7\] holds no number: leave this"):
        BatchNICA(3).fit(gaps)


def test_empty_cells_of_a_file_are_missing_and_words_are_not(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n1,,3\n4,NA,6\n7,8,\n")
    nan = np.nan
    with open_reader(path, missing=True) as reader:
        found = reader.read()
        assert reader.n_missing == 3
    assert_array_equal(found, [[1, nan, 3], [4, nan, 6], [7, 8, nan]])
    with pytest.raises(InputError, match="line 2, column 2"):
        open_reader(path)
    path.write_text("a,b,c\n1,2,3\n4,<5,6\n")
    with pytest.raises(InputError, match=r"line 3, column 2 .*'<5' is not a finite"):
        open_reader(path, missing=True).read()


def test_at_most_twelve_directions_are_predicted(rng):
    assert (
        predicted_rank(rng.standard_normal((2000, 14)) @ rng.standard_normal((14, 40)))
        == 12
    )
