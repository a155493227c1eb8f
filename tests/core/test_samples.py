"""One door: every public method takes each kind of input with the numbers of the plain
array, or refuses it in the same words.
"""

import re
import warnings
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import bionica
from bionica.core import samples
from bionica.core.blocks import some_rows
from conftest import ESTIMATORS, made

da = pytest.importorskip("dask.array")
# few samples, and arrays where a data frame was fitted
pytestmark = pytest.mark.filterwarnings("ignore")

ROW = 3
COLUMN = 1


def spoiled(X):
    X = X.copy()
    X[(ROW, COLUMN)[-X.ndim :]] = np.nan
    return X


def masked(X, value):
    mask = np.zeros(X.shape, bool)
    mask[(ROW, COLUMN)[-X.ndim :]] = value
    return np.ma.masked_array(X, mask)


def named(X, names):
    return pd.DataFrame(X, columns=names) if X.ndim == 2 else pd.Series(X, names)


def with_dates(X, names):
    frame = named(np.atleast_2d(X), names)
    frame[names[COLUMN]] = pd.Timestamp("2020-01-01")
    return frame if X.ndim == 2 else frame.iloc[0]


#: What an array, or a single sample, of features with these names becomes; and what
#: refuses it, "" if nothing does.
KINDS = {
    "masked value": (
        lambda X, names: masked(X, True),
        "Input X contains NaN: X[3, 1] is NaN.",
    ),
    "mask of nothing": (lambda X, names: masked(X, False), ""),
    "sparse": (
        lambda X, names: scipy.sparse.csr_array(np.atleast_2d(X)),
        "X is a sparse matrix",
    ),
    "reordered": (
        lambda X, names: named(X, names)[names[::-1]],
        "Feature names must be in the same order",
    ),
    "big-endian": (lambda X, names: X.astype(">f8"), ""),
    "float16": (lambda X, names: X.astype(np.float16), ""),
    "datetime64": (lambda X, names: X.astype("datetime64[s]"), "X holds dates"),
    "list": (lambda X, names: X.tolist(), ""),
    "Dask with NaN": (
        lambda X, names: da.from_array(spoiled(X), chunks=100),
        "Input X contains NaN: X[3, 1] is NaN.",
    ),
    "empty": (lambda X, names: X[:0], "Found array with 0 sample(s)"),
    "one row": (lambda X, names: X[:1], ""),
    "frame with dates": (with_dates, "X holds dates"),
}
#: Where a method has a reason of its own: one sample is a vector, and its names say the
#: order; a fit starts with new names.
EXCEPTIONS = {
    ("one", "reordered"): "",
    ("one", "empty"): "x has shape (0,)",
    ("one", "one row"): "x has shape (1,)",
    ("fit", "reordered"): "",
    ("two", "one row"): "Found array with 1 sample(s)",
    ("NonnegativePCA.fit", "one row"): "samples of X do not vary",
    # These estimate missing values (test_missing.py); one of 1,200 does not change what
    # is said.
    **{
        (f"{name}.{method}", "masked value"): (
            "" if method == "diagnose" else "other numbers"
        )
        for name in ("BatchNICA", "MinimumVolumeCone", "separate")
        for method in ("fit", "transform", "diagnose")
    },
    # Amounts of samples that are not known are NaN; columns are in the order of the
    # outputs, whatever their names.
    **{
        ("fit(known_sources)", kind): "other numbers"
        for kind in ("masked value", "Dask with NaN")
    },
    ("fit(known_sources)", "reordered"): "",
    (
        "fit(known_sources)",
        "one row",
    ): "X has shape (1, 2); it must be (n_samples, n_components) = (300, 2)",
}
METHODS = (
    "fit",
    "partial_fit",
    "partial_fit_transform",
    "learn_one",
    "transform",
    "transform_one",
    "inverse_transform",
    "score",
    "diagnose",
)
#: Fits that need two samples.
TWO = {"BatchNICA", "MinimumVolumeCone", "NoncenteredWhitener", "separate"}


def test_a_warning_names_the_line_of_the_caller():
    with pytest.warns(UserWarning) as caught:
        samples.warn("look here", UserWarning)
    assert caught[0].filename == __file__


def data():
    """Numbers that float16 holds, of which every one is a number of seconds too."""
    rng = np.random.default_rng(0)
    S = rng.integers(0, 20, (300, 2)) * (rng.random((300, 2)) < 0.5)
    return (S @ [[1, 2, 3, 0], [2, 0, 1, 3]] + rng.integers(0, 2, (300, 4))).astype(
        np.float64
    )


def numbers(result, model):
    if result is model:
        return model.components_
    result = getattr(result, "compute", lambda: result)()
    return np.array(getattr(result, "components_", getattr(result, "details", result)))


def cells():
    """(callable of an input, method, class, what is given, names of the features) for
    every public method.
    """
    X = data()
    names = [*"abcd"]
    for cls in ESTIMATORS:
        model = made(cls, 2).fit(named(X, names))
        for method in filter(lambda name, cls=cls: hasattr(cls, name), METHODS):

            def use(given, model=model, method=method):
                own = deepcopy(model)
                return numbers(
                    getattr(own, method)(
                        given, **{"refit": False} if method == "diagnose" else {}
                    ),
                    own,
                )

            if method == "inverse_transform":
                yield (
                    use,
                    method,
                    cls.__name__,
                    np.round(model.transform(X)),
                    [*model.get_feature_names_out()],
                )
            else:
                yield use, method, cls.__name__, X[ROW] if "one" in method else X, names
    separate = {"n_components": 2, "method": "batch", "random_state": 0}
    yield (
        lambda given: numbers(bionica.separate(given, **separate), None),
        "fit",
        "separate",
        X,
        names,
    )

    def with_amounts(given):
        return (
            bionica.MinimumVolumeCone(2, random_state=0)
            .fit(X, known_sources=given)
            .components_
        )

    yield with_amounts, "fit(known_sources)", "MinimumVolumeCone", X[:, :2], names[:2]


def sentence(error, name):
    """The first sentence of an error in the words that methods share."""
    text = (
        re.sub(rf"\b{name}\b", "ESTIMATOR", str(error))
        .replace("Y", "X")
        .replace("X[0, ", f"X[{ROW}, ")
    )
    return re.sub(r"X\[3, '\w+'\]", "X[3, 1]", text.replace("known_sources", "X"))


def outcome(use, name, kind, given, names):
    """ "same", "other numbers", or what refuses it."""
    with warnings.catch_warnings(action="ignore"):
        try:
            result = use(KINDS[kind][0](given, names))
        except (TypeError, ValueError) as error:
            return sentence(error, name)
        if kind == "reordered":
            given = given if given.ndim == 1 else given[:, ::-1]
        expected = use(given[:1] if kind == "one row" and given.ndim == 2 else given)
    if kind == "reordered":  # data frames have another layout in memory
        return (
            "same"
            if np.allclose(result, expected, rtol=1e-9, atol=1e-9)
            else "other numbers"
        )
    return "same" if np.array_equal(result, expected) else "other numbers"


@pytest.fixture(scope="module")
def outcomes():
    return [
        (method, name, {kind: outcome(use, name, kind, given, names) for kind in KINDS})
        for use, method, name, given, names in cells()
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_takes_or_refuses_a_kind_of_input_alike(outcomes, kind):
    for method, name, found in outcomes:
        keys = [f"{name}.{method}", "one" if "one" in method else method]
        if method == "diagnose" or (method == "fit" and name in TWO):
            keys.append("two")
        reason = next(
            (EXCEPTIONS[key, kind] for key in keys if (key, kind) in EXCEPTIONS),
            KINDS[kind][1],
        )
        assert (reason in found[kind]) if reason else (found[kind] == "same"), (
            method,
            name,
            found[kind],
        )


def test_a_refusal_has_one_sentence(outcomes):
    for kind, (_, reason) in KINDS.items():
        said = {
            found[kind].split(". ")[0]
            for method, _, found in outcomes
            if reason and reason in found[kind]
        }
        said = {re.sub(r"\(shape=.*?\)|minimum of \d", "", text) for text in said}
        assert len(said) == (1 if reason else 0), (kind, said)


def test_dates_in_lists_and_objects_are_refused_too():
    network = bionica.StreamingNICA(2, random_state=0).fit(data())
    row = [np.datetime64("2020-01-01"), 1.0, 2.0, 3.0]
    for given in (
        [row],
        np.array([row], dtype=object),
        [[np.datetime64("2020-01-01")] * 4],
    ):
        with pytest.raises(ValueError, match="X holds dates"):
            network.transform(given)
    with pytest.raises(ValueError, match="X holds dates"):
        network.transform_one(row)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_float32_in_another_byte_order_stays_float32(cls):
    X = data().astype(np.float32)
    model = made(cls, 2)
    ours, theirs = (deepcopy(model).fit(x).transform(x) for x in (X, X.astype(">f4")))
    assert theirs.dtype == np.float32
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_outputs_have_the_precision_of_what_is_transformed(cls):
    """Whatever the precision of the fit: float32 samples give float32 outputs."""
    X = data()
    model = made(cls, 2).fit(X)
    for dtype in (np.float32, np.float64):
        Y = model.transform(X.astype(dtype))
        lazy = model.transform(da.from_array(X.astype(dtype), chunks=100))
        assert Y.dtype == lazy.compute().dtype == dtype
        np.testing.assert_allclose(Y, model.transform(X), rtol=1e-3, atol=1e-3)


def test_a_data_frame_and_a_dask_array_do_not_go_together():
    X = data()
    model = bionica.BatchNICA(2, random_state=0).fit(X).set_output(transform="pandas")
    with pytest.raises(ValueError, match="set_output would gather the Dask array X"):
        model.transform(da.from_array(X, chunks=100))


@pytest.mark.parametrize(
    ("n", "last", "kept"), [(9000, 300, 1200), (9000, 100, 1000), (800, 100, 800)]
)
def test_the_last_rows_are_four_horizons_or_a_thousand(n, last, kept):
    X = np.arange(2.0 * n).reshape(n, 2)
    assert np.array_equal(some_rows(X, last=last), X[-kept:])
