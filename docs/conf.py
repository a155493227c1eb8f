"""Sphinx configuration; `make docs` builds the site offline."""

import inspect
import os
import re
import sys
import warnings
from importlib.metadata import version as version_of
from pathlib import Path

# Examples and pages run with one thread, as the benchmarks do, and without colour
# codes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# A warning of an example is shown without the path of the file that it comes from.
warnings.formatwarning = lambda message, category, *_, **__: (
    f"{category.__name__}: {message}\n"
)

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "bionica"
copyright = "The bionica developers"  # noqa: A001
version = release = version_of("bionica")

extensions = [
    "function_source",
    "mathml",
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "numpydoc",
    "picture_first",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/**.ipynb"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
nitpicky = False
default_role = "literal"  # single backticks in docstrings and examples are code

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
templates_path = ["_templates"]
#: Methods of tuples, and of scikit-learn's metadata routing, which bionica does not
#: use.
autosummary_context = {"unlisted_methods": ["count", "index", "get_metadata_routing"]}
# docs/_templates/autosummary/class.rst lists the methods
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True
autodoc_typehints = "none"  # the docstrings have the types
# fit(), not MinimumVolumeCone.fit(): the contents on the right are narrow
toc_object_entries_show_parents = "hide"

plot_include_source = False
# Pictures show fits that are wrong on purpose; their warnings are not those of the
# build.
plot_pre_code = """
import warnings
from sklearn.exceptions import ConvergenceWarning
warnings.simplefilter("ignore", ConvergenceWarning)
"""
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 110)]
plot_working_directory = str(Path(__file__).parent / "pictures")

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "subsection_order": [
        f"../examples/{field}" for field in ("spectra", "images", "streams", "circuits")
    ],
    "thumbnail_size": (560, 392),
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "min_reported_time": 60,
    "within_subsection_order": "FileNameSortKey",
    "reference_url": {"bionica": None},
    "backreferences_dir": "reference/backreferences",
    "doc_module": ("bionica",),
    "show_signature": False,
    "matplotlib_animations": True,
    "capture_repr": ("_repr_html_",),
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "bionica"
html_static_path = ["_static"]
html_css_files = ["bionica.css"]
html_show_sourcelink = False
html_copy_source = False
# browsers refuse to fetch the text of pages opened from disk
html_show_search_summary = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "search_bar_text": "Search",
}
#: Pages without pages below them have no navigation to show.
_ALONE = (
    "paper/index",
    "promises",
    "clients",
    "guides/benchmarks",
    "security",
    "changelog",
    "cite",
)
html_sidebars = {name: [] for name in (*_ALONE, "index", "genindex", "search")}


def plain_references(app, what, name, obj, options, lines):
    """Make text of the labels of scikit-learn's own pages, which inherited docstrings
    refer to.
    """
    if getattr(obj, "__module__", "").startswith("sklearn"):
        lines[:] = [
            re.sub(r":ref:`sphx_glr_[^`]*`", "scikit-learn's gallery", line)
            for line in lines
        ]
        lines[:] = [
            re.sub(r":(?:ref|term):`([^`<]*?)\s*(?:<[^>]*>)?`", r"\1", line)
            for line in lines
        ]


def signature_of_init(app, what, name, obj, options, signature, returns):
    """Read the signature of a class from its `__init__` where a base class is not
    installed.
    """
    if what == "class" and signature == "(*args, **kwargs)":
        parameters = list(inspect.signature(obj.__init__).parameters.values())[1:]
        return (
            str(inspect.Signature(p.replace(annotation=p.empty) for p in parameters)),
            "",
        )
    return None


def setup(app):
    """Register what is changed in docstrings and signatures."""
    app.connect("autodoc-process-signature", signature_of_init)
    app.connect("autodoc-process-docstring", plain_references)
