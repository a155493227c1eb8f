"""`bionica.sweep`: many networks at once are the same bits as one at a time, and nothing finished is lost or run twice."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from bionica import BatchNICA, DivergenceError, NoncenteredWhitener, NonnegativePCA, TwoCompartmentNICA, metrics, sweep
from bionica.cli import app
from bionica.datasets import mix, natural_images, paper_mixing, sparse_uniform
from bionica.paper import paper_grid
from bionica.sweep import Plan, PlanError, WorkerDiedError, run_dask, run_processes
from bionica.sweep.data import Data
from bionica.sweep.estimator_names import find_estimator
from bionica.sweep.running_error import add_outputs, error_times, errors_of, new_sums
from conftest import NETWORKS

DATA = {"kind": "sparse_uniform", "d": 3, "T": 2000, "mixing": "d3"}
GRID = {"name": "TwoCompartmentNICA", "published": "d3", "grid": {"eta0": [0.1, 0.01], "tau": [0.5, 0.8]}}


def body(**changes):
    return {"seeds": 2, "times": 5, "data": [DATA], "network": [GRID], **changes}


def without_times(table):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in table]


def mixtures(T=2000, seed=0):
    S = sparse_uniform(T, 3, rng=seed)
    return S, mix(S, paper_mixing("d3"))[0]


# ------------------------------------------------------------------------------------------ the same bits


def alone(name, X, **params):
    """What the estimator itself puts out."""
    if name == "NonnegativePCA":  # the paper whitens all the mixtures first
        X, params = NoncenteredWhitener(3).fit_transform(X), params | {"whiten": False}
    if name == "StreamingNICA":
        return find_estimator(name)(random_state=params["random_state"]).partial_fit_transform(X)
    return find_estimator(name).as_published("d3", **params).partial_fit_transform(X)


@pytest.mark.parametrize("name", [cls.__name__ for cls in NETWORKS])
def test_a_case_is_the_estimator_alone_bit_for_bit(name):
    T = 70_000  # more than two blocks
    data = {**DATA, "T": T}
    published = {} if name == "StreamingNICA" else {"published": "d3", "params": {"eta0": 0.02}}
    rows = sweep.run(body(data=[data], seeds=[3], network=[{"name": name, **published}]), n_jobs=1)
    S, X = mixtures(T, 3)
    Y = alone(name, X, eta0=0.02, random_state=3)
    # The sums are of all outputs, one after the other: another bit of any of them would be another sum.
    sums = new_sums(error_times(5, T), 3)
    add_outputs(S, Y, 0, *sums)
    errors, last_tenth = errors_of(sums, error_times(5, T))
    assert [row["error"] for row in rows] == errors
    assert rows[0]["last_tenth"] == last_tenth
    curve = metrics.error_curve(S, Y)
    np.testing.assert_allclose(errors, curve[[row["t"] - 1 for row in rows]], rtol=1e-12)
    np.testing.assert_allclose(
        last_tenth, (curve[-1] * T - curve[T - T // 10 - 1] * (T - T // 10)) / (T // 10), rtol=1e-9
    )


@pytest.mark.parametrize(
    ("params", "dtype"), [({}, "float64"), ({"precondition": "none", "eta0": 0.05, "power": 0.7}, "float32")]
)
def test_our_own_networks_and_single_precision_too(params, dtype):
    plan = body(seeds=1, dtype=dtype, times=1, network=[{"name": "TwoCompartmentNICA", "params": params}])
    (row,) = sweep.run(plan)
    S, X = mixtures()
    given = {key: None if value == "none" else value for key, value in params.items()}
    Y = TwoCompartmentNICA(3, random_state=0, **given).partial_fit_transform(X.astype(dtype))
    sums = new_sums((2000,), 3)
    add_outputs(S, Y, 0, *sums)
    assert row["error"] == errors_of(sums, (2000,))[0][0]
    np.testing.assert_allclose(row["error"], metrics.permutation_error(S, Y), rtol=1e-12)


def test_a_stream_shorter_than_the_start_of_a_natural_network():
    (row,) = sweep.run(body(seeds=1, times=1, data=[{**DATA, "T": 50}], network=[{"name": "InterneuronNICA"}]))
    assert row["error"] == pytest.approx(np.mean(mixtures(50)[0] ** 2))  # it is silent meanwhile


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_any_number_of_processes_gives_the_same_rows(n_jobs):
    plan = Plan.from_dict(body(seeds=3))
    there = sweep.run(plan, n_jobs=n_jobs)
    assert without_times(there) == without_times(sweep.run(plan, n_jobs=1))


def test_a_dask_cluster_gives_the_same_rows(tmp_path):
    distributed = pytest.importorskip("distributed")
    plan = Plan.from_dict(body())
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
    ) as cluster:
        there = sweep.run(plan, tmp_path, scheduler=cluster.scheduler_address)
    assert without_times(there) == without_times(sweep.run(plan, n_jobs=1))


def test_nobody_at_the_scheduler(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(run_dask, "SCHEDULER_TIMEOUT", 0.2)
    with pytest.raises(ValueError, match=r"scheduler='tcp://127.0.0.1:9' does not answer: start one"):
        sweep.run(body(), scheduler="tcp://127.0.0.1:9")


@pytest.mark.parametrize("n_workers", [1, 2, 16])
@pytest.mark.parametrize("T", [100, 100_000, 100_000_000])
def test_batches_share_their_data_lose_nothing_and_get_smaller(T, n_workers):
    grid = {**GRID, "grid": {"eta0": [0.1 / 2**i for i in range(30)], "tau": [0.5, 0.6, 0.7, 0.8]}}
    cases = Plan.from_dict(body(data=[{**DATA, "T": T}], network=[grid])).cases()
    cut = run_processes.batches(cases, n_workers)
    assert sorted(case.key for batch in cut for case in batch) == sorted(case.key for case in cases)
    assert all(len({(case.data, case.seed) for case in batch}) == 1 for batch in cut)
    costs, left = [sum(case.cost for case in batch) for batch in cut], sum(case.cost for case in cases)
    for cost, batch in zip(costs, cut, strict=True):
        share = min(run_processes.LARGEST_BATCH, max(run_processes.SMALLEST_BATCH, left / (4 * n_workers)))
        assert cost <= max(share + batch[0].cost / 2, batch[0].cost)
        left -= cost


def test_small_sweeps_start_no_process(monkeypatch):
    monkeypatch.setattr(run_processes, "run_joblib", lambda *_: pytest.fail("a process for some milliseconds"))
    assert len(sweep.run(body(seeds=1, times=1))) == 4


def dead(*_):
    os._exit(1)


def test_a_dead_worker_is_one_sentence_and_what_was_finished_is_kept(tmp_path, monkeypatch):
    sweep.run(body(seeds=1), tmp_path)
    monkeypatch.setattr(run_processes, "run_batch", dead)
    with pytest.raises(
        WorkerDiedError, match="a worker process died, perhaps for lack of memory: run again with fewer processes"
    ):
        sweep.run(body(seeds=2), tmp_path, n_jobs=2)
    assert len(lines(tmp_path)) == 4


def test_the_first_compilation_is_here(monkeypatch):
    """Workers that start together would all compile the same: one of each kind runs in this process first."""
    ran = []
    monkeypatch.setattr(run_processes, "run_case", lambda case, data: ran.append((case.network, data.X.shape)))
    networks = [GRID, {**GRID, "label": "gradient", "params": {"dynamics": "gradient"}}, {"name": "BatchNICA"}]
    run_processes.compile_networks(Plan.from_dict(body(network=networks)).cases())
    assert [network for network, _ in ran] == ["TwoCompartmentNICA"] * 2
    assert {shape for _, shape in ran} == {(172, 3)}


# ------------------------------------------------------------------------------------------ estimators of others


OWN = """
from bionica import TwoCompartmentNICA
from sklearn.base import BaseEstimator

class Doubled(TwoCompartmentNICA):
    def partial_fit_transform(self, X, y=None):
        return FACTOR * super().partial_fit_transform(X)

class Oracle(BaseEstimator):
    def fit_transform(self, X, y):
        return y[:, ::-1]

class Silent:
    pass

FACTOR = 2
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of estimators from outside the package."""
    module = f"own_{tmp_path.name}"  # a new name each time: modules stay imported
    (tmp_path / f"{module}.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return module


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_users_own_network_is_named_by_module_and_class(own, n_jobs, tmp_path):
    networks = [{"name": f"{own}:Doubled"}, {"name": f"{own}:Oracle", "label": "known"}]
    table = sweep.run(body(seeds=2, times=3, network=networks), tmp_path / "out", n_jobs=n_jobs)
    S, X = mixtures()
    Y = 2 * TwoCompartmentNICA(3, random_state=0).partial_fit_transform(X)
    mine = [row for row in table if row["seed"] == 0]
    assert [(row["network"], row["t"]) for row in mine] == [
        ("Doubled", 1),
        ("Doubled", 45),
        ("Doubled", 2000),
        ("known", 2000),
    ]
    assert mine[2]["error"] == pytest.approx(metrics.permutation_error(S, Y), rel=1e-12)
    assert mine[3]["error"] == 0
    assert {json.loads(line)["network"] for line in lines(tmp_path / "out")} == {f"{own}:Doubled", f"{own}:Oracle"}


def test_the_command_finds_modules_in_the_folder_of_the_plan(tmp_path):
    (tmp_path / "beside_the_plan.py").write_text(OWN)
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'seeds = 2\n[[data]]\nkind = "gamma"\nd = 2\nT = 200\n[[network]]\nname = "beside_the_plan:Doubled"\n'
    )
    result = command(plan, "-o", tmp_path / "out", "--jobs", 2)
    assert result.exit_code == 0, result.output
    assert "2 of 2 cases" in result.stdout


def test_another_source_of_a_users_network_is_another_case(own, tmp_path, monkeypatch):
    def keys():
        return [case.key for case in Plan.from_dict(body(network=[{"name": f"{own}:Doubled"}])).cases()]

    before = keys()
    assert keys() == before
    (tmp_path / f"{own}.py").write_text(OWN.replace("FACTOR = 2", "FACTOR = 33"))
    monkeypatch.delitem(sys.modules, own)  # as in a new process
    assert not set(before) & set(keys())


def test_a_subclass_that_is_defined_has_a_name_here_and_none_in_workers():
    class HereAlone(TwoCompartmentNICA):
        pass

    (row,) = sweep.run(body(seeds=1, times=1, network=[{"name": "HereAlone"}]), n_jobs=1)
    assert row["status"] == "ok"
    with pytest.raises(
        PlanError, match=r"'HereAlone' is defined in a script, .*name it as module:Class, or run in this"
    ):
        sweep.run(body(network=[{"name": "HereAlone"}]), n_jobs=2)


def test_offline_methods_have_one_error():
    network = [{"name": "BatchNICA"}, {"name": "sklearn.decomposition:FastICA", "label": "FastICA"}]
    batch, fast = sweep.run(body(seeds=1, network=network), n_jobs=1)
    S, X = mixtures()
    assert (batch["t"], batch["status"]) == (2000, "ok")
    assert batch["error"] == pytest.approx(metrics.permutation_error(S, BatchNICA(3, random_state=0).fit_transform(X)))
    assert fast["error"] > 0.1  # no mean, no sign


# ------------------------------------------------------------------------------------------ the errors


@pytest.mark.interpreted
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_errors_do_not_depend_on_the_cut(d, n, m, seed):
    rng = np.random.default_rng(seed)
    S, Y = rng.exponential(size=(n, d)), rng.exponential(size=(n, d))
    times = error_times(m, n)
    whole, cut = (new_sums(times, d) for _ in range(2))
    add_outputs(S, Y, 0, *whole)
    start = 0
    while start < n:
        stop = min(n, start + int(rng.integers(1, 10)))
        add_outputs(S, np.ascontiguousarray(Y[start:stop]), start, *cut)
        start = stop
    one = np.zeros((d, d))
    for t in range(n):
        one += (S[t, :, np.newaxis] - Y[t]) ** 2
    assert np.array_equal(whole.recorded, cut.recorded)
    assert np.array_equal(whole.total, one)
    errors, last_tenth = errors_of(whole, times)
    curve = metrics.error_curve(S, Y)
    np.testing.assert_allclose(errors, curve[np.array(times) - 1], rtol=1e-12)
    tail = max(1, n // 10)
    P = metrics.match_sources(S, Y).permutation
    np.testing.assert_allclose(last_tenth, np.mean((S - Y[:, P])[-tail:] ** 2), rtol=1e-9)


def test_exact_recovery_has_error_zero():
    S = sparse_uniform(100, 3, rng=0)
    sums = new_sums((10, 100), 3)
    add_outputs(S, S[:, [2, 0, 1]].copy(), 0, *sums)
    assert errors_of(sums, (10, 100)) == ([0.0, 0.0], 0.0)


# ------------------------------------------------------------------------------------------ the plan


values = st.lists(st.floats(1e-5, 0.5), min_size=1, max_size=3, unique=True)


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["eta0", "decay", "tau", "power"]), values, min_size=1),
    st.one_of(st.integers(1, 4), st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True)),
    st.integers(1, 3),
)
def test_a_plan_is_the_product_of_what_it_lists(grid, seeds, n_data):
    data = [{**DATA, "T": 100 + i, "name": f"set {i}"} for i in range(n_data)]
    network = {"name": "TwoCompartmentNICA", "published": "d3", "grid": grid}
    plan = Plan.from_dict({"seeds": seeds, "data": data, "network": [network]})
    cases = plan.cases()
    n_seeds = seeds if isinstance(seeds, int) else len(seeds)
    assert len(cases) == plan.size == n_data * n_seeds * int(np.prod([len(v) for v in grid.values()]))
    assert len({case.key for case in cases}) == len(cases)
    again = Plan.from_dict(plan.to_dict())
    assert again == plan
    assert again.digest == plan.digest
    # Neither the order in which parameters are named nor what things are called makes another case.
    turned = {**network, "grid": dict(reversed(grid.items())), "label": "mine"}
    other = Plan.from_dict(
        {"seeds": seeds, "data": [{**d, "name": d["name"] + "!"} for d in data], "network": [turned]}
    )
    assert {case.key for case in other.cases()} == {case.key for case in cases}
    order = [(case.data.name, case.seed) for case in cases]
    assert order == sorted(order, key=order.index)  # cases on the same data are neighbours


def test_whatever_a_result_depends_on_makes_another_case():
    def key(**changes):
        return Plan.from_dict(body(**{"seeds": 1, "network": [{**GRID, "grid": {}}], **changes})).cases()[0].key

    network = {**GRID, "grid": {}}
    keys = [
        key(), key(times=4), key(dtype="float32"), key(seeds=[1]), key(data=[{**DATA, "T": 2001}]),
        key(data=[{**DATA, "seed": 0}]), key(data=[{**DATA, "snr_db": 30}]), key(data=[{**DATA, "mixing": "random"}]),
        key(network=[{**network, "params": {"tau": 0.7}}]), key(network=[{**network, "name": "InterneuronNICA"}]),
        key(network=[{"name": "TwoCompartmentNICA"}]),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": [{"name": "TwoCompartmentNice"}]}, r"network\[0\].name = 'TwoCompartmentNice' is unknown: .*TwoLayerNSM"),
        ({"network": [{"name": ["TwoLayerNSM"]}]}, r"name = \['TwoLayerNSM'\] is unknown: .*or give module:Class"),
        ({"network": [{"name": "mylab.rules:My"}]}, r"'mylab.rules:My' cannot be imported \(No module named 'mylab'\): install"),
        ({"network": [{"name": "json:dumps"}]}, r"'json:dumps' is not an estimator that can run: give a class"),
        ({"network": [{"name": "sklearn.svm:SVC"}]}, r"'sklearn.svm:SVC' is not an estimator .* partial_fit_transform or fit_t"),
        ({"network": [{"name": "BatchNICA", "published": "d3"}]}, r"published is for the paper's networks; .*'BatchNICA'"),
        ({"network": [{**GRID, "grid": {"eta": [0.1]}}]}, r"network\[0\].grid .*no key 'eta': did you mean eta0\? .*tau"),
        ({"network": [{**GRID, "grid": {"eta0": [-1]}}]}, r"network\[0\].grid.eta0 = -1: .*eta0.* must be"),
        ({"network": [{**GRID, "grid": {"eta0": 0.1}}]}, r"network\[0\].grid.eta0 = 0.1: give a list"),
        ({"network": [{**GRID, "params": {"eta0": 0.1}}]}, r"grid.eta0 is in network\[0\].params too"),
        ({"network": [{**GRID, "params": {"guards": ["all"]}}]}, r"params.guards = \['all'\]: .*'silent'"),
        ({"network": [{**GRID, "params": {"random_state": 1}}]}, r"random_state = 1: the plan says this by seeds"),
        ({"network": [{**GRID, "published": "d4"}]}, r"published = 'd4' is unknown: choose from d3, d10, images"),
        ({"network": [{**GRID, "published": "d10"}]}, r"n_components = 10 and data\[0\] .* 3 sources: .*use n_components = 3"),
        ({"network": [{"name": "TwoLayerNSM", "params": {"n_components": "auto"}}]}, "'auto': give a number"),
        ({"network": [GRID, GRID]}, r"network\[1\].label = 'TwoCompartmentNICA' is network\[0\]'s too: give them labels"),
        ({"network": []}, r"network = \[\]: the plan needs at least one \[\[network\]\]"),
        ({"network": [3]}, r"network\[0\] = 3 is not a table"),
        ({"seeds": 0}, "seeds = 0: give a whole number, 1 or more"),
        ({"seeds": [1, 1]}, r"seeds = \[1, 1\]: .* that differ"),
        ({"seed": 1}, "no key 'seed': did you mean seeds"),
        ({"times": [0]}, r"times\[0\] = 0: give a whole number"),
        ({"dtype": "float16"}, "dtype = 'float16' is unknown: choose from float64, float32"),
        ({"data": [{**DATA, "kind": "uniform"}]}, r"data\[0\].kind = 'uniform' is unknown: choose from sparse_uniform"),
        ({"data": [{**DATA, "rho": 0.5}]}, r"data\[0\] \(kind sparse_uniform\) has no key 'rho'"),
        ({"data": [{"kind": "gamma", "d": 3}]}, r"data\[0\].T is missing"),
        ({"data": [{**DATA, "T": 2.5}]}, r"data\[0\].T = 2.5: give a whole number"),
        ({"data": [{**DATA, "d": 4}]}, "mixing = 'd3' mixes 3 sources and there are d = 4"),
        ({"data": [{**DATA, "mixing": [[1, 2, 3], [4]]}]}, "give a matrix of numbers"),
        ({"data": [{**DATA, "n_mixtures": 7}]}, "n_mixtures = 7 and mixing has 3 rows: leave n_mixtures out"),
        ({"data": [{**DATA, "snr_db": True}]}, "snr_db = True: give a finite number"),
        ({"data": [DATA, DATA]}, r"data\[1\].name = 'sparse_uniform-d3' is data\[0\]'s too"),
        ({"data": [{"kind": "file", "mixtures": "nothing.npy"}]}, r"mixtures = 'nothing.npy': there is no"),
        ({"data": [{"kind": "copula_uniform", "d": 3, "T": 9, "rho": 2}]}, r"data\[0\]: rho=2.0 is no common correlation"),
        ({"seeds": 10**6}, "4,000,000 cases: 1,000,000 at most; use fewer seeds or times, make a grid coarser"),
    ],
)  # fmt: skip
def test_a_bad_plan_says_what_to_change(changes, message):
    with pytest.raises(PlanError, match=message):
        Plan.from_dict(body(**changes))


def test_a_file_that_is_not_toml(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text("seeds = = 3")
    with pytest.raises(PlanError, match=r"plan\.toml is not TOML"):
        Plan.from_toml(path)


def test_the_example_is_the_papers_grid():
    plan = Plan.from_dict(tomllib.loads(paper_grid()))
    assert sum(network.n_settings for network in plan.networks) == 390
    assert plan.size == len(plan.cases()) == 3900
    assert {case.data.n_samples for case in plan.cases()} == {100_000}


# ------------------------------------------------------------------------------------------ the data


def test_a_users_files_with_and_without_sources(tmp_path):
    S, X = mixtures(500)
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    np.save(tmp_path / "s.npy", S)
    known = {"name": "known", "kind": "file", "mixtures": "x.npy", "sources": "s.npy"}
    data = [known, {"name": "blind", "kind": "file", "mixtures": "x.npy"}]
    network = {"name": "TwoLayerNSM", "params": {"n_components": 3}}
    plan = Plan.from_dict({"data": data, "network": [network]}, tmp_path)
    with_sources, without = sweep.run(plan)
    Y = find_estimator("TwoLayerNSM")(3, random_state=0).partial_fit_transform(X.astype(np.float32).astype(np.float64))
    assert with_sources["error"] == pytest.approx(metrics.permutation_error(S, Y), rel=1e-12)
    assert (without["status"], without["error"], without["last_tenth"]) == ("ok", None, None)
    before = [case.key for case in plan.cases()]
    np.save(tmp_path / "x.npy", X)
    assert before != [case.key for case in Plan.from_dict({"data": data, "network": [network]}, tmp_path).cases()]


def test_a_users_bad_numbers_stop_the_sweep_with_their_place(tmp_path):
    X = mixtures(500)[1]
    X[7, 1] = np.nan
    np.save(tmp_path / "x.npy", X)
    plan = Plan.from_dict(
        {"data": [{"kind": "file", "mixtures": "x.npy"}], "network": [{"name": "TwoLayerNSM"}]}, tmp_path
    )
    with pytest.raises(ValueError, match=r"X\[7, 1\] is NaN"):
        sweep.run(plan)


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "gamma", "d": 2, "T": 300, "n_mixtures": 4, "snr_db": 20},
        {"kind": "copula_uniform", "d": 3, "T": 300, "rho": 0.5},
        {"kind": "odors", "d": 4, "T": 300},
        {**DATA, "T": 300, "epochs": 3, "shuffle": True},
        {**DATA, "T": 300, "mixing": [[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]},
    ],
)
def test_every_kind_of_data(data):
    made = Data.from_dict(data, "data[0]", Path())
    problem, again, other = made.load(0, "float64"), made.load(0, "float64"), made.load(1, "float64")
    assert problem.S.shape == (made.n_samples, made.d)
    assert problem.X.shape == (made.n_samples, made.k)
    assert np.array_equal(problem.X, again.X)
    assert not np.array_equal(problem.X, other.X)
    assert Data.from_dict(made.to_dict(), "data[0]", Path()) == made
    if made.epochs > 1:
        for start in range(0, 900, 300):
            assert np.array_equal(np.sort(problem.S[start : start + 300], axis=0), np.sort(problem.S[:300], axis=0))


def test_images_are_presented_in_random_order_each_epoch(tmp_path):
    np.save(tmp_path / "sources.npy", np.random.default_rng(0).exponential(size=(3, 400)))
    made = Data.from_dict({"kind": "images", "path": str(tmp_path), "epochs": 2}, "data[0]", Path())
    S = natural_images(tmp_path)
    rng = np.random.default_rng(5)
    order = np.concatenate([rng.permutation(400) for _ in range(2)])
    assert np.array_equal(made.order(5), order)
    mine = made.load(5, "float64")
    assert np.array_equal(mine.S, S[order])
    assert np.array_equal(mine.X, mix(S[order], paper_mixing("images"))[0])


def test_data_are_made_once(monkeypatch):
    loads = []
    load = Data.load
    monkeypatch.setattr(Data, "load", lambda self, seed, dtype: loads.append(seed) or load(self, seed, dtype))
    sweep.run(body(seeds=6), n_jobs=1)
    assert loads == list(range(6))


def test_a_large_file_stays_on_disk(tmp_path):
    np.save(tmp_path / "x.npy", mixtures(500)[1])
    made = Data.from_dict({"kind": "file", "mixtures": "x.npy"}, "data[0]", tmp_path)
    assert isinstance(made.load(0, "float64").X.base, np.memmap)
    assert made.load(0, "float32").X.base is None


# ------------------------------------------------------------------------------------------ what goes wrong


def test_a_setting_that_cannot_run_says_why_and_the_others_go_on():
    network = {**GRID, "grid": {"eta0": [0.1, 0.9], "tau": [0.8]}}
    good, bad = sweep.run(body(seeds=1, times=1, network=[network]))
    assert good["status"] == "ok"
    assert bad["status"] == "the learning rate 0.9 at sample 0 is not below tau=0.8: lower eta0 or raise tau"
    assert bad["error"] is None


def test_a_network_that_diverges_says_where(tmp_path):
    X = mixtures()[1] * 1e4
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "s.npy", mixtures()[0])
    data = [{"kind": "file", "mixtures": "x.npy", "sources": "s.npy"}]
    params = {"eta0": 0.5, "whiten": False, "guards": False}
    network = {"name": "NonnegativePCA", "published": "d3", "params": params}
    rows = sweep.run(Plan.from_dict({"data": data, "network": [network], "times": 3}, tmp_path), tmp_path / "out")
    with pytest.raises(DivergenceError) as raised:
        NonnegativePCA.as_published("d3", **params, random_state=0).partial_fit_transform(X)
    assert {row["status"] for row in rows} == {f"diverged at sample {raised.value.sample}"}
    assert [row["error"] for row in rows] == [None] * 3
    assert rows.best()[0]["failed"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu"}, "device='tpu' is unknown"),
        ({"n_jobs": 0}, "n_jobs=0 runs nothing"),
    ],
)
def test_bad_options(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        sweep.run(body(), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------------------ on disk


def lines(folder):
    return (folder / "journal.jsonl").read_text().splitlines()


def test_what_is_finished_is_not_run_again(tmp_path):
    first = sweep.run(body(), tmp_path)
    text = lines(tmp_path)
    assert len(text) == 8
    assert json.loads((tmp_path / "plan.json").read_text())["digest"] == first[0]["plan"]
    again = sweep.run(body(), tmp_path, progress=lambda done, total: pytest.fail("nothing was left to run"))
    assert again.rows == first.rows
    assert lines(tmp_path) == text
    with (tmp_path / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["case"], int(row["t"]), float(row["error"])) for row in rows] == [
        (row["case"], row["t"], row["error"]) for row in first
    ]
    pandas = pytest.importorskip("pandas")
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "results.parquet"), first.to_pandas())
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_torn_line_is_run_again_and_a_damaged_one_too(tmp_path):
    first = sweep.run(body(), tmp_path)
    text = lines(tmp_path)
    text[2] = "\0" * 40
    (tmp_path / "journal.jsonl").write_text("\n".join(text)[:-30])
    again = []
    with pytest.warns(UserWarning, match=r"ignored 2 damaged lines of .*journal\.jsonl, and ran their cases again"):
        second = sweep.run(body(), tmp_path, progress=lambda done, total: again.append(done))
    assert again == [7, 8]
    assert without_times(second) == without_times(first)
    assert len(lines(tmp_path)) == 11
    sweep.run(body(), tmp_path, progress=lambda done, total: pytest.fail("nothing was left to run"))


def test_a_plan_that_changed_runs_what_is_new(tmp_path):
    sweep.run(body(), tmp_path)
    network = {**GRID, "grid": {"eta0": [0.1, 0.03], "tau": [0.5, 0.8]}}
    ran = []
    table = sweep.run(body(network=[network]), tmp_path, progress=lambda done, total: ran.append(total))
    assert ran == [8] * 4  # two values of tau, two seeds
    assert {row["eta0"] for row in table} == {0.1, 0.03}
    assert without_times(table) == without_times(sweep.run(body(network=[network])))


def test_an_interruption_keeps_what_was_finished(tmp_path):
    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep.run(body(), tmp_path, n_jobs=2, progress=stop)
    assert len(lines(tmp_path)) == 3
    with (tmp_path / "results.csv").open(newline="") as file:
        assert len({row["case"] for row in csv.DictReader(file)}) == 3
    assert without_times(sweep.run(body(), tmp_path)) == without_times(sweep.run(body()))


def test_a_kill_loses_nothing_that_was_finished(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'seeds = 40\n[[data]]\nkind = "sparse_uniform"\nd = 3\nT = 60_000\nmixing = "d3"\n'
        '[[network]]\nname = "TwoCompartmentNICA"\npublished = "d3"\n'
    )
    output = tmp_path / "out"
    command = [sys.executable, "-m", "bionica", "sweep", str(plan), "-o", str(output), "--jobs", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not (output / "journal.jsonl").exists() or len(lines(output)) < 4:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept = [json.loads(line)["case"] for line in lines(output)[:-1]]  # the last may be torn
    assert 3 <= len(kept) < 40
    ran = []
    table = sweep.run(plan, output, progress=lambda done, total: ran.append(done))
    assert len(ran) <= 40 - len(kept)
    assert [row["case"] for row in table] == [case.key for case in Plan.from_toml(plan).cases()]
    found = [json.loads(line)["case"] for line in lines(output) if line.endswith("}")]
    assert len(found) == len(set(found)) == 40
    assert without_times(table) == without_times(sweep.run(plan))


# ------------------------------------------------------------------------------------------ the table


def test_best_is_the_least_mean_over_seeds():
    table = sweep.run(body(seeds=3))
    final = [row for row in table if row["t"] == 2000]
    means = {}
    for row in final:
        means.setdefault((row["eta0"], row["tau"]), []).append(row["error"])
    best = min(means, key=lambda setting: np.mean(means[setting]))
    (row,) = table.best()
    assert (row["eta0"], row["tau"]) == best
    assert row["error"] == pytest.approx(np.mean(means[best]))
    assert (row["seeds"], row["settings"], row["failed"]) == (3, 4, 0)
    assert [s["error"] for s in table.settings()] == sorted(s["error"] for s in table.settings())
    assert len(table) == len(table.columns()["error"]) == 3 * 4 * 5
    assert len(table[:2]) == 2


def test_columns_tell_the_value_that_each_network_has(tmp_path):
    networks = [
        GRID,
        {"name": "InterneuronNICA", "published": "d3", "params": {"guards": ["row"]}},
        {"name": "TwoLayerNSM"},
    ]
    table = sweep.run(body(seeds=1, times=1, network=networks), tmp_path)
    assert table.swept == ["eta0", "tau", "guards"]
    paper, ours = table[-2], table[-1]
    assert (paper["eta0"], paper["tau"], paper["guards"]) == (0.01, None, ("row",))
    assert (ours["eta0"], ours["guards"]) == (0.1, True)
    with (tmp_path / "results.csv").open(newline="") as file:
        assert [json.loads(row["guards"]) for row in csv.DictReader(file)][-2:] == [["row"], True]


# ------------------------------------------------------------------------------------------ the command


def command(*arguments):
    return CliRunner().invoke(app, ["sweep", *map(str, arguments)])


@pytest.fixture
def plan_file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(paper_grid().replace("100_000", "200").replace("seeds = 10", "seeds = 1"))
    return path


def test_the_command_runs_the_example(plan_file, tmp_path):
    output = tmp_path / "out"
    planned = command(plan_file, "-o", output, "--dry-run")
    assert planned.exit_code == 0
    assert "0 of 390 cases" in planned.stdout
    assert not output.exists()
    result = command(plan_file, "-o", output)
    assert result.exit_code == 0, result.output
    assert "390 of 390 cases" in result.stdout
    assert "TwoCompartmentNICA: error" in result.stdout
    again = command(plan_file, "-o", output, "--json")
    found = json.loads(again.stdout)
    assert (found["cases"], found["finished before"], len(found["best"])) == (390, 390, 4)
    assert "All 390 cases were there already: nothing ran" in command(plan_file, "-o", output).stdout
    assert command(plan_file, "-o", output, "-q").stdout == ""


def test_the_command_prints_the_example():
    result = command("--example")
    assert result.exit_code == 0
    assert Plan.from_dict(tomllib.loads(result.stdout)).size == 3900


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "PLAN is missing"),
        (["nothing.toml"], 1, "Error: nothing.toml: No such file or directory"),
        (["PLAN", "--jobs", "-3"], 2, "--jobs"),
    ],
)
def test_the_command_ends_with_a_sentence(plan_file, arguments, code, message):
    result = command(*(plan_file if argument == "PLAN" else argument for argument in arguments))
    assert result.exit_code == code
    assert message in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output


def test_a_device_that_is_not_there_is_told_once(plan_file, tmp_path, monkeypatch):
    monkeypatch.setattr("bionica.sweep.run_cuda.unavailable", lambda: "no GPU was found")
    result = command(plan_file, "-o", tmp_path / "out", "--device", "cuda", "--jobs", 2)
    assert result.exit_code == 0
    assert result.stderr.count("Note: device='cuda': no GPU was found; the CPU computes") == 1
    assert "UserWarning" not in result.stderr
    assert command(plan_file, "-o", tmp_path / "out", "--device", "cuda", "-q").output == ""


def test_sigterm_is_taken_as_an_interruption(plan_file, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "prepare", lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGTERM))
    result = command(plan_file, "-o", tmp_path / "out")
    assert result.exit_code == 130
    assert "goes on from there" in result.stderr


def test_a_bad_plan_is_one_line(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('[[data]]\nkind = "gamma"\nd = 2\nT = 10\n[[network]]\nname = "PCA"\n')
    result = command(path)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert "network[0].name = 'PCA' is unknown" in result.stderr


def test_an_interrupted_command_says_how_to_go_on(plan_file, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "prepare", interrupted)
    result = command(plan_file, "-o", tmp_path / "out")
    assert result.exit_code == 130
    assert "the same command goes on from there" in result.stderr
