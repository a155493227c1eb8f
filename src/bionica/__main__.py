"""Run the command line as ``python -m bionica``."""

from .cli import app

try:
    app()
finally:
    # Where Ctrl-C came inside an exec of text (imports and Numba do that), CPython remembers it as unhandled although it was
    # handled, and under -m kills itself instead of exiting with our status. Another exec makes it forget.
    exec("")
