"""What all estimators share: parameters, `fit`, `transform`, `inverse_transform`, `score` and `save`."""

import inspect
import os
from abc import ABCMeta, abstractmethod
from copy import copy
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError

from .._compat.sklearn import fit_context
from ..offline.whitening import leading, row_blocks
from ._diagnosis import Diagnosable
from ._findings import row_sample
from ._input import Array, DaskRows, blocks_of, finite_map, unchanged_on_error, validated_outputs, validated_rows

_FOLDS = 10  # groups of mixtures that `score` predicts


def rank_of(X: Any) -> int:
    """Return the rank of some rows of X, at least 1; the number of mixtures if they hold NaN, which learning then reports."""
    rows = X[row_sample(*X.shape)]
    return max(1, leading(rows).rank) if np.isfinite(rows).all() else int(X.shape[1])


class Estimator(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
    metaclass=ABCMeta,
):
    """Base of all estimators; a subclass has `_fit`, `_outputs`, `components_` and `mixing_`.

    Estimators are dataclasses. A field ``eta: Annotated[float | None, POSITIVE, None] = None`` is a parameter with its type, what
    scikit-learn validates, and its default. Subclasses inherit it.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    _preserved_dtypes: ClassVar[tuple[str, ...]] = ("float64",)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        hints = inspect.get_annotations(cls)
        own = {name: hint for name, hint in hints.items() if hasattr(hint, "__metadata__")}
        constraints = {name: list(hint.__metadata__) for name, hint in own.items()}
        cls._parameter_constraints = {**cls._parameter_constraints, **constraints}
        # For a signature that can be read.
        cls.__annotations__ = hints | {name: hint.__origin__ for name, hint in own.items()}

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

        Returns
        -------
        self
        """
        with unchanged_on_error(self):
            self.__dict__.pop("count_", None)
            self._fit(X)
        return self

    def transform(self, X: ArrayLike) -> Any:
        """Return the outputs for every row of X, in its precision, with what was learned.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Mixtures.

        Returns
        -------
        ndarray of shape (n_samples, n_components), or Dask array if X is one
            Nonnegative sources; the whitened samples of `NoncenteredWhitener`.
        """
        self._check_is_fitted()
        rows = validated_rows(self, X, reset=False)
        if isinstance(rows, DaskRows):  # a copy, so that samples learned before the blocks are computed have no effect
            return rows.mapped(copy(self)._outputs, self._n_features_out).array
        return self._outputs(rows)

    def inverse_transform(self, Y: ArrayLike) -> Any:
        """Return the mixtures that the outputs Y make: Y times the transpose of `mixing_`.

        `NoncenteredWhitener` adds the coordinates of the mean along the directions that it omits.

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
        data = validated_outputs(Y, name)
        if data.shape[1:] != A.shape[1:]:
            raise ValueError(
                f"Y has shape {data.shape}, but this {name} has {A.shape[1]} components: inverse_transform needs (n_samples, "
                f"{A.shape[1]}), as transform returns it"
            )
        function = partial(finite_map, matrix=A, name=name, offset=self._offset())
        return data.mapped(function, len(A)).array if isinstance(data, DaskRows) else function(data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned to `path` as plain arrays and JSON; `bionica.load` reads it, and a network learns on from there.

        Parameters
        ----------
        path : path
            The file. It is replaced only when the new one is complete.
        """
        from ..io import write_model
        from ._model_file import contents

        write_model(path, *contents(self))

    def _offset(self) -> Array | None:
        """Return what `inverse_transform` adds to every row."""
        return None

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
        return "components_" in vars(self)

    def _check_is_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            # An AttributeError too, so that hasattr(est, "components_") answers False before fit.
            raise NotFittedError(f"This {type(self).__name__} has seen no sample: call fit first")

    def _check_saved(self) -> None:
        """Raise ValueError if what was read from a file contradicts the parameters or itself; shapes are checked before."""
        d, given, k = self._n_features_out, self.n_components, self.n_features_in_
        if d > k or (isinstance(given, Integral) and given != d):
            raise ValueError(f"n_components={given!r}, but the weights have {d} outputs for {k} mixtures")

    @property
    def n_components_(self) -> int:
        """Number of outputs."""
        return self._n_features_out

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = list(self._preserved_dtypes)
        return tags


class Separator(Diagnosable, Estimator):
    """Base of the estimators whose outputs are sources: all but NoncenteredWhitener."""

    def _outputs(self, X: Array) -> Array:
        Y = finite_map(X, self.components_, type(self).__name__)
        return np.maximum(Y, 0, out=Y)

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Return the share of the energy of X that is predicted from other mixtures; higher is better, 1 is the best.

        Bi-cross-validation (Owen and Perry 2009): the mixtures are cut into ten groups, and each group is predicted from all
        others by the outputs that fit these best, clipped at 0. Outputs that follow the noise, or that are clipped although they
        are negative, lower the score. On samples that were not fitted it is largest near the number of sources, so that
        `GridSearchCV` and `cross_val_score` find it. It needs more mixtures than outputs.

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
        groups = [index[first::_FOLDS] for first in range(min(len(A), _FOLDS))]
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
