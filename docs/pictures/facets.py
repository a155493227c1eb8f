"""The cone of three sources, cut by a plane: a triangle whose sides are the facets."""

import matplotlib.pyplot as plt
import numpy as np

from bionica import BatchNICA, MinimumVolumeCone
from bionica.datasets import copula_uniform

rng = np.random.default_rng(1)
S = copula_uniform(20_000, 3, rho=0.6, rng=rng)
A = rng.random((8, 3)) + 0.1
X = S @ A.T + 0.01 * rng.standard_normal((20_000, 8))

# Coordinates in which the true cone is the orthant; dividing by their sum cuts it by a
# plane.
corners = np.array([[0, 0], [1, 0], [0.5, 0.87]])


def cut(points):
    """Place points of the orthant in the triangle of their shares."""
    return points / points.sum(axis=1, keepdims=True) @ corners


unmix = np.linalg.pinv(A)
U = X @ unmix.T
U = U[U.sum(axis=1) > 0.3]
figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.7), layout="constrained")
for ax, estimator in zip(
    axes,
    (BatchNICA(3, random_state=0), MinimumVolumeCone(3, random_state=0)),
    strict=True,
):
    ax.plot(*cut(U).T, ".", ms=1.2, alpha=0.25, color="#1f77b4")
    for points, style, label in (
        (np.eye(3), "k--", "true"),
        ((unmix @ estimator.fit(X).mixing_).T, "C3-", "found"),
    ):
        triangle = cut(points)
        ax.plot(*triangle[[0, 1, 2, 0]].T, style, lw=1.6, label=label)
    ax.set_title(type(estimator).__name__)
    ax.set(xlim=(-0.12, 1.12), ylim=(-0.08, 0.98), xticks=[], yticks=[], aspect="equal")
axes[1].legend(frameon=False, loc="upper right")
