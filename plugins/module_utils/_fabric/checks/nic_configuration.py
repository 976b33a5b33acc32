# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section of the NIC configuration operator: its variables, where firmware is kept, the hosts that it manages.

Sources: ``manifests/state-nic-configuration-operator`` of the Network Operator and its API types; the operator itself.
"""

from __future__ import annotations

import re
from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation, one_line

from ..common.jsontext import Problem

SECTION = "nicConfigurationOperator"
STORAGE = "nicFirmwareStorage"
DEFAULT_CLAIM = "nic-fw-storage-pvc"
DEFAULT_SIZE = "1Gi"
LOG_LEVEL = "LOG_LEVEL"
OWN_VARIABLES = ("NODE_NAME", "NAMESPACE", LOG_LEVEL)
"""Variables that the pods have from the section or from Kubernetes."""

_SELECTING = ("nodeSelector", "nicSelector", "railPciAddresses", "pfsPerNic")
# What of a host's variables does the work of a field, keys of rdma_fabric_interfaces unless they say otherwise.
_ON_HOSTS = {
    "numVfs": "firmware (SRIOV_EN, NUM_OF_VFS)",
    "linkType": "firmware (LINK_TYPE_P1)",
    "rawNvConfig": "firmware",
    "pciPerformanceOptimized": "rdma_fabric_pcie (max_read_request) and firmware (MAX_ACC_OUT_READ)",
    "gpuDirectOptimized": "rdma_fabric_pcie (acs) and firmware (ATS_ENABLED)",
    "roceOptimized": "rdma_fabric_roce_qos",
    "runtimePerformanceOptimized": "queues",
    "spectrumXOptimized": "firmware (spectrum_x)",
    "nicFirmwareSourceRef": "firmware_image (version)",
    "updatePolicy": "firmware_image (file)",
    "binUrlSources": "firmware_image (file)",
    "netDevicePrefix": "name",
    "rdmaDevicePrefix": "rdma_name",
}
_SIZE = re.compile(r"\d{1,12}[EPTGMK]i", re.ASCII)


def on_hosts(spec: Mapping[str, Any]) -> str:
    """Return what of a host's variables does what a resource of the operator asks for, field by field."""
    template = spec.get("template")
    given = {**spec, **(template if isinstance(template, Mapping) else {})}
    fields = [name for name, value in given.items() if value and name not in ("template", *_SELECTING)]
    found = [f"{name} is {_ON_HOSTS[name]}" for name in fields if name in _ON_HOSTS]
    rest = [name for name in fields if name not in _ON_HOSTS]
    return "; ".join([*found, *([f"nothing does {', '.join(rest)}"] if rest else [])])


def check_size(text: str) -> list[Problem]:
    """Judge the size of the claim, as the operator's API does."""
    if _SIZE.fullmatch(text):
        return []
    return [
        Problem(
            "", f"{text[:40]!r} is not a valid size of a claim", "a whole number with Ki, Mi, Gi, Ti, Pi or Ei: 5Gi"
        )
    ]


def check(section: Mapping[str, Any]) -> list[Problem]:
    """Return the variables that a container would have twice: the API server takes each name once."""
    found, seen = [], set(OWN_VARIABLES)
    for index, variable in enumerate(section.get("env") or []):
        name = variable.get("name")
        if name in seen:
            hint = "set logLevel" if name == LOG_LEVEL else "the pods have it already" if name in OWN_VARIABLES else ""
            found.append(Problem(f"env[{index}].name", f"{name} is set twice", hint or "keep one of them"))
        seen.add(name)
    return found


def claim_of(section: Mapping[str, Any]) -> str:
    """Return the name of the claim on storage for firmware; empty where the section asks for none."""
    storage = section.get(STORAGE)
    return (storage.get("pvcName") or DEFAULT_CLAIM) if isinstance(storage, Mapping) else ""


def makes_claim(section: Mapping[str, Any]) -> bool:
    """Tell whether the section brings the claim itself."""
    return bool(claim_of(section)) and section[STORAGE].get("create") is not False


def contested(hosts: Mapping[str, Mapping[str, Any]]) -> list[Violation]:
    """Return what hosts are given of firmware beside the operator; ``hosts`` are the desired states."""
    problem = f"is set by this collection, and the policy's {SECTION} sets up the firmware of the same cards"
    hint = (
        f"keep one: write a NicConfigurationTemplate or NicFirmwareTemplate in its place, drop {SECTION}, or keep its "
        "daemon off this host with nodeAffinity"
    )
    return [
        Violation(f"host {one_line(host)}: rdma_fabric_interfaces", f"[{index}].{key}", problem, hint)
        for host, desired in hosts.items()
        for index, entry in enumerate(desired.get("interfaces") or ())
        for key in sorted(entry)
        if key.startswith("firmware") and entry[key]
    ]
