"""How far `diagnose`, the count of sources and `bionica.separate` can be trusted, on problems with known sources.

python benchmarks/trust.py --jobs 16                     # all tables but those of real data; --n problems, from --seed0
python benchmarks/trust.py --tables verdicts --json F    # one of them; what was measured is written to F ...
python benchmarks/trust.py --draw F                      # ... from which estimated against true errors are drawn
python benchmarks/trust.py --tables real --data FOLDER   # data sets as .npz with X, C (sources) or S (spectra)

A fit is wrong if some source has no output that correlates with it by 0.9 (WRONG), or some output has no source: a source too
few or too many is always wrong, and a ramp in one mixture ("clock") is a source more than is asked for. A fit is right if all
correlate by 0.99 (RIGHT). Between the two, 2 % to 19 % of the variance of a source is something else, and either verdict is
accepted. Rows that were replaced by outliers hold no source and are not compared. The limits of `bionica.trust.findings`
were set on seeds 860000 to 860799, 861000 to 861239, 897000 to 898259 and 980000 to 985259 of the table `verdicts`.
"""

import argparse
import itertools
import json
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config
from scipy import linalg, special
from scipy.optimize import linear_sum_assignment

import bionica
import problems
import real_spectra
import runner
from bionica.cone.count import count_sources

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
ESTIMATORS = ("BatchNICA", "MinimumVolumeCone", "StreamingNICA", "TwoCompartmentNICA", "ConeNetwork")
WRONG, RIGHT = 0.9, 0.99


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
        centre, width = np.sort(rng.uniform(0.2, 0.8, d)), rng.uniform(0.05, 0.12, d)
        return rng.uniform(0.5, 2, d) * np.exp(-0.5 * ((np.linspace(0, 1, T)[:, None] - centre) / width) ** 2)
    if kind == "reaction":  # each becomes the next
        rates = np.exp(rng.uniform(np.log(2), np.log(12), d - 1))
        K = np.diag([*-rates, 0.0]) + np.diag(rates, -1)
        return np.stack([linalg.expm(t * K)[:, 0] for t in np.linspace(0, 1, T)])
    if kind == "peaks":
        return np.stack([_peaks(T, rng) for _ in range(d)], axis=1)
    if name == "copula":
        rho = float(number[0])
        return special.ndtr(np.sqrt(rho) * rng.standard_normal((T, 1)) + np.sqrt(1 - rho) * rng.standard_normal((T, d)))
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
    """Mixtures, their sources (NaN in outliers), the number of sources that is asked for, and what was drawn."""
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
    ceiling = np.quantile(X, rng.uniform(0.8, 0.97), axis=0) if spoiled == "clipped" else None
    if spoiled != "no noise":
        X = X + rng.standard_normal(X.shape) * np.sqrt(np.mean(X**2)) * 10 ** (-snr_db / 20)
    X = np.clip(X, None, ceiling)
    if spoiled == "outliers":
        rows = rng.choice(T, rng.integers(1, max(2, T // 200)), replace=False)
        X[rows] *= -rng.uniform(5, 100)
        S[rows] = np.nan
    if spoiled == "centred":
        X = X - X.mean(axis=0)
    if spoiled == "clock":
        X[:, 0] = np.arange(T) * X.std() / T * 5
        S = np.column_stack([S, X[:, 0]])
    if spoiled == "background":
        X = X + X.std() * rng.uniform(1, 3, k)
    return X, S, max(1, d + {"one too few": -1, "one too many": 1}.get(spoiled, 0)), f"{kind}, {spoiled}"


#: Of `mixtures`: sources, what is wrong beside them, and how they are mixed.
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
FLAWS = (*("nothing",) * 5, "20 dB", "unequal noise", "few samples", "baseline", "shifts", "two signs", "background")
MIXINGS = ("smooth", "nonnegative", "signed")


def mixtures(seed):
    """Mixtures, sources, how many of them are asked for (the others are baselines), and what was drawn."""
    rng = np.random.default_rng(seed)
    kinds = SOURCES if rng.random() < 0.75 else NEVER_ZERO
    kind, flaw, mixing = (names[rng.integers(len(names))] for names in (kinds, FLAWS, MIXINGS))
    d, T = int(rng.integers(2, 6)), int(np.exp(rng.uniform(np.log(150), np.log(4000))))
    T = int(rng.integers(5, 25)) * d if flaw == "few samples" else T
    k = int(rng.integers(30, 90)) if mixing == "smooth" or flaw == "shifts" else int(rng.integers(d + 1, 4 * d + 1))
    S, channel = draw(kind, T, d, rng), np.linspace(0, 1, k)[:, None]
    A = rng.random((k, d)) ** 2 if mixing == "nonnegative" else rng.standard_normal((k, d))
    if mixing == "smooth" or flaw == "shifts":  # three bands each, of both signs if the mixing has
        height = rng.random((3, d)) * (rng.choice([-1, 1], (3, d)) if mixing == "signed" else 1)
        centre, width = rng.random((3, d)), rng.uniform(0.03, 0.15, (3, d))
        bands = lambda x: np.sum(height * np.exp(-0.5 * ((x[..., None, None] - centre) / width) ** 2), axis=-2)  # noqa: E731
        A = bands(channel[:, 0])
    if flaw == "two signs":
        S[:, 0] -= S[:, 0].mean()
    X = S @ A.T
    if flaw == "shifts":  # of each spectrum, by up to two channels
        moved = bands(channel[:, 0] + rng.uniform(0.2, 2) / k * rng.standard_normal((T, 1)))
        X = np.einsum("td,tkd->tk", S, moved)
    size = np.sqrt(np.mean(X**2))
    extra = np.zeros((T, 0))
    if flaw == "baseline":  # a line of random height and slope under each sample
        extra = rng.normal([rng.choice([0, 3]), 0], 1, (T, 2))
        X = X + rng.uniform(0.05, 0.3) * size * extra @ np.hstack([np.ones((k, 1)), channel - 0.5]).T
    if flaw == "background":  # the dark level of a detector
        X = X + size * rng.uniform(0.3, 2) * (1 + 0.1 * rng.standard_normal(k))
        extra = np.ones((T, 1))
    snr_db = 20.0 if flaw == "20 dB" else rng.uniform(25, 55)
    level = np.exp(rng.uniform(0, np.log(10), k)) if flaw == "unequal noise" else np.ones(k)
    X = X + rng.standard_normal(X.shape) * level / np.sqrt(np.mean(level**2)) * size * 10 ** (-snr_db / 20)
    return X, np.hstack([S, extra]), d, (kind, flaw, mixing)


def matched(S, Y):
    """Correlation of each source with its output, and the outputs that match; 0 if there are more of the one than of the other."""
    d, sound = S.shape[1], np.isfinite(S).all(axis=1)
    if Y.shape[1] != d:
        return np.zeros(d), None
    with np.errstate(all="ignore"):
        r = np.nan_to_num(np.abs(np.corrcoef(S[sound].T, Y[sound].T)[:d, d:]))
    rows, order = linear_sum_assignment(-r)
    return r[rows, order], order


def errors(S, Y, order, estimated):
    """Estimated and true standard error of each source, in standard deviations of its output."""
    sound = np.isfinite(S).all(axis=1)
    S, Y = S[sound], Y[sound][:, order]
    scale = np.sum(Y * S, axis=0) / np.sum(S**2, axis=0)
    return estimated[order].tolist(), (np.sqrt(np.mean((Y - S * scale) ** 2, axis=0)) / Y.std(axis=0)).tolist()


def judged(name, seed):
    """One verdict: worst correlation, findings, estimated and true error of each source; None if the fit is refused."""
    warnings.simplefilter("ignore")
    X, S, d, drawn = problem(seed)
    try:
        estimator = getattr(bionica, name)(d, random_state=0).fit(X)
    except (ValueError, bionica.DivergenceError):
        return None
    start = time.perf_counter()
    found, Y = estimator.diagnose(X), np.asarray(estimator.transform(X))
    seconds = time.perf_counter() - start
    r, order = matched(S, Y)
    known = order is not None and found.uncertainty_ is not None
    return {
        "name": name,
        "seed": seed,
        "drawn": drawn,
        "worst": float(r.min()),
        "findings": [one.name for one in found.findings],
        "errors": errors(S, Y, order, found.uncertainty_.sources) if known else ([], []),
        "seconds": seconds,
    }


def confusion(rows, without=()):
    """Wrong fits called right and right fits called wrong, if some checks are not made."""
    said = [(row["worst"], set(row["findings"]) - {"outliers", "changed", *without}) for row in rows]
    wrong, right = [names for r, names in said if r < WRONG], [names for r, names in said if r > RIGHT]
    return (sum(not names for names in wrong), len(wrong)), (sum(bool(names) for names in right), len(right))


def agreement(rows):
    """How well estimated and true errors agree, in words. An output that is zero everywhere has no true error."""
    estimated, true = (np.concatenate([row["errors"][i] for row in rows]) for i in (0, 1))
    sound = np.isfinite(true) & (true > 0)
    estimated, true = np.log(np.maximum(estimated[sound], 1e-12)), np.log(true[sound])
    r, near = np.corrcoef(estimated, true)[0, 1], np.mean(np.abs(estimated - true) < np.log(2))
    return f"{len(true)} sources, correlation of the logarithms {r:.2f}, within a factor of 2 in {near:.0%}"


def verdicts(args):
    """The confusion table, the same without each check, and estimated beside true errors."""
    cases = itertools.product(ESTIMATORS, range(args.seed0, args.seed0 + args.n))
    with parallel_config("loky", inner_max_num_threads=1):
        found = Parallel(n_jobs=args.jobs, batch_size=1)(delayed(judged)(*case) for case in cases)
    found = [row for row in found if row]
    if args.json:
        args.json.write_text(json.dumps(found))
    of = {name: [row for row in found if row["name"] == name] for name in ESTIMATORS}
    table = [
        {"": name, "wrong, called right": "{} of {}".format(*wrong), "right, called wrong": "{} of {}".format(*right)}
        for name, (wrong, right) in ((name, confusion(rows)) for name, rows in of.items())
    ]
    checks = sorted({check for row in found for check in row["findings"]} - {"outliers", "changed"})
    ablation = []
    for check in ("", *checks):
        counts = {name: confusion(rows, (check,)) for name, rows in of.items()}
        ablation.append({"without": check or "(all checks)"} | {n: f"{w[0]} / {r[0]}" for n, (w, r) in counts.items()})
    right = [row for row in found if not set(row["findings"]) - {"outliers", "changed"}]
    note = (
        f"{args.n} problems from seed {args.seed0}. Estimated against true standard errors: {agreement(found)}; of "
        f"fits called right {agreement(right)}. `diagnose` takes {np.median([r['seconds'] for r in found]):.2g} s (median)."
    )
    text = "Wrong fits called right / right fits called wrong, if one check is not made."
    return runner.markdown("Verdicts", note, table) + "\n" + runner.markdown("Ablation", text, ablation)


def separated(seed):
    """What `separate` says of one of `mixtures`, told the number and not: worst correlation, findings, errors, coverage."""
    warnings.simplefilter("ignore")
    X, S, d, drawn = mixtures(seed)
    rows = []
    for told in (True, False):
        row, start = {"seed": seed, "told": told, "drawn": drawn, "d": d}, time.perf_counter()
        try:
            found = bionica.separate(X, d if told else "auto", random_state=0)
        except (ValueError, bionica.DivergenceError) as error:
            rows.append(row | {"refused": str(error)})
            continue
        Y, moved = np.asarray(found.transform(X)), found.diagnosis_.uncertainty_
        row |= {"seconds": time.perf_counter() - start, "findings": [one.name for one in found.diagnosis_.findings],
                "n": found.choice_.n_sources, "candidates": found.choice_.candidates, "method": found.choice_.method}  # fmt: skip
        with np.errstate(all="ignore"):  # two abundances are as much each other's opposite as themselves
            cosine = np.nan_to_num(np.abs(S[:, :d].T @ Y) / np.linalg.norm(Y, axis=0))
            r = np.nan_to_num(np.abs(np.corrcoef(S[:, :d].T, Y.T)[:d, d:]))
        sources, order = linear_sum_assignment(-cosine / np.linalg.norm(S[:, :d], axis=0)[:, None])
        fits = d <= Y.shape[1] <= S.shape[1]
        row |= {"worst": float(r[sources, order].min()) if fits else 0.0, "errors": ((), ()), "inside": []}
        if fits and Y.shape[1] > d:  # outputs for baselines: a fit is right only if they are, too
            row["worst"] = min(row["worst"], max(WRONG, matched(S[:, : Y.shape[1]], Y)[0].min()))
        if fits and moved is not None:
            row["errors"] = errors(S[:, :d], Y, order, moved.sources)
            scale = np.sum(Y[:, order] * S[:, :d], axis=0) / np.sum(S[:, :d] ** 2, axis=0)
            beyond = np.abs(Y[:, order] - scale * S[:, :d]) / (moved.sources * Y.std(axis=0))[order]
            row["inside"] = np.mean(beyond < 1.645, axis=0).tolist()
        rows.append(row)
    return rows


def separations(args):
    """Verdicts of `separate` on `mixtures`: wrong called right, right called wrong, the count, and what errors cover."""
    seeds = range(args.seed0, args.seed0 + args.n)
    with parallel_config("loky", inner_max_num_threads=1):
        rows = [
            row for two in Parallel(args.jobs, batch_size=1)(delayed(separated)(seed) for seed in seeds) for row in two
        ]
    if args.json:
        args.json.write_text(json.dumps(rows))
    rows = [row for row in rows if "refused" not in row]
    table, causes = [], []
    for told in (True, False):
        some = [row for row in rows if row["told"] == told]
        wrong, right = confusion(some, without=())
        ok = [row for row in some if not row["findings"]]
        estimated, true = (np.concatenate([row["errors"][i] for row in ok]) for i in (0, 1))
        inside = np.concatenate([row["inside"] for row in ok])
        counted = [row["d"] == row["n"] or (row["d"] in row["candidates"] and bool(row["findings"])) for row in some]
        table.append({"number": "told" if told else "counted", "wrong, called right": "{} of {}".format(*wrong),
                      "right, called wrong": "{} of {}".format(*right),
                      "number right or named": f"{sum(counted)} of {len(counted)}",
                      "true error below 2 SE": f"{np.mean(true < 2 * estimated):.0%}",
                      "median SE / true": float(np.median(estimated / true)),
                      "inside 90 % intervals": f"{np.mean(inside):.0%}",
                      "s, median": float(np.median([row["seconds"] for row in some]))})  # fmt: skip
        for i, what in enumerate(("sources", "flaw", "mixing")):
            for name in sorted({row["drawn"][i] for row in some}):
                wrong, right = confusion([row for row in some if row["drawn"][i] == name])
                causes.append({"number": table[-1]["number"], what: name, "wrong, called right": "{} of {}".format(*wrong),
                               "right, called wrong": "{} of {}".format(*right)})  # fmt: skip
    parts = [[row for row in causes if what in row] for what in ("sources", "flaw", "mixing")]
    note = f"{args.n} mixtures from seed {args.seed0}. Errors are those of fits called right."
    return "\n".join(
        [runner.markdown("separate", note, table), *(runner.markdown("By what was drawn", "", p) for p in parts)]
    )


def draw_errors(path):
    """Draw estimated against true errors of what `verdicts` and `real` wrote."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 5.4), layout="constrained")
    ax = figure.subplots()
    rows = json.loads(path.read_text())
    for name in dict.fromkeys(row["name"] for row in rows):
        some = [row["errors"] for row in rows if row["name"] == name]
        estimated, true = (np.concatenate([one[i] for one in some]) for i in (0, 1))
        real = name not in ESTIMATORS
        ax.loglog(true, estimated, "D" if real else ".", ms=7 if real else 3, label=name, alpha=1 if real else 0.5)
    ends = np.array([1e-4, 3.0])
    for factor, style in ((1, "-"), (0.5, ":"), (2, ":")):
        ax.loglog(ends, factor * ends, style, color="0.5", lw=0.8)
    ax.set(xlabel="true error of a source", ylabel="estimated error", xlim=ends, ylim=ends)
    ax.legend(frameon=False)
    figure.savefig(runner.RESULTS / "trust.png", dpi=120)


def stream(seed, folder):
    """A clean uniform stream: worst correlation, and whether it is called right after fit, partial_fit and load."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    d, T = int(rng.integers(4, 13)), int(np.exp(rng.uniform(np.log(300), np.log(3000))))
    S = rng.random((T, d))
    X = S @ rng.standard_normal((d, d))
    fitted, streamed = (bionica.StreamingNICA(d, random_state=0) for _ in range(2))
    fitted.fit(X)
    for block in np.array_split(X, 3):
        streamed.partial_fit(block)
    path = Path(folder) / f"{seed}.bionica"
    streamed.save(path)
    models = {"fit": fitted, "partial_fit": streamed, "load": bionica.load(path)}
    return float(matched(S, streamed.transform(X))[0].min()), {
        key: model.diagnose(X).ok for key, model in models.items()
    }


def streams(args):
    """Clean uniform streams that are too short to settle."""
    with tempfile.TemporaryDirectory() as folder, parallel_config("loky", inner_max_num_threads=1):
        seeds = range(args.seed0, args.seed0 + 2 * args.n)
        found = Parallel(n_jobs=args.jobs, batch_size=1)(delayed(stream)(seed, folder) for seed in seeds)
    wrong, right = [ok for r, ok in found if r < WRONG], [ok for r, ok in found if r > RIGHT]
    rows = [
        {
            "after": key,
            "wrong, called right": f"{sum(ok[key] for ok in wrong)} of {len(wrong)}",
            "right, called wrong": f"{sum(not ok[key] for ok in right)} of {len(right)}",
        }
        for key in ("fit", "partial_fit", "load")
    ]
    return runner.markdown("Clean uniform streams", "StreamingNICA, d = 4 to 12, 300 to 3,000 samples, no noise.", rows)


def counting_problems():
    """Group, number of sources and how to draw mixtures, of 67 problems: many kinds of noise, sizes and sources."""

    def white(X, snr_db, rng):
        return 0 if snr_db is None else rng.standard_normal(X.shape) * np.sqrt(np.mean(X**2)) * 10 ** (-snr_db / 20)

    def gaussian(d, k, T, snr_db=None, *, kind="sparse_uniform", factor=1, bits=None):
        def make(rng):
            S, A = problems.sources(kind, T, d, rng), rng.standard_normal((d, k))
            X = S @ A
            level = np.exp(rng.uniform(0, np.log(factor), k))
            X = X + white(X, snr_db, rng) * level / np.sqrt(np.mean(level**2))
            return X if bits is None else np.round(X / np.abs(X).max() * (2 ** (bits - 1) - 1))

        return d, make

    def orthogonal(d, k, T, snr_db=None):
        def make(rng):
            X = problems.sources("sparse_uniform", T, d, rng) @ np.linalg.qr(rng.standard_normal((k, d)))[0].T
            return X + white(X, snr_db, rng)

        return d, make

    equal = ((3, 10, 60, 20), (3, 10, 1000, 10), (3, 10, 1000, 30), (3, 10, 100_000, 40), (5, 30, 60, 20), (5, 30, 1000, 10),
             (5, 30, 1000, 40), (5, 30, 100_000, 20), (10, 20, 60, 20), (10, 20, 1000, 20), (10, 20, 100_000, 20),
             (10, 100, 60, 20), (10, 100, 1000, 10), (10, 100, 20_000, 30), (5, 10, 1000, 20), (5, 10, 100_000, 30))  # fmt: skip
    unequal = ((3, 10, 1000, 20, 30), (5, 10, 5000, 30, 10), (5, 30, 60, 20, 10), (5, 30, 1000, 20, 30), (10, 20, 5000, 20, 30),
               (10, 100, 300, 20, 30), (10, 100, 20_000, 20, 30))  # fmt: skip
    kinds = ("Dirichlet 0.5", "Dirichlet 1", "fluorescence", "chromatogram", "four notes")
    noises = (("Poisson 20 dB", 300), ("Poisson 20 dB", 3000), ("25 dB", 3000), ("40 dB", 3000))
    correlated = ((5, 10, 1000, 20), (10, 20, 20_000, 20), (5, 100, 1000, 30))
    clean = ((5, 10, 1000), (5, 5, 1000), (8, 10, 1000), (10, 10, 1000), (10, 100, 60), (5, 10, 1000))
    few, wide = (
        ((5, 5, 5000, 30), (8, 10, 5000, 30), (9, 10, 5000, 30)),
        ((5, 4000, 200, 20), (5, 4000, 5000, 20), (40, 400, 5000, 20)),
    )

    def spectra(kind, noise, T):
        return 4, lambda rng: problems.spectra(kind, noise, T, rng)[0]

    yield from (("equal noise", *gaussian(*size)) for size in equal)
    yield from (("unequal noise", *gaussian(*size[:4], factor=size[4])) for size in unequal)
    yield from (("spectra", *spectra(kind, *noise)) for kind in kinds for noise in noises)
    yield from (("correlated", *gaussian(*size, kind=f"copula {rho}")) for rho in (0.3, 0.5) for size in correlated)
    yield from (("no noise", *problem) for problem in (*(gaussian(*size) for size in clean), orthogonal(4, 4, 5000),
                                                       gaussian(5, 20, 1000, bits=8), spectra("fluorescence", "300 dB", 3000),
                                                       spectra("Dirichlet 0.5", "300 dB", 1000)))  # fmt: skip
    yield from (
        ("k - d at most 4", *problem) for problem in (orthogonal(4, 8, 5000, 20), *(gaussian(*size) for size in few))
    )
    yield from (
        ("wide", *problem) for problem in (*(gaussian(*size) for size in wide), gaussian(5, 4000, 200, 20, factor=30))
    )


def counted(index, seed):
    group, d, make = list(counting_problems())[index]
    X = make(np.random.default_rng(seed))
    start = time.perf_counter()
    count = count_sources(X[:: max(1, len(X) // 20_000)])
    return group, count.n_sources == d, d in (count.n_sources, *count.candidates), time.perf_counter() - start


def counting(args):
    """How often the number of sources is right, or among the candidates: three draws of every problem."""
    cases = [(i, args.seed0 + draw) for i in range(len(list(counting_problems()))) for draw in range(3)]
    with parallel_config("loky", inner_max_num_threads=1):
        results = Parallel(n_jobs=args.jobs, batch_size=1)(delayed(counted)(*case) for case in cases)
    rows = []
    for group in (*dict.fromkeys(group for group, *_ in results), "all"):
        _, right, named, seconds = zip(*(row for row in results if group in (row[0], "all")), strict=True)
        shares = {"right": f"{sum(right)} of {len(right)}", "named": f"{sum(named)} of {len(named)}"}
        rows.append({"problems": group, **shares, "longest, s": max(seconds)})
    return runner.markdown("Number of sources", "Three draws of 67 problems.", rows)


def band(k1, k2, noise, seed):
    """A reaction A -> B -> C: worst source, verdict, width of the widest band, share of the channels inside it."""
    C, X = real_spectra.reaction(k1, k2, noise, seed)
    A = np.linalg.lstsq(C, real_spectra.reaction(k1, k2, 0.0, seed)[1], rcond=None)[0].T
    cone = bionica.MinimumVolumeCone(3, random_state=0).fit(X)
    found = cone.diagnose(X)
    r, order = matched(C, cone.transform(X))
    low, high = (M[:, order] for M in (found.band_.mixing_low, found.band_.mixing_high))
    true = A * np.linalg.norm(np.maximum(cone.mixing_[:, order], 0), axis=0) / np.linalg.norm(A, axis=0)
    error = 2 * found.uncertainty_.mixing[:, order]
    inside = np.mean((true >= low - error) & (true <= high + error))
    return r.min(), found.ok, found.band_.width.max(), inside


def bands(args):
    """Bands of the spectra of a reaction, beside the true spectra."""
    rows = []
    for k1, k2 in dict.fromkeys((k1, k2) for k1, k2, _ in real_spectra.REACTIONS):
        cases = [(noise, seed) for noise in (1e-3, 3e-3, 1e-2) for seed in range(args.seed0, args.seed0 + 4)]
        r, ok, width, inside = np.array([band(k1, k2, *case) for case in cases]).T
        rows.append({"k1, k2": f"{k1}, {k2}", "worst source": float(np.median(r)), "called right": f"{int(ok.sum())} of {len(ok)}",
                     "width of the band": float(np.median(width)), "channels inside": float(np.mean(inside))})  # fmt: skip
    return runner.markdown("Bands", "MinimumVolumeCone; noise 0.001, 0.003 and 0.01, four seeds each.", rows)


def real(args):
    """Verdict, number and errors beside the truth for the real sets."""
    rows, found = [], json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    for name, d in real_spectra.SETS.items():
        data = np.load(Path(args.data) / f"{name}.npz")
        X = data["X"].astype(float)
        told, free = bionica.separate(X, d, random_state=0), bionica.separate(X, random_state=0)
        row = {"set": name, "true": d, "counted": f"{free.choice_.n_sources} {free.choice_.candidates or ''}"}
        row["told: worst"] = float(real_spectra.score(name, data, told.transform(X), told.mixing_)[0])
        row["said"] = ", ".join(one.name for one in told.diagnosis_.findings) or "ok"
        row["method"], row["counted: worst"] = told.choice_.method, None
        if free.choice_.n_sources >= d:
            row["counted: worst"] = float(real_spectra.score(name, data, free.transform(X), free.mixing_)[0])
        for peer in ("NMF", "pyMCR"):
            row[peer] = float(real_spectra.score(name, data, *real_spectra.METHODS[peer](X, d, 0)[:2])[0])
        if "C" in data:
            S, Y = data["C"].astype(float), np.asarray(told.transform(X))
            estimated, true = errors(S, Y, matched(S, Y)[1], told.diagnosis_.uncertainty_.sources)
            row["estimated / true error"] = ", ".join(f"{e / t:.2f}" for e, t in zip(estimated, true, strict=True))
            found.append({"name": name, "findings": [], "errors": (estimated, true)})
        rows.append(row)
    if args.json:
        args.json.write_text(json.dumps(found))
    return runner.markdown(
        "Real data",
        "Told the number, and counted; worst: correlation of the worst source. NMF and pyMCR are told it.",
        rows,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tables = {
        "verdicts": verdicts,
        "separate": separations,
        "streams": streams,
        "bands": bands,
        "counting": counting,
        "real": real,
    }
    default = ",".join(list(tables)[:-1])
    parser.add_argument("--tables", default=default, help="which (default: %(default)s)")
    parser.add_argument("--n", type=int, default=130, help="problems (default: %(default)s)")
    parser.add_argument("--seed0", type=int, default=220_000, help="the first seed (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with one thread")
    parser.add_argument("--data", help="folder of real data")
    parser.add_argument("--json", type=Path, help="write the rows of verdicts here; `real` appends to it")
    parser.add_argument("--draw", type=Path, help="draw benchmarks/results/trust.png from such a file")
    args = parser.parse_args()
    if args.draw:
        draw_errors(args.draw)
        return
    print(f"`python benchmarks/trust.py --n {args.n} --seed0 {args.seed0}`\n\n{runner.setting()}.\n")
    warnings.simplefilter("ignore")
    for name in args.tables.split(","):
        print(tables[name](args), flush=True)


if __name__ == "__main__":
    main()
