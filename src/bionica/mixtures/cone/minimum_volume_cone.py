"""MinimumVolumeCone: nonnegative sources that may be correlated."""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.linalg import matrix_rank, norm
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from bionica.core import samples
from bionica.core.blas import one_blas_thread
from bionica.core.blocks import Array, ArrayRows, ChunkedRows, collected, finite, shapes
from bionica.core.errors import Diverged, Message
from bionica.core.model_file import Record
from bionica.core.online import OnlineEstimator, appended, not_started
from bionica.core.parameters import (
    ARRAY,
    AUTO,
    BOOLEAN,
    COUNT,
    NONNEGATIVE,
    PARAMETERS,
    interval,
    options,
)
from bionica.core.samples import given_matrix
from bionica.core.whitening import rank_of
from bionica.mixtures.cone import sketch
from bionica.mixtures.cone.count import rough_cones
from bionica.mixtures.cone.fit import Settings
from bionica.mixtures.separator import EstimatesMissing
from bionica.mixtures.verdict.count import count_sources, undecided
from bionica.mixtures.verdict.findings import Finding
from bionica.mixtures.verdict.outliers import are_inliers

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


class MinimumVolumeCone(EstimatesMissing, OnlineEstimator):
    """Nonnegative sources that may be correlated: concentrations, abundances, spectra,
    images.

    The model is x = A s + noise with nonnegative sources that are at times near zero,
    each in samples in which the others vary. They need not be independent and may sum
    to one. Such data fill a cone; the estimator finds the smallest one, with a wall at
    each facet that is as soft as the noise (`bionica.mixtures.cone`). If the mixing
    matrix is nonnegative too, as it is for spectra, a second wall keeps it so. If
    samples follow a smooth curve (a reaction, a chromatogram), many cones between both
    walls are possible, and one in the middle is taken. The outputs max(W x, 0) are
    ordered by their share of the data.

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
    >>> S = rng.dirichlet([0.5, 0.5, 0.5], size=5000)  # sums to one: correlated by -0.5
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

    _parameter_constraints = PARAMETERS | {
        "n_components": [COUNT, AUTO, None],
        "noise": [options("estimate", "poisson"), NONNEGATIVE],
        "nonnegative_mixing": [BOOLEAN, AUTO],
        "known_mixing": [ARRAY, None],
        "outliers": [interval(Real, 0, 0.5, closed="[)")],
        "normalize": [options("variance", "mean", "sum")],
    }
    _changeable = ("horizon",)
    _private = ("_waiting", "_state", "_readout")
    #: None until the first block is full.
    _state: Any
    _readout: sketch.Readout
    _settings: Settings
    _uncorrelated = False
    _saved: ClassVar = {
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
        rows = self._completed(X)
        n, k = rows.shape
        given = None
        if known_sources is not None:
            given = _given_amounts(known_sources, rows, self.n_components)
            if self.horizon is not None:
                raise ValueError(
                    "known_sources needs all samples at once: use horizon=None"
                )
        self._begin(k, rows.dtype)
        if self.horizon is not None:
            some: list[Array] = []
            for block in collected(rows, some, self.horizon):
                self._learn(block)
            self._flush()
            with one_blas_thread():
                self._show(sketch.solve(self._state, self._settings))
            self._warn_about_fit(np.concatenate(some), n, *self._problems())
            return
        numbered = ArrayRows(rows) if isinstance(rows, np.ndarray) else rows
        sample, rate = sketch.sample_rows(numbered, sketch.capacity(k))
        self._start(numbered, sample, rate, given)
        self._warn_about_fit(sample.z, n, *self._problems())

    # --- the stream: blocks of samples, and a state that no call changes in place

    def _begin(self, k: int, dtype: Any, X: Any = None) -> None:
        self._waiting = np.empty((0, k), dtype)
        self._settings = self._settings_for(k)
        self._state = None

    def _settings_for(self, k: int) -> Settings:
        """The parameters of a fit to k mixtures."""
        if isinstance(self.n_components, Integral):
            self._number_of_outputs(k)
        nonnegative = self.nonnegative_mixing
        rng = check_random_state(self.random_state)
        return Settings(
            outliers=self.outliers,
            horizon=self.horizon or np.inf,
            nonnegative=None if nonnegative == "auto" else bool(nonnegative),
            known=self._known_spectra(k),
            n_components=self.n_components,
            noise=self.noise,
            normalize=self.normalize,
            seed=rng.randint(2**31 - 1),
        )

    def _known_spectra(self, k: int) -> Array:
        """The parameter `known_mixing`, (k, number of known spectra)."""
        if self.known_mixing is None:
            return np.empty((k, 0))
        shape = f"(n_features={k}, n_known)"
        known = given_matrix(self.known_mixing, "known_mixing", shape)
        if known.ndim != 2 or len(known) != k:
            remedy = ", for the mixtures of X"
            if k in known.shape:
                remedy = ": reshape(-1, 1) a single spectrum"
                if known.ndim == 2:
                    remedy = ": transpose it"
            template = (
                "{known_mixing} has shape {}; it must be ({n_features:={}}, n_known){}"
            )
            raise ValueError(Message(template, known.shape, k, remedy))
        directions = known / np.maximum(norm(known, axis=0), 1e-300)
        if known.size and matrix_rank(directions) < known.shape[1]:
            raise ValueError(
                Message(
                    "spectra of {known_mixing} are zero or linearly dependent: drop one"
                    " of them"
                )
            )
        return known

    def _block_length(self) -> int:
        """Samples of the block that is being filled."""
        if self._state is not None:
            return sketch.BLOCK
        k = self._waiting.shape[1]
        d: Any = self.n_components if isinstance(self.n_components, Integral) else k
        # at most 256 MB
        return min(max(2 * sketch.BLOCK, 200 * d), max(4 * d + 20, 2**25 // k))

    def _learn(self, X: Array, keep: bool = False) -> Any:
        """Learn from every block that is full; outputs are zero until the start."""
        Y = []
        while len(X):
            length = self._block_length()
            part, X = np.split(X, [length - len(self._waiting)])
            if keep:
                Y.append(self._outputs(part))
            self._waiting = appended(self._waiting, part, length)
            if len(self._waiting) == length:
                self._flush()
        return np.concatenate(Y) if keep else None

    def _flush(self) -> None:
        block = self._waiting
        self._waiting = block[:0].copy()
        if not len(block):
            return
        if self._state is None:
            rows = ArrayRows(block)
            self._start(rows, *sketch.sample_rows(rows, len(block)))
            return
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            state = sketch.learn(self._state, block, self._settings)
        self._show(_checked(state, block, self._state.n))

    def _start(
        self,
        rows: ChunkedRows,
        sample: sketch.Samples,
        rate: float,
        given: tuple[Array, Array] | None = None,
    ) -> None:
        """Learn from all rows, of which a sample was drawn with this rate; `given` are
        known amounts.
        """
        X = sample.z
        if self.noise == "poisson" and X.min() < 0:
            i, j = np.argwhere(X < 0)[0]
            raise ValueError(
                f"noise='poisson' takes X for counts, but X[{i}, {j}] is {X[i, j]:.3g}:"
                " pass counts without subtracting a background, or use"
                " noise='estimate'"
            )
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            sound = sample.take(are_inliers(X))
            rank = rank_of(sound.z, centred=False)
            d = self.n_components
            if d == "auto" and rank:
                self.count_ = count_sources(sound.z, rough_cones)
                d = self.count_.n_sources
            d = rank if d is None else d
            self._check_number(d, rank, X)
            settings = self._settings._replace(n_components=int(d), given=given)
            state = sketch.begin(rows, sound, rate, settings)
        self._show(_checked(state, X, 0))

    def _check_number(self, d: Any, rank: int, X: Array) -> None:
        """Raise ValueError unless d sources can be found in X."""
        n, k = X.shape
        if not rank:
            raise ValueError(
                f"All {n} sample(s) of X are zero (rank 0): pass mixtures that are not"
                " zero."
            )
        if d > rank:
            raise ValueError(
                Message(
                    "{n_components:={}} exceeds the rank of the data: {} samples of {}"
                    " features span {} direction(s) only. Use {n_components:=None}"
                    " (keeps {}), a number up to {}, or more samples.",
                    d,
                    n,
                    k,
                    rank,
                    rank,
                    rank,
                )
            )
        known = self._settings.known.shape[1]
        if known > d:
            raise ValueError(
                Message(
                    "{known_mixing} has {} spectra, more than {n_components:={}}: give"
                    " {n_components} a larger number",
                    known,
                    d,
                )
            )

    def _show(self, state: sketch.State) -> None:
        """Make a state the present one; its moments give the scale of outputs."""
        readout = sketch.readout(state, self._settings)
        dtype = self._waiting.dtype
        with np.errstate(over="ignore"):
            W = finite(readout.components.astype(dtype))
            A = finite(readout.mixing.astype(dtype))
        self._state = state
        self._readout = readout._replace(components=W, mixing=A)

    def _check_config(self) -> bool:
        changed = super()._check_config()
        if changed:
            self._settings = self._settings_for(self.n_features_in_)
            if self._state is not None:
                self._show(self._state)
        return changed

    def _problems(self) -> list[Finding]:
        return undecided(self.count_) if hasattr(self, "count_") else []

    def _restore(self, values: dict[str, Any]) -> None:
        waiting = values["_waiting"]
        state = values["_state"]
        self._begin(waiting.shape[1], waiting.dtype)
        if state is not None:
            _check_state(state, self.n_features_in_)
            self._show(state)
        self._waiting = waiting
        least = 1 if state is None else 0
        if not least <= len(waiting) < self._block_length():
            raise ValueError(
                f"{len(waiting)} samples wait for a block of {self._block_length()}"
            )
        if state is not None:
            super()._restore({})

    # --- what was learned

    def _started(self) -> sketch.State:
        """The state; NotFittedError if there is none yet."""
        self._check_fitted()
        if self._state is None:
            raise not_started(self.n_samples_until_start_)
        return self._state

    def _outputs(self, X: Array) -> Array:
        if self._state is None:
            return np.zeros((len(X), self._n_features_out), X.dtype)
        return super()._outputs(X)

    @property
    def _n_features_out(self) -> int:
        if self._state is None and isinstance(self._config["n_components"], Integral):
            return int(self._config["n_components"])
        return len(self._started().fit.components)

    @property
    def n_samples_seen_(self) -> int:
        """Samples seen, including those that wait for their block."""
        self._check_fitted()
        return len(self._waiting) + (0 if self._state is None else self._state.n)

    @property
    def n_samples_until_start_(self) -> int:
        """Samples that are missing until the model starts; outputs are zero before."""
        self._check_fitted()
        if self._state is not None:
            return 0
        return self._block_length() - len(self._waiting)

    @property
    def components_(self) -> Array:
        """W, with sources max(W x, 0)."""
        self._started()
        return self._readout.components

    @property
    def mixing_(self) -> Array:
        """A; W A is the identity."""
        self._started()
        return self._readout.mixing

    @property
    def noise_(self) -> Array:
        """Standard deviation of the noise of each output."""
        self._started()
        return self._readout.noise

    @property
    def nonnegative_mixing_(self) -> bool:
        """Whether A was kept nonnegative."""
        return self._started().fit.nonnegative

    @property
    def ambiguity_(self) -> float:
        """Largest angle between equally good cones."""
        return self._started().fit.ambiguity

    @property
    def negativity_(self) -> float:
        """Share of the output energy that is negative."""
        return self._started().fit.negativity

    @property
    def n_iter_(self) -> int:
        """Iterations of the last solution."""
        return self._started().fit.cone.n_iter


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


def _checked(state: sketch.State, X: Array, n: int) -> sketch.State:
    """A state after the samples X, before which there were n, if nothing overflowed."""
    if not np.isfinite(state.weighted.scatter).all():
        row = np.abs(X).max(axis=1).argmax()
        raise Diverged(n + row, X[row])
    return state


def _check_state(state: sketch.State, k: int) -> None:
    """Raise ValueError if numbers of a model file contradict each other."""
    channels = state.channels
    q = state.fit.components.shape[1]
    fits = channels.projected or q == k
    if channels.subspace.shape[1] != q * channels.projected or not fits:
        raise ValueError(f"the stream has {q} channels, and there are {k} mixtures")
    positive = (
        state.n,
        state.raw.n,
        state.weighted.n,
        channels.scale,
        channels.rounding,
        channels.mean_total,
        state.rate,
    )
    if min(positive) < np.finfo(np.float64).tiny or not state.limit >= 0:
        raise ValueError("scales, weights, rates and limits are positive")
    number = state.samples.number
    if (number != np.floor(np.abs(number))).any():
        raise ValueError("stored samples have whole numbers")
