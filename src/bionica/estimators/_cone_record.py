"""How a `MinimumVolumeCone` is stored (`_persistence`)."""

from ..offline.cone.channels import Channels, Poisson
from ..offline.cone.coordinates import Coordinates
from ..offline.cone.fit import Cone
from ..offline.cone.kept_samples import Kept
from ..offline.cone.mixtures import Fit
from ..offline.cone.objective import Wall
from ..offline.cone.stream import Averages, State
from ..offline.cone.wide_channels import Subspace
from ._persistence import Record

_AVERAGES = Record(Averages, {"weight": float, "mean": "q", "second": "qq"})
#: How the state of a stream is stored: q channels, m kept samples, s strata.
STATE = Record(
    State,
    {
        "n": int,
        "channels": Record(
            Channels,
            {
                "scale": float,
                "level": float,
                "estimate": bool,
                "poisson": Record(Poisson, {"mean_total": float, "level": "k"}, optional=True),
                "subspace": Record(Subspace, {"matrix": "qk", "inverse": "kq", "noise": float}, optional=True),
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
                    {"matrix": "dq", "inverse": "qd", "known": bool, "variance": float, "channel_noise": "q"},
                ),
                "cone": Record(
                    Cone,
                    {
                        "V": "dd",
                        "wall": Record(Wall, {"c": "d", "variance": "d", "e": "d", "kappa": float}),
                        **dict.fromkeys(("noise", "rho", "expected_rho", "support", "atom"), "d"),
                        "n_iter": int,
                        "converged": bool,
                    },
                ),
                "fallback": bool,
                "has_mean": bool,
            },
        ),
        "negativity": float,
        "limit": float,
        "kept": Record(Kept, {"x": "mq", "number": "m", "chance": "m", "facet": "m", "rates": "ds", "reach": "d"}),
        "fresh": bool,
        "next_solve": int,
    },
    optional=True,
)
