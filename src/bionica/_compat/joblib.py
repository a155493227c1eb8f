"""Private names of joblib."""

from joblib.parallel import BACKENDS

__all__ = ["streaming_backends"]


def streaming_backends() -> list[str]:
    """Names of the registered backends that return results as they finish."""
    return sorted(name for name, backend in BACKENDS.items() if backend.supports_return_generator)
