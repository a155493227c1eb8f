"""What the figures show beside errors: the points of figure 1, the images of figure 5."""

from math import isqrt
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from .. import datasets, estimators, metrics
from .plans import Reproduction, plans_of

Array = NDArray[Any]

#: Points of a cloud of figure 1.
N_POINTS = 1000


def check_images(images: str | None) -> Array:
    """Return the user's or scikit-image's images as sources, (n_pixels, 3): three, as the mixing matrix needs, and square."""
    try:
        S = datasets.natural_images(images)
    except (EOFError, BadZipFile, ValueError) as error:
        if type(error) is ValueError and "pickle" not in str(error):  # NumPy's message for bytes that are no array
            raise
        raise ValueError(f"{images} cannot be read: pass a folder of images, .npy or .npz") from error
    if S.shape[1] != 3:
        raise ValueError(f"{images} holds {S.shape[1]} images; the paper's mixing matrix is for 3")
    side = isqrt(len(S))
    if side**2 != len(S) or len(datasets.natural_images(images, size=side)) != len(S):
        raise ValueError(f"the images of {images} are not square: crop them, the paper's are 252 x 252")
    return S


def figure1_points(config: Reproduction) -> dict[str, Array]:
    """Return the point clouds of figure 1, and the indices of three sources to follow."""
    (case,) = plans_of(Reproduction(("figure1",), seed=config.seed))["figure1", "d2"].cases()
    data = case.data.load(case.seed, case.dtype)
    model, X = case.start(data)
    Y = np.asarray(model.fit_transform(X))
    clouds = {
        "sources": data.S,
        "mixtures": X,
        "whitened": np.asarray(estimators.NoncenteredWhitener(2).fit_transform(X)),
        "recovered": Y[:, metrics.match_sources(data.S, Y).permutation],
    }
    wanted = np.array([[0.45, 2.6], [2.5, 0.55], [1.9, 1.9]])
    tracked = np.array([np.argmin(((data.S[:N_POINTS] - point) ** 2).sum(axis=1)) for point in wanted])
    return {**{name: cloud[:N_POINTS] for name, cloud in clouds.items()}, "tracked": tracked}


def figure5_images(config: Reproduction) -> list[tuple[str, Array]]:
    """Return the rows of images of figure 5, (n_pixels, 3) each: sources, mixtures, outputs of the two networks.

    Outputs are those of the first run in the last presentation. A network that diverges is left out.
    """
    S = check_images(config.images)
    rows = [("Sources", S), ("Mixtures", datasets.mix(S, datasets.paper_mixing("images"))[0])]
    plan = plans_of(Reproduction(("figure5",), runs=1, seed=config.seed, epochs=config.epochs, images=config.images))
    for case, title in zip(plan["figure5", "images"].cases(), ("Algorithm 1", "Algorithm 2"), strict=False):
        data = case.data.load(case.seed, case.dtype)
        model, X = case.start(data)
        try:
            with np.errstate(all="ignore"):
                Y = model.partial_fit_transform(X)
        except estimators.DivergenceError:
            continue
        order = case.data.order(case.seed)
        assert order is not None
        recovered = np.empty_like(S)
        recovered[order[-len(S) :]] = Y[-len(S) :, metrics.match_sources(data.S, Y).permutation]
        rows.append((f"Recovered by\n{title}", recovered))
    return rows
