"""`bionica reproduce`: the paper's experiments, and a report that sets them beside its statements."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..io import check_folder
from .console import Console, require

if TYPE_CHECKING:
    from ..paper import Reproduction
    from ..sweep import Table

#: Seconds between lines of progress where standard error is no terminal.
LINE_EVERY = 30.0


class Target(StrEnum):
    """What to reproduce."""

    figure1 = "figure1"
    figure4 = "figure4"
    figure5 = "figure5"
    table1 = "table1"
    cone_network = "cone-network"
    all = "all"


def reproduce(
    target: Annotated[
        Target,
        typer.Argument(
            help="figure1 brings the network diagrams, figures 2 and 3, along. cone-network: correlated sources, not in `all`."
        ),
    ] = Target.all,
    runs: Annotated[int, typer.Option(min=1, help="Runs of every network; at most 5 of a setting of table1.")] = 10,
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0: one for each core.")] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")] = Path("results"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first run; run i has seed + i.")] = 0,
    with_defaults: Annotated[
        bool,
        typer.Option(
            "--with-defaults",
            help="Add our untuned networks, BatchNICA, the correlation floor; on images, the authors' code's settings.",
        ),
    ] = False,
    images: Annotated[
        Path | None, typer.Option(help="Three images: a folder or sources.npy; else CC0 images of scikit-image.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="table1 for d = 10 and the images too (a quarter of an hour more).")
    ] = False,
    samples: Annotated[int, typer.Option(min=10, help="Samples of a run on synthetic sources.")] = 100_000,
    force: Annotated[
        bool, typer.Option("--force", help="Run again what is finished already, and replace files of others.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print files, errors and claims as JSON.")] = False,
) -> None:
    """Run the paper's experiments, draw its figures and set the results beside its statements.

    Figures 4 and 5 have StreamingNICA, which needs no tuning, beside the paper's networks.

    Finished runs are kept under OUTPUT/runs: a second call goes on where the first one stopped. A file of OUTPUT that this command
    has not written is not replaced.

    Examples: `bionica reproduce`, `bionica reproduce figure4 --with-defaults`, `bionica reproduce figure5 --images photos/`

    Exit codes: 0 done; 1 something failed, said in one line; 2 wrong usage; 130 interrupted.
    """
    from ..sweep import WorkerDiedError

    started = time.perf_counter()
    console = Console(json=json)
    options = {"runs": runs, "seed": seed, "n_samples": samples, "with_defaults": with_defaults, "full": full}
    again = f"the same command{' without --force' if force else ''} goes on from there"
    with console.session(
        interrupted=f"Interrupted. Finished runs are kept in {output / 'runs'}: {again}.",
        disk_full=f"free some space. Finished runs are kept: {again}",
        expected=(WorkerDiedError,),
    ):
        from .. import paper
        from ..paper.page import FILE_NAMES
        from ..sweep.table import OwnFiles

        config = _configuration(target, options, images)
        inputs = [] if images is None else [*images.iterdir()] if images.is_dir() else [images]
        check_folder(output, FILE_NAMES, inputs, replace=True)
        own = OwnFiles(output)
        own.check(FILE_NAMES, force)
        tables, ran = _results(config, output, jobs, force)
        seconds = time.perf_counter() - started
        written = paper.write_reproduction(config, tables, own, "" if target is Target.all else target.value)
        total = sum(len({row["case"] for row in table}) for table in tables.values())
        rest = "" if ran == total else "; the others were there already"
        lines = [f"{ran:,} of {total:,} runs in {seconds:.1f} s{rest}", f"Look at {written.page}"]
        summary: dict[str, Any] = {"target": target.value, "runs": total, "ran": ran, "seconds": round(seconds, 3)}
        summary |= {"report": str(written.page), "files": list(map(str, written.files)), "errors": written.finals}
        summary |= {"grid": written.best, "claims": written.claims}
        console.result(lines, summary)


def _configuration(target: Target, options: dict[str, Any], images: Path | None) -> Reproduction:
    """What to run; everything that can be wrong is found before the first run."""
    from .. import paper
    from ..paper.figures import check_images

    require("reproduce", "matplotlib")
    names = paper.EXPERIMENTS if target is Target.all else (target.value,)
    pictured = "figure5" in names or ("table1" in names and options["full"])
    if images is not None and not pictured:
        raise typer.BadParameter(f"--images is of no use to {target}: it is for figure5, all, or table1 --full")
    path = None if images is None else str(images.resolve())
    if pictured:
        check_images(path)
    return paper.Reproduction(names, images=path, **options)


def _results(config: Reproduction, output: Path, jobs: int, force: bool) -> tuple[dict[tuple[str, str], Table], int]:
    """Run what is missing; return the table of every experiment and setting, and the number of runs."""
    from ..paper import plans_of
    from ..sweep.run import prepare, show_progress

    sweeps = {
        key: prepare(plan, output / "runs" / "-".join(key), n_jobs=jobs or -1, device="cpu", force=force)
        for key, plan in plans_of(config).items()
    }
    missing = [case for sweep in sweeps.values() for case in sweep.missing]
    with show_progress(missing, line_every=LINE_EVERY) as done:
        return {key: sweep.run(done) for key, sweep in sweeps.items()}, len(missing)
