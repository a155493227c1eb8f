"""Dask arrays: the same result as in memory to rounding, for any chunks, and X is never
gathered.
"""

import pickle
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

dask = pytest.importorskip(
    "dask", reason="dask is not installed (the extra bionica[dask])"
)
da = pytest.importorskip(
    "dask.array", reason="dask is not installed (the extra bionica[dask])"
)

import bionica  # noqa: E402
from bionica import BatchNICA, NoncenteredWhitener  # noqa: E402


def mixed(n_samples, d, k=None, noise=0.0, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    S = rng.exponential(size=(n_samples, d)) * (rng.random((n_samples, d)) < 0.7)
    X = S @ rng.standard_normal((d, k or d))
    return (X + noise * rng.standard_normal(X.shape)).astype(dtype)


def ragged(n_rows, seed=0, n_chunks=9):
    """Lengths of chunks that have nothing in common, an empty one and a single row
    among them.
    """
    cuts = np.sort(
        np.random.default_rng(seed).choice(
            np.arange(2, n_rows - 2), n_chunks - 1, replace=False
        )
    )
    return (1, 0, *map(int, np.diff([1, *cuts, n_rows])))


def fitted(nica):
    names = (
        "negativity_",
        "ambiguity_",
        "n_iter_",
        "n_restarts_",
        "n_samples_seen_",
        "n_features_in_",
    )
    scalars = np.array([getattr(nica, name) for name in names])
    return [nica.components_, nica.mixing_, nica.whitening_, nica.mean_, scalars]


def assert_same(one, other):
    """To rounding: 1e-10 of the largest entry for float64."""
    rtol = 1e-10 if one.components_.dtype == np.float64 else 1e-5
    for a, b in zip(fitted(one), fitted(other), strict=True):
        assert_allclose(b, a, rtol=0, atol=rtol * np.abs(a).max())


@pytest.fixture(autouse=True)
def two_threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.mark.parametrize(
    ("n_components", "X"),
    [
        (3, mixed(150_000, 3)),
        (3, mixed(60_000, 3, 8)),
        (None, mixed(60_000, 3, 8)),
        ("auto", mixed(20_000, 3, 6, noise=0.02)),
        (3, mixed(150_000, 3, dtype=np.float32)),
        (4, mixed(4000, 4)),  # so few that the first search takes them all
    ],
    ids=["d3", "tall", "rank", "auto", "float32", "few"],
)
def test_the_fit_is_that_of_the_array_in_memory(n_components, X):
    n, k = X.shape
    here = BatchNICA(n_components, random_state=0).fit(X)
    for chunks in ((n // 7, k), (ragged(n), (k,)), (997 + n // 50, 2)):
        lazy = da.from_array(X, chunks=chunks)
        there = BatchNICA(n_components, random_state=0).fit(lazy)
        assert_same(here, there)
        assert there.components_.dtype == X.dtype


def test_blocks_of_unknown_length_are_refused():
    lazy = da.from_array(mixed(300, 3), chunks=(70, 3))
    nica = BatchNICA(random_state=0).fit(lazy)
    for use in (nica.fit, nica.transform):
        with pytest.raises(TypeError, match="compute_chunk_sizes"):
            use(lazy[lazy[:, 0] > -np.inf])


class Watch:
    """Makes the blocks of a Dask array and knows how many of their rows are alive at a
    time.
    """

    def __init__(self, n_blocks, rows, d):
        self.alive, self.most, self.made, self.lock = 0, 0, 0, threading.Lock()
        self.mixing = np.random.default_rng(0).standard_normal((d, d))
        self.rows = rows
        self.d = d
        blocks = [dask.delayed(self.make, pure=False)(i) for i in range(n_blocks)]
        self.array = da.concatenate(
            [da.from_delayed(b, (rows, d), dtype=np.float64) for b in blocks]
        )

    def make(self, i):
        block = (
            np.random.default_rng(i).exponential(size=(self.rows, self.d)) @ self.mixing
        )
        watched = Watched(block.shape)
        watched[:] = block
        watched.watch = self
        with self.lock:
            self.alive += 1
            self.made += 1
            self.most = max(self.most, self.alive)
        return watched

    def __dask_tokenize__(self):
        return id(self)


class Watched(np.ndarray):
    watch = None

    def __del__(self):
        if self.watch is not None:
            with self.watch.lock:
                self.watch.alive -= 1


@pytest.mark.parametrize("rows", [16_384, 34_002])
def test_few_blocks_are_in_memory_at_a_time(rows):
    n_blocks = 40
    X = Watch(n_blocks, rows, 4)
    nica = BatchNICA(random_state=0).fit(X.array)
    assert nica.n_samples_seen_ == n_blocks * rows
    assert nica.negativity_ < 1e-3
    assert X.made > 5 * n_blocks  # several passes, each computes its blocks again
    assert X.most <= 10
    assert X.alive == 0


def test_the_networks_hold_one_block_at_a_time():
    X = Watch(12, 5000, 3)
    bionica.TwoCompartmentNICA(3, random_state=0, init="random").fit(X.array)
    assert X.made == 12
    assert X.most <= 2
    X = Watch(6, 50_000, 3)
    bionica.NonnegativePCA(3, random_state=0, eta0=0.01).fit(X.array)
    assert X.made == 12  # moments, learning
    assert X.most <= 3  # a part may reach from one block into the next


def test_transform_is_lazy():
    X = mixed(20_000, 3, 5)
    nica = BatchNICA(random_state=0).fit(X)
    read = []

    def reading(block):
        read.append(len(block))
        return block

    lazy = da.from_array(X, chunks=(3000, 5)).map_blocks(
        reading, dtype=X.dtype, meta=np.empty((0, 0))
    )
    Y = nica.transform(lazy)
    back = nica.inverse_transform(Y)
    assert read == []
    assert Y.chunks == (lazy.chunks[0], (3,))
    assert back.shape == X.shape
    assert_array_equal(Y.blocks[0].compute(), nica.transform(X[:3000]))
    assert read == [3000]
    expected = nica.inverse_transform(nica.transform(X))
    assert_allclose(back.compute(), expected, atol=1e-12)


@pytest.mark.parametrize(
    "estimator", [BatchNICA(3), BatchNICA("auto"), NoncenteredWhitener()]
)
def test_the_first_bad_row_is_named_though_a_later_block_is_read_before(estimator):
    X = mixed(30_000, 3)
    later = threading.Event()
    X[[13_000, 27_000], 1] = np.nan

    def slow(block, block_info=None):
        """Wait in the second block until the last one has been read."""
        number = block_info[0]["chunk-location"][0]
        later.set() if number == 2 else later.wait(5 * number)
        return block

    with pytest.raises(ValueError, match=r"X\[13000, 1\] is NaN"):
        estimator.fit(
            da.from_array(X, chunks=(10_000, 3)).map_blocks(slow, dtype=X.dtype)
        )


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        *((da.zeros(shape), ValueError, "Expected 2D") for shape in ((9,), (9, 3, 2))),
        (da.zeros((9, 0)), ValueError, "Expected 2D"),
        (da.zeros((5, 2), dtype=complex), TypeError, "complex128"),
        (da.zeros((1, 2)), ValueError, "minimum of 2"),
        (da.zeros((100, 3)), ValueError, "do not vary"),
        (dask.delayed(np.zeros)((5, 2)), TypeError, r"to_dask_array\(lengths=True\)"),
    ],
)
def test_what_cannot_be_fitted_says_so(X, error, message):
    with pytest.raises(error, match=message):
        BatchNICA().fit(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_networks_read_blocks_in_their_order(Neural, dtype):
    k = 3 if Neural is bionica.NonnegativePCA else 4
    X = mixed(9000, 3, k, dtype=dtype)
    lazy = da.from_array(X, chunks=(ragged(9000), (k,)))
    here, there = (
        Neural(3, random_state=0, eta0=0.01, n_epochs=2).fit(data) for data in (X, lazy)
    )
    assert_allclose(there.components_, here.components_, rtol=0, atol=1e-12)
    here, there = (Neural(3, random_state=0, eta0=0.01) for _ in "ab")
    assert_array_equal(there.partial_fit_transform(lazy), here.partial_fit_transform(X))
    assert_array_equal(there.components_, here.components_)
    Y = there.transform(lazy)
    assert Y.dtype == dtype
    there.partial_fit(X)  # later learning does not change what was asked for before
    assert_array_equal(Y.compute(), here.transform(X))


def test_a_bad_later_block_leaves_a_network_as_it_was():
    X = mixed(400, 3)
    network = bionica.StreamingNICA(3, random_state=0).partial_fit(X)
    before = pickle.dumps(network)
    bad = X.copy()
    bad[300, 1] = np.nan
    with pytest.raises(ValueError, match=r"X\[300, 1\]"):
        network.partial_fit(da.from_array(bad, chunks=(100, 3)))
    assert pickle.dumps(network) == before
