# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page shows of a rollout: lanes that are to scale, what failed first, and a thousand hosts on one page."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._report.rollout import rollout_section
from ansible_collections.rdma.fabric.plugins.plugin_utils._page.page import MAX_BYTES
from ansible_collections.rdma.fabric.plugins.plugin_utils._page.rollout import WIDTH, rollout_view
from ansible_collections.rdma.fabric.tests.unit._report.turns import NEW, OLD, turn
from ansible_collections.rdma.fabric.tests.unit.plugin_utils.test_page import HOSTILE, Page, hostile, page_of


def view(*turns: dict[str, Any], most: int = 1000) -> dict[str, Any]:
    found = rollout_view(rollout_section(turns), most)
    assert found is not None
    return found


def test_bars_are_to_scale_and_end_with_the_rollout() -> None:
    first, second = view(turn("a"), turn("b", 490.0, waited=490.0))["lanes"]
    assert [stretch["stage"] for stretch in first["bars"]] == ["drain", "change", "reboot", "verify", "give_back"]
    assert first["bars"][1]["width"] == round(190 / 980 * WIDTH, 1)
    assert second["bars"][0] == {"stage": "wait", "x": 0.0, "width": 500.0}
    assert all(stretch["x"] + stretch["width"] <= WIDTH + 0.1 for stretch in (*first["bars"], *second["bars"]))


def test_many_hosts_are_lanes_of_their_slots() -> None:
    turns = [turn(f"h{at}", 500.0 * (at // 3), slot=f"rdma-fabric-slot-upgrade-{at % 3}") for at in range(60)]
    found = view(*turns)
    assert [(lane["name"], lane["note"]) for lane in found["lanes"]] == [
        (f"slot {number}", "20 hosts") for number in range(3)
    ]
    # Of an hour and more, what takes seconds can't be seen.
    assert {stretch["stage"] for stretch in found["lanes"][0]["bars"]} >= {"change", "reboot"}


def test_what_failed_stands_first_and_equal_turns_in_one_row() -> None:
    broken = turn("c", end="failed", reason="no links", after=OLD)
    broken["stages"][1]["failed"] = True
    open_end = turn("d", end="", seconds=None, stages=[{**turn("d")["stages"][0], "seconds": None}])
    found = view(turn("a"), turn("b"), broken, open_end)
    assert [row["hosts"] for row in found["rows"]] == [["c"], ["d"], ["a", "b"]]
    assert found["rows"][0]["told"] == ["no links"]
    assert found["rows"][1]["times"]["drain"] == "not ended"
    assert found["rows"][2]["told"] == [
        "driver mlnx-ofed 24.07 \u2192 doca-ofed 25.04",
        "kernel 5.15.0-100 \u2192 5.15.0-119",
        "firmware 28.39.1002 \u2192 28.43.1014",
    ]
    assert "failed" in [stretch["stage"] for stretch in found["lanes"][2]["bars"]]
    assert found["counts"] == [("given_back", "returned to service", 2), ("failed", "failed", 1), ("", "not ended", 1)]


def test_who_was_in_the_way_is_named_a_few_of_them() -> None:
    refusals = [{"pod": f"ns/p{at}", "why": "the budget b", "seconds": 70.0 - at} for at in range(5)]
    (row,) = view(turn("a", refusals=refusals, after=OLD))["rows"]
    assert row["told"][0] == "ns/p0 refused for 1 min 10 s: the budget b"
    assert row["told"][-1] == "and 2 more pods"
    assert len(row["told"]) == 4


def test_the_page_has_the_rollout_in_words_and_a_legend_and_is_whole() -> None:
    html = page_of(turns=[turn("gpu-01"), turn("gpu-02", 30.0, domain="rack=r1")])
    page = Page(html)
    assert (page.unbalanced, page.open) == ([], [])
    for words in ("Rollout", "rebooted", "returned to service", "slot 0, rack=r1, 8 min 10 s", "4 min"):
        assert words in page.text
    labels = [
        attributes["aria-label"] for tag, attributes in page.elements if tag == "svg" and "aria-label" in attributes
    ]
    assert "gpu-01 returned to service after 8 min 10 s" in labels
    assert "#rollout" in html
    assert "Rollout" not in Page(page_of()).text


def test_hostile_words_of_a_turn_stay_text() -> None:
    evil = {**turn("a"), "host": HOSTILE, "reason": HOSTILE, "end": "failed", "before": hostile(OLD), "after": NEW}
    page = Page(page_of(turns=[evil]))
    assert (page.unbalanced, page.open) == ([], [])
    assert page.count("script") == len(page.scripts) == 1


def test_a_thousand_hosts_that_differ_fit() -> None:
    turns = [
        turn(
            f"gpu-{at:04}",
            10.0 * at,
            scale=0.5 + at / 900,
            slot=f"rdma-fabric-slot-upgrade-{at % 50}",
            reason="x" * 400,
        )
        for at in range(1000)
    ]
    assert len(page_of(turns=turns).encode()) < MAX_BYTES
