# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A booted guest that a change of its uplink cuts off takes the change back by itself, and the run says so and fails.

The guest plays the switch too: as long as its uplink has another MTU than the network, a packet filter drops all that
comes and goes over it, as a switch port does that shuts for frames it does not take.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Iterator, NamedTuple

import pytest

from ansible_collections.rdma.fabric.tests.guests.host_runs import Fleet, differences
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane

UPLINK = "mgmt0"
MTU, TOO_LARGE = 1500, 9000
SECONDS = 40
# What the host still does after the last step (reading itself again) and while it takes the change back, emulated.
MARGIN = 90.0
LOG = "/run/switch.log"
SWITCH = f"""
closed=
while sleep 0.2; do
    read -r mtu </sys/class/net/{UPLINK}/mtu
    if [ "$mtu" != {MTU} ] && [ -z "$closed" ]; then
        nft "table inet switch {{
            chain in {{ type filter hook input priority -300; iifname {UPLINK} drop; }}
            chain out {{ type filter hook output priority -300; oifname {UPLINK} drop; }}
        }}"
        closed=yes
        echo "closed $(cut -d ' ' -f 1 /proc/uptime)" >>{LOG}
    elif [ "$mtu" = {MTU} ] && [ -n "$closed" ]; then
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
WANTED = [{"current_name": UPLINK, "mtu": TOO_LARGE}]


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


def test_a_change_that_cuts_the_uplink_is_taken_back_by_the_guest_and_the_run_fails(fleet: Fleet) -> None:
    guest = fleet.guests[0]
    before = fleet.snapshot(guest)
    asked = {"rdma_fabric_interfaces": WANTED, "rdma_fabric_allow_uplink_change": True}
    outcome = fleet.site("--limit", f"{guest},localhost", **asked).refused()
    failure = outcome.failures[guest]
    assert "so the host has reverted it" in failure["msg"]
    assert f"set the MTU to {TOO_LARGE} (now {MTU})" in failure["msg"]
    assert failure["guard"]["state"] == "reverted"
    assert failure["guard"]["problems"] == []
    cut = Cut(*(float(line.split()[1]) for line in fleet.ssh(guest, f"cat {LOG}").splitlines()))
    assert SECONDS - 5 <= cut.opened - cut.closed <= SECONDS + MARGIN, cut
    assert fleet.ssh(guest, f"cat /sys/class/net/{UPLINK}/mtu").strip() == str(MTU)
    fleet.site("--limit", f"{guest},localhost", rdma_fabric_host_state="absent").succeeded()
    assert differences(before, fleet.snapshot(guest)) == []


def test_without_consent_the_uplink_is_left_alone(fleet: Fleet) -> None:
    guest = fleet.guests[0]
    outcome = fleet.site("--limit", f"{guest},localhost", rdma_fabric_interfaces=WANTED).refused()
    assert "rdma_fabric_allow_uplink_change: true allows the change" in outcome.failures[guest]["msg"]
    assert fleet.ssh(guest, f"cat /sys/class/net/{UPLINK}/mtu").strip() == str(MTU)
    assert json.loads(fleet.ssh(guest, f"cat {LOG} 2>/dev/null | wc -l")) == 0
