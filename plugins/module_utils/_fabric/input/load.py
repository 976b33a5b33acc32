# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From everything a user gave to one FabricSpec, or to every violation at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Notice, Violation, together

from ..checks import driver_container, multus, nv_ipam
from ..checks.cni import RESOURCE_NAME
from ..checks.versions import version_problems, version_remarks
from ..common import openshift as platform
from ..common.findings import Document, Findings, Place, described
from ..common.images import effective_version
from . import (
    attachments,
    claims,
    components,
    containers,
    controllers,
    engine,
    feature_rules,
    functions,
    gpu_operator,
    helm,
    openshift,
    operator_config,
    policy,
    pools,
    services,
)
from .attachments import Network
from .data import check_certificates, check_data
from .driver import COMPONENT as DRIVER
from .functions import FunctionPolicy, PoolConfig
from .given import check_given
from .models import NETWORK_MODELS, POLICY_NAME
from .models_sriov import NODE_POLICY, OPERATOR_CONFIG, POOL_CONFIG
from .operator_config import OperatorConfig
from .policy import Policy
from .pools import Pool, read_pool
from .resources import ATTACHMENT_KIND, Resource, read_document, read_variable
from .settings import DEFAULT_NAMESPACE, DIRECT, ENGINE, HELM, VARIABLES, complete, read_settings
from .workloads import Surroundings, check_workload

FabricSpec = Dict[str, Any]
HostReading = Tuple[Mapping[str, Any], List[Violation], List[Notice]]

VERSION = 1
"""Version of the FabricSpec's shape."""

MAX_DEPTH = 64
MAX_VALUES = 200_000

_NAMED_VARIABLES = {
    "nic_node_policies": "NicNodePolicy",
    "macvlan_networks": "MacvlanNetwork",
    "host_device_networks": "HostDeviceNetwork",
    "ipoib_networks": "IPoIBNetwork",
    "sriov_networks": "SriovNetwork",
    "sriov_ib_networks": "SriovIBNetwork",
    "ovs_networks": "OVSNetwork",
    "sriov_node_policies": "SriovNetworkNodePolicy",
    "sriov_pool_configs": "SriovNetworkPoolConfig",
    "ip_pools": "IPPool",
    "cidr_pools": "CIDRPool",
}
_EXPECTED_NAMES = "a mapping of names"


@dataclass
class _Input:
    """What was read so far, by what it is."""

    policies: list[Policy] = field(default_factory=list)
    function_policies: list[FunctionPolicy] = field(default_factory=list)
    pool_configs: list[PoolConfig] = field(default_factory=list)
    operator_config: OperatorConfig | None = None
    networks: list[Network] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)
    objects: list[Resource] = field(default_factory=list)
    resources: list[Resource] = field(default_factory=list)
    identities: dict[tuple[str, ...], Resource] = field(default_factory=dict)


@dataclass(frozen=True)
class _Whole:
    """All that was read; ``release`` is the chart's, None where this collection renders the cluster side."""

    given: _Input
    cluster: Policy | None
    nodes: list[Policy]
    deployed: components.Deployed
    release: dict[str, Any] | None

    @property
    def policies(self) -> list[Policy]:
        """The policies of the cluster and of nodes."""
        return ([self.cluster] if self.cluster else []) + self.nodes

    @property
    def has_driver_container(self) -> bool:
        """Whether nodes get the driver as a container, from here or from the operator."""
        asked = any("ofedDriver" in one.spec for one in self.policies)
        return asked and (self.release is not None or driver_container.in_container(self.deployed.settings))

    @property
    def has_feature_discovery(self) -> bool:
        """Whether Node Feature Discovery is deployed from here."""
        asked = bool(self.policies or self.given.function_policies)
        return asked and self.release is None and bool(self.deployed.settings["nfd"])


def build_spec(
    documents: Sequence[Document],
    variables: Mapping[str, Any],
    settings: Mapping[str, Any],
    hosts: Mapping[str, HostReading],
    *,
    helm_values: Sequence[Document] = (),
    violations: Iterable[Violation] = (),
) -> tuple[FabricSpec, list[Notice]]:
    """Return the FabricSpec of everything given, with what is worth saying about it.

    ``documents`` are those of files; ``variables`` hold ``nic_cluster_policy`` (a spec), ``nic_node_policies``,
    ``macvlan_networks`` and the other names of :data:`_NAMED_VARIABLES` (specs by name) and ``network_attachments``;
    ``settings`` are the role variables that belong to no resource; ``hosts`` is what ``_host.spec.host`` made of each
    inventory host's variables; ``violations`` were found while files were read. Raises InvalidInput with all of them.
    """
    findings = Findings(violations=list(violations))
    fitting = [document for document in documents if _fits(document, findings)]
    values = helm.values_among([document for document in helm_values if _fits(document, findings)], findings)
    container = driver_container.in_container(engine.effective(settings))
    given = _read(fitting, variables, findings, container=container)
    of_values = Findings() if settings.get(ENGINE) == HELM else findings
    chart = helm.read_values(values, of_values, container=container)
    of_settings = Findings()
    role_settings = read_settings(settings, of_settings)
    all_settings = complete(engine.effective(role_settings), chart.settings)
    cluster = _effective_cluster_policy(given, chart)
    nodes = [one for one in given.policies if one.kind == "NicNodePolicy"]
    namespace = role_settings.get("namespace") or (cluster.namespace if cluster else "") or DEFAULT_NAMESPACE
    release = engine.chart_of(role_settings, helm.merge(values), namespace)
    deployed = components.Deployed(cluster, all_settings, namespace, hosts)
    whole = _Whole(given, cluster, nodes, deployed, release)
    _judge_resources(whole, findings, of_values)
    findings.violations += of_settings.violations
    findings.notices += of_settings.notices
    engine.remark_settings(role_settings, release, findings)
    desired_states = _judge_hosts(whole, findings)
    if release is None:
        deployed = replace(deployed, hosts=desired_states)
        _check_containers(whole.policies, given, deployed, role_settings, _proxy_place(role_settings, chart, findings))
    findings.raise_violations()
    # With an operator, what resources ask of hosts is its work.
    requests = [] if release else _host_requests(whole.policies, given, all_settings, findings)
    spec: FabricSpec = {
        "version": VERSION,
        ENGINE: DIRECT if release is None else HELM,
        "namespace": namespace,
        "cluster_policy": cluster.as_spec() if cluster else None,
        "node_policies": [one.as_spec() for one in nodes],
        "function_policies": [one.entry for one in given.function_policies],
        "function_plugin": given.operator_config.plugin if given.operator_config else {},
        "pools": [pool.entry for pool in given.pools],
        "networks": [net.entry for net in given.networks if net.kind != ATTACHMENT_KIND],
        "attachments": [net.entry for net in given.networks if net.kind == ATTACHMENT_KIND],
        "objects": [resource.content for resource in given.objects],
        "settings": all_settings,
        "host_requests": requests,
        "rollouts": [] if release else policy.all_rollouts(whole.policies),
        "hosts": {name: {**desired, "requests": requests} for name, (desired, _wrong, _said) in hosts.items()},
    }
    if release is not None:
        as_given = [dict(each.content) for each in given.resources if each.kind != ATTACHMENT_KIND]
        spec.update(chart=release, resources=as_given)
    return spec, together(dict.fromkeys(findings.notices))


def _judge_resources(whole: _Whole, findings: Findings, of_values: Findings) -> None:
    """Judge resources and values by what will be made of them: what is rendered, or an operator."""
    given, settings = whole.given, whole.deployed.settings
    if whole.release is None:
        for one in whole.policies:
            policy.remark(one, settings)
        if settings["nfd"]:
            _check_feature_discovery(settings, findings)
    _check_together(whole, given, settings)
    if not whole.has_driver_container:
        gpu_operator.remark(given.objects)
    feature_rules.check(given.objects, deployed=whole.has_feature_discovery)
    if whole.release is None:
        openshift.check(whole.cluster, given.objects, settings)
        components.check(whole.deployed, given.networks, given.pools)
    else:
        engine.leave_to_chart(findings, of_values)
        engine.remark_functions(given.resources, whole.release["values"], findings)


def _judge_hosts(whole: _Whole, findings: Findings) -> dict[str, dict[str, Any]]:
    """Add what is wrong with the variables of hosts, and hold hosts and resources against each other.

    Return the desired state of each host.
    """
    given, cluster = whole.given, whole.cluster
    for _desired, host_violations, host_notices in whole.deployed.hosts.values():
        findings.violations += host_violations
        findings.notices += host_notices
    hosts = {name: reading[0] for name, reading in whole.deployed.hosts.items()}
    if whole.release is None:
        services.check(replace(whole.deployed, hosts=hosts), given.networks, given.objects)
        controllers.check(whole.deployed, given.objects)
        has_plugins = bool(given.function_policies) or any("sriovDevicePlugin" in one.spec for one in whole.policies)
        claims.remark(given.objects, has_plugins=has_plugins)
        functions.check_hosts(given.function_policies, hosts)
        functions.check_moved(given.function_policies, given.pool_configs, hosts, given.networks, whole.policies)
    else:
        asked = (whole.policies, given.function_policies, given.pool_configs)
        findings.violations += engine.contested(*asked, hosts)
    findings.violations += controllers.contested(cluster, hosts)
    findings.violations += policy.conflicting_modes(cluster.spec if cluster else None, hosts)
    return hosts


def _host_requests(
    policies: Sequence[Policy], given: _Input, settings: dict[str, Any], findings: Findings
) -> list[dict[str, Any]]:
    """Return what the resources ask of hosts, and say which image overrides ask for nothing."""
    requests = policy.all_host_requests(policies, settings)
    _remark_driver_override(policies, settings, requests, findings)
    return [
        *requests,
        *functions.host_requests(given.function_policies),
        *(config.request for config in given.pool_configs),
    ]


def _read(
    documents: Sequence[Document], variables: Mapping[str, Any], findings: Findings, *, container: bool
) -> _Input:
    """Check every resource on its own and sort them; ``container``: the driver is one, not packages on the hosts."""
    given = _Input()
    for resource in _resources(documents, variables, findings):
        _note_repetition(resource, given)
        _take(resource, given, container=container)
        given.resources.append(resource)
    for name, item, place in _named("network_attachments", variables.get("network_attachments"), findings):
        given.networks.append(attachments.read_attachment_variable(name, item, place))
    given.function_policies = operator_config.configured(given.function_policies, given.operator_config)
    return given


def _resources(documents: Sequence[Document], variables: Mapping[str, Any], findings: Findings) -> Iterable[Resource]:
    for document in documents:
        yield from read_document(document, findings)
    spec = variables.get("nic_cluster_policy")
    if spec is not None:
        place = _variable("nic_cluster_policy", spec, findings)
        if _fits(place.document, findings):
            yield from read_variable("NicClusterPolicy", POLICY_NAME, spec, place)
    for variable, kind in _NAMED_VARIABLES.items():
        for name, spec, place in _named(variable, variables.get(variable), findings):
            yield from read_variable(kind, name, spec, place)


def _named(variable: str, value: Any, findings: Findings) -> Iterable[tuple[str, Any, Place]]:
    """Yield (name, value, place) of a variable that maps names to values."""
    if value is None:
        return
    place = _variable(variable, value, findings)
    if not _fits(place.document, findings):
        return
    if not isinstance(value, Mapping):
        place.violation(f"is {described(value)}, not {_EXPECTED_NAMES}", "write each name with its spec below it")
        return
    for name, item in value.items():
        if isinstance(name, str):
            yield name, item, place.at(name)
        else:
            place.violation(f"has the name {described(name)}, which is not text", "quote it")


def _variable(name: str, value: Any, findings: Findings) -> Place:
    return Place(findings, Document(f"{VARIABLES}{name}", value))


def _proxy_place(settings: Mapping[str, Any], chart: helm.HelmInput, findings: Findings) -> Place:
    """Return where the proxy of the settings stands."""
    own = settings.get("proxy")
    return _variable("proxy", own, findings) if own or chart.proxy_place is None else chart.proxy_place


def _fits(document: Document, findings: Findings) -> bool:
    """Return whether a document is of a size that can be worked on; note it when not."""
    level, depth, count = [document.content], 0, 0
    while level:
        depth, count = depth + 1, count + len(level)
        if depth > MAX_DEPTH or count > MAX_VALUES:
            problem = (
                f"holds more than {MAX_VALUES} values" if count > MAX_VALUES else f"is deeper than {MAX_DEPTH} levels"
            )
            Place(findings, document).violation(problem, "no fabric needs that; split or flatten it")
            return False
        level = [item for value in level for item in _members(value)]
    return True


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def _take(resource: Resource, given: _Input, *, container: bool) -> None:
    """Check one resource on its own and put it where it belongs."""
    if resource.kind in ("NicClusterPolicy", "NicNodePolicy"):
        given.policies.append(policy.read_policy(resource, container=container))
    elif resource.kind == NODE_POLICY.name:
        given.function_policies.append(functions.read_function_policy(resource))
    elif resource.kind == POOL_CONFIG.name:
        config = functions.read_pool_config(resource)
        given.pool_configs += [config] if config else []
    elif resource.kind == OPERATOR_CONFIG.name:
        given.operator_config = operator_config.read_operator_config(resource) or given.operator_config
    elif resource.is_pool:
        given.pools.append(read_pool(resource))
    elif resource.kind in NETWORK_MODELS:
        given.networks.append(attachments.read_network(resource))
    elif resource.kind == ATTACHMENT_KIND:
        given.networks.append(attachments.read_attachment(resource))
    else:
        given.objects.append(resource)


def _note_repetition(resource: Resource, given: _Input) -> None:
    identity = (str(resource.content.get("apiVersion")), resource.kind, resource.namespace, resource.name)
    # Networks are compared by the attachment they make, pools by the namespace nv-ipam reads, and the cluster's policy
    # is one whatever its name.
    if resource.kind in ("NicClusterPolicy", ATTACHMENT_KIND) or resource.is_pool or not resource.name:
        return
    first = given.identities.setdefault(identity, resource)
    if first is not resource:
        resource.place.violation(f"{resource.kind} {resource.name} is given twice", f"{first.source} has it already")


def _cluster_policy(policies: Sequence[Policy]) -> Policy | None:
    found = [one for one in policies if one.kind == "NicClusterPolicy"]
    for other in found[1:]:
        hint = f"{found[0].source} gives it already; node policies are for what differs between nodes"
        other.place.violation("is a second NicClusterPolicy: a cluster obeys one", hint)
    return found[0] if found else None


def _remark_driver_override(
    policies: Sequence[Policy], settings: dict[str, Any], requests: list[dict[str, Any]], findings: Findings
) -> None:
    """Say which parts of ``image_overrides.doca-driver`` change nothing that hosts are asked for."""
    given = settings["image_overrides"].get(DRIVER) or {}
    place = _variable("image_overrides", settings["image_overrides"], findings).at(DRIVER)
    idle = () if driver_container.in_container(settings) else ("repository",)
    for part in [part for part in given if part not in idle]:
        without = {key: value for key, value in given.items() if key != part}
        overrides = {**settings["image_overrides"], DRIVER: without}
        if policy.all_host_requests(policies, {**settings, "image_overrides": overrides}) == requests:
            place.at(part).notice("has no effect here", "no ofedDriver takes it from here")


def _effective_cluster_policy(given: _Input, chart: helm.HelmInput) -> Policy | None:
    """Return the policy of the cluster with what the chart and retired fields say, without what has nothing to do."""
    cluster = _with_pools_of_config(_with_chart(_cluster_policy(given.policies), chart), given)
    return _without_idle_plugin(cluster, given.function_policies)


def _with_chart(cluster: Policy | None, chart: helm.HelmInput) -> Policy | None:
    """Add the sections that only the Helm values ask for; where both describe one, the NicClusterPolicy counts."""
    if not chart.sections and chart.peer_memory is None:
        return cluster
    if cluster is None:
        place = next(iter(chart.places.values()), None) or Place(Findings(), Document("helm values", {}))
        source = place.document.source
        cluster = Policy("NicClusterPolicy", POLICY_NAME, {}, source, replace(place, path=()))
    spec, places = dict(cluster.spec), {}
    for name, section in chart.sections.items():
        if name in spec and name == "secondaryNetwork":
            places.update({f"{name}.{part}": chart.places[name].at(part) for part in section if part not in spec[name]})
            spec[name] = {**section, **spec[name]}
        elif name in spec:
            chart.places[name].notice("is given in the NicClusterPolicy too, which counts", cluster.source)
        else:
            places[name], spec[name] = chart.places[name], section
    return replace(cluster, spec=spec, peer_memory=cluster.peer_memory or chart.peer_memory, places=places)


def _without_idle_plugin(cluster: Policy | None, function_policies: Sequence[FunctionPolicy]) -> Policy | None:
    """Leave out a SR-IOV device plugin without resources where policies bring plugins of their own.

    The operator deploys it all the same, and its pods wait for a ConfigMap that nobody makes.
    """
    section = cluster.spec.get("sriovDevicePlugin") if cluster else None
    if cluster is None or section is None or not function_policies or str(section.get("config") or "").strip():
        return cluster
    hint = "the plugins of the SriovNetworkNodePolicies offer their resources; name resources of its own in config"
    cluster.at("sriovDevicePlugin").notice("has no config, so it is not deployed", hint)
    kept = {name: value for name, value in cluster.spec.items() if name != "sriovDevicePlugin"}
    return replace(cluster, spec=kept)


def _with_pools_of_config(cluster: Policy | None, given: _Input) -> Policy | None:
    """Move the pools of the retired ``nvIpam.config`` to those given as objects; an object of the same name counts."""
    section = (cluster.spec.get("nvIpam") if cluster else None) or {}
    text = section.get("config")
    if cluster is None or text is None:
        return cluster
    place = cluster.at("nvIpam").at("config")
    known = {pool.key for pool in given.pools}
    for pool in pools.pools_of_config(text, place, cluster.source) if text.strip() else []:
        if pool.key in known:
            place.inside(f"pools.{pool.name}").notice(f"is given as IPPool {pool.name} too, which counts")
        else:
            given.pools.append(pool)
    kept = {key: value for key, value in section.items() if key != "config"}
    return replace(cluster, spec={**cluster.spec, "nvIpam": kept})


def _check_feature_discovery(settings: dict[str, Any], findings: Findings) -> None:
    """Judge the release of Node Feature Discovery that is to be deployed, and name who else labels nodes."""
    place = _variable("image_overrides", settings["image_overrides"], findings)
    version = effective_version("nfd", {}, {}, settings)
    place.at("nfd", "version").violations(version_problems("nfd", version))
    for odd in version_remarks("nfd", version):
        place.at("nfd", "version").notice(odd.problem, odd.hint)
    if settings.get("label_nodes"):
        hint = "set rdma_fabric_nfd: false to do without it, or leave this out"
        _variable("label_nodes", True, findings).notice("labels what Node Feature Discovery labels as well", hint)


def _check_containers(
    policies: Sequence[Policy], given: _Input, deployed: components.Deployed, variables: Mapping[str, Any], proxy: Place
) -> None:
    """Judge the driver where it is a container; ``variables`` are settings given as such, ``proxy`` where it stands."""
    containers.check(policies, given.objects, variables, deployed.namespace, proxy.findings)
    if driver_container.in_container(deployed.settings):
        containers.remark_proxy(policies, deployed.settings["proxy"], proxy)
        proxy.findings.violations += containers.contested(policies, deployed.settings, deployed.hosts)


def _check_together(whole: _Whole, given: _Input, settings: dict[str, Any]) -> None:
    """Hold everything that was read against everything else."""
    cluster, nodes = whole.cluster, whole.nodes
    policy.check_between(cluster, nodes)
    functions.check(given.function_policies, cluster, nodes)
    functions.check_modes(given.pool_configs, cluster)
    version = policy.whereabouts_version(cluster, settings)
    attachments.check_node_slices(given.networks, version, len(whole.deployed.hosts))
    pools.check_between(given.pools)
    valid = [pool.entry for pool in given.pools if pool.valid]
    attachments.check_between(given.networks, nv_ipam.claims_of(valid))
    every = ([cluster] if cluster else []) + list(nodes)
    offered = [name for one in every for names in one.resources().values() for name in names]
    offered += [name for resource in given.objects for name in check_given(resource)]
    offered += functions.offered(given.function_policies)
    attachments.check_resource_names(given.networks, [name for name in offered if not name.startswith("rdma/")])
    services = [resource.name for resource in given.objects if resource.kind == "Service"]
    needed = {network.full_name: network.annotations.get(RESOURCE_NAME, "") for network in given.networks}
    opened = multus.open_namespaces(multus.config_of(cluster.spec)) if cluster else None
    if settings.get(platform.SETTING):
        opened = platform.OPEN_NAMESPACES
    around = Surroundings(needed, offered, services, opened)
    for resource in given.objects:
        check_workload(resource, around)
        check_data(resource)
        check_certificates(resource)
