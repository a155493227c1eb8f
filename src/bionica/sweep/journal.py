"""Results on disk as they finish: a journal that survives a kill.

The folder of a sweep holds

    plan.json         the plan that ran last, and its digest
    journal.jsonl     a line for each finished case, appended as it finishes
    results.csv       the table: a row for each case and time
    results.parquet   the same, where pyarrow is installed

A line that a kill left incomplete is ignored, and its case is run again. Nothing is ever removed from the journal. Cases are
known by a digest of everything that their results depend on: after a change of the plan, new cases are run, the others kept.
"""

import json
import os
import platform
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import IO

from .. import __version__
from ..io import write_atomically
from .cases import Case
from .plan import Plan
from .running_error import ErrorSums, errors_of


@dataclass(frozen=True)
class Outcome:
    """The result of one case, known by its key.

    `status` is "ok", "diverged at sample n", or why it could not run. `error` is that at the times `t`, and `last_tenth` that
    over the last tenth of the samples: None if the case failed or the sources are unknown. `repairs` counts how often guards
    acted, and samples were regularised or did not settle. `device`, `versions` and `machine` say what computed it.
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


def outcome_of(
    case: Case, repairs: int, seconds: float, sums: ErrorSums | None = None, *, status: str = "ok", device: str = "cpu"
) -> Outcome:
    """Return the outcome of a case, without `sums` of one that ended early."""
    error, last = errors_of(sums, case.times) if sums and case.data.d else (None, None)
    return Outcome(case.key, status, list(case.times), error, last, repairs, seconds, device, versions(), machine())


class Journal:
    """The finished cases of a folder, which is made if it does not exist."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        self.path = self.folder / "journal.jsonl"
        self._file: IO[str] | None = None

    def read(self) -> dict[str, Outcome]:
        """Return every finished case by its key; incomplete lines are skipped."""
        outcomes = {}
        for line in self.path.read_bytes().splitlines() if self.path.exists() else []:
            with suppress(ValueError, KeyError, TypeError):
                body = json.loads(line)
                outcomes[body["case"]] = Outcome(**{name: body[name] for name in Outcome.__dataclass_fields__})
        return outcomes

    def begin(self, plan: Plan) -> None:
        """Write the plan and open the journal."""
        self.folder.mkdir(parents=True, exist_ok=True)
        body = {"digest": plan.digest, **plan.to_dict()}
        write_atomically(self.folder / "plan.json", (json.dumps(body, indent=1) + "\n").encode())
        incomplete = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
        self._file = self.path.open("a", encoding="utf-8")
        self._file.write("\n" if incomplete else "")

    def add(self, case: Case, outcome: Outcome) -> None:
        """Append a finished case, with its parameters for a human reader."""
        assert self._file is not None
        which = {"data": case.data.name, "network": case.network, "params": dict(case.params), "seed": case.seed}
        self._file.write(json.dumps({**which, **asdict(outcome)}) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Write everything to the disk."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()


@lru_cache
def versions() -> str:
    """Versions of what computes."""
    packages = " ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "scikit-learn"))
    return f"bionica {__version__} python {platform.python_version()} {packages}"


@lru_cache
def machine() -> str:
    """The machine in words."""
    from joblib import cpu_count

    processor = platform.processor()
    with suppress(OSError):
        found = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
        processor = found[1] if found else processor
    return f"{platform.system()} {platform.machine()}, {processor}, {cpu_count()} cores"
