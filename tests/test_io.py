"""Readers and writers with real files: every format there and back, offsets, broken bytes, bounded rows."""

import io
import itertools
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from bionica.io import (
    Columns,
    EvenSample,
    InputError,
    LastSample,
    OutputError,
    RawPipe,
    Target,
    TextReader,
    check_format,
    check_targets,
    import_optional,
    open_reader,
    open_writer,
    output_files,
)

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")
parquet = pytest.importorskip("pyarrow.parquet")
iio = pytest.importorskip("imageio.v3")
tifffile = pytest.importorskip("tifffile")

MATRICES = [".npy", ".npz", ".csv", ".tsv", ".txt", ".parquet", ".h5", ".hdf5", ".zarr"]


@pytest.fixture
def X(rng):
    return rng.standard_normal((1000, 3))


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 128 samples, so that small files have several."""
    for module in ("reader", "arrays", "parquet"):
        monkeypatch.setattr(f"bionica.io.readers.{module}.block_rows", lambda k: 128)
    monkeypatch.setattr("bionica.io.readers.text._CHUNK", 2000)
    monkeypatch.setattr("bionica.io.readers.lines._ARROW_BYTES", 1000)


def write(path, X, shape=None):
    with open_writer(path, X.shape[1], X.dtype, shape) as writer:
        for start in range(0, len(X), 300):
            writer.write(X[start : start + 300])
    return path


def read(path, start=0, **how):
    with open_reader([str(path)], **how) as reader:
        return np.concatenate(list(reader.blocks(start)))


def left(folder):
    """Files other than those named, hidden ones too."""
    return sorted(path.name for path in Path(folder).iterdir())


# ---------------------------------------------------------------------------------------------- there and back


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("suffix", MATRICES)
def test_what_is_written_is_read(tmp_path, X, suffix, dtype, small_blocks):
    X = X.astype(dtype)
    path = write(tmp_path / f"x{suffix}", X)
    assert left(tmp_path) == [path.name]
    Y = read(path)
    assert Y.flags.c_contiguous
    assert np.array_equal(Y.astype(dtype), X)
    assert Y.dtype == dtype or suffix in (".csv", ".tsv", ".txt")


@pytest.mark.parametrize("start", [0, 1, 127, 128, 129, 700, 999])
@pytest.mark.parametrize("suffix", MATRICES)
def test_reading_starts_at_any_sample(tmp_path, X, suffix, start, small_blocks):
    assert np.array_equal(read(write(tmp_path / f"x{suffix}", X), start), X[start:])


@pytest.mark.parametrize("suffix", MATRICES)
def test_a_sample_is_spread_evenly_and_counts(tmp_path, X, suffix, small_blocks):
    with open_reader([str(write(tmp_path / f"x{suffix}", X))]) as reader:
        assert np.array_equal(reader.sample(1000), X)
        some = reader.sample(100)
        assert reader.n_samples == 1000
        assert reader.n_features == 3
    rows = [int(np.flatnonzero((X == row).all(axis=1))[0]) for row in some]
    assert 50 <= len(rows) <= 100
    assert len({b - a for a, b in itertools.pairwise(rows)}) == 1
    assert rows[0] == 0
    assert rows[-1] > 900


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["npy", "npz", "h5", "zarr", "csv"])
def test_samples_along_the_other_axis(tmp_path, X, kind, order, small_blocks):
    path, XT = tmp_path / f"x.{kind}", np.asarray(X.T, order=order)
    if kind == "npy":
        np.save(path, XT)
    elif kind == "npz":
        np.savez_compressed(path, XT)
    elif kind == "csv":
        np.savetxt(path, XT, delimiter=",", fmt="%.17g")
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            file["a/b"] = XT
    else:
        zarr.open_array(str(path), mode="w", shape=XT.shape, dtype=XT.dtype, chunks=(2, 100))[:] = XT
    assert np.array_equal(read(path, axis=1), X)
    assert np.array_equal(read(path, 500, axis=1), X[500:])
    assert np.array_equal(read(path, axis=0), XT)


@pytest.mark.parametrize("dtype", ["int16", "uint8", "bool", "float16", ">f8", ">f4"])
def test_every_kind_of_number_becomes_a_float(tmp_path, X, dtype):
    X = (10 * np.abs(X)).astype(dtype)
    np.save(tmp_path / "x.npy", X)
    Y = read(tmp_path / "x.npy")
    assert Y.dtype == (np.float32 if dtype in ("float16", ">f4") else np.float64)
    assert np.array_equal(Y, X)


def test_raw_numbers_in_odd_pieces(X):
    data, at = X.astype("float32").tobytes(), 0

    def trickle(n):
        nonlocal at
        at += 7
        return data[at - 7 : at]

    pipe = RawPipe("pipe", trickle, 3, "float32")
    assert np.array_equal(np.concatenate(list(pipe.blocks())), X.astype("float32"))
    pieces = iter([data[:81], b""])
    with pytest.raises(InputError, match="in the middle of a sample of 5 float64"):
        list(RawPipe("pipe", lambda n: next(pieces), 5, "float64").blocks())


# ---------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " ", "   ", ", "])
@pytest.mark.parametrize("header", ["", "one{0}two{0}three\n", "# made by an instrument\n\n", '"a"{0}"b"{0}"c"\n'])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_separator_and_header_are_found(tmp_path, X, separator, header, newline):
    text = "\ufeff" + header.format(separator) + "\n".join(separator.join(map(repr, row)) for row in X.tolist())
    (tmp_path / "x.csv").write_bytes(text.replace("\n", newline).encode())
    assert np.array_equal(read(tmp_path / "x.csv"), X)


def test_quoted_numbers_blank_lines_and_one_column(tmp_path):
    (tmp_path / "x.csv").write_text('"1.5","2"\n\n"3e2","-4"\n')
    assert read(tmp_path / "x.csv").tolist() == [[1.5, 2], [300, -4]]
    (tmp_path / "y.csv").write_text("value\n1\n2\n")
    assert read(tmp_path / "y.csv").tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3,4\n5\n", r"x.csv, line 3 has 1 values where 2 are expected"),
        ("a,b\n\n1,2\n3,4,5\n", r"x.csv, line 4 has 3 values where 2"),
        ("1,2\n3,x\n", r"x.csv, line 2, column 2: 'x' is not a number"),
        ("a,b\n1,2\n3,\n", r"x.csv, line 3, column 2 \(b\): is empty"),
        ("a;b\n1;2,5\n", r"line 2, column 2 \(b\): '2,5' is not a number: if it has a decimal comma, pass --decimal ,"),
        ("a,b\n1,2\n3,nan\n", r"line 3, column 2 \(b\) is nan: drop or fill"),
        ("1,2\n-inf,2\n", r"line 2, column 1 is -inf"),
        ("time,1\n2,3\n", r"line 1, column 1: 'time' is not a number"),
        ("", r"x.csv holds no sample"),
        ("a,b\n", r"x.csv holds no sample"),
        ("1,2\n\0\0\n", r"contains NUL bytes"),
    ],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_bad_text_is_named_by_line_and_column(tmp_path, text, message, axis):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(InputError, match=message if axis == 0 else r"x\.csv"):
        read(tmp_path / "x.csv", axis=axis)


def test_a_bad_line_is_named_far_into_the_file(tmp_path, X, small_blocks):
    lines = [",".join(map(repr, row)) for row in X.tolist()]
    lines[777] += ",1"
    (tmp_path / "x.csv").write_text("a,b,c\n" + "\n".join(lines))
    with pytest.raises(InputError, match=r"line 779 has 4 values where 3"):
        read(tmp_path / "x.csv")


def outcome(path, **how):
    """Return what reading gives: the array, or the error."""
    try:
        return read(path, **how).tolist()
    except InputError as error:
        return str(error)


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines,
        lambda lines: ["a;b;c", *lines],
        lambda lines: [*lines[:700], "", "# a comment", "   ", *lines[700:]],
        lambda lines: [*lines[:700], '"1";"2"; +3.5 ', *lines[700:]],
        lambda lines: [*lines[:700], "# 1;2;3", *lines[700:]],
        lambda lines: [*lines[:700], "1;2;3;4", *lines[700:]],
        lambda lines: [*lines[:700], "1;nan;3", *lines[700:]],
        lambda lines: [*lines[:700], "1;;3", *lines[700:]],
        lambda lines: [*lines[:700], "1;2;1e999", *lines[700:]],
    ],
    ids=["numbers", "header", "blank lines", "quotes", "comment", "too wide", "nan", "empty", "overflow"],
)
@pytest.mark.parametrize("columns", [Columns(), Columns(None, "1")])
def test_pyarrow_and_the_line_parser_read_the_same(tmp_path, X, monkeypatch, change, columns):
    from bionica.io.readers import lines as line_parser

    monkeypatch.setattr("bionica.io.readers.text._CHUNK", 5000)
    monkeypatch.setattr(line_parser, "_ARROW_BYTES", 1000)
    lines = change([";".join(map(repr, row)) for row in X.tolist()])
    (tmp_path / "x.csv").write_text("\n".join(lines))
    parsed = []
    with_arrow = line_parser.LineParser._parse_with_arrow
    monkeypatch.setattr(
        line_parser.LineParser,
        "_parse_with_arrow",
        lambda self, chunk: (block := with_arrow(self, chunk), parsed.append(block is not None))[0],
    )
    found = outcome(tmp_path / "x.csv", columns=columns)
    assert sum(parsed) > 5  # most chunks hold nothing but numbers
    monkeypatch.setattr(line_parser, "_arrow", lambda: None)
    assert outcome(tmp_path / "x.csv", columns=columns) == found


@pytest.mark.parametrize("cut", [1, 7, 10_000])
@pytest.mark.parametrize(("use", "skip", "columns"), [(None, "2", [0, 2]), ("c,1", None, [0, 2]), (None, "b", [0, 2])])
def test_columns_of_a_text_however_it_is_cut(X, cut, use, skip, columns):
    data = io.BytesIO(("a,b,c\n" + "".join(f"{x[0]!r},what,{x[2]!r}\n" for x in X.tolist())).encode())
    reader = TextReader("x", lambda: nullcontext(lambda n: data.read(cut)), columns=Columns(use, skip))
    blocks = list(reader.blocks())
    assert np.array_equal(np.concatenate(blocks), X[:, columns])
    assert reader.n_features == 2
    assert reader.column(1) == "column 3 (c)"


def test_every_line_is_as_wide_as_the_first_even_where_columns_are_left_out(tmp_path):
    (tmp_path / "x.csv").write_text("1,2,3\n4,5,6,7\n")
    for columns in (Columns("1"), Columns(None, "3")):
        with pytest.raises(InputError, match="line 2 has 4 values where 3"):
            read(tmp_path / "x.csv", columns=columns)


@pytest.mark.parametrize("suffix", MATRICES)
def test_columns_are_chosen_in_every_format(tmp_path, X, suffix, small_blocks):
    path = write(tmp_path / f"x{suffix}", X)
    for columns, kept in ((Columns("1,3"), [0, 2]), (Columns(None, "1-2"), [2]), (Columns("1-2", "2"), [0])):
        assert np.array_equal(read(path, columns=columns), X[:, kept])
        assert np.array_equal(read(path, 700, columns=columns), X[700:, kept])
    for columns in (Columns("4"), Columns("0"), Columns("3-2"), Columns(None, "no"), Columns("")):
        with pytest.raises(InputError, match=r"has no column '.*'; it has .* 1 to 3|columns 1 to 3"):
            read(path, columns=columns)
    with pytest.raises(InputError, match="no column is left"):
        read(path, columns=Columns(None, "1-3"))


def test_a_column_without_a_name_is_told_as_such():
    with pytest.raises(InputError, match=r"has no column 'c'; it has one without a name, a, b \(or 1 to 3\)"):
        Columns("c").kept("x.csv", 3, ["", "a", "b"])


def test_a_column_that_is_left_out_may_hold_anything(tmp_path, X):
    X[5, 1] = np.nan
    for suffix in MATRICES:
        path = tmp_path / f"x{suffix}"
        write(path, X)
        assert np.array_equal(read(path, columns=Columns(None, "2")), X[:, [0, 2]])


def test_the_index_of_a_pandas_table_is_no_mixture(tmp_path, X):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    named = frame.set_index(pandas.Index(np.arange(len(X)) ** 2, name="sample"))
    frame.set_index(np.arange(len(X)) ** 2).to_parquet(tmp_path / "x.parquet")
    named.to_parquet(tmp_path / "y.parquet")
    frame.to_parquet(tmp_path / "z.parquet")  # the index is no column here
    for name, note in (("x", "'__index_level_0__'"), ("y", "'sample'"), ("z", None)):
        with open_reader([str(tmp_path / f"{name}.parquet")]) as reader:
            assert np.array_equal(np.concatenate(list(reader.blocks())), X)
            assert bool(reader.notes) == bool(note)
            assert not note or f"column {note} is the index" in reader.notes[0]
    assert read(tmp_path / "y.parquet", columns=Columns("sample,a")).shape == (1000, 2)


def test_the_only_matrix_among_arrays_is_read(tmp_path, X):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["time"], file["group/data"], file["name"] = np.arange(1000), X, "an instrument"
    group = zarr.open_group(str(tmp_path / "x.zarr"), mode="w")
    for name, array in (("time", X[:, 0]), ("group/data", X)):
        group.create_array(name, shape=array.shape, dtype=array.dtype)[:] = array
    for suffix in ("h5", "zarr"):
        assert np.array_equal(read(tmp_path / f"x.{suffix}"), X)


# ---------------------------------------------------------------------------------------------- what is not mixtures


def test_a_missing_dataset_lists_those_there(tmp_path, X):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["first"], file["group/second"] = X, 2 * X
    np.savez(tmp_path / "x.npz", first=X, second=2 * X)
    group = zarr.open_group(str(tmp_path / "x.zarr"), mode="w")
    for name in ("first", "group/second"):
        group.create_array(name, shape=X.shape, dtype=X.dtype)[:] = 2 * X
    for kind, second in (("h5", "group/second"), ("npz", "second"), ("zarr", "group/second")):
        path = tmp_path / f"x.{kind}"
        assert np.array_equal(read(path, dataset=second), 2 * X)
        with pytest.raises(InputError, match=f"has no array 'third': there are first, {second}"):
            read(path, dataset="third")
        with pytest.raises(InputError, match=f"choose one with --dataset, of first, {second}"):
            read(path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(5), r"shape \(5,\): mixtures are a matrix"),
        (np.ones((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.ones((0, 3)), "is empty"),
        (np.ones((4, 2), complex), "holds complex128, not real numbers"),
        (np.array([["a", "b"]]), "not real numbers"),
        (np.array([[None, 1]]), "Python objects"),
        (np.ones((3, 2), [("a", float)]), "not real numbers"),
        (np.array([[1.0, 2], [3, np.nan]]), "sample 2, mixture 2 is nan"),
    ],
)
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_arrays_that_are_no_mixtures(tmp_path, array, message, kind):
    path = tmp_path / f"x.{kind}"
    (np.save if kind == "npy" else np.savez)(path, array)
    with pytest.raises(InputError, match=message):
        read(path)


def test_tables_that_are_no_mixtures(tmp_path):
    import pyarrow as pa

    parquet.write_table(pa.table({"a": [1.0, 2.0], "label": ["x", "y"]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="column 'label' holds string"):
        read(tmp_path / "x.parquet")
    parquet.write_table(pa.table({"a": [1.0, None], "b": [1, 2]}), tmp_path / "y.parquet")
    with pytest.raises(InputError, match="row 1, column 'a' is empty"):
        read(tmp_path / "y.parquet")
    with pytest.raises(InputError, match="omit --axis 1"):
        read(tmp_path / "y.parquet", axis=1)


def test_names_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        open_reader([str(tmp_path / "no.npy")])
    (tmp_path / "x.xyz").write_text("1")
    with pytest.raises(InputError, match=r"unknown suffix '.xyz': bionica reads .npy"):
        open_reader([str(tmp_path / "x.xyz")])
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        open_reader([str(tmp_path / "folder.npy")])
    with pytest.raises(InputError, match="not all images"):
        open_reader([str(tmp_path / "x.xyz")] * 2)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(InputError, match=r"needs the package h5py: pip install 'bionica\[io\]'"):
        import_optional("h5py", "reading HDF5")


# ---------------------------------------------------------------------------------------------- images


def test_images_are_mixtures(tmp_path, rng):
    images = rng.integers(0, 256, (3, 20, 30), dtype=np.uint8)
    names = [str(tmp_path / f"{i}.png") for i in range(3)]
    for name, image in zip(names, images, strict=True):
        iio.imwrite(name, image)
    tifffile.imwrite(tmp_path / "stack.tif", images, photometric="minisblack")
    for inputs in (names, [str(tmp_path / "stack.tif")]):
        with open_reader(inputs) as reader:
            assert reader.image_shape == (20, 30)
            assert np.array_equal(np.concatenate(list(reader.blocks(7))), images.reshape(3, -1).T[7:])
    for channels in (3, 4):  # transparency is left out, colours are samples
        colours = rng.integers(0, 256, (2, 6, 7, channels), dtype=np.uint8)
        for name, image in zip(names, colours, strict=False):
            iio.imwrite(name, image)
        with open_reader(names[:2]) as reader:
            assert reader.image_shape == (6, 7, 3)
            assert np.array_equal(np.concatenate(list(reader.blocks())), colours[..., :3].reshape(2, -1).T)
    iio.imwrite(names[0], images[0])
    iio.imwrite(names[1], images[1])
    iio.imwrite(names[2], images[0][:, :5])
    with pytest.raises(InputError, match=r"2.png has shape \(20, 5\) where the first image has \(20, 30\)"):
        open_reader(names)
    with pytest.raises(InputError, match="at least two"):
        open_reader(names[:1])


def test_a_tiff_whose_pages_are_cut_off_is_refused(tmp_path, rng):
    with tifffile.TiffWriter(tmp_path / "x.tif") as file:
        for page in rng.random((4, 20, 30)):
            file.write(page, photometric="minisblack", contiguous=False)
    data = (tmp_path / "x.tif").read_bytes()
    for share in (0.4, 0.6, 0.9):
        (tmp_path / "x.tif").write_bytes(data[: int(share * len(data))])
        with pytest.raises(InputError, match=r"x\.tif cannot be read as TIFF"):
            open_reader([str(tmp_path / "x.tif")])


@pytest.mark.parametrize("shape", [(20, 30), (20, 30, 3)])
def test_sources_become_images(tmp_path, rng, shape):
    Y = rng.random((int(np.prod(shape)), 2))
    write(tmp_path / "y.tif", Y, shape)
    pages = tifffile.imread(tmp_path / "y.tif")
    assert np.array_equal(pages.reshape(2, -1).T, Y.astype(np.float32))
    for suffix in ("png", "jpg"):
        write(tmp_path / f"y.{suffix}", Y, shape)
        for i in range(2):
            image = iio.imread(tmp_path / f"y-{i + 1}.{suffix}")
            assert image.shape == shape
            if suffix == "png":
                assert np.allclose(image.ravel() / image.max(), Y[:, i] / Y[:, i].max(), atol=1 / 255)
    assert left(tmp_path) == ["y-1.jpg", "y-1.png", "y-2.jpg", "y-2.png", "y.tif"]


# ---------------------------------------------------------------------------------------------- all or nothing


@pytest.mark.parametrize("suffix", [*MATRICES, ".png", ".tif"])
def test_an_error_leaves_nothing_and_keeps_the_old_file(tmp_path, X, suffix):
    shape = (20, 50)
    write(tmp_path / f"x{suffix}", X, shape)
    before = left(tmp_path)
    with pytest.raises(RuntimeError), open_writer(tmp_path / f"x{suffix}", 3, X.dtype, shape) as writer:
        writer.write(X)
        raise RuntimeError
    assert left(tmp_path) == before
    write(tmp_path / f"x{suffix}", X, shape)  # replaces it
    assert left(tmp_path) == before


def test_outputs_are_checked_before_the_work(tmp_path):
    with pytest.raises(OutputError, match="there is no folder"):
        check_targets([Target("-o", tmp_path / "no" / "x.npy")])
    with pytest.raises(OutputError, match="no images"):
        check_format(tmp_path / "x.png", ["x.npy"])
    with pytest.raises(OutputError, match="unknown suffix"):
        check_format(tmp_path / "x.gif", ["x.png"])
    with pytest.raises(OutputError, match=r"is a folder: give a file in it, .*sources\.csv"):
        check_format(tmp_path, ["x.npy"])
    check_format(tmp_path / "x.png", ["x.tif"])
    (tmp_path / "x-2.png").touch()
    assert [file.name for file in output_files(tmp_path / "x.png", None)] == ["x-1.png", "x-2.png"]
    with pytest.raises(OutputError, match=r"x-2.png exists already: .* --force"):
        check_targets([Target("-o", file) for file in output_files(tmp_path / "x.png", 2)])
    check_targets([Target("-o", file, replace=True) for file in output_files(tmp_path / "x.png", 2)])


# ---------------------------------------------------------------------------------------------- broken bytes


def spoiled(data, rng):
    """Truncated, overwritten in places, with noise in front, or nothing but noise."""
    cut = data[: rng.integers(len(data))]
    flipped = bytearray(data)
    for at in rng.integers(0, min(len(data), 400), 8):
        flipped[at] = rng.integers(256)
    noise = rng.bytes(int(rng.integers(1, 3000)))
    return [cut, bytes(flipped), noise + data, noise, data[:8] + noise, b""]


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet", ".h5", ".tif", ".png"])
def test_broken_files_are_refused_in_words(tmp_path, X, rng, suffix):
    path = tmp_path / f"good{suffix}"
    write(path, X[:100], (10, 10))
    path = path if path.exists() else tmp_path / f"good-1{suffix}"
    data, bad = path.read_bytes(), tmp_path / f"bad{suffix}"
    refused = 0
    for _ in range(12):
        for spoilt in spoiled(data, rng):
            bad.write_bytes(spoilt)
            try:
                with open_reader([str(bad)] if suffix != ".png" else [str(bad), str(path)]) as reader:
                    for block in reader.blocks():
                        assert np.isfinite(block).all()  # flipped bits may leave numbers
                        break
            except InputError as error:
                refused += 1
                assert "\n" not in str(error)
    assert refused > 36


def test_headers_that_promise_too_much(tmp_path):
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s, 3), }"
    for shape in ("10**9", "1" + "0" * 30, "-5", "1" + "0" * 12):
        text = (header % shape).encode().ljust(117) + b"\n"
        (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"\0" * 24)
        with pytest.raises(InputError, match=r"x\.npy"):
            read(tmp_path / "x.npy")
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + b" " * 10**6)
    with pytest.raises(InputError, match=r"x\.npy"):
        read(tmp_path / "x.npy")


def test_a_broken_zarr_store_is_refused(tmp_path, X, rng):
    path = write(tmp_path / "x.zarr", X)
    for file in [file for file in path.rglob("*") if file.is_file()]:
        data = file.read_bytes()
        for spoilt in (b"", rng.bytes(50), data[: len(data) // 2]):
            file.write_bytes(spoilt)
            with pytest.raises(InputError, match=r"x\.zarr"):
                read(path)
        file.write_bytes(data)
    assert np.array_equal(read(path), X)


def test_sample_is_even_however_it_is_cut(rng):
    X = np.arange(10_007.0)[:, np.newaxis]
    whole, pieces = EvenSample(100), EvenSample(100)
    whole.add(X)
    for piece in np.split(X, np.sort(rng.integers(0, len(X), 50))):
        pieces.add(piece)
    assert np.array_equal(whole.rows(), pieces.rows())
    assert whole.seen == pieces.seen == len(X)
    assert 50 <= len(whole.rows()) <= 100


def test_last_sample_holds_the_last_rows_however_they_are_cut():
    X = np.arange(700.0).reshape(-1, 2)
    for step in (1, 7, 100, 350):
        last = LastSample(100)
        assert len(last.rows()) == 0
        for start in range(0, len(X), step):
            last.add(X[start : start + step])
        assert np.array_equal(last.rows(), X[-100:])
        assert last.seen == len(X)
        assert sum(map(len, last._kept)) < 100 + step
