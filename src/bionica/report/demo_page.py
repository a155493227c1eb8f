"""The page of `bionica demo`."""

from typing import Any

from .figures import learning_figure, weights_figure
from .html import PageTable, Picture, Section, figure_bytes, page

Curve = list[tuple[int, float]]


def demo_page(
    found: dict[str, Any], streamed: Curve, bare: Curve, matrices: tuple[Any, Any, Any], picture: bytes
) -> str:
    """Build the page: pictures, numbers, error curves (with and without the offline start), weights."""
    names = found["images"]
    start = found["offline_start_samples"]
    low, *_, high = found["errors_of_other_starts"]
    others = f"{low:.3g} to {high:.3g}"
    numbers = [
        ("mean squared error, all pixels, sources of variance 1", found["error"]),
        (f"at the start of the stream, on {found['watched']:,} pixels", found["error_at_start"]),
        (f"there, {len(found['errors_of_other_starts'])} other starts (random pixels, other seeds)", others),
        ("what the correlation of the sources alone costs", found["floor"]),
        ("mean squared error without the offline start", found["error_from_nothing"]),
        ("Amari distance (0: a permutation, 1: nothing separated)", found["amari"]),
        ("samples learned from", found["samples"]),
        ("pixels a second while streaming", found["pixels_per_second"]),
        ("seconds in all, compilation included", found["seconds"]),
        ("seed", found["seed"]),
    ]
    correlations = [f"{value:.4f}" for value in found["correlation"]]
    each = zip(names, found["outputs"], correlations, found["sinr_db"], strict=True)
    curves = [
        (f"started offline on {start:,} pixels, then streamed", streamed),
        ("streamed from the first pixel, no start", bare),
    ]
    W_xz, W_zz, P = matrices
    outputs, mixtures = ([f"{name} {i}" for i in range(len(names))] for name in ("output", "mixture"))
    weights = [
        ("$W_{xz}$", W_xz, outputs, mixtures),
        ("$W_{zz}$", W_zz, outputs, outputs),
        ("$W_{zz}^{-1} W_{xz} A$", P, outputs, names),
    ]
    sections = [
        Section(
            "Sources, mixtures, recovered",
            [Picture(picture, "Top: the sources. Middle: what the network saw. Bottom: what it put out.", "png",
                     "Three photographs (camera, brick, gravel), three mixtures of them, and three recovered photographs")],
        ),
        Section("Numbers", [PageTable((), numbers), PageTable(("source", "output", "correlation", "SINR, dB"), list(each))]),
        Section(
            "Error while it learned",
            [f"On {found['watched']:,} pixels. On these images the offline start on {start:,} pixels does most of the work, "
             f"and the stream keeps what it found; other starts, from other pixels and seeds, reach {others}. The same network "
             "without the start is drawn beside it.",
             Picture(figure_bytes(learning_figure(curves, found["floor"]), "svg"), "Error against pixels seen, both logarithmic.")],
        ),
        Section(
            "Weights",
            ["From mixtures to outputs, between outputs, and what both make of the sources: one entry of 1 in each row and column, "
             "zeros elsewhere, is a perfect separation.",
             Picture(figure_bytes(weights_figure(weights), "svg"), "Weights at the end of the stream; A is the mixing matrix.")],
        ),
        Section("Your own mixtures", ["`bionica separate mixed-1.png mixed-2.png mixed-3.png -o recovered.png`"]),
    ]  # fmt: skip
    lead = "Three photographs mixed, and recovered from the mixtures alone: an offline start, then one pixel at a time."
    return page("bionica demo", lead, sections)
