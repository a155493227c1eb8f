"""The parts of benchmarks/correlated.py: sources, methods, cases, what is measured, how it is printed."""
