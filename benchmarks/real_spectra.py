"""Real spectra with known truth: MinimumVolumeCone beside what users of that field pick, told the number of sources.

    python benchmarks/real_spectra.py [--data ../shared/data/real] [--write]

Methods: pyMCR (nonnegative least squares both ways, from the purest samples; `pip install pymcr`), NMF (median of 5 seeds), vertex
component analysis, N-FINDR, FastICA. Each row is one data set, scored by its worst source: absolute correlation of concentrations
after the Hungarian method. "samson" is scored by abundances (nonnegative least squares on the spectra, scaled to unit length, rows
divided by their sum) and by the mean angle of the spectra. The data are not part of the repository. The reaction A -> B -> C is
made up, in 12 settings. More made-up samples that follow a curve have random settings: reactions with overlapping bands,
chromatograms with broad spectra on a floor and sometimes a drift, titrations.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment, nnls
from sklearn.decomposition import NMF, FastICA

from bionica import MinimumVolumeCone

SETS = {"kinetics": 3, "tissue": 3, "milk": 3, "hplc": 4, "samson": 3}
CURVE_SEEDS = 30
REACTIONS = [
    (k1, k2, noise) for k1, k2 in ((0.08, 0.03), (0.2, 0.05), (0.3, 0.1), (0.05, 0.1)) for noise in (1e-3, 3e-3, 1e-2)
]


def cone(X, d, seed):
    model = MinimumVolumeCone(d, random_state=seed).fit(X)
    return model.transform(X), model.mixing_, model


def nmf(X, d, seed):
    model = NMF(d, init="nndsvdar", max_iter=2000, random_state=seed)
    return model.fit_transform(np.maximum(X, 0)), model.components_.T, None


def mcr(X, d, seed):
    """PyMCR from the purest samples (SIMPLISMA with an offset of 5 %)."""
    from pymcr.constraints import ConstraintNonneg
    from pymcr.mcr import McrAR
    from pymcr.regressors import NNLS

    X = np.maximum(X, 0)
    model = McrAR(
        c_regr=NNLS(),
        st_regr=NNLS(),
        c_constraints=[ConstraintNonneg()],
        st_constraints=[ConstraintNonneg()],
        max_iter=200,
    )
    model.fit(X, ST=X[purest(X, d)])
    return model.C_opt_, model.ST_opt_.T, None


def purest(X, d):
    """SIMPLISMA over samples: the largest relative standard deviation, weighted by the independence of those already chosen."""
    mean, deviation = X.mean(axis=1), X.std(axis=1)
    purity = deviation / (mean + 0.05 * mean.max())
    rows = X / np.sqrt(deviation**2 + (mean + 0.05 * mean.max()) ** 2)[:, None]
    chosen = []
    for _ in range(d):
        weights = [np.linalg.det(G @ G.T) for G in (rows[[*chosen, i]] for i in range(len(X)))]
        chosen.append(int(np.argmax(np.array(weights) * purity)))
    return chosen


def vca(X, d, seed):
    """Vertex component analysis (Nascimento and Bioucas-Dias 2005): extreme samples along random directions."""
    rng = np.random.default_rng(seed)
    P = np.linalg.svd(X, full_matrices=False)[2][:d].T
    U = X @ P
    mean = U.mean(axis=0)
    Y = U / np.maximum(U @ mean / (mean @ mean), 1e-3)[:, None]  # on the hyperplane through the mean
    E = np.zeros((d, d))
    E[-1, 0] = 1
    chosen = []
    for i in range(d):
        w = rng.standard_normal(d)
        f = w - E @ np.linalg.pinv(E) @ w
        chosen.append(int(np.argmax(np.abs(Y @ (f / np.linalg.norm(f))))))
        E[:, i] = Y[chosen[-1]]
    return unmixed(X, X[chosen].T)


def n_findr(X, d, seed):
    """N-FINDR (Winter 1999): exchange samples while the volume of their simplex grows."""
    rng = np.random.default_rng(seed)
    centred = X - X.mean(axis=0)
    U = centred @ np.linalg.svd(centred, full_matrices=False)[2][: d - 1].T
    Y = np.hstack([np.ones((len(X), 1)), U])
    chosen = list(rng.choice(len(X), d, replace=False))
    for _ in range(3 * d):
        before = list(chosen)
        for i in range(d):
            minors = np.linalg.pinv(Y[chosen].T)[i]  # volume after an exchange, over that before
            chosen[i] = int(np.argmax(np.abs(Y @ minors)))
        if chosen == before:
            break
    return unmixed(X, X[chosen].T)


def ica(X, d, seed):
    model = FastICA(d, whiten="unit-variance", max_iter=1000, random_state=seed)
    return model.fit_transform(X), model.mixing_, None


def unmixed(X, A):
    """Nonnegative least squares on the spectra A (k, d)."""
    return np.array([nnls(np.maximum(A, 0), x)[0] for x in X]), A, None


METHODS = {"MinimumVolumeCone": cone, "pyMCR": mcr, "NMF": nmf, "VCA": vca, "N-FINDR": n_findr, "FastICA": ica}


def worst(C, Y):
    d = C.shape[1]
    c = np.abs(np.nan_to_num(np.corrcoef(C.T, Y.T)[:d, d:]))
    return float(c[linear_sum_assignment(-c)].min())


def score(name, data, Y, A):
    """Worst source; for samson also the mean angle of the spectra in degrees."""
    if name == "milk":
        return float(max(abs(np.corrcoef(data["cow"], y)[0, 1]) for y in Y.T)), np.nan
    C = data["C"].astype(float)
    if name != "samson":
        return worst(C, Y), np.nan
    A = np.maximum(A, 0) / np.maximum(np.linalg.norm(np.maximum(A, 0), axis=0), 1e-300)
    S = data["S"].astype(float).T
    cosines = (S / np.linalg.norm(S, axis=0)).T @ A
    angles = np.degrees(np.arccos(np.clip(cosines[linear_sum_assignment(-cosines)], -1, 1)))
    Y = unmixed(data["X"].astype(float), A)[0]
    return worst(C, Y / np.maximum(Y.sum(axis=1, keepdims=True), 1e-12)), float(angles.mean())


def reaction(k1, k2, noise, seed):
    """A -> B -> C, 240 spectra of 121 wavelengths: concentrations and mixtures."""
    wavelength, t = np.arange(400, 701, 2.5), np.arange(0, 120, 0.5)

    def band(centre, width, height=1.0):
        return height * np.exp(-(((wavelength - centre) / width) ** 2) / 2)

    A = np.stack([
        band(450, 18) + band(560, 25, 0.3),
        band(510, 22) + band(420, 12, 0.4),
        band(620, 30) + band(480, 15, 0.2),
    ])  # fmt: skip
    first, last = np.exp(-k1 * t), np.exp(-k2 * t)
    second = k1 / (k2 - k1) * (first - last)
    C = np.stack([first, second, 1 - first - second], axis=1)
    return C, C @ A + noise * np.random.default_rng(seed).standard_normal((len(t), len(wavelength)))


def gaussian(x, centre, width):
    return np.exp(-(((x - centre) / width) ** 2) / 2)


def overlapping_reaction(rng):
    """A -> B -> C with three bands that overlap, k1 and k2 in any order: concentrations, spectra, noise."""
    t, x = np.linspace(0, 60, 240), np.linspace(0, 1, 121)
    k1, k2 = rng.choice([0.03, 0.05, 0.08, 0.1, 0.2, 0.4], 2, replace=False)
    widths = rng.uniform(0.12, rng.choice([0.15, 0.25]), 3)
    first, last = np.exp(-k1 * t), np.exp(-k2 * t)
    second = k1 / (k2 - k1) * (first - last)
    C = np.stack([first, second, 1 - first - second], axis=1)
    return (
        C,
        gaussian(x[:, None], np.array([0.25, 0.5, 0.75]) + rng.uniform(-0.04, 0.04, 3), widths),
        rng.choice([1e-3, 3e-3, 1e-2]),
    )


def broad_spectra(rng, k, d, floor):
    x = np.linspace(0, 1, k)
    bands = [
        [rng.uniform(0.3, 1) * gaussian(x, *rng.uniform([0, 0.05], [1, 0.25])) for _ in range(3)] for _ in range(d)
    ]
    return np.sum(bands, axis=1).T + rng.uniform(0, floor, d)


def elution(rng):
    """Two to four peaks with tails; a drift of 1 % in half of the cases."""
    d, n = rng.integers(2, 5), rng.integers(80, 300)
    t = np.linspace(0, 1, n)[:, None]
    centres = np.sort(0.3 + 0.4 * np.arange(d) / (d - 1) * rng.uniform(0.5, 1) + rng.uniform(-0.03, 0.03, d))
    C = rng.uniform(0.4, 1, d) * gaussian(
        t, centres, rng.uniform(0.05, 0.09, d) * np.where(t > centres, rng.uniform(1, 1.6, d), 1)
    )
    return C, broad_spectra(rng, rng.integers(40, 150), d, 0.05), 10 ** rng.uniform(-3, -2)


def titration(rng):
    """The species of an acid with one to three pK values, from pH 2 to 12."""
    d, n = rng.integers(2, 5), rng.integers(25, 150)
    excess = np.linspace(2, 12, n)[:, None] - np.sort(rng.uniform(3, 11, d - 1))
    C = 10.0 ** np.hstack([np.zeros((n, 1)), np.cumsum(excess, axis=1)])
    return (
        C / C.sum(axis=1, keepdims=True),
        broad_spectra(rng, rng.integers(60, 200), d, 0.0),
        10 ** rng.uniform(-3, -2),
    )


def drawn(kind, seed):
    """Concentrations, spectra and mixtures of one case."""
    rng = np.random.default_rng(seed)
    C, A, noise = CURVES[kind](rng)
    X = C @ A.T
    drift = rng.choice([0, 0.01]) * X.max() * np.outer(np.linspace(0, 1, len(X)), np.linspace(1, 0, len(A)))
    return C, A, X + noise * X.max() * rng.standard_normal(X.shape) + drift * (kind == "elution")


CURVES = {"overlapping reaction": overlapping_reaction, "elution": elution, "titration": titration}


def curve_rows(seeds):
    """One row for each kind: worst sources, whether the verdict and the standard errors are right, and spectra inside the bands."""
    for kind in CURVES:
        rows = []
        for seed in seeds:
            C, A, X = drawn(kind, seed)
            d = C.shape[1]
            Y, found, model = cone(X, d, 0)
            r = np.nan_to_num(
                np.corrcoef(C.T, Y.T)[:d, d:]
            )  # of two sources that sum to one, r of the wrong pairs is -1
            order = linear_sum_assignment(-r)[1]
            r, diagnosis = r[np.arange(d), order], model.diagnose(X)
            error = np.sqrt(1 - r**2) <= 2 * diagnosis.uncertainty_.sources[order] + 0.02
            inside = np.nan
            if (band := diagnosis.band_) is not None:
                true = A / np.linalg.norm(A, axis=0) * np.linalg.norm(found[:, order], axis=0)
                slack = 0.01 * true.max(axis=0)
                inside = np.mean(
                    (true > band.mixing_low[:, order] - slack) & (true < band.mixing_high[:, order] + slack)
                )
            rows.append([r.min(), worst(C, METHODS["NMF"](X, d, 0)[0]), diagnosis.ok, error.mean(), inside])
        r, nmf, ok, error, inside = np.array(rows).T
        low = f"{np.median(r):.3f} ({np.quantile(r, 0.1):.3f}) | {np.median(nmf):.3f} ({np.quantile(nmf, 0.1):.3f})"
        verdicts = f"{np.sum((r < 0.9) & (ok > 0))} of {np.sum(r < 0.9)} | {np.sum((r > 0.99) & (ok < 1))} of {np.sum(r > 0.99)}"
        yield f"| {kind} | {low} | {verdicts} | {error.mean():.3f} | {np.nanmean(inside):.3f} |"


def measured(method, X, d, scored, seeds):
    """Median score over the seeds, and the seconds of one fit."""
    values, start = [], time.perf_counter()
    for seed in seeds:
        Y, A, model = METHODS[method](X, d, seed)
        seconds = (time.perf_counter() - start) / len(seeds)
        values.append(scored(Y, A))
    return np.median(values, axis=0), seconds, model


def lines(folder):
    """The tables, line by line."""
    yield "# Real spectra\n"
    yield "Worst source (median of 5 seeds), seconds of one fit. For samson the mean angle of the spectra in degrees, too.\n"
    yield "| data | " + " | ".join(METHODS) + " | verdict of `diagnose` | ambiguity |"
    yield "|---|" + "---|" * (len(METHODS) + 2)
    for name, d in SETS.items():
        if not (folder / f"{name}.npz").exists():
            continue
        data = dict(np.load(folder / f"{name}.npz"))
        X = data["X"].astype(float)
        cells = []
        for method in METHODS:
            try:
                value, seconds, model = measured(
                    method, X, d, lambda Y, A, n=name, z=data: score(n, z, Y, A), range(5 if method != "pyMCR" else 1)
                )
            except ImportError:
                cells.append("not installed")
                continue
            angle = "" if np.isnan(value[1]) else f", {value[1]:.1f} deg"
            cells.append(f"{value[0]:.3f}{angle} ({seconds:.2f} s)")
            if model is not None:
                verdict = "ok" if model.diagnose(X).ok else "doubtful"
                ambiguity = f"{model.ambiguity_:.1f}"
        yield f"| {name} ({X.shape[0]} x {X.shape[1]}, {d}) | " + " | ".join(cells) + f" | {verdict} | {ambiguity} |"
    yield "\n## A reaction A -> B -> C, made up (240 x 121, 3)\n"
    names = [name for name in METHODS if name not in ("pyMCR", "FastICA")]
    yield "| k1, k2, noise | " + " | ".join(names) + " |"
    yield "|---|" + "---|" * len(names)
    rows = []
    for setting in REACTIONS:
        draws = [reaction(*setting, seed=seed) for seed in range(41000, 41003)]
        rows.append(
            [
                np.median([measured(name, X, 3, lambda Y, A, C=C: (worst(C, Y),), [0])[0][0] for C, X in draws])
                for name in names
            ]
        )
        yield f"| {', '.join(map(str, setting))} | " + " | ".join(f"{value:.4f}" for value in rows[-1]) + " |"
    yield "| median | " + " | ".join(f"{value:.4f}" for value in np.median(rows, axis=0)) + " |"
    yield f"\n## Samples that follow a curve, {CURVE_SEEDS} cases each, made up\n"
    yield "Worst source: median (10 % quantile). Wrong: below .9, right: over .99. Errors: share of outputs with an error below two"
    yield "standard errors (`uncertainty_.sources`) and .02. Inside: share of the channels with the true spectrum inside `band_`.\n"
    yield "| samples | MinimumVolumeCone | NMF | wrong called right | right doubted | errors | inside |"
    yield "|---|---|---|---|---|---|---|"
    yield from curve_rows(range(897000, 897000 + CURVE_SEEDS))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=Path(__file__).parents[1] / "../shared/data/real", help="folder of the sets"
    )
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/real_spectra.md")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    text = []
    for line in lines(args.data):
        print(line, flush=True)
        text.append(line)
    if args.write:
        (Path(__file__).parent / "results" / "real_spectra.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
