"""Models from strangers: mutated bytes, mutated fields under a right checksum, crafted files.

A file is refused with ModelFileError, within 2 s and 500 MB. A model that loads transforms, learns, is diagnosed and saved: with
finite, nonnegative outputs, or with an exception that says what to do.
"""

import copy
import os
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bionica
from bionica.estimators._base import Estimator

from . import Row
from .crafted_models import crafted, mutate_content
from .forked import run_forked
from .model_zip import pack, unpack

BYTES, FIELDS, CRAFTED = 4_500, 2_600, 1_200
LARGEST_MB, LONGEST_S = 500.0, 2.0
#: What a model may answer: it says what is wrong. LinAlgError is a ValueError that does not.
ANSWERS = (ValueError, bionica.DivergenceError)


def attack(seed: int, scale: float = 1.0) -> list[Row]:
    """Attack `bionica.load`."""
    warnings.simplefilter("ignore")
    rows = []
    with tempfile.TemporaryDirectory() as place:
        # In a process of its own: compilers take memory, and start threads, which a fork does not survive.
        command = [sys.executable, "-m", "attacks.models", place]
        paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)})
        models = [path.read_bytes() for path in sorted(Path(place).iterdir())]
        for kind, what, tries in (
            ("bytes", "mutated bytes", BYTES),
            ("fields", "mutated fields, checksum right", FIELDS),
            ("crafted", "crafted files", CRAFTED),
        ):
            n = max(3, round(scale * tries))
            path = Path(place, kind)
            path.mkdir()
            attempt = partial(use_one, path / "model", seed, models, kind)
            rows.append(Row("models", what, n, *run_forked(range(n), attempt, timeout=60)))
    return rows


def fitted_models() -> list[Any]:
    """Every estimator, in every kind of state that a file can hold."""
    rng = np.random.default_rng(0)
    S = rng.exponential(size=(2600, 3)) * (rng.random((2600, 3)) < 0.6)
    X = S @ rng.random((3, 4))
    few, single, square = X[:300], X[:300].astype(np.float32), X[:300, :3]
    models = []
    for name in bionica.__all__:
        cls = getattr(bionica, name)
        if isinstance(cls, type) and issubclass(cls, Estimator):
            seed = {"random_state": 0} if "random_state" in cls._parameter_constraints else {}
            models += [cls(3, **seed).fit(few), cls(3, **seed).fit(square)]
            models += [cls(3, **seed).fit(single)] if "float32" in cls._preserved_dtypes else []
            if hasattr(cls, "partial_fit"):
                models.append(cls(3, **seed).partial_fit(few[:40]))
    networks = (bionica.InterneuronNICA, bionica.TwoCompartmentNICA)
    models += [cls(3, precondition=p, random_state=0).fit(few) for cls in networks for p in (None, "scale")]
    models += [
        cls(3, precondition=None, dynamics="gradient", settle_steps=50, random_state=0).fit(few) for cls in networks
    ]
    init = {"W_xy": np.eye(3, 4), "W_yn": np.eye(3), "W_ny": np.eye(3) + 0.1}
    models += [
        bionica.InterneuronNICA(3, init=init, precondition=None, random_state=0).fit(few),
        bionica.NonnegativePCA(3, whiten=False, random_state=0).fit(few - 0.1),
        bionica.NonnegativePCA(3, whiten="online", random_state=0).fit(few),
        bionica.OfflineNICA(3, network="two_compartment", max_iter=20, random_state=0).fit(few),
        bionica.StreamingNICA("auto", random_state=0).partial_fit(few[:50]),
        bionica.StreamingNICA(3, horizon=500, random_state=0).fit(few),
        bionica.MinimumVolumeCone(3, horizon=1500, random_state=0).fit(X),
        bionica.MinimumVolumeCone(3, outliers=0.01, random_state=0).partial_fit(X),
        bionica.MinimumVolumeCone(3, noise="poisson", random_state=0).fit(np.round(100 * X)),
    ]
    return models


def use_one(path: Path, seed: int, models: list[bytes], kind: str, index: int) -> str:
    """Write the file of a try, load it and use it; return what went wrong."""
    rng = np.random.default_rng([seed, index, len(kind)])
    path.unlink(missing_ok=True)
    whole = models[index % len(models)]
    if kind == "bytes":
        path.write_bytes(mutate_bytes(whole, rng))
    elif kind == "fields":
        header, arrays = unpack(whole)
        mutate_content(header, arrays, rng)
        path.write_bytes(pack(header, arrays))
    else:
        path = crafted(index, models, path)
    return use(path)


def mutate_bytes(whole: bytes, rng: np.random.Generator) -> bytes:
    """Flip, set, cut, repeat or insert bytes at random."""
    content = bytearray(whole)
    for _ in range(int(rng.integers(1, 4))):
        at, length = int(rng.integers(len(content))), int(rng.integers(1, 40))
        match int(rng.integers(6)):
            case 0:
                content[at] ^= 1 << int(rng.integers(8))
            case 1:
                content[at : at + length] = rng.bytes(length)
            case 2:
                del content[at : at + length]
            case 3:
                content[at:at] = content[at : at + length]
            case 4:
                content = content[: max(at, 1)]
            case 5:
                content[at : at + length] = bytes([int(rng.choice([0, 255]))]) * length
    return bytes(content)


def use(path: Path) -> str:
    """Load a file, and do with it what one does with a model; return what went wrong."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the memory
    began = time.perf_counter()
    try:
        model = bionica.load(path)
    except bionica.ModelFileError as error:
        seconds, peak = time.perf_counter() - began, peak_memory()
        if not str(error):
            return "refused without a reason"
        if peak > LARGEST_MB:
            return f"refused with {peak:.0f} MB"
        return f"refused after {seconds:.1f} s" if seconds > LONGEST_S else ""
    except Exception as error:
        return f"load let {type(error).__name__} out: {error}"[:200]
    X = np.random.default_rng(0).exponential(size=(1050, min(int(model.n_features_in_), 10_000)))
    steps = {
        "transform": lambda: outputs(model, X[:20]),
        "float32": lambda: outputs(model, X[:3].astype(np.float32)),
        "components": lambda: finite(model.components_, model.mixing_),
        "diagnose": lambda: str(model.diagnose(X[:200])) if hasattr(model, "diagnose") else "",
        "save": lambda: save_again(model, path.with_name("again")),
        "partial_fit": lambda: learn(copy.deepcopy(model), X),
    }
    for name, step in steps.items():
        try:
            step()
        except np.linalg.LinAlgError as error:
            return f"{type(model).__name__}: {name} let LinAlgError out: {error}"[:200]
        except ANSWERS:
            pass
        except Exception as error:
            return f"{type(model).__name__}: {name}: {type(error).__name__}: {error}"[:200]
    return ""


def peak_memory() -> float:
    """Return the peak of this process's memory in MB since it was last forgotten."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def save_again(model: Any, path: Path) -> None:
    model.save(path)
    bionica.load(path)


def learn(model: Any, X: np.ndarray) -> None:
    if hasattr(model, "partial_fit"):
        outputs(model.partial_fit(X), X[:20])


def finite(*arrays: np.ndarray) -> None:
    if not all(np.isfinite(a).all() for a in arrays):
        raise AssertionError("not finite")


def outputs(model: Any, X: np.ndarray) -> None:
    Y = model.transform(X)
    finite(Y)
    if len(Y) != len(X) or (Y.min() < 0 and not isinstance(model, bionica.NoncenteredWhitener)):
        raise AssertionError(f"outputs of shape {Y.shape} from {Y.min()}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for i, model in enumerate(fitted_models()):
        model.save(Path(sys.argv[1]) / f"{i:03}")
