"""Ways to count sources. Each takes the mixtures (T, k), and counts the directions of their covariance."""

import numpy as np

from bionica.estimators.network import spectrum
from bionica import MinimumVolumeCone


def bionica_covariance(X, rng=None):
    """What BatchNICA and the networks count."""
    return spectrum(X).n_sources


def bionica_second_moment(X, rng=None):
    """What MinimumVolumeCone counts."""
    return MinimumVolumeCone("auto", random_state=0).fit(X).n_components_


def description_length(X, rng=None):
    """Minimum description length for white noise (Wax and Kailath 1985), as earlier versions, less their rule for rounding."""
    return _description_length(_eigenvalues(X), len(X))


def of_square_roots(X, rng=None):
    """The same for square roots, which make the variance of counts equal, but the mixtures nonlinear."""
    return description_length(np.sqrt(np.maximum(X, 0)))


def noise_whitened(X, rng=None):
    """The same after dividing each channel by its noise, from its regression on all other channels."""
    return description_length(X / np.sqrt(_regression_noise(X)))


def largest_gap(X, rng=None):
    """The largest ratio of two eigenvalues."""
    values = _eigenvalues(X)
    return int(np.argmax(values[:-1] / values[1:])) + 1 if len(values) > 1 else 1


def hard_threshold(X, rng=None):
    """Singular values above the optimal threshold for white noise of unknown size (Gavish and Donoho 2014)."""
    singular = np.sqrt(_eigenvalues(X, keep_all=True))
    beta = min(X.shape) / max(X.shape)
    return int(np.sum(singular > (0.56 * beta**3 - 0.95 * beta**2 + 1.82 * beta + 1.43) * np.median(singular)))


def parallel_analysis(X, rng, rounds=5):
    """Leading eigenvalues of the correlation matrix above those of mixtures with permuted columns (Horn 1965)."""
    x = X - X.mean(axis=0)
    size = x.std(axis=0)
    x = x[:, size > 0] / size[size > 0]
    noise = np.max([_eigenvalues(rng.permuted(x, axis=0), keep_all=True) for _ in range(rounds)], axis=0)
    below = _eigenvalues(x, keep_all=True) <= noise
    return int(np.argmax(below)) if below.any() else len(below)


def hysime(X, rng=None):
    """Directions of the signal with more signal than noise, both from regression (Bioucas-Dias and Nascimento 2008)."""
    x = X - X.mean(axis=0)
    D = _regression_noise(X)
    C = x.T @ x / len(x)
    E = np.linalg.eigh(C - np.diag(D))[1]
    return int(np.sum(np.einsum("ij,ik,kj->j", E, C, E) > 2 * np.einsum("ij,i,ij->j", E, D, E)))


def _regression_noise(X):
    """Residual variance of every channel, regressed on all others."""
    x = X - X.mean(axis=0)
    n, k = x.shape
    C = x.T @ x / n
    scale = np.trace(C) / k
    ridge = (1e-10 if n > 2 * k else 1e-3) * scale
    return np.maximum(1 / np.diag(np.linalg.inv(C + ridge * np.eye(k))), 1e-12 * scale) * n / max(n - k, 0.1 * n)


def _eigenvalues(X, keep_all=False):
    x = X - X.mean(axis=0)
    gram = x @ x.T if x.shape[0] < x.shape[1] else x.T @ x
    values = np.maximum(np.linalg.eigvalsh(gram / len(x))[::-1], 0)
    return values if keep_all else values[values > 4 * len(values) * np.finfo(X.dtype).eps * values[0]]


def _description_length(values, n):
    r = len(values)
    q = np.arange(r)
    log_mean = np.log(np.cumsum(values[::-1])[::-1] / (r - q))
    mean_log = np.cumsum(np.log(values[::-1]))[::-1] / (r - q)
    best = int(np.argmin(n * (r - q) * (log_mean - mean_log) + 0.5 * q * (2 * r - q) * np.log(n)))
    return best if 1 <= best <= r - 2 else r


#: Heading -> function. The last one is compared with the number of sources, the others with what the covariance shows of them.
METHODS = {
    "MDL": description_length,
    "roots, MDL": of_square_roots,
    "noise-whitened, MDL": noise_whitened,
    "largest gap": largest_gap,
    "Gavish-Donoho": hard_threshold,
    "parallel analysis": parallel_analysis,
    "HySime": hysime,
    "bionica, covariance": bionica_covariance,
    "bionica, second moment": bionica_second_moment,
}
#: Not run for more channels: seconds to minutes.
MOST_CHANNELS = {"noise-whitened, MDL": 1000, "HySime": 1000, "parallel analysis": 1000}
