# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/fields.md, every field of the vendor's resources, from the models that read them, and docs/needs.md."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.schema import Field, walk
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.models import MODELS
from ansible_collections.rdma.fabric.plugins.module_utils._needs import NEEDS, Need
from tools.checkout import CHECKOUT
from tools.generated import below, table


def page() -> str:
    """Return the part of each kind."""
    return "\n".join(section(name, model.root) for name, model in MODELS.items())


def section(kind: str, root: Field) -> str:
    """Return the part of one kind: a table with one row per field."""
    since = f" (since {root.since})" if root.since else ""
    rows = (cells(f"{owner}.{name}" if owner else name, field) for owner, name, field in walk(root))
    return f"## {kind}{since}\n\n{table('Field of `spec` | Type | Meaning | Effect', rows)}"


def cells(path: str, field: Field) -> list[str]:
    """Return the row of one field."""
    kinds = {"whole": "number", "flag": "boolean", "record": "object", "mapping": "map", "series": "list"}
    meaning = field.description + (", required" if field.required else "")
    if field.choices:
        meaning += f": {', '.join(f'`{choice}`' for choice in field.choices if choice)}"
    return [f"`{path}`", kinds.get(field.type, field.type), meaning, fate(field)]


def fate(field: Field) -> str:
    """Return what this collection does with a field, and in which releases it was."""
    said = []
    if field.refused:
        said.append(f"refused: {field.refused}; {field.step}")
    if field.idle:
        said.append(f"no effect: {field.idle}")
    if field.until:
        said.append(f"retired, until {field.until}: {field.successor}")
    if field.since:
        said.append(f"since {field.since}")
    return "; ".join(said)


def need(each: Need) -> list[str]:
    """Return the row of what a component needs of a host."""
    names = ", ".join(f"`{name}`" for name in each.components)
    for word, bound in (("since", each.since), ("before", each.until)):
        names += f" {word} v{'.'.join(map(str, bound))}" if bound else ""
    names += f", with `{each.when}`" if each.when else ""
    return [names, each.text.replace("|", "\\|"), each.step, each.source]


def files() -> dict[Path, str]:
    """Return the pages with their text."""
    fields, needs = CHECKOUT / "docs" / "fields.md", CHECKOUT / "docs" / "needs.md"
    head = "Component | Needs | If it is missing | Source"
    return {fields: below(fields, "## ", page()), needs: below(needs, f"| {head}", table(head, map(need, NEEDS)))}
