# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the facts about a host's settings, which only include settings of the spec.

None means that the host does not report a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, TypedDict, Union

if TYPE_CHECKING:
    from ..spec.qos_values import Ets


# Bytes or files, or ``infinity``.
Limits = Dict[str, Union[int, str, None]]


class _Loader(TypedDict):
    loader: str | None
    update: list[str]
    cannot: str


class Loader(_Loader, total=False):
    """The boot loader (kernel_arguments.py); optional keys belong to systemd-boot."""

    line: str
    kernels: dict[str, str]


class KernelArguments(Loader):
    """The kernel command line and the program that writes it (kernel_arguments.py)."""

    running: list[str]
    next: list[str] | None
    removed: list[str]
    cpu_vendor: str | None


class _Hugepages(TypedDict):
    sizes: list[str]
    memory: int | None
    pages: dict[str, int | None]


class Hugepages(_Hugepages, total=False):
    """Huge pages in the kernel, the units that count them, and who else sets their number (memory.py)."""

    kubelets: list[str]
    also: list[Later]


class UnitLimits(TypedDict):
    """The limits of a unit that runs containers (memory.py)."""

    limits: Limits
    running: Limits | None


class LaterLimit(TypedDict):
    """A limit that is set after ours (memory.py)."""

    file: str
    whom: str
    key: str
    limit: int | str | None


class ServiceLimits(TypedDict):
    """The limits of services (memory.py)."""

    systemd: bool
    default: Limits
    units: dict[str, UnitLimits]
    nr_open: int | None
    later: list[LaterLimit]


class Later(TypedDict):
    """What a file that is applied after ours sets at boot (sysctls.py)."""

    file: str
    value: str


class QosDevice(TypedDict):
    """The QoS of an RDMA device (qos.py)."""

    name: str
    tos: int | None
    traffic_class: int | None


class _QosPort(TypedDict):
    files: list[str]
    dcb: str | None
    rdma: QosDevice | None


class QosPort(_QosPort, total=False):
    """The QoS of a port (qos.py); optional keys are present if they are in the spec and readable."""

    dcbx: str | None
    pause: dict[str, bool] | None
    trust: str | None
    dscp: dict[str, int] | None
    pfc: list[int] | None
    pfc_capacity: int | None
    headroom: dict[str, int]
    cable_length: int | None
    ets: Ets | None
    ecn: dict[str, list[int]]
    cnp_dscp: int | None
    cnp_dscp_in: str | None
    cnp_priority: int | str | None
    cnp_priority_in: str | None


class HostQos(TypedDict):
    """The QoS of a host (qos.py)."""

    ports: dict[str, QosPort]
    lldpad: bool
    mlnx_qos: bool
    configfs: bool
    rdma_cm: bool
    renamed: bool


class Neighbours(TypedDict):
    """A neighbour table that is too small: its entries, and how often it was full since boot.

    Above ``soft`` entries others are dropped, at ``hard`` new ones are refused.
    """

    entries: int
    overflows: int
    soft: int
    hard: int


class Settings(TypedDict, total=False):
    """The host's values of the settings in the spec (settings.py)."""

    kernel_arguments: KernelArguments
    netns_mode: str | None
    hugepages: Hugepages
    limits: ServiceLimits
    sysctl: dict[str, str | None]
    sysctl_absent: list[str]
    sysctl_later: dict[str, Later]
    sysctl_conf: dict[str, str]
    addresses: dict[str, list[str]] | None
    shared_subnets: dict[str, list[str]]
    neighbours: dict[str, Neighbours]
    qos: HostQos
