"""What `bionica reproduce` leaves in its folder: tables, figures, and the page that shows them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..io import write_own
from ..report import Sections, figure_bytes, page, picture, table, text
from ..sweep.table import Row, Table, table_bytes
from . import figures
from .plans import CONE_NETWORK, CORRELATED, SETTINGS, Reproduction
from .results import Tables, best_settings, claims_of, final_rows, grid_means, rows_of

#: Columns of the tables of the page: key of a row -> heading.
_ERRORS = {
    "setting": "", "network": "method", "runs": "runs", "failed": "failed", "mean": "mean error", "low": "90 % from",
    "high": "to", "median": "median", "least": "least", "largest": "largest", "last_tenth": "last tenth",
}  # fmt: skip
_GRID = {
    "setting": "", "network": "network", "settings": "settings", "failed": "failed", "runs": "runs of each", "best": "best",
    "error": "its error", "paper": "the paper's", "paper_error": "its error", "paper_rank": "its rank",
}  # fmt: skip
_CLAIMS = {"where": "where", "paper": "the paper", "ours": "our runs", "agrees": "agree"}

_LEAD = "Online nonnegative ICA with single-layer networks: runs by the paper's protocol, beside its statements."
_FIGURE1 = "Figure 1. Plumbley's two steps; three sources followed. Error of the recovered sources: {:.2g}."
_FIGURE4 = (
    "Figure 4. error(t) on sparse uniform sources with the printed mixing matrices. Lines are means over runs, shades 90 % "
    "confidence intervals of the mean; horizontal lines are methods that see all the data at once."
)
_STREAM = (
    "StreamingNICA is not in the paper. It runs at its defaults, on the mixtures as they come. Nonnegative PCA and 2-layer NSM are "
    "tuned to these mixing matrices, and Nonnegative PCA gets mixtures that were whitened beforehand."
)
_FLOOR = (
    "The correlation floor is the error of the sources after their own sample correlations are whitened away: the error of a "
    "method that makes its outputs exactly uncorrelated. It is no strict bound."
)
_FIGURE5 = (
    "Figure 5. Left: sources, mixtures, and the outputs of the two networks in the last presentation of the first run, with the "
    "table's hyperparameters. Right: error(t) as in figure 4; curves far above the paper's four methods leave the frame."
)
_CC0 = (
    "CC0 images of scikit-image (camera, brick, gravel), not the paper's, for which the hyperparameters were tuned; `--images` "
    "takes the original ones."
)
_CONE_NETWORK = (
    "error(t) on uniform sources with a Gaussian copula in 2 d mixtures, on odorants with such a copula at 21 receptors and on "
    "Dirichlet abundances in 10 mixtures, with noise 36 dB below them; on images without noise. One pass, default parameters; "
    "outputs are scaled to variance 1. Not in the paper."
)
_TABLE1 = "Table 1. Mean final error at every learning rate and decay of the grid; of Algorithm 2, with the best τ."


def file_names(experiments: Sequence[str], target: str) -> list[str]:
    """Return the names of all files of these experiments; `target` is the prefix of the page, "all" if everything was run."""
    page_names = ["report.html", "summary.csv"] if target == "all" else [f"{target}.html", f"{target}-summary.csv"]
    return [*page_names, *(f"{name}.{kind}" for name in experiments for kind in ("csv", "svg", "png"))]


@dataclass
class Written:
    """The files that were written, and the numbers in them."""

    page: Path
    claims: list[Row]
    finals: list[Row]
    best: list[Row]
    files: list[Path] = field(default_factory=list)

    def figure(self, name: str, figure: Any, caption: str) -> str:
        """Write a figure as .svg and .png; return it for the page."""
        kinds = {kind: figure_bytes(figure, kind) for kind in ("svg", "png")}
        for kind, content in kinds.items():
            self.files.append(self.page.with_name(f"{name}.{kind}"))
            write_own(self.files[-1], content)
        return picture(kinds["svg"], caption)


def write_reproduction(config: Reproduction, tables: Tables, folder: Path, target: str = "all") -> Written:
    """Write tables, figures and the page to a folder, under `file_names`; files that are there are replaced."""
    rows = {experiment: rows_of(tables, experiment) for experiment in config.experiments}
    finals, means = final_rows(tables, "figure4", "figure5"), grid_means(tables)
    best = best_settings(means)
    runs = [*rows.get("figure4", []), *rows.get("figure5", [])]
    claims = claims_of(runs, finals, best, own_images=config.images is not None)
    page_name, summary_name, *_ = file_names((), target)
    written = Written(folder / page_name, claims, finals, best)
    for name, mine in [*((f"{name}.csv", mine) for name, mine in rows.items()), (summary_name, finals)]:
        if mine:
            write_own(folder / name, table_bytes(mine))
            written.files.append(folder / name)
    sections: Sections = [("The paper's statements and our runs", [_table(_CLAIMS, claims)])] if claims else []
    if CONE_NETWORK in rows:
        figure = figures.error_figure(rows_of(tables, CONE_NETWORK, Table.curves), tuple(CORRELATED))
        errors = _table(_ERRORS, final_rows(tables, CONE_NETWORK))
        sections.append(("Correlated sources", [written.figure(CONE_NETWORK, figure, _CONE_NETWORK), errors]))
    if "figure4" in rows:
        curves = rows_of(tables, "figure4", Table.curves)
        drawn = written.figure("figure4", figures.error_figure(curves, ("d3", "d10")), _FIGURE4)
        floor = [text(_FLOOR)] if any(row["network"] == "correlation floor" for row in curves) else []
        errors = _table(_ERRORS, final_rows(tables, "figure4"))
        sections.append(("Figure 4: sparse uniform sources", [drawn, errors, text(_STREAM), *floor]))
    if "figure5" in rows:
        images = figures.images_figure(config, rows_of(tables, "figure5", Table.curves))
        which = _CC0 if config.images is None else "The user's images."
        errors = _table(_ERRORS, final_rows(tables, "figure5"))
        sections.append(("Figure 5: images", [text(which), written.figure("figure5", images, _FIGURE5), errors]))
    if "table1" in rows:
        grid = written.figure("table1", figures.grid_figure(means), _TABLE1)
        sections.append(("Table 1: the grid search", [_table(_GRID, best), grid]))
    if "figure1" in rows:
        caption = _FIGURE1.format(rows["figure1"][0]["error"])
        drawn = written.figure("figure1", figures.scatter_figure(config), caption)
        sections.append(("Figure 1: the problem", [drawn]))
    cases = list({row["case"]: row for rows in tables.values() for row in rows}.values())
    provenance = [
        ("runs, first seed", f"{config.runs}, {config.seed}"),
        ("samples of a run", f"{config.n_samples:,} (synthetic), {config.epochs} presentations (images)"),
        ("versions", "; ".join(sorted({case["versions"] for case in cases}))),
        ("machine", "; ".join(sorted({case["machine"] for case in cases}))),
        ("time of all runs, one after the other", f"{sum(case['seconds'] for case in cases):.0f} s"),
    ]
    sections.append(("Where the numbers come from", [table((), provenance)]))
    write_own(written.page, page("The paper, reproduced", _LEAD, sections).encode())
    written.files.append(written.page)
    return written


def _table(columns: dict[str, str], rows: Sequence[Row]) -> str:
    """A table of the page, with methods and settings named as in the figures."""

    def cell(name: str, value: Any) -> Any:
        if name == "network":
            return figures.look(value).label
        if name == "setting":
            return SETTINGS.get(value, value)
        return "(" + ", ".join(f"{number:g}" for number in value) + ")" if isinstance(value, tuple) else value

    return table(tuple(columns.values()), [[cell(name, row[name]) for name in columns] for row in rows])
