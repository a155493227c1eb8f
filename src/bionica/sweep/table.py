"""Results of a sweep: outcomes as they come, a journal that survives a kill, and the tidy table.

The folder of a sweep holds

    plan.json         the plan that ran last, and its digest
    journal.jsonl     a line for each finished case, appended as it finishes
    results.csv       the table: a row for each case and time
    results.parquet   the same, where pyarrow is installed

A line of the journal that a kill left torn is no result: its case is run again. Nothing is ever removed from the journal. Cases are
known by a digest of all that their results depend on, so a plan that changed runs what is new in it and keeps the rest.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from math import inf, isfinite
from pathlib import Path
from typing import IO, Any, overload

from ..io import write_atomically
from ..io.tables import Row, write_table
from .errors import Score, errors_of
from .plan import Case, Plan
from .provenance import machine, versions

__all__ = ["Journal", "Outcome", "Table", "failed", "finished", "make_table"]


@dataclass(frozen=True)
class Outcome:
    """What one case left.

    Attributes
    ----------
    case : str
        Key of the case.
    status : str
        "ok", "diverged at sample n", or why it could not run.
    t : list of int
        The times of the plan.
    error : list of float or None
        The error at these times; None where it failed or nobody knows the sources.
    last_tenth : float or None
        The error of the last tenth of the samples.
    repairs : int
        How often guards acted, and samples were regularised or did not settle.
    seconds : float
        What it took.
    device, versions, machine : str
        What computed it.
    """

    case: str
    status: str
    t: list[int]
    error: list[float] | None
    last_tenth: float | None
    repairs: int
    seconds: float
    device: str
    versions: str
    machine: str


def finished(case: Case, score: Score, repairs: int, seconds: float, device: str) -> Outcome:
    """Return the outcome of a case that went through all its samples."""
    error, last = errors_of(score, case.times) if case.data.d else (None, None)
    return Outcome(case.key, "ok", list(case.times), error, last, repairs, seconds, device, versions(), machine())


def failed(case: Case, status: str, repairs: int, seconds: float, device: str) -> Outcome:
    """Return the outcome of a case that ended before."""
    return Outcome(case.key, status, list(case.times), None, None, repairs, seconds, device, versions(), machine())


class Journal:
    """The finished cases of a folder, appended to as they come.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        self.path = self.folder / "journal.jsonl"
        self._file: IO[bytes] | None = None

    def read(self) -> dict[str, Outcome]:
        """Every finished case by its key; a torn line is none."""
        outcomes = {}
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return {}
        for line in lines:
            try:
                body = json.loads(line)
                outcome = Outcome(**{name: body[name] for name in Outcome.__dataclass_fields__})
            except (ValueError, KeyError, TypeError):
                continue
            outcomes[outcome.case] = outcome
        return outcomes

    def begin(self, plan: Plan) -> None:
        """Note the plan and open the journal."""
        self.folder.mkdir(parents=True, exist_ok=True)
        body = {"digest": plan.digest, **plan.to_dict()}
        write_atomically(self.folder / "plan.json", (json.dumps(body, indent=1) + "\n").encode())
        self._file = self.path.open("ab")
        if self._file.tell() and not self.path.read_bytes().endswith(b"\n"):
            self._write(b"\n")  # after a torn line

    def add(self, case: Case, outcome: Outcome) -> None:
        """Append a finished case, with what a reader would want to know of it."""
        which = {"data": case.data.name, "network": case.network, "params": dict(case.params), "seed": case.seed}
        self._write((json.dumps({**which, **asdict(outcome)}) + "\n").encode())

    def close(self) -> None:
        """Put everything on the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        self._file.write(line)
        self._file.flush()


@dataclass(frozen=True)
class Table(Sequence[Row]):
    """The tidy table of a sweep: a row for each case and time.

    Attributes
    ----------
    rows : list of dict
        Columns are `plan`, `case`, `data`, `network` (the label), the parameters that the plan names, `seed`, `dtype`, `t`,
        `error` (the paper's, to time t), and of the whole run `last_tenth`, `status`, `repairs`, `seconds`, `device`, `versions`,
        `machine`.
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
        """Mean final error of every setting over its seeds, infinite where one failed, the best of each network first."""
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in self._last():
            groups.setdefault((row["data"], row["network"], *(row[name] for name in self.swept)), []).append(row)
        means = []
        for rows in groups.values():
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
        """The best setting of every network on every data: that with the least `error` after the last sample, mean over seeds.

        `error` is the permutation error over all samples from the first on; `last_tenth` that over the last tenth of them.
        """
        found: dict[tuple[str, str], Row] = {}
        for row in self.settings():
            first = found.setdefault((row["data"], row["network"]), {**row, "settings": 0})
            first["settings"] += 1
        return list(found.values())

    def _last(self) -> Iterator[Row]:
        last: dict[str, Row] = {row["case"]: row for row in self.rows}  # times ascend
        yield from last.values()


def make_table(plan: Plan, outcomes: Callable[[str], Outcome | None]) -> Table:
    """Join the cases of a plan with what is known of them; a case that has not run has no row."""
    rows = []
    digest, swept = plan.digest, plan.swept
    for case in plan.cases():
        outcome = outcomes(case.key)
        if outcome is None:
            continue
        head: Row = {"plan": digest, "case": case.key, "data": case.data.name, "network": case.label}
        head |= {name: case.value(name) for name in swept}
        head |= {"seed": case.seed, "dtype": case.dtype}
        names = ("last_tenth", "status", "repairs", "seconds", "device", "versions", "machine")
        tail = {name: getattr(outcome, name) for name in names}
        errors: Sequence[float | None] = outcome.error or [None] * len(outcome.t)
        rows += [{**head, "t": t, "error": error, **tail} for t, error in zip(outcome.t, errors, strict=True)]
    return Table(rows, swept)


def _kind(value: Any) -> str:
    """What a cell holds, as Parquet tells it: numbers of both kinds can share a column."""
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
