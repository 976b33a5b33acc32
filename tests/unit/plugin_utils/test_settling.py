# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Iterator

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.functions.settings_plan import (
    _MODE_SECONDS as SWITCHING_SECONDS,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.functions.vfs_apply import _CREATION_SECONDS
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts import uplink_confirm
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.uplink_confirm import settle, settle_after_loss

LINE = "planned: mtu eth0: set the MTU to 9000 (now 1500)"
LOST = AnsibleConnectionFailure("no route to host")
ARMED = {"state": "armed", "steps": [LINE]}
REVERTED = {"state": "reverted", "steps": [LINE]}
TOLD = {"guard": {"state": "reverted", "steps": [LINE], "problems": []}}


class Clock:
    """Time that passes only while somebody sleeps, of a machine that was started long ago."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return 50_000.0 + self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Host:
    """A host that shows one thing after the other (None: nothing under guard), the last one for ever."""

    def __init__(self, *shows: Any, says: Any = None) -> None:
        self._shows = iter(shows)
        self._last: Any = None
        self._says = says or TOLD
        self.asked = 0
        self.connections = 0

    def reset(self) -> None:
        self.connections += 1

    def look(self) -> Any:
        self._last = next(self._shows, self._last)
        if isinstance(self._last, Exception):
            raise self._last
        return self._last

    def ask(self) -> Any:
        self.asked += 1
        return self._says


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    found = Clock()
    monkeypatch.setattr(uplink_confirm, "time", found)
    yield found


def settled(host: Host) -> dict[str, Any]:
    return settle_after_loss(LOST, 40, host.look, host.ask, host.reset)


def test_a_host_that_comes_back_after_it_took_the_change_back_is_told_as_that(clock: Clock) -> None:
    host = Host(LOST, LOST, ARMED, {"state": "reverting", "steps": []}, REVERTED)
    result = settled(host)
    assert (result["failed"], result["changed"], host.asked) == (True, True, 1)
    assert LINE in result["msg"]
    assert "has reverted it" in result["msg"]
    assert result["guard"]["state"] == "reverted"
    assert host.connections >= 5  # a new one each time


def test_a_change_that_still_waits_is_never_confirmed(clock: Clock) -> None:
    host = Host(ARMED)
    with pytest.raises(AnsibleConnectionFailure):
        settled(host)
    assert host.asked == 0
    assert 160 <= clock.now <= 300


def test_a_host_without_a_change_under_guard_or_with_anothers_was_just_not_reached(clock: Clock) -> None:
    with pytest.raises(AnsibleConnectionFailure):
        settled(Host(LOST, None))
    assert clock.now < 10
    with pytest.raises(AnsibleConnectionFailure):
        settled(Host(REVERTED, says={"guard": {"state": "unknown", "steps": [], "problems": []}}))


def test_a_host_that_stays_away_is_unreachable_in_the_end(clock: Clock) -> None:
    with pytest.raises(AnsibleConnectionFailure):
        settled(Host(LOST))
    assert 160 <= clock.now <= 300


@pytest.mark.parametrize("limit", [_CREATION_SECONDS, SWITCHING_SECONDS])
def test_a_change_that_ended_in_the_middle_of_a_long_operation_is_waited_for(clock: Clock, limit: float) -> None:
    """The host gives the operation all of its limit before the time of the guard begins, and taking back takes time."""
    host = Host(REVERTED)

    def look() -> Any:
        if clock.now < limit + 40 + 30:
            raise LOST
        return host.look()

    result = settle_after_loss(LOST, 40, look, host.ask, host.reset)
    assert "has reverted it" in result["msg"]


def test_a_host_that_can_not_be_asked_is_told_with_when_it_takes_the_change_back_at_most(clock: Clock) -> None:
    def ask() -> Any:
        raise LOST

    guard = {"token": "abc", "seconds": 40, "steps": [LINE]}
    result = settle({"changed": True, "msg": "1 of 1 step executed", "guard": guard}, ask, lambda: None)
    assert result["guard"]["state"] == "unreachable"
    assert "reverts it on its own 40 seconds after the last step, 160 at most; next: look" in result["msg"]
    assert "no route to host" in result["msg"]


def test_an_answer_that_says_nothing_of_the_guard_is_asked_for_again(clock: Clock) -> None:
    guard = {"token": "abc", "seconds": 40, "steps": [LINE]}
    before = {"changed": True, "msg": "1 of 1 step executed", "guard": guard}
    broken: dict[str, Any] = {"failed": True, "msg": "no space left on device"}
    answers = iter([broken, {"unreachable": True, "msg": "timed out"}, {"guard": {"state": "confirmed"}}])
    assert settle(before, lambda: next(answers), lambda: None) == {**before, "guard": {**guard, "state": "confirmed"}}
    lost = settle(before, lambda: broken, lambda: None)
    assert (lost["failed"], lost["guard"]["state"]) == (True, "unreachable")
    assert "could not be queried after this change of the uplink (no space left on device)" in lost["msg"]


def test_each_question_is_asked_over_a_connection_of_its_own(clock: Clock) -> None:
    """One that was there before the change says nothing about whether the host can be reached with it."""
    done: list[str] = []
    answers = iter([{"unreachable": True, "msg": "timed out"}, {"guard": ARMED}, {"guard": {"state": "confirmed"}}])

    def ask() -> Any:
        done.append("ask")
        return next(answers)

    guard = {"token": "abc", "seconds": 40, "steps": [LINE]}
    settle({"changed": True, "guard": guard}, ask, lambda: done.append("reset"))
    assert done == ["reset", "ask"] * 3


def test_a_change_that_is_still_being_taken_back_at_the_end_is_told_as_that(clock: Clock) -> None:
    guard = {"token": "abc", "seconds": 40, "steps": [LINE]}
    answer = {"guard": {"state": "reverting", "steps": [LINE]}}
    result = settle({"changed": True, "guard": guard}, lambda: answer, lambda: None)
    assert (result["failed"], result["guard"]["state"]) == (True, "reverting")
    assert result["msg"].startswith(f"{LINE}: the host could not be reached in time over a new connection")
    assert 100 <= clock.now <= 110


def test_a_change_that_still_waits_at_the_end_is_told_as_that(clock: Clock) -> None:
    guard = {"token": "abc", "seconds": 40, "steps": [LINE]}
    result = settle({"changed": True, "guard": guard}, lambda: {"guard": ARMED}, lambda: None)
    assert (result["failed"], result["guard"]["state"]) == (True, "armed")


def test_a_confirmation_whose_answer_was_lost_ends_the_wait(clock: Clock) -> None:
    """The host keeps nothing of what it has told; that it takes back what stays would be wrong to say."""
    answers = iter([LOST, {"failed": True, "guard": {"state": "unknown", "steps": [], "problems": []}}])

    def ask() -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    guard = {"token": "abc", "seconds": 120, "steps": [LINE]}
    result = settle({"changed": True, "msg": "1 of 1 step executed", "guard": guard}, ask, lambda: None)
    assert (result["failed"], result["changed"], result["guard"]["state"]) == (True, True, "unknown")
    assert result["msg"].startswith(LINE) and "confirmed or reverted" in result["msg"]
    assert "on its own" not in result["msg"] and "next: " in result["msg"]
    assert clock.now < 10


@pytest.mark.parametrize("problems", [[], ["could not write /etc/netplan/x: read-only"]])
def test_a_change_that_was_taken_back_fails_the_task_with_what_is_left_of_it(clock: Clock, problems: list[str]) -> None:
    guard = {"token": "abc", "seconds": 40, "steps": [LINE]}
    before = {"changed": True, "failed": True, "msg": "step 2 failed", "guard": guard}
    result = settle(before, lambda: {"guard": {**REVERTED, "problems": problems}}, lambda: None)
    assert (result["failed"], result["changed"], result["guard"]["state"]) == (True, True, "reverted")
    assert result["msg"].startswith(f"step 2 failed; {LINE}: the host could not be reached")
    assert ("except for this: could not write" in result["msg"]) is bool(problems)
    assert clock.now == 0.0


def test_a_host_is_asked_until_it_has_taken_the_change_back_by_itself(clock: Clock) -> None:
    """A host that comes back by the revert itself is only reached after the time of the guard."""

    def ask() -> Any:
        if clock.now <= 40 + 30:
            raise LOST
        return {"guard": REVERTED}

    guard = {"token": "abc", "seconds": 40, "steps": [LINE]}
    assert settle({"changed": True, "guard": guard}, ask, lambda: None)["guard"]["state"] == "reverted"


def test_where_nothing_is_under_guard_no_connection_is_dropped(clock: Clock) -> None:
    host = Host(LOST)
    result = {"changed": True, "msg": "1 of 1 step executed", "guard": None}
    assert settle(result, host.ask, host.reset) is result
    assert (host.asked, host.connections) == (0, 0)
