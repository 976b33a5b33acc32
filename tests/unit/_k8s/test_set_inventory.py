# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a set survives being written and read, and refuses to guess."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.inventory import (
    UnreadableInventory,
    inventory_body,
    inventory_key,
    recorded_keys,
    union,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects import Key

ONE = Key("v1", "ConfigMap", "ns", "one")
TWO = Key("apps/v1", "DaemonSet", "ns", "two")
THREE = Key("v1", "Namespace", "", "three")


def test_what_is_written_is_read_back_in_order() -> None:
    body = inventory_body("web", "ns", [TWO, THREE, ONE])
    assert recorded_keys(body) == [TWO, THREE, ONE]
    assert (body["metadata"]["name"], body["metadata"]["namespace"]) == ("rdma-fabric-web", "ns")
    assert body["metadata"]["labels"]["rdma.fabric/set"] == "web"
    assert inventory_key("web", "ns") == Key("v1", "ConfigMap", "ns", "rdma-fabric-web")


def test_no_inventory_records_nothing() -> None:
    assert recorded_keys(None) == []


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"objects": "["},
        {"objects": "{}x"},
        {"objects": '["a"]'},
        {"objects": "7"},
        {"objects": None},
        {"objects": '[{"apiVersion": "v1", "kind": "A", "namespace": null, "name": "x"}]'},
        {"objects": '[{"kind": "A"}]'},
    ],
)
def test_an_inventory_that_somebody_else_wrote_is_refused_by_name(data: Any) -> None:
    body = {**inventory_body("web", "ns", []), "data": data}
    with pytest.raises(UnreadableInventory, match="ConfigMap ns/rdma-fabric-web"):
        recorded_keys(body)


def test_the_union_holds_the_desired_first_and_each_object_once() -> None:
    older = Key("apps/v1beta1", "DaemonSet", "ns", "two")
    assert union([ONE, TWO], [THREE, older]) == [ONE, TWO, THREE]
