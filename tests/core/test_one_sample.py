"""Single samples, feature names, and attributes that every estimator has."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import bionica
from conftest import ESTIMATORS, ONLINE, made, mixtures, same_bits

NAMES = ["a", "b", "c"]

online = pytest.mark.parametrize("Online", ONLINE, ids=lambda cls: cls.__name__)


def test_single_outputs_have_the_bits_of_transform(Network):
    _, X = mixtures(300, 3)
    for dtype in (np.float64, np.float32):
        network = made(Network, 3).fit(X.astype(dtype))
        for x in X[:5].astype(dtype):
            y = network.transform_one(x)
            assert y.dtype == dtype
            assert np.array_equal(y, network.transform(x[np.newaxis])[0])
            network.learn_one(x)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))]
)
def test_learning_on_leaves_a_copy_alone(Network, copied):
    _, X = mixtures(300, 3)
    network = made(Network, 3).fit(X)
    network.learn_one(X[0])
    first = copied(network)
    second = copied(network)
    network.learn_one(X[1])
    assert same_bits(first, second)
    assert not same_bits(first, network)
    assert same_bits(first.partial_fit(X[1:2]), network)


def test_a_failing_sample_changes_nothing():
    _, X = mixtures(300, 3)
    network = bionica.TwoCompartmentNICA(
        3, eta0=0.01, guards=False, random_state=0
    ).partial_fit(X)
    before = copy.deepcopy(network)
    with pytest.raises(
        bionica.DivergenceError, match=r"diverged at sample 300.*turn on the guards"
    ):
        network.learn_one([1e200, 1.0, 1.0])
    assert same_bits(network, before)
    with pytest.raises(ValueError, match="learning rate"):
        network.set_params(eta0=100.0).learn_one(X[1])
    assert same_bits(network.set_params(eta0=0.01), before)


def test_parameters_and_schedules_count_from_the_next_sample():
    _, X = mixtures(320, 3)
    seen = []

    def schedule(t):
        seen.append(t)
        return 0.01 if t < 310 else 0.001

    single, rows = (
        bionica.TwoCompartmentNICA(3, eta0=0.01, random_state=0).fit(X[:300])
        for _ in range(2)
    )
    single.set_params(eta0=schedule)
    for x in X[300:]:
        single.learn_one(x)
    assert seen == [*range(300, 320)]
    rows.set_params(eta0=schedule).partial_fit(X[300:])
    assert same_bits(single.set_params(eta0=0.02), rows.set_params(eta0=0.02))
    single.learn_one(X[0])
    rows.partial_fit(X[:1])
    assert same_bits(single, rows)


@online
def test_dicts_are_samples_whose_order_does_not_matter(Online):
    _, X = mixtures(300, 3)
    arrays = made(Online, 3)
    dicts = made(Online, 3)
    for a, b, c in X:
        arrays.learn_one([a, b, c])
        dicts.learn_one(
            {"a": a, "b": b, "c": c}
            if not hasattr(dicts, "n_features_in_")
            else {"c": c, "a": a, "b": b}
        )
    assert list(dicts.feature_names_in_) == NAMES
    assert same_bits(arrays, dicts)
    x = dict(zip(NAMES, X[0], strict=True))
    assert np.array_equal(dicts.transform_one(x), arrays.transform_one(X[0]))
    assert np.array_equal(dicts.transform_one(X[0]), arrays.transform_one(X[0]))
    before = copy.deepcopy(dicts)
    for wrong, message in (
        ({"a": 1.0, "b": 2.0}, r"\['a', 'b'\]"),
        ({**x, "d": 2.0}, "'d'"),
        ({**x, "b": np.nan}, r"X\[0, 'b'\] is NaN"),
        ({**x, "b": "x"}, "real numbers"),
        (pd.Series([1.0, 2.0, 3.0], index=["b", "a", "d"]), "features"),
    ):
        for method in (dicts.learn_one, dicts.transform_one):
            with pytest.raises(ValueError, match=message):
                method(wrong)
    assert same_bits(dicts, before)
    with pytest.raises(ValueError, match="arrays"):
        arrays.learn_one(x)


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_errors_name_the_feature(cls):
    _, X = mixtures(300, 3)
    frame = pd.DataFrame(X, columns=NAMES)
    model = made(cls, 3)
    if (
        model.__sklearn_tags__().input_tags.allow_nan
    ):  # with a number fit estimates missing values
        model.set_params(n_components=None)
    model.fit(frame)
    frame.iloc[17, 1] = np.nan
    for use in (model.transform, model.fit, getattr(model, "partial_fit", model.fit)):
        with pytest.raises(
            ValueError, match=r"Input X contains NaN: X\[17, 'b'\] is NaN"
        ):
            use(frame)
    with pytest.raises(ValueError, match=r"X\[17, 1\] is NaN"):
        model.fit(frame.to_numpy())
    assert [*model.feature_names_in_] == NAMES


@pytest.mark.parametrize("x", [{"a": 1.0, "b": 2.0}, [1.0, 2.0]])
def test_a_model_that_has_seen_no_sample_says_so(x):
    """River asks for an output before it learns from the first sample."""
    with pytest.raises(NotFittedError, match="has seen no sample"):
        bionica.StreamingNICA(2).transform_one(x)
