"""The style of every figure: the label, colour and line of each method."""

from typing import Any, NamedTuple


class Look(NamedTuple):
    """The label, colour and line of a method."""

    label: str
    color: str
    line: str


#: Colours that the colour-blind can distinguish (Okabe and Ito).
LOOKS = {
    "InterneuronNICA": Look("Algorithm 1 (interneurons)", "#0072B2", "-"),
    "TwoCompartmentNICA": Look("Algorithm 2 (2-compartmental)", "#D55E00", "-"),
    "TwoLayerNSM": Look("2-layer NSM", "#009E73", "-"),
    "NonnegativePCA": Look("Nonnegative PCA", "#CC79A7", "-"),
    "InterneuronNICA untuned": Look("Algorithm 1, ours untuned", "#0072B2", "--"),
    "TwoCompartmentNICA untuned": Look("Algorithm 2, ours untuned", "#D55E00", "--"),
    "InterneuronNICA as coded": Look("Algorithm 1, settings of the authors' code", "#0072B2", ":"),
    "TwoCompartmentNICA as coded": Look("Algorithm 2, settings of the authors' code", "#D55E00", ":"),
    "BatchNICA": Look("BatchNICA (offline)", "#000000", "-."),
    "FastICA": Look("FastICA (offline, best sign and scale)", "#7F7F7F", "-."),
    "correlation floor": Look("correlation floor", "#7F7F7F", ":"),
}

TITLES = {
    "d3": "3 sparse uniform sources",
    "d10": "10 sparse uniform sources",
    "images": "3 images",
}


def look(network: str) -> Look:
    """Return how a method is drawn: an unknown one in black, under its own name."""
    return LOOKS.get(network, Look(network, "#000000", "-"))


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def legend_columns(n: int, most: int) -> int:
    """Return the columns of a legend of n entries: at most this many, filled evenly.

    Examples
    --------
    >>> legend_columns(9, 4), legend_columns(4, 4)
    (3, 4)
    """
    rows = -(-n // most)
    return -(-n // rows)


def plain(axis: Any) -> None:
    """Remove the upper and the right side of the frame."""
    axis.spines[["top", "right"]].set_visible(False)
