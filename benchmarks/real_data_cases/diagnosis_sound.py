"""Problems whose fit is right, and which `diagnose` must not blame."""

import numpy as np

from bionica import InterneuronNICA, TwoCompartmentNICA
from correlated_cases import sources

from .diagnosis_cases import Problem, draw, fitted, mixed, simple, turning, white
from .diagnosis_spoiled import batch, cone, spectra, stream, with_outlier


def silent_sensor(X, S, rng):
    X = X.copy()
    X[:, 2] = 0
    return X


def poisson(make_estimator, kind, T, level):
    """Counts of spectra, `level` the mean in the largest channel."""

    def make(rng):
        X, S, _ = sources.chemistry(kind, T, rng)
        counts = rng.poisson(X * level / X.mean(axis=0).max()).astype(float)
        return fitted(make_estimator, counts, S)

    return make


def unequal(make_estimator, d, k, T, factor):
    """Noise that differs between mixtures by up to `factor`, 25 dB on average."""

    def make(rng):
        S = draw("sparse-uniform", T, d, rng)
        X = mixed(S, k, None, rng)
        level = np.exp(rng.uniform(0, np.log(factor), k))
        level *= np.sqrt(np.mean(X**2) / np.mean(level**2)) * 10 ** (-25 / 20)
        return fitted(make_estimator, X + level * rng.standard_normal(X.shape), S)

    return make


def scales(make_estimator, T, factors, snr_db=40):
    """Sources of very different scale."""

    def make(rng):
        S = draw("exponential", T, len(factors), rng) * factors
        return fitted(make_estimator, mixed(S, 12, snr_db, rng), S)

    return make


def single(X, S, rng):
    return X.astype(np.float32)


def images(make_estimator, k, snr_db):
    def make(rng):
        S = sources.images("camera, brick, gravel", 200)
        return fitted(make_estimator, mixed(S, k, snr_db, rng), S)

    return make


def slow(rng):
    """A drift that the horizon follows; the last samples are looked at."""
    S = draw("sparse-uniform", 60_000, 3, rng)
    X = turning(S, 6, rng, 0.3)
    X += white(X, 30, rng)
    case = fitted(stream(3, horizon=5000), X, S)
    return case._replace(X=X[-4000:], S=S[-4000:])


def other_rows(rng):
    """Fitted to some samples, asked about others."""
    S = draw("exponential", 6000, 4, rng)
    X = mixed(S, 8, 30, rng)
    return fitted(batch(4), X[:3000], S)._replace(X=X[3000:], S=S[3000:])


def problems():
    """Return all of them."""
    return [
        Problem("batch, exponential, d = 3, k = 6", simple(batch(3), "exponential", 3, 6, 2000)),
        Problem("batch, half-normal, d = 10, k = 20", simple(batch(10), "half-normal", 10, 20, 10_000)),
        Problem("batch, sparse uniform, d = k = 5, no noise", simple(batch(5), "sparse-uniform", 5, 5, 2000, None)),
        Problem("batch, gamma(0.5), d = 5, k = 10, 35 dB", simple(batch(5), "gamma 0.5", 5, 10, 3000, 35)),
        Problem("batch, uniform, d = 4, k = 8, 40 dB", simple(batch(4), "uniform", 4, 8, 5000, 40)),
        Problem("batch, Weibull(0.7), d = 3, k = 20", simple(batch(3), "weibull 0.7", 3, 20, 2000)),
        Problem("batch, odors, d = 4, k = 12", simple(batch(4), "odor-like", 4, 12, 5000)),
        Problem("batch, exponential, d = 5, k = 1,000, 20 dB", simple(batch(5), "exponential", 5, 1000, 1000, 20)),
        Problem("batch, half-normal, d = 5, k = 4,000, T = 400", simple(batch(5), "half-normal", 5, 4000, 400, 20)),
        Problem("batch, sparse uniform, d = 3, k = 8, T = 300", simple(batch(3), "sparse-uniform", 3, 8, 300)),
        Problem("batch, unequal noise, d = 4, k = 20", unequal(batch(4), 4, 20, 3000, 10)),
        Problem("batch, float32, d = 5, k = 10", simple(batch(5), "exponential", 5, 10, 3000, 40, single)),
        Problem("batch, scales of 1 to 30, d = 4, k = 12", scales(batch(4), 5000, [1, 3, 10, 30], 50)),
        Problem("batch, images, k = 6", images(batch(3), 6, 40)),
        Problem("batch, fitted to other samples", other_rows),
        Problem("batch, one outlier", simple(batch(4), "exponential", 4, 8, 3000, 30, with_outlier)),
        Problem("batch, one silent sensor", simple(batch(4), "half-normal", 4, 9, 3000, 30, silent_sensor)),
        Problem("cone, exponential, d = 4, k = 8, 20 dB", simple(cone(4), "exponential", 4, 8, 5000, 20)),
        Problem("cone, sparse uniform, d = 10, k = 30", simple(cone(10), "sparse-uniform", 10, 30, 5000)),
        Problem("cone, half-normal, d = 3, k = 4, 40 dB", simple(cone(3), "half-normal", 3, 4, 3000, 40)),
        Problem("cone, copula 0.3, d = 5, k = 10", simple(cone(5), "copula 0.3", 5, 10, 5000)),
        Problem("cone, copula 0.5, d = 4, k = 20", simple(cone(4), "copula 0.5", 4, 20, 5000)),
        Problem("cone, fluorescence, 30 dB", spectra(cone(4), "fluorescence", 3000, 30)),
        Problem("cone, fluorescence, counts", poisson(cone(4, noise="poisson"), "fluorescence", 3000, 2000)),
        Problem("cone, chromatogram, 30 dB", spectra(cone(4), "chromatogram", 1000, 30)),
        Problem("cone, abundances, 30 dB", spectra(cone(4), "Dirichlet 0.5", 3000, 30)),
        Problem("cone, abundances, counts", poisson(cone(4), "Dirichlet 0.5", 3000, 2000)),
        Problem("cone, images, k = 6", images(cone(3), 6, 40)),
        Problem("cone, 200 samples, d = 3, k = 30", simple(cone(3), "sparse-uniform", 3, 30, 200)),
        Problem("cone, scales of 1 to 10, d = 3, k = 12", scales(cone(3), 5000, [1, 3, 10], 40)),
        Problem("stream, sparse uniform, d = 4, k = 8", simple(stream(4), "sparse-uniform", 4, 8, 20_000)),
        Problem("stream, exponential, d = k = 5, no noise", simple(stream(5), "exponential", 5, 5, 20_000, None)),
        Problem("stream with a horizon, slow drift", slow),
        Problem("stream with a horizon, no drift", simple(stream(3, horizon=5000), "half-normal", 3, 6, 20_000)),
        Problem(
            "TwoCompartmentNICA, d = 3, k = 6",
            simple(lambda: TwoCompartmentNICA(3, random_state=0), "sparse-uniform", 3, 6, 20_000),
        ),
        Problem(
            "InterneuronNICA, d = 4, k = 4",
            simple(lambda: InterneuronNICA(4, random_state=0), "exponential", 4, 4, 20_000, None),
        ),
    ]
