"""What `bionica reproduce` leaves in its folder: tables, figures, and the page that
shows them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bionica.circuits.paper import convergence, figures
from bionica.circuits.paper.plans import EPOCHS, MAPS, SETTINGS, Reproduction
from bionica.circuits.paper.results import (
    Tables,
    best_settings,
    claims_of,
    final_rows,
    grid_means,
    rows_of,
)
from bionica.circuits.sweep.table import Row, Table, table_bytes
from bionica.core.page import figure_bytes, page, picture, table
from bionica.io import write_own

#: Columns of the tables of the page: keys of a row, the second and third of an interval
#: -> heading.
_ERRORS = {
    "setting": "",
    "network": "method",
    "runs": "runs",
    "failed": "failed",
    "mean low high": "mean error (90 % interval)",
    "geometric_mean geometric_low geometric_high": "geometric mean (1 SD)",
    "median least largest": "median (range)",
    "last_tenth": "last tenth",
}
_GRID = {
    "network": "network",
    "settings": "settings",
    "failed": "failed",
    "runs": "runs of each",
    "best": "best",
    "error": "its error",
    "paper": "the paper's",
    "paper_error": "its error",
    "paper_rank": "its rank",
}
_CLAIMS = ("where", "the paper", "our runs", "agree")
_LEAD = (
    "Online nonnegative ICA with single-layer networks: runs by the paper's protocol,"
    " beside its statements."
)
#: Heading, figure and caption of each experiment, in the order of the page.
_SECTIONS = {
    "figure1": (
        "Figure 1: the problem",
        figures.scatter_figure,
        "Plumbley's two steps; three sources followed.",
    ),
    "figure2": (
        "Figure 2: the circuit of Algorithm 1",
        figures.circuit_figure,
        (
            "Inputs, principal neurons and interneurons; synapses as wide as the"
            " weights that were learned at d = 3."
        ),
    ),
    "figure3": (
        "Figure 3: the circuit of Algorithm 2",
        figures.circuit_figure,
        (
            "Inputs, dendrites and somata; synapses as wide as the weights that were"
            " learned at d = 3."
        ),
    ),
    "figure4": (
        "Figure 4: sparse uniform sources",
        figures.error_figure,
        (
            "error(t) with the printed mixing matrices. Lines are means over runs and"
            " shades 90 % confidence intervals of the mean, as the paper says. All four"
            " are tuned to these mixing matrices, and Nonnegative PCA gets mixtures"
            " that were whitened beforehand. With --with-ours what is not in the paper,"
            " untuned: horizontal lines are offline methods, and the correlation floor"
            " is the error of the sources after whitening, that of exactly uncorrelated"
            " outputs."
        ),
    ),
    "figure5": (
        "Figure 5: images",
        figures.images_figure,
        (
            "Left: sources, mixtures, and the outputs of the two networks in the last"
            " presentation of the first run, with the table's hyperparameters. Right:"
            " error(t) as in figure 4; curves far above the paper's four methods leave"
            " the frame. Without --images these are CC0 images of scikit-image (camera,"
            " brick, gravel), to which the hyperparameters were not tuned. The mixing"
            " matrix is that of the authors' data, not the printed one, with which"
            " Algorithm 2 recovers none of their images."
        ),
    ),
    "table1": (
        "Table 1: the grid search",
        figures.grid_figure,
        (
            "Mean final error at every learning rate and decay of the grid; of"
            " Algorithm 2, with the best τ."
        ),
    ),
}


def file_names(experiments: Sequence[str], target: str) -> list[str]:
    """Return the names of all files of these experiments; `target` is the prefix of the
    page, "all" if everything was run.
    """
    prefix = "report" if target == "all" else target
    summary = "summary" if target == "all" else f"{target}-summary"
    kinds = ("csv", "svg", "png", "md")
    files = [f"{name}.{kind}" for name in experiments for kind in kinds]
    return [f"{prefix}.html", f"{summary}.csv", *files]


def write_reproduction(
    config: Reproduction, tables: Tables, folder: Path, target: str = "all"
) -> dict[str, Any]:
    """Write tables, figures and the page to a folder, under `file_names`; return the
    files and the numbers in them.
    """
    rows = {name: rows_of(tables, name) for name in config.experiments}
    finals = final_rows(tables, "figure4", "figure5")
    means = grid_means(tables)
    best = best_settings(means)
    runs = rows.get("figure4", []) + rows.get("figure5", [])
    claims = claims_of(runs, finals, best)
    maps = {name: convergence.cells_of(rows[name]) for name in MAPS if name in rows}
    cells = [{"experiment": name, **cell} for name in maps for cell in maps[name]]
    page_name, summary_name = file_names((), target)
    files = []
    sections = []

    def write(name: str, content: bytes) -> None:
        write_own(folder / name, content)
        files.append(str(folder / name))

    if claims:
        statements = [table(_CLAIMS, [tuple(claim.values()) for claim in claims])]
        sections.append(("The paper's statements and our runs", statements))
    if finals or cells:
        write(summary_name, table_bytes(finals or cells))
    for name in config.experiments:
        if name in maps:
            heading, caption = convergence.SECTIONS[name]
            write(f"{name}.md", convergence.markdown(name, maps[name]).encode())
            numbers = table(*convergence.text_of(name, maps[name]))
            figure = figures.map_figure(name, maps[name])
        else:
            heading, draw, caption = _SECTIONS[name]
            drawn, numbers = means, _table(_GRID, best)
            if name != "table1":
                drawn = rows_of(tables, name, Table.curves)
                numbers = _table(_ERRORS, final_rows(tables, name))
            figure = draw(config, drawn)
        drawings = {kind: figure_bytes(figure, kind) for kind in ("svg", "png")}
        sections.append((heading, [picture(drawings["svg"], caption), numbers]))
        for kind, drawing in drawings.items():
            write(f"{name}.{kind}", drawing)
        write(f"{name}.csv", table_bytes(rows[name]))
    where = [table((), _provenance(config, tables))]
    sections.append(("Where the numbers come from", where))
    write(page_name, page("The paper, reproduced", _LEAD, sections).encode())
    results = {"errors": finals, "grid": best, "claims": claims, "cells": cells}
    return {"report": str(folder / page_name), "files": files, **results}


def _provenance(config: Reproduction, tables: Tables) -> list[tuple[str, str]]:
    """What ran, on what, and for how long."""
    cases = {row["case"]: row for rows in tables.values() for row in rows}.values()
    versions, machines = (
        "; ".join(sorted({case[key] for case in cases}))
        for key in ("versions", "machine")
    )
    sizes = f"{config.n_samples:,} (synthetic), {EPOCHS} presentations (images)"
    seconds = sum(case["seconds"] for case in cases)
    return [
        ("runs, first seed", f"{config.runs}, {config.seed}"),
        ("samples of a run", sizes),
        ("versions", versions),
        ("machine", machines),
        ("time of all runs, one after the other", f"{seconds:.0f} s"),
    ]


def _table(columns: dict[str, str], rows: Sequence[Row]) -> str:
    """A table of the page, with methods and settings named as in the figures."""

    def cell(row: Row, keys: str) -> object:
        value, *ends = (SETTINGS.get(row[key], row[key]) for key in keys.split())
        if not ends or value is None:
            return value
        return f"{value:.3g} ({ends[0]:.3g} to {ends[1]:.3g})"

    rows = [{**row, "network": figures.label_of(row["network"])} for row in rows]
    cells = [[cell(row, keys) for keys in columns] for row in rows]
    return table(tuple(columns.values()), cells)
