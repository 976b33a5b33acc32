# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts of a run are interrupted in turn, in which order, and how many nodes may be out of service at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Collection, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.domains import alternating, domain_of
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import SKIP_NODE
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import (
    drained,
    kept_notice,
    nodes_of,
    parallel_of_policies,
    without_turn,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.values import value_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX

_MOST_NAMED = 10
# A limit of 0 is without limit. A slot that nobody renews for so long belongs to a run that is dead.
_WITHOUT_LIMIT_SECONDS = 86400


@dataclass(frozen=True)
class Turn:
    """One host that has a turn: its node, whether it goes before the others, and how long it may take.

    One that is not ``due`` is not interrupted: only what an earlier run left of its node is healed. ``links`` is what
    its RDMA ports offered when the run began. ``domain`` is the failure domain of its node, empty without one, and
    ``domain_total`` how many hosts of the fabric are in it.
    """

    host: str
    node: str
    due: bool
    canary: bool
    seconds: int
    links: Sequence[Mapping[str, Any]]
    domain: str = ""
    domain_total: int = 0


@dataclass(frozen=True)
class NoTurn:
    """One host that would have a turn and has none, and why; one that ``failed`` keeps the others from theirs."""

    host: str
    msg: str
    failed: bool = False


@dataclass(frozen=True)
class Turns:
    """All of them in their order; ``limit`` is a number, a percentage, or 0 without limit.

    ``label`` says which nodes are of one failure domain, and ``domain_limit`` how many of these are out of service.
    ``left_out`` are the hosts that go without a turn, though they need one.
    """

    turns: Sequence[Turn]
    limit: str
    label: str = ""
    domain_limit: str = ""
    left_out: Sequence[NoTurn] = ()


@dataclass(frozen=True)
class Domains:
    """The values of a label by node, for those that have it, and the limit in each domain; no label: no domains."""

    label: str = ""
    limit: str = "1"
    values: Mapping[str, str] = field(default_factory=dict)

    def of(self, node: str) -> str:
        """Return the domain of a node, empty for one without the label."""
        return domain_of(self.label, self.values[node]) if self.label and node in self.values else ""


def turns_of(
    hosts: Sequence[str],
    variables: Mapping[str, Mapping[str, Any]],
    policies: Mapping[str, Mapping[str, Any]],
    *,
    fabric: Sequence[str] = (),
    slots: Collection[str],
    skipped: Collection[str] = (),
    canaries: Collection[str],
    limit: str,
    domains: Domains | None = None,
) -> Turns:
    """Return the turns of those hosts that need one: first those of nodes that have a slot, with the canaries.

    Of the others, failure domains alternate, so that those who wait for a slot are not all of one.

    ``variables`` are those of every host, as ``hostvars`` has them; ``policies`` say what a host's policy asks for.
    ``fabric`` are all hosts, of which this run may have some. ``slots`` are the nodes that have a slot: what an earlier
    run left there is healed. Of the nodes that are ``skipped`` by their label none begins, and those with a slot go on,
    as in upstream's upgrades. ``limit`` wins over policies.
    """
    found, left_out = [], []
    domains = domains or Domains()
    nodes = nodes_of(fabric or hosts, variables)
    totals = Counter(domains.of(node) for node in nodes.values())
    for host in hosts:
        own, node = variables.get(host, {}), nodes[host]
        due = needs_turn(own)
        if due and node in skipped and node not in slots:
            left_out.append(NoTurn(host, f"its node {node} has the label {SKIP_NODE}"))
        elif due or (node in slots and _may_be_changed(own)):
            seconds = seconds_of(own, (policies.get(host) or {}).get("drain") or {})
            links = (own.get("rdma_fabric_host_result") or {}).get("links") or []
            domain = domains.of(node)
            total = totals[domain] if domain else 0
            # A canary may wait for what an earlier run left, so that does not come after it.
            first = host in canaries or (bool(canaries) and node in slots)
            found.append(Turn(host, node, due, first, seconds, links, domain, total))
    found = alternating(found, lambda turn: turn.domain)
    # Others may wait for what an earlier run left.
    found.sort(key=lambda turn: (not turn.canary, turn.node not in slots))
    of_policies = parallel_of_policies([turn.host for turn in found], variables, policies, unless_given=True)
    limit = limit or {"100%": "0"}.get(of_policies, of_policies)
    return Turns(found, limit, domains.label, domains.limit if domains.label else "", left_out)


def needs_turn(variables: Mapping[str, Any]) -> bool:
    """Return whether a host needs to be interrupted, by what a look at it in check mode has registered."""
    result = variables.get("rdma_fabric_host_result") or {}
    if not _may_be_changed(variables):
        return False
    return bool(result.get("changed") or (result.get("reboot_required") and _value("allow_reboot", variables)))


def in_turn(turn: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, bool]:
    """Return whether a host is still ``due`` to be interrupted in its turn, by the last look at it, and ``spared``.

    One that only prepares a reboot which this run may not do is spared: its pods are no matter to that.
    """
    result = variables.get("rdma_fabric_host_result") or {}
    unread = bool(result.get("failed") or result.get("unreachable"))
    due = bool(turn["due"])
    return {
        "due": due and (unread or needs_turn(variables)),
        "spared": due and bool(result.get("reboot_only")),
    }


def seconds_of(variables: Mapping[str, Any], drain: Mapping[str, Any]) -> int:
    """Return how long the turn of a host may take, in seconds, by its limits or those of its policy's ``drain``."""
    pods = _value("drain_timeout", variables, drain.get("timeout"))
    jobs = _value("drain_wait_timeout", variables, drain.get("wait_timeout"))
    waits_for_jobs = _value("drain_wait_for", variables, drain.get("wait_for"))
    # Installing a driver and building its modules, above all.
    work = _value("host_timeout", variables)
    if not pods or not work or (waits_for_jobs and not jobs):
        return _WITHOUT_LIMIT_SECONDS
    # The pods' limit counts twice: for their end, and for the node to be ready again.
    return int(work + 2 * pods + jobs + _value("reboot_timeout", variables))


def with_refused(turns: Turns, reasons: Mapping[str, str]) -> Turns:
    """Return the turns; none where a host has a reason to be refused one, as nobody is interrupted then."""
    refused = [NoTurn(turn.host, reasons[turn.host], failed=True) for turn in turns.turns if reasons.get(turn.host)]
    return replace(turns, turns=[], left_out=[*turns.left_out, *refused]) if refused else turns


def turn_notices(turns: Turns, variables: Mapping[str, Mapping[str, Any]], *, removes: bool = False) -> list[str]:
    """Return what is said before the first turn: whose it is, how many at once, and whose pods are cut off."""
    hosts = [turn.host for turn in turns.turns]
    left_out = skip_notice([each.host for each in turns.left_out if not each.failed])
    if not hosts:
        return left_out
    safe = frozenset(drained(hosts, variables, unless_given=True))
    results = {turn.host: variables.get(turn.host, {}).get("rdma_fabric_host_result") or {} for turn in turns.turns}
    spared = [turn.host for turn in turns.turns if turn.due and results[turn.host].get("reboot_only")]
    cut_off = [host for host in hosts if host not in safe and host not in spared]
    nodes = f"{turns.limit} of the nodes" if turns.limit.endswith("%") else f"{turns.limit} nodes"
    pace = {"0": "without limit", "1": "one node out of service at once"}.get(
        turns.limit, f"{nodes} out of service at once"
    )
    said = f"to be {'torn down' if removes else 'changed'} in turn, {pace}: {named(hosts, _MOST_NAMED)}"
    first = [turn.host for turn in turns.turns if turn.canary]
    if first and len(first) < len(hosts):
        said += f"; before the others {named(first, _MOST_NAMED)}"
    said = f"{said}; nothing is drained for {named(cut_off, _MOST_NAMED)}" if cut_off else said
    waits = f"not drained, as they only get what a reboot needs that {PREFIX}allow_reboot does not allow"
    due = [turn.host for turn in turns.turns if turn.due and turn.host in safe]
    kept = kept_notice([host for host in due if _value("allow_reboot", variables.get(host, {}))], variables)
    return [said, *kept, *_naming(waits, spared), *_domain_notices(turns), *left_out]


def skip_notice(hosts: Sequence[str]) -> list[str]:
    """Return the notice that names hosts which are not upgraded, as the label of their nodes asks for."""
    return _naming(f"without a turn, as their nodes have the label {SKIP_NODE}", hosts)


def canary_notice(hosts: Sequence[str]) -> list[str]:
    """Return the notice that names canaries after which nobody waits."""
    return _naming("no canary goes first, as none of them has a turn in this run", hosts)


def down_notice(nodes: Mapping[str, str]) -> list[str]:
    """Return the notice that names nodes which are out of service already, each with why.

    The limit is of nodes that are changed, as ``maxParallelUpgrades`` is: the Network Operator sets no maxUnavailable,
    without which those do not count (NVIDIA/k8s-operator-libs, GetUpgradesAvailable).
    """
    said = (
        "out of service already, and not counted in this limit (lower rdma_fabric_max_unavailable by them if need be)"
    )
    return _naming(said, [f"{node} ({why})" for node, why in sorted(nodes.items())])


def unskipped_notice(hosts: Sequence[str]) -> list[str]:
    """Return the notice that names hosts which are torn down, though their nodes are to be left out of upgrades."""
    return _naming(f"torn down anyway, as the label {SKIP_NODE} is about upgrades", hosts)


def _naming(said: str, hosts: Sequence[str]) -> list[str]:
    return [f"{said}: {named(hosts, _MOST_NAMED)}"] if hosts else []


def left_out_of_turns(hosts: Sequence[str], variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the hosts that this run has left without a turn, not counting those that it fails for."""
    without = without_turn(variables)
    return [host for host in hosts if host in without and not without[host].get("failed")]


def _domain_notices(turns: Turns) -> list[str]:
    """Return what is said of failure domains: how many nodes of each, and which nodes are in none."""
    if not turns.label:
        return []
    nodes = {"0": "any number of nodes", "1": "one node"}.get(turns.domain_limit, f"{turns.domain_limit} nodes")
    nodes = f"{turns.domain_limit} of the nodes" if turns.domain_limit.endswith("%") else nodes
    domains = sorted({turn.domain for turn in turns.turns} - {""})
    without = [turn.node for turn in turns.turns if not turn.domain]
    found = [f"{nodes} of each failure domain at once: {named(domains, _MOST_NAMED)}"] if domains else []
    if without:
        found.append(f"without the label {turns.label}, so in no failure domain: {named(without, _MOST_NAMED)}")
    return found


def _may_be_changed(variables: Mapping[str, Any]) -> bool:
    result = variables.get("rdma_fabric_host_result") or {}
    return bool(result) and not result.get("recorded") and _value("host_mode", variables) not in ("preview", "kept")


def _value(short: str, variables: Mapping[str, Any], otherwise: Any = None) -> Any:
    """Return the value of a variable of a host, else ``otherwise``, else what the table says stands for it."""
    row = TABLE[f"{PREFIX}{short}"]
    value = value_of(row, variables.get(row.name))[0]
    if value is not None:
        return value
    return row.default if otherwise is None else otherwise
