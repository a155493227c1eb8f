"""
A fermentation, monitored on line
=================================

Spectra of a fermentation arrive one at a time. An output of a stream follows the glucose that the laboratory measured, without any calibration sample.
"""

import matplotlib.pyplot as plt
import numpy as np
from chemotools.datasets import load_fermentation_test

from bionica import BatchNICA

# %%
spectra, reference = load_fermentation_test()
print(spectra.shape, reference.shape, list(reference.columns))
X = spectra.to_numpy()
X = X - X.min(axis=0)
for d in (2,3,4):
    Y = BatchNICA(d, random_state=0).fit_transform(X)
    idx = np.linspace(0, len(X)-1, len(reference)).astype(int)
    print(d, [np.corrcoef(Y[idx, j], reference["glucose"])[0,1].round(3) for j in range(d)])
