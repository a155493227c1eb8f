"""`bionica reproduce`: real files from tiny runs, and nothing run twice."""

import contextlib
import csv
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import bionica
from bionica import InterneuronNICA, StreamingNICA, datasets, metrics
from bionica.cli import app
from bionica.paper import Reproduction, best_settings, claims_of, final_rows, grid_means, plans_of
from bionica.paper.offline_references import CorrelationFloor
from bionica.paper.reference import AS_CODED, DECAY, ETA0, NETWORKS, TAU
from bionica.sweep import Table, prepare
from bionica.sweep.journal import Journal
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
def run(tmp_path_factory, pictures):
    """`reproduce all --json` once: its folder, and what it printed."""
    output = tmp_path_factory.mktemp("results")
    options = ["--with-defaults", "--images", pictures, "--output", output, "--json"]
    result = reproduce("all", "--runs", 1, *FAST[2:], *options)
    assert result.exit_code == 0, result.output
    return output, result.stdout


@pytest.fixture(scope="module")
def everything(run):
    """The folder, for the tests that look at what is in it."""
    return run[0]


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
    np.testing.assert_allclose([float(r["error"]) for r in mine], [curve[int(r["t"]) - 1] for r in mine], rtol=1e-12)
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


def journals(folder):
    return {path: path.read_bytes() for path in (folder / "runs").rglob("journal.jsonl")}


def test_second_call_runs_nothing_and_a_damaged_run_is_run_again(tmp_path):
    first = reproduce("figure4", *FAST, "--output", tmp_path)
    assert "20 of 20 runs" in first.output, first.output
    runs = journals(tmp_path)
    table = (tmp_path / "figure4.csv").read_bytes()
    second = reproduce("figure4", *FAST, "--output", tmp_path)
    assert "0 of 20 runs" in second.output
    assert runs == journals(tmp_path)
    assert table == (tmp_path / "figure4.csv").read_bytes()

    damaged = min(runs)
    damaged.write_bytes(damaged.read_bytes()[:-100])
    assert "1 of 20 runs" in reproduce("figure4", *FAST, "--output", tmp_path).output
    assert table.count(b"\n") == (tmp_path / "figure4.csv").read_bytes().count(b"\n")


def test_force_runs_again(tmp_path):
    reproduce("figure1", "--output", tmp_path)
    assert "1 of 1 runs" in reproduce("figure1", "--output", tmp_path, "--force").output


def test_more_runs_go_on_from_those_that_are_there(tmp_path):
    two, three = (plans_of(Reproduction(("figure4",), runs=runs, n_samples=100))["figure4", "d3"] for runs in (2, 3))
    prepare(two, tmp_path, n_jobs=1).run()
    assert {case.seed for case in prepare(three, tmp_path).missing} == {2}


def test_processes_give_the_same_numbers_as_one():
    plan = plans_of(Reproduction(("figure4",), runs=1, n_samples=200, with_defaults=True))["figure4", "d3"]
    one, two = (prepare(plan, n_jobs=n_jobs).run() for n_jobs in (1, 2))
    assert [(row["case"], row["t"], row["error"]) for row in one] == [
        (row["case"], row["t"], row["error"]) for row in two
    ]


def test_other_images_are_other_runs_wherever_they_lie(tmp_path, pictures):
    np.save(tmp_path / "copy.npy", np.load(pictures))
    np.save(tmp_path / "other.npy", np.load(pictures)[::-1])

    def keys(path):
        plan = plans_of(Reproduction(("figure5",), images=str(path)))["figure5", "images"]
        return {case.key for case in plan.cases()}

    assert keys(pictures) == keys(tmp_path / "copy.npy")
    assert not keys(pictures) & keys(tmp_path / "other.npy")


def test_the_stream_is_beside_the_papers_methods(everything):
    """From the first sample on, at its defaults, in the figures, the tables and the page."""
    for figure, settings in (("figure4", {"d3", "d10"}), ("figure5", {"images"})):
        rows = [row for row in read(everything / f"{figure}.csv") if row["network"] == "StreamingNICA"]
        assert {row["setting"] for row in rows} == settings
        assert {row["t"] for row in rows} >= {"1"}
    assert "StreamingNICA" in {row["network"] for row in read(everything / "summary.csv")}
    assert "StreamingNICA is not in the paper" in (everything / "report.html").read_text()
    (network,) = (
        n for n in plans_of(Reproduction(("figure4",)))["figure4", "d3"].networks if n.name == "StreamingNICA"
    )
    assert not network.params


@pytest.mark.parametrize(("setting", "two_layer_nsm"), [("d3", 7.4e-4), ("d10", 3.5e-3)])
def test_the_stream_is_ahead_of_two_layer_nsm(setting, two_layer_nsm):
    """Cumulative error at T = 1e5, mean of 10 runs; the other is that of the tuned network on the same runs."""
    A = datasets.paper_mixing(setting)
    ends = []
    for seed in range(10):
        S = datasets.sparse_uniform(100_000, len(A), rng=seed)
        X, _ = datasets.mix(S, A)
        Y = StreamingNICA(len(A), random_state=seed).partial_fit_transform(X)
        ends.append(metrics.error_curve(S, Y)[-1])
    assert np.mean(ends) < two_layer_nsm


def test_the_correlation_floor_is_that_of_the_metrics():
    S = datasets.copula_uniform(500, 3, 0.3, rng=0)
    floor = metrics.permutation_error(S, CorrelationFloor().fit_transform(S, S))
    assert floor == pytest.approx(metrics.correlation_floor(S), rel=1e-9)


def row_of(setting, network, seed, error, **rest):
    """A row of a sweep's table."""
    row = {"case": f"{network}{seed}{rest}", "data": setting, "network": network, "seed": seed, "t": 10, "error": error}
    return {**row, "last_tenth": error, "status": "ok", "seconds": 1.0, **rest}


def tables_of(rows, experiment="figure4", swept=()):
    settings = dict.fromkeys(row["data"] for row in rows)
    return {(experiment, s): Table([row for row in rows if row["data"] == s], list(swept)) for s in settings}


def claims(rows, experiment="figure4"):
    return claims_of([{**row, "setting": row["data"]} for row in rows], final_rows(tables_of(rows, experiment)), [])


def test_interval_and_means_are_over_runs_that_did_not_diverge():
    rows = [row_of("d3", "TwoLayerNSM", seed, error) for seed, error in enumerate((1.0, 2.0, 3.0, None))]
    tables = tables_of(rows)
    (row,) = final_rows(tables)
    assert (row["runs"], row["diverged"], row["mean"], row["least"], row["largest"]) == (4, 1, 2.0, 1.0, 3.0)
    assert 1 <= row["low"] < 2 < row["high"] <= 3
    assert tables["figure4", "d3"].curves()[0]["mean"] == 2.0


@pytest.mark.parametrize(
    ("errors", "verdict", "wins"),
    [((3.0, 4.0, 1.0, 2.0), "yes", 2), ((1.5, 4.0, 1.0, 2.0), "partly", 0), ((1.0, 2.0, 3.0, 4.0), "no", 0)],
)
def test_report_says_whether_the_order_holds(errors, verdict, wins):
    pairs = zip(NETWORKS, errors, strict=True)
    claim = claims([row_of("d3", network, seed, error) for network, error in pairs for seed in (0, 1)])[0]
    assert claim["agrees"] == verdict
    assert f"in {wins} of 2 runs" in claim["ours"]


GRID = ("eta0", "decay", "tau")


def grid_row(network, error, **params):
    return row_of("d3", network, 0, error, **{**dict.fromkeys(GRID), **params})


def test_best_setting_is_set_beside_the_papers():
    rows = [grid_row("NonnegativePCA", 0.2, **bionica.NonnegativePCA._published["d3"])]
    rows += [
        grid_row("NonnegativePCA", 0.1, eta0=0.1, decay=1e-5),
        grid_row("NonnegativePCA", None, eta0=0.1, decay=1e-7),
    ]
    (row,) = best_settings(grid_means(tables_of(rows, "table1", GRID)))
    assert row["best"] == (0.1, 1e-5)
    assert row["paper"] == (0.01, 1e-5)
    assert (row["paper_rank"], row["failed"], row["settings"]) == (2, 1, 3)


def test_json_is_all_that_is_on_standard_output(run):
    everything, printed = run
    found = json.loads(printed)
    assert (found["target"], found["ran"], found["failures"]) == ("all", found["runs"], [])
    assert found["report"] == str(everything / "report.html")
    files = {str(path) for path in everything.iterdir() if path.is_file()}
    assert set(found["files"]) == files
    summary = read(everything / "summary.csv")
    assert [(row["network"], str(row["mean"])) for row in found["errors"]] == [
        (r["network"], r["mean"]) for r in summary
    ]
    assert [row["network"] for row in found["grid"]] == list(NETWORKS)
    assert {row["agrees"] for row in found["claims"]} <= {"yes", "no", "partly"}


def test_json_lists_runs_that_failed_and_has_no_infinity(capsys):
    from bionica.cli.console import Console
    from bionica.cli.reproduce import _findings
    from bionica.cli.reproduce_files import ReproductionFiles

    curves = tables_of([{**row_of("d3", "TwoLayerNSM", 7, None), "status": "diverged at sample 3"}])
    printed = {name: bionica.TwoLayerNSM._published["d3"][name] for name in ("eta0", "decay")}
    tables = {**curves, **tables_of([grid_row("TwoLayerNSM", None, **printed)], "table1", GRID)}
    best = best_settings(grid_means(tables))
    written = ReproductionFiles(Path(), Path("report.html"), finals=final_rows(curves), best=best)
    Console(json=True).result([], _findings(tables, written))
    found = json.loads(capsys.readouterr().out)
    (failure,) = found["failures"]
    assert (failure["network"], failure["seed"], failure["status"]) == ("TwoLayerNSM", 7, "diverged at sample 3")
    assert found["grid"][0]["error"] is None
    assert found["errors"][0]["mean"] is None


@pytest.mark.parametrize(("tail", "verdict"), [(0.05, "partly"), (3.0, "yes")])
def test_settings_of_the_code_are_set_beside_the_table(tail, verdict):
    errors = dict(zip(NETWORKS, (0.5, 3.3, 0.04, 0.08), strict=True)) | dict(zip(AS_CODED, (0.4, tail), strict=True))
    rows = [row_of("images", network, 0, error) for network, error in errors.items()]
    (claim,) = (c for c in claims(rows, "figure5") if c["where"].startswith("Table 1, images"))
    assert claim["agrees"] == verdict
    assert f"Algorithm 2 3.3 with the table's settings, {tail:g} with the code's" in claim["ours"]


def test_settings_of_the_code_are_the_tables_pairs_the_other_way_round():
    one, two = (getattr(bionica, name)._published["images"] for name in NETWORKS[:2])
    coded_one, coded_two = AS_CODED.values()
    for name in ("eta0", "decay"):
        assert (coded_one[name], coded_two[name]) == (two[name], one[name])
    plan = plans_of(Reproduction(("figure5",), runs=1, with_defaults=True))["figure5", "images"]
    assert {network.label: dict(network.params) for network in plan.networks if network.label in AS_CODED} == AS_CODED


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["figure9"], 2, "figure9"),
        (["figure4", "--runs", "0"], 2, "runs"),
        (["figure4", "--jobs", "-1"], 2, "jobs"),
        (["figure4", "--images", "."], 2, "images"),
        (["figure5", "--images", "nowhere"], 1, "does not exist: pass a folder"),
    ],
)
def test_errors_are_one_line(tmp_path, arguments, code, message):
    result = reproduce(*arguments, "--output", tmp_path / "results")
    assert result.exit_code == code
    assert message in result.output
    assert "Traceback" not in result.output
    assert code == 2 or result.output.count("\n") == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.ones((2, 16)) * np.arange(16), "for 3"),
        (np.ones((3, 15)) * np.arange(15), "not square: crop them"),
        (np.ones((3, 4, 9)) * np.arange(9), "not square: crop them"),
        (np.ones((3, 16)), "constant"),
        (b"", "cannot be read"),
        (b"no array", "cannot be read"),
        (None, "holds no image: files end in"),
    ],
)
def test_images_that_do_not_fit_are_refused(tmp_path, images, message):
    place = tmp_path / "images"
    if images is None:
        place.mkdir()
    elif isinstance(images, bytes):
        place = place.with_suffix(".npy")
        place.write_bytes(images)
    else:
        place = place.with_suffix(".npy")
        np.save(place, images)
    result = reproduce("figure5", "--images", place, "--output", tmp_path / "results")
    assert result.exit_code == 1
    assert message in result.output
    assert result.output.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_output_that_cannot_be_a_folder_is_refused_and_left_alone(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    for place in ("file", "file/below"):
        result = reproduce("figure1", "--output", tmp_path / place)
        assert result.exit_code == 1
        assert "is a file; give a folder" in result.output
        assert result.output.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)  # root may write anywhere
    result = reproduce("figure1", "--output", tmp_path / "closed")
    assert result.exit_code == 1
    assert "cannot be written to (Permission denied): choose another" in result.output


def test_full_disk_is_said_in_one_line(tmp_path, monkeypatch):
    def full(self, case, outcome):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Journal, "add", full)
    result = reproduce("figure1", "--output", tmp_path, "--force")
    assert result.exit_code == 1
    kept = "Finished runs are kept: the same command without --force goes on"
    assert f"full (No space left on device): free some space. {kept}" in result.output
    assert result.output.count("\n") == 1


def test_without_matplotlib_nothing_is_run(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = reproduce("figure1", "--output", tmp_path / "results")
    assert result.exit_code == 1
    assert result.output.endswith("pip install 'bionica[plot]'\n")
    assert not (tmp_path / "results").exists()


def test_without_scikit_image_the_users_images_will_do(tmp_path, monkeypatch, pictures):
    monkeypatch.setitem(sys.modules, "skimage", None)
    result = reproduce("figure5", "--output", tmp_path / "results")
    assert result.exit_code == 1
    assert "pip install 'bionica[plot]'" in result.output
    assert result.output.count("\n") == 1
    result = reproduce("figure5", "--runs", 1, "--jobs", 1, "--images", pictures, "--output", tmp_path / "results")
    assert result.exit_code == 0, result.output


def test_without_pyarrow_the_tables_are_csv(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = reproduce("figure1", "--output", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    assert "pip install 'bionica[io]'" in result.stderr
    assert "figure1.csv" in result.stdout
    assert not list(tmp_path.glob("*.parquet"))


def test_lines_say_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["bionica.cli.reproduce"], "LINE_EVERY", 0.0)
    result = reproduce("figure4", *FAST, "--output", tmp_path)
    lines = result.stderr.splitlines()
    assert len(lines) == 19, lines
    assert re.fullmatch(r"1 of 20 runs, about \d+ s left", lines[0])


def alive(group):
    """The processes of a group that run, as far as the system tells; a zombie does not run."""
    stats = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            stats.append(path.read_text().rpartition(")")[2].split())
    return [stat for stat in stats if stat[0] != "Z" and int(stat[2]) == group]


@pytest.mark.skipif(os.name != "posix", reason="no process groups")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_says_how_to_go_on_and_does(tmp_path, how):
    command = ["reproduce", "figure4", "--runs", "50", "--jobs", "2", "--output", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "bionica", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    while not any(journals(tmp_path).values()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    # A terminal sends Ctrl-C to the whole group; a batch system ends the process alone.
    os.killpg(process.pid, how) if how is signal.SIGINT else process.send_signal(how)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert output == ""
    assert errors.endswith("the same command goes on from there.\n")
    assert errors.count("\n") == 1
    plans = plans_of(Reproduction(("figure4",), runs=50))
    missing = {key: len(prepare(plan, tmp_path / "runs" / "-".join(key)).missing) for key, plan in plans.items()}
    assert 0 < missing["figure4", "d10"] < 250
    assert missing["figure4", "d3"] == 250
    assert not list(tmp_path.rglob(".*"))
    deadline = time.monotonic() + 20
    while alive(process.pid):  # no worker outlives the command
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_report_opens_in_a_browser(everything, tmp_path):
    assert len(check_page(everything / "report.html", tmp_path)) == 2
