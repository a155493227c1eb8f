"""What `bionica separate` says: notes and progress on the way, and at the end what was found."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .separate_options import Options

if TYPE_CHECKING:
    from ..io import Reader

__all__ = ["Voice", "n_missing"]


class Voice:
    """Speaks to the user of one run; sources on standard output stay alone there.

    Parameters
    ----------
    options : Options
        What the user asked for.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.started = time.monotonic()
        self.remarks: list[str] = []
        self.silent = options.quiet or options.json
        self.told = False

    def progress(self, message: str) -> None:
        """Say what happens now."""
        if not self.silent:
            typer.echo(message, err=True)

    def remark(self, message: str) -> None:
        """Say what the user should know, once; --json has it among its notes."""
        message = " ".join(message.split())
        if message not in self.remarks:
            self.remarks.append(message)
            self.progress(f"Note: {message}")

    def notes(self, reader: "Reader", block: Any = None) -> None:
        """Say how the input was read, and what in it looks like no mixture."""
        for note in reader.notes:
            self.remark(note)
        if block is not None and reader.image_shape is None and (rising := _rising(block)):
            columns = ", ".join(reader.column(j) for j in rising[:5])
            numbers = ",".join(str(reader.kept[j] + 1 if reader.kept else j + 1) for j in rising[:5])
            self.remark(
                f"{reader.name}: {columns} only {'rise' if len(rising) > 1 else 'rises'} from sample to sample; a time or a count "
                f"is no mixture: leave it out with --skip {numbers}"
            )

    def last_words(self, message: str) -> None:
        """Say why the run ends early; after the object of --json, which says so too, nothing."""
        if not (self.options.json and self.told):
            typer.echo(message, err=True)

    def track(self, blocks: Iterator[Any], title: str, total: int | None, done: int) -> Iterator[Any]:
        """Yield the blocks; on a terminal, show how far they are and when they end."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(show_speed=True), TimeRemainingColumn(),
        )  # fmt: skip
        off = self.options.quiet or (self.options.json and self.options.to_pipe) or not console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=off) as progress:
            task = progress.add_task(title, total=total, completed=done)
            for block in blocks:
                yield block
                progress.advance(task, len(block))

    def tell(
        self, network: Any, reader: "Reader", n: int, block: Any, files: list[Path], *, interrupted: bool = False
    ) -> None:
        """Say what was found, by some samples of the input; write the report."""
        o, missing = self.options, n_missing(network)
        found = network.diagnose(block) if len(block) > 1 and not missing else None
        summary = {
            "input": o.inputs,
            "sources": len(network.components_),
            "mixtures": block.shape[1],
            "samples": n,
            "method": type(network).__name__,
            "seconds": round(time.monotonic() - self.started, 3),
            "ok": bool(found and found.ok),
            "diagnosis": _sentences(found, network.n_samples_seen_, missing, bool(o.model)),
            "negativity": found and found.negativity,
            "notes": self.remarks,
            "interrupted": interrupted,
            "output": [str(file) for file in files],
            "model": o.model and str(o.model),
            "report": o.report and str(o.report),
        }
        if o.report is not None:
            _report(o.report, summary, found, network, reader, block)
        self.told = True
        if o.json:
            typer.echo(json.dumps(summary), err=o.to_pipe)
        elif not o.quiet:
            typer.echo(_in_words(summary, files, o), err=o.to_pipe)


def _report(path: Path, summary: dict[str, Any], found: Any, network: Any, reader: "Reader", block: Any) -> None:
    from ..io.images import thumbnails
    from ..report.separation_page import write_page

    Y = network.transform(block[:: max(1, len(block) // 500)])
    if n_missing(network):
        write_page(path, summary, None, 0 * Y)
        return
    images = thumbnails(reader, network.transform) if reader.image_shape and reader.repeatable else None
    names = [reader.column(j) for j in range(block.shape[1])]
    if reader.image_shape:
        names = [f"mixture {j}" for j in range(block.shape[1])]
    write_page(path, summary, found, Y, mixing=network.mixing_, names=names, images=images)


def _in_words(summary: dict[str, Any], files: list[Path], o: Options) -> str:
    written = [*map(str, files)] + [f"{o.model} (network)"] * bool(o.model) + [f"{o.report} (report)"] * bool(o.report)
    d, n, k = (summary[name] for name in ("sources", "samples", "mixtures"))
    lines = [
        f"{d} {'source' if d == 1 else 'sources'} in {n:,} {'sample' if n == 1 else 'samples'} of {k} "
        f"{'mixture' if k == 1 else 'mixtures'} ({summary['method']}, {summary['seconds']:.1f} s).",
        *(sentence[0].upper() + sentence[1:] for sentence in summary["diagnosis"]),
        *([f"Wrote {', '.join(written)}"] if written else []),
    ]
    return "\n".join(lines)


def _sentences(found: Any, seen: int, missing: int, saved: bool) -> list[str]:
    """Return the diagnosis with the names that the command line has for things."""
    if missing:
        return [
            f"the network has not started: {seen} of the {seen + missing} samples that it starts with have come, and every answer "
            f"was zero.{' More samples with --resume go on from here.' if saved else ''}"
        ]
    if found is None:
        return ["one sample is too few to judge by."]
    words = {r"n_components=(\d+)": r"--sources \1", "n_components": "--sources", "BatchNICA": "--method batch"}
    sentences = list(found.sentences)
    for ours, theirs in words.items():
        sentences = [re.sub(ours, theirs, sentence) for sentence in sentences]
    return sentences


def n_missing(network: Any) -> int:
    """Return how many samples a network still waits for before it starts."""
    return int(getattr(network, "n_samples_until_start_", 0))


def _rising(block: Any) -> list[int]:
    """Return the mixtures that rise from each sample to the next, of 20 or more."""
    import numpy as np

    some = block[:: max(1, len(block) // 1000)]
    return np.flatnonzero((np.diff(some, axis=0) > 0).all(axis=0)).tolist() if len(some) >= 20 else []
