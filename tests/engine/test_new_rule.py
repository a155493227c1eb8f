"""A rule from outside the package, in one file: everything that runs, saves and sweeps
networks takes it.
"""

import dataclasses
import importlib
import logging
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bionica
from bionica.engine import jit, loop, rule
from conftest import mixtures

# The rule of CONTRIBUTING.md, a rectified Hebbian network, as a module outside of the
# package.
CONTRIBUTING = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
SOURCE = "\n".join(re.findall(r"```python\n(.*?)```", CONTRIBUTING, re.DOTALL))
FOLDER = tempfile.TemporaryDirectory()
OUTSIDE = Path(FOLDER.name)
(OUTSIDE / "my_module.py").write_text(SOURCE)
sys.path.insert(0, FOLDER.name)

from my_module import MyNetwork  # noqa: E402

compiled_only = pytest.mark.skipif(
    numba.config.DISABLE_JIT, reason="nothing is compiled"
)


def stronger(factor):
    """The rule with outputs that are so many times as large."""
    changed = SOURCE.replace(
        "max(work.y[i],", f"max(work.y.dtype.type({factor}) * work.y[i],"
    )
    assert changed != SOURCE
    return changed


def line_by_line(W, X, rates):
    """The rule in NumPy."""
    W = W.copy()
    x_bar = 0.0
    Y = []
    for t, x in enumerate(X):
        Y.append(np.maximum(W @ x, 0))
        x_bar = x_bar + (x - x_bar) / (t + 1)
        W += rates[t] * (np.outer(Y[-1], x - x_bar) - W)
    return np.array(Y), W


@pytest.mark.interpreted
def test_it_learns_as_its_line_by_line_version():
    _, X = mixtures(400, 3, 4)
    still = MyNetwork(3, eta0=1e-300, random_state=0).partial_fit(X[:1])
    network = MyNetwork(3, random_state=0)
    Y, W = line_by_line(still.components_, X, 0.01 / (1 + 1e-3 * np.arange(400)))
    assert_allclose(network.partial_fit_transform(X), Y, rtol=1e-10, atol=1e-12)
    assert_allclose(network.components_, W, rtol=1e-10, atol=1e-12)


#: The output for a mixture that weights of a fixed seed answer: proportional to the
#: factor of `stronger`.
ANSWER = "MyNetwork(2, random_state=0).partial_fit_transform([[3.0, 1.0]]).max()"


def load_module(folder, name, text):
    (folder / f"{name}.py").write_text(text)
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module(name)


@pytest.fixture
def restore():
    rules = dict(rule.RULES)
    yield
    rule.RULES.clear()
    rule.RULES.update(rules)


def test_a_second_definition_runs_the_new_code(tmp_path, monkeypatch, restore):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    first = load_module(tmp_path, "redefined_rule", SOURCE)
    once = eval(ANSWER, vars(first))
    assert once > 0
    second = load_module(tmp_path, "redefined_rule", stronger(5))
    assert eval(ANSWER, vars(second)) == pytest.approx(5 * once)
    assert eval(ANSWER, vars(first)) == once


def test_an_edited_file_or_one_that_it_imports_is_compiled_again_in_the_next_process(
    tmp_path,
):
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }
    answers = []
    for factor, helper in ((1, 1), (1, 5), (2, 5), (1, 1)):
        (tmp_path / "edited_rule.py").write_text(
            "import edited_helper\n" + stronger(f"{factor} * edited_helper.FACTOR")
        )
        (tmp_path / "edited_helper.py").write_text(f"FACTOR = {helper}")
        answers.append(
            float(
                subprocess.run(
                    [
                        sys.executable,
                        "-c",
                        f"from edited_rule import *; print({ANSWER})",
                    ],
                    env=env,
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
        )
    assert_allclose(np.array(answers) / answers[0], [1, 5, 10, 1])


def test_types_of_parameters_do_not_leak():
    """A window of numpy.uint8 is an int like any other: a later network with 300 does
    not count modulo 256.
    """
    _, X = mixtures(600, 2)
    bionica.TwoCompartmentNICA(
        2, mean_window=np.uint8(200), random_state=0
    ).partial_fit(X)
    a, b = (
        bionica.TwoCompartmentNICA(2, mean_window=window, random_state=0).partial_fit(X)
        for window in (300, np.int16(300))
    )
    assert_array_equal(a.components_, b.components_)


@compiled_only
@pytest.mark.parametrize("fault", ["no folder", "full disk", "unreadable"])
def test_without_a_cache_it_compiles_in_memory_and_says_so_once(
    fault, monkeypatch, caplog
):
    njit = numba.njit

    def no_folder(*args, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*args, **options)

    def fail(*_):
        raise OSError(28, "No space left on device")

    if fault == "no folder":
        monkeypatch.setattr(jit.numba, "njit", no_folder)
    else:
        Cache = numba.core.caching.FunctionCache
        monkeypatch.setattr(
            Cache, "load_overload", fail if fault == "unreadable" else lambda *_: None
        )
        monkeypatch.setattr(Cache, "save_overload", fail)
    monkeypatch.setattr(jit, "_warned", set())
    monkeypatch.setattr(loop, "_ENTRIES", {})
    with caplog.at_level(logging.WARNING, "bionica"):
        for _ in range(2):
            MyNetwork(2, random_state=0).fit(np.ones((5, 2)) + np.eye(5, 2))
    assert sum("cannot be cached" in record.message for record in caplog.records) == 1


@compiled_only
def test_a_long_compilation_is_announced(monkeypatch, caplog):
    monkeypatch.setattr(loop, "_PATIENCE", 0.0)
    monkeypatch.setattr(loop, "_ENTRIES", {})
    with caplog.at_level(logging.INFO, "bionica"):
        MyNetwork(2, random_state=0).fit(np.ones((5, 2)) + np.eye(5, 2))
    assert any("compiling my_rule, once" in record.message for record in caplog.records)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"shapes": {"W": "dk"}},
            r"shapes and the fields of State differ in \['x_bar'\]",
        ),
        ({"inverses": {"H": "M"}}, r"no field \['H'\]"),
    ],
)
def test_a_record_that_does_not_describe_its_state_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        rule.register(dataclasses.replace(rule.RULES["my_rule"], **change))


def test_a_rule_needs_a_state_of_its_own():
    """Rules are found by the class of a state: a second rule of ours would change the
    library's networks.
    """
    ours = rule.RULES["two_compartment"]
    with pytest.raises(ValueError, match="a State class of its own"):
        rule.register(dataclasses.replace(ours, name="mine"))
    assert rule.register(ours) is ours
