"""ns a sample of every network, beside C++ and NumPy."""

from collections.abc import Callable
from typing import Any

from .contenders import (
    NETWORKS,
    SINGLE_LAYER,
    default_network,
    in_cpp,
    in_its_own_loop,
    in_numpy,
    in_the_loop_for_all,
    paper_network,
    problem,
)
from .cpp import SIZES, build
from .line_by_line import solver
from .table import Row, Sizes, Table, verdict
from .timing import best_of

#: Most times the C++ loop's time, least times faster than NumPy, most ns a sample; of Algorithm 2.
CPP, NUMPY, NS = {3: 1.3, 10: 0.5}, {3: 250, 10: 80}, {50: 8000}
#: Most times the time of Algorithm 2.
RELATIVE = {"InterneuronNICA": 1.5, "TwoLayerNSM": 2.0}

HEADS = {
    "network": "network",
    "d": "d",
    "ns": "the paper's rule, ns a sample",
    "own_ns": "in a loop for this size, ns",
    "cpp_ns": "C++, ns",
    "times_cpp": "times C++'s time",
    "numpy_ns": "NumPy, ns",
    "times_faster": "times faster than NumPy",
    "default_ns": "at defaults, ns",
    "targets": "targets",
}


def speed(sizes: Sizes) -> Table:
    """Measure every network at every d."""
    library = build()
    name, settle = solver()
    rows = [row for d in sizes.samples for row in _rows(d, sizes, library, settle)]
    note = (
        "TwoCompartmentNICA is the paper's Algorithm 2, InterneuronNICA its Algorithm 1. A network of fewer than 12 neurons that "
        "has run for 20 s gets a loop for its size. Learning on. Ours has the guards of appendix C on; the C++ loop (templates, "
        f"-O3 -march=native, block principal pivoting, a fresh Cholesky factor for every set) and the line-by-line NumPy + {name} "
        "version have none. All go on from the same weights. Ratios and targets are those of the loop for this size where there is "
        f"one, as C++ has it. Best of {sizes.rounds} rounds, one thread."
    )
    if library is None:
        note += " No C++ compiler was found (g++ or clang++)."
    return Table("speed", "Networks beside C++ and NumPy", note, HEADS, rows)


def _rows(d: int, sizes: Sizes, library: Any, settle: Any) -> list[Row]:
    n, n_numpy = sizes.samples[d]
    X = problem(n, d)
    ours = {name: paper_network(name, d, X) for name in NETWORKS}
    defaults = {name: default_network(name, d, X) for name in SINGLE_LAYER}
    contenders: dict[str, Callable[[], object]]
    contenders = {name: in_the_loop_for_all(network, X) for name, network in ours.items()}
    own = {f"{name} own": in_its_own_loop(network, X) for name, network in ours.items()} if sizes.own else {}
    contenders |= {name: learn for name, learn in own.items() if learn is not None}
    contenders |= {f"{name} default": in_the_loop_for_all(network, X) for name, network in defaults.items()}
    contenders |= {f"{name} numpy": in_numpy(network, X[:n_numpy], settle) for name, network in ours.items()}
    if library is not None and d in SIZES:
        contenders["TwoCompartmentNICA cpp"] = in_cpp(library, ours["TwoCompartmentNICA"], X)
    seconds = best_of(contenders, sizes.rounds)
    ns = {name: 1e9 * s / (n_numpy if name.endswith("numpy") else n) for name, s in seconds.items()}
    best = {name: ns.get(f"{name} own", ns[name]) for name in NETWORKS}
    rows = []
    for name in NETWORKS:
        cpp_ns = ns.get(f"{name} cpp")
        row = {"network": name, "d": d, "samples": n, "ns": ns[name], "own_ns": ns.get(f"{name} own"), "cpp_ns": cpp_ns}
        row["times_cpp"] = None if cpp_ns is None else best[name] / cpp_ns
        row |= {"numpy_ns": ns[f"{name} numpy"], "times_faster": ns[f"{name} numpy"] / best[name]}
        row["default_ns"] = ns.get(f"{name} default")
        row["targets"] = "; ".join(filter(None, _targets(row, best)))
        rows.append(row)
    return rows


def _targets(row: Row, ns: dict[str, float]) -> list[str]:
    name, d = row["network"], row["d"]
    if name == "TwoCompartmentNICA":
        return [
            verdict(row["times_cpp"], "<=", CPP[d], "x C++") if d in CPP else "",
            verdict(row["times_faster"], ">=", NUMPY[d], "x NumPy") if d in NUMPY else "",
            verdict(ns[name], "<=", NS[d], "ns") if d in NS else "",
        ]
    if name in RELATIVE:
        return [verdict(ns[name] / ns["TwoCompartmentNICA"], "<=", RELATIVE[name], "x Algorithm 2")]
    return [verdict(ns[name] / min(other for key, other in ns.items() if key != name), "<=", 1, "x the next fastest")]
