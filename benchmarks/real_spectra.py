"""Real spectra with known truth: MinimumVolumeCone beside what users of that field
pick, told the number of sources.

    python benchmarks/real_spectra.py --data FOLDER [--jobs N]
    python benchmarks/real_spectra.py --data FOLDER --counts [--jobs N]        the number of sources, not told

FOLDER holds a `.npz` for each set, with X and what is known: C (sources) and S
(spectra). The data are not part of the
repository. Each set is scored by its worst source: absolute correlation of
concentrations after the Hungarian method, and by the mean angle of the spectra. Images
and "seqc" are scored by proportions: nonnegative least squares on the spectra, scaled
to unit length, rows divided by their sum. Six halves (three random splits) show how far
each result depends on the samples.

Methods: pyMCR (nonnegative least squares both ways, from the purest samples; `pip
install pymcr`), NMF (median of 5 seeds), vertex component analysis, N-FINDR, SISAL. One
more is a function (X, d, seed) -> outputs, mixing matrix, in METHODS.
"""

import argparse
import logging
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


def cone(X, d, seed):
    model = MinimumVolumeCone(d, random_state=seed).fit(X)
    return model.transform(X), model.mixing_


def nmf(X, d, seed):
    model = NMF(d, init="nndsvdar", max_iter=2000, random_state=seed)
    return model.fit_transform(np.maximum(X, 0)), model.components_.T


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
    return model.C_opt_, model.ST_opt_.T


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
    return np.array([nnls(np.maximum(A, 0), x)[0] for x in X]), A


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


def sets(folder):
    """The sets that the folder holds."""
    return [name for name in SETS if (folder / f"{name}.npz").exists()]


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


def measured(folder, name, part, method):
    """Scores of a method on a part of a set, seconds, and by how many degrees 1e-12 of
    noise moves the spectra of the cone.
    """
    data = load(folder, name, part)
    d = SETS[name]
    X = data["X"]
    fit = METHODS[method]
    seeds = range(5 if method in ("NMF", "VCA", "N-FINDR", "SISAL") else 1)
    with warnings.catch_warnings(action="ignore"):
        try:
            start = time.perf_counter()
            fits = [fit(X, d, seed) for seed in seeds]
            seconds = (time.perf_counter() - start) / len(seeds)
            values = np.median([score(name, data, *found) for found in fits], axis=0)
        except (ImportError, np.linalg.LinAlgError):
            return [np.nan] * 4
        moved = np.nan
        if fit is cone:
            other = X * (1 + 1e-12 * np.random.default_rng(0).standard_normal(X.shape))
            moved = degrees(np.maximum(fits[0][1].T, 0), fit(other, d, 0)[1])
    return [*values, seconds, moved]


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


def cell(rows):
    """The median score of some fits."""
    r, angle = np.median([row[:2] for row in rows], axis=0)
    if np.isnan(r):
        return "-"
    return f"{r:.3f}" if np.isnan(angle) else f"{r:.3f} / {angle:.1f}"


def fits(folder, jobs):
    """The tables of all fits, line by line."""
    names = sets(folder)
    tasks = sorted(
        product(names, range(7), METHODS),
        key=lambda task: (task[2] != "pyMCR", task[1] > 0),
    )  # the longest first
    with parallel_config("loky", inner_max_num_threads=1):
        rows = Parallel(n_jobs=jobs)(delayed(measured)(folder, *task) for task in tasks)
        verdicts = Parallel(n_jobs=jobs)(
            delayed(verdict)(folder, name) for name in names
        )
    scores = dict(zip(tasks, rows, strict=True))
    yield (
        "Worst source / mean angle of the spectra in degrees (seconds of one fit),"
        " medians of 5 seeds; all samples, the number of"
    )
    yield "sources told, defaults; - if a method is not installed or fails.\n"
    yield f"| data | {' | '.join(METHODS)} | verdict of `diagnose` |"
    yield "|---|" + "---|" * (len(METHODS) + 1)
    for name, (says, _) in zip(names, verdicts, strict=True):
        n, k = load(folder, name)["X"].shape
        cells = []
        for method in METHODS:
            row = scores[name, 0, method]
            cells.append(f"{cell([row])} ({row[2]:.2f} s)".replace("- (nan s)", "-"))
        cells.append("ok" if says else "doubtful")
        yield f"| {name} ({n} x {k}, {SETS[name]}) | {' | '.join(cells)} |"
    said, true = np.concatenate([errors for _, errors in verdicts]).T
    ratio = said / true
    yield (
        f"\nErrors of {len(said)} outputs, no images: {np.sum(true < 2 * said)} below"
        f" two standard errors; said / true: median {np.median(ratio):.2f},"
        f" {ratio.min():.2f} to {ratio.max():.1f}."
    )
    yield "\n## Six halves\n"
    yield (
        "Medians. Moved: by how many degrees 1e-12 of noise moves spectra of the cone,"
        " the largest of all samples and six halves.\n"
    )
    yield f"| data | {' | '.join(METHODS)} | moved |"
    yield "|---|" + "---|" * (len(METHODS) + 1)
    for name in names:
        cells = [cell([scores[name, part, m] for part in range(1, 7)]) for m in METHODS]
        moved = max(scores[name, part, "MinimumVolumeCone"][3] for part in range(7))
        yield f"| {name} | {' | '.join(cells)} | {moved:.2g} |"
    if "samson" in names:
        data = load(folder, "samson")
        model = MinimumVolumeCone(3, normalize="sum", random_state=0).fit(data["X"])
        angle = bionica.metrics.spectral_angle(data["S"], model.spectra_)
        error = bionica.metrics.rmse_abundances(data["C"], model.transform(data["X"]))
        yield (
            f"\nsamson: SAD {angle:.4f} rad, RMSE {error:.3f}; published networks,"
            f" tuned on its truth: {PUBLISHED}."
        )


def counts(folder, jobs):
    """The table of the number of sources, line by line."""
    yield "| data | true | counted | other candidates | ok | | s |"
    yield "|---|---|---|---|---|---|---|"
    with parallel_config("loky", inner_max_num_threads=1):
        yield from Parallel(n_jobs=jobs)(
            delayed(counted)(folder, name) for name in sets(folder)
        )


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
    parser.add_argument("--data", type=Path, required=True, help="folder of the sets")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--counts", action="store_true", help="the number of sources instead"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    table = counts if args.counts else fits
    for line in table(args.data, args.jobs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
