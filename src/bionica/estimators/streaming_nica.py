"""The orthant rotation behind scikit-learn's interface: nonnegative ICA of a stream, without tuning."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..networks import orthant_rotation
from ..networks import rule as states
from ..networks.rule import rule_of
from ..networks.settling import Exact
from ._input import Array
from .network import OnlineNICA, guard_seed, orthonormal_rows


@dataclass(eq=False, repr=False, kw_only=True)
class StreamingNICA(OnlineNICA):
    """Nonnegative ICA of a stream, one sample at a time, without a learning rate.

    Each sample updates the whitening of the mixtures, and turns it in the plane of its positive and negative outputs until the
    outputs are nonnegative (`bionica.networks.orthant_rotation`). One pass ends where `BatchNICA`, which needs all samples in
    memory, ends. There is nothing to tune. It is not a model of neurons: for those see `TwoCompartmentNICA`.

    Outputs exist from the second sample on (the first sets the scale). They have unit variance; their order is arbitrary.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Number of sources; the number of mixtures if None. "auto" counts them in the first samples (`count_` has the
        evidence). Until it is known (`n_samples_until_start_`) nothing is learned, `transform` reads out with random
        weights, and `partial_fit_transform` asks for these first samples in one call.
    horizon : int, default=None
        For mixtures that change: about this many samples are remembered, 1,000 + 100 n_components or more, and many times the
        longest silence of a source. It follows a drift that is slow beside the horizon, and
        starts again after an abrupt change (counted in `repairs_`). None: all samples weigh the same, and a change is only
        reported.
    n_epochs : int, default=1
        How often `fit` presents the data.
    shuffle : bool, default=False
        Whether `fit` presents the data in random order, another in each epoch.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial rotation and of the order. A saved model keeps it if it is an int.
    verbose : int, default=0
        Whether long work shows a progress bar on standard error.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The unmixing matrix: `transform` returns max(components_ @ x, 0).
    mixing_ : ndarray of shape (n_features, n_components)
        Its pseudoinverse: the estimated mixing matrix.
    change_detected_ : bool
        Without a horizon: whether the mixing changed while it learned. Said in a warning and by `diagnose` too.
    repairs_ : dict of str to int
        "restart": how often it started again after an abrupt change.
    count_ : Count
        With n_components="auto": the evidence for the number of sources.
    n_components_ : int
        Number of sources.
    n_samples_seen_ : int
        Samples learned from.
    n_features_in_ : int
        Mixtures per sample.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the mixtures, if X had string column names.
    online_, local_, nonnegative_ : bool
        Which of the paper's three requirements it meets: it is online and nonnegative, not local.

    See Also
    --------
    BatchNICA : the same solution from all samples at once.
    TwoCompartmentNICA, InterneuronNICA : the paper's networks.

    Notes
    -----
    An outlier has almost no weight: see `bionica.networks.running_whitening`. A sensor that repeats the same sample for long
    changes nothing.

    Examples
    --------
    >>> from bionica import StreamingNICA
    >>> from bionica.datasets import mix, sparse_uniform
    >>> from bionica.metrics import permutation_error
    >>> S = sparse_uniform(20_000, 3, rng=0)
    >>> X, A = mix(S, n_mixtures=5, rng=0)
    >>> stream = StreamingNICA(3, random_state=0)
    >>> for block in X.reshape(20, 1000, 5):
    ...     Y = stream.partial_fit_transform(block)
    >>> bool(permutation_error(S[-1000:], Y) < 1e-3)
    True
    """

    horizon: int | None = None

    online_, local_, nonnegative_ = True, False, True

    def _initial_state(self, k: int, d: int, dtype: Any, rng: np.random.RandomState, X: Any) -> Any:
        if k == d:
            return orthant_rotation.init(orthonormal_rows(rng, d, d, np.float64), dtype, guard_seed(rng))
        F = orthonormal_rows(rng, d, k, dtype)
        return orthant_rotation.init_projected(F, orthonormal_rows(rng, d, d, np.float64), guard_seed(rng))

    def _rule_params(self, state: Any, dtype: Any) -> Any:
        eps = float(np.finfo(dtype).eps)
        return orthant_rotation.Params(Exact(eps), self._guard_flags(), int(self.horizon or 0), eps)

    def _rates(self, state: Any, n: int) -> Array:
        return np.zeros((n, 1))  # the rule has none

    def _check_saved(self) -> None:
        super()._check_saved()
        if "_state" not in vars(self):
            return
        d, k = self._state.fired.size, self.n_features_in_
        if isinstance(self._state, orthant_rotation.State) != (d == k):
            raise ValueError(f"{d} outputs of {k} mixtures do not belong to the rule {rule_of(self._state).name!r}")

    def _readout(self, state: Any) -> Any:
        return orthant_rotation.averaged(state)

    def _unmixing(self, state: Any) -> Array:
        return super()._unmixing(state).astype(states.precision(state))
