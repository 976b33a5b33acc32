# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Templates of the NIC configuration operator without that operator: checked, and what each one asks of hosts.

What a field becomes is in ``checks/nic_configuration.py``. Sources: ``pkg/configuration`` (configvalidation.go) and
``pkg/firmware`` of the operator, commit 8bfbeb3.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import UNKNOWN_FIELD, shown

from ..checks.crds_controllers import nic_configuration as definitions_of
from ..checks.instances import Flaw, flaws_of
from ..checks.nic_configuration import FIELDS, SECTION, values_at
from ..checks.versions import R26_4, R26_7, R26_10
from ..common.findings import Place
from .functions import remark_nodes
from .resources import CONTROLLER_KINDS, Resource

CONFIGURATION, SOURCE, FIRMWARE, NAMES = (
    "NicConfigurationTemplate",
    "NicFirmwareSource",
    "NicFirmwareTemplate",
    "NicInterfaceNameTemplate",
)
# In a name of a parameter, the number of each port in turn.
EACH_PORT = "_P*"
_LINKS = {"Ethernet": "Ethernet", "Infiniband": "InfiniBand"}
_QUEUES = {"rxRingSize": "rx_ring", "txRingSize": "tx_ring", "combinedChannels": "channels"}
_TRUST = {"dscp": "dscp", "pfc": "pcp"}
_ROCE = {"ROCE_CC_PRIO_MASK": "255", "CNP_DSCP": "48", "CNP_802P_PRIO": "6"}
_QOS: Mapping[str, Any] = {"trust": "dscp", "pfc": "0,0,0,1,0,0,0,0"}
_OF_SPECTRUM_X: Mapping[str, Any] = {"trust": "dscp", "pfc": [3], "cnp_dscp": 48}
_MOST_READ = 4096
# NVIDIA names images so: fw-ConnectX7-rel-28_43_1014-MCX75310AAS-NEA_Ax-UEFI-14.36.16.signed.bin.zip
_VERSION = re.compile(r"-rel-(\d{1,3})_(\d{1,4})_(\d{1,4})-")
_PARAMETER = re.compile(r"[A-Z](?:[A-Z0-9_]|x86){1,63}")
_VALUE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# Numbers for which the definitions have no limit, and the programs that set them do.
_AMOUNTS = ("numVfs", "pciPerformanceOptimized.maxAccOutRead", "roceOptimized.qos.cableLen", "roceOptimized.qos.tos")
_CONTROLLER = (
    f"for the operator in their place add {SECTION} to the NicClusterPolicy; it takes the maintenance operator's "
    "chart, nicFirmwareStorage for images, and hosts without firmware of their own"
)


def of_hosts(objects: Iterable[Resource]) -> list[Resource]:
    """Return the objects of which hosts do the work where the operator is not deployed."""
    return [
        each
        for each in objects
        if each.kind in FIELDS and each.content.get("apiVersion") == CONTROLLER_KINDS[each.kind][0]
    ]


def check(templates: Sequence[Resource], hosts: Mapping[str, Mapping[str, Any]]) -> None:
    """Judge each by the definitions of its kind, and refuse what hosts can't do; ``hosts`` are the desired states."""
    for each in templates:
        flaws = _flaws(each)
        for path, problem, hint in flaws:
            each.place.at(*path).violation(problem, hint)
        if not flaws:
            _refuse(each)
            _CHECKS[each.kind](each, templates)
            if each.kind != SOURCE:
                remark_nodes(each.spec, each.spec_place, hosts, "changes no card")
    for first in templates[:1]:
        first.place.at("kind").notice("is done by hosts without a controller", _CONTROLLER)


def host_requests(templates: Sequence[Resource]) -> list[dict[str, Any]]:
    """Return what templates that were checked ask of the cards of hosts."""
    return [
        {
            "source": f"{each.kind}/{each.name}",
            "node_selector": each.spec.get("nodeSelector") or {},
            "driver": None,
            "peer_memory": None,
            "cards": {"kind": each.kind, **_REQUESTS[each.kind](each, templates)},
        }
        for each in templates
        if each.kind != SOURCE
    ]


def _flaws(resource: Resource) -> list[Flaw]:
    """Return what the definition refuses that fits best: without a controller a template may be of any release."""
    given = dict(resource.content)
    found = [flaws_of(definitions_of(release), given) for release in (R26_10, R26_7, R26_4)]
    return min(found, key=lambda flaws: len([each for each in flaws if each[1] == UNKNOWN_FIELD]) + bool(flaws))


def _refuse(resource: Resource) -> None:
    """Refuse fields that hosts have nothing for; those of a section that is off ask for nothing."""
    for path, field in FIELDS[resource.kind].items():
        section = path.split(".")[:2]
        if len(path.split(".")) > len(section) and values_at(resource.spec, ".".join([*section, "enabled"])) == [False]:
            continue
        for value in values_at(resource.spec, path):
            if field.refuses(value):
                place = resource.spec_place.at(*path.replace("[]", "").split("."))
                place.violation(f"is {shown(value)}, which hosts can't do without the operator", field.refused)


def _check_configuration(resource: Resource, _all: Sequence[Resource]) -> None:
    """Refuse what the operator's daemon refuses, and name what it passes over."""
    place, template = resource.spec_place.at("template"), resource.spec["template"]
    _check_cards(resource)
    for path in _AMOUNTS:
        if min(values_at(template, path), default=0) < 0:
            place.at(*path.split(".")).violation("is below 0", "0 or more")
    link, roce, direct = template.get("linkType"), _section(template, "roceOptimized"), "gpuDirectOptimized"
    if link == "Infiniband" and roce is not None:
        place.at("roceOptimized").violation("is for linkType Ethernet alone", "switch it off, or give that link type")
    if link == "Infiniband" and _section(template, "runtimePerformanceOptimized") is not None:
        place.at("runtimePerformanceOptimized").notice("has no effect with linkType Infiniband", "it sets none there")
    if _section(template, direct) is not None and _section(template, "pciPerformanceOptimized") is None:
        place.at(direct).violation("needs pciPerformanceOptimized", "enable both")
    qos = (roce or {}).get("qos") or {}
    if (qos.get("pauseFrames") or {}).get("enabled") and "1" in qos["pfc"]:
        hint = "leave pauseFrames out, or give pfc 0,0,0,0,0,0,0,0"
        place.at("roceOptimized", "qos", "pauseFrames").violation("excludes pfc: a port has one of both", hint)
    for index, raw in enumerate(template.get("rawNvConfig") or []):
        for key, pattern in (("name", _PARAMETER), ("value", _VALUE)):
            if not pattern.fullmatch(raw[key]):
                problem = f"is {shown(raw[key])}, which is no {key} of a parameter that is set here"
                place.at("rawNvConfig", index, key).violation(problem, "one word; entries of arrays are not set")


def _check_firmware(resource: Resource, templates: Sequence[Resource]) -> None:
    _check_cards(resource)
    name = resource.spec["template"]["nicFirmwareSourceRef"]
    place = resource.spec_place.at("template", "nicFirmwareSourceRef")
    if not [each for each in templates if each.kind == SOURCE and each.name == name]:
        place.violation(f"is {shown(name)}, and the input has no NicFirmwareSource of that name", "add it")


def _check_source(resource: Resource, templates: Sequence[Resource]) -> None:
    for index, url in enumerate(resource.spec.get("binUrlSources") or []):
        if not _VERSION.search(url):
            hint = "name the file as NVIDIA does: fw-ConnectX7-rel-28_43_1014-…; nothing is downloaded to look into it"
            resource.spec_place.at("binUrlSources", index).violation("does not tell the version of the image", hint)
    if not [each for each in templates if each.kind == FIRMWARE and _refers(each, resource)]:
        resource.place.at("kind").notice("has no effect here", "no NicFirmwareTemplate names it")


def _refers(template: Resource, source: Resource) -> bool:
    return source.name in values_at(template.spec, "template.nicFirmwareSourceRef")


def _check_names(resource: Resource, _all: Sequence[Resource]) -> None:
    for index, rail in enumerate(resource.spec["railPciAddresses"]):
        _check_addresses(resource.spec_place.at("railPciAddresses", index), rail)
    if resource.spec["pfsPerNic"] < 1:
        resource.spec_place.at("pfsPerNic").violation("names no port", "1 or more")


def _check_cards(resource: Resource) -> None:
    selector, place = resource.spec["nicSelector"], resource.spec_place.at("nicSelector")
    if not re.fullmatch(r"[0-9a-f]{4}", selector["nicType"]):
        hint = "four digits of lspci -n in lower case, such as 1021 (ConnectX-7)"
        place.at("nicType").violation(f"is {shown(selector['nicType'])}, which is no PCI device ID", hint)
    _check_addresses(place.at("pciAddresses"), selector.get("pciAddresses") or [])


def _check_addresses(place: Place, addresses: Sequence[str]) -> None:
    for index, address in enumerate(addresses):
        if not re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", address):
            hint = "as lspci -D prints it, in lower case: 0000:18:00.0"
            place.at(index).violation(f"is {shown(address)}, which no port has as its PCI address", hint)


def _section(template: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return a section that is switched on."""
    section: Mapping[str, Any] = template.get(name) or {}
    return section if section.get("enabled") else None


def _configuration(resource: Resource, _all: Sequence[Resource]) -> dict[str, Any]:
    """Return the cards and settings of a NicConfigurationTemplate: firmware, and what their ports get while they run.

    As with the operator, a parameter of rawNvConfig is before one of another field.
    """
    template = resource.spec["template"]
    link = _LINKS.get(template.get("linkType", ""))
    count, pci, roce, spectrum_x = (
        template["numVfs"],
        _section(template, "pciPerformanceOptimized"),
        _section(template, "roceOptimized"),
        _section(template, "spectrumXOptimized"),
    )
    firmware = {"SRIOV_EN": str(int(count > 0)), "NUM_OF_VFS": str(count)}
    if pci and pci.get("maxAccOutRead"):
        firmware.update(ADVANCED_PCI_SETTINGS="1", MAX_ACC_OUT_READ=str(pci["maxAccOutRead"]))
    if _section(template, "gpuDirectOptimized"):
        firmware["ATS_ENABLED"] = "0"
    firmware.update({f"{name}{EACH_PORT}": value for name, value in (_ROCE.items() if roce else ())})
    if spectrum_x:
        firmware["spectrum_x"] = spectrum_x["version"]
    raw = {each["name"]: each["value"] for each in template.get("rawNvConfig") or []}
    at_run_time = None if link == "InfiniBand" else _section(template, "runtimePerformanceOptimized")
    ports: dict[str, Any] = {}
    if roce or spectrum_x:
        ports["qos"] = _qos(roce.get("qos") or _QOS) if roce else dict(_OF_SPECTRUM_X)
    queues = {ours: at_run_time[key] for key, ours in _QUEUES.items() if at_run_time and at_run_time.get(key)}
    if queues:
        ports["queues"] = queues
    return {
        **_cards(resource),
        "link_layer": link,
        "firmware": {**firmware, **raw},
        "ports": ports,
        "max_read_request": (pci.get("maxReadRequest") or _MOST_READ) if pci else None,
    }


def _qos(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of RoCE traffic as a host has them."""
    ecn, pause = given.get("ecn"), given.get("pauseFrames")
    found: dict[str, Any] = {"trust": _TRUST[given["trust"]]}
    found["pfc"] = [priority for priority, digit in enumerate(given["pfc"].split(",")) if digit == "1"]
    if given.get("tos"):
        found["tos"] = given["tos"]
    if given.get("cableLen"):
        found["cable_length"] = given["cableLen"]
    if ecn is not None:
        found["ecn"] = {str(ecn["priority"]): dict.fromkeys(("rp", "np"), ecn["enabled"])}
    if pause is not None:
        found["pause"] = pause["enabled"]
    return found


def _firmware(resource: Resource, templates: Sequence[Resource]) -> dict[str, Any]:
    """Return the cards of a NicFirmwareTemplate, and the versions that its source has."""
    sources = [each for each in templates if each.kind == SOURCE and _refers(resource, each)]
    found = [_VERSION.search(url) for each in sources for url in values_at(each.spec, "binUrlSources[]")]
    return {**_cards(resource), "versions": [".".join(version.groups()) for version in found if version]}


def _names(resource: Resource, _all: Sequence[Resource]) -> dict[str, Any]:
    spec = resource.spec
    return {
        "rails": spec["railPciAddresses"],
        "ports_per_card": spec["pfsPerNic"],
        "name": spec["netDevicePrefix"],
        "rdma_name": spec.get("rdmaDevicePrefix") or None,
    }


def _cards(resource: Resource) -> dict[str, Any]:
    selector = resource.spec["nicSelector"]
    return {
        "device": selector["nicType"],
        "pci": selector.get("pciAddresses") or [],
        "serials": selector.get("serialNumbers") or [],
        "parts": selector.get("partNumbers") or [],
    }


_CHECKS = {CONFIGURATION: _check_configuration, SOURCE: _check_source, FIRMWARE: _check_firmware, NAMES: _check_names}
_REQUESTS = {CONFIGURATION: _configuration, FIRMWARE: _firmware, NAMES: _names}
