"""Formulas as MathML, which browsers draw themselves: the site needs neither a network nor a script for them."""

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def render(self, node, block):
    """Write the formula of a node; one that docutils does not understand is a warning, which fails the build."""
    try:
        self.body.append(latex2mathml.tex2mathml(node.astext(), as_block=block))
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
