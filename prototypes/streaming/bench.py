"""Problems and cached BatchNICA results."""
import os, sys, hashlib, json, time
import warnings; warnings.simplefilter("ignore")
import numpy as np
from bionica import BatchNICA
from bionica.datasets import random_sources, copula_uniform, natural_images, paper_mixing, sparse_uniform, mix
from bionica.metrics import permutation_error, sinr
KINDS = ("sparse_uniform", "exponential", "half_normal", "gamma", "odor")
CACHE = os.path.join(os.path.dirname(__file__), "cache"); os.makedirs(CACHE, exist_ok=True)
H = 5000
def mixing(rng, k, d, condition, scale):
    U, _, Vt = np.linalg.svd(rng.standard_normal((k, d)), full_matrices=False)
    if condition is None: return scale*rng.standard_normal((k,d))
    return scale * (U * np.geomspace(1, 1 / condition, d)) @ Vt
def batch(key, X, S):
    f = f"{CACHE}/{key}.npy"
    if os.path.exists(f): return float(np.load(f))
    b = BatchNICA(S.shape[1], random_state=0).fit(X[:-H])
    e = permutation_error(S[-H:], b.transform(X[-H:]))
    np.save(f, e); return e
def problem(d, seed, T=100_000, tall=None):
    rng = np.random.default_rng([d, seed])
    kind = KINDS[seed % 5]
    k = d if (seed % 2 if tall is None else not tall) else 2*d
    S = random_sources(kind, T + H, d, rng=rng)
    X = S @ mixing(rng, k, d, 10 ** rng.uniform(0, 3), 10 ** rng.uniform(-3, 3)).T
    key = f"p{d}_{seed}_{T}_{k}"
    return kind, X, S, key
def noisy(d, kind, snr, seed, T=100_000):
    rng = np.random.default_rng([7, d, seed])
    S = copula_uniform(T+H, d, 0.0, rng=rng) if kind=="copula" else random_sources(kind, T+H, d, rng=rng)
    X, A = mix(S, n_mixtures=2*d, snr_db=snr, rng=rng)
    return X, S, f"n{d}_{kind}_{snr}_{seed}_{T}"
