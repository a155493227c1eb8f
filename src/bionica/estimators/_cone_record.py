"""How a `MinimumVolumeCone` is stored, and which values are valid (`_model_file`)."""

import numpy as np

from ..offline.cone.channels import Channels, Poisson
from ..offline.cone.coordinates import Coordinates
from ..offline.cone.fit import Cone
from ..offline.cone.kept_samples import Kept
from ..offline.cone.mixtures import Fit
from ..offline.cone.objective import Wall
from ..offline.cone.random_samples import RandomSamples
from ..offline.cone.stream import Averages, State
from ..offline.cone.wide_channels import Subspace
from ._model_file import Floats, Number, Record

_POSITIVE = Number(float, 1e-307)
_NOT_NEGATIVE = Number(float, 0.0)
_SHARE = 1e-300, 1.0  # bounds of probabilities that are divisors


def _check_averages(seen: Averages) -> None:
    if not np.array_equal(seen.second, seen.second.T) or np.diag(seen.second).min(initial=0.0) < 0:
        raise ValueError("a second moment is symmetric, with a diagonal that is not negative")


def _check_kept(kept: Kept) -> None:
    """Check that `facet` is the index of a facet, or d for extreme samples, and that sample numbers are whole."""
    facet, d = kept.facet, len(kept.rates)
    if (facet != np.floor(facet)).any() or (len(facet) and not 0 <= facet.min() <= facet.max() <= d):
        raise ValueError(f"kept samples belong to facets 0 to {d - 1}, or to {d}, the extreme ones")
    if (kept.number != np.floor(kept.number)).any() or kept.rates.shape[1] != 2:
        raise ValueError("kept samples have whole numbers and two strata")


def _check_random(samples: RandomSamples) -> None:
    if any((number != np.floor(number)).any() for number in (samples.number, samples.latest_number)):
        raise ValueError("random samples have whole numbers")


_AVERAGES = Record(Averages, {"weight": _POSITIVE, "mean": "q", "second": "qq"}, check=_check_averages)
#: How the state of a stream is stored: q channels, m kept samples, r + p random samples, s strata.
STATE = Record(
    State,
    {
        "n": int,
        "channels": Record(
            Channels,
            {
                "scale": _POSITIVE,
                "level": _NOT_NEGATIVE,
                "estimate": bool,
                "poisson": Record(Poisson, {"mean_total": _POSITIVE, "level": Floats("k", 0.0)}, optional=True),
                "subspace": Record(Subspace, {"matrix": "qk", "inverse": "kq", "noise": _NOT_NEGATIVE}, optional=True),
            },
        ),
        "raw": _AVERAGES,
        "weighted": _AVERAGES,
        "fit": Record(
            Fit,
            {
                "components": "dq",
                "mixing": "qd",
                "coordinates": Record(
                    Coordinates,
                    {
                        "matrix": "dq",
                        "inverse": "qd",
                        "known": bool,
                        "variance": _NOT_NEGATIVE,
                        "channel_noise": Floats("q", 0.0),
                    },
                ),
                "cone": Record(
                    Cone,
                    {
                        "V": "dd",
                        "wall": Record(
                            Wall,
                            {
                                "c": Floats("d", 0.0, finite=False),  # NaN if not yet known
                                "variance": Floats("d", 0.0),
                                "e": Floats("d", 0.0),
                                "kappa": _NOT_NEGATIVE,
                            },
                        ),
                        "noise": Floats("d", 0.0),
                        **dict.fromkeys(("rho", "expected_rho", "support", "atom"), "d"),
                        "n_iter": int,
                        "converged": bool,
                    },
                ),
                "fallback": bool,
                "has_mean": bool,
            },
        ),
        "negativity": _NOT_NEGATIVE,
        "limit": Number(float, 0.0, finite=False),
        "kept": Record(
            Kept,
            {
                "x": "mq",
                "number": Floats("m", 0.0, 2.0**52),
                "chance": Floats("m", *_SHARE),
                "facet": "m",
                "rates": Floats("ds", *_SHARE),
                "reach": Floats("d", finite=False),
            },
            check=_check_kept,
        ),
        "random": Record(
            RandomSamples,
            {
                "x": "rq",
                "number": Floats("r", 0.0, 2.0**52),
                "latest_x": "pq",
                "latest_number": Floats("p", 0.0, 2.0**52),
                "rate": Number(float, *_SHARE),
            },
            check=_check_random,
        ),
        "fresh": bool,
        "next_solve": int,
        "next_check": int,
    },
    optional=True,
)
