"""The base of all estimators: parameters, `fit`, `transform`, `inverse_transform`,
`score`, `diagnose`, `save`, and streams.

*One frozen configuration.* When a model starts, its parameters are copied (`_config`).
What continues it uses these: `transform`, `partial_fit`, `save`. What `set_params`
changes has an effect at the next `fit`, and `partial_fit` with other parameters raises
ValueError, unless they are those that a running model may change (`_may_change`:
learning rates, a horizon).

*What learns* is one object, `_learner` (`engine.learner`), which holds the state and
the samples that wait for a block.
"""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

import operator
import os
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy, deepcopy
from itertools import count
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from bionica.circuits.guards import Guards
from bionica.circuits.settling import Exact, ProjectedGradient
from bionica.core import parameters as allowed
from bionica.core import samples
from bionica.core.blas import one_blas_thread
from bionica.core.blocks import collected, fold, row_blocks, row_sample, some_rows
from bionica.core.dask import DaskRows
from bionica.core.errors import DivergenceError
from bionica.core.model_file import contents, write_model
from bionica.core.parameters import InvalidParameterError, wrap_output
from bionica.core.samples import Array, Sample, finite_map, finite_rows, warn
from bionica.core.whitening import rank_of
from bionica.engine.loop import Diverged
from bionica.engine.rule import REPAIRS, UNSETTLED, finite, pseudoinverse, rule_of
from bionica.mixtures.missing import has_missing, noise_of_outputs
from bionica.mixtures.missing import outputs as incomplete_outputs
from bionica.mixtures.verdict.count import Count, undecided
from bionica.mixtures.verdict.diagnosis import TOLD, Diagnosis, diagnose
from bionica.mixtures.verdict.findings import (
    CONVERGED,
    HUGE,
    Finding,
    evidence,
    ranked_findings,
)

#: What parameters may be, by name; a class adds its own.
PARAMETERS: dict[str, Any] = {
    "n_components": [allowed.COUNT, None],
    "eta0": [allowed.POSITIVE, allowed.FUNCTION],
    **dict.fromkeys(("decay", "power"), (allowed.NONNEGATIVE,)),
    **dict.fromkeys(("mean_window", "horizon"), (allowed.WINDOW, None)),
    **dict.fromkeys(("average", "shuffle", "robust"), (allowed.BOOLEAN,)),
    "dynamics": [allowed.options("exact", "gradient")],
    "gamma": [allowed.POSITIVE, None],
    "settle_tol": [allowed.SHARE],
    # with a safe gamma, only a singular network needs more
    "settle_steps": [allowed.interval(Integral, 1, 10**6)],
    "guards": [allowed.BOOLEAN, allowed.instance(list, tuple, set, frozenset)],
    "init": [allowed.options("random"), allowed.instance(dict)],
    **dict.fromkeys(("n_epochs", "max_iter"), (allowed.COUNT,)),
    "random_state": allowed.RANDOM,
}
#: The same where None stands for a setting that needs no tuning.
UNTUNED: dict[str, Any] = {
    "eta0": [allowed.POSITIVE, allowed.FUNCTION, None],
    "decay": [allowed.NONNEGATIVE, None],
}
#: The number of sources of each of the paper's problems.
SOURCES = {"d3": 3, "d10": 10, "images": 3}
# most samples and numbers of X that halves are drawn from
_REFIT_ROWS = 100_000
_REFIT_NUMBERS = 1 << 23
_CHECK_ROWS = 1000  # samples on which a fit is checked: at most a tenth of its time


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Restore an estimator, and what learns in place, after an exception; overflow and
    singular equations: DivergenceError.
    """
    before = dict(vars(estimator))
    learner = before.get("_learner")
    backup = None if learner is None else learner.backup()
    try:
        yield
    except BaseException as error:
        overflow = (
            estimator._divergence(error, learning=True)
            if isinstance(error, Diverged)
            else None
        )
        vars(estimator).clear()
        vars(estimator).update(before)
        if learner is not None:
            learner.restore(backup)
        if overflow is not None:
            raise overflow from None
        if not isinstance(error, np.linalg.LinAlgError):
            raise
        raise DivergenceError(
            f"{type(estimator).__name__}: the mixtures lead to equations without a"
            f" solution ({error}): they do not vary in n_components directions, or"
            " their range is too large. Lower n_components, drop constant or repeated"
            " mixtures, or rescale them. The model is as it was before this call.",
            getattr(estimator, "n_samples_seen_", 0),
        ) from error


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
    _offset: ClassVar[Any] = None  # what `inverse_transform` adds to every row
    #: Whether `fit` estimates missing values (NaN) of an array, and `transform` does
    #: without them; or `estimates_missing`.
    _takes_missing: Any = False

    @abstractmethod
    def _fit(self, X: Any, *more: Any) -> Any: ...

    @abstractmethod
    def _outputs(self, X: Array) -> Array:
        """Return the outputs for the rows of X, which are finite."""

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
            for name in [
                name for name in vars(self) if name.endswith("_") or name == "_learner"
            ]:
                delattr(self, name)  # of another fit
            self._freeze()
            self._fit(X, *more)
        return self

    def _freeze(self) -> None:
        """Validate the parameters, and copy them: they are what the model learns with."""
        given = self.get_params(deep=False)
        for name, value in given.items():
            kinds = self._parameter_constraints.get(name, ())
            if kinds and not any(
                value is None if one is None else one.holds(value) for one in kinds
            ):
                *most, last = ("None" if one is None else one.text for one in kinds)
                text = f"{', '.join(most)} or {last}" if most else last
                raise InvalidParameterError(
                    f"The {name!r} parameter of {type(self).__name__} must be {text}."
                    f" Got {value!r} instead."
                )
        self._given, self._config = (
            given,
            {name: deepcopy(value) for name, value in given.items()},
        )

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
        changed = [
            name for name, value in now.items() if not is_same(value, before[name])
        ]
        stay = [name for name in changed if name not in self._changeable]
        stay += [
            name
            for name in {"eta0", "decay"} & set(changed)
            if before[name] is None or now[name] is None
        ]
        if stay:
            given, learned = (
                ", ".join(f"{name}={values[name]!r}" for name in stay)
                for values in (now, before)
            )
            raise ValueError(
                f"{given}: this {type(self).__name__} learned with {learned}. Restore"
                " the parameters (set_params), or call fit to "
                "start from scratch. A running model may change"
                f" {', '.join(self._changeable) or 'nothing'}"
                f"{', but rates that are None' * ('eta0' in self._changeable)}"
            )
        self._freeze()
        return bool(changed)

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
        d = self._n_features_out
        rows = samples.rows(self, X, missing=self._takes_missing)
        if not isinstance(rows, DaskRows):
            return samples.like(
                X, self._transformed(rows), "source", self.get_feature_names_out
            )
        if not isinstance(wrap_output(np.zeros((1, d)), None, self), np.ndarray):
            raise ValueError(
                "set_output would gather the Dask array X in memory: call"
                " set_output(transform='default'), and convert the result block by"
                " block"
            )
        # Of a copy, so that samples learned before the blocks are computed have no
        # effect.
        return rows.mapped(copy(self)._transformed, d).array

    def _transformed(self, X: Array) -> Array:
        """Return the outputs for the rows of X, in its precision; DivergenceError names
        the first row that overflows.
        """
        if self._takes_missing and len(X) and has_missing(X):
            gaps = np.isnan(X).any(axis=1)
            Y = np.empty((len(X), self._n_features_out), X.dtype)
            Y[~gaps] = self._transformed(X[~gaps])
            W, A = (np.asarray(M, np.float64) for M in (self.components_, self.mixing_))
            Y[gaps] = np.maximum(
                incomplete_outputs(X[gaps].astype(np.float64), W, A), 0
            )
            return Y
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
            remedies.append(
                f"lower eta0 (now {config['eta0']})"
                if isinstance(config["eta0"], Real)
                else "lower eta0"
            )
        if learning and config.get("guards", True) is not True:
            remedies.append(
                f"turn on the guards, guards=True (now {config['guards']!r})"
            )
        if not learning and error.x.dtype == np.float32:
            remedies.append("use float64")
        remedies.append(
            "rescale the mixtures (largest absolute value"
            f" {float(np.abs(error.x).max()):.2g})"
        )
        return DivergenceError(
            f"{type(self).__name__} diverged at sample {error.sample}: an output or a"
            f" weight overflowed. To change: {'; '.join(remedies)}. The model is as it"
            " was before this call.",
            error.sample,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned to `path` as plain arrays and JSON; `bionica.load`
        reads it, and a network learns on from there.

        The parameters in the file are those that the model learned with.

        Parameters
        ----------
        path : path
            The file. It is replaced only when the new one is complete.
        """
        write_model(path, *contents(self))

    def _to_save(self) -> dict[str, Any]:
        """What a file holds, by the names of `_saved`."""
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

    def _number_of_outputs(self, k: int, X: Any = None) -> int:
        """The number of sources that the user gave; otherwise the rank of X, or k if it
        is None.
        """
        if not isinstance(self.n_components, Integral):
            return k if X is None else max(1, rank_of(some_rows(X, finite=True)))
        d = int(self.n_components)
        if d > k:
            raise ValueError(
                f"n_components={d} sources cannot be found in n_features={k} mixtures;"
                f" use n_components <= {k}"
            )
        return d

    def __getattr__(self, name: str) -> Any:
        """Called for a missing attribute, or if a property raised AttributeError:
        before a fit what was learned is missing.
        """
        if "n_features_in_" not in vars(self) and (
            name == "_learner" or (name[-1] == "_" and name[0] != "_")
        ):
            # An AttributeError too, so that hasattr(est, "components_") answers False
            # before fit.
            raise NotFittedError(
                f"This {type(self).__name__} has seen no sample: call fit first"
            )
        return self.__getattribute__(name)

    n_components_ = property(attrgetter("_n_features_out"), doc="Number of outputs.")

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = self._takes_missing
        return tags


#: Whether X may hold NaN: missing values hide the rank of X (n_components=None), and
#: streams with a horizon refuse them.
estimates_missing = property(
    lambda self: (
        self.n_components is not None and getattr(self, "horizon", None) is None
    )
)


def is_same(a: Any, b: Any) -> bool:
    """Whether two values of a parameter are equal."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(is_same(a[key], b[key]) for key in a)
    if isinstance(a, np.random.RandomState) and isinstance(b, np.random.RandomState):
        return True  # spent: what is still random comes from the state
    try:
        return a is b or (
            np.shape(a) == np.shape(b) and bool(np.all(np.asarray(a) == np.asarray(b)))
        )
    except (TypeError, ValueError):
        return False


class Separator:
    """Mixin of the estimators whose outputs are sources: all but NoncenteredWhitener."""

    components_: Any
    mixing_: Any
    n_features_in_: int
    _config: dict[str, Any]
    #: Whether outputs are uncorrelated and have unit variance: nonnegative ICA.
    _uncorrelated: ClassVar[bool] = True

    spectra_ = property(
        lambda self: self.mixing_.T,
        doc="The spectrum of each source, a row each: `mixing_.T`.",
    )

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the outputs: `source_names_` of a model, or source_1,
        source_2, ...; `input_features` is ignored.
        """
        names = [f"source_{i + 1}" for i in range(self._n_features_out)]  # type: ignore[attr-defined]
        given = getattr(self, "source_names_", names)
        return np.array(given if len(given) == len(names) else names, dtype=object)

    @property
    def _names(self) -> dict[str, Any]:
        """The names of outputs and mixtures, as `Finding.text` takes them; mixtures may
        have none.
        """
        mixtures = getattr(self, "feature_names_in_", ())
        return {
            "sources": [*self.get_feature_names_out()],
            "mixtures": [*map(str, mixtures)],
        }

    def _outputs(self, X: Array) -> Array:
        Y = finite_map(X, self.components_)
        return np.maximum(Y, 0, out=Y)

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
        >>> X = rng.exponential(size=(2000, 3)) @ rng.standard_normal((3, 10)) + 0.1 * rng.standard_normal((2000, 10))
        >>> nica = BatchNICA(3, random_state=0).fit(X[:1000])
        >>> nica.score(X[1000:]) > 0.99
        True
        """
        A = np.asarray(self.mixing_, np.float64)
        missed, total = fold(samples.rows(self, X), _cross_validated, operator.add, A)
        return float(1 - missed / total if total else missed == 0)

    def diagnose(self, X: ArrayLike, *, refit: bool = True) -> Diagnosis:
        """Say, without knowing the sources, how far to believe the fit, and what to do
        if not.

        Halves of X, without outliers, are fitted by clones of this estimator. Of more
        than 100,000 samples, or 2^23 numbers (64 MB), a sample is used (the last
        samples, with a horizon).

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Mixtures, those of the fit or others.
        refit : bool, default=True
            Whether to fit halves of X. Without, `uncertainty_` is None, and what only
            refits show is missed.

        Returns
        -------
        Diagnosis

        Examples
        --------
        >>> import numpy as np
        >>> from bionica import BatchNICA
        >>> rng = np.random.default_rng(0)
        >>> X = rng.exponential(size=(5000, 3)) @ rng.standard_normal((3, 6))
        >>> nica = BatchNICA(3, random_state=0).fit(X)
        >>> nica.diagnose(X).ok
        True
        >>> nica.diagnose(3 * X, refit=False).findings[0].name
        'scale'
        """
        W, A = (np.asarray(M, np.float64) for M in (self.components_, self.mixing_))
        data = samples.rows(self, X, min_samples=2, missing=self._takes_missing)  # type: ignore[attr-defined]
        rows = some_rows(
            data, _REFIT_ROWS, _REFIT_NUMBERS, last=self._config.get("horizon")
        )
        facts = self._facts()
        if has_missing(rows):  # a sample without its best channels has more noise
            noise = noise_of_outputs(np.asarray(rows, np.float64), W, A)
            facts["noise"] = (
                noise if facts["noise"] is None else np.maximum(noise, facts["noise"])
            )
        rows = samples.completed_rows(self, rows, len(W))
        known = self._config.get("known_mixing")
        tried = self._tried()
        names = self._names
        n_known = 0 if known is None else np.shape(known)[1]
        fit = _refits(self, len(rows)) if refit else None
        return diagnose(
            rows,
            W,
            A,
            fit,
            n=data.shape[0],
            n_known=n_known,
            tried=tried,
            **names,
            **facts,
        )

    def _facts(self) -> dict[str, Any]:
        """What `trust.measures.Fit` must know of the method."""
        tracking = self._config.get("horizon") is not None
        return {
            "noise": getattr(self, "noise_", None),
            "uncorrelated": self._uncorrelated,
            "tracking": tracking,
        }

    def _tried(self) -> set[str]:
        """Remedies that this estimator is or has."""
        tried = {
            "cone": not self._uncorrelated,
            "walls": getattr(self, "nonnegative_mixing_", False),
        }
        tried["known"] = self._config.get("known_mixing") is not None
        return {key for key, holds in tried.items() if holds}

    def _warn_about_fit(self, rows: Array, n: int, *problems: Finding) -> None:
        """Warn once of the evidence against a fit to n samples, of which `rows` are
        some, after the `problems` that it had.
        """
        rows = rows[row_sample(*rows.shape, most=_CHECK_ROWS)]
        findings = evidence(rows, self.components_, self.mixing_, n, **self._facts())
        self._warn((*problems, *ranked_findings(findings, self._tried())))

    def _warn(self, findings: Sequence[Finding]) -> None:
        """Warn of findings, the gravest first."""
        if findings:
            warn(
                f"{type(self).__name__}:"
                f" {' '.join(one.text(**self._names) for one in findings[:TOLD])}"
            )


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
    for x in (X[rows].astype(np.float64) for rows in row_blocks(*X.shape)):
        total += float(np.sum(x**2))
        for group, rest, inverse in zip(groups, others, inverses, strict=True):
            outputs = np.maximum(x[:, rest] @ inverse.T, 0)
            missed += float(np.sum((x[:, group] - outputs @ A[group].T) ** 2))
    return np.array([missed, total])


def _refits(estimator: Any, n: int) -> Callable[[Array], tuple[Array, Array]]:
    """Fits clones of an estimator, each from another start, so that what was not
    learned differs.

    A network learns from its rows again until it has seen n samples, as many as the
    fit: half as many may be too few to settle.
    """
    seeds = count(1)
    d = len(estimator.components_)
    repeats = isinstance(estimator, OnlineEstimator) and estimator._repeats

    def fit(rows: Array) -> tuple[Array, Array]:
        k = rows.shape[1]
        other = clone(estimator)
        given = {**estimator._config, "n_components": d, "random_state": next(seeds)}
        other.set_params(
            **{name: given[name] for name in given.keys() & other.get_params()}
        )
        try:
            with warnings.catch_warnings(action="ignore"):
                other.fit(np.resize(rows, (n, k)) if repeats else rows)
            return np.asarray(other.components_, np.float64), np.asarray(
                other.mixing_, np.float64
            )
        except (ValueError, ArithmeticError):  # these rows do not determine a fit
            return np.zeros((d, k)), np.zeros((k, d))

    return fit


TWO_COMPARTMENTS: Any = (
    {"x": ("mixtures", 0, 0), "c": ("dendrites", 1, 0), "z": ("somata", 2, 0)},
    (("x", "c", "W_xz_", 1), ("c", "z", None, 1), ("z", "z", "W_zz_", -1)),
)


def _counted_sources(model: Any) -> Count:
    """With n_components="auto": the number of sources, and what else the data allow."""
    model._started()
    if model._learner.count is None:
        raise AttributeError(
            f"{type(model).__name__}(n_components={model._config['n_components']!r})"
            " counted no sources"
        )
    count: Count = model._learner.count
    return count


counted = property(_counted_sources)


def weights(name: str, doc: str) -> Any:
    """Return a property of a network: a copy of a weight matrix."""
    return property(lambda network: network._weight(name), doc=doc)


class OfThePaper:
    """Mixin of the networks that are in the paper: `as_published`."""

    _published: ClassVar[dict[str, dict[str, Any]]]

    @classmethod
    def as_published(cls, setting: str, **overrides: Any) -> Self:
        """Return the paper's network with its hyperparameters for this setting: table 1
        (appendix C).

        Parameters
        ----------
        setting : {"d3", "d10", "images"}
            The three or ten sparse uniform sources, or the three natural images.
        **overrides
            Parameters that differ from the paper's, for example `random_state`.
        """
        if setting not in SOURCES:
            raise ValueError(
                f"setting={setting!r} is not one of the paper's; choose from"
                f" {sorted(SOURCES)}"
            )
        table = {
            "n_components": SOURCES[setting],
            **cls._published["always"],
            **cls._published[setting],
        }
        return cls(**{**table, **overrides})


class OnlineEstimator(Separator, Estimator):
    """Base of the networks, StreamingNICA and MinimumVolumeCone; a subclass says what
    learns (`_learner_for`).
    """

    # and `_state`, which the rule describes
    _saved: ClassVar[dict[str, Any]] = {"_waiting": "wk"}
    _changeable: ClassVar[tuple[str, ...]] = ("eta0", "decay", "power")
    # whether it needs many samples to settle, so that refits present theirs again
    _repeats: ClassVar[bool] = True
    #: What `plot.circuit` draws: layers by symbol (title, column, row), and synapses
    #: between them, (from, to, attribute with the weights, sign with which they enter).
    #: Attribute None: the two layers are compartments of the same neurons.
    _circuit: ClassVar[Any] = None
    _guards: ClassVar[tuple[str, ...]] = ()  # those that it has

    @abstractmethod
    def _learner_for(self, k: int, dtype: Any, X: Any = None, state: Any = None) -> Any:
        """Return what learns from k mixtures: from the start, with all data X of `fit`
        or without (a stream), or from a state.
        """

    def _fit(self, X: ArrayLike) -> None:
        data = samples.rows(self, X, reset=True)
        with one_blas_thread():
            learner = self._learner = self._learner_for(data.shape[1], data.dtype, data)
        rng = check_random_state(self.random_state)
        for _ in range(self.n_epochs):
            sample: list[Array] = []
            for block in collected(data, sample, getattr(self, "horizon", None)):
                learner.learn(
                    block[rng.permutation(len(block))] if self.shuffle else block
                )
            learner.flush()  # no more samples will come
        self._warn_about_fit(np.concatenate(sample), len(data), *self._problems())

    def partial_fit(self, X: ArrayLike, y: None = None) -> Self:
        """Continue learning from the rows of X; the first call starts a new model, and
        decides its precision, float32 or float64.

        The model ends with the same bits however the data are cut into calls. Threads
        may not call it on one estimator.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            The next mixtures.
        y : None
            Ignored.
        """
        with unchanged_on_error(self):
            self._learn(X)
        return self

    def partial_fit_transform(self, X: ArrayLike, y: None = None) -> Any:
        """Learn from the rows of X and return the outputs as each sample arrived: the
        paper's y_t.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            The next mixtures.
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Each row is computed with what was learned before it. Rows are zero until
            the model has started (`n_samples_until_start_`).
        """
        with unchanged_on_error(self):
            blocks = self._learn(X, keep=True)
            # a copy would cost 3 ns a sample at d = 3
            Y = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
            self._warn_if_huge(Y)
        return wrap_output(
            samples.like(X, Y, "source", self.get_feature_names_out), X, self
        )

    def learn_one(self, x: Sample) -> Array:
        """Learn from a single mixture, and return its output as it arrived, with the
        bits of `partial_fit_transform`.

        Parameters
        ----------
        x : array-like of shape (n_features,), or dict of feature names to numbers
            The next mixture. The keys of the first dict become `feature_names_in_`;
            later dicts have the same keys, in any order.

        Returns
        -------
        ndarray of shape (n_components,)
            The paper's y_t, computed with what was learned before; zero until the model
            has started (`n_samples_until_start_`).
        """
        with unchanged_on_error(self):
            return np.asarray(self._learn(x, keep=True, enter=samples.one)[0][0])

    def transform_one(self, x: Sample) -> Array:
        """Return the outputs for a single mixture, with the bits of `transform`.

        Parameters
        ----------
        x : array-like of shape (n_features,), or dict of feature names to numbers
            A mixture.

        Returns
        -------
        ndarray of shape (n_components,)
        """
        return np.asarray(self._transformed(samples.one(self, x))[0])

    def _learn(
        self, X: Any, keep: bool = False, enter: Callable[..., Any] = samples.rows
    ) -> list[Any]:
        """Learn from X, and warn of new evidence against the result; return the outputs
        of each block if `keep`.
        """
        first = "_learner" not in vars(self)
        if first:
            self._freeze()
        else:
            self._check_config()
        data = enter(
            self, X, reset=first, dtype=samples.FLOATS if first else self._learner.dtype
        )
        if first:
            self._learner = self._learner_for(data.shape[1], data.dtype)
        problems = self._problems()
        n_before = 0 if keep else self._learner.n_samples_seen
        blocks = data if isinstance(data, DaskRows) else [data]
        Y = [self._learner.learn(block, keep) for block in blocks]
        # to look takes 0.3 ms
        doubled = (
            not keep
            and self._learner.n_samples_seen.bit_length() > n_before.bit_length()
        )
        if (
            doubled
            and isinstance(data, np.ndarray)
            and hasattr(self._learner.state, "repairs")
        ):
            with suppress(Diverged):  # the next sample will say so
                self._warn_if_huge(
                    self._learner.outputs(data[row_sample(*data.shape, most=32)])
                )
        new = [one for one in self._problems() if one not in problems]
        if new:
            self._warn(new)
        return Y

    def _warn_if_huge(self, Y: Array) -> None:
        """Warn of outputs that are far too large: those of a network have variance or
        mean 1.
        """
        if len(Y) and hasattr(self._learner.state, "repairs"):
            typical = float(np.median(Y[row_sample(*Y.shape)].max(axis=1)))
            self._warn(ranked_findings(HUGE.beyond(typical), self._tried()))

    def _check_config(self) -> bool:
        changed = super()._check_config()
        if changed:  # the same state, with other rates
            self._continue_from(self._learner.state, self._learner.waiting)
        return changed

    def _continue_from(self, state: Any, waiting: Array) -> None:
        """Make what learns from a state, or from nothing if it is None, and from
        samples that wait for their block.
        """
        count = getattr(getattr(self, "_learner", None), "count", None)
        self._learner = self._learner_for(
            self.n_features_in_, waiting.dtype, state=state
        )
        self._learner.waiting = waiting
        if count is not None:
            self._learner.count = count

    def _outputs(self, X: Array) -> Array:
        return np.asarray(self._learner.outputs(X))

    def _started(self) -> Any:
        """Return the state; NotFittedError if the model has not started."""
        if self._learner.state is None:
            raise self._learner.not_started()
        return self._learner.state

    def _to_save(self) -> dict[str, Any]:
        return {"_waiting": self._learner.waiting, "_state": self._learner.state}

    def _restore(self, values: dict[str, Any]) -> None:
        state = values.get("_state")
        self._continue_from(state, values["_waiting"])
        n = len(self._learner.waiting)
        length = self._learner.block
        if not (state is None) <= n < max(1, length):
            raise ValueError(f"{n} samples wait for a block of {length}")
        if state is not None:
            super()._restore({})

    def __getstate__(self) -> dict[str, Any]:
        own: dict[str, Any] = super().__getstate__()
        # A copy must not share what learning changes in place.
        return (
            own | {"_learner": deepcopy(own["_learner"])} if "_learner" in own else own
        )

    # --- what was learned

    @property
    def components_(self) -> Array:
        """The unmixing matrix, (n_components, n_features): what the network does to a
        mixture for which every output fires.
        """
        self._started()
        state = self._learner.readout()
        with np.errstate(all="ignore"):  # a collapsed network may overflow
            return finite(np.asarray(rule_of(state).unmixing(state))).astype(
                self._learner.dtype
            )

    mixing_ = property(
        lambda self: pseudoinverse(self.components_),
        doc=(
            "The mixing matrix, (n_features, n_components): pseudoinverse of"
            " `components_`."
        ),
    )
    n_samples_seen_ = property(
        attrgetter("_learner.n_samples_seen"),
        doc="Samples seen, including those that wait for the start.",
    )

    @property
    def n_samples_until_start_(self) -> int:
        """Samples that are missing until the model starts; outputs are zero before."""
        return (
            0
            if self._learner.state is not None
            else self._learner.block - len(self._learner.waiting)
        )

    @property
    def repairs_(self) -> dict[str, int]:
        """How often each guard acted; samples that were regularised (nearly singular
        lateral weights) or did not settle.
        """
        return dict(zip(REPAIRS, map(int, self._started().repairs), strict=True))

    @property
    def _n_features_out(self) -> int:
        d = self._learner.n_outputs
        return len(self.components_) if d is None else int(d)

    def _weight(self, name: str) -> Array:
        """Return a copy of a weight matrix, so that the user cannot change the network
        through it.
        """
        return np.array(attrgetter(name)(self._started()))

    def _problems(self) -> list[Finding]:
        """Return the evidence against the result that learning itself shows."""
        learner = self._learner
        if learner.state is None:
            return []
        problems = [] if learner.count is None else undecided(learner.count)
        repairs = getattr(learner.state, "repairs", None)  # of a network
        if repairs is not None and repairs[UNSETTLED]:
            reason = (
                "the neurons did not settle for some samples (repairs_ counts them):"
                " raise settle_steps or settle_tol, change gamma, or use"
                " dynamics='exact' and decoupled=False"
            )
            problems.append(CONVERGED.finding(reason=reason))
        return problems

    def _dynamics(self, dtype: Any, symmetric: bool = True) -> Any:
        """How neurons settle (`circuits.settling`), from the parameters; exactly only if
        the lateral weights are symmetric.
        """
        eps = float(np.finfo(dtype).eps)
        if self.dynamics == "exact" and symmetric:
            return Exact(eps)
        return ProjectedGradient(
            float(self.gamma or 0.0),
            max(float(self.settle_tol), 64 * eps),
            int(self.settle_steps),
        )

    def _chosen_guards(self) -> Guards:
        """The guards that the parameter `guards` switches on."""
        chosen = set(
            self.guards
            if isinstance(self.guards, Iterable)
            else self._guards
            if self.guards
            else ()
        )
        unknown = chosen - set(self._guards)
        if unknown:
            names = sorted(map(str, unknown))
            raise ValueError(
                f"guards={self.guards!r} names {names}; {type(self).__name__} has"
                f" {self._guards}"
            )
        return Guards(*(name in chosen for name in Guards._fields))
