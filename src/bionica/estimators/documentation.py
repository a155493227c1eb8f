"""The part of the networks' docstrings that is the same for all, written once."""

import textwrap
from collections.abc import Callable
from typing import TypeVar

__all__ = ["documented"]

T = TypeVar("T")

_PARAMETERS = """\
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
    Reserved: no preconditioning of the input yet.
average : False
    Reserved: no averaging of the weights yet.
init : "random" or dict, default="random"
    Initial weights: random (orthonormal feedforward, identity lateral), or arrays by the paper's names, {names}.
    Those that are not given are random. They are copied.
guards : bool or collection of str, default=True
    Repairs to switch on: all, none, or some of {guards}; see `bionica.networks.guards`.
n_epochs : int, default=1
    How often `fit` presents the data.
shuffle : bool, default=False
    Whether `fit` presents the data in random order, another in each epoch.
random_state : int, RandomState instance or None, default=None
    Seed of the initial weights, the order and the guards.
verbose : int, default=0
    Whether long work shows a progress bar on standard error."""

_ATTRIBUTES = """\
components_ : ndarray of shape (n_components, n_features)
    The unmixing matrix.
mixing_ : ndarray of shape (n_features, n_components)
    Its pseudoinverse: the estimated mixing matrix.
repairs_ : dict of str to int
    How often each guard acted; samples that were regularised (nearly singular lateral weights) or did not settle.
n_samples_seen_ : int
    Samples learned from.
n_features_in_ : int
    Mixtures per sample.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the mixtures, if X had string column names."""


def documented(**defaults: object) -> Callable[[type[T]], type[T]]:
    """Fill in ``{common_parameters}`` and ``{common_attributes}`` of a class docstring."""
    parameters = textwrap.indent(_PARAMETERS.format(**defaults), "    ").lstrip()
    attributes = textwrap.indent(_ATTRIBUTES, "    ").lstrip()

    def fill(cls: type[T]) -> type[T]:
        text = cls.__doc__ or ""
        cls.__doc__ = text.replace("{common_parameters}", parameters).replace("{common_attributes}", attributes)
        return cls

    return fill
