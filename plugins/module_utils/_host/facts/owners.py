# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the cluster's operators that configure this host's NICs, and the settings of a device that they own.

The SR-IOV Network Operator stores what it applied to each port in a file (``PfAppliedConfig`` in its pkg/consts, the Go
type ``Interface`` of its api/v1). NVIDIA's NIC configuration operator writes two udev files (its pkg/udev). OpenShift's
machine config daemon compares every file of its configuration with the disk (its pkg/daemon/on_disk_validation.go),
and marks a node that differs as degraded. Whether a daemon of any of them runs here is seen from kubelet, which has a
log directory for every pod of the node.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Dict, Iterable, cast

from ..machine.access import MACHINE_CONFIG
from ..machine.probe import Probe, is_pci_address, parsed, printable
from ..spec.interface_keys import KEYS, OF_ESWITCH, OF_FUNCTIONS, OF_MTU, OF_NIC, OF_NUMBER
from .devices import MELLANOX
from .shapes import Facts, Nic, Operator

if TYPE_CHECKING:
    from ..spec.interfaces import InterfaceSpec


POD_LOGS = "/var/log/pods"
SRIOV, NIC, MACHINES = "sriov_operator", "nic_operator", "machine_config"
PORT_STATES = "/etc/sriov-operator/pci"
NIC_NAMES = (
    "/etc/udev/rules.d/10-nic-net-interface-naming.rules",
    "/etc/udev/rules.d/10-nic-rdma-interface-naming.rules",
)
# With configurationMode systemd these units of the SR-IOV operator apply its last policies at every boot, even after
# its removal (k8snetworkplumbingwg/sriov-network-operator, bindata/manifests/sriov-config-service at 249e2001).
_UNITS = ("sriov-config.service", "sriov-config-post-network.service")
_ENABLED = "/etc/systemd/system/multi-user.target.wants"
_DAEMONS = {SRIOV: "sriov-network-config-daemon", NIC: "nic-configuration-daemon", MACHINES: "machine-config-daemon"}
# NAMESPACE_NAME_UID; names of DaemonSet pods end with a random suffix of five characters.
_POD = re.compile(r"(?P<namespace>[a-z0-9-]{1,63})_(?P<name>(?P<daemon>[a-z0-9-]{1,240})-[a-z0-9]{5})_[0-9a-f-]{1,64}")
_NAMED = re.compile(r'KERNELS=="([0-9a-f:.]{1,32})"')
_KEPT_FILE = re.compile(r'"path":\s*"(/etc/[^"\\]+)"')
_READ_OF_A_PORT = ("numVfs", "mtu", "eSwitchMode", "externallyManaged")
Owners = Dict[str, Operator]


def read_owners(probe: Probe) -> Owners:
    """Return the traces of each operator on this host, without operators that have none.

    ``daemon`` is its pod (``NAMESPACE/NAME``), None if there is none, and "" if kubelet shows no pods at all. ``ports``
    of the SR-IOV operator are the parts that it owns by PCI address, and ``units`` those of its units that are enabled;
    ``named`` of the NIC configuration operator are PCI addresses whose interfaces it names; ``files`` of the machine
    config daemon are those that it keeps.
    """
    pods = probe.names(POD_LOGS, ("EACCES",))
    ports = {address: _parts(probe, address) for address in probe.names(PORT_STATES) if is_pci_address(address)}
    units = [unit for unit in _UNITS if ports and probe.host.exists(f"{_ENABLED}/{unit}")]
    found: Owners = {
        SRIOV: {"daemon": _daemon(pods, SRIOV), "ports": ports, **({"units": units} if units else {})},
        NIC: {"daemon": _daemon(pods, NIC), "named": _named(probe)},
        MACHINES: {"daemon": _daemon(pods, MACHINES), "files": _KEPT_FILE.findall(probe.content(MACHINE_CONFIG) or "")},
    }
    return {name: seen for name, seen in found.items() if any(seen.values())}


def daemons_among(pods: Iterable[str]) -> list[str]:
    """Return the pod directories of kubelet that belong to operators' daemons."""
    return [pod for pod in pods if any(_daemon([pod], operator) for operator in _DAEMONS)]


def public_port_state(text: str) -> str:
    """Return the part of a port's state that decides who owns it, without names of policies and resources."""
    state = _state(text)
    kept = {key: state[key] for key in _READ_OF_A_PORT if key in state}
    groups = state.get("vfGroups")
    return json.dumps({**kept, "vfGroups": [{}] * len(groups) if isinstance(groups, list) else []})


def public_names(text: str) -> str:
    """Return the addresses in a file of names."""
    return "".join(f'KERNELS=="{address}"\n' for address in _NAMED.findall(text))


def public_machine_config(text: str) -> str:
    """Return the paths in a node's machine config, whose contents are secret."""
    return "".join(f'"path":"{path}"\n' for path in _KEPT_FILE.findall(text))


def _daemon(pods: Iterable[str], operator: str) -> str | None:
    seen = False
    for pod in pods:
        seen = True
        match = _POD.fullmatch(pod)
        if match is not None and match["daemon"] == _DAEMONS[operator]:
            return f"{match['namespace']}/{match['name']}"
    return None if seen else ""


def _parts(probe: Probe, address: str) -> list[str]:
    """Return the parts of a port that the operator owns; all parts if the state can't be parsed."""
    text = probe.content(f"{PORT_STATES}/{address}")
    state = _state(text or "")
    if not state:
        return [OF_NUMBER, OF_ESWITCH, OF_MTU, OF_FUNCTIONS]
    if state.get("externallyManaged") is True:
        return [OF_FUNCTIONS] if state.get("vfGroups") else []
    return [OF_NUMBER, OF_ESWITCH, *([OF_MTU] if state.get("mtu") else []), OF_FUNCTIONS]


def _state(text: str) -> dict[str, Any]:
    state = parsed(text)
    return state if isinstance(state, dict) else {}


def _named(probe: Probe) -> list[str]:
    texts = [probe.content(path) or "" for path in NIC_NAMES]
    return sorted({printable(address) for text in texts for address in _NAMED.findall(text) if is_pci_address(address)})


def sriov_parts(facts: Facts, address: str) -> list[str]:
    """Return the parts of a port that the SR-IOV operator manages; none if its daemon and units are gone."""
    seen = facts["owners"].get(SRIOV)
    if seen is None or (seen["daemon"] is None and not seen.get("units")):
        return []
    return seen["ports"].get(address, [])


def units_left(facts: Facts) -> list[str]:
    """Return the enabled units of an SR-IOV operator whose daemon no longer runs."""
    seen = facts["owners"].get(SRIOV)
    return [] if seen is None or seen["daemon"] is not None else seen.get("units", [])


def sriov_evidence(facts: Facts, address: str) -> str:
    """Return, for messages, the evidence that the SR-IOV operator manages a port."""
    daemon = facts["owners"][SRIOV]["daemon"]
    return f"{PORT_STATES}/{address}" + (f", pod {daemon}" if daemon else "")


def nic_daemon(facts: Facts) -> str:
    """Return the pod of NVIDIA's NIC configuration operator on this host, empty if there is none."""
    seen = facts["owners"].get(NIC)
    return (seen["daemon"] if seen is not None else None) or ""


def unowned(facts: Facts, nic: Nic | None, wanted: InterfaceSpec) -> InterfaceSpec:
    """Return an entry without the settings that operators manage; persisting those is up to the operators, too."""
    nothing = {key: False if key == "qos" else None for key in owned_keys(facts, nic)}
    return cast("InterfaceSpec", {**wanted, **nothing})


def owned_keys(facts: Facts, nic: Nic | None) -> list[str]:
    """Return the keys of an entry that operators manage."""
    if nic is None:
        return []
    parts = [
        *sriov_parts(facts, nic["address"]),
        *([OF_NIC] if nic["vendor"] == MELLANOX and nic_daemon(facts) else []),
    ]
    return [key for key, each in KEYS.items() if each.part in parts]
