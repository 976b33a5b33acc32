# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives interfaces and RDMA devices their names.

The file comes first: if the run is killed after it, the next one finds the name wrong and goes on. udev reads changed
files by itself; the reload only saves a few seconds.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Callable, Sequence

from ...engine.context import Context, Handler
from ...engine.operations import Found, Operation, PutFile, RemoveFile, Run, Work, set_link
from ...engine.ports import interfaces_of
from ...engine.steps import BOOT, Step, Value, key_of
from ...facts.functions import show_command, shown_port
from ...machine.access import Host, HostError
from ...machine.host_files import MARKER
from ...machine.probe import PCI, Probe
from ...spec.host import HostSpec, wanted_interface
from . import rdma, representors
from .files import STAMP, Files, is_naming_file, representors_file, stamp_of_digest
from .names import Name, Names, leads_back
from .order import Turn

# A rename with down and up around it is one program, so that ending this one never leaves the interface down. The file
# of its commands stands where a next run finds and removes it when this one is ended before.
BATCH = "/etc/systemd/network/rdma-fabric-rename"
# Also takes a rename back: it is still there when ip fails.
_NO_BATCH = RemoveFile(BATCH)
_INITRAMFS_SECONDS = 900.0
# Each configures the interface that has its former name again. One that does not run is left alone; a unit that the
# host does not have gives status 5 (systemctl(1)), and the others are restarted all the same.
RESTART_MANAGERS = Run(
    (
        "systemctl",
        "--no-block",
        "try-restart",
        "systemd-networkd.service",
        "NetworkManager.service",
        "networking.service",
        "wicked.service",
    ),
    accepted=(0, 5),
)
ERRORS = MappingProxyType(
    {
        "EEXIST": (
            "another interface has this name, or has it as an alternative name (ip link show NAME shows which); next: "
            "give that one another name, take the alternative name from it (ip link property del dev INTERFACE altname "
            "NAME), or choose another one in rdma_fabric_interfaces, and run again"
        ),
        "EBUSY": (
            "the interface is up and this kernel renames none that is; next: take it down (state: down) for the run "
            "that renames it, and run again"
        ),
        "ENODEV": "the device is gone or has another name now; next: run again, which plans from the current state",
        "EINVAL": "the kernel does not take this name; next: choose another one in rdma_fabric_interfaces, run again",
    }
)


def work(context: Context, step: Step) -> Work:
    """Return how a name is set now, at boot or both, a naming file removed, or the initramfs rebuilt."""
    key = key_of(step)
    if key == STAMP:
        return _initramfs(context, step)
    if is_naming_file(key):
        return context.work_of_removal(key, context.udev_reload())
    if key.endswith(representors.KEY):
        return _representors(context, key, step)
    if key.endswith(rdma.SUFFIX):
        return _rdma_device(context, key[: -len(rdma.SUFFIX)])
    names = context.once(Names)
    name = next(name for name in names.by_current.values() if name.interface.key == key)
    if step["when"] == BOOT:
        return _at_boot(context, name)
    return _interface(context, name, next(turn for turn in names.turns if turn.rename.key == key))


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Add the original name of an interface, an RDMA device or representors to the spec."""
    if key == representors.KEY and isinstance(original, dict):
        for address, names in representors.originals_by_port(original).items():
            wanted_interface(desired, address)["representor_names"] = names
    elif key.endswith(representors.SUFFIX):
        return
    elif isinstance(original, str) and not key.startswith("/"):
        is_rdma = key.endswith(rdma.SUFFIX)
        entry = wanted_interface(desired, key[: -len(rdma.SUFFIX)] if is_rdma else key)
        if is_rdma:
            entry["rdma_name"] = original
        else:
            entry["name"] = original


def _files_only(context: Context, files: Files) -> Work:
    return Work([*context.boot_operations(files), *context.udev_reload()], context.boot_undo(files))


def _at_boot(context: Context, name: Name) -> Work:
    """Return how a name is given at the next boot; an uplink's that differs can be taken back after that boot.

    The interface is found by its new name then: a port of virtio has it below another device.
    """
    work = _files_only(context, name.files)
    if name.live or not name.differs or not leads_back(context, name):
        return work
    gone = (0, 1)
    back: list[Operation] = [*work.undo, *context.udev_reload()]
    back += [
        set_link(name.wanted, "down", accepted=gone),
        set_link(name.wanted, "name", name.current, accepted=gone),
        set_link(name.current, "up", accepted=gone),
        # Where it could not be renamed, it must not stay down either.
        set_link(name.wanted, "up", accepted=gone),
        RESTART_MANAGERS,
    ]
    return work._replace(undo_after_boot=back)


def _interface(context: Context, name: Name, turn: Turn) -> Work:
    do: list[Operation] = [*context.boot_operations(name.files), *context.udev_reload()]
    undo: list[Operation] = []
    if turn.parking is not None:
        holder = context.once(Names).by_current[turn.parking.holder]
        do += _renaming(holder, turn.parking.holder, turn.parking.temporary)
        undo = _renaming_back(holder, turn.parking.holder)
    free, give_back = _freed(turn.current, name.wanted, f"{{port:{name.interface.key}}}")
    do += [free, *_renaming(name, turn.current, name.wanted)]
    undo = [*_renaming_back(name, turn.current), give_back, *undo, *context.boot_undo(name.files)]
    undo += [_NO_BATCH] if _NO_BATCH in do else []

    def verify(host: Host) -> str:
        return _not_there(lambda: interfaces_of(host, name.interface.key), name.interface.key, name.wanted)

    return Work(do, undo, verify)


def _renaming(name: Name, current: str, wanted: str) -> list[Operation]:
    if not name.goes_down:
        return [set_link(current, "name", wanted)]
    return _batch(_rename_line(current, wanted, goes_down=True))


def _rename_line(current: str, wanted: str, *, goes_down: bool) -> str:
    line = f"link set dev {current} name {wanted}\n"
    return f"link set dev {current} down\n{line}link set dev {wanted} up\n" if goes_down else line


def _batch(lines: str) -> list[Operation]:
    """Return how ``ip`` executes these lines in one process."""
    return [PutFile(BATCH, f"# {MARKER}\n{lines}", 0o600), Run(("ip", "-batch", BATCH)), _NO_BATCH]


def _renaming_back(name: Name, former: str) -> list[Operation]:
    """Return how an interface gets its former name back, found by its place: it may not have lost it yet."""
    return _back(f"{{port:{name.interface.key}}}", former, goes_down=name.goes_down)


def _representors(context: Context, key: str, step: Step) -> Work:
    if key.endswith(representors.SUFFIX):
        return _files_only(context, representors_file(key[: -len(representors.SUFFIX)], str(step["to"])))
    return _representors_now(context.once(representors.Representors))


def _representors_now(found: representors.Representors) -> Work:
    """A host may have hundreds, so one process renames all; each is given its former name by what it stands for."""
    lines = ""
    undo: list[Operation] = []
    for turn in found.turns:
        one = found.of_key(turn.rename.key)
        back = _representor_back(one, turn.current)
        if turn.parking is not None:
            holder = found.of_key(turn.parking.key)
            lines += _rename_line(turn.parking.holder, turn.parking.temporary, goes_down=holder.goes_down)
            back += _representor_back(holder, turn.parking.holder)
        lines += _rename_line(turn.current, one.wanted, goes_down=one.goes_down)
        undo = [*back, *undo]
    wanted = list(found.by_current.values())
    going = {turn.rename.key for turn in found.turns}

    def verify(host: Host) -> str:
        wrong = [_misnamed(host, one) for one in wanted if one.key in going]
        return "; ".join(filter(None, wrong))

    return Work(_batch(lines), [*undo, _NO_BATCH], verify)


def _representor_back(one: representors.Representor, former: str) -> list[Operation]:
    return _back(f"{{representor:{one.address}:{one.port_name}}}", former, goes_down=one.goes_down)


def _back(place: str, former: str, *, goes_down: bool) -> list[Operation]:
    rename = set_link(place, "name", former)
    return [set_link(place, "down"), rename, set_link(place, "up")] if goes_down else [rename]


def _misnamed(host: Host, one: representors.Representor) -> str:
    path = f"{PCI}/{one.address}/net/{one.wanted}/phys_port_name"
    try:
        now = host.read(path).strip()
    except HostError as error:
        return f"{path} can't be read ({error.code})"
    return "" if now == one.port_name else f"{one.wanted} is the representor {now}, not {one.port_name}"


def _rdma_device(context: Context, address: str) -> Work:
    devices = rdma.Devices(context)
    device = next(device for device in devices.by_current.values() if device.interface.key == address)
    turn = next((turn for turn in devices.turns if turn.rename.key == address), None)
    if turn is None:
        return _files_only(context, device.files)
    do: list[Operation] = [*context.boot_operations(device.files), *context.udev_reload()]
    undo: list[Operation] = []
    if turn.parking is not None:
        do.append(_rdma_rename(turn.parking.holder, turn.parking.temporary))
        undo.append(_rdma_rename(f"{{rdma:{turn.parking.key}}}", turn.parking.holder))
    do.append(_rdma_rename(turn.current, device.wanted))
    undo = [_rdma_rename(f"{{rdma:{address}}}", turn.current), *undo, *context.boot_undo(device.files)]

    def verify(host: Host) -> str:
        directory = f"{PCI}/{address}/infiniband"
        return _not_there(lambda: host.list(directory), directory, device.wanted)

    return Work(do, undo, verify)


def _rdma_rename(current: str, wanted: str) -> Run:
    return Run(("rdma", "dev", "set", current, "name", wanted))


def _not_there(look: Callable[[], Sequence[str]], place: str, wanted: str) -> str:
    try:
        names = look()
    except HostError as error:
        return f"{error.path} can't be read ({error.code})"
    return "" if wanted in names else f"{place} has {', '.join(names) or 'nothing'}, not {wanted}"


def _initramfs(context: Context, step: Step) -> Work:
    initramfs = context.actual.facts["naming"]["initramfs"]
    update = (initramfs["update"] if initramfs is not None else None) or ()
    stamp: Operation = PutFile(STAMP, stamp_of_digest(str(step["to"]))) if step["to"] else RemoveFile(STAMP)
    rebuild = Run(tuple(update), _INITRAMFS_SECONDS)
    return Work([rebuild, stamp], undo_after_boot=[rebuild, *context.boot_undo({STAMP: ""})])


def _freed(current: str, wanted: str, place: str) -> tuple[Operation, Operation]:
    """Return how the interface ``current`` loses the alternative name ``wanted``, and how it gets it back.

    To the kernel a name is in use whatever kind it is of, also by the same interface: EEXIST (dev_prep_valid_name and
    netdev_name_in_use, net/core/dev.c). udev gives some itself (AlternativeNamesPolicy= of systemd.link(5)). ``place``
    is what operations call the interface whatever its name is then. One that has no such name keeps all.
    """
    lost: list[str] = []

    def free(host: Host) -> Sequence[Operation]:
        if wanted not in _alternative_names(host, current):
            return []
        lost.append(wanted)
        return [Run(("ip", "link", "property", "del", "dev", current, "altname", wanted))]

    def give_back(_host: Host) -> Sequence[Operation]:
        return [Run(("ip", "link", "property", "add", "dev", place, "altname", name)) for name in lost]

    return (
        Found(f"take the alternative name {wanted} from {current}", free),
        Found(f"give {current} its alternative name {wanted} back", give_back),
    )


def _alternative_names(host: Host, name: str) -> list[str]:
    link, _functions = shown_port(Probe(host).output(*show_command(name)))
    return [str(each) for each in link.get("altnames") or []]


HANDLER = Handler(work, ERRORS, restore, parts=True)
