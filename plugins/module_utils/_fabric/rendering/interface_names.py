# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names by which a FabricSpec finds interfaces of hosts."""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple

from ..checks import devplugin
from ..checks.driver_container import policies_of
from ..common.names import is_alternative
from ..common.objects import Object
from .proof_pods import networks_of

_SECTIONS = {"rdma_shared": "rdmaSharedDevicePlugin", "sriov": "sriovDevicePlugin"}


class NamedInterface(NamedTuple):
    """An interface that a network or a resource of a device plugin finds by its own name."""

    by: str
    """``network NAMESPACE/NAME`` or ``resource PREFIX/NAME``."""
    field: str
    name: str


def interfaces_named(spec: Object) -> list[NamedInterface]:
    """Return every name that networks and device plugins of a valid FabricSpec find interfaces by, each use once.

    Names of more than 15 bytes are left out: they are alternative ones.
    """
    found = [
        NamedInterface(f"network {each['network']}", key, plugin[key])
        for each in networks_of(spec)
        for plugin in each["plugins"]
        for key in ("master", "device")
        if isinstance(plugin.get(key), str) and plugin[key] and (key == "master" or plugin.get("type") == "host-device")
    ]
    for policy in policies_of(spec):
        for kind, section in _SECTIONS.items():
            found += _of_plugin(kind, policy.get(section))
    return [each for each in dict.fromkeys(found) if not is_alternative(each.name)]


def _of_plugin(kind: str, section: Object | None) -> Iterator[NamedInterface]:
    given = (section or {}).get("config")
    config, problems = devplugin.CHECKS[kind](given) if given else ({}, [])
    if problems or not config:
        return
    entries: list[dict[str, Any]] = config["configList" if kind == "rdma_shared" else "resourceList"]
    for resource, entry in zip(devplugin.resource_names(kind, config), entries):
        if kind == "rdma_shared":
            selectors = [entry.get("selectors") or {}, {"ifNames": entry.get("devices")}]
        else:
            selectors = [each for _path, each in devplugin.selector_groups("", entry["selectors"])]
        for each in selectors:
            for field in ("ifNames", "pfNames"):
                for name in each.get(field) or []:
                    yield NamedInterface(f"resource {resource}", field, str(name).partition("#")[0])
