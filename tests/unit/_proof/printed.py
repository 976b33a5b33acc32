# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements, laid out as perftest, NCCL tests and NCCL's log print them; not a copy of any output.

Each function names the source of the form. Widths of columns are ours, and so are addresses and numbers of processes.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

DASHES = "-" * 87
_LOG = "node-1:100:101 [0]"


def perftest(facts: Mapping[str, Any]) -> str:
    """Return a test of bandwidth: linux-rdma/perftest, src/perftest_parameters.c (ctx_print_test_info, RESULT_FMT)."""
    lines = [DASHES, f"                    {facts['title']}"]
    if "device" in facts:
        lines += [
            f" Dual-port       : OFF\t\tDevice         : {facts['device']}",
            f" Link type       : {facts['link']}",
        ]
    unit = facts["unit"]
    header = f" #bytes     #iterations    BW peak[{unit}/sec]    BW average[{unit}/sec]   MsgRate[Mpps]"
    rows = [" " + "".join(f"{value:<16}" for value in each) for each in facts["rows"]]
    return "\n".join([*lines, DASHES, header, *rows, DASHES, ""])


def perftest_completion(status: int, syndrome: str) -> str:
    """Return a failed completion: linux-rdma/perftest, src/perftest_resources.c."""
    return f" Completion with error at client\n Failed status {status}: wr_id 0 syndrom {syndrome}\n"


def perftest_memory(errno: int) -> str:
    """Return memory that the driver did not register: linux-rdma/perftest, src/perftest_resources.c."""
    return f"Couldn't allocate MR with error={errno}\nfailed to create mr\n"


def nccl_tests(facts: Mapping[str, Any]) -> str:
    """Return a run: NVIDIA/nccl-tests, src/common.cu and src/util.cu; without redop and root as before 2.10."""
    lines = [f"# nccl-tests version {facts['version']}"] if "version" in facts else []
    lines += [f"# Collective test starting: {facts['test']}"] if "test" in facts else []
    lines += ["# nThread 1 nGpus 1", "#", "# Using devices"]
    for rank, host, device, address, model in facts.get("ranks", ()):
        lines.append(
            f"#  Rank {rank:2} Group  0 Pid {1000 + rank} on node-{host} device {device:2} [{address}] {model}"
        )
    measures = "   time   algbw   busbw" + ("   error" if len(facts["rows"][0]) == 11 else "  #wrong")
    lines += ["#", f"#       size         count      type{measures}{measures}"]
    lines += [nccl_row(each) for each in facts["rows"]]
    if "average" in facts:
        lines += nccl_end(facts["average"])
    return "\n".join([*lines, ""])


def nccl_row(values: Sequence[Any]) -> str:
    """Return a row of NCCL tests."""
    size, count, *others = values
    return f"{size:12}  {count:12}  {'  '.join(f'{value!s:>8}' for value in others)}"


def nccl_end(average: float) -> list[str]:
    """Return the lines at the end of a run without wrong elements."""
    return ["# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {average}", "#"]


def nccl_log(facts: Mapping[str, Any]) -> str:
    """Return lines of NCCL_DEBUG=INFO: NVIDIA/nccl, src/transport/net.cc, net_ib.cc and init.cc."""
    lines = []
    if "devices" in facts:
        used = " ".join(f"[{number}]{device}" for number, device in enumerate(facts["devices"]))
        lines.append(f"{_LOG} NCCL INFO NET/IB : Using {used} {facts.get('end', '')}; OOB eth0:192.0.2.1<0>")
    if "network" in facts:
        lines.append(f"{_LOG} NCCL INFO Using network {facts['network']}")
    if "version" in facts:
        lines.append(f"NCCL version {facts['version']}")
    for channel, sender, receiver, side, way in facts.get("channels", ()):
        lines.append(f"{_LOG} NCCL INFO Channel {channel} : {sender} -> {receiver} [{side}] via NET/{way}")
    return "\n".join([*lines, ""])


def nccl_completion(facts: Mapping[str, Any]) -> str:
    """Return a failed completion: NVIDIA/nccl, src/transport/net_ib.cc; older releases say error, newer ones status."""
    start = f"{_LOG} transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer 192.0.2.2<40000> with"
    if "error" in facts:
        numbers = f"error {facts['error']}, opcode {facts['opcode']}, len {facts['len']}, vendor err {facts['vendor']}"
        return f"{start} {numbers} ({facts['direction']})\n"
    numbers = f"status={facts['status']} opcode={facts['opcode']} len={facts['len']} vendor err {facts['vendor']}"
    return f"{start} {numbers} ({facts['direction']}) localGid ::1 remoteGids::2 hca {facts['hca']}\n"
