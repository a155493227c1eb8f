"""Problems whose fit is wrong, each with what `diagnose` should say."""

from functools import partial

import numpy as np

from bionica import BatchNICA, InterneuronNICA, MinimumVolumeCone, StreamingNICA, TwoCompartmentNICA
from correlated_cases import sources

from .diagnosis_cases import Case, Problem, draw, fitted, mixed, simple, turning, white

FEW_SAMPLES = ("samples are few", "few for", "samples or more")


def batch(d, **options):
    return partial(BatchNICA, d, random_state=0, **options)


def cone(d, **options):
    return partial(MinimumVolumeCone, d, random_state=0, **options)


def stream(d, **options):
    return partial(StreamingNICA, d, random_state=0, **options)


def centred(X, S, rng):
    return X - X.mean(axis=0)


def standardised(X, S, rng):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def with_time(X, S, rng):
    return np.column_stack([0.1 * np.arange(len(X)), X])


def with_outlier(X, S, rng):
    X = X.copy()
    X[rng.integers(len(X))] *= -1000
    return X


def failing_sensor(X, S, rng):
    X = X.copy()
    X[len(X) // 2 :, 0] = 0
    return X


def saturated(X, S, rng):
    return np.tanh(X / X.std(axis=0))


def gain(X, S, rng):
    """The gain of every sensor drifts by up to 90 %."""
    return X * (1 + np.linspace(-1, 1, len(X))[:, None] * rng.uniform(-0.9, 0.9, X.shape[1]))


def baseline(X, S, rng):
    """A baseline that rises in all mixtures, unevenly."""
    rise = np.cumsum(rng.exponential(size=len(X)) ** 3)
    return X + 3 * X.std() * (rise / rise[-1])[:, None] * rng.uniform(0.5, 1, X.shape[1])


def background(X, S, rng):
    return X + X.std() * rng.uniform(1, 3, X.shape[1])


def twin(rng):
    S = draw("exponential", 3000, 5, rng)
    S[:, 4] = 2 * S[:, 3]
    return fitted(batch(5), mixed(S, 12, 30, rng), S)


def rank_deficient(rng):
    """Two columns of A are the same spectrum: the sources of both cannot be told apart."""
    S = draw("sparse-uniform", 3000, 4, rng)
    A = rng.standard_normal((10, 4))
    A[:, 3] = A[:, 2]
    X = S @ A.T
    return fitted(cone(4), X + white(X, 30, rng), S)


def spectra(make_estimator, kind, T, snr_db):
    def make(rng):
        X, S, _ = sources.chemistry(kind, T, rng)
        return fitted(make_estimator, X + white(X, snr_db, rng), S)

    return make


def drift(make_estimator, d, k, T, radians, at=None, kind="exponential"):
    def make(rng):
        S = draw(kind, T, d, rng)
        X = turning(S, k, rng, radians, at)
        return fitted(make_estimator, X + white(X, 30, rng), S)

    return make


def shifted(kind, offset):
    def make(rng):
        S = draw(kind, 3000, 4, rng) + offset
        return fitted(batch(4), mixed(S, 8, 30, rng), S)

    return make


def gaussian(rng):
    S = rng.standard_normal((3000, 4))
    return fitted(batch(4), mixed(S, 8, 30, rng), S)


def of_both_signs(rng):
    S = rng.laplace(size=(3000, 4)) + 0.5
    return fitted(cone(4), mixed(S, 8, 30, rng), S)


def transposed(rng):
    S = draw("exponential", 500, 4, rng)
    X = mixed(S, 40, 30, rng)
    return fitted(batch(4), X.T, S)._replace(transposed=True)


def other_scale(rng):
    S = draw("half-normal", 3000, 4, rng)
    X = mixed(S, 8, 30, rng)
    return Case(BatchNICA(4, random_state=0).fit(X), 3 * X, S)


def published(rng):
    """The paper's network on a mixing matrix that it was not tuned for."""
    S = draw("sparse-uniform", 5000, 10, rng)
    return fitted(lambda: InterneuronNICA.as_published("d10", random_state=0), mixed(S, 10, None, rng), S)


def stopped_early(rng):
    S = draw("exponential", 20_000, 5, rng)
    X = mixed(S, 10, 30, rng)
    network = TwoCompartmentNICA(5, precondition="scale", random_state=0).partial_fit(X[:300])
    return Case(network, X, S)


def problems():
    """Return all of them."""
    more = ("n_components=", "sources")
    negative = ("negative",)
    changed = ("mixing changes", "mixtures changed")
    return [
        Problem(
            "cone, 4 of 5 sources, k = 30", simple(cone(4), "exponential", 5, 30, 3000), ("n_components=5",), False
        ),
        Problem(
            "cone, 3 of 4, k = 10, 20 dB",
            simple(cone(3), "sparse-uniform", 4, 10, 3000, 20),
            ("n_components=4",),
            False,
        ),
        Problem("cone, 3 of 4, k = 6, 20 dB", simple(cone(3), "exponential", 4, 6, 3000, 20), more, False),
        Problem(
            "cone, 3 of 4 abundances, k = 100", spectra(cone(3), "Dirichlet 0.5", 3000, 30), ("n_components=4",), False
        ),
        Problem("cone, 3 of 4 peaks, k = 100", spectra(cone(3), "chromatogram", 1000, 30), ("n_components=4",), False),
        Problem(
            "batch, 4 of 5 sources, k = 40", simple(batch(4), "half-normal", 5, 40, 3000), ("n_components=5",), False
        ),
        Problem("batch, 3 of 4 sources, k = 5", simple(batch(3), "exponential", 4, 5, 3000), more, False),
        Problem(
            "stream, 3 of 4, k = 12", simple(stream(3), "sparse-uniform", 4, 12, 20_000), ("n_components=4",), False
        ),
        Problem("batch, 6 for 5, k = 10", simple(batch(6), "exponential", 5, 10, 3000), ("n_components=5",), False),
        Problem("batch, 8 for 5, k = 20", simple(batch(8), "sparse-uniform", 5, 20, 3000), ("n_components=5",), False),
        Problem("cone, 5 for 4, k = 20", simple(cone(5), "exponential", 4, 20, 3000), ("n_components=4",), False),
        Problem("cone, 7 for 4, k = 20", simple(cone(7), "sparse-uniform", 4, 20, 3000), ("n_components=4",), False),
        Problem("stream, 7 for 4, k = 12", simple(stream(7), "exponential", 4, 12, 20_000), ("n_components=4",), False),
        Problem("batch, mean removed", simple(batch(4), "exponential", 4, 8, 3000, 30, centred), ("mean was removed",)),
        Problem("cone, standardised columns", simple(cone(4), "half-normal", 4, 8, 3000, 30, standardised), ("mean",)),
        Problem("batch, offset: sources + 2", shifted("half-normal", 2.0), ("near zero",)),
        Problem("batch, gamma(6): never near zero", shifted("gamma 6", 0.0), ("near zero",)),
        Problem("batch, correlated (copula 0.5)", simple(batch(5), "copula 0.5", 5, 10, 3000), ("correlated",)),
        Problem("batch, abundances (closed)", spectra(batch(4), "Dirichlet 0.5", 3000, 30), ("sum to a constant",)),
        Problem("batch, 10 samples, d = 3", simple(batch(3), "half-normal", 3, 6, 10), FEW_SAMPLES),
        Problem("cone, 20 samples, d = 5", simple(cone(5), "half-normal", 5, 10, 20), FEW_SAMPLES),
        Problem("batch, 30 samples, d = 5", simple(batch(5), "half-normal", 5, 12, 30), FEW_SAMPLES),
        Problem("batch, transposed", transposed, ("transpose",)),
        Problem("batch, time as mixture", simple(batch(4), "exponential", 4, 8, 2000, 30, with_time), ("throughout",)),
        Problem(
            "batch(robust=False), one outlier",
            simple(batch(4, robust=False), "exponential", 4, 8, 2000, 30, with_outlier),
            ("outlier",),
        ),
        Problem(
            "batch, a sensor fails halfway, k = d",
            simple(batch(4), "exponential", 4, 4, 4000, 30, failing_sensor),
            ("frozen",),
        ),
        Problem("batch, 3 X instead of X", other_scale, ("variance 9",), False),
        Problem("stream, slow drift of 2 rad, k = 10", drift(stream(4), 4, 10, 20_000, 2.0), changed),
        Problem("stream, slow drift, k = d", drift(stream(4), 4, 4, 20_000, 1.0, kind="sparse-uniform"), changed),
        Problem("batch, abrupt change, k = 8", drift(batch(4), 4, 8, 5000, 1.5, 0.5), changed),
        Problem("cone, gains drift", simple(cone(4), "sparse-uniform", 4, 8, 5000, 30, gain), changed),
        Problem("cone, saturated sensors", simple(cone(4), "exponential", 4, 8, 5000, 40, saturated), more + negative),
        Problem("batch, noise at 0 dB", simple(batch(4), "exponential", 4, 8, 5000, 0), ("noise",)),
        Problem("batch, Gaussian sources", gaussian, ("mean",)),
        Problem("cone, sources negative at times", of_both_signs, negative),
        Problem("batch, rising baseline", simple(batch(4), "exponential", 4, 12, 3000, 30, baseline), more),
        Problem(
            "batch, constant background", simple(batch(4), "exponential", 4, 12, 3000, 30, background), ("background",)
        ),
        Problem("batch, two sources perfectly correlated", twin, ("n_components=4",)),
        Problem("cone, two sources with one spectrum", rank_deficient, ("n_components=3",)),
        Problem("InterneuronNICA.as_published, another A", published, ("not settled", "negative")),
        Problem("TwoCompartmentNICA after 300 samples", stopped_early, ("not settled", "negative")),
    ]
