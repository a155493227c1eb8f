"""The documentation's sources: every public name is in the reference, every example states and checks its result."""

import re
from pathlib import Path

import pytest

import bionica
from bionica import datasets, metrics, plot, sweep

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


def listed():
    """Names of the API reference, with their modules."""
    module, found = "", set()
    for line in (ROOT / "docs" / "reference" / "index.md").read_text().splitlines():
        if line.startswith(".. currentmodule::"):
            module = line.split()[-1]
        elif re.fullmatch(r"   \w+", line):
            found.add(f"{module}.{line.strip()}")
    return found


def test_the_reference_has_every_public_name():
    modules = {"bionica": bionica, "bionica.metrics": metrics, "bionica.datasets": datasets}
    modules |= {"bionica.plot": plot, "bionica.sweep": sweep}
    public = {f"{name}.{item}" for name, module in modules.items() for item in module.__all__}
    public -= {"bionica.datasets", "bionica.metrics", "bionica.plot", "bionica.sweep"}
    assert public <= listed()
    for name in listed() - public:
        assert name.startswith("bionica.offline.objectives."), name


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_begins_with_a_sentence_and_checks_it(path):
    text = path.read_text()
    title, line, _, sentence = text.splitlines()[1:5]
    assert line == "=" * len(title)
    assert sentence
    assert "\nassert " in text or "\n    assert " in text
    compile(text, str(path), "exec")


def test_pages_link_to_files_that_exist():
    for page in (ROOT / "docs").rglob("*.md"):
        if "_build" in page.parts or "gallery" in page.parts:
            continue
        for target in re.findall(r"\]\(([^)#:]+?\.(?:md|png))(?:#[^)]*)?\)", page.read_text()):
            if "generated" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
