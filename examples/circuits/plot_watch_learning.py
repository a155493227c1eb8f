"""
Watching a network learn
========================

The outputs of Algorithm 2, a local network of the paper with untuned rates, turn into
the quadrant of nonnegative numbers within a few thousand samples, and its lateral
weights with them (error below 0.1).
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation

from bionica import TwoCompartmentNICA
from bionica.datasets import sparse_uniform
from bionica.metrics import permutation_error

# %%
# Two sources, so that the outputs can be drawn. After each chunk the weights are kept.
S = sparse_uniform(6000, 2, rng=1)
X = S @ np.array([[1.0, 0.6], [-0.4, 0.8]]).T
network = TwoCompartmentNICA(2, random_state=3)
frames = []
for end in np.unique(np.geomspace(50, 6000, 40).astype(int)):
    network.partial_fit(X[network.n_samples_seen_ if frames else 0 : end])
    frames.append((end, network.components_ @ X[:1500].T, network.W_zz_.copy()))
error = permutation_error(S[:1500], np.maximum(frames[-1][1].T, 0))
print(f"error after 6,000 samples: {error:.3f}")
assert error < 0.1

# %%
figure, (cloud, matrix) = plt.subplots(
    1, 2, figsize=(7, 3.4), layout="constrained", width_ratios=(1.3, 1)
)
(points,) = cloud.plot([], [], ".", ms=2)
cloud.axhline(0, color="0.6", lw=0.8)
cloud.axvline(0, color="0.6", lw=0.8)
cloud.set(xlim=(-2, 5), ylim=(-2, 5), xlabel="output 1", ylabel="output 2")
image = matrix.imshow(frames[0][2], cmap="PuOr", vmin=-2, vmax=2)
matrix.set(title="$W_{zz}$", xticks=[], yticks=[])


def draw(frame):
    """Draw the outputs and the lateral weights after some samples."""
    n, Y, W = frame
    points.set_data(*Y)
    image.set_data(W)
    cloud.set_title(f"after {n} samples")


animation = FuncAnimation(figure, draw, frames, interval=200)
