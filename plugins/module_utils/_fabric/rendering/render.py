# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A FabricSpec turned into ordered waves of Kubernetes objects.

Same spec, same waves: nothing here reads a clock, a file or a random number, and every list has one order.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

from ..checks import driver_container, nad, sriov_policies
from ..checks.nv_ipam import POOL_KINDS
from ..checks.versions import has_node_slices, reads_pool_objects
from ..common.jsontext import compact, pretty
from ..common.objects import (
    Object,
    build,
    canonical,
    canonical_given,
    namespaced_rbac,
    pod_of_workload,
    rule,
    service_account,
)
from ..common.openshift import BROUGHT, OWNER, SETTING
from ..common.pods import pods_of
from . import crds
from .components import nfd, nv_ipam, whereabouts
from .components.cni_plugins import cni_plugins, ipoib_cni, network_cnis
from .components.device_plugins import DEVICE_PLUGINS
from .components.doca_telemetry import doca_telemetry
from .components.driver_container import driver_container as containers_of_driver
from .components.ib_kubernetes import ib_kubernetes
from .components.multus import multus
from .components.nic_configuration import nic_configuration
from .components.nic_feature_discovery import nic_feature_discovery
from .components.spectrum_x import spectrum_x
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
_COMPONENTS: Mapping[str, Callable[[Rollout, Object], list[Object]]] = {
    "secondaryNetwork.multus": multus,
    "secondaryNetwork.cniPlugins": cni_plugins,
    "secondaryNetwork.ipoib": ipoib_cni,
    **DEVICE_PLUGINS,
    "nicFeatureDiscovery": nic_feature_discovery,
    "ibKubernetes": ib_kubernetes,
    "nicConfigurationOperator": nic_configuration,
    "spectrumXOperator": spectrum_x,
}
"""What is rendered of the sections of a policy, by dotted names."""


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
        policy = remaining(policy)
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
    found += cluster.objects(_COMPONENTS)
    found += doca_telemetry(cluster, config_maps)
    found += _whereabouts(spec, cluster)
    found += _nv_ipam(spec, cluster)
    for rollout in of_node_policies(spec, cluster):
        found += [*containers_of_driver(rollout, groups, config_maps), *rollout.objects(DEVICE_PLUGINS)]
    found += _functions(spec, namespace, cluster.spec.get("global") or {})
    if cluster.openshift:
        return admitted(_once(found), namespace)
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
        found += Rollout(namespace, plugin, settings, suffix, selector, any_nic=True).objects(DEVICE_PLUGINS)
    return found


def _nv_ipam(spec: Object, cluster: Rollout) -> list[Object]:
    section = cluster.section(nv_ipam.SECTION)
    if section is None:
        return []
    if not _reads_pool_objects(cluster):
        return nv_ipam.nv_ipam_config(cluster, section, spec.get("pools") or [])
    return [*crds.nv_ipam(), *nv_ipam.nv_ipam(cluster, section)]


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
    return [*crds.whereabouts(with_crd), *whereabouts.whereabouts(cluster, section, node_slices)]


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


# What is given to an operator: custom resources and what goes with them, as they are, in waves.
#
# Its own objects are those of its chart. What a policy refers to comes before it; networks and pools come behind, as
# the operator brings the definitions of pools only with the policy that asks for nv-ipam.
COMPONENT = "operator"
_PREPARING = ("ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim")
_POLICIES = ("NicClusterPolicy", "NicNodePolicy", "SriovOperatorConfig", "MaintenanceOperatorConfig")
_CLUSTER_SCOPED_GROUP = "mellanox.com"
_OF_OPERATORS = (
    "sriovnetwork.openshift.io",
    "nv-ipam.nvidia.com",
    "configuration.net.nvidia.com",
    "maintenance.nvidia.com",
    "spectrumx.nvidia.com",
)
"""Groups whose operators look into their own namespace, where objects without one are meant for."""


def operator_waves(spec: Object, order: Iterable[str]) -> dict[str, list[Object]]:
    """Return by the name of its wave what a FabricSpec with a chart gives to the operator; ``order`` has all names."""
    namespace = str(spec["chart"]["namespace"])
    given = [_placed(canonical_given(each, COMPONENT), namespace) for each in spec.get("resources") or []]
    waves: dict[str, list[Object]] = {name: [] for name in order}
    for each in [*given, *map(nad.given_attachment, spec.get("attachments") or [])]:
        waves[_wave_of(each)].append(each)
    known = {each["metadata"]["name"] for each in waves["namespaces"]}
    if namespace not in known:
        waves["namespaces"].append(build("v1", "Namespace", namespace, "namespace"))
    waves["namespaces"] = [admitting(each, namespace) for each in waves["namespaces"]]
    violations = unadmitted(namespace, waves["namespaces"])
    if violations:
        raise InvalidInput(violations)
    return waves


def chart_waves(objects: Iterable[Object], order: Iterable[str]) -> dict[str, list[Object]]:
    """Return what a chart makes by the name of its wave, definitions first."""
    waves: dict[str, list[Object]] = {name: [] for name in order}
    for each in objects:
        kind = each["kind"]
        name = {"Namespace": "namespaces", "CustomResourceDefinition": "crds"}.get(kind, "workloads")
        waves["configs" if kind in _PREPARING else name].append(each)
    return waves


def group_of(body: Mapping[str, Any]) -> str:
    """Return the API group of an object."""
    return str(body.get("apiVersion", "")).rpartition("/")[0]


def _wave_of(body: Object) -> str:
    kind, group = body["kind"], group_of(body)
    if kind in ("Namespace", "CustomResourceDefinition"):
        return "namespaces" if kind == "Namespace" else "crds"
    if group in (_CLUSTER_SCOPED_GROUP, *_OF_OPERATORS):
        return "workloads" if kind in _POLICIES else "networks"
    if kind == nad.KIND:
        return "networks"
    return "configs" if kind in _PREPARING else "objects"


def _placed(body: Object, namespace: str) -> Object:
    if group_of(body) in _OF_OPERATORS:
        body["metadata"].setdefault("namespace", namespace)
    return body


# Objects as they are on OpenShift: nothing that it brings itself, and privileged pods that it admits.
#
# Facts: ``manifests`` of the Network Operator 26.4.1, where ``.RuntimeSpec.IsOpenshift`` is true. Each program whose
# pods are privileged, on the host's network or with its folders has an account that may use the
# SecurityContextConstraints ``privileged``, by a Role of the same name.
_WORKLOADS = ("DaemonSet", "Deployment")
_COMPONENT = "app.kubernetes.io/component"
_ACCOUNTS = {"rdma-shared-device-plugin": "rdma-shared"}
"""Accounts of programs that have none elsewhere; those of others are called as their component."""

_USE_PRIVILEGED = rule(["security.openshift.io"], ["securitycontextconstraints"], ["use"], ["privileged"])


def remaining(policy: Object) -> Object:
    """Return a policy without the sections that OpenShift brings itself."""
    secondary = policy.get(OWNER)
    if not isinstance(secondary, dict):
        return policy
    return {**policy, OWNER: {name: part for name, part in secondary.items() if name not in BROUGHT}}


def admitted(objects: list[Object], namespace: str) -> list[Object]:
    """Return the objects with the accounts and Roles without which OpenShift does not admit their privileged pods."""
    found = [_with_account(each) if _is_privileged(each) else each for each in objects]
    accounts = {pod_of_workload(each)["serviceAccountName"]: _component(each) for each in found if _is_privileged(each)}
    known = {each["metadata"]["name"] for each in found if each["kind"] == "ServiceAccount"}
    roles = {each["metadata"]["name"] for each in found if each["kind"] == "Role"}
    added = []
    for account, component in sorted(accounts.items()):
        if account not in known:
            added.append(service_account(account, namespace, component))
        if account not in roles:
            added += namespaced_rbac(account, namespace, component, [_USE_PRIVILEGED])[1:]
    return [_with_rule(each) if each["kind"] == "Role" and _name(each) in accounts else each for each in found] + added


def _with_account(workload: Object) -> Object:
    component = _component(workload)
    template = workload["spec"]["template"]
    pod = {"serviceAccountName": _ACCOUNTS.get(component, component), **template["spec"]}
    return {**workload, "spec": {**workload["spec"], "template": {**template, "spec": pod}}}


def _with_rule(role: Object) -> Object:
    return {**role, "rules": [*role["rules"], canonical(_USE_PRIVILEGED)]}


def _is_privileged(body: Object) -> bool:
    """Tell whether a workload's pods ask for more than OpenShift gives to every account."""
    if body["kind"] not in _WORKLOADS:
        return False
    pod = pod_of_workload(body)
    containers = [*(pod.get("initContainers") or []), *pod["containers"]]
    return (
        bool(pod.get("hostNetwork"))
        or any("hostPath" in volume for volume in pod.get("volumes") or [])
        or any((each.get("securityContext") or {}).get("privileged") for each in containers)
    )


def _component(body: Object) -> str:
    return str(body["metadata"]["labels"][_COMPONENT])


def _name(body: Object) -> str:
    return str(body["metadata"]["name"])


ENFORCE = "pod-security.kubernetes.io/enforce"
PRIVILEGED = "privileged"


def namespaces(own: str, objects: Sequence[Object], given: Sequence[Object]) -> list[Object]:
    """Return the namespaces that the objects live in; those given as such replace ours.

    The components' pods are privileged, so their own namespace says so to pod security admission, unless it is given
    with a level. Namespaces that every cluster has are left alone.
    """
    found = {each["metadata"]["name"]: admitting(each, own) for each in given}
    for each in objects:
        name = each["metadata"].get("namespace", "")
        if name and name not in found and name != "default" and not name.startswith("kube-"):
            found[name] = admitting(build("v1", "Namespace", name, "namespace"), own)
    return list(found.values())


def admitting(namespace: Object, own: str) -> Object:
    """Return a namespace with the level that the components' pods need, where it is theirs and says none."""
    metadata = namespace["metadata"]
    labels: Mapping[str, Any] = metadata.get("labels") or {}
    if metadata["name"] != own or ENFORCE in labels:
        return namespace
    return {**namespace, "metadata": {**metadata, "labels": {**labels, ENFORCE: PRIVILEGED}}}


def unadmitted(own: str, found: Sequence[Object]) -> list[Violation]:
    """Return what is wrong with the level of the namespace that the components' pods are in."""
    levels = [each["metadata"]["labels"].get(ENFORCE) for each in found if each["metadata"]["name"] == own]
    problem = f"keeps out the components' pods, which need the Pod Security level {PRIVILEGED}"
    hint = f"label it {ENFORCE}: {PRIVILEGED}, or have the components in another namespace (rdma_fabric_namespace)"
    return [
        Violation("all inputs together", f"Namespace {own}", f"{problem}: its level is {level}", hint)
        for level in levels
        if level != PRIVILEGED
    ]
