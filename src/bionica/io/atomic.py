"""Files that appear under their name only when they are complete.

A file is written beside its name, as a hidden file that ends in .part, and renamed at the end. A process that is
killed may leave the .part file; the next run with the same output removes it (`remove_partials`).
"""

import errno
import glob
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears under its name when it is complete and on disk; several processes may write it at once."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    partial = Path(temporary)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        partial.chmod(0o666 & ~umask)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that appears under its name only when it is complete."""
    with atomic_file(path) as file:
        file.write(content)


def partial_path(path: Path) -> Path:
    """Return the name under which a `Writer` writes a file until it is complete."""
    return path.with_name(f".{path.name}.part")


def remove(path: Path) -> None:
    """Remove a file or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def rename(partial: Path, path: Path) -> None:
    """Give a complete file its name, replacing what had it before."""
    if path.is_dir():
        remove(path)
    partial.replace(path)


def remove_partials(path: Path) -> None:
    """Remove what killed processes have left of `path`."""
    for partial in path.parent.glob(f".{glob.escape(path.name)}.*part"):
        if re.fullmatch(rf"\.{re.escape(path.name)}\.([a-z0-9_]{{8}}\.)?part", partial.name):
            remove(partial)


def is_disk_full(error: OSError) -> bool:
    """Whether this error says that the disk, the quota or the file size limit is exhausted."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
