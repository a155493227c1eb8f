"""
Nonnegative ICA in four pictures
================================
A lecture on the paper of Lipshutz, Pehlevan and Chklovskii: whiten, rotate, do both
with local rules, and where that fails.
"""

import matplotlib.pyplot as plt
import numpy as np

from bionica import (
    InterneuronNICA,
    LocalNICA,
    NoncenteredWhitener,
    StreamingNICA,
    TwoCompartmentNICA,
)
from bionica.datasets import mix, paper_mixing, random_mixing, sparse_uniform
from bionica.metrics import error_curve, sinr

# %% **Whiten.** Two sources that are nonnegative, often zero and uncorrelated fill a
# quadrant. Mixing shears and turns it. Whitening with the mean kept makes the
# covariance the identity again: what is left is a rotation.
S = sparse_uniform(2000, 2, rng=0)
X, A = mix(S, [[1.0, 0.9], [-0.2, 0.7]])
H = NoncenteredWhitener(2).fit_transform(X)
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for ax, cloud, title in zip(
    axes, (S, X, H), ("sources", "mixtures", "whitened"), strict=True
):
    ax.scatter(*cloud.T, s=3)
    ax.axhline(0, color="0.7", lw=0.8)
    ax.axvline(0, color="0.7", lw=0.8)
    ax.set(title=title, aspect="equal")

# %% **Rotate.** The mean square of negative outputs is zero at the angle that puts all
# samples into the quadrant: there the outputs are the sources. Nothing else needs to be
# known of the sources (Plumbley 2002).
angles = np.radians(np.arange(0, 360, 2))
turned = [H @ [[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]] for a in angles]
negative = [np.mean(np.minimum(Y, 0) ** 2) for Y in turned]
Y = turned[np.argmin(negative)]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(np.degrees(angles), negative)
left.set(xlabel="angle, degrees", ylabel="mean square of negative outputs")
right.scatter(*Y.T, s=3)
right.set(title="whitened, and turned by the best angle", aspect="equal")

# %% **Local rules.** Algorithms 1 and 2 do both steps in one layer, one sample at a
# time. A synapse sees its two neurons only.
S = sparse_uniform(100_000, 3, rng=0)
X, A = mix(S, paper_mixing("d3"))
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for number, Network in enumerate((InterneuronNICA, TwoCompartmentNICA), 1):
    ax.loglog(
        error_curve(
            S, Network.as_published("d3", random_state=0).partial_fit_transform(X)
        ),
        label=f"Algorithm {number}",
    )
ax.set(xlabel="samples, t", ylabel="error(t)")
ax.legend()

# %% **Where they fail.** The rates of table 1 were tuned to that matrix. Here are
# random ones whose condition number is 1 to 100, with mixtures as strong as the
# paper's: local rules learn directions of little variance slowly. ``LocalNICA`` is
# local and untuned; ``StreamingNICA`` whitens with all mixtures, and is not local. The
# median of five matrices:
conditions = (1, 3, 10, 30, 100)
makers = {
    "Algorithm 1, table 1": lambda: InterneuronNICA.as_published("d3", random_state=0),
    "Algorithm 2, table 1": lambda: TwoCompartmentNICA.as_published(
        "d3", random_state=0
    ),
    "Algorithm 2, untuned": lambda: TwoCompartmentNICA(3, random_state=0),
    "LocalNICA": lambda: LocalNICA(3, random_state=0),
    "StreamingNICA": lambda: StreamingNICA(3, random_state=0),
}
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name, make in makers.items():
    scores = []
    for condition in conditions:
        for seed in range(5):
            X = (
                S
                @ random_mixing(
                    3,
                    3,
                    condition,
                    rms=np.sqrt(np.mean(paper_mixing("d3") ** 2)),
                    rng=seed,
                ).T
            )
            scores.append(
                np.median(sinr(S[-5000:], make().partial_fit(X).transform(X[-5000:])))
            )
    ax.semilogx(
        conditions, np.median(np.reshape(scores, (-1, 5)), axis=1), "o-", label=name
    )
ax.set(xlabel="condition number of A", ylabel="signal to interference, dB")
ax.legend()
plt.show()
