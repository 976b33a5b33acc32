# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads of driver and peer memory what a desired state needs; hosts that are not asked about them are spared it."""

from __future__ import annotations

from ..machine.probe import Probe
from ..spec.driver import ABSENT, parse_driver_version
from ..spec.driver_families import INBOX
from ..spec.host import HostSpec
from .driver.network import read_snapshot, read_stacked
from .driver.read import read_driver
from .driver.status import runs_what_is_installed
from .driver_shapes import DriverState
from .eswitch import read_modes
from .host_state import NETDEV_DRIVER
from .next_boot import next_boot_of
from .peer_memory import read_peer_memory
from .records import JOURNAL
from .shapes import Facts, Stack


def read_stack_state(probe: Probe, desired: HostSpec, facts: Facts) -> None:
    """Add to ``facts`` what ``desired`` asks about its driver and its peer memory.

    The network is only written down where the driver may be reloaded: that takes a program for each interface.
    """
    requests = desired["requests"]
    # A reload that was killed is finished also where nobody asks for a driver any more.
    if desired["driver"] or any(request["driver"] for request in requests) or probe.host.exists(JOURNAL):
        facts["next_boot"] = next_boot_of(probe, facts)
        state = read_driver(probe, facts["system"], facts["next_boot"]["kernel"], desired["driver"])
        if _may_reload(desired, state, facts["stack"]):
            state["snapshot"] = read_snapshot(probe, NETDEV_DRIVER, facts["nics"], facts["netdevs"])
            state["stacked"] = read_stacked(probe, NETDEV_DRIVER, facts["nics"], facts["netdevs"])
            facts["eswitch"].update(read_modes(probe, _of_unknown_mode(facts)))
        facts["driver"] = state
    if (
        desired["peer_memory"]
        or desired.get("peer_memory_before") is not None
        or any(request["peer_memory"] is not None for request in requests)
    ):
        facts["peer_memory"] = read_peer_memory(probe, facts["system"])


def _of_unknown_mode(facts: Facts) -> list[str]:
    """Return the physical functions that may be in switchdev mode, by a switch id, and nobody has asked about."""
    switched = {netdev["pci"] for netdev in facts["netdevs"] if netdev["switch_id"]}
    ports = [nic["address"] for nic in facts["nics"] if nic["function"] == "pf" and nic["driver"] == NETDEV_DRIVER]
    return [address for address in ports if address in switched and address not in facts["eswitch"]]


def _may_reload(desired: HostSpec, state: DriverState, stack: Stack) -> bool:
    """Say whether anything that ``desired`` asks for differs from what runs; node selectors are not looked at."""
    if state["journal"] or runs_what_is_installed(state) is False:
        return True
    own = desired["driver"]
    if own is not None:
        inbox = own["state"] == ABSENT or own["flavour"] == INBOX
        if inbox or (own["flavour"] and not own["version"]):
            return stack["flavour"] != (INBOX if inbox else own["flavour"])
    running = parse_driver_version(stack["version"] or "")
    texts = [own["version"] if own else None, *((one["driver"] or {}).get("version") for one in desired["requests"])]
    wanted = [parse_driver_version(str(text)) for text in texts if text]
    return any(release is None or running is None or release.fields != running.fields for release in wanted)
