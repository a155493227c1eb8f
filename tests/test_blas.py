"""The number of threads of BLAS: one while bionica computes, and afterwards what it was."""

import threading

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

import bionica
from bionica._compat.blas import one_blas_thread


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
    """A enters, B enters, A leaves, B leaves: B must not restore what A had set."""
    a, b = one_blas_thread(), one_blas_thread()
    a.__enter__()
    b.__enter__()
    a.__exit__(None, None, None)
    assert set(threads().values()) == {1}
    b.__exit__(None, None, None)
    assert set(threads().values()) == {2}


def test_an_error_inside_restores_the_number_of_threads(two_threads):
    with pytest.raises(KeyError), one_blas_thread(), one_blas_thread():
        raise KeyError
    assert set(threads().values()) == {2}


def test_fits_in_threads_restore_the_number_of_threads(two_threads):
    X = np.random.default_rng(0).exponential(size=(500, 3))
    barrier = threading.Barrier(4)

    def fit():
        barrier.wait()
        for _ in range(5):
            bionica.BatchNICA(3, random_state=0).fit(X)

    callers = [threading.Thread(target=fit) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert set(threads().values()) == {2}
