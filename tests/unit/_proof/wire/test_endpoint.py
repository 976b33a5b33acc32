# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which device, port and GID index each pod tests with, and what is known of both together."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import TROUBLES, Output, ShellTrouble
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.side import Known, PodState
from ansible_collections.rdma.fabric.tests.unit._proof.wire.memory_pods import (
    ADDRESSES,
    MemoryPods,
    meet,
    memory_pods,
    network_status,
    probe_text,
    sides_of,
)


def proved(shell: MemoryPods, **states: PodState) -> list[dict[str, Any]]:
    one, other = sides_of(shell, states)
    return meet(shell, one, other)


def measuring(shell: MemoryPods) -> list[list[str]]:
    """Return what each side of a measurement was given, from its program on."""
    found = []
    for _pod, _program, words, _limit in shell.calls:
        start = next((number for number, word in enumerate(words) if word.startswith("ib_write_")), None)
        found += [words[start:]] if start is not None else []
    return found


def infiniband(address: str, **changes: str) -> str:
    """Return what the probe prints where the interface belongs to the second of two devices, which have no such GID."""
    first = probe_text(address, link_layer="InfiniBand", **changes)
    second = "device|mlx5_1|0000:9a:00.0\nport|mlx5_1|1|InfiniBand|4: ACTIVE|400 Gb/sec (4X NDR)\nend\n"
    lines = [line for line in first.splitlines(keepends=True) if not line.startswith("gid|")]
    return "".join(lines).replace("end\n", second)


def test_a_pod_on_infiniband_tests_with_the_device_of_its_interface_and_without_gid_index() -> None:
    shell = memory_pods(**{node: infiniband(address, own="mlx5_1") for node, address in ADDRESSES.items()})
    tests = proved(shell)
    assert tests[2]["summary"] == "a: mlx5_1 port 1, b: mlx5_1 port 1"
    assert tests[6]["figures"]["expected_gbps"] == 400.0
    assert len(measuring(shell)) == 6
    for words in measuring(shell):
        assert words[words.index("-d") + 1] == "mlx5_1"
        assert "-x" not in words


def test_a_device_of_infiniband_that_is_not_the_interfaces_is_not_taken() -> None:
    shell = memory_pods(**{node: infiniband(address) for node, address in ADDRESSES.items()})
    tests = proved(shell)
    assert tests[2]["verdict"] == "fail"
    assert "net1 is attached to an interface without RDMA" in tests[2]["problem"]["cause"]
    assert measuring(shell) == []


def test_an_address_of_ipv6_is_found_on_the_interface_and_in_the_gid_table() -> None:
    addresses = {"a": "fd00:10::1", "b": "fd00:10::2"}
    states, probes = {}, {}
    for node, address in addresses.items():
        gid = ipaddress.ip_address(address).exploded
        former, text = ADDRESSES[node], probe_text(ADDRESSES[node])
        mapped = next(line.split("|")[4] for line in text.splitlines() if line.endswith("|RoCE v2|net1"))
        text = text.replace(f"local|{former}\n", f"local6|{gid.replace(':', '')}|net1\n")
        probes[node] = text.replace(mapped, gid)
        states[node] = PodState(f"ns/{node}", network_status(f"{address}/64"))
    shell = memory_pods(**probes)
    tests = proved(shell, **states)
    assert {test["verdict"] for test in tests} == {"pass"}
    assert tests[1]["summary"].startswith("a: net1 fd00:10::1 MTU 9000")
    assert [words[-1] for words in measuring(shell) if ":" in words[-1]] == [addresses[node] for node in "bba"]


def rival(address: str, state: str) -> str:
    """Return what the probe prints where a device before mlx5_7 in the alphabet has the same GID, in two slots."""
    text = probe_text(address, device="mlx5_7|0000:9a:00.0")
    gid = next(line.split("|")[4] for line in text.splitlines() if line.endswith("|RoCE v2|net1"))
    port = f"device|mlx5_2|0000:18:00.0\nport|mlx5_2|1|Ethernet|{state}|100 Gb/sec (4X EDR)\n"
    gids = "".join(f"gid|mlx5_2|1|{slot}|{gid}|RoCE v2|net1\n" for slot in (11, 4))
    return text.replace("end\n", f"{port}{gids}end\n")


def test_a_port_that_is_up_goes_before_one_that_is_down_and_the_first_of_equal_gids_is_taken() -> None:
    shell = memory_pods(a=rival(ADDRESSES["a"], "1: DOWN"), b=rival(ADDRESSES["b"], "4: ACTIVE"))
    assert proved(shell)[2]["summary"] == "a: mlx5_7 port 1 GID index 5, b: mlx5_2 port 1 GID index 4"


def test_an_address_whose_gids_are_of_another_kind_only_is_told_with_the_kind() -> None:
    shell = memory_pods(b=probe_text(ADDRESSES["b"], kind="IB/RoCE v1"))
    assert proved(shell)[2]["problem"]["cause"] == "the address has entries of IB/RoCE v1 only"


def test_a_network_may_be_named_without_its_namespace() -> None:
    shell = memory_pods()
    tests = proved(shell, b=PodState("ns/b", network_status(ADDRESSES["b"], "rail0")))
    assert {test["verdict"] for test in tests} == {"pass"}


def test_a_pod_that_cannot_be_looked_into_fails_once_and_nothing_is_run_in_either() -> None:
    shell = memory_pods()
    shell.answers[("ns/b", "probe")] = [ShellTrouble("pod_gone", 'pods "b" not found')]
    pods, *others = proved(shell)
    assert (pods["verdict"], pods["summary"]) == ("fail", 'b: pods "b" not found')
    assert pods["problem"]["cause"] == TROUBLES["pod_gone"][0]
    assert {test["verdict"] for test in others} == {"skipped"}
    assert shell.programs() == ["a probe", "b probe"]


@pytest.mark.parametrize(("a", "b", "facts"), [(100, 200, None), (200, 100, None), (400, 400, 100.0)])
def test_the_slowest_of_both_ports_and_links_is_what_a_rate_is_measured_by(a: int, b: int, facts: float | None) -> None:
    rates = {"a": f"{a} Gb/sec (4X EDR)", "b": f"{b} Gb/sec (4X EDR)"}
    shell = memory_pods(**{node: probe_text(ADDRESSES[node], rate=rate) for node, rate in rates.items()})
    one, other = sides_of(shell, {}, known=Known(facts))
    tests = meet(shell, one, other)
    assert [test["figures"]["expected_gbps"] for test in tests[6:8]] == [100.0, 100.0]


@pytest.mark.parametrize("node", ADDRESSES)
def test_a_rate_is_not_judged_where_either_device_is_emulated(node: str) -> None:
    tests = proved(memory_pods(**{node: probe_text(ADDRESSES[node], device="rxe0|")}))
    assert [test["verdict"] for test in tests[6:]] == ["reported"] * 3


def test_the_narrower_pcie_link_of_both_nics_is_what_a_rate_is_measured_by() -> None:
    shell = memory_pods()
    one, other = sides_of(shell, {}, known=Known(None, {"speed_gts": 32.0, "width": 16}))
    narrow = replace(other, known=Known(None, {"speed_gts": 8.0, "width": 8}))
    tests = meet(shell, one, narrow)
    assert [test["figures"]["expected_gbps"] for test in tests[6:8]] == [52.8, 52.8]


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (Output(2, "syntax  error\n", ""), "what is in the pod cannot be read: syntax error"),
        (Output(0, "", ""), "what is in the pod cannot be read: nothing was printed"),
    ],
)
def test_a_pod_whose_shell_says_nothing_that_can_be_read_is_told_with_what_it_said(output: Output, told: str) -> None:
    shell = memory_pods()
    shell.answers[("ns/b", "probe")] = [output]
    pods = proved(shell)[0]
    assert (pods["verdict"], pods["summary"]) == ("fail", f"b: {told}")
