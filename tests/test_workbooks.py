"""MATLAB's .mat files and .xlsx workbooks: what is read, what is refused, and that neither can do harm."""

import json
import struct
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.io
from typer.testing import CliRunner

from bionica.cli import app
from bionica.io import Columns, InputError, open_reader
from bionica.metrics import permutation_error
from conftest import mixtures

WAVELENGTHS = np.linspace(400, 700, 8)


@pytest.fixture
def X(rng):
    return rng.random((50, 8)).round(6)


def read(path, **how):
    with open_reader([str(path)], **how) as reader:
        return np.concatenate(list(reader.blocks())), reader


def refused(path, **how):
    with pytest.raises(InputError) as error:
        read(path, **how)
    assert "\n" not in str(error.value)
    return str(error.value)


# ---------------------------------------------------------------------------------------------- MATLAB


@pytest.mark.parametrize("how", [{}, {"do_compression": True}, {"long_field_names": True}])
def test_the_only_matrix_of_a_mat_file_is_read(tmp_path, X, how):
    scipy.io.savemat(tmp_path / "x.mat", {"X": X, "n": 3.0, "wavelength": WAVELENGTHS}, **how)
    assert np.array_equal(read(tmp_path / "x.mat")[0], X)
    assert np.array_equal(read(tmp_path / "x.mat", axis=1)[0], X.T)
    assert np.array_equal(read(tmp_path / "x.mat", columns=Columns("2-3"))[0], X[:, 1:3])
    assert read(tmp_path / "x.mat", dataset="wavelength")[0].shape == (1, 8)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int16", "bool"])
def test_every_kind_of_number_in_a_mat_file(tmp_path, X, dtype):
    scipy.io.savemat(tmp_path / "x.mat", {"X": (9 * X).astype(dtype)})
    assert np.array_equal(read(tmp_path / "x.mat")[0], (9 * X).astype(dtype))


def test_several_matrices_are_listed(tmp_path, X):
    cell = np.empty((2, 2), object)
    cell[:] = "word"
    scipy.io.savemat(tmp_path / "x.mat", {"X": X, "Y": 2 * X, "names": cell, "s": {"a": X}, "z": X + 1j})
    assert "choose one with --dataset, of X, Y" in refused(tmp_path / "x.mat")
    assert np.array_equal(read(tmp_path / "x.mat", dataset="Y")[0], 2 * X)
    assert "has no array 'no': there are X, Y, names, s, z" in refused(tmp_path / "x.mat", dataset="no")
    assert "names is of class cell; matrices of numbers are: X, Y" in refused(tmp_path / "x.mat", dataset="names")
    assert "is of class struct" in refused(tmp_path / "x.mat", dataset="s")
    assert "not real numbers" in refused(tmp_path / "x.mat", dataset="z")
    scipy.io.savemat(tmp_path / "y.mat", {"names": cell})
    assert "holds no array" in refused(tmp_path / "y.mat")


def test_a_time_in_a_mat_file_is_left_out(tmp_path, X):
    scipy.io.savemat(tmp_path / "x.mat", {"X": np.column_stack([np.arange(50) / 10, X])})
    data, reader = read(tmp_path / "x.mat")
    assert np.array_equal(data, X)
    assert "rises evenly" in reader.notes[0]


def matlab_7_3(path, **arrays):
    """Write what MATLAB writes: HDF5 after 512 bytes of header, every matrix as its transpose."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, (array, kind) in arrays.items():
            file[name] = array.T
            file[name].attrs["MATLAB_class"] = np.bytes_(kind)
    data = bytearray(path.read_bytes())
    data[:20] = b"MATLAB 7.3 MAT-file,"
    path.write_bytes(data)


def test_version_7_3(tmp_path, X, monkeypatch):
    word = np.frombuffer("spectra".encode("utf-16-le"), np.uint16)[np.newaxis].repeat(2, 0)
    matlab_7_3(
        tmp_path / "x.mat", X=(X, "double"), n=(np.ones((1, 1)), "double"), word=(word, "char"),
    )  # fmt: skip
    assert np.array_equal(read(tmp_path / "x.mat")[0], X)
    assert np.array_equal(read(tmp_path / "x.mat", axis=1)[0], X.T)
    assert "has no array 'word': there are X, n" in refused(tmp_path / "x.mat", dataset="word")
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    assert "reading MATLAB 7.3 files, which are HDF5, needs the package h5py" in refused(tmp_path / "x.mat")


@pytest.mark.parametrize("compressed", [False, True])
def test_mat_files_agree_with_scipy(tmp_path, rng, compressed):
    """Every class and shape, also those of which the numbers are inside a tag."""
    arrays = {
        f"{dtype}_{rows}_{columns}": rng.integers(0, 99, (rows, columns)).astype(dtype)
        for dtype in ("float64", "float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
        for rows, columns in ((1, 1), (1, 3), (2, 2), (40, 3))
    }
    word = np.array(["word"])
    scipy.io.savemat(tmp_path / "x.mat", {"first": word, **arrays, "last": {"a": 1}}, do_compression=compressed)
    for name, array in arrays.items():
        assert np.array_equal(read(tmp_path / "x.mat", dataset=name)[0], array)
        assert np.array_equal(read(tmp_path / "x.mat", dataset=name, axis=1)[0], array.T)
    assert "there are first, float64_1_1" in refused(tmp_path / "x.mat", dataset="no")


def test_a_big_endian_mat_file(tmp_path, X):
    def part(kind, data):
        return struct.pack(">II", kind, len(data)) + data + bytes(-len(data) % 8)

    head = part(6, struct.pack(">II", 6, 0)) + part(5, struct.pack(">ii", *X.shape)) + part(1, b"X")
    matrix = part(14, head + part(9, X.astype(">f8").tobytes("F")))
    (tmp_path / "x.mat").write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI" + matrix)
    assert np.array_equal(read(tmp_path / "x.mat")[0], X)
    assert np.array_equal(scipy.io.loadmat(tmp_path / "x.mat")["X"], X)


@pytest.mark.parametrize("compressed", [False, True])
def test_broken_mat_files_are_refused(tmp_path, X, compressed, monkeypatch):
    x = tmp_path / "x.mat"
    scipy.io.savemat(x, {"X": X}, do_compression=compressed)
    data = x.read_bytes()
    for cut in (0, 3, 100, 128, 130, 200, len(data) // 2, len(data) - 1):
        x.write_bytes(data[:cut])
        refused(x)
    scipy.io.savemat(x, {"X": X}, format="4")
    assert "one of MATLAB 4: save it with save(..., '-v7')" in refused(x)
    x.write_bytes(data)
    if compressed:
        monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=200))
        assert "has less space" in refused(x)
        return
    for old, new, message in (
        (np.int32([50, 8]), [2**30, 2**30], "has 3,200 bytes of numbers; its shape is (1073741824, 1073741824)"),
        (np.int32([50, 8]), [-50, 8], "cannot be read as mat data (a variable has the shape (-50, 8))"),
        (
            np.int32([9, 3200]),
            [255, 3200],
            "the unknown type 255",
        ),  # with which SciPy 1.17 can end in a segmentation fault
        (np.int32([5, 8]), [5, 2**30], "a part of type 5 and 1073741824 bytes"),
    ):
        assert data.count(old.tobytes()) == 1
        x.write_bytes(data.replace(old.tobytes(), np.int32(new).tobytes()))
        assert message in refused(x)
    x.write_bytes(data[:128] + bytes(8) * 20_000)
    assert "holds no array" in refused(x)
    x.write_bytes(data[:128] + data[128:] * 10_002)
    assert "more than 10,000 variables" in refused(x)


# ---------------------------------------------------------------------------------------------- workbooks


def workbook(path, rows, sheet="data", **others):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = sheet
    for row in rows:
        book.active.append(row)
    for name, values in others.items():
        other = book.create_sheet(name)
        for row in values:
            other.append(row)
    book.save(path)
    return path


def test_a_sheet_is_read_as_text_is(tmp_path, X):
    x = workbook(tmp_path / "x.xlsx", [WAVELENGTHS.tolist(), *X.tolist()], second=(2 * X).tolist())
    data, reader = read(x)
    assert np.array_equal(data, X)
    assert np.allclose(reader.axis_values, WAVELENGTHS)
    assert "--no-header" in reader.notes[0]
    assert read(x, header=False)[0].shape == (51, 8)
    assert np.array_equal(read(x, dataset="second")[0], 2 * X)
    assert np.array_equal(read(x, columns=Columns("1,3"))[0], X[:, [0, 2]])
    assert "has no sheet 'third': there are data, second" in refused(x, dataset="third")
    named = workbook(
        tmp_path / "y.xlsx", [["time (s)", '#"a"', "b\tc", *"defghi"], *([i, *row] for i, row in enumerate(X.tolist()))]
    )
    data, reader = read(named)
    assert np.array_equal(data, X)
    assert reader.header[:3] == ["time (s)", "#'a'", "b c"]
    turned = workbook(
        tmp_path / "z.xlsx", [["nm", *(f"s{i}" for i in range(50))], *np.column_stack([WAVELENGTHS, X.T]).tolist()]
    )
    data, reader = read(turned, axis=1)
    assert np.array_equal(data, X)
    assert np.allclose(reader.axis_values, WAVELENGTHS)


def test_names_and_clock_times_in_front_are_labels(tmp_path, X):
    from datetime import datetime, timedelta

    start = datetime(2024, 5, 1, 12)
    rows = [[f"P{i:03}", start + timedelta(seconds=i), *row] for i, row in enumerate(X.tolist())]
    for header in ([], [["sample", "clock", *WAVELENGTHS.tolist()]]):
        data, reader = read(workbook(tmp_path / "x.xlsx", [*header, *rows]))
        assert np.array_equal(data, X)
        assert "left out as labels" in "".join(reader.notes)


def test_blank_rows_empty_cells_and_words(tmp_path, X):
    rows = X.tolist()
    assert np.array_equal(read(workbook(tmp_path / "x.xlsx", [[], *rows[:3], [], [None] * 12, *rows[3:]]))[0], X)
    rows[4][2] = None
    assert "line 5, column 3: is empty" in refused(workbook(tmp_path / "y.xlsx", rows))
    rows[4][2] = "n/a"
    assert "line 5, column 3: 'n/a' is not a number" in refused(workbook(tmp_path / "y.xlsx", rows))
    rows[4][2:] = [1.0] * 7
    assert "line 5 has 9 values where 8" in refused(workbook(tmp_path / "y.xlsx", rows))
    assert "holds no sample" in refused(workbook(tmp_path / "z.xlsx", []))
    assert read(workbook(tmp_path / "one.xlsx", [["my signal, in volts"], [1], [2], [4]]))[0].tolist() == [
        [1],
        [2],
        [4],
    ]
    assert read(workbook(tmp_path / "kinds.xlsx", [[True, 2**40], [False, 0.1]]))[0].tolist() == [[1, 2**40], [0, 0.1]]


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "x.xlsx").touch()
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    assert "reading .xlsx needs the package openpyxl: pip install 'bionica[io]'" in refused(tmp_path / "x.xlsx")


def changed(path, part, change):
    """Rewrite or add one part of a workbook."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[part] = change(parts.get(part, b""))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def test_workbooks_that_would_do_harm_are_refused(tmp_path, X):
    sheet = "xl/worksheets/sheet1.xml"

    def fresh():
        return workbook(tmp_path / "x.xlsx", X.tolist())

    entity = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    assert "a document type" in refused(changed(fresh(), sheet, lambda data: entity + data))
    assert "not UTF-8" in refused(changed(fresh(), sheet, lambda data: data.decode().encode("utf-16")))
    wide = b'<c r="A1"><v>1</v></c>' * 300_000
    assert "has a row of more than 4 MiB" in refused(
        changed(fresh(), sheet, lambda data: data.replace(b"</row>", wide + b"</row>", 1))
    )
    assert "sharedStrings.xml' is 40 MiB unpacked" in refused(
        changed(fresh(), "xl/sharedStrings.xml", lambda _: bytes(40 << 20))
    )
    data = fresh().read_bytes()
    for cut in (0, 10, 500, len(data) - 30):
        (tmp_path / "x.xlsx").write_bytes(data[:cut])
        refused(tmp_path / "x.xlsx")
    assert "cannot be read as xlsx data" in refused(changed(fresh(), sheet, lambda data: data[: len(data) // 2]))


# ---------------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize("suffix", ["mat", "xlsx"])
def test_they_are_separated_into_a_csv(tmp_path, suffix):
    S, X = mixtures(400, 3, 5)
    x = tmp_path / f"x.{suffix}"
    if suffix == "mat":
        scipy.io.savemat(x, {"X": X})
    else:
        workbook(x, [list("abcde"), *X.tolist()])
    result = CliRunner().invoke(app, ["separate", str(x), "--sources", "3", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["output"] == [str(tmp_path / "x-sources.csv")]
    assert permutation_error(S, read(tmp_path / "x-sources.csv")[0]) < 1e-2
