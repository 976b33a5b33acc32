# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks and network attachments of the input: checked one by one and against each other. It may change."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Container, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import nearest

from ..checks import nad, node_slices
from ..checks.cni import RESOURCE_NAME
from ..checks.ipam import Claim
from ..checks.nv_ipam import PoolKey
from ..checks.versions import node_slice_problems, slices_beside_problems
from ..common.findings import Place, path_text
from ..common.jsontext import Problem, parse_json
from ..common.names import dns_label, dns_subdomain
from ..common.schema import Model, annotation_map, label_map, record, text
from .models import NETWORK_MODELS
from .models_sriov import SRIOV_NETWORK_MODELS
from .resources import ATTACHMENT_KIND, Resource

_OPERATORS = "network-operator"
_CONFIG = text("CNI configuration, as JSON text")
_ATTACHMENT = Model(ATTACHMENT_KIND, record("an attachment", {"config": _CONFIG}))
ATTACHMENT_MODEL = Model(
    "an attachment",
    record(
        "an attachment",
        {"config": _CONFIG, "annotations": annotation_map("annotations"), "labels": label_map("labels")},
    ),
)


@dataclass(frozen=True)
class Network:
    """One attachment pods can ask for. ``entry`` is what a FabricSpec holds of it, ``valid`` whether it may be built.

    ``config`` and ``annotations`` are those of the attachment as it will be stored. ``resource_place`` is where the
    device resource is named that its pods need.
    """

    kind: str
    name: str
    namespace: str
    entry: dict[str, Any]
    place: Place
    resource_place: Place
    config: str
    annotations: dict[str, str]
    valid: bool

    @property
    def full_name(self) -> str:
        """``namespace/name`` of the attachment."""
        return f"{self.namespace}/{self.name}"

    @property
    def ipam_place(self) -> Place:
        """Where the address management stands."""
        return self.place if self.kind == ATTACHMENT_KIND else self.place.at("ipam")


def read_network(resource: Resource) -> Network:
    """Check a network of any kind: the operator's own and those of the SR-IOV operator."""
    place, known = resource.spec_place, len(resource.place.findings.violations)
    spec = NETWORK_MODELS[resource.kind].read(resource.spec, place)
    network = {"kind": resource.kind, "name": resource.name, "spec": spec}
    if resource.kind in SRIOV_NETWORK_MODELS:
        network["namespace"] = resource.namespace
    said = {violation.path for violation in place.findings.violations[known:]}
    for problem in nad.check_network(network):
        # One place gets one violation: the declaration of the field may have spoken already.
        if place.at(_field_of(problem.path)).text() not in said:
            field_place(place, problem.path).violation(problem.problem, problem.hint)
    valid = bool(resource.name) and len(place.findings.violations) == known
    built: dict[str, Any] = nad.network_attachment(network) if valid else {"metadata": {}, "spec": {"config": ""}}
    for remark in nad.network_remarks(network) if valid else ():
        field_place(place, remark.path).remark(remark)
    return Network(
        kind=resource.kind,
        name=resource.name,
        namespace=nad.namespace_of(network),
        entry={**network, "source": resource.source},
        place=place,
        resource_place=place.at("resourceName"),
        config=built["spec"]["config"],
        annotations=built["metadata"].get("annotations", {}),
        valid=valid,
    )


def field_place(place: Place, path: str) -> Place:
    """Return the place of a field of a network's spec, or inside the JSON text it holds (``metaPlugins[0].type``)."""
    field = _field_of(path)
    rest = path[len(field) :].lstrip(".")
    return place.at(field).inside(rest) if rest else place.at(field)


def _field_of(path: str) -> str:
    return re.split(r"[.\[]", path)[0]


def read_attachment(resource: Resource) -> Network:
    """Check a NetworkAttachmentDefinition given as such."""
    given = _ATTACHMENT.read(resource.spec, resource.spec_place)
    entry: dict[str, Any] = {
        "name": resource.name,
        "namespace": resource.namespace or "default",
        "annotations": resource.metadata("annotations"),
        "labels": resource.metadata("labels"),
        "config": given.get("config", ""),
        "source": resource.source,
    }
    annotations = resource.place.at("metadata", "annotations")
    has_config = isinstance(resource.spec, dict)
    return _attachment(entry, resource.spec_place.at("config"), annotations, has_config=has_config)


def read_attachment_variable(key: str, value: Any, place: Place) -> Network:
    """Check an attachment of a variable, by ``name`` or ``namespace/name``."""
    namespace, _slash, name = key.rpartition("/")
    place.violations(dns_subdomain(name) + (dns_label(namespace) if namespace else []))
    given = ATTACHMENT_MODEL.read(value, place)
    entry: dict[str, Any] = {
        "name": name,
        "namespace": namespace or "default",
        "annotations": given.get("annotations", {}),
        "labels": given.get("labels", {}),
        "config": given.get("config", ""),
        "source": f"{place.document.source}: {path_text(place.path)}",
    }
    return _attachment(entry, place.at("config"), place.at("annotations"), has_config=True)


def _attachment(entry: dict[str, Any], place: Place, annotations: Place, has_config: bool) -> Network:
    problems = nad.check_attachment(entry["config"])
    place.violations(problems)
    if not problems:
        for remark in nad.attachment_remarks(entry["config"], entry["annotations"]):
            place.inside(remark.path).remark(remark)
    if has_config and not entry["config"].strip():
        place.notice("is empty: Multus then looks for a configuration of that name on the node")
    return Network(
        kind=ATTACHMENT_KIND,
        name=entry["name"],
        namespace=entry["namespace"],
        entry=entry,
        place=place,
        resource_place=annotations.at(RESOURCE_NAME),
        config=entry["config"],
        annotations=entry["annotations"],
        valid=not problems,
    )


def check_between(networks: Sequence[Network], pools: Mapping[PoolKey, Claim]) -> None:
    """Hold attachments against each other: names given twice, ranges and pools that overlap, children of one port."""
    first: dict[str, Network] = {}
    for network in networks:
        other = first.setdefault(network.full_name, network)
        if other is not network and network.name:
            hint = f"{other.entry['source']} ({other.kind}) makes it already"
            network.place.violation(f"the attachment {network.full_name} is given twice", hint)
    by_where = {network.full_name: network for network in networks if network.valid}
    given = [nad.Attachment(key, net.name, net.config, net.annotations) for key, net in by_where.items()]
    for where, problem in nad.check_between(given, pools):
        network = by_where[where]
        network.ipam_place.violations([problem])
    for where, problem in nad.rivals(given):
        network = by_where[where]
        field = field_place(network.place, nad.field_of(problem.path))
        (network.place.inside(problem.path) if network.kind == ATTACHMENT_KIND else field).remark(problem)


def remark_namespaces(networks: Sequence[Network], homes: Container[str]) -> None:
    """Name networks whose ``networkNamespace`` the SR-IOV operator does not take: they are in no namespace of its own.

    Sources: ``validateNetworkNamespace`` of its webhook, ``Reconcile`` of its networks. ``homes`` are the namespaces
    that it is in by the rest of the input; those that its charts and OpenShift have it in end alike.
    """
    for network in networks:
        own = network.entry.get("namespace") or _OPERATORS
        if network.kind not in SRIOV_NETWORK_MODELS or own in homes or own.endswith(_OPERATORS):
            continue
        if network.entry["spec"].get("networkNamespace"):
            problem = f"is taken by the SR-IOV operator in its own namespace alone, and this network is in {own}"
            network.place.at("networkNamespace").notice(problem, "give the network there, or leave this out")


def check_node_slices(networks: Sequence[Network], version: str, hosts: int) -> None:
    """Refuse node slices that nobody makes, and name those that are fewer than ``hosts``.

    ``version`` is the release of whereabouts that the input deploys, "" for none.
    """
    asked = [(network, nad.slices_of(network.config)) for network in networks if network.valid]
    others = [network.full_name for network, slices in asked if slices is None]
    for network, _slices in asked:
        if version and nad.wants_node_slices(network.config):
            problems = node_slice_problems(version)
            if others and not problems:
                problems = slices_beside_problems(version, others[0])
            network.ipam_place.violations(problems)
    held = [(network, slices) for network, slices in asked if slices is not None]
    for index, other in node_slices.mismatches([slices for _network, slices in held]):
        problem = "makes no slices: attachments of one network_name, or of none, need the same range and size"
        hint = f"give each network a network_name of its own: {held[other][0].full_name} has {held[other][1].network}"
        held[index][0].ipam_place.inside("ipam.network_name").violation(problem, hint)
    for network, slices in held:
        if 0 < node_slices.number_of(slices) < hosts:
            problem = f"makes {node_slices.number_of(slices)} slices of {slices.network}, for {hosts} hosts"
            hint = "a larger range, or smaller slices: pods fail on a node without one"
            network.ipam_place.inside(f"ipam.{node_slices.SIZE}").notice(problem, hint)


def check_resource_names(networks: Sequence[Network], offered: Sequence[str]) -> None:
    """Say when a network asks for a device resource that no device plugin of the input offers."""
    for network in networks:
        wanted = network.annotations.get(RESOURCE_NAME)
        if wanted and "/" not in wanted:
            # The API server takes no such name from a container (validateContainerResourceName): sriov-cni#35 has one.
            problem = f"is {wanted}, and resources of device plugins have a prefix: no pod can ask for it"
            hint = next((name for name in offered if name.endswith(f"/{wanted}")), f"such as nvidia.com/{wanted}")
            network.resource_place.notice(problem, hint, unmet=True)
        elif offered and wanted and wanted not in offered:
            hint = nearest(wanted, offered) or f"offered: {', '.join(offered)}"
            network.resource_place.notice(f"asks for {wanted}, which no device plugin of the input offers", hint)


def reference_problems(annotation: str) -> list[Problem]:
    """Judge the annotation that lists a pod's networks: names joined by commas, or a JSON list."""
    return _references(annotation)[1]


def referenced(annotation: str, namespace: str) -> list[str]:
    """Return the ``namespace/name`` of every network that a pod's annotation asks for."""
    names = []
    for item in _references(annotation)[0]:
        owner, _slash, name = item.rpartition("/")
        names.append(f"{owner or namespace}/{name}")
    return names


def _references(annotation: str) -> tuple[list[str], list[Problem]]:
    stripped = annotation.strip()
    if not stripped.startswith(("[", "{")):
        names = [part.strip().partition("@")[0] for part in stripped.split(",")]
        wrong = [name for name in names if any(_reference_problems(name))]
        return [name for name in names if name not in wrong], [
            Problem("", f"{name!r} names no network", "write name or namespace/name, joined by commas")
            for name in wrong
        ]
    value, problems = parse_json(stripped)
    if problems:
        return [], problems
    if not isinstance(value, list) or not all(isinstance(item, dict) and item.get("name") for item in value):
        return [], [Problem("", "is not a list of networks", 'write [{"name": "rdma-net"}]')]
    return [f"{item['namespace']}/{item['name']}" if item.get("namespace") else str(item["name"]) for item in value], []


def _reference_problems(name: str) -> list[Problem]:
    namespace, _slash, short = name.rpartition("/")
    return (dns_label(namespace) if namespace else []) + dns_subdomain(short)
