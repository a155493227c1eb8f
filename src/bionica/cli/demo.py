"""`bionica demo`: mix three images, separate them as a stream of pixels, and make a page that shows it learn."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median_low
from typing import Annotated, Any

import numpy as np
import typer

from .. import io
from .console import Console, require

NAMES = ("camera", "brick", "gravel")
PICTURE, PAGE = "separation.png", "demo.html"
METHOD, NETWORK = "StreamingNICA", "TwoCompartmentNICA"
SHAPE = (512, 512)
WATCHED = 10_000  # pixels on which the error is measured while a network learns
TIMES = 120  # how often it is measured, evenly spaced on a logarithmic axis
RUNS = 9  # orders of the pixels and initial weights: the error depends on them, and the page shows the median run
SHOWN = (100, 1_000, 10_000, 100_000)  # pixels after which the recovered images are shown, beside those at the end


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the picture and the page.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Of the weights and the order of the pixels.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier picture and page.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Mix three images, separate them pixel by pixel, and make a page of what was mixed, learned and recovered.

    StreamingNICA sees each pixel once, in random order, and starts from random weights. Of nine orders the page shows the run
    with the median error: the recovered images after 100, 1,000, ... pixels, and how the error falls. It also shows the
    paper's network TwoCompartmentNICA on the same stream, and the offline method BatchNICA, which has all pixels in memory.

    For example: bionica demo --seed 1 -o another

    Exit status: 0 done, 1 files or packages in the way, 2 wrong usage, 130 interrupted.
    """
    console = Console(json=json, quiet=quiet)
    interrupted = "Interrupted: the page was not written; bionica demo starts from the beginning"
    with console.session(interrupted=interrupted, disk_full="free some space, or choose another folder with --output"):
        require("the demo", "matplotlib", "skimage")
        io.check_folder(output, [PICTURE, PAGE], replace=force)
        findings = _run(output, seed, console)
        errors = findings["errors"]
        lines = [
            f"Mean squared error of sources with variance 1, one pass: {METHOD} {findings['error']:.2g} (median of {RUNS} orders "
            f"of the pixels, {errors[0]:.2g} to {errors[-1]:.2g}), {NETWORK} {findings['network_error']:.2g}; offline: BatchNICA "
            f"{findings['batch_error']:.2g}",
            f"{findings['pixels_per_second']:,.0f} pixels a second; {findings['seconds']:.1f} s in all",
            f"Look at {findings['page']} and {findings['figure']}",
        ]
        console.result(lines, findings)


def _run(output: Path, seed: int, console: Console) -> dict[str, Any]:
    from .. import BatchNICA, datasets, metrics

    started = time.perf_counter()
    S = datasets.natural_images(names=NAMES, size=None)
    X, _ = datasets.mix(S, datasets.paper_mixing("images"))
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(X)) for _ in range(RUNS)]
    watched = rng.choice(len(X), WATCHED, replace=False)
    if not console.silent:
        typer.echo(f"Separating {', '.join(NAMES)} from {X.shape[1]} mixtures, {len(X):,} pixels one at a time")

    def error(network: Any) -> float:
        return metrics.permutation_error(S[watched], network.transform(X[watched]))

    with console.progress(f"{RUNS} orders", RUNS, transient=False) as advance:
        errors = []
        for i, order in enumerate(orders):
            errors.append(error(_new(METHOD, seed + i).partial_fit(X[order])))
            advance(1, f"error {errors[-1]:.2g}")
    run = errors.index(median_low(errors))
    stream = X[orders[run]]
    curves, outputs, speed = {}, {}, {}
    for name in (METHOD, NETWORK):
        with console.progress(name, len(X), transient=False) as advance:
            curves[name], outputs[name], speed[name] = _learn(_new(name, seed + run), stream, X, error, advance)
    frames = {t: Y[:, metrics.match_sources(S, Y).permutation] for t, Y in outputs[METHOD].items()}
    batch = BatchNICA(len(NAMES), random_state=seed).fit(X)
    findings = {
        "images": list(NAMES), "pixels": len(X), "watched": WATCHED, "seed": seed, "method": METHOD, "run": run,
        "error": metrics.permutation_error(S, frames[len(X)]), "errors": sorted(errors), "network": NETWORK,
        "network_error": metrics.permutation_error(S, outputs[NETWORK][len(X)]),
        "batch_error": metrics.permutation_error(S, batch.transform(X)),
        "correlation": metrics.match_sources(S, frames[len(X)]).correlation.tolist(),
        "pixels_per_second": round(speed[METHOD]), "curves": curves,
    }  # fmt: skip
    picture, page = _page(findings, (S, X), frames, started)
    output.mkdir(parents=True, exist_ok=True)
    for name, file, content in (("figure", PICTURE, picture), ("page", PAGE, page)):
        io.write_atomically(output / file, content)
        findings[name] = str(output / file)
    return findings


def _new(name: str, seed: int) -> Any:
    import bionica

    return getattr(bionica, name)(len(NAMES), random_state=seed)


def _learn(
    network: Any, stream: Any, X: Any, error: Callable[[Any], float], advance: Callable[..., None]
) -> tuple[list[tuple[int, float]], dict[int, Any], float]:
    """Show a network the pixels in their order. Return its error and its outputs by the number of pixels, and pixels a second."""
    n = len(stream)
    curve, outputs, speed = [], {}, 0.0
    times = sorted({*np.geomspace(2, n, TIMES).astype(int).tolist(), *SHOWN})
    for begin, end in zip([0, *times], times, strict=False):
        before = time.perf_counter()
        network.partial_fit(stream[begin:end])
        speed = (end - begin) / (time.perf_counter() - before)  # of the last and largest chunk: nothing compiles in it
        if not getattr(network, "n_samples_until_start_", 0):
            curve.append((end, error(network)))
            advance(end - begin, f"{speed:,.0f} pixels/s, error {curve[-1][1]:.2g}")
            if end in (*SHOWN, n):
                outputs[end] = network.transform(X)
    return curve, outputs, speed


def _page(
    findings: dict[str, Any], arrays: tuple[Any, Any], frames: dict[int, Any], started: float
) -> tuple[bytes, bytes]:
    """Return the picture and the page. `frames` are the recovered sources by the number of pixels, the last ones at the end."""
    from matplotlib.figure import Figure

    from .. import plot
    from ..report import Beside, PageTable, Picture, Section, Slides, figure_bytes, page

    def images(*rows: tuple[str, Any], width: float = 7.0) -> bytes:
        figure = Figure(figsize=(width, 0.35 * width * len(rows)), layout="constrained")
        for axes, (title, Y) in zip(figure.subplots(len(rows), len(NAMES), squeeze=False), rows, strict=True):
            plot.images(Y, SHAPE, axes=axes)
            axes[0].set_title(title, loc="left", fontsize=10)
        return figure_bytes(figure, "png")

    def learning() -> bytes:
        figure = Figure(figsize=(6.2, 4.2), layout="constrained")
        ax = figure.subplots()
        for name, points in findings["curves"].items():
            ax.loglog(*zip(*points, strict=True), label=name)
        ax.axhline(findings["batch_error"], color="0.3", ls="-.", lw=1.2, label="BatchNICA (offline)")
        marks = [point for point in findings["curves"][METHOD] if point[0] in frames]
        ax.loglog(*zip(*marks, strict=True), "ko", ms=5)
        ax.set(xlabel="pixels seen", ylabel="mean squared error")
        ax.grid(alpha=0.25)
        ax.legend(frameon=False)
        return figure_bytes(figure, "svg")

    picture = images(("Sources", arrays[0]), ("Mixtures", arrays[1]), ("Recovered", frames[findings["pixels"]]))
    errors, falls = findings["errors"], dict(findings["curves"][METHOD])
    slides = [
        Picture(images((f"After {t:,} pixels", Y), width=4.6), f"After {t:,} pixels: error {falls[t]:.2g}", "png")
        for t, Y in frames.items()
    ]
    findings["seconds"] = round(time.perf_counter() - started, 3)
    table = [
        (METHOD, findings["error"]), (NETWORK, findings["network_error"]), ("BatchNICA (offline)", findings["batch_error"])
    ]  # fmt: skip
    correlations = [f"{value:.4f}" for value in findings["correlation"]]
    sections = [
        Section("See it learn", [
            f"{METHOD} starts from random weights and sees each of {findings['pixels']:,} pixels once, in random order. It has no "
            "learning rate, and nothing was tuned. Move the slider.",
            Beside([Slides(slides), Picture(learning(), f"Mean squared error on {WATCHED:,} pixels against pixels seen, both "
                                            "logarithmic. Dots: the pictures of the slider.")]),
            f"The paper's network {NETWORK} (Algorithm 2) sees the same stream. The horizontal line is BatchNICA, which has all "
            "pixels in memory."]),
        Section("Sources, mixtures, recovered", [
            Picture(picture, f"Top: the sources. Middle: what {METHOD} saw. Bottom: what it recovered.", "png",
                    "Three photographs (camera, brick, gravel), three mixtures of them, and three recovered photographs")]),
        Section("Numbers", [
            PageTable(("method", "error"), table),
            "The error is the mean squared error on all pixels. It depends on the order of the pixels and on the initial weights: "
            f"{RUNS} runs end at {errors[0]:.2g} to {errors[-1]:.2g}, and this page shows the median one.",
            PageTable(("source", "correlation"), list(zip(NAMES, correlations, strict=True)))]),
        Section("Your own mixtures", ["`bionica separate mixed-1.png mixed-2.png mixed-3.png -o recovered.png`"]),
    ]  # fmt: skip
    lead = "Three photographs were mixed, and recovered from the mixtures alone, one pixel at a time."
    return picture, page("bionica demo", lead, sections).encode()
