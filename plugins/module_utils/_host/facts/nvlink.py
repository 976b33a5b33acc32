# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what sets NVLink up: the fabric manager of hosts with NVSwitches, IMEX of hosts of a rack.

Until the fabric manager has set the NVSwitches up, CUDA ends with error 802 (cudaErrorSystemNotReady), so it has to
start at each boot (NVIDIA/nccl-tests issue 264; pytorch/pytorch issue 35710). From B200 on it needs its subnet manager
nvlsm (siderolabs/extensions pull request 717). Trays of a GB200 or GB300 rack have no NVSwitch and no fabric manager,
but nvidia-imex, either as the host's own service or in pods of ComputeDomains, never both (Azure/AgentBaker pull
request 8839; NVIDIA/cloud-native-docs issue 453). The GPU Operator's driver container starts the fabric manager by
itself (NVIDIA/gpu-driver-container, nvidia-driver).
"""

from __future__ import annotations

import re
from typing import Iterable, Sequence

from ..machine.paths import UNIT_DIRECTORIES
from ..machine.probe import Probe
from .devices import VFIO_DRIVERS, has_hidden_switches, is_of_a_rack
from .gpu_operator import container_runs
from .gpu_shapes import Nvlink, Service
from .pci import PCI, Function
from .shapes import Gpu, Nic

FABRIC_MANAGER, IMEX = "nvidia-fabricmanager", "nvidia-imex"
_STARTERS = re.compile(r".+\.(?:wants|requires|upholds)")
# RHEL AI and bootc images start the fabric manager by a path that NVSwitches appear at.
_PATHS = {"nvidia-fabricmanager.service": "nvidia-nvswitch-devices.path"}
# Of cgroup v2, and of v1; systemd removes the group of a unit that has stopped.
_GROUPS = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")
_FAMILY_OF_MANAGERS, SIGN_OF_MANAGERS = "ConnectX-7", b"SW_MNG"


def switch_managers(probe: Probe, nics: Iterable[Nic], gpus: Iterable[Gpu]) -> list[str]:
    """Return the functions that manage NVSwitches which PCI does not show, by address; they are no NICs of the fabric.

    Their vital product data has SW_MNG, as the fabric manager and its subnet manager find them (siderolabs/extensions
    pull request 717; bottlerocket-os/bottlerocket-kernel-kit pull request 142). Only root may read that.
    """
    if not any(has_hidden_switches(gpu["vendor"], gpu["device"]) for gpu in gpus):
        return []
    candidates = [nic["address"] for nic in nics if nic["pf"] is None and nic["family"] == _FAMILY_OF_MANAGERS]
    return [address for address in candidates if SIGN_OF_MANAGERS in (probe.data(f"{PCI}/{address}/vpd") or b"")]


def read_nvlink(
    probe: Probe, functions: Iterable[Function], gpus: Sequence[Gpu], managers: Sequence[str] = ()
) -> Nvlink | None:
    """Return the service that NVLink needs and its state, None where the host needs none and has no ``managers``.

    A host that leaves all its GPUs to guests needs none: NVLink is theirs, or a service machine's. ``switches`` are
    the NVSwitches that PCI shows and the host drives itself, ``managers`` the functions that manage others,
    ``by_container`` tells that the GPU Operator's driver container runs here.
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


def _state(probe: Probe, unit: str) -> Service:
    """Return the state of a unit by files (systemd.unit(5)): links of other units, a link to /dev/null, its cgroup."""
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
