# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for QoS of ports and RDMA devices: two trees, dcb(8), ethtool(8), configfs. Only tests use it.

It reacts as the sources do: mlx5 trusts DSCP from its first entry on and PCP again after the last, gives a DSCP whose
entry goes the priority 0, and takes the link down and up for priority flow control (en_dcbnl.c); the vendor's driver
answers EPERM to a switch of ECN that is on (en_ecn.c); the ToS of RDMA-CM outlives its directory in configfs. What a
real driver keeps to itself is in files below /stand-in.
"""

from __future__ import annotations

import json
import posixpath
import re
from typing import TYPE_CHECKING, Any, Match, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult, HostError

# Its modprobe is asked first.
from ansible_collections.rdma.fabric.tests.unit._host.kernel import eswitch, kmods, queues
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import (
    DONE,
    PROGRAMS,
    attribute,
    failed,
    program,
)

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

NET = "/sys/class/net"
CONFIGFS = "/sys/kernel/config"
RDMA_CM = f"{CONFIGFS}/rdma_cm"
UNSUPPORTED = "Attribute read: Operation not supported"
# How long a link is down for priority flow control.
LINK_SECONDS = 3.0
_others_modprobe = PROGRAMS["modprobe"]
PORT: dict[str, Any] = {
    "dcbx": ["cee", "ieee"],
    "app": {},
    "pfc": [],
    "pfc_cap": 8,
    "delay": 7,
    "ets": {"prio_tc": [1, 0, 2, 3, 4, 5, 6, 7], "tc_tsa": ["vendor"] * 8, "tc_bw": [100] * 8},
    "pause": {"rx": True, "tx": True},
}


def memory(name: str) -> str:
    """Where the stand-in keeps what the driver of a port knows."""
    return f"/stand-in/dcb/{name}"


def tos_memory(device: str) -> str:
    """Where the stand-in keeps what RDMA-CM knows of a device."""
    return f"/stand-in/tos/{device}"


def add_dcb(kernel: Kernel, name: str, **changes: Any) -> None:
    """Give a port DCB operations, as mlx5 has them."""
    _keep(kernel, name, {**PORT, **changes})


def add_vendor_files(kernel: Kernel, name: str, device: str, *, old: bool = True) -> None:
    """Give a port the files of the vendor's driver; ``old`` releases have those that DCB has replaced, too."""
    base = f"{NET}/{name}"
    if old:
        table = "".join(f"{dscp}\t{dscp >> 3}\n" for dscp in range(64))
        kernel.tree.add_file(f"{base}/qos/trust", "pcp\n")
        kernel.tree.add_file(f"{base}/qos/dscp2prio", f"dscp\tprio\n{table}")
        kernel.tree.add_file(f"{base}/qos/pfc", "0,0,0,0,0,0,0,0\n")
        kernel.tree.add_file(f"{base}/qos/cable_len", "7\n")
    kernel.tree.add_file(f"{base}/qos/prio2buffer", "Priority\tBuffer\n" + "".join(f"{p}\t\t0\n" for p in range(8)))
    buffers = "".join(f"{b}\t{262016 if b == 0 else 0}\t0\t\t0\n" for b in range(8))
    kernel.tree.add_file(
        f"{base}/qos/buffer_size",
        f"Port buffer size = 262016\nSpare buffer size = 0\nBuffer\tSize\txoff_threshold\txon_threshold\n{buffers}",
    )
    for point in ("rp", "np"):
        for priority in range(8):
            kernel.tree.add_file(f"{base}/ecn/roce_{point}/enable/{priority}", "0\n")
    kernel.tree.add_file(f"{base}/ecn/roce_np/cnp_dscp", "0\n")
    kernel.tree.add_file(f"{base}/ecn/roce_np/cnp_802p_prio", "7\n")
    kernel.tree.add_file(f"/sys/class/infiniband/{device}/tc/1/traffic_class", "")


def _notification_file(address: str, name: str) -> str:
    return f"/sys/kernel/debug/mlx5/{address}/cc_params/{name}"


def add_kernel_notifications(kernel: Kernel, address: str, *, priority: int, mode: int) -> None:
    """Give a function the files of the kernel's mlx5_ib about the priority of congestion notifications."""
    kernel.tree.add_file(_notification_file(address, "np_cnp_prio"), f"{priority}\n")
    kernel.tree.add_file(_notification_file(address, "np_cnp_prio_mode"), f"{mode}\n")


def kernel_notifications(kernel: Kernel, address: str) -> dict[str, int]:
    files = {"priority": "np_cnp_prio", "mode": "np_cnp_prio_mode"}
    return {key: int(kernel.read(_notification_file(address, name))) for key, name in files.items()}


def state_of(kernel: Kernel, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kernel.read(memory(name)))
    return found


def _keep(kernel: Kernel, name: str, state: dict[str, Any]) -> None:
    kernel.tree.add_file(memory(name), json.dumps(state, sort_keys=True))


# The vendor's files.


@attribute(r"/sys/kernel/debug/mlx5/([^/]+)/cc_params/np_cnp_prio")
def np_cnp_prio(kernel: Kernel, match: Match[str], text: str) -> None:
    kernel.tree.add_file(match.group(), f"{int(text)}\n")
    mode = _notification_file(match[1], "np_cnp_prio_mode")
    if kernel.exists(mode):
        kernel.tree.add_file(mode, "0\n")


@attribute(r"/sys/.*/net/[^/]+/qos/trust")
def trust(kernel: Kernel, match: Match[str], text: str) -> None:
    if text.strip() not in {"dscp", "pcp"}:
        raise HostError("EINVAL", match.group())
    kernel.tree.add_file(match.group(), f"{text.strip()}\n")


@attribute(r"/sys/.*/net/[^/]+/qos/dscp2prio")
def dscp2prio(kernel: Kernel, match: Match[str], text: str) -> None:
    found = re.fullmatch(r"(\d+) (\d) ", text)
    if found is None or int(found[1]) > 63 or int(found[2]) > 7:
        raise HostError("EINVAL", match.group())
    lines = kernel.read(match.group()).splitlines()
    lines = [f"{found[1]}\t{found[2]}" if line.split("\t")[0] == found[1] else line for line in lines]
    kernel.tree.add_file(match.group(), "".join(f"{line}\n" for line in lines))


@attribute(r"/sys/.*/net/([^/]+)/qos/pfc")
def pfc_file(kernel: Kernel, match: Match[str], text: str) -> None:
    if not re.fullmatch(r"[01](,[01]){7}", text.strip()):
        raise HostError("EINVAL", match.group())
    kernel.tree.add_file(match.group(), f"{text.strip()}\n")
    _toggle(kernel, match[1])


@attribute(r"/sys/.*/net/[^/]+/ecn/roce_(?:np|rp)/enable/[0-7]")
def ecn(kernel: Kernel, match: Match[str], text: str) -> None:
    if text.strip() == "1" == kernel.read(match.group()).strip():
        raise HostError("EPERM", match.group())
    kernel.tree.add_file(match.group(), f"{int(text)}\n")


@attribute(r"/sys/.*/infiniband/[^/]+/tc/\d+/traffic_class")
def traffic_class(kernel: Kernel, match: Match[str], text: str) -> None:
    number = int(text)
    kernel.tree.add_file(match.group(), f"Global tclass={number}\n" if number >= 0 else "")


def _toggle(kernel: Kernel, name: str) -> None:
    """Take the link down, and up again after a while."""
    path = f"{NET}/{name}/carrier"
    if not kernel.exists(path) or kernel.read(path).strip() != "1":
        return
    place = kernel.tree.realpath(path)
    kernel.tree.add_file(place, "0\n")
    kernel.later(LINK_SECONDS, lambda: kernel.tree.add_file(place, "1\n"))


# dcb(8).


@program("dcb", lambda argv: "show" in argv)
def dcb(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    words = [word for word in argv[1:] if word != "--json"]
    what, verb, name, rest = words[0], words[1], words[3], words[4:]
    if not kernel.exists(f"{NET}/{name}"):
        return failed(1, "Attribute read: No such device")
    if not kernel.exists(memory(name)):
        return failed(1, UNSUPPORTED if verb == "show" else UNSUPPORTED.replace("read", "write"))
    state = state_of(kernel, name)
    if verb == "show":
        return CommandResult(0, f"{json.dumps(_SHOWN[what](state))}\n", "")
    complaint = _SET[what](kernel, name, state, (verb, *rest))
    if complaint:
        return failed(1, complaint)
    _keep(kernel, name, state)
    return DONE


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    return [(left, right) for left, _colon, right in (word.partition(":") for word in words)]


def _set_dcbx(_kernel: Kernel, _name: str, state: dict[str, Any], words: Sequence[str]) -> str:
    state["dcbx"] = sorted(words[1:])
    return ""


def _set_app(_kernel: Kernel, _name: str, state: dict[str, Any], words: Sequence[str]) -> str:
    verb, _selector, *pairs = words
    if verb == "flush":
        state["app"] = {}
    for dscp, priority in _pairs(pairs):
        if verb == "del":
            if state["app"].get(dscp) != int(priority):
                return "Attribute write: No such file or directory"
            del state["app"][dscp]
        else:
            state["app"][dscp] = int(priority)
    return ""


def _set_pfc(kernel: Kernel, name: str, state: dict[str, Any], words: Sequence[str]) -> str:
    if words[1] == "delay":
        state["delay"] = int(words[2])
        return ""
    on = set(state["pfc"])
    for priority, switch in _pairs(words[2:]):
        chosen = set(range(8)) if priority == "all" else {int(priority)}
        on = on | chosen if switch == "on" else on - chosen
    if sorted(on) != state["pfc"]:
        state["pfc"] = sorted(on)
        _toggle(kernel, name)
    return ""


def _set_ets(_kernel: Kernel, _name: str, state: dict[str, Any], words: Sequence[str]) -> str:
    lists: dict[str, list[Any]] = {}
    for word in words[1:]:
        if ":" not in word:
            key = word.replace("-", "_")
            lists[key] = []
        else:
            value = word.partition(":")[2]
            lists[key].append(int(value) if value.isdecimal() else value)
    total = sum(lists["tc_bw"])
    if total != 100 and (total or "ets" in lists["tc_tsa"]):
        return f"Bandwidth percentages in tc-bw sum to {total}%, expected 100%"
    # mlx5 tells 100 of every class that shares nothing.
    lists["tc_bw"] = [share if kind == "ets" else 100 for kind, share in zip(lists["tc_tsa"], lists["tc_bw"])]
    state["ets"] = lists
    return ""


_SET = {"dcbx": _set_dcbx, "app": _set_app, "pfc": _set_pfc, "ets": _set_ets}
_SHOWN: dict[str, Any] = {
    "dcbx": lambda state: dict.fromkeys(state["dcbx"], True),
    "app": lambda state: (
        {"dscp_prio": [[int(dscp), priority] for dscp, priority in sorted(state["app"].items())]}
        if state["app"]
        else {}
    ),
    "pfc": lambda state: {
        "pfc_cap": state["pfc_cap"],
        "macsec_bypass": False,
        "delay": state["delay"],
        "prio_pfc": [priority in state["pfc"] for priority in range(8)],
    },
    "ets": lambda state: {"willing": False, "ets_cap": 8, "cbs": False, **state["ets"]},
}


@program("mlnx_qos")
def mlnx_qos(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    name = argv[argv.index("-i") + 1]
    state = state_of(kernel, name)
    state["dcbx"] = ["cee", "ieee"]
    _keep(kernel, name, state)
    return DONE


@program("ethtool", lambda argv: bool({"-a", "-k", "-g", "-l"} & set(argv)))
def ethtool(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    name = argv[2]
    if argv[1] in ("-k", "-K"):
        return eswitch.features(kernel, name, [argv[1], *argv[3:]])
    if argv[1] in queues.OPTIONS:
        return queues.ethtool(kernel, name, [argv[1], *argv[3:]])
    if not kernel.exists(memory(name)):
        return failed(76, "netlink error: Operation not supported")
    state = state_of(kernel, name)
    if argv[1] == "-a":
        sides = "".join(f"{side.upper()}:\t\t{'on' if on else 'off'}\n" for side, on in state["pause"].items())
        return CommandResult(0, f"Pause parameters for {name}:\nAutonegotiate:\toff\n{sides}\n", "")
    state["pause"] = {side: word == "on" for side, word in zip(argv[3::2], argv[4::2])}
    _keep(kernel, name, state)
    return DONE


# configfs.


@program("mount")
def mount(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    if kernel.exists("/stand-in/configfs"):
        return failed(32, f"mount: {argv[-1]}: configfs already mounted or mount point busy.")
    kernel.tree.add_file("/stand-in/configfs", "")
    rdma_cm_appears(kernel)
    return DONE


@program("modprobe", _others_modprobe.only_reads)
def modprobe(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    result = _others_modprobe.run(kernel, argv)
    rdma_cm_appears(kernel)
    return result


def rdma_cm_appears(kernel: Kernel) -> None:
    """Let RDMA-CM have its directory where it is loaded and configfs is mounted."""
    loaded = any(line.startswith("rdma_cm ") for line in kernel.read(kmods.PROC_MODULES).splitlines())
    if loaded and kernel.exists("/stand-in/configfs"):
        kernel.tree.add_dir(RDMA_CM)


@program("mkdir")
def mkdir(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    path = argv[-1]
    device = posixpath.basename(path)
    if not kernel.exists(posixpath.dirname(path)):
        return failed(1, f"mkdir: cannot create directory '{path}': No such file or directory")
    if not kernel.exists(f"/sys/class/infiniband/{device}"):
        return failed(1, f"mkdir: cannot create directory '{path}': No such device")
    if kernel.exists(path):
        return failed(1, f"mkdir: cannot create directory '{path}': File exists")
    known = kernel.read(tos_memory(device)) if kernel.exists(tos_memory(device)) else "0\n"
    kernel.tree.add_file(f"{path}/ports/1/default_roce_tos", known)
    return DONE


@attribute(rf"{RDMA_CM}/([^/]+)/ports/1/default_roce_tos")
def default_roce_tos(kernel: Kernel, match: Match[str], text: str) -> None:
    if not text.strip().isdecimal() or int(text) > 255:
        raise HostError("EINVAL", match.group())
    kernel.tree.add_file(match.group(), f"{int(text)}\n")
    kernel.tree.add_file(tos_memory(match[1]), f"{int(text)}\n")


@program("rmdir")
def rmdir(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    if not kernel.exists(argv[-1]):
        return failed(1, f"rmdir: failed to remove '{argv[-1]}': No such file or directory")
    kernel.tree.discard(argv[-1])
    return DONE


def add_soft_device(kernel: Kernel, device: str, name: str) -> None:
    """Make a soft RDMA device on an interface, as `rdma link add` does for rxe."""
    place = f"/sys/devices/virtual/infiniband/{device}"
    kernel.tree.add_file(f"{place}/parent", f"{name}\n")
    kernel.tree.add_file(f"{place}/ports/1/link_layer", "Ethernet\n")
    kernel.tree.add_file(f"{place}/ports/1/state", "4: ACTIVE\n")
    kernel.tree.add_link(f"/sys/class/infiniband/{device}", f"../../devices/virtual/infiniband/{device}")


def reboot(kernel: Kernel, name: str, device: str) -> None:
    """Let the host start again: drivers begin as they do, configfs is mounted and empty."""
    kernel.tree.discard(RDMA_CM)
    kernel.tree.discard("/stand-in")
    add_dcb(kernel, name)
    if kernel.exists(f"{NET}/{name}/ecn"):
        add_vendor_files(kernel, name, device, old=kernel.exists(f"{NET}/{name}/qos/trust"))
