# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the API server older than upstream supports, and of which platform?"""

from __future__ import annotations

import re
from typing import NamedTuple

from .errors import ApiFault, Fault
from .snapshot import fetch_group
from .transport import Connection

_RELEASE = re.compile(r"v?([0-9]+)\.([0-9]+)")


class Release(NamedTuple):
    """A minor release of Kubernetes."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


OLDEST_OF_UPSTREAM = Release(1, 32)
"""What the chart of the newest Network Operator asks for: Mellanox/network-operator,
deployment/network-operator/Chart.yaml, kubeVersion."""


def read_release(connection: Connection) -> Release | None:
    """Return the release of the API server, None where it does not say; raises ApiFault."""
    try:
        said = connection.request("get", "/version", what="the version of the server")[1]
    except ApiFault as fault:
        if fault.fault is not Fault.NOT_FOUND:
            raise
        return None
    found = _RELEASE.match(str(said.get("gitVersion") or ""))
    return Release(int(found[1]), int(found[2])) if found else None


def say_old(release: Release) -> list[str]:
    """Return the notice about a server of a release that nobody supports this on, none where somebody does."""
    if release >= OLDEST_OF_UPSTREAM:
        return []
    return [
        f"the cluster runs Kubernetes {release}: the newest Network Operator asks for {OLDEST_OF_UPSTREAM}, and "
        "nothing of this is tested on an older one (next: upgrade the cluster)"
    ]


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
