# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read which GPUs are divided into instances (MIG), and the service that manages NVLink: fabric manager or IMEX.

On hosts with NVSwitches, CUDA fails with error 802 (cudaErrorSystemNotReady) until the fabric manager has configured
them, so it must start at each boot (NVIDIA/nccl-tests issue 264; pytorch/pytorch issue 35710). Since B200 it needs its
subnet manager nvlsm (siderolabs/extensions pull request 717). Trays of a GB200 or GB300 rack have no NVSwitch and no
fabric manager, but nvidia-imex (IMEX), either as the host's own service or in pods of ComputeDomains, never both
(Azure/AgentBaker pull request 8839; NVIDIA/cloud-native-docs issue 453). The GPU Operator's driver container starts the
fabric manager itself (NVIDIA/gpu-driver-container, nvidia-driver).

The driver has a world-readable directory for each instance (/proc/driver/nvidia/capabilities/gpuN/mig/giN; MIG User
Guide, device nodes and capabilities); N of gpuN is the minor number of the GPU's device. Whether a GPU without
instances is in MIG mode, and its mode after the next reset, only nvidia-smi reports.
"""

from __future__ import annotations

import re
from typing import Iterable, Sequence

from ..machine.host_files import UNIT_DIRECTORIES
from ..machine.probe import PCI, Probe
from .devices import VFIO_DRIVERS, has_hidden_switches, is_of_a_rack
from .driver_shapes import MigMode, Nvlink, Service
from .pci import Function
from .shapes import Gpu, Nic

FABRIC_MANAGER, IMEX = "nvidia-fabricmanager", "nvidia-imex"
_STARTERS = re.compile(r".+\.(?:wants|requires|upholds)")
# RHEL AI and bootc images start the fabric manager by a path unit that waits for NVSwitches.
_PATHS = {"nvidia-fabricmanager.service": "nvidia-nvswitch-devices.path"}
# cgroup v2 and v1; systemd removes the cgroup of a stopped unit.
_GROUPS = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")
_FAMILY_OF_MANAGERS, SIGN_OF_MANAGERS = "ConnectX-7", b"SW_MNG"
CAPABILITIES = "/proc/driver/nvidia/capabilities"
QUERY = ("nvidia-smi", "--query-gpu=pci.bus_id,mig.mode.current,mig.mode.pending", "--format=csv,noheader")
# It initializes idle GPUs, one after the other.
_SECONDS = 60.0
_ROW = re.compile(r"([0-9a-f]{4,8}):(\S{7}),\s*(Enabled|Disabled),\s*(Enabled|Disabled)", re.IGNORECASE)
# Files of the GPU Operator's driver container (NVIDIA/gpu-operator, NVIDIA/gpu-driver-container).
OPERATOR_FILES = (
    "/run/nvidia/validations/.driver-ctr-ready",
    "/run/nvidia/nvidia-driver.pid",
    "/run/nvidia/driver/usr/bin/nvidia-smi",
)


def switch_managers(probe: Probe, nics: Iterable[Nic], gpus: Iterable[Gpu]) -> list[str]:
    """Return the functions that manage NVSwitches which are not PCI devices, by address; they are not fabric NICs.

    Their vital product data contains SW_MNG, by which the fabric manager and its subnet manager find them
    (siderolabs/extensions pull request 717; bottlerocket-os/bottlerocket-kernel-kit pull request 142). Only root may
    read it.
    """
    if not any(has_hidden_switches(gpu["vendor"], gpu["device"]) for gpu in gpus):
        return []
    candidates = [nic["address"] for nic in nics if nic["pf"] is None and nic["family"] == _FAMILY_OF_MANAGERS]
    return [address for address in candidates if SIGN_OF_MANAGERS in (probe.data(f"{PCI}/{address}/vpd") or b"")]


def read_nvlink(
    probe: Probe, functions: Iterable[Function], gpus: Sequence[Gpu], managers: Sequence[str]
) -> Nvlink | None:
    """Return the service that NVLink needs and its state; None if the host needs none and has no ``managers``.

    A host that passes all its GPUs through to guests needs none: a guest or a service VM manages NVLink. ``switches``
    are the NVSwitches that are PCI devices and driven by the host, ``managers`` the functions that manage others.
    ``by_container`` says that the GPU Operator's driver container runs here.
    """
    switches = [
        function.address for function in functions if function.id.is_nvswitch and function.driver not in VFIO_DRIVERS
    ]
    service: str | None = None
    own = [gpu for gpu in gpus if gpu["driver"] not in VFIO_DRIVERS]
    if own and (switches or any(has_hidden_switches(gpu["vendor"], gpu["device"]) for gpu in own)):
        service = FABRIC_MANAGER
    elif any(is_of_a_rack(gpu["vendor"], gpu["device"]) for gpu in own):
        service = IMEX
    elif not managers:
        return None
    return {
        "switches": switches,
        "managers": list(managers),
        "service": service,
        "state": _state(probe, f"{service or FABRIC_MANAGER}.service"),
        "by_container": container_runs(probe),
    }


def read_instances(probe: Probe, gpus: Iterable[Gpu]) -> dict[str, int]:
    """Return the number of instances of each GPU that has any, by PCI address."""
    by_minor: dict[str, int] = {}
    for name in probe.names(CAPABILITIES):
        if re.fullmatch(r"gpu\d{1,4}", name):
            found = [part for part in probe.names(f"{CAPABILITIES}/{name}/mig") if re.fullmatch(r"gi\d{1,3}", part)]
            if found:
                by_minor[name[3:]] = len(found)
    if not by_minor:
        return {}
    minors = {gpu["address"]: _minor(probe, gpu["address"]) for gpu in gpus}
    return {address: by_minor[minor] for address, minor in minors.items() if minor in by_minor}


def read_modes(probe: Probe, gpus: Iterable[Gpu]) -> dict[str, MigMode]:
    """Return the MIG modes of GPUs that support MIG, from nvidia-smi; nothing if it does not answer."""
    if not any(gpu["driver"] == "nvidia" for gpu in gpus) or not probe.host.exists(CAPABILITIES):
        return {}
    return parse_modes(probe.output(*QUERY, seconds=_SECONDS))


def parse_modes(text: str) -> dict[str, MigMode]:
    """Parse rows such as ``00000000:36:00.0, Enabled, Enabled``; GPUs without MIG have [N/A] instead."""
    found: dict[str, MigMode] = {}
    for line in text.splitlines():
        row = _ROW.fullmatch(line.strip())
        if row:
            address = f"{row[1][-4:]}:{row[2]}".lower()
            found[address] = {"current": row[3].lower() == "enabled", "pending": row[4].lower() == "enabled"}
    return found


def container_runs(probe: Probe) -> bool:
    """Return whether the GPU Operator's driver container runs here."""
    return any(probe.host.exists(path) for path in OPERATOR_FILES)


def _state(probe: Probe, unit: str) -> Service:
    """Return the state of a unit from files (systemd.unit(5)): links of other units or to /dev/null, its cgroup."""
    exists = probe.host.exists
    starters = [
        f"{place}/{name}" for place in UNIT_DIRECTORIES[:3] for name in probe.names(place) if _STARTERS.fullmatch(name)
    ]
    started = [unit, *([_PATHS[unit]] if unit in _PATHS else [])]
    masked = any(probe.target(f"{directory}/{unit}") == "/dev/null" for directory in UNIT_DIRECTORIES[:2])
    wanted = any(exists(f"{directory}/{name}") for directory in starters for name in started)
    return {
        "installed": any(exists(f"{directory}/{unit}") for directory in UNIT_DIRECTORIES) and not masked,
        "enabled": wanted and not masked,
        "masked": masked,
        "active": any(exists(f"{group}/{unit}") for group in _GROUPS),
    }


def _minor(probe: Probe, address: str) -> str | None:
    content = probe.content(f"/proc/driver/nvidia/gpus/{address}/information") or ""
    found = re.search(r"^Device Minor:\s*(\d{1,4})\s*$", content, re.MULTILINE)
    return found[1] if found else None
