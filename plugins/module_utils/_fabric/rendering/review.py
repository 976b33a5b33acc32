# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a FabricSpec can't be rendered.

The loader has judged the inputs, with lines, and said what is remarkable about each. Here the spec is judged again by
the same rules, as it may have been written by hand.
"""

from __future__ import annotations

from typing import Any, Iterable

from ansible_collections.rdma.fabric.plugins.module_utils._violations import UNKNOWN_FIELD, Violation, nearest

from ..checks import (
    devplugin,
    doca_telemetry,
    driver_container,
    ib_kubernetes,
    multus,
    nad,
    nic_configuration,
    sriov_policies,
)
from ..checks.nv_ipam import POOL_KINDS, check_pool, claims_of, config_problems
from ..checks.versions import node_slice_problems, pool_problems, reads_pool_objects, version_problems, webhook_problems
from ..common.images import SECTIONS, effective_version
from ..common.jsontext import Problem
from ..common.objects import Object
from .components import nfd, whereabouts

PLACING = ("nodeAffinity", "tolerations", "deploymentNodeAffinity", "deploymentTolerations", "nodeSelector")
_WITHOUT_OBJECTS = ("global", "labels", "annotations", "nvPeerDriver")
PLUGIN_SECTIONS = {"rdmaSharedDevicePlugin": "rdma_shared", "sriovDevicePlugin": "sriov"}


def review(spec: Object) -> list[Violation]:
    """Return everything that is wrong with the cluster objects of a FabricSpec; with violations nothing is rendered."""
    found: list[Violation] = []
    policies = [("NicClusterPolicy", spec["cluster_policy"])] if spec.get("cluster_policy") else []
    policies += [("NicNodePolicy", policy) for policy in spec.get("node_policies") or []]
    for kind, policy in policies:
        _review_policy(found, kind, policy, spec.get("settings") or {})
    _review_driver_container(found, spec)
    _review_node_policies(found, spec)
    _review_nfd(found, spec)
    for policy in spec.get("function_policies") or []:
        path = f"SriovNetworkNodePolicy/{policy['name']} spec"
        _refuse(found, policy["source"], path, sriov_policies.check(policy["spec"]))
    for pool in spec.get("pools") or []:
        _review_pool(found, pool)
    for network in spec.get("networks") or []:
        _refuse(found, network["source"], f"{network['kind']}/{network['name']} spec", nad.check_network(network))
    for attachment in spec.get("attachments") or []:
        path = f"{nad.KIND}/{attachment['name']} spec.config"
        _refuse(found, attachment["source"], path, nad.check_attachment(attachment.get("config", "")))
    if not found:
        _review_old_nv_ipam(found, spec)
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
    key = f"{metadata['namespace']}/{metadata['name']}"
    return nad.Attachment(where, metadata["name"], config, metadata.get("annotations") or {}, key)


def _review_policy(found: list[Violation], kind: str, policy: Object, settings: Object) -> None:
    spec, source = policy["spec"], policy["source"]
    known = (*PLACING, *_WITHOUT_OBJECTS, *(name.partition(".")[0] for name in SECTIONS))
    for name in spec:
        if name not in known:
            found.append(Violation(source, f"spec.{name}", UNKNOWN_FIELD, nearest(name, known)))
    inner = [name.partition(".")[2] for name in SECTIONS if name.startswith("secondaryNetwork.")]
    for name in spec.get("secondaryNetwork") or {}:
        if name not in inner:
            found.append(Violation(source, f"spec.secondaryNetwork.{name}", UNKNOWN_FIELD, nearest(name, inner)))
    for name, plugin in PLUGIN_SECTIONS.items():
        if isinstance(spec.get(name), dict):
            _review_plugin(found, f"{kind}/{policy['name']}", source, (name, plugin, spec[name]))
    _refuse(found, source, "spec.secondaryNetwork.multus.config", multus.check(multus.config_of(spec)))
    manager = _section(spec, "ibKubernetes")
    if manager is not None:
        _refuse(found, source, "spec.ibKubernetes", [*ib_kubernetes.check(manager), *ib_kubernetes.lacking(manager)])
    configured = _section(spec, nic_configuration.SECTION) or {}
    _refuse(found, source, f"spec.{nic_configuration.SECTION}", nic_configuration.check(configured))
    _refuse(found, source, "spec.docaTelemetryService", doca_telemetry.check(spec.get("docaTelemetryService") or {}))
    for name, (component, containers) in SECTIONS.items():
        section = _section(spec, name)
        if section is not None and containers:
            _review_containers(found, source, f"spec.{name}", section, containers)
            version = effective_version(component, section, spec.get("global") or {}, settings)
            _refuse(found, source, f"spec.{name}.version", version_problems(component, version))


def _review_plugin(found: list[Violation], owner: str, source: str, section: tuple[str, str, Object]) -> None:
    name, plugin, given = section
    path = f"{owner} spec.{name}.config"
    if not given.get("config"):
        hint = "the plugin does not start without; name the resource and its selectors"
        found.append(Violation(source, f"spec.{name}.config", "is missing", hint))
        return
    _refuse(found, source, path, devplugin.CHECKS[plugin](given["config"])[1])


def _review_containers(
    found: list[Violation], source: str, path: str, section: Object, containers: tuple[str, ...]
) -> None:
    for index, entry in enumerate(section.get("containerResources") or []):
        if entry.get("name") not in containers:
            problem = f"{entry.get('name')!r} is not a container of this component"
            where = f"{path}.containerResources[{index}].name"
            found.append(Violation(source, where, problem, f"known: {', '.join(containers)}"))


def _review_pool(found: list[Violation], pool: Object) -> None:
    where = f"{pool['kind']}/{pool['name']}"
    if pool["kind"] not in POOL_KINDS:
        _refuse(found, pool["source"], where, [Problem("kind", "is not a pool", f"one of {', '.join(POOL_KINDS)}")])
        return
    _refuse(found, pool["source"], f"{where} spec", check_pool(pool["kind"], pool["spec"]))


def _review_old_nv_ipam(found: list[Violation], spec: Object) -> None:
    """Refuse pools that do not fit into the ConfigMap of a release without pool objects."""
    policy = (spec.get("cluster_policy") or {}).get("spec") or {}
    section = _section(policy, "nvIpam")
    if section is None:
        return
    version = effective_version("nv-ipam", section, policy.get("global") or {}, spec.get("settings") or {})
    if reads_pool_objects(version):
        return
    if section.get("enableWebhook"):
        _refuse(found, spec["cluster_policy"]["source"], "spec.nvIpam.enableWebhook", webhook_problems(version))
    pools = [(pool, f"{pool['kind']}/{pool['name']} spec") for pool in spec.get("pools") or []]
    for pool, where in pools:
        _refuse(found, pool["source"], where, pool_problems(pool["kind"], pool["spec"], version))
    ip_pools = [each for each in pools if each[0]["kind"] == "IPPool"]
    for index, problem in config_problems([pool["spec"] for pool, _where in ip_pools], version):
        pool, where = ip_pools[index]
        _refuse(found, pool["source"], where, [problem])


def _review_node_policies(found: list[Violation], spec: Object) -> None:
    cluster = (spec.get("cluster_policy") or {}).get("spec") or {}
    for policy in spec.get("node_policies") or []:
        source = policy["source"]
        if len(policy["name"]) > 30:
            problem = f"{policy['name']!r} is longer than 30 characters"
            found.append(Violation(source, "metadata.name", problem, "it becomes part of other names"))
        for name in (*PLUGIN_SECTIONS, "ofedDriver"):
            if policy["spec"].get(name) and cluster.get(name):
                problem = f"is also in the NicClusterPolicy: two {name} would meet on one node"
                found.append(Violation(source, f"spec.{name}", problem, "keep it in one of them"))


def _review_driver_container(found: list[Violation], spec: Object) -> None:
    """Refuse what the driver's container can't be made of."""
    settings = spec.get("settings") or {}
    if not driver_container.in_container(settings):
        return
    _refuse(
        found, "settings", driver_container.NODES, driver_container.check_groups(settings.get("driver_nodes") or [])
    )
    config_maps = driver_container.data_of(spec.get("objects") or [], spec.get("namespace") or "")
    groups = driver_container.nodes_of(spec)
    for policy in [
        *([spec["cluster_policy"]] if spec.get("cluster_policy") else []),
        *(spec.get("node_policies") or []),
    ]:
        section = _section(policy["spec"], driver_container.SECTION)
        if section is not None:
            where = f"spec.{driver_container.SECTION}"
            version = effective_version("doca-driver", section, policy["spec"].get("global") or {}, settings)
            wrong = driver_container.check(section, config_maps)
            _refuse(found, policy["source"], where, wrong)
            _refuse(found, policy["source"], where, driver_container.check_on(section, version, groups, settings))
            _review_containers(found, policy["source"], where, section, driver_container.CONTAINERS)


def _review_nfd(found: list[Violation], spec: Object) -> None:
    settings = spec.get("settings") or {}
    if settings.get("nfd"):
        version = effective_version(nfd.COMPONENT, {}, {}, settings)
        _refuse(found, "settings", "image_overrides.nfd.version", version_problems(nfd.COMPONENT, version))


def _review_attachments(found: list[Violation], spec: Object) -> None:
    pairs = attachments_of(spec)
    sources = {attachment.where: source for source, attachment in pairs}
    pools = claims_of(spec.get("pools") or [])
    asked = nad.asked_addresses(spec.get("objects") or [])
    for where, problem in nad.check_between([attachment for _source, attachment in pairs], pools, asked):
        _refuse(found, sources[where], f"{where} config", [problem])
    section = _section((spec.get("cluster_policy") or {}).get("spec") or {}, whereabouts.SECTION)
    version = ""
    if section is not None:
        given = spec["cluster_policy"]["spec"].get("global") or {}
        version = effective_version(whereabouts.COMPONENT, section, given, spec.get("settings") or {})
    for source, attachment in pairs:
        if version and nad.wants_node_slices(attachment.config):
            _refuse(found, source, f"{attachment.where} config", node_slice_problems(version, "ipam"))


def _section(spec: Object, name: str) -> Object | None:
    node: Any = spec
    for step in name.split("."):
        node = node.get(step) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else None


def _refuse(found: list[Violation], source: str, path: str, problems: Iterable[Problem]) -> None:
    for each in problems:
        found.append(Violation(source, f"{path}.{each.path}" if each.path else path, each.problem, each.hint))
