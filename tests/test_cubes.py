"""Cubes (y, x, band): in Python, of xarray and in files; maps have the shape of the image."""

import numpy as np
import pytest

import bionica
from bionica import BatchNICA, MinimumVolumeCone, StreamingNICA
from bionica.metrics import match_sources


def cube(seed=0, shape=(30, 40), k=20, noise=0.005):
    """Maps (y, x, 3), spectra (3, band) and the cube."""
    rng = np.random.default_rng(seed)
    S, A = rng.dirichlet([0.5] * 3, shape), rng.random((3, k))
    return S, A, S @ A + noise * rng.standard_normal((*shape, k))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cls", [BatchNICA, MinimumVolumeCone, StreamingNICA])
def test_a_cube_is_a_sample_in_each_pixel(cls):
    _, _, X = cube()
    flat = X.reshape(-1, X.shape[-1])
    model, other = (cls(3, random_state=0).fit(x) for x in (X, flat))
    Y = model.transform(X)
    assert Y.shape == (30, 40, 3)
    np.testing.assert_array_equal(Y.reshape(-1, 3), other.transform(flat))
    assert model.inverse_transform(Y).shape == X.shape
    assert str(model.diagnose(X, refit=False)) == str(other.diagnose(flat, refit=False))


def test_separate_takes_a_cube_with_masked_pixels():
    S, _, X = cube()
    mask = np.zeros(X.shape, bool)
    mask[3:6, 5:9] = True
    with pytest.warns(UserWarning, match="separate: 12 samples of X have fewer numbers than n_components=3"):
        found = bionica.separate(np.ma.masked_array(X, mask), 3, method="cone", random_state=0)
    maps = found.transform(np.ma.masked_array(X, mask))
    assert np.isnan(maps[3:6, 5:9]).all() and np.isfinite(maps[~mask[..., 0]]).all()
    seen = ~mask[..., 0]
    assert match_sources(S[seen], maps[seen], by="correlation").correlation.min() > 0.99


def test_a_stack_of_images_is_not_taken_for_a_cube():
    _, _, X = cube()
    smooth = np.exp(-(((np.linspace(0, 1, 30)[:, None] - [0.2, 0.5, 0.8]) / 0.2) ** 2))  # maps of few directions
    X2 = (smooth[:, None] * smooth[None]) @ cube()[1] + 0.01 * np.random.default_rng(0).standard_normal((30, 30, 20))
    for right in (X, X2, X[:6], X[..., :4], np.repeat(X, 3, axis=2)):
        bionica.samples.rows(bionica.samples.stand_in("t"), right, reset=True)
        with pytest.raises(ValueError, match=r"pass np.moveaxis\(X, 0, -1\). If it is not, pass X.reshape\(-1, "):
            bionica.samples.rows(bionica.samples.stand_in("t"), np.moveaxis(right, -1, 0), reset=True)


def test_xarray_in_and_out():
    xr = pytest.importorskip("xarray")
    _, _, X = cube()
    coords = {
        "y": 0.5 * np.arange(30),
        "band": np.arange(400, 420),
        "exposure": 3.0,
        "land": (("y", "x"), X[..., 0] > 0.5),
    }
    given = xr.DataArray(X, dims=("y", "x", "band"), coords=coords)
    model = MinimumVolumeCone(3, random_state=0).fit(given)
    maps = model.transform(given)
    assert maps.dims == ("y", "x", "source") and [*maps.source.values] == ["source_1", "source_2", "source_3"]
    assert {"y", "land", "exposure", "source"} == set(maps.coords)
    np.testing.assert_array_equal(maps.values, model.transform(X))
    assert model.inverse_transform(maps).dims == ("y", "x", "mixture")
