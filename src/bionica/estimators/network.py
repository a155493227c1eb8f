"""What the estimator of a rule of your own needs: the base class, and helpers for its parameters and initial weights.

CONTRIBUTING.md shows a complete rule with its estimator.
"""

from ._base import set_parameters
from ._initial_weights import given_weights, guard_seed, orthonormal_rows, positive_definite
from ._online import OnlineNICA

__all__ = ["OnlineNICA", "given_weights", "guard_seed", "orthonormal_rows", "positive_definite", "set_parameters"]
