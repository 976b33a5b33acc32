# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Device plugins that announce devices through CDI, held against the container runtimes of the nodes. Pure.

containerd has it since 1.7, off unless its configuration says ``enable_cdi = true``, and has it on since 2.0
(containerd/containerd, docs/cri/config.md; kubernetes-sigs/kind, pull request 3530). One that has it off starts the pod
without the device, and says nothing. CRI-O has it on.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from .render import Wave, objects_of

_ARGUMENT = "--use-cdi"
_CONTAINERD = re.compile(r"containerd://v?1\.(\d+)\.")
_FIRST = 7


def plugins_with_cdi(waves: list[Wave]) -> list[str]:
    """Return the names of the DaemonSets of the waves whose devices come through CDI."""
    daemon_sets = [body for body in objects_of(waves) if body["kind"] == "DaemonSet"]
    return sorted(
        str(body["metadata"]["name"])
        for body in daemon_sets
        if any(_ARGUMENT in (each.get("args") or ()) for each in body["spec"]["template"]["spec"]["containers"])
    )


def without_cdi(plugins: Sequence[str], runtimes: Mapping[str, str]) -> list[str]:
    """Return what is to be said of nodes for such plugins; ``runtimes`` are theirs by name: ``containerd://1.7.13``."""
    versions = {node: _CONTAINERD.match(runtime) for node, runtime in runtimes.items()}
    minors = {node: int(found.group(1)) for node, found in versions.items() if found is not None}
    off = [node for node, minor in minors.items() if minor >= _FIRST]
    none = [node for node, minor in minors.items() if minor < _FIRST]
    about = f"useCdi ({', '.join(plugins)})"
    lost = "pods start without their devices then, and nothing says so"
    found = []
    if plugins and off:
        has = f"containerd 1.{_FIRST} of the nodes {named(off)} has CDI off unless it was switched on"
        found.append(f"{about}: {has}: {lost} (next: set enable_cdi = true in its configuration, or leave useCdi out)")
    if plugins and none:
        has = f"containerd of the nodes {named(none)} is older than 1.{_FIRST} and has no CDI"
        found.append(f"{about}: {has}: {lost} (next: update it, or leave useCdi out)")
    return found
