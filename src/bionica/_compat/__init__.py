"""Doors to private names of other libraries: one module for each library, and nothing else in the package touches such names.

Each module says what is private, why it is used and what happens without it. pyproject.toml bounds the versions.
"""
