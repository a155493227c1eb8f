"""What a notebook shows below scikit-learn's diagram of a fitted estimator: what it has learned, and what speaks against it."""

from html import escape
from typing import Any

# Colours are inherited, so that the text can be read in light and in dark notebooks.
_STYLE = "border-left: 3px solid {}; margin: 0.5em 0; padding: 0.1em 0.8em; color: inherit; max-width: 60em"
_DOUBTFUL, _PLAIN = "#d98000", "#8a8a8a"


def summary(estimator: Any) -> str:
    """Return a few lines of HTML; nothing for an estimator that is not fitted."""
    if not estimator.__sklearn_is_fitted__():
        return ""
    missing = getattr(estimator, "n_samples_until_start_", 0)
    doubts = () if missing else estimator._known_doubts()
    lines = [f"<p>{_fitted(estimator, missing)} {_belief(estimator, missing, doubts)}</p>"]
    if doubts:
        lines.append("<ul>" + "".join(f"<li>It {escape(doubt)}.</li>" for doubt in doubts) + "</ul>")
    return (
        f'<div class="bionica-summary" style="{_STYLE.format(_DOUBTFUL if doubts else _PLAIN)}">{"".join(lines)}</div>'
    )


def _fitted(estimator: Any, missing: int) -> str:
    n = getattr(estimator, "n_samples_seen_", None)
    samples = "" if n is None else f" from {n:,} sample{'' if n == 1 else 's'}"
    if missing:
        return f"It waits for {missing:,} more samples before it starts{samples and f' ({n:,} seen)'}."
    d, k = estimator.n_components_, estimator.n_features_in_
    return f"<b>{d:,} output{'' if d == 1 else 's'} of {k:,} mixture{'' if k == 1 else 's'}</b>{samples}."


def _belief(estimator: Any, missing: int, doubts: tuple[str, ...] | None) -> str:
    if missing or not hasattr(estimator, "diagnose"):
        return ""
    if doubts:
        return "The result is probably wrong:"
    found = "" if doubts is None else "Nothing was found that speaks against it. "
    return f"{found}<code>diagnose(X)</code> says whether to believe it."
