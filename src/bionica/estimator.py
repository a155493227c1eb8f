"""What all estimators share: parameters, `fit`, `transform`, `inverse_transform`, `score`, `save`, and learning from a stream.

Some learn from blocks of samples: a network from a first block, which shows its scale, its leading directions or the number of
sources, and MinimumVolumeCone from one block after the other. Samples wait in `_waiting` until their block is full. Blocks are
counted from the first sample, not from the calls, so that the model has the same bits however a stream is cut. `_state` is what
was learned, and None before the start: until then outputs are zero.
"""

import inspect
import os
from abc import ABCMeta, abstractmethod
from copy import copy, deepcopy
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from operator import attrgetter, is_
from typing import Annotated, Any, ClassVar, Self, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError

from ._compat.sklearn import fit_context, parameter_values, wrap_output
from .estimators._docstrings import complete
from .model_file import CLASSES, contents, write_model
from .offline.whitening import leading, row_blocks
from .samples import (
    Array,
    DaskRows,
    Sample,
    blocks_of,
    check_finite,
    finite_map,
    row_sample,
    unchanged_on_error,
    validated_outputs,
    validated_rows,
    validated_sample,
    warn,
)  # fmt: skip
from .trust.diagnosis import Diagnosable
from .trust.findings import warn_of_huge_outputs


def rank_of(X: Array | DaskRows) -> int:
    """Return the rank of some rows of X, at least 1; the number of mixtures if they hold NaN, which learning then reports."""
    rows = X[row_sample(*X.shape)]
    return max(1, leading(rows).rank) if np.isfinite(rows).all() else int(X.shape[1])


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class Estimator(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
    metaclass=ABCMeta,
):
    """Base of all estimators; a subclass has `_fit`, `_outputs`, `components_` and `mixing_`.

    Subclasses become dataclasses. A field ``eta: Annotated[float | None, POSITIVE, None] = None`` is a parameter with its type,
    what scikit-learn validates, and its default. `weights` are the names of those that `init` takes, for the docstring.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    #: The attributes that make up a fitted estimator; see `_model_file`.
    _saved: ClassVar[dict[str, Any]]
    _offset: ClassVar[Any] = None  # what `inverse_transform` adds to every row

    def __init_subclass__(cls, weights: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        every = inspect.get_annotations(cls)
        hints = {name: hint for name, hint in every.items() if name in vars(cls)}  # without a value it is no parameter
        own = {name: hint for name, hint in hints.items() if hasattr(hint, "__metadata__")}
        cls._parameter_constraints = cls._parameter_constraints | {name: list(own[name].__metadata__) for name in own}
        cls.__annotations__ = hints | {name: hint.__origin__ for name, hint in own.items()}  # for a readable signature
        dataclass(eq=False, repr=False, kw_only=True)(cls)
        cls.__annotations__ = every | cls.__annotations__
        cls.__doc__ = complete(cls, weights)
        CLASSES[cls.__name__] = cls

    @abstractmethod
    def _fit(self, X: ArrayLike) -> Any: ...

    @abstractmethod
    def _outputs(self, X: Array) -> Array:
        """Return the outputs for the rows of X, which are finite."""

    @fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Start from scratch and learn from X.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Mixtures, mean included, in the order in which a network sees them. Not changed. A Dask array is read block by block.
        y : None
            Ignored.
        """
        with unchanged_on_error(self):
            self.__dict__.pop("count_", None)
            self._fit(X)
        return self

    def transform(self, X: ArrayLike) -> Any:
        """Return the outputs for every row of X, in its precision.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Mixtures.

        Returns
        -------
        ndarray of shape (n_samples, n_components), or Dask array if X is one
        """
        self._check_is_fitted()
        rows = validated_rows(self, X, reset=False)
        if isinstance(rows, DaskRows):  # a copy, so that samples learned before the blocks are computed have no effect
            return rows.mapped(copy(self)._outputs, self._n_features_out).array
        return self._outputs(rows)

    def inverse_transform(self, Y: ArrayLike) -> Any:
        """Return the mixtures that the outputs Y make; `NoncenteredWhitener` adds the mean along the directions that it omits.

        Parameters
        ----------
        Y : array-like or Dask array of shape (n_samples, n_components)
            Outputs, as `transform` returns them.

        Returns
        -------
        ndarray of shape (n_samples, n_features), or Dask array if Y is one
        """
        self._check_is_fitted()
        A, name = self.mixing_, type(self).__name__
        data = validated_outputs(Y, name, A.shape[1])
        function = partial(finite_map, matrix=A, name=name, offset=self._offset)
        return data.mapped(function, len(A)).array if isinstance(data, DaskRows) else function(data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned to `path` as plain arrays and JSON; `bionica.load` reads it, and a network learns on from there.

        Parameters
        ----------
        path : path
            The file. It is replaced only when the new one is complete.
        """
        write_model(path, *contents(self))

    def _given_number(self, n_features: int | None = None) -> int | None:
        """Return the number of sources, if the user gave one; ValueError if it exceeds the number of mixtures."""
        if not isinstance(self.n_components, Integral):
            return None
        d = int(self.n_components)
        if n_features is not None and d > n_features:
            raise ValueError(
                f"n_components={d} sources cannot be found in n_features={n_features} mixtures; use n_components <= {n_features}"
            )
        return d

    def __sklearn_is_fitted__(self) -> bool:
        return "n_features_in_" in vars(self)

    def _check_is_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            # An AttributeError too, so that hasattr(est, "components_") answers False before fit.
            raise NotFittedError(f"This {type(self).__name__} has seen no sample: call fit first")

    def _check_saved(self) -> None:
        """Raise ValueError if what was read from a file contradicts the parameters or itself; shapes are checked before."""
        d, given, k = self._n_features_out, self.n_components, self.n_features_in_
        if d > k or (isinstance(given, Integral) and given != d):
            raise ValueError(f"n_components={given!r}, but the weights have {d} outputs for {k} mixtures")

    n_components_ = property(attrgetter("_n_features_out"), doc="Number of outputs.")

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class Separator(Diagnosable, Estimator):
    """Base of the estimators whose outputs are sources: all but NoncenteredWhitener."""

    random_state: Annotated[Any, "random_state"] = None

    def _outputs(self, X: Array) -> Array:
        Y = finite_map(X, self.components_, type(self).__name__)
        return np.maximum(Y, 0, out=Y)

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Return the share of the energy of X that is predicted from other mixtures; higher is better, 1 is the best.

        Bi-cross-validation (Owen and Perry 2009): the mixtures are cut into ten groups, and each group is predicted from all
        others by the outputs that fit these best, clipped at 0. On samples that were not fitted it is largest near the number of
        sources, so that `GridSearchCV` and `cross_val_score` find it. It needs more mixtures than outputs.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Mixtures, best others than those of the fit. A Dask array is read block by block.
        y : None
            Ignored.

        Returns
        -------
        float
            `1 - |X - prediction|^2 / |X|^2`. It can be negative. Mixtures count by their energy: if units differ, scale them first.

        Examples
        --------
        >>> import numpy as np
        >>> from bionica import BatchNICA
        >>> rng = np.random.default_rng(0)
        >>> X = rng.exponential(size=(2000, 3)) @ rng.standard_normal((3, 10)) + 0.1 * rng.standard_normal((2000, 10))
        >>> nica = BatchNICA(3, random_state=0).fit(X[:1000])
        >>> nica.score(X[1000:]) > 0.99
        True
        """
        self._check_is_fitted()
        A = np.asarray(self.mixing_, np.float64)
        index = np.arange(len(A))
        groups = [index[first::10] for first in range(min(len(A), 10))]
        # One mixture has no others: it is predicted from itself.
        others = [np.setdiff1d(index, group) if len(A) > 1 else index for group in groups]
        inverses = [np.linalg.pinv(A[rest]) for rest in others]
        total = missed = 0.0
        blocks = blocks_of(validated_rows(self, X, reset=False))
        for x in (block[rows].astype(np.float64) for block in blocks for rows in row_blocks(*block.shape)):
            total += float(np.sum(x**2))
            for group, rest, inverse in zip(groups, others, inverses, strict=True):
                outputs = np.maximum(x[:, rest] @ inverse.T, 0)
                missed += float(np.sum((x[:, group] - outputs @ A[group].T) ** 2))
        return 1 - missed / total if total else float(missed == 0)


class Online(Separator):
    """Base of the networks and of MinimumVolumeCone."""

    _state: Any = field(default=None, init=False)
    _waiting: Array = field(init=False)
    _rank: int | None = field(default=None, init=False)  # of the X of `fit`, if it is the number of sources

    @abstractmethod
    def _full_block(self, d: int) -> int:
        """Return the number of samples in the next block, for d sources; 0 if samples need not wait."""

    @abstractmethod
    def _check_start(self, X: Array) -> None:
        """Raise ValueError if the parameters do not fit the first samples X: now rather than after buffering."""

    @abstractmethod
    def _take(self, X: Array, keep: bool = False) -> Any:
        """Learn from a full block, or from any samples; return the output for each row before it was learned if `keep`."""

    def _problems(self) -> set[str]:
        """Return the evidence against the result that learning itself shows."""
        return set()

    def partial_fit(self, X: ArrayLike, y: None = None) -> Self:
        """Continue learning from the rows of X; the first call starts a new model.

        The model ends with the same bits however the data are cut into calls. (A network with at least 1000 mixtures and 2^18
        weights from them processes samples in blocks: its results agree to rounding.) The model keeps the precision of the first
        X, float32 or float64. Do not call this method from several threads on one estimator.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            The next mixtures.
        y : None
            Ignored.
        """
        self._validate_params()
        with unchanged_on_error(self):
            for block in blocks_of(validated_rows(self, X, reset=not hasattr(self, "n_features_in_"))):
                self._learn(block)
        return self

    def partial_fit_transform(self, X: ArrayLike, y: None = None) -> Any:
        """Learn from the rows of X and return the outputs as each sample arrived: the paper's y_t.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            The next mixtures.
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Each row is computed with what was learned before it. Rows are zero until the model has started
            (`n_samples_until_start_`).
        """
        self._validate_params()
        with unchanged_on_error(self):
            blocks = blocks_of(validated_rows(self, X, reset=not hasattr(self, "n_features_in_")))
            Y = np.concatenate([self._learn(block, keep=True) for block in blocks])
            warn_of_huge_outputs(self, Y)
        return wrap_output(Y, X, self)

    def learn_one(self, x: Sample) -> Self:
        """Learn from a single mixture, with the bits of `partial_fit`. No other thread may use the estimator meanwhile.

        Parameters
        ----------
        x : array-like of shape (n_features,), or dict of feature names to numbers
            The next mixture. The keys of the first dict become `feature_names_in_`; later dicts have the same keys, in any order.
        """
        self._validate_params()
        with unchanged_on_error(self):
            self._learn(validated_sample(self, x, reset=not hasattr(self, "n_features_in_")))
        return self

    def transform_one(self, x: Sample) -> Array:
        """Return the sources of a single mixture, (n_components,).

        Parameters
        ----------
        x : array-like of shape (n_features,), or dict of feature names to numbers
            A mixture.
        """
        self._check_is_fitted()
        return np.asarray(self._outputs(validated_sample(self, x))[0])

    @property
    def n_samples_until_start_(self) -> int:
        """Samples that a stream must still bring before the model starts; until then its outputs are zero. 0 from then on."""
        self._check_is_fitted()
        return 0 if self._state is not None else self._block_length(self.n_features_in_) - len(self._waiting)

    def _validate_params(self) -> None:
        """Validate the parameters, unless they are those that were validated last."""
        now, before = parameter_values(type(self))(self), self.__dict__.get("_checked")
        if before is None or not all(map(is_, now, before)):
            super()._validate_params()
            self._checked = now
            self.__dict__.pop("_runner", None)  # of a network: it was made for other parameters

    def _block_length(self, k: int) -> int:
        """Return the number of samples of the block that is being filled: at most 256 MB, but at least 4 d + 20 samples."""
        d = self._given_number() or k
        return min(self._full_block(d), max(4 * d + 20, 2**25 // k))

    def _reset(self, X: Any) -> None:
        """Forget what was learned, before the first rows X."""
        self._waiting, self._state = np.empty((0, X.shape[1]), X.dtype), None

    def _learn(self, X: Array, keep: bool = False, quiet: bool = False) -> Any:
        """Learn from finite rows, and warn of new evidence against the result; return the outputs before each row if `keep`."""
        if "_waiting" not in vars(self):
            self._reset(X)
        known, dtype = self._problems(), self._waiting.dtype
        if X.dtype != dtype:
            with np.errstate(over="ignore"):
                X = X.astype(dtype)
            check_finite(X, 0, self)
        silent, Y = 0, []
        while len(X):
            length = self._block_length(X.shape[1])
            if not length:
                Y.append(self._take(X, keep))
                break
            n = length - len(self._waiting)
            part, X = X[:n], X[n:]
            if self._state is None:
                silent += len(part)
            elif keep:
                Y.append(self._outputs(part))
            self._waiting = _appended(self._waiting, part, length)
            if len(self._waiting) == length:
                block, self._waiting = self._waiting, self._waiting[:0].copy()
                self._take(block)
            elif self._state is None and len(self._waiting) == len(part):
                self._check_start(part)
        for text in () if quiet else sorted(self._problems() - known):
            warn(f"{type(self).__name__}: {text}")
        return np.concatenate([np.zeros((silent, self._n_features_out), dtype), *Y]) if keep else None

    def _started(self) -> Any:
        """Return the state; NotFittedError if the model has not started."""
        self._check_is_fitted()
        if self._state is None:
            raise NotFittedError(
                f"This {type(self).__name__} starts after {self.n_samples_until_start_} more samples: until then it has no "
                "weights, and its number of outputs is unknown unless n_components is a number. Bring the samples, in one call of "
                "partial_fit_transform, or call fit"
            )
        return self._state

    def _outputs(self, X: Array) -> Array:
        if self._state is None:
            return np.zeros((len(X), self._n_features_out), self._waiting.dtype)
        return super()._outputs(X)

    def _check_saved(self) -> None:
        length = self._block_length(self.n_features_in_)
        if not (self._state is None) <= len(self._waiting) < max(1, length):
            raise ValueError(f"{len(self._waiting)} samples wait for a block of {length}")
        if self._state is not None:
            super()._check_saved()
        else:
            self._given_number(self.n_features_in_)

    def __getstate__(self) -> dict[str, Any]:
        own = {name: value for name, value in super().__getstate__().items() if name not in ("_checked", "_runner")}
        # A copy must not share what learning changes in place.
        return own | {name: deepcopy(own[name]) for name in ("_waiting", "_state") if name in own}


def _appended(waiting: Array, part: Array, length: int) -> Array:
    """Return the waiting samples and `part`: a view of one array for `length` samples, which may not fit in memory twice."""
    n, shape = len(waiting) + len(part), (length, part.shape[1])
    room = waiting.base
    if not isinstance(room, np.ndarray) or room.shape != shape:
        room = np.empty(shape, waiting.dtype)
        room[: len(waiting)] = waiting
    room[len(waiting) : n] = part
    return room[:n]
