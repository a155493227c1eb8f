"""X of the user as an array, many samples or one: what is refused, what an error names, and what overflow raises."""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

Array = NDArray[Any]
Sample = ArrayLike | Mapping[str, float]

FLOATS = (np.float64, np.float32)
#: What a change of the mixtures means, in warnings and in `diagnose`.
CHANGED = (
    "outputs became far more correlated or negative, compared with the past, and past and present are averaged. If the "
    "mixing changes, set horizon= to the number of samples to remember (1,000 + 100 n_components or more). If sources are on and "
    "off for long, or neighbouring samples are alike, ignore this. If sensors failed for a while, fit without these samples"
)


class DivergenceError(ArithmeticError):
    """A network whose outputs or weights left the range of its numbers.

    Attributes
    ----------
    sample : int
        Index of the sample at which it happened, counted from the first that the network has seen.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica import BatchNICA, DivergenceError
    >>> X = np.random.default_rng(0).exponential(size=(500, 2)) @ np.array([[1.0, 0.5], [0.2, 1.0]])
    >>> nica = BatchNICA(2, random_state=0).fit(X)
    >>> try:
    ...     nica.transform(np.full((3, 2), 1.7e308))
    ... except DivergenceError as error:
    ...     print(error.sample)
    0
    """

    def __init__(self, message: str, sample: int):
        super().__init__(message)
        self.sample = sample

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.sample)


@contextmanager
def singular_as_divergence(name: str, sample: int | None = None) -> Iterator[None]:
    """Turn a LinAlgError into a DivergenceError, at this sample of a stream."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        where = "" if sample is None else f" up to sample {sample}"
        raise DivergenceError(
            f"{name}: the mixtures{where} lead to equations without a solution ({error}): they do not vary in "
            "n_components directions, or their range is too large. Lower n_components, drop constant or repeated mixtures, or "
            "rescale them. The model is as it was before this call.",
            sample or 0,
        ) from error


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator if an exception leaves the block; a network learns in place."""
    before = dict(vars(estimator))
    runner = before.get("_runner")
    backup = None if runner is None else runner.backup()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        if runner is not None:
            runner.restore(backup)
        raise


def finite_map(function: Callable[[Array], Array], X: Array, name: str, first: int = 0) -> Array:
    """Return what a linear map makes of the rows of X if all of it is finite; otherwise DivergenceError names the first bad row.

    The first row of X is number `first`.
    """
    with np.errstate(all="ignore"):
        Y = function(X)
    finite = np.isfinite(Y).all(axis=1)
    if finite.all():
        return Y
    row = int(np.argmin(finite))
    raise DivergenceError(
        f"{name}: the output for sample {first + row} overflows {Y.dtype}: rescale the samples (largest absolute value in this "
        f"one: {np.abs(X[row]).max():.2g}){', or use float64' if Y.dtype == np.float32 else ''}.",
        first + row,
    )


def warn(text: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Warn at the user's line of code: the first outside of bionica, scikit-learn and joblib."""
    inside = (str(Path(__file__).parents[1]), str(Path(warnings.__file__).parent / "contextlib.py"))
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(inside) or {"sklearn", "joblib"} & set(Path(frame.f_code.co_filename).parts)
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def cell(owner: Any, row: int, column: int) -> str:
    """Return "X[3, 1]", or "X[3, 'name']" if the estimator `owner` knows the names of its features."""
    names = getattr(owner, "feature_names_in_", None)
    return f"X[{row}, {column if names is None else repr(str(names[column]))}]"


def check_finite(block: Array, first: int, owner: Any) -> None:
    """Raise ValueError for the first NaN or infinity of `block`, whose first row is number `first` of X.

    `owner` is the estimator, whose feature names the message uses, or what the message calls it.
    """
    finite = np.isfinite(block)
    if finite.all():
        return
    row, column = map(int, np.argwhere(~finite)[0])
    value = "NaN" if np.isnan(block[row, column]) else "infinity"
    raise ValueError(
        f"Input X contains {value if value == 'NaN' else 'infinity (inf)'}: {cell(owner, first + row, column)} is {value}. "
        f"{owner if isinstance(owner, str) else type(owner).__name__} needs finite numbers; drop such samples "
        "(X[np.isfinite(X).all(axis=1)]) or impute them (sklearn.impute) first. The model is unchanged."
    )


def in_own_precision(X: Any) -> Any:
    """Return X, as an array of its precision where scikit-learn would not keep that: a tensor, floats of the other byte order."""
    if hasattr(X, "requires_grad"):
        if X.requires_grad:
            raise TypeError(
                f"X is a {type(X).__module__}.{type(X).__name__} that requires gradients, and gradients do not pass through the "
                "estimators: pass X.detach() (and .cpu() if it is on a GPU)"
            )
        X = np.asarray(X)
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):  # NaN, which is refused with its row and feature
        X = np.ma.filled(X.astype(np.result_type(X.dtype, np.float32)), np.nan)
    if isinstance(X, np.ndarray) and X.dtype.kind == "f" and not X.dtype.isnative:
        return X.astype(X.dtype.newbyteorder("="))
    return X


def validated_sample(estimator: Any, x: Sample) -> Array:
    """Return a single mixture, a vector or a dict of feature names to numbers, as an array of one row."""
    row = x if type(x) is np.ndarray else np.asarray(_in_order(estimator, in_own_precision(x)))
    if row.dtype not in FLOATS:
        try:
            row = in_own_precision(row)
            row = row.astype(np.float64, casting="unsafe" if row.dtype == object else "same_kind", copy=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"x must be a vector of real numbers, got {x!r}: {error}") from error
    width = getattr(estimator, "n_features_in_", row.size or "at least 1")
    if row.ndim != 1 or row.size != width:
        raise ValueError(
            f"x has shape {row.shape}; {type(estimator).__name__} needs one mixture of {width} numbers. For several use "
            "partial_fit or transform."
        )
    return row[np.newaxis]


def _in_order(estimator: Any, x: Any) -> Any:
    """Return the values of x in the order of the features, if x has names."""
    names, known = sample_names(x), getattr(estimator, "feature_names_in_", None)
    if isinstance(x, Mapping) and known is None and hasattr(estimator, "n_features_in_"):
        raise ValueError(
            f"x is a dict, but this {type(estimator).__name__} learned from arrays: pass an array of {estimator.n_features_in_} "
            "numbers, or learn from dicts or data frames from the first sample on"
        )
    if isinstance(x, Mapping) and not all(isinstance(name, str) for name in x):
        raise ValueError(f"x is a dict with the keys {list(x)}; feature names must be strings")
    order = sorted if isinstance(x, Mapping) else list  # those of a dict may come in any order
    if known is not None and names is not None and order(names) != order(known):
        raise ValueError(f"x has the features {names}; {type(estimator).__name__} learned from {list(known)}")
    if isinstance(x, Mapping):
        return [x[name] for name in (x if known is None else known)]
    return x


def sample_names(x: Any) -> list[Any] | None:
    """Return the keys of a mapping, the index of a pandas Series, or None."""
    if isinstance(x, Mapping):
        return list(x)
    index = getattr(x, "index", None)  # a method of a list
    return None if index is None or callable(index) else list(index)
