# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that the desired state of a host is made from, and its consents."""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import LEAST_SECONDS, MOST_SECONDS
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.interface_keys import KEYS

from .variable import HOST, Variable

_HOST = ("host",)


def _setting(short: str, kind: str, *meaning: str, elements: str = "") -> Variable:
    return Variable(short, kind, meaning, _HOST, HOST, elements=elements)


def _consent(short: str, *meaning: str) -> Variable:
    return Variable(f"allow_{short}", "bool", meaning, _HOST, HOST, asked=True)


_KEYS = [f"C({key})" for key in KEYS]
SETTINGS = (
    _setting(
        "interfaces",
        "list",
        "The host's interfaces. Each entry selects one by C(pci), C(mac) or C(current_name).",
        f"It may set {', '.join(_KEYS[:-1])} and {_KEYS[-1]}. Settings that are not given stay unchanged.",
        elements="dict",
    ),
    _setting(
        "roce_qos",
        "dict",
        "RoCE QoS (trust, PFC, ECN, ToS and more) of every Ethernet interface of C(rdma_fabric_interfaces).",
    ),
    _setting(
        "kernel_modules",
        "list",
        "Kernel modules to load, now and at boot. A name without a module in the host's kernel is refused, unless a "
        "requested driver may still bring it.",
        "With O(rdma_fabric_peer_memory) the modules of peer memory belong to that variable.",
        elements="str",
    ),
    _setting(
        "kernel_arguments", "list", "Arguments of the kernel's command line, such as C(iommu=pt).", elements="str"
    ),
    Variable(
        "netns_mode",
        "str",
        ("Whether all network namespaces share RDMA devices (V(shared)), or each has its own (V(exclusive)).",),
        _HOST,
        HOST,
        choices=("shared", "exclusive"),
    ),
    _setting("sysctls", "dict", "Settings below C(/proc/sys) by name, now and at boot."),
    _setting("multirail_sysctls", "bool", "Whether to add the settings that several interfaces in one subnet need."),
    _setting("limits", "dict", "C(memlock), V(unlimited) or KiB, and C(nofile), for logins and services."),
    _setting(
        "hugepages",
        "dict",
        "Huge pages by size, such as V(1Gi). Instead of a number, give a mapping of NUMA nodes to numbers.",
    ),
    _setting("driver", "dict", "How the NIC driver is installed, or which one."),
    _setting("peer_memory", "dict", "C(mechanism) and C(state) of GPUDirect."),
    _setting("pcie", "dict", "C(acs) (V(direct)) and C(max_read_request) in bytes, for GPUDirect RDMA."),
    _setting("node_labels", "dict", "Labels of the host's node."),
    _setting(
        "protected_interfaces",
        "list",
        "Interfaces that must never be interrupted, in addition to those that are detected.",
        elements="str",
    ),
    Variable(
        "revert_seconds",
        "int",
        (
            "Seconds after which the host reverts a change of the uplink unless it is confirmed.",
            "The default is 120.",
        ),
        _HOST,
        HOST,
        least=LEAST_SECONDS,
        most=MOST_SECONDS,
        unit="seconds",
    ),
    _setting(
        "firmware_allow",
        "list",
        "Parameters of a card's firmware that may be set although the collection does not know their effect.",
        "On the card of an uplink they also need O(rdma_fabric_allow_uplink_change).",
        elements="str",
    ),
    Variable(
        "recording",
        "path",
        ("A recording on the controller that stands for the host.",),
        ("host", "playbook discover", "playbook drift", "playbook status", "playbook support"),
        HOST,
    ),
)
CONSENTS = (
    _consent(
        "vf_reset",
        "Consent to destroy VFs in order to change their number.",
        "It is also the consent to rebind them for a new address, GUID, driver or e-switch mode.",
        "The same holds for VFs of a port in a RoCE bond, because the RDMA device of the bond goes away.",
    ),
    _consent(
        "uplink_change",
        "Consent to steps that may interrupt the uplink. They run under guard.",
        "It is also the consent to firmware values that may change link, functions or mode of an uplink's card.",
    ),
    _consent(
        "driver_reload",
        "Consent to reload the NIC driver, which interrupts its traffic.",
        "It is also the consent to take an RDMA device away from programs and storage that use it, as a new e-switch "
        "mode or name does. The step names them.",
    ),
    _consent(
        "driver_upgrade",
        "Consent to replace the host's driver release by that of a policy whose C(upgradePolicy) does not have "
        "C(autoUpgrade: true).",
    ),
    _consent("firmware", "Consent to set parameters of a card's firmware for the next boot."),
    _consent(
        "firmware_burn",
        "Consent to burn the images of C(firmware_image) of C(rdma_fabric_interfaces).",
        "On the card of an uplink that also needs O(rdma_fabric_allow_uplink_change).",
    ),
    _consent(
        "acs_change",
        "Consent to clear ACS redirection between NICs and GPUs, which weakens the isolation of devices.",
    ),
    _consent("takeover", "Consent to change what an operator of the cluster manages on this host."),
    _consent(
        "reboot",
        "Consent to one reboot per run, if a change takes effect only at boot. C(rdma.fabric.site) does it in a play "
        "after this role, as does the role's part C(reboot).",
        "Without it the run says that a reboot is needed, and why.",
    ),
)
ROWS = (*SETTINGS, *CONSENTS)
