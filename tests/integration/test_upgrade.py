# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook upgrade: node by node, never more out of service than allowed, and whatever a run left is healed.

The cluster is a real API server with nodes of KWOK. The hosts are this machine, each with files of its own.
"""

from __future__ import annotations

import shlex
import textwrap
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.integration.after_site import States
from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.integration.playbooks import (
    ADMINISTRATOR,
    Outcome,
    stored_writes,
)
from ansible_collections.rdma.fabric.tests.integration.upgrading import LIMITS, NAMES, WANTED, Fleet, stages


def skipped(outcome: Outcome, name: str) -> int:
    """Return how many tasks a run has skipped on a host."""
    return sum(number for what, number in outcome.counts[name].items() if what.startswith("skipped "))


def test_nodes_are_upgraded_one_after_the_other_in_stages_that_are_reported_and_need_no_second_turn(
    fleet: Fleet,
) -> None:
    mark, version = fleet.cluster.audit.mark(), fleet.version()
    outcome = fleet.run().succeeded()
    assert fleet.most_at_once(version) == 1
    assert fleet.changed() == list(NAMES)
    assert fleet.pods() == []
    # Each takes the controller a process.
    assert {name: skipped(outcome, name) for name in NAMES} == dict.fromkeys(NAMES, 10)
    assert (fleet.cordoned(), fleet.marked(), fleet.holders()) == ([], [], [])
    order = fleet.interrupted(mark)
    assert sorted(order[::2]) == sorted((name, "taken") for name in NAMES), order
    assert order[1::2] == [(name, "given back") for name, _what in order[::2]]
    assert "to be changed in turn, one node out of service at once: one, two, three" in " ".join(outcome.output.split())
    turns = fleet.turns()
    assert sorted(turn["host"] for turn in turns) == sorted(NAMES)
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


@pytest.mark.hosts("two")
def test_check_mode_tells_what_would_be_evicted_and_changes_nothing(fleet: Fleet) -> None:
    mark = fleet.cluster.audit.mark()
    outcome = fleet.run("--check", "--diff").succeeded()
    assert f"-pod {fleet.namespace}/job-{fleet.nodes['two']}" in outcome.output
    assert LIMITS in outcome.output
    assert (fleet.changed(), fleet.holders(), fleet.pods()) == ([], [], [fleet.nodes["two"]])
    assert stored_writes(fleet.cluster.audit, mark) == []


@pytest.mark.hosts("one", "two")
def test_a_host_that_waits_for_a_reboot_without_consent_keeps_no_node_out_of_service(fleet: Fleet) -> None:
    for host in fleet.hosts.values():
        host.put_boot_loader()
    version = fleet.version()
    outcome = fleet.run(rdma_fabric_kernel_arguments=["rdma.test=1"]).succeeded()
    assert fleet.changed() == ["one", "two"]
    assert fleet.most_at_once(version) == 1
    assert (fleet.cordoned(), fleet.marked(), fleet.holders()) == ([], [], [])
    assert "-e rdma_fabric_allow_reboot=true" in outcome.output
    again = fleet.version()
    fleet.run(rdma_fabric_kernel_arguments=["rdma.test=1"]).succeeded()
    assert fleet.taken(again) == []


@pytest.mark.hosts("one")
def test_a_node_keeps_its_pods_while_its_host_only_prepares_a_reboot_without_consent(
    fleet: Fleet, states: States
) -> None:
    fleet.hosts["one"].put_boot_loader()
    states.give(fleet.hosts.values(), rdma_fabric_limits=WANTED)
    version, there = fleet.version(), fleet.pods()
    foreseen = fleet.run("--check", rdma_fabric_kernel_arguments=["rdma.test=1"]).succeeded()
    outcome = fleet.run(rdma_fabric_kernel_arguments=["rdma.test=1"]).succeeded()
    for each in (foreseen, outcome):
        assert "not drained, as they only get what a reboot needs" in each.output
    assert outcome.changed["one"] > 0
    assert (fleet.taken(version), fleet.pods(), fleet.holders()) == ([], there, [])
    assert "-e rdma_fabric_allow_reboot=true" in outcome.output


@pytest.mark.hosts("one", "two")
def test_a_canary_that_fails_keeps_its_slot_and_the_others_are_not_touched_until_it_is_mended(fleet: Fleet) -> None:
    fleet.hosts["two"].switch("read-only", on=True)
    mark = fleet.cluster.audit.mark()
    outcome = fleet.run(rdma_fabric_canaries="two", rdma_fabric_max_unavailable="2").refused()
    assert fleet.interrupted(mark) == [("two", "taken")]
    assert (fleet.changed(), fleet.cordoned(), fleet.holders()) == ([], ["two"], [fleet.nodes["two"]])
    (slot,) = fleet.slots()
    assert f"could not write {LIMITS}" in slot["metadata"]["annotations"]["rdma.fabric/slot-failed"]
    assert "no further node begins, as one has failed" in outcome.output
    assert "2 of 2 hosts of this run did not finish" in outcome.output
    (turn,) = fleet.turns()
    assert (turn["host"], turn["end"]) == ("two", "failed")
    assert stages(turn) == ["drain", "change", "roll_back"]
    assert [stage["failed"] for stage in turn["stages"]][:2] == [False, True]
    assert "could not write" in turn["reason"]
    fleet.hosts["two"].switch("read-only", on=False)
    fleet.run(rdma_fabric_max_unavailable="2").succeeded()
    assert (fleet.changed(), fleet.cordoned(), fleet.marked(), fleet.holders()) == (["one", "two"], [], [], [])


@pytest.mark.hosts("one")
def test_a_node_that_a_failure_left_cordoned_is_given_back_with_its_slot_also_without_a_drain(fleet: Fleet) -> None:
    fleet.hosts["one"].switch("read-only", on=True)
    fleet.run().refused()
    assert (fleet.cordoned(), fleet.holders()) == (["one"], [fleet.nodes["one"]])
    fleet.hosts["one"].switch("read-only", on=False)
    fleet.run(rdma_fabric_drain=False).succeeded()
    assert (fleet.changed(), fleet.cordoned(), fleet.marked(), fleet.holders()) == (["one"], [], [], [])


@pytest.mark.hosts("one", "two")
@pytest.mark.parametrize("mended", [False, True])
def test_what_a_killed_run_left_is_healed_by_the_next_one(fleet: Fleet, states: States, mended: bool) -> None:
    """Killed while a node is drained; by then, or meanwhile, its host may have been changed."""
    first = fleet.killed_in_a_turn()
    assert (fleet.cordoned(), fleet.holders()) == ([first], [fleet.nodes[first]])
    if mended:
        states.give([fleet.hosts[first]], rdma_fabric_limits=WANTED)
        assert fleet.changed() == [first]
    mark = fleet.cluster.audit.mark()
    outcome = fleet.run().succeeded()
    assert (fleet.changed(), fleet.cordoned(), fleet.marked(), fleet.holders()) == (list(fleet.names), [], [], [])
    assert f"node {fleet.nodes[first]} continues where another run left it" in " ".join(outcome.output.split())
    assert len([name for name, _what in fleet.interrupted(mark) if name != first]) == 2


@pytest.mark.hosts("one", "two")
def test_a_node_with_upstreams_skip_label_has_no_turn_until_it_is_taken_off(fleet: Fleet) -> None:
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
    fleet.label("nvidia.com/ofed-driver-upgrade.skip", {"two": "false"})
    fleet.run().succeeded()
    assert fleet.changed() == ["one", "two"]


@pytest.mark.hosts("one")
@pytest.mark.parametrize("arguments", [(), ("--check",)])
def test_the_machine_of_the_controller_is_refused_before_anything_is_touched(
    fleet: Fleet, arguments: tuple[str, ...]
) -> None:
    mark = fleet.cluster.audit.mark()
    outcome = fleet.run(*arguments, rdma_fabric_allow_controller_node=False).refused()
    assert (fleet.changed(), fleet.cordoned(), fleet.holders(), len(fleet.pods())) == ([], [], [], 1)
    assert stored_writes(fleet.cluster.audit, mark) == []
    why = f"node {fleet.nodes['one']} runs this controller, so it is not interrupted: run from another machine, or set "
    # Before the hosts are read, and at the end.
    assert [line for line in outcome.message.splitlines() if f"  - one: failed: {why}" in line]
    said = " ".join(outcome.output.split())
    assert said.index(why) < said.index("TASK [rdma.fabric.host : ")


@pytest.mark.hosts("one", "two")
def test_the_node_of_the_api_server_is_refused_and_those_that_need_nothing_keep_nobody_from_a_turn(
    fleet: Fleet,
) -> None:
    for host in fleet.hosts.values():
        host.is_another_machine()
    fleet.label("node-role.kubernetes.io/control-plane", {"two": ""})
    mark = fleet.cluster.audit.mark()
    refuse: dict[str, Any] = {"rdma_fabric_allow_controller_node": False}
    outcome = fleet.run(**refuse).refused()
    assert (fleet.changed(), stored_writes(fleet.cluster.audit, mark)) == ([], [])
    head, why, step = outcome.message.splitlines()
    assert head.startswith("1 of 2 hosts of this run did not finish")
    assert why == (
        f"  - two: failed: node {fleet.nodes['two']} runs the API server (it is the only node of the control plane), "
        "so it is not interrupted: set rdma_fabric_allow_controller_node: true for its host"
    )
    assert step == "next: fix it and run again, or leave it out: --limit 'all,!two'"
    report = fleet.user.report()
    assert [each["host"] for each in report["remarks"] if each["kind"] == "unfinished"] == ["two"]
    fleet.run("--limit", "all,!two", **refuse).succeeded()
    assert fleet.changed() == ["one"]
    fleet.run(rdma_fabric_allow_controller_node=True).succeeded()
    assert fleet.changed() == ["one", "two"]
    fleet.run(**refuse).succeeded()


@pytest.mark.hosts("one")
def test_the_commands_of_the_guide_run(fleet: Fleet) -> None:
    """As they are written, with a host for its hosts and a namespace for its namespace."""
    fleet.label("topology.kubernetes.io/zone", {"one": "a"})
    text = guide("guide-upgrade.md")
    commands = [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("ansible-playbook ")]
    assert [words[1] for words in commands] == ["rdma.fabric.upgrade"] * 4 + ["rdma.fabric.rollback"] * 3
    for words in commands:
        assert words[2:4] == ["-i", "hosts.yml"]
        given = [word.replace("gpu-01", "one") for word in words[4:]]
        fleet.run(*given, playbook=words[1].rpartition(".")[2]).succeeded()
    assert fleet.changed() == ["one"]
    (leases,) = [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("kubectl ")]
    shown = fleet.cluster.kubectl(*(word.replace("nvidia-network-operator", fleet.namespace) for word in leases[1:]))
    assert "rdma-fabric-slot-upgrade-0" in shown


@pytest.mark.hosts("one", "two")
def test_a_failed_node_is_gone_on_without_as_the_guide_says(fleet: Fleet, tmp_path: Path) -> None:
    fleet.hosts["two"].switch("read-only", on=True)
    fleet.run(rdma_fabric_canaries="two").refused()
    (block,) = [block for block in blocks_of(guide("guide-upgrade.md")) if "any_run" in block]
    block = block.replace("gpu-07", fleet.nodes["two"]).replace("any_run", f"namespace: {fleet.namespace}\n    any_run")
    play = tmp_path / "play.yml"
    play.write_text(f"- hosts: localhost\n  gather_facts: false\n  tasks:\n{textwrap.indent(block, '    ')}")
    fleet.user.run(str(play), cluster=fleet.cluster, kubeconfig=fleet.cluster.kubeconfig).succeeded()
    assert (fleet.holders(), fleet.cordoned()) == ([], ["two"])
    fleet.run("--limit", "one").succeeded()
    assert (fleet.changed(), fleet.cordoned()) == (["one"], ["two"])


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


@pytest.mark.hosts("one")
def test_a_namespace_that_is_not_there_is_told_before_a_host_is_looked_at(fleet: Fleet) -> None:
    outcome = fleet.run(rdma_fabric_namespace="not-there").refused()
    assert "there is no namespace not-there, where the slots are kept" in outcome.message
    assert set(outcome.counts) == {"localhost"}
