# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an earlier manifest has set with kubectl and the input lacks is found, foretold, and a difference."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.client_side import (
    leftovers,
    taken_over,
    without,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.differences import ABSENT, differences
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.field_owners import record_text
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import actions, apply, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    FakeServer,
    applied_set,
    config_map,
    daemon_set,
    namespace_object,
)

Json = dict[str, Any]
LAST = "kubectl.kubernetes.io/last-applied-configuration"


def by_kubectl(body: Json, manager: str = "kubectl-client-side-apply", **defaults: Any) -> Json:
    """Return an object as ``kubectl apply`` leaves it, with defaults of the server, which are recorded as kubectl's."""
    live = copy.deepcopy(body)
    live["metadata"].setdefault("annotations", {})[LAST] = json.dumps(body)
    if defaults:
        live["spec"].update(defaults)
    fields = {name: value for name, value in live.items() if name not in ("apiVersion", "kind", "metadata")}
    metadata = {name: live["metadata"][name] for name in ("labels", "annotations") if name in live["metadata"]}
    recorded = {**applied_set({**fields, "metadata": metadata}), "f:status": {"f:x": {}}}
    recorded["f:metadata"]["f:annotations"]["."] = {}
    entry = {"manager": manager, "operation": "Update", "apiVersion": body["apiVersion"], "fieldsV1": recorded}
    live["metadata"]["managedFields"] = [entry]
    return live


def left(desired: Json, live: Json) -> list[str]:
    return [record_text(record) for record in leftovers(desired, live)]


# kubernetes/kubernetes#99003: its ConfigMap had a key more before.
BEFORE = config_map("a", key="value", legacy="unused")
AFTER = config_map("a", key="value")


@pytest.mark.parametrize(
    ("manager", "lines"),
    [
        ("kubectl-client-side-apply", ["data.legacy"]),
        ("kubectl-create", ["data.legacy"]),
        # kubernetes/kubernetes#89954: what the server calls all that is there before the first server-side apply.
        ("before-first-apply", ["data.legacy"]),
        ("kubectl-edit", []),
    ],
)
def test_what_was_given_to_kubectl_and_is_no_longer_asked_for_is_left_over(manager: str, lines: list[str]) -> None:
    assert left(AFTER, by_kubectl(BEFORE, manager)) == lines
    assert left(BEFORE, by_kubectl(BEFORE, manager)) == []


def test_defaults_of_the_server_count_only_where_nothing_tells_them_apart() -> None:
    live = by_kubectl(daemon_set("d"), revisionHistoryLimit=10)
    assert left(daemon_set("d"), live) == []
    del live["metadata"]["annotations"]
    assert left(daemon_set("d"), live) == ["spec.revisionHistoryLimit"]


def test_an_item_of_a_list_is_left_over_as_a_whole() -> None:
    desired = daemon_set("d")
    before = copy.deepcopy(desired)
    containers = before["spec"]["template"]["spec"]["containers"]
    containers.append({"name": "debug", "image": "x:1"})
    containers[0]["env"] = [{"name": "A", "value": "1"}]
    live = by_kubectl(before)
    assert left(desired, live) == [
        "spec.template.spec.containers[name=plugin].env[name=A]",
        "spec.template.spec.containers[name=debug]",
    ]
    after = without(live, leftovers(desired, live))
    assert after["spec"]["template"]["spec"]["containers"] == desired["spec"]["template"]["spec"]["containers"]
    assert live["spec"]["template"]["spec"]["containers"] == containers


@pytest.mark.parametrize(
    ("manager", "operation", "lines"),
    [
        ("kube-controller-manager", "Update", []),
        ("argocd-controller", "Apply", []),
        ("rdma-fabric", "Apply", ["data.legacy"]),
    ],
)
def test_what_another_manager_has_set_too_is_its_own(manager: str, operation: str, lines: list[str]) -> None:
    live = by_kubectl(BEFORE)
    fields: Json = {"f:data": {"f:legacy": {}}}
    entry = {"manager": manager, "operation": operation, "fieldsV1": fields}
    live["metadata"]["managedFields"].append(entry)
    assert left(AFTER, live) == lines


@pytest.mark.parametrize("manager", ["kubectl", "OpenAPI-Generator"])
def test_what_a_client_of_many_uses_has_made_is_left_over_and_what_it_has_patched_is_not(manager: str) -> None:
    """As kubernetes.core.k8s or an old kubectl, which call themselves the same whatever they do."""
    live = by_kubectl(BEFORE, manager)
    assert left(AFTER, live) == []
    live["metadata"]["managedFields"][0]["fieldsV1"]["f:data"]["."] = {}
    assert left(AFTER, live) == ["data.legacy"]


def test_namespaces_are_of_all_who_are_in_them() -> None:
    live = by_kubectl({**namespace_object("net"), "metadata": {"name": "net", "labels": {"team": "x"}}})
    assert left(namespace_object("net"), live) == []


def test_the_record_becomes_a_part_of_our_own_without_the_status() -> None:
    live = by_kubectl(BEFORE)
    live["metadata"]["resourceVersion"] = "7"
    (only,) = taken_over(live)["metadata"]["managedFields"]
    assert (only["manager"], only["operation"]) == ("rdma-fabric", "Apply")
    assert only["fieldsV1"]["f:data"] == {"f:key": {}, "f:legacy": {}}
    assert "f:status" not in only["fieldsV1"]
    ours = {**only, "fieldsV1": {"f:data": {"f:other": {}}}}
    live["metadata"]["managedFields"].append(ours)
    change = taken_over(live)["metadata"]
    assert [entry["manager"] for entry in change["managedFields"]] == ["rdma-fabric"]
    assert set(change["managedFields"][0]["fieldsV1"]["f:data"]) == {"f:key", "f:legacy", "f:other"}
    assert change["resourceVersion"] == "7"


def after_kubectl() -> FakeServer:
    """Return a server with an object of ours that still has what kubectl was given before."""
    server = FakeServer()
    apply(server, wave(AFTER))
    live = server.objects[("configmaps", "ns", "a")]
    live["data"]["legacy"] = "unused"
    live["metadata"]["managedFields"] += by_kubectl(BEFORE)["metadata"]["managedFields"]
    return server


def test_check_mode_foretells_the_removal_and_drift_calls_it_kubectls() -> None:
    """As in kubernetes/kubernetes#107828, where a dry run says that nothing would change."""
    server = after_kubectl()
    result = apply(server, wave(AFTER), check=True)
    assert actions(result)["ConfigMap ns/a"] == "configured"
    told = "set by an earlier manifest with kubectl or kubernetes.core and not in the input, so removed (data.legacy)"
    assert f"{told}: 1 (ConfigMap ns/a)" in result.notices
    (change,) = [each for each in result.changes if each.key.name == "a"]
    assert change.before is not None and change.after is not None
    change.after["data"] = dict(AFTER["data"])
    (only,) = differences(change.before, change.after)
    assert (only.path, only.found, only.wanted) == ("data.legacy", "unused", ABSENT)
    assert [owner.manager for owner in only.owners] == ["kubectl-client-side-apply"]


def test_what_kubectl_applies_by_the_server_stays_and_is_named() -> None:
    server = after_kubectl()
    live = server.objects[("configmaps", "ns", "a")]
    live["metadata"]["managedFields"][-1].update(manager="kubectl", operation="Apply")
    result = apply(server, wave(AFTER))
    assert live["data"] == BEFORE["data"]
    told = "set by kubectl apply --server-side and not in the input, so left as it is (data.legacy; next, "
    assert any(notice.startswith(told) for notice in result.notices)


def test_without_force_it_is_named_and_stays() -> None:
    server = after_kubectl()
    result = apply(server, wave(AFTER), force_conflicts=False)
    assert not result.changed
    assert any("so left as they are (data.legacy)" in notice for notice in result.notices)
