"""From runs to the numbers of a figure: means over runs and their 90 % confidence intervals."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..io.tables import Row
from .reference import SETTINGS
from .store import Result

_DRAWS = 2000

Group = tuple[str, str, str]


def run_rows(results: Iterable[Result]) -> list[Row]:
    """The tidy table: a row for every run and time; a run without a curve has one row."""
    rows = []
    for task, header, arrays in results:
        base = {
            "experiment": task.experiment,
            "setting": task.setting,
            "network": task.network,
            "seed": task.seed,
            **{name: dict(task.params).get(name) for name in ("eta0", "decay", "tau") if task.experiment == "table1"},
        }
        rest = {
            "status": header["status"],
            "seconds": header["seconds"],
            "versions": header["versions"],
            "machine": header["machine"],
        }
        times = arrays["t"].tolist() if "t" in arrays else [header["n_samples"]]
        errors = arrays["error"].tolist() if "t" in arrays else [header["error"]]
        rows += [{**base, "t": t, "error": error, **rest} for t, error in zip(times, errors, strict=True)]
    return rows


def curve_rows(results: Iterable[Result]) -> list[Row]:
    """Mean error and its interval at every time, for each setting and network; runs that diverged are left out."""
    rows = []
    for (experiment, setting, network), group in _groups(results).items():
        good = [result for result in group if result.header["error"] is not None]
        if not good:
            continue
        if "t" in good[0].arrays:
            t = good[0].arrays["t"]
            errors = np.stack([result.arrays["error"] for result in good])
        else:
            t = np.array([good[0].header["n_samples"]])
            errors = np.array([[result.header["error"]] for result in good])
        low, high = interval(errors)
        rows += [
            {
                "experiment": experiment,
                "setting": setting,
                "network": network,
                "t": int(time),
                "mean": float(mean),
                "low": float(a),
                "high": float(b),
                "runs": len(good),
            }
            for time, mean, a, b in zip(t, errors.mean(axis=0), low, high, strict=True)
        ]
    return rows


def final_rows(results: Iterable[Result]) -> list[Row]:
    """The error at the end of each setting and network: mean, interval, range, and that of the last tenth."""
    rows = []
    for (experiment, setting, network), group in _groups(results).items():
        errors = np.array([r.header["error"] for r in group if r.header["error"] is not None])
        tails = [r.header["last_tenth"] for r in group if r.header["last_tenth"] is not None]
        row: Row = {"experiment": experiment, "setting": setting, "network": network, "runs": len(group)}
        row["n_samples"] = group[0].header["n_samples"]
        row["diverged"] = len(group) - len(errors)
        low, high = interval(errors[:, np.newaxis]) if len(errors) else (np.array([None]), np.array([None]))
        row["mean"] = float(errors.mean()) if len(errors) else None
        row["low"], row["high"] = (float(low[0]), float(high[0])) if len(errors) else (None, None)
        row["median"] = float(np.median(errors)) if len(errors) else None
        row["least"] = float(errors.min()) if len(errors) else None
        row["largest"] = float(errors.max()) if len(errors) else None
        row["last_tenth"] = float(np.mean(tails)) if tails else None
        row["seconds"] = float(np.mean([r.header["seconds"] for r in group]))
        rows.append(row)
    return rows


def interval(errors: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """90 % confidence interval of the mean of the rows, by the bootstrap: positive, as a logarithmic axis needs.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = interval(np.array([[1.0], [2.0], [3.0]]))
    >>> bool(1 <= low[0] < 2 < high[0] <= 3)
    True
    """
    n = len(errors)
    counts = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=_DRAWS)
    low, high = np.quantile(counts @ errors / n, (0.05, 0.95), axis=0)
    return low, high


def _groups(results: Iterable[Result]) -> dict[Group, Sequence[Result]]:
    groups: dict[Group, list[Result]] = defaultdict(list)
    for result in results:
        groups[result.task.experiment, result.task.setting, result.task.network].append(result)
    order = list(SETTINGS)
    return dict(sorted(groups.items(), key=lambda item: order.index(item[0][1]) if item[0][1] in order else -1))
