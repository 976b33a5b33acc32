# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rendered objects as a folder of YAML files that GitOps tools and ``kubectl apply -k`` read."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable

from ansible_collections.rdma.fabric.plugins.plugin_utils._files import replace_file
from ansible_collections.rdma.fabric.plugins.plugin_utils._scrub.said import LOGIN
from ansible_collections.rdma.fabric.plugins.plugin_utils._yaml import to_yaml

READABLE = 0o644  # the folder is made to be shared
FOR_THE_OWNER = 0o600
INVENTORY = ".rdma-fabric-render.json"
KUSTOMIZATION = "kustomization.yaml"

_LONGEST_NAME = 200


class ForeignFile(Exception):
    """A file in the way that this collection did not write."""


@dataclass
class FolderChange:
    """What has to happen to a folder: relative paths with the text before and after (None where there is no file)."""

    files: dict[str, str]
    written: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    removed: dict[str, str] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether anything has to be written or removed."""
        return bool(self.written or self.removed)

    def diff(self, folder: Path) -> list[dict[str, str]]:
        """Return the change as Ansible shows differences."""
        edits = [(name, before or "", after) for name, (before, after) in self.written.items()]
        edits += [(name, before, "") for name, before in self.removed.items()]
        return [
            {
                "before_header": str(folder / name),
                "after_header": str(folder / name),
                "before": before,
                "after": after,
            }
            for name, before, after in sorted(edits)
        ]


def manifest_files(waves: list[dict[str, Any]], order: Iterable[str]) -> dict[str, str]:
    """Return the files of rendered waves: relative path -> text, one object each, and a kustomization that lists them.

    ``order`` names every wave that can occur, so that a wave keeps its number whatever the others hold.
    """
    numbers = {name: number for number, name in enumerate(order)}
    files: dict[str, str] = {}
    for wave in waves:
        for each in wave["objects"]:
            path = f"{numbers[wave['name']]:02d}-{wave['name']}/{_file_name(each)}.yaml"
            files[path] = to_yaml(each)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(files),
        # Keep the order of the waves: namespaces and definitions first.
        "sortOptions": {"order": "fifo"},
    }
    return {**files, KUSTOMIZATION: to_yaml(kustomization)}


def is_secret(path: str) -> bool:
    """Tell whether a file of the folder holds a Secret."""
    return path.rpartition("/")[2].startswith("secret-")


def plan_folder(folder: Path, files: dict[str, str]) -> FolderChange:
    """Compare the folder with the files that shall be in it; nothing is changed.

    Raises ForeignFile when a path is taken by something this collection did not write.
    """
    owned = set(_owned(folder))
    change = FolderChange(files)
    foreign = []
    for name, text in files.items():
        before = _read(folder / name)
        if before == text:
            continue
        if name not in owned and os.path.lexists(folder / name):
            foreign.append(str(folder / name))
        change.written[name] = (before, text)
    if foreign:
        raise ForeignFile(
            f"not written by this collection, so not overwritten: {', '.join(foreign)}; "
            "move these files away or choose another folder"
        )
    for name in sorted(owned - set(files)):
        before = _read(folder / name)
        if before is not None:
            change.removed[name] = before
    return change


def apply_folder(folder: Path, change: FolderChange) -> None:
    """Carry out a change. Each file appears whole; an interrupted run leaves a folder that the next one repairs."""
    folder.mkdir(parents=True, exist_ok=True)
    # Everything that may lie here by the end is recorded first, so that no file of ours can become a foreign one.
    _record(folder, {*change.files, *_owned(folder)})
    for name, (_before, after) in change.written.items():
        private = is_secret(name) or LOGIN.search(after)
        replace_file(folder / name, after.encode("utf-8"), FOR_THE_OWNER if private else READABLE)
    for name in change.removed:
        (folder / name).unlink(missing_ok=True)
        if (folder / name).parent != folder and not any((folder / name).parent.iterdir()):
            (folder / name).parent.rmdir()
    _record(folder, set(change.files))


def _file_name(found: dict[str, Any]) -> str:
    metadata = found["metadata"]
    parts = [found["kind"].lower(), metadata.get("namespace", ""), metadata["name"]]
    name = "-".join(re.sub(r"[^a-z0-9.-]", lambda match: f"_{ord(match[0]):x}_", part) for part in parts if part)
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _owned(folder: Path) -> list[str]:
    """Return the relative paths this collection recorded in a folder; anything that leads elsewhere is ignored."""
    try:
        recorded = json.loads((folder / INVENTORY).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except ValueError as error:
        raise ForeignFile(f"{folder / INVENTORY} can't be read: {error}; remove it if the folder is yours") from error
    names = recorded.get("files") if isinstance(recorded, dict) else None
    return [
        name
        for name in (names if isinstance(names, list) else [])
        if isinstance(name, str) and re.match(r"^(\d\d-[a-z]+/)?[a-z0-9_][A-Za-z0-9_.-]*\.yaml\Z", name)
    ]


def _record(folder: Path, names: set[str]) -> None:
    text = json.dumps({"files": sorted(names), "written_by": "rdma.fabric.fabric_render"}, indent=2) + "\n"
    if _read(folder / INVENTORY) != text:
        replace_file(folder / INVENTORY, text.encode("utf-8"), READABLE)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, UnicodeDecodeError):
        return None
