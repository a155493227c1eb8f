"""Files that appear under their name only when they are complete.

What is written is first complete in a hidden folder beside its target,
`.NAME.RANDOM.part`, and then renamed: several processes may write the same file, and
the last one wins. A process that is killed leaves its hidden folder. A target that is a
symbolic link is followed: the file that it points to is replaced, the link stays.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


def is_disk_full(error: Exception) -> bool:
    """Whether this error says that the disk, the quota or the file size limit is
    exhausted.
    """
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def complete_files(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield names to write to, in a hidden folder beside the first; what is written
    gets the names of `paths` at the end.

    A file keeps the permissions of the one that it replaces.
    """
    targets = [Path(os.path.realpath(path)) for path in paths]
    for target in targets:
        if os.path.lexists(target) and not target.is_file():
            raise FileExistsError(
                errno.EEXIST, "not a regular file, and is not replaced", str(target)
            )
    prefix = f".{targets[0].name[:60]}."  # a file name has 255 bytes at most
    folder = Path(
        tempfile.mkdtemp(prefix=prefix, suffix=".part", dir=targets[0].parent)
    )
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
