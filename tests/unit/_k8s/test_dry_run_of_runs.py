# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Would a teardown, a rollout or a release of Helm reach its end? Nothing is written to find out."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchRequest
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.dry_run import (
    DryRun,
    dry_run_release,
    dry_run_removal,
    dry_run_rollout,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.operators import look_for_operators, say_left
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import BASE, apply
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import connect, failure
from ansible_collections.rdma.fabric.tests.unit._k8s.reviewer import Reviewer, rule

READS = rule("*", "*", "get list")


def removal(server: Reviewer, *, nodes: bool = False) -> tuple[DryRun, list[dict[str, Any]]]:
    request = BatchRequest(waves=[], set_name="web", inventory_namespace="ns")
    return dry_run_removal(connect(server), request, nodes=nodes)


def applied() -> Reviewer:
    """A cluster with a set, whose requests from then on are kept."""
    server = Reviewer()
    apply(server, *BASE)
    server.requests.clear()
    server.reviews.clear()
    return server


class TestRemoval:
    def test_what_would_go_is_returned_and_stays(self) -> None:
        server = applied()
        before = dict(server.objects)
        found, bodies = removal(server)
        assert (found.user, found.problems) == ("some", [])
        assert [body["metadata"]["name"] for body in bodies] == ["d", "b", "a", "rdma-fabric-web"]
        assert (server.objects, server.written()) == (before, [])

    def test_who_may_read_only_is_told_everything_that_it_takes(self) -> None:
        server = applied()
        server.rules = {"": [READS]}
        (problem,) = removal(server, nodes=True)[0].problems
        for line in (
            "delete daemonsets.apps in the namespace ns",
            "create, delete, patch configmaps in the namespace ns",
            "create, delete, update leases.coordination.k8s.io in the namespace ns",
            "patch nodes in the whole cluster",
        ):
            assert f"\n      {line}" in problem
        assert "ClusterRole rdma-fabric-push and rdma-fabric-rollout" in problem
        assert "nodes" not in removal(server)[0].problems[0]

    def test_what_the_server_refuses_for_another_reason_is_told(self) -> None:
        server = applied()
        server.intercept = lambda _number, method, path: (
            failure(403, "Forbidden", 'admission webhook "guard.example.com" denied the request: no')
            if method == "DELETE" and path.endswith("/b")
            else None
        )
        (problem,) = removal(server)[0].problems
        assert "the webhook guard.example.com refuses it" in problem

    def test_where_nothing_is_left_no_right_is_asked_for(self) -> None:
        server = Reviewer({"": [READS]})
        assert removal(server) == (DryRun("some"), [])
        assert server.reviews == ["SelfSubjectReview"]


class TestRollout:
    def test_slots_need_their_namespace_unless_nothing_is_left_to_interrupt(self) -> None:
        server = Reviewer()
        assert dry_run_rollout(connect(server), "ns") == DryRun("some")
        (problem,) = dry_run_rollout(connect(server), "away").problems
        assert "no namespace away, where the slots are kept (run rdma.fabric.site first)" in problem
        found = dry_run_rollout(connect(server), "away", removes=True)
        assert (found.problems, "finds no slot there" in found.notices[0]) == ([], True)

    def test_who_may_not_look_at_the_namespace_can_have_slots_in_it(self) -> None:
        server, code = Reviewer(), 403
        server.intercept = lambda _number, _method, path: (
            failure(code, "x", "no") if path == "/api/v1/namespaces/ns" else None
        )
        assert dry_run_rollout(connect(server), "ns").problems == []
        code = 503
        with pytest.raises(ApiFault, match="the namespace ns: no"):
            dry_run_rollout(connect(server), "ns", removes=True)

    def test_rights_that_drains_and_slots_take_are_named(self) -> None:
        (problem,) = dry_run_rollout(connect(Reviewer({"": [READS]})), "ns").problems
        assert "create pods/eviction in the whole cluster" in problem
        assert "create, update, watch leases.coordination.k8s.io in the namespace ns" in problem
        assert "ClusterRole rdma-fabric-rollout" in problem


def operator(server: Reviewer, release: str, namespace: str = "ns", replicas: int = 1) -> None:
    """Let an operator of a release of Helm run."""
    annotations = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
    image = "nvcr.io/nvidia/cloud-native/network-operator:v25.7.0"
    spec = {"replicas": replicas, "template": {"spec": {"containers": [{"name": "manager", "image": image}]}}}
    metadata = {"name": f"{release}-operator", "namespace": namespace, "annotations": annotations}
    server.put("deployments", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


class TestRelease:
    def test_another_operator_keeps_it_from_its_place_and_its_own_does_not(self) -> None:
        server = Reviewer()
        operator(server, "own")
        assert dry_run_release(connect(server), "own", "ns") == DryRun("some")
        operator(server, "other")
        (problem,) = dry_run_release(connect(server), "own", "ns").problems
        assert "that is not of the release own in ns: ns/other-operator (Helm's release other in ns)" in problem

    def test_who_may_not_keep_it_is_told_that_first(self) -> None:
        server = Reviewer({"": [rule("*", "*", "get")]})
        (problem,) = dry_run_release(connect(server), "own", "ns").problems
        assert "create, delete, list, update secrets in the namespace ns" in problem
        assert server.requests == []


def test_an_operator_that_runs_beside_a_push_is_named_and_one_without_pods_is_not() -> None:
    server = Reviewer()
    operator(server, "idle", replicas=0)
    assert look_for_operators(connect(server)) == (frozenset(), [])
    operator(server, "busy")
    programs, (notice,) = look_for_operators(connect(server))
    assert programs == frozenset({"network-operator"})
    assert notice.startswith("the operator ns/busy-operator runs")
    server.rules = {}
    programs, (notice,) = look_for_operators(connect(server))
    assert programs is None
    assert notice.startswith("not checked whether an operator runs: ")


class TestLeft:
    """What is there after ``helm uninstall``: sriov-network-operator#564 and #779, openshift/openshift-docs#40634."""

    def test_finalizers_that_nobody_takes_off_are_named_with_the_step(self) -> None:
        server = Reviewer()
        server.plurals["sriovnetworks"] = "SriovNetwork"
        finalizer = "netattdef.finalizers.sriovnetwork.openshift.io"
        metadata = {"namespace": "ns", "finalizers": [finalizer]}
        for name, more in (("a", {"deletionTimestamp": "2026-01-01T00:00:00Z"}), ("b", {})):
            server.put("sriovnetworks", {"metadata": {"name": name, **metadata, **more}})
        server.put("sriovnetworks", {"metadata": {"name": "free", "namespace": "ns"}})
        none_of_nvidia = frozenset({"network-operator"})
        (notice,) = say_left(connect(server), none_of_nvidia)
        assert notice.startswith(
            "ns/a, ns/b of sriovnetworks.sriovnetwork.openshift.io (1 being deleted) have finalizers"
        )
        assert "kubectl patch sriovnetworks.sriovnetwork.openshift.io NAME --namespace=NAMESPACE --type=merge" in notice
        assert say_left(connect(server), none_of_nvidia | {"sriov-network-operator"}) == []

    @pytest.mark.parametrize(
        ("group", "resources", "policy", "told"),
        [
            ("sriovnetwork.openshift.io", ["sriovnetworknodepolicies"], "Fail", "sriovnetworknodepolicies"),
            ("", ["pods"], "Fail", "pods"),
            # What a dry run does not try: cordons and evictions.
            ("", ["nodes", "pods/eviction", "secrets"], None, "nodes, pods/eviction"),
            ("", ["pods"], "Ignore", ""),
            ("cert-manager.io", ["*/*"], "Fail", ""),
        ],
    )
    def test_a_webhook_whose_service_is_gone_is_named(
        self, group: str, resources: list[str], policy: str | None, told: str
    ) -> None:
        server = Reviewer()
        service = {"name": "operator-webhook-service", "namespace": "ns"}
        webhook: dict[str, Any] = {
            "clientConfig": {"service": service},
            **({"failurePolicy": policy} if policy else {}),
        }
        webhook["rules"] = [{"apiGroups": [group], "resources": resources}]
        configuration = {"metadata": {"name": "sriov-operator-webhook-config"}, "webhooks": [webhook, webhook]}
        server.put("validatingwebhookconfigurations", configuration)
        notices = say_left(connect(server), frozenset())
        assert [notice.partition(": ")[0] for notice in notices] == (
            [f"ValidatingWebhookConfiguration sriov-operator-webhook-config has the server refuse {told}"]
            if told
            else []
        )
        assert all("kubectl delete validatingwebhookconfigurations sriov-op" in notice for notice in notices)
        server.put("services", {"apiVersion": "v1", "kind": "Service", "metadata": service})
        assert say_left(connect(server), frozenset()) == []

    def test_who_may_not_look_is_told_so(self) -> None:
        (notice,) = say_left(connect(Reviewer({})), frozenset())
        assert notice.startswith("not checked what operators that are gone have left: ")
