# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the boot unit is to bring about: the part of a host's wishes that no other file keeps. Pure. Private."""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import is_guest_function
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import Context, Interface
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import HostDesired, check_desired
from ansible_collections.rdma.fabric.plugins.module_utils._host.eswitch.switching import present_mode
from ansible_collections.rdma.fabric.plugins.module_utils._host.managers.plan import BOOT_UNIT, is_refused, persistence
from ansible_collections.rdma.fabric.plugins.module_utils._host.mtu.plan import FUNCTIONS
from ansible_collections.rdma.fabric.plugins.module_utils._host.mtu.stack import Stack
from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import MARKER
from ansible_collections.rdma.fabric.plugins.module_utils._host.qos.wish import lasting
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import PLANNED

FORMAT = 1
# The physical function whose wish makes this virtual one.
MAKER = "pf"
# The boot unit applies these and no others, in the order of every plan.
CONCERNS = ("pcie", "vfs", "eswitch", "guids", "mtu", "link", "queues", "qos")
# Kept by files of their own concern, and by the managers of interfaces.
_NAMES = ("pci", "mac", "current_name", "name", "rdma_name", "representor_prefix")
_ELSEWHERE = (*_NAMES, "mtu", "state", "qos", "firmware", "routes", "routing-policy")
# Only functions that the boot unit makes itself are there when it runs.
_OF_FUNCTIONS = ("vfs", "vf_mtu", "vf_settings", "vf_driver", "vf_guids")


def wishes(context: Context) -> list[dict[str, Any]]:
    """Return what the boot unit does for each interface, in the shape of ``interfaces`` of the desired state.

    Interfaces are selected by their PCI function, which is there before any name is. A virtual function that another of
    these wishes makes names that one (``pf``).
    """
    kept = {entry.interface.key: entry for entry in persistence(context)}
    stack = Stack(context)
    found = []
    for interface in context.kept_interfaces:
        wish = {key: value for key, value in interface.wanted.items() if key not in _ELSEWHERE and value}
        _hold_back(context, interface, wish)
        if not wish.get("vfs"):
            wish = {key: value for key, value in wish.items() if key not in _OF_FUNCTIONS}
        keep = kept.get(interface.key)
        if keep is not None and keep.manager == BOOT_UNIT:
            wish.update({key: value for key, value in (("mtu", keep.mtu), ("state", keep.state)) if value is not None})
        carried = _carried_for_functions(context, interface, wish, stack)
        if carried and "mtu" not in wish:
            wish["mtu"] = carried
        qos = lasting(context, interface)
        if qos:
            wish["qos"] = qos
        if wish:
            found.append({**_selector(context, interface), **dict(sorted(wish.items()))})
    return _with_makers(context, found)


def _carried_for_functions(context: Context, interface: Interface, wish: Mapping[str, Any], stack: Stack) -> int:
    """Return the MTU that a port needs for its functions before its own manager or its bond gives it that, else 0.

    They are set up first, and none may exceed the port. It gets what it has today: not less than a file of udev's may
    have given it.
    """
    if not wish.get("vfs") or interface.netdev is None or interface.nic is None:
        return 0
    own = [
        other.wanted.get("mtu")
        for other in context.kept_interfaces
        if (other.nic or {}).get("pf") == interface.nic["address"] and not is_refused(context, f"mtu:{other.key}")
    ]
    needed = max(int(mtu or 0) for mtu in (wish.get("vf_mtu"), *own))
    carried = stack.final(str(interface.netdev["name"]))
    return carried if 0 < needed <= carried else 0


def _with_makers(context: Context, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Note which functions are there only after the wish of another one: nobody waits for those at boot."""
    makers = {str(wish["pci"]) for wish in found if wish.get("vfs") and wish.get("pci")}

    def noted(wish: dict[str, Any]) -> dict[str, Any]:
        maker = (context.actual.nics.get(wish.get("pci") or "") or {}).get("pf")
        return {"pci": wish["pci"], MAKER: maker, **wish} if maker in makers else wish

    return [noted(wish) for wish in found]


def wishes_text(found: list[dict[str, Any]], pcie: Mapping[str, Any] | None = None) -> str:
    """Return the file that the boot unit reads."""
    document = {"managed_by": MARKER, "format": FORMAT, "interfaces": found, **({"pcie": dict(pcie)} if pcie else {})}
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


class Wished(NamedTuple):
    """A file of wishes: the desired state, and the addresses of the functions that these wishes make themselves."""

    desired: HostDesired
    made: frozenset[str]


def wished_of(text: str) -> Wished:
    """Return what a file of wishes means.

    Raises ``ValueError`` for a file that is none, and ``InvalidInput`` with every violation.
    """
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"this program reads wishes of format {FORMAT}")
    entries = document.get("interfaces")
    made = set()
    if isinstance(entries, list):
        made = {str(entry.get("pci")) for entry in entries if isinstance(entry, dict) and MAKER in entry}
        entries = [
            {key: value for key, value in entry.items() if key != MAKER} if isinstance(entry, dict) else entry
            for entry in entries
        ]
    # What stands there was consented to by the run that wrote it.
    consents = {"acs_change": True, "takeover": True}
    desired = check_desired({"interfaces": entries, "pcie": document.get("pcie"), "consents": consents})
    return Wished(desired, frozenset(made))


def wished_in(content: Any) -> list[dict[str, Any]] | None:
    """Return the wishes in a file as the facts hold it, one for each interface and one for PCIe (``{"pcie": ...}``).

    None when they can't be told.
    """
    try:
        document = json.loads(content) if isinstance(content, str) else {}
    except ValueError:
        return None
    found = document.get("interfaces") if isinstance(document, dict) else None
    if not isinstance(found, list):
        return None
    pcie = document.get("pcie")
    return [*found, {"pcie": pcie}] if isinstance(pcie, dict) else found


def _hold_back(context: Context, interface: Interface, wish: dict[str, Any]) -> None:
    """Keep the number of virtual functions that is there where the wanted one is refused or waits for consent.

    A virtual machine's own function has none. Settings that the plan does not make now are not made at boot either, and
    an e-switch that does not get its mode now keeps the one that it has.
    """
    nic = interface.nic or {}
    waiting = {step["id"] for step in context.earlier if step["status"] != PLANNED}
    held = interface.wanted.get("vfs") is not None and f"vfs:{interface.key}" in waiting
    if held or (nic and is_guest_function(nic)):
        wish.pop("vfs", None)
        now = (nic.get("sriov") or {}).get("enabled")
        if now:
            wish["vfs"] = now
    if interface.wanted.get("eswitch_mode") is not None and f"eswitch:{interface.key}" in waiting:
        wish["eswitch_mode"] = present_mode(context.actual, interface)
    for step_id, key in (
        (f"vfs:{interface.key}:settings", "vf_settings"),
        (f"vfs:{interface.key}:driver", "vf_driver"),
        (f"guids:{interface.key}", "vf_guids"),
        (f"queues:{interface.key}", "queues"),
        (f"mtu:{interface.key}{FUNCTIONS}", "vf_mtu"),
    ):
        if step_id in waiting:
            wish.pop(key, None)


def _selector(context: Context, interface: Interface) -> dict[str, str]:
    """Return how the boot unit finds an interface: by name only what is not the one port of its function."""
    nic, netdev = interface.nic, interface.netdev
    if nic is not None and (netdev is None or context.actual.port_of(nic) is not None):
        return {"pci": str(nic["address"])}
    return {"current_name": str(interface.wanted.get("name") or (netdev or {}).get("name"))}
