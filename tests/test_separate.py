"""`bionica separate`: real files in, sources out; pipes, interruptions, errors in one line."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import bionica
from bionica.cli import app
from bionica.io import open_reader, open_writer, read_model, write_model
from bionica.metrics import permutation_error
from conftest import mixtures

COMMAND = [sys.executable, "-m", "bionica", "separate"]


def separate(*arguments, fed=None, code=0):
    result = CliRunner().invoke(app, ["separate", *map(str, arguments)], input=fed)
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    return result


def refused(*arguments, fed=None):
    result = separate(*arguments, fed=fed, code=1)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("Error: ")
    return result.stderr


def write(path, X, shape=None):
    with open_writer(path, X.shape[1], X.dtype, shape) as writer:
        writer.write(X)
    return path


def read(path):
    with open_reader([str(path)]) as reader:
        return np.concatenate(list(reader.blocks()))


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def text(X):
    return "".join(",".join(map(repr, row)) + "\n" for row in X.tolist())


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Compile the loops first: a command that has to wait for one says so on standard error."""
    for k in (3, 5):
        bionica.StreamingNICA(3, random_state=0).fit(mixtures(400, 3, k)[1])


@pytest.fixture(scope="module")
def problem():
    return mixtures(4000, 3, 5)


# ---------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv", "tsv", "parquet", "h5", "zarr"])
def test_every_format_is_separated_into_its_own_kind(tmp_path, problem, suffix):
    if suffix in ("parquet", "h5", "zarr"):
        pytest.importorskip({"parquet": "pyarrow", "h5": "h5py"}.get(suffix, suffix))
    S, X = problem
    result = separate(write(tmp_path / f"x.{suffix}", X), "--sources", 3)
    assert left(tmp_path) == [f"x-sources.{suffix}", f"x.{suffix}"]
    Y = read(tmp_path / f"x-sources.{suffix}")
    assert permutation_error(S, Y) < 1e-3
    assert np.array_equal(Y, bionica.MinimumVolumeCone(3, random_state=0).fit(X).transform(X))
    assert result.stderr.startswith("BatchNICA and MinimumVolumeCone were tried; MinimumVolumeCone was kept: ")
    assert result.stderr.count("\n") == 1
    assert "3 sources in 4,000 samples of 5 mixtures (MinimumVolumeCone" in result.stdout
    assert "The fit looks right" in result.stdout
    assert f"x-sources.{suffix}" in result.stdout


@pytest.mark.parametrize("method", ["two-compartment", "interneuron", "npca", "nsm", "batch", "streaming", "cone"])
def test_methods_and_json(tmp_path, problem, method):
    S, X = problem
    np.save(tmp_path / "x.npy", X.T)
    out = tmp_path / "y.csv"
    epochs = 20 if method in ("npca", "nsm") else 1
    result = separate(
        tmp_path / "x.npy", "-o", out, "--axis", 1, "--method", method, "--epochs", epochs, "--json"
    )  # fmt: skip
    found = json.loads(result.stdout)
    assert (found["sources"], found["mixtures"], found["samples"]) == (3, 5, 4000)
    assert found["output"] == [str(out)]
    assert found["ok"] or method in ("npca", "nsm")
    assert permutation_error(S, read(out)) < 0.05


def test_larger_than_memory(tmp_path, problem, monkeypatch):
    """Each sample is learned from once in each pass, from the first one on."""
    monkeypatch.setattr("bionica.cli.separate_file.IN_MEMORY", 8 * 5 * 2000)
    S, X = problem
    x, network = write(tmp_path / "x.npy", X), bionica.StreamingNICA(3, random_state=0).partial_fit(X)
    result = separate(x)
    assert "(StreamingNICA" in result.stdout
    assert np.array_equal(read(tmp_path / "x-sources.npy"), network.transform(X))
    assert permutation_error(S, read(tmp_path / "x-sources.npy")) < 1e-3
    separate(x, "--model", tmp_path / "m", "--epochs", 2, "--force")
    assert bionica.load(tmp_path / "m").n_samples_seen_ == 8000
    assert np.array_equal(read(tmp_path / "x-sources.npy"), network.partial_fit(X).transform(X))
    batch = bionica.BatchNICA(3, random_state=0).fit(X[::2])  # of a larger file, samples that are evenly spaced
    separate(x, "--method", "batch", "--force")
    assert np.array_equal(read(tmp_path / "x-sources.npy"), batch.transform(X))


def test_large_images_are_separated_by_evenly_spaced_pixels(tmp_path, problem, monkeypatch):
    pytest.importorskip("tifffile")
    _, X = problem
    x = write(tmp_path / "x.tif", X, (50, 80))
    for memory in (2**20, 8 * 5 * 2000):
        monkeypatch.setattr("bionica.cli.separate_file.IN_MEMORY", memory)
        assert "(MinimumVolumeCone" in separate(x, "-o", tmp_path / "y.npy", "--sources", 3, "--force").stdout
    seen = read(x)
    assert np.array_equal(
        np.load(tmp_path / "y.npy"), bionica.MinimumVolumeCone(3, random_state=0).fit(seen[::2]).transform(seen)
    )


def test_auto_says_which_method_it_kept_and_why(tmp_path):
    """Uncorrelated sources in strong noise: BatchNICA, without the warnings of the cone. Abundances: the cone."""
    rng = np.random.default_rng(0)
    S = rng.exponential(size=(3000, 3))
    noisy = S @ rng.standard_normal((3, 3)) + 0.5 * rng.standard_normal((3000, 3))
    page = tmp_path / "page.html"
    result = separate(write(tmp_path / "x.npy", noisy), "--sources", 3, "--report", page)
    assert "BatchNICA was kept: " in result.stderr and "Note: MinimumVolumeCone" not in result.output
    assert "BatchNICA was kept: " in page.read_text()
    closed = rng.dirichlet([0.5, 0.5, 0.5], 3000) @ rng.random((3, 10))
    for noise, why in ((0.003, "MinimumVolumeCone was kept: "), (0.0, "BatchNICA cannot be fitted")):
        x = write(tmp_path / f"{noise}.npy", closed + noise * rng.standard_normal(closed.shape))
        found = json.loads(separate(x, "--sources", 3, "--json").stdout)
        assert found["method"] == "MinimumVolumeCone" and why in found["choice"]
        assert found["ok"], found["diagnosis"]
        assert not any("BatchNICA" in note for note in found["notes"])
    found = json.loads(separate(tmp_path / "0.003.npy", "--json", "--force").stdout)
    assert found["sources"] == 3 and "sum to a constant" in found["notes"][0]


@pytest.mark.parametrize("option", [["--model", "m"], ["--epochs", "2"], ["--horizon", "3000"], ["--follow"]])
def test_what_only_an_online_method_can_do_is_done_by_streaming(tmp_path, problem, option):
    x = write(tmp_path / "x.npy", problem[1])
    option = [str(tmp_path / value) if value == "m" else value for value in option]
    assert "(StreamingNICA" in separate(x, "--sources", 3, *option).output


def test_horizon_reaches_the_network(tmp_path, problem):
    x, m = write(tmp_path / "x.npy", problem[1]), tmp_path / "m"
    separate(x, "--horizon", 500, "--model", m)
    assert bionica.load(m).horizon == 500
    again = [x, "--model", m, "--resume", "--force"]
    assert "learned with --horizon 500: omit --horizon 600" in refused(*again, "--horizon", 600)
    separate(*again)
    for method in ("batch", "npca"):
        assert "has no horizon" in separate(x, "--method", method, "--horizon", 500, code=2).output


def test_a_change_of_the_mixing_is_said(problem):
    """With the remedy in the words of the command; with --horizon the fit is judged by the samples after the change.

    Without a horizon a change is told from sources that come and go after 16 blocks, 6,240 samples here.
    """
    S, X = problem
    changed = np.concatenate([X, X, X[:, [1, 0, 2, 4, 3]] * [1, 2, -1, 1, 3]])
    found = json.loads(separate("-", "--sources", 3, "--json", fed=text(changed)).stderr)
    assert found["change_detected"]
    assert "--horizon N" in found["diagnosis"][0]
    assert not found["ok"]
    assert len(found["notes"]) == 1
    assert "give --horizon N, the number of samples to remember" in found["notes"][0]
    result = separate("-", "--sources", 3, "--horizon", 500, "--json", fed=text(changed))
    found = json.loads(result.stderr)
    assert (found["ok"], found["change_detected"], found["notes"]) == (True, False, [])
    assert found["diagnosis"][0] == "learning started again 1 time after an abrupt change of the mixtures."
    Y = np.loadtxt(result.stdout.splitlines(), delimiter=",")
    assert permutation_error(S[-1000:], Y[-1000:]) < 0.05


def test_with_a_horizon_each_source_of_a_file_is_computed_when_its_sample_arrives(tmp_path, problem):
    """Right before and after a change, from the first sample on; with --model the network that is saved."""
    S, X = problem
    x = write(tmp_path / "x.npy", np.concatenate([X, X[:, [1, 0, 2, 4, 3]] * [1, 2, -1, 1, 3]]))
    y, m = tmp_path / "y.npy", tmp_path / "m"
    command = [x, "--sources", 3, "--horizon", 500, "-o", y]
    separate(*command, "--model", m, "--mixing", tmp_path / "a.npy")
    Y, S = np.load(y), np.concatenate([S, S])
    for part in (slice(0, 1000), slice(3000, 4000), slice(-1000, None)):
        assert permutation_error(S[part], Y[part]) < 0.05
    network = bionica.load(m)
    assert network.n_samples_seen_ == 8500  # the first 500 twice, so that the first answers are good
    assert np.array_equal(np.load(tmp_path / "a.npy"), network.mixing_.T)
    expected = bionica.StreamingNICA(3, horizon=500, random_state=0).partial_fit(np.load(x)[:500])
    assert np.array_equal(Y, expected.partial_fit_transform(np.load(x)))
    separate(x, "-o", tmp_path / "z.npy", "--model", m, "--resume")
    assert np.array_equal(np.load(tmp_path / "z.npy"), Y)
    separate(*command, "--epochs", 2, "--force")
    assert np.array_equal(np.load(y), expected.partial_fit_transform(np.load(x)))


@pytest.mark.parametrize("method", ["cone", "two-compartment"])
def test_with_a_horizon_a_network_that_starts_late_answers_the_first_sample_too(tmp_path, problem, method):
    x = write(tmp_path / "x.npy", problem[1])
    separate(x, "--sources", 3, "--horizon", 50, "--method", method, "-o", tmp_path / "y.npy")
    Y = np.load(tmp_path / "y.npy")
    assert (Y[:50] > 0).any(axis=0).all()


def test_an_option_that_needs_streaming_says_so(tmp_path, problem):
    x = write(tmp_path / "x.npy", problem[1])
    common = [x, "--sources", 3, "--force"]
    assert (
        "Note: --model needs a method that learns sample by sample: StreamingNICA is used"
        in separate(*common, "--model", tmp_path / "m").stderr
    )
    assert (
        "Note: --model and --epochs need a method" in separate(*common, "--model", tmp_path / "m", "--epochs", 2).stderr
    )
    for quiet in ([], ["--model", tmp_path / "m", "--method", "streaming"], ["--model", tmp_path / "m", "--resume"]):
        assert "StreamingNICA is used" not in separate(*common, *quiet).output


@pytest.mark.parametrize(
    "options", [[], ["--method", "streaming"], ["--method", "batch"], ["--method", "cone"], ["--model"], "pipe"]
)
def test_a_doubtful_number_of_sources_is_said_before_the_fit(tmp_path, monkeypatch, options):
    """Mixing that drifts varies in all 6 directions, and in 3 at any time."""
    rng = np.random.default_rng(0)
    S, t = rng.exponential(size=(3000, 3)), np.linspace(0, 1, 3000)[:, None, None]
    A, B = rng.standard_normal((2, 6, 3))
    X = np.einsum("tkd,td->tk", (1 - t) * A + t * B, S)
    fits = []
    for name in ("StreamingNICA.partial_fit_transform", "StreamingNICA.fit", "BatchNICA.fit", "MinimumVolumeCone.fit"):
        monkeypatch.setattr(f"bionica.{name}", lambda self, X, y=None: fits.append(X) or _stop())
    if options == "pipe":
        monkeypatch.setattr("bionica.cli.separate_stream._load_compiled_loop", lambda o: None)
        result = separate("-", fed=text(X), code=1)
    else:
        options = options + [tmp_path / "m"] * (options == ["--model"])
        result = separate(write(tmp_path / "x.npy", X), *options, code=1)
    assert fits
    if options == "pipe":  # in the first samples it hardly changes
        assert "of 6 directions for sources: too few are left to tell noise from sources" in result.stderr
        return
    assert "--sources auto takes 3 sources: short stretches of the samples show 3, and all of them" in result.stderr
    assert "the mixing probably changes. Give --horizon N" in result.stderr


def _stop():
    raise ValueError("the fit began")


def test_images_are_recovered_as_images(tmp_path, rng):
    iio = pytest.importorskip("imageio.v3")
    S = rng.random((3, 40, 40)) * (rng.random((3, 40, 40)) < 0.5)
    mixed = np.einsum("ij,jhw->ihw", np.eye(3) + 0.5, S)
    names = [tmp_path / f"mixed-{i}.png" for i in range(3)]
    for name, image in zip(names, mixed, strict=True):
        iio.imwrite(name, np.rint(60000 * image / mixed.max()).astype(np.uint16))
    separate(*names, "--sources", 3)
    Y = np.stack([iio.imread(tmp_path / f"sources-{i}.png").ravel() / 65535 for i in (1, 2, 3)], axis=1)
    S = S.reshape(3, -1).T
    assert permutation_error(S / S.std(axis=0), Y / Y.std(axis=0)) < 1e-3
    separate(*names, "--sources", 3, "-o", tmp_path / "stack.tif", "-q")
    separate(tmp_path / "stack.tif", "-o", tmp_path / "again.npy", "--report", tmp_path / "page.html")
    assert np.load(tmp_path / "again.npy").shape == (1600, 3)


def test_the_report_is_complete_in_itself(tmp_path, problem):
    from xml.etree import ElementTree

    page = tmp_path / "page.html"
    separate(write(tmp_path / "x.npy", problem[1]), "--report", page)
    html = page.read_text()
    assert not re.search(r"(src|href)=\"(?!data:)", html)
    pictures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(pictures) == 4
    for picture in pictures:
        ElementTree.fromstring(picture)
    assert "The fit looks right" in html
    assert "nan" not in "".join(pictures)


@pytest.mark.parametrize("shape", [(500, 300), (100, 80, 3)])
def test_the_report_shows_images_as_images(tmp_path, rng, shape):
    import base64

    iio = pytest.importorskip("imageio.v3")
    pytest.importorskip("tifffile")
    S = rng.random((int(np.prod(shape)), 2)) ** 3
    x = write(tmp_path / "x.tif", S @ np.array([[1.0, 0.3], [0.4, 1.0]]), shape)
    separate(x, "--sources", 2, "--report", tmp_path / "page.html")
    shown = re.findall(r'alt="(\w+ \d)" src="data:image/png;base64,([^"]+)"', (tmp_path / "page.html").read_text())
    assert [name for name, _ in shown] == ["source 1", "source 2", "mixture 1", "mixture 2"]
    recovered = iio.imread(tmp_path / "x-sources.tif")
    step = max(1, -(-max(shape) // 240))
    for (_, data), page in zip(shown, recovered, strict=False):
        small = page[::step, ::step]
        assert np.allclose(iio.imread(base64.b64decode(data)), 255 * (small / small.max()), atol=0.51)


def test_quiet_says_nothing(tmp_path, problem):
    result = separate(write(tmp_path / "x.npy", problem[1]), "-q")
    assert result.output == ""


def test_help_has_examples_and_exit_codes():
    text = separate("--help").output
    assert "bionica separate mixtures.npy --sources 3" in text
    assert "130" in text


# ---------------------------------------------------------------------------------------------- errors


def test_errors_say_what_to_do(tmp_path, problem):
    _, X = problem
    x = write(tmp_path / "x.npy", X)
    before = left(tmp_path)
    assert "more than the 5 mixtures" in refused(x, "--sources", 6)
    assert "--axis 1; if not, --axis 0" in refused(write(tmp_path / "t.npy", np.ascontiguousarray(X.T)))
    assert "need 4 at the least" in refused(write(tmp_path / "s.npy", X[:3]), "--sources", 4, "--axis", 0)
    (tmp_path / "t.npy").unlink()
    (tmp_path / "s.npy").unlink()
    assert "unknown suffix '.xyz'" in refused(x, "-o", tmp_path / "y.xyz")
    assert "no folder" in refused(x, "-o", tmp_path / "no" / "y.npy")
    assert "does not exist" in refused(tmp_path / "no.npy")
    assert "is also the input" in refused(x, "-o", x)
    assert "no folder" in refused(x, "--model", tmp_path / "no" / "m")
    assert "has no array" in refused(write(tmp_path / "x.npz", X), "--dataset", "other")
    (tmp_path / "x.npz").unlink()
    assert left(tmp_path) == before
    (tmp_path / "m").write_bytes(b"no model")
    assert "--resume, or replace it with --force" in refused(x, "--model", tmp_path / "m")
    assert "not a complete bionica model" in refused(x, "--model", tmp_path / "m", "--resume")
    assert "a page of HTML; give it the suffix .html" in refused(x, "--report", tmp_path / "b.csv")


@pytest.mark.parametrize(
    "arguments",
    [
        ["-", "x.npy"], ["x.npy", "--columns", "3"], ["-", "--axis", "1"], ["-", "--epochs", "2"], ["x.npy", "--resume"],
        ["x.npy", "--follow", "-o", "y.csv"], ["-", "--method", "batch"], ["x.npy", "--sources", "none"],
        ["x.npy", "--method", "batch", "--model", "m"], ["x.npy", "--sources", "0"], [],
    ],
)  # fmt: skip
def test_wrong_usage(arguments):
    separate(*arguments, code=2)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet", ".h5", ".tif"])
def test_fuzzed_files_end_in_one_line_and_leave_nothing(tmp_path, problem, rng, suffix):
    pytest.importorskip({".parquet": "pyarrow", ".h5": "h5py", ".tif": "tifffile"}.get(suffix, "numpy"))
    data = write(tmp_path / f"x{suffix}", problem[1][:400], (20, 20)).read_bytes()
    (tmp_path / f"x{suffix}").unlink()
    bad = tmp_path / f"bad{suffix}"
    for spoilt in (data[: len(data) // 2], data[:7], rng.bytes(2000), data[:64] + rng.bytes(500), b"\x00" * 999):
        bad.write_bytes(spoilt)
        result = CliRunner().invoke(app, ["separate", str(bad)])
        if result.exit_code == 0:  # half of a text file is a text file
            assert suffix == ".csv"
            (tmp_path / f"bad-sources{suffix}").unlink()
        else:
            assert result.exit_code == 1, (result.output, result.exception)
            assert result.stderr.startswith(f"Error: {bad}")
            assert result.stderr.count("\n") == 1
        assert left(tmp_path) == [bad.name]


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".h5", ".parquet"])
def test_a_full_disk(tmp_path, problem, suffix):
    pytest.importorskip({".parquet": "pyarrow", ".h5": "h5py"}.get(suffix, "numpy"))
    np.save(tmp_path / "x.npy", problem[1])

    def little():
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    result = run(["x.npy", "-o", f"y{suffix}"], tmp_path, preexec_fn=little)
    assert result.returncode == 1, result.stderr
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") == 1
    assert left(tmp_path) == ["x.npy"]


def run(arguments, folder, **options):
    return subprocess.run(COMMAND + arguments, cwd=folder, capture_output=True, text=True, timeout=60, **options)


# ---------------------------------------------------------------------------------------------- pipes


def test_a_pipe_gives_what_the_network_put_out(problem):
    S, X = problem
    Y = bionica.StreamingNICA(3, random_state=0).partial_fit_transform(X)
    for arguments, fed in (
        (["-", "--sources", 3], text(X)),
        (["-", "--sources", 3], "a;b;c;d;e\n" + text(X).replace(",", ";")),
        (["-", "--columns", 5], X.tobytes()),  # counts three
    ):
        result = separate(*arguments, fed=fed)
        lines = result.stdout.splitlines()
        if str(fed).startswith("a;"):
            assert lines.pop(0) == "source_1,source_2,source_3"
        assert np.array_equal(np.loadtxt(lines, delimiter=","), Y)
        assert "3 sources in 4,000 samples" in result.stderr
    assert permutation_error(S[-1000:], Y[-1000:]) < 0.05
    result = separate("-", "--columns", 5, "--dtype", "float32", "--sources", 3, fed=X.astype("float32").tobytes())
    assert np.allclose(np.loadtxt(result.stdout.splitlines(), delimiter=",")[-1], Y[-1], atol=1e-2)


def test_a_pipe_into_a_file_and_a_file_into_a_pipe(tmp_path, problem):
    _, X = problem
    separate("-", "--sources", 3, "-o", tmp_path / "y.npy", "--model", tmp_path / "m", fed=text(X))
    Y = np.load(tmp_path / "y.npy")
    assert Y.shape == (4000, 3)
    result = separate(write(tmp_path / "x.npy", X), "--follow", "--sources", 3)
    assert np.array_equal(np.loadtxt(result.stdout.splitlines(), delimiter=","), Y)
    result = separate(tmp_path / "x.npy", "-o", "-", "--json")
    assert json.loads(result.stderr)["ok"]
    assert np.array_equal(
        np.loadtxt(result.stdout.splitlines(), delimiter=","),
        bionica.MinimumVolumeCone(3, random_state=0).fit(X).transform(X),
    )


def test_a_pipe_goes_on_where_it_stopped(tmp_path, problem):
    _, X = problem
    whole = separate("-", "--sources", 3, fed=text(X)).stdout
    model = ["--model", tmp_path / "m", "--sources", 3]
    first = separate("-", *model, fed=text(X[:50]))
    second = separate("-", *model, "--resume", fed=text(X[50:1000]))
    third = separate("-", *model, "--resume", fed=text(X[1000:]))
    assert first.stdout + second.stdout + third.stdout == whole


def test_a_bad_line_in_a_pipe_keeps_the_model(tmp_path, problem):
    _, X = problem
    result = separate(
        "-", "--sources", 3, "--model", tmp_path / "m", "-o", tmp_path / "y.csv", fed=text(X[:1000]) + "1,2\n", code=1
    )
    assert "Error: standard input, line 1001 has 2 values where 5 are expected" in result.stderr
    assert left(tmp_path) == ["m"]
    assert bionica.load(tmp_path / "m").n_samples_seen_ == 1000
    assert "holds no sample" in separate("-", fed="", code=1).stderr


def test_a_slow_pipe_is_answered_within_50_ms_a_line(problem):
    _, X = problem
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*COMMAND, "-", "--sources", "3"], stdin=-1, stdout=-1, stderr=-1, env=env, bufsize=0
    ) as process:  # fmt: skip
        assert process.stderr.readline() == b"Reading standard input\n"
        waits = []
        for row in X[:400]:
            line = (",".join(map(repr, row.tolist())) + "\n").encode()
            sent = time.perf_counter()
            process.stdin.write(line)
            answer = process.stdout.readline()
            waits.append(time.perf_counter() - sent)
            assert answer.count(b",") == 2
            time.sleep(0.001)
        process.stdin.close()
        process.wait(30)
        process.stdout.read(), process.stderr.read()
    assert np.quantile(waits, 0.99) < 0.05, np.sort(waits)[-5:]
    assert np.median(waits) < 0.01


def test_nobody_listens(tmp_path, problem):
    np.save(tmp_path / "x.npy", np.tile(problem[1], (10, 1)))
    for arguments in ("--follow --sources 3 --model m", "-o -"):
        command = " ".join([*COMMAND, "x.npy", arguments, "| head -2"])
        result = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert len(result.stdout.splitlines()) == 2
        assert "Error" not in result.stderr
        assert "rror" not in result.stderr.replace("The", "")
    assert (tmp_path / "m").exists()


def test_json_is_one_line_and_stands_alone(tmp_path, problem):
    """On standard output, or on standard error where the sources are on standard output; notes are inside."""
    _, X = problem
    x = write(tmp_path / "x.npy", np.column_stack([X, np.arange(len(X)) ** 2]))
    for arguments in (["--json"], ["-q", "--json"]):
        for place, fed in ((["-"], text(X)), ([x, "-o", "-", "--sources", 3], None)):
            result = separate(*place, *arguments, fed=fed)
            assert result.stderr.count("\n") == 1
            found = json.loads(result.stderr)
            assert (found["samples"], found["interrupted"]) == (4000, False)
            assert len(result.stdout.splitlines()) == 4000
            assert found["notes"] == ([] if place == ["-"] else found["notes"][:1])
        result = separate(x, *arguments, "--force", "--sources", 3)
        assert result.stderr == ""
        assert result.stdout.count("\n") == 1
        assert "only rises from sample to sample" in json.loads(result.stdout)["notes"][0]
    assert "fewer" in refused("-", "--method", "two-compartment", "--json", fed=text(X[:20]))


def test_a_short_pipe_is_answered(problem):
    X = problem[1][problem[1].any(axis=1)]
    Y = np.loadtxt(separate("-", "--sources", 3, fed=text(X[:20])).stdout.splitlines(), delimiter=",")
    assert np.array_equal(Y, bionica.StreamingNICA(3, random_state=0).partial_fit_transform(X[:20]))
    assert Y[2:].any(axis=1).all()  # at the very start all outputs may be negative, and are cut off at zero
    result = separate("-", fed=text(X[:50]))  # counted in what there is
    assert len(result.stdout.splitlines()) == 50
    assert "50 samples are few to judge by" in result.stderr
    assert "too few to judge by" in separate("-", fed=text(X[:1])).stderr


def test_too_few_samples_to_start_are_said_to_be(tmp_path, problem):
    """The networks of the paper start with their first 100 + 20 N samples."""
    _, X = problem
    few, network = text(X[:50]), ["--method", "two-compartment"]
    counted = refused("-", "-q", *network, fed=few)  # held back while sources are counted: nothing was answered
    assert "ended after 50 samples, and TwoCompartmentNICA starts with 160: nothing was separated" in counted
    known = separate("-", "--sources", 3, *network, fed=few, code=1)
    assert known.stdout == "0.0,0.0,0.0\n" * 50
    assert known.stderr.splitlines()[-1] == counted.strip()
    assert "unused" not in known.stderr
    for name, place in (("y.csv", ["-"]), ("-", [write(tmp_path / "x.npy", X[:50]), "--follow"])):
        out = name if name == "-" else tmp_path / name
        result = separate(*place, "--sources", 3, *network, "-o", out, fed=few, code=1)
        assert "nothing was separated" in result.stderr
        assert left(tmp_path) in ([], ["x.npy"])
    assert "use --method auto, which starts with fewer" in result.stderr
    files = ["--model", tmp_path / "m", "--report", tmp_path / "r.html"]
    saved = separate("-", "--sources", 3, *network, *files, "--json", fed=few)
    found = json.loads(saved.stderr)
    assert not found["ok"]
    assert found["diagnosis"] == [
        "the network has not started: 50 of the 160 samples that it starts with have come, and every answer was zero. "
        "More samples with --resume go on from here."
    ]
    separate(tmp_path / "x.npy", "--sources", 3)


def test_diagnoses_speak_the_language_of_the_command(tmp_path, problem):
    result = separate(write(tmp_path / "x.npy", problem[1]), "--sources", 2)
    assert "try --sources 3" in result.stdout
    assert "n_components" not in result.stdout
    x = write(tmp_path / "r.npy", problem[1] @ np.ones((5, 5)).cumsum(axis=1)[:, :1] @ np.ones((1, 4)))
    assert "--sources 3 exceeds the rank of the data" in refused(x, "--sources", 3)
    centred = write(tmp_path / "c.npy", np.random.default_rng(0).laplace(size=(2000, 3)) + 1)
    offline, online = (separate(centred, "--method", method, "--force").stdout for method in ("batch", "streaming"))
    assert "learn from more samples, compare --method batch" in online
    assert "learn from more samples)" in offline


# ---------------------------------------------------------------------------------------------- columns


def test_what_is_no_mixture_is_left_out(tmp_path, problem):
    pandas = pytest.importorskip("pandas")
    _, X = problem
    right = separate("-", "--sources", 3, fed=text(X)).stdout.splitlines()
    frame = pandas.DataFrame(X, columns=list("abcde"))
    frame.insert(2, "time", np.arange(len(X)) / 10)
    for fed, arguments in (
        (frame.to_csv(), ["--skip", "time"]),
        (frame.to_csv(index=False), ["--use", "a,b,c,d,e"]),
        (frame.to_csv(index=False), ["--use", "1-2,4-6"]),
        (pandas.DataFrame(X).to_csv(), []),
        (pandas.DataFrame(X).to_csv(index=False), []),
        (frame.assign(time="noon").to_csv(), ["--skip", "4"]),
    ):
        result = separate("-", "--sources", 3, *arguments, fed=fed)
        assert result.stdout.splitlines() == ["source_1,source_2,source_3", *right], arguments
        if fed.startswith(","):
            assert "Note: standard input: the first column has no name; it was taken for row numbers" in result.stderr
    raw = separate("-", "--sources", 3, "--columns", 6, "--skip", 3, fed=frame.to_numpy().tobytes())
    assert raw.stdout.splitlines() == right
    warned = separate("-", "--sources", 3, fed=frame.to_csv(index=False))
    assert "column 3 (time) only rises from sample to sample" in warned.stderr
    assert "--skip 3" in warned.stderr
    assert "--skip 3" in refused("-", "-q", "--sources", 3, fed=frame.assign(time="noon").to_csv(index=False))


def test_a_network_goes_on_with_the_columns_it_learned_from(tmp_path, problem):
    x, m = write(tmp_path / "x.npy", problem[1]), tmp_path / "m"
    separate(x, "--use", "1-4", "--model", m, "-o", tmp_path / "y.npy")
    again = [x, "--model", m, "--resume", "--force", "-o", tmp_path / "y.npy"]
    assert "has 5 mixtures" in refused(*again)
    assert "learned with --use 1-4: give the same now, not --use 2-5" in refused(*again, "--use", "2-5")
    separate(*again, "--use", "1-4")


# ---------------------------------------------------------------------------------------------- interruptions


def started(folder, *arguments):
    return subprocess.Popen([*COMMAND, *arguments], cwd=folder, stdout=-1, stderr=-1, text=True)


def wait_for(path, seen):
    for _ in range(3000):
        time.sleep(0.01)
        if path.exists() and bionica.load(path).n_samples_seen_ > seen:
            return
    raise AssertionError("no checkpoint")


@pytest.fixture(scope="module")
def long_run(tmp_path_factory, problem):
    """A folder with a file whose separation takes a second or more, and what one uninterrupted run makes of it."""
    folder = tmp_path_factory.mktemp("long")
    np.save(folder / "x.npy", np.tile(problem[1], (50, 1)))
    separate(folder / "x.npy", *LONG, folder / "whole", "-o", folder / "whole.npy")
    return folder


LONG = ["--sources", "3", "--epochs", "20", "--model"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_and_resumed_gives_the_same_bytes(long_run, how):
    model, out = long_run / f"part{how}", long_run / f"part{how}.npy"
    arguments = ["x.npy", *LONG, model.name, "-o", out.name]
    with started(long_run, *arguments, "--checkpoint", "0") as process:
        wait_for(model, 200_000)
        process.send_signal(how)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == (130 if how == signal.SIGINT else -9), errors
    assert not out.exists()
    if how == signal.SIGINT:
        assert errors.endswith(f"the network is in {model.name}; the same command with --resume goes on from here\n")
    assert 200_000 < bionica.load(model).n_samples_seen_ < 4_000_000
    separate(long_run / "x.npy", *LONG, model, "-o", out, "--resume")
    assert model.read_bytes() == (long_run / "whole").read_bytes()
    assert out.read_bytes() == (long_run / "whole.npy").read_bytes()
    assert not [name for name in left(long_run) if name.endswith(".part")]


def test_resume_checks_that_model_and_input_belong_together(tmp_path, problem):
    _, X = problem
    x, m = write(tmp_path / "x.npy", X), tmp_path / "m"
    result = separate(x, "--model", m, "--resume")
    assert "starting from the beginning" in result.stderr
    model = ["--model", m, "--resume", "--force"]
    assert "stopped in an input of 4000" in refused(write(tmp_path / "y.npy", X[:2000]), *model)
    assert "is not the input that" in refused(write(tmp_path / "w.npy", X[::-1].copy()), *model)
    assert "has 4 mixtures" in refused(write(tmp_path / "z.npy", X[:, :4].copy()), *model)
    assert "holds a StreamingNICA" in refused(x, *model, "--method", "interneuron")
    assert "has 3 sources" in refused(x, *model, "--sources", 2)
    before = m.read_bytes()
    separate(x, *model)  # complete: writes the sources once more
    assert m.read_bytes() == before
    separate(x, *model, "--epochs", 3)
    assert bionica.load(m).n_samples_seen_ == 12_000


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet", ".h5", ".zarr", ".png"])
def test_what_a_killed_run_left_is_gone_after_the_next(tmp_path, problem, suffix):
    """Killed while it writes the output: a hidden part that nothing takes for sources, and that the next run removes."""
    _, X = problem
    shape = (50, 80)
    x = write(tmp_path / "x.tif", X, shape) if suffix == ".png" else write(tmp_path / "x.npy", X)
    script = (
        "import os, sys, pathlib, numpy as np; from bionica.io import open_writer\n"
        "from bionica.io.writers import formats\n"
        "formats._write_image = lambda path, *_: path.write_bytes(b'half') and (path.name == '1.png' and os._exit(9))\n"
        f"with open_writer(pathlib.Path('y{suffix}'), 3, 'float64', {shape}) as writer:\n"
        "    writer.write(np.ones((4000, 3)))\n"
        "    if '.png' not in sys.argv[1]: os._exit(9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, suffix], cwd=tmp_path, timeout=60)
    assert killed.returncode == 9
    remains = [tmp_path / name for name in left(tmp_path) if name != x.name]
    assert remains
    for part in remains:
        assert part.name.startswith(".y")
        assert part.name.endswith(".part")
        assert "is a folder, not a file: give a file" in refused(part)
    (tmp_path / ".m.abcd1234.part").mkdir()
    (tmp_path / ".m.abcd1234.part" / "file").write_bytes(b"half a model")
    separate(x, "--sources", 3, "-o", tmp_path / f"y{suffix}", "--model", tmp_path / "m")
    outputs = [f"y-{i}.png" for i in (1, 2, 3)] if suffix == ".png" else [f"y{suffix}"]
    assert left(tmp_path) == ["m", x.name, *outputs]


def test_resume_notices_an_input_that_was_changed_anywhere(tmp_path, problem):
    _, X = problem
    x, m = write(tmp_path / "x.npy", X), tmp_path / "m"
    separate(x, "--model", m, "-o", tmp_path / "y.npy")
    again = [x, "--model", m, "--resume", "--epochs", 2, "--force"]
    for row in (0, 99, 100, 101, 2000, 3999):
        changed = X.copy()
        changed[row, 2] += 1e-9
        write(x, changed)
        assert "is not the input that" in refused(*again)
    write(x, X)
    separate(*again)
    assert bionica.load(m).n_samples_seen_ == 8000


@pytest.mark.parametrize(("horizon", "seen"), [([], 1500), (["--horizon", "700"], 700 + 500)])
def test_resume_notices_a_change_of_what_was_learned_from_so_far(tmp_path, problem, monkeypatch, horizon, seen):
    """Interrupted in the middle of the first pass; with a horizon the first 700 samples are learned from before it."""
    _, X = problem
    monkeypatch.setattr("bionica.cli.separate_file.IN_MEMORY", 8)
    monkeypatch.setattr("bionica.io.reader.block_rows", lambda k: 500)
    x, m = write(tmp_path / "x.npy", X), tmp_path / "m"
    fit, calls = bionica.StreamingNICA.partial_fit, []

    def interrupted(self, block, *rest):
        calls.append(len(block))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return fit(self, block, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(bionica.StreamingNICA, "partial_fit", interrupted)
        separate(x, "--sources", 3, "--model", m, *horizon, code=130)
    assert bionica.load(m).n_samples_seen_ == seen
    for row in (0, 400, 499) if horizon else (0, 1400, 1499):
        changed = X.copy()
        changed[row] += 1e-9
        write(x, changed)
        assert "is not the input that" in refused(x, "--sources", 3, "--model", m, "--resume")
    write(x, X)
    separate(x, "--sources", 3, "--model", m, "--resume", "-o", tmp_path / "resumed.npy")
    separate(x, "--sources", 3, "--model", tmp_path / "whole", "-o", tmp_path / "whole.npy", *horizon)
    assert (tmp_path / "resumed.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert m.read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_file_after_a_pipe_is_learned_from_its_first_sample(tmp_path, problem):
    _, X = problem
    m = tmp_path / "m"
    separate("-", "--sources", 3, "--model", m, fed=text(X[:1000]))
    separate(write(tmp_path / "x.npy", X[1000:]), "--model", m, "--resume", "-o", tmp_path / "y.npy")
    assert bionica.load(m).n_samples_seen_ == 4000


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet", ".h5", ".zarr"])
def test_resume_after_a_kill_between_the_outputs_and_the_end(tmp_path, problem, suffix):
    """The sources, and perhaps the report, have their names already: the same command with --resume ends well."""
    pytest.importorskip({".parquet": "pyarrow", ".h5": "h5py", ".zarr": "zarr"}.get(suffix, "numpy"))
    x, m, y, r = write(tmp_path / "x.npy", problem[1]), tmp_path / "m", tmp_path / f"y{suffix}", tmp_path / "r.html"
    command = [x, "--sources", 3, "--model", m, "-o", y, "--report", r]
    separate(*command)
    names, model = left(tmp_path), m.read_bytes()
    assert "exists already" in refused(*command)
    separate(*command, "--resume")
    assert (left(tmp_path), m.read_bytes()) == (names, model)
    r.unlink()
    separate(*command, "--resume")
    assert left(tmp_path) == names
    # Another file of this name is kept, also where nothing is left to learn.
    write(y, problem[0] + 1)
    r.write_text("mine")
    assert f"{r} exists already" in refused(*command, "--resume")
    assert f"{y} exists already and holds other sources" in refused(*command[:-2], "--resume")
    assert np.allclose(read(y), problem[0] + 1)
    assert f"{y} exists already" in refused(*command[:-2], "--resume", "--epochs", 2)
    assert r.read_text() == "mine"


@pytest.mark.parametrize(
    ("redirected", "message"),
    [
        ("- <&-", "Error: standard input is closed: pipe the mixtures into it, or give a file in place of -"),
        ("x.npy -o - >&-", "Error: -o -: standard output is closed; give a file with -o"),
        (
            "x.npy -o - <&- >/dev/full",
            "Error: the disk is full (No space left on device): free some space; no partial output",
        ),
    ],
)
def test_standard_streams_that_are_closed(tmp_path, problem, redirected, message):
    np.save(tmp_path / "x.npy", problem[1][:400])
    command = f"{sys.executable} -m bionica separate {redirected}"
    result = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1
    assert left(tmp_path) == ["x.npy"]


def test_a_named_pipe_is_followed(tmp_path, problem):
    os.mkfifo(tmp_path / "x.csv")
    assert "is a pipe or a device" in refused(tmp_path / "x.csv")
    writer = threading.Thread(target=(tmp_path / "x.csv").write_text, args=(text(problem[1]),))
    writer.start()
    result = separate(tmp_path / "x.csv", "--follow", "--sources", 3)
    writer.join()
    assert result.stdout == separate("-", "--sources", 3, fed=text(problem[1])).stdout


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@pytest.mark.parametrize("method", ["batch", "cone", "interneuron", "npca", "streaming", "two-compartment"])
@pytest.mark.parametrize("scale", [1e100, 1e153, 1e160, 1e300])
def test_a_report_of_very_large_mixtures(tmp_path, problem, method, scale):
    """Squares overflow; the report is drawn, or the reason is said in one line."""
    X = problem[1][:300] * scale
    X[:, 0] = problem[1][:300, 0]
    report = tmp_path / "r.html"
    x = write(tmp_path / "x.npy", X)
    arguments = ["separate", str(x), "--sources", "2", "--method", method, "-q", "--report", str(report)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code in (0, 1), result.output
    if result.exit_code:
        assert result.stderr.count("\n") == 1
    else:
        assert not re.search(r'(x|y|width|height|points)="[^"]*(nan|inf)', report.read_text())


def test_broken_models_are_refused_and_kept(tmp_path, problem, rng):
    x, m = write(tmp_path / "x.npy", problem[1][:400]), tmp_path / "m"
    separate(x, "--sources", 3, "--model", m, "-o", tmp_path / "y.npy")
    (tmp_path / "y.npy").unlink()
    data = m.read_bytes()
    flipped = bytearray(data)
    flipped[len(data) // 3] ^= 255
    spoilt = [b"", data[:-1], data[: len(data) // 2], rng.bytes(3000), data[:8] + rng.bytes(300), bytes(flipped)]
    header, arrays = read_model(m)
    for change, new in (
        ({"progress": [1]}, {}), ({"progress": {"zero": "x"}}, {}), ({"n_features": 10**12}, {}), ({"parameters": None}, {}),
        ({}, {"state/rot.V": np.full((3, 3), np.nan)}), ({}, {"state/rot.V": np.ones((0,))}),
    ):  # fmt: skip
        write_model(m, header | change, arrays | new)
        spoilt.append(m.read_bytes())
    for bad in spoilt:
        m.write_bytes(bad)
        assert str(m) in refused(x, "--sources", 3, "--model", m, "--resume")
        assert m.read_bytes() == bad
        assert left(tmp_path) == ["m", "x.npy"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_a_recording_from_a_pipe(tmp_path, problem, how):
    with subprocess.Popen(
        [*COMMAND, "-", "--sources", "3", "-o", "y.csv", "--model", "m", "--checkpoint", "0"],
        cwd=tmp_path,
        stdin=-1,
        stdout=-1,
        stderr=-1,
    ) as process:
        assert process.stderr.readline() == b"Reading standard input\n"
        process.stdin.write(text(problem[1][:1000]).encode())
        process.stdin.flush()
        wait_for(tmp_path / "m", 999)
        process.send_signal(how)
        process.wait(30)
        errors = process.stderr.read().decode()
        process.stdout.read()
        process.stdin.close()
    assert process.returncode == 130
    assert "with --resume" in errors
    assert not [name for name in left(tmp_path) if name.endswith(".part")]
    assert read(tmp_path / "y.csv").shape == (1000, 3)
    assert bionica.load(tmp_path / "m").n_samples_seen_ == 1000


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_block_that_is_learned_is_answered_before_an_interrupt(how):
    from bionica.cli.console import sigterm_as_interrupt
    from bionica.cli.separate_stream import StreamSeparation

    class Network:
        learned = 0

        def partial_fit_transform(self, block):
            self.learned += len(block)
            os.kill(os.getpid(), how)
            return block

    class Run:
        network, saver = Network(), None
        options = type("Options", (), {"checkpoint": 1.0})

        def _save(self, reader, every):
            raise AssertionError("the interrupt comes first")

    written = []
    out = type("Out", (), {"write": written.append})
    sample = type("Sample", (), {"add": lambda block: None})
    blocks = iter([np.ones((3, 2)), np.ones((4, 2))])
    with sigterm_as_interrupt():
        assert StreamSeparation._answer(Run(), blocks, None, out, sample)
    assert sum(map(len, written)) == Run.network.learned == 3


def test_output_is_never_the_input(tmp_path):
    np.save(tmp_path / "x.npy", np.abs(np.random.default_rng(0).standard_normal((500, 3))))
    before = (tmp_path / "x.npy").read_bytes()
    path = str(tmp_path / "x.npy")
    result = CliRunner().invoke(app, ["separate", path, "--sources", "2", "-o", path, "--force"])
    assert result.exit_code == 1
    assert "also the input" in result.output
    assert (tmp_path / "x.npy").read_bytes() == before


def test_the_cone_with_a_horizon(tmp_path, problem):
    _, X = problem
    done = separate(
        write(tmp_path / "x.npy", X), "--sources", 3, "--method", "cone", "--horizon", 2000, "-o", tmp_path / "y.npy"
    )
    assert "unforeseen" not in done.stderr
    assert np.load(tmp_path / "y.npy").shape == (len(X), 3)
