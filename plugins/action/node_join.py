# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets a node join from the controller. Its documentation is in ``plugins/modules/node_join.py``."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from typing import Any, ClassVar, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.taints import taint as taint_problems
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.taints import taint_of
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.on_node import on_node
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.lease import own_user
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.events import create_event, warning_of
from ansible_collections.rdma.fabric.plugins.module_utils._label_requirements import written
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import Step, in_one_line
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.drain import Unanswered, unlimited
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.joining import (
    ANNOTATION,
    Mark,
    NotNew,
    has_joined,
    in_service,
    is_tainted,
    mark_of,
    to_fail,
    to_join,
    to_taint,
    what_keeps_it,
)
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.objects import Json
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.ready import wait_until_whole
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.process import running_play
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.driver_nodes import whole
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.role import validated_spec
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.node_cluster import NodeCluster, passing_as_silence

_NODE_NAME = "rdma_fabric_node_name"
_FAILED = "RdmaFabricJoinFailed"
_NOTHING = Step(None)


class ActionModule(ClusterAction):
    """Taints a node that is new, and takes the taint off once it is verified."""

    variables: ClassVar[Mapping[str, str]] = {
        **ClusterAction.variables,
        "node": _NODE_NAME,
        "devices": "rdma_fabric_join_devices",
        "timeout": "rdma_fabric_join_timeout",
    }

    def variables_read(self) -> Mapping[str, str]:
        """Return what says how long to wait and for what; a node is tainted at once."""
        return self.variables if "state" in self._task.args else {**ClusterAction.variables, "node": _NODE_NAME}

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return what variables say, and what preflight has validated for the host of the task."""
        spec = validated_spec(task_vars, self.templated)
        taint = (spec.get("settings") or {}).get("join_taint") or ""
        # Only who waits for the node has to know what is wanted on it.
        wanted = {"spec": spec} if self._task.args.get("state") == "joined" else {}
        node = str(task_vars.get("inventory_hostname", ""))
        return {"node": node, "taint": taint, **wanted, **super().role_arguments(task_vars)}

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Bring the node to the state that is asked for; see the module's documentation."""
        _refuse(arguments)
        self._taint = taint_of(arguments["taint"])
        if arguments["spec"]:
            arguments = {**arguments, "spec": whole(arguments["spec"], variables_of_hosts(task_vars))[0]}
        now = datetime.now(timezone.utc)
        run = f"{own_user()}-{running_play().rpartition('/')[2] or os.getppid()}"
        self._mark, self._now = Mark(own_user(), run, now.strftime("%Y-%m-%dT%H:%M:%SZ")), now
        with task_environment(self._environment()):
            try:
                cluster = NodeCluster(self.waiting_connection(arguments), arguments["node"])
                answer = self._bring(cluster, arguments)
            except NotNew as reason:
                raise ActionFailure(str(reason), node=arguments["node"]) from reason
            except (ApiFault, Unanswered) as err:
                raise ActionFailure(f"node {arguments['node']}: {err}", node=arguments["node"]) from err
        answer["requests"] = {verb: cluster.connection.sent[verb] for verb in ("get", "list", "patch", "post")}
        return answer

    def _bring(self, cluster: NodeCluster, arguments: dict[str, Any]) -> dict[str, Any]:
        found = cluster.node()
        if arguments["state"] == "tainted":
            return self._result(cluster, found, _NOTHING if found is None else self._keep_pods_off(cluster))
        if arguments["state"] == "failed":
            step, notices = self._fail(cluster, found, in_one_line(arguments["reason"]))
            return self._result(cluster, found, step, notices)
        if found is not None and has_joined(found, self._taint):
            return self._result(cluster, found, _NOTHING)
        if self.check_mode:
            missing = self._missing(cluster, found, arguments, "")
            step = _NOTHING if found is None else to_join(found, self._taint, self._mark)
            notices = [f"node {cluster.name} is to be verified: {'; '.join(missing)}"] if missing else []
            return self._result(cluster, found, step, notices, missing)
        self._wait(cluster, arguments)
        verified = cluster.present()
        return self._result(cluster, verified, cluster.write(lambda node: to_join(node, self._taint, self._mark)))

    def _keep_pods_off(self, cluster: NodeCluster) -> Step:
        return cluster.write(
            lambda node: to_taint(node, self._taint, self._pods(cluster, node), self._mark), dry_run=self.check_mode
        )

    def _pods(self, cluster: NodeCluster, node: Json) -> Sequence[Json]:
        """Return the pods of a node, which matter where it is not tainted yet."""
        known = is_tainted(node, self._taint) or has_joined(node, self._taint)
        return [] if known else cluster.pods()

    def _wait(self, cluster: NodeCluster, arguments: dict[str, Any]) -> None:
        """Wait until the node is verified; raises ActionFailure, and says so on the node, when that does not come."""
        boot: str | None = None

        def missing_of(node: Json | None) -> list[str]:
            nonlocal boot
            if node is not None and boot is None:
                # As it was before the reboot: the mark follows the boot of the node.
                before = _boot_before(node) if arguments["rebooted"] else ""
                # Where pods work, none is to be ended nor kept away.
                if not in_service(self._pods(cluster, node), self._taint):
                    with passing_as_silence():
                        self._keep_pods_off(cluster)
                boot = before
            return self._missing(cluster, node, arguments, boot or "")

        limit = unlimited(float(arguments["timeout"]))
        with cluster.connection.until(cluster.now() + limit):
            missing = wait_until_whole(cluster, missing_of, limit=limit, progress=self.progress)
        if missing:
            why = f"not verified within {arguments['timeout']} s: {'; '.join(missing)}"
            step, notices = self._fail(cluster, cluster.node(), in_one_line(why))
            raise ActionFailure(
                f"node {cluster.name} was {why}. It keeps the taint {written(self._taint)} if it has it: look at its "
                "kubelet and the pods of the DaemonSets on it, then run again",
                node=cluster.name,
                changed=step.patch is not None,
                missing=missing,
                notices=notices,
            )

    def _missing(self, cluster: NodeCluster, node: Json | None, arguments: dict[str, Any], boot: str) -> list[str]:
        """Return what the node lacks, another boot than ``boot`` among that unless it is empty; raises Unanswered."""
        if node is None:
            return what_keeps_it(None, [], devices=[], daemon_sets=[], boot="")
        chosen = on_node(objects_of(render(arguments["spec"])) if arguments["spec"] else [], node)
        devices = chosen.devices if arguments["devices"] is None else arguments["devices"]
        pods = cluster.pods(recent=True) if chosen.daemon_sets else []
        missing = what_keeps_it(node, pods, devices=devices, daemon_sets=chosen.daemon_sets, boot=boot)
        return [*missing, chosen.undecided] if chosen.undecided else missing

    def _fail(self, cluster: NodeCluster, found: Json | None, reason: str) -> tuple[Step, list[str]]:
        """Say on the node, and in an Event about it, what it has failed by; return what could not be said and why."""
        if found is None or not is_tainted(found, self._taint):
            return _NOTHING, []
        step = cluster.write(lambda node: to_fail(node, self._taint, reason, self._mark), dry_run=self.check_mode)
        if self.check_mode:
            return step, []
        try:
            create_event(cluster.connection, warning_of(cluster.name, _FAILED, reason, self._mark.run, self._now))
        except ApiFault as fault:
            return step, [f"only the annotation {ANNOTATION} of node {cluster.name} says why it failed: {fault}"]
        return step, []

    def _result(
        self,
        cluster: NodeCluster,
        found: Json | None,
        step: Step,
        notices: Sequence[str] = (),
        missing: Sequence[str] = (),
    ) -> dict[str, Any]:
        before = _picture(found, found)
        after = _picture(found, _with(found, step.patch))
        answer: dict[str, Any] = {
            "changed": step.patch is not None,
            "node": cluster.name,
            "registered": found is not None,
            "joining": found is None or not has_joined(_with(found, step.patch) or found, self._taint),
            "missing": list(missing),
            "notices": list(notices),
        }
        if self.diff_mode:
            header = f"node {cluster.name}"
            answer["diff"] = {"before_header": header, "after_header": header, "before": before, "after": after}
        return answer


def _refuse(arguments: dict[str, Any]) -> None:
    """Raise ActionFailure with everything that is wrong."""
    taint = arguments["taint"]
    wrong = [f"taint: {each.problem} ({each.hint})" for each in (taint_problems(taint) if taint else ())]
    wrong += [] if taint else ["taint: is needed, as kubectl taint takes it (set rdma_fabric_join_taint)"]
    if arguments["timeout"] < 0:
        wrong.append(f"timeout: {arguments['timeout']} is negative; 0 means no limit")
    if arguments["state"] == "failed" and not arguments["reason"].strip():
        wrong.append("reason: is needed with state: failed, for people who look at the node")
    if wrong:
        raise ActionFailure(f"node_join: {'; '.join(wrong)}")


def _boot_before(node: Json) -> str:
    """Return the boot that the kubelet reported when the node was tainted, empty for one that was not."""
    found = mark_of(node)
    return found.boot if found is not None and not found.joined else ""


def _with(node: Json | None, patch: Json | None) -> Json | None:
    """Return a node as a patch of ours leaves it."""
    if node is None or patch is None:
        return node
    annotations = {**(node["metadata"].get("annotations") or {}), **patch["metadata"]["annotations"]}
    metadata = {**node["metadata"], "annotations": annotations}
    return {**node, "metadata": metadata, "spec": {**(node.get("spec") or {}), **patch.get("spec", {})}}


def _picture(found: Json | None, node: Json | None) -> str:
    """Return taints and mark of a node as lines of text, for a difference."""
    if found is None or node is None:
        return "not registered\n"
    mark = mark_of(node)
    taints = [f"taint {written(each)}" for each in (node.get("spec") or {}).get("taints") or []]
    said = "none" if mark is None else "joined" if mark.joined else f"joining{': ' if mark.reason else ''}{mark.reason}"
    return "\n".join([*taints, f"{ANNOTATION}: {said}"]) + "\n"
