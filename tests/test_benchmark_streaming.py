"""benchmarks/streaming.py on tiny sizes: every case is a row, a failing one too, and verdicts follow from the rows."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import streaming
from case_runner import measure
from streams import cases, measures, tables

METHOD = "TwoCompartmentNICA"


def problem_rows(method, errors):
    return [
        {"method": method, "kind": "gamma", "d": 3, "T": 1000, "seed": seed, "error": error}
        for seed, error in enumerate(errors)
    ]


def test_every_table_has_cases_and_a_function_that_prints_it():
    for name, function in measures.MEASURES.items():
        made = cases.cases([name], streaming.METHODS, 100, 1.0, 10**7, 5000)
        assert made and callable(getattr(tables, name)) and callable(function)
        assert len({streaming.BENCHMARK.identity(case) for case in made}) == len(made)


def test_the_issue_asks_for_this_many_runs():
    def count(name, **which):
        made = cases.cases([name], [METHOD], 100, 1.0, 10**7, 5000)
        return sum(which.items() <= case.items() for case in made)

    assert [count("random", d=d) for d in (3, 5, 10, 20)] == [100] * 4
    assert count("abrupt") == 40
    assert count("short", T=3000) == 20


def test_a_failing_case_is_a_row_and_missed():
    case = {"table": "short", "method": METHOD, "kind": "no such kind", "k": 3, "d": 3, "T": 1000, "seed": 0}
    row = measure(measures.random, case)
    assert "no such kind" in row["failure"]
    assert tables.value(row) == np.inf
    assert "no such kind" in tables.failures([row])


@pytest.mark.parametrize(
    "errors, verdict",
    [([1.1e-3] * 19 + [2e-3], "met"), ([1.1e-3] * 18 + [2e-3] * 2, "MISSED"), ([1.1e-3] * 19 + [np.nan], "MISSED")],
)
def test_verdict_of_the_random_problems(errors, verdict):
    """95 % within 1.5 and no error above 0.01; an error that is NaN is above."""
    rows = problem_rows("StreamingNICA", errors) + problem_rows("BatchNICA", [1e-3] * 20)
    line = next(line for line in tables.random(rows).splitlines() if line.startswith("| StreamingNICA"))
    assert line.endswith(f"| {verdict} |")


def test_without_the_yardstick_nothing_is_met():
    assert np.isinf(tables.ratios(problem_rows("StreamingNICA", [1e-6]), [])).all()


def test_a_run_is_judged_by_the_mean_clean_error():
    rows = [
        {"error": error, "clean": clean, "before": 1.0, "right_after": 2.0} for error, clean in ((2.9, 0.5), (3.1, 1.5))
    ]
    found = tables.recovery(rows)
    assert found["within 3"] == "1 of 2" and found["verdict"] == "MISSED"
    assert tables.recovery([{"failure": "it raised"}])["verdict"] == "MISSED"


def test_run_is_continued_and_read_back(tmp_path, capsys, monkeypatch):
    file = tmp_path / "rows.jsonl"
    command = ["streaming.py", "--tables", "short", "--problems", "1", "--json", str(file)]
    monkeypatch.setattr(sys, "argv", [*command, "--methods", "BatchNICA"])
    streaming.main()
    monkeypatch.setattr(sys, "argv", [*command, "--methods", f"BatchNICA,{METHOD}"])
    streaming.main()
    printed = capsys.readouterr().out.split("# Streams")[-1]
    headers, rows = streaming.BENCHMARK.read([file])
    assert (len(headers), len(rows)) == (2, 8)
    monkeypatch.setattr(sys, "argv", ["streaming.py", "--from-json", str(file)])
    streaming.main()
    assert capsys.readouterr().out.split("# Streams")[-1] == printed
    with pytest.raises(SystemExit, match="twice"):
        streaming.BENCHMARK.read([file, file])
