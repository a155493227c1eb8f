"""Pages opened in a real browser that has no network.

Chromium is the one that the system has, for instance Debian's package; nothing is
downloaded. Where it or Playwright is missing, the test is skipped and says which.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

EXECUTABLES = ("chromium", "chromium-browser", "google-chrome")
#: A laptop's window and a telephone's.
WIDTHS = (1200, 400)

BROKEN_IMAGES = (
    "[...document.images].filter(i => !(i.complete && i.naturalWidth > 0)).map(i =>"
    " i.alt || i.src.slice(0, 80))"
)
SIZES = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"


@contextmanager
def open_page(path, width=WIDTHS[0]) -> Iterator[tuple]:
    """Open a file; yield Playwright's page and the list of its complaints, which grows
    as the page is used.

    The browser lives no longer than the block: its event loop must not outlast the
    test.
    """
    reason = "Playwright's Python package is missing: pip install 'bionica[dev]'"
    api = pytest.importorskip("playwright.sync_api", reason=reason)
    executable = next(filter(None, map(shutil.which, EXECUTABLES)), None)
    if executable is None:
        pytest.skip(
            f"no browser, none of {', '.join(EXECUTABLES)}: apt-get install chromium"
        )
    complaints = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox"]
        )
        try:
            page = browser.new_context(
                offline=True, viewport={"width": width, "height": 900}
            ).new_page()
            page.on(
                "console",
                lambda m: (
                    complaints.append(f"console: {m.text}")
                    if m.type in ("error", "warning")
                    else None
                ),
            )
            page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
            page.on(
                "requestfailed",
                lambda request: complaints.append(f"failed: {request.url[:200]}"),
            )
            page.on(
                "request",
                lambda r: (
                    None
                    if re.match("file:|data:|blob:", r.url)
                    else complaints.append(f"asks {r.url}")
                ),
            )
            page.goto(Path(path).resolve().as_uri(), wait_until="load")
            yield page, complaints
        finally:
            browser.close()


def flaws(page) -> list[str]:
    """Pictures that are missing, and a page that is wider than its window."""
    wanted, shown = page.evaluate(SIZES)
    wide = [f"{wanted} pixels wide in a window of {shown}"] if wanted > shown else []
    return [*wide, *(f"no picture: {name}" for name in page.evaluate(BROKEN_IMAGES))]


def check_page(path, folder) -> list[Path]:
    """Assert that a page is whole at every width; leave screenshots of all of it in a
    folder and return their paths.
    """
    screenshots = []
    with open_page(path) as (page, complaints):
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(
                "[...document.images].every(image => image.complete)"
            )
            complaints += flaws(page)
            screenshots.append(Path(folder) / f"{Path(path).stem}-{width}.png")
            page.screenshot(path=screenshots[-1], full_page=True)
        assert not complaints, f"{Path(path).name}: {'; '.join(complaints)}"
    return screenshots
