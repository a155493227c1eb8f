"""The command line. Packages that are slow to import are imported inside functions."""

from typing import Annotated

import typer

from bionica.cli.application import apply
from bionica.cli.circuits import demo, reproduce, sweep
from bionica.cli.console import OneLineGroup, versions
from bionica.cli.separation import separate

app = typer.Typer(
    cls=OneLineGroup, no_args_is_help=True, pretty_exceptions_enable=False
)
_STATUS = (
    "Exit status: 0 done, 1 the input or a file is at fault, 2 wrong usage, 70 a fault "
    "of bionica, 130 interrupted."
)
for command in (separate, apply, demo, reproduce, sweep):
    app.command(epilog=_STATUS)(command)


def _print_versions(is_asked: bool) -> None:
    if is_asked:
        typer.echo(versions())
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_versions,
            is_eager=True,
            help="Print versions, and where the cache is.",
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show the traceback of an error before its line."),
    ] = False,
) -> None:
    """Find nonnegative sources in mixtures: spectra, images, tables and streams of
    numbers.
    """
