"""Mixtures in workbooks: a sheet of an .xlsx file, read as if it were text."""

import warnings
import zipfile
from pathlib import Path

from bionica.core.errors import InputError, Message, message_of
from bionica.io.reader import (
    ReadOptions,
    check_archive,
    check_size,
    describe_choice,
    import_optional,
)
from bionica.io.text import TextReader, tabbed


def open_xlsx(path: Path, options: ReadOptions) -> TextReader:
    """Open a sheet of a workbook, by default the first that is not hidden.

    No formula is evaluated.
    """
    openpyxl = import_optional("openpyxl", "reading .xlsx")
    # openpyxl then refuses XML that names entities
    import_optional("defusedxml", "reading .xlsx")
    with zipfile.ZipFile(path) as archive:
        check_archive(archive)
        n_bytes = sum(part.file_size for part in archive.infolist())
        check_size(str(path), n_bytes, "save the sheet as .csv")
    with path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles, extensions and invalid dates
        book = openpyxl.load_workbook(
            file, read_only=True, data_only=True, keep_links=False
        )
        sheets = {" ".join(sheet.title.split()): sheet for sheet in book.worksheets}
        if not sheets or options.dataset not in (None, *sheets):
            raise InputError(
                f"{path} has no sheet {options.dataset or 'of cells'!r}: there are"
                f" {', '.join(sheets) or 'none'}"
            )
        shown = [name for name in sheets if sheets[name].sheet_state == "visible"]
        chosen = options.dataset or (shown or [*sheets])[0]
        sheet = sheets[chosen]
        sheet.reset_dimensions()  # a stale <dimension> would cut rows and columns
        rows = tabbed(sheet.iter_rows(values_only=True))
    lines = [line.rstrip("\t") for line in rows]
    # missing cells at the end of a row are empty
    n_tabs = next((line.count("\t") for line in lines if line), 0)
    lines = [line and line + "\t" * (n_tabs - line.count("\t")) for line in lines]
    notes = []
    if not options.dataset:
        others = [
            name if name in shown else f"{name} (hidden)"
            for name in sheets
            if name != chosen
        ]
        notes = describe_choice("sheet", chosen, others)
    try:
        reader = TextReader(path, options, lambda: [lines], separator="\t")
    except InputError as error:
        parts = [message_of(error), *notes]
        raise InputError(Message("; ".join(["{}"] * len(parts)), *parts)) from None
    reader.notes += notes
    return reader
