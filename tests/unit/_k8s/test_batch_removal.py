# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Only what the set applied, recorded and still labels is ever deleted."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.prune import why_kept
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import MANAGER, Key
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import (
    BASE,
    INVENTORY,
    Establishing,
    actions,
    apply,
    label,
    recorded,
    wave,
)
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    FakeServer,
    config_map,
    daemon_set,
    definition,
    failure,
    namespace_object,
)


@pytest.mark.parametrize(
    ("set_name", "labels", "manager", "reason"),
    [
        ("web", {"rdma.fabric/set": "web"}, MANAGER, ""),
        ("web", {"rdma.fabric/set": "other"}, MANAGER, "names the set 'other'"),
        ("web", {"rdma.fabric/set": ""}, MANAGER, "names the set ''"),
        ("web", {}, MANAGER, "was removed"),
        ("web", {"rdma.fabric/set": "web"}, "kubectl", "no field was applied by rdma.fabric"),
        ("web", {"rdma.fabric/set": "web", "app.kubernetes.io/managed-by": "Helm"}, MANAGER, "managed by Helm"),
        ("", {}, MANAGER, ""),
    ],
)
def test_only_what_is_of_the_set_and_of_nobody_else_may_go(
    set_name: str, labels: dict[str, str], manager: str, reason: str
) -> None:
    record = {"manager": manager, "operation": "Apply", "fieldsV1": {}}
    live: dict[str, Any] = {"metadata": {"name": "a", "labels": labels, "managedFields": [record]}}
    why = why_kept(Key("v1", "ConfigMap", "ns", "a"), live, set_name, remove_kept=True)
    assert (reason in why, bool(why)) == (True, bool(reason))


class TestPrune:
    def test_what_is_dropped_is_deleted_in_reverse_order(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        result = apply(server, wave(config_map("b")))
        deleted = [str(change.key) for change in result.changes if change.action == "deleted"]
        assert deleted == ["DaemonSet ns/d", "ConfigMap ns/a"]
        assert recorded(server) == ["b"]
        assert [options["propagationPolicy"] for options in server.delete_options] == ["Background"] * 2

    @pytest.mark.parametrize("check", [False, True])
    def test_a_batch_without_objects_is_refused_as_long_as_it_would_prune_anything(self, check: bool) -> None:
        server = FakeServer()
        apply(server, wave(namespace_object("mine")), wave(config_map("a"), daemon_set("d")))
        before = copy.deepcopy(server.objects)
        with pytest.raises(BatchError) as refused:
            apply(server, wave(), check=check)
        assert "pruning would remove all of the set 'web': 2 (ConfigMap ns/a, DaemonSet ns/d)" in str(refused.value)
        assert "state: absent" in str(refused.value)
        assert server.objects == before
        assert "deleted" not in actions(apply(server, wave(), prune=False)).values()
        apply(server, wave(namespace_object("mine")))
        assert not apply(server, wave()).changed  # what is kept anyway is no reason to refuse

    @pytest.mark.parametrize("path", ["/api/v1/configmaps", "nowhere"])
    def test_a_set_that_moves_to_another_namespace_leaves_nothing_behind(self, path: str) -> None:
        """Also where nobody may look into all namespaces: that of the set has its label."""
        server = FakeServer(namespaces=())
        apply(server, wave(namespace_object("old")), wave(config_map("a", "old")), inventory_namespace="old")
        refusal = failure(403, "Forbidden", "configmaps is forbidden")
        server.intercept = lambda _number, _method, asked: refusal if asked == path else None
        moved = (wave(namespace_object("new")), wave(config_map("a", "new")))
        first = apply(server, *moved, inventory_namespace="new")
        kept = {key[2] for key in server.objects if key[0] == "configmaps" and key[1] == "old"}
        assert kept == set()
        assert actions(first)["ConfigMap old/a"] == "deleted"
        assert actions(first)["ConfigMap old/rdma-fabric-web"] == "deleted"
        second = apply(server, *moved, inventory_namespace="new")
        assert not second.changed
        assert second.requests["get"] == 0
        assert "Namespace old" in actions(second)

    @pytest.mark.parametrize("old", ["kube-system", "default"])
    def test_a_set_that_moves_out_of_a_namespace_of_every_cluster_leaves_nothing_behind(self, old: str) -> None:
        server = FakeServer(namespaces=("kube-system", "default"))
        apply(server, wave(config_map("a", old), daemon_set("d", old)), inventory_namespace=old)
        moved = (wave(namespace_object("new")), wave(config_map("a", "new"), daemon_set("d", "new")))
        first = apply(server, *moved, inventory_namespace="new")
        assert {key[2] for key in server.objects if key[1] == old} == set()
        assert actions(first)[f"DaemonSet {old}/d"] == "deleted"
        server.requests.clear()
        assert not apply(server, *moved, inventory_namespace="new").changed
        # Who has its inventory looks nowhere else.
        assert [query for _method, path, query in server.requests if path.endswith("/v1/configmaps")] == []

    @pytest.mark.parametrize("tried", ["kube-system", "other"])
    def test_a_set_whose_move_fails_can_go_back_and_leaves_nothing_behind(self, tried: str) -> None:
        server = FakeServer(namespaces=("kube-system", "other"))
        home = (wave(namespace_object("home")), wave(config_map("a", "home"), daemon_set("d", "home")))
        apply(server, *home, inventory_namespace="home")
        bad = failure(422, "Invalid", "bad")
        server.intercept = lambda _n, method, path: bad if method == "PATCH" and path.endswith("/later") else None
        moved = (wave(config_map("b", tried), daemon_set("d", tried)), wave(config_map("later", tried)))
        with pytest.raises(BatchError):
            apply(server, *moved, inventory_namespace=tried)
        server.intercept = lambda _n, _method, _path: None
        apply(server, *home, inventory_namespace="home")
        assert {key for key in server.objects if key[1] == tried} == set()
        assert not apply(server, *home, inventory_namespace="home").changed

    def test_who_may_not_look_for_it_is_told_so(self) -> None:
        server = FakeServer(namespaces=("kube-system", "ns"))
        apply(server, wave(config_map("a", "kube-system")), inventory_namespace="kube-system")
        refusal = failure(403, "Forbidden", "configmaps is forbidden")
        server.intercept = lambda _number, _method, path: refusal if path == "/api/v1/configmaps" else None
        result = apply(server, wave(config_map("a")))
        (notice,) = result.notices
        assert "it was not checked whether the set 'web' was in another namespace before: list configmaps" in notice

    def test_what_another_set_recorded_in_its_namespace_is_no_business_of_this_one(self) -> None:
        server = FakeServer(namespaces=())
        theirs = wave(namespace_object("theirs")), wave(config_map("a", "theirs"))
        apply(server, *theirs, set_name="other", inventory_namespace="theirs")
        result = apply(
            server, wave(namespace_object("mine")), wave(config_map("a", "mine")), inventory_namespace="mine"
        )
        assert "deleted" not in actions(result).values()
        assert ("configmaps", "theirs", "a") in server.objects

    def test_nothing_is_deleted_unless_asked(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        result = apply(server, wave(config_map("b")), prune=False)
        assert "deleted" not in actions(result).values()
        assert sorted(recorded(server)) == ["a", "b", "d"]
        assert actions(apply(server, wave(config_map("b"))))["DaemonSet ns/d"] == "deleted"

    def test_an_object_that_moved_to_another_namespace_is_deleted_in_the_old_one(self) -> None:
        server = FakeServer(namespaces=("ns", "new"))
        apply(server, wave(daemon_set("d"), config_map("a")))
        result = apply(server, wave(daemon_set("d", "new"), config_map("a", "new")))
        assert actions(result)["DaemonSet ns/d"] == "deleted"
        assert actions(result)["DaemonSet new/d"] == "created"
        assert actions(result)["ConfigMap ns/a"] == "deleted"

    def test_a_recorded_config_map_elsewhere_is_found_without_the_batch_naming_its_namespace(self) -> None:
        server = FakeServer(namespaces=("ns", "old"))
        apply(server, wave(config_map("a", "old")))
        result = apply(server, wave(config_map("b")))
        assert actions(result)["ConfigMap old/a"] == "deleted"

    def test_a_foreign_object_with_our_label_stays(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        foreign = config_map("foreign")
        foreign["metadata"]["labels"] = {"rdma.fabric/set": "web"}
        server.put("configmaps", foreign)
        apply(server, wave(config_map("a")))
        assert ("configmaps", "ns", "foreign") in server.objects

    def test_a_recorded_object_without_our_label_stays_with_a_notice(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        label(server, "b", None)
        result = apply(server, wave(config_map("a")))
        assert actions(result)["ConfigMap ns/b"] == "kept"
        assert "kept, the label rdma.fabric/set was removed: 1 (ConfigMap ns/b)" in result.notices
        assert recorded(server) == ["a"]

    def test_objects_that_stay_for_one_reason_share_a_notice(self) -> None:
        server = FakeServer()
        names = [f"b{number:02}" for number in range(12)]
        apply(server, wave(config_map("a"), *map(config_map, names)))
        for name in names:
            label(server, name, None)
        (notice,) = apply(server, wave(config_map("a"))).notices
        assert notice.startswith(
            "kept, the label rdma.fabric/set was removed: 12 (ConfigMap ns/b11, ConfigMap ns/b10, "
        )
        assert notice.endswith(" and 2 more)")

    def test_a_recorded_object_that_another_set_took_stays(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        label(server, "b", "other")
        result = apply(server, wave(config_map("a")))
        assert "kept, the label rdma.fabric/set names the set 'other': 1 (ConfigMap ns/b)" in result.notices

    def test_what_another_set_has_of_the_same_kinds_is_no_matter_of_this_one(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        apply(server, wave(config_map("theirs")), set_name="other")
        before = copy.deepcopy(server.objects[("configmaps", "ns", "theirs")])
        result = apply(server, wave(config_map("a")))
        assert (actions(result)["ConfigMap ns/b"], "ConfigMap ns/theirs" in actions(result)) == ("deleted", False)
        assert (result.notices, recorded(server)) == ([], ["a"])
        assert server.objects[("configmaps", "ns", "theirs")] == before

    @pytest.mark.parametrize("options", [{"released": True}, {"absent": True}, {}])
    def test_an_object_that_another_set_took_is_neither_released_nor_removed(self, options: dict[str, bool]) -> None:
        server = FakeServer()
        apply(server, wave(config_map("a")))
        label(server, "a", "other")
        before = copy.deepcopy(server.objects[("configmaps", "ns", "a")])
        apply(server, *([] if options else [wave(config_map("b"))]), **options)
        assert server.objects[("configmaps", "ns", "a")] == before

    def test_a_recorded_object_that_we_never_applied_stays(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        server.objects[("configmaps", "ns", "b")]["metadata"]["managedFields"] = [
            {"manager": "x", "operation": "Apply"}
        ]
        result = apply(server, wave(config_map("a")))
        assert "kept, no field was applied by rdma.fabric: 1 (ConfigMap ns/b)" in result.notices

    def test_an_object_that_was_replaced_meanwhile_is_not_deleted(self) -> None:
        server = FakeServer()
        apply(server, *BASE)

        def replaced(_number: int, method: str, path: str) -> None:
            if method == "DELETE" and path.endswith("/a"):
                server.objects[("configmaps", "ns", "a")]["metadata"]["uid"] = "another"

        server.intercept = replaced
        with pytest.raises(BatchError, match="delete ConfigMap ns/a: the UID in the precondition"):
            apply(server, wave(config_map("b")))
        assert ("configmaps", "ns", "a") in server.objects
        assert sorted(recorded(server)) == ["a", "b"]

    def test_an_object_that_changed_its_api_version_is_not_pruned(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        newer = {**daemon_set("d"), "apiVersion": "apps/v2"}
        result = apply(server, BASE[0], wave(newer))
        assert actions(result)["DaemonSet ns/d"] == "configured"
        assert "deleted" not in actions(result).values()

    def test_a_namespace_is_never_pruned(self) -> None:
        server = FakeServer()
        apply(server, wave(namespace_object("mine")), *BASE)
        result = apply(server, *BASE)
        assert actions(result)["Namespace mine"] == "kept"
        assert not result.as_dict()["changed"] or actions(result)[INVENTORY] == "configured"
        assert ("namespaces", "", "mine") in server.objects

    @pytest.mark.parametrize(
        ("record", "action"),
        [
            # What a real server records of each: by a POST with the label of its name, by another apply, by a label.
            (("kubectl-create", "Update", "f:kubernetes.io/metadata.name"), "released"),
            (("argocd-controller", "Apply", "f:team"), "released"),
            (("kubectl-label", "Update", "f:team"), "kept"),
        ],
    )
    def test_a_namespace_that_others_have_made_is_left_as_they_have_it(
        self, record: tuple[str, str, str], action: str
    ) -> None:
        server = FakeServer()
        apply(server, wave(namespace_object("mine")), *BASE)
        manager, operation, field = record
        fields: dict[str, Any] = {"f:metadata": {"f:labels": {field: {}}}}
        server.objects["namespaces", "", "mine"]["metadata"]["managedFields"].append(
            {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields}
        )
        for check in (True, False):
            assert actions(apply(server, *BASE, check=check))["Namespace mine"] == action
        record_of_us = server.objects["namespaces", "", "mine"]["metadata"]["managedFields"][0]
        assert (record_of_us["fieldsV1"] == {"f:metadata": {"f:uid": {}}}) == (action == "released")


class TestAbsent:
    def test_deletes_the_set_in_reverse_and_is_then_done(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        result = apply(server, absent=True)
        deleted = [str(change.key) for change in result.changes if change.action == "deleted"]
        assert deleted == ["DaemonSet ns/d", "ConfigMap ns/b", "ConfigMap ns/a", INVENTORY]
        assert [place for place in server.objects if place[0] != "namespaces"] == []
        assert not apply(server, absent=True).changed

    def test_check_mode_says_so_and_deletes_nothing(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        before = copy.deepcopy(server.objects)
        predicted = apply(server, absent=True, check=True)
        assert server.objects == before
        assert actions(predicted) == actions(apply(server, absent=True))

    def test_namespaces_and_definitions_stay_unless_asked_for(self) -> None:
        server = FakeServer()
        waves = (wave(namespace_object("mine"), definition("Thing", "things")), *BASE)
        Establishing(server, 0)
        apply(server, *waves)
        result = apply(server, absent=True)
        assert {key for key, action in actions(result).items() if action == "kept"} == {
            "Namespace mine",
            "CustomResourceDefinition things.example.com",
        }
        removed = apply(server, absent=True, remove_kept=True)
        kept = ("Namespace mine", "CustomResourceDefinition things.example.com")
        assert actions(removed) == dict.fromkeys(kept, "deleted")
        assert ("namespaces", "", "ns") in server.objects

    @pytest.mark.parametrize("remove_kept", [False, True])
    def test_a_removal_that_is_done_writes_nothing_whatever_is_kept(self, remove_kept: bool) -> None:
        server = FakeServer()
        waves = (wave(namespace_object("mine")), *BASE)
        apply(server, *waves)
        apply(server, *waves, absent=True, remove_kept=remove_kept)
        done = len(server.requests)
        assert not apply(server, *waves, absent=True, remove_kept=remove_kept).changed
        assert {method for method, _path, _query in server.requests[done:]} == {"GET"}

    def test_the_inventory_goes_before_the_namespace_that_holds_it(self) -> None:
        server = FakeServer(namespaces=())
        apply(server, wave(namespace_object("ns")), *BASE)
        result = apply(server, absent=True, remove_kept=True)
        deleted = [str(change.key) for change in result.changes]
        assert deleted[-2:] == [INVENTORY, "Namespace ns"]

    def test_a_foreign_object_among_the_waves_stays(self) -> None:
        server = FakeServer()
        server.put("configmaps", config_map("a"))
        assert not apply(server, wave(config_map("a")), absent=True).changed
        assert ("configmaps", "ns", "a") in server.objects

    def test_objects_of_a_missing_kind_are_no_obstacle(self) -> None:
        server = FakeServer()
        thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "ns"}}
        apply(server, *BASE)
        assert actions(apply(server, wave(thing), absent=True))["ConfigMap ns/a"] == "deleted"

    def test_a_failed_deletion_keeps_the_inventory(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        server.intercept = lambda _n, method, path: (
            failure(403, "Forbidden", "no") if method == "DELETE" and path.endswith("/a") else None
        )
        with pytest.raises(BatchError, match="delete ConfigMap ns/a: no"):
            apply(server, absent=True)
        server.intercept = lambda _n, _m, _p: None
        assert actions(apply(server, absent=True))["ConfigMap ns/a"] == "deleted"

    def test_what_is_left_of_a_set_whose_namespace_somebody_deleted_is_removed(self) -> None:
        server = FakeServer()
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
        waves = wave({**role, "rules": []}, config_map("a"))
        apply(server, waves)
        server.objects = {key: body for key, body in server.objects.items() if "ns" not in (key[1], key[2])}
        foreseen = apply(server, waves, absent=True, check=True)
        assert actions(foreseen) == actions(apply(server, waves, absent=True)) == {"ClusterRole r": "deleted"}
        assert not apply(server, waves, absent=True).changed


def test_an_inventory_that_has_lost_its_label_is_still_the_record_of_the_set() -> None:
    server = FakeServer()
    apply(server, *BASE)
    label(server, "rdma-fabric-web", None)
    assert actions(apply(server, BASE[0]))["DaemonSet ns/d"] == "deleted"
    assert recorded(server) == ["a", "b"]


class TestFinalizers:
    """What a finalizer holds is looked at by every run until it is gone."""

    @staticmethod
    def held() -> FakeServer:
        server = FakeServer()
        apply(server, *BASE)
        server.objects[("configmaps", "ns", "b")]["metadata"]["finalizers"] = ["example.com/guard"]
        return server

    def test_a_pruned_object_stays_recorded_until_its_finalizers_are_done(self) -> None:
        server = self.held()
        without = (wave(config_map("a")), BASE[1])
        first = apply(server, *without)
        assert actions(first)["ConfigMap ns/b"] == "deleted"
        for result in (first, apply(server, *without)):
            going = "deleted as soon as their finalizers are done (example.com/guard): 1 (ConfigMap ns/b)"
            assert going in result.notices
            assert "b" in recorded(server)
        del server.objects[("configmaps", "ns", "b")]
        last = apply(server, *without)
        assert (last.notices, "b" in recorded(server)) == ([], False)

    def test_a_removed_set_keeps_its_inventory_until_then(self) -> None:
        server = self.held()
        with pytest.raises(BatchError, match=r"ConfigMap ns/b is still there.*example\.com/guard"):
            apply(server, absent=True, wait=True, wait_timeout=5.0)
        assert recorded(server) == ["b"]
        assert apply(server, absent=True).notices
        del server.objects[("configmaps", "ns", "b")]
        apply(server, absent=True)
        assert ("configmaps", "ns", "rdma-fabric-web") not in server.objects

    def test_check_mode_waits_for_none(self) -> None:
        server = self.held()
        result = apply(server, absent=True, check=True, wait=True)
        assert (actions(result)["ConfigMap ns/b"], result.notices) == ("deleted", [])
        assert ("configmaps", "ns", "b") in server.objects

    def test_one_that_is_gone_before_it_is_deleted_is_not_waited_for(self) -> None:
        server = self.held()
        server.intercept = lambda _n, method, path: (
            failure(404, "NotFound", "not found") if method == "DELETE" and path.endswith("/b") else None
        )
        assert apply(server, wave(config_map("a")), BASE[1]).notices == []
        assert "b" not in recorded(server)

    def test_a_fault_of_all_requests_ends_the_removal_at_once(self) -> None:
        server = self.held()
        server.intercept = lambda _n, method, _path: failure(401, "Unauthorized", "no") if method == "DELETE" else None
        server.requests.clear()
        with pytest.raises(BatchError, match="renew the token"):
            apply(server, absent=True)
        assert sum("/leases" not in path for method, path, _query in server.requests if method == "DELETE") == 1

    def test_check_mode_names_everything_that_is_refused(self) -> None:
        server = FakeServer()
        apply(server, wave(config_map("a")), wave(daemon_set("d")), wave(config_map("served")))
        server.intercept = lambda _n, method, path: (
            failure(403, "Forbidden", f"not {path}") if method == "DELETE" else None
        )
        with pytest.raises(BatchError) as refused:
            apply(server, absent=True, check=True)
        assert [str(key) for key, _fault in refused.value.result.failures] == [
            "ConfigMap ns/served",
            "DaemonSet ns/d",
            "ConfigMap ns/a",
        ]

    def test_a_workload_stays_until_what_was_applied_after_it_is_gone(self) -> None:
        """It may be the one that does what the finalizers wait for."""
        server = FakeServer()
        apply(server, wave(config_map("a")), wave(daemon_set("d")), wave(config_map("served")))
        held = server.objects[("configmaps", "ns", "served")]
        held["metadata"]["finalizers"] = ["example.com/guard"]
        with pytest.raises(BatchError, match=r"served is still there.*example\.com/guard"):
            apply(server, absent=True, wait=True, wait_timeout=5.0)
        assert recorded(server) == ["a", "d", "served"]
        assert ("daemonsets", "ns", "d") in server.objects
        asked = 0

        def serve(plural: str) -> None:
            nonlocal asked
            asked += plural == "configmaps"
            if asked == 3 and ("daemonsets", "ns", "d") in server.objects:
                del server.objects[("configmaps", "ns", "served")]

        server.on_list = serve
        done = apply(server, absent=True, wait=True, wait_timeout=60.0)
        assert actions(done)["DaemonSet ns/d"] == "deleted"
        assert [place for place in server.objects if place[0] != "namespaces"] == []


class TestLooseObjects:
    """Without a set: objects on their own, without label, inventory and pruning."""

    def test_present_and_absent(self) -> None:
        server = FakeServer()
        loose = {"set_name": "", "inventory_namespace": ""}
        first = apply(server, wave(config_map("a")), **loose)
        assert actions(first) == {"ConfigMap ns/a": "created"}
        assert "labels" not in server.objects[("configmaps", "ns", "a")]["metadata"]
        second = apply(server, wave(config_map("a")), **loose)
        assert (second.changed, second.requests["get"], second.requests["patch"]) == (False, 1, 0)
        gone = apply(server, wave(config_map("a")), absent=True, **loose)
        assert actions(gone) == {"ConfigMap ns/a": "deleted"}
        assert not apply(server, wave(config_map("a")), absent=True, **loose).changed

    def test_a_foreign_object_is_not_deleted(self) -> None:
        server = FakeServer()
        server.put("configmaps", config_map("a"))
        result = apply(server, wave(config_map("a")), absent=True, set_name="", inventory_namespace="")
        assert actions(result) == {"ConfigMap ns/a": "kept"}

    def test_an_object_of_a_set_is_left_to_it(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        with pytest.raises(BatchError, match="belongs to the set 'web'"):
            apply(server, wave(config_map("a")), set_name="", inventory_namespace="")


def test_objects_of_another_set_are_neither_removed_nor_named_whatever_goes() -> None:
    """In the same namespace, of the same kinds, and recorded nowhere, as a run that was cut leaves them."""
    server = FakeServer(namespaces=("ns",))
    apply(server, wave(namespace_object("theirs")), wave(config_map("t", "theirs"), config_map("t"), daemon_set("t")))
    theirs = copy.deepcopy(server.objects)
    server.objects.pop(("configmaps", "ns", "rdma-fabric-web"))
    theirs.pop(("configmaps", "ns", "rdma-fabric-web"))
    mine = {"set_name": "mine"}
    apply(server, wave(namespace_object("own")), wave(config_map("a"), config_map("b"), daemon_set("d")), **mine)
    results = [
        apply(server, wave(config_map("b")), **mine),
        apply(server, absent=True, remove_kept=True, **mine),
    ]
    assert {key: body for key, body in server.objects.items() if key in theirs} == theirs
    assert ("configmaps", "ns", "b") not in server.objects
    named = [str(change.key) for result in results for change in result.changes]
    assert "Namespace own" in named
    assert [name for name in named if "theirs" in name or name.endswith("/t")] == []
    assert [notice for result in results for notice in result.notices if "/t" in notice] == []
