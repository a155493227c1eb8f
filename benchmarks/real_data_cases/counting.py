"""How many sources bionica counts, beside what other methods count."""

import time
import warnings

import numpy as np
from joblib import delayed

import common

from .counting_methods import METHODS, MOST_CHANNELS
from .counting_problems import problems

OURS = tuple(METHODS)[-2:]


def counted(problem, seed):
    """Return the count of every method (None if it was not run), and its seconds."""
    counts, seconds = dict.fromkeys(METHODS), dict.fromkeys(METHODS, 0.0)
    X = problem.make(np.random.default_rng(seed))
    for name, method in METHODS.items():
        if X.shape[1] <= MOST_CHANNELS.get(name, np.inf):
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                counts[name] = method(X, np.random.default_rng(seed))
            seconds[name] = time.perf_counter() - start
    return counts, seconds


def truth(problem, method):
    return problem.d if method == OURS[1] else problem.varying


def counting(seeds, parallel):
    """Return the table of counts, and how often each method is right."""
    found = parallel(delayed(counted)(problem, seed) for problem in problems() for seed in seeds)
    results = []
    for i, problem in enumerate(problems()):
        counts, seconds = zip(*found[i * len(seeds) : (i + 1) * len(seeds)], strict=True)
        counts = {name: [one[name] for one in counts] for name in METHODS}
        results.append((problem, counts, {name: max(one[name] for one in seconds) for name in METHODS}))
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
        f"Counts of {len(seeds)} draws, one number if all agree; bold if all are right. In brackets: sources that the "
        "covariance shows, which all methods but the last count. s: the longest time of bionica's two columns."
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
