"""What `bionica separate` says about the input and about what it found."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .console import Console
from .separate_mixing import axis_title, axis_values
from .separate_options import Options
from .separate_sentences import counted, samples_until_start, verdict

if TYPE_CHECKING:
    from ..io import Reader


def note_input(console: Console, reader: "Reader", sample: Any = None) -> None:
    """Say how the input was read, and which columns do not look like mixtures."""
    for note in reader.notes:
        console.note(note)
    if sample is not None and reader.image_shape is None and (rising := _rising_columns(sample)):
        columns = ", ".join(reader.column(j) for j in rising[:5])
        numbers = ",".join(str(reader.kept[j] + 1) for j in rising[:5])
        verb = "rise" if len(rising) > 1 else "rises"
        console.note(
            f"{reader.name}: {columns} only {verb} from sample to sample; a time or a count is not a mixture: leave it out "
            f"with --skip {numbers}"
        )


def _rising_columns(sample: Any) -> list[int]:
    """Return the mixtures that rise from each sample to the next, of 20 samples or more."""
    import numpy as np

    some = sample[:: max(1, len(sample) // 1000)]
    return np.flatnonzero((np.diff(some, axis=0) > 0).all(axis=0)).tolist() if len(some) >= 20 else []


def summarize(
    o: Options,
    console: Console,
    network: Any,
    reader: "Reader",
    sample: Any,
    files: list[Path],
    *,
    n: int,
    started: float,
    interrupted: bool = False,
    choice: str | None = None,
) -> None:
    """Judge the fit by some samples of the input, write the report, and print what was found."""
    missing = samples_until_start(network)
    diagnosis = network.diagnose(sample) if len(sample) > 1 and not missing else None
    summary = {
        "input": o.inputs,
        "sources": len(network.components_),
        "mixtures": sample.shape[1],
        "samples": n,
        "method": type(network).__name__,
        "choice": choice,
        "seconds": round(time.monotonic() - started, 3),
        "ok": bool(diagnosis and diagnosis.ok),
        "change_detected": bool(getattr(network, "change_detected_", False)),
        "diagnosis": verdict(
            diagnosis,
            network,
            choice,
            can_resume=o.model is not None,
            of_all_samples=len(sample) == n,
            kept=None if reader.image_shape else list(reader.kept),
        ),
        "negativity": diagnosis and diagnosis.negativity,
        "notes": console.notes,
        "interrupted": interrupted,
        "output": [str(file) for file in files],
        "model": o.model and str(o.model),
        "report": o.report and str(o.report),
        "mixing": None if o.mixing is None or missing else str(o.mixing),
    }
    if o.report is not None:
        _write_report(o.report, summary, diagnosis, network, reader, sample)
    kinds = {"mixing": "spectra", "model": "network", "report": "report"}
    written = [*map(str, files)] + [f"{summary[key]} ({kind})" for key, kind in kinds.items() if summary[key]]
    sources, samples, mixtures = (counted(summary[noun], noun) for noun in ("sources", "samples", "mixtures"))
    lines = [
        f"{sources} in {samples} of {mixtures} ({summary['method']}, {summary['seconds']:.1f} s).",
        *(sentence[0].upper() + sentence[1:] for sentence in summary["diagnosis"]),
        *([f"Wrote {', '.join(written)}"] if written else []),
    ]
    if choice:
        console.say(choice)
    console.result(lines, summary)


def _write_report(
    path: Path, summary: dict[str, Any], diagnosis: Any, network: Any, reader: "Reader", sample: Any
) -> None:
    from ..io.images import thumbnails
    from ..report.separation_page import write_page

    Y = network.transform(sample[:: max(1, len(sample) // 500)])
    if samples_until_start(network):
        write_page(path, summary, None, 0 * Y)
        return
    images = thumbnails(reader, network.transform) if reader.image_shape and reader.repeatable else None
    names = [f"mixture {j + 1}" if reader.image_shape else reader.column(j) for j in range(sample.shape[1])]
    first = summary["samples"] - len(sample) if getattr(network, "horizon", None) else 0
    write_page(
        path,
        summary,
        diagnosis,
        Y,
        first=first,
        mixing=network.mixing_,
        names=names,
        axis=axis_values(reader),
        axis_title=axis_title(reader),
        images=images,
    )
