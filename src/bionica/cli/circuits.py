"""Commands about models of neurons: `demo`, `reproduce` and `sweep`."""

import sys
import time
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from bionica import io
from bionica.cli.console import Console, counted, with_options
from bionica.core.files import write_atomically

# ------------------------------------------------------------------------------- demo


@dataclass(kw_only=True)
class DemoOptions:
    """Options of `bionica demo`."""

    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for the picture and the page."),
    ] = Path("demo")
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=2**31, help="Of the weights and the order of the pixels."
        ),
    ] = 0
    force: Annotated[
        bool, typer.Option("--force", help="Replace an earlier picture and page.")
    ] = False
    json: Annotated[
        bool, typer.Option("--json", help="Print the findings as JSON.")
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")
    ] = False


@with_options(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Mix three pictures, let networks recover them pixel by pixel, and make a
    page that shows how.

    Algorithms 1 and 2 of the paper, and LocalNICA and StreamingNICA, which are
    not in it, learn sources of the paper and photographs. Each sees every pixel
    once, in random order, and starts from random weights. On the page a slider
    moves the recovered pictures and the synapses of the network that is
    selected.

    For example: bionica demo --seed 1 -o another
    """
    from bionica.cli import demo_page as pages

    output = options.output
    console = Console(json=options.json, quiet=options.quiet)
    with console.session(interrupted="Interrupted: the page was not written"):
        for package in ("matplotlib", "skimage"):
            io.import_optional(package, "the demo", "plot")
        io.check_folder(output, [pages.PICTURE, pages.PAGE], replace=options.force)
        console.say(
            "Mixing pictures, and recovering them from the mixtures alone, one pixel "
            "at a time"
        )
        findings, picture, page = pages.run(options.seed, console)
        output.mkdir(parents=True, exist_ok=True)
        write_atomically(output / pages.PICTURE, picture)
        write_atomically(output / pages.PAGE, page)
        findings["figure"] = str(output / pages.PICTURE)
        findings["page"] = str(output / pages.PAGE)
        console.result(pages.result_lines(findings), findings)


# -------------------------------------------------------------------------- reproduce

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


@dataclass(kw_only=True)
class ReproduceOptions:
    """Options of `bionica reproduce`."""

    target: Annotated[
        Target, typer.Argument(help="all: the paper's, without convergence.")
    ] = _ALL
    runs: Annotated[
        int | None,
        typer.Option(min=1, help="Runs: 10, at most 5 in table1; 30 in convergence."),
    ] = None
    jobs: Annotated[
        int, typer.Option(min=0, help="Processes; 0: one for each core.")
    ] = 0
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the results.")
    ] = Path("results")
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the first run; run i has seed + i.")
    ] = 0
    with_ours: Annotated[
        bool,
        typer.Option("--with-ours", help="Add what is not in the paper, untuned."),
    ] = False
    images: Annotated[
        Path | None,
        typer.Option(help="Three images: a folder or sources.npy, not CC0 ones."),
    ] = None
    full: Annotated[
        bool,
        typer.Option("--full", help="convergence: other sources, more samples."),
    ] = False
    samples: Annotated[
        int, typer.Option(min=10, help="Samples of a run on synthetic sources.")
    ] = 100_000
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Run everything again, and replace files of others."
        ),
    ] = False
    json: Annotated[
        bool, typer.Option("--json", help="Print files, errors and claims as JSON.")
    ] = False


@with_options(ReproduceOptions)
def reproduce(options: ReproduceOptions) -> None:
    """Run the paper's experiments, draw its figures and compare the results
    with its statements.

    `convergence` maps which mixing matrices the networks separate, with --full
    for other sources and with ten times the samples too.

    Finished runs are kept under OUTPUT/runs: a second call continues where the
    first one stopped. A file of OUTPUT that this command has not written, or
    that was edited since, is not replaced.

    Examples: `bionica reproduce`, `bionica reproduce figure4 --with-ours`,
    `bionica reproduce figure5 --images photos/`
    """
    started = time.perf_counter()
    console, runs = Console(json=options.json), options.output / "runs"
    again = "the same command continues"
    if options.force:
        again = "the same command without --force continues"
    interrupted = f"Interrupted. Finished runs are kept in {runs}: {again}."
    with console.session(interrupted=interrupted):
        from bionica.circuits import paper
        from bionica.circuits.sweep.run import Sweep

        io.import_optional("matplotlib", "reproduce", "plot")
        target = options.target.value
        config = _reproduction(options)
        plans = paper.plans_of(config)
        _check_reproduction(options, config, plans)
        given: dict[str, Any] = {"n_jobs": options.jobs or -1, "force": options.force}
        sweeps = {
            key: Sweep(plan, runs / "-".join(key), **given)
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
        written = paper.write_reproduction(config, tables, options.output, target)
        total = sum(len(sweep.outcomes) for sweep in sweeps.values())
        summary = {"target": target, "runs": total, "ran": ran}
        lines = [
            f"{ran:,} of {total:,} runs in {seconds:.1f} s",
            f"Look at {written['report']}",
        ]
        console.result(lines, {**summary, "seconds": round(seconds, 3), **written})


def _reproduction(options: ReproduceOptions) -> Any:
    """Return what is to be run."""
    from bionica.circuits import paper

    names: tuple[str, ...] = (options.target.value,)
    runs = options.runs or 10
    if options.target == "all":
        names = paper.EXPERIMENTS
    if options.target == "convergence":
        names = tuple(paper.MAPS)[: 4 if options.full else 2]
        runs = options.runs or paper.MATRICES
    return paper.Reproduction(
        names,
        runs,
        options.seed,
        options.samples,
        options.with_ours,
        images=None if options.images is None else str(options.images.resolve()),
    )


def _check_reproduction(options: ReproduceOptions, config: Any, plans: Any) -> None:
    """Raise before the first run if images or the folder of results cannot be used."""
    from bionica.circuits.paper.figures import check_images
    from bionica.circuits.paper.page import file_names

    images = options.images
    if "images" in {setting for _, setting in plans}:
        check_images(config.images)
    elif images is not None:
        raise typer.BadParameter(f"--images is for figure5, not for {options.target}")
    inputs = []
    if images is not None:
        inputs = [file for file in (images, *images.glob("*")) if file.is_file()]
    names = file_names(config.experiments, options.target.value)
    io.check_folder(options.output, names, inputs, replace=options.force)


# ------------------------------------------------------------------------------ sweep


@dataclass(kw_only=True)
class SweepOptions:
    """Options of `bionica sweep`."""

    plan: Annotated[
        Path | None,
        typer.Argument(metavar="PLAN", help="A TOML file; --example prints one."),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder; PLAN-results by default."),
    ] = None
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0: one per core.")] = 0
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Dask cluster, tcp://host:8786."),
    ] = None
    json: Annotated[
        bool, typer.Option("--json", help="Print the findings as JSON.")
    ] = False
    force: Annotated[
        bool,
        typer.Option("--force", help="Run everything again, and replace the results."),
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")
    ] = False
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check the plan and say what it would run."),
    ] = False
    example: Annotated[
        bool,
        typer.Option("--example", help="Print a plan: the paper's grid search, d = 3."),
    ] = False


@with_options(SweepOptions)
def sweep(options: SweepOptions) -> None:
    """Run many networks at once: every setting of a plan, on every data set,
    from every seed.

    Each result is stored as it finishes: after an interruption the same command
    continues, and after a change of the plan it runs what is new. The table is
    OUTPUT/results.csv, a row for each case and time. A plan can name your own
    classes, module:Class; modules in the folder of the plan are found too.

    \b
    bionica sweep --example > plan.toml
    bionica sweep plan.toml
    bionica sweep plan.toml -o results --scheduler tcp://head:8786
    """  # noqa: D301
    plan = options.plan
    if options.example:
        from bionica.circuits.paper import paper_grid

        typer.echo(paper_grid(), nl=False)
        return
    if plan is None:
        message = "PLAN is missing: bionica sweep --example > plan.toml makes one"
        raise typer.BadParameter(message)
    from bionica.circuits.sweep.run import Sweep

    folder = options.output or Path(f"{plan.stem}-results")
    console = Console(json=options.json, quiet=options.quiet)
    interrupted = (
        f"Interrupted. Finished cases are kept in {folder}: the same command continues."
    )
    with console.session(interrupted=interrupted):
        own = str(plan.resolve().parent)
        if own not in sys.path:
            sys.path.append(own)  # for the user's own estimators
        ready = Sweep(
            plan,
            folder,
            n_jobs=options.jobs or -1,
            scheduler=options.scheduler,
            force=options.force,
        )
        before, total = len(ready.outcomes), len(ready.outcomes) + len(ready.missing)
        summary: dict[str, Any] = {"cases": total, "finished before": before}
        summary["engine"] = ready.engine
        if options.dry_run:
            lines = _described(ready, folder)
        else:
            lines, results = _run_cases(ready, folder, console)
            summary |= results
        console.result(lines, summary | {"notes": console.notes})


def _described(ready: Any, folder: Path) -> list[str]:
    """Say what a sweep would run."""
    plan, there = ready.plan, len(ready.outcomes)
    networks = ", ".join(
        f"{network.label} ({counted(len(network.settings), 'settings')})"
        for network in plan.networks
    )
    data = ", ".join(f"{data.name} ({data.n_samples:,} samples)" for data in plan.data)
    total = there + len(ready.missing)
    return [
        f"{networks} on {data}, {counted(len(plan.seeds), 'seeds')} of each",
        f"{there} of {total:,} cases are in {folder}; the others would run on "
        f"{ready.engine}",
    ]


def _run_cases(
    ready: Any, folder: Path, console: Console
) -> tuple[list[str], dict[str, Any]]:
    """Run what is missing of a sweep, and return the result in words and as data."""
    from bionica.circuits.sweep.run import RESULTS

    started = time.perf_counter()
    missing = len(ready.missing)
    total = len(ready.outcomes) + missing
    work = sum(case.cost for case in ready.missing.values())

    with console.progress("Cases", work) as advance:
        table = ready.run(
            lambda case: advance(case.cost, f"{len(ready.outcomes):,} of {total:,}")
        )
    seconds = time.perf_counter() - started
    failed = len({row["case"] for row in table if row["status"] != "ok"})
    best = table.best()
    lines = [f"{missing:,} of {total:,} cases ran in {seconds:.1f} s on {ready.engine}"]
    lines += [_best(row, table.swept) for row in best]
    if failed:
        lines.append(f"{failed:,} cases failed: see the column status")
    output = str(folder / RESULTS)
    lines.append(f"Wrote {output}")
    results = {"seconds": round(seconds, 3), "failed": failed}
    return lines, results | {"best": best, "output": output}


def _best(row: dict[str, Any], swept: list[str]) -> str:
    """Return the best setting of a network in a line."""
    start = f"{row['data']}, {row['network']}: "
    if not isfinite(row["error"]):
        return start + "no setting has an error for all its seeds"
    line = f"{start}error {row['error']:.3g} (last tenth {row['last_tenth']:.3g})"
    if row["sinr"] is not None:
        line += f", held-out SINR {row['sinr']:.1f} dB"
    line += f", mean of {counted(row['runs'], 'seeds')}"
    if row["settings"] > 1:
        given = (f"{name} {row[name]}" for name in swept if row[name] is not None)
        line += f", best of {row['settings']} settings: {', '.join(given)}"
    return line
