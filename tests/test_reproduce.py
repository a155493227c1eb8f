"""`bionica reproduce`: real files from tiny runs, and nothing run twice."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bionica import InterneuronNICA, datasets, metrics
from bionica.cli import app
from bionica.estimators.published import PUBLISHED
from bionica.experiments import (
    Reproduction,
    Store,
    best_settings,
    claims_of,
    curve_rows,
    final_rows,
    grid_means,
    image_digest,
    pending,
    run_all,
    tasks_of,
)
from bionica.experiments.reference import DECAY, ETA0, NETWORKS, TAU
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
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("images") / "sources.npy"
    np.save(path, rng.exponential(size=(3, 400)))
    return path


@pytest.fixture(scope="module")
def everything(tmp_path_factory, pictures):
    """`reproduce all` once, for the tests that look at what it leaves."""
    output = tmp_path_factory.mktemp("results")
    result = reproduce("all", "--runs", 1, *FAST[2:], "--with-defaults", "--images", pictures, "--output", output)
    assert result.exit_code == 0, result.output
    return output


def test_all_leaves_tables_figures_and_a_report(everything):
    for name in ("figure1", "figure2", "figure3", "figure4", "figure5", "table1"):
        assert (everything / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (everything / f"{name}.svg").read_bytes()
    for name in ("figure1", "figure4", "figure5", "table1", "summary"):
        assert read(everything / f"{name}.csv")
    assert not [path.name for path in everything.rglob(".*")]  # no half-written file


def test_table_is_tidy_and_the_errors_are_the_metrics(everything):
    rows = read(everything / "figure4.csv")
    assert {"experiment", "setting", "network", "seed", "t", "error", "versions", "machine"} <= set(rows[0])
    S = datasets.sparse_uniform(400, 3, rng=0)
    X, _ = datasets.mix(S, datasets.paper_mixing("d3"))
    Y = InterneuronNICA.as_published("d3", random_state=0).partial_fit_transform(X)
    mine = [r for r in rows if (r["setting"], r["network"], r["seed"]) == ("d3", "InterneuronNICA", "0")]
    curve = metrics.error_curve(S, Y)
    assert [float(r["error"]) for r in mine] == [curve[int(r["t"]) - 1] for r in mine]
    assert int(mine[-1]["t"]) == 400


def test_parquet_says_the_same(everything):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(everything / "figure4.parquet").to_pylist()
    assert [str(row["error"]) for row in table] == [row["error"] for row in read(everything / "figure4.csv")]


def test_grid_holds_every_setting_of_the_appendix(everything):
    rows = read(everything / "table1.csv")
    assert len(rows) == 3 * len(ETA0) * len(DECAY) + len(ETA0) * len(DECAY) * len(TAU)
    refused = [row for row in rows if row["tau"] and float(row["eta0"]) >= float(row["tau"])]
    assert refused
    assert all(row["error"] == "" and "tau" in row["status"] for row in refused)


def test_report_needs_no_network_and_has_the_numbers(everything):
    page = (everything / "report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 6
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    for row in read(everything / "summary.csv"):
        assert f"{float(row['mean']):.3g}" in page
    for statement in ("outperformed by Nonnegative PCA", "two-thirds", "Best (η₀, γ, τ) = (0.1, 0.01, 0.8)"):
        assert statement in page


def test_second_call_runs_nothing_and_a_damaged_run_is_run_again(tmp_path):
    first = reproduce("figure4", *FAST, "--output", tmp_path)
    assert "16 of 16 runs" in first.output, first.output
    runs = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.npz")}
    table = (tmp_path / "figure4.csv").read_bytes()
    second = reproduce("figure4", *FAST, "--output", tmp_path)
    assert "0 of 16 runs" in second.output
    assert runs == {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.npz")}
    assert table == (tmp_path / "figure4.csv").read_bytes()

    damaged = min(runs)
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert "1 of 16 runs" in reproduce("figure4", *FAST, "--output", tmp_path).output
    assert table.count(b"\n") == (tmp_path / "figure4.csv").read_bytes().count(b"\n")


def test_force_runs_again(tmp_path):
    reproduce("figure1", "--output", tmp_path)
    assert "1 of 1 runs" in reproduce("figure1", "--output", tmp_path, "--force").output


def test_more_runs_go_on_from_those_that_are_there(tmp_path):
    two, three = (tasks_of(Reproduction(("figure4",), runs=runs, n_samples=100)) for runs in (2, 3))
    store = Store(tmp_path)
    run_all(two, store)
    assert {task.seed for task in pending(three, store)} == {2}


def test_processes_give_the_same_numbers_as_one(tmp_path):
    tasks = tasks_of(Reproduction(("figure4",), runs=1, n_samples=200))
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    run_all(tasks, one)
    run_all(tasks, two, jobs=2)
    assert not pending(tasks, two)
    for task in tasks:
        assert one.get(task).header["error"] == two.get(task).header["error"]


def test_other_images_are_other_runs_wherever_they_lie(tmp_path, pictures):
    np.save(tmp_path / "copy.npy", np.load(pictures))
    np.save(tmp_path / "other.npy", np.load(pictures)[::-1])

    def files(path):
        config = Reproduction(("figure5",), images=str(path), digest=image_digest(str(path)))
        return {task.file for task in tasks_of(config)}

    assert files(pictures) == files(tmp_path / "copy.npy")
    assert not files(pictures) & files(tmp_path / "other.npy")


def result_of(setting, network, seed, error, experiment="figure4", params=()):
    from bionica.experiments import Result, Task

    header = {"status": "ok", "error": error, "last_tenth": error, "seconds": 1.0, "n_samples": 10}
    return Result(Task(experiment, setting, network, seed, 10, params), header, {})


def test_interval_and_means_are_over_runs_that_did_not_diverge():
    results = [result_of("d3", "TwoLayerNSM", seed, error) for seed, error in enumerate((1.0, 2.0, 3.0, None))]
    (row,) = final_rows(results)
    assert (row["runs"], row["diverged"], row["mean"], row["least"], row["largest"]) == (4, 1, 2.0, 1.0, 3.0)
    assert 1 <= row["low"] < 2 < row["high"] <= 3
    assert curve_rows(results)[0]["mean"] == 2.0


@pytest.mark.parametrize(
    ("errors", "verdict", "wins"),
    [((3.0, 4.0, 1.0, 2.0), "yes", 2), ((1.5, 4.0, 1.0, 2.0), "partly", 0), ((1.0, 2.0, 3.0, 4.0), "no", 0)],
)
def test_report_says_whether_the_order_holds(errors, verdict, wins):
    results = [
        result_of("d3", network, seed, error)
        for seed in (0, 1)
        for network, error in zip(NETWORKS, errors, strict=True)
    ]
    claim = claims_of(results, final_rows(results), [])[0]
    assert claim["agrees"] == verdict
    assert f"in {wins} of 2 runs" in claim["ours"]


def test_best_setting_is_set_beside_the_papers():
    printed = tuple(PUBLISHED["NonnegativePCA"]["d3"].items())
    other = (("eta0", 0.1), ("decay", 1e-5))
    results = [result_of("d3", "NonnegativePCA", 0, 0.2, "table1", printed)]
    results += [result_of("d3", "NonnegativePCA", 0, 0.1, "table1", other)]
    results += [result_of("d3", "NonnegativePCA", 0, None, "table1", (("eta0", 0.1), ("decay", 1e-7)))]
    (row,) = best_settings(grid_means(results))
    assert row["best"] == (0.1, 1e-5)
    assert row["paper"] == (0.01, 1e-5)
    assert (row["paper_rank"], row["failed"], row["settings"]) == (2, 1, 3)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["figure9"], 2, "figure9"),
        (["figure4", "--runs", "0"], 2, "runs"),
        (["figure5", "--images", "nowhere"], 1, "does not exist"),
    ],
)
def test_errors_are_one_line(tmp_path, arguments, code, message):
    result = reproduce(*arguments, "--output", tmp_path / "results")
    assert result.exit_code == code
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "results").exists()


def test_output_that_is_a_file_and_images_that_do_not_fit_are_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    result = reproduce("figure1", "--output", tmp_path / "file")
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"
    np.save(tmp_path / "two.npy", np.random.default_rng(0).random((2, 16)))
    result = reproduce("figure5", "--images", tmp_path / "two.npy", "--output", tmp_path / "r")
    assert result.exit_code == 1
    assert "for 3" in result.output


def test_report_opens_in_a_browser(everything, tmp_path):
    assert len(check_page(everything / "report.html", tmp_path)) == 2
