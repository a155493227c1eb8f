"""`bionica demo`: mix pictures, let networks recover them pixel by pixel, and make a
page that shows their synapses learn.
"""

import time
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from statistics import median_low
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import typer

from bionica import io
from bionica.cli.console import Console

PICTURE = "separation.png"
PAGE = "demo.html"
# orders of the pixels and initial weights; the page shows the run with the median error
RUNS = 3
LEAD = (
    "Three pictures were mixed. Networks of a few neurons see the mixtures alone, one"
    " pixel at a time, and learn to recover the pictures. Choose a network and move the"
    " slider: recovered pictures and synapses are those of that moment."
)
WORDS = (
    "Error: the mean squared difference of outputs and sources, both of variance 1,"
    " after one pass. Of several runs, from other weights and with the pixels in"
    " another order, the one with the median error is shown. Local rules: a synapse"
    " learns from what its two neurons know. Algorithms 1 and 2 are those of the paper,"
    " the others are not in it. The paper repairs weights of Algorithms 1 and 2 in rare"
    " cases (appendix C, `repairs_`); these repairs are not all local."
)
# pixels after which networks are shown, beside the end
TIMES = (300, 1_000, 3_000, 10_000, 30_000)


class DemoNetwork(NamedTuple):
    """What a network is."""

    cls: str
    origin: str
    local: str  # yes or no
    sentence: str


NETWORKS = {
    "Algorithm 1": DemoNetwork(
        "InterneuronNICA",
        "the paper",
        "yes",
        "Algorithm 1 of the paper: neurons inhibit each other through interneurons."
        " Each synapse learns from its two neurons.",
    ),
    "Algorithm 2": DemoNetwork(
        "TwoCompartmentNICA",
        "the paper",
        "yes",
        "Algorithm 2 of the paper: neurons with a dendrite and a soma. Each synapse"
        " learns from its two neurons.",
    ),
    "LocalNICA": DemoNetwork(
        "LocalNICA",
        "bionica",
        "yes",
        "Not in the paper: neurons as in Algorithm 2, with other rules, which are local"
        " too and need no tuning.",
    ),
    "StreamingNICA": DemoNetwork(
        "StreamingNICA",
        "bionica",
        "no",
        "Not in the paper, not local and not a circuit: an algorithm for data. The"
        " numbers are its unmixing matrix.",
    ),
}


class Problem(NamedTuple):
    """Sources, (n_pixels, 3), and what the page says of them."""

    S: Any
    shape: tuple[int, int]
    # of the paper: the mixing matrix, and the settings of Algorithms 1 and 2
    setting: Literal["d3", "images"]
    first: str  # the network that is selected at first
    why: str


def problems(rng: np.random.Generator) -> dict[str, Problem]:
    """Return what is separated, by name."""
    from bionica import datasets

    # uniform where the mask is, 0 elsewhere; variance 1
    def filled(*masks: Any) -> Any:
        S = np.column_stack([mask.ravel() for mask in masks]) * rng.random(
            (masks[0].size, len(masks))
        )
        return S / S.std(axis=0)

    i, j = np.indices((320, 320)) / 320
    stripes = filled(*(np.floor(8 * u) % 2 == 0 for u in (i, j, i + j)))
    return {
        "Sources of the paper": Problem(
            stripes,
            i.shape,
            "d3",
            "Algorithm 1",
            "The sources of the paper's figure 4, laid out as pictures: each is black"
            " on half of its pixels and uniform on the others, independently of the"
            " other two. They are mixed by the paper's matrix, and Algorithms 1 and 2"
            " have the paper's settings. Local rules learn such sources most reliably,"
            " because each is often exactly zero.",
        ),
        "Photographs": Problem(
            datasets.natural_images(names=("camera", "brick", "gravel"), size=None),
            (512, 512),
            "images",
            "LocalNICA",
            "Photographs are harder, because a pixel is seldom black. Algorithms 1 and"
            " 2 have the matrix of the authors' images and the paper's settings for"
            " these, and seldom learn these in one pass. LocalNICA learns them, with"
            " faint traces of the other pictures. StreamingNICA, which is not local,"
            " does better.",
        ),
    }


def demo(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for the picture and the page."),
    ] = Path("demo"),
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=2**31, help="Of the weights and the order of the pixels."
        ),
    ] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an earlier picture and page.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the findings as JSON.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")
    ] = False,
) -> None:
    """Mix three pictures, let networks recover them pixel by pixel, and make a page
    that shows how.

    Algorithms 1 and 2 of the paper, and LocalNICA and StreamingNICA, which are not in
    it, learn sources of the paper and photographs. Each sees every pixel once, in
    random order, and starts from random weights. On the page a slider moves the
    recovered pictures and the synapses of the network that is selected.

    For example: bionica demo --seed 1 -o another
    """
    console = Console(json=json, quiet=quiet)
    with console.session(interrupted="Interrupted: the page was not written"):
        for package in ("matplotlib", "skimage"):
            io.import_optional(package, "the demo", "plot")
        io.check_folder(output, [PICTURE, PAGE], replace=force)
        console.say(
            "Mixing pictures, and recovering them from the mixtures alone, one pixel at"
            " a time"
        )
        findings, contents = _run(seed, console)
        output.mkdir(parents=True, exist_ok=True)
        for name, file, content in zip(
            ("figure", "page"), (PICTURE, PAGE), contents, strict=True
        ):
            io.write_atomically(output / file, content)
            findings[name] = str(output / file)
        lines = [
            "Mean squared error of sources with variance 1, after one pass; the median"
            f" of {RUNS} runs:"
        ]
        for name, (_, origin, local, _) in NETWORKS.items():
            errors = (
                f"{title.lower()} {_short(of[name]['error'])}"
                for title, of in findings["problems"].items()
            )
            lines.append(
                f"{name} (from {origin}; local rules: {local}): {', '.join(errors)}"
            )
        console.result(
            [*lines, f"Open {findings['page']} in a browser to see them learn"],
            findings,
        )


def _run(seed: int, console: Console) -> tuple[dict[str, Any], tuple[bytes, bytes]]:
    """Return the findings, and the picture and the page."""
    from bionica import datasets, metrics
    from bionica.core.page import page, text

    started = time.perf_counter()
    rng = np.random.default_rng(seed)
    chosen = problems(rng)
    found = dict[str, dict[str, Any]]()
    sections = []
    picture = b""
    with console.progress("Learning", len(chosen) * len(NETWORKS)) as advance:
        for title, problem in chosen.items():
            X, _ = datasets.mix(problem.S, datasets.paper_mixing(problem.setting))
            orders = [rng.permutation(len(X)) for _ in range(RUNS)]
            found[title] = {}
            slides = {}
            for name, about in NETWORKS.items():
                runs = [
                    _learn(about, problem, X[order], seed + i)
                    for i, order in enumerate(orders)
                ]
                errors = [_outputs(problem.S, run[len(X)], X)[1] for run in runs]
                run = runs[errors.index(median_low(errors))]
                moments = {
                    t: (network, *_outputs(problem.S, network, X))
                    for t, network in run.items()
                }
                curve = {t: error for t, (_, _, error) in moments.items()}
                result = {
                    "error": curve[len(X)],
                    "errors": sorted(errors),
                    "curve": curve,
                }
                found[title][name] = about._asdict() | result
                slides[name] = [
                    _slide(about, problem.shape, t, *moment)
                    for t, moment in moments.items()
                ]
                advance(1, f"{title}: {name}, error {_short(curve[len(X)])}")
                if (title, name) == ("Photographs", "StreamingNICA"):
                    Y = moments[len(X)][1]
                    Y = Y[:, metrics.match_sources(problem.S, Y).permutation]
                    rows = {"Sources": problem.S, "Mixtures": X, "Recovered": Y}
                    picture = _draw_images(
                        problem.shape,
                        7.0,
                        "png",
                        *((("", row, ""), Y) for row, Y in rows.items()),
                    )
            sections.append((title, _section(title, problem, X, found[title], slides)))
    own = "`bionica separate mixed-1.png mixed-2.png mixed-3.png -o recovered.png`"
    sections += [
        ("What the words mean", [text(WORDS)]),
        ("Your own mixtures", [text(own)]),
    ]
    findings = {
        "seed": seed,
        "runs": RUNS,
        "seconds": round(time.perf_counter() - started, 3),
        "problems": found,
    }
    return findings, (
        picture,
        page("Networks that unmix pictures", LEAD, sections).encode(),
    )


def _learn(about: DemoNetwork, problem: Problem, X: Any, seed: int) -> dict[int, Any]:
    """Return the network as it is after each of `TIMES` and at the end of X."""
    import bionica

    cls = getattr(bionica, about.cls)
    ends = (*TIMES, len(X))
    if about.origin == "the paper":
        network = cls.as_published(problem.setting, random_state=seed)
    else:
        network = cls(problem.S.shape[1], random_state=seed)
    return {
        end: deepcopy(network.partial_fit(X[begin:end]))
        for begin, end in zip((0, *TIMES), ends, strict=True)
    }


def _outputs(S: Any, network: Any, X: Any) -> tuple[Any, float]:
    """Return the outputs, scaled to variance 1, and their error."""
    from bionica.metrics import permutation_error

    Y = network.transform(X)
    Y /= np.maximum(Y.std(axis=0), np.finfo(float).tiny)
    return Y, permutation_error(S, Y)


def _short(error: float) -> str:
    """Return two digits of an error, without an exponent."""
    return (
        "below 0.00001"
        if error < 1e-5
        else np.format_float_positional(error, 2, fractional=False, trim="-")
    )


def _draw_images(
    shape: tuple[int, int], width: float, kind: str, *rows: tuple[Sequence[str], Any]
) -> bytes:
    """Return pictures with these names and pixels, one row below the other."""
    from matplotlib.figure import Figure

    from bionica.circuits import plot
    from bionica.core.page import figure_bytes

    figure = Figure(figsize=(width, 0.4 * width * len(rows)))
    for axes, (names, Y) in zip(
        figure.subplots(len(rows), len(rows[0][0]), squeeze=False), rows, strict=True
    ):
        plot.images(Y, shape, names=names, axes=axes)
    # a layout that needs no time
    figure.subplots_adjust(0, 0, 1, 1 - 0.15 / len(rows), 0.03)
    return figure_bytes(figure, kind)


def _slide(
    about: DemoNetwork,
    shape: tuple[int, int],
    t: int,
    network: Any,
    Y: Any,
    error: float,
) -> str:
    """Return a network after t pixels: the pictures that its neurons recover, and its
    circuit.
    """
    from matplotlib.figure import Figure

    from bionica.circuits import plot
    from bionica.core.page import figure_bytes, picture, text

    names, mixtures = (
        [f"{kind} {i + 1}" for i in range(Y.shape[1])] for kind in ("output", "mixture")
    )
    caption = f"{t:,} of {len(Y):,} pixels: error {_short(error)}"
    figure = Figure(figsize=(4.4, 2.8))
    if about.cls == "StreamingNICA":
        plot.weights(
            network.components_,
            rows=names,
            columns=mixtures,
            ax=figure.add_axes((0.2, 0.2, 0.75, 0.7)),
        )
    else:
        plot.circuit(network, ax=figure.add_axes((0, 0.1, 1, 0.9)))
    circuit = picture(figure_bytes(figure, "svg"), "", alt=f"Synapses. {caption}")
    recovered = picture(
        _draw_images(shape, 3.6, "jpeg", (names, Y)),
        "",
        "jpeg",
        f"Recovered pictures. {caption}",
    )
    return text(about.sentence) + text(caption, "p", "caption") + recovered + circuit


def _section(
    title: str,
    problem: Problem,
    X: Any,
    found: dict[str, Any],
    shown: dict[str, list[str]],
) -> list[str]:
    """Return the section of a problem: what was mixed, the networks at work, and their
    errors.
    """
    from bionica.core.page import beside, drawing, picture, slides, table, text

    def curves(ax: Any) -> None:
        for name, finding in found.items():
            ax.loglog(
                list(finding["curve"]),
                list(finding["curve"].values()),
                "o-",
                ms=4,
                label=name,
            )
        ax.set(xlabel="pixels seen", ylabel="mean squared error")
        ax.grid(alpha=0.25)
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)

    def pictures(name: str, caption: str, Y: Any) -> str:
        names = [f"{name} {i + 1}" for i in range(Y.shape[1])]
        return picture(
            _draw_images(problem.shape, 3.6, "jpeg", (names, Y)), caption, "jpeg"
        )

    inputs = [
        pictures("source", "The sources, which no network sees.", problem.S),
        pictures(
            "mixture", "The mixtures, which all networks see, one pixel at a time.", X
        ),
        text(problem.why),
    ]
    rows = [(name, of["local"], _short(of["error"])) for name, of in found.items()]
    caption = "Error against pixels seen, both logarithmic."
    numbers = beside(
        table(("network", "local", "error"), rows), drawing(caption, 4.4, 3.2, curves)
    )
    return [
        beside(
            f"<div>{''.join(inputs)}</div>",
            slides(title, shown, "pixels seen", problem.first),
        ),
        numbers,
    ]
