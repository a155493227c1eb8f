"""Nonnegative independent component analysis, one sample at a time."""

from . import datasets, metrics
from .estimators import (
    DivergenceError,
    InterneuronNICA,
    NonnegativePCA,
    TwoCompartmentNICA,
    TwoLayerNSM,
    load,
)

__version__ = "0.1.0"

__all__ = [
    "DivergenceError",
    "InterneuronNICA",
    "NonnegativePCA",
    "TwoCompartmentNICA",
    "TwoLayerNSM",
    "datasets",
    "load",
    "metrics",
]
