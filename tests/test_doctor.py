"""`bionica doctor` tells what is there and whether it works."""

import importlib
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from bionica.cli import app
from bionica.networks.rule import rule_of

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


@pytest.mark.parametrize("there", [True, False])
def test_missing_packages_name_their_extra(monkeypatch, there):
    """That for a GPU only where there is one."""
    monkeypatch.setattr(module, "installed", lambda name: "missing")
    monkeypatch.setattr("bionica.engines.cuda.gpu_is_visible", lambda: there)
    findings = module.examine()
    assert "bionica[io]" in findings["to install"]
    assert ("bionica[cuda]" in findings["to install"]) == there
    assert ("bionica[cuda]" in findings["GPU"]) == there


@pytest.mark.parametrize("there", [True, False])
def test_a_sweep_advises_the_package_only_where_there_is_a_gpu(monkeypatch, there):
    from bionica.sweep import cuda

    def missing():
        raise ImportError("No module named 'numba.cuda'")

    monkeypatch.setattr(cuda, "cuda", missing)
    monkeypatch.setattr(cuda.gpu, "gpu_is_visible", lambda: there)
    assert ("bionica[cuda]" in (cuda.unavailable() or "")) == there


@pytest.mark.parametrize("name", ["numpy", "no-such-package"])
def test_installed(name):
    assert (module.installed(name) == "missing") == (name == "no-such-package")


def test_a_cache_that_cannot_be_written_is_a_finding(monkeypatch):
    """A read-only package, no home, or a full disk: Numba raises RuntimeError, which must not end in a traceback."""
    monkeypatch.setattr(module, "why_not_writable", lambda folder: "Read-only file system")
    monkeypatch.setattr("bionica.StreamingNICA.fit", refuse)
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert result.exit_code == 1
    findings = json.loads(result.output)
    assert findings["self test"] == "FAILED: RuntimeError: cannot cache function 'x': no locator available"
    assert re.search("nothing can be kept .*Read-only file system.* set NUMBA_CACHE_DIR", findings["compiled code"])


def refuse(*_):
    raise RuntimeError("cannot cache function 'x':\nno locator available")


def test_why_not_writable(tmp_path):
    assert module.why_not_writable(tmp_path / "new" / "folder") is None
    (tmp_path / "file").touch()
    assert module.why_not_writable(tmp_path / "file") == "File exists"
    assert module.why_not_writable(tmp_path / "file" / "under") == "Not a directory"


def network(fit):
    return SimpleNamespace(fit=lambda X: (fit(X), SimpleNamespace(transform=lambda X: X))[1])


def test_compile_says_how_long_each_network_took(monkeypatch):
    fitted = []
    networks = [("One", network(lambda X: fitted.append(X.dtype.name))), ("Two", network(refuse))]
    monkeypatch.setattr(module, "_networks", lambda: iter(networks))
    result = CliRunner().invoke(app, ["doctor", "--compile"])
    assert re.match(
        r"compiling One \.\.\. \d\.\d s\ncompiling Two \.\.\. FAILED: cannot cache function 'x': no", result.output
    )
    assert result.exit_code == 1
    monkeypatch.setattr(module, "_networks", lambda: iter(networks[:1]))
    result = CliRunner().invoke(app, ["doctor", "--compile", "--float32", "--json"])
    assert result.exit_code == 0
    assert list(json.loads(result.output)["seconds of compiling"]) == ["One", "One, float32"]
    assert fitted == ["float64", "float64", "float32"]


def test_every_network_is_compiled_at_its_defaults_and_as_published():
    names = [name for name, _ in module._networks()]
    for name in ("InterneuronNICA", "NonnegativePCA", "TwoCompartmentNICA", "TwoLayerNSM"):
        assert {name, f"{name} as published"} <= set(names)
    assert "BatchNICA" not in names


def test_streaming_is_compiled_for_both_of_its_loops():
    variants = {name: network for name, network in module._networks() if name.startswith("StreamingNICA")}
    assert list(variants) == ["StreamingNICA", "StreamingNICA, more mixtures than sources"]
    X = np.random.default_rng(0).exponential(size=(30, 3))
    rules = {rule_of(network.fit(X)._state).name for network in variants.values()}
    assert rules == {"orthant_rotation", "projected_rotation"}


def test_float32_needs_compile():
    assert CliRunner().invoke(app, ["doctor", "--float32"]).exit_code == 2
