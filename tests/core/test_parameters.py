"""Parameters are checked, and outputs wrapped, as scikit-learn does it."""

from numbers import Integral

import numpy as np
import pytest
import sklearn

import bionica
from bionica.core import parameters as allowed


@pytest.mark.parametrize(
    ("constraint", "text", "accepted", "refused"),
    [
        (
            allowed.COUNT,
            "an int in the range [1, inf)",
            [1, np.int64(5), 10**30],
            [0, 1.0, "1", None, np.nan],
        ),
        (
            allowed.WINDOW,
            "an int in the range [2, 1000000000000000]",
            [2, 10**15],
            [1, 10**15 + 1],
        ),
        (
            allowed.POSITIVE,
            "a float in the range (0.0, inf)",
            [1e-300, 1, np.float32(2)],
            [0, np.inf, np.nan, 1j, "2"],
        ),
        (allowed.SHARE, "a float in the range (0.0, 1.0)", [0.5], [0, 1, 0.0, 1.0]),
        (
            allowed.interval(Integral, 0, 3, closed="(]"),
            "an int in the range (0, 3]",
            [1, 3],
            [0, 4],
        ),
        (allowed.AUTO, "a str among {'auto'}", ["auto", np.str_("auto")], ["Auto", 1]),
        (allowed.options(False), "a bool among {False}", [False], [True, 0]),
        (allowed.FUNCTION, "a callable", [len], [0]),
        (allowed.ARRAY, "an array-like", [[1], np.ones(2), (1,)], ["ab", 1, None]),
        (allowed.BOOLEAN, "an instance of 'bool' or", [True, np.False_], [0, None]),
    ],
)
def test_kinds_of_parameters(constraint, text, accepted, refused):
    assert text in constraint.text
    assert [value for value in accepted if not constraint.holds(value)] == []
    assert [value for value in refused if constraint.holds(value)] == []


def test_several_constraints_are_all_named():
    with pytest.raises(
        ValueError,
        match=(
            r"^The 'n_components' parameter of BatchNICA must be an int in the range"
            r" \[1, inf\)(, .*)? or None\. Got 0 instead\.$"
        ),
    ):
        bionica.BatchNICA(0).fit(np.ones((5, 2)))


@pytest.mark.parametrize("method", ["fit_transform", "partial_fit_transform"])
def test_set_output_applies_to_every_method_that_returns_outputs(method):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(
        np.random.default_rng(0).exponential(size=(200, 3)),
        index=range(5, 205),
        columns=list("abc"),
    )
    network = bionica.StreamingNICA(3, random_state=0)
    plain = getattr(network, method)(X)
    assert isinstance(plain, np.ndarray)
    network = sklearn.clone(network).set_output(transform="pandas")
    frame = getattr(network, method)(X)
    np.testing.assert_array_equal(frame, plain)
    assert [*frame.index] == [*X.index]
    assert [*frame.columns] == ["source_1", "source_2", "source_3"]
