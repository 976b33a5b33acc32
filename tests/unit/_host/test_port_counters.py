# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters of ports are read as real ports told them, those that stand at their largest value among them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.port_counters import read_counters
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Tree
from ansible_collections.rdma.fabric.tests.unit.captures import captures, facts_of

FOLDERS = ("counters", "hw_counters")


def device(tree: Tree, facts: dict[str, Any], name: str = "", port: int = 1) -> None:
    """Give a host a device with a port that tells what a capture does."""
    for folder in FOLDERS:
        base = f"/sys/class/infiniband/{name or facts['device']}/ports/{port}/{folder}"
        tree.attributes(base, facts.get(folder, {}))


def read(*names: str) -> list[dict[str, Any]]:
    tree = Tree("node", "counters of ports")
    for name in names:
        device(tree, facts_of("port_counters", name))
    return [dict(each) for each in read_counters(RecordedHost(tree.document()))]


def test_counters_at_their_largest_value_are_named() -> None:
    (port,) = read("connectx-7-saturated")
    assert (port["device"], port["port"], port["readable"], port["hw_counters"]) == ("mlx5_1", 1, 21, {})
    stuck = ["excessive_buffer_overrun_errors", "link_downed", "port_xmit_discards", "port_xmit_wait"]
    assert port["saturated"] == stuck
    assert port["counters"]["port_rcv_data"] == 205128687774249
    assert "symbol_error" not in port["counters"], "what is 0 is left out"


def test_names_of_any_driver_are_passed_on_and_what_is_no_counter_is_not() -> None:
    rows = {row["device"]: row for row in read("mlx5-roce", "omni-path")}
    assert rows["mlx5_0"]["hw_counters"] == {"local_ack_timeout_err": 2705, "np_cnp_sent": 1333}
    assert rows["hfi1_0"]["hw_counters"] == {"DmaWait": 50646, "PktDrop": 134, "RcResend": 2079}
    assert [rows[name]["readable"] for name in ("mlx5_0", "hfi1_0")] == [5, 4]


def test_a_port_that_tells_no_counter_is_known_to_tell_none() -> None:
    (port,) = read("i40iw-without-an-agent")
    assert port == {
        "device": "i40iw0",
        "port": 1,
        "link_layer": None,
        "readable": 0,
        "counters": {},
        "hw_counters": {},
        "saturated": [],
    }


def test_a_counter_that_cannot_be_read_takes_none_of_the_others_with_it() -> None:
    tree = Tree("node", "counters of ports")
    device(tree, facts_of("port_counters", "mlx5-roce"))
    base = "/sys/class/infiniband/mlx5_0/ports/1/counters"
    for name, code in (("symbol_error", "EINVAL"), ("link_downed", "EIO"), ("port_rcv_errors", "EACCES")):
        tree.errors[f"{base}/{name}"] = code
    tree.attributes(base, {"port_xmit_wait": 7})
    (port,) = read_counters(RecordedHost(tree.document()))
    assert (port["readable"], port["counters"]) == (6, {"port_xmit_wait": 7})


@pytest.mark.parametrize("layer", ["InfiniBand", "Ethernet"])
def test_the_link_layer_says_what_sets_counters_back(layer: str) -> None:
    tree = Tree("node", "counters of ports")
    device(tree, facts_of("port_counters", "mlx5-roce"))
    tree.attributes("/sys/class/infiniband/mlx5_0/ports/1", {"link_layer": layer})
    (port,) = read_counters(RecordedHost(tree.document()))
    assert port["link_layer"] == layer


def test_ports_come_in_the_order_of_their_numbers() -> None:
    tree = Tree("node", "counters of ports")
    for name, port in (("mlx5_10", 1), ("mlx5_2", 10), ("mlx5_2", 2)):
        device(tree, facts_of("port_counters", "mlx5-roce"), name, port)
    found = [(each["device"], each["port"]) for each in read_counters(RecordedHost(tree.document()))]
    assert found == [("mlx5_2", 2), ("mlx5_2", 10), ("mlx5_10", 1)]


class NoPrograms(RecordedHost):
    """A host on which no program may run; counts what is read of its files."""

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__(document)
        self.reads: list[str] = []

    def read(self, path: str) -> str:
        self.reads.append(path)
        return super().read(path)

    def run(self, argv: Any, timeout: float) -> CommandResult:
        raise AssertionError(f"{argv} was run")


def test_each_counter_is_read_once_and_no_program_is_run() -> None:
    tree = FLEET["dgx-h100-01"]()
    device(tree, facts_of("port_counters", "connectx-7-saturated"), "mlx5_0")
    host = NoPrograms(tree.document())
    ports = len(read_counters(host))
    assert ports > 8
    assert len(host.reads) == len(set(host.reads)) == 21 + ports, "and the link layer of each port"


def test_every_capture_is_read() -> None:
    table = captures()["port_counters"]
    assert len(read(*table)) == len(table) == 4
