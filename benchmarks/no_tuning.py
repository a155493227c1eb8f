"""The single-layer networks at their defaults on data nobody tuned for.

    python benchmarks/no_tuning.py [--quick] [--write] [--only problems,large,conditioning,noise,paper,drift,long,cost]

Defaults only: no setting depends on the problem. Errors are permutation errors on 20,000 samples that were not learned from.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import warnings

import numpy as np
from joblib import Parallel, delayed

import bionica
from bionica import BatchNICA, InterneuronNICA, NonnegativePCA, TwoCompartmentNICA, TwoLayerNSM
from bionica.datasets import copula_uniform, mix, natural_images, paper_mixing, random_sources, sparse_uniform
from bionica.metrics import correlation_floor, permutation_error, sinr

warnings.simplefilter("ignore")
NETWORKS = (InterneuronNICA, TwoCompartmentNICA)
KINDS = ("sparse_uniform", "exponential", "half_normal", "gamma", "odor")
T, HELD_OUT = 100_000, 20_000


def mixing(rng, k, d, condition, scale):
    """A k x d Gaussian matrix with its singular values spread over `condition`, times `scale`."""
    U, _, Vt = np.linalg.svd(rng.standard_normal((k, d)), full_matrices=False)
    return scale * (U * np.geomspace(1, 1 / condition, d)) @ Vt


def score(estimator, X, S):
    """Held-out error after one pass over the rest; infinite if the network gave up."""
    try:
        return permutation_error(S[-HELD_OUT:], estimator.fit(X[:-HELD_OUT]).transform(X[-HELD_OUT:]))
    except (ArithmeticError, ValueError):
        return np.inf


def one_problem(seed, d):
    rng = np.random.default_rng([d, seed])
    kind = KINDS[seed % len(KINDS)]
    k = d if seed % 2 else 2 * d
    S = random_sources(kind, T + HELD_OUT, d, rng=rng)
    X = S @ mixing(rng, k, d, 10 ** rng.uniform(0, 3), 10 ** rng.uniform(-3, 3)).T
    row = {"d": d, "kind": kind, "k": k, "batch": score(BatchNICA(d, random_state=seed), X, S)}
    for Network in NETWORKS:
        row[Network.__name__] = score(Network(d, random_state=seed), X, S)
    return row


def problems(quick):
    n = 10 if quick else 100
    lines = [
        f"## {n} random problems for each d, T = {T:,}, one pass",
        "",
        "Sources sparse-uniform, exponential, half-normal, gamma, odor; A square and twice as tall, condition number 1 to 1000, "
        "scale 1e-3 to 1e3. Ratio: held-out error over that of BatchNICA on the same data (target: at most 2 in 95 %; no error "
        "above 0.01).",
        "",
        "| network | d | ratio <= 2 | median ratio | 95 % of ratios below | largest error | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for d in (3, 5, 10, 20):
        rows = Parallel(n_jobs=2)(delayed(one_problem)(seed, d) for seed in range(n))
        for Network in NETWORKS:
            name = Network.__name__
            errors = np.array([row[name] for row in rows])
            ratios = errors / [row["batch"] for row in rows]
            good = np.mean(ratios <= 2)
            met = good >= 0.95 and errors.max() <= 0.01
            lines.append(
                f"| {name} | {d} | {good:.0%} | {np.median(ratios):.2f} | {np.quantile(ratios, 0.95):.2f} "
                f"| {errors.max():.1e} | {'met' if met else 'MISSED'} |"
            )
    return lines


def large(quick):
    lines = [
        "## Many sources, T = 200,000",
        "",
        "| network | d | BatchNICA | network | ratio (target <= 5) | fit s |",
        "|---|---|---|---|---|---|",
    ]
    for d in (50,) if quick else (50, 100):
        rng = np.random.default_rng(d)
        S = sparse_uniform(200_000 + HELD_OUT, d, rng=rng)
        X = S @ rng.standard_normal((d, d)).T
        batch = score(BatchNICA(d, random_state=0), X, S)
        for Network in NETWORKS:
            start = time.perf_counter()
            error = score(Network(d, random_state=0), X, S)
            seconds = time.perf_counter() - start
            verdict = "met" if error <= 5 * batch else "MISSED"
            lines.append(
                f"| {Network.__name__} | {d} | {batch:.1e} | {error:.1e} | {error / batch:.2f}: {verdict} | {seconds:.0f} |"
            )
    return lines


def conditioning(quick):
    lines = [
        "## Condition number and scale of the mixing",
        "",
        "The same sources, d = 5; largest over smallest error between condition numbers 1 and 1000 (target: at most 2), and "
        "the largest relative change of the error between scales 1e-6, 1 and 1e6 (target: 1e-6).",
        "",
        "| network | condition 1 | condition 1000 | ratio | change with scale |",
        "|---|---|---|---|---|",
    ]
    S = sparse_uniform(T + HELD_OUT, 5, rng=5)
    for Network in NETWORKS:
        errors = [
            score(Network(5, random_state=0), S @ mixing(np.random.default_rng(1), 5, 5, c, 1.0).T, S)
            for c in (1.0, 1000.0)
        ]
        A = mixing(np.random.default_rng(1), 5, 5, 30.0, 1.0)
        scaled = [score(Network(5, random_state=0), S @ (s * A).T, S) for s in (1e-6, 1.0, 1e6)]
        ratio, change = max(errors) / min(errors), np.ptp(scaled) / scaled[1]
        lines.append(
            f"| {Network.__name__} | {errors[0]:.2e} | {errors[1]:.2e} "
            f"| {ratio:.2f}: {'met' if ratio <= 2 else 'MISSED'} | {change:.1e}: {'met' if change <= 1e-6 else 'MISSED'} |"
        )
    return lines


def noise(quick):
    seeds = range(4 if quick else 30)
    methods = {
        "InterneuronNICA": InterneuronNICA,
        "TwoCompartmentNICA": TwoCompartmentNICA,
        "BatchNICA": BatchNICA,
    }

    def one(rho, seed):
        rng = np.random.default_rng([seed, int(100 * rho)])
        S = copula_uniform(T, 5, rho, rng=rng)
        X, A = mix(S, n_mixtures=10, snr_db=30, rng=rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [method(5, random_state=seed).fit(X).transform(X) for method in methods.values()]
        return [sinr(S, Y) for Y in (*found, np.maximum(X @ np.linalg.pinv(A).T, 0))]

    lines = [
        "## Noise and correlated sources",
        "",
        f"Copula sources, d = 5, k = 10, 30 dB, N = {T:,}, mean SINR in dB over {len(seeds)} seeds (target at rho = 0: "
        "above 29.5, what 2-layer NSM reaches in the literature on its own draws of A). The last column knows A: it applies its "
        "pseudoinverse.",
        "",
        "| rho | " + " | ".join(methods) + " | true A | verdict |",
        "|---|" + "---|" * (len(methods) + 2),
    ]
    for rho in (0.0, 0.1, 0.2, 0.3, 0.5):
        mean = np.mean(Parallel(n_jobs=2)(delayed(one)(rho, seed) for seed in seeds), axis=0)
        verdict = "" if rho else ("met" if mean[:2].min() > 29.5 else "MISSED")
        lines.append(f"| {rho} | " + " | ".join(f"{value:.1f}" for value in mean) + f" | {verdict} |")
    return lines


def paper(quick):
    runs = 2 if quick else 10
    lines = [
        "## The paper's problems",
        "",
        f"Mean error over the last tenth of the stream (frozen weights for the images), {runs} runs; images are scikit-image's "
        "camera, brick and gravel, 5 presentations in random order.",
        "",
        "| problem | network | as published | at our defaults |",
        "|---|---|---|---|",
    ]
    images = natural_images(size=252)
    for setting in ("d3", "d10", "images"):
        d = paper_mixing(setting).shape[0]
        for Network in (InterneuronNICA, TwoCompartmentNICA, TwoLayerNSM, NonnegativePCA):
            errors = []
            for seed in range(runs):
                S = images if setting == "images" else sparse_uniform(T, d, rng=seed)
                X, _ = mix(S, paper_mixing(setting))
                again = {"n_epochs": 5, "shuffle": True} if setting == "images" else {}
                pair = []
                for network in (Network.as_published(setting), Network(d)):
                    network.set_params(random_state=seed, **again)
                    Y = network.fit(X).transform(X)
                    tail = slice(None) if setting == "images" else slice(-T // 10, None)
                    pair.append(permutation_error(S[tail], Y[tail]))
                errors.append(pair)
            published, ours = np.mean(errors, axis=0)
            lines.append(f"| {setting} | {Network.__name__} | {published:.1e} | {ours:.1e} |")
        lines.append(f"| {setting} | correlation floor | {correlation_floor(S):.1e} | |")
    return lines


def drift(quick):
    n = 200_000 if quick else 1_000_000
    rng = np.random.default_rng(0)
    S = sparse_uniform(n, 3, rng=rng)
    A = rng.standard_normal((3, 3))
    angle = 2 * np.pi * np.arange(n) / 1e6
    mixed = S @ A.T
    cos, sin = np.cos(angle), np.sin(angle)
    X = np.column_stack([cos * mixed[:, 0] - sin * mixed[:, 1], sin * mixed[:, 0] + cos * mixed[:, 1], mixed[:, 2]])
    lines = [
        "## Drift",
        "",
        f"A rotating by a full turn in 10^6 samples, d = 3; error of the running outputs over the last tenth of {n:,} "
        "(target < 0.02).",
        "",
        "| network | horizon | tail error | verdict |",
        "|---|---|---|---|",
    ]
    for Network in NETWORKS:
        for horizon in (None, 1000, 2000, 3000):
            Y = Network(3, init="random", horizon=horizon, random_state=0).partial_fit_transform(X)
            error = permutation_error(S[-n // 10 :], Y[-n // 10 :])
            verdict = "" if horizon is None else ("met" if error < 0.02 else "MISSED")
            lines.append(f"| {Network.__name__} | {horizon} | {error:.1e} | {verdict} |")
    return lines


def long(quick):
    n, block = (10**6 if quick else 10**8), 10**6
    lines = [
        f"## {n:,} samples in float32",
        "",
        "| network | seconds | smallest eigenvalue of R | largest | held-out error | state, bytes |",
        "|---|---|---|---|---|---|",
    ]
    S = sparse_uniform(block, 3, rng=0, dtype=np.float32)
    X = np.ascontiguousarray(S @ paper_mixing("d3").T.astype(np.float32))
    for Network in NETWORKS:
        network = Network(3, init="random", random_state=0)
        start = time.perf_counter()
        for _ in range(n // block):
            network.partial_fit(X)
        seconds = time.perf_counter() - start
        eigenvalues = np.linalg.eigvalsh(network._state.inp.R.astype(float))
        size = sum(a.nbytes for a in bionica.networks.state.to_arrays(network._state).values())
        error = permutation_error(S[:HELD_OUT], network.transform(X[:HELD_OUT]))
        lines.append(
            f"| {Network.__name__} | {seconds:.0f} | {eigenvalues[0]:.3f} | {eigenvalues[-1]:.3f} | {error:.1e} | {size} |"
        )
    return lines


def cost(quick):
    lines = [
        "## What it costs",
        "",
        "ns a sample at d = k = 10, learning only, best of 5; ratio to the paper's network (target: at most 2).",
        "",
        "| network | the paper's | + average | natural | natural + average | ratio |",
        "|---|---|---|---|---|---|",
    ]
    S = sparse_uniform(50_000, 10, rng=0)
    X = S @ np.linalg.qr(np.random.default_rng(0).standard_normal((10, 10)))[0].T
    for Network in NETWORKS:
        row = []
        for options in (
            {"precondition": None, "average": False},
            {"precondition": None, "average": True},
            {"precondition": "natural", "average": False},
            {"precondition": "natural", "average": True},
        ):
            network = Network(10, init="random", eta0=0.01, decay=1e-3, random_state=0, **options).partial_fit(X)
            times = []
            for _ in range(5):
                start = time.perf_counter()
                network.partial_fit(X)
                times.append(time.perf_counter() - start)
            row.append(min(times) / len(X) * 1e9)
        ratio = row[3] / row[0]
        cells = " | ".join(f"{value:,.0f}" for value in row)
        lines.append(f"| {Network.__name__} | {cells} | {ratio:.2f}: {'met' if ratio <= 2 else 'MISSED'} |")
    return lines


def main():
    parts = (problems, large, conditioning, noise, paper, drift, long, cost)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the problems")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/no_tuning/PART.md")
    parser.add_argument("--only", default=",".join(part.__name__ for part in parts), help="parts, separated by commas")
    args = parser.parse_args()
    for part in parts:
        if part.__name__ in args.only.split(","):
            text = "\n".join(part(args.quick)) + "\n"
            print(text, flush=True)
            if args.write:
                folder = Path(__file__).parent / "results" / "no_tuning"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{part.__name__}.md").write_text(text)


if __name__ == "__main__":
    main()
