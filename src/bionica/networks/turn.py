"""The turn of a natural network: a sample that violates nonnegativity turns V, in one plane, towards the orthant.

v = V u is what the outputs would be without rectification, y the outputs; V = M^-1 W. If some v_i < 0, turn v towards y in the
plane of the two:

    a = y/|y|,  b = (v - (a'v) a)/|v - (a'v) a|,  theta the angle between v and y,  tan(phi/2) = f tan(theta/2)
    V <- V + ((cos phi - 1)(a a' + b b') + sin phi (a b' - b a')) V,        that is W <- W + M (...) V
    f = lambda |y|^2/(1 + |y|^2)/(1 + 10 t^2),   t = |v - (a'v) a|/|y|,   lambda = 1.8 (1 + m/(1000 d))^-1/2

where m counts the samples that turned (never above the horizon). A rotation from the left keeps V'V: it does not disturb the
step of `natural_input`, which keeps V'V = R and leaves rotations alone.

*Beyond the paper.* Near the solution samples are inequality constraints, and a step past the face (lambda > 1, as in successive
over-relaxation) helps sources with little density at zero: gamma sources, d = 20, worst of 3, lambda 1.0 / 1.5 / 1.8: 13.7 /
3.5 / 2.3 times the error of BatchNICA (Algorithm 2), 8.2 / 2.8 / 2.2 (Algorithm 1). 1/(1 + 10 t^2) makes the step smaller where
angles are large; lambda falls where noise makes every sample violate, and stays where violations are rare. |y|^2/(1 + |y|^2):
small samples carry noise, not direction.
"""

import math
from typing import NamedTuple

import numpy as np

from .generic import hot, ordered
from .plasticity import apply, dot

LAMBDA, TURNS, LARGE = 1.8, 1000.0, 10.0


class Workspace(NamedTuple):
    """Scratch arrays of a turn."""

    v: np.ndarray
    a: np.ndarray
    b: np.ndarray
    Ha: np.ndarray
    Hb: np.ndarray
    Va: np.ndarray  # V'a
    Vb: np.ndarray


def workspace(d, dtype):
    """Allocate scratch arrays."""
    return Workspace(*(np.zeros(d, dtype) for _ in Workspace._fields))


@hot
def find_turn(inp, W, H, c, y, share, horizon, work):
    """The plane of the turn for outputs y of c = W u, in work.a, b, Va, Vb; returns cos phi - 1 and sin phi.

    Both are 0 for a sample that does not turn.
    """
    v, a, b, Va, Vb, turned = work.v, work.a, work.b, work.Va, work.Vb, inp.turned
    d = y.shape[0]
    zero, one = W.dtype.type(0), W.dtype.type(1)
    silent = False
    for i in range(d):
        silent |= not y[i] > 0
    if not silent:
        return zero, zero
    apply(H, c, v)
    violated = False
    yy = zero
    vy = zero
    for i in range(d):
        violated |= v[i] < 0
        yy += y[i] * y[i]
        vy += v[i] * y[i]
    if not violated:
        return zero, zero
    if horizon > 0:
        turned[0] -= turned[0] / horizon
    turned[0] += 1
    if not yy > 0:
        return zero, zero
    # Sums are apart from stores, and quotients outside of loops: else the bits would depend on where in memory the arrays are.
    scale = one / math.sqrt(yy)
    along = vy * scale
    for i in range(d):
        a[i] = y[i] * scale
        b[i] = v[i] - along * a[i]
    ee = zero
    for i in range(d):
        ee += b[i] * b[i]
    if not ee > 0:
        return zero, zero
    inp.negative[0] += share * ee
    e = math.sqrt(ee)
    scale = one / e
    for i in range(d):
        b[i] *= scale
    apply(H, a, work.Ha)
    apply(H, b, work.Hb)
    _apply_transposed(W, work.Ha, work.Hb, Va, Vb)
    f = W.dtype.type(LAMBDA / math.sqrt(1 + turned[0] / (TURNS * d)))
    f *= share * yy / (one + yy) / (one + W.dtype.type(LARGE) * ee / yy)
    f *= e / (math.sqrt(along * along + ee) + along)  # tan(theta/2)
    scale = W.dtype.type(2) / (one + f * f)
    return -f * f * scale, f * scale


@ordered
def _apply_transposed(W, f, g, a, b):
    """a <- W'f and b <- W'g."""
    for j in range(W.shape[1]):
        a[j] = 0
        b[j] = 0
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            a[j] += W[i, j] * f[i]
            b[j] += W[i, j] * g[i]


@ordered
def turn(W, M, less, sin, work):
    """W <- W + M (less (a a' + b b') + sin (a b' - b a')) V, where less = cos phi - 1."""
    if sin == 0:
        return
    for i in range(W.shape[0]):
        a = dot(M, i, work.a)
        b = dot(M, i, work.b)
        along = less * a - sin * b
        across = less * b + sin * a
        for j in range(W.shape[1]):
            W[i, j] = (W[i, j] + along * work.Va[j]) + across * work.Vb[j]
