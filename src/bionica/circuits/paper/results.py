"""The numbers of the paper's figures and of its table 1 from the tables of the sweeps,
and the paper's statements beside them.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby, product
from operator import itemgetter
from typing import Any

import numpy as np

import bionica
from bionica.circuits.paper.figures import label_of
from bionica.circuits.paper.plans import NETWORKS, SETTINGS
from bionica.circuits.sweep import Table
from bionica.circuits.sweep.table import Row

#: The table of each experiment and setting.
Tables = Mapping[tuple[str, str], Table]

_HYPERPARAMETERS = ("eta0", "decay", "tau")
_SINGLE = NETWORKS[:2]
_COMPARED = NETWORKS[2:]
#: An error below this counts as recovered, of a variance of 1.
_RECOVERED = 0.1


def rows_of(
    tables: Tables, experiment: str, rows: Callable[[Table], Iterable[Row]] = list
) -> list[Row]:
    """The rows of an experiment, of all its settings: by default one for every run and
    time. `rows` may be a method of Table.
    """
    return [
        {"experiment": experiment, "setting": setting, **row}
        for (name, setting), table in tables.items()
        if name == experiment
        for row in rows(table)
    ]


def final_rows(tables: Tables, *experiments: str) -> list[Row]:
    """The error at the end of each setting and network: mean, interval, range, and that
    of the last tenth.
    """
    summary = Table.final_errors
    rows = [row for name in experiments for row in rows_of(tables, name, summary)]
    return sorted(rows, key=lambda row: [*SETTINGS].index(row["setting"]))


def grid_means(tables: Tables) -> list[Row]:
    """The `final_rows` of the grid search, the best of each network first; `paper` says
    whether it is the paper's choice.
    """
    means = []
    for row in final_rows(tables, "table1"):
        cls = getattr(bionica, row["network"])
        printed = cls.as_published(row["setting"]).get_params()
        paper = all(row[key] in (None, printed.get(key)) for key in _HYPERPARAMETERS)
        means.append({**row, "paper": paper})
    return means


def _hyperparameters_of(row: Row) -> str:
    return ", ".join(f"{row[key]:g}" for key in _HYPERPARAMETERS if row[key])


def best_settings(means: list[Row]) -> list[Row]:
    """The best setting of each network beside the paper's, with the rank of the
    paper's; `means` are as from `grid_means`.
    """
    rows = []
    for network, group in groupby(means, itemgetter("network")):
        mine = list(group)
        paper = next(row for row in mine if row["paper"])
        rows.append(
            {
                "network": network,
                "best": _hyperparameters_of(mine[0]),
                "error": mine[0]["error"],
                "paper": _hyperparameters_of(paper),
                "paper_error": paper["error"],
                "paper_rank": mine.index(paper) + 1,
                "settings": len(mine),
                "failed": sum(row["failed"] > 0 for row in mine),
                "runs": mine[0]["runs"],
            }
        )
    return rows


def claims_of(runs: list[Row], finals: list[Row], best: list[Row]) -> list[Row]:
    """What the paper says (`where`, `paper`), what we found (`ours`), and whether they
    agree: "yes", "no" or "partly".

    `runs` and `finals` are the `rows_of` and `final_rows` of figures 4 and 5, `best`
    are the `best_settings` of the grid search.
    """
    rows = []
    for setting in ("d3", "d10", "images"):
        mine = {row["network"]: row for row in finals if row["setting"] == setting}
        if any(mine.get(name, {}).get("mean") is None for name in NETWORKS):
            continue
        last = {(r["network"], r["seed"]): r for r in runs if r["setting"] == setting}
        # times ascend
        where = "Figure 5" if setting == "images" else f"Figure 4, {SETTINGS[setting]}"
        rows.append(_ranking(where, mine, last))
        if setting == "images":
            rows.append(_recovered(mine, [*last.values()]))
    return rows + [_hyperparameters(row) for row in best]


def _claim(where: str, paper: str, ours: str, exceptions: int, most: int) -> Row:
    agrees = {0: "yes", most: "no"}.get(exceptions, "partly")
    return {"where": where, "paper": paper, "ours": ours, "agrees": agrees}


def _ranking(where: str, mine: dict[str, Row], last: dict[Any, Row]) -> Row:
    """The claim of the summary: both compared methods outperform both single-layer
    networks.
    """

    def ranked(key: str) -> str:
        errors = sorted((mine[name][key], label_of(name)) for name in NETWORKS)
        return ", ".join(f"{label} {error:.2g}" for error, label in errors)

    def error(network: str, seed: int) -> float:
        error = last[network, seed]["error"]
        return np.inf if error is None else error

    seeds = {seed for _, seed in last}
    wins = sum(
        max(error(name, seed) for name in _COMPARED)
        < min(error(name, seed) for name in _SINGLE)
        for seed in seeds
    )
    pairs = [*product(_SINGLE, _COMPARED)]
    exceptions = sum(mine[a]["mean"] <= mine[b]["mean"] for a, b in pairs)
    text = (
        f"Mean errors, best first: {ranked('mean')}. Both methods are ahead of both"
        f" networks in {wins} of {len(seeds)} runs. Over the last tenth of the samples,"
        f" without the start: {ranked('last_tenth')}."
    )
    paper = (
        "Algorithms 1 and 2 are outperformed by Nonnegative PCA and the 2-layer NSM."
    )
    return _claim(where, paper, text, exceptions, len(pairs))


def _recovered(mine: dict[str, Row], ends: list[Row]) -> Row:
    """Figure 5 shows the images that the two networks recover: their error after
    learning, of a variance of 1.
    """
    parts = []
    for network in NETWORKS:
        tails = [row["last_tenth"] for row in ends if row["network"] == network]
        good = sum(tail is not None and tail < _RECOVERED for tail in tails)
        mean = mine[network]["last_tenth"]
        runs = f"below {_RECOVERED:g} in {good} of {len(tails)} runs"
        parts.append(f"{label_of(network)} {mean:.2g} ({runs})")
    text = (
        "Error over the last tenth of the samples, of sources with variance 1:"
        f" {', '.join(parts)}."
    )
    bad = sum(mine[network]["last_tenth"] >= _RECOVERED for network in _SINGLE)
    paper = "Algorithms 1 and 2 recover the images."
    return _claim("Figure 5, left", paper, text, bad, len(_SINGLE))


def _hyperparameters(row: Row) -> Row:
    """The paper's setting beside the best of the grid; within 5 % it is as good, from
    twice the error on it is not.
    """
    text = (
        f"Best of {row['settings']} settings: ({row['best']}), error {row['error']:.2g}"
        f" (mean of {row['runs']} runs). The paper's is number {row['paper_rank']},"
        f" error {row['paper_error']:.2g}. Settings that diverge or are forbidden:"
        f" {row['failed']}."
    )
    names = "(η₀, γ, τ)" if row["network"] == "TwoCompartmentNICA" else "(η₀, γ)"
    where = f"Table 1, d = 3, {label_of(row['network'])}"
    ratio = row["paper_error"] / row["error"]
    exceptions = (not ratio <= 1.05) + (not ratio < 2)
    return _claim(where, f"Best {names} = ({row['paper']})", text, exceptions, 2)
