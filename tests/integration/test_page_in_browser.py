# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page in a browser: what needs attention is seen without scrolling, and its script finds, filters and sorts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.integration.missing import do_without
from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet
from ansible_collections.rdma.fabric.tests.unit._report.large_fleet import large_fleet
from ansible_collections.rdma.fabric.tests.unit.plugin_utils.test_page import page_of
from tools.browser import BrowserError, Tab, browser, find_browser

DESK, PHONE = (1280, 800), (390, 844)
FIELD, CHOICE = "document.querySelector('#find input')", "document.querySelector('#find select')"
SEEN = "[...document.querySelectorAll('{}')].filter((each) => each.checkVisibility())"
HOSTS = f"{SEEN.format('table.fleet tbody tr')}.map((row) => row.querySelector('th bdi').textContent)"


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    try:
        program = find_browser(os.environ)
    except BrowserError as reason:
        do_without(str(reason))
    with browser(program) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Pages of 7, 200 and 1,000 hosts, by their number."""
    folder = tmp_path_factory.mktemp("pages")
    fleets = {7: sample_fleet.fleet(), 200: large_fleet(200), 1000: large_fleet(1000)}
    for size, fleet in fleets.items():
        (folder / f"{size}.html").write_text(page_of(fleet), encoding="utf-8")
    return {size: folder / f"{size}.html" for size in fleets}


@pytest.fixture
def fleet(tab: Tab, pages: dict[int, Path]) -> Tab:
    """The page of 200 hosts, opened anew."""
    tab.open(pages[200], *DESK)
    return tab


def show(tab: Tab, folder: Path, documents: list[dict[str, Any]], **parts: Any) -> None:
    """Open the page of a fleet."""
    page = folder / "page.html"
    page.write_text(page_of(documents, **parts), encoding="utf-8")
    tab.open(page, *DESK)


def find(tab: Tab, text: str) -> None:
    """Replace what is in the field as somebody does who types."""
    tab.value(f"{FIELD}.focus(), {FIELD}.select()")
    tab.type_text(text)


def choose(tab: Tab, state: str) -> None:
    tab.value(f"{CHOICE}.value = {json.dumps(state)}, {CHOICE}.dispatchEvent(new Event('change'))")


def told(tab: Tab) -> Any:
    return tab.value("document.querySelector('#find [role=status]').textContent")


def count(tab: Tab, selector: str) -> Any:
    return tab.value(f"{SEEN.format(selector)}.length")


def test_what_needs_a_person_is_seen_without_scrolling(tab: Tab, pages: dict[int, Path]) -> None:
    for size, page in pages.items():
        for width, height in (DESK, PHONE):
            for dark in (False, True):
                tab.open(page, width, height, dark=dark)
                end = tab.value("document.querySelector('.needs').getBoundingClientRect().bottom")
                assert 0 < end <= height, (size, width, dark)
                assert tab.value("document.documentElement.scrollWidth") == width, (size, width, dark)
    assert tab.messages == []


def test_a_host_is_found_in_the_row_that_it_shares_with_others(fleet: Tab) -> None:
    everything = count(fleet, "[data-hosts]")
    find(fleet, "gpu-0030")
    assert told(fleet) == "1 of 200 hosts"
    (row,) = fleet.value(HOSTS)
    assert row.startswith("gpu-[0001:0003]")
    assert count(fleet, "table.grid tbody tr[data-hosts]") == 1
    assert count(fleet, ".remarks > li") == 0
    fleet.value(f"{FIELD}.value = '', {FIELD}.dispatchEvent(new Event('input'))")
    assert (told(fleet), count(fleet, "[data-hosts]")) == ("", everything)


def test_what_is_folded_opens_when_something_in_it_is_found_and_closes_again(tab: Tab, tmp_path: Path) -> None:
    documents = large_fleet(200)
    for place, document in enumerate(documents):
        document["facts"]["system"]["kernel"] = f"5.15.0-{place}-nvidia"
    show(tab, tmp_path, documents)
    unfolded = len(tab.value(HOSTS))
    assert unfolded == 60
    find(tab, "gpu-0199")
    assert tab.value(HOSTS) == ["gpu-0199"]
    find(tab, "5.15.0-150-nvidia")
    assert tab.value(HOSTS) == ["gpu-0151"]
    find(tab, "no such host")
    assert (told(tab), count(tab, "[data-hosts]")) == ("0 of 200 hosts", 0)
    tab.value(f"{FIELD}.value = '', {FIELD}.dispatchEvent(new Event('input'))")
    assert len(tab.value(HOSTS)) == unfolded


def test_several_words_find_the_hosts_of_each(fleet: Tab) -> None:
    find(fleet, "gpu-0018, gpu-0143")
    assert (told(fleet), fleet.value(HOSTS)) == ("2 of 200 hosts", ["gpu-0018", "gpu-0143"])
    titles = fleet.value(f"{SEEN.format('.remarks.attention h3')}.map((each) => each.textContent)")
    assert titles == ["A rail has no link", "Driver differs from that of its siblings"]


def test_only_hosts_of_one_state_are_shown(fleet: Tab) -> None:
    choose(fleet, "refused")
    assert (told(fleet), fleet.value(HOSTS)) == ("2 of 200 hosts", ["gpu-0156", "gpu-0181"])
    find(fleet, "gpu-0181")
    assert fleet.value(HOSTS) == ["gpu-0181"]
    assert count(fleet, "#plans details") == 1


def test_a_host_that_was_not_read_is_found_by_its_remark(tab: Tab, tmp_path: Path) -> None:
    documents = large_fleet(3)
    spec = sample_fleet.spec([*(document["host"] for document in documents), "gpu-lost"])
    show(tab, tmp_path, documents, spec=spec)
    find(tab, "lost")
    assert told(tab) == "1 of 4 hosts"
    assert tab.value(f"{SEEN.format('.remarks h3')}.map((each) => each.textContent)") == [
        "A host of the inventory was not read"
    ]


def test_columns_are_sorted_with_the_keyboard_and_back(fleet: Tab) -> None:
    before = fleet.value(HOSTS)
    fleet.value("document.querySelector('table.fleet th button').focus()")
    orders = []
    for _press in range(3):
        fleet.press("Enter")
        orders.append((fleet.value("document.querySelector('table.fleet th').ariaSort"), fleet.value(HOSTS)))
    assert [order for order, _hosts in orders] == ["ascending", "descending", "none"]
    assert orders[0][1][0].startswith("gpu-[0001:0003]")
    assert orders[1][1] == orders[0][1][::-1]
    assert orders[2][1] == before


def test_a_sorted_fleet_fills_the_unfolded_table_first(tab: Tab, tmp_path: Path) -> None:
    documents = large_fleet(200)
    for place, document in enumerate(documents):
        document["facts"]["system"]["kernel"] = f"5.15.0-{1000 - place}-nvidia"
    show(tab, tmp_path, documents)
    tab.value("document.querySelectorAll('table.fleet th button')[1].click()")
    assert tab.value(HOSTS) == [f"gpu-{place:04}" for place in range(200, 140, -1)]


def test_the_field_is_reached_by_keyboard_and_has_a_name(fleet: Tab) -> None:
    fleet.value("document.querySelector('nav a:last-child').focus()")
    fleet.press("Tab")
    assert fleet.value(f"document.activeElement === {FIELD}") is True
    assert fleet.value(f"{FIELD}.labels[0].textContent.trim()") == "Find"
    fleet.press("Tab")
    assert fleet.value(f"document.activeElement === {CHOICE}") is True


def test_paper_shows_no_control_and_every_plan(tab: Tab, pages: dict[int, Path]) -> None:
    tab.open(pages[200], *DESK, printed=True)
    assert count(tab, "#find") == 0
    assert count(tab, "table.fleet") == 1
    plans = tab.value("document.querySelectorAll('#plans details').length")
    assert count(tab, "#plans table") == plans > 1
