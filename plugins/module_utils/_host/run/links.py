# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares the links of a host after a change with those before it, and waits for links that come up late."""

from __future__ import annotations

from contextlib import suppress
from typing import Collection

from ..engine.execution import Watch
from ..engine.failures import Fault
from ..facts.netdev import read_netdevs
from ..facts.rdma import lost_links, read_rdma
from ..facts.uplink import read_tables
from ..machine.access import Clock, HostError, Machine
from ..machine.probe import Probe
from .result import Outcome, Run

_INTERVAL = 2.0
_NEXT_STEP = "check cable, transceiver, switch port and address of each, and run again"


def with_links(
    machine: Machine,
    clock: Clock,
    outcome: Outcome,
    run: Run,
    *,
    shut: Collection[str],
    watch: Watch | None,
) -> Outcome:
    """Return the outcome of a ``run``, failed if a link is not as before within ``run.link_seconds``.

    Nothing is compared while a change of links is still to come, such as a reboot. ``shut`` are the PCI addresses of
    interfaces whose state in the spec is down.
    """
    before, seconds = run.links, run.link_seconds
    if outcome.get("failed") or (outcome["reboot_required"] and run.reboots) or outcome["reload_due"]:
        return outcome
    facts = outcome["facts"]
    lost = lost_links(before, facts, shut)
    end = clock.now() + seconds
    if lost and watch is not None:
        # The confirmation reports a revert that happens meanwhile.
        with suppress(Fault, HostError):
            watch.during(seconds)
    while lost and clock.now() < end:
        clock.sleep(_INTERVAL)
        probe = Probe(machine)
        addressed = read_tables(probe, every_hop=False).addressed
        facts = {**facts, "rdma": read_rdma(probe, read_netdevs(probe), addressed)}
        lost = lost_links(before, facts, shut)
    if not lost:
        return {**outcome, "facts": facts}
    problem = f"not as before the change after {seconds:.0f} seconds: {'; '.join(lost)}; next: {_NEXT_STEP}"
    return {**outcome, "facts": facts, "failed": True, "lost_links": lost, "msg": f"{problem}; {outcome['msg']}"}
