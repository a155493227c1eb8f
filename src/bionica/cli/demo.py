"""`bionica demo`: mix three images, separate them as a stream of pixels, and make a page about it."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NamedTuple

import typer

from .console import Console

NAMES = ("camera", "brick", "gravel")
PICTURE, PAGE = "separation.png", "demo.html"
METHOD, NETWORK = "StreamingNICA", "TwoCompartmentNICA"
WATCHED = 10_000  # pixels on which the error is measured while a network learns
TIMES = 120  # how often it is measured, evenly spaced on a logarithmic axis
ORDERS = 9  # other orders of the pixels: the error differs between them
LARGE = 1000  # pixels of a chunk by which the speed is measured; in smaller ones the call itself takes longer


class MixedImages(NamedTuple):
    """Images S, their mixtures X = S A', and indices of pixels."""

    S: Any
    X: Any
    A: Any
    watched: Any  # pixels on which the error is measured
    order: Any  # the order of the stream
    other_orders: Any


class Learned(NamedTuple):
    """A network after one pass over the pixels, the pixels that it starts with, its error after so many, and its speed."""

    network: Any
    start: int
    curve: list[tuple[int, float]]
    pixels_per_second: float


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the picture and the page.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the weights and the order of the pixels.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Mix three images, separate them pixel by pixel, and make a page of what was mixed, learned and recovered.

    StreamingNICA sees each pixel once, in random order, and starts from random weights. The page shows how its error falls
    with the number of pixels. For comparison it also shows the paper's network TwoCompartmentNICA on the same stream, and
    the error of the offline method BatchNICA, which has all pixels in memory.

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
        others = found["errors_of_other_orders"]
        lines = [
            f"Mean squared error of sources with variance 1, one pass: {METHOD} {found['error']:.2g} ({len(others)} other orders "
            f"of the pixels: {others[0]:.2g} to {others[-1]:.2g}, median {median(others):.2g}), {NETWORK} "
            f"{found['network_error']:.2g}; offline: BatchNICA {found['batch_error']:.2g}",
            f"{found['pixels_per_second']:,.0f} pixels a second; {found['seconds']:.1f} s in all",
            f"Look at {found['page']} and {found['figure']}",
        ]
        console.result(lines, found)


def _check(output: Path) -> None:
    """Fail now rather than at the end if the page cannot be made."""
    from ..io import check_folder

    check_folder(output, [PICTURE, PAGE], replace=True)
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
    with console.progress(METHOD, len(images.order), transient=False) as advance:
        learned = _learn(images, METHOD, seed, advance)
    with console.progress(NETWORK, len(images.order), transient=False) as advance:
        other = _learn(images, NETWORK, seed, advance)
    found, Y, matrices = _findings(images, learned, other, seed)
    picture = figure_bytes(separation_figure(images.S, images.X, Y, (512, 512)), "png")
    found["seconds"] = round(time.perf_counter() - started, 3)
    page = demo_page(found, matrices, picture).encode()
    output.mkdir(parents=True, exist_ok=True)
    for name, file, content in (("figure", PICTURE, picture), ("page", PAGE, page)):
        write_atomically(output / file, content)
        found[name] = str(output / file)
    return found


def _mixed_images(seed: int) -> MixedImages:
    import numpy as np

    from .. import datasets

    S = datasets.natural_images(names=NAMES, size=None)
    X, A = datasets.mix(S, datasets.paper_mixing("images"))
    rng = np.random.default_rng(seed)
    order, *others = (rng.permutation(len(X)) for _ in range(1 + ORDERS))
    return MixedImages(S, X, A, rng.choice(len(X), WATCHED, replace=False), order, others)


def _learn(images: MixedImages, name: str, seed: int, advance: Callable[..., None]) -> Learned:
    """Show a network the pixels in their order, and measure its error at `TIMES` times."""
    import numpy as np

    import bionica

    network = getattr(bionica, name)(len(NAMES), random_state=seed)
    times = np.unique(np.geomspace(2, len(images.order), TIMES).astype(int)).tolist()
    curve: list[tuple[int, float]] = []
    start, pixels, seconds = 0, 0, 0.0
    for begin, end in zip([0, *times], times, strict=False):
        chunk = images.X[images.order[begin:end]]
        before = time.perf_counter()
        network.partial_fit(chunk)
        if len(chunk) >= LARGE:
            pixels, seconds = pixels + len(chunk), seconds + time.perf_counter() - before
        start = start or end + network.n_samples_until_start_
        if end >= start:
            curve.append((end, _watched_error(images, network)))
        speed = f"{pixels / seconds:,.0f} pixels/s, " if pixels else ""
        advance(len(chunk), f"{speed}error {curve[-1][1]:.2g}" if curve else "has not started")
    return Learned(network, start, curve, pixels / seconds)


def _watched_error(images: MixedImages, network: Any) -> float:
    from .. import metrics

    return metrics.permutation_error(images.S[images.watched], network.transform(images.X[images.watched]))


def _findings(
    images: MixedImages, learned: Learned, other: Learned, seed: int
) -> tuple[dict[str, Any], Any, tuple[Any, Any, Any]]:
    """Return the numbers, the recovered sources in the order of the sources, and W, W A and the other network's W A."""
    from .. import BatchNICA, StreamingNICA, metrics

    streams = (
        StreamingNICA(len(NAMES), random_state=(seed + i) % 2**32).partial_fit(images.X[order])
        for i, order in enumerate(images.other_orders, 1)
    )
    batch = BatchNICA(len(NAMES), random_state=seed).fit(images.X)
    Y = learned.network.transform(images.X)
    Z = other.network.transform(images.X)
    match = metrics.match_sources(images.S, Y)
    Y = Y[:, match.permutation]
    W = learned.network.components_[match.permutation]
    V = other.network.components_[metrics.match_sources(images.S, Z).permutation]
    found = {
        "images": list(NAMES),
        "pixels": len(images.X),
        "watched": WATCHED,
        "seed": seed,
        "method": METHOD,
        "error": metrics.permutation_error(images.S, Y),
        "errors_of_other_orders": sorted(_watched_error(images, network) for network in streams),
        "network": NETWORK,
        "network_start": other.start,
        "network_error": metrics.permutation_error(images.S, Z),
        "batch_error": metrics.permutation_error(images.S, batch.transform(images.X)),
        "floor": metrics.correlation_floor(images.S),
        "amari": metrics.amari_distance(W @ images.A),
        "correlation": match.correlation.tolist(),
        "sinr_db": metrics.sinr(images.S, Y, per_source=True).tolist(),
        "pixels_per_second": round(learned.pixels_per_second),
        "network_pixels_per_second": round(other.pixels_per_second),
        "curves": {METHOD: learned.curve, NETWORK: other.curve},
    }
    return found, Y, (W, W @ images.A, V @ images.A)
