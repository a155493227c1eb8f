"""Rows of results as CSV and Parquet files."""

import csv
import io
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .atomic import write_atomically

Row = dict[str, Any]


def write_table(path: Path, rows: Sequence[Row]) -> list[Path]:
    """Write rows, all with the same keys, as `path`.csv, and as `path`.parquet if pyarrow is installed; return the files."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    files = [path.with_suffix(".csv")]
    write_atomically(files[0], text.getvalue().encode())
    if find_spec("pyarrow") is not None:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        buffer = io.BytesIO()
        parquet.write_table(arrow.Table.from_pylist(list(rows)), buffer)
        files.append(path.with_suffix(".parquet"))
        write_atomically(files[1], buffer.getvalue())
    return files
