"""The page of `bionica demo`: networks that recover mixed pictures, pixel by pixel."""

import time
from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from statistics import median_low
from typing import Any, Literal, NamedTuple

import numpy as np

import bionica
from bionica import datasets, metrics
from bionica.circuits import plot
from bionica.cli.console import Console
from bionica.core.page import beside, figure_bytes, page, picture, slides, table, text
from bionica.core.plot import new_figure

PICTURE, PAGE = "separation.png", "demo.html"
TITLE = "Networks that unmix pictures"
#: Orders of the pixels and initial weights; the page shows the median run.
RUNS = 3
LEAD = (
    "Three pictures were mixed. Networks of a few neurons see the mixtures alone, one "
    "pixel at a time, and learn to recover the pictures. Choose a network and move the "
    "slider: recovered pictures and synapses are those of that moment."
)
WORDS = (
    "Error: the mean squared difference of outputs and sources, both of variance 1, "
    "after one pass. Of several runs, from other weights and with the pixels in "
    "another order, the one with the median error is shown. Local rules: a synapse "
    "learns from what its two neurons know. Algorithms 1 and 2 are those of the paper, "
    "the others are not in it. The paper repairs weights of Algorithms 1 and 2 in rare "
    "cases (appendix C, `repairs_`); these repairs are not all local."
)
#: Pixels after which networks are shown, beside the end.
TIMES = (300, 1_000, 3_000, 10_000, 30_000)


class DemoNetwork(NamedTuple):
    """What a network is."""

    cls: str
    origin: str
    local: str  # yes or no
    sentence: str


_PAPER, _OURS = "the paper", "bionica"
NETWORKS = {
    "Algorithm 1": DemoNetwork(
        "InterneuronNICA",
        _PAPER,
        "yes",
        "Algorithm 1 of the paper: neurons inhibit each other through interneurons. "
        "Each synapse learns from its two neurons.",
    ),
    "Algorithm 2": DemoNetwork(
        "TwoCompartmentNICA",
        _PAPER,
        "yes",
        "Algorithm 2 of the paper: neurons with a dendrite and a soma. Each synapse "
        "learns from its two neurons.",
    ),
    "LocalNICA": DemoNetwork(
        "LocalNICA",
        _OURS,
        "yes",
        "Not in the paper: neurons as in Algorithm 2, with other rules, which are "
        "local too and need no tuning.",
    ),
    "StreamingNICA": DemoNetwork(
        "StreamingNICA",
        _OURS,
        "no",
        "Not in the paper, not local and not a circuit: an algorithm for data. The "
        "numbers are its unmixing matrix.",
    ),
}


class Problem(NamedTuple):
    """Sources, (n_pixels, 3), and what the page says of them."""

    S: Any
    shape: tuple[int, int]
    # Of the paper: the mixing matrix, and the settings of Algorithms 1 and 2.
    setting: Literal["d3", "images"]
    first: str  # the network that is selected at first
    why: str


def problems(rng: np.random.Generator) -> dict[str, Problem]:
    """Return what is separated, by name."""

    def filled(*masks: Any) -> Any:
        """Uniform where the mask is, 0 elsewhere; variance 1."""
        columns = np.column_stack([mask.ravel() for mask in masks])
        S = columns * rng.random(columns.shape)
        return S / S.std(axis=0)

    i, j = np.indices((320, 320)) / 320
    stripes = filled(*(np.floor(8 * u) % 2 == 0 for u in (i, j, i + j)))
    return {
        "Sources of the paper": Problem(
            stripes,
            i.shape,
            "d3",
            "Algorithm 1",
            "The sources of the paper's figure 4, laid out as pictures: each is black "
            "on half of its pixels and uniform on the others, independently of the "
            "other two. They are mixed by the paper's matrix, and Algorithms 1 and 2 "
            "have the paper's settings. Local rules learn such sources most reliably, "
            "because each is often exactly zero.",
        ),
        "Photographs": Problem(
            datasets.natural_images(names=("camera", "brick", "gravel"), size=None),
            (512, 512),
            "images",
            "LocalNICA",
            "Photographs are harder, because a pixel is seldom black. Algorithms 1 "
            "and 2 have the matrix of the authors' images and the paper's settings "
            "for these, and seldom learn these in one pass. LocalNICA learns them, "
            "with faint traces of the other pictures. StreamingNICA, which is not "
            "local, does better.",
        ),
    }


def run(seed: int, console: Console) -> tuple[dict[str, Any], bytes, bytes]:
    """Return the findings, the picture and the page."""
    started, rng = time.perf_counter(), np.random.default_rng(seed)
    chosen, found = problems(rng), dict[str, dict[str, Any]]()
    sections, separated = list[tuple[str, list[str]]](), b""
    with console.progress("Learning", len(chosen) * len(NETWORKS)) as advance:
        for title, problem in chosen.items():
            X, _ = datasets.mix(problem.S, datasets.paper_mixing(problem.setting))
            orders = [rng.permutation(len(X)) for _ in range(RUNS)]
            found[title], slides = {}, dict[str, list[str]]()
            for name, about in NETWORKS.items():
                networks, errors = _median_run(about, problem, X, orders, seed)
                curve, slides[name] = {}, []
                for t, network in networks.items():
                    Y, error = _outputs(problem.S, network, X)
                    curve[t] = error
                    caption = f"{t:,} of {len(X):,} pixels: error {_short(error)}"
                    slides[name].append(
                        text(about.sentence)
                        + text(caption, "p", "caption")
                        + _pictures(problem, "output", Y, "Recovered pictures.")
                        + _synapses(network)
                    )
                result = {"error": error, "errors": sorted(errors), "curve": curve}
                found[title][name] = about._asdict() | result
                advance(1, f"{title}: {name}, error {_short(error)}")
            if title == "Photographs":  # and StreamingNICA, the last network
                separated = _separation(problem, X, Y)
            section = _section(title, problem, X, found[title], slides)
            sections.append((title, section))
    own = "`bionica separate mixed-1.png mixed-2.png mixed-3.png -o recovered.png`"
    sections.append(("What the words mean", [text(WORDS)]))
    sections.append(("Your own mixtures", [text(own)]))
    seconds = round(time.perf_counter() - started, 3)
    findings = {"seed": seed, "runs": RUNS, "seconds": seconds, "problems": found}
    return findings, separated, page(TITLE, LEAD, sections).encode()


def result_lines(findings: dict[str, Any]) -> list[str]:
    """Return what `run` found, in words."""
    lines = [
        "Mean squared error of sources with variance 1, after one pass; the median of "
        f"{RUNS} runs:"
    ]
    for name, about in NETWORKS.items():
        errors = ", ".join(
            f"{title.lower()} {_short(networks[name]['error'])}"
            for title, networks in findings["problems"].items()
        )
        lines.append(
            f"{name} (from {about.origin}; local rules: {about.local}): {errors}"
        )
    lines.append(f"Open {findings['page']} in a browser to see them learn")
    return lines


def _median_run(
    about: DemoNetwork, problem: Problem, X: Any, orders: list[Any], seed: int
) -> tuple[dict[int, Any], list[float]]:
    """Learn in each order; return the run with the median error, and all errors.

    A run is the network after each of `TIMES` and at the end of X.
    """
    cls = getattr(bionica, about.cls)
    runs: list[dict[int, Any]] = []
    errors = []
    for i, order in enumerate(orders):
        if about.origin == _PAPER:
            network = cls.as_published(problem.setting, random_state=seed + i)
        else:
            network = cls(problem.S.shape[1], random_state=seed + i)
        runs.append({})
        for begin, end in pairwise((0, *TIMES, len(X))):
            runs[i][end] = deepcopy(network.partial_fit(X[order[begin:end]]))
        errors.append(_outputs(problem.S, network, X)[1])
    return runs[errors.index(median_low(errors))], errors


def _outputs(S: Any, network: Any, X: Any) -> tuple[Any, float]:
    """Return the outputs, scaled to variance 1, and their error."""
    Y = network.transform(X)
    Y /= np.maximum(Y.std(axis=0), np.finfo(float).tiny)
    return Y, metrics.permutation_error(S, Y)


def _short(error: float) -> str:
    """Return two digits of an error, without an exponent."""
    if error < 1e-5:
        return "below 0.00001"
    return np.format_float_positional(error, 2, fractional=False, trim="-")


def _separation(problem: Problem, X: Any, Y: Any) -> bytes:
    """Return a picture of the sources, the mixtures and what was recovered."""
    Y = Y[:, metrics.match_sources(problem.S, Y).permutation]
    rows = {"Sources": problem.S, "Mixtures": X, "Recovered": Y}
    captions = [(("", name, ""), images) for name, images in rows.items()]
    return _draw_images(problem.shape, 7.0, "png", *captions)


def _draw_images(
    shape: tuple[int, int], width: float, kind: str, *rows: tuple[Sequence[str], Any]
) -> bytes:
    """Return pictures with these names and pixels, one row below the other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 0.4 * width * len(rows)))
    grid = figure.subplots(len(rows), len(rows[0][0]), squeeze=False)
    for axes, (names, Y) in zip(grid, rows, strict=True):
        plot.images(Y, shape, names=names, axes=axes)
    # a layout that needs no time
    figure.subplots_adjust(0, 0, 1, 1 - 0.15 / len(rows), 0.03)
    return figure_bytes(figure, kind)


def _pictures(problem: Problem, noun: str, Y: Any, caption: str) -> str:
    """Return the columns of Y as numbered pictures."""
    names = [f"{noun} {i + 1}" for i in range(Y.shape[1])]
    drawn = _draw_images(problem.shape, 3.6, "jpeg", (names, Y))
    return picture(drawn, caption, "jpeg")


def _synapses(network: Any) -> str:
    """Return a drawing of a circuit, or of the matrix of what is none."""
    figure = new_figure(4.4, 2.8)
    ax = figure.subplots()
    caption = "Synapses."
    if type(network).__name__ == "StreamingNICA":
        caption = "Unmixing matrix."
        plot.weights(network.components_, ax=ax)
    else:
        plot.circuit(network, ax=ax)
    return picture(figure_bytes(figure, "svg"), caption)


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
    sources = "The sources, which no network sees."
    mixtures = "The mixtures, which all networks see, one pixel at a time."
    inputs = _pictures(problem, "source", problem.S, sources)
    inputs += _pictures(problem, "mixture", X, mixtures) + text(problem.why)
    at_work = slides(title, shown, "pixels seen", problem.first)
    rows = [(name, of["local"], _short(of["error"])) for name, of in found.items()]
    return [
        beside(f"<div>{inputs}</div>", at_work),
        table(("network", "local", "error"), rows),
    ]
