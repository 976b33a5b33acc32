# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a set survives being written and read, and refuses to guess."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.inventory import (
    MOST_BYTES,
    UnreadableInventory,
    inventory_body,
    inventory_key,
    recorded_keys,
    size_problem,
    union,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Key
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import apply, recorded, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, config_map, failure

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
        pytest.param({"objects": "[" * 100_000}, id="too-deep"),
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


class Disturbed(FakeServer):
    """A server on which the first write of the inventory after a run meets ``answer``, once ``before`` has happened."""

    def __init__(self, answer: Reply, before: Callable[[FakeServer, bytes], None]) -> None:
        super().__init__()
        self.answer, self.before, self.left = answer, before, 0
        apply(self, wave(config_map("a")))
        self.left = 1

    def send(self, method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        if method == "PATCH" and "/configmaps/rdma-fabric-web?" in path and self.left:
            self.left -= 1
            self.before(self, body or b"")
            return self.answer
        return super().send(method, path, body, content_type)


CONFLICT = failure(409, "Conflict", "the object has been modified")


def overtaken(server: FakeServer, _body: bytes) -> None:
    server.put("configmaps", server.objects[("configmaps", "ns", "rdma-fabric-web")])


def written(server: FakeServer, body: bytes) -> None:
    """Store what is to be written, as a write whose answer was lost does."""
    path = "/api/v1/namespaces/ns/configmaps/rdma-fabric-web?fieldManager=rdma-fabric&force=true"
    FakeServer.send(server, "PATCH", path, body, None)


def test_a_record_that_another_run_has_written_meanwhile_is_not_lost() -> None:
    server = Disturbed(CONFLICT, overtaken)
    with pytest.raises(BatchError, match="another run has taken over the set 'web'"):
        apply(server, wave(config_map("a"), config_map("b")))
    assert recorded(server) == ["a"]
    assert ("configmaps", "ns", "b") not in server.objects


@pytest.mark.parametrize("before", [written, lambda _server, _body: None])
def test_a_record_is_written_though_an_answer_was_lost_or_the_server_was_behind(
    before: Callable[[FakeServer, bytes], None],
) -> None:
    server = Disturbed(CONFLICT, before)
    assert apply(server, wave(config_map("a"), config_map("b"))).changed
    assert recorded(server) == ["a", "b"]


def test_nothing_is_applied_where_the_record_is_refused() -> None:
    server = Disturbed(failure(422, "Invalid", "too many annotations"), lambda _server, _body: None)
    with pytest.raises(BatchError, match="too many annotations"):
        apply(server, wave(config_map("a"), config_map("b")))
    assert ("configmaps", "ns", "b") not in server.objects
