"""`bionica sweep`: many networks at once, from a plan."""

import sys
import time
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from bionica.cli.console import Console, counted


def sweep(
    plan: Annotated[
        Path | None,
        typer.Argument(metavar="PLAN", help="A TOML file; --example prints one."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder; PLAN-results by default."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0: one per core.")] = 0,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Dask cluster, tcp://host:8786."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the findings as JSON.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Run everything again, and replace the results."),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check the plan and say what it would run."),
    ] = False,
    example: Annotated[
        bool,
        typer.Option("--example", help="Print a plan: the paper's grid search, d = 3."),
    ] = False,
) -> None:
    """Run many networks at once: every setting of a plan, on every data set, from every
    seed.

    Each result is stored as it finishes: after an interruption the same command
    continues, and after a change of the plan it runs what is new. The table is
    OUTPUT/results.csv, a row for each case and time. A plan can name your own classes,
    module:Class; modules in the folder of the plan are found too.

    \b
    bionica sweep --example > plan.toml
    bionica sweep plan.toml
    bionica sweep plan.toml -o results --scheduler tcp://head:8786
    """  # noqa: D301
    if example:
        from bionica.circuits.paper import paper_grid

        typer.echo(paper_grid(), nl=False)
        return
    if plan is None:
        raise typer.BadParameter(
            "PLAN is missing: bionica sweep --example > plan.toml makes one"
        )
    from bionica.circuits.sweep.run import RESULTS, Sweep

    folder = Path(f"{plan.stem}-results") if output is None else output
    console = Console(json=json, quiet=quiet)
    interrupted = (
        f"Interrupted. Finished cases are kept in {folder}: the same command continues."
    )
    with console.session(interrupted=interrupted):
        own = str(plan.resolve().parent)
        if own not in sys.path:
            sys.path.append(own)  # for the user's own estimators
        ready = Sweep(plan, folder, n_jobs=jobs or -1, scheduler=scheduler, force=force)
        engine = ready.engine
        there = len(ready.outcomes)
        missing = len(ready.missing)
        total = there + missing
        summary: dict[str, Any] = {
            "cases": total,
            "finished before": there,
            "engine": engine,
        }
        if dry_run:
            networks = ", ".join(
                f"{n.label} ({counted(len(n.settings), 'settings')})"
                for n in ready.plan.networks
            )
            data = ", ".join(
                f"{d.name} ({d.n_samples:,} samples)" for d in ready.plan.data
            )
            lines = [
                f"{networks} on {data}, {counted(len(ready.plan.seeds), 'seeds')} of"
                " each"
            ]
            lines.append(
                f"{there} of {total:,} cases are in {folder}; the others would run on"
                f" {engine}"
            )
        else:
            started = time.perf_counter()
            with console.progress(
                "Cases", sum(case.cost for case in ready.missing.values())
            ) as advance:
                table = ready.run(
                    lambda case: advance(
                        case.cost, f"{len(ready.outcomes):,} of {total:,}"
                    )
                )
            seconds = time.perf_counter() - started
            failed = len({row["case"] for row in table if row["status"] != "ok"})
            best = table.best()
            lines = [
                f"{missing:,} of {total:,} cases ran in {seconds:.1f} s on {engine}"
            ]
            lines += [_best(row, table.swept) for row in best]
            lines += (
                [f"{failed:,} cases failed: see the column status"] if failed else []
            )
            lines.append(f"Wrote {folder / RESULTS}")
            summary |= {
                "seconds": round(seconds, 3),
                "failed": failed,
                "best": best,
                "output": str(folder / RESULTS),
            }
        console.result(lines, summary | {"notes": console.notes})


def _best(row: dict[str, Any], swept: list[str]) -> str:
    """The best setting of a network in a line."""
    start = f"{row['data']}, {row['network']}: "
    if not isfinite(row["error"]):
        return start + "no setting has an error for all its seeds"
    where = ", ".join(f"{name} {row[name]}" for name in swept if row[name] is not None)
    held_out = (
        f", held-out SINR {row['sinr']:.1f} dB" if row["sinr"] is not None else ""
    )
    best = (
        f"error {row['error']:.3g} (last tenth {row['last_tenth']:.3g}){held_out}, mean"
        f" of {counted(row['runs'], 'seeds')}"
    )
    return (
        start
        + best
        + (
            f", best of {row['settings']} settings: {where}"
            if row["settings"] > 1
            else ""
        )
    )
