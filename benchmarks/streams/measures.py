"""What benchmarks/streaming.py measures: a function for each table, called with a method and the arguments of one case.

A stream is one pass of `partial_fit` from a random start. Errors are permutation errors of `transform` on samples that were not
learned from, unless the function says otherwise.
"""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import bionica
from bionica.datasets import copula_uniform, mix, natural_images, paper_mixing, random_sources
from bionica.metrics import error_curve, permutation_error, sinr
from common import seconds
from first_fit import fit_seconds

KINDS = ("sparse_uniform", "exponential", "half_normal", "gamma", "odor")
NETWORKS = ("InterneuronNICA", "TwoCompartmentNICA")
STREAMS = ("StreamingNICA", *NETWORKS)
BATCH = "BatchNICA"
PEERS = ("MiniBatchNMF", "IncrementalPCA")
HELD_OUT = 5000


def stream(method, d, X, seed, **options):
    """Return the estimator after one pass over X."""
    estimator = getattr(bionica, method)(d, random_state=seed, **options)
    return estimator.fit(X) if method == BATCH else estimator.partial_fit(X)


def error_of(estimator, A, S):
    return permutation_error(S, estimator.transform(S @ A.T))


def random(method, kind, k, d, T, seed):
    """A mixing matrix of condition number 1 to 1000 and scale 1e-3 to 1e3."""
    rng = np.random.default_rng([seed, d])
    condition, scale = 10 ** rng.uniform(0, 3), 10 ** rng.uniform(-3, 3)
    U, _, Vt = np.linalg.svd(rng.standard_normal((k, d)), full_matrices=False)
    A = scale * (U * np.geomspace(1, 1 / condition, d)) @ Vt
    S = random_sources(kind, T + HELD_OUT, d, rng=rng)
    estimator = stream(method, d, S[:T] @ A.T, seed)
    return {"condition": condition, "scale": scale, "error": error_of(estimator, A, S[T:])}


def large(method, kind, d, T, seed):
    rng = np.random.default_rng([seed, d])
    A = rng.standard_normal((d, d))
    S = random_sources(kind, T + HELD_OUT, d, rng=rng)
    return {"error": error_of(stream(method, d, S[:T] @ A.T, seed), A, S[T:])}


def figure4(method, d, T, seed):
    """Cumulative error of the running outputs, from the first sample on."""
    S = random_sources("sparse_uniform", T, d, rng=seed)
    X, _ = mix(S, paper_mixing(f"d{d}"))
    if method == "TwoLayerNSM":
        network = bionica.TwoLayerNSM.as_published(f"d{d}", random_state=seed)
    else:
        network = getattr(bionica, method)(d, random_state=seed)
    Y = network.partial_fit_transform(X)
    curve, tail = error_curve(S, Y), T // 10
    early = {str(t): curve[t - 1] for t in (100, 1000, 10_000) if t < T}
    return early | {"error": curve[-1], "last_tenth": permutation_error(S[-tail:], Y[-tail:])}


def noise(method, kind, snr_db, T, seed, d=5):
    rng = np.random.default_rng([seed, d, snr_db])
    n = T + HELD_OUT
    S = copula_uniform(n, d, 0.0, rng=rng) if kind == "copula" else random_sources(kind, n, d, rng=rng)
    X, _ = mix(S, n_mixtures=2 * d, snr_db=snr_db, rng=rng)
    Y = stream(method, d, X[:T], seed).transform(X[T:])
    return {"error": permutation_error(S[T:], Y), "sinr": sinr(S[T:], Y)}


def images(method, order, seed, size=None):
    """Camera, brick and gravel. Errors over all pixels, after the first and the second pass."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((3, 3))
    S = natural_images(size=size)
    X = (S if order == "raster" else S[rng.permutation(len(S))]) @ A.T
    estimator = stream(method, 3, X, seed)
    result = {"error": error_of(estimator, A, S)}
    return result if method == BATCH else result | {"second_pass": error_of(estimator.partial_fit(X), A, S)}


def drift(method, kind, turn, horizon, seed, d=3):
    """Error of the running outputs over the last tenth of one full turn of two of the mixtures."""
    rng = np.random.default_rng(seed)
    S = random_sources(kind, turn, d, rng=rng)
    X = S @ rng.standard_normal((d, d)).T
    cos, sin = (f(2 * np.pi * np.arange(turn) / turn) for f in (np.cos, np.sin))
    X[:, 0], X[:, 1] = cos * X[:, 0] - sin * X[:, 1], sin * X[:, 0] + cos * X[:, 1]
    Y = getattr(bionica, method)(d, horizon=horizon, random_state=seed).partial_fit_transform(X)
    return {"error": permutation_error(S[-turn // 10 :], Y[-turn // 10 :])}


def disturbances(method, disturbance, size, kind, d, horizon, seed):
    """Held-out error before a disturbance, right after it and 5 horizons later; `clean`: that of the undisturbed stream then."""
    rng = np.random.default_rng([seed, d])
    h = horizon or 10_000
    stretch = {"zeros": min(size, 10), "one channel frozen": size, "1 outlier in 1,000 for 2 horizons": 2}.get(
        disturbance
    )
    begin, end = 10 * h, (10 + stretch) * h if stretch else 10 * h + 1
    if disturbance == "one channel starts late":
        begin, end = h, size * h
    A = rng.standard_normal((d, d))
    S = random_sources(kind, end + 5 * h + HELD_OUT, d, rng=rng)
    S, unseen = S[:-HELD_OUT], S[-HELD_OUT:]
    clean = S @ A.T
    X = clean.copy()
    if "outlier" in disturbance:
        rows = {
            "outlier at sample 500": [500],
            "one outlier": [begin],
            "1 outlier in 1,000 for 2 horizons": range(begin + 500, end, 1000),
            "1 outlier in 1,000 always": range(500, len(X), 1000),
        }[disturbance]
        # Many samples of sparse sources are zero, and a zero cannot be an outlier: take others.
        X[rows] = size * clean[rng.choice(np.flatnonzero(clean.any(axis=1)), len(rows))]
    elif disturbance == "zeros":
        X[begin:end] = 0
    elif disturbance == "one channel frozen":
        X[begin:end, 0] = X[begin - 1, 0]
    else:
        X[:end, 0] = 0
    estimator = stream(method, d, X[:begin], seed, horizon=horizon)
    result = {"before": error_of(estimator, A, unseen)}
    estimator.partial_fit(X[begin:end])
    if disturbance == "zeros":
        for _ in range(size - stretch):
            estimator.partial_fit(X[begin : begin + h])
    result["right_after"] = error_of(estimator, A, unseen)
    result["error"] = error_of(estimator.partial_fit(X[end:]), A, unseen)
    return result | {"clean": error_of(stream(method, d, clean, seed, horizon=horizon), A, unseen)}


def abrupt(method, kind, d, horizon, seed):
    """Ten horizons with one mixing matrix, then five with another; `clean`: the second from the start, mean of five readings."""
    rng = np.random.default_rng([seed, d])
    A, B = rng.standard_normal((2, d, d))
    S = random_sources(kind, 15 * horizon + HELD_OUT, d, rng=rng)
    S, unseen = S[:-HELD_OUT], S[-HELD_OUT:]
    first, second, rest = np.split(S, [10 * horizon, 11 * horizon])
    estimator = stream(method, d, first @ A.T, seed, horizon=horizon)
    result = {
        "before": error_of(estimator, A, unseen),
        "right_after": error_of(estimator.partial_fit(second @ B.T), B, unseen),
        "error": error_of(estimator.partial_fit(rest @ B.T), B, unseen),
    }
    # Few runs of one setting, and at short horizons the error of a stream fluctuates: one reading would be a poor yardstick.
    undisturbed = stream(method, d, first @ B.T, seed, horizon=horizon)
    last = np.split(S[10 * horizon :] @ B.T, 5)
    return result | {"clean": np.mean([error_of(undisturbed.partial_fit(part), B, unseen) for part in last])}


def local(method, precondition, d, T, seed):
    """Strictly local networks on random Gaussian matrices."""
    rng = np.random.default_rng([seed, d])
    A = rng.standard_normal((d, d))
    S = random_sources("sparse_uniform", T + HELD_OUT, d, rng=rng)
    Network = getattr(bionica, method)
    if precondition == "as published":
        network = Network.as_published(f"d{d}", random_state=seed)
    else:
        network = Network(d, precondition=precondition, random_state=seed)
    return {"error": error_of(network.partial_fit(S[:T] @ A.T), A, S[T:])}


def long(method, dtype, T, seed, d=3):
    """A stream that never repeats itself, in blocks; C is the covariance of everything that was learned from."""
    rng = np.random.default_rng(seed)
    A = paper_mixing("d3").astype(dtype)
    unseen = random_sources("sparse_uniform", 20_000, d, rng=rng, dtype=dtype)
    block = min(T // 10, 10**6)
    estimator = getattr(bionica, method)(d, random_state=seed)
    n, total, products, resident, spent = 0, np.zeros(d), np.zeros((d, d)), [], 0.0
    while n < T:
        X = random_sources("sparse_uniform", block, d, rng=rng, dtype=dtype) @ A.T
        spent += seconds(partial(estimator.partial_fit, X))
        wide = X.astype(np.float64)
        n, total, products = n + block, total + wide.sum(axis=0), products + wide.T @ wide
        if n == T // 10 // block * block or n >= T:
            resident.append(resident_megabytes())
    mean, V = total / n, estimator.components_.astype(np.float64)
    G = V @ (products / n - np.outer(mean, mean)) @ V.T
    return {
        "error": error_of(estimator, A, unseen),
        "orthogonality": np.abs(G - np.eye(d)).max(),
        "orthogonality_but_scale": np.abs(G * d / np.trace(G) - np.eye(d)).max(),
        "megabytes": resident,
        "ns": 1e9 * spent / n,
    }


def resident_megabytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def speed(method, kind, d, T, seed, rounds=7):
    """ns a sample of a pass from the start, without compilation; peers in batches of 1,000."""
    from sklearn import decomposition

    rng = np.random.default_rng(seed)
    X = random_sources(kind, T, d, rng=rng) @ rng.uniform(size=(d, d))  # nonnegative, as NMF needs it

    def run():
        if method in PEERS:
            estimator = getattr(decomposition, method)(d)
            for first in range(0, T, 1000):
                estimator.partial_fit(X[first : first + 1000])
        else:
            stream(method, d, X, seed)

    run()
    return {"ns": 1e9 * min(seconds(run) for _ in range(rounds)) / T}


def first_fit(method):
    with tempfile.TemporaryDirectory() as cache:
        return {"first": fit_seconds(method, Path(bionica.__file__).parents[1], cache)}


def chunks(method, dtype, horizon, k, T, seed, d=3):
    """Whether weights and running outputs have the same bits however the stream is cut into calls, and as `fit` has them."""
    rng = np.random.default_rng([seed, k])
    X = (random_sources("exponential", T, d, rng=rng) @ rng.standard_normal((d, k))).astype(dtype)
    made = partial(getattr(bionica, method), d, horizon=horizon, random_state=seed)

    def cut(at):
        estimator = made()
        Y = np.concatenate([estimator.partial_fit_transform(part) for part in np.split(X, at)])
        return estimator.components_.tobytes() + Y.tobytes(), estimator

    bits, whole = cut([])
    cuts = {
        "single rows": range(1, T),
        "sevens": range(7, T, 7),
        "random": np.sort(rng.choice(np.arange(1, T), 20, replace=False)),
    }
    differ = [name for name, at in cuts.items() if cut(at)[0] != bits]
    if made().fit(X).components_.tobytes() != whole.components_.tobytes():
        differ.append("fit")
    if whole.n_samples_seen_ != T:
        differ.append(f"{whole.n_samples_seen_} samples learned from")
    return {"differ": differ}


#: Table -> the function that measures one of its cases.
MEASURES = {
    "random": random,
    "figure4": figure4,
    "large": large,
    "short": random,
    "noise": noise,
    "images": images,
    "drift": drift,
    "disturbances": disturbances,
    "abrupt": abrupt,
    "local": local,
    "long": long,
    "speed": speed,
    "first_fit": first_fit,
    "chunks": chunks,
}
#: Tables that are measured one case after the other in one process, because their result is a time.
ALONE = ("speed", "first_fit")
