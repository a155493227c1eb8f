"""Print the lower bounds of pyproject.toml as a constraints file for pip: the run-time
dependencies and the extras.
"""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())[
    "project"
]
extras = project["optional-dependencies"]
for requirement in (
    project["dependencies"] + extras["plot"] + extras["io"] + extras["dask"]
):
    name, lower = re.match(r"([\w.-]+)(?:\[.*\])?>=([\d.]+)", requirement).groups()
    print(f"{name}=={lower}")
