"""Two mixtures: as they are, whitened, and turned into the quadrant."""

import matplotlib.pyplot as plt
import numpy as np

from bionica import BatchNICA, NoncenteredWhitener

rng = np.random.default_rng(2)
S = np.where(rng.random((1500, 2)) < 0.4, 0, rng.random((1500, 2)))
X = S @ np.array([[1.0, 0.4], [0.3, 0.9]])
Z = NoncenteredWhitener().fit_transform(X)
Y = BatchNICA(2, random_state=0).fit(X).components_ @ X.T

figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
titles = (
    "mixtures x: a cone",
    "whitened, mean kept: an angle of 90°",
    "turned: nonnegative",
)
for ax, points, title in zip(axes, (X, Z, Y.T), titles, strict=True):
    ax.plot(*points.T, ".", markersize=2, alpha=0.5, color="#1f77b4")
    ax.axhline(0, color="#888888", linewidth=0.8)
    ax.axvline(0, color="#888888", linewidth=0.8)
    ax.set_title(title, fontsize=10)
    ax.set_aspect("equal", adjustable="datalim")
