"""
A fermentation and its glucose
==============================

Raman spectra of a fermentation, one every 75 s: without any calibration sample, one of
three outputs follows the glucose that the laboratory measured (correlation 0.95).
"""

import matplotlib.pyplot as plt
import numpy as np
from chemotools.datasets import load_fermentation_test
from scipy.ndimage import grey_opening, uniform_filter1d

from bionica import MinimumVolumeCone

# %% The usual preparation of Raman spectra: the band from 950 to 1550 / cm, without the
# baseline of each spectrum.
spectra, laboratory = load_fermentation_test()
shift = spectra.columns.to_numpy(float)
band = (shift > 950) & (shift < 1550)
X = spectra.to_numpy(float)[:, band]
X = np.maximum(X - uniform_filter1d(grey_opening(X, (1, 60)), 60, axis=1), 0)

# %%
cone = MinimumVolumeCone(3, random_state=0).fit(X)
Y = cone.transform(X)

# %%
# One scale, from the reference, turns the output into grams per litre.
hours = np.arange(len(X)) * 1.25 / 60
row = np.searchsorted(hours, laboratory["time"]).clip(max=len(X) - 1)
glucose = laboratory["glucose"].to_numpy()
correlations = [np.corrcoef(y[row], glucose)[0, 1] for y in Y.T]
print("correlations of the outputs with glucose:", np.round(correlations, 3))
assert max(correlations) > 0.94

# %%
y = Y[:, np.argmax(correlations)]
figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.plot(hours, y * (y[row] @ glucose) / (y[row] @ y[row]), lw=0.8, label="output")
ax.plot(laboratory["time"], glucose, "ko", ms=4, label="laboratory")
ax.set(xlabel="hours", ylabel="glucose, g/l")
ax.legend(frameon=False)
