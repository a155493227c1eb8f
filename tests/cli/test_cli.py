"""The command line: what it loads, how it speaks, how it ends."""

import io
import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import bionica
from bionica.cli import app, separate, sweep
from bionica.cli.console import OPTIONS, Console, StandardInput, one_line
from bionica.cli.console import REMEDIES as SENTENCES
from bionica.core.errors import Message, message_of
from bionica.io import InputError
from bionica.mixtures.verdict.findings import REMEDIES, Finding


@pytest.fixture
def ended(tmp_path, monkeypatch):
    """How a command ends whose input is opened by this function."""

    def end(opened, *before):
        (tmp_path / "x.csv").write_text("1,2\n3,4\n")
        monkeypatch.setattr("bionica.io.open_reader", lambda *_, **__: opened())
        arguments = [*before, "separate", str(tmp_path / "x.csv")]
        return CliRunner().invoke(app, arguments)

    return end


def loaded_by(code):
    script = f"import sys; {code}; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def test_import_brings_nothing_heavy_and_nothing_optional():
    assert not {"sklearn", "numba", "scipy", "typer"} & loaded_by("import bionica")
    optional = {"matplotlib", "skimage", "h5py", "zarr", "pyarrow", "dask", "rich"}
    ours = loaded_by("from bionica import TwoCompartmentNICA, datasets, metrics, load")
    # these bring pandas
    theirs = loaded_by(
        "import sklearn.utils.validation, scipy.optimize, scipy.special, numba"
    )
    assert not optional & (ours - theirs)


def test_dir_shows_public_names_only():
    assert set(dir(bionica)) == {*bionica.__all__, "__version__"}
    assert dir(bionica.mixtures.plot) == bionica.mixtures.plot.__all__


@pytest.mark.parametrize("command", [[], ["separate"], ["apply"], ["sweep"]])
def test_flags_have_no_type_in_the_help(command):
    text = CliRunner().invoke(app, [*command, "--help"]).output
    assert "--help" in text
    assert "bool" not in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch.csv"],
        ["nosuch.csv", "--method", "cone"],
        ["nosuch.csv", "--model", "m"],
        ["--help"],
    ],
)
def test_what_needs_no_fit_waits_for_nothing_heavy(tmp_path, arguments):
    """scikit-learn and Numba take a second to import."""
    script = f"""
import os, sys
from bionica.cli import app
os.chdir({str(tmp_path)!r})
try:
    app(["separate", *{arguments!r}], prog_name="bionica")
except SystemExit as end:
    print("status", end.code, *sys.modules)
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    status, *loaded = run.stdout.rpartition("status ")[2].split()
    assert (status == "1") == ("nosuch.csv does not exist" in run.stderr)
    assert not {"numba", "sklearn", "scipy", "pandas", "matplotlib"} & set(loaded)


# --- the console


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InputError("two\nlines"), 1),
        (FileNotFoundError(2, "No such file", "x"), 1),
        (OSError(28, "disk"), 1),
        (MemoryError(), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_what_is_not_our_fault_ends_in_one_line(ended, error, status):
    def opened():
        raise error

    result = ended(opened)
    assert (result.exit_code, result.stdout) == (status, "")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "fault",
    [
        lambda: np.ones(3) + np.ones(4),
        lambda: np.linalg.inv(np.ones((2, 3))),
        lambda: int("x"),
        lambda: [][1],
    ],
)
def test_an_internal_error_is_not_called_the_users(ended, fault):
    """A ValueError that NumPy raises inside bionica is a fault of bionica, with the
    status of one.
    """
    result = ended(fault)
    assert (result.exit_code, result.stdout) == (70, "")
    assert result.stderr.count("\n") == 1
    assert "--debug" in result.stderr
    shown = ended(fault, "--debug")
    assert shown.exit_code == 70
    assert shown.stderr.startswith("Traceback (most recent call last)")
    assert "--debug" not in shown.stderr


def test_an_error_that_the_library_raises_about_a_parameter_is_the_users(ended):
    assert ended(lambda: bionica.datasets.paper_mixing("d4")).exit_code == 1


def test_remedies_and_messages_name_options():
    """Nothing of Python is left of a remedy, or of a message about a parameter."""
    for key in REMEDIES:
        told = one_line(Finding("constant", remedies=(key,)).text())
        assert told.startswith("X does not vary") and told.endswith(".")
        assert not re.search(r"\w=|X\.T|_mixing|use \w+(NICA|Cone)|[{}]", told), told
    for template, shown in (
        (
            "{n_components:=6} is too large, {n_components:=None}",
            "--sources 6 is too large, --sources auto",
        ),
        (
            "pass {axis:=1}, {header:=False} or {skip:='3'}",
            "pass --axis 1, --no-header or --skip '3'",
        ),
        (
            "{transpose:Pass X.T}",
            "Pass --axis 1",
        ),
    ):
        assert one_line(Message(template)) == shown


def test_a_message_keeps_its_fields_on_the_way():
    """Values are no templates, and parameters of a part are those of the whole."""
    part = Message("leave it out with {skip:='{}'}", 2)
    whole = pickle.loads(
        pickle.dumps(InputError(Message("{}: {}", "x{axis}=1.csv", part)))
    )
    assert str(whole) == "x{axis}=1.csv: leave it out with skip='2'"
    assert one_line(message_of(whole)) == "x{axis}=1.csv: leave it out with --skip '2'"
    assert one_line("a file named axis=1") == "a file named axis=1"


def test_every_option_that_a_message_names_exists():
    known = {
        name for command in (separate, sweep) for name in command.__annotations__
    } | {"no_header"}
    for option in re.findall(
        r"--([a-z-]+)", " ".join([*OPTIONS.values(), *SENTENCES.values()])
    ):
        assert option.replace("-", "_") in known, option
    assert SENTENCES.keys() - {"omit", "estimate"} <= REMEDIES.keys()


def test_a_signal_just_before_a_read_ends_it():
    """As one that another thread receives: it does not interrupt the read."""
    descriptor, other = os.pipe()
    # restores the handlers of signals
    session = Console(quiet=True).session(interrupted="stopped")
    with (
        os.fdopen(descriptor, "rb") as stream,
        os.fdopen(other, "wb"),
        pytest.raises(typer.Exit) as ended,
        session,
    ):
        threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
        StandardInput(stream).read(1)
    assert ended.value.exit_code == 130
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_while_samples_are_answered_waits_for_the_next_read():
    """Before any is, it interrupts at once."""
    with (
        pytest.raises(typer.Exit) as ended,
        Console(json=True).session(interrupted="stopped"),
    ):
        stdin = StandardInput(io.BytesIO(b"more"))
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        stdin.defer_interrupts()
        signal.raise_signal(signal.SIGTERM)
        stdin.read(1)
    assert ended.value.exit_code == 130


def test_a_command_runs_outside_the_main_thread_and_says_what_is_logged(ended):
    logger = logging.getLogger("bionica.engine")

    def opened():
        logger.info("compiling")
        raise InputError("enough")

    assert not logger.isEnabledFor(logging.INFO)
    with ThreadPoolExecutor() as pool:
        result = pool.submit(ended, opened).result()
    assert (result.exit_code, result.stderr) == (1, "compiling\nError: enough\n")
    assert not logger.isEnabledFor(logging.INFO)


def test_ctrl_c_while_modules_are_imported_ends_in_one_line():
    script = """
import sys
from bionica.__main__ import main
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
main()
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (130, "Interrupted\n")


def test_json_has_no_nan(capsys):
    Console(json=True).result(
        ["words"], {"a": [1.0, float("nan")], "b": (float("inf"),)}
    )
    assert capsys.readouterr().out == '{"a": [1.0, null], "b": [null]}\n'


def test_what_a_file_says_does_not_reach_the_terminal_as_a_command(tmp_path, rng):
    header = "\x1b[2Jred,gr\x07een,\x9b31mblue"
    rows = rng.exponential(size=(300, 3)).tolist()
    text = header + "\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows)
    (tmp_path / "x.csv").write_text(text)
    for arguments in ([], ["--skip", "\x1b[2Jred"], ["--skip", "no\x1b[2Jne"]):
        result = CliRunner().invoke(
            app, ["separate", str(tmp_path / "x.csv"), "--force", *arguments]
        )
        assert not set("\x1b\x07\x9b") & set(result.output)


# --- --version


def test_version_names_what_is_there(monkeypatch, tmp_path):
    """The package that is imported, not another one behind it on the path."""
    (tmp_path / "numpy-0.1.dist-info").mkdir()
    (tmp_path / "numpy-0.1.dist-info" / "METADATA").write_text(
        "Name: numpy\nVersion: 0.1\n"
    )
    monkeypatch.setattr("sys.path", [*sys.path, str(tmp_path)])
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == f"bionica {bionica.__version__}"
    assert f"numpy {np.__version__}" in lines[2]
    assert lines[-1] == f"compiled loops: {tmp_path / 'cache'}"


def test_version_says_if_the_cache_cannot_be_written(monkeypatch):
    """A read-only package, no home, or a full disk."""
    monkeypatch.setattr("os.access", lambda *_: False)
    assert "set NUMBA_CACHE_DIR" in CliRunner().invoke(app, ["--version"]).output
