# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook upgrade: node by node, never more out of service than allowed, and whatever a run left is healed.

The cluster is a real API server with nodes of KWOK. The hosts are this machine, each with files of its own.
"""

from __future__ import annotations

import shlex

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.integration.playbooks import (
    ADMINISTRATOR,
    Outcome,
    stored_writes,
)
from ansible_collections.rdma.fabric.tests.integration.upgrading import LIMITS, Fleet, stages
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action


def skipped(outcome: Outcome, name: str) -> int:
    """Return how many tasks a run has skipped on a host."""
    return sum(number for what, number in outcome.counts[name].items() if what.startswith("skipped "))


@pytest.mark.repeated
@pytest.mark.first
@pytest.mark.hosts("one", "two")
def test_nodes_are_upgraded_one_after_the_other_in_stages_that_are_reported_and_need_no_second_turn(
    fleet: Fleet,
) -> None:
    mark, version = fleet.cluster.audit.mark(), fleet.version()
    outcome = fleet.run().succeeded()
    assert fleet.most_at_once(version) == 1
    assert fleet.changed() == list(fleet.names)
    assert fleet.pods() == []
    # Each takes the controller a process.
    assert {name: skipped(outcome, name) for name in fleet.names} == dict.fromkeys(fleet.names, 10)
    assert (fleet.cordoned(), fleet.marked(), fleet.holders()) == ([], [], [])
    order = fleet.interrupted(mark)
    assert sorted(order[::2]) == sorted((name, "taken") for name in fleet.names), order
    assert order[1::2] == [(name, "uncordoned") for name, _what in order[::2]]
    assert "to be changed in turn, one node out of service at once: one, two" in " ".join(outcome.output.split())
    turns = fleet.turns()
    assert sorted(turn["host"] for turn in turns) == sorted(fleet.names)
    for turn in turns:
        assert stages(turn) == ["drain", "change", "give_back"]
        assert turn["end"] == "given_back"
        assert sum(stage["seconds"] for stage in turn["stages"]) + turn["other"] == pytest.approx(
            turn["seconds"], abs=0.3
        )
        ends = [stage["at"] + stage["seconds"] for stage in turn["stages"]]
        assert all(end <= stage["at"] + 0.3 for end, stage in zip(ends, turn["stages"][1:])), turn
        assert turn["before"] == turn["after"]
        assert turn["before"]["kernel"]
        assert turn["slot"].startswith("rdma-fabric-slot-upgrade-")
    waited = {turn["host"]: turn["waited"] for turn in turns}
    assert max(waited.values()) > min(turn["seconds"] for turn in turns) - 2
    mark = fleet.cluster.audit.mark()
    again = fleet.run().succeeded()
    assert set(again.changed.values()) == {0}
    assert fleet.interrupted(mark) == []
    assert fleet.turns() == turns, "a run without turns keeps what is known of the last ones"
    requests = fleet.cluster.audit.requests(mark, user=ADMINISTRATOR)
    assert [each.uri for each in requests if each.resource == "leases" and each.verb != "list"] == []


@pytest.mark.hosts("one")
def test_a_host_that_waits_for_a_reboot_without_consent_keeps_no_node_out_of_service_nor_its_pods_from_it(
    fleet: Fleet,
) -> None:
    fleet.hosts["one"].put_boot_loader()
    version = fleet.version()
    outcome = fleet.run(rdma_fabric_kernel_arguments=["rdma.test=1"]).succeeded()
    assert (fleet.changed(), fleet.taken(version)) == (["one"], ["one"])
    assert (fleet.cordoned(), fleet.marked(), fleet.holders()) == ([], [], [])
    assert "-e rdma_fabric_allow_reboot=true" in outcome.output
    fleet.pod(fleet.nodes["one"])
    version, there = fleet.version(), fleet.pods()
    prepared = fleet.run(rdma_fabric_kernel_arguments=["rdma.test=2"]).succeeded()
    assert "not drained, as they only get what a reboot needs" in prepared.output
    assert prepared.changed["one"] > 0
    assert (fleet.taken(version), fleet.pods(), fleet.holders()) == ([], there, [])


@pytest.mark.hosts("one", "two")
def test_a_canary_that_fails_keeps_its_slot_and_its_node_cordoned_until_it_is_mended(fleet: Fleet) -> None:
    """The others go on without it as the guide says; it is uncordoned also by a run without drains."""
    fleet.hosts["two"].switch("read-only", on=True)
    mark = fleet.cluster.audit.mark()
    outcome = fleet.run(rdma_fabric_canaries="two", rdma_fabric_max_unavailable="2").refused()
    assert fleet.interrupted(mark) == [("two", "taken")]
    assert (fleet.changed(), fleet.cordoned(), fleet.holders()) == ([], ["two"], [fleet.nodes["two"]])
    (slot,) = fleet.slots()
    reason = slot["metadata"]["annotations"]["rdma.fabric/slot-failed"]
    assert f"could not write {LIMITS}" in reason
    assert "not rolled back, as no earlier state of it is known" in reason
    assert "no further node begins, as one has failed" in outcome.output
    assert "2 of 2 hosts of this run did not finish" in outcome.output
    (turn,) = fleet.turns()
    assert (turn["host"], turn["end"]) == ("two", "failed")
    assert stages(turn) == ["drain", "change", "roll_back"]
    assert [stage["failed"] for stage in turn["stages"]][:2] == [False, True]
    assert "could not write" in turn["reason"]
    (block,) = [block for block in blocks_of(guide("guide-upgrade.md")) if "any_run" in block]
    (task,) = yaml.safe_load(block)
    place = {"namespace": fleet.namespace, "kubeconfig": str(fleet.cluster.kubeconfig)}
    assert run_action("node_slot", {**task["rdma.fabric.node_slot"], "node": fleet.nodes["two"], **place})["changed"]
    assert (fleet.holders(), fleet.cordoned()) == ([], ["two"])
    fleet.run("--limit", "one").succeeded()
    assert (fleet.changed(), fleet.cordoned()) == (["one"], ["two"])
    fleet.hosts["two"].switch("read-only", on=False)
    fleet.run(rdma_fabric_drain=False).succeeded()
    assert (fleet.changed(), fleet.cordoned(), fleet.marked(), fleet.holders()) == (["one", "two"], [], [], [])


@pytest.mark.hosts("one", "two")
def test_a_node_with_upstreams_skip_label_has_no_turn(fleet: Fleet) -> None:
    """Who has a turn is found without a line for each host."""
    fleet.label("nvidia.com/ofed-driver-upgrade.skip", {"one": "false", "two": "true"})
    mark = fleet.cluster.audit.mark()
    outcome = fleet.run().succeeded()
    assert outcome.lines_of_hosts("Find the hosts that need a turn", fleet.names) == []
    turns = outcome.lines_of_hosts("Interrupt the hosts in their turn", fleet.names)
    assert [name for name in fleet.names if any(f"[{name}]" in line for line in turns)] == ["one"]
    assert fleet.changed() == ["one"]
    assert "two" not in {name for name, _what in fleet.interrupted(mark)}
    assert (fleet.cordoned(), fleet.holders(), fleet.pods()) == ([], [], [fleet.nodes["two"]])
    said = "without a turn, as their nodes have the label nvidia.com/ofed-driver-upgrade.skip=true: two"
    # Older releases of ansible-core break the lines of a warning at hyphens, too.
    assert "".join(said.split()) in "".join(outcome.output.split())
    report = fleet.user.report()
    assert (report["notices"], report["summary"]["outcome"]) == ([said], "pending")


@pytest.mark.hosts("one", "two")
def test_the_machine_of_the_controller_and_the_node_of_the_api_server_are_refused_before_anything_is_touched(
    fleet: Fleet,
) -> None:
    fleet.hosts["two"].is_another_machine()
    fleet.label("node-role.kubernetes.io/control-plane", {"two": ""})
    mark = fleet.cluster.audit.mark()
    outcome = fleet.run(rdma_fabric_allow_controller_node=False).refused()
    assert (fleet.changed(), fleet.cordoned(), fleet.holders(), len(fleet.pods())) == ([], [], [], 2)
    assert stored_writes(fleet.cluster.audit, mark) == []
    head, *reasons, _step = outcome.message.splitlines()
    assert head.startswith("2 of 2 hosts of this run did not finish")
    here = (
        f"node {fleet.nodes['one']} runs this controller, so it is not interrupted: run from another machine, or set "
    )
    api = (
        f"node {fleet.nodes['two']} runs the API server (it is the only node of the control plane), so it is not "
        "interrupted: set rdma_fabric_allow_controller_node: true for its host"
    )
    assert reasons[0].startswith(f"  - one: failed: {here}")
    assert reasons[1:] == [f"  - two: failed: {api}"]
    # Before the hosts are read, and at the end.
    said = " ".join(outcome.output.split())
    assert said.index(here) < said.index("TASK [rdma.fabric.host : ")
    report = fleet.user.report()
    assert [each["host"] for each in report["remarks"] if each["kind"] == "unfinished"] == ["one", "two"]


@pytest.mark.hosts("one")
def test_the_commands_of_the_guide_run(fleet: Fleet) -> None:
    """As they are written, with a host for its hosts and a namespace for its namespace.

    Those without options, and in check mode, are what other tests run.
    """
    fleet.label("topology.kubernetes.io/zone", {"one": "a"})
    text = guide("guide-upgrade.md")
    commands = [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("ansible-playbook ")]
    assert [words[1] for words in commands] == ["rdma.fabric.upgrade"] * 4 + ["rdma.fabric.rollback"] * 3
    for words in commands:
        assert words[2:4] == ["-i", "hosts.yml"]
        given = [word.replace("gpu-01", "one") for word in words[4:]]
        if {"-e", "--limit"} & set(given):
            fleet.run(*given, playbook=words[1].rpartition(".")[2]).succeeded()
    assert fleet.changed() == ["one"]
    (leases,) = [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("kubectl ")]
    shown = fleet.cluster.kubectl(*(word.replace("nvidia-network-operator", fleet.namespace) for word in leases[1:]))
    assert "rdma-fabric-slot-upgrade-0" in shown


@pytest.mark.repeated
@pytest.mark.hosts("one")
def test_who_lacks_the_rights_is_told_before_a_host_is_looked_at(fleet: Fleet) -> None:
    nobody = fleet.cluster.client_kubeconfig("nobody-of-upgrades")
    outcome = fleet.user.run(
        "upgrade",
        inventory=fleet.inventory,
        variables={"rdma_fabric_namespace": fleet.namespace},
        cluster=fleet.cluster,
        kubeconfig=nobody,
    ).refused()
    assert "the user nobody-of-upgrades lacks rights that this run uses" in outcome.message
    assert "rdma-fabric-rollout" in outcome.message
    assert set(outcome.counts) == {"localhost"}
