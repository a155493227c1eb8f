"""How the parts of the loop are compiled.

Sums and rates are made in the precision of the arrays (`W.dtype.type(eta)`): one double among singles, a literal too, would make
doubles of them all, which a GPU pays for.

`hot` functions are inlined into the loop: without that the arrays of a state travel through every call, and a sample of
Algorithm 2 at d = 3 takes twice as long. `cold` functions run rarely and stay out of line, which keeps compilation
short. `generic` makes a function that finds its implementation by the type of its first argument: by
`functools.singledispatch` in Python, at compile time in Numba. With the JIT off all of them are plain Python.
"""

import contextlib
import functools
import inspect

from numba.core import config
from numba.extending import overload, register_jitable

hot = register_jitable(forceinline=True)
cold = register_jitable(forceinline=False)
# Where long sums may be taken in any order.
cold_sums = register_jitable(forceinline=False, fastmath={"nsz", "arcp", "contract", "afn", "reassoc"})
# Where sums are kept in lanes by hand: the compiler must not make other lanes of them.
in_lanes = register_jitable(forceinline=False, fastmath={"nsz", "arcp", "contract", "afn"})


@contextlib.contextmanager
def lanes():
    """Compile with LLVM's vectoriser of straight-line code, which Numba leaves out, for what is `in_lanes`."""
    before = config.SLP_VECTORIZE
    config.SLP_VECTORIZE = 1
    try:
        yield
    finally:
        config.SLP_VECTORIZE = before


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
    overload(call, jit_options={"forceinline": True}, strict=False)(resolve)
    return call
