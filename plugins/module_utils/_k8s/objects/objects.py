# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of Kubernetes objects, and the waves they come in."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Dict, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

Json = Dict[str, Any]

SET_LABEL = "rdma.fabric/set"
MANAGED_BY = "app.kubernetes.io/managed-by"
# The name of this collection as a field manager, and as the value of that label.
MANAGER = "rdma-fabric"
# Where namespaced objects go that name no namespace.
DEFAULT_NAMESPACE = "default"

# A set names a label value and the ConfigMap "rdma-fabric-<set>": the stricter of both, with room for the prefix.
_SET_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?")
# What any path segment of the API may be: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
_PATH_SEGMENT = re.compile(r"[^/%\s?#]{1,253}")
_API_VERSION = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[0-9]+((alpha|beta)[0-9]+)?")


@dataclass(frozen=True)
class Key:
    """What names one object; ``namespace`` is empty for a cluster-scoped one."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @cached_property
    def identity(self) -> Key:
        """The same object whatever version of its group it is asked for in."""
        return Key(self.group, self.kind, self.namespace, self.name)

    def as_dict(self) -> dict[str, str]:
        """Return the four parts under the names that manifests and results use."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
        }

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Item:
    """One desired object, the name of its wave, and that wave's position (names need not be unique)."""

    key: Key
    wave: str
    body: Json
    position: int = 0


def key_of(body: Mapping[str, Any]) -> Key:
    """Return the key of an object that is known to be well formed."""
    metadata = body.get("metadata") or {}
    return Key(
        str(body.get("apiVersion", "")),
        str(body.get("kind", "")),
        str(metadata.get("namespace") or ""),
        str(metadata.get("name", "")),
    )


def set_name_violations(set_name: str) -> list[Violation]:
    """Return what is wrong with the name of a set of objects."""
    if _SET_NAME.fullmatch(set_name):
        return []
    problem = f"{set_name!r} is not a valid name for a set: at most 50 lower-case letters, digits and '-' are"
    return [Violation("set", "", problem, "the name becomes a label value and part of a ConfigMap's name")]


def read_waves(waves: Any) -> list[Item]:
    """Return every object of the waves, in order, as a copy; raise :class:`InvalidInput` with all that is wrong.

    ``waves`` is a list of ``{"name": str, "objects": [object, ...]}``.
    """
    violations: list[Violation] = []
    items: list[Item] = []
    if not isinstance(waves, list):
        raise InvalidInput([Violation("waves", "", f"is {type(waves).__name__}, not a list")])
    for position, wave in enumerate(waves):
        where = f"[{position}]"
        if not isinstance(wave, dict) or not isinstance(wave.get("objects"), list):
            violations.append(Violation("waves", where, "is not a mapping with a name and a list of objects"))
            continue
        name = str(wave.get("name", position))
        for number, body in enumerate(wave["objects"]):
            place = f"{where}.objects[{number}]"
            found = object_violations(body, "waves", place)
            copied = None if found else _copied(body, place, found)
            violations += found
            if copied is not None:
                items.append(Item(key_of(copied), name, copied, position))
    violations += _duplicates(items)
    if violations:
        raise InvalidInput(violations)
    return items


def object_violations(body: Any, source: str, where: str = "") -> list[Violation]:
    """Return why a value can't be a Kubernetes object, which stands at ``where`` of ``source``."""
    within = f"{where}." if where else ""
    if not isinstance(body, dict):
        return [Violation(source, where, f"is {type(body).__name__}, not an object")]
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return [Violation(source, f"{within}metadata", "is missing or not a mapping")]
    found: list[tuple[str, str]] = []
    if not isinstance(body.get("apiVersion"), str) or not _API_VERSION.fullmatch(body["apiVersion"]):
        found.append(("apiVersion", f"{body.get('apiVersion')!r} is not a valid API version"))
    for path, value, needed in (
        ("kind", body.get("kind"), True),
        ("metadata.name", metadata.get("name"), True),
        ("metadata.namespace", metadata.get("namespace"), False),
    ):
        if value is None and not needed:
            continue
        if not isinstance(value, str) or not _PATH_SEGMENT.fullmatch(value) or value in (".", ".."):
            found.append((path, f"{value!r} is not a valid name in the Kubernetes API"))
    for path, value in (
        ("metadata.labels", metadata.get("labels")),
        ("metadata.annotations", metadata.get("annotations")),
    ):
        if value is not None and not isinstance(value, dict):
            found.append((path, f"is {type(value).__name__}, not a mapping"))
    return [Violation(source, f"{within}{path}", problem) for path, problem in found]


def _copied(body: Json, where: str, violations: list[Violation]) -> Json | None:
    """Return the object as JSON has it; None and a violation where JSON has no such value."""
    try:
        copied: Json = json.loads(json.dumps(body, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as err:
        problem = f"{key_of(body)} holds something that JSON can't: {err}"
        violations.append(Violation("waves", where, problem, "quote dates and times, and give plain numbers"))
        return None
    return copied


def _duplicates(items: Iterable[Item]) -> list[Violation]:
    seen: dict[Key, Item] = {}
    found: list[Violation] = []
    for item in items:
        first = seen.setdefault(item.key.identity, item)
        if first is not item:
            problem = f"{item.key} is in wave {first.wave!r} and again in wave {item.wave!r}"
            found.append(Violation("waves", str(item.key), problem, "keep one of them"))
    return found
