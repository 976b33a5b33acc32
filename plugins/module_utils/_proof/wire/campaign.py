# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test pod is told once, and what it has found in the end: pods meet by themselves, slot by slot. Pure.

Every pod of a campaign has the same slots, from one common start; the lower of a pair is the one that comes first by
name. Within a slot each test has its latest end, so that both sides go on together after a program that hangs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple, Sequence

from . import scripts
from .counters import TOLD, Reading
from .shell import Output
from .side import GPU_TEST, Side, ends_of

FIRST_PORT = 18515
SLOTS_OF_PORTS = 1000
"""Slots with ports of their own (``scripts``): whoever comes late meets nobody of another slot."""
PORTS_OF_A_SLOT = 8
# Of a slot each test may take this much beside the others: a ping of an end that is cut off takes three seconds.
_SHARES = {"p": 3, "r": 3, "w": 4, "v": 4, "g": 4, "h": 4, "l": 3}
_LATE_SHARE = 10
_SLOW_LINK = 1.0
# perftest takes no smaller -n (MIN_ITER in its perftest_parameters.h).
_FEWEST = 5
# Headers of perftest as its usual releases print them, which a pod need not repeat.
_BANDWIDTH = "#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]"
_LATENCY = (
    "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] 99% percentile[usec] "
    "99.9% percentile[usec]"
)
_HEADERS = {"w": _BANDWIDTH, "v": _BANDWIDTH, "g": _BANDWIDTH, "h": _BANDWIDTH, "l": _LATENCY}
_WORD = re.compile(r"([prwvghl])(\d{1,3}) (\d{1,7})(?: (.*))?", re.ASCII)
_COUNTER = re.compile(r"(c|h)(\d{1,3})(?:=(\d{1,20})|\+(-?\d{1,20}))?", re.ASCII)
_FOLDERS = {"c": "counters", "h": "hw_counters"}
_GPU = "CUDA device 0: PCIe address is "
_MOST_LINES = 200


class Settings(NamedTuple):
    """How pairs are tested: seconds of a slot, what a bandwidth test sends, the share of the rate asked for.

    ``size``, ``iterations`` and ``queue_pairs`` replace what fits the device; ``mtu`` is the one the network asks for.
    ``idle`` is the node whose counters are judged where the other one works: its jobs lose packets, too. ``gpu``: pods
    have a GPU, whose memory is tested. ``maximum`` is the share of a link's rate that a test may take.
    """

    limit: int = 30
    size: int | None = None
    iterations: int | None = None
    queue_pairs: int | None = None
    minimum: float | None = None
    mtu: int | None = None
    idle: str = ""
    gpu: bool = False
    maximum: float | None = None

    def load(self, software: bool) -> scripts.Load:
        """Return what a bandwidth test between devices of this kind sends."""
        usual = scripts.SOFTWARE_LOAD if software else scripts.HARDWARE_LOAD
        # What is slower sends less, so that it ends in the same time.
        iterations = self.iterations or max(_FEWEST, round(usual.iterations * (self.maximum or 1)))
        return scripts.Load(self.size or usual.size, iterations, self.queue_pairs or usual.queue_pairs)

    def most_gbps(self, link_gbps: float | None) -> float | None:
        """Return the rate that a test may take of a link; one whose rate is not known counts as a slow one."""
        return round((link_gbps or _SLOW_LINK) * self.maximum, 3) if self.maximum else None

    def tests(self) -> dict[str, int]:
        """Return the tests of a slot by their letters, in order, with the hundredths of a second until they end."""
        shares = {test: share for test, share in _SHARES.items() if self.gpu or test not in "gh"}
        whole, gone, ends = sum(shares.values()), 0, {}
        for test, share in shares.items():
            gone += share
            ends[test] = 100 * self.limit * gone // whole
        return ends


class Slot(NamedTuple):
    """A slot of one pod: its number in the campaign and its partner."""

    number: int
    partner: Side


class Word(NamedTuple):
    """What one side says of one test: what its program left, the seconds it took, the counters around it."""

    output: Output
    seconds: float
    reading: Reading


@dataclass
class Words:
    """What one pod says of a campaign: of each slot its tests by letter, None where it came too late for it.

    Of a server side that ended well and has nothing to tell a slot says nothing.
    """

    slots: dict[int, dict[str, Word] | None] = field(default_factory=dict)


def table(side: Side, slots: Sequence[Slot], settings: Settings, *, wait: float) -> str:
    """Return what a pod is told by ``scripts.begin``, ``wait`` seconds before the first slot."""
    slot = 100 * settings.limit
    used = side.choice.used if side.choice else None
    lines = [
        f"at {round(100 * wait)} {slot} {slot // _LATE_SHARE} {FIRST_PORT}",
        f"of {used.device} {used.number}" if used else "of - -",
        f"known {' '.join(TOLD)}",
        f"bandwidth {_BANDWIDTH}",
        f"latency {_LATENCY}",
    ]
    for role in ("low", "high"):
        for test, end in settings.tests().items():
            server = test != "p" and (role == "low") == (test in "vh")
            if (test != "p" and used is None) or (test in "gh" and GPU_TEST in side.problems):
                continue
            words = argv_of(side, test, server=server)
            lines += [f"{role} {test} {end} {'server' if server else 'client'} {' '.join(words)}"]
    lines.append("slots")
    lines += [" ".join(("slot", str(each.number), *_slot_words(side, each.partner, settings))) for each in slots]
    return "\n".join([*lines, "end", ""])


def argv_of(side: Side, test: str, *, server: bool) -> list[str]:
    """Return the command of one side of a test; words that begin with @ are those of ``scripts``."""
    interface, address = side.attached or ("", "")
    if test == "p":
        return scripts.ping(interface)
    if test == "r":
        return scripts.rping(address, server=server)
    if side.choice is None:
        return []
    if test == "l":
        return [*side.placement.prefix, *scripts.write_latency(side.choice.used, server=server)]
    memory = side.memory if test in "gh" else ()
    return [*side.placement.prefix, *scripts.write_bandwidth(side.choice.used, server=server, memory=memory)]


def command_of(side: Side, partner: Side, test: str, settings: Settings, slot: int) -> str:
    """Return the command of the client side of a test as its pod has run it."""
    _role, address, size, times, *load = _slot_words(side, partner, settings)
    place = list(settings.tests()).index(test) + 1
    port = FIRST_PORT + slot % SLOTS_OF_PORTS * PORTS_OF_A_SLOT + place
    filled = {"@a": address, "@s": size, "@i": times, "@p": str(port), "@l": " ".join(load)}
    return " ".join(filled.get(word, word) for word in argv_of(side, test, server=False))


def _slot_words(side: Side, partner: Side, settings: Settings) -> list[str]:
    ends = ends_of(side, partner)
    software, most = ends.software, settings.most_gbps(ends.link_gbps)
    iterations = scripts.SOFTWARE_LATENCY_ITERATIONS if software else scripts.LATENCY_ITERATIONS
    address = partner.attached.address if partner.attached else ""
    size = scripts.ping_size(address, mtu_of(side, partner))
    role = "low" if side.node < partner.node else "high"
    return [role, address, str(size), str(iterations), *scripts.load_words(settings.load(software), most)]


def mtu_of(one: Side, other: Side) -> int:
    """Return the largest packet that both interfaces take."""
    return min((side.seen.mtu or 0) if side.seen else 0 for side in (one, other))


def read_words(text: str) -> Words:
    """Return what the output of ``scripts.collect`` says; lines that make no sense or have no end are left out."""
    words, base, headers = Words(), Reading({}, {}), dict(_HEADERS)
    said: dict[tuple[int, str], list[str]] = {}
    for line in text[: text.rfind("\n") + 1].splitlines():
        kind, *fields = line.split("|", 3 if line.startswith("o|") else -1)
        if kind == "end":
            break
        if kind.partition(" ")[0] == "b":
            base = Reading({key: value for key, value, _by in _counters(kind)}, {})
        elif kind == "h" and len(fields) == 2:
            headers[fields[0]] = fields[1]
        elif kind == "o" and len(fields) == 3 and _is_number(fields[0]):
            lines = said.setdefault((int(fields[0]), fields[1]), [])
            lines += [fields[2]] if len(lines) < _MOST_LINES else []
        elif _is_number(kind):
            number = int(kind)
            found = {word[0]: _word(word, number, said, base, headers) for word in fields if _WORD.fullmatch(word)}
            words.slots[number] = None if fields == ["late"] else found
    return words


def _word(
    word: str, slot: int, said: Mapping[tuple[int, str], list[str]], base: Reading, headers: Mapping[str, str]
) -> Word:
    found = _WORD.fullmatch(word)
    test, status, tenths, rest = found.groups() if found else ("", "1", "0", "")
    before, after = dict(base.before), dict(base.before)
    told: list[str] = []
    for part in (rest or "").split():
        counted = _counters(part) if "+" in part else []
        for key, _value, by in counted:
            before.setdefault(key, 0)
            after[key] = before[key] + by
        told += [] if counted else [part]
    lines = said.get((slot, test), ())
    text = "\n".join(lines) if lines else _text_of(test, told, headers)
    return Word(Output(int(status), text, ""), int(tenths) / 10, Reading(before, after))


def _text_of(test: str, told: Sequence[str], headers: Mapping[str, str]) -> str:
    """Return what a program printed that went well, as far as its numbers tell."""
    gpus = [f"{_GPU}{each[4:]}" for each in told if each.startswith("gpu=")]
    numbers = [each for each in told if not each.startswith("gpu=")]
    if test == "p" and numbers:
        time = f"\nrtt = 0/{numbers[2]}/" if len(numbers) > 2 else ""
        return f"{numbers[0]} packets transmitted, {numbers[1] if len(numbers) > 1 else 0} received{time}"
    return "\n".join([*gpus, headers.get(test, ""), " ".join(numbers), ""]) if numbers or gpus else ""


def _counters(text: str) -> list[tuple[str, int, int]]:
    """Return (``FOLDER/NAME``, value, by how much it rose) of each counter in what a pod printed."""
    found: list[tuple[str, int, int]] = []
    for word in text.split():
        each: Any = _COUNTER.fullmatch(word)
        if each and 0 < int(each[2]) <= len(TOLD):
            found.append((f"{_FOLDERS[each[1]]}/{TOLD[int(each[2]) - 1]}", int(each[3] or 0), int(each[4] or 0)))
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6
