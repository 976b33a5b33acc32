# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts of a run were not brought to its end, why, and what to do. Private to this collection: it may change.

Ansible goes on with the next play while one host of a play is left, so a play for the cluster has to look by itself.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

CONTROLLER = "localhost"
_MOST_NAMED = 10
_MOST_WORDS = 300


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
    manager = InventoryManager(loader=loader, parse=False)
    for group, members in groups.items():
        manager.add_group(group)
        for member in members:
            manager.add_host(member, group=group)
    manager.subset(limit)
    # All hosts are not the one that the inventory leaves out and every inventory has.
    within = {host.name for pattern in ("all", "localhost") for host in manager.get_hosts(pattern)}
    return [host for host in hosts if host in within]


def unfinished_hosts(hosts: Iterable[str], variables: Mapping[str, Mapping[str, Any]]) -> list[Unfinished]:
    """Return the hosts that the role ``rdma.fabric.host`` did not bring to its end, from what it registered for each.

    ``variables`` are those of every host, as ``hostvars`` has them.
    """
    found = []
    for host in hosts:
        own = variables.get(host, {})
        why = why_unfinished(own.get("host_result"), own.get("host_reboot"))
        if why:
            found.append(Unfinished(host, why))
    return found


def why_unfinished(result: Mapping[str, Any] | None, reboot: Mapping[str, Any] | None) -> str:
    """Return why a host did not come to its end, nothing when it did.

    ``result`` is what its last call of ``rdma_host`` registered, ``reboot`` what its reboot did; None without one.
    """
    if result is None:
        return "failed before it was read; its own error says why"
    for outcome in (reboot or {}, result):
        said = " ".join(str(outcome.get("msg") or "its own error says why").split())
        said = said if len(said) <= _MOST_WORDS else f"{said[:_MOST_WORDS]}..."
        if outcome.get("unreachable"):
            return f"unreachable: {said}"
        if outcome.get("failed"):
            return f"failed: {said}"
    if reboot is not None and result.get("reboot_required"):
        return "failed: it was rebooted and came back without what the reboot was for"
    return ""


def was_read(result: Mapping[str, Any] | None) -> bool:
    """Return whether a call of ``rdma_host`` got as far as reading and planning its host, by what it registered."""
    return "summary" in (result or {})


def headline(unfinished: Sequence[Unfinished], total: int) -> str:
    """Return how many of ``total`` hosts were not brought to the end."""
    noun, verb = ("host", "was") if total == 1 else ("hosts", "was" if len(unfinished) == 1 else "were")
    return f"{len(unfinished)} of {total} {noun} of this run {verb} not brought to the end"


def reasons(unfinished: Sequence[Unfinished], limit: str | None) -> list[str]:
    """Return one line for each host, at most ten, and one with the next step. ``limit`` is that of this run."""
    lines = [f"  - {host}: {why}" for host, why in unfinished[:_MOST_NAMED]]
    rest = len(unfinished) - _MOST_NAMED
    if rest > 0:
        return [*lines, f"  - and {rest} more", "next: mend them and run again, or leave them out with --limit"]
    return [*lines, _next_step([each.host for each in unfinished], limit)]


def _next_step(hosts: Sequence[str], limit: str | None) -> str:
    them = "it" if len(hosts) == 1 else "them"
    step = f"next: mend {them} and run again, or leave {them} out"
    others = [f"!{host}" for host in hosts if host != CONTROLLER]
    if not others:
        return f"{step} of rdma_fabric_hosts, as every run needs localhost to validate its input"
    # A pattern of exclusions alone would leave out localhost where the inventory does not name it.
    step = f"{step}: --limit '{','.join([limit or 'all,localhost', *others])}'"
    return step if len(others) == len(hosts) else f"{step}, and localhost by rdma_fabric_hosts"
