"""From the tables of the sweeps to the numbers of the paper's figures and of its table 1."""

from collections.abc import Iterable, Mapping
from itertools import product

import numpy as np

from .. import estimators
from ..io.write import Row
from ..sweep import Table
from .reference import NETWORKS, SETTINGS

#: The table of each experiment and setting.
Tables = Mapping[tuple[str, str], Table]

_HYPERPARAMETERS = ("eta0", "decay", "tau")


def run_rows(tables: Tables, experiment: str) -> list[Row]:
    """The tidy table of an experiment: a row for every run and time."""
    names = _HYPERPARAMETERS if experiment == "table1" else ()
    columns = ("network", "seed", *names, "t", "error", "last_tenth", "status", "seconds", "versions", "machine")
    return [
        {"experiment": experiment, "setting": setting, **_only(row, columns)}
        for (found, setting), table in tables.items()
        if found == experiment
        for row in table
    ]


def curve_rows(tables: Tables, experiment: str) -> list[Row]:
    """Mean error and its interval at every time, for each setting and network; runs that diverged are left out."""
    return [
        {"setting": setting, **_only(row, ("network", "t", "mean", "low", "high", "runs"))}
        for (found, setting), table in tables.items()
        if found == experiment
        for row in table.curves()
    ]


def final_rows(tables: Tables) -> list[Row]:
    """The error at the end of each setting and network: mean, interval, range, and that of the last tenth."""
    return [
        {
            "experiment": experiment,
            "setting": setting,
            **_only(row, [n for n in row if n not in ("data", *table.swept)]),
        }
        for (experiment, setting), table in sorted(tables.items(), key=lambda item: list(SETTINGS).index(item[0][1]))
        for row in table.final_errors()
    ]


def grid_means(tables: Tables) -> list[Row]:
    """Mean final error of every setting of the grid search, infinite if a run failed."""
    means = []
    for setting in (setting for setting in SETTINGS if ("table1", setting) in tables):
        for row in tables["table1", setting].settings():
            printed = getattr(estimators, row["network"])._published[setting]
            values = _only(row, _HYPERPARAMETERS)
            paper = all(np.isclose(v, printed[n], rtol=1e-9) for n, v in values.items() if v is not None)
            numbers = {**values, **_only(row, ("error", "failed")), "runs": row["seeds"], "paper": paper}
            means.append({"setting": setting, "network": row["network"], **numbers})
    return means


def best_settings(means: list[Row]) -> list[Row]:
    """The best setting of each network beside the paper's, with the rank of the paper's."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(means, key=lambda row: float(row["error"])):
        groups.setdefault((row["setting"], row["network"]), []).append(row)
    rows = []
    for setting, network in (key for key in product(SETTINGS, NETWORKS) if key in groups):
        mine = groups[setting, network]
        rank, paper = next((i, row) for i, row in enumerate(mine, 1) if row["paper"])
        best, printed = (tuple(row[n] for n in _HYPERPARAMETERS if row[n] is not None) for row in (mine[0], paper))
        rows.append(
            {"setting": setting, "network": network, "best": best, "error": mine[0]["error"], "paper": printed}
            | {"paper_error": paper["error"], "paper_rank": rank, "settings": len(mine)}
            | {"failed": sum(row["failed"] > 0 for row in mine), "runs": mine[0]["runs"]}
        )
    return rows


def _only(row: Row, names: Iterable[str]) -> Row:
    return {name: row[name] for name in names}
