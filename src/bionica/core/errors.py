"""The exceptions of bionica's own. Each has a second base, the built-in exception that
callers would expect.

A parameter or samples that an estimator cannot use raise a plain ValueError, as
everywhere in scikit-learn.
"""

from typing import Any


def printable(text: str) -> str:
    """Return text without control characters, which a terminal would obey."""
    return "".join(character if character.isprintable() else " " for character in text)


class BionicaError(Exception):
    """Base of all exceptions that only bionica raises.

    Examples
    --------
    >>> import bionica
    >>> try:
    ...     bionica.io.open_reader("nothing.csv")
    ... except bionica.BionicaError as error:
    ...     print(type(error).__name__)
    InputError
    """


class InputError(BionicaError, ValueError):
    """Data that cannot be read as mixtures.

    The message names the file, the place and the remedy.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class OutputError(BionicaError, ValueError):
    """Something that cannot be written as asked.

    The message names the file and the remedy.
    """


class ModelFileError(BionicaError, ValueError):
    """A file that is not a complete, unaltered bionica model.

    Examples
    --------
    >>> import bionica
    >>> bionica.load(bionica.__file__)
    Traceback (most recent call last):
    bionica.core.errors.ModelFileError: ... is not a complete bionica model ...
    """


class ClusterError(BionicaError, RuntimeError):
    """A Dask cluster that cannot finish: a worker without bionica, workers that died, a
    scheduler that is gone.

    Examples
    --------
    >>> from bionica import BionicaError, ClusterError
    >>> issubclass(ClusterError, BionicaError)
    True
    """


class DivergenceError(BionicaError, ArithmeticError):
    """A network whose outputs or weights left the range of its numbers.

    Attributes
    ----------
    sample : int
        Index of the sample at which it happened, counted from the first that the
        network has seen.

    Examples
    --------
    >>> from bionica import DivergenceError
    >>> DivergenceError("an output overflowed", sample=7).sample
    7
    """

    def __init__(self, message: str, sample: int) -> None:
        super().__init__(message)
        self.sample = sample

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.sample)


class Diverged(ArithmeticError):
    """An output or a weight left the range of its dtype at a sample, which is x.

    Estimators turn it into a DivergenceError, which says what to do.
    """

    def __init__(self, sample: int, x: Any):
        super().__init__(f"an output left the range of its dtype at row {sample}")
        self.sample = sample
        self.x = x
