"""How far the verdicts of `bionica.separate` and the count of sources can be trusted,
on problems with known sources.

    python benchmarks/trust.py --n 400 --seed0 1000000 --jobs 16     both tables
    python benchmarks/trust.py --tables separate                     one of them

A fit is wrong if some source has no output that correlates with it by 0.9 (WRONG), or
some output has no source: a source too few or too many is always wrong. A fit is right
if all correlate by 0.99 (RIGHT). Between the two, 2 % to 19 % of the variance of a
source is something else, and either verdict is accepted. Outliers hold no source and
are not compared.
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np
from joblib import Parallel, delayed, parallel_config
from scipy import linalg, special
from scipy.optimize import linear_sum_assignment

import bionica
import problems
import runner
from bionica.mixtures.cone.count import rough_cones
from bionica.mixtures.verdict.count import count_sources

WRONG = 0.9
RIGHT = 0.99
SOURCES = (
    "sparse uniform",
    "exponential",
    "odors",
    "abundances",
    "copula 0.6",
    "gamma 2",
    "peaks",
    "elution",
    "reaction",
)
NEVER_ZERO = ("uniform 0.5", "uniform 0.2", "lognormal")
FLAWS = (
    *("nothing",) * 6,
    "20 dB",
    "unequal noise",
    "few samples",
    "baseline",
    "shifts",
    "two signs",
    "background",
    "one too few",
    "clipped",
    "drift",
    "outliers",
)
MIXINGS = ("smooth", "nonnegative", "signed")


def draw(kind, T, d, rng):
    """Sources (T, d)."""
    name, *number = kind.split()
    if name == "uniform":
        return float(number[0] if number else 0) + rng.random((T, d))
    if kind == "sparse uniform":
        return rng.random((T, d)) * (rng.random((T, d)) < 0.5)
    if kind == "odors":
        return rng.exponential(size=(T, d)) * (rng.random((T, d)) < 0.15)
    if kind == "abundances":
        return rng.dirichlet(np.full(d, 0.5), T)
    if kind == "elution":  # compounds that leave a column one after the other
        centre = np.sort(rng.uniform(0.2, 0.8, d))
        width = rng.uniform(0.05, 0.12, d)
        return rng.uniform(0.5, 2, d) * np.exp(
            -0.5 * ((np.linspace(0, 1, T)[:, None] - centre) / width) ** 2
        )
    if kind == "reaction":  # each becomes the next
        rates = np.exp(rng.uniform(np.log(2), np.log(12), d - 1))
        K = np.diag([*-rates, 0.0]) + np.diag(rates, -1)
        return np.stack([linalg.expm(t * K)[:, 0] for t in np.linspace(0, 1, T)])
    if kind == "peaks":
        return np.stack([_peaks(T, rng) for _ in range(d)], axis=1)
    if name == "copula":
        rho = float(number[0])
        return special.ndtr(
            np.sqrt(rho) * rng.standard_normal((T, 1))
            + np.sqrt(1 - rho) * rng.standard_normal((T, d))
        )
    if name == "gamma":
        return rng.gamma(float(number[0]), size=(T, d))
    return {"exponential": rng.exponential, "lognormal": rng.lognormal}[name](
        size=(T, d)
    )


def _peaks(T, rng):
    """A chromatogram: peaks of random height and width."""
    source = np.zeros(T)
    t = np.arange(T)
    for centre in rng.choice(T, max(4, T // 60), replace=False):
        source += rng.exponential() * np.exp(
            -0.5 * ((t - centre) / rng.uniform(3, 9)) ** 2
        )
    return source


def mixtures(seed):
    """Mixtures, sources (NaN in outliers), how many of them are asked for (the others
    are baselines), and what was drawn.
    """
    rng = np.random.default_rng(seed)
    kinds = SOURCES if rng.random() < 0.75 else NEVER_ZERO
    kind, flaw, mixing = (
        names[rng.integers(len(names))] for names in (kinds, FLAWS, MIXINGS)
    )
    d = int(rng.integers(2, 6))
    T = int(np.exp(rng.uniform(np.log(150), np.log(4000))))
    T = int(rng.integers(5, 25)) * d if flaw == "few samples" else T
    k = (
        int(rng.integers(30, 90))
        if mixing == "smooth" or flaw == "shifts"
        else int(rng.integers(d + 1, 4 * d + 1))
    )
    S = draw(kind, T, d, rng)
    channel = np.linspace(0, 1, k)[:, None]
    A = (
        rng.random((k, d)) ** 2
        if mixing == "nonnegative"
        else rng.standard_normal((k, d))
    )
    # three bands each, of both signs if the mixing has
    if mixing == "smooth" or flaw == "shifts":
        height = rng.random((3, d)) * (
            rng.choice([-1, 1], (3, d)) if mixing == "signed" else 1
        )
        centre = rng.random((3, d))
        width = rng.uniform(0.03, 0.15, (3, d))

        def bands(x):
            return np.sum(
                height * np.exp(-0.5 * ((x[..., None, None] - centre) / width) ** 2),
                axis=-2,
            )

        A = bands(channel[:, 0])
    if flaw == "two signs":
        S[:, 0] -= S[:, 0].mean()
    X = S @ A.T
    if flaw == "shifts":  # of each spectrum, by up to two channels
        moved = bands(
            channel[:, 0] + rng.uniform(0.2, 2) / k * rng.standard_normal((T, 1))
        )
        X = np.einsum("td,tkd->tk", S, moved)
    if flaw == "drift":  # the mixing changes from the first sample to the last
        t = np.linspace(0, 1, T)[:, None]
        X = X + t * (
            S @ (rng.uniform(0.3, 1) * A.std() * rng.standard_normal(A.shape)).T
        )
    if flaw == "clipped":
        X = np.minimum(X, np.quantile(X, rng.uniform(0.8, 0.97), axis=0))
    size = np.sqrt(np.mean(X**2))
    extra = np.zeros((T, 0))
    if flaw == "baseline":  # a line of random height and slope under each sample
        extra = rng.normal([rng.choice([0, 3]), 0], 1, (T, 2))
        X = (
            X
            + rng.uniform(0.05, 0.3)
            * size
            * extra
            @ np.hstack([np.ones((k, 1)), channel - 0.5]).T
        )
    if flaw == "background":  # the dark level of a detector
        X = X + size * rng.uniform(0.3, 2) * (1 + 0.1 * rng.standard_normal(k))
        extra = np.ones((T, 1))
    snr_db = 20.0 if flaw == "20 dB" else rng.uniform(25, 55)
    level = (
        np.exp(rng.uniform(0, np.log(10), k)) if flaw == "unequal noise" else np.ones(k)
    )
    X = X + rng.standard_normal(X.shape) * level / np.sqrt(
        np.mean(level**2)
    ) * size * 10 ** (-snr_db / 20)
    if flaw == "outliers":
        rows = rng.choice(T, rng.integers(1, max(2, T // 200)), replace=False)
        X[rows] *= -rng.uniform(5, 100)
        S[rows] = np.nan
    return X, np.hstack([S, extra]), d - (flaw == "one too few"), (kind, flaw, mixing)


def separated(seed):
    """What `separate` says of one of `mixtures`, told the number and not: worst
    correlation, findings, errors, coverage.
    """
    warnings.simplefilter("ignore")
    X, S, d, drawn = mixtures(seed)
    rows = []
    sound = np.isfinite(S).all(axis=1)
    for told in (True, False):
        start = time.perf_counter()
        try:
            found = bionica.separate(X, d if told else "auto", random_state=0)
        except (ValueError, bionica.DivergenceError):
            continue
        seconds = time.perf_counter() - start
        moved = found.diagnosis_.uncertainty_
        Y = np.asarray(found.transform(X))[sound]
        true = S[sound]
        # the others are baselines
        real = true[:, : S.shape[1] if drawn[1] == "one too few" else d]
        choice = found.choice_
        row = {
            "told": told,
            "drawn": drawn,
            "findings": [one.name for one in found.diagnosis_.findings],
            "seconds": seconds,
            "worst": 0.0,
            "counted": real.shape[1] in (choice.n_sources, *choice.candidates),
            "se": [],
            "error": [],
            "inside": [],
        }
        if real.shape[1] <= Y.shape[1] <= S.shape[1]:
            # By cosines, because two abundances are as much each other's opposite as
            # themselves.
            order = matched(real, Y, centred=False)[1]
            row["worst"] = float(correlations(real, Y[:, order]).diagonal().min())
            # outputs for baselines: a fit is right only if they are, too
            if Y.shape[1] > real.shape[1]:
                row["worst"] = min(
                    row["worst"], max(WRONG, matched(true[:, : Y.shape[1]], Y)[0].min())
                )
            if moved is not None:
                Y = Y[:, order]
                se = moved.sources[order]
                error = (
                    Y - real * np.sum(Y * real, axis=0) / np.sum(real**2, axis=0)
                ) / Y.std(axis=0)
                row["se"] = se.tolist()
                row["error"] = np.sqrt(np.mean(error**2, axis=0)).tolist()
                row["inside"] = np.mean(np.abs(error) < 1.645 * se, axis=0).tolist()
        rows.append(row)
    return rows


def correlations(S, Y, centred=True):
    if centred:
        S = S - S.mean(axis=0)
        Y = Y - Y.mean(axis=0)
    with np.errstate(all="ignore"):
        return np.nan_to_num(
            np.abs(S.T @ Y)
            / np.linalg.norm(S, axis=0)[:, None]
            / np.linalg.norm(Y, axis=0)
        )


def matched(S, Y, centred=True):
    """Correlation (or cosine) of each source with its output, and the outputs that
    match.
    """
    r = correlations(S, Y, centred)
    rows, order = linear_sum_assignment(-r)
    return r[rows, order], order


def confusion(rows):
    """Wrong fits called right and right fits called wrong."""
    wrong = [not row["findings"] for row in rows if row["worst"] < WRONG]
    right = [bool(row["findings"]) for row in rows if row["worst"] > RIGHT]
    return {
        "wrong, called right": f"{sum(wrong)} of {len(wrong)}",
        "right, called wrong": f"{sum(right)} of {len(right)}",
    }


def separations(args):
    """Verdicts of `separate` on `mixtures`: wrong called right, right called wrong, the
    count, and what errors cover.
    """
    seeds = range(args.seed0, args.seed0 + args.n)
    with parallel_config("loky", inner_max_num_threads=1):
        results = Parallel(args.jobs, batch_size=1)(
            delayed(separated)(seed) for seed in seeds
        )
    rows = [row for two in results for row in two]
    table = []
    causes = []
    for number, told in (("told", True), ("counted", False)):
        some = [row for row in rows if row["told"] == told]
        ok = [row for row in some if not row["findings"]]
        se, error, inside = (
            np.concatenate([[], *(row[key] for row in ok)])
            for key in ("se", "error", "inside")
        )
        table.append(
            {
                "number": number,
                **confusion(some),
                "number right or named": (
                    f"{sum(row['counted'] for row in some)} of {len(some)}"
                ),
                "error below 2 SE": f"{np.mean(error < 2 * se):.0%}",
                "median SE / error": float(np.median(se / error)),
                "inside 90 % intervals": f"{np.mean(inside):.0%}",
                "s, median": float(np.median([row["seconds"] for row in some])),
            }
        )
        for name in sorted({name for row in some for name in row["drawn"]}):
            having = [row for row in some if name in row["drawn"]]
            causes.append({"number": number, "drawn": name, **confusion(having)})
    note = (
        f"{args.n} mixtures from seed {args.seed0}. Errors are those of fits called"
        " right."
    )
    return "\n".join(
        [
            runner.markdown("separate", note, table),
            runner.markdown("By what was drawn", "", causes),
        ]
    )


def gaussian(rng, d, k, T, snr_db=None, factor=1, kind="sparse_uniform", *, bits=None):
    """Mixtures by a Gaussian matrix; noise differs between channels by `factor`."""
    S = problems.sources(kind, T, d, rng)
    X = S @ rng.standard_normal((d, k))
    level = np.exp(rng.uniform(0, np.log(factor), k))
    X = X + white(X, snr_db, rng) * level / np.sqrt(np.mean(level**2))
    if bits is None:
        return X
    return np.round(X / np.abs(X).max() * (2 ** (bits - 1) - 1))


def orthogonal(rng, d, k, T, snr_db=None):
    S = problems.sources("sparse_uniform", T, d, rng)
    X = S @ np.linalg.qr(rng.standard_normal((k, d)))[0].T
    return X + white(X, snr_db, rng)


def white(X, snr_db, rng):
    """White noise for X; 0 if `snr_db` is None."""
    if snr_db is None:
        return 0
    size = np.sqrt(np.mean(X**2))
    return rng.standard_normal(X.shape) * size * 10 ** (-snr_db / 20)


def spectra(rng, d, kind, noise, T):
    return problems.spectra(kind, noise, T, rng)[0]


#: Problems of the count: a group, how mixtures are drawn, and with which arguments, the
#: first of which is the number of sources.
COUNTED = [
    (
        "equal noise",
        gaussian,
        [
            (3, 10, 60, 20),
            (3, 10, 1000, 10),
            (3, 10, 1000, 30),
            (3, 10, 100_000, 40),
            (5, 30, 60, 20),
            (5, 30, 1000, 10),
            (5, 30, 1000, 40),
            (5, 30, 100_000, 20),
            (10, 20, 60, 20),
            (10, 20, 1000, 20),
            (10, 20, 100_000, 20),
            (10, 100, 60, 20),
            (10, 100, 1000, 10),
            (10, 100, 20_000, 30),
            (5, 10, 1000, 20),
            (5, 10, 100_000, 30),
        ],
    ),
    (
        "unequal noise",
        gaussian,
        [
            (3, 10, 1000, 20, 30),
            (5, 10, 5000, 30, 10),
            (5, 30, 60, 20, 10),
            (5, 30, 1000, 20, 30),
            (10, 20, 5000, 20, 30),
            (10, 100, 300, 20, 30),
            (10, 100, 20_000, 20, 30),
        ],
    ),
    (
        "spectra",
        spectra,
        [
            (4, kind, *noise)
            for kind in (
                "Dirichlet 0.5",
                "Dirichlet 1",
                "fluorescence",
                "chromatogram",
                "four notes",
            )
            for noise in (
                ("Poisson 20 dB", 300),
                ("Poisson 20 dB", 3000),
                ("25 dB", 3000),
                ("40 dB", 3000),
            )
        ],
    ),
    (
        "correlated",
        gaussian,
        [
            (*size, 20, 1, f"copula {rho}")
            for rho in (0.3, 0.5)
            for size in ((5, 10, 1000), (10, 20, 20_000))
        ]
        + [(5, 100, 1000, 30, 1, f"copula {rho}") for rho in (0.3, 0.5)],
    ),
    (
        "no noise",
        gaussian,
        [
            (5, 10, 1000),
            (5, 5, 1000),
            (8, 10, 1000),
            (10, 10, 1000),
            (10, 100, 60),
            (5, 10, 1000),
        ],
    ),
    ("no noise", orthogonal, [(4, 4, 5000)]),
    ("no noise", partial(gaussian, bits=8), [(5, 20, 1000)]),
    (
        "no noise",
        spectra,
        [(4, "fluorescence", "300 dB", 3000), (4, "Dirichlet 0.5", "300 dB", 1000)],
    ),
    ("k - d at most 4", orthogonal, [(4, 8, 5000, 20)]),
    (
        "k - d at most 4",
        gaussian,
        [(5, 5, 5000, 30), (8, 10, 5000, 30), (9, 10, 5000, 30)],
    ),
    (
        "wide",
        gaussian,
        [
            (5, 4000, 200, 20),
            (5, 4000, 5000, 20),
            (40, 400, 5000, 20),
            (5, 4000, 200, 20, 30),
        ],
    ),
]


def counted(group, draw, arguments, seed):
    X = draw(np.random.default_rng(seed), *arguments)
    d = arguments[0]
    start = time.perf_counter()
    count = count_sources(X[:: max(1, len(X) // 20_000)], rough_cones)
    return (
        group,
        count.n_sources == d,
        d in (count.n_sources, *count.candidates),
        time.perf_counter() - start,
    )


def counting(args):
    """How often the number of sources is right, or among the candidates: three draws of
    every problem.
    """
    cases = [
        (group, draw, arguments, args.seed0 + number)
        for group, draw, some in COUNTED
        for arguments in some
        for number in range(3)
    ]
    with parallel_config("loky", inner_max_num_threads=1):
        results = Parallel(n_jobs=args.jobs, batch_size=1)(
            delayed(counted)(*case) for case in cases
        )
    rows = []
    for group in (*dict.fromkeys(group for group, *_ in results), "all"):
        some = [row for row in results if group in (row[0], "all")]
        _, right, named, seconds = zip(*some, strict=True)
        rows.append(
            {
                "problems": group,
                "right": f"{sum(right)} of {len(right)}",
                "named": f"{sum(named)} of {len(named)}",
                "longest, s": max(seconds),
            }
        )
    note = f"Three draws of {len(cases) // 3} problems."
    return runner.markdown("Number of sources", note, rows)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tables = {"separate": separations, "counting": counting}
    parser.add_argument(
        "--tables", default=",".join(tables), help="which (default: %(default)s)"
    )
    parser.add_argument(
        "--n", type=int, default=130, help="problems of separate (default: %(default)s)"
    )
    parser.add_argument(
        "--seed0",
        type=int,
        default=220_000,
        help="the first seed (default: %(default)s)",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="processes, each with one thread"
    )
    args = parser.parse_args()
    print(
        f"`python benchmarks/trust.py --n {args.n} --seed0"
        f" {args.seed0}`\n\n{runner.setting()}.\n"
    )
    for name in args.tables.split(","):
        print(tables[name](args), flush=True)


if __name__ == "__main__":
    main()
