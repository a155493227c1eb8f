"""`bionica separate --mixing`, the spectra in the report, and how the command counts."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import bionica
from bionica.cli import app
from bionica.cli.separate_sentences import from_one, rephrase, verdict
from bionica.io import open_reader, write_spectra
from bionica.report.separation_drawings import curves, nice_ticks


def separate(*arguments, fed=None, code=0):
    result = CliRunner().invoke(app, ["separate", *map(str, arguments)], input=fed)
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture(scope="module")
def problem():
    """Concentrations and spectra of 3 sources at 60 wavelengths, which are 400.5, 402.5, ... nm."""
    rng = np.random.default_rng(0)
    S = rng.exponential(size=(1500, 3))
    wavelengths = 400.5 + 2 * np.arange(60)
    A = np.exp(-(((wavelengths[:, None] - [420, 460, 500]) / 15) ** 2))
    return S, wavelengths, S @ A.T


def write_csv(path, header, X):
    names = [] if header is None else [",".join(header)]
    path.write_text("\n".join(names + [",".join(map(repr, row)) for row in X.tolist()]) + "\n")
    return path


@pytest.fixture
def table(tmp_path, problem):
    _, wavelengths, X = problem
    return write_csv(tmp_path / "x.csv", [f"w{w:g}" for w in wavelengths], X)


# ---------------------------------------------------------------------------------------------- the file


@pytest.mark.parametrize("suffix", ["csv", "tsv", "npy", "npz", "parquet", "h5", "zarr"])
def test_spectra_times_sources_are_the_mixtures(tmp_path, table, problem, suffix):
    if suffix in ("parquet", "h5", "zarr"):
        pytest.importorskip({"parquet": "pyarrow", "h5": "h5py"}.get(suffix, suffix))
    _, wavelengths, X = problem
    y, a = tmp_path / "y.npy", tmp_path / f"a.{suffix}"
    result = separate(table, "--sources", 3, "--method", "batch", "-o", y, "--mixing", a)
    assert f"{a} (spectra)" in result.stdout
    with open_reader([str(a)]) as reader:
        spectra = np.concatenate(list(reader.blocks()))
        assert spectra.shape == (3, 60)
        if suffix in ("csv", "tsv", "parquet"):
            assert reader.names == [f"w{w:g}" for w in wavelengths]
    assert np.linalg.norm(np.load(y) @ spectra - X) < 0.02 * np.linalg.norm(X)


def test_in_text_rows_have_the_names_of_the_sources(tmp_path, table):
    separate(table, "--sources", 3, "--method", "batch", "-o", tmp_path / "y.csv", "--mixing", tmp_path / "a.csv")
    header, *rows = (tmp_path / "a.csv").read_text().splitlines()
    assert header.startswith(",w400.5,w402.5,")
    assert [row.split(",")[0] for row in rows] == ["source_1", "source_2", "source_3"]
    assert (tmp_path / "y.csv").read_text().startswith("source_1,source_2,source_3\n")
    pandas = pytest.importorskip("pandas")
    assert pandas.read_csv(tmp_path / "a.csv", index_col=0).loc["source_2", "w402.5"] == float(rows[1].split(",")[2])


def test_names_with_commas_and_quotes_are_read_back(tmp_path):
    names = ["a, b", 'the "red" one', "c"]
    write_spectra(tmp_path / "a.csv", np.arange(6.0).reshape(2, 3), names)
    with open_reader([str(tmp_path / "a.csv")]) as reader:
        assert np.array_equal(np.concatenate(list(reader.blocks())), np.arange(6.0).reshape(2, 3))
        assert reader.names == names


def test_columns_without_names_have_the_numbers_that_use_takes(tmp_path, problem):
    x, a = write_csv(tmp_path / "x.csv", None, problem[2]), tmp_path / "a.csv"
    separate(x, "--sources", 3, "--method", "batch", "--skip", "1,3", "--mixing", a)
    assert a.read_text().startswith(",column_2,column_4,column_5,")
    separate(x, "--sources", 3, "--method", "batch", "--use", "2,4-60", "--mixing", tmp_path / "b.csv", "--force")
    assert (tmp_path / "b.csv").read_text() == a.read_text()


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("way", [[], ["--model", "m"], ["-"]], ids=["file", "model", "pipe"])
def test_with_decimal_commas_files_are_written_with_them(tmp_path, problem, suffix, way, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, wavelengths, X = problem
    x = tmp_path / "x.csv"
    lines = [";".join(f"{w:g}" for w in wavelengths), *(";".join(map(repr, row)) for row in X.tolist())]
    x.write_text("\n".join(lines).replace(".", ",") + "\n")
    point, comma = [f"point.{suffix}", f"pure-point.{suffix}"], [f"comma.{suffix}", f"pure-comma.{suffix}"]
    place, fed = ([x, *way], None) if way != ["-"] else (["-"], x.read_text())
    common = [*place, "--sources", 3, "--decimal", ",", "--checkpoint", 0]
    separate(*common, "-o", comma[0], "--mixing", comma[1], fed=fed)
    x.write_text("\n".join(lines) + "\n")
    separate(*place, "--sources", 3, "--force", "-o", point[0], "--mixing", point[1], fed=fed and x.read_text())
    for with_point, with_comma in zip(point, comma, strict=True):
        text = Path(with_comma).read_text()
        assert "." not in text
        kept = Path(with_point).read_text()
        assert text == (kept.replace(",", ";") if suffix == "csv" else kept).replace(".", ",")
        with open_reader([with_point]) as a, open_reader([with_comma], decimal=",") as b:
            assert np.array_equal(np.concatenate(list(a.blocks())), np.concatenate(list(b.blocks())))
            assert a.header == b.header
    if way[:1] == ["--model"]:  # a resumed run writes the same bytes, and accepts those that are there
        x.write_text("\n".join(lines).replace(".", ",") + "\n")
        before = [Path(name).read_bytes() for name in comma]
        separate(*common, "--resume", "-o", comma[0], "--mixing", comma[1])
        assert [Path(name).read_bytes() for name in comma] == before


def test_a_header_of_wavelengths_says_which_axis_holds_the_samples(tmp_path, problem):
    _, wavelengths, X = problem
    few, method = X[:40], ["--sources", 3, "--method", "batch"]
    for header in ([f"{w:g}" for w in wavelengths], [f"{w:g} nm" for w in wavelengths]):
        separate(write_csv(tmp_path / "x.csv", header, few), *method, "--force")
    words, gaps = [f"w{w:g}" for w in wavelengths], [1, 2, *range(4, 62)]
    for header in (None, words, *(list(map(str, numbers)) for numbers in (range(60), range(1, 61), gaps))):
        result = separate(write_csv(tmp_path / "x.csv", header, few), *method, "--force", code=1)
        assert "--axis 1; if not, --axis 0" in result.stderr


def test_spectra_of_a_stream_and_of_a_resumed_run(tmp_path, table, problem):
    _, _, X = problem
    m, a = tmp_path / "m", tmp_path / "a.npy"
    fed = "".join(",".join(map(repr, row)) + "\n" for row in X.tolist())
    separate("-", "--sources", 3, "--model", m, "--mixing", a, fed=fed)
    assert np.array_equal(np.load(a), bionica.load(m).mixing_.T)
    found = json.loads(
        separate(
            table, "--sources", 3, "--model", tmp_path / "m2", "--mixing", tmp_path / "a2.csv", "--json"
        ).stdout
    )  # fmt: skip
    assert found["mixing"] == str(tmp_path / "a2.csv")
    again = [table, "--model", tmp_path / "m2", "--mixing", tmp_path / "a2.csv", "--resume"]
    before = (tmp_path / "a2.csv").read_bytes()
    separate(*again)  # all is there, and is the same
    assert (tmp_path / "a2.csv").read_bytes() == before
    (tmp_path / "a2.csv").write_text("mine")
    assert "holds other spectra: choose another name with --mixing" in separate(*again, code=1).stderr
    assert (tmp_path / "a2.csv").read_text() == "mine"


def test_a_network_that_has_not_started_has_no_spectra(tmp_path):
    a, network = tmp_path / "a.csv", ["--sources", 2, "--method", "two-compartment"]
    result = separate("-", *network, "--model", tmp_path / "m", "--mixing", a, "--json", fed="1,2\n2,1\n")
    found = json.loads(result.stderr)
    assert found["mixing"] is None
    assert "was not written: the network has not started" in found["notes"][0]
    assert not a.exists()


def test_the_name_is_checked_before_the_fit(tmp_path, table, monkeypatch):
    def read(*_, **__):
        raise AssertionError("read before the outputs were checked")

    monkeypatch.setattr("bionica.io.open_reader", read)
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "folder.csv").mkdir()
    for name, message in {
        "x.csv": "--mixing .*x.csv is also the input",
        "there.csv": "exists already: choose another name with --mixing",
        "y.csv": "-o .* and --mixing .* are the same file",
        "no/a.csv": "there is no folder",
        "a.png": "is an image, and spectra are none: choose from .npy",
        "a.xyz": "has the unknown suffix '.xyz': choose from .npy",
        "folder.csv": "is a folder, and only files",
    }.items():
        result = separate(table, "-o", tmp_path / "y.csv", "--mixing", tmp_path / name, code=1)
        assert re.search(message, result.stderr), result.stderr
    assert "--force" not in result.stderr  # which would not replace a folder either


# ---------------------------------------------------------------------------------------------- the report


def polylines(html, label):
    drawing = re.search(f'aria-label="{label}".*?</svg>', html, re.DOTALL)[0]
    lines = re.findall(r'<polyline points="([^"]+)"', drawing)
    texts = re.findall(r">([^<]+)</text>", drawing)
    return [np.array([list(map(float, point.split(","))) for point in line.split()]) for line in lines], texts


def test_the_report_draws_all_of_each_spectrum_over_the_header(tmp_path, problem):
    """60 mixtures, of which a matrix would show a part; falling wavelengths are drawn from left to right too."""
    _, wavelengths, X = problem
    x = write_csv(tmp_path / "x.csv", ["", *(f"{w:g}" for w in wavelengths)], np.column_stack([np.arange(len(X)), X]))
    page, a = tmp_path / "page.html", tmp_path / "a.npy"
    separate(x, "--sources", 3, "--method", "batch", "--report", page, "--mixing", a)
    html = page.read_text()
    assert "Spectra of the sources" in html and "over the numbers in the header" in html
    assert "Mixing matrix" not in html
    lines, texts = polylines(html, "spectrum of each source")
    assert [len(line) for line in lines] == [60, 60, 60]
    assert {"420", "500", "source 1", "source 3"} <= set(texts)
    assert "source 0" not in html
    for line, spectrum in zip(lines, np.load(a), strict=True):
        assert np.all(np.diff(line[:, 0]) > 0)
        assert np.corrcoef(-line[:, 1], spectrum)[0, 1] > 0.999
    falling = curves(np.load(a).T[::-1], wavelengths[::-1].tolist())
    assert re.findall("<polyline[^>]+", falling.elements) == re.findall(
        "<polyline[^>]+", curves(np.load(a).T, wavelengths.tolist()).elements
    )


def test_few_mixtures_are_a_matrix_and_very_many_a_curve_of_bounded_size(tmp_path, rng):
    few = np.abs(rng.standard_normal((400, 4))) @ np.abs(rng.standard_normal((4, 7)))
    np.save(tmp_path / "x.npy", few)
    separate(tmp_path / "x.npy", "--sources", 4, "--method", "batch", "--report", tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text()
    assert "Mixing matrix" in html and "column 7" in html
    peak = np.zeros((50_000, 2))
    peak[31_234, 0], peak[77, 1] = 1e308, -1.0
    peak[5, 0] = -1e308
    drawing = curves(peak, None).elements
    assert len(drawing) < 60_000
    lines, texts = polylines(f'aria-label="x"{drawing}</svg>', "x")
    assert np.ptp(lines[0][:, 1]) == pytest.approx(np.ptp(lines[1][:, 1]))  # no peak falls between two points
    assert {"10000", "50000", "peak -1e+308", "peak -1"} <= set(texts)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("{:g}", "wavelength or channel, as in the header"),
        ("{:g} nm", "wavelength or channel (nm)"),
        ("w{:g}", "number of the mixture"),
    ],
)
def test_the_axis_of_the_spectra_has_a_title(tmp_path, problem, name, title):
    _, wavelengths, X = problem
    x = write_csv(tmp_path / "x.csv", [name.format(w) for w in wavelengths], X[:300])
    separate(x, "--sources", 3, "--method", "batch", "--report", tmp_path / "page.html")
    assert title in polylines((tmp_path / "page.html").read_text(), "spectrum of each source")[1]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 60), (400, 700), (0.001, 0.0011), (-3, 1e6), (4000.0, 4000.5)])
def test_ticks_are_few_and_inside(low, high):
    ticks = nice_ticks(low, high)
    assert 3 <= len(ticks) <= 8
    slack = 1e-6 * (high - low)
    assert low - slack <= ticks[0] and ticks[-1] <= high + slack
    assert np.allclose(np.diff(ticks), ticks[1] - ticks[0])


# ---------------------------------------------------------------------------------------------- counted from 1


class Said:
    """A diagnosis that says these sentences."""

    def __init__(self, *sentences):
        self.sentences = list(sentences)


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        ("output 0 is negative throughout", "output 1 is negative throughout"),
        ("outputs 0 and 9 are correlated (0.30)", "outputs 1 and 10 are correlated (0.30)"),
        ("outputs 0, 1 and 3 have variance 9", "outputs 1, 2 and 4 have variance 9"),
        ("is negative, 0.2 in output 4: the weights", "is negative, 0.2 in output 5: the weights"),
        ("mixture 2 is constant", "mixture 3 is constant"),
        ("7 mixtures (0, 1, 2, 3, 4, ...) are constant", "7 mixtures (1, 2, 3, 4, 5, ...) are constant"),
        ("sample 0 holds 99 % of", "sample 1 holds 99 % of"),
        ("3 samples (0, 1, 2) hold", "3 samples (1, 2, 3) hold"),
        ("outside of the 3 outputs: try n_components=4", "outside of the 3 outputs: try n_components=4"),
        ("200 samples are few to judge by: pass 300", "200 samples are few to judge by: pass 300"),
    ],
)
def test_sentences_count_outputs_mixtures_and_samples_from_one(said, printed):
    assert from_one(Said(said)) == [printed]


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        ('n_components="auto" is unsure: it takes 3', "--sources auto is unsure: it takes 3"),
        ("compare the results of n_components=3 and 4", "compare the results of --sources 3 and 4"),
        ("remove them, or use BatchNICA.", "remove them, or use --method batch."),
        ("set horizon= to the number of samples", "give --horizon N, the number of samples"),
        ("set horizon= or fit again", "give --horizon N or fit again"),
        ("use StreamingNICA(horizon=...).", "give --horizon N."),
        ("try MinimumVolumeCone(normalize='sum').", "try --method cone."),
        ("no mixture: leave it out of X and fit again.", "no mixture: leave it out with --skip and run again."),
        ("remove it from X and fit again, or fit with outliers=0.01.", "remove it from the input and run again."),
    ],
)
def test_parameters_are_options(said, printed):
    assert rephrase(said) == printed


def test_mixtures_are_called_by_their_columns_if_some_columns_are_left_out():
    said = Said("mixtures 0 and 2 are constant, outputs 0 and 1 are correlated")
    assert from_one(said, kept=[1, 2, 6]) == ["columns 2 and 7 are constant, outputs 1 and 2 are correlated"]
    assert from_one(Said("7 mixtures (0, 1, 2, ...) are constant"), kept=[2, 3, 4, 5]) == [
        "7 columns (3, 4, 5, ...) are constant"
    ]


def test_warnings_and_errors_count_from_one_too():
    warning = "MinimumVolumeCone leaves output 0 far more negative than its noise explains (4 times)"
    assert rephrase(warning) == warning.replace("output 0", "output 1")
    error = "StreamingNICA diverged at sample 17: lower n_components"
    assert rephrase(error) == "StreamingNICA diverged at sample 18: lower --sources"


def test_samples_have_no_number_if_not_all_are_judged():
    """The library numbers the rows that it was given."""
    found = Said("sample 4 holds 60 % of", "7 samples (0, 1, 2, 3, 4, ...) hold 60 % of")
    network = bionica.StreamingNICA(2)
    some = verdict(found, network, None, can_resume=False, of_all_samples=False)
    assert some == ["one sample holds 60 % of", "7 samples hold 60 % of"]
    assert verdict(found, network, None, can_resume=False)[0] == "sample 5 holds 60 % of"


def test_what_is_printed_counts_from_one(tmp_path, rng):
    """The third column never varies; two outputs too many never fire or double others."""
    X = rng.exponential(size=(2000, 2)) @ np.array([[1.0, 0.5, 0.0, 0.3], [0.2, 1.0, 0.0, 0.8]])
    X[:, 2] = 5.0
    np.save(tmp_path / "x.npy", X)
    found = json.loads(separate(tmp_path / "x.npy", "--sources", 2, "--method", "streaming", "--json").stdout)
    assert any("mixture 3 is constant" in sentence for sentence in found["diagnosis"]), found["diagnosis"]


def test_with_a_horizon_the_report_shows_the_end(tmp_path, problem):
    np.save(tmp_path / "x.npy", np.tile(problem[2][:, ::20], (2, 1)))
    separate(tmp_path / "x.npy", "--sources", 3, "--horizon", 500, "--report", tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text()
    assert "evenly over the end of the input" in html and ">sample 2,001<" in html and ">sample 3,000<" in html
