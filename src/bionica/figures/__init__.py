"""Tables in, pictures out; computes nothing."""

from .separation import separation_figure

__all__ = ["separation_figure"]
