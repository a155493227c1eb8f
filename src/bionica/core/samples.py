"""The door through which X enters every public method, for many samples (`rows`) or one
(`one`).

It decides once what X may be: NumPy arrays of any byte order and layout, lists, data
frames, tensors and whatever else NumPy can convert, as float32 or float64 (float16,
integers and booleans become float64); names and their order; masked values are NaN,
which pass only where a method estimates missing values (`missing`); infinity, dates,
complex numbers, text and sparse matrices are refused. An array of more axes, such as a
cube (y, x, band), is a sample in each of its pixels: the last axis is that of the
mixtures, and outputs have the other axes of X (`like`). An error names the parameter,
the value and the remedy.

Dask arrays become `core.dask.DaskRows`.
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, validate_data

from bionica.core.blocks import Array, check_finite, linear_map
from bionica.core.dask import dask_rows
from bionica.core.errors import Diverged

Sample = ArrayLike | Mapping[str, float]

FLOATS = [np.float64, np.float32]
_DATES = (np.datetime64, np.timedelta64, date, timedelta)


def given_matrix(value: Any, name: str, shape: str) -> Array:
    """Return a float64 copy of an array that is a parameter; ValueError that names it
    unless its numbers are finite.
    """
    checks = {
        "ensure_2d": False,
        "allow_nd": True,
        "ensure_min_samples": 0,
        "ensure_min_features": 0,
    }
    try:
        return check_array(value, dtype=np.float64, order="C", copy=True, **checks)
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(
            f"{name} is no array of finite numbers ({reason}): give one of shape"
            f" {shape}"
        ) from error


def finite_map(X: Array, matrix: Array, offset: Array | None = None) -> Array:
    """Return matrix x + offset for the rows x of X, in their precision; `Diverged`
    names the first row that overflows.
    """
    with np.errstate(all="ignore"):
        Y = linear_map(X, matrix)
        if offset is not None:
            Y += offset.astype(Y.dtype)
    return finite_rows(Y, X)


def finite_rows(Y: Array, X: Array) -> Array:
    """Return Y, which comes from X row by row; `Diverged` names its first row that is
    not finite.
    """
    finite = np.isfinite(Y).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise Diverged(row, X[row])
    return Y


def warn(text: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Warn at the user's line of code: the first outside of bionica, scikit-learn and
    joblib.
    """
    inside = (
        str(Path(__file__).parents[1]),
        str(Path(warnings.__file__).parent / "contextlib.py"),
    )
    frame = sys._getframe()
    level = 1
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(inside)
        or {"sklearn", "joblib"} & set(Path(frame.f_code.co_filename).parts)
    ):
        frame = frame.f_back
        level = level + 1
    warnings.warn(text, category, stacklevel=level)


def rows(
    owner: Any,
    X: Any,
    *,
    reset: bool = False,
    min_samples: int = 1,
    dtype: Any = FLOATS,
    missing: bool = False,
) -> Any:
    """X as a finite array of `dtype`, or with NaN if values may be `missing`, or a Dask
    array as `DaskRows`.

    `owner` is the estimator that errors name, whose names of features X must have, or
    gets if `reset`.
    """
    name = type(owner).__name__
    data = dask_rows(X, name, min_samples=min_samples, dtype=dtype)
    if data is not None:
        validate_data(owner, X, reset=reset, skip_check_array=True)
        return data
    options = {
        "dtype": dtype,
        "ensure_all_finite": False,
        "ensure_min_samples": min_samples,
    }
    with np.errstate(over="ignore"):  # beyond float32: infinite, and refused
        data = validate_data(owner, _plain(X, check_axes=reset), reset=reset, **options)
    check_finite(data, 0, owner, missing=missing)
    return data


def like(X: Any, Y: Array, axis: str, names: Callable[[], Array] | None = None) -> Any:
    """Y, with a row for each sample of X, as an array with the axes of X but the last;
    if X is of xarray, with its coordinates.

    `axis` is the name of the last axis of Y, and `names` returns its coordinates.
    """
    if getattr(X, "ndim", 2) > 2:
        Y = Y.reshape(*X.shape[:-1], Y.shape[-1])
    if not (hasattr(X, "dims") and hasattr(X, "coords")):
        return Y
    coords = {
        name: value for name, value in X.coords.items() if X.dims[-1] not in value.dims
    }
    return type(X)(
        Y, dims=(*X.dims[:-1], axis), coords=coords | ({axis: names()} if names else {})
    )


def _plain(X: Any, argument: str = "X", check_axes: bool = False) -> Any:
    """X without what scikit-learn would drop, change or refuse in other words: axes, a
    mask, a byte order, dates, sparse matrices.

    An array of more than two axes has a row for each pixel; ValueError if its first
    axis may be that of the mixtures.
    """
    if issparse(X):
        raise TypeError(
            f"{argument} is a sparse matrix, and dense data is required:"
            f" {argument}.toarray() makes a dense array of it"
        )
    if getattr(X, "ndim", 2) > 2:
        X = X if isinstance(X, np.ndarray) else np.asarray(X)
        if check_axes and X.size and X.dtype.kind in "biuf" and mixtures_come_first(X):
            raise ValueError(
                f"X has shape {X.shape}, and its last axis must be that of the"
                " mixtures, but the first one seems to be: pass np.moveaxis(X, 0, -1)."
                f" If it is not, pass X.reshape(-1, {X.shape[-1]})"
            )
        X = X.reshape(-1, X.shape[-1])
    if isinstance(X, list | tuple):
        X = np.asarray(X)
    if np.ma.isMaskedArray(X):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    # scikit-learn would make float64 of float32 in another byte order
    if isinstance(X, np.ndarray):
        X = X.astype(X.dtype.newbyteorder("="), copy=False)
    kinds = {
        getattr(dtype, "kind", "")
        for dtype in (X.dtypes if hasattr(X, "columns") else [getattr(X, "dtype", "")])
    }
    if kinds & {"M", "m"} or (
        "O" in kinds and any(isinstance(value, _DATES) for value in np.ravel(X))
    ):
        raise ValueError(
            f"{argument} holds dates or time differences, which are no mixtures: leave"
            " them out, or convert them to numbers"
        )
    return X


def mixtures_come_first(X: Any) -> bool:
    """Whether the first axis of a cube, and not the last one, may be that of the
    mixtures; some pixels are read.

    X has clearly fewer directions along it than along the last one, or not clearly more
    although it is the shortest: mixtures of d sources have d directions and noise,
    images have as many as they are wide.
    """
    r = min(10, X.shape[0] - 1, X.shape[-1] - 1)

    def energy_beyond(axis: int) -> float:
        """Share of the energy beyond r directions along an axis, relative to that of
        white noise.
        """
        some = np.ma.filled(
            X[
                tuple(
                    slice(None, None, 1 if i == axis else max(1, n // 64))
                    for i, n in enumerate(X.shape)
                )
            ]
        )
        M = np.nan_to_num(np.moveaxis(np.asarray(some, np.float64), axis, -1)).reshape(
            -1, X.shape[axis]
        )
        energy = np.linalg.eigvalsh(M.T @ M)[::-1]
        # rounding
        return (
            float(energy[r:].sum() / max(energy.sum(), 1e-300) / (1 - r / len(energy)))
            + 1e-9
        )

    limit = 2.0 if X.shape[0] < min(X.shape[1:]) else 0.5
    return X.shape[0] > 1 and energy_beyond(0) < limit * energy_beyond(X.ndim - 1)


def matrix(
    value: Any, argument: str, name: str, dtype: Any = FLOATS, missing: bool = False
) -> Array:
    """An argument other than X, of the function or estimator called `name`, as a matrix
    that is finite, or has `missing` values.
    """
    data = _plain(value, argument)
    if isinstance(data, np.ndarray) and data.dtype.kind in "US":
        raise ValueError(f"{argument} holds text: give numbers")
    data = check_array(
        data, dtype=dtype, input_name=argument, ensure_all_finite=False, estimator=name
    )
    check_finite(data, 0, name, argument, missing)
    return data


def outputs(owner: Any, Y: Any, d: int) -> Any:
    """Outputs of the estimator `owner`, which has d of them, for `inverse_transform`: a
    finite array, or `DaskRows`.
    """
    name = type(owner).__name__
    names = [*map(str, getattr(Y, "columns", ()))]
    data: Any = dask_rows(Y, name, "Y", dtype=FLOATS)
    data = matrix(Y, "Y", name) if data is None else data
    if data.shape[1] != d:
        raise ValueError(
            f"Y has shape {data.shape}: inverse_transform of this {name} needs"
            f" (n_samples, {d}), as transform returns it"
        )
    known = [*owner.get_feature_names_out()]
    if names != known and sorted(names) == sorted(known):
        raise ValueError(
            "The feature names should match those that were passed during fit.\nFeature"
            " names must be in the same order as they were in fit.\n"
        )
    return data


def one(owner: Any, x: Sample, *, reset: bool = False, dtype: Any = FLOATS) -> Array:
    """A single mixture, a vector or a mapping of feature names to numbers, as a finite
    array of one row.
    """
    # a model that has seen no sample says so, whatever x is
    known = None if reset else owner.n_features_in_
    row = x if type(x) is np.ndarray else np.asarray(_in_order(owner, _plain(x), reset))
    if row.dtype.char not in "fd" or not row.dtype.isnative:
        _plain(row)
        try:
            row = row.astype(
                np.float32 if row.dtype.char == "f" else np.float64,
                casting="unsafe" if row.dtype == object else "same_kind",
            )
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"x must be a vector of real numbers, got {x!r}: {error}"
            ) from error
    width = row.size or "at least 1" if known is None else known
    if row.ndim != 1 or row.size != width:
        raise ValueError(
            f"x has shape {row.shape}; {type(owner).__name__} needs one mixture of"
            f" {width} numbers. For several use partial_fit or transform."
        )
    row = row[np.newaxis]
    if dtype is not FLOATS and row.dtype != dtype:
        with np.errstate(over="ignore"):
            row = row.astype(dtype)
    check_finite(row, 0, owner)
    if reset:
        owner.n_features_in_ = width
    return row


def _in_order(estimator: Any, x: Any, reset: bool) -> Any:
    """Return the values of a mapping, or of a pandas Series with names, in the order of
    the features.
    """
    names = list(x.keys()) if hasattr(x, "keys") else []
    if not names or not all(isinstance(name, str) for name in names):
        return x
    if reset:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    known = list(
        getattr(estimator, "feature_names_in_", ["arrays, which have no names"])
    )
    if sorted(names) != sorted(known):
        raise ValueError(
            f"x has the features {names}; {type(estimator).__name__} learned from"
            f" {known}"
        )
    return [x[name] for name in known]
