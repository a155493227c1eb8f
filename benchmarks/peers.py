"""Time and error of the networks beside FastICA, Picard and MiniBatchNMF on the same mixtures.

python benchmarks/peers.py [--write]
"""

import numpy as np
import picard
from sklearn.decomposition import FastICA, MiniBatchNMF

import bionica
from bionica import datasets, metrics
from common import parser, report, seconds, table

#: Samples that are not learned from.
HELD_OUT = 5000
SEED0 = 8000


def ours(name):
    return lambda X, d, seed: getattr(bionica, name)(d, random_state=seed).fit(X).transform


def fast_ica(X, d, seed):
    ica = FastICA(d, whiten="unit-variance", max_iter=500, random_state=seed).fit(X)
    return lambda X: X @ ica.components_.T  # without subtracting the mean


def picard_o(X, d, seed):
    K, W, _ = picard.picard(X.T, n_components=d, ortho=True, random_state=seed, max_iter=500)
    return lambda X: X @ (W @ K).T


def minibatch_nmf(X, d, seed, batch=1024):
    nmf = MiniBatchNMF(d, batch_size=batch, random_state=seed)
    for start in range(0, len(X), batch):
        nmf.partial_fit(X[start : start + batch])
    return nmf.transform


#: Method -> how it learns, whether its sources have no sign and scale, and its fit.
METHODS = {
    "TwoCompartmentNICA": ("online", False, ours("TwoCompartmentNICA")),
    "InterneuronNICA": ("online", False, ours("InterneuronNICA")),
    "StreamingNICA": ("online", False, ours("StreamingNICA")),
    "BatchNICA": ("offline", False, ours("BatchNICA")),
    "FastICA": ("offline", True, fast_ica),
    "Picard": ("offline", True, picard_o),
    "MiniBatchNMF": ("in batches", True, minibatch_nmf),
}


def draw(d, n, seed):
    """Return sources and mixtures; the mixing matrix is nonnegative, as NMF requires."""
    rng = np.random.default_rng(seed)
    S = datasets.sparse_uniform(n + HELD_OUT, d, rng=rng)
    return S, datasets.mix(S, rng.uniform(size=(d, d)))[0]


def peers(d=10, n=100_000, n_seeds=10):
    best, errors = dict.fromkeys(METHODS, float("inf")), {name: [] for name in METHODS}
    _, X = draw(d, 2000, SEED0 - 1)
    for _, _, fit in METHODS.values():
        fit(X, d, 0)  # compiles what is compiled
    for seed in range(SEED0, SEED0 + n_seeds):
        S, X = draw(d, n, seed)
        for name, (_, scaled, fit) in METHODS.items():
            outputs = []
            best[name] = min(best[name], seconds(lambda: outputs.append(fit(X[:n], d, seed)(X[n:]))))  # noqa: B023
            errors[name].append(error(S[n:], outputs[0], scaled))
    rows = []
    for name, (learns, scaled, _) in METHODS.items():
        row = {"method": name, "learns": learns, "ns a sample": 1e9 * best[name] / n}
        row |= {"error, median": float(np.median(errors[name])), "worst": max(errors[name])}
        rows.append(row | {"scored": "after the best sign and scale" if scaled else "as it is"})
    note = (
        f"{d} sparse uniform sources of unit variance, mixed by a nonnegative {d} x {d} matrix, {n:,} samples; time of a fit from "
        f"nothing and of the sources of {HELD_OUT:,} further mixtures, on which the permutation error is measured. Ours at their "
        f"defaults, python-picard {picard.__version__}. {n_seeds} draws of sources and matrix; the time is the best of them, with "
        "one thread."
    )
    return table("Peers on the same data", note, rows)


def error(S, Y, scaled):
    if scaled:
        match = metrics.match_sources(S, Y, by="correlation")
        Y = Y[:, match.permutation] * match.scale
    return metrics.permutation_error(S, Y)


if __name__ == "__main__":
    report("peers", "Peers", [], [peers], parser(__doc__, "peers").parse_args().write)
