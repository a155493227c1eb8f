"""
Stains in a tissue section
==========================

In optical density the stains of a section add up: hematoxylin (nuclei) and DAB (the
antibody) come out of the three colours of a photograph without reference colours, and
agree with a calibrated colour deconvolution (correlation at least 0.98).
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import color, data

from bionica import MinimumVolumeCone
from bionica.metrics import match_sources

# %%
# Optical density: minus the logarithm of the intensity, as Beer's law asks.
photograph = data.immunohistochemistry()
shape = photograph.shape[:2]
X = -np.log10((photograph.reshape(-1, 3) + 1.0) / 256)

# %%
# A few pixels are dirt or saturated. They may lie outside of the cone.
cone = MinimumVolumeCone(2, outliers=0.01, random_state=0).fit(X)
Y = cone.transform(X)

# %%
# Ruifrok and Johnston's calibrated matrix, which scikit-image has, is the reference.
reference = np.maximum(color.rgb2hed(photograph)[..., [0, 2]].reshape(-1, 2), 0)
match = match_sources(reference, Y, by="correlation")
print("correlations with the calibrated stains:", match.correlation.round(3))
assert match.correlation.min() > 0.98

# %%
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
axes[0].imshow(photograph)
pictures = (photograph, *Y[:, match.permutation].T)
for ax, picture, title in zip(
    axes, pictures, ("section", "hematoxylin", "DAB"), strict=True
):
    if picture.ndim == 1:
        ax.imshow(
            picture.reshape(shape), cmap="magma", vmax=np.quantile(picture, 0.999)
        )
    ax.set(xticks=[], yticks=[], title=title)
