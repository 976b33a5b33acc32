# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a batch does to a cluster, in which order, and with how many requests."""

from __future__ import annotations

import copy
import json

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.kinds import Resource
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.snapshot import list_objects
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection, Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Key
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import (
    BASE,
    INVENTORY,
    actions,
    apply,
    label,
    wave,
)
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    FakeServer,
    config_map,
    connect,
    daemon_set,
    failure,
    namespace_object,
)


class TestPresent:
    def test_creates_all_then_changes_nothing(self) -> None:
        server = FakeServer()
        first = apply(server, *BASE)
        assert set(actions(first).values()) == {"created"}
        assert first.changed
        server.requests.clear()
        second = apply(server, *BASE)
        assert set(actions(second).values()) == {"unchanged"}
        assert not second.changed
        assert second.requests == {"list": 2, "patch": 0, "get": 0, "delete": 0}
        assert server.written() == []

    def test_one_changed_object_costs_its_own_request_and_those_of_the_lease(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        result = apply(server, wave(config_map("a", key="new"), config_map("b")), BASE[1])
        assert result.requests == {"list": 2, "patch": 1, "get": 1, "delete": 0, "lease": 2}
        row = next(row for row in result.as_dict()["results"] if row["action"] == "configured")
        assert (row["name"], row["fields"], row["wave"]) == ("a", ["data.key"], "w")

    def test_every_object_carries_the_sets_label_beside_its_own(self) -> None:
        server = FakeServer()
        labelled = config_map("a")
        labelled["metadata"]["labels"] = {"own": "x"}
        apply(server, wave(labelled))
        assert server.objects[("configmaps", "ns", "a")]["metadata"]["labels"] == {"own": "x", "rdma.fabric/set": "web"}

    def test_waves_are_applied_in_order_after_the_inventory(self) -> None:
        server = FakeServer()
        apply(server, wave(daemon_set("d")), wave(config_map("a")))
        written = [path.rsplit("/", 1)[1] for _method, path in server.written()]
        assert written == ["rdma-fabric-web", "d", "a"]

    def test_patches_are_strict_forced_and_named(self) -> None:
        server = FakeServer()
        apply(server, wave(config_map("a")))
        queries = [query for method, _path, query in server.requests if method == "PATCH"]
        assert queries[0] == {"fieldManager": "rdma-fabric", "force": "true", "fieldValidation": "Strict"}
        server.requests.clear()
        apply(server, wave(config_map("a", key="x")), force_conflicts=False)
        assert [query["force"] for method, _path, query in server.requests if method == "PATCH"] == ["false"]

    def test_the_namespace_of_the_inventory_is_made_first_as_the_batch_wants_it(self) -> None:
        server = FakeServer(namespaces=())
        wanted = namespace_object("ns")
        wanted["metadata"]["labels"] = {"pod-security": "privileged"}
        result = apply(server, wave(config_map("a")), wave(wanted))
        assert actions(result)["Namespace ns"] == "created"
        assert len(result.changes) == 3
        assert server.objects[("namespaces", "", "ns")]["metadata"]["labels"]["pod-security"] == "privileged"

    def test_the_namespace_of_the_inventory_is_made_when_nobody_gives_it(self) -> None:
        server = FakeServer(namespaces=())
        assert actions(apply(server, wave(config_map("a"))))["Namespace ns"] == "created"
        assert not apply(server, wave(config_map("a"))).changed

    def test_an_object_of_another_set_is_refused_before_anything_is_changed(self) -> None:
        server = FakeServer()
        apply(server, wave(config_map("theirs")), set_name="other")
        before = copy.deepcopy(server.objects)
        with pytest.raises(BatchError, match="ConfigMap ns/theirs belongs to the set 'other'") as refused:
            apply(server, wave(config_map("new"), config_map("theirs")))
        assert server.objects == before
        assert refused.value.as_dict()["not_applied"] == ["ConfigMap ns/new", "ConfigMap ns/theirs"]

    def test_an_object_that_is_being_deleted_is_refused_with_its_finalizers(self) -> None:
        server = FakeServer()
        apply(server, wave(config_map("a")))
        metadata = server.objects[("configmaps", "ns", "a")]["metadata"]
        metadata.update(deletionTimestamp="now", finalizers=["x/y"])
        with pytest.raises(BatchError, match="ConfigMap ns/a is being deleted; finalizers: x/y"):
            apply(server, wave(config_map("a")))

    def test_an_object_of_nobody_is_taken_over_with_a_notice(self) -> None:
        server = FakeServer()
        server.put("configmaps", config_map("a"))
        result = apply(server, wave(config_map("a")))
        assert actions(result)["ConfigMap ns/a"] == "configured"
        assert result.notices == ["existed before, now part of the set web: 1 (ConfigMap ns/a)"]

    def test_a_lost_label_comes_back_with_a_notice(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        label(server, "a", None)
        result = apply(server, *BASE)
        assert result.notices == ["without their set label, restored: 1 (ConfigMap ns/a)"]
        assert not apply(server, *BASE).changed

    def test_a_deleted_object_comes_back(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        del server.objects[("configmaps", "ns", "a")]
        assert actions(apply(server, *BASE))["ConfigMap ns/a"] == "created"

    def test_a_lost_inventory_is_written_again(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        del server.objects[("configmaps", "ns", "rdma-fabric-web")]
        result = apply(server, *BASE)
        assert [str(change.key) for change in result.changes if change.action == "created"] == [INVENTORY]

    def test_an_inventory_without_its_label_still_counts(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        label(server, "rdma-fabric-web", None)
        assert actions(apply(server, wave(config_map("a"))))["ConfigMap ns/b"] == "deleted"

    def test_a_foreign_inventory_stops_the_run_before_anything_is_changed(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        server.objects[("configmaps", "ns", "rdma-fabric-web")]["data"] = {"objects": "gone"}
        server.requests.clear()
        with pytest.raises(BatchError, match=r"ConfigMap ns/rdma-fabric-web: data\.objects"):
            apply(server, wave(config_map("z")))
        assert server.written() == []

    def test_a_patch_that_moves_nothing_is_no_change(self) -> None:
        server = FakeServer()
        body = config_map("a")
        body["data"] = {}
        apply(server, wave(body))
        server.objects[("configmaps", "ns", "a")]["metadata"]["managedFields"][0]["apiVersion"] = "v0"
        server.intercept = lambda _n, method, path: (
            Reply(200, {}, json.dumps(server.objects[("configmaps", "ns", "a")]).encode())
            if method == "PATCH"
            else None
        )
        result = apply(server, wave(body))
        assert (actions(result)["ConfigMap ns/a"], result.requests["patch"]) == ("unchanged", 1)

    def test_what_a_webhook_changes_back_is_told_because_it_costs_a_request_a_run(self) -> None:
        server = FakeServer()
        server.after_apply = lambda body: body["data"].update(
            dict.fromkeys(body["data"].keys() & {"key"}, "the webhook's")
        )
        apply(server, wave(config_map("a")))
        result = apply(server, wave(config_map("a")))
        assert (result.changed, result.requests["patch"]) == (False, 1)
        assert result.notices == [
            "sent in every run though nothing changes: ConfigMap ns/a (data.key): the server stores something other"
            " than what was sent, as a mutating webhook changes it"
        ]

    def test_long_lists_are_read_page_by_page(self) -> None:
        server = FakeServer()
        server.page_size = 7
        objects = [config_map(f"c{number}") for number in range(20)]
        apply(server, wave(*objects))
        result = apply(server, wave(*objects))
        assert (result.changed, result.requests["list"]) == (False, 3)

    def test_expired_pages_are_read_anew(self) -> None:
        server = FakeServer()
        server.page_size = 7
        objects = [config_map(f"c{number}") for number in range(20)]
        apply(server, wave(*objects))
        server.requests.clear()
        server.intercept = lambda number, _m, _p: failure(410, "Expired", "too old") if number == 3 else None
        result = apply(server, wave(*objects))
        assert (result.changed, result.requests["list"]) == (False, 6)

    def test_pages_read_before_they_expired_are_not_counted_twice(self) -> None:
        server = FakeServer()
        server.page_size = 2
        for name in ("a", "b", "c"):
            server.put("configmaps", config_map(name))
        server.intercept = lambda number, _m, _p: failure(410, "Expired", "too old") if number == 2 else None
        scope = Key("v1", "ConfigMap", "ns", "")
        found = list_objects(connect(server), scope, Resource("configmaps", True), {})
        assert [body["metadata"]["name"] for body in found] == ["a", "b", "c"]

    def test_a_page_too_large_for_memory_is_asked_for_in_parts(self) -> None:
        server, most = FakeServer(), 2500
        names = [f"{size}{number}" for size in ("large", "small") for number in range(5)]
        for name in names:
            server.put("configmaps", config_map(name, key="x" * 1000 if name < "small" else ""))

        class Measured:
            def send(self, method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
                reply = server.send(method, path, body, content_type)
                if len(reply.body) > most:
                    raise ApiFault(Fault.TOO_LARGE, f"the answer is longer than {most} bytes")
                return reply

        def listed() -> list[str]:
            scope, resource = Key("v1", "ConfigMap", "ns", ""), Resource("configmaps", True)
            return [body["metadata"]["name"] for body in list_objects(Connection(Measured()), scope, resource, {})]

        assert listed() == names
        most = 1000
        with pytest.raises(ApiFault, match="longer than 1000 bytes"):
            listed()
        assert server.requests[-1][2]["limit"] == "1", "nobody is asked for ever"

    def test_a_kind_in_one_namespace_is_listed_there_and_one_in_several_everywhere(self) -> None:
        server = FakeServer(namespaces=("ns", "more"))
        apply(server, wave(config_map("a", "more"), daemon_set("d")))
        server.requests.clear()
        apply(server, wave(config_map("a", "more"), daemon_set("d")))
        lists = [path for method, path, query in server.requests if method == "GET" and "limit" in query]
        assert lists == ["/api/v1/configmaps", "/apis/apps/v1/namespaces/ns/daemonsets"]

    def test_who_may_not_list_everywhere_is_refused_once_per_kind_and_run(self) -> None:
        server = FakeServer(namespaces=("ns", "more"))
        everywhere = ("/api/v1/configmaps", "/apis/apps/v1/daemonsets")
        server.intercept = lambda _n, _m, path: failure(403, "Forbidden", "not here") if path in everywhere else None
        waves = [wave(config_map("a"), config_map("b", "more"), daemon_set("d"), daemon_set("e", "more"))]
        assert actions(apply(server, *waves))["ConfigMap more/b"] == "created"
        server.requests.clear()
        with pytest.raises(BatchError, match="not ready"):
            apply(server, *waves, wait=True, wait_timeout=60.0)
        lists = [path for _method, path, query in server.requests if query.get("labelSelector") == "rdma.fabric/set"]
        places = [f"/apis/apps/v1/namespaces/{name}/daemonsets" for name in ("more", "ns")]
        assert lists[:6] == [
            "/api/v1/configmaps",
            "/api/v1/namespaces/more/configmaps",
            "/api/v1/namespaces/ns/configmaps",
            "/apis/apps/v1/daemonsets",
            *places,
        ]
        assert len(lists) > 10
        assert set(lists[6:]) == set(places)

    def test_who_may_list_in_one_of_the_namespaces_only_is_told_the_other(self) -> None:
        server = FakeServer(namespaces=("ns", "more"))
        refused = ("/api/v1/configmaps", "/api/v1/namespaces/more/configmaps")
        server.intercept = lambda _n, _m, path: failure(403, "Forbidden", "no") if path in refused else None
        with pytest.raises(BatchError, match="list configmaps in namespace more: no"):
            apply(server, wave(config_map("a"), config_map("b", "more")))
        assert server.written() == []

    def test_objects_without_a_namespace_go_to_the_default_one(self) -> None:
        server = FakeServer()
        body = config_map("a")
        del body["metadata"]["namespace"]
        apply(server, wave(body))
        assert ("configmaps", "default", "a") in server.objects

    def test_wrong_input_is_refused_whole_before_anything_is_sent(self) -> None:
        server = FakeServer()
        thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
        bad_scope = namespace_object("x")
        bad_scope["metadata"]["namespace"] = "ns"
        with pytest.raises(InvalidInput) as refused:
            apply(server, wave(thing, bad_scope))
        assert len(refused.value.violations) == 2
        assert server.written() == []
        with pytest.raises(InvalidInput) as refused:
            apply(server, wave("text"), set_name="A B", inventory_namespace="")
        assert [violation.source for violation in refused.value.violations] == ["inventory_namespace", "set", "waves"]
