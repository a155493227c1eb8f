"""`bionica demo`: run once for real, with fewer runs and slides; its numbers, its page,
and that it replaces nothing.
"""

import json
import re
import sys
from importlib import import_module

import numpy as np
import pytest
from typer.testing import CliRunner

from bionica.cli import app
from bionica.datasets import sparse_uniform
from browser import check_page, open_page

pytest.importorskip("matplotlib")
pytest.importorskip("skimage")

module = import_module("bionica.cli.demo_page")
TIMES = (300, 3000)


def demo(*arguments, code=0):
    result = CliRunner().invoke(app, ["demo", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    return result


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What a run of each network, shown at three times, says with --json, and its
    folder.
    """
    folder = tmp_path_factory.mktemp("demo") / "new" / "pictures"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RUNS", 1)
        patch.setattr(module, "TIMES", TIMES)
        result = demo("-o", folder, "--json")
    assert not result.stderr.strip()
    return json.loads(result.stdout), folder


def test_each_problem_is_learned_by_the_networks_that_the_page_names(made):
    errors = {
        problem: {name: of["error"] for name, of in found.items()}
        for problem, found in made[0]["problems"].items()
    }
    assert max(errors["Sources of the paper"].values()) < 0.001
    photographs = errors["Photographs"]
    assert photographs["StreamingNICA"] < 0.02
    assert photographs["LocalNICA"] < 0.1
    assert min(photographs["Algorithm 1"], photographs["Algorithm 2"]) > 0.1


def test_the_sources_of_the_paper_are_those_of_figure_4(rng):
    """Zero with probability 1/2, otherwise uniform, with variance 1; independent: all
    eight patterns of zeros are as frequent.
    """
    S = module.problems(rng)["Sources of the paper"].S
    T = sparse_uniform(len(S), 3, rng=0)
    for q in (0.25, 0.6, 0.75, 0.9, 1):
        np.testing.assert_allclose(
            np.quantile(S, q, axis=0), np.quantile(T, q, axis=0), atol=0.05
        )
    np.testing.assert_allclose(S.var(axis=0), 1)
    _, counts = np.unique(S > 0, axis=0, return_counts=True)
    # diagonals of whole pixels
    np.testing.assert_allclose(counts / len(S), 1 / 8, atol=0.004)


def test_page_needs_nothing_else(made):
    _, folder = made
    assert sorted(path.name for path in folder.iterdir()) == [
        "demo.html",
        "separation.png",
    ]
    page = (folder / "demo.html").read_text()
    assert not re.search(r"https?://|<script|@import|url\(", page)
    assert all(
        source.startswith("data:")
        for source in re.findall(r'(?:src|href)="([^"]*)', page)
    )
    assert len(page) < 10e6


def test_slider_and_buttons_show_the_pictures_and_the_circuit_of_that_moment(
    made, tmp_path
):
    assert len(check_page(made[1] / "demo.html", tmp_path)) == 2
    with open_page(made[1] / "demo.html", width=390) as (page, complaints):
        for widget, pixels in zip(
            page.locator(".slides").all(), ("102,400", "262,144"), strict=True
        ):
            seen = set()
            slider = widget.get_by_label("pixels seen")
            for button in widget.get_by_role("radio").all():
                button.focus()
                page.keyboard.press("Space")
                slider.focus()
                for key, t in (
                    ("Home", "300"),
                    ("ArrowRight", "3,000"),
                    ("End", pixels),
                ):
                    page.keyboard.press(key)
                    (slide,) = widget.locator(".slide:visible").all()
                    assert (
                        slide.locator(".caption")
                        .inner_text()
                        .startswith(f"{t} of {pixels} pixels: error ")
                    )
                    recovered, circuit = (
                        image.get_attribute("src")
                        for image in slide.locator("img").all()
                    )
                    seen |= {recovered, circuit}
            assert len(seen) == 2 * 4 * 3  # none is shown twice
        assert not complaints


def test_nothing_is_replaced_unasked(made):
    before = {path: path.read_bytes() for path in made[1].iterdir()}
    assert "--force" in demo("-o", made[1], code=1).stderr
    assert {path: path.read_bytes() for path in made[1].iterdir()} == before


def test_an_output_that_cannot_be_made_is_said_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "x").write_text("mine")
    for output in (tmp_path / "x", tmp_path / "x" / "under"):
        assert "give a folder" in demo("-o", output, code=1).stderr
    assert (tmp_path / "x").read_text() == "mine"
    monkeypatch.setitem(sys.modules, "skimage", None)
    assert "bionica[plot]" in demo("-o", tmp_path / "out", code=1).stderr
    assert not (tmp_path / "out").exists()
