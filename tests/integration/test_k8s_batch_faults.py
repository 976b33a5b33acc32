# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every request of a run is broken in every way: the run or the next one converges, and nothing is lost.

By default each fault meets a set that is new or one that changes, in turn, and a fault and its like share the requests
that they break; ``RDMA_FABRIC_SWEEPS=whole`` takes both sets and all requests.
"""

from __future__ import annotations

import contextlib
from functools import partial
from itertools import count, cycle, product
from typing import Any, Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply, Sender
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.tests.integration.batch_objects import (
    Json,
    apply,
    apply_through,
    config_map,
    daemon_set,
    read,
    wave,
)
from ansible_collections.rdma.fabric.tests.integration.faulty_proxy import FAULTS, STALL_SECONDS, FaultyProxy
from ansible_collections.rdma.fabric.tests.lab.api import collection_path
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.pki import kubeconfig as kubeconfig_document
from ansible_collections.rdma.fabric.tests.sweeps import whole

STARTS = ("nothing", "an older state")
# They end a run or not by what they meet; faults that are alike are neighbours in FAULTS.
UNLIKE = ("401", "409")


def requests_broken_by(fault: str) -> Iterator[int]:
    """Return the numbers of the requests, from 1, that a fault breaks."""
    return count(1) if whole() or fault in UNLIKE else count(1 + FAULTS.index(fault) % 2, 2)


class Faulty:
    """A proxy that breaks requests, and clients that speak to it."""

    def __init__(self, control_plane: ControlPlane, proxy: FaultyProxy) -> None:
        self.proxy = proxy
        client = control_plane.authority.client("nobody")
        self._document = kubeconfig_document(proxy.url, control_plane.authority.pair.certificate, client)

    def sender(self) -> Sender:
        return Client({"kubeconfig": self._document}, read_timeout=STALL_SECONDS / 2)


@pytest.fixture(scope="module")
def faulty(control_plane: ControlPlane) -> Iterator[Faulty]:
    with FaultyProxy(control_plane) as proxy:
        yield Faulty(control_plane, proxy)


class State:
    """Two states of a set that differ by a changed, a new and a dropped object."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self.control_plane = control_plane
        self.namespace = namespace
        self.dropped = daemon_set(namespace, "dropped")
        self.foreign = config_map(namespace, "foreign")
        self.before = [wave(config_map(namespace, "a", key="1")), wave(self.dropped)]
        self.wanted = [
            wave(config_map(namespace, "a", key="2"), config_map(namespace, "new")),
            wave(daemon_set(namespace, "plugin")),
        ]
        control_plane.api.call("POST", collection_path("v1", "configmaps", namespace), self.foreign)

    def reset(self, waves: list[Json]) -> None:
        """Go to the state that holds ``waves``; nothing at all when there are none."""
        apply(self.control_plane.kubeconfig, self.namespace, *waves, absent=not waves)

    def end_lease(self) -> None:
        """Remove the Lease of a run that was killed."""
        path = collection_path("coordination.k8s.io/v1", "leases", self.namespace)
        self.control_plane.api.request("DELETE", f"{path}/rdma-fabric-{self.namespace}")

    def assert_converges(self, *, failed: bool = True) -> None:
        """One more run reaches the wanted state, as one did that has not failed; the next finds nothing to do."""
        if failed:
            apply(self.control_plane.kubeconfig, self.namespace, *self.wanted)
        again = apply(self.control_plane.kubeconfig, self.namespace, *self.wanted)
        assert (again.changed, again.requests["patch"]) == (False, 0)
        for body in [body for one in self.wanted for body in one["objects"]]:
            live = read(self.control_plane.api, body)
            assert live is not None
            assert live["metadata"]["labels"]["rdma.fabric/set"] == self.namespace
        assert read(self.control_plane.api, self.dropped) is None
        assert read(self.control_plane.api, self.foreign) is not None


@pytest.mark.parametrize(("fault", "start"), [*product(FAULTS, STARTS)] if whole() else [*zip(FAULTS, cycle(STARTS))])
def test_every_request_broken(
    control_plane: ControlPlane, namespace: str, faulty: Faulty, fault: str, start: str
) -> None:
    state = State(control_plane, namespace)
    for number in requests_broken_by(fault):
        state.reset([] if start == "nothing" else state.before)
        plan = faulty.proxy.break_request(number, fault)
        failed, notices = "", ""
        try:
            notices = "\n".join(apply_through(faulty.sender(), namespace, *state.wanted).notices)
        except BatchError as err:
            failed = str(err)
        was_broken = plan.seen >= number
        faulty.proxy.break_request(0, "")
        state.end_lease()
        state.assert_converges(failed=bool(failed))
        assert_said_right(fault if was_broken else "", failed, notices)
        if not was_broken:
            break
    assert number > 7


def assert_said_right(fault: str, failed: str, notices: str) -> None:
    """A passing fault is overcome; a refusal is said with its next step."""
    if fault and "could not be released" in notices:
        assert ("Read timed out" if fault == "stall" else f"injected {fault}") in notices
    elif fault == "401":
        assert "renew the token or client certificate" in failed
    elif fault == "409" and failed:
        assert "injected 409" in failed
        assert "run again" in failed
        assert "patch" not in failed.partition("changed before")[0]
    else:
        assert failed == ""


class Killed(BaseException):
    """The process ends here."""


class Mortal:
    """A sender that dies once its n-th request is stored, which is before it sends the next one, too."""

    def __init__(self, sender: Sender, number: int) -> None:
        self.sender = sender
        self.left = number

    def send(self, method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        # Once dead it stays dead: nothing is cleaned up.
        if self.left == 0:
            raise Killed
        reply = self.sender.send(method, path, body, content_type)
        self.left -= 1
        if self.left == 0:
            raise Killed
        return reply


@pytest.mark.parametrize("removal", [False, True], ids=["apply", "removal"])
def test_killed_at_every_request(control_plane: ControlPlane, namespace: str, removal: bool) -> None:
    state = State(control_plane, namespace)
    number = 0
    while True:
        number += 1
        state.reset(state.before)
        client = Client({"kubeconfig": str(control_plane.kubeconfig)})
        options: dict[str, Any] = {"absent": True} if removal else {}
        mortal = Mortal(client, number)
        with contextlib.suppress(Killed):
            apply_through(mortal, namespace, *([] if removal else state.wanted), **options)
        # A killed run's Lease counts for a minute, which the unit tests wait for on a clock of their own.
        state.end_lease()
        if removal:
            apply(control_plane.kubeconfig, namespace, absent=True)
            assert not apply(control_plane.kubeconfig, namespace, absent=True).changed
            names = collection_path("v1", "configmaps", namespace)
            left = {item["metadata"]["name"] for item in control_plane.api.call("GET", names)["items"]}
            assert left - {"kube-root-ca.crt"} == {"foreign"}
            assert read(control_plane.api, state.dropped) is None
        else:
            state.assert_converges()
        if mortal.left > 0:
            break
    assert number > 5


class Overtaken:
    """A sender that lets somebody else act before its n-th request."""

    def __init__(self, sender: Sender, number: int, act: Callable[[], None]) -> None:
        self.sender = sender
        self.left = number
        self.act = act

    def send(self, method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        self.left -= 1
        if self.left == 0:
            self.act()
        return self.sender.send(method, path, body, content_type)


@pytest.mark.first
def test_another_set_at_every_request(control_plane: ControlPlane, namespace: str) -> None:
    """Both want one object: the set that comes second is refused by name or told that it took it over.

    Whoever lost it is refused from then on, and every object stays on record: removing both sets leaves none.
    """
    shared, own, theirs = (config_map(namespace, name) for name in ("shared", "own", "theirs"))
    sets = {namespace: wave(shared, own), f"{namespace}-other": wave(shared, theirs)}

    def attempt(name: str, sender: Sender) -> str:
        """Return what a run of a set says."""
        try:
            return "\n".join(apply_through(sender, namespace, sets[name], set_name=name).notices)
        except BatchError as refused:
            return str(refused)

    def sender() -> Sender:
        return Client({"kubeconfig": str(control_plane.kubeconfig)})

    def run_the_other(said: list[str]) -> None:
        said.append(attempt(other, sender()))

    one, other = sets
    number = 0
    while True:
        number += 1
        said: list[str] = []
        overtaken = Overtaken(sender(), number, partial(run_the_other, said))
        said.append(attempt(one, overtaken))
        if overtaken.left > 0:
            break
        live = read(control_plane.api, shared)
        assert live is not None
        winner = live["metadata"]["labels"]["rdma.fabric/set"]
        loser = other if winner == one else one
        told = f"belongs to the set {winner!r}", f"existed before, now part of the set {winner}"
        assert any(words in text for words in told for text in said), (number, said)
        assert f"belongs to the set {winner!r}" in attempt(loser, sender()), number
        for name in sets:
            apply(control_plane.kubeconfig, namespace, set_name=name, absent=True)
        assert [body for body in (shared, own, theirs) if read(control_plane.api, body)] == [], number
    assert number > 5


class TestRefusals:
    def test_missing_rights_name_verb_resource_and_namespace_and_what_was_applied(
        self, control_plane: ControlPlane, namespace: str
    ) -> None:
        rules = [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "patch"]},
            {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get", "list"]},
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "verbs": ["get", "create", "update", "delete"],
            },
        ]
        group = "rbac.authorization.k8s.io"
        role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "limited"}, "rules": rules}
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "limited"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "limited"},
            "subjects": [{"kind": "User", "apiGroup": group, "name": "limited"}],
        }
        for plural, body in (("roles", role), ("rolebindings", binding)):
            control_plane.api.call("POST", collection_path(f"{group}/v1", plural, namespace), body)
        limited = control_plane.client_kubeconfig("limited")
        with pytest.raises(BatchError) as refused:
            apply(limited, namespace, wave(config_map(namespace, "a")), wave(daemon_set(namespace, "plugin")))
        text = str(refused.value)
        assert 'User "limited" cannot patch resource "daemonsets" in API group "apps"' in text
        assert f'in the namespace "{namespace}"' in text
        assert "grant the user this verb on this resource" in text
        assert refused.value.as_dict()["not_applied"] == [f"DaemonSet {namespace}/plugin"]
        assert f"ConfigMap {namespace}/a" in refused.value.as_dict()["applied"]
        with pytest.raises(BatchError, match="nothing was changed") as unreadable:
            apply(control_plane.client_kubeconfig("stranger"), namespace, wave(config_map(namespace, "a")))
        assert 'cannot list resource "configmaps"' in str(unreadable.value)

    def test_an_expired_credential_is_said_at_once(self, control_plane: ControlPlane, namespace: str) -> None:
        expired = control_plane.client_kubeconfig("late", ["system:masters"], expired=True)
        with pytest.raises(BatchError, match="renew the token or client certificate") as refused:
            apply(expired, namespace, wave(config_map(namespace, "a")))
        assert refused.value.result.requests["list"] == 1

    def test_an_unknown_authority_is_a_tls_fault_and_not_tried_again(
        self, control_plane: ControlPlane, namespace: str
    ) -> None:
        client = Client({"host": control_plane.server, "api_key": "t"})
        with pytest.raises(BatchError, match="certificate-authority") as refused:
            apply_through(client, namespace, wave(config_map(namespace, "a")))
        assert refused.value.result.requests["list"] == 1
