# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the next boot takes away: settings of the boot unit that nothing asks for any more. Pure.

The running host keeps them until then, so each is a step of its own, with the consent that the same change would need
now. Without it the boot unit goes on bringing the setting back.
"""

from __future__ import annotations

from typing import NamedTuple

from ..engine.context import Context
from ..engine.steps import Value, is_executable
from ..facts.host_state import enabled_functions
from ..facts.managers.owner import owner_of
from ..facts.owners import owned_keys
from ..facts.shapes import Netdev, Nic
from ..facts.users import held
from ..spec.persisted import MAKER, SELECTING, Setting, Wish, device_of, only
from .persisted import KEPT, wishes_of_present_cards
from .persistence import persistence

# They go with the functions.
_OF_FUNCTIONS = ("vf_mtu", "vf_settings", "vf_driver", "vf_guids")
_PLURAL = ("vf_settings", "vf_guids", "irq_affinity", "qos", "queues")
# What functions that are in use lose a setting of by a change that renews them.
_RENEWING = ("vf_settings", "vf_driver", "vf_guids")


class Loss(NamedTuple):
    """One setting that the next boot takes away from the device ``device`` (its PCI address, or its name without one).

    ``consent`` is the consent that is missing, empty when nothing is.
    """

    device: str
    target: str
    key: Setting
    value: Value
    consequence: str
    consent: str

    @property
    def name(self) -> str:
        """Return how people call the setting."""
        return KEPT[self.key].name

    @property
    def step_now(self) -> str:
        """Return the id of the step that changes the setting on the running host."""
        return KEPT[self.key].step_id(self.device)


def losses(context: Context, wishes: list[Wish]) -> list[Loss]:
    """Return what goes with the next boot when the boot unit gets ``wishes`` in place of those that it has."""
    after = {device_of(wish): wish for wish in wishes}
    found: list[Loss] = []
    for former in _former(context):
        device = device_of(former)
        nic = context.actual.nics.get(device)
        netdev = context.actual.port_of(nic) if nic is not None else context.actual.netdevs.get(device)
        if nic is None and netdev is None:
            continue
        gone = [key for key in sorted(KEPT) if former.get(key) and not after.get(device, {}).get(key)]
        gone = [key for key in gone if _is_lost(context, former, key, nic, netdev)]
        gone = [key for key in gone if "vfs" not in gone or key not in _OF_FUNCTIONS]
        lost = [_loss(context, former, key, nic, netdev) for key in gone]
        # No function may exceed the MTU of its port: that one goes when they go.
        held_by = next((loss.consent for loss in lost if loss.key == "vfs" and former.get("vf_mtu")), "")
        found += [loss._replace(consent=loss.consent or held_by) if loss.key == "mtu" else loss for loss in lost]
    without = {loss.device for loss in found if loss.key == "vfs"}
    makers = {device_of(former): former.get(MAKER) for former in _former(context)}
    return [loss for loss in found if makers[loss.device] not in without]


def held_back(context: Context, wishes: list[Wish]) -> list[Wish]:
    """Return the wishes, with every setting that goes only with a consent which is not given."""
    kept = {device_of(wish): wish.copy() for wish in wishes}
    former = {device_of(wish): wish for wish in _former(context)}
    for loss in losses(context, wishes):
        if not loss.consent:
            continue
        old = former[loss.device]
        wish = kept.setdefault(loss.device, only(old, SELECTING))
        wish.update(only(old, [loss.key]))
        if loss.key == "vfs":
            # As many as there are; what belongs to them stays with them, and so do their own wishes.
            wish["vfs"] = enabled_functions(context.actual.nics[loss.device])
            needed = (*_OF_FUNCTIONS, "mtu") if old.get("vf_mtu") else _OF_FUNCTIONS
            wish.update(only(old, [key for key in needed if key not in wish]))
            for device, other in former.items():
                if other.get(MAKER) == loss.device:
                    kept.setdefault(device, other.copy())
    return [only(wish, (*SELECTING, *sorted(set(wish).difference(SELECTING)))) for wish in kept.values()]


def _former(context: Context) -> list[Wish]:
    return context.once(wishes_of_present_cards)


def _is_lost(context: Context, former: Wish, key: Setting, nic: Nic | None, netdev: Netdev | None) -> bool:
    """Return whether the host has the setting now, keeps it until it boots, and nobody else brings it then."""
    now = [step for step in context.earlier if step["id"] == KEPT[key].step_id(device_of(former))]
    if any(map(is_executable, now)) or (context.removing and not now):
        # It changes with this run, or it was there before the first one and goes the way it came.
        return False
    if key in owned_keys(context.actual.facts, nic):
        return False
    if key in (*_OF_FUNCTIONS, "vfs", "eswitch_mode") and (
        nic is None or (key != "eswitch_mode" and not enabled_functions(nic))
    ):
        return False
    return key not in ("mtu", "state") or _is_of_the_unit(context, former, key, netdev)


def _is_of_the_unit(context: Context, former: Wish, key: Setting, netdev: Netdev | None) -> bool:
    """Return whether an interface has its MTU or state of the boot unit alone: no manager and no bond gives it that."""
    if netdev is None or netdev["master"]:
        return False
    if not context.removing and any(
        entry.path and entry.interface.key == device_of(former) and getattr(entry, key) is not None
        for entry in context.once(persistence)
    ):
        return False
    if key == "state":
        return netdev["up"] == (former["state"] == "up")
    owner = owner_of(context.actual, netdev, netdev["name"])
    return netdev["mtu"] == former["mtu"] and (owner is None or owner.mtu != str(former["mtu"]))


def _loss(context: Context, former: Wish, key: Setting, nic: Nic | None, netdev: Netdev | None) -> Loss:
    device = device_of(former)
    needed = ["uplink_change"] if context.actual.uplink_reason(nic, netdev) is not None else []
    functions = context.actual.vfs_of(nic) if nic is not None else []
    if (key in ("vfs", "eswitch_mode") and functions) or (key in _RENEWING and held(context.actual, functions)):
        needed.append("vf_reset")
    missing = [consent for consent in needed if not context.consents_to(consent)]
    target = context.target(nic, netdev)
    return Loss(device, target, key, former[key], _consequence(context, former, key, nic), next(iter(missing), ""))


def _consequence(context: Context, former: Wish, key: Setting, nic: Nic | None) -> str:
    if key == "vfs" and nic is not None:
        count = enabled_functions(nic)
        noun = "virtual function" if count == 1 else "virtual functions"
        return f"its {count} {noun}, which no boot creates any longer: {', '.join(context.actual.vf_addresses(nic))}"
    if key == "mtu":
        return f"its MTU of {former[key]}, which is the driver's own then (Ethernet: 1500)"
    if key == "state":
        return f"its state {former[key]}, which nothing sets then"
    name = KEPT[key].name
    if key in _PLURAL:
        return f"{name}, which are as the driver or firmware has them"
    return f"{name}, which is as the driver or firmware has it"
