"""What `bionica separate` says about the input and about what it found."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .console import Console
from .separate_options import Options

if TYPE_CHECKING:
    from ..io import Reader

#: Parameters of the estimators, and the options of the command that set them.
_OPTIONS = {
    r"n_components=(\d+)": r"--sources \1",
    "n_components=None": "--sources auto",
    "n_components": "--sources",
    r"(compare|or) BatchNICA": r"\1 --method batch",
    r"try MinimumVolumeCone(\(normalize='sum'\))?": "try --method cone",
    "set horizon= to the number": "give --horizon N, the number",
    "horizon=": "--horizon ",
}


def note_input(console: Console, reader: "Reader", sample: Any = None) -> None:
    """Say how the input was read, and which columns do not look like mixtures."""
    for note in reader.notes:
        console.note(note)
    if sample is not None and reader.image_shape is None and (rising := _rising_columns(sample)):
        columns = ", ".join(reader.column(j) for j in rising[:5])
        numbers = ",".join(str(reader.kept[j] + 1 if reader.kept else j + 1) for j in rising[:5])
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


def samples_until_start(network: Any) -> int:
    """Return how many samples a network still needs before it starts."""
    return int(getattr(network, "n_samples_until_start_", 0))


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
        "diagnosis": _sentences(diagnosis, network, missing, o, choice),
        "negativity": diagnosis and diagnosis.negativity,
        "notes": console.notes,
        "interrupted": interrupted,
        "output": [str(file) for file in files],
        "model": o.model and str(o.model),
        "report": o.report and str(o.report),
    }
    if o.report is not None:
        _write_report(o.report, summary, diagnosis, network, reader, sample)
    written = [*map(str, files)] + [f"{o.model} (network)"] * bool(o.model) + [f"{o.report} (report)"] * bool(o.report)
    sources, samples, mixtures = (_count(summary[noun], noun) for noun in ("sources", "samples", "mixtures"))
    lines = [
        f"{sources} in {samples} of {mixtures} ({summary['method']}, {summary['seconds']:.1f} s).",
        *(sentence[0].upper() + sentence[1:] for sentence in summary["diagnosis"]),
        *([f"Wrote {', '.join(written)}"] if written else []),
    ]
    if choice:
        console.say(choice)
    console.result(lines, summary)


def _count(n: Any, noun: str) -> str:
    return f"{n:,} {noun.removesuffix('s') if n == 1 else noun}"


def _sentences(diagnosis: Any, network: Any, missing: int, o: Options, choice: str | None) -> list[str]:
    """Return the diagnosis, with the options of the command in place of the parameters of the estimator."""
    if missing:
        seen = network.n_samples_seen_
        more = " More samples with --resume go on from here." if o.model else ""
        start = f"{seen} of the {seen + missing} samples that it starts with have come"
        return [f"the network has not started: {start}, and every answer was zero.{more}"]
    if diagnosis is None:
        return ["one sample is too few to judge by."]
    sentences = diagnosis.sentences
    if type(network).__name__ == "BatchNICA" or choice:  # it cannot be compared with itself, nor again
        sentences = [re.sub("(, compare| or) BatchNICA", "", sentence) for sentence in sentences]
    if choice:
        sentences = [sentence.replace(" (try MinimumVolumeCone)", "") for sentence in sentences]
    return [*_changes(network, o), *map(in_options, sentences)]


def _changes(network: Any, o: Options) -> Iterator[str]:
    """Say whether the mixtures changed while the network learned."""
    if getattr(network, "change_detected_", False):
        yield (
            "the mixtures changed while they came, and all samples weigh the same. If the mixing changes, run again with "
            "--horizon N: about N samples are remembered."
        )
    restarts = getattr(network, "repairs_", {}).get("restart", 0) if getattr(network, "horizon", None) else 0
    if restarts:
        yield f"learning started again {_count(restarts, 'times')} after an abrupt change of the mixtures."
        if not o.streaming:
            yield "all sources were computed with the weights at the end: --follow uses those of the time of each sample."


def in_options(sentence: str) -> str:
    """Return a sentence of the library with the options of the command in place of the parameters of an estimator."""
    for parameter, option in _OPTIONS.items():
        sentence = re.sub(parameter, option, sentence)
    return sentence


def _write_report(
    path: Path, summary: dict[str, Any], diagnosis: Any, network: Any, reader: "Reader", sample: Any
) -> None:
    from ..io.readers.images import thumbnails
    from ..report.separation_page import write_page

    Y = network.transform(sample[:: max(1, len(sample) // 500)])
    if samples_until_start(network):
        write_page(path, summary, None, 0 * Y)
        return
    images = thumbnails(reader, network.transform) if reader.image_shape and reader.repeatable else None
    names = [f"mixture {j}" if reader.image_shape else reader.column(j) for j in range(sample.shape[1])]
    write_page(path, summary, diagnosis, Y, mixing=network.mixing_, names=names, images=images)
