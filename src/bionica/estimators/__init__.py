"""The scikit-learn face of the networks."""

from .errors import DivergenceError
from .interneuron import InterneuronNICA
from .nonnegative_pca import NonnegativePCA
from .persistence import load
from .two_compartment import TwoCompartmentNICA
from .two_layer_nsm import TwoLayerNSM

__all__ = [
    "DivergenceError",
    "InterneuronNICA",
    "NonnegativePCA",
    "TwoCompartmentNICA",
    "TwoLayerNSM",
    "load",
]
