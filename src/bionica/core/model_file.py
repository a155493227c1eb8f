"""Fitted estimators as model files, and back: an .npz of plain arrays, which
`numpy.load` reads too, with a JSON header.

`_saved` of an estimator names the attributes that make it up: a string is the schema of
an array or a number, and a `Record` is a named tuple of these, whose arrays have dotted
names. What a file holds is up to the estimator (`Estimator._records`).

A schema has the letters of the shape, then the kind after a colon. "dk" is (d, k): a
letter is one length throughout the model, and k the number of mixtures. "2:count" are
two counts, ":bool" is one truth value. Kinds are those of `_KINDS`; arrays without a
kind all have the precision of the model. A "~" at the end allows NaN and infinity.

A file may come from anybody. Reading it runs no code, because nothing is pickled.
Nothing in it is compressed, and its header has a bounded size, so that it takes memory
in proportion to its size. Class, parameters, names, shapes, dtypes and values are
checked, then that all of them agree (`Estimator._restore`). The checksums (CRC-32) of
zip show damage, not forgery.
"""

import inspect
import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from bionica.core.blocks import Array
from bionica.core.errors import Message, ModelFileError, printable
from bionica.core.files import complete_files

FORMAT = 10
# parsed JSON takes up to 25 times the memory of its text
_HEADER = "header.json"
_HEADER_BYTES = 2**22
_CALLABLE = {"callable": True}
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_MOST = 2**52  # counts stay where float64 counts exactly and one more never overflows
#: Dtypes, and for integers the smallest and the largest. Seeds are those of
#: `circuits.guards.uniform`.
_KINDS: dict[str, tuple[tuple[np.dtype[Any], ...], int, int]] = {
    "": (_FLOATS, 0, 0),
    "float": (_FLOATS, 0, 0),
    "float64": (_FLOATS[1:], 0, 0),
    "bool": ((np.dtype(np.bool_),), 0, 1),
    "count": ((np.dtype(np.int64),), 0, _MOST),
    "samples": ((np.dtype(np.float64),), 0, _MOST),
    "seed": ((np.dtype(np.int64),), 1, 2147483562),
}
_SCALARS = {int: ":count", float: ":float64", bool: ":bool"}


class Record(NamedTuple):
    """A class of named tuples; schemas of its arrays by dotted name; whether it may be
    None.
    """

    make: Any
    schemas: Mapping[str, str]
    optional: bool = False


def _built(make: Any, values: Iterator[Any]) -> Any:
    """A named tuple of its values in the order of `leaf_types`."""
    hints = get_type_hints(make).values()
    return make(
        *(
            _built(hint, values) if hasattr(hint, "_fields") else next(values)
            for hint in hints
        )
    )


def leaf_types(make: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and types of all arrays and numbers in a class of named tuples; its
    parts are named tuples too.
    """
    for name, hint in get_type_hints(make).items():
        if hasattr(hint, "_fields"):
            yield from leaf_types(hint, f"{prefix}{name}.")
        else:
            yield prefix + name, hint


def _schema(records: Mapping[str, Any]) -> dict[str, str]:
    """The schema of each array, by dotted name."""
    schema = {}
    for name, kind in records.items():
        if isinstance(kind, str):
            schema[name] = kind
            continue
        for leaf, hint in leaf_types(kind.make):
            schema[f"{name}.{leaf}"] = kind.schemas.get(leaf) or _SCALARS[hint]
    return schema


def _present(records: Mapping[str, Any], is_present: Callable[[str], bool]) -> Any:
    """Those records that a file has: optional ones may be absent."""
    return {
        name: kind
        for name, kind in records.items()
        if is_present(name) or not getattr(kind, "optional", False)
    }


def contents(estimator: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what a file of this estimator holds, header and arrays, which never
    change.
    """
    values = deepcopy(estimator._to_save())
    cls = type(estimator)
    rule = estimator._rule_name()
    header = {
        "class": (
            cls.__name__
            if _ours(cls.__name__) is cls
            else f"{cls.__module__}.{cls.__qualname__}"
        ),
        "parameters": estimator._config,
        "rule": rule,
        "n_features": estimator.n_features_in_,
        "feature_names": (
            [str(name) for name in getattr(estimator, "feature_names_in_", [])] or None
        ),
        "source_names": (
            [str(name) for name in getattr(estimator, "source_names_", [])] or None
        ),
        "origin": getattr(estimator, "origin_", {}),
        "versions": {
            name: version(name) for name in ("bionica", "numpy", "scikit-learn")
        },
    }
    present = {name for name, value in values.items() if value is not None}
    records = _present(estimator._records(rule), present.__contains__)
    owner = SimpleNamespace(**values)
    return header, {
        name: np.asarray(attrgetter(name)(owner)) for name in _schema(records)
    }


def _as_json(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if callable(value):
        return _CALLABLE
    if isinstance(value, np.random.RandomState):
        return None  # spent: what is still random comes from the state
    return (
        sorted(value)
        if isinstance(value, set | frozenset)
        else np.asarray(value).tolist()
    )


def write_model(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: Mapping[str, Array]
) -> None:
    """Write a header, with the format, and arrays, completely or not at all."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"{path.parent} is not a folder; make it first, or save somewhere else"
        )
    text = json.dumps(
        {**header, "format": FORMAT}, indent=1, sort_keys=True, default=_as_json
    )
    if len(text) > _HEADER_BYTES:
        raise ValueError(
            Message(
                "the parameters and feature names of {} would take {:,} bytes, and load"
                " reads {:,}: shorten the names, or replace a large init or"
                " {known_mixing} (set_params) before saving",
                path,
                len(text),
                _HEADER_BYTES,
            )
        )
    with complete_files([path]) as (part,):
        with part.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        with zipfile.ZipFile(part, "a") as archive:
            archive.writestr(zipfile.ZipInfo(_HEADER), text)


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read what `write_model` wrote: the header and the arrays, in the byte order of
    this machine.
    """
    size = Path(path).stat().st_size
    if not Path(path).is_file():  # a pipe would wait for ever, a device may have no end
        raise ModelFileError(
            f"{path} is a folder, a pipe or a device, not a bionica model"
        )
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not a zip archive")
    with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        members = file.zip.infolist()
        if (
            any(m.compress_type != zipfile.ZIP_STORED for m in members)
            or sum(m.file_size for m in members) > size
        ):
            raise ValueError(
                "it is compressed, or declares more bytes than the file has"
            )
        if file.zip.getinfo(_HEADER).file_size > _HEADER_BYTES:
            raise ValueError(f"its {_HEADER} has more than {_HEADER_BYTES:,} bytes")
        header = dict(json.loads(file.zip.read(_HEADER)))
        if header["format"] != FORMAT:
            raise ModelFileError(
                f"{path} has format {str(header['format'])[:40]}, and this bionica"
                f" reads {FORMAT}: load it with the version that wrote it"
                f" ({str(header.get('versions'))[:80]}), or fit the model again"
            )
        arrays = {}
        for name in set(file.files) - {_HEADER}:
            try:
                array = file[name]
                arrays[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
            except Exception as error:
                raise ValueError(f"array {name!r}: {error}") from error
    return header, arrays


def _check_arrays(
    arrays: Mapping[str, Array], schema: Mapping[str, str], k: int
) -> None:
    """Raise ValueError unless names, shapes, dtypes and values are those of the schema
    for k mixtures.
    """
    different = sorted(set(schema) ^ set(arrays))
    if different:
        raise ValueError(
            f"array {different[0][:80]!r} is"
            f" {'missing' if different[0] in schema else 'of no attribute'}"
        )
    lengths = {"k": k}
    precision = None
    for name, spec in schema.items():
        letters, _, kind = spec.rstrip("~").partition(":")
        a, (dtypes, low, high) = arrays[name], _KINDS[kind]
        if not kind and precision is not None:
            dtypes = (precision,)
        shape = [
            lengths.setdefault(letter, a.shape[i] if i < a.ndim else 0)
            for i, letter in enumerate(letters)
        ]
        shape = [int(letters)] if letters.isdigit() else shape
        if a.dtype not in dtypes or list(a.shape) != shape:
            raise ValueError(
                f"array {name!r} is {a.dtype} of shape {a.shape}, not"
                f" {spec or 'a number'} with {lengths}"
            )
        values = a.view(np.uint8) if a.dtype == np.bool_ else a
        if a.dtype.kind == "f" and not spec.endswith("~") and not np.isfinite(a).all():
            raise ValueError(f"array {name!r} holds NaN or infinity")
        if (
            (a.dtype.kind != "f" or kind == "samples")
            and a.size
            and not low <= values.min() <= values.max() <= high
        ):
            raise ValueError(
                f"array {name!r} holds {values.min()} to {values.max()}, not {low} to"
                f" {high}"
            )
        precision = precision if kind else a.dtype
    if min(lengths["k"], lengths.get("d", 1)) < 1:
        raise ValueError(f"there is at least one mixture and one source, not {lengths}")


def load(path: str | os.PathLike[str], **overrides: Any) -> Any:
    """Read an estimator that `save` wrote, ready to transform or to go on learning.
    Loading runs no code from the file.

    Parameters
    ----------
    path : path
        A file that `save` wrote.
    **overrides
        Parameters that a running model may change: its learning rates (`eta0`, `decay`,
        `power`, those of a whitening layer) and `horizon`. A schedule that was a
        function must be given again here.

    Returns
    -------
    estimator
        Of the class that was saved. Learning on gives the same bits as if it had never
        stopped.

    Raises
    ------
    ModelFileError
        If the file is damaged or no bionica model.
    ValueError
        If an override is no parameter, has a value that it does not take, or
        contradicts what was learned.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib, bionica
    >>> X = np.random.default_rng(0).exponential(size=(100, 2))
    >>> network = bionica.TwoCompartmentNICA(random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.bionica"
    ...     network.save(path)
    ...     again = bionica.load(path)
    >>> bool(np.array_equal(again.transform(X), network.transform(X)))
    True
    """
    try:
        header, arrays = read_model(path)
        estimator = _unfitted(path, header, overrides)
        _fill(estimator, header, arrays)
    except (ModelFileError, FileNotFoundError, PermissionError, MemoryError):
        raise
    except Exception as error:
        reason = (str(error) or repr(error))[:500]
        raise ModelFileError(
            f"{path} is not a complete bionica model ({reason}): use another copy of"
            " it, or fit the model again and save it"
        ) from error
    estimator.set_params(**overrides)._check_config()
    return estimator


def _unfitted(path: Any, header: dict[str, Any], overrides: dict[str, Any]) -> Any:
    """Return an estimator with the parameters of a file; functions, which no file
    holds, are among the overrides.

    Its class is one of bionica's, or module.Class of a module that is imported.
    """
    module, _, name = str(header["class"]).rpartition(".")
    cls = getattr(sys.modules.get(module), name, None) if module else _ours(name)
    parameters = {**header["parameters"]}
    is_estimator = hasattr(cls, "_to_save") and not inspect.isabstract(cls)
    if not (isinstance(cls, type) and is_estimator):
        raise ModelFileError(
            f"{path} holds a {str(header['class'])[:80]!r}, not a known estimator: if"
            " it is yours, import its module first"
        )
    for name in [name for name, value in parameters.items() if value == _CALLABLE]:
        if name not in overrides:
            raise ModelFileError(
                f"{name} was a function when {path} was saved, and a file holds no"
                f" code: give it again, load(path, {name}=...)"
            )
        parameters[name] = overrides[name]
    if isinstance(parameters.get("guards"), list):
        parameters["guards"] = tuple(parameters["guards"])
    estimator = cls(**parameters)
    estimator._freeze()
    return estimator


def _ours(name: str) -> Any:
    """The estimator that bionica calls so, or None; importing it registers its rule."""
    package = sys.modules["bionica"]
    return getattr(package, name) if name in package.__all__ else None


def _fill(estimator: Any, header: dict[str, Any], arrays: Mapping[str, Array]) -> None:
    """Give an estimator the arrays of a file; any exception if they do not agree with
    it.
    """
    estimator.n_features_in_ = k = header["n_features"]
    if type(k) is not int:
        raise ValueError(f"n_features is {str(k)[:40]!r}")
    names = header["feature_names"]
    if names is not None:
        if (
            not isinstance(names, list)
            or len(names) != k
            or not all(isinstance(name, str) for name in names)
        ):
            raise ValueError(f"feature_names are not the names of {k} features")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    names = header.get("source_names")
    if names is not None:
        if not isinstance(names, list) or not all(
            isinstance(name, str) for name in names
        ):
            raise ValueError("source_names are not names")
        estimator.source_names_ = [printable(name) for name in names]
    origin = header.get("origin")
    if origin:
        estimator.origin_ = {str(name): float(value) for name, value in origin.items()}
        if not np.isfinite([*estimator.origin_.values()]).all():
            raise ValueError("origin has a number that is not finite")
    present = {name.partition(".")[0] for name in arrays}
    records = _present(estimator._records(header["rule"]), present.__contains__)
    schema = _schema(records)
    _check_arrays(arrays, schema, k)
    values = (
        arrays[key].item() if spec.startswith(":") else arrays[key]
        for key, spec in schema.items()
    )
    # None, where a file has none
    restored = dict.fromkeys(type(estimator)._saved)
    for name, kind in records.items():
        restored[name] = (
            next(values) if isinstance(kind, str) else _built(kind.make, values)
        )
    estimator._restore(restored)
