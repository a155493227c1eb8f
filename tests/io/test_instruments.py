"""Files of instruments: laid out by the description of the format (JCAMP-DX, SPC,
ENVI), or written by flowio (FCS); of the others what we do with the answers of their
packages. `benchmarks/instruments.py` reads files that instruments wrote.
"""

import struct
import sys
import warnings
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bionica.io import InputError, Measurement, open_reader, register

X = np.round(np.random.default_rng(0).random((3, 6)), 4)
WAVENUMBERS = [400.0, 402.0, 404.0, 406.0, 408.0, 410.0]


def jcamp_text(y, title="sample", first=400.0, last=410.0, table="(X++(Y..Y))"):
    """JCAMP-DX 4.24, section 5 and 6: labelled data records, AFFN, two lines of
    ordinates.
    """
    values = [
        f"{first} " + " ".join(f"{v * 1e4:.0f}" for v in y[:3]),
        f"{first + 6} " + " ".join(f"{v * 1e4:.0f}" for v in y[3:]),
    ]
    records = {
        "TITLE": title,
        "JCAMP-DX": "4.24",
        "DATA TYPE": "INFRARED SPECTRUM",
        "XUNITS": "1/CM",
        "YUNITS": "ABSORBANCE",
        "FIRSTX": first,
        "LASTX": last,
        "XFACTOR": "1.0",
        "YFACTOR": "0.0001",
        "NPOINTS": len(y),
        "FIRSTY": y[0],
        "XYDATA": table,
    }
    return (
        "\n".join(
            [*(f"##{key}={value}" for key, value in records.items()), *values, "##END="]
        )
        + "\n"
    )


def test_jcamp_dx_by_its_description(tmp_path):
    paths = [tmp_path / f"{i}.jdx" for i in range(3)]
    for path, y in zip(paths, X, strict=True):
        path.write_text(jcamp_text(y))
    numbers, labels, reader = opened(paths)
    assert_allclose(numbers, X, atol=1e-12)
    assert_array_equal(reader.wavelengths, WAVENUMBERS)
    assert reader.unit == "1/CM" and reader.label_names == ["sample"]
    assert labels == ["0.jdx", "1.jdx", "2.jdx"]
    blocks = "".join(jcamp_text(y, f"s{i}") for i, y in enumerate(X))
    # with a block that links them, or without
    linked = f"##TITLE=all\n##DATA TYPE=LINK\n##BLOCKS=3\n{blocks}##END=\n"
    for text in (linked, blocks):
        (tmp_path / "all.dx").write_text(text)
        numbers, labels, _ = opened(tmp_path / "all.dx")
        assert_allclose(numbers, X, atol=1e-12)
        assert labels == ["s0", "s1", "s2"]


def test_jcamp_dx_that_contradicts_itself_is_refused(tmp_path):
    (tmp_path / "x.jdx").write_text(jcamp_text(X[0]).replace("NPOINTS=6", "NPOINTS=7"))
    with pytest.raises(InputError, match=r"contradicts itself: "):
        open_reader(tmp_path / "x.jdx")
    (tmp_path / "a.jdx").write_text(jcamp_text(X[0]))
    (tmp_path / "b.jdx").write_text(jcamp_text(X[0], first=500.0, last=510.0))
    with pytest.raises(
        InputError, match=r"b.jdx has another axis than .*a.jdx: interpolate"
    ):
        open_reader([tmp_path / "a.jdx", tmp_path / "b.jdx"])


def packed_jcamp(path, lines, n, **more):
    records = {
        "TITLE": "packed",
        "FIRSTX": 0,
        "LASTX": n - 1,
        "NPOINTS": n,
        "YFACTOR": "0.5 $$ of the detector",
        **more,
    }
    head = "\n".join(f"##{key}= {value}" for key, value in records.items())
    path.write_text(
        f"{head}\n##XYDATA= (X++(Y..Y))\n" + "\n".join(lines) + "\n##END=\n\x1a"
    )
    return path


RAMP = [1, 2, 3, 3, 2, 1, 0, -1, -2, -3]


def opened(path):
    """The numbers of a file, the first of its labels, and its reader."""
    with open_reader(path) as reader:
        numbers = reader.read()
        labels = [column.tolist() for column in next(reader.labelled_blocks())[1]]
    return numbers, labels[0] if labels else None, reader


@pytest.mark.parametrize(
    ("lines", "y"),
    [
        (["0 1 2 3 3 2 1", "6 0 -1 -2 -3"], RAMP),
        (["0+1+2+3+3+2 $$ a comment", "5+1+0-1-2-3"], RAMP),
        (["0 1e0 2.0E+00,30e-1 3 2 1 0 -1 -2 -3"], RAMP),
        (["0ABCCBA", "6@abc"], RAMP),
        (["0ABCTBA", "6@abc"], RAMP),
        # the second line repeats the last ordinate of a difference
        (["0AJT%jU", "6@jU"], RAMP),
        (["0AJT%jX"], RAMP),
        (["0AJT%jX", "9c"], RAMP),
        (["0A23K5j0S", "2A38T", "3A40"], [123, 148, 138, 138, 140]),
        # a digit: an exponent only in tables without other packed digits
        (["0e12%"], [-512, -512]),
    ],
)
def test_jcamp_dx_packs_ordinates_in_every_form_of_its_description(tmp_path, lines, y):
    with open_reader(
        packed_jcamp(tmp_path / "x.jdx", lines, len(y), YUNITS="ABSORBANCE")
    ) as reader:
        assert_array_equal(reader.read(), [np.array(y) / 2])
        assert reader.notes == ["the numbers are ABSORBANCE"]


@pytest.mark.parametrize(
    ("lines", "n"),
    [
        # begins with another ordinate than the line before ends with
        (["0AJT%jU", "6AjU"], 10),
        (["0ABCCBA", "9@abc"], 10),  # begins at another abscissa
        (["0As9999999999"], 10),
        (["0ABC"], 10),
    ],
)
def test_jcamp_dx_checks_its_lines(tmp_path, lines, n):
    with pytest.raises(InputError, match=r"contradicts itself"):
        open_reader(packed_jcamp(tmp_path / "x.jdx", lines, n))


def test_jcamp_dx_reads_all_tables_or_none(tmp_path):
    path = tmp_path / "x.dx"
    path.write_text(jcamp_text(X[0]) + jcamp_text(X[1], first=500.0, last=510.0))
    with pytest.raises(InputError, match=r"holds 2 spectra with different axes"):
        open_reader(path)
    table = "##NTUPLES=NMR SPECTRUM\n##DATA TABLE=(X++(R..R)), XYDATA\n0 1 2\n"
    path.write_text(f"##TITLE=x\n{table}##END=\n")
    with pytest.raises(InputError, match=r"NTUPLES are not read"):
        open_reader(path)


def spc_bytes(X):
    """The header of 512 bytes, version 4B, even axis in wavenumbers from 400 to 410;
    subfiles of 32 bytes and float32.
    """
    kinds = "<BBBbi2diBBBBi9s9sH32s130s30siiBBhf48sfifB187s"
    blank = [b""] * 3
    numbers = [4, 0x4B, 0, -128, X.shape[1], 400.0, 410.0, len(X), 1, 2, 0, 0, 0]
    values = [*numbers, *blank[:2], 0, *blank, *[0] * 6, b"", *[0] * 4, b""]
    content = struct.pack(kinds, *values)
    for i, y in enumerate(X):
        content += (
            struct.pack("<Bbhfffiif4s", 0, -128, i, i, i + 1, 0, 0, 0, 0, b"")
            + y.astype("<f4").tobytes()
        )
    return content


def test_spc_by_its_description(tmp_path):
    pytest.importorskip("spc_io")
    (tmp_path / "x.spc").write_bytes(spc_bytes(X))
    numbers, labels, reader = opened(tmp_path / "x.spc")
    assert_allclose(numbers, X, atol=1e-6)
    assert_allclose(reader.wavelengths, WAVENUMBERS)
    assert reader.unit == "cm-1"
    assert labels == ["z 0", "z 1", "z 2"]


@pytest.fixture
def fcs(tmp_path):
    """Write events with flowio."""
    flowio = pytest.importorskip("flowio")

    def fcs(events, names):
        with (tmp_path / "x.fcs").open("wb") as file:
            flowio.create_fcs(file, np.ravel(events).tolist(), names)
        return tmp_path / "x.fcs"

    return fcs


def test_fcs_as_flowio_writes_it(fcs, rng):
    events = np.column_stack([np.arange(5.0), rng.random((5, 3)).astype(np.float32)])
    numbers, times, reader = opened(fcs(events, ["Time", "FSC-A", "B530-A", "R660-A"]))
    assert reader.names == ["B530-A", "R660-A"]
    assert reader.label_names == ["Time", "FSC-A"]
    assert_allclose(numbers, events[:, 2:], rtol=1e-6)
    assert "column 2 (scatter)" in reader.notes[0]
    assert [float(time) for time in times] == [0, 1, 2, 3, 4]


def test_fcs_numbers_that_are_said_to_be_logarithms(fcs):
    events = [[400.0, 100.0, 2.0], [600.0, 1000.0, 3.0]]
    path = fcs(events, ["A", "B", "B log"])
    content = path.read_bytes()
    start = content.index(b"0,0", content.index(b"P3E"))
    path.write_bytes(content[:start] + b"4,1" + content[start + 3 :])
    _, labels, reader = opened(path)
    assert reader.names == ["A", "B"]
    assert [float(label) for label in labels] == [2, 3]
    with open_reader(path, use="1-3") as reader:
        assert_array_equal(reader.read(), events)


def stub(monkeypatch, package, name, content):
    module = ModuleType(package)
    setattr(module, name, lambda path: content)
    monkeypatch.setitem(sys.modules, package, module)


def test_opus_reads_the_result_and_names_the_rest(tmp_path, monkeypatch):
    unit = SimpleNamespace(dxu="WN")
    blocks = {
        key: SimpleNamespace(
            key=key, label=f"label of {key}", x=WAVENUMBERS, y=y, params=unit
        )
        for key, y in (("igsm", X[2]), ("sm", X[1]), ("a", X[0]))
    }
    content = SimpleNamespace(all_data_keys=list(blocks), **blocks)
    stub(monkeypatch, "brukeropus", "read_opus", content)
    paths = [tmp_path / f"x.{number}" for number in ("0", "0012")]
    for path in paths:
        path.write_bytes(b"\n\n\xfe\xfe")
    numbers, labels, reader = opened(paths)
    assert_array_equal(numbers, X[[0, 0]])
    assert labels == ["x.0", "x.0012"]
    assert reader.unit == "cm-1"
    left_out = "left out: label of igsm, label of sm"
    assert reader.notes == [f"the numbers are label of a; {left_out}"]


def test_omnic(tmp_path, monkeypatch):
    content = SimpleNamespace(
        data=X,
        x=WAVENUMBERS,
        x_units="cm^-1",
        title="absorbance",
        y_labels=([], ["a", "b", "c"]),
    )
    stub(monkeypatch, "spectrochempy_omnic", "OMNICReader", content)
    (tmp_path / "x.SPG").write_bytes(b"Spectral Exte File")
    numbers, _, reader = opened(tmp_path / "x.SPG")
    assert_array_equal(numbers, X)
    assert reader.unit == "cm^-1" and reader.notes == ["the numbers are absorbance"]


def test_wire(tmp_path, monkeypatch):
    content = SimpleNamespace(
        spectra=X.reshape(3, 1, 6),
        point_per_spectrum=6,
        xdata=WAVENUMBERS,
        xlist_unit="1/cm",
        spectral_unit="counts",
        is_completed=False,
        count=3,
        capacity=9,
        xpos=[0.0, 0.5, 1.0],
        ypos=[0.0] * 3,
        close=lambda: None,
    )
    stub(monkeypatch, "renishawWiRE", "WDFReader", content)
    (tmp_path / "x.wdf").write_bytes(b"WDF1")
    numbers, labels, reader = opened(tmp_path / "x.wdf")
    assert_array_equal(numbers, X)
    assert labels == ["x 0 y 0", "x 0.5 y 0", "x 1 y 0"]
    stopped = "the measurement was stopped after 3 of 9 spectra"
    assert reader.notes == [f"the numbers are counts; {stopped}"]


def envi(path, cube, interleave, **more):
    """The header of the ENVI format, and its numbers in the order that it declares."""
    order = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}[interleave]
    numbers = np.ascontiguousarray(cube.transpose(order), "<f4")
    path.with_suffix(".img").write_bytes(numbers.tobytes())
    lines, samples, bands = cube.shape
    header = f"samples = {samples}\nlines = {lines}\nbands = {bands}\n"
    header += "header offset = 0\nfile type = ENVI Standard\ndata type = 4\n"
    header += f"interleave = {interleave}\nbyte order = 0\nwavelength units = nm\n"
    header += "".join(f"{key} = {value}\n" for key, value in more.items())
    wavelengths = ", ".join(map(str, WAVENUMBERS[:bands]))
    path.write_text(f"ENVI\n{header}wavelength = {{{wavelengths}}}\n")


@pytest.mark.parametrize("interleave", ["bsq", "bil", "bip"])
def test_envi_by_its_description(tmp_path, interleave, rng):
    pytest.importorskip("spectral")
    cube = rng.random((4, 5, 6))
    envi(tmp_path / "x.hdr", cube, interleave)
    files = set()

    def hook(event, arguments):
        if event == "open" and "x." in str(arguments[0]):
            files.add(str(arguments[0]))

    sys.addaudithook(hook)
    with open_reader(tmp_path / "x.hdr") as reader:
        assert_allclose(reader.read(), cube.reshape(-1, 6), rtol=1e-6)
        assert reader.image_shape == (4, 5) and reader.unit == "nm"
        assert_array_equal(reader.wavelengths, WAVENUMBERS)
    assert files == {str(tmp_path / "x.hdr"), str(tmp_path / "x.img")}


def test_envi_that_is_not_complete_is_refused(tmp_path):
    pytest.importorskip("spectral")
    envi(tmp_path / "x.hdr", np.ones((4, 5, 6)), "bsq", **{"data ignore value": -9999})
    (tmp_path / "x.img").write_bytes((tmp_path / "x.img").read_bytes()[:-1])
    with pytest.raises(InputError, match=r"declares 480 bytes, and x.img has fewer"):
        open_reader(tmp_path / "x.hdr")
    (tmp_path / "x.img").unlink()
    with pytest.raises(InputError, match=r"needs one file of its name beside it"):
        open_reader(tmp_path / "x.hdr")


@pytest.mark.parametrize("suffix", ["jdx", "spc", "fcs", "hdr", "0", "spa", "wdf"])
def test_other_bytes_and_a_missing_package_are_said_in_one_sentence(
    tmp_path, monkeypatch, suffix
):
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(b"no file of this instrument" * 40)
    path.with_suffix(".img").write_bytes(b"")
    with pytest.raises(InputError, match=r"^[^\n]+$"):
        open_reader(path)
    packages = "spc_io flowio spectral.io.envi spectral brukeropus spectrochempy_omnic"
    for name in (*packages.split(), "renishawWiRE"):
        monkeypatch.setitem(sys.modules, name, None)
    message = r"pip install 'bionica\[instruments\]'"
    if suffix == "jdx":
        message = "holds no XYDATA"
    with pytest.raises(InputError, match=message):
        open_reader(path)


@pytest.mark.parametrize(
    ("shape", "image", "notes"),
    [
        ((3, 6), None, []),
        (
            (3, 1, 6),
            (3, 1),
            ["a cube of 3 x 1 pixels; its last axis is that of the mixtures"],
        ),
    ],
)
def test_a_registered_suffix(tmp_path, shape, image, notes):
    """Warnings of its package are notes too."""

    def read_test(path):
        warnings.warn(f"{path} is odd", stacklevel=1)
        warnings.warn("a name is old", DeprecationWarning, stacklevel=1)
        return Measurement(X.reshape(shape), WAVENUMBERS, notes=["read by hand"])

    register(".TEST", read_test)
    (tmp_path / "x.test").write_text("")
    numbers, _, reader = opened(tmp_path / "x.test")
    assert_array_equal(numbers, X)
    assert_array_equal(reader.wavelengths, WAVENUMBERS)
    assert reader.image_shape == image
    assert sorted(reader.notes) == sorted([*notes, "read by hand", "x.test is odd"])
