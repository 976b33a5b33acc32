# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps between two test pods on one network, in their order, each with its time limit.

Commands go through an injected shell and time comes in as a function, so the steps hold no other input or output. No
step raises for what a pod, a program or a network does: that is a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Optional, Tuple

from ansible_collections.rdma.fabric.plugins.module_utils._proof.problem import Problem
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire import outputs, scripts
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.endpoint import (
    Attached,
    Choice,
    Seen,
    attached_network,
    choose,
    interface_problem,
    read_probe,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.outputs import Judged
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import (
    Output,
    Shell,
    ShellTrouble,
    trouble_problem,
)

Test = Dict[str, Any]

Limits = Callable[[Choice], Tuple[Optional[float], Optional[Dict[str, Any]]]]
"""What the facts of a host say of a device: rate of its link in Gb/s, PCIe link of its NIC."""

TESTS = ("pods", "interface", "device", "ping", "rping", "bandwidth")
VERDICTS = ("pass", "reported", "skipped", "fail")
MOST_OUTPUT_CHARACTERS = 4000
_PROBE_LIMIT = 60
_SERVE_LIMIT = 75
_FINISH_LIMIT = 45
_REACH = 30
"""Seconds that a busy node may take to start a command, beside the command's own limit."""
_RPING_TRIES = 10


@dataclass(frozen=True)
class Settings:
    """How pairs are tested: seconds a program may run, what a bandwidth test sends, the share of the rate asked for.

    ``size``, ``iterations`` and ``queue_pairs`` replace what fits the device; ``mtu`` is the one the network asks for.
    """

    limit: int = 60
    size: int | None = None
    iterations: int | None = None
    queue_pairs: int | None = None
    minimum: float | None = None
    mtu: int | None = None

    def load(self, software: bool) -> scripts.Load:
        """Return what a bandwidth test between devices of this kind sends."""
        usual = scripts.SOFTWARE_LOAD if software else scripts.HARDWARE_LOAD
        return scripts.Load(
            self.size or usual.size, self.iterations or usual.iterations, self.queue_pairs or usual.queue_pairs
        )


@dataclass(frozen=True)
class PodState:
    """What the cluster says about one test pod: Ready or why not, and what Multus wrote into its annotation."""

    name: str
    ready: bool
    network_status: str = ""
    problem: Problem | None = None


@dataclass(frozen=True)
class Side:
    """One end of a pair: its node and pod, what was found in the pod, and what is wrong before anything is sent.

    ``problems`` is keyed by the test that found it (pods, interface, device). ``link_gbps`` and ``pcie`` are what the
    facts of the host say of the chosen device.
    """

    node: str
    pod: str
    attached: Attached | None = None
    seen: Seen | None = None
    choice: Choice | None = None
    problems: dict[str, Problem] = field(default_factory=dict)
    link_gbps: float | None = None
    pcie: dict[str, Any] | None = None


def examine(shell: Shell, node: str, state: PodState, *, network: str, mtu: int | None, limits: Limits) -> Side:
    """Look into one pod, by one command; ``limits(choice)`` tells (Gb/s, PCIe) that the host's facts know of a device.

    ``network`` is ``namespace/name`` of the attachment.
    """
    if not state.ready:
        return Side(node, state.name, problems={"pods": state.problem or _not_ready()})
    attached, problem = attached_network(state.network_status, network)
    if attached is None:
        return Side(node, state.name, problems={"interface": problem or _not_ready()})
    try:
        output = shell.run(state.name, scripts.probe(attached.interface), _PROBE_LIMIT)
    except ShellTrouble as trouble:
        return Side(node, state.name, attached, problems={"pods": trouble_problem(trouble)})
    seen = read_probe(output.stdout)
    if not seen.complete:
        return Side(node, state.name, attached, problems={"pods": _unreadable(output)})
    problems: dict[str, Problem] = {}
    found = interface_problem(seen, attached, mtu)
    if found:
        problems["interface"] = found
    choice, found = choose(seen, attached)
    if found:
        problems["device"] = found
    link, pcie = limits(choice) if choice else (None, None)
    return Side(node, state.name, attached, seen, choice, problems, link, pcie)


def prove(
    shell: Shell, now: Callable[[], float], one: Side, other: Side, *, settings: Settings, port: int
) -> list[Test]:
    """Run every test between two sides and return what came of each, in order.

    ``port`` and the three after it are TCP and RDMA ports that no other test of these pods uses.
    """
    run = _Run(shell, now, settings)
    tests = [run.known(test, one, other) for test in ("pods", "interface", "device")]
    broken = next((test for test in tests[:2] if test["verdict"] == "fail"), None)
    tests[1:3] = [_skipped(each["test"], one, other, broken) if _after(broken, each) else each for each in tests[1:3]]
    pings = [run.ping(one, other, broken), run.ping(other, one, broken)]
    dead = all((test["figures"] or {}).get("received") == 0 for test in pings)
    stop = broken or (pings[0] if dead else None) or next((t for t in tests if t["verdict"] == "fail"), None)
    tests += pings
    tests.append(run.rping(one, other, port, stop))
    tests.append(run.bandwidth(one, other, port + 1, stop))
    tests.append(run.bandwidth(other, one, port + 2, stop))
    return tests


class _Run:
    """The tests of one pair."""

    def __init__(self, shell: Shell, now: Callable[[], float], settings: Settings) -> None:
        self.shell, self.now, self.settings = shell, now, settings

    def known(self, test: str, one: Side, other: Side) -> Test:
        """Return what was found before the pair was tested."""
        for side in (one, other):
            if test in side.problems:
                problem = side.problems[test]
                judged = Judged("fail", f"{side.node}: {problem['problem']}", problem)
                return _record(test, one, other, judged)
        if test == "interface" and self.settings.mtu is None and one.seen and other.seen:
            mtus = (one.seen.mtu, other.seen.mtu)
            if mtus[0] != mtus[1]:
                cause = f"{one.node} has {mtus[0]}, {other.node} has {mtus[1]}"
                step = "set one MTU on both nodes' interfaces, or the mtu of the network"
                return _record(test, one, other, outputs.failed("the two sides' MTUs differ", cause, step))
        return _record(test, one, other, Judged("pass", _words(test, one, other)))

    def ping(self, source: Side, target: Side, stop: Test | None) -> Test:
        """Ping with packets as large as the interface takes."""
        if stop or source.attached is None or target.attached is None or source.seen is None or target.seen is None:
            return _skipped("ping", source, target, stop)
        mtu = min(source.seen.mtu or 0, target.seen.mtu or 0)
        argv = scripts.ping(source.attached.interface, target.attached.address, mtu)
        return self._client("ping", source, target, argv, lambda output: outputs.judge_ping(output, mtu))

    def rping(self, source: Side, target: Side, port: int, stop: Test | None) -> Test:
        """Connect by the RDMA connection manager; a client that comes too early is refused, and comes again."""
        if stop or target.attached is None:
            return _skipped("rping", source, target, stop)
        address = target.attached.address
        client = scripts.rping_client(address, port)

        def work() -> tuple[Judged, str]:
            for attempt in range(1, _RPING_TRIES + 1):
                output = self._bounded(source, client)
                if attempt == _RPING_TRIES or not outputs.may_come_up(output):
                    break
            return outputs.judge_rping(output), output.text

        server = scripts.rping_server(address, port)
        return self._with_server(
            "rping", source, target, server=(f"rping-{port}", None, server), client=client, work=work
        )

    def bandwidth(self, source: Side, target: Side, port: int, stop: Test | None) -> Test:
        """Write from ``source`` to ``target`` and judge the rate."""
        one, other = source.choice, target.choice
        if stop or one is None or other is None or target.attached is None:
            return _skipped("bandwidth", source, target, stop)
        load = self.settings.load(one.software or other.software)
        server = scripts.write_bandwidth(other.device, other.port, other.gid_index, load, tcp_port=port)
        address = target.attached.address
        client = scripts.write_bandwidth(one.device, one.port, one.gid_index, load, tcp_port=port, server=address)
        ends = ends_of(source, target)

        def work() -> tuple[Judged, str]:
            output = self._bounded(source, client)
            theirs = "" if output.status == 0 else self._finish(target, f"bw-{port}").stdout
            return outputs.judge_bandwidth(output, theirs, ends, self.settings.minimum), _both(output.text, theirs)

        return self._with_server(
            "bandwidth", source, target, server=(f"bw-{port}", port, server), client=client, work=work
        )

    def _with_server(
        self,
        test: str,
        source: Side,
        target: Side,
        *,
        server: tuple[str, int | None, list[str]],
        client: list[str],
        work: Callable[[], tuple[Judged, str]],
    ) -> Test:
        """Start a server side, do the client's ``work`` once it listens, and end the server side whatever happens."""
        tag, port, argv = server
        started, text = self.now(), ""
        try:
            limit = self.settings.limit * 2 + _SERVE_LIMIT
            # A node that needs more time for a program needs it for starting one, too.
            start = max(_SERVE_LIMIT, self.settings.limit + _REACH)
            answer = self.shell.run(target.pod, scripts.serve(tag, limit, port, argv), start)
            if answer.stdout.split()[:1] in (["listening"], ["started"]):
                judged, text = work()
            else:
                left = self._finish(target, tag)
                text, judged = left.stdout, _server_side(test, target, answer, left)
        except ShellTrouble as trouble:
            judged = _in_trouble(trouble)
        finally:
            self._end(target, tag)
        return _record(test, source, target, judged, seconds=self.now() - started, argv=client, text=text)

    def _client(
        self, test: str, source: Side, target: Side, argv: list[str], judge: Callable[[Output], Judged]
    ) -> Test:
        started, text = self.now(), ""
        try:
            output = self._bounded(source, argv)
            judged, text = judge(output), output.text
        except ShellTrouble as trouble:
            judged = _in_trouble(trouble)
        return _record(test, source, target, judged, seconds=self.now() - started, argv=argv, text=text)

    def _bounded(self, side: Side, argv: list[str]) -> Output:
        limit = self.settings.limit
        return self.shell.run(side.pod, scripts.bounded(limit, argv), limit + _REACH)

    def _finish(self, side: Side, tag: str, grace: int = 2) -> Output:
        """End a server side; return its status and what it printed."""
        output = self.shell.run(side.pod, scripts.finish(tag, grace), max(_FINISH_LIMIT, self.settings.limit))
        head, _newline, text = output.stdout.partition("\n")
        status = head.split()[-1:]
        return Output(int(status[0]) if status and status[0].isdecimal() else 1, text, "")

    def _end(self, side: Side, tag: str) -> None:
        """End a server side; what keeps this from working was, or will be, said by the tests themselves."""
        try:
            self._finish(side, tag, grace=1)
        except ShellTrouble:
            return


def ends_of(source: Side, target: Side) -> outputs.Ends:
    """Return what is known about the way between two sides: the slower rate, the narrower PCIe link, emulation."""
    rates = [
        rate
        for side in (source, target)
        for rate in (side.choice.rate_gbps if side.choice else None, side.link_gbps)
        if rate
    ]
    software = any(side.choice is not None and side.choice.software for side in (source, target))
    return outputs.Ends(min(rates) if rates else None, outputs.slower_pcie([source.pcie, target.pcie]), software)


def _server_side(test: str, target: Side, answer: Output, left: Output) -> Judged:
    if answer.stdout.startswith("ended"):
        if test == "rping":
            judged = outputs.judge_rping(left._replace(status=left.status or 1))
        else:
            judged = outputs.judge_bandwidth(left, "", outputs.Ends(None, None, False), None)
        return judged._replace(summary=f"the server side on {target.node} ended at once: {judged.summary}")
    cause = "it hangs while it opens the device, or the node is busy"
    step = "look at the kernel's log of the node"
    return outputs.failed(f"the server side on {target.node} never listened", cause, step)


def _record(
    test: str,
    source: Side,
    target: Side,
    judged: Judged,
    *,
    seconds: float = 0.0,
    argv: list[str] | None = None,
    text: str = "",
) -> Test:
    return {
        "test": test,
        "from": source.node,
        "to": target.node,
        "verdict": judged.verdict,
        "summary": judged.summary,
        "problem": judged.problem,
        "figures": judged.figures,
        "seconds": round(seconds, 1),
        "command": " ".join(argv) if argv else None,
        "output": text[-MOST_OUTPUT_CHARACTERS:] if text else None,
    }


def _after(broken: Test | None, test: Test) -> bool:
    return broken is not None and TESTS.index(test["test"]) > TESTS.index(broken["test"])


def _skipped(test: str, source: Side, target: Side, stop: Test | None) -> Test:
    why = f"{stop['test']} failed: {stop['summary']}" if stop else "an earlier test failed"
    return _record(test, source, target, Judged("skipped", f"not run, because {why}"))


def _in_trouble(trouble: ShellTrouble) -> Judged:
    problem = trouble_problem(trouble)
    return Judged("fail", f"{problem['problem']}: {problem['cause']}", problem)


def _words(test: str, one: Side, other: Side) -> str:
    if test == "pods":
        return "both pods are ready"
    told = []
    for side in (one, other):
        if test == "interface" and side.attached and side.seen:
            told.append(f"{side.node}: {side.attached.interface} {side.attached.address} MTU {side.seen.mtu}")
        elif test == "device" and side.choice:
            index = "" if side.choice.gid_index is None else f" GID index {side.choice.gid_index}"
            told.append(f"{side.node}: {side.choice.device} port {side.choice.port}{index}")
    return ", ".join(told)


def _both(client: str, server: str) -> str:
    return f"{client}\n-- server side --\n{server}" if server else client


def _not_ready() -> Problem:
    return {"problem": "the pod is not ready", "cause": "the cluster says no more", "next_step": "look at its events"}


def _unreadable(output: Output) -> Problem:
    cause = outputs.ended_early(output, "sh")
    if cause and cause.problem:
        return cause.problem
    return {
        "problem": f"what is in the pod cannot be read: {' '.join(output.text.split())[:160] or 'nothing was printed'}",
        "cause": "the image's shell is no POSIX shell, or it was ended",
        "next_step": "use an image with sh (rdma_fabric_verify_image)",
    }
