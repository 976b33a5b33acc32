# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The grid of hosts and rails: the odd rail is seen at once, said in words, and equal hosts share a row."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.rdma.fabric.plugins.plugin_utils._page.rails import rails_view
from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet
from ansible_collections.rdma.fabric.tests.unit._report.large_fleet import large_fleet
from ansible_collections.rdma.fabric.tests.unit._report.sample_fleet import report_of
from ansible_collections.rdma.fabric.tests.unit.plugin_utils.test_page import page_of


def view(hosts: list[dict[str, Any]], most: int = 100, unfolded: int = 40) -> dict[str, Any]:
    report = report_of(hosts)
    found = rails_view(report["hosts"], report["remarks"], most, unfolded)
    assert found is not None
    return found


def host(name: str, **changes: Any) -> dict[str, Any]:
    facts = sample_fleet.h100_facts(name)
    for port in changes.pop("ports", []):
        facts["rdma"][port[0]]["ports"][0].update(port[1])
    return sample_fleet.document(name, {**facts, **changes}, [])


def test_of_two_hundred_hosts_the_six_with_an_odd_rail_have_rows_of_their_own_before_the_rest() -> None:
    found = view(large_fleet(200))
    assert [(row["hosts"], row["told"]) for row in found["open"][:-1]] == [
        (["gpu-0018"], ["rail 3: no link"]),
        (["gpu-0043"], ["rail 2: PCIe 32 GT/s x8 of 32 GT/s x16"]),
        (["gpu-0064"], ["rail 5: 200 Gb/s, elsewhere 400 Gb/s"]),
        (["gpu-0089"], ["rail 4: MTU 2044, elsewhere MTU 4092"]),
        (["gpu-0102"], ["rail 7: waits for a subnet manager"]),
        (["gpu-0118"], ["rail 7: no link"]),
    ]
    states = [[state for state, _words in row["cells"]] for row in found["open"]]
    assert states[:3] == [
        ["up", "up", "up", "down", "up", "up", "up", "up"],
        ["up", "up", "odd", "up", "up", "up", "up", "up"],
        ["up", "up", "up", "up", "up", "odd", "up", "up"],
    ]
    assert len(found["open"][-1]["hosts"]) == 194
    assert states[-1] == ["up"] * 8


def test_the_legend_has_the_states_that_are_seen_and_hosts_are_in_their_order_by_number() -> None:
    fine = [host(f"gpu-{number}") for number in (10, 9, 8)]
    found = view([*fine, host("gpu-11", ports=[(0, {"state": "DOWN"})])])
    assert found["legend"] == [("down", "no link"), ("up", "up")]
    assert [row["hosts"] for row in found["open"]] == [["gpu-11"], ["gpu-8", "gpu-9", "gpu-10"]]


def test_after_faults_come_links_that_are_not_known_and_rails_of_a_host_are_named_in_their_order() -> None:
    links = {"a": ("up", "up"), "b": ("unknown", "up"), "c": ("down", "down")}
    hosts = [
        {"name": name, "rails": [{"rail": rail, "nic": f"{name}{rail}", "link": found[rail]} for rail in (1, 0)]}
        for name, found in links.items()
    ]
    found = rails_view(hosts, [], 100, 40)
    assert found is not None
    assert [(row["hosts"], row["told"]) for row in found["open"]] == [
        (["c"], ["rails 0, 1: no link"]),
        (["b"], ["rail 0: link unknown"]),
        (["a"], []),
    ]
    assert found["lame"] == [1, 1], "what is not known is no fault"


def test_faults_are_counted_by_rail_as_a_leaf_switch_would_have_them() -> None:
    hosts = [host(f"h{place}", ports=[(0, {"state": "DOWN"})]) for place in range(5)] + [host("well")]
    found = view(hosts)
    assert found["lame"] == [5, 0, 0, 0, 0, 0, 0, 0]
    assert [(row["hosts"], row["told"]) for row in found["open"]] == [
        (["h0", "h1", "h2", "h3", "h4"], ["rail 0: no link"]),
        (["well"], []),
    ]


def test_rails_of_which_the_same_is_said_are_said_together() -> None:
    down = {"state": "DOWN"}
    everything = host("all", ports=[(place, down) for place in range(8)])
    two = host("two", ports=[(0, down), (6, down)])
    assert [row["told"] for row in view([everything, two])["open"]] == [
        ["rails 0 to 7: no link"],
        ["rails 0, 6: no link"],
    ]


def test_a_rail_that_a_host_does_not_have_is_no_fault() -> None:
    narrow = sample_fleet.h100_facts("half")
    narrow["rails"] = narrow["rails"][:4]
    found = view(
        [
            sample_fleet.document("half", narrow, []),
            host("full"),
            sample_fleet.document("plain", sample_fleet.plain_facts("p"), []),
        ]
    )
    assert found["hosts"] == 2
    assert found["lame"] == [0] * 8
    cells = {row["hosts"][0]: [state for state, _words in row["cells"]] for row in found["open"]}
    assert cells == {"full": ["up"] * 8, "half": ["up"] * 4 + ["none"] * 4}


def test_of_a_rail_with_two_nics_the_worse_one_counts() -> None:
    facts = sample_fleet.h100_facts("h")
    facts["rails"] = [{**facts["rails"][place], "rail": 0} for place in (0, 1)]
    sample_fleet.port_down(facts, facts["rails"][0]["nic"])
    assert view([sample_fleet.document("h", facts, [])])["open"][0]["cells"] == [("down", "no link")]


def test_a_link_that_is_not_known_is_neither_well_nor_a_fault() -> None:
    facts = sample_fleet.h100_facts("h")
    address = facts["rails"][0]["nic"]
    facts["rdma"] = [device for device in facts["rdma"] if device["pci"] != address]
    facts["netdevs"] = [netdev for netdev in facts["netdevs"] if netdev["pci"] != address]
    found = view([sample_fleet.document("h", facts, [])])
    assert found["lame"][0] == 0
    assert found["open"][0]["told"] == ["rail 0: link unknown"]


def test_rows_beyond_the_limits_are_folded_and_counted() -> None:
    hosts = [
        host(f"h{place:03}", ports=[(0, {"state": "DOWN"}), (3, {"rate_gbps": 400 + place})]) for place in range(60)
    ]
    found = view(hosts, most=50, unfolded=40)
    assert (len(found["open"]), len(found["folded"]), found["more_folded"], found["more"]) == (40, 10, 10, 10)


def test_without_a_rail_there_is_no_grid() -> None:
    plain = [sample_fleet.document("p", sample_fleet.plain_facts("p"), [])]
    report = report_of(plain)
    assert rails_view(report["hosts"], report["remarks"], 9, 9) is None
    assert 'id="rails"' not in page_of(plain)


def test_every_cell_has_its_state_in_words_and_every_rail_its_column_head() -> None:
    html = page_of(large_fleet(200))
    grid = html[html.index('<table class="grid">') : html.index("</table>", html.index('<table class="grid">'))]
    assert re.findall(r'<th scope="col"><i>rail </i>(\d+)</th>', grid) == [str(rail) for rail in range(8)]
    cells = re.findall(r'<td class="(\w+)"><i>([^<]+)</i></td>', grid)
    assert set(cells) == {
        ("up", "up"),
        ("down", "no link"),
        ("init", "waits for a subnet manager"),
        ("odd", "has a remark"),
    }
    assert len(cells) == 7 * 8
