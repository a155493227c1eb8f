"""`plot.circuit`: what a network says of its layers and synapses is what it computes,
and is drawn.
"""

import numpy as np
import pytest

import bionica
from bionica.circuits import plot
from conftest import NETWORKS, mixtures

pytest.importorskip("matplotlib")


def arrows(ax):
    return [text.arrow_patch for text in ax.texts if hasattr(text, "arrow_patch")]


@pytest.mark.parametrize(
    "cls", [cls for cls in NETWORKS if getattr(cls, "_circuit", None)]
)
def test_every_weight_is_a_synapse_as_wide_as_it_is(cls):
    network = cls(3, random_state=0).fit(mixtures(3000, 3, 4)[1])
    layers, synapses = cls._circuit
    named = {name.removesuffix(".T") for _, _, name, _ in synapses if name}
    assert named == {
        name for name in dir(cls) if name.startswith("W") and name.endswith("_")
    }
    ax = plot.circuit(network)
    assert {title for title, _, _ in layers.values()} <= {
        text.get_text() for text in ax.texts
    }
    _, _, name, sign = synapses[0]  # from the mixtures
    W = sign * getattr(network, name)
    drawn = W[np.abs(W) >= 0.01 * np.abs(W).max()]
    first = arrows(ax)[: len(drawn)]
    widths = np.array([arrow.get_linewidth() for arrow in first])
    np.testing.assert_allclose(
        widths / widths.max(), np.abs(drawn) / np.abs(drawn).max()
    )
    colors = [arrow.get_edgecolor() for arrow in first]
    assert len({color for color, w in zip(colors, drawn, strict=True) if w > 0}) == 1


@pytest.mark.parametrize("cls", [bionica.InterneuronNICA, bionica.TwoCompartmentNICA])
def test_currents_through_the_synapses_are_in_balance_where_neurons_fire(cls):
    """Eqs. 9 and 15 at rest: the inputs of a neuron that fires add up to zero; those of
    a silent one are not positive.
    """
    X = mixtures(3000, 3, 4)[1]
    network = cls(3, average=False, random_state=0).partial_fit(X)
    _, synapses = cls._circuit
    activity = {"x": X.T, "y": network.transform(X).T, "z": network.transform(X).T}

    def current(layer):
        arriving = [(a, name, sign) for a, b, name, sign in synapses if b == layer]
        return sum(
            sign * (getattr(network, name) @ activity[a] if name else activity[a])
            for a, name, sign in arriving
        )

    inner, outer = ("n", "y") if cls is bionica.InterneuronNICA else ("c", "z")
    activity[inner] = current(inner)
    balance = current(outer)
    fires = activity[outer] > 0
    assert np.abs(balance[fires]).max() < 1e-9
    assert balance[~fires].max() < 1e-9


def test_an_estimator_without_a_circuit_is_refused():
    with pytest.raises(
        ValueError, match="StreamingNICA has no circuit: pass a network"
    ):
        plot.circuit(bionica.StreamingNICA(3))
