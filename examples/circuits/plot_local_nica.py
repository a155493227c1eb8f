"""
One layer with strictly local rules, for any mixing matrix
==========================================================

`LocalNICA` on a mixing matrix with a condition number of 100, beside Algorithm 2 with its untuned rates. Each synapse
learns from what its two neurons know, and nothing is tuned to the matrix.
"""

import matplotlib.pyplot as plt
import numpy as np

from bionica import LocalNICA, TwoCompartmentNICA
from bionica.datasets import sparse_uniform

# %%
# Three sources, and a matrix whose singular values are 1, 0.1 and 0.01.
rng = np.random.default_rng(0)
S = sparse_uniform(100_000, 3, rng=rng)
U, V = (np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(2))
X = S @ (U * [1, 0.1, 0.01] @ V).T

# %%
# One pass. The error of the outputs while the networks learn, in blocks of 1,000 samples.
networks = {"LocalNICA": LocalNICA(3, random_state=0), "Algorithm 2, untuned": TwoCompartmentNICA(3, random_state=0)}
errors = {}
for name, network in networks.items():
    Y = network.partial_fit_transform(X)
    squares = ((S[-10_000:, :, None] - Y[-10_000:, None, :]) ** 2).mean(axis=0)
    order = squares.argmin(axis=1)
    errors[name] = ((S - Y[:, order]) ** 2).mean(axis=1).reshape(-1, 1000).mean(axis=1)
    print(f"{name}: error of the last 10,000 samples {errors[name][-10:].mean():.4f}")
assert errors["LocalNICA"][-10:].mean() < 0.02

# %%
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, error in errors.items():
    ax.semilogy(np.arange(1, 101) * 1000, error, label=name)
ax.set(xlabel="samples", ylabel="error", title="condition number 100")
ax.legend()
plt.show()
