"""
Spectra of a reaction, with and without a known spectrum
========================================================

A reacts to B, and B to C. The last product is always there once it has been made, so
that concentrations alone do not identify the spectra. They are nonnegative, too: with
both walls the concentrations are right (correlation above 0.99), and a spectrum that is
known helps where they are not.
"""

import matplotlib.pyplot as plt
import numpy as np

from bionica import MinimumVolumeCone
from bionica.metrics import match_sources
from bionica.mixtures import plot

# %%
# First-order kinetics over two hours, at 121 wavelengths.
rng = np.random.default_rng(0)
wavelength = np.linspace(400, 700, 121)
time = np.arange(0, 120, 0.5)


def band(centre, width, height=1.0):
    """Return a Gaussian band."""
    return height * np.exp(-(((wavelength - centre) / width) ** 2) / 2)


spectra = np.stack(
    [
        band(450, 18) + band(560, 25, 0.3),
        band(510, 22) + band(420, 12, 0.4),
        band(620, 30) + band(480, 15, 0.2),
    ]
)


def concentrations(k1, k2):
    """Return A, B and C over time."""
    first = np.exp(-k1 * time)
    last = np.exp(-k2 * time)
    second = k1 / (k2 - k1) * (first - last)
    return np.stack([first, second, 1 - first - second], axis=1)


C = concentrations(0.2, 0.05)
X = C @ spectra + 0.003 * rng.standard_normal((240, 121))

# %%
cone = MinimumVolumeCone(3, random_state=0).fit(X)
match = match_sources(C, cone.transform(X), by="correlation")
print("mixing matrix kept nonnegative:", cone.nonnegative_mixing_)
print("correlations:", match.correlation.round(4))
assert match.correlation.min() > 0.99

# %% If B decays faster than it is made, it is never abundant, and its spectrum is
# uncertain. Here it was measured before.
slow = concentrations(0.05, 0.1)
mixed = slow @ spectra + 0.003 * rng.standard_normal((240, 121))
results = {}
for name, known in (("nothing known", None), ("spectrum of B known", spectra[1:2].T)):
    Y = MinimumVolumeCone(3, known_mixing=known, random_state=0).fit_transform(mixed)
    results[name] = match_sources(slow, Y, by="correlation")
    print(name, results[name].correlation.round(4))
assert (
    results["spectrum of B known"].correlation.min()
    > results["nothing known"].correlation.min()
)

# %%
figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 6.5), layout="constrained")
Y = cone.transform(X)
for i, p in enumerate(match.permutation):
    top.plot(time, C[:, i], "k--", lw=0.8)
    top.plot(time, Y[:, p] * match.scale[i], label="ABC"[i])
top.set(title="concentrations: recovered, and true (dashed)", xlabel="minutes")
top.legend(frameon=False)
plot.spectra(
    cone.mixing_[:, match.permutation],
    wavelength,
    names=list("ABC"),
    label="nm",
    ax=bottom,
)
bottom.set_title("recovered spectra")
