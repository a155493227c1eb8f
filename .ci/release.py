"""Is this tree fit for release? Build sdist and wheel, try the wheel in an empty environment, print a table.

    python .ci/release.py                 # everything: some 10 minutes on two cores, most of them tests
    python .ci/release.py --no-tests      # 3 minutes
    python .ci/release.py --jobs 1        # tests in one process

Everything happens in a temporary folder, but for dist/, which gets the two files. Nothing is uploaded. The exit status is 1 if a
row of the table failed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST = 1_000_000  # bytes of the wheel
#: What the tests read beside the package. The source is not among it.
BESIDE = (
    "tests",
    "benchmarks",
    "docs",
    "examples",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "CITATION.cff",
)  # fmt: skip
#: No compiler: a dependency or a build that calls one fails.
NO_COMPILER = {"CC": "/bin/false", "CXX": "/bin/false", "FC": "/bin/false"}
#: Data for the lines of README.md.
GIVEN = """
import numpy as np
from bionica.datasets import mix, sparse_uniform
X, _ = mix(sparse_uniform(20_000, 3, rng=0), n_mixtures=5, rng=0)
blocks = np.array_split(X, 10)
"""

rows = []


def step(name, action):
    """Run one row of the table: `action` returns what to print beside it, or raises."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    start = time.perf_counter()
    try:
        result, note = "yes", action() or ""
    except (AssertionError, subprocess.CalledProcessError) as error:
        result, note = "NO", str(error)
    rows.append((name, result, f"{time.perf_counter() - start:.0f} s", note))
    return result == "yes"


def call(*command, cwd=None, show=False, **environment):
    """Run a command without this tree's source on its path; on failure the end of what it printed is in the error."""
    inherited = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = {**inherited, "OPENBLAS_NUM_THREADS": "1", **environment}
    stream = None if show else subprocess.PIPE
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, stdout=stream, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, (
        f"{' '.join(map(str, command))[:200]}: status {done.returncode}\n{(done.stdout or '')[-2000:]}"
    )
    return done.stdout or ""


def new_venv(folder):
    """Create an empty environment and return its Python."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def install(python, *packages, **environment):
    """Install with pip."""
    call(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages, **environment)


def build(folder):
    """Build both files into dist/."""
    python = new_venv(folder / "build")
    install(python, "build", "twine")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    call(python, "-m", "build", "--outdir", ROOT / "dist", ROOT, **NO_COMPILER)
    return ", ".join(f"{path.name} {path.stat().st_size / 1000:.0f} kB" for path in sorted((ROOT / "dist").iterdir()))


def check_files(folder):
    """Check metadata, size and contents."""
    call(folder / "build" / "bin" / "python", "-m", "twine", "check", "--strict", *sorted((ROOT / "dist").iterdir()))
    (wheel,) = (ROOT / "dist").glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl"), f"{wheel.name} is for one platform"
    assert wheel.stat().st_size < LARGEST, f"{wheel.name} has {wheel.stat().st_size:,} bytes, {LARGEST:,} at most"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    strange = [name for name in names if not re.match(r"bionica(/|-[\d.]+\.dist-info/)", name)]
    assert not strange, f"{strange} in the wheel"
    assert "bionica/py.typed" in names and any(name.endswith("licenses/LICENSE") for name in names)
    return f"{len(names)} files, {wheel.stat().st_size:,} bytes"


def install_wheel(folder):
    """Install the wheel with the extras of README.md, from binary packages only."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    python = new_venv(folder / "user")
    install(python, "--only-binary", ":all:", f"{wheel}[plot,io]", **NO_COMPILER)
    where = call(python, "-c", "import bionica; print(bionica.__version__, bionica.__file__)", cwd=folder).split()
    assert str(folder) in where[1], f"bionica comes from {where[1]}"
    return f"bionica {where[0]}, Python {call(python, '-V').split()[1]}"


def install_sdist(folder):
    """Install from the sdist, as `pip install .` does."""
    (sdist,) = (ROOT / "dist").glob("*.tar.gz")
    python = new_venv(folder / "source")
    install(python, "--no-deps", sdist, **NO_COMPILER)
    return "without a compiler"


def demo(folder):
    """Run `bionica demo` in an empty folder."""
    work = folder / "demo"
    work.mkdir()
    call(folder / "user" / "bin" / "bionica", "demo", cwd=work)
    assert (work / "demo" / "demo.html").exists(), "no demo/demo.html"


def readme_python(folder):
    """Run the Python of README.md."""
    code = "".join(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL))
    assert code, "README.md has no Python"
    call(folder / "user" / "bin" / "python", "-c", GIVEN + code, cwd=folder)
    return f"{len(code.splitlines())} lines"


def readme_shell(folder):
    """Run the lines of README.md that begin with `bionica`, on a CSV file."""
    work = folder / "shell"
    work.mkdir()
    save = "import numpy as np\nfor name in ('mixtures', 'spectra'): np.savetxt(f'{name}.csv', X, delimiter=',')"
    call(folder / "user" / "bin" / "python", "-c", GIVEN + save, cwd=work)
    code = "".join(re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL))
    lines = re.findall(r"^bionica [^#\n]*", code, re.MULTILINE)
    assert lines, "README.md has no line of shell"
    for line in lines:
        call("sh", "-c", line, cwd=work, PATH=f"{folder / 'user' / 'bin'}:{os.environ['PATH']}")
    return "; ".join(line.strip() for line in lines)


def tests(folder, jobs):
    """Run the tests and doctests against the wheel, where the source is not importable."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    python = new_venv(folder / "tester")
    install(python, f"{wheel}[dev]")
    tree = folder / "tree"
    tree.mkdir()
    for name in BESIDE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("_build", "__pycache__"))
        else:
            shutil.copy2(ROOT / name, tree / name)
    package = Path(call(python, "-c", "import bionica; print(bionica.__path__[0])", cwd=folder).strip())
    ignored = f"--ignore={package / 'river.py'}"  # needs river
    command = (
        python,
        "-m",
        "pytest",
        "-q",
        "-n",
        jobs,
        "--dist",
        "loadgroup",
        "-m",
        "not slow",
        ignored,
        "tests",
        package,
    )
    out = call(*command, cwd=tree)
    return out.strip().splitlines()[-1].strip("= ")


def main():
    """Run all steps that can be run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-tests", action="store_true", help="leave out the tests")
    parser.add_argument("--jobs", type=int, default=2, help="processes of pytest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bionica-release-") as name:
        folder = Path(name)
        if step("sdist and wheel", lambda: build(folder)):
            step("twine check, size, contents", lambda: check_files(folder))
            step("pip install of the sdist", lambda: install_sdist(folder))
            if step("wheel in an empty environment", lambda: install_wheel(folder)):
                step("bionica demo", lambda: demo(folder))
                step("README.md, Python", lambda: readme_python(folder))
                step("README.md, shell", lambda: readme_shell(folder))
            if not options.no_tests:
                step("tests from the wheel", lambda: tests(folder, options.jobs))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, (*widths, 0), strict=True)))
    return 1 if any(row[1] != "yes" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
