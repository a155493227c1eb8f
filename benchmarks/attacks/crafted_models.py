"""What somebody could write into a model file on purpose: every array and every field replaced, and files that are no models."""

import io
import json
import os
import struct
import warnings
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .model_zip import npy, pack, unpack

VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 7, 10**15, 2**63, 10**30, -(10**30), 3 * 10**8, 0.0, -1.0, 0.5, 1e-320, 1e308, float("nan"),
    float("inf"), float("-inf"), "", "x", "natural", "auto", "\ud800", [], [1], ["W_xy"], {}, {"callable": True}, [[[]]], "float16",
]  # fmt: skip


def array_variants(a: np.ndarray) -> dict[str, np.ndarray]:
    """The array with another shape, dtype, byte order or content."""
    whole = a.astype(np.float64)
    spoiled = {name: np.full(a.shape, value) for name, value in (("nan", np.nan), ("inf", np.inf), ("huge", 1e308))}
    one_nan = whole.copy()
    one_nan.flat[-1:] = np.nan
    as_own = {name: b.astype(a.dtype) if a.dtype.kind == "f" else b for name, b in spoiled.items()}
    integers = (
        {} if a.dtype.kind != "i" else {f"int {n}": np.full_like(a, n) for n in (-(2**63), -1, 0, 2**31, 2**63 - 1)}
    )
    return {
        **as_own, **integers, "one nan": one_nan, "zeros": np.zeros_like(a), "tiny": (whole * 1e-310).astype(a.dtype),
        "negative": (-whole).astype(a.dtype), "times 1e30": whole * 1e30, "ones": np.ones_like(a), "empty": a[:0].copy(),
        "big endian": a.astype(a.dtype.newbyteorder(">")), "float16": a.astype(np.float16), "float32": a.astype(np.float32),
        "long double": a.astype(np.longdouble), "complex": a.astype(complex),
        "int64": np.nan_to_num(whole, posinf=0).astype(np.int64),
        "bytes": np.full(a.shape, b"x"), "text": np.full(a.shape, "x"), "longer": np.concatenate([np.atleast_1d(a)] * 2),
        "wider": np.concatenate([np.atleast_1d(a)] * 2, axis=-1), "flat": a.ravel(),
        "deeper": a[np.newaxis], "scalar": np.array(a.ravel()[0] if a.size else 0.0), "transposed": np.asfortranarray(a.T),
        "one row": a[:1].copy(), "dates": np.zeros(a.shape, "M8[s]"), "fields": np.zeros(a.shape, [("x", "f8")]),
    }  # fmt: skip


def paths_of(header: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every field of a header."""
    inner = header.items() if isinstance(header, dict) else enumerate(header) if isinstance(header, list) else ()
    own = [prefix] if prefix else []
    return own + [
        place for key, value in inner if prefix[:1] != ("versions",) for place in paths_of(value, (*prefix, key))
    ]


def put(header: Any, place: tuple[Any, ...], value: Any) -> None:
    """Set a field, or remove it if the value is `Ellipsis`."""
    for key in place[:-1]:
        header = header[key]
    if value is Ellipsis:
        del header[place[-1]]
    else:
        header[place[-1]] = value


def mutate_content(header: dict[str, Any], arrays: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    """Change one to three fields, numbers or arrays at random."""
    for _ in range(int(rng.integers(1, 4))):
        places = [place for place in paths_of(header) if place not in (("checksum",), ("versions",))]
        place = places[int(rng.integers(len(places)))]
        name = list(arrays)[int(rng.integers(len(arrays)))]
        match int(rng.integers(8)):
            case 0:
                put(header, place, VALUES[int(rng.integers(len(VALUES)))])
            case 1:
                put(header, place, Ellipsis)  # which may be all parameters
            case 2:
                put(header, place, float(rng.standard_normal() * 10.0 ** int(rng.integers(-20, 20))))
            case 3:
                if arrays[name].dtype.kind in "fib":
                    arrays[name] = list(array_variants(arrays[name]).values())[int(rng.integers(22))]
            case 4 if arrays[name].size and arrays[name].dtype.kind in "fi":
                changed = arrays[name].copy()
                value = rng.choice([0, -1, 1e300, -1e300, 1e-300, 3e38, 2**40, np.inf, np.nan])
                with np.errstate(all="ignore"):
                    changed.flat[int(rng.integers(changed.size))] = (
                        value if changed.dtype.kind == "f" else int(rng.integers(-9, 2**62))
                    )
                arrays[name] = changed
            case 5:
                other = list(arrays)[int(rng.integers(len(arrays)))]
                arrays[name], arrays[other] = arrays[other], arrays[name]
            case 6:
                arrays.pop(name) if len(arrays) > 1 else None
            case _:
                scale = 10.0 ** int(rng.integers(-200, 200))
                with np.errstate(all="ignore"):
                    a = arrays[name]
                    arrays[name] = (a * scale).astype(a.dtype) if a.dtype.kind == "f" else a[::-1].copy()


def crafted(index: int, models: list[bytes], path: Path) -> Path:
    """Write the crafted file of this number and return its path."""
    makers = _files(models[0])
    if index < len(makers):
        return _write(makers[index], path)
    plans = _plans(tuple(models))
    model, place, value = plans[(index * 7919) % len(plans)]
    header, arrays = unpack(models[model])
    if isinstance(place, str):
        arrays[place] = array_variants(arrays[place])[value]
    else:
        put(header, place, value)
    path.write_bytes(pack(header, arrays))
    return path


@cache
def _plans(models: tuple[bytes, ...]) -> list[tuple[int, Any, Any]]:
    """Every array of every model in every variant, and every field with every value."""
    plans: list[tuple[int, Any, Any]] = []
    for i, content in enumerate(models):
        header, arrays = unpack(content)
        plans += [(i, name, variant) for name, a in arrays.items() for variant in array_variants(a)]
        plans += [
            (i, place, value) for place in paths_of(header) if place != ("checksum",) for value in (*VALUES, Ellipsis)
        ]
    return plans


def _write(maker: Any, path: Path) -> Path:
    content = maker(path) if callable(maker) else maker
    if isinstance(content, bytes):
        path.write_bytes(content)
        return path
    return Path(content)


def _header_of(shape: str, descr: str = "'<f8'", order: str = "False") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@cache
def _files(whole: bytes) -> list[Any]:
    """Files as bytes, or functions that make something at a path and return the path."""
    header, arrays = unpack(whole)
    name = next(iter(arrays))
    rest = {key: a for key, a in arrays.items() if key != name}

    def with_member(content: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
        return pack(header, rest, members={f"{name}.npy": content}, compression=compression)

    def with_text(text: bytes) -> bytes:
        return pack(header, arrays, text=text)

    def fifo(path: Path) -> Path:
        os.mkfifo(path)
        return path

    def folder(path: Path) -> Path:
        return path.parent

    def link(target: str) -> Any:
        def make(path: Path) -> Path:
            path.symlink_to(target)
            return path

        return make

    def sparse(path: Path) -> Path:
        with path.open("wb") as file:
            file.truncate(20 * 2**30)
            file.seek(0, 2)
            file.write(whole[-22:])
        return path

    twice = io.BytesIO(whole)
    with warnings.catch_warnings(), zipfile.ZipFile(twice, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr(f"{name}.npy", npy(arrays[name] * 0))
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        for i in range(60_000):
            archive.writestr(f"{i:x}", b"")
    bomb = npy(np.zeros(2**25))
    end = bytearray(whole)
    end[-10:-6] = struct.pack("<L", 2**31)  # the size of the table of contents
    deep = b"[" * 200_000
    shapes = ["(300000000,)", "(3, 10000000000000000000000)", "(-1,)", "(True,)", "(1.5,)", "(2**70,)", "[3]", "3", "(0,)", "()",
              "(" + "1," * 40 + ")", "(99999999999,0)"]  # fmt: skip
    kinds = [
        "'|O'",
        "'<f2'",
        "'>f8'",
        "[('x', '<f8')]",
        "'<U1000000000'",
        "'V100000000'",
        "'m8'",
        "'nothing'",
        "None",
        "'<c16'",
    ]
    return [
        b"", b"PK", b"PK\x05\x06" + bytes(18), b"hello" * 1000, bytes(10_000), whole[:-1], whole + b"x", b"x" * 70_000 + whole,
        fifo, folder, link("/dev/zero"), link("/dev/null"), link("/dev/urandom"), link("/proc/self/mem"), link("/proc/kmsg"),
        sparse,
        twice.getvalue(), many.getvalue(), bytes(end),
        *(with_member(bomb, method) for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)),
        with_text(b" " * 2**24 + json.dumps(header).encode()), with_text(deep), with_text(deep + b"]" * 200_000),
        with_text(b'{"a":' * 100_000), with_text(b"[" + b"{}," * 1_390_000 + b"{}]"), with_text(b"\xff\xfe\x00"),
        with_text(b"null"),
        with_text(b'{"format": ' + b"9" * 5000 + b"}"), with_text(b'{"format": 1e400}'), with_text(b'{"format": true}'),
        with_text(json.dumps(header).encode("utf-16")), with_text(b'{"format": 5, "format": 6}'), with_text(b'{"format": 5}'),
        *(with_member(_header_of(shape)) for shape in shapes),
        *(with_member(_header_of("(3,)", descr=kind) + bytes(24)) for kind in kinds),
        with_member(_header_of("(3, 4)", order="True") + bytes(96)), with_member(_header_of("(3,)") + bytes(25)),
        with_member(b"\x93NUMPY\x03\x00" + bytes(100)), with_member(b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(100)),
        with_member(b""),
        with_member(_header_of("(3,)" + "+()" * 3000) + bytes(24)),
        pack(header, arrays, members={"../../evil.npy": b"x"}), pack(header, arrays, members={"evil.py": b"import os"}),
        pack(header, arrays, members={"header.json.npy": npy(np.zeros(1))}), pack(header, {}), pack({}, arrays),
        pack(header, arrays, members={f"{i}.npy": npy(np.zeros(1)) for i in range(3000)}),
        pack(header, arrays | {"x" * 60_000: np.zeros(1)}),
    ]  # fmt: skip
