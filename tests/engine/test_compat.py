"""Without a private name of another library the package still works; parameters are
checked as scikit-learn checks them.
"""

import importlib
import importlib.util
import logging
import re
import types
from numbers import Integral, Real
from pathlib import Path

import numba
import numpy as np
import pytest
import sklearn
from numba.extending import register_jitable

import bionica
from bionica.core.estimator import Estimator
from bionica.core.parameters import (
    ARRAY,
    AUTO,
    BOOLEAN,
    COUNT,
    FUNCTION,
    POSITIVE,
    RANDOM,
    SHARE,
    WINDOW,
    instance,
    interval,
    options,
)
from bionica.engine import jit as door

compiled_only = pytest.mark.skipif(
    numba.config.DISABLE_JIT, reason="nothing is compiled"
)

# --- Numba


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
    entry = fresh_door().compile_entry(sum_of_squares(), (np.ones(3),), cache=False)
    assert entry(np.arange(4.0)) == 14


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
        assert (
            door.compile_entry(sum_of_squares(), (np.ones(3),), cache=False)(
                np.arange(4.0)
            )
            == 14
        )
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


# --- scikit-learn


@pytest.mark.parametrize(
    ("constraint", "text", "accepted", "refused"),
    [
        (
            COUNT,
            "an int in the range [1, inf)",
            [1, np.int64(5), 10**30],
            [0, -1, 1.0, "1", None, np.nan],
        ),
        (
            WINDOW,
            "an int in the range [2, 1000000000000000]",
            [2, 10**15],
            [1, 10**15 + 1],
        ),
        (
            POSITIVE,
            "a float in the range (0.0, inf)",
            [1e-300, 1, np.float32(2)],
            [0, -0.0, np.inf, np.nan, 1j, "2"],
        ),
        (SHARE, "a float in the range (0.0, 1.0)", [0.5], [0, 1, 0.0, 1.0]),
        (
            interval(Real, 0, 0.5, closed="[)"),
            "a float in the range [0.0, 0.5)",
            [0, 0.25],
            [0.5, -1e-9],
        ),
        (
            interval(Integral, 0, 3, closed="(]"),
            "an int in the range (0, 3]",
            [1, 3],
            [0, 4],
        ),
        (
            AUTO,
            "a str among {'auto'}",
            ["auto", np.str_("auto")],
            ["Auto", 1, None, ["auto"]],
        ),
        (options(False), "a bool among {False}", [False], [True, 0, "False"]),
        (instance(dict), "an instance of 'dict'", [{}], [[], None]),
        (None, "None", [None], [0, False]),
        (FUNCTION, "a callable", [len], [0]),
        (ARRAY, "an array-like", [[1], np.ones(2), (1,)], ["ab", 1, None]),
        (BOOLEAN, "an instance of 'bool' or 'numpy.bool", [True, np.False_], [0, None]),
        (
            RANDOM,
            "None",
            [None, 0, 2**32 - 1, np.random.RandomState(0)],
            [-1, 2**32, 0.5, np.random],
        ),
    ],
)
def test_constraints_of_parameters(constraint, text, accepted, refused):
    class Some:
        _freeze = Estimator._freeze

        def get_params(self, deep):
            return {"size": self.size, "free": None}

    some = Some()
    some._parameter_constraints = {
        "size": constraint if constraint is RANDOM else [constraint],
        "free": [None, COUNT],
    }
    for some.size in accepted:
        some._freeze()
    for some.size in refused:
        for error in (ValueError, TypeError):
            with pytest.raises(
                error,
                match=r"^The 'size' parameter of Some must be .*\. Got .* instead\.$",
            ) as caught:
                some._freeze()
        assert text in str(caught.value)
        assert str(caught.value).endswith(f"Got {some.size!r} instead.")


def test_several_constraints_are_all_named():
    with pytest.raises(
        ValueError,
        match=r"must be an int in the range \[1, inf\)(, .*)? or None\. Got 0 instead",
    ):
        bionica.BatchNICA(0).fit(np.ones((5, 2)))


@pytest.mark.parametrize("method", ["fit_transform", "partial_fit_transform"])
def test_set_output_applies_to_every_method_that_returns_outputs(method):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(
        np.random.default_rng(0).exponential(size=(200, 3)),
        index=range(5, 205),
        columns=list("abc"),
    )
    network = bionica.StreamingNICA(3, random_state=0)
    plain = getattr(sklearn.clone(network), method)(X)
    framed = getattr(sklearn.clone(network).set_output(transform="pandas"), method)(X)
    with sklearn.config_context(transform_output="pandas"):
        by_default = getattr(sklearn.clone(network), method)(X)
    assert isinstance(plain, np.ndarray)
    for frame in (framed, by_default):
        np.testing.assert_array_equal(frame, plain)
        assert [*frame.index] == [*X.index]
        assert [*frame.columns] == ["source_1", "source_2", "source_3"]
