"""The tidy table of a sweep, and what it says over seeds: means, intervals, the best setting."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import inf, isfinite
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ..io.tables import Row, write_table
from .journal import Outcome
from .plan import Plan

__all__ = ["Table", "make_table"]

#: Draws of the bootstrap.
_DRAWS = 2000


@dataclass(frozen=True)
class Table(Sequence[Row]):
    """The tidy table of a sweep: a row for each case and time.

    Attributes
    ----------
    rows : list of dict
        Columns are `plan`, `case`, `data`, `network` (the label), the parameters that the plan names, `seed`, `dtype`, `t`,
        `error` (the paper's, up to time t), and for the whole run `last_tenth`, `status`, `repairs`, `seconds`, `device`,
        `versions`, `machine`.
    swept : list of str
        The columns that are parameters.
    """

    rows: list[Row]
    swept: list[str]

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def columns(self) -> dict[str, list[Any]]:
        """The table as lists, one for each column."""
        return {name: [row[name] for row in self.rows] for name in self.rows[0]} if self.rows else {}

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame."""
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise ImportError("pandas is not installed: pip install pandas, or use columns()") from error
        return pandas.DataFrame(self.rows)

    def write(self, path: Path) -> list[Path]:
        """Write `path`.csv, and `path`.parquet where pyarrow is installed."""
        text = set()  # columns of lists, or of values of several kinds
        for name, values in self.columns().items():
            kinds = {_kind(value) for value in values if value is not None}
            if len(kinds) > 1 or "tuple" in kinds:
                text.add(name)
        rows = [{k: json.dumps(v) if k in text and v is not None else v for k, v in row.items()} for row in self.rows]
        return write_table(path, rows)

    def settings(self) -> list[Row]:
        """Mean final error of every setting over its seeds, infinite if a seed failed; the best of each network first."""
        means = []
        for rows in self._groups(self._last()):
            errors = [inf if row["error"] is None else row["error"] for row in rows]
            tails = [inf if row["last_tenth"] is None else row["last_tenth"] for row in rows]
            means.append(
                {
                    **{name: rows[0][name] for name in ("data", "network", *self.swept)},
                    "error": sum(errors) / len(errors),
                    "last_tenth": sum(tails) / len(tails),
                    "seeds": len(rows),
                    "failed": sum(not isfinite(e) for e in errors),
                }
            )
        order = {key: i for i, key in enumerate(dict.fromkeys((m["data"], m["network"]) for m in means))}
        return sorted(means, key=lambda m: (order[m["data"], m["network"]], m["error"]))

    def best(self) -> list[Row]:
        """The best setting of every network on every data: the one with the smallest `error` at the end, mean over seeds.

        `error` is the permutation error over all samples; `last_tenth` that over the last tenth of them.
        """
        found: dict[tuple[str, str], Row] = {}
        for row in self.settings():
            first = found.setdefault((row["data"], row["network"]), {**row, "settings": 0})
            first["settings"] += 1
        return list(found.values())

    def final_errors(self) -> list[Row]:
        """The error at the end of every setting, over the seeds that did not fail: mean, 90 % interval, median and range."""
        found = []
        for rows in self._groups(self._last()):
            errors = np.array([row["error"] for row in rows if row["error"] is not None])
            tails = [row["last_tenth"] for row in rows if row["last_tenth"] is not None]
            summary: Row = dict.fromkeys(("mean", "low", "high", "median", "least", "largest"))
            if len(errors):
                low, high = interval(errors[:, np.newaxis])
                numbers = (errors.mean(), low[0], high[0], np.median(errors), errors.min(), errors.max())
                summary = dict(zip(summary, map(float, numbers), strict=True))
            found.append(
                {
                    **{name: rows[0][name] for name in ("data", "network", *self.swept)},
                    "runs": len(rows),
                    "n_samples": rows[0]["t"],
                    "diverged": len(rows) - len(errors),
                    **summary,
                    "last_tenth": float(np.mean(tails)) if tails else None,
                    "seconds": float(np.mean([row["seconds"] for row in rows])),
                }
            )
        return found

    def curves(self) -> list[Row]:
        """The error of every setting at every time, over the seeds that did not fail: mean and 90 % interval."""
        found = []
        for rows in self._groups(row for row in self.rows if row["error"] is not None):
            times = list(dict.fromkeys(row["t"] for row in rows))
            errors = np.array([row["error"] for row in rows]).reshape(-1, len(times))
            head = {name: rows[0][name] for name in ("data", "network", *self.swept)}
            numbers = zip(
                times, errors.mean(axis=0).tolist(), *(bound.tolist() for bound in interval(errors)), strict=True
            )
            found += [
                {**head, "t": t, "mean": mean, "low": low, "high": high, "runs": len(errors)}
                for t, mean, low, high in numbers
            ]
        return found

    def _groups(self, rows: Iterable[Row]) -> Iterable[list[Row]]:
        """The rows of each setting."""
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            groups.setdefault((row["data"], row["network"], *(row[name] for name in self.swept)), []).append(row)
        return groups.values()

    def _last(self) -> Iterable[Row]:
        """The last row of each case: times ascend."""
        return {row["case"]: row for row in self.rows}.values()


def make_table(plan: Plan, outcomes: Mapping[str, Outcome]) -> Table:
    """Join the cases of a plan with their outcomes; a case that has not run has no row."""
    rows = []
    digest, swept = plan.digest, plan.swept
    for case in plan.cases():
        outcome = outcomes.get(case.key)
        if outcome is None:
            continue
        head: Row = {"plan": digest, "case": case.key, "data": case.data.name, "network": case.label}
        head |= {**case.values(swept), "seed": case.seed, "dtype": case.dtype}
        names = ("last_tenth", "status", "repairs", "seconds", "device", "versions", "machine")
        tail = {name: getattr(outcome, name) for name in names}
        errors: Sequence[float | None] = outcome.error or [None] * len(outcome.t)
        rows += [{**head, "t": t, "error": error, **tail} for t, error in zip(outcome.t, errors, strict=True)]
    return Table(rows, swept)


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


def _kind(value: Any) -> str:
    """The kind of a cell for Parquet: integers and floats can share a column."""
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
