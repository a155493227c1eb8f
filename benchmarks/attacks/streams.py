"""Extreme streams through every estimator and dtype, and transforms from many threads at once.

Whatever the numbers are, outputs are finite and nonnegative, or an exception names the sample and the remedy, and leaves the model
as it was. Concurrent transforms return the bits of a transform alone.
"""

import contextlib
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import bionica
from bionica.estimators._base import Estimator

from . import Row
from .forked import run_forked

CONCURRENT = 9_000
ANSWERS = (ValueError, bionica.DivergenceError)


def estimators() -> list[Callable[[], Any]]:
    """Makers of every estimator, and of its main variants."""
    makers: list[Callable[[], Any]] = []
    for name in bionica.__all__:
        cls = getattr(bionica, name)
        if isinstance(cls, type) and issubclass(cls, Estimator):
            makers.append(lambda cls=cls: cls(2, **_quick(cls)))
            makers.append(lambda cls=cls: cls(**_quick(cls)))
    for cls in (bionica.InterneuronNICA, bionica.TwoCompartmentNICA):
        for params in (
            {"precondition": None},
            {"precondition": "scale"},
            {"horizon": 100},
            {"dynamics": "gradient", "settle_steps": 30},
        ):
            makers.append(lambda cls=cls, params=params: cls(2, random_state=0, **params))  # noqa: PERF401
    makers.append(lambda: bionica.StreamingNICA("auto", random_state=0))
    makers.append(lambda: bionica.StreamingNICA(2, horizon=50, random_state=0))
    makers.append(lambda: bionica.OfflineNICA(2, network="two_compartment", max_iter=10, random_state=0))
    makers.append(lambda: bionica.NonnegativePCA(2, whiten=False, random_state=0))
    makers.append(lambda: bionica.MinimumVolumeCone(2, outliers=0.1, normalize="sum", random_state=0))
    return makers


def _quick(cls: Any) -> dict[str, Any]:
    names = cls._parameter_constraints
    return {key: value for key, value in {"random_state": 0, "max_iter": 10}.items() if key in names}


def streams() -> dict[str, np.ndarray]:
    """Mixtures that no one should measure, by name."""
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(260, 3)) @ rng.random((3, 4))
    scales = np.where(np.arange(len(X)) % 2, 1e150, 1e-150)[:, np.newaxis]
    steps = np.where(np.arange(len(X)) % 60 < 30, 1.0, 1e6)[:, np.newaxis]
    nan, late = X.copy(), X.copy()
    nan[130, 2], late[200, 1] = np.nan, np.inf
    one, dead, stuck = X.copy(), X.copy(), X.copy()
    one[100] *= 1e200
    dead[:, 1] = 0
    stuck[50:] = stuck[50]
    mixed_units = X * np.array([1e-200, 1.0, 1e100, 1e-30])
    return {
        "constant": np.ones_like(X), "zeros": np.zeros_like(X), "minus zero": -np.zeros_like(X), "1e300": X * 1e300,
        "1e160": X * 1e160,
        "1e150": X * 1e150, "1e77": X * 1e77, "1e30": X * 1e30, "1e-30": X * 1e-30, "1e-160": X * 1e-160, "1e-300": X * 1e-300,
        "subnormal": X * 1e-310, "least": np.full_like(X, 5e-324), "most": np.full_like(X, 1.7e308), "alternating": X * scales,
        "steps": X * steps, "nan": nan, "inf": late, "one row 1e200": one, "equal rows": np.repeat(X[:1], 260, axis=0),
        "rank one": np.outer(X[:, 0], [1.0, 2.0, 3.0, 4.0]), "rank two": X[:, :2] @ rng.random((2, 4)), "one sample": X[:1],
        "two samples": X[:2], "three samples": X[:3], "wide": rng.exponential(size=(40, 120)), "one column": X[:, :1],
        "dead channel": dead, "stuck": stuck, "negative": -X, "centred": X - X.mean(axis=0), "units": mixed_units,
        "sparse": X * (rng.random(X.shape) < 0.02), "one hot": np.eye(4)[rng.integers(4, size=260)], "sorted": np.sort(X, axis=0),
        "powers": 10.0 ** rng.uniform(-100, 100, X.shape), "cauchy": np.abs(rng.standard_cauchy(X.shape)),
    }  # fmt: skip


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: X[::-1].copy()[::-1],
    "big endian": lambda X: X.astype(">f8"),
    "read-only": lambda X: np.frombuffer(X.tobytes()).reshape(X.shape),
    "unaligned": lambda X: np.frombuffer(b"x" + X.tobytes(), dtype=np.uint8)[1:].view(np.float64).reshape(X.shape),
}


def attack(seed: int, scale: float = 1.0) -> list[Row]:
    """Attack with streams, then with threads."""
    makers, data, fitted = estimators(), list(streams().items()), {}

    def extreme(index: int) -> str:
        """Put one stream through one estimator."""
        _ignore_warnings()
        name, X = data[(index // len(makers)) % len(data)]
        layout = list(LAYOUTS)[(index + index // (len(makers) * len(data)) + seed) % len(LAYOUTS)]
        model = makers[index % len(makers)]()
        why = _stream(model, LAYOUTS[layout](X))
        return f"{model!r}, {name}, {layout}: {why}" if why else ""

    def concurrent(index: int) -> str:
        """Make transforms from several threads."""
        _ignore_warnings()
        return _together(makers[index % len(makers)], index % len(makers), fitted, seed + index)

    n = max(3, round(scale * len(makers) * len(data)))
    m = max(1, round(scale * CONCURRENT) // _TOGETHER)
    # The first try of a process may have to compile.
    return [
        Row("streams", "extreme streams", n, run_forked(range(n), extreme, timeout=120)[0]),
        Row("streams", "concurrent transforms", m * _TOGETHER, run_forked(range(m), concurrent, timeout=120)[0]),
    ]


def _ignore_warnings() -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")


def _stream(model: Any, X: np.ndarray) -> str:
    """Learn from the stream in pieces, then from all of it; return what went wrong."""
    good = np.random.default_rng(1).exponential(size=(60, X.shape[1]))
    steps: list[tuple[str, Callable[[], Any]]] = []
    if hasattr(model, "partial_fit"):
        steps += [
            ("partial_fit", lambda part=part: model.partial_fit(part)) for part in np.array_split(X, 3) if len(part)
        ]
    if hasattr(model, "partial_fit_transform"):
        steps += [("partial_fit_transform", lambda: model.partial_fit_transform(X))]
    steps += [("transform", lambda: model.transform(X)), ("transform good", lambda: model.transform(good))]
    steps += [
        ("fit", lambda: model.fit(X)),
        ("transform", lambda: model.transform(X)),
        ("good", lambda: model.transform(good)),
    ]
    steps += [
        ("fit_transform", lambda: model.fit_transform(X)),
        ("inverse", lambda: model.inverse_transform(model.transform(good))),
    ]
    steps += [
        (name, lambda name=name: getattr(model, name, None)) for name in ("components_", "mixing_")
    ]  # None before a fit
    if hasattr(model, "diagnose"):
        steps += [("diagnose", lambda: str(model.diagnose(X)) and None)]
    for name, step in steps:
        try:
            Y = step()
        except np.linalg.LinAlgError as error:
            return f"{name} let LinAlgError out: {error}"
        except ANSWERS:
            continue
        except Exception as error:
            return f"{name}: {type(error).__name__}: {error}"[:150]
        if isinstance(Y, np.ndarray):
            nonnegative = "transform" in name and not isinstance(model, bionica.NoncenteredWhitener)
            if not np.isfinite(Y).all() or (nonnegative and Y.size and Y.min() < 0):
                return f"{name} returned {Y.min()} to {Y.max()}"
    return ""


_TOGETHER = 24


def _together(maker: Callable[[], Any], number: int, fitted: dict[int, Any], seed: int) -> str:
    """Compare the bits of transforms from 6 threads with those of transforms alone."""
    if number not in fitted:
        X = np.random.default_rng(0).exponential(size=(600, 3)) @ np.random.default_rng(1).random((3, 3))
        model = maker().fit(X)
        fitted[number] = model, X, [model.transform(part).tobytes() for part in _parts(X)]
    model, X, alone = fitted[number]
    parts = _parts(X)
    order = np.random.default_rng(seed).integers(len(parts), size=_TOGETHER)
    barrier = threading.Barrier(6)

    def job(i: int) -> bool:
        if barrier.n_waiting < 6 and not barrier.broken:
            with contextlib.suppress(threading.BrokenBarrierError):
                barrier.wait(timeout=0.05)
        return model.transform(parts[i]).tobytes() == alone[i]

    with ThreadPoolExecutor(6) as pool:
        same = list(pool.map(job, order))
    return "" if all(same) else f"{model!r}: {same.count(False)} of {_TOGETHER} transforms differ"


def _parts(X: np.ndarray) -> list[np.ndarray]:
    return [X, X[:1], X[100:350], X[::2], X[::-1], np.asfortranarray(X[:77]), X[:200].astype(np.float32), X[3:9]]
