"""Private names of Dask.

`Array._meta`
    An empty array of the type of the blocks (NumPy, CuPy, sparse). Dask has no public way to ask for that type without
    computing a block.

Checked with Dask 2024.5.0 and 2026.8.0.
"""

from typing import Any

__all__ = ["block_type"]


def block_type(array: Any) -> type:
    """Return the type of the blocks of a Dask array."""
    return type(array._meta)
