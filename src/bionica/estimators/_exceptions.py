"""What goes wrong while a network learns, said so that one can act on it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
