"""The experiments of the paper without their runs: plans, verdicts, summaries; and the
table of the page of the paper.
"""

import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bionica
from bionica import datasets, metrics
from bionica.circuits import reference
from bionica.circuits.paper import Reproduction, claims_of, plans_of, results
from bionica.circuits.paper.plans import NETWORKS, CorrelationFloor
from bionica.circuits.sweep import Table

ROOT = Path(__file__).parents[2]


def cases(experiment, setting, **options):
    """The cases of one plan."""
    return list(
        plans_of(Reproduction((experiment,), **options))[experiment, setting].cases()
    )


# --- plans


@pytest.mark.parametrize(("setting", "d"), [("d3", 3), ("d10", 10)])
def test_figure_4_is_ten_runs_of_the_four_networks_on_the_printed_matrices(setting, d):
    runs = cases("figure4", setting, seed=7)
    assert {case.seed for case in runs} == {*range(7, 17)}
    assert len(runs) == 40
    assert {case.network.name for case in runs} == {*NETWORKS}  # nothing of ours
    for case in runs[::10]:
        printed = getattr(bionica, case.network.name).as_published(
            setting, random_state=case.seed
        )
        assert case.estimator().get_params() == printed.get_params()
    S, X = runs[0].data.load(7, "float64")[:2]
    assert_array_equal(S, datasets.sparse_uniform(100_000, d, rng=7))
    assert_allclose(X, S @ datasets.paper_mixing(setting).T, atol=1e-12)
    assert 150 < len(runs[0].times) <= 200
    assert runs[0].times[-1] == 100_000


def test_figure_5_presents_the_images_five_times_in_random_orders(tmp_path, rng):
    images = rng.exponential(size=(3, 100))
    np.save(tmp_path / "sources.npy", images)
    runs = cases("figure5", "images", images=str(tmp_path / "sources.npy"))
    assert {case.network.name for case in runs} == {*NETWORKS}
    data = runs[0].data
    S, X = data.load(0, "float64")[:2]
    assert S.shape == (500, 3)
    assert_allclose(X, S @ datasets.paper_mixing("images").T, atol=1e-12)
    orders = data.order(0).reshape(5, 100)
    assert all(np.array_equal(np.sort(order), np.arange(100)) for order in orders)
    assert len({tuple(order) for order in orders}) == 5


def test_the_grid_is_that_of_appendix_c():
    runs = cases("table1", "d3")
    assert {case.seed for case in runs} == {*range(5)}
    for name in NETWORKS:
        grid = [
            dict(case.params)
            for case in runs
            if case.network.name == name and case.seed == 0
        ]
        values = {key: {point[key] for point in grid} for key in grid[0]}
        assert values["eta0"] == {1e-1, 1e-2, 1e-3, 1e-4, 1e-5}
        assert values["decay"] == {1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7}
        taus = {0.01, 0.03, 0.05, 0.08, 0.1, 0.3, 0.5, 0.8, 1.0, 3.0}
        assert values.get("tau") == (taus if name == "TwoCompartmentNICA" else None)
        assert len(grid) == np.prod([len(choices) for choices in values.values()])


def test_ours_are_drawn_only_if_asked_for():
    runs = cases("figure4", "d3", with_ours=True)
    ours = {case.network.label: case for case in runs}
    untuned = {"InterneuronNICA untuned", "TwoCompartmentNICA untuned"}
    others = {"LocalNICA", "StreamingNICA", "BatchNICA", "correlation floor"}
    assert ours.keys() - {*NETWORKS} == others | untuned
    assert ours["TwoCompartmentNICA untuned"].estimator().eta0 is None


def test_figure_1_mixes_the_sources_out_of_the_orthant():
    (case,) = cases("figure1", "d2")
    S, X = case.data.load(case.seed, "float64")[:2]
    assert S.shape == (20_000, 2)
    assert S.min() == 0
    assert np.mean(X.min(axis=1) < 0) > 0.2
    assert_allclose(X, S @ [[1, -0.45], [0.55, 0.8]])


@pytest.mark.parametrize(
    ("figure", "name"),
    [("figure2", "InterneuronNICA"), ("figure3", "TwoCompartmentNICA")],
)
def test_circuits_are_those_of_the_two_algorithms(figure, name):
    (case,) = cases(figure, "d3")
    assert case.network.name == name
    assert case.estimator().eta0 == getattr(bionica, name).as_published("d3").eta0


# --- verdicts


@pytest.mark.parametrize(
    ("tails", "verdict", "good"),
    [
        ((0.099, 0.05), "yes", (1, 1, 0, 0)),
        ((0.101, 0.05), "partly", (0, 1, 0, 0)),
        ((0.1, 0.2), "no", (0, 0, 0, 0)),
    ],
)
def test_images_are_recovered_below_a_tenth_of_their_variance(tails, verdict, good):
    head = {"setting": "images", "seed": 0, "mean": 0.2, "error": 0.2}
    rows = [
        {**head, "network": network, "last_tenth": tail}
        for network, tail in zip(NETWORKS, (*tails, 9.0, 9.0), strict=True)
    ]
    claim = {claim["where"]: claim for claim in claims_of(rows, rows, [])}[
        "Figure 5, left"
    ]
    assert claim["agrees"] == verdict
    assert tuple(map(int, re.findall(r"in (\d) of 1 runs", claim["ours"]))) == good


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(1.0, "yes"), (1.04, "yes"), (1.06, "partly"), (1.99, "partly"), (2.0, "no")],
)
def test_a_setting_is_as_good_as_the_best_within_5_percent(ratio, verdict):
    row = {"setting": "d3", "network": "TwoLayerNSM", "settings": 30, "runs": 5}
    row |= {"best": "0.1, 1e-07", "error": 0.01, "failed": 2}
    row |= {"paper": "0.1, 1e-07", "paper_error": 0.01 * ratio, "paper_rank": 3}
    (claim,) = claims_of([], [], [row])
    assert claim["agrees"] == verdict
    assert claim["where"] == "Table 1, d = 3, 2-layer NSM"


def test_best_settings_and_the_rank_of_the_papers():
    head = {"data": "d3", "network": "InterneuronNICA", "seed": 0, "t": 9}
    head |= {"decay": 0.001, "tau": None, "seconds": 1.0}
    rows = [
        {**head, "case": str(eta0), "eta0": eta0, "error": error, "last_tenth": error}
        for eta0, error in ((0.1, 0.3), (0.01, 0.2), (0.001, 0.1), (1e-4, None))
    ]
    table = Table(rows, ["eta0", "decay", "tau"])
    means = results.grid_means({("table1", "d3"): table})
    assert [row["eta0"] for row in means if row["paper"]] == [0.01]
    (best,) = results.best_settings(means)
    expected = {"best": "0.001, 0.001", "error": 0.1, "settings": 4, "failed": 1}
    expected |= {"paper": "0.01, 0.001", "paper_error": 0.2, "paper_rank": 2}
    assert best.items() >= (expected | {"runs": 1}).items()


# --- summaries


def test_geometric_mean_and_one_standard_deviation_of_the_logarithm():
    head = {"data": "d3", "network": "TwoLayerNSM"}
    runs = [[0.1, 1e-2, 0], [0.4, 1e-2, 0]]
    rows = [
        {**head, "t": t, "error": max(error - 1e-5, 0)}
        for run in runs
        for t, error in enumerate(run)
    ]
    curve = Table(rows, []).curves()
    numbers = [
        [row[name] for row in curve]
        for name in ("geometric_mean", "geometric_low", "geometric_high")
    ]
    assert_allclose(numbers, [[0.2, 0.01, 1e-5], [0.1, 0.01, 1e-5], [0.4, 0.01, 1e-5]])


def test_the_correlation_floor_is_that_of_the_metric():
    S = datasets.copula_uniform(2000, 3, 0.5, rng=0)
    Y = CorrelationFloor().fit_transform(S, S)
    assert_allclose(np.cov(Y.T, bias=True), np.eye(3), atol=1e-10)
    assert metrics.permutation_error(S, Y) == pytest.approx(
        metrics.correlation_floor(S)
    )


# --- the page

PAGE = (ROOT / "docs" / "paper" / "index.md").read_text()
INDEX = [
    line.strip("| ").split(" | ")
    for line in PAGE.split("| in the paper |")[1].splitlines()[2:]
    if line[:1] == "|"
]


def test_the_page_says_where_everything_is():
    named = ", ".join(row[0] for row in INDEX)
    assert [int(n) for n in re.findall(r"\((\d+)\)", named)] == [*range(1, 23)]
    things = [f"Figure {n}" for n in range(1, 6)]
    things += [f"{kind} {n}" for kind in ("Algorithm", "Lemma") for n in (1, 2)]
    things += [f"Appendix {letter}" for letter in "ABC"]
    things += ["repairs", "Table 1", "error(t)", "sparse uniform", "images", "mixing"]
    assert [thing for thing in things if thing not in named] == []
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for row in INDEX:
        assert len(row) == 4, row
        assert all(cell.strip() for cell in row), row
        places = re.findall(r"`(bionica[\w.]+)`", row[2])
        assert places, row
        assert all(pkgutil.resolve_name(place) is not None for place in places)
        shown = re.findall(r"`(\w+(?:\.png)?)`|\((\w+\.md)\)", row[3])
        assert shown, row
        for name, page in shown:
            if name.startswith("test_"):
                assert f"def {name}(" in tests, name
            else:
                assert (ROOT / "docs" / "paper" / (name or page)).exists(), row


def test_the_code_of_the_page_is_that_of_the_reference():
    lines = {line.strip() for line in Path(reference.__file__).read_text().splitlines()}
    blocks = re.findall(r"^```py\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    quoted = "".join(blocks).splitlines()
    assert len(quoted) > 20
    assert [line for line in quoted if line.strip() not in lines] == []
