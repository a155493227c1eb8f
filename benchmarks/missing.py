"""Missing values: the worst spectrum of a fit, beside that of the complete data, of
mean filling, and of complete rows alone.

python benchmarks/missing.py            # the table of the guide, about a minute
"""

import warnings

import numpy as np

from bionica import MinimumVolumeCone
from bionica.metrics import spectral_angle
from bionica.mixtures import missing

SEEDS = range(10)


def dirichlet(seed, n=600, k=60, d=3, noise=0.01):
    """Smooth spectra in amounts that are correlated."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.1, 0.9, (d, 1))
    widths = rng.uniform(0.1, 0.25, (d, 1))
    A = 0.15 + np.exp(-(((np.linspace(0, 1, k) - centres) / widths) ** 2))
    X = (rng.dirichlet([0.5] * d, n) * rng.uniform(0.5, 1.5, (n, 1))) @ A
    return A, X + noise * X.std() * rng.standard_normal(X.shape), rng


def fluorescence(seed, d=3, n_samples=15, noise=0.01):
    """Emission spectra of 15 samples at 40 excitations, and the cells that first and
    second order scatter hides.
    """
    rng = np.random.default_rng(seed)
    excitation = np.linspace(250, 450, 40)
    emission = np.linspace(280, 600, 80)
    centre = rng.uniform(260, 420, d)
    E = np.exp(-(((excitation[:, None] - centre) / 30) ** 2))
    A = np.exp(
        -(
            (
                (emission - centre[:, None] - rng.uniform(60, 120, (d, 1)))
                / rng.uniform(30, 50, (d, 1))
            )
            ** 2
        )
    )
    X = (rng.random((n_samples, 1, d)) * E).reshape(-1, d) @ A
    at = np.tile(excitation, n_samples)[:, None]
    hidden = (np.abs(emission - at) < 15) | (np.abs(emission - 2 * at) < 20)
    return A, X + noise * X.std() * rng.standard_normal(X.shape), hidden


def worst(A, X):
    """Angle of the worst spectrum, in degrees, and the noise of the outputs."""
    model = MinimumVolumeCone(len(A), random_state=0).fit(X)
    return (
        np.degrees(spectral_angle(A, model.spectra_, per_source=True).max()),
        model.noise_.mean(),
    )


def noiseless(X, d):
    """Missing cells as A s, without noise: the ablation."""
    filled = missing.completed(X, d)
    for _ in range(30):
        U, s, V = np.linalg.svd(filled, full_matrices=False)
        filled = np.where(np.isnan(X), (U[:, :d] * s[:d]) @ V[:d], X)
    return filled


def row(name, problems):
    table = []
    for A, X, hidden in problems:
        gaps = np.where(hidden, np.nan, X)
        complete = gaps[~hidden.any(axis=1)]
        fits = [
            X,
            gaps,
            noiseless(gaps, len(A)),
            np.where(hidden, np.nanmean(gaps, axis=0), X),
        ]
        angles, noise = zip(*(worst(A, x) for x in fits), strict=True)
        alone = worst(A, complete)[0] if len(complete) > 20 else np.nan
        table.append(
            [hidden.mean(), *angles, alone, noise[1] / noise[0], noise[2] / noise[0]]
        )
    median = np.nanmedian(table, axis=0)
    cells = [f"{median[0]:.0%}", *(f"{x:.2f}" for x in median[1:])]
    print(
        f"| {name} | "
        + " | ".join("-" if cell == "nan" else cell for cell in cells)
        + " |",
        flush=True,
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(
        "Median over 10 problems of the worst angle of a spectrum, in degrees, and of"
        " the noise found, over that of complete data\n"
    )
    print(
        "| cells | missing | complete | with NaN | no noise drawn | mean filling |"
        " complete rows | noise | no noise drawn |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for noise, d in ((0.01, 3), (0.1, 3), (0.03, 5)):
        for share in (0.01, 0.1, 0.3):
            problems = [
                (A, X, rng.random(X.shape) < share)
                for A, X, rng in (dirichlet(s, d=d, noise=noise) for s in SEEDS)
            ]
            row(f"at random, {d} sources, noise {noise:.0%}", problems)
    row("scatter band", [fluorescence(seed) for seed in SEEDS])
