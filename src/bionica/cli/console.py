"""Everything that a command says to a person, and how it ends.

Results go to standard output. Progress, notes and errors go to standard error. --quiet
leaves errors only, and --json prints one object in place of everything else. An error
is one line:

    1     the input, a parameter or a file is at fault: BionicaError, OSError,
          MemoryError, and every ValueError, ArithmeticError, ImportError and
          RuntimeError whose innermost frame is in bionica, not in a library that
          bionica called
    70    anything else: a fault of bionica (EX_SOFTWARE of sysexits.h)
    130   Ctrl-C or SIGTERM

`bionica --debug COMMAND` prints the traceback before the line. Messages of the library
name parameters by fields (`errors.Message`), which `as_in_shell` renders.
"""

import json as jsons
import logging
import os
import platform
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial, wraps
from importlib import metadata
from operator import methodcaller
from pathlib import Path
from typing import Any, get_type_hints

import typer
from typer.core import TyperGroup

from bionica.core.errors import (
    BionicaError,
    Message,
    as_in_python,
    message_of,
    printable,
)
from bionica.core.files import is_disk_full
from bionica.io.reader import log_records

_Talk = partial(typer.Option, rich_help_panel="What is printed and replaced")
FORCE = _Talk(False, "--force", help="Replace files that exist.")
JSON = _Talk(
    False, "--json", help="Print one line of JSON in place of everything else."
)
QUIET = _Talk(False, "--quiet", "-q", help="Print nothing but errors.")

#: ClickException: typer has no name of its own for it, and may or may not bring its own
#: click.
_USAGE_ERROR: Any = typer.BadParameter.__mro__[2]

#: Parameters of the library -> options, and keys of its remedies -> sentences.
OPTIONS = {
    "n_components": "--sources",
    "n_components=None": "--sources auto",
    "n_features": "",
    "known_mixing": "--known",
    "horizon": "--horizon",
    "axis": "--axis",
    "dataset": "--dataset",
    "use": "--use",
    "skip": "--skip",
    "skip_lines": "--skip-lines",
    "decimal": "--decimal",
    "encoding": "--encoding",
    "header=True": "--header",
    "header=False": "--no-header",
    "optical_density=True": "--optical-density",
    "saturated": "--saturated",
    "offset": "--offset",
    "output": "--output",
    "force=True": "--force",
}
REMEDIES = {
    "transpose": "pass --axis 1",
    "candidates": "compare the fits with each number (in the page of --report)",
    "cone": "use --method cone if sources are correlated",
    "walls": "use --method cone, without --signed-mixing",
    "saturated": (
        "pass --skip with these mixtures, or --saturated LEVEL if all mixtures have "
        "this ceiling"
    ),
    "known": "give spectra that you know as --known FILE",
    "omit": "pass --skip with these mixtures",
    "estimate": "--method cone or batch estimates it if it is empty",
}


def as_in_shell(name: str, text: str) -> str:
    """Return a parameter as an option, or a remedy by its key: `errors.Message`."""
    if text and not text.startswith("="):
        sentence = REMEDIES.get(name, text)
        return sentence[0].upper() + sentence[1:] if text[0].isupper() else sentence
    if name + text in OPTIONS or name not in OPTIONS:
        return OPTIONS.get(name + text) or as_in_python(name, text)
    return f"{OPTIONS[name]} {text[1:]}".strip()


def one_line(text: str) -> str:
    """Return text in one line, with options for parameters."""
    if isinstance(text, Message):
        text = text.render(as_in_shell)
    return " ".join(printable(text).split())


def counted(n: int, noun: str) -> str:
    """Return a number and its noun, which is given in the plural."""
    return f"{n:,} {noun.removesuffix('s') if n == 1 else noun}"


def explain(error: Exception) -> tuple[str, int]:
    """Return what to say about an error, and the exit status."""
    if isinstance(error, MemoryError):
        return (
            "out of memory: use smaller data or fewer processes; very many mixtures "
            "may be samples (--axis)"
        ), 1
    if isinstance(error, OSError):
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        if is_disk_full(error):
            text = (
                f"the disk is full ({error.strerror}): free some space, or write "
                "elsewhere; nothing was left"
            )
        return text, 1
    kinds = (ValueError, ArithmeticError, ImportError, RuntimeError)
    # Not that of a library that was called with wrong arguments.
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    is_ours = str(frame.f_globals.get("__name__")).startswith("bionica.")
    if isinstance(error, BionicaError) or (is_ours and isinstance(error, kinds)):
        return message_of(error), 1
    what = f"{type(error).__name__}: {error}"
    return f"unforeseen, please report it to the developers: {what}"[:400], 70


def command(cls: Any) -> Callable[..., None]:
    """Return a command whose options are the fields of a dataclass, which it runs."""

    @wraps(cls)
    def run(**given: Any) -> None:
        cls(**given).run()

    run.__annotations__ = get_type_hints(cls, include_extras=True)
    return run


def _flags_without_type(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = " "
    return parameters


def _open_standard_streams() -> None:
    """Connect those that are closed to nothing.

    Otherwise the next file gets a closed one, and the messages of libraries go there.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest descriptor that is free


class OneLineGroup(TyperGroup):
    """The commands. What they do not handle themselves ends in one line."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options."""
        return _flags_without_type(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command."""
        command = super().get_command(ctx, cmd_name)
        if command:
            _flags_without_type(command.get_params(ctx))
        return command

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        _open_standard_streams()
        try:
            return super().invoke(ctx)
        except (_USAGE_ERROR, typer.Exit, typer.Abort, BrokenPipeError):
            raise  # if standard output is closed, click ends quietly
        except KeyboardInterrupt:
            typer.echo("Interrupted", err=True)
            raise typer.Exit(130) from None
        except Exception as error:
            message, status = explain(error)
            with suppress(OSError):  # standard error is closed
                if ctx.params.get("debug"):
                    typer.echo(traceback.format_exc(), err=True, nl=False)
                elif status == 70:
                    message += "; bionica --debug COMMAND ... shows where it happened"
                typer.echo(f"Error: {one_line(message)}", err=True)
            raise typer.Exit(status) from None


class Console:
    """Output of one command. With `data_on_stdout` results go to standard error;
    `notes` holds all notes, for --json.
    """

    def __init__(
        self, *, json: bool = False, quiet: bool = False, data_on_stdout: bool = False
    ) -> None:
        self.json = json
        self.quiet = quiet
        self.data_on_stdout = data_on_stdout
        self.silent = json or quiet  # nothing but errors and the result is printed
        self.notes: list[str] = []

    def say(self, message: str) -> None:
        """Say what happens now."""
        if not self.silent:
            typer.echo(one_line(message), err=True)

    def note(self, *messages: str) -> None:
        """Say things that the user should know, each once."""
        for message in map(one_line, messages):
            if message not in self.notes:
                self.notes.append(message)
                self.say(f"Note: {message}")

    def note_input(self, reader: Any) -> None:
        """Note what a reader left out, or took for a header."""
        self.note(*(Message("{}: {}", reader.name, note) for note in reader.notes))

    def result(self, lines: Iterable[str], data: Any) -> None:
        """Print the result: `lines`, or with --json `data` as one line."""
        text = "\n".join(map(one_line, lines))
        if self.json:  # JSON has no NaN and no infinity
            text = jsons.dumps(data, default=methodcaller("tolist"))
            text = jsons.dumps(jsons.loads(text, parse_constant=lambda _: None))
        if self.json or not self.quiet:
            typer.echo(text, err=self.data_on_stdout)

    @contextmanager
    def progress(self, title: str, total: float) -> Iterator[Callable[..., None]]:
        """Show a progress bar if standard error is a terminal. Yields the function
        `advance(n, status="")`.
        """
        from rich.console import Console as Terminal
        from rich.progress import Progress

        terminal = Terminal(stderr=True)
        with Progress(
            console=terminal,
            transient=True,
            disable=self.silent or not terminal.is_terminal,
        ) as bar:
            task = bar.add_task(title, total=total)
            yield lambda n, status="": bar.update(
                task, advance=n, description=f"{title} {status}"
            )

    @contextmanager
    def session(self, *, interrupted: str) -> Iterator[None]:
        """Run a command: show warnings and log records, and say `interrupted` after
        Ctrl-C or SIGTERM.
        """

        def show(record: logging.LogRecord) -> None:  # that a loop is compiled, ...
            say = self.note if record.levelno >= logging.WARNING else self.say
            say(record.getMessage())

        interrupt = signal.getsignal(signal.SIGINT)
        before = _handle(
            {signal.SIGINT: interrupt, signal.SIGTERM: signal.default_int_handler}
        )
        try:
            with warnings.catch_warnings(), log_records("bionica", logging.INFO, show):
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = lambda message, *_, **__: self.note(
                    message_of(message)
                )
                yield
        except KeyboardInterrupt as stop:
            typer.echo(str(stop) or interrupted, err=True)
            raise typer.Exit(130) from None
        finally:
            _handle(before)


def _handle(handlers: dict[Any, Any]) -> dict[Any, Any]:
    """Set the handlers of signals, and return those before."""
    with suppress(ValueError):  # only the main thread may
        return {number: signal.signal(number, do) for number, do in handlers.items()}
    return {}


@contextmanager
def ignore_broken_pipe() -> Iterator[None]:
    """Stop writing without an error when the reader of standard output has gone, as in
    `| head`.
    """
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class StandardInput:
    """Standard input. Ctrl-C and SIGTERM always end a read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._descriptor = None
        self._interrupted = False
        with suppress(OSError):  # it has no descriptor
            self._descriptor = stream.fileno() if os.name == "posix" else None

    def defer_interrupts(self) -> None:
        """From now on let the next read raise KeyboardInterrupt, so that what was read
        before is answered.

        A second signal interrupts at once. `Console.session` restores the handlers of
        signals.
        """
        _handle(dict.fromkeys((signal.SIGINT, signal.SIGTERM), self._interrupt))

    def _interrupt(self, *_: Any) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True

    def read(self, n: int) -> bytes:
        """Return what is there, at most n bytes; wait if there is nothing."""
        while not self._interrupted:
            if self._descriptor is None:
                return bytes(getattr(self._stream, "read1", self._stream.read)(n))
            # not for ever: a signal is not always seen by a read
            if select.select([self._descriptor], [], [], 0.5)[0]:
                return os.read(self._descriptor, n)
        raise KeyboardInterrupt


#: Packages whose versions `bionica --version` prints.
_PACKAGES = {
    "required": ("numpy", "scipy", "scikit-learn", "numba", "typer", "rich"),
    "bionica[plot]": ("matplotlib", "scikit-image"),
    "bionica[io]": (
        "h5py",
        "zarr",
        "pyarrow",
        "pillow",
        "tifffile",
        "openpyxl",
        "defusedxml",
    ),
    "bionica[dask]": ("dask", "distributed"),
}


def versions() -> str:
    """Return the versions of what matters, and where compiled loops are cached."""
    from bionica import __version__, engine

    lines = [
        f"bionica {__version__}",
        f"python {platform.python_version()} on {platform.platform()}",
    ]
    for extra, names in _PACKAGES.items():
        found = ", ".join(f"{name} {_version_of(name)}" for name in names)
        lines.append(f"{extra}: {found}")
    beside = Path(engine.__file__).parent / "__pycache__"
    cache = Path(os.environ.get("NUMBA_CACHE_DIR") or beside)
    line = f"compiled loops: {cache}"
    if not os.access(cache if cache.exists() else cache.parent, os.W_OK):
        line += (
            " cannot be written to, so processes may compile again: set NUMBA_CACHE_DIR"
        )
    return "\n".join([*lines, line])


def _version_of(name: str) -> str:
    """Return the version of the package that is imported, the first on the path."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return "missing"
