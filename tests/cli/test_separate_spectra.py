"""`bionica separate --mixing` and the spectra and axes of the report."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from test_separate import separate

from bionica import TwoCompartmentNICA
from bionica.circuits.plot import record_weights
from bionica.io import open_reader
from bionica.metrics import match_sources
from bionica.mixtures import plot
from browser import check_page
from conftest import mixtures, read


@pytest.fixture(scope="module")
def problem():
    """Concentrations and spectra of 3 sources at 60 wavelengths, which are 400.5,
    402.5, ... nm.
    """
    rng = np.random.default_rng(0)
    S = rng.exponential(size=(1500, 3))
    wavelengths = 400.5 + 2 * np.arange(60)
    A = np.exp(-(((wavelengths[:, None] - [420, 460, 500]) / 15) ** 2))
    return S, wavelengths, S @ A.T


def write_csv(path, header, X):
    names = [] if header is None else [",".join(header)]
    path.write_text(
        "\n".join(names + [",".join(map(repr, row)) for row in X.tolist()]) + "\n"
    )
    return path


@pytest.fixture
def table(tmp_path, problem):
    _, wavelengths, X = problem
    return write_csv(tmp_path / "x.csv", [f"{w:g}" for w in wavelengths], X)


METHOD = ["--sources", 3, "--method", "batch"]


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_spectra_times_sources_are_the_mixtures(tmp_path, table, problem, suffix):
    _, wavelengths, X = problem
    y = tmp_path / "y.npy"
    a = tmp_path / f"a.{suffix}"
    separate(table, *METHOD, "-o", y, "--mixing", a)
    with open_reader(a) as reader:
        spectra = reader.read()
        names = reader.names
    assert spectra.shape == (3, 60)
    if suffix == "csv":
        assert names == [f"{w:g}" for w in wavelengths]
    assert np.linalg.norm(np.load(y) @ spectra - X) < 0.02 * np.linalg.norm(X)


def test_columns_without_names_have_the_numbers_that_use_takes(tmp_path, problem):
    x = write_csv(tmp_path / "x.csv", None, problem[2])
    a = tmp_path / "a.csv"
    separate(x, *METHOD, "--skip", "1,3", "--mixing", a)
    assert a.read_text().startswith(",column_2,column_4,column_5,")
    separate(x, *METHOD, "--use", "2,4-60", "--mixing", tmp_path / "b.csv", "--force")
    assert (tmp_path / "b.csv").read_text() == a.read_text()


def test_a_named_row_is_a_sample_also_if_samples_are_few(tmp_path, problem):
    names = np.array([f"P{i}" for i in range(40)], object)
    header = ["sample", *(f"g{j}" for j in range(60))]
    x = write_csv(tmp_path / "x.csv", header, np.column_stack([names, problem[2][:40]]))
    assert json.loads(separate(x, *METHOD, "--json").stdout)["samples"] == 40


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_with_decimal_commas_files_are_written_with_them(
    tmp_path, problem, suffix, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    _, wavelengths, X = problem
    rows = [[f"{w:g}" for w in wavelengths], *([*map(repr, x)] for x in X.tolist())]
    lines = "".join(";".join(row) + "\n" for row in rows)
    for sign, name, options in ((",", "comma", ["--decimal", ","]), (".", "point", [])):
        Path("x.csv").write_text(lines.replace(".", sign))
        files = ["-o", f"{name}.{suffix}", "--mixing", f"pure-{name}.{suffix}"]
        separate("x.csv", *METHOD, *options, *files)
    for name in ("", "pure-"):
        point = Path(f"{name}point.{suffix}").read_text()
        if suffix == "csv":
            point = point.replace(",", ";")
        assert Path(f"{name}comma.{suffix}").read_text() == point.replace(".", ",")


# --- the report


@pytest.fixture
def drawn(monkeypatch):
    """What the report draws: the arguments of every function of `plot`, by its name."""
    calls = {}
    for name in ("sources", "spectra", "distributions", "weights"):
        draw = getattr(plot, name)

        def record(*args, name=name, draw=draw, **kwargs):
            calls[name] = args, kwargs
            return draw(*args, **kwargs)

        monkeypatch.setattr(plot, name, record)
    return calls


@pytest.mark.parametrize(
    ("name", "numbers", "unit"),
    [("{:g}", True, ""), ("{:g} nm", True, "nm"), ("w{:g}", False, "")],
)
def test_the_report_draws_each_spectrum_over_the_header(
    tmp_path, problem, drawn, name, numbers, unit
):
    _, wavelengths, X = problem
    names = [name.format(w) for w in wavelengths]
    x = write_csv(tmp_path / "x.csv", names, X)
    page = tmp_path / "page.html"
    separate(x, *METHOD, "--report", page, "--mixing", tmp_path / "a.npy")
    (A, axis), options = drawn["spectra"]
    assert np.array_equal(A.T, np.load(tmp_path / "a.npy"))
    assert np.array_equal(axis, wavelengths if numbers else np.arange(1, 61))
    assert unit in options["label"]
    (residual,), options = drawn["weights"]
    assert residual.shape == (60, 188)  # a picture of moderate size
    assert np.abs(residual).max() < 0.05 * X.max()
    assert list(options["rows"]) == names
    ax = options["ax"]
    assert max(len(ax.get_xticks()), len(ax.get_yticks())) <= 30
    assert ax.get_xlabel() == "sample"
    assert not re.search(r"(src|href)=\"(?!data:)", page.read_text())


@pytest.mark.parametrize(("decimal", "separator"), [(".", ","), (",", ";")])
def test_times_are_the_axis_of_the_report_and_stand_beside_the_sources(
    tmp_path, problem, drawn, decimal, separator
):
    _, wavelengths, X = problem
    t = 0.25 * np.arange(len(X))
    header = ["Zeit [min]", *(f"{w:g}" for w in wavelengths)]
    lines = [header, *([*map(repr, x)] for x in np.column_stack([t, X]).tolist())]
    text = "".join(";".join(line) + "\n" for line in lines)
    (tmp_path / "x.csv").write_text(text.replace(".", decimal))
    page = ["--report", tmp_path / "page.html"]
    separate(tmp_path / "x.csv", *METHOD, "--decimal", decimal, *page)
    (Y, times), options = drawn["sources"]
    rows = (times / 0.25).astype(int)  # one of each stratum of 4
    assert np.array_equal(rows // 4, np.arange(len(t) / 4)) and len({*(rows % 4)}) == 4
    text = (tmp_path / "x-sources.csv").read_text()
    assert text.startswith("Zeit [min]")
    lines = text.replace(separator, " ").replace(decimal, ".").splitlines()
    sources = np.loadtxt(lines, skiprows=1)[rows, 1:]
    np.testing.assert_allclose(sources, Y, rtol=1e-6)
    assert options["label"] == "Zeit [min]"


def test_the_figures_of_the_report_are_files_too(tmp_path, table):
    folder = tmp_path / "figures"
    separate(table, *METHOD, "--figures", folder)
    starts = {path.name: path.read_bytes()[:5] for path in folder.iterdir()}
    names = ["sources", "spectra", "residual", "distributions"]
    assert starts == {
        f"{i:02}-{name}.{kind}": start
        for i, name in enumerate(names, 1)
        for kind, start in (("pdf", b"%PDF-"), ("svg", b"<?xml"))
    }
    again = ["--figures", folder, "-o", tmp_path / "y.csv"]
    assert "--figures" in separate(table, *METHOD, *again, code=1).stderr


def test_the_report_draws_the_uncertainty_of_the_spectra(tmp_path, problem, drawn):
    x = write_csv(
        tmp_path / "x.csv",
        [f"{w:g}" for w in problem[1]],
        problem[2] + 0.01 * np.sin(1e4 * problem[2]),
    )
    result = separate(x, *METHOD, "--report", tmp_path / "page.html", "--json")
    error = drawn["spectra"][1]["error"]
    assert error.shape == (60, 3)
    assert (error >= 0).all() and error.max() > 0
    uncertainty = json.loads(result.stdout)["uncertainty"]
    assert len(uncertainty["correlation"]) == len(uncertainty["sources"]) == 3


@pytest.mark.parametrize(
    ("name", "numbers"), [("solvent", (2, 3, 4)), ("source_3", (5, 6, 7))]
)
def test_a_known_spectrum_is_kept_and_its_source_comes_first_with_its_name(
    tmp_path, problem, name, numbers
):
    """A name such as source_3 is of another fit: its source_2 and that of this fit may
    be two substances.
    """
    S, wavelengths, X = problem
    rng = np.random.default_rng(1)
    solvent = 2 + np.cos(wavelengths / 40)  # everywhere in the sample, never absent
    X = X + (5 + rng.random((len(X), 1))) * solvent
    header = [f"{w:g}" for w in wavelengths]
    x = write_csv(tmp_path / "x.csv", header, X + 0.001 * rng.standard_normal(X.shape))
    # in another order than the input
    cells = [["wavelength", *header[::-1]], [name, *map(str, solvent[::-1].tolist())]]
    if name == "solvent":  # a column for each spectrum, as instruments write them
        cells = zip(*cells, strict=True)
    known = tmp_path / "known.csv"
    known.write_text("".join(",".join(row) + "\n" for row in cells))
    a = tmp_path / "a.csv"
    separate(x, "--sources", 4, "--known", known, "--mixing", a)
    text = (tmp_path / "x-sources.csv").read_text()
    assert text.startswith(",".join([name, *(f"source_{i}" for i in numbers)]))
    assert np.corrcoef(read(a)[0], solvent)[0, 1] > 1 - 1e-9
    sources = read(tmp_path / "x-sources.csv")[:, 1:]
    assert match_sources(S, sources).correlation.min() > 0.98


def test_a_known_spectrum_at_other_wavelengths_is_refused(tmp_path, table, problem):
    header = [f"{w + 50:g}" for w in problem[1]]
    elsewhere = write_csv(tmp_path / "elsewhere.csv", header, problem[2][:1])
    assert "interpolate" in separate(table, "--known", elsewhere, code=1).stderr


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: plot.sources(TwoCompartmentNICA()),
            r"Y is a TwoCompartmentNICA: .*transform\(X\)",
        ),
        (
            lambda: plot.spectra(np.eye(3), error=np.ones((3, 2))),
            r"error has shape \(3, 2\), but A has \(3, 3\)",
        ),
        (
            lambda: plot.images(np.ones((10, 2)), (3, 4)),
            r"\(3, 4\) has 12 pixels, but Y has 10 rows",
        ),
        (lambda: record_weights(TwoCompartmentNICA(), np.eye(3), 0), "every=0"),
    ],
)
def test_what_cannot_be_drawn_is_named(draw, message):
    with pytest.raises((TypeError, ValueError), match=message):
        draw()


def test_page_of_separate_opens_in_a_browser(tmp_path):
    folder = tmp_path / " ".join(["a folder with a long name, to be printed"] * 3)
    folder.mkdir()
    np.save(folder / "mixtures.npy", mixtures(2000, 3)[1])
    page = folder / "page.html"
    separate(folder / "mixtures.npy", "--sources", 3, "--report", page)
    assert len(check_page(page, tmp_path)) == 2
