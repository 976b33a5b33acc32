# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles in plays of one's own: variables where Ansible takes them, several plays, and what their READMEs show."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any, Sequence

import pytest

from ansible_collections.rdma.fabric.tests.integration import guides
from ansible_collections.rdma.fabric.tests.integration.playbooks import FATAL, User
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from tools.checkout import CHECKOUT
from tools.fleet import INVENTORY, RECORDINGS

ROLES = sorted(path.name for path in (CHECKOUT / "roles").iterdir())
ONCE = """\
    - ansible.builtin.import_role: {name: rdma.fabric.preflight}
      run_once: true
      delegate_to: localhost
"""
FOR_HOSTS = "- hosts: rdma_fabric\n  gather_facts: false\n"
FOR_LOCALHOST = "- hosts: localhost\n  gather_facts: false\n"
PREVIEW = "rdma_fabric_host_mode: preview"
# Each play wishes for a module of its own, so that none finds what another one has left.
WISHES = ("rdma_ucm", "ib_umad", "rdma_cm", "nvme_rdma", "ib_srp", "ib_iser")


def wish(number: int) -> str:
    """Return a variable that the play of a number is to see."""
    return f"rdma_fabric_kernel_modules: [{WISHES[number]}]"


OF_INCLUDE = f"""\
{FOR_HOSTS}  tasks:
{ONCE}    - ansible.builtin.include_role: {{name: rdma.fabric.host}}
      vars: {{{wish(2)}, {PREVIEW}}}
"""
PLAYS = {
    "vars of a play": f"""\
{FOR_HOSTS}  vars: {{{wish(0)}, {PREVIEW}}}
  tasks:
{ONCE}    - ansible.builtin.include_role: {{name: rdma.fabric.host}}
""",
    "vars_files of a play": f"""\
{FOR_HOSTS}  vars_files: [wish.yml]
  tasks:
{ONCE}    - ansible.builtin.import_role: {{name: rdma.fabric.host}}
      vars: {{{PREVIEW}}}
""",
    "vars of include_role": OF_INCLUDE,
    "vars of roles, behind a play for localhost": f"""\
{FOR_LOCALHOST}  roles: [rdma.fabric.preflight]
{FOR_HOSTS}  roles:
    - role: rdma.fabric.host
      vars: {{rdma_fabric_kernel_modules: ["{{{{ '{WISHES[3][:5]}' ~ '{WISHES[3][5:]}' }}}}"], {PREVIEW}}}
""",
    "parameters of roles, behind a play for one host": f"""\
- hosts: two
  gather_facts: false
  tasks:
{ONCE}{FOR_HOSTS}  roles:
    - {{role: rdma.fabric.host, {wish(4)}, {PREVIEW}}}
""",
    "delegated roles": f"""\
{FOR_HOSTS}  vars: {{{wish(5)}, {PREVIEW}}}
  roles:
    - {{role: rdma.fabric.preflight, delegate_to: localhost, run_once: true}}
    - {{role: rdma.fabric.host, delegate_to: localhost}}
""",
}
PUT_AWAY = """\
{for_localhost}  tasks:
    - ansible.builtin.command: {{argv: [mv, rdma-fabric-run, "{name}"]}}
"""


@pytest.fixture
def user(tmp_path: Path) -> User:
    """Somebody with two recorded hosts that nothing is asked of."""
    user = User(tmp_path)
    hosts = {name: {"rdma_fabric_recording": str(RECORDINGS / "cpu-01.json.gz")} for name in ("one", "two")}
    (user.here / "hosts.json").write_text(json.dumps({"rdma_fabric": {"hosts": hosts}}), encoding="utf-8")
    (user.here / "wish.yml").write_text(wish(1), encoding="utf-8")
    return user


def play(user: User, text: str) -> str:
    path = user.here / "play.yml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_variables_of_hosts_count_wherever_ansible_takes_variables(user: User) -> None:
    """One play after the other, each with a run directory of its own."""
    text = "".join(each + PUT_AWAY.format(for_localhost=FOR_LOCALHOST, name=name) for name, each in PLAYS.items())
    user.run(play(user, text), inventory=user.here / "hosts.json").succeeded()
    wrong = []
    for (name, wanted), host in itertools.product(zip(PLAYS, WISHES), ("one", "two")):
        document = json.loads((user.here / name / "hosts" / f"{host}.json").read_text(encoding="utf-8"))
        steps = [step["target"] for step in document["plan"]["steps"] if step["concern"] == "modules"]
        if not steps or document["desired"]["kernel_modules"] != [wanted]:
            wrong.append(f"{name}: {host}: {steps}, {document['desired']}")
    assert wrong == []


def test_what_is_wrong_with_variables_of_a_role_is_refused_as_in_the_inventory(user: User) -> None:
    text = OF_INCLUDE.replace(wish(2), "rdma_fabric_kernel_modules: 7")
    failures = user.run(play(user, text), inventory=user.here / "hosts.json").refused().failures
    for host in ("one", "two"):
        (violation,) = failures[host]["violations"]
        assert violation["source"] == f"host {host}: rdma_fabric_kernel_modules"
    assert not (user.here / "rdma-fabric-run" / "hosts" / "one.json").exists()


NETWORK = '{rdma-net: {master: rail0, ipam: \'{"type": "host-local", "subnet": "192.0.2.0/24"}\'}}'


def refusals(user: User, roles: Sequence[str], before: str, **variables: str) -> dict[str, dict[str, Any]]:
    """Return by what each of some roles fails first in one play, behind ``before``."""
    given = ", ".join(f"{name}: {value}" for name, value in variables.items())
    tasks = "".join(
        f"    - ansible.builtin.import_role: {{name: rdma.fabric.{role}}}\n"
        f"      vars: {{rdma_fabric_render_dir: out, {given}}}\n"
        for role in roles
    )
    text = f"{FOR_LOCALHOST}  ignore_errors: true\n  tasks:\n{before}{tasks}"
    output = user.run(play(user, text), inventory=user.here / "hosts.json").output
    found: dict[str, dict[str, Any]] = {}
    for task in output.split("\nTASK [rdma.fabric.")[1:]:
        for match in FATAL.finditer(task):
            found.setdefault(task.partition(" : ")[0], json.loads(match["result"]))
    return found


READERS = ("cluster", "render", "drift", "status", "verify")


def test_an_input_that_only_preflight_reads_is_refused_by_name_where_it_comes_later(user: User) -> None:
    validated = "    - ansible.builtin.import_role: {name: rdma.fabric.preflight}\n"
    found = refusals(user, READERS, validated, rdma_fabric_macvlan_networks=NETWORK)
    assert set(found) == set(READERS)
    for result in found.values():
        (violation,) = result["violations"]
        assert violation["path"] == "rdma_fabric_macvlan_networks"
        assert "for the role rdma.fabric.preflight" in violation["hint"]


def test_a_role_without_preflight_before_it_names_what_is_missing(user: User) -> None:
    found, said = refusals(user, (*READERS, "report"), ""), "nothing was validated: run the role rdma.fabric.preflight"
    assert [role for role in (*READERS, "report") if said not in found[role]["msg"]] == []


@pytest.mark.repeated
def test_a_play_for_localhost_finds_what_a_play_for_hosts_validated(user: User) -> None:
    text = f"""\
{FOR_HOSTS}  vars: {{rdma_fabric_macvlan_networks: {NETWORK}}}
  tasks:
{ONCE}{FOR_LOCALHOST}  roles: [{{role: rdma.fabric.render, rdma_fabric_render_dir: out}}]
"""
    user.run(play(user, text), inventory=user.here / "hosts.json").succeeded()
    assert any("rdma-net" in path.read_text(encoding="utf-8") for path in (user.here / "out").rglob("*.yaml"))


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("reboot", "nothing was read of one in this run"),
        ("join", "nothing says whether the node of one is new"),
    ],
)
def test_a_part_without_the_one_before_it_fails_and_does_not_pass_for_done(user: User, part: str, said: str) -> None:
    text = f"{FOR_HOSTS}  tasks:\n    - ansible.builtin.import_role: {{name: rdma.fabric.host, tasks_from: {part}}}\n"
    outcome = user.run(play(user, text), inventory=user.here / "hosts.json").refused()
    assert said in outcome.failures["one"]["msg"]


# How the plays of READMEs end that run by themselves; what is compared with a cluster that is empty differs.
ALONE: dict[str, tuple[int, str]] = {
    "cluster": (0, "failed=0"),
    "drift": (2, "result:   pending"),
    "nccl": (2, "there is no NetworkAttachmentDefinition default/rail0 in the cluster"),
    "status": (2, "result:   pending"),
    "verify": (2, "there is no NetworkAttachmentDefinition default/rail0 in the cluster"),
}
# Those of the others are one playbook, in which as often a result is told.
TOGETHER = {"discover": 1, "host": 0, "preflight": 0, "render": 1, "report": 1}
OF_THIS_MACHINE: dict[str, Any] = {
    "ansible_connection": "local",
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
}


def shown(role: str) -> str:
    """Return the plays of the README of a role, which needs no other role but preflight before it."""
    (block,) = guides.blocks_of((CHECKOUT / "roles" / role / "README.md").read_text(encoding="utf-8"))
    assert role in ("discover", "preflight") or "rdma.fabric.preflight" in block
    return block


def readme_inventory(user: User, host: dict[str, Any]) -> Path:
    """Write the inventory of a host for whom plays of READMEs are."""
    (user.here / "files").mkdir()
    shutil.copy(INVENTORY.parent / "manifests" / "nic-cluster-policy.yaml", user.here / "files")
    wanted = {"rdma_fabric_macvlan_networks": {"rail0": {"master": "rail0", "ipam": '{"type": "whereabouts"}'}}}
    fleet = {"hosts": {"gpu-01": host}, "vars": {"ansible_become": False}}
    given = {"all": {"vars": wanted}, "rdma_fabric": fleet, "ungrouped": {"hosts": {"localhost": OF_THIS_MACHINE}}}
    inventory = user.here / "fleet.json"
    inventory.write_text(json.dumps(given), encoding="utf-8")
    return inventory


RECORDED = {"rdma_fabric_recording": str(RECORDINGS / "roce-h100-01.json.gz")}


@pytest.mark.parametrize("role", ALONE)
def test_what_the_readme_of_a_role_shows_runs(role: str, user: User, fleet_cluster: ControlPlane) -> None:
    inventory = readme_inventory(user, OF_THIS_MACHINE if role in ("drift", "status") else RECORDED)
    # Pods of nodes that are none run nothing.
    check = ["--check"] if role in ("verify", "cluster") else []
    outcome = user.run(play(user, shown(role)), *check, inventory=inventory, cluster=fleet_cluster)
    status, said = ALONE[role]
    assert (outcome.status, said in outcome.output) == (status, True), outcome.output


def test_what_the_readmes_of_the_other_roles_show_runs(user: User, fleet_cluster: ControlPlane) -> None:
    assert sorted({*ALONE, *TOGETHER}) == ROLES
    text = "".join(map(shown, TOGETHER))
    outcome = user.run(play(user, text), inventory=readme_inventory(user, RECORDED), cluster=fleet_cluster).succeeded()
    assert outcome.output.count("result:   ") == sum(TOGETHER.values())
