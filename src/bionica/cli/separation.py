"""One run of `separate`: a file or a stream is fitted, transformed and judged.

A file is fitted by `bionica.separate`, if it is large on evenly spread samples of
32 MiB, and then transformed block by block. A pipe, and a file with --horizon, is a
stream: each sample is answered with what was learned before it.

Model and sources of a stream agree after a kill: a file of sources and the model appear
together, when the input ends. If sources go to standard output, the model is saved
every 30 seconds, each time after the samples that it has learned from were answered.
"""

import re
import shlex
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import typer

import bionica
from bionica import io
from bionica.cli.console import (
    Console,
    StandardInput,
    counted,
    ignore_broken_pipe,
    one_line,
)
from bionica.cli.options import AUTO, CLASSES, OFFLINE, SeparateOptions
from bionica.core.errors import Message
from bionica.core.files import complete_files

#: Bytes of float64 that are fitted, in about 8 times the memory, and by which a stream
#: is judged at its end.
IN_MEMORY = 2**25
#: Samples of a pipe in which the method is chosen and sources are counted, at least.
FIRST = 1000
#: Seconds between saves of the model while sources go to standard output.
SAVE_EVERY = 30.0
#: Sources whose uncertainty is printed: the least sure ones.
_NAMED = 8
_NUMBERED = re.compile(r"source_(\d{1,9})")


@dataclass
class Separation:
    """What the steps of one run of `separate` share."""

    options: SeparateOptions
    console: Console
    path: Path | None  # the file for the sources; None: standard output
    reader: Any
    origin: dict[str, float]  # what `apply` must know of the fit
    started: float
    known_names: list[str] = field(default_factory=list)  # of the first sources


# ------------------------------------------------------------------------------- a file


def separate_file(run: Separation) -> None:
    """Fit the input, or evenly spread samples of a large one, and transform it."""
    reader, console = run.reader, run.console
    X, labels, blocks = reader.sample_and_blocks(sample_size(reader))
    n, is_large = reader.n_samples, len(X) < reader.n_samples
    console.note(*(Message("{}: {}", reader.name, note) for note in reader.notes))
    check_size(run, X.shape[1])
    if is_large:
        console.note(f"{len(X):,} evenly spread samples of {n:,} are fitted (32 MiB)")
    if not reader.n_missing and "saturated" in run.origin:
        console.note(f"--saturated {run.origin['saturated']:g}: no cell reaches it")
    if reader.n_missing:
        share = reader.n_missing / (n * X.shape[1])
        console.note(
            f"{reader.n_missing:,} cells ({share:.2g} of all) are missing: they are "
            "estimated by the fit"
        )
    network = fit(run, X, is_large)
    Y = network.transform(X)
    energy = energies(X, Y, network.mixing_).sum(axis=1)
    run.origin["unexplained"] = share_of(energy)
    run.origin["residual"] = float(energy[0]) / X.size
    save_model(run, network)
    with (
        ignore_broken_pipe(),
        open_output(run, network, Y.dtype) as writer,
        console.progress("Writing", n) as advance,
    ):
        for block, beside in blocks:
            writer.write(network.transform(block), beside)
            advance(len(block))
    finish(run, network, X, labels, n)


def sample_size(reader: Any) -> int:
    """Return how many samples of a file are fitted."""
    return max(FIRST, IN_MEMORY // (8 * int(reader.n_features)))


def check_size(run: Separation, k: int) -> None:
    """Raise if a file may be transposed, or is too small."""
    reader, n = run.reader, run.reader.n_samples
    size = f"{reader.name} has {counted(n, 'samples')} of {mixtures_of(reader, k)}"
    is_known = (  # the file says that rows are samples
        run.options.axis is not None
        or reader.image_shape is not None
        or reader.wavelengths is not None
        or any(map(io.ROW_NAMES.fullmatch, reader.label_names))
    )
    if n < k and not is_known:
        raise io.InputError(
            f"{size}: if its columns are the samples, pass --axis 1; if not, --axis 0"
        )
    if min(n, k) < 2:
        raise io.InputError(
            f"{size}: sources are found by comparing several samples and mixtures"
        )


def mixtures_of(reader: Any, k: int) -> str:
    """Return the number of mixtures and what they are, in words."""
    return counted(k, "mixtures" if reader.wavelengths is None else "wavelengths")


def fit(run: Separation, X: Any, is_large: bool = False) -> Any:
    """Count the sources, choose the method, fit and judge.

    If X are samples of a large file, networks learn from all of it.
    """
    options, method = run.options, run.options.chosen_method
    if method not in OFFLINE and (is_large or method != "streaming"):
        return _fitted_network(run, X, is_large)
    known = None
    if options.known is not None:
        known, run.known_names = known_spectra(run, options.known)
    return bionica.separate(
        X,
        options.n_sources or AUTO,
        method=method,
        random_state=options.seed,
        horizon=options.horizon,
        known_mixing=known,
        nonnegative_mixing=False if options.signed_mixing else AUTO,
        normalize=options.normalize or "variance",
        noise=options.noise_level,  # type: ignore[arg-type]
    )


def _fitted_network(run: Separation, X: Any, is_large: bool) -> Any:
    """Fit --method, a network or a stream, to X or to all of the file."""
    from bionica.mixtures.separator import judge

    network = new_network(run.options, X)
    if not is_large:
        network.fit(X)
    with run.console.progress("Learning", run.reader.n_samples) as advance:
        for block in run.reader.blocks() if is_large else ():
            network.partial_fit(block)
            advance(len(block))
    network.diagnosis_ = judge(network, X)
    return network


def new_network(options: SeparateOptions, X: Any) -> Any:
    """Return an unfitted estimator of --method.

    It has as many sources as --sources says or X shows.
    """
    from bionica.mixtures.cone.count import rough_cones
    from bionica.mixtures.verdict.count import count_sources

    horizon = {"horizon": options.horizon} if options.horizon else {}
    d = options.n_sources or int(count_sources(X, rough_cones)[0])
    cls = getattr(bionica, CLASSES[options.chosen_method])
    return cls(d, random_state=options.seed, **horizon)


def known_spectra(run: Separation, path: Path) -> tuple[Any, list[str]]:
    """Return the spectra of --known, a column each, and the names of their sources.

    A row for each spectrum, or a column. If the input has wavelengths, so must a table
    of spectra.
    """
    here, _ = io.wavelengths_in(run.reader.names, any_order=True)
    k, decimal = run.reader.n_features, run.options.decimal_mark
    is_text = path.suffix.lower() in (*io.TEXT, ".xlsx")
    header = True if is_text and here is not None else None
    for axis in (0, 1):
        with io.open_reader(path, axis=axis, header=header, decimal=decimal) as reader:
            spectra, labels = reader.sample(2**20)
        if spectra.shape[1] == k:
            break
    else:
        raise io.InputError(
            f"--known {path} holds {spectra.shape[1]} x {len(spectra)} values, the "
            f"input has {k} mixtures: interpolate its spectra, or --skip mixtures"
        )
    there, _ = io.wavelengths_in(reader.names, any_order=True)
    if header and there is None:
        raise io.InputError(
            f"--known {path} has no line of wavelengths, as the input has: add it"
        )
    if here is not None and there is not None:
        if len(here) == len(there):  # in the order of the input
            order = np.argsort(there)[np.argsort(np.argsort(here))]
            spectra, there = spectra[:, order], there[order]
        wrong = differing_channel(there, here, reader.unit, run.reader.unit)
        if wrong:
            raise io.InputError(
                f"--known {path}: {wrong}: interpolate its spectra to the wavelengths "
                "of the input"
            )
    names = [str(name) for name in labels[0]] if labels else []
    return spectra.T, names


def differing_channel(here: Any, there: Any, *units: str | None) -> str | None:
    """Return where two axes of wavelengths differ by more than rounding, in words.

    None if they do not. A unit that is None is not known.
    """
    if all(units) and len({*units}) > 1:
        return f"{units[0]} is not {units[1]}"
    if len(here) != len(there):
        return f"{len(here)} wavelengths are not {len(there)}"
    digits = min(max(map(_n_decimals, axis)) for axis in (here, there))
    differ = ~np.isclose(here, there, atol=0.51 * 10.0**-digits)
    if not differ.any():
        return None
    return f"{here[differ][0]:g} is not {there[differ][0]:g}"


def _n_decimals(value: float) -> int:
    return -int(Decimal(f"{value:.12g}").as_tuple().exponent)


def energies(X: Any, Y: Any, A: Any) -> Any:
    """Return the unexplained energy of each sample of X, and all of it, (2, n).

    Outputs Y and mixing A explain Y A'.
    """
    with np.errstate(all="ignore"):
        residual = X - Y @ np.asarray(A, float).T
        return np.nansum([residual**2, np.square(X, dtype=float)], axis=2)


def share_of(energy: Any) -> float:
    """Return the first of two energies over the second."""
    return float(energy[0] / max(energy[1], 1e-300))


# ----------------------------------------------------------------------------- a stream


@dataclass
class Answered:
    """Samples of a stream that were answered, by which it is judged at its end."""

    sample: io.RowSample  # of all
    recent: deque[Any]  # those that a network with --horizon remembers
    is_silent: bool = True  # every output was zero

    def add(self, block: Any, Y: Any) -> None:
        """Add a block and its outputs."""
        self.is_silent = self.is_silent and not Y.any()
        self.sample.add(block)
        self.recent.extend(block)

    def rows(self) -> Any:
        """Return the samples to judge by."""
        if self.recent.maxlen:
            return np.array(self.recent)
        return self.sample.sample()[0]


def separate_stream(run: Separation, stdin: StandardInput | None) -> None:
    """Answer each sample, of a pipe or of a file, with what was learned before it."""
    network, blocks, dtype = start_stream(run, stdin)
    horizon, k = run.options.horizon, run.reader.n_features
    rows = max(FIRST, min(horizon or 2**62, IN_MEMORY // (8 * k)))
    recent = deque[Any](maxlen=rows if horizon else 0)
    answered = Answered(io.RowSample(rows), recent)
    stop: BaseException | None = None
    is_complete = False
    if stdin is not None:
        stdin.defer_interrupts()
    with ignore_broken_pipe(), open_output(run, network, dtype) as writer:
        try:
            answer(run, network, blocks, writer, answered)
        except (KeyboardInterrupt, io.InputError) as error:
            if stdin is None:
                raise
            stop = error  # the samples of a pipe come once: keep what was made of them
        if answered.is_silent and run.options.model is None and stop is None:
            raise io.InputError(_why_silent(run, network))
        is_complete = True
    if answered.sample.n_seen:  # no sample that the model has learned from is lost
        save_model(run, network)
    if not is_complete:  # the reader of standard output has left
        return
    X = answered.rows()
    from bionica.mixtures.separator import judge

    network.diagnosis_ = None
    if len(X) > 1 and not samples_missing(network):
        network.diagnosis_ = judge(network, X)
    n = answered.sample.n_seen
    finish(run, network, X, (), n, interrupted=stop is not None)
    end_stream(run, stop)


def start_stream(
    run: Separation, stdin: StandardInput | None
) -> tuple[Any, Iterator[Any], Any]:
    """Return the network, the blocks that it is to answer, and their dtype."""
    reader, options, console = run.reader, run.options, run.console
    network = None
    if options.resume and options.model is not None:
        network = saved_network(run, options.model)
    console.say(f"Reading {reader.name}")
    blocks = reader.labelled_blocks()
    first = [next(blocks)]
    console.note(*(Message("{}: {}", reader.name, note) for note in reader.notes))
    k, dtype = first[0][0].shape[1], first[0][0].dtype
    if network is None:
        is_told = stdin is not None and options.n_sources is not None
        if is_told and options.chosen_method not in OFFLINE:
            network = new_network(options, None)
        else:
            network = choose_network(run, first, blocks)
    elif k != network.n_features_in_:
        raise io.InputError(
            f"{options.model} learned from {network.n_features_in_} mixtures, and "
            f"{reader.name} has {k}: choose the same ones with --use, or start again "
            "without --resume"
        )
    return network, chain(first, blocks), dtype


def choose_network(run: Separation, first: list[Any], blocks: Iterator[Any]) -> Any:
    """Return an estimator that can learn on, of the method that suits the first
    samples.

    Blocks that this takes are added to `first`. The estimator has learned from them,
    and learns from them once more, so that its first answers are good.
    """
    k = first[0][0].shape[1]
    n = max(FIRST, 100 + 20 * k)
    if run.options.from_pipe:
        run.console.say(
            f"Choosing by the first {n} samples; --sources N --method streaming "
            "answers at once"
        )
    n_read = len(first[0][0])
    while n_read < n and (block := next(blocks, None)):
        first.append(block)
        n_read += len(block[0])
    X = np.concatenate([block for block, _ in first])[:n]
    least = 2 * (k + 1)  # halves of them, with more samples than mixtures, are compared
    if len(X) < least:
        raise io.InputError(
            f"{counted(len(X), 'samples')} of {counted(k, 'mixtures')} are too few to "
            f"choose a method by ({least} at least): give more, or --sources and "
            "--method streaming"
        )
    network = fit(run, X)
    if hasattr(network, "partial_fit"):
        return network
    d, seed = len(network.components_), run.options.seed
    stream = bionica.StreamingNICA(d, random_state=seed).fit(X)
    stream.choice_ = network.choice_
    return stream


def saved_network(run: Separation, model: Path) -> Any:
    """Return the network of an earlier run, if it exists."""
    if not model.exists():
        run.console.say(f"There is no {model} yet: starting from the beginning")
        return None
    network = bionica.load(model)
    vars(network).pop("feature_names_in_", None)  # blocks are arrays without names
    name, options = type(network).__name__, run.options
    methods = {cls: method for method, cls in CLASSES.items()}
    if not hasattr(network, "partial_fit_transform"):
        raise io.InputError(
            f"{model} holds a {name}, which cannot learn from a stream: start again "
            "with --force"
        )
    learned = {
        "method": (options.chosen_method, methods.get(name, name)),
        "sources": (options.n_sources, len(source_names(network, ()))),
        "horizon": (options.horizon, getattr(network, "horizon", None)),
    }
    for option, (now, before) in learned.items():
        if now not in (None, AUTO, before):
            raise io.InputError(
                f"{model} learned with --{option} {before}: omit --{option}"
            )
    run.console.note(
        f"{model} is continued: the input must begin after the last sample that was "
        "answered"
    )
    return network


def answer(
    run: Separation,
    network: Any,
    blocks: Iterable[Any],
    writer: Any,
    answered: Answered,
) -> None:
    """Write the outputs of each block as it arrives; save the model now and then."""
    saved = run.started
    for block, labels in blocks:
        Y = network.partial_fit_transform(block)
        writer.write(Y, labels)
        answered.add(block, Y)
        if run.path is None and time.monotonic() - saved > SAVE_EVERY:
            save_model(run, network)
            saved = time.monotonic()


def samples_missing(network: Any) -> int:
    """Return how many samples a network still waits for before it starts."""
    return getattr(network, "n_samples_until_start_", 0)


def _why_silent(run: Separation, network: Any) -> str:
    """Say why every output was zero."""
    n, missing = network.n_samples_seen_, samples_missing(network)
    ended = f"{run.reader.name} ended after {counted(n, 'samples')}, and "
    remedy = "give more, or continue later with --model FILE"
    if not missing:
        return f"{ended}every output was zero: {remedy}"
    starts = f"{type(network).__name__} starts with {n + missing}"
    return f"{ended}{starts}: {remedy}, or use --method streaming"


def end_stream(run: Separation, stop: BaseException | None) -> None:
    """Raise what stopped a pipe, after its answers and the model were written."""
    if stop is None:
        return
    if isinstance(stop, io.InputError):
        raise stop
    if run.console.json:  # the object says so
        raise typer.Exit(130)
    remedy = "--model FILE would save what was learned"
    if run.options.model:
        remedy = f"continue from {run.options.model} with --resume"
    raise KeyboardInterrupt(f"Interrupted: {remedy}")


# -------------------------------------------------------------------------- the results


def source_names(network: Any, known: Sequence[str]) -> list[str]:
    """Return the names of the sources, known ones first."""
    # A network that waits for its first samples has no n_components_ yet.
    d = network.n_components
    if not isinstance(d, int):
        d = network.n_components_
    # A known source_1 is of another fit, and may be another one than ours.
    numbers = [int(match[1]) for match in map(_NUMBERED.fullmatch, known) if match]
    last = max(d, *numbers) if numbers else len(known)
    new = [f"source_{last + i}" for i in range(1, d - len(known) + 1)]
    return [*known, *new][:d]


def save_model(run: Separation, network: Any) -> None:
    """Write --model, with names, by which `bionica apply` compares and writes files."""
    if run.options.model is None:
        return
    network.source_names_ = source_names(network, run.known_names)
    network.origin_ = run.origin
    if run.reader.header:
        network.feature_names_in_ = np.array(run.reader.names, dtype=object)
    network.save(run.options.model)
    vars(network).pop("feature_names_in_", None)  # blocks are arrays without names


def open_output(run: Separation, network: Any, dtype: Any) -> Any:
    """Open the output of the sources."""
    reader, path = run.reader, run.path
    names = source_names(network, run.known_names)
    if path is None:
        header = [*reader.label_names, *names] if reader.header else None
        stream = typer.get_binary_stream("stdout")
        return nullcontext(io.TextWriter(stream, header, reader.decimal))
    if path.suffix.lower() in io.IMAGES and reader.image_shape is None:
        io.check_format(path)
    return io.open_writer(path, len(names), dtype, names=names, **reader.layout)


def finish(
    run: Separation,
    network: Any,
    X: Any,
    labels: Any,
    n: int,
    interrupted: bool = False,
) -> None:
    """Write the spectra and the report, and print the result.

    Three lines: what was done, the estimated errors, and problems.
    """
    names = source_names(network, run.known_names)
    spoken = [name.replace("_", " ") for name in names]
    targets = run.options.targets
    if samples_missing(network):
        targets = {name: path for name, path in targets.items() if name == "model"}
    if "mixing" in targets:
        write_spectra(targets["mixing"], network, run.reader, names)
    found = problems(run, network, spoken)
    lines = result_lines(run, network, n, spoken, found)
    if "report" in targets or "figures" in targets:
        numbers = np.linspace(n - len(X) + 1 if run.options.horizon else 1, n, len(X))
        texts: dict[str, Any] = {"names": spoken, "lines": [*lines, *run.console.notes]}
        texts |= {"numbers": numbers, "labels": labels}
        write_pages(run, network, X, targets, texts)
    files = output_names(run.path, len(names))
    written = list(files)
    for name, path in targets.items():
        written.append(f"{path} ({'spectra' if name == 'mixing' else name})")
    if written:
        lines.append(f"Wrote {', '.join(written)}")
    summary = summary_of(run, network, n, found)
    summary |= {"interrupted": interrupted, "output": files}
    for name in ("model", "mixing", "report", "figures"):
        summary[name] = str(targets[name]) if name in targets else None
    run.console.result(lines, summary)


def output_names(path: Path | None, d: int) -> list[str]:
    """Return the names of the files of sources."""
    return [] if path is None else [str(file) for file in io.output_files(path, d)]


def write_spectra(path: Path, network: Any, reader: Any, names: list[str]) -> None:
    """Write --mixing."""
    spectra = np.ascontiguousarray(network.spectra_)
    with io.open_writer(
        path,
        spectra.shape[1],
        spectra.dtype,
        names=reader.names,
        label_names=[""],
        array="spectra",
        decimal=reader.decimal,
    ) as writer:
        writer.write(spectra, [np.array(names)])


def write_pages(
    run: Separation,
    network: Any,
    X: Any,
    targets: dict[str, Path],
    texts: dict[str, Any],
) -> None:
    """Write --report and --figures."""
    from bionica.core.page import figure_bytes
    from bionica.mixtures.report import write_separation

    command = shlex.join(["bionica", *sys.argv[1:]])
    report = targets.get("report")
    figures = write_separation(
        report, network, run.reader, X, facts=[("command", command)], **texts
    )
    if "figures" not in targets:
        return
    with complete_files([targets["figures"]]) as (part,):
        part.mkdir()
        for i, (name, figure) in enumerate(figures, 1):
            for kind in ("pdf", "svg"):
                file = part / f"{i:02}-{name}.{kind}"
                file.write_bytes(figure_bytes(figure, kind))


def problems(run: Separation, network: Any, names: list[str]) -> list[str]:
    """Return the gravest findings against the fit, in words."""
    if samples_missing(network):
        return [
            "The network has not started, and every answer was zero. More samples with "
            "--resume continue."
        ]
    if network.diagnosis_ is None:
        return ["One sample is too few to judge by."]
    mixtures = [run.reader.column(j) for j in range(network.n_features_in_)]
    dark = run.origin.get("offset", 0.0)  # levels are named as they stand in the file
    sentences = []
    for finding in network.diagnosis_.findings[:3]:
        level = finding.values.get("level", 0.0) + dark
        finding = finding._replace(values={**finding.values, "level": level})
        sentence = one_line(finding.text(names, mixtures))
        sentences.append(sentence[:1].upper() + sentence[1:])
    return sentences


def result_lines(
    run: Separation, network: Any, n: int, names: list[str], found: list[str]
) -> list[str]:
    """Return what was done, the errors of the sources, and problems, in words."""
    d, k = len(names), run.reader.n_features
    choice = getattr(network, "choice_", None)
    number = counted(d, "sources")
    if choice and choice.candidates:
        number += f" (or {', '.join(map(str, choice.candidates))})"
    size = f"{counted(n, 'samples')} of {mixtures_of(run.reader, k)}"
    done = f"{number} in {size} by {type(network).__name__}"
    lines = [f"{done}: {choice.why}." if choice else f"{done}."]
    diagnosis = network.diagnosis_
    halves = diagnosis and diagnosis.uncertainty_
    if halves:
        least_sure = sorted(np.argsort(-halves.sources)[:_NAMED].tolist())
        errors = ", ".join(f"{names[i]} {halves.sources[i]:.1%}" for i in least_sure)
        if d > _NAMED:
            errors += "; the others are smaller"
        lines.append(
            f"Estimated errors: {errors} (standard error, in percent of the standard "
            "deviation)."
        )
    none = f"none found{diagnosis.unchecked if diagnosis else ''}."
    lines.append(f"Problems: {' '.join(found) or none}")
    return lines


def summary_of(
    run: Separation, network: Any, n: int, found: list[str]
) -> dict[str, Any]:
    """Return the result as data, but for what was written."""
    choice, diagnosis = getattr(network, "choice_", None), network.diagnosis_
    tried = {}
    if choice:
        for name, verdict in choice.tried.items():
            tried[name] = [finding.name for finding in verdict.findings]
    halves = diagnosis and diagnosis.uncertainty_
    uncertainty = None
    if halves:
        names = ("correlation", "angle", "sources")
        uncertainty = {name: getattr(halves, name).tolist() for name in names}
    band = diagnosis and diagnosis.band_
    return {
        "input": run.options.inputs,
        "sources": len(source_names(network, run.known_names)),
        "mixtures": run.reader.n_features,
        "samples": n,
        "method": type(network).__name__,
        "choice": choice.why if choice else None,
        "candidates": list(choice.candidates) if choice else [],
        "seconds": round(time.monotonic() - run.started, 3),
        "tried": tried,
        "ok": bool(diagnosis and diagnosis.ok),
        "uncertainty": uncertainty,
        "band": band.width.tolist() if band else None,
        "diagnosis": found,
        "notes": run.console.notes,
        "change_detected": bool(getattr(network, "change_detected_", False)),
    }
