"""
Abundances in a hyperspectral image
===================================

Indian Pines, 145 by 145 pixels and 200 bands: abundance maps of six materials and their spectra, with less than 1 % of
the energy unexplained. No pure pixel is needed.
"""

import matplotlib.pyplot as plt
import numpy as np
from tensorly.datasets import load_indian_pines

from bionica import MinimumVolumeCone, plot

# %%
# The cube comes with tensorly. One row of X is one pixel. The darkest value of each band is a background, and is subtracted.
cube = np.asarray(load_indian_pines().tensor, dtype=float)
height, width, bands = cube.shape
X = cube.reshape(-1, bands)
X = X - np.quantile(X, 0.001, axis=0)

# %%
cone = MinimumVolumeCone(6, normalize="sum", random_state=0).fit(X)
Y = cone.transform(X)
unexplained = np.sum((X - Y @ cone.mixing_.T) ** 2) / np.sum(X**2)
print(f"unexplained energy: {unexplained:.2%}")
assert unexplained < 0.01

# %%
figure, axes = plt.subplots(2, 3, figsize=(7.5, 5.2), layout="constrained")
plot.images(Y, (height, width), names=[f"material {i + 1}" for i in range(6)], axes=axes)

# %%
plot.mixing(cone, names=[f"material {i + 1}" for i in range(6)], label="band")
