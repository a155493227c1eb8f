"""Nonnegative sources, the paper's and others, and matrices to mix them with.

X and S are (n_samples, n_features) everywhere. A is (n_mixtures, n_sources), so that X = S A'.

Every source has minimum 0 and variance 1, as the theory asks (nonnegative, well grounded, of unit variance):

- *drawn from a distribution*, as in the paper: in expectation. The sample variance of n of them differs from 1 by O(1/sqrt(n)).
- *images*: to rounding, over the pixels given.

`rng` is None (fresh entropy), an integer (the same draw every time) or a `numpy.random.Generator` (which is advanced).
"""

from .image_sources import natural_images
from .synthetic import copula_uniform, mix, odors, paper_mixing, random_sources, sparse_uniform

__all__ = ["copula_uniform", "mix", "natural_images", "odors", "paper_mixing", "random_sources", "sparse_uniform"]
