# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why are pods not running?"""

from __future__ import annotations

import re
from typing import Any, Mapping

from ..api.errors import ApiFault
from ..api.kinds import EVENTS, PODS
from ..api.snapshot import list_objects
from ..api.transport import Connection
from ..objects.objects import Json, Key
from ..objects.readiness import condition

_MOST_REASONS = 5
# An event has no more (k8s.io/kubernetes, apis/core/validation), and its remedy stands at the end.
_MOST_CHARACTERS = 1024
_POD_NAME = re.compile(r'\bpods? "[^"]*"')
ENDED = ("Succeeded", "Failed")
_REPEATED = "(combined from similar events): "
_NOT_PULLED = ("ErrImagePull", "ImagePullBackOff")
# The kubelet asks the registry without it then, and the container says no more than what that answers.
_NO_LOGIN = "FailedToRetrieveImagePullSecret"


def pod_reasons(pod: Mapping[str, Any]) -> list[str]:
    """Return why one pod does not run: how it ended, what its containers wait for or ended with, why no node takes it.

    No reason names the pod, so that many with the same one are told once.
    """
    status = pod.get("status") or {}
    found: list[str] = []
    if status.get("phase") in ENDED:
        # The kubelet ends pods that it evicts or gets no devices for (kubernetes/kubernetes#125579).
        text = " ".join(str(status.get(key) or "") for key in ("reason", "message")).strip()
        found.append(_with_message(f"the pod has ended ({status['phase']})", text))
    for container in container_statuses(pod):
        state, crash = container.get("state") or {}, _crash(container)
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if crash:
            state_now = waiting.get("reason") or f"restarted {container.get('restartCount')} times and not ready"
            found.append(f"{state_now}: {_ending(pod, container, crash)}")
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            found.append(_with_message(str(waiting["reason"]), waiting.get("message")))
        elif ended.get("exitCode"):
            found.append(_ending(pod, container, ended))
    for entry in status.get("conditions") or []:
        if entry.get("type") == "PodScheduled" and entry.get("status") == "False":
            found.append(_with_message(str(entry.get("reason", "Unschedulable")), entry.get("message")))
    return found


def log_command(pod: Mapping[str, Any]) -> str:
    """Return the command that shows what the container of a pod that crashed has said last, empty text for none."""
    for container in container_statuses(pod):
        if _crash(container):
            metadata = pod["metadata"]
            place = f"--namespace={metadata.get('namespace')} {metadata.get('name')}"
            return f"kubectl logs {place} --container={container.get('name')} --previous"
    return ""


def container_statuses(pod: Mapping[str, Any]) -> list[Json]:
    """Return the statuses of a pod's containers, those that run before the others first."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _crash(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how a container ended before that is started again and again, empty for another one.

    Docker tells why it can't run one (RunContainerError) by its last end alone (k8snetworkplumbingwg/multus-cni#710).
    """
    state, last = container.get("state") or {}, (container.get("lastState") or {}).get("terminated") or {}
    waiting = state.get("waiting") or {}
    again = waiting.get("reason") == "CrashLoopBackOff" or (waiting.get("reason") and not waiting.get("message"))
    unready = "running" in state and not container.get("ready") and last.get("exitCode")
    return last if again or unready else {}


def _ending(pod: Mapping[str, Any], container: Mapping[str, Any], ended: Mapping[str, Any]) -> str:
    why = f" ({ended['reason']})" if ended.get("reason") not in (None, "", "Error", "Completed") else ""
    if ended.get("reason") == "OOMKilled":
        why = f" (OOMKilled{_memory_of(pod, container.get('name'))})"
    return _with_message(f"{container.get('name')} ended with {ended.get('exitCode')}{why}", ended.get("message"))


def _memory_of(pod: Mapping[str, Any], name: Any) -> str:
    """Return the limit of a container's memory, as words that follow others; empty without one."""
    spec = pod.get("spec") or {}
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
        if container.get("name") == name and limit:
            return f": its memory is limited to {limit}"
    return ""


def event_reasons(events: list[Json]) -> list[str]:
    """Return the warnings among events, the latest first, and once what differs in the name of a pod alone."""
    warnings = [event for event in events if event.get("type") == "Warning"]
    warnings.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""), reverse=True)
    return list(dict.fromkeys(map(_told, warnings)))


def _told(entry: Mapping[str, Any]) -> str:
    """Return what an event or a condition says, in the same words for each pod."""
    return without_pod_name(_with_message(str(entry.get("reason", "")), entry.get("message"))).replace(_REPEATED, "")


def without_pod_name(text: str) -> str:
    """Return what is said of a pod in one line, without its name: controllers make up another one at each try."""
    return _POD_NAME.sub("the pod", " ".join(text.split()))


def diagnose(connection: Connection, workload: Mapping[str, Any]) -> list[str]:
    """Return up to five reasons why a workload is not ready, from its pods and, where those say nothing, from events.

    Where a container crashes, the command follows that shows what it has said.
    What can't be read (the user may lack the right) is said instead of the reason.
    """
    metadata = workload["metadata"]
    namespace = str(metadata.get("namespace", ""))
    try:
        selector = {"labelSelector": selector_of(workload)}
        pods = list_objects(connection, Key("v1", "Pod", namespace, ""), PODS, selector)
        # The controller of a Deployment shows what its ReplicaSet meets, whose events these are.
        failing = condition(workload.get("status") or {}, "ReplicaFailure")
        reasons = [_told(failing)] if failing else []
        # What has ended may have been replaced since.
        pods.sort(key=lambda pod: (pod.get("status") or {}).get("phase") in ENDED)
        reasons += [reason for pod in pods for reason in pod_reasons(pod)]
        waiting = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Pending"]
        if not reasons:
            reasons = _events_of(connection, namespace, [*waiting[:1], workload])
        elif waiting and reasons[0].startswith(_NOT_PULLED):
            told_of = _events_of(connection, namespace, waiting[:1])
            reasons = [*(each for each in told_of if each.startswith(_NO_LOGIN)), *reasons]
        commands = [command for command in map(log_command, pods) if command]
    except ApiFault as err:
        reasons, commands = [f"the reason can't be read: {err.message}"], []
    told = list(dict.fromkeys(reasons))[:_MOST_REASONS]
    return [*told, *(f"see {command}" for command in commands[:1])]


def _events_of(connection: Connection, namespace: str, involved: list[Any]) -> list[str]:
    reasons: list[str] = []
    for body in involved:
        selector = {"fieldSelector": f"involvedObject.uid={body['metadata'].get('uid', '')}"}
        reasons += event_reasons(list_objects(connection, Key("v1", "Event", namespace, ""), EVENTS, selector))
    return reasons


def selector_of(workload: Mapping[str, Any]) -> str:
    """Return the label selector of a workload's pods."""
    return ",".join(f"{name}={value}" for name, value in sorted(labels_of_pods(workload).items()))


def labels_of_pods(workload: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels by which a workload selects its pods, empty for none."""
    return ((workload.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}


def _with_message(reason: str, message: Any) -> str:
    text = " ".join(str(message or "").split())
    return f"{reason}: {text[:_MOST_CHARACTERS]}" if text else reason
