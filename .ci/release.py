"""Is this tree fit for release? Build sdist and wheel, try the wheel in an empty
environment, and run the tests against it.

    python .ci/release.py                 # some 10 minutes on two cores, most of them tests
    python .ci/release.py --no-tests      # 3 minutes

dist/ gets the two files. Nothing is uploaded. The exit status is 1 if a step failed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Data for the lines of README.md.
GIVEN = """
import numpy as np
from bionica.datasets import mix, sparse_uniform
X, _ = mix(sparse_uniform(20_000, 3, rng=0), n_mixtures=5, rng=0)
blocks = np.array_split(X, 10)
for name in ("spectra", "a", "b"): np.savetxt(f"{name}.csv", X, delimiter=",")
"""


def call(*command, cwd=None):
    """Run a command without this tree's source on its path."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    print("+", *command, file=sys.stderr, flush=True)
    subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=environment | {"OPENBLAS_NUM_THREADS": "1"},
        check=True,
    )


def environment(folder, *packages):
    """Create an environment with these packages and return its folder of commands."""
    venv.create(folder, with_pip=True)
    call(folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages)
    return folder / "bin"


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    build = environment(folder / "build", "build", "twine")
    call(build / "python", "-m", "build", "--outdir", dist, ROOT)
    call(build / "python", "-m", "twine", "check", "--strict", *dist.iterdir())
    (wheel,) = dist.glob("*-py3-none-any.whl")
    user = environment(folder / "user", f"{wheel}[plot]")
    readme = (ROOT / "README.md").read_text()
    code = "".join(re.findall(r"```python\n(.*?)```", readme, re.DOTALL))
    call(user / "python", "-c", GIVEN + code, cwd=folder)
    for line in re.findall(
        r"^bionica [^#\n]*",
        "".join(re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)),
        re.MULTILINE,
    ):
        if "reproduce" not in line:  # many minutes; the tests run it with few samples
            call("sh", "-c", f"PATH={user}:$PATH; {line}", cwd=folder)
    if "--no-tests" not in sys.argv:
        tester = environment(folder / "tester", f"{wheel}[dev]")
        tree = shutil.copytree(
            ROOT,
            folder / "tree",
            ignore=shutil.ignore_patterns("src", ".*", "dist", "_build"),
        )
        call(
            tester / "python",
            "-m",
            "pytest",
            "-q",
            "-n",
            "2",
            "--dist",
            "worksteal",
            "-m",
            "not slow",
            "tests",
            cwd=tree,
        )
print("fit for release:", *sorted(path.name for path in (ROOT / "dist").iterdir()))
