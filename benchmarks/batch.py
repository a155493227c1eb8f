"""BatchNICA beside the plain alternation, FastICA and Picard: held-out error, time and memory.

    python benchmarks/batch.py            # prints the tables; about 15 minutes on two cores
    python benchmarks/batch.py --quick    # eight problems, smaller sizes; under a minute
    python benchmarks/batch.py --write    # also writes benchmarks/results/batch.md

Errors are the paper's permutation error, mean over sources of the mean squared difference, on 5,000 held-out samples of
unit-variance sources. FastICA and Picard know neither the sign nor (after centring) the offset of a source, so each of
their outputs is given the best sign, scale and offset on the held-out samples themselves: a flattering score.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import scipy
import sklearn
from scipy.linalg import polar
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import FastICA

from bionica.estimators.batch_nica import BatchNICA

KINDS = ("sparse-uniform", "exponential", "half-normal", "gamma")
HELD_OUT = 5000
RESULTS = Path(__file__).parent / "results" / "batch.md"


def draw(kind, shape, rng):
    """Nonnegative sources of unit variance."""
    if kind == "sparse-uniform":
        return rng.uniform(0, np.sqrt(48 / 5), shape) * (rng.random(shape) < 0.5)
    if kind == "exponential":
        return rng.exponential(size=shape)
    if kind == "half-normal":
        return np.abs(rng.standard_normal(shape)) / np.sqrt(1 - 2 / np.pi)
    return rng.gamma(0.5, np.sqrt(2), shape)


def error(S, Y, free_scale=False):
    """Permutation error; with `free_scale` each output first gets its best sign, scale and offset."""
    if free_scale:
        r = np.corrcoef(S.T, Y.T)[: S.shape[1], S.shape[1] :]
        cost = S.var(axis=0)[:, None] * (1 - r**2)
    else:
        cost = np.mean(S**2, axis=0)[:, None] + np.mean(Y**2, axis=0) - 2 * S.T @ Y / len(S)
    rows, columns = linear_sum_assignment(cost)
    return float(cost[rows, columns].mean())


def alternation(X, d, rng, max_iter, n_starts=5, trial=300, tol=1e-6):
    """Whiten, then Y = max(Z R', 0), R = polar(Y'Z): the best of five random starts, run to convergence.

    Every start gets `trial` iterations; the one with the lowest J goes on until no entry of R moves by more than `tol`.
    """
    w, U = np.linalg.eigh(np.cov(X.T, bias=True))
    F = (U[:, ::-1][:, :d] / np.sqrt(w[::-1][:d])).T
    Z = X @ F.T
    Y = np.empty_like(Z)

    def run(R, n_iter):
        for i in range(n_iter):
            np.matmul(Z, R.T, out=Y)
            np.maximum(Y, 0, out=Y)
            old, R = R, polar(Y.T @ Z)[0]
            if np.abs(R - old).max() < tol:
                return R, i + 1, True
        return R, n_iter, False

    def objective(R):
        return np.sum(np.minimum(Z @ R.T, 0) ** 2) / (2 * len(Z))

    starts = [run(np.linalg.qr(rng.standard_normal((d, d)))[0], trial) for _ in range(n_starts)]
    R, n_iter, converged = min(starts, key=lambda start: objective(start[0]))
    if not converged:
        R, more, converged = run(R, max_iter - n_iter)
        n_iter += more
    return R @ F, objective(R), n_iter, converged


def timed(function, *arguments):
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def run_fastica(X, d):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FastICA(d, whiten="unit-variance", random_state=0, max_iter=500).fit(X)


def run_picard(X, d):
    import picard  # not needed by those who import this module for its problems

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        K, W, _ = picard.picard(X.T, n_components=d, ortho=True, random_state=0, max_iter=500)
    return W @ K


def problems(quick):
    """(kind, d, k): forty of them, every kind at five sizes, square and tall."""
    sizes = (3, 10) if quick else (3, 5, 10, 20, 30)
    ks = (1,) if quick else (1, 2)
    return [(kind, d, m * d) for kind in KINDS for d in sizes for m in ks]


def accuracy(quick, max_iter):
    """The table of forty problems, and whether each is within 1.3 of the alternation."""
    columns = "sources d k BatchNICA alternation ratio FastICA Picard s s/alt. s/FastICA s/Picard iter iter/alt. starts warned"
    yield f"| {' | '.join(columns.split())} |".replace("s/", "s, ").replace("iter/", "iter, ")
    yield "|" + "---|" * len(columns.split())
    n_samples, ratios, unconverged, elsewhere, unreported = 20_000, [], 0, 0, 0
    for index, (kind, d, k) in enumerate(problems(quick)):
        rng = np.random.default_rng(1000 + index)
        S = draw(kind, (n_samples + HELD_OUT, d), rng)
        X = S @ rng.standard_normal((d, k))
        train, test, truth = X[:n_samples], X[n_samples:], S[n_samples:]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            nica, t_nica = timed(BatchNICA(d, random_state=0).fit, train)
        (W, J, n_iter, converged), t_plain = timed(alternation, train, d, rng, max_iter)
        fast, t_fast = timed(run_fastica, train, d)
        P, t_picard = timed(run_picard, train, d)
        ours, plain = error(truth, nica.transform(test)), error(truth, np.maximum(test @ W.T, 0))
        ratios.append(ours / plain)
        unconverged += not converged
        # A local minimum: other sources than the alternation's, at a higher J. (J alone says little where it is nearly 0.)
        ours_J = np.sum(np.minimum(train @ nica.components_.T, 0) ** 2) / (2 * n_samples)
        same = np.corrcoef((test @ nica.components_.T).T, (test @ W.T).T)[:d, d:].max(axis=1).min() > 0.99
        elsewhere += not same
        unreported += not same and ours_J > 1.05 * J and not caught
        yield (
            f"| {kind} | {d} | {k} | {ours:.2e} | {plain:.2e}{'' if converged else ' *'} | {ratios[-1]:.3f} "
            f"| {error(truth, fast.transform(test), True):.1e} | {error(truth, test @ P.T, True):.1e} "
            f"| {t_nica:.3f} | {t_plain:.1f} | {t_fast:.3f} | {t_picard:.3f} | {nica.n_iter_} | {n_iter} "
            f"| {nica.n_restarts_ + 1} | {'yes' if caught else 'no'} |"
        )
    yield ""
    yield (
        f"Largest ratio {max(ratios):.3f} (target 1.3), {sum(r > 1.3 for r in ratios)} of {len(ratios)} above it; median "
        f"{np.median(ratios):.3f}. Problems where an output of BatchNICA correlates at most 0.99 with every output of the "
        f"alternation: {elsewhere}; of these at a J more than 5 % higher and without a warning: {unreported}."
    )
    if unconverged:
        yield (
            f"\\* {unconverged} of {len(ratios)}: the alternation was stopped after {max_iter} iterations, its steps still "
            "above 1e-6."
        )


def speed(quick):
    """Time at d = 10, T = 1e5 in one process, best of several, interleaved."""
    d, n_samples, repeat = 10, 20_000 if quick else 100_000, 3 if quick else 5
    yield "| sources | BatchNICA s | FastICA s | Picard-O s | BatchNICA / FastICA | error | error FastICA | error Picard |"
    yield "|---|---|---|---|---|---|---|---|"
    for kind in KINDS:
        rng = np.random.default_rng(7)
        S = draw(kind, (n_samples + HELD_OUT, d), rng)
        X = S @ rng.standard_normal((d, d))
        train, test, truth = X[:n_samples], X[n_samples:], S[n_samples:]
        times = {"ours": np.inf, "fast": np.inf, "picard": np.inf}
        for _ in range(repeat):
            nica, t = timed(BatchNICA(d, random_state=0).fit, train)
            times["ours"] = min(times["ours"], t)
            fast, t = timed(run_fastica, train, d)
            times["fast"] = min(times["fast"], t)
            P, t = timed(run_picard, train, d)
            times["picard"] = min(times["picard"], t)
        yield (
            f"| {kind} | {times['ours']:.3f} | {times['fast']:.3f} | {times['picard']:.3f} | {times['ours'] / times['fast']:.2f} "
            f"| {error(truth, nica.transform(test)):.1e} | {error(truth, fast.transform(test), True):.1e} "
            f"| {error(truth, test @ P.T, True):.1e} |"
        )


def large(kind, d, n_samples):
    """One row of the table of large problems; runs in a process of its own, whose peak memory it reports."""
    rng = np.random.default_rng(3)
    X = np.empty((n_samples, d))
    A = rng.standard_normal((d, d))
    for rows in np.array_split(np.arange(n_samples), max(1, n_samples // 1000)):
        X[rows] = draw(kind, (len(rows), d), rng) @ A
    held_out = draw(kind, (HELD_OUT, d), rng)
    before = _resident()
    nica = BatchNICA(d, random_state=0)
    _, seconds = timed(nica.fit_transform, X)
    added = (_peak() - before) / X.nbytes
    score = error(held_out, nica.transform(held_out @ A))
    return (
        f"| {kind} | {d} | {n_samples} | {seconds:.1f} | {1 + added:.2f} | {score:.1e} | {nica.negativity_:.1e} "
        f"| {nica.n_iter_} | {nica.n_restarts_ + 1} |"
    )


def _status(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def _resident():
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making the data
    return _status("VmRSS")


def _peak():
    return _status("VmHWM")


def memory(quick):
    """d = 100, T = 1e5: time, peak memory in copies of X (X included), error."""
    d, n_samples = (30, 20_000) if quick else (100, 100_000)
    yield "| sources | d | T | s | copies of X | error | negativity | iterations | starts |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for kind in KINDS[:2]:
        command = [sys.executable, __file__, "--large", kind, str(d), str(n_samples)]
        yield subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def report(quick, max_iter):
    flag = " --quick" if quick else ""
    yield "# BatchNICA, measured"
    yield ""
    yield f"Printed by `python benchmarks/batch.py{flag}`."
    yield f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__},"
    yield f"SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}, python-picard {version('python-picard')}."
    yield "The machine was shared: read times as ratios within a row."
    sections = (
        (
            "Forty random problems, T = 20,000",
            "Held-out error. The alternation is the plain one: five random starts of 300 iterations each, the best run to "
            "convergence; FastICA and Picard are scored after the best sign, scale and offset of each output.",
            accuracy(quick, max_iter),
        ),
        ("Time beside FastICA", "d = 10, one process, best of several, interleaved.", speed(quick)),
        (
            "A large problem",
            "`fit_transform` in a process of its own; peak resident memory, X itself included.",
            memory(quick),
        ),
    )
    for title, text, lines in sections:
        yield from ("", f"## {title}", "", text, "")
        yield from lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller problems")
    parser.add_argument(
        "--write", action="store_true", help=f"write {RESULTS.relative_to(Path(__file__).parent.parent)}"
    )
    parser.add_argument("--max-iter", type=int, default=5000, help="of the plain alternation")
    parser.add_argument("--large", nargs=3, metavar=("KIND", "D", "T"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.large:
        kind, d, n_samples = options.large
        print(large(kind, int(d), int(n_samples)))
        return
    lines = []
    for line in report(options.quick, options.max_iter):
        print(line, flush=True)
        lines.append(line)
    if options.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
