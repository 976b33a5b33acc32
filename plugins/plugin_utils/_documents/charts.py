# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A chart of the input: where it is, what it is called, and what it means for a batch. Pure.

``chart`` is that of a FabricSpec.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX

_PATH = re.compile(r"[/~.].*|.*\.tgz", re.DOTALL)


def batch_options(spec: Mapping[str, Any]) -> Json:
    """Return what a batch is asked about the engine of a FabricSpec."""
    return {"engine": str(spec.get("engine") or ""), "awaits_kinds": bool(spec.get("chart"))}


def located(reference: str, find: Callable[[str], Path]) -> tuple[str, list[Violation]]:
    """Return a chart as it is found: one on the controller by its absolute path, with what is wrong about that."""
    if not reference or "://" in reference:
        return reference, []
    path = find(reference)
    if path.is_file() or (path / "Chart.yaml").is_file():
        return str(path.absolute()), []
    if not _PATH.fullmatch(reference):
        return reference, []
    problem = "is a folder without Chart.yaml" if path.is_dir() else "is not on the controller"
    hint = f"give a chart's folder or archive; it was looked for at {path.absolute()}"
    return reference, [Violation(f"{PREFIX}helm_chart", "", f"{reference!r} {problem}", hint)]


def name_of(chart: Mapping[str, Any]) -> str:
    """Return a release with its chart, for people."""
    version = f" {chart['version']}" if chart["version"] else ""
    where = f" of {chart['repository']}" if chart["repository"] else ""
    return f"release {chart['release']} in {chart['namespace']}: chart {chart['reference']}{version}{where}"
