"""Sources that correlate, and the spectra that mix them. Every function draws from the generator that it is given."""

import os
from pathlib import Path

import numpy as np
from scipy.signal import stft

from bionica.datasets import copula_uniform, natural_images, random_sources

#: Environment variable with the folder of the paper's images; the command line sets it, worker processes inherit it.
PAPER_FOLDER = "BIONICA_PAPER_IMAGES"
#: Set -> names of images of scikit-image. Chosen by their correlations alone, before any method was run on them.
IMAGES = {
    "camera, brick, gravel": ("camera", "brick", "gravel"),
    "coffee, moon, rocket": ("coffee", "moon", "rocket"),
}
PAPER = "the paper's"
NOTES_HZ = (220.0, 277.2, 329.6, 440.0)


def synthetic(kind, T, d, rng):
    """Sources of benchmarks/batch.py, "odor-like", or "copula RHO"."""
    if kind.startswith("copula"):
        return copula_uniform(T, d, float(kind.split()[1]), rng=rng)
    return random_sources({"odor-like": "odor"}.get(kind, kind.replace("-", "_")), T, d, rng=rng)


def images(name, size=None):
    """Three images as sources of minimum 0 and variance 1, cropped to the size that all have, at most `size`."""
    if name == PAPER:
        S = natural_images(os.environ[PAPER_FOLDER])
        if size is not None:
            S = S[: size**2] - S[: size**2].min(axis=0)
        return S / S.std(axis=0)
    import skimage.data

    return natural_images(Path(skimage.data.__file__).parent, names=IMAGES[name], size=size)


def smooth_spectra(rng, d=4, k=100):
    """Overlapping spectra of three Gaussian bands each, (k, d)."""
    x = np.linspace(0, 1, k)
    return np.stack(
        [sum(rng.random() * _band(x, rng.random(), 0.05 + 0.1 * rng.random()) for _ in range(3)) for _ in range(d)], 1
    )


def emission_spectra(rng, d=4, k=32):
    """Emission of four dyes over 450 to 700 nm: one band each, 30 nm apart, with the tail towards red that dyes have."""
    nm = np.linspace(450, 700, k)[:, None]
    peaks = 500 + 30 * np.arange(d) + rng.uniform(-5, 5, d)
    return np.exp(-0.5 * (np.log(np.maximum(nm - peaks + 60, 1) / 60) / 0.35) ** 2)


def _band(x, centre, width):
    return np.exp(-0.5 * ((x - centre) / width) ** 2)


def chromatogram(T, rng, d=4):
    """Peaks of four compounds that overlap in time."""
    return _band(np.linspace(0, 1, T)[:, None], np.linspace(0.35, 0.65, d), 0.06)


def stained_cells(T, rng, d=4, shared=8, own=8):
    """Pixels of an image of round structures. Half of the structures of a dye are also stained by all other dyes."""
    side = int(np.ceil(np.sqrt(T)))
    pixel = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 1, 2)[:T] / side

    def blobs(n):
        square = np.sum((pixel - rng.random((n, 2))) ** 2, axis=2)
        return np.maximum(1 - square / rng.uniform(0.05, 0.12, n) ** 2, 0)

    everywhere = blobs(shared)
    return np.stack([everywhere @ rng.random(shared) + blobs(own) @ rng.random(own) for _ in range(d)], axis=1)


def spectrogram(T, rng, rate=8000, frame=512, band=128):
    """Power spectrogram (T, band) of four decaying notes with seven harmonics, and the power of each note alone (T, 4).

    Powers of simultaneous notes do not add exactly, because their waves interfere. A holds the mean spectrum of each note.
    """
    n = T * frame // 2
    t = np.arange(rate) / rate
    waves = np.zeros((len(NOTES_HZ), n))
    for wave, hertz in zip(waves, NOTES_HZ, strict=True):
        strength = rng.uniform(0.2, 1, 7) / np.arange(1, 8)
        for start in rng.choice(n, n // 20_000, replace=False):
            phases = rng.uniform(0, 2 * np.pi, 7)
            tone = np.sin(2 * np.pi * hertz * np.arange(1, 8) * t[:, None] + phases) @ strength
            end = min(n, start + rate)
            wave[start:end] += (rng.random() * tone * np.exp(-4 * t))[: end - start]

    def power(wave):
        return np.abs(stft(wave, rate, nperseg=frame, boundary=None, padded=False)[2][:band].T) ** 2

    alone = np.array([power(wave) for wave in waves])
    S = alone.sum(axis=2).T
    return power(waves.sum(axis=0)), S, (alone.sum(axis=1) / S.sum(axis=0)[:, None]).T


def chemistry(kind, T, rng):
    """Return clean mixtures, sources and spectra."""
    if kind == "four notes":
        X, S, A = spectrogram(T, rng)
    else:
        A = emission_spectra(rng) if kind == "fluorescence" else smooth_spectra(rng)
        if kind.startswith("Dirichlet"):
            S = rng.dirichlet(np.full(A.shape[1], float(kind.split()[1])), T)
        else:
            S = {"chromatogram": chromatogram, "fluorescence": stained_cells}[kind](T, rng)
        X = S @ A.T
    return X, S, A


def indian_pines():
    """Spectra of 145 x 145 pixels in 200 bands."""
    from tensorly.datasets import load_indian_pines

    X = np.asarray(load_indian_pines().tensor, dtype=float)
    return X.reshape(-1, X.shape[-1]), None


def fermentation():
    """Raman spectra of a fermentation, one every 1.25 minutes, and the glucose measured by HPLC, interpolated in time."""
    from chemotools.datasets import load_fermentation_test

    spectra, hplc = load_fermentation_test()
    hours = np.arange(len(spectra)) * 1.25 / 60
    return spectra.to_numpy(float), np.interp(hours, hplc["time"], hplc["glucose"])


def fermentation_above_background():
    """The same spectra above the first percentile of each channel, which takes the constant background away."""
    X, glucose = fermentation()
    return X - np.quantile(X, 0.01, axis=0), glucose


def fermentation_bands():
    """The same spectra from 950 to 1550 / cm, as is usual, without their baselines: morphological opening of each, smoothed."""
    from chemotools.datasets import load_fermentation_test
    from scipy.ndimage import grey_opening, uniform_filter1d

    X, glucose = fermentation()
    shift = np.array([float(name) for name in load_fermentation_test()[0].columns])
    X = X[:, (shift > 950) & (shift < 1550)]
    return np.maximum(X - uniform_filter1d(grey_opening(X, (1, 60)), 60, axis=1), 0), glucose


#: Data set -> package that ships it, function that reads it, number of sources.
REAL = {
    "Indian Pines": ("tensorly", indian_pines, 6),
    "fermentation": ("chemotools", fermentation, 4),
    "fermentation, background subtracted": ("chemotools", fermentation_above_background, 4),
    "fermentation, 950 to 1550 / cm without baseline": ("chemotools", fermentation_bands, 3),
    "the same, 4 sources": ("chemotools", fermentation_bands, 4),
}
