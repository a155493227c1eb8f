"""
An array larger than memory
===========================

A Dask array of two million rows, made block by block: `BatchNICA` reads it in passes,
and X is never gathered. The error is that of the same array in memory (below 1e-3).
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from bionica import BatchNICA
from bionica.metrics import match_sources, permutation_error

# %%
A = np.random.default_rng(0).standard_normal((6, 3))


def block(S):
    """Mix a block of sources."""
    return S @ A.T


S = da.random.default_rng(1).exponential(size=(2_000_000, 3), chunks=(250_000, 3))
X = S.map_blocks(block, chunks=(S.chunks[0], (6,)), dtype=float)

# %%
nica = BatchNICA(3, random_state=0).fit(X)
Y = nica.transform(X)  # lazy too
part = Y[:100_000].compute()
true = S[:100_000].compute()
error = permutation_error(true, part)
print(X, f"error {error:.1e}", sep="\n")
assert error < 1e-3

# %%
figure, axes = plt.subplots(1, 3, figsize=(8, 2.9), layout="constrained", sharey=True)
recovered = part[:2000, match_sources(true, part).permutation]
for i, ax in enumerate(axes):
    ax.plot(true[:2000, i], recovered[:, i], ".", ms=3)
    ax.set(title=f"source {i + 1}", xlabel="true")
axes[0].set_ylabel("recovered")
