# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CNI meta plugin with a node made of files and of programs that are played; the real thing is in tests/guests."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.lab.guests.files import rdma_overlay, rxe_netns
from ansible_collections.rdma.fabric.tests.lab.guests.files.rxe_netns import CniError, answer, interface_below

MAC = "52:54:00:78:00:01"
NETWORK = {"cniVersion": "0.3.1", "name": "roce", "type": "rxe-netns"}
RESULT = {"cniVersion": "0.3.1", "interfaces": [{"name": "net1"}]}
MACVLAN = {"ifname": "net1", "link_index": 3, "linkinfo": {"info_kind": "macvlan"}}


class Node:
    """A node with one rail, whose programs are played: which network namespace has rxe0, and on which interface."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.rxe: tuple[str, str] | None = ("node", "enp1s0")
        self.pod_link: dict[str, Any] = MACVLAN
        self.fails_to_add_in = ""
        for name, content in (("ifindex", "3"), ("address", MAC)):
            (root / "net" / "enp1s0").mkdir(parents=True, exist_ok=True)
            (root / "net" / "enp1s0" / name).write_text(f"{content}\n")
        (root / "pci").mkdir()
        (root / "held").mkdir()
        (root / "rails").write_text(f"{MAC}\n")

    def command(self, *argv: str) -> str:
        where, words = "node", list(argv)
        if words[0] == "nsenter":
            where, words = Path(words[1].partition("=")[2]).name, words[2:]
        if words[0] == "ip":
            return json.dumps([{**self.pod_link, "ifname": words[-1]}])
        if words[:3] == ["rdma", "-j", "link"]:
            mine = {"netdev": self.rxe[1]} if self.rxe and self.rxe[0] == where else {}
            return json.dumps([{"ifname": "rxe0", **mine}] if self.rxe else [])
        if words[:3] == ["rdma", "link", "delete"]:
            assert self.rxe is not None
            self.rxe = None
        else:
            assert words[:6] == ["rdma", "link", "add", "rxe0", "type", "rxe"]
            assert self.rxe is None
            if where == self.fails_to_add_in:
                raise CniError(100, "rdma link add: Invalid argument")
            self.rxe = (where, words[-1])
        return ""

    def call(self, command: str, pod: str, **network: Any) -> dict[str, Any] | None:
        (self.root / pod).touch()
        environ = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": f"id-{pod}",
            "CNI_IFNAME": "net1",
            "CNI_NETNS": str(self.root / pod),
            "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME={pod}",
        }
        return answer(environ, json.dumps({**NETWORK, **network}))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path)
    for name, path in (("HELD", "held"), ("RAILS", "rails"), ("INTERFACES", "net"), ("PCI_DEVICES", "pci")):
        monkeypatch.setattr(rxe_netns, name, tmp_path / path)
    monkeypatch.setattr(rxe_netns, "command", node.command)
    return node


def code_of(node: Node, command: str, pod: str, **network: Any) -> int:
    with pytest.raises(CniError) as caught:
        node.call(command, pod, **network)
    return caught.value.code


def test_the_device_follows_the_interface_and_comes_back(node: Node) -> None:
    assert node.call("ADD", "pod-1", prevResult=RESULT) == RESULT
    assert node.rxe == ("pod-1", "net1")
    assert node.call("CHECK", "pod-1") is None
    assert node.call("DEL", "pod-1") is None
    assert node.rxe == ("node", "enp1s0")
    node.call("DEL", "pod-1")
    assert node.rxe == ("node", "enp1s0")
    node.call("ADD", "pod-2", prevResult=RESULT)  # although the first pod's namespace is still there
    assert node.rxe == ("pod-2", "net1")


def test_a_runtime_may_ask_for_the_same_pod_once_more(node: Node) -> None:
    node.call("ADD", "pod-1", prevResult=RESULT)
    node.call("ADD", "pod-1", prevResult=RESULT)
    assert node.rxe == ("pod-1", "net1")


def test_a_second_pod_is_told_who_has_the_device_and_leaves_it_there(node: Node) -> None:
    node.call("ADD", "pod-1", prevResult=RESULT)
    with pytest.raises(CniError, match=r"test/pod-1.*test/pod-2") as caught:
        node.call("ADD", "pod-2", prevResult=RESULT)
    assert caught.value.code == 11
    node.call("DEL", "pod-2")  # what a runtime does after a failure
    assert node.rxe == ("pod-1", "net1")


def test_the_holder_is_forgotten_when_its_network_namespace_is_gone(node: Node) -> None:
    node.call("ADD", "pod-1", prevResult=RESULT)
    (node.root / "pod-1").unlink()
    node.rxe = None  # the interface went, and the device with it
    node.call("ADD", "pod-2", prevResult=RESULT)
    assert node.rxe == ("pod-2", "net1")


def test_a_pod_that_vanished_gives_the_device_back_when_the_runtime_says_so(node: Node) -> None:
    node.call("ADD", "pod-1", prevResult=RESULT)
    (node.root / "pod-1").unlink()
    node.rxe = None
    environ = {"CNI_COMMAND": "DEL", "CNI_CONTAINERID": "id-pod-1", "CNI_IFNAME": "net1", "CNI_NETNS": ""}
    answer(environ, json.dumps(NETWORK))
    assert node.rxe == ("node", "enp1s0")


def test_a_failure_in_the_pod_leaves_the_device_with_the_node(node: Node) -> None:
    node.fails_to_add_in = "pod-1"
    assert code_of(node, "ADD", "pod-1", prevResult=RESULT) == 100
    assert node.rxe == ("node", "enp1s0")
    node.fails_to_add_in = ""
    node.call("ADD", "pod-2", prevResult=RESULT)


def test_a_virtual_function_is_known_by_its_card(node: Node) -> None:
    card = node.root / "pci" / "0000:01:10.0" / "physfn" / "net" / "enp1s0"
    card.mkdir(parents=True)
    node.pod_link = {"parentbus": "pci", "parentdev": "0000:01:10.0"}
    node.call("ADD", "pod-1", prevResult=RESULT)
    assert node.rxe == ("pod-1", "net1")


@pytest.mark.parametrize("link", [{}, {"link_index": 9}, {"parentdev": "0000:09:00.0"}, {"linkinfo": {}}])
def test_an_interface_that_stands_on_no_card_is_refused(link: dict[str, Any]) -> None:
    with pytest.raises(CniError, match="stands on no card") as caught:
        interface_below({"ifname": "eth0", **link}, {3: "enp1s0"}, {})
    assert caught.value.code == 7


def test_a_card_that_is_no_rails_is_refused(node: Node) -> None:
    (node.root / "rails").write_text("")
    assert code_of(node, "ADD", "pod-1", prevResult=RESULT) == 7
    assert node.rxe == ("node", "enp1s0")


@pytest.mark.parametrize(
    ("environ", "text", "code"),
    [
        ({"CNI_COMMAND": "ADD"}, json.dumps(NETWORK), 4),
        ({"CNI_COMMAND": "RESET"}, json.dumps(NETWORK), 4),
        ({}, json.dumps(NETWORK), 4),
        ({"CNI_COMMAND": "DEL", "CNI_CONTAINERID": "x", "CNI_IFNAME": "y"}, "{", 6),
        ({"CNI_COMMAND": "DEL", "CNI_CONTAINERID": "x", "CNI_IFNAME": "y"}, "[]", 6),
        ({"CNI_COMMAND": "DEL", "CNI_CONTAINERID": "x", "CNI_IFNAME": "y"}, '{"cniVersion": "2.0.0"}', 1),
        ({"CNI_COMMAND": "DEL", "CNI_CONTAINERID": "x", "CNI_IFNAME": "y"}, "{}", 1),
    ],
)
def test_calls_that_no_runtime_makes_are_refused_with_the_specifications_codes(
    environ: dict[str, str], text: str, code: int
) -> None:
    with pytest.raises(CniError) as caught:
        answer(environ, text)
    assert caught.value.code == code


def test_it_does_not_stand_first_in_a_chain(node: Node) -> None:
    assert code_of(node, "ADD", "pod-1") == 7
    assert code_of(node, "CHECK", "pod-1") == 100


def test_versions_are_told_without_a_network() -> None:
    told = answer({"CNI_COMMAND": "VERSION"}, "")
    assert told is not None
    assert {"0.3.1", "0.4.0", "1.0.0"} <= set(told["supportedVersions"])


def test_a_refusal_is_what_the_runtime_reads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "environ", {"CNI_COMMAND": "ADD"})
    monkeypatch.setattr(sys, "stdin", io.StringIO("{"))
    assert rxe_netns.main() == 1
    error = json.loads(capsys.readouterr().out)
    assert error["code"] == 6
    assert "not JSON" in error["msg"]


def test_every_soft_device_with_an_interface_is_shown_to_containers() -> None:
    links = [{"ifname": "rxe0", "netdev": "enp1s0"}, {"ifname": "rxe1"}]
    assert rdma_overlay.soft_devices(links) == [("rxe0", "enp1s0")]
    mount = rdma_overlay.bind_mount("/run/rdma-overlay/rxe0/merged", "/sys/devices/pci0000:00/0000:01:00.0")
    assert mount["destination"] == "/sys/devices/pci0000:00/0000:01:00.0"
    assert mount["options"] == ["rbind", "ro"]
