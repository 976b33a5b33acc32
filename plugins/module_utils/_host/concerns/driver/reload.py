# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a driver is taken out of a running kernel and put in again. Pure."""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

from ...engine.operations import Each, Operation, PutFile, RemoveFile, Run, Work
from ...facts import module_graph
from ...facts.driver.journal import JOURNAL
from ...facts.driver.read import read_identity, read_on_disk
from ...facts.driver.snapshot import as_text
from ...facts.driver.status import same_build
from ...facts.driver_shapes import DriverState, Snapshot
from ...machine.access import Host
from ...machine.probe import Probe
from .restore import missing, restore_operations

SERVICE = "openibd"
# Without any of these there may be interfaces missing.
_OF_THE_NETWORK = frozenset(module_graph.REPLACED) - frozenset(module_graph.AUXILIARY)
# Functions of large cards take seconds each to stop and to start.
_SECONDS = 300.0


class Reload(NamedTuple):
    """What is unloaded and loaded, in order, and whether the vendor's service does it in between."""

    unload: tuple[str, ...]
    load: tuple[str, ...]
    by_service: bool = False


def reload_of_stack(state: DriverState, by_service: bool, interrupted: Snapshot | None) -> Reload:
    """Return how the RDMA stack is reloaded: what stands on it goes first and comes back last.

    The service (openibd) replaces the modules of the stack itself; what it does not know is left to modprobe. What a
    reload that was ``interrupted`` had unloaded is loaded as well.
    """
    loaded = state["loaded"]
    peers = [name for name in module_graph.PEER_MEMORY if name in loaded]
    # Users of a storage module are unloaded before it.
    storage = sorted(
        (name for name in module_graph.STORAGE if name in loaded), key=lambda name: len(loaded[name]["users"])
    )
    replaced = [name for name in module_graph.REPLACED if name in loaded]
    auxiliary = [name for name in replaced if name in module_graph.AUXILIARY]
    again = [name for name in module_graph.LOADED_AGAIN if name in loaded or name in module_graph.ALWAYS_LOADED]
    unloaded = interrupted.get("modules", []) if interrupted is not None else []
    return Reload(
        unload=(*peers, *storage, *(auxiliary if by_service else replaced)),
        load=tuple(dict.fromkeys((*unloaded, *again, *reversed(storage), *peers))),
        by_service=by_service,
    )


def reload_work(reload: Reload, snapshot: Snapshot, compared: tuple[str, ...] = ()) -> Work:
    """Return how the reload is done: the network is written down, taken away, and brought back.

    What is written down stays until all of it is back: whoever finds the file finishes the work. ``compared`` are
    modules that must run as they are on the disk afterwards.
    """
    do: list[Operation] = [PutFile(JOURNAL, as_text({**snapshot, "modules": list(reload.load)}), 0o600)]
    do += [Run(("modprobe", "-r", name), _SECONDS) for name in reload.unload]
    if reload.by_service:
        do.append(Run(("systemctl", "restart", SERVICE), 2 * _SECONDS))
    back = restoring(reload, snapshot)
    return Work([*do, *_ended(reload, snapshot)], undo=back, verify=_verified(snapshot, compared))


def restore_work(reload: Reload, snapshot: Snapshot) -> Work:
    """Return how a reload that was interrupted is finished."""
    return Work(_ended(reload, snapshot), verify=_verified(snapshot, ()))


def _ended(reload: Reload, snapshot: Snapshot) -> list[Operation]:
    """Return how all comes back, and what was written down goes once the network is there.

    A module without which the network works may not load with another stack for good (nvidia-peermem until DKMS has
    built it again, NVIDIA/gpu-operator, issue 2868; storage that the vendor has not built): that fails once, here.
    """
    others = [name for name in reload.load if name not in _OF_THE_NETWORK]
    tried = [Run(("modprobe", name), _SECONDS, (0, 1)) for name in others]
    back = [Run(("modprobe", name), _SECONDS) for name in reload.load if name in _OF_THE_NETWORK]
    ended: list[Operation] = [_all_of([*back, *tried, *restore_operations(snapshot)])]
    if not others:
        return [*ended, RemoveFile(JOURNAL)]
    advice = (
        "the network is back, and no later run loads it: have it built for the driver that runs now (nvidia-peermem: "
        "dkms remove and dkms install of nvidia), and load it with modprobe"
    )
    strict = [Run(("modprobe", name), _SECONDS) for name in others]
    return [*ended, Each("load again what had been unloaded", [*strict, RemoveFile(JOURNAL)], advice)]


def _all_of(back: Sequence[Operation]) -> Each:
    """One thing that can't be brought back must not keep the rest of the host's network away."""
    advice = (
        f"bring back by hand what is named and remove {JOURNAL}, or reboot the host; each run tries again while that "
        "file is there"
    )
    return Each("bring all of the network back", back, advice)


def restoring(reload: Reload, snapshot: Snapshot) -> list[Operation]:
    """Return how the driver and its network come back, whatever is left of them."""
    return [*(Run(("modprobe", name), _SECONDS) for name in reload.load), *restore_operations(snapshot)]


def _verified(snapshot: Snapshot, compared: tuple[str, ...]) -> Callable[[Host], str]:
    def verify(host: Host) -> str:
        return "; ".join(filter(None, (missing(snapshot, host), _other_builds(host, compared))))

    return verify


def _other_builds(host: Host, compared: tuple[str, ...]) -> str:
    if not compared:
        return ""
    probe = Probe(host)
    on_disk = read_on_disk(probe, probe.text("/proc/sys/kernel/osrelease") or "", compared) or {}
    different = [name for name in compared if same_build(read_identity(probe, name), on_disk.get(name)) is False]
    return f"{', '.join(different)} still run{'s' if len(different) == 1 else ''} as before" if different else ""
