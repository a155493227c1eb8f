"""What `bionica separate` gives at its defaults, beside NMF, FastICA and Picard, which are told the number of sources."""

import time
import warnings

import numpy as np
import picard
from joblib import delayed
from sklearn.decomposition import NMF, FastICA

import common
from bionica.estimators._choice import fit_better
from bionica.estimators._diagnosis_closure import closed_sources
from bionica.estimators.network import spectrum
from bionica.metrics import match_sources

from .comparison_problems import problems

NMF_SETTINGS = ({"solver": "cd"}, {"solver": "mu"}, {"solver": "mu", "beta_loss": "kullback-leibler"})
WITHIN = 0.005  # of the first


def nmf(X, d, seed):
    """Return the outputs of every setting. Which of them is best is decided with the true sources."""
    X = np.maximum(X, 0)
    return [NMF(d, init="nndsvda", max_iter=1000, random_state=seed, **s).fit_transform(X) for s in NMF_SETTINGS]


def fast_ica(X, d, seed):
    ica = FastICA(d, whiten="unit-variance", max_iter=1000, random_state=seed).fit(X)
    return [_nonnegative(X @ ica.components_.T)]


def picard_o(X, d, seed):
    K, W, _ = picard.picard(X.T, n_components=d, ortho=True, random_state=seed, max_iter=1000)
    return [_nonnegative(X @ (W @ K).T)]


def _nonnegative(Y):
    """Outputs of ICA, whose sign is arbitrary: that of their mean, clipped at 0."""
    return np.maximum(Y * np.sign(Y.mean(axis=0)), 0)


PEERS = {"NMF": nmf, "FastICA": fast_ica, "Picard": picard_o}


def separated(X, seed):
    """What `bionica separate --method auto --sources auto` does with mixtures in memory: the count, and the estimator kept."""
    counted = max(1, spectrum(X).n_sources)
    counted = max(counted, closed_sources(X[:: max(1, -(-len(X) // 1000))], counted))
    return fit_better(X, counted, seed)


def worst_correlation(S, Y):
    """The correlation of the source that was found worst; 0 if there are fewer outputs than sources."""
    if Y.shape[1] < S.shape[1]:
        return 0.0
    return float(np.abs(match_sources(S, Y, by="correlation").correlation).min())


def compared(problem, seed):
    """Return correlations of all methods, and what bionica counted, kept and said."""
    X, S = problem.make(np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        choice = separated(X, seed)
        row = {"seconds": time.perf_counter() - start}
        row |= {"bionica": worst_correlation(S, choice.kept.transform(X)), "counted": len(choice.kept.components_)}
        row |= {"kept": type(choice.kept).__name__, "why": choice.why, "ok": choice.kept.diagnose(X).ok}
        for name, fit in PEERS.items():
            row[name] = max(worst_correlation(S, Y) for Y in fit(X, problem.d, seed))
    return row


def comparison(seeds, parallel, some_problems=None):
    """Return the table."""
    asked = some_problems or problems()
    found = parallel(delayed(compared)(problem, seed) for problem in asked for seed in seeds)
    rows = []
    for i, problem in enumerate(asked):
        some = found[i * len(seeds) : (i + 1) * len(seeds)]
        medians = {name: float(np.median([one[name] for one in some])) for name in ("bionica", *PEERS)}
        best = max(medians.values())
        counts = [one["counted"] for one in some]
        kept = [one["kept"] for one in some]
        row = {"problem": problem.name, "true": problem.d, "counted": " ".join(map(str, dict.fromkeys(counts)))}
        for name, median in medians.items():
            word = f"{median:.3f} ({min(one[name] for one in some):.3f})"
            row[name] = f"**{word}**" if median >= best - WITHIN else word
        row["kept"] = ", ".join(f"{name} {kept.count(name)}" for name in dict.fromkeys(kept))
        row["ok"] = f"{sum(one['ok'] for one in some)} of {len(some)}"
        row["ok, but below 0.9"] = sum(one["ok"] and one["bionica"] < 0.9 for one in some)
        rows.append(row | {"s": max(one["seconds"] for one in some)})
    note = (
        f"Correlation of the source that was found worst, median and (worst) of {len(seeds)} draws. bionica: what `bionica "
        "separate` gives, which counts the sources and chooses the method. The others are told the number (a background "
        f"counts as one); NMF is the best of {len(NMF_SETTINGS)} settings, chosen with the true sources. Bold: within {WITHIN} "
        "of the first. ok: what `diagnose` says. s: the longest time of bionica."
    )
    return common.table("Realistic problems", note, rows)
