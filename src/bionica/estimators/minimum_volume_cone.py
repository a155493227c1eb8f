"""The minimum-volume cone behind scikit-learn's interface: nonnegative sources that may be correlated.

Samples wait in `_waiting` until their block is full, and blocks are counted from the first sample, not from the calls. Therefore
the model has the same bits however a stream is cut into calls. `_stream` is the state after the last block
(`bionica.offline.cone.stream`), and None before the first.
"""

from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from .._compat.sklearn import AUTO, COUNT, NONNEGATIVE, WINDOW, Interval, StrOptions
from ..networks.rule import finite, shapes
from ..offline.cone.fit import Settings, screened
from ..offline.cone.noise import WIDE, eigenvalues
from ..offline.cone.stream import (
    BLOCK,
    Readout,
    State,
    begin,
    first_block,
    learn,
    readout,
    solve,
)
from ..offline.source_count import Count, count_sources
from ..offline.whitening import one_blas_thread
from ._base import rectified
from ._findings import RowCollector, conclude
from ._input import (
    DaskRows,
    DivergenceError,
    cell,
    check_finite,
    finite_map,
    map_rows,
    singular_as_divergence,
    validated_rows,
)
from ._model_file import Record
from ._online import Online, appended, tracked
from .network import START_BYTES

Array = npt.NDArray[Any]

_BLOCK_BYTES = 2**25
_RANK_ROWS = 20_000  # the rank is first determined from this number of rows

#: The arrays of the state of a stream: q channels, m stored samples, s directions of a subspace.
_STREAM = shapes(
    q="channels.noise raw.mean weighted.mean fit.coordinates.channel_noise",
    ks="channels.subspace",
    qq="raw.second weighted.second",
    dq="fit.components fit.coordinates.matrix",
    qd="fit.mixing fit.coordinates.inverse",
    dd="fit.cone.V",
    d="fit.cone.wall.c fit.cone.wall.variance fit.cone.wall.e fit.cone.wall.m",
    mq="samples.z",
    m="samples.number",
)
# Without outliers there is no limit, and extremes are of infinite importance.
_STREAM |= {"limit": ":float64~", "samples.importance": "m~"}


@dataclass(eq=False, repr=False, kw_only=True)
class MinimumVolumeCone(Online):
    """Nonnegative sources that may be correlated: concentrations, abundances, spectra, images.

    The model is x = A s + noise with nonnegative sources that are at times near zero, each in samples in which the others vary.
    They need not be independent and may sum to one. Such data fill a cone, and some of them lie on each of its facets. The
    estimator finds the smallest cone that holds the data, with a wall at each facet that is as soft as the noise
    (`bionica.offline.cone`). If the mixing matrix is nonnegative too, as it is for spectra, a second wall keeps it so, and sources
    need not reach zero everywhere. The outputs max(W x, 0) are nonnegative and are ordered by their share of the data.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Number of sources. "auto" takes as many as two halves of the samples agree on, at most 12
        (`bionica.offline.source_count`; see `count_`). None takes the rank of the data, mean included.
    noise : "estimate", "poisson" or float, default="estimate"
        The noise of the mixtures. "estimate" finds it from the directions left out, if there are more mixtures than sources, and
        from the tails of the outputs, if these show more. "poisson" means that X holds counts. A number is the standard deviation
        of the noise of all mixtures, 0 if there is none.
    nonnegative_mixing : bool or "auto", default="auto"
        Whether the mixing matrix has no negative entries. "auto": if X has none but for what noise explains.
    known_mixing : array-like of shape (n_features, n_known), default=None
        Columns of the mixing matrix that are known up to their scale: the spectrum of a solvent, a background, a standard. Their
        sources come first, and the remaining ones are found.
    outliers : float, default=0.0
        Share of the samples that may lie outside the cone, below 0.5. They are left out of the fit. Single samples far beyond the
        tail of all others are always left out.
    normalize : {"variance", "mean", "sum"}, default="variance"
        Scale of the outputs: unit variance, unit mean, or such that they sum to one in each sample as nearly as possible (for
        abundances).
    horizon : int, default=None
        For mixtures that change: about this many samples are remembered (1000 or more are useful, because samples are processed
        in blocks of 1000). `fit` then processes X as a stream. None: all samples weigh the same.
    random_state : int, RandomState instance or None, default=None
        For the start by nonnegative ICA.
    verbose : int, default=0
        Whether `fit` shows a progress bar on standard error while it reads a Dask array.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        W, with sources max(W x, 0).
    mixing_ : ndarray of shape (n_features, n_components)
        The estimated A; `components_ @ mixing_` is the identity.
    n_components_ : int
        Number of sources.
    nonnegative_mixing_ : bool
        Whether the mixing matrix was kept nonnegative.
    ambiguity_ : float
        If two starts end in different cones that explain the data equally well: the largest angle between their spectra in degrees.
        0 if they agree.
    noise_ : ndarray of shape (n_components,)
        Standard deviation of the noise of each output; 0 if there is none. For Poisson counts that of a typical sample.
    negativity_ : float
        Share of the output energy that is negative before outputs are clipped at 0.
    wall_ : ndarray of shape (n_components,)
        Hardness of the wall of each facet, eq. (1) of `bionica.offline.cone.objective`; infinite if there is no noise.
    volume_ : float
        Volume of the cone: det(<y y'>)^(-1/2) for outputs y of unit mean. It does not depend on the scale of X.
    n_iter_ : int
        Iterations of the last solution.
    n_samples_seen_ : int
        Samples seen, including those that wait for their block.
    n_samples_until_start_ : int
        Samples that a stream must still bring before its first solution; until then `partial_fit_transform` returns zeros.
    n_features_in_ : int
        Mixtures per sample.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the mixtures, if X had string column names.

    See Also
    --------
    BatchNICA : for uncorrelated sources; needs no sample on the facets.
    StreamingNICA : the same for a stream.

    Notes
    -----
    A result that is probably wrong is reported by a ConvergenceWarning. If mixtures may be negative and the noise of an output
    exceeds its mean, the facets cannot be seen, and the outputs are those of nonnegative ICA.

    A stream (`partial_fit`, `learn_one`) starts after max(2000, 200 n_components) samples. It holds the moments of the mixtures
    and at most 3000 samples for each source (20,000, if these are more). The cone is solved again each time the number of
    samples has grown by half, and every quarter of the horizon; in between, `components_` changes in scale only, which follows
    the variance of the outputs. `fit` of a Dask array is one pass of such a stream, block by block, and one more solution at the
    end: X is never gathered.

    The best horizon is about the number of samples in which the mixtures change by 1 %: 1000 to 2000 samples, if A makes a full
    turn in 1e6. A longer one lags behind.

    With more than 1000 mixtures, X is first projected on its 2 n_components + 10 leading directions, which a stream takes from
    its first samples.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica import MinimumVolumeCone
    >>> rng = np.random.default_rng(0)
    >>> S = rng.dirichlet([0.5, 0.5, 0.5], size=5000)   # sums to one: correlated by -0.5
    >>> X = S @ rng.random((3, 20)) + 0.002 * rng.standard_normal((5000, 20))
    >>> cone = MinimumVolumeCone(3, normalize="sum", random_state=0).fit(X)
    >>> cone.nonnegative_mixing_
    True
    >>> Y = cone.transform(X)
    >>> np.abs(np.corrcoef(S.T, Y.T)[:3, 3:]).max(axis=1).round(2)
    array([1., 1., 1.])
    >>> bool(abs(Y.sum(axis=1).mean() - 1) < 0.01)
    True
    """

    n_components: Annotated[int | str | None, COUNT, AUTO, None] = field(default=None, kw_only=False)
    noise: Annotated[str | float, StrOptions({"estimate", "poisson"}), NONNEGATIVE] = "estimate"
    nonnegative_mixing: Annotated[bool | str, "boolean", AUTO] = "auto"
    known_mixing: Annotated[Any, "array-like", None] = None
    outliers: Annotated[float, Interval(Real, 0, 0.5, closed="left")] = 0.0
    normalize: Annotated[str, StrOptions({"variance", "mean", "sum"})] = "variance"
    horizon: Annotated[int | None, WINDOW, None] = None
    random_state: Annotated[Any, "random_state"] = None
    verbose: Annotated[int, "verbose"] = 0

    online_, local_, nonnegative_ = True, False, True
    _uncorrelated: ClassVar = False

    _preserved_dtypes: ClassVar = ("float64", "float32")
    _fixed: ClassVar[tuple[str, ...]] = ("n_components", "known_mixing")
    _saved: ClassVar[dict[str, Any]] = {
        "_waiting": "wk:float",
        "_stream": Record(State, _STREAM, optional=True),
        "_start_seed": int,
        "_dtype": np.dtype,
        "n_samples_seen_": int,
    }

    # --- learning

    def _fit(self, X: npt.ArrayLike) -> None:
        rows = validated_rows(self, X, min_samples=2)
        for name in ("_waiting", "_stream", "_preview", "_read", "_start_seed", "n_samples_seen_"):
            self.__dict__.pop(name, None)
        collector = RowCollector(rows.shape)
        blocks = collector.passing(rows)
        if isinstance(rows, DaskRows) or self.horizon is not None:
            shown = tracked(blocks, self, len(rows.array.chunks[0])) if isinstance(rows, DaskRows) else blocks
            for block in shown:
                self._learn(block, keep=False)
            with one_blas_thread():
                self._end()
        else:
            (rows,) = blocks
            self._prepare(rows)
            self._waiting = rows[:0].copy()
            self.n_samples_seen_ = len(rows)
            with one_blas_thread():
                self._adopt(self._begun(rows))
        conclude(self, collector.rows, collector.n)

    def _prepare(self, X: Array) -> None:
        """Before the first sample: the precision, and the seed of the start."""
        self._dtype = X.dtype
        self._start_seed = self._new_seed()
        self._stream: State | None = None

    def _learn(self, X: Array, keep: bool) -> Array:
        if "_stream" not in vars(self):
            self._prepare(X)
        self.__dict__.pop("_preview", None)
        with np.errstate(over="ignore"):
            X = X.astype(self._dtype, copy=False)
        check_finite(X, 0, self)
        waiting = self._waiting_rows(X)
        Y, start = [], 0
        while start < len(X):
            length = self._block_length(X.shape[1])
            part = X[start : start + length - len(waiting)]
            if keep:
                Y.append(finite_map(self._outputs_before, part, type(self).__name__, start))
            waiting = self._waiting = appended(waiting, part, length)
            self.n_samples_seen_ = vars(self).get("n_samples_seen_", 0) + len(part)
            if len(waiting) == length:
                self._waiting = waiting[:0].copy()
                with singular_as_divergence(type(self).__name__, self.n_samples_seen_ - 1), one_blas_thread():
                    self._take(waiting)
                waiting = self._waiting
            start += len(part)
        return np.concatenate(Y) if keep else np.empty((0, 0))

    def _block_length(self, k: int) -> int:
        """Return the number of samples of the block that is being filled."""
        if self._stream is not None:
            return min(BLOCK, max(50, _BLOCK_BYTES // (8 * k)))
        d = self._given_number() or k
        return min(first_block(d), max(4 * d + 20, START_BYTES // (8 * k)))

    def _take(self, block: Array) -> None:
        """Learn from a full block."""
        if self._stream is None:
            self._adopt(self._begun(block))
            return
        with np.errstate(over="ignore", invalid="ignore"):
            state = learn(self._stream, block, self._settings(block.shape[1]))
        if not np.isfinite(state.weighted.second).all():
            i = self._stream.n + int(np.argmax(np.abs(block).max(axis=1)))
            raise DivergenceError(
                f"MinimumVolumeCone: the second moment of the mixtures overflowed at sample {i}: rescale the mixtures (largest "
                f"absolute value {np.abs(block).max():.2g}). The model is as it was before this call.",
                i,
            )
        self._adopt(state)

    def _end(self) -> None:
        """Solve the cone with the samples that still wait for their block."""
        waiting, self._waiting = self._waiting, self._waiting[:0].copy()
        if self._stream is None:
            self._adopt(self._begun(waiting))
            return
        settings = self._settings(waiting.shape[1])
        state = learn(self._stream, waiting, settings) if len(waiting) else self._stream
        self._adopt(solve(state, settings))

    def _adopt(self, state: State) -> None:
        self._stream = state
        self._read = self.normalize, readout(state, self.normalize)  # the scale of the outputs follows the moments

    def _settings(self, k: int) -> Settings:
        known = np.empty((k, 0)) if self.known_mixing is None else np.asarray(self.known_mixing, np.float64)
        if known.ndim != 2 or len(known) != k or not np.isfinite(known).all() or not np.abs(known).any(axis=0).all():
            raise ValueError(
                f"known_mixing has shape {known.shape}; it must hold finite columns of n_features={k} entries, not all of them zero"
            )
        if (
            known.size
            and np.linalg.matrix_rank(known / np.maximum(np.linalg.norm(known, axis=0), 1e-300)) < known.shape[1]
        ):
            raise ValueError(f"the {known.shape[1]} columns of known_mixing are linearly dependent: drop one of them")
        nonnegative = None if self.nonnegative_mixing == "auto" else bool(self.nonnegative_mixing)
        return Settings(float(self.outliers), float(self.horizon or np.inf), nonnegative, known)

    def _begun(self, X: Array) -> State:
        """Return the state after a first block."""
        settings = self._settings(X.shape[1])
        if self.noise == "poisson" and X.min() < 0:
            i, j = np.argwhere(X < 0)[0]
            raise ValueError(
                f"noise='poisson' takes X for counts, but {cell(self, i, j)} is {X[i, j]:.3g}: pass counts without subtracting a "
                "background, or use noise='estimate'"
            )
        self._given_number(X.shape[1])
        sound = X[screened(X)]
        d = self._count(sound)
        if settings.known.shape[1] > d:
            raise ValueError(
                f"known_mixing has {settings.known.shape[1]} columns, more than the n_components={d} sources: give n_components a "
                "larger number"
            )
        return begin(sound, d, self.noise, settings, self._start_seed)._replace(n=len(X))

    def _count(self, X: Array) -> int:
        """Return the number of sources in X."""
        given, k = self._given_number(), X.shape[1]
        rows = X if given is None else X[:: -(-len(X) // (_RANK_ROWS if k <= WIDE else max(500, 2 * given)))]
        values = eigenvalues(rows)
        if given is not None and len(values) < given:
            values = eigenvalues(X)
        rank = len(values)
        if not rank:
            raise ValueError(f"All {len(X)} sample(s) of X are zero (rank 0): pass mixtures that are not zero.")
        if given is not None:
            if given > rank:
                raise ValueError(
                    f"n_components={given} exceeds the rank of the data: {len(X)} samples of {k} features span {rank} "
                    f"direction(s) only. Use n_components=None (keeps {rank}), a number up to {rank}, or more samples."
                )
            return given
        if self.n_components is None:
            return rank
        self.count_: Count = count_sources(X)
        return self.count_.n_sources

    # --- what was learned

    def _solved(self) -> State:
        """Return the last solution, or the one that would be found if the stream ended before its first."""
        self._check_is_fitted()
        if self._stream is not None:
            return self._stream
        if "_preview" not in vars(self):
            try:
                with one_blas_thread():
                    self._preview = self._begun(self._waiting)
            except ValueError as error:
                raise NotFittedError(str(error)) from error
            self.__dict__.pop("_read", None)
        return self._preview

    def _readout(self) -> Readout:
        state = self._solved()
        if vars(self).get("_read", (None,))[0] != self.normalize:
            self._read = self.normalize, readout(state, self.normalize)
        result: Readout = self._read[1]
        return result

    def _outputs(self, X: Array) -> Array:
        check_finite(X, 0, self)
        return finite_map(partial(rectified, W=self._readout().components), X, type(self).__name__)

    def _outputs_before(self, X: Array) -> Array:
        """Return the outputs for X with what was learned from full blocks: zero before the first."""
        if self._stream is not None:
            return rectified(X, self._readout().components)
        d = self._given_number()
        if d is None and len(X) < self._block_length(X.shape[1]):
            raise self._unknown_number(self._block_length(X.shape[1]))
        return np.zeros((len(X), self._count(X[screened(X)]) if d is None else d), self._dtype)

    def _transform(self, X: npt.ArrayLike) -> Any:
        W = self._readout().components
        return map_rows(partial(rectified, W=W), X, len(W), self)

    @property
    def components_(self) -> Array:
        """W, (n_components, n_features)."""
        with np.errstate(over="ignore"):
            return finite(self._readout().components.astype(self._dtype))

    @property
    def mixing_(self) -> Array:
        """The estimated A, (n_features, n_components)."""
        with np.errstate(over="ignore"):
            return finite(self._readout().mixing.astype(self._dtype))

    @property
    def _n_features_out(self) -> int:
        return len(self._readout().components)

    @property
    def nonnegative_mixing_(self) -> bool:
        """Whether the mixing matrix was kept nonnegative."""
        return self._solved().fit.nonnegative

    @property
    def ambiguity_(self) -> float:
        """Largest angle in degrees between the spectra of two cones that explain the data equally well; 0 if there is one."""
        return self._solved().fit.ambiguity

    @property
    def noise_(self) -> Array:
        """Standard deviation of the noise of each output, (n_components,)."""
        return self._readout().noise.copy()

    @property
    def negativity_(self) -> float:
        """Share of the output energy that is negative before outputs are clipped at 0."""
        return self._solved().negativity

    @property
    def wall_(self) -> Array:
        """Hardness of the wall of each facet, (n_components,)."""
        return self._readout().wall.copy()

    @property
    def volume_(self) -> float:
        """Volume of the cone."""
        return self._readout().volume

    @property
    def n_iter_(self) -> int:
        """Iterations of the last solution."""
        return self._solved().fit.cone.n_iter

    @property
    def n_samples_until_start_(self) -> int:
        """Samples that a stream must still bring before its first solution; 0 from then on."""
        self._check_is_fitted()
        return 0 if self._stream is not None else self._block_length(self.n_features_in_) - len(self._waiting)

    # --- saving

    def __sklearn_is_fitted__(self) -> bool:
        return "_waiting" in vars(self)

    def _check_saved(self) -> None:
        k, waiting, state = self.n_features_in_, self._waiting, self._stream
        d = self._given_number() or 1
        if state is not None:
            d, q = state.fit.components.shape
            if state.channels.subspace.shape[1] != q * state.channels.projected or (
                not state.channels.projected and q != k
            ):
                raise ValueError(f"the stream has {q} channels, and there are {k} mixtures")
            positive = (
                state.channels.scale,
                state.channels.mean_total,
                state.raw.weight,
                state.weighted.weight,
                state.rate,
            )
            if min(positive) < 1e-307 or not state.limit >= 0:
                raise ValueError("scales, weights, rates and limits are positive")
            number, importance = state.samples.number, state.samples.importance
            if (number != np.floor(np.abs(number))).any() or not (importance > 0).all():
                raise ValueError("stored samples have whole numbers and a positive importance")
        self._check_number_saved(d)
        least = self._block_length(k)
        if not (state is None) <= len(waiting) < least or waiting.dtype != self._dtype:
            raise ValueError(f"{len(waiting)} samples of {waiting.dtype} wait for a block of {least} of {self._dtype}")
