"""Readers and writers: models on disk."""

from .model import ModelFileError, read_model, write_model

__all__ = ["ModelFileError", "read_model", "write_model"]
