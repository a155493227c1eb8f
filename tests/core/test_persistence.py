"""Models on disk: the same bits, no code, nothing half written, nothing foreign
accepted; and a machine that mixes it all.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import bionica
from bionica import ModelFileError
from conftest import NETWORKS, mixtures, same_bits
from model_zip import pack, unpack

APART = {"W_xy": np.eye(3), "W_yn": np.eye(3), "W_ny": np.eye(3) + 0.1}


@pytest.mark.parametrize(
    "model",
    [
        bionica.InterneuronNICA(3, init=APART),
        bionica.InterneuronNICA(2, n_interneurons=4),
        bionica.InterneuronNICA(2, dynamics="gradient", gamma=0.05),
        bionica.TwoLayerNSM(
            2, guards=("silent",), eta0=np.float64(0.01), n_epochs=np.int64(1)
        ),
        bionica.TwoCompartmentNICA(2, guards=False, eta0=1e-3),
    ],
)
def test_every_kind_of_state(model, tmp_path):
    _, X = mixtures(200, 3)
    model.set_params(random_state=np.random.RandomState(0)).fit(X)
    model.save(tmp_path / "model")
    loaded = bionica.load(tmp_path / "model")
    assert type(loaded) is type(model)
    assert same_bits(loaded, model)
    assert same_bits(loaded.partial_fit(X[:50]), model.partial_fit(X[:50]))


def test_a_schedule_that_is_a_function(tmp_path):
    _, X = mixtures(50, 2)

    def schedule(t):
        return 0.01 / (1 + 0.1 * t)

    network = bionica.TwoCompartmentNICA(eta0=schedule, random_state=0).fit(X)
    network.save(tmp_path / "model")
    with pytest.raises(
        ModelFileError, match=r"eta0 was a function.*load\(path, eta0=\.\.\.\)"
    ):
        bionica.load(tmp_path / "model")
    loaded = bionica.load(tmp_path / "model", eta0=schedule)
    assert same_bits(loaded.partial_fit(X), network.partial_fit(X))


def test_nothing_is_half_written(tmp_path, monkeypatch):
    """A disk that fails in the middle leaves the old file and no other."""
    _, X = mixtures(50, 2)
    network = bionica.TwoCompartmentNICA(random_state=0).fit(X)
    path = tmp_path / "model"
    network.save(path)
    old = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        network.partial_fit(X).save(path)
    assert path.read_bytes() == old
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    bionica.TwoCompartmentNICA(3, random_state=0).fit(mixtures(100, 3)[1]).save(path)
    return path


def test_truncated_at_every_length(saved):
    whole = saved.read_bytes()
    for length in range(0, len(whole), 97):
        saved.write_bytes(whole[:length])
        with pytest.raises(ModelFileError):
            bionica.load(saved)


def test_another_format_is_refused_with_the_version_that_wrote_it(saved):
    header, arrays = unpack(saved.read_bytes())
    saved.write_bytes(
        pack({**header, "format": 8, "versions": {"bionica": "0.1.0"}}, arrays)
    )
    with pytest.raises(
        ModelFileError,
        match=r"format 8.*version that wrote it.*0\.1\.0.*or fit the model again",
    ):
        bionica.load(saved)


def test_loading_runs_no_code(saved):
    """A pickle inside an array is refused, not opened."""
    header, arrays = unpack(saved.read_bytes())
    saved.write_bytes(
        pack(header, arrays | {"_state.W_xz": np.array([{"a": 1}], dtype=object)})
    )
    with pytest.raises(ModelFileError, match="W_xz"):
        bionica.load(saved)


# --- the offline estimators

OFFLINE = {
    "BatchNICA": (
        lambda X: bionica.BatchNICA("auto", random_state=np.random.RandomState(0)).fit(
            X
        )
    ),
    "whitener": lambda X: bionica.NoncenteredWhitener(2).fit(X),
    "whitener of a stream": (
        lambda X: bionica.NoncenteredWhitener().partial_fit(X[:70]).partial_fit(X[70:])
    ),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", OFFLINE)
def test_offline_estimators_come_back_bit_by_bit(kind, dtype, tmp_path):
    _, X = mixtures(500, 3, 4, dtype=dtype)
    model = OFFLINE[kind](X)
    model.save(tmp_path / "model")
    loaded = bionica.load(tmp_path / "model")
    assert type(loaded) is type(model)
    spent = {"random_state": None} if kind == "BatchNICA" else {}
    assert loaded.get_params() == model.get_params() | spent
    Y = model.transform(X)
    np.testing.assert_array_equal(loaded.transform(X), Y)
    np.testing.assert_array_equal(
        loaded.inverse_transform(Y), model.inverse_transform(Y)
    )
    bionica.load(tmp_path / "model").save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    if hasattr(model, "partial_fit"):
        np.testing.assert_array_equal(
            loaded.partial_fit(X).covariance_, model.partial_fit(X).covariance_
        )


class Machine(RuleBasedStateMachine):
    """Learning, transforming, saving, loading and cloning in any order; a twin that
    only learns ends with the same bits.
    """

    @initialize(
        which=st.integers(0, len(NETWORKS) - 1),
        d=st.integers(1, 3),
        dtype=st.sampled_from([np.float64, np.float32]),
        seed=st.integers(0, 5),
    )
    def start(self, which, d, dtype, seed):
        make = NETWORKS[which]
        self.d = d
        self.k = d if make is bionica.NonnegativePCA else 4
        self.seen = 0
        self.X = mixtures(400, 3, self.k, seed=seed, dtype=dtype)[1]
        self.network, self.twin = make(d, random_state=seed), make(d, random_state=seed)

    def take(self, n):
        rows = self.X[np.arange(self.seen, self.seen + n) % len(self.X)]
        self.seen += n
        self.twin.partial_fit(rows)
        return rows

    @rule(n=st.integers(1, 130))
    def partial_fit(self, n):
        self.network.partial_fit(self.take(n))

    @rule(n=st.integers(1, 20))
    def partial_fit_transform(self, n):
        self.check(self.network.partial_fit_transform(self.take(n)), n)

    @rule()
    def learn_one(self):
        self.network.learn_one(self.take(1)[0])

    @rule(n=st.integers(1, 30))
    def transform(self, n):
        if self.seen:
            self.check(self.network.transform(self.X[:n]), n)

    @rule()
    def save_and_load(self):
        if self.seen:
            with tempfile.TemporaryDirectory() as folder:
                self.network.save(Path(folder) / "model")
                self.network = bionica.load(Path(folder) / "model")

    @rule()
    def bad_sample(self):
        if self.seen:
            with pytest.raises(ValueError, match="NaN"):
                self.network.partial_fit(np.full((2, self.k), np.nan))

    def check(self, Y, n):
        assert Y.shape == (n, self.d)
        assert np.isfinite(Y).all()
        assert Y.min() >= 0

    @invariant()
    def the_twin_agrees(self):
        if getattr(self, "seen", 0):
            assert self.network.n_samples_seen_ == self.seen
            assert same_bits(self.network, self.twin)
        if getattr(self, "seen", 0) and not self.network.n_samples_until_start_:
            assert np.isfinite(self.network.components_).all()
            assert self.network.components_.shape == (self.d, self.k)


Machine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None
)
TestMachine = Machine.TestCase
