"""The exceptions of bionica's own. Each has a second base, the built-in exception that
callers would expect.

A parameter or samples that an estimator cannot use raise a plain ValueError, as
everywhere in scikit-learn.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from string import Formatter
from typing import Any

#: Returns what a program calls a parameter: of its name and of the text behind it.
Naming = Callable[[str, str], str]


def printable(text: str) -> str:
    """Return text without control characters, which a terminal would obey."""
    return "".join(character if character.isprintable() else " " for character in text)


class Message(str):
    """Text that names parameters by fields: `Message("{}: pass {axis:=1}", name)`.

    As a string it names them as Python does, "pass axis=1". A program that calls them
    otherwise renders it with its own names. {} is the next of `values`, {n_components}
    a name, {axis:=1} a name with a value, and {transpose:pass X.T} a sentence in
    Python, which other programs replace by the key.
    """

    template: str
    values: tuple[object, ...]

    def __new__(cls, template: str, *values: object) -> "Message":
        """Render it for Python."""
        message = super().__new__(cls, _rendered(template, values, as_in_python))
        message.template = template
        message.values = values
        return message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.template, *self.values)

    def render(self, naming: Naming) -> str:
        """Return the text with other names of the parameters."""
        return _rendered(self.template, self.values, naming)


class _Renderer(Formatter):
    """Fills the fields of a template; those with a name are parameters."""

    def __init__(self, naming: Naming) -> None:
        self._naming = naming

    def get_field(
        self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if not field_name.isdecimal():
            return partial(self._naming, field_name), field_name
        value = args[int(field_name)]
        rendered = value.render(self._naming) if isinstance(value, Message) else value
        return rendered, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, partial):  # a parameter
            return value(format_spec)
        return str(format(value, format_spec))


def _rendered(template: str, values: tuple[object, ...], naming: Naming) -> str:
    return printable(_Renderer(naming).vformat(template, values, {}))


def as_in_python(name: str, text: str) -> str:
    """Return a parameter as Python names it: `name`, `name=value`, or the text."""
    return name + text if not text or text.startswith("=") else text


def message_of(error: BaseException) -> str:
    """Return the text of an exception or a warning, a Message if it is one."""
    first = error.args[0] if error.args else None
    return first if isinstance(first, Message) else str(error)


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
    """Data that cannot be read as mixtures. The message names the file, the place and
    the remedy.
    """

    def __init__(self, message: str) -> None:
        is_printable = isinstance(message, Message)
        super().__init__(message if is_printable else printable(message))


class OutputError(BionicaError, ValueError):
    """Something that cannot be written as asked. The message names the file and the
    remedy.
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
