"""The orthant rotation behind scikit-learn's interface: nonnegative ICA of a stream, without tuning."""

from typing import Annotated, Any

import numpy as np

from .._compat.sklearn import WINDOW
from ..kernels import orthant_rotation
from ..kernels.guards import Guards
from ..kernels.settling import Exact
from .network import OnlineNICA, orthonormal_rows


class StreamingNICA(OnlineNICA):
    """Nonnegative ICA of a stream, one sample at a time, without a learning rate.

    Each sample updates the whitening of the mixtures, and turns it in the plane of its positive and negative outputs until the
    outputs are nonnegative (`bionica.kernels.orthant_rotation`). One pass ends where `BatchNICA` ends. There is nothing to tune.
    Outputs exist from the second sample on (the first sets the scale). They have unit variance; their order is arbitrary. An
    outlier has almost no weight (`bionica.kernels.running_whitening`), and a sensor that repeats a sample for long has no effect.

    Parameters
    ----------
    {parameters}
    horizon : int, default=None
        For mixtures that change: about this many samples are remembered, 1,000 + 100 n_components or more, and many times the
        longest silence of a source. It follows a drift that is slow beside the horizon, and starts again after an abrupt change
        (counted in `repairs_`). None: all samples weigh the same, and a change is only reported.

    Attributes
    ----------
    {attributes}

    See Also
    --------
    BatchNICA : the same solution from all samples at once.
    TwoCompartmentNICA, InterneuronNICA : the paper's networks, which are models of neurons.

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

    horizon: Annotated[int | None, WINDOW, None] = None

    def _initial_state(self, k: int, d: int, dtype: Any, rng: np.random.RandomState, X: Any) -> Any:
        F = orthonormal_rows(rng, d, k, dtype) if k > d else np.eye(d, dtype=dtype)
        return orthant_rotation.init(F, orthonormal_rows(rng, d, d, np.float64), rng)

    def _rule_params(self, state: Any, dtype: Any) -> Any:
        eps = float(np.finfo(dtype).eps)
        projects = len(state.F) < state.F.shape[1]
        return orthant_rotation.Params(Exact(eps), Guards(restart=True), int(self.horizon or 0), eps, projects)

    def _readout(self, state: Any) -> Any:
        return orthant_rotation.averaged(state)
