"""`bionica bench` on tiny sizes: the contenders do the same work, the tables and files are there."""

import csv
import json
import shutil
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from bionica import bench, estimators
from bionica.bench import cpp, line_by_line
from bionica.bench.contenders import (
    DECAY,
    NETWORKS,
    PAPER,
    SINGLE_LAYER,
    TAU,
    WEIGHTS,
    first_rate,
    in_cpp,
    in_numpy,
    problem,
)
from bionica.cli import app

TINY = bench.Sizes(
    samples={3: (400, 30)}, rounds=1, peers=(3, 2000), d=(3, 4), k=(10, 12), n_values=5e3, T=10_000, own=False
)  # fmt: skip


def run(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(bench, "QUICK", TINY)


# ------------------------------------------------------------------------------------------ they do the same work


def fresh(name, d):
    """A network without guards, at its first sample."""
    options = PAPER if name in SINGLE_LAYER else {}
    options = options | ({"tau": TAU} if name == "TwoCompartmentNICA" else {})
    return getattr(estimators, name)(d, eta0=first_rate(3), decay=DECAY, random_state=0, guards=False, **options)


def learned(name, d, X):
    """A network after X, and its weights; its count of samples at 0, where the rates of one that starts with them are."""
    network = fresh(name, d).fit(X)
    network.n_samples_seen_ = 0
    return network, {part: getattr(network, f"{part}_") for part in WEIGHTS[name]}


@pytest.mark.parametrize("settle", [line_by_line.solver()[1], line_by_line._nnls], ids=["quadprog", "nnls"])
@pytest.mark.parametrize("name", NETWORKS)
def test_numpy_learns_what_the_network_learns(name, settle):
    X = problem(300, 3)
    network, init = learned(name, 3, X)
    again, seen = fresh(name, 3).set_params(init=init), X
    if name == "NonnegativePCA":
        again, seen = again.set_params(whiten=False), X @ network.whitening_.T
    expected = again.partial_fit_transform(seen)
    np.testing.assert_allclose(in_numpy(network, X, settle)(), expected, rtol=1e-8, atol=1e-9)


@pytest.fixture(scope="module")
def library():
    return cpp.build() or pytest.skip("no C++ compiler")


@pytest.mark.parametrize("d", [3, 10, 50])
def test_cpp_learns_what_the_network_learns(d, library):
    X = problem(300, d)
    network, init = learned("TwoCompartmentNICA", d, X)
    expected = fresh("TwoCompartmentNICA", d).set_params(init=init).partial_fit_transform(X)
    np.testing.assert_allclose(in_cpp(library, network, X)(), expected, rtol=1e-8, atol=1e-9)


# ------------------------------------------------------------------------------------------ the command


def test_prints_and_writes_every_table(tmp_path):
    result = run("--quick", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    text = (tmp_path / "out" / "speed.md").read_text()
    for words in ("Networks beside C++ and NumPy", "Peers on the same data", "Growth of cost", "<= 1.5 x Algorithm 2"):
        assert words in result.output
        assert words in text
    assert "`bionica bench --quick`" in text
    assert "cores; bionica" in text
    assert (tmp_path / "out" / "growth.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "out" / "growth.svg").read_bytes()
    with (tmp_path / "out" / "speed.csv").open(newline="") as file:
        assert [row["network"] for row in csv.DictReader(file)] == list(NETWORKS)
    assert not [path.name for path in (tmp_path / "out").glob(".*")]


def test_json_holds_the_rows_and_nothing_else_is_printed():
    result = run("--quick", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert set(found["tables"]) == {"speed", "peers", "growth"}
    assert all(row["ns"] > 0 for rows in found["tables"].values() for row in rows)
    assert {(row["along"], row["value"]) for row in found["tables"]["growth"]} == {
        ("d", 3), ("d", 4), ("k", 10), ("k", 12), ("T", 10_000),
    }  # fmt: skip
    errors = {row["method"]: row["error"] for row in found["tables"]["peers"]}
    assert errors["TwoCompartmentNICA"] < 0.05
    assert found["output"] == []


def test_quiet_says_nothing(tmp_path):
    result = run("--quick", "-q", "-o", tmp_path)
    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / "speed.md").is_file()


def test_without_a_compiler_the_column_is_empty_and_the_note_says_so(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    table = bench.speed(TINY)
    assert "No C++ compiler was found" in table.note
    assert {row["cpp_ns"] for row in table.rows} == {None}
    assert "C++" not in table.rows[0]["targets"]


def test_a_compiler_that_fails_is_none(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/false")
    assert cpp.build() is None


def test_without_quadprog_nnls_takes_its_place(monkeypatch):
    monkeypatch.setitem(sys.modules, "quadprog", None)
    assert line_by_line.solver()[0] == "SciPy's nnls"
    assert "NumPy + SciPy's nnls" in bench.speed(TINY).note


def test_without_picard_the_row_is_left_out_and_the_note_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "picard", None)
    table = bench.peers(TINY)
    assert "Picard" not in {row["method"] for row in table.rows}
    assert "pip install python-picard" in table.note


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    result = run("--quick", "-o", tmp_path / "file")
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert "file" in result.output


def test_best_of_runs_every_contender_in_every_round():
    from bionica.bench.timing import best_of

    calls = []
    seconds = best_of({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert calls == ["a", "b"] * 3
    assert min(seconds.values()) >= 0
