# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the facts about the driver stack, peer memory and GPUs. None means that the host does not report a value."""

from __future__ import annotations

from typing import Dict, List, TypedDict, Union


class Service(TypedDict):
    """A systemd unit: whether it is installed, enabled, masked and active (gpus.py)."""

    installed: bool
    enabled: bool
    masked: bool
    active: bool


class Nvlink(TypedDict):
    """What manages NVLink between the GPUs of a host or rack (gpus.py)."""

    switches: list[str]
    managers: list[str]
    service: str | None
    state: Service
    by_container: bool


class MigMode(TypedDict):
    """Whether a GPU is in MIG mode, now and after its next reset (gpus.py)."""

    current: bool
    pending: bool


class Identity(TypedDict):
    """Values that identify the build of a module (driver/read.py)."""

    version: str | None
    srcversion: str | None
    build_id: str | None


class _Loaded(TypedDict):
    refcount: int
    users: list[str]


class Loaded(_Loaded, total=False):
    """A loaded module of the stack or a user of it (driver/read.py); only modules of ``IDENTITY`` have optional
    keys."""

    version: str | None
    srcversion: str | None
    build_id: str | None


class OnDisk(Identity):
    """A module that modprobe would load (driver/read.py)."""

    path: str
    depends: list[str]
    signer: str | None


class Built(TypedDict):
    """A driver that DKMS built for a kernel (driver/read.py)."""

    name: str
    version: str
    kernel: str


class Initrd(TypedDict):
    """The initial RAM disk of a kernel, and whether its driver differs from the installed one (driver/modules.py)."""

    image: str
    stale: bool


class User(TypedDict):
    """A process and a file that it has open (driver/blockers.py)."""

    pid: int
    program: str
    path: str


class Container(TypedDict):
    """What NVIDIA's driver container left behind or holds (driver/read.py)."""

    ready: bool
    lock: bool
    blacklist: bool


class SigningKey(TypedDict):
    """The key that local builds are signed with (driver/modules.py)."""

    path: str | None
    enrolled: bool | None


class Openib(TypedDict):
    """Whether the vendor's service loads the driver at boot, and whether it may be stopped (openib.py)."""

    onboot: bool | None
    may_stop: bool | None


# Options of ip(8) with their values, and the number of the function; the VLAN has several.
Managed = Dict[str, Union[int, str, List[Union[int, str]]]]


class SnapshotFunction(TypedDict):
    """A PF and its VFs, to restore."""

    pci: str
    vfs: int
    autoprobe: bool
    bound: list[str]
    managed: list[Managed]


class SnapshotLink(TypedDict):
    """An interface of a function, to restore."""

    pci: str
    name: str
    mtu: int | None
    up: bool
    mac: str | None
    master: str | None
    addresses: list[list[str]]


class SnapshotVlan(TypedDict):
    """A VLAN on such an interface, to restore."""

    name: str
    parent: str
    id: int | None
    protocol: str
    settings: list[str]
    mac: str | None
    mtu: int | None
    up: bool
    master: str | None
    addresses: list[list[str]]


class SnapshotRoute(TypedDict):
    """A route to restore, as arguments of ip(8)."""

    version: int
    words: list[str]


class _Modules(TypedDict, total=False):
    modules: list[str]


class Snapshot(_Modules):
    """What a driver reload removes (driver/snapshot.py).

    ``modules`` are the modules to load again, in order; once they are unloaded, no other record of them exists.
    """

    driver: str
    functions: list[SnapshotFunction]
    links: list[SnapshotLink]
    vlans: list[SnapshotVlan]
    routes: list[SnapshotRoute]


class Stacked(TypedDict):
    """A device on top of an interface or function (driver/stack.py)."""

    on: str
    name: str
    kind: str


class DriverState(TypedDict):
    """The driver stack of a host (driver/read.py); driver/stack.py adds the network if a reload may be needed."""

    kernel: str
    next_kernel: str
    family: str | None
    packages: dict[str, str] | None
    database_fails: bool
    unfinished: dict[str, str]
    dpkg_interrupted: bool
    on_disk: dict[str, OnDisk] | None
    next_on_disk: dict[str, OnDisk] | None
    loaded: dict[str, Loaded]
    mounts: dict[str, list[str]]
    built: list[Built]
    headers: dict[str, bool]
    headers_offered: dict[str, bool | None]
    initrds: dict[str, Initrd]
    users: list[User]
    locks: list[User]
    container: Container
    key: SigningKey | None
    free_mib: dict[str, int]
    openibd: bool
    openib: Openib
    archive: bool | None
    journal: str | None
    snapshot: Snapshot | None
    stacked: list[Stacked]


class Symbols(TypedDict):
    """Which symbols a symbol table contains (driver/stack.py)."""

    peer_memory: bool | None
    dma_buf: bool | None


class SymbolTables(TypedDict):
    """The symbols of the running code and of the installed modules (driver/stack.py)."""

    running: Symbols
    on_disk: Symbols


class PeerState(TypedDict):
    """What decides how GPUs give NICs access to their memory (driver/stack.py)."""

    symbols: SymbolTables
    exporter: str | None
    modules: dict[str, OnDisk] | None
    clients: list[str]
    operator: list[str]
    loaded_at_boot: dict[str, list[str]]
