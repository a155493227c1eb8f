"""Shares as percentages, the same in all sentences."""


def percent(share: float) -> str:
    """Return "0.001 %" for 1e-5: two digits; "none" below a millionth."""
    if share < 1e-6:
        return "none"
    return f"{100 * share:.0f} %" if share >= 0.995 else f"{100 * share:.2g} %"
