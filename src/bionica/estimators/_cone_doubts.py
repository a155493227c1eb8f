"""What speaks against the solution of a `MinimumVolumeCone`, each with a remedy."""

from typing import Any

import numpy as np

from ..offline.cone.stream import State
from ._fit_doubts import SAMPLES_PER_SOURCE
from ._warn import warn_of_doubts

_UNEXPLAINED = 5.0  # times the discrepancy that the noise explains; up to 4.5 for sound data with noise at 40 dB


def doubts(state: State, noise: Any, horizon: int | None) -> dict[str, str]:
    """The doubts by name: sentences without their subject. With a horizon, mixtures change, which makes outputs negative."""
    fit, cone = state.fit, state.fit.cone
    d = len(fit.components)
    found = {}
    if not fit.has_mean:
        found["mean"] = (
            "found no cone: the mean of the mixtures is zero, so it has been removed, or the sources are not nonnegative; pass X "
            "as it was measured. The outputs are those of nonnegative ICA and mean nothing"
        )
        return found
    if state.n < SAMPLES_PER_SOURCE * d:
        found["few"] = (
            f"saw {state.n} samples, which are few for {d} sources: the facets of the cone may not be touched; bring at least "
            f"{SAMPLES_PER_SOURCE * d} samples, or lower n_components"
        )
    if fit.fallback:
        found["noise"] = (
            f"returned the solution of nonnegative ICA, because the noise of an output is {cone.noise.max():.2g} times its mean "
            f"and hides the facets of the cone (noise={noise!r}): bring more mixtures than sources, average samples, or lower "
            "n_components"
        )
    elif not cone.converged:
        found["settled"] = (
            "did not settle: the wall and the noise still change from round to round; bring more samples, give noise= a number, "
            "or lower n_components"
        )
    ratio = cone.rho / np.maximum(cone.expected_rho, 1e-300)
    if horizon is None and cone.noise.any() and not fit.fallback and ratio.max() > _UNEXPLAINED:
        found["unexplained"] = (
            f"leaves output {int(np.argmax(ratio))} far more negative than its noise explains ({ratio.max():.2g} times): there may "
            "be outliers (set outliers=), n_components may be wrong, sources may be negative at times, or noise= may be too small"
        )
    return found


def warn_of_new_doubts(before: State | None, state: State, noise: Any, horizon: int | None) -> None:
    """Warn of what speaks against this solution and did not speak against the one before."""
    known = set() if before is None else set(doubts(before, noise, horizon))
    found = doubts(state, noise, horizon)
    warn_of_doubts("MinimumVolumeCone", [sentence for doubt, sentence in found.items() if doubt not in known])
