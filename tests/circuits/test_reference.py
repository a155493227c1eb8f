"""Every compiled network, dynamics, guard and shape equals the paper in NumPy: outputs,
weights and repairs.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bionica
import naive
from bionica import metrics
from bionica.circuits import reference
from bionica.engine.learner import Schedule
from conftest import learned, mixtures, mixtures_for

# Loose enough for the iterations, and for the interpreted run, whose sums are in
# another order.
RTOL = 1e-10
N = {"exact": 450, "gradient": 120}
SETTLING = {"settle_tol": 1e-13, "settle_steps": 20_000}

SHAPES = {
    "k=d": (3, 3, 3),
    "k>d": (3, 5, 3),
    "m>d": (3, 4, 5),
    "d=1": (1, 2, 1),
    "d=2": (2, 2, 2),
    "d=6": (6, 6, 6),
}
pytestmark = pytest.mark.interpreted


# --- the reference alone


@pytest.mark.parametrize("d", [1, 2, 6])
def test_neurons_at_rest_by_three_solvers(d, rng):
    """Nonnegative least squares, quadprog (which the authors used) and the paper's
    iterations (9) and (15) agree; so do ties.
    """
    for _ in range(10):
        W_yn = np.eye(d + 1, d) + 0.5 / np.sqrt(d) * rng.standard_normal((d + 1, d))
        c = rng.standard_normal(d)
        W_zz = W_yn.T @ W_yn
        z = reference.settle(W_zz, c)
        assert_allclose(z, naive.settle_qp(W_zz, c), rtol=1e-10, atol=1e-11)
        assert_allclose(
            z, reference.settle(W_zz, c, gamma=1 / np.trace(W_zz)), rtol=1e-8, atol=1e-9
        )
        for gamma in (None, 0.3 / np.trace(W_zz)):
            y, n = reference.settle_interneurons(W_yn, W_yn.T, c, gamma)
            assert_allclose(y, z, rtol=1e-8, atol=1e-9)
            assert_allclose(n, W_yn @ y, rtol=1e-8, atol=1e-9)
        # some z_i = w_i = 0
        assert_allclose(reference.settle(W_zz, W_zz @ z), z, rtol=1e-10, atol=1e-11)
        W_ny = W_yn.T + 0.1 / d * rng.standard_normal((d, d + 1))
        y, n = reference.settle_interneurons(W_yn, W_ny, c)
        assert_allclose(y, naive.settle_lcp(W_ny @ W_yn, c), rtol=1e-8, atol=1e-9)


def test_interneuron_weights_meet(rng):
    """Appendix B: W_ny - W_yn' shrinks by the product of 1 - eta_t."""
    X = mixtures(60, 2)[1]
    rates = reference.learning_rate(np.arange(60), 0.1, 0.05)
    state = reference.interneuron(2, 2, rng, m=3) | {
        "W_ny": np.eye(2, 3) + 0.1 * rng.standard_normal((2, 3))
    }
    before = state["W_ny"] - state["W_yn"].T
    reference.run(reference.interneuron_step, state, X, rates)
    assert_allclose(
        state["W_ny"] - state["W_yn"].T,
        np.prod(1 - rates) * before,
        rtol=1e-10,
        atol=1e-14,
    )


def test_rates_and_error_are_those_of_the_package(rng):
    assert_array_equal(
        reference.learning_rate(np.arange(9), 0.1, 1e-3), Schedule(0.1, 1e-3)(0, 9)
    )
    S, Y = rng.random((2, 30, 4))
    assert_allclose(reference.error_curve(S, Y), metrics.error_curve(S, Y), rtol=1e-13)


# --- the compiled networks


def initial_weights(name, d, k, m, rng=None):
    """Rows that are orthonormal, or without a generator positive, and lateral weights
    near or equal to the identity.
    """

    def rows(r, c):
        return (
            np.eye(r, c) + 0.1
            if rng is None
            else np.linalg.qr(rng.standard_normal((c, r)))[0].T
        )

    W_yn = np.eye(m, d) + (0 if rng is None else 0.1 * rng.standard_normal((m, d)))
    return {
        "InterneuronNICA": {"W_xy": rows(d, k), "W_yn": W_yn, "W_ny": W_yn.T.copy()},
        "TwoCompartmentNICA": {
            "W_xz": rows(d, k),
            "W_zz": np.eye(d) + (0 if rng is None else 0.1),
        },
        "TwoLayerNSM": {
            "W_xh": rows(d, k),
            "W_hg": np.eye(d),
            "W_hy": rows(d, d),
            "W_yy": np.eye(d),
        },
        "NonnegativePCA": {"W": rows(d, k)},
    }[name]


def compare(Network, X, init, *, guards=(), eta0=0.02, tau=0.5, **params):
    """Run the compiled network and the reference with all its repairs, if there are
    guards; return ours.
    """
    name = Network.__name__
    d = len(next(iter(init.values())))
    rng = np.random.default_rng(0)
    k = X.shape[1]
    own = {}
    source = naive if "rate" in guards else reference
    if name == "InterneuronNICA":
        own["n_interneurons"] = m = len(init["W_yn"])
        step = reference.interneuron_step
        state = reference.interneuron(d, k, rng, m)
    elif name == "TwoCompartmentNICA":
        own["tau"] = tau
        step = source.two_compartment_step
        state = reference.two_compartment(d, k, rng, tau)
    elif name == "TwoLayerNSM":
        step = reference.two_layer_nsm_step
        state = reference.two_layer_nsm(d, k, rng)
    else:
        step = source.nonnegative_pca_step
        state = reference.nonnegative_pca(d, k, rng)
    own |= {"init": init, "random_state": 7}
    ours = Network(d, guards=guards, eta0=eta0, decay=1e-3, **params, **own)
    Y = ours.partial_fit_transform(X)

    first = learned(Network(d, **own).partial_fit(X[:1]))
    state |= {weight: np.array(W) for weight, W in init.items()} | {
        "rng": naive.LEcuyer(first["_state.rng"])
    }
    state["window"] = params.get("mean_window") or np.inf
    repair = (
        naive.two_layer_nsm_repair
        if name == "TwoLayerNSM" and "spectrum" in guards
        else reference.repair
    )
    rates = reference.learning_rate(np.arange(len(X)), eta0, 1e-3)
    expected = reference.run(
        step, state, X, rates, repair if set(guards) - {"rate"} else None
    )
    assert_allclose(Y, expected, rtol=RTOL, atol=RTOL * max(expected.max(), 1))
    for weight in init:
        W = getattr(ours, f"{weight}_")
        assert_allclose(
            W, state[weight], rtol=RTOL, atol=RTOL * np.abs(W).max(), err_msg=weight
        )
    return ours


def problem(Network, n, d, k, seed):
    """Mixtures, white if the network needs them so."""
    X = mixtures(n, d, k, seed=seed)[1]
    return (
        X @ reference.noncentered_whitening(X, d).T
        if Network is bionica.NonnegativePCA
        else X
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_plain(Neural, shape, rng):
    d, k, m = SHAPES[shape]
    X = problem(Neural, N["exact"], d, k, 2)
    ours = compare(
        Neural,
        X,
        initial_weights(Neural.__name__, d, X.shape[1], m, rng),
    )
    assert sum(ours.repairs_.values()) == 0


DYNAMIC = [bionica.InterneuronNICA, bionica.TwoCompartmentNICA, bionica.TwoLayerNSM]


@pytest.mark.parametrize("Settling", DYNAMIC[:2], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("gamma", [None, 0.05])
def test_gradient_dynamics_end_at_the_same_fixed_points(Settling, gamma, rng):
    init = initial_weights(Settling.__name__, 3, 4, 5, rng)
    compare(
        Settling,
        problem(Settling, N["gradient"], 3, 4, 2),
        init,
        dynamics="gradient",
        gamma=gamma,
        **SETTLING,
    )


@pytest.mark.parametrize("Settling", DYNAMIC, ids=lambda cls: cls.__name__)
def test_window_of_the_running_means(Settling, rng):
    init = initial_weights(Settling.__name__, 3, 4, 4, rng)
    compare(Settling, problem(Settling, 300, 3, 4, 2), init, mean_window=50)


@pytest.mark.parametrize("dynamics", N)
def test_independent_interneuron_weights(dynamics, rng):
    """Appendix B: W_ny and W_yn start apart, and the neurons always iterate."""
    init = initial_weights("InterneuronNICA", 3, 3, 4, rng)
    init["W_ny"] = init["W_ny"] + 0.2 * rng.standard_normal((3, 4))
    X = problem(bionica.InterneuronNICA, N["gradient"], 3, 3, 6)
    compare(bionica.InterneuronNICA, X, init, dynamics=dynamics, **SETTLING)


def provocation(name, guards, d, k):
    """Initial weights and a rate under which each of the guards has to act on
    nonnegative mixtures.
    """
    init = initial_weights(name, d, k, d)
    forward = init[
        {
            "InterneuronNICA": "W_xy",
            "TwoCompartmentNICA": "W_xz",
            "TwoLayerNSM": "W_hy",
        }.get(name, "W")
    ]
    lateral = {
        "InterneuronNICA": "W_yn",
        "TwoCompartmentNICA": "W_zz",
        "TwoLayerNSM": "W_yy",
    }.get(name)
    eta0 = 0.02
    if "silent" in guards:
        forward[0] *= -1  # inhibited by every input: it never fires
    if "row" in guards:
        forward[1] *= 1e-3
        eta0 = 1e-5
    if "spectrum" in guards:
        init[lateral][d - 1, d - 1] = 2e-3
        # the activity is large, and would restore the weight before the guard looks
        eta0 = 1e-13
    if name == "InterneuronNICA":
        init["W_ny"] = init["W_yn"].T.copy()
    return init, eta0


def test_every_guard_alone_and_all_together(Neural):
    """Each guard acts when it is provoked, alone, and changes the network as the repair
    of the reference does.
    """
    d = 3
    k = 3 if Neural is bionica.NonnegativePCA else 4
    rng = np.random.default_rng(3)
    X = mixtures(350, d)[0] @ rng.uniform(0.1, 1, (d, k))
    X[::40] *= 5  # too large for the rate
    every = Neural._guards
    for guards in [*((guard,) for guard in every), every]:
        init, eta0 = provocation(Neural.__name__, guards, d, k)
        repairs = compare(Neural, X, init, guards=guards, eta0=eta0).repairs_
        assert sum(repairs.values()) == sum(repairs[guard] for guard in guards)
        if len(guards) == 1:
            assert repairs[guards[0]] > 0, f"{guards[0]} was not provoked"


def test_float32_follows_float64(Network):
    """Single precision stays single, and near the double precision network."""
    X = mixtures_for(Network, 700, 3, 4)
    single, double = (
        Network(3, random_state=0).partial_fit_transform(X.astype(dtype))
        for dtype in "fd"
    )
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    assert np.median(np.abs(single - double)[200:]) < 1e-3 * np.median(
        double.max(axis=1)[200:]
    )
