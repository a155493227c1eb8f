"""Nonnegative independent component analysis, one sample at a time."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets, io, metrics, plot, sweep
    from .estimators import (
        BatchNICA,
        ConeNetwork,
        Diagnosis,
        DivergenceError,
        InterneuronNICA,
        MinimumVolumeCone,
        ModelFileError,
        NoncenteredWhitener,
        NonnegativePCA,
        OfflineNICA,
        StreamingNICA,
        TwoCompartmentNICA,
        TwoLayerNSM,
        load,
        separate,
    )

__version__ = "0.1.0"

__all__ = [
    "BatchNICA",
    "ConeNetwork",
    "Diagnosis",
    "DivergenceError",
    "InterneuronNICA",
    "MinimumVolumeCone",
    "ModelFileError",
    "NoncenteredWhitener",
    "NonnegativePCA",
    "OfflineNICA",
    "StreamingNICA",
    "TwoCompartmentNICA",
    "TwoLayerNSM",
    "datasets",
    "io",
    "load",
    "metrics",
    "plot",
    "separate",
    "sweep",
]

_MODULES = {"datasets", "io", "metrics", "plot", "sweep"}


def __getattr__(name: str) -> Any:
    # scikit-learn and Numba take most of a second to import: who only asks for help or a version need not wait.
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in __all__:
        value = getattr(importlib.import_module(f"{__name__}.estimators"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
