"""Results on disk as they finish: a journal that survives a kill.

The folder of a sweep holds

    plan.json         the plan that ran last, and its digest
    journal.jsonl     a line for each finished case, appended as it finishes
    results.csv       the table: a row for each case and time
    results.parquet   the same, where pyarrow is installed

Each line of the journal ends with a checksum of what stands before it. A damaged line (torn by a kill, changed on disk, without
a checksum) is not used: its case is run again. Nothing is ever removed from the journal; a line {"damaged": n} says that n
damaged lines have been counted. Cases are known by a digest of everything that their results depend on: after a change of the
plan, new cases are run, the others kept.
"""

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from .. import __version__
from ..io import write_atomically
from .cases import Case
from .plan import Plan
from .running_error import ErrorSums, errors_of

#: A longer line is damaged: a result at the most times of a plan takes about 4 MB.
LONGEST_LINE = 2**23
_SEALED = re.compile(rb'(\{.*), "checksum": "([0-9a-f]{16})"\}', re.DOTALL)


@dataclass(frozen=True)
class Outcome:
    """The result of one case, known by its key.

    `status` is "ok", "diverged at sample n", or why it could not run. `error` is that at the times `t`, and `last_tenth` that
    over the last tenth of the samples: None if the case failed or the sources are unknown. `repairs` counts how often guards
    acted, and samples were regularised or did not settle. `device`, `versions` and `machine` say what computed it.

    Examples
    --------
    >>> from bionica.sweep import Outcome
    >>> Outcome("0f3a", "ok", [100, 200], [0.2, 0.1], 0.05, 0, 1.5, "cpu", "bionica 0.1.0", "Linux").is_valid()
    True
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

    def is_valid(self) -> bool:
        """Whether every value has its type, and there is an error for each time."""
        words = (self.case, self.status, self.device, self.versions, self.machine)
        known = self.error is not None
        return (
            all(isinstance(word, str) for word in words)
            and _is_list(self.t, int)
            and (not known or (_is_list(self.error, float) and len(self.error or ()) == len(self.t)))
            and _is_list([self.seconds, *([self.last_tenth] if known else [])], float)
            and (known or self.last_tenth is None)
            and type(self.repairs) is int
            and 0 <= self.repairs < 2**63
        )


def outcome_of(
    case: Case, repairs: int, seconds: float, sums: ErrorSums | None = None, *, status: str = "ok", device: str = "cpu"
) -> Outcome:
    """Return the outcome of a case, without `sums` of one that ended early."""
    error, last = errors_of(sums, case.times) if sums and case.data.d else (None, None)
    return Outcome(case.key, status, list(case.times), error, last, repairs, seconds, device, versions(), machine())


class Journal:
    """The finished cases of a folder, which is made if it does not exist.

    After `read`, `damaged` is the number of damaged lines that have not been counted before.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        self.path = self.folder / "journal.jsonl"
        self.damaged = 0
        self._counted = 0
        self._file: IO[bytes] | None = None

    def read(self, cases: Mapping[str, Case]) -> dict[str, Outcome]:
        """Return the outcomes of those cases that are finished, by their keys."""
        outcomes: dict[str, Outcome] = {}
        found = counted = 0
        for line in self._lines():
            body = unseal(line)
            outcome = _outcome(body)
            if body is not None and type(body.get("damaged")) is int:
                counted = max(counted, body["damaged"])
            elif outcome is None or (outcome.case in cases and outcome.t != list(cases[outcome.case].times)):
                found += 1
            elif outcome.case in cases:
                outcomes[outcome.case] = outcome
        self.damaged, self._counted = max(0, found - counted), found
        return outcomes

    def begin(self, plan: Plan) -> None:
        """Write the plan and open the journal."""
        self.folder.mkdir(parents=True, exist_ok=True)
        body = {"digest": plan.digest, **plan.to_dict()}
        write_atomically(self.folder / "plan.json", (json.dumps(body, indent=1) + "\n").encode())
        self._file = self.path.open("a+b")
        if self._file.tell():
            self._file.seek(-1, os.SEEK_END)
            self._file.write(b"" if self._file.read(1) == b"\n" else b"\n")
        if self.damaged:
            self._write({"damaged": self._counted})

    def add(self, case: Case, outcome: Outcome) -> None:
        """Append a finished case, with its parameters for a human reader."""
        which = {"data": case.data.name, "network": case.network, "params": dict(case.params), "seed": case.seed}
        self._write({**which, **asdict(outcome)})

    def close(self) -> None:
        """Write everything to the disk."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def _write(self, body: Mapping[str, Any]) -> None:
        assert self._file is not None
        self._file.write(seal(body))
        self._file.flush()

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines that are not blank; of a line that is too long, only the beginning."""
        if not self.path.exists():
            return
        if not self.path.is_file():
            raise ValueError(f"{self.path} is not a file: move it away, or give another folder for the results")
        with self.path.open("rb") as file:
            while line := file.readline(LONGEST_LINE):
                rest = line
                while rest and not rest.endswith(b"\n"):
                    rest = file.readline(LONGEST_LINE)
                if line := line.strip():
                    yield line


def seal(body: Mapping[str, Any]) -> bytes:
    """Return a line of the journal: JSON whose last value is a checksum of everything before it."""
    text = json.dumps(body).encode()[:-1]
    return text + b', "checksum": "%s"}\n' % _checksum(text)


def unseal(line: bytes) -> dict[str, Any] | None:
    """Return what a line of the journal says, or None if it is damaged."""
    sealed = _SEALED.fullmatch(line)
    if sealed is None or _checksum(sealed[1]) != sealed[2]:
        return None
    try:
        body: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError):  # a checksum proves nothing if the line was written by hand
        return None
    return body


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:16].encode()


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(type(entry) is kind for entry in value)


def _outcome(body: dict[str, Any] | None) -> Outcome | None:
    names = Outcome.__dataclass_fields__
    if body is None or not names.keys() <= body.keys():
        return None
    outcome = Outcome(**{name: body[name] for name in names})
    return outcome if outcome.is_valid() else None


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
