from . import datasets as datasets
from . import io as io
from . import metrics as metrics
from . import plot as plot
from . import reference as reference
from . import sweep as sweep
from .cone.minimum_volume_cone import MinimumVolumeCone as MinimumVolumeCone
from .errors import BionicaError as BionicaError
from .errors import ClusterError as ClusterError
from .errors import DivergenceError as DivergenceError
from .errors import ModelFileError as ModelFileError
from .model_file import load as load
from .networks.interneuron import InterneuronNICA as InterneuronNICA
from .networks.local_nica import LocalNICA as LocalNICA
from .networks.nonnegative_pca import NonnegativePCA as NonnegativePCA
from .networks.two_compartment import TwoCompartmentNICA as TwoCompartmentNICA
from .networks.two_layer_nsm import TwoLayerNSM as TwoLayerNSM
from .offline.batch_nica import BatchNICA as BatchNICA
from .offline.noncentered_whitener import NoncenteredWhitener as NoncenteredWhitener
from .separation import separate as separate
from .streaming_nica import StreamingNICA as StreamingNICA
from .trust.diagnosis import Diagnosis as Diagnosis

__all__: list[str]
__version__: str
