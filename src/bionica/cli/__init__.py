"""The command line: one module for each command. Packages that are slow to import are imported inside the functions."""

from typing import Annotated

import typer

from .. import __version__
from .demo import demo
from .doctor import doctor
from .console import OneLineGroup
from .reproduce import reproduce
from .separate import separate
from .sweep import sweep

app = typer.Typer(
    cls=OneLineGroup,
    help="Separate nonnegative sources from a stream of mixtures.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
for command in (demo, doctor, reproduce, separate, sweep):
    app.command()(command)


def _version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error before its line.")] = False,
) -> None:
    """Separate nonnegative sources from a stream of mixtures."""
