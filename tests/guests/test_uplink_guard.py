# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A booted guest that a change of its uplink cuts off takes the change back by itself, and the run says so and fails.

The guest plays the network too: a packet filter drops all that comes and goes over the uplink as long as that has
another MTU than the network, as a switch port does that shuts for frames it does not take, or answers no ARP request,
as for peers that no longer know its address.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple

import pytest

from ansible_collections.rdma.fabric.tests.guests.host_runs import Fleet, differences
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.speed import pace

UPLINK = "mgmt0"
ARP_IGNORE = f"net.ipv4.conf.{UPLINK}.arp_ignore"


class Change(NamedTuple):
    """What is asked of the uplink, the file that shows it, and what that says before."""

    asked: Mapping[str, Any]
    shown: str
    former: str


CHANGES = {
    "MTU": Change(
        {"rdma_fabric_interfaces": [{"current_name": UPLINK, "mtu": 9000}]},
        f"/sys/class/net/{UPLINK}/mtu",
        "1500",
    ),
    "arp_ignore": Change({"rdma_fabric_sysctls": {ARP_IGNORE: 8}}, f"/proc/sys/{ARP_IGNORE.replace('.', '/')}", "0"),
}
SECONDS = 40
# What the host still does after the last step (reading itself again) and while it takes the change back, emulated on a
# machine that does nothing else.
MARGIN = 90.0
LOG = "/run/switch.log"
SHOWN = " ".join(change.shown for change in CHANGES.values())
USUAL = " ".join(change.former for change in CHANGES.values())
SWITCH = f"""
closed=
while sleep 0.2; do
    now=
    for file in {SHOWN}; do read -r value <$file; now="$now $value"; done
    if [ "$now" != " {USUAL}" ] && [ -z "$closed" ]; then
        nft "table inet switch {{
            chain in {{ type filter hook input priority -300; iifname {UPLINK} drop; }}
            chain out {{ type filter hook output priority -300; oifname {UPLINK} drop; }}
        }}"
        closed=yes
        echo "closed $(cut -d ' ' -f 1 /proc/uptime)" >>{LOG}
    elif [ "$now" = " {USUAL}" ] && [ -n "$closed" ]; then
        nft delete table inet switch
        closed=
        echo "open $(cut -d ' ' -f 1 /proc/uptime)" >>{LOG}
    fi
done
"""
# The filter's module would stay behind.
START = (
    f"modprobe nf_tables && cat >/run/switch.sh && rm -f {LOG} && systemd-run --quiet --unit=switch bash /run/switch.sh"
)


class Cut(NamedTuple):
    """When the switch closed and opened, in seconds of the guest's clock."""

    closed: float
    opened: float


@pytest.fixture
def fleet(lab: Path, cluster: ControlPlane, tmp_path: Path) -> Iterator[Fleet]:
    """The guests; the first one's uplink takes no other MTU than the network's."""
    found = Fleet(lab, tmp_path, cluster, {"rdma_fabric_revert_seconds": SECONDS})
    guest = found.guests[0]
    found.ssh(guest, START, stdin=SWITCH)
    yield found
    found.ssh(guest, f"systemctl stop switch.service; rm -f {LOG} /run/switch.sh")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_that_cuts_the_uplink_is_taken_back_by_the_guest_and_the_run_fails(
    fleet: Fleet, change: Change
) -> None:
    guest = fleet.guests[0]
    before = fleet.snapshot(guest)
    outcome = fleet.site(
        "--limit", f"{guest},localhost", rdma_fabric_allow_uplink_change=True, **change.asked
    ).refused()
    failure = outcome.failures[guest]
    guard = failure["guard"]
    assert (guard["state"], guard["problems"]) == ("reverted", []), failure["msg"]
    assert UPLINK in guard["steps"][0]
    cut = Cut(*(float(line.split()[1]) for line in fleet.ssh(guest, f"cat {LOG}").splitlines()))
    assert SECONDS - 5 <= cut.opened - cut.closed <= SECONDS + MARGIN * pace(os.environ), cut
    assert fleet.ssh(guest, f"cat {change.shown}").strip() == change.former
    fleet.site("--limit", f"{guest},localhost", rdma_fabric_host_state="absent").succeeded()
    assert differences(before, fleet.snapshot(guest)) == []


def test_without_consent_the_uplink_is_left_alone(fleet: Fleet) -> None:
    guest = fleet.guests[0]
    both = {name: value for change in CHANGES.values() for name, value in change.asked.items()}
    outcome = fleet.site("--limit", f"{guest},localhost", **both).refused()
    assert outcome.failures[guest]["msg"].count("rdma_fabric_allow_uplink_change: true") == len(CHANGES)
    assert fleet.ssh(guest, f"cat {SHOWN}").split() == USUAL.split()
    assert fleet.ssh(guest, f"cat {LOG} 2>/dev/null || true") == ""
