"""Random valid files, read by bionica and by pandas, SciPy, h5py, zarr, tifffile and Pillow: what differs without a word?

    python benchmarks/files.py [number of files] [first seed]

A file is read as the other library reads it, or refused with the option that decides, or there is a note. Anything else is a
silent difference; there must be none.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pandas
import scipy.io
import tifffile
import zarr
from PIL import Image

from bionica.io import InputError, open_reader

chunks = lambda rng, X: tuple(rng.integers(1, np.add(X.shape, 1)).tolist())  # noqa: E731
LABELS = ["time", "Time (s)", "index", "", "sample", "Zeit [min]", "date", "name"]


def matrix(rng, n, k):
    """Return mixtures of one of the kinds that files hold."""
    t = np.linspace(0, 3, n)[:, np.newaxis]
    kinds = [
        lambda: rng.standard_normal((n, k)),
        lambda: rng.exponential(size=(n, 3)) @ rng.random((3, k)),
        lambda: np.exp(-t * rng.random(k)) + 0.5,
        lambda: t * (1 + np.arange(k)),  # every column rises evenly
        lambda: rng.poisson(3, (n, k)).astype(float),
        lambda: rng.exponential(size=(n, 1)) * np.exp(-((np.arange(k) - k / 2) ** 2) / (k + 1)),
        lambda: np.sort(rng.random((n, k)), axis=1) * 1000,
        lambda: np.full((n, k), 7.0),
    ]
    return kinds[rng.integers(len(kinds))]()


def table(rng):
    """Return a data frame with names of any kind, perhaps with labels, and the columns that are mixtures."""
    n, k = int(rng.integers(2, 60)), int(rng.integers(1, 13))
    X = matrix(rng, n, k)
    X = X.round(int(rng.integers(0, 7))) if rng.random() < 0.5 else X
    names = [
        [*"ABCDEFGHIJKLM"[:k]],
        [*map(str, np.arange(k) * 2 + 400)],
        [f"{w:.1f}" for w in 1e7 / np.linspace(400, 700, k)],
        [f"{w} nm" for w in np.arange(k) * 5 + 300],
        [str(j) for j in range(k)],
        [f"mixture, {j}" for j in range(k)],
        None,
    ][rng.integers(7)]
    frame = pandas.DataFrame(X, columns=names if names else range(k))
    labels = []
    for _ in range(int(rng.choice([0, 0, 1, 2]))):
        label = LABELS[rng.integers(len(LABELS))]
        if label in frame.columns or names is None:
            continue
        text = label in ("sample", "name", "date")
        values = [f"P{i}" for i in range(n)] if text else np.arange(n) * rng.choice([1, 0.25])
        frame.insert(int(rng.integers(len(frame.columns) + 1)), label, values)
        labels.append(label)
    return frame, names is not None, labels


def text_file(rng, folder):
    frame, header, labels = table(rng)
    decimal = "," if rng.random() < 0.2 else "."
    separator = str(rng.choice([";", "\t", "|"] if decimal == "," else [",", ";", "\t", "|", " "]))
    quoting, end = int(rng.choice([0, 1, 2])), str(rng.choice(["\n", "\r\n"]))
    form = rng.choice([None, "%.6g", "%.4f", "%.10e"])
    how = {"sep": separator, "decimal": decimal}
    body = frame.to_csv(None, index=False, header=header, quoting=quoting, float_format=form, **how)
    announced = f"sep={separator}\n" if separator != " " else ""
    start = rng.choice(["", "", "", "# made by an instrument\n", announced, "\n"])
    path = folder / f"x{rng.choice(['.csv', '.txt', '.tsv'])}"
    mark = "\ufeff" if rng.random() < 0.2 else ""
    path.write_bytes((mark + start + body).replace("\n", end).encode())
    lines = start.count("\n") if start != "\n" else 0
    how |= {"header": 0 if header else None, "skiprows": lines, "encoding": "utf-8-sig"}
    again = pandas.read_csv(path, float_precision="round_trip", **how)
    again.columns = frame.columns
    return [path], again.drop(columns=labels).to_numpy(float), {"decimal": decimal}


def sheet(rng, folder):
    frame, header, labels = table(rng)
    path = folder / "x.xlsx"
    frame.to_excel(path, index=False, header=header)
    again = pandas.read_excel(path, header=0 if header else None)
    again.columns = frame.columns
    return [path], again.drop(columns=labels).to_numpy(float), {}


def parquet(rng, folder):
    frame, _, labels = table(rng)
    frame.columns = frame.columns.map(str)
    if rng.random() < 0.3:
        frame.index = pandas.Index(rng.permutation(len(frame)) ** 2, name=rng.choice([None, "place"]))
    frame.to_parquet(folder / "x.parquet")
    return [folder / "x.parquet"], pandas.read_parquet(folder / "x.parquet").drop(columns=labels).to_numpy(float), {}


def array(rng):
    X = matrix(rng, int(rng.integers(1, 60)), int(rng.integers(1, 13)))
    dtype = str(rng.choice(["<f8", "<f4", ">f8", ">f4", "<f2", "<i4", "u1", ">u2", "<i8"]))
    return np.asarray((np.abs(X) % 200).astype(dtype), order=rng.choice(["C", "F"]))


def npy(rng, folder):
    X, path = array(rng), folder / f"x{rng.choice(['.npy', '.npz'])}"
    np.save(path, X) if path.suffix == ".npy" else rng.choice([np.savez, np.savez_compressed])(path, X=X)
    axis = int(rng.integers(2))
    return [path], X.T if axis else X, {"axis": axis}


def hdf5(rng, folder):
    X, axis = array(rng), int(rng.integers(2))
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("g/X", data=X, chunks=chunks(rng, X), compression=rng.choice([None, "gzip"]))
        file["t"] = np.arange(5)
    with h5py.File(folder / "x.h5") as file:
        Y = file["g/X"][:]
    return [folder / "x.h5"], Y.T if axis else Y, {"axis": axis}


def zarr_store(rng, folder):
    X, path = np.ascontiguousarray(array(rng).astype("<f8")), folder / "x.zarr"
    zarr.create_array(str(path), data=X, chunks=chunks(rng, X), zarr_format=int(rng.choice([2, 3])))
    return [path], zarr.open_array(str(path), mode="r")[:], {}


def mat(rng, folder):
    X, path = array(rng), folder / "x.mat"
    X = X.astype(float) if X.dtype == np.float16 else X
    scipy.io.savemat(path, {"X": X, "n": 3.0, "who": "me"}, do_compression=bool(rng.integers(2)))
    return [path], scipy.io.loadmat(path)["X"], {"dataset": "X"}


def tiff(rng, folder):
    h, w, k = (int(rng.integers(5, 20)) for _ in range(3))
    dtype = str(rng.choice(["u1", "u2", "u4", "f4", "f8", "i2"]))
    image = (rng.random((k, h, w)) * 200).astype(dtype)
    path, bands = folder / "x.tif", rng.random() < 0.5
    planar = str(rng.choice(["contig", "separate"])) if bands else None
    data = np.moveaxis(image, 0, 2) if planar == "contig" else image
    tifffile.imwrite(path, data, photometric="minisblack", planarconfig=planar, compression=rng.choice([None, "zlib"]))
    again = tifffile.imread(path)
    return [path], (np.moveaxis(again, 2, 0) if planar == "contig" else again).reshape(k, -1).T, {}


def png(rng, folder):
    h, w, k = rng.integers([5, 5, 2], [20, 20, 5])
    paths = [folder / f"{i}.png" for i in range(k)]
    colour = rng.random() < 0.3
    dtype, white = ("u1", 256) if colour or rng.random() < 0.5 else ("u2", 65536)
    for path in paths:
        Image.fromarray(rng.integers(0, white, (h, w, 3) if colour else (h, w)).astype(dtype)).save(path)
    if colour and rng.random() < 0.5:
        return paths[:1], np.asarray(Image.open(paths[0])).reshape(-1, 3), {}
    return paths, np.stack([np.asarray(Image.open(path)).ravel() for path in paths], axis=1), {}


KINDS = [text_file, text_file, text_file, text_file, sheet, parquet, npy, hdf5, zarr_store, mat, tiff, png]


def compare(seed, folder):
    """Write the file of a seed and read it; return its kind, the outcome, and what is to be said about it."""
    rng = np.random.default_rng(seed)
    make = KINDS[rng.integers(len(KINDS))]
    paths, expected, how = make(rng, folder)
    try:
        with open_reader(paths, **how) as reader:
            X, notes = reader.read(), [note for note in reader.notes if "begin with #" not in note]
    except InputError as error:
        return make.__name__, "refused", str(error)
    if X.shape == expected.shape and np.array_equal(X, expected.astype(X.dtype)):
        return make.__name__, "equal", ""
    return make.__name__, "noted" if notes else "SILENT", f"{X.shape} for {expected.shape}; {notes}"


def main(n=2000, first=0):
    outcomes = Counter()
    for seed in range(first, first + n):
        with tempfile.TemporaryDirectory() as folder:
            kind, outcome, words = compare(seed, Path(folder))
        outcomes[kind, outcome] += 1
        if outcome in ("noted", "SILENT"):
            print(seed, kind, outcome, words)
    for (kind, outcome), count in sorted(outcomes.items()):
        print(f"{kind:12} {outcome:8} {count}")
    silent = sum(count * (outcome == "SILENT") for (_, outcome), count in outcomes.items())
    print(f"{silent} silent differences in {n} files, seeds {first} to {first + n - 1}")
    return silent


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:]))))
