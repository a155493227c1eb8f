"""`bionica separate`: real files in, sources out; pipes, interruptions, errors in one
line.
"""

import json
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import bionica
from bionica.cli import app
from bionica.cli import separation as command_line
from bionica.metrics import permutation_error
from bionica.mixtures import report
from conftest import left, mixtures, read, worst_correlation, write

COMMAND = [sys.executable, "-m", "bionica", "separate"]


def in_a_shell(command, folder, **options):
    """Run `bionica separate` with this rest of a command line."""
    command = " ".join([*COMMAND, command])
    run = {"capture_output": True, "text": True, "timeout": 120, **options}
    return subprocess.run(["bash", "-c", command], cwd=folder, **run)


# a pipe that does not wait for samples to choose by
AT_ONCE = ["--sources", 3, "--method", "streaming"]


def separate(*arguments, fed=None, code=0):
    result = CliRunner().invoke(app, ["separate", *map(str, arguments)], input=fed)
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    return result


def refused(*arguments, fed=None):
    result = separate(*arguments, fed=fed, code=1)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def text(X):
    return "".join(",".join(map(repr, row)) + "\n" for row in X.tolist())


def numbers(result):
    return np.loadtxt(result.stdout.splitlines(), delimiter=",")


@pytest.fixture(scope="module")
def problem():
    return mixtures(4000, 3, 5)


# --- files


@pytest.mark.parametrize("method", ["auto", "batch", "streaming", "cone"])
def test_methods_and_json(tmp_path, problem, method):
    S, X = problem
    np.save(tmp_path / "x.npy", X.T)
    out = tmp_path / "y.csv"
    options = ["--axis", 1, "--sources", 3, "--method", method, "--json", "-o", out]
    result = separate(tmp_path / "x.npy", *options)
    assert result.stdout.count("\n") == 1
    summary = json.loads(result.stdout)
    assert (summary["sources"], summary["mixtures"], summary["samples"]) == (3, 5, 4000)
    assert summary["output"] == [str(out)]
    assert summary["ok"], summary["diagnosis"]
    names = {"batch": "BatchNICA", "streaming": "StreamingNICA"}
    assert summary["method"] == names.get(method, "MinimumVolumeCone")
    assert permutation_error(S, read(out)) < 0.05
    assert summary["notes"] == []
    tried = {"BatchNICA", "MinimumVolumeCone"} if method == "auto" else set()
    assert set(summary["tried"]) == tried


@pytest.fixture
def abundances(rng):
    """Correlated sources, which sum to one, and their mixtures."""
    S = rng.dirichlet([0.5, 0.5, 0.5], 5000)
    X = S @ rng.random((3, 10)) + 0.003 * rng.standard_normal((5000, 10))
    return S, X


def test_the_method_and_the_sources_do_not_depend_on_the_size_of_the_file(
    tmp_path, abundances, monkeypatch
):
    """A larger file is fitted on evenly spread samples, and its sources are those of
    all of it.
    """
    S, X = abundances
    x = write(tmp_path / "x.npy", X)
    summaries = []
    for memory in (2**28, 8 * 10 * 2000):
        monkeypatch.setattr(command_line, "IN_MEMORY", memory)
        result = separate(x, "--sources", 3, "--json", "--force")
        summaries.append(json.loads(result.stdout))
        Y = np.load(tmp_path / "x-sources.npy")
        assert worst_correlation(S, Y) > 0.99
        assert len(Y) == 5000
    assert summaries[0]["method"] == summaries[1]["method"]
    assert len(summaries[1]["notes"]) > len(summaries[0]["notes"])
    separate(x, "--sources", 3, "--normalize", "sum", "--force")
    assert np.abs(np.load(tmp_path / "x-sources.npy").sum(axis=1) - 1).max() < 0.1


def test_with_a_horizon_each_source_of_a_file_is_computed_when_its_sample_arrives(
    tmp_path, problem
):
    """Right before and after a change, from the first sample on."""
    S, X = problem
    changed = X[:, [1, 0, 2, 4, 3]] * [1, 2, -1, 1, 3]
    x = write(tmp_path / "x.npy", np.concatenate([X, changed]))
    m = tmp_path / "m"
    a = tmp_path / "a.npy"
    separate(x, *AT_ONCE, "--horizon", 500, "--model", m, "--mixing", a)
    Y = np.load(tmp_path / "x-sources.npy")
    S = np.concatenate([S, S])
    for part in (slice(0, 1000), slice(3000, 4000), slice(-1000, None)):
        assert permutation_error(S[part], Y[part]) < 0.05
    assert np.array_equal(np.load(a), bionica.load(m).mixing_.T)


def test_images_are_recovered_as_images(tmp_path, rng):
    iio = pytest.importorskip("imageio.v3")
    S = rng.random((1600, 3)) * (rng.random((1600, 3)) < 0.5)
    mixed = S @ (np.eye(3) + 0.5)
    names = [tmp_path / f"mixed-{i}.png" for i in range(3)]
    for name, image in zip(names, mixed.T.reshape(3, 40, 40), strict=True):
        iio.imwrite(name, np.rint(60000 * image / mixed.max()).astype(np.uint16))
    separate(*names, "--sources", 3, "--report", tmp_path / "page.html")
    images = [iio.imread(tmp_path / f"sources-{i}.png").ravel() for i in (1, 2, 3)]
    Y = np.stack(images, axis=1) / 65535
    assert permutation_error(S / S.std(axis=0), Y / Y.std(axis=0)) < 1e-3
    # not the image of a source
    (tmp_path / "sources-1.png").rename(tmp_path / "sources-1b.png")
    assert "sources-2.png exists already" in refused(*names, "--model", tmp_path / "m")
    assert "m" not in left(tmp_path)
    output = ["-o", tmp_path / "mixed.png", "--force"]
    assert "the same file" in refused(names[0], names[2], *output)


def test_a_report_of_an_image_shows_where_it_is_not_explained(
    tmp_path, rng, monkeypatch
):
    """A disk of a fourth dye; pixels of a corner are masked."""
    y, x = np.mgrid[:60, :80]
    disk = (y - 30) ** 2 + (x - 50) ** 2 < 80
    S = rng.random((60, 80, 4)) * (rng.random((60, 80, 4)) < 0.5)
    S[..., 3] = disk
    cube = S @ rng.random((4, 6)) + 0.01 * rng.standard_normal((60, 80, 6))
    cube[:9, :9] = np.nan
    np.save(tmp_path / "x.npy", cube)
    pictures = {}
    write_separation = report.write_separation

    def recorded(*arguments, **given):
        figures = write_separation(*arguments, **given)
        for name, figure in figures:
            if figure.axes[0].images:
                pictures[name] = figure.axes[0].images[0].get_array()
        return figures

    monkeypatch.setattr(report, "write_separation", recorded)
    options = ["--sources", 3, "--method", "cone", "--report", tmp_path / "r.html"]
    separate(tmp_path / "x.npy", *options)
    picture = pictures["residual_image"]
    assert picture[disk].mean() > 3 * picture[~disk].mean()
    assert (picture[:9, :9] == 0).all()
    assert "root mean square in each pixel" in (tmp_path / "r.html").read_text()


# --- errors


def test_errors_say_what_to_do(tmp_path, problem):
    _, X = problem
    x = write(tmp_path / "x.npy", X)
    (tmp_path / "m").write_bytes(b"no model")
    (tmp_path / "x.xyz").write_bytes(b"no format")
    transposed = write(tmp_path / "t.npy", np.ascontiguousarray(X.T))
    # a name in front of each row says nothing about what the rows are
    named = tmp_path / "named.csv"
    named.write_text("gene,a,b,c,d\nTP53,1,2,3,4\nEGFR,1,3,2,2\nMYC,3,1,2,2\n")
    (tmp_path / "x.csv.gz").write_bytes(b"packed")
    zero, three = (
        write(tmp_path / f"k{len(A)}.npy", A) for A in (np.zeros((1, 5)), np.eye(5)[:3])
    )
    before = left(tmp_path)
    for arguments, remedy in (
        ([x, "--known", zero, "--sources", 2], "--known"),
        ([x, "--known", three, "--sources", 2], "--sources"),
        ([x, "--sources", 6], "--sources 6"),
        ([transposed], "--axis 1"),
        ([tmp_path / "x.csv.gz"], "unpack it"),
        ([x, "-o", tmp_path / "y.xyz"], "y.xyz"),
        ([x, "-o", tmp_path], "is a folder: give a file"),
        ([x, "-o", tmp_path / "y.png"], "the input is not an image"),
        ([x, "-o", tmp_path / "no" / "y.npy"], "folder"),
        ([tmp_path / "no.npy"], "does not exist"),
        ([x, "-o", x, "--force"], "the same file"),
        ([x, "--model", tmp_path / "m"], "--force"),
        (["-", "--model", tmp_path / "m", "--resume"], "model"),
        ([x, "--report", tmp_path / "b.csv"], ".html"),
        ([tmp_path / "x.xyz"], "bionica reads"),
        ([x, "--use", "2"], "1 mixture"),
    ):
        assert remedy in refused(*arguments, fed=text(X[:10]))
        assert left(tmp_path) == before
    assert "pass --axis 1" in separate(named, code=1).stderr
    assert np.array_equal(np.load(x), X)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-", "x.npy"],
        ["-", "--axis", "1"],
        ["x.npy", "--resume"],
        ["-", "--resume"],
        ["x.npy", "--model", "m", "--resume"],
        ["-", "--method", "batch"],
        ["x.npy", "--method", "batch", "--horizon", "9"],
        ["x.npy", "--normalize", "sum", "--method", "batch"],
        ["x.npy", "--noise", "poison"],
        ["x.npy", "--sources", "none"],
        ["x.npy", "--sources", "0"],
        ["x.npy", "--method", "best"],
        [],
    ],
)
def test_wrong_usage(arguments):
    separate(*arguments, code=2)


def test_a_full_disk(tmp_path, problem):
    pytest.importorskip("h5py")
    np.save(tmp_path / "x.npy", problem[1])

    def little():
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    command = "x.npy -o y.h5 --method batch --sources 3"
    result = in_a_shell(command, tmp_path, preexec_fn=little)
    assert result.returncode == 1, result.stderr
    assert result.stderr.count("\n") == 1
    assert left(tmp_path) == ["x.npy"]


# --- pipes


def test_a_pipe_gives_what_the_network_put_out(problem):
    S, X = problem
    Y = bionica.StreamingNICA(3, random_state=0).partial_fit_transform(X)
    for fed, header in (
        (text(X), []),
        ("a;b;c;d;e\n" + text(X).replace(",", ";"), ["source_1,source_2,source_3"]),
    ):
        result = separate("-", *AT_ONCE, fed=fed)
        lines = result.stdout.splitlines()
        assert lines[: len(header)] == header
        assert np.array_equal(np.loadtxt(lines[len(header) :], delimiter=","), Y)
        assert "3 sources in 4,000 samples" in result.stderr
    comma = text(X).replace(",", ";").replace(".", ",")
    assert separate("-", *AT_ONCE, "--decimal", ",", fed=comma).stdout == text(
        Y
    ).replace(",", ";").replace(".", ",")
    assert permutation_error(S[-1000:], Y[-1000:]) < 0.05


def test_a_pipe_of_correlated_sources_is_answered_by_the_method_that_suits_them(
    abundances,
):
    S, X = abundances
    result = separate("-", "--sources", 3, "--json", fed=text(X))
    assert json.loads(result.stderr)["method"] == "MinimumVolumeCone"
    Y = numbers(result)
    assert len(Y) == 5000
    assert worst_correlation(S[-2000:], Y[-2000:]) > 0.98


def test_a_file_into_a_pipe(tmp_path, problem):
    _, X = problem
    x = write(tmp_path / "x.npy", X)
    model = tmp_path / "m"
    options = ["--method", "batch", "--sources", 3, "--json", "--model", model]
    result = separate(x, *options, "-o", "-")
    assert json.loads(result.stderr)["samples"] == 4000
    assert np.array_equal(numbers(result), bionica.load(model).transform(X))


def test_a_pipe_continues_where_it_stopped(tmp_path, problem):
    """Interrupted in the middle: the runs with --resume give the sources of one run."""
    _, X = problem
    separate("-", *AT_ONCE, "-o", tmp_path / "whole.csv", fed=text(X))
    command = ["-", *AT_ONCE, "--model", tmp_path / "m", "--resume", "-o"]
    files = [tmp_path / f"y{i}.csv" for i in range(3)]
    for file, part in zip(files, np.split(X, [50, 1000]), strict=True):
        separate(*command, file, fed=text(part))
    parts = np.concatenate([read(file) for file in files])
    assert np.array_equal(parts, read(tmp_path / "whole.csv"))
    before = (tmp_path / "m").read_bytes()
    other = tmp_path / "no.csv"
    for arguments, fed, message in (
        ([files[0]], X, "exists already"),
        ([other, "--sources", 2, "-q"], X, "--sources 3"),
        ([other, "--method", "cone", "-q"], X, "--method streaming"),
        ([other, "-q"], X[:, :4], "from 5 mixtures"),
    ):
        assert message in refused(*command, *arguments, fed=text(fed))
    assert (tmp_path / "m").read_bytes() == before


def test_a_bad_line_in_a_pipe_keeps_the_model_and_the_answers(tmp_path, problem):
    files = [tmp_path / "m", tmp_path / "y.csv"]
    command = ["-", *AT_ONCE, "--model", files[0], "-o", files[1]]
    fed = text(problem[1][:1000]) + "1,2\n"
    assert "line 1001" in separate(*command, fed=fed, code=1).stderr
    assert left(tmp_path) == ["m", "y.csv"]
    assert bionica.load(files[0]).n_samples_seen_ == len(read(files[1])) == 1000
    separate("-", fed="", code=1)


def test_nobody_listens(tmp_path, problem):
    np.save(tmp_path / "x.npy", np.tile(problem[1], (10, 1)))
    command = "x.npy -o - --method batch --sources 3 | head -2"
    result = in_a_shell(command, tmp_path)
    assert len(result.stdout.splitlines()) == 2
    assert "Error" not in result.stderr


def test_pipes_of_few_samples(tmp_path, problem):
    X = problem[1][problem[1].any(axis=1)]
    assert len(numbers(separate("-", "--sources", 3, fed=text(X[:50])))) == 50
    ended = separate("-", *AT_ONCE, fed=text(X[:1]))
    assert "one sample is too few to judge by" in ended.stderr
    assert (numbers(ended) == 0).all()
    # the model has learned from it
    separate("-", *AT_ONCE, "--model", tmp_path / "m", fed=text(X[:1]))


def test_ctrl_c_ends_a_recording_from_a_pipe(tmp_path, problem):
    """All samples that were answered are in the files, however long the compiler takes
    before the first answer.
    """
    arguments = [*map(str, AT_ONCE), "--model", "m", "--mixing", "a.csv"]
    with subprocess.Popen(
        [*COMMAND, "-", *arguments], cwd=tmp_path, stdin=-1, stdout=-1, stderr=-1
    ) as process:
        process.stdin.write(text(problem[1][:1000]).encode())
        process.stdin.flush()
        answers = [process.stdout.readline() for _ in range(1000)]
        process.send_signal(signal.SIGINT)
        process.wait(120)
        errors = process.stderr.read().decode()
        rest = process.stdout.read()
        process.stdin.close()
    assert process.returncode == 130, errors
    assert "--resume" in errors
    assert rest == b""
    assert all(answer.count(b",") == 2 for answer in answers)
    assert bionica.load(tmp_path / "m").n_samples_seen_ == 1000
    assert left(tmp_path) == ["a.csv", "m"]


@pytest.mark.parametrize("redirected", ["- <&-", "x.npy -o - <&- >/dev/full"])
def test_standard_streams_that_are_closed(tmp_path, problem, redirected):
    np.save(tmp_path / "x.npy", problem[1][:400])
    result = in_a_shell(f"{redirected} --sources 2", tmp_path)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert left(tmp_path) == ["x.npy"]
