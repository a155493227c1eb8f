"""What the library says, in the words of `bionica separate`: options in place of parameters, and everything counted from 1."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

#: Parameters of the estimators, and the options of the command that set them.
_OPTIONS = {
    'n_components="auto"': "--sources auto",
    r"n_components=(\d+)": r"--sources \1",
    "n_components=None": "--sources auto",
    "n_components": "--sources",
    r"(compare|or|use) BatchNICA": r"\1 --method batch",
    r"try MinimumVolumeCone(\(normalize='sum'\))?": "try --method cone",
    "Set horizon= to the number": "Give --horizon N, the number",
    "set horizon= to the number": "give --horizon N, the number",
    r"use StreamingNICA\(horizon=\.\.\.\)|set horizon=": "give --horizon N",
    r"pass X\.T|transpose it \(X\.T\)": "pass --axis 1",
    r", give noise= a number|, or noise= may be too small": "",
    "horizon=": "--horizon ",
    "leave it out of X and fit again": "leave it out with --skip and run again",
    r"from X and fit again(, or fit with outliers=0\.\d+)?": "from the input and run again",
}
#: Outputs, mixtures and samples that a diagnosis names, counted from 0: "outputs 0, 2 and 4", "7 mixtures (0, 1, ...)".
_NAMED = re.compile(r"\b(?:output|mixture|sample)s? \(?\d+(?:, \d+)*(?: and \d+)?")
#: Samples that a diagnosis names as outliers.
_SAMPLES = re.compile(r"\bsample \d+ (?=holds)|\bsamples \([\d, .]+\) (?=hold)")


def samples_until_start(network: Any) -> int:
    """Return how many samples a network still needs before it starts."""
    return int(getattr(network, "n_samples_until_start_", 0))


def counted(n: Any, noun: str) -> str:
    """Return a number and its noun, which is given in the plural."""
    return f"{n:,} {noun.removesuffix('s') if n == 1 else noun}"


def verdict(
    diagnosis: Any,
    network: Any,
    choice: str | None,
    *,
    can_resume: bool,
    of_all_samples: bool = True,
    kept: Sequence[int] | None = None,
) -> list[str]:
    """Return what the diagnosis of a network means, in the words of the command.

    `choice` says why its method was kept, and `kept` has the columns of the file that are its mixtures, if some are not.
    """
    missing = samples_until_start(network)
    if missing:
        seen = network.n_samples_seen_
        more = " More samples with --resume go on from here." if can_resume else ""
        start = f"{seen} of the {seen + missing} samples that it starts with have come"
        return [f"the network has not started: {start}, and every answer was zero.{more}"]
    if diagnosis is None:
        return ["one sample is too few to judge by."]
    sentences = from_one(diagnosis, kept)
    if not of_all_samples:  # the numbers of samples are those of the rows that were judged
        sentences = [_SAMPLES.sub(_unnumbered, sentence) for sentence in sentences]
    if type(network).__name__ == "BatchNICA" or choice:  # it cannot be compared with itself, nor again
        sentences = [re.sub("(, compare| or|, or use) BatchNICA", "", sentence) for sentence in sentences]
    if choice:
        sentences = [sentence.replace(" (try MinimumVolumeCone)", "") for sentence in sentences]
    return [*_changes(network), *map(in_options, sentences)]


def _changes(network: Any) -> Iterator[str]:
    """Say whether the mixtures changed while the network learned."""
    if getattr(network, "change_detected_", False):
        yield (
            "the mixtures changed while they came, and all samples weigh the same. If the mixing changes, run again with "
            "--horizon N: about N samples are remembered."
        )
    restarts = getattr(network, "repairs_", {}).get("restart", 0) if getattr(network, "horizon", None) else 0
    if restarts:
        yield f"learning started again {counted(restarts, 'times')} after an abrupt change of the mixtures."


def in_options(sentence: str) -> str:
    """Return a sentence of the library with the options of the command in place of the parameters of an estimator."""
    for parameter, option in _OPTIONS.items():
        sentence = re.sub(parameter, option, sentence)
    return sentence


def _unnumbered(named: re.Match[str]) -> str:
    return "samples " if named[0].startswith("samples") else "one sample "


def from_one(diagnosis: Any, kept: Sequence[int] | None = None) -> list[str]:
    """Return the sentences of a diagnosis with outputs, mixtures and samples counted from 1."""
    return [_counted_from_one(sentence, kept) for sentence in diagnosis.sentences]


def _counted_from_one(sentence: str, kept: Sequence[int] | None = None) -> str:
    """Return a sentence of the library, which counts outputs, mixtures and samples from 0, with these counted from 1.

    If not all columns of the file are mixtures, a mixture is called by its column.
    """

    def add_one(named: re.Match[str]) -> str:
        if kept is None or not named[0].startswith("mixture"):
            return re.sub(r"\d+", lambda number: str(int(number[0]) + 1), named[0])
        columns = re.sub(r"\d+", lambda number: str(kept[int(number[0])] + 1), named[0])
        return columns.replace("mixture", "column", 1)

    return _NAMED.sub(add_one, sentence)


def rephrase(message: str) -> str:
    """Return a warning or an error of the library in the words of the command."""
    return in_options(_counted_from_one(message))
