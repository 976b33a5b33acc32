# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node is cordoned, drained and uncordoned on a real API server, whoever else has a hand in it.

Which pods leave is in test_node_drain_pods.py, how a drain ends in test_node_drain_ends.py.
"""

from __future__ import annotations

import threading

import pytest

from ansible_collections.rdma.fabric.tests.integration.draining import (
    DEVICE,
    Place,
    actions,
    drain,
    drained,
    offer,
    refused,
)
from ansible_collections.rdma.fabric.tests.lab.api import Api
from ansible_collections.rdma.fabric.tests.lab.audit import AuditLog
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

pytestmark = pytest.mark.first


def test_pods_that_hold_devices_leave_and_the_node_is_given_back(place: Place, audit: AuditLog) -> None:
    place.pod("holder")
    place.pod("other", holds=False)
    mark = audit.mark()
    shown = drained(place, check=True)
    assert not place.cordoned()
    assert place.is_there("holder")
    first = drained(place, reason="new driver", run="r1")
    assert actions(shown) == actions(first) == {"holder": "evicted", "other": "stays"}
    assert (shown["changed"], first["changed"], first["cordoned"]) == (True, True, True)
    assert shown["diff"] == first["diff"]
    assert "pod " not in first["diff"]["after"].replace(f"pod {place.namespace}/other: stays", "")
    assert not place.is_there("holder")
    assert place.is_there("other")
    written = place.mark()
    assert written is not None
    assert (written["reason"], written["run"], written["unschedulable"]) == ("new driver", "r1", False)
    assert drained(place, reason="new driver", run="r1")["changed"] is False
    assert drained(place, state="uncordoned")["changed"] is True
    assert (place.cordoned(), place.mark()) == (False, None)
    assert drained(place, state="uncordoned")["changed"] is False
    verbs = {request.verb for request in audit.requests(mark, user="rdma-fabric-admin") if request.resource == "pods"}
    assert "delete" not in verbs


def test_all_pods_that_forbid_a_drain_are_named_before_the_node_is_cordoned(place: Place) -> None:
    place.pod("unmanaged", owned=False)
    place.pod("scratch", spec={"volumes": [{"name": "scratch", "emptyDir": {}}]})
    place.pod("holder")
    message = refused(place)
    assert f"pod {place.namespace}/unmanaged on node {place.node}: it has no controller" in message
    assert f"pod {place.namespace}/scratch on node {place.node}: the data in its emptyDir" in message
    assert "force: true" in message
    assert "delete_empty_dir: true" in message
    assert refused(place, check=True) == message
    assert (place.cordoned(), place.mark(), place.is_there("holder")) == (False, None, True)


def test_a_node_is_given_back_when_it_offers_its_devices_again(place: Place, control_plane: ControlPlane) -> None:
    drained(place)
    offer(place.api, place.node, "0")
    result = drain(place, state="uncordoned", timeout=2)
    assert result["missing"] == [f"it offers none of {DEVICE}, as it did before"]
    assert "It stays cordoned: look at its kubelet and device plugins" in result["msg"]
    assert place.cordoned()
    drained(place, state="uncordoned", check=True)
    other = Api.from_kubeconfig(control_plane.kubeconfig)
    timer = threading.Timer(1.0, offer, [other, place.node, "4"])
    timer.start()
    try:
        drained(place, state="uncordoned")
    finally:
        timer.join()
        other.close()
    assert not place.cordoned()


def test_a_node_that_could_be_given_back_stays_cordoned_where_only_that_is_asked_for(place: Place) -> None:
    drained(place)
    offer(place.api, place.node, "0")
    assert drain(place, state="ready", timeout=2)["missing"] == [f"it offers none of {DEVICE}, as it did before"]
    offer(place.api, place.node, "4")
    result = drained(place, state="ready")
    assert (result["changed"], result["cordoned"], place.cordoned()) == (False, True, True)
    drained(place, state="uncordoned")
    assert drained(place, state="ready")["cordoned"] is False


def test_a_cordon_alone_leaves_the_pods(place: Place) -> None:
    place.pod("holder")
    result = drained(place, state="cordoned")
    assert (result["pods"], place.cordoned(), place.is_there("holder")) == ([], True, True)


def test_jobs_are_waited_for_on_the_cordoned_node_and_evicted_at_the_limit(place: Place) -> None:
    place.pod("job", labels={"app": "train"})
    result = drained(place, wait_for="app=train", wait_timeout=1, state="cordoned")
    assert result["notices"] == [f"node {place.node}: jobs that have not ended within 1 s: {place.namespace}/job"]
    assert (place.cordoned(), place.is_there("job")) == (True, True)
    assert drained(place, wait_for="app=other")["notices"] == []
    assert not place.is_there("job")
    place.pod("done", labels={"app": "train"})
    place.finish("done", "Succeeded")
    assert drained(place, wait_for="app=train", wait_timeout=0)["notices"] == []


def test_a_node_that_is_not_there_is_named(place: Place) -> None:
    message = str(run_action("node_drain", {"node": "not-there"})["msg"])
    assert message.startswith("there is no node not-there: give it as `kubectl get nodes` names it")
    assert "as rdma_fabric_node_name" in message


def test_a_user_without_the_right_to_evict_is_told_it(place: Place, control_plane: ControlPlane) -> None:
    place.pod("holder")
    user = f"drainer-{place.namespace}"
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ]
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
        "subjects": [{"kind": "User", "name": user}],
    }
    place.api.call("POST", f"/apis/{group}/v1/clusterroles", role)
    place.api.call("POST", f"/apis/{group}/v1/clusterrolebindings", binding)
    try:
        kubeconfig = str(control_plane.client_kubeconfig(user))
        message = refused(place, kubeconfig=kubeconfig)
    finally:
        place.api.call("DELETE", f"/apis/{group}/v1/clusterrolebindings/{user}")
        place.api.call("DELETE", f"/apis/{group}/v1/clusterroles/{user}")
    assert "pods/eviction" in message
    assert "grant the user this verb" in message
