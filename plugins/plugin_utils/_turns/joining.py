# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run in which nodes join: which hosts it is about, which of them go on, and what keeps it from beginning."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import CONTROLLER, Unfinished, one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX

from .teardown import objections

Variables = Mapping[str, Mapping[str, Any]]

TAINT = f"{PREFIX}join_taint"
_MOST_NAMED = 10


def objections_to_join(spec: Mapping[str, Any], sealed: bool, plan_file: str) -> list[str]:
    """Return what keeps a run from letting nodes join."""
    found = objections(sealed, plan_file, "join")
    if (spec.get("settings") or {}).get("join_taint"):
        return found
    without = (
        f"{TAINT} is not set, so nothing keeps pods off a node before it is verified: set it for localhost or in "
        "group_vars/all, to example.com/joining:NoSchedule for instance, and let kubelets register with it "
        "(docs/guide-new-nodes.md)"
    )
    return [without, *found]


def joining_hosts(hosts: Sequence[str], variables: Variables) -> list[str]:
    """Return the hosts whose nodes are yet to be verified, by what ``node_join`` registered for each."""
    return [host for host in hosts if _registered(variables, host, "rdma_fabric_host_join").get("joining")]


def not_as_wanted(hosts: Sequence[str], variables: Variables) -> list[Unfinished]:
    """Return those of the hosts whose nodes can't be let in yet, though nothing has failed on them.

    Something of their plan is left, or the cluster objects are not what they would be verified with.
    """
    found = []
    for host in joining_hosts(hosts, variables):
        result = _registered(variables, host, "rdma_fabric_host_result")
        summary = result.get("summary") or {}
        if summary.get("steps") or result.get("reboot_required"):
            found.append(Unfinished(host, f"does not match its spec yet: {one_line(result.get('msg'))}"))
        elif not_pushed(variables, host):
            why = not_pushed(variables, host)
            found.append(Unfinished(host, f"not verified: the cluster objects do not match the input: {why}"))
    return found


def not_pushed(variables: Variables, host: str) -> str:
    """Return why the cluster objects are not what they are to be, by what the push has registered.

    One that only timed out is no reason: what a node needs is looked at on the node.
    """
    harm = _registered_of_push(variables, host, "rdma_fabric_hosts_result").get("cluster_side") or ()
    if harm:
        return one_line("; ".join(str(each["what"]) for each in harm))
    result = _registered_of_push(variables, host, "rdma_fabric_cluster_result")
    if not result.get("failed"):
        return ""
    faults = result.get("failures") or [{}]
    waited = not result.get("not_applied") and all(each.get("fault") == "timeout" for each in faults)
    return "" if waited else one_line(result.get("msg"))


def say_who_is_left(hosts: Sequence[str], variables: Variables) -> list[str]:
    """Return the notice about hosts whose nodes work and that are not as wanted."""
    left = [
        host
        for host in hosts
        if _registered(variables, host, "rdma_fabric_host_join").get("joining") is False
        and (_registered(variables, host, "rdma_fabric_host_result").get("summary") or {}).get("steps")
    ]
    if not left:
        return []
    return [
        f"not matching their spec, but left alone because their nodes work: {named(left, _MOST_NAMED)}; "
        "rdma.fabric.upgrade changes them, node by node"
    ]


def say_interruptions(reload: Sequence[str], reboot: Sequence[str]) -> list[str]:
    """Return the notices about hosts that are interrupted before their nodes take pods."""
    pace = f"one after the other unless {PREFIX}reboot_parallel says otherwise"
    return [
        f"to {what}, {pace}: {named(list(hosts), _MOST_NAMED)}; their nodes take no pods yet, so none is drained"
        for what, hosts in (("have their NIC driver reloaded", reload), ("be rebooted", reboot))
        if hosts
    ]


def _registered_of_push(variables: Variables, host: str, name: str) -> Mapping[str, Any]:
    return _registered(variables, host, name) or _registered(variables, CONTROLLER, name)


def _registered(variables: Variables, host: str, name: str) -> Mapping[str, Any]:
    found = (variables.get(host) or {}).get(name)
    return found if isinstance(found, Mapping) else {}
