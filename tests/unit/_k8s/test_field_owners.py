# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who set a field, by managedFields as the server writes them."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.field_owners import (
    ItemName,
    Step,
    applied_by_us,
    owned_records,
    owners_of,
    owners_of_record,
    path_text,
    record_text,
)

Json = dict[str, Any]
TIME = "2026-11-22T10:00:00Z"
CONTAINER = 'k:{"name":"c"}'


def entry(manager: str, fields: Any, operation: str = "Update", **more: str) -> Json:
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "time": TIME, "fieldsV1": fields, **more}


def live(*entries: Any) -> Json:
    return {
        "metadata": {"name": "a", "labels": {"x/y": "1"}, "managedFields": list(entries)},
        "spec": {
            "containers": [{"name": "b"}, {"name": "c", "image": "i"}],
            "finalizers": ["one", "two"],
            "args": ["a", "b"],
            "selector": {"app": "a"},
        },
    }


def managers(body: Json, *path: Step) -> list[str]:
    return [owner.manager for owner in owners_of(body, path)]


def test_a_field_a_key_and_an_item_of_a_list_belong_to_who_recorded_them() -> None:
    body = live(
        entry("labels", {"f:metadata": {"f:labels": {".": {}, "f:x/y": {}}}}),
        entry("image", {"f:spec": {"f:containers": {CONTAINER: {".": {}, "f:image": {}}}}}),
        entry("finalizers", {"f:spec": {"f:finalizers": {'v:"two"': {}}}}),
        entry("arguments", {"f:spec": {"f:args": {"i:1": {}}}}),
    )
    assert managers(body, "metadata", "labels", "x/y") == ["labels"]
    assert managers(body, "spec", "containers", 1, "image") == ["image"]
    assert managers(body, "spec", "containers", 0) == []
    assert managers(body, "spec", "finalizers", 1) == ["finalizers"]
    assert managers(body, "spec", "finalizers", 0) == []
    assert managers(body, "spec", "args", 1) == ["arguments"]
    assert managers(body, "spec") == ["arguments", "finalizers", "image"]


def test_who_owns_a_value_as_a_whole_owns_what_is_in_it_and_who_owns_its_place_alone_does_not() -> None:
    atomic: Json = {"f:spec": {"f:selector": {}}}
    place: Json = {"f:spec": {"f:selector": {".": {}}}}
    assert managers(live(entry("whole", atomic), entry("place", place)), "spec", "selector", "app") == ["whole"]
    assert managers(live(entry("place", place)), "spec", "selector") == ["place"]


def test_others_come_before_this_collection_and_each_is_shown_with_operation_and_time() -> None:
    fields: Json = {"f:spec": {}}
    body = live(
        entry("rdma-fabric", fields, "Apply"), entry("scaler", fields, subresource="scale"), entry("kubectl", fields)
    )
    found = owners_of(body, ("spec", "args"))
    assert [str(owner) for owner in found] == [
        f"kubectl, Update, {TIME}",
        f"scaler, Update of scale, {TIME}",
        f"rdma-fabric, Apply, {TIME}",
    ]
    assert [owner.ours for owner in found] == [False, False, True]
    assert applied_by_us(body) == [found[2]]
    assert found[0].as_dict() == {"manager": "kubectl", "operation": "Update", "time": TIME, "ours": False}
    assert found[1].as_dict()["subresource"] == "scale"


def test_what_can_not_be_read_owns_nothing() -> None:
    for broken in (
        None,
        "text",
        {"manager": "m"},
        entry("m", ["f:spec"]),
        entry("m", {"f:spec": []}),
        entry("m", {"f:spec": {"f:containers": {"k:{": {}, "x": {}, "k:[1]": {}}}}),
        entry("m", {"f:spec": {"f:containers": {f"v:{'[' * 100_000}": {}}}}),
    ):
        assert managers(live(broken), "spec", "containers", 1) == [], broken
    assert managers({"metadata": {}}, "spec") == []


def test_records_of_two_states_are_compared_as_they_are_written() -> None:
    fields: Json = {"f:spec": {"f:containers": {CONTAINER: {".": {}, "f:image": {}}}}}
    body = live(entry("rdma-fabric", fields, "Apply"), entry("kubectl", fields))
    image = ("f:spec", "f:containers", CONTAINER, "f:image")
    assert owned_records(body) == {image, image[:3]}
    assert [owner.manager for owner in owners_of_record(body, image)] == ["kubectl", "rdma-fabric"]
    assert owners_of_record(body, ("f:spec", "f:other")) == []
    assert record_text(image) == "spec.containers[name=c].image"
    assert record_text(("f:a", 'v:"b"')) == 'a["b"]'
    assert record_text(("f:a", "k:broken")) == "a[broken]"
    too_deep = "[" * 100_000
    assert record_text(("f:a", f"k:{too_deep}")) == f"a[{too_deep}]"


def test_paths_are_written_as_in_results() -> None:
    assert path_text(("spec", "containers", 0, "image")) == "spec.containers[0].image"
    assert path_text(("spec", "env", ItemName("FOO"))) == "spec.env[name=FOO]"
