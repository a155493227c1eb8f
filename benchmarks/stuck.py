"""Which guards keep Algorithms 1 and 2 from separating: the table of
docs/paper/convergence.md.

    python benchmarks/stuck.py --seed 50000

Untuned settings, sparse uniform sources, d = k = 3, one pass of 100,000 samples, random
matrices of a condition number, as large as in the map of `bionica reproduce
convergence`. 5,000 other samples are separated with the final weights.
"""

import argparse
import inspect
import warnings
from collections import Counter

import numpy as np

from bionica import datasets
from bionica.circuits import sweep

D = 3
RMS = float(np.linalg.norm(datasets.paper_mixing("d3"))) / D
NETWORKS = (
    (
        "InterneuronNICA",
        "Algorithm 1",
        [True, ["silent", "row"], ["silent", "spectrum"], ["silent"], []],
    ),
    (
        "TwoCompartmentNICA",
        "Algorithm 2",
        [True, ["silent", "rate"], ["rate"]],
    ),
)


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
            "T": 100_000,
            "held_out": 5000,
            "mixing": {"condition": condition, "rms": scale * RMS},
        }
        for scale in (1 / 3, 1, 3)
        for condition in (10, 30, 100)
    ]
    networks = [
        {"name": name, "label": label, "grid": {"guards": on}}
        for name, label, on in NETWORKS
    ]
    plan = {
        "seeds": list(range(seed, seed + matrices)),
        "data": data,
        "network": networks,
    }
    cells = [entry["name"] for entry in data]
    kinds = {}
    for entry in data:
        for i in plan["seeds"]:
            A = datasets.random_mixing(
                D, D, **entry["mixing"], rng=np.random.default_rng([i, 1])
            )
            small = (
                np.linalg.norm(A, axis=0).min() < 0.1 or np.linalg.svd(A)[1][-1] < 0.01
            )
            kinds[entry["name"], i] = "forbidden" if small else "allowed"
    counts = Counter(kinds.values())
    separated: dict[tuple, Counter] = {}
    for row in sweep.run(plan, n_jobs=-1):
        counter = separated.setdefault((row["network"], row["guards"]), Counter())
        if row["status"] == "ok" and row["sinr"] > 15:
            counter.update((row["data"], kinds[row["data"], row["seed"]]))
    totals = [f"{kind}, of {counts[kind]}" for kind in ("forbidden", "allowed")]
    print(f"| network | guards | {' | '.join([*cells, *totals])} |")
    print("|---" * (len(cells) + 4) + "|", flush=True)
    for (network, on), counter in separated.items():
        names = "all" if on is True else ", ".join(on) or "none"
        numbers = [str(counter[key]) for key in (*cells, "forbidden", "allowed")]
        print(f"| {network} | {names} |", " | ".join(numbers), "|", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=50_000)
    parser.add_argument("--matrices", type=int, default=30)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"\n### Guards\n\n{inspect.getdoc(guards)}\n")
    guards(arguments.seed, arguments.matrices)
