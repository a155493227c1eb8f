"""How the time of a sample grows with the number d of sources, k of mixtures and T of samples seen.

python benchmarks/growth.py [--long] [--write]
"""

from functools import partial

from common import (
    NETWORKS,
    SINGLE_LAYER,
    best_of,
    default_network,
    paper_network,
    parser,
    problem,
    report,
    seconds,
    started,
    table,
)

D = (3, 5, 10, 20, 50, 100, 200)
K = (10, 100, 1000, 10_000, 100_000)
#: d where k grows; d where T grows; samples that the stream repeats there.
D_OF_K, D_OF_T, POOL = 10, 3, 100_000
#: Multiplications of one measurement at least.
WORK = 2e7


def along_d(ds=D, rounds=7):
    rows = []
    for d in ds:
        X = problem(_n_samples(d * d, 2 * d), d)
        networks = {name: paper_network(name, d).fit(X) for name in NETWORKS}
        networks |= {f"{name} at defaults": started(default_network(name, d), X) for name in SINGLE_LAYER}
        rows += _rows("d", d, networks, X, rounds)
    return table("Along d", "As many mixtures as sources. One thread.", rows)


def along_k(ks=K, rounds=7):
    rows = []
    for k in ks:
        X = problem(_n_samples(k * D_OF_K, 50), D_OF_K, k)
        rows += _rows("k", k, {name: paper_network(name, D_OF_K).fit(X) for name in SINGLE_LAYER}, X, rounds)
    return table("Along k", f"{D_OF_K} sources. One thread.", rows)


def along_T(most):
    """Measure a stream decade by decade."""
    pool, rows = problem(POOL, D_OF_T), []
    name = "TwoCompartmentNICA"
    for label, network in {
        name: paper_network(name, D_OF_T),
        f"{name} at defaults": default_network(name, D_OF_T),
    }.items():
        started(network, pool[:1000])
        T, decade = network.n_samples_seen_, 10_000
        while decade <= most:
            spent, first = 0.0, T
            while T < decade:
                block = pool[: min(POOL, decade - T)]
                spent += seconds(partial(network.partial_fit, block))
                T += len(block)
            rows.append({"T": decade, "network": label, "ns a sample": 1e9 * spent / (T - first)})
            decade *= 10
    note = (
        f"d = {D_OF_T}; the stream repeats {POOL:,} mixtures. A row is the time of a sample in the last decade alone, so that a "
        "cost that grows with the number of samples seen would show. One thread."
    )
    return table("Along T", note, rows)


def _n_samples(work, least):
    return max(least, min(100_000, int(WORK / work)))


def _rows(letter, value, networks, X, rounds):
    best = best_of({name: partial(network.partial_fit, X) for name, network in networks.items()}, rounds)
    return [{letter: value, "network": name, "ns a sample": 1e9 * s / len(X)} for name, s in best.items()]


if __name__ == "__main__":
    arguments = parser(__doc__, "growth")
    arguments.add_argument("--long", action="store_true", help="a stream of 10^9 samples: ten minutes more")
    args = arguments.parse_args()
    measures = [along_d, along_k, partial(along_T, 10**9 if args.long else 10**7)]
    report("growth", "Growth of cost with d, k and T", ["--long"] * args.long, measures, args.write)
