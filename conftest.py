"""Doctests of modules whose package is not installed are not collected."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("river") else ["src/bionica/river.py"]
