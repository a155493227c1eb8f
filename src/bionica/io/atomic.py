"""Files that appear under their name only when they are complete, also where several processes write the same one.

What is written is first complete inside a hidden folder beside its target, `.NAME.RANDOM.part`, and then renamed. Every process
has a folder of its own and holds a lock on the file `lock` in it. The system releases the lock when the process ends, in
whatever way: a folder whose lock can be taken belongs to nobody, and the next run with the same output removes it. Where the
file system has no locks, nothing is removed.

A target that is a symbolic link is followed: the file that it points to is replaced, the link stays.
"""

import errno
import filecmp
import glob
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None  # Windows has none
_LOCK = "lock"
_LONGEST_PREFIX = 60  # characters of the target's name in that of the folder: a file name has 255 bytes at most


def real_path(path: Path) -> Path:
    """Return the file that is meant, all links followed. It need not exist."""
    return Path(os.path.realpath(path))


@contextmanager
def partial_folder(target: Path) -> Iterator[Path]:
    """Make a hidden folder beside `target` to write in, held by this process; it is removed at the end."""
    folder, lock = _make_held(target)
    try:
        yield folder
    finally:
        os.close(lock)  # first: where no more files may be open, removing a folder needs this one
        shutil.rmtree(folder, ignore_errors=True)


def _make_held(target: Path) -> tuple[Path, int]:
    """Make a folder and take its lock; again if another process removed it in between, when it looked dead."""
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=_prefix(target), suffix=".part", dir=target.parent))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from None
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            continue
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if fcntl is not None:
            with suppress(OSError):  # no locks here: then nobody removes it
                fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), (folder / _LOCK).stat()):
                return folder, lock
        os.close(lock)


def _prefix(target: Path) -> str:
    return f".{target.name[:_LONGEST_PREFIX]}."


def remove_partials(path: Path) -> None:
    """Remove what dead processes have left of `path`."""
    prefix = _prefix(real_path(path))
    for folder in real_path(path).parent.glob(f"{glob.escape(prefix)}*.part"):
        if re.fullmatch(r"[a-z0-9_]{8}\.part", folder.name.removeprefix(prefix)) and folder.is_dir():
            with suppress(OSError):  # it has gone meanwhile, or belongs to another user
                _remove_if_dead(folder)


def _remove_if_dead(folder: Path) -> None:
    if fcntl is None or folder.is_symlink():
        return
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError if a live process holds it
        shutil.rmtree(folder)
    finally:
        os.close(lock)


def rename_all(parts: Sequence[Path], targets: Sequence[Path]) -> None:
    """Put complete files, or folders, on disk and give them their names, replacing what had these before.

    A file keeps the permissions of the one that it replaces. Several files are not mixed with those of another process that
    renames the same ones.
    """
    for part, target in zip(parts, targets, strict=True):
        if part.is_file():
            with part.open("r+b") as file:
                os.fsync(file.fileno())
            with suppress(FileNotFoundError):
                shutil.copymode(target, part)
    with _hold(targets[0].parent):
        for part, target in zip(parts, targets, strict=True):
            if part.is_dir():
                _replace_folder(part, target)
            else:
                part.replace(target)


@contextmanager
def _hold(folder: Path) -> Iterator[None]:
    """Wait until no other process renames in this folder, where the file system has locks for folders."""
    if fcntl is None:
        yield
        return
    try:
        lock = os.open(folder, os.O_RDONLY)
    except OSError:  # a folder that may be written to, but not be read
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _replace_folder(part: Path, target: Path) -> None:
    """Give a folder its name. Another folder of this name is first moved away, because none can be renamed onto it.

    It is deleted last, which may take seconds: an interruption then leaves the new one under its name.
    """
    while not _renamed(part, target):
        with partial_folder(target) as aside:
            with suppress(FileNotFoundError):
                target.rename(aside / "replaced")
            if _renamed(part, target):
                return


def _renamed(part: Path, target: Path) -> bool:
    """Rename a folder; False if another one has the name."""
    try:
        part.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears under its name when it is complete and on disk; several processes may write it at once."""
    target = real_path(path)
    if target.exists() and not target.is_file():
        raise FileExistsError(errno.EEXIST, "not a regular file, and is not replaced", str(target))
    with partial_folder(target) as folder:
        part = folder / "file"
        with part.open("wb") as file:
            yield file
        rename_all([part], [target])


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that appears under its name only when it is complete."""
    with atomic_file(path) as file:
        file.write(content)


def same_content(one: Path, other: Path) -> bool:
    """Whether two files hold the same bytes, or two folders the same files."""
    if one.is_dir() != other.is_dir():
        return False
    if not one.is_dir():
        return filecmp.cmp(one, other, shallow=False)
    files = [sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()) for root in (one, other)]
    return files[0] == files[1] and all(filecmp.cmp(one / file, other / file, shallow=False) for file in files[0])


def is_disk_full(error: OSError) -> bool:
    """Whether this error says that the disk, the quota or the file size limit is exhausted."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
