# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a comparison comes to: its document, its lines and its JUnit file, with the batch on a server in memory."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import NEEDS_REBOOT, make_step
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.batch import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError, BatchRequest
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.inventory import inventory_key
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import key_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._drift.comparison import (
    attention_of,
    document_of,
    host_rows,
    screen,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._drift.junit import junit_text
from ansible_collections.rdma.fabric.plugins.plugin_utils._drift.objects import cluster_part, unread_cluster
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import BASE, apply, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    FakeServer,
    FakeTime,
    config_map,
    connect,
    daemon_set,
    failure,
)

Json = dict[str, Any]
SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "drift.schema.json").read_text(encoding="utf-8"))
TIME = "2026-11-22T10:00:00Z"
EDITED = {"manager": "kubectl-edit", "operation": "Update", "apiVersion": "v1", "time": TIME}
INVENTORY = inventory_key("web", "ns")


def step(concern: str = "mtu", **changes: Any) -> Any:
    given: Json = {"target": "rail0", "action": "set the MTU to 9000 (now 1500)", "before": 1500, "after": 9000}
    return make_step(concern, "0000:18:00.0", **{"reason": "rail0 shall have it", **given, **changes})


def compared(server: FakeServer, *waves: Json) -> Json:
    """Return the cluster's part of a document, as the action makes it."""
    wanted = [key_of(body) for each in waves for body in each["objects"]]
    request = BatchRequest(list(waves), "web", "ns", wait=False, check=True, tolerant=True)
    try:
        result = run(connect(server, FakeTime()), request)
    except BatchError as error:
        result = error.result
    return cluster_part("https://api", wanted, result, INVENTORY)


def document(hosts: list[Json] | None = None, cluster: Json | None = None) -> Json:
    """Return a document, which has to be as published, and can be written as JUnit."""
    made = document_of(hosts or [], cluster, TIME, ["a notice"])
    jsonschema.validate(json.loads(json.dumps(made)), SCHEMA)
    parsed(made)
    return made


def parsed(made: Json) -> ElementTree.Element:
    """Return the JUnit file of a document."""
    return ElementTree.fromstring(junit_text(made))  # noqa: S314 - our own text


def rows(cluster: Json) -> dict[str, Json]:
    return {f"{row['kind']} {row['name']}": row for row in cluster["objects"]}


def edit(server: FakeServer, name: str, **data: str) -> None:
    """Change a ConfigMap as ``kubectl edit`` does: what is changed is owned by it from then on."""
    live = server.objects[("configmaps", "ns", name)]
    live["data"].update(data)
    ours = live["metadata"]["managedFields"][0]["fieldsV1"]
    ours["f:data"] = {path: {} for path in ours["f:data"] if path[2:] not in data} or {".": {}}
    fields: Json = {"f:data": {f"f:{key}": {} for key in data}}
    live["metadata"]["managedFields"].append({**EDITED, "fieldsV1": fields})


@pytest.fixture
def server() -> FakeServer:
    """A cluster to which everything was pushed."""
    made = FakeServer()
    apply(made, *BASE)
    return made


class TestObjects:
    def test_after_a_push_nothing_differs_and_the_inventory_is_compared_too(self, server: FakeServer) -> None:
        found = document(cluster=compared(server, *BASE))
        assert found["outcome"] == "same"
        assert found["summary"]["objects"] == {"total": 4, "same": 4, "different": 0, "not_compared": 0}
        assert attention_of(found) == []
        assert screen(found) == ["hosts: 0", "objects: 4: 4 matching", "result: nothing differs; next: nothing to do"]

    def test_a_field_that_was_edited_is_named_with_who_edited_it_and_when(self, server: FakeServer) -> None:
        edit(server, "a", key="theirs")
        found = document(cluster=compared(server, *BASE))
        (field,) = rows(found["cluster"])["ConfigMap a"]["differences"]
        assert (field["path"], field["found"], field["wanted"]) == ("data.key", "theirs", "value")
        assert [each["manager"] for each in field["managers"]] == ["kubectl-edit"]
        lines = screen(found)
        assert "  ConfigMap ns/a: different: 1 field" in lines
        assert f'    data.key: "theirs", expected "value"; kubectl-edit, Update, {TIME}' in lines
        assert found["outcome"] == "drift"

    def test_what_this_collection_set_itself_differs_because_of_the_input(self, server: FakeServer) -> None:
        changed = (wave(config_map("a", key="new"), config_map("b")), BASE[1])
        (field,) = rows(compared(server, *changed))["ConfigMap a"]["differences"]
        assert [each["ours"] for each in field["managers"]] == [True]
        lines = "\n".join(screen(document(cluster=compared(server, *changed))))
        assert 'data.key: "value", expected "new"; rdma-fabric, Apply, so the input has changed since' in lines

    def test_a_field_that_is_gone_is_nobodys(self, server: FakeServer) -> None:
        del server.objects[("configmaps", "ns", "a")]["data"]["key"]
        lines = "\n".join(screen(document(cluster=compared(server, *BASE))))
        assert 'data.key: missing, expected "value"; nobody sets it: it was removed, or is new in the input' in lines

    def test_an_object_that_was_deleted_is_told_from_one_that_was_never_there(self, server: FakeServer) -> None:
        del server.objects[("configmaps", "ns", "b")]
        found = rows(compared(server, *BASE, wave(config_map("new"))))
        assert found["ConfigMap b"]["state"] == found["ConfigMap new"]["state"] == "missing"
        assert found["ConfigMap b"]["why"] == "an earlier run applied it, so it was deleted since"
        assert found["ConfigMap new"]["why"] == "no earlier run applied it"

    def test_without_a_record_nothing_is_said_about_earlier_runs(self, server: FakeServer) -> None:
        del server.objects[("configmaps", "ns", "b")], server.objects[("configmaps", "ns", INVENTORY.name)]
        assert "recorded nowhere" in rows(compared(server, *BASE))["ConfigMap b"]["why"]

    def test_what_the_input_dropped_is_told_from_what_carries_the_label_only(self, server: FakeServer) -> None:
        stray = copy.deepcopy(server.objects[("configmaps", "ns", "a")])
        server.put("configmaps", {**stray, "metadata": {**stray["metadata"], "name": "stray"}})
        found = rows(compared(server, wave(config_map("b"))))
        assert found["DaemonSet d"]["state"] == found["ConfigMap stray"]["state"] == "left_over"
        assert found["DaemonSet d"]["why"] == "an earlier run applied it, and the input no longer asks for it"
        assert found["ConfigMap stray"]["why"] == "it has the label of the set, but no run has recorded it"
        assert [each["manager"] for each in found["ConfigMap stray"]["managers"]] == ["rdma-fabric"]

    def test_an_object_that_can_not_be_compared_is_no_difference(self, server: FakeServer) -> None:
        server.objects[("configmaps", "ns", "a")]["metadata"]["labels"]["rdma.fabric/set"] = "other"
        found = document(cluster=compared(server, *BASE))
        assert rows(found["cluster"])["ConfigMap a"]["state"] == "failed"
        assert rows(found["cluster"])["DaemonSet d"]["state"] == "not_compared"
        assert found["outcome"] == "error"
        assert "1 object that can't be compared: ConfigMap ns/a" in "\n".join(attention_of(found))
        assert "belongs to the set 'other'" in "\n".join(screen(found))

    @pytest.mark.parametrize(
        ("code", "reason", "fault"), [(503, "ServiceUnavailable", "server"), (401, "Unauthorized", "unauthorized")]
    )
    def test_a_server_that_gives_no_answer_is_an_error_and_no_difference(
        self, server: FakeServer, code: int, reason: str, fault: str
    ) -> None:
        server.intercept = lambda _n, _m, _p: failure(code, reason, reason)
        found = document(cluster=compared(server, *BASE))
        assert [each["fault"] for each in found["cluster"]["errors"]] == [fault]
        assert {row["state"] for row in found["cluster"]["objects"]} == {"not_compared"}
        assert found["summary"]["objects"] == {"total": 3, "same": 0, "different": 0, "not_compared": 3}
        assert "the cluster was not compared" in attention_of(found)[0]

    def test_a_server_that_fails_half_way_leaves_what_was_found(self, server: FakeServer) -> None:
        edit(server, "a", key="theirs")
        del server.objects[("configmaps", "ns", "b")]
        refusal = failure(401, "Unauthorized", "Unauthorized")
        server.intercept = lambda _n, method, path: refusal if method == "PATCH" and path.endswith("/b") else None
        found = compared(server, *BASE)
        assert [each["fault"] for each in found["errors"]] == ["unauthorized"]
        states = {name: row["state"] for name, row in rows(found).items()}
        assert states == {"ConfigMap a": "differs", "ConfigMap b": "not_compared", "DaemonSet d": "not_compared"}

    def test_what_is_in_the_default_namespace_is_compared_once(self) -> None:
        server = FakeServer()
        nowhere = config_map("a")
        del nowhere["metadata"]["namespace"]
        apply(server, wave(nowhere))
        assert [row["state"] for row in compared(server, wave(nowhere))["objects"]] == ["same", "same"]

    def test_many_objects_and_fields_are_counted_on_the_screen_and_listed_in_the_document(self) -> None:
        server = FakeServer()
        many = {str(number): "x" for number in range(30)}
        apply(server, wave(*(config_map(f"c{number}") for number in range(60))))
        found = document(cluster=compared(server, wave(*(config_map(f"c{number}", **many) for number in range(60)))))
        lines = screen(found)
        assert "    and 21 more fields" in lines
        assert "  and 10 more objects, which are in drift.json" in lines
        assert len(rows(found["cluster"])["ConfigMap c59"]["differences"]) == 31


class TestHosts:
    def test_equal_differences_are_one_class_with_folded_names(self) -> None:
        plans = {f"gpu-{number:02}": [step()] for number in range(1, 41)}
        found = document(host_rows({**plans, "gpu-41": [step("qos")], "gpu-42": []}, {}))
        assert screen(found)[:5] == [
            "hosts: 42: 1 matching, 41 different",
            "  gpu-[01:40] (40 hosts): 1 step",
            "    planned: mtu rail0: set the MTU to 9000 (now 1500); rail0 shall have it",
            "  gpu-41: 1 step",
            "    planned: qos rail0: set the MTU to 9000 (now 1500); rail0 shall have it",
        ]
        assert "41 hosts different: gpu-[01:41]; next: rdma.fabric.site --check --diff" in attention_of(found)[0]
        assert found["outcome"] == "drift"

    def test_each_difference_has_what_is_found_and_wanted(self) -> None:
        (row,) = host_rows({"a": [step()]}, {})
        (difference,) = row["differences"]
        assert (difference["found"], difference["wanted"]) == (1500, 9000)

    def test_what_waits_for_a_boot_differs_until_then(self) -> None:
        found = document(host_rows({"a": [step(status=NEEDS_REBOOT)]}, {}))
        assert found["outcome"] == "drift"
        assert "it takes effect with the next boot" in screen(found)[2]

    def test_steps_that_name_each_host_are_not_a_line_for_each(self) -> None:
        plans = {f"a-{number:03}": [step(action=f"route 10.0.0.{number}")] for number in range(500)}
        assert len(screen(document(host_rows(plans, {})))) < 20

    def test_reasons_that_name_each_host_are_not_a_line_for_each(self) -> None:
        lost = {f"a-{number:03}": f"unreachable: no route to 10.0.0.{number}" for number in range(500)}
        lines = screen(document(host_rows({}, lost)))
        assert "  a-[012:499]: for other reasons, which are in drift.json" in lines
        assert len(lines) < 20

    def test_hosts_that_were_not_read_are_no_differences_and_folded_by_their_reason(self) -> None:
        lost = dict.fromkeys(("a-1", "a-2", "a-3"), "unreachable: no route\nto host")
        found = document(host_rows({"ok": []}, {**lost, "b": "failed: broken", "c": "it never began"}))
        assert screen(found)[:4] == [
            "hosts: 6: 1 matching, 3 unreachable, 2 failed",
            "  a-[1:3]: unreachable: no route\\nto host",
            "  b: failed: broken",
            "  c: failed: it never began",
        ]
        assert found["outcome"] == "error"
        assert found["summary"]["hosts"] == {"total": 6, "same": 1, "different": 0, "not_compared": 5}

    def test_the_next_step_is_for_one_or_for_several(self, server: FakeServer) -> None:
        edit(server, "a", key="theirs")
        for lost, them in ((["x"], "it"), (["x", "y"], "them")):
            found = attention_of(document(host_rows({}, dict.fromkeys(lost, "unreachable: gone"))))
            assert found[0].endswith(f"; next: fix {them}, or leave {them} out with --limit")
        (one,) = attention_of(document(cluster=compared(server, *BASE)))
        assert "next: rdma.fabric.site reverts it; to keep a value" in one

    def test_an_error_outweighs_a_difference(self) -> None:
        assert document(host_rows({"a": [step()]}, {"b": "unreachable: gone"}))["outcome"] == "error"


class TestJunit:
    def test_a_difference_is_a_failure_and_what_was_not_read_an_error(self, server: FakeServer) -> None:
        edit(server, "a", key="theirs")
        hosts = host_rows({"one": [step()], "two": []}, {"three": "unreachable: gone"})
        tree = parsed(document(hosts, compared(server, *BASE)))
        assert dict(tree.attrib) == {
            "name": "rdma.fabric.drift", "tests": "7", "failures": "2", "errors": "1", "skipped": "0"
        }  # fmt: skip
        assert [suite.get("name") for suite in tree] == ["hosts", "objects"]
        verdicts = {
            case.get("name"): [(child.tag, child.get("type")) for child in case] for case in tree.iter("testcase")
        }
        assert verdicts["one"] == [("failure", "differs")]
        assert verdicts["two"] == []
        assert verdicts["three"] == [("error", "unreachable")]
        assert verdicts["ns/a"] == [("failure", "differs")]
        (failed,) = (case for case in tree.iter("testcase") if case.get("name") == "ns/a")
        assert failed.get("classname") == "rdma.fabric.drift.objects.ConfigMap"
        assert f"kubectl-edit, Update, {TIME}" in (failed[0].text or "")

    def test_an_unreachable_server_is_one_error_and_its_objects_are_skipped(self) -> None:
        error = {"fault": "unreachable", "message": "no route & <none>", "next_step": "check the network"}
        wanted = [key_of(config_map("a")), key_of(daemon_set("d"))]
        tree = parsed(document(cluster=unread_cluster("", wanted, error)))
        suite = tree[1]
        assert (suite.get("errors"), suite.get("failures"), suite.get("skipped")) == ("1", "0", "2")
        assert [case.get("name") for case in suite] == ["API server", "ns/a", "ns/d"]
        assert suite[0][0].text == "no route & <none>\nnext: check the network"

    def test_an_object_that_can_not_be_compared_is_an_error(self, server: FakeServer) -> None:
        server.objects[("configmaps", "ns", "a")]["metadata"]["labels"]["rdma.fabric/set"] = "other"
        tree = parsed(document(cluster=compared(server, *BASE)))
        (case,) = (case for case in tree.iter("testcase") if case.get("name") == "ns/a")
        assert [(child.tag, child.get("type")) for child in case] == [("error", "failed")]

    def test_text_of_a_host_can_not_break_it(self) -> None:
        nasty = step(reason="\x00 ]]> </failure> \u202e & \x1b[31m")
        tree = parsed(document(host_rows({"a": [nasty]}, {"b": "failed: \x00<"})))
        assert tree.get("failures") == "1"
