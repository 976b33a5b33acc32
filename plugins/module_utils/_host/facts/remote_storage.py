# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the file systems and swap of this host that are on its network, or on modules of its RDMA stack.

Sources in the kernel: fs/proc_namespace.c (mountinfo) and fs/nfs/super.c (``addr=`` and ``proto=`` of a mount);
drivers/scsi/scsi_transport_iscsi.c (sessions below their host, connections named after their session) and
drivers/infiniband/ulp/iser/iscsi_iser.c; drivers/nvme/host/fabrics.c and tcp.c (``address`` of a controller, with
``src_addr`` over TCP) and drivers/nvme/host/multipath.c (a disk with several controllers is below their subsystem);
drivers/infiniband/ulp/srp/ib_srp.c (``proc_name``).
"""

from __future__ import annotations

import posixpath
import re
from typing import Iterable, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..machine.access import MOUNTS
from ..machine.probe import Address, Probe, address_of, natural, printable
from .module_graph import MODULES_OF_MOUNTS

SWAPS = "/proc/swaps"
SESSIONS = "/sys/class/iscsi_session"
CONNECTIONS = "/sys/class/iscsi_connection"
ISCSI_HOSTS = "/sys/class/iscsi_host"
CONTROLLERS = "/sys/devices/virtual/nvme-fabrics/ctl"
NFS = ("nfs", "nfs4")
SWAP = "swap"
_BLOCK = "/sys/class/block"
_NVME = "/sys/class/nvme"
_DISKS = "/sys/dev/block"
_SUBSYSTEMS = "/sys/class/nvme-subsystem"
_CONTROLLER = re.compile(r"nvme\d+")
# The name of a namespace has the number of its controller, or of a subsystem that has that of its first one.
_NAMESPACE = re.compile(r"/dev/(nvme\d+)n\d+(?:p\d+)?")
_IN_PLACE = re.compile(
    r"/(?P<host>host\d+)/session(?P<session>\d+)/|/ctl/(?P<ctl>nvme\d+)/|/(?P<subsystem>nvme-subsys\d+)/"
)
_OF_DISK = re.compile(r"/(?P<block>nvme|drbd)\d|/(?P<host>host\d+)/")
_ESCAPED = re.compile(r"\\([0-7]{3})")
_MOST_NAMED = 3


class Mount(NamedTuple):
    """A mounted file system: mount point, type, device (``8:1``), source, and all options."""

    point: str
    kind: str
    device: str
    source: str
    options: Mapping[str, str]


class Way(NamedTuple):
    """The path to a server: its address, and the local address or interface if known."""

    over: str
    server: str
    own: str = ""
    netdev: str = ""


class Storage(NamedTuple):
    """A path to storage, and a clause that says what uses it."""

    way: Way
    carries: str


def read_all_mounts(probe: Probe) -> list[Mount]:
    """Return every mounted file system."""
    return parse_mounts(probe.content(MOUNTS) or "")


def read_remote_storage(probe: Probe, mounts: Sequence[Mount]) -> list[Storage]:
    """Return every path to mounted file systems and swap on the network, each once."""
    has_disks = probe.names(SESSIONS) or any(map(_CONTROLLER.fullmatch, probe.names(CONTROLLERS)))
    return [Storage(way, _clause(way, uses)) for way, uses in _used(probe, mounts, bool(has_disks)).items()]


def rdma_connections(probe: Probe) -> dict[Way, list[str]]:
    """Return every path to storage over RDMA, with the mount points and swap on it; NVMe is connected without, too."""
    ways = _used(probe, read_all_mounts(probe), has_disks=True)
    for name in probe.names(_NVME):
        way = _way_of_controller(probe, name)
        if way is not None:
            ways.setdefault(way, [])
    return {way: uses for way, uses in ways.items() if way.over in MODULES_OF_MOUNTS}


def _used(probe: Probe, mounts: Sequence[Mount], has_disks: bool) -> dict[Way, list[str]]:
    used: dict[Way, list[str]] = {}
    for mount in mounts:
        if mount.kind in NFS and "addr" in mount.options:
            over = "NFS over RDMA" if mount.options.get("proto", "").startswith("rdma") else "NFS"
            used.setdefault(Way(over, mount.options["addr"]), []).append(mount.point)
    for disk, uses in _disks(probe, mounts).items() if has_disks else ():
        for way in (way for part in _parts(probe, disk) for way in _ways_of(probe, part)):
            used.setdefault(way, []).extend(uses)
    return {way: list(dict.fromkeys(uses)) for way, uses in used.items()}


def read_mounts(probe: Probe) -> dict[str, list[str]]:
    """Return what needs a module of the RDMA stack, by its kind in ``CLIENTS``: mount points, swap, or a server."""
    mounts = read_all_mounts(probe)
    found: dict[str, list[str]] = {}
    for mount in mounts:
        found.setdefault(mount.kind, []).append(mount.point)
    for disk, points in _disks(probe, mounts).items():
        for kind in {_kind_of(probe, part) for part in _parts(probe, disk)}:
            found.setdefault(kind, []).extend(points)
    for way, uses in rdma_connections(probe).items():
        found.setdefault(way.over, []).extend(uses or [way.server])
    return {kind: found[kind] for kind in sorted(MODULES_OF_MOUNTS) if kind in found}


def parse_mounts(text: str) -> list[Mount]:
    """Parse mountinfo: device, mount point and options precede `` - ``; type, source and the type's options follow."""
    mounts = []
    for line in text.splitlines():
        general, _dash, special = line.partition(" - ")
        fields, of_kind = general.split(" "), special.split(" ")
        if len(fields) >= 6 and len(of_kind) >= 3:
            options = dict(option.partition("=")[::2] for option in f"{fields[5]},{of_kind[2]}".split(","))
            mounts.append(Mount(_plain(fields[4]), of_kind[0], fields[2], _plain(of_kind[1]), options))
    return mounts


def parse_address(text: str) -> Address | None:
    """Return the address in a text, without link scope and brackets; None if it is none."""
    return address_of(text.strip("[]").partition("%")[0])


def public_mounts(text: str) -> str:
    """Return the part of mountinfo that may be recorded: disks without names, servers, and directories of the root."""
    lines = []
    for mount in parse_mounts(text):
        point = "/" + mount.point.split("/")[1]
        if mount.kind in NFS:
            kept = ",".join(f"{key}={mount.options[key]}" for key in ("proto", "addr") if key in mount.options)
            lines.append(f"0 0 0:0 / {point} rw - {mount.kind} none {kept}\n")
        elif not mount.device.startswith("0:"):
            flags = [flag for flag in ("ro", "noexec") if flag in mount.options and mount.point == point]
            lines.append(f"0 0 {mount.device} / {point} {','.join(flags) or 'rw'} - disk none rw\n")
        elif mount.kind in MODULES_OF_MOUNTS:
            lines.append(f"0 0 0:0 / {point} rw - {mount.kind} none rw\n")
    return "".join(dict.fromkeys(lines))


def public_swaps(text: str) -> str:
    """Return the part of the list of swap that may be recorded: the kernel's names of disks."""
    return "".join(f"{name}\n" for name in _swaps(text))


def _plain(text: str) -> str:
    """Return a path with octal escapes of blanks and the like decoded."""
    return printable(_ESCAPED.sub(lambda found: chr(int(found.group(1), 8)), text))


def _disks(probe: Probe, mounts: Iterable[Mount]) -> dict[str, list[str]]:
    """Return the uses of each disk, by its path in /sys/devices: mount points, and swap."""
    uses: dict[tuple[str, str], list[str]] = {}
    for mount in mounts:
        # btrfs has a virtual device number, so its source is used.
        uses.setdefault(("" if mount.device.startswith("0:") else mount.device, mount.source), []).append(mount.point)
    for name in _swaps(probe.content(SWAPS) or ""):
        uses.setdefault(("", name), []).append(SWAP)
    disks: dict[str, list[str]] = {}
    for (device, source), points in uses.items():
        place = probe.target(f"{_DISKS}/{device}") if device else _place(probe, source)
        namespace = _NAMESPACE.fullmatch(source)
        if not place and namespace is not None:
            place = f"{CONTROLLERS}/{namespace.group(1)}/"
        if place:
            disks.setdefault(place, []).extend(points)
    return disks


def _swaps(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line.startswith("/dev/")]


def _place(probe: Probe, source: str) -> str | None:
    """Return the sysfs path of a disk by its device file, which may be one of the device mapper."""
    if not source.startswith("/dev/"):
        return None
    name = posixpath.basename(source)
    known = probe.target(f"{_BLOCK}/{name}")
    if known:
        return known
    mapped = (each for each in probe.names(_BLOCK) if each.startswith("dm-"))
    return next(
        (probe.target(f"{_BLOCK}/{each}") for each in mapped if probe.text(f"{_BLOCK}/{each}/dm/name") == name), None
    )


def _parts(probe: Probe, place: str) -> list[str]:
    """Return a disk and the disks below it (device mapper, RAID)."""
    seen = {place: None}
    waiting = [place]
    while waiting:
        for name in waiting.pop().partition("/block/")[2].split("/"):
            parts = probe.names(f"{_BLOCK}/{name}/slaves") if name else []
            targets = [probe.target(f"{_BLOCK}/{part}") for part in parts]
            waiting += [target for target in targets if target and target not in seen]
            seen.update(dict.fromkeys(filter(None, targets)))
    return list(seen)


def _kind_of(probe: Probe, place: str) -> str:
    """Return the kind of a disk by its driver, empty for others."""
    found = _OF_DISK.search(place)
    if found is None:
        return ""
    return found["block"] or probe.text(f"/sys/class/scsi_host/{found['host']}/proc_name") or ""


def _ways_of(probe: Probe, place: str) -> list[Way]:
    found = _IN_PLACE.search(f"{place}/")
    if found is None:
        return []
    if found["session"]:
        return _ways_of_session(probe, found["host"], found["session"])
    controllers = [found["ctl"]] if found["ctl"] else probe.names(f"{_SUBSYSTEMS}/{found['subsystem']}")
    ways = [_way_of_controller(probe, name) for name in controllers if _CONTROLLER.fullmatch(name)]
    return [way for way in ways if way is not None]


def _ways_of_session(probe: Probe, host: str, session: str) -> list[Way]:
    iser = "iser" in (probe.text(f"/sys/class/scsi_host/{host}/proc_name") or "")
    own, netdev = (probe.text(f"{ISCSI_HOSTS}/{host}/{name}") or "" for name in ("ipaddress", "netdev"))
    connections = [name for name in probe.names(CONNECTIONS) if name.startswith(f"connection{session}:")]
    # A target may redirect a session to another address: the persistent one is the portal's.
    servers = [
        probe.text(f"{CONNECTIONS}/{name}/{attribute}", ("ENOTCONN",)) or ""
        for name in connections
        for attribute in ("address", "persistent_address")
    ]
    return [Way("iSER" if iser else "iSCSI", server, own, netdev) for server in dict.fromkeys(filter(None, servers))]


def _way_of_controller(probe: Probe, name: str) -> Way | None:
    place = probe.first((f"{CONTROLLERS}/{name}", f"{_NVME}/{name}"))
    transport = probe.text(f"{place}/transport") if place else None
    if transport not in {"rdma", "tcp"}:
        return None
    address = probe.text(f"{place}/address") or ""
    fields = dict(part.partition("=")[::2] for part in address.split(","))
    own = fields.get("src_addr") or fields.get("host_traddr") or ""
    return Way(f"NVMe/{transport.upper()}", fields.get("traddr", ""), own, fields.get("host_iface", ""))


def _clause(way: Way, uses: list[str]) -> str:
    noun = f"mount{'s' if len(uses) > 1 else ''}" if way.over.startswith("NFS") else "disk of"
    return f"{way.over} {noun} {named(sorted(uses, key=natural), _MOST_NAMED)}"
