# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The custom resource definitions of controllers that the vendor's operator deploys: NIC configuration, Spectrum-X.

Source: the API ``configuration.net.nvidia.com/v1alpha1`` and ``spectrumx.nvidia.com/v1alpha2`` of release 26.4, of 26.7
(the Network Operator at v26.7.0-rc.2), and of 26.10 as far as it is published (commit 8bfbeb3 of the NIC configuration
operator and 246268d of the Spectrum-X operator, the documentation of 26.10), with the rules that the API server holds
their objects to. An older controller would ignore a field of a newer release, so each release has its own.
"""

from __future__ import annotations

from typing import Any, Dict

from ..common.objects import Object, build
from .versions import R26_7, R26_10, Release

Schema = Dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
INT32: Schema = {"format": "int32", "type": "integer"}
FLAG: Schema = {"type": "boolean"}


def definition(
    api_version: str,
    kind: str,
    plural: str,
    component: str,
    schema: dict[str, Schema],
    *,
    singular: str = "",
    scope: str = "Namespaced",
    short_names: list[str] | None = None,
    required: list[str] | None = None,
    has_status: bool = False,
) -> Object:
    """Return the definition of one kind.

    ``schema`` holds its fields beside those of every object. ``has_status``: status is written apart from the rest.
    """
    group, _slash, version = api_version.partition("/")
    names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "shortNames": short_names or [],
        "singular": singular or kind.lower(),
    }
    fields = {"apiVersion": STRING, "kind": STRING, "metadata": {"type": "object"}, **schema}
    served = {
        "name": version,
        "schema": {"openAPIV3Schema": object_of(fields, required)},
        "served": True,
        "storage": True,
    }
    found = build(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        f"{plural}.{group}",
        component,
        spec={"group": group, "names": names, "scope": scope, "versions": [served]},
    )
    if has_status:
        # An empty map means something here, so it is set after the canonical form has dropped empty ones.
        found["spec"]["versions"][0]["subresources"] = {"status": {}}
    return found


def object_of(properties: dict[str, Schema], required: list[str] | None = None) -> Schema:
    """Return the schema of an object with these fields alone."""
    return {"properties": properties, "required": required or [], "type": "object"}


def map_of(items: Schema) -> Schema:
    """Return the schema of a map of any keys."""
    return {"additionalProperties": items, "type": "object"}


def list_of(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"items": items, "type": "array"}


def atomic(items: Schema) -> Schema:
    """Return the schema of a list that is replaced as a whole."""
    return {**list_of(items), "x-kubernetes-list-type": "atomic"}


def one_of(*choices: Any, default: Any = None) -> Schema:
    """Return the schema of text or a number out of ``choices``."""
    found: Schema = {"enum": list(choices), "type": "string" if isinstance(choices[0], str) else "integer"}
    return found if default is None else {**found, "default": default}


def held_to(schema: Schema, rules: dict[str, str]) -> Schema:
    """Return a schema whose values the server judges by rules in CEL; ``rules`` maps each message to its rule."""
    judged = [{"message": message, "rule": rule} for message, rule in rules.items()]
    return {**schema, "x-kubernetes-validations": judged}


_PCI_ADDRESS = r"^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$"
_CONDITION_TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
_LABELS = map_of(STRING)
_SPECTRUM_X = "(has(self.spectrumXOptimized) && self.spectrumXOptimized.enabled)"
_OF_TEMPLATE = "(has(self.template.spectrumXOptimized) && self.template.spectrumXOptimized.enabled)"
_HAS_PLANES = "!has(self.multiplaneMode) || !has(self.numberOfPlanes)"
_PLANES_OF_26_7 = {
    "when MultiplaneMode is none, numberOfPlanes must be 1": (
        f"{_HAS_PLANES} || self.multiplaneMode != 'none' || self.numberOfPlanes == 1"
    ),
    "when MultiplaneMode is not none, numberOfPlanes must not be 1": (
        f"{_HAS_PLANES} || self.multiplaneMode == 'none' || self.numberOfPlanes != 1"
    ),
}
_PLANES = {
    **_PLANES_OF_26_7,
    "when Version is RA1.3 or RA2.0, MultiplaneMode must be none and numberOfPlanes must be 1": (
        f"!has(self.version) || {_HAS_PLANES} || !(self.version == 'RA1.3' || self.version == 'RA2.0') || "
        "(self.multiplaneMode == 'none' && self.numberOfPlanes == 1)"
    ),
}
_ONE_ROCE = {
    "spectrumXOptimized includes RoCE optimizations, so separate roceOptimized section must not be enabled": (
        f"!{_SPECTRUM_X} || !(has(self.roceOptimized) && self.roceOptimized.enabled)"
    ),
}
_TEMPLATE_RULES = {
    "spectrumXOptimized can be enabled only when linkType=='Ethernet' and numVfs==1": (
        f"!{_SPECTRUM_X} || (self.linkType == 'Ethernet' && self.numVfs == 1)"
    ),
    **_ONE_ROCE,
}
_TEMPLATE_RULES_OF_26_7 = {
    "spectrumXOptimized needs numVfs 1 and no other linkType than Ethernet": (
        f"!{_SPECTRUM_X} || ((!has(self.linkType) || self.linkType == 'Ethernet') && self.numVfs == 1)"
    ),
    **_ONE_ROCE,
    "one of linkType and networkBay is needed: the system configuration of a Network Bay card sets its link type": (
        "has(self.networkBay) != has(self.linkType)"
    ),
    "rawNvConfig takes no range of indexes as in NAME[0..3]: list each index": (
        "!has(self.rawNvConfig) || self.rawNvConfig.all(each, !each.name.matches('[[][0-9]+[.][.][0-9]+[]]'))"
    ),
}
_PLANES_OF_26_10 = {
    **_PLANES_OF_26_7,
    "platformType is required when Spectrum-X optimization is enabled": "!self.enabled || has(self.platformType)",
}
_TEMPLATE_RULES_OF_26_10 = {
    **_TEMPLATE_RULES_OF_26_7,
    "spectrumXOptimized is not for a Network Bay card": f"!{_SPECTRUM_X} || !has(self.networkBay)",
}
_SUPER_NIC = (
    f"!{_OF_TEMPLATE} || (self.nicSelector.nicType == '1023' || self.nicSelector.nicType == '1025' || "
    "self.nicSelector.nicType == 'a2dc')"
)
_CARD_RULES = {
    "spectrumXOptimized can be enabled only for ConnectX-8, ConnectX-9 or BlueField-3 SuperNICs": _SUPER_NIC,
    "hwplb MultiplaneMode can only be enabled for ConnectX-8 (NicType 1023) or ConnectX-9 (NicType 1025)": (
        "!has(self.template.spectrumXOptimized) || !has(self.template.spectrumXOptimized.multiplaneMode) || "
        "self.template.spectrumXOptimized.multiplaneMode != 'hwplb' || self.nicSelector.nicType == '1023' || "
        "self.nicSelector.nicType == '1025'"
    ),
}
_CARD_RULES_OF_26_7 = {
    **_CARD_RULES,
    "networkBay is for ConnectX-9 (nicType 1025) alone": (
        "!has(self.template.networkBay) || self.nicSelector.nicType == '1025'"
    ),
}
_CARD_RULES_OF_26_10 = {
    **{message: rule for message, rule in _CARD_RULES_OF_26_7.items() if rule != _SUPER_NIC},
    "spectrumXOptimized is for ConnectX-8, ConnectX-9, BlueField-3 SuperNICs, and ConnectX-7 (1021) without planes": (
        f"{_SUPER_NIC} || (self.nicSelector.nicType == '1021' && "
        "(!has(self.template.spectrumXOptimized.multiplaneMode) || "
        "self.template.spectrumXOptimized.multiplaneMode == 'none'))"
    ),
}
_SOURCE_RULES = {
    "At least one of binUrlSources, bfbUrlSource, or docaSpcXCCUrlSource must be specified": (
        "size(self.binUrlSources) > 0 || size(self.bfbUrlSource) > 0 || size(self.docaSpcXCCUrlSource) > 0"
    ),
}


def nic_configuration(release: Release) -> list[Object]:
    """Return the CRDs of the NIC configuration operator of a release."""
    conditions = {"conditions": list_of(_condition())} if release >= R26_7 else {}
    devices = object_of({**conditions, "nicDevices": list_of(STRING)})
    configuration = object_of(
        {
            "nicSelector": _cards(),
            "nodeSelector": _LABELS,
            "resetToDefault": {**FLAG, "default": False},
            "template": _configuration(release),
        },
        ["nicSelector", "template"],
    )
    firmware = object_of(
        {"nicSelector": _cards(), "nodeSelector": _LABELS, "template": _firmware()}, ["nicSelector", "template"]
    )
    card_rules = _of(release, _CARD_RULES, _CARD_RULES_OF_26_7, _CARD_RULES_OF_26_10)
    names = {
        "netDevicePrefix": STRING,
        "nodeSelector": _LABELS,
        "pfsPerNic": INTEGER,
        "railPciAddresses": list_of(list_of(STRING)),
        "rdmaDevicePrefix": STRING,
    }
    return [
        _of_cards("NicConfigurationTemplate", held_to(configuration, card_rules), devices),
        _of_cards("NicDevice", _device(release), _device_status(release)),
        _of_cards("NicFirmwareSource", _source(), _source_status()),
        _of_cards("NicFirmwareTemplate", firmware, devices),
        _of_cards(
            "NicInterfaceNameTemplate",
            object_of(names, ["netDevicePrefix", "pfsPerNic", "railPciAddresses"]),
            {"type": "object"},
        ),
    ]


def spectrum_x(release: Release) -> list[Object]:
    """Return the CRD of the Spectrum-X operator of a release."""
    rail = object_of(
        {
            **({"swPlane": {**INTEGER, "minimum": 0}} if release >= R26_10 else {}),
            "cidrPoolRef": STRING,
            "ipam": STRING,
            "mtu": {**INTEGER, "minimum": 0},
            "name": {**STRING, "minLength": 1},
            "nicSelector": object_of({"pfNames": {**list_of(STRING), "minItems": 1}}, ["pfNames"]),
        },
        ["mtu", "name", "nicSelector"],
    )
    one_source = {"Only one of cidrPoolRef or ipam can be specified": "!has(self.cidrPoolRef) || !has(self.ipam)"}
    number_or_share: Schema = {"anyOf": [INTEGER, STRING], "default": 1, "x-kubernetes-int-or-string": True}
    spec = {
        "draEnabled": {**FLAG, "default": True},
        "maxUnavailable": number_or_share,
        "networkNamespace": STRING,
        "nodeSelector": _LABELS,
        "numVfs": {**INTEGER, "minimum": 1},
        "railTopology": {**list_of(held_to(rail, one_source)), "minItems": 1},
    }
    generation = {**INTEGER, "format": "int64"}
    status: dict[str, Schema] = {"observedGeneration": generation, "syncStatus": STRING}
    if release >= R26_10:
        spec.update(ovsConfig=_LABELS, vfStateFollow={**FLAG, "default": True})
    if release >= R26_7:
        states = one_of("Unknown", "InProgress", "Failed", "Succeeded")
        of_node = {"message": STRING, "name": STRING, "observedGeneration": generation, "state": states}
        status["nodeStates"] = list_of(object_of(of_node, ["name", "state"]))
    fields = {"spec": object_of(spec, ["numVfs", "railTopology"]), "status": object_of(status)}
    kind = "SpectrumXRailPoolConfig"
    found = definition(
        "spectrumx.nvidia.com/v1alpha2", kind, f"{kind.lower()}s", "spectrum-x-operator", fields, has_status=True
    )
    if release >= R26_7:
        found["spec"]["versions"][0]["additionalPrinterColumns"] = [
            {"jsonPath": ".status.syncStatus", "name": "Status", "type": "string"},
            {"jsonPath": ".metadata.creationTimestamp", "name": "Age", "type": "date"},
        ]
    return [found]


def maintenance() -> list[Object]:
    """Return the CRD of the maintenance operator's settings, which its chart brings."""
    number_or_share: Schema = {"x-kubernetes-int-or-string": True}
    spec = {
        "logLevel": one_of("debug", "info", "error"),
        "maxNodeMaintenanceTimeSeconds": {**INT32, "minimum": 0},
        "maxParallelOperations": number_or_share,
        "maxUnavailable": number_or_share,
    }
    kind = "MaintenanceOperatorConfig"
    fields = {"spec": object_of(spec), "status": {"type": "object"}}
    return [definition("maintenance.nvidia.com/v1alpha1", kind, f"{kind.lower()}s", "maintenance-operator", fields)]


def _of(release: Release, first: Any, of_26_7: Any, of_26_10: Any) -> Any:
    """Return which of three a release has."""
    return of_26_10 if release >= R26_10 else of_26_7 if release >= R26_7 else first


def _of_cards(kind: str, spec: Schema, status: Schema) -> Object:
    fields = {"spec": spec, "status": status}
    return definition(
        "configuration.net.nvidia.com/v1alpha1",
        kind,
        f"{kind.lower()}s",
        "nic-configuration-operator",
        fields,
        has_status=True,
    )


def _cards() -> Schema:
    address = {**STRING, "pattern": _PCI_ADDRESS}
    fields = {
        "nicType": STRING,
        "partNumbers": list_of(STRING),
        "pciAddresses": list_of(address),
        "serialNumbers": list_of(STRING),
    }
    return object_of(fields, ["nicType"])


def _configuration(release: Release) -> Schema:
    """Return the schema of what a card's firmware and its settings at run time are to be."""
    qos = {"pfc": {**STRING, "pattern": "^([01],){7}[01]$"}, "tos": INTEGER, "trust": STRING}
    spectrum_x = {
        "multiplaneMode": one_of("none", "swplb", "hwplb", *(["uniplane"] if release < R26_10 else []), default="none"),
        "numberOfPlanes": one_of(1, 2, 4, default=1),
        "overlay": one_of("l3", "none", default="none"),
        # In 26.7 it names a ConfigMap with a profile, since 26.10 an architecture.
        "version": STRING if release >= R26_7 else one_of("RA1.3", "RA2.0", "RA2.1", "RA2.2"),
        **({"platformType": STRING} if release >= R26_10 else {}),
    }
    planes = _of(release, _PLANES, _PLANES_OF_26_7, _PLANES_OF_26_10)
    reads = {"maxAccOutRead": INTEGER, "maxReadRequest": one_of(128, 256, 512, 1024, 2048, 4096)}
    fields = {
        "gpuDirectOptimized": _switched({"env": STRING}, "env"),
        "linkType": one_of("Ethernet", "Infiniband"),
        "numVfs": INTEGER,
        "pciPerformanceOptimized": _switched(reads),
        "rawNvConfig": list_of(object_of({"name": STRING, "value": STRING}, ["name", "value"])),
        "roceOptimized": _switched({"qos": object_of(qos, ["pfc", "trust"])}),
        "spectrumXOptimized": held_to(_switched(spectrum_x, "version"), planes),
    }
    rules = _of(release, _TEMPLATE_RULES, _TEMPLATE_RULES_OF_26_7, _TEMPLATE_RULES_OF_26_10)
    if release < R26_7:
        return held_to(object_of(fields, ["linkType", "numVfs"]), rules)
    fields.update(_fields_of_26_7(qos))
    return held_to(object_of(fields, ["numVfs"]), rules)


def _fields_of_26_7(qos: dict[str, Schema]) -> dict[str, Schema]:
    """Return the fields of a configuration that are new, or others, since 26.7; ``qos`` are those of the older."""
    priority = {**INTEGER, "maximum": 7, "minimum": 0}
    amount = {**INTEGER, "minimum": 1}
    of_qos = {
        **qos,
        "cableLen": INTEGER,
        "ecn": _switched({"priority": priority}, "priority"),
        "pauseFrames": _switched({}),
    }
    # The rule about names of parameters has to be cheap enough for the API server, so their lengths are limited.
    parameter = object_of(
        {"name": {**STRING, "maxLength": 64}, "value": {**STRING, "maxLength": 128}}, ["name", "value"]
    )
    at_run_time = {
        "combinedChannels": amount,
        "lro": FLAG,
        "rxRingSize": amount,
        "txRingSize": amount,
    }
    return {
        "force": {**FLAG, "default": False},
        "networkBay": object_of({"conf": STRING}, ["conf"]),
        "rawNvConfig": {**list_of(parameter), "maxItems": 128},
        "roceOptimized": _switched({"qos": object_of(of_qos, ["pfc", "trust"]), "roceMode": one_of(1, 2)}),
        "runtimePerformanceOptimized": _switched(at_run_time),
    }


def _switched(fields: dict[str, Any], *required: str) -> Schema:
    """Return the schema of settings that are switched on as a whole."""
    return object_of({"enabled": FLAG, **fields}, ["enabled", *required])


def _firmware() -> Schema:
    fields = {"nicFirmwareSourceRef": STRING, "updatePolicy": one_of("Validate", "Update")}
    return object_of(fields, ["nicFirmwareSourceRef", "updatePolicy"])


def _source() -> Schema:
    fields = {
        "bfbUrlSource": STRING,
        "binUrlSources": {**list_of(STRING), "minItems": 1},
        "docaSpcXCCUrlSource": STRING,
    }
    return held_to(object_of(fields), _SOURCE_RULES)


def _source_status() -> Schema:
    states = ("Downloading", "Processing", "Success", "ProcessingFailed", "DownloadFailed", "CacheVerificationFailed")
    fields = {
        "bfbVersions": map_of(STRING),
        "binaryVersions": map_of(list_of(STRING)),
        "docaSpcXCCVersion": STRING,
        "reason": STRING,
        "state": one_of(*states),
    }
    return object_of(fields, ["state"])


def _device(release: Release) -> Schema:
    names = {
        "netDevicePrefix": STRING,
        "nicIndex": INTEGER,
        "planeIndices": list_of(INTEGER),
        "railIndex": INTEGER,
        "rdmaDevicePrefix": STRING,
    }
    return object_of(
        {
            "configuration": object_of({"resetToDefault": FLAG, "template": _configuration(release)}),
            "firmware": _firmware(),
            "interfaceNameTemplate": object_of(names, ["netDevicePrefix", "nicIndex", "planeIndices", "railIndex"]),
        }
    )


def _device_status(release: Release) -> Schema:
    of_port = {"networkInterface": STRING, "pci": STRING, "rdmaInterface": STRING}
    port = object_of({**of_port, "fwctlDevice": STRING} if release >= R26_7 else of_port, ["pci"])
    bay = {"networkBay": object_of({"asic": INTEGER, "peerPci": STRING}, ["asic"])} if release >= R26_7 else {}
    texts = ("firmwareVersion", "modelName", "node", "partNumber", "psid", "serialNumber", "type")
    required = {
        **dict.fromkeys(texts, STRING),
        "dpu": FLAG,
        "ports": list_of(port),
        "superNIC": FLAG,
    }
    return object_of({**required, **bay, "conditions": list_of(_condition())}, sorted(required))


def _condition() -> Schema:
    """Return the schema of meta/v1 Condition."""
    reason = {"maxLength": 1024, "minLength": 1, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"}
    fields = {
        "lastTransitionTime": {**STRING, "format": "date-time"},
        "message": {**STRING, "maxLength": 32768},
        "observedGeneration": {**INTEGER, "format": "int64", "minimum": 0},
        "reason": {**STRING, **reason},
        "status": one_of("True", "False", "Unknown"),
        "type": {**STRING, "maxLength": 316, "pattern": _CONDITION_TYPE},
    }
    return object_of(fields, ["lastTransitionTime", "message", "reason", "status", "type"])
