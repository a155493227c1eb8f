"""Rules in plain NumPy, and variants of compiled ones: the code of
docs/write-your-own-rule.md, and what is said of mistakes.
"""

import pickle
import re
import sys
import tempfile
from pathlib import Path

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bionica
import naive
from bionica.circuits import plot, reference
from bionica.circuits.plain import PlainNetwork
from bionica.engine import loop, rule
from conftest import learned, mixtures

PAGE = (Path(__file__).parents[2] / "docs" / "write-your-own-rule.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FOLDER = tempfile.TemporaryDirectory()
(Path(FOLDER.name) / "of_the_page.py").write_text("\n".join([BLOCKS[0], *BLOCKS[2:7]]))
sys.path.insert(0, FOLDER.name)

import of_the_page  # noqa: E402
from of_the_page import AsPrinted, HeavyBall  # noqa: E402

AS_PRINTED = {"eta0": 0.02, "decay": 1e-3, "random_state": 0}


def test_a_rule_as_printed_is_the_compiled_network():
    X = mixtures(400, 3, 4)[1]
    plain = AsPrinted(3, **AS_PRINTED)
    ours = bionica.TwoCompartmentNICA(
        3, tau=0.8, guards=False, average=False, **AS_PRINTED
    )
    assert_allclose(
        plain.partial_fit_transform(X),
        ours.partial_fit_transform(X),
        rtol=1e-10,
        atol=1e-11,
    )
    for name in ("W_xz_", "W_zz_", "components_", "mixing_"):
        assert_allclose(
            getattr(plain, name), getattr(ours, name), rtol=1e-10, atol=1e-11
        )
    assert_allclose(
        plain.transform(X[:50]), ours.transform(X[:50]), rtol=1e-10, atol=1e-11
    )
    assert plain.n_samples_seen_ == 400


def assert_copies_continue(network, X, folder):
    network.save(folder / "model.bionica")
    others = bionica.load(folder / "model.bionica"), pickle.loads(pickle.dumps(network))
    more = network.partial_fit_transform(X)
    for other in others:
        assert_array_equal(other.partial_fit_transform(X), more)


def test_it_runs_wherever_a_compiled_one_does(tmp_path):
    X = mixtures(300, 3)[1]
    network = AsPrinted(3, **AS_PRINTED).partial_fit(X)
    one_by_one = AsPrinted(3, **AS_PRINTED)
    for x in X:
        one_by_one.learn_one(x)
    assert_array_equal(one_by_one.components_, network.components_)
    assert_copies_continue(network, X, tmp_path)
    record = plot.record_weights(AsPrinted(3, random_state=0), X)
    assert record["W_zz_"].shape == (3, 3, 3)
    single = AsPrinted(3, **AS_PRINTED).partial_fit_transform(X.astype(np.float32))
    assert single.dtype == np.float32


# --- variants


@pytest.fixture
def uncompiled(monkeypatch):
    """Compiling takes longer than everything else here."""
    monkeypatch.setattr(
        loop, "compile_entry", lambda function, arguments, cache: function
    )
    monkeypatch.setattr(loop, "_ENTRIES", {})


def started(X):
    """A network with the first weights: it has seen one sample, at a rate of 0."""
    return bionica.TwoCompartmentNICA(
        X.shape[1], eta0=1e-300, guards=False, random_state=0
    ).partial_fit(X[:1])


def by_hand(change, X, d=3):
    """Algorithm 2 with a change of W_xz after each step, told W_xz before it."""
    state = reference.two_compartment(d, X.shape[1], np.random.default_rng(0), 0.8)
    state["W_xz"] = started(X).W_xz_
    Y = []
    for t, x in enumerate(X):
        before = state["W_xz"].copy()
        Y.append(
            reference.two_compartment_step(
                state, x, reference.learning_rate(t, 0.02, 1e-3)
            )
        )
        change(state["W_xz"], before)
    return np.array(Y), state["W_xz"]


def varied(changed_rule):
    """A network class with this rule."""

    class Varied(bionica.TwoCompartmentNICA):
        def _learner_for(self, *given, **named):
            return super()._learner_for(*given, **named).varied(changed_rule)

    return Varied


def compare(cls, change, n=300):
    X = mixtures(n, 3)[1]
    network = cls(3, tau=0.8, guards=False, average=False, **AS_PRINTED)
    Y, W = by_hand(change, X)
    assert_allclose(network.partial_fit_transform(X), Y, rtol=1e-10, atol=1e-11)
    assert_allclose(network.W_xz_, W, rtol=1e-10, atol=1e-11)
    return network


def test_a_heavy_ball_on_a_compiled_rule(tmp_path):
    last = [None]

    def change(W, before):
        W += 0.5 * (before - (before if last[0] is None else last[0]))
        last[0] = before

    network = compare(HeavyBall, change)
    assert_copies_continue(network, mixtures(50, 3, seed=1)[1], tmp_path)


@pytest.mark.parametrize("name", ["MASKED", "NOISY"])
def test_a_mask_and_synaptic_noise(name, uncompiled):
    noise = naive.LEcuyer(learned(started(np.ones((1, 3))))["_state.rng"])

    def change(W, before):
        W[...] = (
            W * (1 - np.eye(3))
            if name == "MASKED"
            else W + 0.001 * np.reshape(noise.standard_normal(9), (3, 3))
        )

    compare(varied(getattr(of_the_page, name)), change, 120)


def test_noise_of_the_outputs_comes_from_the_seed_and_transform_draws_none(
    uncompiled,
):
    X = mixtures(60, 3)[1]
    plain, noisy, asked = (
        cls(3, average=False, random_state=0)
        for cls in (bionica.TwoCompartmentNICA, *[varied(of_the_page.FLICKERING)] * 2)
    )
    Y = noisy.partial_fit_transform(X)
    assert np.ptp(Y[:1] - plain.partial_fit_transform(X[:1])) > 0.01
    asked.partial_fit(X[:30]).transform(X)
    assert_array_equal(asked.partial_fit(X[30:]).W_xz_, noisy.W_xz_)


# --- mistakes


def changed(name, **own):
    """AsPrinted, with some of its attributes replaced."""
    return type(name, (AsPrinted,), {"__module__": __name__, **own})


def refused(error, message, **own):
    """A rule with a mistake says which, and leaves the mixtures alone."""
    X = mixtures(20, 2)[1]
    before = X.copy()
    with pytest.raises(error, match=message):
        changed("Wrong", **own)(2).partial_fit(X)
    assert_array_equal(X, before)


def singular(state, x, eta):
    M = np.zeros((2, 2)) if state["t"] == 3 else np.eye(2)
    return np.linalg.inv(M) @ np.maximum(x, 0)


def touches(state, x, eta):
    x *= 2
    return np.maximum(x, 0)


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        (
            lambda state, x, eta: np.ones(5),
            ValueError,
            r"step of .*Wrong returned an array of shape \(5,\): return the 2 outputs",
        ),
        (
            lambda state, x, eta: state["W_zx"] @ x,
            KeyError,
            "W_zx: the network has",
        ),
        (
            singular,
            RuntimeError,
            r"step of .*Wrong failed at sample 3: Singular matrix",
        ),
        (touches, ValueError, "read-only"),
    ],
)
def test_mistakes_of_a_step(step, error, message):
    refused(error, message, step=staticmethod(step))


def test_mistakes_of_the_shapes():
    refused(
        ValueError,
        r"start of Wrong has W_xz of shape \(2, 3\), not 'dk'",
        start=lambda self, d, k, rng: {"W_xz": np.ones((k, d + 1))},
    )
    refused(
        ValueError,
        r"Wrong has V of shape 'dm'.*: write start",
        shapes={**AsPrinted.shapes, "V": "dm"},
    )
    with pytest.raises(TypeError, match="Incomplete needs step and unmixing"):
        type("Incomplete", (PlainNetwork,), {"shapes": {"W": "dk"}})


def test_a_plain_rule_that_diverges_is_as_it_was():
    def explodes(state, x, eta):
        state["W_xz"] = state["W_xz"] * 1e10
        return state["W_xz"] @ x

    X = mixtures(20, 2)[1]
    network = changed("Explodes", step=staticmethod(explodes))(2, eta0=0.1)
    W = network.partial_fit(X[:1]).W_xz_
    with pytest.raises(bionica.DivergenceError):
        network.partial_fit(np.repeat(X, 3, axis=0))
    assert_array_equal(network.W_xz_, W)


def test_random_numbers_of_a_plain_rule_do_not_depend_on_calls():
    def noisy(state, x, eta):
        rng = state["rng"]
        return np.maximum(state["W_xz"] @ x + rng.random(2) - rng.random(2), 0)

    X = mixtures(20, 2)[1]
    cls = changed("Noisy", step=staticmethod(noisy))
    whole = cls(2, random_state=1)
    parts = cls(2, random_state=1)
    Y = whole.partial_fit_transform(X)
    assert_array_equal(
        Y, np.concatenate([parts.partial_fit_transform(x) for x in np.split(X, 4)])
    )
    assert np.ptp(Y - np.maximum(X @ whole.W_xz_.T, 0)) > 0.1


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize(
    ("name", "line", "error", "message"),
    [
        (
            "uses_outer",
            "state.W_xz[:] += np.outer(work.y, X[row])",
            TypeError,
            r"learn of the rule .* cannot be compiled: .*line \d+: state",
        ),
        (
            "of_work",
            "state.W_xz[0, 0] += work.z[0]",
            AttributeError,
            "'Work' object has no attribute 'z'",
        ),
    ],
)
def test_mistakes_of_a_compiled_rule_name_the_line(
    tmp_path, monkeypatch, name, line, error, message
):
    source = (
        BLOCKS[2]
        + f"\n\ndef learn(state, work, params, X, row, eta):\n    {line}\n\n\n"
    )
    source += f"RULE = variant(two_compartment.RULE, {name!r}, learn=learn)\n"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        with pytest.raises(error, match=message) as caught:
            varied(__import__(name).RULE)(2).partial_fit(mixtures(5, 2)[1])
        frames = [str(frame.path) for frame in caught.traceback]
        # Python shows the line
        assert error is TypeError or frames[-1] == str(tmp_path / f"{name}.py")
        assert len(str(caught.value).splitlines()) <= 3
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
    finally:
        rule.RULES.pop(name, None)


def test_fields_that_compiled_code_cannot_hold_are_named():
    compiled = rule.RULES["two_compartment"]
    wrong = rule.variant(
        compiled,
        "wrong",
        workspace=lambda state: compiled.workspace(state)._replace(y={"a": 1}),
    )
    said = "Work.y of the rule 'wrong' is a dict: compiled code takes numbers"
    try:
        with pytest.raises(TypeError, match=said):
            varied(wrong)(2).partial_fit(np.ones((1, 2)))
    finally:
        rule.RULES.pop("wrong")
