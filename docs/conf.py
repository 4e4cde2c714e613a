"""The site: `make docs` writes it into build/site. The sources are the pages as they stand.

The folder above is the source, so that links between pages work here and on a code host alike.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import dpgap

project = "dpgap"
release = version = dpgap.__version__
copyright = "the authors of dpgap"
language = "en"

root_doc = "docs/index"
include_patterns = ["SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**"]
exclude_patterns = [".*", "build", "dist", "src", "tests", "**/__pycache__"]  # not looked through
extensions = ["myst_parser", "sphinx.ext.autodoc", "reference_directives"]

myst_heading_anchors = 4

smartquotes = False  # they would spoil what stands for itself, such as --delta
default_role = "code"  # docstrings mark code as Markdown does
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"dpgap {release}"
html_favicon = "_static/icon.svg"
html_static_path = ["_static", "release-narrow.svg"]
html_css_files = ["site.css"]
html_js_files = ["tables.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_use_index = html_domain_indices = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
