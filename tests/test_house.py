"""Private names of other libraries are used in _compat only, and shared docstrings agree."""

import inspect
import re
from pathlib import Path

import bionica

PACKAGE = Path(bionica.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [path for path in SOURCES if "__pycache__" not in path.parts]


def test_private_names_of_other_libraries_are_behind_doors():
    nowhere = r"from sklearn[\w.]*\._|from sklearn.* import .*\b_|sklearn\.\w+\._|joblib\.externals|\._meta\b"
    in_doors = r"numba\.core|numba\._|nvvm\.|_nrt\b|\.entry_point\b"
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in SOURCES
        for line in path.read_text().splitlines()
        if re.search(nowhere if "_compat" in path.parts else f"{nowhere}|{in_doors}", line)
    ]
    assert found == []


def test_what_several_docstrings_say_of_a_parameter_is_the_same():
    networks = [
        getattr(bionica, name)
        for name, module in bionica._MODULE_OF.items()
        if module.startswith(("networks.", "str", "cone"))
    ]
    shared = ("gamma, settle_tol, settle_steps", "n_epochs, shuffle", "random_state", "average")
    for name in shared:
        pattern = rf"^{re.escape(name)} : .*\n(?:    .*\n)+"
        entries = {cls.__name__: re.findall(pattern, inspect.getdoc(cls), re.M) for cls in networks}
        texts = {" ".join(found[0].split()) for found in entries.values() if found}
        assert sum(map(bool, entries.values())) > 1, name
        assert len(texts) == 1, (name, texts)


def test_signatures_are_readable():
    """Without the union that ArrayLike stands for."""
    modules = [bionica, *(getattr(bionica, name) for name in ("metrics", "datasets", "plot", "io"))]
    public = [getattr(module, name) for module in modules for name in module.__all__]
    public += [value for one in public if inspect.isclass(one) for _, value in inspect.getmembers(one, callable)]
    signatures = [str(inspect.signature(one)) for one in public if inspect.isfunction(one)]
    assert len(signatures) > 100
    assert [text for text in signatures if "_NestedSequence" in text] == []
