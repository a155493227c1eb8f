"""The minimum-volume cone behind scikit-learn's interface: nonnegative sources that may be correlated."""

from dataclasses import field
from numbers import Real
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from .._compat.sklearn import AUTO, COUNT, NONNEGATIVE, WINDOW, Interval, StrOptions
from ..estimator import Online
from ..kernels.rule import finite, shapes
from ..model_file import Record
from ..offline.whitening import one_blas_thread
from ..samples import DaskRows, DivergenceError, cell, collected, given_matrix, validated_rows
from ..trust.count import Count, count_sources
from ..trust.findings import conclude
from ..trust.outliers import are_inliers
from .fit import Settings
from .noise import rank_of
from .stream import BLOCK, State, begin, first_block, learn, readout, solve

Array = npt.NDArray[Any]

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
_STREAM |= {"limit": ":float64~", "samples.extreme": "m:bool"}  # without outliers there is no limit


class MinimumVolumeCone(Online):
    """Nonnegative sources that may be correlated: concentrations, abundances, spectra, images.

    The model is x = A s + noise with nonnegative sources that are at times near zero, each in samples in which the others vary.
    They need not be independent and may sum to one. Such data fill a cone, and some of them lie on each of its facets. The
    estimator finds the smallest cone that holds the data, with a wall at each facet that is as soft as the noise
    (`bionica.cone`). If the mixing matrix is nonnegative too, as it is for spectra, a second wall keeps it so, and sources
    need not reach zero everywhere. If samples follow a smooth curve (a reaction, a chromatogram), many cones between both walls are
    possible, and one in the middle is taken. The outputs max(W x, 0) are nonnegative and are ordered by their share of the data.

    Parameters
    ----------
    {parameters}
    noise : "estimate", "poisson" or float, default="estimate"
        The noise of the mixtures. "estimate" finds it from the directions left out, if there are more mixtures than sources, and
        from the tails of the outputs, if these show more. "poisson" means that X holds counts. A number is the standard deviation
        of the noise of all mixtures, 0 if there is none.
    nonnegative_mixing : bool or "auto", default="auto"
        Whether the mixing matrix has no negative entries. "auto": if X has none but for what noise explains.
    known_mixing : array-like of shape (n_features, n_known), default=None
        Columns of the mixing matrix that are known up to their scale: the spectrum of a solvent, a background, a standard. (The
        file that ``--mixing`` writes has a row for each: transpose it.) Their sources come first, and the remaining ones are found.
    outliers : float, default=0.0
        Share of the samples that may lie outside the cone, below 0.5. They are left out of the fit. Single samples far beyond the
        tail of all others are always left out.
    normalize : {"variance", "mean", "sum"}, default="variance"
        Scale of the outputs: unit variance, unit mean, or one factor for each output, so that they sum to one as nearly as
        possible (least squares over all samples). In each sample they do so only if the sources do, as abundances.
    horizon : int, default=None
        For mixtures that change: about this many samples are remembered, 1000 or more, best about as many as the mixtures change in
        by 1 % (a longer one lags behind). `fit` then processes X as a stream. None: all samples weigh the same.

    Attributes
    ----------
    {attributes}
    nonnegative_mixing_ : bool
        Whether the mixing matrix was kept nonnegative.
    ambiguity_ : float
        Largest angle, in degrees, between the spectra of two cones that explain the data equally well; 0 if all starts agree.
    noise_ : ndarray of shape (n_components,)
        Standard deviation of the noise of each output; 0 if there is none. For Poisson counts that of a typical sample.
    negativity_ : float
        Share of the output energy that is negative before outputs are clipped at 0.
    wall_ : ndarray of shape (n_components,)
        Hardness of the wall of each facet, eq. (1) of `bionica.cone.objective`; infinite if there is no noise.
    volume_ : float
        Volume of the cone: det(<y y'>)^(-1/2) for outputs y of unit mean. It does not depend on the scale of X.
    n_iter_ : int
        Iterations of the last solution.

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
    samples has grown by half, every quarter of the horizon, and after a block with a sample outside of a cone without noise; in
    between, only the scale of `components_` changes. `fit` of a Dask array is one pass of such a stream, and one more solution at
    the end: X is never gathered.

    With more than 1000 mixtures, X is first projected on its 2 n_components + 10 leading directions, in a stream on those of its
    first samples.

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

    _uncorrelated: ClassVar = False
    _saved: ClassVar[dict[str, Any]] = {"_waiting": "wk:float", "_state": Record(State, _STREAM, optional=True)}

    def _fit(self, X: npt.ArrayLike) -> None:
        rows = validated_rows(self, X, min_samples=2)
        self._reset(rows)
        stream = isinstance(rows, DaskRows) or self.horizon is not None
        sample: list[Array] = []
        for block in collected(rows, sample, self.horizon):
            self._learn(block, quiet=True) if stream else self._take(block)
        if stream:
            waiting, self._waiting = self._waiting, self._waiting[:0].copy()
            started = self._state is not None
            if len(waiting):
                self._take(waiting)
            if started:
                with one_blas_thread():
                    self._adopt(solve(self._state, self._settings(self.n_features_in_)))
        conclude(self, np.concatenate(sample), len(rows))

    def _check_start(self, X: Array) -> None:
        self._settings(X.shape[1])

    def _full_block(self, d: int) -> int:
        return first_block(d) if self._state is None else BLOCK

    def _take(self, X: Array, keep: bool = False) -> None:
        settings, n = self._settings(X.shape[1]), 0 if self._state is None else self._state.n
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            state = learn(self._state, X, settings) if n else self._begun(X, settings)
        if not np.isfinite(state.weighted.second).all():
            row = int(np.argmax(np.abs(X).max(axis=1)))
            raise DivergenceError.overflow(type(self).__name__, n + row, X[row])
        self._adopt(state)

    def _adopt(self, state: State) -> None:
        """Make a state the present one. The scale of the outputs follows its moments."""
        W, A, gains, self.volume_ = readout(state, self.normalize)
        fit, dtype = state.fit, self._waiting.dtype
        with np.errstate(over="ignore"):
            self._weights = finite(W.astype(dtype)), finite(A.astype(dtype))
        wall = fit.cone.wall
        self.noise_, self.wall_ = gains * fit.cone.noise, np.where(wall.variance > 0, wall.c, np.inf)
        self.nonnegative_mixing_, self.ambiguity_ = fit.nonnegative, fit.ambiguity
        self.negativity_, self.n_iter_ = fit.negativity, fit.cone.n_iter
        self._state = state

    def _settings(self, k: int) -> Settings:
        known, shape = np.empty((k, 0)), f"(n_features={k}, n_known)"
        if self.known_mixing is not None:
            known = given_matrix(self.known_mixing, "known_mixing", shape)
        if known.ndim != 2 or len(known) != k:
            remedy = "transpose it" if known.ndim == 2 else "reshape(-1, 1) a single spectrum"
            raise ValueError(
                f"known_mixing has shape {known.shape}; it must be {shape}"
                f"{': ' + remedy if k in known.shape else ', for the mixtures of X'}"
            )
        directions = known / np.maximum(np.linalg.norm(known, axis=0), 1e-300)
        if known.size and np.linalg.matrix_rank(directions) < known.shape[1]:
            raise ValueError("spectra of known_mixing are zero or linearly dependent: drop one of them")
        nonnegative = None if self.nonnegative_mixing == "auto" else bool(self.nonnegative_mixing)
        return Settings(float(self.outliers), float(self.horizon or np.inf), nonnegative, known)

    def _begun(self, X: Array, settings: Settings) -> State:
        """Return the state after a first block."""
        if self.noise == "poisson" and X.min() < 0:
            i, j = np.argwhere(X < 0)[0]
            raise ValueError(
                f"noise='poisson' takes X for counts, but {cell(self, i, j)} is {X[i, j]:.3g}: pass counts without subtracting a "
                "background, or use noise='estimate'"
            )
        sound, d = X[are_inliers(X)], self._given_number(X.shape[1])
        rank = rank_of(sound)
        if not rank:
            raise ValueError(f"All {len(X)} sample(s) of X are zero (rank 0): pass mixtures that are not zero.")
        if self.n_components == "auto":
            self.count_: Count = count_sources(sound)
            d = self.count_.n_sources
        d = d or rank
        if d > rank:
            raise ValueError(
                f"n_components={d} exceeds the rank of the data: {len(X)} samples of {X.shape[1]} features span {rank} "
                f"direction(s) only. Use n_components=None (keeps {rank}), a number up to {rank}, or more samples."
            )
        if (known := settings.known.shape[1]) > d:
            raise ValueError(
                f"known_mixing has {known} spectra, more than n_components={d}: give n_components a larger number"
            )
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return begin(sound, d, self.noise, settings, seed)._replace(n=len(X))

    @property
    def components_(self) -> Array:
        """W, with sources max(W x, 0), (n_components, n_features)."""
        self._started()
        return self._weights[0]

    @property
    def mixing_(self) -> Array:
        """A, (n_features, n_components); W A is the identity."""
        self._started()
        return self._weights[1]

    @property
    def _n_features_out(self) -> int:
        given = self._given_number() if self._state is None else None
        return len(self._started().fit.components) if given is None else given

    @property
    def n_samples_seen_(self) -> int:
        """Samples seen, including those that wait for their block."""
        self._check_is_fitted()
        return len(self._waiting) + (0 if self._state is None else self._state.n)

    def _check_saved(self) -> None:
        if (state := self._state) is not None:
            k, q, channels, samples = self.n_features_in_, state.fit.components.shape[1], state.channels, state.samples
            if channels.subspace.shape[1] != q * channels.projected or not (channels.projected or q == k):
                raise ValueError(f"the stream has {q} channels, and there are {k} mixtures")
            weights = state.raw.weight, state.weighted.weight, state.rate
            positive = (channels.scale, channels.rounding, channels.mean_total, *weights)
            if min(positive) < np.finfo(np.float64).tiny or not state.limit >= 0:
                raise ValueError("scales, weights, rates and limits are positive")
            if (samples.number != np.floor(np.abs(samples.number))).any():
                raise ValueError("stored samples have whole numbers")
            self._adopt(state)
        super()._check_saved()
