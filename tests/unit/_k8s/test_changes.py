# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people see of a change: what they own, no secrets, no noise of the server."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.changes import (
    changed_fields,
    clean,
    diff_entry,
    is_unchanged,
)
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import config_map, daemon_set


def stored(body: dict[str, Any]) -> dict[str, Any]:
    live = copy.deepcopy(body)
    ours = {"manager": "rdma-fabric", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:data": {}}, "time": "1"}
    live["metadata"].update(uid="u", resourceVersion="1", creationTimestamp="t", generation=1, managedFields=[ours])
    live["status"] = {"phase": "x"}
    return live


def test_what_the_server_keeps_for_itself_is_not_shown() -> None:
    live = stored(config_map("a"))
    assert clean(live) == config_map("a")
    assert live["metadata"]["uid"] == "u"


def test_status_versions_and_times_are_no_change() -> None:
    before, after = stored(config_map("a")), stored(config_map("a"))
    after["status"] = {"phase": "y"}
    after["metadata"].update(resourceVersion="9", generation=4)
    after["metadata"]["managedFields"][0]["time"] = "2"
    after["metadata"]["managedFields"].append({"manager": "other", "operation": "Update"})
    assert is_unchanged(before, after)


def test_a_value_or_an_owned_field_is_a_change() -> None:
    before = stored(config_map("a"))
    assert not is_unchanged(before, stored(config_map("a", key="other")))
    after = copy.deepcopy(before)
    after["metadata"]["managedFields"][0]["fieldsV1"] = {"f:data": {"f:key": {}}}
    assert not is_unchanged(before, after)


def test_changed_fields_are_paths_into_the_object() -> None:
    before, after = daemon_set("a"), daemon_set("a", image="registry.example/plugin:2")
    after["metadata"]["labels"] = {"x": "y"}
    assert changed_fields(before, after) == ["metadata.labels", "spec.template.spec.containers[0].image"]


def test_lists_of_another_length_are_one_change_and_paths_are_bounded() -> None:
    assert changed_fields({"a": [1]}, {"a": [1, 2]}) == ["a"]
    assert len(changed_fields({}, {str(number): 1 for number in range(99)})) == 20
    assert changed_fields({"a": 1}, {"a": True}) == ["a"]


def test_the_diff_of_a_created_and_a_deleted_object() -> None:
    created, deleted = diff_entry(None, stored(config_map("a"))), diff_entry(stored(config_map("a")), None)
    assert (created["before"], created["after"]) == ({}, config_map("a"))
    assert (deleted["before"], deleted["after"]) == (config_map("a"), {})
    assert created["before_header"] == deleted["after_header"] == "ConfigMap ns/a"
