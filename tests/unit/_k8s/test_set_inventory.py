# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a set survives being written and read, and refuses to guess."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.inventory import (
    MOST_BYTES,
    UnreadableInventory,
    inventory_body,
    inventory_key,
    recorded_keys,
    size_problem,
    union,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects import Key
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.session import BatchError
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import apply, recorded, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, config_map

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


def keys_of_size(size: int) -> list[Key]:
    """Return keys whose record is exactly as many bytes long."""
    keys = [Key("v1", "ConfigMap", "ns", f"{number:08}") for number in range(size // 80)]
    rest = size - len(inventory_body("web", "ns", keys)["data"]["objects"])
    return [*keys[:-1], Key("v1", "ConfigMap", "ns", "x" * (8 + rest))]


@pytest.mark.parametrize(("size", "fits"), [(MOST_BYTES, True), (MOST_BYTES + 1, False)])
def test_a_record_of_one_mebibyte_fits_and_a_byte_more_does_not(size: int, fits: bool) -> None:
    keys = keys_of_size(size)
    assert len(inventory_body("web", "ns", keys)["data"]["objects"]) == size
    assert (size_problem("web", keys) == "") == fits


def test_a_set_too_large_for_its_record_is_refused_before_anything_is_changed() -> None:
    server = FakeServer()
    most = 4000
    long = [f"{number:04}{'x' * 230}" for number in range(most)]
    apply(server, wave(*(config_map(name) for name in long[:10])))
    before = len(server.written())
    with pytest.raises(
        BatchError, match=r"would record 4010 objects in \d{7} bytes; a ConfigMap holds 1048576"
    ) as refused:
        apply(server, wave(*(config_map(f"other-{name}") for name in long)))
    assert "spread the objects over several sets" in str(refused.value)
    assert (len(server.written()), len(recorded(server))) == (before, 10)
