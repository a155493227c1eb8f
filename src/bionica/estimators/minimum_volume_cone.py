"""The minimum-volume cone behind scikit-learn's interface: nonnegative sources that may be correlated."""

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from .._compat.sklearn import Interval, StrOptions
from ..networks.rule import finite
from ._base import rectified, set_parameters
from ._cone_record import STATE
from ._cone_stream import ConeStream
from ._dask import DaskRows, map_rows, validated_rows
from ._findings import RowCollector
from ._online import tracked

Array = npt.NDArray[Any]


class MinimumVolumeCone(ConeStream):
    """Nonnegative sources that may be correlated: concentrations, abundances, spectra, images.

    The model is x = A s + noise with nonnegative sources that are at times near zero, each in samples in which the others vary.
    They need not be independent and may sum to one. Such data fill a cone, and some of them lie on each of its facets. The
    estimator finds the smallest cone that holds the data, with a wall at each facet that is as soft as the noise
    (`bionica.offline.cone`). The outputs max(W x, 0) are nonnegative and are ordered by their share of the data.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Number of sources. "auto" takes as many as two halves of the samples agree on, at most 12
        (`bionica.offline.source_count`; see `count_`). None takes the rank of the data, mean included.
    noise : "estimate", "poisson" or float, default="estimate"
        The noise of the mixtures. "estimate" finds the noise of each mixture from the directions left out, if there are more
        mixtures than sources, and otherwise from the tails of the outputs; `fit` uses both if few directions are left out.
        "poisson" means that X holds counts. A number is the standard deviation of the noise of all mixtures.
    outliers : float, default=0.0
        Share of the samples that may lie outside the cone, below 0.5. They are left out of the fit.
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
    noise_ : ndarray of shape (n_components,)
        Standard deviation of the noise of each output; 0 if there is none. For Poisson counts that of a typical sample.
    negativity_ : float
        Share of the output energy that is negative before outputs are clipped at 0.
    wall_ : ndarray of shape (n_components,)
        Hardness of the wall of each facet, eq. (1) of `bionica.offline.cone`; infinite if there is no noise.
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
    A result that is probably wrong is reported by a ConvergenceWarning. The facets cannot be seen if the noise of an output exceeds
    half its mean (its mean, if the noise is known; 0.3 of it, if the noise is not known and the sources are uncorrelated), or
    if samples lie at a facet only where all sources are silent. Then the outputs are those of nonnegative ICA.

    A stream (`partial_fit`, `learn_one`) starts after max(2000, 200 n_components) samples. It holds the moments of the mixtures
    and at most 4500 samples for each source (30,000, if these are more). The cone is solved again each time the number of
    samples has grown by half (without noise: by a tenth, if a sample lies outside), and every quarter of the horizon; in
    between, `components_` changes in scale only, which follows the variance of the outputs. `fit` of a Dask array is one pass
    of such a stream, block by block, and one more solution at the end: X is never gathered. If there are as many mixtures as
    sources, noise lower than 50 dB is uncertain: a stream that misses it may end some dB below `fit`.

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
    >>> Y = cone.transform(X)
    >>> np.abs(np.corrcoef(S.T, Y.T)[:3, 3:]).max(axis=1).round(2)
    array([1., 1., 1.])
    >>> bool(abs(Y.sum(axis=1).mean() - 1) < 0.01)
    True
    """

    online_, local_, nonnegative_ = True, False, True
    _uncorrelated: ClassVar = False

    _preserved_dtypes: ClassVar = ("float64", "float32")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "noise": [StrOptions({"estimate", "poisson"}), Interval(Real, 0, None, closed="neither")],
        "outliers": [Interval(Real, 0, 0.5, closed="left")],
        "normalize": [StrOptions({"variance", "mean", "sum"})],
        "horizon": [Interval(Integral, 2, None, closed="left"), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _saved: ClassVar[dict[str, Any]] = {
        "_waiting": "wk",
        "_stream": STATE,
        "_start_seed": int,
        "_dtype": np.dtype,
        "n_samples_seen_": int,
    }

    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        noise: str | float = "estimate",
        outliers: float = 0.0,
        normalize: str = "variance",
        horizon: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        set_parameters(self, locals())

    def _check_saved(self) -> None:
        k, waiting, state = self.n_features_in_, self._waiting, self._stream
        d, q = (self._given_number() or 1, k) if state is None else (len(state.fit.components), len(state.raw.mean))
        self._check_number_saved(d)
        if state is not None and state.channels.subspace is None and q != k:
            raise ValueError(f"the stream has {q} channels, and there are {k} mixtures")
        least = self._block_length(k)
        if not (state is None) <= len(waiting) < least or waiting.dtype != self._dtype:
            raise ValueError(f"{len(waiting)} samples of {waiting.dtype} wait for a block of {least} of {self._dtype}")

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
            self._end()
        else:
            (rows,) = blocks
            self._prepare(rows)
            self._waiting = rows[:0].copy()
            self.n_samples_seen_ = len(rows)
            self._adopt(self._begun(rows))
        self._conclude(collector.rows, collector.n)

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

    def _transform(self, X: npt.ArrayLike) -> Any:
        W = self._readout().components
        return map_rows(partial(rectified, W=W), X, len(W), self)
