# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what prevents a driver from being unloaded: open files, modules, network and storage."""

from __future__ import annotations

from typing import Collection, Iterable, Mapping, NamedTuple, Sequence

from ...facts import module_graph
from ...machine.probe import ENDED, Probe, printable
from ..devices import VFIO_DRIVERS
from ..driver_shapes import Loaded, Stacked, User
from ..eswitch import SWITCHDEV, mode_of
from ..shapes import Eswitch, Netdev, Nic
from ..users import RDMA_FILES, open_files

# Package managers keep these open while they hold their lock.
LOCKS = (
    "/var/lib/dpkg/lock",
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/apt/lists/lock",
    "/var/cache/apt/archives/lock",
    "/var/lib/rpm/.rpm.lock",
    "/usr/lib/sysimage/rpm/.rpm.lock",
    "/var/cache/dnf/metadata_lock.pid",
    "/run/zypp.pid",
)
# NVIDIA's driver container holds this lock while it runs, and leaves the file behind (Mellanox/doca-driver-build,
# entrypoint/internal/entrypoint/entrypoint.go, lock: flock(2)).
CONTAINER_LOCK = "/run/mellanox/drivers/.lock"
_MOST = 64

STORAGE, FOREIGN, HOLDER, PROGRAM, REFERENCE, FUNCTION, INTERFACE, UPLINK, SETTING = (
    "storage",
    "other vendor",
    "module",
    "program",
    "reference",
    "function",
    "interface",
    "uplink",
    "setting",
)
# Kinds of stacked devices, in addition to the kernel's.
VLAN, VRF, ADDRESS, SUBFUNCTION, FILTERING = ("vlan", "vrf", "address", "sub-function", "bridge that filters VLANs")
# These stay, and accept their ports again whoever adds them: no daemon and no table of their own refers to a port.
_MASTERS = ("bond", "bridge", VRF)
IPOIB = "ib_ipoib"
_HARMLESS = frozenset((*module_graph.REPLACED, *module_graph.PEER_MEMORY))


class OpenFiles(NamedTuple):
    """Processes by what they have open: ``{"pid", "program", "path"}`` each, in order of their pids.

    ``container`` says whether any has the lock of the driver container open.
    """

    verbs: list[User]
    locks: list[User]
    container: bool


class Blocker(NamedTuple):
    """A user of the driver: its ``kind``, its name, and a clause for messages."""

    kind: str
    name: str
    text: str

    def as_dict(self) -> dict[str, str]:
        """Return it as plain data."""
        return dict(self._asdict())


def read_open_files(probe: Probe) -> OpenFiles:
    """Return the processes that have verbs devices and locks open, each device and process once.

    Processes in containers are included; a process that ends meanwhile is left out.
    """
    found_verbs: list[User] = []
    found_locks: list[User] = []
    container = False
    for pid, paths in open_files(probe):
        verbs = sorted(path for path in paths if path.startswith(RDMA_FILES))
        locks = sorted(path for path in paths if path in LOCKS)
        container = container or CONTAINER_LOCK in paths
        if verbs or locks:
            program = probe.text(f"/proc/{pid}/comm", ENDED, 32) or "?"
            found_verbs.extend({"pid": int(pid), "program": program, "path": printable(path)} for path in verbs)
            found_locks.extend({"pid": int(pid), "program": program, "path": path} for path in locks)
    return OpenFiles(found_verbs[:_MOST], found_locks[:_MOST], container)


def module_blockers(
    loaded: Mapping[str, Loaded], unload_storage: bool, mounts: Mapping[str, Sequence[str]]
) -> list[Blocker]:
    """Return the loaded modules that prevent the stack from being unloaded.

    ``loaded`` and ``mounts`` are those parts of the driver's state. With ``unload_storage``, unused storage modules
    will be unloaded. A module may be unused to the kernel and carry a mount: a disk of NVMe with native multipath
    references none of its controllers (nvme_ns_head_open, drivers/nvme/host/multipath.c).
    """
    found = []
    carried: dict[str, list[str]] = {}
    for kind, points in mounts.items():
        carried.setdefault(module_graph.MODULES_OF_MOUNTS[kind], []).extend(points)
    for name, module in loaded.items():
        users = ", ".join(module["users"])
        if name in module_graph.CLIENT_MODULES:
            needed = name in carried or _used_from_outside(module, loaded)
            if unload_storage and name in module_graph.STORAGE and not needed:
                continue
            state = "is in use" if module["refcount"] else "is loaded"
            state = f"carries {', '.join(carried[name])}" if name in carried else state
            found.append(Blocker(STORAGE, name, f"{name} (storage over RDMA) {state}"))
        elif name in module_graph.THIRD_PARTY:
            found.append(Blocker(FOREIGN, name, f"{name}, another vendor's RDMA driver, uses ib_core"))
        elif name in module_graph.PEER_MEMORY:
            if module["refcount"]:
                found.append(Blocker(HOLDER, name, f"{name} is in use by GPU programs"))
        elif name not in _HARMLESS:
            used = f", itself used by {users}" if users else ""
            found.append(Blocker(HOLDER, name, f"{name} uses the stack{used}"))
    return found


def user_blockers(loaded: Mapping[str, Loaded], users: Iterable[User]) -> list[Blocker]:
    """Return the programs that have verbs devices open; if there are none, unexplained references to modules.

    A module's reference count exceeds the number of modules using it if programs, containers or the kernel itself hold
    it.
    """
    programs: dict[int, tuple[str, list[str]]] = {}
    for user in users:
        programs.setdefault(user["pid"], (user["program"], []))[1].append(user["path"])
    found = [
        Blocker(PROGRAM, program, f"{program} (pid {pid}) has {', '.join(paths)} open")
        for pid, (program, paths) in programs.items()
    ]
    if found:
        return found
    for name in module_graph.REPLACED:
        module = loaded.get(name)
        if module is not None and module["refcount"] > len(module["users"]):
            surplus = module["refcount"] - len(module["users"])
            text = f"{name} has {surplus} reference{'s' if surplus > 1 else ''} from no visible module or program"
            found.append(Blocker(REFERENCE, name, text))
    return found


def function_blockers(
    nics: Iterable[Nic],
    netdevs: Mapping[str, Netdev],
    loaded: Collection[str],
    modes: Mapping[str, Eswitch],
) -> list[Blocker]:
    """Return functions that could not be restored: passed through to a VM or container, or in switchdev mode.

    ``nics`` are the physical and VFs that unloading removes. ``loaded`` are modules: without IPoIB no
    InfiniBand function has an interface anywhere. ``modes`` are the e-switch modes that devlink reports: mlx5 sets a
    switch id in legacy mode too.
    """
    found = []
    for nic in nics:
        if nic["function"] == "vf" and nic["driver"] in VFIO_DRIVERS:
            text = f"{nic['address']} is given to a virtual machine ({nic['driver']})"
            found.append(Blocker(FUNCTION, nic["address"], text))
        elif nic["driver"] and not nic["netdevs"] and (nic["link_layer"] != "InfiniBand" or IPOIB in loaded):
            text = (
                f"{nic['address']} has no interface here: a container's network namespace has it, or the first half of "
                "a Socket Direct card"
            )
            found.append(Blocker(FUNCTION, nic["address"], text))
        elif _is_switched(nic, netdevs, modes):
            text = f"{nic['address']} is in switchdev mode: its representors and their rules would be lost"
            found.append(Blocker(FUNCTION, nic["address"], text))
    return found


def stacked_blockers(stacked: Iterable[Stacked]) -> list[Blocker]:
    """Return stacked devices that would not be restored; ``stacked`` is the result of ``read_stacked``.

    VLANs on a port are made again, and bonds, bridges and VRFs get their ports back.
    """
    found = []
    vlans = {entry["name"] for entry in stacked if entry["kind"] == VLAN}
    for entry in stacked:
        name, kind, on = entry["name"], entry["kind"], entry["on"]
        if kind in _MASTERS or (kind == VLAN and on not in vlans):
            continue
        if kind == ADDRESS:
            text = f"{on} takes frames for {name}, as for the interface of a container, which would be lost"
        elif kind == FILTERING:
            text = f"{on} is a port of {name}, a {kind}: the port's VLANs would be lost"
        else:
            text = f"{name} ({kind}) on {on} would be lost or cut off"
        found.append(Blocker(INTERFACE, name, text))
    return found


def sentence(blockers: Sequence[Blocker]) -> str:
    """Return all of them in one clause, the first twelve in full."""
    named = "; ".join(blocker.text for blocker in blockers[:12])
    return named if len(blockers) <= 12 else f"{named}; and {len(blockers) - 12} more"


def _is_switched(nic: Nic, netdevs: Mapping[str, Netdev], modes: Mapping[str, Eswitch]) -> bool:
    has_switch_id = any(name in netdevs and netdevs[name]["switch_id"] for name in nic["netdevs"])
    return mode_of(modes.get(nic["address"]), has_switch_id=has_switch_id) == SWITCHDEV


def _used_from_outside(module: Loaded, loaded: Mapping[str, Loaded]) -> bool:
    """Return whether a module has users other than modules that are themselves unused."""
    if module["refcount"] > len(module["users"]):
        return True
    return any(_used_from_outside(loaded[user], loaded) for user in module["users"] if user in loaded)
