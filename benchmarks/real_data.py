"""Data as users bring them: how many sources they have, beside what other methods count, and what `diagnose` says.

python benchmarks/real_data.py                 # prints the tables; about 7 minutes
python benchmarks/real_data.py --tables diagnosis
python benchmarks/real_data.py --seeds 1       # one draw of each problem
python benchmarks/real_data.py --write         # also writes benchmarks/results/real_data.md
"""

import time
from functools import partial

import numpy as np

import common
from real_data_cases.counting_methods import METHODS, MOST_CHANNELS
from real_data_cases.counting_problems import problems
from real_data_cases.diagnosis_table import diagnosing

SEED0 = 8000  # drawn once, after the method was fixed; it was developed on other seeds
OURS = tuple(METHODS)[-2:]


def counted(problem, n_seeds, methods=METHODS):
    """Return the counts of every method, one for each seed (None if it was not run), and the longest seconds."""
    counts, seconds = {name: [] for name in methods}, dict.fromkeys(methods, 0.0)
    for seed in range(SEED0, SEED0 + n_seeds):
        X = problem.make(np.random.default_rng(seed))
        for name, method in methods.items():
            if X.shape[1] > MOST_CHANNELS.get(name, np.inf):
                counts[name].append(None)
                continue
            start = time.perf_counter()
            counts[name].append(method(X, np.random.default_rng(seed)))
            seconds[name] = max(seconds[name], time.perf_counter() - start)
    return counts, seconds


def truth(problem, method):
    return problem.d if method == OURS[1] else problem.varying


def counting(n_seeds):
    """Return the table of counts, and how often each method is right."""
    results = [(problem, *counted(problem, n_seeds)) for problem in problems()]
    rows = [
        {
            "": problem.group,
            "problem": problem.name,
            "true": str(problem.d) if problem.d == problem.varying else f"{problem.d} ({problem.varying})",
            **{name: _word(counts[name], truth(problem, name)) for name in METHODS},
            "s": max(seconds[name] for name in OURS),
        }
        for problem, counts, seconds in results
    ]
    note = (
        f"Counts of {n_seeds} draws, one number if all agree; bold if all are right. In brackets: sources that the covariance "
        "shows, which all methods but the last count. s: the longest time of bionica's two columns."
    )
    parts = [common.table("Counting sources", note, rows), _summary(results)]
    return "\n".join(parts)


def _summary(results):
    rows = []
    for group in dict.fromkeys(problem.group for problem, *_ in results):
        row, some = {"": group}, [result for result in results if result[0].group == group]
        for name in METHODS:
            right = [c == truth(problem, name) for problem, counts, _ in some for c in counts[name] if c is not None]
            row[name] = f"{sum(right)} of {len(right)}" if right else ""
        rows.append(row)
    rows.append({"": "longest time, s"} | {name: max(seconds[name] for *_, seconds in results) for name in METHODS})
    return common.table("Counts that are right", "Of all draws.", rows)


def _word(counts, true):
    if None in counts:
        return ""
    word = str(counts[0]) if len(set(counts)) == 1 else " ".join(map(str, counts))
    return f"**{word}**" if set(counts) == {true} else word


TABLES = {"counting": counting, "diagnosis": diagnosing}


def main():
    parser = common.parser(__doc__, "real_data")
    parser.add_argument("--seeds", type=int, default=3, help="draws of each problem (default: %(default)s)")
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES), default=tuple(TABLES), help="default: all")
    args = parser.parse_args()
    options = [] if args.seeds == 3 else ["--seeds", str(args.seeds)]
    options += [] if len(args.tables) == len(TABLES) else ["--tables", *args.tables]
    measures = [partial(TABLES[name], args.seeds) for name in args.tables]
    common.report("real_data", "Data as users bring them", options, measures, args.write)


if __name__ == "__main__":
    main()
