"""Speed on this machine, beside others on the same data in the same process.

`tables(sizes)` yields one `Table` after the other as it is measured: the networks beside the same algorithms in C++ and line by
line in NumPy, the peers, and the growth of cost with d, k and T.
"""

from .growth import growth
from .peers import peers
from .speed import speed
from .table import FULL, QUICK, Sizes, Table, tables

__all__ = ["FULL", "QUICK", "Sizes", "Table", "growth", "peers", "speed", "tables"]
