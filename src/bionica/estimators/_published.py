"""The paper's settings. Each network has its row of table 1 (appendix C), to the digit, and its guards as `_published`.

Where the authors' code differs from the table (Nonnegative PCA at d = 3 and on images, Algorithm 2 on images), the table is meant.
"""

from typing import Any

#: The number of sources of each of the paper's problems.
SOURCES = {"d3": 3, "d10": 10, "images": 3}

#: What all networks of the paper have in common.
_COMMON: dict[str, Any] = {
    "power": 1.0,
    "dynamics": "exact",
    "mean_window": None,
    "precondition": None,
    "average": False,
    "init": "random",
}


def published(cls: Any, setting: str) -> dict[str, Any]:
    """Every parameter of the paper's network of this class in this setting."""
    if setting not in SOURCES:
        raise ValueError(f"setting={setting!r} is not one of the paper's; choose from {sorted(SOURCES)}")
    if not cls._published:
        raise ValueError(f"{cls.__name__} is not in the paper: it has no published setting")
    return {"n_components": SOURCES[setting], **_COMMON, **cls._published["always"], **cls._published[setting]}
