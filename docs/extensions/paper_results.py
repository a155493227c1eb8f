"""`bionica reproduce` runs in the build: its figures, and its statements beside our results, for the page of the paper.

Finished runs are kept in docs/_build/paper, so that a second build runs nothing.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

FIGURES = ("figure1", "figure4", "figure5", "table1")


def reproduce(app):
    """Run the paper's experiments, copy the figures and write the statements as text."""
    results = Path(app.srcdir) / "_build" / "paper"
    command = [sys.executable, "-m", "bionica", "reproduce", "all", "--with-ours", "--json", "-o", str(results)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"bionica reproduce ended with {done.returncode}: {done.stderr[-2000:]}")
    generated = Path(app.srcdir) / "images" / "generated"
    generated.mkdir(exist_ok=True)
    for name in FIGURES:
        _copy_if_changed(results / f"{name}.png", generated / f"{name}.png")
    text = "".join(_paragraph(claim) for claim in json.loads(done.stdout)["claims"])
    target = Path(app.srcdir) / "paper" / "statements.txt"
    if not target.exists() or target.read_text() != text:
        target.write_text(text)


def _paragraph(claim):
    return (
        f"**{claim['where']}**\n: *The paper:* {claim['paper']}\n\n"
        f"  *Our runs:* {claim['ours']}\n\n  *Do they agree?* {claim['agrees']}\n\n"
    )


def _copy_if_changed(source, target):
    """Keep the time of a picture that is the same, so that Sphinx does not read its page again."""
    if not target.exists() or target.read_bytes() != source.read_bytes():
        shutil.copy2(source, target)


def setup(app):
    """Register the run before the pages are read."""
    app.connect("builder-inited", reproduce)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
