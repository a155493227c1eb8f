"""From the tables of the sweeps to the numbers of the paper's figures and of its table 1."""

from collections.abc import Mapping

import numpy as np

from .. import estimators
from ..io.tables import Row
from ..sweep import Table
from .reference import NETWORKS, SETTINGS

__all__ = ["best_settings", "curve_rows", "final_rows", "grid_means", "run_rows"]

#: The table of each experiment and setting.
Tables = Mapping[tuple[str, str], Table]

_HYPERPARAMETERS = ("eta0", "decay", "tau")


def run_rows(tables: Tables, experiment: str) -> list[Row]:
    """The tidy table of an experiment: a row for every run and time."""
    names = _HYPERPARAMETERS if experiment == "table1" else ()
    columns = ("network", "seed", *names, "t", "error", "last_tenth", "status", "seconds", "versions", "machine")
    return [
        {"experiment": experiment, "setting": setting, **{name: row[name] for name in columns}}
        for (found, setting), table in tables.items()
        if found == experiment
        for row in table
    ]


def curve_rows(tables: Tables, experiment: str) -> list[Row]:
    """Mean error and its interval at every time, for each setting and network; runs that diverged are left out."""
    return [
        {"setting": setting, **{name: row[name] for name in ("network", "t", "mean", "low", "high", "runs")}}
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
            **{name: value for name, value in row.items() if name != "data" and name not in table.swept},
        }
        for (experiment, setting), table in sorted(tables.items(), key=lambda item: list(SETTINGS).index(item[0][1]))
        for row in table.final_errors()
    ]


def grid_means(tables: Tables) -> list[Row]:
    """Mean final error of every setting of the grid search, infinite if a run failed."""
    means = []
    for setting in SETTINGS:
        for row in tables["table1", setting].settings() if ("table1", setting) in tables else []:
            values = {name: row[name] for name in _HYPERPARAMETERS}
            paper = _is_paper(row["network"], setting, values)
            names = ("error", "failed")
            means.append(
                {"setting": setting, "network": row["network"], **values, **{name: row[name] for name in names}}
                | {"runs": row["seeds"], "paper": paper}
            )
    return means


def best_settings(means: list[Row]) -> list[Row]:
    """The best setting of each network beside the paper's, with the rank of the paper's."""
    rows = []
    for setting in dict.fromkeys(row["setting"] for row in means):
        for network in NETWORKS:
            mine = sorted((r for r in means if (r["setting"], r["network"]) == (setting, network)), key=_error)
            if not mine:
                continue
            best = mine[0]
            paper = next(row for row in mine if row["paper"])
            rows.append(
                {
                    "setting": setting,
                    "network": network,
                    "best": _values(best),
                    "error": best["error"],
                    "paper": _values(paper),
                    "paper_error": paper["error"],
                    "paper_rank": mine.index(paper) + 1,
                    "settings": len(mine),
                    "failed": sum(row["failed"] > 0 for row in mine),
                    "runs": best["runs"],
                }
            )
    return rows


def _values(row: Row) -> tuple[float, ...]:
    return tuple(row[name] for name in _HYPERPARAMETERS if row[name] is not None)


def _error(row: Row) -> float:
    return float(row["error"])


def _is_paper(network: str, setting: str, values: Row) -> bool:
    printed = getattr(estimators, network)._published[setting]
    return all(np.isclose(value, printed[name], rtol=1e-9) for name, value in values.items() if value is not None)
