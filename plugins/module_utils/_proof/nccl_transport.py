# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NCCL's own log (NCCL_DEBUG=INFO) says about the way the data went, and its errors. Pure."""

from __future__ import annotations

import re
from typing import Any, Iterable, NamedTuple, Pattern, Sequence

from .messages import GPU_NOT_READY, REFUSED_CALLS, Message, completion, message
from .output_text import quoted
from .problem import Problem, problem_of

MNNVL = "MNNVL"
_MOST_NAMES = 64
_HOST = re.compile(r"^([\w-]{1,63})[\w.-]{0,190}:\d{1,8}:\d{1,8} \[", re.ASCII)
_NETWORK = re.compile(r"NCCL INFO (?:Using network|Assigned NET plugin) ((?:AWS )?[\w.-]{1,40})", re.ASCII)
_DEVICES = re.compile(r"NET/IB ?: Using (.{1,1500})")
# ``[0]mlx5_0:1/RoCE``; ports that are used as one are ``[0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE}``.
_DEVICE = re.compile(r"\[\d{1,4}\](?:\{[^}]{0,80}\})? ?([\w.-]{1,60}):(\d{1,3})/(RoCE|IB)", re.ASCII)
_CHANNEL = re.compile(r"via NET/((?:AWS )?[\w.-]{1,40})/\d{1,4}(?:\(\d{1,6}\))?((?:/[\w.-]{1,40}){0,4})", re.ASCII)
# src/transport/p2p.cc: what a communicator prints whose hosts share an NVLink domain.
_NVLINK_CHANNEL = re.compile(r"via P2P/MNNVL\b")
_LOCAL_CHANNEL = re.compile(r"via (?:P2P|SHM|NVLS|C2C)\b")
_VERSION = re.compile(r"NCCL version (\d[\d.]{0,20}\+cuda[\d.]{1,20})", re.ASCII)
# Sockets have the same line for each of their interfaces; no card reaches GPU memory with them.
_DISABLED = re.compile(r"(?<!NET/Socket : )GPU Direct RDMA Disabled for HCA \d{1,4} '([\w.-]{1,60})'", re.ASCII)
_WARNING = re.compile(r"NCCL WARN (.{1,1000})")
_FAILURE = re.compile(r"fail|error|could ?not|unable|no space", re.IGNORECASE)
_FLUSHED = 5
_COMPLETION = re.compile(r"Got completion .{0,300}?(?:with error |status=)(?:[A-Z_]{1,40}\()?(\d{1,3})", re.IGNORECASE)


class Errors(NamedTuple):
    """The errors of an output, and whether one of them ended the run."""

    problems: list[Problem]
    ended: bool


_NO_DEVICE = message(
    r"NET/IB ?: No device found",
    "NCCL saw no RDMA device: none in the pod, none that the image's rdma-core knows, or NCCL_IB_HCA names none",
    "compare NCCL_IB_HCA with the devices under /sys/class/infiniband, and check the pod's RDMA resource; where "
    "ibv_devices lists none of them, the image's rdma-core is too old for the card or the node's driver",
    ends_run=False,  # NCCL goes over sockets then
)
# src/misc/ibvsymbols.cc; newer releases try two names, and print a line for each.
_NO_LIBRARY = message(
    r"Failed to open libibverbs|Count not open libibverbs\.so\.1",
    "the image has no libibverbs, so NCCL can use no RDMA device",
    "use an image with rdma-core: libibverbs1 and ibverbs-providers of Debian and Ubuntu, libibverbs of others",
    ends_run=False,
)
_TEST_ENDED = message(
    r"Test (?:NCCL|CUDA) failure|Cuda failure|unhandled (?:system|cuda) error|NCCL failure",
    "the test ended with an error",
    "look at the NCCL WARN lines before it, and run with NCCL_DEBUG=INFO",
    follows=2,
)
# What ssh says for mpirun (kubeflow/mpi-operator, issues 424 and 472; awslabs/awsome-distributed-ai, issue 868).
_NOT_LET_IN = message(
    r"Host key verification failed|Permission denied \((?:publickey|password|keyboard|gssapi|hostbased)"
    r"|ssh: connect to host|ssh: Could not resolve hostname",
    "mpirun starts the ranks of other hosts by ssh, and one of them was not reached or did not let it in",
    "start every host's sshd before mpirun, with the launcher's key in authorized_keys and StrictHostKeyChecking no; "
    "of the MPI Operator see that its workers run, and sshAuthMountPath for the user of the image",
)
# Open MPI 5 calls itself prterun or PRTE, the releases before it mpirun or ORTE.
_AS_ROOT = message(
    r"(?:mpirun|mpiexec|prterun) has detected an attempt to run as root",
    "Open MPI starts nothing as root, which is the user of most containers, unless told to",
    "give mpirun --allow-run-as-root, or set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
)
# Open MPI and MPICH, before NCCL has begun; NVIDIA/nccl-tests, issue 92.
_NO_MPI = message(
    r"MPI_INIT failed|Fatal error in (?:internal_)?P?MPI_Init|PML add procs failed|Open MPI failed to TCP connect",
    "MPI itself does not connect its ranks, before NCCL has a part in it",
    "keep MPI to the interface of every host (--mca btl_tcp_if_include and oob_tcp_if_include, such as eth0), and "
    "build nccl-tests with the MPI that starts it",
)
_NOT_STARTED = message(
    r"(?:ORTE|PRTE) was unable to reliably start",
    "mpirun did not start its daemon on another host, or got no answer from there",
    "look at the lines before it; mpirun is needed on every host, and all TCP ports between them",
    follows=2,
)
_LAUNCHER_ENDED = message(
    r"(?:mpirun|prterun) (?:noticed|detected|was unable)|(?:ORTE|PRTE) (?:was unable|does not|has lost)|srun: error",
    "the launcher ended the run, or did not start it",
    "look at the first failing rank",
    follows=2,
)
_MESSAGES = (
    _NO_DEVICE,
    _NO_LIBRARY,
    message(
        r"Failed to initialize any NET plugin",
        "NCCL_NET allows no network that this host has",
        "leave NCCL_NET out, or give the pod the RDMA devices that it names",
    ),
    message(
        r"Duplicate GPU detected|Multiple Ranks are using the same GPU",
        "two ranks were put on one GPU",
        "start as many ranks on each host as it has GPUs, or give each rank a GPU of its own (CUDA_VISIBLE_DEVICES)",
    ),
    # Of CUDA, for a rank whose number on its host is none of a GPU there; NVIDIA/nccl-tests, issues 30, 263 and 323.
    message(
        r"no CUDA-capable device is detected|invalid device ordinal",
        "a host has more ranks than GPUs, of which a pod sees those that it asks for",
        "start as many ranks on each host as nvidia-smi -L has GPUs in its pod; -t and -g are the GPUs of each rank",
    ),
    message(
        r"no kernel image is available",
        "nccl-tests or NCCL of the image were built for other GPUs than these",
        "use an image with a newer CUDA, or build them for these GPUs (NVCC_GENCODE)",
    ),
    message(
        r"Mismatched NCCL version",
        "the ranks have different versions of NCCL: their images, or LD_LIBRARY_PATH, differ",
        "run the same image on every host",
    ),
    # src/misc/shmutils.cc, which follows the first line with a second one; docs of troubleshooting, "Shared Memory".
    message(
        r"failed to extend /dev/shm/|/dev/shm/.{0,80}No space left",
        "shared memory (/dev/shm) is too small: a container has 64 MiB unless its pod says otherwise",
        "give the pod an emptyDir of medium Memory at /dev/shm, of 1 GiB or more",
        about="shared memory",
    ),
    message(
        r"shared memory (?:segment|file) /dev/shm/|Could not map /dev/shm/",
        "the ranks of a host do not share /dev/shm, or may not write to it",
        "give the pod an emptyDir of medium Memory at /dev/shm; the error that the line names tells more",
        about="shared memory",
    ),
    # src/transport/net_ib.cc: since 2.26.2 a GID that is not mapped into a container is passed over.
    message(
        r"(?:read|open) failed in ncclIbRoceGetVersionNum",
        "NCCL before 2.26 does not pass over the GIDs of a port that a pod cannot see (macvlan)",
        "use NCCL 2.26 or newer, or set NCCL_IB_GID_INDEX to the pod's own RoCE v2 GID (gid_attrs/types of the port)",
    ),
    # src/transport/net_ib.cc; the kernel refuses a device of another network namespace (rdma system show: exclusive).
    message(
        r"Call to ibv_open_device failed|NET/IB ?: Unable to open device",
        "the pod sees an RDMA device that it may not open: it was not given to it, or is in another network namespace",
        "let the pod ask for the RDMA resource of the device plugin instead of mounting /dev/infiniband",
        ends_run=False,
    ),
    # src/transport/net_ib/common.cc; NVIDIA/nccl, issues 905 and 230. Transfers over the port end in state 12 then.
    message(
        r"async event ?: port error",
        "the link of a port went down while the test ran",
        "look at that host's cable, transceiver and switch port, and at its kernel log",
        about="completion 12",
    ),
    message(
        r"local catastrophic error",
        "a NIC failed, or its driver was reset or unloaded while the test ran",
        "look at that host's kernel log (mlx5_core, PCIe errors), and at the NIC's firmware and temperature",
    ),
    *REFUSED_CALLS,
    GPU_NOT_READY,
    # CUDA's enum cudaError, 2, 35 and 803.
    message(
        r"cuda failure.{0,120}out of memory",
        "the GPU has not enough free memory",
        "look for other processes on it (nvidia-smi), and lower the largest size (-e)",
    ),
    message(
        r"CUDA driver version is insufficient|unsupported display driver / cuda driver combination",
        "the GPU's driver on the node does not fit the CUDA of the image",
        "use an image with an older CUDA, or a newer driver",
    ),
    # src/transport/nvls.cc, before 2.29 without words of its own; NVIDIA/nccl, issues 1488 and 1562.
    message(
        r"nvls\.cc:\d{1,5} NCCL WARN Cuda failure|Failed to bind NVLink SHARP",
        "NVLink SHARP of the host's NVSwitches does not work, as when nvidia-fabricmanager was started again alone",
        "reset the GPUs with nvidia-fabricmanager stopped, or reboot the node; NCCL_NVLS_ENABLE=0 does without it",
    ),
    # src/misc/socket.cc and src/proxy.cc: other threads and ranks see connections end after the first error.
    message(
        r"^([\w-]{1,63})[\w.-]{0,190}:\d{1,8}:\d{1,8} .{0,120}Connection closed by remote peer \1[.<]",
        "another process of the same host ended before",
        "look for the first NCCL WARN of this host's ranks, and at the host: kernel log, memory, Xid errors",
        follows=1,
        about="closed",
    ),
    message(
        r"Connection closed by remote peer|\] Failed to execute operation |Error encountered progressing operation",
        "another rank, or its host, went down, or another thread of this one failed before",
        "look for the first NCCL WARN of all ranks, and at their hosts: kernel log, memory, Xid errors",
        follows=1,
        about="closed",
    ),
    # src/misc/socket.cc: since 2.24 each try but the last says "retrying (1/34)"; ncclOsSocketPollConnect since 2.29.
    message(
        r"Bootstrap ?: no socket interface found|No interface found|Call to connect .{0,80}failed"
        r"|socket(?:Start|Poll)Connect(?!.{0,900} retrying \()",
        "the ranks do not reach each other over the network of NCCL_SOCKET_IFNAME",
        "name an interface that every rank has and that no firewall stands in",
    ),
    message(
        r"Test timeout|Watchdog caught collective operation timeout",
        "the collective did not end in time",
        "look for a rank that failed or hangs, and run with NCCL_DEBUG=INFO",
    ),
    _TEST_ENDED,
    _NOT_LET_IN,
    _AS_ROOT,
    _NO_MPI,
    # Of Open MPI (help-orte-rmaps-base.txt, "alloc-error").
    message(
        r"There are not enough slots available|nodes which are allocated for this job are already filled",
        "the host file or the allocation has fewer slots than ranks are asked for (-np)",
        "give each host as many slots as it has GPUs (slots=8 in the host file, slotsPerWorker of an MPIJob)",
    ),
    _NOT_STARTED,
    _LAUNCHER_ENDED,
    message(
        r"^invalid (?:size specified|sizes) for '|^invalid option '",
        "the test did not take its arguments",
        "give -b and -e as sizes such as 8 and 16G, the smaller one first; an old nccl-tests has fewer options",
    ),
    message(
        r"Invalid number of GPUs|command not found|error while loading shared libraries|executable file not found",
        "the test did not start",
        "check the number of GPUs asked for (-g) and that nccl-tests and NCCL are installed on every host",
    ),
)
_WORTH_A_LOOK = re.compile(
    r"fail|error|NET/IB|no .{0,12}interface|timeout|mpirun|prterun|orte|prte|srun|invalid|not found|call to|completion"
    r"|ssh:|host key|denied|slots|filled|socketStartConnect|socketPollConnect|NCCL WARN|not open|mpiexec|no CUDA|image",
    re.IGNORECASE,
)


def transport_in(lines: Iterable[str]) -> dict[str, Any]:
    """Return what the log says of the transport; without a log every value is None or empty.

    ``network``: what NCCL chose or, better, what channels use (IB, Socket, a plugin's name, MNNVL where they use NVLink
    between hosts and no NIC); ``devices``: the HCAs with their ports (``mlx5_0:1``), ``link_layers``: RoCE and IB among
    them; ``gpu_direct``: ``all``, ``some`` or ``none`` of the channels over RDMA go without a copy in host memory;
    ``local_only``: there are channels and none leaves its host; ``version``: of NCCL.
    """
    chosen: str | None = None
    version: str | None = None
    networks: dict[str, int] = {}
    devices: dict[str, str] = {}
    direct = local = nvlink = 0
    for line in lines:
        if "via " in line:
            channel = _CHANNEL.search(line)
            if channel and (channel[1] in networks or len(networks) < _MOST_NAMES):
                networks[channel[1]] = networks.get(channel[1], 0) + 1
                direct += "/GDRDMA" in channel[2]
            local += bool(_LOCAL_CHANNEL.search(line))
            nvlink += bool(_NVLINK_CHANNEL.search(line))
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
        "network": "Socket" if socket else next(iter(networks), None) or (MNNVL if nvlink else chosen),
        "devices": sorted(devices),
        "link_layers": sorted(set(devices.values())),
        "gpu_direct": None if not over_rdma else "all" if direct == over_rdma else "some" if direct else "none",
        "local_only": bool(local) and not used and not nvlink,
        "version": version,
    }


def devices_by_host(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return the HCAs that the ranks of each host found, by the name before their lines; none where they found none."""
    found: dict[str, list[str]] = {}
    for line in lines:
        host, listed = host_of(line), _DEVICES.search(line)
        if host and listed:
            names = found.setdefault(host, [])
            names += [name for name, _port, _layer in _DEVICE.findall(listed[1]) if name not in names]
    return found


def host_of(line: str) -> str:
    """Return the host that NCCL names before a line of its log, an empty text where it is no such line."""
    return _first(_HOST, line) or ""


def errors_in(lines: Iterable[str], one_host: bool = False) -> Errors:
    """Return the errors that NCCL, the test or its launcher print, each kind once, those that end a run first.

    A run that stays on ``one_host`` needs no RDMA device; that NCCL found none is no error of it. That a test or its
    launcher ended is left out where the reason stands before it; otherwise it is told with NCCL's first warning.
    """
    found: dict[str, tuple[Message, str, int]] = {}
    warnings: list[str] = []
    for line in dict.fromkeys(lines):
        if not _WORTH_A_LOOK.search(line):
            continue
        kind = _message_of(line)
        if kind in (None, _TEST_ENDED):
            warnings += filter(None, [_first(_WARNING, line)] if len(warnings) < _MOST_NAMES else [])
        if kind and len(found) < _MOST_NAMES and not (one_host and kind in (_NO_DEVICE, _NO_LIBRARY)):
            # Ranks that end mix, so a warning may come after their end; after a lost connection come its consequences.
            found.setdefault(kind.about, (kind, line, len(warnings) if kind.follows == 1 else _MOST_NAMES))
    if _NOT_STARTED.about not in found:
        found.pop(_NOT_LET_IN.about, None)  # a script has waited for sshd
    told = [(kind, _told(line, kind, warnings[:known])) for kind, line, known in found.values()]
    ends = [kind.follows for kind, _problem in told if kind.ends_run]
    reasons = [problem for kind, problem in told if kind.ends_run and kind.follows == min(ends)]
    return Errors([*reasons, *(problem for kind, problem in told if not kind.ends_run)], bool(ends))


def _told(line: str, kind: Message, warnings: Sequence[str]) -> Problem:
    """Return the problem of a line; for what follows an error, with the first warning that no message explains."""
    cause = kind.cause
    if kind.follows and warnings:
        first = next((each for each in warnings if _FAILURE.search(each)), warnings[0])
        cause += "" if first in line else f"; NCCL's first warning: {quoted(first)}"
    return problem_of(quoted(line), cause, kind.next_step)


def _message_of(line: str) -> Message | None:
    """Return the kind of the error that a line tells; each completion state is a kind of its own."""
    state = _COMPLETION.search(line)
    if state:
        code = int(state[1])
        return Message(_COMPLETION, *completion(code), int(code == _FLUSHED), about=f"completion {code}")
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
