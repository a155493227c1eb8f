"""Nonnegative sources, the paper's and others, and matrices to mix them with.

X and S are (n_samples, n_features) everywhere. A is (n_mixtures, n_sources), so that X
= S A'.

Every source has minimum 0 and variance 1, as the theory asks (nonnegative, well
grounded, of unit variance): images to rounding, sources that are drawn from a
distribution in expectation, as in the paper.

`rng` is None (fresh entropy), an integer (the same draw every time) or a
`numpy.random.Generator` (which is advanced).
"""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.utils import check_scalar

__all__ = [
    "copula_uniform",
    "mix",
    "natural_images",
    "odors",
    "paper_mixing",
    "random_mixing",
    "random_sources",
    "sparse_uniform",
]

Rng = int | np.integer[Any] | np.random.Generator | None
Sources = NDArray[np.floating[Any]]

_KINDS = "odor", "sparse_uniform", "exponential", "half_normal", "gamma", "abundances"
# inside scikit-image's wheel: no download
_SHIPPED = ("camera", "brick", "gravel", "grass", "moon")
#: As printed, but for "images": that is the mixing of the authors' data, least squares
#: of their mixtures on their sources, exact to 5e-15.
_PAPER_MIXING = {
    "d3": """
        0.031518  0.38793 0.061132
        -0.78502  0.16561  0.12458
         0.34782  0.27295  0.67793
    """,
    "d10": """
        -1.61  0.11  0.11  1.26 -0.01 -1.66  0.45  0.48  0.93 -0.57
        -0.95 -0.05  0.35 -0.68  1.14  0.71 -0.38 -0.20 -0.20  2.02
         0.54  2.16  0.06 -0.08  0.36 -0.16 -0.22 -1.82 -0.22  0.40
        -0.98 -0.12 -1.45 -0.58 -0.56  0.34 -0.51  0.19 -0.44 -0.15
        -0.87  0.54  0.68  1.28  0.63  1.04 -0.81  1.08 -0.65 -0.30
         0.91  0.84  0.45 -0.31 -0.14 -1.46 -0.18  0.48 -0.41  0.75
        -1.20  1.29  0.39 -1.40  0.84 -2.32 -1.54 -0.26 -1.99 -0.34
         1.34  0.75 -1.29 -0.63 -1.63 -1.05  0.07  0.09 -0.67  0.28
        -0.32 -0.38 -0.11  1.18 -0.41  0.58 -0.92  1.09  0.41  1.29
         2.04  2.00 -0.50  0.78 -0.65 -0.93  0.42 -1.69 -1.16 -0.68
    """,
    "images": """
        -0.6727829725689054   0.508403816969392  0.2258065936543043
        -0.0120762033590916 -0.3728601894359071  0.8062046311191018
        -0.4547317701564847 -0.7022566350388886 -0.3015578021656592
    """,
    "images-printed": """
         0.71964649 -1.55757433 -1.94561985
        -1.77115767 -0.99092683  0.35559978
        -0.78408667  1.09213136 -1.36539258
    """,
}


def positive_int(name: str, value: int) -> int:
    """Return a positive integer, or raise ValueError or TypeError."""
    return int(check_scalar(value, name, Integral, min_val=1))


def sparse_uniform(n_samples: int, n_sources: int, *, rng: Rng = None) -> Sources:
    """The paper's sources: 0 with probability 1/2, otherwise uniform on (0,
    sqrt(48/5)), of mean sqrt(3/5) and variance 1.

    The same as `random_sources` of this kind.

    Examples
    --------
    >>> from bionica.datasets import sparse_uniform
    >>> S = sparse_uniform(100_000, 3, rng=0)
    >>> S.shape, float(S.min()), round(float(S.var()), 2)
    ((100000, 3), 0.0, 1.0)
    >>> round(float((S == 0).mean()), 2)
    0.5
    """
    return random_sources("sparse_uniform", n_samples, n_sources, rng=rng)


def random_sources(
    kind: str, n_samples: int, n_sources: int, *, rng: Rng = None
) -> Sources:
    """Sources of one family, each of unit variance and infimum 0; independent but for
    "abundances".

    Parameters
    ----------
    kind : str
        From the best to the worst grounded sources:

        - "odor": 0 with probability 0.9, otherwise exponential;
        - "sparse_uniform": 0 with probability 1/2, otherwise uniform (the paper's);
        - "exponential": its density is largest at 0;
        - "half_normal": its density is flat at 0;
        - "gamma": of shape 2; its density vanishes at 0, the hardest case;
        - "abundances": Dirichlet with alpha = 1/2, of constant sum.
    n_samples, n_sources : int
        Shape of the result.
    rng : int, numpy.random.Generator or None, default=None
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_samples, n_sources)
        A longer draw of the same seed starts with the shorter one, and blocks drawn
        from one Generator continue each other.

    Examples
    --------
    >>> from bionica.datasets import random_sources
    >>> S = random_sources("half_normal", 100_000, 2, rng=0)
    >>> bool(S.min() >= 0), round(float(S.var()), 2)
    (True, 1.0)
    """
    if kind not in _KINDS:
        raise ValueError(
            f"kind={kind!r} is unknown: use one of {', '.join(map(repr, _KINDS))}"
        )
    shape = (positive_int("n_samples", n_samples), positive_int("n_sources", n_sources))
    return _draw(kind, np.random.default_rng(rng), shape)


def odors(
    n_samples: int, n_odorants: int = 5, n_receptors: int = 21, *, rng: Rng = None
) -> tuple[Sources, Sources]:
    """Odorant concentrations, and how strongly each receptor responds to each odorant.

    An odorant is absent from a sample with probability 0.9; if present, its
    concentration is exponential. The entries of A are log-normal, exp(N(0, 1)). `mix(S,
    A)` gives the activities of the receptors.

    Parameters
    ----------
    n_samples, rng
        As in `random_sources`.
    n_odorants, n_receptors : int, default=5 and 21
        Sources and mixtures.

    Returns
    -------
    S : ndarray of shape (n_samples, n_odorants)
        Concentrations, scaled to unit variance.
    A : ndarray of shape (n_receptors, n_odorants)
        Affinities, all positive. The same seed gives the same A for any number of
        samples.

    Examples
    --------
    >>> from bionica.datasets import mix, odors
    >>> S, A = odors(50_000, rng=0)
    >>> X, _ = mix(S, A)
    >>> X.shape, bool(X.min() >= 0), round(float((S == 0).mean()), 2)
    ((50000, 21), True, 0.9)
    """
    generator = np.random.default_rng(rng)
    shape = (
        positive_int("n_receptors", n_receptors),
        positive_int("n_odorants", n_odorants),
    )
    A = np.exp(generator.standard_normal(shape))
    return random_sources("odor", n_samples, n_odorants, rng=generator), A


def copula_uniform(
    n_samples: int, n_sources: int, rho: float, *, df: float = 4, rng: Rng = None
) -> Sources:
    """Dependent sources: uniform on [0, sqrt(12)], coupled by a t-copula of equal
    correlations.

    NICA assumes uncorrelated sources. These measure the cost of correlation (see
    `bionica.metrics.correlation_floor`).

    Parameters
    ----------
    n_samples, n_sources, rng
        As in `random_sources`.
    rho : float
        Correlation of every pair of the underlying t variables, -1/(n_sources - 1) <=
        rho < 1. Pearson's correlation of the uniform sources is slightly nearer 0.
    df : float, default=4
        Degrees of freedom. If they are few, extremes coincide, so that sources with rho
        = 0 are uncorrelated but dependent; inf is the Gaussian copula.

    Returns
    -------
    ndarray of shape (n_samples, n_sources)
        Every column uniform, of variance 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.datasets import copula_uniform
    >>> S = copula_uniform(100_000, 3, rho=0.5, rng=0)
    >>> round(float(S.var()), 1), round(float(np.corrcoef(S.T)[0, 1]), 1)
    (1.0, 0.5)
    """
    n_samples = positive_int("n_samples", n_samples)
    d = positive_int("n_sources", n_sources)
    lowest = -1 / (d - 1) if d > 1 else -1.0
    if not lowest <= rho < 1:
        raise ValueError(
            f"rho={rho!r} cannot be the correlation of {d} variables: use {lowest:.3g}"
            " <= rho < 1"
        )
    if not df > 0:
        raise ValueError(
            f"df={df!r} must be positive: use df=4, or df=float('inf') for a Gaussian"
            " copula"
        )
    generator = np.random.default_rng(rng)

    # The symmetric root of (1 - rho) I + rho 11' is a I + b 11': O(d) per sample, and
    # rho may be negative.
    a = np.sqrt(1 - rho)
    b = (np.sqrt(max(0.0, 1 + (d - 1) * rho)) - a) / d
    Z = generator.standard_normal((n_samples, d))
    Z = a * Z + b * Z.sum(axis=1, keepdims=True)
    if np.isinf(df):
        S = special.ndtr(Z)
    else:
        chi2 = generator.chisquare(df, size=(n_samples, 1))
        S = special.stdtr(df, Z * np.sqrt(df / chi2))
    return S * np.sqrt(12)


def _draw(
    kind: str, rng: np.random.Generator, shape: tuple[int, int]
) -> NDArray[np.float64]:
    """Fill an array row by row in one call, so that blocks from one Generator continue
    each other.
    """
    if kind == "odor":
        # An exponential variable exceeds log 10 with probability 0.1, and then is
        # exponential again.
        present = np.maximum(rng.standard_exponential(shape) - np.log(10), 0)
        return present / np.sqrt(0.1 * 1.9)
    if kind == "sparse_uniform":
        # Given that it exceeds 0, 2u - 1 is uniform on (0, 1).
        return np.maximum(2 * rng.random(shape) - 1, 0) * np.sqrt(48 / 5)
    if kind == "exponential":
        return rng.standard_exponential(shape)
    if kind == "half_normal":
        return np.abs(rng.standard_normal(shape)) / np.sqrt(1 - 2 / np.pi)
    if kind == "gamma":
        return rng.standard_gamma(2.0, shape) / np.sqrt(2)
    d = shape[1]
    G = rng.standard_gamma(0.5, shape)
    scale = d * np.sqrt((d / 2 + 1) / max(d - 1, 1))
    return G / G.sum(axis=1, keepdims=True) * scale


def mix(
    S: ArrayLike,
    A: ArrayLike | None = None,
    *,
    n_mixtures: int | None = None,
    snr_db: float | None = None,
    rng: Rng = None,
) -> tuple[Sources, Sources]:
    """Mix sources, x = A s, and optionally add noise.

    Parameters
    ----------
    S : array-like of shape (n_samples, n_sources)
        The sources.
    A : array-like of shape (n_mixtures, n_sources) or None, default=None
        The mixing matrix; None draws independent standard normal entries, as the paper
        does.
    n_mixtures : int or None, default=None
        Rows of a drawn A; None draws a square one.
    snr_db : float or None, default=None
        Signal-to-noise ratio of every mixture: white Gaussian noise of variance
        ``mean(x**2) / 10**(snr_db / 10)`` is added to the mixture x. The mean counts as
        signal. None adds no noise.
    rng : int, numpy.random.Generator or None, default=None
        Source of randomness, for A and then for the noise.

    Returns
    -------
    X : ndarray of shape (n_samples, n_mixtures)
        The mixtures, in the precision of S.
    A : ndarray of shape (n_mixtures, n_sources)
        A copy of the matrix that was used.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.datasets import mix, sparse_uniform
    >>> S = sparse_uniform(1000, 3, rng=0)
    >>> X, A = mix(S, n_mixtures=5, rng=1)
    >>> X.shape, A.shape, np.allclose(X, S @ A.T)
    ((1000, 5), (5, 3), True)
    """
    S = np.asarray(S)
    S = S.astype(np.float32 if S.dtype == np.float32 else np.float64, copy=False)
    if S.ndim != 2 or S.size == 0:
        raise ValueError(
            f"S has shape {S.shape}: pass (n_samples, n_sources), neither of them 0"
        )
    d = S.shape[1]
    generator = np.random.default_rng(rng)
    if A is None:
        k = d if n_mixtures is None else positive_int("n_mixtures", n_mixtures)
        A = generator.standard_normal((k, d))
    A = np.array(A, dtype=S.dtype)
    if A.ndim != 2 or A.shape[1] != d or A.shape[0] == 0:
        raise ValueError(
            f"A has shape {A.shape} and S has {d} columns: pass A of shape (n_mixtures,"
            f" {d})"
        )
    if n_mixtures is not None and n_mixtures != A.shape[0]:
        raise ValueError(
            f"n_mixtures={n_mixtures} but A has {A.shape[0]} rows: omit n_mixtures"
        )
    X = S @ A.T
    if snr_db is not None:
        if not snr_db > -np.inf:
            raise ValueError(
                f"snr_db={snr_db!r} is not a ratio in dB: use 30, for example, or None"
                " for no noise"
            )
        power = np.mean(X**2, axis=0, dtype=np.float64)
        amplitude = np.sqrt(power) * 10 ** (-float(snr_db) / 20)
        X += (generator.standard_normal(X.shape) * amplitude).astype(X.dtype)
    return X, A


def random_mixing(
    n_mixtures: int,
    n_sources: int,
    condition: float,
    *,
    rms: float = 1.0,
    rng: Rng = None,
) -> NDArray[np.float64]:
    """A random mixing matrix of a given condition number: log-spaced singular values
    between random directions.

    Parameters
    ----------
    n_mixtures, n_sources : int
        Shape of the matrix; not fewer mixtures than sources.
    condition : float
        Largest singular value over the smallest, 1 or more.
    rms : float, default=1.0
        Root mean square of the entries. Mixtures of uncorrelated sources of variance 1
        have a mean variance of n_sources rms^2.
    rng : int, numpy.random.Generator or None, default=None
        Source of randomness.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.datasets import random_mixing
    >>> A = random_mixing(5, 3, condition=30, rng=0)
    >>> round(float(np.linalg.cond(A)), 6), round(float(np.mean(A**2)), 6)
    (30.0, 1.0)
    """
    k = positive_int("n_mixtures", n_mixtures)
    d = positive_int("n_sources", n_sources)
    if k < d:
        raise ValueError(
            f"n_mixtures={k} is less than n_sources={d}: no condition number is finite;"
            f" use {d} or more"
        )
    if not 1 <= condition < np.inf:
        raise ValueError(
            f"condition={condition!r} is not a condition number: use a finite number of"
            " at least 1"
        )
    if not 0 < rms < np.inf:
        raise ValueError(f"rms={rms!r} is not a size of entries: use a positive number")
    generator = np.random.default_rng(rng)
    U, V = (np.linalg.qr(generator.standard_normal((n, d)))[0] for n in (k, d))
    A = U * np.geomspace(1, 1 / condition, d) @ V.T
    return A * (rms * np.sqrt(k * d) / np.linalg.norm(A))


def paper_mixing(
    setting: Literal["d3", "d10", "images", "images-printed"],
) -> NDArray[np.float64]:
    """The paper's mixing matrix, every entry as printed, but for the images.

    *Erratum.* The matrix that the paper prints for the images ("images-printed",
    squared norm 14.65) is not that of the authors' data ("images", 2.34), with which
    Algorithm 2 recovers them.

    Parameters
    ----------
    setting : {"d3", "d10", "images", "images-printed"}
        The experiment; the paper prints the 10 x 10 matrix to two decimals.

    Examples
    --------
    >>> from bionica.datasets import paper_mixing
    >>> paper_mixing("d3")[0]
    array([0.031518, 0.38793 , 0.061132])
    """
    if setting not in _PAPER_MIXING:
        raise ValueError(
            f"setting={setting!r} is unknown: use one of"
            f" {', '.join(map(repr, _PAPER_MIXING))}"
        )
    rows = _PAPER_MIXING[setting].strip().splitlines()
    return np.array([row.split() for row in rows], dtype=np.float64)


def natural_images(
    path: str | Path | None = None,
    *,
    names: Sequence[str] | None = None,
    size: int | None = 252,
) -> Sources:
    """Images as sources: one column per image, one row per pixel.

    Parameters
    ----------
    path : str, Path or None, default=None
        Where the images are:

        - None: sample images of scikit-image (``pip install 'bionica[plot]'``);
        - a folder: its ``sources.npy`` if there is one, otherwise every image file in
          it, ordered by name;
        - ``.npy``: an array of shape (n_images, n_pixels), or (n_images, height,
          width).
    names : sequence of str, optional
        Which images, and in what order: names of files, numbers ("0", "1", ...) of the
        images of an ``.npy``, or, without `path`, some of scikit-image's "camera",
        "brick", "gravel", "grass" and "moon". By default all that `path` holds, or the
        first three.
    size : int or None, default=252
        Images are cropped about their centres to the largest height and width that all
        of them have, at most `size`. The paper's are 252 by 252. Rows of an (n_images,
        n_pixels) array are not cropped.

    Returns
    -------
    ndarray of shape (n_pixels, n_images)
        Pixels in reading order, each image shifted to minimum 0 and scaled to variance
        1. Colours become luminance, transparency is ignored. Images are never exactly
        uncorrelated (`bionica.metrics.correlation_floor`).

    Examples
    --------
    >>> from bionica.datasets import natural_images
    >>> S = natural_images()
    >>> S.shape
    (63504, 3)
    >>> S.min(axis=0), S.var(axis=0).round(12)
    (array([0., 0., 0.]), array([1., 1., 1.]))
    """
    if isinstance(names, str):
        raise ValueError(
            f"names={names!r} is one string: pass a sequence, names=({names!r},)"
        )
    labelled = _read_images(None if path is None else Path(path).expanduser(), names)
    images = _crop([_gray(label, image) for label, image in labelled], size)
    S = np.stack([image.ravel() for image in images], axis=1)
    S -= S.min(axis=0)
    deviation = S.std(axis=0)
    for (label, _), spread in zip(labelled, deviation, strict=True):
        if not 0 < spread < np.inf:
            raise ValueError(
                f"image {label!r} is constant after cropping, or holds NaN or infinity:"
                " omit it"
            )
    return S / deviation


def _read_images(
    path: Path | None, names: Sequence[str] | None
) -> list[tuple[str, NDArray[Any]]]:
    """Return the images of these names, by default all of them, with their names."""
    if path is not None and (path / "sources.npy").is_file():
        path = path / "sources.npy"
    readers: dict[str, Callable[[], Any]]
    if path is None:
        try:
            from skimage import data
        except ImportError as error:
            raise ImportError(
                "the sample images need scikit-image: pip install 'bionica[plot]', or"
                " pass .npy files"
            ) from error
        names = names or _SHIPPED[:3]
        readers = {name: getattr(data, name) for name in _SHIPPED}
    elif path.suffix.lower() == ".npy":
        stack = np.load(path)
        is_tall = stack.ndim == 2 and stack.shape[0] > stack.shape[1]
        if is_tall or stack.ndim not in (2, 3):
            raise ValueError(
                f"{path} has shape {stack.shape}: save (n_images, n_pixels) or"
                " (n_images, height, width)"
            )
        # a flat image is one row high
        images = stack if stack.ndim == 3 else stack[:, None, :]
        readers = {str(i): partial(np.asarray, image) for i, image in enumerate(images)}
    else:
        from bionica.io.images import IMAGES, read_image

        files = sorted(path.iterdir()) if path.is_dir() else []
        files = [file for file in files if file.suffix.lower() in IMAGES]
        if not files:
            wanted = f"pass .npy, or a folder with images, {', '.join(IMAGES)}"
            raise FileNotFoundError(f"path={str(path)!r} holds no image: {wanted}")
        readers = {file.name: partial(read_image, file) for file in files}
    unknown = [name for name in names or () if name not in readers]
    if unknown:
        raise ValueError(
            f"names holds {unknown[0]!r}: choose from {', '.join(map(repr, readers))}"
        )
    return [(name, readers[name]()) for name in names or readers]


def _gray(label: str, image: NDArray[Any]) -> NDArray[np.float64]:
    image = np.asarray(image, dtype=np.float64)
    if image.ndim == 3 and image.shape[2] in (1, 2, 3, 4):
        luminance = (0.2125, 0.7154, 0.0721)  # of linear RGB, ITU-R BT.709
        is_grey = image.shape[2] < 3
        image = image[..., 0] if is_grey else image[..., :3] @ np.array(luminance)
    if image.ndim != 2 or image.size == 0:
        raise ValueError(
            f"image {label!r} has shape {image.shape}: pass (height, width) or (height,"
            " width, 3)"
        )
    return image


def _crop(
    images: list[NDArray[np.float64]], size: int | None
) -> list[NDArray[np.float64]]:
    height, width = np.min([image.shape for image in images], axis=0).tolist()
    if size is not None and height > 1:
        height = min(height, positive_int("size", size))
        width = min(width, size)
    cropped = []
    for image in images:
        top = (image.shape[0] - height) // 2
        left = (image.shape[1] - width) // 2
        cropped.append(image[top : top + height, left : left + width])
    return cropped
