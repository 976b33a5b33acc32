# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What needs attention stands at the top of the page, in few lines, the worst first."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.plugin_utils._page.needs import MOST, needs_view
from ansible_collections.rdma.fabric.plugins.plugin_utils._page.page import render_page
from ansible_collections.rdma.fabric.tests.unit._proof.wire.sample_proof import document as proof_of
from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet
from ansible_collections.rdma.fabric.tests.unit._report.large_fleet import large_fleet
from ansible_collections.rdma.fabric.tests.unit._report.sample_fleet import report_of
from ansible_collections.rdma.fabric.tests.unit.plugin_utils.test_page import page_of


def lines(report: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    return [(need.tone, need.title, need.hosts) for need in needs_view(report)["entries"]]


def test_of_two_hundred_hosts_each_cause_is_one_line_with_its_hosts() -> None:
    found = lines(report_of(large_fleet(200)))
    assert [(tone, title, hosts[:2], len(hosts)) for tone, title, hosts in found] == [
        ("bad", "Not ready in the cluster", [], 0),
        ("bad", "On no node", [], 0),
        ("bad", "A rail has no link", ["gpu-0018", "gpu-0118"], 2),
        ("bad", "An InfiniBand port waits for a subnet manager", ["gpu-0102"], 1),
        ("bad", "A NIC's PCIe link runs below what NIC and slot can do", ["gpu-0043"], 1),
        ("bad", "Firmware differs from that of its siblings", ["gpu-0004", "gpu-0008"], 50),
        ("bad", "Link rate differs from that of its siblings", ["gpu-0064"], 1),
        ("bad", "MTU differs from that of its siblings", ["gpu-0089"], 1),
        ("bad", "Driver differs from that of its siblings", ["gpu-0143"], 1),
        ("bad", "Steps are refused", ["gpu-0156", "gpu-0181"], 2),
        ("warn", "A reboot is needed", ["gpu-0001", "gpu-0002"], 200),
    ]


def test_consents_are_named_by_their_variable() -> None:
    steps = [
        sample_fleet.step("vfs:a", "x", "needs_consent", consent="rdma_fabric_allow_vf_reset"),
        sample_fleet.step("vfs:b", "x", "needs_consent", consent="rdma_fabric_allow_vf_reset"),
        sample_fleet.step("driver:c", "x", "needs_consent", consent="rdma_fabric_allow_driver_reload"),
    ]
    hosts = [
        sample_fleet.document("a", sample_fleet.h100_facts("a"), steps),
        sample_fleet.document("b", sample_fleet.h100_facts("b"), steps[:1]),
    ]
    found = lines(report_of(hosts, cluster=None))
    assert found == [
        ("warn", "Steps wait for rdma_fabric_allow_vf_reset", ["a", "b"]),
        ("warn", "Steps wait for rdma_fabric_allow_driver_reload", ["a"]),
    ]


def test_a_push_that_failed_and_pairs_that_failed_come_first_with_who_is_at_fault() -> None:
    nodes = [f"dgx-{number:02d}" for number in range(1, 5)]
    proof = proof_of(nodes, bad=("dgx-03",))
    failed = {"failed": True, "msg": "no route to host"}
    report = report_of([], spec=None, cluster=failed, rendered=[], notices=[], validation=proof)
    assert lines(report)[:2] == [("bad", "The push failed", []), ("bad", "3 pairs failed on the wire", ["dgx-03"])]


def test_of_workloads_those_that_are_not_ready_and_those_on_no_node_are_named() -> None:
    needs = [need for need in needs_view(report_of())["entries"] if need.place == "cluster"]
    assert [(need.title, need.hosts, need.note) for need in needs] == [
        ("Not ready in the cluster", [], "whereabouts"),
        ("On no node", [], "rdma-shared-dp-ds"),
    ]


def test_where_nobody_is_suspected_both_sides_of_the_pairs_that_failed_are_named() -> None:
    report = report_of([], validation=proof_of(["a", "b", "c", "d"], bad=("c",)))
    (network,) = report["validation"]["networks"]
    network["accused"] = []
    for pair in network["pairs"]:
        pair["verdict"] = "fail" if {pair["a"], pair["b"]} == {"b", "c"} else "pass"
    (hosts,) = (need.hosts for need in needs_view(report)["entries"] if need.place == "proof")
    assert hosts == ["b", "c"]


def test_what_has_long_names_says_how_many_there_are() -> None:
    network, workload = (
        "a-team-of-people-with-a-long-name/network-of-the-",
        "a-workload-with-a-name-as-long-as-charts-make-",
    )
    unknown = [f"network {network}{rail}: master ens{rail}: no host has it; others are a, b" for rail in range(4)]
    waits = [
        {**sample_fleet.batch_result()["waits"][0], "name": f"{workload}{place}", "ready": False} for place in "abcd"
    ]
    report = report_of(cluster={**sample_fleet.batch_result(), "waits": waits}, unknown_interfaces=unknown)
    html = render_page(report)
    named = f"network {network}0: master ens0, network {network}1: master ens1 and 2 more"
    assert f"<span>{named}</span>" in html
    assert f"<span>{workload}a, {workload}b, {workload}c and 1 more</span>" in html


def test_where_nothing_needs_a_person_nothing_is_listed() -> None:
    hosts = [sample_fleet.document("a", sample_fleet.h100_facts("a"), [sample_fleet.step("mtu:a", "x")])]
    assert needs_view(report_of(hosts, cluster=None)) == {"entries": [], "more": []}
    assert 'class="needs"' not in page_of(hosts, cluster=None)


def test_what_does_not_fit_is_counted() -> None:
    steps = [
        sample_fleet.step(f"vfs:{place}", "x", "needs_consent", consent=f"rdma_fabric_allow_{place}")
        for place in range(MOST + 3)
    ]
    hosts = [sample_fleet.document("a", sample_fleet.h100_facts("a"), steps)]
    found = needs_view(report_of(hosts, cluster=None))
    assert (len(found["entries"]), len(found["more"])) == (MOST, 3)
    folded = page_of(hosts, cluster=None).partition("<summary>and 3 more</summary>")[2].partition("</details>")[0]
    assert f"rdma_fabric_allow_{MOST + 2}" in folded


def test_the_lines_stand_before_the_tiles_and_lead_to_their_sections() -> None:
    html = page_of(large_fleet(200))
    listed = html[html.index('<ul class="needs"') : html.index('<dl class="tiles">')]
    for place in ("remarks", "plans", "cluster"):
        assert f'<a href="#{place}">' in listed
    assert "gpu-0012</span></bdi> <details" in listed
    # What is folded has every name, and is printed in full.
    folded = listed.partition("<summary>and 47 more</summary>")[2].partition("</details>")[0]
    assert "gpu-0200" in folded
