"""Cubes (y, x, band): in Python, of xarray and in files; maps have the shape of the
image.
"""

import numpy as np
import pytest
import tifffile
from numpy.testing import assert_array_equal
from scipy.io import savemat
from typer.testing import CliRunner

import bionica
from bionica import BatchNICA, MinimumVolumeCone, StreamingNICA, io
from bionica.cli import app
from conftest import worst_correlation


def cube(seed=0, shape=(30, 40), k=20, noise=0.005):
    """Maps (y, x, 3), spectra (3, band) and the cube."""
    rng = np.random.default_rng(seed)
    S = rng.dirichlet([0.5] * 3, shape)
    A = rng.random((3, k))
    return S, A, S @ A + noise * rng.standard_normal((*shape, k))


def worst(S, maps):
    """The least correlation of maps."""
    return worst_correlation(S.reshape(-1, 3), maps.reshape(-1, 3))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cls", [BatchNICA, MinimumVolumeCone, StreamingNICA])
def test_a_cube_is_a_sample_in_each_pixel(cls):
    _, _, X = cube()
    flat = X.reshape(-1, X.shape[-1])
    model, other = (cls(3, random_state=0).fit(x) for x in (X, flat))
    Y = model.transform(X)
    assert Y.shape == (30, 40, 3)
    assert_array_equal(Y.reshape(-1, 3), other.transform(flat))
    assert model.inverse_transform(Y).shape == X.shape
    assert str(model.diagnose(X, refit=False)) == str(other.diagnose(flat, refit=False))


def test_separate_takes_a_cube_with_masked_pixels():
    S, _, X = cube()
    mask = np.zeros(X.shape, bool)
    mask[3:6, 5:9] = True
    X = np.ma.masked_array(X, mask)
    said = "separate: left out of X, .* fewer numbers than n_components=3: 12 sample"
    with pytest.warns(UserWarning, match=said):
        found = bionica.separate(X, 3, method="cone", random_state=0)
    maps = found.transform(X)
    seen = ~mask[..., 0]
    assert np.isnan(maps[3:6, 5:9]).all()
    assert worst(S[seen], maps[seen]) > 0.99


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_stack_of_images_is_not_taken_for_a_cube(rng):
    _, A, X = cube()
    # maps of few directions
    smooth = np.exp(-(((np.linspace(0, 1, 30)[:, None] - [0.2, 0.5, 0.8]) / 0.2) ** 2))
    noise = 0.01 * rng.standard_normal((30, 30, 20))
    X2 = (smooth[:, None] * smooth[None]) @ A + noise
    refusal = r"pass np.moveaxis\(X, 0, -1\). If it is not, pass X.reshape\(-1, "
    for right in (X, X2, X[:6], X[..., :4], np.repeat(X, 3, axis=2)):
        BatchNICA(1).fit(right)
        with pytest.raises(ValueError, match=refusal):
            BatchNICA(1).fit(np.moveaxis(right, -1, 0))


def test_xarray_in_and_out():
    xr = pytest.importorskip("xarray")
    _, _, X = cube()
    coords = {"y": 0.5 * np.arange(30), "band": np.arange(20), "exposure": 3.0}
    coords["land"] = (("y", "x"), X[..., 0] > 0.5)
    given = xr.DataArray(X, dims=("y", "x", "band"), coords=coords)
    model = MinimumVolumeCone(3, random_state=0).fit(given)
    maps = model.transform(given)
    assert maps.dims == ("y", "x", "source")
    assert maps.source.values.tolist() == ["source_1", "source_2", "source_3"]
    assert {"y", "land", "exposure", "source"} == set(maps.coords)
    assert_array_equal(maps.values, model.transform(X))
    assert model.inverse_transform(maps).dims == ("y", "x", "mixture")


@pytest.mark.parametrize("suffix", ["npy", "h5", "zarr", "mat"])
def test_a_cube_in_a_file(tmp_path, suffix):
    _, _, X = cube()
    path = tmp_path / f"x.{suffix}"
    pixels = X.reshape(-1, 20)
    if suffix == "npy":
        np.save(path, X)
    elif suffix == "mat":
        savemat(path, {"cube": X})
    else:
        pytest.importorskip({"h5": "h5py"}.get(suffix, suffix))
        with io.open_writer(path, 20, float, X.shape[:2]) as writer:
            writer.write(pixels)
    with io.open_reader(path) as reader:
        assert reader.image_shape == (30, 40) and "30 x 40 pixels" in reader.notes[0]
        assert_array_equal(reader.read(), pixels)
        for rows in (np.array([3, 50, 1100]), slice(30, 95)):
            assert_array_equal(reader.fetch(rows), pixels[rows])


@pytest.mark.parametrize("name", ["y.npy", "y.tif"])
def test_the_command_line_writes_maps(tmp_path, name):
    S, _, X = cube()
    np.save(tmp_path / "x.npy", X)
    command = ["separate", str(tmp_path / "x.npy"), "-o", str(tmp_path / name)]
    options = ["--sources", "3", "--method", "cone", "-q"]
    result = CliRunner().invoke(app, [*command, *options])
    assert result.exit_code == 0, result.output
    if name == "y.npy":
        maps = np.load(tmp_path / name)
    else:
        maps = np.moveaxis(tifffile.imread(tmp_path / name), 0, 2)
    assert maps.shape == (30, 40, 3)
    assert worst(S, maps) > 0.99


def test_a_stack_in_a_file_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.moveaxis(cube()[2], 2, 0))
    with pytest.raises(io.InputError, match="the mixtures of a cube are its last axis"):
        io.open_reader(tmp_path / "x.npy")
