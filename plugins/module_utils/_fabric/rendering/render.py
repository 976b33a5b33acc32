# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A FabricSpec turned into ordered waves of Kubernetes objects.

Same spec, same waves: nothing here reads a clock, a file or a random number, and every list has one order.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

from ..checks import driver_container, nad, sriov_policies
from ..checks.nv_ipam import POOL_KINDS
from ..checks.versions import has_node_slices, reads_pool_objects
from ..common.jsontext import compact, pretty
from ..common.objects import Object, canonical_given
from ..common.openshift import SETTING
from ..common.pods import pods_of
from . import crds, openshift
from .components import nfd, nv_ipam, nv_ipam_config, whereabouts
from .components.cni_plugins import cni_plugins, ipoib_cni, network_cnis
from .components.device_plugins import rdma_shared, sriov
from .components.doca_telemetry import doca_telemetry
from .components.driver_container import driver_container as containers_of_driver
from .components.ib_kubernetes import ib_kubernetes
from .components.multus import multus
from .components.nic_configuration import nic_configuration
from .components.nic_feature_discovery import nic_feature_discovery
from .components.spectrum_x import spectrum_x
from .namespaces import namespaces, unadmitted
from .operator import chart_waves, operator_waves
from .review import attachments_of, review
from .rollout import Rollout, name_hash, tolerating

Wave = Dict[str, Any]

WAVES = ("namespaces", "crds", "rbac", "configs", "workloads", "networks", "objects")
DEFAULT_NAMESPACE = "nvidia-network-operator"
GIVEN = "given"
_WAVE_OF_KIND = {
    "Namespace": "namespaces",
    "CustomResourceDefinition": "crds",
    "ServiceAccount": "rbac",
    "ClusterRole": "rbac",
    "ClusterRoleBinding": "rbac",
    "Role": "rbac",
    "RoleBinding": "rbac",
    "ConfigMap": "configs",
    "NodeFeatureRule": "configs",
    # The webhook answers once its controller has the certificate: what it judges comes in a later wave.
    "Certificate": "configs",
    "Issuer": "configs",
    "PersistentVolumeClaim": "configs",
    "Service": "configs",
    "ValidatingWebhookConfiguration": "workloads",
    "DaemonSet": "workloads",
    "Deployment": "workloads",
    "CronJob": "workloads",
    **dict.fromkeys(POOL_KINDS, "networks"),
    nad.KIND: "networks",
}
_COMPONENTS: list[Callable[[Rollout], list[Object]]] = [
    multus,
    cni_plugins,
    ipoib_cni,
    sriov,
    rdma_shared,
    nic_feature_discovery,
    ib_kubernetes,
    nic_configuration,
    spectrum_x,
]


def render(spec: Object) -> list[Wave]:
    """Return the waves ``[{"name", "objects"}]`` of a FabricSpec, in the order in which they are applied.

    Only waves with objects are returned. With a chart, that is what its operator is given. Raises InvalidInput with
    everything that can't be rendered.
    """
    if spec.get("chart"):
        return _waves(operator_waves(spec, WAVES))
    _refuse(review(spec))
    join_taint = str((spec.get("settings") or {}).get("join_taint") or "")
    rendered = [*tolerating(_components(spec), join_taint), *_networks(spec)]
    given = [canonical_given(each, GIVEN) for each in spec.get("objects") or []]
    own = spec.get("namespace") or DEFAULT_NAMESPACE
    around = namespaces(own, [*rendered, *given], [each for each in given if each["kind"] == "Namespace"])
    if any(each["kind"] == "DaemonSet" for each in rendered):
        _refuse(unadmitted(own, around))
    rendered += around
    _refuse_duplicates(rendered, [each for each in given if each["kind"] != "Namespace"])
    waves: dict[str, list[Object]] = {name: [] for name in WAVES}
    for each in sorted(rendered, key=_sort_key):
        waves[_WAVE_OF_KIND[each["kind"]]].append(each)
    read = _config_maps_of(rendered)
    for each in given:
        if each["kind"] != "Namespace":
            waves["configs" if _identity(each) in read else "objects"].append(each)
    return _waves(waves)


def _config_maps_of(objects: list[Object]) -> set[tuple[str, ...]]:
    """Return the ConfigMaps that pods of the objects read as files: they are there, and as they shall be, before."""
    return {
        ("", "ConfigMap", str(each["metadata"].get("namespace", "")), str(volume["configMap"].get("name", "")))
        for each in objects
        for pod in pods_of(each)
        for volume in pod.get("volumes") or []
        if "configMap" in volume
    }


def with_chart(waves: list[Wave], objects: list[Object]) -> list[Wave]:
    """Return waves that hold what a chart makes as well, before what its operator is given."""
    found = chart_waves(objects, WAVES)
    for wave in waves:
        found[wave["name"]] += wave["objects"]
    return _waves(found)


def _waves(by_name: dict[str, list[Object]]) -> list[Wave]:
    return [{"name": name, "objects": objects} for name, objects in by_name.items() if objects]


def objects_of(waves: list[Wave]) -> list[Object]:
    """Return the objects of all waves in their order."""
    return [each for wave in waves for each in wave["objects"]]


def cluster_rollout(spec: Object) -> Rollout:
    """Return how the components of the cluster's policy are rolled out, without what OpenShift brings."""
    settings = spec.get("settings") or {}
    policy = (spec.get("cluster_policy") or {}).get("spec") or {}
    if settings.get(SETTING):
        policy = openshift.remaining(policy)
    return Rollout(spec.get("namespace") or DEFAULT_NAMESPACE, policy, settings)


def of_node_policies(spec: Object, cluster: Rollout) -> list[Rollout]:
    """Return how the components of each NicNodePolicy are rolled out, with the settings of the cluster's."""
    found = []
    for each in spec.get("node_policies") or []:
        selector = {str(key): str(value) for key, value in (each["spec"].get("nodeSelector") or {}).items()}
        found.append(
            Rollout(cluster.namespace, each["spec"], cluster.settings, suffix=each["name"], node_selector=selector)
        )
    return found


def _components(spec: Object) -> list[Object]:
    cluster = cluster_rollout(spec)
    settings, namespace = cluster.settings, cluster.namespace
    found: list[Object] = []
    policies = ("cluster_policy", "node_policies", "function_policies")
    if settings.get("nfd") and any(spec.get(each) for each in policies):
        found += [*crds.node_feature_discovery(of_0_18=nfd.is_of_0_18(cluster)), *nfd.node_feature_discovery(cluster)]
    groups, config_maps = (
        driver_container.nodes_of(spec),
        driver_container.data_of(spec.get("objects") or [], namespace),
    )
    found += containers_of_driver(cluster, groups, config_maps)
    for component in _COMPONENTS:
        found += component(cluster)
    found += doca_telemetry(cluster, config_maps)
    found += _whereabouts(spec, cluster)
    found += _nv_ipam(spec, cluster)
    for rollout in of_node_policies(spec, cluster):
        found += [*containers_of_driver(rollout, groups, config_maps), *sriov(rollout), *rdma_shared(rollout)]
    found += _functions(spec, namespace, cluster.spec.get("global") or {})
    if cluster.openshift:
        return openshift.admitted(_once(found), namespace)
    if cluster.section("secondaryNetwork.multus") is not None or spec.get("networks") or spec.get("attachments"):
        found.append(crds.network_attachment_definition())
    return _once(found)


def _functions(spec: Object, namespace: str, defaults: Object) -> list[Object]:
    """Return what offers VFs to pods and puts them there.

    That is a device plugin for each group of SriovNetworkNodePolicies, on the nodes that the group selects, and the
    programs of networks. As with the SR-IOV operator, they run whatever taints a node has.
    """
    everywhere = {"global": defaults, "tolerations": [{"operator": "Exists"}]}
    settings = spec.get("settings") or {}
    configs = [nad.network_attachment(network)["spec"]["config"] for network in spec.get("networks") or []]
    found = network_cnis(Rollout(namespace, everywhere, settings), nad.components_of(configs))
    for selector, policies in sriov_policies.by_nodes(spec.get("function_policies") or []):
        section = {"config": pretty(sriov_policies.plugin_config(policies)), **(spec.get("function_plugin") or {})}
        suffix = f"sriov-{name_hash(compact(selector))}"
        plugin = {**everywhere, "sriovDevicePlugin": section}
        found += sriov(Rollout(namespace, plugin, settings, suffix, selector, any_nic=True))
    return found


def _nv_ipam(spec: Object, cluster: Rollout) -> list[Object]:
    if not _reads_pool_objects(cluster):
        return nv_ipam_config.nv_ipam_config(cluster, spec.get("pools") or [])
    objects = nv_ipam.nv_ipam(cluster)
    return [*crds.nv_ipam(), *objects] if objects else []


def _reads_pool_objects(cluster: Rollout) -> bool:
    """Tell whether pools are objects: not where a release of nv-ipam is deployed that reads a ConfigMap."""
    section = cluster.section(nv_ipam.SECTION)
    return section is None or reads_pool_objects(cluster.version(nv_ipam.COMPONENT, section))


def _whereabouts(spec: Object, cluster: Rollout) -> list[Object]:
    section = cluster.section(whereabouts.SECTION)
    if section is None:
        return []
    node_slices = any(nad.wants_node_slices(attachment.config) for _source, attachment in attachments_of(spec))
    with_crd = has_node_slices(cluster.version(whereabouts.COMPONENT, section))
    return [*crds.whereabouts(with_crd), *whereabouts.whereabouts(cluster, node_slices)]


def _networks(spec: Object) -> list[Object]:
    cluster = cluster_rollout(spec)
    pools = (spec.get("pools") or []) if _reads_pool_objects(cluster) else []
    found = [nv_ipam.pool(given, cluster.namespace) for given in pools]
    found += [nad.network_attachment(network) for network in spec.get("networks") or []]
    return found + [nad.given_attachment(attachment) for attachment in spec.get("attachments") or []]


def _once(objects: list[Object]) -> list[Object]:
    """Return the objects without repetition: several policies share a plugin's ServiceAccount."""
    unique: list[Object] = []
    for each in objects:
        if each not in unique:
            unique.append(each)
    return unique


def _refuse_duplicates(rendered: list[Object], given: list[Object]) -> None:
    seen: set[tuple[str, ...]] = set()
    violations = []
    for objects in (rendered, given):
        made = set(seen)
        for identity in map(_identity, objects):
            problem, hint = "is rendered twice: two inputs ask for an object of this name", "rename or drop one of them"
            if identity in made:
                problem, hint = "is given, and this collection makes it itself", "leave out the one that is given"
            if identity in seen:
                name = "/".join(part for part in identity[1:] if part)
                violations.append(Violation("all inputs together", name, problem, hint))
            seen.add(identity)
    _refuse(violations)


def _identity(each: Object) -> tuple[str, ...]:
    metadata = each["metadata"]
    group = each["apiVersion"].rpartition("/")[0]
    return (group, each["kind"], metadata.get("namespace", ""), metadata.get("name", ""))


def _refuse(violations: list[Violation]) -> None:
    if violations:
        raise InvalidInput(violations)


def _sort_key(each: Object) -> tuple[str, str, str]:
    metadata = each["metadata"]
    return (each["kind"], metadata.get("namespace", ""), metadata["name"])
