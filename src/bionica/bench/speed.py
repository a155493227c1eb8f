"""ns a sample of every network, beside C++ and NumPy."""

from collections.abc import Callable
from functools import partial
from typing import Any

from .contenders import NETWORKS, SINGLE_LAYER, default_network, in_cpp, in_numpy, paper_network, problem
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
    rows = [row for d, n in sizes.samples.items() for row in _rows(d, *n, sizes.rounds, library, settle)]
    note = (
        "Learning on. Ours has the guards of appendix C on; the C++ loop (templates, -O3 -march=native, block principal pivoting, "
        f"a fresh Cholesky factor for every set) and the line-by-line NumPy + {name} version have none. All go on from the same "
        f"weights. Best of {sizes.rounds} rounds, one thread."
    )
    if library is None:
        note += " No C++ compiler was found (g++ or clang++)."
    return Table("speed", "Networks beside C++ and NumPy", note, HEADS, rows)


def _rows(d: int, n: int, n_numpy: int, rounds: int, library: Any, settle: Any) -> list[Row]:
    X = problem(n, d)
    ours = {name: paper_network(name, d, X) for name in NETWORKS}
    defaults = {name: default_network(name, d, X) for name in SINGLE_LAYER}
    contenders: dict[str, Callable[[], object]]
    contenders = {name: partial(network.partial_fit, X) for name, network in ours.items()}
    contenders |= {f"{name} default": partial(network.partial_fit, X) for name, network in defaults.items()}
    contenders |= {f"{name} numpy": in_numpy(network, X[:n_numpy], settle) for name, network in ours.items()}
    if library is not None and d in SIZES:
        contenders["TwoCompartmentNICA cpp"] = in_cpp(library, ours["TwoCompartmentNICA"], X)
    seconds = best_of(contenders, rounds)
    ns = {name: 1e9 * s / (n_numpy if name.endswith("numpy") else n) for name, s in seconds.items()}
    rows = []
    for name in NETWORKS:
        cpp_ns = ns.get(f"{name} cpp")
        row = {"network": name, "d": d, "samples": n, "ns": ns[name], "cpp_ns": cpp_ns}
        row["times_cpp"] = None if cpp_ns is None else ns[name] / cpp_ns
        row |= {"numpy_ns": ns[f"{name} numpy"], "times_faster": ns[f"{name} numpy"] / ns[name]}
        row["default_ns"] = ns.get(f"{name} default")
        row["targets"] = "; ".join(filter(None, _targets(row, {other: ns[other] for other in NETWORKS})))
        rows.append(row)
    return rows


def _targets(row: Row, ns: dict[str, float]) -> list[str]:
    name, d = row["network"], row["d"]
    if name == "TwoCompartmentNICA":
        return [
            verdict(row["times_cpp"], "<=", CPP[d], "x C++") if d in CPP else "",
            verdict(row["times_faster"], ">=", NUMPY[d], "x NumPy") if d in NUMPY else "",
            verdict(row["ns"], "<=", NS[d], "ns") if d in NS else "",
        ]
    if name in RELATIVE:
        return [verdict(row["ns"] / ns["TwoCompartmentNICA"], "<=", RELATIVE[name], "x Algorithm 2")]
    return [verdict(row["ns"] / min(other for key, other in ns.items() if key != name), "<=", 1, "x the next")]
