# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a FabricSpec can't be rendered, or is rendered and will surprise. Private to this collection: it may change.

The loader has judged the inputs one by one, with lines, and said what is remarkable about each. Here the spec is judged
as a whole, also when it was written by hand.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.basis.images import (
    SECTION_COMPONENTS,
    effective_version,
    older_than,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.basis.jsontext import Problem, nearest
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.basis.objects import Object
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.components import multus, nfd, whereabouts
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rules import devplugin, nad
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Notice, Violation

PLACING = ("nodeAffinity", "tolerations", "deploymentNodeAffinity", "deploymentTolerations", "nodeSelector")
HOST_SECTIONS = ("ofedDriver", "nvPeerDriver")
RENDERED_SECTIONS = ("rdmaSharedDevicePlugin", "sriovDevicePlugin", "secondaryNetwork")
SECONDARY_SECTIONS = ("multus", "cniPlugins", "ipamPlugin", "ipoib")
UNSUPPORTED_SECTIONS = (
    "ibKubernetes",
    "nvIpam",
    "nicFeatureDiscovery",
    "docaTelemetryService",
    "nicConfigurationOperator",
    "spectrumXOperator",
)
PLUGIN_SECTIONS = {"rdmaSharedDevicePlugin": "rdma_shared", "sriovDevicePlugin": "sriov"}

_CONTAINERS = {
    "rdmaSharedDevicePlugin": ("rdma-shared-dp",),
    "sriovDevicePlugin": ("kube-sriovdp",),
    "secondaryNetwork.cniPlugins": ("cni-plugins",),
    "secondaryNetwork.ipamPlugin": ("whereabouts", "whereabouts-reconciler", "whereabouts-controller"),
    "secondaryNetwork.ipoib": ("ipoib-cni",),
    "secondaryNetwork.multus": ("kube-multus",),
}


class Review(NamedTuple):
    """The verdict on a spec: with violations nothing is rendered."""

    violations: list[Violation]
    notices: list[Notice]


def review(spec: Object) -> Review:
    """Return everything that is wrong with, or remarkable about, the cluster side of a FabricSpec."""
    found = Review([], [])
    policies = [("NicClusterPolicy", spec["cluster_policy"])] if spec.get("cluster_policy") else []
    policies += [("NicNodePolicy", policy) for policy in spec.get("node_policies") or []]
    for kind, policy in policies:
        _review_policy(found, kind, policy, spec.get("settings") or {})
    _review_node_policies(found, spec)
    _review_nfd(found, spec)
    for network in spec.get("networks") or []:
        _refuse(found, network["source"], f"{network['kind']}/{network['name']} spec", nad.check_network(network))
    for attachment in spec.get("attachments") or []:
        path = f"{nad.KIND}/{attachment['name']} spec.config"
        _refuse(found, attachment["source"], path, nad.check_attachment(attachment.get("config", "")))
    if not found.violations:
        _review_attachments(found, spec)
    return found


def attachments_of(spec: Object) -> list[tuple[str, nad.Attachment]]:
    """Return (source, attachment) of every network and given attachment of a valid spec."""
    found = []
    for network in spec.get("networks") or []:
        rendered = nad.network_attachment(network)
        found.append((network["source"], _attachment(f"{network['kind']}/{network['name']}", rendered)))
    for given in spec.get("attachments") or []:
        rendered = nad.given_attachment(given)
        name = f"{nad.KIND} {rendered['metadata']['namespace']}/{given['name']}"
        found.append((given["source"], _attachment(name, rendered)))
    return found


def _attachment(where: str, rendered: Object) -> nad.Attachment:
    metadata = rendered["metadata"]
    config = (rendered.get("spec") or {}).get("config", "")
    return nad.Attachment(where, metadata["name"], config, metadata.get("annotations") or {})


def _review_policy(found: Review, kind: str, policy: Object, settings: Object) -> None:
    spec, source = policy["spec"], policy["source"]
    known = (*PLACING, *HOST_SECTIONS, *RENDERED_SECTIONS, *UNSUPPORTED_SECTIONS, "global", "labels", "annotations")
    for name in spec:
        if name in UNSUPPORTED_SECTIONS and spec[name] is not None:
            hint = "take it out, or keep running that component yourself"
            found.violations.append(Violation(source, f"spec.{name}", f"{name} is not supported yet", hint))
        elif name not in known:
            found.violations.append(Violation(source, f"spec.{name}", "is not a known field", nearest(name, known)))
    for name in spec.get("secondaryNetwork") or {}:
        if name not in SECONDARY_SECTIONS:
            path = f"spec.secondaryNetwork.{name}"
            found.violations.append(Violation(source, path, "is not a known field", nearest(name, SECONDARY_SECTIONS)))
    for name, plugin in PLUGIN_SECTIONS.items():
        if isinstance(spec.get(name), dict):
            _review_plugin(found, f"{kind}/{policy['name']}", source, (name, plugin, spec[name]))
    for name, containers in _CONTAINERS.items():
        section = _section(spec, name)
        if section is not None:
            _review_containers(found, source, f"spec.{name}", section, containers)
            version = effective_version(SECTION_COMPONENTS[name], section, spec.get("global") or {}, settings)
            _review_version(found, source, name, version)


def _review_plugin(found: Review, owner: str, source: str, section: tuple[str, str, Object]) -> None:
    name, plugin, given = section
    path = f"{owner} spec.{name}.config"
    if not given.get("config"):
        hint = "the plugin does not start without; name the resource and its selectors"
        found.violations.append(Violation(source, f"spec.{name}.config", "is missing", hint))
        return
    _refuse(found, source, path, devplugin.CHECKS[plugin](given["config"])[1])


def _review_containers(found: Review, source: str, path: str, section: Object, containers: tuple[str, ...]) -> None:
    for index, entry in enumerate(section.get("containerResources") or []):
        if entry.get("name") not in containers:
            problem = f"{entry.get('name')!r} is no container of this component"
            where = f"{path}.containerResources[{index}].name"
            found.violations.append(Violation(source, where, problem, f"known: {', '.join(containers)}"))


def _review_version(found: Review, source: str, name: str, version: str) -> None:
    path = f"spec.{name}.version"
    if name == whereabouts.SECTION and older_than(version, whereabouts.FIRST_SUPPORTED):
        problem = f"whereabouts {version} has no control loop, which cleans up leftover addresses"
        found.violations.append(Violation(source, path, problem, "use v0.5.3 or newer"))
    if name == multus.SECTION and older_than(version, multus.FIRST_THIN_ENTRYPOINT):
        problem = f"multus {version} never renews the token in its kubeconfig"
        found.notices.append(Notice(source, path, problem, "use v4.1.0 or newer"))
    elif name == multus.SECTION and older_than(version, multus.FIRST_PAUSING_WATCH):
        problem = f"multus {version} watches its token without a pause and so uses all CPU it is allowed"
        found.notices.append(Notice(source, path, problem, "use v4.1.0 or newer"))


def _review_node_policies(found: Review, spec: Object) -> None:
    cluster = (spec.get("cluster_policy") or {}).get("spec") or {}
    for policy in spec.get("node_policies") or []:
        source = policy["source"]
        if len(policy["name"]) > 30:
            problem = f"{policy['name']!r} is longer than 30 characters"
            found.violations.append(Violation(source, "metadata.name", problem, "it becomes part of other names"))
        for name in (*PLUGIN_SECTIONS, "ofedDriver"):
            if policy["spec"].get(name) and cluster.get(name):
                problem = f"is also in the NicClusterPolicy: two {name} would meet on one node"
                found.violations.append(Violation(source, f"spec.{name}", problem, "keep it in one of them"))


def _review_nfd(found: Review, spec: Object) -> None:
    settings = spec.get("settings") or {}
    version = effective_version(nfd.COMPONENT, {}, {}, settings)
    if settings.get("nfd") and older_than(version, nfd.FIRST_SUPPORTED):
        problem = f"node-feature-discovery {version} is older than the objects rendered for it"
        found.violations.append(Violation("settings", "image_overrides.nfd.version", problem, "use v0.17.0 or newer"))


def _review_attachments(found: Review, spec: Object) -> None:
    pairs = attachments_of(spec)
    sources = {attachment.where: source for source, attachment in pairs}
    for where, problem in nad.check_between([attachment for _source, attachment in pairs]):
        _refuse(found, sources[where], f"{where} config", [problem])
    section = _section((spec.get("cluster_policy") or {}).get("spec") or {}, whereabouts.SECTION)
    version = ""
    if section is not None:
        given = spec["cluster_policy"]["spec"].get("global") or {}
        version = effective_version(whereabouts.COMPONENT, section, given, spec.get("settings") or {})
    for source, attachment in pairs:
        path = f"{attachment.where} config"
        if not attachment.where.startswith(nad.KIND):
            remarks = nad.attachment_remarks(attachment.config, attachment.annotations)
            found.notices.extend(_findings(Notice, source, path, remarks))
        if version and nad.wants_node_slices(attachment.config) and not whereabouts.has_node_slices(version):
            text = f"whereabouts {version} knows no node slices"
            hint = "use v0.9.0 or newer, or drop node_slice_size"
            found.violations.append(Violation(source, f"{path}.ipam.node_slice_size", text, hint))


def _section(spec: Object, name: str) -> Object | None:
    node: Any = spec
    for step in name.split("."):
        node = node.get(step) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else None


def _refuse(found: Review, source: str, path: str, problems: Iterable[Problem]) -> None:
    found.violations.extend(_findings(Violation, source, path, problems))


def _findings(kind: Callable[..., Any], source: str, path: str, problems: Iterable[Problem]) -> list[Any]:
    return [kind(source, f"{path}.{each.path}" if each.path else path, each.problem, each.hint) for each in problems]
