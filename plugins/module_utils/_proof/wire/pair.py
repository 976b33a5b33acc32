# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps between two test pods on one network, in their order, each with its time limit.

Commands go through an injected shell and time comes in as a function, so the steps hold no other input or output. No
step raises for what a pod, a program or a network does: that is a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, NamedTuple

from . import outputs, scripts
from .counters import Reading, split_counters
from .outputs import Judged
from .shell import Output, Shell, ShellTrouble, trouble_problem
from .side import GPU_TEST, Side, ends_of

Test = Dict[str, Any]

TESTS = ("pods", "interface", "device", "ping", "rping", "bandwidth", GPU_TEST, "latency")
VERDICTS = ("pass", "reported", "skipped", "fail")
MOST_OUTPUT_CHARACTERS = 4000
_SERVE_LIMIT = 75
_FINISH_LIMIT = 45
_REACH = 30
"""Seconds that a busy node may take to start a command, beside the command's own limit."""
_RPING_TRIES = 10
_GRACE, _LONG_GRACE = 2, 10
"""Seconds that a server side gets to end by itself: where its client failed, and where it has only to clean up. Killed,
it leaves nothing of what it printed: which GPU it took is then unknown, and giving one back takes its time.
"""


@dataclass(frozen=True)
class Settings:
    """How pairs are tested: seconds a program may run, what a bandwidth test sends, the share of the rate asked for.

    ``size``, ``iterations`` and ``queue_pairs`` replace what fits the device; ``mtu`` is the one the network asks for.
    ``idle`` is the node whose counters are judged where the other one works: its jobs lose packets, too. ``gpu``: pods
    have a GPU, whose memory is tested.
    """

    limit: int = 60
    size: int | None = None
    iterations: int | None = None
    queue_pairs: int | None = None
    minimum: float | None = None
    mtu: int | None = None
    idle: str = ""
    gpu: bool = False

    def load(self, software: bool) -> scripts.Load:
        """Return what a bandwidth test between devices of this kind sends."""
        usual = scripts.SOFTWARE_LOAD if software else scripts.HARDWARE_LOAD
        return scripts.Load(
            self.size or usual.size, self.iterations or usual.iterations, self.queue_pairs or usual.queue_pairs
        )


def prove(
    shell: Shell, now: Callable[[], float], one: Side, other: Side, *, settings: Settings, port: int
) -> list[Test]:
    """Run every test between two sides and return what came of each, in order.

    ``port`` and the five after it are TCP and RDMA ports that no other test of these pods uses.
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
    if settings.gpu:
        tests.append(run.bandwidth(one, other, port + 4, stop, gpu=True))
        tests.append(run.bandwidth(other, one, port + 5, stop, gpu=True))
    tests.append(run.latency(one, other, port + 3, stop))
    return tests


class _Server(NamedTuple):
    """The server side of a test: what its files are named after, its TCP port (None: it listens on none), its argv."""

    tag: str
    port: int | None
    argv: list[str]
    counted: scripts.UsedPort | None = None


class _Measurement(NamedTuple):
    """A test by a program of perftest: ``argv`` of a side, given the side and the address of the server side (client
    only), and ``judge`` of what the client left, given what the server side printed.
    """

    test: str
    port: int
    argv: Callable[[Side, scripts.UsedPort, str], list[str]]
    judge: Callable[[Output, str], Judged]


class _Run:
    """The tests of one pair."""

    def __init__(self, shell: Shell, now: Callable[[], float], settings: Settings) -> None:
        self.shell, self.now, self.settings = shell, now, settings
        self.ended: set[str] = set()

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
        server = _Server(f"rping-{port}", None, scripts.rping_server(address, port))

        def work() -> tuple[Judged, str]:
            for attempt in range(1, _RPING_TRIES + 1):
                output = self._bounded(source, client)
                if attempt == _RPING_TRIES or not outputs.may_come_up(output):
                    break
            return outputs.judge_rping(output), output.text

        return self._with_server("rping", source, target, server=server, client=client, work=work)

    def bandwidth(self, source: Side, target: Side, port: int, stop: Test | None, *, gpu: bool = False) -> Test:
        """Write from ``source`` to ``target`` and judge the rate; with ``gpu`` from GPU memory to GPU memory."""
        test, ends = GPU_TEST if gpu else "bandwidth", ends_of(source, target)
        load, minimum = self.settings.load(ends.software), self.settings.minimum
        known = None if stop else next((side for side in (source, target) if test in side.problems), None)
        if known is not None:
            problem = known.problems[test]
            return _record(test, source, target, Judged("fail", f"{known.node}: {problem['problem']}", problem))

        def argv(side: Side, used: scripts.UsedPort, server: str) -> list[str]:
            memory = side.memory if gpu else ()
            return scripts.write_bandwidth(used, load, tcp_port=port, server=server, memory=memory)

        def judge(output: Output, theirs: str) -> Judged:
            if gpu:
                ways = (source.known.gpus, target.known.gpus)
                return outputs.judge_gpu_bandwidth(output, theirs, ends, minimum, ways)
            return outputs.judge_bandwidth(output, theirs, ends, minimum)

        return self._measured(_Measurement(test, port, argv, judge), source, target, stop)

    def latency(self, source: Side, target: Side, port: int, stop: Test | None) -> Test:
        """Write small messages from ``source`` to ``target`` and back, one at a time."""
        software = ends_of(source, target).software
        iterations = scripts.SOFTWARE_LATENCY_ITERATIONS if software else scripts.LATENCY_ITERATIONS

        def argv(_side: Side, used: scripts.UsedPort, server: str) -> list[str]:
            return scripts.write_latency(used, iterations, tcp_port=port, server=server)

        def judge(output: Output, theirs: str) -> Judged:
            return outputs.judge_latency(output, theirs, software)

        return self._measured(_Measurement("latency", port, argv, judge), source, target, stop)

    def _measured(self, measurement: _Measurement, source: Side, target: Side, stop: Test | None) -> Test:
        """Run a program of perftest on both sides, between two looks at the counters of their ports."""
        test, port, argv, judge = measurement
        if stop or source.choice is None or target.choice is None or target.attached is None:
            return _skipped(test, source, target, stop)
        ours, theirs = source.choice.used, target.choice.used
        client = [*source.placement.prefix, *argv(source, ours, target.attached.address)]
        server = _Server(f"{test}-{port}", port, [*target.placement.prefix, *argv(target, theirs, "")], theirs)

        def work() -> tuple[Judged, str]:
            reading, output = _counted(self._bounded(source, client, ours))
            other, left = _counted(self._left(target, server, needed=output.status != 0))
            text = "" if output.status == 0 else left.stdout
            readings = {source.node: reading._replace(port=ours), target.node: other._replace(port=theirs)}
            judged = outputs.with_counters(judge(output, left.stdout), readings, self.settings.idle)
            return judged, _both(output.text, text)

        return self._with_server(test, source, target, server=server, client=client, work=work)

    def _with_server(
        self,
        test: str,
        source: Side,
        target: Side,
        *,
        server: _Server,
        client: list[str],
        work: Callable[[], tuple[Judged, str]],
    ) -> Test:
        """Start a server side, do the client's ``work`` once it listens, and end the server side whatever happens."""
        started, text = self.now(), ""
        try:
            limit = self.settings.limit * 2 + _SERVE_LIMIT
            # A node that needs more time for a program needs it for starting one, too.
            start = max(_SERVE_LIMIT, self.settings.limit + _REACH)
            serve = scripts.serve(server.tag, limit, server.port, server.argv, server.counted)
            answer = self.shell.run(target.pod, serve, start)
            if answer.stdout.split()[:1] in (["listening"], ["started"]):
                judged, text = work()
            else:
                _reading, left = _counted(self._finish(target, server))
                text, judged = left.stdout, _server_side(test, target, answer, left)
        except ShellTrouble as trouble:
            judged = _in_trouble(trouble)
        finally:
            self._end(target, server)
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

    def _bounded(self, side: Side, argv: list[str], counted: scripts.UsedPort | None = None) -> Output:
        limit = self.settings.limit
        return self.shell.run(side.pod, scripts.bounded(limit, argv, counted), limit + _REACH)

    def _finish(self, side: Side, server: _Server, grace: int = _GRACE) -> Output:
        """End a server side; return its status and what it printed."""
        argv = scripts.finish(server.tag, grace, server.counted)
        output = self.shell.run(side.pod, argv, max(_FINISH_LIMIT, self.settings.limit))
        self.ended.add(server.tag)
        head, _newline, text = output.stdout.partition("\n")
        status = head.split()[-1:]
        return Output(int(status[0]) if status and status[0].isdecimal() else 1, text, "")

    def _left(self, side: Side, server: _Server, *, needed: bool) -> Output:
        """End a server side as ``_finish``; what it left is empty where that fails and it is not ``needed``."""
        try:
            return self._finish(side, server, _GRACE if needed else _LONG_GRACE)
        except ShellTrouble:
            if needed:
                raise
            return Output(1, "", "")

    def _end(self, side: Side, server: _Server) -> None:
        """End a server side if that is not done; what keeps it from working was, or will be, said by the tests."""
        if server.tag in self.ended:
            return
        try:
            self._finish(side, server, grace=1)
        except ShellTrouble:
            return


def _counted(output: Output) -> tuple[Reading, Output]:
    """Return the counters among what a command printed, and the output without them."""
    reading, rest = split_counters(output.stdout)
    return reading, output._replace(stdout=rest)


def _server_side(test: str, target: Side, answer: Output, left: Output) -> Judged:
    if answer.stdout.startswith("ended"):
        if test == "rping":
            judged = outputs.judge_rping(left._replace(status=left.status or 1))
        elif test == "latency":
            judged = outputs.judge_latency(left, "", software=False)
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
