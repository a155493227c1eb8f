"""The directive `function-source`: the source of a function, with the first line of its
docstring only.
"""

import ast
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class FunctionSource(SphinxDirective):
    """Include a function from its module; unlike `literalinclude` it leaves out
    sections and examples of the docstring.
    """

    required_arguments = 1

    def run(self):
        """Return the block of code."""
        module, name = self.arguments[0].rsplit(".", 1)
        path = Path(find_spec(module).origin)
        self.env.note_dependency(str(path))
        text = path.read_text()
        lines = text.splitlines()
        function = next(
            n
            for n in ast.parse(text).body
            if isinstance(n, ast.FunctionDef) and n.name == name
        )
        doc = function.body[0]
        summary = f'    """{ast.get_docstring(function).splitlines()[0]}"""'
        code = [
            *lines[function.lineno - 1 : doc.lineno - 1],
            summary,
            *lines[doc.end_lineno : function.end_lineno],
        ]
        block = nodes.literal_block("\n".join(code), "\n".join(code), language="python")
        self.set_source_info(block)
        return [block]


def setup(app):
    """Register the directive."""
    app.add_directive("function-source", FunctionSource)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
