# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``verify`` on the guests: real programs write from one pod's memory into another's, and a bad wire is seen.

The fabric is that of ``inventories/lab``, with the programs that ``site`` deploys. Devices are emulated, so rates are
reported and not judged; guests without KVM take minutes for what machines do in seconds, hence the limits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.guests.pods import TEST_PODS, on_guest
from ansible_collections.rdma.fabric.tests.guests.site_runs import MAKE_FUNCTIONS
from ansible_collections.rdma.fabric.tests.integration.playbooks import Outcome, User
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab

CARD_NETWORK, FUNCTION_NETWORK = "default/rdma-shared", "default/rdma-vf"
MTU = 9000
RUN_SECONDS = 2400.0
PATIENCE = {"rdma_fabric_verify_timeout": 900, "rdma_fabric_verify_test_timeout": 900}
PLUGIN = "/opt/cni/bin/rxe-netns"
# Before a pod's interface has RDMA it gets other addresses and a VLAN; its own comes back as the last one, so that the
# kernel, which fills GID tables in the order of addresses, has them in front.
CROWDED = """#!/bin/bash
set -e
if [ "$CNI_COMMAND" = ADD ]; then
    pod() { nsenter --net="$CNI_NETNS" ip "$@" </dev/null >&2; }
    own=$(nsenter --net="$CNI_NETNS" ip -4 -br address show dev "$CNI_IFNAME" </dev/null | awk '{print $3}')
    pod address del "$own" dev "$CNI_IFNAME"
    pod link add link "$CNI_IFNAME" name vlan7 type vlan id 7
    pod link set vlan7 up
    for each in 198.18.0.1/32 198.18.0.2/32 2001:db8::1/64 "$own"; do pod address add "$each" dev "$CNI_IFNAME"; done
fi
exec "$0.own"
"""


@pytest.fixture(scope="module")
def deployed(cluster_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A lab that ``site`` has brought to the state of its inventory, with VFs on every card."""
    for guest in cluster_lab.guests:
        on_guest(cluster_lab, guest, MAKE_FUNCTIONS)
    user = User(tmp_path_factory.mktemp("site") / "user")
    variables = {"rdma_fabric_wait_timeout": 1200}
    user.run("site", inventory=cluster_lab.inventory, variables=variables, seconds=RUN_SECONDS).succeeded()
    return cluster_lab


@pytest.fixture
def user(tmp_path: Path, deployed: Lab) -> Iterator[User]:
    """Somebody new; whatever their run did, no test pod may be left."""
    yield User(tmp_path / "user")
    assert deployed.kubectl("get", "pods", "-A", "-l", TEST_PODS, "-o", "name").stdout == ""


def verify(lab: Lab, user: User, network: str) -> tuple[Outcome, dict[str, Any]]:
    """Run the playbook on one network; return how it ended and the document that it wrote."""
    variables = {**PATIENCE, "rdma_fabric_verify_networks": [network]}
    outcome = user.run("verify", inventory=lab.inventory, variables=variables, seconds=RUN_SECONDS)
    path = user.here / "rdma-fabric-run" / "verify.json"
    assert path.exists(), outcome.output
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return outcome, document


@pytest.mark.parametrize("network", [CARD_NETWORK, FUNCTION_NETWORK], ids=["card", "VF"])
def test_two_pods_write_into_each_others_memory(deployed: Lab, user: User, network: str) -> None:
    outcome, document = verify(deployed, user, network)
    outcome.succeeded()
    (pair,) = document["pairs"]
    assert (pair["a"], pair["b"], pair["verdict"]) == (*sorted(deployed.guests), "reported")
    assert [test["verdict"] for test in pair["tests"]] == ["pass"] * 6 + ["reported"] * 3
    for test in pair["tests"][6:8]:
        assert test["figures"]["measured_gbps"] > 0
        assert "emulated, its rate is not judged" in test["summary"]
    assert pair["tests"][8]["figures"]["typical_us"] > 0
    sides = document["networks"][0]["pods"]
    assert len({side["address"] for side in sides}) == len(sides) == 2
    assert {side["software"] for side in sides} == {True}
    if network == CARD_NETWORK:
        assert {side["mtu"] for side in sides} == {MTU}


def test_gids_at_different_positions_connect(deployed: Lab, user: User) -> None:
    crowded, other = sorted(deployed.guests)
    on_guest(
        deployed, crowded, f"mv {PLUGIN} {PLUGIN}.own && cat >{PLUGIN} <<'EOF' && chmod 755 {PLUGIN}\n{CROWDED}EOF"
    )
    try:
        outcome, document = verify(deployed, user, CARD_NETWORK)
    finally:
        on_guest(deployed, crowded, f"mv {PLUGIN}.own {PLUGIN}")
    outcome.succeeded()
    index = {side["node"]: side["gid_index"] for side in document["networks"][0]["pods"]}
    assert index[crowded] > index[other]
    (pair,) = document["pairs"]
    assert (pair["a"], pair["b"], pair["verdict"]) == (crowded, other, "reported")
    written = {test["from"]: test for test in pair["tests"] if test["test"] == "bandwidth"}
    assert {*written} == {crowded, other}
    for node, test in written.items():
        assert test["figures"]["measured_gbps"] > 0
        assert f" -x {index[node]} " in test["command"]


def test_lost_packets_are_named_by_the_counters_of_the_ports(deployed: Lab, user: User) -> None:
    """The kernel drops some of what a card sends; RDMA sends it again, so that the test itself goes well."""
    losing, other = sorted(deployed.guests)
    wire = "dev $(cat /sys/class/infiniband/rxe0/parent) root"
    made = deployed.ssh(losing, f"tc qdisc replace {wire} netem loss 5%")
    assert made.returncode == 0, made.stderr
    try:
        outcome, document = verify(deployed, user, CARD_NETWORK)
    finally:
        deployed.ssh(losing, f"tc qdisc del {wire}")
    assert "packets were lost or damaged: " in outcome.refused().message
    (pair,) = document["pairs"]
    lost = next(test for test in pair["tests"] if (test["test"], test["from"]) == ("bandwidth", losing))
    assert lost["verdict"] == "fail"
    assert lost["figures"]["measured_gbps"] > 0
    assert lost["figures"]["counters"][other]["out_of_seq_request"] > 0
    assert f"out_of_seq_request of {other} rose by" in lost["summary"]


def test_a_pulled_wire_turns_the_verdict_red(deployed: Lab, user: User) -> None:
    deployed.pull_wire(0)
    try:
        outcome, document = verify(deployed, user, CARD_NETWORK)
    finally:
        deployed.plug_wire(0)
    one, other = sorted(deployed.guests)
    assert f"{one} - {other} on {CARD_NETWORK}" in outcome.refused().message
    assert document["verdict"] == "fail"
    assert document["failures"][0]["test"] in ("interface", "device", "ping")
    assert user.report()["summary"]["verdict"] == "attention"
