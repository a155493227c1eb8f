"""Tables of the minimum-volume cone beside BatchNICA, NMF, FastICA and "knows A".

    python bench.py copula sizes uncorrelated noiseless wall images chemistry stream drift outliers time
"""

import sys
import time
import warnings

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import NMF, FastICA

import cone as C
import cone_stream as Q
from bionica.datasets import copula_uniform, mix, natural_images, paper_mixing
from bionica.estimators.batch_nica import BatchNICA
from bionica.metrics import permutation_error, sinr

warnings.simplefilter("ignore")
SEEDS = range(3)
KINDS = ("sparse-uniform", "exponential", "half-normal", "gamma")
IMAGES = "sources.npy"  # the three patches of the paper, (3, 63504): not in the repository


def draw(kind, shape, rng):
    if kind.startswith("copula"):
        return copula_uniform(*shape, float(kind[6:]), rng=rng)
    return {
        "sparse-uniform": lambda: rng.uniform(0, np.sqrt(48 / 5), shape) * (rng.random(shape) < 0.5),
        "exponential": lambda: rng.exponential(size=shape),
        "half-normal": lambda: np.abs(rng.standard_normal(shape)) / np.sqrt(1 - 2 / np.pi),
        "gamma": lambda: rng.gamma(0.5, np.sqrt(2), shape),
        "odor-like": lambda: rng.exponential(size=shape) * (rng.random(shape) < 0.1),
    }[kind]()


def problem(kind, d, k, T, snr, seed):
    rng = np.random.default_rng(seed)
    S = draw(kind, (T, d), rng)
    X, A = mix(S, n_mixtures=k, snr_db=snr, rng=rng)
    return S, X, A


def score(S, X, W):
    return sinr(S, np.maximum(X @ W.T, 0))


def timed(function, *arguments, **options):
    start = time.process_time()
    return function(*arguments, **options), time.process_time() - start


def stream(X, d, chunk=1000, **options):
    state = Q.init(X.shape[1], d, **options)
    for a in range(0, len(X), chunk):
        state = Q.update(state, X[a : a + chunk])
    return state


def row(*cells):
    print("| " + " | ".join(f"{c:.2f}" if isinstance(c, float) else str(c) for c in cells) + " |", flush=True)


def middle(values):
    return f"{np.median(values):.2f} ({np.min(values):.2f})"


def head(*cells):
    row(*cells)
    row(*["---"] * len(cells))


def copula():
    head("rho", "dB", "NICA", "knows A", "cone median (worst)", "stream", "target")
    target = {0: 29.0, 0.1: 29.2, 0.2: 29.3, 0.3: 29.5, 0.5: 29.5, 0.7: 28.5}
    for snr in (30, 20):
        for rho in target:
            found = []
            for seed in SEEDS:
                S, X, A = problem(f"copula{rho}", 5, 10, 100_000, snr, seed)
                W = C.minimum_volume_cone(X, 5).components
                found.append(
                    [score(S, X, w) for w in (BatchNICA(5, random_state=0).fit(X).components_, np.linalg.pinv(A), W)]
                    + [score(S, X, stream(X, 5).fit.components)]
                )
            a = np.array(found).T
            row(rho, snr, *(middle(v) for v in a), target[rho] if snr == 30 else f"{np.median(a[1]) - 1.5:.2f}")


def sizes():
    head("d", "k", "T", "dB", "NICA", "knows A", "cone median (worst)", "allowed below A")
    for d, T, snr, allowed in ((10, 100_000, 30, 2), (20, 50_000, 30, 2), (5, 3000, 30, 3), (5, 3000, 20, 3), (10, 3000, 30, 3)):
        found = []
        for seed in SEEDS:
            S, X, A = problem("copula0.5", d, 2 * d, T, snr, seed)
            W = C.minimum_volume_cone(X, d).components
            found.append([score(S, X, w) for w in (BatchNICA(d, random_state=0).fit(X).components_, np.linalg.pinv(A), W)])
        row(d, 2 * d, T, snr, *(middle(v) for v in np.array(found).T), allowed)


def uncorrelated(levels=(20, 30, 40), ds=(3, 5, 10, 20, 30)):
    head("sources", "d", "k", *(f"{n} dB: NICA / A / cone" for n in levels), "worst difference")
    worst = []
    for kind in KINDS:
        for d in ds:
            for k in (d, 2 * d):
                cells, differences = [], []
                for snr in levels:
                    S, X, A = problem(kind, d, k, 20_000, snr, 100 + d)
                    a = [
                        score(S, X, w)
                        for w in (
                            BatchNICA(d, random_state=0).fit(X).components_,
                            np.linalg.pinv(A),
                            C.minimum_volume_cone(X, d).components,
                        )
                    ]
                    cells.append(" / ".join(f"{v:.1f}" for v in a))
                    differences.append(a[2] - a[0])
                worst.append(min(differences))
                row(kind, d, k, *cells, min(differences))
    print(f"\nWorst difference {min(worst):.2f} dB; below -0.5: {sum(w < -0.5 for w in worst)} of {len(worst)}.")


def noiseless():
    uncorrelated((None,))


def wall():
    head("sources", "dB", "NICA", "knows A", "c = 0.3", "1", "3", "10", "30", "100", "chosen (c)", "below best")
    for kind, d, snr in (
        ("sparse-uniform", 10, 20), ("odor-like", 5, 20), ("exponential", 5, 30), ("half-normal", 5, 20),
        ("copula0.5", 5, 30), ("copula0.5", 5, 20),
    ):  # fmt: skip
        S, X, A = problem(kind, d, 2 * d, 50_000, snr, 0)
        fit = C.minimum_volume_cone(X, d)
        at = fit.coordinates
        U = X @ at.matrix.T
        fixed = []
        V = fit.cone.V
        for c in (100, 30, 10, 3, 1, 0.3):
            w = C.Wall(np.full(d, c), np.ones(d), np.zeros(d), C._FINAL)
            for _ in range(3):
                V = C._stage(U, V, w, 1e-4)[0]
            fixed.append(score(S, U, V))
        chosen = score(S, X, fit.components)
        row(
            kind, snr, score(S, X, BatchNICA(d, random_state=0).fit(X).components_), score(S, X, np.linalg.pinv(A)),
            *fixed[::-1], f"{chosen:.2f} ({fit.cone.wall.c.mean():.1f})", max(fixed) - chosen,
        )  # fmt: skip


def unit(Y):
    return np.maximum(Y, 0) / Y.std(axis=0)


def images():
    paper = np.load(IMAGES).T.astype(float)
    sets = (
        ("the paper's", paper / paper.std(axis=0), 0.003),
        ("camera brick gravel, 252", natural_images(names=("camera", "brick", "gravel")), None),
        ("camera brick gravel, 512", natural_images(names=("camera", "brick", "gravel"), size=None), 0.002),
        ("camera gravel grass, 512", natural_images(names=("camera", "gravel", "grass"), size=None), None),
        ("brick grass moon, 512", natural_images(names=("brick", "grass", "moon"), size=None), None),
    )
    head("images", "largest correlation", "k", "dB", "NICA", "cone", "NICA dB", "cone dB", "target")
    for name, S, target in sets:
        r = float(np.abs(np.corrcoef(S.T) - np.eye(3)).max())
        for k, snr in ((3, None), (6, None), (6, 40)):
            A = paper_mixing("images") if k == 3 and name.startswith("the") else None
            X, A = mix(S, A, n_mixtures=k, snr_db=snr, rng=0)
            n = BatchNICA(3, random_state=0).fit(X).components_
            W = C.minimum_volume_cone(X, 3).components
            e = [f"{permutation_error(S, unit(X @ w.T)):.5f}" for w in (n, W)]
            row(name, r, k, snr, *e, score(S, X, n), score(S, X, W), target)


def lowest_correlation(S, Y):
    r = np.abs(np.corrcoef(S.T, Y.T)[: S.shape[1], S.shape[1] :])
    r = np.nan_to_num(r)
    i, j = linear_sum_assignment(-r)
    return r[i, j].min()


def spectra(rng, d=4, k=100):
    x = np.linspace(0, 1, k)
    return np.stack(
        [
            sum(rng.random() * np.exp(-0.5 * ((x - rng.random()) / (0.05 + 0.1 * rng.random())) ** 2) for _ in range(3))
            for _ in range(d)
        ],
        axis=1,
    )


def notes(T, rng):
    """Power of four notes that start at random times and decay."""
    S = np.zeros((T, 4))
    for i in range(4):
        for start in rng.choice(T, T // 100, replace=False):
            S[start : start + 100, i] += rng.random() * np.exp(-np.arange(min(100, T - start)) / 20)
    return S


def chemistry():
    T, d = 3000, 4
    t = np.linspace(0, 1, T)[:, None]
    kinds = {
        "Dirichlet 0.1": lambda rng: rng.dirichlet(np.full(d, 0.1), T),
        "Dirichlet 0.5": lambda rng: rng.dirichlet(np.full(d, 0.5), T),
        "Dirichlet 1": lambda rng: rng.dirichlet(np.ones(d), T),
        "four chromatogram peaks": lambda rng: np.exp(-0.5 * ((t - np.array([0.35, 0.45, 0.55, 0.65])) / 0.06) ** 2),
        "four notes": lambda rng: notes(T, rng),
        "copula 0.3": lambda rng: copula_uniform(T, d, 0.3, rng=rng),
    }
    head("sources", "noise", "NICA", "NMF", "successive projection", "cone", "knows A", "worst: NMF", "cone")
    for kind, sources in kinds.items():
        for noise in ("40 dB", "25 dB", "Poisson 20 dB"):
            found = []
            for seed in SEEDS:
                rng = np.random.default_rng(seed)
                A = spectra(rng)
                S = sources(rng)
                X = S @ A.T
                if noise.startswith("P"):
                    X = rng.poisson(X * (100 * X.mean() / (X**2).mean())).astype(float)
                else:
                    X = X + rng.standard_normal(X.shape) * np.sqrt((X**2).mean()) * 10 ** (-float(noise[:2]) / 20)
                P = np.maximum(X, 0)
                at = C.coordinates(X.T @ X / T, d, T)
                U = X @ at.matrix.T
                fit = C.minimum_volume_cone(X, d, noise="poisson" if noise.startswith("P") else "estimate")
                found.append(
                    [
                        lowest_correlation(S, Y)
                        for Y in (
                            BatchNICA(d, random_state=0).fit_transform(X),
                            NMF(d, init="nndsvda", max_iter=1000).fit_transform(P),
                            U @ C.successive_projection(U).T,
                            np.maximum(X @ fit.components.T, 0),
                            X @ np.linalg.pinv(A).T,
                        )
                    ]
                )
            a = np.array(found).T
            row(kind, noise, *(f"{v:.4f}" for v in np.median(a, axis=1)), f"{a[1].min():.4f}", f"{a[3].min():.4f}")


def streaming():
    S, X, A = problem("copula0.5", 5, 10, 1_000_000, 30, 0)
    batch = score(S, X, C.minimum_volume_cone(X, 5).components)
    state, t = timed(stream, X, 5)
    kept = sum(len(q.x) for q in state.kept)
    print(f"copula 0.5, T=1e6: batch {batch:.2f}, stream {score(S, X, state.fit.components):.2f} dB, {t:.2f} us a sample, {kept} kept")
    parts = [stream(X[:50_000], 5, chunk=c).fit.components for c in (1, 777, 50_000)]
    print("chunks of 1, 777, 50,000 the same:", all(np.array_equal(parts[0], p) for p in parts[1:]))
    P = np.load(IMAGES).T.astype(float)
    P /= P.std(axis=0)
    for k in (3, 6):
        X, A = mix(P, n_mixtures=k, rng=0)
        for name, order in (("random", np.random.default_rng(0).permutation(len(X))), ("natural", np.arange(len(X)))):
            print(f"paper's images, k={k}, {name} order: {score(P, X, stream(X[order], 3).fit.components):.1f} dB")
    for kind, d, k, snr in (("exponential", 10, 20, None), ("sparse-uniform", 20, 40, None), ("gamma", 10, 20, 30), ("copula0.5", 5, 5, 40)):
        S, X, A = problem(kind, d, k, 50_000, snr, 0)
        print(kind, d, k, snr, f"batch {score(S, X, C.minimum_volume_cone(X, d).components):.2f} stream {score(S, X, stream(X, d).fit.components):.2f}")


def drift(n=200_000, d=5, k=10, turn=1e6):
    rng = np.random.default_rng(3)
    S = copula_uniform(n, d, 0.5, rng=rng)
    A0, A1 = rng.standard_normal((2, k, d))
    angle = 2 * np.pi * np.arange(n)[:, None] / turn
    X = np.cos(angle) * (S @ A0.T) + np.sin(angle) * (S @ A1.T)
    X += rng.standard_normal(X.shape) * np.sqrt((X**2).mean(axis=0)) * 10**-1.5
    head("horizon", "median dB", "10 %", "least", "us a sample")
    for horizon in (3000, 6000):
        state, found, t = Q.init(k, d, horizon=horizon), [], 0.0
        for a in range(0, n, 1000):
            rows = slice(a, a + 1000)
            if a >= 20_000:
                found.append(score(S[rows], X[rows], state.fit.components))
            state, dt = timed(Q.update, state, X[rows])
            t += dt
        row(horizon, float(np.median(found)), float(np.quantile(found, 0.1)), float(min(found)), t / n * 1e6)


def outliers():
    head("sources", "d", "k", "dB", "clean", "2 % outliers", "outliers=0.02")
    for kind, d, k, snr in (("copula0.5", 5, 10, 30), ("exponential", 5, 10, 30), ("copula0.5", 5, 10, None), ("copula0.5", 5, 5, 40)):
        found = []
        for seed in SEEDS:
            S, X, A = problem(kind, d, k, 20_000, snr, seed)
            rng = np.random.default_rng(seed)
            i = rng.choice(len(X), len(X) // 50, replace=False)
            Z = X.copy()
            Z[i] = 10 * np.sqrt((X**2).mean(axis=0)) * rng.standard_normal((len(i), k))
            fits = (C.minimum_volume_cone(X, d), C.minimum_volume_cone(Z, d), C.minimum_volume_cone(Z, d, outliers=0.02))
            found.append([score(S, X, f.components) for f in fits])
        row(kind, d, k, snr, *(middle(v) for v in np.array(found).T))


def times():
    head("sources", "k", "dB", "BatchNICA s", "cone s", "NMF s", "FastICA s", "cone / BatchNICA")
    for kind, k, snr in (("exponential", 20, 30), ("sparse-uniform", 20, 30), ("copula0.5", 20, 30), ("exponential", 10, None)):
        S, X, A = problem(kind, 10, k, 100_000, snr, 7)
        best = np.full(4, np.inf)
        positive = S @ np.abs(A).T
        for _ in range(3):
            t = [timed(BatchNICA(10, random_state=0).fit, X)[1], timed(C.minimum_volume_cone, X, 10)[1]]
            best[:2] = np.minimum(best[:2], t)
        best[2] = timed(NMF(10, init="nndsvda").fit, positive)[1]
        best[3] = timed(FastICA(10, whiten="unit-variance", random_state=0).fit, X)[1]
        row(kind, k, snr, *best, best[1] / best[0])


if __name__ == "__main__":
    tables = dict(
        copula=copula, sizes=sizes, uncorrelated=uncorrelated, noiseless=noiseless, wall=wall, images=images,
        chemistry=chemistry, stream=streaming, drift=drift, outliers=outliers, time=times,
    )  # fmt: skip
    for name in sys.argv[1:] or tables:
        print(f"\n## {name}\n", flush=True)
        tables[name]()
