"""
Three photographs, pixel by pixel
=================================

One pass of `StreamingNICA` over mixed photographs in random order, one pixel at a time
and from random weights, is enough to separate them (error below 0.01 of sources with
variance 1).
"""

import numpy as np

from bionica import StreamingNICA
from bionica.datasets import mix, natural_images, paper_mixing
from bionica.metrics import match_sources, permutation_error
from bionica.mixtures import plot

# %% Camera, brick and gravel come with scikit-image. The mixing matrix is the one of
# the paper's figure 5.
S = natural_images(size=None)
shape = (512, 512)
X, A = mix(S, paper_mixing("images"))

# %%
# `partial_fit_transform` would also return the outputs as each pixel arrived.
order = np.random.default_rng(0).permutation(len(X))
stream = StreamingNICA(3, random_state=0)
for block in np.array_split(X[order], 50):
    stream.partial_fit(block)

Y = stream.transform(X)
error = permutation_error(S, Y)
print(f"error {error:.4f} after {stream.n_samples_seen_:,} pixels")
assert error < 0.01

# %%
plot.images(X, shape, names=["mixture 1", "mixture 2", "mixture 3"])

# %%
plot.images(
    Y[:, match_sources(S, Y).permutation],
    shape,
    names=["source 1", "source 2", "source 3"],
)
# sphinx_gallery_thumbnail_number = 2

# %%
# Without the true sources, `diagnose` says whether to believe the result.
print(stream.diagnose(X))
