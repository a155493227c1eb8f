"""Nonnegative independent component analysis, one sample at a time."""

import lazy_loader

__version__ = "0.2.0"

# __init__.pyi lists the public names. Each is imported when it is used first, because
# importing scikit-learn and Numba takes most of a second.
__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
