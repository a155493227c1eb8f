"""Fitted networks to and from `io.model` files."""

import os
import platform
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray

from .. import io
from ..networks import state as states
from ..networks import whitening_layer
from .interneuron import InterneuronNICA
from .nonnegative_pca import NonnegativePCA
from .online import OnlineNICA
from .two_compartment import TwoCompartmentNICA
from .two_layer_nsm import TwoLayerNSM

__all__ = ["load", "save"]

#: The only classes that a file can name.
_CLASSES: dict[str, type[OnlineNICA]] = {
    cls.__name__: cls for cls in (InterneuronNICA, TwoCompartmentNICA, TwoLayerNSM, NonnegativePCA)
}
_LAYERS = {cls.__name__: cls for cls in (whitening_layer.Learned, whitening_layer.Fixed, whitening_layer.Absent)}
_CALLABLE = {"callable": True}


def save(estimator: OnlineNICA, path: str | os.PathLike[str]) -> None:
    """Write a fitted network; see `OnlineNICA.save`."""
    state = estimator._fitted_state()
    arrays = {f"state/{name}": a for name, a in states.to_arrays(state).items()}
    parameters: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name == "init" and isinstance(value, dict):
            arrays |= {f"init/{weight}": np.asarray(a, dtype=np.float64) for weight, a in value.items()}
            parameters[name] = sorted(value)
        else:
            parameters[name] = _plain(name, value)
    header = {
        "class": type(estimator).__name__,
        "parameters": parameters,
        "layer": type(state.layer).__name__ if hasattr(state, "layer") else None,
        "n_features": estimator.n_features_in_,
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", [])] or None,
        "versions": {
            "bionica": _version(),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
    }
    io.write_model(path, header, arrays)


def load(path: str | os.PathLike[str], **overrides: Any) -> Any:
    """Read a network that `save` wrote, ready to transform or to go on learning.

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
        estimator = cls(**_parameters(header["parameters"], arrays, overrides))
        estimator._validate_params()
        k = int(header["n_features"])
        state = _state(estimator, header["layer"], k, arrays)
    except io.ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise io.ModelFileError(f"{path} does not describe a {cls.__name__}: {error}") from error
    estimator.n_features_in_ = k
    if header.get("feature_names"):
        estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
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


def _parameters(saved: dict[str, Any], arrays: dict[str, NDArray[Any]], overrides: dict[str, Any]) -> dict[str, Any]:
    parameters = {**saved, **overrides}
    for name, value in parameters.items():
        if value == _CALLABLE:
            raise io.ModelFileError(
                f"{name} was a function when this model was saved, and a file holds no code: give it again, load(path, {name}=...)"
            )
    if isinstance(parameters["init"], list):
        parameters["init"] = {weight: arrays[f"init/{weight}"] for weight in parameters["init"]}
    if isinstance(parameters["guards"], list):
        parameters["guards"] = tuple(parameters["guards"])
    return parameters


def _state(estimator: OnlineNICA, layer: str | None, k: int, arrays: dict[str, NDArray[Any]]) -> Any:
    own = {name.removeprefix("state/"): a for name, a in arrays.items() if name.startswith("state/")}
    dtype = next(a.dtype for a in own.values() if a.dtype.kind == "f")
    template = estimator._fresh_state(k, dtype, np.random.RandomState(0), None)
    if layer is not None:
        kind = _LAYERS[layer]
        template = template._replace(layer=kind(*(own[f"layer.{field}"] for field in kind._fields)))
    return states.from_arrays(template, own)


def _version() -> str:
    from importlib.metadata import version

    return version("bionica")
