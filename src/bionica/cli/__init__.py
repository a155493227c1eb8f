"""The command line: one module for each command.

Packages that are slow to import are imported inside the functions.
"""

from typing import Annotated

import typer

from bionica import __version__
from bionica.cli.apply import apply
from bionica.cli.console import OneLineGroup
from bionica.cli.demo import demo
from bionica.cli.doctor import doctor
from bionica.cli.reproduce import reproduce
from bionica.cli.separate import separate
from bionica.cli.sweep import sweep

app = typer.Typer(
    cls=OneLineGroup, no_args_is_help=True, pretty_exceptions_enable=False
)
_STATUS = (
    "Exit status: 0 done, 1 the input or a file is at fault, 2 wrong usage, 70 a fault"
    " of bionica, 130 interrupted."
)
for command in (separate, apply, demo, reproduce, sweep, doctor):
    app.command(epilog=_STATUS)(command)


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show the traceback of an error before its line."),
    ] = False,
) -> None:
    """Find nonnegative sources in mixtures: spectra, images, tables and streams of
    numbers.
    """
    if version or context.invoked_subcommand is None:
        typer.echo(__version__ if version else context.get_help())
        raise typer.Exit
