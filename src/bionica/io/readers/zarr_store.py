"""Mixtures in Zarr stores.

The metadata of a store says how to decode its chunks, and some of the codecs that it can name run code from the file (pickle) or
make Python objects. It is read and checked here, before the zarr package opens the one array that is asked for: only real
numbers, only codecs that turn bytes into bytes or numbers into numbers, and only chunks that fit in memory.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .checks import InputError, check_chunk_size, check_declared_size, import_optional

_BYTES_CODECS = {"blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"}
_CHECKSUMS = {"adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3"}
_NUMBER_CODECS = {"astype", "bitround", "delta", "fixedscaleoffset", "packbits", "quantize", "shuffle"}
#: Codecs of both formats, by the names that numcodecs has for them.
CODECS = _BYTES_CODECS | _CHECKSUMS | _NUMBER_CODECS
#: Codecs of format 3 alone.
_CODECS_3 = {"bytes", "transpose", "sharding_indexed"}
_DTYPES_3 = {
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
}

_LONGEST_METADATA = 2**26  # bytes
_DEEPEST, _MOST_NODES = 32, 10_000  # groups in groups, and arrays and groups in all


@dataclass(frozen=True)
class ArrayMetadata:
    """What the metadata of one array says, of either format."""

    format: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None  # None: not a plain number
    codecs: list[str]
    chunk: tuple[int, ...]  # what is decoded at once
    type_name: str

    @property
    def is_matrix(self) -> bool:
        """Whether it can hold mixtures."""
        return len(self.shape) == 2 and self.dtype is not None


def read_metadata(path: Path) -> dict[str, ArrayMetadata]:
    """Return the metadata of every array in a store by its name, "" if the store is one array."""
    found = {}
    for count, (name, node) in enumerate(_nodes(path, "")):
        if count > _MOST_NODES:
            raise InputError(
                f"{path} has more than {_MOST_NODES:,} arrays and groups: name the folder of the one to read"
            )
        if node is not None:
            found[name] = node
    return found


def _nodes(folder: Path, name: str, depth: int = 0) -> Iterator[tuple[str, ArrayMetadata | None]]:
    """Yield the arrays and groups of a group; links are not followed, because they can lead anywhere."""
    if depth > _DEEPEST:
        raise InputError(f"{folder} is nested more than {_DEEPEST} folders deep: name the folder of the array to read")
    if (folder / "zarr.json").is_file():
        body = _json(folder / "zarr.json")
        array = _format_3(body) if body.get("node_type") == "array" else None
    elif (folder / ".zarray").is_file():
        array = _format_2(_json(folder / ".zarray"))
    elif depth == 0 and not (folder / ".zgroup").is_file():
        raise InputError(f"{folder} is not a Zarr store: it has neither zarr.json nor .zarray nor .zgroup")
    else:
        array = None
    yield name, array
    if array is None:
        for inner in sorted(inner for inner in folder.iterdir() if inner.is_dir() and not inner.is_symlink()):
            yield from _nodes(inner, f"{name}/{inner.name}".lstrip("/"), depth + 1)


def _json(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        text = file.read(_LONGEST_METADATA + 1)
    if len(text) > _LONGEST_METADATA:
        raise InputError(f"{path} is longer than {_LONGEST_METADATA >> 20} MiB: is it metadata of a Zarr store?")
    body = json.loads(text)
    if not isinstance(body, dict):
        raise InputError(f"{path} is not metadata of a Zarr store")
    return body


def _format_2(body: dict[str, Any]) -> ArrayMetadata:
    filters = [*(body.get("filters") or []), *([body["compressor"]] if body.get("compressor") else [])]
    name = body["dtype"]
    dtype = np.dtype(name) if isinstance(name, str) and name[:1] in "<>|" and name[1:2] in set("biuf") else None
    shape, chunk = _sizes(body["shape"]), _sizes(body["chunks"])
    return ArrayMetadata(2, shape, dtype, [str(codec["id"]) for codec in filters], chunk, str(name))


def _format_3(body: dict[str, Any]) -> ArrayMetadata:
    name, grid = body["data_type"], body["chunk_grid"]
    dtype = np.dtype(name) if isinstance(name, str) and name in _DTYPES_3 else None
    codecs, chunk = _codecs_3(body["codecs"])
    chunk = _sizes(chunk or grid["configuration"]["chunk_shape"])
    return ArrayMetadata(3, _sizes(body["shape"]), dtype, codecs, chunk, str(name))


def _codecs_3(codecs: list[Any], depth: int = 0) -> tuple[list[str], Any]:
    """Return the names of all codecs, and the shape of the chunks of a shard if these are decoded one by one."""
    names: list[str] = []
    chunk = None
    for codec in codecs:
        name = codec if isinstance(codec, str) else codec["name"]
        names.append(str(name))
        if name == "sharding_indexed" and depth < _DEEPEST:
            inner, chunk_of_inner = _codecs_3(codec["configuration"]["codecs"], depth + 1)
            index, _ = _codecs_3(codec["configuration"].get("index_codecs", []), depth + 1)
            names += inner + index
            # Another codec around the shard decodes all of it at once.
            chunk = (chunk_of_inner or codec["configuration"]["chunk_shape"]) if len(codecs) == 1 else None
    return names, chunk


def _sizes(values: Any) -> tuple[int, ...]:
    sizes = tuple(values)
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise ValueError(f"the metadata has the sizes {str(values)[:60]}")
    return sizes


def open_checked(path: Path, name: str, metadata: ArrayMetadata) -> Any:
    """Open one array of a store, if it is safe to decode."""
    array = path / name
    if metadata.dtype is None:
        raise InputError(f"{array} holds {metadata.type_name[:60]}, not real numbers: convert it to float64 first")
    known = CODECS | {f"numcodecs.{codec}" for codec in CODECS} | (_CODECS_3 if metadata.format == 3 else set())
    if refused := [codec for codec in metadata.codecs if codec not in known]:
        raise InputError(
            f"{array} is encoded with {refused[0][:60]!r}, which bionica does not decode (it could run code or make objects): "
            f"write it again without; it decodes {', '.join(sorted(CODECS))}"
        )
    size = metadata.dtype.itemsize
    check_chunk_size(str(array), math.prod(metadata.chunk) * size)
    check_declared_size(
        str(array), math.prod(metadata.shape) * size, (file.stat().st_size for file in array.rglob("*"))
    )
    opened = import_optional("zarr", "reading Zarr").open_array(str(array), mode="r", zarr_format=metadata.format)
    if opened.shape != metadata.shape or opened.dtype != metadata.dtype:
        raise InputError(f"{array} has metadata that zarr reads in another way than bionica: write it again")
    return opened
