# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who brings what networks and pools need: the CNI and IPAM programs on the nodes, nv-ipam's pools, cert-manager.

What the input does not bring may be in the cluster or on the nodes already, so it is named and not refused. Private to
this collection: it may change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._needs import NEEDS, PROGRAM
from ansible_collections.rdma.fabric.plugins.module_utils._violations import nearest

from ..checks import nad, sriov_networks
from ..checks.nv_ipam import PoolKey
from ..checks.versions import cni_version_remarks, ipoib_remarks, reads_pool_objects, webhook_problems
from ..common import openshift
from ..common.findings import Place
from ..common.images import SECTIONS, effective_version
from . import pools as pool_checks
from .attachments import Network, field_place
from .policy import Policy
from .pools import Pool
from .resources import ATTACHMENT_KIND

NV_IPAM = "nvIpam"
MULTUS, IPOIB = "secondaryNetwork.multus", "secondaryNetwork.ipoib"
PROVIDERS = {program: need.want[0] for need in NEEDS if need.kind == PROGRAM for program in need.components}
"""The section of a NicClusterPolicy that puts a CNI or IPAM program on the nodes."""

_OF_OPENSHIFT = tuple(f"{openshift.OWNER}.{name}" for name in openshift.BROUGHT)
# Where ovs-cni looks unless socket_file says otherwise (pkg/ovsdb/ovsdb.go).
_OPEN_VSWITCH_SOCKET = "/var/run/openvswitch/db.sock"
_ON_THE_NODES = "nothing here deploys it: install it on the nodes, or keep what does"


@dataclass(frozen=True)
class Deployed:
    """What the input deploys: the cluster's policy with the settings, in which namespace, and the inventory's hosts."""

    cluster: Policy | None
    settings: dict[str, Any]
    namespace: str
    hosts: Mapping[str, Any]

    def section(self, path: str) -> dict[str, Any] | None:
        """Return a section of the cluster's policy, None when it is not there."""
        value: Any = self.cluster.spec if self.cluster else None
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else None

    def version(self, component: str, path: str) -> str | None:
        """Return the version of the component that a section deploys, None when it is not there."""
        section = self.section(path)
        if section is None or self.cluster is None:
            return None
        return effective_version(component, section, self.cluster.spec.get("global") or {}, self.settings)


def check(deployed: Deployed, networks: Sequence[Network], pools: Sequence[Pool]) -> None:
    """Hold networks and pools against what the input deploys."""
    version, of_ipoib = deployed.version("nv-ipam", NV_IPAM), deployed.version("ipoib-cni", IPOIB)
    if version is not None and deployed.cluster and (deployed.section(NV_IPAM) or {}).get("enableWebhook"):
        _check_webhook(deployed.cluster.at(NV_IPAM).at("enableWebhook"), version, deployed.settings)
    pool_checks.check_readers(pools, deployed.namespace, version)
    pool_checks.check_room(pools, deployed.hosts)
    configs = [network.config for network in networks if network.valid and network.kind != ATTACHMENT_KIND]
    components = nad.components_of(configs)
    brought = [program for program, component in sriov_networks.COMPONENTS.items() if component in components]
    known = {pool.key: None for pool in pools}
    _check_multus(deployed, networks)
    _check_open_vswitch(networks, brought)
    for network in networks:
        if network.valid:
            _check_programs(network, deployed, brought)
            _check_pools(network, deployed, known)
            _check_keys(network, version)
            for path, plugin in nad.placed_plugins(network.config) if of_ipoib else ():
                for odd in ipoib_remarks(plugin, str(of_ipoib)):
                    place_in(network, f"{path}{odd.path}").remark(odd)
            if version is not None and not reads_pool_objects(version):
                _check_pools_of_config(network, version)


def _check_webhook(place: Place, version: str, settings: Mapping[str, Any]) -> None:
    place.violations(webhook_problems(version))
    if not settings.get(openshift.SETTING):
        problem = "needs cert-manager in the cluster for its certificate, and nothing here deploys that"
        hint = "without it leave this out: pools are checked by the same rules before they are applied"
        place.notice(problem, hint)


def _check_multus(deployed: Deployed, networks: Sequence[Network]) -> None:
    """Say once that nothing in the input gives pods their networks: without Multus they start and have none."""
    if networks and deployed.section(MULTUS) is None and not deployed.settings.get(openshift.SETTING):
        problem = "needs Multus, which the input does not deploy: without it pods start, and have no such network"
        hint = f"add {MULTUS} to the NicClusterPolicy, or make sure that the cluster has it"
        networks[0].place.notice(problem, hint)


def _check_open_vswitch(networks: Sequence[Network], brought: Sequence[str]) -> None:
    """Say once that programs which come with a network are of no use by themselves: they set up a switch's ports."""
    for network in networks:
        for path, program in nad.programs_of(network.config) if network.valid else ():
            if program in sriov_networks.OPEN_VSWITCH and program in brought:
                problem = f"needs Open vSwitch on the nodes, which nothing here installs: {program} fails without it"
                hint = f"install it and add the bridge; the program connects to {_OPEN_VSWITCH_SOCKET}"
                place_in(network, path).notice(problem, hint)
                return


def _check_programs(network: Network, deployed: Deployed, brought: Sequence[str]) -> None:
    """Name programs of a network that nothing in the input puts on the nodes, or that refuse it.

    ``brought`` are those that come with networks.
    """
    for path, program in nad.programs_of(network.config):
        section = PROVIDERS.get(program)
        if section in _OF_OPENSHIFT and deployed.settings.get(openshift.SETTING):
            continue
        component = SECTIONS[section].component if section else ""
        version = deployed.version(component, section) if section else None
        if program in brought or version is not None:
            for odd in cni_version_remarks(component, nad.cni_version_of(network.config), version or ""):
                place_in(network, path).remark(odd)
            continue
        problem = f"names the program {program}, which the input does not deploy: pods fail on a node without it"
        # Anybody may install a program of their own, such as macvtap of KubeVirt.
        own = "; ".join(filter(None, (_ON_THE_NODES, nearest(program, PROVIDERS))))
        hint = f"add {section} to the NicClusterPolicy, or make sure that nodes have it" if section else own
        place_in(network, path).notice(problem, hint)


def _check_pools(network: Network, deployed: Deployed, known: Mapping[PoolKey, None]) -> None:
    """Name the pools of a network that are not part of the input, whose pools are ``known``, in its order."""
    for path, key in nad.pools_of(network.config, network.name):
        if key in known:
            continue
        other = next((pool.type for pool in known if pool.name == key.name), "")
        names = [pool.name for pool in known if pool.type == key.type]
        hint = f'"poolType": "{other}" means the one that is given' if other else nearest(key.name, names)
        problem = f"takes addresses from the {key.type} {key.name}, which is not part of the input"
        place_in(network, path).notice(
            problem, hint or f"the cluster has to have it, in the namespace {deployed.namespace}"
        )


def _check_keys(network: Network, version: str | None) -> None:
    """Name the keys that the release of nv-ipam does not read; ``version`` is None where the input deploys none."""
    if version is None:
        for path in nad.ignored_by_release(network.config, has_daemon=True):
            place_in(network, path).notice("is only read by nv-ipam before v0.1.0", "leave it out for a newer release")
        return
    has_daemon = reads_pool_objects(version)
    for path in nad.ignored_by_release(network.config, has_daemon=has_daemon):
        place, problem = place_in(network, path), f"nv-ipam {version} ignores it"
        if has_daemon:
            place.violation(problem, "leave it out: the plugin asks the daemon of its node for addresses")
        else:
            place.notice(problem, "v0.1.0 and newer ask a daemon on the node, and read it or more of its kind")


def _check_pools_of_config(network: Network, version: str) -> None:
    """Refuse two pools of one network: a release that reads a ConfigMap takes both names for one."""
    paths = [path for path, _key in nad.pools_of(network.config, network.name)]
    for path in dict.fromkeys(each for each in paths if paths.count(each) > 1):
        problem = f"names two pools, and nv-ipam {version} takes addresses from one"
        place_in(network, path).violation(problem, "name one of them, or use v0.1.1 or newer")


def place_in(network: Network, path: str) -> Place:
    """Return where a network's configuration says what stands at ``path`` of it."""
    if network.kind == ATTACHMENT_KIND:
        return network.place.inside(path)
    field = nad.field_of(path)
    return network.place if field == "type" else field_place(network.place, field)
