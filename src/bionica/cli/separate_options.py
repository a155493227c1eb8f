"""What a user can ask of `bionica separate`."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

__all__ = ["CLASSES", "Method", "Options", "Raw"]


class Method(StrEnum):
    """The networks by the names that the command line has for them."""

    two_compartment = "two-compartment"
    interneuron = "interneuron"
    nsm = "nsm"
    npca = "npca"
    batch = "batch"


class Raw(StrEnum):
    """Types of raw numbers in a pipe."""

    float64 = "float64"
    float32 = "float32"


CLASSES = {
    Method.two_compartment: "TwoCompartmentNICA",
    Method.interneuron: "InterneuronNICA",
    Method.nsm: "TwoLayerNSM",
    Method.npca: "NonnegativePCA",
    Method.batch: "BatchNICA",
}


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    inputs: list[str]
    output: str | None
    n_sources: int | None
    method: Method
    axis: int | None
    dataset: str | None
    columns: int | None
    use: str | None
    skip: str | None
    dtype: Raw
    epochs: int
    follow: bool
    model: Path | None
    resume: bool
    checkpoint: float
    seed: int
    report: Path | None
    force: bool
    json: bool
    quiet: bool

    @property
    def piped(self) -> bool:
        """Whether the mixtures come from standard input."""
        return self.inputs == ["-"]

    @property
    def streaming(self) -> bool:
        """Whether sources leave as mixtures come."""
        return self.piped or self.follow

    @property
    def to_pipe(self) -> bool:
        """Whether the sources go to standard output."""
        return self.output == "-" or (self.streaming and self.output is None)
