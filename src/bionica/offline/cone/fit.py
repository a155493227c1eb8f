"""The minimum-volume cone of an array of coordinates: starts, rounds, and which start wins.

Each start descends on a subset of 20,000 samples. A round finds the leakage at every facet, from it the wall (`leakage`), and the
cone inside that wall (`objective`), until neither changes. The best start continues on all samples. If no noise is seen, the cone
is tightened by linear programs (`linear_programs`).

From a start that is far (its negative part is larger than a tenth of the mean), walls are first as wide as what is negative, then
a third of that. A near start goes without them, because wide walls would only push sparse sources into a wrong cone.
"""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .leakage import Leakage, leakages, next_wall, tail
from .linear_programs import tighten
from .objective import Minimum, Wall, minimise_on_all

Array = npt.NDArray[Any]
Start = Callable[[Array], "Array | None"]

SOFT, FINAL = 0.5, 0.1  # kappa of the first two rounds, and after
_FIRST_C = 3.0
_WIDEST = 0.3  # e of the first walls from a start, times the mean of the output, at most
_NO_NOISE_WIDTHS = (0.1, 3e-2, 1e-2, 3e-3, 1e-3)
_NEAR = 0.1  # of the mean of an output: a start whose negative part is smaller is near
_VANISHING = 0.1  # noise over the negative part of a near start, as which it begins: other starts would not change it
_LOST = 30.0  # noise of an output over its mean, or change of P: no facet holds the mean any more
_LEAST_SUPPORT = {
    False: 0.1,
    True: 0.03,
}  # of a facet, by whether the noise is known; 0.005 to 0.05 in wide cones around an apex
_APEX = 0.1  # share of samples at zero; 0.65 to 0.77 in such cones, 0 if sources have a density at zero
_SUBSET = 20_000
_TOUCHING = 60  # samples per facet
_TOUCHED = 0.31  # share of them in the nearer half of their range
_SMALL = 0.1  # of the mean sum of outputs: samples near the apex
_SHRINKS = 0.01  # logarithm of the volume that a few samples may add without noise
MAX_ROUNDS = 25
_STILL = 0.05  # change of P
_SUBSET_ROUNDS = 10


class Cone(NamedTuple):
    """A cone in coordinates u, with V u_bar = 1.

    `wall` is the last wall; `noise` (d,) the standard deviation of the noise of each output (of mean 1); `rho` and `expected_rho`
    (d,) the discrepancy, eq. (5); `support` (d,) that of the facets; `atom` (d,) the share of samples at zero; `n_iter` counts
    iterations of L-BFGS and sweeps of linear programs; `converged` says whether the wall has settled.
    """

    V: Array
    wall: Wall
    noise: Array
    rho: Array
    expected_rho: Array
    support: Array
    atom: Array
    n_iter: int
    converged: bool


def cone_of(V: Array, wall: Wall, leaks: list[Leakage], n_iter: int, converged: bool) -> Cone:
    """The cone V with what was seen near its facets."""
    return Cone(
        V=V,
        wall=wall,
        noise=np.sqrt(wall.variance) * np.linalg.norm(V, axis=1),
        rho=np.array([k.rho for k in leaks]),
        expected_rho=np.array([k.expected_rho for k in leaks]),
        support=np.array([k.support for k in leaks]),
        atom=np.array([k.atom for k in leaks]),
        n_iter=n_iter,
        converged=converged,
    )


def fit_cone(U: Array, variance: float | None, starts: list[Start]) -> Cone:
    """The minimum-volume cone around U (n_samples, d), which is in coordinates.

    `variance` is that of the noise in every coordinate: 0 for none, None to find it. Each of `starts` takes samples (n, d) and
    returns V (d, d) or None, the most trusted first. The first start whose wall settles with the discrepancy that the noise
    explains is believed, and later starts are skipped.
    """
    if U.shape[1] == 1:
        return _single_source(U, variance)
    subset = np.ascontiguousarray(U[:: max(1, len(U) // _SUBSET)])
    whole = len(subset) == len(U)
    rounds = MAX_ROUNDS if whole else _SUBSET_ROUNDS
    found: list[tuple[Cone, bool]] = []
    for start in starts:
        V = start(subset)
        for cone, believed in () if V is None else _descents(subset, V, variance, rounds):
            vanished = variance is None and not cone.wall.variance.any()
            doubtful = False
            if vanished and not believed:
                doubtful = not touched(without_noise(subset, cone, subset.mean(axis=0), known=True).V @ subset.T)
            found.append((cone, doubtful))
            if believed:
                break
        else:
            continue
        break
    rivals = [cone for cone, doubtful in found if not doubtful] or [cone for cone, _ in found]
    best = reduce(partial(better, subset, variance is not None), rivals)
    if not whole:
        best = settle(U, best, variance, MAX_ROUNDS)
    return best if best.wall.variance.any() else without_noise(U, best, U.mean(axis=0), known=variance == 0)


def _single_source(U: Array, variance: float | None) -> Cone:
    """One source: its cone is a half-line."""
    one = np.ones(1)
    wall = Wall(np.full(1, _FIRST_C), one * (variance or 0.0), 0 * one, FINAL)
    V = np.array([[1 / U.mean()]])
    return Cone(V, wall, np.sqrt(wall.variance) * abs(V[0]), 0 * one, one, one, 0 * one, 0, True)


def outputs(U: Array, V: Array, u_bar: Array | None = None) -> tuple[Array, Array]:
    """V scaled so that V u_bar = 1, and the outputs V u as columns."""
    V = V / (V @ (U.mean(axis=0) if u_bar is None else u_bar))[:, None]
    return V, V @ U.T


def _descents(U: Array, V: Array, variance: float | None, rounds: int) -> Any:
    """Yield the cones that a start leads to, and whether each is believed."""
    V, Y = outputs(U, V)
    negative = float(np.median(tail(Y)))
    noise = float(np.median(np.linalg.norm(V, axis=1))) * np.sqrt(variance or 0.0)
    if variance == 0:
        ways = [True]
    elif negative < max(_NEAR, 2 * noise):
        ways = [False]
    else:
        ways = [True] if variance else [False, True]
    for wide in ways:
        cone = _descend(U, V, Y, variance, wide, rounds)
        vanishing = not wide and variance is None and np.median(cone.noise) < _VANISHING * negative
        yield (
            cone,
            (_believed(cone, negative) or (vanishing and negative < _NEAR)) and supported(cone, variance is not None),
        )


def _descend(U: Array, V: Array, Y: Array, variance: float | None, wide: bool, rounds: int) -> Cone:
    """From a start: if `wide`, walls as wide as what is negative there, then a third of that; then as the noise asks."""
    d = len(V)
    e = np.minimum(tail(Y), _WIDEST)
    known = np.full(d, variance or 0.0)
    n_iter = 0
    for width in (e, e / 3) if wide else ():
        wall = Wall(np.full(d, _FIRST_C), known, np.maximum(width, 1e-8), SOFT)
        found = minimise_on_all(V, Y, wall, tol=1e-2 * float(width.min()) + 1e-9)
        V, Y = outputs(U, found.V)
        n_iter += found.n_iter
    if variance is None:
        known = np.full(d, np.median(np.maximum(tail(Y), 1e-8) ** 2 / np.sum(V**2, axis=1)))
    wall = Wall(np.full(d, np.nan), known, np.zeros(d), SOFT)
    cone = cone_of(V, wall, leakages(Y, np.full(d, 1e-8)), n_iter, False)
    if variance == 0:
        return _harden(U, cone._replace(wall=wall._replace(e=e / 3)))
    return settle(U, cone, variance, rounds)


def _believed(cone: Cone, negative: float) -> bool:
    """Whether other starts may be skipped: the wall has settled, the discrepancy is as expected, the start was near.

    `negative` is the size of the negative part at the start. It counts if no noise is found, because a cone that is too large
    explains any data without noise.
    """
    noisy = bool(cone.wall.variance.any())
    return cone.converged and (noisy or negative < _NEAR) and (not noisy or explained(cone))


def explained(cone: Cone) -> bool:
    """Whether noise explains what lies outside the cone: rho is as expected within a factor of e^0.5 at every facet."""
    ratio = np.maximum(cone.rho, 1e-3) / np.maximum(cone.expected_rho, 1e-3)
    return bool(np.all(np.abs(np.log(ratio)) < 0.5))


def supported(cone: Cone, known: bool) -> bool:
    """Whether no facet is seen at the apex of the cone only. Without noise none is. `known` says whether the noise is known."""
    return not (cone.wall.variance.any() and at_apex(known, cone.support, cone.atom))


def at_apex(known: bool, support: Array, atom: Array) -> bool:
    """Whether a facet has an atom without support (`leakage`).

    Overlapping chromatogram peaks between long silences have a support of 0.05 to 0.2.
    """
    return bool(np.any((support < _LEAST_SUPPORT[known]) & (atom > _APEX)))


def touched(Y: Array) -> bool:
    """Whether the outputs Y (d, n_samples) of the smallest cone that holds all samples show no noise at its facets.

    Without noise, a source that has a density at zero has half of its 60 nearest samples (in angle) in the nearer half of their
    range (0.33 or more if correlated at 0.7), and more if it has an atom. Gaussian tails have 0.1 to 0.3 there. With few samples, a
    noise that shrinks from round to round may vanish; the cone then follows the noise.
    """
    angle = np.sort(Y / np.maximum(np.abs(Y).sum(axis=0), 1e-300), axis=1)
    nearest = angle[:, len(Y) - 1 : len(Y) - 1 + _TOUCHING]  # d - 1 samples lie on the facet of any cone
    shares = np.mean(nearest <= 0.5 * np.maximum(nearest[:, -1:], 1e-9), axis=1)
    return bool(shares.mean() > _TOUCHED)


def better(U: Array, known: bool, first: Cone, second: Cone) -> Cone:
    """The one whose facets are supported; then the one that needs less noise; then the one with the better objective.

    Noise that agrees within 20 % does not decide. Objectives are compared inside the wall of either, and `first` wins a tie.
    """
    if supported(first, known) != supported(second, known):
        return first if supported(first, known) else second
    noise = [float(np.median(cone.wall.variance)) for cone in (first, second)]
    if max(noise) > 1.44 * min(noise):
        return first if noise[0] < noise[1] else second
    gain = 0.0
    for wall in (first.wall, second.wall):
        values = [_minimum(U, cone.V, wall, 1e-3).value for cone in (first, second)]
        gain += values[0] - values[1]
    return second if gain > 1e-3 * len(first.V) else first


def _minimum(U: Array, V: Array, wall: Wall, tol: float) -> Minimum:
    return minimise_on_all(*outputs(U, V), wall, tol=tol)


def settle(U: Array, cone: Cone, variance: float | None, max_rounds: int) -> Cone:
    """Alternate between the wall that the leakage asks for and the cone inside that wall.

    It ends if no c and no noise variance changes by more than 5 %, or by what chance does to them in small samples, or if facets
    move by less than half the noise.
    """
    tol = max(0.05, 15 / np.sqrt(len(U)))
    wall, n_iter = cone.wall, cone.n_iter
    if not wall.variance.any():
        return cone
    known = variance is not None
    largest = np.inf if known else least_eigenvalue(U)
    u_bar = U.mean(axis=0)
    V, Y = outputs(U, cone.V, u_bar)
    converged, haste = False, 1
    for r in range(2 * cone.converged, max_rounds):
        size = np.linalg.norm(V, axis=1)
        leaks = leakages(Y, np.sqrt(wall.variance) * size)
        if r >= 4 and at_apex(known, np.array([k.support for k in leaks]), np.array([k.atom for k in leaks])):
            break  # such a cone has nothing to hold on to, and would wander
        last, kappa = wall, SOFT if r < 2 else FINAL
        wall, moved = next_wall(last, leaks, size, known=known, largest=largest, kappa=kappa, haste=haste)
        haste = min(haste + 1, 5) if np.median(wall.variance / last.variance) < 0.75 else 1
        if r > 5 and not np.isnan(last.c).any():
            wall = wall._replace(c=np.sqrt(wall.c * last.c))  # with few samples near a facet c may alternate
        if not wall.variance.any():
            converged = True
            break
        found = minimise_on_all(V, Y, wall, tol=1e-2 * float(np.min(np.sqrt(wall.variance) * size)))
        n_iter += found.n_iter
        s = np.sqrt(wall.variance) * np.linalg.norm(found.V, axis=1)
        if not np.all(s < _LOST) or found.change > _LOST:
            break
        V, Y = outputs(U, found.V, u_bar)
        # With few samples near a facet c alternates, while the facet hardly moves.
        still = found.change < _STILL and (moved < tol or (r >= 5 and found.change < 0.5 * s.min()))
        converged = r >= 2 and still
        if converged:
            break
    return cone_of(V, wall, leaks, n_iter, converged)


def least_eigenvalue(U: Array) -> float:
    """The largest possible noise variance: white noise adds its variance to every eigenvalue of the second moment."""
    return float(np.linalg.eigvalsh(U.T @ U / len(U))[0])


def _harden(U: Array, cone: Cone) -> Cone:
    """Without noise: narrow the wall in steps until its width is 1e-3 of the mean of an output."""
    V, n_iter, d = cone.V, cone.n_iter, len(cone.V)
    for e in [e for e in _NO_NOISE_WIDTHS if e < np.median(cone.wall.e)] or _NO_NOISE_WIDTHS[-1:]:
        wall = Wall(np.full(d, _FIRST_C), np.zeros(d), np.full(d, e), 0.0)
        found = _minimum(U, V, wall, 0.1 * e)
        V, n_iter = found.V, n_iter + found.n_iter
    V, Y = outputs(U, V)
    return cone_of(V, wall, leakages(Y, wall.e), n_iter, True)


def without_noise(U: Array, cone: Cone, u_bar: Array, *, known: bool = False) -> Cone:
    """The smallest cone that holds all samples of U, from a cone near it.

    Unless it is `known` that there is no noise, samples near the apex may lie outside if they make the cone wider.
    """
    d = len(cone.V)
    V, sweeps, converged = tighten(U, cone.V, u_bar)
    smaller = None if known else _without_apex(U, V, u_bar)
    if smaller is not None:
        V, more, converged = smaller
        sweeps += more
    wall = cone.wall._replace(variance=np.zeros(d), e=np.zeros(d))
    return cone._replace(V=V, wall=wall, noise=np.zeros(d), n_iter=cone.n_iter + sweeps, converged=converged)


def _without_apex(U: Array, V: Array, u_bar: Array) -> tuple[Array, int, bool] | None:
    """`tighten` without the samples near the apex of V, which holds all samples; None if the cone is hardly smaller then.

    Noise that is too low to be seen elsewhere turns the directions of these samples by any angle, so that a cone that holds them is
    wrong (60 dB, d = 3: 27 dB with them, 50 dB without). If there is no noise, a cone without them is the same but for chance.
    """
    large = np.abs(V @ U.T).sum(axis=0) > _SMALL * len(V)
    if large.sum() < _TOUCHING * len(V):
        return None
    found = tighten(U[large], V, u_bar)
    return found if np.linalg.slogdet(found[0])[1] > np.linalg.slogdet(V)[1] + _SHRINKS else None
