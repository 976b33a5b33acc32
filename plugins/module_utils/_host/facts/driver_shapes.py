# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shapes of facts about the driver stack, its peer memory and GPUs. What a host does not tell is None."""

from __future__ import annotations

from typing import Dict, List, TypedDict, Union


class Service(TypedDict):
    """A unit of systemd: whether it is there, starts at boot, may not start at all, and runs (gpus.py)."""

    installed: bool
    enabled: bool
    masked: bool
    active: bool


class Nvlink(TypedDict):
    """What sets NVLink up between the GPUs of a host or a rack (gpus.py)."""

    switches: list[str]
    managers: list[str]
    service: str | None
    state: Service
    by_container: bool


class MigMode(TypedDict):
    """Whether a GPU is divided, now and after its next reset (gpus.py)."""

    current: bool
    pending: bool


class Identity(TypedDict):
    """What tells the build of a module (driver/read.py)."""

    version: str | None
    srcversion: str | None
    build_id: str | None


class _Loaded(TypedDict):
    refcount: int
    users: list[str]


class Loaded(_Loaded, total=False):
    """A loaded module of the stack or on it (driver/read.py); what is optional is there of those of ``IDENTITY``."""

    version: str | None
    srcversion: str | None
    build_id: str | None


class OnDisk(Identity):
    """A module that modprobe would load (driver/read.py)."""

    path: str
    depends: list[str]
    signer: str | None


class Built(TypedDict):
    """A driver that DKMS has built for a kernel (driver/read.py)."""

    name: str
    version: str
    kernel: str


class Initrd(TypedDict):
    """The initial RAM disk of a kernel, and whether it holds another driver than the disk (driver/modules.py)."""

    image: str
    stale: bool


class User(TypedDict):
    """A process with a file that it has open (driver/blockers.py)."""

    pid: int
    program: str
    path: str


class Container(TypedDict):
    """What NVIDIA's driver container has left or holds (driver/read.py)."""

    ready: bool
    lock: bool
    blacklist: bool


class SigningKey(TypedDict):
    """The key that local builds are signed with (driver/modules.py)."""

    path: str | None
    enrolled: bool | None


class Openib(TypedDict):
    """Whether the vendor's service loads the driver at boot and may be stopped (driver/openib.py)."""

    onboot: bool | None
    may_stop: bool | None


# Words of ip(8) with their values, and the number of the function; a VLAN has several.
Managed = Dict[str, Union[int, str, List[Union[int, str]]]]


class SnapshotFunction(TypedDict):
    """A physical function and its virtual ones as they come back."""

    pci: str
    vfs: int
    autoprobe: bool
    bound: list[str]
    managed: list[Managed]


class SnapshotLink(TypedDict):
    """An interface of a function as it comes back."""

    pci: str
    name: str
    mtu: int | None
    up: bool
    mac: str | None
    master: str | None
    addresses: list[list[str]]


class SnapshotVlan(TypedDict):
    """A VLAN on such an interface as it comes back."""

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
    """A route as it comes back, in the words of ip(8)."""

    version: int
    words: list[str]


class _Modules(TypedDict, total=False):
    modules: list[str]


class Snapshot(_Modules):
    """What a reload of a driver takes away (driver/snapshot.py).

    ``modules`` are what it loads again, in order; once it has unloaded them nothing else tells.
    """

    driver: str
    functions: list[SnapshotFunction]
    links: list[SnapshotLink]
    vlans: list[SnapshotVlan]
    routes: list[SnapshotRoute]


class Stacked(TypedDict):
    """What stands on an interface or a function (driver/stack.py)."""

    on: str
    name: str
    kind: str


class DriverState(TypedDict):
    """The driver stack of a host (driver/read.py); driver/stack.py adds the network where a reload may be needed."""

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
    """Which symbols a table has (driver/stack.py)."""

    peer_memory: bool | None
    dma_buf: bool | None


class SymbolTables(TypedDict):
    """The symbols of the code that runs and of the modules on the disk (driver/stack.py)."""

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
