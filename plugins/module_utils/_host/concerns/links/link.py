# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans whether interfaces are up, brings them up and takes them down."""

from __future__ import annotations

from types import MappingProxyType

from ...engine.context import ConcernPlan, Context, Handler, restores
from ...engine.failures import INTERFACE_GONE
from ...engine.operations import Work, set_link
from ...engine.ports import fill
from ...engine.steps import NOW, Step, key_of, make_step
from ...facts.host_state import Interface
from ...machine.access import Host
from ...machine.probe import NET

# IFF_UP of include/uapi/linux/if.h, as /sys/class/net/NAME/flags has it.
_UP = 0x1
ERRORS = MappingProxyType(
    {
        "EIO": "the device does not come up; next: read the kernel's log (dmesg), repair the cause and run again",
        "Cannot find device": INTERFACE_GONE,
        "ENODEV": INTERFACE_GONE,
        "ERFKILL": "a switch has the device off; next: rfkill unblock it and run again",
    }
)


def plan(context: Context) -> ConcernPlan:
    """Return a step for each interface whose administrative state differs from the spec."""
    steps = []
    for interface in context.interfaces:
        wanted, netdev = interface.wanted["state"], interface.netdev
        if wanted is None or netdev is None or netdev["up"] == (wanted == "up"):
            continue
        steps.append(_up(context, interface) if wanted == "up" else _down(context, interface))
    return steps, []


def _up(context: Context, interface: Interface) -> Step:
    return make_step(
        "link",
        interface.key,
        target=context.target_of(interface),
        action="bring the link up",
        before="down",
        after="up",
        reason="it is administratively down, so its RDMA port is disabled",
        undo="take the link down again",
        when=NOW,
    )


def _down(context: Context, interface: Interface) -> Step:
    reason = context.actual.uplink_reason_with_members(interface.nic, interface.netdev)
    refusal = f"it carries the uplink ({reason}): the node would be cut off, so no variable allows this"
    target = context.target_of(interface)
    return make_step(
        "link",
        interface.key,
        target=target,
        action="take the link down",
        before="up",
        after="down",
        reason="rdma_fabric_interfaces asks for state down",
        interrupts=f"traffic on {target} until it is brought up again",
        undo="bring the link up again: routes over it and IPv6 addresses of it are its manager's to set again",
        when=NOW,
        refusal=refusal if reason is not None else "",
    )


def work(context: Context, step: Step) -> Work:
    """Return how the administrative state of an interface is set."""
    key, to = key_of(step), str(step["to"])
    name = context.port_name(context.interface_of(key))

    def verify(host: Host) -> str:
        port = fill(name, host)
        is_up = bool(int(host.read(f"{NET}/{port}/flags").strip(), 16) & _UP)
        return "" if is_up == (to == "up") else f"{port} is {'up' if is_up else 'down'}"

    return Work([set_link(name, to)], [set_link(name, str(step["from"]))], verify)


HANDLER = Handler(work, ERRORS, restores("state", str))
