# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts in the same state are one line of the status, and whatever needs attention is named with a next step."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._status.service import service_state
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.status import (
    attention_of,
    cluster_state,
    host_classes,
    screen,
)
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import RECORDINGS
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

Json = dict[str, Any]
READY = [{"type": "Ready", "status": "True"}]


@cache
def read(recording: str) -> Json:
    """Return what reading and planning a recorded host gives where nothing is asked of it."""
    path = str(RECORDINGS / f"{recording}.json.gz")
    return run_action("rdma_host", {"desired": {}, "recording": path, "grouped": True})


def document(host: str, *steps: tuple[str, str], recording: str = "dgx-h100-01") -> Json:
    """Return the document of a host with steps of these statuses and concerns."""
    plan = {"steps": [{"status": status, "concern": concern} for status, concern in steps]}
    return {"host": host, "facts": read(recording)["facts"], "plan": plan}


def node(name: str, conditions: list[Json] | None = None, **allocatable: str) -> Json:
    offer = {f"rdma/{resource}": amount for resource, amount in allocatable.items()}
    status = {"allocatable": {"cpu": "8", **offer}, "conditions": READY if conditions is None else conditions}
    return {"metadata": {"name": name}, "status": status}


def row(kind: str, name: str, action: str = "unchanged") -> Json:
    return {"apiVersion": "v1", "kind": kind, "namespace": "fabric", "name": name, "action": action}


def wait(name: str, reason: str = "") -> Json:
    return {"kind": "DaemonSet", "namespace": "fabric", "name": name, "ready": not reason, "reason": reason}


def cluster_of(server: str, result: Json, nodes: list[Json], resources: list[str], hosts: set[str]) -> Json:
    """Return a cluster in which nobody has a slot and nodes join without a taint."""
    return {"server": server, **cluster_state(result, nodes, resources, hosts), **service_state(nodes, [], "")}


def shown(classes: list[Json], cluster: Json | None) -> str:
    total = sum(len(each["hosts"]) for each in classes)
    attention = attention_of(classes, cluster)
    status = {"hosts": {"total": total, "classes": classes}, "cluster": cluster, "attention": attention}
    return "\n".join(screen(status))


def test_reasons_that_name_each_host_are_not_a_line_for_each() -> None:
    """A rack without power is hundreds of addresses that ssh can't reach."""
    why = {f"gpu-{number}": f"unreachable: no route to 10.0.0.{number}" for number in range(500)}
    classes = host_classes([], why, {})
    assert len(classes) == 500
    lines = shown(classes, None).splitlines()
    (rest,) = [line for line in lines if line.endswith(" and 482 more; in 488 other ways")]
    assert rest.startswith("   488  unreachable   gpu-")
    assert len(lines) < 20


def test_hosts_in_the_same_state_are_one_line_with_their_number() -> None:
    classes = host_classes([document(f"gpu-{number}") for number in range(1, 31)], {}, {})
    text = shown(classes, None)
    assert "    30  matching      gpu-1, gpu-2, gpu-3, gpu-4, gpu-5, gpu-6 and 24 more" in text
    assert text.splitlines()[-1] == "result: everything matches the input; next: nothing to do"
    assert len(text.splitlines()) == 4


@pytest.mark.parametrize(
    ("statuses", "state"),
    [
        (["planned"], "pending"),
        (["planned", "needs_reboot"], "pending"),
        (["needs_reboot"], "reboot"),
        (["planned", "needs_consent"], "needs consent"),
        (["planned", "needs_consent", "refused"], "refused"),
    ],
)
def test_the_state_of_a_host_is_the_worst_of_its_steps_and_needs_a_person(statuses: list[str], state: str) -> None:
    classes = host_classes([document("gpu-1", *((status, "mtu") for status in statuses))], {}, {})
    assert [each["state"] for each in classes] == [state]
    attention = attention_of(classes, None)
    assert attention[0].startswith(f"{state}: gpu-1; next: ")
    rebooting = [text for text in attention if text.startswith("reboot")]
    assert bool(rebooting) is ("needs_reboot" in statuses)


def test_hosts_that_were_not_read_come_first_with_the_reason() -> None:
    unfinished = {
        "gpu-2": "unreachable: no route to host",
        "gpu-3": "failed before it was read; its own error says why",
    }
    classes = host_classes([document("gpu-1")], unfinished, {})
    assert [(each["state"], each["hosts"]) for each in classes] == [
        ("failed", ["gpu-3"]),
        ("unreachable", ["gpu-2"]),
        ("matching", ["gpu-1"]),
    ]
    assert "gpu-2; no route to host" in shown(classes, None)


def test_a_rail_without_a_link_is_named_by_the_name_that_it_shall_have() -> None:
    wanted = {"hosts": {"gpu-2": {"interfaces": [{"pci": "0000:5e:00.0", "name": "rail3", "state": "up"}]}}}
    documents = [document("gpu-1"), document("gpu-2", recording="dgx-h100-02")]
    classes = host_classes(documents, {}, wanted)
    assert [each["links_down"] for each in classes] == [["rail3 (ibp94s0)"], []]
    assert "links down: gpu-2 rail3 (ibp94s0); next: look at cable" in attention_of(classes, None)[0]
    unnamed = host_classes(documents[1:], {}, {})
    assert unnamed[0]["links_down"] == ["rail 3 (ibp94s0)"]


def test_a_port_that_nobody_asks_for_may_be_down() -> None:
    assert host_classes([document("egx", recording="egx-01")], {}, {})[0]["links_down"] == []
    wanted = {"hosts": {"egx": {"interfaces": [{"current_name": "ens2f1", "state": "up"}]}}}
    assert host_classes([document("egx", recording="egx-01")], {}, wanted)[0]["links_down"] == ["ens2f1"]


def test_a_cluster_as_asked_for_is_a_few_lines_and_nothing_to_do() -> None:
    result = {
        "results": [row("DaemonSet", "plugin"), row("NetworkAttachmentDefinition", "rail0")],
        "waits": [wait("plugin")],
    }
    nodes = [node("gpu-1", rail0="63"), node("gpu-2", rail0="63"), node("head")]
    cluster = cluster_of("https://c", result, nodes, ["rdma/rail0"], {"gpu-1", "gpu-2"})
    assert attention_of([], cluster) == []
    assert shown([], cluster).splitlines()[1:-1] == [
        "cluster: https://c",
        "  objects     2 of 2 matching",
        "  components  1 of 1 ready",
        "  resources   2 nodes: rdma/rail0 63 (gpu-1, gpu-2)",
        "  networks    1 of 1 there",
    ]


def test_everything_of_the_cluster_that_needs_a_person_is_named() -> None:
    result = {
        "results": [
            row("DaemonSet", "plugin"),
            row("DaemonSet", "multus", "created"),
            row("ConfigMap", "config", "configured"),
            row("ConfigMap", "old", "deleted"),
            row("NetworkAttachmentDefinition", "rail0", "created"),
        ],
        "waits": [wait("plugin", "1 of 2 pods are available")],
    }
    nodes = [node("gpu-1", rail0="63"), node("gpu-2", conditions=[], rail0="0", rail1="0")]
    cluster = cluster_of("s", result, nodes, ["rdma/rail0", "rdma/rail1"], {"gpu-1", "gpu-2"})
    text = shown([], cluster)
    assert "objects     1 of 4 matching" in text
    assert "components  0 of 2 ready" in text
    assert "DaemonSet fabric/plugin: 1 of 2 pods are available" in text
    assert "DaemonSet fabric/multus: not in the cluster" in text
    assert "1 node: rdma/rail0 0, rdma/rail1 0 (gpu-2)" in text
    assert "networks    0 of 1 there" in text
    assert "nodes not ready: gpu-2" in text
    assert "no node offers rdma/rail1" in text
    assert "4 objects to be changed" in text


def test_a_cluster_that_gives_no_answer_needs_a_person() -> None:
    attention = attention_of([], {"error": "https://c: connection refused"})
    assert attention == ["the cluster: https://c: connection refused"]
    assert "cluster: not read, see below" in shown([], {"error": "x"})


def test_a_grouped_read_of_a_host_shows_nothing_and_returns_all(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = {
        "desired": {"interfaces": [{"current_name": "ens2f0", "mtu": 1500}]},
        "recording": str(RECORDINGS / "egx-01.json.gz"),
    }
    run_action("rdma_host", arguments, task_vars={"inventory_hostname": "egx-01"})
    assert "[egx-01] notice: " in capsys.readouterr().out
    result = run_action("rdma_host", {**arguments, "grouped": True}, task_vars={"inventory_hostname": "egx-01"})
    assert "[egx-01]" not in capsys.readouterr().out
    assert result["plan"]["notices"]
