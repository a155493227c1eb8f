"""
Photographs that correlate
==========================

Three photographs with correlations up to 0.34 come out of three mixtures: nonnegative
ICA leaves ghosts of the others, the minimum-volume cone does not (35 dB or more).
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import color, data, transform

from bionica import BatchNICA, MinimumVolumeCone
from bionica.metrics import match_sources, sinr

# %%
# Coffee, moon and rocket, all of 400 by 600 pixels; one column for each image.
shape = (400, 600)
pictures = [
    color.rgb2gray(data.coffee()),
    data.moon() / 255.0,
    color.rgb2gray(data.rocket()),
]
S = np.stack([transform.resize(picture, shape).ravel() for picture in pictures], axis=1)
S -= S.min(axis=0)
S /= S.std(axis=0)
print("correlations:", np.corrcoef(S.T)[np.triu_indices(3, 1)].round(2))

A = np.random.default_rng(1).random((3, 3))
X = S @ A.T

# %%
# Outputs have an arbitrary order, so they are matched with the sources for the picture.
recovered = {}
quality = {}
for estimator in (BatchNICA(3, random_state=0), MinimumVolumeCone(3, random_state=0)):
    Y = estimator.fit_transform(X)
    name = type(estimator).__name__
    recovered[name] = Y[:, match_sources(S, Y).permutation]
    quality[name] = sinr(S, Y)
    print(f"{name}: {quality[name]:.1f} dB")

# %%
rows = {"sources": S, "mixtures": X, **recovered}
figure, axes = plt.subplots(len(rows), 3, figsize=(8, 7.4), layout="constrained")
for line, (name, images) in zip(axes, rows.items(), strict=True):
    for ax, image in zip(line, images.T, strict=True):
        ax.imshow(
            image.reshape(shape), cmap="gray", vmin=0, vmax=np.quantile(image, 0.999)
        )
        ax.set(xticks=[], yticks=[])
    line[0].set_ylabel(name)

assert quality["MinimumVolumeCone"] >= 35
