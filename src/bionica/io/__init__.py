"""Mixtures and sources in files and pipes (`readers`, `writers`), models (`model_file`), tables of results (`tables`)."""

from .atomic import is_disk_full, write_atomically
from .model_file import ModelFileError, read_model, write_model
from .readers import (
    Columns,
    EvenSample,
    InputError,
    LastSample,
    RawPipe,
    Reader,
    TextFormat,
    TextReader,
    check_inputs,
    import_optional,
    open_reader,
)
from .writers import (
    OutputError,
    PipeWriter,
    Target,
    check_folder,
    check_format,
    check_spectra_format,
    check_targets,
    open_writer,
    output_files,
    write_spectra,
)

__all__ = [
    "Columns",
    "EvenSample",
    "InputError",
    "LastSample",
    "ModelFileError",
    "OutputError",
    "PipeWriter",
    "RawPipe",
    "Reader",
    "Target",
    "TextFormat",
    "TextReader",
    "check_folder",
    "check_format",
    "check_inputs",
    "check_spectra_format",
    "check_targets",
    "import_optional",
    "is_disk_full",
    "open_reader",
    "open_writer",
    "output_files",
    "read_model",
    "write_atomically",
    "write_model",
    "write_spectra",
]
