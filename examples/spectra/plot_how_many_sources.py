"""
How many sources?
=================

Five sources in twelve noisy mixtures: two halves of the samples agree on the spectra of
five sources and not on six, and `n_components="auto"` takes that number. A warning
names others after which the angle grows too, though less.
"""

import warnings

from bionica import BatchNICA
from bionica.datasets import mix, sparse_uniform
from bionica.mixtures import plot

# %%
S = sparse_uniform(20_000, 5, rng=0)
X, A = mix(S, n_mixtures=12, snr_db=25, rng=0)

# %%
nica = BatchNICA("auto", random_state=0).fit(X)
print("sources found:", len(nica.components_))
assert len(nica.components_) == 5

# %%
plot.number_of_sources(nica)

# %% One output too few or too many shows in the diagnosis. `fit` warns of it too; the
# warnings are left out here.
warnings.simplefilter("ignore")
for d in (4, 5, 6):
    print(
        f"n_components={d}:",
        BatchNICA(d, random_state=0).fit(X).diagnose(X).sentences[0],
    )
