"""How Sphinx makes the site of docs/; `build.py` runs it."""

from __future__ import annotations

import os

project = "moiety"
author = "moiety's authors"
project_copyright = author
version = release = os.environ["MOIETY_DOCS_VERSION"]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns: list[str] = []

myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]

html_theme = "furo"
html_title = f"moiety {version}"
html_copy_source = False
html_show_sphinx = False
smartquotes = False  # options begin with two dashes
