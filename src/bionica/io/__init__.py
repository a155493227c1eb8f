"""Readers and writers: streams of mixtures and sources, models on disk."""

from .columns import Columns
from .model_file import ModelFileError, read_model, write_model
from .readers import FORMATS, open_reader
from .source import InputError, Reader
from .spread import Spread
from .text import RawPipe, TextReader
from .writers import OutputError, PipeWriter, Writer, check_output, open_writer, output_files

__all__ = [
    "FORMATS",
    "Columns",
    "InputError",
    "ModelFileError",
    "OutputError",
    "PipeWriter",
    "RawPipe",
    "Reader",
    "Spread",
    "TextReader",
    "Writer",
    "check_output",
    "open_reader",
    "open_writer",
    "output_files",
    "read_model",
    "write_model",
]
