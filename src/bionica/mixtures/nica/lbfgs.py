"""L-BFGS on a space or on a manifold.

The caller gives the value and its gradient, a retraction (how a point moves along a
step: addition, or the Cayley transform on the orthogonal group), and, if it knows one,
an approximate inverse Hessian. Steps and changes of the gradient are used without
transport, as in Picard-O (Ablin, Cardoso and Gramfort 2018).

SciPy's L-BFGS-B has no manifolds.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bionica.core.blocks import Array

# of an entry; a rotation by more leaves the region in which the gradient says anything
_LARGEST_STEP = 0.5


class Minimum(NamedTuple):
    """Where the descent ended, the value there, the number of iterations, and whether
    it met its tolerance.
    """

    x: Array
    value: float
    n_iter: int
    converged: bool


def minimise(
    value_and_gradient: Callable[[Array], tuple[float, Array]],
    x: Array,
    *,
    tol: float,
    max_iter: int,
    retract: Callable[[Array, Array], Array] = np.add,
    inverse: Callable[[Array], Array] | None = None,
    stop: Callable[[Array], bool] | None = None,
) -> Minimum:
    """Descend from x until no entry of the next step exceeds `tol`.

    An infinite value makes the step shorter, and ends the descent at its start.
    `inverse` maps a gradient by an approximate inverse Hessian. `stop(x)` ends the
    descent after a step.
    """
    pairs: deque[tuple[Array, Array]] = deque(maxlen=10)  # step, change of the gradient
    value, gradient = value_and_gradient(x)
    for n_iter in range(max_iter if np.isfinite(value) else 0):
        step = _direction(gradient, pairs, inverse)
        slope = np.vdot(gradient, step)
        largest = np.abs(step).max()
        if not np.isfinite(largest):
            return Minimum(x, value, n_iter, False)
        # Without curvature the length of the first step has no meaning, and cannot end
        # the descent.
        if largest == 0 or (largest <= tol and (pairs or inverse is not None)):
            return Minimum(x, value, n_iter, True)
        length = min(1.0, _LARGEST_STEP / largest)
        shortest = 1e-8 * length
        while length > shortest:
            trial = retract(x, length * step)
            new_value, new_gradient = value_and_gradient(trial)
            if new_value < value:
                break
            # The minimum of the parabola through both values and the slope; an infinite
            # value tells nothing.
            parabola = -0.5 * slope * length / (new_value - value - slope * length)
            length *= min(max(parabola, 0.05), 0.3) if np.isfinite(new_value) else 0.3
        else:
            if not pairs:
                # rounding hides any further descent
                return Minimum(x, value, n_iter, True)
            # the curvature is that of another place: try once more without it
            pairs.clear()
            continue
        s = length * step
        y = new_gradient - gradient
        if np.vdot(s, y) > 0:
            pairs.append((s, y))
        x = trial
        value = new_value
        gradient = new_gradient
        if stop is not None and stop(x):
            return Minimum(x, value, n_iter + 1, False)
    return Minimum(x, value, max_iter if np.isfinite(value) else 0, False)


def _direction(
    gradient: Array,
    pairs: deque[tuple[Array, Array]],
    inverse: Callable[[Array], Array] | None,
) -> Array:
    """Minus the inverse Hessian times the gradient: the two loops of L-BFGS."""
    q = gradient.copy()
    weights = []
    for s, y in reversed(pairs):
        rho = 1.0 / np.vdot(s, y)
        a = rho * np.vdot(s, q)
        q -= a * y
        weights.append((rho, a))
    if inverse is not None:
        q = inverse(q)
    elif pairs:
        s, y = pairs[-1]
        q *= np.vdot(s, y) / np.vdot(y, y)
    for (s, y), (rho, a) in zip(pairs, reversed(weights), strict=True):
        q += (a - rho * np.vdot(y, q)) * s
    return -q
