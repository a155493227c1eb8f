"""What `bionica reproduce` leaves in its folder: tables, figures, and the page that shows them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isqrt
from pathlib import Path
from typing import Any

from ..report import PageTable, Picture, Section, figure_bytes, page
from ..sweep.table import OwnFiles, Row, write_table
from . import figures
from .plans import CONE_NETWORK, CORRELATED, EXPERIMENTS, SETTINGS, Reproduction
from .results import Tables, best_settings, claims_of, curve_rows, final_rows, grid_means, run_rows

#: Every file that `write_reproduction` may write.
_ALL = (*EXPERIMENTS, CONE_NETWORK)
_STEMS = [*_ALL, "figure2", "figure3", "summary", *(f"{name}-summary" for name in _ALL), "report"]
FILE_NAMES = [f"{stem}.{kind}" for stem in _STEMS for kind in ("csv", "svg", "png", "html")]

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
    "error(t) on uniform sources with a Gaussian copula in 2 d mixtures, with noise 36 dB below them. One pass, default "
    "parameters; outputs are scaled to variance 1. Not in the paper."
)
_TABLE1 = "Table 1. Mean final error at every learning rate and decay of the grid; of Algorithm 2, with the best τ."


@dataclass
class Written:
    """The files that were written, and the numbers in them."""

    own: OwnFiles
    page: Path
    claims: list[Row]
    finals: list[Row]
    best: list[Row]
    files: list[Path] = field(default_factory=list)

    def figure(self, name: str, figure: Any, caption: str) -> Picture:
        """Write a figure as .svg and .png; return it for the page."""
        kinds = {kind: figure_bytes(figure, kind) for kind in ("svg", "png")}
        self.files += [self.own.write(f"{name}.{kind}", content) for kind, content in kinds.items()]
        return Picture(kinds["svg"], caption)


def write_reproduction(config: Reproduction, tables: Tables, own: OwnFiles, target: str) -> Written:
    """Write tables, figures and the page; `target` is the prefix of their names, empty if everything was run."""
    rows = {experiment: run_rows(tables, experiment) for experiment in config.experiments}
    finals = final_rows({key: table for key, table in tables.items() if key[0] in ("figure4", "figure5")})
    means = grid_means(tables)
    best = best_settings(means)
    runs = [*rows.get("figure4", []), *rows.get("figure5", [])]
    claims = claims_of(runs, finals, best, own_images=config.images is not None)
    written = Written(own, own.folder / (f"{target}.html" if target else "report.html"), claims, finals, best)
    for experiment, mine in rows.items():
        written.files.append(write_table(own, experiment, mine))
    if finals:
        written.files.append(write_table(own, f"{target}-summary" if target else "summary", finals))
    sections = [Section("The paper's statements and our runs", [_table(_CLAIMS, claims)])] if claims else []
    if CONE_NETWORK in rows:
        ends = final_rows({key: table for key, table in tables.items() if key[0] == CONE_NETWORK})
        figure = figures.error_figure(curve_rows(tables, CONE_NETWORK), tuple(CORRELATED))
        parts: list[Any] = [written.figure(CONE_NETWORK, figure, _CONE_NETWORK), _table(_ERRORS, ends)]
        sections.append(Section("Correlated sources", parts))
    if "figure4" in rows:
        curves = curve_rows(tables, "figure4")
        parts = [written.figure("figure4", figures.error_figure(curves, ("d3", "d10")), _FIGURE4)]
        floor = [_FLOOR] if any(row["network"] == "correlation floor" for row in curves) else []
        parts += [_errors(finals, "figure4"), _STREAM, *floor]
        sections.append(Section("Figure 4: sparse uniform sources", parts))
    if "figure5" in rows:
        images = figures.figure5_images(config)
        side = isqrt(len(images[0][1]))
        figure = figures.images_figure(images, (side, side), curve_rows(tables, "figure5"))
        which = _CC0 if config.images is None else "The user's images."
        parts = [which, written.figure("figure5", figure, _FIGURE5), _errors(finals, "figure5")]
        sections.append(Section("Figure 5: images", parts))
    if "table1" in rows:
        grid = written.figure("table1", figures.grid_figure(means), _TABLE1)
        sections.append(Section("Table 1: the grid search", [_table(_GRID, best), grid]))
    if "figure1" in rows:
        caption = "Figure 1. Plumbley's two steps; three sources followed. Error of the recovered sources: "
        caption += f"{rows['figure1'][0]['error']:.2g}."
        parts = [written.figure("figure1", figures.scatter_figure(figures.figure1_points(config)), caption)]
        for name, network in (("figure2", "InterneuronNICA"), ("figure3", "TwoCompartmentNICA")):
            caption = f"Figure {name[-1]}. The network of {figures.look(network).label}."
            parts.append(written.figure(name, figures.network_diagram(network), caption))
        sections.append(Section("Figures 1 to 3: the problem and the networks", parts))
    sections.append(Section("Where the numbers come from", [PageTable((), _provenance(config, tables))]))
    lead = "Online nonnegative ICA with single-layer networks: runs by the paper's protocol, beside its statements."
    written.files.append(own.write(written.page.name, page("The paper, reproduced", lead, sections).encode()))
    return written


def _table(columns: dict[str, str], rows: Sequence[Row]) -> PageTable:
    """A table of the page, with methods and settings named as in the figures."""

    def cell(name: str, value: Any) -> Any:
        if name == "network":
            return figures.look(value).label
        if name == "setting":
            return SETTINGS.get(value, value)
        return "(" + ", ".join(f"{number:g}" for number in value) + ")" if isinstance(value, tuple) else value

    return PageTable(tuple(columns.values()), [[cell(name, row[name]) for name in columns] for row in rows])


def _errors(finals: list[Row], experiment: str) -> PageTable:
    return _table(_ERRORS, [row for row in finals if row["experiment"] == experiment])


def _provenance(config: Reproduction, tables: Tables) -> list[tuple[str, str]]:
    runs = list({row["case"]: row for table in tables.values() for row in table}.values())
    return [
        ("runs, first seed", f"{config.runs}, {config.seed}"),
        ("samples of a run", f"{config.n_samples:,} (synthetic), {config.epochs} presentations (images)"),
        ("versions", "; ".join(sorted({run["versions"] for run in runs}))),
        ("machine", "; ".join(sorted({run["machine"] for run in runs}))),
        ("time of all runs, one after the other", f"{sum(run['seconds'] for run in runs):.0f} s"),
    ]
