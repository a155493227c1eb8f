"""The tidy table of a sweep, and what it says over seeds: means, intervals, the best
setting.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any

import numpy as np

Row = dict[str, Any]
_MEANS = ("mean", "low", "high", "geometric_mean", "geometric_low", "geometric_high")
_FINAL = (*_MEANS, "median", "least", "largest", "last_tenth")


def table_bytes(rows: Sequence[Row]) -> bytes:
    """Return rows as a .csv file with a column for each key of the first."""
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


class Table(list[Row]):
    """The tidy table of a sweep: a list with a dict for each case and time.
    ``pandas.DataFrame(table)`` is a data frame of it.

    Keys are `case`, `data`, `network` (the label), the parameters that the plan names,
    `seed`, `dtype`, `t`, `error` (the paper's, up to time t), and for the whole run
    `last_tenth`, `sinr`, `amari` and `held_out_error` of the final network on samples
    that were held out, `condition` (of the mixing matrix), `status`, `repairs`,
    `seconds`, `versions`, `machine`.

    Attributes
    ----------
    swept : list of str
        The keys that are parameters.

    Examples
    --------
    >>> from bionica.circuits import sweep
    >>> data = {"kind": "sparse_uniform", "d": 2, "T": 500, "mixing": "random"}
    >>> networks = [{"name": "StreamingNICA"}]
    >>> table = sweep.run({"seeds": 2, "data": [data], "network": networks}, n_jobs=1)
    >>> len(table), table[0]["network"], table[0]["status"]
    (2, 'StreamingNICA', 'ok')
    """

    def __init__(self, rows: Iterable[Row], swept: list[str]) -> None:
        super().__init__(rows)
        self.swept = swept

    def best(self) -> list[Row]:
        """The best setting of every network on every data: the one with the smallest
        `error` at the end, mean over seeds.
        """
        best: dict[tuple[str, str], Row] = {}
        for row in self.final_errors():
            key = row["data"], row["network"]
            best.setdefault(key, {**row, "settings": 0})["settings"] += 1
        return list(best.values())

    def final_errors(self) -> list[Row]:
        """The error at the end of every setting, over the seeds that did not fail:
        mean, 90 % interval, median and range.

        `geometric_mean`, `_low` and `_high` are as in `curves`.
        `sinr` is the median of the final networks on samples that were held out, or
        None. `error` is the mean, or infinite if a seed failed. The best setting of
        each network is its first.
        """
        finals = []
        # times ascend
        last = {(row["case"], row["data"], row["network"]): row for row in self}
        for head, rows in self._groups(last.values()):
            good = [row for row in rows if row["error"] is not None]
            summary = dict.fromkeys(_FINAL)
            if good:
                errors = np.array([row["error"] for row in good])
                numbers = (
                    *_means(errors),
                    np.median(errors),
                    errors.min(),
                    errors.max(),
                    np.mean([row["last_tenth"] for row in good]),
                )
                summary = dict(zip(_FINAL, map(float, numbers), strict=True))
            scores = [row["sinr"] for row in good if row.get("sinr") is not None]
            head["runs"] = len(rows)
            head["n_samples"] = rows[0]["t"]
            head["failed"] = len(rows) - len(good)
            head |= summary
            head["sinr"] = float(np.median(scores)) if scores else None
            head["error"] = inf if head["failed"] else head["mean"]
            head["seconds"] = float(np.mean([row["seconds"] for row in rows]))
            finals.append(head)
        order = list(dict.fromkeys((row["data"], row["network"]) for row in finals))
        finals.sort(
            key=lambda row: (order.index((row["data"], row["network"])), row["error"])
        )
        return finals

    def curves(self) -> list[Row]:
        """The error of every setting at every time, over the seeds that did not fail,
        in two summaries.

        `mean`, `low` and `high`: mean and 90 % interval, as the paper's text says.
        `geometric_mean`, `_low` and `_high`: geometric mean and one standard deviation
        of the logarithm, as the authors' code draws.
        """
        curves = []
        for head, rows in self._groups(row for row in self if row["error"] is not None):
            times = list(dict.fromkeys(row["t"] for row in rows))
            errors = np.array([row["error"] for row in rows]).reshape(-1, len(times))
            for t, numbers in zip(times, _means(errors).T.tolist(), strict=True):
                means = dict(zip(_MEANS, numbers, strict=True))
                curves.append({**head, "t": t, **means, "runs": len(errors)})
        return curves

    def _groups(self, rows: Iterable[Row]) -> Iterator[tuple[Row, list[Row]]]:
        """The data, network and parameters of each setting, and its rows."""
        groups: dict[tuple[Any, ...], list[Row]] = {}
        names = ("data", "network", *self.swept)
        for row in rows:
            groups.setdefault(tuple(row[name] for name in names), []).append(row)
        for key, members in groups.items():
            yield dict(zip(names, key, strict=True)), members


def _means(errors: np.ndarray) -> np.ndarray:
    """Return `_MEANS` over the first axis.

    The bounds of the 90 % confidence interval of the mean are from the bootstrap:
    positive, for a log axis. 1e-5 is added before the logarithm, as in the authors'
    code: the first errors of a run may be 0.
    """
    n = len(errors)
    logs = np.log(errors + 1e-5)
    counts = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=2000)
    low, high = np.quantile(counts @ errors / n, (0.05, 0.95), axis=0)
    mean = logs.mean(axis=0)
    deviation = logs.std(axis=0)
    geometric = np.exp([mean, mean - deviation, mean + deviation])
    return np.array([errors.mean(axis=0), low, high, *geometric])
