"""What keeps a network alive: repairs after the synaptic updates, each counted.

Appendix C of the paper:

    silent     a neuron that has not fired so far has the sign of its feedforward
               weights flipped (every sample)
    row        a row of W_xy with norm below 0.1 is replaced by a standard normal vector
               (every 100 samples)
    spectrum   singular values of W_xy, W_yn, W_ny and eigenvalues of W_zz below 0.01
               are set to 1 (every 100 samples)

*Beyond the paper.*

    rate       the sample's learning rate is lowered to what its size can bear: in
               Algorithm 2 W_xz is multiplied by I - 2 eta (x - x_bar)(x - x_bar)', in
               Nonnegative PCA W by I - eta y y'; past 1/|x - x_bar|^2 and 2/|y|^2 these
               overshoot and the weights grow without bound. The guard caps eta at half
               of that. Published settings run without it.

Counted with them: samples whose dynamics were `regularised` or did not settle
(`unsettled`).
"""

import math
from typing import Any, NamedTuple

from bionica.circuits.settling import solve_firing
from bionica.engine.algebra import dot_rows
from bionica.engine.rule import RATE, ROW, SILENT, SPECTRUM, cold, hot

ROW_FLOOR = 0.1
SPECTRUM_FLOOR = 0.01


class Guards(NamedTuple):
    """Which guards are on."""

    silent: bool = False
    row: bool = False
    spectrum: bool = False
    rate: bool = False


class Params(NamedTuple):
    """What most rules are run with."""

    dynamics: Any
    guards: Guards
    average: int  # samples that averages reach back; 0: they are not kept
    mean_window: int  # samples of the running means; 0: all, as in the paper
    eps: float  # rounding unit
    tau: float = 1.0  # lateral weights learn at the rate eta/tau


@hot
def flip_silent(W, y, fired, events):
    """Flip the feedforward weights of every neuron that has never fired."""
    all_fired = True
    for i in range(y.shape[0]):
        fired[i] |= y[i] > 0
        all_fired &= fired[i]
    if all_fired:
        return
    for i in range(y.shape[0]):
        if not fired[i]:
            events[SILENT] += 1
            for j in range(W.shape[1]):
                W[i, j] = -W[i, j]


@hot
def cap_rate(eta, size, most, events):
    """The learning rate, or `most / size` if that is less."""
    if eta * size > most:
        events[RATE] += 1
        return most / size
    return eta


@cold
def replace_rows(W, rng, events):
    """Replace every row of W whose norm fell below 0.1 by a standard normal vector."""
    for i in range(W.shape[0]):
        if not dot_rows(W, i, W, i, W.shape[1]) >= ROW_FLOOR * ROW_FLOOR:
            events[ROW] += 1
            for j in range(W.shape[1]):
                W[i, j] = standard_normal(rng)


@cold
def uniform(rng):
    """A number in (0, 1): a multiplicative generator of L'Ecuyer (1988), whose integers
    never overflow; rng is int64[1].
    """
    rng[0] = rng[0] * 40014 % 2147483563
    return rng[0] / 2147483563.0


@cold
def standard_normal(rng):
    """A normal number, by Box and Muller."""
    radius = math.sqrt(-2 * math.log(uniform(rng)))
    return radius * math.cos(2 * math.pi * uniform(rng))


@cold
def _exceeds(S, floor, eps, ws):
    """Whether every eigenvalue of S is above `floor`: S - floor I has an LDL'
    factorisation with positive pivots.
    """
    for i in range(S.shape[0]):
        ws.chosen[i] = i
    return solve_firing(eps, S, -floor, ws.w, ws.chosen, S.shape[0], ws)


@cold
def lift_singular_values(W, eps, ws):
    """Set the singular values of W (d x n, d <= n) that fell below 0.01 to 1; True if
    there were any.
    """
    d, n = W.shape
    S = ws.M
    largest = 0.0
    for i in range(d):
        for j in range(i + 1):
            S[i, j] = dot_rows(W, i, W, j, n)
        largest = max(largest, S[i, i])
    # Most of the time nothing is wrong, and W W' - (2 floor)^2 I has a factorisation to
    # show it, less what rounding can hide.
    rounding = 8 * eps * d * n * largest
    if _exceeds(S, 4 * SPECTRUM_FLOOR * SPECTRUM_FLOOR + rounding, eps, ws):
        return False
    return _lift(W, SPECTRUM_FLOOR, 1.0, eps, ws)


@cold
def _lift(W, floor, value, eps, ws):
    """Set the singular values of W below `floor` to `value`; True if there were any."""
    d, n = W.shape
    U = ws.L
    largest = 1.0
    for i in range(d):
        for p in range(n):
            largest = max(largest, abs(W[i, p]))
    for i in range(d):  # no singular value is exactly zero then
        W[i, i] += eps * largest
    orthogonalise_rows(W, U, 8 * eps)  # U W0 = W with orthogonal rows sigma_i v_i'
    before = ws.events[SPECTRUM]
    for i in range(d):
        sigma = math.sqrt(dot_rows(W, i, W, i, n))
        if sigma < floor:
            ws.events[SPECTRUM] += 1
            for p in range(n):
                W[i, p] *= value / max(sigma, 1e-30)
    _rotate_back(W, U, ws.u)
    return ws.events[SPECTRUM] > before


@cold
def _rotate_back(W, U, column):
    """W <- U' W."""
    d, n = W.shape
    for p in range(n):
        for i in range(d):
            s = 0.0
            for j in range(d):
                s += U[j, i] * W[j, p]
            column[i] = s
        for i in range(d):
            W[i, p] = column[i]


@cold
def lift_eigenvalues(W, eps, ws):
    """Set the eigenvalues of the symmetric W that fell below 0.01 to 1; True if there
    were any.
    """
    d = W.shape[0]
    largest = 0.0
    shift = 0.0
    for i in range(d):
        largest = max(largest, W[i, i])
        size = 0.0
        for j in range(d):
            size += abs(W[i, j])
        shift = max(shift, size)
    if _exceeds(W, 2 * SPECTRUM_FLOOR + 8 * eps * d * largest, eps, ws):
        return False
    # Singular values are eigenvalues if none is negative: shift all to 1 at least.
    shift += 1
    for i in range(d):
        W[i, i] += shift
    lifted = _lift(W, shift + SPECTRUM_FLOOR, shift + 1, eps, ws)
    for i in range(d):
        W[i, i] -= shift
        for j in range(i):
            W[i, j] = W[j, i] = (W[i, j] + W[j, i]) / 2
    return lifted


@cold
def orthogonalise_rows(A, U, tol):
    """One-sided Jacobi: rotate pairs of rows of A until all are orthogonal to within
    `tol`; U gets the rotation.
    """
    d, n = A.shape
    for i in range(d):
        for j in range(d):
            U[i, j] = i == j
    for _ in range(60):
        rotated = False
        for i in range(d - 1):
            for j in range(i + 1, d):
                aa = dot_rows(A, i, A, i, n)
                bb = dot_rows(A, j, A, j, n)
                ab = dot_rows(A, i, A, j, n)
                if abs(ab) <= tol * math.sqrt(aa * bb) or ab == 0:
                    continue
                rotated = True
                zeta = (bb - aa) / (2 * ab)
                root = math.sqrt(1 + zeta * zeta)
                tan = math.copysign(1.0, zeta) / (abs(zeta) + root)
                cos = 1 / math.sqrt(1 + tan * tan)
                sin = cos * tan
                _rotate(A, i, j, cos, sin)
                _rotate(U, i, j, cos, sin)
        if not rotated:
            return


@cold
def _rotate(A, i, j, cos, sin):
    for p in range(A.shape[1]):
        a = A[i, p]
        b = A[j, p]
        A[i, p] = cos * a - sin * b
        A[j, p] = sin * a + cos * b
