"""`bionica bench`: how fast the networks are on this machine, beside others."""

from __future__ import annotations

import json as jsons
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from ..bench import Table

LONG = 10**9


def bench(
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Smaller sizes: half a minute, the first time one or two more for compiling."),
    ] = False,
    long: Annotated[bool, typer.Option("--long", help="A stream of 10^9 samples: some minutes more.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for speed.md, the tables and the figure of growth.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Measure the networks on this machine, beside C++, NumPy, FastICA, Picard and MiniBatchNMF in the same process.

    One thread. What is not installed (a C++ compiler, quadprog, python-picard) is left out or replaced, and the table says so.

    For example:

    bionica bench --quick

    bionica bench --long -o results

    Exit status: 0 done, whether targets are met or not; 1 an error, said in one line; 2 wrong usage; 130 interrupted.
    """
    try:
        found = _measure(quick, long, output, json, quiet)
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(130) from None
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (ImportError, ValueError) as error:
        _fail(str(error))
    if json and not quiet:
        typer.echo(jsons.dumps(found))


def _fail(message: str) -> NoReturn:
    typer.echo(f"Error: {' '.join(message.split())}", err=True)
    raise typer.Exit(1)


def _measure(quick: bool, long: bool, output: Path | None, json: bool, quiet: bool) -> dict[str, Any]:
    from dataclasses import replace

    from .. import bench as benchmarks

    sizes = benchmarks.QUICK if quick else benchmarks.FULL
    if long:
        sizes = replace(sizes, T=LONG)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)  # before the minutes, not after
    silent = json or quiet
    if not silent:
        typer.echo(f"{setting()}\n")
    done = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # streams too short to learn from are long enough to be timed
        for table in benchmarks.tables(sizes):
            done.append(table)
            if not silent:
                _show(table)
    files = (
        [] if output is None else write_results(output, done, "bionica bench" + " --quick" * quick + " --long" * long)
    )
    if files and not silent:
        typer.echo(f"Wrote {', '.join(map(str, files))}")
    return {"setting": setting(), "tables": {table.name: table.rows for table in done}, "output": [*map(str, files)]}


def setting() -> str:
    """Machine and versions in a line."""
    from ..sweep.provenance import machine, versions

    return f"{machine()}; {versions()}"


def _show(table: Table) -> None:
    """Print a table: drawn on a terminal, as markdown elsewhere."""
    from rich.console import Console
    from rich.table import Table as Drawn

    console = Console()
    if not console.is_terminal:
        typer.echo(table.markdown())
        return
    drawn = Drawn(title=table.title, caption=table.note, title_justify="left", caption_justify="left")
    for key, head in table.heads.items():
        numbers = any(isinstance(row[key], int | float) for row in table.rows)
        drawn.add_column(head, justify="right" if numbers else "left")
    for cells in table.cells():
        drawn.add_row(*cells)
    console.print(drawn)


def write_results(folder: Path, tables: Sequence[Table], command: str) -> list[Path]:
    """Write speed.md, every table as .csv (and .parquet), and the figure of growth where Matplotlib is installed."""
    from importlib.util import find_spec

    from ..io.tables import write_atomically, write_table

    files = [folder / "speed.md"]
    text = "\n".join([f"# Speed\n\n`{command}`\n\n{setting()}.\n", *(table.markdown() for table in tables)])
    if find_spec("matplotlib") is not None:
        from ..report import figure_bytes, growth_figure

        figure = growth_figure(next(table.rows for table in tables if table.name == "growth"))
        for kind in ("svg", "png"):
            files.append(folder / f"growth.{kind}")
            write_atomically(files[-1], figure_bytes(figure, kind))
        text += "\n![Cost of a sample against d, k and T](growth.svg)\n"
    write_atomically(files[0], text.encode())
    for table in tables:
        files += write_table(folder / table.name, table.rows)
    return files
