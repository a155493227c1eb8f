"""The circuit of ConeNetwork with the weights that it has after 400 samples."""

import matplotlib.pyplot as plt

from bionica import ConeNetwork, plot
from bionica.datasets import copula_uniform, mix

X, A = mix(copula_uniform(400, 3, rho=0.5, rng=0), n_mixtures=3, rng=0)
figure, ax = plt.subplots(figsize=(5.6, 4.2))
plot.circuit(ConeNetwork(3, random_state=0).partial_fit(X), ax=ax)
