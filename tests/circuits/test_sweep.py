"""`bionica.sweep`: many networks at once are the same bits as one at a time, and
nothing finished is lost or run twice.
"""

import csv
import json
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import bionica
from bionica import NoncenteredWhitener, TwoCompartmentNICA, metrics
from bionica.circuits import sweep
from bionica.circuits.paper import Reproduction, paper_grid, plans_of
from bionica.circuits.sweep import Plan
from bionica.circuits.sweep.plan import source_digest
from bionica.cli import app
from bionica.datasets import mix, paper_mixing, random_mixing, sparse_uniform
from conftest import NETWORKS

engine = sys.modules["bionica.circuits.sweep.run"]

DATA = {"kind": "sparse_uniform", "d": 3, "T": 300, "mixing": "d3"}
GRID = {
    "name": "TwoCompartmentNICA",
    "published": "d3",
    "grid": {"eta0": [0.1, 0.01], "tau": [0.5, 0.8]},
}


def body(**changes):
    return {"seeds": 2, "times": 5, "data": [DATA], "network": [GRID], **changes}


def without_times(table):
    return [{**row, "seconds": None} for row in table]


def mixtures(T=300, seed=0):
    S = sparse_uniform(T, 3, rng=seed)
    return S, mix(S, paper_mixing("d3"))[0]


def lines(folder):
    # each begins with its line break
    return (folder / "journal.jsonl").read_text().split("\n")[1:]


def nothing_runs(done, total):
    pytest.fail("nothing was left to run")


@pytest.mark.parametrize("name", [cls.__name__ for cls in NETWORKS])
def test_a_case_is_the_estimator_alone(name):
    """70,000 samples are more than two blocks. Sums over all outputs: another bit of
    any of them would be another sum.
    """
    T = 70_000
    cls = getattr(bionica, name)
    network = {"name": name}
    model = cls(3, random_state=3)
    if hasattr(cls, "as_published"):
        network |= {"published": "d3", "params": {"eta0": 0.02}}
        model = cls.as_published("d3", eta0=0.02, random_state=3)
    plan = body(data=[{**DATA, "T": T}], seeds=[3], network=[network])
    rows = sweep.run(plan, n_jobs=1)
    S, X = mixtures(T, 3)
    if name == "NonnegativePCA":  # the paper whitens all the mixtures first
        X = NoncenteredWhitener(3).fit_transform(X)
    Y = model.partial_fit_transform(X)
    times = [row["t"] for row in rows]
    expected = metrics.error_curve(S, Y)[np.array(times) - 1]
    np.testing.assert_allclose([row["error"] for row in rows], expected, rtol=1e-12)
    Y = Y[:, metrics.match_sources(S, Y).permutation]
    last = np.mean((S - Y)[-T // 10 :] ** 2)
    assert rows[0]["last_tenth"] == pytest.approx(last, rel=1e-9)


def test_the_final_network_is_scored_on_samples_that_were_held_out():
    """Averaged weights; behind a whitening; whatever the sign of outputs; and what was
    learned is the same as without.
    """
    data = {**DATA, "T": 3000, "mixing": {"condition": 30, "rms": 0.5}}
    networks = [
        {"name": "TwoCompartmentNICA"},
        {"name": "NonnegativePCA", "published": "d3"},
        {"name": "sklearn.decomposition:FastICA"},
        {"name": "bionica.circuits.paper.plans:CorrelationFloor"},
    ]
    plan = body(seeds=[4], times=1, data=[{**data, "held_out": 500}], network=networks)
    mine, pca, ica, floor = table = sweep.run(plan, n_jobs=1)
    (without,) = sweep.run(
        body(seeds=[4], times=1, data=[data], network=networks[:1]), n_jobs=1
    )
    assert without["error"] == mine["error"]
    assert {without[name] for name in ("sinr", "amari", "held_out_error")} == {None}
    S = sparse_uniform(3500, 3, rng=4)
    A = random_mixing(3, 3, 30, rms=0.5, rng=np.random.default_rng([4, 1]))
    X = S @ A.T
    model = TwoCompartmentNICA(3, random_state=4).partial_fit(X[:3000])
    Y = model.transform(X[3000:])
    assert mine["condition"] == pytest.approx(30)
    assert mine["sinr"] == metrics.sinr(S[3000:], Y)
    assert mine["held_out_error"] == metrics.permutation_error(S[3000:], Y)
    assert mine["amari"] == metrics.amari_distance(model.components_ @ A)
    white = NoncenteredWhitener(3).fit(X[:3000])
    model = bionica.NonnegativePCA.as_published("d3", random_state=4)
    model.partial_fit(white.transform(X[:3000]))
    P = model.components_ @ white.components_ @ A
    assert pca["amari"] == pytest.approx(metrics.amari_distance(P))
    assert ica["amari"] < 0.1  # its outputs are centred, of any sign
    assert floor["status"] == "ok"
    assert floor["sinr"] is None  # it has no `transform`
    assert table.final_errors()[0]["sinr"] == mine["sinr"]


def test_a_dask_cluster_gives_the_same_rows(tmp_path):
    distributed = pytest.importorskip("distributed")
    plan = Plan.from_dict(body())
    with distributed.LocalCluster(
        1, threads_per_worker=2, processes=False, dashboard_address=":0"
    ) as cluster:
        there = sweep.run(plan, tmp_path, scheduler=cluster.scheduler_address)
    assert without_times(there) == without_times(sweep.run(plan, n_jobs=1))


def dead(*_):
    os._exit(1)


def test_a_dead_worker_is_an_error_and_what_was_finished_is_kept(tmp_path, monkeypatch):
    sweep.run(body(seeds=1), tmp_path)
    monkeypatch.setattr(engine, "run_case", dead)
    with pytest.raises(RuntimeError, match="worker"):
        sweep.run(body(seeds=2), tmp_path, n_jobs=2)
    assert len(lines(tmp_path)) == 4


def test_a_class_that_workers_cannot_import_ends_the_sweep(tmp_path, monkeypatch):
    monkeypatch.setitem(
        sys.modules, "only_here", SimpleNamespace(Own=TwoCompartmentNICA)
    )
    with pytest.raises(RuntimeError, match="No module named 'only_here'"):
        sweep.run(body(network=[{"name": "only_here:Own"}]), tmp_path, n_jobs=2)
    assert not (tmp_path / "journal.jsonl").exists()


OWN = """
import os
from bionica import TwoCompartmentNICA
from sklearn.base import BaseEstimator

class Doubled(TwoCompartmentNICA):
    def partial_fit_transform(self, X, y=None):
        return FACTOR * super().partial_fit_transform(X)

class Oracle(BaseEstimator):
    def fit_transform(self, X, y):
        assert os.environ["OMP_NUM_THREADS"] == "1"
        return y[:, ::-1]

FACTOR = 2
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of estimators from outside the package."""
    module = f"own_{tmp_path.name}"  # a new name each time: modules stay imported
    (tmp_path / f"{module}.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return module


def test_a_users_own_network_is_named_by_module_and_class(own):
    networks = [{"name": f"{own}:Doubled"}, {"name": f"{own}:Oracle", "label": "known"}]
    table = sweep.run(body(times=1, network=networks), n_jobs=2)
    S, X = mixtures()
    Y = 2 * TwoCompartmentNICA(3, random_state=0).partial_fit_transform(X)
    mine, known = (row for row in table if row["seed"] == 0)
    assert mine["error"] == pytest.approx(metrics.permutation_error(S, Y), rel=1e-12)
    assert (known["network"], known["error"]) == ("known", 0)


def test_another_source_of_a_users_network_is_another_case(own, tmp_path, monkeypatch):
    def keys():
        networks = [{"name": f"{own}_.base:Doubled"}, {"name": f"{own}_.heir:Heir"}]
        return [case.key for case in Plan.from_dict(body(network=networks)).cases()]

    (tmp_path / f"{own}_").mkdir()
    (tmp_path / f"{own}_" / "base.py").write_text(OWN)
    (tmp_path / f"{own}_" / "heir.py").write_text(
        "from .base import Doubled\n\nclass Heir(Doubled): pass"
    )
    before = keys()
    assert keys() == before
    (tmp_path / f"{own}_" / "base.py").write_text(
        OWN.replace("FACTOR = 2", "FACTOR = 33")
    )
    for module in ("base", "heir"):
        monkeypatch.delitem(sys.modules, f"{own}_.{module}")  # as in a new process
    assert not set(before) & set(keys())


def test_another_source_of_bionica_is_another_case(tmp_path, monkeypatch):
    """A copy of the package, before and after an edit that no version number shows."""
    package = shutil.copytree(Path(bionica.__file__).parent, tmp_path / "bionica")
    monkeypatch.setattr(bionica, "__file__", str(package / "__init__.py"))

    def keys():
        source_digest.cache_clear()
        return {case.key for case in Plan.from_dict(body()).cases()}

    before = keys()
    assert before == keys()
    with (package / "circuits" / "two_compartment.py").open("a") as file:
        file.write("# another rule\n")
    assert not before & keys()
    source_digest.cache_clear()


def test_a_plan_is_the_product_of_what_it_lists():
    """Neither the order in which parameters are named nor what things are called makes
    another case.
    """
    data = [{**DATA, "T": 100 + i, "name": f"set {i}"} for i in range(3)]
    cases = Plan.from_dict(body(seeds=[4, 7], data=data)).cases()
    assert len({case.key for case in cases}) == len(cases) == 3 * 2 * 4
    assert {case.seed for case in Plan.from_dict(body(seeds=3)).cases()} == {0, 1, 2}
    turned = {**GRID, "grid": dict(reversed(GRID["grid"].items())), "label": "mine"}
    data = [{**d, "name": d["name"] + "!"} for d in data]
    other = Plan.from_dict(body(seeds=[4, 7], data=data, network=[turned]))
    assert {case.key for case in other.cases()} == {case.key for case in cases}


NETWORK = {**GRID, "grid": {}}


@pytest.mark.parametrize(
    "changes",
    [
        {"times": 4},
        {"dtype": "float32"},
        {"seeds": [1]},
        *(
            {"data": [{**DATA, **other}]}
            for other in (
                {"T": 2001},
                {"seed": 0},
                {"snr_db": 30},
                {"held_out": 9},
                {"mixing": "random"},
                {"mixing": {"condition": 3}},
            )
        ),
        {"network": [{**NETWORK, "params": {"tau": 0.7}}]},
        {"network": [{**NETWORK, "name": "InterneuronNICA"}]},
        {"network": [{"name": "TwoCompartmentNICA"}]},
    ],
)
def test_whatever_a_result_depends_on_makes_another_case(changes):
    def key(**changes):
        plan = {"seeds": 1, "network": [NETWORK], **changes}
        return Plan.from_dict(body(**plan)).cases()[0].key

    assert key(**changes) != key()


def test_a_labelled_baseline_that_equals_a_grid_point_has_its_rows(tmp_path):
    """The two are one run, and two rows."""
    baseline = {
        **GRID,
        "grid": {},
        "label": "baseline",
        "params": {"eta0": 0.1, "tau": 0.5},
    }
    table = sweep.run(body(seeds=2, times=1, network=[GRID, baseline]), tmp_path)
    assert len(lines(tmp_path)) == 8
    same = {"eta0": 0.1, "tau": 0.5}.items()
    errors = {
        name: [r["error"] for r in table if r["network"] == name and r.items() >= same]
        for name in ("TwoCompartmentNICA", "baseline")
    }
    assert errors["baseline"] == errors["TwoCompartmentNICA"]
    assert [row["network"] for row in table.best()] == [*errors]
    assert [row["runs"] for row in table.final_errors()] == [2] * 5


NETWORK_WORDS = [
    ({"name": "TwoCompartmentNice"}, "network[0]: name = 'TwoCompartmentNice'"),
    ({"grid": {"eta0": [-1]}}, "'eta0': -1"),
    ({"params": {"random_state": 1}}, "random_state"),
    ({"params": {"eta0": 0.1}}, "network[0]: eta0"),
    ({"published": "d10"}, "n_components = 10"),
    ({"name": "BatchNICA"}, "no published setting"),
]
DATA_WORDS = [
    ({"kind": "uniform"}, "data[0]: kind = 'uniform'"),
    ({"T": None}, "data[0]: T = None"),
    ({"d": 4}, "A has shape (3, 3)"),
    ({"shuffle": "no"}, "data[0]: shuffle = 'no'"),
    ({"nmixtures": 4}, "data[0]: nmixtures = 4"),
    ({"mixing": {"condition": 0.5}}, "data[0]: condition=0.5"),
]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({"network": [GRID | wrong]}, words) for wrong, words in NETWORK_WORDS),
        *(({"data": [DATA | wrong]}, words) for wrong, words in DATA_WORDS),
        ({"network": [GRID, GRID]}, "network.label"),
        ({"network": GRID}, "[[network]]"),
        ({"seeds": [1, 1]}, "seeds = [1, 1]"),
    ],
)
def test_a_bad_plan_names_the_key_and_the_value(changes, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        Plan.from_dict(body(**changes))


def test_a_sweep_needs_a_process():
    with pytest.raises(ValueError, match="n_jobs=0: give"):
        sweep.run(body(), n_jobs=0)


@pytest.mark.parametrize(
    "content", [b"seeds = = 3", b"\xff\xfe", b"x = " + b"[" * 5000]
)
def test_a_file_that_is_not_toml_is_refused(content, tmp_path):
    (tmp_path / "plan.toml").write_bytes(content)
    with pytest.raises(ValueError, match=r"plan\.toml"):
        Plan.from_toml(tmp_path / "plan.toml")


def test_the_example_is_the_papers_grid():
    plan = Plan.from_dict(tomllib.loads(paper_grid()))
    assert len(plan.cases()) == 3900
    table1 = plans_of(Reproduction(("table1",)))["table1", "d3"]
    assert [network.settings for network in plan.networks] == [
        network.settings for network in table1.networks
    ]


def test_a_users_files(tmp_path):
    S, X = mixtures()
    data = {"kind": "file", "mixtures": "x.npy", "sources": "s.npy"}
    plan = {"data": [data], "network": [{"name": "TwoLayerNSM"}]}
    with pytest.raises(ValueError, match=r"data\[0\].*x\.npy"):
        Plan.from_dict(plan, tmp_path)
    np.save(tmp_path / "s.npy", S)
    np.save(tmp_path / "x.npy", X)
    first = Plan.from_dict(plan, tmp_path)
    (row,) = sweep.run(first)
    Y = bionica.TwoLayerNSM(3, random_state=0).partial_fit_transform(X)
    assert row["error"] == pytest.approx(metrics.permutation_error(S, Y), rel=1e-12)
    X[7, 1] = np.nan
    np.save(tmp_path / "x.npy", X)
    second = Plan.from_dict(plan, tmp_path)
    assert first.cases()[0].key != second.cases()[0].key
    with pytest.raises(ValueError, match=r"X\[7, 1\] is NaN"):
        sweep.run(second)


def test_what_is_finished_is_not_run_again(tmp_path):
    first = sweep.run(body(), tmp_path)
    text = lines(tmp_path)
    assert len(text) == 8
    assert sweep.run(body(), tmp_path, progress=nothing_runs) == first
    assert lines(tmp_path) == text
    with (tmp_path / "results.csv").open(newline="") as file:
        rows = [(row["case"], float(row["error"])) for row in csv.DictReader(file)]
    assert rows == [(row["case"], row["error"]) for row in first]
    assert not [*tmp_path.glob(".*.part")]


@pytest.mark.parametrize(
    "damage",
    [
        b"\0" * 40 + b"\n",
        b"[" * 100_000 + b"\n",
        b'{"case": 1}\n',
        None,
    ],
)
def test_a_torn_line_is_run_again_and_a_damaged_one_too(damage, tmp_path):
    first = without_times(sweep.run(body(), tmp_path))
    path = tmp_path / "journal.jsonl"
    text = path.read_bytes().splitlines(keepends=True)
    # a list that is too long
    text[2] = damage or text[2].replace(b'"error": [', b'"error": [0.5, ')
    path.write_bytes(b"".join(text)[:-30])
    again = []
    assert (
        without_times(
            sweep.run(body(), tmp_path, progress=lambda done, total: again.append(done))
        )
        == first
    )
    assert again == [7, 8]
    assert without_times(sweep.run(body(), tmp_path, progress=nothing_runs)) == first


def test_a_table_that_no_sweep_has_written_is_not_replaced(tmp_path):
    (tmp_path / "results.csv").write_text("mine")
    with pytest.raises(ValueError, match=r"results\.csv"):
        sweep.run(body(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["results.csv"]
    sweep.run(body(), tmp_path, force=True)
    sweep.run(body(seeds=3), tmp_path)  # its own table
    with (tmp_path / "results.csv").open("a") as file:
        file.write("edited")
    with pytest.raises(ValueError, match=r"results\.csv"):
        sweep.run(body(seeds=4), tmp_path)
    assert (tmp_path / "results.csv").read_text().endswith("edited")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interruption_keeps_what_was_finished(n_jobs, tmp_path):
    """And any number of processes gives the same rows."""

    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep.run(body(), tmp_path, n_jobs=n_jobs, progress=stop)
    assert len(lines(tmp_path)) == 3
    assert without_times(sweep.run(body(), tmp_path)) == without_times(
        sweep.run(body())
    )


def command(*arguments):
    return CliRunner().invoke(app, ["sweep", *map(str, arguments)])


def test_the_command_runs_the_example_and_a_class_beside_the_plan(tmp_path):
    plan_file = tmp_path / "small.toml"
    output = tmp_path / "out"
    (tmp_path / "beside_the_plan.py").write_text(OWN)
    text = paper_grid().replace("100_000", "200").replace("seeds = 10", "seeds = 1")
    plan_file.write_text(text + '[[network]]\nname = "beside_the_plan:Doubled"\n')
    planned = command(plan_file, "-o", output, "--dry-run")
    assert planned.exit_code == 0
    assert not output.exists()
    result = command(plan_file, "-o", output, "--jobs", 2)
    assert result.exit_code == 0, result.output
    summary = json.loads(command(plan_file, "-o", output, "--json").stdout)
    assert (summary["cases"], summary["finished before"], len(summary["best"])) == (
        391,
        391,
        5,
    )
    assert command(plan_file, "-o", output, "-q").stdout == ""
