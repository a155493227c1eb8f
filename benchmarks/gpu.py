"""Networks on a GPU: network-samples a second, and the paper's grid for d = 3.

python benchmarks/gpu.py            prints the tables
python benchmarks/gpu.py --write    and writes them to benchmarks/results/gpu.md, with the date and the card
"""

import argparse
import datetime
import time
import tomllib
from pathlib import Path

import numpy as np

import bionica
from bionica._compat.numba_cuda import cuda, row_stack
from bionica.engines.cuda import launch as gpu
from bionica.networks.schedules import learning_rates

TARGET = ("TwoCompartmentNICA", 10, "float32")
PLAIN = {"precondition": None, "average": False, "init": "random"}


def batch(name, d, n, T, dtype, fastest=0.1, n_data=10):
    """n networks of one kind on n_data sets of mixtures, with up to 15 schedules of learning rates, the first `fastest` at most."""
    rng = np.random.default_rng(0)
    A = bionica.datasets.paper_mixing(f"d{d}")
    S = np.stack([bionica.datasets.sparse_uniform(T, d, rng=rng) for _ in range(n_data)])
    X = (S @ A.T).astype(dtype)
    starts = [eta0 for eta0 in (0.1, 0.05, 0.02, 0.01, 0.005) if eta0 <= fastest]
    schedules = [(eta0, decay) for eta0 in starts for decay in (1e-2, 1e-3, 1e-4)]
    rates = np.stack([learning_rates(eta0, decay, 1.0, 0, T)[:, np.newaxis] for eta0, decay in schedules])
    settings = PLAIN if name.endswith("NICA") else {}
    network = getattr(bionica, name)(d, eta0=0.01, random_state=0, **settings)
    states = [network._open(X[0])[0]]
    # Other initial weights, quickly: rows permuted.
    first = "W_xz" if name == "TwoCompartmentNICA" else "W_xy"
    for _ in range(min(n, 1000) - 1):
        W = getattr(states[0], first)[rng.permutation(d)] * rng.choice([-1, 1], (d, 1)).astype(dtype)
        states.append(states[0]._replace(**{first: np.ascontiguousarray(W)}))
    params = network._rule_params(states[0], X.dtype)
    order = np.arange(n)
    return gpu.Batch(
        [states[i % len(states)] for i in order], [params] * n, X, S.astype(dtype), order * n_data // n,
        rates.astype(dtype), order % len(rates), np.array([T // 10, T]),
    )  # fmt: skip


def rate(name, d, n, T, dtype, fastest, **launch):
    started = time.perf_counter()
    prepared = gpu.prepare(batch(name, d, n, T, dtype, fastest), **launch)
    whole = time.perf_counter() - started
    best = min(gpu.launch([prepared]) for _ in range(6))  # the card's clock rises first; the sums are then of all
    return best, n * T / best, whole, (gpu.collect(prepared).done == T).mean()


def grid():
    """The paper's grid for d = 3 on the card and on the CPU: seconds, and whether the same settings win."""
    from bionica import sweep
    from bionica.paper import paper_grid

    plan = {**tomllib.loads(paper_grid()), "dtype": "float32"}
    tables = {device: sweep.run(plan, device=device) for device in ("cuda", "cpu")}
    on_card = [row for row in tables["cuda"] if row["status"] == "ok" or row["status"].startswith("diverged")]
    seconds = sum({row["case"]: row["seconds"] for row in on_card}.values())
    lines = [
        "",
        f"The paper's grid for d = 3, {len({row['case'] for row in tables['cpu']}):,} runs, all four networks, float32: "
        f"{seconds:.2f} s on the card (target 0.5: "
        f"{'met' if seconds <= 0.5 else 'MISSED'}).",
        "",
        "| network | best on the GPU | error | best on the CPU | error |",
        "|---|---|---|---|---|",
    ]
    for mine, theirs in zip(tables["cuda"].best(), tables["cpu"].best(), strict=True):
        names = [name for name in ("eta0", "decay", "tau", "whitening_eta0", "whitening_decay") if name in mine]
        words = [", ".join(f"{name} {row[name]}" for name in names if row[name] is not None) for row in (mine, theirs)]
        lines.append(f"| {mine['network']} | {words[0]} | {mine['error']:.3e} | {words[1]} | {theirs['error']:.3e} |")
    return lines


@row_stack()
def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/gpu.md")
    parser.add_argument("--tune", action="store_true", help="try sizes of blocks and grids")
    args = parser.parse_args()
    card = cuda().get_current_device().name
    card = card.decode() if isinstance(card, bytes) else card
    lines = [
        "# On a GPU",
        "",
        f"`python benchmarks/gpu.py`, {datetime.date.today()}, {card}. One thread a network, errors computed on the card.",
        "",
        "| network | d | precision | first rates to | networks | samples | s on the card | network-samples a second | ended well |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    cases = [
        ("TwoCompartmentNICA", 3, 3900, 100_000, "float32", 0.1),
        ("TwoCompartmentNICA", 3, 160_000, 20_000, "float32", 0.1),
        ("TwoCompartmentNICA", 3, 160_000, 10_000, "float64", 0.1),
        ("InterneuronNICA", 3, 160_000, 10_000, "float32", 0.1),
        ("TwoCompartmentNICA", 10, 100_000, 4_000, "float32", 0.1),
        ("TwoCompartmentNICA", 10, 100_000, 20_000, "float32", 0.1),
        ("TwoCompartmentNICA", 10, 100_000, 2_000, "float64", 0.1),
        ("InterneuronNICA", 10, 100_000, 2_000, "float32", 0.1),
        ("InterneuronNICA", 10, 100_000, 2_000, "float32", 0.02),
    ]
    if args.tune:
        cases = [("TwoCompartmentNICA", 10, 100_000, 1000, "float32", 0.1)]
    for name, d, n, T, dtype, fastest in cases:
        sizes = [(block, per * 132) for block in (32, 64, 128) for per in (1, 2, 4, 8)] if args.tune else [(128, 0)]
        for block, blocks in sizes:
            best, speed, whole, well = rate(name, d, n, T, np.dtype(dtype), fastest, block=block, blocks=blocks)
            note = f" block {block} x {blocks}" if args.tune else ""
            target = f" (target 5e9: {'met' if speed >= 5e9 else 'MISSED'})" if (name, d, dtype) == TARGET else ""
            row = f"| {name}{note} | {d} | {dtype} | {fastest} | {n:,} | {T:,} | {best:.3f} | {speed:.2e}{target} | {well:.0%} |"
            print(row, f"<!-- with compilation {whole:.1f} s -->" if args.tune else "", flush=True)
            lines.append(row)
    if not args.tune:
        lines += grid()
        print("\n".join(lines[-8:]), flush=True)
    if args.write:
        path = Path(__file__).parent / "results" / "gpu.md"
        path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
