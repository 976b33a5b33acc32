# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The README's inventory, its commands and those of the reference, and the project for AWX: as they are printed."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.integration import guides
from ansible_collections.rdma.fabric.tests.integration.playbooks import User, run_bounded
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from tools.checkout import CHECKOUT, PROGRAMS
from tools.fleet import INVENTORY, RECORDINGS

POLICY = INVENTORY.parent / "manifests" / "nic-cluster-policy.yaml"
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
REFERENCE = (CHECKOUT / "docs" / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^ansible-playbook rdma\.fabric\..*$", README + REFERENCE, re.MULTILINE)
# What Ansible says of an inventory that is not one, or not whole.
COMPLAINT = re.compile(r"Unable to parse|Skipping|is undefined|no hosts matched")


@pytest.fixture
def user(tmp_path: Path) -> User:
    """Somebody who did what the README says, and has a policy written for the operator."""
    user = User(tmp_path)
    (inventory,) = guides.blocks_of(README)
    (user.here / "hosts.yml").write_text(inventory, encoding="utf-8")
    shutil.copy(POLICY, user.here / "policy.yaml")
    return user


def command_of(playbook: str, *options: str) -> list[str]:
    """Return the one command of the README that runs a playbook with these options among its own."""
    found = [shlex.split(line, comments=True) for line in COMMANDS if f" rdma.fabric.{playbook} " in line]
    return next(words for words in found if {*options} == {word for word in words if word.startswith("--")})


def run(user: User, command: list[str], *more: str, cluster: ControlPlane | None = None) -> str:
    environment = user.environment(cluster, None)
    status, output = run_bounded([str(PROGRAMS / command[0]), *command[1:], *more], user.here, environment)
    assert status == 0, output
    # Of the hosts to be rebooted, and of the nodes that a run has left cordoned, there is none.
    idle = r"PLAY \[(Reload and reboot them|Uncordon the nodes [^]]*)\] \**\nskipping: no hosts matched\n"
    assert not COMPLAINT.search(re.sub(idle, "", output)), output
    return output


# Stands for both hosts of the README, so that nobody has to be reached.
RECORDED = ("-e", json.dumps({"rdma_fabric_recording": str(RECORDINGS / "roce-h100-01.json.gz")}))


def test_the_inputs_are_valid(user: User) -> None:
    run(user, command_of("preflight"))


def test_the_preview_plans_both_hosts_and_renders_the_network(user: User) -> None:
    run(user, command_of("preview"), *RECORDED)
    report = user.report()
    assert [host["name"] for host in report["hosts"]] == ["gpu-01", "gpu-02"]
    actions = {step["action"] for plan in report["plans"] for step in plan["steps"]}
    assert {"rename enp24s0np0 to rail0", "set the MTU to 9000 (now 1500)"} <= actions
    objects = {(item["kind"], item["name"]) for wave in report["cluster"]["waves"] for item in wave["objects"]}
    assert ("NetworkAttachmentDefinition", "rail0") in objects


def test_site_in_check_mode_shows_the_plan_of_both_hosts(user: User, fleet_cluster: ControlPlane) -> None:
    output = run(user, command_of("site", "--check", "--diff"), *RECORDED, cluster=fleet_cluster)
    assert re.search(r"^gpu-01,gpu-02 \(2 hosts\): \d+ steps\n  planned: ", output, re.MULTILINE)


def test_render_writes_the_objects_of_a_policy(user: User) -> None:
    run(user, command_of("render"))
    assert list((user.here / "out").rglob("*.yaml"))


def test_the_project_for_awx_finds_its_manifest_from_where_it_is_started(
    user: User, fleet_cluster: ControlPlane
) -> None:
    (playbook,) = [block for block in guides.blocks_of(guides.guide("guide-awx.md")) if "import_playbook" in block]
    (user.here / "site.yml").write_text(playbook, encoding="utf-8")
    (user.here / "manifests").mkdir()
    shutil.copy(POLICY, user.here / "manifests" / "nic-cluster-policy.yaml")
    # An inventory in another folder that does not name localhost, as AWX writes one.
    inventory = user.home / "hosts.json"
    inventory.write_text(json.dumps({"rdma_fabric": {"hosts": {"gpu-01": {}}}}), encoding="utf-8")
    command = ["ansible-playbook", "site.yml", "-i", str(inventory), "--check", "--diff"]
    output = run(user, command, *RECORDED, cluster=fleet_cluster)
    assert "+++ after: DaemonSet nvidia-network-operator/kube-multus-ds" in output
