"""What a sweep promises when its journal is damaged, its plan is hostile, it is told to stop, or its cluster is gone."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bionica import sweep
from bionica.cli import app
from bionica.sweep import Plan, PlanError, WorkerDiedError, memory, run_dask, run_processes, runner
from bionica.sweep.journal import LONGEST_LINE, seal
from bionica.sweep.stoppable import in_thread

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

DATA = {"kind": "sparse_uniform", "d": 3, "T": 150, "mixing": "d3"}
GRID = {"name": "TwoCompartmentNICA", "published": "d3", "grid": {"eta0": [0.1, 0.01], "tau": [0.5, 0.8]}}
#: A network that takes about 0.03 s for a sample.
UNSETTLED = {"dynamics": "gradient", "gamma": 1e-12, "settle_steps": 1_000_000}


def body(**changes):
    return {"seeds": 2, "times": 3, "data": [DATA], "network": [GRID], **changes}


def without_times(table):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in table]


def run(folder, **options):
    return without_times(sweep.run(body(), folder, n_jobs=1, **options))


# ------------------------------------------------------------------------------------------ the journal


def changed(name, value):
    """Another value in one line, with the checksum of the line as it was."""

    def change(lines):
        lines[2] = lines[2].replace(json.dumps(json.loads(lines[2])[name]).encode(), value)

    return change


def forged(**values):
    """Other values in one line, with a checksum that is right."""

    def change(lines):
        given = json.loads(lines[2])
        del given["checksum"]
        lines[2] = seal({**given, **values})

    return change


def without_checksum(lines):
    given = json.loads(lines[2])
    del given["checksum"]
    lines[2] = json.dumps(given).encode() + b"\n"


def replaced(content):
    def change(lines):
        lines[2] = content

    return change


@pytest.mark.parametrize(
    "damage",
    [
        changed("last_tenth", b"0.1"),
        changed("seed", b"7"),
        without_checksum,
        forged(t=3),
        forged(t=[1, 2, 3]),
        forged(t=[1, 12]),
        forged(error=None),
        forged(error=[0.5]),
        forged(error={"a": 1}),
        forged(last_tenth=False),
        forged(repairs=2**63),
        forged(seconds="1"),
        forged(status=["ok"]),
        forged(case=[]),
        forged(case={}),
        replaced(bytes(5000) + b"\n"),
        replaced(b"\xff\xfe\n"),
        replaced(b"[" * 100_000 + b"\n"),
        replaced(seal({"case": 1})),
        replaced(b"x" * (LONGEST_LINE + 1) + b"\n"),
    ],
)
def test_a_damaged_line_is_run_again_and_counted_once(damage, tmp_path):
    clean = run(tmp_path)
    path = tmp_path / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    damage(lines)
    path.write_bytes(b"".join(lines))
    ran = []
    with pytest.warns(UserWarning, match=r"^ignored 1 damaged line of .*journal\.jsonl, and ran its case again$"):
        again = run(tmp_path, progress=lambda done, total: ran.append(done))
    assert ran == [8]
    assert again == clean
    assert run(tmp_path, progress=lambda done, total: pytest.fail("nothing was left to run")) == clean


@pytest.mark.parametrize("end", [b"\r\n", b"\n\n", b" \n"])
def test_line_ends_of_others_are_no_damage(end, tmp_path):
    clean = run(tmp_path)
    path = tmp_path / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b"\n", end))
    assert run(tmp_path, progress=lambda done, total: pytest.fail("nothing was left to run")) == clean


def test_lines_of_another_plan_or_version_are_kept_and_not_counted(tmp_path):
    run(tmp_path)
    path = tmp_path / "journal.jsonl"
    before = path.read_bytes()
    sweep.run(body(seeds=[5]), tmp_path, n_jobs=1)
    assert path.read_bytes().startswith(before)
    path.write_bytes(path.read_bytes() + before)  # and lines that are there twice
    run(tmp_path, progress=lambda done, total: pytest.fail("nothing was left to run"))


def test_a_journal_that_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "journal.jsonl")
    with pytest.raises(ValueError, match=r"journal\.jsonl is not a file: move it away, or give another folder"):
        run(tmp_path)


def test_after_an_interruption_a_long_table_is_left_to_the_next_run(tmp_path, monkeypatch):
    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(runner, "QUICK_TABLE", 8)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=stop)
    assert not (tmp_path / "results.csv").exists()
    assert len((tmp_path / "journal.jsonl").read_bytes().splitlines()) == 3
    run(tmp_path)
    assert (tmp_path / "results.csv").exists()


def test_the_attack_on_journals_and_plans():
    from attacks import journals

    rows = journals.attack(0, 0.01)
    assert [row.failures for row in rows] == [[], [], []]
    assert all(row.tries == 3 for row in rows)


@pytest.mark.slow
def test_the_attack_by_kills():
    from attacks import sweep_kills

    assert [row.failures for row in sweep_kills.attack(0, 0.1)] == [[]] * 4


# ------------------------------------------------------------------------------------------ hostile plans


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 10**9}, r"^seeds = 1000000000: give 1,000,000 at most$"),
        ({"times": 10**9}, r"^times = 1000000000: give 100,000 at most$"),
        ({"times": [1] * 100_001}, r"^times = \[1, 1.*: give 100,000 times at most$"),
        ({"seeds": 10**5, "times": 10**3}, r"400,000 cases with 1,000 times each: 5,000,000 rows .*use fewer seeds or times"),
        ({"data": [{**DATA, "T": 10**12}]}, r"^data\[0\] has T = 1000000000000, .*a run takes 1.2e\+05 GB of memory, .*use fewer"),
        ({"data": [{**DATA, "T": 10**400}]}, r"^data\[0\] has T = 1000.*a run takes 1e\+21 GB of memory"),
        ({"data": [{**DATA, "T": 16**6000}]}, r"^data\[0\] has T = <int too large to be printed>, epochs = 1"),
        ({"data": [{**DATA, "epochs": 10**12}]}, r"^data\[0\] has T = 150, epochs = 1000000000000, .*use fewer samples, epochs"),
        ({"data": [{"kind": "copula_uniform", "d": 10**9, "T": 9, "rho": 0.1}]}, r"^data\[0\] has T = 9, .*d = 1000000000 "),
        ({"data": [{**DATA, "mixing": "random", "n_mixtures": 10**15}]}, r"^data\[0\] has .* and 1000000000000000 mixtures"),
        ({"data": [{**DATA, "mixing": [[10**400] * 3] * 3}]}, "give a matrix of numbers"),
        ({"data": [{**DATA, "snr_db": 10**400}]}, "snr_db = 1000.* give a finite number"),
        ({"data": [{**DATA, "snr_db": -1e300}]}, r"snr_db = -1e\+300: give a number from -1000 to 1000"),
        ({"data": [{**DATA, "seed": 2**32}]}, r"seed = 4294967296: give 4,294,967,295 at most"),
        ({"data": [{**DATA, "name": "a\nb"}]}, r"name = 'a\\nb': give the word .*printable"),
        ({"data": [{"kind": "file", "mixtures": "~nobody/x.npy"}]}, r"there is no"),
        ({"data": [{"kind": "file", "mixtures": "x" * 5000}]}, r"there is no"),
        ({"data": [{"kind": "file", "mixtures": "\0"}]}, r"there is no"),
        ({"data": [{"kind": "file", "mixtures": "/dev/zero"}]}, r"'/dev/zero' is not a file"),
        ({"network": [{**GRID, "label": "x" * 201}]}, "at most 200 printable characters"),
        ({"network": [{**GRID, "params": {"decay": 2**63}}]}, r"params.decay = 9223372036854775808: give a finite number"),
        ({"network": [{**GRID, "params": {"guards": eval("[" * 50 + "]" * 50)}}]}, r"params.guards = \[\[.*: give a finite number"),
        ({"network": [{"name": "BatchNICA", "params": {"n_components": [3]}}]}, r"n_components = \(3,\): give a whole number"),
        ({"network": [{"name": "BatchNICA", "params": {"tol": "x"}}]}, r"params.tol = 'x': The 'tol' parameter of BatchNICA must"),
        ({"network": [{"name": ".:x"}]}, r"'.:x' cannot be imported \(TypeError"),
        ({"network": [{**GRID, "grid": {"tau": [0.5] * 2000, "eta0": [0.1] * 2000}}]}, r"grid.eta0 makes 4,000,000 settings"),
        ({"network": [{**GRID, "grid": {"x" * 5000: 1}}]}, r"network\[0\].grid .*has no key 'xxx.*There are n_components"),
    ],
)  # fmt: skip
def test_a_hostile_plan_is_refused_with_one_sentence(changes, message):
    with pytest.raises(PlanError, match=message) as raised:
        Plan.from_dict(body(**changes))
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x = " + b"[" * 5000 + b"]" * 5000, "is not a plan: its tables or lists are nested too deeply"),
        (b"x = 1" + b"0" * 5000, "is not TOML: Exceeds the limit"),
        (b"seeds = 0x" + b"f" * 6000, r"seeds = <int too large to be printed>: give 1,000,000 at most|data = None"),
        (b"\xff\xfe", "is not TOML: 'utf-8' codec can't decode"),
        (b"#" * (2**23 + 1), "has more than 8,388,608 bytes, so it is not a plan"),
    ],
)
def test_a_hostile_file_is_refused_with_one_line(content, message, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_bytes(content)
    with pytest.raises(PlanError, match=message):
        Plan.from_toml(path)
    result = CliRunner().invoke(app, ["sweep", str(path)])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


def test_files_that_are_no_arrays(tmp_path):
    for name, content in {
        "empty": b"",
        "torn": b"\x93NUMPY\x01\x00v\x00{",
        "zip": b"PK\x03\x04",
        "text": b"hello",
    }.items():
        (tmp_path / f"{name}.npy").write_bytes(content)
        plan = {"data": [{"kind": "file", "mixtures": f"{name}.npy"}], "network": [{"name": "TwoLayerNSM"}]}
        with pytest.raises(PlanError, match=rf"data\[0\]: .*{name}\.npy is no \.npy file"):
            Plan.from_dict(plan, tmp_path)


def test_numbers_that_overflow_are_a_status():
    mixing = [[1e300, 1, 1], [1, 1e-300, 1], [1, 1, 1e300]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (row,) = sweep.run(
            body(seeds=1, times=1, data=[{**DATA, "mixing": mixing}], network=[{"name": "NonnegativePCA"}]), n_jobs=1
        )
    assert row["status"] != "ok"
    assert row["error"] is None


def test_a_run_that_does_not_fit_into_memory(tmp_path, monkeypatch):
    plan = body(data=[{**DATA, "T": 100_000}])
    need = Plan.from_dict(plan).cases()[0].n_bytes
    assert 100_000 * 9 * 8 < need < 100_000 * 30 * 8
    monkeypatch.setattr(runner, "memory_of_machine", lambda: need - 1)
    with pytest.raises(
        ValueError, match=r"^the data 'sparse_uniform-d3' with T = 100000, .* need 0.012 GB .*: use fewer samples"
    ):
        sweep.run(plan, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(runner, "memory_of_machine", lambda: 2 * need)
    with pytest.raises(ValueError, match=r"3 processes are too many, use 2 at most \(n_jobs=2, --jobs 2\)"):
        sweep.prepare(plan, n_jobs=3)
    assert sweep.prepare({**plan, "seeds": 100}, n_jobs=-1, device="cpu").engine.name in ("1 process", "2 processes")


def test_the_memory_of_a_container(tmp_path, monkeypatch):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_LIMITS", (str(limit),))
    everything = memory.memory_of_machine()
    limit.write_text("max\n")
    assert memory.memory_of_machine() == everything
    limit.write_text("1000000\n")
    assert memory.memory_of_machine() == 1_000_000


# ------------------------------------------------------------------------------------------ stopping


def sweep_threads():
    return [thread for thread in threading.enumerate() if thread.name == "bionica-sweep"]


def test_a_signal_ends_a_case_that_does_not_settle(tmp_path):
    networks = [{**GRID, "grid": {}}, {**GRID, "grid": {}, "label": "unsettled", "params": UNSETTLED}]

    def interrupt(done, total):
        threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()

    with pytest.raises(KeyboardInterrupt):
        sweep.run(body(seeds=1, network=networks), tmp_path, n_jobs=1, progress=interrupt)
    (line,) = (tmp_path / "journal.jsonl").read_bytes().splitlines()
    assert json.loads(line)["status"] == "ok"
    for thread in sweep_threads():  # it ends after its sample, not after all of them
        thread.join(30)
    assert not sweep_threads()


def test_work_in_a_thread_raises_here():
    def work():
        yield 1
        raise LookupError("there")

    found = in_thread(work())
    assert next(found) == 1
    with pytest.raises(LookupError, match="there"):
        next(found)


def test_networks_are_compiled_without_waiting_for_them_to_settle(monkeypatch):
    ran = []
    monkeypatch.setattr(run_processes, "run_case", lambda case, data: ran.append(case.parameters()["settle_steps"]))
    plan = body(network=[{**GRID, "params": UNSETTLED}, {"name": "InterneuronNICA"}])
    run_processes.compile_networks(Plan.from_dict(plan).cases())
    assert ran == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_process_is_left(how, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'seeds = 4\n[[data]]\nkind = "gamma"\nd = 3\nT = 100000\n[[network]]\nname = "TwoCompartmentNICA"\n'
        'params = { precondition = "none", dynamics = "gradient", gamma = 1e-12, settle_steps = 1_000_000 }\n'
    )
    command = [sys.executable, "-m", "bionica", "sweep", str(plan), "-o", str(tmp_path / "out"), "--jobs", "2"]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (tmp_path / "out" / "journal.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(5)  # the workers start
    process.send_signal(how)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == (-how if how == signal.SIGKILL else 130)
    if how != signal.SIGKILL:
        assert "Interrupted. Finished cases are kept" in said
    deadline = time.monotonic() + 30
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.1)


# ------------------------------------------------------------------------------------------ a cluster that is gone


@pytest.fixture
def cluster():
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0")
    yield cluster
    with suppress(TimeoutError):  # one without a scheduler does not close by itself
        cluster.close(timeout=2)
    cluster.status = distributed.Status.closed  # and would warn whenever it is collected


@pytest.fixture
def endless(monkeypatch):
    """After the first batch, a worker computes until it is stopped."""
    started, ended, released = [], threading.Event(), threading.Event()

    def run_batch(batch):
        started.append(batch)
        try:
            while len(started) > 1 and not released.is_set():
                time.sleep(0.01)
        finally:
            if len(started) > 1:
                ended.set()
        return run_processes.run_batch(batch)

    monkeypatch.setattr(run_dask, "run_batch", run_batch)
    monkeypatch.setattr(run_dask, "batches", lambda cases, n: [[case] for case in cases])
    monkeypatch.setattr(run_dask, "_LOOK_FOR_WORKERS", 0.05)
    monkeypatch.setattr(run_dask, "WORKERS_TIMEOUT", 0.2)
    monkeypatch.setattr(run_dask, "END_TIMEOUT", 0.5)
    yield ended
    released.set()  # the cluster waits for its threads


def test_no_workers_at_all(cluster, endless):
    cluster.scale(0)
    with pytest.raises(
        WorkerDiedError, match=r"has no workers: start some with `dask worker .*finished cases are kept"
    ):
        sweep.run(body(), scheduler=cluster.scheduler_address)


def test_an_interruption_stops_batches_on_the_cluster(cluster, endless, tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep.run(body(), tmp_path, scheduler=cluster.scheduler_address, progress=stop)
    assert endless.wait(30)
    assert len((tmp_path / "journal.jsonl").read_bytes().splitlines()) == 1


def test_a_scheduler_that_is_gone(cluster, endless, tmp_path, monkeypatch):
    monkeypatch.setattr(run_dask, "WORKERS_TIMEOUT", 60)
    monkeypatch.setattr(run_dask, "SCHEDULER_TIMEOUT", 2)

    def lose(done, total):
        asyncio.run_coroutine_threadsafe(cluster.scheduler.close(), cluster.loop.asyncio_loop)

    with pytest.raises(WorkerDiedError, match=r"does not answer any more: start it and run again; finished cases are"):
        sweep.run(body(), tmp_path, scheduler=cluster.scheduler_address, progress=lose)
    assert len((tmp_path / "journal.jsonl").read_bytes().splitlines()) == 1


def test_a_thread_that_has_ended_stops_no_other():
    """The system gives the identifier of a thread that has ended to the next one."""
    results = in_thread([1])
    assert next(results) == 1
    for thread in sweep_threads():
        thread.join(5)
    hurt = []

    def innocent():
        try:
            time.sleep(0.3)
        except BaseException as error:
            hurt.append(error)

    other = threading.Thread(target=innocent)
    other.start()
    results.close()
    other.join()
    assert not hurt
