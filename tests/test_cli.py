"""The command line and what an import costs."""

import logging
import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import bionica
from bionica.cli import app
from bionica.cli.console import Console
from bionica.cli.separate_options import METHODS
from bionica.io import InputError


def test_help_names_the_commands():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.output


def loaded_by(code):
    script = f"import sys; {code}; print(*sys.modules)"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_import_brings_nothing_heavy_and_nothing_optional():
    assert not {"sklearn", "numba", "scipy", "typer"} & set(loaded_by("import bionica"))
    optional = {"matplotlib", "skimage", "h5py", "zarr", "pyarrow", "dask", "rich"}
    ours = set(loaded_by("from bionica import TwoCompartmentNICA, datasets, metrics, load"))
    theirs = set(
        loaded_by("import sklearn.utils.validation, scipy.optimize, scipy.special, numba")
    )  # these bring pandas, if it is there
    assert not optional & (ours - theirs)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch.csv"],
        ["nosuch.csv", "--method", "cone", "--report", "p.html"],
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
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    status, *loaded = run.stdout.rpartition("status ")[2].split()
    assert (status == "1") == ("nosuch.csv does not exist" in run.stderr)
    assert not {"numba", "sklearn", "scipy", "pandas", "matplotlib"} & set(loaded)


def test_module_runs():
    run = subprocess.run([sys.executable, "-m", "bionica", "--help"], capture_output=True, text=True, check=True)
    assert "demo" in run.stdout


def command(*arguments, **environment):
    script = "import sys; sys.argv[0] = 'bionica'; from bionica.cli import app; app()"  # as the installed command does
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_options(shell):
    named = {
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"
    }  # else it is the shell that the tests were started from
    script = command("--show-completion", shell, **named)
    assert script.returncode == 0, script.stderr
    assert f"_BIONICA_COMPLETE=complete_{shell}" in script.stdout
    if shell == "bash":
        for words, found in (("bionica sep", "separate"), ("bionica separate --ep", "--epochs")):
            typed = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_BIONICA_COMPLETE": "complete_bash"}
            assert command(**typed).stdout.split() == [found]


@pytest.mark.parametrize("arguments", [["separate", "--help"], ["separate", "x.npy", "--epochs", "0"]])
def test_colours_can_be_turned_off_and_forced(arguments):
    for environment in ({}, {"NO_COLOR": "1"}):
        plain = command(*arguments, **environment)
        assert "\x1b" not in plain.stdout + plain.stderr
    forced = command(*arguments, FORCE_COLOR="1", NO_COLOR="")
    assert "\x1b" in forced.stdout + forced.stderr


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
@pytest.mark.parametrize("no_color", ["", "1"])
def test_on_a_terminal_there_is_progress_and_no_color_is_obeyed(tmp_path, no_color):
    """In a pipe there is none of either; see test_separate.py."""
    X = np.random.default_rng(0).exponential(size=(300_000, 3)) @ np.ones((3, 4)).cumsum(axis=1)
    np.save(tmp_path / "x.npy", X)
    main, terminal = os.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "NO_COLOR": no_color, "COLUMNS": "100"}
    with subprocess.Popen(
        [sys.executable, "-m", "bionica", "separate", "x.npy", "--sources", "1", "--epochs", "2"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=environment,
    ) as process:
        os.close(terminal)
        seen = b""
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not piece:
                break
            seen += piece
        process.stdout.read()
    os.close(main)
    assert process.returncode == 0, seen
    assert b"Learning" in seen
    assert (b"\x1b[38" in seen or b"\x1b[1;3" in seen or b"\x1b[3" in seen) == (no_color == "")


# ---------------------------------------------------------------------------------------------- the console


@pytest.mark.parametrize(("silence", "shown"), [({}, True), ({"json": True}, False), ({"quiet": True}, False)])
def test_log_records_and_warnings_are_shown_unless_silenced(capsys, silence, shown):
    console, logger = Console(**silence), logging.getLogger("bionica")
    before = logger.level, logger.propagate, list(logger.handlers)
    with console.session(interrupted=""):
        logging.getLogger("bionica.engines").info("compiling the loop of two_compartment, once")
        logger.warning("nothing can be cached")
        warnings.warn("few samples", UserWarning, stacklevel=1)
        warnings.warn("few samples", UserWarning, stacklevel=1)
    out, err = capsys.readouterr()
    assert out == ""
    lines = ["compiling the loop of two_compartment, once", "Note: nothing can be cached", "Note: few samples"]
    assert err.splitlines() == (lines if shown else [])
    assert console.notes == ["nothing can be cached", "few samples"]
    assert (logger.level, logger.propagate, list(logger.handlers)) == before


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ValueError("two\nlines"), 1, "Error: two lines"),
        (FileNotFoundError(2, "No such file", "x.npy"), 1, "Error: x.npy: No such file"),
        (
            OSError(28, "No space left on device"),
            1,
            "Error: the disk is full (No space left on device): free some space",
        ),
        (MemoryError(), 1, "Error: out of memory: use smaller data, or fewer processes"),
        (ZeroDivisionError("expected"), 1, "Error: expected"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_errors_end_in_one_line(capsys, error, status, message):
    with (
        pytest.raises(typer.Exit) as ended,
        Console(json=True).session(interrupted="stopped", expected=(ZeroDivisionError,)),
    ):
        raise error
    assert ended.value.exit_code == status
    assert capsys.readouterr() == ("", f"{message}\n")


def test_errors_about_files_are_in_the_words_of_the_command_already(capsys):
    for error, message in ((ValueError("sample 0"), "SAMPLE 0"), (InputError("sample 0"), "sample 0")):
        with pytest.raises(typer.Exit), Console(rephrase=str.upper).session(interrupted="stopped"):
            raise error
        assert capsys.readouterr().err == f"Error: {message}\n"


@pytest.fixture
def broken(monkeypatch):
    """A doctor with a fault that nobody foresaw."""

    def examine():
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(sys.modules["bionica.cli.doctor"], "examine", examine)


def test_what_nobody_foresaw_is_one_line_too(broken):
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 70
    assert result.stdout == ""
    assert result.stderr == (
        "Error: unforeseen, please report it to the developers: ZeroDivisionError: division by zero; "
        "bionica --debug COMMAND ... shows where it happened\n"
    )


def test_debug_shows_the_traceback(broken):
    result = CliRunner().invoke(app, ["--debug", "doctor"])
    assert result.exit_code == 70
    assert result.stderr.startswith("Traceback (most recent call last)")
    assert result.stderr.endswith(
        "Error: unforeseen, please report it to the developers: ZeroDivisionError: division by zero\n"
    )
    result = CliRunner().invoke(app, ["--debug", "separate", "there/is/no.npy"])
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in CliRunner().invoke(app, ["separate", "there/is/no.npy"]).stderr


def test_an_interrupt_outside_a_session_is_one_line(monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr("bionica.paper.paper_grid", interrupt)
    result = CliRunner().invoke(app, ["sweep", "--example"])
    assert (result.exit_code, result.stderr) == (130, "Interrupted\n")


def test_sigterm_interrupts():
    with pytest.raises(typer.Exit) as ended, Console(quiet=True).session(interrupted="stopped"):
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    assert ended.value.exit_code == 130


def test_json_has_no_nan(capsys):
    Console(json=True).result(["words"], {"a": [1.0, float("nan")], "b": (float("inf"),)})
    assert capsys.readouterr().out == '{"a": [1.0, null], "b": [null]}\n'


def test_every_estimator_that_separates_is_a_method():
    assert METHODS["two-compartment"] == "TwoCompartmentNICA"
    assert {"batch", "interneuron", "nsm", "npca"} < set(METHODS)
    for name in METHODS.values():
        assert {"fit", "transform", "diagnose"} <= set(dir(getattr(bionica, name)))
