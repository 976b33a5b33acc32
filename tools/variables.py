# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes what is made from the table of variables.

These are the options in the argument specifications of the roles, their defaults/main.yml, docs/variables.md, the JSON
Schema that editors check group_vars with, and a survey for AWX.
"""

from __future__ import annotations

import importlib
import json
import re
import textwrap
from pathlib import Path
from typing import Any, Iterable

from tools.checkout import CHECKOUT
from tools.generated import yaml_text
from tools.variables_schema import schema, survey

ROLES = CHECKOUT / "roles"
PAGE = CHECKOUT / "docs" / "variables.md"
SCHEMA = CHECKOUT / "docs" / "variables.schema.json"
SURVEY = CHECKOUT / "docs" / "survey.json"
_TABLE = "ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table"
_TYPES = {"bool": "boolean", "int": "whole number", "float": "number", "str": "text", "dict": "mapping"}
_ENTRY_POINT = re.compile(r"^  (\w+):\n((?:    .*\n|\n)*)", re.MULTILINE)
_OPTIONS = re.compile(r"^    options:(?: \{\})?\n(?:      .*\n|\n)*", re.MULTILINE)
HEAD = """# Variables

Every variable of the collection: what it takes, its default, and which roles and playbooks read it. Written by
`python -m tools.generated` from one table, as are the argument specifications of the roles.

Null and empty text count as not set. Text, as from surveys and `-e name=value`, is read the same everywhere: `true`,
`yes`, `on` and `1` and their opposites for a boolean, digits for a number, `[a, b]` or `a,b` or one entry per line for
a list, YAML, JSON or `a=1 b=2` for a mapping. Blanks around such a value are ignored. `preflight` refuses anything
else, with the variable, the given value and the allowed ones. In your own plays, Ansible checks the arguments of a
role before the role does, and refuses empty text for booleans, numbers, mappings and choices.

Within lists and mappings, as in `rdma_fabric_interfaces`, a number must be a number, not text. Before ansible-core
2.19 a template such as `mtu: "{{ fabric_mtu | int }}"` gives text unless `ansible.cfg` has `jinja2_native = true`.

[variables.schema.json](variables.schema.json) is a JSON Schema for a file of variables: with the first line `#
yaml-language-server: $schema=PATH/variables.schema.json` in `group_vars/all.yml` an editor can complete and check
it. [survey.json](survey.json) has questions for the variables that you may want to choose per run; POST it to
`/api/v2/job_templates/ID/survey_spec/` of AWX, or copy the questions that you need. For where to set variables, see
[inputs](inputs.md#where-variables-are-set).
"""
DEFAULTS_HEAD = """# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The variables of this role with their defaults, written by `python -m tools.generated`. All are comments, to be
# copied: a value here would take precedence over that of localhost, where a run has its own, and could not be told
# from one that was set.

---
"""


def sections() -> dict[str, tuple[Any, ...]]:
    """Return the rows of the table by heading."""
    found: dict[str, tuple[Any, ...]] = importlib.import_module(_TABLE).SECTIONS
    return found


def rows() -> list[Any]:
    """Return all rows of the table."""
    return [row for section in sections().values() for row in section]


def page() -> str:
    """Return the text of the reference."""
    parts = [HEAD]
    for heading, section in sections().items():
        parts += [
            f"## {heading}",
            "",
            "| Variable | Takes | Default | Meaning | Read by |",
            "|---|---|---|---|---|",
        ]
        parts += [*map(_row, section), ""]
    return "\n".join(parts)


def _row(row: Any) -> str:
    default = "" if row.default in (None, "", [], {}) else f"`{json.dumps(row.default).strip(chr(34))}`"
    readers = ", ".join(f"`{reader}`" for reader in row.readers)
    cells = [f"`{row.name}`", _taken(row), "required" if row.required else default, _words(row.meaning), readers]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _taken(row: Any) -> str:
    if row.choices:
        return " or ".join(f"`{choice}`" for choice in row.choices)
    kind = _TYPES.get(row.type, row.type)
    if row.type == "list":
        kind = f"list of {_TYPES.get(row.elements, row.elements)}s".replace("texts", "text")
    if row.most is not None:
        kind += f", {row.least:g} to {row.most:g}"
    elif row.least is not None:
        kind += f" from {row.least:g} on"
    return f"{kind} ({row.unit})" if row.unit else kind


def _words(meaning: Iterable[str]) -> str:
    return re.sub(r"\b[CVO]\((.*?)\)", r"`\1`", " ".join(meaning))


def specification_files() -> dict[Path, str]:
    """Return the argument specifications of the roles, as their files should be."""
    found = {}
    for path in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        found[path] = specification(path.read_text(encoding="utf-8"), path.parents[1].name)
    return found


def specification(text: str, role: str) -> str:
    """Return the argument specifications of a role with the options that the table has for each of its parts."""

    def entry_point(match: re.Match[str]) -> str:
        part = role if match[1] == "main" else f"{role}/{match[1]}"
        options = {row.name: option(row) for row in rows() if part in row.roles}
        kept = _OPTIONS.sub("", match[2])
        return f"  {match[1]}:\n{kept}    options:" + (f"\n{_indented(options)}" if options else " {}\n")

    head, key, entries = text.partition("argument_specs:\n")
    return head + key + _ENTRY_POINT.sub(entry_point, entries)


def option(row: Any) -> dict[str, Any]:
    """Return the option of a row."""
    # Ansible holds null against choices, where it is none of them.
    choices = [] if row.default is None else list(row.choices)
    of_row = {"type": row.type, "elements": row.elements, "required": row.required, "choices": choices}
    found = {key: value for key, value in of_row.items() if value}
    if row.default is not None:
        found["default"] = row.default
    meaning = [*row.meaning, f"It takes {row.allowed}."] if row.least is not None else list(row.meaning)
    found["description"] = meaning if len(meaning) > 1 else meaning[0]
    return found


def defaults_files() -> dict[Path, str]:
    """Return ``defaults/main.yml`` of each role, as the files should be."""
    return {path.parent / "defaults" / "main.yml": defaults(path.parent.name) for path in sorted(ROLES.glob("*/meta"))}


def defaults(role: str) -> str:
    """Return the variables of a role with what stands for them, as comments."""
    own = [row for row in rows() if role in {reader.partition("/")[0] for reader in row.roles}]
    return DEFAULTS_HEAD + "".join(f"\n{_default(row)}" for row in own)


def _default(row: Any) -> str:
    words = _words(row.meaning).replace("`", "")
    told = f"{words} Takes {_taken(row).replace('`', '')}{', and has to be given' if row.required else ''}."
    lines = textwrap.wrap(told, width=118, break_long_words=False, break_on_hyphens=False)
    value = "" if row.default is None else f" {json.dumps(row.default)}"
    return "".join(f"# {line}\n" for line in lines) + f"# {row.name}:{value}\n"


def _indented(options: dict[str, Any]) -> str:
    text = yaml_text(options, width=108)
    return "".join(f"      {line}\n" for line in text.splitlines())


def files() -> dict[Path, str]:
    """Return every file that is made from the table, with its text."""
    documents = {SCHEMA: schema(rows()), SURVEY: survey(rows())}
    texts = {path: f"{json.dumps(document, indent=2)}\n" for path, document in documents.items()}
    return {**specification_files(), **defaults_files(), PAGE: page(), **texts}
