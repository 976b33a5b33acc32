# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is legal in the configuration of a device plugin, and deserves a look: the plugin starts with it."""

from __future__ import annotations

from typing import Any

from ..common.jsontext import Problem
from ..common.names import is_alternative
from .devplugin import Config, selector_groups
from .devplugin_reach import meets_none, takes_all, unread_functions, unreadable


def remarks(kind: str, config: Config) -> list[Problem]:
    """Return what is legal but deserves a look in a configuration that passed its check."""
    found: list[Problem] = []
    if kind == "rdma_shared":
        for index, item in enumerate(config["configList"]):
            if item.get("devices"):
                hint = "use selectors.ifNames with plugin 1.1.0 or newer"
                found.append(Problem(f"configList[{index}].devices", "is deprecated by the plugin", hint))
            if not item.get("rdmaHcaMax"):
                hint = "set how many pods may share the devices of a node"
                found.append(Problem(f"configList[{index}].rdmaHcaMax", "is 0: no pod gets this resource", hint))
            found += unreadable(f"configList[{index}].rdmaHcaMax", item.get("rdmaHcaMax") or 0)
            found += meets_none(f"configList[{index}].selectors", item.get("selectors") or {})
            names = [("devices", item.get("devices"))]
            names += [("selectors.ifNames", (item.get("selectors") or {}).get("ifNames"))]
            for key, given in names:
                found += _alternatives(f"configList[{index}].{key}", given)
        return found
    for index, item in enumerate(config["resourceList"]):
        if not item.get("resourcePrefix"):
            problem = f"is not set: pods must ask for intel.com/{item['resourceName']}"
            found.append(Problem(f"resourceList[{index}].resourcePrefix", problem, "set nvidia.com to match networks"))
        groups = selector_groups(f"resourceList[{index}].selectors", item["selectors"])
        found += _unselective(groups, item)
        for where, selectors in groups:
            found += meets_none(where, selectors)
            found += _alternatives(f"{where}.pfNames", selectors.get("pfNames"))
            for key in ("pfNames", "rootDevices"):
                found += unread_functions(f"{where}.{key}", selectors.get(key) or [])
    return found + _without_devices(config["resourceList"])


def _without_devices(items: list[Config]) -> list[Problem]:
    """Return a remark for each resource of which those before it take every device."""
    found: list[Problem] = []
    earlier: list[tuple[str, str, Config]] = []
    for index, item in enumerate(items):
        kind = item.get("deviceType") or "netDevice"
        groups = [selectors for _where, selectors in selector_groups("", item["selectors"])]
        takers = [[name for type_, name, taken in earlier if type_ == kind and takes_all(taken, one)] for one in groups]
        if groups and all(takers):
            problem = f"selects no device that {takers[0][0]} leaves: the resource that comes first gets a device"
            hint = "put the narrower selectors first, or keep the two apart"
            found.append(Problem(f"resourceList[{index}].selectors", problem, hint))
        earlier += [(kind, item["resourceName"], selectors) for selectors in groups]
    return found


def _alternatives(path: str, given: Any) -> list[Problem]:
    """Return a remark for each name that only an alternative name of an interface can be.

    Both plugins compare with what is in sysfs (``GetPfName`` of the SR-IOV plugin, v3.11.0 and its main branch).
    """
    problem = "can't be an interface's own name, which has at most 15 bytes: the plugin ignores alternative names"
    hint = "write the name that comes first in ip link show"
    return [
        Problem(f"{path}[{index}]", problem, hint)
        for index, name in enumerate(given if isinstance(given, list) else [])
        if is_alternative(str(name).partition("#")[0])
    ]


def _unselective(groups: list[tuple[str, Config]], item: Config) -> list[Problem]:
    """Return a remark for each set of selectors that lets every device of the type through."""
    kind = item.get("deviceType") or "netDevice"
    problem = f"selects every {kind} of a node, of any vendor"
    hint = "name the vendors, drivers or pfNames meant"
    return [
        Problem(where, problem, hint)
        for where, selectors in groups
        if not any(value for key, value in selectors.items() if key != "needVhostNet")
    ]
