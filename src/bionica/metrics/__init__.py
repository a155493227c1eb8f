"""How well outputs Y recover sources S: the paper's error, and the scores that other methods are compared by.

| score               | permutation chosen by | scale chosen by       | perfect | arguments |
|---------------------|-----------------------|-----------------------|---------|-----------|
| `permutation_error` | smallest error        | nothing               | 0       | S, Y      |
| `error_curve`       | smallest final error  | nothing               | 0       | S, Y      |
| `sinr`              | correlation           | one factor per output | inf dB  | S, Y      |
| `amari_distance`    | nothing: invariant    | largest entries of P  | 0       | P = W A   |
| `correlation_floor` | nothing               | nothing               | 0       | S         |

S is (n_samples, n_sources) and Y is (n_samples, n_outputs). Arrays, memory maps included, are read in blocks of rows and
summed in float64, so that a score needs a few megabytes beside its arguments.
"""

from .amari import amari_distance
from .correlation import correlation_floor
from .interference import sinr
from .matching import Matching, match_sources
from .squared_error import error_curve, permutation_error

__all__ = [
    "Matching",
    "amari_distance",
    "correlation_floor",
    "error_curve",
    "match_sources",
    "permutation_error",
    "sinr",
]
