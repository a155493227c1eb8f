"""What benchmarks/correlated.py measures: a function for each table, called with a method and the arguments of one case.

SINR is measured on 5,000 samples that were not learned from where samples are drawn independently, and on all samples for
images, spectra and streams that are read in their natural order.
"""

import time
from functools import partial

import numpy as np

from bionica.datasets import copula_uniform, paper_mixing
from bionica.estimators._choice import choose
from bionica.metrics import match_sources, permutation_error, sinr
from common import best_of
from streams.measures import HELD_OUT, resident_megabytes

from . import sources
from .methods import BATCH, CONE, KNOWS_A, PEERS, available, fitted, mixed, outputs, passed, separated

#: Beyond this a difference of SINR does not count: errors are of the size of rounding, or no one can see them.
MOST_DB = 60.0


def problem(method, kind, d, k, snr_db, T, seed):
    """Return sources, mixtures and A, with 5,000 more samples than T."""
    rng = np.random.default_rng([seed, d])
    S = sources.synthetic(kind, T + HELD_OUT, d, rng)
    return (S, *mixed(method, S, k, snr_db, rng))


def synthetic(method, kind, d, k, snr_db, T, seed):
    S, X, A = problem(method, kind, d, k, snr_db, T, seed)
    return {"sinr": sinr(S[T:], separated(method, d, X[:T], A, X[T:], seed))}


def wall(method, kind, d, snr_db, factor, T, seed):
    """Noise of standard deviation 1 in every channel, told to the estimator as `factor`; None: not told."""
    S, X, A = problem(method, kind, d, 2 * d, None, T, seed)
    size = np.sqrt(np.mean(X**2, axis=0)) * 10 ** (-snr_db / 20)
    X, A = X / size, A / size[:, None]
    X += np.random.default_rng([seed, d, snr_db]).standard_normal(X.shape)
    told = {} if factor is None else {"noise": float(factor)}
    if method != CONE or factor is not None:
        return {"sinr": sinr(S[T:], separated(method, d, X[:T], A, X[T:], seed, **told))}
    cone = fitted(method, d, X[:T], seed)
    return {"sinr": sinr(S[T:], cone.transform(X[T:])), "wall": np.ravel(cone.wall_).tolist()}


def images(method, images, matrix, k, snr_db, seed, size=None):
    """Error and SINR over all pixels; outputs at unit variance."""
    S = sources.images(images, size)
    A = paper_mixing("images") if matrix == "paper's" else None
    X, A = mixed(method, S, k, snr_db, np.random.default_rng(seed), A)
    Y = separated(method, 3, X, A, X, seed)
    r = np.corrcoef(S.T)[np.triu_indices(3, 1)]
    scale = np.where(Y.std(axis=0) > 0, Y.std(axis=0), 1)
    return {"error": permutation_error(S, Y / scale), "sinr": sinr(S, Y), "correlations": r.tolist()}


def spectra(sources_of, noise, T, seed):
    """Return mixtures with noise, sources and A."""
    rng = np.random.default_rng(seed)
    X, S, A = sources.chemistry(sources_of, T, rng)
    if noise == "Poisson 20 dB":
        # Counts c x have the variance c x: their ratio of powers, c <x^2> / <x>, is to be 100.
        counts = 100 * X.mean() / np.mean(X**2)
        return rng.poisson(counts * X).astype(float), S, counts * A
    return X + rng.standard_normal(X.shape) * np.sqrt(np.mean(X**2)) * 10 ** (-float(noise.split()[0]) / 20), S, A


def chemistry(method, sources_of, noise, T, seed):
    """Correlation of the worst source with its output."""
    X, S, A = spectra(sources_of, noise, T, seed)
    options = {"noise": "poisson"} if method == CONE and noise.startswith("Poisson") else {}
    Y = separated(method, A.shape[1], X, A, X, seed, **options)
    return {"worst": float(np.abs(match_sources(S, Y, by="correlation").correlation).min())}


def real(method, data, seed):
    """Energy of the negative outputs before clipping and of what the clipped outputs do not explain, as shares.

    The second is that of the best mixing matrix for these outputs (least squares), the same for all methods.
    """
    _, read, d = sources.REAL[data]
    X, reference = read()
    estimator = fitted(method, d, X, seed)
    Y = outputs(method, estimator, X)
    linear = Y if method == "NMF" else X @ estimator.components_.T
    if method == "FastICA":
        linear = linear * np.sign(linear.mean(axis=0))
    residual = X - Y @ np.linalg.lstsq(Y, X)[0]
    found = {
        "n_sources": d,
        "negativity": float(np.sum(np.minimum(linear, 0) ** 2) / np.sum(linear**2)),
        "unexplained": float(np.sum(residual**2) / np.sum(X**2)),
        "unexplained_variance": float(np.sum(residual**2) / np.sum((X - X.mean(axis=0)) ** 2)),
    }
    if reference is not None:
        found["glucose"] = float(np.corrcoef(reference, Y.T)[0, 1:].max())
    return found


def stream(method, rho, snr_db, T, seed, d=5):
    """One pass over independent samples, and the batch method on the same samples."""
    S, X, A = problem(method, f"copula {rho}", d, 2 * d, snr_db, T, seed)
    if method == KNOWS_A:
        return {"sinr": sinr(S[T:], separated(method, d, X, A, X[T:], seed))}
    batch = separated(CONE if method == CONE else BATCH, d, X[:T], A, X[T:], seed)
    return {"sinr": sinr(S[T:], passed(method, d, X[:T], seed).transform(X[T:])), "batch": sinr(S[T:], batch)}


def stream_images(method, images, k, order, seed, size=None):
    """One pass over the pixels."""
    rng = np.random.default_rng(seed)
    S = sources.images(images, size)
    X, _ = mixed(method, S, k, None, rng)
    rows = rng.permutation(len(X)) if order == "random" else np.arange(len(X))
    batch = fitted(CONE if method == CONE else BATCH, 3, X, seed)
    return {
        "sinr": sinr(S, passed(method, 3, X[rows], seed).transform(X)),
        "batch": sinr(S, batch.transform(X)),
    }


def long(method, T, seed, d=5, blocks=100):
    """A stream that never repeats itself: resident memory after a tenth and at the end."""
    rng = np.random.default_rng(seed)
    block = T // blocks  # the first blocks still grow the memory that holds them
    A = rng.standard_normal((2 * d, d))
    estimator, resident = None, []
    for n in range(block, blocks * block + 1, block):
        S = copula_uniform(block, d, 0.5, rng=rng)
        X, _ = mixed(method, S, 2 * d, 30, rng, A)
        if estimator is None:
            estimator = passed(method, d, X, seed)
        else:
            estimator.partial_fit(X)
        if n in (blocks // 10 * block, blocks * block):
            resident.append(resident_megabytes())
    return {"sinr": sinr(S, estimator.transform(X)), "megabytes": resident}


def stream_speed(method, T, seed, d=5):
    """CPU time of one pass in chunks of 1,000; a short pass before it compiles what is compiled."""
    _, X, _ = problem(method, "copula 0.5", d, 2 * d, 30, T, seed)
    passed(method, d, X[:5000], seed)
    start = time.process_time()
    passed(method, d, X[:T], seed)
    return {"us": 1e6 * (time.process_time() - start) / T}


def drift(method, change, turn, horizon, seed, d=5, window=1000):
    """SINR of every 1,000 samples before they are learned from, after the first 20,000.

    Two mixtures turn, which leaves the singular values of A as they are, or A = cos(t) A_0 + sin(t) A_1, which does not.
    """
    rng = np.random.default_rng(seed)
    S = copula_uniform(turn, d, 0.5, rng=rng)
    first, second = rng.standard_normal((2, 2 * d, d))
    if change == "two mixtures turn":
        second = np.concatenate([[-first[1], first[0]], np.zeros((2 * d - 2, d))])
        still = np.concatenate([np.zeros((2, d)), first[2:]])
    else:
        still = np.zeros_like(first)

    def A(t):
        return still + np.cos(2 * np.pi * t / turn) * (first - still) + np.sin(2 * np.pi * t / turn) * second

    angle = 2 * np.pi * np.arange(turn)[:, None] / turn
    X = S @ still.T + np.cos(angle) * (S @ (first - still).T) + np.sin(angle) * (S @ second.T)
    X += rng.standard_normal(X.shape) * np.sqrt(np.mean(X**2, axis=0)) * 10**-1.5
    estimator, found = None, []
    for start in range(0, turn - window + 1, window):
        rows = slice(start, start + window)
        judged = start >= min(20_000, turn // 2)
        if method == KNOWS_A:
            Y = separated(method, d, None, A(start + window / 2), X[rows], seed)
        else:
            Y = estimator.transform(X[rows]) if judged else None
            if estimator is None:
                estimator = passed(method, d, X[rows], seed, horizon=horizon)
            else:
                estimator.partial_fit(X[rows])
        if judged:
            found.append(sinr(S[rows], Y))
    return {"sinr": min(found), "median": float(np.median(found)), "tenth": float(np.quantile(found, 0.1))}


def chunks(method, horizon, T, seed, d=3, k=6):
    """Whether `components_` have the same bits however the stream is cut into calls."""
    rng = np.random.default_rng(seed)
    X, _ = mixed(method, copula_uniform(T, d, 0.5, rng=rng), k, 30, rng)
    sizes = {"single rows": 1, "sevens": 7, "777": 777}
    whole = passed(method, d, X, seed, chunk=T, horizon=horizon).components_.tobytes()
    cut = {name: passed(method, d, X, seed, chunk=n, horizon=horizon).components_ for name, n in sizes.items()}
    return {"differ": [name for name, components in cut.items() if components.tobytes() != whole]}


def duration(method, kind, k, snr_db, T, seed, d=10, rounds=3):
    """Least seconds of all methods that are here, in turns, so that a busy machine slows all alike.

    The case is that of `method`, the yardstick. NMF has its default number of iterations, at most 200.
    """
    contenders = {}
    for name in (name for name in (CONE, method, *PEERS) if available(name)):
        _, X, _ = problem(name, kind, d, k, snr_db, T, seed)
        contenders[name] = partial(fitted, name, d, X[:T], seed, nmf_iterations=200)
        fitted(name, d, X[:1000], seed)  # compiles what is compiled
    return {"seconds": best_of(contenders, rounds)}


def wide(method, k, T, seed, d=5):
    """Seconds of one fit and SINR with many channels."""
    S, X, A = problem(method, "copula 0.5", d, k, 30, T, seed)
    start = time.perf_counter()
    Y = separated(method, d, X[:T], A, X[T:], seed)
    return {"seconds": time.perf_counter() - start, "sinr": sinr(S[T:], Y)}


def dask(method, T, seed, d=5, rows=100_000):
    """Seconds of one fit of a Dask array in blocks, SINR, and SINR of the fit of the same array in memory."""
    import dask.array as da

    S, X, A = problem(method, "copula 0.5", d, 2 * d, 30, T, seed)
    in_memory = separated(method, d, X[:T], A, X[T:], seed)
    start = time.perf_counter()
    Y = separated(method, d, da.from_array(X[:T], chunks=(min(rows, T // 4), -1)), A, X[T:], seed)
    return {"seconds": time.perf_counter() - start, "sinr": sinr(S[T:], Y), "in_memory": sinr(S[T:], in_memory)}


def choice(
    method,
    seed,
    kind=None,
    d=None,
    k=None,
    snr_db=None,
    T=None,
    sources_of=None,
    noise=None,
    images=None,
    size=None,
):
    """What `bionica separate --method auto` keeps, SINR of both over all samples, and what is lost against the better one."""
    if sources_of is not None:
        X, S, _ = spectra(sources_of, noise, T, seed)
    else:
        rng = np.random.default_rng([seed, d or 0])
        S = sources.images(images, size) if images is not None else sources.synthetic(kind, T, d, rng)
        X, _ = mixed(method, S, k, snr_db, rng)
    fits, seconds = {}, {}
    for name in (BATCH, CONE):
        start = time.process_time()
        fits[name] = fitted(name, S.shape[1], X, seed)
        seconds[name] = time.process_time() - start
    kept = type(choose(fits[BATCH], fits[CONE], X).kept).__name__
    found = {name: sinr(S, fit.transform(X)) for name, fit in fits.items()}
    regret = max(min(value, MOST_DB) for value in found.values()) - min(found[kept], MOST_DB)
    return {"kept": kept, "found": found, "regret": regret, "seconds_of": seconds}


def outliers(method, kind, k, snr_db, T, seed, d=5):
    """SINR on clean samples: after a clean fit, with outliers, and with `outliers=0.02` where the method has it.

    Outliers, 2 % of the samples, are Gaussian in all channels, at 10 times the root mean square of each.
    """
    S, X, A = problem(method, kind, d, k, snr_db, T, seed)
    rng = np.random.default_rng([seed, 1])
    rows = rng.choice(T, T // 50, replace=False)
    hit = X[:T].copy()
    hit[rows] = 10 * np.sqrt(np.mean(X**2, axis=0)) * rng.standard_normal((len(rows), X.shape[1]))

    def score(train, **options):
        return sinr(S[T:], separated(method, d, train, A, X[T:], seed, **options))

    found = {"clean": score(X[:T]), "ignored": score(hit)}
    return found | ({"sinr": score(hit, outliers=0.02)} if method == CONE else {"sinr": found["ignored"]})


#: Table -> the function that measures one of its cases.
MEASURES = {
    "copula": synthetic,
    "sizes": synthetic,
    "uncorrelated": synthetic,
    "noiseless": synthetic,
    "wall": wall,
    "images": images,
    "chemistry": chemistry,
    "real": real,
    "stream": stream,
    "stream_images": stream_images,
    "long": long,
    "stream_speed": stream_speed,
    "drift": drift,
    "chunks": chunks,
    "duration": duration,
    "wide": wide,
    "dask": dask,
    "choice": choice,
    "outliers": outliers,
}
#: Tables that are measured one case after the other in one process, because their result is a time.
ALONE = ("stream_speed", "duration", "wide", "dask")
