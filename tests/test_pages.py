"""The pages we write, and the check that they are held to, in a browser."""

import numpy as np
from typer.testing import CliRunner

from bionica.cli import app
from browser import check_page
from conftest import mixtures


def test_page_of_separate_opens_in_a_browser(tmp_path):
    folder = tmp_path / "a folder with a long name, to be printed in the page without making it wider than the window"
    folder.mkdir()
    np.save(folder / "mixtures.npy", mixtures(2000, 3)[1])
    page = folder / "page.html"
    arguments = [str(folder / "mixtures.npy"), "--sources", "3", "--report", str(page)]
    result = CliRunner().invoke(app, ["separate", *arguments])
    assert result.exit_code == 0, result.output
    assert len(check_page(page, tmp_path)) == 2
