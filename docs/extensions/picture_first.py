"""Example pages show their picture before the code, and load nothing from a network."""

import re
from pathlib import Path

#: A picture of sphinx-gallery, or an animation: a directive and its indented lines.
PICTURE = re.compile(
    r"^\.\. (?:image-sg::|container:: sphx-glr-animation).*\n(?:(?:[ ]+.*)?\n)+",
    re.MULTILINE,
)
#: matplotlib's animations load the symbols of their buttons from a network. The theme
#: has the same symbols.
SYMBOLS = re.compile(r'<link rel="stylesheet"\s+href="https://[^"]*font-awesome[^"]*">')
#: What sphinx-gallery writes before the first block of code.
FIRST_CODE = ".. GENERATED FROM PYTHON SOURCE LINES"


def picture_first(app, docname, source):
    """Move the picture of the thumbnail to the top of an example."""
    if not re.match(r"gallery/\w+/plot_", docname):
        return
    text = SYMBOLS.sub("", source[0])
    pictures = list(PICTURE.finditer(text))
    if not pictures:  # a build with plot_gallery=0
        return
    example = (
        (Path(app.srcdir).parent / "examples" / docname.removeprefix("gallery/"))
        .with_suffix(".py")
        .read_text()
    )
    number = re.search(r"sphinx_gallery_thumbnail_number = (\d+)", example)
    picture = pictures[int(number[1]) - 1 if number else 0]
    before, code = text[: picture.start()].split(FIRST_CODE, 1)
    source[0] = f"{before}\n{picture[0]}\n{FIRST_CODE}{code}\n{text[picture.end() :]}"


def setup(app):
    """Register the change of the pages."""
    app.connect("source-read", picture_first)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
