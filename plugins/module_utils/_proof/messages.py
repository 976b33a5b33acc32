# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages of test programs as a table: what one means, and what to do about it. Pure.

perftest and NCCL report a refused call of verbs in words of their own, with the error of the kernel. What that means
is the same for both, and is here once: NCCL prints the call and the error's text (src/misc/ibvwrap.cc), perftest a
message and ``error=N`` or the text (src/perftest_resources.c).
"""

from __future__ import annotations

import re
from typing import NamedTuple, Pattern


class Message(NamedTuple):
    """One kind of message. Of messages about the same, the first tells the cause.

    ``follows``: it is a consequence of an earlier error (1) or only says that there was one (2), and is left out beside
    a message that is nearer to the cause. ``ends_run``: no row is to be expected after it.
    """

    pattern: Pattern[str]
    cause: str
    next_step: str
    follows: int = 0
    ends_run: bool = True
    about: str = ""


def message(
    pattern: str, cause: str, next_step: str, *, follows: int = 0, ends_run: bool = True, about: str = ""
) -> Message:
    """Return a message whose pattern matches whatever the case is, about what the pattern says by default."""
    return Message(re.compile(pattern, re.IGNORECASE), cause, next_step, follows, ends_run, about or pattern)


_ALIKE = (
    "give both sides of perftest the same test, size (-s) and queue pairs (-q), and all ranks of NCCL the same NCCL, "
    "network plugin and NCCL_ variables"
)
# Completion states of verbs (rdma-core, enum ibv_wc_status) that tell a cause.
_COMPLETION_STATES: dict[int, tuple[str, str]] = {
    1: ("a message was longer than the receiver's buffer", _ALIKE),
    4: (
        "local protection error: the device may not read or write this memory (with GPU memory: ACS or IOMMU)",
        "check ACS and the IOMMU (iommu=pt, on Arm iommu.passthrough=1) on the path between NIC and GPU",
    ),
    5: ("the queue was flushed after an earlier error", "look for the first error, mostly on the other side"),
    9: ("the other side refused the request", _ALIKE),
    10: ("the other side's memory is not accessible", "look at the other side's output, and check ACS and the IOMMU"),
    12: (
        "no acknowledgement came (transport retry exceeded): packets are lost on the way",
        "check UDP port 4791 in firewalls, the path's MTU, the GID index of both sides, and PFC or ECN of the fabric",
    ),
    13: ("the receiver was never ready (RNR retry exceeded)", "look at the other side's output: it stopped early"),
}


def completion(code: int) -> tuple[str, str]:
    """Return cause and next step of a transfer that ended with a completion state of verbs."""
    other = f"a transfer ended with completion state {code}", "look at the other side's output and the kernel's log"
    return _COMPLETION_STATES.get(code, other)


# The kernel lets a process without CAP_IPC_LOCK lock as much as RLIMIT_MEMLOCK says, and counts what a device's driver
# pins (Linux, drivers/infiniband/core/umem.c). execve(2) takes added capabilities from a user that is not root
# (capabilities(7)), and capable() asks for those in the first user namespace.
LOCKED_MEMORY = (
    "add the capability IPC_LOCK to a container that runs as root; for another user, or with hostUsers: false, it has "
    "no effect: raise the limit of the container runtime (rdma_fabric_limits: {memlock: unlimited}), restart it, and "
    "start the pod again; outside of containers ulimit -l unlimited"
)
_GPU_MEMORY = (
    "load nvidia-peermem on the node (rdma_fabric_peer_memory), or have the memory passed as DMA-BUF: open GPU modules "
    "and, for perftest, --use_cuda_dmabuf after --use_cuda=N"
)
_OWN_GID = (
    "give each side the index of its own RoCE v2 GID; NCCL finds it without NCCL_IB_GID_INDEX since 2.21, and where a "
    "pod sees only some GIDs of a port (macvlan) since 2.26"
)
_ERRORS = {
    1: "Operation not permitted",
    12: "Cannot allocate memory",
    14: "Bad address",
    19: "No such device",
    22: "Invalid argument",
    93: "Protocol not supported",
    95: "Operation not supported",
    101: "Network is unreachable",
    110: "Connection timed out",
    113: "No route to host",
}
# NCCL tries a timed-out ibv_modify_qp again, and says so in the same words.
_CALLS = {
    "register": r"Couldn't allocate MR|ibv_reg_\w{0,30}mr\w{0,12}\S{0,40} failed|Couldn't register",
    "queue": r"Call to ibv_create_(?:cq|qp)|Couldn't create (?:CQ|QP|rdma|a receiver)|failed to create (?:CQs?|QP)",
    "connect": r"ibv_modify_qp failed(?!.{0,900} retrying \d)|Failed to modify QP",
}


def _refused(call: str, number: int | None, cause: str, next_step: str) -> Message:
    said = rf".{{0,80}}?(?:\b(?:error=|errno |with ){number}\b|{_ERRORS[number]})" if number else ""
    return message(f"(?:{_CALLS[call]}){said}", cause, next_step, about=call)


REFUSED_CALLS = (
    _refused("register", 12, "the memory to register is more than the limit on locked memory", LOCKED_MEMORY),
    # umem.c, can_do_mlock.
    _refused("register", 1, "the limit on locked memory is 0, so nothing may be registered", LOCKED_MEMORY),
    # linux-rdma/perftest, issues 126 and 346; NVIDIA/nccl, issue 1142.
    _refused("register", 14, "the kernel cannot pin memory of a GPU: no nvidia-peermem, and no DMA-BUF", _GPU_MEMORY),
    # Linux, drivers/infiniband/core/uverbs_ioctl.c (a call that a driver does not have); linux-rdma/perftest, issue 280
    # and src/perftest_resources.c; NVIDIA/nccl, issue 778.
    *(
        _refused(
            "register",
            number,
            f"the RDMA stack of the node{', or rdma-core of the image,' if number == 95 else ''} registers no DMA-BUF, "
            "which came with Linux 5.12 and newer drivers of NICs",
            "take newer ones, or load nvidia-peermem and leave DMA-BUF out (perftest without --use_cuda_dmabuf, "
            "NCCL_DMABUF_ENABLE=0)",
        )
        for number in (93, 95)
    ),
    _refused(
        "register",
        None,
        "memory could not be registered: the limit on locked memory, or GPU memory without nvidia-peermem or DMA-BUF",
        f"{LOCKED_MEMORY}; for GPU memory load nvidia-peermem (rdma_fabric_peer_memory)",
    ),
    # perftest tells this error of a queue pair so (src/perftest_resources.c).
    message(
        rf"(?:{_CALLS['queue']}).{{0,80}}?{_ERRORS[12]}|Requested QP size might be too big",
        "the queue's memory is more than the limit on locked memory, or the device has no room for queues of this size",
        f"{LOCKED_MEMORY}; lower -t and the inline size (-I) of perftest",
        about="queue",
    ),
    message(
        rf"{_CALLS['queue']}|Unable to create QP",
        "the device gave no queue: its limits, or the limit on locked memory",
        f"lower -t and -q of perftest, and check the inline size (-I); {LOCKED_MEMORY}",
        about="queue",
    ),
    # NVIDIA/nccl, src/misc/ibvwrap.cc, printIbModifyQpHint.
    _refused("connect", 22, "the GID index is of no GID that reaches the peer", _OWN_GID),
    # NVIDIA/nccl, issues 718 and 925.
    _refused("connect", 19, "the GID belongs to an interface that is not in this network namespace", _OWN_GID),
    # The kernel looks the peer's GID up like an address (Linux, drivers/infiniband/core/addr.c); nccl-tests issue 185.
    *(
        _refused(
            "connect",
            number,
            "there is no route from this GID's address to the peer's: rails in subnets of their own, a missing "
            "address, or GIDs of different kinds (IPv4 and link-local)",
            "ping the peer's address from this interface (ping -I), add the route, or keep to "
            "rails that reach each other (NCCL_CROSS_NIC=0)",
        )
        for number in (101, 113)
    ),
    _refused(
        "connect",
        110,
        "the peer's address does not answer (ARP): rails that do not reach each other, a VLAN, or a link down",
        "ping the peer's address from this interface (ping -I); if rails are separate, NCCL_CROSS_NIC=0 keeps to them",
    ),
    _refused(
        "connect",
        None,
        "the queue pair did not connect: empty or wrong GID index, no route or neighbour, another MTU, or a link down",
        f"{_OWN_GID} (perftest: -x); then ping the peer through that interface at full size",
    ),
)
# CUDA's error 802 (docs of its enum cudaError): daemons of the driver do not run; with NVSwitches nvidia-fabricmanager.
GPU_NOT_READY = message(
    r"system not yet initialized|cuInit\(0\) returned 802|\bCUDA error:? 802",
    "CUDA's error 802: a daemon of the GPU driver does not run, on a host with NVSwitches nvidia-fabricmanager",
    "start nvidia-fabricmanager of the driver's release on the node (systemctl status nvidia-fabricmanager), then test "
    "with nvidia-smi -q, where the fabric's state must be Completed",
)
