"""Models of neurons, to study: the networks of the paper, and those beside them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["paper", "plain", "plot", "reference", "sweep"]
)
