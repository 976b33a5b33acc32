# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a JSON Schema for editors and a survey for AWX from rows of the table of variables."""

from __future__ import annotations

import importlib
import re
from typing import Any, Iterable, Mapping

import yaml

_FRAGMENT = "ansible_collections.rdma.fabric.plugins.doc_fragments.host_spec"
_HOST = "ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host"
_TYPES = {"bool": "boolean", "int": "integer", "float": "number", "str": "string", "path": "string", "dict": "object"}
# Text that Ansible templates, and null, stand for a value of any type.
_TEMPLATE = {"type": "string", "pattern": r"\{\{|\{%"}
_ANY = [_TEMPLATE, {"type": "null"}]
_QUESTIONS = {"bool": "multiplechoice", "int": "integer", "float": "float", "list": "textarea"}


def schema(rows: Iterable[Any]) -> dict[str, Any]:
    """Return the schema of a file of variables: ours by their types, no other one with our prefix."""
    rows = list(rows)
    nested = host_options()
    names = [row.name for row in rows]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Variables of rdma.fabric",
        "type": "object",
        "properties": {row.name: _property(row, nested.get(row.name, {})) for row in rows},
        "propertyNames": {"anyOf": [{"not": {"pattern": "^rdma_fabric_"}}, {"enum": names}]},
    }


def host_options() -> dict[str, Any]:
    """Return what the members of a host's variables take, as ``rdma_host`` documents the state made from them."""
    documented = importlib.import_module(_FRAGMENT).ModuleDocFragment.DOCUMENTATION
    options = yaml.safe_load(documented)["options"]["desired"]["suboptions"]
    variables = {f"rdma_fabric_{key}": option for key, option in options.items()}
    known = importlib.import_module(_HOST).HOST_VARIABLES
    return {name: option for name, option in variables.items() if name in known}


def _property(row: Any, nested: Mapping[str, Any]) -> dict[str, Any]:
    option = {"type": row.type, "elements": row.elements, "choices": list(row.choices), **_inner(nested)}
    typed = _typed(option)
    if row.least is not None:
        typed["minimum"] = row.least
    if row.most is not None:
        typed["maximum"] = row.most
    found = {"description": plain(" ".join(row.meaning)), "anyOf": [typed, *_ANY]}
    if row.default is not None:
        found["default"] = row.default
    return found


def _inner(nested: Mapping[str, Any]) -> dict[str, Any]:
    return {"suboptions": nested["suboptions"]} if "suboptions" in nested else {}


def _typed(option: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an option as Ansible documents it; members of a list or a mapping included."""
    if option.get("choices"):
        return {"enum": list(option["choices"])}
    kind = option.get("type", "str")
    if kind == "list":
        return {"type": "array", "items": _member({**option, "type": option.get("elements", "raw"), "choices": []})}
    if kind == "dict" and option.get("suboptions"):
        members = {name: _documented(inner) for name, inner in option["suboptions"].items()}
        return {"type": "object", "properties": members, "additionalProperties": False}
    return {"type": _TYPES[kind]} if kind in _TYPES else {}


def _member(option: Mapping[str, Any]) -> dict[str, Any]:
    typed = _typed(option)
    return {"anyOf": [typed, *_ANY]} if typed else {}


def _documented(option: Mapping[str, Any]) -> dict[str, Any]:
    told = option.get("description", "")
    return {"description": plain(told if isinstance(told, str) else " ".join(told)), **_member(option)}


def plain(text: str) -> str:
    """Return text without the markup of Ansible's documentation."""
    return re.sub(r"\b[A-Z]\((.*?)\)", r"\1", text)


def survey(rows: Iterable[Any]) -> dict[str, Any]:
    """Return a survey of what the person who starts a run may choose; an answer that is left out changes nothing."""
    return {
        "name": "rdma.fabric",
        "description": "Questions before a run of rdma.fabric. Remove those that do not fit.",
        "spec": [_question(row) for row in rows if row.asked],
    }


def _question(row: Any) -> dict[str, Any]:
    choices = list(row.choices) or (["true", "false"] if row.type == "bool" else [])
    kind = "multiplechoice" if choices else _QUESTIONS.get(row.type, "text")
    bounds = kind in {"integer", "float"}
    return {
        "type": kind,
        "question_name": row.name,
        "question_description": plain(" ".join(row.meaning)),
        "variable": row.name,
        "required": False,
        "choices": "\n".join(choices),
        "min": row.least if bounds and row.least is not None else "",
        "max": row.most if bounds and row.most is not None else "",
        # No default: what the inventory has would lose against it.
        "default": "",
    }
