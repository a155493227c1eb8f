"""Mixtures and sources in files and pipes (`readers`, `writers`), models (`model_file`), tables of results (`tables`)."""

from .atomic import atomic_file, is_disk_full, write_atomically
from .model_file import ModelFileError, read_model, write_model
from .readers import FORMATS, Columns, EvenSample, InputError, RawPipe, Reader, TextReader, import_optional, open_reader
from .writers import OutputError, PipeWriter, Writer, check_file, check_output, open_writer, output_files

__all__ = [
    "FORMATS",
    "Columns",
    "EvenSample",
    "InputError",
    "ModelFileError",
    "OutputError",
    "PipeWriter",
    "RawPipe",
    "Reader",
    "TextReader",
    "Writer",
    "atomic_file",
    "check_file",
    "check_output",
    "import_optional",
    "is_disk_full",
    "open_reader",
    "open_writer",
    "output_files",
    "read_model",
    "write_atomically",
    "write_model",
]
