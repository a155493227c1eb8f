"""`bionica reproduce`: the paper's experiments, and a report that compares the results
with its statements.
"""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bionica.cli.console import Console
from bionica.io import check_folder, import_optional

_TARGETS = (
    "figure1",
    "figure2",
    "figure3",
    "figure4",
    "figure5",
    "table1",
    "convergence",
    "all",
)
Target = StrEnum("Target", {name: name for name in _TARGETS})  # type: ignore[misc]
_ALL = Target("all")


def reproduce(
    target: Annotated[
        Target, typer.Argument(help="all: the paper's, without convergence.")
    ] = _ALL,
    runs: Annotated[
        int | None,
        typer.Option(min=1, help="Runs: 10, at most 5 in table1; 30 in convergence."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=0, help="Processes; 0: one for each core.")
    ] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the results.")
    ] = Path("results"),
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the first run; run i has seed + i.")
    ] = 0,
    with_ours: Annotated[
        bool, typer.Option("--with-ours", help="Add what is not in the paper, untuned.")
    ] = False,
    images: Annotated[
        Path | None,
        typer.Option(help="Three images: a folder or sources.npy, not CC0 ones."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="convergence: other sources, more samples.")
    ] = False,
    samples: Annotated[
        int, typer.Option(min=10, help="Samples of a run on synthetic sources.")
    ] = 100_000,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Run everything again, and replace files of others."
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print files, errors and claims as JSON.")
    ] = False,
) -> None:
    """Run the paper's experiments, draw its figures and compare the results with its
    statements.

    `convergence` maps which mixing matrices the networks separate, with --full for
    other sources and with ten times the samples too.

    Finished runs are kept under OUTPUT/runs: a second call continues where the first
    one stopped. A file of OUTPUT that this command has not written, or that was edited
    since, is not replaced.

    Examples: `bionica reproduce`, `bionica reproduce figure4 --with-ours`, `bionica
    reproduce figure5 --images photos/`
    """
    started = time.perf_counter()
    console = Console(json=json)
    again = f"the same command{' without --force' if force else ''} continues"
    with console.session(
        interrupted=(
            f"Interrupted. Finished runs are kept in {output / 'runs'}: {again}."
        )
    ):
        from bionica.circuits import paper
        from bionica.circuits.paper.figures import check_images
        from bionica.circuits.paper.page import file_names
        from bionica.circuits.sweep.run import Sweep

        import_optional("matplotlib", "reproduce", "plot")
        names: tuple[str, ...] = (
            paper.EXPERIMENTS if target == "all" else (target.value,)
        )
        if target == "convergence":
            names = tuple(paper.MAPS)[: 4 if full else 2]
        runs = runs or (paper.MATRICES if target == "convergence" else 10)
        path = None if images is None else str(images.resolve())
        config = paper.Reproduction(names, runs, seed, samples, with_ours, path)
        plans = paper.plans_of(config)
        if "images" in {setting for _, setting in plans}:
            check_images(path)  # before the first run
        elif images is not None:
            raise typer.BadParameter(f"--images is for figure5, not for {target}")
        inputs = (
            []
            if images is None
            else [f for f in (images, *images.glob("*")) if f.is_file()]
        )
        check_folder(output, file_names(names, target.value), inputs, replace=force)
        options: dict[str, Any] = {"n_jobs": jobs or -1, "force": force}
        sweeps = {
            key: Sweep(plan, output / "runs" / "-".join(key), **options)
            for key, plan in plans.items()
        }
        ran = sum(len(sweep.missing) for sweep in sweeps.values())
        work = sum(
            case.cost for sweep in sweeps.values() for case in sweep.missing.values()
        )
        with console.progress(f"{ran:,} runs", work) as advance:
            tables = {
                key: sweep.run(lambda case: advance(case.cost))
                for key, sweep in sweeps.items()
            }
        seconds = time.perf_counter() - started
        written = paper.write_reproduction(config, tables, output, target.value)
        total = sum(len(sweep.outcomes) for sweep in sweeps.values())
        summary = {
            "target": target.value,
            "runs": total,
            "ran": ran,
            "seconds": round(seconds, 3),
        }
        lines = [
            f"{ran:,} of {total:,} runs in {seconds:.1f} s",
            f"Look at {written['report']}",
        ]
        console.result(lines, summary | written)
