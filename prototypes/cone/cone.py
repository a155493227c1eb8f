"""The minimum-volume cone around nonnegative data: sources that may be correlated.

Nonnegative ICA whitens, so it cannot return correlated sources. Sources that reach zero show the facets of the cone of
the data whatever their correlation. Let u = B'x be the data in coordinates of the noncentred singular value
decomposition, scaled so that the noise of every coordinate has the same variance, and y = V u the outputs. The cone
{u : V u >= 0} that holds the data and is as small as possible maximises

    log|det V| - sum_i log(V_i u_bar) - 1/2 sum_i c_i <min(V_i u, 0)^2> / w_i^2,                                  (1)

    w_i^2 = sigma_i^2 |V_i|^2 / (1 + kappa) + e_i^2 (V_i u_bar)^2.                                                (2)

The first two terms are minus the logarithm of the volume of the simplex that the cone cuts out of the hyperplane through
the mean; they do not change when a row of V is scaled. The third term is a wall at each facet, as wide as the noise of
that output. e_i is the width of a wall without noise, and is lowered in steps (continuation). With e_i^2 = kappa
sigma_i^2 |V_i|^2 / (1 + kappa), the wall has the width of the noise. For kappa = 0 its distance is measured
perpendicular to the facet, which makes the gradient blind to correlated noise of the outputs; kappa > 0 keeps (1)
bounded. Sums to one need no special treatment: only the second moment <u u'> must have full rank, not the covariance.

**The hardness of the wall.** At the right facet the gradient of (1) vanishes if, on average over j,

    c_i <[-y_i]_+ y_j> / w_i^2 = y_bar_j / y_bar_i.                                                               (3)

The left-hand side is known without knowing where the facet is. If sources have, near zero, an atom a, a density p and a
slope p' (in units of the noise: z = y_i / w_i), Gaussian noise leaks

    <[-z]_+> = a / sqrt(2 pi) + p / 4 + p' / (3 sqrt(2 pi))                                                       (4)

across the facet. a, p and p' follow from the number of samples with z < 2, 2 <= z < 4 and 4 <= z < 6 (`Leakage`), which
hardly depend on where exactly the facet is. (3) and (4) give c_i. An exponential source has c = 4, a uniform one 8, a
uniform one correlated at 0.5 about 20, a sparse one 0.3 to 1.

**The discrepancy principle.** rho_i = <min(z_i, 0)^2> / P(z_i < 0) is 1 for an atom, 2/3 for a density, and larger if the
cone cuts into the data. Given c_i, it tells sigma_i where no direction is left out that would show the noise (k = d).

**Relatives.** MVSA (Li and Bioucas-Dias 2008) has a hard wall, SISAL (Bioucas-Dias 2009) a hinge with a fixed weight,
MVES (Chan et al. 2009) alternates linear programs; all three take sums to one for granted. Minimum-volume NMF penalises
the volume of the mixing matrix beside a least-squares fit, with a weight that the user sets. Here the wall is quadratic,
so that Newton's matrix preconditions L-BFGS (4 to 10 iterations a stage), and the noise sets its weight.

**Identified** are sources whose facets are touched: the samples must be sufficiently scattered (Fu et al. 2019). Roughly:
each source is near zero for samples that span all the others. A pure sample per source is enough and not needed.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.special import ndtr

Array = npt.NDArray[Any]
Pairs = deque[tuple[Array, Array]]

_SQRT_2PI = float(np.sqrt(2 * np.pi))
_EDGES = np.array([2.0, 4.0, 6.0])  # windows of z near a facet
_LEAST_ATOM = 0.3  # in units of p: a smaller one cannot be told from a facet that is a little off
_START_C = 3.0
_SOFT, _FINAL = 0.5, 0.1  # kappa of the first two rounds, and after
_WIDEST = 0.3  # e of the first stage from a start, times the mean of the output, at most
_NO_NOISE_WIDTHS = (0.1, 3e-2, 1e-2, 3e-3, 1e-3)
_NEAR_START = 0.1  # of the mean of an output
_AT_ZERO = 1e-5  # share of an output in the sum of all: such samples lie on the facet
_TOO_NOISY = (0.5, 1.0)  # noise of an output over its mean, found or known: beyond it facets cannot be seen
_LOST = 100.0  # noise of an output over its mean: no facet holds the mean any more
_NO_NOISE = 1e-6  # of the mean of an output
_LEAST_ACTIVE = 500
_SUBSET = 20_000
_ENOUGH = 3000  # samples in the windows of a facet
_SAME_UNITS = 100.0  # channels whose sizes differ by more are scaled to unit size first
_MEMORY = 15
_RADIUS = 0.3  # by which P may change before the active samples are chosen again


class Wall(NamedTuple):
    """The soft wall of every facet: hardness c (NaN: not yet known), noise variance sigma^2 (0: none), width e and kappa of
    eq. (2)."""

    c: Array
    variance: Array
    e: Array
    kappa: float


class Facets(NamedTuple):
    """The active samples: per facet those near or beyond it, as columns, in coordinates of the base V.

    `gram` is V V', `weights[i]` the weight of each column of `near[i]` in an average over all samples.
    """

    near: list[Array]
    weights: list[Any]
    gram: Array


class Cone(NamedTuple):
    """The result of `fit_cone`.

    `V` (d, d) has V u_bar = 1; `wall` is the last wall; `noise` (d,) the standard deviation of the noise of each output
    relative to the mean of that output; `rho` (d,) the discrepancy, and `expected_rho` what the leakage model expects;
    `atom` (d,) the share of samples at zero; `objective` is (1); `log_volume` is -log|det V|; `start` the
    index of the start that won; `n_iter` counts L-BFGS iterations; `converged` says whether the wall has settled.
    """

    V: Array
    wall: Wall
    noise: Array
    rho: Array
    expected_rho: Array
    atom: Array
    objective: float
    log_volume: float
    start: int
    n_iter: int
    converged: bool


# ---------------------------------------------------------------------------------------------------------------------
# The objective and its minimisation


def value_and_gradient(P: Array, facets: Facets, wall: Wall) -> tuple[float, Array]:
    """Minus (1) for the cone P V, and its gradient with respect to P.

    Outputs are scaled so that y_bar = 1 at P = I. The value is inf where P is not a cone that holds the mean.

    Parameters
    ----------
    P : array of shape (d, d)
        Change of the base V.
    facets : Facets
        Active samples of the base.
    wall : Wall

    Returns
    -------
    float, array of shape (d, d)
    """
    sign, log_det = np.linalg.slogdet(P)
    m = P.sum(axis=1)
    if sign <= 0 or m.min() <= 0.1:
        return np.inf, np.empty(0)
    value = -log_det + float(np.log(m).sum())
    gradient = 1 / m[:, None] - np.linalg.inv(P).T
    half, width = _widths(P, m, facets.gram, wall)
    for i, (Y, weight) in enumerate(zip(facets.near, facets.weights, strict=True)):
        n = np.minimum(P[i] @ Y, 0)
        weighted = weight * n
        energy = float(n @ weighted)
        k = wall.c[i] / width[i]
        value += 0.5 * k * energy
        gradient[i] += k * (Y @ weighted - energy / width[i] * half[i])
    return value, gradient


def _widths(P: Array, m: Array, gram: Array, wall: Wall) -> tuple[Array, Array]:
    """Half the gradient of w_i^2 with respect to P_i, and w_i^2, eq. (2)."""
    inside = wall.variance / (1 + wall.kappa)
    outside = wall.e**2 + wall.kappa * inside * np.diag(gram)
    half = inside[:, None] * (P @ gram) + (outside * m)[:, None]
    return half, np.einsum("ij,ij->i", half, P)


def _curvature(P: Array, facets: Facets, wall: Wall) -> Array:
    """Inverse of the wall's Hessian per facet, plus that of a unit quadratic for the volume: (d, d, d)."""
    d = len(P)
    m = P.sum(axis=1)
    width = _widths(P, m, facets.gram, wall)[1]
    H = np.empty((d, d, d))
    for i, (Y, weight) in enumerate(zip(facets.near, facets.weights, strict=True)):
        beyond = P[i] @ Y < 0
        n = Y[:, beyond]
        each = weight if np.isscalar(weight) else weight[beyond]
        H[i] = (wall.c[i] / width[i]) * ((n * each) @ n.T) + np.eye(d) / m[i] ** 2
    return np.linalg.inv(H)


def _direction(gradient: Array, pairs: Pairs, inverse: Array) -> Array:
    """The two loops of L-BFGS around the inverse curvature of the facets."""
    q = gradient.copy()
    weights = []
    for s, y in reversed(pairs):
        r = 1.0 / np.vdot(s, y)
        a = r * np.vdot(s, q)
        q -= a * y
        weights.append((r, a))
    q = np.einsum("ijk,ik->ij", inverse, q)
    for (s, y), (r, a) in zip(pairs, reversed(weights), strict=True):
        q += (a - r * np.vdot(y, q)) * s
    return -q


def minimise(facets: Facets, wall: Wall, *, tol: float, max_iter: int = 100) -> tuple[Array, float, int]:
    """Minimise `value_and_gradient` from P = I by preconditioned L-BFGS.

    Parameters
    ----------
    facets : Facets
    wall : Wall
    tol : float
        Stop when no entry of P would change by more than `tol`, or the value by more than `tol` squared. Also stop
        when P has changed by more than 0.3: then other samples may be active.
    max_iter : int, default=100

    Returns
    -------
    P, value, n_iter
    """
    P = np.eye(len(facets.near))
    pairs: Pairs = deque(maxlen=_MEMORY)
    value, gradient = value_and_gradient(P, facets, wall)
    for n_iter in range(max_iter):
        if n_iter % 5 == 0:
            inverse = _curvature(P, facets, wall)
        step = _direction(gradient, pairs, inverse)
        slope = float(np.vdot(step, gradient))
        largest = float(np.abs(step).max())
        if largest < tol or -slope < 1e-2 * tol**2:
            return P, value, n_iter
        length = min(1.0, 0.5 / largest)
        for _ in range(15):
            trial = P + length * step
            new_value, new_gradient = value_and_gradient(trial, facets, wall)
            if new_value <= value + 1e-4 * length * slope:
                break
            length *= 0.4
        else:
            if not pairs:
                return P, value, n_iter  # rounding hides any further descent
            pairs.clear()
            continue
        s, y = length * step, new_gradient - gradient
        if np.vdot(s, y) > 1e-10 * np.sqrt(np.vdot(s, s) * np.vdot(y, y)):
            pairs.append((s, y))
        P, value, gradient = trial, new_value, new_gradient
        if np.abs(P - np.eye(len(P))).max() > _RADIUS:
            return P, value, n_iter + 1
    return P, value, max_iter


def active(Y: Array, gram: Array, width: Array) -> Facets:
    """The columns of Y (d, n_samples) that lie near or beyond each facet: y_i < w_i, and at least 500."""
    near = []
    T = Y.shape[1]
    for y, w in zip(Y, width, strict=True):
        index = np.flatnonzero(y < w)
        if len(index) < _LEAST_ACTIVE < T:
            index = np.argpartition(y, _LEAST_ACTIVE)[:_LEAST_ACTIVE]
        near.append(Y[:, index])
    return Facets(near, [1.0 / T] * len(Y), gram)


# ---------------------------------------------------------------------------------------------------------------------
# What noise leaks across a facet


def _window_shares() -> Array:
    """Share of an atom, a unit density and a unit slope, blurred by unit noise, in each window of z: (3, 3)."""
    b = _EDGES
    phi, Phi = np.exp(-(b**2) / 2) / _SQRT_2PI, ndtr(b)
    below = np.stack([Phi, b * Phi + phi, 0.5 * ((b**2 + 1) * Phi + b * phi)], axis=1)
    return np.diff(np.vstack([np.zeros(3), below]), axis=0)


_FROM_WINDOWS = np.linalg.inv(_window_shares())
_FIRST = np.array([1 / _SQRT_2PI, 0.25, 1 / (3 * _SQRT_2PI)])  # <[-z]_+> of atom, density, slope: eq. (4)
_SECOND = np.array([0.5, 2 / (3 * _SQRT_2PI)])  # <[-z]_+^2> of atom and density
_BELOW = np.array([0.5, 1 / _SQRT_2PI])  # P(z < 0)


class Leakage(NamedTuple):
    """What is seen near one facet.

    `force` is <[-z_i]_+ y_j>, averaged over j, that noise would cause at the right facet; `rho` and `expected_rho` the
    discrepancy; `atom` the share of samples at zero; `n_near` and `n_below` the number of samples in the windows and
    below zero.
    """

    force: float
    rho: float
    expected_rho: float
    atom: float
    n_near: float
    n_below: float


def leakage(z: Array, others: Array, weight: Any, n: float) -> Leakage:
    """Fit atom, density and slope to the samples near a facet.

    Parameters
    ----------
    z : array of shape (n_near,)
        Output over its noise; samples with z >= 6 are ignored and need not be given.
    others : array of shape (n_near,)
        Mean of the other outputs.
    weight : float or array
        How many samples each of them stands for.
    n : float
        Number of all samples.
    """
    inside = z < _EDGES[-1]
    z, others = z[inside], others[inside]
    w = np.full(len(z), float(weight)) if np.isscalar(weight) else weight[inside]
    window = (z >= _EDGES[0]).astype(np.intp) + (z >= _EDGES[1])
    counts = np.bincount(window, w, minlength=3) / n
    sums = np.bincount(window, w * others, minlength=3) / n
    atom, density, _ = _FROM_WINDOWS @ counts
    density = max(density, 0.15 * counts[1])  # counts[1] / 2 is the density itself where it is flat
    share = max(0.0, 1 - _LEAST_ATOM * density / atom) if atom > 0 else 0.0
    parts = _FROM_WINDOWS @ sums * _FIRST
    flat = sums[1] / 8
    force = max(share * parts[0] + parts[1] + parts[2], 0.4 * flat)
    if not share:
        force = min(force, 2.5 * flat)
    below = z < 0
    seen = np.array([share * max(atom, 0.0), density])
    n_below = float(w[below].sum())
    return Leakage(
        force=float(force),
        rho=float(w[below] @ z[below] ** 2) / n_below if n_below else 0.0,
        expected_rho=float(seen @ _SECOND / max(seen @ _BELOW, 1e-300)),
        atom=float(seen[0]),
        n_near=float(len(z)),
        n_below=float(np.count_nonzero(below)),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Coordinates and the noise of the channels


class Coordinates(NamedTuple):
    """u = matrix @ x, x = inverse @ u + noise.

    `variance` is the variance of the noise in every coordinate u: 1 where it is known or seen, 0 where there is none,
    None where it must be found from the tails of the outputs (`fit_cone`). `channel_noise` (k,) is its standard
    deviation in every channel of x, or None; `eigenvalues` are those of the scaled second moment, largest first.
    """

    matrix: Array
    inverse: Array
    variance: float | None
    channel_noise: Array | None
    eigenvalues: Array


def coordinates(second_moment: Array, d: int, n: float, noise: Any = "estimate") -> Coordinates:
    """The d leading directions of the noncentred singular value decomposition, in units of the noise.

    Parameters
    ----------
    second_moment : array of shape (k, k)
        <x x'>, mean included.
    d : int
        Number of sources.
    n : float
        Number of samples behind it.
    noise : "estimate", float or array of shape (k,), default="estimate"
        Standard deviation of the noise of the channels. "estimate" finds one per channel if enough directions are left
        out, one for all if few are, and leaves it to the tails of the outputs if none is.

    Returns
    -------
    Coordinates
    """
    k = len(second_moment)
    size = np.sqrt(np.diag(second_moment))
    size[size == 0] = 1.0
    units = size if size.max() > _SAME_UNITS * size.min() else np.ones(k)
    second_moment = second_moment / units / units[:, None]
    eigenvalues = np.linalg.eigvalsh(second_moment)[::-1]
    variance: float | None = 1.0
    if not isinstance(noise, str):
        D = (np.asarray(noise, float) / units) ** 2
        variance = 1.0 if D.any() else 0.0
    elif k == d:
        D, variance = np.zeros(k), None
    elif eigenvalues[d:].mean() <= 1e-13 * eigenvalues[0]:
        D, variance = np.zeros(k), 0.0
    else:
        D = channel_noise(second_moment, d, n)
    scale = np.sqrt(np.maximum(D, 1e-6 * D.max())) if D.any() else np.ones(k)
    w, B = np.linalg.eigh(second_moment / scale / scale[:, None])
    B = B[:, ::-1][:, :d]
    seen = np.sqrt(D) * units if variance else None
    scale = scale * units
    return Coordinates(B.T / scale, scale[:, None] * B, variance, seen, w[::-1])


def channel_noise(second_moment: Array, d: int, n: float, *, spread: float = 1.0, max_iter: int = 50) -> Array:
    """Noise variance D of every channel: factor analysis, maximum a posteriori.

    With theta_j, b_j the eigenvalues and eigenvectors of D^{-1/2} <x x'> D^{-1/2} and psi = log D, minimise

        n/2 sum_{j > d} (theta_j - log theta_j - 1) + |psi - psi_0|^2 / (2 spread^2)

    by Fisher scoring; the gradient of the first term is n/2 sum_{j > d} (1 - theta_j) b_j^2 and its expected Hessian
    n/2 R * R, where R = sum_{j > d} b_j b_j'. psi_0 is white noise of the mean discarded variance, which is
    also the answer where too few directions are left out to tell channels apart: (k - d)^2 < k + d.
    """
    k = len(second_moment)
    left_out = np.linalg.eigvalsh(second_moment)[: k - d]
    prior = float(np.log(max(left_out.mean() / max(1 - d / n, 0.1), 1e-300)))
    psi = np.full(k, prior)
    if (k - d) ** 2 < k + d:
        return np.exp(psi)
    if n < 3 * k or k > 512:
        return _residual_noise(second_moment, d, np.exp(psi))

    def value(psi: Array) -> tuple[float, Array, Array]:
        half = np.exp(-psi / 2)
        theta, b = np.linalg.eigh(second_moment * half * half[:, None])
        theta, b = np.maximum(theta[: k - d], 1e-300), b[:, : k - d]
        fit = 0.5 * n * float(np.sum(theta - np.log(theta) - 1))
        return fit + 0.5 * float(np.sum((psi - prior) ** 2)) / spread**2, theta, b

    f, theta, b = value(psi)
    for _ in range(max_iter):
        gradient = 0.5 * n * (b**2 @ (1 - theta)) + (psi - prior) / spread**2
        H = 0.5 * n * (b @ b.T) ** 2 + np.eye(k) / spread**2
        step = -np.linalg.solve(H, gradient)
        step *= min(1.0, 1.5 / np.abs(step).max())
        for _ in range(10):
            f_new, theta_new, b_new = value(psi + step)
            if f_new < f:
                break
            step *= 0.5
        else:
            break
        psi, f, theta, b = psi + step, f_new, theta_new, b_new
        if np.abs(step).max() < 1e-3:
            break
    return np.exp(psi)


def _residual_noise(second_moment: Array, d: int, D: Array, *, prior: float = 0.05) -> Array:
    """Noise variances from the residuals of the channels, for many channels: two steps of principal factors."""
    for _ in range(2):
        scale = np.sqrt(D)
        scaled = second_moment / scale / scale[:, None]
        w, B = np.linalg.eigh(scaled)
        B, w = B[:, ::-1][:, :d], w[::-1][:d]
        residual = np.diag(scaled) - np.einsum("ij,j,ij->i", B, w, B)
        D = D * (np.maximum(residual, 0) + prior) / (1 - np.sum(B**2, axis=1) + prior)
    return D


def poisson_scaling(X: Array) -> tuple[Array, Array]:
    """Weights of samples and standard deviations of channels that make the noise of counts uniform.

    A cone does not change when samples are scaled. Divided by the root of its total count, a sample of Poisson counts
    has noise of variance x_k / total; its mean over samples is the variance of channel k (Keenan and Kotula 2004).

    Returns
    -------
    weights : array of shape (n_samples,)
        Multiply the rows of X by them.
    channel_noise : array of shape (k,)
        Pass it as `noise` to `coordinates`.
    """
    total = X.sum(axis=1)
    mean = float(total.mean())
    weights = np.sqrt(mean / np.maximum(total, 0.01 * mean))
    variance = np.maximum((weights**2) @ X / len(X), 0)
    return weights, np.sqrt(np.maximum(variance, 1e-3 * variance.mean()))


# ---------------------------------------------------------------------------------------------------------------------
# Starts


def successive_projection(U: Array, *, least: float = 0.1) -> Array:
    """A start from the most extreme samples: V such that d chosen samples are the edges of the cone.

    Samples are divided by their component along the mean; then the sample farthest out is chosen, its direction is
    projected out of all, and so on (Araujo et al. 2001; Gillis and Vavasis 2014). Samples whose component is below
    `least` times the mean are left out: noise decides their direction.

    Examples
    --------
    >>> import numpy as np
    >>> U = np.vstack([np.eye(2), np.full((8, 2), 0.5)])
    >>> np.sort(successive_projection(U), axis=0)
    array([[0., 0.],
           [2., 2.]])
    """
    u_bar = U.mean(axis=0)
    along = U @ u_bar / (u_bar @ u_bar)
    edges = U[along > least] / along[along > least, None]
    rest = edges.copy()
    chosen = []
    for _ in range(U.shape[1]):
        size = np.einsum("ij,ij->i", rest, rest)
        chosen.append(int(np.argmax(size)))
        q = rest[chosen[-1]] / np.sqrt(max(size[chosen[-1]], 1e-300))
        rest -= np.outer(rest @ q, q)
    return hold_mean(np.linalg.pinv(edges[chosen].T), U)


def hold_mean(V: Array, U: Array, least: float = 0.05) -> Array:
    """Turn facets until every output has a mean of at least `least` times its RMS; scale rows so that V u_bar = 1.

    The row that is added is the linear function of u that is nearest to 1.
    """
    u_bar = U.mean(axis=0)
    second = U.T @ U / len(U)
    V = V / np.sqrt(np.einsum("ij,jk,ik->i", V, second, V))[:, None]
    one = np.linalg.solve(second, u_bar)
    V = V + np.outer(np.maximum(0, least - V @ u_bar), one / (one @ u_bar))
    return np.asarray(V / (V @ u_bar)[:, None])


def rotation_start(U: Array, variance: float | None, rng: np.random.RandomState) -> Array | None:
    """Nonnegative ICA's solution; None where the covariance is singular or nearly so (closed data)."""
    from bionica.batch.rotation import rotate

    u_bar = U.mean(axis=0)
    w, E = np.linalg.eigh(np.cov(U.T, bias=True).reshape(len(u_bar), -1))
    if w[0] <= max(1e-10 * w[-1], 2 * (variance or 0.0)):
        return None
    F = (E / np.sqrt(w)).T
    found = rotate(U @ F.T, tol=1e-3, n_init=5, rng=rng)
    return hold_mean(found.R @ F, U)


# ---------------------------------------------------------------------------------------------------------------------
# The fit


def fit_cone(
    U: Array, variance: float | None, starts: list[Callable[[Array], Array | None]], *, max_rounds: int = 25
) -> Cone:
    """The minimum-volume cone around U.

    Each start descends on a subset of 20,000 samples, and the best goes on with all of them (`_better`). Every round reads
    all samples once: it finds the leakage at every facet, from it the wall, and the samples near each facet, on which
    L-BFGS then works. The first start whose wall settles with the discrepancy that the noise explains is believed, and later
    starts are skipped.

    Parameters
    ----------
    U : array of shape (n_samples, d)
        From `coordinates`, samples in any order.
    variance : float or None
        Of the noise in every coordinate; 0 for none, None to find it.
    starts : list of callables
        Each takes samples (n, d) and returns V (d, d), or None; the most trusted first.
    max_rounds : int, default=25

    Returns
    -------
    Cone
    """
    subset = np.ascontiguousarray(U[:: max(1, len(U) // _SUBSET)])
    whole = len(subset) == len(U)
    found: list[Cone] = []
    for index, start in enumerate(starts):
        V = start(subset)
        if V is None:
            continue
        V, Y = _outputs(subset, V)
        negative = float(np.median(_tail(Y)))
        noise = float(np.median(np.linalg.norm(V, axis=1))) * np.sqrt(variance or 0.0)
        for wide in _ways(negative, noise, variance):
            found.append(_descend(subset, V, variance, wide, index, max_rounds if whole else 10))
            if _believed(found[-1], negative):
                break
        else:
            continue
        break
    best = found[0]
    for rival in found[1:]:
        best = _better(subset, best, rival)
    if not whole:
        best = _continue(U, best, variance, max_rounds)
    return best if best.wall.variance.any() else tighten(U, best)


def _ways(negative: float, noise: float, variance: float | None) -> tuple[bool, ...]:
    """Whether to descend from a start with wide walls first: not from one that is near, whose walls would only push it away."""
    if variance == 0:
        return (True,)
    if negative < max(_NEAR_START, 2 * noise):
        return (False,)
    return (True,) if variance else (False, True)


def _believed(cone: Cone, negative: float) -> bool:
    """Whether other starts may be skipped: the wall has settled, the discrepancy is as expected, the start was near.

    `negative` is the size of the negative part at the start. It counts where no noise is found, because a cone that is too
    large explains any data without noise.
    """
    noisy = bool(cone.wall.variance.any())
    near = negative < _NEAR_START or noisy
    ratio = np.maximum(cone.rho, 1e-3) / np.maximum(cone.expected_rho, 1e-3)
    return cone.converged and near and (not noisy or bool(np.all(np.abs(np.log(ratio)) < 0.5)))


def _better(U: Array, first: Cone, second: Cone) -> Cone:
    """The one that needs less noise to explain the data; if they agree within 20 %, the one with the better objective.

    Objectives are compared inside the wall of either, and `first` wins a tie.
    """
    noise = [float(np.median(cone.wall.variance)) for cone in (first, second)]
    if max(noise) > 1.44 * min(noise):
        return first if noise[0] < noise[1] else second
    gain = 0.0
    for wall in (first.wall, second.wall):
        values = [_stage(U, cone.V, wall, tol=1e-3)[1] for cone in (first, second)]
        gain += values[0] - values[1]
    return second if gain > 1e-3 * len(first.V) else first


def _descend(U: Array, V: Array, variance: float | None, wide: bool, start: int, max_rounds: int) -> Cone:
    """From a start: if `wide`, walls as wide as what is negative there, then a third of that; then as the noise asks."""
    V, Y = _outputs(U, V)
    d = len(V)
    e = np.minimum(_tail(Y), _WIDEST)
    known = np.full(d, variance or 0.0)
    total = 0
    for factor in (1.0, 1 / 3) if wide else ():
        wall = Wall(np.full(d, _START_C), known, np.maximum(factor * e, 1e-8), _SOFT)
        V, value, _, n_iter = _solve(V, Y, wall, tol=1e-2 * float(factor * e.min()) + 1e-9)
        V, Y = _outputs(U, V)
        total += n_iter
    if variance is None:
        known = np.full(d, np.median(np.maximum(_tail(Y), 1e-8) ** 2 / np.sum(V**2, axis=1)))
    wall = Wall(np.full(d, np.nan), known, np.zeros(d), _SOFT)
    cone = _report(V, wall, leakages(Y, np.full(d, 1e-8)), np.nan, start, total, False)
    if variance == 0:
        return _without_noise(U, cone._replace(wall=wall._replace(e=e / 3)), 1e-3)
    return _continue(U, cone, variance, max_rounds)


def _tail(Y: Array) -> Array:
    """Noise of every output as its negative part shows it: sqrt(3/2 <min(y, 0)^2> / P(y < 0)), eq. (4) for a density."""
    n = np.minimum(Y, 0)
    return np.sqrt(1.5 * np.einsum("ij,ij->i", n, n) / np.maximum(np.count_nonzero(n, axis=1), 1))


def _outputs(U: Array, V: Array, u_bar: Array | None = None) -> tuple[Array, Array]:
    V = V / (V @ (U.mean(axis=0) if u_bar is None else u_bar))[:, None]
    return V, V @ U.T


def _stage(U: Array, V: Array, wall: Wall, tol: float) -> tuple[Array, float, float, int]:
    V, Y = _outputs(U, V)
    return _solve(V, Y, wall, tol)


def _solve(V: Array, Y: Array, wall: Wall, tol: float) -> tuple[Array, float, float, int]:
    """Minimise on the active samples, which are chosen again while facets move far; V, value, largest change, iterations."""
    d = len(V)
    total, change = 0, np.inf
    first = V
    while change > _RADIUS and total < 200:
        if total:
            V = V / (P @ np.ones(d))[:, None]
            Y = P @ Y
            Y /= P.sum(axis=1, keepdims=True)
        gram = V @ V.T
        width = np.sqrt(wall.variance * np.diag(gram) + wall.e**2)
        P, value, n_iter = minimise(active(Y, gram, width), wall, tol=tol)
        change = float(np.abs(P - np.eye(d)).max())
        V = P @ V
        total += n_iter
    V = V / P.sum(axis=1, keepdims=True)
    moved = float(np.abs(V @ np.linalg.inv(first) - np.eye(d)).max())
    return V, value, moved, total


def leakages(Y: Array, s: Array) -> list[Leakage]:
    """`leakage` of every output; Y is (d, n_samples), s the noise of each. Every tenth sample is read if that is enough."""
    d = len(Y)
    found = []
    for i, noise in enumerate(s):
        for step in (10, 1):
            some = Y[:, ::step]
            near = np.flatnonzero(some[i] < _EDGES[-1] * noise)
            if len(near) >= _ENOUGH:
                break
        y = some[i, near]
        others = (some[:, near].sum(axis=0) - y) / max(d - 1, 1)
        found.append(leakage(y / noise, others, 1.0, some.shape[1]))
    return found


def _continue(U: Array, cone: Cone, variance: float | None, max_rounds: int) -> Cone:
    """Alternate between the wall that the leakage asks for and the cone inside that wall.

    Ends when no c or noise variance changes by more than 5 %, or by what chance does to them in small samples.
    """
    tol = max(0.05, 15 / np.sqrt(len(U)))
    V, wall, total, value = cone.V, cone.wall, cone.n_iter, np.nan
    if not wall.variance.any():
        return cone
    most = _largest_noise(U) if variance is None else np.inf
    u_bar = U.mean(axis=0)
    V, Y = _outputs(U, V, u_bar)
    converged, haste = False, 1
    for r in range(2 * cone.converged, max_rounds):
        size = np.linalg.norm(V, axis=1)
        leaks = leakages(Y, np.sqrt(wall.variance) * size)
        last, before = wall.c, wall.variance
        wall, moved = next_wall(wall, leaks, size, variance, most, _SOFT if r < 2 else _FINAL, haste)
        haste = min(haste + 1, 5) if np.median(wall.variance / before) < 0.75 else 1
        if r > 5 and not np.isnan(last).any():
            wall = wall._replace(c=np.sqrt(wall.c * last))  # few samples near a facet: c may alternate
        if not wall.variance.any():
            converged = True
            break
        turned, value, change, n_iter = _solve(V, Y, wall, tol=1e-2 * float(np.min(np.sqrt(wall.variance) * size)))
        total += n_iter
        if not np.all(np.sqrt(wall.variance) * np.linalg.norm(turned, axis=1) < _LOST):
            break
        V = turned
        V, Y = _outputs(U, V, u_bar)
        converged = r >= 2 and moved < tol and change < 0.05
        if converged:
            break
    return _report(V, wall, leaks, value, cone.start, total, converged)


def next_wall(
    wall: Wall, leaks: list[Leakage], size: Array, variance: float | None, most: float, kappa: float, haste: int = 1
) -> tuple[Wall, float]:
    """The wall that the leakage asks for, eq. (3), and the largest change of a logarithm.

    Where no noise is seen, the variances are zero and e is the noise that was assumed last.
    """
    v = wall.variance
    if variance is None:
        v = _noise_from_tails(v, leaks, most, haste)
        if np.median(np.sqrt(v) * size) < _NO_NOISE:
            return wall._replace(variance=np.zeros_like(v), e=np.sqrt(wall.variance) * size), 0.0
    s = np.sqrt(v) * size
    c = np.array([s_i / max(k.force, 1e-300) if k.n_near >= 20 else 10.0 for s_i, k in zip(s, leaks, strict=True)])
    if not np.isnan(wall.c).any():
        c = np.clip(c, wall.c / 4, wall.c * 4)
    c = np.clip(c, np.minimum(2 * s, 1), 1e3)
    moved = max(np.abs(np.log(c / wall.c)).max(), np.abs(np.log(v / wall.variance)).max())
    return Wall(c, v, np.zeros(len(v)), kappa), float(moved)


def _largest_noise(U: Array) -> float:
    """White noise in all coordinates adds its variance to every eigenvalue of the second moment."""
    return float(np.linalg.eigvalsh(U.T @ U / len(U))[0])


def _noise_from_tails(v: Array, leaks: list[Leakage], most: float, haste: int) -> Array:
    """Next estimate of the noise variances from the discrepancy; zeros where no noise is seen.

    A wall too wide by 1 + h makes rho too large by 1 + 0.8 h, not 1 + 2 h: the exponent 1.5 makes up for most of it. At an atom rho tells the noise
    directly, and the exponent is 1. `haste`
    multiplies the exponent; it grows while the noise keeps shrinking, as it does where there is none.
    """
    near = np.array([k.n_near for k in leaks])
    if np.median(near) < 30:
        return np.zeros_like(v)
    below = np.array([k.n_below for k in leaks])
    ratio = np.array([k.rho / max(k.expected_rho, 1e-300) for k in leaks])
    exponent = 1.5 - 1.5 * np.clip(np.array([k.expected_rho for k in leaks]) - 2 / 3, 0, 1 / 3)
    own = np.log(np.clip(ratio, 0.1, 4.0)) * exponent * haste + np.log(v)
    pooled = float(np.median(own))
    own = np.clip((below * own + 100 * pooled) / (below + 100), pooled - 1, pooled + 1)
    return np.asarray(np.minimum(np.exp(own), most))


def _without_noise(U: Array, cone: Cone, last: float) -> Cone:
    """Harden the wall until its width is `last` times the mean of an output."""
    V, n_iter, value = cone.V, cone.n_iter, np.nan
    wall = cone.wall
    d = len(V)
    widths = [e for e in _NO_NOISE_WIDTHS if last <= e < np.median(wall.e)] or [last]
    for e in widths:
        wall = Wall(np.full(d, _START_C), np.zeros(d), np.full(d, e), 0.0)
        V, value, _, more = _stage(U, V, wall, tol=0.1 * e)
        n_iter += more
    V, Y = _outputs(U, V)
    return _report(V, wall, leakages(Y, wall.e), value, cone.start, n_iter, True)


def tighten(U: Array, cone: Cone, *, u_bar: Array | None = None, max_sweeps: int = 30) -> Cone:
    """The cone without noise, exactly: alternate linear programs over the facets (Chan et al. 2009).

    det V is linear in a row. With the other rows fixed, the best row maximises a linear function of it among the rows
    that have all samples inside and mean 1. Only the samples nearest to the facet, in angle, are given to the linear program; a
    sweep over all samples adds those that it missed.
    """
    V, d = cone.V, len(cone.V)
    kept: list[Array] = [np.empty(0, dtype=np.intp)] * d
    converged = False
    for sweep in range(max_sweeps):
        V, Y = _outputs(U, V, u_bar)
        size = np.abs(Y).sum(axis=0)
        angle = np.where(size > _AT_ZERO, Y / np.maximum(size, _AT_ZERO), 1.0)  # the apex has no angle
        P = np.eye(d)
        for i, row in enumerate(angle):
            at_zero = np.flatnonzero(np.abs(row) < _AT_ZERO)
            if len(at_zero) > max(3 * d, 0.5 * np.count_nonzero(row < 100 * _AT_ZERO)):
                through = _row_through(Y[:, at_zero])
                if np.min(through @ Y / np.maximum(size, _AT_ZERO)) > -_AT_ZERO:
                    P[i] = through
                    continue
            n_near = min(_LEAST_ACTIVE, len(row) - 1)
            kept[i] = np.union1d(kept[i], np.argpartition(row, n_near)[:n_near])
            P[i] = _best_row(P, i, Y[:, kept[i]])
        V = P @ V
        if np.abs(P - np.eye(d)).max() < 1e-9:
            converged = True
            break
    V, Y = _outputs(U, V, u_bar)
    wall = cone.wall._replace(variance=np.zeros(d), e=np.zeros(d))
    log_volume = -float(np.linalg.slogdet(V)[1])
    return cone._replace(
        V=V,
        wall=wall,
        noise=np.zeros(d),
        log_volume=log_volume,
        objective=-log_volume,
        n_iter=cone.n_iter + sweep + 1,
        converged=converged,
    )


def _row_through(Y: Array) -> Array:
    """The row that vanishes on these samples, with sum 1; NaN where they do not determine it."""
    scaled = Y / np.linalg.norm(Y, axis=0)
    _, values, rows = np.linalg.svd(np.linalg.qr(scaled.T, mode="r"))
    if len(values) > 1 and values[-2] < 1e-2 * values[0]:
        return np.full(len(Y), np.nan)
    return np.asarray(rows[-1] / rows[-1].sum())


def _best_row(P: Array, i: int, near: Array) -> Array:
    """Row i that maximises det P with near' p >= 0 and sum(p) = 1; as it was where the linear program fails."""
    size = np.maximum(np.linalg.norm(near, axis=0), 1e-300)
    found = linprog(
        -np.linalg.inv(P)[:, i],
        A_ub=-(near / size).T,
        b_ub=np.zeros(near.shape[1]),
        A_eq=np.ones((1, len(P))),
        b_eq=[1.0],
        bounds=np.stack([P[i] - 0.5, P[i] + 0.5], axis=1),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return found.x if found.x is not None else P[i]


def _report(V: Array, wall: Wall, leaks: list[Leakage], value: float, start: int, n_iter: int, converged: bool) -> Cone:
    return Cone(
        V=V,
        wall=wall,
        noise=np.sqrt(wall.variance) * np.linalg.norm(V, axis=1),
        rho=np.array([k.rho for k in leaks]),
        expected_rho=np.array([k.expected_rho for k in leaks]),
        atom=np.array([k.atom for k in leaks]),
        objective=-value,
        log_volume=-float(np.linalg.slogdet(V)[1]),
        start=start,
        n_iter=n_iter,
        converged=converged,
    )


class Fit(NamedTuple):
    """W (d, k) and its right inverse (k, d), the coordinates and the cone in them."""

    components: Array
    mixing: Array
    coordinates: Coordinates
    cone: Cone


def minimum_volume_cone(
    X: Array, d: int, *, noise: Any = "estimate", outliers: float = 0.0, rng: np.random.RandomState | None = None
) -> Fit:
    """Sources max(W x, 0) of X, which may be correlated.

    Parameters
    ----------
    X : array of shape (n_samples, k)
        Mixtures, mean included; float64.
    d : int
        Number of sources, at most k.
    noise : "estimate", "poisson", float or array of shape (k,), default="estimate"
        Standard deviation of the noise of the channels: see `coordinates`. "poisson" takes X for counts.
    outliers : float, default=0.0
        Share of samples that may lie outside the cone: they are left out of the fit.
    rng : RandomState, optional
        For the start by nonnegative ICA.

    Returns
    -------
    Fit
        Outputs have mean 1. Where the noise of an output exceeds half its mean (its mean, if the noise is known),
        facets cannot be seen: the cone is then that of nonnegative ICA, and `converged` is False.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> S = rng.random((5000, 3)) + 0.5 * rng.random((5000, 1))   # correlated ...
    >>> S -= S.min(axis=0)                                        # ... and reaching zero
    >>> X = S @ rng.standard_normal((3, 6))
    >>> fit = minimum_volume_cone(X, 3)
    >>> bool(np.min(X @ fit.components.T) > -1e-9)
    True
    """
    rng = np.random.RandomState(0) if rng is None else rng
    if isinstance(noise, str) and noise == "poisson":
        weights, noise = poisson_scaling(X)
        X = X * weights[:, None]
    if not outliers:
        return _fit(X, d, noise, rng)
    typical = np.median(np.abs(X), axis=0)
    distance = np.linalg.norm(X / np.maximum(typical, 1e-3 * typical.max()), axis=1)
    for _ in range(3):
        fit = _fit(X[_inside(distance, outliers)], d, noise, rng)
        distance = distance_outside(X, fit)
    return _fit(X[_inside(distance, outliers)], d, noise, rng)


def _inside(distance: Array, outliers: float) -> Array:
    return distance <= np.quantile(distance, 1 - outliers)


def distance_outside(X: Array, fit: Fit) -> Array:
    """How far samples lie outside the cone: off its subspace, and beyond its farthest facet, in units of the noise."""
    at, V = fit.coordinates, fit.cone.V
    U = X @ at.matrix.T
    scale = np.ones(X.shape[1]) if at.channel_noise is None else np.maximum(at.channel_noise, 1e-300)
    off = np.sum(((X - U @ at.inverse.T) / scale) ** 2, axis=1)
    beyond = np.minimum(np.min(V @ U.T / np.linalg.norm(V, axis=1)[:, None], axis=0), 0)
    return np.sqrt(off + beyond**2)


def _fit(X: Array, d: int, noise: Any, rng: np.random.RandomState) -> Fit:
    """Moments, coordinates, two starts, the cone."""
    at = coordinates(X.T @ X / len(X), d, len(X), noise)
    U = X @ at.matrix.T

    def by_rotation(samples: Array) -> Array | None:
        return rotation_start(samples, at.variance, rng)

    cone = fit_cone(U, at.variance, [by_rotation, successive_projection])
    if cone.noise.max() > _TOO_NOISY[at.variance is not None]:
        rotated = by_rotation(U)
        cone = cone if rotated is None else cone._replace(V=rotated, start=0, converged=False)
    return Fit(cone.V @ at.matrix, at.inverse @ np.linalg.inv(cone.V), at, cone)
