# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NCCL's own log (NCCL_DEBUG=INFO) says about the way the data went, and its errors. Pure."""

from __future__ import annotations

import re
from typing import Any, Iterable, NamedTuple, Pattern

from .output_text import quoted
from .problem import Problem, problem_of

_MOST_NAMES = 64
_NETWORK = re.compile(r"NCCL INFO (?:Using network|Assigned NET plugin) ([\w.-]{1,40})", re.ASCII)
_DEVICES = re.compile(r"NET/IB ?: Using (.{1,1500})")
# ``[0]mlx5_0:1/RoCE``; ports that are used as one are ``[0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE}``.
_DEVICE = re.compile(r"\[\d{1,4}\](?:\{[^}]{0,80}\})? ?([\w.-]{1,60}):(\d{1,3})/(RoCE|IB)", re.ASCII)
_CHANNEL = re.compile(r"via NET/([\w.-]{1,40})/\d{1,4}(?:\(\d{1,6}\))?((?:/[\w.-]{1,40}){0,4})", re.ASCII)
_LOCAL_CHANNEL = re.compile(r"via (?:P2P|SHM|NVLS|C2C)\b")
_VERSION = re.compile(r"NCCL version (\d[\d.]{0,20}\+cuda[\d.]{1,20})", re.ASCII)
# Sockets have the same line for each of their interfaces; no card reaches GPU memory with them.
_DISABLED = re.compile(r"(?<!NET/Socket : )GPU Direct RDMA Disabled for HCA \d{1,4} '([\w.-]{1,60})'", re.ASCII)
_WARNING = re.compile(r"NCCL WARN (.{1,1000})")
_COMPLETION = re.compile(r"Got completion .{0,300}?(?:with error |status=)(?:[A-Z_]{1,40}\()?(\d{1,3})", re.IGNORECASE)


class Message(NamedTuple):
    """One kind of error; after one that ``ends`` no row is to be expected."""

    pattern: Pattern[str]
    cause: str
    next_step: str
    ends: bool = True


class Errors(NamedTuple):
    """The errors of an output, and whether one of them ended the run."""

    problems: list[Problem]
    ended: bool


def _message(pattern: str, cause: str, next_step: str, ends: bool = True) -> Message:
    return Message(re.compile(pattern, re.IGNORECASE), cause, next_step, ends)


_STATES = {
    4: (
        "local protection error: ACS or the IOMMU is between NIC and GPU",
        "check ACS and the IOMMU (iommu=pt, on Arm iommu.passthrough=1)",
    ),
    5: ("the queue was flushed after an earlier error", "look for the first error, mostly on another rank"),
    12: (
        "no acknowledgement came (transport retry exceeded)",
        "check the GID index of every host, UDP port 4791 in firewalls, the path's MTU, and PFC or ECN of the fabric",
    ),
}
_NO_DEVICE = _message(
    r"NET/IB ?: No device found",
    "NCCL saw no RDMA device: none in the pod, none that the image's rdma-core knows, or NCCL_IB_HCA names none",
    "compare NCCL_IB_HCA with the devices under /sys/class/infiniband, and check the pod's RDMA resource; where "
    "ibv_devices lists none of them, the image's rdma-core is too old for the card or the node's driver",
    ends=False,  # NCCL goes over sockets then
)
_TEST_ENDED = _message(
    r"Test (?:NCCL|CUDA) failure|Cuda failure|unhandled (?:system|cuda) error|NCCL failure",
    "the test ended with an error",
    "look at the NCCL WARN lines before it, and run with NCCL_DEBUG=INFO",
)
# Open MPI 5 calls itself prterun or PRTE, the releases before it mpirun or ORTE.
_LAUNCHER_ENDED = _message(
    r"(?:mpirun|prterun) (?:noticed|detected|was unable)|(?:ORTE|PRTE) (?:was unable|does not|has lost)|srun: error",
    "the launcher ended the run, or did not start it",
    "look at the first failing rank",
)
_MESSAGES = (
    _NO_DEVICE,
    _message(
        r"Failed to initialize any NET plugin",
        "NCCL_NET allows no network that this host has",
        "leave NCCL_NET out, or give the pod the RDMA devices that it names",
    ),
    _message(
        r"Duplicate GPU detected",
        "two ranks were put on one GPU",
        "start as many ranks on each host as it has GPUs, or give each rank a GPU of its own (CUDA_VISIBLE_DEVICES)",
    ),
    _message(
        r"Mismatched NCCL version",
        "the ranks have different versions of NCCL: their images, or LD_LIBRARY_PATH, differ",
        "run the same image on every host",
    ),
    _message(
        r"Connection closed by remote peer",
        "another rank, or its host, went down",
        "look at the log of that rank, and at its host: kernel log, memory, Xid errors",
    ),
    # NVIDIA/nccl, issue 778.
    _message(
        r"ibv_reg_dmabuf_mr failed.{0,40}Operation not supported",
        "the RDMA stack of the node, or rdma-core of the image, registers no DMA-BUF",
        "take newer ones, or load nvidia-peermem and set NCCL_DMABUF_ENABLE=0",
    ),
    _message(
        r"ibv_reg_\S{0,40} failed|Call to ibv_reg_\S{0,40}",
        "memory could not be registered: the limit on locked memory, or no nvidia-peermem and no DMA-BUF",
        "allow locked memory (IPC_LOCK in a pod), and load nvidia-peermem or use the open GPU modules",
    ),
    _message(
        r"ibv_modify_qp failed|Call to ibv_modify_qp",
        "the queue pairs did not connect: GID index, route or MTU",
        "leave NCCL_IB_GID_INDEX to NCCL 2.21 or later, or give each host its own",
    ),
    _message(
        r"Bootstrap ?: no socket interface found|No interface found|Call to connect .{0,80}failed|socketStartConnect",
        "the ranks do not reach each other over the network of NCCL_SOCKET_IFNAME",
        "name an interface that every rank has and that no firewall stands in",
    ),
    _message(
        r"Test timeout|Watchdog caught collective operation timeout",
        "the collective did not end in time",
        "look for a rank that failed or hangs, and run with NCCL_DEBUG=INFO",
    ),
    _TEST_ENDED,
    _LAUNCHER_ENDED,
    _message(
        r"^invalid (?:size specified|sizes) for '|^invalid option '",
        "the test did not take its arguments",
        "give -b and -e as sizes such as 8 and 16G, the smaller one first; an old nccl-tests has fewer options",
    ),
    _message(
        r"Invalid number of GPUs|command not found|error while loading shared libraries|executable file not found",
        "the test did not start",
        "check the number of GPUs asked for (-g) and that nccl-tests and NCCL are installed on every host",
    ),
)
_WORTH_A_LOOK = re.compile(
    r"fail|error|NET/IB|no .{0,12}interface|timeout|mpirun|prterun|orte|prte|srun|invalid|not found|call to|completion"
    r"|socketStartConnect|NCCL WARN",
    re.IGNORECASE,
)


def transport_in(lines: Iterable[str]) -> dict[str, Any]:
    """Return what the log says of the transport; without a log every value is None or empty.

    ``network``: what NCCL chose or, better, what channels use (IB, Socket, a plugin's name); ``devices``: the HCAs with
    their ports (``mlx5_0:1``), ``link_layers``: RoCE and IB among them; ``gpu_direct``: ``all``, ``some`` or ``none``
    of the channels over RDMA go without a copy in host memory; ``local_only``: there are channels and none leaves its
    host; ``version``: of NCCL.
    """
    chosen: str | None = None
    version: str | None = None
    networks: dict[str, int] = {}
    devices: dict[str, str] = {}
    direct = local = 0
    for line in lines:
        if "via " in line:
            channel = _CHANNEL.search(line)
            if channel and (channel[1] in networks or len(networks) < _MOST_NAMES):
                networks[channel[1]] = networks.get(channel[1], 0) + 1
                direct += "/GDRDMA" in channel[2]
            local += bool(_LOCAL_CHANNEL.search(line))
        elif "NCCL" in line:
            chosen = _first(_NETWORK, line) or chosen
            version = version or _first(_VERSION, line)
            listed = _DEVICES.search(line)
            for name, port, layer in _DEVICE.findall(listed[1]) if listed else ():
                if len(devices) < _MOST_NAMES:
                    devices[f"{name}:{port}"] = layer
    used = sum(networks.values())
    over_rdma = sum(count for name, count in networks.items() if name != "Socket")
    socket = "Socket" in networks
    return {
        "network": "Socket" if socket else next(iter(networks), None) or chosen,
        "devices": sorted(devices),
        "link_layers": sorted(set(devices.values())),
        "gpu_direct": None if not over_rdma else "all" if direct == over_rdma else "some" if direct else "none",
        "local_only": bool(local) and not used,
        "version": version,
    }


def errors_in(lines: Iterable[str], one_host: bool = False) -> Errors:
    """Return the errors that NCCL, the test or its launcher print, each kind once, those that end a run first.

    A run that stays on ``one_host`` needs no RDMA device; that NCCL found none is no error of it. That a test or its
    launcher ended is left out where the reason stands before it; of a test it is told with NCCL's last warning.
    """
    found: dict[Message, Problem] = {}
    warning = None
    for line in dict.fromkeys(lines):
        if not _WORTH_A_LOOK.search(line):
            continue
        message = _message_of(line)
        passed_over = message in found or len(found) >= _MOST_NAMES or (message is _NO_DEVICE and one_host)
        if message is not None and not passed_over:
            found[message] = _told(line, message, warning)
        warning = _first(_WARNING, line) or warning
    ends = [message for message in found if message.ends]
    reasons = [message for message in ends if message not in (_TEST_ENDED, _LAUNCHER_ENDED)]
    others = [message for message in found if not message.ends]
    return Errors([found[message] for message in [*(reasons or ends), *others]], bool(ends))


def _told(line: str, message: Message, warning: str | None) -> Problem:
    cause = message.cause
    if message is _TEST_ENDED and warning:
        cause = f"{cause}; NCCL's last warning: {quoted(warning)}"
    return problem_of(quoted(line), cause, message.next_step)


def _message_of(line: str) -> Message | None:
    """Return the kind of the error that a line tells; each completion state is a kind of its own."""
    state = _COMPLETION.search(line)
    if state:
        code = int(state[1])
        other = (f"a transfer ended with completion state {code}", "look at the other ranks' logs")
        return Message(_COMPLETION, *_STATES.get(code, other))
    return next((each for each in _MESSAGES if each.pattern.search(line)), None)


def without_gpu_direct(lines: Iterable[str]) -> list[str]:
    """Return the HCAs of which NCCL says that they do not reach GPU memory (``GPU Direct RDMA Disabled for HCA``)."""
    found = (_first(_DISABLED, line) for line in lines if "Disabled for HCA" in line)
    return list(dict.fromkeys(filter(None, found)))[:_MOST_NAMES]


def release_of(code: int) -> str:
    """Return NCCL's release, such as 2.28.9, for its number (``NCCL_VERSION`` of nccl.h: 22809, and 2708 for 2.7.8)."""
    thousands = 10_000 if code >= 10_000 else 1000
    return f"{code // thousands}.{code % thousands // 100}.{code % 100}"


def _first(pattern: Pattern[str], line: str) -> str | None:
    found = pattern.search(line)
    return found[1] if found else None
