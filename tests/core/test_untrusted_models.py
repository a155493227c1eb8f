"""`load` is a door: whatever a file holds, it is refused with one exception and a
reason, or it is a model that works.
"""

import os
import zipfile

import numpy as np
import pytest

import bionica
from bionica import ModelFileError
from conftest import mixtures
from model_zip import npy, pack, unpack


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model"


def refused(path, array=""):
    with pytest.raises(ModelFileError) as caught:
        bionica.load(path)
    assert str(path) in str(caught.value)
    assert array in str(caught.value)


def test_a_small_file_that_declares_a_large_array_takes_no_memory(path):
    header, arrays = saved(path, "StreamingNICA")
    name, *_ = arrays
    rest = {key: a for key, a in arrays.items() if key != name}
    for shape in ("(300000000,)", "(300000000, 300000000)", f"({10**22},)"):
        text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n"
        content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little")
        content += text.encode()
        path.write_bytes(pack(header, rest, members={f"{name}.npy": content}))
        refused(path, name)
    for k in (3 * 10**8, -1, 0, 2.0, "3", None, True):
        path.write_bytes(pack({**header, "n_features": k}, arrays))
        refused(path)


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_a_bomb_is_refused_before_it_is_inflated(path, method):
    bomb = {"state/x.npy": npy(np.zeros(2**17))}
    model = saved(path, "InterneuronNICA")
    path.write_bytes(pack(*model, members=bomb, compression=method))
    refused(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_what_is_no_file_is_refused_at_once(path, tmp_path):
    os.mkfifo(path)
    refused(path)
    refused(tmp_path)
    for device in ("zero", "null", "urandom"):
        link = tmp_path / device
        link.symlink_to(f"/dev/{device}")
        refused(link)
    empty = tmp_path / "empty"
    empty.touch()
    refused(empty)
    with pytest.raises(FileNotFoundError):
        bionica.load(tmp_path / "missing")


FITS = {
    "BatchNICA": bionica.BatchNICA(3, random_state=0),
    "NoncenteredWhitener": bionica.NoncenteredWhitener(3),
    "MinimumVolumeCone": bionica.MinimumVolumeCone(3, random_state=0),
    "StreamingNICA": bionica.StreamingNICA(3, random_state=0),
    "InterneuronNICA": bionica.InterneuronNICA(3, random_state=0),
    "waiting": bionica.StreamingNICA("auto", random_state=0),
}


def saved(path, kind):
    """The header and the arrays of a model."""
    X = mixtures(300, 3, 4)[1]
    if kind == "waiting":
        FITS[kind].partial_fit(X[:20]).save(path)
    else:
        FITS[kind].fit(X).save(path)
    return unpack(path.read_bytes())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FITS)
def test_nan_foreign_dtypes_and_wrong_shapes_are_refused_in_every_array(path, kind):
    header, arrays = saved(path, kind)
    free = ("_state.limit",)  # where infinity has a meaning
    for name, a in arrays.items():
        spoiled = [
            a.astype(np.float16),
            a.astype(complex),
            a[np.newaxis],
            np.full(a.shape, "x"),
        ]
        if a.dtype.kind == "f" and a.size and not name.endswith(free):
            nan = a.copy()
            nan.flat[0] = np.nan
            spoiled += [nan, np.full_like(a, np.inf)]
        for b in spoiled:
            path.write_bytes(pack(header, arrays | {name: b}))
            refused(path, name)
        path.write_bytes(
            pack(header, {key: b for key, b in arrays.items() if key != name})
        )
        refused(path)
    path.write_bytes(pack(header, arrays | {"more": np.zeros(3)}))
    refused(path, "more")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("settle_steps", 10**15),
        ("n_components", 2),
        ("n_components", 10**9),
        ("n_interneurons", 2),
        ("horizon", 10**30),
        ("random_state", -1),
        ("eta0", float("nan")),
        ("eta0", float("inf")),
        ("guards", [[]]),
        ("guards", ["x"]),
        ("init", ["W_xy"]),
        ("dynamics", 3),
        ("unknown", 1),
        ("n_epochs", 0),
        ("shuffle", []),
    ],
)
def test_parameters_agree_with_the_weights_and_with_what_a_machine_can_do(
    path, name, value
):
    header, arrays = saved(path, "InterneuronNICA")
    header["parameters"][name] = value
    path.write_bytes(pack(header, arrays))
    refused(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (
            "InterneuronNICA",
            {"t": [-5, 2**62], "rng": [0, 2**31], "repairs": [-3]},
        ),
        (
            "MinimumVolumeCone",
            {
                "samples.number": [0.5, np.inf, -1],
                "limit": [-1],
                "rate": [0],
                "channels.scale": [0],
                "channels.rounding": [0],
                "raw.n": [-1],
                "solved": [-1],
            },
        ),
    ],
)
def test_numbers_stay_in_their_range(path, kind, wrong):
    header, arrays = saved(path, kind)
    for field, values in wrong.items():
        name = f"_state.{field}"
        assert arrays[name].size
        for value in values:
            path.write_bytes(
                pack(header, arrays | {name: np.full_like(arrays[name], value)})
            )
            refused(path)


@pytest.mark.parametrize(
    "shape", [(20, 999), (20, 3), (20,), (0, 4), (500, 4), (2, 20, 4), (1, 200_000)]
)
def test_waiting_samples_have_the_width_and_number_of_the_network(path, shape):
    header, arrays = saved(path, "waiting")
    path.write_bytes(pack(header, arrays | {"_waiting": np.ones(shape)}))
    refused(path)


def test_headers_that_break_parsers_are_refused(path):
    header, arrays = saved(path, "InterneuronNICA")
    large = b'{"format": ' + b"9" * 5000 + b"}", b"{}" + b" " * 2**23
    for text in (
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"\xff\xfe\x00",
        b"null",
        *large,
    ):
        path.write_bytes(pack(header, arrays, text=text))
        refused(path)
    for field in ("class", "parameters", "rule", "n_features"):
        for value in (None, 3, [], {}, "x", -1.5, True):
            if (field, value) != ("parameters", {}):  # all of them have defaults
                path.write_bytes(pack({**header, field: value}, arrays))
                refused(path)
    for names in (["a"], "abcd", [1, 2, 3, 4], {"a": 1}):
        path.write_bytes(pack({**header, "feature_names": names}, arrays))
        refused(path)
