"""Outputs of the authors' code beside those of `bionica.paper.authors`, from the same weights: the largest difference of each run.

    python benchmarks/authors_runs.py authors_runs.npz

The file is not in this repository. It holds, for each run (d3_run0, ...), mixtures X, the initial weights W0 (of the first layer)
and V0 (of the second layer of 2-layer NSM, and of Nonnegative PCA), and of the authors' code the outputs (algorithm1, algorithm2,
nsm, npca) and the neurons that it flipped (algorithm1_flipped, ...). To the right: the first sample with a difference above 1e-8,
and the difference if the initial weights are changed by 1e-15, which is what rounding alone explains.

With 2-layer NSM at d = 3 a neuron was silent for 329 and 415 samples, and was not flipped because the authors' solver had put out
-1e-17 for 0. By then its weights have decayed to rounding errors, which decide how it goes on.
"""

import sys

import numpy as np

from bionica.paper.authors import AuthorsRun

#: Class, name of its outputs in the file, and the weights that it begins with.
NETWORKS = (
    ("InterneuronNICA", "algorithm1", {"W_xy": "W0"}),
    ("TwoCompartmentNICA", "algorithm2", {"W_xz": "W0"}),
    ("TwoLayerNSM", "nsm", {"W_xh": "W0", "W_hy": "V0"}),
    ("NonnegativePCA", "npca", {"W": "V0"}),
)


def main(path):
    """Print the table."""
    with np.load(path) as file:
        runs = {name: file[name] for name in file}
    print("| run | network | largest difference | first above 1e-8 | by rounding |\n|---|---|---|---|---|")
    for run in sorted({name.rsplit("_", 1)[0] for name in runs if name.endswith("_X")}):
        for network, name, weights in NETWORKS:
            X, theirs, flipped = (runs[f"{run}_{key}"] for key in ("X", name, f"{name}_flipped"))
            outputs = []
            for scale in (1, 1 + 1e-15):
                init = {weight: scale * runs[f"{run}_{given}"] for weight, given in weights.items()}
                outputs.append(AuthorsRun(network, run.split("_")[0], init, flipped).partial_fit_transform(X))
            difference, rounding = np.abs(outputs[0] - [theirs, outputs[1]]).max(axis=2)
            first = next(iter(np.flatnonzero(difference > 1e-8)), "never")
            print(f"| {run} | {network} | {difference.max():.1e} | {first} | {rounding.max():.1e} |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
