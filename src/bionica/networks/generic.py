"""How the parts of the loop are compiled, with Numba's public interface only.

`hot` functions are inlined into the loop: without inlining, the arrays of a state travel through every call, and a sample of
Algorithm 2 at d = 3 takes twice as long. `cold` functions run rarely and stay out of line. `generic` makes a function that finds
its implementation by the type of its first argument: with `functools.singledispatch` in Python, at compile time in Numba. With
the JIT off all of them are plain Python.

Arithmetic keeps the precision of the arrays (`W.dtype.type(eta)`): a single float64 literal promotes the whole expression to
float64, which is slow on GPUs. The compiler may reorder sums and fuse products; NaN and infinity keep their meaning.
"""

import functools
import inspect

from numba.extending import overload, register_jitable

_ORDERED = {"nsz", "arcp", "contract", "afn"}
FASTMATH = {*_ORDERED, "reassoc"}

hot = register_jitable(forceinline=True, fastmath=FASTMATH)
cold = register_jitable(forceinline=False, fastmath=FASTMATH)
# For sums of few terms, which are slower when they are vectorised.
ordered = register_jitable(forceinline=True, fastmath=_ORDERED)


def generic(stub):
    """Turn `stub`, an empty function with a docstring, into a generic function; implementations `register` a type."""

    @functools.singledispatch
    @functools.wraps(stub)
    def call(*args):
        raise TypeError(f"no {stub.__name__}() is registered for {type(args[0]).__name__}")

    def resolve(*types):
        return call.dispatch(types[0].instance_class)

    # Numba compares the resolver's argument names with the implementation's.
    resolve.__signature__ = inspect.signature(stub)
    overload(call, jit_options={"forceinline": True, "fastmath": FASTMATH}, strict=False)(resolve)
    return call
