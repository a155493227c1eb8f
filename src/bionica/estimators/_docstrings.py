"""The part of the docstrings that is the same for several estimators, written once."""

import inspect
import re
from typing import Any

from .._compat.sklearn import AUTO

_PARAMETERS = """\
n_components : int, "auto" or None, default=None
    Number of sources d. None: the rank of the X of `fit`; for a network in a stream, the number of mixtures. "auto": as many as
    two halves of the (first) samples agree on (`count_`); not for networks with a whitening layer.
eta0, decay, power : float, default={eta0}, {decay}, 1.0
    The learning rate at sample t (from 0) is ``eta0 / (1 + decay * t) ** power``, as in the paper. If `eta0` is a function of t,
    it is the whole schedule.
dynamics : {{"exact", "gradient"}}, default="exact"
    How the neurons settle: exactly (a nonnegative quadratic program, as in the paper's experiments) or by the
    projected gradient iteration of the algorithm box.
gamma, settle_tol, settle_steps : float, float, int, default=None, 1e-10, 10000
    Of the gradient dynamics: the step (None: one that is safe for the weights at hand), the share of the input by which no activity
    may be off at the end (at least 64 rounding units), and the most steps for a sample.
mean_window : int, default=None
    Running means weigh sample t by 1/t as in the paper; with a window, by 1/min(t, mean_window).
precondition, average : None, False
    This network is kept as it was published.
init : "random" or dict, default="random"
    Initial weights: random (orthonormal feedforward, identity lateral), or arrays by the paper's names, {names}.
    Those that are not given are random. They are copied.
guards : bool or collection of str, default=True
    Repairs to switch on: all, none, or some of {guards}; see `bionica.kernels.guards`.
whitening_eta0, whitening_decay, whitening_power : float, default=0.01, 0.01, 1.0
    Learning rate of the online whitening layer, zeta_t = whitening_eta0 / (1 + whitening_decay t) ** whitening_power.
n_epochs, shuffle : int, bool, default=1, False
    How often `fit` presents the data, and whether in random order, another in each epoch (within the blocks of a Dask array).
random_state : int, RandomState instance or None, default=None
    Seed of all that is random. A saved model keeps it if it is an int."""

#: In place of these, for networks with natural steps.
_NATURAL = """\
eta0, decay, power : float, default=None, None, 1.0
    The learning rate at sample t (from 0) is ``eta0 / (1 + decay * t) ** power``. If `eta0` is a function of t, it is the whole
    schedule. None: 0.05 and 0 with natural steps (the eta of `bionica.networks.natural`; from 0.2 on it may diverge). Local
    networks: see Notes if both are None, else {eta0} and {decay}.
mean_window : int, default=None
    Running means weigh sample t by 1/t as in the paper; with a window, by 1/min(t, mean_window). Where None means a
    window: see Notes. Natural steps have `horizon` instead.
precondition : {{"natural", "scale"}} or None, default="natural"
    What the learning rule does with its input. "natural": natural-gradient steps, which work whatever the mixing matrix and the
    scale; not a local rule (`bionica.networks.natural`). "scale": every mixture over its running root mean square, which an
    input neuron can do by itself. None: the paper's rule. The last two are strictly local, and depend on the condition of the
    mixing matrix (on `bionica.datasets.odors` they may fail: :doc:`/paper/local-networks`); None depends on its scale too.
average : bool, default=True
    Whether `transform` reads out with weights averaged over the samples; `partial_fit_transform` never does.
init : "random" or dict, default="random"
    Where it starts. "random": random weights; a natural network is silent for its first 100 + 20 d samples (if they take more than
    256 MB: fewer, but 4 d + 20), from which it takes the scale and the leading directions of its input, and then learns from them
    too. A dict: arrays by the paper's names, {names}, which are copied; those that are not given are random.
horizon : int, default=None
    For mixtures that change: what the network remembers of its input, how it averages, and the smallest learning rate reach back
    about this many samples. Natural networks also restart after an abrupt change. None: it weighs all samples alike."""

_ATTRIBUTES = """\
components_ : ndarray of shape (n_components, n_features)
    The unmixing matrix W, with sources max(W x, 0).
mixing_ : ndarray of shape (n_features, n_components)
    The estimated A; `components_ @ mixing_` is the identity.
n_samples_seen_ : int
    Samples seen, including outliers and those that wait for the start.
count_ : Count
    With n_components="auto": `n_sources`, other `candidates`, and the angle between halves for each number that was tried.
n_features_in_ : int
    Mixtures per sample.
feature_names_in_ : ndarray of shape (n_features,)
    Names of the mixtures, if X had string column names."""

_LOCAL = """\
`benchmarks/streaming.py --tables local` shows how many random matrices strictly local networks (``precondition="scale"`` or None)
separate, beside the paper's settings. If `eta0` or `decay` is given, they are the paper's in all else. Otherwise they have"""

_EXAMPLES = """\
>>> from bionica import {name}
>>> from bionica.datasets import mix, paper_mixing, sparse_uniform
>>> from bionica.metrics import permutation_error
>>> S = sparse_uniform(100_000, 3, rng=0)
>>> X, A = mix(S, paper_mixing("d3"))
>>> network = {name}(3, random_state=0).fit(X)
>>> bool(permutation_error(S, network.transform(X)) < 1e-3)
True

With the paper's settings for these sources:

>>> published = {name}.as_published("d3", random_state=0).fit(X)
>>> bool(permutation_error(S, published.transform(X)) < 1e-3)
True"""


def _entries(text: str) -> dict[str, str]:
    """The entries of a section by their names."""
    return {re.split(" :|\n", entry)[0]: entry for entry in re.split(r"\n(?=\w)", text)}


def complete(cls: Any, weights: str) -> str:
    """Return the docstring of a class with the ``{parameters}`` and ``{attributes}`` that it does not name itself."""
    own, parameters = inspect.cleandoc(cls.__doc__), _entries(_PARAMETERS)
    values = {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}
    if values.get("precondition") == "natural":
        del parameters["precondition, average"]
        parameters |= _entries(_NATURAL)
        values |= cls._published.get("d3", {})
    values |= {"names": weights, "name": cls.__name__, "guards": getattr(cls, "_own_guards", ())}
    properties = [name for name in dir(cls) if name[0] != "_" and isinstance(getattr(cls, name), property)]
    attributes = _entries("\n".join([_ATTRIBUTES, *properties]))
    if AUTO not in cls._parameter_constraints.get("n_components", ()):
        del attributes["count_"]
    parameters = {name: text for name, text in parameters.items() if name.split(",")[0] in values}
    for section, entries in {"parameters": parameters, "attributes": attributes}.items():
        texts = [text for name, text in entries.items() if f"\n{name} :" not in own]
        own = own.replace(f"{{{section}}}", "\n".join(texts).format(**values))
    return own.replace("{local}", _LOCAL).replace("{examples}", _EXAMPLES.format(**values))
