# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_drain on an API server in memory: nodes registered anew, pods that come back, refused questions."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.action import node_drain
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.features import GPU_LABEL, NIC_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import MANAGER
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import mark_of
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import TEST_POD
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions import cluster
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.held_nodes import RUN
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeTime, failure, good
from ansible_collections.rdma.fabric.tests.unit._rollout.objects import DAEMON_SET, Json, pod
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
from ansible_collections.rdma.fabric.tests.unit.plugins.node_server import NODE, Nodes

OWN_FIELDS: Json = {"f:metadata": {"f:labels": {f"f:{NIC_LABEL}": {}}}}
OWN = {"manager": MANAGER, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": OWN_FIELDS}


def registered(server: Nodes, uid: str, *, labels: Json | None = None, offers: str = "8", boot: str = "one") -> None:
    """Register the node, as its kubelet does."""
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"rdma/a": offers},
        "nodeInfo": {"bootID": boot},
    }
    metadata = {"name": "n", "uid": uid, "labels": labels or {}}
    server.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status})


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, time: FakeTime) -> Nodes:
    found = Nodes()
    registered(found, "first", labels={NIC_LABEL: "true", GPU_LABEL: "true"})
    found.objects[NODE]["metadata"]["managedFields"] = [OWN]
    monkeypatch.setattr(node_drain.ActionModule, "client", lambda _self, _arguments: found)
    monkeypatch.setattr(cluster, "Clock", lambda **_given: time.clock())
    return found


def drain(state: str, *, check: bool = False, **arguments: Any) -> Json:
    return run_action(
        "node_drain", {"node": "n", "state": state, "run": "one", "timeout": 60, **arguments}, check=check
    )


def drained() -> Json:
    """Drain the node and return what it was before."""
    result = drain("drained")
    assert not result.get("failed"), result
    return dict(result["before"])


def come(server: Nodes, name: str = "late", **spec: Any) -> Json:
    made = {"apiVersion": "v1", "kind": "Pod", **pod(name, **spec)}
    made["spec"]["nodeName"] = "n"
    return server.put("pods", made)


def cordoned(server: Nodes) -> bool:
    return bool(server.objects[NODE]["spec"].get("unschedulable"))


def test_what_a_node_was_is_returned_of_the_first_cordon(server: Nodes) -> None:
    before = drained()
    assert before == {
        "uid": "first",
        "unschedulable": False,
        "boot": "one",
        "devices": {"rdma/a": 8},
        "labels": {NIC_LABEL: "true", GPU_LABEL: "true"},
        "own_labels": [NIC_LABEL],
    }
    server.objects[NODE]["status"]["allocatable"] = {}
    assert drained() == before


@pytest.mark.parametrize("state", ["ready", "uncordoned"])
def test_a_node_that_was_registered_anew_is_cordoned_labelled_and_waited_for(server: Nodes, state: str) -> None:
    before = drained()
    registered(server, "second", offers="0", boot="two")
    result = drain(state, before=before, rebooted=True)
    assert result.get("failed"), result
    assert result["missing"] == [
        "it offers none of rdma/a, as it did before",
        f"it has lost the label {GPU_LABEL}, by which pods of the fabric come to it",
    ]
    assert (result["changed"], result["cordoned"], cordoned(server)) == (True, True, True)
    assert "It stays cordoned" in result["msg"]
    live = server.objects[NODE]
    mark = mark_of(live)
    assert mark is not None
    assert (mark.run, mark.devices, mark.boot, mark.unschedulable) == ("one", {"rdma/a": 8}, "one", False)
    assert live["metadata"]["labels"] == {NIC_LABEL: "true"}


@pytest.mark.parametrize("passes_before", [True, False], ids=["before", "mark"])
def test_fewer_devices_keep_a_node_cordoned_for_who_knows_that_vfs_are_as_they_were(
    server: Nodes, passes_before: bool
) -> None:
    before = drained() if passes_before else drained() and {}
    server.objects[NODE]["status"]["allocatable"]["rdma/a"] = "4"
    result = drain("uncordoned", before=before)
    assert result.get("missing") == (["it offers fewer devices than before: 4 rdma/a of 8"] if passes_before else None)
    assert cordoned(server) is passes_before


def test_one_that_is_whole_is_given_back_and_named(server: Nodes) -> None:
    before = drained()
    registered(server, "second", labels={GPU_LABEL: "true"}, boot="two")
    result = drain("uncordoned", before=before, rebooted=True)
    assert not result.get("failed"), result
    assert (result["changed"], result["cordoned"], cordoned(server)) == (True, False, False)
    assert result["notices"] == ["node n was registered again since it was drained; cordoned again"]
    assert mark_of(server.objects[NODE]) is None


def test_one_that_somebody_had_cordoned_before_stays_cordoned(server: Nodes) -> None:
    server.objects[NODE]["spec"]["unschedulable"] = True
    before = drained()
    registered(server, "second", labels={GPU_LABEL: "true"}, boot="two")
    result = drain("uncordoned", before=before)
    assert not result.get("failed"), result
    assert (result["cordoned"], cordoned(server)) == (True, True)


def test_one_that_is_registered_anew_while_it_is_waited_for_is_cordoned_then(server: Nodes, time: FakeTime) -> None:
    before = drained()
    server.objects[NODE]["status"]["conditions"] = []

    def register(_number: int, _method: str, _path: str) -> None:
        if time.seconds > 20 and server.objects[NODE]["metadata"]["uid"] == "first":
            registered(server, "second", offers="0")

    server.intercept = register
    result = drain("uncordoned", before=before)
    assert result.get("failed"), result
    assert "it offers none of rdma/a" in result["msg"]
    assert cordoned(server)


@pytest.mark.parametrize("state", ["ready", "uncordoned"])
def test_one_that_was_deleted_is_waited_for_until_its_kubelet_registers_it(
    server: Nodes, time: FakeTime, state: str
) -> None:
    before = drained()
    del server.objects[NODE]

    def register(_number: int, _method: str, _path: str) -> None:
        if time.seconds > 20 and NODE not in server.objects:
            registered(server, "second", labels={GPU_LABEL: "true"}, boot="two")

    server.intercept = register
    result = drain(state, before=before, rebooted=True)
    assert not result.get("failed"), result
    assert (result["cordoned"], cordoned(server)) == (state == "ready", state == "ready")


@pytest.mark.parametrize("arguments", [{}, {"state": "ready"}, {"late": 30}], ids=["at once", "ready", "while waited"])
def test_one_that_does_not_come_back_is_said_to_be_deleted(server: Nodes, time: FakeTime, arguments: Json) -> None:
    before, late = drained(), arguments.get("late", 0)
    server.objects[NODE]["status"]["conditions"] = []

    def delete(_number: int, _method: str, _path: str) -> None:
        if time.seconds >= late:
            server.objects.pop(NODE, None)

    server.intercept = delete
    result = drain(arguments.get("state", "uncordoned"), before=before, rebooted=True)
    assert (result["failed"], result["gone"]) == (True, True)
    assert "n was deleted since it was drained, and its kubelet has not registered it again" in result["msg"]
    assert 50 < time.seconds < 70


def test_one_that_nobody_waits_for_is_not_looked_for_again(server: Nodes, time: FakeTime) -> None:
    before, begun = drained(), time.seconds
    del server.objects[NODE]
    assert drain("uncordoned", before=before, wait=False)["gone"]
    assert drain("uncordoned", before=before, check=True)["gone"]
    assert drain("uncordoned")["gone"]
    assert time.seconds == begun


def test_a_node_whose_mark_was_taken_off_is_looked_at_all_the_same(server: Nodes) -> None:
    before = drained()
    server.objects[NODE]["spec"], server.objects[NODE]["metadata"]["annotations"] = {}, {}
    server.objects[NODE]["status"]["allocatable"] = {"rdma/a": "0"}
    result = drain("uncordoned", before=before)
    assert result.get("failed"), result
    assert "Somebody else has uncordoned it already" in result["msg"]


def test_a_node_that_another_run_has_marked_is_left_to_it(server: Nodes) -> None:
    before = drained()
    registered(server, "second", offers="0")
    assert not drain("cordoned", run="other").get("failed")
    result = drain("uncordoned", before=before)
    assert not result.get("failed"), result
    assert cordoned(server)


def test_a_drained_node_is_empty_where_only_pods_are_on_it_that_a_drain_leaves(server: Nodes) -> None:
    before = drained()
    server.put("daemonsets", {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "plugin"}})
    server.objects[("daemonsets", "ns", "plugin")] = server.objects.pop(("daemonsets", "", "plugin"))
    server.objects[("daemonsets", "ns", "plugin")]["metadata"]["namespace"] = "ns"
    come(server, "of-a-daemon-set", owner=DAEMON_SET)
    come(server, "without-a-device", holds=False)
    come(server, "finished", phase="Succeeded")
    come(server, "wire-test")["metadata"]["labels"] = dict(TEST_POD)
    result = drain("empty", before=before)
    assert not result.get("failed"), result
    assert (result["changed"], result["cordoned"], result["requests"]["patch"]) == (False, True, 0)
    assert result["before"] == before


@pytest.mark.parametrize("managed", [True, False])
def test_pods_that_have_come_back_are_named_and_left(server: Nodes, managed: bool) -> None:
    before = drained()
    come(server, managed=managed)
    result = drain("empty", before=before)
    assert result.get("failed"), result
    held = "pod ns/late has come to it: it has the resource rdma/rdma_shared_device_a"
    assert (result["in_the_way"], held in result["msg"]) == ([held], True)
    assert (result["gone"], result["unanswered"], cordoned(server)) == (False, False, True)
    assert ("pods", "ns", "late") in server.objects
    assert not drain("empty", before=before, pod_selector="app=other").get("failed")
    assert not drain("empty", before=before, check=True).get("failed")


def test_a_node_that_somebody_has_uncordoned_is_not_interrupted(server: Nodes) -> None:
    before = drained()
    server.objects[NODE]["spec"] = {}
    result = drain("empty", before=before)
    assert result.get("failed"), result
    assert "it was uncordoned by somebody else, so pods may come to it" in result["msg"]


def test_one_that_was_registered_anew_is_cordoned_again_before_it_is_looked_at(server: Nodes) -> None:
    before = drained()
    registered(server, "second")
    result = drain("empty", before=before)
    assert not result.get("failed"), result
    assert (result["changed"], cordoned(server)) == (True, True)
    registered(server, "third")
    come(server)
    failed = drain("empty", before=before)
    assert failed["msg"].startswith("node n was registered again since it was drained, and is not to be interrupted")
    assert (failed["changed"], cordoned(server)) == (True, True)


@pytest.mark.parametrize("give_back", [True, False])
def test_a_node_whose_jobs_cannot_be_asked_for_is_given_back_where_that_is_wanted(
    server: Nodes, give_back: bool
) -> None:
    def refuses_the_selector(_number: int, _method: str, _path: str) -> Reply | None:
        asks = "labelSelector" in server.requests[-1][2]
        return failure(400, "BadRequest", "unable to parse requirement: found '', expected: in") if asks else None

    server.intercept = refuses_the_selector
    result = drain("drained", wait_for="app in train", give_back=give_back)
    assert "unable to parse requirement" in result["msg"]
    assert ("It takes pods again" in result["msg"], result.get("cordoned")) == (give_back, not give_back)
    assert cordoned(server) is not give_back


def test_a_node_that_is_quarantined_while_its_drain_fails_stays_cordoned(server: Nodes) -> None:
    come(server)

    def quarantine(_number: int, method: str, path: str) -> Reply | None:
        if method != "POST" or not path.endswith("/eviction"):
            return None
        live = server.objects[NODE]
        live["metadata"]["annotations"]["quarantineHealthEventIsCordoned"] = "True"
        return failure(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")

    server.intercept = quarantine
    result = drain("drained", give_back=True)
    assert "Nothing on it was changed, and node n stays cordoned, NVSentinel has claimed it" in result["msg"]
    assert (result["cordoned"], cordoned(server)) == (True, True)


def of_daemon_set(server: Nodes, *, plugin: bool = False, ready: bool = True) -> None:
    """Put a pod on the node, with a device or of the SR-IOV device ``plugin``.

    It is of a DaemonSet that replaces it when it is evicted, by one that is ``ready``.
    """
    metadata = {"name": "plugin", "namespace": "ns"}
    server.put("daemonsets", {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata})

    def put(name: str) -> None:
        body = come(server, name, owner=DAEMON_SET)
        body["status"] = {"conditions": [{"type": "Ready", "status": str(ready)}]}
        if plugin:
            body["metadata"]["labels"] = {"app": "sriovdp"}
            body["spec"]["containers"] = [{"name": "kube-sriovdp"}]

    put("storage")

    def evict(_number: int, method: str, path: str) -> Reply | None:
        if method != "POST" or not path.endswith("/eviction"):
            return None
        del server.objects[("pods", "ns", path.split("/")[-2])]
        put("replaced")
        return good({}, 201)

    server.intercept = evict


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("restarts", [True, False])
def test_a_pod_of_a_daemon_set_that_keeps_its_device_is_named_before_the_change(
    server: Nodes, check: bool, restarts: bool
) -> None:
    of_daemon_set(server)
    (notice,) = drain("drained", check=check, restart_daemon_sets=restarts)["notices"]
    assert "ns/storage (it has the resource rdma/rdma_shared_device_a)" in notice
    assert ("rdma_fabric_drain_restart_daemon_sets: true" in notice) is not restarts


@pytest.mark.parametrize("restarts", [True, False])
def test_it_is_replaced_before_the_node_takes_pods_again_by_consent(server: Nodes, restarts: bool) -> None:
    of_daemon_set(server)
    before = drained()
    result = drain("uncordoned", before=before, restart_daemon_sets=restarts)
    assert not result.get("failed"), result
    assert [(row["name"], row["action"]) for row in result["pods"]] == [("storage", "evicted")] * restarts
    assert sorted(name for kind, _place, name in server.objects if kind == "pods") == [
        "replaced" if restarts else "storage"
    ]
    assert not cordoned(server)


@pytest.mark.parametrize(("rebooted", "ready"), [(False, True), (True, True), (False, False)])
def test_the_device_plugin_looks_at_new_vfs_before_the_node_takes_pods_again(
    server: Nodes, rebooted: bool, ready: bool
) -> None:
    of_daemon_set(server, plugin=True, ready=ready)
    before = drained()
    if rebooted:
        server.objects[NODE]["status"]["nodeInfo"]["bootID"] = "two"
    result = drain("uncordoned", before=before, renewed=True, rebooted=rebooted)
    names = sorted(name for kind, _place, name in server.objects if kind == "pods")
    assert names == ["storage" if rebooted else "replaced"]
    assert bool(result.get("failed")) is not ready and cordoned(server) is not ready
    assert ready or "its SR-IOV device plugin is not ready again (within" in result["msg"]


@pytest.mark.parametrize(
    ("image", "rebooted", "ready", "waits"),
    [
        ("ghcr.io/k8snetworkplumbingwg/multus-cni:v4.2.1", True, False, True),
        ("rancher/hardened-multus-cni:v4.2.1", True, False, True),
        ("ghcr.io/k8snetworkplumbingwg/multus-cni:v4.2.1", True, True, False),
        ("ghcr.io/k8snetworkplumbingwg/multus-cni:v4.2.1", False, False, False),
        ("example.org/multus/other:v1", True, False, False),
    ],
)
def test_after_a_reboot_a_node_takes_no_pods_before_multus_gives_them_their_networks(
    server: Nodes, image: str, rebooted: bool, ready: bool, waits: bool
) -> None:
    made = come(server, "kube-multus-ds-x", owner=DAEMON_SET, holds=False)
    made["spec"]["containers"][0]["image"] = image
    made["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
    before = drained()
    if rebooted:
        server.objects[NODE]["status"]["nodeInfo"]["bootID"] = "two"
    result = drain("uncordoned", before=before, rebooted=rebooted)
    assert bool(result.get("failed")) is cordoned(server) is waits
    assert not waits or "without their networks (kube-multus-ds-x)" in result["msg"]


@pytest.mark.parametrize(
    ("executed", "left_cordoned", "looks"),
    [(["vfs:0000:3b:00.0"], False, True), (["mtu:0000:3b:00.0"], False, False), ([], True, True)],
)
def test_a_turn_has_it_look_where_vfs_were_changed_or_may_have_been_by_a_killed_run(
    server: Nodes, executed: list[str], left_cordoned: bool, looks: bool
) -> None:
    of_daemon_set(server, plugin=True)
    of_the_turn = {
        "inventory_hostname": "n",
        "rdma_fabric_host_result": {"executed": [{"id": each} for each in executed]},
        "_rdma_fabric_host_slot": {"turn": {"node": "n", "cordoned": left_cordoned, "file": "/nowhere/n.json"}},
        "_rdma_fabric_host_drain": {"before": drain("drained", run=RUN)["before"]},
    }
    result = run_action("node_drain", {"state": "uncordoned", "role_variables": True}, task_vars=of_the_turn)
    assert [row["name"] for row in result["pods"]] == ["storage"] * looks, result


@pytest.mark.parametrize("state", ["ready", "uncordoned"])
@pytest.mark.parametrize(
    ("offers", "missing"),
    [({"rdma/a": "4"}, ""), ({"nvidia.com/gpu": "7"}, "7 nvidia.com/gpu of 8")],
)
def test_a_turn_keeps_a_node_that_comes_back_with_fewer_gpus_and_not_one_with_fewer_vfs(
    server: Nodes, state: str, offers: Json, missing: str
) -> None:
    status = server.objects[NODE]["status"]
    status["allocatable"] = {"rdma/a": "8", "nvidia.com/gpu": "8"}
    of_the_turn = {
        "inventory_hostname": "n",
        "_rdma_fabric_host_drain": {"before": drain("drained", run=RUN)["before"]},
        "_rdma_fabric_host_reboot": {"rebooted": True},
    }
    status["allocatable"].update(offers)
    status["nodeInfo"]["bootID"] = "two"
    result = run_action("node_drain", {"state": state, "role_variables": True}, task_vars=of_the_turn)
    expected = [f"it offers fewer devices than before: {missing}"] if missing else None
    assert result.get("missing") == expected, result


@pytest.mark.parametrize(("grace", "is_told"), [(7200, True), (60, False)])
def test_a_grace_period_beyond_the_limit_is_told_before_the_node_is_cordoned(
    server: Nodes, grace: int, is_told: bool
) -> None:
    come(server, "train")["spec"]["terminationGracePeriodSeconds"] = grace
    server.intercept = lambda _number, _method, path: good({}, 201) if path.endswith("/eviction") else None
    notices = drain("drained", check=True)["notices"]
    told = (
        "pods that may take longer to end than the 60 s that the drain waits, and end all the same: ns/train (7200 s)"
    )
    assert [told in notice for notice in notices] == [True] * is_told
    assert ("its grace period is 7200 s; raise the limit" in drain("drained")["msg"]) is is_told


@pytest.mark.parametrize(
    ("toleration", "is_told"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}, True),
        ({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_a_pod_that_may_come_back_to_the_cordoned_node_is_told_before(
    server: Nodes, toleration: dict[str, str], is_told: bool
) -> None:
    """cilium/cilium#28549: its controller puts it there again and again."""
    come(server, "train")["spec"]["tolerations"] = [toleration]
    server.intercept = lambda _number, _method, path: good({}, 201) if path.endswith("/eviction") else None
    notices = drain("drained", check=True)["notices"]
    told = "pods that tolerate the cordon, so that their controllers may put them on the node again: ns/train;"
    assert [told in notice for notice in notices] == [True] * is_told


def test_a_machine_that_is_moved_away_in_place_of_its_eviction_is_waited_for(server: Nodes) -> None:
    """KubeVirt's interceptor answers 429 and migrates (kubevirt/kubevirt#11532)."""
    come(server, "virt-launcher")
    text = (
        'admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: Eviction triggered '
        'evacuation of VMI "ns/vm"'
    )
    refusals = [failure(429, "TooManyRequests", text)] * 3

    def answer(_number: int, _method: str, path: str) -> Any:
        if path.endswith("/eviction") and refusals:
            if len(refusals) == 1:
                del server.objects["pods", "ns", "virt-launcher"]
            return refusals.pop()
        return None

    server.intercept = answer
    result = drain("drained")
    assert not result.get("failed"), result
    (row,) = result["pods"]
    assert (row["action"], row["blocked"]) == ("evicted", text)
