"""Random valid files, read by bionica and by pandas, SciPy, h5py, zarr, tifffile and
Pillow: what differs without a word?

    python benchmarks/files.py [formats | headers] [number of files] [first seed]

A file is read as the other library reads it, or refused with the option that decides,
or there is a note. Anything else is a silent difference; there must be none. `formats`
are files of all formats, `headers` tables in text, workbooks and pipes whose first line
or column holds numbers of 12 kinds, or is missing ("plain"). Of plain tables the share
that is refused is printed.
"""

import io
import sys
import tempfile
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pandas
import scipy.io
import tifffile
import zarr
from PIL import Image

from bionica.io import InputError, open_pipe, open_reader

LABELS = ["time", "Time (s)", "index", "", "sample", "Zeit [min]", "date", "name"]


def chunks(rng, X):
    return tuple(rng.integers(1, np.add(X.shape, 1)).tolist())


def matrix(rng, n, k):
    """Return mixtures of one of the kinds that files hold."""
    t = np.linspace(0, 3, n)[:, np.newaxis]
    kinds = [
        lambda: rng.standard_normal((n, k)),
        lambda: rng.exponential(size=(n, 3)) @ rng.random((3, k)),
        lambda: np.exp(-t * rng.random(k)) + 0.5,
        lambda: t * (1 + np.arange(k)),  # every column rises evenly
        lambda: rng.poisson(3, (n, k)).astype(float),
        lambda: (
            rng.exponential(size=(n, 1))
            * np.exp(-((np.arange(k) - k / 2) ** 2) / (k + 1))
        ),
        lambda: np.sort(rng.random((n, k)), axis=1) * 1000,
        lambda: np.full((n, k), 7.0),
    ]
    return kinds[rng.integers(len(kinds))]()


def table(rng):
    """Return a data frame with names of any kind, perhaps with labels, and the columns
    that are mixtures.
    """
    n = int(rng.integers(2, 60))
    k = int(rng.integers(1, 13))
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
        values = (
            [f"P{i}" for i in range(n)]
            if text
            else np.arange(n) * rng.choice([1, 0.25])
        )
        frame.insert(int(rng.integers(len(frame.columns) + 1)), label, values)
        labels.append(label)
    return frame, names is not None, labels


def text_file(rng, folder):
    frame, header, labels = table(rng)
    decimal = "," if rng.random() < 0.2 else "."
    separator = str(
        rng.choice([";", "\t", "|"] if decimal == "," else [",", ";", "\t", "|", " "])
    )
    quoting = int(rng.choice([0, 1, 2]))
    end = str(rng.choice(["\n", "\r\n"]))
    form = rng.choice([None, "%.6g", "%.4f", "%.10e"])
    how = {"sep": separator, "decimal": decimal}
    body = frame.to_csv(
        None, index=False, header=header, quoting=quoting, float_format=form, **how
    )
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
        frame.index = pandas.Index(
            rng.permutation(len(frame)) ** 2, name=rng.choice([None, "place"])
        )
    frame.to_parquet(folder / "x.parquet")
    return (
        [folder / "x.parquet"],
        pandas.read_parquet(folder / "x.parquet").drop(columns=labels).to_numpy(float),
        {},
    )


def array(rng):
    X = matrix(rng, int(rng.integers(1, 60)), int(rng.integers(1, 13)))
    dtype = str(
        rng.choice(["<f8", "<f4", ">f8", ">f4", "<f2", "<i4", "u1", ">u2", "<i8"])
    )
    return np.asarray((np.abs(X) % 200).astype(dtype), order=rng.choice(["C", "F"]))


def npy(rng, folder):
    X = array(rng)
    path = folder / f"x{rng.choice(['.npy', '.npz'])}"
    (
        np.save(path, X)
        if path.suffix == ".npy"
        else rng.choice([np.savez, np.savez_compressed])(path, X=X)
    )
    axis = int(rng.integers(2))
    return [path], X.T if axis else X, {"axis": axis}


def hdf5(rng, folder):
    X = array(rng)
    axis = int(rng.integers(2))
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset(
            "g/X", data=X, chunks=chunks(rng, X), compression=rng.choice([None, "gzip"])
        )
        file["t"] = np.arange(5)
    with h5py.File(folder / "x.h5") as file:
        Y = file["g/X"][:]
    return [folder / "x.h5"], Y.T if axis else Y, {"axis": axis}


def zarr_store(rng, folder):
    X = np.ascontiguousarray(array(rng).astype("<f8"))
    path = folder / "x.zarr"
    zarr.create_array(
        str(path), data=X, chunks=chunks(rng, X), zarr_format=int(rng.choice([2, 3]))
    )
    return [path], zarr.open_array(str(path), mode="r")[:], {}


def mat(rng, folder):
    X = array(rng)
    path = folder / "x.mat"
    X = X.astype(float) if X.dtype == np.float16 else X
    scipy.io.savemat(
        path, {"X": X, "n": 3.0, "who": "me"}, do_compression=bool(rng.integers(2))
    )
    return [path], scipy.io.loadmat(path)["X"], {"dataset": "X"}


def tiff(rng, folder):
    h, w, k = (int(rng.integers(5, 20)) for _ in range(3))
    dtype = str(rng.choice(["u1", "u2", "u4", "f4", "f8", "i2"]))
    image = (rng.random((k, h, w)) * 200).astype(dtype)
    path = folder / "x.tif"
    bands = rng.random() < 0.5
    planar = str(rng.choice(["contig", "separate"])) if bands else None
    data = np.moveaxis(image, 0, 2) if planar == "contig" else image
    tifffile.imwrite(
        path,
        data,
        photometric="minisblack",
        planarconfig=planar,
        compression=rng.choice([None, "zlib"]),
    )
    again = tifffile.imread(path)
    return (
        [path],
        (np.moveaxis(again, 2, 0) if planar == "contig" else again).reshape(k, -1).T,
        {},
    )


def png(rng, folder):
    h, w, k = rng.integers([5, 5, 2], [20, 20, 5])
    paths = [folder / f"{i}.png" for i in range(k)]
    colour = rng.random() < 0.3
    dtype, white = ("u1", 256) if colour or rng.random() < 0.5 else ("u2", 65536)
    for path in paths:
        Image.fromarray(
            rng.integers(0, white, (h, w, 3) if colour else (h, w)).astype(dtype)
        ).save(path)
    if colour and rng.random() < 0.5:
        return paths[:1], np.asarray(Image.open(paths[0])).reshape(-1, 3), {}
    return (
        paths,
        np.stack([np.asarray(Image.open(path)).ravel() for path in paths], axis=1),
        {},
    )


FORMATS = [
    text_file,
    text_file,
    text_file,
    text_file,
    sheet,
    parquet,
    npy,
    hdf5,
    zarr_store,
    mat,
    tiff,
    png,
]

# --- first lines of numbers

HEADERS = {
    "wavelengths": (
        lambda rng, k: (
            rng.choice([350, 400.5, 900]) + rng.choice([1, 2, 0.5]) * np.arange(k)
        )
    ),
    "replicates": lambda rng, k: np.repeat(400 + 10 * np.arange(k), rng.integers(2, 4))[
        :k
    ],
    "overlapping detectors": lambda rng, k: np.r_[
        400 + 10 * np.arange(-(-k // 2)), 395 + 10 * np.arange(1, k // 2 + 1)
    ],
    "sample numbers": lambda rng, k: rng.integers(1, 30) + np.arange(k),
    "filters in their order": lambda rng, k: rng.permutation(k) + 1,
    "pH": lambda rng, k: (4 + 5 * rng.random(k)).round(1),
    "laser lines": lambda rng, k: np.array(
        [405, 445, 488, 514, 532, 561, 594, 633, 660, 730, 785, 808]
    )[:k],
    "wavenumbers": lambda rng, k: 1e7 / np.linspace(400, 700, k),
    "masses": lambda rng, k: np.sort(rng.choice(500, k, replace=False)) + 50,
    "concentrations": lambda rng, k: np.array(
        [0, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200]
    )[:k],
    "years": lambda rng, k: rng.permutation(2000 + np.arange(k)),
    "numbers of patients": lambda rng, k: rng.choice(2000, k, replace=False),
}


def cells(X, form):
    return [[form % x for x in row] for row in X.tolist()]


def header(rng, folder, kind=None):
    """Write a table whose first line, or first column, holds numbers of a kind, or that
    has no names (None).
    """
    kind = kind or rng.choice([*HEADERS])
    n = int(rng.integers(3, 60))
    k = int(rng.integers(2, 13))
    X = matrix(rng, n, k)
    form = str(rng.choice(["%r", "%.6g", "%.4f", "%.2f", "%.1f", "%.10e"]))
    rows = cells(X, form)
    expected = np.array(rows, float)
    names = (
        []
        if kind == "plain"
        else [
            [
                rng.choice(["%g", "%g", "%.1f", "%.2f"]) % name
                for name in HEADERS[kind](rng, k)
            ]
        ]
    )
    rows = names + rows
    medium = rng.choice(["text", "sheet", "pipe"])
    axis = None
    # samples in columns; asked for, or forgotten
    if medium != "pipe" and rng.random() < 0.4:
        rows = [*zip(*rows, strict=True)]
        axis = [None, 1][rng.integers(2)]
        expected = expected if axis else expected.T
    if medium == "sheet":
        pandas.DataFrame([[*map(float, row)] for row in rows]).to_excel(
            folder / "x.xlsx", index=False, header=False
        )
        return [folder / "x.xlsx"], expected, {"axis": axis}
    text = "".join(",".join(row) + "\n" for row in rows)
    (folder / "x.csv").write_text(text)
    return (
        (text.encode(), expected, {})
        if medium == "pipe"
        else ([folder / "x.csv"], expected, {"axis": axis})
    )


def plain(rng, folder):
    return header(rng, folder, "plain")


KINDS = {
    "formats": FORMATS,
    "headers": [
        *(partial(header, kind=kind) for kind in HEADERS),
        plain,
        plain,
        plain,
        plain,
    ],
}


def compare(seed, folder, group="formats"):
    """Write the file of a seed and read it; return its kind, the outcome, and what is
    to be said about it.
    """
    rng = np.random.default_rng(seed)
    make = KINDS[group][rng.integers(len(KINDS[group]))]
    name = make.keywords["kind"] if isinstance(make, partial) else make.__name__
    source, expected, how = make(rng, folder)
    try:
        if isinstance(source, bytes):
            reader = open_pipe(io.BytesIO(source), **how)
        else:
            reader = open_reader(source, **how)
        with reader:
            X = reader.read()
            notes = [note for note in reader.notes if "begin with #" not in note]
    except InputError as error:
        return name, "refused", str(error)
    if group == "headers":  # a note about another thing is none about the first line
        notes = [
            note for note in notes if "first line" in note or "first column" in note
        ]
    # pandas rounds in .xlsx
    rtol = 1e-12 if group == "headers" else 0
    expected = expected.astype(X.dtype)
    if X.shape == expected.shape and np.allclose(X, expected, rtol, 0, equal_nan=True):
        return name, "equal", str(notes)
    return (
        name,
        "noted" if notes else "SILENT",
        f"{X.shape} for {expected.shape}; {notes} {X[:2, :4].tolist()}",
    )


def main(group="formats", n=2000, first=0):
    warnings.simplefilter("ignore")
    outcomes = Counter()
    n = int(n)
    first = int(first)
    for seed in range(first, first + n):
        with tempfile.TemporaryDirectory() as folder:
            kind, outcome, words = compare(seed, Path(folder), group)
        outcomes[kind, outcome] += 1
        if outcome == "SILENT" or (outcome == "noted" and group == "formats"):
            print(seed, kind, outcome, words)
    for (kind, outcome), count in sorted(outcomes.items()):
        print(f"{kind:22} {outcome:8} {count}")
    if group == "headers":
        refused = outcomes["plain", "refused"]
        total = sum(count for (kind, _), count in outcomes.items() if kind == "plain")
        print(f"tables without names: {refused} of {total} refused")
    silent = sum(
        count for (_, outcome), count in outcomes.items() if outcome == "SILENT"
    )
    print(
        f"{silent} silent differences in {n} files of {group}, seeds {first} to"
        f" {first + n - 1}"
    )
    return silent


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
