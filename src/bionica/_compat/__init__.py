"""Doors to other libraries: one module for each. Nothing else in the package touches
their private names, or the threads of BLAS.

A module that uses private names says why, and what happens without them: it looks for
each name, and a test hides it.
"""
