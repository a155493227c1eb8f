"""The table of `diagnose`: spoiled and sound problems, what it says and what it should say."""

import warnings

import numpy as np
from joblib import delayed

import common
from bionica import DivergenceError
from bionica.metrics import match_sources

from . import diagnosis_sound, diagnosis_spoiled

RIGHT = 0.97  # correlation of the worst source, above which a fit is right


MODULES = {"spoiled": diagnosis_spoiled, "sound": diagnosis_sound}


def diagnosing(seeds, parallel):
    """Return both tables and the summary."""
    cases = [(group, i, seed) for group, of in MODULES.items() for i in range(len(of.problems())) for seed in seeds]
    found = dict(zip(cases, parallel(delayed(tried)(*case) for case in cases), strict=True))
    results = {
        group: [(problem, [found[group, i, seed] for seed in seeds]) for i, problem in enumerate(of.problems())]
        for group, of in MODULES.items()
    }
    note = (
        f"{len(seeds)} draws of each problem. Worst: lowest correlation of a source with its output (of an output with its source, "
        "if there are fewer outputs), median of the draws. Right: how often `ok` is true. Said: the first sentence of the first "
        "draw. "
    )
    meant = 'Named: how often the sentences have the words of "should say".'
    parts = [
        common.table(
            "Diagnosing spoiled problems", note + meant, [_spoiled_row(*found) for found in results["spoiled"]]
        ),
        common.table("Diagnosing sound problems", note.strip(), [_sound_row(*found) for found in results["sound"]]),
        _summary(results),
    ]
    return "\n".join(parts)


def tried(group, index, seed):
    """Return the worst correlation, `ok`, the sentences and whether they name what is wrong. A fit may be refused."""
    problem = MODULES[group].problems()[index]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            case = problem.make(np.random.default_rng(seed))
        except (ValueError, DivergenceError) as error:
            return 0.0, False, [f"refused: {error}"], True
        found = case.estimator.diagnose(case.X)
    named = any(words in str(found) for words in problem.expect)
    return worst(case.S, case.outputs()), found.ok, found.sentences, named


def worst(S, Y):
    """Lowest absolute correlation of a source with its output, or of an output with its source."""
    few, many = (S, Y) if S.shape[1] <= Y.shape[1] else (Y, S)
    return float(np.abs(match_sources(few, many, by="correlation").correlation).min())


def is_spoiled(problem, correlation):
    return not problem.visible or correlation <= RIGHT


def _spoiled_row(problem, draws):
    row = {"spoiled problem": problem.name, "should say": " or ".join(f'"{words}"' for words in problem.expect)}
    return (
        row | _common(draws) | {"named": f"{sum(named for *_, named in draws)} of {len(draws)}", "said": _said(draws)}
    )


def _sound_row(problem, draws):
    return {"sound problem": problem.name} | _common(draws) | {"said": _said(draws)}


def _common(draws):
    median = float(np.median([correlation for correlation, *_ in draws]))
    return {"worst": f"{median:.3f}", "right": f"{sum(ok for _, ok, *_ in draws)} of {len(draws)}"}


def _said(draws):
    sentence = draws[0][2][0].replace("|", "/")
    return sentence if len(sentence) < 160 else sentence[:157].rstrip() + "..."


def _summary(results):
    rows = []
    for group, called, answer in (("spoiled", "right", True), ("sound", "wrong", False)):
        draws = [(problem, *draw) for problem, found in results[group] for draw in found]
        # A draw that is not what its group says (a spoiled problem that comes out right) may be called either.
        meant = [ok for problem, r, ok, *_ in draws if is_spoiled(problem, r) == (group == "spoiled")]
        rows.append(
            {
                "": f"{group}, called {called}",
                "draws": f"{sum(ok == answer for ok in meant)} of {len(meant)}",
                "per 30": 30 * sum(ok == answer for ok in meant) / max(len(meant), 1),
                "left out": len(draws) - len(meant),
            }
        )
    note = (
        f"Left out: draws of spoiled problems whose worst source correlates by more than {RIGHT} all the same, and of sound ones "
        "with less. Either answer is accepted for them."
    )
    return common.table("How often `diagnose` is wrong", note, rows)
