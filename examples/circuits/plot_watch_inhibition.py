"""
Watching inhibition learn
=========================

A whitening, which is not local, and a layer of neurons with local rules separate sources that are correlated. Lateral weights
push neurons below zero where they respond to the same source; the dendrites learn to predict the somata, and the lateral weights
become small.
"""

import numpy as np

from bionica import BatchNICA, ConeNetwork, plot
from bionica.datasets import copula_uniform, mix
from bionica.metrics import sinr

# %%
# Three sources with a correlation of 0.5 in six noisy mixtures.
S = copula_uniform(100_000, 3, rho=0.5, rng=0)
X, A = mix(S, n_mixtures=6, snr_db=36, rng=1)

# %%
# The weights over time: from mixtures to dendrites (through the whitening), between the neurons (one color for each neuron that
# receives them), and the hardness of the wall that each neuron finds by itself. Lateral weights, of both signs, are large at first,
# and small once the dendrites have learned.
network = ConeNetwork(3, random_state=0)
record = plot.record_weights(network, X, every=200)
axes = plot.weights(record)
for axis in axes:
    axis.set_xscale("log")

# %%
# The outputs of the network, beside nonnegative ICA, which assumes uncorrelated sources, and beside knowing the mixing matrix.
scores = {
    "knows A": sinr(S, np.maximum(X @ np.linalg.pinv(A).T, 0)),
    "ConeNetwork, one pass": sinr(S, network.transform(X)),
    "BatchNICA": sinr(S, BatchNICA(3, random_state=0).fit_transform(X)),
}
for name, score in scores.items():
    print(f"{name}: {score:.1f} dB")
assert scores["ConeNetwork, one pass"] > scores["knows A"] - 3
assert scores["BatchNICA"] < scores["knows A"] - 8

# %%
# Other walls than the network finds: too soft a wall lets the facets cut into the data, too hard a wall follows the noise.
for kappa in (30.0, 1e3, 3e4, 1e6):
    soft = ConeNetwork(3, kappa=kappa, random_state=0).partial_fit(X)
    print(f"kappa={kappa:g}: {sinr(S, soft.transform(X)):.1f} dB")
print("found:", network.kappa_.round())
