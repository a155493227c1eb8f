"""`bionica apply`: a model is applied to files that have its mixtures, by name or by
wavelength, and to no others.
"""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import bionica
from bionica.cli import app
from bionica.io import open_reader
from conftest import worst_correlation

WAVELENGTHS = np.linspace(400, 495, 20)


def run(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments)])
    return result.exit_code, result.output


def separated(path, *options):
    """Fit a model of two sources to a file; return the model's path."""
    model = path.with_name("model.npz")
    status, output = run("separate", path, "--sources", 2, "--model", model, *options)
    assert status == 0, output
    return model


def table(path, X, names, unit="", **labels):
    names = [f"{name}{unit}" for name in names]
    rows = [[*labels, *names], *zip(*labels.values(), *X.T.tolist(), strict=True)]
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def spectra(n, wavelengths=WAVELENGTHS, seed=0):
    S = np.random.default_rng(seed).exponential(size=(n, 2)) * (
        np.random.default_rng(seed + 1).random((n, 2)) < 0.6
    )
    return S, S @ np.exp(-(((wavelengths - np.array([[420], [470]])) / 20) ** 2))


@pytest.fixture
def model(tmp_path):
    """Fitted to a file with wavelengths, one spectrum known by name."""
    x = table(tmp_path / "x.csv", spectra(300)[1], WAVELENGTHS)
    dye = np.exp(-(((WAVELENGTHS[np.newaxis] - 420) / 20) ** 2))
    known = table(tmp_path / "known.csv", dye, WAVELENGTHS, name=["dye"])
    return separated(x, "--known", known)


def test_several_files_get_the_sources_of_the_model_by_their_names(tmp_path, model):
    data = [spectra(50, seed=seed)[1] for seed in (1, 2)]
    paths = [
        table(tmp_path / f"{i}.csv", X, WAVELENGTHS, time=range(50))
        for i, X in enumerate(data)
    ]
    status, output = run("apply", model, *paths, "--json")
    assert status == 0, output
    files = json.loads(output)["files"]
    assert [each["samples"] for each in files] == [50, 50]
    assert max(each["unexplained"] for each in files) < 1e-9
    network = bionica.load(model)
    assert list(network.feature_names_in_) == [str(value) for value in WAVELENGTHS]
    del network.feature_names_in_  # for arrays
    for i, X in enumerate(data):
        with open_reader(tmp_path / f"{i}-sources.csv") as reader:
            assert (reader.names, reader.label_names) == (["dye", "source_2"], ["time"])
            assert np.array_equal(reader.read(), network.transform(X))
    assert "exists already" in run("apply", model, paths[0])[1]
    one = tmp_path / "y.csv"
    assert "-o names one file" in run("apply", model, *paths, "-o", one)[1]


def test_other_wavelengths_are_refused_and_interpolated_on_request(tmp_path, model):
    finer = np.linspace(399, 500, 60)[::-1]
    S, X = spectra(50, finer, seed=3)
    x = table(tmp_path / "finer.csv", X, finer)
    status, output = run("apply", model, x)
    assert (status, "--interpolate" in output) == (1, True)
    assert not (tmp_path / "finer-sources.csv").exists()
    status, output = run("apply", model, x, "--interpolate")
    assert (status, "interpolated" in output) == (0, True)
    with open_reader(tmp_path / "finer-sources.csv") as reader:
        assert worst_correlation(S, reader.read()) > 0.99
    narrow = table(tmp_path / "narrow.csv", X[:, 30:], finer[30:])
    output = run("apply", model, narrow, "--interpolate", "--header")[1]
    assert "cannot be extrapolated" in output
    # 400 is 400.4, rounded
    for shift, status, said in (
        (0.4, 0, ""),
        (0.6, 1, "400.6 is not 400"),
        (1, 1, "401 is not 400"),
    ):
        axis = [f"{value:.6g}" for value in WAVELENGTHS + shift]
        shifted = table(tmp_path / "shifted.csv", spectra(50)[1], axis)
        found, output = run("apply", model, shifted, "--force")
        assert found == status and said in output, output


def test_other_units_are_refused(tmp_path):
    nm, other = (
        table(tmp_path / f"{unit}.csv", spectra(100)[1], WAVELENGTHS, f" {unit}")
        for unit in ("nm", "µm")
    )
    model = separated(nm)
    for more in ((), ("--interpolate",)):
        status, output = run("apply", model, other, *more)
        assert status == 1
        assert "in µm, and" in output and "convert them" in output


def test_what_cannot_be_read_ends_with_a_line_and_status_1_or_2(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("separate", ".") == (1, "Error: . is a folder: give files\n")
    assert run("separate", "x.csv", "--sources", "9" * 5000)[0] == 2
    few = "0.1,0.2,0.5\n0.3,0.1,0.2\n0.5,0.9,0.1\n0.2,0.2,0.9\n0.7,0.1,0.3\n"
    result = CliRunner().invoke(app, ["separate", "-"], input=few)
    assert result.exit_code == 1
    assert "too few to choose a method" in result.output


def test_mixtures_are_found_by_their_names_in_any_order(tmp_path):
    X = spectra(200, np.array([410, 420, 460, 480]))[1]
    model = separated(table(tmp_path / "x.csv", X, "abcd"))
    network = bionica.load(model)
    del network.feature_names_in_
    reversed_ = np.column_stack([X[:, ::-1], X[:, :1]])
    status, output = run("apply", model, table(tmp_path / "y.csv", reversed_, "dcbaz"))
    assert (status, "left out: z" in output) == (0, True), output
    with open_reader(tmp_path / "y-sources.csv") as reader:
        assert np.array_equal(reader.read(), network.transform(X))
    other = table(tmp_path / "z.csv", X, "abce")
    assert "no mixture 'd'" in run("apply", model, other)[1]
    np.save(tmp_path / "z.npy", X)
    status, output = run("apply", model, tmp_path / "z.npy")
    assert (status, "were not compared" in output) == (0, True)
    np.save(tmp_path / "few.npy", X[:, :3])
    assert "has 3 mixtures" in run("apply", model, tmp_path / "few.npy")[1]


def test_names_that_repeat_are_no_guide(tmp_path):
    X = spectra(100)[1][:, ::5]
    x = table(tmp_path / "x.csv", X, "abac")
    model = separated(x)
    other = table(tmp_path / "y.csv", X, "aabc")
    assert "names of mixtures that repeat" in run("apply", model, other)[1]
    assert run("apply", model, x, "--force")[0] == 0


@pytest.mark.parametrize(
    ("options", "ending"), [([], "and so the inputs are read"), ([0], "with 0")]
)
def test_the_dark_level_is_subtracted_and_what_is_not_explained_is_said(
    tmp_path, options, ending
):
    """The model remembers how its input was read."""
    x = table(tmp_path / "x.csv", 5 + spectra(300)[1], WAVELENGTHS)
    model = separated(x, "--offset", 5)
    offset = [part for value in options for part in ("--offset", value)]
    status, output = run("apply", model, x, *offset, "--force", "--json")
    assert status == 0
    (note,) = (
        note
        for note in json.loads(output)["notes"]
        if "fitted with --offset 5, " in note
    )
    assert note.endswith(ending)
    file = json.loads(output)["files"][0]
    assert file["unexplained_by_the_fit"] < 1e-9
    assert (file["unexplained"] > 0.05) == bool(options)


def test_what_is_not_as_where_the_model_was_fitted_is_a_problem(tmp_path, model, rng):
    """A detector that saturates, and something else in the samples; fewer and darker
    samples are none.
    """
    X = spectra(100, seed=5)[1]
    amount = rng.random((100, 1))
    ceiling = np.quantile(X, 0.97)
    other = X + amount * np.exp(-(((WAVELENGTHS - 445) / 5) ** 2))
    paths = [
        table(tmp_path / f"{i}.csv", each, WAVELENGTHS)
        for i, each in enumerate((X[:3] / 3, np.minimum(X, ceiling), other))
    ]
    status, output = run("apply", model, *paths, "--json")
    assert status == 0, output
    none, clipped, strange = (each["problems"] for each in json.loads(output)["files"])
    assert none == []
    assert f"saturated at {ceiling:.9g}" in clipped[0]
    assert strange == [
        "much more is unexplained than where the model was fitted: other sources, or"
        " other conditions."
    ]
    output = run("apply", model, paths[2], "--force")[1]
    assert "Problem: much more is unexplained" in output
