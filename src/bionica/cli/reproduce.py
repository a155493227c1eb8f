"""`bionica reproduce`: the paper's experiments, and a report that sets them beside its statements."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..experiments import Reproduction, Result
    from ..figures import Section

Row = dict[str, Any]
Save = Callable[[str, Any, str], Any]


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
        bool, typer.Option("--with-defaults", help="Add our untuned networks, BatchNICA, FastICA, correlation floor.")
    ] = False,
    images: Annotated[
        Path | None, typer.Option(help="Three images: a folder or sources.npy; else CC0 images of scikit-image.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="table1 for d = 10 and the images too (a quarter of an hour more).")
    ] = False,
    samples: Annotated[int, typer.Option(min=10, help="Samples of a run on synthetic sources.")] = 100_000,
    force: Annotated[bool, typer.Option("--force", help="Run again what is finished already.")] = False,
) -> None:
    """Run the paper's experiments, draw its figures and set the results beside its statements.

    Finished runs are kept under OUTPUT/runs: a second call goes on where the first one stopped.

    Examples: `bionica reproduce`, `bionica reproduce figure4 --with-defaults`, `bionica reproduce figure5 --images photos/`

    Exit codes: 0 done; 1 something failed, said in one line; 2 wrong usage; 130 interrupted.
    """
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # type: ignore[import-untyped]

    started = time.perf_counter()
    options = {"runs": runs, "seed": seed, "n_samples": samples, "with_defaults": with_defaults, "full": full}
    try:
        config, results, ran = _results(target, options, images, output, jobs, force)
        seconds = time.perf_counter() - started
        page = _write(config, results, output, target)
    except KeyboardInterrupt:
        typer.echo("Interrupted. Finished runs are kept: the same command goes on from there.", err=True)
        raise typer.Exit(130) from None
    except TerminatedWorkerError:
        _fail("a worker process was killed, for want of memory perhaps. The same command goes on; try --jobs 1")
    except (ImportError, OSError, ValueError) as error:
        _fail(" ".join(str(error).split()))
    typer.echo(f"{ran} of {len(results)} runs in {seconds:.1f} s; the others were there already")
    typer.echo(f"Look at {page}")


def _fail(message: str) -> None:
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(1) from None


def _results(
    target: Target, options: dict[str, Any], images: Path | None, output: Path, jobs: int, force: bool
) -> tuple[Reproduction, list[Result], int]:
    """Run what is not there yet, and read everything."""
    from joblib import cpu_count  # type: ignore[import-untyped]

    from .. import experiments

    names = experiments.EXPERIMENTS if target is Target.all else (target.value,)
    place = None if images is None else str(images.resolve())
    pictured = "figure5" in names or ("table1" in names and options["full"])
    digest = experiments.image_digest(place) if pictured else ""
    config = experiments.Reproduction(names, images=place, digest=digest, **options)
    tasks = experiments.tasks_of(config)
    output.mkdir(parents=True, exist_ok=True)
    store = experiments.Store(output / "runs")
    missing = tasks if force else experiments.pending(tasks, store)
    with _progress(len(missing)) as done:
        experiments.run_all(missing, store, jobs=jobs or cpu_count(), done=done)
    found = [store.get(task) for task in tasks]
    return config, [result for result in found if result is not None], len(missing)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], object] | None]:
    """A progress bar on standard error, if that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        line = bar.add_task("Runs", total=total)
        yield lambda: bar.advance(line)


def _write(config: Reproduction, results: list[Result], output: Path, target: Target) -> Path:
    """Write tables, figures and the page; return where the page is."""
    from .. import experiments, figures

    def save(name: str, figure: Any, caption: str) -> Any:
        svg = figures.figure_bytes(figure, "svg")
        experiments.write_atomically(output / f"{name}.svg", svg)
        experiments.write_atomically(output / f"{name}.png", figures.figure_bytes(figure, "png"))
        return figures.Picture(svg, caption)

    for name in config.experiments:
        mine = [result for result in results if result.task.experiment == name]
        experiments.write_table(output / name, experiments.run_rows(mine))
    timed = [result for result in results if result.task.experiment in ("figure4", "figure5")]
    means = experiments.grid_means([result for result in results if result.task.experiment == "table1"])
    finals, best = experiments.final_rows(timed), experiments.best_settings(means)
    if finals:
        experiments.write_table(output / f"{'summary' if target is Target.all else target.value + '-summary'}", finals)
    sections = [_claims(experiments.claims_of(timed, finals, best))]
    if "figure4" in config.experiments:
        sections.append(_curves(timed, finals, save))
    if "figure5" in config.experiments:
        sections.append(_images(config, timed, finals, save))
    if "table1" in config.experiments:
        sections.append(_grid(means, best, save))
    if "figure1" in config.experiments:
        sections.append(_scatter(next(r for r in results if r.task.experiment == "figure1"), save))
    sections += [_notes(), _provenance(config, results)]
    page = output / ("report.html" if target is Target.all else f"{target.value}.html")
    lead = "Online nonnegative ICA with single-layer networks: runs by the paper's protocol, beside what it states."
    experiments.write_atomically(page, figures.report_page("The paper, reproduced", lead, sections).encode())
    return page


def _claims(claims: list[Row]) -> Section:
    from ..figures import Section, Table

    rows = [[row[name] for name in ("where", "paper", "ours", "agrees")] for row in claims]
    return Section("The paper's statements and our runs", [Table(("where", "the paper", "our runs", "agree"), rows)])


def _errors(finals: list[Row], experiment: str) -> Any:
    from ..figures import Table

    names = (
        "setting",
        "network",
        "runs",
        "diverged",
        "mean",
        "low",
        "high",
        "median",
        "least",
        "largest",
        "last_tenth",
    )
    heads = (
        "",
        "method",
        "runs",
        "diverged",
        "mean error",
        "90 % from",
        "to",
        "median",
        "least",
        "largest",
        "last tenth",
    )
    return Table(heads, [_cells(row, names) for row in finals if row["experiment"] == experiment])


def _cells(row: Row, names: tuple[str, ...]) -> list[object]:
    """The cells of a row, methods under the names that the figures give them."""
    from ..figures import look

    return [look(row[name]).label if name == "network" else row[name] for name in names]


def _curves(results: list[Result], finals: list[Row], save: Save) -> Section:
    from ..experiments import curve_rows
    from ..figures import Section, error_figure

    rows = curve_rows(result for result in results if result.task.experiment == "figure4")
    caption = (
        "Figure 4. error(t) on sparse uniform sources with the printed mixing matrices. Lines are means over runs, "
    )
    caption += "shades 90 % confidence intervals of the mean; level lines are offline methods."
    picture = save("figure4", error_figure(rows, ("d3", "d10")), caption)
    return Section("Figure 4: sparse uniform sources", [picture, _errors(finals, "figure4")])


def _images(config: Reproduction, results: list[Result], finals: list[Row], save: Save) -> Section:
    from math import isqrt

    from ..experiments import curve_rows, image_sources, mix_images
    from ..figures import Section, images_figure

    S = image_sources(config.images)
    side = isqrt(len(S))
    pictures = [("Sources", S), ("Mixtures", mix_images(S))]
    mine = [result for result in results if result.task.experiment == "figure5"]
    for title, name in (("Algorithm 1", "InterneuronNICA"), ("Algorithm 2", "TwoCompartmentNICA")):
        pictures += [
            (title, result.arrays["recovered"])
            for result in mine
            if result.task.network == name and "recovered" in result.arrays
        ]
    caption = f"Figure 5. Left: sources, mixtures, and what the two networks put out in the last of {config.epochs} "
    caption += "presentations of the first run. Right: error(t) as in figure 4."
    picture = save("figure5", images_figure(pictures, (side, side), curve_rows(mine)), caption)
    which = (
        "The user's images."
        if config.images
        else (
            "CC0 images of scikit-image (camera, brick, gravel), not the paper's, for which the hyperparameters were tuned; "
            "--images takes the original ones."
        )
    )
    return Section("Figure 5: images", [which, picture, _errors(finals, "figure5")])


def _grid(means: list[Row], best: list[Row], save: Save) -> Section:
    from ..figures import Section, Table, grid_figure

    heads = (
        "",
        "network",
        "settings",
        "failed",
        "runs of each",
        "best",
        "its error",
        "the paper's",
        "its error",
        "its rank",
    )
    names = ("setting", "network", "settings", "failed", "runs", "best", "error", "paper", "paper_error", "paper_rank")
    rows = [_cells(row, names) for row in best]
    caption = (
        "Table 1. Final error of every learning rate and decay of appendix C's grid; of Algorithm 2, with the best τ."
    )
    return Section("Table 1: the grid search", [Table(heads, rows), save("table1", grid_figure(means), caption)])


def _scatter(result: Result, save: Save) -> Section:
    from ..figures import Section, network_diagram, scatter_figure

    parts = [
        save(
            "figure1",
            scatter_figure(result.arrays),
            f"Figure 1. Plumbley's two steps; three sources followed. Error of the recovered: {result.header['error']:.2g}.",
        ),
        save("figure2", network_diagram("InterneuronNICA"), "Figure 2. The network of Algorithm 1."),
        save("figure3", network_diagram("TwoCompartmentNICA"), "Figure 3. The network of Algorithm 2."),
    ]
    return Section("Figures 1 to 3: the problem and the networks", parts)


def _notes() -> Section:
    from ..experiments import NOTES
    from ..figures import Section, Table

    return Section("How we read the paper", [Table(("the paper", "what we found, and do"), NOTES)])


def _provenance(config: Reproduction, results: list[Result]) -> Section:
    from ..figures import Section, Table

    headers = [result.header for result in results]
    facts = [
        ("runs, first seed", f"{config.runs}, {config.seed}"),
        ("samples of a run", f"{config.n_samples:,} (synthetic), {config.epochs} presentations (images)"),
        ("versions", "; ".join(sorted({header["versions"] for header in headers}))),
        ("machine", "; ".join(sorted({header["machine"] for header in headers}))),
        ("processor time of all runs", f"{sum(header['seconds'] for header in headers):.0f} s"),
    ]
    return Section("Where the numbers come from", [Table(("", ""), facts)])
