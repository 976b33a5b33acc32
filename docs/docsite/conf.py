# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sphinx's configuration of the documentation site (``make docs-site``).

Pages are the Markdown files of the repository as they are, at their places, with what antsibull-docs writes about
modules, roles and plugins in ``collection``. README.md is the landing page; its contents are the list of guides.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

REPOSITORY = "https://github.com/rdma-fabric/rdma.fabric"

project = "rdma.fabric"
author = "The rdma.fabric contributors"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
root_doc = "README"
html_theme = "furo"
html_title = "rdma.fabric"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_use_index = False
html_theme_options = {"top_of_page_buttons": []}
pygments_style = "ansible"
pygments_dark_style = "github-dark"
highlight_language = "text"
language = "en"
nitpicky = True
# What Ansible's own documentation and that of other collections explains: their inventories are in the internet.
nitpick_ignore_regex = [
    ("std:ref", r"ansible_collections\.(?!rdma\.fabric\.).*"),
    ("std:ref", r"(action|callback)_plugins|common_return_values|ansible_configuration_settings"),
    ("std:envvar", r"ANSIBLE_.*"),
]
myst_heading_anchors = 4


# Beside the guides: what antsibull-docs wrote, and what is said of the project.
OTHERS = {
    "Modules, roles and plugins": ["collection/index"],
    "Project": ["CHANGELOG", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT", "README.zh-CN"],
}


def contents(guides: str) -> str:
    """Return the table of contents by the list of guides: a part for each of its headings with pages, in order."""
    parts = {"Guides": ["docs/README"]}
    for part in re.split(r"^##? ", guides, flags=re.MULTILINE):
        heading, _end, text = part.partition("\n")
        pages = re.findall(r"^\| \[[^]]*\]\(([\w-]+)\.md\)", text, flags=re.MULTILINE)
        if pages:
            parts.setdefault(heading, []).extend(f"docs/{page}" for page in dict.fromkeys(pages))
    return "".join(
        "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])
        for caption, pages in {**parts, **OTHERS}.items()
    )


def read(app: Sphinx, name: str, source: list[str]) -> None:
    """Give the landing page the contents, and pages of the collection none of their own: the theme has them beside.

    What is no page is in the repository.
    """
    source[0] = source[0].replace("](LICENSES)", f"]({REPOSITORY}/tree/main/LICENSES)")
    source[0] = re.sub(r"^\.\. contents::\n( +:.*\n)*", "", source[0], flags=re.MULTILINE)
    if name == root_doc:
        source[0] += contents((Path(app.srcdir) / "docs" / "README.md").read_text(encoding="utf-8"))


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", read)
