"""Plans that no user would write: values of wrong types and sizes, unknown names, deep nesting, broken text and files."""

import inspect
import math
import os

import numpy as np

import bionica

_HUGE = "0x" + "f" * 6000  # an integer that Python does not print in decimals
#: Values as TOML writes them.
VALUES = (
    "true", "false", "0", "-1", "1", "2.5", "1e300", "-1e-300", "inf", "nan", str(2**31), str(2**63 - 1), str(2**63),
    str(10**9), str(10**12), str(10**18), str(10**40), _HUGE, '""', '"none"', '"auto"', '"d3"', '"\\u0000"', '"a\\nb"',
    '"../../.."', '"/dev/zero"', '"~nobody/x.npy"', '"' + "x" * 5000 + '"', "[]", "[[]]", "[{}]", "{}", "{ a = 1 }", "[1, 2, 3]",
    "[1.5, true, 'x']", "[nan]", "[[1, 2], [3, 4]]", "[[1, 2], [3]]", "[" * 50 + "]" * 50, "[" * 5000 + "]" * 5000,
    "1979-05-27T07:32:00Z", "07:32:00", "[0.1, 0.2]", "['a', 'b']", f"[{_HUGE}]", "[" + "0.1, " * 20000 + "]",
)  # fmt: skip
NAMES = (
    "TwoCompartmentNICA", "InterneuronNICA", "NonnegativePCA", "TwoLayerNSM", "StreamingNICA", "BatchNICA", "OfflineNICA",
    "MinimumVolumeCone", "NoncenteredWhitener", "sklearn.decomposition:PCA", "sklearn.decomposition:FastICA", "json:dumps",
    "os:system", "nosuch:Nothing", ":", "a:", ":b", ".:x", "..:x", "a..b:c", "sys:modules", "builtins:int", "sklearn.svm:SVC",
    "numpy:ndarray", "bionica.estimators.network:OnlineNICA", "broken_module:Anything", "exiting_module:Anything", "x" * 3000,
)  # fmt: skip
KINDS = (
    "sparse_uniform",
    "exponential",
    "half_normal",
    "gamma",
    "odor",
    "copula_uniform",
    "odors",
    "images",
    "file",
    "nosuch",
)
DATA_KEYS = (
    "name",
    "kind",
    "d",
    "T",
    "mixing",
    "n_mixtures",
    "snr_db",
    "rho",
    "df",
    "epochs",
    "shuffle",
    "seed",
    "path",
    "names",
)
FILE_KEYS = ("mixtures", "sources", "epochs", "shuffle", "name", "seed")
#: Values of the right type at the ends of what they can be.
EXTREMES = {
    "seeds": ("1", "3", "1000", "1000000000", "[0, 5]", "[4294967295]", "[4294967296]"),
    "times": ("1", "100", "100000", "1000000000", "[1, 10, 1000000]"),
    "dtype": ('"float32"',),
    "d": ("1", "2", "50", "1000", "1000000", "1000000000"),
    "T": ("1", "2", "10", "1e3", "1e5", "1e9", "100000000000", "100000000000000000"),
    "epochs": ("2", "1000000", "1000000000000"),
    "n_mixtures": ("3", "4", "100", "1000000", "1000000000000"),
    "mixing": ('"d3"', '"random"', "[[0, 0, 0], [0, 0, 0], [0, 0, 0]]", "[[1, 0, 0], [1, 0, 0], [1, 0, 0]]",
               "[[1e300, 1, 1], [1, 1e-300, 1], [1, 1, 1e300]]", "[[1e160, 0, 0], [0, 1e160, 0], [0, 0, 1e160]]"),
    "snr_db": ("0", "300", "-300", "1e300", "-1e300", "-4000"),
    "rho": ("0", "0.999999", "-0.5", "1", "-1e300"),
    "df": ("0", "1e-300", "1e300", "0.1"),
    "shuffle": ("true", "false"),
    "seed": ("0", "4294967295", "4294967296"),
    "names": ("[]", "['camera']"),
    "name": ('"data"', '"1"', '"\\u202e"'),
    "label": ('"network"', '"status"', '"="'),
    "published": ('"d3"', '"d10"', '"images"'),
    "n_components": ("1", "2", "3", "3.0", "4", "1000000000"),
    "eta0": ("0.1", "1e-300", "0.999", "1", "1e300", "9223372036854775807"),
    "decay": ("0", "1e-300", "1e300", "9223372036854775807"),
    "power": ("0", "1000", "1e300", "9223372036854775807"),
    "tau": ("0.5", "1e-300", "1e300", "'none'", "9223372036854775807"),
    "dynamics": ('"gradient"', '"exact"'),
    "gamma": ("1e-300", "1", "1e300", "'none'", "9223372036854775807"),
    "settle_tol": ("1e-300", "0.999"),
    "settle_steps": ("1", "1000"),
    "mean_window": ("2", "1000000", "9223372036854775807", "'none'"),
    "precondition": ('"natural"', '"scale"', '"none"'),
    "average": ("true", "false"),
    "guards": ("true", "false", "[]", "['row']"),
    "whiten": ('"offline"', "true", "false"),
    "horizon": ("1", "10", "1000", "1e18", "9223372036854775807"),
    "robust": ("true", "false"),
    "noise": ("0", "1e300", '"poisson"', '"estimate"'),
    "tol": ("0", "1e-300", "1e300"),
}  # fmt: skip
FILES = (
    "x.npy",
    "s.npy",
    "nan.npy",
    "empty.npy",
    "torn.npy",
    "lies.npy",
    "object.npy",
    "text.npy",
    "archive.npz",
    "pipe.npy",
    "a_folder",
)


def write_files(folder):
    """Write the files and modules that plans name."""
    rng = np.random.default_rng(0)
    S = rng.exponential(size=(150, 3))
    np.save(folder / "x.npy", S @ rng.random((3, 3)))
    np.save(folder / "s.npy", S)
    np.save(folder / "nan.npy", np.where(rng.random((150, 3)) < 0.01, math.nan, S))
    np.save(folder / "object.npy", np.array([[{}, 1]], dtype=object), allow_pickle=True)
    np.savez(folder / "archive.npz", S)
    (folder / "empty.npy").write_bytes(b"")
    good = (folder / "x.npy").read_bytes()
    (folder / "torn.npy").write_bytes(good[:100])
    (folder / "lies.npy").write_bytes(good.replace(b"(150, 3)", b"(9" + b"9" * 3 + b", 3)")[: len(good)])
    (folder / "text.npy").write_text("not an array")
    (folder / "a_folder").mkdir(exist_ok=True)
    (folder / "broken_module.py").write_text("1 / 0")
    (folder / "exiting_module.py").write_text("raise RuntimeError('no\\nmodule')")
    os.mkfifo(folder / "pipe.npy")


def mutated_plan(rng, i, folder):
    """Write a plan, every sixth with broken text, and return its path."""
    path = folder / f"plan{i}.toml"
    content = _plan(rng).encode()
    path.write_bytes(_broken(content, rng) if i % 6 == 5 else content)
    return path


def _plan(rng):
    top = {"seeds": "2", "times": "2"}
    kind = rng.choice(KINDS) if rng.random() < 0.5 else "sparse_uniform"
    data = {"kind": f'"{kind}"'}
    if kind == "file":
        data |= {"mixtures": '"x.npy"', "sources": '"s.npy"'}
    elif kind != "images":
        data |= {"d": "3", "T": "150"} | ({"rho": "0.3"} if kind == "copula_uniform" else {})
    name = rng.choice(NAMES[:5] if rng.random() < 0.8 else NAMES)
    network, own = {"name": f'"{name}"'}, _parameters(name)
    params, grid = {}, {}
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        target, names = rng.choice(
            [
                (top, ("seeds", "times", "dtype", "nosuch", "data", "network")),
                (data, FILE_KEYS if kind == "file" else DATA_KEYS),
                (data, ("d", "T", "epochs", "n_mixtures", "mixing")),
                (network, ("name", "label", "published", "nosuch")),
                (params, own),
                (params, own),
                (grid, own),
            ]
        )
        key = rng.choice(names)
        value = rng.choice(EXTREMES.get(key, VALUES) if rng.random() < 0.8 else VALUES)
        if key in ("mixtures", "sources"):
            value = f'"{rng.choice(FILES)}"'
        target[key] = f"[{value}, {rng.choice(VALUES)}]" if target is grid and rng.random() < 0.8 else value
    network |= {name: _inline(table) for name, table in (("params", params), ("grid", grid)) if table}
    parts = [_lines(top)]
    parts += [] if "data" in top else ["[[data]]\n" + _lines(data)]
    parts += [] if "network" in top else ["[[network]]\n" + _lines(network)]
    return "".join(parts)


def _parameters(name):
    """The parameters of an estimator but those that may make a run last for years, or any."""
    found = inspect.signature(getattr(bionica, name)).parameters if hasattr(bionica, name) else EXTREMES
    return [key for key in found if key in EXTREMES] + ["nosuch", "random_state"]


def _lines(table):
    return "".join(f"{key} = {value}\n" for key, value in table.items())


def _inline(table):
    return "{ " + ", ".join(f"{key} = {value}" for key, value in table.items()) + " }"


def _broken(content, rng):
    """Damage the text."""
    at = rng.randrange(len(content))
    n = rng.randrange(1, 30)
    return rng.choice(
        [
            content[:at],
            content[:at] + rng.randbytes(n) + content[at + n :],
            content[:at] + bytes(n) + content[at:],
            content + content,
            content.decode(errors="replace").encode("utf-16"),
            b"a." * 3000 + b"b = 1\n" + content,
            b"[" + b"a." * 500 + b"b]\n" + content,
            b"x = " + b"{ a = " * 3000 + b"1" + b" }" * 3000,
            b"x = 1" + b"0" * 100_000,
            b"# " + b"x" * 9_000_000,
        ]
    )
