# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the hosts to upgrade on the controller. Its documentation is in ``plugins/modules/fabric_rollout.py``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.syntax import label_key_problem
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.limits import limit_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import (
    drains_of_policies,
    nodes_of,
    taking_part,
    unfinished_hosts,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.held_nodes import RUN
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.controller_nodes import why_not_interrupted
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.slot_shelf import slots_and_nodes
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.turns import (
    Domains,
    Turns,
    canary_notice,
    down_notice,
    turn_notices,
    turns_of,
    unskipped_notice,
    with_refused,
)

# Of the slots that turns take, as node_slot has it by default.
_GROUP = "upgrade"


class ActionModule(ClusterAction):
    """Tells which hosts are to be interrupted, and in which order."""

    variables: ClassVar[Mapping[str, str]] = {
        **ClusterAction.variables,
        "canaries": "rdma_fabric_canaries",
        "max_unavailable": "rdma_fabric_max_unavailable",
        "failure_domain": "rdma_fabric_failure_domain",
        "max_unavailable_per_domain": "rdma_fabric_max_unavailable_per_domain",
    }
    validated: ClassVar[Mapping[str, str]] = {
        "hosts": "spec.hosts",
        "namespace": "spec.namespace",
        "rollouts": "spec.rollouts",
    }

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Look at what every host registered, and at the nodes; see the module's documentation."""
        groups, limit = task_vars.get("groups") or {}, task_vars.get("ansible_limit")
        hosts = taking_part(arguments["hosts"], groups, limit, self._loader)
        variables = variables_of_hosts(task_vars)
        total = len(arguments["hosts"])
        if unfinished_hosts(hosts, variables):
            # No host is interrupted while another one can't be read.
            return _result(Turns([], ""), total, [], [])
        for option in ("max_unavailable", "max_unavailable_per_domain"):
            try:
                limit_of(arguments[option] or "1", max(total, 1))
            except ValueError as err:
                raise ActionFailure(f"fabric_rollout: {option}: {err}") from err
        label = arguments["failure_domain"].strip()
        if label and label_key_problem(label):
            raise ActionFailure(f"fabric_rollout: failure_domain: {label!r} {label_key_problem(label)}")
        with task_environment(self._environment()):
            slots_of = {**arguments, "group": _GROUP}
            read = slots_and_nodes(self, slots_of, label=label, marks=True, skip_nodes=True, down=True)
        if label and not read["domains"]:
            raise ActionFailure(
                f"fabric_rollout: failure_domain: no node has the label {label}, so none is in a failure domain. Look "
                f"at the labels with kubectl get nodes --show-labels, and give the key of one of them"
            )
        pattern = arguments["canaries"].strip()
        canaries = taking_part(arguments["hosts"], groups, pattern, self._loader) if pattern else []
        if pattern and not canaries:
            raise ActionFailure(f"fabric_rollout: canaries: {pattern!r} matches no host of the fabric")
        cordoned = [each["node"] for each in read["marked"] if each["run"] == RUN]
        # What an earlier run left cordoned is healed also where its slot was lost.
        slots = list(dict.fromkeys([*(slot["node"] for slot in read["slots"]), *cordoned]))
        removes, skipped = arguments["state"] == "absent", frozenset(read["skip_nodes"])
        found = turns_of(
            hosts,
            variables,
            drains_of_policies(hosts, variables, arguments["rollouts"]),
            slots=frozenset(slots),
            # The label is about upgrades: what is taken back would stay half there.
            skipped=frozenset() if removes else skipped,
            canaries=frozenset(canaries),
            limit=arguments["max_unavailable"].strip(),
            fabric=arguments["hosts"],
            domains=Domains(label, arguments["max_unavailable_per_domain"].strip() or "1", read["domains"]),
        )
        api_servers = arguments["api_servers"]
        # What an earlier run has begun is healed without an interruption.
        due = [turn.host for turn in found.turns if turn.due]
        found = with_refused(found, {host: why_not_interrupted(host, variables, api_servers) for host in due})
        notices = turn_notices(found, variables, removes=removes)
        if found.turns and not any(turn.canary for turn in found.turns):
            notices += canary_notice(canaries)
        if found.turns:
            of_fabric = nodes_of(arguments["hosts"], variables).values()
            notices += down_notice({node: read["down"][node] for node in of_fabric if node in read["down"]})
        if removes:
            notices += unskipped_notice([turn.host for turn in found.turns if turn.node in skipped])
        return {**_result(found, total, slots, cordoned), "notices": notices}


def _result(found: Turns, total: int, slots: Sequence[str], cordoned: Sequence[str]) -> dict[str, Any]:
    nodes = {turn.node for turn in found.turns}
    return {
        "changed": False,
        "turns": {turn.host: asdict(turn) for turn in found.turns},
        "left_out": [asdict(each) for each in found.left_out],
        "limit": found.limit,
        "domain_limit": found.domain_limit,
        "total": total,
        "again": [node for node in slots if node in nodes],
        "cordoned": list(cordoned),
        "notices": [],
    }
