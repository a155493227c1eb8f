"""Separators, to use: cones, nonnegative ICA, and the verdict on a fit."""
