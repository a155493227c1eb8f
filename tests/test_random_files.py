"""Random valid files are read as other libraries read them, or the reader says what it left out or asks: never silently else."""

import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

for package in ("h5py", "zarr", "pandas", "tifffile", "PIL", "openpyxl", "defusedxml"):
    pytest.importorskip(package)

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from files import compare  # noqa: E402


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1))
@pytest.mark.filterwarnings("ignore")
def test_no_silent_difference(seed):
    with tempfile.TemporaryDirectory() as folder:
        kind, outcome, words = compare(seed, Path(folder))
    assert outcome != "SILENT", (kind, words)
