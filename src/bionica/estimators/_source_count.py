"""What a user is told about the number of sources before a fit that may take long."""

from ..offline.source_count import Spectrum
from ._warn import warn

#: With None and fewer outputs than this, too many of them cost little and `diagnose` names them.
MANY_OUTPUTS = 20


def kept_of_all(found: Spectrum) -> int:
    """Return the number of outputs for n_components=None of a method that many outputs make very slow.

    All directions, unless they are many and most of them look like noise.
    """
    rank = len(found.eigenvalues)
    return max(1, found.n_sources) if _are_mostly_noise(found, rank) else rank


def warn_of_count(
    name: str, n_components: int | str | None, found: Spectrum, n_directions: int, kept: int | None = None
) -> None:
    """Warn if "auto" is unsure or finds no noise, or if None takes many directions that look like noise.

    `n_directions` is the largest possible number of sources: that of the mixtures, or of the samples if there are fewer.
    """
    rank = len(found.eigenvalues)
    if n_components is None:
        sentence = _full_rank(found, rank, rank if kept is None else kept)
    elif n_components == "auto":
        sentence = _doubt(found, n_directions)
    else:
        return
    if sentence:
        warn(f"{name}: {sentence}." if name else f"{sentence}.", UserWarning)


def _are_mostly_noise(found: Spectrum, rank: int) -> bool:
    return rank >= MANY_OUTPUTS and found.n_sources <= rank / 2


def _full_rank(found: Spectrum, rank: int, kept: int) -> str:
    if not _are_mostly_noise(found, rank):
        return ""
    if kept < rank:
        return (
            f"{rank - kept} of the {rank} directions of X look like noise, and n_components=None takes {kept}: give n_components a "
            "number to take others"
        )
    return (
        f"n_components=None takes all {rank} directions of X, and {rank - found.n_sources} of them look like noise: try "
        f'n_components="auto" or n_components={found.n_sources}'
    )


def _doubt(found: Spectrum, n_directions: int) -> str:
    q, other = found.n_sources, found.alternative
    few_left = q > max(2, n_directions / 2)
    if found.changes:
        return (
            f'n_components="auto" takes {q} sources: short stretches of the samples show {q}, and all of them together {other}, so '
            "the mixing probably changes. Set horizon= to the number of samples in which it stays the same; if it does not change, "
            f"try n_components={other}"
        )
    if q != other:
        why = (
            "too few directions are left to tell noise from sources"
            if few_left
            else "no clear drop separates sources from noise"
        )
        return (
            f'n_components="auto" is unsure: it takes {q} sources, and {other} is possible, because {why}. If you know the number '
            f"of sources, give it as n_components; otherwise compare the results of n_components={q} and {other}"
        )
    exact = q == len(found.eigenvalues) < n_directions  # the other directions are empty
    if few_left and not exact:
        return (
            f'n_components="auto" takes {q} of {n_directions} directions for sources: too few are left to tell noise from sources. '
            "If you know the number of sources, give it as n_components; otherwise bring more mixtures"
        )
    return ""
