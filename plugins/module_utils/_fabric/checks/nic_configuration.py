# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section of the NIC configuration operator: its variables, where firmware is kept, the hosts that it manages.

Sources: ``manifests/state-nic-configuration-operator`` of the Network Operator and its API types; the operator itself.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation, one_line

from ..common.jsontext import Problem

SECTION = "nicConfigurationOperator"
STORAGE = "nicFirmwareStorage"
DEFAULT_CLAIM = "nic-fw-storage-pvc"
DEFAULT_SIZE = "1Gi"
LOG_LEVEL = "LOG_LEVEL"
OWN_VARIABLES = ("NODE_NAME", "NAMESPACE", LOG_LEVEL)
"""Variables that the pods have from the section or from Kubernetes."""

FIRMWARE, QOS, QUEUES, PCIE, IMAGE = "firmware", "qos", "queues", "rdma_fabric_pcie", "firmware_image"
_BY_HAND = "give firmware_image with file, the path of the image on the host, in rdma_fabric_interfaces"
_NO_PLANES = "cards that are divided into planes are not set up here: keep the operator for them"


class Field(NamedTuple):
    """What becomes of a field of a template that hosts do without a controller.

    ``variable`` is the variable of the host, or the key of rdma_fabric_interfaces, that it ends in, empty for none, and
    ``effect`` what it does there. ``refused`` says what to do instead of the field; ``taken`` are values that are not
    refused, with ``effect``.
    """

    variable: str
    effect: str
    refused: str = ""
    taken: tuple[Any, ...] = ()

    def refuses(self, value: Any) -> bool:
        """Return whether a value that is given can't be had here."""
        return bool(self.refused) and value not in self.taken


_SWITCH = Field("", "without it the section asks for nothing, and what is set stays")
_SELECTORS = {
    "nodeSelector": Field("", "the hosts with these labels; without it all"),
    "nicSelector.nicType": Field("", "PCI device ID of the card, as `lspci -n` prints it: 1021 is ConnectX-7"),
    "nicSelector.pciAddresses": Field("", "the cards with a port at one of these addresses"),
    "nicSelector.serialNumbers": Field("", "the cards with one of these serial numbers, read from their VPD"),
    "nicSelector.partNumbers": Field("", "the cards with one of these part numbers, read from their VPD"),
}
FIELDS: Mapping[str, Mapping[str, Field]] = {
    "NicConfigurationTemplate": {
        **_SELECTORS,
        "resetToDefault": Field(
            "", "nothing", "reset the card in a window of your own (`mstconfig -d DEVICE reset`), and reboot", (False,)
        ),
        "template.force": Field("", "nothing", "leave it out: values are checked before they are set", (False,)),
        "template.gpuDirectOptimized.enabled": _SWITCH,
        "template.gpuDirectOptimized.env": Field(
            FIRMWARE, "`Baremetal`: ATS_ENABLED 0", "the operator knows no other env than Baremetal", ("Baremetal",)
        ),
        "template.linkType": Field(FIRMWARE, "LINK_TYPE_Pn of each port that has another link layer"),
        "template.networkBay.conf": Field("", "", "set_system_conf is not run here: keep the operator for these cards"),
        "template.numVfs": Field(FIRMWARE, "SRIOV_EN and NUM_OF_VFS, both 0 with 0; VFs are made by `vfs` or policies"),
        "template.pciPerformanceOptimized.enabled": _SWITCH,
        "template.pciPerformanceOptimized.maxAccOutRead": Field(
            FIRMWARE, "MAX_ACC_OUT_READ, with ADVANCED_PCI_SETTINGS, which shows it; 0 is left as it is"
        ),
        "template.pciPerformanceOptimized.maxReadRequest": Field(
            PCIE, "`max_read_request` of the host's cards, 4096 unless given"
        ),
        "template.rawNvConfig[].name": Field(
            FIRMWARE, "that parameter, before those of other fields; `_Pn` of a port that the card lacks is left out"
        ),
        "template.rawNvConfig[].value": Field(
            FIRMWARE, "its value; unknown parameters need `rdma_fabric_firmware_allow`"
        ),
        "template.roceOptimized.enabled": Field(
            FIRMWARE, "ROCE_CC_PRIO_MASK_Pn 255, CNP_DSCP_Pn 48, CNP_802P_PRIO_Pn 6; off, what is set stays"
        ),
        "template.roceOptimized.qos.cableLen": Field(QOS, "`cable_length`"),
        "template.roceOptimized.qos.ecn.enabled": Field(QOS, "`ecn`, `rp` and `np`"),
        "template.roceOptimized.qos.ecn.priority": Field(QOS, "the priority of `ecn`"),
        "template.roceOptimized.qos.pauseFrames.enabled": Field(QOS, "`pause`"),
        "template.roceOptimized.qos.pfc": Field(QOS, "`pfc`, `[3]` without qos"),
        "template.roceOptimized.qos.tos": Field(QOS, "`tos`; 0 is left as it is"),
        "template.roceOptimized.qos.trust": Field(
            QOS, "`trust`: dscp, or for pfc pcp; dscp without qos", "the operator knows no other", ("dscp", "pfc")
        ),
        "template.roceOptimized.roceMode": Field(
            "",
            "2 (RoCEv2) is the kernel's default",
            "RoCEv1 crosses no router and is not set here: leave it out, or give 2",
            (2,),
        ),
        "template.runtimePerformanceOptimized.combinedChannels": Field(QUEUES, "`channels`"),
        "template.runtimePerformanceOptimized.enabled": _SWITCH,
        "template.runtimePerformanceOptimized.lro": Field(
            "", "", "leave it out; `ethtool -K NAME lro` in a unit of your own sets it, for TCP alone"
        ),
        "template.runtimePerformanceOptimized.rxRingSize": Field(QUEUES, "`rx_ring`"),
        "template.runtimePerformanceOptimized.txRingSize": Field(QUEUES, "`tx_ring`"),
        "template.spectrumXOptimized.enabled": Field(
            QOS, "`trust` dscp, `pfc` [3], `cnp_dscp` 48; the plan names registers that it does not set"
        ),
        "template.spectrumXOptimized.multiplaneMode": Field("", "nothing", _NO_PLANES, ("none",)),
        "template.spectrumXOptimized.numberOfPlanes": Field("", "nothing", _NO_PLANES, (1,)),
        "template.spectrumXOptimized.overlay": Field(
            "", "nothing: the plan names the gap between packets that it finds"
        ),
        "template.spectrumXOptimized.platformType": Field("", "nothing: parameters are those of the version"),
        "template.spectrumXOptimized.version": Field(
            FIRMWARE,
            "`spectrum_x`: RA1.3, RA2.0, RA2.1 or RA2.2",
            "RA1.3, RA2.0, RA2.1 or RA2.2; other profiles are data of the operator's",
            ("RA1.3", "RA2.0", "RA2.1", "RA2.2"),
        ),
    },
    "NicFirmwareSource": {
        "bfbUrlSource": Field("", "", f"nothing is downloaded: {_BY_HAND}", ("",)),
        "binUrlSources[]": Field(
            IMAGE, "the `version` that the file's name has (rel-28_43_1014); nothing is downloaded"
        ),
        "docaSpcXCCUrlSource": Field(
            "", "", "install the package doca_spcx_cc on the hosts, with a unit that starts it", ("",)
        ),
    },
    "NicFirmwareTemplate": {
        **_SELECTORS,
        "template.nicFirmwareSourceRef": Field(IMAGE, "the source, whose version of the card's generation counts"),
        "template.updatePolicy": Field(
            IMAGE, "Validate: `version`, cards with another one are named", f"Validate, and {_BY_HAND}", ("Validate",)
        ),
    },
    "NicInterfaceNameTemplate": {
        "netDevicePrefix": Field("name", "with %nic_id%, %rail_id% and %plane_id% filled in"),
        "nodeSelector": _SELECTORS["nodeSelector"],
        "pfsPerNic": Field("name", "the ports of a card that are named, from the first"),
        "railPciAddresses[][]": Field(
            "name", "rails, each with the addresses of its cards; any port of a card will do"
        ),
        "rdmaDevicePrefix": Field("rdma_name", "as netDevicePrefix; where the ports share a name, of the first alone"),
    },
}
"""The fields of the templates by kind and path, for hosts without the controller; ``[]`` is each entry of a list.

The operator takes CNP_DSCP 4 in releases up to 26.7, and 48 by the documentation of 26.10, as congestion notifications
are marked in NVIDIA's RoCE guides.
"""
_SIZE = re.compile(r"\d{1,12}[EPTGMK]i", re.ASCII)


def on_hosts(kind: str, spec: Mapping[str, Any]) -> str:
    """Return what of a host's variables does what a resource of the operator asks for, field by field."""
    found: dict[str, list[str]] = {}
    for path, field in FIELDS[kind].items():
        given = [value for value in values_at(spec, path) if value not in (None, False)]
        if given and not path.startswith(("nodeSelector", "nicSelector")) and field is not _SWITCH:
            what = "nothing" if any(map(field.refuses, given)) else field.variable
            found.setdefault(what, []).append(path.replace("template.", "", 1))
    return "; ".join(f"{', '.join(paths)}: {what}" for what, paths in found.items() if what)


def values_at(value: Any, path: str) -> list[Any]:
    """Return the values at the path of a field, none where it is not given."""
    found = [value]
    for part in path.replace("[]", ".[]").split("."):
        if part == "[]":
            found = [item for each in found if isinstance(each, list) for item in each]
        else:
            found = [each[part] for each in found if isinstance(each, Mapping) and each.get(part) is not None]
    return found


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
