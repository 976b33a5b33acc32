# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab puts in the place of something real, and why: said wherever the lab is used to prove something."""

from __future__ import annotations

from typing import NamedTuple


class StandIn(NamedTuple):
    """One stand-in: its name, what it takes the place of, and why the real thing is not there."""

    name: str
    replaces: str
    why: str


STAND_INS = (
    StandIn("igb emulated by QEMU", "a ConnectX card", "SR-IOV, virtual functions and drivers are the kernel's own"),
    StandIn("rxe (soft RDMA)", "the card's RDMA engine", "the kernel's own verbs; rates say nothing"),
    StandIn("rdma-overlay", "infiniband/ below the card's PCI device, in containers", "rxe has no PCI device"),
    StandIn("a feature file of NFD", "a card of vendor 15b3", "device plugins run on nodes that NFD labels so"),
    StandIn("rxe-netns", "RDMA that follows an interface into a pod", "rxe stays in its network namespace"),
    StandIn("one packet filter rule", "kube-proxy", "only the API server's service address is reached"),
    StandIn("the lab's registry and images", "upstream's", "upstream's programs, built here from pinned modules"),
)


def standin_lines() -> list[str]:
    """Give a line for each stand-in."""
    return [f"stand-in: {each.name} for {each.replaces} ({each.why})" for each in STAND_INS]
