"""Files of MATLAB and .xlsx workbooks for the attack on files: good ones, and ones that were made to do harm."""

import importlib.util
import zipfile

import numpy as np

_SHEET = "xl/worksheets/sheet1.xml"


def good_workbooks(folder, X):
    import h5py
    import scipy.io

    cell = np.empty((1, 2), object)
    cell[:] = "word"
    scipy.io.savemat(folder / "plain.mat", {"X": X, "names": cell})
    scipy.io.savemat(folder / "deflated.mat", {"s": {"a": X[:3]}, "X": X}, do_compression=True)
    with h5py.File(folder / "version73.mat", "w", userblock_size=512) as file:
        file["X"] = X.T
        file["X"].attrs["MATLAB_class"] = np.bytes_("double")
    if importlib.util.find_spec("openpyxl"):
        _workbook(folder / "book.xlsx", X)


def crafted_workbooks(folder):
    import scipy.io

    cell = np.empty((4, 3), object)
    cell[:] = "word"
    scipy.io.savemat(folder / "cells.mat", {"X": cell})
    scipy.io.savemat(folder / "huge.mat", {"X": np.ones((50, 8))})
    data = (folder / "huge.mat").read_bytes()
    shape, huge = np.int32([50, 8]).tobytes(), np.int32([2**30, 2**30]).tobytes()
    (folder / "huge.mat").write_bytes(data.replace(shape, huge))
    (folder / "short.mat").write_bytes(data.replace(shape, np.int32([50_000, 8]).tobytes()))
    (folder / "type.mat").write_bytes(data.replace(np.int32([9, 3200]).tobytes(), np.int32([255, 3200]).tobytes()))
    for name, head in (("deep", b"MATLAB 5.0"), ("noise", b"")):
        (folder / f"{name}.mat").write_bytes(head.ljust(124) + b"\x00\x01IM" + b"\x0e\0\0\0\xff\xff\xff\x7f" * 10_000)
    if not importlib.util.find_spec("openpyxl"):
        return
    entities = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + b"".join(
        b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9)
    )
    for name, part, change in (
        ("entities", _SHEET, lambda sheet: entities + b"]>" + sheet),
        ("external", _SHEET, lambda sheet: b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + sheet),
        ("wide", _SHEET, lambda sheet: sheet.replace(b"</row>", b"<c><v>1</v></c>" * 10**6 + b"</row>", 1)),
        ("long", _SHEET, lambda sheet: sheet + b" " * (2**28 + 1)),
        ("strings", "xl/sharedStrings.xml", lambda _: b"<sst>" + b"<si><t>x</t></si>" * 2**22 + b"</sst>"),
    ):
        _workbook(folder / f"{name}.xlsx", np.ones((4, 3)))
        _change(folder / f"{name}.xlsx", part, change)


def _workbook(path, X):
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["a", "b", "c"])
    for row in X.tolist():
        book.active.append(row)
    book.save(path)


def _change(path, part, change):
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[part] = change(parts.get(part, b""))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
