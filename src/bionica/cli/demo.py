"""`bionica demo`: mix three images, separate them as a stream of pixels, and make a page that shows it learn."""

import time
from pathlib import Path
from statistics import median_low
from typing import Annotated, Any

import numpy as np
import typer

from .. import io
from .console import Console

NAMES = ("camera", "brick", "gravel")
PICTURE, PAGE = "separation.png", "demo.html"
SHAPE = (512, 512)
TIMES = 60  # how often the error is measured, evenly spaced on a logarithmic axis
RUNS = 9  # orders of the pixels and initial weights; the page shows the run with the median error
SHOWN = (100, 1_000, 10_000, 100_000)  # pixels after which the recovered images are shown, beside those at the end


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the picture and the page.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Of the weights and the order of the pixels.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier picture and page.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Mix three photographs, recover them from the mixtures, pixel by pixel, and make a page that shows it.

    StreamingNICA sees each pixel once, in random order, and starts from random weights. It is not a network of the paper, and its
    rule is not local. Of nine orders the page shows the run with the median error: the recovered images after 100, 1,000, ...
    pixels, and how the error falls.

    For example: bionica demo --seed 1 -o another
    """
    console = Console(json=json, quiet=quiet)
    with console.session(interrupted="Interrupted: the page was not written"):
        for package in ("matplotlib", "skimage"):
            io.import_optional(package, "the demo", "plot")
        io.check_folder(output, [PICTURE, PAGE], replace=force)
        console.say(f"Mixing {', '.join(NAMES)}, and recovering them from the mixtures alone, one pixel at a time")
        findings, contents = _run(seed, console)
        output.mkdir(parents=True, exist_ok=True)
        for name, file, content in zip(("figure", "page"), (PICTURE, PAGE), contents, strict=True):
            io.write_atomically(output / file, content)
            findings[name] = str(output / file)
        matched = [f"{name} {r:.4f}" for name, r in zip(NAMES, findings["correlation"], strict=True)]
        error, speed = findings["error"], f"{findings['pixels_per_second']:,} pixels a second"
        lines = [
            f"StreamingNICA, which is not a local rule; correlation of recovered and original: {', '.join(matched)}"
        ]
        lines.append(f"Error {error:.2g} of a variance of 1, the median of {RUNS} orders of the pixels; {speed}")
        console.result([*lines, f"Open {findings['page']} in a browser to see it learn"], findings)


def _run(seed: int, console: Console) -> tuple[dict[str, Any], tuple[bytes, bytes]]:
    """Return the findings, and the picture and the page."""
    from .. import StreamingNICA, datasets, metrics

    started = time.perf_counter()
    S = datasets.natural_images(names=NAMES, size=None)
    X, _ = datasets.mix(S, datasets.paper_mixing("images"))
    n, rng = len(X), np.random.default_rng(seed)
    orders = [rng.permutation(n) for _ in range(RUNS)]
    times = sorted({*np.geomspace(2, n, TIMES).astype(int).tolist(), *SHOWN})
    with console.progress("Learning", RUNS + 1) as advance:
        errors = []
        for run, order in enumerate(orders):
            before = time.perf_counter()
            network = StreamingNICA(len(NAMES), random_state=seed + run).partial_fit(X[order])
            speed = n / (time.perf_counter() - before)  # of the last run: nothing compiles in it
            errors.append(metrics.permutation_error(S, network.transform(X)))
            advance(1, f"error {errors[-1]:.2g}")
        run = errors.index(median_low(errors))
        curve, frames = dict[int, float](), {}
        network = StreamingNICA(len(NAMES), random_state=seed + run)
        for begin, end in zip([0, *times], times, strict=False):
            Y = network.partial_fit(X[orders[run][begin:end]]).transform(X)
            curve[end] = metrics.permutation_error(S, Y)
            if end in (*SHOWN, n):
                match = metrics.match_sources(S, Y)
                frames[end] = Y[:, match.permutation]
        advance(1, f"error {curve[n]:.2g}")
    findings = {
        "images": list(NAMES), "pixels": n, "seed": seed, "method": "StreamingNICA", "run": run, "error": curve[n],
        "errors": sorted(errors), "correlation": match.correlation.tolist(), "pixels_per_second": round(speed),
        "seconds": round(time.perf_counter() - started, 3), "curve": curve,
    }  # fmt: skip
    return findings, _page(findings, S, X, frames)


def _page(findings: dict[str, Any], S: Any, X: Any, frames: dict[int, Any]) -> tuple[bytes, bytes]:
    """Return the picture and the page. `frames` are the recovered sources by the number of pixels, the last ones at the end."""
    from matplotlib.figure import Figure

    from .. import plot
    from ..report import beside, drawing, figure_bytes, page, picture, slides, table, text

    def images(*rows: tuple[str, Any], width: float = 4.6) -> bytes:
        figure = Figure(figsize=(width, 0.35 * width * len(rows)), layout="constrained")
        for axes, (title, Y) in zip(figure.subplots(len(rows), len(NAMES), squeeze=False), rows, strict=True):
            plot.images(Y, SHAPE, axes=axes)
            axes[0].set_title(title, loc="left", fontsize=10)
        return figure_bytes(figure, "png")

    def learning(ax: Any) -> None:
        ax.loglog(list(curve), list(curve.values()))
        ax.loglog(list(frames), [curve[t] for t in frames], "ko", ms=5)
        ax.set(xlabel="pixels seen", ylabel="mean squared error")
        ax.grid(alpha=0.25)

    curve, errors = findings["curve"], findings["errors"]
    overview = images(("Sources", S), ("Mixtures", X), ("Recovered", frames[len(X)]), width=7.0)
    shown = [picture(images(("", Y)), f"After {t:,} pixels: error {curve[t]:.2g}", "png") for t, Y in frames.items()]
    caption = "Mean squared error against pixels seen, both logarithmic. Dots: the pictures of the slider."
    sections = [
        ("See it learn", [
            text(f"StreamingNICA starts from random weights and sees each of {len(X):,} pixels once, in random order. It has no "
                 "learning rate, and nothing was tuned. It whitens the mixtures, so that its rule is not local: it is not one of "
                 "the paper's networks."),
            beside(slides(shown), drawing(caption, 6.2, 4.2, learning))]),
        ("Sources, mixtures, recovered", [
            picture(overview, "Top: the sources. Middle: the mixtures, which StreamingNICA saw. Bottom: its outputs.", "png",
                    "Three photographs (camera, brick, gravel), three mixtures of them, and three recovered photographs")]),
        ("Numbers", [
            table(("image", "correlation with the original"), [*zip(NAMES, findings["correlation"], strict=True)]),
            text(f"Error {findings['error']:.2g}: the mean squared error on all pixels, of sources with variance 1. It depends on "
                 f"the order of the pixels and on the initial weights: {RUNS} runs end at {errors[0]:.2g} to "
                 f"{errors[-1]:.2g}; this is the median one.")]),
        ("Your own mixtures", [text("`bionica separate mixed-1.png mixed-2.png mixed-3.png -o recovered.png`")]),
    ]  # fmt: skip
    lead = "Three photographs were mixed, and recovered from the mixtures alone, one pixel at a time."
    return overview, page("bionica demo", lead, sections).encode()
