# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stranger's path: the blocks of the README and the reference, from the built artifact to the last playbook.

The stranger has a new home in a folder with a space in its name, the artifact, and a policy. There is no network but
the package index: every command but pip finds a closed port for a proxy, so that Galaxy, for one, can't be asked.
The playbooks cost as little as those of the other tests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.tests.integration.playbooks import LEAN, run_bounded
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.lab.programs import Programs
from tools.artifact import build_and_install
from tools.checkout import CHECKOUT
from tools.fleet import INVENTORY, RECORDINGS

POLICY = INVENTORY.parent / "manifests" / "nic-cluster-policy.yaml"
PAGES = (CHECKOUT / "README.md", CHECKOUT / "docs" / "README.md")
BLOCKS: list[tuple[str, str]] = re.findall(
    r"^```(\w*)\n(.*?)^```$", "".join(page.read_text(encoding="utf-8") for page in PAGES), re.MULTILINE | re.DOTALL
)
NOWHERE = "http://127.0.0.1:9"
LIMIT_SECONDS = 600.0
PLAYBOOK = "ansible-playbook "
# Every line of a shell block that is not run here, with the reason.
NOT_RUN = {
    "make demo": "needs the checkout; the gate `demo` runs it",
    "make test": "is what runs this",
    "ansible-playbook rdma.fabric.verify -i hosts.yml": "sends between pods, and those of KWOK run nowhere;"
    " tests/integration/test_verify.py and the gate `roce-shared` run it",
}
# How each command ends on two recorded hosts, which nothing is done to: exit status, and what it says.
ENDS = {
    "python3 -m venv venv": (0, ""),
    "pip install": (0, ""),
    "ansible-galaxy collection install": (0, "rdma.fabric:0.1.0 was installed successfully"),
    "rdma.fabric.preflight": (0, "result:   valid\ncounts:   2 hosts"),
    "rdma.fabric.preview": (0, "2 recorded hosts planned, 10 steps pending"),
    "rdma.fabric.site -i hosts.yml --check --diff": (0, "+++ after: DaemonSet nvidia-network-operator/kube-multus-ds"),
    "rdma.fabric.site -i hosts.yml": (0, "40 objects in the cluster"),
    "rdma.fabric.join": (2, "rdma_fabric_join_taint is not set"),
    "rdma.fabric.upgrade": (0, "40 objects in the cluster"),
    "rdma.fabric.rollback": (0, "unchanged"),
    "rdma.fabric.status": (2, "pending: gpu-01, gpu-02"),
    "rdma.fabric.drift": (2, "2 hosts different: gpu-01,gpu-02"),
    "rdma.fabric.teardown": (0, "result:   changed"),
    "rdma.fabric.adopt": (0, "result:   unchanged"),
    "rdma.fabric.release": (0, "result:   unchanged"),
    "rdma.fabric.render": (0, "out"),
    "rdma.fabric.discover": (0, "2 hosts in 1 class"),
    "rdma.fabric.record": (0, "2 hosts recorded"),
    "rdma.fabric.support": (0, "2 hosts recorded"),
}
# No host is to be reached: those of the README are recorded ones, and what is recorded anew is this machine.
RECORDED = {"rdma_fabric_recording": "{{ inventory_dir }}/" + "roce-h100-01.json.gz"}
THIS_MACHINE = {"ansible_connection": "local", "ansible_become": False}


@dataclass
class Stranger:
    """Somebody who pastes line after line into one shell."""

    home: Path
    here: Path
    cluster: ControlPlane
    lasting: list[str] = field(default_factory=list)

    def environment(self, line: str) -> dict[str, str]:
        """Return all there is in the environment of a line: pip has its index, nothing else a way out."""
        own = {
            "PATH": os.pathsep.join([f"{sys.base_prefix}/bin", os.defpath]),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "ANSIBLE_NOCOLOR": "1",
        }
        if line.startswith("pip "):
            return {
                **own,
                **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
                **_proxies(),
                # Most of the 15,000 files of the package ansible are never imported; Python compiles those that are.
                "PIP_COMPILE": "no",
            }
        closed = {each: NOWHERE for name in ("http_proxy", "https_proxy", "all_proxy") for each in (name, name.upper())}
        found = self.cluster.command_environment({**own, **closed, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"})
        del found["K8S_AUTH_KUBECONFIG"]
        lean = {**LEAN, "RDMA_FABRIC_BYTECODE": str(self.home / "bytecode")} if line.startswith(PLAYBOOK) else {}
        # Not the programs of the checkout, but those that the README installs.
        return {**found, **lean, "PATH": own["PATH"]}

    def paste(self, line: str) -> tuple[int, str]:
        """Run a line after those that change the shell itself; return its status and what it printed."""
        script = "\n".join(["set -e", *self.lasting, line])
        return run_bounded(["bash", "-c", script], self.here, self.environment(line), LIMIT_SECONDS)


def _proxies() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}


def lines_of(block: str) -> list[str]:
    """Return the commands of a block, as they are without their comments."""
    found = [re.sub(r"\s+#.*$", "", line).strip() for line in block.splitlines()]
    return [line for line in found if line and not line.startswith("#")]


def end_of(line: str) -> tuple[int, str]:
    """Return how a command of the README is to end; the longest entry that it holds says so."""
    known = [part for part in ENDS if part in line]
    assert known, f"say in ENDS how this ends, or in NOT_RUN why it is not run: {line}"
    return ENDS[max(known, key=len)]


@pytest.fixture
def stranger(lab_programs: Programs, tmp_path: Path) -> Iterator[Stranger]:
    """A stranger with an empty home, the artifact, a policy for `render`, and a cluster of two nodes."""
    place = tmp_path / "place of a stranger"
    home, here = place / "home", place / "my fabric"
    home.mkdir(parents=True)
    here.mkdir()
    artifact, _collections = build_and_install()
    shutil.copy(artifact, here)
    shutil.copy(RECORDINGS / "roce-h100-01.json.gz", here)
    shutil.copy(POLICY, here / "policy.yaml")
    (here / "group_vars").mkdir()
    (here / "group_vars" / "rdma_fabric.yml").write_text(json.dumps(RECORDED), encoding="utf-8")
    with ControlPlane(tmp_path / "cluster", programs=lab_programs) as cluster:
        apply_nodes(cluster.api, [kwok_node(name, {}) for name in ("gpu-01", "gpu-02")])
        yield Stranger(home, here, cluster)


def test_a_strangers_path_from_the_artifact_to_the_last_playbook(stranger: Stranger) -> None:
    ended: dict[str, str] = {}
    for language, block in BLOCKS:
        if language == "yaml":
            (stranger.here / "hosts.yml").write_text(block, encoding="utf-8")
        else:
            assert language == "shell", f"neither run nor pasted: {block}"
            for line in lines_of(block):
                if line not in NOT_RUN and line not in ended:
                    ended[line] = followed(stranger, line)
    (discovered,) = [output for line, output in ended.items() if "rdma.fabric.discover" in line]
    # What comes next can be pasted as well: the inventory is one word.
    named = re.findall(r"-i ('[^']*')", discovered.partition("RUN RESULT")[2])
    assert named.count(f"'{stranger.here / 'rdma-fabric-inventory' / 'hosts.yml'}'") == 1, discovered
    assert (stranger.here / "out").is_dir()
    installed = stranger.home / ".ansible" / "collections" / "ansible_collections" / "rdma" / "fabric"
    assert (installed / "FILES.json").is_file()


def followed(stranger: Stranger, line: str) -> str:
    """Paste one line; return what it printed, once it has ended as it should."""
    if line.startswith((". ", "export ")):
        stranger.lasting.append(line)
        return ""
    reached = f" -e '{json.dumps(THIS_MACHINE)}'" if "rdma.fabric.record" in line else ""
    status, words = end_of(line)
    ended, output = stranger.paste(line + reached)
    assert (ended, words in output) == (status, True), f"{line}\n{output}"
    assert "Traceback" not in output, output
    return output


def test_what_is_not_run_is_in_the_readme() -> None:
    lines = {line for language, block in BLOCKS if language == "shell" for line in lines_of(block)}
    assert sorted(set(NOT_RUN) - lines) == []
    assert sorted(part for part in ENDS if not any(part in line for line in lines)) == []
