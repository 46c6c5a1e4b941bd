"""Settings of Sphinx: `make docs` builds the site from this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for `published`, which is not installed

import heirloom

project = "Heirloom"
author = "The Heirloom developers"
copyright = author
version = release = heirloom.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "published.site",
]
exclude_patterns = ["images", "published"]

# Pages are read on GitHub too, whose anchors are made from headings.
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Docstrings put code between single backticks.
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80
napoleon_google_docstring = True
napoleon_numpy_docstring = False

smartquotes = False  # it would change the dashes of options

html_math_renderer = "heirloom"  # published/site/mathematics.py
html_theme = "furo"
html_title = f"Heirloom {version}"
html_static_path = ["static"]
html_css_files = ["heirloom.css"]
html_show_sourcelink = False
html_copy_source = False
