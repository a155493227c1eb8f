"""Readers and writers with real files: every format there and back, choice of columns,
labels, broken bytes, bounded rows.
"""

import sys
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import bionica
from bionica.io import (
    InputError,
    import_optional,
    open_reader,
    open_writer,
)
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
    with open_reader(path) as reader:
        Y = reader.read()
        sample, _ = reader.sample(100)
        assert (reader.n_samples, reader.n_features) == (1000, 3)
    assert Y.flags.c_contiguous
    assert np.array_equal(Y.astype(dtype), X)
    assert Y.dtype == dtype or suffix in (".csv", ".tsv", ".txt")
    rows = [np.flatnonzero((X == row).all(axis=1))[0] for row in sample.astype(dtype)]
    assert (np.array(rows) // 16).tolist() == [*range(63)]  # one of each stratum


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


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("other", ["csv", "parquet"])
def test_labels_are_kept_beside_the_samples_and_written_again(
    tmp_path, X, small_blocks, suffix, other
):
    times = np.arange(1000) / 10
    names = [f"s,{i}" for i in range(1000)]
    path = tmp_path / f"x.{suffix}"
    if suffix == "parquet":
        table(path, time=times, a=X[:, 0], name=names, b=X[:, 1])
    else:
        rows = zip(times, X[:, 0].tolist(), names, X[:, 1].tolist(), strict=True)
        lines = [f'{t},{a!r},"{name}",{b!r}' for t, a, name, b in rows]
        path.write_text("\n".join(["time,a,name,b", *lines]))
    copied(path, tmp_path / f"y.{other}")
    for file in (path, tmp_path / f"y.{other}"):
        with open_reader(file) as reader:
            assert reader.label_names == ["time", "name"]
            assert np.array_equal(reader.read(), X[:, :2])
            sample, labels = reader.sample(100)
        rows = [names.index(name) for name in labels[1]]
        assert (np.array(rows) // 16).tolist() == [*range(63)]
        assert np.array_equal(sample, X[rows, :2])
        assert [float(time) for time in labels[0]] == times[rows].tolist()
    for skip in ("name", None):
        with open_reader(path, use="time,a", skip=skip) as reader:
            assert (reader.names, reader.label_names) == (["time", "a"], ["name"])


def copied(path, other, **form):
    """Write a file with its labels as another."""
    with open_reader(path) as reader:
        form |= {"label_names": reader.label_names, "label_types": reader.label_types}
        with open_writer(other, reader.n_features, float, **form) as writer:
            for block, labels in reader.labelled_blocks():
                writer.write(block, labels)
    return other


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


# --- arrays


@pytest.mark.parametrize("suffix", ["h5", "zarr", "tif"])
def test_what_a_file_says_of_its_numbers_is_named(tmp_path, X, suffix):
    """Missing values by a number, an offset: numbers are read as stored, and noted."""
    path = tmp_path / f"x.{suffix}"
    counts = np.rint(1000 * np.abs(X[:60])).astype(np.int16)
    stated = {"_FillValue": -9999, "add_offset": 0.5, "units": "counts"}
    said = "_FillValue = -9999, add_offset = 0.5"
    if suffix == "h5":
        with h5py.File(path, "w") as file:
            file["x"] = counts
            file["x"].attrs.update(stated)
    elif suffix == "zarr":
        group = zarr.open_group(str(path), mode="w")
        array = group.create_array("x", shape=counts.shape, dtype=counts.dtype)
        array[:] = counts
        array.attrs.update(stated)
    else:
        said = "missing_value = -9999"
        tags = [(42113, "s", 0, "-9999", True)]
        form = {"planarconfig": "contig", "photometric": "minisblack"}
        tifffile.imwrite(path, counts.reshape(6, 10, 3), extratags=tags, **form)
    found, notes = read_with_notes(path)
    assert np.array_equal(found, counts)
    assert notes == [f"its numbers are read as stored, and it says {said}"]


def stored(path, arrays):
    """Write arrays by their names."""
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
    elif path.suffix == ".zarr":
        group = zarr.open_group(str(path), mode="w")
        for name, array in arrays.items():
            group.create_array(name, data=array)
    elif path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        scipy.io.savemat(path, arrays)


@pytest.mark.parametrize("suffix", ["h5", "zarr", "mat"])
def test_the_only_matrix_among_arrays_is_read(tmp_path, X, suffix):
    path = tmp_path / f"x.{suffix}"
    name = "data" if suffix == "mat" else "group/data"
    others = {
        "h5": {"name": "an instrument"},
        "zarr": {},
        "mat": {"n": 3.0, "name": "word", "s": {"a": X}},
    }
    stored(path, {"time": X[:, 0], name: X, **others[suffix]})
    found, (note,) = read_with_notes(path)
    assert np.array_equal(found, X)
    assert note.startswith(f"the array {name} was read, and left out: ")
    assert "time" in note


def test_a_sparse_matrix_and_a_table_beside_a_cube_are_not_what_is_meant(tmp_path, X):
    scipy.io.savemat(tmp_path / "sparse.mat", {"S": scipy.sparse.csc_matrix(X)})
    assert "S is a sparse matrix" in refused(tmp_path / "sparse.mat")
    with h5py.File(tmp_path / "cube.h5", "w") as file:
        file["cube"] = np.ones((5, 6, 7))
        file["calibration"] = X
    assert "cube" in refused(tmp_path / "cube.h5")


@pytest.mark.parametrize("name", ["y.h5", "y.npz", "y.mat", "matlab_7_3.mat"])
def test_of_several_matrices_one_is_named_or_all_are_listed(tmp_path, X, name):
    path = tmp_path / name
    second = "group/second" if name == "y.h5" else "second"
    if name == "matlab_7_3.mat":
        word = (X.astype("u2"), "char")
        matlab_7_3(path, first=(X, "double"), second=(2 * X, "double"), word=word)
        assert np.array_equal(read(path, dataset="first", axis=1), X.T)
    else:
        stored(path, {"first": X, second: 2 * X})
    assert np.array_equal(read(path, dataset=second), 2 * X)
    for how in ({"dataset": "third"}, {"dataset": "word"}, {}):
        assert f"first, {second}" in refused(path, **how)


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


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(5), "mixtures are a matrix"),
        (np.ones((2, 2, 2, 2)), "mixtures are a matrix"),
        (np.ones((0, 3)), "not empty"),
        (np.ones((4, 2), complex), "not real numbers"),
        (np.array([[None, 1]]), "bject"),
        (np.array([[1.0, 2], [3, np.nan]]), "sample 2, column 2 is nan"),
    ],
)
@pytest.mark.parametrize("save", [np.save, np.savez])
def test_arrays_that_are_no_mixtures(tmp_path, array, message, save):
    path = tmp_path / ("x.npy" if save is np.save else "x.npz")
    save(path, array)
    assert message in refused(path)


def test_missing_labels_of_a_table_are_written_as_they_were(tmp_path, small_blocks):
    none = [None] * 299
    time = arrow.array([2**60 + 1, *none], arrow.timestamp("ns", "UTC"))
    labels = {"id": [2**60, *none], "name": [*none, "a"], "row": [*none, 2**60]}
    x = np.arange(300.0)
    path = table(tmp_path / "x.parquet", **labels, time=time, x=x, y=np.ones(300))
    other = copied(path, tmp_path / "y.parquet", names=["x", "y"])
    assert parquet.read_table(other) == parquet.read_table(path)


def test_names_that_cannot_be_read(tmp_path, monkeypatch):
    assert "does not exist" in refused(tmp_path / "no.npy")
    (tmp_path / "x.xyz").write_text("1")
    assert "unknown suffix '.xyz'" in refused(tmp_path / "x.xyz")
    for name in ("folder.npy", "folder"):
        (tmp_path / name).mkdir()
        assert "is a folder" in refused(tmp_path / name)
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
    rows = X.tolist()
    sheets = [WAVELENGTHS.tolist(), *rows]
    x = workbook(tmp_path / "x.xlsx", sheets, second=(2 * X).tolist())
    with open_reader(x) as reader:
        assert np.array_equal(reader.read(), X)
        assert np.allclose(reader.wavelengths, WAVELENGTHS)
        left_out = "left out: second (dataset= reads another)"
        assert reader.notes[1] == f"the sheet Sheet was read, and {left_out}"
    assert np.array_equal(read(x, dataset="second", header=False), 2 * X)
    assert "there are Sheet, second" in refused(x, dataset="third")
    names = ["time (s)", '#"a"', "b\tc", *"defghi"]
    timed = [[i, *row] for i, row in enumerate(rows)]
    with open_reader(workbook(tmp_path / "y.xlsx", [names, *timed])) as reader:
        assert np.array_equal(reader.read(), X)
        assert (reader.label_names, reader.names[:2]) == (["time (s)"], ["#'a'", "b c"])


def test_empty_rows_of_a_sheet_are_skipped_and_bad_cells_are_named(tmp_path, rng):
    rows = rng.random((50, 8)).round(6).tolist()
    x = tmp_path / "x.xlsx"
    workbook(x, [[], *rows[:3], [], [None] * 12, *rows[3:]])
    assert read(x).tolist() == rows
    workbook(x, [[True, 2**40], [False, 0.1]])
    assert read(x).tolist() == [[1, 2**40], [0, 0.1]]
    for cells in ([None], ["n/a"], [1.0] * 7):
        rows[4][2 : 2 + len(cells)] = cells
        assert "line 5" in refused(workbook(x, rows))


def test_a_hidden_sheet_is_read_only_if_it_is_named(tmp_path, rng):
    X = rng.random((9, 3)).round(6)
    x = workbook(tmp_path / "x.xlsx", (2 * X).tolist(), shown=X.tolist())
    hidden = (b'state="visible"', b'state="hidden"', 1)
    changed(x, "xl/workbook.xml", lambda data: data.replace(*hidden))
    found, notes = read_with_notes(x)
    assert np.array_equal(found, X)
    assert "the sheet shown was read, and left out: Sheet (hidden)" in notes[-1]
    assert np.array_equal(read(x, dataset="Sheet"), 2 * X)
    y = workbook(tmp_path / "y.xlsx", [["made by"]], shown=X.tolist())
    assert "left out: shown (dataset=" in refused(y)


def test_a_stale_dimension_cuts_nothing(tmp_path, rng):
    X = rng.random((50, 8)).round(6)
    x = workbook(tmp_path / "x.xlsx", X.tolist())
    stale = (b'ref="A1:H50"', b'ref="A1:C20"')
    changed(x, "xl/worksheets/sheet1.xml", lambda data: data.replace(*stale))
    assert np.array_equal(read(x), X)


@pytest.fixture
def saved(tmp_path):
    """Save images as numbered PNG files; return their names."""

    def save(images):
        names = [tmp_path / f"{i}.png" for i in range(len(images))]
        for name, image in zip(names, images, strict=True):
            pillow.fromarray(image).save(name)
        return names

    return save


# --- images


def test_images_are_mixtures(saved, rng):
    images = rng.integers(0, 256, (3, 20, 30), dtype=np.uint8)
    names = saved(images)
    with open_reader(names) as reader:
        assert reader.image_shape == (20, 30)
        assert np.array_equal(reader.read(), images.reshape(3, -1).T)
        assert reader.names == ["mixture_1", "mixture_2", "mixture_3"]
    # counted as in the report
    with open_reader(names, skip="1") as reader:
        assert reader.names == ["mixture_2", "mixture_3"]
        assert reader.column(0) == "column 2 (mixture_2)"
    assert "is given twice" in refused(*names[:2], names[0])
    pillow.fromarray(images[0][:9]).save(names[0])
    assert "(9, 30): give images of one shape" in refused(*names)
    assert "one mixture" in refused(names[0])


@pytest.mark.parametrize(("channels", "n_transparent"), [(3, 0), (4, 2)])
def test_colours_of_images_are_samples(saved, rng, channels, n_transparent):
    colours = rng.integers(0, 256, (2, 6, 7, channels), dtype=np.uint8)
    names = saved(colours)
    with open_reader(names) as reader:
        assert reader.image_shape == (6, 7, 3)
        assert np.array_equal(reader.read(), colours[..., :3].reshape(2, -1).T)
        assert len(reader.notes) == n_transparent + 1
        assert "each colour of a pixel a sample" in reader.notes[-1]
    of_one = ["its transparency was left out"] if n_transparent else []
    assert read_with_notes(names[0])[1] == of_one


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


def test_colours_are_read_as_they_are_shown(tmp_path, rng):
    """A palette is applied, an orientation too or it is named, transparency is named,
    and CMYK is refused.
    """
    png = tmp_path / "x.png"
    tif = tmp_path / "x.tif"
    array = rng.integers(0, 256, (6, 7, 3), dtype=np.uint8)
    image = pillow.fromarray(array)
    few = image.quantize(8)
    shown = np.asarray(few.convert("RGB")).reshape(-1, 3)
    few.save(png, transparency=0)
    X, notes = read_with_notes(png)
    assert np.array_equal(X, shown)
    assert notes == ["its transparency was left out"]
    few.save(tif)
    X, notes = read_with_notes(tif)
    # the palette of a TIFF has 16 bits
    assert np.array_equal(X // 256, shown)
    assert "palette" in notes[0]
    image.convert("CMYK").save(tif)
    assert "SEPARATED: save it as RGB" in refused(tif)
    exif = image.getexif()
    exif[274] = 6  # to be turned by 90 degrees
    image.save(png, exif=exif)
    X, notes = read_with_notes(png)
    assert np.array_equal(X, np.rot90(array, -1).reshape(-1, 3))
    assert "orientation" in notes[0]
    tifffile.imwrite(tif, array, extratags=[(274, "H", 1, 6, True)])
    assert "orientation (6)" in read_with_notes(tif)[1][0]


def read_with_notes(path, **how):
    with open_reader(path, **how) as reader:
        return reader.read(), reader.notes


def table(path, **columns):
    parquet.write_table(arrow.table(columns), path)
    return path


def test_names_of_channels_and_the_size_of_a_pixel_are_those_of_ome(tmp_path, rng):
    pages = rng.random((2, 20, 30)).astype(np.float32)
    names = ["DAPI", "GFP"]
    form = {"axes": "CYX", "Channel": {"Name": names}}
    form |= {"PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "µm"}
    form |= {"PhysicalSizeY": 250, "PhysicalSizeYUnit": "nm"}
    first, other = (tmp_path / f"{name}.ome.tif" for name in "xy")
    tifffile.imwrite(first, pages, photometric="minisblack", metadata=form)
    form = {"pixel_size": (0.25, 0.5), "names": names}
    for path in (other, tmp_path / "z.tif"):
        with open_writer(path, 2, float, (20, 30), **form) as writer:
            writer.write(pages.reshape(2, -1).T)
        with tifffile.TiffFile(path) as file:
            assert np.allclose(file.pages[0].get_resolution("MICROMETER"), (2, 4))
    for path in (first, other):
        with open_reader(path) as reader:
            assert (reader.names, reader.notes) == (names, [])
            assert np.allclose(reader.pixel_size, (0.25, 0.5))
            assert np.array_equal(reader.read(), pages.reshape(2, -1).T)


@pytest.mark.parametrize(("name", "atol"), [("x.png", 0.05), ("x.tif", 1e-9)])
def test_transmitted_light_becomes_optical_density(tmp_path, rng, name, atol):
    """Two stains on a slide: the light of each colour falls off exponentially with
    their amounts (Lambert and Beer).
    """
    amounts = rng.random((40, 50, 2)) * (rng.random((40, 50, 2)) < 0.7)
    amounts[0, 0] = 0.0
    absorbance = amounts @ np.array([[0.6, 0.7, 0.3], [0.1, 0.9, 0.2]])
    light = 10.0**-absorbance
    if name == "x.png":
        pillow.fromarray(np.rint(255 * light).astype(np.uint8)).save(tmp_path / name)
    else:
        tifffile.imwrite(tmp_path / name, light, photometric="rgb")
    X = read(tmp_path / name, optical_density=True)
    assert X.min() >= 0
    assert np.allclose(X, absorbance.reshape(-1, 3), atol=atol)


def test_16_bit_integers_are_not_cut_and_mixed_types_are_exact(tmp_path, rng):
    deep = rng.integers(0, 2**16, (20, 30), dtype=np.uint16)
    wide = rng.integers(2**31, 2**32, (20, 30), dtype=np.uint32)
    png = tmp_path / "x.png"
    pillow.fromarray(deep).save(png)
    tifffile.imwrite(tmp_path / "x.tif", wide)
    expected = np.column_stack([deep.ravel(), wide.ravel()])
    assert np.array_equal(read(png, tmp_path / "x.tif"), expected)
    # Pillow reads 16-bit colours as 8 bits.
    data = bytearray(png.read_bytes())
    data[25] = 2
    png.write_bytes(data)
    assert "16 bits" in refused(png)


@pytest.mark.parametrize("shape", [(20, 30), (20, 30, 3)])
def test_sources_become_images(tmp_path, rng, shape):
    Y = rng.random((int(np.prod(shape)), 2))
    for suffix in ("tif", "jpg", "png"):
        write(tmp_path / f"y.{suffix}", Y, shape)
    stored = tifffile.imread(tmp_path / "y.tif").reshape(2, -1).T
    assert np.array_equal(stored, Y.astype(np.float32))
    for i, y in enumerate(Y.T, 1):
        assert np.asarray(pillow.open(tmp_path / f"y-{i}.jpg")).shape == shape
        image = np.asarray(pillow.open(tmp_path / f"y-{i}.png"))
        grey = y.reshape(shape) / y.max()
        assert np.allclose(image / image.max(), grey, atol=1 / 255)
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


def test_a_workbook_of_sources_holds_numbers_and_no_formula(tmp_path):
    path = tmp_path / "y.xlsx"
    with open_writer(path, 2, float, label_names=["name"]) as writer:
        writer.write(np.array([[0.1, 2.0]]), [["=1+1"]])
        writer.write(np.array([[np.nan, 1e-300]]), [["b"]])
    sheet = openpyxl.load_workbook(path)["sources"]
    assert [[cell.value for cell in row] for row in sheet.rows] == [
        ["name", "source_1", "source_2"],
        ["=1+1", 0.1, 2.0],
        ["b", None, 1e-300],
    ]
    assert sheet["A2"].data_type == "s"


def test_a_sheet_that_is_full_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("bionica.io.write._SHEET", (2, 5))
    with (
        pytest.raises(bionica.io.OutputError, match="at most 2 rows"),
        open_writer(tmp_path / "z.xlsx", 2, float) as writer,
    ):
        writer.write(np.ones((2, 2)))
    assert left(tmp_path) == []


@pytest.mark.parametrize("imagej", [False, True])
def test_depths_and_times_are_not_silently_mixtures(tmp_path, rng, imagej):
    pages = rng.random((2, 3, 8, 9)).astype("f4")
    path = tmp_path / ("x.tif" if imagej else "x.ome.tif")
    form = {"imagej": imagej, "photometric": "minisblack"}
    tifffile.imwrite(path, pages, metadata={"axes": "ZCYX"}, **form)
    of = "its 6 pages are 2 depths and 1 times of 3 channels"
    assert f"{of}: save one depth" in refused(path)
    tifffile.imwrite(path, pages[0], metadata={"axes": "ZYX"}, **form)
    said = "its 3 pages are 3 depths and 1 times, and are read as mixtures"
    assert said in read_with_notes(path)[1]
