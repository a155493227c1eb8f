"""Parameters: frozen when a model starts, each with an effect; and what an estimator is
before and after a fit.
"""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import bionica
from bionica import MinimumVolumeCone
from conftest import ESTIMATORS, ONLINE, made, mixtures, mixtures_for

# few samples
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

WEIGHTS = ("W_xy", "W_xz", "W_xh")
ONES = np.ones((2, 4))
#: For each parameter a value that is not its default.
OTHER = {
    "n_components": 3,
    "eta0": 0.005,
    "decay": 0.5,
    "power": 0.5,
    "mean_window": 50,
    "average": False,
    "dynamics": "gradient",
    "gamma": 0.05,
    "settle_tol": 1e-3,
    "settle_steps": 5,
    "guards": False,
    "n_epochs": 2,
    "shuffle": True,
    "random_state": 1,
    "horizon": 100,
    "tau": 0.3,
    "n_interneurons": 4,
    "decoupled": True,
    "whitening_eta0": 0.05,
    "whitening_decay": 0.2,
    "noise": 0.5,
    "nonnegative_mixing": False,
    "known_mixing": np.array([[1.0], [2], [3], [0]]),
    "outliers": 0.1,
    "normalize": "mean",
    "n_init": 1,
    "max_iter": 2,
    "tol": 1e-9,
}
#: Parameters that matter only beside others.
BESIDE = {
    "gamma": {"dynamics": "gradient"},
    "settle_tol": {"dynamics": "gradient"},
    "settle_steps": {"dynamics": "gradient"},
    "power": {"decay": 0.1, "eta0": 0.1},
    "n_interneurons": {"decoupled": True},
    ("BatchNICA", "tol"): {"n_components": 3},
    ("NonnegativePCA", "guards"): {"eta0": 0.1},
}


def data(*spoil):
    """Nonnegative mixtures of two sources in a little noise; "outlier", "outliers",
    "change" spoil them.
    """
    rng = np.random.default_rng(0)
    S = rng.exponential(size=(600, 2)) * (rng.random((600, 2)) < 0.7)
    X = S @ [[1, 2, 3, 0], [2, 0, 1, 3]] + 0.05 * rng.random((600, 4))
    X[77] *= 1000 if "outlier" in spoil else 1
    X[::50] *= -3 if "outliers" in spoil else 1
    return X if "change" not in spoil else np.concatenate([X, X[:, ::-1]])


#: Where a parameter matters, if not in clean data.
PROBLEMS = {
    "robust": "outlier",
    "guards": "outlier",
    "outliers": "outliers",
    "horizon": "change",
}


def other(cls, name):
    if name == "robust":
        return not cls().robust
    if name == "init":
        return (
            {"W": np.eye(2)}
            if cls is bionica.NonnegativePCA
            else {next(W for W in WEIGHTS if hasattr(cls, W + "_")): ONES}
        )
    return OTHER[name]


def every_parameter(classes):
    return [
        pytest.param(cls, name, id=f"{cls.__name__}-{name}")
        for cls in classes
        for name in cls().get_params()
    ]


@pytest.mark.parametrize(("cls", "name"), every_parameter(ESTIMATORS))
def test_what_a_model_learned_with_is_frozen(cls, name, tmp_path):
    X = data()
    value = other(cls, name)
    model = made(cls, 2).fit(X)
    learned = model.get_params()
    Y = model.transform(X)
    bits = pickle.dumps(model.mixing_)
    model.set_params(**{name: value})
    assert np.array_equal(model.transform(X), Y)
    assert pickle.dumps(model.mixing_) == bits
    model.save(tmp_path / "model")
    loaded = bionica.load(tmp_path / "model")
    assert loaded.get_params() == learned
    assert np.array_equal(loaded.transform(X), Y)
    changeable = name in cls._changeable and not (
        name in ("eta0", "decay") and learned[name] is None
    )
    if changeable:
        assert bionica.load(
            tmp_path / "model", **{name: value}
        ).get_params() == learned | {name: value}
    else:
        with pytest.raises(ValueError, match=rf"(?s){name}=.*learned with {name}="):
            bionica.load(tmp_path / "model", **{name: value})
    if not hasattr(cls, "partial_fit"):
        return
    if changeable:
        loaded.set_params(**{name: value}).partial_fit(X)
        assert np.array_equal(model.partial_fit(X).transform(X), loaded.transform(X))
        model.save(tmp_path / "model")
        assert bionica.load(tmp_path / "model").get_params() == learned | {name: value}
    else:
        with pytest.raises(ValueError, match=rf"(?s){name}=.*learned with {name}="):
            model.partial_fit(X)
        assert np.array_equal(model.transform(X), Y)
        model.set_params(**learned).partial_fit(X)


@pytest.mark.parametrize("cls", ONLINE)
def test_the_seed_decides_where_a_stream_begins(cls):
    X = mixtures_for(cls, 3000, 2, 4)
    X = X + 0.1 * np.random.default_rng(1).standard_normal(X.shape)
    bits = [
        pickle.dumps(cls(2, random_state=seed).partial_fit(X).mixing_)
        for seed in (0, 0, 1)
    ]
    assert bits[0] == bits[1] != bits[2]


def result(model, X):
    """What a user can see of a fit."""
    names = [
        name
        for name in {*dir(type(model)), *vars(model)}
        if name.endswith("_") and name[0] != "_"
    ]
    shown = {name: getattr(model, name, None) for name in sorted(names)}
    return pickle.dumps((shown, model.transform(X)))


@pytest.mark.parametrize(("cls", "name"), every_parameter(ESTIMATORS))
def test_every_parameter_has_an_effect(cls, name):
    X = data(PROBLEMS.get(name, ""))
    beside = BESIDE.get((cls.__name__, name), BESIDE.get(name, {}))
    beside = {key: value for key, value in beside.items() if key in cls().get_params()}
    first, second = (
        made(cls, 2).set_params(**beside | own)
        for own in ({}, {name: other(cls, name)})
    )
    assert result(first.fit(X), X) != result(second.fit(X), X)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_nothing_can_be_seen_before_a_fit(cls, tmp_path):
    X = data()
    unfitted = cls()
    fitted = cls(2).fit(X)
    names = {name for name in {*dir(cls), *vars(fitted)} if name.endswith("_")}
    names = {name for name in names if name[0] != "_"}
    assert {"components_", "mixing_", "n_components_", "n_features_in_"} <= names
    assert [name for name in names if hasattr(unfitted, name)] == []
    uses = dict.fromkeys(("transform", "inverse_transform", "score", "diagnose"), X)
    for name, given in (uses | {"transform_one": X[0], "save": tmp_path / "x"}).items():
        if hasattr(cls, name):
            with pytest.raises(NotFittedError):
                getattr(unfitted, name)(given)
    with pytest.raises(AttributeError):  # NotFittedError is one
        unfitted.get_feature_names_out()


def test_what_separate_found_does_not_survive_another_fit():
    X = data()
    for method in ("batch", "cone"):
        model = bionica.separate(X, 2, method=method, random_state=0)
        assert model.diagnosis_
        assert model.choice_
        model.fit(X)
        assert not hasattr(model, "diagnosis_")
        assert not hasattr(model, "choice_")
    for cls in (bionica.BatchNICA, MinimumVolumeCone, bionica.StreamingNICA):
        model = cls("auto", random_state=0).fit(X)
        assert model.count_.n_sources == model.n_components_
        assert not hasattr(model.set_params(n_components=2).fit(X), "count_")


def test_the_count_survives_another_horizon():
    model = bionica.StreamingNICA("auto", random_state=0).fit(mixtures(2000, 3, 6)[1])
    count = model.count_
    assert (
        model.set_params(horizon=1000).partial_fit(mixtures(10, 3, 6)[1]).count_
        == count
    )


@pytest.mark.parametrize("cls", [bionica.StreamingNICA, MinimumVolumeCone])
def test_a_stream_that_waits_keeps_its_samples(cls):
    X = mixtures(3000, 3, 6)[1]
    model, never = (cls("auto", random_state=0).partial_fit(X[:150]) for _ in range(2))
    with pytest.raises(
        ValueError, match=r"n_components=2: this .* learned with n_components='auto'"
    ):
        model.set_params(n_components=2).partial_fit(X[150:])
    assert model.n_samples_seen_ == 150
    model.set_params(n_components="auto").partial_fit(X[150:])
    assert np.array_equal(model.components_, never.partial_fit(X[150:]).components_)


def test_a_class_of_the_user_with_our_name_is_another(tmp_path):
    class StreamingNICA(bionica.StreamingNICA):
        pass

    globals()["StreamingNICA"] = StreamingNICA
    StreamingNICA.__qualname__ = "StreamingNICA"
    X = data()
    for cls in (bionica.StreamingNICA, StreamingNICA):
        cls(2, random_state=0).fit(X).save(tmp_path / "model")
        assert type(bionica.load(tmp_path / "model")) is cls
    del globals()["StreamingNICA"]
    with pytest.raises(bionica.ModelFileError, match="import its module first"):
        bionica.load(tmp_path / "model")
