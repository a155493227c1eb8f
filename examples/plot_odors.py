"""
Odors and receptors
===================

Twenty-one receptors respond to mixtures of five odorants, most of them absent most of the time: both networks of the
paper learn to tell them apart as they come (error of the last 1,000 samples below 0.01).
"""

from bionica import InterneuronNICA, StreamingNICA, TwoCompartmentNICA, plot
from bionica.datasets import mix, odors
from bionica.metrics import permutation_error

# %%
S, A = odors(20_000, rng=0)
X, _ = mix(S, A)
print(f"{X.shape[1]} receptors, {S.shape[1]} odorants")

# %%
# The networks are silent for their first samples, while they look at their input. `StreamingNICA` answers from the
# second sample on.
outputs = {}
for network in (
    StreamingNICA(5, random_state=0),
    TwoCompartmentNICA(5, random_state=0),
    InterneuronNICA(5, random_state=0),
):
    name = type(network).__name__
    outputs[name] = network.partial_fit_transform(X)
    error = permutation_error(S[-1000:], outputs[name][-1000:])
    print(f"{name}: {error:.1e} over the last 1,000 samples")
    assert error < 0.01

# %%
ax = plot.error_curve(S, outputs)
ax.set_title("cumulative error, from the first sample")
