"""Sources and mixtures of a run."""

import hashlib
from functools import lru_cache
from math import isqrt
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from .. import datasets
from .config import Task

Array = NDArray[Any]

#: The mixing of figure 1, which prints none: a turn and a shear that take the sources out of the orthant.
SCATTER_MIXING = ((1.0, 0.55), (-0.45, 0.8))


def image_sources(images: str | None) -> Array:
    """The three images as sources, (n_pixels, 3): the user's or scikit-image's.

    Raises
    ------
    ValueError
        If there are not three, or they are not square: the printed mixing matrix is 3 x 3, and the figure shows them.
    """
    try:
        S = datasets.natural_images(images)
    except (EOFError, BadZipFile, ValueError) as error:
        if type(error) is ValueError and "pickle" not in str(error):  # what NumPy says of bytes that are no array
            raise
        raise ValueError(f"{images} cannot be read: pass a folder of images, .npy or .npz") from error
    if S.shape[1] != 3:
        raise ValueError(f"{images} holds {S.shape[1]} images; the paper's mixing matrix is for 3")
    side = isqrt(len(S))
    if side**2 != len(S) or len(datasets.natural_images(images, size=side)) != len(S):
        raise ValueError(f"the images of {images} are not square: crop them, the paper's are 252 x 252")
    return S


def image_digest(images: str | None) -> str:
    """Digest of the images' pixels."""
    return hashlib.sha256(image_sources(images).tobytes()).hexdigest()[:16]


def mix_images(S: Array) -> Array:
    """The mixtures of image sources by the printed matrix."""
    return datasets.mix(S, datasets.paper_mixing("images"))[0]


def presentations(n: int, epochs: int, seed: int) -> Array:
    """The order of n pixels in each presentation, (epochs, n)."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(n) for _ in range(epochs)])


def problem(task: Task) -> tuple[Array, Array]:
    """Sources and mixtures in the order in which the network meets them; not to be written to."""
    return _problem(task.setting, task.seed, task.n_samples, task.epochs, task.images)


@lru_cache(maxsize=2)  # successive runs are of the same problem
def _problem(setting: str, seed: int, n_samples: int, epochs: int, images: str | None) -> tuple[Array, Array]:
    if setting == "images":
        S = image_sources(images)
        S = S[presentations(len(S), epochs, seed).ravel()]
        X = mix_images(S)
    elif setting == "d2":
        S = datasets.sparse_uniform(n_samples, 2, rng=seed)
        X = datasets.mix(S, SCATTER_MIXING)[0]
    else:
        A = datasets.paper_mixing(setting)  # type: ignore[arg-type]
        S = datasets.sparse_uniform(n_samples, A.shape[1], rng=seed)
        X = datasets.mix(S, A)[0]
    S.setflags(write=False)
    X.setflags(write=False)
    return S, X
