"""What a command may write: every output is compared with every input and every other output before the work begins."""

import json
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from ..atomic import is_disk_full, partial_folder, real_path, remove_partials
from .formats import STORE_MARK

_CHUNK_FILE = re.compile(r"c(/\d+)*|zarr\.json")  # files of a Zarr store of one array, relative to it


class OutputError(ValueError):
    """Something that cannot be written as asked. The message names the file and the remedy."""


@dataclass(frozen=True)
class Target:
    """A file, or a Zarr store, that an option asks to write; `replace` says whether it may replace an earlier one."""

    option: str
    path: Path
    replace: bool = False
    remedy: str | None = None

    def __str__(self) -> str:
        return f"{self.option} {self.path}"


def check_targets(targets: Sequence[Target], inputs: Sequence[Path | int] = ()) -> None:
    """Raise unless every target can be written and none is an input, another target, or a file that may not be replaced.

    Files are the same if the system says so, through links and through different spellings of a folder. An input may be a
    descriptor: 0 and 1 for what standard input and output are connected to. Removes what dead processes left of the targets.
    """
    places = [_place(target.path) for target in targets]
    for target, place in zip(targets, places, strict=True):
        for given in inputs:
            name = ("standard input", "standard output")[given] if isinstance(given, int) else f"the input {given}"
            where = _place(given)
            if place[0] in where[1:]:
                raise OutputError(f"{target} is a folder around {name}: give a file")
            if _overlap(place, where):
                raise OutputError(f"{target} is also {name}, or inside it, which would be lost: give another file")
    for (one, place), (other, place_of_other) in combinations(zip(targets, places, strict=True), 2):
        if _overlap(place, place_of_other):
            raise OutputError(f"{one} and {other} are the same file, or one is inside the other: give another name")
    for target in targets:
        _check_target(target)
    for target in targets:
        _check_writable(target)
        remove_partials(target.path)


def check_folder(folder: Path, names: Sequence[str], inputs: Sequence[Path] = (), *, option: str = "--output") -> None:
    """Raise unless files of these names can be written to a folder, which need not exist, and none of them is an input.

    Files of these names that are there already are replaced.
    """
    there = real_path(folder)
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise OutputError(f"{option} {folder}: {there} is a file; give a folder")
    targets = [Target(option, folder / name, replace=True) for name in names]
    if there == real_path(folder):
        check_targets(targets, inputs)
    else:
        _check_writable(Target(option, there / folder.name))


def _place(path: Path | int) -> list[Any]:
    """Return what the system knows a file by, and then the same of every folder around it.

    What does not exist yet is known by its name in its folder.
    """
    if isinstance(path, int):
        try:
            status = os.fstat(path)
        except OSError:  # closed
            return [None]
        return [_known_by(status) if stat.S_ISREG(status.st_mode) else None]
    real = real_path(path)
    found: list[Any] = []
    for place in (real, *real.parents):
        try:
            found.append(_known_by(place.stat()))
        except OSError:
            found.append(str(place))
    return found


def _known_by(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _overlap(one: list[Any], other: list[Any]) -> bool:
    """Whether two places are the same, or one is a folder around the other."""
    return one[0] in other or other[0] in one


def _check_target(target: Target) -> None:
    real = real_path(target.path)
    if not real.parent.is_dir():
        raise OutputError(f"{target}: there is no folder {real.parent}; make it first")
    if real.is_symlink():
        raise OutputError(f"{target} is a link to itself: remove it, or choose another name")
    if not real.exists():
        return
    mode, store = real.stat().st_mode, real.suffix.lower() == ".zarr"
    if stat.S_ISDIR(mode) and not (store and is_our_store(real)):
        raise OutputError(
            f"{target} is a folder, and only files and Zarr stores that bionica wrote are replaced: choose another name, or "
            "remove the folder yourself"
        )
    if not stat.S_ISDIR(mode) and (store or not stat.S_ISREG(mode)):
        kind = "file" if stat.S_ISREG(mode) else "device or a pipe"
        raise OutputError(f"{target} is a {kind}, which is not replaced: choose another name")
    if not target.replace:
        remedy = target.remedy or f"choose another name with {target.option}, or replace it with --force"
        raise OutputError(f"{target.path} exists already: {remedy}")


def _check_writable(target: Target) -> None:
    """Make what the writer will make beside the target."""
    real = real_path(target.path)
    try:
        with partial_folder(real):
            pass
    except OSError as error:
        if is_disk_full(error):
            raise
        raise OutputError(
            f"{target}: the folder {real.parent} cannot be written to ({error.strerror}): choose another"
        ) from error


def is_our_store(path: Path) -> bool:
    """Whether a folder is a Zarr store that `open_writer` wrote, with nothing else in it."""
    try:
        with (path / "zarr.json").open("rb") as file:
            attributes = json.loads(file.read(2**20))["attributes"]
        files = [
            file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_symlink() or not file.is_dir()
        ]
        return bool(attributes == STORE_MARK) and all(map(_CHUNK_FILE.fullmatch, files))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
