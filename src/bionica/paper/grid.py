"""The grid search of appendix C: which setting is best, and where the paper's stands."""

from collections import defaultdict
from collections.abc import Iterable
from math import inf, isfinite

import numpy as np

from .. import estimators
from ..io.tables import Row
from .reference import NETWORKS, SETTINGS
from .store import Result

_PARAMS = ("eta0", "decay", "tau")


def grid_means(results: Iterable[Result]) -> list[Row]:
    """Mean final error of every setting of the grid, infinite if a run failed."""
    groups: dict[tuple[str, str, tuple[tuple[str, float], ...]], list[float]] = defaultdict(list)
    for task, header, _ in results:
        error = header["error"]
        groups[task.setting, task.network, task.params].append(inf if error is None else error)
    order = list(SETTINGS)
    return [
        {
            "setting": setting,
            "network": network,
            **{name: dict(params).get(name) for name in _PARAMS},
            "error": float(np.mean(errors)),
            "runs": len(errors),
            "failed": sum(not isfinite(e) for e in errors),
            "paper": _is_paper(network, setting, dict(params)),
        }
        for (setting, network, params), errors in sorted(groups.items(), key=lambda item: order.index(item[0][0]))
    ]


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
                    "best": tuple(best[name] for name in _PARAMS if best[name] is not None),
                    "error": best["error"],
                    "paper": tuple(paper[name] for name in _PARAMS if paper[name] is not None),
                    "paper_error": paper["error"],
                    "paper_rank": mine.index(paper) + 1,
                    "settings": len(mine),
                    "failed": sum(row["failed"] > 0 for row in mine),
                    "runs": best["runs"],
                }
            )
    return rows


def _error(row: Row) -> float:
    return float(row["error"])


def _is_paper(network: str, setting: str, params: dict[str, float]) -> bool:
    printed = getattr(estimators, network)._published[setting]
    return all(np.isclose(value, printed[name], rtol=1e-9) for name, value in params.items())
