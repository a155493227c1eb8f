"""
Four notes in a spectrogram
===========================

The power spectrogram of four notes that sound at different times is unmixed into the
notes: when each sounds, and its harmonics (correlation at least 0.95).
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import get_window, stft

from bionica import BatchNICA
from bionica.metrics import match_sources
from bionica.mixtures import plot

# %%
# Notes C, E, G and B, each on and off at random, with five harmonics.
rng = np.random.default_rng(0)
rate = 8000
seconds = 20
t = np.arange(rate * seconds) / rate
envelopes = []
sound = np.zeros_like(t)
for pitch in (261.6, 329.6, 392.0, 493.9):
    on = np.repeat(rng.random(seconds * 4) < 0.4, rate // 4) * np.tile(
        np.exp(-np.arange(rate // 4) / 1200), seconds * 4
    )
    note = sum(
        np.sin(2 * np.pi * pitch * h * t + rng.uniform(0, 6)) / h for h in range(1, 6)
    )
    sound += on * note
    envelopes.append(on)
sound += 1e-3 * rng.standard_normal(len(t))

# %%
# One row of X is one moment, one column is one frequency.
frequencies, moments, Z = stft(sound, rate, nperseg=1024, noverlap=768)
X = (np.abs(Z) ** 2).T[:, frequencies < 2600]
nica = BatchNICA(4, random_state=0).fit(X)
Y = nica.transform(X)

window = get_window("hann", 1024)
sample = np.minimum((moments * rate).astype(int), len(t) - 1)
S = np.stack(
    [
        np.convolve(e**2, window**2 / np.sum(window**2), "same")[sample]
        for e in envelopes
    ],
    axis=1,
)
match = match_sources(S, Y, by="correlation")
print("correlations with the true loudness:", match.correlation.round(3))
assert match.correlation.min() > 0.95

# %%
figure, axes = plt.subplots(
    3, 1, figsize=(7.5, 8.5), layout="constrained", height_ratios=(1.2, 1.3, 1)
)
shown = moments < 8
axes[0].pcolormesh(
    moments[shown],
    frequencies[frequencies < 2600],
    10 * np.log10(X[shown].T + 1e-9),
    vmin=-70,
)
axes[0].set(title="spectrogram", ylabel="Hz")
plot.sources(
    Y[shown][:, match.permutation],
    moments[shown],
    names=["C", "E", "G", "B"],
    ax=axes[1],
)
plot.spectra(
    nica.mixing_[:, match.permutation],
    frequencies[frequencies < 2600],
    names=["C", "E", "G", "B"],
    label="Hz",
    ax=axes[2],
)
