"""Time of a sample of every network beside C++ and line-by-line NumPy, of single samples, and of a start.

python benchmarks/speed.py [--quick] [--write]
"""

import ctypes
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import bionica
from common import (
    NETWORKS,
    SINGLE_LAYER,
    WEIGHTS,
    best_of,
    default_network,
    paper_network,
    parser,
    problem,
    report,
    started,
    table,
    verdict,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import naive

#: d -> samples of the compiled networks and of NumPy.
FULL = {3: (400_000, 4000), 10: (100_000, 3000), 50: (4000, 300), 200: (600, 40)}
QUICK = {3: (50_000, 1000), 10: (20_000, 500), 50: (1000, 60)}
#: d that two_compartment.cpp is compiled for.
CPP_SIZES = (3, 10, 50, 200)
#: Targets of Algorithm 2: most times the time of C++, least times the speed of NumPy, most ns a sample.
CPP, NUMPY, NS = {3: 1.3, 10: 0.5}, {3: 250, 10: 80}, {50: 8000}
#: Most times the time of Algorithm 2.
RELATIVE = {"InterneuronNICA": 1.5, "TwoLayerNSM": 2.0}
#: Most microseconds of a single sample at d = 3.
SINGLE_US = 30


def networks(sizes, rounds):
    library = build_cpp()
    note = (
        "TwoCompartmentNICA is the paper's Algorithm 2, InterneuronNICA its Algorithm 1. Learning on. Ours has the guards of "
        "appendix C on; the C++ loop (templates, -O3 -march=native, block principal pivoting, a fresh Cholesky factor for every "
        "set) and the line-by-line NumPy + quadprog version (tests/naive.py) have none. All go on from the same weights. Best of "
        f"{rounds} rounds, one thread."
    )
    if library is None:
        note += " No C++ compiler was found (g++ or clang++)."
    rows = [row for d, (n, n_numpy) in sizes.items() for row in _rows(d, n, n_numpy, rounds, library)]
    return table("Networks beside C++ and NumPy", note, rows)


def _rows(d, n, n_numpy, rounds, library):
    X = problem(n, d)
    ours = {name: paper_network(name, d).fit(X) for name in NETWORKS}
    contenders = {name: partial(network.partial_fit, X) for name, network in ours.items()}
    contenders |= {
        f"{name} default": partial(started(default_network(name, d), X).partial_fit, X) for name in SINGLE_LAYER
    }
    contenders |= {f"{name} numpy": in_numpy(network, X[:n_numpy]) for name, network in ours.items()}
    if library is not None and d in CPP_SIZES:
        contenders["TwoCompartmentNICA cpp"] = in_cpp(library, ours["TwoCompartmentNICA"], X)
    best = best_of(contenders, rounds)
    ns = {name: 1e9 * s / (n_numpy if name.endswith("numpy") else n) for name, s in best.items()}
    for name in NETWORKS:
        cpp, times_faster = ns.get(f"{name} cpp"), ns[f"{name} numpy"] / ns[name]
        times_cpp = cpp and ns[name] / cpp
        yield {
            "network": name,
            "d": d,
            "the paper's rule, ns a sample": ns[name],
            "C++, ns": cpp,
            "times C++'s time": times_cpp,
            "NumPy, ns": ns[f"{name} numpy"],
            "times faster than NumPy": times_faster,
            "at defaults, ns": ns.get(f"{name} default"),
            "targets": "; ".join(filter(None, _targets(name, d, ns, times_cpp, times_faster))),
        }


def _targets(name, d, ns, times_cpp, times_faster):
    if name == "TwoCompartmentNICA":
        yield verdict(times_cpp, "<=", CPP.get(d), "x C++")
        yield verdict(times_faster, ">=", NUMPY.get(d), "x NumPy")
        yield verdict(ns[name], "<=", NS.get(d), "ns")
    elif name in RELATIVE:
        yield verdict(ns[name] / ns["TwoCompartmentNICA"], "<=", RELATIVE[name], "x Algorithm 2")
    else:
        yield verdict(ns[name] / min(ns[other] for other in NETWORKS if other != name), "<=", 1, "x the next fastest")


def rates(network, n, kind=""):
    """Return the next n learning rates of a network."""
    eta0, decay, power = (getattr(network, f"{kind}{part}") for part in ("eta0", "decay", "power"))
    return eta0 / (1 + decay * (network.n_samples_seen_ + np.arange(n))) ** power


def in_numpy(network, X):
    """Return a function: the same rule in NumPy, going on from the weights of a network."""
    name = type(network).__name__
    weights = {part: getattr(network, f"{part}_") for part in WEIGHTS[name]}
    eta = rates(network, len(X))
    if name == "TwoCompartmentNICA":
        return lambda: naive.two_compartment(X, weights, eta, tau=network.tau)[0]
    if name == "InterneuronNICA":
        return lambda: naive.interneuron(X, weights, eta)[0]
    if name == "TwoLayerNSM":
        zeta = rates(network, len(X), "whitening_")
        return lambda: naive.two_layer_nsm(X, weights, eta, zeta)[0]
    F = network.whitening_
    return lambda: naive.nonnegative_pca(X, weights, eta, F=F)[0]


def build_cpp():
    """Compile and load two_compartment.cpp; None if there is no C++ compiler, or if it fails."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return None
    source = Path(__file__).with_name("two_compartment.cpp")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "two_compartment.so"
        command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", str(source), "-o", str(library)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return None
        return ctypes.CDLL(str(library))


def in_cpp(library, network, X):
    """Return a function: Algorithm 2 in C++, going on from the weights of a network."""
    n, d = X.shape
    eta = rates(network, n)

    def learn():
        Z, weights = np.empty((n, d)), [np.array(W, order="C") for W in (network.W_xz_, network.W_zz_)]
        X_, eta_, W_xz, W_zz, Z_ = (array.ctypes.data_as(ctypes.c_void_p) for array in (X, eta, *weights, Z))
        getattr(library, f"run_{d}")(X_, eta_, ctypes.c_long(n), ctypes.c_double(network.tau), W_xz, W_zz, Z_)
        return Z

    return learn


def single_samples(rounds, d=3, n=64):
    """Time `learn_one` and `transform_one` of every estimator that learns sample by sample."""
    X = problem(3000, d)
    rows = []
    for name in ("StreamingNICA", *NETWORKS, "MinimumVolumeCone"):
        model = getattr(bionica, name)(d, random_state=0).partial_fit(X)
        dicts = getattr(bionica, name)(d, random_state=0)
        names = [f"mixture {i}" for i in range(d)]
        samples = [dict(zip(names, x, strict=True)) for x in X.tolist()]
        for x in samples:
            dicts.learn_one(x)
        calls = {
            "learn_one": partial(each, model.learn_one, X[:n]),
            "of a list": partial(each, model.learn_one, X[:n].tolist()),
            "of a dict": partial(each, dicts.learn_one, samples[:n]),
            "transform_one": partial(each, model.transform_one, X[:n]),
            "both in turn": partial(each, lambda x, model=model: model.learn_one(x).transform_one(x), X[:n]),
        }
        us = {what: 1e6 * s / n for what, s in best_of(calls, rounds).items()}
        met = [verdict(us[what], "<=", SINGLE_US, f"us {what}") for what in ("learn_one", "transform_one")]
        rows.append({"estimator": name, **us, "targets": "; ".join(met)})
    note = (
        f"Microseconds a call at d = {d}, at defaults. `both in turn`: each sample is learned from and then transformed, which "
        "recomputes the averaged readout. MinimumVolumeCone collects samples and learns from 1,000 at once. Best of "
        f"{rounds} rounds of {n} calls."
    )
    return table("Single samples", note, rows)


def each(function, samples):
    for x in samples:
        function(x)


def start_up():
    """Time imports and the first fit with the cache on disk, each in a process of its own."""
    first_fit = (
        "import numpy as np; X = np.random.default_rng(0).exponential(size=(100, 3)); from bionica import TwoCompartmentNICA; "
        "t = time.perf_counter(); TwoCompartmentNICA(3, random_state=0).fit(X)"
    )
    codes = {
        "import bionica": ("import bionica", 0.6),
        "from sklearn.base import BaseEstimator": ("from sklearn.base import BaseEstimator", None),
        "from bionica import TwoCompartmentNICA": ("from bionica import TwoCompartmentNICA", None),
        "first fit, cache on disk": (first_fit, 1.5),
    }
    rows = []
    for what, (code, target) in codes.items():
        timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
        command = [sys.executable, "-W", "ignore", "-c", timed]
        value = min(float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(5))
        rows.append({"what": what, "seconds": value, "target": verdict(value, "<=", target, "s")})
    return table("Start-up", "Each in a process of its own, the best of five.", rows)


def main():
    arguments = parser(__doc__, "speed")
    arguments.add_argument("--quick", action="store_true", help="smaller sizes, half a minute")
    args = arguments.parse_args()
    sizes, rounds = (QUICK, 2) if args.quick else (FULL, 7)
    measures = [partial(networks, sizes, rounds), partial(single_samples, 50 * rounds), start_up]
    report("speed", "Speed", ["--quick"] * args.quick, measures, args.write)


if __name__ == "__main__":
    main()
