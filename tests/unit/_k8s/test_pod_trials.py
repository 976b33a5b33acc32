# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Would the pods of what is pushed be admitted? One of each template is tried, where it can be, and counted rightly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.pods import pod_templates
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchRequest
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.dry_run import DryRun, dry_run
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import apply, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    connect,
    daemon_set,
    failure,
    good,
    namespace_object,
)
from ansible_collections.rdma.fabric.tests.unit._k8s.reviewer import ALL, Reviewer, rule

NO_QUOTA = (
    "insufficient quota to match these scopes: [{PriorityClass In [system-node-critical system-cluster-critical]}]"
)
POLICY = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: label the namespace example.com/exempt"
LEVEL = 'violates PodSecurity "baseline:latest": privileged'


class Judge(Reviewer):
    """Refuses each pod with ``text``; ``pods`` are those that it was sent."""

    def __init__(self, text: str = "", code: int = 403, rules: Any = None) -> None:
        super().__init__(rules)
        self.text, self.code, self.pods = text, code, list[Any]()
        self.causes: list[Any] = []

    def send(self, method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        if method != "POST" or "/pods?" not in path or self._refused(method, path):
            return super().send(method, path, body, content_type)
        assert path.endswith("?dryRun=All")
        pod = json.loads(body or b"")
        assert path.startswith(f"/api/v1/namespaces/{pod['metadata']['namespace']}/")
        self.pods.append(pod)
        text = f'pods "{pod["metadata"]["generateName"]}{len(self.pods)}" is forbidden: {self.text}'
        return failure(self.code, "Forbidden", text, causes=self.causes) if self.text else good(pod, 201)


def look(server: Judge, *objects: Any) -> DryRun:
    request = BatchRequest(waves=[wave(*objects)], set_name="web", inventory_namespace="ns")
    return dry_run(connect(server), request, pod_templates)


def test_a_pod_is_tried_as_its_controller_would_make_it() -> None:
    server = Judge()
    assert look(server, daemon_set("d")).problems == []
    (pod,) = server.pods
    assert pod["metadata"]["labels"] == {"app": "d"}
    assert [(each["kind"], each["name"]) for each in pod["metadata"]["ownerReferences"]] == [("DaemonSet", "d")]
    assert pod["spec"] == daemon_set("d")["spec"]["template"]["spec"]


def test_workloads_that_are_refused_alike_are_one_problem_with_its_step() -> None:
    (problem,) = look(Judge(NO_QUOTA, 500), daemon_set("a"), daemon_set("b")).problems
    assert problem.startswith(
        f"no pod of DaemonSet ns/a, DaemonSet ns/b is admitted: the pod is forbidden: {NO_QUOTA} ("
    )
    assert "values: [system-node-critical, system-cluster-critical]" in problem


WARDEN = (
    'admission webhook "warden-validating.common-webhooks.networking.gke.io" denied the request: GKE Warden rejected'
    ' the request because it violates one or more constraints.\nViolations details: {"[denied by'
    ' autogke-disallow-privilege]":["container c is privileged; not allowed in Autopilot"]}'
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        # GKE Autopilot (lacework/helm-charts#191), and a webhook that sets a class that is not there
        # (aws-samples/aws-do-eks#96, canonical/microk8s#2359).
        (WARDEN, "not allowed in Autopilot"),
        ('pod rejected: RuntimeClass "nvidia" not found', "change the object as it says, or what refuses it"),
    ],
)
def test_what_others_refuse_is_quoted_whole_in_one_line(text: str, told: str) -> None:
    (problem,) = look(Judge(text), daemon_set("d")).problems
    assert f"is admitted: the pod is forbidden: {text.replace(chr(10), ' ')} (" in problem
    assert told in problem


def test_only_workloads_that_have_yet_to_make_pods_cost_a_request() -> None:
    server = Judge()
    apply(server, wave(daemon_set("d")))
    live = server.objects[("daemonsets", "ns", "d")]
    live["status"] = {
        "observedGeneration": 1,
        "desiredNumberScheduled": 2,
        "updatedNumberScheduled": 2,
        "numberAvailable": 2,
    }
    assert look(server, daemon_set("d")).problems == []
    assert server.pods == []
    live["status"]["numberAvailable"] = 1
    look(server, daemon_set("d"))
    assert len(server.pods) == 1


@pytest.mark.parametrize(
    ("text", "counts"),
    [(NO_QUOTA, True), (POLICY, True), (LEVEL, False), ("failed quota: team: must specify limits.cpu", False)],
)
def test_default_stands_for_a_namespace_that_the_run_makes_with_what_holds_for_all(text: str, counts: bool) -> None:
    server = Judge(text)
    problems = look(server, namespace_object("new"), daemon_set("d", "new")).problems
    assert [each["metadata"]["namespace"] for each in server.pods] == ["default"]
    assert ["as far as default shows it before new is there" in each for each in problems] == [True] * counts


@pytest.mark.parametrize(
    "text",
    [
        "disallow-default-namespace: validate-namespace: 'Using ''default'' namespace is not allowed.",
        "[azurepolicy-k8sazureblockdefault-1785] Usage of the default namespace is not allowed, name: d, kind: Pod",
    ],
)
def test_a_policy_that_keeps_all_out_of_default_keeps_nothing_out_of_a_new_namespace(text: str) -> None:
    """As Kyverno and Azure Policy say it."""
    found = look(Judge(text), namespace_object("new"), daemon_set("d", "new"))
    assert found.problems == []
    assert any(text in notice for notice in found.notices)
    assert look(Judge(text), daemon_set("d", "ns")).problems, "where the pods are to be, it counts"


@pytest.mark.parametrize(
    "brought",
    [
        {**namespace_object("new"), "metadata": {"name": "new", "labels": {"example.com/exempt": "yes"}}},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "new"}},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "c"}},
    ],
    ids=lambda each: each["kind"],
)
def test_a_refusal_is_a_notice_where_the_run_brings_what_pods_are_judged_by(brought: Any) -> None:
    server = Judge(POLICY)
    server.plurals.update({"resourcequotas": "ResourceQuota", "priorityclasses": "PriorityClass"})
    objects = {each["kind"]: each for each in (namespace_object("new"), brought)}
    found = look(server, *objects.values(), daemon_set("d", "new"))
    assert found.problems == []
    assert any(POLICY in notice for notice in found.notices)


def test_the_level_of_a_namespace_that_the_run_changes_refuses_nothing() -> None:
    level = {"pod-security.kubernetes.io/enforce": "privileged"}
    labelled = {**namespace_object("ns"), "metadata": {"name": "ns", "labels": level}}
    assert look(Judge(LEVEL), labelled, daemon_set("d")).problems == []
    assert len(look(Judge(LEVEL), daemon_set("d")).problems) == 1


@pytest.mark.parametrize(
    "text", ["error looking up service account ns/a: not found", "webhook does not support dry run"]
)
def test_who_judges_only_later_refuses_nothing(text: str) -> None:
    assert look(Judge(text), daemon_set("d")).problems == []


def test_a_wrong_field_is_no_refusal_of_the_pod() -> None:
    server = Judge("spec.containers: Required value", 422)
    server.causes = [{"field": "spec.containers", "reason": "FieldValueRequired"}]
    assert look(server, daemon_set("d")).problems == []


def test_an_account_that_the_run_makes_is_left_out() -> None:
    server, body = Judge(), daemon_set("d")
    body["spec"]["template"]["spec"]["serviceAccountName"] = "made"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "made", "namespace": "ns"}}
    look(server, account, body)
    assert "serviceAccountName" not in server.pods[0]["spec"]


def test_a_webhook_without_an_answer_is_asked_for_one_pod() -> None:
    server = Judge('failed calling webhook "w.example": EOF', 500)
    (problem,) = look(server, daemon_set("a"), daemon_set("b")).problems
    assert "the service of the webhook w.example does not answer" in problem
    assert len({pod["metadata"]["generateName"] for pod in server.pods}) == 1


def test_who_may_not_create_pods_is_told_that_none_was_tried() -> None:
    server = Judge(POLICY, rules={"": [{**ALL, "verbs": ["get", "list", "patch", "update", "delete"]}]})
    server.rules[""].append(rule("apps", "daemonsets", "create"))
    server.rules[""].append(rule("", "configmaps namespaces", "create"))
    server.rules[""].append(rule("coordination.k8s.io", "leases", "create"))
    found = look(server, daemon_set("a"), daemon_set("b"))
    assert (found.problems, server.pods) == ([], [])
    assert any("the user may not create pods in ns" in notice for notice in found.notices)
