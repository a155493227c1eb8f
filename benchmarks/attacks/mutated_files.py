"""Good files of every format that bionica reads, what happens to their bytes, and files that were made to do harm."""

import io
import json
import os
import pickle
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np

from attacks.workbooks import crafted_workbooks, good_workbooks

SHAPE = (20, 15)
EXTREMES = [b"\0" * 8, b"\xff" * 8, b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff" * 7 + b"\x7f", b"\x7f" + b"\xff" * 3]


# ---------------------------------------------------------------------------------------------- good files


def good_files(folder):
    """Write one file of every kind; return name -> the files that are read together."""
    import h5py
    import imageio.v3 as iio
    import pyarrow
    import pyarrow.parquet
    import tifffile
    import zarr

    rng = np.random.default_rng(0)
    X = rng.exponential(size=(300, 3))
    single, pages = X.astype(np.float32), np.ascontiguousarray(X.T.reshape(3, *SHAPE).astype(np.float32))
    grey = (255 * pages / pages.max()).astype(np.uint8)
    lines = "\n".join(",".join(map(repr, row)) for row in X.tolist()) + "\n"
    np.save(folder / "c.npy", X)
    np.save(folder / "f.npy", np.asfortranarray(single))
    np.savez(folder / "stored.npz", x=X)
    np.savez_compressed(folder / "deflated.npz", x=X, y=np.ones(3))
    (folder / "plain.csv").write_text(lines)
    (folder / "header.csv").write_text("a,b,c\n" + lines)
    (folder / "quoted.tsv").write_text('"a"\t"b"\t"c"\r\n' + lines.replace(",", "\t").replace("\n", "\r\n"))
    (folder / "spaces.txt").write_text("# comment\n" + lines.replace(",", "  "))
    for compression in ("snappy", "zstd", "none"):
        table = pyarrow.table({name: X[:, j] for j, name in enumerate("abc")})
        pyarrow.parquet.write_table(table, folder / f"{compression}.parquet", compression=compression)
    with h5py.File(folder / "plain.h5", "w") as file:
        file["x"] = X
    with h5py.File(folder / "chunked.h5", "w") as file:
        file.create_dataset("g/x", data=X, chunks=(50, 3), compression="gzip", shuffle=True, fletcher32=True)
        file["other"] = np.arange(5)
    good_workbooks(folder, X)
    tifffile.imwrite(folder / "plain.tif", pages, photometric="minisblack")
    tifffile.imwrite(folder / "zlib.tif", pages, photometric="minisblack", compression="zlib")
    for suffix in ("png", "jpg", "bmp"):
        for i, image in enumerate(grey[:2]):
            iio.imwrite(folder / f"{i}.{suffix}", image)
    for version in (2, 3):
        zarr.create_array(str(folder / f"{version}.zarr"), data=X, chunks=(100, 3), zarr_format=version)
    group = zarr.open_group(str(folder / "group.zarr"), mode="w")
    group.create_array("a/x", data=X, chunks=(100, 3), shards=(200, 3))
    group.create_array("y", data=np.arange(4.0))
    names = sorted(path for path in folder.iterdir() if not path.name.startswith("1."))
    return {
        path.name: [path, path.with_name(path.name.replace("0.", "1."))] if path.name[0] == "0" else [path]
        for path in names
    }


# ---------------------------------------------------------------------------------------------- mutations


def flip_bytes(data, rng):
    for _ in range(rng.randint(1, 12)):
        data[rng.randrange(len(data))] = rng.randrange(256)


def flip_bytes_of_the_header(data, rng):
    for _ in range(rng.randint(1, 8)):
        data[rng.randrange(min(len(data), 400))] = rng.randrange(256)


def flip_bytes_of_the_end(data, rng):
    for _ in range(rng.randint(1, 8)):
        data[-1 - rng.randrange(min(len(data), 700))] = rng.randrange(256)


def flip_a_bit(data, rng):
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def truncate(data, rng):
    del data[rng.randrange(len(data)) :]


def write_an_extreme_number(data, rng):
    extreme = rng.choice(EXTREMES)
    at = rng.randrange(min(len(data), rng.choice([100, 1000, 10**9])))
    data[at : at + len(extreme)] = extreme


def write_digits(data, rng):
    at = [i for i, byte in enumerate(data[:2000]) if 48 <= byte <= 57] or [0]
    place = rng.choice(at)
    data[place : place + 1] = rng.choice([b"9" * 15, b"-1", b"1e999", b"0", b"9" * 400, b"nan"])


def move_a_piece(data, rng):
    a, b = sorted(rng.randrange(len(data)) for _ in range(2))
    piece = bytes(data[a:b])
    if rng.random() < 0.5:
        del data[a:b]
    at = rng.randrange(len(data) + 1)
    data[at:at] = piece


def zero_a_piece(data, rng):
    a, b = sorted(rng.randrange(len(data)) for _ in range(2))
    data[a:b] = bytes(b - a)


def insert_noise(data, rng):
    at = rng.choice([0, 8, rng.randrange(len(data) + 1)])
    data[at:at] = rng.randbytes(rng.randint(1, 3000))


def replace_by_noise(data, rng):
    del data[rng.choice([4, 8, 16, 64]) :]
    data += rng.randbytes(rng.randint(0, 5000))


MUTATIONS = [
    flip_bytes, flip_bytes_of_the_header, flip_bytes_of_the_end, flip_a_bit, truncate, write_an_extreme_number, write_digits,
    move_a_piece, zero_a_piece, insert_noise, replace_by_noise,
]  # fmt: skip


def mutate(path, rng):
    """Change a file in place, or one file of a store; return how."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    file = rng.choice(files)
    if path.is_dir() and rng.random() < 0.6:
        file = rng.choice([file for file in files if file.suffix == ".json" or file.name.startswith(".z")])
        if rng.random() < 0.5:
            return _mutate_json(file, rng)
    data = bytearray(file.read_bytes())
    how = rng.choice(MUTATIONS)
    how(data, rng)
    file.write_bytes(data)
    return how.__name__


def _mutate_json(file, rng):
    """Replace a value of the metadata by another."""
    body = json.loads(file.read_bytes()) or {"x": 0}
    node = body
    while True:
        key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.8:
            node = node[key]
            continue
        others = [
            None,
            0,
            -1,
            10**18,
            1e308,
            "x",
            "|O",
            "<f4",
            "pickle",
            [],
            {},
            True,
            [[]],
            {"id": "pickle"},
            {"name": "x"},
            10**400,
        ]
        node[key] = rng.choice(others)
        break
    file.write_text(json.dumps(body))
    return f"_mutate_json {key}"


# ---------------------------------------------------------------------------------------------- crafted files


class Harm:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def crafted_files(folder):
    """Write files that must be refused; return name -> the files that are read together."""
    import h5py
    import tifffile

    harm = pickle.dumps(Harm(folder / "harm"))
    np.save(folder / "objects.npy", np.array([[Harm(folder / "harm")]], dtype=object), allow_pickle=True)
    (folder / "pickle.npy").write_bytes(harm)
    for name, shape in {
        "huge": "(10**12, 3)",
        "wide": "(3, 10**12)",
        "negative": "(-5, 3)",
        "digits": f"({'9' * 4000}, 3)",
    }.items():
        shape = shape.replace("10**12", str(10**12))
        (folder / f"{name}.npy").write_bytes(npy_header(shape) + bytes(24))
    deep = npy_header("(" * 3000 + ")" * 3000)
    (folder / "deep.npy").write_bytes(deep)
    for name, method in (("deflate", zipfile.ZIP_DEFLATED), ("bzip2", zipfile.ZIP_BZIP2), ("lzma", zipfile.ZIP_LZMA)):
        with zipfile.ZipFile(folder / f"{name}.npz", "w", method) as archive:
            archive.writestr("x.npy", npy_header("(4, 3)") + bytes(2**25))
    with zipfile.ZipFile(folder / "many.npz", "w") as archive:
        for i in range(3000):
            archive.writestr(f"{i}.npy", b"")
    with h5py.File(folder / "sparse.h5", "w") as file:
        file.create_dataset("d", (10**13, 3), "f8", chunks=(1000, 3))
    with h5py.File(folder / "chunk.h5", "w") as file:
        file.create_dataset("d", (4 * 10**8, 2), "f4", chunks=(4 * 10**8, 2), compression="gzip")
    with h5py.File(folder / "external.h5", "w") as file:
        file.create_dataset("d", (4, 3), "f8", external=[("/etc/passwd", 0, 96)])
    with h5py.File(folder / "link.h5", "w") as file:
        file["d"] = h5py.ExternalLink("/etc/passwd", "d")
    with h5py.File(folder / "strings.h5", "w") as file:
        file.create_dataset("d", data=[["a", "b"]] * 3, dtype=h5py.string_dtype())
    for i, side in enumerate((12_000, 30_000, 2**31 - 1)):
        (folder / f"bomb{i}.png").write_bytes(png(side, side, bytes(10**6)))
    (folder / "postscript.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    )
    for name, compression in (("plain", None), ("zlib", "zlib")):
        path = folder / f"{name}-bomb.tif"
        tifffile.imwrite(
            path, np.zeros((4, 40, 40), np.uint8), photometric="minisblack", compression=compression, metadata=None
        )
        with tifffile.TiffFile(path, mode="r+") as file:
            for tag in ("ImageWidth", "ImageLength", "RowsPerStrip"):
                file.pages[0].tags[tag].overwrite(60_000)
    (folder / "wide.csv").write_bytes(b"1," * 2**23)
    (folder / "wide.txt").write_bytes(b"1 " * 2**23)
    (folder / "second.csv").write_bytes(b"1,2\n" + b"1," * 2**23)
    (folder / "field.csv").write_bytes(b'"' + b"0" * 200_000 + b'1",2\n')
    (folder / "digits.csv").write_bytes(b"9" * 2**22 + b",2\n")
    (folder / "nul.csv").write_bytes(b"1,2\n\0\n")
    (folder / "line.csv").write_bytes(b"x" * (2**26 + 2**21))
    os.mkfifo(folder / "pipe.csv")
    os.mkfifo(folder / "pipe.npy")
    (folder / "zero.csv").symlink_to("/dev/zero")
    (folder / "zero.h5").symlink_to("/dev/zero")
    (folder / "folder.csv").mkdir()
    crafted_workbooks(folder)
    _crafted_stores(folder, harm)
    images = [path for path in folder.iterdir() if path.suffix == ".png"]
    return {path.name: [path, path] if path in images else [path] for path in sorted(folder.iterdir())}


def _crafted_stores(folder, harm):
    array = {
        "zarr_format": 2,
        "shape": [4, 3],
        "chunks": [4, 3],
        "dtype": "<f8",
        "fill_value": 0,
        "order": "C",
        "filters": None,
    }
    for name, change in {
        "pickle": {"dtype": "|O", "filters": [{"id": "pickle"}]},
        "number": {"filters": [{"id": "pickle"}]},
        "compressor": {"compressor": {"id": "pickle"}},
        "json": {"dtype": "|O", "filters": [{"id": "json2"}]},
        "vlen": {"dtype": "|O", "filters": [{"id": "vlen-array", "dtype": "<f8"}]},
        "fill": {"dtype": "|O", "filters": [{"id": "pickle"}], "fill_value": "gASVCAAAAA=="},
        "sparse": {"shape": [10**13, 3]},
        "chunk": {"shape": [10**9, 3], "chunks": [10**9, 3]},
        "zero": {"chunks": [0, 0]},
        "text": {"shape": "ab"},
    }.items():
        store = folder / f"{name}.zarr"
        store.mkdir()
        (store / ".zarray").write_text(json.dumps({"compressor": None} | array | change))
        (store / "0.0").write_bytes(harm)
    deep = folder / "deep.zarr"
    deep.joinpath(*(["g"] * 50)).mkdir(parents=True)
    (deep / ".zgroup").write_text('{"zarr_format": 2}')
    nested = folder / "nested.zarr"
    nested.mkdir()
    (nested / "zarr.json").write_text("[" * 100_000 + "]" * 100_000)
    loop = folder / "loop.zarr"
    loop.mkdir()
    (loop / ".zgroup").write_text('{"zarr_format": 2}')
    (loop / "self").symlink_to(loop)


def npy_header(shape):
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text = text.ljust(117) + b"\n"
    return b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text


def png(width, height, data):
    """Return a grey PNG with this header, whatever its data."""
    body = io.BytesIO(b"")
    body.write(b"\x89PNG\r\n\x1a\n")
    for kind, part in (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(data)),
        (b"IEND", b""),
    ):
        body.write(struct.pack(">I", len(part)) + kind + part + struct.pack(">I", zlib.crc32(kind + part)))
    return body.getvalue()


def copy(paths: list[Path], folder: Path) -> list[Path]:
    """Copy files, or a store, to a folder."""
    import shutil

    copies = [folder / path.name for path in paths]
    for path, target in zip(paths, copies, strict=True):
        if target.is_dir():
            shutil.rmtree(target)
        (shutil.copytree if path.is_dir() else shutil.copyfile)(path, target)
    return copies
