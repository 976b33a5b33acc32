# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the messages of perftest mean and what to do about them. Pure.

The messages are those of perftest 4.4 to 26.04, of the libraries below it, and of kubectl exec around it. Standard
output and standard error mix without a line end between them, so a message is looked for anywhere in a line.
"""

from __future__ import annotations

import re
from typing import Iterable

from .messages import GPU_NOT_READY, REFUSED_CALLS, completion, message
from .output_text import quoted
from .problem import Problem, problem_of

MOST_PROBLEMS = 50


# Standard error often follows a row without a line end between them.
_ROW_BEFORE = re.compile(r"^[\s\d.]{1,200}")
_STATUS = re.compile(r"Failed status(?:\s{0,4}-?[^()\d]{0,60}\((\d{1,4})\)|\s{1,4}(\d{1,4}))", re.IGNORECASE)
_NOT_REACHED = (
    "the RDMA connection manager did not reach the other side",
    "give the address of the RDMA interface, check the route to it, and start the server side with -R as well",
)

# In order: of a line's messages the first that matches counts.
MESSAGES = (
    message(
        r"Couldn't connect to \S{1,200}:\d",
        "nothing listens at the server's address yet, or a firewall or a wrong address is in between",
        "start the server side first, and check its address and the TCP port (-p, 18515 by default)",
    ),
    message(
        r"(?:not known|temporary failure in name resolution|no address associated with hostname|gai_strerror)",
        "the server's name has no address here",
        "give the server's address instead of its name",
    ),
    message(
        r"(?:Couldn't listen to port|bind\b.{0,40}Address already in use|Failed to bind socket)",
        "the TCP port of the test is taken, mostly by an older server side",
        "end the older server side or choose another port on both sides (-p)",
    ),
    message(
        r"Couldn't read remote address|Couldn't read reports|Unable to read from socket|server closed",
        "the other side ended before the test did",
        "look at the other side's output: the cause is there",
    ),
    message(
        r"Did not get Message for \d",
        "the client connected and then sent nothing that arrived: it has ended, or its packets are lost on the way",
        "look at the client's output; without an error there check UDP port 4791, the path's MTU and both GID indexes",
    ),
    message(
        r"IB device \S{1,80} not found|Did not detect devices|No IB devices found",
        "this side has no RDMA device of that name, or its libraries (rdma-core) are too old to know it",
        "name a device of this side (-d), and check that the driver is loaded and the device reaches the pod; where "
        "/sys/class/infiniband has it, use an image with an rdma-core as new as the card and the node's driver",
    ),
    message(
        r"unrecognized option '?--use_(?:cuda|rocm|musa)|Unsupported memory type",
        "this build of perftest has no GPU support: those of the distributions are built without CUDA",
        "use an image whose perftest was built with CUDA (configure CUDA_H_PATH=...)",
    ),
    message(
        r"DMABUF requested but not supported in this build",
        "this build of perftest registers no DMA-BUF: it was built with an rdma-core before 34",
        "use an image whose perftest was built with a newer one, or nvidia-peermem without --use_cuda_dmabuf",
    ),
    message(
        r"unrecognized option|invalid option|option '[^']{0,60}' requires an argument|Invalid verbosity level",
        "this version of perftest does not know an option of the command",
        "compare the options with --help of the same version",
    ),
    message(
        r"Port number \d{1,4} state is|Couldn't set the link layer|Port \d{1,4} is not active",
        "the port is not active",
        "bring the link up: cable, switch port, and on InfiniBand the subnet manager",
    ),
    message(
        r"Found Incompatibility issue with GID types|GID types? mismatch",
        "the two sides use GIDs of different kinds",
        "give each side the index of its own RoCE v2 GID (-x); the index may differ between hosts",
    ),
    *REFUSED_CALLS,
    GPU_NOT_READY,
    # src/perftest_parameters.c: options are taken in their order.
    message(
        r"cannot be used without (?:CUDA|MUSA|ROCm|MLU|Neuron|OpenCL)",
        "this option stands before the one that names the GPU, or without it: options are read in their order",
        "put --use_cuda=N (or that of the other kind of GPU) before it, on both sides",
    ),
    message(
        r"device\(s\) that support CUDA|No such device ID|cuInit\(0\) returned|Couldn't init GPU context",
        "no usable GPU is visible here",
        "give the pod a GPU and check nvidia-smi in it",
    ),
    message(
        r"DMA-BUF is not supported on this GPU|cuMemGetHandleForAddressRange error",
        "the GPU's driver offers no DMA-BUF",
        "use the open GPU kernel modules, or load nvidia-peermem and leave out --use_cuda_dmabuf",
    ),
    message(
        r"cuMemAlloc(?:Managed|Host)? error|cuCtx\w{1,30}\(\) error",
        "the GPU gave no memory",
        "free GPU memory or choose another GPU (--use_cuda=N)",
    ),
    # 28 is that of rdma_reject(), which a server side calls where it has no memory or queue for the client.
    message(
        r"RDMA_CM_EVENT_REJECTED; error: 28\b",
        "the other side was reached and refused, as its own part of the connection failed",
        "look at the other side's output: the cause is there",
    ),
    message(
        r"RDMA_CM_EVENT_(?:ADDR_ERROR|ROUTE_ERROR|UNREACHABLE|REJECTED|CONNECT_ERROR)"
        r"|rdma_resolve_(?:addr|route) failed|Failed to resolve RDMA CM"
        r"|rdma_bind_addr failed|Function rdma_connect failed|unexpected CM event|times ADDR_ERROR"
        r"|Unable to connect \(retries",
        *_NOT_REACHED,
    ),
    # Said of whatever failed since, such as a registration (linux-rdma/perftest, issue 126).
    message(r"Failed to connect RDMA CM", *_NOT_REACHED, follows=1),
    message(
        r"not compatible with versions older than|versions? mismatch|mismatch: local=",
        "the two sides are of versions or options that do not fit",
        "use the same perftest and the same options on both sides",
    ),
    message(
        r"feature not available|connection (?:not|only) possible|not supported (?:on|by) this (?:device|machine)",
        "these options do not go together, or not with this device",
        "leave out the one that the message names",
    ),
    message(
        r"command not found|executable file not found|not found in \$PATH|No such file or directory: ?.{0,60}ib_",
        "perftest is not installed here",
        "install the package perftest, or use an image that has it",
    ),
    message(
        r"libcuda\.so\S{0,8}: cannot open shared object",
        "libcuda of the GPU's driver is not here: a container has it only where its runtime gave it a GPU",
        "give the pod a GPU, and the RuntimeClass of pods with one where the cluster has that (such as nvidia)",
    ),
    message(
        r"Failed to get driver entry point",
        "the GPU's driver is older than the CUDA that perftest was built with",
        "use a perftest built with an older CUDA, or a newer driver",
    ),
    message(
        r"error while loading shared libraries",
        "a library that perftest needs is missing",
        "install perftest with its libraries (libibverbs, librdmacm)",
    ),
    # --data_validation, since 26.04.
    message(
        r"VALIDATION: (?:FAILED|ERROR|WARNING)",
        "the data did not arrive as it was sent, or was not checked: memory, PCIe or ACS; the rates say nothing then",
        "test the pair again, then each side with another one; keep a host with wrong data out of the cluster",
    ),
    message(
        r"BW result is below bw limit|Msg rate\s{1,4}is below msg_rate limit",
        "the rate is below the limit of the command (--limit_bw, --limit_msgrate)",
        "look at the rows: they are valid",
        ends_run=False,
    ),
    message(
        r"Segmentation fault|core dumped|\bAborted\b|\bOOMKilled\b",
        "the program crashed",
        "try the newest perftest of the distribution, and look into the kernel's log",
    ),
    message(
        r"Completion with error",
        "a transfer ended with an error",
        "look at the completion state",
        follows=2,
    ),
    message(
        r"Invalid Command or flag|Unable to (?:init the socket connection|open file descriptor|set up socket connection"
        r"|find the Infiniband|Connect the HCA"
        r"|perform rdma_|create (?:RDMA_CM|the resources)|write to socket|read to socket)"
        r"|Couldn't (?:get context|create IB resources|allocate context)|Failed to (?:exchange|sync|close|negotiate)"
        r"|Failed to load CUDA library"
        r"|Failed to complete run_iter|Parser function exited|Failed to destroy resources|Error occurred while running",
        "the test did not start or did not end",
        "look at the lines before it and at the other side's output",
        follows=2,
    ),
    message(
        r"failed to create mr\b",
        "memory could not be registered (locked memory, nvidia-peermem), or that of the GPU not be allocated",
        "look at the lines before it",
        follows=1,
    ),
    message(
        r"command terminated with (?:non-zero )?exit code|Error from server|unable to upgrade connection",
        "the program in the pod failed, or the pod could not be reached",
        "look at the lines before it and at the pod",
        follows=2,
    ),
)

# Lines that worry readers and mean no harm.
NOTICES = (
    (re.compile(r"Conflicting CPU frequency", re.IGNORECASE), "CPU frequencies differ between cores; -F hides this"),
    (re.compile(r"BW peak won't be measured", re.IGNORECASE), "the peak is not measured in this kind of run"),
    (re.compile(r"not recognized to implement inline", re.IGNORECASE), "the device has no inline sends; none are used"),
    (
        re.compile(r"Invalid MTU|Requested mtu is higher", re.IGNORECASE),
        "the MTU of -m was not taken, the port's is used",
    ),
    (re.compile(r"couldn't load driver", re.IGNORECASE), "a driver library of other hardware is not installed"),
    # Of libibverbs/init.c in rdma-core; the second is printed with IBV_SHOW_WARNINGS alone.
    (
        re.compile(r"does not support the kernel ABI|no userspace device-specific driver", re.IGNORECASE),
        "libraries (rdma-core) of this side do not fit a device or its driver on the node, and leave it out",
    ),
    (
        re.compile(r"CPU is not PCIe relaxed ordering compliant", re.IGNORECASE),
        "PCIe relaxed ordering does not fit this CPU: --disable_pcie_relaxed on both sides",
    ),
)
# What every line with a message has; looking for it costs less than the patterns do.
_WORTH_A_LOOK = (
    *("couldn't", "unable", "fail", "error", "not found", "not known", "not compatible", "not recognized"),
    *("not available", "cannot be used", "too big", "not possible", "not supported", "won't", "unrecognized"),
    *("invalid", "mismatch", "incompatib", "did not", "is not active", "state is", "no such", "no ib", "no address"),
    *("device(s)", "kernel abi", "no userspace", "requested", "unsupported", "only possible", "aborted"),
    *("core dumped", "segmentation", "killed", "conflicting", "relaxed ordering", "name resolution", "closed"),
    *("gai_", "cuinit", "dma-buf", "below", "requires an", "terminated", "rdma_cm_event"),
    *("unexpected cm", "validation"),
)


def problems_in(lines: Iterable[str]) -> tuple[list[Problem], bool]:
    """Return what the messages in an output say, each ``{"problem", "cause", "next_step"}``, and whether one ended the
    run.

    A message that only says that an earlier step failed is listed when nothing tells the cause.
    """
    told: dict[object, tuple[int, Problem]] = {}
    ended = False
    for line in dict.fromkeys(lines):
        if len(told) >= MOST_PROBLEMS or not _worth_a_look(line):
            continue
        status = _STATUS.search(line)
        if status:
            code = int(status[1] or status[2])
            ended = True
            told.setdefault(code, (0, _problem(line, *completion(code))))
            continue
        found = next((each for each in MESSAGES if each.pattern.search(line)), None)
        if found is not None:
            ended = ended or found.ends_run
            told.setdefault(found.about, (found.follows, _problem(line, found.cause, found.next_step)))
    nearest = min((follows for follows, _told in told.values()), default=0)
    return [problem for follows, problem in told.values() if follows == nearest], ended


def notices_in(lines: Iterable[str]) -> list[str]:
    """Return what harmless but worrying lines in an output mean, each once."""
    found: list[str] = []
    for line in dict.fromkeys(lines):
        if _worth_a_look(line):
            found += [text for pattern, text in NOTICES if text not in found and pattern.search(line)]
    return found


def _worth_a_look(line: str) -> bool:
    small = line.lower()
    return any(word in small for word in _WORTH_A_LOOK)


def _problem(line: str, cause: str, next_step: str) -> Problem:
    return problem_of(quoted(_ROW_BEFORE.sub("", line)), cause, next_step)
