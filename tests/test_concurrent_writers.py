"""Several processes write one file: each leaves it whole, and removes only what dead ones left."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import bionica
from bionica.io import atomic, open_reader, open_writer, write_atomically
from bionica.io.atomic import atomic_file, partial_folder, remove_partials
from conftest import mixtures

fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def read(path):
    with open_reader([str(path)]) as reader:
        return np.concatenate(list(reader.blocks()))


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".npz", ".h5", ".zarr", ".parquet"])
def test_a_second_writer_does_not_disturb_the_first(tmp_path, suffix):
    """The first is in the middle when the second begins, and ends when the second is in the middle."""
    pytest.importorskip({".parquet": "pyarrow", ".h5": "h5py", ".zarr": "zarr"}.get(suffix, "numpy"))
    path = tmp_path / f"shared{suffix}"
    first, second = open_writer(path, 3, "float64"), open_writer(path, 3, "float64")
    one, two = np.full((5000, 3), 1.0), np.full((7000, 3), 2.0)
    a = first.__enter__()
    a.write(one[:2000])
    b = second.__enter__()
    b.write(two[:3000])
    a.write(one[2000:])
    first.__exit__(None, None, None)
    assert np.array_equal(read(path), one)
    b.write(two[3000:])
    second.__exit__(None, None, None)
    assert np.array_equal(read(path), two)
    assert left(tmp_path) == [path.name]


def test_clean_up_leaves_live_writers_alone(tmp_path):
    path = tmp_path / "m"
    with atomic_file(path) as file:
        file.write(b"whole")
        remove_partials(path)
        write_atomically(path, b"other")
    assert path.read_bytes() == b"whole"
    assert left(tmp_path) == ["m"]


@fork
def test_clean_up_removes_what_a_killed_writer_left(tmp_path):
    path, began = tmp_path / "m", tmp_path / "began"
    if not (child := os.fork()):
        with atomic_file(path) as file:
            file.write(b"half")
            began.touch()
            time.sleep(60)
        os._exit(0)
    while not began.exists():
        time.sleep(0.001)
    remove_partials(path)
    assert len(left(tmp_path)) == 2  # it lives
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    remove_partials(path)
    assert left(tmp_path) == ["began"]


def test_clean_up_keeps_the_files_of_others(tmp_path):
    keep = [".m.part", ".m.old.part", ".mm.abcd1234.part", "m.abcd1234.part", ".m.ABCD1234.part"]
    for name in keep:
        (tmp_path / name).mkdir()
    (tmp_path / ".m.abcd1234.part").write_text("a file")
    remove_partials(tmp_path / "m")
    assert left(tmp_path) == sorted([*keep, ".m.abcd1234.part"])


def test_a_folder_that_vanishes_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    real, times = os.open, []

    def race(path, *rest, **more):
        if Path(path).name == "lock" and len(times) < 3:
            times.append(path)
            remove_partials(tmp_path / "m")  # another process, before this one has its lock
        return real(path, *rest, **more)

    monkeypatch.setattr("bionica.io.atomic.os.open", race)
    with partial_folder(tmp_path / "m") as folder:
        assert (folder / "lock").exists()
    assert left(tmp_path) == []


@fork
def test_24_processes_write_one_model(tmp_path):
    path = tmp_path / "m"
    network = bionica.StreamingNICA(3, random_state=0).fit(mixtures(400, 3, 3)[1])
    children = []
    for _ in range(24):
        child = os.fork()
        if not child:
            status = 1
            try:
                for _ in range(3):
                    remove_partials(path)
                    network.save(path)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 24
    assert bionica.load(path).n_samples_seen_ == 400
    assert left(tmp_path) == ["m"]


def test_threads_do_not_disturb_each_others_permissions(tmp_path):
    """A umask that is read by setting it is wrong for a moment, in every thread."""
    old, wrong = os.umask(0o077), []

    def create(i):
        for j in range(50):
            (tmp_path / f"private{i}.{j}").touch()
            if (tmp_path / f"private{i}.{j}").stat().st_mode & 0o077:
                wrong.append(i)
            write_atomically(tmp_path / f"written{i}", b"")

    try:
        threads = [threading.Thread(target=create, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        os.umask(old)
    assert not wrong


def test_images_of_two_writers_are_not_mixed(tmp_path):
    pytest.importorskip("imageio")

    def write(value):
        image = np.full((16, 3), 0.0)
        image[value] = 1.0
        for _ in range(20):
            with open_writer(tmp_path / "y.png", 3, "float64", (4, 4)) as writer:
                writer.write(image)

    threads = [threading.Thread(target=write, args=(i,)) for i in (3, 12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(tmp_path / f"y-{i}.png").read_bytes() for i in (1, 2, 3)}) == 1


@pytest.mark.slow
def test_two_commands_one_second_apart(tmp_path):
    """The reproducer: one csv of 600,000 lines written by two processes."""
    np.save(tmp_path / "x.npy", mixtures(600_000, 3, 3)[1])
    command = [sys.executable, "-m", "bionica", "separate", "x.npy", "--sources", "3", "-o", "shared.csv", "--force"]
    first = subprocess.Popen(command, cwd=tmp_path)
    time.sleep(1)
    second = subprocess.Popen(command, cwd=tmp_path)
    assert [first.wait(120), second.wait(120)] == [0, 0]
    with (tmp_path / "shared.csv").open() as file:
        assert sum(1 for _ in file) == 600_001
    assert left(tmp_path) == ["shared.csv", "x.npy"]


def test_an_interruption_while_the_old_store_is_deleted_leaves_the_new_one(tmp_path, monkeypatch):
    target = tmp_path / "y.zarr"
    for folder, content in ((target, "old"), (tmp_path / "part", "new")):
        folder.mkdir()
        (folder / "zarr.json").write_text(content)

    def interrupted(folder, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic.shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        atomic.rename_all([tmp_path / "part"], [target])
    assert (target / "zarr.json").read_text() == "new"


def test_a_model_replaces_no_pipe(tmp_path):
    os.mkfifo(tmp_path / "model")
    network = bionica.StreamingNICA(2, random_state=0).fit(np.random.default_rng(0).random((50, 2)))
    with pytest.raises(OSError, match="not a regular file"):
        network.save(tmp_path / "model")
    assert (tmp_path / "model").is_fifo()
