# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can't be read is not nothing: whichever file, directory, link or command of a host fails, no plan does more,
asks for less consent, or guards less, than with its value, and none leaves a step out without naming it."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any, Callable, Dict, Iterator, NamedTuple, Tuple, TypeVar

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import (
    NEEDS_CONSENT,
    PLANNED,
    REFUSED,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import as_returned
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import touches_uplink
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult, HostError
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BrokenState
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import (
    RecordedHost,
    dump_recording,
    load_recording,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, assess, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.holds import OF_PROCESSES, unread
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import CONSENTS, HostSpec, check_spec
from ansible_collections.rdma.fabric.tests.sweeps import some_of
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.driver.hosts import driver_host
from ansible_collections.rdma.fabric.tests.unit._host.families import PF
from ansible_collections.rdma.fabric.tests.unit._host.firmware import test_firmware
from ansible_collections.rdma.fabric.tests.unit._host.full_hosts import HOSTS
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
REMOVAL = Run(check=True, diff=True, mode="apply", recorded=False, state="absent")
EVERY_CONSENT = dict.fromkeys(CONSENTS, True)
STRANGE = "strange"
# A link that is none gives EINVAL, as a file in a directory of links does.
FAILURES = {"read": ("EIO", "EACCES", "EINVAL"), "list": ("EIO", "EACCES"), "link": ("EIO", "EACCES")}
# These hold any text, or ids, whose wrong ones are those of another card.
_ANY_TEXT = re.compile(
    r"/(config|vendor|device|traffic_class|boot_id|osrelease|phys_port_name|cmdline|modules|limits|hostname|arch|rmem_max)$"
)
_OF_THE_KERNEL = ("/sys/", "/proc/")
_JSON = re.compile(r"(ip|bridge) .*-json")
# What may not differ from the plan with every value known.
_COMPARED = ("from", "to", "when", "consent", "interrupts", "status")
_SAMPLE = 60

_T = TypeVar("_T")
Key = Tuple[str, str]
Steps = Dict[str, Any]


class Failing:
    """A host of which one file, directory, link or command fails or makes no sense; it keeps what was read before."""

    def __init__(self, host: Any, fails: Key | None = None, how: str = "") -> None:
        self._host, self._fails, self._how = host, fails, how
        self.read_before: dict[Key, None] = {}

    def read(self, path: str) -> str:
        return self._answer("read", path, lambda: self._host.read(path), "strange\n")

    def read_bytes(self, path: str, limit: int = 1 << 16) -> bytes:
        return self._answer("read", path, lambda: self._host.read_bytes(path, limit), b"strange\n")

    def list(self, path: str) -> Any:
        return self._answer("list", path, lambda: self._host.list(path), [])

    def link(self, path: str) -> str:
        return self._answer("link", path, lambda: self._host.link(path), "")

    def run(self, argv: Any, timeout: float) -> CommandResult:
        line = " ".join(argv)
        return self._answer("run", line, lambda: self._host.run(argv, timeout), CommandResult(0, "strange\n", ""))

    def exists(self, path: str) -> bool:
        return bool(self._host.exists(path))

    def realpath(self, path: str) -> str:
        return str(self._host.realpath(path))

    def _answer(self, kind: str, what: str, answer: Callable[[], _T], strange: _T) -> _T:
        if (kind, what) == self._fails:
            if self._how == STRANGE:
                return strange
            raise HostError(self._how, what.split(" ", maxsplit=1)[0])
        found = answer()
        self.read_before[kind, what] = None
        return found


class Case(NamedTuple):
    """A host, what is wanted of it, and how."""

    host: Callable[[], Kernel]
    wish: dict[str, Any]
    run: Run = CHECK


def reached(name: str) -> Kernel:
    """A host that has everything that is wanted of it."""
    kernel = HOSTS[name].host()
    apply(kernel, check_spec({**HOSTS[name].wish, "consents": EVERY_CONSENT}), APPLY, None, kernel)
    kernel.revive()
    return kernel


def uplinked() -> Kernel:
    """A host whose port that is changed carries a default route."""
    kernel = HOSTS["igb"].host()
    route = "enp1s0f0\t00000000\t0100010A\t0003\t0\t0\t200\t00000000\t0\t0\t0\n"
    kernel.tree.add_file("/proc/net/route", kernel.read("/proc/net/route") + route)
    return kernel


def pending() -> Kernel:
    """A host whose card has other firmware parameters from the next boot on."""
    kernel = test_firmware.host()
    apply(kernel, check_spec({**_FIRMWARE, "consents": EVERY_CONSENT}), APPLY, None, kernel)
    kernel.revive()
    return kernel


_FIRMWARE = {"interfaces": [{"pci": PF, "firmware": test_firmware.MORE}]}
_DRIVER = {"driver": {"flavour": "doca-ofed", "version": "25.07-0.9.7.0.0"}}
_MORE_FUNCTIONS = {"interfaces": [{"pci": igb.PF, "vfs": 4, "mtu": 9000}]}
CASES = {
    **{name: Case(full.host, full.wish) for name, full in HOSTS.items()},
    **{
        f"{name} {what}": Case(partial(reached, name), wish, run)
        for name, full in HOSTS.items()
        for what, wish, run in (("again", full.wish, CHECK), ("removal", {}, REMOVAL))
    },
    "uplink": Case(uplinked, HOSTS["igb"].wish),
    "functions": Case(lambda: igb.with_functions(2), _MORE_FUNCTIONS),
    "driver": Case(driver_host, _DRIVER),
    "firmware": Case(test_firmware.host, _FIRMWARE),
    "firmware pending": Case(pending, _FIRMWARE),
}


def planned(host: Any, desired: HostSpec, run: Run) -> tuple[Steps, set[str]]:
    """The steps by their ids, and those that are guarded."""
    seen = assess(host, desired, run, None)
    steps: Steps = {step["id"]: step for step in seen.plan["steps"]}
    return steps, {
        key for key, step in steps.items() if step["status"] == PLANNED and touches_uplink(seen.context, step)
    }


def worse(known: tuple[Steps, set[str]], now: tuple[Steps, set[str]], name: str) -> Iterator[str]:
    """What a plan with one unknown does more, or with less consent or guard, or leaves out without naming it."""
    (before, guarded), (steps, still_guarded) = known, now
    for key, step in steps.items():
        usual = before.get(key)
        if usual is None:
            yield from [f"{key} is planned"] if step["status"] == PLANNED else []
        elif step["status"] == PLANNED:
            differing = [each for each in _COMPARED if usual[each] != step[each]]
            yield from (f"{key}: {each} is {step[each]}, and was {usual[each]}" for each in differing)
            if not differing and key in guarded - still_guarded:
                yield f"{key} is not guarded"
        elif step["status"] == NEEDS_CONSENT and usual["consent"] not in (None, step["consent"]):
            yield f"{key} asks for {step['consent']} instead of {usual['consent']}"
    if not any(step["status"] == REFUSED and name in step["detail"] + step["target"] for step in steps.values()):
        for key, usual in before.items():
            if key not in steps or (steps[key]["status"] == REFUSED) > (usual["status"] == REFUSED):
                yield f"{key} is left out or refused, and nothing names it"


def failures_of(kind: str, what: str) -> tuple[str, ...]:
    if kind == "run":
        return ("ETIMEDOUT", STRANGE) if _JSON.match(what) else ("ETIMEDOUT",)
    sensible = kind == "read" and what.startswith(_OF_THE_KERNEL) and not _ANY_TEXT.search(what)
    # Some settings can only be written, and some processes are hidden from root.
    hidden = what.startswith("/proc/sys/") or OF_PROCESSES.match(what)
    errors = tuple(code for code in FAILURES[kind] if code != "EACCES" or not hidden)
    return (*errors, STRANGE) if sensible else errors


def violations(case: Case, wish: dict[str, Any], sample: int | None = None) -> Iterator[str]:
    """Yield what goes wrong where one of ``sample`` things can't be read, by default of every third."""
    kernel, desired = case.host(), check_spec(wish)
    readable = Failing(kernel)
    known = planned(readable, desired, case.run)
    every = [(key, how) for key in readable.read_before for how in failures_of(*key)]
    for (kind, what), how in some_of(every, sample or len(every) // 3):
        try:
            now = planned(Failing(kernel, (kind, what), how), desired, case.run)
        except BrokenState as error:
            # Without its own record of what it did a run does nothing at all.
            assert what in str(error)
            continue
        yield from (f"{kind} {what} ({how}): {text}" for text in worse(known, now, what.split(" ")[0]))


@pytest.mark.parametrize("name", CASES)
def test_whatever_can_not_be_read_no_plan_does_more_or_asks_for_less(name: str) -> None:
    case = CASES[name]
    none_of(violations(case, {**case.wish, "consents": EVERY_CONSENT}, _SAMPLE))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_same_of_more_files_and_commands_with_every_error_and_with_no_consent(name: str) -> None:
    case = CASES[name]
    for consents in ({}, EVERY_CONSENT):
        none_of(violations(case, {**case.wish, "consents": consents}))


def test_a_step_that_needs_nothing_of_it_is_planned_all_the_same() -> None:
    full = HOSTS["igb"]
    desired = check_spec({**full.wish, "consents": EVERY_CONSENT})
    steps, _guarded = planned(Failing(full.host(), ("read", "/sys/class/net/enp1s0f1/mtu"), "EIO"), desired, CHECK)
    refused = {key for key, step in steps.items() if step["status"] == REFUSED}
    assert "mtu:0000:01:00.1" in refused
    assert {"mtu:0000:01:00.0", "vfs:0000:01:00.0", "modules:ib_umad", "hugepages:2Mi"} <= steps.keys() - refused


@pytest.mark.parametrize("code", ["ENOENT", "EOPNOTSUPP"])
def test_what_a_device_does_not_have_is_no_gap(code: str) -> None:
    full = HOSTS["igb"]
    desired = check_spec(full.wish)
    missing = Failing(full.host(), ("read", "/sys/bus/pci/devices/0000:01:00.0/numa_node"), code)
    assert planned(missing, desired, CHECK)[0] == planned(full.host(), desired, CHECK)[0]


@pytest.mark.parametrize(("code", "step"), [("EACCES", "as root (ansible_become)"), ("EIO", "make it readable")])
def test_who_reads_a_host_without_its_rights_is_told_so(code: str, step: str) -> None:
    (reason,) = unread([{"path": "/boot/grub/grub.cfg", "error": code, "meaning": "no"}]).values()
    assert step in reason


def test_text_that_is_no_json_is_not_an_empty_list() -> None:
    kernel = igb.with_functions(2)
    desired = check_spec({**_MORE_FUNCTIONS, "consents": EVERY_CONSENT})
    for line in ("ip -json address show", "bridge -json fdb show"):
        steps, _guarded = planned(Failing(kernel, ("run", line), STRANGE), desired, CHECK)
        assert f"{line} can't be read (EBADMSG" in steps[f"vfs:{igb.PF}"]["detail"]


@pytest.mark.parametrize(
    ("key", "how"),
    [
        (("read", "/sys/bus/pci/devices/0000:01:00.0/sriov_totalvfs"), "EIO"),
        (("read", "/sys/class/net/enp1s0f0/mtu"), "EINVAL"),
        (("link", "/sys/class/net/enp1s0f0"), "EIO"),
        (("list", "/sys/class/net/enp1s0f0"), "EACCES"),
        (("run", "ip -json link show dev enp1s0f0"), "ETIMEDOUT"),
    ],
)
def test_a_recording_holds_what_was_not_known(key: Key, how: str) -> None:
    kernel = igb.with_functions(2)
    kind, path = key
    # A recorder reads where links lead.
    place = kernel.realpath(path) if kind in ("read", "list") else path
    recorded = record(Failing(kernel, (kind, place), how), "recorded")
    host = RecordedHost(load_recording(dump_recording(recorded, compress=True)))
    outcome = preview(host, check_spec(_MORE_FUNCTIONS), CHECK, None)
    gaps = [(gap["path"], gap["error"]) for gap in outcome["facts"]["unreadable"]]
    assert gaps == [(path, how)]
    assert [step["status"] for step in outcome["plan"]["steps"] if step["id"] == f"vfs:{igb.PF}"] == [REFUSED]
    json.dumps(as_returned(outcome["facts"]))
