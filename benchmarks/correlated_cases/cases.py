"""The cases of each table: dicts with the name of the table, a method and the arguments of the function that measures it."""

import os
from importlib.util import find_spec

from batch import problems

from . import sources
from .methods import BATCH, CONE, KNOWS_A, ONLINE, PEERS

RHO = (0, 0.1, 0.2, 0.3, 0.5, 0.7)
#: Sources, d and dB of EVIDENCE's table of fixed walls.
WALLS = (
    ("sparse-uniform", 10, 20),
    ("odor-like", 5, 20),
    ("exponential", 5, 30),
    ("half-normal", 5, 20),
    ("copula 0.5", 5, 30),
    ("copula 0.5", 5, 20),
)
#: Noise that the estimator is told, in units of the true one. The same `wall_` is harder by 1 / factor^2: from 16 to 1/16.
FACTORS = (0.25, 0.5, 1, 2, 4)
CHEMISTRY = ("Dirichlet 0.1", "Dirichlet 0.5", "Dirichlet 1", "chromatogram", "fluorescence", "four notes")
CHEMISTRY_NOISE = ("40 dB", "25 dB", "Poisson 20 dB")
DURATIONS = (
    ("exponential", 20, 30),
    ("sparse-uniform", 20, 30),
    ("copula 0.5", 20, 30),
    ("exponential", 10, None),
)
#: Problems on which `bionica separate --method auto` chooses: kind, d, k, dB, T.
CHOICES = (
    *((kind, 5, 10, snr_db, 20_000) for kind in ("exponential", "half-normal") for snr_db in (None, 30, 20, 10)),
    *((kind, 3, 3, snr_db, 20_000) for kind in ("exponential", "half-normal") for snr_db in (None, 30, 20)),
    ("sparse-uniform", 3, 3, None, 100_000),
    ("sparse-uniform", 10, 10, None, 20_000),
    ("sparse-uniform", 10, 20, 20, 20_000),
    ("sparse-uniform", 10, 10, 20, 20_000),
    ("odor-like", 5, 10, 20, 20_000),
    *((f"copula {rho}", 5, 10, snr_db, 20_000) for rho in (0, 0.1, 0.3, 0.5) for snr_db in (None, 30, 20, 10)),
    *((f"copula {rho}", 5, 5, 30, 20_000) for rho in (0, 0.3, 0.5)),
    *((kind, 4, 10, snr_db, 60) for kind in ("exponential", "copula 0.5") for snr_db in (None, 20)),
)
OUTLIERS = (("copula 0.5", 10, 30), ("exponential", 10, 30), ("copula 0.5", 10, None), ("copula 0.5", 5, 40))


def cases(tables, methods, n_seeds, scale, long_samples, seed0):
    """Return the cases of the tables and why others were left out."""

    def seeds(most=n_seeds):
        return [{"seed": seed0 + i} for i in range(min(most, n_seeds))]

    def T(n):
        return max(1000, int(scale * n))

    def synthetic(kind, d, k, snr_db, n):
        return {"kind": kind, "d": d, "k": k, "snr_db": snr_db, "T": T(n)}

    everyone, pixels, left_out = (CONE, BATCH, *PEERS, KNOWS_A), None if scale == 1 else 64, []
    pictures = [sources.PAPER, *sources.IMAGES]
    if not os.environ.get(sources.PAPER_FOLDER):
        pictures.remove(sources.PAPER)
        if {"images", "stream_images"} & set(tables):
            left_out.append("the paper's images: pass their folder as --paper-images")
    shipped = [name for name, (package, _, _) in sources.REAL.items() if find_spec(package)]
    if "real" in tables:
        left_out += [f"{name}: pip install {sources.REAL[name][0]}" for name in sources.REAL if name not in shipped]

    def forty(levels):
        """BatchNICA is the yardstick; NMF and FastICA, the slowest here, have two seeds."""
        return [
            (of, synthetic(kind, d, k, snr_db, 20_000) | s)
            for kind, d, k in reversed(problems(quick=False))
            for snr_db in levels
            for of, most in (((CONE, BATCH, KNOWS_A), n_seeds), (PEERS, 2))
            for s in seeds(most)
        ]

    all_of = {
        "copula": [
            (everyone, synthetic(f"copula {rho}", 5, 10, snr_db, 100_000) | s)
            for snr_db in (30, 20)
            for rho in RHO
            for s in seeds()
        ],
        "sizes": [
            (everyone, synthetic("copula 0.5", d, 2 * d, snr_db, n) | s)
            for d, snr_db, n in ((20, 30, 100_000), (10, 30, 100_000), (10, 30, 3000), (5, 30, 3000), (5, 20, 3000))
            for s in seeds()
        ],
        "uncorrelated": forty((20, 30, 40)),
        "noiseless": forty((None,)),
        "wall": [
            (of, {"kind": kind, "d": d, "snr_db": snr_db, "factor": factor, "T": T(50_000)} | s)
            for kind, d, snr_db in WALLS
            for of, factors in (((CONE,), (None, *FACTORS)), ((BATCH, KNOWS_A), (None,)))
            for factor in factors
            for s in seeds()
        ],
        "images": [
            (everyone, {"images": name, "matrix": matrix, "k": k, "snr_db": snr_db, "size": pixels} | s)
            for name in pictures
            for matrix, k, snr_db in (
                ("paper's", 3, None),
                ("random", 3, None),
                ("random", 6, None),
                ("random", 6, 40),
            )
            if matrix == "random" or name == sources.PAPER
            for s in seeds(n_seeds if matrix == "random" else 1)
        ],
        "chemistry": [
            (everyone, {"sources_of": kind, "noise": noise, "T": T(3000)} | s)
            for kind in CHEMISTRY
            for noise in CHEMISTRY_NOISE
            for s in seeds()
        ],
        "real": [((CONE, BATCH, *PEERS), {"data": name} | s) for name in shipped for s in seeds(1)],
        "stream": [
            ((CONE, ONLINE, KNOWS_A), {"rho": rho, "snr_db": snr_db, "T": T(100_000)} | s)
            for snr_db in (30, 20)
            for rho in RHO
            for s in seeds()
        ],
        "stream_images": [
            ((CONE, ONLINE), {"images": name, "k": k, "order": order, "size": pixels} | s)
            for name in pictures
            for k in (3, 6)
            for order in ("random", "natural")
            for s in seeds()
        ],
        "long": [((CONE, ONLINE), {"T": long_samples} | s) for s in seeds(1)],
        "stream_speed": [((CONE, ONLINE), {"T": T(1_000_000)} | s) for s in seeds(3)],
        "drift": [
            (of, {"change": change, "turn": T(1_000_000), "horizon": horizon} | s)
            for change in ("two mixtures turn", "all of A")
            for of, horizon in (((CONE, ONLINE), 1500), ((CONE, ONLINE), 3000), ((KNOWS_A,), None))
            for s in seeds()
        ],
        "chunks": [((CONE,), {"horizon": horizon, "T": 20_000} | s) for horizon in (None, 3000) for s in seeds(3)],
        "duration": [
            ((BATCH,), {"kind": kind, "k": k, "snr_db": snr_db, "T": T(100_000)} | s)
            for kind, k, snr_db in DURATIONS
            for s in seeds(3)
        ],
        "wide": [((CONE, *PEERS, KNOWS_A), {"k": T(10_000), "T": T(3000)} | s) for s in seeds(1)],
        "dask": [((CONE, BATCH), {"T": T(1_000_000)} | s) for s in seeds(1)],
        "choice": [
            *(
                ((CONE,), {"kind": kind, "d": d, "k": k, "snr_db": snr_db, "T": n if n < 1000 else T(n)} | s)
                for kind, d, k, snr_db, n in CHOICES
                for s in seeds()
            ),
            *(
                ((CONE,), {"sources_of": kind, "noise": noise, "T": T(3000)} | s)
                for kind in CHEMISTRY
                for noise in CHEMISTRY_NOISE
                for s in seeds()
            ),
            *(
                ((CONE,), {"images": name, "k": k, "snr_db": snr_db, "size": pixels} | s)
                for name in pictures
                for k, snr_db in ((3, None), (6, None), (6, 40), (6, 20))
                for s in seeds()
            ),
        ],
        "outliers": [
            ((CONE, BATCH, KNOWS_A), {"kind": kind, "k": k, "snr_db": snr_db, "T": T(20_000)} | s)
            for kind, k, snr_db in OUTLIERS
            for s in seeds()
        ],
    }
    wanted = [
        {"table": table, "method": method} | arguments
        for table in tables
        for of, arguments in all_of[table]
        for method in of
        if method in methods
    ]
    return wanted, left_out
