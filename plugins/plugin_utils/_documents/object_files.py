# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes objects of files, as waves of a batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any, Callable, Iterator

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document, path_text
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Json, object_violations
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput

from .documents import read_files

# What other objects of the same file may need.
_FIRST = frozenset(("Namespace", "CustomResourceDefinition"))


def waves_of_files(names: list[str], find: Callable[[str], FilePath]) -> list[dict[str, Any]]:
    """Return the objects of files in the order given: of each, namespaces and definitions before the others.

    ``find`` turns a name into its path. A ``List`` stands for its items. Raises InvalidInput with all that is wrong.
    """
    documents, violations = read_files(names, find)
    objects: dict[str, list[Json]] = {}
    for document in documents:
        for place, body in _listed(document):
            wrong = object_violations(body, document.source, path_text(place))
            violations += [replace(each, line=document.line(place)) for each in wrong]
            objects.setdefault(document.source, []).append(body)
    if violations:
        raise InvalidInput(violations)
    waves = []
    for name, found in objects.items():
        first = [body for body in found if body["kind"] in _FIRST]
        others = [body for body in found if body["kind"] not in _FIRST]
        waves += [{"name": name, "objects": part} for part in (first, others) if part]
    return waves


def _listed(document: Document) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Return each object of a document and its path in there."""
    content = document.content
    if not isinstance(content, dict) or content.get("kind") != "List" or "items" not in content:
        yield (), content
    elif isinstance(content["items"], list):
        for number, item in enumerate(content["items"]):
            yield ("items", number), item
    else:
        yield ("items",), content["items"]
