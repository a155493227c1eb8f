"""Sphinx configuration: `make docs` builds the site offline, with warnings as errors."""

import os
import re
from importlib.metadata import version as version_of
from pathlib import Path

# Examples and pages run with one thread, as the benchmarks do, and without colour codes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

project = "bionica"
copyright = "The bionica developers"  # noqa: A001
version = release = version_of("bionica")

extensions = [
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/**.ipynb"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_default_options = {"inherited-members": "object,BaseEstimator,TransformerMixin"}
numpydoc_show_class_members = True
numpydoc_class_members_toctree = False
numpydoc_attributes_as_param_list = True

plot_include_source = False
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 110)]
plot_working_directory = str(Path(__file__).parent / "pictures")

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "min_reported_time": 60,
    "within_subsection_order": "FileNameSortKey",
    "reference_url": {"bionica": None},
    "backreferences_dir": "reference/backreferences",
    "doc_module": ("bionica",),
    "show_signature": False,
    "matplotlib_animations": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "bionica"
html_static_path = ["_static"]
html_css_files = ["bionica.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "search_bar_text": "Search",
}
html_sidebars = {"gallery/**": ["sidebar-nav-bs"]}


def draw_circuits(app):
    """Draw the paper's two circuits with the code that `bionica reproduce` draws them with."""
    from bionica.report.paper_figures import network_diagram

    folder = Path(app.srcdir) / "images" / "generated"
    folder.mkdir(exist_ok=True)
    for network in ("InterneuronNICA", "TwoCompartmentNICA"):
        network_diagram(network).savefig(folder / f"{network}.png", dpi=110)


def plain_references(app, what, name, obj, options, lines):
    """Make text of the labels of scikit-learn's own pages, which inherited docstrings refer to."""
    if getattr(obj, "__module__", "").startswith("sklearn"):
        lines[:] = [re.sub(r":ref:`([^`<]*?)\s*(?:<[^>]*>)?`", r"\1", line) for line in lines]


def setup(app):
    """Register what is drawn before the pages are read, and what is changed in docstrings."""
    app.connect("builder-inited", draw_circuits)
    app.connect("autodoc-process-docstring", plain_references)
