# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an object differs: paths, values, and who brought them."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.differences import (
    ABSENT,
    MOST_FIELDS,
    Difference,
    differences,
)

Json = dict[str, Any]
APPLIED: Json = {"f:data": {"f:key": {}}}
EVERYTHING: Json = {"f:data": {}, "f:spec": {}}


def stored(fields: Any = None, **parts: Any) -> Json:
    """Return an object as the server has it, with what this collection owns of it."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **parts}
    ours = {"manager": "rdma-fabric", "operation": "Apply", "apiVersion": "v1", "time": "1"}
    body["metadata"]["managedFields"] = [{**ours, "fieldsV1": APPLIED if fields is None else fields}]
    return copy.deepcopy(body)


def by(body: Json, manager: str, fields: Any) -> Json:
    body["metadata"]["managedFields"].append({"manager": manager, "operation": "Update", "fieldsV1": fields})
    return body


def listed(found: Json, wanted: Json) -> list[tuple[str, Any, Any, list[str]]]:
    return [
        (each.path, each.found, each.wanted, [owner.manager for owner in each.owners])
        for each in differences(found, wanted)
    ]


def test_a_changed_field_is_its_owners_and_one_that_is_gone_is_nobodys() -> None:
    found = by(stored({}, data={"key": "theirs"}), "kubectl-edit", {"f:data": {"f:key": {}}})
    wanted = stored(EVERYTHING, data={"key": "ours", "other": "x"})
    assert listed(found, wanted) == [
        ("data.key", "theirs", "ours", ["kubectl-edit"]),
        ("data.other", ABSENT, "x", []),
    ]


def test_a_field_that_the_server_would_remove_is_found_and_not_wanted() -> None:
    found = stored({"f:data": {"f:key": {}, "f:old": {}}}, data={"key": "1", "old": "x"})
    assert listed(found, stored(data={"key": "1"})) == [("data.old", "x", ABSENT, ["rdma-fabric"])]


def test_what_the_server_keeps_for_itself_is_no_difference() -> None:
    found, wanted = stored(data={"key": "1"}, status={"a": 1}), stored(data={"key": "1"})
    found["metadata"].update(resourceVersion="5", uid="u", generation=3)
    assert listed(found, wanted) == []


def test_a_lost_record_of_a_field_that_is_as_wanted_is_a_difference_without_values() -> None:
    found = by(stored({}, data={"key": "1"}), "kubectl-edit", APPLIED)
    (only,) = differences(found, stored(data={"key": "1"}))
    assert (only.path, [owner.manager for owner in only.owners]) == ("data.key", ["kubectl-edit"])
    assert only.as_dict() == {
        "path": "data.key",
        "managers": [{"manager": "kubectl-edit", "operation": "Update", "time": "", "ours": False}],
    }


def test_items_with_names_are_compared_by_them_when_lists_are_of_another_length() -> None:
    def spec(*env: tuple[str, str]) -> Json:
        return stored(EVERYTHING, spec={"env": [{"name": name, "value": value} for name, value in env]})

    ours = ["rdma-fabric"]
    assert listed(spec(("A", "1"), ("B", "2")), spec(("A", "0"), ("C", "3"), ("D", "4"))) == [
        ("spec.env[0].value", "1", "0", ours),
        ("spec.env[1]", {"name": "B", "value": "2"}, ABSENT, ours),
        ("spec.env[name=C]", ABSENT, {"name": "C", "value": "3"}, []),
        ("spec.env[name=D]", ABSENT, {"name": "D", "value": "4"}, []),
    ]


def test_other_lists_of_another_length_are_one_difference() -> None:
    def paths(found: Any, wanted: Any) -> list[tuple[str, Any, Any]]:
        return [each[:3] for each in listed(stored(EVERYTHING, spec=found), stored(EVERYTHING, spec=wanted))]

    assert paths({"args": ["a"]}, {"args": ["a", "b"]}) == [("spec.args", ["a"], ["a", "b"])]
    assert paths({"args": ["a"]}, {"args": ["b"]}) == [("spec.args[0]", "a", "b")]
    twice = [{"name": "a"}, {"name": "a"}]
    assert paths(twice, [{"name": "a"}]) == [("spec", twice, [{"name": "a"}])]


def test_what_the_server_sets_by_itself_is_nobodys_wish() -> None:
    found = stored(data={"key": "1"}, spec={"generation": 1, "gone": 1})
    wanted = stored(data={"key": "2"}, spec={"generation": 2, "new": 1})
    assert [each.path for each in differences(found, wanted)] == ["data.key"]


def test_what_no_server_judged_is_compared_in_what_it_asks_for_and_in_what_was_applied_before() -> None:
    applied: Json = {"f:data": {"f:key": {}, "f:dropped": {}}}
    found = stored(applied, data={"key": "1", "dropped": "x", "theirs": "y"}, spec={"type": "default", "number": 1})
    asked = stored(data={"key": "2"}, spec={"number": True, "off": False, "on": True})
    del asked["metadata"]["managedFields"]
    paths = [each.path for each in differences(found, asked)]
    assert paths == ["data.dropped", "data.key", "spec.number", "spec.on"]


def test_they_are_bounded_and_null_is_a_value() -> None:
    many = stored(EVERYTHING, data={str(number): "x" for number in range(MOST_FIELDS + 50)})
    assert len(differences(stored(data={}), many)) == MOST_FIELDS
    assert Difference("a", None, ABSENT).as_dict() == {"path": "a", "wanted": None, "managers": []}
