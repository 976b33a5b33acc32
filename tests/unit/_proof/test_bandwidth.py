# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on measured bandwidths: the gates, the narrowest part of a way, and what cannot be judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.bandwidth import bandwidth_verdict, pcie_gbps
from ansible_collections.rdma.fabric.plugins.module_utils._proof.perftest import perftest_result
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput

RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "perftest" / "recorded"
GEN3_X16 = {"speed_gts": 8.0, "width": 16}
GEN4_X8 = {"speed_gts": 16.0, "width": 8}
GEN5_X16 = {"speed_gts": 32.0, "width": 16}


def measured(gbps: float | None, **changes: Any) -> dict[str, Any]:
    """A complete result of ib_write_bw with one row of 1 MiB."""
    summary = None if gbps is None else {"average_gbps": gbps, "largest_bytes": 1 << 20, "peak_gbps": gbps}
    return {
        "kind": "bandwidth",
        "bidirectional": False,
        "summary": summary,
        "complete": gbps is not None,
        "problems": [],
        "mtu": 4096,
        "qps": 4,
        "cuda": False,
        **changes,
    }


def recorded(name: str) -> dict[str, Any]:
    return perftest_result((RECORDED / f"{name}.txt").read_text(encoding="utf-8"))


def test_the_article_s_host_memory_passes_on_its_port_of_100() -> None:
    found = bandwidth_verdict(recorded("article-host-memory"), 100, pcie=GEN3_X16)
    assert found["verdict"] == "pass"
    assert found["measured_gbps"] == 97.645
    assert (found["expected_gbps"], found["limit"], found["threshold"]) == (100.0, "link", 0.9)
    assert found["ratio"] == 0.976
    assert found["hints"] == []
    assert found["reason"] == (
        "97.6 Gb/s measured, 100.0 Gb/s expected of a link of 100 Gb/s: 98% is at least the 90% required"
    )


def test_a_rate_of_software_is_told_in_a_unit_that_shows_it() -> None:
    found = bandwidth_verdict(measured(0.034), 2.5, emulated=True)
    assert found["reason"].startswith("34 Mb/s measured, 2.5 Gb/s expected")


@pytest.mark.parametrize(
    ("distance", "verdict", "threshold", "limit"),
    [
        ("PIX", "fail", 0.85, "link"),
        ("PXB", "fail", 0.85, "link"),
        ("C2C", "pass", 0.70, "link"),
        ("PHB", "pass", 0.70, "gpu path"),
        ("NODE", "pass", 0.60, "gpu path"),
        ("SYS", "pass", 0.50, "gpu path"),
        (None, "reported", None, "link"),
    ],
)
def test_the_article_s_gpu_memory_is_judged_by_the_way_between_gpu_and_nic(
    distance: str | None, verdict: str, threshold: float | None, limit: str
) -> None:
    found = bandwidth_verdict(recorded("article-gpu-memory"), 100, kind="gpu", distance=distance)
    assert (found["verdict"], found["threshold"], found["limit"]) == (verdict, threshold, limit)
    assert found["ratio"] == 0.821


def test_a_gpu_on_nvlink_c2c_is_not_judged_by_its_slot() -> None:
    slot = {"speed_gts": 32.0, "width": 1}
    found = bandwidth_verdict(measured(200.0), 400, kind="gpu", distance="C2C", gpu_pcie=slot)
    assert (found["verdict"], found["limit"], found["expected_gbps"]) == ("fail", "link", 400.0)
    assert any("iommu.passthrough=1" in hint for hint in found["hints"])
    assert not any("PCIe switch" in hint or "iommu=pt" in hint for hint in found["hints"]), "a Grace host has neither"


def test_a_gpu_at_an_unknown_distance_is_judged_where_every_distance_agrees() -> None:
    assert bandwidth_verdict(measured(86.0), 100, kind="gpu")["verdict"] == "pass"
    assert bandwidth_verdict(measured(85.0), 100, kind="gpu")["verdict"] == "pass"
    between = bandwidth_verdict(measured(84.0), 100, kind="gpu")
    assert between["verdict"] == "reported"
    assert "give the PCI distance" in between["reason"]
    assert bandwidth_verdict(measured(50.0), 100, kind="gpu")["verdict"] == "reported"
    assert bandwidth_verdict(measured(49.0), 100, kind="gpu")["verdict"] == "fail"


def test_memory_is_a_gpu_s_when_the_output_says_so() -> None:
    assert bandwidth_verdict(measured(87.0, cuda=True), 100, distance="PIX")["verdict"] == "pass"
    assert bandwidth_verdict(measured(87.0, cuda=False), 100, distance="PIX")["verdict"] == "fail"
    assert bandwidth_verdict(measured(87.0, cuda=True), 100, kind="host")["verdict"] == "fail"


@pytest.mark.parametrize(
    ("gbps", "link", "verdict"),
    [(90.0, 100, "pass"), (89.0, 100, "fail"), (360.0, 400, "pass"), (355.0, 400, "fail"), (23.0, 25, "pass")],
)
def test_nine_tenths_of_a_link_are_asked_for_between_host_memories(gbps: float, link: int, verdict: str) -> None:
    assert bandwidth_verdict(measured(gbps), link)["verdict"] == verdict


def test_pcie_is_the_limit_where_it_is_narrower_than_the_link() -> None:
    found = bandwidth_verdict(measured(98.0), 400, pcie=GEN4_X8)
    assert (found["verdict"], found["limit"]) == ("pass", "pcie")
    assert "PCIe at 16 GT/s x8 of the NIC" in found["reason"]
    slow = bandwidth_verdict(measured(60.0), 400, pcie=GEN4_X8)
    assert slow["verdict"] == "fail"
    assert any("the port could do 400 Gb/s" in hint for hint in slow["hints"])
    assert bandwidth_verdict(measured(380.0), 400, pcie=GEN5_X16)["limit"] == "link"
    assert bandwidth_verdict(measured(380.0), 400, pcie={"speed_gts": None, "width": None})["limit"] == "link"


@pytest.mark.parametrize(
    ("speed", "width", "low", "high"),
    [(8.0, 16, 105, 110), (16.0, 16, 200, 215), (16.0, 8, 100, 108), (32.0, 16, 419, 440), (64.0, 16, 840, 860)],
)
def test_a_slot_carries_what_is_measured_on_such_slots(speed: float, width: int, low: float, high: float) -> None:
    assert low <= pcie_gbps(speed, width) <= high


def test_the_gpu_s_own_slot_counts_for_gpu_memory_only() -> None:
    narrow = {"speed_gts": 8.0, "width": 8}
    found = bandwidth_verdict(measured(50.0), 100, kind="gpu", distance="PIX", gpu_pcie=narrow)
    assert (found["verdict"], found["limit"], found["expected_gbps"]) == ("pass", "gpu path", 52.8)
    assert bandwidth_verdict(measured(95.0), 100, kind="host", gpu_pcie=narrow)["limit"] == "link"


def test_both_directions_are_compared_with_twice_the_rate() -> None:
    found = bandwidth_verdict(measured(190.0, bidirectional=True), 100)
    assert (found["expected_gbps"], found["verdict"]) == (200.0, "pass")
    assert bandwidth_verdict(measured(97.0, bidirectional=True), 100)["verdict"] == "fail"
    of_json = bandwidth_verdict(measured(97.0, bidirectional=True, source="json"), 100)
    assert "--report-both has one direction alone" in of_json["hints"][0]


def test_a_rate_under_emulation_is_reported_and_a_failure_still_fails() -> None:
    found = bandwidth_verdict(measured(0.2), 100, emulated=True)
    assert (found["verdict"], found["threshold"], found["measured_gbps"]) == ("reported", None, 0.2)
    broken = perftest_result("Couldn't connect to 10.0.0.1:18515\n")
    failed = bandwidth_verdict(broken, 100, emulated=True)
    assert failed["verdict"] == "fail"
    assert "start the server side first" in failed["reason"]


def test_an_incomplete_output_fails_however_fast_it_was() -> None:
    cut_off = bandwidth_verdict(measured(99.0, complete=False), 100)
    assert (cut_off["verdict"], cut_off["reason"]) == ("fail", "the output is not complete")
    nothing = bandwidth_verdict(perftest_result(""), 100)
    assert nothing["reason"].startswith("nothing was measured: the output is empty (")


def test_without_a_link_rate_nothing_is_judged() -> None:
    found = bandwidth_verdict(measured(42.0))
    assert (found["verdict"], found["expected_gbps"], found["limit"], found["ratio"]) == ("reported", None, None, None)


def test_a_slot_that_is_known_in_part_is_no_limit() -> None:
    for link in ({"speed_gts": 2.5}, {"width": 1}, {"speed_gts": None, "width": 1}, {}):
        assert bandwidth_verdict(measured(98.0), 100, pcie=link)["limit"] == "link"


def test_a_bare_number_is_judged_though_it_does_not_say_of_which_messages_it_is() -> None:
    slow = bandwidth_verdict(perftest_result("12.000000", "gbps"), 100)
    assert (slow["verdict"], slow["measured_gbps"]) == ("fail", 12.0)
    assert bandwidth_verdict(perftest_result("98.000000", "gbps"), 100)["verdict"] == "pass"


def test_small_messages_can_pass_and_do_not_fail() -> None:
    small = {"average_gbps": 12.0, "largest_bytes": 512, "peak_gbps": 12.0}
    found = bandwidth_verdict(measured(12.0, summary=small), 100)
    assert found["verdict"] == "reported"
    assert "messages of 512 bytes" in found["reason"]
    assert bandwidth_verdict(measured(98.0, summary={**small, "average_gbps": 98.0}), 100)["verdict"] == "pass"


@pytest.mark.parametrize("distance", [None, "C2C", "SYS"])
def test_a_failing_rate_gets_no_hint_that_is_about_something_else(distance: str | None) -> None:
    near = bandwidth_verdict(measured(80.0, mtu=4096, qps=1), 100, kind="host", distance=distance)
    assert (near["verdict"], near["hints"]) == ("fail", [])
    half = bandwidth_verdict(measured(200.0, mtu=4096, qps=4), 400, kind="host", distance=distance)
    assert [hint.partition(":")[0] for hint in half["hints"]] == ["about half of the rate"]


def test_a_failing_rate_says_where_to_look() -> None:
    hints = bandwidth_verdict(measured(200.0, mtu=1024, qps=1), 400)["hints"]
    assert any("path MTU is 1024" in hint for hint in hints)
    assert any("-q 4" in hint for hint in hints)
    assert any("NUMA node" in hint for hint in hints)
    gpu = bandwidth_verdict(measured(20.0), 100, kind="gpu", distance="PIX")["hints"]
    assert any("ACS" in hint for hint in gpu)
    assert bandwidth_verdict(measured(55.0), 100, kind="gpu", distance="PIX")["hints"] == []
    far = bandwidth_verdict(measured(20.0), 100, kind="gpu", distance="SYS")["hints"]
    assert any("one rail" in hint for hint in far)


def test_a_threshold_of_one_s_own_replaces_every_gate() -> None:
    assert bandwidth_verdict(measured(92.0), 100, threshold=0.95)["verdict"] == "fail"
    assert bandwidth_verdict(measured(100.0), 100, threshold=1)["verdict"] == "pass"
    assert bandwidth_verdict(measured(70.0), 100, kind="gpu", threshold=0.6)["verdict"] == "pass"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"result": {}}, ["not a result of perftest"]),
        ({"result": measured(1.0, kind="latency")}, ["latency test"]),
        ({"link_gbps": "fast"}, ["link_gbps", "Gb/s"]),
        ({"link_gbps": 0}, ["link_gbps"]),
        ({"link_gbps": float("nan")}, ["link_gbps"]),
        ({"link_gbps": True}, ["link_gbps"]),
        ({"kind": "cpu"}, ["'cpu' is not a kind of memory", "gpu"]),
        ({"distance": "FAR"}, ["'FAR' is not a distance", "SYS"]),
        ({"threshold": 90}, ["threshold", "0.9"]),
        ({"threshold": 1.01}, ["threshold", "0.9"]),
        ({"pcie": "16.0 GT/s"}, ["pcie", "mapping"]),
        ({"pcie": {"speed_gts": 12.0, "width": 3}}, ["12.0 is not a PCIe speed", "3 is not a PCIe width"]),
        ({"gpu_pcie": {"speed_gts": 8.0, "width": True}}, ["gpu_pcie: width"]),
        ({"kind": "cpu", "link_gbps": -1, "distance": "x"}, ["kind", "link_gbps", "distance"]),
    ],
)
def test_wrong_arguments_are_refused_all_at_once(arguments: dict[str, Any], words: list[str]) -> None:
    result = arguments.pop("result", measured(90.0))
    link = arguments.pop("link_gbps", 100)
    with pytest.raises(InvalidInput) as caught:
        bandwidth_verdict(result, link, **arguments)
    for word in words:
        assert word in str(caught.value)
