"""The dyes of the first page: some mixtures, the spectra that were found in them, and
the true ones.
"""

import matplotlib.pyplot as plt
import numpy as np

import bionica
from bionica.metrics import match_sources

rng = np.random.default_rng(0)
wavelengths = np.linspace(400, 700, 120)
pure = 0.3 + np.exp(-(((wavelengths[:, None] - [470, 530, 590]) / 120) ** 2))
amounts = rng.dirichlet([0.5, 0.5, 0.5], 300)
X = amounts @ pure.T + 0.002 * rng.standard_normal((300, 120))
fit = bionica.separate(X, random_state=0)
order = match_sources(amounts, fit.transform(X), by="correlation").permutation

figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained", sharex=True)
axes[0].plot(wavelengths, X[:40].T, color="0.6", linewidth=0.6)
axes[0].set(title="40 of 300 mixtures", xlabel="nm", ylabel="absorbance")
for true, found, color in zip(
    pure.T, fit.spectra_[order], ("#0072B2", "#009E73", "#D55E00"), strict=True
):
    axes[1].plot(
        wavelengths, found * (found @ true) / (found @ found), color=color, linewidth=2
    )
    axes[1].plot(wavelengths, true, "k:", linewidth=1)
axes[1].set(title="spectra found, and the true ones (dotted)", xlabel="nm")
