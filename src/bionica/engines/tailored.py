"""The loop compiled for one size: what a network of fewer than `SHORT` neurons and inputs gains from that.

With the sizes known the compiler unrolls the short loops and keeps activities in registers: a sample of Algorithm 2 takes 0.7
to 0.85 of the time at d = 3 and 10 (benchmarks/results/speed.md). The bits are those of the loop for all sizes (see `compiled`), so
that one can take over from the other at any sample. But it takes 5 to 30 s to compile, and every size has its own: `stream` does
that where it pays.

Here the text of a function is written that hands the arrays of a network to the loop with their sizes as constants.
"""

from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from ..networks.generic import SHORT
from ..networks.state import leaves


def shapes(state: Any, k: int) -> tuple[tuple[int, ...], ...] | None:
    """Return the sizes that a loop for this network and k mixtures is compiled for; None if they are not small."""
    found = [leaf.shape for leaf in leaves(state)]
    if k >= SHORT or any(size >= SHORT for shape in found for size in shape):
        return None
    return (*found, (k,))


def write(state: Any, work: Any, k: int, loop: Any, name: str) -> Any:
    """Return `loop` for networks of this size, as a function to compile."""
    names = {"loop": loop, "rows": _sized((None, k))}
    arguments = (
        f"{_sized_tuple(state, 'state', names)}, {_sized_tuple(work, 'work', names)}, params, rows(X), rates, Y, limit"
    )
    text = f"def {name}(state, work, params, X, rates, Y, limit):\n    return loop({arguments})\n"
    exec(compile(text, __file__, "exec"), names)
    made = names[name]
    made.__module__ = __name__
    return made


def _sized_tuple(value, place, names):
    """The expression for the named tuple found at `place`, its arrays with constant sizes; `names` gets what it uses."""
    if isinstance(value, np.ndarray):
        name = "_".join(["sized", *map(str, value.shape)])
        names.setdefault(name, _sized(value.shape))
        return f"{name}({place})"
    cls = type(value)
    name = f"{cls.__module__.rpartition('.')[2]}_{cls.__name__}"
    names[name] = cls
    return (
        f"{name}({', '.join(_sized_tuple(getattr(value, field), f'{place}.{field}', names) for field in cls._fields)})"
    )


def _sized(shape):
    """The function that returns a C-ordered array whose sizes are constants to the compiler; None leaves a size as it is."""

    @intrinsic
    def sized(typingctx, array):
        def generate(context, builder, signature, args):
            given = context.make_array(array)(context, builder, value=args[0])
            made = context.make_array(array)(context, builder)
            word = context.get_value_type(types.intp)
            itemsize = context.get_abi_sizeof(context.get_data_type(array.dtype))
            old = cgutils.unpack_tuple(builder, given.shape, len(shape))
            context.populate_array(
                made,
                data=given.data,
                shape=[word(size) if size is not None else before for size, before in zip(shape, old, strict=True)],
                strides=[word(itemsize * int(np.prod(shape[axis + 1 :]))) for axis in range(len(shape))],
                itemsize=word(itemsize),
                meminfo=given.meminfo,
                parent=given.parent,
            )
            return made._getvalue()

        return array(array), generate

    return sized
