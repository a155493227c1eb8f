"""The GPU's kernels, in Numba's simulator where there is no card: the same numbers as on the CPU."""

import json
import os
import subprocess
import sys

import pytest

from bionica.sweep.cuda import unavailable

SCRIPT = """
import json, sys
from bionica import sweep

plan = {
    "seeds": 2, "times": [40, 150], "dtype": sys.argv[1],
    "data": [{"kind": "sparse_uniform", "d": 3, "T": 250, "mixing": "d3"}],
    "network": [
        {"name": "TwoCompartmentNICA", "published": "d3", "grid": {"tau": [0.5, 0.8], "eta0": [0.05, 0.01]}},
        {"name": "InterneuronNICA", "published": "d3"},
        {"name": "TwoLayerNSM", "published": "d3"},
        {"name": "NonnegativePCA", "published": "d3"},
        {"name": "TwoCompartmentNICA", "label": "default"},
        {"name": "InterneuronNICA", "label": "untuned"},
        {"name": "LocalNICA"},
        {"name": "StreamingNICA"},
        {"name": "StreamingNICA", "label": "with a horizon", "params": {"horizon": 50}},
        {"name": "TwoCompartmentNICA", "label": "wild", "published": "d3",
         "params": {"eta0": 500.0, "decay": 0.0, "tau": 1000.0, "guards": False}},
    ],
}
print(json.dumps([dict(row) for row in sweep.run(plan, device=sys.argv[2], n_jobs=1)]))
"""


def table(dtype, device):
    simulated = {"NUMBA_ENABLE_CUDASIM": "1"} if device == "cuda" and unavailable() else {}
    command = [sys.executable, "-c", SCRIPT, dtype, device]
    done = subprocess.run(command, env={**os.environ, **simulated}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-9), pytest.param("float32", 2e-3, marks=pytest.mark.slow)]
)
def test_the_same_errors_as_on_the_cpu(dtype, tolerance):
    on_gpu, on_cpu = table(dtype, "cuda"), table(dtype, "cpu")
    assert len(on_gpu) == len(on_cpu) == 3 * 2 * 13
    for mine, theirs in zip(on_gpu, on_cpu, strict=True):
        same = ("network", "seed", "t", "eta0", "tau")
        assert [mine[name] for name in same] == [theirs[name] for name in same]
        (outcome, *sample), (expected, *before) = (row["status"].split(" at sample ") for row in (mine, theirs))
        assert outcome == expected
        if dtype == "float64" and sample:  # in float32 it is a matter of rounding
            assert int(sample[0]) - int(before[0]) in (0, 1)  # the output after a weight that overflowed
        if mine["status"] == "ok":
            assert mine["error"] == pytest.approx(theirs["error"], rel=tolerance)
            assert mine["repairs"] == theirs["repairs"]
    devices = {(row["network"], row["device"]) for row in on_gpu}
    assert {("untuned", "cuda"), ("TwoLayerNSM", "cuda"), ("NonnegativePCA", "cuda"), ("LocalNICA", "cuda")} <= devices
    assert any(row["status"].startswith("diverged at sample") for row in on_gpu)
