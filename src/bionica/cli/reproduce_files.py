"""What `bionica reproduce` leaves in its folder: tables, figures, and the page that shows them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isqrt
from pathlib import Path
from typing import Any

from .. import paper, report
from ..io import write_atomically, write_table
from ..io.write import Row
from ..paper.reference import SETTINGS, SHORT
from ..paper.results import Tables
from ..report import PageTable, Picture, Section

#: Every file that `write_reproduction` may write.
_STEMS = [
    *paper.EXPERIMENTS,
    "figure2",
    "figure3",
    "summary",
    *(f"{name}-summary" for name in paper.EXPERIMENTS),
    "report",
]
FILE_NAMES = [f"{stem}.{kind}" for stem in _STEMS for kind in ("csv", "parquet", "svg", "png", "html")]

#: Columns of the tables of the page: key of a row -> heading.
_ERRORS = {
    "setting": "", "network": "method", "runs": "runs", "diverged": "diverged", "mean": "mean error", "low": "90 % from",
    "high": "to", "median": "median", "least": "least", "largest": "largest", "last_tenth": "last tenth",
}  # fmt: skip
_GRID = {
    "setting": "", "network": "network", "settings": "settings", "failed": "failed", "runs": "runs of each", "best": "best",
    "error": "its error", "paper": "the paper's", "paper_error": "its error", "paper_rank": "its rank",
}  # fmt: skip
_CLAIMS = {"where": "where", "paper": "the paper", "ours": "our runs", "agrees": "agree"}


@dataclass
class ReproductionFiles:
    """The files that were written, and the numbers in them."""

    folder: Path
    page: Path
    files: list[Path] = field(default_factory=list)
    claims: list[Row] = field(default_factory=list)
    finals: list[Row] = field(default_factory=list)
    best: list[Row] = field(default_factory=list)

    def figure(self, name: str, figure: Any, caption: str) -> Picture:
        """Write a figure as .svg and .png; return it for the page."""
        kinds = {kind: report.figure_bytes(figure, kind) for kind in ("svg", "png")}
        for kind, content in kinds.items():
            self.files.append(self.folder / f"{name}.{kind}")
            write_atomically(self.files[-1], content)
        return Picture(kinds["svg"], caption)


def write_reproduction(config: paper.Reproduction, tables: Tables, folder: Path, target: str) -> ReproductionFiles:
    """Write tables, figures and the page; `target` is the prefix of their names, empty if everything was run."""
    written = ReproductionFiles(folder, folder / (f"{target}.html" if target else "report.html"))
    rows = {experiment: paper.run_rows(tables, experiment) for experiment in config.experiments}
    for experiment, mine in rows.items():
        written.files += write_table(folder / experiment, mine)
    written.finals = paper.final_rows({key: table for key, table in tables.items() if key[0] in ("figure4", "figure5")})
    means = paper.grid_means(tables)
    written.best = paper.best_settings(means)
    curves = [*rows.get("figure4", []), *rows.get("figure5", [])]
    written.claims = paper.claims_of(curves, written.finals, written.best, own_images=config.images is not None)
    if written.finals:
        written.files += write_table(folder / (f"{target}-summary" if target else "summary"), written.finals)
    sections = [Section("The paper's statements and our runs", [_table(_CLAIMS, written.claims)])]
    if "figure4" in rows:
        sections.append(_figure4(tables, written))
    if "figure5" in rows:
        sections.append(_figure5(config, tables, written))
    if "table1" in rows:
        caption = (
            "Table 1. Mean final error at every learning rate and decay of the grid; of Algorithm 2, with the best τ."
        )
        grid = written.figure("table1", report.grid_figure(means), caption)
        sections.append(Section("Table 1: the grid search", [_table(_GRID, written.best), grid]))
    if "figure1" in rows:
        sections.append(_figure1(config, rows["figure1"][0]["error"], written))
    sections.append(Section("How we read the paper", [PageTable(("the paper", "what we found, and do"), paper.NOTES)]))
    sections.append(_provenance(config, tables))
    lead = "Online nonnegative ICA with single-layer networks: runs by the paper's protocol, beside its statements."
    write_atomically(written.page, report.page("The paper, reproduced", lead, sections).encode())
    written.files.append(written.page)
    return written


def _table(columns: dict[str, str], rows: Sequence[Row]) -> PageTable:
    """A table of the page, with methods and settings named as in the figures."""

    def cell(name: str, value: Any) -> Any:
        if name == "network":
            return report.look(value).label
        if name == "setting":
            return SETTINGS.get(value, value)
        return "(" + ", ".join(f"{number:g}" for number in value) + ")" if isinstance(value, tuple) else value

    return PageTable(tuple(columns.values()), [[cell(name, row[name]) for name in columns] for row in rows])


def _errors(written: ReproductionFiles, experiment: str) -> PageTable:
    return _table(_ERRORS, [row for row in written.finals if row["experiment"] == experiment])


def _figure4(tables: Tables, written: ReproductionFiles) -> Section:
    caption = "Figure 4. error(t) on sparse uniform sources with the printed mixing matrices. Lines are means over runs, shades "
    caption += "90 % confidence intervals of the mean; horizontal lines are methods that see all the data at once."
    rows = paper.curve_rows(tables, "figure4")
    figure = written.figure("figure4", report.error_figure(rows, ("d3", "d10")), caption)
    stream = (
        "StreamingNICA is not in the paper. It runs at its defaults, on the mixtures as they come. Nonnegative PCA and 2-layer NSM "
        "are tuned to these mixing matrices, and Nonnegative PCA gets mixtures that were whitened beforehand."
    )
    parts: list[Any] = [figure, _errors(written, "figure4"), stream]
    if any(row["network"] == "correlation floor" for row in rows):
        parts.append(
            "The correlation floor is the error of the sources after their own sample correlations are whitened away: the error "
            "of a method that makes its outputs exactly uncorrelated. It is no strict bound."
        )
    return Section("Figure 4: sparse uniform sources", parts)


def _figure5(config: paper.Reproduction, tables: Tables, written: ReproductionFiles) -> Section:
    shown = paper.figure5_images(config)
    side = isqrt(len(shown[0][1]))
    caption = (
        f"Figure 5. Left: sources, mixtures, and the outputs of the two networks in the last of {config.epochs} presentations of "
        "the first run, with the table's hyperparameters. Right: error(t) as in figure 4; curves far above the paper's four "
        "methods leave the frame."
    )
    figure = report.images_figure(shown, (side, side), paper.curve_rows(tables, "figure5"))
    which = "The user's images."
    if config.images is None:
        which = "CC0 images of scikit-image (camera, brick, gravel), not the paper's, for which the hyperparameters were tuned; "
        which += "`--images` takes the original ones."
    return Section("Figure 5: images", [which, written.figure("figure5", figure, caption), _errors(written, "figure5")])


def _figure1(config: paper.Reproduction, error: float, written: ReproductionFiles) -> Section:
    caption = f"Figure 1. Plumbley's two steps; three sources followed. Error of the recovered sources: {error:.2g}."
    parts = [written.figure("figure1", report.scatter_figure(paper.figure1_points(config)), caption)]
    for name, network in (("figure2", "InterneuronNICA"), ("figure3", "TwoCompartmentNICA")):
        caption = f"Figure {name[-1]}. The network of {SHORT[network]}."
        parts.append(written.figure(name, report.network_diagram(network), caption))
    return Section("Figures 1 to 3: the problem and the networks", parts)


def _provenance(config: paper.Reproduction, tables: Tables) -> Section:
    runs = list({row["case"]: row for table in tables.values() for row in table}.values())
    facts = [
        ("runs, first seed", f"{config.runs}, {config.seed}"),
        ("samples of a run", f"{config.n_samples:,} (synthetic), {config.epochs} presentations (images)"),
        ("versions", "; ".join(sorted({run["versions"] for run in runs}))),
        ("machine", "; ".join(sorted({run["machine"] for run in runs}))),
        ("time of all runs, one after the other", f"{sum(run['seconds'] for run in runs):.0f} s"),
    ]
    return Section("Where the numbers come from", [PageTable((), facts)])
