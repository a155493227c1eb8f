"""Commands about models of neurons: `demo`, `reproduce` and `sweep`."""

import sys
import time
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import typer

from bionica import io
from bionica.cli.console import FORCE, JSON, QUIET, Console, command, counted
from bionica.core.files import write_atomically

_JOBS = typer.Option(0, "--jobs", min=0, help="Processes; 0: one for each core.")
_Again = partial(typer.Option, False, "--force")

# ------------------------------------------------------------------------------- demo


@dataclass
class Demo:
    """Mix three pictures, let networks recover them pixel by pixel, and make a
    page that shows how.

    Algorithms 1 and 2 of the paper, and LocalNICA and StreamingNICA, which are
    not in it, learn sources of the paper and photographs. Each sees every pixel
    once, in random order, and starts from random weights. On the page a slider
    moves the recovered pictures and the synapses of the network that is
    selected.

    For example: bionica demo --seed 1 -o another
    """

    output: Path = typer.Option(
        Path("demo"), "--output", "-o", help="Folder for the picture and the page."
    )
    seed: int = typer.Option(
        0, min=0, max=2**31, help="Of the weights and the order of the pixels."
    )
    force: bool = FORCE
    json: bool = JSON
    quiet: bool = QUIET

    def run(self) -> None:
        """Write the picture and the page."""
        from bionica.cli import demo_page as pages

        output = self.output
        console = Console(json=self.json, quiet=self.quiet)
        with console.session(interrupted="Interrupted: the page was not written"):
            for package in ("matplotlib", "skimage"):
                io.import_optional(package, "the demo", "plot")
            io.check_folder(output, [pages.PICTURE, pages.PAGE], replace=self.force)
            console.say(
                "Mixing pictures, and recovering them from the mixtures alone, one "
                "pixel at a time"
            )
            findings, picture, page = pages.run(self.seed, console)
            output.mkdir(parents=True, exist_ok=True)
            for name, file, content in (
                ("figure", output / pages.PICTURE, picture),
                ("page", output / pages.PAGE, page),
            ):
                write_atomically(file, content)
                findings[name] = str(file)
            console.result(pages.result_lines(findings), findings)


demo = command(Demo)


# -------------------------------------------------------------------------- reproduce

Target = StrEnum(
    "Target", "figure1 figure2 figure3 figure4 figure5 table1 convergence all"
)
_ALL = Target("all")


@dataclass
class Reproduce:
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

    target: Target = typer.Argument(_ALL, help="all: the paper's, without convergence.")
    runs: int | None = typer.Option(
        None, min=1, help="Runs: 10, at most 5 in table1; 30 in convergence."
    )
    jobs: int = _JOBS
    output: Path = typer.Option(
        Path("results"), "--output", "-o", help="Folder of the results."
    )
    seed: int = typer.Option(
        0, min=0, help="Seed of the first run; run i has seed + i."
    )
    with_ours: bool = typer.Option(
        False, "--with-ours", help="Add what is not in the paper, untuned."
    )
    images: Path | None = typer.Option(
        None, help="Three images: a folder or sources.npy, not CC0 ones."
    )
    full: bool = typer.Option(
        False, "--full", help="convergence: other sources, more samples."
    )
    samples: int = typer.Option(
        100_000, min=10, help="Samples of a run on synthetic sources."
    )
    force: bool = _Again(help="Run everything again, and replace files of others.")
    json: bool = JSON

    def run(self) -> None:
        """Run what is missing, and write the figures and the page."""
        started = time.perf_counter()
        console, folder = Console(json=self.json), self.output / "runs"
        interrupted = (
            f"Interrupted. Finished runs are kept in {folder}: the same command "
            "continues (without --force)."
        )
        with console.session(interrupted=interrupted):
            from bionica.circuits import paper
            from bionica.circuits.sweep.run import Sweep

            io.import_optional("matplotlib", "reproduce", "plot")
            config = self.reproduction()
            plans = paper.plans_of(config)
            self.check_files(config, {setting for _, setting in plans})
            form: dict[str, Any] = {"n_jobs": self.jobs or -1, "force": self.force}
            sweeps = {
                key: Sweep(plan, folder / "-".join(key), **form)
                for key, plan in plans.items()
            }
            cases = [case for one in sweeps.values() for case in one.missing.values()]
            ran = len(cases)
            work = sum(case.cost for case in cases)
            with console.progress(f"{ran:,} runs", work) as advance:
                tables = {
                    key: one.run(lambda case: advance(case.cost))
                    for key, one in sweeps.items()
                }
            seconds = time.perf_counter() - started
            target = str(self.target)
            written = paper.write_reproduction(config, tables, self.output, target)
            total = sum(len(one.outcomes) for one in sweeps.values())
            summary = {"target": target, "runs": total, "ran": ran}
            lines = [
                f"{ran:,} of {total:,} runs in {seconds:.1f} s",
                f"Look at {written['report']}",
            ]
            console.result(lines, {**summary, "seconds": round(seconds, 3), **written})

    def reproduction(self) -> Any:
        """Return what is to be run."""
        from bionica.circuits import paper

        names: tuple[str, ...] = (str(self.target),)
        runs = 10
        if self.target == "all":
            names = paper.EXPERIMENTS
        if self.target == "convergence":
            names = tuple(paper.MAPS)[: 4 if self.full else 2]
            runs = paper.MATRICES
        return paper.Reproduction(
            names,
            self.runs or runs,
            self.seed,
            self.samples,
            self.with_ours,
            images=None if self.images is None else str(self.images.resolve()),
        )

    def check_files(self, config: Any, settings: set[str]) -> None:
        """Raise before the first run if images or the folder cannot be used."""
        from bionica.circuits.paper.figures import check_images
        from bionica.circuits.paper.page import file_names

        images = self.images
        if "images" in settings:
            check_images(config.images)
        elif images is not None:
            raise typer.BadParameter(f"--images is for figure5, not for {self.target}")
        inputs = []
        if images is not None:
            inputs = [file for file in (images, *images.glob("*")) if file.is_file()]
        names = file_names(config.experiments, str(self.target))
        io.check_folder(self.output, names, inputs, replace=self.force)


reproduce = command(Reproduce)

# ------------------------------------------------------------------------------ sweep


@dataclass
class Sweep:
    """Run many networks at once: every setting of a plan, on every data set,
    from every seed.

    Each result is stored as it finishes: after an interruption the same command
    continues, and after a change of the plan it runs what is new. The table is
    OUTPUT/results.csv, a row for each case and time. A plan can name your own
    classes, module:Class; modules in the folder of the plan are found too.

    \b
    bionica sweep --example > plan.toml
    bionica sweep plan.toml
    """  # noqa: D301

    plan: Path | None = typer.Argument(
        None, metavar="PLAN", help="A TOML file; --example prints one."
    )
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Folder; PLAN-results by default."
    )
    jobs: int = _JOBS
    json: bool = JSON
    force: bool = _Again(help="Run everything again, and replace the results.")
    quiet: bool = QUIET
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Check the plan and say what it would run."
    )
    example: bool = typer.Option(
        False, "--example", help="Print a plan: the paper's grid search, d = 3."
    )

    def run(self) -> None:
        """Run what is missing, and write the table."""
        if self.example:
            from bionica.circuits.paper import paper_grid

            typer.echo(paper_grid(), nl=False)
            return
        if self.plan is None:
            message = "PLAN is missing: bionica sweep --example > plan.toml makes one"
            raise typer.BadParameter(message)
        from bionica.circuits.sweep.run import RESULTS
        from bionica.circuits.sweep.run import Sweep as Run

        started = time.perf_counter()
        folder = self.output or Path(f"{self.plan.stem}-results")
        console = Console(json=self.json, quiet=self.quiet)
        interrupted = (
            f"Interrupted. Finished cases are kept in {folder}: the same command "
            "continues."
        )
        with console.session(interrupted=interrupted):
            own = str(self.plan.resolve().parent)
            if own not in sys.path:
                sys.path.append(own)  # for the user's own estimators
            plan = Run(self.plan, folder, n_jobs=self.jobs or -1, force=self.force)
            before, missing = len(plan.outcomes), len(plan.missing)
            summary: dict[str, Any] = {"cases": before + missing}
            summary["finished before"] = before
            summary["engine"] = plan.engine
            if self.dry_run:
                lines = _described(plan.plan)
                lines.append(
                    f"{before} of {before + missing:,} cases are in {folder}; the "
                    f"others would run on {plan.engine}"
                )
            else:
                table = _run_cases(plan, console)
                seconds = time.perf_counter() - started
                failed = len({row["case"] for row in table if row["status"] != "ok"})
                lines = [
                    f"{missing:,} of {before + missing:,} cases ran in {seconds:.1f} s "
                    f"on {plan.engine}"
                ]
                best = table.best()
                lines += [_best(row, table.swept) for row in best]
                if failed:
                    lines.append(f"{failed:,} cases failed: see the column status")
                output = str(folder / RESULTS)
                lines.append(f"Wrote {output}")
                summary |= {"seconds": round(seconds, 3), "failed": failed}
                summary |= {"best": best, "output": output}
            console.result(lines, summary | {"notes": console.notes})


sweep = command(Sweep)


def _described(plan: Any) -> list[str]:
    """Say what a plan would run."""
    networks = ", ".join(
        f"{network.label} ({counted(len(network.settings), 'settings')})"
        for network in plan.networks
    )
    data = ", ".join(f"{data.name} ({data.n_samples:,} samples)" for data in plan.data)
    return [f"{networks} on {data}, {counted(len(plan.seeds), 'seeds')} of each"]


def _run_cases(plan: Any, console: Console) -> Any:
    """Run what is missing of a sweep, and return the table."""
    total = len(plan.outcomes) + len(plan.missing)
    work = sum(case.cost for case in plan.missing.values())
    with console.progress("Cases", work) as advance:
        return plan.run(
            lambda case: advance(case.cost, f"{len(plan.outcomes):,} of {total:,}")
        )


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
