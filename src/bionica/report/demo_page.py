"""The page of `bionica demo`."""

from statistics import median
from typing import Any

from .figures import learning_figure, weights_figure
from .html import PageTable, Picture, Section, figure_bytes, page


def demo_page(found: dict[str, Any], matrices: tuple[Any, Any, Any], picture: bytes) -> str:
    """Build the page: pictures, the error against pixels seen, numbers, what was learned (W, W A, and the network's W A)."""
    names, method, network = (found[key] for key in ("images", "method", "network"))
    others = found["errors_of_other_orders"]
    errors = [
        (method, found["error"], found["pixels_per_second"]),
        (network, found["network_error"], found["network_pixels_per_second"]),
        ("BatchNICA (offline)", found["batch_error"], None),
    ]
    facts = [
        ("error of a method whose outputs are exactly uncorrelated (the images are not)", found["floor"]),
        ("Amari distance (0: a permutation, 1: nothing separated)", found["amari"]),
        ("pixels", found["pixels"]),
        ("seed", found["seed"]),
        ("seconds in all, compilation included", found["seconds"]),
    ]
    correlations = [f"{value:.4f}" for value in found["correlation"]]
    curve = learning_figure(found["curves"], {"BatchNICA": found["batch_error"]})
    W, P, Q = matrices
    mixtures = [f"mixture {i}" for i in range(W.shape[1])]
    weights = [
        (f"$W$, {method}", W, names, mixtures),
        (f"$W A$, {method}", P, names, names),
        (f"$W A$, {network}", Q, names, names),
    ]
    sections = [
        Section(
            "Sources, mixtures, recovered",
            [Picture(picture, f"Top: the sources. Middle: what {method} saw. Bottom: what it recovered.", "png",
                     "Three photographs (camera, brick, gravel), three mixtures of them, and three recovered photographs")],
        ),
        Section(
            "How the error falls, pixel by pixel",
            [f"{method} starts from random weights and sees each of {found['pixels']:,} pixels once, in random order. It has no "
             f"learning rate, and nothing was tuned. The paper's network {network} (Algorithm 2) sees the same stream, and starts "
             f"with its first {found['network_start']:,} pixels. The horizontal line is BatchNICA, an offline method that has all "
             "pixels in memory.",
             Picture(figure_bytes(curve, "svg"),
                     f"Mean squared error on {found['watched']:,} pixels against pixels seen, both logarithmic. The sources have "
                     "variance 1.")],
        ),
        Section(
            "Numbers",
            [PageTable(("method", "error", "pixels/s"), errors),
             "The error is the mean squared error on all pixels. It depends on the order of the pixels and on the initial weights: "
             f"{method} on {len(others)} other random orders ends at {others[0]:.2g} to {others[-1]:.2g}, median "
             f"{median(others):.2g}.",
             PageTable(("source", "correlation", "SINR, dB"), list(zip(names, correlations, found["sinr_db"], strict=True))),
             PageTable((), facts)],
        ),
        Section(
            "What was learned",
            ["The unmixing matrix W computes the outputs from the mixtures. A is the mixing matrix, which no method is given. If "
             "W A is the identity, the sources are separated. Outputs are listed in the order of the sources.",
             Picture(figure_bytes(weights_figure(weights), "svg"), "Matrices at the end of the stream.")],
        ),
        Section("Your own mixtures", ["`bionica separate mixed-1.png mixed-2.png mixed-3.png -o recovered.png`"]),
    ]  # fmt: skip
    lead = "Three photographs were mixed, and recovered from the mixtures alone, one pixel at a time."
    return page("bionica demo", lead, sections)
