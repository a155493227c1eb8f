"""What is measured, in which sizes, and the tables that come out."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A measured table.

    Attributes
    ----------
    name : str
        Of its files.
    title, note : str
        What it is, and how to read it.
    heads : dict
        Keys of the rows that are shown -> headings.
    rows : list of dict
        Every one with the same keys; None where there is nothing to measure.
    """

    name: str
    title: str
    note: str
    heads: dict[str, str]
    rows: list[Row] = field(default_factory=list)

    def cells(self) -> list[list[str]]:
        """The rows in words."""
        return [[_word(row[key]) for key in self.heads] for row in self.rows]

    def markdown(self) -> str:
        """Title, note and table."""
        lines = [f"## {self.title}", "", self.note, "", f"| {' | '.join(self.heads.values())} |"]
        lines += ["|" + "---|" * len(self.heads)]
        return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in self.cells())]) + "\n"


def _word(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def verdict(value: float | None, sign: str, limit: float, unit: str) -> str:
    """A target beside what was measured.

    Examples
    --------
    >>> verdict(1.2, "<=", 1.3, "x C++"), verdict(70.0, ">=", 80, "x NumPy")
    ('<= 1.3 x C++: met', '>= 80 x NumPy: MISSED')
    """
    if value is None:
        return ""
    met = value <= limit if sign == "<=" else value >= limit
    return f"{sign} {limit:g} {unit}: {'met' if met else 'MISSED'}"


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes
    ----------
    samples : dict
        d -> samples of the compiled networks and of those in NumPy.
    rounds : int
        Of which the best counts.
    peers : tuple of int
        d and number of samples.
    d, k : tuple of int
        Where growth is measured.
    n_values : float
        Of the multiplications of a growth measurement at one d or k; sets its number of samples.
    T : int
        The longest stream.
    own : bool
        Whether loops for the size at hand are compiled and measured too.
    """

    samples: dict[int, tuple[int, int]]
    rounds: int
    peers: tuple[int, int]
    d: tuple[int, ...]
    k: tuple[int, ...]
    n_values: float
    T: int
    own: bool = True


FULL = Sizes(
    samples={3: (400_000, 4000), 10: (100_000, 3000), 50: (4000, 300), 200: (600, 40)},
    rounds=7,
    peers=(10, 100_000),
    d=(3, 5, 10, 20, 50, 100, 200),
    k=(10, 100, 1000, 10_000, 100_000),
    n_values=2e7,
    T=10**7,
)
QUICK = Sizes(
    samples={3: (50_000, 1000), 10: (20_000, 500), 50: (1000, 60)},
    rounds=2,
    peers=(10, 20_000),
    d=(3, 10, 50),
    k=(10, 100, 1000),
    n_values=2e6,
    T=10**6,
)


def tables(sizes: Sizes) -> Iterator[Table]:
    """Measure with one thread, and yield each table as it is there."""
    from .growth import growth
    from .peers import peers
    from .speed import speed
    from .timing import one_thread

    with one_thread():
        for measure in (speed, peers, growth):
            yield measure(sizes)
