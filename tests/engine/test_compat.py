"""Without a private name of Numba the package still works."""

import importlib
import importlib.util
import logging
import re
import types
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.extending import register_jitable

from bionica.engine import jit as door

compiled_only = pytest.mark.skipif(
    numba.config.DISABLE_JIT, reason="nothing is compiled"
)


def sum_of_squares():
    """Return a function that calls another one; both are new, because Numba keeps what
    it has compiled.
    """

    @register_jitable
    def square(x):
        return x * x

    def total(x):
        y = 0.0
        for i in range(x.shape[0]):
            y += square(x[i])
        return y

    return total


def answer(door):
    entry = door.compile_entry(sum_of_squares(), (np.ones(3),), cache=False)
    return entry(np.arange(4.0))


NAMES = {
    "numba.core.errors": ["TypingError"],
    "numba.core.options": ["DefaultOptions", "DefaultOptions._nrt"],
    "numba.core.codegen": [
        "JITCodeLibrary",
        "JITCPUCodegen",
        "JITCPUCodegen.create_library",
    ],
    "numba.core.cpu": [
        "CPUContext",
        "CPUContext.get_executable",
        "CPUContext.create_cfunc_wrapper",
    ],
    "numba._dynfunc": ["make_function"],
}


def hide(monkeypatch, module, name):
    """Let a look-up of `name` in `module` fail, but not Numba's own use of it; without
    a name, of the module.
    """
    find = importlib.import_module

    def import_module(path, *package):
        if path != module:
            return find(path, *package)
        if not name:
            raise ImportError(path)
        first, _, attribute = name.partition(".")
        rest = {first: types.SimpleNamespace()} if attribute else {}
        return types.SimpleNamespace(
            **{k: v for k, v in vars(find(path)).items() if k != first}, **rest
        )

    monkeypatch.setattr(importlib, "import_module", import_module)


def fresh_door():
    """Return a second copy of the module, which looks for all names again."""
    spec = importlib.util.spec_from_file_location(
        "bionica.engine.jit_again", door.__file__
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@compiled_only
@pytest.mark.parametrize(
    ("module", "name"),
    [(module, name) for module, names in NAMES.items() for name in (*names, "")],
)
def test_without_a_name_numba_compiles_as_it_always_does(monkeypatch, module, name):
    hide(monkeypatch, module, name)
    assert answer(fresh_door()) == 14


def test_every_private_name_is_in_the_list_of_names_to_hide():
    looked_up = re.findall(
        r'_private\("([\w.]+)", "(\w+)"', Path(door.__file__).read_text()
    )
    assert {*looked_up} == {
        (module, name.partition(".")[0])
        for module, names in NAMES.items()
        for name in names
    }


@compiled_only
def test_if_linking_fails_numba_compiles_and_a_warning_says_so(monkeypatch, caplog):
    """Names that are still there may do something else."""

    def fail(*_):
        raise TypeError("takes other arguments now")

    find = door._private
    monkeypatch.setattr(
        door,
        "_private",
        lambda *names: fail if names[1] == "make_function" else find(*names),
    )
    monkeypatch.setattr(door, "_warned", set())
    with caplog.at_level(logging.WARNING, "bionica"):
        assert answer(door) == 14
    assert "takes other arguments now" in caplog.text


@compiled_only
def test_without_an_entry_point_the_compiled_function_is_called(monkeypatch):
    class Dispatcher:
        def __init__(self, function):
            self.call = numba.jit(nopython=True)(function)
            self.signatures = ()

        def __call__(self, *arguments):
            return self.call(*arguments)

    monkeypatch.setattr(
        numba,
        "njit",
        lambda function=None, **_: Dispatcher if function is None else None,
    )
    entry = door.compile_entry(sum_of_squares(), (np.ones(3),), cache=False)
    assert isinstance(entry, Dispatcher)
    assert entry(np.arange(4.0)) == 14


@compiled_only
def test_a_mistake_in_a_rule_is_raised_at_once(monkeypatch):
    attempts = []
    njit = numba.njit
    monkeypatch.setattr(
        numba,
        "njit",
        lambda *args, **options: attempts.append(options) or njit(*args, **options),
    )
    with pytest.raises(numba.errors.TypingError):
        door.compile_entry(lambda x: x.no_such_method(), (np.ones(3),), cache=False)
    assert len(attempts) == 1
