"""`bionica reproduce`: real files from tiny runs, nothing run twice, nothing of others
replaced.
"""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bionica import InterneuronNICA, datasets, metrics
from bionica.circuits.paper import (
    MAPS,
    MATRICES,
    Reproduction,
    claims_of,
    final_rows,
    plans_of,
)
from bionica.circuits.paper.convergence import cells_of
from bionica.circuits.paper.plans import NETWORKS, MapRow
from bionica.circuits.sweep import Table
from bionica.cli import app
from browser import check_page

pytest.importorskip("matplotlib")
FAST = ["--runs", "2", "--jobs", "1", "--samples", "400"]


def reproduce(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def read(path):
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Three small images, as a user's sources.npy."""
    path = tmp_path_factory.mktemp("images") / "sources.npy"
    np.save(path, np.random.default_rng(0).exponential(size=(3, 400)))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory, pictures):
    """`reproduce all --json` once: its folder, and what it printed."""
    output = tmp_path_factory.mktemp("results")
    options = ["--with-ours", "--images", pictures, "--output", output, "--json"]
    result = reproduce("all", "--runs", 1, *FAST[2:], *options)
    assert result.exit_code == 0, result.output
    return output, json.loads(result.stdout)


def test_all_leaves_tables_figures_and_a_report(run, tmp_path):
    folder, summary = run
    for name in ("figure1", "figure2", "figure3", "figure4", "figure5", "table1"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (folder / f"{name}.svg").read_bytes()
    page = (folder / "report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 6
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    rows = read(folder / "summary.csv")
    for row in rows:
        assert f"{float(row['mean']):.3g}" in page
    assert {*folder.glob("[!.]*.*")} == {*map(Path, summary["files"])}
    assert summary["ran"] == summary["runs"]
    assert [(row["network"], str(row["mean"])) for row in summary["errors"]] == [
        (r["network"], r["mean"]) for r in rows
    ]
    assert [row["network"] for row in summary["grid"]] == list(NETWORKS)
    where = [claim["where"] for claim in summary["claims"]]
    assert where[:2] == ["Figure 4, d = 3", "Figure 4, d = 10"]
    assert sum(place.startswith("Table 1, d = 3") for place in where) == 4
    assert len(check_page(folder / "report.html", tmp_path)) == 2


def test_table_is_tidy_and_the_errors_are_the_metrics(run):
    rows = read(run[0] / "figure4.csv")
    S = datasets.sparse_uniform(400, 3, rng=0)
    X, _ = datasets.mix(S, datasets.paper_mixing("d3"))
    Y = InterneuronNICA.as_published("d3", random_state=0).partial_fit_transform(X)
    key = {"setting": "d3", "network": "InterneuronNICA", "seed": "0"}
    mine = [row for row in rows if row.items() >= key.items()]
    curve = metrics.error_curve(S, Y)
    np.testing.assert_allclose(
        [float(r["error"]) for r in mine],
        [curve[int(r["t"]) - 1] for r in mine],
        rtol=1e-12,
    )
    assert int(mine[-1]["t"]) == 400


def test_grid_holds_every_setting_of_the_appendix(run):
    rows = read(run[0] / "table1.csv")
    assert len(rows) == 3 * 5 * 6 + 5 * 6 * 10
    refused = [
        row for row in rows if row["tau"] and float(row["eta0"]) >= float(row["tau"])
    ]
    assert refused
    assert {row["error"] for row in refused} == {""}
    assert all("tau" in row["status"] for row in refused)


def test_a_file_of_somebody_else_is_not_replaced(tmp_path):
    (tmp_path / "figure1.csv").write_text("mine")
    result = reproduce("figure1", "--output", tmp_path)
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    # refused before anything ran
    assert [path.name for path in tmp_path.iterdir()] == ["figure1.csv"]
    assert reproduce("figure1", "--output", tmp_path, "--force").exit_code == 0
    (tmp_path / "figure1.csv").write_text("edited")
    assert reproduce("figure1", "--output", tmp_path).exit_code == 1
    assert (tmp_path / "figure1.csv").read_text() == "edited"


def row_of(network, seed, error):
    """A row of the table of figure 4 at d = 3."""
    row = {
        "case": f"{network}{seed}",
        "data": "d3",
        "network": network,
        "seed": seed,
        "t": 10,
        "error": error,
    }
    return {**row, "last_tenth": error, "status": "ok", "seconds": 1.0}


def test_interval_and_means_are_over_runs_that_did_not_diverge():
    rows = [
        row_of("TwoLayerNSM", seed, error)
        for seed, error in enumerate((1.0, 2.0, 3.0, None))
    ]
    tables = {("figure4", "d3"): Table(rows, [])}
    (row,) = final_rows(tables, "figure4")
    expected = {"runs": 4, "failed": 1, "mean": 2.0, "least": 1.0, "largest": 3.0}
    assert row.items() >= expected.items()
    assert 1 <= row["low"] < 2 < row["high"] <= 3
    assert tables["figure4", "d3"].curves()[0]["mean"] == 2.0


@pytest.mark.parametrize(
    ("errors", "verdict", "wins"),
    [
        ((3.0, 4.0, 1.0, 2.0), "yes", 2),
        ((1.5, 4.0, 1.0, 2.0), "partly", 0),
        ((1.0, 2.0, 3.0, 4.0), "no", 0),
    ],
)
def test_report_says_whether_the_order_holds(errors, verdict, wins):
    rows = [
        row_of(network, seed, error)
        for network, error in zip(NETWORKS, errors, strict=True)
        for seed in (0, 1)
    ]
    finals = final_rows({("figure4", "d3"): Table(rows, [])}, "figure4")
    claim = claims_of([{**row, "setting": "d3"} for row in rows], finals, [])[0]
    assert claim["agrees"] == verdict
    assert f"in {wins} of 2 runs" in claim["ours"]


def test_a_map_of_convergence_has_files_and_a_table_of_its_cells(tmp_path, monkeypatch):
    rows = {"d2": MapRow("d = 2", 2, conditions=(1, 30))}
    for name in ("convergence", "convergence-scale"):
        monkeypatch.setitem(MAPS, name, rows)
    result = reproduce("convergence", *FAST, "--output", tmp_path)
    assert result.exit_code == 0, result.output
    # 2 maps, 8 networks, 2 condition numbers, 2 matrices
    assert "64 of 64 runs" in result.output
    text = (tmp_path / "convergence.md").read_text()
    assert text.startswith("| network |  | condition 1 | condition 30 |")
    (line,) = (line for line in text.splitlines() if "StreamingNICA" in line)
    runs = read(tmp_path / "convergence.csv")
    key = {"network": "StreamingNICA", "data": "30"}
    mine = [float(row["sinr"]) for row in runs if row.items() >= key.items()]
    assert line.split(" | ")[3].startswith(f"{50 * sum(s > 15 for s in mine)} (")
    assert "StreamingNICA" in (tmp_path / "convergence.html").read_text()
    cells = read(tmp_path / "convergence-summary.csv")
    assert len(cells) == 2 * 8 * 2
    for cell in cells:
        assert float(cell["low"]) <= float(cell["percent"]) <= float(cell["high"])


def test_the_maps_are_those_that_the_page_describes():
    plans = plans_of(Reproduction(tuple(MAPS), MATRICES))
    sizes = {
        name: [plan.data[0].d for (of, _), plan in plans.items() if of == name]
        for name in MAPS
    }
    assert [*sizes.values()] == [
        [2, 3, 5, 10, 20],
        [3, 3, 10, 10],
        2 * [2, 3, 5, 10],
        [3],
    ]
    for (name, _), plan in plans.items():
        samples = name == "convergence-samples"
        conditions = ["30", "100"] if samples else ["1", "3", "10", "30", "100"]
        assert [entry.name for entry in plan.data] == conditions
        assert len(plan.seeds) == 30
        for entry in plan.data:
            assert entry.held_out == 5000
            assert entry.n_samples == (1_000_000 if samples else 100_000)
        A = plan.data[0].load(0, "float64").A
        assert np.linalg.cond(A) == pytest.approx(float(conditions[0]))
        assert plan.cases()[0].estimator().n_components == len(A)


def test_cells_of_a_map_count_runs_above_15_db_and_diverged_ones_as_not_separated():
    head = {"network": "InterneuronNICA", "setting": "d3", "status": "ok"}
    rows = [{**head, "data": "30", "sinr": sinr} for sinr in (20.0, 14.9, 15.0, 15.1)]
    rows += [
        {**head, "data": data, "sinr": None, "status": "diverged"}
        for data in ("30", "100")
    ]
    cell, other = cells_of(rows)
    expected = {"runs": 5, "separated": 2, "percent": 40, "median_sinr": 15.0}
    assert cell.items() >= expected.items()
    expected = {"condition": 100, "runs": 1, "separated": 0, "median_sinr": 0}
    assert other.items() >= expected.items()
    z2 = 1.959964**2  # Wilson's interval solves |p - 2/5| = z sqrt(p (1 - p) / n)
    for share in (cell["low"] / 100, cell["high"] / 100):
        assert (share - 0.4) ** 2 == pytest.approx(
            z2 * share * (1 - share) / 5, rel=1e-6
        )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("figure9", 2),
        ("figure4 --runs 0", 2),
        ("figure4 --images .", 2),
        ("figure5 --images no", 1),
    ],
)
def test_errors_are_one_line(tmp_path, arguments, code):
    result = reproduce(*arguments.split(), "--output", tmp_path / "results")
    assert result.exit_code == code
    assert "Traceback" not in result.output
    assert code == 2 or result.output.count("\n") == 1
    assert not (tmp_path / "results").exists()
