"""`bionica reproduce`: the paper's experiments, and a report that sets them beside its statements."""

from __future__ import annotations

import json as jsons
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from ..paper import Reproduction, Result, Task
    from .reproduce_files import Written

#: Seconds between the lines that say how far it is, where there is no terminal.
_LINES = 30.0


class Target(StrEnum):
    """What to reproduce."""

    figure1 = "figure1"
    figure4 = "figure4"
    figure5 = "figure5"
    table1 = "table1"
    all = "all"


def reproduce(
    target: Annotated[
        Target, typer.Argument(help="figure1 brings the network diagrams, figures 2 and 3, along.")
    ] = Target.all,
    runs: Annotated[int, typer.Option(min=1, help="Runs of every network; at most 5 of a setting of table1.")] = 10,
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0: one for each core.")] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")] = Path("results"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first run; run i has seed + i.")] = 0,
    with_defaults: Annotated[
        bool,
        typer.Option(
            "--with-defaults",
            help="Add our untuned networks, BatchNICA, FastICA, the correlation floor; on images, the authors' code's settings.",
        ),
    ] = False,
    images: Annotated[
        Path | None, typer.Option(help="Three images: a folder or sources.npy; else CC0 images of scikit-image.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="table1 for d = 10 and the images too (a quarter of an hour more).")
    ] = False,
    samples: Annotated[int, typer.Option(min=10, help="Samples of a run on synthetic sources.")] = 100_000,
    force: Annotated[bool, typer.Option("--force", help="Run again what is finished already.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print files, errors, claims and failures as JSON.")] = False,
) -> None:
    """Run the paper's experiments, draw its figures and set the results beside its statements.

    Finished runs are kept under OUTPUT/runs: a second call goes on where the first one stopped.

    Examples: `bionica reproduce`, `bionica reproduce figure4 --with-defaults`, `bionica reproduce figure5 --images photos/`

    Exit codes: 0 done; 1 something failed, said in one line; 2 wrong usage; 130 interrupted.
    """
    started = time.perf_counter()
    options = {"runs": runs, "seed": seed, "n_samples": samples, "with_defaults": with_defaults, "full": full}
    with _one_line_errors(output, force):
        config = _configuration(target, options, images)
        _check_folder(output)
        results, ran = _results(config, output, jobs, force)
        seconds = time.perf_counter() - started
        from .reproduce_files import write_files

        written = write_files(config, results, output, "" if target is Target.all else target.value)
    if json:
        typer.echo(jsons.dumps(_findings(target, results, ran, seconds, written), allow_nan=False))
        return
    rest = "" if ran == len(results) else "; the others were there already"
    typer.echo(f"{ran:,} of {len(results):,} runs in {seconds:.1f} s{rest}")
    typer.echo(f"Look at {written.page}")


def _configuration(target: Target, options: dict[str, Any], images: Path | None) -> Reproduction:
    """What to run; everything that can be wrong is found before the first run."""
    from importlib.util import find_spec

    from .. import paper as experiments

    if find_spec("matplotlib") is None:
        raise ImportError("the figures take matplotlib, which is not installed: pip install 'bionica[plot]'")
    if find_spec("pyarrow") is None:
        typer.echo("Note: tables are written as .csv alone; .parquet takes pip install 'bionica[io]'", err=True)
    names = experiments.EXPERIMENTS if target is Target.all else (target.value,)
    pictured = "figure5" in names or ("table1" in names and options["full"])
    if images is not None and not pictured:
        raise typer.BadParameter(f"--images is of no use to {target}: it is for figure5, all, or table1 --full")
    place = None if images is None else str(images.resolve())
    digest = experiments.image_digest(place) if pictured else ""
    return experiments.Reproduction(names, images=place, digest=digest, **options)


def _check_folder(output: Path) -> None:
    """Make the folder, and write to it, before anything is run for it."""
    import tempfile

    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except FileExistsError:
        raise ValueError(f"--output {output} is a file: give the name of a folder") from None
    except OSError as error:
        raise ValueError(f"--output {output} cannot be written to ({error.strerror}): give another folder") from None


def _results(config: Reproduction, output: Path, jobs: int, force: bool) -> tuple[list[Result], int]:
    """Run what is not there yet, and read everything."""
    from joblib import cpu_count

    from .. import paper as experiments

    tasks, store = experiments.tasks_of(config), experiments.Store(output / "runs")
    missing = tasks if force else experiments.pending(tasks, store)
    with _progress(missing) as done:
        experiments.run_all(missing, store, jobs=jobs or cpu_count(), done=done)
    found = [store.get(task) for task in tasks]
    return [result for result in found if result is not None], len(missing)


@contextmanager
def _progress(tasks: Sequence[Task]) -> Iterator[Callable[[Task], object]]:
    """How far it is and how long it takes: a bar on a terminal, else a line now and then, on standard error."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(tasks)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), TextColumn("left"))
    with Progress(*columns, console=console, transient=True) as bar:
        line = bar.add_task(f"0 of {len(tasks):,} runs", total=sum(task.cost for task in tasks))
        done = count(1)

        def advance(task: Task) -> None:
            bar.update(line, advance=task.cost, description=f"{next(done):,} of {len(tasks):,} runs")

        yield advance


def _lines(tasks: Sequence[Task]) -> Callable[[Task], object]:
    started = said = time.monotonic()
    total, done, spent = sum(task.cost for task in tasks), count(1), 0

    def advance(task: Task) -> None:
        nonlocal said, spent
        spent += task.cost
        number, now = next(done), time.monotonic()
        if now - said >= _LINES and number < len(tasks):
            said = now
            left = (now - started) / spent * (total - spent)
            typer.echo(f"{number:,} of {len(tasks):,} runs, about {left:.0f} s left", err=True)

    return advance


def _findings(target: Target, results: list[Result], ran: int, seconds: float, written: Written) -> dict[str, Any]:
    """What `--json` prints. Settings of the grid search that fail, as they must, are counted and not listed."""
    failures = [
        {
            "experiment": task.experiment,
            "setting": task.setting,
            "network": task.network,
            "seed": task.seed,
            "status": header["status"],
        }
        for task, header, _ in results
        if header["error"] is None and task.experiment != "table1"
    ]
    return {
        "target": target.value,
        "report": str(written.page),
        "files": [str(file) for file in written.files],
        "runs": len(results),
        "ran": ran,
        "seconds": round(seconds, 3),
        "errors": written.finals,
        "grid": [{name: _finite(value) for name, value in row.items()} for row in written.best],
        "claims": written.claims,
        "failures": failures,
    }


def _finite(value: Any) -> Any:
    """JSON has no infinity, which is the error of a setting that failed."""
    return None if value == float("inf") else value


@contextmanager
def _one_line_errors(output: Path, force: bool) -> Iterator[None]:
    """End with a sentence, not with a traceback."""
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    from ..io import is_disk_full

    again = f"the same command{' without --force' if force else ''} goes on from there"
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"Interrupted. Finished runs are kept in {output / 'runs'}: {again}.", err=True)
        raise typer.Exit(130) from None
    except TerminatedWorkerError:
        _fail(f"a worker process was killed, for want of memory perhaps. Finished runs are kept: {again}; try --jobs 1")
    except OSError as error:
        if is_disk_full(error):
            _fail(f"the disk of {output} is full: free some space. Finished runs are kept: {again}")
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (ImportError, ValueError) as error:
        _fail(str(error))


def _fail(message: str) -> NoReturn:
    typer.echo(f"Error: {' '.join(message.split())}", err=True)
    raise typer.Exit(1) from None
