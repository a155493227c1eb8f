"""The numbers of the paper's figures and of its table 1 from the tables of the sweeps,
and the paper's statements beside them.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import itemgetter

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
    mine = [
        (setting, table)
        for (name, setting), table in tables.items()
        if name == experiment
    ]
    return [
        {"experiment": experiment, "setting": setting, **row}
        for setting, table in mine
        for row in rows(table)
    ]


def final_rows(tables: Tables, *experiments: str) -> list[Row]:
    """The error at the end of each setting and network: mean, interval, range, and that
    of the last tenth.
    """
    rows = [
        row
        for experiment in experiments
        for row in rows_of(tables, experiment, Table.final_errors)
    ]
    return sorted(rows, key=lambda row: [*SETTINGS].index(row["setting"]))


def grid_means(tables: Tables) -> list[Row]:
    """The `final_rows` of the grid search, the best of each network first; `paper` says
    whether it is the paper's choice.
    """
    means = []
    for row in final_rows(tables, "table1"):
        printed = (
            getattr(bionica, row["network"]).as_published(row["setting"]).get_params()
        )
        means.append(
            {
                **row,
                "paper": all(
                    row[name] in (None, printed.get(name)) for name in _HYPERPARAMETERS
                ),
            }
        )
    return means


def best_settings(means: list[Row]) -> list[Row]:
    """The best setting of each network beside the paper's, with the rank of the
    paper's; `means` are as from `grid_means`.
    """
    rows = []
    for network, group in groupby(means, itemgetter("network")):
        mine = list(group)
        rank, paper = next((i, row) for i, row in enumerate(mine, 1) if row["paper"])
        best, printed = (
            ", ".join(f"{row[n]:g}" for n in _HYPERPARAMETERS if row[n])
            for row in (mine[0], paper)
        )
        rows.append(
            {
                "network": network,
                "best": best,
                "error": mine[0]["error"],
                "paper": printed,
            }
            | {"paper_error": paper["error"], "paper_rank": rank, "settings": len(mine)}
            | {
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
        mine = {r["network"]: r for r in finals if r["setting"] == setting}
        # times ascend
        ends = list(
            {
                (r["network"], r["seed"]): r for r in runs if r["setting"] == setting
            }.values()
        )
        if any(
            network not in mine or mine[network]["mean"] is None for network in NETWORKS
        ):
            continue
        where = "Figure 5" if setting == "images" else f"Figure 4, {SETTINGS[setting]}"
        rows.append(_ranking(where, mine, ends))
        if setting == "images":
            rows.append(_recovered(mine, ends))
    return rows + [_hyperparameters(row) for row in best]


def _claim(where: str, paper: str, ours: str, exceptions: int, most: int) -> Row:
    agrees = "yes" if exceptions == 0 else "no" if exceptions == most else "partly"
    return {"where": where, "paper": paper, "ours": ours, "agrees": agrees}


def _ranking(where: str, mine: dict[str, Row], ends: list[Row]) -> Row:
    """The claim of the summary: both compared methods outperform both single-layer
    networks.
    """

    def ranked(name: str) -> str:
        errors = sorted(
            (mine[network][name], label_of(network)) for network in NETWORKS
        )
        return ", ".join(f"{label} {error:.2g}" for error, label in errors)

    runs: dict[int, dict[str, float]] = {}
    for row in ends:
        runs.setdefault(row["seed"], {})[row["network"]] = (
            np.inf if row["error"] is None else row["error"]
        )
    wins = sum(
        max(run[n] for n in _COMPARED) < min(run[n] for n in _SINGLE)
        for run in runs.values()
    )
    exceptions = sum(
        mine[single]["mean"] <= mine[other]["mean"]
        for single in _SINGLE
        for other in _COMPARED
    )
    text = (
        f"Mean errors, best first: {ranked('mean')}. Both methods are ahead of both"
        f" networks in {wins} of {len(runs)} runs. "
    )
    text += (
        "Over the last tenth of the samples, without the start:"
        f" {ranked('last_tenth')}."
    )
    paper = (
        "Algorithms 1 and 2 are outperformed by Nonnegative PCA and the 2-layer NSM."
    )
    return _claim(where, paper, text, exceptions, len(_SINGLE) * len(_COMPARED))


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
    return _claim(
        "Figure 5, left",
        "Algorithms 1 and 2 recover the images.",
        text,
        bad,
        len(_SINGLE),
    )


def _hyperparameters(row: Row) -> Row:
    """The paper's setting beside the best of the grid; within 5 % it is as good, from
    twice the error on it is not.
    """
    best = (
        f"Best of {row['settings']} settings: ({row['best']}), error {row['error']:.2g}"
        f" (mean of {row['runs']} runs)."
    )
    rank = f"The paper's is number {row['paper_rank']}, error {row['paper_error']:.2g}."
    text = f"{best} {rank} Settings that diverge or are forbidden: {row['failed']}."
    names = "(η₀, γ, τ)" if row["network"] == "TwoCompartmentNICA" else "(η₀, γ)"
    where = f"Table 1, d = 3, {label_of(row['network'])}"
    ratio = row["paper_error"] / row["error"]
    return _claim(
        where,
        f"Best {names} = ({row['paper']})",
        text,
        (not ratio <= 1.05) + (not ratio < 2),
        2,
    )
