"""The benchmarks on tiny sizes: the contenders do the same work, and the tables hold what they should."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import bionica

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import common
import first_fit
import growth
import loop_speed
import peers
import speed

SRC = Path(bionica.__file__).parents[1]


def rows(table):
    """Return the rows of a markdown table as dicts."""
    head, _, *lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    return [dict(zip(head, line, strict=True)) for line in lines]


def restarted(name, d, X):
    """Return a network without guards that has learned from X, with its sample count at 0, and one that starts with its weights."""
    network = common.paper_network(name, d, guards=False).fit(X)
    network.n_samples_seen_ = 0
    weights = {part: getattr(network, f"{part}_") for part in common.WEIGHTS[name]}
    return network, common.paper_network(name, d, guards=False).set_params(init=weights)


@pytest.mark.parametrize("name", common.NETWORKS)
def test_numpy_learns_what_the_network_learns(name):
    X = common.problem(300, 3)
    network, again = restarted(name, 3, X)
    seen = X
    if name == "NonnegativePCA":
        again, seen = again.set_params(whiten=False), X @ network.whitening_.T
    expected = again.partial_fit_transform(seen)
    np.testing.assert_allclose(speed.in_numpy(network, X)(), expected, rtol=1e-8, atol=1e-9)


@pytest.fixture(scope="module")
def library():
    return speed.build_cpp() or pytest.skip("no C++ compiler")


@pytest.mark.parametrize("d", [3, 10, 50])
def test_cpp_learns_what_the_network_learns(d, library):
    X = common.problem(300, d)
    network, again = restarted("TwoCompartmentNICA", d, X)
    expected = again.partial_fit_transform(X)
    np.testing.assert_allclose(speed.in_cpp(library, network, X)(), expected, rtol=1e-8, atol=1e-9)


def test_a_missing_or_failing_compiler_leaves_the_column_empty(monkeypatch):
    for found in ("/bin/false", None):
        monkeypatch.setattr(shutil, "which", lambda name, found=found: found)
        assert speed.build_cpp() is None
    table = speed.networks({3: (400, 30)}, rounds=1)
    assert "No C++ compiler was found" in table
    measured = rows(table)
    assert [row["network"] for row in measured] == list(common.NETWORKS)
    assert {row["C++, ns"] for row in measured} == {""}
    assert "<= 1.5 x Algorithm 2" in measured[1]["targets"]
    assert "C++" not in measured[0]["targets"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_single_samples_of_every_online_estimator():
    measured = rows(speed.single_samples(rounds=1, n=5))
    assert {row["estimator"] for row in measured} == {*common.NETWORKS, "StreamingNICA", "MinimumVolumeCone"}
    assert all(
        float(row["of a dict"].replace(",", "")) > 0 and "us transform_one" in row["targets"] for row in measured
    )


def test_peers_are_scored_on_samples_that_nobody_learned_from():
    found = rows(peers.peers(3, 2000, n_seeds=2))
    assert [row["method"] for row in found] == list(peers.METHODS)
    errors = {row["method"]: (float(row["error, median"]), float(row["worst"])) for row in found}
    assert all(median <= worst for median, worst in errors.values())
    assert errors["BatchNICA"][1] < 0.05


def test_growth_along_d_k_and_T():
    assert {row["d"] for row in rows(growth.along_d((3, 4), rounds=1))} == {"3", "4"}
    assert {row["k"] for row in rows(growth.along_k((10, 12), rounds=1))} == {"10", "12"}
    assert {row["T"] for row in rows(growth.along_T(10_000))} == {"10,000"}


def test_two_checkouts_are_measured_in_turn():
    sources = {"before": SRC, "now": SRC}
    (row,) = rows(loop_speed.loop_speeds(sources, {3: 1000}, rounds=1, networks=["NonnegativePCA"]))
    assert float(row["now / before"]) > 0


@pytest.mark.slow
def test_first_fit_compiles_and_the_second_process_does_not():
    (row,) = rows(first_fit.first_fits({"now": SRC}, ["NonnegativePCA"]))
    assert float(row["now: second process, s"]) < float(row["now: empty cache, s"])


def test_best_of_runs_every_contender_in_every_round():
    calls = []
    seconds = common.best_of({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert calls == ["a", "b"] * 3
    assert min(seconds.values()) >= 0


def test_verdict():
    assert common.verdict(1.2, "<=", 1.3, "x C++") == "<= 1.3 x C++: met"
    assert common.verdict(70.0, ">=", 80, "x NumPy") == ">= 80 x NumPy: MISSED"
    assert common.verdict(None, "<=", 1.3, "x C++") == ""
