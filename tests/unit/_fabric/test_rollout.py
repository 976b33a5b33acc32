# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the components of one policy share: selectors, tolerations, affinities, resources."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.rollout import (
    GPU_TOLERATION,
    Rollout,
    merge_node_affinity,
    merge_tolerations,
    name_hash,
    resources_of,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(key: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "Exists"}]}


def demanding(*keys: str) -> dict[str, Any]:
    return {REQUIRED: {"nodeSelectorTerms": [term(key) for key in keys]}}


def keys_of(affinity: dict[str, Any]) -> list[list[str]]:
    terms = affinity[REQUIRED].get("nodeSelectorTerms", [])
    return [[expression["key"] for expression in each["matchExpressions"]] for each in terms]


def test_demands_of_two_affinities_are_met_together() -> None:
    assert keys_of(merge_node_affinity(demanding("a", "b"), demanding("c"))) == [["a", "c"], ["b", "c"]]
    assert keys_of(merge_node_affinity(demanding("a"), {})) == [["a"]]
    assert keys_of(merge_node_affinity({}, demanding("a"))) == [["a"]]
    assert keys_of(merge_node_affinity({}, {})) == []


def test_preferences_of_two_affinities_are_all_kept() -> None:
    one, two = {PREFERRED: [{"weight": 1}]}, {PREFERRED: [{"weight": 2}]}
    assert merge_node_affinity(one, two)[PREFERRED] == [{"weight": 1}, {"weight": 2}]


def test_match_fields_are_kept_beside_expressions() -> None:
    fields = {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name"}]}]}}
    merged = merge_node_affinity(fields, demanding("a"))
    assert merged[REQUIRED]["nodeSelectorTerms"] == [{"matchFields": [{"key": "metadata.name"}], **term("a")}]


def test_tolerations_come_once_and_in_order() -> None:
    own = {"key": "a", "operator": "Exists"}
    assert merge_tolerations([own, GPU_TOLERATION], [GPU_TOLERATION]) == [own, GPU_TOLERATION]


def test_resources_of_a_container_by_name() -> None:
    section = {"containerResources": [{"name": "a", "limits": {"cpu": "1000m"}}]}
    assert resources_of(section, "a", {"limits": {"cpu": "9"}}) == {"limits": {"cpu": "1"}, "requests": {}}
    assert resources_of(section, "b", {"limits": {"cpu": "9"}}) == {"limits": {"cpu": "9"}}
    assert resources_of({}, "b") == {}


def test_a_node_policy_narrows_the_selector_and_names_its_objects() -> None:
    rollout = Rollout("ns", {}, {}, suffix="hopper", node_selector={"pool": "hopper"})
    assert rollout.pod({}, selective=True)["nodeSelector"] == {
        "feature.node.kubernetes.io/pci-15b3.present": "true",
        "pool": "hopper",
    }
    assert rollout.named("rdma-devices") == "rdma-devices-hopper"
    cluster = Rollout("ns", {}, {})
    assert (cluster.named("x"), cluster.workload_name("x")) == ("x", "x")
    assert cluster.workload_name("x", "-arm64") == "x-arm64"
    assert cluster.pod({})["nodeSelector"] == {}


@pytest.mark.parametrize(
    ("name", "ending", "expected"),
    [
        ("rdma-shared-dp-ds", "", "rdma-shared-dp-ds-a23456789-b23456789-c23456"),
        # 63 characters are a label; one more is none.
        ("network-operator-sriov-device-plugin", "", "network-operator-sriov-device-plugin-a23456789-b23456789-c23456"),
        ("network-operator-sriov-device-plugin", "-a", "network-operator-sriov-device-plugin-697d996d8c-a"),
    ],
)
def test_the_name_of_a_daemon_set_is_the_operator_s_as_long_as_it_is_a_label(
    name: str, ending: str, expected: str
) -> None:
    assert Rollout("ns", {}, {}, suffix="a23456789-b23456789-c23456").workload_name(name, ending) == expected


@pytest.mark.parametrize(
    ("section", "found"),
    [("a", {"b": {"c": 1}}), ("a.b", {"c": 1}), ("a.b.c", None), ("a.x", None), ("n", None), ("n.m", None)],
)
def test_sections_by_dotted_name(section: str, found: Any) -> None:
    assert Rollout("ns", {"a": {"b": {"c": 1}}, "n": None}, {}).section(section) == found


@pytest.mark.parametrize(("name", "expected"), [("ampere", "7cb58f4f77"), ("hopper", "7cd75c7787")])
def test_the_hash_is_the_vendor_s(name: str, expected: str) -> None:
    assert name_hash(name) == expected
