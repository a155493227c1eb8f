"""Which files a command may write, and files that appear under their name only when they are complete.

What is written is first complete in a hidden file or folder beside its target, `.NAME.RANDOM.part`, and then renamed: several
processes may write the same file, and the last one wins. A process that is killed leaves its hidden file. A target that is a
symbolic link is followed: the file that it points to is replaced, the link stays.
"""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from pathlib import Path

_RECORD = ".bionica"  # in a folder of results: digests of the files that `write_own` has written
_LONGEST_PREFIX = 60  # characters of the target's name in that of the folder: a file name has 255 bytes at most


class OutputError(ValueError):
    """Something that cannot be written as asked. The message names the file and the remedy."""


def is_disk_full(error: OSError) -> bool:
    """Whether this error says that the disk, the quota or the file size limit is exhausted."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def complete_files(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield names to write to, in a hidden folder beside the first; what is written gets the names of `paths` at the end.

    A file keeps the permissions of the one that it replaces.
    """
    targets = [Path(os.path.realpath(path)) for path in paths]
    for target in targets:
        if target.exists() and not target.is_file():
            raise FileExistsError(errno.EEXIST, "not a regular file, and is not replaced", str(target))
    try:
        prefix = f".{targets[0].name[:_LONGEST_PREFIX]}."
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=".part", dir=targets[0].parent))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(targets[0])) from None
    try:
        parts = [folder / f"{i}{target.suffix}" for i, target in enumerate(targets)]
        yield parts
        for part, target in zip(parts, targets, strict=True):
            if part.is_file():
                with part.open("r+b") as file:
                    os.fsync(file.fileno())
                with suppress(FileNotFoundError):
                    shutil.copymode(target, part)
            part.replace(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that appears under its name only when it is complete."""
    with complete_files([path]) as (part,):
        part.write_bytes(content)


def write_own(path: Path, content: bytes) -> None:
    """Write a file of results, which a later run may replace, unless somebody else has written or edited it since."""
    with (path.parent / _RECORD).open("a") as record:
        record.write(f"\n{sha256(content).hexdigest()}\n")
    write_atomically(path, content)


def _is_own(path: Path) -> bool:
    record = path.parent / _RECORD
    return path.is_file() and record.is_file() and sha256(path.read_bytes()).hexdigest() in record.read_text().split()


@dataclass(frozen=True)
class Target:
    """A file that an option asks to write; `replace` says whether it may replace an earlier one."""

    option: str
    path: Path
    replace: bool = False
    remedy: str | None = None

    def __str__(self) -> str:
        return f"{self.option} {self.path}"


def check_targets(targets: Sequence[Target], inputs: Sequence[Path | int] = ()) -> None:
    """Raise unless every target can be written and none is an input, another target, or a file that may not be replaced.

    Files are the same if the system says so, through links and through different spellings of a folder. An input may be a
    descriptor: 0 and 1 for what standard input and output are connected to.
    """
    for target in targets:
        for given in inputs:
            name = ("standard input", "standard output")[given] if isinstance(given, int) else f"the input {given}"
            if _is_within(target.path, given) or (isinstance(given, Path) and _is_within(given, target.path)):
                raise OutputError(f"{target} is also {name}, or one is inside the other: give another file")
    for one, other in combinations(targets, 2):
        if _is_within(one.path, other.path) or _is_within(other.path, one.path):
            raise OutputError(f"{one} and {other} are the same file, or one is inside the other: give another name")
    for target in targets:
        _check_target(target)


def check_folder(folder: Path, names: Sequence[str], inputs: Sequence[Path] = (), *, replace: bool = False) -> None:
    """Raise unless files of these names can be written to --output, which need not exist, and none of them is an input.

    Files of these names that are there already may be replaced if `replace` says so, or if they are as `write_own` left them.
    """
    remedy = "bionica has not written it, or it was edited since: rename it, or replace it with --force"
    missing, parent = None, Path(os.path.realpath(folder))
    while not parent.exists() and parent != parent.parent:
        missing, parent = parent, parent.parent
    if not parent.is_dir():
        raise OutputError(f"--output {folder}: {parent} is a file; give a folder")
    if missing is None:
        check_targets(
            [Target("--output", p, replace or _is_own(p), remedy) for p in map(folder.joinpath, names)], inputs
        )
    else:
        _check_target(Target("--output", missing))


def _is_within(path: Path, other: Path | int) -> bool:
    """Whether a path is another file, or inside it if that is a folder. What does not exist yet is known by its name."""
    real = Path(os.path.realpath(path))
    try:
        status = os.stat(other)  # noqa: PTH116 - of a path or a descriptor
    except OSError:
        return isinstance(other, Path) and Path(os.path.realpath(other)) in (real, *real.parents)
    if isinstance(other, int) and not stat.S_ISREG(status.st_mode):
        return False
    return any(each.exists() and os.path.samestat(each.stat(), status) for each in (real, *real.parents))


def _check_target(target: Target) -> None:
    real = Path(os.path.realpath(target.path))
    if not real.parent.is_dir():
        raise OutputError(f"{target}: there is no folder {real.parent}; make it first")
    if real.is_symlink():
        raise OutputError(f"{target} is a link to itself: remove it, or choose another name")
    if real.exists() and not real.is_file():
        raise OutputError(
            f"{target} is a folder, a device or a pipe, which is not replaced: choose another name, or remove it"
        )
    if real.exists() and not target.replace:
        remedy = target.remedy or f"choose another name with {target.option}, or replace it with --force"
        raise OutputError(f"{target.path} exists already: {remedy}")
    try:
        tempfile.TemporaryFile(dir=real.parent).close()
    except OSError as error:
        if is_disk_full(error):
            raise
        remedy = f"the folder {real.parent} cannot be written to ({error.strerror}): choose another"
        raise OutputError(f"{target}: {remedy}") from error
