"""The built site, opened in a browser without a network: run by `make docs` after the
build, skipped where there is no site.

Pages are opened from disk (file://), as a reader of `docs/_build/html/index.html` does.
"""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from browser import flaws, open_page

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs" / "_build" / "html"
PAGES = sorted(page for page in SITE.rglob("*.html") if "_static" not in page.parts)
#: A laptop's window and a telephone's.
WIDTHS = (1280, 390)

#: Entries of the contents on the right that end outside of the window.
CUT_OFF = """[...document.querySelectorAll('.bd-sidebar-secondary .bd-toc-item a')]
.filter(a => a.offsetParent && a.getBoundingClientRect().right > innerWidth)
.map(a => a.textContent)"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (SITE / "index.html").exists(), reason="the site is not built: make docs"
    ),
]


class Page(HTMLParser):
    """The anchors of a page, and all that it refers to."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.targets = {"", "top"}, set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors |= {
            attributes[name] for name in ("id", "name") if attributes.get(name)
        }
        self.targets |= {
            attributes[name] for name in ("href", "src") if attributes.get(name)
        }


def test_every_internal_link_leads_to_an_anchor_of_the_site():
    pages = {path.resolve(): Page(path) for path in PAGES}
    broken = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            other = (
                (path.parent / unquote(parts.path)).resolve() if parts.path else path
            )
            missing = not other.is_file() or (
                other in pages and unquote(parts.fragment) not in pages[other].anchors
            )
            if missing:
                broken.append(f"{path.relative_to(SITE.resolve())}: {target}")
    assert broken == []


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_is_whole_in_a_browser(width):
    with open_page(SITE / "index.html", width) as (page, complaints):
        for path in PAGES:
            before = len(complaints)
            page.goto(path.resolve().as_uri(), wait_until="load")
            complaints += flaws(page)
            complaints += [f"cut off: {name}" for name in page.evaluate(CUT_OFF)]
            complaints[before:] = [
                f"{path.relative_to(SITE)}: {text}" for text in complaints[before:]
            ]
        assert not complaints, "\n".join(complaints)
