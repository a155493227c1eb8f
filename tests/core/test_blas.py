"""The number of threads of BLAS: one while bionica computes, and afterwards what it
was.
"""

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

import bionica
from bionica.core.blas import one_blas_thread


def threads():
    return {
        library["filepath"]: library["num_threads"]
        for library in ThreadpoolController().info()
        if library["user_api"] == "blas"
    }


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        if set(threads().values()) != {2}:
            pytest.skip("this BLAS has one thread")
        yield


def test_calls_that_overlap_restore_the_number_of_threads(two_threads):
    """A enters, B enters, A leaves with an error, B leaves: B must not restore what A
    had set.
    """
    a = one_blas_thread()
    b = one_blas_thread()
    a.__enter__()
    b.__enter__()
    assert not a.__exit__(KeyError, KeyError(), None)  # the error goes on
    assert set(threads().values()) == {1}
    b.__exit__(None, None, None)
    assert set(threads().values()) == {2}


def test_what_is_said_of_a_fit_does_not_depend_on_it(two_threads):
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(600, 4)) @ rng.random(
        (4, 300)
    ) + 0.1 * rng.standard_normal((600, 300))
    said = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            model = bionica.BatchNICA("auto", random_state=0).fit(X)
            said.append(repr((model.count_, model.diagnose(X))))
    assert said[0] == said[1]
