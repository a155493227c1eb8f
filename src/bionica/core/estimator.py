"""The base of all estimators: `fit`, `transform`, `inverse_transform`, `score`, `save`.

Estimator            parameters that are frozen at the start, and what is done with X
Separator            outputs that are sources have names, spectra and a score
unchanged_on_error   the model is as it was after any exception

*One frozen configuration.* When a model starts, its parameters are copied (`_config`).
What continues it uses these: `transform`, `partial_fit`, `save`. What `set_params`
changes has an effect at the next `fit`, and `partial_fit` with other parameters raises
ValueError, unless they are those that a running model may change (`_changeable`:
learning rates, a horizon).
"""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

import operator
import os
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from bionica.core import samples
from bionica.core.blocks import Array, fold, row_blocks, some_rows
from bionica.core.dask import DaskRows
from bionica.core.errors import Diverged, DivergenceError, Message
from bionica.core.model_file import contents, write_model
from bionica.core.parameters import (
    PARAMETERS,
    InvalidParameterError,
    is_same,
    wrap_output,
)
from bionica.core.samples import finite_map, finite_rows
from bionica.core.whitening import rank_of


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Restore an estimator after an exception, and what learns in place.

    Overflow and singular equations become DivergenceError.
    """
    before = dict(vars(estimator))
    backup = estimator._backup()
    try:
        yield
    except BaseException as error:
        raised = error
        if isinstance(error, Diverged):
            raised = estimator._divergence(error, learning=True)
        vars(estimator).clear()
        vars(estimator).update(before)
        estimator._undo(backup)
        if isinstance(error, np.linalg.LinAlgError):
            raise DivergenceError(
                Message(
                    "{}: the mixtures lead to equations without a solution ({}): they"
                    " do not vary in {n_components} directions, or their range is too"
                    " large. Lower {n_components}, drop constant or repeated mixtures,"
                    " or rescale them. The model is as it was before this call.",
                    type(estimator).__name__,
                    error,
                ),
                getattr(estimator, "n_samples_seen_", 0),
            ) from error
        if raised is error:
            raise
        raise raised from None


class Estimator(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
    metaclass=ABCMeta,
):
    """Base of all estimators; a subclass has `_fit`, `_outputs`, `components_` and
    `mixing_`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = PARAMETERS
    #: Parameters that may change while a model learns on.
    _changeable: ClassVar[tuple[str, ...]] = ()
    #: The attributes that make up a fitted estimator, and their schemas; see
    #: `model_file`.
    _saved: ClassVar[dict[str, Any]]
    #: What a fit leaves in other attributes than those that end with an underscore.
    _private: ClassVar[tuple[str, ...]] = ()
    # what `inverse_transform` adds to every row
    _offset: ClassVar[Any] = None

    @abstractmethod
    def _fit(self, X: Any, *more: Any) -> Any: ...

    @abstractmethod
    def _outputs(self, X: Array) -> Array:
        """Return the outputs for the rows of X, which are finite."""

    # --- parameters

    def _freeze(self) -> None:
        """Validate the parameters, and copy them: the model learns with these."""
        given = self.get_params(deep=False)
        for name, value in given.items():
            kinds = self._parameter_constraints.get(name, ())
            if not kinds or any(
                value is None if kind is None else kind.holds(value) for kind in kinds
            ):
                continue
            *most, last = ("None" if kind is None else kind.text for kind in kinds)
            text = f"{', '.join(most)} or {last}" if most else last
            raise InvalidParameterError(
                f"The {name!r} parameter of {type(self).__name__} must be {text}. Got"
                f" {value!r} instead."
            )
        self._given = given
        self._config = {name: deepcopy(value) for name, value in given.items()}

    def _check_config(self) -> bool:
        """Raise ValueError if parameters changed that a running model may not change;
        return whether others did.

        Rates that are None are part of the untuned settings, and stay. Comparing
        objects by identity costs no `get_params`.
        """
        if all(getattr(self, name) is value for name, value in self._given.items()):
            return False
        before = self._config
        now = self.get_params(deep=False)
        changed = [name for name in now if not is_same(now[name], before[name])]
        fixed = [name for name in changed if name not in self._changeable]
        fixed += [
            name
            for name in {"eta0", "decay"} & set(changed)
            if before[name] is None or now[name] is None
        ]
        if fixed:
            given = ", ".join(f"{name}={now[name]!r}" for name in fixed)
            learned = ", ".join(f"{name}={before[name]!r}" for name in fixed)
            rates = ", but rates that are None" if "eta0" in self._changeable else ""
            raise ValueError(
                f"{given}: this {type(self).__name__} learned with {learned}. Restore"
                " the parameters (set_params), or call fit to start from scratch. A"
                " running model may change"
                f" {', '.join(self._changeable) or 'nothing'}{rates}"
            )
        self._freeze()
        return bool(changed)

    # --- fit and transform

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Start from scratch and learn from X.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Mixtures, mean included, in the order in which a network sees them. Not
            changed. A Dask array is read block by block. An array of more axes, for
            example a cube (y, x, band), has a sample in each pixel.
        y : None
            Ignored.
        """
        return self._start_again(X)

    def _start_again(self, X: ArrayLike, *more: Any) -> Self:
        with unchanged_on_error(self):
            for name in [*vars(self)]:
                if name.endswith("_") or name in self._private:
                    delattr(self, name)  # of another fit
            self._freeze()
            self._fit(X, *more)
        return self

    def _backup(self) -> Any:
        """What `_undo` needs: what learning changes in place, here nothing."""
        return None

    def _undo(self, backup: Any) -> None:
        """Restore what learning changed in place."""

    def __sklearn_is_fitted__(self) -> bool:
        return "n_features_in_" in vars(self)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():  # check_is_fitted takes 10 us
            message = "This %(name)s has seen no sample: call fit first"
            check_is_fitted(self, msg=message)

    def transform(self, X: ArrayLike) -> Any:
        """Return the outputs for every row of X, in its precision.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Mixtures. `BatchNICA` and `MinimumVolumeCone` take rows with NaN, unless of
            Dask, by the mixtures that are there.

        Returns
        -------
        ndarray of shape (n_samples, n_components), or Dask array if X is one
            NaN in rows with fewer numbers than outputs. For a cube (y, x, band): maps,
            (y, x, n_components), of xarray if X is.
        """
        self._check_fitted()
        d = self._n_features_out
        rows = samples.rows(self, X, missing=self._takes_missing())
        if not isinstance(rows, DaskRows):
            Y = self._transformed(rows)
            return samples.like(X, Y, "source", self.get_feature_names_out)
        if not isinstance(wrap_output(np.zeros((1, d)), None, self), np.ndarray):
            raise ValueError(
                "set_output would gather the Dask array X in memory: call"
                " set_output(transform='default'), and convert the result block by"
                " block"
            )
        # Of a copy, so that samples learned before the blocks are computed have no
        # effect.
        return rows.mapped(copy(self)._transformed, d).array

    def _takes_missing(self) -> bool:
        """Whether `fit` estimates missing values (NaN) of an array, and `transform`
        does without them.
        """
        return False

    def _transformed(self, X: Array) -> Array:
        """Return the outputs for the rows of X, in its precision; DivergenceError names
        the first row that overflows.
        """
        try:
            Y = self._outputs(X)
            if Y.dtype == X.dtype:
                return Y
            with np.errstate(over="ignore"):
                return finite_rows(Y.astype(X.dtype), X)
        except Diverged as error:
            raise self._divergence(error, learning=False) from None

    def inverse_transform(self, Y: ArrayLike) -> Any:
        """Return the mixtures that the outputs Y make; `NoncenteredWhitener` adds the
        mean along the directions that it omits.

        Parameters
        ----------
        Y : array-like or Dask array of shape (n_samples, n_components)
            Outputs, as `transform` returns them.

        Returns
        -------
        ndarray of shape (n_samples, n_features), or Dask array if Y is one
        """
        self._check_fitted()
        data = samples.outputs(self, Y, self.mixing_.shape[1])
        if isinstance(data, DaskRows):
            return data.mapped(copy(self)._mixtures, self.n_features_in_).array
        return samples.like(Y, self._mixtures(data), "mixture")

    def _mixtures(self, Y: Array) -> Array:
        try:
            return finite_map(Y, self.mixing_, self._offset)
        except Diverged as error:
            raise self._divergence(error, learning=False) from None

    def _divergence(self, error: Diverged, learning: bool) -> DivergenceError:
        """What to do about an overflow."""
        config = self._config
        remedies = []
        if config.get("dynamics") == "gradient":
            remedies.append(
                f"lower gamma (now {config['gamma']}) or use dynamics='exact'"
            )
        if learning and "eta0" in config:
            now = f" (now {config['eta0']})" if isinstance(config["eta0"], Real) else ""
            remedies.append(f"lower eta0{now}")
        if learning and config.get("guards", True) is not True:
            remedies.append(
                f"turn on the guards, guards=True (now {config['guards']!r})"
            )
        if not learning and error.x.dtype == np.float32:
            remedies.append("use float64")
        largest = float(np.abs(error.x).max())
        remedies.append(f"rescale the mixtures (largest absolute value {largest:.2g})")
        return DivergenceError(
            f"{type(self).__name__} diverged at sample {error.sample}: an output or a"
            f" weight overflowed. To change: {'; '.join(remedies)}. The model is as it"
            " was before this call.",
            error.sample,
        )

    # --- model files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned to `path` as plain arrays and JSON; `bionica.load`
        reads it, and a network learns on from there.

        The parameters in the file are those that the model learned with.

        Parameters
        ----------
        path : path
            The file. It is replaced only when the new one is complete.
        """
        self._check_fitted()
        write_model(path, *contents(self))

    def _records(self, rule: str | None) -> dict[str, Any]:
        """The attributes that a file holds, and their schemas; `rule` is the name in
        its header of the rule of a network.
        """
        return dict(self._saved)

    def _rule_name(self) -> str | None:
        """The name of the rule, of a network: it is written to the header of a file."""
        return None

    def _to_save(self) -> dict[str, Any]:
        """What a file holds, by the names of `_records`."""
        return {name: vars(self).get(name) for name in self._saved}

    def _restore(self, values: dict[str, Any]) -> None:
        """Take what a file holds; any exception if it contradicts the parameters or
        itself (shapes are checked before).
        """
        self.__dict__.update(values)
        d = self._n_features_out
        given = self.n_components
        k = self.n_features_in_
        if d > k or (isinstance(given, Integral) and given != d):
            raise ValueError(
                f"n_components={given!r}, but the weights have {d} outputs for {k}"
                " mixtures"
            )

    # --- outputs

    def _number_of_outputs(self, k: int, X: Any = None) -> int:
        """The number of sources that the user gave; otherwise the rank of X, or k if it
        is None.
        """
        if not isinstance(self.n_components, Integral):
            if X is None:
                return k
            return max(1, rank_of(some_rows(X, finite=True)))
        d = int(self.n_components)
        if d > k:
            raise ValueError(
                Message(
                    "{n_components:={}} sources cannot be found in {n_features:={}}"
                    " mixtures; use {n_components} <= {}",
                    d,
                    k,
                    k,
                )
            )
        return d

    @property
    def n_components_(self) -> int:
        """Number of outputs."""
        return self._n_features_out

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = self._takes_missing()
        return tags


class Separator(Estimator):
    """Base of the estimators whose outputs are sources."""

    @property
    def spectra_(self) -> Array:
        """The spectrum of each source, a row each: `mixing_.T`."""
        return self.mixing_.T

    def _outputs(self, X: Array) -> Array:
        Y = finite_map(X, self.components_)
        return np.maximum(Y, 0, out=Y)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the outputs: `source_names_` of a model, or source_1,
        source_2, ...; `input_features` is ignored.
        """
        names = [f"source_{i + 1}" for i in range(self._n_features_out)]
        given = getattr(self, "source_names_", names)
        return np.array(given if len(given) == len(names) else names, dtype=object)

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Return the share of the energy of X that is predicted from other mixtures;
        higher is better, 1 is the best.

        Bi-cross-validation (Owen and Perry 2009): each of ten groups of mixtures is
        predicted from all others by the outputs that fit these best, clipped at 0. On
        samples that were not fitted it is largest near the number of sources, so that
        `GridSearchCV` finds it. It needs more mixtures than outputs.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Mixtures, best others than those of the fit.
        y : None
            Ignored.

        Returns
        -------
        float
            `1 - |X - prediction|^2 / |X|^2`. It can be negative. Mixtures count by
            their energy: if units differ, scale them first.

        Examples
        --------
        >>> import numpy as np
        >>> from bionica import BatchNICA
        >>> rng = np.random.default_rng(0)
        >>> S = rng.exponential(size=(2000, 3))
        >>> X = S @ rng.standard_normal((3, 10)) + 0.1 * rng.standard_normal((2000, 10))
        >>> nica = BatchNICA(3, random_state=0).fit(X[:1000])
        >>> nica.score(X[1000:]) > 0.99
        True
        """
        self._check_fitted()
        A = np.asarray(self.mixing_, np.float64)
        missed, total = fold(samples.rows(self, X), _cross_validated, operator.add, A)
        return float(1 - missed / total if total else missed == 0)


def _cross_validated(X: Array, A: Array) -> Array:
    """The energy of X (n, k) that is not predicted from other mixtures (`score`), and
    that of X.
    """
    index = np.arange(len(A))
    groups = [index[first::10] for first in range(min(len(A), 10))]
    # One mixture has no others: it is predicted from itself.
    others = [np.setdiff1d(index, group) if len(A) > 1 else index for group in groups]
    inverses = [np.linalg.pinv(A[rest]) for rest in others]
    total = missed = 0.0
    for rows in row_blocks(*X.shape):
        x = X[rows].astype(np.float64)
        total += float(np.sum(x**2))
        for group, rest, inverse in zip(groups, others, inverses, strict=True):
            outputs = np.maximum(x[:, rest] @ inverse.T, 0)
            missed += float(np.sum((x[:, group] - outputs @ A[group].T) ** 2))
    return np.array([missed, total])
