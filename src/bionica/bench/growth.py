"""How the cost of a sample grows with d, k and T."""

from functools import partial
from typing import Any

from .contenders import NETWORKS, SINGLE_LAYER, default_network, paper_network, problem
from .table import Row, Sizes, Table
from .timing import best_of, timed

#: d where k grows; d where T grows; most samples in memory there.
D_OF_K, D_OF_T, POOL = 10, 3, 100_000

HEADS = {
    "along": "grows",
    "value": "to",
    "network": "network",
    "ns": "ns a sample",
    "per_second": "samples a second",
}


def growth(sizes: Sizes) -> Table:
    """Measure along d, k and T."""
    rows = [row for d in sizes.d for row in _along_d(d, sizes)]
    rows += [row for k in sizes.k for row in _along_k(k, sizes)]
    rows += along_T(sizes)
    note = (
        f"Along d the mixtures are as many as the sources; along k, d = {D_OF_K}; along T, d = {D_OF_T}, a stream of ever the same "
        f"{POOL:,} mixtures that is learned from block by block, and the rate is that of the last decade alone. "
        '"untuned" is our defaults, the others are the paper\'s rules. One thread.'
    )
    return Table("growth", "Growth of cost with d, k and T", note, HEADS, rows)


def _along_d(d: int, sizes: Sizes) -> list[Row]:
    X = problem(_n_samples(sizes, d * d, 2 * d), d)
    networks = {name: paper_network(name, d, X) for name in NETWORKS}
    networks |= {f"{name} untuned": default_network(name, d, X) for name in SINGLE_LAYER}
    return _measured("d", d, networks, X, sizes.rounds)


def _along_k(k: int, sizes: Sizes) -> list[Row]:
    X = problem(_n_samples(sizes, k * D_OF_K, 50), D_OF_K, k)
    return _measured("k", k, {name: paper_network(name, D_OF_K, X) for name in SINGLE_LAYER}, X, sizes.rounds)


def _n_samples(sizes: Sizes, values: int, least: int) -> int:
    return max(least, min(100_000, int(sizes.n_values / values)))


def _measured(along: str, value: int, networks: dict[str, Any], X: Any, rounds: int) -> list[Row]:
    contenders = {name: partial(network.partial_fit, X) for name, network in networks.items()}
    return [_row(along, value, name, s / len(X)) for name, s in best_of(contenders, rounds).items()]


def _row(along: str, value: int, network: str, seconds: float) -> Row:
    return {"along": along, "value": value, "network": network, "ns": 1e9 * seconds, "per_second": 1 / seconds}


def along_T(sizes: Sizes) -> list[Row]:
    """A stream of T samples, decade by decade."""
    pool = problem(POOL, D_OF_T)
    rows = []
    for name in ("TwoCompartmentNICA", "TwoCompartmentNICA untuned"):
        start = default_network if name.endswith("untuned") else paper_network
        network, T, decade = start(name.split()[0], D_OF_T, pool[:1000]), 1000, 10_000
        while decade <= sizes.T:
            seconds, first = 0.0, T
            while T < decade:
                block = pool[: min(POOL, decade - T)]
                seconds += timed(partial(network.partial_fit, block))
                T += len(block)
            rows.append(_row("T", decade, name, seconds / (T - first)))
            decade *= 10
    return rows
