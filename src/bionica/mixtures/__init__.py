"""Separators, to use: cones, nonnegative ICA, and the verdict on a fit."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["plot", "report", "verdict"]
)
