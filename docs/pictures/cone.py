"""Correlated sources: whitening bends the angle of the cone, the smallest cone around
the data does not.
"""

import matplotlib.pyplot as plt
import numpy as np

from bionica import BatchNICA, MinimumVolumeCone
from bionica.datasets import copula_uniform

rng = np.random.default_rng(3)
S = copula_uniform(3000, 2, rho=0.7, rng=rng)
A = np.array([[1.0, 0.3, 0.5, 0.2], [0.25, 0.9, 0.1, 0.6]])
X = S @ A + 0.02 * rng.standard_normal((3000, 4))

figure, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
for ax, estimator in zip(
    axes,
    (BatchNICA(2, random_state=0), MinimumVolumeCone(2, random_state=0)),
    strict=True,
):
    mixing = estimator.fit(X).mixing_
    ax.plot(X[:, 0], X[:, 1], ".", markersize=2, alpha=0.4, color="#1f77b4")
    for j, column in enumerate(mixing.T):
        edge = column[:2] / np.linalg.norm(column[:2]) * 5.2
        ax.plot(
            [0, edge[0]],
            [0, edge[1]],
            color="#c44e52",
            linewidth=2,
            label="found" if j == 0 else None,
        )
    for j, row in enumerate(A):
        edge = row[:2] / np.linalg.norm(row[:2]) * 5.2
        ax.plot(
            [0, edge[0]],
            [0, edge[1]],
            "k--",
            linewidth=1,
            label="true" if j == 0 else None,
        )
    ax.set_title(type(estimator).__name__, fontsize=10)
    ax.set(
        xlabel="mixture 1",
        ylabel="mixture 2",
        aspect="equal",
        xlim=(-0.2, 5),
        ylim=(-0.2, 5),
    )
axes[0].legend(frameon=False, loc="lower right")
