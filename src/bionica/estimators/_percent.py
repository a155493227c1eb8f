"""Shares as percentages, the same in all sentences."""


def percent(share: float) -> str:
    """Return "0.001 %" for 1e-5: two digits."""
    if share < 1e-6:
        return "less than 0.0001 %" if share > 0 else "none"
    return f"{100 * share:.0f} %" if share >= 0.995 else f"{100 * share:.2g} %"
