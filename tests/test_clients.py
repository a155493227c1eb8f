"""The estimators inside other packages: each test runs against the real package, and is
skipped by name where it is missing.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from bionica import (
    BatchNICA,
    MinimumVolumeCone,
    NoncenteredWhitener,
    StreamingNICA,
)
from bionica.datasets import mix, sparse_uniform

#: What these packages warn of at import or in their own code is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")

NAMES = ["w400", "w410", "w420", "w430", "w440"]
SEPARATING = [
    cls(3, random_state=0) for cls in (BatchNICA, MinimumVolumeCone, StreamingNICA)
]


def name(estimator):
    return type(estimator).__name__


@pytest.fixture(scope="module")
def X():
    return mix(sparse_uniform(1000, 3, rng=0), n_mixtures=5, rng=0)[0]


ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
from run_clients import PACKAGES, PAGE, blocks  # noqa: E402

FIRST, CODE = blocks(PAGE.read_text())


@pytest.mark.parametrize("heading", CODE)
def test_the_code_of_the_page(heading):
    for package in PACKAGES[heading]:
        pytest.importorskip(package.replace("-", "_"), exc_type=ImportError)
    exec(compile(FIRST + CODE[heading], heading, "exec"), {})


@pytest.fixture(scope="module")
def river_transformer():
    """The class of the page, with what river's checks ask for, where they can pickle
    it.
    """
    pytest.importorskip("river")
    page = {"__name__": __name__}
    exec(compile(FIRST + CODE["river"], "river", "exec"), page)
    cls = globals()["RiverTransformer"] = page["RiverTransformer"]
    cls._unit_test_params = lambda self: [{"estimator": StreamingNICA(random_state=0)}]
    # Features that come and go: river's adapter of scikit-learn's estimators skips
    # these too.
    skipped = {
        f"check_{kind}_features"
        for kind in ("emerging", "disappearing", "radically_disappearing")
    }
    cls._unit_test_skips = lambda self: skipped | {"check_learn_many_matches_learn_one"}
    return cls


def test_river_checks(river_transformer):
    from river import checks

    checks.check_estimator(river_transformer(StreamingNICA(random_state=0)))


@pytest.fixture(scope="module")
def spectra():
    channels = np.arange(60)
    return np.array(
        [np.exp(-(((channels - center) / 6) ** 2)) + 0.02 for center in (15, 28, 40)]
    )


@pytest.fixture(scope="module")
def image(spectra):
    api = pytest.importorskip("hyperspy.api")
    abundances = sparse_uniform(50 * 40, 3, rng=1).reshape(50, 40, 3)
    return api.signals.Signal1D(abundances @ spectra)


def worst(factors, spectra):
    """Return the least correlation of a spectrum with its factor."""
    return np.corrcoef(factors.T, spectra)[:3, 3:].max(axis=0).min()


@pytest.mark.parametrize("estimator", SEPARATING[1:], ids=name)
def test_factors_of_a_hyperspy_decomposition_are_the_spectra(image, spectra, estimator):
    estimator = clone(estimator)
    image.decomposition(algorithm=estimator, output_dimension=3, print_info=False)
    results = image.learning_results
    results.factors = estimator.spectra_.T
    assert worst(results.factors, spectra) > 0.998
    assert results.loadings.min() >= 0
    model = image.get_decomposition_model().data
    assert np.abs(model - image.data).mean() < 0.02 * image.data.mean()


@pytest.mark.parametrize("estimator", SEPARATING, ids=name)
def test_factors_of_a_hyperspy_blind_source_separation_are_the_spectra(
    image, spectra, estimator
):
    image.decomposition(algorithm="SVD", output_dimension=3, print_info=False)
    options = {
        "on_loadings": True,
        "diff_order": 0,
        "whiten_method": None,
        "print_info": False,
    }
    image.blind_source_separation(algorithm=clone(estimator), **options)
    assert worst(image.learning_results.bss_factors, spectra) > 0.998
    assert np.abs(image.get_bss_model().data - image.data).mean() < 1e-9


@pytest.mark.parametrize("estimator", [*SEPARATING, NoncenteredWhitener(3)], ids=name)
def test_polars_data_frames(X, estimator):
    frames = pytest.importorskip("polars")
    frame = frames.DataFrame({name: X[:, i] for i, name in enumerate(NAMES)})
    fitted = clone(estimator).set_output(transform="polars").fit(frame)
    Y = fitted.transform(frame)
    assert type(Y) is frames.DataFrame
    assert list(Y.columns) == list(fitted.get_feature_names_out())
    assert list(fitted.feature_names_in_) == NAMES
    # X is in another order
    np.testing.assert_allclose(
        Y.to_numpy(), clone(estimator).fit(X).transform(X), atol=1e-9
    )
    if hasattr(fitted, "partial_fit_transform"):
        assert type(clone(fitted).partial_fit_transform(frame)) is frames.DataFrame
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(frame[NAMES[::-1]])
