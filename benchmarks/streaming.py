"""StreamingNICA beside BatchNICA on data without any tuning, and the paper's networks
on random mixing matrices.

    python benchmarks/streaming.py --jobs 2                        everything
    python benchmarks/streaming.py --quick --tables random,noise   a part of it, in minutes
    python benchmarks/streaming.py --json here.json, --beside      beside another checkout (see runner.py)

A stream is one pass of `partial_fit` from a random start. Errors are permutation errors
of `transform` on samples that were not learned from, unless a table says otherwise.
"""

import numpy as np

import bionica
from bionica.datasets import mix
from bionica.metrics import permutation_error
from methods import BATCH, NETWORKS, STREAM, passed
from problems import HELD_OUT, KINDS, conditioned, disturb, sources
from runner import Table, main

STREAMS = (STREAM,)
YARDSTICK = (STREAM, BATCH)
#: Sources, d and horizon of the disturbed streams. Without a horizon, 10,000 samples
#: stand for one.
CELLS = (
    ("exponential", 3, 1000),
    ("odor", 3, 2000),
    ("half_normal", 5, 10_000),
    ("sparse_uniform", 10, 10_000),
    ("sparse_uniform", 3, None),
)
DISTURBANCES = (
    *(("one outlier", factor) for factor in (1e1, 1e3, 1e12)),
    *(("1 outlier in 1,000 for 2 horizons", factor) for factor in (1e1, 1e3, 1e12)),
    *(("1 outlier in 1,000 always", factor) for factor in (1e1, 1e3, 1e12)),
    *(("zeros", length) for length in (1, 10)),
    *(("one channel frozen", length) for length in (1, 10)),
    ("one channel starts late", 2),
)


def error_of(estimator, A, S):
    return permutation_error(S, estimator.transform(S @ A.T))


def random(method, kind, k, d, T, seed):
    rng = np.random.default_rng([seed, d])
    A = conditioned(k, d, rng)
    S = sources(kind, T + HELD_OUT, d, rng)
    return {"error": error_of(passed(method, d, S[:T] @ A.T, seed), A, S[T:])}


def noise(method, kind, snr_db, T, seed, d=5):
    rng = np.random.default_rng([seed, d, snr_db])
    S = sources(kind, T + HELD_OUT, d, rng)
    X, _ = mix(S, n_mixtures=2 * d, snr_db=snr_db, rng=rng)
    return {
        "error": permutation_error(
            S[T:], passed(method, d, X[:T], seed).transform(X[T:])
        )
    }


def disturbances(method, disturbance, size, kind, d, horizon, seed):
    """The error 5 horizons after a disturbance, over that of the undisturbed stream
    then.
    """
    rng = np.random.default_rng([seed, d])
    h = horizon or 10_000
    stretch = {
        "zeros": size,
        "one channel frozen": size,
        "1 outlier in 1,000 for 2 horizons": 2,
    }.get(disturbance)
    begin, end = (
        (h, size * h)
        if "late" in disturbance
        else (10 * h, (10 + stretch) * h if stretch else 10 * h + 1)
    )
    A = rng.standard_normal((d, d))
    S = sources(kind, end + 5 * h + HELD_OUT, d, rng)
    clean = S[:-HELD_OUT] @ A.T
    unseen = S[-HELD_OUT:]
    X = disturb(clean, disturbance, size, begin, end, rng)
    after, undisturbed = (
        error_of(passed(method, d, data, seed, horizon=horizon), A, unseen)
        for data in (X, clean)
    )
    return {"error": after, "clean": undisturbed, "ratio": after / undisturbed}


def abrupt(method, kind, d, horizon, seed):
    """Ten horizons with one mixing matrix, then five with another; the clean stream has
    the second from the start.
    """
    rng = np.random.default_rng([seed, d])
    A, B = rng.standard_normal((2, d, d))
    S = sources(kind, 15 * horizon + HELD_OUT, d, rng)
    S, unseen = S[:-HELD_OUT], S[-HELD_OUT:]
    estimator = passed(
        method, d, S[: 10 * horizon] @ A.T, seed, horizon=horizon
    ).partial_fit(S[10 * horizon :] @ B.T)
    after = error_of(estimator, B, unseen)
    clean = error_of(passed(method, d, S @ B.T, seed, horizon=horizon), B, unseen)
    return {"error": after, "ratio": after / clean}


def local(method, rates, d, T, seed):
    rng = np.random.default_rng([seed, d])
    A = rng.standard_normal((d, d))
    S = sources("sparse_uniform", T + HELD_OUT, d, rng)
    cls = getattr(bionica, method)
    network = (
        cls(d, random_state=seed)
        if rates == "untuned"
        else cls.as_published(f"d{d}", random_state=seed)
    )
    return {
        "error": error_of(network.partial_fit(S[:T] @ A.T), A, S[T:]),
        "condition": np.linalg.cond(A),
    }


def tables(seeds, quick):
    """Return the tables."""
    T = 20_000 if quick else 100_000
    few = seeds[:2]

    def any_problem(d, seed):
        return {
            "kind": KINDS[seed % len(KINDS)],
            "k": d if seed % 2 else 2 * d,
            "d": d,
            "seed": seed,
        }

    many = seeds if quick else range(seeds[0], seeds[0] + 10 * len(seeds))
    cells = CELLS[:2] if quick else CELLS
    return {
        "random": Table(
            "Random problems",
            "Five kinds of sources, square and tall, condition number 1 to 1000, scale"
            " 1e-3 to 1e3.",
            random,
            [
                (YARDSTICK, any_problem(d, s) | {"T": T})
                for d in (3, 5, 10, 20)
                for s in many
            ],
            ["d"],
        ),
        "noise": Table(
            "Noise",
            "d = 5, k = 10.",
            noise,
            [
                (YARDSTICK, {"kind": kind, "snr_db": snr, "T": T, "seed": s})
                for kind in (*KINDS, "copula 0")
                for snr in (20, 30)
                for s in seeds
            ],
            ["kind", "snr_db"],
        ),
        "disturbances": Table(
            "Disturbances",
            "Error 5 horizons after a disturbance over that of the clean stream.",
            disturbances,
            [
                (
                    STREAMS,
                    {
                        "disturbance": name,
                        "size": size,
                        "kind": kind,
                        "d": d,
                        "horizon": horizon,
                        "seed": s,
                    },
                )
                for name, size in DISTURBANCES
                for kind, d, horizon in cells
                if horizon or "outlier" in name
                for s in seeds
            ],
            ["disturbance", "size"],
            "ratio",
        ),
        "abrupt": Table(
            "Abrupt changes",
            "Error 5 horizons after another matrix over that of a stream that had it"
            " from the start.",
            abrupt,
            [
                (STREAMS, {"kind": kind, "d": d, "horizon": horizon, "seed": s})
                for d, horizon in ((3, 1000), (3, 10_000), (5, 3000), (10, 10_000))[
                    : 1 if quick else 4
                ]
                for kind in KINDS
                for s in few
            ],
            ["d", "horizon"],
            "ratio",
        ),
        "local": Table(
            "Strictly local networks",
            "Sparse uniform sources, random square A.",
            local,
            [
                (NETWORKS, {"rates": rates, "d": d, "T": T, "seed": s})
                for d in (3, 10)
                for rates in ("as published", "untuned")
                for s in many
            ],
            ["d", "rates"],
            below=0.05,
        ),
    }


if __name__ == "__main__":
    main(__doc__, "streaming", tables, seed0=5000)
