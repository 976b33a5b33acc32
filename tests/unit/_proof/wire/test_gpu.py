# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bandwidth between the memory of GPUs: what pods ask for, how perftest is told, and what is asked of which way."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import gpu_problems
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.campaign import Settings
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.endpoint import Choice
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.gpu import (
    GpuWay,
    farthest,
    ways_in_pod,
    ways_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.plan import device_limits, make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import Output
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.side import Known
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.unit._proof.wire.memory_pods import (
    ADDRESSES,
    MemoryPods,
    meet,
    memory_pods,
    probe_text,
    sides,
    sides_of,
    table,
)
from ansible_collections.rdma.fabric.tests.unit._proof.wire.test_plan import RESOURCE, around, node, options

Test = dict[str, Any]

GPU = "nvidia.com/gpu"
LINK = {"speed_gts": 32.0, "width": 16}
NEAR, FAR = GpuWay("PXB", LINK), GpuWay("SYS", LINK)


def cuda(*places: str) -> str:
    """Return what perftest prints of its GPUs before a table: linux-rdma/perftest, src/cuda_memory.c (init_gpu)."""
    listed = [f"CUDA device {number}: PCIe address is {place}" for number, place in enumerate(places)]
    return "\n".join(
        ["initializing CUDA", "Listing all CUDA devices in system:", *listed, "", "Picking device No. 0", ""]
    )


def proved(
    ours: float = 92.0,
    server: str = "1B:00",
    known: Known | None = None,
    minimum: float | None = None,
    client: str = "1B:00",
    **probes: str,
) -> tuple[list[Test], MemoryPods]:
    """Return the two tests between GPU ``client`` of the client and ``server`` of the server side, at rate ``ours``."""
    given = {node: probe_text(address, cuda="memory", peer="nvidia_peermem") for node, address in ADDRESSES.items()}
    shell = memory_pods(**{**given, **probes})
    for pod in ("ns/a", "ns/b"):
        of_gpus = Output(0, cuda(client) + table(ours), "")
        shell.answers[(pod, "ib_write_bw")] = [Output(0, table(), ""), of_gpus]
        shell.answers[(pod, "serve")] = [Output(0, cuda(server), "")]
    one, other = sides_of(shell, {}, gpu=True, known=known or Known(100, LINK, {"1b:00": NEAR, "9a:00": FAR}))
    settings = Settings(gpu=True, minimum=minimum)
    tests = meet(shell, one, other, settings)
    return [test for test in tests if test["test"] == "gpu_bandwidth"], shell


def memory_of(words: list[str]) -> list[str]:
    return [word for word in words if "cuda" in word]


def test_gpus_beside_their_nics_pass_both_ways_with_what_was_found() -> None:
    tests, shell = proved(87.0)
    assert [(test["from"], test["to"], test["verdict"]) for test in tests] == [("a", "b", "pass"), ("b", "a", "pass")]
    assert tests[0]["figures"]["threshold"] == 0.85
    assert (tests[0]["figures"]["distance"], tests[0]["figures"]["gpus"]) == ("PXB", ["1b:00", "1b:00"])
    assert tests[0]["summary"].endswith("; from GPU 1b:00 to GPU 1b:00")
    for pod, order in (("ns/a", "wgl"), ("ns/b", "wg")):
        ran = [
            (words[0], memory_of(words))
            for each, program, words, _limit in shell.calls
            if (each, program[:3]) == (pod, "ib_")
        ]
        names = {"w": ("ib_write_bw", []), "g": ("ib_write_bw", ["--use_cuda=0"]), "l": ("ib_write_lat", [])}
        assert ran == [names[letter] for letter in order]


def test_only_the_tests_of_gpus_use_their_memory_and_on_both_sides() -> None:
    _tests, shell = proved()
    ran = [words for _pod, program, words, _limit in shell.calls if program in ("ib_write_bw", "serve")]
    with_gpu = [memory_of(words) for words in ran if memory_of(words)]
    assert with_gpu == [["--use_cuda=0"]] * 4
    assert len([words for words in ran if "ib_write_bw" in words]) == 8


def test_without_a_module_of_the_kernel_a_side_uses_dma_buf() -> None:
    tests, shell = proved(b=probe_text(ADDRESSES["b"], cuda="memory dmabuf"))
    assert {test["verdict"] for test in tests} == {"pass"}
    served = [words for pod, program, words, _limit in shell.calls if (pod, program) == ("ns/b", "serve")]
    assert [memory_of(words) for words in served if memory_of(words)] == [["--use_cuda=0", "--use_cuda_dmabuf"]]
    client = [words for pod, program, words, _limit in shell.calls if (pod, program) == ("ns/a", "ib_write_bw")]
    assert [memory_of(words) for words in client if memory_of(words)] == [["--use_cuda=0"]]


@pytest.mark.parametrize(
    ("changes", "problem", "cause"),
    [
        ({"peer": "nvidia_peermem"}, "perftest of the image knows no GPU memory", "built without CUDA"),
        ({"cuda": "no_driver"}, "libcuda of the GPU's driver is not in the pod", "only in a RuntimeClass"),
        ({"cuda": "memory"}, "GPU memory can't be registered", "nvidia-peermem is not loaded"),
    ],
)
def test_what_keeps_a_side_from_gpu_memory_is_told_and_nothing_is_run(
    changes: dict[str, str], problem: str, cause: str
) -> None:
    tests, shell = proved(b=probe_text(ADDRESSES["b"], **changes))
    assert [(test["verdict"], test["summary"]) for test in tests] == [("fail", f"b: {problem}")] * 2
    assert cause in tests[0]["problem"]["cause"]
    assert {pod for pod, _program, words, _limit in shell.calls if memory_of(words)} == {"ns/a"}


@pytest.mark.parametrize(
    ("rate", "server", "verdict", "distance"),
    [
        (84.0, "1B:00", "fail", "PXB"),
        (84.0, "9A:00", "pass", "SYS"),
        (49.0, "9A:00", "fail", "SYS"),
        # A GPU that the facts do not have, or that was not printed: what even the farthest way carries.
        (84.0, "5D:00", "reported", None),
        (49.0, "", "fail", None),
    ],
)
def test_the_farther_of_both_ways_decides_what_is_asked_for(
    rate: float, server: str, verdict: str, distance: str | None
) -> None:
    tests, _shell = proved(rate, server)
    assert (tests[0]["verdict"], tests[0]["figures"]["distance"]) == (verdict, distance)


@pytest.mark.parametrize(
    ("minimum", "server", "rate", "verdict"),
    [
        (0.95, "1B:00", 86.0, "pass"),
        (0.6, "1B:00", 61.0, "pass"),
        (0.6, "1B:00", 59.0, "fail"),
        (0.95, "5D:00", 84.0, "reported"),
        (0.4, "5D:00", 41.0, "pass"),
    ],
)
def test_a_share_that_is_given_only_lowers_what_is_asked_of_gpus(
    minimum: float, server: str, rate: float, verdict: str
) -> None:
    tests, _shell = proved(rate, server, minimum=minimum)
    assert tests[0]["verdict"] == verdict


def test_a_gpu_in_a_narrow_slot_limits_the_rate() -> None:
    narrow = GpuWay("PIX", {"speed_gts": 8.0, "width": 8})
    tests, _shell = proved(50.0, known=Known(100, LINK, {"1b:00": narrow}))
    assert tests[0]["figures"]["expected_gbps"] == 52.8
    assert tests[0]["verdict"] == "pass"


def test_without_gpus_nothing_of_them_is_looked_for() -> None:
    shell = memory_pods()
    one, other = sides(shell)
    tests = meet(shell, one, other)
    assert "gpu_bandwidth" not in {test["test"] for test in tests}


FACTS = {
    "nics": [
        {"address": "0000:18:00.0", "function": "pf", "pf": None, "link": LINK},
        {"address": "0000:18:00.2", "function": "vf", "pf": "0000:18:00.0", "link": None},
    ],
    "rdma": [],
    "gpus": [
        {"address": "0000:1b:00.0", "link": LINK},
        {"address": "0000:9a:00.0", "link": LINK},
        {"address": "0001:01:00.0", "link": LINK},
        {"address": "0002:01:00.0", "link": LINK},
    ],
    "distances": {"0000:18:00.0": {"0000:1b:00.0": "PXB"}},
}


def test_the_ways_to_gpus_are_those_of_the_card_of_a_virtual_function() -> None:
    """perftest prints no PCI domain, so GPUs of two domains with one bus and device can't be told apart."""
    known = device_limits(FACTS, Choice("mlx5_2", 1, 3, None, "0000:18:00.2"))
    by_place = {place: way for place, way in known.gpus.items() if "." not in place}
    assert by_place == {"1b:00": NEAR, "9a:00": FAR}
    assert known.gpus["0001:01:00.0"] == FAR


def test_gpus_of_several_domains_are_told_apart_by_what_the_pod_has() -> None:
    """The GPUs of a GB200 are at 0008:01:00.0, 0009:01:00.0, 0018:01:00.0 and 0019:01:00.0."""
    known = Known(100, LINK, {"0008:01:00.0": NEAR, "0019:01:00.0": FAR})
    near = probe_text(ADDRESSES["a"], cuda="memory dmabuf", gpu="0008:01:00.0")
    for address, distance, threshold in (("0019:01:00.0", "SYS", 0.5), ("0008:01:00.0", "PXB", 0.85)):
        other = probe_text(ADDRESSES["b"], cuda="memory dmabuf", gpu=address)
        tests, _shell = proved(server="01:00", client="01:00", known=known, a=near, b=other)
        found = [(test["figures"]["distance"], test["figures"]["threshold"]) for test in tests]
        assert found == [(distance, threshold)] * 2


def test_a_nic_that_the_facts_do_not_place_has_no_ways() -> None:
    assert ways_of(FACTS, "0000:3b:00.0") == {}
    assert ways_of(None, "0000:18:00.0") == {}
    assert ways_of(FACTS, None) == {}


def test_a_gpu_of_a_pod_that_the_facts_do_not_have_has_no_way() -> None:
    near = GpuWay("PIX", None)
    assert ways_in_pod({"0000:1b:00.0": near}, ["0000:1b:00.0", "0001:1c:00.0"]) == {
        "0000:1b:00.0": near,
        "1b:00": near,
    }


def test_the_farthest_of_ways_is_known_where_all_are() -> None:
    assert farthest([NEAR, FAR]) == "SYS"
    assert farthest([GpuWay("PHB", None), GpuWay("C2C", None)]) == "PHB"
    assert farthest([NEAR, None]) is None


def test_pods_ask_for_a_gpu_beside_the_device_of_their_network() -> None:
    there = {RESOURCE: 63, GPU: 8}
    nodes = [node("n1", allocatable=there), node("n2", allocatable=there), node("n3")]
    plan = make_plan(options(gpu=GPU), around(nodes=nodes, hosts={each["name"]: None for each in nodes}))
    (planned,) = plan["networks"]
    assert (planned["resources"], planned["resource"]) == ([RESOURCE, GPU], f"{RESOURCE} and {GPU}")
    assert plan["left_out"] == [
        {"host": "n3", "network": "default/rail0", "why": f"the kubelet offers no {RESOURCE} and {GPU}"}
    ]
    assert "gpu_bandwidth" in plan["tests"]
    without = make_plan(options(), around())
    assert "gpu_bandwidth" not in without["tests"]


def test_a_resource_that_is_given_for_a_network_is_asked_for_once() -> None:
    there = {RESOURCE: 63, GPU: 8}
    nodes = [node("n1", allocatable=there), node("n2", allocatable=there)]
    plan = make_plan(options(gpu=GPU, resources={"rail0": [RESOURCE, GPU]}), around(nodes=nodes))
    assert plan["networks"][0]["resources"] == [RESOURCE, GPU]


def test_no_node_with_a_gpu_forbids_the_proof() -> None:
    with pytest.raises(InvalidInput, match=f"no node offers {RESOURCE} and {GPU}"):
        make_plan(options(gpu=GPU), around())


@pytest.mark.parametrize(
    ("resource", "image", "told"),
    [
        ("nvidia.com/gpu", "r/perftest:1", []),
        ("nvidia.com/mig-1g.10gb", "r/perftest:1", []),
        ("", "", []),
        ("nvidia.com/gpu", None, ["needs an image of the test pods: perftest of the usual one knows no GPU memory"]),
        ("gpu", "r/perftest:1", ["has no domain, so it belongs to no device"]),
        ("nvidia com/gpu", "r/perftest:1", ["has the prefix 'nvidia com', which is not a DNS name"]),
    ],
)
def test_what_gpu_memory_can_be_tested_with(resource: str, image: str | None, told: list[str]) -> None:
    assert [each.problem for each in gpu_problems(resource, image)] == told
