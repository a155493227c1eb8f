"""The problems of all benchmarks: sources, and how they are mixed. Every function draws
from the generator that it is given.

Sources are (n, d) and of unit variance where they are drawn, A is (k, d), X = S A' and
noise.
"""

import numpy as np
from scipy.signal import stft

from bionica.datasets import copula_uniform, random_sources

#: Samples that are not learned from.
HELD_OUT = 5000
KINDS = ("sparse_uniform", "exponential", "half_normal", "gamma", "odor")
#: Sources and sizes of 40 uncorrelated problems: every kind at five sizes, square and
#: tall.
FORTY = [
    (kind, d, m * d) for kind in KINDS[:4] for d in (3, 5, 10, 20, 30) for m in (1, 2)
]
CHEMISTRY = (
    "Dirichlet 0.1",
    "Dirichlet 0.5",
    "Dirichlet 1",
    "chromatogram",
    "fluorescence",
    "four notes",
)
NOTES_HZ = (220.0, 277.2, 329.6, 440.0)


def sources(kind, n, d, rng):
    """Draw independent sources of one of KINDS, or "copula RHO"."""
    if kind.startswith("copula"):
        return copula_uniform(n, d, float(kind.split()[1]), rng=rng)
    return random_sources(kind, n, d, rng=rng)


def conditioned(k, d, rng):
    """Draw a matrix of condition number 1 to 1000 and scale 1e-3 to 1e3."""
    condition = 10 ** rng.uniform(0, 3)
    scale = 10 ** rng.uniform(-3, 3)
    U, _, Vt = np.linalg.svd(rng.standard_normal((k, d)), full_matrices=False)
    return scale * (U * np.geomspace(1, 1 / condition, d)) @ Vt


def disturb(clean, disturbance, size, begin, end, rng):
    """Return a disturbed copy of a stream between two samples; `size` is the factor of
    an outlier, or a length in horizons.
    """
    X = clean.copy()
    if "outlier" in disturbance:
        rows = {
            "one outlier": [begin],
            "1 outlier in 1,000 for 2 horizons": range(begin + 500, end, 1000),
            "1 outlier in 1,000 always": range(500, len(X), 1000),
        }[disturbance]
        # Many samples of sparse sources are zero, and a zero cannot be an outlier: take
        # others.
        X[rows] = size * clean[rng.choice(np.flatnonzero(clean.any(axis=1)), len(rows))]
    elif disturbance == "zeros":
        X[begin:end] = 0
    elif disturbance == "one channel frozen":
        X[begin:end, 0] = X[begin - 1, 0]
    else:  # one channel starts late
        X[:end, 0] = 0
    return X


def spectra(kind, noise, n, rng):
    """Return mixtures with noise ("40 dB" or "Poisson 20 dB"), sources and spectra of
    one of CHEMISTRY.
    """
    if kind == "four notes":
        X, S, A = _spectrogram(n, rng)
    else:
        A = _emission_spectra(rng) if kind == "fluorescence" else _smooth_spectra(rng)
        if kind.startswith("Dirichlet"):
            S = rng.dirichlet(np.full(A.shape[1], float(kind.split()[1])), n)
        elif kind == "chromatogram":  # peaks of four compounds that overlap in time
            S = _band(
                np.linspace(0, 1, n)[:, None], np.linspace(0.35, 0.65, A.shape[1]), 0.06
            )
        else:
            S = _stained_cells(n, rng)
        X = S @ A.T
    if noise.startswith("Poisson"):
        # Counts c x have the variance c x: their ratio of powers, c <x^2> / <x>, is to
        # be 100.
        counts = 100 * X.mean() / np.mean(X**2)
        return rng.poisson(counts * X).astype(float), S, counts * A
    return (
        X
        + rng.standard_normal(X.shape)
        * np.sqrt(np.mean(X**2))
        * 10 ** (-float(noise.split()[0]) / 20),
        S,
        A,
    )


def _band(x, centre, width):
    return np.exp(-0.5 * ((x - centre) / width) ** 2)


def _smooth_spectra(rng, d=4, k=100):
    """Overlapping spectra of three Gaussian bands each, (k, d)."""
    x = np.linspace(0, 1, k)
    bands = [
        sum(
            rng.random() * _band(x, rng.random(), 0.05 + 0.1 * rng.random())
            for _ in range(3)
        )
        for _ in range(d)
    ]
    return np.stack(bands, 1)


def _emission_spectra(rng, d=4, k=32):
    """Emission of four dyes over 450 to 700 nm: one band each, 30 nm apart, with the
    tail towards red that dyes have.
    """
    nm = np.linspace(450, 700, k)[:, None]
    peaks = 500 + 30 * np.arange(d) + rng.uniform(-5, 5, d)
    return np.exp(-0.5 * (np.log(np.maximum(nm - peaks + 60, 1) / 60) / 0.35) ** 2)


def _stained_cells(n, rng, d=4, shared=8, own=8):
    """Pixels of an image of round structures.

    Half of the structures of a dye are also stained by all other dyes.
    """
    side = int(np.ceil(np.sqrt(n)))
    pixel = (
        np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(
            -1, 1, 2
        )[:n]
        / side
    )

    def blobs(number):
        square = np.sum((pixel - rng.random((number, 2))) ** 2, axis=2)
        return np.maximum(1 - square / rng.uniform(0.05, 0.12, number) ** 2, 0)

    everywhere = blobs(shared)
    return np.stack(
        [
            everywhere @ rng.random(shared) + blobs(own) @ rng.random(own)
            for _ in range(d)
        ],
        axis=1,
    )


def _spectrogram(n, rng, rate=8000, frame=512, band=128):
    """Power spectrogram (n, band) of four decaying notes with seven harmonics, and the
    power of each note alone (n, 4).

    Powers of simultaneous notes do not add exactly, because their waves interfere. A
    holds the mean spectrum of each note.
    """
    length = n * frame // 2
    t = np.arange(rate) / rate
    waves = np.zeros((len(NOTES_HZ), length))
    for wave, hertz in zip(waves, NOTES_HZ, strict=True):
        strength = rng.uniform(0.2, 1, 7) / np.arange(1, 8)
        for start in rng.choice(length, length // 20_000, replace=False):
            phases = rng.uniform(0, 2 * np.pi, 7)
            tone = (
                np.sin(2 * np.pi * hertz * np.arange(1, 8) * t[:, None] + phases)
                @ strength
            )
            end = min(length, start + rate)
            wave[start:end] += (rng.random() * tone * np.exp(-4 * t))[: end - start]

    def power(wave):
        return (
            np.abs(
                stft(wave, rate, nperseg=frame, boundary=None, padded=False)[2][:band].T
            )
            ** 2
        )

    alone = np.array([power(wave) for wave in waves])
    S = alone.sum(axis=2).T
    return power(waves.sum(axis=0)), S, (alone.sum(axis=1) / S.sum(axis=0)[:, None]).T
