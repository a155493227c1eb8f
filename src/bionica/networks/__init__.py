"""One network, one file: its equations, its learning rule, its estimator.

Where each equation of the paper is: docs/paper/index.md.
"""
