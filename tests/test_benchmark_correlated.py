"""benchmarks/correlated.py on tiny sizes: every case is a row, a failing one too, and verdicts follow from the rows."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import correlated
from case_runner import measure
from correlated_cases import cases, measures, methods, sources, stream_tables, tables

CONE, BATCH = "MinimumVolumeCone", "BatchNICA"


def made(*names, seeds=10):
    return cases.cases(names, methods.METHODS, seeds, 1.0, 10**7, 7000)[0]


def row(method, sinr, seed=0, **more):
    return {
        "method": method,
        "kind": "gamma",
        "d": 3,
        "k": 3,
        "T": 1000,
        "snr_db": 20,
        "seed": seed,
        "sinr": sinr,
    } | more


def verdict_of(text):
    """Return the last cell of the last line."""
    return text.strip().splitlines()[-1].split("|")[-2].strip()


@pytest.fixture
def paper_images(tmp_path, monkeypatch):
    np.save(tmp_path / "sources.npy", np.random.default_rng(0).random((3, 400)))
    monkeypatch.setenv(sources.PAPER_FOLDER, str(tmp_path))


def test_every_table_has_cases_and_a_function_that_prints_it(paper_images):
    for name in set(measures.MEASURES) - {"real"}:  # its data sets need packages that are not installed for the tests
        some = made(name)
        assert some and callable(correlated.TABLES[name])
        assert len({correlated.BENCHMARK.identity(case) for case in some}) == len(some)


def test_the_issue_asks_for_these_runs(paper_images):
    def count(name, **which):
        return sum((which | {"method": CONE}).items() <= case.items() for case in made(name))

    assert [count("copula", kind=f"copula {rho}", snr_db=30) for rho in cases.RHO] == [10] * 6
    assert count("uncorrelated") == 40 * 3 * 10 and count("noiseless") == 40 * 10
    assert count("images", images=sources.PAPER, matrix="paper's") == 1
    assert {case["noise"] for case in made("chemistry")} == set(cases.CHEMISTRY_NOISE)


def test_what_is_not_here_is_named(monkeypatch):
    monkeypatch.delenv(sources.PAPER_FOLDER, raising=False)
    monkeypatch.setattr(cases, "find_spec", lambda package: None)
    some, left_out = cases.cases(["images", "real"], methods.METHODS, 1, 1.0, 10**7, 7000)
    assert not any(case.get("images") == sources.PAPER or case["table"] == "real" for case in some)
    assert [text.split(":")[0] for text in left_out] == [sources.PAPER + " images", *sources.REAL]


@pytest.mark.parametrize("kind", cases.CHEMISTRY)
def test_spectra_mix_the_sources(kind):
    X, S, A = sources.chemistry(kind, 600, np.random.default_rng(0))
    assert S.min() >= 0 and A.min() >= 0 and X.shape == (len(S), len(A))
    residual = np.linalg.norm(X - S @ A.T) / np.linalg.norm(X)
    assert residual < (0.5 if kind == "four notes" else 1e-12)  # powers of simultaneous notes do not add exactly


def test_peers_recover_independent_sources():
    """NMF gets nonnegative mixtures, FastICA a sign and no offset: outputs of all methods are nonnegative."""
    rng = np.random.default_rng(0)
    S = sources.synthetic("sparse-uniform", 3000, 3, rng)
    for method in (BATCH, "FastICA", "NMF", methods.KNOWS_A):
        X, A = methods.mixed(method, S, 6, None, np.random.default_rng(1))
        Y = methods.separated(method, 3, X, A, X, 0)
        assert Y.shape == S.shape and Y.min() >= 0
        assert measures.sinr(S, Y) > (5 if method == "NMF" else 15)


def test_real_data_has_a_reference_and_rows_that_are_not_run_again(monkeypatch):
    rng = np.random.default_rng(0)
    S = sources.synthetic("sparse-uniform", 500, 3, rng)
    X = S @ rng.random((3, 8))
    monkeypatch.setattr(sources, "REAL", {"tiny": ("numpy", lambda: (X, S[:, 1]), 3)})
    (case,) = (case for case in made("real") if case["method"] == BATCH)
    found = measure(measures.real, case)
    assert found["glucose"] > 0.99 and found["unexplained"] < 1e-2 and found["negativity"] < 1e-2
    assert correlated.BENCHMARK.identity(found) == correlated.BENCHMARK.identity(case)
    assert "0.99" in tables.real([found]) or "1.000" in tables.real([found])


def test_a_failing_case_is_a_row_and_missed():
    case = {"table": "sizes", "method": CONE, "kind": "copula x", "d": 5, "k": 10, "snr_db": 30, "T": 3000, "seed": 0}
    failed = measure(measures.synthetic, case)
    assert "failure" in failed
    assert verdict_of(tables.sizes([failed, failed | {"method": "knows A", "sinr": 30.0}])) == "MISSED"
    assert verdict_of(tables.sizes([failed])) == "MISSED"


@pytest.mark.parametrize("sinr, verdict", [(19.6, "met"), (19.4, "MISSED"), (np.nan, "MISSED")])
def test_no_run_may_be_half_a_decibel_below_batch(sinr, verdict):
    rows = [row(BATCH, 20.0, seed) for seed in range(3)]
    rows += [row(CONE, 25.0, 0), row(CONE, 25.0, 1), row(CONE, sinr, 2)]
    assert verdict_of(tables.uncorrelated(rows)) == verdict


def test_without_the_yardstick_nothing_is_met_and_without_the_cone_nothing_is_judged():
    assert verdict_of(tables.uncorrelated([row(CONE, 99.0)])) == "MISSED"
    assert verdict_of(tables.uncorrelated([row(BATCH, 99.0)])) == ""


def test_correlations_are_compared_with_those_of_nmf():
    def rows(cone, nmf):
        some = {"sources_of": "chromatogram", "noise": "40 dB", "T": 3000, "seed": 0}
        return [some | {"method": CONE, "worst": cone}, some | {"method": "NMF", "worst": nmf}]

    assert verdict_of(tables.chemistry(rows(0.95, 0.94))) == "met"
    assert verdict_of(tables.chemistry(rows(0.93, 0.94))) == "MISSED"
    dirichlet = [line | {"sources_of": "Dirichlet 1"} for line in rows(0.95, 0.94)]
    assert verdict_of(tables.chemistry(dirichlet)) == "MISSED"


def test_the_worst_window_of_a_drift_is_judged():
    some = {"method": CONE, "change": "all of A", "turn": 1000, "horizon": 100, "median": 25.0, "tenth": 22.0}
    assert verdict_of(stream_tables.drift([some | {"sinr": 21.0}, some | {"sinr": 19.0}])) == "MISSED"


def test_run_is_continued_and_read_back(tmp_path, capsys, monkeypatch):
    file = tmp_path / "rows.jsonl"
    command = [
        "correlated.py",
        "--tables",
        "chemistry,outliers",
        "--seeds",
        "1",
        "--scale",
        "0.05",
        "--json",
        str(file),
    ]
    monkeypatch.setattr(sys, "argv", [*command, "--methods", BATCH])
    correlated.main()
    monkeypatch.setattr(sys, "argv", [*command, "--methods", f"{BATCH},knows A"])
    correlated.main()
    printed = capsys.readouterr().out.split("# Correlated sources")[-1]
    headers, rows = correlated.BENCHMARK.read([file])
    assert (len(headers), len(rows)) == (2, 2 * (18 + 4))
    assert not any("failure" in row for row in rows)
    monkeypatch.setattr(sys, "argv", ["correlated.py", "--from-json", str(file)])
    correlated.main()
    assert capsys.readouterr().out.split("# Correlated sources")[-1] == printed
