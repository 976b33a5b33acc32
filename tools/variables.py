# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes what is made from the table of variables.

These are the options in the argument specifications of the roles, docs/variables.md, the JSON Schema that editors check
group_vars with, and a survey for AWX.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any, Iterable, Mapping

import yaml

from ansible_collections.rdma.fabric.plugins.doc_fragments.host_spec import ModuleDocFragment
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HOST_VARIABLES
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.interface_keys import KEYS, OF_FUNCTIONS
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import SECTIONS, TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX, Variable
from tools.checkout import CHECKOUT
from tools.generated import below, table, yaml_text

DOCS = CHECKOUT / "docs"
SCHEMA, SURVEY = DOCS / "variables.schema.json", DOCS / "survey.json"
_WORDS = {"bool": "boolean", "int": "whole number", "float": "number", "str": "text", "dict": "mapping"}
_TYPES = {"bool": "boolean", "int": "integer", "float": "number", "str": "string", "path": "string", "dict": "object"}
_QUESTIONS = {"int": "integer", "float": "float", "list": "textarea"}
# What an interface may have by range of its VFs.
_OF_VFS = [key for key, each in KEYS.items() if each.part == OF_FUNCTIONS]
# Text that Ansible templates, and null, stand for a value of any type.
_ANY = [{"type": "string", "pattern": r"\{\{|\{%"}, {"type": "null"}]
# A part of a role in its argument specifications, with what stands before and in its options.
_PART = re.compile(r"^  (\w+):\n((?:    (?!options:).*\n)*)    options:.*\n(?:      .*\n|\n)*", re.MULTILINE)


def page() -> str:
    """Return the reference: a table under each heading."""
    head = "Variable | Takes | Default | Meaning | Read by"
    return "\n".join(f"## {heading}\n\n{table(head, map(_cells, rows))}" for heading, rows in SECTIONS.items())


def _cells(row: Variable) -> list[str]:
    default = "" if row.default in (None, "", [], {}) else f"`{json.dumps(row.default).strip(chr(34))}`"
    readers = ", ".join(f"`{reader}`" for reader in row.readers)
    cells = [f"`{row.name}`", _taken(row), "required" if row.required else default, _words(row.meaning), readers]
    return [cell.replace("|", "/") for cell in cells]


def _taken(row: Variable) -> str:
    if row.choices:
        return " or ".join(f"`{choice}`" for choice in row.choices)
    kind = _WORDS.get(row.type, row.type)
    if row.type == "list":
        kind = f"list of {_WORDS.get(row.elements, row.elements)}s".replace("texts", "text")
    return f"{kind}{row.bounds} ({row.unit})" if row.unit else f"{kind}{row.bounds}"


def _words(meaning: Iterable[str], shown: str = r"`\1`") -> str:
    """Return text with the markup of Ansible's documentation as Markdown, or without."""
    return re.sub(r"\b[A-Z]\((.*?)\)", shown, " ".join(meaning))


def specification(text: str, role: str) -> str:
    """Return the argument specifications of a role with the options that the table has for each of its parts."""

    def part(match: re.Match[str]) -> str:
        reader = role if match[1] == "main" else f"{role}/{match[1]}"
        options = {row.name: _option(row) for row in TABLE.values() if reader in row.roles}
        lines = textwrap.indent(yaml_text(options, width=108), " " * 6)
        return f"  {match[1]}:\n{match[2]}    options:" + (f"\n{lines}" if options else " {}\n")

    head, key, parts = text.partition("argument_specs:\n")
    return head + key + _PART.sub(part, parts)


def _option(row: Variable) -> dict[str, Any]:
    # Ansible holds null against choices, where it is none of them.
    choices = [] if row.default is None else list(row.choices)
    of_row = {"type": row.type, "elements": row.elements, "required": row.required, "choices": choices}
    found = {key: value for key, value in of_row.items() if value}
    if row.default is not None:
        found["default"] = row.default
    meaning = [*row.meaning, f"It takes {row.allowed}."] if row.least is not None else list(row.meaning)
    found["description"] = meaning if len(meaning) > 1 else meaning[0]
    return found


def schema() -> dict[str, Any]:
    """Return the schema of a file of variables: ours by their types, no other one with our prefix.

    What the members of a host's variables take is what ``rdma_host`` documents of the state made from them.
    """
    documented = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]["desired"]["suboptions"]
    hosts = {f"{PREFIX}{key}": option.get("suboptions") for key, option in documented.items()}
    nested = {name: members for name, members in hosts.items() if name in HOST_VARIABLES}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Variables of rdma.fabric",
        "type": "object",
        "properties": {name: _property(row, nested.get(name)) for name, row in TABLE.items()},
        "propertyNames": {"anyOf": [{"not": {"pattern": f"^{PREFIX}"}}, {"enum": list(TABLE)}]},
    }


def _property(row: Variable, members: Mapping[str, Any] | None) -> dict[str, Any]:
    typed = _typed({"type": row.type, "elements": row.elements, "choices": row.choices, "suboptions": members})
    bounds = {"minimum": row.least, "maximum": row.most}
    typed.update({name: bound for name, bound in bounds.items() if bound is not None})
    default = {} if row.default is None else {"default": row.default}
    return {"description": _words(row.meaning, r"\1"), "anyOf": [typed, *_ANY], **default}


def _typed(option: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an option as Ansible documents it; members of a list or a mapping included."""
    if option.get("choices"):
        return {"enum": list(option["choices"])}
    kind = option.get("type", "str")
    if kind == "list":
        return {"type": "array", "items": _member({**option, "type": option.get("elements", "raw"), "choices": []})}
    if kind == "dict" and option.get("suboptions"):
        members = {name: _documented(inner, by_range=name in _OF_VFS) for name, inner in option["suboptions"].items()}
        return {"type": "object", "properties": members, "additionalProperties": False}
    return {"type": _TYPES[kind]} if kind in _TYPES else {}


def _member(option: Mapping[str, Any]) -> dict[str, Any]:
    typed = _typed(option)
    return {"anyOf": [typed, *_ANY]} if typed else {}


def _documented(option: Mapping[str, Any], *, by_range: bool) -> dict[str, Any]:
    told, member = option.get("description", ""), _member(option)
    if by_range and member:
        ranges = {"type": "object", "patternProperties": {"^[0-9]+(-[0-9]+)?$": member}, "additionalProperties": False}
        member = {"anyOf": [ranges, *member["anyOf"]]}
    return {"description": _words([told] if isinstance(told, str) else told, r"\1"), **member}


def survey() -> dict[str, Any]:
    """Return a survey of what the person who starts a run may choose; an answer that is left out changes nothing."""
    return {
        "name": "rdma.fabric",
        "description": "Questions before a run of rdma.fabric. Remove those that do not fit.",
        "spec": [_question(row) for row in TABLE.values() if row.asked],
    }


def _question(row: Variable) -> dict[str, Any]:
    choices = list(row.choices) or (["true", "false"] if row.type == "bool" else [])
    kind = "multiplechoice" if choices else _QUESTIONS.get(row.type, "text")
    bounds = kind in {"integer", "float"}
    return {
        "type": kind,
        "question_name": row.name,
        "question_description": _words(row.meaning, r"\1"),
        "variable": row.name,
        "required": False,
        "choices": "\n".join(choices),
        "min": row.least if bounds and row.least is not None else "",
        "max": row.most if bounds and row.most is not None else "",
        # No default: what the inventory has would lose against it.
        "default": "",
    }


def files() -> dict[Path, str]:
    """Return every file that is made from the table, with its text."""
    reference = DOCS / "variables.md"
    found = {reference: below(reference, "## ", page())}
    for path, document in ((SCHEMA, schema()), (SURVEY, survey())):
        found[path] = f"{json.dumps(document, indent=2)}\n"
    for path in sorted((CHECKOUT / "roles").glob("*/meta/argument_specs.yml")):
        found[path] = specification(path.read_text(encoding="utf-8"), path.parents[1].name)
    return found
