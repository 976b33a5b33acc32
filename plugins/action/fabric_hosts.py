# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at the hosts of a run on the controller. Its documentation is in ``plugins/modules/fabric_hosts.py``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Mapping, NamedTuple, Sequence

from ansible.utils.display import Display

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.ranges import has_ranges, overlaps
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Notice, Violation, together
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import (
    ActionFailure,
    FabricAction,
    validated_result,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.given import Given
from ansible_collections.rdma.fabric.plugins.plugin_utils._console.plan_classes import (
    notice_lines,
    plan_lines_of_classes,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.addresses import of_read_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.documents import documents_of_run
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.functions import (
    given_away,
    ports_without_functions,
    uplinks_given_away,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.hooks import why_facts_refused
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.role import own_turn
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import (
    END,
    Unfinished,
    drained,
    drains_of_policies,
    due_for_reboot,
    due_for_reload,
    headline,
    is_done,
    kept_notice,
    nodes_of,
    parallel_of_policies,
    reasons,
    reboot_notice,
    reload_notice,
    shown_later,
    taking_part_in_turn,
    unfinished_hosts,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import names_by_facts, variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.controller_nodes import why_not_interrupted
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.joining import (
    joining_hosts,
    not_as_wanted,
    say_interruptions,
    say_who_is_left,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.turns import NoTurn, in_turn

display = Display()

_SHARED = "a network would give pods addresses that were read of hosts"
_CUT_OFF = "pods could take the network of their own node"


class ActionModule(FabricAction):
    """Reports hosts of a run that failed or were not reached."""

    variables: ClassVar[Mapping[str, str]] = {
        "run_dir": "rdma_fabric_run_dir",
    }

    def variables_read(self) -> Mapping[str, str]:
        """Return where the run keeps documents of hosts, to look at the cluster objects."""
        return self.variables if self._task.args.get("spec") else {}

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return what variables say, and without a look at the cluster objects the policies that say who is drained."""
        found = super().role_arguments(task_vars)
        if not self._task.args.get("spec"):
            found["rollouts"] = validated_result(task_vars, self.templated)["spec"].get("rollouts") or []
        return found

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Look at what every host registered; see the module's documentation."""
        limit = task_vars.get("ansible_limit")
        hosts = taking_part_in_turn(arguments["hosts"], task_vars, self._loader)
        variables = variables_of_hosts(task_vars)
        if arguments["by_facts"]:
            return _set_by_facts(hosts, variables)
        if arguments["plans"]:
            show_plans(hosts, variables)
        policies = drains_of_policies(hosts, variables, arguments["rollouts"])
        drains = {host: {**each["drain"], "safe_load": bool(each.get("safe_load"))} for host, each in policies.items()}
        found = unfinished_hosts(hosts, variables, rolled_back="host_rolls_back" in task_vars)
        of_turns: dict[str, Any] = {"drains": drains}
        if hosts == [task_vars.get("inventory_hostname")]:
            of_turns.update(self._so_far(task_vars, variables[hosts[0]], begun=not found))
        if arguments["reboots"]:
            refused = _refused(hosts, variables, found, arguments)
            of_turns["refused"] = [asdict(each) for each in refused]
            found = [*found, *(Unfinished(each.host, f"failed: {each.msg}") for each in refused)]
        if arguments["joining"]:
            if not (arguments["reboots"] or self.check_mode):
                failed = frozenset(each.host for each in found)
                found = [*found, *not_as_wanted([host for host in hosts if host not in failed], variables)]
            of_turns.update(_joining(hosts, variables, found, reboots=arguments["reboots"]))
        unfinished = [each._asdict() for each in found]
        blocks = [_Problem(headline(found, len(hosts)), reasons(found, len(hosts), limit))] if found else []
        cluster_side = _of_cluster_side(hosts, variables, arguments)
        of_turns["cluster_side"] = [each._asdict() for each in cluster_side.problems]
        if cluster_side.problems and not self.check_mode and "pushes" in of_turns:
            # Check mode shows what would become of the cluster as well, and fails at its end.
            of_turns["pushes"] = False
        if arguments["strict"] or arguments["cluster_side"] is None:
            blocks += cluster_side.problems
        if blocks and arguments["strict"]:
            texts = ["\n".join([f"{head}, so this run only writes its report:", *each]) for head, each in blocks]
            raise ActionFailure("\n".join(texts), unfinished=unfinished, cluster_side=of_turns["cluster_side"])
        said = ["\n".join([f"{head}:", *each]) for head, each in blocks]
        said += cluster_side.notices
        if not found:
            due = {} if arguments["joining"] or not arguments["reboots"] else _reboots(hosts, variables, policies)
            answer = {"changed": False, "unfinished": [], **of_turns, **due}
            return {**answer, "notices": [*said, *answer.get("notices", [])]} if said else answer
        nobody = {"reboot": [], "reload": [], "give_back": {}, "parallel": "1"} if arguments["reboots"] else {}
        notices = [*said, *of_turns.pop("notices", [])]
        return {"changed": False, "unfinished": unfinished, "notices": notices, **nobody, **of_turns}

    def _so_far(self, task_vars: Mapping[str, Any], own: Mapping[str, Any], *, begun: bool) -> dict[str, Any]:
        """Return how the host of the task is interrupted, by the first look at it alone."""
        turn, earlier = own_turn(Given(task_vars, self.templated)), own.get(END) or {}
        now = {"begun": begun, **(in_turn(turn, own) if turn else {})}
        return {**now, **{key: earlier[key] for key in ("drains", *now) if key in earlier}}

    def _refuse_facts(self, task_vars: Mapping[str, Any]) -> None:
        """Refuse what facts of the task's host set, unless the task looks for just that."""
        if not self._task.args.get("by_facts"):
            super()._refuse_facts(task_vars)


def _set_by_facts(hosts: Sequence[str], variables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Raise ActionFailure with the variables of this collection that facts of hosts have set."""
    names = {host: names_by_facts(variables[host]) for host in hosts if host in variables}
    refused = [why_facts_refused(host, own) for host, own in names.items() if own]
    if refused:
        raise ActionFailure("; ".join(refused))
    return {"changed": False, "unfinished": []}


class _Problem(NamedTuple):
    """One kind of harm that the cluster objects would do to hosts: a headline and its lines."""

    what: str
    details: list[str]


class _OfClusterSide(NamedTuple):
    """What the cluster objects would do to hosts, and what is odd."""

    problems: list[_Problem]
    notices: list[str]


def _of_cluster_side(
    hosts: Sequence[str], variables: Mapping[str, Mapping[str, Any]], arguments: Mapping[str, Any]
) -> _OfClusterSide:
    """Hold the cluster objects against hosts as this run has read them, unless an earlier task has done so."""
    spec, run_dir = arguments["spec"], arguments["run_dir"]
    if arguments["cluster_side"] is not None:
        return _OfClusterSide([_Problem(**each) for each in arguments["cluster_side"]], [])
    given = given_away(spec) if spec else None
    if not given and not has_ranges(spec):
        return _OfClusterSide([], [])
    cut: list[Violation] = []
    odd: list[Notice] = []
    routing: dict[str, Any] = {}
    # One at a time: all documents of a large fleet would fill the memory.
    for document in documents_of_run(hosts, variables, Path(run_dir) if run_dir else None):
        routing[document["host"]] = {"routing": document["facts"].get("routing")}
        cut += uplinks_given_away(given, document) if given else []
        odd += ports_without_functions(given, document) if given else []
    found = [(_CUT_OFF, together(dict.fromkeys(cut))), (_SHARED, overlaps(spec, of_read_hosts(routing)))]
    problems = [_Problem(head, [f"  - {each.sentence()}" for each in harm]) for head, harm in found if harm]
    return _OfClusterSide(problems, [each.sentence() for each in together(dict.fromkeys(odd))])


def _refused(
    hosts: Sequence[str],
    variables: Mapping[str, Mapping[str, Any]],
    found: Sequence[Unfinished],
    arguments: Mapping[str, Any],
) -> list[NoTurn]:
    """Return the hosts that need a reload or a reboot, have the consent to it, and are not interrupted all the same."""
    failed, joins = frozenset(each.host for each in found), bool(arguments["joining"])
    within = [host for host in (joining_hosts(hosts, variables) if joins else hosts) if host not in failed]
    due = dict.fromkeys((*due_for_reload(within, variables), *due_for_reboot(within, variables)))
    reasons = {host: why_not_interrupted(host, variables, arguments["api_servers"], joins=joins) for host in due}
    return [NoTurn(host, why, failed=True) for host, why in reasons.items() if why]


def _joining(
    hosts: Sequence[str], variables: Mapping[str, Mapping[str, Any]], found: Sequence[Unfinished], *, reboots: bool
) -> dict[str, Any]:
    """Return the hosts whose nodes join and that go on, whether there is anything to push for, and who is rebooted."""
    failed = frozenset(each.host for each in found)
    new = joining_hosts(hosts, variables)
    going = [host for host in new if host not in failed]
    answer: dict[str, Any] = {"joining": going, "pushes": bool(going) or not new}
    if reboots:
        reload, reboot = due_for_reload(going, variables), due_for_reboot(going, variables)
        answer.update(reload=reload, reboot=reboot, give_back={}, parallel="1")
        answer["notices"] = [*say_who_is_left(hosts, variables), *say_interruptions(reload, reboot)]
    return answer


def show_plans(hosts: Sequence[str], variables: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the plans of hosts, one for each class of them, and their notices."""
    kept = shown_later(hosts, variables)
    plans = {host: shown["steps"] for host, shown in kept.items() if "steps" in shown}
    notices = {host: shown["notices"] for host, shown in kept.items()}
    for line in [*plan_lines_of_classes(plans), *notice_lines(notices)]:
        display.display(line)


def _reboots(
    hosts: Sequence[str], variables: Mapping[str, Mapping[str, Any]], policies: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the hosts to reload or reboot, what is to be said before, and the others whose nodes are drained then."""
    reload, reboot = due_for_reload(hosts, variables), due_for_reboot(hosts, variables)
    due, safe = frozenset((*reload, *reboot)), drained(hosts, variables, policies)
    others = nodes_of([host for host in safe if host not in due and is_done(variables[host])], variables)
    parallel = parallel_of_policies(sorted(due), variables, policies) if due else "1"
    notices = [*reload_notice(reload, safe, parallel), *reboot_notice(reboot, safe, parallel)]
    notices += kept_notice([host for host in reboot if host in safe], variables)
    return {"reboot": reboot, "reload": reload, "give_back": others, "parallel": parallel, "notices": notices}
