# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SriovNetwork, SriovIBNetwork and OVSNetwork: the plugin that each configures, and what that plugin refuses.

Sources: the attachments that the SR-IOV network operator makes of these kinds, and the configurations that sriov-cni,
ib-sriov-cni and ovs-cni read.
"""

from __future__ import annotations

import re
from typing import Any, Mapping

from ..common.jsontext import Problem

PROGRAMS = {"SriovNetwork": "sriov", "SriovIBNetwork": "ib-sriov", "OVSNetwork": "ovs"}
"""The CNI program of each kind."""

MOVER = "rdma"
"""The program that moves the RDMA device of a pod's interface to where the pod is."""

OPEN_VSWITCH = ("ovs", "ovs-mirror-producer", "ovs-mirror-consumer")
"""The programs of ovs-cni, which speak to the Open vSwitch of the node."""

COMPONENTS = {
    "sriov": "sriov-cni",
    "ib-sriov": "ib-sriov-cni",
    MOVER: "rdma-cni",
    **dict.fromkeys(OPEN_VSWITCH, "ovs-cni"),
}
"""The component that brings a program of networks to the nodes."""

CNI_VERSION = "1.0.0"
RESOURCE_PREFIX = "nvidia.com"
"""What the vendor's chart has the operator put before the names of resources."""

DEFAULT_LOG_LEVEL = "info"
_RESOURCE = re.compile(r"^[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?\Z", re.ASCII)


def plugin_of(kind: str, spec: Mapping[str, Any], capabilities: Any, ipam: Any) -> dict[str, Any]:
    """Return the plugin's configuration with the operator's keys in its order."""
    plugin: dict[str, Any] = {"type": PROGRAMS[kind]}
    if kind == "SriovNetwork":
        plugin["vlan"] = spec.get("vlan", 0)
        plugin.update(_given(spec, spoofchk="spoofChk", trust="trust"))
        plugin["vlanQoS"] = spec.get("vlanQoS", 0)
        plugin.update(_given(spec, vlanProto="vlanProto"))
        rates = {"min_tx_rate": spec.get("minTxRate"), "max_tx_rate": spec.get("maxTxRate")}
        plugin.update({key: rate for key, rate in rates.items() if rate is not None})
    if capabilities is not None:
        plugin["capabilities"] = capabilities
    if kind == "OVSNetwork":
        keys = {"bridge": "bridge", "vlan": "vlan", "mtu": "mtu", "trunk": "trunk", "interface_type": "interfaceType"}
        return {**plugin, **_given(spec, **keys), "ipam": ipam}
    plugin.update(_given(spec, link_state="linkState"))
    if kind == "SriovNetwork":
        level = spec.get("logLevel", DEFAULT_LOG_LEVEL)
        plugin.update(_given({**spec, "logLevel": level}, logLevel="logLevel", logFile="logFile"))
    return {**plugin, "ipam": ipam}


def check_resource_name(name: Any) -> list[Problem]:
    """Judge the name of a resource without its prefix, by the rule of the operator's webhook."""
    if not isinstance(name, str) or not name:
        return [Problem("resourceName", "is empty: pods would get no device", "that of the SriovNetworkNodePolicy")]
    if not _RESOURCE.match(name):
        hint = f"letters, digits, - and _, at most 63; {RESOURCE_PREFIX}/ is put in front of it"
        return [Problem("resourceName", f"{name!r} is not a valid resource name", hint)]
    return []


def _given(spec: Mapping[str, Any], **fields: str) -> dict[str, Any]:
    """Return the fields that are set, by the names of the plugin's configuration."""
    return {key: spec[name] for key, name in fields.items() if spec.get(name)}
