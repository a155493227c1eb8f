"""`bionica.separate`: counts the sources, chooses the method, fits and judges, with one
mechanism: agreement between halves.

`BatchNICA` asks for uncorrelated sources and `MinimumVolumeCone` does not. Both are
fitted to a sample, and `diagnose` judges both. If X is nonnegative, the cone is kept:
amounts are seldom uncorrelated, and only the cone keeps spectra nonnegative. Otherwise
a fit without a finding is preferred to one with findings, noise aside, which BatchNICA
sees less well. If both or none have any, the cone is kept, unless halves of the samples
agree clearly better on BatchNICA (half the error of the worst output, or less). A
number of sources that halves allow remains a candidate if its fit shows no problem, or
if the fit that is kept shows one.
"""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

import warnings
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

import bionica
from bionica.core import samples
from bionica.core.blocks import Array, some_rows
from bionica.core.dask import DaskRows
from bionica.core.errors import DivergenceError, Message
from bionica.core.samples import warn
from bionica.io.columns import integer_columns, label_columns
from bionica.mixtures.cone.count import rough_cones
from bionica.mixtures.methods import METHODS
from bionica.mixtures.missing import completed_rows
from bionica.mixtures.separator import names_of
from bionica.mixtures.verdict.count import Count, count_sources, undecided
from bionica.mixtures.verdict.diagnosis import Diagnosis
from bionica.mixtures.verdict.findings import ranked_findings

_ROWS = 20_000  # samples on which the number and the method are chosen
_CLEARLY = 0.5


class Choice(NamedTuple):
    """What `separate` decided, and why.

    Attributes
    ----------
    n_sources, candidates : int, tuple of int
        Number of sources, and others that the data allow.
    angles : dict of int to float
        Worst angle between the spectra of two halves, in degrees, for each number that
        was tried; empty if it was given.
    method, why : str
        Name of the estimator, and why it was chosen.
    tried : dict of str to Diagnosis
        The diagnosis of each method that was tried, with its findings; empty if the
        method was given.
    """

    n_sources: int
    candidates: tuple[int, ...]
    angles: dict[int, float]
    method: str
    why: str
    tried: dict[str, Diagnosis]

    def __str__(self) -> str:
        number = f"{self.n_sources} source"
        if self.n_sources != 1:
            number += "s"
        if self.candidates:
            number += f" (or {', '.join(map(str, self.candidates))})"
        return f"{number}, {self.method}: {self.why}."


def separate(
    X: ArrayLike,
    n_components: int | str = "auto",
    *,
    method: str = "auto",
    random_state: int | None = None,
    horizon: int | None = None,
    nonnegative_mixing: bool | str = "auto",
    known_mixing: ArrayLike | None = None,
    noise: str | float = "estimate",
    normalize: str = "variance",
) -> Any:
    """Count the sources of mixtures, choose the method, fit it and say how far to
    believe the result.

    Parameters
    ----------
    X : array-like or Dask array of shape (n_samples, n_features)
        Mixtures, mean included. The number of sources and the method are chosen on
        20,000 evenly spread samples at most.
    n_components : int or "auto", default="auto"
        Number of sources. "auto" takes the number that two halves of the samples agree
        on: at most 12, or 48 in white noise (see `choice_`).
    method : {"auto", "batch", "cone", "streaming"}, default="auto"
        `BatchNICA`, `MinimumVolumeCone` or `StreamingNICA`. "auto" takes the cone if X
        is nonnegative; otherwise it fits the first two and keeps the better.
    random_state : int or None, default=None
        Seed.
    horizon : int, default=None
        For a mixing that changes: about this many samples are remembered, by the stream
        of the chosen method.
    nonnegative_mixing, known_mixing, noise, normalize
        Of `MinimumVolumeCone`; `known_mixing` chooses it.

    Returns
    -------
    estimator
        Fitted, with `diagnosis_` (`Diagnosis`), `choice_` (`Choice`) and
        `alternatives_`: if the data do not decide the number of sources, a dictionary
        of each other number that they allow and a fit to the same samples, with its own
        `diagnosis_`.

    Examples
    --------
    >>> import numpy as np
    >>> import bionica
    >>> rng = np.random.default_rng(0)
    >>> S = rng.dirichlet([0.5, 0.5, 0.5], size=2000)
    >>> X = S @ rng.random((3, 20)) + 0.002 * rng.standard_normal((2000, 20))
    >>> result = bionica.separate(X, random_state=0)
    >>> result.choice_.n_sources, type(result).__name__, result.diagnosis_.ok
    (3, 'MinimumVolumeCone', True)
    """
    _check_arguments(X, n_components, method)
    owner = type("separate", (BaseEstimator,), {})()  # errors call it so
    missing = method != "streaming" and horizon is None
    given = samples.rows(owner, X, reset=True, min_samples=2, missing=missing)
    data = completed_rows(owner, given, n_components)
    sample = some_rows(data, _ROWS, 1 << 23)
    _check_columns(X, sample)
    cone: dict[str, Any] = {"nonnegative_mixing": nonnegative_mixing}
    cone |= {"known_mixing": known_mixing, "noise": noise, "normalize": normalize}
    task = _Task(data, given, sample, random_state, cone)
    count = Count(n_components, (), {})  # type: ignore[arg-type]
    if n_components == "auto":
        count = count_sources(sample, rough_cones)
    tried: dict[str, tuple[Any, Diagnosis]] = {}
    why = "the options ask for it"
    if known_mixing is not None:
        method = "cone"
        why = "spectra are known"
    if method == "auto":
        tried = _tried(task, count.n_sources)
        method, why = _better({name: verdict for name, (_, verdict) in tried.items()})
    if horizon is not None and method == "batch":
        method = "streaming"
    if method in tried and horizon is None and len(sample) == data.shape[0]:
        estimator, diagnosis = tried[method]
    else:
        rows = data.array if isinstance(data, DaskRows) else data
        estimator, diagnosis = _fitted(task, method, count.n_sources, rows, horizon)
    if hasattr(owner, "feature_names_in_"):  # it was fitted to an array
        estimator.feature_names_in_ = owner.feature_names_in_
        diagnosis = replace(diagnosis, mixtures=names_of(estimator)["mixtures"])
    count = _add_alternatives(task, method, estimator, diagnosis, count)
    findings = ranked_findings((*diagnosis.findings, *undecided(count)))
    estimator.diagnosis_ = replace(diagnosis, findings=findings)
    d, name = len(estimator.components_), type(estimator).__name__
    verdicts = {type(other).__name__: verdict for other, verdict in tried.values()}
    estimator.choice_ = Choice(d, count.candidates, count.angles, name, why, verdicts)
    return estimator


def _check_arguments(X: Any, n_components: Any, method: str) -> None:
    """Raise unless X is no file, and the number and the method are known."""
    if method not in ("auto", *METHODS):
        known = ", ".join(map(repr, METHODS))
        raise ValueError(f"method={method!r} is unknown: choose from 'auto', {known}")
    is_integer = isinstance(n_components, int | np.integer)
    is_number = is_integer and not isinstance(n_components, bool) and n_components > 0
    if not is_number and n_components != "auto":
        raise ValueError(
            Message(
                "{n_components:={!r}} is not a number of sources: give an integer from "
                "1 on, or 'auto'",
                n_components,
            )
        )
    if isinstance(X, str | PathLike):
        raise ValueError(
            f"X={str(X)!r} is the name of a file: read it with "
            "bionica.io.open_reader(X).read()"
        )


class _Task(NamedTuple):
    """What all fits of one call share."""

    data: Any  # X, with missing cells estimated
    given: Any  # X
    sample: Array  # of data
    random_state: int | None
    cone: dict[str, Any]  # parameters of the cone


def _fitted(
    task: _Task, method: str, d: int, rows: Any, horizon: int | None
) -> tuple[Any, Diagnosis]:
    """Return an estimator with d sources, fitted to these rows, and its diagnosis."""
    options = {}
    if method != "batch":
        options["horizon"] = horizon
    if method == "cone":
        options |= task.cone
    name = METHODS[method]
    estimator = getattr(bionica, name)(d, random_state=task.random_state, **options)
    with warnings.catch_warnings(action="ignore"):  # the diagnosis says it
        estimator.fit(rows)
        outputs = estimator.transform(task.sample)
        silent = np.flatnonzero(~(outputs > 0).any(axis=0))
        if len(silent):
            raise ValueError(
                Message(
                    "{}({n_components:={}}): output {} is zero in all samples: give a "
                    "smaller {n_components}, or more samples",
                    name,
                    d,
                    silent[0],
                )
            )
        if task.data is not task.given:  # `given` knows what was missing
            rows = task.given
        return estimator, estimator.diagnose(rows)


def _tried(task: _Task, d: int) -> dict[str, tuple[Any, Diagnosis]]:
    """Fit the cone, and BatchNICA unless X is nonnegative, to the sample."""
    tried = {}
    failures = []
    for method in ("cone", "batch"):
        try:
            tried[method] = _fitted(task, method, d, task.sample, None)
        except (ValueError, DivergenceError) as error:
            failures.append(error)
        if method in tried and tried[method][1].measures.is_nonnegative:
            break
    if not tried:
        raise failures[0]
    return tried


def _add_alternatives(
    task: _Task, method: str, estimator: Any, diagnosis: Diagnosis, count: Count
) -> Count:
    """Fit each other number of sources that the data allow to the sample.

    Return the count with those numbers that remain candidates.
    """
    fits = {}
    for d in count.candidates:
        with suppress(ValueError, DivergenceError):
            fits[d], verdict = _fitted(task, method, d, task.sample, None)
            fits[d].diagnosis_ = verdict
    if diagnosis.ok:  # fewer sources leave a signal, or more differ between halves
        right = tuple(d for d, fit in fits.items() if fit.diagnosis_.ok)
        count = count._replace(candidates=right)
    kept = {d: fit for d, fit in fits.items() if d in count.candidates}
    estimator.alternatives_ = kept
    return count


def _check_columns(X: Any, sample: Array) -> None:
    """Raise if columns of a data frame are labels of its rows, and warn of those that
    are only named so.
    """
    columns = list(getattr(X, "columns", ()))
    labels, doubtful = label_columns([*map(str, columns)], lambda j: sample[:, j])
    if labels:
        names = [columns[j] for j in labels]
        raise ValueError(
            f"X has the columns {names}, which look like row labels, not measurements: "
            f"X.drop(columns={names})"
        )
    questions = {
        "are named as labels of the rows, and used as mixtures because they vary as "
        "mixtures do": doubtful,
        "hold integers, unlike the others, as labels of the rows do, and are used as "
        "mixtures": integer_columns(sample) if columns else [],
    }
    for text, indices in questions.items():
        names = [columns[j] for j in indices]
        if names:
            warn(
                f"The columns {names} of X {text}. X.drop(columns={names}) omits them.",
                UserWarning,
            )


def _better(tried: dict[str, Diagnosis]) -> tuple[str, str]:
    """Return the method to keep, and why; `Choice.tried` has the findings."""
    if "cone" in tried and tried["cone"].measures.is_nonnegative:
        return "cone", "X is nonnegative, and sources may be correlated"
    if len(tried) == 1:
        return next(iter(tried)), "the other method cannot be fitted"
    batch = tried["batch"]
    cone = tried["cone"]
    quiet = [
        all(one.values.get("cause") == "noise" for one in verdict.findings)
        for verdict in (batch, cone)
    ]
    if quiet[0] != quiet[1]:
        better, worse = ("batch", "cone") if quiet[0] else ("cone", "batch")
        return better, f"its fit shows no problem, and that of {METHODS[worse]} does"
    error = [
        1.0 if verdict.uncertainty_ is None else verdict.uncertainty_.share.max()
        for verdict in (batch, cone)
    ]
    if error[0] < _CLEARLY * error[1]:
        why = "halves of the samples agree better on it than on MinimumVolumeCone"
        return "batch", why
    why = "sources may be correlated, and BatchNICA is not clearly more certain"
    return "cone", why
