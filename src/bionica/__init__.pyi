from . import circuits as circuits
from . import datasets as datasets
from . import io as io
from . import metrics as metrics
from . import mixtures as mixtures
from .circuits import reference as reference
from .circuits import sweep as sweep
from .circuits.interneuron import InterneuronNICA as InterneuronNICA
from .circuits.local_nica import LocalNICA as LocalNICA
from .circuits.nonnegative_pca import NonnegativePCA as NonnegativePCA
from .circuits.two_compartment import TwoCompartmentNICA as TwoCompartmentNICA
from .circuits.two_layer_nsm import TwoLayerNSM as TwoLayerNSM
from .core.errors import BionicaError as BionicaError
from .core.errors import ClusterError as ClusterError
from .core.errors import DivergenceError as DivergenceError
from .core.errors import ModelFileError as ModelFileError
from .core.model_file import load as load
from .mixtures.cone.minimum_volume_cone import MinimumVolumeCone as MinimumVolumeCone
from .mixtures.nica.batch import BatchNICA as BatchNICA
from .mixtures.nica.streaming import StreamingNICA as StreamingNICA
from .mixtures.nica.whitener import NoncenteredWhitener as NoncenteredWhitener
from .mixtures.separate import separate as separate
from .mixtures.verdict.diagnosis import Diagnosis as Diagnosis

__all__: list[str]
__version__: str
