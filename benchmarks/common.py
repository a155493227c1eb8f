"""What the benchmarks share: problems, networks, the clock, tables.

Only public names of bionica are used here, so that another checkout can be measured with it.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

import bionica

RESULTS = Path(__file__).parent / "results"

#: Network -> its weights.
WEIGHTS = {
    "TwoCompartmentNICA": ("W_xz", "W_zz"),
    "InterneuronNICA": ("W_xy", "W_yn", "W_ny"),
    "TwoLayerNSM": ("W_xh", "W_hg", "W_hy", "W_yy"),
    "NonnegativePCA": ("W",),
}
NETWORKS = tuple(WEIGHTS)
#: Those whose defaults are not the paper's rule.
SINGLE_LAYER = NETWORKS[:2]
DECAY, TAU = 1e-3, 0.8


def problem(n, d, k=None):
    """Return n mixtures of d sparse uniform sources by a k x d matrix with orthonormal columns."""
    rng = np.random.default_rng(0)
    S = bionica.datasets.sparse_uniform(n, d, rng=rng)
    return np.ascontiguousarray(S @ np.linalg.qr(rng.standard_normal((k or d, d)))[0].T)


def paper_network(name, d, **options):
    """Return a network with the paper's rule. With 200 outputs Algorithm 1 diverges at eta0 = 0.01."""
    options |= {"precondition": None, "average": False, "init": "random"} if name in SINGLE_LAYER else {}
    options |= {"tau": TAU} if name == "TwoCompartmentNICA" else {}
    return getattr(bionica, name)(d, eta0=0.01 if d < 100 else 0.001, decay=DECAY, random_state=0, **options)


def default_network(name, d):
    """Return a network at its defaults (natural steps, averaged weights)."""
    return getattr(bionica, name)(d, init="random", random_state=0)


def started(network, X):
    """Let a network learn from X until it has the samples that it starts with."""
    network.fit(X)
    for _ in range((99 + 20 * X.shape[1]) // len(X)):
        network.partial_fit(X)
    return network


def seconds(function):
    """Return the time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def best_of(contenders, rounds):
    """Return the least seconds of each contender. All run in every round, so that other load slows them alike."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, function in contenders.items():
            best[name] = min(best[name], seconds(function))
    return best


def verdict(value, sign, limit, unit):
    """Return a target and whether it is met; nothing if there is no value or no target."""
    if value is None or limit is None:
        return ""
    met = value <= limit if sign == "<=" else value >= limit
    return f"{sign} {limit:g} {unit}: {'met' if met else 'MISSED'}"


def table(title, note, rows):
    """Return rows (dicts from heading to value) as a markdown table."""
    lines = [f"## {title}", "", note, "", f"| {' | '.join(rows[0])} |", "|" + "---|" * len(rows[0])]
    return "\n".join([*lines, *(f"| {' | '.join(map(_word, row.values()))} |" for row in rows), ""])


def _word(value):
    if value is None:
        return ""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def setting():
    """Return machine and versions in a line."""
    from bionica.sweep.run import machine, versions

    return f"{machine()}; {versions()}"


def parser(doc, name):
    """Return a parser of the command line with --write."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--write", action="store_true", help=f"write benchmarks/results/{name}.md")
    return made


def report(name, title, options, measures, write):
    """Print the tables that the functions `measures` return, with one thread of BLAS; write them to results/NAME.md."""
    from threadpoolctl import threadpool_limits

    command = " ".join(["python", f"benchmarks/{name}.py", *options])
    parts = [f"# {title}\n\n`{command}`\n\n{setting()}.\n"]
    print(parts[0])
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # streams too short to learn from are long enough to be timed
        for measure in measures:
            parts.append(measure())
            print(parts[-1], flush=True)
    if write:
        (RESULTS / f"{name}.md").write_text("\n".join(parts))
