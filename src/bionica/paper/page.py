"""What `bionica reproduce` leaves in its folder: tables, figures, and the page that shows them."""

from collections.abc import Sequence
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
    "confidence intervals of the mean; horizontal lines are offline methods."
)
_STREAM = (
    "StreamingNICA is not in the paper, and runs at its defaults. Nonnegative PCA and 2-layer NSM are tuned to these mixing "
    "matrices, and Nonnegative PCA gets mixtures that were whitened beforehand."
)
_FLOOR = "The correlation floor is the error of the sources after whitening: that of a method with exactly uncorrelated outputs."
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


def write_reproduction(config: Reproduction, tables: Tables, folder: Path, target: str = "all") -> dict[str, Any]:
    """Write tables, figures and the page to a folder, under `file_names`; return the files and the numbers in them."""
    rows = {experiment: rows_of(tables, experiment) for experiment in config.experiments}
    finals, means = final_rows(tables, "figure4", "figure5"), grid_means(tables)
    best = best_settings(means)
    runs = [*rows.get("figure4", []), *rows.get("figure5", [])]
    claims = claims_of(runs, finals, best, own_images=config.images is not None)
    page_name, summary_name = file_names((), target)
    files: list[Path] = []

    def write(name: str, content: bytes) -> bytes:
        files.append(folder / name)
        write_own(files[-1], content)
        return content

    def drawn(name: str, figure: Any, caption: str) -> str:
        shown = picture(write(f"{name}.svg", figure_bytes(figure, "svg")), caption)
        write(f"{name}.png", figure_bytes(figure, "png"))
        return shown

    def errors(experiment: str) -> str:
        return _table(_ERRORS, final_rows(tables, experiment))

    for name, table_rows in {**{f"{name}.csv": rows[name] for name in rows}, summary_name: finals}.items():
        if table_rows:
            write(name, table_bytes(table_rows))
    curves = {name: rows_of(tables, name, Table.curves) for name in rows}
    sections: Sections = [("The paper's statements and our runs", [_table(_CLAIMS, claims)])] if claims else []
    if CONE_NETWORK in rows:
        figure = figures.error_figure(curves[CONE_NETWORK], tuple(CORRELATED))
        parts = [drawn(CONE_NETWORK, figure, _CONE_NETWORK), errors(CONE_NETWORK)]
        sections.append(("Correlated sources", parts))
    if "figure4" in rows:
        figure = figures.error_figure(curves["figure4"], ("d3", "d10"))
        floor = [text(_FLOOR)] if any(row["network"] == "correlation floor" for row in finals) else []
        parts = [drawn("figure4", figure, _FIGURE4), errors("figure4"), text(_STREAM), *floor]
        sections.append(("Figure 4: sparse uniform sources", parts))
    if "figure5" in rows:
        figure = figures.images_figure(config, curves["figure5"])
        which = text(_CC0 if config.images is None else "The user's images.")
        sections.append(("Figure 5: images", [which, drawn("figure5", figure, _FIGURE5), errors("figure5")]))
    if "table1" in rows:
        parts = [_table(_GRID, best), drawn("table1", figures.grid_figure(means), _TABLE1)]
        sections.append(("Table 1: the grid search", parts))
    if "figure1" in rows:
        caption = _FIGURE1.format(rows["figure1"][0]["error"])
        sections.append(("Figure 1: the problem", [drawn("figure1", figures.scatter_figure(config), caption)]))
    cases = list({row["case"]: row for rows in tables.values() for row in rows}.values())
    provenance = [
        ("runs, first seed", f"{config.runs}, {config.seed}"),
        ("samples of a run", f"{config.n_samples:,} (synthetic), {config.epochs} presentations (images)"),
        ("versions", "; ".join(sorted({case["versions"] for case in cases}))),
        ("machine", "; ".join(sorted({case["machine"] for case in cases}))),
        ("time of all runs, one after the other", f"{sum(case['seconds'] for case in cases):.0f} s"),
    ]
    sections.append(("Where the numbers come from", [table((), provenance)]))
    write(page_name, page("The paper, reproduced", _LEAD, sections).encode())
    names = list(map(str, files))
    return {"report": str(folder / page_name), "files": names, "errors": finals, "grid": best, "claims": claims}


def _table(columns: dict[str, str], rows: Sequence[Row]) -> str:
    """A table of the page, with methods and settings named as in the figures."""

    def cell(name: str, value: Any) -> Any:
        if name == "network":
            return figures.label_of(value)
        if name == "setting":
            return SETTINGS.get(value, value)
        return "(" + ", ".join(f"{number:g}" for number in value) + ")" if isinstance(value, tuple) else value

    return table(tuple(columns.values()), [[cell(name, row[name]) for name in columns] for row in rows])
