"""The example that `bionica sweep --example` prints: the grid search of appendix C, with comments."""

from math import prod

from .reference import NETWORKS, grid_of

_HEAD = """\
# A sweep over networks x settings x seeds x data. This plan is the paper's grid search (appendix C) on three sparse
# uniform sources: {settings} settings x 10 seeds.  Run it:  bionica sweep plan.toml

seeds = 10           # 0 to 9; or a list, [3, 14, 15]. Seeds of the initial weights, and of data without a seed of their own
times = 1            # how many errors are reported, evenly spaced on a logarithmic axis; or a list of times, [1000, 10_000].
                     # The last sample is always included
dtype = "float64"    # or "float32"

[[data]]             # as many as you like: every network runs on all of them
kind = "sparse_uniform"  # exponential, half_normal, gamma, odor; copula_uniform (with rho); odors; images; file
d = 3                # sources
T = 100_000          # samples
mixing = "d3"        # the paper's "d3", "d10", "images"; a matrix; "random" (a new one for each seed; n_mixtures rows)
# name = "paper"     # its name in the table
# snr_db = 30        # with noise
# seed = 0           # the same data for every seed of the networks
# epochs = 5         # presentations, each in a random order with shuffle = true
#
# [[data]]
# kind = "file"
# mixtures = "mixtures.npy"   # (n_samples, n_mixtures); relative to this file
# sources = "sources.npy"     # if they are known; without them there is no error
"""

_NETWORK = """
[[network]]
name = "{name}"
published = "d3"     # start from the paper's setting; without it, from our defaults
grid = {{ {grid} }}
"""

_TAIL = """# params = {{ dynamics = "gradient", gamma = 0.1 }}   # fixed parameters, those of {name}; "none" is None
# label = "mine"     # its name in the table, if a network is there twice
# Your own class: name = "mylab.rules:MyNetwork". An offline method: name = "BatchNICA", or "sklearn.decomposition:FastICA"
"""


def paper_grid() -> str:
    """Return the plan of the paper's grid search at d = 3, with comments on what else a plan can hold."""
    grids = {name: grid_of(name) for name in NETWORKS}
    text = _HEAD.format(settings=sum(prod(map(len, grid.values())) for grid in grids.values()))
    for name, grid in grids.items():
        text += _NETWORK.format(name=name, grid=", ".join(f"{key} = {list(values)}" for key, values in grid.items()))
    return text + _TAIL.format(name=NETWORKS[-1])
