"""`score`: how well mixtures are predicted from other mixtures."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import bionica
from bionica.datasets import copula_uniform, mix, random_sources
from conftest import PUBLIC

SEPARATING = [cls for cls in PUBLIC if isinstance(cls, type) and hasattr(cls, "score")]


def mixtures(d=4, k=12, n=2000, snr_db=20, kind="exponential", seed=0):
    rng = np.random.default_rng(seed)
    S = (
        copula_uniform(n, d, 0.5, rng=rng)
        if kind == "copula"
        else random_sources(kind, n, d, rng=rng)
    )
    return mix(S, rng.standard_normal((k, d)), snr_db=snr_db, rng=rng)[0]


def test_score_is_its_definition():
    X = mixtures(n=300)
    nica = bionica.BatchNICA(4, random_state=0).fit(X[:200])
    missed = 0.0
    A = nica.mixing_
    for first in range(10):
        group = [j for j in range(12) if j % 10 == first]
        others = [j for j in range(12) if j % 10 != first]
        for x in X[200:]:
            y = np.maximum(np.linalg.lstsq(A[others], x[others], rcond=None)[0], 0)
            missed += np.sum((x[group] - A[group] @ y) ** 2)
    score = nica.score(X[200:])
    assert type(score) is float
    assert_allclose(score, 1 - missed / np.sum(X[200:] ** 2))


@pytest.mark.parametrize("cls", SEPARATING)
def test_every_estimator_that_separates_has_one(cls):
    X = mixtures(n=2000, snr_db=30)
    estimator = cls(4, random_state=0)
    with pytest.raises(NotFittedError):
        estimator.score(X)
    estimator.fit(X)
    # The weights of these keep what they began with outside the space of the sources,
    # which `mixing_`, their pseudoinverse, shows.
    local = hasattr(cls, "W_xz_")
    assert (-np.inf if local else 0.5) < estimator.score(X) <= 1
    with pytest.raises(ValueError, match="features"):
        estimator.score(X[:, :5])


@pytest.mark.parametrize(
    ("cls", "kind"),
    [(bionica.BatchNICA, "exponential"), (bionica.MinimumVolumeCone, "copula")],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_grid_search_finds_the_number_of_sources(cls, kind):
    search = GridSearchCV(cls(random_state=0), {"n_components": range(1, 9)}, cv=3)
    assert search.fit(mixtures(n=1000, kind=kind)).best_params_ == {"n_components": 4}


def test_few_mixtures_and_no_energy(rng):
    X = rng.exponential(size=(200, 1))
    assert bionica.BatchNICA(1, random_state=0).fit(X).score(X) == pytest.approx(1)
    square = mixtures(d=3, k=3, snr_db=None)
    nica = bionica.BatchNICA(3, random_state=0).fit(square)
    assert np.isfinite(nica.score(square))
    assert nica.score(0 * square) == 1


def test_dask_arrays():
    da = pytest.importorskip("dask.array")
    X = mixtures()
    nica = bionica.BatchNICA(4, random_state=0).fit(X)
    assert_allclose(nica.score(da.from_array(X, chunks=(300, 5))), nica.score(X))
