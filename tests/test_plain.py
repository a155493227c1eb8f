"""Rules in plain NumPy, and variants of compiled ones: the code of
docs/write-your-own-rule.md, and what is said of mistakes.
"""

import pickle
import re
import sys
import tempfile
from pathlib import Path
from typing import ClassVar

import numba
import numpy as np
import pytest

import bionica
import naive
from bionica.circuits import plot, reference, sweep
from bionica.circuits.plain import PlainNetwork
from bionica.engine import loop
from bionica.engine.rule import RULES, variant
from conftest import mixtures

PAGE = (Path(__file__).parents[1] / "docs" / "write-your-own-rule.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FOLDER = tempfile.TemporaryDirectory()
(Path(FOLDER.name) / "of_the_page.py").write_text("\n".join([BLOCKS[0], *BLOCKS[2:7]]))
sys.path.insert(0, FOLDER.name)

import of_the_page  # noqa: E402
from of_the_page import AsPrinted, HeavyBall  # noqa: E402

AS_PRINTED = {"eta0": 0.02, "decay": 1e-3, "random_state": 0}


def test_the_page_keeps_its_promises():
    """At most 15 lines of the box, and 6 to 14 for a change."""
    step = BLOCKS[0].split("def step")[1].split("@staticmethod")[0]
    assert 8 <= len(step.split("\n    ")) <= 15
    for block in BLOCKS[3:6]:
        assert 6 <= sum(bool(line.strip()) for line in block.splitlines()) <= 14


def test_a_rule_as_printed_is_the_compiled_network():
    X = mixtures(400, 3, 4)[1]
    plain = AsPrinted(3, **AS_PRINTED)
    ours = bionica.TwoCompartmentNICA(
        3, tau=0.8, guards=False, average=False, **AS_PRINTED
    )
    np.testing.assert_allclose(
        plain.partial_fit_transform(X),
        ours.partial_fit_transform(X),
        rtol=1e-10,
        atol=1e-11,
    )
    for name in ("W_xz_", "W_zz_", "components_", "mixing_"):
        np.testing.assert_allclose(
            getattr(plain, name), getattr(ours, name), rtol=1e-10, atol=1e-11
        )
    np.testing.assert_allclose(
        plain.transform(X[:50]), ours.transform(X[:50]), rtol=1e-10, atol=1e-11
    )
    assert plain.n_samples_seen_ == 400


def assert_copies_continue(network, X, folder):
    network.save(folder / "model.bionica")
    others = bionica.load(folder / "model.bionica"), pickle.loads(pickle.dumps(network))
    more = network.partial_fit_transform(X)
    for other in others:
        np.testing.assert_array_equal(other.partial_fit_transform(X), more)


def test_it_runs_wherever_a_compiled_one_does(tmp_path):
    X = mixtures(300, 3)[1]
    network = AsPrinted(3, **AS_PRINTED).partial_fit(X)
    one_by_one = AsPrinted(3, **AS_PRINTED)
    for x in X:
        one_by_one.learn_one(x)
    np.testing.assert_array_equal(one_by_one.components_, network.components_)
    assert_copies_continue(network, X, tmp_path)
    record = plot.record_weights(AsPrinted(3, random_state=0), X)
    assert record["W_zz_"].shape == (3, 3, 3)
    single = AsPrinted(3, **AS_PRINTED).partial_fit_transform(X.astype(np.float32))
    assert single.dtype == np.float32
    plan = {
        "seeds": 1,
        "data": [{"kind": "sparse_uniform", "d": 3, "T": 200, "mixing": "d3"}],
        "network": [
            {
                "name": "of_the_page:AsPrinted",
                "label": "mine",
                "grid": {"eta0": [0.01, 0.02]},
            }
        ],
    }
    assert [row["status"] for row in sweep.run(plan, n_jobs=1)] == ["ok", "ok"]


class Parameters:
    """What the steps of the reference know besides arrays."""

    def __init__(
        self,
        n_components=None,
        *,
        gamma=None,
        window=np.inf,
        zeta=(0.01, 0.01),
        eta0=0.02,
        init="random",
    ):
        PlainNetwork.__init__(self, n_components, eta0=eta0, init=init, random_state=0)
        self.gamma = gamma
        self.window = window
        self.zeta = zeta


class Algorithm1(Parameters, PlainNetwork):
    shapes: ClassVar = {
        "W_xy": "dk",
        "W_yn": "md",
        "W_ny": "dm",
        "x_bar": "k",
        "y_bar": "d",
        "n_bar": "m",
    }
    step = staticmethod(reference.interneuron_step)

    def start(self, d, k, rng):
        return reference.interneuron(d, k, np.random.default_rng(0), m=d + 1)

    @staticmethod
    def unmixing(state):
        return np.linalg.solve(state["W_ny"] @ state["W_yn"], state["W_xy"])


class TwoLayers(Parameters, PlainNetwork):
    shapes = {  # noqa: RUF012
        "W_xh": "dk",
        "W_hg": "dd",
        "W_hy": "dd",
        "W_yy": "dd",
        "x_bar": "k",
        "h_bar": "d",
        "g_bar": "d",
    }
    step = staticmethod(reference.two_layer_nsm_step)

    @staticmethod
    def unmixing(state):
        first = np.linalg.solve(state["W_hg"].T @ state["W_hg"], state["W_xh"])
        return np.linalg.solve(state["W_yy"], state["W_hy"]) @ first


@pytest.mark.parametrize(
    ("plain", "compiled"),
    [
        (Algorithm1, bionica.InterneuronNICA(3, n_interneurons=4, average=False)),
        (TwoLayers, bionica.TwoLayerNSM(3)),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_steps_of_the_reference_are_plain_rules(plain, compiled):
    X = mixtures(250, 3, 4)[1]
    ours = plain(3)
    Y = ours.partial_fit_transform(X)
    first = plain(3)._learner_for(4, X.dtype).state
    init = {name: getattr(first, name) for name in plain.shapes if name.startswith("W")}
    compiled.set_params(init=init, eta0=0.02, decay=1e-3, guards=False, random_state=0)
    np.testing.assert_allclose(
        Y, compiled.partial_fit_transform(X), rtol=1e-9, atol=1e-10
    )
    np.testing.assert_allclose(
        ours.components_, compiled.components_, rtol=1e-9, atol=1e-10
    )


# --- variants


def by_hand(change, X, d=3):
    """Algorithm 2 with a change of W_xz after each step, which is told W_xz before it."""
    first = (
        bionica.TwoCompartmentNICA(d, random_state=0)
        ._learner_for(X.shape[1], X.dtype)
        .state
    )
    state = reference.two_compartment(d, X.shape[1], np.random.default_rng(0), 0.8) | {
        "W_xz": first.W_xz.copy()
    }
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


def varied(rule):
    """A network class with this rule."""

    class Varied(bionica.TwoCompartmentNICA):
        def _learner_for(self, *given, **named):
            return super()._learner_for(*given, **named).varied(rule)

    return Varied


def compare(cls, change, n=300):
    X = mixtures(n, 3)[1]
    network = cls(3, tau=0.8, guards=False, average=False, **AS_PRINTED)
    Y, W = by_hand(change, X)
    np.testing.assert_allclose(
        network.partial_fit_transform(X), Y, rtol=1e-10, atol=1e-11
    )
    np.testing.assert_allclose(network.W_xz_, W, rtol=1e-10, atol=1e-11)
    return network


def test_a_heavy_ball_on_a_compiled_rule(tmp_path):
    last = [None]

    def change(W, before):
        W += 0.5 * (before - (before if last[0] is None else last[0]))
        last[0] = before

    network = compare(HeavyBall, change)
    assert_copies_continue(network, mixtures(50, 3, seed=1)[1], tmp_path)


@pytest.mark.parametrize("name", ["MASKED", "NOISY"])
def test_a_mask_and_synaptic_noise(name, monkeypatch):
    """Without compiling, which takes longer than everything else here."""
    monkeypatch.setattr(
        loop, "compile_entry", lambda function, arguments, cache: function
    )
    monkeypatch.setattr(loop, "_ENTRIES", {})
    noise = naive.LEcuyer(
        bionica.TwoCompartmentNICA(3, random_state=0)
        ._learner_for(3, np.dtype(float))
        .state.rng
    )

    def change(W, before):
        W[...] = (
            W * (1 - np.eye(3))
            if name == "MASKED"
            else W + 0.001 * np.reshape(noise.standard_normal(9), (3, 3))
        )

    compare(varied(getattr(of_the_page, name)), change, 120)


def test_noise_of_the_outputs_comes_from_the_seed_of_the_network_and_transform_does_not_advance_it(
    monkeypatch,
):
    monkeypatch.setattr(
        loop, "compile_entry", lambda function, arguments, cache: function
    )
    monkeypatch.setattr(loop, "_ENTRIES", {})
    X = mixtures(60, 3)[1]
    plain, noisy, asked = (
        cls(3, average=False, random_state=0)
        for cls in (bionica.TwoCompartmentNICA, *[varied(of_the_page.FLICKERING)] * 2)
    )
    Y = noisy.partial_fit_transform(X)
    assert np.ptp(Y[:1] - plain.partial_fit_transform(X[:1])) > 0.01
    asked.partial_fit(X[:30]).transform(X)
    np.testing.assert_array_equal(asked.partial_fit(X[30:]).W_xz_, noisy.W_xz_)


# --- mistakes


def changed(name, **own):
    """AsPrinted, with some of its attributes replaced."""
    return type(name, (AsPrinted,), {"__module__": __name__, **own})


def test_mistakes_of_a_plain_rule():
    X = mixtures(20, 2)[1]
    with pytest.raises(TypeError, match="Incomplete needs step and unmixing"):
        type("Incomplete", (PlainNetwork,), {"shapes": {"W": "dk"}})
    wrong = changed("TooLong", step=staticmethod(lambda state, x, eta: np.ones(5)))
    with pytest.raises(
        ValueError,
        match=(
            r"step of .*TooLong returned an array of shape \(5,\): return the 2 outputs"
        ),
    ):
        wrong(2).partial_fit(X)
    wrong = changed(
        "NoName", step=staticmethod(lambda state, x, eta: state["W_zx"] @ x)
    )
    with pytest.raises(KeyError, match="W_zx: the network has"):
        wrong(2).partial_fit(X)
    wrong = changed(
        "Start", start=lambda self, d, k, rng: {"W_xz": np.ones((k, d + 1))}
    )
    with pytest.raises(
        ValueError, match=r"start of Start has W_xz of shape \(2, 3\), not 'dk'"
    ):
        wrong(2).partial_fit(X)

    wrong = changed("Letters", shapes={**AsPrinted.shapes, "V": "dm"})
    with pytest.raises(ValueError, match=r"Letters has V of shape 'dm'.*: write start"):
        wrong(2).partial_fit(X)

    def singular(state, x, eta):
        return np.linalg.inv(
            np.zeros((2, 2)) if state["t"] == 3 else np.eye(2)
        ) @ np.maximum(x, 0)

    with pytest.raises(
        RuntimeError, match=r"step of .*Singular failed at sample 3: Singular matrix"
    ):
        changed("Singular", step=staticmethod(singular))(2).partial_fit(X)

    def touches(state, x, eta):
        x *= 2
        return np.maximum(x, 0)

    with pytest.raises(ValueError, match="read-only"):
        changed("Touches", step=staticmethod(touches))(2).partial_fit(X)
    before = X.copy()

    def explodes(state, x, eta):
        state["W_xz"] = state["W_xz"] * 1e10
        return state["W_xz"] @ x

    network = changed("Explodes", step=staticmethod(explodes))(2, eta0=0.1).partial_fit(
        X[:1]
    )
    W = network.W_xz_
    with pytest.raises(bionica.DivergenceError):
        network.partial_fit(np.repeat(X, 3, axis=0))
    np.testing.assert_array_equal(network.W_xz_, W)
    np.testing.assert_array_equal(X, before)


def test_a_plain_network_need_not_have_a_random_state():
    X = mixtures(300, 2)[1]

    class Short(AsPrinted):
        def __init__(self, n_components=None, eta0=0.1):
            super().__init__(n_components, eta0=eta0)

    Short(2).fit(X).diagnose(X)


def test_random_numbers_of_a_plain_rule_do_not_depend_on_calls():
    def noisy(state, x, eta):
        rng = state["rng"]
        return np.maximum(state["W_xz"] @ x + rng.random(2) - rng.random(2), 0)

    X = mixtures(20, 2)[1]
    cls = changed("Noisy", step=staticmethod(noisy))
    whole = cls(2, random_state=1)
    parts = cls(2, random_state=1)
    Y = whole.partial_fit_transform(X)
    np.testing.assert_array_equal(
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
        (
            "of_params",
            "state.W_xz[0, 0] += params.tua",
            AttributeError,
            "'Params' object has no attribute 'tua'",
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
        RULES.pop(name, None)


@pytest.mark.parametrize("value", [[1.0], {"a": 1}])
def test_fields_that_compiled_code_cannot_hold_are_named(value):
    learner = bionica.TwoCompartmentNICA(2, random_state=0)._learner_for(
        2, np.dtype(float)
    )
    X = np.ones((1, 2))
    compiled = RULES["two_compartment"]
    said = f"is a {type(value).__name__}: compiled code takes numbers"
    rule = variant(
        compiled,
        "wrong",
        workspace=lambda state: compiled.workspace(state)._replace(y=value),
    )
    try:
        with pytest.raises(
            TypeError, match=f"Params.tau of the rule 'two_compartment' {said}"
        ):
            loop.prepare(learner.state, learner.params._replace(tau=value), X)
        with pytest.raises(TypeError, match=f"Work.y of the rule 'wrong' {said}"):
            loop.prepare(rule.State(*learner.state), learner.params, X)
    finally:
        RULES.pop("wrong")
