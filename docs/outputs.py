"""Run the Python of pages, and write what it prints into the text block below it.

python docs/outputs.py README.md docs/mixtures.md docs/circuits.md
"""

import io
import os
import re
import sys
import tempfile
import warnings
from contextlib import chdir, redirect_stdout
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

#: A block of Python, and the block of text right below it, if there is one.
BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL
)


def run(text, given=None):
    """Run all blocks of a page as one program; yield what each prints, and its text
    block or None.
    """
    names = dict(given or {})
    for block in BLOCK.finditer(text):
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(block[1], names)
        yield printed.getvalue(), block


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for page in map(Path, sys.argv[1:]):
        text = page.read_text()
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            outcomes = list(run(text))
        for printed, block in reversed(outcomes):
            if block[2] is not None:
                text = text[: block.start(2)] + printed + text[block.end(2) :]
        page.write_text(text)
