"""Run the command line as ``python -m bionica``."""

from .cli import app

app()
