"""Realistic problems with known sources. All mixing matrices are nonnegative, so that NMF can be asked too."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from correlated_cases import sources


class Problem(NamedTuple):
    """`make(rng)` draws mixtures (T, k) and sources (T, d). `d` components are to be looked for: sources, and a background."""

    name: str
    make: Callable
    d: int


def with_noise(X, snr_db, rng):
    """Add white noise; infinite snr_db adds none."""
    return X + rng.standard_normal(X.shape) * np.sqrt(np.mean(X**2)) * 10 ** (-snr_db / 20)


def as_counts(X, snr_db, rng):
    """Poisson counts of that ratio of signal power to noise power."""
    return rng.poisson(10 ** (snr_db / 10) * X.mean() / np.mean(X**2) * X).astype(float)


def random_mixtures(draw, T, k, snr_db):
    """Sources from draw(T, rng), mixed by uniform numbers."""

    def make(rng):
        S = draw(T, rng)
        return with_noise(S @ rng.random((S.shape[1], k)), snr_db, rng), S

    return make


def chemistry(kind, T, noise, snr_db):
    """Spectra of benchmarks/correlated.py."""

    def make(rng):
        X, S, _ = sources.chemistry(kind, T, rng)
        return noise(X, snr_db, rng), S

    return make


def background(T, snr_db, varying):
    """Three substances that are absent at times, and a broad background in all samples, as strong as they are together.

    It is constant, or it rises and falls by half (a lamp, fluorescence of the solvent).
    """

    def make(rng):
        S = sources.synthetic("sparse-uniform", T, 3, rng)
        X = S @ sources.smooth_spectra(rng, 3).T
        broad = np.exp(-np.linspace(0, 1, X.shape[1]) / 0.7)
        t = np.linspace(0, 2 * np.pi, T)
        strength = 1 + (0.5 * np.sin(t + rng.uniform(0, 2 * np.pi)) if varying else np.zeros(T))
        return with_noise(X + X.mean() / broad.mean() * strength[:, None] * broad, snr_db, rng), S

    return make


def problems():
    """Return all problems."""
    return [
        Problem("fluorescence, 25 dB", chemistry("fluorescence", 3000, with_noise, 25), 4),
        Problem(
            "60 samples, 30 dB",
            random_mixtures(lambda T, rng: sources.synthetic("sparse-uniform", T, 3, rng), 60, 10, 30),
            3,
        ),
        Problem("uniform sources, 30 dB", random_mixtures(lambda T, rng: rng.random((T, 5)), 3000, 15, 30), 5),
        Problem(
            "log-normal sources, 30 dB", random_mixtures(lambda T, rng: rng.lognormal(size=(T, 4)), 3000, 12, 30), 4
        ),
        Problem("constant background, 30 dB", background(2000, 30, varying=False), 4),
        Problem("varying background, 30 dB", background(2000, 30, varying=True), 4),
        Problem("fluorescence, Poisson counts, 20 dB", chemistry("fluorescence", 3000, as_counts, 20), 4),
        Problem(
            "copula 0.5, 30 dB",
            random_mixtures(lambda T, rng: sources.synthetic("copula 0.5", T, 5, rng), 3000, 15, 30),
            5,
        ),
        Problem("chromatogram, 25 dB", chemistry("chromatogram", 3000, with_noise, 25), 4),
        Problem("spectrogram of four notes, 25 dB", chemistry("four notes", 3000, with_noise, 25), 4),
        Problem("abundances (Dirichlet 0.5), 25 dB", chemistry("Dirichlet 0.5", 3000, with_noise, 25), 4),
    ]
