"""Shares as percentages, the same in all sentences."""

import math


def percent(share: float) -> str:
    """Return "0.001 %" for 1e-5: two digits."""
    if share < 1e-6:
        return "less than 0.0001 %" if share > 0 else "none"
    return f"{100 * share:.0f} %" if share >= 0.995 else f"{100 * share:.2g} %"


def explained_percent(residual: float) -> str:
    """Return 1 - residual as a percentage, rounded down so that 100 % is never said of less."""
    digits = 0 if residual > 0.1 else 2
    share = math.floor(100 * (1 - residual) * 10**digits) / 10**digits
    return "more than 99.99 %" if residual < 1e-4 else f"{share:.{digits}f} %"
