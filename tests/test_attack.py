"""A hundredth of the attacks, in processes of their own, because they fork."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("h5py")
pytest.importorskip("zarr")
pytest.importorskip("pyarrow")
pytest.importorskip("imageio")
pytest.importorskip("tifffile")

ATTACK = """
import sys
sys.path.insert(0, sys.argv[1])
from importlib import import_module
for row in import_module(f"attacks.{sys.argv[2]}").attack(1, 0.01):
    assert row.tries > 0, row
    # Times depend on what else the machine does.
    failures = [line for line in row.failures if not line.startswith("the slowest took")]
    print(row.area, row.what, row.tries, *failures, sep=chr(10) if failures else " ")
    assert not failures
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measures memory as Linux does")
@pytest.mark.parametrize(
    "area", ["files", *(pytest.param(area, marks=pytest.mark.slow) for area in ("kills", "models", "streams"))]
)
def test_a_little_of_the_attack_is_held_off(area):
    command = [sys.executable, "-c", ATTACK, str(Path(__file__).parents[1] / "benchmarks"), area]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
