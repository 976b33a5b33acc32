# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch apply on the real API server: what it costs, what it repairs, what it leaves alone, what it refuses."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.apply import CONTENT_TYPE
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.inventory import MOST_BYTES, inventory_body
from ansible_collections.rdma.fabric.tests.integration.batch_objects import (
    USER_AGENT,
    Json,
    actions,
    apply,
    config_map,
    daemon_set,
    delete_cluster_roles,
    eight_kinds,
    patch,
    path_of,
    read,
    wave,
)
from ansible_collections.rdma.fabric.tests.lab.api import collection_path
from ansible_collections.rdma.fabric.tests.lab.audit import AuditLog, Request, count_by_verb
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane


@pytest.fixture
def many(control_plane: ControlPlane, namespace: str) -> Iterator[list[Json]]:
    """Two hundred objects of eight kinds, applied."""
    waves = eight_kinds(namespace)
    apply(control_plane.kubeconfig, namespace, *waves)
    yield waves
    delete_cluster_roles(control_plane.api, namespace)


def asked(audit: AuditLog, start: int) -> list[Request]:
    """Return what the collection has asked since a mark; watches of a test before are logged when they end."""
    return [each for each in audit.requests(start, user_agent=USER_AGENT) if each.verb != "watch"]


@pytest.fixture
def rights_in_two_namespaces(control_plane: ControlPlane, namespace: str) -> Iterator[tuple[Path, str]]:
    """Who may do all to two kinds and Leases in two namespaces, no more: the kubeconfig and the second one's name."""
    other = f"{namespace}-2"
    control_plane.create_namespace(other)
    group = "rbac.authorization.k8s.io"
    kinds = {"": "configmaps", "apps": "daemonsets", "coordination.k8s.io": "leases"}
    verbs = ["get", "list", "create", "patch", "update", "delete"]
    rules = [{"apiGroups": [api], "resources": [kind], "verbs": verbs} for api, kind in kinds.items()]
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "all"}, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "all"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": other}],
    }
    for place in (namespace, other):
        for plural, body in (("roles", role), ("rolebindings", binding)):
            control_plane.api.call("POST", collection_path(f"{group}/v1", plural, place), body)
    yield control_plane.client_kubeconfig(other), other
    control_plane.delete_namespace(other)


@pytest.mark.first
class TestRequests:
    def test_200_objects_of_8_kinds_cost_what_their_change_costs(
        self, control_plane: ControlPlane, namespace: str, audit: AuditLog, many: list[Json]
    ) -> None:
        kubeconfig = control_plane.kubeconfig

        def counted(waves: list[Json], **options: Any) -> tuple[dict[str, int], dict[str, str]]:
            start = audit.mark()
            result = apply(kubeconfig, namespace, *waves, **options)
            counts = count_by_verb(asked(audit, start))
            assert sum(counts.values()) == sum(result.requests.values())
            return counts, {key: action for key, action in actions(result).items() if action != "unchanged"}

        assert counted(many) == ({"list": 8}, {})
        assert counted(many, check=True) == ({"list": 8}, {})
        one = copy.deepcopy(many)
        one[1]["objects"][0]["data"]["a"] = "2"
        name = f"ConfigMap {namespace}/config-0"
        assert counted(one, check=True) == ({"list": 8, "patch": 1}, {name: "configured"})
        assert counted(many) == ({"list": 8}, {})
        # The Lease is made and deleted, and the inventory looked at once more when it is had.
        taken = {"create": 1, "delete": 1, "get": 1}
        assert counted(one) == ({"list": 8, "patch": 1, **taken}, {name: "configured"})
        several = copy.deepcopy(many)
        for body in several[2]["objects"][:7]:
            body["metadata"].setdefault("annotations", {})["a"] = "b"
        counts, changed = counted(several, check=True)
        assert counts == {"list": 8, "patch": 8}
        assert len(changed) == 8

    def test_who_has_rights_in_namespaces_only_lists_there(
        self, control_plane: ControlPlane, namespace: str, audit: AuditLog, rights_in_two_namespaces: tuple[Path, str]
    ) -> None:
        kubeconfig, other = rights_in_two_namespaces
        waves = [
            wave(config_map(namespace, "a"), config_map(other, "b")),
            wave(daemon_set(namespace, "c"), daemon_set(other, "d")),
        ]
        assert set(actions(apply(kubeconfig, namespace, *waves)).values()) == {"created"}
        start = audit.mark()
        result = apply(kubeconfig, namespace, *waves)
        assert result.changed is False
        requests = asked(audit, start)
        # Refused once, then one LIST per namespace and kind; somebody with all rights needs one per kind.
        assert [(each.verb, each.code) for each in requests] == [("list", 403), ("list", 200), ("list", 200)] * 2
        start = audit.mark()
        apply(control_plane.kubeconfig, namespace, *waves)
        assert count_by_verb(asked(audit, start)) == {"list": 2}
        del waves[0]["objects"][1]
        assert actions(apply(kubeconfig, namespace, *waves))[f"ConfigMap {other}/b"] == "deleted"
        assert read(control_plane.api, config_map(other, "b")) is None
        assert apply(kubeconfig, namespace, absent=True).changed is True
        assert read(control_plane.api, daemon_set(other, "d")) is None

    def test_check_mode_only_asks_for_dry_runs(
        self, control_plane: ControlPlane, namespace: str, audit: AuditLog
    ) -> None:
        waves = eight_kinds(namespace, 16)
        start = audit.mark()
        result = apply(control_plane.kubeconfig, namespace, *waves, check=True)
        requests = asked(audit, start)
        assert {request.verb for request in requests if not request.dry_run} <= {"list", "get"}
        assert len([request for request in requests if request.verb == "patch"]) == 16
        assert set(actions(result).values()) == {"created"}
        assert read(control_plane.api, waves[0]["objects"][0]) is None
        done = apply(control_plane.kubeconfig, namespace, *waves)
        assert actions(done) == actions(result)
        apply(control_plane.kubeconfig, namespace, absent=True)

    def test_more_than_a_page_is_read_whole(self, control_plane: ControlPlane, namespace: str, audit: AuditLog) -> None:
        objects = [config_map(namespace, f"c-{number}") for number in range(520)]
        apply(control_plane.kubeconfig, namespace, wave(*objects))
        result = apply(control_plane.kubeconfig, namespace, wave(*objects))
        assert (result.changed, result.requests["list"], result.requests["patch"]) == (False, 2, 0)
        dropped = apply(control_plane.kubeconfig, namespace, wave(*objects[:-1]))
        assert list(actions(dropped).values()).count("deleted") == 1


DRIFTS: list[tuple[str, Json]] = [
    ("a value", {"spec": {"template": {"spec": {"hostNetwork": False}}}}),
    ("a node selector", {"spec": {"template": {"spec": {"nodeSelector": {"rdma.fabric/none": "false"}}}}}),
    ("a value that the server leaves out", {"spec": {"template": {"spec": {"hostPID": True}}}}),
    ("a removed node selector", {"spec": {"template": {"spec": {"nodeSelector": None}}}}),
    ("an added key of an atomic map", {"spec": {"template": {"spec": {"nodeSelector": {"other": "x"}}}}}),
    ("removed tolerations", {"spec": {"template": {"spec": {"tolerations": None}}}}),
    ("a label", {"metadata": {"labels": {"app": "other"}}}),
    ("a removed label", {"metadata": {"labels": {"app": None}}}),
    ("a removed set label", {"metadata": {"labels": {"rdma.fabric/set": None}}}),
]


@pytest.mark.first
class TestDrift:
    @pytest.mark.parametrize(("what", "change"), DRIFTS, ids=[what for what, _change in DRIFTS])
    def test_drift_in_an_owned_field_is_repaired(
        self, control_plane: ControlPlane, namespace: str, what: str, change: Json
    ) -> None:
        body = daemon_set(namespace, "plugin")
        apply(control_plane.kubeconfig, namespace, wave(body))
        patch(control_plane.api, body, change)
        self.repaired(control_plane, namespace, body)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("image", "registry.example/plugin:evil"),
            ("args", ["--flag", "--more"]),
            ("args", []),
            ("securityContext", {"privileged": False, "capabilities": {"add": ["IPC_LOCK"]}}),
            ("securityContext", {"privileged": True, "capabilities": {"add": ["IPC_LOCK", "SYS_ADMIN"]}}),
            ("env", [{"name": "MODE", "value": "yes"}]),
            ("env", [{"name": "MODE", "value": "no"}]),
            ("ports", []),
            ("resources", {"limits": {"cpu": "2", "memory": "50Mi"}}),
            ("volumeMounts", []),
        ],
    )
    def test_drift_inside_a_container_is_repaired(
        self, control_plane: ControlPlane, namespace: str, field: str, value: Any
    ) -> None:
        body = daemon_set(namespace, "plugin")
        apply(control_plane.kubeconfig, namespace, wave(body))
        container = {**body["spec"]["template"]["spec"]["containers"][0], field: value}
        patch(control_plane.api, body, {"spec": {"template": {"spec": {"containers": [container]}}}})
        self.repaired(control_plane, namespace, body)

    def test_drift_that_no_apply_can_undo_is_named_with_the_way_out(
        self, control_plane: ControlPlane, namespace: str
    ) -> None:
        """Somebody's literal value beside our reference: the server refuses both together and the value is not ours."""
        body = daemon_set(namespace, "plugin")
        apply(control_plane.kubeconfig, namespace, wave(body))
        env = [{"name": "NODE", "value": "fixed", "valueFrom": None}, {"name": "MODE", "value": "yes"}]
        container = {**body["spec"]["template"]["spec"]["containers"][0], "env": env}
        patch(control_plane.api, body, {"spec": {"template": {"spec": {"containers": [container]}}}})
        with pytest.raises(BatchError, match=r"containers\[0\]\.env\[0\]\.valueFrom.*delete the object and run again"):
            apply(control_plane.kubeconfig, namespace, wave(body))

    @pytest.mark.parametrize("data", [{"key": "drift"}, {"key": None}, None])
    def test_drift_in_plain_data_is_repaired(self, control_plane: ControlPlane, namespace: str, data: Any) -> None:
        body = config_map(namespace, "config")
        apply(control_plane.kubeconfig, namespace, wave(body))
        patch(control_plane.api, body, {"data": data})
        self.repaired(control_plane, namespace, body)

    @staticmethod
    def repaired(control_plane: ControlPlane, namespace: str, body: Json) -> None:
        """Check mode sees the drift, a run repairs it, the next one finds nothing to do."""
        key = f"{body['kind']} {namespace}/{body['metadata']['name']}"
        assert actions(apply(control_plane.kubeconfig, namespace, wave(body), check=True))[key] == "configured"
        assert actions(apply(control_plane.kubeconfig, namespace, wave(body)))[key] == "configured"
        after = apply(control_plane.kubeconfig, namespace, wave(body))
        assert (after.changed, after.requests["patch"]) == (False, 0)
        live = read(control_plane.api, body)
        assert live is not None
        assert_holds(body, live)

    def test_foreign_fields_are_left_alone(self, control_plane: ControlPlane, namespace: str) -> None:
        body = daemon_set(namespace, "plugin")
        apply(control_plane.kubeconfig, namespace, wave(body))
        foreign = {
            "metadata": {"labels": {"theirs": "1"}, "annotations": {"theirs": "2"}},
            "spec": {"minReadySeconds": 3},
        }
        patch(control_plane.api, body, foreign)
        assert not apply(control_plane.kubeconfig, namespace, wave(body)).changed
        changed = copy.deepcopy(body)
        changed["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/plugin:2"
        assert apply(control_plane.kubeconfig, namespace, wave(changed)).changed
        live = read(control_plane.api, body)
        assert live is not None
        assert (live["metadata"]["labels"]["theirs"], live["metadata"]["annotations"]["theirs"]) == ("1", "2")
        assert live["spec"]["minReadySeconds"] == 3

    @pytest.mark.parametrize("manager", ["kubectl-create", "kubectl-client-side-apply"])
    def test_what_an_earlier_manifest_has_set_is_taken_over_and_removed(
        self, control_plane: ControlPlane, namespace: str, manager: str
    ) -> None:
        """Made by kubectl before any run, or changed by it after one."""
        body, before = daemon_set(namespace, "plugin"), daemon_set(namespace, "plugin")
        before["metadata"]["labels"] = {"app": "plugin", "theirs": "1"}
        before["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "OLD", "value": "1"})
        if manager == "kubectl-create":
            path, query = collection_path("apps/v1", "daemonsets", namespace), {"fieldManager": manager}
            assert control_plane.api.request("POST", path, before, query=query).status == 201
        else:
            apply(control_plane.kubeconfig, namespace, wave(body))
            patch(control_plane.api, body, {key: before[key] for key in ("metadata", "spec")}, manager)
        foretold = apply(control_plane.kubeconfig, namespace, wave(body), check=True)
        gone = "metadata.labels.theirs", "spec.template.spec.containers[name=plugin].env[name=OLD]"
        assert all(any(path in notice for notice in foretold.notices) for path in gone)
        self.repaired(control_plane, namespace, body)
        live = read(control_plane.api, body)
        assert live is not None
        assert live["metadata"]["labels"] == {**body["metadata"].get("labels", {}), "rdma.fabric/set": namespace}
        managers = {entry["manager"] for entry in live["metadata"]["managedFields"] if "subresource" not in entry}
        assert managers == {"rdma-fabric"}

    def test_fields_no_longer_wanted_are_removed_and_shared_ones_stay(
        self, control_plane: ControlPlane, namespace: str
    ) -> None:
        body = config_map(namespace, "config", mine="1", shared="2")
        apply(control_plane.kubeconfig, namespace, wave(body))
        theirs = {**body, "data": {"shared": "2"}}
        query = {"fieldManager": "other"}
        control_plane.api.request(
            "PATCH", path_of(body), theirs, query=query, content_type="application/apply-patch+yaml"
        )
        apply(control_plane.kubeconfig, namespace, wave(config_map(namespace, "config", new="3")))
        live = read(control_plane.api, body)
        assert live is not None
        assert live["data"] == {"new": "3", "shared": "2"}


def assert_holds(wanted: Any, live: Any) -> None:
    """Check that the live value has everything the wanted one has; zero values may be left out."""
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            assert_holds(value, live.get(name, type(value)()))
    elif isinstance(wanted, list):
        assert len(wanted) == len(live)
        for one, other in zip(wanted, live):
            assert_holds(one, other)
    else:
        assert wanted == live


@pytest.mark.first
class TestStrictness:
    def test_unknown_fields_are_refused_with_object_and_field_and_the_rest_of_the_wave_is_tried(
        self, control_plane: ControlPlane, namespace: str
    ) -> None:
        misspelt = daemon_set(namespace, "misspelt")
        misspelt["spec"]["template"]["spec"]["nodeSelecter"] = {"a": "b"}
        invalid = config_map(namespace, "invalid")
        invalid["data"] = {"bad key!": "x"}
        fine, later = config_map(namespace, "fine"), config_map(namespace, "later")
        with pytest.raises(BatchError) as refused:
            apply(control_plane.kubeconfig, namespace, wave(misspelt, invalid, fine), wave(later))
        text = str(refused.value)
        assert f"DaemonSet {namespace}/misspelt" in text
        assert "nodeSelecter" in text
        assert f"ConfigMap {namespace}/invalid" in text
        assert "bad key!" in text
        faults = [failure["fault"] for failure in refused.value.as_dict()["failures"]]
        assert faults == ["unknown_field", "invalid"]
        assert refused.value.result.requests["patch"] == 4
        assert read(control_plane.api, fine) is not None
        assert read(control_plane.api, later) is None
        assert read(control_plane.api, misspelt) is None
        with pytest.raises(BatchError, match="nodeSelecter"):
            apply(control_plane.kubeconfig, namespace, wave(misspelt), check=True)

    def test_values_that_yaml_would_bend_are_stored_as_text(self, control_plane: ControlPlane, namespace: str) -> None:
        values = {
            "a": "yes",
            "b": "on",
            "c": "1e3",
            "d": "0x1F",
            "e": "null",
            "f": "~",
            "g": "2024-01-01",
            "h": "1_000",
        }
        values.update(i="{{ jinja }}", j="a: b\n- c", k="", l=" lead", m="\u2028\u00e9", n="!!binary x")
        body = config_map(namespace, "text", **values)
        apply(control_plane.kubeconfig, namespace, wave(body))
        live = read(control_plane.api, body)
        assert live is not None
        assert live["data"] == values
        assert not apply(control_plane.kubeconfig, namespace, wave(body)).changed

    def test_a_number_where_text_belongs_is_refused_by_name(self, control_plane: ControlPlane, namespace: str) -> None:
        body = config_map(namespace, "typed")
        body["data"] = {"port": 80}
        with pytest.raises(BatchError, match=f"ConfigMap {namespace}/typed.*port"):
            apply(control_plane.kubeconfig, namespace, wave(body))

    def test_a_change_of_an_immutable_field_names_it_and_the_way_out(
        self, control_plane: ControlPlane, namespace: str
    ) -> None:
        body = daemon_set(namespace, "plugin")
        apply(control_plane.kubeconfig, namespace, wave(body))
        other = json.loads(json.dumps(body).replace('{"app": "plugin"}', '{"app": "renamed"}'))
        with pytest.raises(BatchError, match=r"spec\.selector.*immutable") as refused:
            apply(control_plane.kubeconfig, namespace, wave(other))
        assert "delete the object and run again" in str(refused.value)

    def test_another_managers_field_is_an_error_when_not_forced(
        self, control_plane: ControlPlane, namespace: str
    ) -> None:
        body = config_map(namespace, "config")
        apply(control_plane.kubeconfig, namespace, wave(body))
        patch(control_plane.api, body, {"data": {"key": "theirs"}})
        with pytest.raises(BatchError, match=r"another manager owns \.data\.key"):
            apply(control_plane.kubeconfig, namespace, wave(body), force_conflicts=False)
        live = read(control_plane.api, body)
        assert live is not None
        assert live["data"]["key"] == "theirs"


@pytest.mark.first
def test_the_server_takes_the_largest_inventory_and_none_above(control_plane: ControlPlane, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/rdma-fabric-web"
    for size, status in ((MOST_BYTES, 201), (MOST_BYTES + 1, 422)):
        body = inventory_body("web", namespace, [])
        body["data"]["objects"] = "x" * size
        control_plane.api.request("DELETE", path)
        query = {"fieldManager": "rdma-fabric"}
        answer = control_plane.api.request("PATCH", path, body, query=query, content_type=CONTENT_TYPE)
        assert answer.status == status
