"""`load` is a door: whatever a file holds, it is refused with one exception and a reason, or it is a model that works."""

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import bionica
from bionica.io import ModelFileError, read_model, write_model
from conftest import mixtures

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from model_zip import npy, pack, unpack


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model"


def refused(path, match=None):
    began = time.perf_counter()
    with pytest.raises(ModelFileError, match=match) as caught:
        bionica.load(path)
    assert str(path) in str(caught.value)
    return time.perf_counter() - began


def waiting_network():
    return bionica.TwoCompartmentNICA(3, random_state=0).partial_fit(mixtures(20, 3, 4)[1])


@pytest.mark.parametrize("shape", [(20, 999), (20, 3), (20,), (0, 4), (500, 4), (2, 20, 4)])
def test_waiting_samples_have_the_width_and_number_of_the_network(path, shape):
    waiting_network().save(path)
    header, arrays = read_model(path)
    write_model(path, header, {**arrays, "waiting": np.ones(shape)})
    refused(path, "waiting|wait")


def test_a_small_file_that_declares_a_large_array_takes_no_memory(path):
    header, arrays = unpack(saved_bytes(path, bionica.StreamingNICA(3, random_state=0).fit(mixtures(100, 3)[1])))
    name, *_ = arrays
    for shape in ("(300000000,)", "(300000000, 300000000)", "(10000000000000000000000,)"):
        text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
        content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
        rest = {key: a for key, a in arrays.items() if key != name}
        path.write_bytes(pack(header, rest, members={f"{name}.npy": content}))
        refused(path, "declares|shape")
    for k in (3 * 10**8, -1, 0, 2.0, "3", None, True):
        path.write_bytes(pack({**header, "n_features": k}, arrays))
        refused(path)


def saved_bytes(path, model):
    model.save(path)
    return path.read_bytes()


def test_a_bomb_is_refused_before_it_is_inflated(path):
    header, arrays = unpack(saved_bytes(path, bionica.NonnegativePCA(2, random_state=0).fit(mixtures(60, 3)[1])))
    zeros = npy(np.zeros(2**17))
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path.write_bytes(pack(header, arrays, members={"state/x.npy": zeros}, compression=method))
        refused(path, "compressed")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_what_is_no_file_is_refused_at_once(path, tmp_path):
    os.mkfifo(path)
    assert refused(path, "is a pipe") < 2
    refused(tmp_path, "is a folder")
    for device in ("zero", "null", "urandom"):
        link = tmp_path / device
        link.symlink_to(f"/dev/{device}")
        assert refused(link, "is a device") < 2
    empty = tmp_path / "empty"
    empty.touch()
    refused(empty, "not a complete bionica model")
    with pytest.raises(FileNotFoundError):
        bionica.load(tmp_path / "missing")


FITS = {
    "BatchNICA": lambda X: bionica.BatchNICA(3, random_state=0).fit(X),
    "OfflineNICA": lambda X: bionica.OfflineNICA(3, max_iter=5, random_state=0).fit(X),
    "NoncenteredWhitener": lambda X: bionica.NoncenteredWhitener(3).fit(X),
    "MinimumVolumeCone": lambda X: bionica.MinimumVolumeCone(3, random_state=0).fit(X),
    "StreamingNICA": lambda X: bionica.StreamingNICA(3, random_state=0).fit(X),
    "InterneuronNICA": lambda X: bionica.InterneuronNICA(3, random_state=0).fit(X),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FITS)
def test_nan_foreign_dtypes_and_wrong_shapes_are_refused_in_every_array(path, kind):
    header, arrays = unpack(saved_bytes(path, FITS[kind](mixtures(300, 3, 4)[1])))
    free = ("stream/kept/reach", "wall/c")  # where infinity or NaN has a meaning
    for name, a in arrays.items():
        spoiled = [a.astype(np.float16), a.astype(complex), a[np.newaxis], np.full(a.shape, "x")]
        if a.dtype.kind == "f" and a.size and not name.endswith(free):
            nan = a.copy()
            nan.flat[0] = np.nan
            spoiled += [nan, np.full_like(a, np.inf)]
        for b in spoiled:
            path.write_bytes(pack(header, arrays | {name: b}))
            refused(path)
        path.write_bytes(pack(header, {key: b for key, b in arrays.items() if key != name}))
        refused(path)
    path.write_bytes(pack(header, arrays | {"more": np.zeros(3)}))
    refused(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FITS)
def test_the_other_byte_order_is_read(path, kind):
    _, X = mixtures(300, 3, 4)
    model = FITS[kind](X)
    header, arrays = unpack(saved_bytes(path, model))
    path.write_bytes(pack(header, {name: a.astype(a.dtype.newbyteorder(">")) for name, a in arrays.items()}))
    np.testing.assert_array_equal(bionica.load(path).transform(X), model.transform(X))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("settle_steps", 10**15), ("n_components", 2), ("n_components", 10**9), ("n_components", None), ("n_interneurons", 9),
        ("horizon", 10**30), ("random_state", -1), ("eta0", float("nan")), ("eta0", float("inf")), ("guards", [[]]),
        ("guards", ["x"]),
        ("init", ["W_xy"]), ("precondition", "scale"), ("dynamics", 3), ("unknown", 1), ("n_epochs", 0), ("shuffle", []),
    ],
)  # fmt: skip
def test_parameters_agree_with_the_weights_and_with_what_a_machine_can_do(path, name, value):
    header, arrays = unpack(saved_bytes(path, bionica.InterneuronNICA(3, random_state=0).fit(mixtures(100, 3, 4)[1])))
    header["parameters"][name] = value
    path.write_bytes(pack(header, arrays))
    refused(path)


def test_overrides_cannot_contradict_the_weights(path):
    network = bionica.InterneuronNICA(3, random_state=0).fit(mixtures(100, 3, 4)[1])
    network.save(path)
    for override in (
        {"n_components": 2},
        {"n_interneurons": 5},
        {"precondition": None},
        {"n_components": "auto", "n_interneurons": 7},
    ):
        with pytest.raises(ModelFileError, match=r"contradict.*can be changed: average.*horizon"):
            bionica.load(path, **override)
    assert bionica.load(path, n_components=3, horizon=50, average=False).horizon == 50
    with pytest.raises(ValueError, match="settle_steps"):
        bionica.load(path, settle_steps=10**15)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state/t", -5),
        ("state/t", 2**62),
        ("state/rng", 0),
        ("state/repairs", -3),
        ("state/inp.run", -(2**63)),
        ("state/inp.n", 2**63 - 1),
    ],
)
def test_counters_stay_where_they_count(path, name, value):
    header, arrays = unpack(saved_bytes(path, bionica.InterneuronNICA(3, random_state=0).fit(mixtures(100, 3, 4)[1])))
    path.write_bytes(pack(header, arrays | {name: np.full_like(arrays[name], value)}))
    refused(path, name.partition("/")[2])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("facet", 10**9),
        ("facet", -1),
        ("facet", 0.5),
        ("rates", np.inf),
        ("rates", 0.0),
        ("chance", 0.0),
        ("chance", 2.0),
        ("number", -1.0),
    ],
)
def test_kept_samples_of_a_cone_stay_in_bounds(path, field, value):
    X = np.random.default_rng(0).dirichlet([0.5] * 3, size=400) @ np.random.default_rng(1).random((3, 5))
    X += 0.01 * np.random.default_rng(2).standard_normal(X.shape)
    header, arrays = unpack(saved_bytes(path, bionica.MinimumVolumeCone(3, random_state=0).fit(X)))
    name = f"_stream/kept/{field}"
    assert arrays[name].size
    path.write_bytes(pack(header, arrays | {name: np.full_like(arrays[name], value)}))
    refused(path)


def test_headers_that_break_parsers_are_refused(path):
    header, arrays = unpack(saved_bytes(path, waiting_network()))
    texts = [
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"\xff\xfe\x00",
        b"null",
        b'{"format": 1e400}',
        b'{"format": ' + b"9" * 5000 + b"}",
        b"{}" + b" " * 2**23,
    ]
    for text in texts:
        path.write_bytes(pack(header, arrays, text=text))
        refused(path)
    for field in ("class", "parameters", "rule", "n_features"):
        for value in (None, 3, [], {}, "x", -1.5, True):
            if (field, value) != ("parameters", {}):  # all of them have defaults
                path.write_bytes(pack({**header, field: value}, arrays))
                refused(path)
    for names in (["a"], "abcd", [1, 2, 3, 4], {"a": 1}):
        path.write_bytes(pack({**header, "feature_names": names}, arrays))
        refused(path, "feature_names")


@pytest.mark.slow
def test_a_crafted_model_never_reaches_memory_that_is_not_its_own(path):
    """The reproducer of a crash: in a process of its own, because a crash would end this one."""
    header, arrays = unpack(saved_bytes(path, waiting_network()))
    path.write_bytes(pack(header, arrays | {"waiting": np.ones((1, 200_000))}))
    code = (
        "import bionica, sys, numpy as np\n"
        f"try: bionica.load({str(path)!r}).transform(np.ones((2, 4)))\n"
        "except bionica.ModelFileError: sys.exit(3)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 3


def test_settling_ends_between_calls(monkeypatch):
    """Dynamics that never settle: no compiled call takes more samples than a second allows."""
    from bionica.estimators import _streaming

    rows = []
    real = _streaming.run
    monkeypatch.setattr(
        _streaming, "run", lambda state, params, X, *rest: (rows.append(len(X)), real(state, params, X, *rest))[1]
    )
    monkeypatch.setattr(_streaming, "_CALL_PRODUCTS", 10**5)
    network = bionica.TwoCompartmentNICA(
        3, precondition=None, dynamics="gradient", settle_steps=500, eta0=1e-3, random_state=0
    )
    network.partial_fit(mixtures(100, 3)[1])
    assert max(rows) == 10**5 // (500 * 2 * 9)
