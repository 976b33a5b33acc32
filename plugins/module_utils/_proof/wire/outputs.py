# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the outputs of ping, rping, ib_write_bw and ib_write_lat mean for a pair. Pure."""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple, Sequence

from ..bandwidth import GPU_THRESHOLDS, bandwidth_verdict, pcie_gbps
from ..output_text import quoted
from ..perftest import perftest_result
from ..problem import Problem, problem_of
from .counters import Reading, loss_problem, losses, rises, sign_lines
from .gpu import Ways, farthest
from .shell import Output

KILLED = 137
"""Status of a program that the watcher in the pod ended (128 + SIGKILL)."""
_MISSING = (126, 127)
_NOT_THERE = re.compile(r"not found|^taskset: .{0,80}No such file or directory", re.MULTILINE)

_PING = re.compile(r"(\d{1,6}) packets transmitted, (\d{1,6}) (?:packets )?received", re.ASCII)
_PING_TIME = re.compile(r"= [\d.]{1,12}/([\d.]{1,12})/", re.ASCII)
_TOO_LONG = re.compile(r"message too long|Frag(?:mentation)? needed|Packet too big", re.IGNORECASE)
_OLD_PING = re.compile(r"(?:invalid|unrecognized) option.{0,12}M|unknown option", re.IGNORECASE)
_NO_RAW_SOCKET = re.compile(r"operation not permitted|lacking privilege|socket: permission denied", re.IGNORECASE)
_NO_ANSWER = re.compile(r"Host Unreachable|Network is unreachable|No route to host", re.IGNORECASE)
_NOT_YET = re.compile(
    r"RDMA_CM_EVENT_REJECTED|Connection refused|cma event.{0,20}REJECTED|Couldn't connect to", re.IGNORECASE
)
_CM_EVENT = re.compile(r"RDMA_CM_EVENT_(\w{3,24})", re.ASCII)
_COMPARISON = re.compile(r"data mismatch|validat\w{0,6} (?:error|failed)", re.IGNORECASE)


class Judged(NamedTuple):
    """The verdict on one output: pass, fail or reported, what was seen in a few words, the problem if it failed."""

    verdict: str
    summary: str
    problem: Problem | None = None
    figures: dict[str, Any] | None = None


class Ends(NamedTuple):
    """What is known about the two ends of a bandwidth test: rates of their ports, PCIe of their NICs, emulation."""

    link_gbps: float | None
    pcie: dict[str, Any] | None
    software: bool


def failed(problem: str, cause: str, next_step: str, figures: dict[str, Any] | None = None) -> Judged:
    """Return a red verdict with its cause and what to do."""
    return Judged("fail", problem, problem_of(problem, cause, next_step), figures)


def ended_early(output: Output, program: str) -> Judged | None:
    """Return the verdict on a program that was ended for its time, or is not there; None when it ran to its end."""
    if output.status == KILLED:
        cause = "it waits for something that never comes: packets are lost, or the other side hangs"
        step = "check firewalls (UDP 4791), the path's MTU and the switch, and the other side's output"
        return failed(f"{program} hung and was ended", cause, step)
    if output.status in _MISSING and _NOT_THERE.search(output.text):
        step = "use an image that has ping, rping and ib_write_bw (rdma_fabric_verify_image)"
        return failed(f"{program} is not in the test image", "another image than the usual one is used", step)
    return None


def judge_ping(output: Output, mtu: int, *, small: bool = False) -> Judged:
    """Judge a ping with full packets of ``mtu`` bytes that must not be cut; one lost of several is forgiven.

    ``small``: packets of a few bytes came through between the two.
    """
    text, found = output.text, _PING.search(output.text)
    sent, received = (int(found[1]), int(found[2])) if found else (0, 0)
    if received and sent - received <= 1:
        time = _PING_TIME.search(text)
        return Judged("pass", f"{received} of {sent} packets of {mtu} bytes{f', {time[1]} ms' if time else ''}")
    return ended_early(output, "ping") or _failed_ping(text, sent, received, mtu, small=small)


def _failed_ping(text: str, sent: int, received: int, mtu: int, *, small: bool) -> Judged:
    if _TOO_LONG.search(text):
        cause = "an interface or a switch on the way has a smaller MTU"
        step = "set one MTU on both interfaces, and at least that on every switch port between them"
        return failed(f"packets of {mtu} bytes do not pass uncut", cause, step)
    if sent and received:
        cause = "packets are lost: a bad cable or transceiver, a full queue, or two hosts with one address"
        step = "look at the error counters of both ports"
        return failed(f"{received} of {sent} packets of {mtu} bytes came back", cause, step)
    if sent and small:
        cause = "a switch or another hop on the way has a smaller MTU and drops them, or a filter takes pings"
        step = "set at least this MTU on every switch port between the two; if bandwidth passes, look for the filter"
        return failed(f"no answer to packets of {mtu} bytes, while small ones pass", cause, step)
    if sent or _NO_ANSWER.search(text):
        cause = "the wire between the two is cut, or they are in different broadcast domains or VLANs"
        step = "check cable, switch port and VLAN of both sides, and that small packets pass (MTU of the switch)"
        return failed(f"no answer to packets of {mtu} bytes", cause, step, {"received": 0})
    return _ping_not_run(text)


def _ping_not_run(text: str) -> Judged:
    if _OLD_PING.search(text):
        step = "use an image with ping of iputils (rdma_fabric_verify_image)"
        return failed("this ping cannot forbid fragments (-M do)", "the image has the ping of busybox", step)
    if _NO_RAW_SOCKET.search(text):
        step = "set net.ipv4.ping_group_range for pods, or allow NET_RAW in the namespace of the test pods"
        return failed("ping may not open its socket", "the container has no NET_RAW and no ping group", step)
    cause = "its output has no known form"
    return failed(f"ping failed: {_first_line(text)}", cause, "run it by hand in a pod")


def may_come_up(output: Output) -> bool:
    """Tell whether a client was refused as by a server side that does not listen yet."""
    return output.status != 0 and bool(_NOT_YET.search(output.text))


def judge_rping(output: Output) -> Judged:
    """Judge the client side of rping, which compares what comes back with what it sent."""
    text = output.text
    event = _CM_EVENT.search(text)
    if output.status == 0 and not _COMPARISON.search(text):
        return Judged("pass", "connected by the RDMA connection manager, and the data came back as sent")
    early = ended_early(output, "rping")
    if early:
        return early
    if _COMPARISON.search(text):
        return failed("rping got other data than it sent", "memory, firmware or driver is broken", "replace the NIC")
    if may_come_up(output):
        cause = "nothing listens there: the server side ended, or the address belongs to another host"
        return failed("the connection was refused", cause, "look at the other side's output")
    if event:
        cause = "the RDMA connection manager found no way to the address: route, neighbour, or a filter on UDP 4791"
        return failed(f"rping ended with {event[1]}", cause, "compare the two sides' addresses, routes and GIDs")
    cause = "the RDMA connection manager could not start, or the transfer broke"
    step = "check that rdma_ucm is loaded on both nodes and /dev/infiniband/rdma_cm reaches the pod"
    return failed(f"rping failed: {_first_line(text)}", cause, step)


def judge_bandwidth(client: Output, server: str, ends: Ends, minimum: float | None) -> Judged:
    """Judge a run of ib_write_bw by its client side; what the ``server`` side printed tells the cause when it knows."""
    result = perftest_result(f"{client.text}\n", "gbps")
    verdict = bandwidth_verdict(result, ends.link_gbps, pcie=ends.pcie, emulated=ends.software, threshold=minimum)
    return _judged_rate(client, server, result, verdict)


def judge_gpu_bandwidth(client: Output, server: str, ends: Ends, minimum: float | None, ways: Sequence[Ways]) -> Judged:
    """Judge a run of ib_write_bw between GPUs, as ``judge_bandwidth``; ``ways`` are those of client and server.

    The way that is farther decides what is asked for. ``minimum`` only lowers that: a share that is meant for host
    memory is out of reach for many GPUs.
    """
    result = perftest_result(f"{client.text}\n", "gbps")
    taken = [result["gpu"], perftest_result(f"{server}\n", "gbps")["gpu"] if server else None]
    found = [known.get(gpu or "") for gpu, known in zip(taken, ways)]
    distance = farthest(found)
    verdict = bandwidth_verdict(
        result,
        ends.link_gbps,
        pcie=ends.pcie,
        kind="gpu",
        distance=distance,
        gpu_pcie=slower_pcie([way.pcie if way else None for way in found]),
        emulated=ends.software,
        threshold=minimum if minimum is not None and minimum < _least_of_gpus(distance) else None,
    )
    judged = _judged_rate(client, server, result, verdict)
    if judged.figures is None:
        return judged
    told = [f"from GPU {taken[0]} to GPU {taken[1]}"] if all(taken) else []
    figures = {**judged.figures, "distance": distance, "gpus": taken}
    return judged._replace(summary="; ".join([judged.summary, *told]), figures=figures)


def _least_of_gpus(distance: str | None) -> float:
    return GPU_THRESHOLDS[distance] if distance else min(GPU_THRESHOLDS.values())


def _judged_rate(client: Output, server: str, result: dict[str, Any], verdict: dict[str, Any]) -> Judged:
    early = ended_early(client, "ib_write_bw")
    if early and not result["rows"]:
        return early
    figures = {key: verdict[key] for key in ("measured_gbps", "expected_gbps", "limit", "ratio", "threshold")}
    figures["peak_gbps"] = (result["summary"] or {}).get("peak_gbps")
    if result["complete"] and client.status not in (0, None) and verdict["verdict"] != "fail":
        return failed(f"ib_write_bw ended with status {client.status}", "see its output", "run it by hand", figures)
    if verdict["verdict"] != "fail":
        return Judged(verdict["verdict"], verdict["reason"], None, figures)
    if result["complete"]:
        hints = (
            "; ".join(verdict["hints"]) or "compare with other pairs of these nodes, and look at the ports' counters"
        )
        return failed(verdict["reason"], "the way carries less than its parts promise", hints, figures)
    problem = _broken_run(result, server)
    return Judged("fail", f"nothing was measured: {problem['problem']}", problem, figures)


def judge_latency(client: Output, server: str, software: bool) -> Judged:
    """Judge a run of ib_write_lat by its client side, as ``judge_bandwidth``. No latency is too long by itself: what
    is usual depends on cables and switches, so pairs are compared. An image without the program skips the test.
    """
    early = ended_early(client, "ib_write_lat")
    if early and client.status in _MISSING:
        return Judged("skipped", f"not run, because {early.summary}")
    result = perftest_result(f"{client.text}\n", "gbps")
    figures = result["summary"] or {}
    if early and not result["rows"]:
        return early
    if not result["complete"] or client.status != 0 or figures.get("typical_us") is None:
        problem = _broken_run(result, server)
        return Judged("fail", f"nothing was measured: {problem['problem']}", problem)
    kept = {key: figures[key] for key in ("typical_us", "average_us", "p99_us")}
    words = f"{kept['typical_us']:g} us typical" + (f", 99 % within {kept['p99_us']:g} us" if kept["p99_us"] else "")
    if software:
        return Judged("reported", f"{words}; an emulated device, not judged", None, kept)
    return Judged("pass", words, None, kept)


def with_counters(judged: Judged, readings: Mapping[str, Reading], idle: str = "") -> Judged:
    """Return the verdict on a measurement in the light of the ports' counters, by node.

    Packets that were lost or damaged fail a test whatever its rate is, and explain a rate that fails. What kept a rate
    from being measured says more than they do. With ``idle`` only the counters of this node do so.
    """
    sides = {node: rises(reading) for node, reading in readings.items()}
    lost = {node: losses(reading) if idle in ("", node) else {} for node, reading in readings.items()}
    problem = loss_problem(lost)
    rest = {node: {name: by for name, by in risen.items() if name not in lost[node]} for node, risen in sides.items()}
    told = sign_lines(rest, readings)
    known = any(reading.before for reading in readings.values())
    risen = {node: names for node, names in sides.items() if names} if known else None
    figures = {**(judged.figures or {}), "counters": risen}
    summary = "; ".join([judged.summary, *told])
    if problem is None:
        return judged._replace(summary=summary, figures=figures)
    if all((judged.figures or {}).get(key) is None for key in ("measured_gbps", "typical_us")):
        return judged._replace(summary=f"{summary}; {problem['problem']}", figures=figures)
    return Judged("fail", f"{problem['problem']}; {summary}", problem, figures)


def _broken_run(result: dict[str, Any], server: str) -> Problem:
    """Return the problem that says most: the client's own, unless it only says that the other side ended."""
    own: Sequence[Problem] = result["problems"]
    theirs: Sequence[Problem] = perftest_result(f"{server}\n", "gbps")["problems"] if server else []
    known = [each for each in own if "other side" not in each["cause"]]
    blamed = [e for e in theirs if e["cause"] != "no client connected to it" and "other side" not in e["cause"]]
    if known and not known[0]["problem"].startswith(("there is no row", "the output is empty")):
        return known[0]
    unknown = problem_of("the output is not complete", "the program ended without a word", "run it by hand in a pod")
    return (blamed or known or [*own, unknown])[0]


def slower_pcie(links: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Return the PCIe link (``{"speed_gts", "width"}``) that carries least; None when none is known."""
    known = [(carried, link) for link in links for carried in [carried_by(link)] if link and carried is not None]
    if not known:
        return None
    _carried, slowest = min(known, key=lambda each: each[0])
    return {key: slowest[key] for key in ("speed_gts", "width")}


def carried_by(link: dict[str, Any] | None) -> float | None:
    """Return the Gb/s that a PCIe link carries in one direction; None when it is not known."""
    if not link or not link.get("speed_gts") or not link.get("width"):
        return None
    try:
        return pcie_gbps(float(link["speed_gts"]), int(link["width"]))
    except KeyError:
        return None


def _first_line(text: str) -> str:
    return next((quoted(line) for line in text.splitlines() if line.strip()), "it printed nothing")
