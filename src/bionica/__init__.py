"""Nonnegative independent component analysis, one sample at a time."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets, io, metrics, plot, reference, sweep
    from .cone.minimum_volume_cone import MinimumVolumeCone
    from .errors import BionicaError, ClusterError, DivergenceError, ModelFileError
    from .model_file import load
    from .networks.cone_network import ConeNetwork
    from .networks.interneuron import InterneuronNICA
    from .networks.local_nica import LocalNICA
    from .networks.nonnegative_pca import NonnegativePCA
    from .networks.two_compartment import TwoCompartmentNICA
    from .networks.two_layer_nsm import TwoLayerNSM
    from .offline.batch_nica import BatchNICA
    from .offline.noncentered_whitener import NoncenteredWhitener
    from .separation import separate
    from .streaming_nica import StreamingNICA
    from .trust.diagnosis import Diagnosis

__version__ = "0.2.0"

#: Public names and their modules: importing scikit-learn and Numba takes most of a second, so that it waits until a name is used.
_MODULE_OF = {
    "BatchNICA": "offline.batch_nica",
    "BionicaError": "errors",
    "ClusterError": "errors",
    "ConeNetwork": "networks.cone_network",
    "Diagnosis": "trust.diagnosis",
    "DivergenceError": "errors",
    "InterneuronNICA": "networks.interneuron",
    "LocalNICA": "networks.local_nica",
    "MinimumVolumeCone": "cone.minimum_volume_cone",
    "ModelFileError": "errors",
    "NoncenteredWhitener": "offline.noncentered_whitener",
    "NonnegativePCA": "networks.nonnegative_pca",
    "StreamingNICA": "streaming_nica",
    "TwoCompartmentNICA": "networks.two_compartment",
    "TwoLayerNSM": "networks.two_layer_nsm",
    "load": "model_file",
    "separate": "separation",
}
_MODULES = ("datasets", "io", "metrics", "plot", "reference", "sweep")

__all__ = [
    "BatchNICA", "BionicaError", "ClusterError", "ConeNetwork", "Diagnosis", "DivergenceError", "InterneuronNICA",
    "LocalNICA", "MinimumVolumeCone", "ModelFileError", "NoncenteredWhitener", "NonnegativePCA", "StreamingNICA",
    "TwoCompartmentNICA", "TwoLayerNSM", "datasets", "io", "load", "metrics", "plot", "reference",
    "separate", "sweep",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _MODULE_OF:
        value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
