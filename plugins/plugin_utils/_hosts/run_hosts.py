# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts of a run failed or were not reached, why, and what to do.

Ansible goes on with the next play while one host of a play is left, so a play for the cluster has to look by itself.
"""

from __future__ import annotations

import re
from typing import Any, Collection, Iterable, Mapping, NamedTuple, Sequence

from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.labels import fits
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation, named
from ansible_collections.rdma.fabric.plugins.plugin_utils._console.host_names import fold, host_list
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.texts import is_blank
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.values import value_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX

from .hooks import HOOK, why_hook_failed
from .values import VariableSource
from .variables import labels_read, names_by_facts

CONTROLLER = "localhost"
TURNS, END = "_rdma_fabric_turns", "_rdma_fabric_host_end"
_MOST_NAMED = 10
# What stays of a long message: its beginning, with the cause, and its end, as errors end with the next step.
_BEGIN_CHARACTERS, _END_CHARACTERS = 300, 120
_NODE_NAME = TABLE[f"{PREFIX}node_name"]
_HOST_MODE = TABLE[f"{PREFIX}host_mode"]
_WIRE_TEST = TABLE[f"{PREFIX}wire_test"]
_DRAIN_PODS = TABLE[f"{PREFIX}drain_pods"]


class Unfinished(NamedTuple):
    """A host that was not brought to the end of its play, and why in one line."""

    host: str
    why: str


def taking_part(
    hosts: Sequence[str], groups: Mapping[str, Iterable[str]], limit: str | None, loader: DataLoader
) -> list[str]:
    """Return those of ``hosts`` that ``limit``, the argument of ``--limit``, leaves in the run; all without one.

    ``groups`` are the names of all hosts of the inventory by group. Raises AnsibleError for a limit that can't be read.
    """
    if not limit:
        return list(hosts)
    manager = _inventory(groups, loader)
    manager.subset(limit)
    # All hosts are not the one that the inventory leaves out and every inventory has.
    within = {host.name for pattern in ("all", "localhost") for host in manager.get_hosts(pattern)}
    return [host for host in hosts if host in within]


def tested_spec(spec: Json, task_vars: Mapping[str, Any], loader: DataLoader) -> Json:
    """Return a FabricSpec with the hosts that are tested with each other: those within the limit of a task's run.

    A limit that names localhost alone is about the cluster, with all its nodes. Raises InvalidInput for a single host.
    """
    limit = task_vars.get("ansible_limit")
    hosts = taking_part(list(spec["hosts"]), task_vars.get("groups") or {}, limit, loader)
    if limit and len(hosts) == 1:
        problem = f"leaves only {hosts[0]} of the fabric's hosts in the run, and a test takes two nodes"
        hint = "name another host beside it, or test the node with a neighbour: fabric_verify with its name as node"
        raise InvalidInput([Violation(f"--limit {limit}", "", problem, hint)])
    return {**spec, "hosts": {host: spec["hosts"][host] for host in hosts}} if hosts else spec


def hosts_of(pattern: str, task_vars: Mapping[str, Any], loader: DataLoader) -> list[str]:
    """Return the hosts of the inventory that a pattern matches, none for one that can't be read."""
    try:
        found = _inventory(task_vars.get("groups") or {}, loader).get_hosts([pattern])
    except AnsibleError:
        return []
    return [host.name for host in found]


def _inventory(groups: Mapping[str, Iterable[str]], loader: DataLoader) -> InventoryManager:
    manager = InventoryManager(loader=loader, parse=False)
    for group, members in groups.items():
        manager.add_group(group)
        for member in members:
            manager.add_host(member, group=group)
    return manager


def taking_part_in_turn(hosts: Sequence[str], task_vars: Mapping[str, Any], loader: DataLoader) -> list[str]:
    """Return those of ``hosts`` that the limit of a task's run leaves in it, from the task's variables.

    The host of the task itself is: in its turn no inventory of all hosts is built for it alone. Raises AnsibleError.
    """
    if list(hosts) == [task_vars.get("inventory_hostname")]:
        return list(hosts)
    return taking_part(hosts, task_vars.get("groups") or {}, task_vars.get("ansible_limit"), loader)


def unfinished_hosts(
    hosts: Iterable[str], variables: Mapping[str, Mapping[str, Any]], *, rolled_back: bool = False
) -> list[Unfinished]:
    """Return the hosts that the role ``rdma.fabric.host`` did not bring to its end, from what it registered for each.

    ``variables`` are those of every host, as ``hostvars`` has them. ``rolled_back`` is whether this look comes after
    their rollback.
    """
    found, without = [], without_turn(variables)
    for host in hosts:
        own = variables.get(host, {})
        by_facts = names_by_facts(own)
        if by_facts:
            names = ", ".join(map(one_line, by_facts))
            found.append(Unfinished(host, f"failed: its facts set {names}, which only the inventory may"))
            continue
        why = _why_before(host, own.get(END) or {})
        if why:
            # What is registered since then is about going back. A later look has what an earlier one has said of it.
            went_back = _of_its_rollback(own, why, rolled_back=rolled_back)
            why = "; ".join((why, *(said for said in went_back if said not in why)))
        else:
            why = why_unfinished(
                own.get("rdma_fabric_host_result"),
                own.get("_rdma_fabric_host_reboot"),
                [*([without[host]] if host in without else []), *_of_its_node(own)],
            )
        if why:
            found.append(Unfinished(host, why))
    return found


def _why_before(host: str, end: Mapping[str, Any]) -> str:
    """Return why a host did not finish by an earlier look at it, else by the task that has released its slot."""
    found = [each["why"] for each in end.get("unfinished") or () if each["host"] == host]
    return str(found[0] if found else end.get("reason") or "")


def without_turn(variables: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return what was found of each host that would have a turn and has none, which localhost keeps for all hosts."""
    left = variables.get(CONTROLLER, {})
    turns, reboots = (left.get(f"_rdma_fabric_{each}") or {} for each in ("turns", "reboots"))
    return {str(each["host"]): each for each in (turns.get("left_out") or reboots.get("refused") or ())}


def _of_its_node(variables: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what was registered of the node of a host: its slot or taint, its drain, its wire, its return."""
    names = (
        "_rdma_fabric_host_slot",
        "rdma_fabric_host_join",
        "_rdma_fabric_host_drain",
        HOOK,
        "_rdma_fabric_host_ready",
        "_rdma_fabric_host_wire",
        "_rdma_fabric_host_given_back",
        END,
    )
    kept = {name: variables[name] for name in names if name in variables}
    if kept.get(HOOK):
        kept[HOOK] = {"failed": True, "msg": why_hook_failed(kept[HOOK])}
    return list(kept.values())


def _of_its_rollback(variables: Mapping[str, Any], failed_by: str, *, rolled_back: bool) -> list[str]:
    """Return what became of bringing a host back to what it was before its turn has failed, in one line if any."""
    # Of its node, or the look at that before the host is changed again.
    look = variables.get("_rdma_fabric_host_drain") or {}
    if look.get("failed"):
        # What the turn has failed by is said already.
        return [] if one_line(look.get("msg")) in failed_by else [f"not rolled back: {one_line(look.get('msg'))}"]
    if not rolled_back:
        return []
    result = variables.get("rdma_fabric_host_result") or {}
    why = why_unfinished(result, variables.get("_rdma_fabric_host_reboot"))
    if why:
        return [f"not rolled back: {why}"]
    if not result.get("previous_known"):
        return ["not rolled back, as no earlier state of it is known"]
    if result.get("reboot_required"):
        return ["rolled back for its next boot, which needs rdma_fabric_allow_reboot"]
    return ["rolled back to what it was before"]


def why_unfinished(
    result: Mapping[str, Any] | None, reboot: Mapping[str, Any] | None, node: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Return why a host did not come to its end, nothing when it did.

    ``result`` is what its last call of ``rdma_host`` registered, ``reboot`` what its reboot did; None without one.
    ``node`` is what was done to its node in the cluster, for that.
    """
    if result is None:
        return "failed before it was read; its own error says why"
    for outcome in (reboot or {}, result, *node):
        said = one_line(outcome.get("msg"))
        if outcome.get("unreachable"):
            return f"unreachable: {said}"
        if outcome.get("failed"):
            return f"failed: {said}"
    if reboot is not None and not reboot.get("skipped") and result.get("reboot_required"):
        return "failed: it was rebooted and came back without what the reboot was for"
    return ""


def one_line(message: object) -> str:
    """Return the message of a result in one line of bounded length; a longer one loses its middle."""
    said = " ".join(str(message or "its own error says why").split())
    if len(said) <= _BEGIN_CHARACTERS + _END_CHARACTERS:
        return said
    begin, end = said[:_BEGIN_CHARACTERS], said[-_END_CHARACTERS:]
    return f"{begin.rstrip()} [...] {end.lstrip()}"


def was_read(variables: Mapping[str, Any]) -> bool:
    """Return whether a call of ``rdma_host`` got as far as reading and planning its host, by what it registered."""
    return "summary" in (variables.get("rdma_fabric_host_result") or {})


def due_for_reboot(hosts: Iterable[str], variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the hosts that need a reboot and have the consent to it, by what ``rdma_host`` registered for each."""
    return [host for host in hosts if (variables.get(host, {}).get("rdma_fabric_host_result") or {}).get("reboot_due")]


def due_for_reload(hosts: Iterable[str], variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the hosts whose driver is to be reloaded in their turn, by what ``rdma_host`` registered for each."""
    return [host for host in hosts if (variables.get(host, {}).get("rdma_fabric_host_result") or {}).get("reload_due")]


def is_done(variables: Mapping[str, Any]) -> bool:
    """Return whether a host was finished and waits for nothing, so that its node may take pods."""
    result = variables.get("rdma_fabric_host_result") or {}
    waits = any(result.get(key) for key in ("skipped", "recorded", "reload_due", "reboot_required"))
    return (
        bool(result)
        and not waits
        and value_of(_HOST_MODE, variables.get(_HOST_MODE.name))[0] not in ("preview", "kept")
    )


def shown_later(hosts: Iterable[str], variables: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return what ``rdma_host`` kept of each host to be printed with the others'; hosts without it are left out."""
    results = {host: variables.get(host, {}).get("rdma_fabric_host_result") or {} for host in hosts}
    return {host: result["shown_later"] for host, result in results.items() if "shown_later" in result}


def drained(
    hosts: Iterable[str],
    variables: Mapping[str, Mapping[str, Any]],
    policies: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    unless_given: bool = False,
) -> list[str]:
    """Return the hosts whose nodes are drained before they are interrupted.

    Without a value of the host, ``unless_given`` counts, and whether its policy loads drivers on drained nodes only.
    """
    asked = {host: variables.get(host, {}).get("rdma_fabric_drain") for host in hosts}
    safe = frozenset(host for host, policy in (policies or {}).items() if policy.get("safe_load"))
    return [
        host
        for host, value in asked.items()
        if boolean((unless_given or host in safe) if value is None or is_blank(value) else value, strict=False)
    ]


def wire_tested(hosts: Iterable[str], variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the hosts whose wire is tested before their nodes are uncordoned."""
    return [host for host in hosts if value_of(_WIRE_TEST, variables.get(host, {}).get(_WIRE_TEST.name))[0]]


def wire_notices(hosts: Iterable[str], variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what the wire tests of this run have found worth a look, beside what failed."""
    found = [(variables.get(host, {}).get("_rdma_fabric_host_wire") or {}).get("notices") or [] for host in hosts]
    return [notice for notices in found for notice in notices]


def cordon_notices(hosts: Iterable[str], variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the notice that names nodes which this run gave back and which take no pods all the same."""
    found = [variables.get(host, {}).get("_rdma_fabric_host_given_back") or {} for host in hosts]
    nodes = [each["node"] for each in found if each.get("cordoned") and not each.get("failed")]
    by_hand = "kubectl uncordon NODE, when it may take pods"
    return [f"still cordoned, as somebody else did that: {named(nodes, _MOST_NAMED)} ({by_hand})"] if nodes else []


def node_of(host: str, own: VariableSource) -> str:
    """Return the name of the node of a host: what ``rdma_fabric_node_name`` of its variables says, else the host's."""
    return str(value_of(_NODE_NAME, own.get(_NODE_NAME.name))[0] or "").strip() or host


def nodes_of(hosts: Collection[str], variables: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the name of the node of each host."""
    # A spec may have hosts that this inventory has not, of which Ansible's own mapping gives no default.
    own = {host: variables[host] for host in hosts if host in variables}
    return {host: node_of(host, own.get(host, {})) for host in hosts}


def drains_of_policies(
    hosts: Iterable[str], variables: Mapping[str, Mapping[str, Any]], rollouts: Sequence[Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """Return what the policy of each host says of its drain and of how many nodes at once; hosts without are left out.

    ``rollouts`` are those of a FabricSpec. The labels are what ``rdma_host`` has read.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for host in hosts:
        labels = labels_read(variables.get(host, {})) or {}
        fitting = [rollout for rollout in rollouts if fits(rollout, labels)]
        if fitting:
            found[host] = min(fitting, key=lambda rollout: str(rollout["source"]))
    return found


def parallel_of_policies(
    hosts: Sequence[str],
    variables: Mapping[str, Mapping[str, Any]],
    policies: Mapping[str, Mapping[str, Any]],
    *,
    unless_given: bool = False,
) -> str:
    """Return how many hosts may be interrupted at once by their policies, as a play's ``serial``: the least of all.

    A host without policy, and one that is not drained, goes alone; ``unless_given`` is as for :func:`drained`.
    """
    safe = frozenset(drained(hosts, variables, policies, unless_given=unless_given))
    limits = [int(policies[host]["parallel"]) if host in policies and host in safe else 1 for host in hosts]
    least = min((limit for limit in limits if limit), default=0)
    return str(least) if least else "100%"


def reboot_notice(hosts: Sequence[str], safe: Collection[str], parallel: str = "1") -> list[str]:
    """Return the notice that goes before reboots: whom they are about, and whose pods they cut off.

    ``safe`` are the hosts whose nodes are drained before.
    """
    return _turn_notice("to be rebooted", hosts, safe, parallel)


def kept_notice(hosts: Iterable[str], variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the notice that names hosts whose reboot ends more pods than their drain evicts."""
    keeping = [
        host for host in hosts if value_of(_DRAIN_PODS, variables.get(host, {}).get(_DRAIN_PODS.name))[0] != "all"
    ]
    said = "a reboot also ends the pods without devices, which the drain leaves there, whatever their budgets say"
    way = f"{_DRAIN_PODS.name}: all evicts them"
    return [f"{said} ({way}): {named(keeping, _MOST_NAMED)}"] if keeping else []


def reload_notice(hosts: Sequence[str], safe: Collection[str], parallel: str = "1") -> list[str]:
    """Return the notice that goes before reloads of the driver, which cut off as reboots do."""
    return _turn_notice("to have their NIC driver reloaded", hosts, safe, parallel)


def _turn_notice(what: str, hosts: Sequence[str], safe: Collection[str], parallel: str) -> list[str]:
    if not hosts:
        return []
    cut_off = [host for host in hosts if host not in safe]
    drains = "their nodes are drained before"
    if cut_off:
        whose = (
            "nothing is drained"
            if len(cut_off) == len(hosts)
            else f"nothing is drained for {named(cut_off, _MOST_NAMED)}"
        )
        drains = f"{whose}: set rdma_fabric_drain where workloads must not be cut off"
    pace = {"1": "one after the other", "100%": "all at once"}.get(parallel, f"{parallel} at once")
    return [f"{what}, {pace} unless rdma_fabric_reboot_parallel says otherwise: {named(hosts, _MOST_NAMED)}; {drains}"]


def headline(unfinished: Sequence[Unfinished], total: int) -> str:
    """Return how many of ``total`` hosts did not finish."""
    noun = "host" if total == 1 else "hosts"
    return f"{len(unfinished)} of {total} {noun} of this run did not finish"


def reasons(unfinished: Sequence[Unfinished], total: int, limit: str | None) -> list[str]:
    """Return one line for each reason, at most ten, and one with the next step. ``limit`` is that of this run.

    Hosts share a line if only their own names differ in what they failed by: for these HOST stands there.
    """
    alike: dict[str, list[Unfinished]] = {}
    for each in unfinished:
        own_name = rf"(?<![\w-]){re.escape(each.host)}(?![\w-])"
        alike.setdefault(re.sub(own_name, "HOST", each.why), []).append(each)
    groups = list(alike.items())
    lines = [
        f"  - {host_list(fold(each.host for each in hosts))}: {hosts[0].why if len(hosts) == 1 else why}"
        for why, hosts in groups[:_MOST_NAMED]
    ]
    rest = sum(len(hosts) for _why, hosts in groups[_MOST_NAMED:])
    more = [f"  - and {rest} more"] if rest else []
    return [*lines, *more, _next_step([each.host for each in unfinished], total, limit)]


def _next_step(hosts: Sequence[str], total: int, limit: str | None) -> str:
    them = "it" if len(hosts) == 1 else "them"
    step = f"next: fix {them} and run again"
    if len(hosts) == total:  # a limit that leaves out all of them is refused
        return step
    if len(hosts) > _MOST_NAMED:
        return f"{step}, or leave them out with --limit"
    return f"{step}, or leave {them} out: --limit '{','.join([limit or 'all', *(f'!{host}' for host in hosts)])}'"
