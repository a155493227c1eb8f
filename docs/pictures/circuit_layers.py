"""The layers of neurons that the pictures of circuits share."""

from matplotlib.patches import Circle

ROWS = (2.4, 1.2, 0.0)


def draw_layers(ax, layers, height):
    """Draw columns of three neurons; a layer is (x, symbol, color, title, last index), its title at this height."""
    for x, symbol, color, title, last in layers:
        for y, index in zip(ROWS, ("1", "2", last), strict=True):
            ax.add_patch(Circle((x, y), 0.3, facecolor=color, edgecolor="white", zorder=3))
            ax.text(x, y, f"${symbol}_{index}$", color="white", ha="center", va="center", zorder=4)
        ax.text(x, height, title, ha="center", color=color)
