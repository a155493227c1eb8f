"""How rules are run: the loop, CUDA."""
