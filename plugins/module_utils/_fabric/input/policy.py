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
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._needs import SHARED, SRIOV, modules_of
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation, one_line, shown

from ..checks import devplugin, doca_telemetry, ib_kubernetes, multus, nic_configuration
from ..checks.devplugin import remarks
from ..checks.driver_container import in_container
from ..checks.versions import sriov_resource_problems, version_problems, version_remarks
from ..common.distributions import USUAL
from ..common.features import FEATURES, GPU_LABEL, NIC_LABEL
from ..common.findings import Place
from ..common.images import SECTIONS, effective_image, effective_version, inherited_image
from .driver import container_request, drains_of, driver_request, remark_container, remark_driver, remark_upgrades
from .models import CONTAINER_MODELS, MODELS, POLICY_NAME
from .pools import note
from .resources import Resource

EXCLUSIVE_SECTIONS = ("ofedDriver", "rdmaSharedDevicePlugin", "sriovDevicePlugin")
"""Sections that may stand in the cluster's policy or in node policies, not in both."""

_AROUND_COMPONENTS = (
    "global",
    "nodeSelector",
    "nodeAffinity",
    "tolerations",
    "deploymentNodeAffinity",
    "deploymentTolerations",
    "labels",
    "annotations",
    "psp",
)
"""What a policy says of the components that it names, and is nothing without one."""

TELEMETRY = "docaTelemetryService"
IMAGE_PARTS = ("repository", "image", "version")
PLUGIN_KINDS = {"rdmaSharedDevicePlugin": "rdma_shared", "sriovDevicePlugin": "sriov"}
VENDOR_NICS = {NIC_LABEL: "true"}
# What hosts are known to have or not to have without being told (the host core's labels).
_KNOWN_OF_HOSTS = frozenset(
    [NIC_LABEL, GPU_LABEL, *(f"kubernetes.io/{name}" for name in ("arch", "hostname", "os"))]
    + [f"{FEATURES}{name}" for name in ("kernel-version.full", "system-os_release.ID", "system-os_release.VERSION_ID")]
)
VENDOR_GPUS = {GPU_LABEL: "true"}
"""Labels of nodes with a NIC, and with a GPU, of the vendor, as NFD sets them with the operator's configuration."""


@dataclass(frozen=True)
class Policy:
    """A policy in the current shape. ``peer_memory`` is the retired ``nvPeerDriver``, which is work of the hosts.

    ``renamed`` maps sections to the retired names they were given under, ``places`` those that stand elsewhere (in Helm
    values) to where.
    """

    kind: str
    name: str
    spec: dict[str, Any]
    source: str
    place: Place
    namespace: str = ""
    peer_memory: dict[str, Any] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)

    def at(self, section: str) -> Place:
        """Return where a section stands, under the name it was given."""
        owner, _dot, part = section.partition(".")
        if section in self.places:
            return self.places[section]
        if owner in self.places:
            return self.places[owner].at(part)
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


def read_policy(resource: Resource, *, container: bool) -> Policy:
    """Check one NicClusterPolicy or NicNodePolicy and bring it to the current shape.

    ``container``: its driver is a container, not packages on the hosts.
    """
    place = resource.spec_place
    if not _asks_for_something(resource.spec):
        place.notice("names no component: the policy asks for nothing", "add the sections of those that are meant")
    spec = (CONTAINER_MODELS if container else MODELS)[resource.kind].read(resource.spec, place)
    if resource.kind == "NicClusterPolicy" and resource.name not in ("", POLICY_NAME):
        hint = f"rename it to {POLICY_NAME} if an operator is to read it too"
        resource.place.at("metadata", "name").notice("is a name that today's operator ignores", hint)
    peer_memory = spec.pop("nvPeerDriver", None)
    spec.pop("psp", None)
    return Policy(
        kind=resource.kind,
        name=resource.name,
        spec=spec,
        source=resource.source,
        place=place,
        namespace=resource.namespace,
        peer_memory=peer_memory,
        renamed=_rename_device_plugin(spec, place),
    )


def _asks_for_something(spec: Any) -> bool:
    """Return whether a spec names a component; what is not a mapping is judged elsewhere."""
    if not isinstance(spec, dict):
        return spec is not None
    given = {name: value for name, value in spec.items() if value is not None and name not in _AROUND_COMPONENTS}
    secondary = given.pop("secondaryNetwork", {})
    return bool(given) or not isinstance(secondary, dict) or any(value is not None for value in secondary.values())


def _judge_multus(policy: Policy, settings: Mapping[str, Any]) -> None:
    """Judge a configuration of Multus of the user's own: every pod of every node depends on it."""
    text = multus.config_of(policy.spec)
    place, problems = policy.at("secondaryNetwork.multus").at("config"), multus.check(text)
    place.violations(problems)
    for odd in [] if problems else multus.remarks(text, settings.get("cni_conf_dir") or USUAL["cni_conf_dir"]):
        place.inside(odd.path).remark(odd)


def _rename_device_plugin(spec: dict[str, Any], place: Place) -> dict[str, str]:
    """Move the section ``devicePlugin`` of releases before v0.4.0 to its current name; return new name to old."""
    retired = spec.pop("devicePlugin", None)
    if retired is None:
        return {}
    if "rdmaSharedDevicePlugin" in spec:
        place.at("devicePlugin").violation(
            "is given together with its successor rdmaSharedDevicePlugin", "keep one of them"
        )
    spec["rdmaSharedDevicePlugin"] = retired
    return {"rdmaSharedDevicePlugin": "devicePlugin"}


def remark(policy: Policy, settings: dict[str, Any]) -> None:
    """Judge versions, say which parts of an image come from elsewhere, and what is odd about configurations."""
    spec = policy.spec
    defaults, overrides = spec.get("global") or {}, settings.get("image_overrides") or {}
    untold: dict[str, str] = {}
    for section, (component, _containers) in SECTIONS.items():
        value = _section(spec, section)
        if value is None:
            continue
        place = policy.at(section)
        told = (value, inherited_image(component, defaults), overrides.get(component) or {})
        chosen = effective_image(component, value, defaults, settings)
        # What has no default either is no part of the bill of materials.
        missing = [part for part in IMAGE_PARTS if chosen[part] and not any(each.get(part) for each in told)]
        if len(missing) == len(IMAGE_PARTS):
            untold[policy.renamed.get(section, section)] = "{repository}/{image}:{version}".format_map(chosen)
        elif missing:
            used = ", ".join(chosen[part] for part in missing)
            place.notice(f"names no {' and no '.join(missing)}", f"the bill of materials says {used}")
        version = effective_version(component, value, defaults, settings)
        owner = place.at("version") if value.get("version") else place
        owner.violations(version_problems(component, version))
        for odd in version_remarks(component, version):
            owner.remark(odd)
    if untold:
        hint = f"the bill of materials says {', '.join(untold.values())}"
        policy.place.notice(f"names no image of {', '.join(untold)}", hint)
    if nic_configuration.SECTION in spec:
        note(nic_configuration.check(spec[nic_configuration.SECTION]), policy.at(nic_configuration.SECTION))
    _judge_multus(policy, settings)
    if "ibKubernetes" in spec:
        note(ib_kubernetes.check(spec["ibKubernetes"]), policy.at("ibKubernetes"))
    for odd in doca_telemetry.inherited_problems(spec[TELEMETRY], defaults) if TELEMETRY in spec else ():
        policy.at(TELEMETRY).remark(odd)
    if "ofedDriver" in spec:
        remarked = remark_container if in_container(settings) else remark_driver
        remarked(spec["ofedDriver"], defaults, policy.at("ofedDriver"), policy.place)
        remark_upgrades(
            spec["ofedDriver"], policy.at("ofedDriver").at("upgradePolicy"), container=in_container(settings)
        )
    for section, kind in PLUGIN_KINDS.items():
        if section in spec:
            _remark_plugin(policy, section, kind, settings)


def _remark_plugin(policy: Policy, section: str, kind: str, settings: dict[str, Any]) -> None:
    """Judge the configuration of a device plugin by the release that will read it, and say what is odd about it."""
    value, place = policy.spec[section], policy.at(section).at("config")
    config = plugin_config(policy.spec, section)
    if config is None:
        if not str(value.get("config") or "").strip():
            policies = ", or give the SriovNetworkNodePolicies that do beside it" if kind == "sriov" else ""
            hint = f"name its resources{policies}"
            policy.at(section).violation("has no config: the plugin would offer no resource", hint)
        return
    if kind == "sriov":
        version = effective_version(SECTIONS[section].component, value, policy.spec.get("global") or {}, settings)
        for flaw in sriov_resource_problems(config, version):
            place.inside(flaw.path).violation(flaw.problem, flaw.hint)
    for remark in remarks(kind, config):
        place.inside(remark.path).remark(remark)


def plugin_config(spec: Mapping[str, Any], section: str) -> dict[str, Any] | None:
    """Return the configuration of a device plugin section; None when there is none or it is invalid."""
    given = (spec.get(section) or {}).get("config")
    if not given:
        return None
    config, problems = devplugin.CHECKS[PLUGIN_KINDS[section]](given)
    return None if problems else config


def _section(spec: Mapping[str, Any], path: str) -> dict[str, Any] | None:
    value: Any = spec
    for part in path.split("."):
        value = (value or {}).get(part)
    return value if isinstance(value, dict) else None


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
        hint = f"{one.source} ({one.name}) selects them too: a node follows one node policy at most"
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


def conflicting_modes(cluster: Mapping[str, Any] | None, hosts: Mapping[str, Mapping[str, Any]]) -> list[Violation]:
    """Return what hosts ask of RDMA that the shared device plugin of every node does not start with.

    ``cluster`` is the spec of the cluster's policy, ``hosts`` are the desired states by inventory name. A node affinity
    may keep the plugin off a host.
    """
    if cluster is None or not cluster.get("rdmaSharedDevicePlugin") or cluster.get("nodeAffinity"):
        return []
    problem = "is exclusive, and the RDMA shared device plugin (rdmaSharedDevicePlugin) does not start on such a host"
    hint = "use shared, or the SR-IOV device plugin; or keep the policy off this host with nodeAffinity"
    return [
        Violation(f"host {one_line(host)}: rdma_fabric_netns_mode", "", problem, hint)
        for host, desired in hosts.items()
        if desired.get("netns_mode") == "exclusive"
    ]


def all_host_requests(policies: Sequence[Policy], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what all policies ask of hosts."""
    return [request for policy in policies for request in host_requests(policy, settings)]


def all_rollouts(policies: Sequence[Policy]) -> list[dict[str, Any]]:
    """Return what the policies ask of those who interrupt nodes, with the labels of the nodes meant."""
    found = []
    for policy in policies:
        drains = drains_of(policy.spec.get("ofedDriver") or {})
        if drains is not None:
            selector = driver_selector(policy)
            source = f"{policy.kind}/{policy.name}"
            found.append({"source": source, "node_selector": selector, **driver_terms(policy), **drains})
    return found


def driver_selector(policy: Policy) -> dict[str, str]:
    """Return the labels of the nodes whose driver a policy is about."""
    return {**affinity_labels(policy), **(policy.spec.get("nodeSelector") or {}), **VENDOR_NICS}


def host_requests(policy: Policy, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a policy asks of hosts: the driver and the peer memory module, with the labels of the nodes meant."""
    remark_affinity(policy)
    selector = driver_selector(policy)
    request: dict[str, Any] = {"source": f"{policy.kind}/{policy.name}", "driver": None, "peer_memory": None}
    request.update(driver_terms(policy))
    section, found = policy.spec.get("ofedDriver"), []
    if section is not None:
        requested = container_request if in_container(settings) else driver_request
        driver = requested(section, policy.spec.get("global") or {}, settings)
        found.append({**request, "node_selector": selector, "driver": driver})
    if policy.peer_memory is not None:
        wanted = {**selector, **VENDOR_GPUS}
        found.append({**request, "node_selector": wanted, "peer_memory": policy.peer_memory})
    return found


def module_requests(policies: Sequence[Policy]) -> list[dict[str, Any]]:
    """Return the kernel modules that hosts need for device plugins of the policies, with the labels of the nodes."""
    return [
        {**request, "node_selector": driver_selector(policy), **driver_terms(policy)}
        for policy in policies
        for request in requests_for(f"{policy.kind}/{policy.name}", _plugins_of(policy))
    ]


def _plugins_of(policy: Policy) -> list[tuple[str, Mapping[str, Any]]]:
    found: list[tuple[str, Mapping[str, Any]]] = []
    if policy.spec.get("rdmaSharedDevicePlugin") is not None:
        found.append((SHARED, {}))
    config = plugin_config(policy.spec, "sriovDevicePlugin") or {"resourceList": []}
    for item in config["resourceList"]:
        found += [(SRIOV, each) for _path, each in devplugin.selector_groups("", item["selectors"])]
    return found


def requests_for(source: str, components: Iterable[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return the kernel modules that components with their settings need, as requests of all hosts of a link layer."""
    wanted: dict[str, list[str]] = {}
    for component, given in components:
        for link, modules in modules_of(component, given).items():
            known = wanted.setdefault(link, [])
            known += [name for name in modules if name not in known]
    return [
        {
            "source": source,
            "node_selector": {},
            "driver": None,
            "peer_memory": None,
            "kernel_modules": modules,
            **({"link_layer": link} if link else {}),
        }
        for link, modules in wanted.items()
    ]


def driver_terms(policy: Policy) -> dict[str, list[list[dict[str, Any]]]]:
    """Return ``node_terms`` of what a policy asks: the terms of its required node affinity, where labels can't say it.

    Nothing where it has none, or names nodes (``matchFields``), which hosts do not know themselves by.
    """
    terms = _affinity_terms(policy)
    if not terms or _is_simple(terms) or any(term.get("matchFields") for term in terms):
        return {}
    return {
        "node_terms": [
            [
                {"key": each["key"], "operator": each["operator"], "values": list(each.get("values") or [])}
                for each in term["matchExpressions"]
            ]
            for term in terms
        ]
    }


def affinity_labels(policy: Policy) -> dict[str, str]:
    """Return what of the required node affinity labels can express; nothing where ``driver_terms`` says it."""
    terms = _affinity_terms(policy)
    if not terms or driver_terms(policy):
        return {}
    return {each["key"]: each["values"][0] for each in terms[0].get("matchExpressions") or [] if _is_a_label(each)}


def remark_affinity(policy: Policy) -> None:
    """Note a node affinity that hosts can't decide, or only with labels they are told of, where any are asked."""
    terms = _affinity_terms(policy)
    if not terms or not ("ofedDriver" in policy.spec or policy.peer_memory is not None) or _is_simple(terms):
        return
    place = policy.place.at("nodeAffinity")
    if any(term.get("matchFields") for term in terms):
        labels = shown(json.dumps(affinity_labels(policy)))
        hint = f"the driver is planned on every host with the labels {labels}; use nodeSelector"
        place.notice("cannot be applied to hosts as it is", hint)
        return
    absent = sorted(
        {
            each["key"]
            for term in terms
            for each in term["matchExpressions"]
            if each["operator"] in ("NotIn", "DoesNotExist") and each["key"] not in _KNOWN_OF_HOSTS
        }
    )
    if absent:
        hint = "hosts with such a label know it by rdma_fabric_node_labels alone; without, the driver is planned there"
        place.notice(f"keeps nodes off by the labels {', '.join(absent)}", hint)


def restricts_nodes(policy: Policy) -> bool:
    """Return whether a policy says which nodes it is about."""
    return bool(policy.spec.get("nodeSelector") or _affinity_terms(policy))


def _affinity_terms(policy: Policy) -> list[dict[str, Any]]:
    affinity = policy.spec.get("nodeAffinity") or {}
    terms: list[dict[str, Any]] = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get(
        "nodeSelectorTerms"
    ) or []
    # An empty term matches no node, and so adds none to those of the others.
    return [term for term in terms if term.get("matchExpressions") or term.get("matchFields")]


def _is_simple(terms: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether labels alone say the same as terms of a node affinity."""
    expressions = terms[0].get("matchExpressions") or []
    return len(terms) == 1 and not terms[0].get("matchFields") and all(map(_is_a_label, expressions))


def _is_a_label(requirement: Mapping[str, Any]) -> bool:
    return requirement.get("operator") == "In" and len(requirement.get("values") or []) == 1
