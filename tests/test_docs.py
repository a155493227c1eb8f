"""The documentation: public names are in the reference with an example, pages run,
versions agree; rules of the house.
"""

import inspect
import pkgutil
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import bionica
from bionica.circuits import reference
from bionica.datasets import mix, sparse_uniform

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
import outputs  # noqa: E402

PAGES = [
    path
    for path in (ROOT / "docs").rglob("*.md")
    if not {"_build", "gallery", "generated"} & {*path.parts}
]
PAGES += [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
#: Modules whose `__all__` is public.
_PARTS = ("metrics", "datasets", "mixtures.plot")
_PARTS += tuple(f"circuits.{name}" for name in ("plain", "plot", "sweep"))
MODULES = ("bionica", *(f"bionica.{name}" for name in _PARTS))


def listed():
    """Names of the API reference, with their modules."""
    module = ""
    names = set()
    text = "".join(
        path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md")
    )
    for line in text.splitlines():
        if line.startswith(".. currentmodule::"):
            module = line.split()[-1]
        elif re.fullmatch(r"   [\w.]+", line):
            names.add(f"{module}.{line.strip()}")
    return names


def public():
    """Public objects by their full names."""
    named = {}
    for name in MODULES:
        module = import_module(name)
        named |= {f"{name}.{item}": getattr(module, item) for item in module.__all__}
    return {name: value for name, value in named.items() if not inspect.ismodule(value)}


def methods(value):
    """Public methods of a class that are not those of tuples, exceptions and
    scikit-learn's metadata routing.
    """
    inherited = {*dir(tuple), *dir(Exception), "get_metadata_routing"}
    names = [
        name
        for name in dir(value)
        if not name.startswith("_") and name not in inherited
    ]
    return [
        name
        for name in names
        if inspect.isfunction(method := getattr(value, name, None))
        or inspect.ismethod(method)
    ]


def test_the_reference_has_every_public_name():
    names = {*public(), "bionica.io.open_reader"}
    names |= {"bionica.io.ReadOptions", "bionica.mixtures.verdict.diagnose"}
    functions = [
        value
        for name, value in vars(reference).items()
        if inspect.isfunction(value) and name[0] != "_"
    ]
    names |= {
        f"bionica.circuits.reference.{value.__name__}"
        for value in functions
        if value.__module__ == reference.__name__
    }
    assert names == listed()


@pytest.mark.parametrize("name", sorted(listed()))
def test_a_name_of_the_reference_has_an_example_and_methods_have_docstrings(name):
    module, item = name.rsplit(".", 1)
    value = getattr(import_module(module), item)
    assert ">>>" in inspect.getdoc(value)
    if inspect.isclass(value):
        assert [
            method
            for method in methods(value)
            if not inspect.getdoc(getattr(value, method))
        ] == []


def test_pages_link_to_files_that_exist():
    for page in PAGES:
        for target in re.findall(
            r"\]\(([^)#:]+?\.(?:md|png))(?:#[^)]*)?\)", page.read_text()
        ):
            assert (page.parent / target).exists(), (
                f"{page.relative_to(ROOT)} links to {target}"
            )


def test_pages_name_files_options_and_functions_that_exist():
    roots = [
        Path(bionica.__file__).parent,
        *(ROOT / name for name in ("benchmarks", "tests", "docs", ".ci")),
    ]
    files = {str(path) for root in roots for path in root.rglob("*.*")} | {"/README.md"}
    code = "".join(Path(name).read_text() for name in files if name.endswith(".py"))
    for page in PAGES:
        text = page.read_text()
        missing = [
            option
            for option in re.findall(r"(?<![\w-])--[a-z][\w-]+", text)
            if option not in code
        ]
        spans = " ".join(re.findall(r"`([^`\n]+)`", text))
        paths = {
            *re.findall(r"[\w/-]+\.(?:py|md)\b", spans),
            *re.findall(r"\b\w+/\w+\.py\b", text),
        } - {"my_module.py"}
        paths = {
            path.removeprefix("src") if path.startswith("src/") else f"/{path}"
            for path in paths
        }
        missing += [
            path for path in paths if not any(name.endswith(path) for name in files)
        ]
        names = re.findall(r"\bbionica(?:\.[a-zA-Z]\w*)+", text)
        missing += [name for name in names if not resolves(name)]
        assert missing == [], page.relative_to(ROOT)


def resolves(name):
    """Whether a dotted name is something of the package."""
    try:
        return pkgutil.resolve_name(name) is not None
    except (ImportError, AttributeError):
        return False


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        *(
            f"docs/{name}.md"
            for name in ("mixtures", "circuits", "local-nica", "paper/index")
        ),
        *(f"docs/guides/{name}.md" for name in ("spectra", "images", "streams")),
    ],
)
@pytest.mark.filterwarnings("ignore")  # of fits to few samples
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, _ = mix(sparse_uniform(3000, 5, rng=0), n_mixtures=12, snr_db=30, rng=0)
    given = {"X": X, "blocks": np.array_split(X, 3)}
    given |= {
        "images": list(X.T.reshape(12, 50, 60)),
        "cube": X.reshape(50, 60, 12),
        "cubes": X.reshape(2, 25, 60, 12),
    }
    np.savetxt(
        "spectra.csv",
        X,
        delimiter=",",
        header=",".join(map(str, range(400, 412))),
        comments="",
    )
    outcomes = list(outputs.run((ROOT / page).read_text(), given))
    assert outcomes
    for printed, block in outcomes:
        same = block[2] is None or alike(printed, block[2])
        assert same, (
            f"{page} shows another text than its code prints: python docs/outputs.py"
            f" {page}\n{printed}"
        )


def alike(*texts):
    """Whether two texts have the same words, and numbers that differ by at most 5 % and
    one unit of the last digit.
    """
    here, there = (re.split(r"(\d+(?:\.\d+)?)", text) for text in texts)
    units = [10.0 ** -len(number.partition(".")[2]) for number in there[1::2]]
    return here[::2] == there[::2] and np.allclose(
        *(np.array(text[1::2], float) / units for text in (here, there)),
        rtol=0.05,
        atol=1.001,
    )


def test_the_version_is_the_same_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert bionica.__version__ == version
    assert f"\n## {version} (" in (ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {{{version}}}" in (ROOT / "docs" / "cite.md").read_text()


def test_private_names_of_other_libraries_are_behind_doors():
    package = Path(bionica.__file__).parent
    nowhere = (
        r"from sklearn[\w.]*\._|from sklearn.* import"
        r" .*\b_|sklearn\.\w+\._|joblib\.externals|\._meta\b"
    )
    in_doors = r"numba\.core|numba\._|_nrt\b|\.entry_point\b"
    sources = [
        path
        for path in sorted(package.rglob("*.py"))
        if "__pycache__" not in path.parts
    ]
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in sources
        for line in path.read_text().splitlines()
        if re.search(
            nowhere if path.name == "jit.py" else f"{nowhere}|{in_doors}", line
        )
    ]
    assert found == []


def test_signatures_are_readable():
    """Without the union that ArrayLike stands for."""
    values = list(public().values())
    for cls in filter(inspect.isclass, values):
        values += [value for _, value in inspect.getmembers(cls, inspect.isfunction)]
    functions = [value for value in values if inspect.isfunction(value)]
    assert len(functions) > 100
    signatures = [str(inspect.signature(value)) for value in functions]
    assert [text for text in signatures if "_NestedSequence" in text] == []
