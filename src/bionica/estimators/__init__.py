"""The scikit-learn face of the networks and of the offline methods."""

from ._choice import Choice, separate
from ._diagnosis import Diagnosis
from ._input import DivergenceError
from ._model_file import ModelFileError, load
from .batch_nica import BatchNICA
from .cone_network import ConeNetwork
from .interneuron_nica import InterneuronNICA
from .minimum_volume_cone import MinimumVolumeCone
from .noncentered_whitener import NoncenteredWhitener
from .npca import NonnegativePCA
from .nsm import TwoLayerNSM
from .offline_nica import OfflineNICA
from .streaming_nica import StreamingNICA
from .two_compartment_nica import TwoCompartmentNICA

__all__ = [
    "BatchNICA",
    "Choice",
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
    "load",
    "separate",
]
