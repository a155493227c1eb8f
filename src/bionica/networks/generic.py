"""How the parts of the loop are compiled.

Sums and rates are made in the precision of the arrays (`W.dtype.type(eta)`): one double among singles, a literal too, would make
doubles of them all, which a GPU pays for.

Products are added by `fma`, rounded once, and sums of fewer than `SHORT` terms are taken in order: nothing in a small network is
left to the compiler, so that a loop compiled for one size gives the same bits as the loop for all (see `stream`). Longer sums may
be taken in any order (`sums`), and are vectorised.

`hot` functions are inlined into the loop: without that the arrays of a state travel through every call, and a sample of
Algorithm 2 at d = 3 takes twice as long. `cold` functions run rarely and stay out of line, which keeps compilation
short. `generic` makes a function that finds its implementation by the type of its first argument: by
`functools.singledispatch` in Python, at compile time in Numba. With the JIT off all of them are plain Python.
"""

import contextlib
import functools
import inspect

from numba.core import config
from numba.extending import intrinsic, overload, register_jitable

hot = register_jitable(forceinline=True)
cold = register_jitable(forceinline=False)
# For long sums, which may be taken in any order.
sums = register_jitable(forceinline=True, fastmath={"nsz", "contract", "reassoc"})
# For sums kept in lanes by hand: the compiler must not make other lanes of them.
in_lanes = register_jitable(forceinline=False, fastmath={"nsz", "arcp", "contract", "afn"})
# Sums of fewer terms are taken in order.
SHORT = 12


def fma(a, b, c):
    """a b + c, rounded once."""
    return a * b + c


@intrinsic
def _fma(typingctx, a, b, c):
    real = typingctx.unify_types(a, b, c)

    def generate(context, builder, signature, args):
        return builder.fma(*args)

    return real(real, real, real), generate


@overload(fma, jit_options={"forceinline": True})
def _fused(a, b, c):
    return lambda a, b, c: _fma(a, b, c)


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
