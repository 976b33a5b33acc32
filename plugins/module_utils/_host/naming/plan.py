# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans interface names: a ``.link`` file for every boot, a rename now where nothing is cut. Private: it may change.

Rules of systemd.link(5) and of the kernel: the first matching file decides, a name in use can't be given again
(EEXIST), and a file that matches by path finds the function whatever address or name it has.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.rdma.fabric.plugins.module_utils._host.context import ConcernPlan, Context, Interface
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import CONSENTS
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import (
    BOOT,
    NEEDS_CONSENT,
    NOTHING,
    NOW_AND_BOOT,
    PLANNED,
    Step,
    make_step,
    refused_step,
)


@dataclass(frozen=True)
class _Rename:
    """One interface that is to get another name."""

    interface: Interface
    current: str
    wanted: str
    uplink: str | None

    @property
    def live(self) -> bool:
        """Return whether the name may change while the host runs."""
        return self.uplink is None


def boot_file(interface: Interface) -> str:
    """Return the file that gives the interface its name at boot.

    In switchdev mode representors share the PCI path, so there a udev rule that looks at ``phys_port_name`` is
    needed; a ``.link`` file could give a representor the name.
    """
    function = interface.key.replace(":", "-")
    if interface.netdev and interface.netdev.get("switch_id"):
        return f"/etc/udev/rules.d/70-rdma-fabric-{function}.rules"
    return f"/etc/systemd/network/05-rdma-fabric-{function}.link"


def plan(context: Context) -> ConcernPlan:
    """Return a step for each interface whose name differs from the wanted one, in an order in which names are free."""
    renames = {rename.current: rename for rename in _renames(context)}
    refusals = _refusals(context, renames)
    order, parked = _ordered({name: r for name, r in renames.items() if name not in refusals})
    steps = [_step(context, renames[name], parked.get(name, "")) for name in order]
    steps += [_refused(context, renames[name], refusals[name]) for name in sorted(refusals)]
    return steps, []


def _renames(context: Context) -> list[_Rename]:
    found = []
    for interface in context.interfaces:
        wanted, netdev = interface.wanted.get("name"), interface.netdev
        if wanted is not None and netdev is not None and netdev["name"] != wanted:
            uplink = context.actual.uplink_reason(interface.nic, netdev)
            found.append(_Rename(interface, netdev["name"], wanted, uplink))
    return found


def _refusals(context: Context, renames: dict[str, _Rename]) -> dict[str, str]:
    """Return why renames can't be done, by current name; a refused one holds its name, so others may fall with it."""
    refusals: dict[str, str] = {}
    for name, rename in renames.items():
        if rename.interface.nic is None:
            refusals[name] = "it has no PCI function, so no boot file could find it"
    changed = True
    while changed:
        changed = False
        for name, rename in renames.items():
            reason = "" if name in refusals else _name_held(context, rename, renames, refusals)
            if reason:
                refusals[name] = reason
                changed = True
    return refusals


def _name_held(context: Context, rename: _Rename, renames: dict[str, _Rename], refused: dict[str, str]) -> str:
    holder = context.actual.netdevs.get(rename.wanted)
    if holder is None:
        return ""
    who = f"{rename.wanted} is the name of {holder.get('pci') or 'another interface'} now"
    leaving = renames.get(rename.wanted)
    if leaving is None:
        return f"{who}; give that one another name in rdma_fabric_interfaces"
    if rename.wanted in refused:
        return f"{who}, and its own rename is refused"
    if not leaving.live and (rename.live or not context.consents_to("uplink_change")):
        return f"{who}, and as an uplink it keeps it until the next boot"
    return ""


def _ordered(renames: dict[str, _Rename]) -> tuple[list[str], dict[str, str]]:
    """Return the current names so that each wanted name is free when its turn comes.

    Names that form a circle can't be ordered: its first member is returned in the second value with the temporary
    name under which the holder of its wanted name is parked.
    """
    order: list[str] = []
    parked: dict[str, str] = {}

    def visit(start: str) -> None:
        chain = []
        name = start
        while name in renames and name not in order and name not in chain:
            chain.append(name)
            name = renames[name].wanted
        if name in chain:
            circle = chain[chain.index(name) :]
            first = min(circle)
            turn = circle.index(first)
            # The wanted name of the last one in turn was freed by parking, so the circle is walked backwards.
            circle = circle[turn:] + circle[:turn]
            parked[first] = f"rdmatmp{len(parked)}"
            order.extend([first, *reversed(circle[1:])])
            chain = chain[: chain.index(name)]
        order.extend(reversed(chain))

    for name in sorted(renames, key=lambda current: renames[current].interface.key):
        visit(name)
    return order, parked


def _reason(rename: _Rename) -> str:
    return (
        f"the interface at {rename.interface.key} shall be {rename.wanted} at every boot; "
        f"{rename.current} follows from slot numbering and driver and may change with them"
    )


def _step(context: Context, rename: _Rename, parking: str) -> Step:
    interface = rename.interface
    target = context.target_of(interface)
    details = [f"{boot_file(interface)} names it at boot"]
    if not rename.live:
        return _at_boot(context, rename, target, details)
    master = (interface.netdev or {}).get("master")
    if parking:
        details.insert(0, f"two interfaces exchange names: {rename.wanted} is parked as {parking} first")
    if master:
        details.append(f"it belongs to {master}: name it there as well")
    is_up = bool((interface.netdev or {}).get("up"))
    return make_step(
        "naming",
        interface.key,
        target=target,
        action=f"rename {rename.current} to {rename.wanted}",
        before=rename.current,
        after=rename.wanted,
        reason=_reason(rename),
        interrupts=f"traffic on {rename.current}: its link goes down for the rename" if is_up else NOTHING,
        undo=f"remove {boot_file(interface)} and rename {rename.wanted} to {rename.current}",
        when=NOW_AND_BOOT,
        detail="; ".join(details),
    )


def _at_boot(context: Context, rename: _Rename, target: str, details: list[str]) -> Step:
    details.append(f"it carries the uplink ({rename.uplink}), so it is not renamed while the host runs")
    details.append(f"the host's network configuration must know {rename.wanted} by then")
    return make_step(
        "naming",
        rename.interface.key,
        target=target,
        action=f"rename {rename.current} to {rename.wanted} at the next boot",
        before=rename.current,
        after=rename.wanted,
        reason=_reason(rename),
        interrupts=NOTHING,
        undo=f"remove {boot_file(rename.interface)} before the next boot",
        when=BOOT,
        status=PLANNED if context.consents_to("uplink_change") else NEEDS_CONSENT,
        consent=CONSENTS["uplink_change"],
        detail="; ".join(details),
    )


def _refused(context: Context, rename: _Rename, refusal: str) -> Step:
    return refused_step(
        "naming",
        rename.interface.key,
        target=context.target_of(rename.interface),
        action=f"rename {rename.current} to {rename.wanted}",
        before=rename.current,
        after=rename.wanted,
        reason=_reason(rename),
        detail=refusal,
    )
