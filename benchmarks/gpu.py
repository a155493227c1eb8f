"""Networks on a GPU: network-samples a second with and without forced unrolling, and seconds of compiling.

python benchmarks/gpu.py            prints the table, for d = 3 and d = 10
python benchmarks/gpu.py --write    and writes it to benchmarks/results/gpu.md, with the date and the card
"""

import argparse
import datetime
import sys
import time

import numpy as np

import bionica
from bionica._compat.numba_cuda import cuda
from bionica.kernels import cuda as gpu
from bionica.kernels.learner import Schedule
from runner import RESULTS, markdown

#: Network, d, networks, samples, precision.
CASES = (
    ("TwoCompartmentNICA", 3, 160_000, 20_000, "float32"),
    ("InterneuronNICA", 3, 160_000, 10_000, "float32"),
    ("TwoCompartmentNICA", 10, 100_000, 4_000, "float32"),
    ("TwoCompartmentNICA", 10, 100_000, 2_000, "float64"),
    ("InterneuronNICA", 10, 100_000, 2_000, "float32"),
)


def batch(name, d, n, T, dtype, n_data=10):
    """n networks of one kind on n_data sets of mixtures, with 15 schedules of learning rates."""
    rng = np.random.default_rng(0)
    A = bionica.datasets.paper_mixing(f"d{d}")
    S = np.stack([bionica.datasets.sparse_uniform(T, d, rng=rng) for _ in range(n_data)])
    X = (S @ A.T).astype(dtype)
    schedules = [(eta0, decay) for eta0 in (0.1, 0.05, 0.02, 0.01, 0.005) for decay in (1e-2, 1e-3, 1e-4)]
    rates = np.stack([Schedule(eta0, decay)(0, T)[:, np.newaxis] for eta0, decay in schedules])
    network = getattr(bionica, name)(d, eta0=0.01, average=False, random_state=0)
    learner = network._learner_for(d, X.dtype)
    states = [learner.state]
    # Other initial weights, quickly: rows permuted.
    first = "W_xz" if name == "TwoCompartmentNICA" else "W_xy"
    for _ in range(min(n, 1000) - 1):
        W = getattr(states[0], first)[rng.permutation(d)] * rng.choice([-1, 1], (d, 1)).astype(dtype)
        states.append(states[0]._replace(**{first: np.ascontiguousarray(W)}))
    order = np.arange(n)
    return gpu.Batch(
        [states[i % len(states)] for i in order], [learner.params] * n, X, S.astype(dtype), order * n_data // n,
        rates.astype(dtype), order % len(rates), np.array([T // 10, T]),
    )  # fmt: skip


def throughput():
    rows = []
    for name, d, n, T, dtype in CASES:
        networks = batch(name, d, n, T, np.dtype(dtype))
        for unrolled in (range(4, 11), range(11, 11)) if d > 3 else (range(11, 11),):
            gpu.UNROLLED = unrolled
            start = time.perf_counter()
            run = gpu.prepare(networks)
            compiled = time.perf_counter() - start
            results = min(
                (run() for _ in range(6)), key=lambda results: results.seconds
            )  # the card's clock rises first
            best = results.seconds
            row = {"network": name, "d": d, "precision": dtype, "unrolled": "yes" if unrolled else "no", "networks": n}
            row |= {"samples": T, "s on the card": best, "network-samples a second": f"{n * T / best:.2e}"}
            row |= {"ended well": f"{np.mean(results.done == T):.0%}", "compiling and sending, s": compiled}
            print(row, file=sys.stderr, flush=True)
            rows.append(row)
    return markdown(
        "Throughput",
        "One thread a network; errors are computed on the card. NUMBA_CACHE_DIR must be empty for the times of compiling.",
        rows,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/gpu.md")
    args = parser.parse_args()
    card = cuda().get_current_device().name
    card = card.decode() if isinstance(card, bytes) else card
    table = throughput()
    print(table, flush=True)
    if args.write:
        (RESULTS / "gpu.md").write_text(
            f"# On a GPU\n\n`python benchmarks/gpu.py`, {datetime.date.today()}, {card}.\n\n{table}"
        )


if __name__ == "__main__":
    main()
