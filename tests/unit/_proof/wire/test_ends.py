# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hunt tells of each end, of counters, and since another run; and the page of it, of up to 1,000 nodes."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.ends import worse_lines, worse_since
from ansible_collections.rdma.fabric.plugins.plugin_utils._page.page import MAX_BYTES, render_page
from ansible_collections.rdma.fabric.tests.unit._proof.faulty_fabric import Fault
from ansible_collections.rdma.fabric.tests.unit._proof.wire.large_proof import DEAD, SLOW, large_proof
from ansible_collections.rdma.fabric.tests.unit._proof.wire.sample_proof import document
from ansible_collections.rdma.fabric.tests.unit._proof.wire.test_document import report_of

Json = dict[str, Any]


@pytest.fixture(scope="module")
def hunted() -> Json:
    """A hunt over 200 nodes with known leaves."""
    return large_proof(200, leaf=32)


def pod(proof: Json, rail: int, node: str) -> Json:
    """What a document tells of an end."""
    pods: list[Json] = proof["networks"][rail]["pods"]
    (found,) = [each for each in pods if each["node"] == node]
    return found


def test_an_end_is_told_by_the_best_of_its_pairs_so_that_a_bad_partner_is_not_its_fault(hunted: Json) -> None:
    slow = pod(hunted, 5, f"gpu-{SLOW % 200 + 1:04d}")
    assert (slow["failed"], slow["share"] < 0.45) == (slow["pairs"], True)
    partners = {node for row in hunted["pairs"] if row["verdict"] == "fail" for node in (row["a"], row["b"])}
    dead = f"gpu-{DEAD % 200 + 1:04d}"
    for node in partners - {slow["node"], dead}:
        assert pod(hunted, 5, node)["share"] > 0.9
    cut = pod(hunted, 3, dead)
    assert (cut["failed"], cut["share"], cut["sends_gbps"]) == (cut["pairs"], None, None)


def test_rates_of_emulated_devices_are_told_and_no_share_is() -> None:
    for each in document(["a", "b"], soft=True)["networks"][0]["pods"]:
        assert (each["sends_gbps"], each["share"], each["failed"]) == (0.42, None, 0)


def test_counters_are_told_by_what_they_mean_lost_packets_first(hunted: Json) -> None:
    proof = copy.deepcopy(hunted)
    assert [(each["kind"], each["counters"], each["nodes"]) for each in proof["networks"][0]["counters"]] == [
        ("sign", ["symbol_error"], 3),
        ("load", ["np_cnp_sent"], 3),
    ]
    assert proof["networks"][0]["counters"][1]["total"] == 120


def test_the_same_run_is_not_worse_than_itself(hunted: Json) -> None:
    assert worse_since(hunted["networks"], hunted["networks"]) == []


def test_what_got_worse_is_named_by_end_with_both_rates() -> None:
    former, now = large_proof(16, rails=6, faults=[Fault("end", ("rail2", 4), 0.4)]), large_proof(16, rails=6)
    found = worse_since(now["networks"], former["networks"])
    # The slow one of before is well; rail 3 lost one, and one of rail 5 is slow.
    assert [(each["network"], each["node"]) for each in found] == [
        ("default/rail3", "gpu-0008"),
        ("default/rail5", "gpu-0013"),
    ]
    dead, slow = worse_lines({"worse": found, "since": {"run": "5f0c"}})
    assert re.match(
        r"worse than in 5f0c: gpu-0008 on default/rail3: .* fails: .*sends nothing, \d+(\.\d)? Gb/s before", dead
    )
    assert re.search(r"is slow: .*; sends 1\d\d(\.\d)? Gb/s, [34]\d\d(\.\d)? before", slow)


def test_a_node_that_one_of_both_runs_did_not_test_is_no_comparison() -> None:
    former, now = large_proof(8, rails=1, faults=[]), large_proof(8, rails=1, faults=[])
    for each in now["networks"][0]["pods"][:1]:
        each.update(pairs=0, failed=0, sends_gbps=None, receives_gbps=None, share=None)
    del former["networks"][0]["pods"][1]
    assert worse_since(now["networks"], former["networks"]) == []
    assert worse_since(now["networks"], []) == []


def test_many_that_are_worse_are_counted() -> None:
    rows = [{"network": "default/rail0", "node": f"n{number}", "says": "sends nothing"} for number in range(30)]
    assert worse_lines({"worse": rows, "since": {"run": "x"}})[-1] == "and 10 more that are worse, in verify.json"


@pytest.mark.parametrize(("nodes", "leaf"), [(200, 32), (1000, 0)])
def test_the_page_of_many_nodes_has_a_square_for_each_and_the_culprit_first(nodes: int, leaf: int) -> None:
    proof = large_proof(nodes, leaf=leaf)
    html = render_page(report_of(proof))
    assert len(html.encode()) < MAX_BYTES
    section = html[html.index('<section id="proof">') :].partition("</section>")[0]
    assert section.count("<i class=") == 8 * nodes + 8, "the legend has eight"
    first = section[section.index('class="heat"') :]
    dead = f"gpu-{DEAD % nodes + 1:04d}"
    assert 0 < first.index(f'<i class="h4 at" title="{dead}: all ') < first.index("<p title=")
    assert section.index("Who is at fault") < section.index(f"cable of {dead}") < section.index('class="heat"')
    assert re.findall(r"<h3>rail (\d)", section)[:2] == ["3", "5"]
    assert ("<bdi>leaf-03</bdi>" in first) == bool(leaf)
    assert "gpu-0071 to gpu-0080" in first or leaf
    # Every pair that failed is drawn, and of a network where none did only a few.
    assert section.count('<span class="chip fail">fail</span></figcaption>') == proof["counts"]["fail"]


def test_the_page_of_a_document_without_the_pairs_that_passed_counts_them_and_can_be_signed(hunted: Json) -> None:
    failed = [row for row in hunted["pairs"] if row["verdict"] == "fail"]
    brief = {**hunted, "pairs": failed, "brief": True, "level": "full"}
    pages = [render_page(report_of(each)) for each in (hunted, brief)]
    chips = [re.findall(r'<span class="chip (fail|pass)">(\d+) ', html) for html in pages]
    assert chips[0] == chips[1] != []
    assert [html.count("<h3>Acceptance, full</h3>") for html in pages] == [0, 1]
