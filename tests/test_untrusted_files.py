"""Files that somebody else made: they run no code, name no other files, and take no more memory than they have bytes for."""

import json
import os
import pickle
import struct
import warnings
import zipfile
import zlib
from types import SimpleNamespace

import numpy as np
import pytest

from bionica.io import InputError, open_reader

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")
pytest.importorskip("numcodecs")
tifffile = pytest.importorskip("tifffile")
pytest.importorskip("imageio")


class Touch:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def read(*paths, **how):
    with open_reader([str(path) for path in paths], **how) as reader:
        return np.concatenate(list(reader.blocks()))


def refused(*paths, **how):
    with pytest.raises(InputError) as error:
        read(*paths, **how)
    assert "\n" not in str(error.value)
    return str(error.value)


# ---------------------------------------------------------------------------------------------- code


def zarr_2(path, **changes):
    body = {"zarr_format": 2, "shape": [4, 3], "chunks": [4, 3], "dtype": "<f8", "fill_value": 0, "order": "C"}
    path.mkdir(parents=True, exist_ok=True)
    (path / ".zarray").write_text(json.dumps({**body, "filters": None, "compressor": None, **changes}))
    (path / "0.0").write_bytes(np.arange(12.0).tobytes())
    return path


def zarr_3(path, **changes):
    body = {
        "zarr_format": 3, "node_type": "array", "shape": [4, 3], "data_type": "float64", "fill_value": 0, "attributes": {},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }  # fmt: skip
    (path / "c" / "0").mkdir(parents=True, exist_ok=True)
    (path / "zarr.json").write_text(json.dumps(body | changes))
    (path / "c" / "0" / "0").write_bytes(np.arange(12.0).tobytes())
    return path


def test_both_formats_of_zarr_are_read(tmp_path):
    for store in (zarr_2(tmp_path / "2.zarr"), zarr_3(tmp_path / "3.zarr")):
        assert np.array_equal(read(store), np.arange(12.0).reshape(4, 3))
    group = tmp_path / "g.zarr"
    zarr_2(group / "a" / "b")
    (group / ".zgroup").write_text('{"zarr_format": 2}')
    assert read(group, dataset="a/b").shape == (4, 3)
    zarr_2(group / "c")
    assert "choose one with --dataset, of a/b, c" in refused(group)


@pytest.mark.parametrize("where", ["filters", "compressor"])
@pytest.mark.parametrize(
    "codec", ["pickle", "json2", "msgpack2", "vlen-utf8", "vlen-bytes", "vlen-array", "categorize"]
)
def test_object_codecs_of_zarr_2_are_refused_before_anything_is_decoded(tmp_path, where, codec):
    made = tmp_path / "made"
    for dtype in ("|O", "<f8"):
        encoder = {"id": codec, "dtype": "<f8", "labels": []}
        store = zarr_2(tmp_path / "x.zarr", dtype=dtype, **{where: [encoder] if where == "filters" else encoder})
        (store / "0.0").write_bytes(pickle.dumps(Touch(made)))
        assert ("|O, not real numbers" if dtype == "|O" else f"encoded with '{codec}'") in refused(store)
    # The value that stands for missing chunks is encoded too.
    zarr_2(tmp_path / "x.zarr", dtype="|O", filters=[{"id": "pickle"}], fill_value="gASVCAAAAA==")
    assert "not real numbers" in refused(tmp_path / "x.zarr")
    assert not made.exists()


@pytest.mark.parametrize("codec", ["numcodecs.pickle", "vlen-utf8", "pickle", "numcodecs.json2"])
def test_object_codecs_of_zarr_3_are_refused(tmp_path, codec):
    made = tmp_path / "made"
    inner = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": codec, "configuration": {}}]
    shard = {"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3], "codecs": inner, "index_codecs": []}}
    for codecs in (inner, [shard]):
        store = zarr_3(tmp_path / "x.zarr", codecs=codecs)
        (store / "c" / "0" / "0").write_bytes(pickle.dumps(Touch(made)))
        assert f"encoded with '{codec}'" in refused(store)
    assert "not real numbers" in refused(zarr_3(tmp_path / "y.zarr", data_type="string"))
    assert not made.exists()


def test_consolidated_metadata_are_not_believed(tmp_path):
    """They can say something else about an array than its own metadata."""
    store = tmp_path / "x.zarr"
    zarr_2(store / "a")
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    other = json.loads((store / "a" / ".zarray").read_text()) | {"dtype": "|O", "filters": [{"id": "pickle"}]}
    metadata = {".zgroup": {"zarr_format": 2}, "a/.zarray": other}
    (store / ".zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": metadata}))
    assert np.array_equal(read(store), np.arange(12.0).reshape(4, 3))


def test_pickles_in_numpy_files_are_not_loaded(tmp_path):
    made = tmp_path / "made"
    objects = np.array([[Touch(made)] * 3] * 4, dtype=object)
    np.save(tmp_path / "x.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=objects)
    (tmp_path / "y.npy").write_bytes(pickle.dumps(Touch(made)))
    for name in ("x.npy", "x.npz", "y.npy"):
        refused(tmp_path / name)
    assert not made.exists()


def test_images_are_png_jpeg_or_bmp_and_nothing_that_pillow_runs_programs_for(tmp_path, monkeypatch):
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    monkeypatch.setattr("subprocess.check_call", lambda *_, **__: pytest.fail("ran a program"))
    for name in ("a.png", "b.jpg"):
        (tmp_path / name).write_bytes(eps)
    assert "is not a PNG, JPEG or BMP image" in refused(tmp_path / "a.png", tmp_path / "b.jpg")


# ---------------------------------------------------------------------------------------------- other files


def test_hdf5_datasets_in_other_files_are_refused(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(range(96)))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("d", (4, 3), "f8", external=[(str(tmp_path / "secret"), 0, 96)])
    assert "has its numbers in other files" in refused(tmp_path / "x.h5")
    with h5py.File(tmp_path / "source.h5", "w") as file:
        file["d"] = np.ones((4, 3))
    with h5py.File(tmp_path / "v.h5", "w") as file:
        layout = h5py.VirtualLayout((4, 3), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "source.h5"), "d", (4, 3))
        file.create_virtual_dataset("d", layout)
    assert "has its numbers in other files" in refused(tmp_path / "v.h5")
    with h5py.File(tmp_path / "l.h5", "w") as file:
        file["d"] = h5py.ExternalLink(str(tmp_path / "source.h5"), "d")
    assert "holds no array" in refused(tmp_path / "l.h5")
    assert "has no array 'd'" in refused(tmp_path / "l.h5", dataset="d")


def test_groups_of_zarr_are_not_looked_for_through_links(tmp_path):
    zarr_2(tmp_path / "other" / "secret")
    store = tmp_path / "x.zarr"
    store.mkdir()
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    (store / "link").symlink_to(tmp_path / "other")
    assert "holds no array" in refused(store)


# ---------------------------------------------------------------------------------------------- sizes


def test_declared_sizes_are_checked_before_memory_is_taken(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("d", (10**12, 3), "f8", chunks=(1000, 3))
    assert "says that it holds" in refused(tmp_path / "x.h5")
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file.create_dataset("d", (2 * 10**8, 3), "f4", chunks=(10**8, 3), compression="gzip")
    assert "chunks of 1,144 MiB" in refused(tmp_path / "c.h5")
    assert "says that it holds" in refused(zarr_2(tmp_path / "a.zarr", shape=[10**12, 3]))
    assert "has chunks of" in refused(zarr_2(tmp_path / "b.zarr", shape=[10**9, 3], chunks=[10**9, 3]))
    assert "has chunks of" in refused(
        zarr_3(
            tmp_path / "c.zarr",
            shape=[10**9, 3],
            chunk_grid={"name": "regular", "configuration": {"chunk_shape": [10**9, 3]}},
        )
    )
    assert "the sizes" in refused(zarr_2(tmp_path / "d.zarr", shape=[-1, 3]))


def png(width, height, data):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def test_image_bombs_are_refused_by_their_header(tmp_path):
    for side in (12_000, 20_000, 2**31 - 1):
        (tmp_path / "x.png").write_bytes(png(side, side, b"\0" * 100))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            message = refused(tmp_path / "x.png", tmp_path / "x.png")
        assert "MiB" in message or "exceeds limit" in message or "cannot be read" in message
    pages = np.zeros((4, 40, 40), np.uint8)
    for compression, message in (
        ("zlib", "page 0 has chunks of"),
        (None, "page 0 has 3,600,000,000 bytes and the file has"),
    ):
        tifffile.imwrite(tmp_path / "x.tif", pages, compression=compression, photometric="minisblack", metadata=None)
        with tifffile.TiffFile(tmp_path / "x.tif", mode="r+") as file:
            for name in ("ImageWidth", "ImageLength", "RowsPerStrip"):
                file.pages[0].tags[name].overwrite(60_000)
        assert message in refused(tmp_path / "x.tif")


def test_an_archive_is_checked_before_it_is_unpacked(tmp_path, monkeypatch):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (4, 3), }".ljust(117) + b"\n"
    start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", start + b"\0" * 50_000_000)
    assert "its header says 96" in refused(tmp_path / "x.npz")
    with zipfile.ZipFile(tmp_path / "y.npz", "w") as archive:
        archive.writestr("y.npy", start + b"\0" * 96)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=200))
    assert "has less space" in refused(tmp_path / "y.npz")


def test_text_of_very_many_columns_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("bionica.io.readers.layout.MOST_COLUMNS", 1000)
    for separator in (",", " ", ";", "\t"):
        (tmp_path / "x.csv").write_text(separator.join("1" * 1001) + "\n")
        assert "has more than 1,000 columns" in refused(tmp_path / "x.csv")
        (tmp_path / "x.csv").write_text(separator.join("1" * 3) + "\n" + separator.join("1" * 999) + "\n")
        assert "line 2 has 999 values where 3 are expected" in refused(tmp_path / "x.csv")


# ---------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("chunk", [1, 2, 7, 1000])
def test_any_line_end(tmp_path, monkeypatch, quote, end, axis, chunk):
    monkeypatch.setattr("bionica.io.readers.text._CHUNK", chunk)
    X = np.arange(12.0).reshape(4, 3)
    lines = [",".join(f"{quote}{value}{quote}" for value in row) for row in X.tolist()]
    for last in ("", end):
        (tmp_path / "x.csv").write_bytes((end.join(lines) + last).encode())
        assert np.array_equal(read(tmp_path / "x.csv", axis=axis), X if axis == 0 else X.T)


def test_a_field_that_the_csv_module_refuses(tmp_path):
    (tmp_path / "x.csv").write_text('1,2\n"' + "0" * 140_000 + '1",2\n')
    assert "line 2 is not separated values (field larger than field limit (131072))" in refused(tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text('"' + "0" * 140_000 + '1",2\n')
    assert "line 1 is not separated values" in refused(tmp_path / "x.csv")


def test_a_pipe_that_has_the_name_of_a_file(tmp_path):
    for name in ("x.csv", "x.npy", "x.h5", "x.png", "x.tif", "x.parquet", "x.npz"):
        os.mkfifo(tmp_path / name)
        assert "is a pipe or a device" in refused(tmp_path / name)
    assert "use --follow, or cat" in refused(tmp_path / "x.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    assert "is a pipe or a device" in refused(tmp_path / "zero.csv")
