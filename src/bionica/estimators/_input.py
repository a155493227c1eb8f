"""X of the user as an array, many samples or one: what is refused, what an error names, and what overflow raises."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

Array = NDArray[Any]

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


def finite_map(function: Callable[[Array], Array], X: Array, name: str, first: int = 0) -> Array:
    """Return what a linear map makes of the rows of X if all of it is finite; otherwise DivergenceError names the first bad row.

    The first row of X is number `first`.
    """
    with np.errstate(all="ignore"):
        Y = function(X)
        if np.isfinite(np.add.reduce(Y, axis=None)) or np.isfinite(Y).all():
            return Y
    row = int(np.argmin(np.isfinite(Y).all(axis=1)))
    raise DivergenceError(
        f"{name}: the output for sample {first + row} overflows {Y.dtype}: rescale the samples (largest absolute value in this "
        f"one: {np.abs(X[row]).max():.2g}){', or use float64' if Y.dtype == np.float32 else ''}.",
        first + row,
    )


def place(owner: Any, row: int, column: int) -> str:
    """Return "X[3, 1]", or "X[3, 'name']" if the estimator `owner` knows the names of its features."""
    names = getattr(owner, "feature_names_in_", None)
    return f"X[{row}, {column if names is None else repr(str(names[column]))}]"


def check_finite(block: NDArray[Any], first: int, owner: Any) -> None:
    """Raise ValueError for the first NaN or infinity of `block`, whose first row is number `first` of X.

    `owner` is the estimator, whose feature names the message uses, or what the message calls it.
    """
    with np.errstate(all="ignore"):
        if np.isfinite(np.add.reduce(block, axis=None)):
            return
    finite = np.isfinite(block)
    if finite.all():  # and their sum was too large
        return
    row, column = map(int, np.argwhere(~finite)[0])
    value = "NaN" if np.isnan(block[row, column]) else "infinity"
    raise ValueError(
        f"Input X contains {'NaN' if value == 'NaN' else 'infinity (inf)'}: {place(owner, first + row, column)} is {value}. "
        f"{owner if isinstance(owner, str) else type(owner).__name__} needs a finite number in every place; drop such samples "
        "(X[np.isfinite(X).all(axis=1)]) or impute them (sklearn.impute) first. The model is unchanged."
    )


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator if an exception leaves the block."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def from_tensor(X: Any) -> Any:
    """Return a torch tensor as an array of its precision, which scikit-learn would not keep; anything else as it is.

    A tensor that requires gradients raises TypeError.
    """
    if not hasattr(X, "requires_grad"):
        return X
    if X.requires_grad:
        raise TypeError(
            f"X is a {type(X).__module__}.{type(X).__name__} that requires gradients, and gradients do not pass through the "
            "estimators: pass X.detach() (and .cpu() if it is on a GPU)"
        )
    return np.asarray(X)


def validated(estimator: Any, X: Any, *, finite: bool = True, **options: Any) -> NDArray[Any]:
    """Return X as scikit-learn's `validate_data` does, float32 or float64; an error about a NaN names its row and feature.

    With `finite=False` the caller checks that, block by block.
    """
    options = {"dtype": [np.float64, np.float32], **options}
    with unchanged_on_error(estimator):
        data = np.asarray(validate_data(estimator, from_tensor(X), ensure_all_finite=False, **options))
        if finite:
            check_finite(data, 0, estimator)
    return data


Sample = ArrayLike | Mapping[str, float]


class OneSample:
    """Mixin with `_row` and `_remember_features`."""

    def _row(self, x: Sample) -> Array:
        """Return the mixture x as an array of one row."""
        row = x if type(x) is np.ndarray else np.asarray(self._in_order(x))
        if row.dtype != np.float64 and row.dtype != np.float32:
            try:
                row = row.astype(np.float64, casting="same_kind") if row.dtype != object else row.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(f"x must be a vector of real numbers, got {x!r}: {error}") from error
        width = self.__dict__.get("n_features_in_", row.size)
        if row.ndim != 1 or row.size == 0 or row.size != width:
            raise ValueError(
                f"x has shape {row.shape}; {type(self).__name__} needs one mixture of "
                f"{width if row.size else 'at least 1'} numbers. For several use partial_fit or transform."
            )
        return row[np.newaxis]

    def _in_order(self, x: Sample) -> Any:
        """Return the values of x in the order of the features, if x has names."""
        x = from_tensor(x)
        names, known = _names(x), getattr(self, "feature_names_in_", None)
        if not isinstance(x, Mapping):
            if known is not None and names is not None and names != list(known):
                raise ValueError(
                    f"x has the feature names {names}; {type(self).__name__} learned from {list(known)}, in this order"
                )
            return x
        if known is None:
            if hasattr(self, "n_features_in_"):
                raise ValueError(
                    f"x is a dict, but this {type(self).__name__} learned from arrays, and which key is which column is unknown: "
                    f"pass an array of {self.n_features_in_} numbers, or learn from dicts or data frames from the first sample on"
                )
            if not all(isinstance(name, str) for name in x):
                raise ValueError(f"x is a dict with the keys {list(x)}; feature names must be strings")
            return list(x.values())
        if len(x) != len(known) or any(name not in x for name in known):
            missing, unknown = [n for n in known if n not in x], [n for n in x if n not in set(known)]
            said = [f"lacks {missing}"] * bool(missing) + [f"has the unknown {unknown}"] * bool(unknown)
            raise ValueError(f"x {' and '.join(said)}; {type(self).__name__} learned from the features {list(known)}")
        return [x[name] for name in known]

    def _remember_features(self, x: Sample, row: Array) -> None:
        """Store the number of features, and with the first sample their names if it has any."""
        names = None if hasattr(self, "n_features_in_") else _names(x)
        self.n_features_in_ = row.shape[1]
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)


def _names(x: Any) -> list[Any] | None:
    """Return the keys of a mapping, the index of a pandas Series, or None."""
    if isinstance(x, Mapping):
        return list(x)
    index = getattr(x, "index", None)  # a method of a list
    return None if index is None or callable(index) else list(index)
