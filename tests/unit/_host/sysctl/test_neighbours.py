# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of neighbours that a large flat fabric fills."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.neighbours import parse_statistics
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import interface
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.system_hosts import CHECK_REMOVAL, host, previewed

HEAD = (
    "entries  allocs   destroys hash_grows lookups  hits     res_failed rcv_probes_mcast rcv_probes_ucast "
    "periodic_gc_runs forced_gc_runs unresolved_discards table_fulls\n"
)
RAILS = [interface(pci="0000:37:00.0")]
ASKED = "net.ipv4.neigh.default.gc_thresh3"


def row(entries: int, fulls: int) -> str:
    return f"{entries:08x} " + "00000000 " * 11 + f"{fulls:08x}\n"


def with_table(entries: int, *fulls: int, soft: int = 512, hard: int = 1024, family: str = "ipv4") -> Kernel:
    """A host with RDMA whose table has these entries; ``fulls`` are those of each processor."""
    kernel = host()
    name = {"ipv4": "arp_cache", "ipv6": "ndisc_cache"}[family]
    kernel.tree.add_file(f"/proc/net/stat/{name}", HEAD + "".join(row(entries, count) for count in fulls))
    for number, value in ((2, soft), (3, hard)):
        kernel.tree.add_file(f"/proc/sys/net/{family}/neigh/default/gc_thresh{number}", f"{value}\n")
    return kernel


def notices(kernel: Kernel, run: Any = None, **variables: Any) -> list[str]:
    wish = {"interfaces": RAILS, **variables} if run is None else {}
    told = previewed(kernel, **wish) if run is None else previewed(kernel, run=run)
    return [text for text in told["plan"]["notices"] if "neighbours holds" in text]


def test_a_table_that_drops_entries_is_named_with_what_makes_it_larger() -> None:
    (said,) = notices(with_table(600, 0, 0))
    assert said.startswith(f"the table of IPv4 neighbours holds 600 of at most 1024 entries ({ASKED}): without room")
    assert "next: raise net.ipv4.neigh.default.gc_thresh1 to 3 with rdma_fabric_sysctls" in said


def test_how_often_it_was_full_is_the_sum_of_the_processors() -> None:
    (said,) = notices(with_table(1024, 16, 21))
    assert "and was full 37 times since the boot" in said


def test_one_that_was_full_before_its_entries_went_is_named_too() -> None:
    (said,) = notices(with_table(40, 3, family="ipv6"))
    assert "IPv6 neighbours holds 40" in said and "net.ipv6.neigh.default.gc_thresh3" in said


@pytest.mark.parametrize(
    ("kernel", "wish"),
    [
        (with_table(511, 0), {}),
        (with_table(600, 37, soft=4096, hard=8192), {}),
        (with_table(1024, 37), {"sysctls": {ASKED: 8192}}),
        (with_table(1024, 37), {"interfaces": []}),
    ],
    ids=["large enough", "made larger since", "asked for", "no interface of ours"],
)
def test_others_are_not(kernel: Kernel, wish: dict[str, Any]) -> None:
    assert notices(kernel, **wish) == []


def test_what_asks_for_no_more_than_there_is_does_not_help() -> None:
    assert notices(with_table(1024, 37), sysctls={ASKED: 1024})


def test_a_removal_says_nothing() -> None:
    assert notices(with_table(1024, 37), run=CHECK_REMOVAL) == []


@pytest.mark.parametrize("text", ["", "entries\n", HEAD, "entries  allocs\n00000001 00000001\n", HEAD + "zz\n"])
def test_any_text_of_the_kernel_can_be_parsed(text: str) -> None:
    assert parse_statistics(text) in (None, (0, 0))
