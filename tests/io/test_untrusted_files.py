"""Files that somebody else made: they run no code, name no other files, and take no
more memory than they have bytes for.
"""

import importlib
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import zipfile
import zlib
from importlib.util import find_spec

import numpy as np
import pytest
import scipy.io
from test_instruments import jcamp_text, spc_bytes
from test_io import changed, refused, workbook

from conftest import read

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")
tifffile = pytest.importorskip("tifffile")
pandas = pytest.importorskip("pandas")
pillow = pytest.importorskip("PIL.Image")


class Touch:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


# --- code


def zarr_2(path, **changes):
    body = {
        "zarr_format": 2,
        "shape": [4, 3],
        "chunks": [4, 3],
        "dtype": "<f8",
        "fill_value": 0,
        "order": "C",
        "filters": None,
        "compressor": None,
    }
    path.mkdir()
    (path / ".zarray").write_text(json.dumps(body | changes))
    (path / "0.0").write_bytes(np.arange(12.0).tobytes())
    return path


def zarr_3(path, **changes):
    zarr.create_array(str(path), data=np.arange(12.0).reshape(4, 3), compressors=None)
    body = json.loads((path / "zarr.json").read_text())
    (path / "zarr.json").write_text(json.dumps(body | changes))
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("where", ["filters", "compressor"])
@pytest.mark.parametrize("dtype", ["|O", "<f8"])
def test_pickles_in_zarr_are_not_loaded(tmp_path, where, dtype):
    made = tmp_path / "made"
    encoder = {"id": "pickle"}
    encoded = {"filters": [encoder], "compressor": encoder}
    x = zarr_2(tmp_path / "x.zarr", dtype=dtype, **{where: encoded[where]})
    (x / "0.0").write_bytes(pickle.dumps(Touch(made)))
    # The value that stands for missing chunks is encoded too.
    filled = {"filters": [encoder], "fill_value": "gASVCAAAAA=="}
    y = zarr_2(tmp_path / "y.zarr", dtype="|O", **filled)
    codecs = [{"name": "numcodecs.pickle", "configuration": {}}]
    z = zarr_3(tmp_path / "z.zarr", codecs=codecs)
    (z / "c" / "0" / "0").write_bytes(pickle.dumps(Touch(made)))
    for store in (x, y, z):
        refused(store)
    assert not made.exists()


def named_elsewhere(path, image):
    """An OME-TIFF whose channels are said to be in another file."""
    form = {"ome": True, "metadata": {"axes": "CYX"}}
    tifffile.imwrite(path, image.transpose(2, 0, 1), **form)
    planes = "".join(
        f'<TiffData IFD="0" FirstC="{c}" PlaneCount="1"><UUID'
        f' FileName="secret.ome.tif">urn:uuid:0{c}</UUID></TiffData>'
        for c in range(3)
    )
    data = "<TiffData.*</TiffData>|<TiffData[^>]*/>"
    with tifffile.TiffFile(path, mode="r+") as file:
        text = re.sub(data, planes, file.pages[0].description, flags=re.DOTALL)
        file.pages[0].tags["ImageDescription"].overwrite(text.encode())


def test_pickles_in_numpy_files_are_not_loaded(tmp_path):
    made = tmp_path / "made"
    objects = np.array([[Touch(made)] * 3] * 4, dtype=object)
    np.save(tmp_path / "x.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=objects)
    (tmp_path / "y.npy").write_bytes(pickle.dumps(Touch(made)))
    for name in ("x.npy", "x.npz", "y.npy"):
        refused(tmp_path / name)
    assert not made.exists()


def test_images_are_png_jpeg_or_bmp_and_nothing_that_pillow_runs_programs_for(
    tmp_path, monkeypatch
):
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    monkeypatch.setattr(
        "subprocess.check_call", lambda *_, **__: pytest.fail("ran a program")
    )
    for name in ("a.png", "b.jpg"):
        (tmp_path / name).write_bytes(eps)
    refused(tmp_path / "a.png", tmp_path / "b.jpg")


def test_a_workbook_names_no_other_file(tmp_path, rng):
    x = workbook(tmp_path / "x.xlsx", rng.random((5, 3)).tolist())
    entity = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    refused(changed(x, "xl/worksheets/sheet1.xml", lambda data: entity + data))
    bomb = b'<!DOCTYPE x [<!ENTITY a "0"><!ENTITY b "&a;&a;&a;&a;">]>'
    refused(changed(x, "xl/workbook.xml", lambda data: bomb + data))


# --- other files


OPENED = """
import ctypes, os, sys, warnings
from pathlib import Path
from bionica.io import InputError, open_reader

warnings.simplefilter("ignore")
libc, opened = ctypes.CDLL(None), set()

def read(path):
    try:
        return str(open_reader(path).read().shape)
    except InputError as error:
        return str(error)

def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        opened.add(os.path.abspath(os.fsdecode(arguments[0])))

targets = sorted(Path(sys.argv[1]).glob("*/x.*"))
for target in targets:
    read(target)  # imports what it needs
sys.addaudithook(hook)
for target in targets:
    folder = target.parent
    opened.clear()
    watch = libc.inotify_init1(os.O_NONBLOCK)
    libc.inotify_add_watch(watch, os.fsencode(folder), 0x20)  # what C opens: IN_OPEN
    outcome = read(target)
    events, names = b"", []
    try:
        events = os.read(watch, 2**16)
    except BlockingIOError:
        pass
    while events:
        length = int.from_bytes(events[12:16], sys.byteorder)
        names.append(os.fsdecode(events[16 : 16 + length].rstrip(bytes(1))))
        events = events[16 + length :]
    inside = [path for path in opened if path.startswith(str(folder.parent))]
    inside = [path for path in inside if not path.startswith(str(target))]
    foreign = [name for name in names if name and name != target.name]
    print(folder.name, "|", *inside, *foreign, "|", outcome)
"""


def test_opening_a_file_opens_this_file_only(tmp_path, rng):
    """Each format, with a reference to another file where it has a place for one; a
    named pipe would never return.
    """
    X = rng.random((6, 4))
    names = ["csv", "xlsx", "npy", "npz", "mat", "h5", "zarr", "parquet", "png", "jdx"]
    # these refer to another file
    names += ["link", "virtual", "external", "ome", "pipe"]
    packages = {"fcs": "flowio", "spc": "spc_io"}
    names += [name for name, package in packages.items() if find_spec(package)]
    folders = {name: tmp_path / name for name in names}
    for folder in folders.values():
        folder.mkdir()
        (folder / "secret").write_bytes(bytes(range(192)))
    np.savetxt(folders["csv"] / "x.csv", X, delimiter=",", header="see secret")
    workbook(folders["xlsx"] / "x.xlsx", X.tolist())
    np.save(folders["npy"] / "x.npy", X)
    np.savez(folders["npz"] / "x.npz", X=X)
    scipy.io.savemat(folders["mat"] / "x.mat", {"X": X})
    for name in ("link", "virtual"):
        with h5py.File(folders[name] / "secret", "w") as file:
            file["d"] = X
    with h5py.File(folders["h5"] / "x.h5", "w") as file:
        file["d"] = X
    with h5py.File(folders["link"] / "x.h5", "w") as file:
        file["e"] = X
        file["d"] = h5py.ExternalLink("secret", "d")
    with h5py.File(folders["virtual"] / "x.h5", "w") as file:
        layout = h5py.VirtualLayout((6, 4), "f8")
        layout[:] = h5py.VirtualSource(str(folders["virtual"] / "secret"), "d", (6, 4))
        file.create_virtual_dataset("d", layout)
    with h5py.File(folders["external"] / "x.h5", "w") as file:
        file.create_dataset("d", (6, 4), "f8", external=[("secret", 0, 192)])
    zarr.create_array(str(folders["zarr"] / "x.zarr"), data=X)
    pandas.DataFrame(X, columns=[*"abcd"]).to_parquet(folders["parquet"] / "x.parquet")
    image = (255 * rng.random((5, 6, 3))).astype("u1")
    pillow.fromarray(image).save(folders["png"] / "x.png", exif=b"Exif\0\0")
    for name in ("ome", "pipe"):
        named_elsewhere(folders[name] / "x.ome.tif", image)
    other = image.transpose(2, 0, 1)
    tifffile.imwrite(folders["ome"] / "secret.ome.tif", other, photometric="minisblack")
    os.mkfifo(folders["pipe"] / "secret.ome.tif")
    text = jcamp_text(rng.random(6))
    text = text.replace("##YUNITS", "##SOURCE REFERENCE=secret\n##YUNITS")
    (folders["jdx"] / "x.jdx").write_text(text)
    if "spc" in folders:
        (folders["spc"] / "x.spc").write_bytes(spc_bytes(X))
    if "fcs" in folders:
        create = importlib.import_module("flowio").create_fcs
        with (folders["fcs"] / "x.fcs").open("wb") as file:
            create(file, X.ravel().tolist(), [*"abcd"])
    command = [sys.executable, "-c", OPENED, str(tmp_path)]
    how = {"capture_output": True, "text": True, "timeout": 100, "check": True}
    lines = subprocess.run(command, **how).stdout.splitlines()
    # name, foreign files, outcome
    table = [[*map(str.strip, line.split("|"))] for line in lines]
    assert {name: foreign for name, foreign, _ in table} == dict.fromkeys(folders, "")
    opened = {name for name, _, outcome in table if outcome[0] == "("}
    assert opened == {*folders} - {"virtual", "external"}


def test_a_pipe_or_a_device_is_not_read_by_accident(tmp_path):
    for name in ("x.csv", "x.npy", "x.h5", "x.png", "x.tif", "x.parquet", "x.npz"):
        os.mkfifo(tmp_path / name)
        assert "is a pipe or a device" in refused(tmp_path / name)
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    assert "is a pipe or a device" in refused(tmp_path / "zero.csv")


# --- sizes


def test_declared_sizes_are_checked_before_memory_is_taken(tmp_path):
    packed = {"chunks": (10**8, 3), "compression": "gzip"}
    for name, n, how in (
        ("x.h5", 10**12, {"chunks": (1000, 3)}),
        ("c.h5", 2 * 10**8, packed),
    ):
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("d", (n, 3), "f4", **how)
    zarr_2(tmp_path / "a.zarr", shape=[10**12, 3])
    zarr_2(tmp_path / "b.zarr", shape=[10**9, 3], chunks=[10**9, 3])
    grid = {"name": "regular", "configuration": {"chunk_shape": [10**9, 3]}}
    zarr_3(tmp_path / "c.zarr", shape=[10**9, 3], chunk_grid=grid)
    for name in ("x.h5", "c.h5", "a.zarr", "b.zarr", "c.zarr"):
        assert "MiB" in refused(tmp_path / name)


def png(width, height, data):
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n"
    chunks = {b"IHDR": header, b"IDAT": zlib.compress(data), b"IEND": b""}
    for kind, body in chunks.items():
        checksum = struct.pack(">I", zlib.crc32(kind + body))
        content += struct.pack(">I", len(body)) + kind + body + checksum
    return content


@pytest.mark.parametrize("side", [20_000, 2**31 - 1])
def test_image_bombs_are_refused_by_their_header(tmp_path, side):
    (tmp_path / "x.png").write_bytes(png(side, side, b"\0" * 100))
    assert "exceeds limit" in refused(tmp_path / "x.png")


@pytest.mark.parametrize("compression", ["zlib", None])
def test_pages_that_are_declared_too_large_are_refused(tmp_path, compression):
    path = tmp_path / "x.tif"
    form = {"photometric": "minisblack", "metadata": None, "compression": compression}
    tifffile.imwrite(path, np.zeros((4, 40, 40), np.uint8), **form)
    with tifffile.TiffFile(path, mode="r+") as file:
        for name in ("ImageWidth", "ImageLength", "RowsPerStrip"):
            file.pages[0].tags[name].overwrite(60_000)
    assert "page 1" in refused(path)


def npy(n_bytes):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (4, 3), }"
    return b"\x93NUMPY\x01\x00\x76\x00" + header.ljust(117) + b"\n" + bytes(n_bytes)


def test_an_archive_is_checked_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("bionica.io.reader.LARGEST", 10**6)
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", npy(2 * 10**6))
    assert "MiB" in refused(tmp_path / "x.npz")
    with zipfile.ZipFile(tmp_path / "y.npz", "w") as archive:
        archive.writestr("y.npy", npy(96))
    assert read(tmp_path / "y.npz").shape == (4, 3)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_that_unpack_to_gigabytes_at_once_are_refused(tmp_path, method):
    """Python's bzip2 and LZMA decompress all of what they are given: a .npz of 1,570
    bytes took 3.7 GB.
    """
    with (
        zipfile.ZipFile(tmp_path / "x.npz", "w", method) as archive,
        archive.open("x.npy", "w") as member,
    ):
        member.write(npy(0))
        member.write(bytes(10**7))
    assert "deflate" in refused(tmp_path / "x.npz")
