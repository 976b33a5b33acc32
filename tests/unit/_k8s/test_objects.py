# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrong waves are refused whole, with every reason, before anything is sent."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import (
    Key,
    key_of,
    read_waves,
    set_name_violations,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import config_map


def wave(*objects: Any) -> list[dict[str, Any]]:
    return [{"name": "w", "objects": list(objects)}]


def test_objects_come_out_in_order_with_their_wave_and_as_copies() -> None:
    one, two = config_map("a"), config_map("b")
    items = read_waves([{"name": "first", "objects": [two]}, {"name": "second", "objects": [one]}])
    assert [(item.wave, item.key.name) for item in items] == [("first", "b"), ("second", "a")]
    items[0].body["metadata"]["labels"] = {"x": "y"}
    assert "labels" not in two["metadata"]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("text", "[0].objects[0]"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "metadata"),
        ({**config_map("a"), "apiVersion": "v1/../../api"}, "apiVersion"),
        ({**config_map("a"), "apiVersion": None}, "apiVersion"),
        ({**config_map("a"), "kind": ""}, "kind"),
        ({**config_map("a"), "metadata": {"name": "../secrets/x"}}, "metadata.name"),
        ({**config_map("a"), "metadata": {"name": "a?dryRun="}}, "metadata.name"),
        ({**config_map("a"), "metadata": {"name": ".."}}, "metadata.name"),
        ({**config_map("a"), "metadata": {"name": 5}}, "metadata.name"),
        ({**config_map("a"), "metadata": {"generateName": "a"}}, "metadata.name"),
        ({**config_map("a"), "metadata": {"name": "a", "namespace": "x/y"}}, "metadata.namespace"),
        ({**config_map("a"), "metadata": {"name": "a", "labels": ["x"]}}, "metadata.labels"),
        ({**config_map("a"), "metadata": {"name": "a", "annotations": "x"}}, "metadata.annotations"),
        ({**config_map("a"), "data": {"when": datetime.date(2026, 1, 1)}}, "[0].objects[0]"),
        ({**config_map("a"), "data": {"number": float("nan")}}, "[0].objects[0]"),
    ],
)
def test_a_malformed_object_is_refused_by_its_place(body: Any, place: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_waves(wave(body))
    assert [violation.path.endswith(place) for violation in refused.value.violations] == [True]


def test_all_malformed_objects_are_named_at_once() -> None:
    bad = {"apiVersion": "?", "kind": "", "metadata": {"name": "a b"}}
    with pytest.raises(InvalidInput) as refused:
        read_waves([*wave(bad, config_map("fine"), "text"), "no wave", {"name": "no objects"}])
    assert len(refused.value.violations) == 6


def test_waves_that_are_no_list_are_refused() -> None:
    with pytest.raises(InvalidInput, match="not a list"):
        read_waves({"name": "w", "objects": []})


def test_the_same_object_twice_is_refused_whatever_its_version() -> None:
    one = {**config_map("a"), "apiVersion": "example.com/v1", "kind": "Thing"}
    two = {**one, "apiVersion": "example.com/v1beta1"}
    with pytest.raises(InvalidInput, match="Thing ns/a is in wave 'w' and again in wave 'w'"):
        read_waves(wave(one, two))
    elsewhere = {**one, "metadata": {"name": "a", "namespace": "other"}}
    assert len(read_waves(wave(one, elsewhere))) == 2


@pytest.mark.parametrize("name", ["", "Upper", "a_b", "-a", "a-", "a" * 51, "a/b", "a b"])
def test_a_set_name_that_can_be_no_label_and_no_config_map_is_refused(name: str) -> None:
    assert set_name_violations(name)


def test_good_set_names_are_taken() -> None:
    assert not set_name_violations("a")
    assert not set_name_violations("rdma-fabric-2")
    assert not set_name_violations("a" * 50)


def test_a_key_says_what_it_names() -> None:
    assert str(key_of(config_map("a"))) == "ConfigMap ns/a"
    assert str(Key("v1", "Namespace", "", "a")) == "Namespace a"
    assert Key("apps/v1", "DaemonSet", "n", "a").identity == Key("apps/v2", "DaemonSet", "n", "a").identity
    assert Key("apps/v1", "DaemonSet", "n", "a").identity != Key("extensions/v1", "DaemonSet", "n", "a").identity
