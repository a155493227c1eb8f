"""Sources against their distributions, matrices against the paper's print, images
against their pixels.
"""

import sys
import zlib
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from bionica.datasets import (
    copula_uniform,
    mix,
    natural_images,
    odors,
    paper_mixing,
    random_mixing,
    random_sources,
    sparse_uniform,
)

unhurried = settings(deadline=None, max_examples=30)
seeds = st.integers(0, 2**32 - 1)
ONES = np.ones((4, 3))

# What is left when the zeros are taken out, as a frozen distribution; and the
# probability of 0.
LAWS = {
    "sparse_uniform": (stats.uniform(scale=np.sqrt(48 / 5)), 0.5),
    "exponential": (stats.expon(), 0.0),
    "half_normal": (stats.halfnorm(scale=1 / np.sqrt(1 - 2 / np.pi)), 0.0),
    "gamma": (stats.gamma(2, scale=1 / np.sqrt(2)), 0.0),
    "odor": (stats.expon(scale=1 / np.sqrt(0.1 * 1.9)), 0.9),
}


@pytest.mark.parametrize(
    ("kind", "law", "p_zero"), [(kind, *law) for kind, law in LAWS.items()]
)
def test_sources_follow_their_law(kind, law, p_zero):
    n = 50_000
    S = random_sources(kind, n, 2, rng=1)
    assert S.shape == (n, 2)
    assert S.min() >= 0
    if np.isfinite(law.support()[1]):
        assert law.ppf(0.999) < S.max() <= law.support()[1]
    for s in S.T:
        assert np.mean(s == 0) == pytest.approx(
            p_zero, abs=5 * np.sqrt(p_zero * (1 - p_zero) / n)
        )
        assert stats.kstest(s[s > 0], law.cdf).pvalue > 1e-3
        fourth = np.mean((s - s.mean()) ** 4)
        assert s.var() == pytest.approx(1, abs=5 * np.sqrt(fourth / n))
    assert abs(np.corrcoef(S.T)[0, 1]) < 5 / np.sqrt(n)


@pytest.mark.parametrize("d", [2, 5])
def test_abundances_are_dirichlet_of_unit_variance(d):
    S = random_sources("abundances", 20_000, d, rng=1)
    total = S.sum(axis=1)
    assert_allclose(total, total[0])
    for s in S.T:
        assert (
            stats.kstest(s / total[0], stats.beta(0.5, (d - 1) / 2).cdf).pvalue > 1e-3
        )
        assert s.var() == pytest.approx(1, abs=0.05)
    assert np.corrcoef(S.T)[0, 1] == pytest.approx(-1 / (d - 1), abs=0.03)


def test_odors_are_mixed_by_log_normal_affinities():
    S, A = odors(4000, 3, 8, rng=2)
    assert np.mean(S == 0) == pytest.approx(0.9, abs=0.02)
    assert A.shape == (8, 3)
    assert odors(10)[1].shape == (21, 5)
    assert_array_equal(odors(10, 3, 8, rng=2)[1], A)
    logs = np.log(odors(1, 200, 200, rng=0)[1])
    assert stats.kstest(logs.ravel()[:5000], "norm").pvalue > 1e-3


@unhurried
@given(
    kind=st.sampled_from([*LAWS]),
    seed=seeds,
    n=st.integers(1, 40),
    n_next=st.integers(1, 40),
    d=st.integers(1, 5),
)
def test_blocks_of_one_generator_continue_each_other(kind, seed, n, n_next, d):
    whole = random_sources(kind, n + n_next, d, rng=seed)
    generator = np.random.default_rng(seed)
    blocks = [random_sources(kind, size, d, rng=generator) for size in (n, n_next)]
    assert np.array_equal(np.vstack(blocks), whole)
    assert np.array_equal(random_sources(kind, n, d, rng=seed), whole[:n])


@pytest.mark.parametrize("draw", [sparse_uniform, partial(copula_uniform, rho=0.3)])
def test_seeds(draw):
    S = draw(50, 3, rng=7)
    assert S.dtype == np.float64
    for rng in (7, np.int64(7), np.random.default_rng(7)):
        assert_array_equal(draw(50, 3, rng=rng), S)
    assert not np.array_equal(S, draw(50, 3, rng=8))
    assert not np.array_equal(draw(50, 3), draw(50, 3))


@pytest.mark.parametrize(
    ("rho", "df"),
    [(0.0, 4), (0.5, 4), (0.9, 1), (-0.4, 4), (-0.5, 4), (0.3, 2.5), (0.5, np.inf)],
)
def test_copula_has_uniform_margins_and_the_rank_correlation_of_its_rho(rho, df):
    n = 4000
    S = copula_uniform(n, 3, rho, df=df, rng=4)
    assert S.min() >= 0
    assert S.max() <= np.sqrt(12)
    for s in S.T:
        assert stats.kstest(s / np.sqrt(12), "uniform").pvalue > 1e-3
    if df == 4:
        assert_array_equal(copula_uniform(n, 3, rho, rng=4), S)
    # Kendall's tau of every elliptical copula, whatever its df.
    tau = 2 / np.pi * np.arcsin(rho)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert stats.kendalltau(S[:, i], S[:, j]).statistic == pytest.approx(
            tau, abs=5 * 0.7 / np.sqrt(n)
        )


def test_mixtures_are_s_times_a_transposed():
    S = sparse_uniform(100, 3, rng=0)
    X, A = mix(S, rng=1)
    assert A.shape == (3, 3)
    assert_allclose(X, S @ A.T, rtol=1e-12)
    X, A = mix(S.astype(np.float32), n_mixtures=7, rng=1)
    assert X.shape == (100, 7)
    assert A.shape == (7, 3)
    assert X.dtype == A.dtype == np.float32


@pytest.mark.parametrize("snr_db", [-10, 0, 30])
def test_noise_has_the_asked_ratio_in_every_mixture(snr_db):
    S = sparse_uniform(50_000, 3, rng=3)
    A = np.array([[1.0, 2, 3], [0.01, 0, 0], [-100, 50, 0]])
    clean, (noisy, _) = S @ A.T, mix(S, A, snr_db=snr_db, rng=4)
    noise = noisy - clean
    measured = 10 * np.log10(np.mean(clean**2, axis=0) / np.mean(noise**2, axis=0))
    assert_allclose(measured, snr_db, atol=0.1)
    assert np.abs(np.corrcoef(noise.T) - np.eye(3)).max() < 0.03
    assert np.array_equal(mix(S, A, snr_db=np.inf)[0], clean)


@pytest.mark.parametrize(
    ("setting", "checksum"),
    [("d3", 3830043369), ("d10", 1066409646), ("images-printed", 14433669)],
)
def test_paper_mixing_is_as_printed(setting, checksum):
    """CRC-32 of the numbers in the paper's LaTeX source."""
    A = paper_mixing(setting)
    assert zlib.crc32(A.astype("<f8").tobytes()) == checksum
    A[:] = 0
    assert zlib.crc32(paper_mixing(setting).astype("<f8").tobytes()) == checksum


def test_the_images_are_mixed_by_the_matrix_of_the_data_not_by_the_printed_one():
    A = paper_mixing("images")
    printed = paper_mixing("images-printed")
    assert np.sum(A**2) == pytest.approx(2.34, abs=0.005)
    assert np.sum(printed**2) == pytest.approx(14.65, abs=0.005)
    assert np.linalg.cond(A) < 3
    # To the digits that the least squares of the authors' data are exact to.
    rows = [
        [-0.672782973, 0.508403817, 0.225806594],
        [-0.012076203, -0.372860189, 0.806204631],
        [-0.454731770, -0.702256635, -0.301557802],
    ]
    assert_allclose(A, rows, atol=6e-10)


def assert_grounded(S):
    assert_array_equal(S.min(axis=0), 0)
    assert_allclose(S.var(axis=0), 1, rtol=1e-12)


def affine(S, raw):
    """Whether each column of S is an increasing affine image of that of raw."""
    return all(
        np.corrcoef(s, r)[0, 1] > 1 - 1e-12 for s, r in zip(S.T, raw.T, strict=True)
    )


def test_default_images_are_the_middle_of_scikit_images():
    data = pytest.importorskip("skimage.data")
    S = natural_images()
    assert S.shape == (252 * 252, 3)
    assert_grounded(S)
    names = ("camera", "brick", "gravel")
    middle = [getattr(data, name)()[130:382, 130:382].ravel() for name in names]
    assert affine(S, np.column_stack(middle))
    assert natural_images(names=["grass", "moon"], size=100).shape == (10_000, 2)
    assert natural_images(names=["grass"], size=None).shape == (512 * 512, 1)


@pytest.fixture
def pictures(rng):
    return [
        rng.integers(0, 256, shape, dtype=np.uint8) for shape in ((12, 10), (10, 14))
    ]


def test_a_folder_of_image_files(tmp_path, pictures):
    io = pytest.importorskip("skimage.io")
    io.imsave(tmp_path / "b.png", pictures[0], check_contrast=False)
    io.imsave(tmp_path / "a.png", pictures[1], check_contrast=False)
    (tmp_path / "notes.txt").write_text("not an image")
    S = natural_images(tmp_path)
    assert_grounded(S)
    # 10 by 10
    common = np.column_stack([pictures[1][:, 2:12].ravel(), pictures[0][1:11].ravel()])
    assert affine(S, common)
    swapped = natural_images(tmp_path, names=["b.png", "a.png"])
    assert_array_equal(swapped, S[:, ::-1])
    assert natural_images(tmp_path, names=["a.png"], size=8).shape == (64, 1)


def test_arrays_on_disk_need_no_scikit_image(tmp_path, pictures, monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage", None)
    stack = np.stack([pictures[0][:10], pictures[1][:, :10]])
    np.save(tmp_path / "flat.npy", stack.reshape(2, -1))
    np.save(tmp_path / "stack.npy", stack)
    S = natural_images(tmp_path / "flat.npy")
    assert_grounded(S)
    assert affine(S, stack.reshape(2, -1).T)
    assert_array_equal(natural_images(tmp_path / "stack.npy"), S)
    assert natural_images(tmp_path / "stack.npy", size=3).shape == (9, 2)
    for bad, message in (
        (np.ones((100, 2)), "save .n_images, n_pixels."),
        (np.ones((2, 9)), "image '0' is constant"),
        (np.array([{"a": 1}]), "allow_pickle"),
    ):
        np.save(tmp_path / "bad.npy", bad, allow_pickle=True)
        with pytest.raises(ValueError, match=message):
            natural_images(tmp_path / "bad.npy")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sparse_uniform(0, 3), r"n_samples == 0"),
        (lambda: random_sources("laplace", 10, 3), "kind='laplace' is unknown"),
        (lambda: copula_uniform(10, 3, 1.0), r"rho=1.0 .*-0.5 <= rho < 1"),
        (lambda: copula_uniform(10, 1, -1.01), r"rho=-1.01 .*-1 <= rho < 1"),
        (lambda: copula_uniform(10, 3, 0.5, df=0), r"df=0 must be positive"),
        (lambda: mix(np.ones(4)), r"S has shape \(4,\)"),
        (lambda: mix(ONES, ONES.T), r"A has shape \(3, 4\) and S has 3 columns"),
        (lambda: mix(ONES, np.eye(3), n_mixtures=4), "n_mixtures=4 but A has 3 rows"),
        (lambda: mix(ONES, snr_db=np.nan), "snr_db=nan"),
        (lambda: mix(ONES, snr_db=-np.inf), "snr_db=-inf"),
        (lambda: random_mixing(2, 3, 10), "n_mixtures=2 is less than n_sources=3"),
        (lambda: random_mixing(3, 3, 0.99), "condition=0.99 is not a condition"),
        (lambda: random_mixing(3, 3, 10, rms=0), "rms=0 is not a size of entries"),
        (lambda: paper_mixing("d4"), "setting='d4' is unknown: use one of 'd3', 'd10'"),
        (lambda: natural_images(names=["lena"]), r"names holds 'lena'.*'camera'"),
        (lambda: natural_images(names="camera"), "names='camera' is one string"),
    ],
)
def test_errors_name_the_parameter_and_the_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()
