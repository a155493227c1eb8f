"""
A real image, and doubts
========================

Indian Pines, 145 by 145 pixels and 200 bands: abundance maps of three materials and
their spectra. They explain all but 1 % of the energy, and one of them is the woods of
the ground survey (ROC area of at least 0.95). But `diagnose` doubts the fit: the image
has more materials than three, and the others are in the maps and spectra of these.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score
from tensorly.datasets import load_indian_pines

from bionica import MinimumVolumeCone
from bionica.mixtures import plot

# %% The cube comes with tensorly, which has the classes of the ground survey too. One
# row of X is one pixel.
pines = load_indian_pines()
cube = np.asarray(pines.tensor, dtype=float)
classes = np.asarray(pines.ticks[0])
wavelength = np.array(pines.ticks[1])
height, width, bands = cube.shape
X = cube.reshape(-1, bands)

# %% Abundances sum to one. The ground survey has 16 classes, most of them crops with
# similar spectra.
cone = MinimumVolumeCone(3, normalize="sum", random_state=0).fit(X)
Y = cone.transform(X)
unexplained = np.sum((X - Y @ cone.spectra_) ** 2) / np.sum(X**2)
print(f"unexplained energy: {unexplained:.2%}")
assert unexplained < 0.01

# %% What speaks against the fit. The number of sources is not a property of such an
# image: with four the fit is not reproducible, and rounding decides where it ends.
diagnosis = cone.diagnose(X)
print(diagnosis)
assert not diagnosis.ok

# %%
# Class 14 is woods; class 0 was not surveyed.
surveyed = classes.ravel() > 0
woods = [roc_auc_score(classes.ravel()[surveyed] == 14, y[surveyed]) for y in Y.T]
print("ROC area of woods:", np.round(woods, 3))
assert max(woods) > 0.95

# %%
names = [f"material {i + 1}" for i in range(3)]
names[np.argmax(woods)] += ": woods"
figure, axes = plt.subplots(1, 3, figsize=(8, 3), layout="constrained")
plot.images(Y, (height, width), names=names, axes=axes)

# %%
order = np.argsort(wavelength)
plot.spectra(cone.mixing_[order], wavelength[order], names=names, label="nm")
