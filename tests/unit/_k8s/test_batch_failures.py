# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch that fails says what it did and what is left, and the next run converges."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import (
    BASE,
    INVENTORY,
    actions,
    apply,
    recorded,
    wave,
)
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    FakeServer,
    config_map,
    daemon_set,
    failure,
)


class TestFailures:
    def test_a_wave_is_tried_whole_and_later_waves_are_not(self) -> None:
        server = FakeServer()
        server.intercept = lambda _n, method, path: (
            failure(422, "Invalid", f"bad {path[-1]}") if method == "PATCH" and path[-2:] in ("/a", "/c") else None
        )
        with pytest.raises(BatchError) as refused:
            apply(server, wave(config_map("a"), config_map("b"), config_map("c")), wave(config_map("later")))
        text = str(refused.value)
        assert "2 problems" in text
        assert "patch ConfigMap ns/a: bad a" in text
        assert "patch ConfigMap ns/c: bad c" in text
        assert refused.value.as_dict()["applied"] == [INVENTORY, "ConfigMap ns/b"]
        assert refused.value.as_dict()["not_applied"] == ["ConfigMap ns/a", "ConfigMap ns/c", "ConfigMap ns/later"]
        assert refused.value.as_dict()["failures"][0]["object"]["name"] == "a"

    def test_a_failed_wave_prunes_nothing(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        server.intercept = lambda _n, method, path: (
            failure(422, "Invalid", "bad") if method == "PATCH" and path.endswith("/new") else None
        )
        with pytest.raises(BatchError):
            apply(server, wave(config_map("new")))
        assert ("configmaps", "ns", "a") in server.objects
        assert sorted(recorded(server)) == ["a", "b", "d", "new"]

    @pytest.mark.parametrize(("code", "words"), [(401, "renew the token"), (503, "API server's log")])
    def test_a_fault_of_all_requests_ends_the_run_at_once(self, code: int, words: str) -> None:
        server = FakeServer()
        server.intercept = lambda _n, method, path: (
            failure(code, "R", "no") if method == "PATCH" and path.endswith("/b") else None
        )
        with pytest.raises(BatchError, match=words) as refused:
            apply(server, wave(config_map("a"), config_map("b"), config_map("c")))
        assert refused.value.as_dict()["not_applied"] == ["ConfigMap ns/b", "ConfigMap ns/c"]
        assert not [path for method, path in server.written() if path.endswith("/c")]

    def test_a_fault_while_reading_changes_nothing(self) -> None:
        server = FakeServer()
        server.intercept = lambda _n, _m, _p: failure(403, "Forbidden", "may not list")
        with pytest.raises(BatchError, match="nothing was changed") as refused:
            apply(server, *BASE)
        assert "list configmaps in namespace ns: may not list" in str(refused.value)
        assert server.written() == []

    def test_a_conflict_of_field_managers_is_not_tried_again(self) -> None:
        server = FakeServer()
        causes = [{"reason": "FieldManagerConflict", "field": ".data.key"}]
        server.intercept = lambda _n, method, path: (
            failure(409, "Conflict", "conflict", causes=causes) if method == "PATCH" and path.endswith("/a") else None
        )
        with pytest.raises(BatchError, match=r"another manager owns \.data\.key") as refused:
            apply(server, wave(config_map("a")), force_conflicts=False)
        assert refused.value.result.requests["patch"] == 2

    def test_any_other_conflict_is_tried_again(self) -> None:
        server = FakeServer()
        conflicts = [failure(409, "Conflict", "the object has been modified")] * 2
        server.intercept = lambda _n, method, path: (
            conflicts.pop() if method == "PATCH" and path.endswith("/a") and conflicts else None
        )
        assert actions(apply(server, wave(config_map("a"))))["ConfigMap ns/a"] == "created"

    @pytest.mark.parametrize(
        ("refusal", "tries"),
        [
            (failure(403, "Forbidden", "may not patch"), 1),
            (failure(404, "NotFound", "the server could not find the requested resource"), 1),
            # For twenty seconds, at pauses that grow from a tenth to two.
            (failure(409, "Conflict", "the object has been modified"), 14),
        ],
    )
    def test_what_does_not_pass_in_moments_ends_the_tries(self, refusal: Reply, tries: int) -> None:
        server = FakeServer()
        server.intercept = lambda _n, method, path: refusal if method == "PATCH" and path.endswith("/a") else None
        with pytest.raises(BatchError):
            apply(server, wave(config_map("a")))
        sent = [path for method, path, _query in server.requests if method == "PATCH" and path.endswith("/a")]
        assert len(sent) == tries

    @pytest.mark.parametrize(
        ("said", "is_foretold"), [("error looking up service account ns/default: not found", True), ("no", False)]
    )
    def test_check_mode_foretells_a_pod_whose_service_account_comes_with_its_namespace(
        self, said: str, is_foretold: bool
    ) -> None:
        server = FakeServer()
        server.intercept = lambda _n, method, path: (
            failure(403, "Forbidden", said) if method == "PATCH" and path.endswith("/a") else None
        )
        if is_foretold:
            result = apply(server, wave(config_map("a")), check=True)
            assert "1 (ConfigMap ns/a): its service account does not exist yet" in result.notices[0]
        else:
            with pytest.raises(BatchError, match="patch ConfigMap ns/a: no"):
                apply(server, wave(config_map("a")), check=True)

    def test_a_pod_waits_for_the_service_account_of_its_new_namespace(self) -> None:
        server = FakeServer()
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}, "spec": {"x": "y"}}
        refusals = [failure(403, "Forbidden", "error looking up service account ns/default: not found")] * 3
        server.intercept = lambda _n, method, path: (
            refusals.pop() if method == "PATCH" and path.endswith("/p") and refusals else None
        )
        assert actions(apply(server, wave(pod)))["Pod ns/p"] == "created"

    def test_cut_at_any_request_the_next_run_converges(self) -> None:
        wanted = (wave(config_map("a", key="2"), config_map("c")), wave(daemon_set("d", image="x:2"), name="workloads"))

        def run_cut(number: int) -> tuple[FakeServer, bool]:
            server = FakeServer()
            apply(server, *BASE)
            server.requests.clear()

            def cut(count: int, _method: str, _path: str) -> None:
                if count == number:
                    raise ApiFault(Fault.TLS, "cut")

            server.intercept = cut
            try:
                apply(server, *wanted)
            except BatchError:
                return server, True
            return server, False

        number, was_cut = 0, True
        while was_cut:
            number += 1
            server, was_cut = run_cut(number)
            server.intercept = lambda _n, _m, _p: None
            apply(server, *wanted)
            assert {place[2] for place in server.objects if place[0] != "namespaces"} == {
                "a",
                "c",
                "d",
                "rdma-fabric-web",
            }
            assert recorded(server) == ["a", "c", "d"]
            assert not apply(server, *wanted).changed
        assert number > 6
