"""`bionica demo`."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the picture.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the initial weights and of the order of the pixels.")] = 0,
) -> None:
    """Mix three images, separate them online, and draw sources, mixtures and what was recovered."""
    import time

    from rich.console import Console

    from .. import datasets, metrics
    from ..estimators import TwoCompartmentNICA
    from ..figures import separation_figure

    console = Console()
    names = ("camera", "brick", "gravel")
    S = datasets.natural_images(names=names, size=None)
    X, _ = datasets.mix(S, datasets.paper_mixing("images"))
    network = TwoCompartmentNICA(3, n_epochs=2, shuffle=True, random_state=seed, verbose=int(console.is_terminal))
    console.print(f"Separating {', '.join(names)} from {X.shape[1]} mixtures, {2 * len(X):,} pixels one at a time")
    started = time.perf_counter()
    network.fit(X)
    seconds = time.perf_counter() - started
    Y = network.transform(X)
    Y = Y[:, metrics.match_sources(S, Y).permutation]
    error, floor = metrics.permutation_error(S, Y), metrics.correlation_floor(S)
    output.mkdir(parents=True, exist_ok=True)
    picture = output / "separation.png"
    separation_figure(S, X, Y, (512, 512)).savefig(picture, dpi=110)
    console.print(
        f"Mean squared error {error:.4f} of sources with variance 1 (correlation of the sources alone costs {floor:.4f}); "
        f"{2 * len(X) / seconds:,.0f} pixels a second, compilation included"
    )
    console.print(f"Look at {picture}")
