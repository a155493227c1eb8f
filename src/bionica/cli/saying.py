"""What `bionica separate` says: notes and progress on the way, and at the end what was found."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from .options import Options

__all__ = ["Voice"]


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

    def note(self, message: str) -> None:
        """Say something on the way."""
        if not self.options.quiet:
            typer.echo(message, err=True)

    def track(self, blocks: Iterator[Any], title: str, total: int | None, done: int) -> Iterator[Any]:
        """Yield the blocks; on a terminal, show how far they are and when they end."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(show_speed=True), TimeRemainingColumn(),
        )  # fmt: skip
        off = self.options.quiet or not console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=off) as progress:
            task = progress.add_task(title, total=total, completed=done)
            for block in blocks:
                yield block
                progress.advance(task, len(block))

    def tell(self, network: Any, n: int, block: Any, files: list[Path]) -> None:
        """Say what was found, by some samples of the input; write the report."""
        o = self.options
        found = network.diagnose(block) if len(block) > 1 else None
        k, d = block.shape[1], len(network.components_)
        seconds = time.monotonic() - self.started
        sentences = found.sentences if found else ["one sample is too few to judge by."]
        summary = {
            "sources": d,
            "mixtures": k,
            "samples": n,
            "method": type(network).__name__,
            "seconds": round(seconds, 3),
            "ok": bool(found and found.ok),
            "diagnosis": sentences,
            "negativity": found and found.negativity,
            "output": [str(file) for file in files],
            "model": o.model and str(o.model),
            "report": o.report and str(o.report),
        }
        if o.report is not None:
            from ..io.page import write_page

            write_page(o.report, summary, found, network.transform(block[:: max(1, len(block) // 500)]))
        if o.json:
            typer.echo(json.dumps(summary), err=o.to_pipe)
        elif not o.quiet:
            written = [f"{o.model} (network)"] * bool(o.model) + [f"{o.report} (report)"] * bool(o.report)
            lines = [
                f"{d} {'source' if d == 1 else 'sources'} in {n:,} samples of {k} mixtures ({summary['method']}, {seconds:.1f} s).",
                *(sentence[0].upper() + sentence[1:] for sentence in sentences),
                *([f"Wrote {', '.join([*map(str, files), *written])}"] if files or written else []),
            ]
            typer.echo("\n".join(lines), err=o.to_pipe)
