"""`bionica doctor` tells what is there and whether it works."""

import importlib
import json
import sys

import numpy as np
from typer.testing import CliRunner

from bionica.cli import app

module = importlib.import_module("bionica.cli.doctor")  # the command hides the module of its name


def refuse(*_):
    raise RuntimeError("cannot cache function 'x':\nno locator available")


def test_doctor_passes_and_names_what_is_there(monkeypatch, tmp_path):
    """The package that is imported, not another one behind it on the path."""
    (tmp_path / "numpy-0.1.dist-info").mkdir()
    (tmp_path / "numpy-0.1.dist-info" / "METADATA").write_text("Name: numpy\nVersion: 0.1\n")
    monkeypatch.setattr("sys.path", [*sys.path, str(tmp_path)])
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert result.exit_code == 0, result.output
    findings = json.loads(result.output)
    assert findings["self test"].startswith("passed")
    assert f"numpy {np.__version__}" in findings["required"]
    monkeypatch.setattr(module, "self_test", lambda: "FAILED: error 1")
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 1


def test_a_cache_that_cannot_be_written_is_a_finding(monkeypatch, tmp_path):
    """A read-only package, no home, or a full disk: Numba raises RuntimeError, which must not end in a traceback."""
    monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.setattr("bionica.StreamingNICA.fit", refuse)
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert result.exit_code == 1
    findings = json.loads(result.output)
    assert findings["self test"].startswith("FAILED: RuntimeError")
    assert "NUMBA_CACHE_DIR" in findings["compiled code"]
