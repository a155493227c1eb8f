"""What is measured of a fit, on the weights and on the rows that are given: what
`findings` compares with limits.

With u = W x, y = max(u, 0) and the residual e = x - A u:

- `Fit`: the outputs, the residual, and the error of the outputs by its causes;
  `Measures`: those of its numbers that a diagnosis keeps.
- Noise below zero, what outputs subtract from each other, and what nonnegativity leaves
  open (outputs that can be turned, and facets that no sample touches).
- `largest_gap` of the residual, and `ceilings` of mixtures.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import eigh, eigvalsh, lstsq, pinv, svd

from bionica.core.blocks import Array
from bionica.mixtures.verdict.halves import is_nonnegative, roughness


class Measures(NamedTuple):
    """Whether X is nonnegative, but for noise; the share of the variance of X that the
    outputs leave unexplained.
    """

    is_nonnegative: bool
    residual: float


class Fit:
    """Components W (d, k) and spectra A (k, d) on rows X, some of n, without outliers.

    `known_noise` (d,) is the standard deviation of the noise of each output, if the fit
    knows it. `uncorrelated` outputs have unit variance. `tracking`: the mixing changes,
    which makes outputs negative. X, W and A are kept in units of the largest entry of
    X.
    """

    def __init__(
        self,
        X: Array,
        W: Array,
        A: Array,
        n: int,
        *,
        noise: Array | None = None,
        uncorrelated: bool = True,
        tracking: bool = False,
    ) -> None:
        self.unit = float(np.abs(X).max(initial=0.0)) or 1.0
        self.X = np.asarray(X, float) / self.unit
        self.W = np.asarray(W, float) * self.unit
        self.A = np.asarray(A, float) / self.unit
        self.d, self.k = self.W.shape
        self.n = n
        self.uncorrelated = uncorrelated
        self.tracking = tracking
        with np.errstate(all="ignore"):
            self.U = self.X @ self.W.T
            self.residual = self.X - self.U @ self.A.T
            self.square = np.mean(self.residual**2, axis=0)
            self.spread = self.U.std(axis=0)
            usable = (self.spread > 0) & np.isfinite(self.spread**4)
        # rounding of the mean of equal samples may leave a spread
        usable &= (self.X != self.X[0]).any()
        #: Outputs whose variance is 0 or overflows.
        self.without_variance = np.flatnonzero(~usable)
        self.measures = Measures(False, 1.0)
        if usable.all():
            self._measure(noise)

    def _measure(self, known_noise: Array | None) -> None:
        n = len(self.X)
        d = self.d
        k = self.k
        self.variance = np.maximum(self.spread**2, 1e-300)
        energy = np.maximum(np.mean(self.U**2, axis=0), 1e-300)
        # Variances of the noise of outputs, those that are known or that the residual
        # shows, and of the noise of mixtures: directions that are left out show it.
        seen = (
            np.zeros(d) if known_noise is None else np.asarray(known_noise, float) ** 2
        )
        mixtures = self.A**2 @ seen
        if k > d + 1:
            explained = np.clip(np.einsum("kd,dk->k", self.A, self.W), 0, 1)
            mixtures = self.square / np.maximum(1 - explained, 0.05)
            seen = np.maximum(self.W**2 @ mixtures, seen)
        self.noise = seen
        if k <= d + 1 and known_noise is None:
            self.noise = np.array([noise_below_zero(self.U, i) for i in range(d)])
        self.is_nonnegative = is_nonnegative(self.X, np.sqrt(mixtures))
        # The weakest source; the leading direction of the residual; the largest one of
        # noise alone.
        sizes = svd(self.A * np.sqrt(energy), compute_uv=False)
        weakest = max(sizes[-1] ** 2, 1e-300)
        leading = white = 0.0
        if k > d:
            leading, *others = energies(self.residual)[: k - d] / n
            if others:
                white = np.mean(others) * (1 + np.sqrt(k / n)) ** 2
        #: Energy of the residual's leading direction beyond noise, over `weakest`.
        self.signal = max(leading - white, 0.0) / weakest
        #: Shares of the variance of each output: what the others take away from it, and
        #: what nonnegativity leaves open.
        self.subtracted = np.zeros(d)
        if not self.tracking:
            self.subtracted = subtracted(self.U, seen)
        if self.uncorrelated:
            self.left_open = turned(self.U)
        else:
            independent = min(roughness(self.X), 1.0)
            free = untouched(self.U, np.sqrt(self.noise), independent)
            self.left_open = enlarged(self.U, free)
        # A model error is as large as the leading direction. What is in one mixture
        # alone is its noise.
        model = max(leading - max(white, self.square.max()), 0.0) / weakest
        shares = self.subtracted + self.left_open
        #: Squared error of each output, by all its causes.
        self.error = self.noise + model * energy + shares * self.variance
        total = self.X.var(axis=0).sum()
        left = np.sum(self.square - self.residual.mean(axis=0) ** 2)
        share = float(left / total) if total else 0.0
        self.measures = Measures(self.is_nonnegative, share)


def energies(E: Array) -> Array:
    """Squared singular values of a matrix, the largest first."""
    gram = E @ E.T if len(E) < E.shape[1] else E.T @ E
    return np.maximum(eigvalsh(gram)[::-1], 0)


def noise_below_zero(U: Array, i: int) -> float:
    """Variance of the noise of output i, by its values below zero.

    Their median is half a standard deviation of Gaussian noise. This counts times the
    share of them that other outputs do not explain: an unmixing that is not exact
    subtracts those, and is no noise.
    """
    below = U[U[:, i] < 0]
    u = below[:, i]
    others = np.maximum(np.delete(below, i, axis=1), 0)
    free = len(u) - U.shape[1]
    if free <= 0 or not u.var():
        return 0.0
    Z = np.column_stack([np.ones(len(u)), others])
    residual = u - Z @ lstsq(Z, u, rcond=None)[0]
    unexplained = min(residual @ residual / free / u.var(ddof=1), 1.0)
    return 4 * np.median(u) ** 2 * unexplained


def subtracted(U: Array, noise: Array) -> Array:
    """Share of the variance of each output that is subtracted by the others.

    If u_i = s_i - sum_j t_j s_j, then u_i < 0 where s_i is small, and it falls with s_j
    there: with slope t_j for sources that are often zero (R^2 = 1), and t_j / 2 for a
    density at zero, where the others explain little. So t_j is the slope times 2 - R^2.
    """
    scale = np.maximum(U.std(axis=0), 1e-300)
    U = U / scale
    noise = noise / scale**2
    shares = np.zeros(U.shape[1])
    for i, below in enumerate((U < 0).T):
        if below.sum() >= 10:
            shares[i] = _subtracted_from(U[below, i], np.maximum(U[below], 0), noise)
    return shares


def _subtracted_from(u: Array, Y: Array, noise: Array) -> float:
    """What all outputs Y (n, d) subtract from one of variance 1, u (n,), where u < 0.

    The slope of each pair counts as far as it exceeds three standard errors (with each
    sample left out: a few samples may decide it), and as far as the other output varies
    in these samples by more than noise: noise and errors of two outputs are correlated.
    """
    n = len(u)
    u = u - u.mean()
    Y = Y - Y.mean(axis=0)
    energy = np.maximum(np.sum(Y**2, axis=0), 1e-300)
    slope = -(u @ Y) / energy
    leverage = np.maximum(1 - 1 / n - Y**2 / energy, 1e-3)
    left_out = (u[:, None] + Y * slope) / leverage
    error = np.sqrt(np.sum((Y * left_out) ** 2, axis=0)) / energy
    with np.errstate(over="ignore"):  # of an output that nothing is beside
        beyond_noise = np.maximum(1 - noise * n / energy, 0)
    certain = beyond_noise * np.maximum(slope - 3 * error, 0)
    explained = min(-u @ Y @ certain / max(u @ u, 1e-300), 1.0)
    spread = np.minimum(np.sqrt(energy / n), 1)
    return np.sum((certain * (2 - explained)) ** 2 * spread)


def turned(U: Array) -> Array:
    """Share of the variance of each output that is another's, if outputs are turned.

    Outputs i and j of nonnegative ICA can be turned by angles from -a_ji to a_ij, which
    are as likely, without becoming more negative: a_ij is the least arctan(u_i / u_j)
    of all samples.
    """
    z = U / U.std(axis=0)
    angles = []
    for column in z.T:
        others = column > 0
        of_samples = np.arctan2(z[others], column[others, None])
        angles.append(of_samples.min(axis=0, initial=np.pi / 2))
    angle = np.maximum(angles, 0).T
    np.fill_diagonal(angle, 0)
    squared = (angle**3 + angle.T**3) / np.maximum(3 * (angle + angle.T), 1e-300)
    return np.minimum(squared.sum(axis=1), 1)


def untouched(U: Array, noise: Array, independent: float) -> Array:
    """Which outputs have a density that vanishes at zero, but for `noise`, its
    deviation.

    If P(u < y) = (y / c)^m below the quartile c, then 1 / m is the average of log(c /
    u) there. m is at most 1 for sources that are zero in some samples, or whose density
    is largest at zero. A cone around sources that are never zero touches the samples at
    corners: m = 2 for two sources, and more for more. Distances below h, the noise, are
    not seen: with log(c / max(u, h)), the average for m = 1 is 1 - h / c. It is
    rejected by two standard errors, 1 / sqrt(n) each, for n samples below c, of which a
    share is `independent`.
    """
    c = np.maximum(np.quantile(U, 0.25, axis=0), 1e-300)
    n = len(U) / 4
    h = np.clip(noise, c / n, c)  # the nearest of n samples is as far as c / n
    average = np.maximum(np.log(c / np.maximum(U, h)), 0).sum(axis=0) / n
    return average < 1 - h / c - 2 / np.sqrt(n * independent)


def enlarged(U: Array, free: Array) -> Array:
    """Share of the variance of each output that is another's, if `free` facets move.

    A cone that is too small subtracts sources from each other, u_i = s_i - sum_j t_j
    s_j, which makes outputs correlated. Facets that no sample touches may move: with
    correlations R, the free outputs z become uncorrelated with each other and with the
    others y in the nearest cone, by s = R_{zz|y}^{-1/2} (z - R_zy R_yy^{-1} y). If
    sources are uncorrelated, that is their error.
    """
    z = U / U.std(axis=0)
    R = np.corrcoef(z.T).reshape(len(free), -1)
    B = R[np.ix_(free, ~free)] @ pinv(R[np.ix_(~free, ~free)])
    values, vectors = eigh(R[np.ix_(free, free)] - B @ R[np.ix_(~free, free)])
    root = vectors / np.sqrt(np.maximum(values, 1e-3))
    s = (z[:, free] - z[:, ~free] @ B.T) @ root @ vectors.T
    share = np.zeros(len(free))
    scale = np.sum(z[:, free] * s, axis=0) / np.sum(s**2, axis=0)
    share[free] = np.mean((z[:, free] - scale * s) ** 2, axis=0)
    return np.minimum(share, 1)


def largest_gap(fit: Fit) -> float:
    """Largest ratio of successive singular values of the residual, of the stronger
    half.

    Mixtures with a large residual count as much as the median one, because what is in
    one mixture alone is its noise.
    """
    E = fit.residual
    size = np.sqrt(fit.square)
    few = (min(E.shape) - fit.d + 1) // 2 + 1
    rounding = 1e-12 * np.mean(fit.X**2) * fit.k
    if few < 3 or fit.square.sum() < rounding:
        return 0.0
    E = E / np.maximum(size, max(np.median(size), 1e-3 * size.max()))
    values = energies(E)[:few]
    ratios = values[:-1] / np.maximum(values[1:], 1e-12 * values[0])
    return np.sqrt(np.max(ratios))


def ceilings(X: Array) -> Array:
    """Cells of each mixture with its largest value, for one that has the next value.

    Mixtures that end at the same value are counted together. The next value is frequent
    too in counts and other data of few values. If all samples have the largest value,
    they were divided by it.
    """
    top = X.max(axis=0)
    ratio = np.zeros(X.shape[1])
    for value in np.unique(top[(top > 0) & (X.min(axis=0) < top)]):
        alike = X[:, top == value]
        highest = alike == value
        if not highest.any(axis=1).all():
            following = np.max(alike, where=~highest, initial=-np.inf)
            ratio[top == value] = highest.sum() / np.sum(alike == following)
    return ratio
