"""Two polygons of a reaction A -> B -> C: the samples inside, the nonnegative spectra
outside, and the cone between them.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull, HalfspaceIntersection

from bionica import MinimumVolumeCone

rng = np.random.default_rng(0)
wavelength = np.linspace(400, 700, 121)
t = np.linspace(0, 120, 240)
A = np.stack(
    [
        np.exp(-(((wavelength - c) / w) ** 2) / 2)
        for c, w in ((450, 25), (520, 30), (610, 35))
    ]
)
first = np.exp(-0.2 * t)
last = np.exp(-0.05 * t)
second = (last - first) / 0.75
C = np.stack([first, second, 1 - first - second], axis=1)
X = C @ A + 0.002 * rng.standard_normal((240, 121))

# Spectra of unit sum lie in a plane; its two leading directions around the mean are the
# axes of the picture.
P = np.linalg.svd(X, full_matrices=False)[2][:3].T
total = P.sum(axis=0)
mean = X.mean(axis=0) @ P
centre = mean / (mean @ total)
shares = X @ P / (X @ P @ total)[:, None] - centre
axes = np.linalg.svd(shares, full_matrices=False)[2][:2]


def plane(u):
    """Coordinates u (n, 3) of spectra in the plane."""
    return (u / (u @ total)[:, None] - centre) @ axes.T


samples = plane(X @ P)
# A point p of the plane is the spectrum P (centre + axes' p); it is nonnegative where
# all its channels are.
half_planes = np.hstack([-(P @ axes.T), -(P @ centre)[:, None]])
outer = HalfspaceIntersection(half_planes, np.zeros(2)).intersections
figure, axis = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
for points, color, label in (
    (outer, "0.75", "nonnegative spectra"),
    (samples, "#1f77b4", "samples"),
):
    hull = points[ConvexHull(points).vertices]
    axis.fill(*hull.T, color=color, alpha=0.35, label=label)
axis.plot(*samples.T, ".", ms=2, color="#1f77b4")
for edges, style, label in (
    (A @ P, "k--", "true"),
    (MinimumVolumeCone(3, random_state=0).fit(X).mixing_.T @ P, "C3-", "two walls"),
    (
        MinimumVolumeCone(3, nonnegative_mixing=False, random_state=0).fit(X).mixing_.T
        @ P,
        "C1:",
        "one wall",
    ),
):
    triangle = plane(edges)
    axis.plot(*triangle[[0, 1, 2, 0]].T, style, lw=1.6, label=label)
low = outer.min(axis=0)
high = outer.max(axis=0)
margin = 0.2 * (high - low)
axis.set(
    xticks=[],
    yticks=[],
    xlim=(low[0] - margin[0], high[0] + 2 * margin[0]),
    ylim=(low[1] - margin[1], high[1] + margin[1]),
)
axis.legend(frameon=False, loc="best")
