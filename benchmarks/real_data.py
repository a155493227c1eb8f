"""Data as users bring them: how many sources they have, what `diagnose` says, and how well `bionica separate` does beside peers.

python benchmarks/real_data.py                               # prints all tables; about 20 minutes
python benchmarks/real_data.py --tables comparison --jobs 2  # one of them
python benchmarks/real_data.py --seeds 1                     # one draw of each problem
python benchmarks/real_data.py --tables counting --write     # replaces this table in benchmarks/results/real_data.md
"""

import re
import sys
import warnings

from joblib import Parallel, parallel_config
from threadpoolctl import threadpool_limits

import common
from real_data_cases.comparison import comparison
from real_data_cases.counting import counting
from real_data_cases.diagnosis_table import diagnosing

SEED0 = 9000  # drawn once, after the methods were fixed; they were developed on other seeds
#: Table -> its number of draws, and the function that measures it: (seeds, parallel) -> markdown.
TABLES = {"counting": (3, counting), "comparison": (5, comparison), "diagnosis": (3, diagnosing)}
RESULTS = common.RESULTS / "real_data.md"
TITLE = "# Data as users bring them\n"


def replaced(text, parts):
    """Return the text of a results file with these tables (name -> markdown) in place of the old ones."""
    marked = re.split(r"^<!-- (\w+) -->\n", text, flags=re.MULTILINE)[1:]
    parts = dict(zip(marked[::2], marked[1::2], strict=True)) | parts
    return "\n".join([TITLE, *(f"<!-- {name} -->\n{parts[name].strip()}\n" for name in TABLES if name in parts)])


def main():
    parser = common.parser(__doc__, "real_data")
    parser.add_argument("--tables", default=",".join(TABLES), help="which, separated by commas (default: %(default)s)")
    parser.add_argument("--seeds", type=int, help="draws of each problem (default: 5 for comparison, otherwise 3)")
    parser.add_argument(
        "--seed0", type=int, default=SEED0, help="the first seed (default: %(default)s, and nothing was tuned on it)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with one thread")
    args = parser.parse_args()
    if unknown := set(args.tables.split(",")) - set(TABLES):
        parser.error(f"--tables: {', '.join(sorted(unknown))} is unknown: choose from {', '.join(TABLES)}")
    options = " ".join(option for option in sys.argv[1:] if option != "--write")
    head = f"`python benchmarks/real_data.py {options}`".replace(" `", "`") + f"\n\n{common.setting()}.\n"
    print(f"{TITLE}\n{head}")
    with threadpool_limits(1), parallel_config("loky", inner_max_num_threads=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in args.tables.split(","):
            n_seeds, measure = TABLES[name]
            part = measure(range(args.seed0, args.seed0 + (args.seeds or n_seeds)), Parallel(args.jobs))
            print(part, flush=True)
            if args.write:
                text = RESULTS.read_text() if RESULTS.exists() else ""
                RESULTS.write_text(replaced(text, {name: f"{head}\n{part}"}))


if __name__ == "__main__":
    main()
