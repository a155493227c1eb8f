"""A loop compiled for one size gives the bits of the loop for all sizes, and is compiled where that pays."""

import numpy as np
import pytest
from numba.core import config

import bionica
from bionica.engines import loop as stream
from bionica.engines import tailored
from bionica.networks import state as states
from conftest import mixtures

pytestmark = [
    pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled"),
    pytest.mark.xdist_group("tailored"),
]

PLAIN = {"precondition": None, "average": False, "init": "random"}


@pytest.fixture
def entries(monkeypatch):
    """The loops of a process that has met no network yet."""
    monkeypatch.setattr(stream, "_SPENT", {})
    monkeypatch.setattr(stream, "_ENTRIES", {})
    return stream._ENTRIES


def assert_same(one, other):
    for name, array in states.to_arrays(one._state).items():
        np.testing.assert_array_equal(states.to_arrays(other._state)[name], array, err_msg=name)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("TwoCompartmentNICA", PLAIN),
        pytest.param("InterneuronNICA", PLAIN, marks=pytest.mark.slow),
        pytest.param("TwoCompartmentNICA", {"init": "random"}, marks=pytest.mark.slow),
        pytest.param("InterneuronNICA", {"init": "random"}, marks=pytest.mark.slow),
        pytest.param("TwoLayerNSM", {}, marks=pytest.mark.slow),
        pytest.param("NonnegativePCA", {}, marks=pytest.mark.slow),
    ],
)
def test_the_same_bits(name, options, entries, monkeypatch):
    _, X = mixtures(5000, 3)
    monkeypatch.setattr(stream, "MANY", len(X) + 1)
    general = getattr(bionica, name)(3, random_state=0, **options).partial_fit(X)
    assert len(entries) == 1
    monkeypatch.setattr(stream, "MANY", 1024)
    monkeypatch.setattr(stream, "PAYS", 0.0)
    own = getattr(bionica, name)(3, random_state=0, **options).partial_fit(X)
    assert len(entries) == 2
    assert_same(general, own)
    if name == "NonnegativePCA":  # which whitens by what the first call brings
        return
    # One takes over from the other in the midst of a stream.
    monkeypatch.setattr(stream, "PAYS", np.inf)
    entries.pop(next(reversed(entries)))
    stream._SPENT.clear()
    halves = getattr(bionica, name)(3, random_state=0, **options)
    monkeypatch.setattr(stream.Path, "glob", lambda *_: iter(()))
    halves.partial_fit(X[:2000])
    assert len(entries) == 1
    monkeypatch.setattr(stream, "PAYS", 0.0)
    halves.partial_fit(X[2000:])
    assert len(entries) == 2
    assert_same(general, halves)


def test_a_loop_is_compiled_once_it_pays_and_found_on_disk(entries, monkeypatch):
    _, X = mixtures(2000, 3)
    network = bionica.TwoCompartmentNICA(3, random_state=0, **PLAIN)
    monkeypatch.setattr(stream, "PAYS", 1e-9)
    network.partial_fit(X[:100])  # few samples at a time are a live stream: nothing is compiled
    network.partial_fit(X[:100])
    assert not stream._SPENT
    assert len(entries) == 1
    with monkeypatch.context() as empty:
        empty.setattr(stream.Path, "glob", lambda *_: iter(()))
        network.partial_fit(X)
        assert len(entries) == 1
    network.partial_fit(X)
    assert len(entries) == 2
    assert network.n_samples_seen_ == 4200

    entries.clear()
    stream._SPENT.clear()
    monkeypatch.setattr(stream, "PAYS", np.inf)
    network.partial_fit(X)
    assert len(entries) == 1  # the one on disk, and no other was needed


@pytest.mark.parametrize(("d", "k", "small"), [(3, 3, True), (11, 11, True), (3, 12, False), (12, 12, False)])
def test_only_small_networks(d, k, small):
    _, X = mixtures(50, d, k)
    network = bionica.TwoCompartmentNICA(d, random_state=0, **PLAIN).partial_fit(X)
    assert (tailored.shapes(network._state, k) is not None) == small
