"""Every measured figure of README and docs: the commands that print them, and where
their output is kept.

    python benchmarks/figures.py                             all, one after the other; some take minutes on 16 cores
    python benchmarks/figures.py streaming missing           some
    python benchmarks/figures.py real_spectra authors_runs --data FOLDER     their data are not in this repository

The output of NAME is written to results/NAME.md, with commands, commit, machine and
seconds; pages include these files. Pictures of `bionica reproduce` are copied into
docs; README and the page of the paper have their tables between two comments. JOBS: the
cores. COMMIT in the environment names the commit where there is no repository.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

from PIL import Image

from bionica.circuits.paper.convergence import SECTIONS
from runner import setting

ROOT = Path(__file__).parents[1]
COMMANDS = {
    "paper": [
        "-m bionica reproduce all --json -o results",
    ],
    "authors_runs": [
        "OPENBLAS_CORETYPE=SkylakeX benchmarks/authors_runs.py FOLDER/authors_runs.npz",
        "benchmarks/authors_runs.py FOLDER/authors_runs.npz",
        "benchmarks/authors_runs.py FOLDER/sources.npy",
        (
            "-m bionica reproduce figure5 --images FOLDER/sources.npy --json -o"
            " results/patches"
        ),
    ],
    "convergence": ["-m bionica reproduce convergence --full -o results"],
    "stuck": ["benchmarks/stuck.py --seed 50000"],
    "local_nica": [
        "benchmarks/local_nica.py --seed 700000",
        *(
            f"benchmarks/local_nica.py --seed 700000 --network {name} problems"
            " photographs time"
            for name in ("InterneuronNICA", "TwoCompartmentNICA", "TwoLayerNSM")
        ),
    ],
    "streaming": [
        (
            "benchmarks/streaming.py --seed0 9900 --tables"
            " random,noise,disturbances,abrupt,local --jobs JOBS"
        ),
    ],
    "correlated": [
        (
            "benchmarks/correlated.py --seed0 860000 --tables"
            " copula,chemistry,stream,uncorrelated,outliers --jobs JOBS"
        ),
    ],
    "trust": [
        "benchmarks/trust.py --n 400 --seed0 8900000 --jobs JOBS",
    ],
    "missing": ["benchmarks/missing.py"],
    "real_spectra": [
        f"benchmarks/real_spectra.py --data FOLDER --jobs JOBS{more}"
        for more in ("", " --counts")
    ],
    "cluster": [
        f"benchmarks/cluster.py {options}"
        for options in (
            "--workers 1 2 4 16",
            "--workers 2 --rows 1.25e8 --lazy --methods cone --noise 0.3",
            "--memory 0.1 0.3 1 2 --methods cone batch",
            "--shell 0.1 0.3 1 2",
        )
    ],
    "speed": ["benchmarks/speed.py --rounds 7 --tables matrices,one,sweep"],
}
#: Without --data these are skipped.
NEED_DATA = {"real_spectra", "authors_runs"}
NETWORKS = ("InterneuronNICA", "TwoCompartmentNICA", "TwoLayerNSM", "NonnegativePCA")


def output(command, values):
    """Run a command; return it with its seconds, and what it printed, as Markdown."""
    variables, command = re.fullmatch(r"((?:\w+=\S+ )*)(.*)", command).groups()
    words = [
        re.sub("JOBS|FOLDER", lambda found: values[found[0]], word)
        for word in shlex.split(command)
    ]
    environment = os.environ | dict(
        variable.split("=") for variable in variables.split()
    )
    start = time.perf_counter()
    run = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        check=True,
        stdout=-1,
        text=True,
        env=environment,
    )
    printed = run.stdout
    seconds = time.perf_counter() - start
    # the command and the machine, which stand above
    printed = re.sub(r"\A`python .*\n\n.*\n", "", printed)
    if printed.startswith("{"):
        printed = errors(json.loads(printed))
    elif "|---" not in printed:
        printed = f"```text\n{printed.strip()}\n```"
    return f"`{variables}python {command}` ({seconds:.0f} s)\n\n{printed.strip()}\n"


def errors(results):
    """The errors of `bionica reproduce`, mean (least to largest), rank of table 1 in
    the grid, and which images are recovered.
    """
    rows = {}
    for row in results["errors"]:
        cell = f"{row['mean']:.2g} ({row['least']:.2g} to {row['largest']:.2g})"
        failed = (
            f", {row['failed']} of {row['runs']} end early" if row["failed"] else ""
        )
        rows.setdefault(f"{row['experiment']}, {row['setting']}", {})[
            row["network"]
        ] = cell + failed
    for row in results["grid"]:
        rank = f"{row['paper_rank']} of {row['settings']}"
        rows.setdefault("rank of table 1 in the grid, d3", {})[row["network"]] = rank
    lines = [
        f"| {name} | {' | '.join(row.get(network, '') for network in NETWORKS)} |"
        for name, row in rows.items()
    ]
    lines += [
        f"\n{claim['ours']}"
        for claim in results["claims"]
        if claim["where"] == "Figure 5, left"
    ]
    return "\n".join(
        [f"| | {' | '.join(NETWORKS)} |", "|" + "---|" * (len(NETWORKS) + 1), *lines]
    )


def paste(page, name, table):
    """Replace what stands between <!-- NAME --> and <!-- end --> in a page that must be
    readable unbuilt.
    """
    page.write_text(
        re.sub(
            rf"(?s)(?<=<!-- {name} -->\n).*?(?=<!-- end -->)",
            lambda _: table,
            page.read_text(),
        )
    )


def keep(name, text):
    """Write the file of results, and put tables and pictures where pages cannot include
    them.
    """
    (ROOT / "benchmarks" / "results" / f"{name}.md").write_text(text)
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    if name == "real_spectra":
        paste(ROOT / "README.md", name, tables[0])
    elif name == "convergence":
        shutil.copy(ROOT / "results" / "convergence.png", ROOT / "docs" / "images")
    elif name == "paper":
        paste(ROOT / "docs" / "paper" / "index.md", name, "\n".join(tables))
        for picture in (*(f"figure{i}" for i in range(1, 6)), "table1"):
            with Image.open(ROOT / "results" / f"{picture}.png") as image:
                image.thumbnail((1100, 1100))
                small = image.convert("RGB").quantize(
                    256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
                )
                small.save(ROOT / "docs" / "paper" / f"{picture}.png", optimize=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", default=list(COMMANDS), help=", ".join(COMMANDS)
    )
    parser.add_argument(
        "--data", type=Path, help="folder of the files that are not in this repository"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(COMMANDS)
    if unknown:
        parser.error(
            f"{', '.join(sorted(unknown))} is unknown: choose from"
            f" {', '.join(COMMANDS)}"
        )
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = (
        os.environ.get("COMMIT")
        or subprocess.run(git, cwd=ROOT, capture_output=True, text=True).stdout
    )
    values = {"JOBS": str(os.cpu_count()), "FOLDER": str(arguments.data)}
    for name in arguments.names:
        if name in NEED_DATA and not arguments.data:
            continue
        parts = [
            f"# {name.capitalize().replace('_', ' ')}\n",
            f"{date.today()}, commit {commit.strip()}, {setting()}.\n",
        ]
        parts += [output(command, values) for command in COMMANDS[name]]
        if name == "convergence":
            for each, (heading, _) in SECTIONS.items():
                parts.append(
                    f"## {heading}\n\n{(ROOT / 'results' / f'{each}.md').read_text()}"
                )
        keep(name, "\n".join(parts))
        print(name, flush=True)


if __name__ == "__main__":
    main()
