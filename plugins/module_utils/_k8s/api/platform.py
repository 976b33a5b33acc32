# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a cluster is OpenShift."""

from __future__ import annotations

from .snapshot import fetch_group
from .transport import Connection

_VERSIONS = ("/apis/config.openshift.io/v1", "clusterversions")


def objection_to_platform(connection: Connection, *, said: bool) -> str:
    """Return what is wrong with ``said``, whether the cluster is said to be OpenShift; empty where it is right.

    As the Network Operator does (``pkg/clustertype``), it is told by its kind ClusterVersion. Raises ``ApiFault``.
    """
    path, name = _VERSIONS
    listed = fetch_group(connection, path) or {}
    found = any(each.get("name") == name for each in listed.get("resources") or [])
    if found and not said:
        return "it is OpenShift, which would reject these privileged pods (next: set rdma_fabric_openshift: true)"
    if said and not found:
        return (
            f"it is not OpenShift, as it has no {name}.config.openshift.io, and lacks what OpenShift includes (next: "
            "remove rdma_fabric_openshift, or give the kubeconfig of the right cluster)"
        )
    return ""
