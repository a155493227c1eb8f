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


def ours(name):
    return lambda X, d: getattr(bionica, name)(d, random_state=0).fit(X).transform


def fast_ica(X, d):
    ica = FastICA(d, whiten="unit-variance", max_iter=500, random_state=0).fit(X)
    return lambda X: X @ ica.components_.T  # without subtracting the mean


def picard_o(X, d):
    K, W, _ = picard.picard(X.T, n_components=d, ortho=True, random_state=0, max_iter=500)
    return lambda X: X @ (W @ K).T


def minibatch_nmf(X, d, batch=1024):
    nmf = MiniBatchNMF(d, batch_size=batch, random_state=0)
    for start in range(0, len(X), batch):
        nmf.partial_fit(X[start : start + batch])
    return nmf.transform


#: Method -> how it learns, whether its sources have no sign and scale, and its fit.
METHODS = {
    "TwoCompartmentNICA": ("online", False, ours("TwoCompartmentNICA")),
    "InterneuronNICA": ("online", False, ours("InterneuronNICA")),
    "BatchNICA": ("offline", False, ours("BatchNICA")),
    "FastICA": ("offline", True, fast_ica),
    "Picard": ("offline", True, picard_o),
    "MiniBatchNMF": ("in batches", True, minibatch_nmf),
}


def peers(d=10, n=100_000, rounds=7):
    rng = np.random.default_rng(1)
    S = datasets.sparse_uniform(n + HELD_OUT, d, rng=rng)
    X, _ = datasets.mix(S, rng.uniform(size=(d, d)))  # nonnegative, as NMF requires
    best, outputs = dict.fromkeys(METHODS, float("inf")), {}
    for _ in range(rounds):
        for name, (_, _, fit) in METHODS.items():
            best[name] = min(best[name], seconds(lambda: outputs.update({name: fit(X[:n], d)(X[n:])})))  # noqa: B023
    rows = []
    for name, (learns, scaled, _) in METHODS.items():
        Y = outputs[name]
        if scaled:
            match = metrics.match_sources(S[n:], Y, by="correlation")
            Y = Y[:, match.permutation] * match.scale
        row = {"method": name, "learns": learns, "ns a sample": 1e9 * best[name] / n}
        row["error, held out"] = metrics.permutation_error(S[n:], Y)
        rows.append(row | {"scored": "after the best sign and scale" if scaled else "as it is"})
    note = (
        f"{d} sparse uniform sources of unit variance, mixed by a nonnegative {d} x {d} matrix, {n:,} samples; time of a fit from "
        f"nothing and of the sources of {HELD_OUT:,} further mixtures, on which the permutation error is measured. Ours at their "
        f"defaults. Best of {rounds} rounds, one thread."
    )
    return table("Peers on the same data", note, rows)


if __name__ == "__main__":
    report("peers", "Peers", [], [peers], parser(__doc__, "peers").parse_args().write)
