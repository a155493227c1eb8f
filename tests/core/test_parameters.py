"""Parameters are checked, and outputs wrapped, as scikit-learn does it."""

import numpy as np
import pytest
import sklearn

import bionica


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
def test_set_output_applies_to_every_method_that_returns_outputs(method, rng):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(
        rng.exponential(size=(200, 3)),
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
