"""The benchmarks on tiny sizes: every table runs, a failing case is the worst value,
two checkouts are measured in turn.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

import bionica

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import correlated
import methods
import problems
import runner
import streaming


@pytest.mark.parametrize(
    "module", [streaming, correlated], ids=lambda module: module.__name__
)
def test_every_table_has_cases_of_its_measure(module):
    for quick in (True, False):
        for key, table in module.tables(range(5000, 5002), quick).items():
            names = {name for _, arguments in table.cases for name in arguments}
            assert names, key
            assert set(table.by) <= names, key
            code = table.measure.__code__
            assert names < set(code.co_varnames[: code.co_argcount]), key


@pytest.mark.parametrize(
    ("module", "key", "shorter"),
    [
        (streaming, "random", {"T": 2000}),
        (streaming, "disturbances", {}),
        (correlated, "outliers", {"T": 1500}),
    ],
)
def test_a_case_of_a_table(module, key, shorter):
    table = module.tables(range(5000, 5001), quick=True)[key]
    found, arguments = table.cases[0]
    row = runner.measured(table.measure, {"method": found[-1]} | arguments | shorter)
    assert np.isfinite(row[table.value]), row


def test_a_failing_case_is_the_worst_value_and_is_listed():
    table = runner.Table(
        "T",
        "",
        lambda method, d, seed: {"error": 1.0 / seed},
        [(["a"], {"d": 3, "seed": s}) for s in (0, 1)],
        ["d"],
    )
    before = [{"method": "a", "d": 3, "seed": 1, "error": 2.0}]
    text = runner.show(table, runner.run("t", table), before=before)
    assert "inf (inf) / 2 (2)" in text
    assert "1 of 2 cases failed" in text
    assert "ZeroDivisionError" in text
    below = table._replace(below=1.5)
    text = runner.show(below, runner.run("t", below))
    assert "number below 1.5" in text
    assert "1 (inf)" in text


@pytest.mark.filterwarnings("ignore")
def test_peers_recover_independent_sources(rng):
    S = problems.sources("sparse_uniform", 3000, 3, rng)
    for method in ("BatchNICA", "FastICA", "NMF", methods.KNOWS_A):
        X, A = methods.mixed(method, S, 6, None, np.random.default_rng(1))
        Y = methods.separated(method, 3, X, A, X, 0)
        assert Y.min() >= 0
        assert bionica.metrics.sinr(S, Y) > (5 if method == "NMF" else 15)
