# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Would the API server admit the pods of what is pushed?

Quotas, Pod Security, policies and webhooks judge pods, not the templates of workloads: controllers meet them after
everything is applied. So one pod of each template is created in a dry run, as its controller would.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..api.errors import ApiFault, Fault
from ..api.kinds import PODS, collection_path
from ..api.transport import Connection
from ..batch.session import CHANGING, CREATED, Change
from ..cluster.diagnosis import without_pod_name
from ..objects.objects import DEFAULT_NAMESPACE, Json, Key
from ..objects.readiness import readiness
from .rights import refused_need

_NO_UID = "00000000-0000-0000-0000-000000000000"
# k8s.io/apiserver, admission/plugin/webhook: it is not there, or takes too long.
_WEBHOOK = "failed calling webhook"
Templates = Callable[[Json], "Iterable[tuple[Any, Any]]"]
"""Yields (path, value) of each pod template of an object."""

# Objects beside its namespace by which a pod is judged.
_JUDGES = frozenset(
    (
        "LimitRange",
        "PolicyException",
        "PriorityClass",
        "ResourceQuota",
        "RuntimeClass",
        "SecurityContextConstraints",
        "ValidatingAdmissionPolicyBinding",
    )
)
_POD_SECURITY = "pod-security.kubernetes.io/"
# Labels by which no policy of others judges: the server's name of the namespace, ours, and those of Pod Security, whose
# refusals are told from others.
_NO_POLICY = ("kubernetes.io/", "app.kubernetes.io/", "rdma.fabric/", _POD_SECURITY)
# The pod lacks what the run makes, or who would judge it is not asked in a dry run.
_UNJUDGED = re.compile(r"error looking up service account|does not support dry run")
_BY_LEVEL = re.compile(r"violates PodSecurity")
# What a namespace refuses by its own level, quotas and ranges (k8s.io/apiserver and k8s.io/kubernetes, plugin/pkg).
_BY_ITS_OWN = re.compile(rf"{_BY_LEVEL.pattern}|(?:exceeded|failed) quota: |(?:minimum|maximum) \S+ usage per ")

# Policies that keep all out of ``default`` (disallow-default-namespace of kyverno/policies, K8sAzureBlockDefault).
_OF_DEFAULT = re.compile(rf"\b{DEFAULT_NAMESPACE}\W+namespace\b", re.IGNORECASE)


@dataclass(frozen=True)
class _Namespace:
    """What a run does to a namespace: whether it makes it, changes its level of Pod Security, or what else judges."""

    name: str
    new: bool = False
    level: bool = False
    judges: bool = False


def try_pods(connection: Connection, changes: Iterable[Change], templates: Templates) -> tuple[list[str], list[str]]:
    """Return what keeps out the pods of workloads that are new, changed or not ready, and notices; raises ApiFault.

    No pod can be tried in a namespace that the run makes: there ``default`` stands for it, with what holds for all
    namespaces. A refusal is a notice where the run brings what pods are judged by, such as a quota, or where it is one
    of ``default`` itself.
    """
    done = list(changes)
    made = {change.key.name for change in done if change.key.kind == "ServiceAccount" and change.action == CREATED}
    refused: dict[tuple[_Namespace, str, str], list[str]] = {}
    untried: set[str] = set()
    for change, pod in _pods_of(done, templates):
        namespace = _namespace(change.key.namespace or DEFAULT_NAMESPACE, done)
        place = pod["metadata"]["namespace"] = DEFAULT_NAMESPACE if namespace.new else namespace.name
        if pod["spec"].get("serviceAccountName") in made:
            del pod["spec"]["serviceAccountName"]
        fault = None if place in untried else _refusal(connection, pod)
        if fault is not None and refused_need(fault) is not None:
            untried.add(place)
        elif fault is not None and _counts(fault, namespace):
            text = without_pod_name(fault.message.partition(": ")[2])
            refused.setdefault((namespace, text, fault.next_step), []).append(str(change.key))
            if fault.fatal:
                # A webhook without an answer: the next pod would wait for it as long.
                break
    problems: list[str] = []
    notices: list[str] = []
    for (namespace, text, step), workloads in refused.items():
        where = otherwise = ""
        if namespace.new:
            where = f", as far as {DEFAULT_NAMESPACE} shows it before {namespace.name} is there"
            otherwise = f"; if {namespace.name} is not to be judged so, create it, with its labels, before the run"
        told = f"no pod of {named(sorted(set(workloads)))} is admitted{where}: {text} ({step}{otherwise})"
        is_unsure = namespace.judges or (namespace.new and _OF_DEFAULT.search(text))
        (notices if is_unsure else problems).append(told)
    if untried:
        lacked = f"the user may not create pods in {named(sorted(untried))}"
        notices.append(f"not tried whether quotas, policies and webhooks admit the pods of what is pushed: {lacked}")
    return problems, notices


def _pods_of(changes: Iterable[Change], templates: Templates) -> Iterator[tuple[Change, Json]]:
    """Yield a pod of each template of the workloads that have yet to make some; a Pod itself was tried as an object."""
    for change in changes:
        body = change.after
        if body is None or change.key.kind == "Pod":
            continue
        if change.action not in CHANGING:
            state = readiness(body)
            if state is None or state.ready:
                continue
        for _path, template in templates(body):
            yield change, _pod(change.key, template)


def _pod(owner: Key, template: Mapping[str, Any]) -> Json:
    """Return a pod as the controller of a workload makes it: policies ask whether it has one."""
    metadata = template.get("metadata") or {}
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": _NO_UID}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{owner.name}-",
            **{name: dict(metadata[name]) for name in ("labels", "annotations") if metadata.get(name)},
            "ownerReferences": [{**reference, "controller": True}],
        },
        "spec": dict(template.get("spec") or {}),
    }


def _namespace(name: str, changes: Iterable[Change]) -> _Namespace:
    """Return what a run does to a namespace and to what judges its pods."""
    new = level = judges = False
    for change in changes:
        if change.action not in CHANGING:
            continue
        if (change.key.kind, change.key.name) == ("Namespace", name):
            new = change.action == CREATED
            before, after = _labels(change.before), _labels(change.after)
            moved = {label for label, value in after.items() if before.get(label) != value}
            level = any(label.startswith(_POD_SECURITY) for label in moved)
            judges = judges or any(not label.startswith(_NO_POLICY) for label in moved)
        judges = judges or (change.key.kind in _JUDGES and change.key.namespace in ("", name))
    return _Namespace(name, new, level, judges)


def _labels(body: Json | None) -> Mapping[str, str]:
    return ((body or {}).get("metadata") or {}).get("labels") or {}


def _refusal(connection: Connection, pod: Json) -> ApiFault | None:
    """Return why a pod is refused, None for one that is not; raises ApiFault where the server does not answer."""
    path = collection_path("v1", PODS, pod["metadata"]["namespace"])
    try:
        connection.request(
            "post", path, what="pods", query={"dryRun": "All"}, body=pod, content_type="application/json"
        )
    except ApiFault as fault:
        if fault.fatal and _WEBHOOK not in fault.message:
            raise
        return fault
    return None


def _counts(fault: ApiFault, namespace: _Namespace) -> bool:
    """Tell whether a refusal is one of the pod, where it will be.

    What is wrong with its fields has been said of its workload, or is for its controller to fill in.
    """
    if fault.fault is Fault.NOT_FOUND or _UNJUDGED.search(fault.message):
        return False
    if any(cause.get("field") for cause in fault.causes):
        return False
    if namespace.new and _BY_ITS_OWN.search(fault.message):
        return False
    return not (namespace.level and _BY_LEVEL.search(fault.message))
