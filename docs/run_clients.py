"""Run the code of docs/clients.md with every package that is installed here, and print
which worked: client, version, result.

A block whose package is missing is named and left out; a block that fails makes the
exit status 1. `make docs` runs this; `--write` also writes the versions into the table
of the page.
"""

import re
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from pathlib import Path

PAGE = Path(__file__).parent / "clients.md"
#: Heading of the page: the packages that its code needs, as pip knows them.
PACKAGES = {
    "river": ["river"],
    "dask-ml": ["dask-ml"],
    "HyperSpy": ["hyperspy"],
    "MNE": ["mne"],
    "xarray": ["xarray"],
    "pandas": ["pandas"],
    "JAX": ["jax"],
}


def blocks(text):
    """Return the code before the first heading, and the code below each heading."""
    blocks = re.findall(
        r"(?:^## ([^\n]+)\n)?^```python\n(.*?)^```",
        text,
        flags=re.MULTILINE | re.DOTALL,
    )
    return blocks[0][1], dict(blocks[1:])


def installed(packages):
    """Return the versions of these packages, or None if one of them is missing."""
    try:
        return [version(package) for package in packages]
    except PackageNotFoundError:
        return None


def main():
    """Run, print and, with --write, record."""
    text = PAGE.read_text()
    first, clients = blocks(text)
    assert list(clients) == list(PACKAGES), "a heading of the page is not in PACKAGES"
    failed = 0
    for heading, code in clients.items():
        versions = installed(PACKAGES[heading])
        if versions is None:
            print(f"{heading:10} {'':12} not installed")
            continue
        try:
            with (
                warnings.catch_warnings(),
                redirect_stdout(StringIO()),
                redirect_stderr(StringIO()),
            ):
                # these packages talk and warn; only their errors matter here
                warnings.simplefilter("ignore")
                exec(compile(first + code, f"{PAGE.name}, {heading}", "exec"), {})
            print(f"{heading:10} {', '.join(versions):12} works")
        except Exception as error:
            failed += 1
            print(
                f"{heading:10} {', '.join(versions):12} FAILED: {type(error).__name__}:"
                f" {error}"
            )
        text = re.sub(
            rf"(?m)^(\| \[{heading}\]\(\S+\) \| )[^|]*",
            rf"\g<1>{', '.join(versions)} ",
            text,
        )
    if "--write" in sys.argv and not failed:
        PAGE.write_text(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
