"""Instructions per sample of every network, counted by valgrind: what a change costs, without a clock.

    python benchmarks/instructions.py            # counts, and compares with benchmarks/instructions.json
    python benchmarks/instructions.py --write    # counts, and records

The loops are compiled for one fixed processor (Nehalem, whose instructions every valgrind knows), so that the counts do not
depend on the machine. They go on from a network that has learned already. Callgrind starts a new part of its profile wherever
getppid is called. A count is the difference between 200 samples and 100 samples, divided by 100, so that costs which do not depend
on the number of samples cancel.
"""

import argparse
import gc
import json
import os
import pickle
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import NETWORKS, SINGLE_LAYER, default_network, paper_network, problem, started

RECORD = Path(__file__).with_name("instructions.json")
#: Relative to the recorded count. More is slower, and less is a gain to be recorded.
TOLERANCE = 0.05
SIZES = (3, 10, 50)
N, LEARNED = 100, 2000  # the spectrum is inspected every 100 samples: N is a multiple of it
COUNTED = Path(__file__).parents[1] / "src"


def cases():
    """Return name -> network, d and whether it has our defaults."""
    kinds = [
        (name, kind) for name in NETWORKS for kind in ("paper", "default") if kind == "paper" or name in SINGLE_LAYER
    ]
    return {f"{name} {kind} d={d}": (name, kind, d) for name, kind in kinds for d in SIZES}


def prepare(path, networks):
    """Compile the loops, and store the arguments of `run` for the next 3 N samples of every case of these networks."""
    from bionica.estimators import _streaming as online

    run, arguments = online.run, []

    def record(*args):
        arguments.append(pickle.dumps(args))
        return run(*args)

    stored = {}
    for case, (name, kind, d) in cases().items():
        if name not in networks:
            continue
        X = problem(LEARNED + 3 * N, d)
        network = paper_network(name, d) if kind == "paper" else default_network(name, d)
        started(network, X[:LEARNED])
        online.run = record
        network.partial_fit(X[LEARNED:])
        online.run = run
        (stored[case],) = arguments
        arguments.clear()
    Path(path).write_bytes(pickle.dumps(stored))


def replay(path):
    """Run only the loops, each for N samples and for 2 N. This runs under valgrind."""
    from bionica.engines.loop import run

    gc.disable()  # a collection in one of the two parts would be counted
    for data in pickle.loads(Path(path).read_bytes()).values():
        state, params, X, rates, Y = pickle.loads(data)
        for _ in range(3):  # loads the compiled loop, and lets Python specialise the code around it
            run(pickle.loads(data)[0], params, X[:N], rates[:N], Y)
        for part in (slice(0, N), slice(N, 3 * N)):
            os.getppid()
            run(state, params, X[part], rates[part], Y)
            os.getppid()


def obstacle():
    """Return why nothing can be counted here; None if it can."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    return None if platform.machine() == "x86_64" else "the counts are those of an x86_64 processor"


def count():
    """Return case -> instructions per sample. Two processes at once, because most of the time is spent compiling and loading."""
    with ThreadPoolExecutor(2) as pool:
        halves = pool.map(_count, (NETWORKS[0::2], NETWORKS[1::2]))
        counts = {name: value for half in halves for name, value in half.items()}
    return {name: counts[name] for name in cases()}


def _count(networks):
    environment = os.environ | {
        "NUMBA_CPU_NAME": "nehalem",
        "NUMBA_CPU_FEATURES": "+sse4.2",
        "OPENBLAS_CORETYPE": "Nehalem",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": str(COUNTED),
    }
    environment.pop("NUMBA_DISABLE_JIT", None)
    script = [sys.executable, __file__]
    with tempfile.TemporaryDirectory() as folder:
        environment["NUMBA_CACHE_DIR"] = str(Path(folder) / "cache")
        arguments, profile = Path(folder) / "arguments.pickle", Path(folder) / "profile"
        _call([*script, "--prepare", str(arguments), *networks], environment)
        callgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", "--dump-before=getppid"]
        _call([*callgrind, *script, "--replay", str(arguments)], environment)
        names = list(pickle.loads(arguments.read_bytes()))
        parts = sorted(Path(folder).glob("profile.*"), key=lambda path: int(path.suffix[1:]))
        totals = [_total(path) for path in parts]
    # Four parts to a case, each ended by a mark: before, N samples, between, 2 N samples.
    if len(totals) != 4 * len(names):
        raise RuntimeError(f"callgrind wrote {len(totals)} parts, not {4 * len(names)}: does it know getppid by name?")
    return {name: round((totals[4 * i + 3] - totals[4 * i + 1]) / N, 1) for i, name in enumerate(names)}


def _call(command, environment):
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")


def _total(path):
    return int(re.search(r"^(?:totals|summary): (\d+)", path.read_text(), re.MULTILINE)[1])


def versions():
    import numba

    return f"numba {numba.__version__}"


def differences(counts, record):
    """Return a sentence for every count that is not the recorded one, and what to do."""
    found = []
    for name in sorted(counts.keys() | record["counts"].keys()):
        now, before = counts.get(name), record["counts"].get(name)
        if now is None or before is None:
            found.append(f"{name}: {'no longer counted' if now is None else 'not recorded'}")
        elif abs(now / before - 1) > TOLERANCE:
            found.append(
                f"{name}: {now:,.0f} instructions per sample, recorded {before:,.0f} ({now / before - 1:+.1%})"
            )
    if found:
        found.append(
            f"More is slower: look at the kernel. If it has to be, or if it is fewer, record: python benchmarks/instructions.py "
            f"--write. (Recorded with {record['versions']}, now {versions()}.)"
        )
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="record the counts in benchmarks/instructions.json")
    parser.add_argument("--prepare", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--replay", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.prepare or args.replay:
        prepare(args.prepare[0], args.prepare[1:]) if args.prepare else replay(args.replay)
        return
    if obstacle():
        sys.exit(f"Error: {obstacle()}")
    counts = count()
    for name, value in counts.items():
        print(f"{name:32} {value:12,.0f}")
    if args.write:
        RECORD.write_text(json.dumps({"versions": versions(), "counts": counts}, indent=1) + "\n")
    elif found := differences(counts, json.loads(RECORD.read_text())):
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
