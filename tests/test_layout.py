"""How tables are laid out: headers of numbers, axes of wavelengths, indices, decimal commas. Mostly through the command line."""

import io
import json
from contextlib import nullcontext

import numpy as np
import pytest
from typer.testing import CliRunner

from bionica.cli import app
from bionica.io import Columns, InputError, TextFormat, TextReader, open_reader
from bionica.io.evenly_spaced import evenly_rising, is_evenly_spaced
from bionica.io.readers.columns import leading_index
from bionica.io.readers.layout import is_axis
from bionica.metrics import match_sources

WAVELENGTHS = np.arange(400.0, 424.0)


def spectra(n=300, d=3, wavelengths=WAVELENGTHS, seed=0):
    """Return concentrations with zeros and the spectra that they mix to, in 5 digits."""
    rng = np.random.default_rng(seed)
    S = rng.exponential(size=(n, d)) * (rng.random((n, d)) < 0.6)
    place = np.linspace(0, 1, len(wavelengths))
    pure = np.exp(-((place - np.linspace(0.1, 0.9, d)[:, np.newaxis]) ** 2) / 0.05)
    return S, np.round(S @ pure + 0.001 * rng.random((n, len(wavelengths))), 5)


def text(X, separator=","):
    return "".join(separator.join(map(repr, row)) + "\n" for row in np.asarray(X).tolist())


def separate(*arguments, fed=None, code=0):
    result = CliRunner().invoke(app, ["separate", *map(str, arguments)], input=fed)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def found(path, *arguments, fed=None):
    """Return what the command found, as JSON, and the sources."""
    result = separate(path, "--sources", 3, "--json", "--force", "-o", "-", *arguments, fed=fed)
    lines = [line for line in result.stdout.splitlines() if not line.startswith("source")]
    return json.loads(result.stderr), np.loadtxt(lines, delimiter=",")


def correlation(S, Y):
    """Return the correlation of the source that is recovered worst."""
    matched = Y[:, match_sources(S, Y)[0]]
    return min(np.corrcoef(s, y)[0, 1] for s, y in zip(S.T, matched.T, strict=True))


def read(path, **how):
    with open_reader([str(path)], **how) as reader:
        return np.concatenate(list(reader.blocks())), reader


# ---------------------------------------------------------------------------------------------- first lines


@pytest.mark.parametrize(
    "wavelengths",
    [
        WAVELENGTHS,
        WAVELENGTHS[::-1],
        np.linspace(400, 700, 24).round(1),
        1e7 / np.linspace(400, 700, 24),  # wavenumbers
        np.array([412, 443, 490, 510, 560, 620, 665, 681, 709, 754, 779, 865, 885, 1020.0]),
    ],
    ids=["even", "falling", "rounded", "wavenumbers", "bands"],
)
@pytest.mark.parametrize("form", ["{:.2f}", "{:.0f}"])
def test_a_first_line_of_wavelengths_is_a_header(tmp_path, wavelengths, form):
    S, X = spectra(wavelengths=wavelengths)
    x = tmp_path / "x.csv"
    x.write_text(",".join(map(form.format, wavelengths)) + "\n" + text(X))
    summary, Y = found(x)
    assert (summary["samples"], summary["mixtures"], summary["sources"]) == (300, len(wavelengths), 3)
    assert "was read as the names of the columns, their wavelengths for instance: --no-header" in summary["notes"][0]
    assert correlation(S, Y) > 0.99
    data, reader = read(x)
    assert np.array_equal(data, X)
    assert np.allclose(reader.axis_values, wavelengths, atol=0.5)
    assert reader.header[0] == form.format(wavelengths[0])
    assert found(x, "--no-header")[0]["samples"] == 301


def test_a_header_is_what_the_user_says(tmp_path):
    _, X = spectra()
    (tmp_path / "x.csv").write_text(text(X))
    data, reader = read(tmp_path / "x.csv", header=True)
    assert np.array_equal(data, X[1:])
    assert np.array_equal(reader.axis_values, X[0])
    assert found(tmp_path / "x.csv", "--header")[0]["samples"] == 299
    (tmp_path / "y.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="line 1, column 1: 'a' is not a number"):
        read(tmp_path / "y.csv", header=False)
    np.save(tmp_path / "x.npy", X)
    assert "omit it" in separate(tmp_path / "x.npy", "--header", code=1).stderr
    separate("-", "--columns", 3, "--no-header", code=2, fed=b"")


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("corner", ["", "sample", "Unnamed: 0"])
def test_wavelengths_beside_the_name_of_an_index(tmp_path, corner, quote):
    _, X = spectra(n=30)
    names = [corner, *(f"{value:.1f}" for value in WAVELENGTHS)]
    rows = [[i, *row] for i, row in enumerate(X.tolist(), 1)]
    (tmp_path / "x.csv").write_text(",".join(f"{quote}{name}{quote}" for name in names) + "\n" + text_of(rows))
    data, reader = read(tmp_path / "x.csv")
    assert np.array_equal(data, X)
    assert np.array_equal(reader.axis_values, WAVELENGTHS)
    assert any("--no-header" in note for note in reader.notes) == (corner == "")


def text_of(rows):
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def test_names_that_are_no_numbers_are_no_axis(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,c\n1,3,2\n2,1,9\n")
    assert read(tmp_path / "x.csv")[1].axis_values is None
    (tmp_path / "x.csv").write_text("nan,inf,1\n1,3,2\n2,1,9\n")
    assert read(tmp_path / "x.csv", header=True)[1].axis_values is None


def test_a_pipe_has_headers_too():
    _, X = spectra()
    header = ",".join(map(str, WAVELENGTHS)) + "\n"
    summary, Y = found("-", fed=header + text(X))
    assert (summary["samples"], len(Y)) == (300, 300)
    assert found("-", "--no-header", fed=header + text(X))[0]["samples"] == 301


@pytest.mark.parametrize("cut", [1, 7, 100_000])
def test_a_first_line_that_rises_waits_for_the_second_and_no_longer(cut):
    for first, header in (("1,2,3,4,5", True), ("1,2,3,4,4", False)):
        data = io.BytesIO(f"{first}\n3,1,4,1,5\n9,2,6,5,3\n".encode())
        reader = TextReader("x", lambda data=data: nullcontext(lambda n: data.read(cut)), repeatable=False)
        blocks = list(reader.blocks())
        assert sum(map(len, blocks)) == 3 - header
        assert bool(reader.header) == header
    pieces = iter([b"1,3,2,4,5\n", b"", b"1,2,3,4,5\n", b""])
    reader = TextReader("x", lambda: nullcontext(lambda n: next(pieces)), repeatable=False)
    assert next(reader.blocks()).tolist() == [[1, 3, 2, 4, 5]]  # before the second line is asked for
    assert next(pieces) == b""
    assert [block.tolist() for block in reader.blocks()] == [[[1, 2, 3, 4, 5]]]  # alone it is a sample


def test_first_samples_that_rise_are_samples():
    """The share of random rows that the rule of `layout` takes for an axis."""
    rng = np.random.default_rng(0)
    taken = np.zeros(3)
    for n in range(3, 11):
        for _ in range(250):  # made to rise: of random rows, 2 in n! do
            uniform, counts = rng.random((2, n)), rng.poisson(20, (2, n)).astype(float)
            decays = rng.exponential(size=(2, 1)) * np.exp(-np.arange(n) / 4) + 0.01 * rng.standard_normal((2, n))
            for kind, (first, second) in enumerate((uniform, counts, decays)):
                taken[kind] += is_axis(np.sort(first)[::-1].tolist(), second.tolist())
    assert (taken <= [0, 6, 30]).all(), taken


def test_the_next_line_rises_likewise():
    assert not is_axis([1.0, 2, 3, 4, 5], [6.0, 7, 8, 9, 10])
    assert not is_axis([100.0, 200, 400, 800, 1600, 3200], [1.0, 2, 4, 8, 16, 31])
    assert is_axis([100.0, 200, 400, 800, 1600, 3200], [1.0, 2, 4, 3, 2, 1])
    assert not is_axis([100.0, 200, 300], [1.0, 3, 2])
    assert not is_axis([1.0, 2, 3, 4, None], [1.0, 3, 2, 1, 1])
    assert not is_axis([1.0, 2, 3, 4, 5], [1.0, 3, 2, 1])


def test_a_line_that_may_be_an_axis_is_noted(tmp_path):
    for first in ("450,550,650", ",".join(map(str, np.arange(10) ** 2))):
        n = first.count(",") + 1
        (tmp_path / "x.csv").write_text(first + "\n" + text(np.random.default_rng(0).random((9, n))))
        data, reader = read(tmp_path / "x.csv")
        assert len(data) == 10
        assert "was read as a sample: --header if it holds the wavelengths" in reader.notes[0]


def test_one_column_whose_name_has_spaces(tmp_path):
    for name in ("my signal", '"my signal"', "signal 2"):
        (tmp_path / "x.csv").write_text(f"{name}\n1\n2\n4\n")
        data, reader = read(tmp_path / "x.csv")
        assert data.tolist() == [[1], [2], [4]]
        assert reader.header == [name.strip('"')]


# ---------------------------------------------------------------------------------------------- samples in columns


@pytest.mark.parametrize(
    "names",
    [
        None,
        ["wavelength", *(f"s{i}" for i in range(300))],
        ["", *map(str, range(300))],
        ["nm", *map(str, range(1, 301))],
    ],
    ids=["none", "words", "numbers", "word and numbers"],
)
@pytest.mark.parametrize("wavelengths", [WAVELENGTHS, WAVELENGTHS[::-1], 1e7 / WAVELENGTHS])
def test_an_index_column_of_wavelengths_with_axis_1(tmp_path, names, wavelengths):
    S, X = spectra()
    first = "" if names is None else ",".join(names) + "\n"
    x = tmp_path / "x.csv"
    x.write_text(first + text(np.column_stack([wavelengths, X.T])))
    summary, Y = found(x, "--axis", 1)
    assert (summary["samples"], summary["mixtures"]) == (300, 24)
    assert any("was read as the names of the mixtures, their wavelengths" in note for note in summary["notes"])
    assert correlation(S, Y) > 0.99
    data, reader = read(x, axis=1)
    assert np.array_equal(data, X)
    assert np.array_equal(reader.axis_values, wavelengths)
    with open_reader([str(x)], axis=1) as reader:
        assert np.array_equal(reader.sample(300), X)
        assert np.array_equal(reader.sample(10), X[::32])
    assert np.array_equal(read(x, axis=1, columns=Columns("1,3"))[0], X[:, [0, 2]])
    if names is None:
        assert len(read(x, axis=1, header=False)[0]) == 301


def test_words_in_the_first_column_with_axis_1(tmp_path):
    _, X = spectra()
    rows = [[f"channel {i}", *row] for i, row in enumerate(X.T.tolist())]
    for first in ("", "name," + ",".join(f"s{i}" for i in range(300)) + "\n"):
        (tmp_path / "x.csv").write_text(first + text_of(rows))
        data, reader = read(tmp_path / "x.csv", axis=1)
        assert np.array_equal(data, X)
        assert reader.column(1) == "column 2 (channel 1)"


def test_the_times_of_samples_in_columns_are_no_mixture(tmp_path):
    _, X = spectra()
    np.save(tmp_path / "x.npy", np.vstack([0.1 * np.arange(300), X.T]))
    data, reader = read(tmp_path / "x.npy", axis=1)
    assert np.array_equal(data, X)
    assert "column 1 rises evenly" in reader.notes[0]


# ---------------------------------------------------------------------------------------------- evenly rising columns


def with_time(path, times, X, names=None):
    table = np.column_stack([times, X])
    if path.suffix == ".npy":
        np.save(path, table)
    elif path.suffix == ".npz":
        np.savez(path, table)
    elif path.suffix == ".h5":
        with pytest.importorskip("h5py").File(path, "w") as file:
            file["x"] = table
    elif path.suffix == ".zarr":
        pytest.importorskip("zarr").create_array(str(path), data=table)
    elif path.suffix == ".parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({f"c{j}": column for j, column in enumerate(table.T)}), path)
    else:
        path.write_text((",".join(names) + "\n" if names else "") + text(table))
    return path


@pytest.mark.parametrize("times", [np.arange(300), np.arange(300) / 30, np.round(np.arange(300) / 30, 3) + 5])
@pytest.mark.parametrize("suffix", ["csv", "npy", "npz", "h5", "zarr", "parquet"])
def test_a_first_column_that_rises_evenly_is_left_out(tmp_path, suffix, times):
    S, X = spectra()
    x = with_time(tmp_path / f"x.{suffix}", times, X)
    data, reader = read(x)
    assert np.array_equal(data, X)
    assert "column 1" in reader.notes[0] and "rises evenly" in reader.notes[0] and "--use 1-25" in reader.notes[0]
    assert np.array_equal(read(x, columns=Columns("1-25"))[0], np.column_stack([times, X]))
    assert np.array_equal(read(x, columns=Columns(None, "2"))[0], X[:, 1:])
    if suffix in ("csv", "npy"):
        summary, Y = found(x)
        assert (summary["mixtures"], summary["sources"]) == (24, 3)
        assert correlation(S, Y) > 0.99
        assert found(x, "--use", "1-25")[0]["mixtures"] == 25


def test_time_and_row_numbers_are_left_out_together(tmp_path):
    _, X = spectra()
    table = np.column_stack([np.arange(300), np.arange(300) / 10, X])
    np.save(tmp_path / "x.npy", table)
    data, reader = read(tmp_path / "x.npy")
    assert np.array_equal(data, X)
    assert "columns 1, 2 rise evenly" in reader.notes[0]
    np.save(tmp_path / "y.npy", table[:, :2])  # if all do, none is an index
    assert read(tmp_path / "y.npy")[0].shape == (300, 2)


def test_a_pipe_leaves_out_what_is_named_a_time(tmp_path):
    _, X = spectra()
    for name in ("time", "Time (s)", "index", "timestamp"):
        names = [name, *(f"c{j}" for j in range(24))]
        fed = ",".join(names) + "\n" + text(np.column_stack([np.arange(300), X]))
        summary, _ = found("-", fed=fed)
        assert summary["mixtures"] == 24
        assert f"the first column is named {name!r}" in summary["notes"][0]
        assert found("-", "--use", "1-25", fed=fed)[0]["mixtures"] == 25
    (tmp_path / "x.csv").write_text("time,a,b\nnoon,1,2\none,4,3\n")
    assert read(tmp_path / "x.csv")[0].tolist() == [[1, 2], [4, 3]]


def test_what_rises_evenly():
    rng = np.random.default_rng(0)
    t = np.arange(40.0)
    X = np.column_stack([
        t, -t, 400 - 0.5 * t, np.round(t / 30, 3), t / 7 + 1e6, t.astype(np.float32) * np.float32(0.1),
        t**2, np.ones(40), t + 0.01 * rng.standard_normal(40), np.round(t / 10 + 0.003 * rng.standard_normal(40), 4),
        rng.random(40), np.sort(rng.random(40)), np.where(t == 5, np.nan, t), np.where(t == 5, np.inf, t),
    ])  # fmt: skip
    assert evenly_rising(X) == [0, 1, 2, 3, 4, 5]
    assert evenly_rising(X[:7]) == []
    assert evenly_rising(X.astype(np.float32)[:, :4]) == [0, 1, 2, 3]
    assert evenly_rising(np.arange(2e6, dtype=np.float32)[:, np.newaxis] * np.float32(0.1)) == [0]
    assert evenly_rising(np.arange(8)[:, np.newaxis]) == [0]
    noise = np.finfo(float).eps * rng.integers(0, 2, (40, 3))
    assert evenly_rising(1 + noise) == []  # constants, to rounding
    assert evenly_rising(np.full((9, 2), 1e308) * [[1, -1]]) == []
    assert is_evenly_spaced([1, 2, 3]) and not is_evenly_spaced([1, 2]) and not is_evenly_spaced([1, 2, 4])


UNEVEN = np.cumsum(np.random.default_rng(1).uniform(0.5, 1.5, 300))
GAPS = np.delete(np.arange(1, 302), 99)


@pytest.mark.parametrize("times", [UNEVEN, -UNEVEN, GAPS], ids=["rises", "falls", "row numbers with a gap"])
@pytest.mark.parametrize("suffix", ["csv", "npy", "npz", "h5", "zarr", "parquet"])
def test_a_first_column_that_alone_rises_or_falls_is_left_out(tmp_path, suffix, times):
    S, X = spectra()
    x = with_time(tmp_path / f"x.{suffix}", times, X)
    data, reader = read(x)
    assert np.array_equal(data, X)
    assert "column 1" in reader.notes[0]
    assert f"{'falls' if times[0] < 0 else 'rises'} from row to row, like a time or a row number" in reader.notes[0]
    assert np.array_equal(read(x, columns=Columns("1-25"))[0], np.column_stack([times, X]))
    if suffix == "csv":
        summary, Y = found(x)
        assert (summary["mixtures"], summary["sources"]) == (24, 3)
        assert correlation(S, Y) > 0.99


def test_which_rising_columns_are_left_out():
    X = np.random.default_rng(0).random((300, 3))

    def left_out(*columns, n=300, names=None):
        return leading_index(np.column_stack(columns)[:n], names)

    assert left_out(UNEVEN, X, n=20) == [0]
    assert left_out(UNEVEN, X, n=19) == []
    assert left_out(np.arange(300) ** 2, X, n=8) == [0]  # whole numbers
    assert left_out(np.arange(300) ** 2, X, n=7) == []
    assert left_out(-(np.arange(300) ** 2), X, n=8) == []
    assert left_out(X, UNEVEN) == []  # not the first
    assert left_out(UNEVEN, X, UNEVEN) == []  # another one rises too
    assert left_out(np.arange(300), UNEVEN, X) == [0, 1]
    assert left_out(np.arange(300), X, UNEVEN) == [0]
    assert left_out(GAPS, UNEVEN, X) == [0, 1]
    assert left_out(UNEVEN, UNEVEN**2, X) == []
    assert left_out(UNEVEN, X, names=["400", "401.5", "402", "403"]) == []  # the first is a wavelength too
    assert left_out(UNEVEN, X, names=["400 nm", "399 nm", "397 nm", "396 nm"]) == []
    for names in (["t", "400", "401", "402"], list("0123"), list("1234"), list("abcd")):
        assert left_out(UNEVEN, X, names=names) == [0]
    assert left_out(UNEVEN, X[:, 0]) == []  # one mixture would be left
    assert left_out(UNEVEN, UNEVEN**2, np.sqrt(UNEVEN)) == []
    assert left_out(np.where(np.arange(300) == 7, np.nan, UNEVEN), X) == []


@pytest.mark.parametrize(("k", "most"), [(3, (0.03, 0.16)), (6, (0.02, 0.05)), (20, (0.01, 0.01))])
def test_smooth_mixtures_are_seldom_taken_for_a_time(k, most):
    """The share of chromatograms and of reaction kinetics A -> B -> C, without noise, whose first mixture is left out."""
    rng, t, n = np.random.default_rng(0), np.linspace(0, 1, 20)[:, np.newaxis], 300
    taken = np.zeros(2)
    for _ in range(n):
        peaks = np.exp(-(((t - rng.random(3)) / rng.uniform(0.05, 0.3, 3)) ** 2))
        shapes = np.exp(-(((np.linspace(0, 1, k) - rng.random((3, 1))) / rng.uniform(0.1, 0.4)) ** 2))
        a, b = rng.uniform(0.5, 20, 2)
        first, second = np.exp(-a * t), a / (b - a) * (np.exp(-a * t) - np.exp(-b * t))
        kinetics = np.hstack([first, second, 1 - first - second]) @ rng.random((3, k))
        taken += [bool(leading_index(peaks @ shapes)), bool(leading_index(kinetics))]
    assert (taken / n <= most).all(), taken / n


def test_rows_so_wide_that_few_are_read_at_once_are_enough(tmp_path, monkeypatch):
    _, X = spectra()
    monkeypatch.setattr("bionica.io.readers.text._CHUNK", 100)
    x = with_time(tmp_path / "x.csv", UNEVEN, X)
    assert np.array_equal(read(x)[0], X)
    (tmp_path / "y.csv").write_text(text(np.column_stack([UNEVEN, X])[:30]) + "1,2\n")
    with open_reader([str(tmp_path / "y.csv")]) as reader:
        blocks = []
        with pytest.raises(InputError, match="line 31 has 2 values"):
            blocks.extend(block for block in reader.blocks())
    (tmp_path / "z.csv").write_text(text(np.column_stack([UNEVEN, X])[:3]))
    assert len(read(tmp_path / "z.csv")[0]) == 3


# ---------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["sample", "Zeit"], [GAPS, UNEVEN]),
        (["n", "t"], [GAPS, UNEVEN]),
        (["who", "when"], [[f"P{i:03}" for i in range(300)], [f"12:{i // 60:02}:{i % 60:02}" for i in range(300)]]),
        (["a", "b", "c"], [[f"P{i:03}" for i in range(300)], np.arange(300), UNEVEN]),
        (["sample", "clock"], [GAPS, [f"12:{i // 60:02}:{i % 60:02}" for i in range(300)]]),
    ],
)
def test_words_before_the_wavelengths(tmp_path, names, labels, decimal):
    S, X = spectra()
    rows = [[*map(str, row[:-1]), *map(repr, row[-1].tolist())] for row in zip(*labels, X, strict=True)]
    lines = [[*names, *map(str, WAVELENGTHS)], *rows]
    content = "".join(";".join(row) + "\n" for row in lines)
    x = tmp_path / "x.csv"
    x.write_text(content.replace(".", decimal))
    data, reader = read(x, decimal=decimal)
    assert np.array_equal(data, X)
    assert np.array_equal(reader.axis_values, WAVELENGTHS)
    summary, Y = found(x, "--decimal", decimal)
    assert summary["samples"] == 300
    assert correlation(S, Y) > 0.99


def test_a_first_line_with_words_is_told_of_the_header(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,2,1,3\n1,2,3,1,5\n2,4,5,2,1\n")
    with pytest.raises(
        InputError, match=r"line 1, column 1: 'a' is not a number: if the first line holds .* pass --header"
    ):
        read(tmp_path / "x.csv")
    assert read(tmp_path / "x.csv", header=True)[0].shape == (2, 5)
    with pytest.raises(InputError, match="omit --no-header"):
        read(tmp_path / "x.csv", header=False)
    assert "pass --header" in separate("-", "--sources", 2, fed="a,b,2,1,3\n1,2,3,1,5\n", code=1).stderr
    (tmp_path / "x.csv").write_text("1,2,3\n1,x,3\n2,4,5\n")
    with pytest.raises(InputError, match="line 2, column 2: 'x' is not a number: correct it"):
        read(tmp_path / "x.csv")


@pytest.mark.parametrize("first", ["", "name,a,b,c\n"])
@pytest.mark.parametrize("cut", [1, 100_000])
def test_a_first_column_of_text_holds_labels(first, cut):
    rows = "".join(f"P{i:03},{i % 7},{i % 5},{i % 3}\n" for i in range(40))
    for repeatable in (True, False):
        data = io.BytesIO((first + rows).encode())
        reader = TextReader("x", lambda data=data: nullcontext(lambda n: data.read(cut)), repeatable=repeatable)
        X = np.concatenate(list(reader.blocks()))
        assert X.tolist() == [[i % 7, i % 5, i % 3] for i in range(40)]
        assert len(reader.notes) == 1
        assert "column 1 holds text (P000" in reader.notes[0] and "left out as labels" in reader.notes[0]
        assert reader.kept == [1, 2, 3]


@pytest.mark.parametrize("cell", ["n/a", "", "1,5", "nan"])
def test_a_missing_number_is_no_label(tmp_path, cell):
    (tmp_path / "x.csv").write_text(f"a;b;c\n{cell};1;2\n{cell};2;4\n3;4;5\n")
    with pytest.raises(InputError, match="line 2, column 1"):
        read(tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text("a;b;c\nP1;1;2\n3;2;4\n3;4;5\n")  # not labels: the second is a number
    with pytest.raises(InputError, match="line 2, column 1"):
        read(tmp_path / "x.csv")


@pytest.mark.parametrize("separator", [";", ",", "\t", "|"])
@pytest.mark.parametrize("mark", ["", '"', "\ufeff"])
def test_the_separator_that_a_first_line_announces(tmp_path, separator, mark):
    _, X = spectra()
    quote = mark.strip("\ufeff")
    first = f"{mark}sep={separator}{quote}\r\n"
    header = separator.join(["name", *map(str, WAVELENGTHS)]) + "\r\n"
    rows = "".join(f"P{i}{separator}{separator.join(map(repr, row))}\r\n" for i, row in enumerate(X.tolist()))
    (tmp_path / "x.csv").write_bytes((first + header + rows).encode())
    data, reader = read(tmp_path / "x.csv")
    assert np.array_equal(data, X)
    assert np.array_equal(reader.axis_values, WAVELENGTHS)
    turned = "".join(separator.join(map(repr, row)) + "\r\n" for row in np.column_stack([WAVELENGTHS, X.T]).tolist())
    (tmp_path / "y.csv").write_bytes((first + turned).encode())
    data, reader = read(tmp_path / "y.csv", axis=1)
    assert np.array_equal(data, X)
    assert np.array_equal(reader.axis_values, WAVELENGTHS)
    if separator == ",":
        with pytest.raises(InputError, match="omit --decimal ,"):
            read(tmp_path / "x.csv", decimal=",")


# ---------------------------------------------------------------------------------------------- decimals, folders, cut files


@pytest.mark.parametrize("separator", [";", "\t", " ", "|"])
@pytest.mark.parametrize("arrow", [True, False])
def test_decimal_commas(tmp_path, monkeypatch, separator, arrow):
    monkeypatch.setattr("bionica.io.readers.text._CHUNK", 5000)
    monkeypatch.setattr("bionica.io.readers.lines._ARROW_BYTES", 1000 if arrow else 2**30)
    S, X = spectra()
    header = separator.join(f"{value:.1f}" for value in WAVELENGTHS) + "\n"
    (tmp_path / "x.csv").write_text((header + text(X, separator)).replace(".", ","))
    data, reader = read(tmp_path / "x.csv", decimal=",")
    assert np.array_equal(data, X)
    assert np.array_equal(reader.axis_values, WAVELENGTHS)
    _, Y = found(tmp_path / "x.csv", "--decimal", ",")
    assert correlation(S, Y) > 0.99
    assert found("-", "--decimal", ",", fed=(tmp_path / "x.csv").read_text())[0]["samples"] == 300
    with pytest.raises(InputError, match="pass --decimal ,"):
        read(tmp_path / "x.csv")
    with pytest.raises(InputError, match="are not text"):
        np.save(tmp_path / "x.npy", X)
        read(tmp_path / "x.npy", decimal=",")


def test_one_column_of_decimal_commas(tmp_path):
    (tmp_path / "x.csv").write_text("1,5\n2,5\n0,1\n")
    assert read(tmp_path / "x.csv", decimal=",")[0].tolist() == [[1.5], [2.5], [0.1]]


def test_a_folder_is_said_to_be_one(tmp_path):
    (tmp_path / "scans").mkdir()
    assert "scans is a folder, not a file: give a file" in separate(tmp_path / "scans", code=1).stderr
    (tmp_path / "scans" / "1.png").touch()
    assert "give what is in it: " in separate(tmp_path / "scans", code=1).stderr
    assert "scans/*.png" in separate(tmp_path / "scans", code=1).stderr


def test_a_file_that_may_be_cut_is_noted(tmp_path):
    _, X = spectra()
    (tmp_path / "x.csv").write_text(text(X)[:-3])
    assert "the last line does not end" in found(tmp_path / "x.csv")[0]["notes"][-1]
    assert TextFormat() == TextFormat(None, ".")


def test_names_that_python_reads_as_numbers(tmp_path):
    (tmp_path / "x.csv").write_text("2_1,1_2,3_4\n" + "1,2,3\n4,5,7\n" * 5)
    X, reader = read(tmp_path / "x.csv")
    assert X.shape == (10, 3) and reader.header == ["2_1", "1_2", "3_4"]


@pytest.mark.parametrize(
    "header", ["Wavelength 400,Wavelength 410,Wavelength 420", "row 1,row 2,row 3", "Date fruit,Apple,Pear"]
)
def test_names_that_begin_like_an_axis_are_mixtures(tmp_path, header):
    rng = np.random.default_rng(0)
    (tmp_path / "x.csv").write_text(header + "\n" + "\n".join(",".join(map(str, row)) for row in rng.random((30, 3))))
    assert read(tmp_path / "x.csv")[0].shape == (30, 3)


@pytest.mark.parametrize(("name", "cell"), [("glucose", "0.3"), ("", "")])
def test_words_or_nothing_behind_the_wavelengths(tmp_path, name, cell):
    rows = np.random.default_rng(0).random((30, 6))
    lines = [f"400,402,404,406,408,410,{name}", *(",".join(map(str, row)) + f",{cell}" for row in rows)]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    X, reader = read(tmp_path / "x.csv", columns=Columns(None, "7"))
    assert np.allclose(X, rows) and np.array_equal(reader.axis_values, np.arange(400, 411, 2))
