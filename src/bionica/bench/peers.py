"""Other people's methods on the same mixtures: time and error."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import datasets, estimators, metrics
from .table import Row, Sizes, Table
from .timing import timed

Array = NDArray[Any]
Fit = Callable[[Array, int], Callable[[Array], Array]]

#: Samples that nobody learns from.
HELD_OUT = 5000
#: Of MiniBatchNMF, its own default.
BATCH = 1024

HEADS = {"method": "method", "kind": "learns", "ns": "ns a sample", "error": "error, held out", "scored": "scored"}


def peers(sizes: Sizes) -> Table:
    """Time and error of ours and of others, one problem."""
    d, n = sizes.peers
    rng = np.random.default_rng(1)
    S = datasets.sparse_uniform(n + HELD_OUT, d, rng=rng)
    X, _ = datasets.mix(S, rng.uniform(size=(d, d)))  # nonnegative, as NMF asks
    fits: dict[str, tuple[str, bool, Fit]] = {
        "TwoCompartmentNICA": ("online", False, _network("TwoCompartmentNICA")),
        "InterneuronNICA": ("online", False, _network("InterneuronNICA")),
        "BatchNICA": ("offline", False, _network("BatchNICA")),
        "FastICA": ("offline", True, _fast_ica),
        "Picard": ("offline", True, _picard),
        "MiniBatchNMF": ("in batches", True, _nmf),
    }
    missing = _missing()
    if missing:
        del fits["Picard"]
    seconds = dict.fromkeys(fits, float("inf"))
    outputs: dict[str, Array] = {}
    for _ in range(sizes.rounds):
        for name, (_, _, fit) in fits.items():
            seconds[name] = min(seconds[name], timed(lambda: outputs.update({name: _fitted(fit, X, n, d)})))  # noqa: B023
    rows: list[Row] = []
    for name, (kind, scaled, _) in fits.items():
        error = _error(S[n:], outputs[name], scaled)
        scored = "after the best sign and scale" if scaled else "as it is"
        rows.append({"method": name, "kind": kind, "d": d, "samples": n, "ns": 1e9 * seconds[name] / n, "error": error})
        rows[-1]["scored"] = scored
    note = (
        f"{d} sparse uniform sources of unit variance, mixed by a nonnegative {d} x {d} matrix, {n:,} samples; time of a fit from "
        f"nothing, the answer to {HELD_OUT:,} further mixtures included, and the permutation error there. Ours at their defaults. "
        f"Best of {sizes.rounds} rounds, one thread.{missing}"
    )
    return Table("peers", "Peers on the same data", note, HEADS, rows)


def _missing() -> str:
    try:
        import picard  # noqa: F401
    except ImportError:
        return " Picard is not installed: pip install python-picard."
    return ""


def _fitted(fit: Fit, X: Array, n: int, d: int) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # who did not converge has it in the error
        return fit(X[:n], d)(X[n:])


def _error(S: Array, Y: Array, scaled: bool) -> float:
    if scaled:
        match = metrics.match_sources(S, Y, by="correlation")
        Y = Y[:, match.permutation] * match.scale
    return metrics.permutation_error(S, Y)


def _network(name: str) -> Fit:
    def fit(X: Array, d: int) -> Callable[[Array], Array]:
        transform: Any = getattr(estimators, name)(d, random_state=0).fit(X).transform
        return transform  # type: ignore[no-any-return]

    return fit


def _fast_ica(X: Array, d: int) -> Callable[[Array], Array]:
    from sklearn.decomposition import FastICA

    ica = FastICA(d, whiten="unit-variance", max_iter=500, random_state=0).fit(X)
    return lambda X: np.asarray(X @ ica.components_.T)  # with the mean left in


def _picard(X: Array, d: int) -> Callable[[Array], Array]:
    from picard import picard

    K, W, _ = picard(X.T, n_components=d, ortho=True, random_state=0, max_iter=500)
    return lambda X: np.asarray(X @ (W @ K).T)


def _nmf(X: Array, d: int) -> Callable[[Array], Array]:
    from sklearn.decomposition import MiniBatchNMF

    nmf = MiniBatchNMF(d, batch_size=BATCH, random_state=0)
    for start in range(0, len(X), BATCH):
        nmf.partial_fit(X[start : start + BATCH])
    transform: Any = nmf.transform
    return transform  # type: ignore[no-any-return]
