"""The part of the networks' docstrings that is the same for several, written once."""

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_PARAMETERS = """\
n_components : {number}, default=None
    Number of sources d. None: the rank of the X of `fit`, or, in a stream, the number of mixtures.{auto}
eta0 : float or callable, default={eta0}
    Learning rate at the first sample; or a function of the sample index (from 0) that is the whole schedule.
decay : float, default={decay}
    The rate at sample t is ``eta0 / (1 + decay * t) ** power``.
power : float, default=1.0
    See `decay`; 1 in the paper.
dynamics : {{"exact", "gradient"}}, default="exact"
    How the neurons settle: exactly (a nonnegative quadratic program, as in the paper's experiments) or by the
    projected gradient iteration of the algorithm box.
gamma : float, default=None
    Step of the gradient dynamics. None takes a step that is safe for the weights at hand.
settle_tol : float, default=1e-10
    The gradient dynamics stop when no activity is off by more than this share of the input. At least 64 rounding units.
settle_steps : int, default=10000
    Most steps of the gradient dynamics for a sample.
mean_window : int, default=None
    Running means weigh sample t by 1/t as in the paper; with a window, by 1/min(t, mean_window).
precondition : None
    This network is kept as it was published.
average : False
    This network is kept as it was published.
init : "random" or dict, default="random"
    Initial weights: random (orthonormal feedforward, identity lateral), or arrays by the paper's names, {names}.
    Those that are not given are random. They are copied.
guards : bool or collection of str, default=True
    Repairs to switch on: all, none, or some of {guards}; see `bionica.networks.guards`.
whitening_eta0, whitening_decay, whitening_power : float, default=0.01, 0.01, 1.0
    Learning rate of the online whitening layer, zeta_t = whitening_eta0 / (1 + whitening_decay t) ** whitening_power.
n_epochs : int, default=1
    How often `fit` presents the data.
shuffle : bool, default=False
    Whether `fit` presents the data in random order, another in each epoch.
random_state : int, RandomState instance or None, default=None
    Seed of the start, the order and the guards. A saved model keeps it if it is an int."""

#: In place of these, for networks with natural steps.
_NATURAL = """\
eta0 : float or callable, default=None
    Learning rate at the first sample; or a function of the sample index (from 0) that is the whole schedule. None: 0.05 with
    natural steps (the eta of `bionica.networks.natural`; from 0.2 on it may diverge). Local networks: see Notes if
    `decay` is None too, else {eta0}.
decay : float, default=None
    The rate at sample t is ``eta0 / (1 + decay * t) ** power``. None: 0 with natural steps. Local networks: see Notes if `eta0`
    is None too, else {decay}.
mean_window : int, default=None
    Running means weigh sample t by 1/t as in the paper; with a window, by 1/min(t, mean_window). Where None means a
    window: see Notes. Natural steps have `horizon` instead.
precondition : {{"natural", "scale"}} or None, default="natural"
    What the learning rule does with its input. "natural": natural-gradient steps, which work whatever the mixing matrix and the
    scale; not a local rule (`bionica.networks.natural`). "scale": every mixture over its running root mean square, which an
    input neuron can do by itself. None: the paper's rule. The last two are strictly local, and depend on the condition of the
    mixing matrix (on `bionica.datasets.odors` they may fail: :doc:`/paper/local-networks`); None depends on its scale too.
average : bool, default=True
    Whether `transform` reads out with weights averaged over the samples. `partial_fit_transform` always uses the
    unaveraged weights.
init : "random" or dict, default="random"
    Where it starts. "random": random weights; a natural network is silent for its first 100 + 20 d samples (if they take more than
    256 MB: fewer, but 4 d + 20), from which it takes the scale and the leading directions of its input, and then learns from them
    too. Until then its outputs are zero. A dict: arrays by the paper's names, {names}; those that are not given are random. They
    are copied.
horizon : int, default=None
    For mixtures that change: what the network remembers of its input, how it averages, and the smallest learning rate reach back
    about this many samples. Natural networks also restart after an abrupt change. None: it weighs all samples alike."""

_ATTRIBUTES = """\
components_
mixing_
repairs_
n_components_
n_samples_seen_
n_samples_until_start_
count_ : Count
    With n_components="auto": the evidence for the number of sources.
n_features_in_ : int
    Mixtures per sample.
feature_names_in_ : ndarray of shape (n_features,)
    Names of the mixtures, if X had string column names.
online_, local_, nonnegative_ : bool
    Which of the paper's three requirements the network meets as it is configured."""

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
    return {entry.partition(" :")[0]: entry for entry in re.split(r"\n(?=\w)", text)}


def documented(names: str = "") -> Callable[[type[T]], type[T]]:
    """Complete a docstring: ``{parameters}`` that it does not name itself, ``{attributes}`` and ``{examples}``.

    `names` are the weights of the network.
    """

    def fill(cls: Any) -> Any:
        own, texts = inspect.cleandoc(cls.__doc__), _entries(_PARAMETERS)
        values = {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}
        auto = "horizon" in values
        if values.get("precondition") == "natural":
            texts, values = texts | _entries(_NATURAL), values | cls._published.get("d3", {})
        rest = [text for name, text in texts.items() if name.partition(",")[0] in values and f"\n{name} :" not in own]
        values |= {
            "names": names, "name": cls.__name__, "guards": cls._own_guards,
            "number": 'int, "auto" or None' if auto else "int",
            "auto": ' "auto" counts them\n    in the first samples (`count_` has the evidence).' if auto else "",
        }  # fmt: skip
        own = own.replace("----------\n", f"----------\n{rest[0].format(**values)}\n", 1)
        own = own.replace("{parameters}", "\n".join(rest[1:]).format(**values))
        cls.__doc__ = own.replace("{attributes}", _ATTRIBUTES).replace("{examples}", _EXAMPLES.format(**values))
        return cls

    return fill
