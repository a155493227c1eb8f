"""The one place where an exception becomes one line on standard error and an exit status.

Commands end in `Console.session`, which knows their remedies, or else in `OneLineGroup`, which sees everything that no command
foresaw. `bionica --debug COMMAND` prints the traceback before the line.
"""

import errno
import os
import sys
import traceback
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

#: Exit status for an exception that nobody foresaw: a fault of bionica, not of its input (EX_SOFTWARE of sysexits.h).
UNFORESEEN = 70

#: ClickException: typer has no name of its own for it, and may or may not bring its own click.
_USAGE_ERROR: Any = typer.BadParameter.__mro__[2]

_debugging = ContextVar("debugging", default=False)


def fail(message: str, status: int = 1) -> NoReturn:
    """End with one line on standard error and this status; with --debug, after the traceback of what is being handled."""
    with suppress(OSError):  # nobody can be told: the status still says it
        if _debugging.get() and sys.exc_info()[0] is not None:
            typer.echo(traceback.format_exc(), err=True, nl=False)
        typer.echo(f"Error: {' '.join(message.split())}", err=True)
    raise typer.Exit(status) from None


def fail_unforeseen(error: BaseException) -> NoReturn:
    """End with one line about an exception that is a fault of bionica."""
    where = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    remedy = "" if _debugging.get() else "; bionica --debug COMMAND ... shows where it happened"
    fail(f"unforeseen, please report it to the developers: {where[:300]}{remedy}", UNFORESEEN)


def _open_standard_descriptors() -> None:
    """Give 0, 1 and 2 to the null device where they are closed: the next file would get them, and every library's messages."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest descriptor that is free


class OneLineGroup(TyperGroup):
    """The commands. What they do not handle themselves ends in one line."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        _debugging.set(bool(ctx.params.get("debug")))
        _open_standard_descriptors()
        try:
            return super().invoke(ctx)
        except (_USAGE_ERROR, typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            typer.echo("Interrupted", err=True)
            raise typer.Exit(130) from None
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # nobody reads standard output any more: click ends quietly
            fail_unforeseen(error)
