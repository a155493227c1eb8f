"""Nothing that a command reads, and nothing that it did not write, is lost to its
outputs; several processes may write one file.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import bionica
from bionica.cli import app
from bionica.core.files import write_atomically
from bionica.io import (
    OutputError,
    Target,
    check_folder,
    check_targets,
    open_writer,
)
from conftest import left, mixtures, read


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with mixtures, which is the current one."""
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", mixtures(400, 3, 3)[1])
    return tmp_path


def refused(*names, inputs=("in.npy",)):
    """Return why these outputs are refused, although they may replace files."""
    with pytest.raises(OutputError) as error:
        check_targets(
            [Target("-o", Path(name), replace=True) for name in names],
            [Path(name) for name in inputs],
        )
    assert "\n" not in str(error.value)
    return str(error.value)


# --- outputs and inputs


@pytest.mark.parametrize(
    "other", ["s.npy", "./s.npy", "below/../s.npy", "link/s.npy", "s.npy/inside"]
)
@pytest.mark.parametrize("exists", [True, False])
def test_two_outputs_are_never_one_file(folder, other, exists):
    (folder / "below").mkdir()
    (folder / "link").symlink_to(folder)
    if exists:
        (folder / "s.npy").touch()
    assert "the same file" in refused("s.npy", other)
    assert "the same file" in refused(other, "s.npy")


@pytest.mark.parametrize(
    "name",
    [
        "in.npy",
        "./in.npy",
        "below/../in.npy",
        "symbolic.npy",
        "hard.npy",
        "link/in.npy",
    ],
)
def test_no_output_is_the_input(folder, name):
    (folder / "below").mkdir()
    (folder / "symbolic.npy").symlink_to("in.npy")
    (folder / "hard.npy").hardlink_to("in.npy")
    (folder / "link").symlink_to(folder)
    assert "in.npy are the same file" in refused("s.npy", name)
    before = (folder / "in.npy").read_bytes()
    command = ["separate", "in.npy", "--force", "--sources", "2"]
    for outputs in (
        ["-o", name],
        ["-o", "s.npy", "--model", name],
        ["-o", "s.npy", "--report", name],
        ["-o", "s.npy", "--mixing", name],
    ):
        result = CliRunner().invoke(app, [*command, *outputs])
        assert result.exit_code == 1, result.output
        assert (folder / "in.npy").read_bytes() == before


def test_stores_and_the_files_in_them(folder):
    pytest.importorskip("zarr")
    with open_writer(Path("x.zarr"), 2, float) as writer:
        writer.write(np.ones((5, 2)))
    for name in ("x.zarr", "x.zarr/zarr.json", "x.zarr/page.html"):
        assert "the same file" in refused(name, inputs=["x.zarr"])
    assert "one is in the other" in refused("x.zarr", inputs=["x.zarr/zarr.json"])


def test_standard_input_from_a_file_is_an_input(folder):
    before = os.dup(0)
    with Path("in.npy").open("rb") as file:
        os.dup2(file.fileno(), 0)
    try:
        assert "the same file" in refused("in.npy", inputs=["/dev/stdin"])
    finally:
        os.dup2(before, 0)
        os.close(before)


def test_an_existing_file_is_replaced_only_if_asked(folder):
    mine = Path("mine.csv")
    mine.write_text("mine")
    with pytest.raises(OutputError, match=r"exists already: .* force=True"):
        check_targets([Target("-o", mine)])
    check_targets([Target("-o", mine, replace=True)])
    with pytest.raises(OutputError, match="exists already"):
        check_folder(folder, ["mine.csv"])
    check_folder(folder, ["mine.csv"], replace=True)
    with pytest.raises(OutputError, match="the same file"):
        check_folder(folder, ["mine.csv"], [mine], replace=True)
    with pytest.raises(OutputError, match="give a folder"):
        check_folder(folder / "mine.csv" / "below", ["a.csv"])
    check_folder(folder / "new" / "below", ["a.csv"])
    assert mine.read_text() == "mine"


def test_what_is_no_regular_file_is_never_replaced(folder):
    pytest.importorskip("zarr")
    for name in ("d.npy", "d.zarr"):
        (folder / name).mkdir()
        (folder / name / "zarr.json").write_text('{"attributes": {}}')
        assert "is a folder" in refused(name)
    writer = open_writer(Path("d.zarr"), 2, float)
    with pytest.raises(FileExistsError), writer as opened:
        opened.write(np.ones((5, 2)))
    os.mkfifo("p")
    assert "a pipe" in refused("p")
    (folder / "loop.npy").symlink_to("loop.npy")
    assert "a link to itself" in refused("loop.npy")
    network = bionica.StreamingNICA(2, random_state=0).fit(np.load("in.npy")[:50])
    with pytest.raises(OSError, match="not a regular file"):
        network.save("p")
    assert (folder / "p").is_fifo()


# --- links and permissions


def test_links_are_followed_and_stay(folder):
    (folder / "elsewhere").mkdir()
    (folder / "s.npy").symlink_to("elsewhere/target.npy")
    for i in range(2):
        with open_writer(Path("s.npy"), 2, float) as writer:
            writer.write(np.full((5, 2), i))
        assert (folder / "s.npy").is_symlink()
        assert np.load("elsewhere/target.npy")[0, 0] == i
    assert left(folder / "elsewhere") == ["target.npy"]


def test_permissions_are_those_of_the_file_before_or_of_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", b"1")
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
        (tmp_path / "new").chmod(0o604)
        write_atomically(tmp_path / "new", b"2")
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o604
    finally:
        assert os.umask(old) == 0o027


# --- several writers


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".npz", ".h5", ".parquet"])
def test_a_second_writer_does_not_disturb_the_first(tmp_path, suffix):
    """The first is in the middle when the second begins, and ends when the second is in
    the middle.
    """
    pytest.importorskip({".parquet": "pyarrow", ".h5": "h5py"}.get(suffix, "numpy"))
    path = tmp_path / f"shared{suffix}"
    one, two = np.repeat([[[1.0] * 3], [[2.0] * 3]], 5000, axis=1)
    with open_writer(path, 3, "float64") as second:
        with open_writer(path, 3, "float64") as first:
            first.write(one[:2000])
            second.write(two[:3000])
            first.write(one[2000:])
        assert np.array_equal(read(path), one)
        second.write(two[3000:])
    assert np.array_equal(read(path), two)
    assert left(tmp_path) == [path.name]


def test_a_format_that_cannot_be_written_is_refused(tmp_path):
    path = tmp_path / "y.mat"
    with (
        pytest.raises(OutputError, match="give a file with"),
        open_writer(path, 2, float),
    ):
        pass
    assert not path.exists()
