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

WAVELENGTHS = np.linspace(400, 495, 20)


def run(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments)])
    return result.exit_code, result.output


def table(path, X, names, **labels):
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
    table(tmp_path / "x.csv", spectra(300)[1], WAVELENGTHS.tolist())
    dye = np.exp(-(((WAVELENGTHS[np.newaxis] - 420) / 20) ** 2))
    table(tmp_path / "known.csv", dye, WAVELENGTHS.tolist(), name=["dye"])
    form = [
        "--sources",
        2,
        "--known",
        tmp_path / "known.csv",
        "--model",
        tmp_path / "model.npz",
    ]
    status, output = run("separate", tmp_path / "x.csv", *form)
    assert status == 0, output
    return tmp_path / "model.npz"


def test_several_files_get_the_sources_of_the_model_by_their_names(tmp_path, model):
    paths = [
        table(
            tmp_path / f"{i}.csv",
            spectra(50, seed=i)[1],
            WAVELENGTHS.tolist(),
            time=range(50),
        )
        for i in (1, 2)
    ]
    status, output = run("apply", model, *paths, "--json")
    assert status == 0, output
    assert [each["samples"] for each in json.loads(output)["files"]] == [50, 50]
    assert max(each["unexplained"] for each in json.loads(output)["files"]) < 1e-9
    network = bionica.load(model)
    assert list(network.feature_names_in_) == [str(value) for value in WAVELENGTHS]
    del network.feature_names_in_  # for arrays
    for i in (1, 2):
        with open_reader(tmp_path / f"{i}-sources.csv") as reader:
            assert (reader.names, reader.label_names) == (["dye", "source_2"], ["time"])
            assert np.array_equal(
                reader.read(), network.transform(spectra(50, seed=i)[1])
            )
    assert "exists already" in run("apply", model, paths[0])[1]
    assert (
        "-o names one file" in run("apply", model, *paths, "-o", tmp_path / "y.csv")[1]
    )


def test_other_wavelengths_are_refused_and_interpolated_on_request(tmp_path, model):
    finer = np.linspace(399, 500, 60)[::-1]
    S, X = spectra(50, finer, seed=3)
    x = table(tmp_path / "finer.csv", X, finer.tolist())
    status, output = run("apply", model, x)
    assert (status, "--interpolate" in output) == (1, True)
    assert not (tmp_path / "finer-sources.csv").exists()
    status, output = run("apply", model, x, "--interpolate")
    assert (status, "interpolated" in output) == (0, True)
    with open_reader(tmp_path / "finer-sources.csv") as reader:
        Y = reader.read()
    assert np.abs(np.corrcoef(S.T, Y.T)[:2, 2:]).max(axis=1).min() > 0.99
    narrow = table(tmp_path / "narrow.csv", X[:, 30:], finer[30:].tolist())
    assert (
        "cannot be extrapolated"
        in run("apply", model, narrow, "--interpolate", "--header")[1]
    )
    shifted = table(
        tmp_path / "shifted.csv", spectra(50)[1], (WAVELENGTHS + 1).tolist()
    )
    assert "401 is not 400" in run("apply", model, shifted)[1]


def test_other_units_are_refused(tmp_path):
    for unit in ("nm", "µm"):
        table(
            tmp_path / f"{unit}.csv",
            spectra(100)[1],
            [f"{value} {unit}" for value in WAVELENGTHS],
        )
    model = tmp_path / "model.npz"
    assert (
        run("separate", tmp_path / "nm.csv", "--sources", 2, "--model", model)[0] == 0
    )
    for more in ((), ("--interpolate",)):
        status, output = run("apply", model, tmp_path / "µm.csv", *more)
        assert (status, "in µm, and" in output, "convert them" in output) == (
            1,
            True,
            True,
        )


def test_what_cannot_be_read_ends_with_a_line_and_status_1_or_2(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("separate", ".") == (1, "Error: . is a folder: give files\n")
    assert run("separate", "x.csv", "--sources", "9" * 5000)[0] == 2
    x = table(tmp_path / "x.csv", spectra(20)[1], WAVELENGTHS.tolist())
    assert "is a folder" in run("separate", x, "-o", "")[1]
    few = CliRunner().invoke(
        app,
        ["separate", "-"],
        input="0.1,0.2,0.5\n0.3,0.1,0.2\n0.5,0.9,0.1\n0.2,0.2,0.9\n0.7,0.1,0.3\n",
    )
    assert (few.exit_code, "too few to choose a method" in few.output) == (1, True)


def test_mixtures_are_found_by_their_names_in_any_order(tmp_path):
    names = [*"abcd"]
    X = spectra(200, np.array([410, 420, 460, 480]))[1]
    run(
        "separate",
        table(tmp_path / "x.csv", X, names),
        "--sources",
        2,
        "--model",
        tmp_path / "m.npz",
    )
    network = bionica.load(tmp_path / "m.npz")
    del network.feature_names_in_
    Y = network.transform(X)
    table(tmp_path / "y.csv", np.column_stack([X[:, ::-1], X[:, :1]]), [*"dcbaz"])
    status, output = run("apply", tmp_path / "m.npz", tmp_path / "y.csv")
    assert (status, "left out: z" in output) == (0, True), output
    with open_reader(tmp_path / "y-sources.csv") as reader:
        assert np.array_equal(reader.read(), Y)
    assert (
        "no mixture 'd'"
        in run("apply", tmp_path / "m.npz", table(tmp_path / "z.csv", X, [*"abce"]))[1]
    )
    np.save(tmp_path / "z.npy", X)
    status, output = run("apply", tmp_path / "m.npz", tmp_path / "z.npy")
    assert (status, "were not compared" in output) == (0, True)
    np.save(tmp_path / "few.npy", X[:, :3])
    assert "has 3 mixtures" in run("apply", tmp_path / "m.npz", tmp_path / "few.npy")[1]


def test_wavelengths_of_detectors_that_overlap_are_compared(tmp_path):
    # one of them twice
    overlap = np.array([*np.linspace(400, 450, 12), *np.linspace(445, 495, 10), 495])
    x = table(tmp_path / "x.csv", spectra(200, overlap)[1], overlap.round(2).tolist())
    pure = tmp_path / "pure.csv"
    model = tmp_path / "model.npz"
    assert (
        run(
            "separate",
            x,
            "--header",
            "--sources",
            2,
            "--mixing",
            pure,
            "--model",
            model,
        )[0]
        == 0
    )
    shifted = table(
        tmp_path / "shifted.csv",
        spectra(50, overlap)[1],
        (overlap + 5).round(2).tolist(),
    )
    status, output = run("apply", model, shifted, "--header")
    assert (status, "405 is not 400" in output) == (1, True)
    assert run("apply", model, x, "--header", "--force")[0] == 0
    (tmp_path / "known.csv").write_text("".join(pure.read_text().splitlines(True)[:2]))
    status, output = run(
        "separate",
        x,
        "--header",
        "--sources",
        2,
        "--known",
        tmp_path / "known.csv",
        "--mixing",
        pure,
        "--force",
    )
    assert (status, pure.read_text().splitlines()[1].split(",")[0]) == (0, "source_1")


def test_names_that_repeat_are_no_guide(tmp_path):
    X = spectra(100)[1][:, ::5]
    x, other = (
        table(tmp_path / name, X, names)
        for name, names in (("x.csv", "abac"), ("y.csv", "aabc"))
    )
    assert run("separate", x, "--sources", 2, "--model", tmp_path / "model.npz")[0] == 0
    assert (
        "names of mixtures that repeat"
        in run("apply", tmp_path / "model.npz", other)[1]
    )
    assert run("apply", tmp_path / "model.npz", x, "--force")[0] == 0


def test_the_dark_level_is_subtracted_and_what_is_not_explained_is_said(tmp_path):
    X = spectra(300)[1]
    x = table(tmp_path / "x.csv", 5 + X, WAVELENGTHS.tolist())
    status, output = run(
        "separate", x, "--sources", 2, "--offset", 5, "--model", tmp_path / "model.npz"
    )
    assert (status, "Problems: none found" in output) == (0, True)
    shares = []
    for options in ([], ["--offset", 0]):  # the model remembers how its input was read
        status, output = run(
            "apply", tmp_path / "model.npz", x, *options, "--force", "--json"
        )
        assert status == 0
        notes = json.loads(output)["notes"]
        ending = "with 0" if options else "and so the inputs are read"
        assert any(
            "fitted with --offset 5, " in note and note.endswith(ending)
            for note in notes
        )
        file = json.loads(output)["files"][0]
        shares.append(file["unexplained"])
        assert file["unexplained_by_the_fit"] < 1e-9
    assert shares[0] < 1e-9
    assert shares[1] > 0.05


def test_what_is_not_as_where_the_model_was_fitted_is_a_problem(tmp_path, model):
    """A detector that saturates, and something else in the samples; fewer and darker
    samples are none.
    """
    X = spectra(100, seed=5)[1]
    rng = np.random.default_rng(0)
    other = np.exp(-(((WAVELENGTHS - 445) / 5) ** 2))
    files = {
        "dark": X[:3] / 3,
        "clipped": np.minimum(X, np.quantile(X, 0.97)),
        "other": X + rng.random((100, 1)) * other,
    }
    paths = [
        table(tmp_path / f"{name}.csv", each, WAVELENGTHS.tolist())
        for name, each in files.items()
    ]
    status, output = run("apply", model, *paths, "--json")
    assert status == 0, output
    none, clipped, strange = (each["problems"] for each in json.loads(output)["files"])
    assert none == []
    assert f"saturated at {np.quantile(X, 0.97):.9g}" in clipped[0]
    assert strange == [
        "much more is unexplained than where the model was fitted: other sources, or"
        " other conditions."
    ]
    assert (
        "Problem: much more is unexplained"
        in run("apply", model, paths[2], "--force")[1]
    )
