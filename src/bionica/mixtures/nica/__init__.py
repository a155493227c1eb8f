"""Nonnegative ICA without neurons: whitening, then a rotation into the orthant."""
