"""Nonnegative sources, the paper's and others, and matrices to mix them with.

X and S are (n_samples, n_features) everywhere. A is (n_mixtures, n_sources), so that X = S A'.

Every source has minimum 0 and variance 1, as the theory asks (nonnegative, well grounded, of unit variance):

- *drawn from a distribution*, as in the paper: the infimum of its support is 0 and its variance is 1 in expectation.
  Nothing is rescaled after drawing, so samples stay independent and the variance of n of them differs from 1 by O(1/sqrt(n)).
- *images*: of the pixels given. Each image has minimum 0 and variance 1 (with 1/n), to rounding.

`rng` is None (fresh entropy), an integer (the same draw every time) or a `numpy.random.Generator` (which is advanced).
"""

from .image_sources import natural_images
from .synthetic import copula_uniform, mix, odors, paper_mixing, random_sources, sparse_uniform

__all__ = ["copula_uniform", "mix", "natural_images", "odors", "paper_mixing", "random_sources", "sparse_uniform"]
