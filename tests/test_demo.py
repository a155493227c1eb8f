"""`bionica demo`: run once for real; its page, its numbers, its live line, its errors."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import bionica
from bionica.cli import app
from browser import check_page
from conftest import mixtures

pytest.importorskip("matplotlib")
pytest.importorskip("skimage")

COMMAND = [sys.executable, "-m", "bionica", "demo"]


def demo(*arguments, code=0):
    result = CliRunner().invoke(app, ["demo", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    return result


def refused(*arguments):
    result = demo(*arguments, code=1)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Compile the loops first: a command that has to wait for one says so on standard error."""
    for name in ("StreamingNICA", "TwoCompartmentNICA"):
        getattr(bionica, name)(3, random_state=0).partial_fit(mixtures(400, 3)[1])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What one run with --json says, and its folder."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "pictures"
    result = demo("-o", folder, "--json")
    assert result.stderr == ""
    return json.loads(result.stdout), folder


def test_numbers(made):
    found, folder = made
    assert found["error"] < 2e-3
    others = found["errors_of_other_orders"]
    assert others == sorted(others)
    assert len(others) == 9
    assert others[4] <= 2 * found["batch_error"]  # a pass over a stream, beside all pixels at once
    assert others[-1] < 0.02
    assert found["network_error"] < 0.02
    assert found["amari"] < 0.05
    assert min(found["correlation"]) > 0.995
    assert (found["pixels"], found["network_start"]) == (512**2, 160)
    assert [found["figure"], found["page"]] == [str(folder / "separation.png"), str(folder / "demo.html")]


def test_error_falls_pixel_by_pixel(made):
    """From the second pixel on, from random weights, to the errors that are said."""
    found, _ = made
    curve, network = found["curves"]["StreamingNICA"], found["curves"]["TwoCompartmentNICA"]
    assert (curve[0][0], curve[-1][0], network[-1][0]) == (2, found["pixels"], found["pixels"])
    assert network[0][0] >= found["network_start"]
    times, errors = zip(*curve, strict=True)
    assert sorted(set(times)) == list(times)
    assert errors[0] > 1
    at = dict(curve)
    decades = [min(at, key=lambda t: abs(t - wanted)) for wanted in (10, 100, 1000, 10_000, 100_000)]
    assert [at[t] for t in decades] == sorted((at[t] for t in decades), reverse=True)
    assert errors[-1] == pytest.approx(found["error"], rel=0.2)  # some of the pixels, and all


def test_page_needs_nothing_else_and_holds_every_picture(made):
    _, folder = made
    assert sorted(path.name for path in folder.iterdir()) == ["demo.html", "separation.png"]
    page = (folder / "demo.html").read_text()
    assert not re.search(r"https?://|<script|@import|url\(", page)
    assert all(source.startswith("data:") for source in re.findall(r'(?:src|href)="([^"]*)', page))
    assert re.findall(r"<h2>(.*?)</h2>", page) == [
        "Sources, mixtures, recovered", "How the error falls, pixel by pixel", "Numbers", "What was learned",
        "Your own mixtures",
    ]  # fmt: skip
    pictures = re.findall(r'<img alt="([^"]+)" src="data:image/(png|svg\+xml);base64,([^"]+)"', page)
    assert [kind for _, kind, _ in pictures] == ["png", "svg+xml", "svg+xml"]
    assert all(len(alt) > 20 for alt, _, _ in pictures)
    assert base64.b64decode(pictures[0][2]) == (folder / "separation.png").read_bytes()
    assert all(b"<svg" in base64.b64decode(data) for _, _, data in pictures[1:])


def test_page_has_the_numbers_and_no_offline_start(made):
    found, folder = made
    page = (folder / "demo.html").read_text()
    for name in ("error", "network_error", "batch_error", "amari"):
        assert f"{found[name]:.3g}" in page
    others = found["errors_of_other_orders"]
    assert f"{others[0]:.2g} to {others[-1]:.2g}, median {others[4]:.2g}" in page
    assert "offline start" not in page


def test_page_opens_in_a_browser(made, tmp_path):
    assert len(check_page(made[1] / "demo.html", tmp_path)) == 2


def test_plain_lines_where_there_is_no_terminal(tmp_path):
    run = subprocess.run([*COMMAND, "-o", "out"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stderr == ""
    assert "\x1b" not in run.stdout
    assert "\r" not in run.stdout
    assert re.search(r"StreamingNICA 0\.000\d+ \(9 other orders", run.stdout)
    assert run.stdout.endswith("Look at out/demo.html and out/separation.png\n")


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize("colours", [True, False])
def test_live_line_on_a_terminal(tmp_path, colours):
    import pty

    parent, child = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "120"} | ({} if colours else {"NO_COLOR": "1"})
    with subprocess.Popen([*COMMAND, "-o", "out"], cwd=tmp_path, stdout=-1, stderr=child, env=environment) as process:
        os.close(child)
        shown = b""
        try:
            while piece := os.read(parent, 65536):
                shown += piece
        except OSError:  # how Linux says that the other side is closed
            pass
        process.communicate(timeout=60)
    os.close(parent)
    assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert re.search(r"StreamingNICA .* 100% .*[\d,]+ pixels/s, error 0\.0\d+ \d:\d\d:\d\d", text)
    assert re.search(r"TwoCompartmentNICA .* 100% .*[\d,]+ pixels/s, error", text)
    assert bool(re.search(rb"\x1b\[[0-9;]*3[0-9]|\x1b\[38;", shown)) is colours


def test_quiet_says_nothing(tmp_path):
    result = demo("-o", tmp_path, "--quiet")
    assert result.output == ""
    assert (tmp_path / "demo.html").exists()


def test_output_that_is_a_file(tmp_path):
    file = tmp_path / "x"
    file.write_text("mine")
    for output in (file, file / "under"):
        assert "is a file; give a folder" in refused("-o", output)
    assert file.read_text() == "mine"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_output_that_may_not_be_written(tmp_path):
    tmp_path.chmod(0o500)
    assert "cannot be written to" in refused("-o", tmp_path / "out")


def test_disk_that_refuses(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", str(tmp_path / "out"))

    monkeypatch.setattr("pathlib.Path.mkdir", full)
    assert "(No space left on device): free some space, or choose another folder" in refused(
        "-o", tmp_path / "out", "--quiet"
    )


@pytest.mark.parametrize("package", ["matplotlib", "skimage"])
def test_missing_package(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    assert "pip install 'bionica[plot]'" in refused("-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("seed", ["-1", str(2**32), "one"])
def test_seed_out_of_range_is_wrong_usage(tmp_path, seed):
    assert "--seed" in demo("--seed", seed, "-o", tmp_path / "out", code=2).stderr
    assert not (tmp_path / "out").exists()


def test_interrupted(tmp_path):
    with subprocess.Popen(
        [*COMMAND, "-o", "out"],
        cwd=tmp_path,
        stdout=-1,
        stderr=-1,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout.readline().startswith("Separating")
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors == "Interrupted: the page was not written; bionica demo starts from the beginning\n"
    assert not (tmp_path / "out").exists()


def test_help_has_an_example():
    assert "bionica demo --seed 1" in demo("--help").output
