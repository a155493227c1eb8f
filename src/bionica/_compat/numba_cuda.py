"""numba-cuda beside a NumPy that is newer than it expects."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["cuda", "with_row_stack"]


@contextmanager
def with_row_stack() -> Iterator[None]:
    """Provide `numpy.row_stack`, which NumPy 2.5 removed, while numba-cuda imports or compiles: numba-cuda looks it up."""
    if hasattr(np, "row_stack"):
        yield
        return
    setattr(np, "row_stack", np.vstack)  # noqa: B010 - mypy knows that NumPy has no such name
    try:
        yield
    finally:
        delattr(np, "row_stack")


def cuda() -> Any:
    """Return the module `numba.cuda`."""
    with with_row_stack():
        from numba import cuda
    return cuda
