"""Formulas as MathML, which browsers draw themselves: the site needs neither a network
nor a script for them.
"""

import re

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)

#: docutils places the t of \\bar x_t below x instead of beside it.
BAR = re.compile(
    r"<munderover>\s*(<mi>\w</mi>)\s*(<mi>\w</mi>)\s*(<mo[^>]*>ˉ</mo>)\s*</munderover>"
)


def render(self, node, block):
    """Write the formula of a node; one that docutils does not understand is a warning,
    which fails the build.
    """
    if re.search(r"frac\s*[^{\s]", node.astext()):
        logger.warning(
            "formula %r: write frac{1}{2}; docutils misreads frac12",
            node.astext(),
            location=node,
        )
    try:
        text = latex2mathml.tex2mathml(node.astext(), as_block=block)
        self.body.append(
            BAR.sub(r"<msub><mover accent='true'>\1\3</mover>\2</msub>", text)
        )
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
    raise nodes.SkipNode


def setup(app):
    """Register the renderer."""
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(lambda self, node: render(self, node, block=False), None),
        block_renderers=(lambda self, node: render(self, node, block=True), None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
