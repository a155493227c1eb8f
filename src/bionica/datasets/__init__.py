"""Nonnegative sources, the paper's and others, and matrices to mix them with.

X and S are (n_samples, n_features) everywhere; A is (n_mixtures, n_sources), so that X = S A'.

**Unit variance and zero minimum** hold for every source here, as the theory asks (nonnegative, well grounded,
of unit variance). What that means depends on where the source comes from:

- *drawn from a distribution*: of the distribution, as in the paper. The variance is 1 in expectation, the
  infimum of the support is 0, and no sample is negative. Nothing is rescaled after drawing, so samples stay
  independent, and the variance of n of them differs from 1 by O(1/sqrt(n)).
- *photographed*: of the pixels given. Each image has minimum 0 and variance 1 (with 1/n), to rounding.

`rng` is None (fresh entropy), an integer (the same draw every time) or a `numpy.random.Generator` (which is
advanced). float32 sources are the float64 sources of the same seed, rounded.
"""

import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import special

__all__ = [
    "copula_uniform",
    "mix",
    "natural_images",
    "odors",
    "paper_mixing",
    "random_sources",
    "sparse_uniform",
]

Rng = int | np.integer[Any] | np.random.Generator | None
Sources = NDArray[np.floating[Any]]
Kind = Literal["sparse_uniform", "exponential", "half_normal", "gamma", "odor"]

_SHIPPED = ("camera", "brick", "gravel", "grass", "moon")  # inside scikit-image's wheel: no download
_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".pgm", ".npy")
_LUMINANCE = (0.2125, 0.7154, 0.0721)  # of linear RGB, ITU-R BT.709
_BLOCK = 1 << 19  # numbers drawn at a time as noise


def sparse_uniform(n_samples: int, n_sources: int, *, rng: Rng = None, dtype: DTypeLike = np.float64) -> Sources:
    """The paper's sources: 0 with probability 1/2, else uniform on (0, sqrt(48/5)).

    Parameters
    ----------
    n_samples, n_sources : int
        Shape of the result.
    rng : int, numpy.random.Generator or None, default=None
        Source of randomness.
    dtype : {float64, float32}, default=float64
        Type of the result.

    Returns
    -------
    ndarray of shape (n_samples, n_sources)
        Independent entries of mean sqrt(3/5) and variance 1. A longer draw of the same seed starts with the
        shorter one.

    Examples
    --------
    >>> from bionica.datasets import sparse_uniform
    >>> S = sparse_uniform(100_000, 3, rng=0)
    >>> S.shape, float(S.min()), round(float(S.var()), 2), round(float((S == 0).mean()), 2)
    ((100000, 3), 0.0, 1.0, 0.5)
    """
    return random_sources("sparse_uniform", n_samples, n_sources, rng=rng, dtype=dtype)


def random_sources(
    kind: Kind, n_samples: int, n_sources: int, *, rng: Rng = None, dtype: DTypeLike = np.float64
) -> Sources:
    """Independent sources of one family, each of unit variance and infimum 0.

    Parameters
    ----------
    kind : str
        How well grounded the sources are, from best to worst:

        - "odor": 0 with probability 0.9, else exponential;
        - "sparse_uniform": 0 with probability 1/2, else uniform (the paper's);
        - "exponential": its density is largest at 0;
        - "half_normal": flat at 0;
        - "gamma": of shape 2; its density vanishes at 0, the hardest case.
    n_samples, n_sources : int
        Shape of the result.
    rng : int, numpy.random.Generator or None, default=None
        Source of randomness.
    dtype : {float64, float32}, default=float64
        Type of the result.

    Returns
    -------
    ndarray of shape (n_samples, n_sources)
        A longer draw of the same seed starts with the shorter one, and blocks drawn from one Generator
        continue each other.

    Examples
    --------
    >>> from bionica.datasets import random_sources
    >>> S = random_sources("half_normal", 100_000, 2, rng=0)
    >>> bool(S.min() >= 0), round(float(S.var()), 2)
    (True, 1.0)
    """
    if kind not in _DRAWS:
        raise ValueError(f"kind={kind!r} is unknown: use one of {', '.join(map(repr, _DRAWS))}")
    shape = (_count("n_samples", n_samples), _count("n_sources", n_sources))
    result = _float_dtype(dtype)
    return _DRAWS[kind](_generator(rng), shape).astype(result, copy=False)


def odors(
    n_samples: int,
    n_odorants: int = 5,
    n_receptors: int = 21,
    *,
    p_silent: float = 0.9,
    rng: Rng = None,
    dtype: DTypeLike = np.float64,
) -> tuple[Sources, Sources]:
    """Odorant concentrations, and how strongly each receptor responds to each odorant.

    An odorant is absent from a sample with probability `p_silent`; present, its concentration is exponential.
    Affinities span orders of magnitude: the entries of A are log-normal, exp(N(0, 1)). No receptor's response
    is measured data; A is drawn anew for every seed. `mix(S, A)` gives the receptors' activities.

    Parameters
    ----------
    n_samples : int
        Number of sniffs.
    n_odorants, n_receptors : int, default=5 and 21
        Sources and mixtures; at least as many receptors as odorants.
    p_silent : float, default=0.9
        Probability that an odorant is absent, 0 <= p_silent < 1.
    rng : int, numpy.random.Generator or None, default=None
        Source of randomness.
    dtype : {float64, float32}, default=float64
        Type of both results.

    Returns
    -------
    S : ndarray of shape (n_samples, n_odorants)
        Concentrations, scaled to unit variance.
    A : ndarray of shape (n_receptors, n_odorants)
        Affinities, all positive. The same seed gives the same A for any number of samples.

    Examples
    --------
    >>> from bionica.datasets import mix, odors
    >>> S, A = odors(50_000, rng=0)
    >>> X, _ = mix(S, A)
    >>> X.shape, bool(X.min() >= 0), round(float((S == 0).mean()), 2)
    ((50000, 21), True, 0.9)
    """
    shape = (_count("n_samples", n_samples), _count("n_odorants", n_odorants))
    n_receptors = _count("n_receptors", n_receptors)
    if n_receptors < n_odorants:
        raise ValueError(
            f"n_receptors={n_receptors} is less than n_odorants={n_odorants}, and no linear network could "
            "tell the odorants apart: use at least as many receptors"
        )
    if not 0 <= p_silent < 1:
        raise ValueError(f"p_silent={p_silent!r} is no probability below 1: use 0.9, for instance")
    result = _float_dtype(dtype)
    generator = _generator(rng)
    A = np.exp(generator.standard_normal((n_receptors, n_odorants)))
    S = _draw_odor(generator, shape, p_silent)
    return S.astype(result, copy=False), A.astype(result, copy=False)


def copula_uniform(
    n_samples: int,
    n_sources: int,
    rho: float,
    *,
    df: float = 4,
    rng: Rng = None,
    dtype: DTypeLike = np.float64,
) -> Sources:
    """Dependent sources: uniform on [0, sqrt(12)], coupled by a t-copula of equal correlations.

    NICA assumes uncorrelated sources; these measure what it costs that real ones are not (see
    `bionica.metrics.correlation_floor`).

    Parameters
    ----------
    n_samples, n_sources : int
        Shape of the result.
    rho : float
        Correlation of every pair of the underlying t variables, -1/(n_sources - 1) <= rho < 1. Pearson's
        correlation of the uniform sources themselves is slightly nearer 0.
    df : float, default=4
        Degrees of freedom. Small ones make extremes coincide, so that sources with rho = 0 are uncorrelated
        and still dependent; inf is the Gaussian copula.
    rng : int, numpy.random.Generator or None, default=None
        Source of randomness.
    dtype : {float64, float32}, default=float64
        Type of the result.

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
    n_samples, d = _count("n_samples", n_samples), _count("n_sources", n_sources)
    lowest = -1 / (d - 1) if d > 1 else -1.0
    if not lowest <= rho < 1:
        raise ValueError(f"rho={rho!r} is no common correlation of {d} variables: use {lowest:.3g} <= rho < 1")
    if not df > 0:
        raise ValueError(f"df={df!r} must be positive: use df=4, or df=float('inf') for a Gaussian copula")
    result = _float_dtype(dtype)
    generator = _generator(rng)

    # The symmetric root of (1 - rho) I + rho 11' is a I + b 11': O(d) a sample, and rho may be negative.
    a = np.sqrt(1 - rho)
    b = (np.sqrt(max(0.0, 1 + (d - 1) * rho)) - a) / d
    Z = generator.standard_normal((n_samples, d))
    Z = a * Z + b * Z.sum(axis=1, keepdims=True)
    if np.isinf(df):
        S = special.ndtr(Z)
    else:
        with np.errstate(divide="ignore", over="ignore"):  # df near 0 draws 0: the sample is at a corner
            Z *= np.sqrt(df / generator.chisquare(df, size=(n_samples, 1)))
        S = special.stdtr(df, Z)
    S *= np.sqrt(12)
    return np.asarray(S, dtype=result)


def natural_images(
    path: str | Path | None = None,
    *,
    names: Sequence[str] | None = None,
    size: int | tuple[int, int] | None = 252,
    dtype: DTypeLike = np.float64,
) -> Sources:
    """Images as sources: one column an image, one row a pixel.

    Parameters
    ----------
    path : str, Path or None, default=None
        Where the images are:

        - None: images that ship with scikit-image (``pip install 'bionica[plot]'``);
        - a folder: its ``sources.npy`` if it holds one, else every image file in it, ordered by name;
        - an image file, of any format that scikit-image reads;
        - ``.npy``: an array of shape (n_images, n_pixels), or (n_images, height, width);
        - ``.npz``: one image an entry.
    names : sequence of str or None, default=None
        Which images and in what order: file names without suffix, entries of the ``.npz``, numbers ("0",
        "1", ...) of the images of an ``.npy``, or, without `path`, some of scikit-image's "camera", "brick",
        "gravel", "grass" (CC0) and "moon". None means all that `path` holds, or ("camera", "brick",
        "gravel").
    size : int, (int, int) or None, default=252
        Images are cropped about their centres to the largest height and width that all of them have, and no
        larger than this. The paper's are 252 by 252. Rows of an (n_images, n_pixels) array are taken whole.
    dtype : {float64, float32}, default=float64
        Type of the result.

    Returns
    -------
    ndarray of shape (n_pixels, n_images)
        Pixels in reading order, each image shifted to minimum 0 and scaled to variance 1. Colours are
        reduced to luminance, transparency is ignored.

    Notes
    -----
    Images are never quite uncorrelated. The largest correlation and the `bionica.metrics.correlation_floor`
    are 0.040 and 2.2e-3 for the default, 0.021 and 4e-4 for the whole 512 by 512 images (``size=None``), 0.21
    and 0.0326 for the three patches of the paper.

    Examples
    --------
    >>> from bionica.datasets import natural_images
    >>> S = natural_images()
    >>> S.shape
    (63504, 3)
    >>> S.min(axis=0), S.var(axis=0).round(12)
    (array([0., 0., 0.]), array([1., 1., 1.]))
    """
    result = _float_dtype(dtype)
    if isinstance(names, str):
        raise TypeError(f"names={names!r} is one string: pass a sequence, names=({names!r},)")
    labelled = _shipped_images(names) if path is None else _read_images(Path(path).expanduser(), names)
    images = _crop([_gray(label, image) for label, image in labelled], size)
    S = np.stack([image.ravel() for image in images], axis=1)
    S -= S.min(axis=0)
    deviation = S.std(axis=0)
    for (label, _), spread in zip(labelled, deviation, strict=True):
        if not spread > 0:
            raise ValueError(f"image {label!r} is constant where it was cropped: leave it out by `names`")
    S /= deviation
    return S.astype(result, copy=False)


def mix(
    S: ArrayLike,
    A: ArrayLike | None = None,
    *,
    n_mixtures: int | None = None,
    snr_db: float | None = None,
    rng: Rng = None,
) -> tuple[Sources, Sources]:
    """Mix sources, x = A s, and add noise if asked.

    Parameters
    ----------
    S : array-like of shape (n_samples, n_sources)
        The sources.
    A : array-like of shape (n_mixtures, n_sources) or None, default=None
        The mixing matrix; None draws independent standard normal entries, as the paper does.
    n_mixtures : int or None, default=None
        Rows of a drawn A; None draws a square one.
    snr_db : float or None, default=None
        Signal-to-noise ratio of every mixture: white Gaussian noise of variance ``mean(x**2) / 10**(snr_db /
        10)`` is added to the mixture x. The mean counts as signal. None adds nothing.
    rng : int, numpy.random.Generator or None, default=None
        Source of randomness, for A and then for the noise.

    Returns
    -------
    X : ndarray of shape (n_samples, n_mixtures)
        The mixtures, in the precision of S.
    A : ndarray of shape (n_mixtures, n_sources)
        The matrix that was used, never the caller's own array.

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
    if S.dtype != np.float32:
        S = S.astype(np.float64, copy=False)
    if S.ndim != 2 or S.size == 0:
        raise ValueError(f"S has shape {S.shape}: pass (n_samples, n_sources), neither of them 0")
    d = S.shape[1]
    generator = _generator(rng)
    if A is None:
        k = d if n_mixtures is None else _count("n_mixtures", n_mixtures)
        A = generator.standard_normal((k, d))
    A = np.array(A, dtype=S.dtype)
    if A.ndim != 2 or A.shape[1] != d or A.shape[0] == 0:
        raise ValueError(f"A has shape {A.shape} and S has {d} columns: pass A of shape (n_mixtures, {d})")
    if n_mixtures is not None and n_mixtures != A.shape[0]:
        raise ValueError(f"n_mixtures={n_mixtures} but A has {A.shape[0]} rows: leave n_mixtures out")
    X = S @ A.T
    if snr_db is not None:
        if not snr_db > -np.inf:
            raise ValueError(f"snr_db={snr_db!r} is no ratio in dB: use 30, for instance, or None for no noise")
        _add_noise(X, float(snr_db), generator)
    return X, A


def paper_mixing(setting: Literal["d3", "d10", "images"]) -> NDArray[np.float64]:
    """The paper's mixing matrix, every entry as printed.

    Parameters
    ----------
    setting : {"d3", "d10", "images"}
        Which experiment of the paper's appendix "Details of numerical experiments". The 10 x 10 matrix is
        printed there to two decimals.

    Returns
    -------
    ndarray of shape (3, 3) or (10, 10)
        A copy, to be changed at will.

    Examples
    --------
    >>> from bionica.datasets import paper_mixing
    >>> paper_mixing("d3")[0]
    array([0.031518, 0.38793 , 0.061132])
    """
    if setting not in _PAPER_MIXING:
        raise ValueError(f"setting={setting!r} is unknown: use one of {', '.join(map(repr, _PAPER_MIXING))}")
    return np.array(_PAPER_MIXING[setting])


# Every family fills its array row by row in one call, so that blocks from one Generator continue each other.


def _draw_sparse_uniform(generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    S = generator.random(shape)
    S *= 2
    S -= 1
    np.maximum(S, 0, out=S)  # given that it exceeds 0, 2u - 1 is uniform on (0, 1)
    S *= np.sqrt(48 / 5)
    return S


def _draw_exponential(generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    return generator.standard_exponential(shape)


def _draw_half_normal(generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    S = generator.standard_normal(shape)
    np.abs(S, out=S)
    S /= np.sqrt(1 - 2 / np.pi)
    return S


def _draw_gamma(generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    S = generator.standard_gamma(2.0, shape)
    S /= np.sqrt(2)
    return S


def _draw_odor(generator: np.random.Generator, shape: tuple[int, int], p_silent: float = 0.9) -> NDArray[np.float64]:
    S = generator.standard_exponential(shape)
    S += np.log1p(-p_silent)  # exceeds 0 with probability 1 - p_silent, and what exceeds is exponential again
    np.maximum(S, 0, out=S)
    p = 1 - p_silent
    S /= np.sqrt(p * (2 - p))
    return S


_DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]] = {
    "odor": _draw_odor,
    "sparse_uniform": _draw_sparse_uniform,
    "exponential": _draw_exponential,
    "half_normal": _draw_half_normal,
    "gamma": _draw_gamma,
}


def _add_noise(X: Sources, snr_db: float, generator: np.random.Generator) -> None:
    power = np.einsum("ij,ij->j", X, X, dtype=np.float64) / X.shape[0]
    amplitude = np.sqrt(power) * 10 ** (-snr_db / 20)
    rows = max(1, _BLOCK // X.shape[1])
    for start in range(0, X.shape[0], rows):
        block = X[start : start + rows]
        block += (generator.standard_normal(block.shape) * amplitude).astype(X.dtype, copy=False)


def _shipped_images(names: Sequence[str] | None) -> list[tuple[str, NDArray[Any]]]:
    names = ("camera", "brick", "gravel") if names is None else names
    for name in names:
        if name not in _SHIPPED:
            raise ValueError(
                f"names holds {name!r}, which is not one of {', '.join(map(repr, _SHIPPED))}: pass other "
                "images by `path`"
            )
    try:
        from skimage import data
    except ImportError as error:
        raise ImportError(
            "the sample images belong to scikit-image, which is not installed: pip install 'bionica[plot]', "
            "or pass `path` to .npy files"
        ) from error
    return [(name, getattr(data, name)()) for name in names]


def _read_images(path: Path, names: Sequence[str] | None) -> list[tuple[str, NDArray[Any]]]:
    if not path.exists():
        raise FileNotFoundError(f"path={str(path)!r} does not exist: pass a folder, an image, .npy or .npz")
    if path.is_dir() and (path / "sources.npy").is_file():
        path = path / "sources.npy"
    if path.is_dir():
        files = sorted(f for f in path.iterdir() if f.suffix.lower() in _IMAGE_SUFFIXES)
        chosen = [files[i] for i in _choose([f.stem for f in files], names, path)]
        return [(f.name, np.load(f) if f.suffix.lower() == ".npy" else _imread(f)) for f in chosen]
    if path.suffix.lower() == ".npz":
        with np.load(path) as archive:
            entries = archive.files
            return [(entries[i], archive[entries[i]]) for i in _choose(entries, names, path)]
    if path.suffix.lower() == ".npy":
        stack = np.load(path)
        if stack.ndim not in (2, 3) or (stack.ndim == 2 and stack.shape[0] > stack.shape[1]):
            raise ValueError(
                f"{path} holds an array of shape {stack.shape}: save (n_images, n_pixels) or (n_images, "
                "height, width), transposed where need be"
            )
        images = stack if stack.ndim == 3 else stack[:, None, :]  # a flat image is one row high
        indices = _choose([str(i) for i in range(len(images))], names, path)
        return [(f"{path.name}[{i}]", images[i]) for i in indices]
    return [(path.name, _imread(path))]


def _choose(available: list[str], names: Sequence[str] | None, path: Path) -> list[int]:
    if not available:
        raise ValueError(f"path={str(path)!r} holds no image: files end in {', '.join(_IMAGE_SUFFIXES)}")
    for name in names or ():
        if name not in available:
            raise ValueError(f"names holds {name!r}, and {path} holds {', '.join(available)}: choose of those")
    return list(range(len(available))) if names is None else [available.index(name) for name in names]


def _imread(path: Path) -> NDArray[Any]:
    try:
        from skimage import io
    except ImportError as error:
        raise ImportError(
            f"reading {path.name} takes scikit-image, which is not installed: pip install 'bionica[plot]', "
            "or save the images as .npy"
        ) from error
    return np.asarray(io.imread(path))


def _gray(label: str, image: NDArray[Any]) -> NDArray[np.float64]:
    image = np.asarray(image, dtype=np.float64)
    if image.ndim == 3 and image.shape[2] in (3, 4):
        image = image[..., :3] @ np.array(_LUMINANCE)
    elif image.ndim == 3 and image.shape[2] in (1, 2):
        image = image[..., 0]
    if image.ndim != 2 or image.size == 0:
        raise ValueError(f"image {label!r} has shape {image.shape}: pass (height, width) or (height, width, 3)")
    if not np.isfinite(image).all():
        raise ValueError(f"image {label!r} holds NaN or infinity: fill those pixels, or leave the image out")
    return image


def _crop(images: list[NDArray[np.float64]], size: int | tuple[int, int] | None) -> list[NDArray[np.float64]]:
    height, width = min(i.shape[0] for i in images), min(i.shape[1] for i in images)
    flat = all(i.shape[0] == 1 for i in images)
    if size is not None and not flat:
        limits = size if isinstance(size, tuple) else (size, size)
        height = min(height, _count("size", limits[0]))
        width = min(width, _count("size", limits[1]))
    cropped = []
    for image in images:
        top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
        cropped.append(image[top : top + height, left : left + width])
    return cropped


def _generator(rng: Rng) -> np.random.Generator:
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool) and rng >= 0:
        return np.random.default_rng(int(rng))
    raise ValueError(f"rng={rng!r}: pass None, an integer >= 0 or a numpy.random.Generator")


def _float_dtype(dtype: DTypeLike) -> np.dtype[np.floating[Any]]:
    for result in (np.dtype(np.float64), np.dtype(np.float32)):
        if np.dtype(dtype) == result:
            return result
    raise ValueError(f"dtype={dtype!r}: use numpy.float64 or numpy.float32")


def _count(name: str, value: int) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise ValueError(f"{name}={value!r}: pass a positive integer")
    return count


_PAPER_MIXING = {
    "d3": (
        (0.031518, 0.38793, 0.061132),
        (-0.78502, 0.16561, 0.12458),
        (0.34782, 0.27295, 0.67793),
    ),
    "d10": (
        (-1.61, 0.11, 0.11, 1.26, -0.01, -1.66, 0.45, 0.48, 0.93, -0.57),
        (-0.95, -0.05, 0.35, -0.68, 1.14, 0.71, -0.38, -0.20, -0.20, 2.02),
        (0.54, 2.16, 0.06, -0.08, 0.36, -0.16, -0.22, -1.82, -0.22, 0.40),
        (-0.98, -0.12, -1.45, -0.58, -0.56, 0.34, -0.51, 0.19, -0.44, -0.15),
        (-0.87, 0.54, 0.68, 1.28, 0.63, 1.04, -0.81, 1.08, -0.65, -0.30),
        (0.91, 0.84, 0.45, -0.31, -0.14, -1.46, -0.18, 0.48, -0.41, 0.75),
        (-1.20, 1.29, 0.39, -1.40, 0.84, -2.32, -1.54, -0.26, -1.99, -0.34),
        (1.34, 0.75, -1.29, -0.63, -1.63, -1.05, 0.07, 0.09, -0.67, 0.28),
        (-0.32, -0.38, -0.11, 1.18, -0.41, 0.58, -0.92, 1.09, 0.41, 1.29),
        (2.04, 2.00, -0.50, 0.78, -0.65, -0.93, 0.42, -1.69, -1.16, -0.68),
    ),
    "images": (
        (0.71964649, -1.55757433, -1.94561985),
        (-1.77115767, -0.99092683, 0.35559978),
        (-0.78408667, 1.09213136, -1.36539258),
    ),
}
