# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On which CPUs programs of a pod measure, and what is said where these are not those of the NIC's NUMA node."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.document import (
    any_cpu_lines,
    node_failure_lines,
    side_row,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.placement import (
    NO_TASKSET,
    NOT_ALLOWED,
    Placement,
    place,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import Output
from ansible_collections.rdma.fabric.tests.unit._proof.wire.memory_pods import (
    ADDRESSES,
    MemoryPods,
    meet,
    memory_pods,
    probe_text,
    sides,
)

# Two sockets with 56 cores, two threads each; the NIC is on the second one.
FAR, NEAR = "0-55,112-167", "56-111,168-223"
ALL = "0-223"


@pytest.mark.parametrize(
    ("local", "allowed", "isolated", "expected"),
    [
        (NEAR, ALL, "", Placement(NEAR)),
        (NEAR, "4-111,116-223", "", Placement(NEAR)),
        (NEAR, "0-59", "", Placement("56-59")),
        (NEAR, "0-56", "", Placement("56")),
        (NEAR, "0,2,4,56,58,223", "", Placement("56,58,223")),
        (NEAR, ALL, "60-111,170-223", Placement("56-59,168-169")),
        (NEAR, "0-1023", "", Placement(NEAR)),
    ],
    ids=["all", "reserved on both", "few", "one", "scattered", "isolated", "more than there are"],
)
def test_programs_are_held_to_what_they_may_use_of_the_nodes_cpus(
    local: str, allowed: str, isolated: str, expected: Placement
) -> None:
    assert place(local, allowed, online=ALL, isolated=isolated, taskset=True) == expected
    assert expected.prefix == ["taskset", "-c", expected.cpus]
    assert place(local, allowed, online=ALL, isolated=isolated, taskset=False) == Placement(why=NO_TASKSET)


@pytest.mark.parametrize(
    ("local", "allowed", "isolated"),
    [
        (ALL, ALL, ""),
        (ALL, "0-59", ""),
        (ALL, "0-1023", ""),
        (NEAR, "56-60", ""),
        (NEAR, "0-60", "0-55"),
        ("", ALL, ""),
        (NEAR, "", ""),
        ("rm -rf /", ALL, ""),
        (NEAR, "56,", ""),
        ("9" * 5, ALL, ""),
        (",".join(map(str, range(2000))), ALL, ""),
    ],
    ids=[
        "one node",
        "no node",
        "more than there are",
        "on it",
        "rest isolated",
        "soft",
        "unknown",
        "garbage",
        "comma",
        "huge",
        "long",
    ],
)
def test_where_there_is_nothing_to_choose_programs_run_as_ever_and_nothing_is_said(
    local: str, allowed: str, isolated: str
) -> None:
    for taskset in (True, False):
        found = place(local, allowed, online=ALL, isolated=isolated, taskset=taskset)
        assert (found, found.prefix) == (Placement(), [])


@pytest.mark.parametrize(("allowed", "isolated"), [(FAR, ""), ("0-60", "56-60")], ids=["cpuset", "isolated"])
def test_a_pod_that_may_use_no_cpu_of_the_node_runs_them_as_ever(allowed: str, isolated: str) -> None:
    for taskset in (True, False):
        found = place(NEAR, allowed, online=ALL, isolated=isolated, taskset=taskset)
        assert (found, found.prefix) == (Placement(why=NOT_ALLOWED), [])


def with_cpus(address: str, near: str, taskset: str = "taskset|works\n") -> str:
    """Return what the probe prints in a pod that may use every CPU of two sockets."""
    lines = f"near|mlx5_0|{near}\nonline|{ALL}\nisolated|\ncpus|{ALL}\n{taskset}end\n"
    return probe_text(address).replace("end\n", lines)


def proved(shell: MemoryPods) -> list[dict[str, Any]]:
    one, other = sides(shell)
    return meet(shell, one, other)


def test_both_sides_of_a_measurement_are_held_to_the_cpus_of_their_own_nic() -> None:
    near = {"a": NEAR, "b": FAR}
    usual, shell = memory_pods(), memory_pods(**{pod: with_cpus(ADDRESSES[pod], near[pod]) for pod in near})
    proved(usual)
    tests = proved(shell)
    assert {test["verdict"] for test in tests} == {"pass"}
    assert shell.programs() == usual.programs()
    measured = [call for call in shell.calls if any(word.startswith("ib_write") for word in call[2])]
    assert len(measured) == 6
    for pod, _program, words, _limit in measured:
        assert words[:3] == ["taskset", "-c", near[pod.partition("/")[2]]]
        assert words[3].startswith("ib_write_")
    for _pod, _program, words, _limit in shell.calls:
        assert "rping" not in words or "taskset" not in words
    assert tests[-1]["command"].startswith(f"taskset -c {NEAR} ib_write_lat -d mlx5_0 ")


def test_the_rows_of_sides_say_where_programs_ran_or_why_not() -> None:
    shell = memory_pods(a=with_cpus(ADDRESSES["a"], NEAR), b=with_cpus(ADDRESSES["b"], NEAR, taskset=""))
    found = [side_row(side) for side in sides(shell)]
    assert [(row["cpus"], row["any_cpu"]) for row in found] == [(NEAR, None), (None, NO_TASKSET)]
    assert not any("taskset" in word for call in shell.calls if call[0] == "ns/b" for word in call[2])


@pytest.mark.parametrize(
    "text",
    [
        "taskset: failed to execute ib_write_lat: No such file or directory\n",
        "taskset: can't execute 'ib_write_lat': No such file or directory\n",
    ],
    ids=["util-linux", "busybox"],
)
def test_a_program_that_taskset_does_not_find_is_one_that_the_image_lacks(text: str) -> None:
    shell = memory_pods(**{pod: with_cpus(address, NEAR) for pod, address in ADDRESSES.items()})
    shell.answers[("ns/a", "ib_write_lat")] = [Output(127, "", text)]
    *others, latency = proved(shell)
    assert {test["verdict"] for test in others} == {"pass"}
    assert (latency["verdict"], "is not in the test image" in latency["summary"]) == ("skipped", True)


def network(rail: int, whys: dict[str, str | None]) -> dict[str, Any]:
    pods = [{"node": node, "any_cpu": why} for node, why in whys.items()]
    return {"network": f"default/rail{rail}", "rail": rail, "pods": pods}


def test_equal_reasons_of_a_thousand_nodes_and_of_all_rails_are_one_line() -> None:
    nodes = [f"gpu-{number:04d}" for number in range(1, 1001)]
    networks = [network(rail, dict.fromkeys(nodes, NO_TASKSET)) for rail in range(2)]
    assert any_cpu_lines({"networks": networks}) == [
        "rail 0 (default/rail0), rail 1 (default/rail1): programs are not held to the CPUs of the NIC's NUMA node, "
        "so rates may be lower and vary: gpu-0001, gpu-0002, gpu-0003, gpu-0004, gpu-0005 and 995 more: "
        "the image has no taskset that works (use an image that has it, rdma_fabric_verify_image)"
    ]


def test_every_reason_is_said_and_sides_without_one_are_not() -> None:
    mixed = network(0, {"a": NO_TASKSET, "b": NOT_ALLOWED, "c": None})
    (line,) = any_cpu_lines({"networks": [mixed, network(1, {"a": None, "b": None, "c": None})]})
    assert f": a: {NO_TASKSET} (" in line
    assert f"; b: {NOT_ALLOWED} (look at the kubelet's CPU manager" in line
    assert "rail 1" not in line


def test_a_proof_that_an_earlier_release_has_written_says_nothing() -> None:
    old = {"network": "default/rail0", "rail": None, "pods": [{"node": "a"}]}
    assert any_cpu_lines({"networks": [old]}) == []


def test_a_node_that_fails_says_that_its_programs_were_held_to_no_cpus() -> None:
    part = {"networks": [network(0, {"a": NO_TASKSET, "b": None})], "failures": []}
    failed = {"node": "a", "networks": [{"verdict": "fail", "line": "rail 0: a fails with b"}], "parts": [part]}
    assert node_failure_lines(failed)[1:] == [f"  - {line}" for line in any_cpu_lines(part)]
    assert NO_TASKSET in node_failure_lines(failed)[1]
