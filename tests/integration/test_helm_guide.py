# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide to the engine helm: its files and commands, as they are printed and in their order.

The chart of the guide's name is a stand-in with the operator's definitions; hosts are read from a recording.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.tests.integration.charts import (
    NAMESPACE,
    HelmUser,
    make_chart,
    operator,
    pack,
    releases,
)
from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.integration.playbooks import User, run_bounded
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.lab.programs import Programs
from tools.checkout import PROGRAMS
from tools.fleet import RECORDINGS

PAGE = guide("guide-helm.md")
FILES = ("hosts.yml", "fabric.yaml")
COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall(r"^```shell\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
RECORDED = json.dumps({"rdma_fabric_recording": str(RECORDINGS / "roce-h100-01.json.gz"), "ansible_become": False})


@pytest.fixture(scope="module")
def cluster(lab_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("helm-guide"), programs=lab_programs) as running:
        apply_nodes(running.api, [kwok_node(name) for name in ("gpu-01", "gpu-02")])
        yield running


@pytest.fixture
def user(tmp_path: Path) -> User:
    """Somebody with the files of the guide, and the chart that it names."""
    found = HelmUser(tmp_path)
    for name, block in zip(FILES, blocks_of(PAGE)):
        (found.here / name).write_text(block, encoding="utf-8")
    pack(make_chart(tmp_path / "network-operator"), found.here / "charts")
    return found


def do(words: list[str], cluster: ControlPlane, user: User) -> str:
    """Do one command of the guide."""
    program, *arguments = words
    if program == "kubectl":
        return cluster.kubectl(*arguments)
    environment = user.environment(cluster, None)
    given = ["-e", RECORDED] if program == "ansible-playbook" else []
    path = PROGRAMS / program if given else shutil.which(program, path=environment["PATH"])
    status, output = run_bounded([str(path), *arguments, *given], user.here, environment)
    # The recorded host waits for its steps, so that status names it.
    assert status == 0 or "rdma.fabric.status" in words, output
    return output


def test_every_block_is_one_that_is_done() -> None:
    assert len(blocks_of(PAGE)) == len(FILES)
    assert all(f"`{name}`" in PAGE for name in FILES)
    assert len(re.findall(r"^```\w+$", PAGE, re.MULTILINE)) == len(FILES) + 2
    assert {words[0] for words in COMMANDS} == {"ansible-playbook", "helm", "kubectl"}


def test_every_command_of_the_guide_does_what_it_says(cluster: ControlPlane, user: User) -> None:
    printed = {}
    with operator(cluster):
        for words in COMMANDS:
            printed[" ".join(words)] = do(words, cluster, user)
            if words[1:2] == ["rdma.fabric.status"]:
                assert len(releases(cluster)) == 1
    assert "rename enp24s0np0 to rail0" in printed["ansible-playbook rdma.fabric.site -i hosts.yml --check --diff"]
    (listed,) = [output for command, output in printed.items() if command.startswith("helm list")]
    assert re.search(
        r"^network-operator\s+nvidia-network-operator\s+1\s.*deployed\s+network-operator-26.7.0", listed, re.M
    )
    (resources,) = [output for command, output in printed.items() if "get nicclusterpolicies" in command]
    assert {line.split()[0] for line in resources.splitlines() if "/" in line} == {
        "nicclusterpolicy.mellanox.com/nic-cluster-policy",
        "macvlannetwork.mellanox.com/rail0",
    }
    (pools,) = [output for command, output in printed.items() if "get ippools" in command]
    assert pools.splitlines()[1].split()[0] == "rail0"
    (shown,) = [output for command, output in printed.items() if "fabric.status" in command]
    assert f"engine: helm, release network-operator in {NAMESPACE}" in shown
    assert releases(cluster) == {}
    assert cluster.kubectl("get", "nicclusterpolicies,macvlannetworks", "--output=name") == ""
