# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies: translated to the current shape, held against each other, and what they ask of hosts. It may change.

Sources of the rules between policies: the webhook ``api/v1alpha1/validator/nicpolicy_webhook.go``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.basis.findings import Place, one_line, shown
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.basis.images import (
    SECTION_COMPONENTS,
    default_image,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.intake.models import MODELS, POLICY_NAME
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.intake.resources import Resource
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rules import devplugin
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation

EXCLUSIVE_SECTIONS = ("ofedDriver", "rdmaSharedDevicePlugin", "sriovDevicePlugin")
"""Sections that may stand in the cluster's policy or in node policies, not in both."""

IMAGE_PARTS = ("repository", "image", "version")
PLUGIN_KINDS = {"rdmaSharedDevicePlugin": "rdma_shared", "sriovDevicePlugin": "sriov"}
VENDOR_NICS = {"feature.node.kubernetes.io/pci-15b3.present": "true"}
VENDOR_GPUS = {"feature.node.kubernetes.io/pci-10de.present": "true"}
"""Labels of nodes with a NIC, and with a GPU, of the vendor, as NFD sets them with the operator's configuration."""


@dataclass(frozen=True)
class Policy:
    """A policy in the current shape. ``peer_memory`` is the retired ``nvPeerDriver``, which is work of the hosts."""

    kind: str
    name: str
    spec: dict[str, Any]
    source: str
    place: Place
    namespace: str = ""
    peer_memory: dict[str, Any] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)

    def at(self, section: str) -> Place:
        """Return where a section stands, under the name it was given."""
        return self.place.at(*self.renamed.get(section, section).split("."))

    def as_spec(self) -> dict[str, Any]:
        """Return the policy as a FabricSpec holds it."""
        return {"name": self.name, "spec": self.spec, "source": self.source}

    def resources(self) -> dict[str, list[str]]:
        """Return the extended resources of each device plugin section with a valid configuration."""
        found = {}
        for section, kind in PLUGIN_KINDS.items():
            config = plugin_config(self.spec, section)
            if config is not None:
                found[section] = devplugin.resource_names(kind, config)
        return found


def read_policy(resource: Resource) -> Policy:
    """Check one NicClusterPolicy or NicNodePolicy and bring it to the current shape."""
    place = resource.spec_place
    if resource.spec is None:
        place.notice("is empty: the policy asks for nothing")
    spec = MODELS[resource.kind].read(resource.spec, place)
    if resource.kind == "NicClusterPolicy" and resource.name not in ("", POLICY_NAME):
        hint = f"rename it to {POLICY_NAME} if an operator shall read it too"
        resource.place.at("metadata", "name").notice("is a name that today's operator ignores", hint)
    peer_memory = spec.pop("nvPeerDriver", None)
    spec.pop("psp", None)
    policy = Policy(
        kind=resource.kind,
        name=resource.name,
        spec=spec,
        source=resource.source,
        place=place,
        namespace=resource.namespace,
        peer_memory=peer_memory,
        renamed=_rename_device_plugin(spec, place),
    )
    _remark(policy)
    return policy


def _rename_device_plugin(spec: dict[str, Any], place: Place) -> dict[str, str]:
    """Move the section ``devicePlugin`` of releases before v0.4.0 to its current name; return new name to old."""
    retired = spec.pop("devicePlugin", None)
    if retired is None:
        return {}
    if "rdmaSharedDevicePlugin" in spec:
        place.at("devicePlugin").violation("stands beside its successor rdmaSharedDevicePlugin", "keep one of them")
    spec["rdmaSharedDevicePlugin"] = retired
    return {"rdmaSharedDevicePlugin": "devicePlugin"}


def _remark(policy: Policy) -> None:
    """Say which parts of an image come from the bill of materials, and what is odd about plugin configurations."""
    spec = policy.spec
    defaults = spec.get("global") or {}
    for section, component in SECTION_COMPONENTS.items():
        value = _section(spec, section)
        if not value:
            continue
        missing = [part for part in IMAGE_PARTS if not value.get(part) and not defaults.get(part)]
        if missing:
            used = ", ".join(default_image(component)[part] for part in missing)
            policy.at(section).notice(f"names no {' and no '.join(missing)}", f"the bill of materials says {used}")
    for section, kind in PLUGIN_KINDS.items():
        config = plugin_config(spec, section)
        if config is not None:
            for remark in devplugin.remarks(kind, config):
                policy.at(section).at("config").inside(remark.path).notice(remark.problem, remark.hint)
        elif section in spec and not str(spec[section].get("config") or "").strip():
            policy.at(section).violation("has no config: the plugin would offer no resource", "name its resources")


def plugin_config(spec: Mapping[str, Any], section: str) -> dict[str, Any] | None:
    """Return the configuration of a device plugin section; None when there is none or it is invalid."""
    given = (spec.get(section) or {}).get("config")
    if not given:
        return None
    config, problems = devplugin.CHECKS[PLUGIN_KINDS[section]](given)
    return None if problems else config


def _section(spec: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    value: Any = spec
    for part in path.split("."):
        value = (value or {}).get(part)
    return value or {}


def check_between(cluster: Policy | None, nodes: Sequence[Policy]) -> None:
    """Hold the policies against each other: sections given twice, selectors that meet, resources offered twice."""
    if cluster is not None:
        for policy in nodes:
            for section in EXCLUSIVE_SECTIONS:
                if section in policy.spec and section in cluster.spec:
                    hint = f"{cluster.source} has it too: keep it in the cluster's policy or in node policies"
                    policy.at(section).violation(f"`{section}` is given for the cluster and for nodes", hint)
    for one, other in combinations(nodes, 2):
        _check_selectors(one, other)
    for policy in ([cluster] if cluster else []) + list(nodes):
        _check_resources(policy)


def _check_selectors(one: Policy, other: Policy) -> None:
    """Refuse two node policies where every node of one is a node of the other; mention those that may meet."""
    left, right = one.spec.get("nodeSelector") or {}, other.spec.get("nodeSelector") or {}
    place = other.place.at("nodeSelector")
    if left.items() <= right.items() or right.items() <= left.items():
        hint = f"{one.source} ({one.name}) selects them too: a node obeys one node policy at most"
        place.violation("selects nodes that another node policy selects", hint)
    elif not any(right.get(key, value) != value for key, value in left.items()):
        place.notice(f"may select nodes that {one.name} selects too", "set different values of one label")


def _check_resources(policy: Policy) -> None:
    owners: dict[str, str] = {}
    for section, names in policy.resources().items():
        for name in names:
            if owners.setdefault(name, section) != section:
                hint = f"{owners[name]} offers it already; kubelet takes each resource from one plugin"
                policy.at(section).at("config").violation(f"offers {name}, which another plugin offers", hint)


def conflicting_modes(cluster: Policy | None, hosts: Mapping[str, Mapping[str, Any]]) -> list[Violation]:
    """Return what hosts ask of RDMA that the shared device plugin of every node does not start with.

    ``hosts`` are the desired states by inventory name. A node affinity may keep the plugin off a host.
    """
    if cluster is None or not cluster.spec.get("rdmaSharedDevicePlugin") or cluster.spec.get("nodeAffinity"):
        return []
    problem = "is exclusive, and the RDMA shared device plugin (rdmaSharedDevicePlugin) does not start on such a host"
    hint = "use shared, or the SR-IOV device plugin; or keep the policy off this host with nodeAffinity"
    return [
        Violation(f"host {one_line(host)}: rdma_fabric_rdma_mode", "", problem, hint)
        for host, desired in hosts.items()
        if desired.get("rdma_mode") == "exclusive"
    ]


def host_requests(policy: Policy) -> list[dict[str, Any]]:
    """Return what a policy asks of hosts: the driver and the peer memory module, with the labels of the nodes meant."""
    selector = {**_affinity_labels(policy), **(policy.spec.get("nodeSelector") or {}), **VENDOR_NICS}
    request = {"source": f"{policy.kind}/{policy.name}", "driver": None, "peer_memory": None}
    driver, found = policy.spec.get("ofedDriver"), []
    if driver is not None:
        found.append({**request, "node_selector": selector, "driver": driver})
    if policy.peer_memory is not None:
        wanted = {**selector, **VENDOR_GPUS}
        found.append({**request, "node_selector": wanted, "peer_memory": policy.peer_memory})
    return found


def _affinity_labels(policy: Policy) -> dict[str, str]:
    """Return the required node affinity as labels; note an affinity that labels cannot express."""
    affinity = policy.spec.get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    if not terms:
        return {}
    labels: dict[str, str] = {}
    simple = len(terms) == 1 and not terms[0].get("matchFields")
    for requirement in terms[0].get("matchExpressions") or []:
        values = requirement.get("values") or []
        if requirement.get("operator") == "In" and len(values) == 1:
            labels[requirement["key"]] = values[0]
        else:
            simple = False
    asks_hosts = "ofedDriver" in policy.spec or policy.peer_memory is not None
    if asks_hosts and not simple:
        hint = f"the driver is planned on every host with the labels {shown(json.dumps(labels))}; use nodeSelector"
        policy.place.at("nodeAffinity").notice("cannot be applied to hosts as it is", hint)
    return labels
