"""Readers and writers with real files: every format there and back, choice of columns,
labels, broken bytes, bounded rows.
"""

import itertools
import sys
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import bionica
from bionica.io import InputError, RowSample, import_optional, open_reader, open_writer
from conftest import left, read, write

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")
arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pillow = pytest.importorskip("PIL.Image")
tifffile = pytest.importorskip("tifffile")
openpyxl = pytest.importorskip("openpyxl")

MATRICES = [".npy", ".npz", ".csv", ".tsv", ".txt", ".parquet", ".h5", ".hdf5", ".zarr"]
WAVELENGTHS = np.linspace(400, 700, 8)


@pytest.fixture
def X(rng):
    return rng.standard_normal((1000, 3))


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 128 samples, so that small files have several."""
    monkeypatch.setattr("bionica.io.reader.block_rows", lambda k: 128)
    monkeypatch.setattr("bionica.io.text._CHUNK", 2000)


def refused(*paths, **how):
    with pytest.raises(InputError) as error:
        read(*paths, **how)
    assert "\n" not in str(error.value)
    return str(error.value)


# --- there and back


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("suffix", [*MATRICES, ".NPY", ".NPZ"])
def test_what_is_written_is_read_and_sampled(tmp_path, X, suffix, dtype, small_blocks):
    X = X.astype(dtype)
    path = write(tmp_path / f"x{suffix}", X)
    assert left(tmp_path) == [path.name]
    Y = read(path)
    assert Y.flags.c_contiguous
    assert np.array_equal(Y.astype(dtype), X)
    assert Y.dtype == dtype or suffix in (".csv", ".tsv", ".txt")
    with open_reader(path) as reader:
        sample, _ = reader.sample(100)
        assert (reader.n_samples, reader.n_features) == (1000, 3)
    rows = [np.flatnonzero((X == row).all(axis=1))[0] for row in sample.astype(dtype)]
    assert (np.array(rows) // 16).tolist() == [*range(63)]  # one of each stratum


def test_a_first_mixture_that_rises_or_falls_is_a_mixture(tmp_path, X, rng):
    """A ramp, a decay and a count are data unless their name says otherwise."""
    for first in (
        np.arange(1000.0),
        np.exp(-np.arange(1000) / 300),
        np.cumsum(rng.random(1000)),
    ):
        Y = np.column_stack([first, X])
        np.save(tmp_path / "x.npy", Y)
        scipy.io.savemat(tmp_path / "x.mat", {"X": Y})
        parquet.write_table(
            arrow.table(dict(zip("ABCD", Y.T, strict=True))), tmp_path / "x.parquet"
        )
        lines = "".join(",".join(map(repr, row)) + "\n" for row in Y.tolist())
        (tmp_path / "x.csv").write_text("A,B,C,D\n" + lines)
        (tmp_path / "x.txt").write_text(lines)
        for suffix in ("npy", "mat", "parquet", "csv", "txt"):
            assert np.array_equal(read(tmp_path / f"x.{suffix}"), Y)


# --- columns and labels


@pytest.mark.parametrize("suffix", MATRICES)
def test_columns_are_chosen_in_every_format(tmp_path, X, suffix, small_blocks):
    X[5, 1] = np.nan  # a column that is not read may hold anything
    path = write(tmp_path / f"x{suffix}", X)
    for columns, kept in (
        ({"use": "1,3"}, [0, 2]),
        ({"skip": "1-2"}, [2]),
        ({"use": "1-2", "skip": "2"}, [0]),
    ):
        assert np.array_equal(read(path, **columns), X[:, kept])
    for use in ("4", "0", "3-2", "9" * 5000):
        assert "has no column" in refused(path, use=use)
    assert "has no column" in refused(path, skip="no")
    assert "no column is left" in refused(path, skip="1-3")


def test_labels_are_kept_beside_the_samples_and_written_again(
    tmp_path, X, small_blocks
):
    times = [f"{t / 10:.1f}" for t in range(1000)]
    table = {
        "time": np.arange(1000) / 10,
        "a": X[:, 0],
        "name": [f"s,{i}" for i in range(1000)],
        "b": X[:, 1],
    }
    parquet.write_table(arrow.table(table), tmp_path / "x.parquet")
    rows = zip(times, X[:, 0].tolist(), table["name"], X[:, 1].tolist(), strict=True)
    (tmp_path / "x.csv").write_text(
        "time,a,name,b\n" + "".join(f'{t},{a!r},"{n}",{b!r}\n' for t, a, n, b in rows)
    )
    for suffix, other in itertools.product(["csv", "parquet"], repeat=2):
        path = tmp_path / f"y-{suffix}.{other}"
        with (
            open_reader(tmp_path / f"x.{suffix}") as reader,
            open_writer(
                path,
                2,
                float,
                label_names=reader.label_names,
                label_types=reader.label_types,
            ) as writer,
        ):
            assert (reader.names, reader.label_names, len(reader.notes)) == (
                ["a", "b"],
                ["time", "name"],
                1,
            )
            sample, labels = reader.sample(100)
            rows = [table["name"].index(name) for name in labels[1]]
            assert (np.array(rows) // 16).tolist() == [*range(63)]
            assert np.array_equal(sample, X[rows, :2])
            for block, labels in reader.labelled_blocks():
                writer.write(block, labels)
        with open_reader(path) as again:
            assert np.array_equal(again.read(), X[:, :2])
            assert again.label_names == ["time", "name"]
            _, labels = again.sample(1000)
        assert [float(t) for t in labels[0]] == [t / 10 for t in range(1000)]
        assert list(labels[1]) == table["name"]
    for skip in ("name", None):
        with open_reader(tmp_path / "x.csv", use="time,a", skip=skip) as reader:
            assert (reader.names, reader.label_names) == (["time", "a"], ["name"])


def test_a_dark_level_is_subtracted_and_saturated_cells_are_missing(tmp_path):
    counts = np.array([[100, 110, 4095], [130, 100, 200]], np.uint16)
    np.save(tmp_path / "x.npy", counts)
    with open_reader(
        tmp_path / "x.npy", offset=100, saturated=4095, missing=True
    ) as reader:
        np.testing.assert_array_equal(reader.read(), [[0, 10, np.nan], [30, 0, 100]])
        assert reader.n_missing == 1
    with pytest.raises(InputError, match="saturated=4095 makes cells missing"):
        open_reader(tmp_path / "x.npy", saturated=4095)


def test_names_and_labels_are_never_formulas(tmp_path):
    with open_writer(
        tmp_path / "y.csv", 1, float, label_names=["=1+1"], names=["@a"]
    ) as writer:
        writer.write(np.ones((3, 1)), [["=2", "-3", "+A1"]])
    assert (tmp_path / "y.csv").read_text() == "'=1+1,'@a\n'=2,1.0\n-3,1.0\n'+A1,1.0\n"


def test_a_column_of_a_table_that_varies_as_a_mixture_is_one_whatever_its_name(
    tmp_path, X
):
    parquet.write_table(
        arrow.table({"id": np.arange(len(X)), "NO": X[:, 0], "b": X[:, 1]}),
        tmp_path / "x.parquet",
    )
    with open_reader(tmp_path / "x.parquet") as reader:
        assert (reader.names, reader.label_names) == (["NO", "b"], ["id"])
        assert "column 2 (NO) (skip=" in reader.notes[-1]
    parquet.write_table(
        arrow.table({"a": X[:, 0], "class": np.arange(len(X)) % 3, "b": X[:, 1]}),
        tmp_path / "y.parquet",
    )
    with open_reader(tmp_path / "y.parquet") as reader:
        assert reader.notes == [
            "unlike the others, and read as a mixture: column 2 (class) (skip="
            " omits it)"
        ]


# --- arrays


def test_what_a_file_says_of_its_numbers_is_named(tmp_path, X):
    """Missing values by a number, an offset: numbers are read as stored, with a word."""
    counts = np.rint(1000 * np.abs(X[:60])).astype(np.int16)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = counts
        file["x"].attrs.update(
            {"_FillValue": -9999, "add_offset": 0.5, "units": "counts"}
        )
    stored = zarr.open_group(str(tmp_path / "x.zarr"), mode="w").create_array(
        "x", shape=counts.shape, dtype=counts.dtype
    )
    stored[:] = counts
    stored.attrs.update({"_FillValue": -9999, "add_offset": 0.5, "units": "counts"})
    image = {
        "planarconfig": "contig",
        "photometric": "minisblack",
        "extratags": [(42113, "s", 0, "-9999", True)],
    }
    tifffile.imwrite(tmp_path / "x.tif", counts.reshape(6, 10, 3), **image)
    stated = "_FillValue = -9999, add_offset = 0.5"
    for suffix, said in (
        ("h5", stated),
        ("zarr", stated),
        ("tif", "missing_value = -9999"),
    ):
        found, notes = read_with_notes(tmp_path / f"x.{suffix}")
        assert np.array_equal(found, counts)
        assert notes == [f"its numbers are read as stored, and it says {said}"]


def matlab_7_3(path, **arrays):
    """Write what MATLAB writes: HDF5 after 512 bytes of header, every matrix as its
    transpose.
    """
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, (array, kind) in arrays.items():
            file[name] = array.T
            file[name].attrs["MATLAB_class"] = np.bytes_(kind)
    data = bytearray(path.read_bytes())
    data[:128] = b"MATLAB 7.3 MAT-file,".ljust(124) + b"\0\2IM"
    path.write_bytes(data)


def test_the_only_matrix_among_arrays_is_read_and_several_are_listed(tmp_path, X):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["time"] = np.arange(1000)
        file["group/data"] = X
        file["name"] = "an instrument"
    group = zarr.open_group(str(tmp_path / "x.zarr"), mode="w")
    for name, array in (("time", X[:, 0]), ("group/data", X)):
        group.create_array(name, shape=array.shape, dtype=array.dtype)[:] = array
    scipy.io.savemat(
        tmp_path / "x.mat",
        {"time": X[:, 0], "data": X, "n": 3.0, "name": "word", "s": {"a": X}},
    )
    scipy.io.savemat(tmp_path / "sparse.mat", {"S": scipy.sparse.csc_matrix(X)})
    assert "S is a sparse matrix" in refused(tmp_path / "sparse.mat")
    for suffix in ("h5", "zarr", "mat"):
        with open_reader(tmp_path / f"x.{suffix}") as reader:
            assert np.array_equal(reader.read(), X)
            (note,) = reader.notes
        assert note.startswith(
            f"the array {'data' if suffix == 'mat' else 'group/data'} was read, and"
            " left out: "
        )
        assert "time" in note
    # the table beside a cube is not what is meant
    with h5py.File(tmp_path / "cube.h5", "w") as file:
        file["cube"] = np.ones((5, 6, 7))
        file["calibration"] = X
    assert "cube" in refused(tmp_path / "cube.h5")
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["first"] = X
        file["group/second"] = 2 * X
    np.savez(tmp_path / "y.npz", first=X, second=2 * X)
    scipy.io.savemat(tmp_path / "y.mat", {"first": X, "second": 2 * X})
    matlab_7_3(
        tmp_path / "z.mat",
        first=(X, "double"),
        second=(2 * X, "double"),
        word=(X.astype("u2"), "char"),
    )
    for name, second in (
        ("y.h5", "group/second"),
        ("y.npz", "second"),
        ("y.mat", "second"),
        ("z.mat", "second"),
    ):
        assert np.array_equal(read(tmp_path / name, dataset=second), 2 * X)
        for how in ({"dataset": "third"}, {"dataset": "word"}, {}):
            assert f"first, {second}" in refused(tmp_path / name, **how)
    assert np.array_equal(read(tmp_path / "z.mat", dataset="first", axis=1), X.T)


def test_a_large_chunk_is_decoded_once(tmp_path, rng, monkeypatch):
    """One chunk holds all samples of all mixtures."""
    monkeypatch.setattr("bionica.io.reader.block_rows", lambda k: 128)
    X = rng.random((4, 5000))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=X.shape, compression="gzip")
        file["names"] = [["no", "number"], ["is", "here"]]
    reads = []
    get = h5py.Dataset.__getitem__
    monkeypatch.setattr(
        h5py.Dataset,
        "__getitem__",
        lambda self, index: (reads.append(index), get(self, index))[1],
    )
    with open_reader(tmp_path / "x.h5", axis=1) as reader:
        blocks = list(reader.blocks())
    assert len(blocks) == 40
    assert np.array_equal(np.concatenate(blocks), X.T)
    assert len(reads) == 1


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(5), "mixtures are a matrix"),
        (np.ones((2, 2, 2, 2)), "mixtures are a matrix"),
        (np.ones((0, 3)), "not empty"),
        (np.ones((4, 2), complex), "not real numbers"),
        (np.array([["a", "b"]]), "not real numbers"),
        (np.array([[None, 1]]), "bject"),
        (np.ones((3, 2), [("a", float)]), "not real numbers"),
        (np.array([[1.0, 2], [3, np.nan]]), "sample 2, column 2 is nan"),
    ],
)
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_arrays_that_are_no_mixtures(tmp_path, array, message, kind):
    path = tmp_path / f"x.{kind}"
    (np.save if kind == "npy" else np.savez)(path, array)
    assert message in refused(path)


def test_missing_labels_of_a_table_are_written_as_they_were(tmp_path, small_blocks):
    labels = {
        "id": [2**60, *[None] * 299],
        "name": [*[None] * 299, "a"],
        "row": [*[None] * 299, 2**60],
    }
    labels["time"] = arrow.array(
        [2**60 + 1, *[None] * 299], arrow.timestamp("ns", "UTC")
    )
    table = arrow.table({**labels, "x": np.arange(300.0), "y": np.ones(300)})
    parquet.write_table(table, tmp_path / "x.parquet")
    with open_reader(tmp_path / "x.parquet") as reader:
        form = {
            "label_names": reader.label_names,
            "label_types": reader.label_types,
            "names": ["x", "y"],
        }
        with open_writer(tmp_path / "y.parquet", 2, float, **form) as writer:
            for block, beside in reader.labelled_blocks():
                writer.write(block, beside)
    assert parquet.read_table(tmp_path / "y.parquet") == table


def test_rows_of_a_table_are_counted_from_1(tmp_path):
    parquet.write_table(
        arrow.table({"a": [1.0, None], "b": [1, 2]}), tmp_path / "x.parquet"
    )
    assert "sample 2, column 1 (a)" in refused(tmp_path / "x.parquet")
    parquet.write_table(
        arrow.table({"a": [[1.0], [2.0]], "b": [1, 2]}), tmp_path / "x.parquet"
    )
    assert read(tmp_path / "x.parquet").tolist() == [[1], [2]]
    assert "not numbers" in refused(tmp_path / "x.parquet", use="a")


def test_names_that_cannot_be_read(tmp_path, monkeypatch):
    assert "does not exist" in refused(tmp_path / "no.npy")
    (tmp_path / "x.xyz").write_text("1")
    assert "unknown suffix '.xyz'" in refused(tmp_path / "x.xyz")
    for name in ("folder.npy", "folder"):
        (tmp_path / name).mkdir()
        assert "is a folder" in refused(tmp_path / name)
    (tmp_path / "folder" / "1.png").touch()
    assert f"{tmp_path / 'folder' / '*.png'} (1)" in refused(tmp_path / "folder")
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("1,2\n")
    assert "not all images" in refused(tmp_path / "a.csv", tmp_path / "b.csv")
    for how in ({"dataset": "x"}, {"optical_density": True}):
        assert "omit it" in refused(tmp_path / "a.csv", **how)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(
        InputError, match=r"needs the package h5py: pip install 'bionica\[io\]'"
    ):
        import_optional("h5py", "reading HDF5")


# --- workbooks


def workbook(path, rows, **others):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for name, values in others.items():
        other = book.create_sheet(name)
        for row in values:
            other.append(row)
    book.save(path)
    return path


def changed(path, part, change):
    """Rewrite one part of a workbook."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[part] = change(parts[part])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def test_a_sheet_is_read_as_text_is(tmp_path, rng):
    X = rng.random((50, 8)).round(6)
    x = workbook(
        tmp_path / "x.xlsx",
        [WAVELENGTHS.tolist(), *X.tolist()],
        second=(2 * X).tolist(),
    )
    with open_reader(x) as reader:
        assert np.array_equal(reader.read(), X)
        assert np.allclose(reader.wavelengths, WAVELENGTHS)
        assert (
            reader.notes[1]
            == "the sheet Sheet was read, and left out: second (dataset= reads another)"
        )
    assert np.array_equal(read(x, dataset="second", header=False), 2 * X)
    assert "there are Sheet, second" in refused(x, dataset="third")
    rows = [
        ["time (s)", '#"a"', "b\tc", *"defghi"],
        *([i, *row] for i, row in enumerate(X.tolist())),
    ]
    with open_reader(workbook(tmp_path / "y.xlsx", rows)) as reader:
        assert np.array_equal(reader.read(), X)
        assert (reader.label_names, reader.names[:2]) == (["time (s)"], ["#'a'", "b c"])
    rows = X.tolist()
    assert np.array_equal(
        read(
            workbook(tmp_path / "x.xlsx", [[], *rows[:3], [], [None] * 12, *rows[3:]])
        ),
        X,
    )
    for cells in ([None], ["n/a"], [1.0] * 7):
        rows[4][2 : 2 + len(cells)] = cells
        assert "line 5" in refused(workbook(tmp_path / "y.xlsx", rows))
    assert read(
        workbook(tmp_path / "x.xlsx", [[True, 2**40], [False, 0.1]])
    ).tolist() == [[1, 2**40], [0, 0.1]]


def test_a_hidden_sheet_is_read_only_if_it_is_named(tmp_path, rng):
    X = rng.random((9, 3)).round(6)
    x = workbook(tmp_path / "x.xlsx", (2 * X).tolist(), shown=X.tolist())
    changed(
        x,
        "xl/workbook.xml",
        lambda data: data.replace(b'state="visible"', b'state="hidden"', 1),
    )
    with open_reader(x) as reader:
        assert np.array_equal(reader.read(), X)
        assert reader.notes[-1].startswith(
            "the sheet shown was read, and left out: Sheet (hidden)"
        )
    assert np.array_equal(read(x, dataset="Sheet"), 2 * X)
    assert "left out: shown (dataset=" in refused(
        workbook(tmp_path / "y.xlsx", [["made by"]], shown=X.tolist())
    )


def test_a_stale_dimension_cuts_nothing(tmp_path, rng):
    X = rng.random((50, 8)).round(6)
    x = workbook(tmp_path / "x.xlsx", X.tolist())
    sheet = "xl/worksheets/sheet1.xml"
    assert np.array_equal(
        read(
            changed(
                x, sheet, lambda data: data.replace(b'ref="A1:H50"', b'ref="A1:C20"')
            )
        ),
        X,
    )


# --- images


def test_images_are_mixtures(tmp_path, rng):
    images = rng.integers(0, 256, (3, 20, 30), dtype=np.uint8)
    names = [tmp_path / f"{i}.png" for i in range(3)]
    for name, image in zip(names, images, strict=True):
        pillow.fromarray(image).save(name)
    with open_reader(names) as reader:
        assert reader.image_shape == (20, 30)
        assert np.array_equal(reader.read(), images.reshape(3, -1).T)
        assert reader.names == ["mixture_1", "mixture_2", "mixture_3"]
    with open_reader(names, skip="1") as reader:  # counted as in the report
        assert (reader.names, reader.column(0)) == (
            ["mixture_2", "mixture_3"],
            "column 2 (mixture_2)",
        )
    for channels in (3, 4):  # transparency is left out, colours are samples
        colours = rng.integers(0, 256, (2, 6, 7, channels), dtype=np.uint8)
        for name, image in zip(names, colours, strict=False):
            pillow.fromarray(image).save(name)
        with open_reader(names[:2]) as reader:
            assert reader.image_shape == (6, 7, 3)
            assert np.array_equal(reader.read(), colours[..., :3].reshape(2, -1).T)
            assert len(reader.notes) == 2 * (channels == 4) + 1
            assert "each colour of a pixel a sample" in reader.notes[-1]
        with open_reader(names[0]) as reader:
            assert reader.notes == ["its transparency was left out"] * (channels == 4)
    pillow.fromarray(images[0]).save(names[0])
    assert "(20, 30): give images of one shape" in refused(*names)
    assert "one mixture" in refused(names[0])
    assert "is given twice" in refused(names[0], names[1], names[0])


@pytest.mark.parametrize(
    "form", [{"imagej": True}, {"ome": True}, {"bitspersample": 1}]
)
def test_all_pages_of_a_tiff_are_mixtures(tmp_path, rng, form):
    images = rng.random((4, 20, 80)) < 0.5
    images = images if "bitspersample" in form else images.astype(np.uint8)
    tifffile.imwrite(
        tmp_path / "x.tif",
        images,
        photometric="minisblack",
        metadata={"axes": "CYX"},
        **form,
    )
    assert np.array_equal(read(tmp_path / "x.tif"), images.reshape(4, -1).T)


@pytest.mark.parametrize("bands", [3, 5])
@pytest.mark.parametrize("planar", ["contig", "separate"])
def test_the_bands_of_one_image_are_mixtures(tmp_path, rng, bands, planar):
    image = rng.integers(0, 2**32, (20, 30, bands), dtype=np.uint32)
    stored = image if planar == "contig" else np.moveaxis(image, 2, 0)
    kind = "rgb" if bands == 3 else "minisblack"
    tifffile.imwrite(tmp_path / "x.tif", stored, photometric=kind, planarconfig=planar)
    with open_reader(tmp_path / "x.tif") as reader:
        assert reader.image_shape == (20, 30)
        assert np.array_equal(reader.read(), image.reshape(-1, bands))


def test_colours_are_read_as_they_are_shown(tmp_path, rng):
    """A palette is applied, an orientation too or it is named, transparency is named,
    and CMYK is refused.
    """
    image = pillow.fromarray(rng.integers(0, 256, (6, 7, 3), dtype=np.uint8))
    few = image.quantize(8)
    shown = np.asarray(few.convert("RGB"))
    few.save(tmp_path / "few.png", transparency=0)
    few.save(tmp_path / "few.tif")
    X, notes = read_with_notes(tmp_path / "few.png")
    assert np.array_equal(X, shown.reshape(-1, 3))
    assert notes == ["its transparency was left out"]
    X, notes = read_with_notes(tmp_path / "few.tif")
    # the palette of a TIFF has 16 bits
    assert np.array_equal(X // 256, shown.reshape(-1, 3))
    assert "palette" in notes[0]
    image.convert("CMYK").save(tmp_path / "x.tif")
    assert "SEPARATED: save it as RGB" in refused(tmp_path / "x.tif")
    exif = image.getexif()
    exif[274] = 6  # to be turned by 90 degrees
    image.save(tmp_path / "x.png", exif=exif)
    with open_reader(tmp_path / "x.png") as reader:
        assert reader.image_shape == (7, 6)
        assert np.array_equal(
            reader.read(), np.rot90(np.asarray(image), -1).reshape(-1, 3)
        )
        assert "orientation" in reader.notes[0]
    tifffile.imwrite(
        tmp_path / "x.tif", np.asarray(image), extratags=[(274, "H", 1, 6, True)]
    )
    assert "orientation (6)" in read_with_notes(tmp_path / "x.tif")[1][0]


def read_with_notes(path):
    with open_reader(path) as reader:
        return reader.read(), reader.notes


def test_names_of_channels_and_the_size_of_a_pixel_are_those_of_ome(tmp_path, rng):
    pages = rng.random((2, 20, 30)).astype(np.float32)
    names = ["DAPI", "GFP"]
    form = {
        "axes": "CYX",
        "Channel": {"Name": names},
        "PhysicalSizeX": 0.5,
        "PhysicalSizeXUnit": "µm",
    }
    form |= {"PhysicalSizeY": 250, "PhysicalSizeYUnit": "nm"}
    tifffile.imwrite(
        tmp_path / "x.ome.tif", pages, photometric="minisblack", metadata=form
    )
    with open_reader(tmp_path / "x.ome.tif") as reader:
        assert (reader.names, reader.notes) == (names, [])
        assert np.allclose(reader.pixel_size, (0.25, 0.5))
        for path in (tmp_path / "y.tif", tmp_path / "y.ome.tif"):
            with open_writer(
                path, 2, float, (20, 30), pixel_size=reader.pixel_size, names=["a", "b"]
            ) as writer:
                writer.write(reader.read())
            with tifffile.TiffFile(path) as file:
                assert np.allclose(file.pages[0].get_resolution("MICROMETER"), (2, 4))
    with open_reader(tmp_path / "y.ome.tif") as reader:
        assert reader.names == ["a", "b"]
        assert np.allclose(reader.pixel_size, (0.25, 0.5))
        assert np.array_equal(reader.read(), pages.reshape(2, -1).T)


def test_lines_of_an_image_in_pages_are_named(tmp_path, rng):
    tifffile.imwrite(
        tmp_path / "x.tif",
        rng.random((40, 40, 6)).astype("f4"),
        photometric="minisblack",
    )
    X, notes = read_with_notes(tmp_path / "x.tif")
    assert X.shape == (240, 40)
    assert "40 pages of 40 x 6 pixels are read as mixtures" in notes[0]


def test_transmitted_light_becomes_optical_density(tmp_path, rng):
    """Two stains on a slide: the light of each colour falls off exponentially with
    their amounts (Lambert and Beer).
    """
    amounts = rng.random((40, 50, 2)) * (rng.random((40, 50, 2)) < 0.7)
    amounts[0, 0] = 0.0
    absorbance = amounts @ np.array([[0.6, 0.7, 0.3], [0.1, 0.9, 0.2]])
    light = 10.0**-absorbance
    pillow.fromarray(np.rint(255 * light).astype(np.uint8)).save(tmp_path / "x.png")
    tifffile.imwrite(tmp_path / "x.tif", light, photometric="rgb")
    for name in ("x.png", "x.tif"):
        X = read(tmp_path / name, optical_density=True)
        assert X.min() >= 0
        assert np.allclose(
            X, absorbance.reshape(-1, 3), atol=0.05 if name == "x.png" else 1e-9
        )


def test_16_bit_integers_are_not_cut_and_mixed_types_are_exact(tmp_path, rng):
    deep = rng.integers(0, 2**16, (20, 30), dtype=np.uint16)
    wide = rng.integers(2**31, 2**32, (20, 30), dtype=np.uint32)
    pillow.fromarray(deep).save(tmp_path / "x.png")
    tifffile.imwrite(tmp_path / "x.tif", wide)
    assert np.array_equal(
        read(tmp_path / "x.png", tmp_path / "x.tif"),
        np.stack([deep, wide]).reshape(2, -1).T,
    )
    # Pillow reads 16-bit colours as 8 bits.
    data = bytearray((tmp_path / "x.png").read_bytes())
    data[25] = 2
    (tmp_path / "rgb.png").write_bytes(data)
    assert "16 bits" in refused(tmp_path / "rgb.png")


@pytest.mark.parametrize("shape", [(20, 30), (20, 30, 3)])
def test_sources_become_images(tmp_path, rng, shape):
    Y = rng.random((int(np.prod(shape)), 2))
    write(tmp_path / "y.tif", Y, shape)
    assert np.array_equal(
        tifffile.imread(tmp_path / "y.tif").reshape(2, -1).T, Y.astype(np.float32)
    )
    for suffix in ("png", "jpg"):
        write(tmp_path / f"y.{suffix}", Y, shape)
        for i in range(2):
            image = np.asarray(pillow.open(tmp_path / f"y-{i + 1}.{suffix}"))
            assert image.shape == shape
            if suffix == "png":
                assert np.allclose(
                    image.ravel() / image.max(), Y[:, i] / Y[:, i].max(), atol=1 / 255
                )
    assert left(tmp_path) == ["y-1.jpg", "y-1.png", "y-2.jpg", "y-2.png", "y.tif"]


# --- all or nothing


@pytest.mark.parametrize("suffix", [*MATRICES, ".png", ".tif"])
def test_an_error_leaves_nothing_and_keeps_the_old_file(tmp_path, X, suffix):
    shape = (20, 50)
    write(tmp_path / f"x{suffix}", X, shape)
    before = left(tmp_path)
    # a folder is not replaced
    error = FileExistsError if suffix == ".zarr" else RuntimeError
    with (
        pytest.raises(error),
        open_writer(tmp_path / f"x{suffix}", 3, X.dtype, shape) as writer,
    ):
        writer.write(X)
        raise RuntimeError
    assert left(tmp_path) == before


# --- broken bytes


def test_a_broken_zarr_store_is_refused(tmp_path, X, rng):
    path = write(tmp_path / "x.zarr", X)
    for file in [file for file in path.rglob("*") if file.is_file()]:
        data = file.read_bytes()
        for spoilt in (b"", rng.bytes(50), data[: len(data) // 2]):
            file.write_bytes(spoilt)
            refused(path)
        file.write_bytes(data)
    assert np.array_equal(read(path), X)


# --- samples of a stream


def test_samples_of_a_stream_do_not_depend_on_its_cuts(rng):
    X = np.arange(10_007.0)[:, np.newaxis]
    whole = RowSample(100)
    pieces = RowSample(100)
    assert len(whole.sample()[0]) == 0
    whole.add(X)
    for piece in np.split(X, np.sort(rng.integers(0, len(X), 50))):
        pieces.add(piece)
    rows = whole.sample()[0]
    assert np.array_equal(pieces.sample()[0], rows)
    assert np.array_equal(rows[:, 0] // 128, np.arange(79))  # one of each stratum
    # anywhere in it, not in its stride
    assert set(range(0, 128, 16)) <= {*(rows[:, 0] % 128 // 16 * 16)}
    assert whole.n_seen == pieces.n_seen == len(X)


def test_a_workbook_of_sources_holds_numbers_and_no_formula(tmp_path, monkeypatch):
    path = tmp_path / "y.xlsx"
    with bionica.io.open_writer(path, 2, float, label_names=["name"]) as writer:
        writer.write(np.array([[0.1, 2.0]]), [["=1+1"]])
        writer.write(np.array([[np.nan, 1e-300]]), [["b"]])
    sheet = openpyxl.load_workbook(path)["sources"]
    assert [[cell.value for cell in row] for row in sheet.rows] == [
        ["name", "source_1", "source_2"],
        ["=1+1", 0.1, 2.0],
        ["b", None, 1e-300],
    ]
    assert sheet["A2"].data_type == "s"
    for names, first in (
        (["400.5", "410", "420"], 400.5),
        (["400 nm", "410 nm", "420 nm"], "400 nm"),
    ):
        path = tmp_path / f"{first}.xlsx"
        with bionica.io.open_writer(
            path, 3, float, names=names, label_names=[""], array="spectra"
        ) as writer:
            writer.write(np.ones((1, 3)), [["a"]])
        assert (
            openpyxl.load_workbook(path)["spectra"]["B1"].value == first
        )  # wavelengths, from which charts take their axis
    monkeypatch.setattr("bionica.io.write._SHEET", (2, 5))
    with (
        pytest.raises(bionica.io.OutputError, match="at most 2 rows"),
        bionica.io.open_writer(tmp_path / "z.xlsx", 2, float) as writer,
    ):
        writer.write(np.ones((2, 2)))
    assert not (tmp_path / "z.xlsx").exists()


@pytest.mark.parametrize("imagej", [False, True])
def test_depths_and_times_are_not_silently_mixtures(tmp_path, rng, imagej):
    pages = rng.random((2, 3, 8, 9)).astype("f4")
    name = tmp_path / ("x.tif" if imagej else "x.ome.tif")
    tifffile.imwrite(
        name, pages, imagej=imagej, photometric="minisblack", metadata={"axes": "ZCYX"}
    )
    with pytest.raises(
        InputError,
        match="its 6 pages are 2 depths and 1 times of 3 channels: save one depth",
    ):
        open_reader(name)
    tifffile.imwrite(
        name,
        pages[0],
        imagej=imagej,
        photometric="minisblack",
        metadata={"axes": "ZYX"},
    )
    with open_reader(name) as reader:
        assert (
            "its 3 pages are 3 depths and 1 times, and are read as mixtures"
            in reader.notes
        )


def test_sources_of_an_ome_tiff_are_one(tmp_path, rng):
    from bionica.cli.mixtures import default_output

    assert default_output(tmp_path / "x.ome.tif") == tmp_path / "x-sources.ome.tif"
    assert default_output(tmp_path / "x.ome.TIFF") == tmp_path / "x-sources.ome.TIFF"
    assert default_output(tmp_path / "x.tif") == tmp_path / "x-sources.tif"
    assert default_output(tmp_path / "a.b.jpg") == tmp_path / "a.b-sources.png"
    assert default_output(tmp_path / "red.png", "sources") == tmp_path / "sources.png"
