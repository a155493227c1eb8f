"""The scikit-learn face of the networks and of the offline methods."""

from ..cone.minimum_volume_cone import MinimumVolumeCone
from ..model_file import ModelFileError, load
from ..offline.batch_nica import BatchNICA
from ..offline.noncentered_whitener import NoncenteredWhitener
from ..offline.offline_nica import OfflineNICA
from ..samples import DivergenceError
from ..separation import Choice, separate
from ..trust.diagnosis import Diagnosis
from .cone_network import ConeNetwork
from .interneuron_nica import InterneuronNICA
from .npca import NonnegativePCA
from .nsm import TwoLayerNSM
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
