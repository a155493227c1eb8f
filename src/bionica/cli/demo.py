"""`bionica demo`: three images mixed, separated online before the user's eyes, and a page about it."""

import json as jsons
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

NAMES = ("camera", "brick", "gravel")
PASSES = 2
#: Pixels on which the error is measured while the others come.
WATCHED = 10_000
#: Other starts, from other pixels and seeds: the error differs between them.
DRAWS = 5
#: Pixels between two looks at the error.
CHUNK = 4096

#: Called with pixels seen, pixels a second and the error.
Watch = Callable[[int, float, float], object]


@dataclass(frozen=True)
class Problem:
    """Images, their mixtures; pixels to watch, to start from, to start from otherwise; the order in which they come."""

    S: Any
    X: Any
    A: Any
    watched: Any
    first: Any
    draws: Any
    order: Any


@dataclass(frozen=True)
class Stream:
    """A network that has learned, its error on the way, and the seconds that learning took after the start."""

    network: Any
    curve: list[tuple[int, float]]
    pixels_per_second: float


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the picture and the page.")] = Path("demo"),
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Of the initial weights and the order of the pixels.")
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Mix three images, separate them online, and make a page of what was mixed, learned and recovered.

    TwoCompartmentNICA at its defaults starts from the offline solution on 100,000 pixels, spread evenly, and then learns from one
    pixel after the other. Beside it, for comparison: the same network without that start, and other starts.

    For example:

    bionica demo

    bionica demo --seed 1 -o another --json

    Exit status: 0 done, 1 files or packages in the way, 2 wrong usage, 130 interrupted.
    """
    silent = quiet or json
    try:
        _check(output)
        findings = _run(output, seed, silent)
    except KeyboardInterrupt:
        typer.echo("Interrupted: the page was not written; bionica demo starts anew", err=True)
        raise typer.Exit(130) from None
    except OSError as error:
        _fail(f"{error.filename or output}: {error.strerror or error}; choose another folder with --output")
    except (ImportError, ValueError) as error:
        _fail(str(error))
    if json:
        typer.echo(jsons.dumps(findings))
    elif not quiet:
        others = findings["errors_of_other_starts"]
        typer.echo(
            f"Mean squared error {findings['error']:.4f} of sources with variance 1 (their correlation alone costs "
            f"{findings['floor']:.4f}); from other starts {others[0]:.4f} to {others[-1]:.4f}, with no offline start "
            f"{findings['error_from_nothing']:.4f}\n"
            f"{findings['pixels_per_second']:,.0f} pixels a second; {findings['seconds']:.1f} s in all\n"
            f"Look at {findings['page']} and {findings['figure']}"
        )


def _fail(message: str) -> None:
    typer.echo(f"Error: {' '.join(message.split())}", err=True)
    raise typer.Exit(1) from None


def _check(output: Path) -> None:
    """Say what would go wrong at the end, before the work begins."""
    place = output.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise ValueError(f"--output {output}: {place} is a file; give a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ValueError(f"--output {output}: {place} may not be written to; choose another folder")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("the pictures need matplotlib, which is not installed: pip install 'bionica[plot]'") from None
    try:
        import skimage  # noqa: F401
    except ImportError:
        raise ImportError(
            "the images belong to scikit-image, which is not installed: pip install 'bionica[plot]'"
        ) from None


def _run(output: Path, seed: int, silent: bool) -> dict[str, Any]:
    from .. import report as figures
    from ..io.tables import write_atomically
    from ..report.demo_page import demo_page

    started = time.perf_counter()
    problem = _problem(seed)
    total = len(problem.order)
    if not silent:
        typer.echo(f"Separating {', '.join(NAMES)} from {problem.X.shape[1]} mixtures, {total:,} pixels one at a time")
    with _live(total, "Separating", silent) as watch:
        stream = _learn(problem, seed, offline_start=True, watch=watch)
    with _live(total, "Without the start", silent) as watch:
        bare = _learn(problem, seed, offline_start=False, watch=watch)
    findings = _findings(problem, stream, bare, seed)
    files = {"figure": output / "separation.png", "page": output / "demo.html"}
    picture = figures.figure_bytes(_separation(problem, stream), "png")
    findings["seconds"] = round(time.perf_counter() - started, 3)
    page = demo_page(findings, stream.curve, bare.curve, _products(problem, stream), picture).encode()
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(files["figure"], picture)
    write_atomically(files["page"], page)
    return findings | {name: str(file) for name, file in files.items()}


# ---------------------------------------------------------------------------------------------- learning


def _problem(seed: int) -> Problem:
    import numpy as np

    from .. import TwoCompartmentNICA, datasets

    S = datasets.natural_images(names=NAMES, size=None)
    X, A = datasets.mix(S, datasets.paper_mixing("images"))
    rng = np.random.default_rng(seed)
    n, block = len(X), TwoCompartmentNICA().init_samples
    order = np.concatenate([rng.permutation(n) for _ in range(PASSES)])
    first = np.arange(block) * n // block  # spread evenly, as `fit` and `bionica separate` start
    draws = [rng.choice(n, block, replace=False) for _ in range(DRAWS)]
    return Problem(S, X, A, rng.choice(n, WATCHED, replace=False), first, draws, order)


def _learn(problem: Problem, seed: int, *, offline_start: bool, watch: Watch) -> Stream:
    """Take the pixels through a network chunk by chunk, with a look at the error after each."""
    from .. import TwoCompartmentNICA, metrics

    network = TwoCompartmentNICA(len(NAMES), random_state=seed)
    S, X = problem.S[problem.watched], problem.X[problem.watched]
    curve: list[tuple[int, float]] = []
    seconds = 0.0
    if offline_start:
        network.fit(problem.X[problem.first])
        curve.append((network.n_samples_seen_, metrics.permutation_error(S, network.transform(X))))
        watch(0, 0.0, curve[-1][1])
    for begin in range(0, len(problem.order), CHUNK):
        chunk = problem.X[problem.order[begin : begin + CHUNK]]
        before = time.perf_counter()
        network.partial_fit(chunk)
        seconds += time.perf_counter() - before
        curve.append((network.n_samples_seen_, metrics.permutation_error(S, network.transform(X))))
        watch(begin + len(chunk), (begin + len(chunk)) / seconds, curve[-1][1])
    return Stream(network, curve, len(problem.order) / seconds)


def _other_starts(problem: Problem, seed: int) -> list[float]:
    """Return the errors of offline starts on other pixels with other seeds, in order."""
    from .. import TwoCompartmentNICA, metrics

    S, X = problem.S[problem.watched], problem.X[problem.watched]
    seeds = ((seed + 1 + i) % 2**32 for i in range(DRAWS))
    networks = (
        TwoCompartmentNICA(len(NAMES), random_state=other).fit(problem.X[draw])
        for other, draw in zip(seeds, problem.draws, strict=True)
    )
    return sorted(metrics.permutation_error(S, network.transform(X)) for network in networks)


@contextmanager
def _live(total: int, title: str, silent: bool) -> Iterator[Watch]:
    """A line on standard error that lives while pixels come, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=20), TaskProgressColumn(), TextColumn("{task.fields[now]}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=silent or not console.is_terminal) as progress:
        task = progress.add_task(title, total=total, now="starting")

        def watch(seen: int, rate: float, error: float) -> None:
            speed = f"{rate:,.0f} pixels/s, " if rate else ""
            progress.update(task, completed=seen, now=f"{speed}error {error:.4f}")

        yield watch


# ---------------------------------------------------------------------------------------------- what was found


def _recovered(problem: Problem, stream: Stream) -> tuple[Any, Any]:
    """Return all pixels of the recovered sources in the order of the sources, and what belongs to what."""
    from .. import metrics

    Y = stream.network.transform(problem.X)
    match = metrics.match_sources(problem.S, Y)
    return Y[:, match.permutation], match


def _separation(problem: Problem, stream: Stream) -> Any:
    from ..report import separation_figure

    return separation_figure(problem.S, problem.X, _recovered(problem, stream)[0], (512, 512))


def _products(problem: Problem, stream: Stream) -> tuple[Any, Any, Any]:
    """Return W_xz, W_zz, and what the network makes of the sources: W_zz^-1 W_xz A."""
    import numpy as np

    W_xz, W_zz = stream.network.W_xz_, stream.network.W_zz_
    return W_xz, W_zz, np.linalg.solve(W_zz, W_xz) @ problem.A


def _findings(problem: Problem, stream: Stream, bare: Stream, seed: int) -> dict[str, Any]:
    from .. import metrics

    Y, match = _recovered(problem, stream)
    return {
        "images": list(NAMES),
        "watched": WATCHED,
        "method": type(stream.network).__name__,
        "seed": seed,
        "pixels": len(problem.X),
        "passes": PASSES,
        "samples": stream.curve[-1][0],
        "offline_start_samples": stream.curve[0][0],
        "error": metrics.permutation_error(problem.S, Y),
        "error_at_start": stream.curve[0][1],
        "errors_of_other_starts": _other_starts(problem, seed),
        "error_from_nothing": metrics.permutation_error(problem.S, bare.network.transform(problem.X)),
        "floor": metrics.correlation_floor(problem.S),
        "amari": metrics.amari_distance(_products(problem, stream)[2]),
        "outputs": match.permutation.tolist(),
        "correlation": match.correlation.tolist(),
        "sinr_db": metrics.sinr(problem.S, Y, per_source=True).tolist(),
        "pixels_per_second": round(stream.pixels_per_second),
    }
