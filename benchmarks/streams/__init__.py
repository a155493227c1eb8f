"""The parts of benchmarks/streaming.py: which cases each table has, what is measured, how it is printed."""
