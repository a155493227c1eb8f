"""Real spectra with known truth: MinimumVolumeCone beside what users of that field
pick, told the number of sources.

    python benchmarks/real_spectra.py --data FOLDER [--jobs N] [--before OTHER/src]
    python benchmarks/real_spectra.py --data FOLDER --counts [--jobs N]        the number of sources, not told

FOLDER (or the environment variable BIONICA_REAL_DATA) holds a `.npz` for each set, with
X and what is known: C (sources) and S (spectra). The data are not part of the
repository. Each set is scored by its worst source: absolute correlation of
concentrations after the Hungarian method, and by the mean angle of the spectra. Images
and "seqc" are scored by proportions: nonnegative least squares on the spectra, scaled
to unit length, rows divided by their sum. Six halves (three random splits) show how far
each result depends on the samples. `--before` measures the cone of another checkout
too.

Methods: pyMCR (nonnegative least squares both ways, from the purest samples; `pip
install pymcr`), NMF (median of 5 seeds), vertex component analysis, N-FINDR, SISAL. One
more is a function (X, d, seed) -> outputs, mixing matrix, whether it settled, in
METHODS.

Made-up samples that follow a curve have random settings: reactions with overlapping
bands, chromatograms with broad spectra on a floor and sometimes a drift, titrations.
"""

import argparse
import logging
import os
import pickle
import subprocess
import sys
import time
import warnings
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config
from scipy.optimize import linear_sum_assignment, nnls
from sklearn.decomposition import NMF

import bionica
from bionica import MinimumVolumeCone

SETS = {
    "kinetics": 3,
    "tissue": 3,
    "milk": 3,
    "hplc": 4,
    "samson": 3,
    "alcohol": 3,
    "dorrit": 4,
    "moffett": 3,
    "rnagenes_celseq2": 3,
    "seqc": 2,
}
PROPORTIONS = ("samson", "moffett", "seqc")
#: What is published of networks whose settings were chosen on the truth of samson: mean
#: spectral angle, RMSE of abundances.
PUBLISHED = "SAD .0253 to .037 rad, RMSE .027 to .053"
CURVE_SEEDS = 30


def cone(X, d, seed):
    model = MinimumVolumeCone(d, random_state=seed).fit(X)
    return (
        model.transform(X),
        model.mixing_,
        bool(model._learner.state.fit.cone.converged),
    )


def cone_of(src):
    """The cone of another checkout, in a process of its own."""
    code = "import pickle, sys; sys.path.append(sys.argv[1]); import real_spectra; "
    code += (
        "pickle.dump(real_spectra.cone(*pickle.load(sys.stdin.buffer)),"
        " sys.stdout.buffer)"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(Path(__file__).parent)]
    environment = os.environ | {"PYTHONPATH": str(src)}

    def fit(*arguments):
        done = subprocess.run(
            command,
            input=pickle.dumps(arguments),
            stdout=-1,
            env=environment,
            check=True,
        )
        return pickle.loads(done.stdout)

    return fit


def nmf(X, d, seed):
    model = NMF(d, init="nndsvdar", max_iter=2000, random_state=seed)
    return model.fit_transform(np.maximum(X, 0)), model.components_.T, True


def mcr(X, d, seed):
    """PyMCR from the purest samples (SIMPLISMA with an offset of 5 %)."""
    from pymcr.constraints import ConstraintNonneg
    from pymcr.mcr import McrAR
    from pymcr.regressors import NNLS

    logging.getLogger("pymcr.mcr").setLevel(logging.CRITICAL)
    X = np.maximum(X, 0)
    model = McrAR(
        c_regr=NNLS(),
        st_regr=NNLS(),
        c_constraints=[ConstraintNonneg()],
        st_constraints=[ConstraintNonneg()],
        max_iter=200,
    )
    with redirect_stdout(None):  # it prints
        model.fit(X, ST=X[purest(X, d)])
    return model.C_opt_, model.ST_opt_.T, True


def purest(X, d):
    """SIMPLISMA over samples: the largest relative standard deviation, weighted by the
    independence of those already chosen.
    """
    mean = X.mean(axis=1)
    deviation = X.std(axis=1)
    purity = deviation / (mean + 0.05 * mean.max())
    rows = X / np.sqrt(deviation**2 + (mean + 0.05 * mean.max()) ** 2)[:, None]
    chosen = []
    for _ in range(d):
        weights = [
            np.linalg.det(G @ G.T) for G in (rows[[*chosen, i]] for i in range(len(X)))
        ]
        chosen.append(int(np.argmax(np.array(weights) * purity)))
    return chosen


def vca(X, d, seed):
    """Vertex component analysis (Nascimento and Bioucas-Dias 2005): extreme samples
    along random directions.
    """
    rng = np.random.default_rng(seed)
    P = np.linalg.svd(X, full_matrices=False)[2][:d].T
    U = X @ P
    mean = U.mean(axis=0)
    # on the hyperplane through the mean
    Y = U / np.maximum(U @ mean / (mean @ mean), 1e-3)[:, None]
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
            # volume after an exchange, over that before
            minors = np.linalg.pinv(Y[chosen].T)[i]
            chosen[i] = int(np.argmax(np.abs(Y @ minors)))
        if chosen == before:
            break
    return unmixed(X, X[chosen].T)


def sisal(X, d, seed):
    """SISAL (Bioucas-Dias 2009): the simplex of smallest volume, negative abundances
    cost their size (tau = 1); by its program.
    """
    mean = X.mean(axis=0)
    n = len(X)
    U = np.linalg.svd(X - mean, full_matrices=False)[2][: d - 1].T
    up = mean - U @ (U.T @ mean)
    U = np.hstack([U, up[:, None] / np.linalg.norm(up)])
    # on the affine hull of d points
    Y = U.T @ (mean[:, None] + U[:, :-1] @ (U[:, :-1].T @ (X - mean).T))
    w, E = np.linalg.eigh(Y @ Y.T / n)
    sphere = (E / np.sqrt(w)).T
    Y = sphere @ Y
    mu = d * 1000 / n
    small = 1e-6
    eye = np.eye(d * d)
    Q = np.linalg.inv(sphere @ (U.T @ vca(X, d, seed)[1]))
    B = np.kron(np.eye(d), np.ones(d))  # column sums, of vec(Q) by columns
    F = np.linalg.inv(small * eye + mu * np.kron(Y @ Y.T, np.eye(d)))
    G = F @ B.T @ np.linalg.inv(B @ F @ B.T)
    fixed = G @ np.linalg.solve(Y @ Y.T, Y).sum(axis=1)
    G = F - G @ B @ F
    Z = Q @ Y
    dual = np.zeros_like(Y)

    def hinge(Q):
        return np.maximum(-(Q @ Y), 0).sum()

    def value(Q):
        return -np.linalg.slogdet(Q)[1] + hinge(Q)

    for k in range(40):
        last = Q
        gradient = -np.linalg.inv(Q).T
        for _ in range(20):
            for _ in range(4 if k < 39 else 100):
                b = small * last - gradient + mu * (Z + dual) @ Y.T
                Q = (G @ b.ravel(order="F") + fixed).reshape(d, d, order="F")
                V = Q @ Y - dual
                Z = np.maximum(V, 0) + np.minimum(V + 1 / mu, 0)
                dual = dual - (Q @ Y - Z)
            step = Q - last
            if np.sum(step * gradient) + 0.5 * small * np.sum(step**2) + hinge(
                Q
            ) <= hinge(last):
                break
        while value(Q) > value(last) + 1e-12 and np.abs(Q - last).max() > 1e-12:
            Q = (Q + last) / 2
    return unmixed(X, U @ np.linalg.inv(sphere) @ np.linalg.inv(Q))


def unmixed(X, A):
    """Nonnegative least squares on the spectra A (k, d)."""
    return np.array([nnls(np.maximum(A, 0), x)[0] for x in X]), A, True


METHODS = {
    "MinimumVolumeCone": cone,
    "pyMCR": mcr,
    "NMF": nmf,
    "VCA": vca,
    "N-FINDR": n_findr,
    "SISAL": sisal,
}


def worst(C, Y):
    d = C.shape[1]
    c = np.abs(np.nan_to_num(np.corrcoef(C.T, Y.T)[:d, d:]))
    return float(c[linear_sum_assignment(-c)].min())


def degrees(S, A):
    """Mean angle between the spectra S (d, k) and the columns of A, without what is
    negative, in the best order.
    """
    A = np.maximum(A, 0) / np.maximum(np.linalg.norm(np.maximum(A, 0), axis=0), 1e-300)
    cosines = S / np.linalg.norm(S, axis=1, keepdims=True) @ A
    return float(
        np.degrees(
            np.arccos(np.clip(cosines[linear_sum_assignment(-cosines)], -1, 1))
        ).mean()
    )


def score(name, data, Y, A):
    """Worst source, and the mean angle of the spectra in degrees."""
    if name == "milk":
        return float(max(abs(np.corrcoef(data["cow"], y)[0, 1]) for y in Y.T)), np.nan
    if name in PROPORTIONS:
        Y = unmixed(
            data["X"], A / np.maximum(np.linalg.norm(np.maximum(A, 0), axis=0), 1e-300)
        )[0]
        Y = Y / np.maximum(Y.sum(axis=1, keepdims=True), 1e-12)
    return worst(data["C"], Y), degrees(data["S"], A)


def gaussian(x, centre, width):
    return np.exp(-(((x - centre) / width) ** 2) / 2)


def overlapping_reaction(rng):
    """A -> B -> C with three bands that overlap, k1 and k2 in any order:
    concentrations, spectra, noise.
    """
    t = np.linspace(0, 60, 240)
    x = np.linspace(0, 1, 121)
    k1, k2 = rng.choice([0.03, 0.05, 0.08, 0.1, 0.2, 0.4], 2, replace=False)
    widths = rng.uniform(0.12, rng.choice([0.15, 0.25]), 3)
    first = np.exp(-k1 * t)
    last = np.exp(-k2 * t)
    second = k1 / (k2 - k1) * (first - last)
    C = np.stack([first, second, 1 - first - second], axis=1)
    return (
        C,
        gaussian(
            x[:, None],
            np.array([0.25, 0.5, 0.75]) + rng.uniform(-0.04, 0.04, 3),
            widths,
        ),
        rng.choice([1e-3, 3e-3, 1e-2]),
    )


def broad_spectra(rng, k, d, floor):
    x = np.linspace(0, 1, k)
    bands = [
        [
            rng.uniform(0.3, 1) * gaussian(x, *rng.uniform([0, 0.05], [1, 0.25]))
            for _ in range(3)
        ]
        for _ in range(d)
    ]
    return np.sum(bands, axis=1).T + rng.uniform(0, floor, d)


def elution(rng):
    """Two to four peaks with tails; a drift of 1 % in half of the cases."""
    d = rng.integers(2, 5)
    n = rng.integers(80, 300)
    t = np.linspace(0, 1, n)[:, None]
    centres = np.sort(
        0.3
        + 0.4 * np.arange(d) / (d - 1) * rng.uniform(0.5, 1)
        + rng.uniform(-0.03, 0.03, d)
    )
    C = rng.uniform(0.4, 1, d) * gaussian(
        t,
        centres,
        rng.uniform(0.05, 0.09, d) * np.where(t > centres, rng.uniform(1, 1.6, d), 1),
    )
    return (
        C,
        broad_spectra(rng, rng.integers(40, 150), d, 0.05),
        10 ** rng.uniform(-3, -2),
    )


def titration(rng):
    """The species of an acid with one to three pK values, from pH 2 to 12."""
    d = rng.integers(2, 5)
    n = rng.integers(25, 150)
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
    drift = (
        rng.choice([0, 0.01])
        * X.max()
        * np.outer(np.linspace(0, 1, len(X)), np.linspace(1, 0, len(A)))
    )
    return (
        C,
        A,
        X
        + noise * X.max() * rng.standard_normal(X.shape)
        + drift * (kind == "elution"),
    )


CURVES = {
    "overlapping reaction": overlapping_reaction,
    "elution": elution,
    "titration": titration,
}


def curve(kind, seed):
    """Worst sources of the cone and of NMF, the verdict, the share of errors that are
    as said, and of spectra inside the bands.
    """
    C, A, X = drawn(kind, seed)
    d = C.shape[1]
    with warnings.catch_warnings(action="ignore"):
        model = MinimumVolumeCone(d, random_state=0).fit(X)
        diagnosis = model.diagnose(X)
        other = worst(C, nmf(X, d, 0)[0])
    r = np.nan_to_num(
        np.corrcoef(C.T, model.transform(X).T)[:d, d:]
    )  # of two sources that sum to one, wrong pairs have -1
    order = linear_sum_assignment(-r)[1]
    r = r[np.arange(d), order]
    inside = np.nan
    error = np.sqrt(1 - r**2) <= 2 * diagnosis.uncertainty_.sources[order] + 0.02
    band = diagnosis.band_
    if band is not None:
        true = (
            A
            / np.linalg.norm(A, axis=0)
            * np.linalg.norm(model.mixing_[:, order], axis=0)
        )
        slack = 0.01 * true.max(axis=0)
        inside = np.mean(
            (true > band.mixing_low[:, order] - slack)
            & (true < band.mixing_high[:, order] + slack)
        )
    return r.min(), other, diagnosis.ok, error.mean(), inside


def curve_rows(seeds, jobs):
    """One row for each kind."""
    with parallel_config("loky", inner_max_num_threads=1):
        rows = Parallel(n_jobs=jobs)(
            delayed(curve)(*case) for case in product(CURVES, seeds)
        )
    for kind, some in zip(
        CURVES,
        np.array(rows, dtype=float).reshape(len(CURVES), len(seeds), -1),
        strict=True,
    ):
        r, other, ok, error, inside = some.T
        low = (
            f"{np.median(r):.3f} ({np.quantile(r, 0.1):.3f}) | {np.median(other):.3f}"
            f" ({np.quantile(other, 0.1):.3f})"
        )
        verdicts = (
            f"{np.sum((r < 0.9) & (ok > 0))} of {np.sum(r < 0.9)} |"
            f" {np.sum((r > 0.99) & (ok < 1))} of {np.sum(r > 0.99)}"
        )
        yield (
            f"| {kind} | {low} | {verdicts} | {error.mean():.3f} |"
            f" {np.nanmean(inside):.3f} |"
        )


def load(folder, name, part=0):
    """A set; part 1 to 6 is a random half of its samples."""
    with np.load(folder / f"{name}.npz") as file:
        data = {
            key: file[key].astype(float)
            for key in ("X", "C", "S", "cow")
            if key in file
        }
    if part:
        n, split, half = len(data["X"]), *divmod(part - 1, 2)
        rows = np.sort(
            np.array_split(np.random.default_rng(split).permutation(n), 2)[half]
        )
        data |= {key: data[key][rows] for key in ("X", "C", "cow") if key in data}
    return data


def measured(folder, name, part, method, before):
    """Scores of a method on a part of a set, seconds, whether it settled, and by how
    many degrees 1e-12 of noise moves spectra.
    """
    data = load(folder, name, part)
    d = SETS[name]
    X = data["X"]
    fit = cone_of(before) if method == "before" else METHODS[method]
    seeds = range(5 if method in ("NMF", "VCA", "N-FINDR", "SISAL") else 1)
    with warnings.catch_warnings(action="ignore"):
        try:
            start = time.perf_counter()
            fits = [fit(X, d, seed) for seed in seeds]
            seconds = (time.perf_counter() - start) / len(seeds)
            values = np.median([score(name, data, Y, A) for Y, A, _ in fits], axis=0)
        except (ImportError, np.linalg.LinAlgError):
            return [np.nan] * 5
        moved = np.nan
        settled = fits[0][2]
        if fit not in METHODS.values() or fit is cone:
            other = X * (1 + 1e-12 * np.random.default_rng(0).standard_normal(X.shape))
            moved = degrees(np.maximum(fits[0][1].T, 0), fit(other, d, 0)[1])
    return [*values, seconds, settled, moved]


def counted(folder, name):
    """What `separate` says of the number of sources."""
    X = load(folder, name)["X"]
    start = time.perf_counter()
    with warnings.catch_warnings(action="ignore"):
        model = bionica.separate(X, random_state=0)
    d = model.n_components_
    others = sorted(model.alternatives_)
    ok = bool(model.diagnosis_.ok)
    says = "right" if d == SETS[name] else "wrong and ok" if ok else "doubted"
    says += ", among the candidates" if SETS[name] in others else ""
    return (
        f"| {name} | {SETS[name]} | {d} | {', '.join(map(str, others))} | {ok} | {says}"
        f" | {time.perf_counter() - start:.1f} |"
    )


def lines(folder, jobs, before):
    """The tables, line by line."""
    names = [name for name in SETS if (folder / f"{name}.npz").exists()]
    methods = (["before"] if before else []) + list(METHODS)
    tasks = sorted(
        product(names, range(7), methods),
        key=lambda task: (task[2] != "pyMCR", task[1] > 0),
    )  # the longest first
    with parallel_config("loky", inner_max_num_threads=1):
        rows = Parallel(n_jobs=jobs)(
            delayed(measured)(folder, *task, before) for task in tasks
        )
        found = {
            task: np.array(row, dtype=float)
            for task, row in zip(tasks, rows, strict=True)
        }
        ok = Parallel(n_jobs=jobs)(delayed(verdict)(folder, name) for name in names)

    def cell(rows):
        r, angle = np.median([row[:2] for row in rows], axis=0)
        return (
            "-"
            if np.isnan(r)
            else f"{r:.3f}" + ("" if np.isnan(angle) else f" / {angle:.1f}")
        )

    yield (
        "Worst source / mean angle of the spectra in degrees (seconds of one fit),"
        " medians of 5 seeds; all samples, the number of"
    )
    yield "sources told, defaults; - if a method is not installed or fails.\n"
    yield "| data | " + " | ".join(METHODS) + " | verdict of `diagnose` |"
    yield "|---|" + "---|" * (len(METHODS) + 1)
    for name, (says, _) in zip(names, ok, strict=True):
        n, k = load(folder, name)["X"].shape
        cells = [
            f"{cell([found[name, 0, m]])} ({found[name, 0, m][2]:.2f} s)".replace(
                "- (nan s)", "-"
            )
            for m in METHODS
        ]
        yield (
            f"| {name} ({n} x {k}, {SETS[name]}) | "
            + " | ".join(cells)
            + f" | {'ok' if says else 'doubtful'} |"
        )
    said, true = np.concatenate([errors for _, errors in ok]).T
    yield (
        f"\nErrors of {len(said)} outputs, no images: {np.sum(true < 2 * said)} below"
        " two standard errors; said / true: median "
    )
    yield (
        f"{np.median(said / true):.2f}, {np.min(said / true):.2f} to"
        f" {np.max(said / true):.1f}."
    )
    yield "\n## Six halves\n"
    yield (
        "Medians. Unsettled: fits of the cone to all samples and to six halves whose"
        " walls do not settle. Moved: by how many"
    )
    yield (
        "degrees 1e-12 of noise moves spectra, the largest of these seven."
        + " Before: another checkout." * bool(before)
        + "\n"
    )
    cones = [m for m in ("before", "MinimumVolumeCone") if m in methods]
    yield "| data | " + " | ".join(methods) + " | unsettled | moved |"
    yield "|---|" + "---|" * (len(methods) + 2)
    for name in names:
        cells = [cell([found[name, part, m] for part in range(1, 7)]) for m in methods]
        seven = {
            m: np.array([found[name, part, m] for part in range(7)]) for m in cones
        }
        cells.append(" -> ".join(f"{np.sum(seven[m][:, 3] == 0)}" for m in cones))
        cells.append(" -> ".join(f"{np.nanmax(seven[m][:, 4]):.2g}" for m in cones))
        yield f"| {name} | " + " | ".join(cells) + " |"
    if "samson" in names:
        data = load(folder, "samson")
        model = MinimumVolumeCone(3, normalize="sum", random_state=0).fit(data["X"])
        angle = bionica.metrics.spectral_angle(data["S"], model.spectra_)
        error = bionica.metrics.rmse_abundances(data["C"], model.transform(data["X"]))
        yield (
            f"\nsamson: SAD {angle:.4f} rad, RMSE {error:.3f}; published networks,"
            f" tuned on its truth: {PUBLISHED}."
        )
    yield f"\n## Samples that follow a curve, {CURVE_SEEDS} cases each, made up\n"
    yield (
        "Worst source: median (10 % quantile). Wrong: below .9, right: over .99."
        " Errors: share of outputs with an error below two"
    )
    yield (
        "standard errors (`uncertainty_.sources`) and .02. Inside: share of the"
        " channels with the true spectrum inside `band_`.\n"
    )
    yield (
        "| samples | MinimumVolumeCone | NMF | wrong called right | right doubted |"
        " errors | inside |"
    )
    yield "|---|---|---|---|---|---|---|"
    yield from curve_rows(range(897000, 897000 + CURVE_SEEDS), jobs)


def verdict(folder, name):
    """What `diagnose` says of the cone, and the standard errors of outputs with a known
    source, said and true.
    """
    data = load(folder, name)
    X = data["X"]
    C = data["C"] if "C" in data else data["cow"][:, np.newaxis]
    with warnings.catch_warnings(action="ignore"):
        model = MinimumVolumeCone(SETS[name], random_state=0).fit(X)
        diagnosis = model.diagnose(X)
    if name in PROPORTIONS:  # amounts are known up to the brightness of each pixel only
        return diagnosis.ok, np.empty((0, 2))
    r = np.corrcoef(C.T, model.transform(X).T)[: C.shape[1], C.shape[1] :]
    rows, order = linear_sum_assignment(-r)
    return diagnosis.ok, np.column_stack(
        [diagnosis.uncertainty_.sources[order], np.sqrt(1 - r[rows, order] ** 2)]
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("BIONICA_REAL_DATA"),
        help="folder of the sets",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--before", type=Path, help="src of another checkout")
    parser.add_argument(
        "--counts", action="store_true", help="the number of sources instead"
    )
    args = parser.parse_args()
    if args.data is None:
        parser.error(
            "the sets are not in this repository: give --data FOLDER, or set"
            " BIONICA_REAL_DATA"
        )
    warnings.simplefilter("ignore")
    if args.counts:
        print(
            "| data | true | counted | other candidates | ok | | s"
            " |\n|---|---|---|---|---|---|---|",
            flush=True,
        )
        with parallel_config("loky", inner_max_num_threads=1):
            names = [
                name for name in SETS if (Path(args.data) / f"{name}.npz").exists()
            ]
            print(
                "\n".join(
                    Parallel(n_jobs=args.jobs)(
                        delayed(counted)(Path(args.data), name) for name in names
                    )
                )
            )
        return
    for line in lines(Path(args.data), args.jobs, args.before):
        print(line, flush=True)


if __name__ == "__main__":
    main()
