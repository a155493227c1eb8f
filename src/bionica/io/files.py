"""Which files a command may write.

`check_targets` and `check_folder` refuse before work begins what could not be written
at its end, or would replace the work of somebody else; `write_own` writes results that
a later run may replace. `bionica.core.files` writes.
"""

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from bionica.core.errors import Message, OutputError
from bionica.core.files import write_atomically

# in a folder of results: digests of the files that `write_own` has written
_RECORD = ".bionica"


def write_own(path: Path, content: bytes) -> None:
    """Write a file of results, which a later run may replace, unless somebody else has
    written or edited it since.
    """
    with (path.parent / _RECORD).open("a") as record:
        record.write(f"\n{sha256(content).hexdigest()}\n")
    write_atomically(path, content)


class Target(NamedTuple):
    """A file that an option asks to write; `replace` says whether it may replace an
    earlier one.
    """

    option: str
    path: Path
    replace: bool = False
    remedy: str = Message("choose another name, or replace it with {force:=True}")


def check_targets(targets: Sequence[Target], inputs: Sequence[Path] = ()) -> None:
    """Raise unless every target can be written and none is an input, another target, or
    a file that may not be replaced.

    Files are the same if the system says so, through links and through different
    spellings of a folder. /dev/stdin as an input is the file that standard input is
    connected to, if any.
    """
    others = [*inputs]
    for option, path, *_ in targets:
        for other in others:
            if _is_within(path, other) or _is_within(other, path):
                raise OutputError(
                    f"{option} {path} and {other} are the same file, or one is in the"
                    " other: rename one"
                )
        others.append(path)
    for option, path, replace, remedy in targets:
        real = Path(os.path.realpath(path))
        if not (real.parent.is_dir() and os.access(real.parent, os.W_OK)):
            raise OutputError(
                f"{option} {path}: {real.parent} is not a folder that can be written"
                " to: choose another"
            )
        if os.path.lexists(real) and not real.is_file():
            raise OutputError(
                f"{option} {path} is a folder, a device, a pipe or a link to itself:"
                " choose another name"
            )
        if real.exists() and not replace:
            template = "{} {} exists already: {}"
            raise OutputError(Message(template, option, path, remedy))


def check_folder(
    folder: Path,
    names: Sequence[str],
    inputs: Sequence[Path] = (),
    *,
    replace: bool = False,
) -> None:
    """Raise unless files of these names can be written to a folder, which need not
    exist, and none of them is an input.

    Files of these names that are there already may be replaced if `replace` says so, or
    if they are as `write_own` left them.
    """
    remedy = Message(
        "bionica has not written it, or it was edited since: rename it, or replace it "
        "with {force:=True}"
    )
    real = Path(os.path.realpath(folder))
    nearest = next(each for each in (real, *real.parents) if each.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
        template = "{output:={}}: {} is a file, or cannot be written to; give a folder"
        raise OutputError(Message(template, folder, nearest))
    record = folder / _RECORD
    digests = record.read_text().split() if record.is_file() else []
    paths = [path for name in names if os.path.lexists(path := folder / name)]
    own = [
        path
        for path in paths
        if path.is_file() and sha256(path.read_bytes()).hexdigest() in digests
    ]
    check_targets(
        [Target("the file", path, replace or path in own, remedy) for path in paths],
        inputs,
    )


def _is_within(path: Path, other: Path) -> bool:
    """Whether a path is another file, or inside it if that is a folder.

    What does not exist yet is known by its name.
    """
    real = Path(os.path.realpath(path))
    other = Path(os.path.realpath(other))
    if other.exists():
        return any(
            each.exists() and other.samefile(each) for each in (real, *real.parents)
        )
    return real.is_relative_to(other)
