"""
A strictly local network, and natural steps
===========================================

Algorithm 2 with only what each synapse sees, as in the paper, and with natural-gradient steps, our default: both learn,
the second a hundred times more accurately on a mixing matrix for which it was not tuned.
"""

import numpy as np

from bionica import TwoCompartmentNICA, plot
from bionica.datasets import mix, sparse_uniform
from bionica.metrics import permutation_error

# %%
S = sparse_uniform(100_000, 3, rng=0)
X, A = mix(S, n_mixtures=3, rng=5)
print(f"condition number of the mixing matrix: {np.linalg.cond(A):.1f}")

# %%
networks = {
    "strictly local": TwoCompartmentNICA(3, precondition=None, random_state=0),
    "natural steps": TwoCompartmentNICA(3, random_state=0),
}
outputs = {name: network.partial_fit_transform(X) for name, network in networks.items()}
last = {name: permutation_error(S[-10_000:], Y[-10_000:]) for name, Y in outputs.items()}
print(last)
assert last["strictly local"] < 0.05
assert last["natural steps"] < last["strictly local"] / 100

# %%
# Both learn sample by sample and have nonnegative outputs. Only the first is local.
plot.error_curve(S, outputs)
