# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every host can be found on the page by its name, also one that shares a row; and the page stays small."""

from __future__ import annotations

import re
from functools import lru_cache
from types import FrameType
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._page.page import MAX_BYTES
from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet
from ansible_collections.rdma.fabric.tests.unit._report.large_fleet import large_fleet
from ansible_collections.rdma.fabric.tests.unit.plugin_utils.test_page import HOSTILE, Page, page_of
from ansible_collections.rdma.fabric.tests.unit.profiled import profiled

RANGE = re.compile(r"(.*)\[(\d+):(\d+)\](.*)")
# What one more host may add to the page when it is like no other, in bytes and elements.
MOST_BYTES, MOST_ELEMENTS = 1500, 60


def unfolded(folds: str) -> list[str]:
    names = []
    for fold in folds.split(","):
        match = RANGE.fullmatch(fold)
        if match is None:
            names.append(fold)
            continue
        before, first, last, after = match.groups()
        names += [f"{before}{number:0{len(first)}}{after}" for number in range(int(first), int(last) + 1)]
    return names


def found_in(page: Page, tag: str) -> list[str]:
    return [
        name for each, attrs in page.elements if each == tag for name in unfolded(attrs.get("data-hosts") or "") if name
    ]


@lru_cache(maxsize=1)
def page_of_two_hundred() -> tuple[str, Page]:
    """Return the page of hosts that are alike, and what is on it."""
    html = page_of(large_fleet(200))
    return html, Page(html)


def test_every_host_is_named_once_in_fleet_and_rails_and_in_the_plans_that_it_has() -> None:
    everyone = [document["host"] for document in large_fleet(200)]
    _html, page = page_of_two_hundred()
    assert sorted(found_in(page, "tr")) == sorted(everyone * 2)  # the fleet and the rails
    assert sorted(found_in(page, "details")) == everyone
    assert sorted(found_in(page, "figure")) == everyone
    assert set(found_in(page, "li")) >= {"gpu-0018", "gpu-0102", "gpu-0043"}


def test_a_host_without_a_row_is_found_by_its_remark() -> None:
    documents = large_fleet(3)
    spec = sample_fleet.spec([*(document["host"] for document in documents), "gpu-lost"])
    assert "gpu-lost" in found_in(Page(page_of(documents, spec=spec)), "li")


def test_the_choice_offers_the_states_that_there_are() -> None:
    def offered(page: Page) -> list[str | None]:
        return [attrs["value"] for tag, attrs in page.elements if tag == "option"]

    _html, page = page_of_two_hundred()
    settled = Page(page_of([sample_fleet.document("a", sample_fleet.h100_facts("a"), [])]))
    assert offered(page) == ["", "attention", "refused", "needs_reboot", "steps"]
    assert offered(settled) == ["", "settled"]


def test_without_a_script_everything_is_shown_and_no_control_is() -> None:
    _html, page = page_of_two_hundred()
    hidden = [attrs.get("id") for _tag, attrs in page.elements if "hidden" in attrs]
    assert hidden == ["find"]
    assert page.count("button") == 0


def test_a_name_of_a_stranger_is_one_name() -> None:
    documents = [sample_fleet.document(f"{HOSTILE},{HOSTILE}", sample_fleet.h100_facts("h"), [])]
    page = Page(page_of(documents))
    assert (page.unbalanced, page.open) == ([], [])
    assert page.count("script") == 1


def all_different(size: int) -> list[dict[str, Any]]:
    documents = large_fleet(size)
    for place, document in enumerate(documents):
        document["facts"]["system"]["kernel"] = f"5.15.0-{place}-nvidia"
        document["facts"]["netdevs"][place % 8]["mtu"] = 1500 + place
        document["plan"]["steps"][0]["target"] = f"module-{place}"
    return documents


@pytest.mark.slow
def test_what_a_further_host_adds_is_bounded_also_when_no_two_are_alike() -> None:
    few, many = page_of(all_different(200)), page_of(all_different(1000))
    assert len(many.encode()) < MAX_BYTES <= 4 * 1024 * 1024
    assert (len(many.encode()) - len(few.encode())) / 800 <= MOST_BYTES
    elements = len(Page(many).elements)
    assert (elements - len(Page(few).elements)) / 800 <= MOST_ELEMENTS
    assert elements <= 60_000


@pytest.mark.slow
def test_of_hosts_that_are_alike_a_thousand_take_little_more_than_two_hundred() -> None:
    (few, page), many = page_of_two_hundred(), page_of(large_fleet(1000))
    assert len(many.encode()) <= 1.2 * len(few.encode())
    assert len(Page(many).elements) <= 1.1 * len(page.elements)


def test_a_name_is_taken_apart_once_however_often_hosts_are_sorted() -> None:
    names: list[str] = []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_name == "natural_key":
            names.append(frame.f_locals["name"])

    with profiled(note):
        page_of(large_fleet(30))
    assert sorted(names) == sorted(set(names))
