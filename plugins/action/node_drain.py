# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drains a node from the controller. Its documentation is in ``plugins/modules/node_drain.py``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.features import DEVICE_LABELS
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.lease import own_user
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster import nodes
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.node_labels import own_labels
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.readiness import is_ready
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import (
    Mark,
    Step,
    is_cordoned,
    mark_of,
    to_cordon,
    to_uncordon,
)
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.drain import (
    Before,
    Drain,
    DrainFailed,
    Unanswered,
    before_of,
    in_the_way,
    is_anew,
    mark_again,
    read_before,
    to_mark_again,
    unlimited,
    wait_for_jobs,
)
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.objects import Json
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import EVICT, DrainOptions, Verdict, judge
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.ready import (
    DELETED,
    boot_of,
    devices_of,
    is_deleted,
    wait_for_node,
    wait_until_whole,
)
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.timeline import DRAIN, GIVE_BACK, refusals_of
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.given import Given
from ansible_collections.rdma.fabric.plugins.plugin_utils._clock import now
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.plugin_pods import (
    is_plugin,
    is_renewed,
    unready_multus,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.role import own_turn
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.held_nodes import RUN
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.node_cluster import NodeCluster, passing_as_silence
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.turn_file import TurnFile

# A drain may have failed for the API server, which is not to be waited for once more.
_UNDONE_WITHIN = 30.0
_MOST_NAMED = 5


_BESIDES_DRAINS = {
    "empty": (*ClusterAction.variables, "node", "resources", "pod_selector"),
    "ready": (*ClusterAction.variables, "node", "timeout"),
    "uncordoned": (*ClusterAction.variables, "node", "resources", "restart_daemon_sets", "timeout"),
}
_WAITING = ("ready", "uncordoned")
# What the role host has found in the turn of a host.
_OF_THE_TURN = ("drain", "reboot", "end")


class ActionModule(ClusterAction):
    """Cordons, drains and uncordons one node."""

    variables: ClassVar[Mapping[str, str]] = {
        **ClusterAction.variables,
        "pods": "rdma_fabric_drain_pods",
        "resources": "rdma_fabric_drain_resources",
        "pod_selector": "rdma_fabric_drain_pod_selector",
        "force": "rdma_fabric_drain_force",
        "delete_empty_dir": "rdma_fabric_drain_delete_empty_dir",
        "give_back": "rdma_fabric_drain_give_back",
        "restart_daemon_sets": "rdma_fabric_drain_restart_daemon_sets",
        "timeout": "rdma_fabric_drain_timeout",
        "wait_for": "rdma_fabric_drain_wait_for",
        "wait_timeout": "rdma_fabric_drain_wait_timeout",
        "node": "rdma_fabric_node_name",
    }

    # Whether the node was found registered anew, and is cordoned and marked again.
    _anew = False
    # The node as it was cordoned in this task.
    _cordoned: dict[str, Any] | None = None

    def variables_read(self) -> Mapping[str, str]:
        """Return what says how a node is drained; how it is read and uncordoned is said by a few of these."""
        read = _BESIDES_DRAINS.get(self._task.args.get("state", ""))
        return self.variables if read is None else {option: self.variables[option] for option in read}

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return what variables, else the policy of the host, say of its node, and what its turn has come to."""
        host, given = str(task_vars.get("inventory_hostname", "")), Given(task_vars, self.templated)
        turn = own_turn(given)
        drain, reboot, end = (given.get(f"_rdma_fabric_host_{each}") or {} for each in _OF_THE_TURN)
        policy = (end.get("drains") or {}).get(host) or {}
        # A drain goes by all of the policy, and a look at what has become of it by the pods of that.
        state = self._task.args.get("state")
        read = (*policy,) if state is None else ("pod_selector",) if state == "empty" else ()
        # An empty variable stands for the default of the module: who sets it does not want what the policy says.
        read = tuple(option for option in read if self.variables.get(option) not in task_vars)
        found = {
            "node": host,
            "run": RUN,
            "before": drain.get("before") if state else None,
            "give_back": None if state else given.value("rdma_fabric_drain_give_back"),
            "rebooted": reboot.get("rebooted"),
            "renewed": _may_be_renewed(given, reboot, turn) if state in _WAITING else None,
            # The wait before a test is no stage of the turn.
            "turn_file": turn["file"] if turn and state != "ready" else None,
            **{option: policy[option] for option in read if option in policy and option != "safe_load"},
        }
        values = {option: given.get(name) for option, name in self.variables_read().items()}
        found.update({option: value for option, value in values.items() if value is not None})
        return {option: value for option, value in found.items() if value is not None}

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Bring the node to the state that is asked for; see the module's documentation."""
        negative = [f"{name}: {arguments[name]}" for name in ("timeout", "wait_timeout") if arguments[name] < 0]
        if negative:
            raise ActionFailure(f"node_drain: {', '.join(negative)} is negative; 0 means no limit")
        stage = GIVE_BACK if arguments["state"] == "uncordoned" else DRAIN
        # A look is no stage of a turn: it goes by the patience of one.
        file = TurnFile(arguments["turn_file"] if arguments["state"] != "empty" else None, check=self.check_mode)
        with task_environment(self._environment()), file.stage(lambda _turn: stage) as part:
            try:
                connection = self.waiting_connection(arguments)
            except ApiFault as fault:
                raise ActionFailure(f"node {arguments['node']}: {fault}") from fault
            cluster = NodeCluster(connection, arguments["node"], arguments["pod_selector"])
            try:
                answer = self._bring(cluster, arguments)
            except (ApiFault, Unanswered) as err:
                raise ActionFailure(f"node {arguments['node']}: {err}", **_standing(cluster, err)) from err
            except ActionFailure as failure:
                part.found = _for_the_turn(stage, failure.facts)
                failure.facts.update(_standing(cluster))
                raise
            part.found = _for_the_turn(stage, answer)
        answer["requests"] = {verb: connection.sent[verb] for verb in ("get", "list", "patch", "post")}
        return answer

    def _bring(self, cluster: NodeCluster, arguments: dict[str, Any]) -> dict[str, Any]:
        kept = read_before(arguments["before"])
        found = self._present(cluster, arguments, kept)
        before = is_cordoned(found)
        if arguments["state"] == "empty":
            if not self.check_mode:
                self._look(cluster, arguments, kept, found)
            answer = self._result(cluster, before, before or self._anew, Step(None), [])
            # Who registers the look in place of the drain goes on with what the node was before.
            return {**answer, "before": arguments["before"] or {}}
        if arguments["state"] == "ready":
            self._wait(cluster, arguments, kept, found)
            return self._result(cluster, before, before or self._anew, Step(None), [])
        if arguments["state"] == "uncordoned":
            # Also one that somebody else keeps cordoned, or has uncordoned: the next node begins by what is found here.
            ours = to_uncordon(found, arguments["run"]).patch is not None
            if arguments["wait"] and (ours or (kept is not None and mark_of(found) is None)):
                self._wait(cluster, arguments, kept, found)
            rows = self._restart(cluster, arguments) if ours and before else []
            step = cluster.write(lambda node: to_uncordon(node, arguments["run"]), dry_run=self.check_mode)
            return self._result(cluster, before, (before or self._anew) and not _frees(step), step, rows)
        if arguments["state"] == "cordoned":
            step = self._cordon(cluster, arguments)
            jobs = self._wait_for_jobs(cluster, arguments)
            return self._result(cluster, before, True, step, [], notices=jobs)
        return self._drain(cluster, arguments, found)

    def _present(self, cluster: NodeCluster, arguments: dict[str, Any], kept: Before | None) -> dict[str, Any]:
        """Return the node; raises ActionFailure where it is not there.

        One that was deleted since it was drained, as clouds do while a machine is off, is waited for: its kubelet
        registers it again once it runs.
        """
        returns = arguments["state"] == "ready" or (arguments["state"] == "uncordoned" and arguments["wait"])
        if kept is not None and returns and not self.check_mode:
            limit = unlimited(float(arguments["timeout"]))
            with cluster.connection.until(cluster.now() + limit):
                missing = wait_until_whole(cluster, is_deleted, limit=limit, progress=self.progress)
            if missing:
                raise _deleted(arguments)
        return cluster.present()

    def _cordon(self, cluster: NodeCluster, arguments: dict[str, Any]) -> Step:
        at = now()

        def decide(node: dict[str, Any]) -> Step:
            devices = devices_of(node, arguments["resources"])
            mark = Mark(own_user(), arguments["run"], arguments["reason"], at, boot=boot_of(node), devices=devices)
            step = to_cordon(node, mark)
            self._cordoned = node if step.patch is None else {**node, "metadata": {**node["metadata"], **_marks(step)}}
            return step

        return cluster.write(decide, dry_run=self.check_mode)

    def _mark_again(self, cluster: NodeCluster, arguments: dict[str, Any], kept: Before | None, found: Json) -> None:
        """Cordon, mark and label a node again that was registered anew since; raises Unanswered and ActionFailure."""
        if kept is None or not is_anew(found, kept):
            return
        at, uid = now(), ""

        def decide(node: dict[str, Any]) -> Step:
            nonlocal uid
            uid = str(node["metadata"]["uid"])
            return to_mark_again(node, kept, Mark(own_user(), arguments["run"], arguments["reason"], at))

        with passing_as_silence():
            self._anew = cluster.write(decide).patch is not None or self._anew
            if kept.own():
                nodes.apply_labels(cluster.connection, cluster.name, uid, kept.own())

    def _look(self, cluster: NodeCluster, arguments: dict[str, Any], kept: Before | None, found: Json) -> None:
        """See that a node that was drained may be interrupted now. Raises ActionFailure with all that forbids it."""
        self._mark_again(cluster, arguments, kept, found)
        problems = in_the_way(cluster, _options(arguments))
        if problems:
            anew = "was registered again since it was drained, and " if self._anew else ""
            raise ActionFailure(
                f"node {cluster.name} {anew}is not to be interrupted: {'; '.join(problems)}. Its host "
                "is left as it is, and so are these pods: find out what created them (a toleration of the cordon, a "
                "node name, an uncordoned node), then run again",
                node=cluster.name,
                changed=self._anew,
                in_the_way=problems,
            )

    def _wait_for_jobs(self, cluster: NodeCluster, arguments: dict[str, Any]) -> list[str]:
        """Wait for the jobs of the cordoned node; return what is to be said of those that have not ended."""
        if not arguments["wait_for"] or self.check_mode:
            return []
        limit = unlimited(float(arguments["wait_timeout"]))
        with cluster.connection.until(cluster.now() + limit):
            left = wait_for_jobs(cluster, arguments["wait_for"], limit, self.progress)
        within = f"within {arguments['wait_timeout']} s"
        return [f"node {cluster.name}: jobs that have not ended {within}: {', '.join(left)}"] if left else []

    def _wait(self, cluster: NodeCluster, arguments: dict[str, Any], kept: Before | None, found: Json) -> None:
        """Wait until the node may take pods; a look is enough in check mode. Raises ActionFailure."""
        mark = mark_of(found)
        if mark is None and kept is not None:
            mark = mark_again(kept, Mark(own_user(), arguments["run"], arguments["reason"], ""))
        if mark is None or self.check_mode:
            return
        limit = unlimited(float(arguments["timeout"]))
        with cluster.connection.until(cluster.now() + limit):
            missing = wait_for_node(
                cluster,
                mark,
                rebooted=arguments["rebooted"],
                # A run that was killed may have made VFs fewer: only who has drained the node knows.
                renewed=arguments["renewed"] or kept is None,
                limit=limit,
                progress=self.progress,
                labels=() if kept is None else sorted(kept.labels),
                on_look=lambda node: self._mark_again(cluster, arguments, kept, node),
                besides=lambda: unready_multus(cluster.pods(recent=True)) if arguments["rebooted"] else [],
            )
        if missing == [DELETED]:
            raise _deleted(arguments, changed=self._anew)
        if missing:
            cordoned = is_cordoned(found) or self._anew
            stays = "It stays cordoned" if cordoned else "Somebody else has uncordoned it already"
            raise ActionFailure(
                f"node {cluster.name} is not uncordoned, {'; '.join(missing)} (within {arguments['timeout']} s). "
                f"{stays}: look at its kubelet and device plugins, then run again; wait: false uncordons it as it is",
                node=cluster.name,
                changed=self._anew,
                cordoned=cordoned,
                missing=missing,
            )

    def _restart(self, cluster: NodeCluster, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        """Have DaemonSets replace pods that the change has made stale; return the rows.

        These are pods that held a device over the change, where that is wanted, and those that offer other VFs than
        the host now has.
        """
        stale = arguments["renewed"] and not arguments["rebooted"]
        if not (arguments["restart_daemon_sets"] or stale) or self.check_mode:
            return []
        limit, options = unlimited(float(arguments["timeout"])), replace(_options(arguments), everything=False)
        pods = cluster.pods()
        plugins = {pod["metadata"]["uid"] for pod in pods if is_plugin(pod)} if stale else set()
        held = {verdict.uid for verdict in judge(pods, options, cluster.has_daemon_set) if verdict.keeps}
        restarts = frozenset(plugins | (held if arguments["restart_daemon_sets"] else set()))
        if not restarts:
            return []
        drain = Drain(cluster, cluster.name, replace(options, restarts=restarts), limit, self.progress)
        try:
            with cluster.connection.until(cluster.now() + limit):
                drain.run()
        except DrainFailed as failure:
            raise ActionFailure(
                f"node {cluster.name} stays cordoned, as pods of DaemonSets still hold what was changed: {failure}",
                node=cluster.name,
                cordoned=True,
                changed=bool(drain.seen),
                pods=_rows_of(drain, []),
            ) from failure
        if plugins and arguments["wait"]:
            self._wait_for_plugins(cluster, arguments, len(plugins))
        return _rows_of(drain, [])

    def _wait_for_plugins(self, cluster: NodeCluster, arguments: dict[str, Any], count: int) -> None:
        """Wait until as many pods of the SR-IOV device plugin as before are ready again; raises ActionFailure."""

        def missing_of(_node: Json | None) -> list[str]:
            ready = [pod for pod in cluster.pods(recent=True) if is_plugin(pod) and is_ready(pod)]
            return [] if len(ready) >= count else ["its SR-IOV device plugin is not ready again"]

        limit = unlimited(float(arguments["timeout"]))
        with cluster.connection.until(cluster.now() + limit):
            missing = wait_until_whole(cluster, missing_of, limit=limit, progress=self.progress)
        if missing:
            raise ActionFailure(
                f"node {cluster.name} stays cordoned: {missing[0]} (within {arguments['timeout']} s), so that it would "
                "offer VFs that are gone; look at its pod, then run again",
                node=cluster.name,
                cordoned=True,
                changed=True,
            )

    def _drain(self, cluster: NodeCluster, arguments: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
        before = is_cordoned(found)
        limit = unlimited(float(arguments["timeout"]))
        drain = Drain(cluster, cluster.name, _options(arguments), limit, self.progress)
        try:
            planned = drain.plan()
        except DrainFailed as failure:
            kept = "it is as it was" if not before else "it was cordoned before, and stays so"
            raise ActionFailure(
                f"node {cluster.name} is not drained, {kept}: {failure}", node=cluster.name
            ) from failure
        said = [*_kept(cluster.name, planned, arguments), *_slow(cluster.name, planned, limit)]
        said += _returning(cluster.name, planned)
        for text in said:
            self.progress(text)
        step = self._cordon(cluster, arguments)
        if self.check_mode:
            refusals = drain.foresee(planned)
            rows = [_row(verdict, blocked=refusals.get(verdict.uid, "")) for verdict in planned]
            return self._result(cluster, before, True, step, rows, notices=[*_foreseen(cluster.name, rows), *said])
        try:
            jobs = self._wait_for_jobs(cluster, arguments)
            with cluster.connection.until(cluster.now() + limit):
                staying = drain.run()
        except (DrainFailed, ApiFault) as failure:
            cordoned, stands = self._undo(cluster, arguments, found)
            raise ActionFailure(
                f"node {cluster.name} is not drained: {failure}. {stands}",
                node=cluster.name,
                cordoned=cordoned,
                changed=(cordoned and step.patch is not None) or bool(drain.seen),
                pods=_rows_of(drain, []),
            ) from failure
        return self._result(cluster, before, True, step, _rows_of(drain, staying), notices=[*said, *jobs])

    def _undo(self, cluster: NodeCluster, arguments: dict[str, Any], found: dict[str, Any]) -> tuple[bool, str]:
        """Uncordon a node whose drain has failed, where that is wanted; return whether it is cordoned, in words too.

        One that an earlier run has left cordoned stays so: its host may have been changed since.
        """
        stays = True, "It stays cordoned: run again, or uncordon it with state: uncordoned"
        if not arguments["give_back"] or (mark_of(found) is not None and is_cordoned(found)):
            return stays
        try:
            with cluster.connection.until(cluster.now() + _UNDONE_WITHIN):
                step = cluster.write(lambda node: to_uncordon(node, arguments["run"]))
        except (ActionFailure, ApiFault, Unanswered):
            # Of both failures the first one tells more.
            return stays
        if step.notice:
            return True, f"Nothing on it was changed, and {step.notice}: fix that, then run again"
        return False, "It takes pods again, because nothing on it was changed: fix that, then run again"

    def _result(
        self,
        cluster: NodeCluster,
        before: bool,
        after: bool,
        step: Step,
        rows: list[dict[str, Any]],
        *,
        notices: Sequence[str] = (),
    ) -> dict[str, Any]:
        leaving = [row for row in rows if row["action"] == "evicted"]
        answer: dict[str, Any] = {
            "changed": step.patch is not None or bool(leaving),
            "node": cluster.name,
            "cordoned": after,
            "pods": rows,
            "before": {},
            "notices": [*([step.notice] if step.notice else []), *notices],
        }
        if self._anew:
            answer["changed"] = True
            again = f"node {cluster.name} was registered again since it was drained; cordoned again"
            answer["notices"].insert(0, again)
        mark = None if self._cordoned is None else mark_of(self._cordoned)
        if self._cordoned is not None and mark is not None:
            labels = self._cordoned["metadata"].get("labels") or {}
            placing = {name: labels[name] for name in DEVICE_LABELS if name in labels}
            answer["before"] = before_of(self._cordoned, mark, placing, own_labels(self._cordoned)).as_dict()
        if self.diff_mode:
            answer["diff"] = {
                "before_header": f"node {cluster.name}",
                "after_header": f"node {cluster.name}",
                "before": _picture(before, rows),
                "after": _picture(after, [row for row in rows if row["action"] != "evicted"], marked=step),
            }
        return answer


def _deleted(arguments: Mapping[str, Any], *, changed: bool = False) -> ActionFailure:
    return ActionFailure(
        f"node {arguments['node']} was deleted since it was drained, and its kubelet has not registered it again "
        f"(within {arguments['timeout']} s). What was done on its host stays: restart the kubelet there, or take the "
        "host out of the inventory if the node will not come back, then run again",
        node=arguments["node"],
        changed=changed,
    )


def _standing(cluster: NodeCluster, err: ApiFault | Unanswered | None = None) -> dict[str, bool]:
    """Return whether the node is there no more, and whether the API server is silent, which says nothing of it."""
    if isinstance(err, Unanswered) or (err is not None and err.passing):
        return {"gone": False, "unanswered": True}
    try:
        with cluster.connection.until(cluster.now()):
            return {"gone": cluster.node() is None, "unanswered": False}
    except (ApiFault, Unanswered) as silence:
        return {"gone": False, "unanswered": isinstance(silence, Unanswered)}


def _may_be_renewed(given: Given, reboot: Mapping[str, Any], turn: Mapping[str, Any]) -> bool:
    """Tell whether a host may have other VFs.

    What was written for a reboot, and what an earlier run did that left its node cordoned, is not known.
    """
    result = given.get("rdma_fabric_host_result") or {}
    return is_renewed(result, {}, check=False) or bool(reboot.get("rebooted") or turn.get("cordoned"))


def _options(arguments: Mapping[str, Any]) -> DrainOptions:
    return DrainOptions(
        everything=arguments["pods"] == "all",
        resources=tuple(arguments["resources"]),
        force=arguments["force"],
        delete_empty_dir=arguments["delete_empty_dir"],
    )


def _marks(step: Step) -> dict[str, Any]:
    """Return what a step writes of our annotations."""
    return {} if step.patch is None else {"annotations": step.patch["metadata"]["annotations"]}


def _for_the_turn(stage: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    return {"refusals": refusals_of(answer.get("pods") or [])} if stage == DRAIN else {}


def _frees(step: Step) -> bool:
    return step.patch is not None and "spec" in step.patch


def _row(
    verdict: Verdict, *, blocked: str = "", refused: float | None = None, seconds: float | None = None
) -> dict[str, Any]:
    """Return a pod as results show it; ``blocked`` says what has refused its eviction, or in check mode would now."""
    return {
        "namespace": verdict.namespace,
        "name": verdict.name,
        "action": "evicted" if verdict.action == EVICT else "stays",
        "reason": verdict.reason,
        "blocked": blocked,
        "refused": refused,
        "seconds": seconds,
    }


def _foreseen(node: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is said in check mode of pods whose eviction would be refused now."""
    blocked = [f"{row['namespace']}/{row['name']}: {row['blocked']}" for row in rows if row["blocked"]]
    return [f"node {node}: evictions that would be refused now: {named(blocked, _MOST_NAMED)}"] if blocked else []


def _kept(node: str, verdicts: Sequence[Verdict], arguments: Mapping[str, Any]) -> list[str]:
    """Return what is said of pods that stay with what a change of the node may take from them."""
    pods = [f"{verdict} ({verdict.keeps})" for verdict in verdicts if verdict.keeps]
    step = "they are restarted before the node takes pods again"
    if not arguments["restart_daemon_sets"]:
        step = "restart them after the change (rdma_fabric_drain_restart_daemon_sets: true does)"
    what = "pods of DaemonSets stay and hold what a change takes from them"
    return [f"node {node}: {what}: {named(pods, _MOST_NAMED)}; {step}"] if pods else []


def _slow(node: str, verdicts: Sequence[Verdict], limit: float) -> list[str]:
    """Return what is said of pods that may take longer to end than the drain waits; most end long before."""
    pods = [f"{verdict} ({verdict.grace} s)" for verdict in verdicts if verdict.may_outlast(limit)]
    what = f"pods that may take longer to end than the {limit:g} s that the drain waits, and end all the same"
    return [f"node {node}: {what}: {named(pods, _MOST_NAMED)}; raise the timeout of the drain"] if pods else []


def _returning(node: str, verdicts: Sequence[Verdict]) -> list[str]:
    """Return what is said of pods that may come back while the node is drained, as cilium/cilium#28549 shows."""
    pods = [str(verdict) for verdict in verdicts if verdict.returns and not verdict.ending]
    what = "pods that tolerate the cordon, so that their controllers may put them on the node again"
    step = "take that toleration (of any taint, operator: Exists) out of them, or scale them down"
    return [f"node {node}: {what}: {named(pods, _MOST_NAMED)}; {step}"] if pods else []


def _rows_of(drain: Drain, staying: Sequence[Verdict]) -> list[dict[str, Any]]:
    left = []
    for uid, verdict in drain.seen.items():
        blocked, refused = drain.refusals.get(uid, ("", None))
        left.append(_row(verdict, blocked=blocked, refused=refused, seconds=drain.seconds.get(uid)))
    return left + [_row(verdict) for verdict in staying]


def _picture(cordoned: bool, rows: Sequence[dict[str, Any]], *, marked: Step | None = None) -> str:
    """Return the node and its pods as lines of text, for a difference."""
    lines = [f"schedulable: {'no' if cordoned else 'yes'}"]
    if marked is not None and marked.patch is not None:
        mark = marked.patch["metadata"]["annotations"]
        lines += [f"{name}: {'written' if value is not None else 'removed'}" for name, value in mark.items()]
    lines += [
        f"pod {row['namespace']}/{row['name']}" + (f": stays: {row['reason']}" if row["action"] == "stays" else "")
        for row in rows
    ]
    return "\n".join(lines) + "\n"
