# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks ahead on the controller. Its documentation is in ``plugins/modules/fabric_preflight.py``."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Iterator, Mapping, NamedTuple, Sequence

from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.driver_container import (
    wants_container,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.live import (
    absent_nodes,
    assigned_twice,
    may_meet,
    meetings,
    moved_parts,
    names_nodes,
    pools_too_small,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.images import known_platforms
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.pods import pod_templates
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.cdi import plugins_with_cdi, without_cdi
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.folders import (
    folders_used,
    misplaced,
    useless_mounts,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.ranges import diverted, has_ranges, overlaps
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import (
    DEFAULT_NAMESPACE,
    objects_of,
    render,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault, seen_or_told
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.kinds import Resource
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.server_version import (
    objection_to_platform,
    read_release,
    say_old,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.snapshot import learn_groups, list_objects
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection, Patience
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import (
    CONFIGURED,
    DELETED,
    BatchRequest,
    Change,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.cluster_facts import (
    ClusterFacts,
    read_cluster_facts,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.gpu_side import say_gpu_side
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Json, Key
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.operators import programs_of
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.placement import kept_off
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.pod_network import say_pod_network
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.dry_run import (
    DryRun,
    dry_run,
    dry_run_joining,
    dry_run_labelling,
    dry_run_release,
    dry_run_removal,
    dry_run_rollout,
    say_device_rights,
    say_other_daemon_sets,
    seen_or_said,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.operators import look_for_operators, say_left
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure, validated_result
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.chart import ChartAction
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.run_dir import make_run_directory
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.charts import batch_options
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.addresses import of_cluster
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.awx_slices import (
    WHY_NOT_TAKEN_DOWN,
    lacks_controller,
    may_be_slice,
    why_nothing_is_deleted,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.documents import read_host_documents
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.driver_nodes import why_unplaced
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.needs import compared
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.plugin_pods import plugins_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import (
    drained,
    nodes_of,
    taking_part,
    wire_tested,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.controller_nodes import (
    foreseen,
    may_be_interrupted,
    read_api_servers,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.joining import objections_to_join
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.teardown import (
    in_use,
    labels_nodes,
    left_on_nodes,
    next_step_of_users,
    objections,
    say_in_use,
    say_lost,
    why_the_cluster_stays,
    without_consent,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.dry_run import (
    check_wire_test,
    options_to_check,
    why_no_command,
)

_NODE_STATES = Key("sriovnetwork.openshift.io/v1", "SriovNetworkNodeState", "", "")
_SERVED_AS = Resource("sriovnetworknodestates", True)
# Who only looks whether a run could reach its end does not sit out an outage.
_PATIENCE = Patience(total=10.0)
NOTHING_WANTED = (
    "with hosts only, no cluster is contacted; what an earlier run made in one stays (to remove it: k8s_batch "
    "with state: absent)"
)
NOTHING_TAKEN_BACK = (
    "with hosts only, no cluster is contacted: hosts are taken back at once and none is drained; cordons, slots and "
    "objects that an earlier run left in a cluster stay (for hosts that are nodes: rdma_fabric_drain: true; for "
    "objects: k8s_batch with state: absent)"
)


NO_HELM = (
    "the controller has no program helm on PATH, with which kubernetes.core.helm installs the chart (install Helm 3, "
    "or leave out rdma_fabric_engine)"
)


class Reach(NamedTuple):
    """Whether a removal is about hosts, and about the cluster objects."""

    hosts: bool
    cluster: bool


class Nodes(NamedTuple):
    """The nodes that join in the run, and one of those that are tested on the wire, empty without one.

    ``interrupted`` are the hosts that the run may drain, reload or reboot.
    """

    joining: list[str]
    tested: str
    interrupted: list[str]


_OF_RUNS = {
    **ChartAction.variables,
    "run_dir": "rdma_fabric_run_dir",
    "set": "rdma_fabric_set",
    "plan_file": "rdma_fabric_plan_file",
}
_OF_REMOVALS = {
    "delete_definitions": "rdma_fabric_delete_definitions",
    "allow_teardown": "rdma_fabric_allow_teardown",
    "allow_in_use": "rdma_fabric_allow_teardown_in_use",
}
_OF_PUSHES = {
    "prune": "rdma_fabric_prune",
    "force_conflicts": "rdma_fabric_force_conflicts",
    "wire_networks": "rdma_fabric_verify_networks",
    "wire_resources": "rdma_fabric_verify_resources",
    "wire_namespace": "rdma_fabric_verify_namespace",
    "wire_image": "rdma_fabric_verify_image",
    "wire_gpu_resource": "rdma_fabric_verify_gpu_resource",
    "wire_runtime_class": "rdma_fabric_verify_runtime_class",
}


class ActionModule(ChartAction):
    """Tells what would keep a run from its end."""

    validated: ClassVar[Mapping[str, str]] = {"spec": "spec"}

    _is_partial = False

    def variables_read(self) -> Mapping[str, str]:
        """Return what says how a set is pushed, or how it is removed."""
        if self._task.args.get("state") == "adopted":
            return {**ChartAction.variables, "run_dir": _OF_RUNS["run_dir"]}
        return {**_OF_RUNS, **(_OF_REMOVALS if self._task.args.get("state") == "absent" else _OF_PUSHES)}

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return what variables say, and whether the plan of the run was approved."""
        sealed = "sealed" in validated_result(task_vars, self.templated)
        return {"sealed": sealed, **super().role_arguments(task_vars)}

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Look at everything that the end of a run needs; see the module's documentation."""
        if arguments["state"] == "adopted":
            return {"changed": False, "notices": self._of_the_operator(arguments)}
        self._is_partial = may_be_slice(task_vars) and lacks_controller(task_vars)
        waves = render(arguments["spec"]) if arguments["push"] else []
        removes = arguments["state"] == "absent"
        problems, said = self._of_the_removal(arguments) if removes else ([], [])
        if arguments["joins"]:
            problems += objections_to_join(arguments["spec"], arguments["sealed"], arguments["plan_file"])
        if waves and not removes:
            problems += _of_driver_nodes(arguments["spec"], hosts_of_run(arguments, task_vars, self._loader))
        # A removal of hosts that are no nodes asks no cluster, where nothing else is wanted of one.
        hosts = arguments["spec"].get("hosts") or {}
        variables, joins = variables_of_hosts(task_vars), arguments["joins"]
        turns = arguments["rollout"] and (not removes or bool(drained(hosts, variables)))
        asked = bool(waves) or turns or arguments["joins"] or labels_are_pushed(arguments)
        answer: dict[str, Any] = {"server": "", "user": "", "requests": {}, "api_servers": {}, "notices": []}
        if not asked and (removes or arguments["push"]):
            answer["notices"] = [NOTHING_TAKEN_BACK if removes else NOTHING_WANTED]
        problems += self._of_the_chart(arguments, waves, task_vars)
        if arguments["run_dir"]:
            try:
                make_run_directory(Path(arguments["run_dir"]))
            except ActionFailure as failure:
                problems.append(str(failure))
        nodes = nodes_to_look_at(arguments, task_vars, self._loader)
        if asked:
            try:
                reach = reach_of(arguments, task_vars, self._loader) if removes else None
                problems += [WHY_NOT_TAKEN_DOWN] if reach and reach.cluster and may_be_slice(task_vars) else []
                answer = self._of_the_cluster(arguments, waves, problems, reach, nodes)
            except ApiFault as fault:
                problems.append(f"the cluster: {fault}")
        if problems:
            lines = "\n".join(f"  - {problem}" for problem in problems)
            raise ActionFailure(f"prerequisites are not met, so no host was changed:\n{lines}")
        refused = foreseen(nodes.interrupted, variables, answer["api_servers"], joins=joins)
        answer["notices"] = [*said, *answer["notices"], *refused]
        return {"changed": False, "objects": len(objects_of(waves)), **answer}

    def _of_the_operator(self, arguments: dict[str, Any]) -> list[str]:
        """Return how records of a running SR-IOV operator differ from the plans of hosts; raises ActionFailure."""
        untold = "the SR-IOV operator's records of nodes were not compared"
        with task_environment(self._environment()):
            try:
                connection = Connection(self.client(arguments), patience=_PATIENCE, notify=self.progress)
                records, unseen = seen_or_told(lambda: list_objects(connection, _NODE_STATES, _SERVED_AS, {}), untold)
            except ApiFault as fault:
                if fault.fault is not Fault.NOT_FOUND:
                    raise ActionFailure(str(fault)) from fault
                return []
        hosts = Path(arguments["run_dir"]) / "hosts"
        known = arguments["spec"].get("hosts") or {}
        documents = [each for each in read_host_documents(hosts) if each["host"] in known] if records else []
        return [*unseen, *compared(records or [], documents)]

    def _of_the_chart(
        self, arguments: dict[str, Any], waves: list[dict[str, Any]], task_vars: dict[str, Any]
    ) -> list[str]:
        """Return why Helm could not do what the run asks of it."""
        chart = arguments["spec"].get("chart")
        if not (chart and waves):
            return []
        if shutil.which("helm", path=self._environment().get("PATH") or os.environ.get("PATH", os.defpath)) is None:
            return [NO_HELM]
        try:
            if arguments["state"] == "present":
                self.ask_release(chart, arguments, task_vars)
        except ActionFailure as failure:
            return [str(failure)]
        return []

    def _of_the_removal(self, arguments: dict[str, Any]) -> tuple[list[str], list[str]]:
        """Return what keeps a removal from beginning, and what is only said of it in check mode."""
        problems = objections(arguments["sealed"], arguments["plan_file"])
        if arguments["allow_teardown"]:
            return problems, []
        said = [without_consent(self.check_mode)]
        return (problems, said) if self.check_mode else ([*said, *problems], [])

    def _of_the_cluster(
        self,
        arguments: dict[str, Any],
        waves: list[dict[str, Any]],
        problems: list[str],
        removal: Reach | None,
        nodes: Nodes,
    ) -> dict[str, Any]:
        """Return what the cluster answers, and add what it would refuse to the problems; raises ApiFault.

        ``removal`` is how far a removal goes, None where nothing is to be removed.
        """
        request = BatchRequest(
            waves=waves,
            set_name=arguments["set"],
            inventory_namespace=arguments["spec"].get("namespace") or DEFAULT_NAMESPACE,
            prune=arguments["prune"],
            force_conflicts=arguments["force_conflicts"],
            check=True,
            remove_kept=arguments["delete_definitions"],
            **batch_options(arguments["spec"]),
        )
        with task_environment(self._environment()):
            client = self.client(arguments)
            if nodes.tested and removal is None:
                problems += why_no_command(client)
            connection = Connection(client, patience=_PATIENCE, notify=self.progress)
            found: list[DryRun] = []
            besides: list[str] = []
            if waves and removal is None:
                learn_groups(connection)
                found.append(dry_run(connection, request, pod_templates))
                besides = self._of_the_engine(connection, arguments["spec"], waves, found, problems)
                besides += users_of_lost(connection, found[0].changes)
                plugins = plugins_of(objects_of(waves)) if arguments["spec"].get("hosts") else {}
                besides += say_device_rights(connection, {place for place, _name in plugins}) if plugins else []
                besides += moved_parts(_configured(found[0].changes))
                besides += assigned_twice((change.before, change.after) for change in found[0].changes)
                dropped = [str(change.key) for change in found[0].changes if change.action == DELETED]
                problems += [why_nothing_is_deleted(dropped)] if dropped and self._is_partial else []
            if removal is None and (waves or arguments["rollout"]):
                besides += self._of_nodes(connection, arguments, waves, problems)
            if waves and removal is not None and removal.cluster:
                found.append(self._checked_removal(connection, request, arguments))
            if arguments["rollout"] and (removal is None or removal.hosts):
                removes = removal is not None
                found.append(dry_run_rollout(connection, request.inventory_namespace, removes=removes))
            found += [dry_run_joining(connection, nodes.joining)] if arguments["joins"] else []
            if labels_are_pushed(arguments) and removal is None:
                found.append(dry_run_labelling(connection, drivers=wants_container(arguments["spec"])))
            if nodes.tested and removal is None:
                options = options_to_check(
                    arguments["wire_networks"],
                    arguments["wire_resources"],
                    arguments["wire_namespace"],
                    arguments["wire_gpu_resource"] or "",
                )
                image, spec, runtime = arguments["wire_image"], arguments["spec"], arguments["wire_runtime_class"] or ""
                found.append(check_wire_test(connection, spec, options, image, nodes.tested, runtime_class=runtime))
            problems += [f"the cluster: {problem}" for each in found for problem in each.problems]
            api_servers, unknown = read_api_servers(connection, client.server) if nodes.interrupted else ({}, [])
        return {
            "server": client.server,
            "user": found[0].user if found else "",
            "requests": dict(connection.sent),
            "api_servers": api_servers,
            "notices": [*(notice for each in found for notice in each.notices), *besides, *unknown],
        }

    def _of_the_engine(
        self,
        connection: Connection,
        spec: dict[str, Any],
        waves: list[dict[str, Any]],
        found: list[DryRun],
        problems: list[str],
    ) -> list[str]:
        """Add what is wrong with the platform for what is rendered, and return notices; of a chart, its release."""
        if spec.get("chart"):
            found.append(dry_run_release(connection, spec["chart"]["release"], spec["chart"]["namespace"]))
            return []
        objection = objection_to_platform(connection, said=bool((spec.get("settings") or {}).get("openshift")))
        problems += [f"the cluster: {objection}"] if objection else []
        release, unseen = seen_or_told(lambda: read_release(connection), "the version of the server was not checked")
        old = [*unseen, *(say_old(release) if release else [])]
        return [*old, *say_other_daemon_sets(connection, objects_of(waves))]

    def _of_operators(
        self,
        connection: Connection,
        arguments: dict[str, Any],
        waves: list[dict[str, Any]],
        nodes: Sequence[Json],
        problems: list[str],
    ) -> list[str]:
        """Return what is to be known of operators, and of what those that are gone have left.

        A driver's upgrade that none of them ends is a problem where the run would wait for it. Who only takes nodes in
        turn need not see the rest.
        """
        programs, notices = look_for_operators(connection)
        if programs is None:
            return notices if waves else []
        ours = frozenset().union(*map(programs_of, objects_of(waves)))
        slots, left = left_on_nodes(nodes, programs | ours, drivers=wants_container(arguments["spec"]))
        if arguments["rollout"]:
            problems += [f"the cluster: {each}" for each in slots]
            slots = []
        return [*([*notices, *say_left(connection, programs)] if waves else []), *slots, *left]

    def _of_nodes(
        self,
        connection: Connection,
        arguments: dict[str, Any],
        waves: list[dict[str, Any]],
        problems: list[str],
    ) -> list[str]:
        """Add to the problems where ranges, folders and node policies do not fit the cluster; return the notices.

        Pools that keep parts for nodes which there are not are among these, and what operators have left.
        """
        spec = arguments["spec"]
        ranges, used, with_cdi = has_ranges(spec), folders_used(spec, waves), plugins_with_cdi(waves)
        pools = spec.get("pools") or []
        asked = ranges or used or with_cdi or may_meet(spec) or names_nodes(pools) or arguments["rollout"]
        read = read_cluster_facts(connection, services=ranges) if asked else ClusterFacts()
        said = [] if spec.get("chart") else self._of_operators(connection, arguments, waves, read.bodies, problems)
        settings, objects = spec.get("settings") or {}, objects_of(waves)
        wrong, notices = misplaced(settings, used, read.bodies)
        notices += useless_mounts(objects, read.bodies)
        wrong += meetings(
            spec, [(each["metadata"]["name"], each["metadata"].get("labels") or {}) for each in read.bodies]
        )
        problems += [f"the cluster: {problem}" for problem in wrong]
        problems += [each.sentence() for each in overlaps(spec, of_cluster(read))]
        notices += [each.sentence() for each in diverted(spec, of_cluster(read))]
        # Who may not look at nodes knows of none.
        notices += [*absent_nodes(pools, read.runtimes), *pools_too_small(pools, read.bodies)] if read.bodies else []
        # A host's node usually has its name.
        platforms = known_platforms(objects, settings)
        notices += [*kept_off(objects, read.bodies, spec.get("hosts") or {}, platforms), *say_pod_network(read.bodies)]
        return [*said, *notices, *without_cdi(with_cdi, read.runtimes), *say_gpu_side(read.gpus), *read.unknown]

    def _checked_removal(self, connection: Connection, request: BatchRequest, arguments: dict[str, Any]) -> DryRun:
        """Return what would keep the removal of the set from its end, pods that use it among that."""
        settings = arguments["spec"].get("settings") or {}
        marked = bool(settings.get("join_taint") or settings.get("label_nodes") or wants_container(arguments["spec"]))
        found, bodies = dry_run_removal(connection, request, nodes=marked or labels_nodes(request.waves))
        if found.problems:
            return found
        users = in_use(connection, bodies)
        if users and not (arguments["allow_in_use"] or self.check_mode):
            return replace(found, problems=[f"{say_in_use(users)} ({next_step_of_users()})"])
        return replace(found, notices=[*found.notices, *([say_in_use(users)] if users else [])])


def users_of_lost(connection: Connection, changes: Sequence[Change]) -> list[str]:
    """Name the pods that use what a push removes or renames, as a notice; raises ApiFault."""
    before = [change.before for change in changes if change.before is not None]
    after = [change.after for change in changes if change.after is not None]

    def look() -> list[str]:
        users = in_use(connection, before, after)
        return [say_lost(users)] if users else []

    return seen_or_said(look, "which pods use the networks and resources that this push removes")


def _configured(changes: Sequence[Change]) -> Iterator[tuple[Json, Json]]:
    """Yield what a push changes, as it is and as it will be."""
    for change in changes:
        if change.action == CONFIGURED and change.before is not None and change.after is not None:
            yield change.before, change.after


def _of_driver_nodes(spec: dict[str, Any], within: list[str]) -> list[str]:
    """Return why the hosts within the limit can't tell where the driver's container runs, none where they can."""
    inside = set(within)
    why = why_unplaced(spec, [host for host in spec.get("hosts") or {} if host not in inside])
    return [why] if why else []


def labels_are_pushed(arguments: dict[str, Any]) -> bool:
    """Return whether the run labels nodes by itself."""
    spec = arguments["spec"]
    labels = (spec.get("settings") or {}).get("label_nodes")
    return bool(arguments["push"] and (labels or wants_container(spec)))


def nodes_to_look_at(arguments: dict[str, Any], task_vars: dict[str, Any], loader: DataLoader) -> Nodes:
    """Return the nodes of this run that are looked at; the variables of a host are read only where it is asked for."""
    within, variables = hosts_of_run(arguments, task_vars, loader), variables_of_hosts(task_vars)
    joining = nodes_of(within, variables) if arguments["joins"] else {}
    tested = wire_tested(within, variables)[:1] if arguments["rollout"] else []
    interrupted = within if arguments["rollout"] else may_be_interrupted(within, arguments["spec"])
    return Nodes(list(joining.values()), "".join(nodes_of(tested, variables).values()), interrupted)


def hosts_of_run(arguments: dict[str, Any], task_vars: dict[str, Any], loader: DataLoader) -> list[str]:
    """Return the hosts of the fabric that are within the limit of the run."""
    hosts = list(arguments["spec"].get("hosts") or {})
    return taking_part(hosts, task_vars.get("groups") or {}, task_vars.get("ansible_limit"), loader)


def reach_of(arguments: dict[str, Any], task_vars: dict[str, Any], loader: DataLoader) -> Reach:
    """Return how far the removal of this run goes, by its limit."""
    within = hosts_of_run(arguments, task_vars, loader)
    hosts = list(arguments["spec"].get("hosts") or {})
    return Reach(hosts=bool(within), cluster=not why_the_cluster_stays(hosts, within))
