# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The input held against OpenShift: what it brings itself, and objects of its own kinds."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import shown

from ..common.openshift import BROUGHT, GROUP, OWNER, SETTING
from .policy import Policy
from .resources import Resource

_MACHINES = "machineconfiguration.openshift.io"


def check(cluster: Policy | None, objects: Iterable[Resource], settings: Mapping[str, Any]) -> None:
    """Name the sections that OpenShift has no use for; refuse objects of its kinds on another cluster."""
    if settings.get(SETTING):
        _remark_sections(cluster)
    for resource in objects:
        api_version = str(resource.content.get("apiVersion"))
        group = api_version.rpartition("/")[0]
        place = resource.place.at("apiVersion")
        if group.endswith(GROUP) and not settings.get(SETTING):
            hint = f"remove it, or set rdma_fabric_{SETTING}: true for a cluster of OpenShift"
            place.violation(f"is {shown(api_version)}, a kind of OpenShift, and the cluster is said to be none", hint)
        elif group == _MACHINES:
            hint = "give it apart from this run, and wait for its pool before hosts are changed"
            problem = "makes the machine config operator change and reboot nodes on its own, outside the turns of a run"
            place.notice(problem, hint)


def _remark_sections(cluster: Policy | None) -> None:
    given = (cluster.spec.get(OWNER) if cluster else None) or {}
    for name in BROUGHT:
        if cluster is not None and given.get(name) is not None:
            hint = "the cluster network operator of OpenShift brings it; a second one would work against it"
            cluster.at(f"{OWNER}.{name}").notice("has no effect here", hint)
