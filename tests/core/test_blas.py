"""The number of threads of BLAS: one while bionica computes, and afterwards what it
was.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

import bionica
from bionica.core.blas import one_blas_thread

# Threads that fit at the same time, as the first thing that a process does.
FIRST_FITS = """
import json
import sys
from threading import Barrier, Thread
import numpy as np
import scipy.linalg
from threadpoolctl import ThreadpoolController
import bionica

libraries = ThreadpoolController().select(user_api="blas").lib_controllers
before = [library.num_threads for library in libraries]
rng = np.random.default_rng(0)
X = rng.exponential(size=(300, 3)) @ rng.random((3, 10))
n = int(sys.argv[1])
together = Barrier(n)
errors = []

def fit():
    for _ in range(3):
        together.wait()
        try:
            bionica.BatchNICA(3).fit(X)
        except Exception as error:
            errors.append(repr(error))
    together.wait()

threads = [Thread(target=fit) for _ in range(n)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
after = [library.num_threads for library in libraries]
print(json.dumps([before, after, errors]))
"""


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


@pytest.fixture
def worker():
    with ThreadPoolExecutor(1) as executor:
        yield lambda call, *arguments: executor.submit(call, *arguments).result()


def test_the_last_to_leave_restores_what_another_thread_had_set(two_threads, worker):
    mine = one_blas_thread()
    other = one_blas_thread()
    mine.__enter__()
    worker(other.__enter__)
    mine.__exit__(None, None, None)
    assert set(threads().values()) == {1}
    worker(other.__exit__, None, None, None)
    assert set(threads().values()) == {2}


def test_a_limit_holds_in_any_thread_after_one_in_the_main_thread(two_threads, worker):
    limited = one_blas_thread()(threads)
    assert set(limited().values()) == {1}
    assert set(worker(limited).values()) == {1}
    assert set(threads().values()) == {2}


def test_nested_calls_and_errors_restore_the_number_of_threads(two_threads, worker):
    seen = []

    @one_blas_thread()
    def fails(depth):
        if depth == 0:
            raise KeyError
        with pytest.raises(KeyError):
            fails(depth - 1)
        seen.extend(threads().values())
        raise KeyError

    for run in (lambda call, *arguments: call(*arguments), worker):
        with pytest.raises(KeyError):
            run(fails, 2)
        assert set(threads().values()) == {2}
    assert set(seen) == {1}


def test_other_threads_may_set_the_number_of_threads_afterwards(two_threads, worker):
    with one_blas_thread():
        pass

    def limited():
        with threadpool_limits(1, user_api="blas"):
            return threads()

    assert set(worker(limited).values()) == {1}


@pytest.mark.parametrize("n_threads", [2, 4])
def test_first_fits_of_a_process_in_threads_restore_the_number_of_threads(n_threads):
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith("_NUM_THREADS")
    }
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", FIRST_FITS, str(n_threads)],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        before, after, errors = json.loads(run.stdout)
        if set(before) == {1}:
            pytest.skip("this BLAS has one thread: the machine has one core")
        assert after == before
        assert not errors


def test_what_is_said_of_a_fit_does_not_depend_on_it(two_threads, rng):
    X = rng.exponential(size=(600, 4)) @ rng.random(
        (4, 300)
    ) + 0.1 * rng.standard_normal((600, 300))
    said = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            model = bionica.BatchNICA("auto", random_state=0).fit(X)
            said.append(repr((model.count_, model.diagnose(X))))
    assert said[0] == said[1]
