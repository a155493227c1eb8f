"""The compiled loop and the same lines interpreted agree to 1e-10, outputs and weights."""

import os
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import sys
import numpy as np
import bionica
from bionica.networks.rule import to_arrays

rng = np.random.default_rng(0)
X = (rng.uniform(0, 3.1, (300, 3)) * (rng.random((300, 3)) < 0.5)) @ rng.standard_normal((3, 4))
found = {}
for name in ("InterneuronNICA", "TwoCompartmentNICA", "TwoLayerNSM", "NonnegativePCA"):
    rules = [{"precondition": None, "eta0": 0.01}, {"precondition": "natural"}] if "NICA" in name else [{}]
    for dynamics in ("exact", "gradient"):
        for number, rule in enumerate(rules):
            network = getattr(bionica, name)(3, dynamics=dynamics, random_state=0, **rule)
            key = f"{name}/{dynamics}/{number}/"
            found[key + "outputs"] = network.partial_fit_transform(X)
            found |= {key + part: a for part, a in to_arrays(network._state).items() if a.dtype.kind == "f"}
np.savez(sys.argv[1], **found)
"""


def test_compiled_equals_interpreted(tmp_path):
    results = []
    for off in ("0", "1"):
        path = tmp_path / f"{off}.npz"
        subprocess.run(
            [sys.executable, "-c", SCRIPT, str(path)], check=True, env={**os.environ, "NUMBA_DISABLE_JIT": off}
        )
        results.append(np.load(path))
    compiled, interpreted = results
    assert compiled.files == interpreted.files
    for name in compiled.files:
        scale = max(np.abs(compiled[name]).max(initial=0.0), 1.0)
        assert interpreted[name] == pytest.approx(compiled[name], rel=1e-10, abs=1e-10 * scale), name
