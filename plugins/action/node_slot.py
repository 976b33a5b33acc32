# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes a slot for a node from the controller. Its documentation is in ``plugins/modules/node_slot.py``."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, ClassVar, Mapping

from ansible import constants
from ansible.utils.display import Display

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.syntax import (
    label_key_problem,
    label_value_problem,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.lease import own_user
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.events import create_event, warning_of
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.nodes import patch_node, write_node
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Json
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import in_one_line, to_fail
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.domains import Slots, domain_group
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.drain import Unanswered, unlimited
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.holding import Holding, SlotRefused
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.limits import limit_of
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import (
    Keep,
    SlotRequest,
    Wait,
    group_problem,
    slot_name,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure, validated_result
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.given import Given
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.process import running_play
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.role import SLOT, own_turn
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import TURNS
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.slot_shelf import SlotShelf
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.turn_file import TurnFile

display = Display()

_COUNTS_TURNS = "rdma.fabric.fleet"
_FAILED = "RdmaFabricFailed"
_NEXT_STEP = (
    "Let the other nodes end, fix what is named and run again with it, or free its slot with state: given_back and "
    "any_run: true once it is in service"
)


# Options with what they are called in the plan of all turns.
_OF_THE_TURN = {
    "node": "node",
    "limit": "limit",
    "total": "total",
    "domain": "domain",
    "domain_limit": "domain_limit",
    "domain_total": "domain_total",
    "rollout": "again",
    "duration": "seconds",
    "namespace": "namespace",
}


class ActionModule(ClusterAction):
    """Takes, keeps and releases the slot of one node."""

    variables: ClassVar[Mapping[str, str]] = {
        **ClusterAction.variables,
        "timeout": "rdma_fabric_slot_timeout",
    }

    # What later tasks of the host need of its turn.
    _turn: Mapping[str, Any] | None = None

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return what variables say, and the turn of the task's host as it was planned and begun."""
        given = Given(task_vars, self.templated)
        if "state" in self._task.args:
            turn, read = own_turn(given), {option: option for option in ("node", "domain", "namespace")}
            known = {"lease": given.get(SLOT).get("lease")}
        else:
            turn, read, known = self._planned(given, task_vars), _OF_THE_TURN, {}
        planned = {option: turn[key] for option, key in read.items() if turn[key] not in ("", None)}
        return {"turn_file": turn["file"], **known, **planned, **super().role_arguments(task_vars)}

    def _planned(self, given: Given, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return the turn of the task's host from those that localhost has, and keep what later tasks need of it."""
        host, rollout = task_vars["inventory_hostname"], self.templated(task_vars["hostvars"]["localhost"][TURNS])
        own = {
            **rollout["turns"][host],
            "namespace": validated_result(task_vars, self.templated)["spec"]["namespace"],
            "file": f"{str(given.value('rdma_fabric_run_dir')).strip()}/turns/{host}.json",
        }
        self._turn = {**own, "cordoned": own["node"] in rollout["cordoned"]}
        return {**rollout, **own}

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Bring the node's slot to the state that is asked for; see the module's documentation."""
        limit, limit_of_domain = _checked(arguments)
        node, process = arguments["node"], running_play()
        run = arguments["run"] or f"{own_user()}-{process.rpartition('/')[2] or os.getppid()}"
        request = SlotRequest(node, run, limit, frozenset(arguments["rollout"]), arguments["domain"])
        group, namespace, duration = arguments["group"], arguments["namespace"], arguments["duration"]
        with task_environment(self._environment()):
            try:
                connection = self.waiting_connection(arguments)

                def within(domain: str, limit: int) -> Holding:
                    own, asked = domain_group(group, domain), replace(request, limit=limit, domain="")
                    shelf = SlotShelf(connection, own, namespace, nodes=domain)
                    return Holding(shelf, asked, own, namespace, duration, process, of_domain=domain)

                whole = Holding(SlotShelf(connection, group, namespace), request, group, namespace, duration, process)
                answer = self._bring(connection, Slots(whole, limit_of_domain, within), arguments)
            except (ApiFault, SlotRefused, Unanswered) as err:
                raise ActionFailure(f"node {node}: {err}", node=node, reason=arguments["reason"]) from err
        self._keep(arguments, task_vars, {"run": run, **answer})
        answer["requests"] = {verb: connection.sent[verb] for verb in ("get", "list", "watch", "post", "put")}
        told = {"node": node, "run": run, "state": arguments["state"], "reason": arguments["reason"]}
        return {**told, **({"turn": self._turn} if self._turn else {}), **answer}

    def _keep(self, arguments: dict[str, Any], task_vars: dict[str, Any], answer: dict[str, Any]) -> None:
        """Keep the begin or the end of the turn for the report."""
        file = TurnFile(arguments["turn_file"], check=self.check_mode)
        if arguments["state"] == "taken":
            file.begin(
                host=str(task_vars.get("inventory_hostname", "")),
                node=arguments["node"],
                run=answer["run"],
                slot=answer["lease"],
                domain=arguments["domain"],
                waited=answer["waited"],
            )
        else:
            file.end(in_one_line(arguments["reason"]))

    def _bring(self, connection: Connection, slots: Slots, arguments: dict[str, Any]) -> dict[str, Any]:
        state, holding, lease = arguments["state"], slots.whole, arguments["lease"]
        if state == "taken":
            return self._foreseen(slots) if self.check_mode else self._take(connection, slots, arguments)
        any_run = state == "given_back" and arguments["any_run"]
        reason = in_one_line(arguments["reason"])
        if self.check_mode:
            found = [slot for slot in holding.held(any_run=any_run) if state != "failed" or not slot.failed]
        else:
            found = slots.give_back(any_run=any_run) if state == "given_back" else slots.fail(reason)
        lost = holding.lost(lease) if lease and not found and not holding.held(any_run=any_run) else ""
        notices = [_lost(holding.request.node, lease, lost)] if lost else []
        if state == "failed" and not self.check_mode:
            found = found or (slots.fail_anew(reason) if lost else [])
            notices += _tell(connection, holding.request, reason) if found or lost else []
        answer = self._result(bool(found), slot_name(holding.group, found[0].index) if found else "")
        return {**answer, "lost": lost, "notices": notices}

    def _take(self, connection: Connection, slots: Slots, arguments: dict[str, Any]) -> dict[str, Any]:
        limit, holding = unlimited(float(arguments["timeout"])), slots.whole
        try:
            with connection.until(connection.clock.now() + limit):
                held = slots.take(limit, self.progress)
        except SlotRefused as refused:
            raise SlotRefused(f"{refused}. {_NEXT_STEP}") from refused
        healed = f"node {holding.request.node} continues where another run left it: {held.healed}"
        notices = [healed] if held.healed else []
        answer = self._result(held.taken, slot_name(holding.group, held.slot.index))
        return {**answer, "waited": round(held.waited, 1), "notices": notices}

    def progress(self, text: str) -> None:
        """Show what is waited for, unless the callback says how many wait."""
        if str(constants.DEFAULT_STDOUT_CALLBACK) == _COUNTS_TURNS:
            display.v(text)
        else:
            super().progress(text)

    def _foreseen(self, slots: Slots) -> dict[str, Any]:
        move = slots.look()
        if isinstance(move, Wait):
            # Without the node's name, which would make it another text for each node of a rollout.
            notices = [f"a run would wait for a slot now: {move.why}"]
            return {**self._result(True, ""), "blocked": move.why, "notices": notices}
        return self._result(not isinstance(move, Keep), slot_name(slots.whole.group, move.slot.index))

    @staticmethod
    def _result(changed: bool, lease: str) -> dict[str, Any]:
        return {"changed": changed, "lease": lease, "blocked": "", "waited": 0.0, "lost": "", "notices": []}


def _lost(node: str, lease: str, now: str) -> str:
    return (
        f"node {node} has lost its slot {lease} during its turn: {now}. More nodes may have been out of service than "
        "allowed; find out who takes or deletes slots that are held (node_slot with any_run: true, kubectl)"
    )


def _tell(connection: Connection, request: SlotRequest, reason: str) -> list[str]:
    """Say on the node, and in an Event about it, what it has failed by; return what could not be said and why."""
    event = warning_of(request.node, _FAILED, reason, request.run, datetime.now(timezone.utc))

    def attempt(node: Json) -> bool | None:
        patch = to_fail(node, reason).patch
        return True if patch is None or patch_node(connection, request.node, patch) is not None else None

    try:
        create_event(connection, event)
        write_node(connection, request.node, attempt)
    except ApiFault as fault:
        return [f"only the slot of node {request.node} says why it failed: {fault}"]
    return []


def _checked(arguments: dict[str, Any]) -> tuple[int, int]:
    """Return the limits, of all nodes and of the node's domain. Raises ActionFailure with everything that is wrong."""
    problems = []
    limits = {}
    for option, of in (("limit", "total"), ("domain_limit", "domain_total")):
        try:
            limits[option] = limit_of(arguments[option], arguments[of])
        except ValueError as err:
            problems.append(f"{option}: {err}".replace("as total", f"as {of}"))
    key, equals, value = arguments["domain"].partition("=")
    wrong = label_key_problem(key) or ("" if equals else "has no value") or label_value_problem(value)
    if arguments["domain"] and wrong:
        problems.append(f"domain: {arguments['domain']!r} {wrong}; give a label of the node as KEY=VALUE")
    if group_problem(arguments["group"]):
        problems.append(f"group: {group_problem(arguments['group'])}")
    if arguments["timeout"] < 0:
        problems.append(f"timeout: {arguments['timeout']} is negative; 0 means no limit")
    if arguments["duration"] < 1:
        problems.append(f"duration: {arguments['duration']} is less than 1 second")
    if arguments["state"] == "failed" and not arguments["reason"].strip():
        problems.append("reason: is needed with state: failed, for people who look at the node")
    if problems:
        raise ActionFailure(f"node_slot: {'; '.join(problems)}")
    return limits["limit"], limits["domain_limit"]
