"""`bionica demo`: mix three images, separate them online, and make a page about it."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from .console import Console

NAMES = ("camera", "brick", "gravel")
PASSES = 2
WATCHED = 10_000  # pixels on which the error is measured while the network learns
STARTS = 5  # other starts, from other pixels and seeds: the error differs between them
CHUNK = 4096  # pixels between two measurements of the error


class MixedImages(NamedTuple):
    """Images S, their mixtures X = S A', and indices of pixels."""

    S: Any
    X: Any
    A: Any
    watched: Any  # pixels on which the error is measured
    first: Any  # those of the offline start
    starts: Any  # those of other starts
    order: Any  # the order in which the network sees the pixels


class LearnedNetwork(NamedTuple):
    """A network that has learned, its error after so many samples, and its speed."""

    network: Any
    curve: list[tuple[int, float]]
    pixels_per_second: float


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the picture and the page.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the weights and the order of the pixels.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Mix three images, separate them online, and make a page of what was mixed, learned and recovered.

    TwoCompartmentNICA at its defaults starts from the offline solution on 100,000 pixels, spread evenly, and then learns
    from one pixel after the other. For comparison, the page also shows the same network without that start, and other
    starts.

    For example:

    bionica demo

    bionica demo --seed 1 -o another --json

    Exit status: 0 done, 1 files or packages in the way, 2 wrong usage, 130 interrupted.
    """
    console = Console(json=json, quiet=quiet)
    interrupted = "Interrupted: the page was not written; bionica demo starts from the beginning"
    with console.session(interrupted=interrupted, disk_full="free some space, or choose another folder with --output"):
        _check(output)
        found = _run(output, seed, console)
        others = found["errors_of_other_starts"]
        lines = [
            f"Mean squared error {found['error']:.4f} of sources with variance 1 (their correlation alone costs "
            f"{found['floor']:.4f}); from other starts {others[0]:.4f} to {others[-1]:.4f}, with no offline start "
            f"{found['error_from_nothing']:.4f}",
            f"{found['pixels_per_second']:,.0f} pixels a second; {found['seconds']:.1f} s in all",
            f"Look at {found['page']} and {found['figure']}",
        ]
        console.result(lines, found)


def _check(output: Path) -> None:
    """Fail now rather than at the end if the page cannot be made."""
    place = output.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise ValueError(f"--output {output}: {place} is a file; give a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ValueError(f"--output {output}: {place} may not be written to; choose another folder")
    for package, module in (("matplotlib", "matplotlib"), ("scikit-image", "skimage")):
        try:
            __import__(module)
        except ImportError:
            message = f"the demo needs {package}, which is not installed: pip install 'bionica[plot]'"
            raise ImportError(message) from None


def _run(output: Path, seed: int, console: Console) -> dict[str, Any]:
    from ..io import write_atomically
    from ..report import figure_bytes, separation_figure
    from ..report.demo_page import demo_page

    started = time.perf_counter()
    images = _mixed_images(seed)
    if not console.silent:
        mixtures, pixels = images.X.shape[1], len(images.order)
        typer.echo(f"Separating {', '.join(NAMES)} from {mixtures} mixtures, {pixels:,} pixels one at a time")
    with console.progress("Separating", len(images.order), transient=False) as advance:
        learned = _learn(images, seed, offline_start=True, advance=advance)
    with console.progress("Without the start", len(images.order), transient=False) as advance:
        bare = _learn(images, seed, offline_start=False, advance=advance)
    found, Y, weights = _findings(images, learned, bare, seed)
    picture = figure_bytes(separation_figure(images.S, images.X, Y, (512, 512)), "png")
    found["seconds"] = round(time.perf_counter() - started, 3)
    page = demo_page(found, learned.curve, bare.curve, weights, picture).encode()
    output.mkdir(parents=True, exist_ok=True)
    for name, file, content in (("figure", "separation.png", picture), ("page", "demo.html", page)):
        write_atomically(output / file, content)
        found[name] = str(output / file)
    return found


def _mixed_images(seed: int) -> MixedImages:
    import numpy as np

    from .. import datasets

    S = datasets.natural_images(names=NAMES, size=None)
    X, A = datasets.mix(S, datasets.paper_mixing("images"))
    rng = np.random.default_rng(seed)
    n, block = len(X), 100_000
    order = np.concatenate([rng.permutation(n) for _ in range(PASSES)])
    first = np.arange(block) * n // block  # spread evenly, as `fit` and `bionica separate` start
    starts = [rng.choice(n, block, replace=False) for _ in range(STARTS)]
    return MixedImages(S, X, A, rng.choice(n, WATCHED, replace=False), first, starts, order)


def _learn(images: MixedImages, seed: int, *, offline_start: bool, advance: Callable[..., None]) -> LearnedNetwork:
    """Let a network learn chunk by chunk, and measure its error after each."""
    from .. import TwoCompartmentNICA

    network = TwoCompartmentNICA(len(NAMES), random_state=seed)
    curve: list[tuple[int, float]] = []
    seconds = 0.0

    def measure() -> str:
        curve.append((network.n_samples_seen_, _watched_error(images, network)))
        return f"error {curve[-1][1]:.4f}"

    if offline_start:
        network.fit(images.X[images.first])
        advance(0, measure())
    for begin in range(0, len(images.order), CHUNK):
        chunk = images.X[images.order[begin : begin + CHUNK]]
        before = time.perf_counter()
        network.partial_fit(chunk)
        seconds += time.perf_counter() - before
        advance(len(chunk), f"{(begin + len(chunk)) / seconds:,.0f} pixels/s, {measure()}")
    return LearnedNetwork(network, curve, len(images.order) / seconds)


def _watched_error(images: MixedImages, network: Any) -> float:
    from .. import metrics

    return metrics.permutation_error(images.S[images.watched], network.transform(images.X[images.watched]))


def _findings(
    images: MixedImages, learned: LearnedNetwork, bare: LearnedNetwork, seed: int
) -> tuple[dict[str, Any], Any, tuple[Any, Any, Any]]:
    """Return the numbers, the recovered sources in the order of the sources, and W_xz, W_zz, W_zz^-1 W_xz A."""
    import numpy as np

    from .. import TwoCompartmentNICA, metrics

    others = (
        TwoCompartmentNICA(len(NAMES), random_state=(seed + i) % 2**32).fit(images.X[pixels])
        for i, pixels in enumerate(images.starts, 1)
    )
    Y = learned.network.transform(images.X)
    match = metrics.match_sources(images.S, Y)
    Y = Y[:, match.permutation]
    W_xz, W_zz = learned.network.W_xz_, learned.network.W_zz_
    P = np.linalg.solve(W_zz, W_xz) @ images.A
    found = {
        "images": list(NAMES),
        "watched": WATCHED,
        "method": type(learned.network).__name__,
        "seed": seed,
        "pixels": len(images.X),
        "passes": PASSES,
        "samples": learned.curve[-1][0],
        "offline_start_samples": learned.curve[0][0],
        "error": metrics.permutation_error(images.S, Y),
        "error_at_start": learned.curve[0][1],
        "errors_of_other_starts": sorted(_watched_error(images, network) for network in others),
        "error_from_nothing": metrics.permutation_error(images.S, bare.network.transform(images.X)),
        "floor": metrics.correlation_floor(images.S),
        "amari": metrics.amari_distance(P),
        "outputs": match.permutation.tolist(),
        "correlation": match.correlation.tolist(),
        "sinr_db": metrics.sinr(images.S, Y, per_source=True).tolist(),
        "pixels_per_second": round(learned.pixels_per_second),
    }
    return found, Y, (W_xz, W_zz, P)
