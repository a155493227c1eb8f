"""What the package computes, prints and writes, on fixed seeds, to compare commits.

    python benchmarks/witness.py --write FILE [--real FOLDER] [--only PATTERN]
    python benchmarks/witness.py --compare FILE [--real FOLDER] [--only PATTERN]

`--write` runs all calls and stores FILE.npz and FILE.json. `--compare` runs them
again, prints a line for each call, and ends with status 1 if one differs that
EXPECTED does not list; with `--details` it prints the texts and numbers that differ.
PATTERN is a regular expression of names of calls (`--list`). FOLDER holds sets of
real mixtures, `.npz` with X.

Circuits, StreamingNICA and BatchNICA must agree bit for bit. Calls with a cone
(`close`) agree if numbers, also those in texts, differ by less than 1e-9. Texts
agree word for word. An exception is a result too: its type and its text. Only public
names of `bionica` are used, so that modules may move.
"""

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
os.environ.update(COLUMNS="100", TERMINAL_WIDTH="100", NO_COLOR="1", TERM="dumb")
os.environ.update(MPLBACKEND="agg")

import argparse
import csv
import difflib
import hashlib
import io as streams
import json
import re
import runpy
import sys
import tempfile
import time
import warnings
import zipfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

import dask.array as da
import numpy as np
import pandas as pd

import bionica
from bionica import datasets, io, metrics, reference, sweep

#: What may differ, and why: a call, or "call: item", both with * for anything.
EXPECTED = {
    "shell_help main": "doctor is removed",
    "shell_help separate": "--scheduler and ConeNetwork are removed",
    "shell_help sweep": "--device and --scheduler are removed",
    "shell_help demo": "ConeNetwork is removed",
    "shell_help reproduce": "--as-authors is removed",
    "shell_errors: unknown method*": "ConeNetwork is removed",
    "errors_of_functions: plan network": "ConeNetwork is removed",
    "save NonnegativePCA: parameters.whiten": "the parameter is removed",
    "* InterneuronNICA: *change_detected_": "StreamingNICA alone detects changes",
    "* TwoCompartmentNICA: *change_detected_": "the same",
    "* TwoLayerNSM: *change_detected_": "the same",
    "* NonnegativePCA: *change_detected_": "the same",
    "* LocalNICA: *change_detected_": "the same",
    "initial_weights: *.change_detected_": "the same",
    "stuck_sensor: LocalNICA.change_detected_": "the same",
    "* InterneuronNICA: warnings": "networks do not judge fits",
    "* TwoCompartmentNICA: warnings": "the same",
    "* TwoLayerNSM: warnings": "the same",
    "* NonnegativePCA: warnings": "the same",
    "* LocalNICA: warnings": "the same",
    "decoupled: *": "networks do not judge fits, and StreamingNICA alone detects changes",
    "initial_weights: warnings": "the same",
    "stuck_sensor: warnings": "the same",
    "save_cone *: arrays._state.end": "streams are not merged by hand",
    "save_cone *: arrays._state.first": "the same",
    "shell_of *: *.arrays._state.end": "the same",
    "shell_of *: *.arrays._state.first": "the same",
    "save NonnegativePCA: arrays._state.front.size": "a layer has no whitening in front",
    "save NonnegativePCA: arrays._state.F": "the whitening of fit",
    "errors_of BatchNICA: no weights": "scikit-learn's AttributeError before fit",
    "interneurons: *change_detected_": "StreamingNICA alone detects changes",
    "errors_of NonnegativePCA: constant": "the advice whiten='online' is gone",
    "errors_of NonnegativePCA: overflow": "the same",
    "swept*": "errors are those of metrics.match_sources, equal to 2e-13",
    "shell_help apply*": "other line breaks",
    "shell_errors: no command*": "the main help: doctor is removed",
    "shell_errors: folder*": "files of a folder are not counted",
    "shell_of circuits*": "separate takes separators only",
    "shell_pipe: *--method local*": "the same",
    "files_read: *parquet*": "a shorter message",
    "files_written: *mat*": "an error in place of HDF5 under another name",
}

TOLERANCE = 1e-9
LARGEST = (
    2000  # numbers of an array, and characters / 10 of a text, that are stored whole
)
VOLATILE = ("case", "seconds", "device", "versions", "machine")  # columns of a sweep
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")

CIRCUITS = (
    "InterneuronNICA",
    "TwoCompartmentNICA",
    "TwoLayerNSM",
    "NonnegativePCA",
    "LocalNICA",
)
LEARNERS = (*CIRCUITS, "StreamingNICA")
PAPER = ("InterneuronNICA", "TwoCompartmentNICA", "TwoLayerNSM", "NonnegativePCA")
SETS = {
    "kinetics": 3,
    "tissue": 3,
    "milk": 3,
    "hplc": 4,
    "samson": 3,
    "alcohol": 3,
    "dorrit": 4,
    "moffett": 3,
    "rnagenes_celseq2": 3,
    "seqc": 2,
}

#: Those whose sources are counted in a few seconds.
COUNTED = ("kinetics", "tissue", "milk", "hplc", "alcohol", "dorrit", "moffett")

#: Learned attributes that are compared, where an estimator has them.
ATTRIBUTES = (
    *("components_", "mixing_", "spectra_", "whitening_", "mean_", "covariance_"),
    *(
        "W_xy_",
        "W_yn_",
        "W_ny_",
        "W_xz_",
        "W_zz_",
        "W_xh_",
        "W_hg_",
        "W_hy_",
        "W_yy_",
        "W_",
    ),
    *("n_components_", "n_features_in_", "n_samples_seen_", "n_samples_until_start_"),
    *("explained_variance_", "rank_", "negativity_", "ambiguity_", "noise_", "count_"),
    *(
        "nonnegative_mixing_",
        "n_iter_",
        "n_restarts_",
        "n_outliers_",
        "feature_names_in_",
    ),
)
#: Of circuits and StreamingNICA alone.
OF_NETWORKS = ("repairs_", "change_detected_")


# ----------------------------------------------------------------------------- registry


class Call(NamedTuple):
    """A function without arguments, and whether its numbers may differ by TOLERANCE."""

    function: object
    arguments: tuple
    close: bool


CALLS = {}
REAL = None  # the folder of real mixtures


def call(function=None, *, each=(), close=False):
    """Register a function; with `each`, one call for each of these arguments."""

    def register(made):
        for argument in each:
            CALLS[f"{made.__name__} {argument}"] = Call(made, (argument,), close)
        if not each:
            CALLS[made.__name__] = Call(made, (), close)
        return made

    return register if function is None else register(function)


# --------------------------------------------------------------------------------- data


@cache
def mixtures(n, d=3, k=None, dtype="float64", seed=0):
    """Sparse uniform sources, in a well-conditioned random mixture."""
    rng = np.random.default_rng(seed)
    k = k or d
    S = rng.uniform(0, np.sqrt(48 / 5), (n, d)) * (rng.random((n, d)) < 0.5)
    A = np.linalg.qr(rng.standard_normal((k, k)))[0][:, :d]
    return np.ascontiguousarray(S @ A.T).astype(dtype)


@cache
def amounts(n, d=3, k=20, noise=0.002, dtype="float64", seed=0):
    """Amounts that sum to one, times nonnegative spectra, and noise."""
    rng = np.random.default_rng(seed)
    S = rng.dirichlet(np.full(d, 0.5), size=n)
    X = S @ rng.random((d, k)) + noise * rng.standard_normal((n, k))
    return X.astype(dtype)


@cache
def counts(n, d=3, k=15, seed=0):
    """Poisson counts."""
    rng = np.random.default_rng(seed)
    S = rng.dirichlet(np.full(d, 0.5), size=n)
    return rng.poisson(300 * S @ rng.random((d, k))).astype(float)


@cache
def reaction(seed=0):
    """Mixtures of A -> B -> C: samples that follow a curve."""
    channel = np.linspace(400, 700, 61)
    t = np.arange(0, 120, 0.5)
    centres = np.array([450, 510, 620])
    bands = np.exp(-(((channel - centres[:, None]) / 40) ** 2))
    first = np.exp(-0.2 * t)
    last = np.exp(-0.05 * t)
    second = 0.2 / (0.05 - 0.2) * (first - last)
    C = np.stack([first, second, 1 - first - second], axis=1)
    noise = np.random.default_rng(seed).standard_normal((len(t), len(channel)))
    return C @ bands + 0.003 * noise


def with_gaps(X, share=0.02, seed=0):
    """The same with missing values."""
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def blocks_of(X, rows=700):
    """X as a Dask array."""
    return da.from_array(X, chunks=(rows, X.shape[1]))


# --------------------------------------------------------------------- what is compared


def facts(model, X):
    """Learned attributes and outputs of a model."""
    names = ATTRIBUTES
    if type(model).__name__ in LEARNERS:
        names = (*ATTRIBUTES, *OF_NETWORKS)
    learned = {name: getattr(model, name) for name in names if hasattr(model, name)}
    return learned | {"transform": model.transform(X)}


def verdict(diagnosis):
    """What a diagnosis says."""
    told = {"text": str(diagnosis), "details": diagnosis.details, "ok": diagnosis.ok}
    told["findings"] = [one.name for one in diagnosis.findings]
    told["html"] = diagnosis._repr_html_()
    if diagnosis.uncertainty_ is not None:
        for name in ("correlation", "angle", "sources"):
            told[f"uncertainty.{name}"] = getattr(diagnosis.uncertainty_, name)
    if diagnosis.band_ is not None:
        told["band"] = diagnosis.band_
    return told


def decisions(model, X):
    """What `bionica.separate` decided, and its model."""
    choice = model.choice_
    told = {
        "choice": str(choice),
        "n_sources": choice.n_sources,
        "angles": choice.angles,
    }
    told["candidates"] = list(choice.candidates)
    told["tried"] = {name: verdict(one) for name, one in choice.tried.items()}
    told["alternatives"] = {d: one.mixing_ for d, one in model.alternatives_.items()}
    return told | {"diagnosis": verdict(model.diagnosis_), "model": facts(model, X)}


def circuit(name, d=3, **parameters):
    """An unfitted network whose `fit` starts with all mixtures."""
    cls = getattr(bionica, name)
    if name == "NonnegativePCA" and "whiten" in cls().get_params():
        parameters = {"whiten": "offline"} | parameters
    return cls(d, random_state=0, **parameters)


def stream(name, X, d=3, **parameters):
    """An unfitted network for a stream, and mixtures: for NonnegativePCA white."""
    if name != "NonnegativePCA":
        return circuit(name, d, **parameters), X
    if "whiten" in bionica.NonnegativePCA().get_params():
        parameters = {"whiten": False} | parameters
    white = bionica.NoncenteredWhitener(d).fit(X).transform(X)
    return circuit(name, d, **parameters), white


def attempt(function, *arguments, **options):
    """The error of a call, as text."""
    try:
        result = function(*arguments, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"no error: {result}"


# ----------------------------------------------------------------- circuits and streams


@call(each=LEARNERS)
def fit(name):
    X = mixtures(6000)
    model = circuit(name).fit(X)
    told = facts(model, X) | {
        "inverse": model.inverse_transform(model.transform(X[:50]))
    }
    return told | {"names": list(model.get_feature_names_out())}


@call(each=LEARNERS)
def fit_of_more_mixtures(name):
    X = mixtures(3000, 3, 7)
    return facts(circuit(name).fit(X), X)


@call(each=LEARNERS)
def fit_epochs(name):
    X = mixtures(1500)
    return facts(circuit(name, n_epochs=2, shuffle=True).fit(X), X)


@call(each=LEARNERS)
def partial_fit(name):
    model, X = stream(name, mixtures(4000))
    for chunk in np.split(X, [1, 2, 50, 777, 2500]):
        model.partial_fit(chunk)
    return facts(model, X)


@call(each=LEARNERS)
def partial_fit_transform(name):
    model, X = stream(name, mixtures(2000))
    Y = [model.partial_fit_transform(chunk) for chunk in np.split(X, [300, 1111])]
    return facts(model, X) | {"outputs": np.concatenate(Y)}


@call(each=LEARNERS)
def learn_one(name):
    model, X = stream(name, mixtures(400))
    Y = np.array([model.learn_one(x) for x in X])
    return facts(model, X) | {"outputs": Y, "one": model.transform_one(X[0])}


@call(each=LEARNERS)
def learn_named(name):
    model, X = stream(name, mixtures(30))
    Y = [model.learn_one(dict(zip("abc", x.tolist(), strict=True))) for x in X]
    return {"outputs": np.array(Y), "names": list(model.feature_names_in_)}


@call(each=LEARNERS)
def float32(name):
    X = mixtures(3000, dtype="float32")
    return facts(circuit(name).fit(X), X)


@call(each=LEARNERS)
def wide(name):
    X = mixtures(250, 3, 1200)
    return facts(circuit(name).fit(X), X)


@call(each=LEARNERS)
def dask_fit(name):
    X = mixtures(3000, 3, 5)
    model = circuit(name).fit(blocks_of(X))
    return facts(model, X) | {"lazy": model.transform(blocks_of(X)).compute()}


@call(each=LEARNERS)
def dask_partial_fit(name):
    model, X = stream(name, mixtures(2500))
    model.partial_fit(blocks_of(X)).partial_fit(blocks_of(X[:900], 400))
    return facts(model, X)


@call(each=PAPER)
def as_published(name):
    X = mixtures(5000)
    model = getattr(bionica, name).as_published("d3", random_state=1).fit(X)
    tables = {
        setting: _parameters(name, setting) for setting in ("d3", "d10", "images")
    }
    return facts(model, X) | {"tables": tables}


def _parameters(name, setting):
    parameters = getattr(bionica, name).as_published(setting).get_params()
    return {key: str(value) for key, value in parameters.items() if key != "whiten"}


@call(each=PAPER)
def published_d10(name):
    X = mixtures(3000, 10)
    return facts(getattr(bionica, name).as_published("d10", random_state=1).fit(X), X)


@call(each=PAPER)
def no_guards(name):
    X = mixtures(2000)
    return facts(circuit(name, guards=False).fit(X), X)


@call(each=PAPER)
def one_guard(name):
    X = mixtures(2000)
    return facts(circuit(name, guards=("silent",)).fit(X), X)


@call(each=PAPER)
def schedules(name):
    model, X = stream(name, mixtures(3000), eta0=0.02, decay=1e-3)
    model.partial_fit(X[:1000]).set_params(eta0=0.003, decay=1e-4, power=0.8)
    own, X = stream(name, mixtures(3000), eta0=_rate)
    return {
        "changed": facts(model.partial_fit(X[1000:]), X),
        "own": facts(own.partial_fit(X), X),
    }


def _rate(t):
    return 0.01 / (1 + 0.001 * t)


@call(each=PAPER[:2])
def gradient(name):
    X = mixtures(800)
    first = circuit(name, dynamics="gradient").fit(X)
    few = circuit(name, dynamics="gradient", gamma=0.05, settle_steps=20).fit(X)
    return {"safe": facts(first, X), "few": facts(few, X)}


@call(each=PAPER[:2])
def windows(name):
    X = mixtures(3000)
    return facts(circuit(name, mean_window=100, average=False).fit(X), X)


@call(each=PAPER[:2])
def tuned(name):
    X = mixtures(3000)
    return facts(circuit(name, eta0=0.05, decay=0.01).fit(X), X)


@call
def decoupled():
    X = mixtures(600)
    return facts(circuit("InterneuronNICA", decoupled=True).fit(X), X)


@call
def interneurons():
    X = mixtures(3000)
    return facts(circuit("InterneuronNICA", n_interneurons=5).fit(X), X)


@call
def initial_weights():
    X = mixtures(2000)
    W_xz = np.arange(1.0, 10).reshape(3, 3) / 5 + np.eye(3)
    told = {}
    for name, init in {
        "TwoCompartmentNICA": {"W_xz": W_xz, "W_zz": 2 * np.eye(3)},
        "InterneuronNICA": {"W_xy": W_xz},
        "LocalNICA": {"W_xz": W_xz},
        "TwoLayerNSM": {"W_hy": W_xz},
    }.items():
        told[name] = facts(circuit(name, init=init).fit(X), X)
    return told


@call(each=("LocalNICA", "StreamingNICA"))
def horizon(name):
    X = np.concatenate([mixtures(4000), mixtures(4000, seed=1)])
    model, X = stream(name, X, horizon=1500)
    for chunk in np.array_split(X, 7):
        model.partial_fit(chunk)
    return facts(model, X)


@call
def change_detected():
    X = np.concatenate([mixtures(8000), 3 * mixtures(8000, seed=5)])
    return facts(bionica.StreamingNICA(3, random_state=0).partial_fit(X), X)


@call(close=True)
def streaming_counts():
    X = mixtures(3000, 3, 6) + 0.01 * np.random.default_rng(0).standard_normal(
        (3000, 6)
    )
    whole = bionica.StreamingNICA("auto", random_state=0).fit(X)
    part = bionica.StreamingNICA("auto", random_state=0).partial_fit(X)
    return {"fit": facts(whole, X), "partial_fit": facts(part, X)}


@call
def streaming_wide():
    X = mixtures(400, 4, 1100)
    return facts(bionica.StreamingNICA(4, random_state=0).partial_fit(X), X)


@call
def streaming_ten():
    X = mixtures(8000, 10, 14)
    return facts(bionica.StreamingNICA(10, random_state=0).fit(X), X)


@call
def stuck_sensor():
    X = mixtures(3000).copy()
    X[1000:1500] = X[1000]
    X[2000] *= 1e4
    return {
        name: facts(circuit(name).fit(X), X) for name in ("LocalNICA", "StreamingNICA")
    }


# ------------------------------------------------------- BatchNICA, NoncenteredWhitener


@call
def batch():
    X = mixtures(5000, 4, 6)
    model = bionica.BatchNICA(4, random_state=0).fit(X)
    return facts(model, X) | {"score": model.score(X[:1000]), "whole": _rank(X)}


def _rank(X):
    return bionica.BatchNICA(random_state=0).fit(X).components_


@call
def batch_variants():
    X = mixtures(2000)
    told = {}
    for name, parameters in {
        "seed": {"random_state": 3},
        "one start": {"n_init": 1},
        "not robust": {"robust": False},
        "few steps": {"max_iter": 2, "tol": 1e-3},
    }.items():
        told[name] = facts(
            bionica.BatchNICA(3, **({"random_state": 0} | parameters)).fit(X), X
        )
    outliers = X.copy()
    outliers[::500] *= 100
    told["outliers"] = facts(bionica.BatchNICA(3, random_state=0).fit(outliers), X)
    return told


@call
def batch_types():
    X = mixtures(3000, 3, 5)
    small = X.astype(np.float32)
    across = mixtures(60, 3, 1200)
    return {
        "float32": facts(bionica.BatchNICA(3, random_state=0).fit(small), small),
        "wide": facts(bionica.BatchNICA(3, random_state=0).fit(across), across),
        "dask": facts(bionica.BatchNICA(3, random_state=0).fit(blocks_of(X)), X),
        "cube": bionica.BatchNICA(3, random_state=0).fit_transform(
            X.reshape(50, 60, 5)
        ),
    }


@call
def batch_missing():
    X = mixtures(2000, 3, 6)
    gaps = with_gaps(X)
    model = bionica.BatchNICA(3, random_state=0).fit(gaps)
    masked = np.ma.masked_invalid(gaps)
    again = bionica.BatchNICA(3, random_state=0).fit(masked)
    return facts(model, gaps) | {"masked": again.components_}


@call(close=True)
def batch_counts():
    X = mixtures(3000, 3, 8) + 0.01 * np.random.default_rng(1).standard_normal(
        (3000, 8)
    )
    return facts(bionica.BatchNICA("auto", random_state=0).fit(X), X)


@call
def whitener():
    X = mixtures(3000, 4, 6)
    told = {"fit": facts(bionica.NoncenteredWhitener().fit(X), X)}
    told["robust"] = facts(bionica.NoncenteredWhitener(3, robust=True).fit(X), X)
    told["dask"] = facts(bionica.NoncenteredWhitener(3).fit(blocks_of(X)), X)
    told["float32"] = facts(bionica.NoncenteredWhitener(3).fit(X.astype(np.float32)), X)
    model = bionica.NoncenteredWhitener(3)
    for chunk in np.split(X, [5, 1000]):
        model.partial_fit(chunk)
    back = model.inverse_transform(model.transform(X[:20]))
    return told | {"partial_fit": facts(model, X), "inverse": back}


# ----------------------------------------------------------------------------- the cone


@call(close=True)
def cone():
    X = amounts(3000)
    model = bionica.MinimumVolumeCone(3, random_state=0).fit(X)
    told = facts(model, X) | {"score": model.score(X[:500])}
    return told | {"inverse": model.inverse_transform(model.transform(X[:20]))}


CONES = {
    "rank": {"n_components": None, "noise": 0.0},
    "counted": {"n_components": "auto"},
    "noise": {"noise": 0.002},
    "sum": {"normalize": "sum"},
    "mean": {"normalize": "mean"},
    "signed": {"nonnegative_mixing": False},
    "outliers": {"outliers": 0.01},
    "horizon": {"horizon": 1000},
}


@call(each=CONES, close=True)
def cone_with(name):
    X = amounts(2500, noise=0.0, k=3) if name == "rank" else amounts(2500)
    parameters = {"n_components": 3, "random_state": 0} | CONES[name]
    return facts(bionica.MinimumVolumeCone(**parameters).fit(X), X)


@call(close=True)
def cone_without_noise():
    X = amounts(2500, noise=0.0)
    return facts(bionica.MinimumVolumeCone(3, noise=0, random_state=0).fit(X), X)


@call(close=True)
def cone_poisson():
    X = counts(2500)
    return facts(
        bionica.MinimumVolumeCone(3, noise="poisson", random_state=0).fit(X), X
    )


@call(close=True)
def cone_known():
    X = amounts(2000)
    rng = np.random.default_rng(0)
    rng.dirichlet(np.full(3, 0.5), size=2000)
    spectra = rng.random((3, 20))
    one = bionica.MinimumVolumeCone(3, known_mixing=spectra[:1].T, random_state=0).fit(
        X
    )
    S = np.full((len(X), 3), np.nan)
    S[:20] = one.transform(X[:20])
    model = bionica.MinimumVolumeCone(3, random_state=0)
    return {"mixing": facts(one, X), "sources": facts(model.fit(X, known_sources=S), X)}


@call(close=True)
def cone_mixed_signs():
    X = mixtures(3000, 3, 6)
    return facts(bionica.MinimumVolumeCone(3, random_state=0).fit(X), X)


@call(close=True)
def cone_missing():
    X = with_gaps(amounts(1500))
    return facts(bionica.MinimumVolumeCone(3, random_state=0).fit(X), X)


@call(close=True)
def cone_curve():
    X = reaction()
    return facts(bionica.MinimumVolumeCone(3, random_state=0).fit(X), X)


@call(close=True)
def cone_types():
    X = amounts(2000)
    small = X.astype(np.float32)
    across = amounts(60, k=1200)
    return {
        "float32": facts(
            bionica.MinimumVolumeCone(3, random_state=0).fit(small), small
        ),
        "wide": facts(bionica.MinimumVolumeCone(3, random_state=0).fit(across), across),
        "cube": bionica.MinimumVolumeCone(3, random_state=0).fit_transform(
            X.reshape(50, 40, 20)
        ),
    }


@call(close=True)
def cone_wide_stream():
    X = amounts(2600, k=1010)
    return facts(bionica.MinimumVolumeCone(3, random_state=0).partial_fit(X), X[:300])


@call(close=True)
def cone_of_many_rows():
    X = amounts(45_000, k=8, noise=0.01)
    return facts(bionica.MinimumVolumeCone(3, random_state=0).fit(X), X[::50])


@call(close=True)
def cone_dask():
    X = amounts(6000)
    model = bionica.MinimumVolumeCone(3, random_state=0).fit(blocks_of(X, 1700))
    return facts(model, X) | {"lazy": model.transform(blocks_of(X)).compute()}


@call(close=True)
def cone_dask_partial_fit():
    X = amounts(5000)
    model = bionica.MinimumVolumeCone(3, random_state=0).partial_fit(blocks_of(X, 1700))
    return facts(model, X)


@call(close=True)
def cone_partial_fit():
    X = amounts(6000)
    model = bionica.MinimumVolumeCone(3, random_state=0)
    waiting = []
    for chunk in np.split(X, [10, 1999, 2600, 4200]):
        model.partial_fit(chunk)
        waiting.append(model.n_samples_until_start_)
    counted = bionica.MinimumVolumeCone("auto", random_state=0).partial_fit(X)
    return facts(model, X) | {"waiting": waiting, "counted": facts(counted, X)}


@call(close=True)
def cone_horizon():
    X = np.concatenate([amounts(4000), amounts(4000, seed=1)])
    model = bionica.MinimumVolumeCone(3, horizon=1500, random_state=0)
    Y = [model.partial_fit_transform(chunk) for chunk in np.array_split(X, 5)]
    return facts(model, X) | {"outputs": np.concatenate(Y)}


@call(close=True)
def cone_learn_one():
    X = amounts(2300, k=8)
    model = bionica.MinimumVolumeCone(3, random_state=0).partial_fit(X[:1990])
    Y = np.array([model.learn_one(x) for x in X[1990:]])
    return facts(model, X) | {"outputs": Y}


# ------------------------------------------------------------------- separate, verdicts


SEPARATED = {
    "amounts": lambda: (amounts(1500), {}),
    "both signs": lambda: (mixtures(2000, 3, 6), {}),
    "counts": lambda: (counts(400, k=8), {"noise": "poisson"}),
    "curve": lambda: (reaction(), {}),
    "missing": lambda: (with_gaps(amounts(800)), {"n_components": 3}),
    "horizon": lambda: (amounts(3000), {"horizon": 1000, "n_components": 3}),
    "streaming": lambda: (mixtures(3000), {"method": "streaming", "n_components": 3}),
    "batch": lambda: (mixtures(3000, 3, 6), {"method": "batch"}),
    "signed": lambda: (amounts(800), {"nonnegative_mixing": False, "normalize": "sum"}),
    "known": lambda: (amounts(800), {"known_mixing": np.ones((20, 1))}),
    "dask": lambda: (blocks_of(amounts(3000), 800), {"n_components": 3}),
    "cube": lambda: (amounts(900).reshape(30, 30, 20), {"n_components": 3}),
    "large": lambda: (amounts(25_000, k=6, noise=0.01), {"n_components": 3}),
    "frame": lambda: (pd.DataFrame(amounts(600, k=8)).rename(columns="c{}".format), {}),
}


@call(each=SEPARATED, close=True)
def separate(name):
    X, options = SEPARATED[name]()
    model = bionica.separate(X, random_state=0, **options)
    told = decisions(model, X[:400])
    outputs = told["model"]["transform"]
    told["model"]["transform"] = np.asarray(outputs)
    return told


def _real(name):
    if REAL is None:
        raise FileNotFoundError("give --real FOLDER")
    with np.load(REAL / f"{name}.npz", allow_pickle=False) as file:
        return file["X"]


@call(each=SETS, close=True)
def real_told(name):
    X = _real(name)
    return decisions(bionica.separate(X, SETS[name], random_state=0), X)


@call(each=COUNTED, close=True)
def real_counted(name):
    X = _real(name)
    return decisions(bionica.separate(X, random_state=0), X)


@call(close=True)
def diagnose_cone():
    X = amounts(800)
    model = bionica.MinimumVolumeCone(3, random_state=0).fit(X)
    told = {
        "good": verdict(model.diagnose(X)),
        "fast": verdict(model.diagnose(X, refit=False)),
    }
    fewer = bionica.MinimumVolumeCone(2, random_state=0).fit(X)
    more = bionica.MinimumVolumeCone(4, random_state=0).fit(X)
    told["fewer"] = verdict(fewer.diagnose(X))
    told["more"] = verdict(more.diagnose(X))
    told["scale"] = verdict(model.diagnose(1000 * X))
    told["gaps"] = verdict(model.diagnose(with_gaps(X)))
    told["curve"] = verdict(_fitted_curve())
    return told


def _fitted_curve():
    X = reaction()
    return bionica.MinimumVolumeCone(3, random_state=0).fit(X).diagnose(X)


@call
def diagnose_batch():
    X = mixtures(2000, 3, 6)
    model = bionica.BatchNICA(3, random_state=0).fit(X)
    told = {
        "good": verdict(model.diagnose(X)),
        "fast": verdict(model.diagnose(X, refit=False)),
    }
    told["scale"] = verdict(model.diagnose(3 * X, refit=False))
    told["other"] = verdict(model.diagnose(mixtures(2000, 3, 6, seed=1)))
    correlated = bionica.BatchNICA(3, random_state=0).fit(amounts(1500))
    told["correlated"] = verdict(correlated.diagnose(amounts(1500)))
    return told


@call
def diagnose_streaming():
    X = mixtures(3000)
    model = bionica.StreamingNICA(3, random_state=0).fit(X)
    return {"good": verdict(model.diagnose(X)), "short": verdict(_short().diagnose(X))}


def _short():
    return bionica.StreamingNICA(3, random_state=0).fit(mixtures(300))


@call(close=True)
def warned():
    """The warnings of bad fits; `run` stores them."""
    rng = np.random.default_rng(0)
    gaussian = rng.standard_normal((2000, 3)) @ rng.standard_normal((3, 4))
    bionica.BatchNICA(3, random_state=0).fit(gaussian)
    bionica.BatchNICA(3, random_state=0).fit(amounts(1500))
    bionica.MinimumVolumeCone(3, random_state=0).fit(gaussian)
    bionica.MinimumVolumeCone(2, random_state=0).fit(amounts(1500))
    bionica.StreamingNICA(3, random_state=0).fit(gaussian)
    table = pd.DataFrame(amounts(300, k=5)).rename(columns="c{}".format)
    table["name"] = rng.permutation(300)
    bionica.separate(table, 3, random_state=0)
    return {}


# ----------------------------------------------------------------------- error messages


@call(each=(*LEARNERS, "BatchNICA", "MinimumVolumeCone", "NoncenteredWhitener"))
def errors_of(name):
    X = mixtures(100)
    infinite = X.copy()
    infinite[7, 1] = np.inf
    missing = X.copy()
    missing[3, 2] = np.nan
    cls = getattr(bionica, name)
    new = circuit if name in LEARNERS else lambda _, d=3, **given: cls(d, **given)
    told = {
        "infinite": attempt(new(name).fit, infinite),
        "vector": attempt(new(name).fit, X[0]),
        "empty": attempt(new(name).fit, X[:0]),
        "complex": attempt(new(name).fit, X.astype(complex)),
        "words": attempt(new(name).fit, [["a", "b", "c"]]),
        "too many": attempt(new(name, 5).fit, X),
        "none": attempt(new(name, 0).fit, X),
        "constant": attempt(new(name).fit, np.ones((50, 3))),
        "overflow": attempt(new(name).fit, 1e300 * X),
        "not fitted": attempt(new(name).transform, X),
        "no weights": attempt(getattr, new(name), "components_"),
    }
    if name not in ("BatchNICA", "MinimumVolumeCone"):
        told["missing"] = attempt(new(name).fit, missing)
    model = new(name).fit(X)
    told["columns"] = attempt(model.transform, X[:, :2])
    told["outputs"] = attempt(model.inverse_transform, X[:, :1])
    told["no such"] = attempt(getattr, model, "nothing_")
    return told


@call
def errors_of_parameters():
    X = mixtures(200)
    cone = bionica.MinimumVolumeCone
    learned = bionica.TwoCompartmentNICA(3, random_state=0).partial_fit(X)
    local = bionica.LocalNICA(3, random_state=0).partial_fit(X)
    fast = bionica.TwoCompartmentNICA(3, eta0=50.0, decay=0.0, tau=100.0, guards=False)
    return {
        "eta0": attempt(bionica.TwoCompartmentNICA(3, eta0=-1).fit, X),
        "tau": attempt(bionica.TwoCompartmentNICA(3, eta0=1.0, tau=0.1).fit, X),
        "guards": attempt(bionica.InterneuronNICA(3, guards=("rates",)).fit, X),
        "dynamics": attempt(bionica.InterneuronNICA(3, dynamics="slow").fit, X),
        "interneurons": attempt(bionica.InterneuronNICA(3, n_interneurons=2).fit, X),
        "init": attempt(bionica.InterneuronNICA(3, init={"W": np.eye(3)}).fit, X),
        "shape": attempt(
            bionica.TwoCompartmentNICA(3, init={"W_zz": np.eye(2)}).fit, X
        ),
        "definite": attempt(
            bionica.TwoCompartmentNICA(3, init={"W_zz": -np.eye(3)}).fit, X
        ),
        "setting": attempt(bionica.TwoCompartmentNICA.as_published, "d4"),
        "diverged": attempt(fast.fit, 100 * X),
        "changed": attempt(learned.set_params(mean_window=5).partial_fit, X),
        "horizon": attempt(local.set_params(n_components=2).partial_fit, X),
        "fewer columns": attempt(
            bionica.LocalNICA(3).partial_fit(X).partial_fit, X[:, :2]
        ),
        "noise": attempt(cone(3, noise="white").fit, X),
        "poisson": attempt(cone(3, noise="poisson").fit, X),
        "known": attempt(cone(3, known_mixing=np.ones((2, 1))).fit, X),
        "known rank": attempt(cone(3, known_mixing=np.ones((3, 2))).fit, X),
        "known more": attempt(cone(1, known_mixing=np.eye(3)[:, :2]).fit, X),
        "sources": attempt(cone(3).fit, X, known_sources=np.ones((5, 3))),
        "stream missing": attempt(cone(3, horizon=1000).fit, with_gaps(X)),
        "unmatched": attempt(cone(3).fit(amounts(300)).transform, X),
    }


@call
def errors_of_functions():
    X = mixtures(200)
    S = np.abs(X)
    return {
        "separate file": attempt(bionica.separate, "x.csv"),
        "separate number": attempt(bionica.separate, X, 0),
        "separate method": attempt(bionica.separate, X, method="pca"),
        "separate missing": attempt(
            bionica.separate, with_gaps(X), 3, method="streaming"
        ),
        "separate zero": attempt(bionica.separate, np.zeros((50, 4)), 2),
        "separate labels": attempt(bionica.separate, _labelled()),
        "load": attempt(bionica.load, _broken()),
        "load absent": attempt(bionica.load, "absent.npz"),
        "paper_mixing": attempt(datasets.paper_mixing, "d4"),
        "random_sources": attempt(datasets.random_sources, "pink", 10, 2),
        "sparse_uniform": attempt(datasets.sparse_uniform, 0, 2),
        "mix": attempt(datasets.mix, S, np.ones((2, 2))),
        "metrics shapes": attempt(metrics.permutation_error, S, S[:, :2]),
        "metrics nan": attempt(metrics.sinr, S, with_gaps(S)),
        "amari": attempt(metrics.amari_distance, np.ones((2, 3))),
        "reader": attempt(io.open_reader, "absent.csv"),
        "plan": attempt(sweep.run, {"data": [{"kind": "none"}]}),
        "plan network": attempt(sweep.run, PLAN | {"network": [{"name": "Nothing"}]}),
        "plan parameter": attempt(sweep.run, PLAN | {"network": [_unknown()]}),
    }


def _broken():
    path = Path("broken.npz")
    path.write_text("no model")
    return path


def _labelled():
    table = pd.DataFrame(amounts(100, k=5)).rename(columns="c{}".format)
    return table.assign(time=np.arange(100.0))


def _unknown():
    return {"name": "TwoCompartmentNICA", "params": {"etta": 1}}


# -------------------------------------------------- metrics, datasets, reference, sweep


@call
def measures():
    S = datasets.sparse_uniform(500, 3, rng=0)
    rng = np.random.default_rng(1)
    Y = np.maximum(
        S[:, [2, 0, 1]] * [1, 2, 0.5] + 0.1 * rng.standard_normal(S.shape), 0
    )
    A = rng.random((7, 3))
    shares = rng.dirichlet(np.ones(3), size=50)
    return {
        "amari": metrics.amari_distance(np.eye(3) + 0.1 * rng.random((3, 3))),
        "floor": metrics.correlation_floor(S),
        "whitened": metrics.whitened(S),
        "matching": metrics.match_sources(S, Y),
        "correlation": metrics.match_sources(S, Y, by="correlation"),
        "sinr": metrics.sinr(S, Y),
        "sinrs": metrics.sinr(S, Y, per_source=True),
        "permutation": metrics.permutation_error(S, Y),
        "curve": metrics.error_curve(S, Y),
        "angle": metrics.spectral_angle(A.T, A.T[[1, 2, 0]] + 0.01),
        "angles": metrics.spectral_angle(A.T, A.T + 0.01, per_source=True),
        "rmse": metrics.rmse_abundances(shares, np.roll(shares, 1, axis=1)),
    }


@call
def made_up():
    S, A = datasets.odors(300, 4, 12, rng=0)
    X, random = datasets.mix(S, n_mixtures=6, snr_db=20, rng=0)
    told = {"odors": S, "receptors": A, "mixed": X, "mixing": random}
    told["sparse"] = datasets.sparse_uniform(300, 4, rng=np.random.default_rng(1))
    told["copula"] = datasets.copula_uniform(300, 3, 0.5, rng=0)
    told["conditioned"] = datasets.random_mixing(5, 3, condition=10, rng=0)
    told["images"] = datasets.natural_images()
    for kind in ("sparse_uniform", "exponential", "half_normal"):
        told[kind] = datasets.random_sources(kind, 300, 3, rng=0)
    for setting in ("d3", "d10", "images", "images-printed"):
        told[f"A {setting}"] = datasets.paper_mixing(setting)
    return told


REFERENCE = {
    "interneuron": {"m": 4},
    "two_compartment": {"tau": 0.8},
    "two_layer_nsm": {},
    "nonnegative_pca": {},
    "local_nica": {},
}


@call(each=REFERENCE)
def reference_step(name):
    X = mixtures(250)
    first = getattr(reference, name)
    step = getattr(reference, f"{name}_step")
    state = first(d=3, k=3, rng=np.random.default_rng(0), **REFERENCE[name])
    if name == "local_nica":
        Y = np.array([step(state, x) for x in X])
    else:
        rates = reference.learning_rate(np.arange(len(X)), eta0=1e-2, gamma=1e-3)
        Y = reference.run(step, state, X, rates, reference.repair)
    del state["rng"]
    return {"outputs": Y, "state": state}


@call
def reference_offline():
    X = mixtures(60)
    rng = np.random.default_rng(0)
    W = np.array([[2.0, 0.5], [0.5, 1.0]])
    c = np.array([1.0, 0.3])
    told = {
        "settle": reference.settle(W, c),
        "steps": reference.settle(W, c, gamma=0.1),
    }
    told["interneurons"] = reference.settle_interneurons(W, W.T, c)
    told["apart"] = reference.settle_interneurons(W, W.T + 0.1, c)
    told["whitening"] = reference.noncentered_whitening(X, 2)
    told["curve"] = reference.error_curve(np.abs(X), np.abs(X[:, ::-1]) + 0.1)
    for name, options in (("interneuron", {}), ("two_compartment", {"tau": 0.8})):
        state = getattr(reference, name)(d=3, k=3, rng=rng, **options)
        step = getattr(reference, f"offline_{name}_step")
        told[name] = [step(state, X, 0.05) for _ in range(3)][-1]
        told[f"{name}.weights"] = {
            key: W for key, W in state.items() if key.startswith("W")
        }
    return told


PLAN = {
    "seeds": 2,
    "times": 4,
    "data": [
        {"kind": "sparse_uniform", "d": 3, "T": 800, "mixing": "d3", "held_out": 200},
        {
            "name": "odd",
            "kind": "exponential",
            "d": 2,
            "T": 500,
            "mixing": {"condition": 5},
        },
    ],
    "network": [
        {"name": "TwoCompartmentNICA", "grid": {"eta0": [0.1, 0.01], "tau": [0.5]}},
        {"name": "InterneuronNICA", "params": {"decay": 0.01}},
        {"name": "TwoLayerNSM"},
        {"name": "LocalNICA"},
        {"name": "StreamingNICA"},
        {"name": "BatchNICA"},
    ],
}


@call
def swept():
    table = sweep.run(PLAN, n_jobs=1)
    told = {
        "rows": _rows(table),
        "best": _rows(table.best()),
        "swept": list(table.swept),
    }
    return told | {"final": _rows(table.final_errors()), "plan": _cases()}


def _cases():
    cases = sweep.Plan.from_dict(PLAN).cases()
    return [
        f"{case.network.label} {case.data.name} {case.seed} {case.times}"
        for case in cases
    ]


@call
def swept_nonnegative_pca():
    network = {"name": "NonnegativePCA", "published": "d3"}
    data = PLAN["data"][:1]
    return {"rows": _rows(sweep.run({"data": data, "network": [network]}, n_jobs=1))}


@call(close=True)
def swept_cone():
    networks = [{"name": "MinimumVolumeCone"}]
    return {
        "rows": _rows(sweep.run(PLAN | {"seeds": 1, "network": networks}, n_jobs=1))
    }


def _rows(rows):
    kept = [{k: v for k, v in row.items() if k not in VOLATILE} for row in rows]
    return [json.dumps(row, default=str) for row in kept]


# ---------------------------------------------------------------------- models in files


def _models():
    X = mixtures(2500)
    made = {}
    for name in LEARNERS:
        model, Z = stream(name, X)
        made[name] = model.partial_fit(Z), Z
    made["BatchNICA"] = bionica.BatchNICA(3, random_state=0).fit(X), X
    made["NoncenteredWhitener"] = bionica.NoncenteredWhitener().fit(X), X
    return made


def _file_of(model, X):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.npz")
        model.save(path)
        told = model_file(path)
        again = bionica.load(path)
    told["same"] = np.array_equal(again.transform(X), model.transform(X))
    told["loaded"] = facts(again, X)
    if hasattr(again, "partial_fit"):
        told["continued"] = facts(again.partial_fit(X[:500]), X)
    return told


@call(each=(*LEARNERS, "BatchNICA", "NoncenteredWhitener"))
def save(name):
    return _file_of(*_models()[name])


@call(each=("fit", "stream", "horizon", "waiting", "known"), close=True)
def save_cone(name):
    X = amounts(2500)
    known = {"known_mixing": np.ones((20, 1))} if name == "known" else {}
    past = {"horizon": 1000} if name == "horizon" else {}
    model = bionica.MinimumVolumeCone(3, random_state=0, **known, **past)
    if name in ("fit", "known"):
        return _file_of(model.fit(X), X)
    if name == "waiting":
        with tempfile.TemporaryDirectory() as folder:
            model.partial_fit(X[:700]).save(Path(folder, "model.npz"))
            again = bionica.load(Path(folder, "model.npz"))
        return facts(again.partial_fit(X[700:]), X)
    return _file_of(model.partial_fit(X), X)


def model_file(path):
    """What a model file holds: names and shapes of arrays, class and parameters."""
    with np.load(path) as file:
        names = sorted(name for name in file.files if not name.endswith(".json"))
        arrays = {name: f"{file[name].dtype} {file[name].shape}" for name in names}
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
    told = {"arrays": arrays, "keys": sorted(header), "class": header["class"]}
    for name in ("feature_names", "source_names", "n_features", "origin"):
        told[name] = header.get(name)
    return told | {"parameters": header["parameters"]}


# -------------------------------------------------------------------------------- files


@call
def files_read():
    told = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for path in _input_files():
            for name, options in {
                "rows": {},
                "gaps": {"missing": True},
                "axis": {"axis": 1},
            }.items():
                told[f"{path} {name}"] = _read(path, options)
    return told


def _read(path, options):
    try:
        with io.open_reader(path, **options) as reader:
            X = reader.read()
            told = {
                "X": X,
                "names": [*map(str, reader.names)],
                "notes": list(reader.notes),
            }
            return told | {"labels": list(reader.label_names), "unit": reader.unit}
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _input_files():
    """Write files of mixtures into the current folder; returns their names."""
    X = amounts(40, k=5)
    names = ["400 nm", "410 nm", "420 nm", "430 nm", "440 nm"]
    table = pd.DataFrame(X, columns=names)
    table.assign(time=np.arange(40.0))[["time", *names]].to_csv("time.csv", index=False)
    table.to_csv("comma.csv", sep=";", decimal=",", index=False)
    table.to_csv("plain.tsv", sep="\t", header=False, index=False)
    table.T.to_csv("across.csv")
    gaps = table.copy()
    gaps.iloc[3, 2] = np.nan
    gaps.to_csv("gaps.csv", index=False)
    gaps.round(4).to_excel("sheet.xlsx", index=False)
    table.to_parquet("table.parquet")
    np.save("array.npy", X.astype(np.float32))
    np.save("cube.npy", X.reshape(8, 5, 5))
    np.savez("several.npz", a=X, b=X[:3])
    Path("broken.csv").write_text("a,b\n1,2\n3\n4,x\n")
    Path("words.txt").write_text(
        "# made by hand\nTitle of it\n\na b c\n1 2 3\n4 5 6\n7 8 9.5\n"
    )
    return sorted(path.name for path in Path().iterdir())


@call
def files_written():
    told = {}
    Y = mixtures(30)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for suffix in ("csv", "tsv", "npy", "npz", "parquet", "h5", "mat", "xlsx"):
            told[suffix] = attempt(_written, Path(f"y.{suffix}"), Y)
        for path in sorted(Path().iterdir()):
            told[f"back {path.suffix}"] = _read(path, {})
        told["text"] = Path("y.csv").read_text()
    return told


def _written(path, Y):
    with io.open_writer(path, Y.shape[1], Y.dtype, names=["a", "b", "c"]) as writer:
        writer.write(Y[:10])
        writer.write(Y[10:])
    return sorted(file.name for file in Path().glob(f"{path.stem}*{path.suffix}"))


# -------------------------------------------------------------------------------- shell


def bionica_of(*arguments, stdin=None):
    """Run `python -m bionica` in this process: status, standard output and error."""
    out = streams.TextIOWrapper(streams.BytesIO(), encoding="utf-8", write_through=True)
    err = streams.TextIOWrapper(streams.BytesIO(), encoding="utf-8", write_through=True)
    before = sys.argv, sys.stdin
    status = 0
    try:
        with Path(stdin or os.devnull).open(encoding="utf-8") as source:
            sys.argv = ["bionica", *arguments]
            sys.stdin = source
            with redirect_stdout(out), redirect_stderr(err):
                runpy.run_module("bionica", run_name="__main__")
    except SystemExit as stop:
        status = stop.code or 0
    finally:
        sys.argv, sys.stdin = before
    told = {"status": status}
    for name, written in (("stdout", out), ("stderr", err)):
        told[name] = written.buffer.getvalue().decode()
    return told


def shell(*commands, stdin=None):
    """Run commands in a new folder with inputs; returns what they said and wrote."""
    told = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        _shell_inputs()
        for command in commands:
            before = {path: path.stat().st_mtime_ns for path in _files()}
            said = bionica_of(*command.split(), stdin=stdin)
            for path in _files():
                if path.stat().st_mtime_ns != before.get(path):
                    said[str(path)] = contents(path)
            told[command] = said
    return told


def _files():
    return sorted(path for path in Path().rglob("*") if path.is_file())


def _shell_inputs():
    """The files that commands read."""
    rng = np.random.default_rng(3)
    S = rng.dirichlet(np.full(3, 0.5), size=301)
    pure = rng.random((3, 12))
    X = S @ pure + 0.002 * rng.standard_normal((301, 12))
    names = [f"{400 + 10 * j} nm" for j in range(12)]
    table = pd.DataFrame(X.round(6), columns=names)
    table[:300].to_csv("x.csv", index=False)
    table[100:200].to_csv("later.csv", index=False)
    table[names[::-1]][:50].to_csv("reversed.csv", index=False)
    table[:100].rename(columns=_shifted).to_csv("shifted.csv", index=False)
    finer = np.stack(
        [np.interp(np.arange(390, 521, 5), np.arange(400, 511, 10), x) for x in X[:60]]
    )
    pd.DataFrame(finer, columns=[f"{v} nm" for v in range(390, 521, 5)]).to_csv(
        "finer.csv", index=False
    )
    (5 * table[:50] + 0.4).to_csv("other.csv", index=False)
    table[:300].assign(sample=range(300))[["sample", *names]].to_csv(
        "named.csv", index=False
    )
    table[:300].to_csv("comma.csv", sep=";", decimal=",", index=False)
    table[:40].T.to_csv("across.csv")
    gaps = table[:200].copy()
    gaps.iloc[::9, 3] = np.nan
    gaps.to_csv("gaps.csv", index=False)
    pd.DataFrame(pure[:1], columns=names).to_csv("pure.csv", index=False)
    pd.DataFrame(counts(200, k=6)).to_csv("counts.csv", index=False, header=False)
    pd.DataFrame(mixtures(1500).round(6)).to_csv("signs.csv", index=False, header=False)
    np.save("array.npy", X[:250])
    np.save("cube.npy", X[:300].reshape(20, 15, 12))
    Path("words.csv").write_text("a,b\n1,2\n3,four\n")
    Path("plan.toml").write_text(_PLAN_TEXT)
    _pictures()


def _shifted(name):
    return f"{int(name[:3]) + 3} nm"


def _pictures():
    from PIL import Image

    i, j = np.indices((40, 40)) / 40
    masks = [np.floor(8 * u) % 2 == 0 for u in (i, j, i + j)]
    rng = np.random.default_rng(0)
    S = np.stack([mask * rng.random(mask.shape) for mask in masks], axis=-1)
    A = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]])
    pixels = (255 * S @ A.T).round().astype(np.uint8)
    for k, name in enumerate(("red", "green", "blue")):
        Image.fromarray(pixels[..., k]).save(f"{name}.png")


_PLAN_TEXT = """seeds = 2
times = 3
[[data]]
kind = "sparse_uniform"
d = 3
T = 600
mixing = "d3"
[[network]]
name = "TwoCompartmentNICA"
grid = {eta0 = [0.1, 0.01]}
[[network]]
name = "StreamingNICA"
"""


def contents(path):
    """What a file holds, without what differs from run to run."""
    kind = path.suffix
    if path.name in ("journal.jsonl", ".bionica"):  # times, and digests of files
        return "not compared"
    if kind == ".csv":
        with path.open(newline="") as file:
            table = csv.DictReader(file)
            if "seconds" in table.fieldnames:
                return _rows(table)
    if kind == ".npy":
        return np.load(path)
    if kind == ".npz" and "header.json" in zipfile.ZipFile(path).namelist():
        return model_file(path)
    if kind == ".npz":
        with np.load(path) as file:
            return {name: file[name] for name in file.files}
    if kind == ".png":
        from PIL import Image

        return np.asarray(Image.open(path))
    try:
        return without_pictures(path.read_text())
    except UnicodeDecodeError:
        return hashlib.sha256(path.read_bytes()).hexdigest()


def without_pictures(page):
    """A page without its pictures: pixels of fonts are not compared."""
    page = re.sub(r"(?s)<svg.*?</svg>", "<svg>", page)
    return re.sub(r"base64,[\w+/=]+", "base64", page)


HELP = ("separate", "apply", "demo", "reproduce", "sweep")


@call(each=("main", *HELP))
def shell_help(name):
    return shell("--help" if name == "main" else f"{name} --help")


COMMANDS = {
    "files": (
        "separate x.csv --sources 3 --mixing m.csv --model model.npz --report p.html",
        "separate x.csv --sources 3",
        "separate x.csv --sources 3 --force --quiet",
    ),
    "json": ("separate x.csv --json -o y.csv",),
    "counted": ("separate named.csv",),
    "stdout": ("separate x.csv --sources 3 -o -",),
    "batch": ("separate signs.csv --method batch -o y.npy --mixing m.csv --json",),
    "both signs": ("separate signs.csv -o y.tsv",),
    "streaming": (
        "separate signs.csv --method streaming --sources 3 -o y.npz --report page.html",
    ),
    "circuits": (
        "separate signs.csv --method local --sources 3 -o local.npy",
        "separate signs.csv --method two-compartment --sources 3 -o two.npy --json",
        "separate signs.csv --method interneuron --sources 3 -o interneuron.npy",
        "separate signs.csv --method nsm --sources 3 -o nsm.npy",
    ),
    "horizon": (
        "separate x.csv --sources 3 --horizon 120 -o y.csv --method streaming",
    ),
    "forms": (
        "separate comma.csv --sources 3 --mixing m.csv",
        "separate across.csv --sources 3 --axis 1 -o across-y.csv",
        "separate gaps.csv --sources 3",
        "separate array.npy --sources 3",
        "separate cube.npy --sources 3",
        "separate x.csv --sources 3 --use 2-9 -o used.csv --offset 0.01",
        "separate x.csv --sources 3 --skip 1,2 -o skipped.csv --saturated 0.95",
    ),
    "options": (
        "separate x.csv --sources 3 --known pure.csv -o known.csv",
        "separate counts.csv --sources 3 --noise poisson",
        "separate x.csv --sources 3 --noise 0.002 --normalize sum -o sum.csv",
        "separate x.csv --sources 3 --signed-mixing --normalize mean -o y.csv --seed 3",
    ),
    "pictures": (
        "separate red.png green.png blue.png -o recovered.png --report page.html",
        "separate red.png green.png blue.png -o density.png --optical-density",
    ),
    "apply": (
        "separate x.csv --sources 3 --model model.npz",
        "apply model.npz later.csv",
        "apply model.npz reversed.csv",
        "apply model.npz other.csv later.csv --json --force",
        "apply model.npz finer.csv --interpolate",
        "apply model.npz shifted.csv",
        "apply model.npz shifted.csv --interpolate",
        "apply model.npz x.csv -o again.csv --quiet",
        "apply model.npz counts.csv",
        "apply model.npz gaps.csv",
    ),
    "sweep": (
        "sweep plan.toml --dry-run",
        "sweep plan.toml --jobs 1",
        "sweep plan.toml --jobs 1 --json",
        "sweep --example",
    ),
    "reproduce": ("reproduce figure2 --samples 2000 --runs 1 --jobs 1",),
}


@call(each=COMMANDS, close=True)
def shell_of(name):
    return shell(*COMMANDS[name])


@call(close=True)
def shell_pipe():
    told = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        _shell_inputs()
        for command in (
            "separate - --sources 3 --method streaming --model s.npz",
            "separate - --resume --model s.npz",
            "separate - --sources 3 --method local --json",
            "separate -",
            "separate - -o piped.csv --horizon 200 --method streaming --sources 3",
        ):
            told[command] = bionica_of(*command.split(), stdin="signs.csv")
        told["file"] = contents(Path("piped.csv"))
        told["model"] = model_file(Path("s.npz"))
    return told


BAD = {
    "no command": "",
    "no input": "separate",
    "absent": "separate absent.csv",
    "unknown command": "separat x.csv",
    "unknown option": "separate x.csv --source 3",
    "unknown method": "separate x.csv --method pca",
    "number": "separate x.csv --sources none",
    "zero": "separate x.csv --sources 0",
    "too many": "separate x.csv --sources 40",
    "words": "separate words.csv",
    "suffix": "separate plan.toml",
    "folder": "separate .",
    "twice": "separate x.csv x.csv",
    "tables": "separate x.csv later.csv",
    "own input": "separate x.csv --sources 3 -o x.csv",
    "same outputs": "separate x.csv -o y.csv --mixing y.csv",
    "output suffix": "separate x.csv -o y.doc",
    "report suffix": "separate x.csv --report y.pdf",
    "no such folder": "separate x.csv -o nowhere/y.csv",
    "axis": "separate across.csv --sources 3",
    "missing": "separate gaps.csv --method streaming",
    "pipe axis": "separate - --axis 1",
    "resume": "separate x.csv --resume",
    "horizon": "separate x.csv --horizon 100 --method batch",
    "noise": "separate x.csv --noise loud",
    "known": "separate x.csv --known counts.csv",
    "of cone": "separate x.csv --signed-mixing --method batch",
    "columns": "separate x.csv --use 30",
    "names": "separate x.csv --skip nothing",
    "image option": "separate x.csv --optical-density",
    "decimal": "separate x.csv --decimal dot",
    "model": "apply x.csv x.csv",
    "one output": "apply a.npz x.csv later.csv -o y.csv",
    "no plan": "sweep",
    "bad plan": "sweep x.csv",
    "target": "reproduce figure9",
    "images": "reproduce figure2 --images .",
}


@call(close=True)
def shell_errors():
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        _shell_inputs()
        return {name: bionica_of(*command.split()) for name, command in BAD.items()}


# ---------------------------------------------------------------------- run and compare


def run(call_):
    """Run a call; returns its items, flat: arrays, numbers and texts by name."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = call_.function(*call_.arguments)
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
    told = [f"{one.category.__name__}: {one.message}" for one in seen if is_ours(one)]
    return flat("", result | {"warnings": told})


def is_ours(warning):
    """Whether bionica may have raised a warning, not a library."""
    return issubclass(warning.category, UserWarning)


def flat(name, value):
    """Items by dotted names."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        items = {}
        for key, each in value.items():
            items |= flat(f"{name}.{key}" if name else str(key), each)
        return items
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return {name: value}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, set | frozenset):
        value = sorted(value)
    if isinstance(value, list | tuple):
        parts = [flat("", each) for each in value]
        if any(
            list(part) != [""] or isinstance(part[""], np.ndarray) for part in parts
        ):
            return flat(name, dict(enumerate(value)))
        return {name: [part[""] for part in parts]}
    if isinstance(value, str):
        value = neutral(value)
    if value is None or isinstance(value, str | int | float | bool):
        return {name: value}
    return {name: neutral(str(value))}


def neutral(text):
    """A text with placeholders for paths, versions, dates and durations."""
    text = re.sub(r"(/[\w.-]+)*/tmp\w{8}(/tmp\w{8})*", "<path>", text)
    text = text.replace(bionica.__version__, "<version>")
    text = re.sub(r".*\bcompil(ing|ed) [\w ]+, once.*\n?", "", text)
    text = re.sub(r"0x[0-9a-f]{6,}", "<address>", text)
    text = re.sub(r'("seconds": )[\d.e-]+', r"\1<seconds>", text)
    text = re.sub(r"\b[\d,.]+ (s|ms|seconds?|minutes?)\b", r"<time> \1", text)
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?", "<date>", text)


def stored(value):
    """What is stored: of large arrays and texts every k-th row or line, a digest."""
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
        rows = (
            array[:: -(-array.size // LARGEST)]
            if array.ndim and array.size > LARGEST
            else array
        )
        return rows, {
            "array": digest,
            "shape": list(array.shape),
            "dtype": str(array.dtype),
        }
    if isinstance(value, str) and len(value) > 10 * LARGEST:
        digest = hashlib.sha256(value.encode()).hexdigest()[:16]
        lines = value.splitlines()
        step = -(-len(value) // (10 * LARGEST))
        return None, {"text": digest, "length": len(lines), "lines": lines[::step]}
    return None, {"value": value}


def results(calls):
    """Run calls; returns their arrays, and all else, by call and item."""
    arrays, texts = {}, {}
    for name, one in calls.items():
        start = time.perf_counter()
        texts[name] = {}
        for item, value in run(one).items():
            array, described = stored(value)
            texts[name][item] = described
            if array is not None:
                arrays[f"{name}: {item}"] = array
        seconds = time.perf_counter() - start
        print(f"{seconds:7.2f} s  {name}", file=sys.stderr, flush=True)
    return arrays, texts


def difference(before, now, rows_before, rows_now, close):
    """What differs between two stored items, in words; None if nothing does."""
    if before.keys() != now.keys():
        return "another kind of value"
    if "array" in before:
        if (before["shape"], before["dtype"]) != (now["shape"], now["dtype"]):
            shapes = [f"{one['dtype']} {one['shape']}" for one in (before, now)]
            return f"{shapes[0]} was expected, got {shapes[1]}"
        if before["array"] == now["array"]:
            return None
        with np.errstate(all="ignore"):
            gap = np.abs(rows_before.astype(float) - rows_now.astype(float))
        largest = float(np.nanmax(gap, initial=0))
        near = np.allclose(rows_before, rows_now, TOLERANCE, TOLERANCE, equal_nan=True)
        return None if close and near else f"largest difference {largest:.2g}"
    if "text" in before:
        if before["text"] == now["text"]:
            return None
        same = close and before["length"] == now["length"]
        parts = zip(before["lines"], now["lines"], strict=False)
        if same and all(same_text(a, b) for a, b in parts):
            return None
        return "another text"
    return None if same_value(before["value"], now["value"], close) else "another value"


def same_value(before, now, close):
    """Whether two numbers, texts or lists are equal; numbers may be near if `close`."""
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return all(same_value(a, b, close) for a, b in zip(before, now, strict=True))
    if isinstance(before, float) and isinstance(now, float):
        near = TOLERANCE if close else 0
        return bool(np.isclose(before, now, near, near, equal_nan=True))
    if close and isinstance(before, str) and isinstance(now, str):
        return same_text(before, now)
    return type(before) is type(now) and before == now


def same_text(before, now):
    """Whether words are equal, and numbers near."""
    if before == now:
        return True
    if NUMBER.sub("#", before) != NUMBER.sub("#", now):
        return False
    numbers = [np.array(NUMBER.findall(text), float) for text in (before, now)]
    return np.allclose(*numbers, TOLERANCE, TOLERANCE)


def expected(name, item=None):
    """Why a call, or one of its items, may differ; None if it may not."""
    label = name if item is None else f"{name}: {item}"
    reasons = (why for pattern, why in EXPECTED.items() if fnmatchcase(label, pattern))
    return next(reasons, None)


def compare(before, now, names, details):
    """Print a line for each call; returns how many differ without a reason."""
    failed = 0
    for name in names:
        if name not in before[1] or name not in now[1]:
            what = "missing" if name in before[1] else "new"
            differ = {"": what}
        else:
            differ = differences(name, before, now)
        reasons = {item: expected(name) or expected(name, item) for item in differ}
        wrong = {item: text for item, text in differ.items() if reasons[item] is None}
        if wrong:
            failed += 1
            texts = "; ".join(f"{item}: {text}" for item, text in wrong.items())
            print(f"DIFFERS   {name}  {len(wrong)} items: {texts[:300]}")
        elif differ:
            whys = ", ".join(sorted({*reasons.values()}))
            print(f"expected  {name}  {len(differ)} items: {whys}")
        else:
            print(f"equal     {name}")
        if details:
            for item in differ:
                print_details(
                    before[1].get(name, {}).get(item), now[1].get(name, {}).get(item)
                )
    return failed


def differences(name, before, now):
    """The items of a call that differ, and how."""
    differ = {}
    for item in {**before[1][name], **now[1][name]}:
        first, second = (one[1][name].get(item) for one in (before, now))
        if first is None or second is None:
            differ[item] = "missing" if second is None else "new"
            continue
        rows = (one[0].get(f"{name}: {item}") for one in (before, now))
        text = difference(first, second, *rows, CALLS[name].close)
        if text is not None:
            differ[item] = text
    return differ


def print_details(*items):
    """Print the lines in which two items differ."""
    lines = [
        json.dumps(item, indent=1, ensure_ascii=False).replace("\\n", "\n")
        for item in items
    ]
    for line in difflib.unified_diff(
        *(text.splitlines() for text in lines), "before", "now", n=0
    ):
        print("    " + line[:300].rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", metavar="FILE")
    action.add_argument("--compare", metavar="FILE")
    action.add_argument("--list", action="store_true")
    parser.add_argument("--real", type=Path, metavar="FOLDER")
    parser.add_argument("--only", default="", metavar="PATTERN")
    parser.add_argument("--details", action="store_true")
    options = parser.parse_args()
    global REAL
    REAL = options.real and options.real.resolve()
    calls = {name: one for name, one in CALLS.items() if re.search(options.only, name)}
    if REAL is None:
        calls = {
            name: one for name, one in calls.items() if not name.startswith("real_")
        }
    if options.list:
        print("\n".join(calls))
        return
    file = options.write or options.compare
    file = str(Path(file).resolve()).removesuffix(".npz").removesuffix(".json")
    print(f"bionica of {Path(bionica.__file__).parent}", file=sys.stderr)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        arrays, texts = results(calls)
    print(f"{len(calls)} calls in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    if options.write:
        np.savez_compressed(f"{file}.npz", **arrays)
        Path(f"{file}.json").write_text(json.dumps(texts, indent=1, ensure_ascii=False))
        return
    with np.load(f"{file}.npz") as stored_arrays:
        before = dict(stored_arrays), json.loads(Path(f"{file}.json").read_text())
    now = arrays, json.loads(json.dumps(texts))
    names = dict.fromkeys(
        [*calls, *(name for name in before[1] if re.search(options.only, name))]
    )
    if REAL is None:
        names = [name for name in names if not name.startswith("real_")]
    failed = compare(before, now, names, options.details)
    print(f"{failed} of {len(names)} calls differ")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
