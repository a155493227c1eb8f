"""Finished runs on disk: a small file each, complete or absent."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from ..io import ModelFileError, read_model, write_model
from .config import Task


class Result(NamedTuple):
    """What a run left.

    Attributes
    ----------
    task : Task
        Which run.
    header : dict
        `status` ("ok", or why there is no error), `error` and `last_tenth` (None if there is none), `seconds`, `versions`,
        `machine`, `n_samples`.
    arrays : dict of ndarray
        `t` and `error`, the curve, if the method has one; what the figures show.
    """

    task: Task
    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class Store:
    """The folder of the finished runs.

    Parameters
    ----------
    root : path
        The folder; it is made when the first run is stored.
    """

    def __init__(self, root: str | os.PathLike[str]):
        self.root = Path(root)

    def get(self, task: Task) -> Result | None:
        """The result of a run, or None if it is not there or its file is damaged."""
        try:
            header, arrays = read_model(self.root / task.file)
        except (FileNotFoundError, ModelFileError):
            return None
        return Result(task, header, arrays)

    def put(self, result: Result) -> None:
        """Store a result, whole or not at all."""
        path = self.root / result.task.file
        path.parent.mkdir(parents=True, exist_ok=True)
        write_model(path, result.header, result.arrays)
