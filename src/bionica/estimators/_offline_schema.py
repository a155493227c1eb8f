"""The offline estimators to and from `io.model` files: what each remembers, written down once and checked when read."""

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..offline.whitening import Moments, Spectrum, Whitening

__all__ = ["Saved", "restore", "stored"]

Array = NDArray[Any]


class Record(NamedTuple):
    """A named tuple or a dict, and what its fields are."""

    make: Any
    fields: dict[str, Any]


#: Of every class its fitted attributes: an array by its shape (k features, d components, any other letter any length), a number by
#: its type, or a record of these.
_BATCH = {
    "components_": "dk",
    "mixing_": "kd",
    "whitening_": "dk",
    "mean_": "k",
    "spectrum_": Record(Spectrum, {"eigenvalues": "r", "criterion": "r", "n_sources": int, "noise_floor": float}),
    "negativity_": float,
    "ambiguity_": float,
    "n_iter_": int,
    "n_restarts_": int,
    "n_samples_seen_": int,
}
_WHITENER = {
    "_moments": Record(Moments, {"n": int, "mean": "k", "scatter": "kk"}),
    "_whitening": Record(
        Whitening, {"matrix": "dk", "inverse": "kd", "eigenvalues": "r", "rank": int, "condition": float}
    ),
    "_precision": np.dtype,
}
_OFFLINE = {"components_": "dk", "mixing_": "kd", "objective_curve_": "t", "n_iter_": int}
_WEIGHTS = {"interneuron": {"W_xy": "dk", "W_yn": "dd"}, "two_compartment": {"W_xz": "dk", "W_zz": "dd"}}


class Saved:
    """Mixin: gives an offline estimator the method `save`."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to `path` as plain arrays and JSON; `bionica.load` reads it.

        Parameters
        ----------
        path : path
            The file. It is replaced only when the new one is complete.

        Examples
        --------
        >>> import numpy as np, tempfile, pathlib, bionica
        >>> X = np.random.default_rng(0).exponential(size=(1000, 2))
        >>> nica = bionica.BatchNICA(random_state=0).fit(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "model.bionica"
        ...     nica.save(path)
        ...     again = bionica.load(path)
        >>> bool(np.array_equal(again.transform(X), nica.transform(X)))
        True
        """
        from ._persistence import save

        save(self, path)


def stored(estimator: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays and the numbers that a fitted estimator remembers, by name."""
    arrays: dict[str, Array] = {}
    numbers: dict[str, Any] = {}

    def put(name: str, kind: Any, value: Any) -> None:
        if value is None:
            return
        if isinstance(kind, Record):
            fields = value if isinstance(value, dict) else value._asdict()
            for field, of_field in kind.fields.items():
                put(f"{name}/{field}", of_field, fields[field])
        elif isinstance(kind, str):
            arrays[name] = np.asarray(value)
        else:
            numbers[name] = np.dtype(value).name if kind is np.dtype else kind(value)

    for name, kind in _memory(estimator).items():
        put(name, kind, getattr(estimator, name))
    return arrays, numbers


def restore(estimator: Any, k: int, arrays: dict[str, Array], numbers: dict[str, Any]) -> None:
    """Give an estimator what `stored` returned; ValueError or KeyError where a shape does not fit or something is missing."""
    lengths = {"k": k}

    def take(name: str, kind: Any) -> Any:
        if isinstance(kind, Record):
            if name == "_whitening" and f"{name}/matrix" not in arrays:
                return None  # not asked for since the last chunk
            return kind.make(**{field: take(f"{name}/{field}", of_field) for field, of_field in kind.fields.items()})
        if not isinstance(kind, str):
            return kind(numbers[name])
        a = arrays[name]
        expected = tuple(lengths.setdefault(letter, n) for letter, n in zip(kind, a.shape, strict=False))
        if a.ndim != len(kind) or a.shape != expected or a.dtype.kind != "f":
            raise ValueError(f"{name} is an array of {a.dtype} with shape {a.shape}")
        return a

    found = {name: take(name, kind) for name, kind in _memory(estimator).items()}
    vars(estimator).update(found)


def _memory(estimator: Any) -> dict[str, Any]:
    if type(estimator).__name__ == "OfflineNICA":
        return _OFFLINE | {"weights_": Record(dict, _WEIGHTS[estimator.network])}
    return _BATCH if type(estimator).__name__ == "BatchNICA" else _WHITENER
