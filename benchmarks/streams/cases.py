"""The cases of each table: dicts with the name of the table, a method and the arguments of the function that measures it."""

from .measures import BATCH, KINDS, NETWORKS, PEERS, STREAMS

#: Sources, d and horizon of the disturbed streams. Without a horizon, 10,000 samples stand for one.
CELLS = (
    ("exponential", 3, 1000),
    ("odor", 3, 2000),
    ("half_normal", 5, 10_000),
    ("sparse_uniform", 10, 10_000),
    ("sparse_uniform", 3, None),
)
OUTLIERS = (1e1, 1e2, 1e3, 1e6, 1e12)
#: Disturbance and its size: the factor of an outlier, or the length of a stretch in horizons.
DISTURBANCES = (
    ("outlier at sample 500", 1e6),
    *(("one outlier", factor) for factor in OUTLIERS),
    *(("1 outlier in 1,000 for 2 horizons", factor) for factor in OUTLIERS),
    *(("1 outlier in 1,000 always", factor) for factor in OUTLIERS),
    *(("zeros", length) for length in (1, 10, 100, 1000)),
    *(("one channel frozen", length) for length in (1, 10)),
    ("one channel starts late", 2),
)


def cases(tables, methods, problems, scale, long_samples, seed0):
    """Return the cases of the tables, the costly ones first. `problems` bounds the seeds of each table."""

    def seeds(most):
        return [{"seed": seed0 + i} for i in range(min(most, problems))]

    def any_problem(d, seed):
        i = seed["seed"]
        return {"kind": KINDS[i % len(KINDS)], "k": d if i % 2 else 2 * d, "d": d} | seed

    def T(n):
        return max(1000, int(scale * n))

    yardstick, pixels = (*STREAMS, BATCH), None if scale == 1 else 64
    all_of = {
        "random": [(yardstick, any_problem(d, s) | {"T": T(100_000)}) for d in (20, 10, 5, 3) for s in seeds(100)],
        "figure4": [((*STREAMS, "TwoLayerNSM"), {"d": d, "T": T(100_000)} | s) for d in (3, 10) for s in seeds(10)],
        "large": [
            (yardstick, {"kind": kind, "d": d, "T": T(200_000)} | s)
            for d in (100, 50)
            for kind in KINDS
            for s in seeds(1)
        ],
        "short": [(yardstick, any_problem(5, s) | {"T": t}) for t in (1000, 3000, 10_000, 30_000) for s in seeds(20)],
        "noise": [
            (yardstick, {"kind": kind, "snr_db": snr, "T": T(100_000)} | s)
            for kind in KINDS
            for snr in (20, 30)
            for s in seeds(5)
        ]
        + [(yardstick, {"kind": "copula", "snr_db": 30, "T": T(100_000)} | s) for s in seeds(20)],
        "images": [
            (yardstick, {"order": order, "size": pixels} | s) for order in ("random", "raster") for s in seeds(10)
        ],
        "drift": [
            (STREAMS, {"kind": kind, "turn": T(turn), "horizon": horizon} | s)
            for turn, horizon in ((1_000_000, 1000), (100_000, 1000), (100_000, 300))
            for kind in KINDS
            for s in [{"seed": 0}, *seeds(10)]
        ],
        "disturbances": [
            (STREAMS, {"disturbance": name, "size": size, "kind": kind, "d": d, "horizon": horizon} | s)
            for name, size in DISTURBANCES
            for kind, d, horizon in CELLS
            if horizon or "outlier" in name
            for s in seeds(10)
        ],
        "abrupt": [
            (STREAMS, {"kind": kind, "d": d, "horizon": horizon} | s)
            for d, horizon in ((10, 10_000), (5, 3000), (3, 10_000), (3, 1000))
            for kind in KINDS
            for s in seeds(2)
        ],
        "local": [
            (NETWORKS, {"precondition": rule, "d": d, "T": T(100_000)} | s)
            for d in (3, 10)
            for rule in ("as published", None, "scale")
            for s in seeds(20)
        ],
        "long": [
            (STREAMS, {"dtype": dtype, "T": long_samples} | s) for dtype in ("float32", "float64") for s in seeds(1)
        ],
        "speed": [
            ((*STREAMS, *PEERS), {"kind": kind, "d": d, "T": T(100_000 if d < 50 else 20_000)} | s)
            for d in (3, 10, 50)
            for kind in ("sparse_uniform", "exponential")
            for s in seeds(1)
        ],
        "first_fit": [(STREAMS, {})],
        "chunks": [
            (STREAMS, {"dtype": dtype, "horizon": horizon, "k": k, "T": 2000} | s)
            for dtype in ("float64", "float32")
            for horizon in (None, 300)
            for k in (3, 6)
            for s in seeds(1)
        ],
    }
    return [
        {"table": table, "method": method} | arguments
        for table in tables
        for of, arguments in all_of[table]
        for method in of
        if method in methods
    ]
