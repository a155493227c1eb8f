"""The attack: mutated models, files, plans and journals, kills, concurrency; each module is one area."""

from typing import NamedTuple


class Row(NamedTuple):
    area: str
    what: str
    tries: int
    failures: list[str]
    peak_mb: float | None = None
    slowest_s: float | None = None
