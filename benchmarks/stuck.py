"""Why runs of Algorithms 1 and 2 do not separate: the tables of
docs/paper/convergence.md.

    python benchmarks/stuck.py                          all tables
    python benchmarks/stuck.py guards --seed 50000      one of guards, silent

Untuned settings, sparse uniform sources, d = k = 3, one pass of 100,000 samples, random
matrices of a condition number, as large as in the map of `bionica reproduce
convergence`. 5,000 other samples are separated with the final weights.
"""

import argparse
import inspect
import warnings
from collections import Counter

import numpy as np

from bionica import InterneuronNICA, TwoCompartmentNICA, datasets
from bionica.circuits import sweep

T = 100_000
HELD_OUT = 5000
D = 3
RMS = float(np.linalg.norm(datasets.paper_mixing("d3"))) / D
NETWORKS = {"Algorithm 1": InterneuronNICA, "Algorithm 2": TwoCompartmentNICA}
GUARDS: dict[str, list] = {
    "Algorithm 1": [True, ["silent", "row"], ["silent", "spectrum"], ["silent"], []],
    "Algorithm 2": [True, ["silent", "rate"], ["rate"]],
}


def heading(*names):
    """Begin a table."""
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)


def guards(seed, matrices):
    """Separated matrices by the guards that are on: size of A over that of the paper's,
    condition number.

    The last two columns: of the matrices with a column shorter than .1 or a singular
    value below .01, and of the others.
    """
    data = [
        {
            "name": f"{scale:.2g} {condition}",
            "kind": "sparse_uniform",
            "d": D,
            "T": T,
            "held_out": HELD_OUT,
        }
        | {"mixing": {"condition": condition, "rms": scale * RMS}}
        for scale in (1 / 3, 1, 3)
        for condition in (10, 30, 100)
    ]
    networks = [
        {"name": cls.__name__, "label": name, "grid": {"guards": GUARDS[name]}}
        for name, cls in NETWORKS.items()
    ]
    plan = {
        "seeds": list(range(seed, seed + matrices)),
        "data": data,
        "network": networks,
    }
    cells = [entry["name"] for entry in data]
    forbidden = {}
    for entry in data:
        for i in plan["seeds"]:
            A = datasets.random_mixing(
                D, D, **entry["mixing"], rng=np.random.default_rng([i, 1])
            )
            small = (
                np.linalg.norm(A, axis=0).min() < 0.1 or np.linalg.svd(A)[1][-1] < 0.01
            )
            forbidden[entry["name"], i] = "forbidden" if small else "allowed"
    counts = [
        sum(kind == each for each in forbidden.values())
        for kind in ("forbidden", "allowed")
    ]
    separated: dict[tuple, Counter] = {}
    for row in sweep.run(plan, n_jobs=-1):
        counter = separated.setdefault((row["network"], row["guards"]), Counter())
        if row["status"] == "ok" and row["sinr"] > 15:
            counter.update((row["data"], forbidden[row["data"], row["seed"]]))
    heading(
        "network",
        "guards",
        *cells,
        f"forbidden, of {counts[0]}",
        f"allowed, of {counts[1]}",
    )
    for (network, on), counter in separated.items():
        names = "all" if on is True else ", ".join(on) or "none"
        numbers = [str(counter[key]) for key in (*cells, "forbidden", "allowed")]
        print(f"| {network} | {names} |", " | ".join(numbers), "|", flush=True)


def silent_only(seed, matrices):
    """Algorithm 1 with all guards and with the guard "silent" alone: separated matrices
    at condition numbers 10, 30, 100.
    """
    heading("sources, d, settings", "all guards", "silent")
    for kind, d, setting in (
        ("sparse_uniform", 3, "d3"),
        ("sparse_uniform", 10, "d10"),
        ("sparse_uniform", 10, None),
        ("exponential", 3, None),
        ("half_normal", 3, None),
        ("exponential", 10, None),
        ("half_normal", 10, None),
    ):
        rms = np.linalg.norm(datasets.paper_mixing(f"d{d}")) / d
        data = {"kind": kind, "d": d, "T": T, "held_out": HELD_OUT}
        plan = {
            "seeds": list(range(seed, seed + matrices)),
            "data": [
                data | {"name": str(c), "mixing": {"condition": c, "rms": float(rms)}}
                for c in (10, 30, 100)
            ],
            "network": [
                {"name": "InterneuronNICA", "grid": {"guards": [True, ["silent"]]}}
            ],
        }
        if setting:
            plan["network"][0]["published"] = setting
        separated = Counter()
        for row in sweep.run(plan, n_jobs=-1):
            separated[row["guards"], row["data"]] += (
                row["status"] == "ok" and row["sinr"] > 15
            )
        cells = [
            "/".join(str(separated[on, c]) for c in ("10", "30", "100"))
            for on in (True, ("silent",))
        ]
        print(
            f"| {kind}, {d}, {'table 1' if setting else 'untuned'} |",
            " | ".join(cells),
            "|",
            flush=True,
        )


TABLES = {"guards": guards, "silent": silent_only}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES])
    parser.add_argument("--seed", type=int, default=50_000)
    parser.add_argument("--matrices", type=int, default=30)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.tables or TABLES:
        print(f"\n### {name.capitalize()}\n\n{inspect.getdoc(TABLES[name])}\n")
        TABLES[name](arguments.seed, arguments.matrices)
