"""Fitted estimators to and from `io.model` files."""

import os
import platform
from functools import cache
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .. import io
from ..networks import (
    interneuron,
    natural_interneuron,
    natural_two_compartment,
    nonnegative_pca,
    two_compartment,
    two_layer_nsm,
    whitening_layer,
)
from ..networks import (
    natural_input as natural,
)
from ..networks import state as states
from ..networks.settling.exact import inverse
from ._offline_schema import restore, stored
from ._online import OnlineNICA
from ._weights import rule_of
from .batch_nica import BatchNICA
from .interneuron_nica import InterneuronNICA
from .noncentered_whitener import NoncenteredWhitener
from .npca import NonnegativePCA
from .nsm import TwoLayerNSM
from .offline_nica import OfflineNICA
from .two_compartment_nica import TwoCompartmentNICA

__all__ = ["contents", "load", "save"]

#: The only classes that a file can name.
_NETWORKS: tuple[type[OnlineNICA], ...] = (InterneuronNICA, TwoCompartmentNICA, TwoLayerNSM, NonnegativePCA)
_CLASSES: dict[str, Any] = {cls.__name__: cls for cls in (*_NETWORKS, BatchNICA, NoncenteredWhitener, OfflineNICA)}
_FIRST_FORMAT_RULES = {
    "InterneuronNICA": "interneuron",
    "TwoCompartmentNICA": "two_compartment",
    "TwoLayerNSM": "two_layer_nsm",
    "NonnegativePCA": "nonnegative_pca",
}
#: How a single-layer network started, and the type that JSON gives back.
_START: dict[str, type] = {"_offline_start": bool, "_start_seed": int}
_CALLABLE = {"callable": True}


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator; see `OnlineNICA.save`."""
    io.write_model(path, *contents(estimator))


def contents(estimator: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return what a file of this estimator holds, header and arrays; the arrays are its own, which never change."""
    if _CLASSES.get(type(estimator).__name__) is not type(estimator):
        raise TypeError(
            f"{type(estimator).__name__} is none of {sorted(_CLASSES)}, and load could not make one again; use pickle"
        )
    if isinstance(estimator, OnlineNICA):
        special, arrays = _network(estimator)
    else:
        check_is_fitted(estimator)
        estimator._validate_params()
        arrays, numbers = stored(estimator)
        special = {"numbers": numbers}
    parameters: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name == "init" and isinstance(value, dict):
            arrays |= {f"init/{weight}": np.asarray(a, dtype=np.float64) for weight, a in value.items()}
            parameters[name] = sorted(value)
        else:
            parameters[name] = _plain(name, value)
    header: dict[str, Any] = {
        "class": type(estimator).__name__,
        "parameters": parameters,
        **special,
        "n_features": estimator.n_features_in_,
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", [])] or None,
        "versions": {
            "bionica": _version(),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
    }
    return header, arrays


def _network(estimator: OnlineNICA) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What the header says of a network alone, and its arrays."""
    state = estimator._fitted_state()
    estimator._check_params()
    attributes = vars(estimator)
    if "_state" in attributes:
        arrays = {f"state/{name}": a for name, a in states.to_arrays(state).items()}
    else:
        arrays = {"waiting": attributes["_waiting"]}
    special = {
        "rule": rule_of(state).__name__.rpartition(".")[2],
        "layer": type(state.layer).__name__ if hasattr(state, "layer") else None,
        "start": {name: attributes[name] for name in _START if name in attributes},
    }
    return special, arrays


def load(path: str | os.PathLike[str], **overrides: Any) -> Any:
    """Read a network or an offline estimator that `save` wrote, ready to transform or to go on learning.

    Loading runs no code from the file.

    Parameters
    ----------
    path : path
        A file that `save` wrote.
    **overrides
        Parameters that shall differ from the saved ones; a schedule that was a function must be given again here.

    Returns
    -------
    estimator
        Of the class that was saved. Learning on gives the same bits as if it had never stopped.

    Raises
    ------
    ModelFileError
        If the file is truncated, altered, or no bionica model.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib, bionica
    >>> X = np.random.default_rng(0).exponential(size=(100, 2))
    >>> network = bionica.TwoCompartmentNICA(random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.bionica"
    ...     network.save(path)
    ...     again = bionica.load(path)
    >>> bool(np.array_equal(again.transform(X), network.transform(X)))
    True
    """
    header, arrays = io.read_model(path)
    cls = _CLASSES.get(str(header.get("class")))
    if cls is None:
        raise io.ModelFileError(f"{path} holds a {header.get('class')!r}, which is none of {sorted(_CLASSES)}")
    try:
        saved = header["parameters"]
        functions = [name for name, value in saved.items() if value == _CALLABLE and name not in overrides]
        estimator = cls(**_parameters(saved, arrays))
        k = int(header["n_features"])
        state = None
        if not isinstance(estimator, OnlineNICA):
            restore(estimator, k, arrays, header["numbers"])
        elif "waiting" not in arrays:
            state = _state(header, k, arrays)
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration, MemoryError) as error:
        raise io.ModelFileError(f"{path} does not describe a {cls.__name__}: {error}") from error
    if functions:
        raise io.ModelFileError(
            f"{functions[0]} was a function when this model was saved, and a file holds no code: "
            f"give it again, load(path, {functions[0]}=...)"
        )
    estimator.set_params(**overrides)
    estimator._validate_params()
    estimator.n_features_in_ = k
    if header.get("feature_names"):
        estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    if not isinstance(estimator, OnlineNICA):
        return estimator
    estimator._check_params()
    for name in _START:
        if name in (header.get("start") or {}):
            setattr(estimator, name, _START[name](header["start"][name]))
    if state is None:
        estimator._waiting = arrays["waiting"]
        estimator.n_samples_seen_ = len(arrays["waiting"])
    else:
        estimator._adopt(state)
    return estimator


def _plain(name: str, value: Any) -> Any:
    """Return the parameter as JSON can hold it."""
    if callable(value):
        return _CALLABLE
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, set | frozenset):
        return sorted(value)
    if name == "random_state" and not isinstance(value, int | None):
        return None  # spent: what is still random comes from the state
    return value


def _parameters(saved: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    parameters = {name: value for name, value in saved.items() if value != _CALLABLE}
    if isinstance(parameters.get("init"), list):
        parameters["init"] = {weight: arrays[f"init/{weight}"] for weight in parameters["init"]}
    if isinstance(parameters.get("guards"), list):
        parameters["guards"] = tuple(parameters["guards"])
    return parameters


def _state(header: dict[str, Any], k: int, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the state, every array of it checked against the shape that its network has."""
    own = {name.removeprefix("state/"): a for name, a in arrays.items() if name.startswith("state/")}
    broken = [name for name, a in own.items() if a.dtype.kind == "f" and not np.isfinite(a).all()]
    if broken:
        raise ValueError(f"{broken[0]} holds NaN or infinity")
    d, dtype = own["fired"].size, next(a.dtype for a in own.values() if a.dtype.kind == "f")
    m = len(own["W_yn"]) if "W_yn" in own else d
    averaged = any(name.endswith("_mean") and len(a) for name, a in own.items())
    rule = header["rule"] if header["format"] > 1 else _FIRST_FORMAT_RULES[header["class"]]

    def zeros(*shape: int) -> NDArray[Any]:
        return np.zeros(shape, dtype)

    seed = np.ones(2, dtype=np.int64)
    template: Any
    if rule == "interneuron":
        weights = zeros(d, k), zeros(m, d), zeros(d, m)
        template = interneuron.init(*weights, seed, averaged, own.get("x_power", zeros(0)).size > 0)
    elif rule == "two_compartment":
        template = two_compartment.init(zeros(d, k), zeros(d, d), seed, averaged, own.get("x_power", zeros(0)).size > 0)
    elif rule == "natural_interneuron":
        inp = natural.start(zeros(d, k), zeros(d), zeros(d, d), 1)
        template = natural_interneuron.init(inp, zeros(d, d), zeros(m, d), zeros(d, m), zeros(d), averaged, seed)
    elif rule == "natural_two_compartment":
        inp = natural.start(zeros(d, k), zeros(d), zeros(d, d), 1)
        template = natural_two_compartment.init(inp, zeros(d, d), zeros(d, d), averaged, seed)
    elif rule == "two_layer_nsm":
        template = two_layer_nsm.init(zeros(d, k), zeros(d, d), zeros(d, d), zeros(d, d), seed)
    elif rule == "nonnegative_pca":
        layers = {
            "Learned": whitening_layer.init(zeros(d, k), zeros(d, d)),
            "Fixed": whitening_layer.Fixed(zeros(d, k)),
            "Absent": whitening_layer.Absent(np.array([k])),
        }
        width = k if header["layer"] == "Absent" else d
        template = nonnegative_pca.init(layers[header["layer"]], zeros(d, width), seed)
    else:
        raise ValueError(f"no network has the rule {rule!r}")
    if header["format"] < 4:
        own |= _inverses(own)
    if header["format"] < 5:
        own |= {"x_power": own["x_power"].astype(np.float64)} if "x_power" in own else {}
        if "W_yn" in own and np.array_equal(own["W_ny"], own["W_yn"].T):
            own["M"] = own["M"][:0]
    if "W_yn" in own:
        template = template._replace(M=zeros(d if len(own["M"]) else 0, d))
    if header["format"] == 1:  # nothing was averaged or scaled then
        own = {name: a for name, a in states.to_arrays(template).items() if a.size == 0} | own
        own["repairs"] = np.append(own["repairs"], np.zeros(len(template.repairs) - len(own["repairs"]), np.int64))
    return states.from_arrays(template, own)


def _inverses(own: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return what older formats did not keep: the matrix of the lateral connections where it is a product, and inverses."""
    lateral = next((own[name] for name in ("W_zz", "W_yy") if name in own), None)
    found = {} if lateral is None else {"H": inverse(lateral)}
    if "W_yn" in own:
        M = own["W_ny"] @ own["W_yn"]
        found |= {"M": M, "H": inverse(M)}
    if "layer.W_hg" in own:
        found |= {"layer.B": whitening_layer.inverse(own["layer.W_hg"])}
    return {name: array for name, array in found.items() if name not in own}


@cache
def _version() -> str:
    from importlib.metadata import version

    return version("bionica")
