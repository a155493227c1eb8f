"""The command line and what an import costs."""

import subprocess
import sys

from typer.testing import CliRunner

from bionica.cli import app


def test_help_names_the_commands():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.output


def loaded_by(code):
    script = f"import sys; {code}; print(*sys.modules)"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_import_brings_nothing_heavy_and_nothing_optional():
    assert not {"sklearn", "numba", "scipy", "typer"} & set(loaded_by("import bionica"))
    optional = {"matplotlib", "skimage", "h5py", "zarr", "pyarrow", "dask", "rich"}
    ours = set(loaded_by("from bionica import TwoCompartmentNICA, datasets, metrics, load"))
    theirs = set(
        loaded_by("import sklearn.utils.validation, scipy.optimize, scipy.special, numba")
    )  # these bring pandas, if it is there
    assert not optional & (ours - theirs)


def test_module_runs():
    run = subprocess.run([sys.executable, "-m", "bionica", "--help"], capture_output=True, text=True, check=True)
    assert "demo" in run.stdout
