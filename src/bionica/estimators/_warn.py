"""Warnings that point at the user's line of code, at whatever depth in the package they are raised."""

import sys
import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning


def warn(text: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Warn at the first line outside of bionica, scikit-learn and joblib."""
    warnings.warn(text, category, stacklevel=frames_to_caller())


def frames_to_caller() -> int:
    """The stacklevel at which a warning of the calling function points at the first frame outside of bionica and scikit-learn."""
    inside = (str(Path(__file__).parents[1]), str(Path(warnings.__file__).parent / "contextlib.py"))
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(inside) or {"sklearn", "joblib"} & set(Path(frame.f_code.co_filename).parts)
    ):
        frame, level = frame.f_back, level + 1
    return level
