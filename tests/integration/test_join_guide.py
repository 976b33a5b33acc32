# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide to new nodes: its commands, its YAML and its systemd unit, as they are printed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.taints import taint_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import JOIN_UNIT_FILE
from ansible_collections.rdma.fabric.tests.integration.after_site import push
from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.integration.joining import TEXT, Joining
from ansible_collections.rdma.fabric.tests.integration.playbooks import stored_writes
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import NIC_LABEL
from ansible_collections.rdma.fabric.tests.lab.readers import Readers
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import RDMA_CONFIG
from tools.checkout import CHECKOUT, PROGRAMS

GUIDE = guide("guide-new-nodes.md")
VARIABLE, KUBELET, KUBEADM, PLAY = blocks_of(GUIDE)
UNIT, LIMITED = re.findall(r"^```ini\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def commands(program: str) -> list[list[str]]:
    return [shlex.split(line, comments=True) for line in GUIDE.splitlines() if line.startswith(f"{program} ")]


@pytest.fixture
def new_nodes(fleet_of_new: Joining) -> Iterator[ControlPlane]:
    """The cluster, after an administrator has run the guide's commands for the user of new nodes."""
    cluster = fleet_of_new.cluster
    bindings = [words[1:] for words in commands("kubectl") if words[1] != "get"]
    for words in bindings:
        cluster.kubectl(*(str(CHECKOUT / word) if word.startswith("playbooks/") else word for word in words))
    yield cluster
    for words in bindings[1:]:
        cluster.kubectl("delete", *words[1:3])
    cluster.kubectl("delete", "--filename", str(CHECKOUT / "playbooks" / "files" / "cluster-roles.yaml"))


def test_its_taint_is_the_same_everywhere() -> None:
    text = yaml.safe_load(VARIABLE)["rdma_fabric_join_taint"]
    assert yaml.safe_load(KUBELET)["registerWithTaints"] == [taint_of(text)]
    assert yaml.safe_load(KUBEADM)["nodeRegistration"]["taints"] == [taint_of(text)]
    assert text == TEXT
    assert f"--register-with-taints={text.replace(':', '=:')}`" in GUIDE


def test_its_commands_run_on_nodes_that_are_registered_as_it_says(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    fleet.register("one", "two", taints=tuple(yaml.safe_load(KUBELET)["registerWithTaints"]))
    fleet.register("three")
    printed = commands("ansible-playbook")
    assert [words[:4] for words in printed] == [["ansible-playbook", "rdma.fabric.join", "-i", "hosts.yml"]] * 3
    for words, joined in zip(printed, ([], ["one"], ["one", "two", "three"])):
        fleet.join(*(word.replace("new-07", "one") for word in words[4:])).succeeded()
        assert fleet.joined() == joined
    (get,) = [words for words in commands("kubectl") if words[1] == "get"]
    lines = fleet.cluster.kubectl(*get[1:]).splitlines()
    shown = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert [json.loads(shown[node])["joined"] for node in fleet.nodes.values()] == [True] * 3


def test_nodes_that_work_are_marked_by_its_play_and_keep_their_pods(fleet_of_new: Joining, tmp_path: Path) -> None:
    fleet = fleet_of_new
    fleet.register("one", "two", "three")
    for node in fleet.nodes.values():
        fleet.pod(node)
    play = tmp_path / "play.yml"
    play.write_text(PLAY, encoding="utf-8")
    mark = fleet.cluster.audit.mark()
    fleet.user.run(
        str(play),
        inventory=fleet.inventory,
        variables=yaml.safe_load(VARIABLE),
        cluster=fleet.cluster,
        kubeconfig=fleet.cluster.kubeconfig,
    ).succeeded()
    assert fleet.joined() == list(fleet.nodes)
    assert sorted(fleet.writes_to_nodes(mark)) == sorted(fleet.nodes.values())
    assert fleet.pods() == sorted(fleet.nodes.values())
    outcome = fleet.join().succeeded()
    assert fleet.changed() == []
    assert "left alone because their nodes work: one, two, three" in " ".join(outcome.output.split())


def test_systemd_finds_nothing_wrong_with_its_unit(readers: Readers, tmp_path: Path) -> None:
    name = JOIN_UNIT_FILE.rpartition("/")[2]
    assert f"`{JOIN_UNIT_FILE}`:" in GUIDE
    # The program is where this checkout has it; what it is told is as printed.
    given = UNIT.replace("/usr/bin/ansible-playbook", str(PROGRAMS / "ansible-playbook"))
    analyze = readers.program("usr/bin/systemd-analyze")
    unit = tmp_path / name

    def verify(text: str) -> tuple[int, str]:
        unit.write_text(text, encoding="utf-8")
        unit.chmod(0o644)
        argv: list[str | Path] = [analyze, "verify", "--man=no", "--recursive-errors=one", unit]
        done = readers.run(argv, SYSTEMD_UNIT_PATH=f"{tmp_path}:")
        return done.returncode, done.stderr

    assert verify(given) == (0, "")
    assert "StartLimitIntervalSec=0\n" in given
    assert verify(given.replace("StartLimitIntervalSec=0\n", LIMITED)) == (0, "")
    assert "Restarts" in verify(given.replace("Restart=", "Restarts="))[1]
    told = {word for words in [*commands("systemctl"), *commands("journalctl")] for word in words}
    assert name in told


def test_its_unit_goes_with_the_run_that_has_let_the_node_join_and_not_before(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    fleet.register("one", devices="0")
    fleet.bring_unit("one", UNIT)
    both = [JOIN_UNIT_FILE.rpartition("/")[2]] * 2
    fleet.join("--limit", "one", rdma_fabric_join_timeout=2).refused()
    assert fleet.units("one") == both
    fleet.offer("one", 8)
    fleet.join("--limit", "one").succeeded()
    assert (fleet.joined(), fleet.units("one")) == (["one"], [])


def test_a_node_joins_by_the_command_of_its_unit_with_no_more_than_the_rights_that_are_named(
    fleet_of_new: Joining, new_nodes: ControlPlane
) -> None:
    fleet = fleet_of_new
    pushed: dict[str, Any] = {
        "rdma_fabric_nic_cluster_policy": {"rdmaSharedDevicePlugin": {"config": json.dumps(RDMA_CONFIG)}},
        "rdma_fabric_nfd": False,
        "rdma_fabric_join_taint": TEXT,
    }
    push(fleet.cluster, fleet.namespace, pushed, set=fleet.namespace, wait=False)
    given = {**pushed, "rdma_fabric_set": fleet.namespace}
    fleet.register("one", taints=(taint_of(TEXT),), **NIC_LABEL)
    kubeconfig = new_nodes.client_kubeconfig("new-nodes")
    (line,) = [line for line in UNIT.splitlines() if line.startswith("ExecStart=")]
    words = shlex.split(line.partition("=")[2].replace("%H", "one"))
    assert words[:4] == ["/usr/bin/ansible-playbook", "rdma.fabric.join", "-i", "hosts.yml"]
    mark = new_nodes.audit.mark()
    fleet.join(*words[4:], kubeconfig=kubeconfig, **given).succeeded()
    assert fleet.joined() == ["one"]
    writes = stored_writes(new_nodes.audit, mark, user="new-nodes")
    assert {write.split("?")[0] for write in writes} == {f"patch /api/v1/nodes/{fleet.nodes['one']}"}, writes
