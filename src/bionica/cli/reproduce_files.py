"""What `bionica reproduce` leaves in its folder: tables, figures, and the page that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..paper import Reproduction, Result
    from ..report import Picture, Section

Row = dict[str, Any]

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
class Written:
    """What was written, and the numbers in it."""

    folder: Path
    page: Path
    files: list[Path] = field(default_factory=list)
    claims: list[Row] = field(default_factory=list)
    finals: list[Row] = field(default_factory=list)
    best: list[Row] = field(default_factory=list)

    def write(self, path: Path, content: bytes) -> None:
        """Write a file, whole or not at all."""
        from ..paper import write_atomically

        write_atomically(path, content)
        self.files.append(path)

    def table(self, name: str, rows: Sequence[Row]) -> None:
        """Write a table."""
        from ..paper import write_table

        self.files += write_table(self.folder / name, rows)

    def figure(self, name: str, figure: Any, caption: str) -> Picture:
        """Write a figure as .svg and .png; return it for the page."""
        from ..report import Picture, figure_bytes

        svg = figure_bytes(figure, "svg")
        self.write(self.folder / f"{name}.svg", svg)
        self.write(self.folder / f"{name}.png", figure_bytes(figure, "png"))
        return Picture(svg, caption)


def write_files(config: Reproduction, results: list[Result], folder: Path, target: str) -> Written:
    """Write tables, figures and the page.

    Parameters
    ----------
    config : Reproduction
        What was run.
    results : list of Result
        The runs.
    folder : Path
        Where to.
    target : str
        Heads the names of page and summary; empty if everything was run.

    Returns
    -------
    Written
    """
    from .. import paper as experiments
    from .. import report as figures

    by_experiment = {name: [r for r in results if r.task.experiment == name] for name in config.experiments}
    written = Written(folder, folder / (f"{target}.html" if target else "report.html"))
    for name, mine in by_experiment.items():
        written.table(name, experiments.run_rows(mine))
    timed = [*by_experiment.get("figure4", []), *by_experiment.get("figure5", [])]
    means = experiments.grid_means(by_experiment.get("table1", []))
    written.finals, written.best = experiments.final_rows(timed), experiments.best_settings(means)
    written.claims = experiments.claims_of(timed, written.finals, written.best)
    if timed:
        written.table(f"{target}-summary" if target else "summary", written.finals)
    sections = [figures.Section("The paper's statements and our runs", [_table(_CLAIMS, written.claims)])]
    if "figure4" in by_experiment:
        sections.append(_curves(by_experiment["figure4"], written))
    if "figure5" in by_experiment:
        sections.append(_images(config, by_experiment["figure5"], written))
    if "table1" in by_experiment:
        sections.append(_grid(means, written))
    if "figure1" in by_experiment:
        sections.append(_scatter(by_experiment["figure1"][0], written))
    sections += [_notes(), _provenance(config, results)]
    lead = "Online nonnegative ICA with single-layer networks: runs by the paper's protocol, beside what it states."
    written.write(written.page, figures.report_page("The paper, reproduced", lead, sections).encode())
    return written


def _table(columns: dict[str, str], rows: Sequence[Row]) -> Any:
    """A table of the page, methods and settings under the names that the figures give them."""
    from ..paper.reference import SETTINGS
    from ..report import Table, look

    def cell(name: str, value: Any) -> Any:
        if name == "network":
            return look(value).label
        if name == "setting":
            return SETTINGS.get(value, value)
        return "(" + ", ".join(f"{number:g}" for number in value) + ")" if isinstance(value, tuple) else value

    return Table(tuple(columns.values()), [[cell(name, row[name]) for name in columns] for row in rows])


def _errors(written: Written, experiment: str) -> Any:
    return _table(_ERRORS, [row for row in written.finals if row["experiment"] == experiment])


def _curves(results: list[Result], written: Written) -> Section:
    from ..paper import curve_rows
    from ..report import Section, error_figure

    caption = (
        "Figure 4. error(t) on sparse uniform sources with the printed mixing matrices. Lines are means over runs, shades "
        "90 % confidence intervals of the mean; level lines are methods that see all the data at once."
    )
    figure = error_figure(curve_rows(results), ("d3", "d10"))
    parts = [written.figure("figure4", figure, caption), _errors(written, "figure4")]
    if any(result.task.network == "correlation floor" for result in results):
        parts.append(
            "The correlation floor is the error of the sources after their own sample correlations are whitened away: what "
            "is left to a method that makes its outputs exactly uncorrelated. It is no strict bound."
        )
    return Section("Figure 4: sparse uniform sources", parts)


def _images(config: Reproduction, results: list[Result], written: Written) -> Section:
    from math import isqrt

    from ..paper import curve_rows, image_sources, mix_images
    from ..report import Section, images_figure

    S = image_sources(config.images)
    side = isqrt(len(S))
    shown = [("Sources", S), ("Mixtures", mix_images(S))]
    for title, name in (("Algorithm 1", "InterneuronNICA"), ("Algorithm 2", "TwoCompartmentNICA")):
        mine = (r.arrays for r in results if r.task.network == name)
        shown += [(f"Recovered by\n{title}", arrays["recovered"]) for arrays in mine if "recovered" in arrays]
    caption = (
        f"Figure 5. Left: sources, mixtures, and what the two networks put out in the last of {config.epochs} presentations of "
        "the first run, with the table's hyperparameters. Right: error(t) as in figure 4; what is "
        "far above the paper's four methods leaves the frame."
    )
    picture = written.figure("figure5", images_figure(shown, (side, side), curve_rows(results)), caption)
    which = "The user's images."
    if config.images is None:
        which = "CC0 images of scikit-image (camera, brick, gravel), not the paper's, for which the hyperparameters were tuned; "
        which += "`--images` takes the original ones."
    return Section("Figure 5: images", [which, picture, _errors(written, "figure5")])


def _grid(means: list[Row], written: Written) -> Section:
    from ..report import Section, grid_figure

    caption = "Table 1. Mean final error at every learning rate and decay of appendix C's grid; of Algorithm 2, with the best τ."
    parts = [_table(_GRID, written.best), written.figure("table1", grid_figure(means), caption)]
    return Section("Table 1: the grid search", parts)


def _scatter(result: Result, written: Written) -> Section:
    from ..report import Section, network_diagram, scatter_figure

    caption = (
        f"Figure 1. Plumbley's two steps; three sources followed. Error of the recovered: {result.header['error']:.2g}."
    )
    parts = [
        written.figure("figure1", scatter_figure(result.arrays), caption),
        written.figure("figure2", network_diagram("InterneuronNICA"), "Figure 2. The network of Algorithm 1."),
        written.figure("figure3", network_diagram("TwoCompartmentNICA"), "Figure 3. The network of Algorithm 2."),
    ]
    return Section("Figures 1 to 3: the problem and the networks", parts)


def _notes() -> Section:
    from ..paper import NOTES
    from ..report import Section, Table

    return Section("How we read the paper", [Table(("the paper", "what we found, and do"), NOTES)])


def _provenance(config: Reproduction, results: list[Result]) -> Section:
    from ..report import Section, Table

    headers = [result.header for result in results]
    facts = [
        ("runs, first seed", f"{config.runs}, {config.seed}"),
        ("samples of a run", f"{config.n_samples:,} (synthetic), {config.epochs} presentations (images)"),
        ("versions", "; ".join(sorted({header["versions"] for header in headers}))),
        ("machine", "; ".join(sorted({header["machine"] for header in headers}))),
        ("time of all runs, one after the other", f"{sum(header['seconds'] for header in headers):.0f} s"),
    ]
    return Section("Where the numbers come from", [Table((), facts)])
