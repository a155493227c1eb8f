"""Whether this machine has an NVIDIA GPU, as far as one can tell without any package for it."""

import shutil
from pathlib import Path

_DEVICES = Path("/dev")


def gpu_is_visible() -> bool:
    """Whether the driver shows a GPU as a device (Linux), or its tool nvidia-smi is installed (any system)."""
    return any(_DEVICES.glob("nvidia[0-9]*")) or shutil.which("nvidia-smi") is not None
