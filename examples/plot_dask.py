"""
An array larger than memory
===========================

A Dask array of two million rows, made block by block: `BatchNICA` reads it in passes, and X is never gathered. The
error is that of the same array in memory (below 1e-3).
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from bionica import BatchNICA
from bionica.metrics import permutation_error

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
error = permutation_error(S[:100_000].compute(), part)
print(X, f"error {error:.1e}", sep="\n")
assert error < 1e-3

# %%
figure, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
ax.hist(part, bins=np.linspace(0, 4, 81), histtype="step", label=["source 1", "source 2", "source 3"])
ax.set(xlabel="output", ylabel="samples", title="100,000 of 2,000,000 outputs: exponential, nonnegative")
ax.legend(frameon=False)
