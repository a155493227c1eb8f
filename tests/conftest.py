"""What the tests share: the estimators, found by introspection, and small problems."""

import signal
import sys
import tempfile
from pathlib import Path

import hypothesis
import numpy as np
import pytest

import bionica
from bionica.core.estimator import Estimator
from bionica.core.online import OnlineEstimator
from bionica.io import open_reader, open_writer
from model_zip import unpack

# In the background job of a shell children would not hear Ctrl-C either.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run.
hypothesis.settings.register_profile("fixed", derandomize=True)
hypothesis.settings.load_profile("fixed")

PUBLIC = [getattr(bionica, name) for name in bionica.__all__]
ESTIMATORS = [
    cls for cls in PUBLIC if isinstance(cls, type) and issubclass(cls, Estimator)
]
ONLINE = [cls for cls in ESTIMATORS if issubclass(cls, OnlineEstimator)]
NETWORKS = [cls for cls in ONLINE if cls is not bionica.MinimumVolumeCone]
NEURAL = [cls for cls in NETWORKS if hasattr(cls, "as_published")]


def pytest_generate_tests(metafunc):
    if "Network" in metafunc.fixturenames:
        metafunc.parametrize("Network", NETWORKS, ids=lambda cls: cls.__name__)
    if "Neural" in metafunc.fixturenames:
        metafunc.parametrize("Neural", NEURAL, ids=lambda cls: cls.__name__)


def mixtures(n, d, k=None, seed=0, dtype=np.float64):
    """Sparse uniform sources in a well-conditioned random mixture; returns S, X."""
    rng = np.random.default_rng(seed)
    S = rng.uniform(0, np.sqrt(48 / 5), (n, d)) * (rng.random((n, d)) < 0.5)
    k = k or d
    A = np.linalg.qr(rng.standard_normal((max(k, d), max(k, d))))[0][:k, :d]
    return S.astype(dtype), np.ascontiguousarray(S @ A.T).astype(dtype)


def mixtures_for(cls, n, d, k, dtype=np.float64):
    """Mixtures for a stream; as many as outputs for NonnegativePCA, whose streams are
    whitened already.
    """
    return mixtures(n, d, d if cls is bionica.NonnegativePCA else k, dtype=dtype)[1]


def made(cls, n_components=None, **params):
    """An estimator with the seed 0, if it takes one."""
    seed = {"random_state": 0} if "random_state" in cls().get_params() else {}
    return cls(n_components, **seed, **params)


def learned(model):
    """The arrays of a model's file, by name: all that it has learned, and waits for."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return unpack(path.read_bytes())[1]


def same_bits(a, b):
    """Whether two models have learned the same, to the last bit."""
    left = learned(a)
    right = learned(b)
    return left.keys() == right.keys() and all(
        np.array_equal(left[name], right[name]) for name in left
    )


def reaction(k1=0.2, k2=0.05, noise=0.003, seed=0):
    """A -> B -> C: concentrations (240, 3), spectra (3, 121), mixtures."""
    wavelength = np.linspace(400, 700, 121)
    t = np.arange(0, 120, 0.5)
    bands = np.array(
        [
            [450, 18, 1.0, 560, 25, 0.3],
            [510, 22, 1.0, 420, 12, 0.4],
            [620, 30, 1.0, 480, 15, 0.2],
        ]
    )
    A = np.stack(
        [
            a * np.exp(-(((wavelength - m) / s) ** 2) / 2)
            + b * np.exp(-(((wavelength - n) / r) ** 2) / 2)
            for m, s, a, n, r, b in bands
        ]
    )
    first = np.exp(-k1 * t)
    last = np.exp(-k2 * t)
    second = k1 / (k2 - k1) * (first - last)
    C = np.stack([first, second, 1 - first - second], axis=1)
    return C, A, C @ A + noise * np.random.default_rng(seed).standard_normal((240, 121))


def write(path, X, shape=None):
    with open_writer(path, X.shape[1], X.dtype, shape) as writer:
        for start in range(0, len(X), 300):
            writer.write(X[start : start + 300])
    return path


def read(*paths, **how):
    with open_reader(paths, **how) as reader:
        return reader.read()


def left(folder):
    """The names of all files, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


def worst_correlation(S, Y):
    """The least correlation of a source with its output."""
    d = S.shape[1]
    return np.corrcoef(S.T, Y.T)[:d, d:].max(axis=1).min()


def bands(centres, width, k, base=0.0):
    """Spectra (d, k), each a Gaussian band above a base, on the axis 0 to 1."""
    distance = np.linspace(0, 1, k) - np.reshape(centres, (-1, 1))
    return base + np.exp(-0.5 * (distance / width) ** 2)


def names_of(diagnosis):
    """The names of its findings."""
    return [finding.name for finding in diagnosis.findings]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot:
        pyplot.close("all")


@pytest.fixture
def rng():
    return np.random.default_rng(0)
