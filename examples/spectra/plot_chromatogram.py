"""
Overlapping chromatogram peaks
==============================

Four peaks that overlap in time, measured at 100 wavelengths: the minimum-volume cone
finds their profiles (correlation at least 0.98) and their spectra.
"""

import matplotlib.pyplot as plt
import numpy as np

from bionica import MinimumVolumeCone
from bionica.metrics import match_sources
from bionica.mixtures import plot

# %%
# Elution profiles over 600 times, and absorption spectra at 100 wavelengths.
rng = np.random.default_rng(4)
time = np.linspace(0, 10, 600)
S = np.stack(
    [np.exp(-0.5 * ((time - center) / 0.6) ** 2) for center in (3.0, 4.2, 5.4, 7.0)],
    axis=1,
)
S *= [1.0, 0.6, 0.9, 0.5]
wavelength = np.linspace(250, 450, 100)
spectra = np.stack(
    [
        np.exp(-0.5 * ((wavelength - c) / w) ** 2)
        for c, w in ((280, 20), (310, 25), (345, 22), (390, 30))
    ]
)
X = S @ spectra + 0.002 * rng.standard_normal((600, 100))

# %%
cone = MinimumVolumeCone(4, random_state=0).fit(X)
Y = cone.transform(X)
match = match_sources(S, Y, by="correlation")
print("correlations:", match.correlation.round(4))
assert match.correlation.min() > 0.98

# %%
figure, (top, left, right) = plt.subplots(3, 1, figsize=(7, 8.5), layout="constrained")
top.plot(time, X.sum(axis=1), color="0.3")
top.set(title="what the detector sees: all wavelengths together", xlabel="minutes")
for i, p in enumerate(match.permutation):
    left.plot(time, S[:, i], "k--", lw=0.8)
    left.plot(time, Y[:, p] * match.scale[i], label=f"peak {i + 1}")
left.set(title="profiles: found, and true (dashed)", xlabel="minutes")
left.legend(frameon=False)
plot.spectra(
    cone.mixing_[:, match.permutation],
    wavelength,
    names=[f"peak {i + 1}" for i in range(4)],
    label="nm",
    ax=right,
)
right.set_title("spectra found")
