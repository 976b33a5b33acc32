# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the sections beside networks need that nothing in the input brings. Private to this collection, may change."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..checks import doca_telemetry, ib_kubernetes, nad
from .attachments import Network
from .components import Deployed, place_in
from .resources import Resource

FEATURES = "nicFeatureDiscovery"
TELEMETRY = "docaTelemetryService"
GUIDS = "ibKubernetes"
_MOST_NAMED = 6


def check(deployed: Deployed, networks: Sequence[Network], objects: Sequence[Resource]) -> None:
    """Hold the sections against the networks, the hosts and the objects that are given beside them."""
    cluster = deployed.cluster
    if cluster is not None and deployed.section(FEATURES) is not None and not deployed.settings.get("nfd"):
        problem = "writes what it finds for NFD, which is not deployed here: without NFD nodes get no label of it"
        hint = "set rdma_fabric_nfd: true, or make sure that the cluster's NFD reads features.d (its local source)"
        cluster.at(FEATURES).notice(problem, hint)
    telemetry = deployed.section(TELEMETRY)
    if telemetry is not None and doca_telemetry.config_map_of(telemetry):
        _check_configuration(deployed, doca_telemetry.config_map_of(telemetry), objects)
    _name_small_masters(deployed, networks)
    manager = deployed.section(GUIDS)
    if manager is None:
        _name_waiting(networks)
    elif manager.get(ib_kubernetes.SECRET):
        _check_secret(deployed, manager[ib_kubernetes.SECRET], objects)
        _name_doubled(deployed, manager)


def _name_small_masters(deployed: Deployed, networks: Sequence[Network]) -> None:
    """Name the hosts whose interface is asked for a smaller MTU than a network on it: no pod of it starts there."""
    held: dict[str, dict[int, list[str]]] = {}
    for host, desired in deployed.hosts.items():
        for entry in desired.get("interfaces") or ():
            name, mtu = entry.get("name") or entry.get("current_name"), entry.get("mtu")
            if name and mtu:
                held.setdefault(name, {}).setdefault(mtu, []).append(host)
    for network in networks:
        for path, master, wanted in nad.mtus_over_masters(network.config) if network.valid else ():
            smaller = {mtu: hosts for mtu, hosts in held.get(master, {}).items() if mtu < wanted}
            if smaller:
                hosts = [host for mtu in sorted(smaller) for host in smaller[mtu]]
                least = f"{min(smaller)} to {max(smaller)}" if len(smaller) > 1 else str(min(smaller))
                problem = (
                    f"is {wanted}, and rdma_fabric_interfaces asks {master} for {least} on "
                    f"{named(hosts, _MOST_NAMED)}: no pod with this network starts there"
                )
                place_in(network, path).notice(problem, f"at most {min(smaller)} here, or a larger mtu of {master}")


def _name_waiting(networks: Sequence[Network]) -> None:
    """Name the networks whose pods wait for a GUID that nobody in the input gives them."""
    problem = "waits for a GUID from ib-kubernetes, which the input does not deploy: pods fail without it"
    hint = "add ibKubernetes to the NicClusterPolicy, keep what deploys it, or drop ibKubernetesEnabled"
    for network in networks:
        for path in nad.waits_for_guid(network.config) if network.valid else ():
            place_in(network, path).notice(problem, hint)


def _check_configuration(deployed: Deployed, name: str, objects: Sequence[Resource]) -> None:
    """Judge the ConfigMap of the telemetry service where it is given, name it where it is not."""
    for given in _given("ConfigMap", name, deployed.namespace, objects):
        held = {**_texts(given.content.get("data")), **_texts(given.content.get("binaryData"))}
        if doca_telemetry.KEY not in held:
            problem = f"lacks {doca_telemetry.KEY}, which the telemetry service reads"
            given.place.at("data").violation(problem, "put the configuration under this key")
        return
    if deployed.cluster is not None:
        problem = f"names the ConfigMap {name}, which is not part of the input: pods wait for it"
        hint = f"the namespace {deployed.namespace} has to have it, with the key {doca_telemetry.KEY}"
        deployed.cluster.at(TELEMETRY).at("config", "fromConfigMap").notice(problem, hint)


def _check_secret(deployed: Deployed, name: str, objects: Sequence[Resource]) -> None:
    """Judge the Secret with the access to UFM where it is given, name it where it is not."""
    keys = ", ".join(ib_kubernetes.SECRET_KEYS)
    for secret in _given("Secret", name, deployed.namespace, objects):
        held = {**_texts(secret.content.get("data")), **_texts(secret.content.get("stringData"))}
        missing = [key for key in ib_kubernetes.SECRET_KEYS if not held.get(key)]
        if missing:
            problem = f"lacks {', '.join(missing)}, without which ib-kubernetes does not start"
            secret.place.violation(problem, "add them to data or stringData")
        return
    if deployed.cluster is not None:
        problem = f"names the Secret {name}, which is not part of the input"
        hint = f"the namespace {deployed.namespace} has to have it, with {keys}"
        deployed.cluster.at(GUIDS).at(ib_kubernetes.SECRET).notice(problem, hint)


def _name_doubled(deployed: Deployed, manager: Mapping[str, Any]) -> None:
    """Name the hosts whose functions have GUIDs that pods may get as well."""
    hosts = [host for host, desired in deployed.hosts.items() if ib_kubernetes.shared_guid(manager, _spans(desired))]
    if hosts and deployed.cluster is not None:
        problem = f"holds GUIDs that VFs have on {named(hosts, _MOST_NAMED)}: two ports may get one GUID"
        hint = "keep the pool apart from vf_guids in rdma_fabric_interfaces"
        deployed.cluster.at(GUIDS).at(ib_kubernetes.START).notice(problem, hint)


def _spans(desired: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield first and last of the GUIDs that functions of a host are given; deterministic ones are its ports'."""
    for entry in desired.get("interfaces") or ():
        given = entry.get("vf_guids")
        ranged = isinstance(given, Mapping) and "first" not in given
        pairs = []
        for guids in given.values() if ranged else [given]:
            pairs += [(guids["first"], guids["last"])] if isinstance(guids, Mapping) else []
            pairs += [(guid, guid) for guid in guids] if isinstance(guids, list) else []
        for texts in pairs:
            first, last = (ib_kubernetes.guid_number(text) for text in texts)
            if first is not None and last is not None:
                yield first, last


def _given(kind: str, name: str, namespace: str, objects: Sequence[Resource]) -> Iterator[Resource]:
    """Yield the objects of a name that are given for a namespace."""
    for each in objects:
        if (each.kind, each.name, each.namespace) == (kind, name, namespace):
            yield each


def _texts(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
