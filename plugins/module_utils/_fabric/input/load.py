# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From everything a user gave to one FabricSpec, or to every violation at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from ansible_collections.rdma.fabric.plugins.module_utils._needs import SRIOV
from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    Notice,
    Violation,
    one_line,
    shown,
    together,
)

from ..checks import driver_container, multus, nad, nv_ipam
from ..checks.cni import RESOURCE_NAME
from ..checks.nic_configuration import SECTION as CARDS
from ..checks.versions import gives_one_guid, version_problems, version_remarks
from ..common.findings import Document, Findings, Place
from ..common.images import effective_version
from ..common.openshift import BROUGHT, GROUP, OPEN_NAMESPACES, OWNER, SETTING
from . import (
    attachments,
    claims,
    components,
    controllers,
    engine,
    functions,
    helm,
    nic_templates,
    policy,
    pools,
    services,
)
from .driver import COMPONENT as DRIVER
from .functions import FunctionPolicy
from .given import check_certificates, check_data, check_feature_rules, check_given, plain_of, remark_gpu_operator
from .models import POLICY_NAME
from .models_sriov import SRIOV_POLICY_MODELS
from .policy import Policy, restricts_nodes
from .pools import note
from .read import Input, fits, place_of, read
from .resources import ATTACHMENT_KIND, Resource
from .settings import DEFAULT_NAMESPACE, DIRECT, ENGINE, HELM, VARIABLES, complete, read_settings
from .workloads import Surroundings, check_asked, check_workload

FabricSpec = Dict[str, Any]
HostReading = Tuple[Mapping[str, Any], List[Violation], List[Notice]]

VERSION = 1
"""Version of the FabricSpec's shape."""


@dataclass(frozen=True)
class _Whole:
    """All that was read; ``release`` is the chart's, None where this collection renders the cluster objects."""

    given: Input
    cluster: Policy | None
    nodes: list[Policy]
    deployed: components.Deployed
    release: dict[str, Any] | None

    @property
    def policies(self) -> list[Policy]:
        """The policies of the cluster and of nodes."""
        return ([self.cluster] if self.cluster else []) + self.nodes

    @property
    def templates(self) -> list[Resource]:
        """The objects of the NIC configuration operator of which hosts do the work: it is not deployed."""
        of_hosts = self.release is None and self.deployed.section(CARDS) is None
        return nic_templates.of_hosts(self.given.objects) if of_hosts else []

    @property
    def objects(self) -> list[Resource]:
        """The objects that are applied as given."""
        done = [id(each) for each in self.templates]
        return [each for each in self.given.objects if id(each) not in done]

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
    ``macvlan_networks`` and the other names of :data:`NAMED_VARIABLES` (specs by name) and ``network_attachments``;
    ``settings`` are the role variables that belong to no resource; ``hosts`` is what ``_host.spec.host`` made of each
    inventory host's variables; ``violations`` were found while files were read. Raises InvalidInput with all of them.
    """
    of_texts = [notice for document in (*documents, *helm_values) for notice in document.notices]
    findings = Findings(violations=list(violations), notices=list(dict.fromkeys(of_texts)))
    fitting = [document for document in documents if fits(document, findings)]
    values = helm.values_among([document for document in helm_values if fits(document, findings)], findings)
    container = driver_container.in_container(engine.effective(settings))
    given = read(fitting, variables, findings, container=container)
    of_values = Findings() if settings.get(ENGINE) == HELM else findings
    chart = helm.read_values(values, of_values, container=container)
    of_settings = Findings()
    role_settings = read_settings(settings, of_settings)
    all_settings = complete(engine.effective(role_settings), chart.settings)
    cluster = effective_policy(given, chart)
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
    # With an operator, what resources ask of hosts is its work, but for modules, which it does not load.
    requests = [] if release else _host_requests(whole.policies, given, all_settings, findings)
    requests += nic_templates.host_requests(whole.templates)
    requests += policy.module_requests(whole.policies)
    configs = [network.config for network in given.networks if network.valid]
    requests += policy.requests_for("networks", nad.calls_of(configs))
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
        "objects": [resource.content for resource in whole.objects],
        "settings": all_settings,
        "host_requests": requests,
        "rollouts": [] if release else policy.all_rollouts(whole.policies),
        "hosts": {name: {**desired, "requests": requests} for name, (desired, _wrong, _said) in hosts.items()},
    }
    if given.node_states:
        spec["node_states"] = given.node_states
    if release is not None:
        theirs = [each for each in given.resources if each.kind != ATTACHMENT_KIND and not each.is_node_state]
        as_given = [dict(each.content) for each in theirs]
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
        remark_gpu_operator(given.objects, alone=not (whole.policies or given.networks or given.function_policies))
    check_feature_rules(given.objects, deployed=whole.has_feature_discovery)
    if whole.release is None:
        _check_openshift(whole.cluster, given.objects, settings)
        components.check(whole.deployed, given.networks, given.pools)
        functions.check_release(given.function_policies, effective_version(SRIOV, {}, {}, settings))
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
        controllers.check(whole.deployed, whole.objects)
        nic_templates.check(whole.templates, hosts)
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
    policies: Sequence[Policy], given: Input, settings: dict[str, Any], findings: Findings
) -> list[dict[str, Any]]:
    """Return what the resources ask of hosts, and say which image overrides ask for nothing."""
    requests = policy.all_host_requests(policies, settings)
    _remark_driver_override(policies, settings, requests, findings)
    return [
        *requests,
        *functions.host_requests(given.function_policies),
        *(config.request for config in given.pool_configs),
    ]


def _proxy_place(settings: Mapping[str, Any], chart: helm.HelmInput, findings: Findings) -> Place:
    """Return where the proxy of the settings stands."""
    own = settings.get("proxy")
    return place_of("proxy", own, findings) if own or chart.proxy_place is None else chart.proxy_place


def _remark_driver_override(
    policies: Sequence[Policy], settings: dict[str, Any], requests: list[dict[str, Any]], findings: Findings
) -> None:
    """Say which parts of ``image_overrides.doca-driver`` change nothing that hosts are asked for."""
    given = settings["image_overrides"].get(DRIVER) or {}
    place = place_of("image_overrides", settings["image_overrides"], findings).at(DRIVER)
    idle = () if driver_container.in_container(settings) else ("repository",)
    for part in [part for part in given if part not in idle]:
        without = {key: value for key, value in given.items() if key != part}
        overrides = {**settings["image_overrides"], DRIVER: without}
        if policy.all_host_requests(policies, {**settings, "image_overrides": overrides}) == requests:
            place.at(part).notice("has no effect here", "no ofedDriver takes it from here")


def _check_feature_discovery(settings: dict[str, Any], findings: Findings) -> None:
    """Judge the release of Node Feature Discovery that is to be deployed, and name who else labels nodes."""
    place = place_of("image_overrides", settings["image_overrides"], findings)
    version = effective_version("nfd", {}, {}, settings)
    place.at("nfd", "version").violations(version_problems("nfd", version))
    for odd in version_remarks("nfd", version):
        place.at("nfd", "version").remark(odd)
    if settings.get("label_nodes"):
        hint = "set rdma_fabric_nfd: false to do without it, or leave this out"
        place_of("label_nodes", True, findings).notice("labels what Node Feature Discovery labels as well", hint)


def _check_containers(
    policies: Sequence[Policy], given: Input, deployed: components.Deployed, variables: Mapping[str, Any], proxy: Place
) -> None:
    """Judge the driver where it is a container; ``variables`` are settings given as such, ``proxy`` where it stands."""
    _check_driver_container(policies, given.objects, variables, deployed.namespace, proxy.findings)
    if driver_container.in_container(deployed.settings):
        _remark_proxy(policies, deployed.settings["proxy"], proxy)
        proxy.findings.violations += _contested_drivers(policies, deployed.settings, deployed.hosts)


def _check_together(whole: _Whole, given: Input, settings: dict[str, Any]) -> None:
    """Hold everything that was read against everything else."""
    cluster, nodes = whole.cluster, whole.nodes
    policy.check_between(cluster, nodes)
    has_webhook = given.operator_config is None or given.operator_config.has_webhook
    functions.check(given.function_policies, cluster, nodes, webhook=has_webhook)
    functions.check_modes(given.pool_configs, cluster)
    functions.check_pools(given.pool_configs, webhook=has_webhook)
    functions.check_legacy_settings(given.function_policies, given.networks)
    version = whole.deployed.version("whereabouts", "secondaryNetwork.ipamPlugin") or ""
    attachments.check_node_slices(given.networks, version, len(whole.deployed.hosts))
    pools.check_between(given.pools)
    valid = [pool.entry for pool in given.pools if pool.valid]
    attachments.check_between(given.networks, nv_ipam.claims_of(valid))
    homes = [each.namespace for each in given.resources if each.kind in SRIOV_POLICY_MODELS]
    attachments.remark_namespaces(given.networks, [*homes, whole.deployed.namespace])
    every = ([cluster] if cluster else []) + list(nodes)
    offered = [name for one in every for names in one.resources().values() for name in names]
    offered += [name for resource in given.objects for name in check_given(resource)]
    offered += functions.offered(given.function_policies)
    attachments.check_resource_names(given.networks, [name for name in offered if not name.startswith("rdma/")])
    services = [resource.name for resource in given.objects if resource.kind == "Service"]
    resources = {network.full_name: network.annotations.get(RESOURCE_NAME, "") for network in given.networks}
    needed = {network: name if "/" in name else "" for network, name in resources.items()}
    opened = multus.open_namespaces(multus.config_of(cluster.spec)) if cluster else None
    if settings.get(SETTING):
        opened = OPEN_NAMESPACES
    of_guids = whole.deployed.version("ib-kubernetes", "ibKubernetes") or ""
    waiting = [each for each in given.networks if each.valid and nad.waits_for_guid(each.config)]
    once = frozenset(each.full_name for each in waiting if gives_one_guid(of_guids))
    plain = functions.plain(given.function_policies, every).union(*map(plain_of, given.objects))
    bare = claims.without_functions(given.objects)
    around = Surroundings(needed, offered, services, opened, bare, once, frozenset(plain))
    check_asked(given.objects, {network.full_name: network.config for network in given.networks if network.valid})
    for resource in given.objects:
        check_workload(resource, around)
        check_data(resource)
        check_certificates(resource)


def effective_policy(given: Input, chart: helm.HelmInput) -> Policy | None:
    """Return the policy of the cluster with what the chart and retired fields say, without what has nothing to do."""
    cluster = _with_pools_of_config(_with_chart(_cluster_policy(given.policies), chart), given)
    return _without_idle_plugin(cluster, given.function_policies)


def _cluster_policy(policies: Sequence[Policy]) -> Policy | None:
    found = [one for one in policies if one.kind == "NicClusterPolicy"]
    for other in found[1:]:
        hint = f"{found[0].source} gives it already; node policies are for what differs between nodes"
        other.place.violation("is a second NicClusterPolicy: a cluster follows one", hint)
    return found[0] if found else None


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


def _with_pools_of_config(cluster: Policy | None, given: Input) -> Policy | None:
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


_MACHINES = "machineconfiguration.openshift.io"


def _check_openshift(cluster: Policy | None, objects: Iterable[Resource], settings: Mapping[str, Any]) -> None:
    """Name the sections that OpenShift has no use for; refuse objects of its kinds on another cluster."""
    if settings.get(SETTING):
        _remark_sections(cluster)
    for resource in objects:
        api_version = str(resource.content.get("apiVersion"))
        group = api_version.rpartition("/")[0]
        place = resource.place.at("apiVersion")
        if group.endswith(GROUP) and not settings.get(SETTING):
            hint = f"remove it, or set rdma_fabric_{SETTING}: true for a cluster of OpenShift"
            place.violation(f"is {shown(api_version)}, a kind of OpenShift, and the cluster is said to be none", hint)
        elif group == _MACHINES:
            hint = "give it apart from this run, and wait for its pool before hosts are changed"
            problem = "makes the machine config operator change and reboot nodes on its own, outside the turns of a run"
            place.notice(problem, hint)


def _remark_sections(cluster: Policy | None) -> None:
    given = (cluster.spec.get(OWNER) if cluster else None) or {}
    for name in BROUGHT:
        if cluster is not None and given.get(name) is not None:
            hint = "the cluster network operator of OpenShift brings it; a second one would work against it"
            cluster.at(f"{OWNER}.{name}").notice("has no effect here", hint)


_OF_THE_CONTAINER = (driver_container.NODES, "proxy")


def _check_driver_container(
    policies: Sequence[Policy],
    objects: Sequence[Resource],
    settings: Mapping[str, Any],
    namespace: str,
    findings: Findings,
) -> None:
    """Judge the sections of the driver where it is a container, and name the settings that nothing reads.

    ``settings`` are those that were given as variables.
    """
    asking = [policy for policy in policies if driver_container.SECTION in policy.spec]
    if not driver_container.in_container(settings):
        _variable_has_no_effect(settings, (driver_container.NODES,), findings, "rdma_fabric_driver_source is packages")
        return
    if not asking:
        names = (driver_container.SOURCE, *_OF_THE_CONTAINER)
        _variable_has_no_effect(settings, names, findings, "no policy has an ofedDriver")
    _remark_groups(asking, settings, findings)
    given = driver_container.data_of([each.content for each in objects], namespace)
    for each in asking:
        note(driver_container.check(each.spec[driver_container.SECTION], given), each.at(driver_container.SECTION))


def _remark_groups(asking: Sequence[Policy], settings: Mapping[str, Any], findings: Findings) -> None:
    """Name what is said of a group of nodes and makes no difference to it."""
    groups = settings.get(driver_container.NODES) or []
    place = Place(findings, Document(f"{VARIABLES}{driver_container.NODES}", groups))
    sections = [policy.spec[driver_container.SECTION] for policy in asking]
    for index, group in enumerate(groups):
        if group.get("runtime") and group.get("os") != "rhel":
            place.at(index, "runtime").notice("has no effect here", "only nodes with the os rhel look at it")
        compiled = any(driver_container.compiles(group, each, str(each.get("version") or "")) for each in sections)
        for name in ("ostree_version", "toolkit_image"):
            if group.get(name) and not (compiled and settings.get(SETTING)):
                hint = "it is for images that are compiled on nodes of OpenShift"
                place.at(index, name).notice("has no effect here", hint)


def _variable_has_no_effect(settings: Mapping[str, Any], names: Sequence[str], findings: Findings, why: str) -> None:
    for name in names:
        if settings.get(name):
            Place(findings, Document(f"{VARIABLES}{name}", settings[name])).notice("has no effect here", why)


def _remark_proxy(policies: Sequence[Policy], proxy: Mapping[str, Any], place: Place) -> None:
    """Name the parts of the proxy, which stands at ``place``, that every section has variables of its own for."""
    sections = [each.spec[driver_container.SECTION] for each in policies if driver_container.SECTION in each.spec]
    names = [{variable.get("name") for variable in section.get("env") or []} for section in sections]
    for variable, part in driver_container.PROXY_VARIABLES:
        if proxy.get(part) and names and all({variable, variable.lower()} & each for each in names):
            place.at(part).notice("has no effect here", f"ofedDriver has {variable} among its env, which counts")


def _contested_drivers(
    policies: Sequence[Policy], settings: Mapping[str, Any], hosts: Mapping[str, Mapping[str, Any]]
) -> list[Violation]:
    """Return the hosts that change packages of the driver where every node has its container.

    ``hosts`` are the desired states. Where a policy says which nodes it is about, each host refuses both by itself, as
    only its labels tell.
    """
    if not driver_container.in_container(settings):
        return []
    asking = [each for each in policies if driver_container.SECTION in each.spec and not restricts_nodes(each)]
    if not asking:
        return []
    owner = f"{asking[0].kind} {asking[0].name}".rstrip()
    problem = f"is about packages, and the driver's container of {owner} loads a driver on the same nodes"
    hint = "leave it out, or give rdma_fabric_driver_source: packages; to remove packages, run that first"
    return [
        Violation(f"host {one_line(host)}: rdma_fabric_driver", "", problem, hint)
        for host, desired in hosts.items()
        if desired.get("driver") and desired["driver"]["source"] != driver_container.CONTAINER
    ]
