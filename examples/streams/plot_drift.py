"""
A mixture that drifts
=====================

The mixing matrix turns slowly. A stream with a horizon follows it (error below 0.05 at
the end); a stream that remembers everything does not.
"""

import matplotlib.pyplot as plt
import numpy as np

from bionica import StreamingNICA
from bionica.datasets import sparse_uniform
from bionica.metrics import match_sources

# %%
# Three sources, a rotation of the mixing matrix by 90 degrees over 200,000 samples.
n = 200_000
S = sparse_uniform(n, 3, rng=0)
A = np.random.default_rng(1).standard_normal((3, 3))
angle = np.linspace(0, np.pi / 2, n)
X = S @ A.T
X[:, :2] = np.stack(
    [
        X[:, 0] * np.cos(angle) - X[:, 1] * np.sin(angle),
        X[:, 0] * np.sin(angle) + X[:, 1] * np.cos(angle),
    ],
    axis=1,
)

# %%
curves = {}
for name, horizon in (("horizon=3000", 3000), ("no horizon", None)):
    stream = StreamingNICA(3, horizon=horizon, random_state=0)
    Y = np.concatenate(
        [stream.partial_fit_transform(block) for block in np.array_split(X, 200)]
    )
    blocks = [(S[i : i + 2000], Y[i : i + 2000]) for i in range(0, n, 2000)]
    curves[name] = [
        np.mean((s - y[:, match_sources(s, y).permutation]) ** 2) for s, y in blocks
    ]
    print(f"{name}: error {curves[name][-1]:.4f} at the end")

assert curves["horizon=3000"][-1] < 0.05 < curves["no horizon"][-1]

# %%
figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for name, errors in curves.items():
    ax.semilogy(np.arange(0, n, 2000), errors, label=name)
ax.set(xlabel="samples", ylabel="error of 2,000 samples")
ax.legend(frameon=False)
