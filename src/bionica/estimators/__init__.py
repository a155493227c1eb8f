"""The scikit-learn face of the networks and of the offline methods."""

from .batch_nica import BatchNICA
from .errors import DivergenceError
from .interneuron import InterneuronNICA
from .nonnegative_pca import NonnegativePCA
from .offline import OfflineNICA
from .persistence import load
from .two_compartment import TwoCompartmentNICA
from .two_layer_nsm import TwoLayerNSM
from .whitener import NoncenteredWhitener

__all__ = [
    "BatchNICA",
    "DivergenceError",
    "InterneuronNICA",
    "NoncenteredWhitener",
    "NonnegativePCA",
    "OfflineNICA",
    "TwoCompartmentNICA",
    "TwoLayerNSM",
    "load",
]
