# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy of the cluster: the one that is given, with what Helm values and retired fields say."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from ..common.findings import Document, Findings, Place
from . import helm, pools
from .functions import FunctionPolicy
from .models import POLICY_NAME
from .policy import Policy
from .read import Input


def effective(given: Input, chart: helm.HelmInput) -> Policy | None:
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
