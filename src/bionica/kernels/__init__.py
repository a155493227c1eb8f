"""How rules are run: the loop, blocks of wide inputs, CUDA."""
