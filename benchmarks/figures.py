"""Every measured figure of README and docs: the commands that print them, and where their output is kept.

    python benchmarks/figures.py                            all, one after the other; some take minutes on 16 cores
    python benchmarks/figures.py streaming missing          some
    python benchmarks/figures.py --data FOLDER real_spectra the sets of real_spectra.py are not in this repository

The output of NAME is written to results/NAME.md, with commands, commit, machine and seconds; pages include these files. README has
the first table of results/real_spectra.md between two comments. JOBS in a command is the number of cores.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

from bionica.paper.convergence import SECTIONS

ROOT = Path(__file__).parents[1]
COMMANDS = {
    "streaming": [
        "benchmarks/streaming.py --seed0 9900 --tables random,noise,disturbances,abrupt,local --jobs JOBS",
    ],
    "correlated": [
        "benchmarks/correlated.py --seed0 860000 --tables copula,chemistry,stream,uncorrelated,outliers --jobs JOBS",
    ],
    "missing": ["benchmarks/missing.py"],
    "real_spectra": [f"benchmarks/real_spectra.py --data FOLDER --jobs JOBS{more}" for more in ("", " --counts")],
    "cone_network": ["benchmarks/cone_network.py --seed 16000 --nica 1"],
    "local_nica": [
        "benchmarks/local_nica.py --seed 700000",
        *(
            f"benchmarks/local_nica.py --seed 700000 --network {name} problems photographs time"
            for name in ("InterneuronNICA", "TwoCompartmentNICA", "TwoLayerNSM")
        ),
    ],
    "convergence": ["-m bionica reproduce convergence --full -o RESULTS --jobs JOBS"],
    "stuck": [
        "benchmarks/stuck.py guards --seed 50000",
        "benchmarks/stuck.py silent runs --seed 60000 --matrices 20",
    ],
    "cluster": ["benchmarks/cluster.py --workers 1 2 4 16", "benchmarks/cluster.py --memory 0.1 0.3 1 2"],
    "speed": ["benchmarks/speed.py --rounds 7 --tables matrices,one"],
}


def output(command, values):
    """Run a command; return its lines of provenance and what it printed, as Markdown."""
    words = [values.get(word, word) for word in shlex.split(command)]
    start = time.perf_counter()
    printed = subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    seconds = time.perf_counter() - start
    if "|---" not in printed:
        printed = f"```text\n{printed.rstrip()}\n```\n"
    return f"`python {command}` ({seconds:.0f} s)\n\n{printed.strip()}\n"


def provenance():
    """The commit, the machine and the versions, in a line."""
    from runner import setting

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    return f"{date.today()}, commit {commit.strip()}, {setting()}."


def first_table(text):
    """The first table of a Markdown text."""
    return re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(COMMANDS), help=", ".join(COMMANDS))
    parser.add_argument("--data", type=Path, help="folder of the sets of real_spectra.py")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    values = {"JOBS": str(os.cpu_count()), "FOLDER": str(arguments.data), "RESULTS": str(ROOT / "results")}
    for name in arguments.names:
        if name == "real_spectra" and not arguments.data:
            continue
        parts = [f"# {name.capitalize().replace('_', ' ')}\n", provenance() + "\n"]
        parts += [output(command, values) for command in COMMANDS[name]]
        if name == "convergence":
            for map_, (heading, _) in SECTIONS.items():
                parts.append(f"## {heading}\n\n{(ROOT / 'results' / f'{map_}.md').read_text()}")
        text = "\n".join(parts)
        (ROOT / "benchmarks" / "results" / f"{name}.md").write_text(text)
        if name == "real_spectra":
            page = ROOT / "README.md"
            marked = re.compile(r"(?<=<!-- real_spectra -->\n).*?(?=<!-- end -->)", re.DOTALL)
            page.write_text(marked.sub(first_table(text), page.read_text()))
        print(name, flush=True)


if __name__ == "__main__":
    main()
