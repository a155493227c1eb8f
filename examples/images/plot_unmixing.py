"""
An image without pure pixels
============================

Three materials, 64 by 64 pixels, 60 bands; every pixel holds at least 15 % of other
materials. Vertex component analysis takes pixels for spectra, so it cannot find spectra
that no pixel has (6 degrees off or more). The cone needs only pixels in which a
material is absent (below 1 degree).
"""

import matplotlib.pyplot as plt
import numpy as np

from bionica import MinimumVolumeCone
from bionica.metrics import match_sources

# %%
# Abundances that sum to one, 0.85 at most.
rng = np.random.default_rng(0)
S = rng.dirichlet([0.7, 0.7, 0.7], 8000)
S = S[S.max(axis=1) < 0.85][: 64 * 64]
bands = np.linspace(0, 1, 60)
A = np.stack(
    [0.2 + np.exp(-(((bands - centre) / 0.2) ** 2)) for centre in (0.2, 0.5, 0.8)]
)
X = S @ A + 0.005 * rng.standard_normal((len(S), 60))


# %% Vertex component analysis (Nascimento and Bioucas-Dias 2005): the farthest pixel
# along a direction that no earlier one has.
def vertices(X, d):
    """Return the spectra of d pixels."""
    U = X @ np.linalg.svd(X, full_matrices=False)[2][:d].T
    U /= (U @ U.mean(axis=0))[:, None]
    chosen = np.zeros((0, d))
    pixels = []
    for _ in range(d):
        direction = rng.standard_normal(d)
        direction -= np.linalg.pinv(chosen) @ (chosen @ direction)
        pixels.append(int(np.argmax(np.abs(U @ direction))))
        chosen = U[pixels]
    return X[pixels].T


cone = MinimumVolumeCone(3, normalize="sum", random_state=0).fit(X)
estimates = {
    "MinimumVolumeCone": cone.mixing_,
    "vertex component analysis": vertices(X, 3),
}

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained", sharey=True)
worst = {}
for ax, (name, spectra) in zip(axes, estimates.items(), strict=True):
    order = match_sources(A.T, spectra, by="correlation").permutation
    unit = spectra[:, order] / np.linalg.norm(spectra[:, order], axis=0)
    cosine = np.sum(unit.T * A, axis=1) / np.linalg.norm(A, axis=1)
    worst[name] = np.degrees(np.arccos(cosine.min()))
    print(f"{name}: worst angle {worst[name]:.1f} degrees")
    ax.plot(bands, A.T / np.linalg.norm(A, axis=1), "k:", lw=1)
    ax.plot(bands, unit)
    ax.set(title=f"{name}: {worst[name]:.1f} degrees", xlabel="band")
assert worst["MinimumVolumeCone"] < 1 < 6 < worst["vertex component analysis"]
