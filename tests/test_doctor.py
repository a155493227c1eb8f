"""`bionica doctor` tells what is there and whether it works."""

import importlib
import json

import pytest
from typer.testing import CliRunner

from bionica.cli import app

module = importlib.import_module("bionica.cli.doctor")  # the command hides the module of its name


def test_doctor_passes_and_names_what_is_there():
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert result.exit_code == 0, result.output
    findings = json.loads(result.output)
    assert findings["self test"].startswith("passed")
    assert findings["required"]["numpy"] != "missing"
    assert set(findings["optional"]) >= {"matplotlib", "h5py", "dask", "numba-cuda"}
    assert "loops in" in findings["compiled code"]


def test_doctor_for_people(monkeypatch):
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    assert "self test" in result.output
    monkeypatch.setattr(module, "self_test", lambda: "FAILED: error 1")
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 1


def test_missing_packages_name_their_extra(monkeypatch):
    monkeypatch.setattr(module, "installed", lambda name: "missing")
    findings = module.examine()
    assert "bionica[io]" in findings["to install"]
    assert "not installed" in findings["GPU"]


@pytest.mark.parametrize("name", ["numpy", "no-such-package"])
def test_installed(name):
    assert (module.installed(name) == "missing") == (name == "no-such-package")
