"""How far `diagnose`, the count of sources and `bionica.separate` can be trusted, on problems with known sources.

python benchmarks/trust.py                              # prints all tables; about 40 minutes
python benchmarks/trust.py --tables verdicts --n 130    # one of them, on so many problems
python benchmarks/trust.py --tables real --data FOLDER  # data sets as .npz with X, C (sources) or S (spectra), and n_sources
python benchmarks/trust.py --write                      # replaces benchmarks/results/trust.md

The limits of `bionica.estimators._findings` were set on seeds 210000 to 210149; the tables are drawn from other seeds.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtr

import bionica
import runner
from bionica.offline.source_count import count_sources

KINDS = (
    *(
        "sparse uniform",
        "uniform",
        "exponential",
        "half-normal",
        "gamma 0.5",
        "gamma 2",
        "weibull 0.7",
        "lognormal",
        "odors",
    ),
    *("copula 0.3", "copula 0.6", "abundances", "peaks"),
)
SPOILED = (
    *(
        "nothing",
        "nothing",
        "no noise",
        "20 dB",
        "offset",
        "one too few",
        "one too many",
        "clipped",
        "drift",
        "outliers",
    ),
    *("centred", "clock", "two signs", "few samples", "background"),
)
ESTIMATORS = {
    "BatchNICA": bionica.BatchNICA,
    "MinimumVolumeCone": bionica.MinimumVolumeCone,
    "StreamingNICA": bionica.StreamingNICA,
    "TwoCompartmentNICA": bionica.TwoCompartmentNICA,
}
WRONG, RIGHT = 0.9, 0.99  # correlation of the worst source; between them either verdict is accepted


def draw(kind, T, d, rng):
    """Sources (T, d)."""
    name, *number = kind.split()
    if kind == "uniform":
        return rng.random((T, d))
    if kind == "sparse uniform":
        return rng.random((T, d)) * (rng.random((T, d)) < 0.5)
    if kind == "odors":
        return rng.exponential(size=(T, d)) * (rng.random((T, d)) < 0.15)
    if kind == "abundances":
        return rng.dirichlet(np.full(d, 0.5), T)
    if kind == "peaks":
        return np.stack([_peaks(T, rng) for _ in range(d)], axis=1)
    if name == "copula":
        rho = float(number[0])
        return ndtr(np.sqrt(rho) * rng.standard_normal((T, 1)) + np.sqrt(1 - rho) * rng.standard_normal((T, d)))
    draws = {
        "exponential": rng.exponential,
        "lognormal": rng.lognormal,
        "half-normal": lambda size: np.abs(rng.normal(size=size)),
    }
    if name in draws:
        return draws[name](size=(T, d))
    return {"gamma": rng.gamma, "weibull": rng.weibull}[name](float(number[0]), size=(T, d))


def _peaks(T, rng):
    """A chromatogram: peaks of random height and width."""
    source, t = np.zeros(T), np.arange(T)
    for centre in rng.choice(T, max(4, T // 60), replace=False):
        source += rng.exponential() * np.exp(-0.5 * ((t - centre) / rng.uniform(3, 9)) ** 2)
    return source


def problem(seed, most_sources=12, most_samples=30_000):
    """Mixtures, their sources, the number of sources that is asked for, and what was drawn."""
    rng = np.random.default_rng(seed)
    kind, spoiled = KINDS[rng.integers(len(KINDS))], SPOILED[rng.integers(len(SPOILED))]
    d, T = int(rng.integers(2, most_sources + 1)), int(np.exp(rng.uniform(np.log(300), np.log(most_samples))))
    k = int(rng.integers(d, 3 * d + 1))
    snr_db = 20.0 if spoiled == "20 dB" else rng.uniform(25, 50)
    if spoiled == "few samples":
        T = int(rng.integers(5, 25)) * d
    if spoiled in ("one too few", "one too many", "clock"):
        k = max(k, d + 2)
    S = draw(kind, T, d, rng)
    A = rng.standard_normal((k, d)) if rng.random() < 0.5 else rng.random((k, d)) ** 2
    if spoiled == "offset":
        S = S + rng.uniform(0.5, 2) * S.std(axis=0)
    if spoiled == "two signs":
        S[:, 0] -= S[:, 0].mean()
    X = S @ A.T
    if spoiled == "drift":
        t, B = np.linspace(0, 1, T)[:, None], A + rng.uniform(0.3, 1) * A.std() * rng.standard_normal(A.shape)
        X = (1 - t) * X + t * (S @ B.T)
    if spoiled == "clipped":
        X = np.clip(X, None, np.quantile(X, rng.uniform(0.8, 0.97), axis=0))
    if spoiled != "no noise":
        X = X + rng.standard_normal(X.shape) * np.sqrt(np.mean(X**2)) * 10 ** (-snr_db / 20)
    if spoiled == "outliers":
        X[rng.choice(T, rng.integers(1, max(2, T // 200)), replace=False)] *= -rng.uniform(5, 100)
    if spoiled == "centred":
        X = X - X.mean(axis=0)
    if spoiled == "clock":
        X[:, 0] = np.arange(T) * X.std() / T * 5
    if spoiled == "background":
        X = X + X.std() * rng.uniform(1, 3, k)
    return X, S, max(1, d + {"one too few": -1, "one too many": 1}.get(spoiled, 0)), f"{kind}, {spoiled}"


def matched(S, Y):
    """Correlation of each source with its output, and the outputs that match; 0 if there are fewer outputs than sources."""
    d = S.shape[1]
    if Y.shape[1] < d:
        return np.zeros(d), None
    with np.errstate(all="ignore"):
        r = np.nan_to_num(np.abs(np.corrcoef(S.T, Y.T)[:d, d:]))
    rows, order = linear_sum_assignment(-r)
    return r[rows, order], order


def judged(name, seed, **sizes):
    """One verdict: worst correlation, findings, estimated and true error of each source; None if the fit is refused."""
    X, S, d, drawn = problem(seed, **sizes)
    try:
        estimator = ESTIMATORS[name](d, random_state=0).fit(X)
    except (ValueError, bionica.DivergenceError):
        return None
    found, Y = estimator.diagnose(X), np.asarray(estimator.transform(X))
    r, order = matched(S, Y)
    errors = ()
    if order is not None and found.uncertainty_ is not None and Y.shape[1] == S.shape[1]:
        Y = Y[:, order]
        scale = np.sum(Y * S, axis=0) / np.sum(S**2, axis=0)
        errors = (found.uncertainty_.sources[order], np.sqrt(np.mean((Y - S * scale) ** 2, axis=0)))
    return float(r.min()), {one.name for one in found.findings}, errors, drawn


def verdicts(n, seed0):
    """The confusion table, what each check is worth, and estimated beside true errors."""
    rows, estimated, true = [], [], []
    for name in ESTIMATORS:
        found = [one for seed in range(seed0, seed0 + n) if (one := judged(name, seed)) is not None]
        wrong, right = ([one for one in found if keep(one[0])] for keep in (lambda r: r < WRONG, lambda r: r > RIGHT))
        row = {
            "": name,
            "wrong, called right": f"{sum(not one[1] for one in wrong)} of {len(wrong)}",
            "right, called wrong": f"{sum(bool(one[1]) for one in right)} of {len(right)}",
        }
        checks = sorted({check for one in found for check in one[1]})
        for check in checks:  # verdicts that change if it is removed
            alone = [sum(one[1] == {check} for one in some) for some in (wrong, right)]
            row["alone (wrong / right)"] = f"{row.get('alone (wrong / right)', '')} {check} {alone[0]}/{alone[1]}"
        rows.append(row)
        for _, findings, errors, _ in found:
            if errors and not findings:
                estimated, true = [*estimated, *errors[0]], [*true, *errors[1]]
    ratio = np.log(np.maximum(estimated, 1e-12)) - np.log(np.maximum(true, 1e-12))
    note = (
        f"{n} problems from seed {seed0}. Wrong: the worst source correlates below {WRONG}; right: above {RIGHT}. Alone: fits of "
        "which only this check speaks (the ablation of it). Estimated against true standard error of the sources of fits called "
        f"right: correlation of the logarithms {np.corrcoef(np.log(estimated), np.log(true))[0, 1]:.2f}, within a factor of 2 in "
        f"{np.mean(np.abs(ratio) < np.log(2)):.0%} of {len(ratio)}."
    )
    return runner.markdown("Verdicts", note, rows)


def counting(n, seed0):
    """How often the number of sources is right, or among the candidates."""
    rows = []
    for T in (60, 300, 1000, 5000):
        right = named = total = 0
        seconds = 0.0
        for seed in range(seed0, seed0 + max(4, n // 8)):
            rng = np.random.default_rng(seed)
            kind, d = KINDS[rng.integers(len(KINDS))], int(rng.integers(2, 8))
            S, k = draw(kind, T, d, rng), int(rng.integers(d + 2, 3 * d + 3))
            X = S @ (rng.random((d, k)) if rng.random() < 0.5 else rng.standard_normal((d, k)))
            X += rng.standard_normal(X.shape) * np.sqrt(np.mean(X**2)) * 10 ** (-rng.uniform(15, 40) / 20)
            start = time.perf_counter()
            found = count_sources(X)
            seconds, total = max(seconds, time.perf_counter() - start), total + 1
            right, named = right + (found.n_sources == d), named + (d in (found.n_sources, *found.candidates))
        rows.append(
            {"samples": T, "right": f"{right} of {total}", "named": f"{named} of {total}", "longest, s": seconds}
        )
    return runner.markdown(
        "Number of sources", "d = 2 to 7, d + 2 to 3 d + 2 mixtures, 15 to 40 dB, 13 kinds of sources.", rows
    )


def comparison(n, seed0):
    """`bionica.separate` beside NMF, which is told the number, on sources mixed by nonnegative spectra."""
    from sklearn.decomposition import NMF

    rows = []
    for kind in KINDS:
        ours, theirs, counts = [], [], []
        for seed in range(seed0, seed0 + max(2, n // 40)):
            rng = np.random.default_rng(seed)
            S, A = draw(kind, 2000, 4, rng), rng.random((4, 20)) ** 2
            X = S @ A
            X = np.maximum(X + rng.standard_normal(X.shape) * np.sqrt(np.mean(X**2)) * 10**-1.5, 0)
            found = bionica.separate(X, random_state=0)
            ours.append(matched(S, np.asarray(found.transform(X)))[0].min())
            theirs.append(matched(S, NMF(4, init="nndsvda", max_iter=500).fit_transform(X))[0].min())
            counts.append(found.choice_.n_sources)
        rows.append({"sources": kind, "counted": str(counts), "separate": np.median(ours), "NMF": np.median(theirs)})
    return runner.markdown(
        "separate beside NMF", "Worst source, median; 4 sources, 20 mixtures, 30 dB, NMF is told 4.", rows
    )


def real(folder):
    """Verdict and number beside the truth for every .npz of a folder."""
    rows = []
    for path in sorted(Path(folder).glob("*.npz")):
        data = np.load(path, allow_pickle=True)
        X = np.asarray(data["X"], float)
        truth = np.asarray(
            data["C"] if "C" in data else data[next(key for key in data if key not in ("X", "axis"))], float
        )
        d = len(data["S"]) if "S" in data and data["S"].shape[1] == X.shape[1] else 3
        start = time.perf_counter()
        told, counted = bionica.separate(X, d, random_state=0), count_sources(X)
        r = matched(truth.reshape(len(X), -1), np.asarray(told.transform(X)))[0].min()
        names = ", ".join(one.name for one in told.diagnosis_.findings) or "ok"
        rows.append({"set": path.stem, "true": d, "counted": f"{counted.n_sources} {counted.candidates}", "worst": float(r),
                     "method": type(told).__name__, "said": names, "s": time.perf_counter() - start})  # fmt: skip
    return runner.markdown("Real data", "Told the number; worst: correlation of the worst source.", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="verdicts,counting,comparison", help="which (default: %(default)s)")
    parser.add_argument("--n", type=int, default=130, help="problems (default: %(default)s)")
    parser.add_argument("--seed0", type=int, default=220_000, help="the first seed (default: %(default)s)")
    parser.add_argument("--data", help="folder of real data")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/trust.md")
    args = parser.parse_args()
    tables = {"verdicts": verdicts, "counting": counting, "comparison": comparison}
    parts = [f"# Trust\n\n`python benchmarks/trust.py --n {args.n} --seed0 {args.seed0}`\n\n{runner.setting()}.\n"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in args.tables.split(","):
            parts.append(real(args.data) if name == "real" else tables[name](args.n, args.seed0))
            print(parts[-1], flush=True)
    if args.write:
        (runner.RESULTS / "trust.md").write_text("\n".join(parts))


if __name__ == "__main__":
    main()
