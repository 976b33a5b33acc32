# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks on a live host, this machine: nothing that is asked of it can be done, so it stays as it is."""

from __future__ import annotations

import gzip
import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.bench.site import ON_CONTROLLER
from ansible_collections.rdma.fabric.tests.integration.own_files import OwnFiles
from ansible_collections.rdma.fabric.tests.integration.own_files import inventory_of as own_inventory
from ansible_collections.rdma.fabric.tests.integration.playbooks import (
    Json,
    Outcome,
    User,
    stored,
    stored_writes,
)
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, delete_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.lab.servers import NOBODYS_PORT
from tools.checkout import CHECKOUT
from tools.fleet import RECORDINGS, SUFFIX

# No machine has this module, so every machine has to plan something for it.
LIMITS_FILE = "/etc/security/limits.d/90-rdma-fabric.conf"
# Whatever this machine is, it has no such file; nothing here writes it.
WANTED = {"rdma_fabric_limits": {"memlock": "unlimited"}}
HOST = "machine"
# One run at a time changes a host, and here all of them are this machine.
IN_TURN = ("--forks", "1")
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "user")


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    return inventory_of(tmp_path, HOST)


def inventory_of(folder: Path, *names: str) -> Path:
    """Write an inventory whose hosts are this machine, but for ``gone``: nothing listens at its address."""
    gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": NOBODYS_PORT}
    path = folder / "hosts.json"
    hosts = {name: gone if name == "gone" else LOCAL for name in names}
    path.write_text(json.dumps({"rdma_fabric": {"hosts": hosts}}), encoding="utf-8")
    return path


@pytest.fixture
def fabric(tmp_path: Path, namespace: str) -> Json:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}}
    path = tmp_path / "objects.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return {"rdma_fabric_manifests": [str(path)], "rdma_fabric_namespace": namespace, "rdma_fabric_set": namespace}


def plan_of(user: User) -> list[Json]:
    document = json.loads((user.here / "rdma-fabric-run" / "hosts" / f"{HOST}.json").read_text(encoding="utf-8"))
    assert document["recorded"] is False
    steps: list[Json] = document["plan"]["steps"]
    return steps


def test_a_host_that_needs_nothing_is_ok_and_costs_one_module(
    control_plane: ControlPlane, inventory: Path, fabric: Json, user: User, namespace: str
) -> None:
    outcome = user.run("site", inventory=inventory, variables=fabric, cluster=control_plane).succeeded()
    assert outcome.changed[HOST] == 0
    counts = outcome.counts[HOST].items()
    assert {key: count for key, count in counts if not key.endswith(ON_CONTROLLER)} == {"ok rdma.fabric.rdma_host": 1}
    assert plan_of(user) == []
    assert stored(control_plane, "configmap", "a", namespace)
    assert user.report()["hosts"][0]["name"] == HOST


def test_a_host_that_can_not_be_changed_fails_with_the_cause_before_the_cluster_is_touched(
    control_plane: ControlPlane, inventory: Path, fabric: Json, user: User
) -> None:
    # An interface that this machine does not have is refused: nothing of the machine is changed.
    mark, wanted = control_plane.audit.mark(), {"rdma_fabric_interfaces": [{"pci": "0000:ff:1f.7", "mtu": 9000}]}
    outcome = user.run("site", inventory=inventory, variables={**fabric, **wanted}, cluster=control_plane).refused()
    assert set(outcome.failures) == {HOST, "localhost"}
    message = outcome.failures[HOST]["msg"]
    assert "rdma_fabric_host_strict" in message
    assert "find the interface" in message
    assert "1 of 1 host of this run did not finish" in outcome.failures["localhost"]["msg"]
    assert stored_writes(control_plane.audit, mark) == []
    (row,) = user.report()["hosts"]
    assert (row["name"], row["steps"]["refused"]) == (HOST, 1)


@pytest.mark.parametrize(("names", "limit"), [(("one", "two", "gone"), ("--limit", "rdma_fabric")), (("gone",), ())])
def test_a_host_that_is_not_reached_is_named_and_reported_and_nothing_is_pushed(
    control_plane: ControlPlane,
    fabric: Json,
    tmp_path: Path,
    names: tuple[str, ...],
    limit: tuple[str, ...],
) -> None:
    user = User(tmp_path / "user")
    mark, inventory = control_plane.audit.mark(), inventory_of(tmp_path, *names)
    run = user.run("site", *IN_TURN, *limit, inventory=inventory, variables=fabric, cluster=control_plane)
    outcome = run.refused()
    assert stored_writes(control_plane.audit, mark) == []
    assert set(outcome.failures) == {f"{names[0]} -> localhost" if limit else "localhost"}
    head, why, step = outcome.message.splitlines()
    assert head.startswith(f"1 of {len(names)} host")
    assert why.startswith("  - gone: unreachable: ")
    assert "Connection refused" in why
    others = f", or leave it out: --limit '{'rdma_fabric' if limit else 'all'},!gone'" if len(names) > 1 else ""
    assert step == f"next: fix it and run again{others}"
    report = user.report()
    assert [row["name"] for row in report["hosts"]] == sorted(name for name in names if name != "gone")
    remark = next(each for each in report["remarks"] if each["kind"] == "unfinished")
    assert (remark["host"], f"  - gone: {remark['devices'][0]['seen']}") == ("gone", why)
    assert report["cluster"]["skipped"] == "not every host of the run succeeded"
    assert "Connection refused" in (user.here / "rdma-fabric-run" / "report.html").read_text(encoding="utf-8")
    assert "attention: A host did not succeed: gone" in outcome.output


def test_a_host_that_is_left_out_is_no_matter(
    control_plane: ControlPlane, fabric: Json, user: User, tmp_path: Path, namespace: str
) -> None:
    inventory = inventory_of(tmp_path, "one", "two", "gone")
    limit = ("--limit", "all,!gone")
    outcome = user.run(
        "site", *IN_TURN, *limit, inventory=inventory, variables=fabric, cluster=control_plane
    ).succeeded()
    assert set(outcome.counts) == {"one", "two"}
    assert stored(control_plane, "configmap", "a", namespace)


def test_nothing_is_proved_while_a_host_is_not_reached(
    control_plane: ControlPlane, fabric: Json, user: User, tmp_path: Path
) -> None:
    mark, inventory = control_plane.audit.mark(), inventory_of(tmp_path, "one", "gone")
    outcome = user.run("verify", inventory=inventory, variables=fabric, cluster=control_plane).refused()
    assert "  - gone: unreachable: " in outcome.message
    assert stored_writes(control_plane.audit, mark) == []
    report = user.report()
    assert [each["host"] for each in report["remarks"] if each["kind"] == "unfinished"] == ["gone"]
    assert report["cluster"]["skipped"] == "verify pushes nothing, it proves what is there"


def test_a_preview_shows_the_hosts_that_were_read_and_fails(fabric: Json, user: User, tmp_path: Path) -> None:
    outcome = user.run("preview", inventory=inventory_of(tmp_path, "one", "gone"), variables=fabric)
    assert outcome.status != 0
    assert [row["name"] for row in user.report()["hosts"]] == ["one"]
    assert "attention: A host did not succeed: gone" in outcome.output


def with_a_localhost_that_fails(folder: Path, *, reached: bool) -> Path:
    """Write an inventory of a host that is recorded and of localhost, which is not reached or lacks its recording."""
    path = folder / "hosts.json"
    lost = {**LOCAL, "rdma_fabric_recording": str(folder / "lost.json.gz")}
    gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": NOBODYS_PORT}
    one = {"rdma_fabric_recording": str(RECORDINGS / f"egx-01{SUFFIX}")}
    hosts = {"one": one, "localhost": lost if reached else gone}
    path.write_text(json.dumps({"rdma_fabric": {"hosts": hosts}}), encoding="utf-8")
    return path


@pytest.mark.parametrize(("playbook", "reached"), [("site", False), ("verify", True)])
def test_a_run_whose_localhost_fails_as_a_host_is_reported_and_fails(
    control_plane: ControlPlane, fabric: Json, user: User, playbook: str, reached: bool
) -> None:
    mark, inventory = control_plane.audit.mark(), with_a_localhost_that_fails(user.home, reached=reached)
    outcome = user.run(playbook, inventory=inventory, variables=fabric, cluster=control_plane).refused()
    head, why, step = outcome.message.splitlines()
    assert head.startswith("1 of 2 hosts")
    assert ("lost.json.gz" if reached else "Connection refused") in why
    assert why.startswith(f"  - localhost: {'failed' if reached else 'unreachable'}: ")
    assert step == "next: fix it and run again, or leave it out: --limit 'all,!localhost'"
    assert stored_writes(control_plane.audit, mark) == []
    report = user.report()
    assert [row["name"] for row in report["hosts"]] == ["one"]
    assert [each["host"] for each in report["remarks"] if each["kind"] == "unfinished"] == ["localhost"]


def playbook_of_a_reboot(folder: Path, *names: str, **keywords: Any) -> str:
    """Write a playbook of the role's own steps as if a reboot were due; ``keywords`` go with the role."""
    shutil.copytree(CHECKOUT / "roles" / "host" / "tasks", folder / "roles" / "host" / "tasks")
    known: Json = {"rdma_fabric_preflight_result": {"spec": {"hosts": {name: {} for name in names}}}}
    reach = {"name": "Bring", "ansible.builtin.ping": {}, "register": "host_reached"}
    due = {
        "name": "Wait",
        "ansible.builtin.set_fact": {"rdma_fabric_host_result": {"reboot_required": True, "reboot_due": True}},
    }
    reboot = {"name": "Go on", "ansible.builtin.import_role": {"name": "host", "tasks_from": "reboot"}, **keywords}
    plays = [
        {"hosts": "localhost", "tasks": [{"name": "Know", "ansible.builtin.set_fact": known}]},
        {"hosts": "rdma_fabric", "tasks": [reach, due, reboot]},
    ]
    playbook = folder / "playbook.yml"
    playbook.write_text(yaml.safe_dump([{**play, "gather_facts": False} for play in plays]), encoding="utf-8")
    return str(playbook)


def test_no_host_is_rebooted_while_another_one_was_left_behind(user: User, tmp_path: Path) -> None:
    names = (HOST, "gone")
    outcome = user.run(playbook_of_a_reboot(tmp_path, *names), inventory=inventory_of(tmp_path, *names))
    assert "skipped ansible.builtin.reboot" in outcome.counts[HOST], outcome.output
    assert "gone: failed before it was read" in outcome.output


def test_nothing_is_done_after_a_reboot_that_failed_where_the_run_goes_on(user: User, tmp_path: Path) -> None:
    playbook = playbook_of_a_reboot(tmp_path, HOST, ignore_errors=True)
    outcome = user.run(playbook, inventory=inventory_of(tmp_path, HOST)).succeeded()
    assert "would reboot the control node" in outcome.output
    assert [key for key in outcome.counts[HOST] if key.endswith("rdma_host")] == []


def test_hosts_are_rebooted_one_after_the_other_and_none_after_one_that_failed(user: User, tmp_path: Path) -> None:
    """Ansible refuses to reboot this machine, so the first host is left behind, and no later one is tried."""
    names = ["one", "two"]
    known: Json = {"rdma_fabric_preflight_result": {"spec": {"hosts": {name: {} for name in (*names, "three")}}}}
    due = {"recorded": False, "reboot_required": True, "reboot_due": True}
    answers = [(name, {"rdma_fabric_host_result": due}) for name in names] + [
        ("three", {"rdma_fabric_host_result": {**due, "reboot_due": False}})
    ]
    plays: list[Json] = [
        {"hosts": host, "tasks": [{"ansible.builtin.set_fact": facts}]}
        for host, facts in [("localhost", known), *answers]
    ]
    parts = CHECKOUT / "playbooks" / "parts" / "reboots.yml"
    text = yaml.safe_dump([{**play, "gather_facts": False} for play in plays])
    playbook = tmp_path / "playbook.yml"
    playbook.write_text(f"{text}- ansible.builtin.import_playbook: {parts}\n", encoding="utf-8")
    outcome = user.run(str(playbook), inventory=inventory_of(tmp_path, *names, "three"))
    outcome.succeeded()  # the play that follows in site fails with them
    tried = [outcome.counts[name].get("failed ansible.builtin.reboot") for name in ("one", "two", "three")]
    assert tried == [1, None, None]
    said = " ".join(outcome.output.split())
    assert "to be rebooted, one after the other unless rdma_fabric_reboot_parallel says otherwise: one, two;" in said
    assert "nothing is drained" in said


def test_no_host_is_rebooted_while_one_would_be_that_the_run_stands_on(user: User, tmp_path: Path) -> None:
    names = ["one", "two"]
    known: Json = {
        "rdma_fabric_preflight_result": {"spec": {"hosts": {name: {} for name in names}}},
        "_rdma_fabric_ready_result": {"api_servers": {"two": "10.0.0.10 is its address"}},
    }
    due = {"rdma_fabric_host_result": {"recorded": False, "reboot_required": True, "reboot_due": True}}
    answers = [("localhost", known), *((name, due) for name in names)]
    plays: list[Json] = [{"hosts": host, "tasks": [{"ansible.builtin.set_fact": facts}]} for host, facts in answers]
    look = {"rdma.fabric.fabric_hosts": {"hosts": names}}
    text, end = (
        yaml.safe_dump([{**play, "gather_facts": False} for play in part])
        for part in (plays, [{"hosts": "localhost", "tasks": [look]}])
    )
    parts = CHECKOUT / "playbooks" / "parts" / "reboots.yml"
    playbook = tmp_path / "playbook.yml"
    playbook.write_text(f"{text}- ansible.builtin.import_playbook: {parts}\n{end}", encoding="utf-8")
    outcome = user.run(str(playbook), inventory=inventory_of(tmp_path, *names)).refused()
    assert [key for name in names for key in outcome.counts[name] if key.endswith("reboot")] == []
    why = "node two runs the API server (10.0.0.10 is its address), so it is not interrupted: "
    assert f"  - two: failed: {why}" in outcome.message


def test_drivers_are_reloaded_on_as_many_hosts_at_once_as_is_asked_for(user: User, tmp_path: Path) -> None:
    """What is asked for is refused on this machine, so both fail in their turn."""
    names = ["one", "two"]
    refused = {"interfaces": [{"pci": "0000:ff:1f.7", "mtu": 9000}]}
    known: Json = {"rdma_fabric_preflight_result": {"spec": {"hosts": dict.fromkeys((*names, "three"), refused)}}}
    fine = {"recorded": False, "summary": {}, "reboot_due": False}
    answers = [
        (name, {"rdma_fabric_host_result": {**fine, "reload_due": name != "three"}}) for name in (*names, "three")
    ]
    plays: list[Json] = [
        {"hosts": host, "tasks": [{"ansible.builtin.set_fact": facts}]}
        for host, facts in [("localhost", known), *answers]
    ]
    parts = CHECKOUT / "playbooks" / "parts" / "reboots.yml"
    text = yaml.safe_dump([{**play, "gather_facts": False} for play in plays])
    playbook = tmp_path / "playbook.yml"
    playbook.write_text(f"{text}- ansible.builtin.import_playbook: {parts}\n", encoding="utf-8")
    variables = {"rdma_fabric_reboot_parallel": 2}
    inventory = inventory_of(tmp_path, *names, "three")
    outcome = user.run(str(playbook), *IN_TURN, inventory=inventory, variables=variables).succeeded()
    reloads = [outcome.counts[name].get("failed rdma.fabric.rdma_host") for name in (*names, "three")]
    assert reloads == [1, 1, None]
    said = " ".join(outcome.output.split())
    assert "to have their NIC driver reloaded, one after the other" in said


def test_a_node_that_a_killed_run_left_cordoned_is_given_back_without_a_reboot(
    control_plane: ControlPlane, user: User, tmp_path: Path, namespace: str
) -> None:
    node, other = f"{namespace}-one", f"{namespace}-two"
    apply_nodes(control_plane.api, [kwok_node(node), kwok_node(other)])
    known: Json = {"rdma_fabric_preflight_result": {"spec": {"hosts": {"one": {}, "two": {}}, "namespace": namespace}}}
    fine = {"rdma_fabric_host_result": {"recorded": False, "reboot_required": False, "reboot_due": False}}
    cordon = {"node": node, "state": "cordoned", "run": "reboots of rdma.fabric.host"}
    tasks: list[Json] = [{"ansible.builtin.set_fact": fine}, {"rdma.fabric.node_drain": cordon}]
    plays: list[Json] = [
        {"hosts": "localhost", "tasks": [{"ansible.builtin.set_fact": known}]},
        {"hosts": "one", "tasks": tasks},
        {"hosts": "two", "tasks": tasks[:1]},
    ]
    parts = CHECKOUT / "playbooks" / "parts" / "reboots.yml"
    text = yaml.safe_dump([{**play, "gather_facts": False} for play in plays])
    playbook = tmp_path / "playbook.yml"
    playbook.write_text(f"{text}- ansible.builtin.import_playbook: {parts}\n", encoding="utf-8")
    variables = {"rdma_fabric_drain": True, "rdma_fabric_node_name": namespace + "-{{ inventory_hostname }}"}
    try:
        outcome = user.run(
            str(playbook),
            inventory=inventory_of(tmp_path, "one", "two"),
            variables=variables,
            cluster=control_plane,
            kubeconfig=control_plane.kubeconfig,
        ).succeeded()
        live = control_plane.api.call("GET", f"/api/v1/nodes/{node}")
    finally:
        delete_nodes(control_plane.api, [node, other])
    assert outcome.counts["one"]["ok rdma.fabric.node_drain"] == 2
    # Nothing is looked at, and printed, of a host that has nothing to be uncordoned.
    assert [key for key in outcome.counts["two"] if "node_drain" in key or "fabric_verify" in key] == []
    assert not live["spec"].get("unschedulable")
    assert "rdma.fabric/cordon" not in live["metadata"]["annotations"]


def test_a_refused_step_is_no_obstacle_when_the_user_says_so(
    control_plane: ControlPlane, inventory: Path, fabric: Json, user: User, namespace: str
) -> None:
    given = {**fabric, "rdma_fabric_interfaces": [{"pci": "0000:ff:1f.7", "mtu": 9000}]}
    given["rdma_fabric_host_strict"] = False
    outcome = user.run("site", inventory=inventory, variables=given, cluster=control_plane).succeeded()
    assert outcome.changed[HOST] == 0
    assert stored(control_plane, "configmap", "a", namespace)


def test_check_mode_shows_plan_and_cluster_and_the_result_tells_pending_changed_unchanged_and_refused(
    control_plane: ControlPlane, fabric: Json, user: User, tmp_path: Path
) -> None:
    host = OwnFiles(tmp_path / "host")
    inventory = own_inventory(tmp_path, {HOST: host})
    here = user.here / "rdma-fabric-run"
    plans = {"plans": str(here / "hosts")}

    def ended(*arguments: str, status: int, **wanted: Any) -> tuple[Outcome, Json]:
        mark, given = control_plane.audit.mark(), {**fabric, **WANTED, **wanted}
        outcome = user.run("site", *arguments, inventory=inventory, variables=given, cluster=control_plane)
        assert outcome.status == status, outcome.output
        if arguments:
            assert stored_writes(control_plane.audit, mark) == []
        result = outcome.result
        assert result["outcome"] == result["result"]
        assert result["report"] == str(here / "report.json")
        assert result["paths"] == (plans if arguments else {"report": str(here / "report.html"), **plans})
        return outcome, result

    outcome, shown = ended("--check", "--diff", status=0)
    assert outcome.changed[HOST] == 1
    assert f"planned: limits {LIMITS_FILE}: " in outcome.output
    assert (shown["result"], shown["steps"]["planned"], host.has(LIMITS_FILE)) == ("pending", 2, False)
    assert "2 steps pending" in shown["counts"]
    # Of the command line without --check, as it is what carries out the plan.
    assert shlex.split(shown["next"])[:4] == ["ansible-playbook", "rdma.fabric.site", "-i", str(inventory)]
    assert "--check" not in shown["next"]
    _outcome, done = ended(status=0)
    assert (done["result"], done["steps"]["total"], host.has(LIMITS_FILE)) == ("changed", 0, True)
    assert done["hosts"] == {"total": 1, "recorded": 0}
    assert ended(status=0)[1]["result"] == "unchanged"

    outcome, refused = ended("--check", status=2, rdma_fabric_interfaces=[{"pci": "0000:ff:1f.7", "mtu": 9000}])
    assert (refused["result"], refused["steps"]["refused"]) == ("refused", 1)
    assert refused["next"].startswith("fix or allow what is refused above, then: ansible-playbook rdma.fabric.site")
    assert set(outcome.failures) == {HOST, "localhost"}
    for message in (failure["msg"] for failure in outcome.failures.values()):
        assert "a run would fail: refused, so the host would not come to the desired state" in message
    assert "0000:ff:1f.7" in outcome.failures[HOST]["msg"]
    assert "3 objects in the cluster" in outcome.result["counts"]


def test_preview_of_the_host_goes_on_to_the_cluster(
    control_plane: ControlPlane, inventory: Path, fabric: Json, user: User, namespace: str
) -> None:
    given = {**fabric, **WANTED, "rdma_fabric_host_mode": "preview"}
    outcome = user.run("site", inventory=inventory, variables=given, cluster=control_plane).succeeded()
    assert outcome.changed[HOST] == 0
    steps = plan_of(user)
    assert LIMITS_FILE in [step["target"] for step in steps]
    assert stored(control_plane, "configmap", "a", namespace)
    assert f"not done: {len(steps)} planned steps" in outcome.output


@pytest.mark.parametrize("playbook", ["preview", pytest.param("verify", marks=pytest.mark.first)])
def test_a_playbook_that_only_looks_changes_nothing_whatever_mode_it_is_given(
    playbook: str, control_plane: ControlPlane, user: User, tmp_path: Path
) -> None:
    host = OwnFiles(tmp_path / "host")
    given = {**WANTED, "rdma_fabric_host_mode": "apply"}
    inventory = own_inventory(tmp_path, {HOST: host})
    user.run(playbook, inventory=inventory, variables=given, cluster=control_plane)
    assert LIMITS_FILE in [step["target"] for step in plan_of(user)]
    assert not host.has(LIMITS_FILE)


def test_a_recorded_machine_is_planned_like_the_machine_itself(inventory: Path, user: User) -> None:
    recorded = user.run("record", inventory=inventory).succeeded()
    assert recorded.changed[HOST] == 1
    path = user.here / "rdma-fabric-recordings" / f"{HOST}.json.gz"
    assert json.loads(gzip.decompress(path.read_bytes()))["format"] == "rdma.fabric/recorded-host/v1"
    live = user.run("preview", inventory=inventory, variables=WANTED).succeeded()
    assert live.counts[HOST]["ok rdma.fabric.rdma_host"] == 1
    of_machine = plan_of(user)
    given = {**WANTED, "rdma_fabric_recording": str(path), "rdma_fabric_run_dir": "again"}
    user.run("preview", inventory=inventory, variables=given).succeeded()
    again = json.loads((user.here / "again" / "hosts" / f"{HOST}.json").read_text(encoding="utf-8"))
    assert again["recorded"] is True
    assert again["plan"]["steps"] == of_machine
