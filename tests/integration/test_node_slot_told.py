# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who waits for a slot on a real API server is told when one is free, and asks for nothing until then."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.tests.integration.draining import ENOUGH_SECONDS
from ansible_collections.rdma.fabric.tests.integration.faulty_proxy import FaultyProxy, Plan
from ansible_collections.rdma.fabric.tests.integration.slot_place import Json, Place, made_place
from ansible_collections.rdma.fabric.tests.integration.test_playbooks_faults import kubeconfig_for
from ansible_collections.rdma.fabric.tests.lab.audit import ADMIN_USER, AuditLog
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import until
from tools.checkout import COLLECTIONS

# How soon a slot that is released has its next holder: far less than the pause of one that looks at intervals.
SOON = 3.0


@pytest.fixture
def place(control_plane: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(control_plane.kubeconfig))
    with made_place(control_plane, namespace) as found:
        yield found


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[FaultyProxy]:
    with FaultyProxy(control_plane) as running:
        yield running


class Away(Plan):
    """Resets every request while ``is_away``."""

    is_away = False

    def next_fault(self, method: str, path: str) -> str:
        super().next_fault(method, path)
        return "reset" if self.is_away else ""


def is_watch(_method: str, path: str) -> bool:
    return "watch=1" in path


@contextmanager
def waiting(place: Place, proxy: FaultyProxy, folder: Path) -> Iterator[Future[Json]]:
    """Have the second node wait, through the proxy, for the slot that the first one has."""
    place.done(place.first)
    kubeconfig = kubeconfig_for(place.cluster, folder / "kubeconfig", proxy.url)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(place.slot, place.second, timeout=120, kubeconfig=str(kubeconfig))
        try:
            yield future
        finally:
            place.done(place.first, state="given_back", any_run=True)


def taken_soon(place: Place, future: Future[Json]) -> Json:
    """Give the slot of the first node back; return the result of the one that waits for it."""
    began = time.monotonic()
    place.done(place.first, state="given_back")
    result = future.result(ENOUGH_SECONDS)
    assert result.get("changed") is True, result
    assert time.monotonic() - began < SOON
    assert [holder for holder in place.holders() if holder] == [f"{place.second}/one"]
    return result


@pytest.mark.first
def test_one_that_waits_is_told_and_asks_for_nothing(
    place: Place, proxy: FaultyProxy, audit: AuditLog, tmp_path: Path
) -> None:
    plan = proxy.follow(Plan(counts=is_watch))
    with waiting(place, proxy, tmp_path) as future:
        until(lambda: plan.seen == 1)
        mark = audit.mark()
        # Longer than the first looks at intervals would be apart.
        time.sleep(2.0)
        assert [each.uri for each in audit.requests(mark) if each.user in ("proxy", ADMIN_USER)] == []
        result = taken_soon(place, future)
    # The Leases, and before the take the nodes of each operator's label.
    assert result["requests"] == {"get": 0, "list": 3, "watch": 1, "post": 0, "put": 1}


def test_a_failure_is_told_as_well(place: Place, proxy: FaultyProxy, tmp_path: Path) -> None:
    plan = proxy.follow(Plan(counts=is_watch))
    with waiting(place, proxy, tmp_path) as future:
        until(lambda: plan.seen == 1)
        place.done(place.first, state="failed", reason="no links")
        assert "as one has failed" in str(future.result(SOON)["msg"])


@pytest.mark.first
def test_a_watch_that_is_cut_is_opened_again(place: Place, proxy: FaultyProxy, tmp_path: Path) -> None:
    plan = proxy.follow(Plan(counts=is_watch))
    with waiting(place, proxy, tmp_path) as future:
        for number in (1, 2, 3):
            until(lambda number=number: plan.seen == number)  # type: ignore[misc]
            until(proxy.has_watches)
            proxy.cut_watches()
        until(lambda: plan.seen == 4)
        taken_soon(place, future)


def test_a_server_that_is_away_for_a_while_is_outlasted(place: Place, proxy: FaultyProxy, tmp_path: Path) -> None:
    away = Away(counts=is_watch)
    proxy.follow(away)
    with waiting(place, proxy, tmp_path) as future:
        until(lambda: away.seen == 1)
        until(proxy.has_watches)
        away.is_away = True
        proxy.cut_watches()
        # The slot is released while nobody can be told of it.
        place.done(place.first, state="given_back")
        time.sleep(1.5)
        assert not future.done()
        away.is_away = False
        assert future.result(ENOUGH_SECONDS)["changed"] is True


PLAY = """
import json, os, sys, time
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
if os.fork() == 0:
    result = run_action("node_slot", json.loads(sys.argv[3]))
    print(json.dumps(result.get("msg", "it was taken")), flush=True)
    os._exit(0)
time.sleep(600)
"""


def test_one_whose_play_was_killed_waits_no_longer(place: Place, proxy: FaultyProxy, tmp_path: Path) -> None:
    place.done(place.first)
    kubeconfig = kubeconfig_for(place.cluster, tmp_path / "kubeconfig", proxy.url)
    given = {"node": place.second, "namespace": place.namespace, "run": "two", "kubeconfig": str(kubeconfig)}
    plan = proxy.follow(Plan(counts=is_watch))
    argv = [sys.executable, "-c", PLAY, str(COLLECTIONS), str(Path.cwd()), json.dumps(given)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as play:
        until(lambda: plan.seen == 1)
        play.kill()
        killed = time.monotonic()
        # Nothing is told of the slots from here on: it looks by itself.
        said = play.stdout.read() if play.stdout else ""
    assert "the play that requested this was stopped" in said
    assert time.monotonic() - killed < 10
    assert place.holders() == [f"{place.first}/one"]
