"""Nothing that a command reads, and nothing that it did not write, is lost to its outputs."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bionica.cli import app
from bionica.io import OutputError, Target, check_targets, open_writer
from bionica.io.atomic import write_atomically
from conftest import mixtures

SHAPE = (20, 20)


@pytest.fixture(scope="module")
def X():
    return mixtures(400, 3, 3)[1]


@pytest.fixture
def folder(tmp_path, X, monkeypatch):
    """A folder with mixtures, which is the current one."""
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", X)
    return tmp_path


def write(name, X):
    with open_writer(Path(name), X.shape[1], X.dtype, SHAPE) as writer:
        writer.write(X)


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def run(*arguments):
    return CliRunner().invoke(app, ["separate", *map(str, arguments), "--sources", "2"])


def refused(*arguments):
    """Return the error; nothing is changed, and nothing was fitted."""
    before = contents(Path.cwd())
    result = run(*arguments)
    assert result.exit_code == 1, (result.output, result.exception)
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert contents(Path.cwd()) == before
    return result.stderr


@pytest.fixture
def no_reading(monkeypatch):
    def read(*_, **__):
        raise AssertionError("read before the outputs were checked")

    monkeypatch.setattr("bionica.io.open_reader", read)


# ---------------------------------------------------------------------------------------------- outputs and inputs


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize(
    "outputs",
    [
        ["-o", "s.npy", "--report", "s.npy"],
        ["-o", "s.npy", "--model", "s.npy"],
        ["-o", "s.npy", "--model", "m", "--report", "m"],
        ["-o", "s.npy", "--report", "below/../s.npy"],
        ["-o", "s.npy", "--report", "link/s.npy"],
    ],
)
def test_two_outputs_are_never_one_file(folder, no_reading, outputs, force):
    (folder / "below").mkdir()
    (folder / "link").symlink_to(folder)
    assert "are the same file" in refused("in.npy", *outputs, *force)


@pytest.mark.parametrize("option", ["-o", "--model", "--report"])
@pytest.mark.parametrize("name", ["in.npy", "./in.npy", "below/../in.npy", "symbolic.npy", "hard.npy", "link/in.npy"])
def test_no_output_is_the_input(folder, no_reading, option, name):
    (folder / "below").mkdir()
    (folder / "symbolic.npy").symlink_to("in.npy")
    (folder / "hard.npy").hardlink_to("in.npy")
    (folder / "link").symlink_to(folder)
    other = [] if option == "-o" else ["-o", "s.npy"]
    assert "is also the input in.npy" in refused("in.npy", *other, option, name, "--force")


@pytest.mark.parametrize("sources", [["--sources", "2"], ["--sources", "auto"]])
def test_numbered_images_are_never_the_inputs(folder, no_reading, sources, X):
    write("m.png", X)
    images = ["m-1.png", "m-2.png", "m-3.png"]
    before = contents(folder)
    result = CliRunner().invoke(app, ["separate", *images, "-o", "m.png", "--force", *sources])
    assert result.exit_code == 1
    assert "-o m-1.png is also the input m-1.png" in result.stderr
    assert contents(folder) == before


def test_a_store_that_is_read_gets_no_file_inside(folder, no_reading, X):
    pytest.importorskip("zarr")
    write("x.zarr", X)
    for option, name in (("--model", "x.zarr/zarr.json"), ("--report", "x.zarr/page.html"), ("-o", "x.zarr")):
        assert "is also the input x.zarr, or inside it" in refused("x.zarr", option, name, "--force")


def test_standard_input_from_a_file_is_an_input(folder):
    file = os.open("in.npy", os.O_RDONLY)
    before = os.dup(0)
    os.dup2(file, 0)
    try:
        with pytest.raises(OutputError, match="is also standard input"):
            check_targets([Target("-o", Path("in.npy"), replace=True)], [0])
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(file)


# ---------------------------------------------------------------------------------------------- --force


def test_force_replaces_files_and_our_stores_but_no_other_folder(folder, X):
    pytest.importorskip("zarr")
    (folder / "d.npy").mkdir()
    (folder / "d.npy" / "thesis.txt").write_text("mine")
    (folder / "d.zarr").mkdir()
    (folder / "d.zarr" / "zarr.json").write_text(json.dumps({"attributes": {}}))
    np.save("d.zarr/in.npy", X)
    for name in ("d.npy", "d.zarr"):
        for force in (["--force"], []):
            message = refused("in.npy", "-o", name, *force)
            assert "is a folder, and only files and Zarr stores" in message
            assert "--force" not in message  # it would not help
    assert "is a folder around the input" in refused("d.zarr/in.npy", "-o", "d.zarr", "--force")
    assert run("in.npy", "-o", "ours.zarr").exit_code == 0
    assert "exists already" in refused("in.npy", "-o", "ours.zarr")
    assert run("in.npy", "-o", "ours.zarr", "--force").exit_code == 0
    (folder / "ours.zarr" / "notes.txt").write_text("mine")
    assert "is a folder" in refused("in.npy", "-o", "ours.zarr", "--force")


def test_devices_and_pipes_are_not_replaced(folder, no_reading):
    os.mkfifo("p")
    assert "is a device or a pipe" in refused("in.npy", "-o", "s.npy", "--report", "p", "--force")
    assert "is a device or a pipe" in refused("in.npy", "-o", "s.npy", "--model", "p", "--force")


# ---------------------------------------------------------------------------------------------- links and permissions


def test_links_are_followed_and_stay(folder):
    (folder / "elsewhere").mkdir()
    (folder / "s.npy").symlink_to("elsewhere/kept.npy")
    (folder / "m").symlink_to("elsewhere/model")
    (folder / "elsewhere" / "kept.npy").write_bytes(b"old")
    assert "exists already" in refused("in.npy", "-o", "s.npy")
    for _ in range(2):
        assert run("in.npy", "-o", "s.npy", "--model", "m", "--report", "r", "--force").exit_code == 0
        assert (folder / "s.npy").is_symlink()
        assert (folder / "m").is_symlink()
        assert np.load("elsewhere/kept.npy").shape == (400, 2)
    assert sorted(p.name for p in Path("elsewhere").iterdir()) == ["kept.npy", "model"]
    (folder / "loop.npy").symlink_to("loop.npy")
    assert "is a link to itself" in refused("in.npy", "-o", "loop.npy", "--force")


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


@pytest.mark.parametrize("option", ["-o", "--model", "--report"])
def test_a_folder_that_cannot_be_written_to_is_noticed_first(folder, no_reading, monkeypatch, option):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)  # root may write anywhere
    other = [] if option == "-o" else ["-o", "-"]
    assert "cannot be written to (Permission denied)" in refused("in.npy", *other, option, "s.npy")


def test_a_long_name_can_be_written(folder):
    name = "s" * 246 + ".npy"
    assert run("in.npy", "-o", name).exit_code == 0
    assert np.load(name).shape == (400, 2)


# ---------------------------------------------------------------------------------------------- the other commands


def test_the_folder_of_a_sweep_does_not_hold_what_it_reads(folder):
    plan = '[[data]]\nkind = "file"\nmixtures = "in.npy"\n[[network]]\nname = "StreamingNICA"\n'
    (folder / "plan.json").write_text(plan)
    (folder / "plan.toml").write_text(plan.replace("in.npy", "results.csv"))
    (folder / "in.npy").rename("results.csv")
    before = contents(folder)
    for name in ("plan.json", "plan.toml"):
        result = CliRunner().invoke(app, ["sweep", name, "-o", "."])
        assert result.exit_code == 1
        assert "is also the input" in result.stderr
        assert contents(folder) == before


def test_the_folder_of_a_demo_is_checked_first(folder):
    (folder / "demo.html").mkdir()
    result = CliRunner().invoke(app, ["demo", "-o", "."])
    assert result.exit_code == 1
    assert "demo.html is a folder" in result.stderr


def test_reproduce_does_not_overwrite_the_images_it_reads(folder, rng):
    iio = pytest.importorskip("imageio.v3")
    pytest.importorskip("matplotlib")
    (folder / "photos").mkdir()
    for name in ("figure1", "figure4", "figure5"):
        iio.imwrite(f"photos/{name}.png", rng.integers(0, 255, (16, 16), dtype=np.uint8))
    before = contents(folder)
    result = CliRunner().invoke(app, ["reproduce", "figure5", "--images", "photos", "-o", "photos"])
    assert result.exit_code == 1, result.output
    assert "is also the input" in result.output
    assert contents(folder) == before
