"""`bionica demo`: run once for real; its numbers, its page, and that it replaces nothing."""

import base64
import json
import re
import sys

import pytest
from typer.testing import CliRunner

from bionica.cli import app
from browser import check_page, open_page

pytest.importorskip("matplotlib")
pytest.importorskip("skimage")


def demo(*arguments, code=0):
    result = CliRunner().invoke(app, ["demo", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    return result


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What one run with --json says, and its folder."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "pictures"
    result = demo("-o", folder, "--json")
    assert not result.stderr.strip()
    return json.loads(result.stdout), folder


def test_the_page_shows_the_median_run(made):
    findings, _ = made
    errors = findings["errors"]
    assert len(errors) == 9
    assert findings["error"] == pytest.approx(errors[4], rel=0.2)  # all pixels, and some of them
    assert errors[4] < 0.005
    assert errors[-1] < 0.02
    assert min(findings["correlation"]) > 0.99


def test_page_needs_nothing_else_and_holds_every_picture(made):
    _, folder = made
    assert sorted(path.name for path in folder.iterdir()) == ["demo.html", "separation.png"]
    page = (folder / "demo.html").read_text()
    assert not re.search(r"https?://|<script|@import|url\(", page)
    assert all(source.startswith("data:") for source in re.findall(r'(?:src|href)="([^"]*)', page))
    pictures = [base64.b64decode(data) for data in re.findall(r'src="data:image/png;base64,([^"]+)"', page)]
    assert len(pictures) == 6
    assert (folder / "separation.png").read_bytes() in pictures


def test_the_slider_shows_the_recovered_images_after_more_and_more_pixels(made, tmp_path):
    assert len(check_page(made[1] / "demo.html", tmp_path)) == 2
    shown = "figures => figures.filter(f => !f.hidden).map(f => f.querySelector('figcaption').textContent)"
    with open_page(made[1] / "demo.html") as (page, complaints):
        for i, pixels in enumerate(("100", "1,000", "10,000", "100,000", "262,144")):
            page.locator("input[type=range]").fill(str(i))
            (caption,) = page.eval_on_selector_all(".slides figure", shown)
            assert f" {pixels} pixels" in caption
        assert not complaints


def test_nothing_is_replaced_unasked(made):
    _, folder = made
    before = {path: path.read_bytes() for path in folder.iterdir()}
    result = demo("-o", folder, code=1)
    assert result.stdout == ""
    assert "--force" in result.stderr
    (folder / "demo.html").write_text("mine")
    demo("-o", folder, code=1)
    assert (folder / "demo.html").read_text() == "mine"
    (folder / "demo.html").write_bytes(before[folder / "demo.html"])


def test_an_output_that_cannot_be_made_is_said_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "x").write_text("mine")
    for output in (tmp_path / "x", tmp_path / "x" / "under"):
        assert "give a folder" in demo("-o", output, code=1).stderr
    assert (tmp_path / "x").read_text() == "mine"
    monkeypatch.setitem(sys.modules, "skimage", None)
    assert "bionica[plot]" in demo("-o", tmp_path / "out", code=1).stderr
    assert not (tmp_path / "out").exists()
