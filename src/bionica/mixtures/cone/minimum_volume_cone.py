"""MinimumVolumeCone: nonnegative sources that may be correlated."""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from bionica.core import samples
from bionica.core.blas import one_blas_thread
from bionica.core.blocks import ArrayRows, ChunkedRows, collected
from bionica.core.estimator import (
    PARAMETERS,
    OnlineEstimator,
    counted,
    estimates_missing,
)
from bionica.core.model_file import Record
from bionica.core.parameters import (
    ARRAY,
    AUTO,
    BOOLEAN,
    COUNT,
    NONNEGATIVE,
    interval,
    options,
)
from bionica.core.samples import finite_map, given_matrix
from bionica.core.whitening import rank_of
from bionica.engine.learner import Buffered
from bionica.engine.loop import Diverged
from bionica.engine.rule import finite, shapes
from bionica.mixtures.cone import sketch
from bionica.mixtures.cone.count import rough_cones
from bionica.mixtures.cone.fit import Settings
from bionica.mixtures.verdict.count import Count, count_sources
from bionica.mixtures.verdict.outliers import are_inliers

Array = NDArray[Any]

#: The arrays of the state of a stream: q channels, m stored samples, s directions of a
#: subspace.
_STREAM = shapes(
    q="channels.noise raw.mean weighted.mean fit.coordinates.channel_noise",
    ks="channels.subspace",
    qq="raw.scatter weighted.scatter",
    dq="fit.components fit.coordinates.matrix",
    qd="fit.mixing fit.coordinates.inverse",
    dd="fit.cone.V",
    d="fit.cone.wall.c fit.cone.wall.variance fit.cone.wall.e fit.cone.wall.m",
    mq="samples.z",
    m="samples.number",
)
# without outliers there is no limit
_STREAM |= {"limit": ":float64~", "samples.extreme": "m:bool"}


class MinimumVolumeCone(OnlineEstimator):
    """Nonnegative sources that may be correlated: concentrations, abundances, spectra,
    images.

    The model is x = A s + noise with nonnegative sources that are at times near zero,
    each in samples in which the others vary. They need not be independent and may sum
    to one. Such data fill a cone; the estimator finds the smallest one, with a wall at
    each facet that is as soft as the noise (`bionica.mixtures.cone`). If the mixing matrix is
    nonnegative too, as it is for spectra, a second wall keeps it so. If samples follow
    a smooth curve (a reaction, a chromatogram), many cones between both walls are
    possible, and one in the middle is taken. The outputs max(W x, 0) are ordered by
    their share of the data.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Number of sources d. None: the rank of X. "auto": as many as two halves of the
        samples agree on (`count_`), in a stream of its first samples.
    noise : "estimate", "poisson" or float, default="estimate"
        The noise of the mixtures. "estimate" finds it from the directions left out, if
        there are more mixtures than sources, and from the tails of the outputs, if
        these show more. "poisson" means that X holds counts. A number is the standard
        deviation of the noise of all mixtures, 0 if there is none.
    nonnegative_mixing : bool or "auto", default="auto"
        Whether the mixing matrix has no negative entries. "auto": if X has none but for
        what noise explains.
    known_mixing : array-like of shape (n_features, n_known), default=None
        Columns of the mixing matrix that are known: the spectrum of a solvent, a
        background, a standard. Their sources come first, in the units of these spectra
        unless `normalize` is "sum". (The file that ``--mixing`` writes has a row for
        each: transpose it.)
    outliers : float, default=0.0
        Share of the samples that may lie outside the cone, below 0.5, and are left out.
        Single samples far beyond the tail of all others always are.
    normalize : {"variance", "mean", "sum"}, default="variance"
        Scale of the outputs: unit variance, unit mean, or one factor for each output,
        so that they sum to one as nearly as possible (least squares over all samples).
        In each sample they do so only if the sources do, as abundances.
    horizon : int, default=None
        For mixtures that change: about this many samples are remembered, 1000 or more,
        best about as many as the mixtures change in by 1 % (a longer one lags behind).
        `fit` then processes X as a stream. None: all samples weigh the same.
    random_state : int, RandomState instance or None, default=None
        Seed of all that is random. A saved model keeps it if it is an int.

    Attributes
    ----------
    components_, mixing_, spectra_ : ndarray
        The unmixing matrix W, (n_components, n_features), with sources max(W x, 0); the
        estimated A, with W A = I; and its transpose, a spectrum in each row.
    n_components_, n_features_in_, n_samples_seen_, feature_names_in_ : int, int, int,
    ndarray
        Outputs, mixtures per sample, samples seen (waiting ones too); names of the
        mixtures, if X had string column names.
    count_ : Count
        With n_components="auto": `n_sources`, other `candidates`, and the angle between
        halves for each number that was tried.
    nonnegative_mixing_ : bool
        Whether the mixing matrix was kept nonnegative.
    ambiguity_ : float
        Largest angle, in degrees, between the spectra of two cones that explain the
        data equally well; 0 if all starts agree.
    noise_ : ndarray of shape (n_components,)
        Standard deviation of the noise of each output; 0 if there is none. For Poisson
        counts that of a typical sample.
    negativity_ : float
        Share of the output energy that is negative before outputs are clipped at 0.
    n_iter_ : int
        Iterations of the last solution.

    See Also
    --------
    BatchNICA : for uncorrelated sources; needs no sample on the facets.
    StreamingNICA : the same for a stream.

    Notes
    -----
    A result that is probably wrong is reported by a ConvergenceWarning. If mixtures may
    be negative and the noise of an output exceeds its mean, the facets cannot be seen,
    and the outputs are those of nonnegative ICA.

    `fit` of more than 40,000 samples solves the cone on a random sample of 20,000
    (fewer of many mixtures, 32 MB). Then all samples decide: their moments, those near
    the facets (at most 32 MB of them), and without noise every sample outside of the
    cone. X is read block by block, three times with noise and a few times more without;
    of a Dask array only these samples and sums reach the client.

    A stream (`partial_fit`, `learn_one`) starts after max(2000, 200 n_components)
    samples. It holds the moments of the mixtures and as many samples as `fit`. The cone
    is solved again each time the number of samples has grown by half, every quarter of
    the horizon, and after a block with a sample outside of a cone without noise; in
    between, only the scale of `components_` changes.

    Missing values (NaN, or masked) of X in memory are estimated by `fit`
    (`bionica.mixtures.missing`); `transform` uses the mixtures that are there. Streams
    refuse them.

    With more than 1000 mixtures, X is first projected on its 2 n_components + 10
    leading directions, in a stream on those of its first samples.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PARAMETERS,
        "n_components": [COUNT, AUTO, None],
        "noise": [options("estimate", "poisson"), NONNEGATIVE],
        "nonnegative_mixing": [BOOLEAN, AUTO],
        "known_mixing": [ARRAY, None],
        "outliers": [interval(Real, 0, 0.5, closed="[)")],
        "normalize": [options("variance", "mean", "sum")],
    }
    _changeable: ClassVar = ("horizon",)
    _repeats: ClassVar = False
    _takes_missing = estimates_missing
    _uncorrelated: ClassVar = False
    _saved: ClassVar[dict[str, Any]] = {
        "_waiting": "wk:float",
        "_state": Record(sketch.State, _STREAM, optional=True),
    }

    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        noise: str | float = "estimate",
        nonnegative_mixing: bool | str = "auto",
        known_mixing: Any = None,
        outliers: float = 0.0,
        normalize: str = "variance",
        horizon: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.noise = noise
        self.nonnegative_mixing = nonnegative_mixing
        self.known_mixing = known_mixing
        self.outliers = outliers
        self.normalize = normalize
        self.horizon = horizon
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: None = None, *, known_sources: ArrayLike | None = None
    ) -> Self:
        """Start from scratch and learn from X.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Mixtures, mean included. Not changed. A Dask array is read block by block.
            An array of more axes, for example a cube (y, x, band), has a sample in each
            pixel.
        y : None
            Ignored.
        known_sources : array-like of shape (n_samples, n_components), default=None
            Amounts of sources in samples of X that are known, 0 where a source is
            absent, NaN where nothing is known. Outputs come in the order of its
            columns, after those of `known_mixing`. Amounts of a source may have any
            unit; the scale of its output does not depend on them. They are obeyed as
            nearly as the noise permits, by this fit: not by the halves of `diagnose`,
            nor by a stream that continues.
        """
        return self._start_again(X, known_sources)

    def _fit(self, X: Any, known_sources: Any = None) -> None:
        rows = samples.rows(
            self, X, reset=True, min_samples=2, missing=self._takes_missing
        )
        rows = samples.completed_rows(self, rows, self.n_components)
        n, k = rows.shape
        given = None
        if known_sources is not None:
            given = _given_amounts(known_sources, rows, self.n_components)
            if self.horizon is not None:
                raise ValueError(
                    "known_sources needs all samples at once: use horizon=None"
                )
        learner = self._learner = self._learner_for(k, rows.dtype)
        if self.horizon is not None:
            found: list[Array] = []
            for block in collected(rows, found, self.horizon):
                learner.learn(block)
            learner.flush()
            learner.learner.solve()
            self._warn_about_fit(np.concatenate(found), n, *self._problems())
            return
        numbered = ArrayRows(rows) if isinstance(rows, np.ndarray) else rows
        sample, rate = sketch.sample_rows(numbered, sketch.capacity(k))
        learner.learner = learner.start(sample.z, (numbered, sample, rate), given)
        self._warn_about_fit(sample.z, n, *self._problems())

    def _learner_for(
        self, k: int, dtype: Any, X: Any = None, state: Any = None
    ) -> Buffered:
        known = np.empty((k, 0))
        shape = f"(n_features={k}, n_known)"
        if self.known_mixing is not None:
            known = given_matrix(self.known_mixing, "known_mixing", shape)
        if known.ndim != 2 or len(known) != k:
            remedy = (
                "transpose it"
                if known.ndim == 2
                else "reshape(-1, 1) a single spectrum"
            )
            raise ValueError(
                f"known_mixing has shape {known.shape}; it must be {shape}"
                f"{': ' + remedy if k in known.shape else ', for the mixtures of X'}"
            )
        directions = known / np.maximum(np.linalg.norm(known, axis=0), 1e-300)
        if known.size and np.linalg.matrix_rank(directions) < known.shape[1]:
            raise ValueError(
                "spectra of known_mixing are zero or linearly dependent: drop one of"
                " them"
            )
        nonnegative = (
            None if self.nonnegative_mixing == "auto" else bool(self.nonnegative_mixing)
        )
        d = (
            self._number_of_outputs(k)
            if isinstance(self.n_components, Integral)
            else None
        )
        seed = int(
            check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        )
        limits = float(self.outliers), float(self.horizon or np.inf)
        settings = Settings(
            *limits,
            nonnegative,
            known,
            self.n_components,
            self.noise,
            self.normalize,
            seed,
        )
        # at most 256 MB
        length = min(
            max(2 * sketch.BLOCK, 200 * (d or k)), max(4 * (d or k) + 20, 2**25 // k)
        )
        learner = Buffered(
            k, dtype, length, partial(_ConeLearner.begin, settings, np.dtype(dtype)), d
        )
        if state is not None:
            learner.learner = _ConeLearner(state, settings, np.dtype(dtype))
        return learner

    def _restore(self, values: dict[str, Any]) -> None:
        state = values["_state"]
        if state is not None:
            k = self.n_features_in_
            q = state.fit.components.shape[1]
            channels = state.channels
            stored = state.samples
            if channels.subspace.shape[1] != q * channels.projected or not (
                channels.projected or q == k
            ):
                raise ValueError(
                    f"the stream has {q} channels, and there are {k} mixtures"
                )
            weights = (state.raw.n, state.weighted.n)
            positive = (
                state.n,
                channels.scale,
                channels.rounding,
                channels.mean_total,
                state.rate,
                *weights,
            )
            if min(positive) < np.finfo(np.float64).tiny or not state.limit >= 0:
                raise ValueError("scales, weights, rates and limits are positive")
            if (stored.number != np.floor(np.abs(stored.number))).any():
                raise ValueError("stored samples have whole numbers")
        super()._restore(values)

    @property
    def _readout(self) -> sketch.Readout:
        self._started()
        readout: sketch.Readout = self._learner.readout
        return readout

    components_ = property(
        lambda self: self._readout.components, doc="W, with sources max(W x, 0)."
    )
    mixing_ = property(lambda self: self._readout.mixing, doc="A; W A is the identity.")
    noise_ = property(
        lambda self: self._readout.noise,
        doc="Standard deviation of the noise of each output.",
    )
    nonnegative_mixing_ = property(
        lambda self: self._started().fit.nonnegative,
        doc="Whether A was kept nonnegative.",
    )
    ambiguity_ = property(
        lambda self: self._started().fit.ambiguity,
        doc="Largest angle between equally good cones.",
    )
    negativity_ = property(
        lambda self: self._started().fit.negativity,
        doc="Share of the output energy that is negative.",
    )
    n_iter_ = property(
        lambda self: self._started().fit.cone.n_iter,
        doc="Iterations of the last solution.",
    )

    count_ = counted


def _given_amounts(
    known_sources: Any, rows: Any, n_components: Any
) -> tuple[Array, Array]:
    """The rows with a known amount, and these amounts."""
    amounts = samples.matrix(
        known_sources, "known_sources", "MinimumVolumeCone", np.float64, missing=True
    )
    shape = (rows.shape[0], n_components)
    if not isinstance(n_components, Integral) or amounts.shape != shape:
        raise ValueError(
            f"known_sources has shape {amounts.shape}; it must be (n_samples,"
            f" n_components) = {shape}, for the samples of X (without those that are"
            " left out) and a number of sources that is told"
        )
    if (amounts < 0).any():
        raise ValueError(
            "known_sources must be 0 or more; NaN where an amount is unknown"
        )
    there = np.flatnonzero(~np.isnan(amounts).all(axis=1))
    return rows[there], amounts[there]


class _ConeLearner:
    """The state of a stream, which learns from blocks of samples."""

    block = sketch.BLOCK

    def __init__(
        self,
        state: sketch.State,
        settings: Settings,
        dtype: np.dtype[Any],
        count: Count | None = None,
    ) -> None:
        self.settings = settings
        self.dtype = dtype
        self.count = count
        self.restore(state)

    @classmethod
    def begin(
        cls,
        settings: Settings,
        dtype: np.dtype[Any],
        X: Array,
        given: tuple[ChunkedRows, sketch.Samples, float] | None = None,
        amounts: tuple[Array, Array] | None = None,
    ) -> _ConeLearner:
        """The learner that has learned from a first block X; or from all rows, of which
        X are a sample with this rate.

        `amounts` are those of `Settings.given`.
        """
        known = settings.known.shape[1]
        d = settings.n_components
        count = None
        if settings.noise == "poisson" and X.min() < 0:
            i, j = map(int, np.argwhere(X < 0)[0])
            raise ValueError(
                f"noise='poisson' takes X for counts, but X[{i}, {j}] is {X[i, j]:.3g}:"
                " pass counts without subtracting a background, or use"
                " noise='estimate'"
            )
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            rows, sample, rate = given or (
                ArrayRows(X),
                *sketch.sample_rows(ArrayRows(X), len(X)),
            )
            sample = sample.take(are_inliers(X))
            sound = sample.z
            rank = rank_of(sound, centred=False)
            if not rank:
                raise ValueError(
                    f"All {len(X)} sample(s) of X are zero (rank 0): pass mixtures that"
                    " are not zero."
                )
            if d == "auto":
                count = count_sources(sound, rough_cones)
                d = count.n_sources
            d = rank if d is None else int(d)
            if d > rank:
                raise ValueError(
                    f"n_components={d} exceeds the rank of the data: {len(X)} samples"
                    f" of {X.shape[1]} features span {rank} direction(s) only. Use"
                    f" n_components=None (keeps {rank}), a number up to {rank}, or more"
                    " samples."
                )
            if known > d:
                raise ValueError(
                    f"known_mixing has {known} spectra, more than n_components={d}:"
                    " give n_components a larger number"
                )
            state = sketch.begin(
                rows, sample, rate, settings._replace(n_components=d, given=amounts)
            )
        return cls(_checked(state, X, 0), settings, dtype, count)

    n_outputs = property(lambda self: len(self.state.fit.components))
    n_samples_seen = property(lambda self: self.state.n)

    def backup(self) -> sketch.State:
        """The state, which no call changes in place."""
        return self.state

    def learn(self, X: Array) -> None:
        """Learn from a block."""
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            self.restore(
                _checked(sketch.learn(self.state, X, self.settings), X, self.state.n)
            )

    def solve(self) -> None:
        """Solve the cone once more on the stored samples."""
        with one_blas_thread():
            self.restore(sketch.solve(self.state, self.settings))

    def outputs(self, X: Array) -> Array:
        """max(W x, 0)."""
        Y = finite_map(X, self.readout.components)
        return np.maximum(Y, 0, out=Y)

    def restore(self, state: sketch.State) -> None:
        """Make a state the present one. The scale of the outputs follows its moments."""
        found = sketch.readout(state, self.settings)
        with np.errstate(over="ignore"):
            W = finite(found.components.astype(self.dtype))
            A = finite(found.mixing.astype(self.dtype))
        self.state, self.readout = state, found._replace(components=W, mixing=A)


def _checked(state: sketch.State, X: Array, n: int) -> sketch.State:
    """A state after the samples X, before which there were n, if nothing overflowed."""
    if not np.isfinite(state.weighted.scatter).all():
        row = int(np.argmax(np.abs(X).max(axis=1)))
        raise Diverged(n + row, X[row])
    return state
