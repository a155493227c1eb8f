"""Everything that a command says to a person, and how it ends.

Results go to standard output. Progress, notes and errors go to standard error. --quiet leaves errors only, and --json
prints one object in place of everything else. An error is one line and exit status 1 (see `errors`); Ctrl-C and SIGTERM end
with status 130.
"""

import json as jsons
import logging
import math
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from .errors import fail


class Console:
    """Speaks for one command. With `data_on_stdout` results go to standard error; `notes` holds all notes, for --json.

    `rephrase` turns a warning or an error of the estimators into the words of the command; those of files are in its words already.
    """

    def __init__(
        self,
        *,
        json: bool = False,
        quiet: bool = False,
        data_on_stdout: bool = False,
        rephrase: Callable[[str], str] = str,
    ) -> None:
        self.json, self.quiet, self.data_on_stdout, self.rephrase = json, quiet, data_on_stdout, rephrase
        self.notes: list[str] = []
        self._finished = False

    @property
    def silent(self) -> bool:
        """Whether nothing but errors and the result is printed."""
        return self.json or self.quiet

    def say(self, message: str) -> None:
        """Say what happens now."""
        if not self.silent:
            typer.echo(message, err=True)

    def note(self, message: str) -> None:
        """Say something that the user should know, once."""
        message = " ".join(message.split())
        if message not in self.notes:
            self.notes.append(message)
            self.say(f"Note: {message}")

    def result(self, lines: Iterable[str], data: Any) -> None:
        """Print the result: `lines`, or with --json `data` as one line."""
        self._finished = True
        if self.json:
            typer.echo(jsons.dumps(_finite(data)), err=self.data_on_stdout)
        elif not self.quiet:
            typer.echo("\n".join(lines), err=self.data_on_stdout)

    def interrupted(self, message: str) -> NoReturn:
        """End with status 130. After the object of --json, which says so too, nothing is printed."""
        if not (self.json and self._finished):
            typer.echo(message, err=True)
        raise typer.Exit(130)

    @contextmanager
    def progress(
        self, title: str, total: int | None, done: int = 0, *, transient: bool = True
    ) -> Iterator[Callable[..., None]]:
        """Show a progress bar if standard error is a terminal. Yields the function `advance(n, status="")`."""
        from rich.console import Console as Terminal
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        terminal = Terminal(stderr=True)
        columns = (
            TextColumn("{task.description}"), BarColumn(bar_width=20), TaskProgressColumn(),
            TextColumn("{task.fields[status]}"), TimeRemainingColumn(),
        )  # fmt: skip
        off = self.silent or not terminal.is_terminal
        with Progress(*columns, console=terminal, transient=transient, disable=off) as bar:
            task = bar.add_task(title, total=total, completed=done, status="")

            def advance(n: int, status: str = "") -> None:
                bar.update(task, advance=n, status=status)

            yield advance

    def track(self, blocks: Iterator[Any], title: str, total: int | None, done: int = 0) -> Iterator[Any]:
        """Yield blocks of samples while a progress bar counts them."""
        with self.progress(title, total, done) as advance:
            for block in blocks:
                yield block
                advance(len(block))

    @contextmanager
    def session(
        self,
        *,
        interrupted: str,
        disk_full: str = "free some space",
        out_of_memory: str = "use smaller data, or fewer processes",
        expected: tuple[type[Exception], ...] = (),
    ) -> Iterator[None]:
        """Run a command: show warnings and log records, and end with one line rather than with a traceback.

        `interrupted` is said after Ctrl-C or SIGTERM, `disk_full` and `out_of_memory` are the remedies, and `expected` are
        exceptions whose message is meant for the user, beside OSError, ValueError and ImportError.
        """
        from ..io import InputError, OutputError, is_disk_full

        expected = (ValueError, ImportError, *expected)

        try:
            with sigterm_as_interrupt(), warnings.catch_warnings(), self._show_log():
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = lambda message, *_, **__: self.note(self.rephrase(str(message)))
                yield
        except KeyboardInterrupt:
            self.interrupted(interrupted)
        except OSError as error:
            if is_disk_full(error):
                fail(f"the disk is full ({error.strerror}): {disk_full}")
            fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except MemoryError:
            fail(f"out of memory: {out_of_memory}")
        except (InputError, OutputError) as error:
            fail(str(error))
        except expected as error:
            fail(self.rephrase(str(error)))

    @contextmanager
    def _show_log(self) -> Iterator[None]:
        """Show what the library logs, for example that it compiles a loop."""

        def emit(record: logging.LogRecord) -> None:
            (self.note if record.levelno >= logging.WARNING else self.say)(record.getMessage())

        logger, handler = logging.getLogger("bionica"), logging.Handler(logging.INFO)
        handler.emit = emit  # type: ignore[method-assign]
        before = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.level, logger.propagate = before


def _finite(data: Any) -> Any:
    """Return data with None in place of NaN and infinity, which JSON does not have."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM, as on Ctrl-C."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread
        before = None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Finish what is inside before KeyboardInterrupt is raised; a second Ctrl-C or SIGTERM is raised at once."""
    pending: list[int] = []

    def defer(number: int, frame: Any) -> None:
        if pending:
            raise KeyboardInterrupt
        pending.append(number)

    try:
        before = {number: signal.signal(number, defer) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if pending:
        raise KeyboardInterrupt


@contextmanager
def ignore_broken_pipe() -> Iterator[None]:
    """Stop writing without an error when the reader of standard output has gone, as in `| head`."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
