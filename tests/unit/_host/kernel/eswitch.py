# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for devlink(8) and the e-switch of mlx5. Only tests use it.

From the documentation of devlink and of mlx5, not from a card: a mode is not taken while a driver is bound to a
function (EINVAL), other drivers have none (EOPNOTSUPP), and in switchdev mode the port has a switch id and each
function an interface of its own beside it. The flow steering mode is kept in legacy mode only (mlx5_fs_mode_validate),
and is smfs at first (mlx5_init_fs with a card that can).
"""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.tests.unit._host import printed
from ansible_collections.rdma.fabric.tests.unit._host.kernel import queues
from ansible_collections.rdma.fabric.tests.unit._host.kernel.naming import named_by_udev
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import DONE, failed, program
from ansible_collections.rdma.fabric.tests.unit._host.kernel.vfs import MODE, NET, PCI, driver_of

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

# Kept beside the device, as only netlink tells it.
OFFLOAD = "offload-of-rules"
RELOAD_FAILED = "reload-failed"
STEERING = "flow-steering-mode"  # there in other modes than the first only
SWITCH_ID = "e41d2d0003a1b2c3"


@program("devlink", only_reads=lambda argv: "show" in argv)
def devlink(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    words = [word for word in argv[1:] if word != "-j"]
    if words == ["dev", "show"]:
        return CommandResult(0, json.dumps({"dev": _devices(kernel)}), "")
    if words[:2] not in (["dev", "eswitch"], ["dev", "param"]) or not words[3].startswith("pci/"):
        return failed(1, f'Object "{words[0]}" not found')
    address = words[3][4:]
    driver = driver_of(kernel, address)
    if driver is None:
        return failed(1, "kernel answers: No such device")
    if driver != "mlx5_core":
        return failed(1, "kernel answers: Operation not supported")
    if words[1] == "param":
        return _steering(kernel, address, words)
    if words[2] == "show":
        told = {"mode": mode_of(kernel, address), "inline-mode": "none", "encap-mode": "basic"}
        return CommandResult(0, json.dumps({"dev": {f"pci/{address}": told}}), "")
    return _set(kernel, address, words[5])


def _devices(kernel: Kernel) -> dict[str, dict[str, bool]]:
    """Each device of mlx5, with the one member that is told of it where its reload failed."""
    return {
        f"pci/{address}": {"reload_failed": True} if kernel.exists(f"{PCI}/{address}/{RELOAD_FAILED}") else {}
        for address in kernel.list(PCI)
        if driver_of(kernel, address) == "mlx5_core"
    }


def mode_of(kernel: Kernel, address: str) -> str:
    path = f"{PCI}/{address}/{MODE}"
    return kernel.read(path) if kernel.exists(path) else "legacy"


def steering_of(kernel: Kernel, address: str) -> str:
    path = f"{PCI}/{address}/{STEERING}"
    return kernel.read(path) if kernel.exists(path) else "smfs"


def _steering(kernel: Kernel, address: str, words: Sequence[str]) -> CommandResult:
    if words[4:6] != ["name", "flow_steering_mode"]:
        return failed(1, "kernel answers: Invalid argument")
    if words[2] == "show":
        return CommandResult(0, printed.devlink_param(address, "flow_steering_mode", steering_of(kernel, address)), "")
    if words[6:] not in [["value", mode, "cmode", "runtime"] for mode in ("smfs", "dmfs", "hmfs")]:
        return failed(1, "kernel answers: Invalid argument")
    if mode_of(kernel, address) == "switchdev":
        return failed(1, "kernel answers: Operation not supported")
    kernel.tree.discard(f"{PCI}/{address}/{STEERING}")
    if words[7] != "smfs":
        kernel.tree.add_file(f"{PCI}/{address}/{STEERING}", words[7])
    return DONE


def _set(kernel: Kernel, address: str, mode: str) -> CommandResult:
    if mode not in ("legacy", "switchdev"):
        return failed(1, f'Unknown eswitch mode "{mode}"')
    functions = [name for name in kernel.list(f"{PCI}/{address}") if name.startswith("virtfn")]
    if any(kernel.exists(f"{PCI}/{address}/{name}/driver") for name in functions):
        return failed(1, "kernel answers: Invalid argument")
    if mode == mode_of(kernel, address):
        return DONE
    base = f"{kernel.realpath(f'{PCI}/{address}')}/net"
    representors = [name for name in kernel.list(base) if kernel.read(f"{base}/{name}/phys_port_name").startswith("pf")]
    (port,) = set(kernel.list(base)) - set(representors)
    # The port begins anew, as a representor with one channel (mlx5e_build_rep_params and mlx5e_build_nic_params).
    queues.reset(kernel, port, **({"combined": 1} if mode == "switchdev" else {}))
    if mode == "legacy":
        for name in representors:
            kernel.tree.discard(f"{NET}/{name}")
            kernel.tree.discard(f"{base}/{name}")
        kernel.tree.discard(f"{base}/{port}/phys_switch_id")
        kernel.tree.errors[f"{base}/{port}/phys_switch_id"] = "EOPNOTSUPP"
        kernel.tree.discard(f"{PCI}/{address}/{MODE}")
        return DONE
    kernel.tree.add_file(f"{PCI}/{address}/{MODE}", mode)
    kernel.tree.errors.pop(f"{base}/{port}/phys_switch_id", None)
    kernel.tree.add_file(f"{base}/{port}/phys_switch_id", f"{SWITCH_ID}\n")
    for name in functions:
        _add_representor(kernel, base, port, name[len("virtfn") :])
    return DONE


def features(kernel: Kernel, name: str, words: Sequence[str]) -> CommandResult:
    """What ``ethtool -k`` shows of an interface and ``-K`` changes; one without offloads shows that they are fixed."""
    path = f"{kernel.realpath(f'{NET}/{name}/device')}/{OFFLOAD}"
    if words[0] == "-k":
        told = kernel.read(path).strip() if kernel.exists(path) else "off [fixed]"
        return CommandResult(0, f"Features for {name}:\nrx-checksumming: on\nhw-tc-offload: {told}\n", "")
    if not kernel.exists(path) or words[1] != "hw-tc-offload":
        return failed(1, "Could not change any device features")
    kernel.tree.add_file(path, f"{words[2]}\n")
    return DONE


def _add_representor(kernel: Kernel, base: str, port: str, number: str) -> None:
    name = f"{port[:8]}r{number}"
    place = f"{base}/{name}"
    values = {"address": "52:54:00:00:00:00", "mtu": 1500, "flags": "0x1002", "type": 1, "dev_port": 0}
    values.update({"operstate": "down", "name_assign_type": 4, "uevent": f"INTERFACE={name}"})
    values.update({"phys_port_name": f"pf0vf{number}", "phys_switch_id": SWITCH_ID})
    for key, value in values.items():
        kernel.tree.add_file(f"{place}/{key}", f"{value}\n")
    kernel.tree.add_link(f"{place}/device", "../../../" + posixpath.basename(posixpath.dirname(base)))
    kernel.tree.add_link(f"{NET}/{name}", posixpath.relpath(place, NET))
    named_by_udev(kernel, name)
