"""A Dask cluster of processes: workers that are killed or have no bionica, a scheduler
that goes away, blocks that change.
"""

import os
import pickle
import signal
import sys
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

dask = pytest.importorskip(
    "dask", reason="dask is not installed (the extra bionica[dask])"
)
da = pytest.importorskip(
    "dask.array", reason="dask is not installed (the extra bionica[dask])"
)
distributed = pytest.importorskip(
    "distributed", reason="distributed is not installed (the extra bionica[dask])"
)

from sklearn.base import clone  # noqa: E402

import bionica  # noqa: E402
from bionica import BatchNICA, MinimumVolumeCone  # noqa: E402

# more than the cone keeps
N_BLOCKS = 12
ROWS = 5000


def block(i, pause=0.0):
    time.sleep(pause)
    mixing = np.random.default_rng(99).standard_normal((3, 6))
    return np.random.default_rng(i).exponential(size=(ROWS, 3)) @ mixing


def array(make=block, *arguments):
    parts = [dask.delayed(make)(i, *arguments) for i in range(N_BLOCKS)]
    return da.concatenate([da.from_delayed(part, (ROWS, 6), float) for part in parts])


def in_memory():
    return np.concatenate([block(i) for i in range(N_BLOCKS)])


ESTIMATORS = {
    "cone": MinimumVolumeCone(3, random_state=0),
    "batch": BatchNICA(3, random_state=0),
}


@pytest.fixture
def client(request):
    """A cluster of two processes; a test may give options of Dask."""
    options = {"distributed.comm.timeouts.connect": "3s"} | getattr(
        request, "param", {}
    )
    with (
        dask.config.set(options),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit="4GiB",
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("name", "persisted"),
    [
        ("cone", False),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [("cone", True), ("batch", True)]
        ),
    ],
)
def test_a_worker_that_is_killed_changes_no_bit(client, name, persisted):
    X = array(block, 0.05)
    estimator = ESTIMATORS[name]
    quiet = estimator.fit(X).components_
    if persisted:
        X = X.persist()
        distributed.wait(X)
    pid = min(client.run(os.getpid).values())
    killer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    killer.start()
    components = estimator.fit(X).components_
    killer.join()
    assert pid not in client.run(os.getpid, on_error="ignore").values()
    assert_array_equal(components, quiet)
    assert_allclose(components, estimator.fit(in_memory()).components_, atol=1e-10)


def fatal(i):
    """A block that ends its worker."""
    return os._exit(1) if i == 3 else block(i)


@pytest.mark.slow
@pytest.mark.parametrize(
    "client", [{"distributed.scheduler.allowed-failures": 0}], indirect=True
)
def test_a_cluster_says_what_ended_a_fit(client):
    for estimator in map(clone, ESTIMATORS.values()):
        with pytest.raises(
            bionica.ClusterError, match="several workers died at one block"
        ):
            estimator.fit(array(fatal))
        assert not hasattr(estimator, "components_")
    client.run(lambda: sys.modules.update(bionica=None))
    with pytest.raises(
        bionica.ClusterError, match="install the same version of bionica on all workers"
    ):
        estimator.fit(array())
    assert not hasattr(estimator, "components_")


@pytest.mark.slow
def test_a_scheduler_that_goes_away_is_named_and_leaves_the_model(client):
    cone = MinimumVolumeCone(3, random_state=0).fit(in_memory())
    before = pickle.dumps(cone)
    threading.Timer(0.5, client.sync, (client.cluster.scheduler.close,)).start()
    with pytest.raises(
        bionica.ClusterError,
        match=r"the scheduler of the cluster is gone.*The model is unchanged",
    ):
        cone.fit(array(block, 0.3))
    assert pickle.dumps(cone) == before


@pytest.mark.parametrize(
    "estimator", [clone(estimator) for estimator in ESTIMATORS.values()]
)
def test_blocks_that_change_between_passes_are_named(estimator):
    calls = []

    def other(i):
        calls.append(i)
        return block(len(calls))

    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(
            ValueError, match=r"have changed between two passes.*X\.persist\(\)"
        ),
    ):
        estimator.fit(array(other))
    assert not hasattr(estimator, "components_")


def test_separate_of_a_dask_array_is_that_of_the_array_in_memory():
    X = in_memory()
    with dask.config.set(scheduler="synchronous"):
        there = bionica.separate(
            da.from_array(X, chunks=(7000, 6)), 3, method="cone", random_state=0
        )
    here = bionica.separate(X, 3, method="cone", random_state=0)
    assert_allclose(there.components_, here.components_, atol=1e-12)
    assert_allclose(
        there.diagnosis_.uncertainty_.angle,
        here.diagnosis_.uncertainty_.angle,
        atol=1e-6,
    )
    assert there.diagnosis_.ok == here.diagnosis_.ok
