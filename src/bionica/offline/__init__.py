"""All samples at once: the objectives behind the networks, whitening, rotation, and their estimators."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .offline_nica import OfflineNICA

__all__ = ["OfflineNICA"]


def __getattr__(name: str) -> Any:
    if name == "OfflineNICA":
        from .offline_nica import OfflineNICA

        return OfflineNICA
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
