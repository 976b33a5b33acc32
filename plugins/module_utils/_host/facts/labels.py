# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels that node-feature-discovery and kubelet would give a host.

``pci-15b3.present`` follows the rule that the NVIDIA Network Operator installs (vendor 15b3 with class 0200 or 0207),
``pci-10de.present`` the default of NFD's PCI source (display classes 0300 and 0302), and ``network-sriov.capable`` its
network source: a network interface whose device supports VFs (``source/network/network.go``). Its
``network-sriov.configured`` is left out, as a run may change it. Values are sanitized like NFD's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._label_requirements import are_met

from ..spec.syntax import label_value_problem
from .devices import CLASS_ETHERNET, CLASS_INFINIBAND, MELLANOX, NVIDIA

if TYPE_CHECKING:
    # The controller only asks whose labels fit.
    from .shapes import Nic, System

FEATURE = "feature.node.kubernetes.io"
# Go's names for the machine types of uname, as kubelet reports them.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
_ILLEGAL = re.compile(r"[^-A-Za-z0-9_.]")


def node_labels(system: System, nics: Sequence[Nic], has_gpu: bool) -> dict[str, str]:
    """Return the labels of a node with these facts, without values that are not valid labels."""
    fabric_classes = (CLASS_ETHERNET, CLASS_INFINIBAND)
    has_nic = any(nic["vendor"] == MELLANOX and nic["class"][:4] in fabric_classes for nic in nics)
    values = {
        "kubernetes.io/arch": _ARCHITECTURES.get(system["machine"], system["machine"]),
        "kubernetes.io/hostname": system["hostname"].lower(),
        "kubernetes.io/os": "linux",
        f"{FEATURE}/kernel-version.full": _ILLEGAL.sub("_", system["kernel"]).strip("-_."),
        f"{FEATURE}/system-os_release.ID": system["os"]["id"],
        f"{FEATURE}/system-os_release.VERSION_ID": system["os"]["version_id"],
    }
    if has_nic:
        values[f"{FEATURE}/pci-{MELLANOX}.present"] = "true"
    if any(nic["netdevs"] and nic["sriov"] is not None and nic["sriov"]["total"] for nic in nics):
        values[f"{FEATURE}/network-sriov.capable"] = "true"
    if has_gpu:
        values[f"{FEATURE}/pci-{NVIDIA}.present"] = "true"
    return {key: value for key, value in sorted(values.items()) if value and not label_value_problem(value)}


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Return whether a node selector matches a node with these labels."""
    return all(labels.get(key) == value for key, value in selector.items())


def fits(request: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a policy applies to a node with these labels: its selector matches, and one of its terms, if any.

    A term is a list of requirements on labels that must all be met.
    """
    if not selects(request["node_selector"], labels):
        return False
    terms: list[list[Mapping[str, Any]]] = request.get("node_terms") or []
    return not terms or any(are_met(term, labels) for term in terms)
