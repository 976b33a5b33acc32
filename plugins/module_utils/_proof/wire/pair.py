# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests of a pair in their order, judged from what is known of both sides and what each says of its slot. Pure.

Nothing here raises for what a pod, a program or a network does: that is a verdict.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, NamedTuple

from . import outputs
from .campaign import Settings, Word, command_of, mtu_of
from .counters import Reading
from .outputs import Judged
from .shell import Output
from .side import GPU_TEST, Side, ends_of

Test = Dict[str, Any]
Said = Mapping[str, Word]
"""What one side says of a slot, by the letters of tests."""

TESTS = ("pods", "interface", "device", "ping", "rping", "bandwidth", GPU_TEST, "latency")
VERDICTS = ("pass", "reported", "skipped", "fail")
MOST_OUTPUT_CHARACTERS = 4000
_KNOWN = ("pods", "interface", "device")
_SILENT = Word(Output(0, "", ""), 0.0, Reading({}, {}))
_UNTOLD = "look at the pod's node, which may be too busy; give more time with rdma_fabric_verify_test_timeout"
_LATE = "not run: {} came too late for this slot (raise rdma_fabric_verify_parallel or rdma_fabric_verify_test_timeout)"


class _Way(NamedTuple):
    """A test with traffic: whose client sends to whom, and its letter."""

    test: str
    source: Side
    target: Side
    letter: str


class _Run(NamedTuple):
    """The tests of one pair that its pods ran: what each side says by node, and the slot."""

    said: Mapping[str, Said]
    settings: Settings
    slot: int

    def words(self, way: _Way) -> tuple[Word | None, Word | None]:
        """Return what the client and the server side of a test say."""
        theirs = self.said[way.target.node]
        return self.said[way.source.node].get(way.letter), theirs.get(way.letter, _SILENT if theirs else None)


def known_tests(one: Side, other: Side, settings: Settings) -> list[Test]:
    """Return the tests that need no traffic, each after one that failed skipped."""
    tests: list[Test] = []
    for name in _KNOWN:
        stop = _stop(tests)
        tests.append(_skipped(name, one, other, stop) if stop else _known(name, one, other, settings))
    return tests


def may_meet(one: Side, other: Side, settings: Settings) -> bool:
    """Say whether two sides can send to each other at all, be it without RDMA."""
    return all(test["verdict"] == "pass" for test in known_tests(one, other, settings)[:2])


def judge_pair(one: Side, other: Side, said: Mapping[str, Said | None], settings: Settings, slot: int) -> list[Test]:
    """Return every test between two sides, in order, from what each node says of the slot; None is one that was late.

    A pair with a late side was not tested, whatever else is known of it.
    """
    late = [side.node for side in (one, other) if may_meet(one, other, settings) and said[side.node] is None]
    ways = _ways(one, other, settings)
    if late:
        why = Judged("skipped", _LATE.format(" and ".join(late)))
        known = [_record(name, one, other, why) for name in _KNOWN]
        return known + [_record(way.test, way.source, way.target, why) for way in ways]
    tests = known_tests(one, other, settings)
    run = _Run({node: words or {} for node, words in said.items()}, settings, slot)
    for way in ways:
        stop = _stop(tests) if way.test != "ping" else _stop(tests[:2])
        tests.append(_skipped(*way[:3], stop) if stop else _TRAFFIC[way.test](run, way))
    return tests


def _ways(one: Side, other: Side, settings: Settings) -> list[_Way]:
    gpus = [_Way(GPU_TEST, one, other, "g"), _Way(GPU_TEST, other, one, "h")] if settings.gpu else []
    return [
        _Way("ping", one, other, "p"),
        _Way("ping", other, one, "p"),
        _Way("rping", one, other, "r"),
        _Way("bandwidth", one, other, "w"),
        _Way("bandwidth", other, one, "v"),
        *gpus,
        _Way("latency", one, other, "l"),
    ]


def _stop(tests: list[Test]) -> Test | None:
    """Return the test that makes those after it pointless: one that needs no traffic, or pings that nobody answers."""
    known = next((test for test in tests if test["test"] in _KNOWN and test["verdict"] == "fail"), None)
    pings = [test for test in tests if test["test"] == "ping"]
    dead = len(pings) == 2 and all((test["figures"] or {}).get("received") == 0 for test in pings)
    return known or (pings[0] if dead else None)


def _known(test: str, one: Side, other: Side, settings: Settings) -> Test:
    for side in (one, other):
        if test in side.problems:
            problem = side.problems[test]
            return _record(test, one, other, Judged("fail", f"{side.node}: {problem['problem']}", problem))
    if test == "interface" and settings.mtu is None and one.seen and other.seen:
        mtus = (one.seen.mtu, other.seen.mtu)
        if mtus[0] != mtus[1]:
            cause = f"{one.node} has {mtus[0]}, {other.node} has {mtus[1]}"
            step = "set one MTU on both nodes' interfaces, or the mtu of the network"
            return _record(test, one, other, outputs.failed("the two sides' MTUs differ", cause, step))
    return _record(test, one, other, Judged("pass", _words(test, one, other)))


def _ping(run: _Run, way: _Way) -> Test:
    (word, _theirs), mtu = run.words(way), mtu_of(way.source, way.target)
    if word is None:
        return _told(run, way, _untold(way.source))
    # Those of rping are of some hundred bytes; its server side tells nothing of a good end.
    small = any(said["r"].output.status == 0 for said in run.said.values() if "r" in said)
    return _told(run, way, outputs.judge_ping(word.output, mtu, small=small))


def _rping(run: _Run, way: _Way) -> Test:
    word, left = run.words(way)
    if word is None:
        return _told(run, way, _untold(way.source))
    return _told(run, way, _server_side(way, word, left) or outputs.judge_rping(word.output))


def _ends(run: _Run, way: _Way) -> outputs.Ends:
    """Return what is known about both ends, of the rate of their link what a test may take of it."""
    ends = ends_of(way.source, way.target)
    return ends._replace(link_gbps=ends.link_gbps and (run.settings.most_gbps(ends.link_gbps) or ends.link_gbps))


def _bandwidth(run: _Run, way: _Way) -> Test:
    ends, minimum = _ends(run, way), run.settings.minimum
    return _measured(run, way, lambda output, theirs: outputs.judge_bandwidth(output, theirs, ends, minimum))


def _gpu_bandwidth(run: _Run, way: _Way) -> Test:
    known = next((side for side in (way.source, way.target) if GPU_TEST in side.problems), None)
    if known is not None:
        problem = known.problems[GPU_TEST]
        return _record(*way[:3], Judged("fail", f"{known.node}: {problem['problem']}", problem))
    ends, ways = _ends(run, way), (way.source.known.gpus, way.target.known.gpus)
    minimum = run.settings.minimum
    return _measured(run, way, lambda output, theirs: outputs.judge_gpu_bandwidth(output, theirs, ends, minimum, ways))


def _latency(run: _Run, way: _Way) -> Test:
    software = ends_of(way.source, way.target).software
    return _measured(run, way, lambda output, theirs: outputs.judge_latency(output, theirs, software))


_TRAFFIC: Mapping[str, Callable[[_Run, _Way], Test]] = {
    "ping": _ping,
    "rping": _rping,
    "bandwidth": _bandwidth,
    GPU_TEST: _gpu_bandwidth,
    "latency": _latency,
}


def _measured(run: _Run, way: _Way, judge: Callable[[Output, str], Judged]) -> Test:
    """Judge a program of perftest by both sides' words, and by the counters of both ports around it."""
    word, left = run.words(way)
    if word is None:
        return _told(run, way, _untold(way.source))
    theirs = left.output.text if left else ""
    judged = _server_side(way, word, left) or judge(word.output, theirs)
    readings = {
        side.node: (each.reading if each else Reading({}, {}))._replace(port=side.choice.used if side.choice else None)
        for side, each in ((way.source, word), (way.target, left))
    }
    return _told(run, way, outputs.with_counters(judged, readings, run.settings.idle))


def _told(run: _Run, way: _Way, judged: Judged) -> Test:
    word, left = run.words(way)
    command = command_of(way.source, way.target, way.letter, run.settings, run.slot)
    text = word.output.text if word else ""
    if left and left.output.text and way.test != "ping" and (word is None or word.output.status != 0):
        text = f"{text}\n-- server side --\n{left.output.text}"
    return _record(*way[:3], judged, seconds=word.seconds if word else 0.0, command=command, text=text)


def _untold(side: Side) -> Judged:
    return outputs.failed(f"{side.node} told nothing of this test", "its pod was ended, or its words were cut", _UNTOLD)


def _server_side(way: _Way, client: Word, server: Word | None) -> Judged | None:
    """Return what the server side tells of a client that met nobody; None where the client tells more."""
    if not outputs.may_come_up(client.output):
        return None
    if server is None or server.output.status == outputs.KILLED:
        cause = "it hangs while it opens the device, or the node is busy"
        step = "look at the kernel's log of the node"
        return outputs.failed(f"the server side on {way.target.node} never listened", cause, step)
    if server.output.status == 0 and not server.output.text:
        return None
    left = server.output._replace(status=server.output.status or 1)
    if way.test == "rping":
        judged = outputs.judge_rping(left)
    elif way.test == "latency":
        judged = outputs.judge_latency(left, "", software=False)
    else:
        judged = outputs.judge_bandwidth(left, "", outputs.Ends(None, None, False), None)
    return judged._replace(summary=f"the server side on {way.target.node} ended at once: {judged.summary}")


def _record(
    test: str,
    source: Side,
    target: Side,
    judged: Judged,
    *,
    seconds: float = 0.0,
    command: str | None = None,
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
        "command": command,
        "output": text[-MOST_OUTPUT_CHARACTERS:] if text else None,
    }


def _skipped(test: str, source: Side, target: Side, stop: Test) -> Test:
    judged = Judged("skipped", f"not judged, because {stop['test']} failed: {stop['summary']}")
    return _record(test, source, target, judged)


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
