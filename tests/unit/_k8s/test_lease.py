# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run at a time writes to a set; what a run left behind that was overtaken or killed is named and removed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.batch import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.lease import Lease
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import (
    BatchError,
    BatchRequest,
    BatchResult,
)
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import BASE, apply, recorded, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    FakeServer,
    FakeTime,
    config_map,
    connect,
    daemon_set,
    failure,
)

PLACE = ("leases", "ns", "rdma-fabric-web")
ONE = (wave(config_map("a"), config_map("one")), wave(daemon_set("d")))
TWO = (wave(config_map("a", key="2"), config_map("two")),)


class Dead(BaseException):
    """The process of a run is gone."""


def start(server: FakeServer, time: FakeTime, *waves: Any, **options: Any) -> BatchResult:
    """Run one batch on a clock that other runs share."""
    request = BatchRequest(
        waves=list(waves), set_name="web", inventory_namespace="ns", wait=False, wait_timeout=30.0, **options
    )
    return run(connect(server, time), request)


def live_of_the_set(server: FakeServer) -> set[str]:
    """Return the names of live objects with the set's label, but for its inventory and Lease."""
    bodies = [body for place, body in server.objects.items() if place[0] != "leases"]
    labelled = [body["metadata"] for body in bodies if (body["metadata"].get("labels") or {}).get("rdma.fabric/set")]
    return {metadata["name"] for metadata in labelled} - {"rdma-fabric-web"}


def inventory_of(server: FakeServer) -> set[str]:
    return set(recorded(server)) if ("configmaps", "ns", "rdma-fabric-web") in server.objects else set()


class TestOneRun:
    def test_the_lease_is_taken_to_write_and_gone_afterwards(self) -> None:
        server = FakeServer()
        result = apply(server, *BASE)
        assert result.requests["lease"] == 2
        paths = [(method, path) for method, path, _query in server.requests if "/leases" in path]
        assert [method for method, _path in paths] == ["POST", "DELETE"]
        assert PLACE not in server.objects

    def test_what_is_unchanged_needs_none(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        assert "lease" not in apply(server, *BASE).requests
        assert "lease" not in apply(server, *ONE, check=True).requests

    def test_a_failed_run_gives_it_back(self) -> None:
        server = FakeServer()
        server.intercept = lambda _n, method, path: (
            failure(422, "Invalid", "no") if method == "PATCH" and path.endswith("/a") else None
        )
        with pytest.raises(BatchError):
            apply(server, *BASE)
        assert PLACE not in server.objects

    def test_it_is_made_after_its_namespace(self) -> None:
        server = FakeServer(namespaces=("default",))
        apply(server, *BASE)
        assert ("configmaps", "ns", "a") in server.objects

    def test_who_may_not_take_it_changes_nothing(self) -> None:
        server = FakeServer()
        server.intercept = lambda _n, _method, path: (
            failure(403, "Forbidden", "no leases") if "/leases" in path else None
        )
        with pytest.raises(BatchError, match="post Lease ns/rdma-fabric-web: no leases") as refused:
            apply(server, *BASE)
        assert "grant the user this verb" in str(refused.value)
        assert server.written() == []

    def test_one_that_cannot_be_given_back_is_told_and_the_run_is_good(self) -> None:
        server = FakeServer()
        server.intercept = lambda _n, method, path: (
            failure(401, "Unauthorized", "expired") if method == "DELETE" and "/leases" in path else None
        )
        notice = "Lease ns/rdma-fabric-web could not be released, it ends after 60 s"
        assert notice in apply(server, *BASE).notices[0]

    def test_one_that_is_gone_already_is_given_back(self) -> None:
        server = FakeServer()

        def lose_the_answer(_number: int, method: str, path: str) -> None:
            if method == "DELETE" and "/leases" in path:
                server.objects.pop(PLACE, None)

        server.intercept = lose_the_answer
        assert apply(server, *BASE).notices == []

    def test_a_conflict_that_nobody_caused_is_tried_again(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        conflicts = [failure(409, "Conflict", "not now")]
        server.intercept = lambda _n, method, path: (
            conflicts.pop() if method == "PATCH" and path.endswith("/rdma-fabric-web") and conflicts else None
        )
        apply(server, *ONE)
        assert (conflicts, inventory_of(server)) == ([], {"a", "one", "d"})

    def test_a_long_run_renews_it(self) -> None:
        server, time = FakeServer(), FakeTime()

        def slow(_number: int, method: str, _path: str) -> None:
            time.seconds += 20 if method == "PATCH" else 0

        server.intercept = slow
        start(server, time, *BASE)
        assert len([method for method, path, _query in server.requests if method == "PUT"]) >= 2


class TestKeep:
    """A run that has the Lease renews it every fifteen seconds, and knows when it has lost it."""

    @staticmethod
    def held(server: FakeServer, time: FakeTime) -> Lease:
        time.seconds = 1000.0
        lease = Lease(connect(server, time), "web", "ns", lambda _text: None)
        lease.acquire()
        return lease

    def test_it_is_renewed_when_it_is_time_to(self) -> None:
        server, time = FakeServer(), FakeTime()
        lease = self.held(server, time)
        for seconds, renewals in ((14.0, 0), (2.0, 1), (14.0, 1), (2.0, 2)):
            time.seconds += seconds
            lease.keep()
            assert [method for method, _path, _query in server.requests].count("PUT") == renewals

    @pytest.mark.parametrize("holder", ["somebody@host", None])
    def test_one_that_another_run_has_or_has_given_back_is_lost(self, holder: str | None) -> None:
        server, time = FakeServer(), FakeTime()
        lease = self.held(server, time)
        if holder:
            server.put("leases", {**server.objects[PLACE], "spec": {"holderIdentity": holder}})
        else:
            del server.objects[PLACE]
        time.seconds += 20.0
        with pytest.raises(ApiFault, match=f"another run has taken over the set 'web': {holder or 'nobody'}") as lost:
            lease.keep()
        assert (lost.value.fault, lease.release()) == (Fault.LOST, "")

    def test_a_renewal_whose_answer_was_lost_counts(self) -> None:
        server, time = FakeServer(), FakeTime()
        lease = self.held(server, time)
        server.put("leases", dict(server.objects[PLACE]))
        time.seconds += 20.0
        lease.keep()
        lease.keep()
        assert [method for method, _path, _query in server.requests].count("PUT") == 1
        assert (lease.release(), PLACE in server.objects) == ("", False)

    def test_an_outage_is_no_loss_as_long_as_nobody_else_may_have_it(self) -> None:
        server, time = FakeServer(), FakeTime()
        lease = self.held(server, time)
        server.intercept = lambda _n, _method, _path: failure(503, "ServiceUnavailable", "no leader")
        time.seconds += 20.0
        lease.keep()
        assert time.seconds < 1060.0
        time.seconds = 1061.0
        with pytest.raises(ApiFault, match="no leader"):
            lease.keep()

    def test_one_that_may_not_be_renewed_ends_the_run(self) -> None:
        server, time = FakeServer(), FakeTime()
        lease = self.held(server, time)
        server.intercept = lambda _n, _method, _path: failure(403, "Forbidden", "no leases")
        time.seconds += 20.0
        with pytest.raises(ApiFault, match="no leases"):
            lease.keep()

    @pytest.mark.parametrize("refused", ["PUT", "GET"])
    def test_who_lacks_one_right_to_it_is_told_so_and_neither_goes_on_nor_waits(self, refused: str) -> None:
        server, time = FakeServer(), FakeTime()
        lease = self.held(server, time)
        # With a GET refused nobody can tell whose it is after a conflict.
        server.put("leases", dict(server.objects[PLACE]))
        server.intercept = lambda _n, method, _path: (
            failure(403, "Forbidden", "no leases") if method == refused else None
        )
        time.seconds += 70.0
        for other in (lease.keep, Lease(connect(server, time), "web", "ns", lambda _text: None).acquire):
            before = time.seconds
            with pytest.raises(ApiFault, match=f"{refused.lower()} Lease ns/rdma-fabric-web: no leases"):
                other()
            assert time.seconds - before < 70.0


class TestTwoRuns:
    @pytest.mark.parametrize(("duration", "seconds"), [(60, 60.0), (20, 20.0), (0, 60.0), ("x", 60.0), (None, 60.0)])
    def test_a_holder_that_is_silent_for_its_duration_is_followed(self, duration: Any, seconds: float) -> None:
        server, time = FakeServer(), FakeTime()
        TestKeep.held(server, time)
        server.put(
            "leases", {**server.objects[PLACE], "spec": {"holderIdentity": "x", "leaseDurationSeconds": duration}}
        )
        lease = Lease(connect(server, time), "web", "ns", lambda _text: None)
        lease.acquire()
        assert seconds <= time.seconds - 1000.0 < seconds + 4.0
        assert (lease.waited, server.objects[PLACE]["spec"]["holderIdentity"]) == (True, lease.holder)

    def test_a_holder_that_renews_is_waited_for_and_named_now_and_then(self) -> None:
        server, time = FakeServer(), FakeTime()
        TestKeep.held(server, time)
        renewed = time.seconds
        said: list[str] = []

        def renew(_number: int, _method: str, _path: str) -> None:
            nonlocal renewed
            if time.seconds - renewed >= 15.0:
                renewed = time.seconds
                server.put("leases", server.objects[PLACE])

        server.intercept = renew
        with pytest.raises(ApiFault, match="has not ended after 300 s"):
            Lease(connect(server, time), "web", "ns", said.append).acquire()
        assert 300.0 <= time.seconds - 1000.0 < 304.0
        assert 25 <= len(said) <= 30

    def test_the_second_waits_for_the_first_and_reads_again_what_it_did(self) -> None:
        server, time = FakeServer(), FakeTime()
        lease = {"holderIdentity": "somebody@host", "leaseDurationSeconds": 60}
        metadata = {"name": "rdma-fabric-web", "namespace": "ns"}
        server.put(
            "leases", {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": lease}
        )
        said: list[str] = []

        def other(_number: int, _method: str, _path: str) -> None:
            if time.seconds >= 30 and PLACE in server.objects:
                del server.objects[PLACE]
                server.intercept = lambda _n, _m, _p: None
                start(server, time, *ONE)

        server.intercept = other
        start(server, time, *TWO, progress=said.append)
        assert 30 <= time.seconds < 40
        assert live_of_the_set(server) == {"a", "two"} == inventory_of(server)
        assert "waiting for another run of the set 'web': somebody@host" in said[0]

    def test_what_the_first_made_that_forbids_the_second_is_refused_after_the_wait(self) -> None:
        server, time = FakeServer(), FakeTime()
        lease = Lease(connect(server, time), "web", "ns", lambda _text: None, holder="first")
        lease.acquire()

        def the_first_ends(_number: int, method: str, path: str) -> None:
            if time.seconds > 1 and PLACE in server.objects and (method, "/leases" in path) == ("POST", True):
                lease.release()
                start(server, time, *TWO, engine="helm")

        server.intercept = the_first_ends
        with pytest.raises(BatchError, match="made by the engine helm, not direct"):
            start(server, time, *ONE, engine="direct")
        assert live_of_the_set(server) == {"a", "two"}
        assert PLACE not in server.objects

    def test_a_holder_that_goes_on_is_waited_for_five_minutes(self) -> None:
        server, time = FakeServer(), FakeTime()
        body: dict[str, Any] = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "rdma-fabric-web", "namespace": "ns"},
            "spec": {"holderIdentity": "somebody@host", "leaseDurationSeconds": 60},
        }
        server.put("leases", body)

        def renewed(_number: int, method: str, _path: str) -> None:
            server.put("leases", body)

        server.intercept = renewed
        with pytest.raises(BatchError, match="has not ended after 300 s: somebody@host"):
            start(server, time, *ONE)
        assert server.written() == []

    @pytest.mark.parametrize("removal", [False, True], ids=["apply", "absent"])
    def test_overtaken_at_every_request_nothing_is_left_unrecorded(self, removal: bool) -> None:
        """The first run stalls at its n-th request for as long as the whole second run takes."""
        number = 0
        while self.overtake(number + 1, removal):
            number += 1
        assert number > 10

    @staticmethod
    def overtake(number: int, removal: bool) -> bool:
        """Run the second at the n-th request of the first; tell whether there was such a request."""
        server, time, overtaken = FakeServer(), FakeTime(), False
        start(server, time, *BASE)
        server.requests.clear()

        def stall(count: int, _method: str, _path: str) -> Reply | None:
            nonlocal overtaken
            if count == number and not overtaken:
                overtaken = True
                start(server, time, *([] if removal else TWO), absent=removal)
            return None

        server.intercept = stall
        try:
            start(server, time, *ONE)
            failed = ""
        except BatchError as err:
            failed = str(err)
        server.intercept = lambda _n, _m, _p: None
        left = live_of_the_set(server) - inventory_of(server)
        assert not left or "another run has taken over the set 'web'" in failed, (number, left, failed)
        start(server, time, *ONE)
        assert live_of_the_set(server) == {"a", "one", "d"} == inventory_of(server), number
        return overtaken

    def test_a_killed_run_keeps_others_away_for_a_minute(self) -> None:
        server, time = FakeServer(), FakeTime()
        dead = False

        def kill(_number: int, method: str, path: str) -> None:
            nonlocal dead
            dead = dead or (method == "PATCH" and path.endswith("/one"))
            if dead:
                raise Dead

        server.intercept = kill
        with pytest.raises(Dead):
            start(server, time, *ONE)
        server.intercept = lambda _n, _m, _p: None
        assert PLACE in server.objects
        start(server, time, *TWO)
        assert 60 <= time.seconds < 70
        assert live_of_the_set(server) == {"a", "two"} == inventory_of(server)


class TestOrphans:
    def test_an_object_of_the_set_that_is_recorded_nowhere_is_named_and_removed(self) -> None:
        server = FakeServer()
        apply(server, *ONE)
        inventory = server.objects[("configmaps", "ns", "rdma-fabric-web")]
        entries = [entry for entry in json.loads(inventory["data"]["objects"]) if entry["name"] != "one"]
        inventory["data"]["objects"] = json.dumps(entries, separators=(",", ":"))
        result = apply(server, wave(config_map("a")), wave(daemon_set("d")))
        assert "of the set, but recorded nowhere until now: 1 (ConfigMap ns/one)" in result.notices
        assert ("configmaps", "ns", "one") not in server.objects
