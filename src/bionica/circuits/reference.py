"""The paper in plain NumPy, as printed: Lipshutz, Pehlevan and Chklovskii (2022),
"Biologically plausible single-layer networks for nonnegative independent component
analysis". The compiled networks of `bionica` are tested against these functions.

One line of code for one line of an algorithm box, with the paper's symbols and the
equation numbers of its LaTeX source. One line is not as printed: (9) and (15) are
solved (`settle`) instead of repeated, unless a network has a gamma.

An online algorithm is two functions. One returns the network before the first mixture:
a dict of weights (orthonormal rows and identities) and running means by their names in
the paper. Change its entries to begin elsewhere, to repeat (9) or (15) with a given
``gamma``, or to limit the ``window`` of the running means: from then on their weight is
1/window. The other function takes one mixture, changes the arrays in that dict and
returns the output, ``y = step(state, x, eta)``. `repair` applies what appendix C adds,
and `run` is the loop over the mixtures:

    Algorithm 1       `interneuron`, `interneuron_step`
    Algorithm 2       `two_compartment`, `two_compartment_step`
    2-layer NSM       `two_layer_nsm`, `two_layer_nsm_step`
    Nonnegative PCA   `nonnegative_pca`, `nonnegative_pca_step`
    LocalNICA         `local_nica`, `local_nica_step`: beyond the paper, with its rates

Algorithms 1 and 2 with all the data are `offline_interneuron_step` and
`offline_two_compartment_step`.

Mixtures are the rows of X, sources those of S, outputs those of Y.

Objectives, where d. means centred over the samples and C_xx^+ is the Moore-Penrose
inverse; none of them forms a T x T matrix:

    (1), (3)     `whitening_objective`, with the constraint `whitening_excess` = 0
    (2)          `nsm_objective`
    (4)          `combined_nsm_objective`
    (5)          `interneuron_objective`, L_1
    (11), (12)   `two_compartment_objective`, L_2

Examples
--------
>>> import numpy as np
>>> from bionica import reference
>>> rng = np.random.default_rng(0)
>>> S = rng.uniform(0, np.sqrt(48 / 5), (4000, 3)) * (rng.random((4000, 3)) < 0.5)
>>> A = np.linalg.qr(rng.standard_normal((3, 3)))[0]
>>> rates = reference.learning_rate(np.arange(4000), eta0=1e-2, gamma=1e-3)
>>> network = reference.interneuron(d=3, k=3, rng=rng)
>>> step = reference.interneuron_step
>>> Y = reference.run(step, network, S @ A.T, rates, reference.repair)
>>> bool(reference.error_curve(S[2000:], Y[2000:])[-1] < 0.01)
True
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, nnls

Array = NDArray[Any]
State = dict[str, Any]
Step = Callable[[State, Array, float], Array]


# --- neurons at rest


def settle(W_zz: Array, c: Array, gamma: float | None = None) -> Array:
    """Return the fixed point of (15), z <- [z + gamma (c - W_zz z)]_+, for a symmetric
    positive definite W_zz.

    Without gamma as the minimum of z'W_zz z/2 - c'z over z >= 0, a nonnegative
    least-squares problem.

    Examples
    --------
    >>> W_zz, c = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([2.0, 0.5])
    >>> settle(W_zz, c), settle(W_zz, c, gamma=0.1)
    (array([1., 0.]), array([1., 0.]))
    """
    if gamma is None:
        L = np.linalg.cholesky(W_zz)
        # |L'z - L^-1 c|^2/2 = z'W_zz z/2 - c'z + constant
        return nnls(L.T, np.linalg.solve(L, c))[0]
    return _repeat(
        lambda z: np.maximum(z + gamma * (c - W_zz @ z), 0), np.zeros(len(c)), gamma, c
    )


def settle_interneurons(
    W_yn: Array, W_ny: Array, c: Array, gamma: float | None = None
) -> tuple[Array, Array]:
    """Return the fixed point of (9), y <- [y + gamma (c - W_ny n)]_+ and n <- n + gamma
    (W_yn y - n).

    For W_ny = W_yn' it is that of (15) with W_yn'W_yn for W_zz. If W_ny differs
    (appendix B), or with gamma, (9) is repeated; the default gamma is then 1, or
    ``(|W_yn| |W_ny|)^-1/2`` if this is smaller.

    Examples
    --------
    >>> W = np.diag([1.0, 2.0])
    >>> settle_interneurons(W, W, np.array([1.0, 4.0]))
    (array([1., 1.]), array([1., 2.]))
    """
    if gamma is None and np.abs(W_ny - W_yn.T).max() < 1e-12:
        y = settle(W_ny @ W_yn, c)
        return y, W_yn @ y
    d = len(c)
    gamma = gamma or 1 / max(
        float(np.linalg.norm(W_yn) * np.linalg.norm(W_ny)) ** 0.5, 1
    )

    def dynamics(yn: Array) -> Array:
        y = yn[:d]
        n = yn[d:]
        y = np.maximum(y + gamma * (c - W_ny @ n), 0)
        return np.append(y, n + gamma * (W_yn @ y - n))

    yn = _repeat(dynamics, np.zeros(d + len(W_yn)), gamma, c)
    return yn[:d], yn[d:]


def _repeat(
    dynamics: Callable[[Array], Array], activity: Array, gamma: float, c: Array
) -> Array:
    for _ in range(100_000):
        before = activity
        activity = dynamics(activity)
        if np.abs(activity - before).max() <= 1e-12 * gamma * np.abs(c).max():
            return activity
    raise ArithmeticError(
        f"the neurons have not settled in 100,000 steps of gamma={gamma}: lower gamma,"
        " or use None"
    )


# --- Algorithm 1 (section 4.1)


def interneuron(
    d: int, k: int, rng: np.random.Generator, m: int | None = None
) -> State:
    """Return Algorithm 1 before the first mixture: d outputs, k inputs, m interneurons
    (None: d).

    Examples
    --------
    >>> interneuron(d=2, k=3, rng=np.random.default_rng(0), m=4)["W_yn"].shape
    (4, 2)
    """
    m = d if m is None else m
    weights = {
        "W_xy": _orthonormal_rows(d, k, rng),
        "W_yn": np.eye(m, d),
        "W_ny": np.eye(d, m),
    }
    means = {"x_bar": np.zeros(k), "y_bar": np.zeros(d), "n_bar": np.zeros(m)}
    return {**weights, **means, "gamma": None, **_common(d, rng)}


def interneuron_step(state: State, x: Array, eta: float) -> Array:
    """Algorithm 1, Bio-NICA with interneurons, for one mixture.

    *Errata.* Appendix B cites Algorithm 2 for these updates. W_ny - W_yn' shrinks by (1
    - eta)^t only if eta is constant.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> network = interneuron(d=2, k=2, rng=rng) | {"W_xy": np.eye(2)}
    >>> interneuron_step(network, np.array([1.0, -1.0]), eta=0.1)
    array([1., 0.])
    """
    W_xy = state["W_xy"]
    W_yn = state["W_yn"]
    W_ny = state["W_ny"]
    # views: += changes the network
    x_bar = state["x_bar"]
    y_bar = state["y_bar"]
    n_bar = state["n_bar"]
    t = _count(state)  # the box's t, or the window
    y, n = settle_interneurons(W_yn, W_ny, W_xy @ x, state["gamma"])  # (9)
    x_bar += (x - x_bar) / t
    y_bar += (y - y_bar) / t
    n_bar += (n - n_bar) / t
    W_xy += eta * (np.outer(y - y_bar, x - x_bar) - W_xy)  # (7), online
    W_ny += eta * (np.outer(y - y_bar, n - n_bar) - W_ny)  # (8), transposed
    W_yn += eta * (np.outer(n - n_bar, y - y_bar) - W_yn)  # (8), online
    return y


def offline_interneuron_step(state: State, X: Array, eta: float) -> Array:
    """Algorithm 1 offline: all mixtures at rest, then a step of descent-ascent on L_1
    (5).

    *Errata.* Two lines of section 4.1 have N in R^(d x T); it is R^(m x T). In (20) and
    (21) N'N needs a factor 1/2, as in L_1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> network = interneuron(d=2, k=2, rng=rng) | {"W_xy": np.eye(2)}
    >>> offline_interneuron_step(network, np.eye(2), eta=0.1)
    array([[1., 0.], [0., 1.]])
    """
    W_xy = state["W_xy"]
    W_yn = state["W_yn"]
    W_ny = state["W_ny"]
    T = len(X)
    YN = [settle_interneurons(W_yn, W_ny, W_xy @ x, state["gamma"]) for x in X]  # (6)
    Y, N = (np.array(rows) for rows in zip(*YN, strict=True))
    # samples are columns, as in the paper
    dX = _centred(X)
    dY = _centred(Y)
    dN = _centred(N)
    W_xy += eta * (dY @ dX.T / T - W_xy)  # (7)
    W_ny += eta * (dY @ dN.T / T - W_ny)
    W_yn += eta * (dN @ dY.T / T - W_yn)  # (8)
    return Y


# --- Algorithm 2 (section 4.2)


def two_compartment(d: int, k: int, rng: np.random.Generator, tau: float) -> State:
    """Return Algorithm 2 before the first mixture: d outputs, k inputs.

    Examples
    --------
    >>> two_compartment(d=2, k=3, rng=np.random.default_rng(0), tau=0.8)["W_xz"].shape
    (2, 3)
    """
    weights = {"W_xz": _orthonormal_rows(d, k, rng), "W_zz": np.eye(d)}
    means = {"x_bar": np.zeros(k), "c_bar": np.zeros(d)}
    return {**weights, **means, "tau": tau, "gamma": None, **_common(d, rng)}


def two_compartment_step(state: State, x: Array, eta: float) -> Array:
    """Algorithm 2, Bio-NICA with 2-compartmental neurons, for one mixture.

    *Erratum.* The text of section 4.2 replaces Z X'/T and Z Z'/T by products of centred
    activities; the box and L_2 do not centre them. The box is what converges to the
    sources, and what is here.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> network = two_compartment(d=2, k=2, rng=rng, tau=0.8) | {"W_xz": np.eye(2)}
    >>> two_compartment_step(network, np.array([1.0, -1.0]), eta=0.1)
    array([1., 0.])
    """
    W_xz = state["W_xz"]
    W_zz = state["W_zz"]
    x_bar = state["x_bar"]
    c_bar = state["c_bar"]
    tau = state["tau"]
    t = _count(state)
    c = W_xz @ x
    z = settle(W_zz, c, state["gamma"])  # (15)
    x_bar += (x - x_bar) / t
    c_bar += (c - c_bar) / t
    W_xz += 2 * eta * (np.outer(z, x) - np.outer(c - c_bar, x - x_bar))  # (13), online
    W_zz += eta / tau * (np.outer(z, z) - W_zz)  # (14), online
    return z


def offline_two_compartment_step(state: State, X: Array, eta: float) -> Array:
    """Algorithm 2 offline: all mixtures at rest, then a step of descent-ascent on L_2
    (12).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> network = two_compartment(d=2, k=2, rng=rng, tau=0.8) | {"W_xz": np.eye(2)}
    >>> offline_two_compartment_step(network, np.eye(2), eta=0.1)
    array([[1., 0.], [0., 1.]])
    """
    W_xz = state["W_xz"]
    W_zz = state["W_zz"]
    tau = state["tau"]
    T = len(X)
    # samples are columns, as in the paper
    Z = np.array([settle(W_zz, W_xz @ x, state["gamma"]) for x in X]).T
    X = X.T
    C_xx = np.atleast_2d(np.cov(X, bias=True))
    W_xz += 2 * eta * (Z @ X.T / T - W_xz @ C_xx)  # (13)
    W_zz += eta / tau * (Z @ Z.T / T - W_zz)  # (14)
    return Z.T


# --- the compared methods (appendix C)


def two_layer_nsm(d: int, k: int, rng: np.random.Generator) -> State:
    """Return the 2-layer NSM of Pehlevan et al. (2017) before the first mixture.

    Inputs x, whitened activities h with interneurons g, outputs y; ``zeta`` are eta0
    and gamma of the whitening layer's rate.

    Examples
    --------
    >>> two_layer_nsm(d=2, k=3, rng=np.random.default_rng(0))["W_xh"].shape
    (2, 3)
    """
    first = {
        "W_xh": _orthonormal_rows(d, k, rng),
        "W_hg": np.eye(d),
        "zeta": (0.01, 0.01),
    }
    means = {"x_bar": np.zeros(k), "h_bar": np.zeros(d), "g_bar": np.zeros(d)}
    return {
        **first,
        **means,
        "W_hy": _orthonormal_rows(d, d, rng),
        "W_yy": np.eye(d),
        **_common(d, rng),
    }


def two_layer_nsm_step(state: State, x: Array, eta: float) -> Array:
    """2-layer NSM for one mixture: noncentered whitening (Algorithm 1 without
    rectification), then similarity matching (2).

    The rules are those of Pehlevan et al. (2017), with the paper's rates in place of
    the cumulated activity of each neuron.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> network = two_layer_nsm(d=2, k=2, rng=rng)
    >>> network |= {"W_xh": np.eye(2), "W_hy": np.eye(2)}
    >>> two_layer_nsm_step(network, np.array([1.0, -1.0]), eta=0.1)
    array([1., 0.])
    """
    W_xh = state["W_xh"]
    W_hg = state["W_hg"]
    W_hy = state["W_hy"]
    W_yy = state["W_yy"]
    x_bar = state["x_bar"]
    h_bar = state["h_bar"]
    g_bar = state["g_bar"]
    zeta = learning_rate(state["t"], *state["zeta"])
    t = _count(state)
    # at rest W_xh x = W_hg'g, with g = W_hg h
    h = np.linalg.solve(W_hg.T @ W_hg, W_xh @ x)
    g = W_hg @ h
    y = settle(W_yy, W_hy @ h)
    x_bar += (x - x_bar) / t
    h_bar += (h - h_bar) / t
    g_bar += (g - g_bar) / t
    W_xh += zeta * (np.outer(h - h_bar, x - x_bar) - W_xh)
    W_hg += zeta * (np.outer(g - g_bar, h - h_bar) - W_hg)
    W_hy += eta * (np.outer(y, h) - W_hy)
    W_yy += eta * (np.outer(y, y) - W_yy)
    return y


def noncentered_whitening(X: Array, d: int) -> Array:
    """Return F = Lambda^-1/2 U' of section 3.2 for the d largest eigenvalues: cov(F x)
    = I, and F x keeps its mean.

    Examples
    --------
    >>> noncentered_whitening(np.diag([2.0, 0.0]), 1)
    array([[1., 0.]])
    """
    C_xx = np.atleast_2d(np.cov(X.T, bias=True))
    # the last d, in descending order
    Lambda, U = (M[..., : -d - 1 : -1] for M in np.linalg.eigh(C_xx))
    return (U / np.sqrt(Lambda)).T


def nonnegative_pca(
    d: int, k: int, rng: np.random.Generator, F: Array | None = None
) -> State:
    """Return online Nonnegative PCA (Plumbley and Oja, 2004) before the first mixture;
    F whitens (None: they are white).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> nonnegative_pca(d=2, k=3, rng=rng, F=np.eye(2, 3))["W"].shape
    (2, 2)
    """
    F = np.eye(k) if F is None else F
    return {"F": F, "W": _orthonormal_rows(d, len(F), rng), **_common(d, rng)}


def nonnegative_pca_step(state: State, x: Array, eta: float) -> Array:
    """Nonnegative PCA for one mixture. The rule is not local: a synapse needs W'y, a
    sum over all outputs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> network = nonnegative_pca(d=2, k=2, rng=rng) | {"W": np.eye(2)}
    >>> nonnegative_pca_step(network, np.array([1.0, -1.0]), eta=0.1)
    array([1., 0.])
    """
    W = state["W"]
    h = state["F"] @ x
    _count(state)
    y = np.maximum(W @ h, 0)
    W += eta * np.outer(y, h - W.T @ y)
    return y


# --- objectives (sections 2 to 4)


def whitening_objective(Y: Array, X: Array) -> float:
    """(1), and (3) if Y is nonnegative: `-Tr(dY'dY dX'dX) = -|dY dX'|_F^2`.

    Minimal over cov(Y) <= I and Y = F X at a noncentered whitening of X; over Y >= 0,
    too, at a permutation of the sources.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [4.0, 2.0]])
    >>> whitening_objective(X, X)
    -100.0
    """
    return -float(np.sum((_centred(Y) @ _centred(X).T) ** 2))


def whitening_excess(Y: Array) -> float:
    """By how much Y violates the constraint dY'dY <= T I of (1) and (3): the largest
    eigenvalue of cov(Y) - I, at least 0.

    Examples
    --------
    >>> whitening_excess(np.array([[0.0, 0.0], [4.0, 2.0]]))
    4.0
    """
    dY = _centred(Y)
    return max(0.0, float(np.linalg.eigvalsh(dY @ dY.T / len(Y))[-1]) - 1)


def nsm_objective(Z: Array, Y: Array) -> float:
    """(2), nonnegative similarity matching: `|Z'Z - Y'Y|_F^2`, minimal over Z >= 0
    where Z is a rotation of the whitened Y.

    With [Z Y] = Q [R_z R_y], where Q has orthonormal columns, it equals
    `|R_z R_z' - R_y R_y'|_F^2`. This needs no T x T matrix and has no cancellation near
    the minimum.

    Examples
    --------
    >>> Y = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, 2.0]])
    >>> R = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    >>> Z = Y @ R.T  # a rotation into the quadrant
    >>> bool(Z.min() > -1e-12), nsm_objective(Z, Y) < 1e-12
    (True, True)
    """
    R = np.linalg.qr(np.hstack([Z, Y]), mode="r")
    R_z, R_y = np.split(R, [Z.shape[1]], axis=1)
    return float(np.sum((R_z @ R_z.T - R_y @ R_y.T) ** 2))


def combined_nsm_objective(Z: Array, X: Array) -> float:
    """(4): `|Z'Z - X' C_xx^+ X|_F^2`, where `C_xx^+` has the rank d of Z; minimal over
    Z >= 0 at a permutation of the sources.

    Examples
    --------
    >>> # uncorrelated, of variance 1
    >>> S = np.array([[0.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 2.0]])
    >>> combined_nsm_objective(S, X=S @ [[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]]) < 1e-18
    True
    """
    return nsm_objective(Z, X @ noncentered_whitening(X, Z.shape[1]).T)


def interneuron_objective(
    Y: Array, N: Array, W_xy: Array, W_yn: Array, X: Array
) -> float:
    """L_1 of (5), the min-max form of (3): minimised over Y and W_xy, maximised over N
    and W_yn.

    *Erratum.* Appendix A has N'N in (20) and (21) without the factor 1/2 that L_1 gives
    it, and that N = W_yn Y (19) needs.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> interneuron_objective(X, np.zeros((2, 2)), np.eye(2), np.zeros((2, 2)), X)
    -2.0
    """
    dX = _centred(X)
    dY = _centred(Y)
    dN = _centred(N)
    activity = (
        2 * np.sum(dN * (W_yn @ dY)) - 2 * np.sum(dY * (W_xy @ dX)) - np.sum(dN**2)
    )
    return float(activity / len(X) - np.sum(W_yn**2) + np.sum(W_xy**2))


def two_compartment_objective(Z: Array, W_xz: Array, W_zz: Array, X: Array) -> float:
    """L_2 of (12), the min-max form of (4) as expanded in (10): minimised over Z and
    W_xz, maximised over W_zz.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> two_compartment_objective(X, np.eye(2), np.eye(2), X)
    -12.0
    """
    dX = _centred(X)
    T = len(X)
    activity = np.sum(Z.T * (W_zz @ Z.T)) - 2 * np.sum(Z.T * (W_xz @ X.T))
    return float(2 / T * activity - np.sum(W_zz**2) + 2 * np.sum((W_xz @ dX) ** 2) / T)


def _centred(M: Array) -> Array:
    """Return the samples less their mean, as columns."""
    return (M - M.mean(axis=0)).T


# --- numerical experiments (appendix C)


def learning_rate(t: Any, eta0: float, gamma: float) -> Any:
    """(22): eta_t = eta0 / (1 + gamma t). The first mixture has t = 0, as in the
    authors' code.

    Examples
    --------
    >>> learning_rate(np.arange(3), eta0=0.1, gamma=0.5)
    array([0.1       , 0.06666667, 0.05      ])
    """
    return eta0 / (1 + gamma * t)


def repair(state: State, y: Array) -> None:
    """Apply the repairs of appendix C to any of the four networks, after a step that
    returned y.

    Output neurons that have not been active so far have their feedforward weights
    flipped. Every 100 mixtures, rows of W_xy with a norm below 0.1 become random, and
    singular values of W_xy, W_yn, W_ny and eigenvalues of W_zz below 0.01 become 1.

    *Erratum.* The authors' code flips a neuron once, after mixture 101, if silent in
    the first 100.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> network = nonnegative_pca(d=2, k=2, rng=rng) | {"W": np.eye(2)}
    >>> # the second neuron has not been active yet
    >>> repair(network, y=np.array([1.0, 0.0]))
    >>> network["W"]
    array([[ 1.,  0.], [-0., -1.]])
    """
    state["fired"] |= y > 0
    # the feedforward inputs of the output neurons
    for name in {"W_xy", "W_xz", "W_hy", "W"} & state.keys():
        state[name][~state["fired"]] *= -1
    if "W_xy" in state and state["t"] % 100 == 0:  # Algorithm 1
        W_xy = state["W_xy"]
        W_yn = state["W_yn"]
        W_ny = state["W_ny"]
        for i in np.flatnonzero(np.linalg.norm(W_xy, axis=1) < 0.1):
            W_xy[i] = state["rng"].standard_normal(W_xy.shape[1])
        for W in (W_xy, W_yn, W_ny):
            U, sigma, Vh = np.linalg.svd(W, full_matrices=False)
            if sigma.min() < 0.01:
                W[:] = U * np.where(sigma < 0.01, 1, sigma) @ Vh
    if "W_zz" in state and state["t"] % 100 == 0:  # Algorithm 2
        Lambda, U = np.linalg.eigh(state["W_zz"])
        if Lambda.min() < 0.01:
            state["W_zz"][:] = U * np.where(Lambda < 0.01, 1, Lambda) @ U.T


def run(
    step: Step,
    state: State,
    X: Array,
    rates: Array,
    repair: Callable[..., None] | None = None,
) -> Array:
    """Present the rows of X to a network, one after the other; return its outputs as
    they came. `state` is changed.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> network = nonnegative_pca(d=2, k=2, rng=rng) | {"W": np.eye(2)}
    >>> run(nonnegative_pca_step, network, X=np.eye(2), rates=np.array([0.1, 0.1]))
    array([[1., 0.], [0., 1.]])
    """
    Y = []
    for x, eta in zip(X, rates, strict=True):
        Y.append(step(state, x, eta))
        if repair is not None:
            repair(state, Y[-1])
    return np.array(Y)


def error_curve(S: Array, Y: Array) -> Array:
    """Return error(t) of section 5, the mean of `|s - P y|^2/d` up to t with the
    permutation P that is best at the end.

    *Erratum.* The authors' code leaves out the first mixture (their `permutation_error`
    at a0cda5a).

    Examples
    --------
    >>> S = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> error_curve(S, np.array([[0.0, 0.0], [2.0, 0.0]]))  # wrong once, then right
    array([0.5 , 0.25])
    """
    T, d = S.shape
    squares = [[np.sum((s - y) ** 2) for y in Y.T] for s in S.T]
    P = linear_sum_assignment(squares)[1]
    return np.cumsum(np.sum((S - Y[:, P]) ** 2, axis=1)) / (d * np.arange(1, T + 1))


def _orthonormal_rows(d: int, k: int, rng: np.random.Generator) -> Array:
    return np.linalg.qr(rng.standard_normal((k, d)))[0].T.copy()


def _common(d: int, rng: np.random.Generator) -> State:
    """What every network has besides weights and means."""
    return {"t": 0, "window": np.inf, "fired": np.zeros(d, bool), "rng": rng}


def _count(state: State) -> float:
    """Count a mixture; return t, or the window of the running means if that is less."""
    state["t"] += 1
    return float(min(state["t"], state["window"]))


# --- LocalNICA (not in the paper)


def local_nica(d: int, k: int, rng: np.random.Generator) -> State:
    """Return LocalNICA before the first mixture: d outputs, k inputs.

    Examples
    --------
    >>> local_nica(d=2, k=3, rng=np.random.default_rng(0))["W_xz"].shape
    (2, 3)
    """
    first = {"mean": 0.0, "variance": 0.0, "change": 0.0, "last": 0.0, "pace": 0.05}
    own = {
        of: {name: np.full(n, value) for name, value in first.items()}
        for of, n in (("x", k), ("c", d))
    }
    weights = {
        "W_xz": np.zeros((d, k)),
        "U": 10 * np.sqrt(k) * _orthonormal_rows(d, k, rng),
        "W_zz": 5 * np.eye(d),
    }
    return {
        **weights,
        **own,
        "z_bar": np.zeros(d),
        "n": np.zeros(d),
        "connected": np.zeros(k, bool),
        **_common(d, rng),
    }


def local_nica_step(state: State, x: Array) -> Array:
    """LocalNICA for one mixture; equations as numbered in
    `bionica.circuits.local_nica`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> network = local_nica(d=2, k=2, rng=rng) | {"W_xz": np.eye(2), "W_zz": np.eye(2)}
    >>> local_nica_step(network, np.array([1.0, -1.0]))
    array([1., 0.])
    """
    W_xz, W_zz, U, z_bar, n, on = (
        state[name] for name in ("W_xz", "W_zz", "U", "z_bar", "n", "connected")
    )
    (d, k), t, c = W_xz.shape, _count(state), W_xz @ x
    z = settle(W_zz, c)
    g = np.where(z > 0, 0, np.minimum(c - W_zz @ z, 0))  # (1)
    _watch(state["c"], c, t)
    _watch(state["x"], x, t)
    q = state["c"]["pace"]
    z_bar += np.maximum(1 / t, q / 300) * (z - z_bar)
    n += q
    r = q / (3 * (d + 7) + n / 100)
    p = state["x"]["variance"] + state["x"]["mean"] ** 2
    new = ~on & (p > 0) & (t * state["x"]["pace"] >= 10)
    W_xz[:, new] = U[:, new] / np.sqrt(p[new])
    U[:, new] = 0
    on |= new
    dz = z - z_bar
    dx = x - state["x"]["mean"]
    S = np.outer(0.07 * q * (dz - W_zz @ dz), dx) - np.outer(0.5 * q * g, x)
    S = np.divide(S, k * p, out=np.zeros((d, k)), where=on)  # (2)
    U += on * (0.06 * r[:, np.newaxis] * (12 * S - U))  # (3)
    W_xz += S + on * U  # (4)
    W_zz *= np.outer(1 - r / 2, 1 - r / 2)
    W_zz += np.outer(np.sqrt(r) * dz, np.sqrt(r) * dz)  # (5)
    for own in (state["x"], state["c"]) if t % 100 == 0 else ():
        np.divide(
            own["change"], own["variance"], out=own["pace"], where=own["variance"] > 0
        )
        np.minimum(own["pace"], 1, out=own["pace"])
    return z


def _watch(own: dict[str, Array], value: Array, t: float) -> None:
    """Take values into the statistics of inputs or dendrites."""
    own["mean"] += np.maximum(1 / t, own["pace"] / 300) * (value - own["mean"])
    weight = np.maximum(1 / t, own["pace"] / 10_000)
    own["variance"] += weight * ((value - own["mean"]) ** 2 - own["variance"])
    own["change"] += weight * ((value - own["last"]) ** 2 - own["change"])
    own["last"][:] = value
