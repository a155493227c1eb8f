"""Every network, dynamics, guard and shape equals the paper transcribed in NumPy: outputs, weights and repairs."""

import numpy as np
import pytest

import bionica
import naive
from bionica.kernels.rule import copy_state, to_arrays
from bionica.kernels.schedules import learning_rates
from conftest import mixtures

# Loose enough for quadprog's own rounding, and for the interpreted run, whose sums are in another order.
RTOL = 1e-9
N = {"exact": 450, "gradient": 120}
GRADIENT = (None, 1e-13, 20_000)

SHAPES = {"k=d": (3, 3, 3), "k>d": (3, 5, 3), "m>d": (3, 4, 5), "d=1": (1, 2, 1), "d=2": (2, 2, 2), "d=6": (6, 6, 6)}
pytestmark = pytest.mark.interpreted


def problem(n, d, k, seed):
    return mixtures(n, d, k, seed=seed)[1]


def initial_weights(name, d, k, m, rng):
    def orthonormal(r, c):
        return np.linalg.qr(rng.standard_normal((c, r)))[0].T

    W_yn = np.eye(m, d) + 0.1 * rng.standard_normal((m, d))
    return {
        "InterneuronNICA": {"W_xy": orthonormal(d, k), "W_yn": W_yn},
        "TwoCompartmentNICA": {"W_xz": orthonormal(d, k), "W_zz": np.eye(d) + 0.1},
        "TwoLayerNSM": {"W_xh": orthonormal(d, k), "W_hg": np.eye(d), "W_hy": orthonormal(d, d), "W_yy": np.eye(d)},
        "NonnegativePCA": {"W": orthonormal(d, d), "W_xh": orthonormal(d, k), "W_hg": np.eye(d)},
    }[name]


def compare(Network, X, init, *, dynamics="exact", guards=(), window=None, m=None, eta0=0.02, tau=0.5):
    """Run both; return our estimator and the naive repairs."""
    name, n = Network.__name__, len(X)
    rates, zetas = learning_rates(eta0, 1e-3, 1.0, 0, n), learning_rates(0.01, 0.01, 1.0, 0, n)
    full = {"W_ny": init["W_yn"].T} | init if name == "InterneuronNICA" else init
    plain = {"precondition": None, "average": False}
    run, own, options = {
        "InterneuronNICA": (naive.interneuron, {"n_interneurons": m} | plain, {}),
        "TwoCompartmentNICA": (naive.two_compartment, {"tau": tau} | plain, {"tau": tau}),
        "TwoLayerNSM": (naive.two_layer_nsm, plain, {"zetas": zetas}),
        "NonnegativePCA": (naive.nonnegative_pca, {"whiten": "online"}, {"zetas": zetas}),
    }[name]
    own = own | {"init": init, "random_state": 7}
    d = len(next(iter(init.values())))
    estimator = Network(
        d, dynamics=dynamics, settle_tol=GRADIENT[1], settle_steps=GRADIENT[2], guards=guards, mean_window=window, eta0=eta0,
        decay=1e-3, **own,
    )  # fmt: skip
    Y = estimator.partial_fit_transform(X)
    seed = Network(d, **own).partial_fit(X[:1])._state.rng
    options["gradient"] = None if dynamics == "exact" and "W_ny" not in init else GRADIENT
    Y_naive, weights, repairs = run(X, full, rates, guards=guards, seed=seed, window=window, **options)
    np.testing.assert_allclose(Y, Y_naive, rtol=RTOL, atol=RTOL * max(Y_naive.max(), 1))
    learned = to_arrays(estimator._state)
    for weight, W in weights.items():
        ours = learned.get(weight, learned.get("layer." + weight))
        np.testing.assert_allclose(ours, W, rtol=RTOL, atol=RTOL * np.abs(W).max(), err_msg=weight)
    return estimator, repairs


@pytest.mark.parametrize(("dynamics", "shape"), [*(("exact", shape) for shape in SHAPES), ("gradient", "m>d")])
def test_plain(Neural, dynamics, shape):
    d, k, m = SHAPES[shape]
    init = initial_weights(Neural.__name__, d, k, m, np.random.default_rng(1))
    estimator, _ = compare(Neural, problem(N[dynamics], d, k, 2), init, dynamics=dynamics, m=m)
    assert sum(estimator.repairs_.values()) == 0


def test_window_of_the_running_means(Neural):
    init = initial_weights(Neural.__name__, 3, 4, 4, np.random.default_rng(1))
    compare(Neural, problem(300, 3, 4, 2), init, window=50, m=4)


def provocation(name, guards, d, k):
    """Initial weights and a rate under which each of the guards has to act on nonnegative mixtures."""
    square, wide = np.eye(d) + 0.1, np.eye(d, k) + 0.1
    init = {
        "InterneuronNICA": {"W_xy": wide.copy(), "W_yn": np.eye(d)},
        "TwoCompartmentNICA": {"W_xz": wide.copy(), "W_zz": np.eye(d)},
        "TwoLayerNSM": {"W_xh": wide, "W_hg": np.eye(d), "W_hy": square.copy(), "W_yy": np.eye(d)},
        "NonnegativePCA": {"W": square.copy(), "W_xh": wide, "W_hg": np.eye(d)},
    }[name]
    forward = init[{"InterneuronNICA": "W_xy", "TwoCompartmentNICA": "W_xz", "TwoLayerNSM": "W_hy"}.get(name, "W")]
    lateral = {"InterneuronNICA": "W_yn", "TwoCompartmentNICA": "W_zz", "TwoLayerNSM": "W_yy"}.get(name)
    eta0 = 0.02
    if "silent" in guards:
        forward[0] *= -1  # inhibited by every input: it never fires
    if "row" in guards:
        forward[1] *= 1e-3
        eta0 = 1e-5
    if "spectrum" in guards:
        init[lateral][d - 1, d - 1] = 2e-3
        eta0 = 1e-13  # the activity is large, and would restore the weight before the guard looks
    return init, eta0


def test_every_guard_alone_and_all_together(Neural):
    """Each guard acts when it is provoked, and changes the network as the naive one's does."""
    d, k = 3, 4
    rng = np.random.default_rng(3)
    X = mixtures(350, d)[0] @ rng.uniform(0.1, 1, (d, k))
    X[::40] *= 5  # too large for the rate
    beyond = {"TwoCompartmentNICA": ["rate"], "TwoLayerNSM": ["spectrum"], "NonnegativePCA": ["rate"]}
    every = (*Neural._published["always"]["guards"], *beyond.get(Neural.__name__, []))
    for guards in [*((guard,) for guard in every), every]:
        init, eta0 = provocation(Neural.__name__, guards, d, k)
        estimator, repairs = compare(Neural, X, init, guards=guards, eta0=eta0)
        ours = {guard: estimator.repairs_[guard] for guard in repairs}
        assert ours == repairs
        if len(guards) == 1:
            assert ours[guards[0]] > 0, f"{guards[0]} was not provoked"
            assert sum(ours.values()) == ours[guards[0]]


@pytest.mark.parametrize("dynamics", N)
def test_independent_interneuron_weights(dynamics):
    """Appendix B: W_ny and W_yn start apart, and the neurons always iterate."""
    rng = np.random.default_rng(5)
    d, m = 3, 4
    init = initial_weights("InterneuronNICA", d, d, m, rng)
    init["W_ny"] = init["W_yn"].T + 0.2 * rng.standard_normal((d, m))
    compare(bionica.InterneuronNICA, problem(N["gradient"], d, d, 6), init, dynamics=dynamics, m=m)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few samples
@pytest.mark.parametrize("whiten", ["offline", False])
def test_nonnegative_pca_whitened_beforehand(whiten):
    d, k = 3, 5 if whiten == "offline" else 3
    X = problem(300, d, k, 8)
    F = naive.whiten_offline(X, d)
    init = {"W": np.linalg.qr(np.random.default_rng(9).standard_normal((d, d)))[0]}
    data = X if whiten == "offline" else X @ F.T
    estimator = bionica.NonnegativePCA(d, whiten=whiten, init=init, guards=False, eta0=0.02, decay=1e-3, random_state=0)
    estimator.fit(data)
    used = F
    if whiten == "offline":
        # Eigenvectors have no sign of their own: whitening may differ by a reflection of each direction.
        signs = np.sign(np.sum(estimator.whitening_ * F, axis=1))
        np.testing.assert_allclose(estimator.whitening_, signs[:, None] * F, rtol=1e-9)
        used = estimator.whitening_
    rates = learning_rates(0.02, 1e-3, 1.0, 0, len(X))
    _, weights, _ = naive.nonnegative_pca(X, init, rates, F=used)
    np.testing.assert_allclose(estimator.W_, weights["W"], rtol=RTOL, atol=RTOL)
    np.testing.assert_allclose(estimator.transform(data[:5]), np.maximum(X[:5] @ used.T @ weights["W"].T, 0), atol=RTOL)


def test_float32_follows_float64(Neural):
    """Single precision stays single, and near the double precision network."""
    _, X = mixtures(700, 3)
    single = Neural(3, random_state=0, eta0=0.01).partial_fit_transform(X.astype(np.float32))
    double = Neural(3, random_state=0, eta0=0.01).partial_fit_transform(X)
    assert single.dtype == np.float32
    assert np.median(np.abs(single - double)) < 1e-3


SINGLE_LAYER = [bionica.InterneuronNICA, bionica.TwoCompartmentNICA]
GUARDS = ("silent", "rate", "restart")


def both_natural(Single, shape, X, horizon, guards):
    """Our natural network and the naive one after X, started alike with an output whose mean is negative."""
    d, k, m = SHAPES[shape]
    own = {"n_interneurons": m} if Single is bionica.InterneuronNICA else {}
    ours = Single(d, horizon=horizon, guards=guards, random_state=0, **own)
    ours.n_features_in_ = k
    ours._reset(X)
    ours._start(X[:120])
    state = ours._state
    for A in (state.W, state.W_mean):
        A[0] *= -1
    ours._state = copy_state(state)
    white = naive.RunningWhitening(state.white.K, horizon or 0, state.white.v_bar, state.white.n[0])
    M = np.vstack([np.linalg.cholesky(state.M).T, np.zeros((m - d, d))]) if own else state.M  # W_yn or W_zz
    rule = (naive.NaturalInterneuron if own else naive.NaturalTwoCompartment)(state.F, white, state.W, M, guards)
    rates = ours._rates(state, len(X))[:, 0]
    Y = ours.partial_fit_transform(X)
    np.testing.assert_allclose(Y, [rule.step(x, eta) for x, eta in zip(X, rates, strict=True)], rtol=1e-8, atol=1e-8)
    weights = {"W": rule.W, "M": rule.M, "W_mean": rule.W_mean, "M_mean": rule.M_mean}
    learned = to_arrays(ours._state)
    for name, A in (weights | {"white.K": white.K, "white.v_bar": white.v_bar}).items():
        np.testing.assert_allclose(learned[name], A, rtol=1e-8, atol=1e-8 * np.abs(A).max(), err_msg=name)
    assert ours._state.turned[0] == pytest.approx(white.turned)
    assert ours.repairs_["restart"] == white.restarts
    assert ours.repairs_["silent"] == rule.flipped
    return rule


@pytest.mark.parametrize(
    ("shape", "horizon", "guards"),
    [("k=d", None, GUARDS), ("k>d", 60, ()), ("m>d", 60, GUARDS), ("d=1", None, ()), ("d=6", 60, GUARDS)],
)
@pytest.mark.parametrize("Single", SINGLE_LAYER, ids=lambda cls: cls.__name__)
def test_natural_networks(Single, shape, horizon, guards):
    """The natural networks go the naive way: outputs, weights, averages, whitening."""
    d, k, _ = SHAPES[shape]
    X = problem(500, d, k, 21)
    X[45::90] *= 40  # far out
    both_natural(Single, shape, X, horizon, guards)


@pytest.mark.parametrize("Single", SINGLE_LAYER, ids=lambda cls: cls.__name__)
def test_natural_networks_restart(Single):
    """After a change of the mixing and the gain, in the tenth block of 360 samples; a sensor repeats itself before that."""
    X = np.vstack([problem(3300, 2, 2, 21), 1e-3 * problem(1000, 2, 2, 22)])
    X[500:560] = X[500]
    white = both_natural(Single, "d=2", X, 400, GUARDS).white
    assert white.restarts == 1
    assert white.prior == 0
